"""The way out of a broken environment: for each cause, the smallest change after which it is gone.

What a distribution requires and lacks is installed first, then another version of one distribution, and only then
another torch. Each proposal is planned by pip, and the environment that it leads to is examined before it is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from packaging.utils import canonicalize_name

from abiscan.environments.judgement import Problem
from abiscan.errors import InputError
from abiscan.hooks import arguments
from abiscan.hooks.changes import list_changes
from abiscan.hooks.install import Inspector, InstallerError
from abiscan.hooks.pip import Pip
from abiscan.hooks.plan import Plan
from abiscan.hooks.solution import PYTORCH_INDEX, Solution, Task, solve
from abiscan.inputs.session import Session
from abiscan.inputs.version import number_of
from abiscan.results.changes import PackageChange
from abiscan.results.doctor import Remedy

_WITH_BUILDS: Final = frozenset({"torchaudio", "torchcodec", "torchtext", "torchvision"})
"""The packages that have a build for CPUs of each version, where PyTorch itself publishes them."""


def find_remedies(
    broken: Sequence[Problem],
    stays: Collection[str],
    torch: str,
    pip: Pip,
    inspector: Inspector,
    session: Session,
) -> Iterator[Remedy]:
    """Yield a command for each cause, or one for several that have to change together.

    :param broken: what fails for itself
    :param stays: the distributions that no index is to replace, as ``NAME==VERSION``; what they lack may be installed
    :param torch: the full version of the torch that is there
    """
    rest = []
    for problem in broken:
        remedy = next(_by_requirements(problem, pip, inspector, session), None)
        if remedy is not None:
            yield remedy
        elif f"{problem.name}=={problem.version}" not in stays:
            rest.append(problem)
    # Versions that work together, with the torch that is there; what has none of its own takes nothing from the others.
    for same_torch in (True, False):
        if not same_torch:
            builds = {problem.name: _build_elsewhere(problem, torch, pip) for problem in rest}
            yield from filter(None, builds.values())
            rest = [problem for problem in rest if builds[problem.name] is None]
        for group in [rest] if len(rest) == 1 else [rest, *([problem] for problem in rest)]:
            if not group or any(problem not in rest for problem in group):
                continue
            task = Task(
                words=session.index.words,
                plan=Plan(python=pip.python, packages=()),
                broken=group,
                torch=torch,
                same_torch=same_torch,
            )
            if (solution := solve(task, pip, inspector, session)) is not None:
                yield _of_solution(solution, task.names, pip)
                rest = [problem for problem in rest if problem not in group]


def _by_requirements(problem: Problem, pip: Pip, inspector: Inspector, session: Session) -> Iterator[Remedy]:
    """Yield the installation of what a distribution requires and lacks, if it works then."""
    missing = [item.requirement for item in problem.unmet if item.there is None]
    other = [item.requirement for item in problem.unmet if item.name != "torch"]
    for requirements in (missing, other) if other != missing else (missing,):
        if not requirements:
            continue
        words = [*requirements, *session.index.words]
        session.progress(f"trying {pip.format_command(['install', *words])}")
        try:
            plan = pip.plan_install(words, silent=True)
            # Another torch is the last resort, and not what somebody expects who installs what is missing.
            if plan.find_planned("torch") is not None:
                continue
            inspection = inspector.inspect_plan(plan, requested={canonicalize_name(problem.name)})
        except (InstallerError, InputError):
            continue
        if not inspection.problems:
            changes = list_changes(plan, inspection.torch, arguments.index_options(words), session)
            yield Remedy(
                remedies=(canonicalize_name(problem.name),),
                command=pip.format_command(["install", *words]),
                changes=changes,
                bytes=_sum_sizes(changes),
            )


def _build_elsewhere(problem: Problem, torch: str, pip: Pip) -> Remedy | None:
    """Return the installation of the same version, built for the kind of torch that is there, if that is known to be on
    an index of PyTorch's own: the public index has only the build with CUDA. It need not be one that can be read here.
    """
    name, kind = canonicalize_name(problem.name), torch.partition("+")[2]
    fits = problem.judgement.torch_kind is not None and all(item.name != "torch" for item in problem.unmet)
    if name not in _WITH_BUILDS or kind != "cpu" or not fits:
        return None
    pin = f"{name}=={number_of(problem.version)}+{kind}"
    return Remedy(
        remedies=(name,),
        command=pip.format_command(["install", "--no-deps", pin, "--index-url", f"{PYTORCH_INDEX}/{kind}"]),
        advice=f"{pin} is on PyTorch's own index, which could not be read here",
        changes=(PackageChange(name=name, before=problem.version, after=pin.partition("==")[2], requested=True),),
        examined=False,
    )


def _of_solution(solution: Solution, names: Sequence[str], pip: Pip) -> Remedy:
    return Remedy(
        remedies=tuple(names),
        command=pip.format_command(["install", *solution.words]),
        advice=solution.newest,
        changes=solution.changes,
        bytes=_sum_sizes(solution.changes),
    )


def _sum_sizes(changes: Sequence[PackageChange]) -> int | None:
    sizes = [change.size for change in changes if change.after is not None]
    return sum(size for size in sizes if size is not None) if None not in sizes else None
