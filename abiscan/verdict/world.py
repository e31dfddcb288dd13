"""What the Python code of a package finds on one torch: its interpreter, its versions, and how libraries load there."""

from __future__ import annotations

import contextlib
import copy
import functools
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec.structs
from msgspec import Struct, field

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import gpu_library, is_system_library
from abiscan.binary.registration_api import registers_anything
from abiscan.dispatch import torchscript
from abiscan.errors import InputError
from abiscan.extension.examined import ExaminedExtension, ExaminedTarget
from abiscan.inputs import system
from abiscan.inputs.files import Files
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.package_files import Package
from abiscan.inputs.torch_build import build_of
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.layout_drift import predict_crash
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.model import NO_SUCH_FILE, Absence, Closure, LoadError, MissingLibrary, Module, Process, Resolution
from abiscan.linkage.resolve import resolve_load, symbol_message, version_message
from abiscan.python.package.model import Answer, LoadedBy, NoResult, Raised
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD
from abiscan.torches import embedded_python
from abiscan.torches.string_abi import uses_cxx11_strings
from abiscan.torches.torch import Torch
from abiscan.verdict.any_system import (
    LoadAttempt,
    importing_python,
    possible_pythons,
    raised_by,
    refused_load,
    with_bases,
)
from abiscan.verdict.checker import Checker, Setting
from abiscan.verdict.numpy_abi import find_module_error

if TYPE_CHECKING:
    from abiscan.extension.operator_results import OperatorProvider
    from abiscan.extension.replay import Replayer
    from abiscan.registrations import Registrations


class _ProcessState(Struct, frozen=True, kw_only=True, eq=False):
    """A process between two loads.

    :ivar loaded: the libraries of the package that are in it
    :ivar replayer: has what they registered; None if nothing
    :ivar defined: the operators that they define, without overloads
    :ivar namespaces: the namespaces of everything that libraries tried to register
    :ivar is_unread: whether there may be further registrations
    :ivar is_followed: whether no other library of the package can be in the process
    :ivar registrants: the objects that registered something, by path
    :ivar after: what came of the loads that were tried next
    """

    process: Process
    loaded: frozenset[str] = frozenset()
    replayer: Replayer | None = None
    defined: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    is_unread: bool = False
    is_followed: bool = True
    registrants: Mapping[str, OperatorProvider] = field(default_factory=dict)
    after: dict[tuple[str, LoadedBy], tuple[LoadAttempt, _ProcessState]] = field(default_factory=dict)


class PackageWorld:
    """The process into which a package is imported. See ``abiscan.python.package.model.World``.

    :param checker: checks loads on the torch
    :param target: the package, placed next to that torch
    """

    unread: str | None = None
    """What is not read in any of its libraries, in words."""
    is_exact = True
    """Whether the texts of loads that fail are those of the system, word for word."""

    def __init__(self, checker: Checker, target: ExaminedTarget, package: Package) -> None:
        machines = [extension.facts.machine for extension in target.extensions]
        setting = checker.setting(target, next(iter(machines), system.own_machine() or Machine.X86_64))
        self.torch = setting.release
        self.build, self.release_number = setting.release.build, setting.release.version
        self.torch_version, self.cuda = torch_versions(checker.torch, setting.release.build, checker.files)
        self.python = importing_python(checker.torch, target.target)
        self.oldest_python, self.newest_python = possible_pythons(self.python, target.target, self.release_number)
        self.machine = setting.release.machine.value
        self.cpu = checker.cpu
        self.gpus = checker.gpus_with(self.cuda) if isinstance(self.cuda, str) else ()
        self._linux_torch = checker.torch.for_linux()
        self._files, self._package = checker.files, package
        self.attempts: dict[str, LoadAttempt] = {}
        """What came of each load, by path."""
        self._loads = _Loads(checker, target, package, setting)
        self._moment = self._loads.start

    @functools.cached_property
    def cxx11_abi(self) -> bool | Answer:
        """``torch.compiled_with_cxx11_abi()``."""
        result = uses_cxx11_strings(Libraries(self.torch.own_libraries, self._files))
        return Answer.UNKNOWN if result is None else result

    @functools.cached_property
    def torch_names(self) -> TorchNames | None:
        """The Python names of torch: of its own files, or of its release."""
        return self._linux_torch.python_names(self.torch)

    def fresh(self) -> PackageWorld:
        """Return the same world, with nothing of the package loaded yet; what came of a load is remembered."""
        world = copy.copy(self)
        world.attempts = {}
        world._moment = self._loads.start
        return world

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """Return what loading a library of the package raises; see ``World.load``."""
        # From here on, what is in the process is not known: nothing that was remembered of loads holds.
        if path is None:
            self._moment = msgspec.structs.replace(self._moment, is_followed=False, after={})
            return Answer.UNKNOWN
        attempt, self._moment = self._loads.load(self._moment, path, loader)
        self.attempts[path] = attempt
        if attempt.words is not None:
            return raised_by(attempt, loader)
        if attempt.is_known:
            return None
        return _raised_here(attempt, loader)

    def operator(self, name: str) -> bool | Answer:
        """Tell whether torch or a library loaded so far defines an operator; see ``World.operator``."""
        # Which overloads a library defines is not kept: of an operator that it defines, any may be there.
        base, dot, _ = name.partition(".")
        if dot and base in self._moment.defined:
            return Answer.UNKNOWN
        return name in self._moment.defined or self._loads.operator(self._moment, name)

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """Return what an operator of the package returns, called without arguments; see ``World.call``."""
        return self._loads.call(self._moment, operator)

    def refused_load(self, path: str) -> str | None:
        """Return what ``torch.load`` says of a file of the package; see ``World.refused_load``."""
        return refused_load(self._package, path, self.torch.judged_as or self.build)

    def operators_of(self, path: str) -> tuple[str, ...]:
        """Return the operators that a library defines, and the package's own that it has kernels for."""
        return self._loads.operators_of(path)

    @property
    def missing_requirements(self) -> tuple[str, ...]:
        """The packages that are required and not installed, if the libraries that are lacking may be theirs."""
        assumed = any(attempt.assumed for attempt in self.attempts.values())
        return self._loads.missing_requirements if assumed else ()

    def lacking_torch(self, path: str) -> str | None:
        """Return what loading a library says in a process without torch; None if it finds those of torch."""
        return self._loads.lacking_torch(path)

    def has(self, path: str) -> bool:
        """Whether a library of the package is in the process."""
        return self._loads.location(path) in self._moment.process.names


def _raised_here(attempt: LoadAttempt, loader: LoadedBy) -> Raised | Answer:
    """Return what a load raises on this machine; it may succeed on one that has the libraries that are lacking."""
    if attempt.unreadable:
        return Answer.UNKNOWN
    here = msgspec.structs.replace(attempt, words=attempt.problem)
    return msgspec.structs.replace(raised_by(here, loader), lacking=attempt.lacking[0])


class _Loads:
    """How the libraries of one package load on one torch."""

    def __init__(self, checker: Checker, target: ExaminedTarget, package: Package, setting: Setting) -> None:
        self.start = _ProcessState(process=setting.process)
        self._checker = checker
        self._files = checker.files
        self._root = package.root
        self._setting = setting
        self._alone = setting.loader.without_siblings()
        self._examined = {extension.extension.location: extension for extension in target.extensions}
        self._siblings = target.target.siblings
        self._package = package
        self._target = target
        self._results = target.operator_results
        self._own: dict[str, bool] = {}
        """Whether the package has a library that defines operators in a namespace, for those asked about."""

    @functools.cached_property
    def missing_requirements(self) -> tuple[str, ...]:
        """The packages that will bring libraries of their own once they are installed, as the package requires.

        Installing the package brings them. One that is installed already goes without.
        """
        site = posixpath.dirname(self._checker.torch.package)
        is_installed = self._package.root == site if self._package.installed is None else self._package.installed
        return () if is_installed else self._package.missing_requirements(site)

    def lacking_torch(self, path: str) -> str | None:
        """Return what loading a library says in a process without torch; None if it finds those of torch."""
        return self._checker.lacking_torch(self.location(path), self._setting.release.machine)

    def location(self, path: str) -> str:
        """Return where a library of the package is installed."""
        return posixpath.normpath(posixpath.join(self._root, path))

    def operators_of(self, path: str) -> tuple[str, ...]:
        """Return the operators that a library defines, and those of the package that it has kernels for."""
        examined = self._examined.get(self.location(path))
        result = examined.inventory.registrations if examined else None
        if result is None:
            return ()
        defined = {
            operator.name
            for operator in result.operators
            if operator.phase.value == "static-init" and not operator.jit_only
        }
        kernels = {operator.operator for operator in result.kernels if operator.phase.value == "static-init"}
        own = {name for name in kernels if name.partition("::")[0] not in self.namespaces_of_torch}
        return tuple(sorted(defined | own))

    def load(self, moment: _ProcessState, path: str, loader: LoadedBy) -> tuple[LoadAttempt, _ProcessState]:
        """Return the outcome of a load, and the process afterwards."""
        location = self.location(path)
        if location in moment.loaded:
            return LoadAttempt(path=path, words=None), moment
        # The same load in the same process ends alike. A process is never changed: each load that may matter leads to a
        # new one, which remembers its own loads.
        if (path, loader) not in moment.after:
            examined = self._examined.get(location)
            if examined is None:
                attempt, then = self._library(moment, location, path, loader), moment
            else:
                attempt, then = self._extension(moment, examined, loader)
            if attempt.words is None and attempt.is_known and loader is LoadedBy.IMPORT:
                attempt = self._after_numpy(attempt, location)
            if attempt.words is None and attempt.is_known:
                # ``torch.ops.load_library`` sets the flags of imports, and loads with ``ctypes``, which ignores them.
                visible = loader is LoadedBy.CTYPES_GLOBAL
                entered = self._setting.loader.enter(moment.process, location, visible=visible)
                then = msgspec.structs.replace(then, process=entered, loaded=moment.loaded | {location}, after={})
            # Whether it is in the process now is not known.
            elif attempt.words is None:
                then = msgspec.structs.replace(then, is_followed=False, after={})
            moment.after[path, loader] = attempt, then
        return moment.after[path, loader]

    def operator(self, moment: _ProcessState, name: str) -> bool | Answer:
        """Tell whether torch defines an operator that no library loaded so far does."""
        release, namespace = self._setting.release, name.partition("::")[0]
        if self._setting.torch.operators(release).has(name) or name in self._from_python:
            return True
        # A no must hold whatever else the process has: no TorchScript, no Python code of torch, and no library that is
        # not read may define the operator.
        # In a namespace that neither torch nor the package has, another package may define operators.
        if torchscript.may_have(name, release.torch_version):
            return Answer.UNKNOWN
        if namespace in embedded_python.namespaces() and not self._is_python_known:
            return Answer.UNKNOWN
        if moment.is_unread:
            return Answer.UNKNOWN
        known = moment.namespaces | self.namespaces_of_torch
        return False if namespace in known or self._is_own_namespace(namespace) else Answer.UNKNOWN

    def _is_own_namespace(self, namespace: str) -> bool:
        """Whether a library of the package defines operators in a namespace, whether or not it is loaded."""
        if namespace not in self._own:
            # One that does is enough. What a library defines is found by running it, which takes longer the larger it
            # is: of a package with 2.8 GB of libraries, the smallest ones tell.
            by_size = sorted(self._examined.values(), key=lambda examined: examined.extension.source.size)
            names = (name for examined in by_size for name in _defined_by(examined))
            self._own[namespace] = any(name.partition("::")[0] == namespace for name in names)
        return self._own[namespace]

    @functools.cached_property
    def _registers(self) -> bool:
        """Whether any library of the package registers something: an extension may bring along those that do."""
        return any(registers_anything(extension.facts.imports) for extension in self._examined.values())

    @functools.cached_property
    def _from_python(self) -> frozenset[str]:
        """The operators that Python code of torch defines, as far as that is recorded."""
        names = embedded_python.definitions(self._setting.release.torch_version) or frozenset()
        return with_bases(names) | {f"{name}{DEFAULT_OVERLOAD}" for name in names if "." not in name}

    @functools.cached_property
    def _is_python_known(self) -> bool:
        return embedded_python.definitions(self._setting.release.torch_version) is not None

    @functools.cached_property
    def namespaces_of_torch(self) -> frozenset[str]:
        """The namespaces in which torch defines operators."""
        return self._setting.torch.operators(self._setting.release).namespaces()

    def call(self, moment: _ProcessState, operator: str) -> int | bool | str | NoResult | None:
        """Return the result of an operator that the package has registered by then, or of a function of a module."""
        if "::" not in operator:
            return self._call_function(*operator.rsplit(":", 1))
        # A registration that was not read may replace the kernel that would be run.
        if moment.is_unread:
            return NoResult(reason="not all that the package registers could be read")
        # The emulator takes longer to import than many checks take.
        from abiscan.extension import operator_results
        from abiscan.registrations import NotRun

        result = operator_results.compute_result(
            moment.registrants.values(), operator, self._setting.release.torch_version, self._results
        )
        return NoResult(reason=result.reason) if isinstance(result, NotRun) else result

    def _call_function(self, path: str, name: str) -> int | bool | str | NoResult | None:
        source = self._files.find_source(self.location(path))
        if source is None:
            return NoResult(reason="the file cannot be read")
        from abiscan.emulation import call_function  # takes longer to import than many checks take
        from abiscan.registrations import NotRun

        key = source.identify_version(), name
        if key not in self._results:
            with contextlib.suppress(InputError):
                file = source.open_elf()
                self._results[key] = call_function(file, file.facts(), name)
        result = self._results.get(key, NotRun(reason="the file cannot be read"))
        return NoResult(reason=result.reason) if isinstance(result, NotRun) else result

    def _extension(
        self, moment: _ProcessState, examined: ExaminedExtension, loader: LoadedBy
    ) -> tuple[LoadAttempt, _ProcessState]:
        """Return the load of a library that uses torch, and the process afterwards."""
        setting = msgspec.structs.replace(self._setting, process=moment.process)
        # A copy, since a load that fails must leave no registration behind for the loads after it.
        replayer = moment.replayer.copy() if moment.replayer else None
        if replayer is None and self._registers:
            replayer = self._checker.replayer(together=True)
        linkage = self._checker.link(examined, setting, with_suggestions=False, replayer=replayer)
        # The namespaces count even if the load fails: some of its registrations may have taken place by then.
        load, registrations = linkage.load, list(_registrations_of(linkage.load))
        namespaces = replayer.namespaces(examined, load.resolution) if load.resolution and replayer else set()
        then = msgspec.structs.replace(moment, namespaces=moment.namespaces | namespaces, after={})
        attempt = self._make_attempt(examined.extension.location, linkage, loader, moment)
        if attempt.words is None and load.resolution and load.registering and replayer:
            replayer.keep(examined, load.resolution, load.registering)
            then = msgspec.structs.replace(
                then,
                replayer=replayer,
                defined=moment.defined | _defined(registrations, loader),
                is_unread=moment.is_unread or any(map(_is_unread, registrations)),
                registrants={**dict(self._registering_libraries(examined, load)), **moment.registrants},
            )
        return attempt, then

    def _registering_libraries(
        self, examined: ExaminedExtension, load: ExtensionLoad
    ) -> Iterator[tuple[str, OperatorProvider]]:
        if load.resolution and load.registering:
            from abiscan.extension.operator_results import list_providers  # needs the emulator

            source, closure = examined.extension.source, load.resolution.closure
            yield from list_providers(source, closure, load.registering, self._files)

    def _make_attempt(self, location: str, linkage: Linkage, loader: LoadedBy, moment: _ProcessState) -> LoadAttempt:
        load = linkage.load
        path = self._inside(location)
        if load.resolution is None:
            return LoadAttempt(path=path, words=f"{path}: {NO_SUCH_FILE}")
        result = self._found(path, location, load.resolution, moment)
        if load.release.judged_as is not None:
            from abiscan.verdict.unlisted_build import error_on  # few torches are checked as another build

            # The build that stands for this one may have other symbols.
            error = error_on(load)
            if error is None or error is not load.error:
                words = f"{path}: {error.message}" if error else None
                return LoadAttempt(path=path, words=words, needs=result.needs)
        if result.words is not None:
            return result
        # ``ctypes`` runs the static initialisers alone, an import also ``PyInit_*``.
        error = load.error if loader is LoadedBy.IMPORT else _error_of_dlopen(linkage)
        if error is None:
            return result
        if result.lacking and not result.assumed:  # it fails in any case, and here it does not get that far
            return msgspec.structs.replace(result, words=result.problem)
        return LoadAttempt(path=path, words=error.message, aborts=error.aborts, exact=error.exact, needs=result.needs)

    def _library(self, moment: _ProcessState, location: str, path: str, loader: LoadedBy) -> LoadAttempt:
        """Return the load of a library that does not use torch."""
        if self._files.find_source(location) is None:
            return LoadAttempt(path=path, words=f"{path}: {NO_SUCH_FILE}")
        file = self._files.open_library(location)
        if file is not None and file.refusal is not None and self._checker.torch.here:
            return LoadAttempt(path=path, words=f"{path}: {file.refusal}")
        if file is None or file.facts is None:
            return LoadAttempt(path=path, words=None, unreadable=True)
        opened = self._setting.loader.open(moment.process, location)
        resolution = resolve_load(moment.process, opened, self._checker.resolver)
        if file.facts.refusal is not None and (error := resolution.error) is not None:  # its tables may be unreadable
            words = error.message if error.aborts else f"{path}: {error.message}"
            return LoadAttempt(path=path, words=words, aborts=error.aborts, exact=error.exact)
        result = self._found(path, location, resolution, moment)
        # A library whose name does not show what it is may use torch all the same.
        if result.words is not None and self._setting.release.judged_as is not None:
            return LoadAttempt(path=path, words=None, unreadable=True)
        machine, imported = self._setting.release.machine, loader is LoadedBy.IMPORT
        if result.words is None and (
            end := self._checker.illegal(self._target, machine, resolution, imported=imported)
        ):
            return LoadAttempt(path=path, words=end.error.message, aborts=True, needs=result.needs)
        return result

    def _after_numpy(self, attempt: LoadAttempt, location: str) -> LoadAttempt:
        """Return a load by ``import`` as it ends once the module has asked for the C API of numpy, if it does."""
        torch = self._checker.torch
        if not torch.here:
            return attempt
        over = torch.interpreter.over if torch.interpreter else None
        folders = (*([over] if over else []), posixpath.dirname(torch.package))
        # Installing a package may bring another numpy.
        if self._package.installed is not True:
            tag = torch.interpreter.tag if torch.interpreter else None
            changes = self._package.changes(folders, (tag.major, tag.minor) if tag else None)
            if changes is None or "numpy" in changes:
                return attempt
        raised = find_module_error(location, self._files, folders)
        if isinstance(raised, Answer):
            return msgspec.structs.replace(attempt, unreadable=True)
        return msgspec.structs.replace(attempt, words=raised.message, raised=raised) if raised else attempt

    def _found(self, path: str, location: str, resolution: Resolution, moment: _ProcessState) -> LoadAttempt:
        """Return what ``ld.so`` finds wrong.

        Where not all loads could be followed, others of the package may have been loaded by then: whether a library
        loads does not depend on how it finds them. If it fails, the words do.
        """
        missing = self._missing(resolution.closure)
        lacking = tuple(dict.fromkeys(item.name for item in missing if item.absence is Absence.EXTERNAL))
        # Opened as by ``ld.so`` alone: a library of the package that no search path leads to is missing, unless it is
        # in the process.
        opened = self._alone.open(moment.process, location)
        unreachable = moment.is_followed and any(map(self._is_own, opened.missing))
        # It loads, if what is external and lacking here is elsewhere; ``needs`` says on which condition.
        if resolution.error is None and not unreachable:
            assumed = bool(lacking and self.missing_requirements)
            external = (item.name for item in resolution.closure.missing if item.absence is Absence.EXTERNAL)
            needs = tuple(dict.fromkeys(name for name in external if not name.startswith("libpython")))
            return LoadAttempt(path=path, words=None, lacking=lacking, assumed=assumed, needs=needs)
        words = self._first_missing(opened)
        if words is None:
            bound = resolve_load(moment.process, opened, self._checker.resolver)
            words = self._find_first(bound) or self._find_first(resolution)
        return LoadAttempt(path=path, words=words, lacking=lacking)

    def _is_own(self, library: MissingLibrary) -> bool:
        """Whether a library that no search path leads to is one of the package, and of nobody else."""
        if library.name not in self._siblings:
            return False
        return self._checker.torch.here or not (is_system_library(library.name) or gpu_library(library.name))

    def _find_first(self, resolution: Resolution) -> str | None:
        """Return the first problem in the order of ``ld.so``: a library, then a version, then a symbol."""
        # _dl_map_object_deps, _dl_check_map_versions, then the relocations: dl_open_worker_begin in glibc's
        # elf/dl-open.c.
        if words := self._first_missing(resolution.closure):
            return words
        for version in resolution.missing_versions:
            return self._words(version.provider, version_message(version))
        for symbol in resolution.undefined:
            return self._words(symbol.module, symbol_message(symbol.reference))
        for library in resolution.closure.missing:
            if library.absence is Absence.OTHER_VERSION:
                return library.message
        return None

    def _first_missing(self, closure: Closure) -> str | None:
        return next((self._inside(library.message) for library in self._missing(closure)), None)

    def _missing(self, closure: Closure) -> list[MissingLibrary]:
        """Return the libraries that this process lacks; what torch itself needs was there when torch was imported."""
        # What torch needs was found when torch was imported, by the same names. On another machine, nothing external is
        # known to be missing.
        here, of_torch = self._checker.torch.here, self._setting.process.names
        return [
            library
            for library in closure.missing
            if library.stops
            or (library.absence is Absence.EXTERNAL and here and library.name not in of_torch)
            or self._is_own(library)
        ]

    def _words(self, module: Module, message: str) -> str:
        return f"{self._inside(module.path)}: {message.replace(self._root + '/', '')}"

    def _inside(self, path: str) -> str:
        return path.removeprefix(self._root + "/")


def _defined_by(examined: ExaminedExtension) -> Iterator[str]:
    result = examined.inventory.registrations
    return (operator.name for operator in result.operators) if result else iter(())


def _registrations_of(load: ExtensionLoad) -> Iterator[Registrations]:
    """Yield what an extension and the libraries that it brings along register."""
    if load.registering:
        yield from (*load.registering.bundled.values(), load.registering.own)


def _is_unread(registrations: Registrations) -> bool:
    """Whether there may be further registrations, which could not be read."""
    return any(gap.stage == "emulation" for gap in registrations.gaps)


def _defined(registrations: Iterable[Registrations], loader: LoadedBy) -> set[str]:
    """Return the operators that are defined by a load, without overloads."""
    phases = ("static-init", "module-init") if loader is LoadedBy.IMPORT else ("static-init",)
    return {
        operator.name.partition(".")[0]
        for registration in registrations
        for operator in registration.operators
        if operator.phase.value in phases and not operator.jit_only
    }


def _error_of_dlopen(linkage: Linkage) -> LoadError | None:
    """Return what goes wrong in the initialisers if nothing is imported: the static ones alone run."""
    load = linkage.load
    # In the order of the load: an instruction that the processor lacks, a crash of code that uses classes, then what
    # the registrations raise.
    if not load.fails_before_registering and (
        end := next((end for end in linkage.hardware.illegal if not end.in_module), None)
    ):
        return end.error
    if crashes := predict_crash(load.drifts, load.release.version):
        return crashes
    if load.fails_before_registering:
        return load.error
    failure = load.registering.failure if load.registering else None
    return load.error if failure and failure.is_static else None


def torch_versions(torch: Torch, build: str | None, files: Files) -> tuple[str | Answer, str | Answer | None]:
    """Return ``torch.__version__`` and ``torch.version.cuda``.

    :param build: the full version of the torch, None if it is unknown
    """
    if build is None:
        return Answer.UNKNOWN, Answer.UNKNOWN
    # Its own version.py has the last word, where the files of torch are at hand.
    if stated := build_of(torch.package, files).version:
        return stated, build_of(torch.package, files).cuda
    version = TorchVersion(build)
    if version.cuda:
        return build, version.cuda
    return build, None if (version.local or "").startswith(("cpu", "rocm")) else Answer.UNKNOWN
