"""Large libraries of wheels are copied without the contents of their containers for GPUs."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import zipfile
from pathlib import Path
from typing import IO, Final

import pytest

from abiscan import api
from abiscan.binary.elf import ElfFile
from abiscan.binary.loadable import PT_DYNAMIC
from abiscan.binary.section_headers import find_gpu_code
from abiscan.inputs import files, hollow
from abiscan.inputs.files import Wheel, random_access
from abiscan.inputs.hollow import HollowCopy
from abiscan.inputs.session import Session
from tests.fakes import wheel

LIBRARY: Final = (Path(__file__).parents[2] / "data" / "gpu" / "group.so").read_bytes()
CODE: Final = find_gpu_code(memoryview(LIBRARY)).place
PAGE: Final = 1 << 8
TEXT: Final = b"\0the text of the host\0"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if pages were small, and a library of some of them large."""
    monkeypatch.setattr(hollow, "_PAGE", PAGE)
    monkeypatch.setattr(hollow, "_WORTHWHILE", PAGE)
    monkeypatch.setattr(files, "_SMALL_MEMBER", 0)
    monkeypatch.setattr(files, "_INFLATED", {})


def container(size: int, *, claims: int | None = None) -> bytes:
    """A container of CUDA of some bytes, or one that claims another size."""
    payload = random.Random(size).randbytes(size - 16)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, (claims or size) - 16) + payload


def with_section(contents: bytes, before: bytes = b"") -> bytes:
    """The library with other contents in its section for GPUs, or before it."""
    assert len(contents) <= len(CODE)
    start = CODE.start - len(before)
    return LIBRARY[:start] + before + contents.ljust(len(CODE), b"!") + LIBRARY[CODE.stop :]


def copied(content: bytes, tmp_path: Path) -> bytes:
    """What is read of a library in a wheel; its hash and its texts are those of the whole one."""
    member = Wheel(wheel(tmp_path / "x.whl", {"x.so": content})).find_member("x.so")
    file, whole = member.open_elf(), ElfFile.from_bytes(content, "x.so")
    assert member.hash_content() == hashlib.sha256(content).hexdigest()
    assert list(file.find_in_data(TEXT)) == list(whole.find_in_data(TEXT))
    assert file.facts() == ElfFile.from_bytes(content, file.subject).facts()
    read = bytes(file.data)
    with random_access(member) as part:
        assert part(0, len(content)) == content
    return read


def test_contents_of_containers_are_left_out(tmp_path: Path) -> None:
    pytest.importorskip("isal")  # without it, zipfile inflates, and all is written
    sizes = [3 * PAGE, 40, 5 * PAGE + 8]
    content = with_section(b"".join(map(container, sizes)) + TEXT)
    read = copied(content, tmp_path)
    same = [at for at in range(0, len(content), PAGE) if read[at : at + PAGE] == content[at : at + PAGE]]
    left_out = len(content) // PAGE + 1 - len(same)
    assert 2 + 4 - 2 <= left_out <= 2 + 5
    for at in range(0, len(content), PAGE):
        assert read[at : at + PAGE] in (content[at : at + PAGE], bytes(PAGE))


LIES: Final = {
    "a container that is larger than its section": with_section(container(16, claims=len(CODE) + PAGE) + TEXT),
    "what is none before it": with_section(b"!" * 40 + container(3 * PAGE)),
    "one that begins before the section": with_section(container(2 * PAGE), before=container(16, claims=3 * PAGE)),
    "one in another one, and beyond its end": with_section(
        container(64 - 24) + TEXT.ljust(3 * PAGE, b"?") + container(PAGE), before=container(16, claims=40)
    ),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_what_looks_like_a_container_and_is_none_is_not_left_out(lie: bytes, tmp_path: Path) -> None:
    assert copied(lie, tmp_path) == lie


def test_a_library_with_tables_in_a_container_is_read_whole(tmp_path: Path) -> None:
    """The address of its strings leads there."""
    content = bytearray(with_section(container(9 * PAGE)))
    file = ElfFile.from_bytes(bytes(content), "x.so")
    segment = next(s for s in file.segments if s.offset <= CODE.start < s.offset + s.file_size)
    (start,) = (header[2] for header in file.headers if header[0] == PT_DYNAMIC)
    number = next(number for number, (tag, _) in enumerate(file.entries) if tag == 0x6FFF_FFFE)  # DT_VERNEED
    struct.pack_into("<Q", content, start + 16 * number + 8, CODE.start + 2 * PAGE - segment.offset + segment.address)
    member = Wheel(wheel(tmp_path / "x.whl", {"x.so": bytes(content)})).find_member("x.so")
    assert bytes(member.open_elf().data) == bytes(content)


@pytest.mark.parametrize("size", [7, 15, 16, 17, 1000, PAGE, 3 * PAGE + 5])
def test_containers_are_found_however_a_library_is_cut_into_blocks(size: int) -> None:
    content = b"!" * 5000 + container(4 * PAGE) + container(50) + container(3 * PAGE) + b"!" * 9
    stream = io.BytesIO()
    copy = HollowCopy(stream, len(content))
    for at in range(0, len(content), size):
        copy.write(content[at : at + size])
    written = bytearray(stream.getvalue())
    for hole in copy.holes:
        assert not any(written[hole.start : hole.stop])
        written[hole.start : hole.stop] = content[hole.start : hole.stop]
    assert bytes(written) == content
    assert bool(copy.holes) == (size >= PAGE)


def test_no_more_places_are_looked_at_than_a_library_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """What repeats the first bytes of a container compresses to nothing."""
    monkeypatch.setattr(hollow, "_MOST", 100)
    content = container(4 * PAGE) + b"\x50\xed\x55\xba" * 99 + container(4 * PAGE)
    copy = HollowCopy(io.BytesIO(), len(content))
    copy.write(content)
    assert [hole.start < 4 * PAGE for hole in copy.holes] == [True]


@pytest.mark.parametrize(("gpus", "hollow_copies"), [((), 1), (("sm_90",), 0)], ids=["without", "with"])
def test_a_library_is_inflated_once(
    gpus: tuple[str, ...], hollow_copies: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its code for GPUs at once, if that is asked for."""
    content = with_section(b"".join(map(container, [3 * PAGE, 40, 5 * PAGE + 8])))
    copies, copy = list[bool](), Wheel.copy_member

    def count(archive: Wheel, info: zipfile.ZipInfo, to: IO[bytes], hollow_copy: HollowCopy | None) -> str:
        copies.append(hollow_copy is not None)
        return copy(archive, info, to, hollow_copy)

    monkeypatch.setattr(Wheel, "copy_member", count)
    path = wheel(tmp_path / "x-1.0-py3-none-any.whl", {"x.so": content})
    api.check(path, torch="2.9.1", gpus=gpus, session=Session(folder=tmp_path / "cache"))
    assert copies == [bool(hollow_copies)]
