"""The terms of the model of ``ld.so``."""

from __future__ import annotations

import enum
import posixpath

from msgspec import Struct, field

from abiscan.binary.elf import Reference, SharedObject, SymbolVersion


class Module(Struct, frozen=True, kw_only=True, eq=False):
    """An object in the process (a ``link_map``). Compared by identity, as ``ld.so`` does.

    ``facts`` is None for a library that was not found and is assumed to exist at run time, with unknown contents.
    ``loader`` is the module whose ``needed`` entry loaded this one; its RPATH applies too.
    """

    path: str
    facts: SharedObject | None
    loader: Module | None = None

    @property
    def name(self) -> str:
        """The base name, as in messages."""
        return posixpath.basename(self.path)


class Process(Struct, frozen=True, kw_only=True, eq=False):
    """What is mapped before the extension: the interpreter, then the libraries that ``import torch`` loads.

    ``modules`` are in load order; ``global_scope`` are those whose symbols every later object sees; ``names`` are the
    names by which a ``needed`` entry finds a module without a search. ``has_python`` is False if the interpreter is
    not available, so the symbols that it would define are unknown. With ``for_program``, what is loaded is a program
    with its libraries: they alone are its scope, calls are bound when they are first made, and ``modules`` are the
    libraries of torch that it may need.
    """

    has_python: bool
    for_program: bool = False
    modules: tuple[Module, ...] = ()
    global_scope: tuple[Module, ...] = ()
    names: dict[str, Module] = field(default_factory=dict)


class Absence(enum.Enum):
    """Why a needed library was not found."""

    TORCH = "torch"
    """It belongs to torch, but this torch does not have it: ``ld.so`` will stop here."""

    SYSTEM = "system"
    """It belongs to every Linux system, but the target system is a different one."""

    EXTERNAL = "external"
    """It belongs to neither: a CUDA or vendor runtime, or another package. It is assumed to exist at run time."""

    WITH_TORCH = "with torch"
    """It belongs to neither, but torch needs it too: after ``import torch`` it is in the process."""

    OTHER_VERSION = "other version"
    """It is a library of CUDA or ROCm of which this torch brings another version: ``ld.so`` will stop here, unless the
    system has both."""

    UNREACHED = "unreached"
    """A program of this machine needs it, and no search path leads to it: ``ld.so`` will stop here."""


class MissingLibrary(Struct, frozen=True, kw_only=True):
    """A ``needed`` entry for which no file was found.

    ``instead`` is the other version of it that torch needs; None if there is none.
    """

    name: str
    needed_by: Module
    absence: Absence
    instead: Module | None = None

    @property
    def stops(self) -> bool:
        """Whether ``ld.so`` certainly stops here.

        If torch's own version was not found either, CUDA is not looked for where torch will run.
        """
        if self.absence is Absence.OTHER_VERSION:
            return self.instead is not None and self.instead.facts is not None
        return self.absence in (Absence.TORCH, Absence.UNREACHED)


class Closure(Struct, frozen=True, kw_only=True, eq=False):
    """The modules that one ``dlopen`` reaches, breadth-first; ``modules[0]`` is its argument.

    ``new`` are those that were not in the process before, in the same order. ``needed`` maps each new module to the
    modules of its ``needed`` entries.
    """

    modules: tuple[Module, ...]
    new: tuple[Module, ...]
    needed: dict[Module, tuple[Module, ...]]
    missing: tuple[MissingLibrary, ...]


class MissingVersion(Struct, frozen=True, kw_only=True):
    """A symbol version that ``module`` needs from ``provider``, which does not define it."""

    module: Module
    provider: Module
    version: SymbolVersion


class ResizedCopy(Struct, frozen=True, kw_only=True):
    """Data that ``module``, a program, copies into itself, and that is larger in ``provider`` than when it was linked.

    The library uses the copy as well, beyond its end.
    """

    module: Module
    provider: Module
    name: str
    size: int
    provided: int


class UndefinedSymbol(Struct, frozen=True, kw_only=True):
    """A reference of ``module`` that nothing in its scope defines.

    ``lazy`` means that it is looked up when the function is first called, and not before.
    """

    module: Module
    reference: Reference
    lazy: bool = False


class LoadError(Struct, frozen=True, kw_only=True):
    """The error of a load: ``object`` is the base name that the text begins with, if it begins with one.

    ``aborts`` means that the process ends, with ``signal`` where that is known; ``exact`` is false if a part of the
    text is unknown; a ``?`` replaces that part.
    """

    object: str | None
    message: str
    aborts: bool = False
    exact: bool = True
    signal: int | None = None


class Resolution(Struct, frozen=True, kw_only=True):
    """Every problem of one load, and the error that comes first.

    ``unchecked`` are the references, of any module, that a library which was not found is expected to define.
    ``call_error`` is the error of the first call that ends a program which starts, in the order of its linkage table.
    """

    closure: Closure
    missing_versions: tuple[MissingVersion, ...]
    undefined: tuple[UndefinedSymbol, ...]
    unchecked: tuple[Reference, ...]
    error: LoadError | None
    call_error: LoadError | None = None
    resized: tuple[ResizedCopy, ...] = ()
