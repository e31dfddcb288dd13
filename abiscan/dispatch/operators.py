"""The contents of torch's dispatcher: operators, kernels, fallbacks, dispatch keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field


class Operator(NamedTuple):
    """An operator. ``schema`` is its text as it was registered, None if it could not be read.

    ``file`` and ``line`` are those of the ``TORCH_LIBRARY`` block, as the compiler recorded them.
    """

    name: str
    schema: str | None
    tags: tuple[str, ...]
    file: str | None
    line: int | None


class Kernel(NamedTuple):
    """A kernel of ``operator`` for ``key``; None is the catch-all of torch up to 1.7.

    ``signature`` is the C++ function type, mangled; ``schema`` what torch infers from it. Both are None for a boxed
    kernel.
    """

    operator: str
    key: str | None
    signature: str | None
    schema: str | None
    fallthrough: bool
    file: str | None
    line: int | None


class Fallback(NamedTuple):
    """A kernel for all operators without a kernel of their own for ``key``."""

    key: str | None
    fallthrough: bool
    file: str | None
    line: int | None


class Place(NamedTuple):
    """The source line of a registration, as the compiler recorded it."""

    file: str | None
    line: int | None


class RegistryEntry(NamedTuple):
    """An entry in one of torch's other registries: see ``abiscan.emulation.model.Registry``."""

    registry: str
    key: int | str | None
    priority: int | None


class Rewording(NamedTuple):
    """A part of a message as releases have it, and what a torch has instead."""

    was: str
    now: str


KEYS: Final = "keys"
TAGS: Final = "tags"


class Operators(Struct, frozen=True, kw_only=True):
    """The dispatcher of a torch after its libraries are loaded.

    The kernels of an operator are in registration order. If there are several for one operator and key, the last one is
    called. ``namespaces`` are those with a ``TORCH_LIBRARY`` block, by name; ``classes`` are the custom classes, as
    ``ns.Name``; a running torch reports neither. ``keys`` are the names of the dispatch keys by number, ``aliases``
    those that stand for several others. ``gaps`` says what could not be read, one line each. ``entries`` are those of
    torch's other registries, None if unknown: ``embedded_registries`` has those of embedded builds. ``build`` is the
    full version of the embedded build that these are the operators of, None if they were read. ``assertions`` says
    where torch's internal assertions are in its source, by the id of the message: see ``abiscan.dispatch.assertions``.
    ``unworded`` are the ids of messages that torch's libraries do not have, ``reworded`` the parts that they have in
    other words, by id; both are empty for an embedded build. ``assumed`` is what its files do not tell, and was taken
    from the nearest older release: ``KEYS``, ``TAGS``.
    """

    operators: Mapping[str, Operator]
    kernels: tuple[Kernel, ...]
    fallbacks: tuple[Fallback, ...]
    namespaces: Mapping[str, Place]
    classes: frozenset[str]
    keys: Mapping[int, str]
    aliases: Mapping[str, frozenset[str]]
    gaps: tuple[str, ...]
    entries: tuple[RegistryEntry, ...] | None = None
    build: str | None = None
    assertions: Mapping[str, str] = field(default_factory=dict)
    unworded: frozenset[str] = frozenset()
    reworded: Mapping[str, tuple[Rewording, ...]] = field(default_factory=dict)
    assumed: frozenset[str] = frozenset()
