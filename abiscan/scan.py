"""The pipeline: files → facts → linkage → findings. One call per stage."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from abiscan import interpreter as python
from abiscan import system
from abiscan.elf import Machine
from abiscan.errors import InputError
from abiscan.files import Files
from abiscan.findings import Finding, Rule
from abiscan.interpreter import Interpreter
from abiscan.libraries import Libraries
from abiscan.linkage.declaration import Declaration
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.model import Absence, LoadError, Process, Resolution
from abiscan.linkage.python_import import import_error
from abiscan.linkage.resolve import NO_SUCH_FILE, resolve
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.ownership import is_python_symbol
from abiscan.releases import embedded, from_libs
from abiscan.releases.model import TorchRelease
from abiscan.releases.store import Store
from abiscan.report.model import Gap, How, PredictedError, Report, Result, Verdict
from abiscan.sources import Extension, Target, read_target


def check(targets: Sequence[Path], choice: TorchChoice, rules: Sequence[Rule], store: Store) -> Report:
    """Judge every extension in ``targets`` against one torch.

    :raises InputError: a target, the torch or the interpreter cannot be read as such
    """
    files = Files(store.facts_of)
    torch = choice(files)
    results: list[Result] = []
    for path in targets:
        target = read_target(path, files, posixpath.dirname(torch.package), torch.package)
        results += judge(target, torch, files, rules)
    return Report(results=tuple(results))


def judge(
    target: Target,
    torch: Torch,
    files: Files,
    rules: Sequence[Rule],
    *,
    explained: bool = True,
    declarations: Mapping[str, Declaration] | None = None,
) -> tuple[Result, ...]:
    """Judge every extension of one target against one torch.

    :param explained: whether findings say what the torch has in place of what it lacks; to find that takes longer than
        the verdict, which is the same without
    :param declarations: by the path of the extension, what the metadata declare, if that is to be judged as well
    """
    declared = (declarations or {}).get
    linkages = [
        (extension, _link(extension, setting, explained=explained, declaration=declared(extension.path)))
        for extension, setting in _settings(target, torch, files)
    ]
    findings = [[finding for rule in rules for finding in rule.check(linkage)] for _, linkage in linkages]
    unread = files.take_unread()
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
    """

    package: str
    build: str | None
    interpreter: Interpreter | None
    here: bool
    release_for: Callable[[Machine], TorchRelease]


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
        )

    return read


def torch_at(path: Path) -> TorchChoice:
    """The torch in a folder, a library or a wheel, with the interpreter that it belongs to.

    :raises InputError: (when called) there is none
    """

    def read(files: Files) -> Torch:
        release = from_libs.from_path(path, files)
        return _known(release, python.of_torch(Path(release.package), release.python))

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
        return _known(from_libs.from_path(package, files), interpreter)

    return read


def _known(release: TorchRelease, interpreter: Interpreter | None) -> Torch:
    return Torch(
        package=release.package,
        build=release.build,
        interpreter=interpreter,
        here=release.machine is system.machine(),
        release_for=lambda _: release,
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


def _link(extension: Extension, setting: _Setting, *, explained: bool, declaration: Declaration | None) -> Linkage:
    resolution = _resolve(setting.loader, setting.process, extension, setting.release)
    return Linkage(
        name=posixpath.basename(extension.path),
        facts=extension.facts,
        release=setting.release,
        interpreter=setting.torch.interpreter,
        torch_libraries=setting.libraries,
        resolution=resolution,
        error=_error(extension, resolution, setting.torch.interpreter),
        requires_torch=_required(setting.target),
        siblings=setting.siblings,
        here=setting.torch.here,
        explained=explained,
        declaration=declaration,
    )


def _required(target: Target) -> str | None:
    """The requirement on torch in a target's metadata, if it says which torch."""
    requirement = target.metadata.requires_torch if target.metadata else None
    return str(requirement) if requirement and not requirement.admits_all else None


def _resolve(loader: Loader, process: Process, extension: Extension, release: TorchRelease) -> Resolution | None:
    if extension.facts.machine is not release.machine:
        return None
    return resolve(process, loader.open(process, extension.location))


def _error(extension: Extension, resolution: Resolution | None, interpreter: Interpreter | None) -> LoadError | None:
    if resolution is None:
        # To ld.so, a file for another machine is no file (glibc, open_verify).
        return LoadError(object=posixpath.basename(extension.path), message=NO_SUCH_FILE)
    return resolution.error or import_error(extension.path, extension.facts, interpreter)


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
        predicted_error=PredictedError(how=How.RAISES, object=error.object, message=error.message) if error else None,
        undefined_symbols=tuple(dict.fromkeys(str(symbol.reference) for symbol in linkage.undefined)),
        external=tuple(dict.fromkeys(library.name for library in missing if library.absence is Absence.EXTERNAL)),
        findings=tuple(findings),
        gaps=(*_gaps(linkage), *(Gap(stage="elf", reason=str(error)) for error in unread)),
    )


def _gaps(linkage: Linkage) -> Iterator[Gap]:
    if linkage.resolution is None:
        return
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
