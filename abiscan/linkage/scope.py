"""Decide which objects a load maps, and from where: the first half of ``dlopen``.

The model is glibc's ``dl-load.c`` and ``dl-deps.c``.
"""

from __future__ import annotations

import functools
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
        """Return the ELF object at ``path``; None if there is none, or it cannot be mapped."""


def _find_nowhere(_: str) -> None:
    """Find nothing: no package has any library."""


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
    others: Callable[[str], str | None] = _find_nowhere
    own_cuda: bool = False


class Loader:
    """Map objects into a process, searching for them as ``ld.so`` does.

    :param machine: the machine of the process; files for another one are skipped
    """

    def __init__(self, objects: Objects, search: SearchPath, machine: Machine) -> None:
        self._objects = objects
        self._search = search
        self._machine = machine

    def without_siblings(self) -> Loader:
        """Return a loader that does not look for the libraries of the same wheel.

        It finds them only if a search path leads to them, or if they are loaded already.
        """
        return Loader(self._objects, msgspec.structs.replace(self._search, siblings={}), self._machine)

    def start_process(
        self,
        programs: tuple[str, ...],
        *,
        global_libraries: tuple[str, ...],
        libraries: tuple[str, ...],
        preloaded: tuple[str, ...] = (),
    ) -> Process:
        """Return the process after ``import torch``.

        :param programs: the interpreter (empty if it is unknown)
        :param global_libraries: the libraries that torch loads with RTLD_GLOBAL
        :param libraries: the libraries that it loads with RTLD_LOCAL
        :param preloaded: those that it tries to load before them, and does without
        """
        process = Process(has_python=bool(programs))
        for path in (*programs, *global_libraries):
            process = self.enter(process, path, visible=True)
        for path in preloaded:
            if not self.open(process, path).missing:
                process = self.enter(process, path, visible=False)
        for path in libraries:
            process = self.enter(process, path, visible=False)
        return process

    def enter(self, process: Process, path: str, *, visible: bool) -> Process:
        """Return the process after a load that succeeds.

        :param visible: whether its symbols are those of the process from then on (RTLD_GLOBAL)
        """
        closure = self.open(process, path)
        names = dict(process.names)
        for module in closure.new:
            self._register_names(names, module)
        for missing in closure.missing:
            # It must have existed when torch was imported, since otherwise the import would have failed.
            names.setdefault(missing.name, _assume_library(missing.name, missing.needed_by))
        absent = [names[missing.name] for missing in closure.missing]
        reached = dict.fromkeys((*closure.modules, *absent))
        return Process(
            has_python=process.has_python,
            modules=tuple(dict.fromkeys((*process.modules, *reached))),
            global_scope=tuple(dict.fromkeys((*process.global_scope, *(reached if visible else ())))),
            names=names,
        )

    def for_program(self, libraries: tuple[str, ...]) -> Process:
        """Return the process of a program before it starts: empty, but for where it finds the libraries of torch."""
        process = Process(has_python=False)
        for path in libraries:
            process = self.enter(process, path, visible=False)
        return msgspec.structs.replace(process, for_program=True)

    def open(self, process: Process, path: str) -> Closure:
        """Map what ``dlopen(path)`` maps in addition to ``process``.

        The search goes on after a missing library, to find all problems; ``missing`` has the missing libraries in the
        order of the search, and ``ld.so`` stops at the first of them. A program starts with no library loaded: on
        this machine, a search path must lead to each.
        """
        closure = self._map_closure(process, path)
        if not process.for_program or not self._search.native:
            return closure
        # Torch's libraries and those of other packages are in the process only after an import. So the search is
        # repeated without them: what torch lacks stays missing, and so does what no search path of the program leads
        # to.
        alone = msgspec.structs.replace(self._search, siblings={}, torch={}, others=_find_nowhere)
        really = Loader(self._objects, alone, self._machine)._map_closure(Process(has_python=False), path)
        lacking = {library.name for library in closure.missing if library.absence is Absence.TORCH}
        missing = tuple(
            library
            if library.name in lacking
            else msgspec.structs.replace(library, absence=Absence.UNREACHED, instead=None)
            for library in really.missing
            if not is_torch_library(library.needed_by.name)  # torch itself is taken to load
        )
        return msgspec.structs.replace(closure, missing=missing)

    def _map_closure(self, process: Process, path: str) -> Closure:
        """Follow the ``needed`` entries from a file, breadth-first, as ``_dl_map_object_deps`` does."""
        names = dict(process.names)
        facts = self._objects.object_at(path)
        root = names.get(path) or Module(path=path, facts=facts)
        modules: dict[Module, None] = {root: None}
        needed: dict[Module, tuple[Module, ...]] = {}
        missing: list[MissingLibrary] = []
        self._register_names(names, root)
        already_loaded = set(process.modules)
        # Invariant: each module in ``modules`` is mapped, and its own entries were followed unless it is in the queue.
        queue = deque([root])
        while queue:
            module = queue.popleft()
            direct: list[Module] = []
            for name in module.facts.needed if module.facts else ():
                library = names.get(name) or self._find_library(name, module, process, names)
                # A library that is only assumed to exist because torch needs it is still missing for others.
                if library is None or (library.facts is None and module not in already_loaded):
                    absent = self._explain_absence(name, module, process)
                    if library is None or absent.absence is not Absence.TORCH:
                        missing.append(absent)
                    if library is None and absent.absence is Absence.TORCH:
                        continue
                    library = library or _assume_library(name, module)
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

    def _find_library(self, name: str, needed_by: Module, process: Process, names: dict[str, Module]) -> Module | None:
        """Find a library by the name in a ``needed`` entry, and map it; return None if this machine has no file for it.

        Return None if no file is there for this machine.
        """
        for path in self._candidate_paths(name, needed_by, process):
            facts = self._objects.object_at(path)
            # ld.so passes over files for other machines (open_verify in dl-load.c), and goes on with the next folder.
            if facts is None or facts.machine is not self._machine:
                continue
            if path in names:
                return names[path]
            module = Module(path=path, facts=facts, loader=needed_by)
            self._register_names(names, module)
            return module
        return None

    def _candidate_paths(self, name: str, needed_by: Module, process: Process) -> Iterator[str]:
        """Yield the paths where ``ld.so`` looks for a library, in the order of ``_dl_map_object`` in ``dl-load.c``."""
        if "/" in name:
            yield name
            return
        # RPATH first: that of the object and of all that loaded it, unless the object has a RUNPATH, which disables
        # RPATH. RUNPATH comes after LD_LIBRARY_PATH, and applies to the object's own entries only.
        if needed_by.facts and not needed_by.facts.runpath:
            chain = _chain_of_loaders(needed_by)
            if process.has_python and process.modules and process.modules[0] not in chain:
                chain.append(process.modules[0])  # the RPATH of the program applies to all objects
            for module in chain:
                if module.facts and not module.facts.runpath:
                    yield from (
                        posixpath.join(folder, name)
                        for folder in _expand_origin(module.facts.rpath, _origin_of(module))
                    )
        yield from (posixpath.join(folder, name) for folder in self._search.environment)
        if needed_by.facts:
            yield from (
                posixpath.join(folder, name)
                for folder in _expand_origin(needed_by.facts.runpath, _origin_of(needed_by))
            )
        # Not ld.so from here on: what the package itself, torch or another package has loaded by then.
        if sibling := self._search.siblings.get(name):
            yield sibling
        own = self._search.torch.get(without_version(name)) if is_torch_library(name) else None
        if own is not None and (facts := self._objects.object_at(own)) and facts.soname == name:
            yield own
        # ld.so.cache and the default folders.
        yield from (posixpath.join(folder, name) for folder in self._search.system)
        if not is_torch_library(name) and not is_system_library(name) and (library_path := self._search.others(name)):
            yield library_path

    def _explain_absence(self, name: str, needed_by: Module, process: Process) -> MissingLibrary:
        """Say why a library was not found."""
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
        """Return the version of a CUDA or ROCm library that torch needs, if only that one will be in the process."""
        library = gpu_library(name)
        if library is None or self._search.own_cuda or (not self._search.native and _has_own_cuda(needed_by)):
            return None
        loaded = {path.rpartition("/")[2]: module for path, module in process.names.items()}
        gpu_libraries = ((gpu_library(name), module) for name, module in loaded.items())
        return next((module for other, module in gpu_libraries if other and other.stem == library.stem), None)

    @staticmethod
    def _register_names(names: dict[str, Module], module: Module) -> None:
        """Enter a module under the names by which later ``needed`` entries find it: its path and its SONAME."""
        names[module.path] = module
        if module.facts and module.facts.soname:
            names.setdefault(module.facts.soname, module)


def _has_own_cuda(module: Module) -> bool:
    """Tell whether an object says itself where libraries of CUDA or ROCm are: in a folder that only its system has."""
    folders = (*module.facts.rpath, *module.facts.runpath) if module.facts else ()
    return any(word in folder for folder in folders for word in ("cuda", "nvidia", "rocm"))


def _assume_library(name: str, needed_by: Module) -> Module:
    """Return a module for a library that was not found, but is assumed to exist."""
    return Module(path=name, facts=None, loader=needed_by)


def _chain_of_loaders(module: Module | None) -> list[Module]:
    """Return a module, the module that loaded it, and so on."""
    chain = []
    while module:
        chain.append(module)
        module = module.loader
    return chain


def _origin_of(module: Module) -> str:
    return posixpath.dirname(module.path) or "."


@functools.lru_cache(maxsize=1024)
def _expand_origin(folders: tuple[str, ...], origin: str) -> tuple[str, ...]:
    """Return search folders with ``$ORIGIN`` expanded; ``$LIB`` and ``$PLATFORM`` are not, and so match nothing.

    :param origin: the folder of the module that has them
    """
    return tuple(
        posixpath.normpath(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)) for folder in folders
    )
