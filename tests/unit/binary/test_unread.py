"""Libraries on a server are read without their code for GPUs: no table may go on there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile, Tag
from abiscan.binary.section_headers import find_gpu_code
from abiscan.errors import NotElfError

LIBRARY: Final = (Path(__file__).parents[2] / "data" / "gpu" / "group.so").read_bytes()
WHOLE: Final = ElfFile.from_bytes(LIBRARY, "group.so")


def test_facts_are_those_of_the_whole_file() -> None:
    unread = find_gpu_code(memoryview(LIBRARY))
    hollow = LIBRARY[: unread.start] + bytes(len(unread)) + LIBRARY[unread.stop :]
    assert ElfFile.from_bytes(hollow, "group.so", unread=unread).facts() == WHOLE.facts()


@pytest.mark.parametrize("tag", [Tag.SYMTAB, Tag.STRTAB, Tag.GNU_HASH, Tag.RELA, Tag.JMPREL, Tag.VERNEED, Tag.VERSYM])
@pytest.mark.parametrize("before", [0, 8, 24])
def test_a_table_that_goes_on_in_what_was_not_read_is_damaged(tag: Tag, before: int) -> None:
    start = WHOLE.dynamic[tag] + before  # addresses are places in the file, in the first segment
    unread = range(start, start + 8)
    hollow = LIBRARY[:start] + bytes(8) + LIBRARY[unread.stop :]
    with pytest.raises(NotElfError, match=r"group\.so: damaged"):
        ElfFile.from_bytes(hollow, "group.so", unread=unread).facts()
