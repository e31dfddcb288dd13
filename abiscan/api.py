"""The public Python API: the commands as functions. ``import abiscan`` offers every name in ``__all__``.

Targets and torches are written as for the commands. A target is the path of a shared object, of a wheel or of a folder,
``NAME==VERSION``, the address of a wheel (``https://…whl``), or the name of an installed package. A torch is a release
number, a specifier (``>=2.4,<2.7``), or the path of its folder, of one of its libraries or of its wheel; None means the
torch of the current environment.

Every function raises ``AbiscanError`` for an input that cannot be read, and writes to no stream.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from abiscan.errors import InputError

if TYPE_CHECKING:
    from abiscan.binary.elf import Machine
    from abiscan.findings import Rule
    from abiscan.gpu.devices import Hardware
    from abiscan.inputs.session import Session
    from abiscan.inputs.sources import Source
    from abiscan.pipelines.survey import SurveyTorches, Workers
    from abiscan.results.api_history import ApiHistory
    from abiscan.results.check import Report
    from abiscan.results.coverage import BackendReport
    from abiscan.results.diff import Comparison
    from abiscan.results.doctor import Diagnosis
    from abiscan.results.fit import FitReport
    from abiscan.results.matrix import Matrix
    from abiscan.results.model_operators import ModelOperators
    from abiscan.results.operators import ExtensionOperators
    from abiscan.results.release import ReleaseReport
    from abiscan.results.stable import StableReport
    from abiscan.results.survey import SurveySummary
    from abiscan.results.torch_operators import TorchOperators
    from abiscan.results.versions import VersionTable
    from abiscan.torches.torch import TorchChoice

# Each function imports what it needs when it is called, so no function waits for the imports of another.

TargetLike: TypeAlias = "str | os.PathLike[str] | Source"
TorchLike: TypeAlias = "str | os.PathLike[str] | TorchChoice"
_Answer = TypeVar("_Answer")
_NAMES: Final = (str, os.PathLike, type(None))
DECLARED: Final = "declared"
"""As the torch of ``check``: the torch that the metadata of each wheel require; the requirement is checked as well."""


def check(
    targets: TargetLike | Iterable[TargetLike],
    torch: TorchLike | Iterable[TorchLike] | None = None,
    *,
    python: str | None = None,
    rules: Sequence[Rule] | None = None,
    each_file: bool = False,
    skip_unsupported: bool = False,
    gpus: Sequence[str] = (),
    driver: str | None = None,
    cpus: Sequence[str] = (),
    system: str | None = None,
    session: Session | None = None,
) -> Report:
    """Check every extension in the targets: will it load and work on that torch?

    Several targets are checked as if loaded into one process, in the order given.

    :param torch: a specifier means every embedded release that it admits; ``"declared"`` means the torch that the
        metadata of each wheel require; several torches may be given
    :param python: the interpreter whose torch and installed packages are used; by default that of the environment
    :param rules: the rules to run; by default all
    :param each_file: whether the files of packages are checked alone, whatever the packages do with them
    :param skip_unsupported: with ``"declared"``, whether a wheel for a system of which no torch is known that it
        requires has nothing to check; otherwise it cannot be checked
    :param gpus: GPUs to check for: a compute capability (``12.0``), ``sm_90``, ``gfx942``, a name (``RTX 5090``), or
        ``native`` for those of this machine
    :param driver: the version of NVIDIA's driver that they have; unknown by default
    :param cpus: processors to check for: a level (``x86-64-v3``), a model (``haswell``), or ``native`` for this one,
        which is the default on a torch that is installed
    :param system: the system to check for: a name (``debian12``, ``manylinux_2_28``), or the root folder of an image;
        by default this one for an installed torch, and any for a release number
    :raises AbiscanError: the torch, the interpreter or every target cannot be read; of several targets, those that
        cannot be read are in ``unchecked``; a GPU is not known
    """
    session, item = _make_session(session), _several(targets)
    asked: list[TorchLike | None] = _several(torch)

    def find() -> Report:
        from abiscan.inputs import observed_fs
        from abiscan.results.check import joined
        from abiscan.verdict.torch_set import CheckRequest

        named = [spec for spec in asked if spec != DECLARED or observed_fs.path_exists(DECLARED)]
        reports = []
        with _all_sources(item, python, session) as sources:
            request = CheckRequest(
                targets=tuple(sources),
                torches=_choices(named, python),
                rules=_chosen_rules(rules),
                each_file=each_file,
                skip_unsupported=skip_unsupported,
                hardware=_make_hardware(gpus, driver, cpus, system),
            )
            if len(named) < len(asked):
                import msgspec.structs

                from abiscan.pipelines.declared import check_declared

                of_metadata = msgspec.structs.replace(request, torches=())
                reports.append(check_declared(of_metadata, session).on_system().filled())
            if named:
                from abiscan.pipelines.check import check_targets

                reports.append(check_targets(request, session).on_system().filled())
            return joined(reports)

    # Everything that the answer depends on, besides the files that were looked at on the way.
    options = python, each_file, skip_unsupported, list(gpus), driver, list(cpus), system, _this_cpu()
    return _answered(session, "check", item, (*asked, *_named(rules)), options, find)


def matrix(
    targets: TargetLike | Iterable[TargetLike],
    torches: TorchLike | Iterable[TorchLike] = (),
    *,
    python: str | None = None,
    rules: Sequence[Rule] | None = None,
    explained: bool = True,
    each_file: bool = False,
    gpus: Sequence[str] | None = None,
    driver: str | None = None,
    cpus: Sequence[str] = (),
    system: str | None = None,
    session: Session | None = None,
) -> Matrix:
    """Check every extension in the targets on each of several torches, each target by itself.

    :param torches: the columns; by default all embedded releases
    :param python: the interpreter whose installed packages are used; by default that of the environment
    :param explained: whether findings say what a torch has instead of what it lacks; the verdicts do not depend on it
    :param each_file: whether the files of packages are checked alone, whatever the packages do with them
    :param gpus: the GPUs of a second table, as for ``check``; empty for one of each architecture, None for no table
    :param driver: the version of NVIDIA's driver that they have; unknown by default
    :param cpus: processors to check for, as for ``check``
    :param system: the system to check for, as for ``check``
    :raises AbiscanError: a torch, or every target, cannot be read; of several targets, those that cannot be read are
        in ``unchecked``; a GPU is not known
    """
    session, item = _make_session(session), _several(targets)
    columns: list[TorchLike] = _several(torches)

    def find() -> Matrix:
        from abiscan.pipelines.matrix import make_matrix
        from abiscan.verdict.torch_set import CheckRequest

        gpu_table = None if gpus is None else _make_hardware(gpus, driver)
        with _all_sources(item, python, session) as sources:
            request = CheckRequest(
                targets=tuple(sources),
                torches=tuple(_list_choices(columns, python)),
                rules=_chosen_rules(rules),
                each_file=each_file,
                hardware=_make_hardware((), None, cpus, system),
            )
            return make_matrix(request, session, with_suggestions=explained, gpu_table=gpu_table)

    of_gpus = None if gpus is None else list(gpus)
    options = python, explained, each_file, of_gpus, driver, list(cpus), system, _this_cpu()
    return _answered(session, "matrix", item, (*columns, None, *_named(rules)), options, find)


def operators(
    target: TargetLike, *, python: str | None = None, cpu: bool = True, session: Session | None = None
) -> ExtensionOperators:
    """List what the extensions of a target register with torch: libraries, operators, kernels, fallbacks, classes.

    :param python: the interpreter whose installed packages are used; by default that of the environment
    :param cpu: whether to find what the operators may use of the processor
    :raises AbiscanError: the target cannot be read
    """
    session = _make_session(session)

    def find() -> ExtensionOperators:
        from abiscan.pipelines.operators import extension_operators

        with _sources([target], python, session) as (source,):
            return extension_operators(source, session, cpu=cpu)

    return _answered(session, "operators", [target], (), [python, cpu], find)


def model_operators(target: str | os.PathLike[str], *, session: Session | None = None) -> ModelOperators:
    """List what a saved model needs: operators, the packages that bring them, classes, devices, instruction sets.

    :param target: the path of a file of ``torch.jit.save``, ``torch.export.save``, ``torch.save`` or AOTInductor
    :raises AbiscanError: it cannot be read, or is not a saved model
    """
    from abiscan.inputs.packages import require_existing
    from abiscan.pipelines import operators as pipeline

    return pipeline.model_operators(require_existing(Path(target)), _make_session(session))


def torch_operators(
    torch: TorchLike | None = None, *, machine: str = "x86_64", session: Session | None = None
) -> TorchOperators:
    """List what torch itself registers with its dispatcher.

    :param machine: the machine for which to take a release number: ``x86_64`` or ``aarch64``
    :raises AbiscanError: there is no such torch
    """
    from abiscan.pipelines import operators as pipeline

    return pipeline.torch_operators(_make_choice(torch, None), _make_machine(machine), _make_session(session))


def api_history(
    target: TargetLike,
    torches: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    *,
    python: str | None = None,
    session: Session | None = None,
) -> ApiHistory:
    """Show whether releases of torch changed the operators that an extension uses.

    :param torches: release numbers, specifiers or paths; by default all embedded releases
    :param python: the interpreter whose installed packages are used; by default that of the environment
    :raises AbiscanError: the target or a torch cannot be read
    """
    from abiscan.pipelines import operators as pipeline

    several = [torches] if isinstance(torches, str | os.PathLike) else torches
    specs = [os.fspath(torch) for torch in several]
    session = _make_session(session)
    with _sources([target], python, session) as (source,):
        return pipeline.api_history(source, specs, session)


def coverage(
    target: TargetLike,
    torch: TorchLike | None = None,
    *,
    backend: str | None = None,
    workload: str | os.PathLike[str] | None = None,
    python: str | None = None,
    gpus: Sequence[str] = (),
    driver: str | None = None,
    session: Session | None = None,
) -> BackendReport:
    """List the operators without a kernel for the backend that a target implements.

    :param backend: its dispatch key or name; by default the backend that most kernels are for
    :param workload: a model file, which limits the report to the operators that the model calls
    :param python: the interpreter whose torch and installed packages are used; by default that of the environment
    :param gpus: the GPUs for which to list the operators of the target without code, as for ``check``
    :param driver: the version of NVIDIA's driver that they have; unknown by default
    :raises AbiscanError: something cannot be read; there is no such backend; a GPU is not known
    """
    session = _make_session(session)

    def find() -> BackendReport:
        from abiscan.pipelines.coverage import backend_report

        with _sources([target], python, session) as (source,):
            return backend_report(
                source,
                _make_choice(torch, python),
                session,
                backend=backend,
                workload=None if workload is None else Path(workload),
                hardware=_make_hardware(gpus, driver),
            )

    options = backend, None if workload is None else os.fspath(workload), python, list(gpus), driver
    return _answered(session, "coverage", [target], [torch], options, find)


def diff(
    old: TorchLike,
    new: TorchLike,
    *,
    used_by: TargetLike | None = None,
    machine: str = "x86_64",
    python: str | None = None,
    session: Session | None = None,
) -> Comparison:
    """Compare two torches: symbols, operators, dispatch, class layouts, Python names.

    :param used_by: an extension or a package, which limits the comparison to what it uses
    :param machine: the machine for which to take a release number: ``x86_64`` or ``aarch64``
    :param python: the interpreter whose installed packages are used; by default that of the environment
    :raises AbiscanError: a torch or the extension cannot be read
    """
    session, users = _make_session(session), [] if used_by is None else [used_by]

    def find() -> Comparison:
        from abiscan.pipelines import diff as pipeline

        with _sources(users, python, session) as sources:
            user = next(iter(sources), None)
            choices = _make_choice(old, python), _make_choice(new, python)
            return pipeline.compare_torches(*choices, _make_machine(machine), user, session)

    return _answered(session, "diff", users, [old, new], [machine, python], find)


def stable(
    targets: TargetLike | Iterable[TargetLike] = (),
    *,
    environment: bool = False,
    python: str | None = None,
    session: Session | None = None,
) -> StableReport:
    """Show what ties extensions to releases of torch, and what of the stable ABI would replace it.

    :param environment: whether to check every installed package that uses torch, too
    :param python: the interpreter whose installed packages are used; by default that of the environment
    :raises AbiscanError: no target can be read
    """
    from abiscan.pipelines import stable as pipeline

    session = _make_session(session)
    item = _several(targets)
    if environment:
        from abiscan.inputs.interpreter import search_path

        item += pipeline.list_installed(search_path(_find_environment(python)), session)
    if not item:
        return pipeline.check_stability([], session)
    with _all_sources(item, python, session) as sources:
        return pipeline.check_stability(sources, session)


def fit(
    packages: str | Iterable[str],
    torch: TorchLike | None = None,
    *,
    files: Sequence[str | os.PathLike[str]] = (),
    python: str | None = None,
    python_version: tuple[int, int] | None = None,
    platform: str | None = None,
    cuda: str | None = None,
    index_url: str | None = None,
    extra_index_urls: Sequence[str] = (),
    find_links: Sequence[str] = (),
    no_index: bool = False,
    offline: bool = False,
    session: Session | None = None,
) -> FitReport:
    """Find the newest versions of packages that work with a torch, and with each other.

    The versions come from the indexes that pip is configured for; wheels are read in place.

    :param packages: names or requirements; the newest version of the first counts most
    :param torch: a specifier means the newest release that all packages have a version for; by default the torch of
        the current environment, or any release if it has none
    :param files: files of requirements, whose packages are looked for as well
    :param python: the interpreter whose torch, version and pip settings are used; by default that of the environment
    :param python_version: ``(3, 12)``, by default that of the interpreter
    :param platform: the platform that wheels are looked for, by default this one
    :param cuda: the CUDA of a release: ``12.6``, or ``cpu``
    :param index_url: replaces the index of the settings
    :param extra_index_urls: are asked as well
    :param find_links: folders, pages of links or wheels that are looked through, too
    :param no_index: whether only those are
    :param offline: whether only what was read before is used
    :raises AbiscanError: an index, a wheel or the torch cannot be read
    """
    from abiscan.inputs.index_options import IndexOptions
    from abiscan.pipelines.fit_request import Request, answer_request

    request = Request(
        packages=(packages,) if isinstance(packages, str) else tuple(packages),
        torch=torch if torch is None or isinstance(torch, str) else _make_choice(torch, None),
        files=tuple(map(Path, files)),
        python=_find_environment(python),
        python_version=python_version,
        platform=platform,
        cuda=cuda,
        index=IndexOptions(
            index_url=index_url,
            extra_index_urls=tuple(extra_index_urls),
            find_links=tuple(find_links),
            no_index=no_index,
        ),
        offline=offline,
        other_torches=True,
    )
    return answer_request(request, _make_session(session))


def version_table(
    package: str,
    versions: str = "all",
    torches: TorchLike | Iterable[TorchLike] = (),
    *,
    python: str | None = None,
    session: Session | None = None,
) -> VersionTable:
    """Check each version of a package that the index has for this system on each of several torches.

    :param package: its name
    :param versions: ``all``, or a specifier: ``>=0.20``
    :param torches: the columns; by default all embedded releases
    :param python: the interpreter whose pip settings count; by default that of the environment
    :raises AbiscanError: the index cannot be read, or does not have such a version
    """
    from abiscan.pipelines.versions import version_table as pipeline

    columns: list[TorchLike] = _several(torches)
    environment = _find_environment(python)
    return pipeline(package, versions, _list_choices(columns, python), _make_session(session), python=environment)


def survey(
    targets: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    torches: str | Iterable[str] = (),
    *,
    output: str | os.PathLike[str],
    python: str | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> SurveySummary:
    """Check thousands of targets, each by itself, and add the answers to a file, as lines of JSON.

    Answers that the file already has are not looked for again, unless the target has changed. Returns a summary of all
    answers in the file.

    :param targets: a folder stands for the wheels in it, at any depth, a ``.txt`` file for the targets it lists
    :param torches: release numbers, specifiers or paths; by default the torch of the current environment
    :param output: the file
    :param python: the interpreter whose torch and installed packages are used; by default that of the environment
    :param jobs: the number of processes; by default one for each processor
    :param scheduler: the address of a dask scheduler, whose workers are used instead of processes
    :param progress: called with the number of targets that are done, and of all
    :raises AbiscanError: a torch, a list of targets or the output cannot be read, or there is no such scheduler
    """
    from abiscan.inputs.packages import is_name
    from abiscan.inputs.target_list import target_names
    from abiscan.pipelines import survey as pipeline
    from abiscan.results.survey import SurveySummary
    from abiscan.results.survey_file import SurveyFile

    several = [targets] if isinstance(targets, str | os.PathLike) else targets
    names = tuple(target_names([os.fspath(target) for target in several]))
    specs = (torches,) if isinstance(torches, str) else tuple(torches)
    # The environment is looked up only for what is looked for in it: looking costs a process.
    needs_python = not specs or any(map(is_name, names))
    asked = pipeline.SurveyTorches(specs=specs, python=_find_environment(python) if needs_python else None)
    with SurveyFile.open_answers(Path(output)) as answers:
        torch_names = asked.list_names()
        with _workers(jobs, scheduler, asked, torch_names) as workers:
            pipeline.run_survey(names, asked, torch_names, workers, answers, progress)
        return SurveySummary.of(answers.read_entries())


def _workers(
    jobs: int | None, scheduler: str | None, torches: SurveyTorches, names: tuple[str, ...]
) -> contextlib.AbstractContextManager[Workers]:
    if scheduler is not None:
        from abiscan.pipelines.cluster import cluster_workers

        return cluster_workers(scheduler, torches, names)
    from abiscan.inputs.system import count_processors
    from abiscan.pipelines.local_workers import local_workers

    return local_workers(jobs or count_processors())


def release(
    targets: TargetLike | Iterable[TargetLike],
    against: TargetLike | Iterable[TargetLike] = (),
    *,
    corrected: str | os.PathLike[str] | None = None,
    session: Session | None = None,
) -> ReleaseReport:
    """Check the wheels of a release before it is published: what they require, their tags, what they work on.

    :param targets: the wheels, or the folder that they are in
    :param against: the wheels that were published last: what is worse now is a problem
    :param corrected: a folder for wheels whose metadata are corrected; none are written by default
    :raises AbiscanError: no wheel can be read
    """
    from abiscan.hooks.release import check_release
    from abiscan.verdict.torch_set import CheckRequest

    session = _make_session(session)
    folder = None if corrected is None else Path(corrected)
    with contextlib.ExitStack() as stack:
        sources = stack.enter_context(_all_sources(targets, None, session))
        before = _several(against)
        previous = stack.enter_context(_all_sources(before, None, session)) if before else []
        request = CheckRequest(targets=tuple(sources), rules=_chosen_rules(None))
        return check_release(request, previous, session, folder)


def works(package: TargetLike, torch: TorchLike | None = None, *, session: Session | None = None) -> bool | None:
    """Return whether a package, or every extension of another target, works completely on a torch; None if unknown.

    :raises AbiscanError: the torch or the target cannot be read
    """
    from abiscan.results.package import PackageVerdict
    from abiscan.results.verdict import Verdict

    report = check(package, torch, session=session)
    verdicts = {*(package.verdict for package in report.packages), *(result.verdict for result in report.alone)}
    call_fails = any(result.call_error for result in report.alone)
    if report.exit_code() == 1 or PackageVerdict.WORKS_WITHOUT in verdicts or call_fails:
        return False
    return None if verdicts & {PackageVerdict.UNKNOWN, Verdict.UNKNOWN} else True


def doctor(*, python: str | None = None, session: Session | None = None) -> Diagnosis:
    """Check that everything in an environment works with its torch; look on the index for what does.

    :param python: the interpreter of the environment; by default that of the active one
    :raises AbiscanError: the environment cannot be read, or has no torch
    """
    from abiscan.hooks.doctor import diagnose_environment
    from abiscan.inputs.environment import choose_environment
    from abiscan.verdict.hardware import native_hardware

    return diagnose_environment(choose_environment(python), python, _make_session(session), native_hardware())


def releases() -> tuple[str, ...]:
    """List the torch releases that are embedded in the package, oldest first: ``"1.4.0"``, …"""
    from abiscan.torches import embedded

    return tuple(map(str, embedded.versions()))


def _make_session(session: Session | None) -> Session:
    from abiscan.inputs.session import Session as NewSession

    return session or NewSession.of_user()


def _answered(
    session: Session,
    command: str,
    targets: Sequence[TargetLike],
    others: Sequence[object],
    options: Sequence[object],
    find: Callable[[], _Answer],
) -> _Answer:
    """Return what ``find`` returns, or what it returned in an earlier run, as long as that holds.

    :param others: the torches and rules; what has no name cannot be asked for again, so the answer is not kept
    :param options: plain values
    """
    # A target or torch that is an object, not a name, may mean something else in the next run.
    names = [[type(name).__name__, str(name)] for name in (*targets, *others) if isinstance(name, _NAMES)]
    if len(names) != len(targets) + len(others):
        return find()
    from abiscan.cache.result_cache import answer

    return answer(session.folder, [command, names, *options], find, list(map(str, targets)))


def _named(rules: Sequence[Rule] | None) -> Sequence[object]:
    """Return the names of rules, one word for all rules; a rule of somebody else's stands for itself."""
    if rules is None:
        return ["all rules"]
    from abiscan.rules import SELECTABLE

    return [rule.name if rule in SELECTABLE else rule for rule in rules]


def _chosen_rules(rules: Sequence[Rule] | None) -> tuple[Rule, ...]:
    from abiscan.rules import SELECTABLE

    return tuple(SELECTABLE if rules is None else rules)


@contextlib.contextmanager
def _sources(targets: Iterable[TargetLike], python: str | None, session: Session) -> Iterator[list[Source]]:
    """Provide the sources that targets stand for; downloaded wheels are deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder, contextlib.ExitStack() as stack:
        yield [_make_source(target, Path(folder), python, session, stack) for target in targets]


@contextlib.contextmanager
def _all_sources(
    targets: TargetLike | Iterable[TargetLike], python: str | None, session: Session
) -> Iterator[list[Source]]:
    """Provide the sources that the targets of one command stand for, each once: a missing one, too, unless all are
    missing.

    A folder of wheels stands for the wheels in it.
    """
    from abiscan.errors import InputError, raise_together
    from abiscan.inputs.addresses import without_credentials
    from abiscan.inputs.isolation import turn_of
    from abiscan.inputs.sources import Missing, content_of

    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder, contextlib.ExitStack() as stack:
        sources: dict[object, Source] = {}
        # Each once, by its real path: a file may be named itself and by its folder.
        for target in dict.fromkeys(_several(targets)):
            name = without_credentials(str(target))
            try:
                source = _make_source(target, Path(folder), python, session, stack)
                with turn_of(name):
                    result = content_of(source)
            except InputError as error:
                result = [Missing(name, error)]
            for source in result:
                sources.setdefault(source.resolve() if isinstance(source, Path) else source, source)
        missing = [source.error for source in sources.values() if isinstance(source, Missing)]
        if len(missing) == len(sources):
            raise_together(missing)
        yield list(sources.values())


def _make_source(
    target: TargetLike, folder: Path, python: str | None, session: Session, stack: contextlib.ExitStack
) -> Source:
    from abiscan.inputs.isolation import turn_of
    from abiscan.inputs.kinds import is_address
    from abiscan.inputs.packages import (
        Distribution,
        FetchedSource,
        FetchedWheel,
        RemoteWheel,
        is_name,
        require_existing,
        resolve_target,
    )

    if isinstance(target, str):
        if is_address(target):
            return _remote_wheel(target, python, session, stack)
        if not is_name(target):
            with turn_of(target):
                return resolve_target(target, folder, None)
        from abiscan.index.named import fetch_target  # most targets are files

        environment = _find_environment(python)
        with turn_of(target):
            return fetch_target(target, folder, environment, session.index)
    if isinstance(target, os.PathLike):
        return require_existing(Path(target))
    if not isinstance(target, Distribution | FetchedWheel | FetchedSource | RemoteWheel):
        raise TypeError(f"a target is a string or a path, not {type(target).__name__}")
    return target


def _remote_wheel(address: str, python: str | None, session: Session, stack: contextlib.ExitStack) -> Source:
    """Return a wheel on a server, which is read in place: what is needed of it, and kept."""
    from abiscan.index.client import Index, settings_of_pip
    from abiscan.index.system import System

    index = Index(settings_of_pip(python, session.index), System.of(), session.folder / "wheels")
    return stack.enter_context(contextlib.closing(index)).linked_wheel(address)


def _make_machine(name: str) -> Machine:
    from abiscan.binary.elf import Machine

    try:
        return Machine(name)
    except ValueError as error:
        names = " or ".join(machine.value for machine in Machine)
        raise InputError(repr(name), "is not a machine that torch is built for on Linux", f"pass {names}") from error


def _several(named: Any) -> list[Any]:
    return list(named) if isinstance(named, Iterable) and not isinstance(named, str | bytes) else [named]


def _find_environment(python: str | None) -> str | None:
    from abiscan.inputs.environment import use_environment

    return use_environment(python).python


def _list_choices(torches: Iterable[TorchLike], python: str | None) -> list[TorchChoice]:
    from abiscan.torches.torch import drop_duplicates, each_build

    return drop_duplicates(each_build(choice for torch in torches for choice in _torch_choices(torch, python)))


def _choices(torches: Sequence[TorchLike | None], python: str | None) -> tuple[TorchChoice, ...]:
    from abiscan.torches.torch import drop_duplicates

    return tuple(drop_duplicates(choice for torch in torches for choice in _torch_choices(torch, python)))


def _torch_choices(torch: TorchLike | None, python: str | None) -> Sequence[TorchChoice]:
    from abiscan.torches.torch import torch_choices

    return torch_choices(torch) if isinstance(torch, str) else [_make_choice(torch, python)]


def _make_choice(torch: TorchLike | None, python: str | None) -> TorchChoice:
    from abiscan.torches.torch import TorchOf, torch_choice

    if torch is None:
        return TorchOf(_find_environment(python))
    if isinstance(torch, str | os.PathLike):
        return torch_choice(os.fspath(torch))
    if not hasattr(torch, "open"):
        raise TypeError(f"a torch is a string or a path, not {type(torch).__name__}")
    return torch


def _make_hardware(
    gpus: Sequence[str], driver: str | None, cpus: Sequence[str] = (), system: str | None = None
) -> Hardware:
    from abiscan.verdict.hardware import hardware_of

    return hardware_of(gpus, driver, cpus, system)


def _this_cpu() -> list[str]:
    """Return the features of this machine's processor, on which an answer depends that is kept."""
    from abiscan.cpu.processors import native_cpu

    native = native_cpu()
    return sorted(native.features) if native else []
