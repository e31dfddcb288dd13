"""What crosses LibTorch's stable ABI: the values of a call, one ``StableIValue`` of 64 bits for each.

Sources: ``from_ivalue`` and ``to_ivalue`` in ``torch/csrc/shim_common.cpp``. Kernels of the stable ABI get their
arguments through the first and return their results through the second; calls by name go the other way. Both convert as
many values as the schema has that the operator has *in the running torch*. Since when each type crosses was seen by
running torch, release by release. ``data/stable_types.txt``, made by ``tools/record_crossing.py``, has the releases
that were seen, then a kind of type in each line, and since when it crosses.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan import release_data
from abiscan.dispatch.schema import Argument, FunctionSchema
from abiscan.dispatch.schema_types import INT, Type, TypeKind
from abiscan.inputs.version import MinorVersion, TorchVersion
from abiscan.words import plural

_TO_KERNEL: Final = "Not yet supported conversion from IValue to StableIValue for schema type: "
_FROM_KERNEL: Final = "Not yet supported conversion from StableIValue to IValue for schema type: "


class Uncrossable(Struct, frozen=True, kw_only=True):
    """A value of a schema whose type does not cross.

    :ivar place: the name of the argument, or ``result``
    :ivar type: the part of its type that does not cross
    :ivar always: whether every call fails: None, and an empty list, cross whatever they might have contained
    :ivar message: what torch says
    """

    place: str
    type: Type
    always: bool
    message: str


def uncrossable_of_kernel(schema: FunctionSchema, release: MinorVersion) -> Uncrossable | None:
    """Find what a kernel of the stable ABI cannot get or return; of several values, the one that torch checks first."""
    # torch takes the arguments off its stack from the last to the first.
    return _first_uncrossable([*reversed(schema.arguments)], schema.returns, release, _TO_KERNEL, _FROM_KERNEL)


def uncrossable_of_call(schema: FunctionSchema, release: MinorVersion) -> Uncrossable | None:
    """Find what a call by name cannot pass or get back."""
    return _first_uncrossable(schema.arguments, schema.returns, release, _FROM_KERNEL, _TO_KERNEL)


def _first_uncrossable(
    arguments: Sequence[Argument], returns: Sequence[Argument], release: MinorVersion, there: str, back: str
) -> Uncrossable | None:
    """Return the first value that never crosses; if all may cross at times, the first of these."""
    candidates = [
        Uncrossable(place=place, type=argument.type, always=always, message=f"{prefix}{inner}")
        for values, prefix in ((arguments, there), (returns, back))
        for argument in values
        for place in [argument.name if values is arguments else "result"]
        if (crossing := _not_crossing(argument.type, release))
        for inner, always in [crossing]
    ]
    return next((value for value in candidates if value.always), candidates[0] if candidates else None)


def _not_crossing(type_: Type, release: MinorVersion) -> tuple[Type, bool] | None:
    """Return the part of a type that does not cross, and whether every value has it; None if all of it crosses."""
    since = _crossing_since().get(type_.kind)
    if since is None or since > release:
        return type_, True
    if type_.kind not in (TypeKind.OPTIONAL, TypeKind.LIST):
        return None
    inner = _not_crossing(type_.element, release)
    return (inner[0], False) if inner else None


def is_known(release: MinorVersion) -> bool:
    """Whether a torch as new as this was seen: what does not cross in older ones may cross in it."""
    return release <= TorchVersion(_read_lines()[0][-1]).minor_version


@functools.cache
def _crossing_since() -> Mapping[TypeKind, MinorVersion]:
    """Read the release since which a kind of type crosses; those that never do are absent."""
    versions = {kind: tuple(map(int, since.split("."))) for kind, since in _read_lines()[1:] if since != "-"}
    return {TypeKind(kind): (major, minor) for kind, (major, minor) in versions.items()}


def _read_lines() -> list[list[str]]:
    """Read the words of each line of the table."""
    text = release_data.folder("dispatch").joinpath("stable_types.txt").read_text("utf-8")
    return [line.split() for line in text.splitlines()]


def call_mismatch(built_for: FunctionSchema, now: FunctionSchema) -> str | None:
    """Say what torch does wrong in a call by name that was compiled for one schema, if the operator has another one.

    Values have no types of their own: torch takes what it finds in the caller's array for what the schema says.
    """
    # The caller's array has room for the arguments or the results, whichever are more: torch reads the first from it
    # and writes the second to it.
    room = max(len(built_for.arguments), len(built_for.returns))
    if len(now.arguments) > room:
        return f"torch reads {plural(len(now.arguments), 'argument')} from an array of {room}"
    for number, (old, new) in enumerate(zip(built_for.arguments, now.arguments, strict=False), 1):
        if _as_passed(old.type) != _as_passed(new.type):
            return f"torch takes argument {number}, of type {old.type}, for {new.name}, of type {new.type}"
    if len(now.returns) > room:
        return f"torch writes {plural(len(now.returns), 'result')} to an array of {room}"
    return None


def _as_passed(type_: Type) -> Type:
    """Return the type without differences that a ``StableIValue`` does not show."""
    if type_.kind is TypeKind.SYM_INT:
        return INT
    if not type_.contained:
        return type_
    return Type(kind=type_.kind, name=type_.name, contained=tuple(map(_as_passed, type_.contained)))
