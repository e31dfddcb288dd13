"""Schemas inferred from C++ types as torch does it, and compared with written schemas.

Sources: ``op_registration/infer_schema.cpp``, ``function_schema.h`` in ``aten/src/ATen/core``.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from msgspec.structs import replace

from abiscan.dispatch.schema import Argument, FunctionSchema, OperatorName, parse_name_or_schema
from abiscan.dispatch.schema_lexer import SchemaError
from abiscan.dispatch.schema_types import Type, TypeKind
from abiscan.inputs.version import MinorVersion
from abiscan.regex import regex

SYMINT: Final = (1, 13)
"""The release that added SymInt, and with it a second C++ type for each operator."""

_REASONS_END: Final = (2, 4)

_PART: Final = r"[A-Za-z_][\w.]*(?:\[\]|\?)* _\d+"
_PARTS: Final = rf"{_PART}(?:, {_PART})*"
_NUMBERED: Final = regex(rf"\(({_PARTS})?\) -> (?:({_PART})|\(({_PARTS})?\))", re.ASCII)

# The same schemas are replayed on one release after the other.
_remembered: Final = functools.lru_cache(maxsize=16_384)
read_definition: Final = _remembered(parse_name_or_schema)
"""A schema or a name, from the text of a definition."""


@_remembered
def parse_accepted(schema: str) -> FunctionSchema:
    """Parse the schema of a definition that was accepted."""
    return FunctionSchema.parse(schema)


@_remembered
def inferred_schema(text: str) -> FunctionSchema:
    """Parse the schema that torch infers from a C++ type; it has no name."""
    return _of_parts(text) or without_name(FunctionSchema.parse(f"_{text}"))


def _of_parts(text: str) -> FunctionSchema | None:
    """Return an inferred schema from its arguments and returns, None if it is not as simple as most.

    There are few different ones: torch numbers them, and each has one of some types.
    """
    match = _NUMBERED.fullmatch(text)
    if match is None:
        return None
    try:
        return FunctionSchema(
            name=OperatorName(name=""),
            arguments=tuple(map(_argument, match[1].split(", ") if match[1] else ())),
            returns=tuple(map(_return, (match[2] or match[3]).split(", ") if match[2] or match[3] else ())),
            text=f"_{text}",
        )
    except SchemaError:  # as the whole has it, it says which part of it
        return None


@_remembered
def _argument(text: str) -> Argument:
    return FunctionSchema.parse(f"_({text}) -> ()").arguments[0]


@_remembered
def _return(text: str) -> Argument:
    return FunctionSchema.parse(f"_() -> ({text})").returns[0]


def without_name(schema: FunctionSchema) -> FunctionSchema:
    """Return the schema without its name."""
    return replace(schema, name=OperatorName(name=""))


def inferred_for(text: str, name: OperatorName) -> FunctionSchema:
    """Return the inferred schema with the name under which the kernel is registered."""
    return replace(inferred_schema(text), name=name)


@_remembered
def classes_in(text: str, release: MinorVersion) -> frozenset[str]:
    """Collect the custom classes that the schema of a definition names, as ``ns.Name``; none if it cannot be read."""
    try:
        schema = read_definition(text, strict=True, release=release, allow_typevars=True, classes=None)
    except SchemaError:
        return frozenset()
    if isinstance(schema, OperatorName):
        return frozenset()
    types = [argument.type for argument in (*schema.arguments, *schema.returns)]
    names: set[str] = set()
    while types:
        type_ = types.pop()
        types += type_.contained
        if type_.kind is TypeKind.CLASS:
            names.add(type_.name.removeprefix("__torch__.torch.classes."))
    return frozenset(names)


@functools.cache
def _symint_types() -> frozenset[Type]:
    texts = ("SymInt", "SymInt?", "SymInt[]", "SymInt[]?")
    return frozenset(FunctionSchema.parse(f"_({text} _) -> ()").arguments[0].type for text in texts)


def has_symint(schema: FunctionSchema) -> bool:
    """Whether any argument is a SymInt or a list of them."""
    return any(argument.type in _symint_types() for argument in schema.arguments)


def without_symint(schema: FunctionSchema) -> FunctionSchema:
    """Return the schema for a kernel without SymInt (``cloneWithRealTypes`` of function_schema.h).

    Returns keep theirs.
    """

    def without_sym(argument: Argument) -> Argument:
        return replace(argument, type=argument.type.fake) if argument.type in _symint_types() else argument

    return replace(schema, arguments=tuple(without_sym(argument) for argument in schema.arguments))


def find_schema_difference(first: FunctionSchema, second: FunctionSchema, release: MinorVersion) -> str | None:
    """Return the difference between two schemas, ignoring names, defaults and alias annotations; None if there is none.

    This is ``findSchemaDifferences`` of infer_schema.cpp.
    """
    # Numbers come first, then types from left to right, those of the arguments before those of the returns.
    end = "." if release >= _REASONS_END else ""
    counts = len(first.arguments), len(second.arguments)
    if counts[0] != counts[1]:
        return f"The number of arguments is different. {counts[0]} vs {counts[1]}."
    if len(first.returns) != len(second.returns):
        return f"The number of returns is different. {len(first.returns)} vs {len(second.returns)}{end}"
    for noun, pairs in (
        ("argument", zip(first.arguments, second.arguments, strict=True)),
        ("return", zip(first.returns, second.returns, strict=True)),
    ):
        for number, (argument, counterpart) in enumerate(pairs, 1):
            types = _compared_type(argument.type, release), _compared_type(counterpart.type, release)
            if types[0] != types[1]:
                texts = [type_.printed_by(release) for type_ in types]
                return f"Type mismatch in {noun} {number}: {texts[0]} vs {texts[1]}{end}"
    return None


def _compared_type(type_: Type, release: MinorVersion) -> Type:
    """Return the type that a release compares: before SymInt, the real one."""
    return type_ if release >= SYMINT else type_.fake
