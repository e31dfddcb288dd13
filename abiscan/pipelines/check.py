"""The pipeline: files → facts → linkage → findings. One call per stage."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_python_symbol
from abiscan.binary.registration_api import registers
from abiscan.dispatch.operators import Operators
from abiscan.errors import InputError
from abiscan.extension.built_for import Origins
from abiscan.extension.drift import Drifts
from abiscan.findings import Finding, Rule
from abiscan.inputs import interpreter as python
from abiscan.inputs import system
from abiscan.inputs.files import Files
from abiscan.inputs.interpreter import Interpreter
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.sources import Extension, Source, Target, read_target
from abiscan.inputs.store import Store
from abiscan.inputs.version import number_of
from abiscan.linkage.declaration import Declaration
from abiscan.linkage.first_error import first_error
from abiscan.linkage.layout_drift import LayoutDrift, crash
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.model import Absence, LoadError, Process, Resolution
from abiscan.linkage.registering import Registering
from abiscan.linkage.resolve import Resolver, resolve
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.releases import embedded, embedded_operators, from_libs
from abiscan.releases.model import TorchRelease
from abiscan.releases.operator_store import operators_of
from abiscan.results.check import Gap, How, PredictedError, Report, Result, Verdict

if TYPE_CHECKING:
    from abiscan.extension.inventory import Inventories
    from abiscan.extension.replay import Replayer


Progress = Callable[[str], None]


def check_each(
    targets: Sequence[Source], choices: Sequence[TorchChoice], rules: Sequence[Rule], store: Store, progress: Progress
) -> Report:
    """Judge every extension in ``targets`` against each of some torches, one after the other.

    :param choices: one torch, or releases by number: they have one place, so that what is learnt of extensions holds
    :raises InputError: as for ``check``
    """
    learnt = Learnt()
    reports = [check(targets, choice, rules, store, progress, learnt) for choice in choices]
    return Report(results=tuple(result for report in reports for result in report.results))


def check(
    targets: Sequence[Source],
    choice: TorchChoice,
    rules: Sequence[Rule],
    store: Store,
    progress: Progress = lambda _: None,
    learnt: Learnt | None = None,
) -> Report:
    """Judge every extension in ``targets`` against one torch.

    :param progress: is told what takes seconds
    :param learnt: what is known of the extensions already
    :raises InputError: a target, the torch or the interpreter cannot be read as such
    """
    files = Files(store.facts_of)
    torch = choice(files)
    replays = Replays(torch, files, store, learnt or Learnt(), progress)
    results: list[Result] = []
    for number, source in enumerate(targets, 1):
        target = read_target(source, files, posixpath.dirname(torch.package), torch.package)
        results += judge(target, torch, files, rules, replays, keep=number < len(targets))
    return Report(results=tuple(results))


def judge(
    target: Target,
    torch: Torch,
    files: Files,
    rules: Sequence[Rule],
    replays: Replays,
    *,
    keep: bool = False,
    explained: bool = True,
    declarations: Mapping[str, Declaration] | None = None,
) -> tuple[Result, ...]:
    """Judge every extension of one target against one torch.

    :param keep: whether what loads stays in the process, for the extensions of further targets
    :param explained: whether findings say what the torch has in place of what it lacks; to find that takes longer than
        the verdict, which is the same without
    :param declarations: by the path of the extension, what the metadata declare, if that is to be judged as well
    """
    declared = (declarations or {}).get
    linkages = [
        (extension, _link(extension, setting, replays, explained=explained, declaration=declared(extension.path)))
        for extension, setting in _settings(target, torch, files)
    ]
    findings = [[finding for rule in rules for finding in rule.check(linkage)] for _, linkage in linkages]
    unread = files.take_unread()
    if keep:
        replays.keep(target, linkages)
    return (
        *(
            _result(target, extension, linkage, found, unread)
            for (extension, linkage), found in zip(linkages, findings, strict=True)
        ),
        *(_unread(target, torch, path, error) for path, error in target.unreadable),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The torch to judge against.

    :param package: the folder of its package
    :param build: its version, None if unknown
    :param interpreter: the Python it runs in, None if none is meant in particular
    :param here: whether it will run on this system, whose libraries then count
    :param release_for: what is known of it, for an extension made for a given machine
    :param operators_for: what it has in its dispatcher, of some operators at least, of all for None; None where that
        is not at hand
    """

    package: str
    build: str | None
    interpreter: Interpreter | None
    here: bool
    release_for: Callable[[Machine], TorchRelease]
    operators_for: Callable[[TorchRelease, Collection[str] | None, Store, Progress], Operators | None]


TorchChoice = Callable[[Files], Torch]


def torch_numbered(version: str) -> TorchChoice:
    """An embedded release, on no system in particular.

    :raises InputError: (when called for a machine) it is not embedded
    """

    def read(files: Files) -> Torch:
        return Torch(
            package=posixpath.join(embedded.SITE, "torch"),
            build=version,
            interpreter=None,
            here=False,
            release_for=lambda machine: embedded.release(version, machine, files),
            operators_for=lambda release, names, *_: embedded_operators.operators(version, release.machine, names),
        )

    return read


def torch_at(path: Path) -> TorchChoice:
    """The torch in a folder, a library or a wheel, with the interpreter that it belongs to.

    :raises InputError: (when called) there is none
    """

    def read(files: Files) -> Torch:
        release = from_libs.from_path(path, files)
        return _known(release, python.of_torch(Path(release.package), release.python), files)

    return read


def torch_of(executable: str | None) -> TorchChoice:
    """The torch of an interpreter; of the running one for None.

    :raises InputError: (when called) it has none
    """

    def read(files: Files) -> Torch:
        if executable is None:
            interpreter, package = python.running(), python.installed_torch()
        else:
            interpreter, package = python.ask(executable)
        if package is None:
            raise InputError(str(interpreter.executable), "has no torch", "say which torch with --torch or --python")
        return _known(from_libs.from_path(package, files), interpreter, files)

    return read


def _known(release: TorchRelease, interpreter: Interpreter | None, files: Files) -> Torch:
    return Torch(
        package=release.package,
        build=release.build,
        interpreter=interpreter,
        here=release.machine is system.machine(),
        release_for=lambda _: release,
        operators_for=lambda release, names, store, progress: operators_of(
            release, files, store.folder, progress, names
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """What all extensions of a target that are made for one machine are judged with."""

    torch: Torch
    release: TorchRelease
    target: Target
    libraries: Libraries
    siblings: Libraries
    loader: Loader
    process: Process


def _settings(target: Target, torch: Torch, files: Files) -> Iterator[tuple[Extension, _Setting]]:
    """Each extension with its setting: a process as ``import torch`` leaves it, once per machine."""
    for machine in dict.fromkeys(extension.facts.machine for extension in target.extensions):
        release = torch.release_for(machine)
        search = SearchPath(
            environment=system.environment_folders() if torch.here else (),
            siblings=target.siblings,
            system=system.library_folders(release.machine) if torch.here else (),
            native=torch.here,
        )
        loader = Loader(files, search, release.machine)
        executable = torch.interpreter.executable if torch.interpreter else None
        setting = _Setting(
            torch=torch,
            release=release,
            target=target,
            libraries=Libraries(release.own_libraries, files),
            siblings=Libraries(target.siblings, files),
            loader=loader,
            process=loader.start(
                (str(executable),) if executable else (),
                global_libraries=release.global_libraries,
                libraries=release.local_libraries,
            ),
        )
        yield from ((extension, setting) for extension in target.extensions if extension.facts.machine is machine)


class Learnt:
    """What is learnt of extensions once, for all torches: what they register, share, and do not have themselves."""

    def __init__(self) -> None:
        self.resolver = Resolver()
        self.origins = Origins()
        self.drifts = Drifts(self.origins)

    @functools.cached_property
    def inventories(self) -> Inventories:
        """What was recovered so far. The emulator is loaded when this is first asked for."""
        from abiscan.extension.inventory import Inventories

        return Inventories(self.origins)

    @property
    def has_inventories(self) -> bool:
        """Whether anything was recovered."""
        return "inventories" in vars(self)


class Replays:
    """What one torch does about the registrations of extensions."""

    def __init__(
        self, torch: Torch, files: Files, store: Store, learnt: Learnt, progress: Progress = lambda _: None
    ) -> None:
        self._torch, self._files, self._store, self._progress = torch, files, store, progress
        self._learnt = learnt
        self.resolver = learnt.resolver
        self._replayer: Replayer | None = None

    def of(
        self, target: Target, extension: Extension, resolution: Resolution, release: TorchRelease
    ) -> Registering | None:
        """What it does about one extension and what that brings along, None where none of them registers anything."""
        facts = (module.facts for module in resolution.closure.new)
        if not any(registers(each.imports) for each in facts if each is not None):
            return None
        if self._replayer is None:
            from abiscan.extension.replay import Replayer

            inventories = self._learnt.inventories
            self._replayer = Replayer(files=self._files, operators_for=self._operators_for, inventories=inventories)
        return self._replayer.replay(target, extension, resolution, release)

    def drifts(
        self, target: Target, extension: Extension, resolution: Resolution, registering: Registering | None, torch: str
    ) -> tuple[LayoutDrift, ...]:
        """Which classes of this torch, a release number, lie otherwise in memory than an extension was compiled for."""
        return self._learnt.drifts.of(self._files, target, extension, resolution, registering, torch)

    def keep(self, target: Target, linkages: Sequence[tuple[Extension, Linkage]]) -> None:
        """Leave the extensions that load in the process into which those of the next target are loaded."""
        for extension, linkage in linkages:
            if self._replayer and linkage.resolution and linkage.registering and linkage.error is None:
                self._replayer.keep(target, extension, linkage.resolution, linkage.registering)

    def _operators_for(self, release: TorchRelease, names: Collection[str] | None) -> Operators | None:
        return self._torch.operators_for(release, names, self._store, self._progress)


def _link(
    extension: Extension, setting: _Setting, replays: Replays, *, explained: bool, declaration: Declaration | None
) -> Linkage:
    resolution = _resolve(setting, extension, replays.resolver)
    interpreter = setting.torch.interpreter
    # What torch would do about the registrations of what does not get that far is part of the explanation only.
    replayed = resolution is not None and (explained or resolution.error is None)
    registering = (
        replays.of(setting.target, extension, resolution, setting.release) if resolution and replayed else None
    )
    drifts: tuple[LayoutDrift, ...] = ()
    if resolution is not None and resolution.error is None and setting.release.version is not None:
        drifts = replays.drifts(setting.target, extension, resolution, registering, setting.release.version)
    crashes = crash(drifts, setting.release.version)
    return Linkage(
        name=posixpath.basename(extension.path),
        facts=extension.facts,
        release=setting.release,
        interpreter=interpreter,
        torch_libraries=setting.libraries,
        resolution=resolution,
        error=first_error(extension.path, extension.facts, resolution, interpreter, registering, crashes),
        requires_torch=_required(setting.target),
        siblings=setting.siblings,
        here=setting.torch.here,
        registering=registering,
        explained=explained,
        declaration=declaration,
        drifts=drifts,
    )


def _required(target: Target) -> str | None:
    """The requirement on torch in a target's metadata, if it says which torch."""
    requirement = target.metadata.requires_torch if target.metadata else None
    return str(requirement) if requirement and not requirement.admits_all else None


def _resolve(setting: _Setting, extension: Extension, resolver: Resolver) -> Resolution | None:
    if extension.facts.machine is not setting.release.machine:
        return None
    return resolve(setting.process, setting.loader.open(setting.process, extension.location), resolver)


def _result(
    target: Target,
    extension: Extension,
    linkage: Linkage,
    findings: Sequence[Finding],
    unread: Sequence[InputError],
) -> Result:
    error, resolution = linkage.error, linkage.resolution
    missing = resolution.closure.missing if resolution else ()
    return Result(
        target=target.name,
        path=extension.path,
        sha256=extension.source.sha256(),
        torch=linkage.release.version,
        torch_build=linkage.release.build,
        verdict=Verdict.FAILS if error else Verdict.LOADS,
        predicted_error=_predicted(error) if error else None,
        undefined_symbols=tuple(dict.fromkeys(str(symbol.reference) for symbol in linkage.undefined)),
        external=tuple(dict.fromkeys(library.name for library in missing if library.absence is Absence.EXTERNAL)),
        findings=tuple(findings),
        gaps=(*_gaps(linkage), *(Gap(stage="elf", reason=str(error)) for error in unread)),
    )


def _predicted(error: LoadError) -> PredictedError:
    how = How.ABORTS if error.aborts else How.RAISES
    return PredictedError(how=how, object=error.object, message=error.message, exact=error.exact)


def _gaps(linkage: Linkage) -> Iterator[Gap]:
    if linkage.resolution is None:
        return
    if linkage.registering:
        yield from _registration_gaps(linkage.registering, linkage.release)
    for drift in linkage.drifts:
        if drift.doubts:
            releases = f"torch {drift.candidates[0]} to {drift.candidates[-1]}"
            reason = (
                f"{drift.name} can be built for {releases}, of which some lay out {', '.join(drift.doubts)} otherwise"
            )
            yield Gap(stage="layouts", reason=f"{reason} than {linkage.release}")
    interpreter, unchecked = linkage.interpreter, linkage.resolution.unchecked
    if interpreter and interpreter.executable is None and any(is_python_symbol(each.name) for each in unchecked):
        which = f"Python {interpreter.tag}"
        yield Gap(stage="linkage", reason=f"{which} is not on this machine: symbols of its C API were not checked")
    assumed = [library for library in linkage.resolution.closure.missing if library.absence is Absence.SYSTEM]
    if assumed:
        names = ", ".join(dict.fromkeys(library.name for library in assumed))
        yield Gap(stage="linkage", reason=f"not the system of this machine: {names} were not checked")
    external = [library.name for library in linkage.resolution.closure.missing if library.absence is Absence.EXTERNAL]
    if external:
        names, count = ", ".join(dict.fromkeys(external)), len(unchecked)
        yield Gap(
            stage="linkage",
            reason=f"not at hand: {names}; symbols that may be theirs, and were not checked: {count}",
        )


def _registration_gaps(registering: Registering, release: TorchRelease) -> Iterator[Gap]:
    for registrations in (registering.own, *registering.brought.values()):
        for gap in registrations.gaps:
            where = f" (in {gap.symbol})" if gap.symbol else ""
            yield Gap(stage=gap.stage, reason=gap.reason + where)
    if registering.operators is None:
        reason = (
            f"what {release} has in its dispatcher is not at hand: only conflicts of the extension with itself are seen"
        )
        yield Gap(stage="dispatch", reason=reason)
    elif registering.operators.gaps:
        count = len(registering.operators.gaps)
        yield Gap(stage="dispatch", reason=f"not everything that {release} registers could be read: {count} gaps")
    if registering.operators is not None and registering.operators.entries is None and registering.filled:
        names = ", ".join(registering.filled)
        reason = f"what {release} itself has entered in {names} is not at hand: a key that it has taken is not seen"
        yield Gap(stage="dispatch", reason=reason)


def _unread(target: Target, torch: Torch, path: str, error: InputError) -> Result:
    return Result(
        target=target.name,
        path=path,
        sha256=None,
        torch=number_of(torch.build) if torch.build else None,
        torch_build=torch.build,
        verdict=Verdict.UNKNOWN,
        predicted_error=None,
        undefined_symbols=(),
        external=(),
        findings=(),
        gaps=(Gap(stage="elf", reason=f"{error.problem} ({error.fix})" if error.fix else error.problem),),
    )
