"""Several torches on which the same targets are checked: each target is read and examined once."""

from __future__ import annotations

import functools
import logging
import posixpath
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec.structs
from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.errors import InputError
from abiscan.extension.examined import ExaminedTarget
from abiscan.findings import PYTHON_RULES, Finding, Rule
from abiscan.gpu.devices import Hardware
from abiscan.inputs.files import Files
from abiscan.inputs.kinds import TargetKind
from abiscan.inputs.package_files import Package, of_module
from abiscan.inputs.packages import is_library
from abiscan.inputs.session import Session
from abiscan.inputs.sources import (
    Source,
    library_paths,
    may_need_torch,
    name_of,
    read_target,
    uses_torch,
)
from abiscan.inputs.version import TorchVersion, number_of
from abiscan.linkage.promises import Declaration
from abiscan.linkage.resolve import Resolver
from abiscan.models.model import CREATES_MODEL
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Raised, World
from abiscan.results.check import Result
from abiscan.results.package import PackageResult
from abiscan.rules import no_kernel_image, platform_tag_wrong
from abiscan.torches import embedded
from abiscan.torches.torch import EmbeddedTorch, ReleaseNumber, Torch, TorchChoice
from abiscan.verdict.checker import Checker
from abiscan.verdict.hardware import hardware_of
from abiscan.verdict.neighbours import OtherPackages
from abiscan.verdict.package import (
    beyond_tag,
    later_findings,
    other_later_findings,
    package_result,
    without_code,
)
from abiscan.verdict.package_reading import (
    CodeFiles,
    PackageReading,
    ReadPackage,
    packages_with_libraries,
    search_path_of,
)
from abiscan.verdict.systems import system_of

if TYPE_CHECKING:
    from abiscan.python.importing.other_code import OtherCode
    from abiscan.verdict.given import GivenNeighbours, GivenPackage
    from abiscan.verdict.other_imports import OtherImports

_log = logging.getLogger("abiscan.verdict")


class CheckRequest(Struct, frozen=True, kw_only=True):
    """The question behind ``check``, ``check --torch declared`` and ``matrix``.

    :ivar targets: what is checked, in this order
    :ivar torches: what it is checked on; empty for all embedded builds
    :ivar rules: those whose findings are reported
    :ivar neighbours: what is not checked, but has libraries that the targets may need
    :ivar each_file: whether files are checked alone, whatever the package that they belong to does with them
    :ivar skip_unsupported: whether a wheel for a system of which no torch is known that it requires is left out
    :ivar hardware: the GPUs and processors that extensions are checked on as well
    :ivar import_errors: what the imports of installed packages are known to raise, by their modules
    :ivar is_sound: tells of modules of installed packages, and of names from them, whether the import certainly works,
        without reading them
    :ivar planned: the versions of distributions that are to be installed alongside the targets: see ``Surroundings``
    :ivar any_package: whether installed packages are read, too, that are Python code alone and do not use torch
    :ivar with_conditions: whether to find what else has to be there for packages: see ``ReadPackage.facts``
    :ivar others: what imports of installed packages raise: requests in one environment may share it
    """

    targets: tuple[Source, ...]
    torches: tuple[TorchChoice, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Source, ...] = ()
    each_file: bool = False
    skip_unsupported: bool = False
    hardware: Hardware = Hardware()
    import_errors: Mapping[str, Raised] = {}
    is_sound: Callable[[str, str | None], bool] | None = None
    planned: tuple[tuple[str, str | None], ...] = ()
    any_package: bool = False
    with_conditions: bool = True
    others: dict[Hashable, OtherImports] = {}


class TorchSet:
    """Several torches, each in a layer of its own over the same files.

    :param request: its targets may need libraries of each other; without hardware, the processors and the system of
        the run count
    """

    def __init__(self, request: CheckRequest, session: Session) -> None:
        if (session.cpus or session.system) and request.hardware == Hardware():
            named = hardware_of((), None, session.cpus, session.system)
            request = msgspec.structs.replace(request, hardware=named)
        self._request = request
        sources, choices = (*request.targets, *request.neighbours), request.torches
        self._read: dict[tuple[Source, str], ReadPackage | None] = {}
        self._readings: dict[Package, PackageReading] = {}
        self._session = session
        self._files = session.files()
        self._progress = session.progress
        self._folder = session.folder
        self._jobs = session.jobs
        self._all_embedded = not choices
        choices = choices or tuple(map(ReleaseNumber, _all_builds()))
        # A layer for each torch: two of them may have files at the same paths, and a layer hides those of others.
        layers = [self._files.add_layer() for _ in choices]
        torches = [choice.open(layer, session) for choice, layer in zip(choices, layers, strict=True)]
        resolver = Resolver()
        checkers = [
            Checker(
                torch, layer, resolver, OtherPackages(sources, self._files, torch), session.progress, request.hardware
            )
            for torch, layer in zip(torches, layers, strict=True)
        ]
        # By name, and not by torch: two of them may be the same build, in different folders.
        self._checkers = dict(zip(_distinct_names(torches), checkers, strict=True))
        self._choices = dict(zip(self._checkers, choices, strict=True))
        self._targets: dict[tuple[Source, str], tuple[ExaminedTarget, Files]] = {}
        self._laid_over: Files | None = None
        """The files of the target that was asked for last."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules whose findings are reported."""
        return self._request.rules

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the torches."""
        return tuple(self._checkers)

    def torch(self, name: str) -> Torch:
        """Return the torch of that name."""
        return self._checkers[name].torch

    def target(self, source: Source, name: str | None = None) -> ExaminedTarget:
        """Return a target, placed next to the named torch, or next to the first one for None.

        Its files cover those of targets asked for before that lie at the same paths, as other versions of a package do.

        :raises InputError: it cannot be read
        """
        package = self._checkers[name or self.names[0]].torch.package
        if (source, package) not in self._targets:
            self._progress(f"reading {name_of(source)}")
            files = self._files.add_layer()
            target = read_target(
                source, files, posixpath.dirname(package), package, any_package=self._request.any_package
            )
            # On another torch, the target lies elsewhere, but its bytes are the same: what was found out about them is
            # shared.
            twin = next((examined for (second, _), (examined, _) in self._targets.items() if second == source), None)
            self._targets[source, package] = ExaminedTarget(target, twin, folder=self._folder), files
        examined, files = self._targets[source, package]
        # The target that was asked for last lies over the others, which may have the same paths.
        if files is not self._laid_over:
            self._files.merge_layer(files)
            self._laid_over = files
        return examined

    def check(
        self,
        source: Source,
        name: str,
        *,
        rules: Sequence[Rule] | None = None,
        keep: bool = False,
        with_suggestions: bool = True,
        declarations: Mapping[str, Declaration] | None = None,
    ) -> tuple[Result, ...]:
        """Return the results of ``Checker.check`` for a target on the named torch.

        Of several torches, one that does not exist for the machine of an extension leaves that extension out.

        :param rules: by default, those of the request
        """
        target, extensions = self.target(source, name), None
        # Of several torches, one that does not exist for the machine of any extension gives no results. If none of them
        # does, all extensions are checked, and say so.
        if self.is_for(source, name):
            extensions = [extension for extension in target.extensions if self._is_for(name, extension.facts.machine)]
        elif any(self.is_for(source, alias) for alias in self.names):
            return ()
        target.recover(self._jobs)
        self._checkers[name].files.take_unread()  # what earlier targets left
        package = self._read_package(source, name)
        return self._checkers[name].check(
            target,
            self.rules if rules is None else rules,
            extensions=extensions,
            keep=keep,
            with_suggestions=with_suggestions,
            declarations=declarations,
            python=package.definitions if package else {},
        )

    def keep_loaded(self, name: str) -> None:
        """Keep what the target that was checked last has loaded in the process of the named torch."""
        self._checkers[name].keep_loaded()

    def is_for(self, source: Source, name: str) -> bool:
        """Whether the named torch exists for a machine of the target's extensions; yes if there are none."""
        target, torch = self.target(source, name).target, self._checkers[name].torch
        has_build = functools.partial(self._is_for, name)
        return not isinstance(torch, EmbeddedTorch) or system_of(target).is_embedded(torch, target, has_build)

    def _is_for(self, name: str, machine: Machine) -> bool:
        torch = self._checkers[name].torch
        if not isinstance(torch, EmbeddedTorch):
            return True
        return _is_for(name, machine) if self._all_embedded else embedded.has_build(torch.build, machine)

    def package(
        self,
        source: Source,
        name: str,
        results: Sequence[Result],
        *,
        with_findings: bool = False,
        with_conditions: bool = True,
    ) -> PackageResult | None:
        """Return the verdict on a target that is a package, on the named torch; None if it is none.

        :param results: those of ``check`` for the target
        :param with_findings: whether rules on the package as a whole are asked, too
        :param with_conditions: see ``ReadPackage.facts``
        """
        if self._is_model(source, name):
            return self._model(source, name, results)
        package = self._read_package(source, name)
        if package is None:
            return None
        facts = package.facts(with_conditions=with_conditions)
        result = package_result(facts, results)
        own: list[Finding] = []
        if with_findings and not PYTHON_RULES.isdisjoint(rule.name for rule in self.rules):
            own += later_findings(package.later_uses, facts, result, self.rules)
            own += other_later_findings(package, result, self.rules)
        if with_findings and platform_tag_wrong.RULE in self.rules:
            own += beyond_tag(facts, self._checkers[name].files)
        if with_findings and no_kernel_image.RULE in self.rules:
            own += without_code(facts, self._checkers[name].files, self._request.hardware)
        result = msgspec.structs.replace(result, own_findings=tuple(own)) if own else result
        notice = f": {result.error}" if result.error else ""
        _log.debug(
            "package %s on torch %s: %s%s", result.name, result.torch_build or name, result.verdict.value, notice
        )
        return result

    def _is_model(self, source: Source, name: str) -> bool:
        """Whether a target is a saved model, or the library of one that AOTInductor has compiled."""
        target = self.target(source, name).target
        of_library = not self._request.each_file and target.kind is TargetKind.LIBRARY
        return target.is_model or (
            of_library and any(extension.facts.symbols.find(CREATES_MODEL) for extension in target.extensions)
        )

    def _model(self, source: Source, name: str, results: Sequence[Result]) -> PackageResult:
        from abiscan.verdict.model import Brought, model_result  # few targets are one
        from abiscan.verdict.model_providers import list_brought

        torch = self._checkers[name].torch
        others = [item for item in (*self._request.targets, *self._request.neighbours) if item != source]

        def providers(namespaces: frozenset[str]) -> Sequence[Brought]:
            return list_brought(others, torch, functools.partial(self._examine, name), namespaces)

        result = model_result(self.target(source, name), torch, results, providers, self._request.hardware)
        notice = f": {result.error}" if result.error else ""
        _log.debug("model %s on torch %s: %s%s", result.name, result.torch_build or name, result.verdict.value, notice)
        return result

    def _examine(self, name: str, source: Source) -> tuple[ExaminedTarget, tuple[Result, ...], Iterable[str]]:
        """Return a target that may bring operators to a model, its results, and the operators of its Python code."""
        target = self.target(source, name)
        if target.target.kind is TargetKind.MODEL:
            return target, (), ()
        results, package = self.check(source, name, rules=()), self._read_package(source, name)
        return target, results, package.definitions if package else ()

    def misses_names(self, source: Source, name: str) -> bool:
        """Whether a package seems to use names as it is imported that the named torch lacks.

        A look at its sources tells. What else may make the import of Python code fail is due to other packages.
        """
        target = self.target(source, name)
        reading = self._reading(source, name)
        return reading is not None and reading.misses_names(self._checkers[name], target)

    def _reading(self, source: Source, name: str) -> PackageReading | None:
        package = self.target(source, name).target.package
        if self._request.each_file or package is None:
            return None
        if package not in self._readings:
            self._readings = {package: PackageReading(self.target(source, name), package, self._checkers[name].files)}
        return self._readings[package]

    def _read_package(self, source: Source, name: str) -> ReadPackage | None:
        target, key = self.target(source, name), (source, name)
        reading = self._reading(source, name)
        if reading is None:
            return None
        if key not in self._read:
            others = functools.partial(self._imports_of_neighbours, name, source)
            planned, checker, with_others = self._request.planned, self._checkers[name], self._names_several
            self._read = {key: reading.read(checker, target, others, with_others=with_others, planned=planned)}
        return self._read[key]

    @property
    def _names_several(self) -> bool:
        return len(self._request.targets) + len(self._request.neighbours) > 1

    @functools.cached_property
    def _given(self) -> tuple[GivenPackage, ...]:
        """The packages that the command names, and that are not installed yet."""
        from abiscan.verdict.given import list_given

        site = posixpath.dirname(self._checkers[self.names[0]].torch.package)
        return list_given((*self._request.targets, *self._request.neighbours), site)

    @functools.cached_property
    def _neighbours_by_source(self) -> dict[Source, GivenNeighbours | None]:
        """What the targets import of each other, as far as it was asked for."""
        return {}

    def _neighbours_of(self, source: Source) -> GivenNeighbours | None:
        """Return what a target imports of the others; None if that is nothing."""
        if not self._names_several:
            return None
        from abiscan.verdict.given import GivenNeighbours

        if source not in self._neighbours_by_source:
            self._neighbours_by_source[source] = GivenNeighbours.of(source, self._given)
        return self._neighbours_by_source[source]

    def _imports_of_neighbours(self, name: str, source: Source) -> OtherImports:
        """Return what imports raise of the packages that are next to a target and the named torch."""
        from abiscan.verdict.other_imports import OtherImports  # few targets are installed

        neighbouring = self._neighbours_of(source)
        torch = self._checkers[name].torch
        known = sorted((module, str(error)) for module, error in self._request.import_errors.items())
        errors, is_sound = self._request.import_errors, self._request.is_sound
        # A reading and a look at the same code answer apart: neither depends on which was asked first.
        way = "looked at" if is_sound else "read"
        python = str(torch.interpreter.tag) if torch.interpreter else None
        around = torch.package, torch.build, python, *search_path_of(torch), repr(self._request.hardware)
        subject = way, *around, tuple(known), *(neighbouring.identity if neighbouring else ())
        read, others = functools.partial(self._read_neighbour, name, source), self._request.others
        if (name, subject) not in others:
            others[name, subject] = OtherImports(self._session, subject, read, errors, neighbouring, is_sound)
        return others[name, subject].read_by(read)

    def _read_neighbour(
        self, name: str, source: Source, module: str, around: Surroundings, world: World
    ) -> OtherCode | None:
        """Return the code of the package that is next to a target and the named torch, and that a module is."""
        from abiscan.python.importing.other_code import CompiledCodeLoads, OtherCode

        place, checker, neighbouring = around.place_of(module), self._checkers[name], self._neighbours_of(source)
        if place is None:
            given = neighbouring.find(module) if neighbouring is not None else None
            if given is None:
                return None
            brought = library_paths(given.source, checker.files, given.package.root)
            if any(may_need_torch(checker.files.find_source(path)) for path in brought):
                return self._read_apart(name, module, given.source, around)
            return OtherCode(CodeFiles(given.package), module, lambda: CompiledCodeLoads(world, lambda _: None), around)
        package = of_module(str(place), module)
        libraries = (posixpath.join(package.root, path) for path in package.members if is_library(path))
        if any(may_need_torch(checker.files.find_source(path)) for path in libraries):
            distribution = packages_with_libraries(checker.torch).get(module)
            if distribution is not None and uses_torch(distribution, self._files):
                return self._read_apart(name, module, distribution, around)
        error_of = functools.partial(_numpy_error, package.root, checker.files, search_path_of(checker.torch))
        return OtherCode(CodeFiles(package), module, lambda: CompiledCodeLoads(world, error_of), around)

    def _read_apart(self, name: str, module: str, other: Source, around: Surroundings) -> OtherCode | None:
        """Return the code of a package with libraries for torch, in a process of its own."""
        # A set of its own: what is in the process of this target has nothing to do with what is in that one's.
        request = CheckRequest(targets=(other,), torches=(self._choices[name],), hardware=self._request.hardware)
        apart = TorchSet(request, self._session)
        (alone,) = apart.names
        try:
            target, reading = apart.target(other, alone), apart._reading(other, alone)
        except InputError:
            return None
        return reading.as_other(module, apart._checkers[alone], target, around) if reading else None


def _numpy_error(root: str, files: Files, folders: Sequence[str], path: str) -> Raised | None:
    """Return what a module of an installed package raises because of the numpy that is installed."""
    from abiscan.verdict.numpy_abi import find_module_error  # few targets import other packages

    try:
        raised = find_module_error(posixpath.join(root, path), files, folders)
    except InputError:
        return None
    return raised if isinstance(raised, Raised) else None


def _all_builds() -> list[str]:
    """Return the names of all embedded builds: the release, or the full version if the release stands for another
    build.
    """
    more_builds = {name for machine in Machine for name in embedded.extra_builds(machine)}
    return sorted({*map(str, embedded.versions()), *more_builds}, key=TorchVersion)


def _is_for(name: str, machine: Machine) -> bool:
    """Whether an embedded build is for a machine, and has no shorter name there."""
    return name in embedded.extra_builds(machine) or TorchVersion(name) in embedded.versions(machine)


def _distinct_names(torches: Sequence[Torch]) -> list[str]:
    """Return the names of torches: their releases, their builds if two have the same release, or else numbered
    builds.
    """
    # The shortest kind of name that tells all of them apart.
    for name in (_release, _build):
        names = list(map(name, torches))
        if len(set(names)) == len(names):
            return names
    return [f"{_build(torch)} ({number})" for number, torch in enumerate(torches, 1)]


def _release(torch: Torch) -> str:
    return number_of(_build(torch))


def _build(torch: Torch) -> str:
    return torch.build or torch.package
