"""Ask ``libclang`` for classes: a process of its own, since what it dumps goes to the standard output.

Reads JSON: ``flags``, ``headers``, ``classes``. Prints clang's dump of the layouts, and writes the virtual functions of
each class that has some to a file in the current folder: libclang does not print these, but knows what overrides what.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from clang.cindex import Cursor, CursorKind, Diagnostic, Index, TranslationUnit, TypeKind, conf

from abiscan.torches.clang import NEEDED, VTABLES, include_headers

_SOURCE: Final = "probe.cc"
_FLAGS: Final = ("-x", "c++", "-Xclang", "-fdump-record-layouts")
_KEEP_GOING: Final = 0x200  # CXTranslationUnit_KeepGoing: a missing header does not end the reading
_SPACES: Final = (CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC)
_CLASSES: Final = (CursorKind.CLASS_DECL, CursorKind.STRUCT_DECL)
_FUNCTIONS: Final = (CursorKind.CXX_METHOD, CursorKind.DESTRUCTOR, CursorKind.CONVERSION_FUNCTION)
_ROOTS: Final = ("at", "c10", "c10d", "caffe2", "torch")
_DESTRUCTOR: Final = ("~ [complete]", "~ [deleting]")
_BUILTIN: Final = "/usr/lib/gcc"
"""libclang comes without the headers that belong to a compiler; those of gcc declare the same types."""

_Slots = list[tuple[Any, str]]


def main() -> None:
    """Answer what is asked on the standard input."""
    asked = json.load(sys.stdin)
    flags = [*asked["flags"], *_FLAGS, *_builtin_flags()]
    headers: list[str] = asked["headers"]
    unit = _parse_headers(headers, flags)
    # A header that needs what the wheel has not is left out; each turn leaves out at least one, so this ends.
    while errors := [diagnostic for diagnostic in unit.diagnostics if diagnostic.severity >= Diagnostic.Error]:
        bad = set(_to_blame(unit, errors))
        if not bad or any(headers[number] in NEEDED for number in bad):
            raise SystemExit(str(errors[0]))
        headers = [header for number, header in enumerate(headers) if number not in bad]
        unit = _parse_headers(headers, flags)
    requested, tables = set(asked["classes"]), {}
    for name, cursor in _class_definitions(unit.cursor):
        if name in requested:
            # The dump is printed by the compiler as it lays a class out, which it only does when someone asks for its
            # size.
            cursor.type.get_size()  # lays it out, unless something else did
            if slots := _find_slots(cursor):
                tables[name] = [text for _, text in slots]
    Path(VTABLES).write_text(json.dumps(tables), "utf-8")


def _builtin_flags() -> Iterator[str]:
    folders = Path(_BUILTIN).glob("*/*/include")
    numbered = sorted((int(folder.parent.name), str(folder)) for folder in folders if folder.parent.name.isdecimal())
    for _, folder in numbered[-1:]:
        # Behind all other folders: only what is found nowhere else is taken from gcc.
        yield f"-idirafter{folder}"


def _parse_headers(headers: Sequence[str], flags: Sequence[str]) -> TranslationUnit:
    # Not the bodies of functions: nothing in them is laid out for others.
    options = TranslationUnit.PARSE_SKIP_FUNCTION_BODIES | _KEEP_GOING
    return Index.create().parse(_SOURCE, flags, [(_SOURCE, include_headers(headers))], options)


def _to_blame(unit: TranslationUnit, errors: Sequence[Diagnostic]) -> Iterator[int]:
    """Yield the numbers of the headers that brought the errors in."""
    included_by: dict[str, tuple[str, int]] = {}
    for inclusion in unit.get_includes():
        place = inclusion.location
        included_by.setdefault(inclusion.include.name, (place.file.name, place.line))
    for error in errors:
        place = error.location
        if place.file is None:  # about the command line, say
            continue
        file, line = place.file.name, place.line
        # Back over the inclusions to the line of the source that named the header.
        while file in included_by:
            file, line = included_by[file]
        if file == _SOURCE:
            yield line - 1


def _class_definitions(scope: Cursor, depth: int = 0) -> Iterator[tuple[str, Cursor]]:
    """Yield the classes of torch that are defined in a scope, with their full names."""
    for cursor in scope.get_children():
        if cursor.kind in _SPACES:
            if depth or cursor.spelling in _ROOTS or cursor.kind is CursorKind.LINKAGE_SPEC:
                yield from _class_definitions(cursor, depth + 1)
        elif depth and cursor.kind in _CLASSES and cursor.is_definition():
            yield cursor.type.get_canonical().spelling, cursor
            yield from _class_definitions(cursor, depth + 1)


def _find_slots(cursor: Cursor) -> _Slots | None:
    """Return the slots of the primary virtual table, each with what a function must match to override it.

    They are those of the first base that has some, and one for each virtual function that overrides none of these, in
    order of declaration (Itanium C++ ABI, 2.5.2). None if unknown: a function of a template takes what it is made for.
    """
    if cursor.kind is CursorKind.NO_DECL_FOUND:
        return None
    slots: _Slots = []
    virtual_destructor = False
    for base in cursor.get_children():
        if base.kind is not CursorKind.CXX_BASE_SPECIFIER:
            continue
        inherited = _find_slots(_find_definition(base.type.get_canonical().get_declaration()))
        if inherited is None:
            return None
        virtual_destructor = virtual_destructor or any(key is None for key, _ in inherited)
        # The primary base is the first one with a virtual table, at offset zero (Itanium C++ ABI, 2.4); the tables of
        # further bases are not shared with this one.
        slots = slots or inherited
    for function in cursor.get_children():
        if function.kind in _FUNCTIONS and function.is_virtual_method():
            if any(argument.get_canonical().kind is TypeKind.UNEXPOSED for argument in function.type.argument_types()):
                return None
            slots = _add_slot(slots, function)
    # A destructor overrides that of any base, and is virtual if that is, whether or not it is declared (C++17,
    # [class.dtor]).
    if virtual_destructor and not any(key is None for key, _ in slots):
        slots += [(None, text) for text in _DESTRUCTOR]
    return slots


def _find_definition(declared: Cursor) -> Cursor:
    """Return the definition of a class: for one that is made from a template, that of the template."""
    template: Cursor | None = conf.lib.clang_getSpecializedCursorTemplate(declared)
    return (template.get_definition() or template) if template is not None else declared


def _add_slot(slots: _Slots, function: Cursor) -> _Slots:
    if function.kind is CursorKind.DESTRUCTOR:
        there = any(key is None for key, _ in slots)
        return slots if there else [*slots, *((None, text) for text in _DESTRUCTOR)]
    type_ = function.type.get_canonical()
    # What overrides is told by name, parameters, constness and reference qualifier (C++17, [class.virtual]); the result
    # type does not count.
    key = (
        function.spelling if function.kind is not CursorKind.CONVERSION_FUNCTION else type_.get_result().spelling,
        tuple(argument.spelling for argument in type_.argument_types()),
        function.is_const_method(),
        type_.get_ref_qualifier().value,
    )
    parameters = ", ".join(argument.spelling for argument in function.type.argument_types())
    text = f"{function.semantic_parent.type.get_canonical().spelling}::{function.spelling}({parameters})"
    if any(slot == key for slot, _ in slots):
        return [(slot, text if slot == key else old) for slot, old in slots]
    return [*slots, (key, text)]


if __name__ == "__main__":
    main()
