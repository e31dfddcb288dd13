"""The contents of torch's dispatcher: operators, kernels, fallbacks, dispatch keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field


class Operator(NamedTuple):
    """An operator.

    :ivar name: with its overload after a dot, if it has one
    :ivar schema: its text as it was registered, None if it could not be read
    :ivar tags: the names of its tags
    :ivar file: the source file of the ``TORCH_LIBRARY`` block, as the compiler recorded it
    :ivar line: the line in it
    """

    name: str
    schema: str | None
    tags: tuple[str, ...]
    file: str | None
    line: int | None


class Kernel(NamedTuple):
    """A kernel.

    :ivar operator: the operator that it is for
    :ivar key: the dispatch key; None is the catch-all of torch up to 1.7
    :ivar signature: the C++ function type, mangled; None for a boxed kernel
    :ivar schema: what torch infers from that type; None for a boxed kernel
    :ivar fallthrough: whether torch goes on to the next key
    :ivar file: the source file of the registration, as the compiler recorded it
    :ivar line: the line in it
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
    """An entry in one of torch's other registries: see ``abiscan.registrations.Registry``."""

    registry: str
    key: int | str | None
    priority: int | None


class Rewording(NamedTuple):
    """A part of a message as releases have it, and what a torch has instead.

    :ivar was: the part in the releases
    :ivar now: the similar text of this torch
    """

    was: str
    now: str


KEYS: Final = "keys"
TAGS: Final = "tags"


class Operators(Struct, frozen=True, kw_only=True):
    """The dispatcher of a torch after its libraries are loaded.

    :ivar operators: the operators by name
    :ivar kernels: in registration order; of several for one operator and key, the last one is called
    :ivar fallbacks: the kernels for all operators of a key
    :ivar namespaces: where the ``TORCH_LIBRARY`` block of each namespace is; a running torch does not report it
    :ivar classes: the custom classes, as ``ns.Name``; a running torch does not report them
    :ivar keys: the names of the dispatch keys by number
    :ivar aliases: the keys that stand for several others, with those
    :ivar gaps: what could not be read, one line each
    :ivar entries: those of torch's other registries, None if unknown: ``embedded_registries`` has those of embedded
        builds
    :ivar build: the full version of the embedded build that these are the operators of, None if they were read
    :ivar assertions: where torch's internal assertions are in its source, by message id: see
        ``abiscan.dispatch.assertions``
    :ivar unworded: the ids of messages that torch's libraries do not have; empty for an embedded build
    :ivar reworded: the parts that they have in other words, by id; empty for an embedded build
    :ivar assumed: what its files do not tell, and was taken from the nearest older release: ``KEYS``, ``TAGS``
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
