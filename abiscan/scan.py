"""The pipeline: files → facts → linkage → findings. One call per stage."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from abiscan import interpreter as python
from abiscan import system
from abiscan.errors import InputError
from abiscan.files import Files
from abiscan.findings import Finding, Rule
from abiscan.interpreter import Interpreter
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.model import Absence, LoadError, Process, Resolution
from abiscan.linkage.python_import import import_error
from abiscan.linkage.resolve import NO_SUCH_FILE, resolve
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.releases import from_libs
from abiscan.releases.libraries import TorchLibraries
from abiscan.releases.model import TorchRelease
from abiscan.releases.store import Store
from abiscan.report.model import Gap, How, PredictedError, Report, Result, Verdict
from abiscan.sources import Extension, Target, read_target


def check(targets: Sequence[Path], torch: TorchChoice, rules: Sequence[Rule], store: Store) -> Report:
    """Judge every extension in ``targets`` against one torch.

    :raises InputError: a target, the torch or the interpreter cannot be read as such
    """
    files = Files(store.facts_of)
    release, interpreter = torch(files)
    site = posixpath.dirname(release.package)
    libraries = TorchLibraries(release, files)
    results: list[Result] = []
    for path in targets:
        target = read_target(path, files, site, release.package)
        loader = _loader(target, files, release)
        process = loader.start(
            (str(interpreter.executable),) if interpreter and interpreter.executable else (),
            global_libraries=release.global_libraries,
            libraries=release.local_libraries,
        )
        for extension in target.extensions:
            resolution = _resolve(loader, process, extension, release)
            linkage = Linkage(
                name=posixpath.basename(extension.path),
                facts=extension.facts,
                release=release,
                interpreter=interpreter,
                torch_libraries=libraries,
                resolution=resolution,
                error=_error(extension, resolution, interpreter),
                requires_torch=target.requires_torch,
            )
            findings = tuple(finding for rule in rules for finding in rule.check(linkage))
            results.append(_result(target, extension, linkage, findings, files.unread()))
        results += (_unread(target, release, error) for error in target.unreadable)
    return Report(results=tuple(results))


TorchChoice = Callable[[Files], tuple[TorchRelease, Interpreter | None]]


def torch_at(path: Path) -> TorchChoice:
    """The torch in a folder, a library or a wheel, with the interpreter that it belongs to."""

    def read(files: Files) -> tuple[TorchRelease, Interpreter | None]:
        release = from_libs.from_path(path, files)
        return release, python.of_torch(Path(release.package), release.python)

    return read


def torch_of(executable: str | None) -> TorchChoice:
    """The torch of an interpreter; of the running one for None.

    :raises InputError: it has none
    """

    def read(files: Files) -> tuple[TorchRelease, Interpreter | None]:
        if executable is None:
            interpreter, package = python.running(), python.installed_torch()
        else:
            interpreter, package = python.ask(executable)
        if package is None:
            raise InputError(str(interpreter.executable), "has no torch", "say which torch with --torch or --python")
        return from_libs.from_path(package, files), interpreter

    return read


def _loader(target: Target, files: Files, release: TorchRelease) -> Loader:
    return Loader(
        files,
        SearchPath(
            environment=system.environment_folders(release.machine),
            siblings=target.siblings,
            system=system.library_folders(release.machine),
            native=release.machine is system.machine(),
        ),
        release.machine,
    )


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
    findings: tuple[Finding, ...],
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
        predicted_error=PredictedError(how=How.RAISES, object=error.object, message=error.message) if error else None,
        undefined_symbols=tuple(dict.fromkeys(str(symbol.reference) for symbol in linkage.undefined)),
        external=tuple(dict.fromkeys(library.name for library in missing if library.absence is Absence.EXTERNAL)),
        findings=findings,
        gaps=(*_gaps(linkage), *(Gap(stage="elf", reason=str(error)) for error in unread)),
    )


def _gaps(linkage: Linkage) -> Iterator[Gap]:
    if linkage.resolution is None:
        return
    if linkage.interpreter is None or linkage.interpreter.executable is None:
        tag = linkage.interpreter.tag if linkage.interpreter else None
        which = f"Python {tag}" if tag else "the Python of this torch"
        yield Gap(stage="linkage", reason=f"{which} is not on this machine: symbols of its C API were not checked")
    assumed = [library for library in linkage.resolution.closure.missing if library.absence is Absence.SYSTEM]
    if assumed:
        names = ", ".join(dict.fromkeys(library.name for library in assumed))
        machine = linkage.release.machine.value
        yield Gap(stage="linkage", reason=f"no {machine} system on this machine: {names} were not checked")
    external = [library.name for library in linkage.resolution.closure.missing if library.absence is Absence.EXTERNAL]
    if external:
        names, count = ", ".join(dict.fromkeys(external)), len(linkage.resolution.unchecked)
        yield Gap(
            stage="linkage", reason=f"not found here: {names}; {count} symbols that may be theirs were not checked"
        )


def _unread(target: Target, release: TorchRelease, error: InputError) -> Result:
    path = error.subject.rpartition("!")[2] if "!" in error.subject else posixpath.relpath(error.subject, target.root)
    return Result(
        target=target.name,
        path=path,
        sha256=None,
        torch=release.version,
        torch_build=release.build,
        verdict=Verdict.UNKNOWN,
        predicted_error=None,
        undefined_symbols=(),
        external=(),
        findings=(),
        gaps=(Gap(stage="elf", reason=f"{error.problem} ({error.fix})" if error.fix else error.problem),),
    )
