"""The pipeline: files → facts → linkage → findings. One call per stage."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abiscan import interpreter as python
from abiscan import system
from abiscan.drifting import Drifts
from abiscan.elf import Machine
from abiscan.errors import InputError
from abiscan.files import Files
from abiscan.findings import Finding, Rule
from abiscan.interpreter import Interpreter
from abiscan.libraries import Libraries
from abiscan.linkage.first_error import first_error
from abiscan.linkage.layout_drift import crash
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.model import Absence, LoadError, Process, Resolution
from abiscan.linkage.registering import Registering
from abiscan.linkage.resolve import resolve
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.ownership import is_python_symbol, registers
from abiscan.releases import embedded, embedded_operators, from_libs
from abiscan.releases.model import TorchRelease
from abiscan.releases.operator_store import operators_of
from abiscan.releases.operators import Operators
from abiscan.releases.store import Store
from abiscan.report.model import Gap, How, PredictedError, Report, Result, Verdict
from abiscan.sources import Extension, Source, Target, read_target

if TYPE_CHECKING:
    from abiscan.replaying import Replayer


Progress = Callable[[str], None]


def check_each(
    targets: Sequence[Source], choices: Sequence[TorchChoice], rules: Sequence[Rule], store: Store, progress: Progress
) -> Report:
    """Judge every extension in ``targets`` against each of some torches, one after the other.

    :raises InputError: as for ``check``
    """
    reports = [check(targets, choice, rules, store, progress) for choice in choices]
    return Report(results=tuple(result for report in reports for result in report.results))


def check(
    targets: Sequence[Source],
    choice: TorchChoice,
    rules: Sequence[Rule],
    store: Store,
    progress: Progress = lambda _: None,
) -> Report:
    """Judge every extension in ``targets`` against one torch.

    :param progress: is told what takes seconds
    :raises InputError: a target, the torch or the interpreter cannot be read as such
    """
    files = Files(store.facts_of)
    torch = choice(files)
    replays, drifts = _Replays(torch, files, store, progress), Drifts(files=files)
    results: list[Result] = []
    for number, source in enumerate(targets, 1):
        target = read_target(source, files, posixpath.dirname(torch.package), torch.package)
        linkages = [
            (extension, _link(extension, setting, replays, drifts))
            for extension, setting in _settings(target, torch, files)
        ]
        findings = [[finding for rule in rules for finding in rule.check(linkage)] for _, linkage in linkages]
        unread = files.take_unread()
        results += (
            _result(target, extension, linkage, found, unread)
            for (extension, linkage), found in zip(linkages, findings, strict=True)
        )
        results += (_unread(target, torch, path, error) for path, error in target.unreadable)
        if number < len(targets):
            replays.keep(target, linkages)
    return Report(results=tuple(results))


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


class _Replays:
    """What the torch does about the registrations of extensions; the emulator is loaded for those that have any."""

    def __init__(self, torch: Torch, files: Files, store: Store, progress: Progress) -> None:
        self._torch, self._files, self._store, self._progress = torch, files, store, progress
        self._replayer: Replayer | None = None

    def of(
        self, target: Target, extension: Extension, resolution: Resolution, release: TorchRelease
    ) -> Registering | None:
        """What it does about one extension and what that brings along, None where none of them registers anything."""
        facts = (module.facts for module in resolution.closure.new)
        if not any(registers(each.imports) for each in facts if each is not None):
            return None
        if self._replayer is None:
            from abiscan.replaying import Replayer  # noqa: PLC0415 - takes longer to import than many checks take

            self._replayer = Replayer(files=self._files, operators_for=self._operators_for)
        return self._replayer.replay(target, extension, resolution, release)

    def keep(self, target: Target, linkages: Sequence[tuple[Extension, Linkage]]) -> None:
        """Leave the extensions that load in the process into which those of the next target are loaded."""
        for extension, linkage in linkages:
            if self._replayer and linkage.resolution and linkage.registering and linkage.error is None:
                self._replayer.keep(target, extension, linkage.resolution, linkage.registering)

    def _operators_for(self, release: TorchRelease, names: Collection[str] | None) -> Operators | None:
        return self._torch.operators_for(release, names, self._store, self._progress)


def _link(extension: Extension, setting: _Setting, replays: _Replays, drifts: Drifts) -> Linkage:
    resolution = _resolve(setting.loader, setting.process, extension, setting.release)
    interpreter = setting.torch.interpreter
    registering = replays.of(setting.target, extension, resolution, setting.release) if resolution else None
    drift = drifts.of(setting.target, extension, resolution, registering, setting.release) if resolution else ()
    return Linkage(
        name=posixpath.basename(extension.path),
        facts=extension.facts,
        release=setting.release,
        interpreter=interpreter,
        torch_libraries=setting.libraries,
        resolution=resolution,
        error=first_error(
            extension.path, extension.facts, resolution, interpreter, registering, crash(drift, setting.release.version)
        ),
        requires_torch=setting.target.requires_torch,
        siblings=setting.siblings,
        here=setting.torch.here,
        registering=registering,
        drifts=drift,
    )


def _resolve(loader: Loader, process: Process, extension: Extension, release: TorchRelease) -> Resolution | None:
    if extension.facts.machine is not release.machine:
        return None
    return resolve(process, loader.open(process, extension.location))


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
        sha256=extension.sha256,
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
    of_python = any(is_python_symbol(symbol.reference.name) for symbol in linkage.resolution.unchecked)
    if of_python and linkage.interpreter and linkage.interpreter.executable is None:
        which = f"Python {linkage.interpreter.tag}"
        yield Gap(stage="linkage", reason=f"{which} is not on this machine: symbols of its C API were not checked")
    assumed = [library for library in linkage.resolution.closure.missing if library.absence is Absence.SYSTEM]
    if assumed:
        names = ", ".join(dict.fromkeys(library.name for library in assumed))
        yield Gap(stage="linkage", reason=f"not the system of this machine: {names} were not checked")
    external = [library.name for library in linkage.resolution.closure.missing if library.absence is Absence.EXTERNAL]
    if external:
        names, count = ", ".join(dict.fromkeys(external)), len(linkage.resolution.unchecked)
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


def _unread(target: Target, torch: Torch, path: str, error: InputError) -> Result:
    return Result(
        target=target.name,
        path=path,
        sha256=None,
        torch=torch.build.partition("+")[0] if torch.build else None,
        torch_build=torch.build,
        verdict=Verdict.UNKNOWN,
        predicted_error=None,
        undefined_symbols=(),
        external=(),
        findings=(),
        gaps=(Gap(stage="elf", reason=f"{error.problem} ({error.fix})" if error.fix else error.problem),),
    )
