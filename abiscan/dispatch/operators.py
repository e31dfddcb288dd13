"""What torch has in its dispatcher: operators, kernels, fallbacks, dispatch keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Operator(NamedTuple):
    """An operator. ``schema`` is its text as it was registered, None where it was not readable.

    ``file`` and ``line`` are those of the ``TORCH_LIBRARY`` block, as the compiler left them.
    """

    name: str
    schema: str | None
    tags: tuple[str, ...]
    file: str | None
    line: int | None


class Kernel(NamedTuple):
    """A kernel of ``operator`` for ``key``; None is the catch-all of torch up to 1.7.

    ``signature`` is the C++ function type, mangled; ``schema`` what torch infers from it. Both are None for a kernel
    given boxed.
    """

    operator: str
    key: str | None
    signature: str | None
    schema: str | None
    fallthrough: bool
    file: str | None
    line: int | None


class Fallback(NamedTuple):
    """A kernel for every operator that has none of its own for ``key``."""

    key: str | None
    fallthrough: bool
    file: str | None
    line: int | None


class Place(NamedTuple):
    """Where in the source something is registered, as the compiler left it."""

    file: str | None
    line: int | None


class RegistryEntry(NamedTuple):
    """An entry in another of torch's registries: see ``abiscan.emulation.model.Registry``."""

    registry: str
    key: int | str | None
    priority: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """The dispatcher of a torch, as its libraries fill it.

    Kernels of one operator are in the order of their registration. Where several stand for one operator and key, the
    last one is the one that is called. ``namespaces`` are those that a ``TORCH_LIBRARY`` block has taken, by name;
    ``classes`` the custom classes, as ``ns.Name``; a running torch tells neither. ``keys`` are the names of the
    dispatch keys by number, ``aliases`` those that stand for several others. ``gaps`` says what could not be read, a
    line each. ``entries`` are those of torch's other registries, None where they are not known: of embedded builds
    ``embedded_registries`` tells.
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
