"""Which objects a load maps, and from where: the first half of ``dlopen`` (glibc, ``dl-load.c`` and ``dl-deps.c``)."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec.structs
from msgspec import Struct, field

from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.ownership import gpu_library, is_system_library, is_torch_library, without_version
from abiscan.linkage.model import Absence, Closure, MissingLibrary, Module, Process


class Objects(Protocol):
    """The files that the loader can see."""

    def object_at(self, path: str) -> SharedObject | None:
        """The ELF object at ``path``, None if there is none, or it cannot be mapped."""


def _nowhere(_: str) -> None:
    """No package has any library."""


class SearchPath(Struct, frozen=True, kw_only=True):
    """Where libraries are searched for, in this order, besides the search paths in the objects themselves.

    :param environment: ``LD_LIBRARY_PATH``
    :param siblings: libraries of the same wheel or folder, by base name: a package loads them before their users, or
        has them on its path
    :param torch: torch's own libraries, by base name: a distribution's have names with a version for the loader
    :param system: the folders of ``ld.so.conf`` and the built-in ones
    :param native: whether ``system`` belongs to the machine that the extension is built for
    :param others: by name, the library of another package, which that package loads before; None if there is none
    :param own_cuda: whether the extension requires packages that bring libraries of CUDA
    """

    environment: tuple[str, ...] = ()
    siblings: Mapping[str, str] = field(default_factory=dict)
    torch: Mapping[str, str] = field(default_factory=dict)
    system: tuple[str, ...] = ()
    native: bool = True
    others: Callable[[str], str | None] = _nowhere
    own_cuda: bool = False


class Loader:
    """Maps objects into a process, searching for them as ``ld.so`` does.

    :param machine: the machine of the process; files for another one are skipped
    """

    def __init__(self, objects: Objects, search: SearchPath, machine: Machine) -> None:
        self._objects = objects
        self._search = search
        self._machine = machine

    def without_siblings(self) -> Loader:
        """One that finds a library of the same wheel only if a search path leads to it, or if it is loaded already."""
        return Loader(self._objects, msgspec.structs.replace(self._search, siblings={}), self._machine)

    def start(
        self, programs: tuple[str, ...], *, global_libraries: tuple[str, ...], libraries: tuple[str, ...]
    ) -> Process:
        """The process after ``import torch``.

        :param programs: the interpreter (empty if it is unknown)
        :param global_libraries: the libraries that torch loads with RTLD_GLOBAL
        :param libraries: the libraries that it loads with RTLD_LOCAL
        """
        process = Process(has_python=bool(programs))
        for path in (*programs, *global_libraries):
            process = self.enter(process, path, visible=True)
        for path in libraries:
            process = self.enter(process, path, visible=False)
        return process

    def enter(self, process: Process, path: str, *, visible: bool) -> Process:
        """The process after a load that succeeds.

        :param visible: whether its symbols are those of the process from then on (RTLD_GLOBAL)
        """
        closure = self.open(process, path)
        names = dict(process.names)
        for module in closure.new:
            self._register(names, module)
        for missing in closure.missing:
            # It must have existed when torch was imported, since otherwise the import would have failed.
            names.setdefault(missing.name, _assumed(missing.name, missing.needed_by))
        absent = [names[missing.name] for missing in closure.missing]
        reached = dict.fromkeys((*closure.modules, *absent))
        return Process(
            has_python=process.has_python,
            modules=tuple(dict.fromkeys((*process.modules, *reached))),
            global_scope=tuple(dict.fromkeys((*process.global_scope, *(reached if visible else ())))),
            names=names,
        )

    def for_program(self, libraries: tuple[str, ...]) -> Process:
        """The process of a program before it starts: empty, but for where it finds the libraries of torch."""
        process = Process(has_python=False)
        for path in libraries:
            process = self.enter(process, path, visible=False)
        return msgspec.structs.replace(process, for_program=True)

    def open(self, process: Process, path: str) -> Closure:
        """What ``dlopen(path)`` maps in addition to ``process``.

        The search goes on after a missing library, to find all problems; ``missing`` has the missing libraries in the
        order of the search, and ``ld.so`` stops at the first of them. Nothing loads a library before a program does:
        on this machine, a search path must lead to each.
        """
        closure = self._reached(process, path)
        if not process.for_program or not self._search.native:
            return closure
        alone = msgspec.structs.replace(self._search, siblings={}, torch={}, others=_nowhere)
        really = Loader(self._objects, alone, self._machine)._reached(Process(has_python=False), path)
        lacking = {library.name for library in closure.missing if library.absence is Absence.TORCH}
        missing = tuple(
            library
            if library.name in lacking
            else msgspec.structs.replace(library, absence=Absence.UNREACHED, instead=None)
            for library in really.missing
            if not is_torch_library(library.needed_by.name)  # torch itself is taken to load
        )
        return msgspec.structs.replace(closure, missing=missing)

    def _reached(self, process: Process, path: str) -> Closure:
        names = dict(process.names)
        facts = self._objects.object_at(path)
        root = names.get(path) or Module(path=path, facts=facts)
        modules: dict[Module, None] = {root: None}
        needed: dict[Module, tuple[Module, ...]] = {}
        missing: list[MissingLibrary] = []
        self._register(names, root)
        already_loaded = set(process.modules)
        queue = deque([root])
        while queue:
            module = queue.popleft()
            direct: list[Module] = []
            for name in module.facts.needed if module.facts else ():
                library = names.get(name) or self._find(name, module, process, names)
                # A library that is only assumed to exist because torch needs it is still missing for others.
                if library is None or (library.facts is None and module not in already_loaded):
                    absent = self._absent(name, module, process)
                    if library is None or absent.absence is not Absence.TORCH:
                        missing.append(absent)
                    if library is None and absent.absence is Absence.TORCH:
                        continue
                    library = library or _assumed(name, module)
                names[name] = library
                direct.append(library)
                if library not in modules:
                    modules[library] = None
                    queue.append(library)
            needed[module] = tuple(direct)
        return Closure(
            modules=tuple(modules),
            new=tuple(module for module in modules if module not in already_loaded),
            needed=needed,
            missing=tuple(missing),
        )

    def _find(self, name: str, needed_by: Module, process: Process, names: dict[str, Module]) -> Module | None:
        for path in self._candidates(name, needed_by, process):
            facts = self._objects.object_at(path)
            if facts is None or facts.machine is not self._machine:
                continue
            if path in names:
                return names[path]
            module = Module(path=path, facts=facts, loader=needed_by)
            self._register(names, module)
            return module
        return None

    def _candidates(self, name: str, needed_by: Module, process: Process) -> Iterator[str]:
        if "/" in name:
            yield name
            return
        if needed_by.facts and not needed_by.facts.runpath:
            chain = _loaders(needed_by)
            if process.has_python and process.modules and process.modules[0] not in chain:
                chain.append(process.modules[0])  # the RPATH of the program applies to all objects
            for module in chain:
                if module.facts and not module.facts.runpath:
                    yield from (posixpath.join(folder, name) for folder in _expand(module.facts.rpath, module))
        yield from (posixpath.join(folder, name) for folder in self._search.environment)
        if needed_by.facts:
            yield from (posixpath.join(folder, name) for folder in _expand(needed_by.facts.runpath, needed_by))
        if sibling := self._search.siblings.get(name):
            yield sibling
        own = self._search.torch.get(without_version(name)) if is_torch_library(name) else None
        if own is not None and (facts := self._objects.object_at(own)) and facts.soname == name:
            yield own
        yield from (posixpath.join(folder, name) for folder in self._search.system)
        if not is_torch_library(name) and not is_system_library(name) and (other := self._search.others(name)):
            yield other

    def _absent(self, name: str, needed_by: Module, process: Process) -> MissingLibrary:
        absence, instead = Absence.EXTERNAL, None
        if is_torch_library(name):
            absence = Absence.TORCH
        elif not self._search.native and is_system_library(name):
            absence = Absence.SYSTEM
        elif name in process.names:
            absence = Absence.WITH_TORCH
        elif (instead := self._other_version(name, needed_by, process)) is not None:
            absence = Absence.OTHER_VERSION
        return MissingLibrary(name=name, needed_by=needed_by, absence=absence, instead=instead)

    def _other_version(self, name: str, needed_by: Module, process: Process) -> Module | None:
        """The version of a CUDA or ROCm library that torch needs, if only that one will be in the process."""
        library = gpu_library(name)
        if library is None or self._search.own_cuda or (not self._search.native and _has_own_cuda(needed_by)):
            return None
        loaded = {posixpath.basename(other): module for other, module in process.names.items()}
        found = ((gpu_library(other), module) for other, module in loaded.items())
        return next((module for other, module in found if other and other.stem == library.stem), None)

    @staticmethod
    def _register(names: dict[str, Module], module: Module) -> None:
        names[module.path] = module
        if module.facts and module.facts.soname:
            names.setdefault(module.facts.soname, module)


def _has_own_cuda(module: Module) -> bool:
    """Whether an object says itself where libraries of CUDA or ROCm are: in a folder that only its system has."""
    folders = (*module.facts.rpath, *module.facts.runpath) if module.facts else ()
    return any(word in folder for folder in folders for word in ("cuda", "nvidia", "rocm"))


def _assumed(name: str, needed_by: Module) -> Module:
    """A library that was not found, but is assumed to exist."""
    return Module(path=name, facts=None, loader=needed_by)


def _loaders(module: Module | None) -> list[Module]:
    """A module, the module that loaded it, and so on."""
    chain = []
    while module:
        chain.append(module)
        module = module.loader
    return chain


def _expand(folders: tuple[str, ...], module: Module) -> Iterator[str]:
    """Search folders with ``$ORIGIN`` expanded; ``$LIB`` and ``$PLATFORM`` are not, and so match nothing."""
    origin = posixpath.dirname(module.path) or "."
    for folder in folders:
        yield posixpath.normpath(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin))
