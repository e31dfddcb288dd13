"""Whether an installation may go ahead, in lines for the user."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.environments.package_check import MainCause, Problem, find_main_cause, list_fitting
from abiscan.errors import InputError, UnreachableError
from abiscan.hooks import arguments as arguments_of
from abiscan.hooks.changes import list_changes
from abiscan.hooks.install import Inspection, Inspector, Installer, InstallerError
from abiscan.hooks.pins import Pins
from abiscan.hooks.plan import Plan
from abiscan.hooks.pytorch_index import describe_unread, find_builds, is_read, words_with_builds
from abiscan.hooks.torch_change import TorchChange, requiring_another, torch_change
from abiscan.index.pip_configuration import configuration_read_once
from abiscan.inputs import interpreter, packages
from abiscan.inputs.session import Session
from abiscan.inputs.version import number_of
from abiscan.results.changes import PackageChange, change_lines
from abiscan.words import listed

if TYPE_CHECKING:
    from abiscan.hooks.solution import Task


class InstallCheck(Struct, frozen=True, kw_only=True):
    """Messages for the user, one line each: ``problems`` prevent the install, ``notes`` do not.

    ``change`` is what becomes of the installed torch; None if it stays as it is, and ``without_change`` how to install
    the same without that, if there is a way. ``plan`` says what would change.
    ``words`` are the command line with which the installer installs what was checked; ``output`` is what it printed,
    if it has done already what the user asked for.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    change: TorchChange | None = None
    without_change: str | None = None
    plan: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    output: tuple[str, str] | None = None


def check_install(
    installer: Installer,
    words: Sequence[str],
    arguments: Sequence[str],
    session: Session,
    *,
    torch_may_change: bool = False,
) -> InstallCheck:
    """Check what would be installed, before it is installed.

    :param words: the command line of the installer, as the user typed it
    :param arguments: the arguments of ``install``, in the form of ``CommandLine.arguments``
    :param torch_may_change: whether the user has allowed it, so that no way around it is looked for
    :raises InstallerError: the installer itself fails
    :raises UnclearPlanError: the installer does not say clearly what it would install
    :raises InputError: the interpreter or its torch cannot be read
    """
    session.progress("resolving what would be installed")
    plan = installer.plan_install(arguments)
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder, configuration_read_once():
        inspector = Inspector(Path(folder), installer.index_options(arguments), session)
        inspection = inspector.inspect_plan(plan)
        lines: list[str] = []
        if inspection.problems:
            lines += _explain_refusal(installer, arguments, plan, inspector, inspection, session)
        change = torch_change(plan, inspection, inspector, arguments, session)
        # Only for a plan that goes ahead: in a refusal, sizes would be noise, and each takes a request.
        shown: tuple[PackageChange, ...] = ()
        if not lines and not arguments_of.has_option(arguments, "-q", "--quiet"):
            options = installer.index_options(arguments)
            shown = list_changes(plan, inspection.torch, options, session, files=inspection.files)
        notes = list(inspection.notes)
        unwanted = change if change is not None and not change.requested and not (lines or torch_may_change) else None
        return InstallCheck(
            problems=tuple(lines),
            change=change,
            without_change=_keep_torch(unwanted, installer, arguments, plan, inspector, session) if unwanted else None,
            plan=tuple(change_lines(shown)),
            words=tuple(words if lines else _pin_files(installer, words, arguments, plan, inspection, session, notes)),
            notes=tuple(notes),
            output=plan.output,
        )


def _pin_files(
    installer: Installer,
    words: Sequence[str],
    arguments: Sequence[str],
    plan: Plan,
    inspection: Inspection,
    session: Session,
    notes: list[str],
) -> Sequence[str]:
    """Return the command line with which the installer installs what was checked, if anything was, and it installs.

    To only say what it would, it needs none of the files.
    """
    if not inspection.files or arguments_of.has_option(arguments, "--dry-run"):
        return words
    try:
        return installer.pin_files(words, arguments, Pins(plan, inspection.files, session))
    except OSError as error:
        problem = f"{error.filename}: {error.strerror or error}"
        notes.append(f"the index may answer differently now, since what was checked cannot be saved: {problem}")
        return words


def _explain_refusal(
    installer: Installer,
    arguments: Sequence[str],
    plan: Plan,
    inspector: Inspector,
    inspection: Inspection,
    session: Session,
) -> Iterator[str]:
    """Yield what will not work, then the way out."""
    causes = [
        find_main_cause(problem.source, problem.checked_package, inspection.torch, session)
        for problem in inspection.problems
    ]
    for problem, main_cause in zip(inspection.problems, causes, strict=True):
        yield _format_line(problem, main_cause, inspection.torch)
    # Without a torch, there is nothing that other versions could work with. And if a package fails because of another
    # one, the user did not ask for other versions of it.
    if inspection.torch is None or all(problem.other_change for problem in inspection.problems):
        return
    from abiscan.hooks.solution import Task, explain_stays, solve  # few plans need one

    try:
        stays = explain_stays(inspection.problems, plan, installer, arguments, session)
        task = Task(
            words=arguments,
            plan=plan,
            broken=inspection.problems,
            torch=inspection.torch,
            stays=frozenset(stays),
        )
        if unread := list(name_builds(installer, task, session)):
            yield from unread
            return
        solution = solve(task, installer, inspector, session)
    except UnreachableError as error:
        yield f"did not look for versions that work, since an index cannot be read: {error.subject}: {error.problem}"
        return
    yield from (f"did not look for other versions of {name}: {reason}" for name, reason in stays.items())
    if solution is None:
        names = listed(dict.fromkeys(item.name for item in task.broken if canonicalize_name(item.name) not in stays))
        looked_for = f"{names}, and for other releases of torch" if names else "other releases of torch"
        yield f"found no versions on the index that work together: looked for {looked_for}"
        for problem in inspection.problems:
            if fits := list(dict.fromkeys(map(number_of, list_fitting(problem.source, session)))):
                yield f"{problem} works with torch {', '.join(fits)}"
        return
    if solution.newest is not None:
        yield solution.newest
    without = " without your files, which require other versions" if solution.without_files else ""
    yield f"this works{without}: {installer.format_command(['install', *solution.words])}"
    yield from change_lines(solution.changes)
    if solution.torch is not None and arguments_of.ignores_dependencies(solution.words):
        yield f"torch {solution.torch} has dependencies of its own, which --no-deps leaves out"


def name_builds(installer: Installer, task: Task, session: Session) -> Iterator[str]:
    """Yield the builds for the kind of torch that is there, where they are all that is wrong, and nobody could look at
    the index that has them.
    """
    builds = {} if task.stays else find_builds(task.broken, task.torch)
    words = words_with_builds(task.words, builds, task.urls)
    session.progress("looking for builds on PyTorch's own index")
    if not builds or any(is_read(name, task.torch, installer, words) for name in builds):
        return
    pins = [f"{name}=={version}" for name, version in builds.items()]
    yield describe_unread(pins)
    yield f"to install {'it' if len(pins) == 1 else 'them'}: {installer.format_command(['install', *words])}"


def _keep_torch(
    change: TorchChange,
    installer: Installer,
    arguments: Sequence[str],
    plan: Plan,
    inspector: Inspector,
    session: Session,
) -> str | None:
    """Return how to install what was asked for beside the torch that is there: it is planned and checked."""
    session.progress(f"looking for versions that work with torch {change.before}")
    there = packages.find_installed("torch", interpreter.search_path(plan.python))
    version = there.version if there else change.before
    asked = {planned for planned in plan.packages if planned.requested} | set(requiring_another(plan, change.before))
    names: set[str] = {canonicalize_name(planned.name) for planned in asked}
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        file = Path(folder, "constraints.txt")
        file.write_text(f"torch=={version}\n", encoding="utf-8")
        try:
            kept = installer.plan_install([*arguments, "--constraint", str(file)], silent=True)
            # What is named by a path or an address is one version already.
            named = {str(canonicalize_name(item.name)): item.version for item in kept.packages if not item.direct}
            words = arguments_of.pin_versions(
                arguments, {name: named[name] for name in sorted(names & named.keys())}, {}
            )
            inspection = _inspect_beside_torch(words, installer, inspector)
            builds = find_builds(inspection.problems, change.before) if inspection else {}
            if builds:
                words = words_with_builds(words, builds, {})
                if any(is_read(name, change.before, installer, words) for name in builds):
                    inspection = _inspect_beside_torch(words, installer, inspector)
                    builds = {}
        except (InstallerError, InputError):
            return None
    if inspection is None or (inspection.problems and not builds):
        return None
    source = ", with what PyTorch's own index has, which was not read" if builds else ""
    return f"to keep torch {change.before}{source}: {installer.format_command(['install', *words])}"


def _inspect_beside_torch(words: Sequence[str], installer: Installer, inspector: Inspector) -> Inspection | None:
    """Return what an installation leads to; None if it changes torch."""
    plan = installer.plan_install(words, silent=True)
    changes_torch = plan.find_planned("torch") is not None or "torch" in plan.removed
    return None if changes_torch else inspector.inspect_plan(plan)


def _format_line(problem: Problem, main_cause: MainCause | None, torch: str | None) -> str:
    error = problem.checked_package.error
    because = f"it {main_cause.text} ({error})" if main_cause else error
    return f"{problem} will not work with {problem.other_change or f'torch {torch}'}: {because}"
