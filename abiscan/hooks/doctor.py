"""Checks everything in an environment that was compiled for torch against the installed torch."""

from __future__ import annotations

import os
import posixpath
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec.structs
from msgspec import Struct

from abiscan.binary.ownership import is_torch_library
from abiscan.cache.result_cache import answer
from abiscan.errors import InputError, UnreachableError
from abiscan.extension.examined import examine
from abiscan.findings import Effect
from abiscan.gpu.devices import Hardware
from abiscan.hooks.judgement import (
    Fitness,
    Judgement,
    MainCause,
    Problem,
    find_main_cause,
    judge_package,
    worst_finding,
)
from abiscan.hooks.pip import Pip
from abiscan.hooks.strangers import Known, explain_origin, explain_strangers
from abiscan.inputs import interpreter, observed_fs, packages, system
from abiscan.inputs.environment import PythonEnvironment
from abiscan.inputs.image_files import is_torch_image
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.kinds import is_wheel_name
from abiscan.inputs.packages import Distribution, is_library
from abiscan.inputs.session import Session
from abiscan.inputs.sources import is_python_for_torch
from abiscan.inputs.torch_build import build_of
from abiscan.regex import regex
from abiscan.results.changes import PackageChange
from abiscan.results.doctor import Ailment, Diagnosis, Trouble
from abiscan.results.package import PackageVerdict
from abiscan.torches.torch import TorchChoice, TorchOf
from abiscan.verdict.hardware import cpu_question
from abiscan.verdict.systems import system_of_torch
from abiscan.words import first_line

if TYPE_CHECKING:
    from abiscan.hooks.install import Inspector
    from abiscan.hooks.solution import Solution

# auditwheel renames the libraries that it puts into a wheel: libc10-5de87c2d.so.
_COPY: Final = regex(r"(?P<stem>lib\w+)(?:-[0-9a-f]{8})?(?P<end>\.so)")


class Examination(Struct, frozen=True, kw_only=True):
    """What the files of an environment show: the diagnosis without what an index could add, and the broken packages.

    ``without_gpu`` are the packages that have no code for a GPU that is here.
    """

    diagnosis: Diagnosis
    broken: tuple[Broken, ...]
    without_gpu: tuple[Distribution, ...] = ()

    @property
    def to_look_up(self) -> tuple[Distribution, ...]:
        """The packages for which an index may have other versions."""
        broken = (item.distribution for item in self.broken if not item.for_another_python)
        return tuple(item for item in (*broken, *self.without_gpu) if item.origin is None)


class WayOut(Struct, frozen=True, kw_only=True):
    """The one installation after which packages work together.

    ``command`` is None if there is none; ``solved`` are the names of the packages that it mends, ``advice`` says what
    it installs, and ``changes`` what that changes. ``stays`` says which packages an index is not to replace, and why;
    it is None if no index was asked. ``unreachable`` says which index cannot be read, so that nothing is known of what
    is there.
    """

    command: str | None = None
    solved: tuple[str, ...] = ()
    advice: str | None = None
    changes: tuple[PackageChange, ...] = ()
    stays: Mapping[str, str] | None = None
    unreachable: str | None = None


def diagnose_environment(
    environment: PythonEnvironment, named: str | None, session: Session, hardware: Hardware | None = None
) -> Diagnosis:
    """Check every extension of torch in an environment, installed or built on the fly, and look for a way out.

    :param named: how the user named its Python, None if it was found without
    :param hardware: the GPUs that packages should have code for
    :raises InputError: it has no torch, or cannot be run
    """
    examination = examine_environment(environment, named, session, hardware)
    return conclude_diagnosis(
        examination, way_out(examination, environment.python, named, session), environment.python, named
    )


def examine_environment(
    environment: PythonEnvironment, named: str | None, session: Session, hardware: Hardware | None = None
) -> Examination:
    """Check every extension of torch in an environment, installed or built on the fly. Asks no index.

    :param named: how the user named its Python, None if it was found without
    :param hardware: the GPUs that packages should have code for
    :raises InputError: it has no torch, or cannot be run
    """
    python = environment.python
    files = session.files()
    choice = TorchOf(python)
    torch = choice.open(files, session)
    pip = Pip(python, named=named)
    hardware = hardware or Hardware()
    ailments: list[Ailment] = []
    healthy: list[str] = []
    incomplete: list[str] = []
    broken: list[Broken] = []
    without_gpu: list[Distribution] = []
    installed = list(packages.list_installed(interpreter.search_path(python)))
    # The order of the questions: a second libtorch makes every other answer about a package worthless; without an
    # extension of torch there is nothing to ask; GPUs matter only for what loads.
    for number, distribution in enumerate(installed, 1):
        if distribution.name == "torch":
            continue
        try:
            with turn_of(str(distribution)):
                copies = [path for path in (*distribution.objects, *distribution.images) if _is_libtorch(path)]
                if copies:
                    ailments.append(_second_copy(distribution, copies, pip))
                    continue
                is_python = is_python_for_torch(distribution)
                if not is_python and not system_of_torch(torch).uses_torch(distribution, files):
                    continue
                session.progress(f"checking {distribution} ({number} of {len(installed)} packages)")
                judgement = _judge_package(distribution, choice, session)
                if judgement is None and is_python:
                    continue
                if judgement is None:
                    ailments.append(
                        _unknown_ailment(str(distribution), "its extensions of torch were removed meanwhile")
                    )
                elif judgement.fitness is Fitness.FAILS:
                    main_cause = find_main_cause(distribution, judgement, torch.build, session)
                    broken.append(Broken(distribution=distribution, judgement=judgement, cause=main_cause))
                elif judgement.fitness is Fitness.UNKNOWN:
                    ailments.append(_unknown_ailment(str(distribution), judgement.error))
                elif problem := _gpu_ailment(distribution, hardware, session):
                    ailments.append(problem)
                    without_gpu.append(distribution)
                else:
                    healthy.append(str(distribution))
                    incomplete += [f"{distribution} {lost}" for lost in _describe_loss(judgement)]
        except InputError as error:  # such as that another pip is at work, and removes it
            observed_fs.look_once()
            ailments.append(_unread_ailment(str(distribution), error))
    # What no package is to blame for comes last: the search path, then what torch itself has built.
    ailments += _on_search_path(torch.package)
    tag = torch.interpreter.tag if torch.interpreter else None
    accelerator = build_of(torch.package, files).accelerator
    for build in _built_on_the_fly(str(tag).replace(".", "") if tag else "", accelerator):
        session.progress(f"checking {build}")
        problem = _find_stale(build, choice, session)
        ailments += [problem] if problem else []
        healthy += [] if problem else [str(build)]
    return Examination(
        diagnosis=Diagnosis(
            environment=str(environment),
            torch=torch.build,
            python=str(torch.interpreter.executable) if torch.interpreter else None,
            ailments=tuple(ailments),
            healthy=tuple(healthy),
            incomplete=tuple(incomplete),
        ),
        broken=tuple(broken),
        without_gpu=tuple(without_gpu),
    )


def way_out(examination: Examination, python: str | None, named: str | None, session: Session) -> WayOut:
    """Look for versions on the index that work together.

    :param python: the interpreter of the environment, None for the running one
    :param named: how the user named it, None if it was found without
    """
    asked, torch = examination.to_look_up, examination.diagnosis.torch
    if not asked or torch is None:
        return WayOut()
    # What asks an index takes longer to import than an environment takes to look at.
    from abiscan.index.client import settings_of_pip

    if session.index.no_index and not settings_of_pip(python, session.index).find_links:
        return WayOut()  # pip would look for nothing, nine times
    from abiscan.hooks.install import Inspector

    observed_fs.look_once()  # another day, the index has other versions
    pip = Pip(python, named=named)
    known = {str(item): Known(name=item.name, version=item.version) for item in asked}
    try:
        reasons = explain_strangers(known.values(), python, session.index.words, session)
        stays = {name: reasons[package] for name, package in known.items() if package in reasons}
        broken = tuple(
            item for item in examination.broken if item.distribution in asked and str(item.distribution) not in stays
        )
        with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
            inspector = Inspector(Path(folder), (), session)
            solution = _solve_broken(broken, torch, pip, inspector, session) if broken else None
    except UnreachableError as error:
        return WayOut(unreachable=f"{error.subject}: {error.problem}")
    except InputError:  # there is no pip to ask
        return WayOut()
    result = WayOut(stays=stays)
    if solution is None:
        return result
    return msgspec.structs.replace(
        result,
        command=pip.format_command(["install", *solution.words]),
        solved=tuple(str(item.distribution) for item in broken),
        advice=solution.newest,
        changes=solution.changes,
    )


def conclude_diagnosis(examination: Examination, result: WayOut, python: str | None, named: str | None) -> Diagnosis:
    """Return the diagnosis, with the way out that was found.

    :param python: as for ``way_out``
    :param named: as for ``way_out``
    """
    pip = Pip(python, named=named)
    broken = [
        _make_ailment(item, result.command if str(item.distribution) in result.solved else None, pip)
        for item in examination.broken
    ]
    upgrades = {
        str(item): (pip.format_command(["install", "--upgrade", item.name]),)
        for item in examination.without_gpu
        if result.stays is not None and item.origin is None and str(item) not in result.stays
    }
    suspects = (*(item.distribution for item in examination.broken), *examination.without_gpu)
    stays = {str(item): explain_origin(item.origin) for item in suspects} | dict(result.stays or {})
    ailments = [
        msgspec.structs.replace(item, commands=upgrades.get(item.subject, item.commands), stays=stays.get(item.subject))
        for item in (*examination.diagnosis.ailments, *broken)
    ]
    ailments.sort(key=lambda ailment: ailment.severity, reverse=True)
    return msgspec.structs.replace(
        examination.diagnosis,
        ailments=tuple(ailments),
        solution=result.command,
        advice=result.advice,
        changes=result.changes,
        unreachable=result.unreachable,
    )


def _judge_package(distribution: Distribution, choice: TorchOf, session: Session) -> Judgement | None:
    """Return the verdict on a package: that of an earlier run, as long as nothing has changed that it depends on."""
    # Everything that the verdict depends on and that is not looked at on the way belongs to the question.
    own_value = distribution.name, distribution.version, distribution.site, distribution.objects, distribution.source
    question = ["installed", *own_value, choice.executable, cpu_question(session.cpus)]
    return answer(session.folder, question, lambda: judge_package(distribution, choice, session), ())


def _describe_loss(judgement: Judgement) -> Iterator[str]:
    """Yield what a package works without, and why, if it does."""
    package = judgement.package
    if package is not None and package.verdict is PackageVerdict.WORKS_WITHOUT:
        reason = next((library.error for library in package.without if library.error), None)
        yield f"{package.summary}: {first_line(reason)}" if reason else package.summary


class Broken(Struct, frozen=True, kw_only=True):
    """An installed package that does not work, and why."""

    distribution: Distribution
    judgement: Judgement
    cause: MainCause | None

    @property
    def for_another_python(self) -> bool:
        """Whether the same version, for the Python that is here, is all that it takes."""
        return self.judgement.failing_rules == {"python-abi-mismatch"}

    @property
    def problem(self) -> Problem:
        """It as a problem to be solved."""
        distribution = self.distribution
        return Problem(
            name=distribution.name, version=distribution.version, source=distribution, judgement=self.judgement
        )


def _solve_broken(
    broken: Sequence[Broken], torch: str, pip: Pip, inspector: Inspector, session: Session
) -> Solution | None:
    from abiscan.hooks.plan import Plan
    from abiscan.hooks.solution import Task, solve

    task = Task(
        words=session.index.words,
        plan=Plan(python=pip.python, packages=()),
        broken=[item.problem for item in broken],
        torch=torch,
    )
    return solve(task, pip, inspector, session)


def _make_ailment(broken: Broken, solution: str | None, pip: Pip) -> Ailment:
    distribution, judgement = broken.distribution, broken.judgement
    finding = worst_finding(judgement.results[0]) if judgement.results else None
    # The order is that of what users can do: rebuild what is theirs, reinstall what is for another Python, and only
    # then look for other versions.
    if distribution.source:
        commands = [pip.format_command(["install", "--no-build-isolation", "-e", distribution.source])]
    elif distribution.origin:
        # Built again, it is for the torch that is here; a wheel would be the same as before.
        words = ["install", "--no-build-isolation", "--force-reinstall", "--no-deps", distribution.origin]
        commands = [] if is_wheel_name(distribution.origin) else [pip.format_command(words)]
    elif broken.for_another_python:
        commands = [pip.format_command(["install", "--force-reinstall", "--no-deps", str(distribution)])]
    else:
        commands = [solution] if solution else []
    return Ailment(
        subject=str(distribution),
        trouble=Trouble.CPU_TORCH if broken.cause and broken.cause.torch_kind else Trouble.BROKEN,
        effect=finding.effect if finding else Effect.LOAD_FAILS,
        cause=broken.cause.text if broken.cause else None,
        message=judgement.error,
        extensions=tuple(result.path for result in judgement.failing),
        commands=tuple(commands),
    )


def _gpu_ailment(distribution: Distribution, hardware: Hardware, session: Session) -> Ailment | None:
    """Return a package none of whose kernels run on a GPU of this machine; a part of them may be for other GPUs."""
    if not hardware.gpus:
        return None
    codes = [extension.gpu for extension in examine(distribution, session).extensions]
    for gpu in hardware.gpus:
        files = [code.on(gpu, hardware.driver).file for code in codes if code and code.is_for_maker_of(gpu)]
        # A package with kernels for other GPUs in one of its libraries still works with the rest of them.
        if files and not any(choice.fit.runs for choice in files):
            return Ailment(
                subject=str(distribution),
                trouble=Trouble.NO_GPU_CODE,
                effect=Effect.CALL_FAILS,
                message=f"it has no code that {gpu} runs",
                extensions=(),
                commands=(),
            )
    return None


def _unread_ailment(subject: str, error: InputError) -> Ailment:
    return _unknown_ailment(subject, error.problem if error.subject == subject else f"{error.subject}: {error.problem}")


def _unknown_ailment(subject: str, message: str) -> Ailment:
    return Ailment(subject=subject, trouble=Trouble.UNKNOWN, effect=None, message=message, extensions=(), commands=())


def _is_libtorch(path: str) -> bool:
    name = posixpath.basename(path)
    if is_torch_image(name):
        return "shm" not in name
    match = _COPY.fullmatch(name)
    return match is not None and match["stem"] != "libshm" and is_torch_library(match["stem"] + match["end"])


def _second_copy(distribution: Distribution, copies: Sequence[str], pip: Pip) -> Ailment:
    names = ", ".join(sorted({posixpath.basename(path) for path in copies}))
    return Ailment(
        subject=str(distribution),
        trouble=Trouble.SECOND_LIBTORCH,
        effect=Effect.CORRUPTS,
        message=f"bundles its own copy of torch's libraries ({names}), so a process may have two dispatchers",
        extensions=tuple(copies),
        commands=(pip.format_command(["uninstall", distribution.name]),),
    )


def _on_search_path(package: str) -> Iterator[Ailment]:
    """Yield a problem for each folder of ``LD_LIBRARY_PATH`` that has libraries of another torch."""
    own_folder = observed_fs.resolve_links(posixpath.join(package, "lib"))
    folders = tuple(filter(None, system.environment_folders()))
    for folder in folders:
        copies = [name for name in observed_fs.list_names(folder) if _is_libtorch(name)]
        # LD_LIBRARY_PATH comes before DT_RUNPATH (ld.so(8)), so these would be loaded in place of torch's own.
        if copies and observed_fs.resolve_links(folder) != own_folder:
            remainder = ":".join(item for item in folders if item != folder)
            yield Ailment(
                subject=f"LD_LIBRARY_PATH={folder}",
                trouble=Trouble.SECOND_LIBTORCH,
                effect=Effect.CORRUPTS,
                message=f"contains libraries of another torch, which the loader finds first: {', '.join(copies)}",
                extensions=(),
                commands=(
                    f"export LD_LIBRARY_PATH={shlex.quote(remainder)}" if remainder else "unset LD_LIBRARY_PATH",
                ),
            )


def _built_on_the_fly(python: str, accelerator: str) -> Iterator[Path]:
    """Yield the folders of ``torch.utils.cpp_extension.load`` that this torch would use (``_get_build_directory``
    there).
    """
    chosen = observed_fs.read_variable("TORCH_EXTENSIONS_DIR")
    root = Path(chosen) if chosen else _cache_of_torch(sys.platform) / f"py{python}_{accelerator}"
    for folder in sorted(root / name for name in observed_fs.list_names(root)):
        # A folder without a library is a build that failed, or is still going on.
        if any(map(is_library, observed_fs.list_names(folder))):
            yield folder


def _cache_of_torch(system: str) -> Path:
    """Return where torch keeps what it builds: ``torch._appdirs.user_cache_dir("torch_extensions")``.

    :param system: ``sys.platform``
    """
    if system == "win32":
        local = observed_fs.read_variable("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")  # noqa: PTH111
        return Path(local, "torch_extensions", "torch_extensions", "Cache")
    if system == "darwin":
        return Path(os.path.expanduser("~/Library/Caches"), "torch_extensions")  # noqa: PTH111
    observed_fs.read_variable("HOME")  # a kept diagnosis depends on it, too: expanduser asks for it
    # Path.home() would raise an error for a user who has no home.
    cache = observed_fs.read_variable("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return Path(cache, "torch_extensions")


def _find_stale(build: Path, choice: TorchChoice, session: Session) -> Ailment | None:
    try:
        with turn_of(str(build)):
            judgement = judge_package(build, choice, session)
    except InputError as error:
        return _unread_ailment(str(build), error)
    if judgement is None:
        return None
    # torch rebuilds the extension if its sources change, but not if torch itself does.
    if judgement.fitness is Fitness.FAILS:
        finding = worst_finding(judgement.results[0])
        return Ailment(
            subject=str(build),
            trouble=Trouble.STALE_BUILD,
            effect=finding.effect if finding else Effect.LOAD_FAILS,
            message=judgement.error,
            extensions=tuple(result.path for result in judgement.failing),
            commands=(f"rm -r {shlex.quote(str(build))}",),
        )
    return _unknown_ailment(str(build), judgement.error) if judgement.fitness is Fitness.UNKNOWN else None
