"""Which objects a load maps, and from where: the first half of ``dlopen``.

The model is glibc's ``dl-load.c`` and ``dl-deps.c``.
"""

from __future__ import annotations

import functools
import posixpath
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec.structs
from msgspec import Struct, field

from abiscan.binary.elf import Filtee, Machine
from abiscan.binary.ownership import (
    gpu_library,
    is_system_library,
    is_torch_library,
    may_be_with_python,
    without_version,
)
from abiscan.inputs.files import OpenedFile
from abiscan.linkage.model import NO_SUCH_FILE, Absence, Closure, MissingLibrary, Module, Process
from abiscan.regex import regex

if TYPE_CHECKING:
    from abiscan.linkage.host import Host

_TOKEN: Final = regex(r"\$(?:\{(ORIGIN|PLATFORM|LIB)\}|(ORIGIN|PLATFORM|LIB)(?![A-Za-z0-9_]))")


class Objects(Protocol):
    """The files that the loader can see."""

    def open_library(self, path: str) -> OpenedFile | None:
        """Return what ``ld.so`` gets when it opens a path; None if there is nothing."""

    def find_folder(self, folder: str, subfolders: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]] | None:
        """Return a folder without ``..`` in its path, and which of some subfolders it has; None if it is not there."""


def _find_nowhere(_: str) -> None:
    """Find nothing: no package has any library."""


class SearchPath(Struct, frozen=True, kw_only=True):
    """Where libraries are searched for, in this order, besides the search paths in the objects themselves.

    :param environment: ``LD_LIBRARY_PATH``
    :param siblings: libraries of the same wheel or folder, by base name: a package loads them before their users, or
        has them on its path
    :param has_code: whether they come with code that may load them first; else they come last
    :param torch: torch's own libraries, by base name: a distribution's have names with a version for the loader
    :param system: the folders that are built into ``ld.so``
    :param native: whether ``system`` belongs to the machine that the extension is built for
    :param host: the ``ld.so`` of that machine, None if nothing else is known of it
    :param with_python: by name, the library that a module of Python's has loaded; None if there is none
    :param others: by name, the library of another package, which that package loads before; None if there is none
    :param own_cuda: the libraries of CUDA that packages bring which the extension requires
    """

    environment: tuple[str, ...] = ()
    siblings: Mapping[str, str] = field(default_factory=dict)
    has_code: bool = True
    torch: Mapping[str, str] = field(default_factory=dict)
    system: tuple[str, ...] = ()
    native: bool = True
    host: Host | None = None
    with_python: Callable[[str], str | None] = _find_nowhere
    others: Callable[[str], str | None] = _find_nowhere
    own_cuda: frozenset[str] = frozenset()


class Loader:
    """Maps objects into a process, searching for them as ``ld.so`` does.

    :param machine: the machine of the process; files for another one are skipped
    """

    def __init__(self, objects: Objects, search: SearchPath, machine: Machine) -> None:
        self._objects = objects
        self._search = search
        self._machine = machine
        self._places: dict[tuple[tuple[str, ...], Module | None], Sequence[tuple[str, str]]] = {}

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
        names = dict(closure.names)
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
            if library.name in lacking or library.absence is Absence.REFUSED
            else msgspec.structs.replace(library, absence=Absence.UNREACHED, instead=None)
            for library in really.missing
            if not is_torch_library(library.needed_by.name)  # torch itself is assumed to load
        )
        return msgspec.structs.replace(closure, missing=missing)

    def _map_closure(self, process: Process, path: str) -> Closure:
        """Follow the ``needed`` entries from a file, breadth-first, as ``_dl_map_object_deps`` does."""
        names = dict(process.names)
        root = names.get(path) or self._open_root(path, names)
        order: list[Module] = [root]
        modules = {root}
        needed: dict[Module, tuple[Module, ...]] = {}
        missing: list[MissingLibrary] = []
        already_loaded = set(process.modules)
        # Invariant: each module in ``modules`` is mapped, and its own entries were followed unless it is in the queue.
        queue = deque([root])
        while queue:
            module = queue.popleft()
            if module in already_loaded and (loaded := _loaded_for(module, names)) is not None:
                needed[module] = loaded
                new = [library for library in dict.fromkeys(loaded) if library not in modules]
                modules.update(new)
                order += new
                queue += new
                continue
            direct: list[Module] = []
            in_front: list[Module] = []
            for name, filtee in _needed_and_filtees(module):
                if filtee and filtee.optional and not self._has_optional(name, module, process, names):
                    continue
                library = self._map_needed(name, module, process, names, missing)
                if library is None:
                    continue
                direct.append(library)
                if library in modules:
                    continue
                modules.add(library)
                # A filtee comes before what it is for, but for the object that is opened: that stays the first.
                if filtee:
                    order.insert(max(1, order.index(module)), library)
                    in_front.append(library)
                else:
                    order.append(library)
                    queue.append(library)
            queue.extendleft(reversed(in_front))
            needed[module] = tuple(direct)
        return Closure(
            modules=tuple(order),
            new=tuple(module for module in order if module not in already_loaded),
            needed=needed,
            missing=tuple(missing),
            names=names,
        )

    def _open_root(self, path: str, names: dict[str, Module]) -> Module:
        """Map the file that is opened by its path."""
        file = self._objects.open_library(path)
        if file and file.identity in names:
            return names[file.identity]
        root = Module(path=path, facts=file.facts if file else None, is_unread=_is_unread(file))
        self._register_names(names, root, file.identity if file else path)
        return root

    def _has_optional(self, name: str, module: Module, process: Process, names: dict[str, Module]) -> bool:
        """Map a library that may be missing (DT_AUXILIARY), and tell whether it is there."""
        library = names.get(name) or self._find_library(name, module, process, names)
        if isinstance(library, Module) and not _is_assumed(library):
            names[name] = library
            return True
        return False

    def _map_needed(
        self, name: str, module: Module, process: Process, names: dict[str, Module], missing: list[MissingLibrary]
    ) -> Module | None:
        """Map a library that a module needs, and note it if it is missing; None if torch lacks it."""
        library = names.get(name) or self._find_library(name, module, process, names)
        if isinstance(library, MissingLibrary):
            missing.append(library)
            library = _assume_library(name, module)
        # A library that is only assumed to exist because torch needs it is still missing for others.
        elif library is None or (_is_assumed(library) and module not in process.modules):
            absent = self._explain_absence(name, module, process)
            if library is None or absent.absence is not Absence.TORCH:
                missing.append(absent)
            if library is None and absent.absence is Absence.TORCH:
                return None
            library = library or _assume_library(name, module)
        names[name] = library
        return library

    def _find_library(
        self, name: str, needed_by: Module, process: Process, names: dict[str, Module]
    ) -> Module | MissingLibrary | None:
        """Find a library by the name in a ``needed`` entry, and map it; return None if no file is there for it.

        The search ends at a file that ``ld.so`` refuses: then it is that one which is missing.
        """
        other_class = False
        for path, opened_as, by_loader in self._candidate_paths(name, needed_by, process):
            file = self._objects.open_library(path)
            if file is None:
                continue
            if file.refusal is not None and by_loader:
                return MissingLibrary(
                    name=name, needed_by=needed_by, absence=Absence.REFUSED, words=file.refusal, path=opened_as
                )
            # ld.so passes over files for other machines (open_verify in dl-load.c), and goes on with the next folder.
            other_class |= file.is_other_class and by_loader
            is_other = file.facts is not None and file.facts.machine is not self._machine
            if is_other or file.is_other_class or file.refusal is not None:
                continue
            if file.identity in names:
                return names[file.identity]
            # Which one is in the process depends on how the Python there was built.
            if not self._search.native and process.modules and may_be_with_python(name):
                return MissingLibrary(name=name, needed_by=needed_by, absence=Absence.SYSTEM)
            module = Module(
                path=path, facts=file.facts, loader=needed_by, opened_as=opened_as, is_unread=_is_unread(file)
            )
            self._register_names(names, module, file.identity)
            return module
        if other_class and self._search.native:
            absent = self._explain_absence(name, needed_by, process)
            return msgspec.structs.replace(absent, absence=Absence.REFUSED, words="wrong ELF class: ELFCLASS32")
        return None

    def _candidate_paths(self, name: str, needed_by: Module, process: Process) -> Iterator[tuple[str, str, bool]]:
        """Yield the paths where ``ld.so`` looks for a library, in the order of ``_dl_map_object`` in ``dl-load.c``.

        Each comes with how ``ld.so`` writes it, and whether it is ``ld.so`` that looks there.
        """
        if loaded := self._search.with_python(name):
            yield loaded, loaded, False  # before torch, so that it is in the process already
        if "/" in name or "$" in name:
            expanded = self._expand(name, needed_by)
            if expanded is not None and "/" in expanded:
                folder, _, base = expanded.rpartition("/")
                if place := self._objects.find_folder(folder or "/"):
                    yield posixpath.join(place[0], base), expanded, True
                return
            name = expanded or name
        yield from ((path, opened_as, True) for path, opened_as in self._search_objects(name, needed_by, process))
        # No longer ld.so's search: libraries that the package itself, torch or another package has loaded by then.
        sibling = self._search.siblings.get(name)
        if sibling and self._search.has_code:
            yield sibling, sibling, False
        own = self._search.torch.get(without_version(name)) if is_torch_library(name) else None
        if own is not None and (file := self._objects.open_library(own)) and file.facts and file.facts.soname == name:
            yield own, own, False
        if needed_by.facts is None or not needed_by.facts.skips_default_folders:
            yield from ((path, opened_as, True) for path, opened_as in self._search_system(name))
        elif self._search.host and (cached := self._search.host.find_cached(name)) and not self._is_default(cached):
            yield cached, cached, True
        # Every system has libraries of its own, known here or not, and ld.so finds those.
        if sibling and not self._search.has_code and (self._search.native or not is_system_library(name)):
            yield sibling, sibling, False
        if not is_torch_library(name) and not is_system_library(name) and (library_path := self._search.others(name)):
            yield library_path, library_path, False

    def _search_objects(self, name: str, needed_by: Module, process: Process) -> Iterator[tuple[str, str]]:
        """Yield the paths that objects and the environment lead to."""
        # RPATH first: that of the object and of all that loaded it, unless the object has a RUNPATH, which disables
        # RPATH. RUNPATH comes after LD_LIBRARY_PATH, and applies to the object's own entries only.
        program = process.modules[0] if process.has_python and process.modules else None
        if needed_by.facts and not needed_by.facts.runpath:
            chain = _chain_of_loaders(needed_by)
            if program and program not in chain:
                chain.append(program)  # the RPATH of the program applies to all objects
            for module in chain:
                if module.facts and not module.facts.runpath:
                    yield from self._search_path(name, module.facts.rpath, module)
        yield from self._search_path(name, self._search.environment, program)
        if needed_by.facts:
            yield from self._search_path(name, needed_by.facts.runpath, needed_by)

    def _search_path(self, name: str, folders: tuple[str, ...], module: Module | None) -> Iterator[tuple[str, str]]:
        """Yield the paths that a list of folders leads to, which a module has."""
        for place, written in self._places_on(folders, module):
            yield place + name, written + name

    def _places_on(self, folders: tuple[str, ...], module: Module | None) -> Sequence[tuple[str, str]]:
        """Return the folders that a list leads to, as ``_search_folder`` does. Many names are searched for in each."""
        if folders == ("",):  # an entry without a text, which decompose_rpath ignores
            return ()
        key = folders, module
        if key not in self._places:
            texts = (self._expand(folder, module) for folder in folders)
            expanded = [text.rstrip("/") or text[:1] for text in texts if text is not None]
            self._places[key] = [place for folder in expanded for place in self._search_folder(folder)]
        return self._places[key]

    def _search_system(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the path in ``ld.so.cache``, and those in the default folders."""
        host = self._search.host
        if host and (cached := host.find_cached(name)):
            yield cached, cached
        for folder in host.default_folders if host else self._search.system:
            yield from ((place + name, written + name) for place, written in self._search_folder(folder))

    def _search_folder(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield what stands before names in a folder: in the subfolders that are for this processor, then in itself.

        Each comes with how ``ld.so`` writes it.
        """
        host = self._search.host
        resolved = self._objects.find_folder(folder, host.subfolder_roots if host else ())
        if resolved is None:
            return
        place, roots = resolved
        prefix = f"{folder}/" if folder and folder != "/" else folder
        if host and roots:
            for subfolder in host.subfolders:
                if subfolder.partition("/")[0] in roots:
                    yield posixpath.join(place, subfolder, ""), f"{prefix}{subfolder}/"
        yield posixpath.join(place, ""), prefix

    def _expand(self, text: str, module: Module | None) -> str | None:
        """Expand the tokens in a path that a module has (``_dl_dst_substitute``); None if one stands for nothing."""
        if "$" not in text:
            return text
        tokens = {**(self._search.host.tokens if self._search.host else {})}
        if module:
            tokens |= _origin_of(module)
        names = [match[1] or match[2] for match in _TOKEN.finditer(text)]
        if any(token not in tokens for token in names):
            return None
        return _TOKEN.sub(lambda match: tokens[match[1] or match[2]], text)

    def _is_default(self, path: str) -> bool:
        """Whether a path begins like a default folder, which NODEFLIB excludes."""
        host = self._search.host
        return host is not None and any(path.startswith(f"{folder}/") for folder in host.default_folders)

    def _explain_absence(self, name: str, needed_by: Module, process: Process) -> MissingLibrary:
        """Say why a library was not found."""
        absence, instead, words = Absence.EXTERNAL, None, NO_SUCH_FILE
        expanded = self._expand(name, needed_by) or name
        if is_torch_library(name):
            absence = Absence.TORCH
        elif not self._search.native and is_system_library(name):
            absence = Absence.SYSTEM
        elif name in process.names:
            absence = Absence.WITH_TORCH
        elif "/" in expanded and self._search.native:
            absence = Absence.UNREACHED
        elif self._is_excluded(name, needed_by):
            absence, words = Absence.UNREACHED, self._word_exclusion(needed_by)
        elif (instead := self._other_version(name, needed_by, process)) is not None:
            absence = Absence.OTHER_VERSION
        path = expanded if expanded != name or expanded.startswith("/") else None
        return MissingLibrary(name=name, needed_by=needed_by, absence=absence, instead=instead, words=words, path=path)

    def _is_excluded(self, name: str, needed_by: Module) -> bool:
        """Whether the system has a library, and an object says that it must not be looked for there."""
        if not self._search.native or needed_by.facts is None or not needed_by.facts.skips_default_folders:
            return False
        return any(self._objects.open_library(path) for path, _ in self._search_system(name))

    def _word_exclusion(self, needed_by: Module) -> str:
        """Word the error where nothing is searched: without a failure of the system, there is no reason to tell."""
        facts, paths = needed_by.facts, self._search.environment
        for module in _chain_of_loaders(needed_by):
            paths += (*module.facts.rpath, *module.facts.runpath) if module.facts else ()
        return NO_SUCH_FILE if facts and any(paths) else NO_SUCH_FILE.rpartition(":")[0]

    def _other_version(self, name: str, needed_by: Module, process: Process) -> Module | None:
        """Return the version of a CUDA or ROCm library that torch needs, if only that one will be in the process."""
        library = gpu_library(name)
        if library is None or name in self._search.own_cuda or (not self._search.native and _has_own_cuda(needed_by)):
            return None
        return _gpu_libraries(process).get(library.stem)

    @staticmethod
    def _register_names(names: dict[str, Module], module: Module, identity: str) -> None:
        """Enter a module under the names by which later ``needed`` entries find it: its path, its file, its SONAME."""
        names[module.path] = names[identity] = names[module.called] = module
        if module.facts and module.facts.soname:
            names.setdefault(module.facts.soname, module)


@functools.lru_cache(8)
def _gpu_libraries(process: Process) -> dict[str, Module]:
    """Return the libraries of CUDA or ROCm in a process, by their names without versions."""
    loaded = {path.rpartition("/")[2]: module for path, module in process.names.items()}
    libraries: dict[str, Module] = {}
    for name, module in loaded.items():
        if library := gpu_library(name):
            libraries.setdefault(library.stem, module)
    return libraries


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


def _origin_of(module: Module) -> dict[str, str]:
    """Return what ``$ORIGIN`` stands for; nothing if a relative path leads nowhere."""
    folder = posixpath.dirname(module.called)
    if not folder.startswith("/"):
        try:
            folder = posixpath.join(posixpath.abspath(""), folder)
        except OSError:
            return {}
    return {"ORIGIN": folder}


def _needed_and_filtees(module: Module) -> list[tuple[str, Filtee | None]]:
    """Return the names of the libraries that an object needs, or that are its filtees, in the order of its entries."""
    facts = module.facts
    entries: list[tuple[str, Filtee | None]] = [(name, None) for name in facts.needed] if facts else []
    for filtee in reversed(facts.filtees) if facts else ():
        entries.insert(filtee.position, (filtee.name, filtee))
    return entries


def _loaded_for(module: Module, names: Mapping[str, Module]) -> tuple[Module, ...] | None:
    """Return what an object that is in the process needs, without a search; None if something has to be looked for."""
    if module.facts is None:
        return ()
    libraries = tuple(names[name] for name in module.facts.needed if name in names)
    return libraries if len(libraries) == len(module.facts.needed) and not module.facts.filtees else None


def _is_assumed(module: Module) -> bool:
    return module.facts is None and not module.is_unread


def _is_unread(file: OpenedFile | None) -> bool:
    return file is not None and file.facts is None
