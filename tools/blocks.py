"""Writes the files of ``abiscan.torches.blocks``: some columns of a kind are added, replaced or removed.

Columns that are new are put into a new file behind the others. To replace or remove some, the file that has the first
of them and those behind it are written again, as one; the files before it stay as they are. The same columns give the
same bytes.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec.json
from packaging.version import Version

import abiscan.torches
from abiscan.torches import names
from abiscan.torches.blocks import MAGIC, START, BlockFile, Head
from abiscan.torches.marks import SEPARATOR, MarkTable, grouped
from abiscan.torches.names import NameTable, hash_name

DATA: Final = Path(abiscan.torches.__file__).with_name("data")
TEXT: Final = 32 << 10
"""The text in a block of marks."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_Item = TypeVar("_Item", bound=Hashable)
Mark = tuple[str, str]
"""A key, and a mark of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Some blocks of a file, as they are stored; with the first key of each if they are found by key."""

    blocks: Sequence[bytes]
    keys: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a kind makes of its items: the sets of columns, by their numbers, and the sections of the file."""

    sets: Sequence[int]
    sections: Mapping[str, Section]


def compress(content: object) -> bytes:
    """The block of some bytes, or of what JSON can say."""
    return zlib.compress(content if isinstance(content, bytes) else msgspec.json.encode(content, order="sorted"), 9)


def file_of(
    columns: Sequence[str], layout: Layout, parents: Sequence[int | None] = (), meta: Sequence[Any] = ()
) -> bytes:
    """The bytes of a file.

    :param parents: for each column, the older column that it is a change of; none of them is one by default
    """
    width = max(((bits.bit_length() + 7) // 8 for bits in layout.sets), default=0)
    blocks = [b"", compress(b"".join(bits.to_bytes(width, "little") for bits in layout.sets))]
    places = {}
    for name, section in layout.sections.items():
        if section.keys is not None:
            blocks.append(compress(section.keys))
        places[name] = len(blocks), len(section.blocks)
        blocks += section.blocks
    kept_parents = list(parents) or [None] * len(columns)
    head = Head(columns=list(columns), parents=kept_parents, width=width, meta=list(meta), sections=places)
    blocks[0] = compress(head)
    ends = itertools.accumulate(map(len, blocks), initial=START.size + 8 * (len(blocks) + 1))
    checksums = [*map(zlib.crc32, blocks), 0]
    index = b"".join(struct.pack("<II", *entry) for entry in zip(ends, checksums, strict=True))
    return b"".join([START.pack(MAGIC, len(blocks), zlib.crc32(index)), index, *blocks])


def order(column: str) -> tuple[Version, Sequence[str]]:
    """Columns are in the order of their versions, which their names begin with, then of the rest of their names."""
    version, *rest = column.split(" ")
    return Version(version), rest


def read_files(folder: Path) -> list[BlockFile]:
    """The files of a kind; none if there is no folder yet."""
    count = len(list(folder.glob("*.blocks")))
    return [BlockFile((path := folder / f"{number}.blocks").read_bytes(), str(path)) for number in range(count)]


def write_columns(
    folder: Path, added: Collection[str], without: Collection[str], make: Callable[[int, Sequence[str]], bytes]
) -> None:
    """Write the file that has some columns that are added or replaced, without those that are removed.

    :param make: makes it behind a number of files that stay, of the columns that it is to have
    """
    files = read_files(folder)
    changed = {*added, *without}
    kept = next((number for number, file in enumerate(files) if changed & {*file.head.columns}), len(files))
    rest = {column for file in files[kept:] for column in file.head.columns} - {*without}
    columns = sorted(rest | {*added}, key=order)
    if columns or not kept:
        folder.mkdir(exist_ok=True, parents=True)
        (folder / f"{kept}.blocks").write_bytes(make(kept, columns))
    for number in range(kept + bool(columns), len(files)):
        (folder / f"{number}.blocks").unlink()


# ---- items that columns share


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of data whose columns are sets of items.

    :ivar items: all items of the files, each with its columns
    :ivar layout: how the items of a file are laid out
    """

    items: Callable[[Sequence[BlockFile]], dict[Any, int]]
    layout: Callable[[Mapping[Any, int]], Layout]

    def put(
        self,
        folder: Path,
        content: Mapping[str, Iterable[Any]],
        without: Collection[str] = (),
        describe: Callable[[Sequence[str]], Sequence[Any]] = lambda _: (),
    ) -> None:
        """Add or replace columns.

        :param content: the items of each
        :param without: columns that are removed
        :param describe: what the kind says of the columns of a file
        """

        def make(kept: int, columns: Sequence[str]) -> bytes:
            files = read_files(folder)
            old = [column for file in files for column in file.head.columns]
            before = [column for file in files[:kept] for column in file.head.columns]
            items = moved(self.items(files), old, [*before, *columns], content)
            parents, changes = changes_of(items, before, columns)
            return file_of(columns, self.layout(changes), parents, describe(columns))

        write_columns(folder, content, without, make)


def moved(
    items: Mapping[_Item, int], old: Sequence[str], new: Sequence[str], content: Mapping[str, Iterable[_Item]]
) -> dict[_Item, int]:
    """The items of a table, each with the set of its columns, after some columns were replaced, added or removed.

    :param old: the columns, by their numbers
    :param new: the columns afterwards
    :param content: the items of the columns that are new or replaced
    """
    numbers = {column: number for number, column in enumerate(new)}
    kept = [(number, column) for number, column in enumerate(old) if column in numbers and column not in content]
    pairs = [(1 << number, 1 << numbers[column]) for number, column in kept]
    moved_sets = {bits: sum(now for was, now in pairs if bits & was) for bits in set(items.values())}
    result = {item: moved_sets[bits] for item, bits in items.items() if moved_sets[bits]}
    for column, own in content.items():
        for item in own:
            result[item] = result.get(item, 0) | 1 << numbers[column]
    return result


def changes_of(
    items: Mapping[_Item, int], before: Sequence[str], added: Sequence[str]
) -> tuple[list[int | None], dict[_Item, int]]:
    """What is written of the last columns: the parent of each, and the items in which any differs from its parent.

    :param before: the columns in older files, which may be parents
    """
    counts = Counter(items.values())
    parents = [_parent_of(number, column, before, counts) for number, column in enumerate(added, len(before))]

    def change(bits: int) -> int:
        own = (1 << number for number, parent in enumerate(parents) if parent is not None and bits >> parent & 1)
        return bits >> len(before) ^ sum(own)

    changed = {bits: change(bits) for bits in counts}
    return parents, {item: changed[bits] for item, bits in items.items() if changed[bits]}


def _parent_of(number: int, column: str, before: Sequence[str], counts: Mapping[int, int]) -> int | None:
    """The older column that differs in the fewest items: the same library of another build, say; None if all differ."""
    best, fewest = None, sum(count for bits, count in counts.items() if bits >> number & 1)
    for parent in reversed(range(len(before))):
        if before[parent].split(" ")[1:] == column.split(" ")[1:]:
            differing = sum(count for bits, count in counts.items() if (bits >> parent ^ bits >> number) & 1)
            if differing < fewest:
                best, fewest = parent, differing
    return best


# ---- names


def names_in(files: Sequence[BlockFile]) -> dict[str, int]:
    """The names of all files."""
    if not files:
        return {}
    return {name: bits for bits, same in NameTable(files).by_columns().items() for name in same}


def layout_of_names(items: Mapping[str, int]) -> Layout:
    """The sections of ``abiscan.torches.names``.

    :param items: names, which are printable ASCII
    :raises ValueError: two names have the same hash
    """
    listed = sorted(items)
    numbers: dict[int, int] = {}
    for name in listed:
        numbers.setdefault(items[name], len(numbers))
    page_bits = min((len(listed) // names.BLOCK).bit_length(), names.HASH_BITS - names.LOW_BITS - names.BUCKET_BITS)
    # A collision among the names of a file shows here, and would be an error of the data; one with a name that is not
    # in the file cannot be seen.
    hashed = {hash_name(name, page_bits): numbers[items[name]] for name in listed}
    if len(hashed) < len(listed):
        raise ValueError("two names have the same hash: change the hash")
    pages: list[list[tuple[int, int, int]]] = [[] for _ in range(1 << page_bits)]
    for page, bucket, low in sorted(hashed):
        pages[page].append((bucket, low, hashed[page, bucket, low]))
    parts = [listed[start : start + names.BLOCK] for start in range(0, len(listed), names.BLOCK)]
    numbers_listed = struct.pack(f"<{len(listed)}H", *(numbers[items[name]] for name in listed))
    return Layout(
        sets=list(numbers),
        sections={
            "hashes": Section(blocks=list(map(_page, pages))),
            "listed": Section(blocks=[compress(numbers_listed)]),
            "names": Section(blocks=[compress(_front_coded(part)) for part in parts], keys=[part[0] for part in parts]),
        },
    )


def _page(hashed: Sequence[tuple[int, int, int]]) -> bytes:
    counts = Counter(bucket for bucket, _, _ in hashed)
    starts = list(itertools.accumulate((counts[bucket] for bucket in range(names.BUCKETS)), initial=0))
    return b"".join(
        [
            struct.pack(f"<{len(starts)}H", *starts),
            struct.pack(f"<{len(hashed)}I", *(low for _, low, _ in hashed)),
            struct.pack(f"<{len(hashed)}H", *(number for _, _, number in hashed)),
        ]
    )


def _front_coded(listed: Sequence[str]) -> bytes:
    lines, before = [], ""
    for name in listed:
        # Sorted names share long beginnings; 255 is the most that one byte can say.
        same = (
            index
            for index, (character, previous) in enumerate(zip(name, before, strict=False))
            if character != previous
        )
        shared = min(next(same, min(len(name), len(before))), 255)
        lines.append(bytes([shared]) + name[shared:].encode("ascii") + b"\n")
        before = name
    return b"".join(lines)


NAMES: Final = Kind(items=names_in, layout=layout_of_names)


# ---- marks


def marks_in(files: Sequence[BlockFile]) -> dict[Mark, int]:
    """The marks of all files."""
    return {(key, mark): bits for key, marks in MarkTable(files).items() for mark, bits in marks.items()}


def layout_of_marks(items: Mapping[Mark, int]) -> Layout:
    """The section of ``abiscan.torches.marks``."""
    frequent: Counter[int] = Counter()
    keys: dict[str, dict[str, int]] = {}
    for (key, mark), bits in sorted(items.items()):
        keys.setdefault(key, {})[mark] = bits
    for marks in keys.values():
        frequent.update(set(marks.values()))
    # The most frequent sets get the shortest numbers.
    sets = sorted(frequent, key=lambda bits: (-frequent[bits], bits))
    numbers = {bits: _to_base36(number) for number, bits in enumerate(sets)}
    # Keys next to each other share words, so blocks of neighbours compress well, and a look-up needs just one of them.
    parts = list(_text_parts(_format_key(key, marks, numbers) for key, marks in keys.items()))
    firsts = [part[0].partition("\n")[0] for part in parts]
    blocks = [compress("\n\n".join(part).encode()) for part in parts]
    return Layout(sets=sets, sections={"keys": Section(blocks=blocks, keys=firsts)})


def _format_key(key: str, marks: Mapping[str, int], numbers: Mapping[int, str]) -> str:
    lines = sorted((numbers[bits], same) for bits, same in grouped(marks).items())
    return "\n".join([key, *(SEPARATOR.join([number, *same]) for number, same in lines)])


def _text_parts(texts: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > TEXT:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part


def _to_base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
        if not number:
            return text


MARKS: Final = Kind(items=marks_in, layout=layout_of_marks)
