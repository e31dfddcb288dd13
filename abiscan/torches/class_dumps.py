"""Clang's dumps of how it lays out classes, as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from abiscan.regex import regex

_OURS: Final = regex(r"(?:at|c10|c10d|caffe2|torch)::")
_UNWANTED: Final = regex(
    r"lambda|\(anonymous|\(unnamed|^at::_ops::|^at::meta::|structured_|^torch::autograd::generated::|^torch::enumtype::"
    r"|^torch::nn::(?!Module$)|^torch::optim::|^torch::data::|^c10::guts::|^c10::impl::detail::|TypePtr_?<|::arg_type"
)
"""Classes that no extension shares: one per operator, per module, per function template."""

_ANONYMOUS: Final = regex(r"\((?:anonymous|unnamed)[^)]*\)")
_KEYWORDS: Final = regex(r"\b(?:class|struct|union|enum) (?=[\w(:])")
_ROW: Final = regex(r"\s*(\d+)(?::(\S+))? \|( *)(.*)")
_SIZES: Final = regex(r"\[sizeof=(\d+).* align=(\d+)")
_BASE: Final = regex(r"(.*) \((?:primary |virtual |primary virtual )?base\)$")
_INDENT: Final = 3  # of the members of a class in a dump
_LONGEST: Final = 160  # characters; longer ones are templates that no two objects share
_SLOT: Final = regex(r" +\d+ \| (.*)")
_NO_SLOT: Final = regex(r"^(?:offset_to_top|vcall_offset|vbase_offset) \(| RTTI$")
_PROBED: Final = regex(r"::probe\(\) \[T = (.*)\]$")
_DESTRUCTOR: Final = regex(r"^Probe<.*::~Probe\(\)")


class ClassRow(NamedTuple):
    """A class as clang lays it out.

    :ivar size: in bytes, as all offsets are
    :ivar bases: name and offset of each
    :ivar fields: name, offset and type of each, and its size, None where the dump does not have it
    """

    size: int
    align: int
    bases: tuple[tuple[str, int], ...]
    fields: tuple[tuple[str, int, str, int | None], ...]


def parse_records(dump: str) -> tuple[dict[str, ClassRow], set[str]]:
    """Return the classes in clang's dump of record layouts, and which of them have virtual functions."""
    # Two passes: the size of a member of class type is only known once all blocks have been seen.
    sizes: dict[str, int] = {}  # of every class, as clang spells it
    requested: dict[str, str] = {}
    for block in dump.split("*** Dumping AST Record Layout\n")[1:]:
        spelled = block[block.index("| ") + 2 : block.index("\n")].removesuffix(" (empty)")
        name = _simplify_type(spelled) if _OURS.search(spelled) else ""
        if match := _SIZES.search(block, block.rfind("[sizeof=")):
            sizes[spelled] = int(match[1])
            if name and _OURS.match(name) and len(name) <= _LONGEST and not _UNWANTED.search(name):
                requested[name] = block
    rows: dict[str, ClassRow] = {}
    polymorphic: set[str] = set()
    for name, block in requested.items():
        row, virtual = _parse_members(block, sizes)
        if row.bases or row.fields or virtual:
            rows[name] = row
        if virtual and "<" not in name:
            polymorphic.add(name)
    return rows, polymorphic


def _parse_members(block: str, sizes: dict[str, int]) -> tuple[ClassRow, bool]:
    """Return the direct bases and named fields of a class, and whether it is virtual."""
    bases: list[tuple[str, int]] = []
    fields: list[tuple[str, int, str, int | None]] = []
    virtual = False
    for row in filter(None, map(_ROW.match, block.splitlines()[1:])):
        at, bits, indent, text = int(row[1]), row[2], len(row[3]), row[4].removesuffix(" (empty)")
        virtual = virtual or text.endswith(" vtable pointer)")
        # What is indented further are members of members, which have a block of their own.
        if indent != _INDENT or text.endswith(" vtable pointer)"):
            continue
        if base := _BASE.match(text):
            bases.append((_simplify_type(base[1]), at))
            continue
        type_, _, name = text.rpartition(" ")
        if name:
            fields.append((name, at, _simplify_type(type_) + (f" : {bits}" if bits else ""), sizes.get(type_)))
    match = _SIZES.search(block, block.rfind("[sizeof="))
    assert match is not None
    return ClassRow(int(match[1]), int(match[2]), tuple(bases), tuple(fields)), virtual


def _simplify_type(type_: str) -> str:
    """Return a type as people write it, without keywords, places in files and the mark of an empty class."""
    text = _KEYWORDS.sub("", _ANONYMOUS.sub("(anonymous)", type_.removesuffix(" (empty)")))
    return text.replace("_Bool", "bool")


def parse_vtables(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the virtual functions of each probed class, slot by slot, in clang's dump of virtual tables.

    Destructors are ``~ [complete]`` and ``~ [deleting]``; only the primary table is read.
    """
    tables: dict[str, tuple[str, ...]] = {}
    slots: list[str] = []
    reading = False
    for line in lines:
        # ``Probe<T>`` derives from ``T`` and adds one virtual function: the slots in front of it are those of ``T``.
        if line.startswith("Vtable for 'Probe'"):
            slots, reading = [], True
        elif reading and (match := _SLOT.match(line)):
            if _NO_SLOT.search(match[1]):
                continue
            if probe := _PROBED.search(match[1]):
                tables[_simplify_type(probe[1])] = tuple(slots)
                reading = False  # what follows are the tables of a second base
            else:
                slots.append(_DESTRUCTOR.sub("~", _simplify_type(match[1])))
    return tables
