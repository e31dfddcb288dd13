"""Reads the Python code of a package on one torch: the facts that its verdict is made of."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from abiscan.binary.ownership import gpu_library, is_torch_library
from abiscan.errors import InputError
from abiscan.extension.examined import ExaminedTarget
from abiscan.inputs import interpreter, observed_fs, packages, system
from abiscan.inputs.files import Files
from abiscan.inputs.image_files import ImageFile
from abiscan.inputs.interpreter import Interpreter
from abiscan.inputs.package_files import Package
from abiscan.inputs.version import TorchVersion
from abiscan.python.importing.certainty import chain, fails_for_torch, is_certain
from abiscan.python.package.installed import Surroundings, installed_in, planned_in
from abiscan.python.package.model import (
    Answer,
    HowLoaded,
    ImportOutcome,
    LoadedBy,
    OtherTorch,
    PythonLine,
    PythonNeed,
    Raised,
    Reading,
    Registers,
)
from abiscan.python.package.sources import PackageFiles as SourceFiles
from abiscan.python.package.sources import PackageSources, normalized
from abiscan.python.package.systems import LINUX, PythonSystem
from abiscan.python.reading import PackageReader
from abiscan.regex import regex
from abiscan.torches import embedded
from abiscan.torches.pythons import admitted
from abiscan.torches.torch import EmbeddedTorch, Torch
from abiscan.verdict.checker import Checker
from abiscan.verdict.systems import system_of
from abiscan.verdict.world import PackageWorld

if TYPE_CHECKING:
    from abiscan.python.importing.conflicts import Conflict
    from abiscan.python.importing.other_code import OtherCode
    from abiscan.python.later.dropped_modules import DroppedImport
    from abiscan.python.later.lost_bases import BaseQuestion
    from abiscan.python.later.mentions import LaterUse
    from abiscan.python.later.numpy_needs import NumpyNeed
    from abiscan.python.later.saved_modules import AddedAttribute
    from abiscan.python.later.version_refusals import OwnRefusal
    from abiscan.python.torch_api.operator_calls import Overload
    from abiscan.verdict.image_world import ImageWorld
    from abiscan.verdict.other_imports import OtherImports

_NOT_FOR_USERS: Final = regex(
    r"_|(tests?|testing|bench(es|marks?|marking)?|examples?|samples?|demos?|docs?|scripts?|tools?|utils|ci|build|setup"
    r"|conf|sphinx|noxfile|tasks|versioneer|packaging)$|(test|bench|build)_|.*(_tests?|_benchmarks?|__mypyc)$|conftest"
)
"""The modules at the top of a package that are not for its users, by name: tests, and what builds and documents it."""
_CUDA_LIBRARIES: Final = ("libc10_cuda.", "libtorch_cuda.", "libcudart.")


class CodeFiles(Struct, frozen=True):
    """The files of a package, for those who read its code.

    :ivar needed: returns the libraries that one of its libraries needs
    """

    package: Package
    needed: Callable[[str], Sequence[str]] = lambda _path: ()

    def members(self) -> Sequence[str]:
        """Return the paths of all its files."""
        return self.package.members

    def read(self, path: str) -> bytes:
        """Return the bytes of one of them."""
        return self.package.read(path)


class PackageFacts(Struct, frozen=True, kw_only=True):
    """What is known of the import of a package on one torch: with the results for its libraries, the verdict follows.

    :ivar target: the package, placed next to the torch
    :ivar outcome: of the module that goes by its name; None if it has none
    :ivar others: those of the other modules that it installs for its users
    :ivar apart: those of its tests and benchmarks, and of modules that only its own code imports
    :ivar submodules: those of public submodules that fail, or may fail, where the import of the package succeeds
    :ivar open_loads: where it loads files that this torch may refuse, by what is in them
    :ivar old_modules: what modules lack that an older torch has saved, and where it loads them
    :ivar dropped: what it imports that new releases of other packages no longer have, and where
    :ivar numpy_needs: what fails with newer numpys that may be installed with it
    :ivar python_needs: what fails on newer Pythons that may import it
    :ivar conflicts: the imports that fail if a package is installed which it does not require
    :ivar process: the process after the libraries that the outcome loads
    :ivar here: whether that process is one of this machine
    :ivar unsure: the other packages, by their top-level modules, of which it imports something that does not certainly
        work
    :ivar lacking_alone: finds the external libraries that its libraries lack, where none of them has to do with torch
    """

    package: Package
    target: ExaminedTarget
    reading: Reading
    outcome: ImportOutcome | None
    others: tuple[ImportOutcome, ...] = ()
    apart: tuple[ImportOutcome, ...] = ()
    submodules: tuple[ImportOutcome, ...] = ()
    open_loads: tuple[PythonLine, ...] = ()
    old_modules: tuple[tuple[AddedAttribute, ...], tuple[PythonLine, ...]] = ((), ())
    dropped: tuple[DroppedImport, ...] = ()
    numpy_needs: tuple[NumpyNeed, ...] = ()
    python_needs: tuple[PythonNeed, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    process: PackageWorld | ImageWorld
    lacking_alone: Callable[[], tuple[str, ...]]

    here: bool = False
    unsure: frozenset[str] = frozenset()

    @property
    def files(self) -> dict[str, str]:
        """The paths of the libraries in the package, by the paths that results have."""
        target = self.target.target
        unread = {path: path_in(self.package, posixpath.join(target.root, path)) for path, _ in target.unreadable}
        images = {image.path: path_in(self.package, image.location) for image in target.images}
        return {**unread, **{item.path: path_in(self.package, item.location) for item in target.extensions}, **images}


class ReadPackage(Struct, frozen=True, kw_only=True):
    """A package whose Python code was read for one torch, with the libraries as they load there."""

    package: Package
    target: ExaminedTarget
    world: PackageWorld | ImageWorld
    here: bool
    reading: Reading
    surroundings: Surroundings
    later_uses: Callable[[], tuple[LaterUse, ...]]
    """Finds the names that its code uses later and this torch lacks."""
    own_refusals: Callable[[], tuple[OwnRefusal, ...]]
    """Finds the functions of its code that refuse this torch themselves."""
    base_questions: Callable[[], tuple[BaseQuestion, ...]]
    """Finds where its code asks for classes of this torch that lost their subclasses."""
    conflicts: Callable[[], tuple[Conflict, ...]]
    """Finds the imports that fail if a package is installed which it does not require."""
    open_loads: Callable[[], tuple[PythonLine, ...]]
    """Finds where it loads files that this torch may refuse."""
    old_modules: Callable[[], tuple[tuple[AddedAttribute, ...], tuple[PythonLine, ...]]]
    """Finds what modules lack that an older torch has saved, and where it loads them."""
    dropped: Callable[[], tuple[DroppedImport, ...]]
    """Finds what it imports that new releases of other packages no longer have."""
    numpy_needs: Callable[[], tuple[NumpyNeed, ...]]
    """Finds what fails with newer numpys that may be installed."""
    python_needs: Callable[[], tuple[PythonNeed, ...]]
    """Finds what fails on newer Pythons that may import it."""
    failing_submodules: Callable[[], tuple[ImportOutcome, ...]]
    """Finds the public submodules that fail where the package's own import succeeds."""
    modules: tuple[str, ...]
    """The names that it is imported by, as ``modules_of`` has them."""
    unsure: frozenset[str] = frozenset()
    """See ``PackageFacts``."""

    @property
    def definitions(self) -> dict[str, str]:
        """The operators that the code defines, without overloads, and the line that does: ``pkg/ops.py:16``."""
        return {
            registration.operator.partition(".")[
                0
            ]: f"{registration.at}{' perhaps' if registration.is_conditional else ''}"
            for outcome in reversed(self.reading.imports)
            for registration in reversed(outcome.registrations)
            if registration.what is Registers.DEFINITION
        }

    def facts(self, *, with_conditions: bool = True) -> PackageFacts:
        """Return what the verdict is made of.

        :param with_conditions: whether to find what else has to be there for it, which does not change it
        """
        main = main_import(self.package.name, self.reading.imports)
        outcome = main
        if outcome is not None and self.target.target.is_python:
            outcome = _sure(outcome, self.surroundings)
        others = [item for item in (*self.reading.imports, *self.reading.other_outcomes) if item is not main]
        apart = [item for item in others if not self._counts(item)]
        # The reading took place in many worlds. The loads of the outcome are repeated in one, for what it then knows of
        # them.
        process = self.world.fresh()
        if outcome and outcome.gaps:
            process.load(None, LoadedBy.CTYPES)
        for load in outcome.loads if outcome else ():
            process.load(load.path, load.loader)
        succeeds = outcome is not None and outcome.raised is None
        is_asked = succeeds and with_conditions
        return PackageFacts(
            package=self.package,
            target=self.target,
            reading=self.reading,
            outcome=outcome,
            others=tuple(filter(self._counts, others)),
            apart=tuple(self._sure_of_other(item) for item in apart),
            submodules=self.failing_submodules() if succeeds else (),
            open_loads=self.open_loads() if is_asked else (),
            old_modules=self.old_modules() if is_asked else ((), ()),
            dropped=self.dropped() if is_asked else (),
            numpy_needs=self.numpy_needs() if is_asked else (),
            python_needs=self.python_needs() if is_asked else (),
            conflicts=self.conflicts() if is_asked else (),
            process=process,
            here=self.here,
            unsure=self.unsure,
            lacking_alone=self._lacking_alone,
        )

    def _counts(self, outcome: ImportOutcome) -> bool:
        """Whether the import of a module besides the main one is part of the verdict; submodules are parts of that one.

        A module without libraries may never have been imported without the other packages that it needs.
        """
        if is_apart(outcome.module):
            return False
        if outcome in self.reading.other_outcomes:
            return not isinstance(outcome.raised, Raised) or fails_for_torch(outcome.raised)
        return outcome.module in self.modules

    def _sure_of_other(self, outcome: ImportOutcome) -> ImportOutcome:
        return _sure(outcome, self.surroundings) if outcome in self.reading.other_outcomes else outcome

    def _lacking_alone(self) -> tuple[str, ...]:
        world = self.world.fresh()
        for location in self.target.target.libraries:
            world.load(path_in(self.package, location), LoadedBy.CTYPES)
        return tuple(dict.fromkeys(name for attempt in world.attempts.values() for name in attempt.lacking))


class PackageReading:
    """A package whose Python code is read for one torch after the other.

    :param files: those that the package was read from
    """

    def __init__(self, target: ExaminedTarget, package: Package, files: Files) -> None:
        self._package = package
        images = {path_in(package, image.location): image for image in target.target.images}
        self._sources = CodeFiles(package, functools.partial(_needed_names, package, files, images))
        self._system = system_of(target.target)
        read_on = self._system.python(target.target)
        has_python = any(path.endswith(".py") for path in package.members)
        named = tuple(modules_of(package.name, self._sources, read_on)) if has_python else ()
        if package.among_others:
            named = _of_project(named, package)
        top = _libraries_at_the_top(target, package, read_on)
        compiled = sorted(name for name, is_module in top.items() if is_module)
        # What exports no module is for LD_PRELOAD or ctypes, also where the metadata list it among the modules.
        bare = {name for name, is_module in top.items() if not is_module and f"{name}.py" not in package.members}
        named = tuple(name for name in named if name not in bare) or named
        # By its name, a module with an underscore is for the package itself, if there is anything else.
        public = [name for name in compiled if not named or not name.startswith("_")]
        self._modules = tuple(dict.fromkeys((*named, *public)))
        self._has_code = has_python or bool(self._modules)
        installs_all = has_python and not package.among_others
        others = other_modules(self._modules, self._sources, read_on) if installs_all else ()
        self._other_modules = tuple(name for name in others if name not in bare)
        built_for = functools.partial(_torches_built_for, target, package)
        self._reader = PackageReader(self._sources, self._modules, built_for, read_on, self._other_modules)

    def read(
        self,
        checker: Checker,
        target: ExaminedTarget,
        others: Callable[[], OtherImports],
        *,
        with_others: bool,
        planned: tuple[tuple[str, str | None], ...],
    ) -> ReadPackage | None:
        """Read the package for one torch; None if its code has nothing to do with its libraries.

        :param others: gives what imports of the packages raise that are installed alongside that torch
        :param with_others: whether other packages are to be installed with it
        :param planned: see ``Surroundings``
        """
        if not self._has_code:
            return None
        world = self._make_world(checker, target)
        surroundings = surroundings_of(checker.torch, self._package)
        if planned and not surroundings.is_final:
            surroundings = replace(surroundings, planned=planned, installed=planned_in(planned), folders=())
        unsure = frozenset[str]()
        if surroundings.has_others or with_others:
            imports = others()
            surroundings = imports.around(surroundings)
            with imports.importing((*self._modules, *self._other_modules), surroundings, world):
                world, reading = self._read_on_python(world, surroundings, target)
            unsure = frozenset(imports.unsure)
        else:  # torches with the same surroundings share a reading
            world, reading = self._read_on_python(world, surroundings, target)
        if target.target.uses_torch and _says_nothing(self._sources, reading):
            return None
        own = functools.partial(_own_operators, target)
        later = functools.partial(self._reader.later_uses, world, surroundings, own, reading.imports)
        submodules = functools.partial(
            self._reader.failing_submodules, world.fresh, surroundings, reading.imports, _fails_for_torch_or_another
        )
        return ReadPackage(
            package=self._package,
            target=target,
            world=world,
            here=checker.torch.here,
            reading=reading,
            later_uses=later,
            own_refusals=functools.partial(self._reader.own_refusals, world, surroundings),
            base_questions=functools.partial(self._reader.base_questions, world, surroundings),
            conflicts=functools.partial(self._reader.conflicts, world.fresh, surroundings),
            open_loads=functools.partial(self._reader.open_loads, world, surroundings),
            old_modules=functools.partial(self._reader.old_modules, world, surroundings),
            dropped=functools.partial(self._reader.dropped_imports, world, surroundings),
            numpy_needs=functools.partial(self._reader.numpy_needs, world, surroundings),
            python_needs=functools.partial(self._reader.python_needs, world, surroundings),
            failing_submodules=submodules,
            surroundings=surroundings,
            modules=self._modules,
            unsure=unsure,
        )

    def _read_on_python(
        self, world: PackageWorld | ImageWorld, surroundings: Surroundings, target: ExaminedTarget
    ) -> tuple[PackageWorld | ImageWorld, Reading]:
        """Return the reading of the code; without a known Python, one that those it may be agree on, if that is needed
        to know how its import ends.
        """
        is_open = isinstance(world.python, Answer)
        on_any, is_asked = None, is_open and self._reader.ends_unknown(world.fresh, surroundings)
        if is_asked:
            on_any = self._on_any_python(world, surroundings, target)
        if on_any is not None:
            return on_any
        reading = self._reader.read(world.fresh, surroundings)
        if is_open and not is_asked and any(outcome.raised is Answer.UNKNOWN for outcome in reading.imports):
            on_any = self._on_any_python(world, surroundings, target)
        return on_any or (world, reading)

    def _on_any_python(
        self, world: PackageWorld | ImageWorld, surroundings: Surroundings, target: ExaminedTarget
    ) -> tuple[PackageWorld | ImageWorld, Reading] | None:
        """Return the reading on the oldest and on the newest Python that package and torch support, None if the two are
        not alike. Code compares versions with bounds: between the two, nothing differs.
        """
        metadata = target.target.metadata
        pythons = admitted(world.release_number, metadata.pythons) if metadata else []
        ends: list[tuple[PackageWorld | ImageWorld, Reading]] = []
        for python in dict.fromkeys((*pythons[-1:], *pythons[:1])):
            end = world.fresh()
            end.python = python
            # Where the import alone is not known to the end, nothing further can be.
            if self._reader.ends_unknown(end.fresh, surroundings):
                return None
            ends.insert(0, (end, self._reader.read(end.fresh, surroundings)))
        outcomes = {tuple(map(_ending, other.imports)) for _, other in ends}
        return ends[-1] if len(outcomes) == 1 and (None, None) not in next(iter(outcomes)) else None

    def as_other(self, module: str, checker: Checker, target: ExaminedTarget, surroundings: Surroundings) -> OtherCode:
        """Return the code of the package for another one with these surroundings that imports it, by one of its
        modules.
        """
        from abiscan.python.importing.other_code import OtherCode

        return OtherCode(self._sources, module, self._make_world(checker, target).fresh, surroundings)

    def misses_names(self, checker: Checker, target: ExaminedTarget) -> bool:
        """Whether its code seems to use names that a torch lacks when it is imported: see ``PackageReader``."""
        if not self._has_code:
            return False
        world = self._make_world(checker, target)
        return self._reader.misses_names(world, surroundings_of(checker.torch, self._package))

    def _make_world(self, checker: Checker, target: ExaminedTarget) -> PackageWorld | ImageWorld:
        of_images = self._system.image_world(checker.torch, target.target, self._package)
        return of_images or PackageWorld(checker, target, self._package)


def _libraries_at_the_top(target: ExaminedTarget, package: Package, system: PythonSystem) -> Mapping[str, bool]:
    """Return the names under which Python may find a library at the top as a module, and whether it exports that."""
    at_the_top = (item for item in target.target.libraries.values() if "/" not in path_in(package, item.location))
    names = ((system.module.sub("", posixpath.basename(item.location)), item) for item in at_the_top)
    found: dict[str, bool] = {}
    for name, item in names:
        found[name] = found.get(name, False) or name in item.facts.python_modules
    return found


def _own_operators(target: ExaminedTarget) -> Mapping[str, Sequence[Overload]]:
    """Return the operators that the libraries of a target define, by names without overloads; none if one of them may
    define others.
    """
    from abiscan.torches.operator_overloads import by_operator  # few packages name any of them

    results = [examined.inventory.registrations for examined in target.extensions]
    if any(result is None or result.gaps for result in results):
        return {}
    operators = (operator for result in results if result for operator in result.operators if not operator.jit_only)
    return by_operator((operator.name, operator.schema) for operator in operators)


def _fails_for_torch_or_another(outcome: ImportOutcome) -> bool:
    """Whether an import fails because of torch, or as that of another package does which is there."""
    raised = outcome.raised
    return fails_for_torch(raised) or (isinstance(raised, Raised) and any(error.of_other for error in chain(raised)))


def _ending(outcome: ImportOutcome) -> tuple[str | None, str | None]:
    """Return how an import ends, for a comparison; without words if that is not known."""
    raised = outcome.raised
    if isinstance(raised, Raised):
        return raised.exception, raised.message
    return (None, None) if raised is Answer.UNKNOWN else ("", None)


def _needed_names(package: Package, files: Files, images: Mapping[str, ImageFile], path: str) -> Sequence[str]:
    """Return the libraries that a library of a package needs."""
    if path in images:
        return [needed.name for image in images[path].images.values() for needed in image.needed]
    facts = files.object_at(posixpath.join(package.root, path))
    return facts.needed if facts else ()


def surroundings_of(torch: Torch, package: Package) -> Surroundings:
    """Return what is installed alongside a package: the torch, and what else its Python finds once the package is
    installed.
    """
    folder, interpreter_of = Path(torch.package), _finder_of(torch)
    is_planned = isinstance(torch, EmbeddedTorch) and torch.planned_for is not None
    if not is_planned and (not torch.here or not observed_fs.is_dir(folder)):
        return Surroundings()
    torch_folder = None if is_planned else folder
    executable = interpreter_of.executable if interpreter_of else None
    has_tool = functools.partial(_has_tool, executable)
    search_path = search_path_of(torch)
    if executable:
        observed_fs.observe_python(str(executable), search_path)  # which was perhaps asked before
    # A torch that this Python does not import says nothing about what is installed next to it.
    if torch_folder is not None and str(folder.parent) not in search_path:
        return Surroundings(torch_folder=torch_folder, has_tool=has_tool)
    installed = package.root in search_path if package.installed is None else package.installed
    version = (interpreter_of.tag.major, interpreter_of.tag.minor) if interpreter_of else None
    changes = frozenset[str]() if installed else package.changes(search_path, version)
    if changes is None:
        return Surroundings(torch_folder=torch_folder, has_tool=has_tool)
    folders, python = tuple(map(Path, search_path)), version or Answer.UNKNOWN
    is_there = installed_in(folders, python)
    changing = frozenset(map(normalized, changes)).union(*(_top_level_modules(name, search_path) for name in changes))
    return Surroundings(
        torch_folder=torch_folder,
        installed=functools.partial(_stays, is_there, changing) if changing else is_there,
        folders=folders,
        python=python,
        system_has=functools.partial(_system_has, executable),
        has_tool=has_tool,
        packages_have=functools.partial(_packages_have, search_path),
        is_final=not changing,
        is_here=installed,
        changing=changing,
    )


def _stays(is_there: Callable[[str], bool | Answer], changing: Collection[str], module: str) -> bool | Answer:
    """Answer whether a top-level module will be there once a package is installed that brings or replaces others."""
    return True if module not in changing and is_there(module) is True else Answer.UNKNOWN


def _top_level_modules(distribution: str, search_path: Sequence[str]) -> Iterator[str]:
    """Yield the top-level modules of a distribution, if it is installed."""
    found = packages.find_installed(distribution, search_path)
    for path in packages.files_of(found) if found else ():
        yield path.partition("/")[0].partition(".")[0]


def _has_tool(executable: Path | None, name: str) -> bool | Answer:
    """Answer whether torch finds a tool; it may also find one next to its Python, in an environment that is active."""
    from abiscan.inputs import build_tools  # few packages compile something as they are imported

    if build_tools.has_tool(name):
        return True
    return Answer.UNKNOWN if executable and observed_fs.is_file(executable.parent / name) else False


def _system_has(executable: Path | None, name: str) -> bool | Answer:
    """Answer whether ``ld.so`` finds a library by its name alone, as far as the system's folders tell.

    One of torch or CUDA may be in the process by then, and the search path of the interpreter may lead to another.
    """
    machine = system.own_machine()
    if machine is None or is_torch_library(name) or gpu_library(name):
        return Answer.UNKNOWN
    folders = (*system.environment_folders(), *system.default_folders(machine))
    if name.encode("utf-8", "surrogateescape") in system.cached_libraries(machine) or any(
        observed_fs.is_file(posixpath.join(folder, name)) for folder in folders
    ):
        return True
    own = executable.resolve().parent.parent / "lib" / name if executable else None
    return Answer.UNKNOWN if own is not None and observed_fs.is_file(own) else False


def packages_with_libraries(torch: Torch) -> dict[str, packages.Distribution]:
    """Map the modules that the Python of a torch imports to their packages, if these have libraries in them.

    What torch's own distribution has besides torch, such as functorch, is a part of torch.
    """
    by_module: dict[str, packages.Distribution] = {}
    for distribution in packages.list_installed(search_path_of(torch)):
        if any(path.startswith(f"{torch.package}/") for path in distribution.objects):
            continue
        inside = (posixpath.relpath(path, distribution.site) for path in distribution.objects)
        for module in {path.partition("/")[0] for path in inside if "/" in path}:
            by_module.setdefault(module, distribution)
    return by_module


def _packages_have(search_path: Sequence[str], name: str) -> bool:
    """Whether a library of that name is in a package that a Python finds: the code of that may have loaded it."""
    distributions = packages.list_installed(search_path)
    return any(posixpath.basename(path) == name for distribution in distributions for path in distribution.objects)


def search_path_of(torch: Torch) -> tuple[str, ...]:
    """Return where the Python of a torch looks for modules; nothing if it has none that can be asked."""
    interpreter_of = _finder_of(torch)
    if interpreter_of is None or interpreter_of.executable is None:
        return ()
    over = (interpreter_of.over,) if interpreter_of.over else ()
    return (*over, *_search_path(interpreter_of.executable))


def _finder_of(torch: Torch) -> Interpreter | None:
    """Return the Python that finds what is alongside a torch, or will be once that is installed."""
    return (torch.planned_for if isinstance(torch, EmbeddedTorch) else None) or torch.interpreter


def _search_path(executable: Path) -> tuple[str, ...]:
    try:
        return interpreter.search_path(str(executable))
    except InputError:
        return ()


def _torches_built_for(target: ExaminedTarget, package: Package, library: str) -> Sequence[OtherTorch]:
    """Return the torches that a library of a package may have been built for, newest first."""
    location = posixpath.normpath(posixpath.join(package.root, library))
    extension = next((item for item in target.extensions if item.extension.location == location), None)
    if extension is None:
        return ()
    needs_cuda = any(name.startswith(_CUDA_LIBRARIES) for name in extension.facts.needed)
    releases = extension.origin.releases
    versions = [
        TorchVersion(build)
        for release, machine, build in reversed(embedded.builds())
        if release in releases and machine is extension.facts.machine and ("+cu" in build) == needs_cuda
    ]
    return [OtherTorch(version=str(version), cuda=version.cuda) for version in versions]


def modules_of(package: str, sources: PackageSources, system: PythonSystem = LINUX) -> Iterable[str]:
    """Yield the names that a package is imported by, the main one first; of a namespace shared with others, its part
    of it.

    Besides the module that goes by the name of the package, only those count that hold libraries: a wheel may bring
    along its benchmarks and tests, which nobody imports. If none goes by that name, those that hold libraries are
    the package; all are if the libraries are in none.

    :param package: the name of the package
    """
    files = SourceFiles(sources, system)
    names = files.top_level()
    # ``own`` go by the name of the package, ``folders`` have libraries in them, and ``holding`` may also be libraries
    # themselves.
    own = [name for name in names if normalized(package) in (normalized(name), normalized(name.partition(".")[0]))]
    holding = [name for name in names if files.libraries_of(name)]
    folders = [
        name for name in holding if any(library.startswith(f"{name.replace('.', '/')}/") for library in files.libraries)
    ]
    chosen = dict.fromkeys((*own, *folders, *holding)) if own or folders else names
    for name in chosen:
        yield from _parts_of(name, files)


def _of_project(names: tuple[str, ...], package: Package) -> tuple[str, ...]:
    """Return which modules in the folder of a project are those that it installs: no scripts, if there is a package."""
    for_users = tuple(name for name in names if not is_apart(name))
    packages = tuple(name for name in for_users if f"{name.replace('.', '/')}/__init__.py" in package.members)
    return packages or for_users or names


def _parts_of(name: str, files: SourceFiles) -> Iterator[str]:
    """Yield a module; of a part of a namespace, the modules in it, since importing that runs nothing."""
    folder = name.replace(".", "/")
    below = (path.removeprefix(f"{folder}/") for path in files.members if path.startswith(f"{folder}/"))
    inside = {path.partition("/")[0] for path in below}
    if not inside or f"{folder}/__init__.py" in files.members or f"{folder}.py" in files.members:
        yield name
        return
    parts = {part.removesuffix(".py") for part in inside if part.endswith(".py")}
    parts |= {part for part in inside if f"{folder}/{part}/__init__.py" in files.members}
    yield from (f"{name}.{part}" for part in sorted(parts))


def other_modules(modules: Sequence[str], sources: PackageSources, system: PythonSystem = LINUX) -> tuple[str, ...]:
    """Return the modules that a package installs besides those that it is imported by."""
    files = SourceFiles(sources, system)
    known = {*modules, *(name.rpartition(".")[0] for name in modules)}
    others = [name for name in files.installed_modules() if name not in known]
    parts = (part for name in others for part in ([name] if is_apart(name) else _parts_of(name, files)))
    # Those that count first: there is a limit to what is read.
    return tuple(sorted((part for part in parts if part not in known), key=is_apart))


def is_lost(outcome: ImportOutcome) -> bool:
    """Whether a module that does not count is one that users lose: its import fails, and not for want of a package."""
    return (
        not is_apart(outcome.module)
        and isinstance(outcome.raised, Raised)
        and all(error.exception != "ModuleNotFoundError" for error in chain(outcome.raised))
    )


def is_apart(module: str) -> bool:
    """Whether a module is not for users, by its name."""
    return any(_NOT_FOR_USERS.match(part) for part in module.split("."))


def _says_nothing(sources: CodeFiles, reading: Reading) -> bool:
    """Whether all of the code was followed, and has nothing to do with the libraries."""
    # Only if the whole import was followed, without a load or a gap, is silence about the libraries an answer.
    uses = reading.uses.values()
    followed = all(outcome.raised is None and not outcome.gaps and not outcome.loads for outcome in reading.imports)
    followed = followed and not any(isinstance(outcome.raised, Raised) for outcome in reading.other_outcomes)
    if not followed or any(use.convention for use in uses):
        return False
    return all(use.how in (HowLoaded.UNKNOWN, HowLoaded.NEVER) for use in uses) and not _names_any(
        sources, list(reading.uses)
    )


def _names_any(sources: CodeFiles, libraries: Sequence[str]) -> bool:
    """Whether the code has a word for loading a library, or the name of one of these."""
    names = {re.escape(posixpath.basename(path).partition(".")[0]) for path in libraries}
    word = re.compile(rf"(?<!torch\.)\b(load_library|import_module|{'|'.join(sorted(names))})\b".encode())
    return any(word.search(sources.read(path)) for path in sources.members() if path.endswith(".py"))


def _sure(outcome: ImportOutcome, surroundings: Surroundings) -> ImportOutcome:
    """Return an outcome of Python code alone, as far as it is certain: see ``python/importing/certainty``."""
    raised = outcome.raised
    # ``ld.so`` refuses an installed file that has the name of a library, as an interrupted installation leaves it.
    fails_to_load = surroundings.is_here and any(
        load.path is not None and isinstance(load.raised, Raised) for load in outcome.loads
    )
    if not isinstance(raised, Raised) or fails_to_load or is_certain(raised, surroundings):
        return outcome
    gap = f"{raised.at}: {raised.exception}: {raised.message or '…'}: torch does not cause it, so it is not certain"
    return replace(outcome, raised=Answer.UNKNOWN, gaps=(*outcome.gaps, gap))


def main_import(package: str, imports: Sequence[ImportOutcome]) -> ImportOutcome | None:
    """Return the import of the module that goes by the name of the package; else of the first one."""
    names = {normalized(outcome.module): outcome for outcome in reversed(imports)}
    return names.get(normalized(package), next(iter(imports), None))


def path_in(package: Package, location: str) -> str:
    """Return the path in a package of a file of it."""
    return posixpath.relpath(location, package.root)
