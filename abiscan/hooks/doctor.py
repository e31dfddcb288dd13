"""Checks everything in an environment that was compiled for torch against the installed torch."""

from __future__ import annotations

import functools
import hashlib
import os
import posixpath
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec.structs
from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.binary.ownership import is_torch_library
from abiscan.cache.result_cache import answer_by_content
from abiscan.environments.examination import (
    ExaminedDistribution,
    all_required,
    examine,
    examine_numpy,
    has_modules_for_another_numpy,
    is_for_another_numpy,
    list_modules,
    list_required,
    list_users,
)
from abiscan.environments.model import WholeEnvironment, origin_of
from abiscan.environments.package_check import (
    CheckedPackage,
    Fitness,
    MainCause,
    Problem,
    check_package,
    find_main_cause,
    worst_finding,
)
from abiscan.environments.process import examine_process
from abiscan.environments.torch_gpus import examine_gpus
from abiscan.environments.torch_itself import examine_torch, needed_by_torch
from abiscan.errors import InputError, NoTorchError, UnreachableError
from abiscan.extension.examined import examine as examine_target
from abiscan.findings import Effect, Finding
from abiscan.gpu.devices import Hardware
from abiscan.hooks.pip import Pip
from abiscan.hooks.pytorch_index import name_builds
from abiscan.hooks.strangers import Known, explain_origin, explain_strangers
from abiscan.index.pip_configuration import configuration_read_once
from abiscan.inputs import observed_fs, result_codec, system
from abiscan.inputs.addresses import without_credentials
from abiscan.inputs.environment import PythonEnvironment
from abiscan.inputs.files import Files
from abiscan.inputs.image_files import is_torch_image
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.kinds import is_wheel_name
from abiscan.inputs.packages import Distribution, is_library, path_of_url
from abiscan.inputs.session import Session
from abiscan.inputs.torch_build import build_of
from abiscan.python.later.dropped_modules import find_requirement
from abiscan.regex import regex
from abiscan.results.doctor import (
    Ailment,
    Diagnosis,
    DistributionState,
    EnvironmentState,
    Origin,
    ProblemKind,
    Remedy,
)
from abiscan.results.package import PackageVerdict
from abiscan.torches.torch import InstalledTorch, Torch, TorchChoice
from abiscan.verdict.hardware import hardware_of
from abiscan.words import first_line

# auditwheel renames the libraries that it puts into a wheel: libc10-5de87c2d.so.
_COPY: Final = regex(r"(?P<stem>lib\w+)(?:-[0-9a-f]{8})?(?P<end>\.so)")


_SECONDS_KEPT: Final = 3600
_NO_TORCH: Final = "torch itself cannot be imported"


class Examination(Struct, frozen=True, kw_only=True):
    """What the files of an environment show: the diagnosis without what an index could add, and what is broken.

    ``without_gpu`` are the packages that have no code for a GPU that is here.
    """

    diagnosis: Diagnosis
    broken: tuple[Broken, ...]
    without_gpu: tuple[Distribution, ...] = ()

    @property
    def to_look_up(self) -> tuple[Broken, ...]:
        """What an index may have a way out for: what fails for itself, and was not installed from elsewhere."""
        return tuple(item for item in self.broken if item.row.cause is None and not item.own_command)

    @property
    def followers(self) -> dict[str, list[str]]:
        """The names of what fails for another, by that."""
        names: dict[str, list[str]] = {}
        for item in self.broken:
            if item.row.cause is not None:
                names.setdefault(item.row.cause, []).append(item.row.name)
        return names

    @property
    def has_to_ask(self) -> bool:
        """Whether an index is worth asking."""
        return bool(self.to_look_up) or any(item.origin is None for item in self.without_gpu)


class WayOut(Struct, frozen=True, kw_only=True):
    """What an index offers: a command for each cause.

    ``stays`` says which packages an index is not to replace, and why; it is None if no index was asked. ``unreachable``
    says which index cannot be read, so that nothing is known of what is there.
    """

    remedies: tuple[Remedy, ...] = ()
    stays: Mapping[str, str] | None = None
    unreachable: str | None = None


def diagnose_environment(
    environment: PythonEnvironment, named: str | None, session: Session, hardware: Hardware | None = None
) -> Diagnosis:
    """Examine everything in an environment that has to do with torch, and look for a way out of what is broken.

    :param named: how the user named its Python, None if it was found without
    :param hardware: the GPUs that packages should have code for
    :raises InputError: it has no torch, or cannot be run
    """
    examination = examine_environment(environment, named, session, hardware)
    return conclude_diagnosis(
        examination, way_out(examination, environment.python, named, session), environment.python, named
    )


def examine_environment(
    chosen: PythonEnvironment, named: str | None, session: Session, hardware: Hardware | None = None
) -> Examination:
    """Examine everything in an environment that has to do with torch, and what torch built on the fly. Asks no index.

    :param named: how the user named its Python, None if it was found without
    :param hardware: the GPUs that packages should have code for
    :raises InputError: it has no torch, or cannot be run
    """
    files = session.files()
    environment = WholeEnvironment.installed(chosen.python)
    choice = environment.choice
    try:
        torch = choice.open(files, session)
    except NoTorchError as error:
        raise InputError(error.subject, error.problem, "name the Python that has it with --python") from error
    pip = Pip(chosen.python, named=named)
    hardware = hardware or Hardware()
    ailments: list[Ailment] = []
    broken: list[Broken] = []
    without_gpu: list[Distribution] = []
    # The order of the questions: a second libtorch makes every other answer about a package worthless; GPUs matter only
    # for what loads.
    copies = {item: paths for item in environment.distributions if (paths := _copies_of_libtorch(item))}
    ailments += [_second_copy(item, paths, pip) for item, paths in copies.items()]
    users = [item for item in list_users(environment, files) if item not in copies]
    target = hardware_of((), None, (), session.system).system
    state = examine_torch(torch, environment, files, target)
    numpy = examine_numpy(environment, torch, session) if state.imports else None
    if numpy is not None and numpy.error is not None and numpy.error.exception != "ModuleNotFoundError":
        state = msgspec.structs.replace(state, imports=False, error=str(numpy.error))
        ailments.append(_numpy_ailment(str(numpy.error), numpy.distribution, environment, pip))
    elif state.error is not None:
        ailments.append(_torch_ailment(state.error, environment, pip))
    if state.error is not None:  # everything that needs torch fails because of that, whatever else is wrong
        fails = functools.partial(ExaminedDistribution, checked_package=None, problem=_NO_TORCH, cause="torch")
        rows, required = [fails(distribution=item) for item in users], []
    else:
        all_users = [*users, *copies]
        needed = list_required(environment, users, files)
        required = [item for item in needed if item not in copies]
        # What imports such a copy fails with it.
        asked = [*users, *(item for item in needed if item in copies), *required]
        rows = examine(environment, asked, session, users=all_users, required=required)
    for row in rows:
        if row.fitness is Fitness.FAILS:
            assert row.checked_package is not None
            main_cause = find_main_cause(row.distribution, row.checked_package, torch.build, session)
            broken.append(Broken(row=row, checked_package=row.checked_package, cause=main_cause))
        elif row.cause is None and row.fitness is Fitness.UNKNOWN:
            # A module that imports torch may be hardly ever imported: an unknown verdict on such a distribution is no
            # problem, unless it lacks what it requires, or has another version of it, or the wrong numpy.
            if (
                row.unmet
                or (row.distribution in users and environment.may_need_torch(row.distribution))
                or is_for_another_numpy(environment, row.distribution, files)
            ):
                ailments.append(_unknown_ailment(str(row.distribution), _doubt(row)))
        elif problem := _gpu_ailment(row.distribution, hardware, session):
            ailments.append(problem)
            without_gpu.append(row.distribution)
    # Problems that no package causes come last: the search path, then extensions that torch itself has built.
    ailments += _on_search_path(torch.package) if target is None else ()
    tag = torch.interpreter.tag if torch.interpreter else None
    accelerator = build_of(torch.package, files).accelerator
    for build in _built_on_the_fly(str(tag).replace(".", "") if tag else "", accelerator) if target is None else ():
        session.progress(f"checking {build}")
        problem = _find_stale(build, choice, session)
        ailments += [problem] if problem else []
    of_torch = environment.find("torch")
    # What was looked at and works, or is no news, has no row.
    examined = {"torch", *(canonicalize_name(item.name) for item in (*users, *required, *copies))}
    examined |= all_required(environment, of_torch) if of_torch else set()
    others = [item for item in environment.distributions if canonicalize_name(item.name) not in examined]
    executable = torch.interpreter.executable if torch.interpreter else None
    version = torch.interpreter.full_version if torch.interpreter else None
    prefix = chosen.prefix
    return Examination(
        diagnosis=Diagnosis(
            chosen=str(chosen),
            environment=EnvironmentState(
                python=version.partition(" ")[0] if version else None,
                executable=str(executable) if executable else None,
                root=str(prefix) if observed_fs.is_dir(prefix) else None,
                others=len(others),
            ),
            torch=state,
            distributions=tuple(map(_state_of, rows)),
            process=(*examine_process(environment, torch, files), *_of_gpus(torch, hardware, files)),
            ailments=tuple(ailments),
        ),
        broken=tuple(broken),
        without_gpu=tuple(without_gpu),
    )


def _of_gpus(torch: Torch, hardware: Hardware, files: Files) -> Iterator[Finding]:
    return examine_gpus(torch.release, hardware, files) if isinstance(torch, InstalledTorch) else iter(())


def _state_of(row: ExaminedDistribution) -> DistributionState:
    checked_package = row.checked_package
    package = checked_package.package if checked_package else None
    modules = list_modules(package) if package else ()
    without = tuple(_describe_loss(checked_package)) if checked_package else ()
    return row.state(Origin(origin_of(row.distribution)), modules, _doubt(row), without)


def _doubt(row: ExaminedDistribution) -> str:
    """Return why a distribution does not work, or why that is not known."""
    return row.problem or (row.checked_package.error if row.checked_package else "it could not be checked")


def way_out(examination: Examination, python: str | None, named: str | None, session: Session) -> WayOut:
    """Look on the index for what makes everything work, cause by cause.

    :param python: the interpreter of the environment, None for the running one
    :param named: how the user named it, None if it was found without
    """
    torch = examination.diagnosis.torch.version
    asked = [*examination.to_look_up]
    suspects = [*(item.row.distribution for item in asked), *examination.without_gpu]
    if not suspects or torch is None:
        return WayOut()

    broken, pip = [item.problem for item in asked], Pip(python, named=named)

    def search() -> WayOut:
        # Importing the code for indexes takes longer than examining an environment.
        from abiscan.hooks.remedies import SECONDS, find_remedies, limit_time
        from abiscan.index.client import settings_of_pip

        if session.index.no_index and not settings_of_pip(python, session.index).find_links:
            return WayOut()  # pip would look for nothing, nine times
        from abiscan.hooks.install import Inspector

        known = {
            str(item): Known(name=item.name, version=item.version, origin=item.origin or item.source)
            for item in suspects
        }
        reasons = explain_strangers(known.values(), python, session.index.words, session)
        stays = {name: reasons[package] for name, package in known.items() if package in reasons}
        limited = limit_time(session)
        with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
            failing = frozenset(item.row.name for item in examination.broken)
            inspector = Inspector(Path(folder), session.index.words, limited, failing)
            # What fails for another may lack something of its own as well.
            lacking = [item for item in examination.broken if item.row.cause is not None and item.row.missing]
            environment = WholeEnvironment.installed(python)
            problems = list(_with_requirements([*asked, *lacking], environment, session.files()))
            # pip builds what it plans with: nobody has asked for what is at an address.
            addressed = {str(item.source): why for item in problems if (why := _explain_address(item, environment))}
            tried = [item for item in problems if str(item.source) not in addressed]
            result = find_remedies(tried, stays.keys(), torch, pip, inspector, limited, examination.followers)
        stopped = f"the search was stopped after {SECONDS} s of work; abiscan fit {{}} searches to the end"
        unfinished = {str(item.source): stopped.format(item.name) for item in result.unfinished}
        solved = {name for remedy in result.remedies for name in remedy.remedies}
        stays = {name: reason for name, reason in stays.items() if canonicalize_name(known[name].name) not in solved}
        return WayOut(remedies=result.remedies, stays=stays | unfinished | addressed)

    observed_fs.look_once()  # another day, the index has other versions
    content = hashlib.sha256(result_codec.encode_result(examination).encode("utf-8", "surrogateescape")).hexdigest()
    try:
        with configuration_read_once():
            question = ["way out", python, named, *_index_state(session)]
            result = answer_by_content(session.folder, content, question, search)
    except UnreachableError as error:
        result = WayOut(unreachable=f"{error.subject}: {error.problem}")
    except InputError:  # there is no pip to ask
        return WayOut()
    if result.stays is None:  # no index was read
        environment = WholeEnvironment.installed(python)
        result = msgspec.structs.replace(result, remedies=name_builds(broken, torch, pip, environment))
    return result


def _with_requirements(broken: Sequence[Broken], environment: WholeEnvironment, files: Files) -> Iterator[Problem]:
    """Yield problems with what they require, directly or not, what of that is not met, and what else they need."""
    numpy = environment.find("numpy")
    other_numpy = "numpy<2" if numpy is not None and not numpy.version.startswith(("0.", "1.")) else "numpy>=2"
    for item in broken:
        requires = all_required(environment, item.row.distribution, beyond_torch=False) - {"torch"}
        below = list(filter(None, map(environment.find, sorted(requires))))
        unmet = (unmet for distribution in below for unmet in environment.unmet(distribution))
        # What fails may not say that it requires numpy: faiss-cpu 1.7.4 requires nothing.
        is_for_other = has_modules_for_another_numpy(environment, item.row.distribution, files) or any(
            is_for_another_numpy(environment, one, files) for one in below
        )
        yield msgspec.structs.replace(
            item.problem,
            requires=frozenset(requires),
            unmet=(*item.problem.unmet, *unmet),
            other=other_numpy if is_for_other else _with_module(item.row),
        )


def _with_module(row: ExaminedDistribution) -> str | None:
    """Return the release of another distribution that still has the module which a distribution does not find."""
    error = row.error
    if error is None or error.of_module is None:
        return None
    return find_requirement(error.of_module, with_name=error.exception != "ModuleNotFoundError")


def _explain_address(problem: Problem, environment: WholeEnvironment) -> str | None:
    """Return what a package requires from an address, itself or through others, as something to install by hand."""
    for distribution in filter(None, map(environment.find, (problem.key, *sorted(problem.requires)))):
        for requirement in environment.requirements(distribution):
            if requirement.url is not None:
                address = without_credentials(requirement.url)
                return f"{distribution.name} requires {requirement.name} @ {address}; addresses are not tried"
    return None


def _index_state(session: Session) -> Iterator[object]:
    """Yield what tells whether an index is still what it was: its settings, what is in folders of wheels, and the time,
    for what a server has may have changed after an hour.
    """
    variables = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    yield from (session.index.words, sorted(variables.items()), time.time() // _SECONDS_KEPT)
    for link in (*session.index.find_links, *variables.get("PIP_FIND_LINKS", "").split()):
        folder = path_of_url(link) if "://" in link else link
        for name in observed_fs.list_names(folder):
            status = observed_fs.stat_file(posixpath.join(folder, name))
            yield name, status and (status.st_size, status.st_mtime_ns)


def conclude_diagnosis(examination: Examination, result: WayOut, python: str | None, named: str | None) -> Diagnosis:
    """Return the diagnosis, with the way out that was found.

    :param python: as for ``way_out``
    :param named: as for ``way_out``
    """
    pip = Pip(python, named=named)
    commands = {name: remedy.command for remedy in reversed(result.remedies) for name in remedy.remedies}
    broken = [_make_ailment(item, commands, pip) for item in examination.broken]
    upgrades = {
        str(item): (pip.format_command(["install", "--upgrade", item.name]),)
        for item in examination.without_gpu
        if result.stays is not None and item.origin is None and str(item) not in result.stays
    }
    suspects = (*(item.row.distribution for item in examination.broken), *examination.without_gpu)
    stays = {str(item): explain_origin(item.origin) for item in suspects if item.origin} | dict(result.stays or {})
    ailments = [
        msgspec.structs.replace(item, commands=upgrades.get(item.subject, item.commands), stays=stays.get(item.subject))
        for item in (*examination.diagnosis.ailments, *broken)
    ]
    ailments.sort(key=lambda item: (item.trouble is ProblemKind.TORCH_ITSELF, item.severity), reverse=True)
    return msgspec.structs.replace(
        examination.diagnosis,
        ailments=tuple(ailments),
        way_out=result.remedies,
        unreachable=result.unreachable,
    )


def _describe_loss(checked_package: CheckedPackage) -> Iterator[str]:
    """Yield what a package works without, and why, if it does."""
    package = checked_package.package
    if package is not None and package.verdict is PackageVerdict.WORKS_WITHOUT:
        reason = next((library.error for library in package.without if library.error), None)
        yield f"{package.summary}: {first_line(reason)}" if reason else package.summary


class Broken(Struct, frozen=True, kw_only=True):
    """A row that fails, and why."""

    row: ExaminedDistribution
    checked_package: CheckedPackage
    cause: MainCause | None

    @property
    def for_another_python(self) -> bool:
        """Whether the same version, for the Python that is here, is all that it takes."""
        return self.checked_package.failing_rules == {"python-abi-mismatch"}

    @property
    def own_command(self) -> bool:
        """Whether what to type is known without an index: to build or to install the same again."""
        own = self.row.distribution.origin or self.row.distribution.source
        # Python code is the same however often it is built.
        return bool(own and self.checked_package.failing) or self.for_another_python

    @property
    def problem(self) -> Problem:
        """It as a problem to be solved."""
        distribution = self.row.distribution
        return Problem(
            name=distribution.name,
            version=distribution.version,
            source=distribution,
            checked_package=self.checked_package,
            unmet=self.row.unmet,
            cause=self.row.cause,
            uses_torch=self.row.uses_torch,
        )


def _make_ailment(broken: Broken, remedies: Mapping[str, str], pip: Pip) -> Ailment:
    distribution, checked_package = broken.row.distribution, broken.checked_package
    finding = worst_finding(checked_package.results[0]) if checked_package.results else None
    # The order is that of what users can do: rebuild what is theirs, reinstall what is for another Python, and only
    # then look for other versions. A package that fails because of another one is repaired with it.
    if broken.row.cause is not None:
        commands = [remedies[broken.row.cause]] if broken.row.cause in remedies else []
    elif distribution.source and broken.own_command:
        commands = [pip.format_command(["install", "--no-build-isolation", "-e", distribution.source])]
    elif distribution.origin and broken.own_command:
        # A new build is for the installed torch; a wheel would be the same as before.
        words = ["install", "--no-build-isolation", "--force-reinstall", "--no-deps", distribution.origin]
        commands = [] if is_wheel_name(distribution.origin) else [pip.format_command(words)]
    elif broken.for_another_python:
        commands = [pip.format_command(["install", "--force-reinstall", "--no-deps", str(distribution)])]
    else:
        commands = [remedies[broken.row.name]] if broken.row.name in remedies else []
    return Ailment(
        subject=str(distribution),
        trouble=ProblemKind.CPU_TORCH if broken.cause and broken.cause.torch_kind else ProblemKind.BROKEN,
        effect=finding.effect if finding else Effect.LOAD_FAILS,
        cause=broken.cause.text if broken.cause else None,
        message=checked_package.error,
        extensions=tuple(result.path for result in checked_package.failing),
        commands=tuple(commands),
        because_of=broken.row.cause,
    )


def _gpu_ailment(distribution: Distribution, hardware: Hardware, session: Session) -> Ailment | None:
    """Return a package none of whose kernels run on a GPU of this machine; a part of them may be for other GPUs."""
    if not hardware.gpus:
        return None
    codes = [extension.gpu for extension in examine_target(distribution, session).extensions]
    for gpu in hardware.gpus:
        files = [code.on(gpu, hardware.driver).file for code in codes if code and code.is_for_maker_of(gpu)]
        # A package with kernels for other GPUs in one of its libraries still works with the rest of them.
        if files and not any(choice.fit.runs for choice in files):
            return Ailment(
                subject=str(distribution),
                trouble=ProblemKind.NO_GPU_CODE,
                effect=Effect.CALL_FAILS,
                message=f"it has no code that {gpu} runs",
                extensions=(),
                commands=(),
            )
    return None


def _unread_ailment(subject: str, error: InputError) -> Ailment:
    return _unknown_ailment(subject, error.problem if error.subject == subject else f"{error.subject}: {error.problem}")


def _unknown_ailment(subject: str, message: str) -> Ailment:
    return Ailment(
        subject=subject, trouble=ProblemKind.UNKNOWN, effect=None, message=message, extensions=(), commands=()
    )


def _torch_ailment(error: str, environment: WholeEnvironment, pip: Pip) -> Ailment:
    """Return that torch itself cannot be imported, and what brings back what it lacks."""
    distribution = environment.find("torch")
    unmet = [item.requirement for item in needed_by_torch(environment)]
    again = ["--force-reinstall", "--no-deps", str(distribution)]
    known = distribution is not None and distribution.origin is None and distribution.source is None
    words = unmet or (again if known else [])
    return Ailment(
        subject=str(distribution) if distribution is not None else "torch",
        trouble=ProblemKind.TORCH_ITSELF,
        effect=Effect.LOAD_FAILS,
        message=error,
        extensions=(),
        commands=(pip.format_command(["install", *words]),) if words else (),
    )


def _numpy_ailment(error: str, numpy: Distribution, environment: WholeEnvironment, pip: Pip) -> Ailment:
    """Return that torch itself cannot be imported, since the numpy that is there is for another Python, or damaged."""
    folders = (observed_fs.read_variable("PYTHONPATH") or "").split(os.pathsep)
    is_named = any(
        folder and observed_fs.resolve_links(folder) == observed_fs.resolve_links(numpy.site) for folder in folders
    )
    again = pip.format_command(["install", "--force-reinstall", "--no-deps", str(numpy)])
    return msgspec.structs.replace(
        _torch_ailment(error, environment, pip), commands=("unset PYTHONPATH" if is_named else again,)
    )


def _copies_of_libtorch(distribution: Distribution) -> tuple[str, ...]:
    if canonicalize_name(distribution.name) == "torch":
        return ()
    return tuple(path for path in (*distribution.objects, *distribution.images) if _is_libtorch(path))


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
        trouble=ProblemKind.SECOND_LIBTORCH,
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
                trouble=ProblemKind.SECOND_LIBTORCH,
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
            checked_package = check_package(build, choice, session)
    except InputError as error:
        return _unread_ailment(str(build), error)
    if checked_package is None:
        return None
    # torch rebuilds the extension if its sources change, but not if torch itself does.
    if checked_package.fitness is Fitness.FAILS:
        finding = worst_finding(checked_package.results[0])
        return Ailment(
            subject=str(build),
            trouble=ProblemKind.STALE_BUILD,
            effect=finding.effect if finding else Effect.LOAD_FAILS,
            message=checked_package.error,
            extensions=tuple(result.path for result in checked_package.failing),
            commands=(f"rm -r {shlex.quote(str(build))}",),
        )
    return _unknown_ailment(str(build), checked_package.error) if checked_package.fitness is Fitness.UNKNOWN else None
