"""The terms of the model of ``ld.so``."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from abiscan.binary.elf import Reference, SharedObject, SymbolVersion
from abiscan.cpu.processors import Cpu

if TYPE_CHECKING:
    from abiscan.inputs.target_system import LinuxSystem

NO_SUCH_FILE: Final = "cannot open shared object file: No such file or directory"


class Module(Struct, frozen=True, kw_only=True, eq=False):
    """An object in the process (a ``link_map``). Compared by identity, as ``ld.so`` does.

    :ivar path: where it was found
    :ivar facts: what its file says; None for a library that was not found and is assumed to exist at run time, with
        unknown contents
    :ivar loader: the module whose ``needed`` entry loaded this one; its RPATH applies too
    :ivar opened_as: the path by which ``ld.so`` opened it, with every ``..``; empty if that is ``path``
    :ivar is_unread: whether there is a file, and it could not be read here
    """

    path: str
    facts: SharedObject | None
    loader: Module | None = None
    opened_as: str = ""
    is_unread: bool = False

    @property
    def called(self) -> str:
        """What ``ld.so`` calls it in messages."""
        return self.opened_as or self.path

    @property
    def name(self) -> str:
        """The base name, as in messages."""
        return self.path.rpartition("/")[2]


class Process(Struct, frozen=True, kw_only=True, eq=False):
    """What is mapped before the extension: the interpreter, then the libraries that ``import torch`` loads.

    :ivar has_python: whether the interpreter is available; if not, the symbols that it would define are unknown
    :ivar for_program: whether a program is loaded with its libraries: they alone are its scope, calls are bound when
        they are first made, and ``modules`` are the libraries of torch that it may need
    :ivar modules: all modules, in load order
    :ivar global_scope: those whose symbols every later object sees
    :ivar names: the modules by the names under which a ``needed`` entry finds them without a search
    :ivar cpus: the processors that it runs on, empty if unknown
    :ivar system: the system that it runs on, if the user names one: its libraries are not looked into
    """

    has_python: bool
    for_program: bool = False
    modules: tuple[Module, ...] = ()
    global_scope: tuple[Module, ...] = ()
    names: dict[str, Module] = field(default_factory=dict)
    cpus: tuple[Cpu, ...] = ()
    system: LinuxSystem | None = None


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
    """No search path of this machine leads to it, and nobody else loads it: ``ld.so`` will stop here."""

    REFUSED = "refused"
    """The search ends at a file that is no library, or at none but one of 32 bits: ``ld.so`` will stop here."""


class MissingLibrary(Struct, frozen=True, kw_only=True):
    """A ``needed`` entry for which no file was found.

    :ivar name: the entry
    :ivar needed_by: the module that has it
    :ivar absence: why no file was found
    :ivar instead: the other version of the library that torch needs, None if there is none
    :ivar words: what ``ld.so`` says, after the name or the path
    :ivar path: the path of the file at which the search ends, None if there is none
    """

    name: str
    needed_by: Module
    absence: Absence
    instead: Module | None = None
    words: str = NO_SUCH_FILE
    path: str | None = None

    @property
    def message(self) -> str:
        """All that ``ld.so`` says."""
        return f"{self.path or self.name}: {self.words}"

    @property
    def stops(self) -> bool:
        """Whether ``ld.so`` certainly stops here.

        If torch's own version was not found either, CUDA is not looked for where torch will run.
        """
        if self.absence is Absence.OTHER_VERSION:
            return self.instead is not None and self.instead.facts is not None
        return self.absence in (Absence.TORCH, Absence.UNREACHED, Absence.REFUSED)


class Closure(Struct, frozen=True, kw_only=True, eq=False):
    """The modules that one ``dlopen`` reaches.

    :ivar modules: breadth-first; the first is the argument of ``dlopen``
    :ivar new: those that were not in the process before, in the same order
    :ivar needed: for each new module, the modules of its ``needed`` entries
    :ivar missing: the entries for which no file was found, in the order of the search
    :ivar names: the modules by the names under which a later load finds them without a search
    """

    modules: tuple[Module, ...]
    new: tuple[Module, ...]
    needed: dict[Module, tuple[Module, ...]]
    missing: tuple[MissingLibrary, ...]
    names: dict[str, Module] = field(default_factory=dict)


class MissingVersion(Struct, frozen=True, kw_only=True):
    """A symbol version that a library does not define.

    :ivar module: the module that needs it
    :ivar provider: the library that it needs it from
    :ivar version: the version
    """

    module: Module
    provider: Module
    version: SymbolVersion


class ResizedCopy(Struct, frozen=True, kw_only=True):
    """Data that a program copies into itself, and that are larger in the library than when the program was linked.

    The library uses the copy as well, beyond its end.

    :ivar module: the program
    :ivar provider: the library
    :ivar name: the symbol
    :ivar size: the bytes that the program reserves
    :ivar provided: the bytes that the library has
    """

    module: Module
    provider: Module
    name: str
    size: int
    provided: int


class UndefinedSymbol(Struct, frozen=True, kw_only=True):
    """A reference that nothing in its scope defines.

    :ivar module: the module that refers
    :ivar reference: what it refers to
    :ivar lazy: whether it is looked up when the function is first called, and not before
    """

    module: Module
    reference: Reference
    lazy: bool = False


class LoadError(Struct, frozen=True, kw_only=True):
    """The error of a load.

    :ivar object: the base name that the text begins with, None if it begins with none
    :ivar message: the text after that
    :ivar aborts: whether the process ends
    :ivar exact: false if a part of the text is unknown; a ``?`` replaces that part
    :ivar signal: the number of the signal that ends the process, None if unknown
    """

    object: str | None
    message: str
    aborts: bool = False
    exact: bool = True
    signal: int | None = None


class Resolution(Struct, frozen=True, kw_only=True):
    """Every problem of one load, and the error that comes first.

    :ivar closure: what the load maps
    :ivar missing_versions: symbol versions that no library defines, in the order of the check
    :ivar undefined: references that nothing defines, in the order of relocation
    :ivar unchecked: the references, of any module, that a library which was not found is expected to define
    :ivar error: the error that ends the load, None if it succeeds
    :ivar call_error: the error of the first call, in the order of its linkage table, that ends a program which starts
    :ivar resized: the copies of data that are too small
    :ivar refused: the modules at which ``ld.so`` gives up whatever else is loaded, and its words
    """

    closure: Closure
    missing_versions: tuple[MissingVersion, ...]
    undefined: tuple[UndefinedSymbol, ...]
    unchecked: tuple[Reference, ...]
    error: LoadError | None
    call_error: LoadError | None = None
    resized: tuple[ResizedCopy, ...] = ()
    refused: tuple[LoadError, ...] = ()
