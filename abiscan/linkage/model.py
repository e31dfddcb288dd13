"""The terms of the model of ``ld.so``."""

from __future__ import annotations

import enum
import posixpath
from dataclasses import dataclass, field

from abiscan.binary.elf import Reference, SharedObject, SymbolVersion


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Module:
    """An object in the process (a ``link_map``). Compared by identity, as ``ld.so`` does.

    ``facts`` is None for a library that was not found and is assumed to be there at run time, contents unknown.
    ``loader`` is the module whose ``needed`` brought this one in; its RPATH counts too.
    """

    path: str
    facts: SharedObject | None
    loader: Module | None = None

    @property
    def name(self) -> str:
        """The base name, as messages call it."""
        return posixpath.basename(self.path)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process:
    """What is mapped before the extension is: the interpreter, then what ``import torch`` brings.

    ``modules`` are in load order; ``global_scope`` are those whose symbols every later object sees; ``names`` are the
    names under which a module answers to ``needed`` without a search. ``has_python`` is False where the interpreter is
    not at hand, so that nothing can be said of the symbols it would define.
    """

    has_python: bool
    modules: tuple[Module, ...] = ()
    global_scope: tuple[Module, ...] = ()
    names: dict[str, Module] = field(default_factory=dict)


class Absence(enum.Enum):
    """What it means that a needed library was not found."""

    TORCH = "torch"
    """It belongs to torch, and this torch has none: ``ld.so`` will stop here."""

    SYSTEM = "system"
    """It belongs to every Linux of the target's machine, which is not the machine at hand."""

    EXTERNAL = "external"
    """It belongs to neither: a CUDA or vendor runtime, or another package. Assumed to be there at run time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingLibrary:
    """A ``needed`` entry for which no file was found."""

    name: str
    needed_by: Module
    absence: Absence


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Closure:
    """The modules that one ``dlopen`` reaches, breadth-first; ``modules[0]`` is the one asked for.

    ``new`` are those that were not in the process before, in the same order. ``needed`` maps each new module to the
    modules of its ``needed`` entries.
    """

    modules: tuple[Module, ...]
    new: tuple[Module, ...]
    needed: dict[Module, tuple[Module, ...]]
    missing: tuple[MissingLibrary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingVersion:
    """A symbol version that ``module`` needs of ``provider``, which does not define it."""

    module: Module
    provider: Module
    version: SymbolVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class UndefinedSymbol:
    """A reference of ``module`` that nothing in its scope defines."""

    module: Module
    reference: Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadError:
    """What the load ends in: ``object`` is the base name the text begins with (None if it begins with none).

    ``aborts`` tells that it ends the process; ``exact`` is false where something in the text is not known, for which a
    ``?`` stands.
    """

    object: str | None
    message: str
    aborts: bool = False
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Every problem of one load, and the error that comes first.

    ``unchecked`` are references, of any of the modules, that a library which was not found is expected to define.
    """

    closure: Closure
    missing_versions: tuple[MissingVersion, ...]
    undefined: tuple[UndefinedSymbol, ...]
    unchecked: tuple[Reference, ...]
    error: LoadError | None
