"""What a plan would change in an environment: which versions, how large, and for whom.

An installer says what it would fetch, but not how large that is, and uv not even who requires it. The index does, as
far as it answers in a few seconds: nobody waits for a number.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec.structs
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from abiscan.errors import InputError
from abiscan.hooks.plan import Plan, Planned, WheelFacts
from abiscan.index.system import System
from abiscan.inputs import interpreter, observed_fs, packages
from abiscan.inputs.requirement import parse_applying
from abiscan.inputs.session import Session
from abiscan.results.changes import PackageChange

if TYPE_CHECKING:
    from abiscan.index.client import Index

_SECONDS: Final = 8.0
"""How long the index may take to say how large everything is."""


def list_changes(
    plan: Plan,
    torch: str | None,
    options: Sequence[str],
    session: Session,
    *,
    files: Mapping[Planned, WheelFacts] = MappingProxyType({}),
    torch_alone: bool = False,
) -> tuple[PackageChange, ...]:
    """Return what a plan would change, in the order of the plan.

    :param torch: the full version of the torch that would be there
    :param options: where packages come from, as pip spells it
    :param files: the wheels that were looked at, of which no index is asked
    :param torch_alone: whether the plan leaves out what torch requires
    """
    if not plan.packages and not plan.removed:
        return ()
    session.progress("asking how large it is")
    described = dict(_describe_packages(plan, files, options, session))
    search_path = interpreter.search_path(plan.python)
    installed = {
        name: distribution.version
        for name in (*(canonicalize_name(planned.name) for planned in plan.packages), *plan.removed)
        if (distribution := packages.find_installed(name, search_path)) is not None
    }
    requiring = _group_requiring([planned for planned, _ in described.values()])
    coming = [
        PackageChange(
            name=planned.name,
            before=installed.get(name),
            # The full version, since what an installer calls 2.9.1 may be 2.9.1+cu128.
            after=torch or planned.version if name == "torch" else planned.version,
            size=described[name][1],
            requested=planned.requested,
            required_by=requiring.get(name, ()),
            alone=torch_alone and name == "torch",
        )
        for planned in plan.packages
        for name in [canonicalize_name(planned.name)]
    ]
    going = [PackageChange(name=name, before=installed.get(name), after=None) for name in sorted(plan.removed)]
    return (*coming, *going)


def _describe_packages(
    plan: Plan, files: Mapping[Planned, WheelFacts], options: Sequence[str], session: Session
) -> Iterator[tuple[str, tuple[Planned, int | None]]]:
    """Yield the packages of a plan by canonical name, with what the index says of them: requirements, sizes."""
    end = time.monotonic() + _SECONDS
    with contextlib.ExitStack() as stack:
        index: Index | None = None
        # The index is opened for the first package that needs it: a plan of local files asks no server.
        for planned in plan.packages:
            planned_and_size: tuple[Planned, int | None] = planned, None
            if (facts := files.get(planned)) is not None:
                planned_and_size = msgspec.structs.replace(planned, requires=facts.requires), facts.size
            elif planned.local_path is not None:
                planned_and_size = planned, _size_of_file(Path(planned.local_path))
            elif time.monotonic() < end:
                if index is None:
                    # Importing the code for indexes takes longer than anything else about a plan that was kept.
                    from abiscan.hooks.fitting import FOLDER, settings_of
                    from abiscan.index.client import Index

                    folder = session.folder / FOLDER
                    # The interpreter of the plan, which need not be the one that runs abiscan, decides which files fit.
                    index = Index(settings_of(plan.python, options), _make_system(plan.python), folder)
                    stack.enter_context(contextlib.closing(index))
                with contextlib.suppress(InputError, InvalidRequirement):
                    planned_and_size = _of_index(planned, index, end)
            yield canonicalize_name(planned.name), planned_and_size


def _of_index(planned: Planned, index: Index, end: float) -> tuple[Planned, int | None]:
    """Return a package of a plan, with what it requires; and the size of its file.

    :raises InputError: the index cannot be read
    """
    url, requires = planned.url, planned.requires
    if url is None or requires is None:
        (candidate, *_) = index.candidates(Requirement(f"{planned.name}=={planned.version}"))
        if candidate.unfit:
            return planned, None
        url, requires = index.origin(candidate)[0], tuple(map(str, index.requirements(candidate)))
    # At least a tenth of a second, even if the time is over: most of these pages are in the cache by now.
    size = index.web.size(url.partition("#")[0], max(0.1, end - time.monotonic()))
    return msgspec.structs.replace(planned, requires=requires), size


def _size_of_file(path: Path) -> int | None:
    status = observed_fs.stat_file(path) if observed_fs.is_file(path) else None  # a folder is built from
    return status.st_size if status is not None else None


def _make_system(python: str | None) -> System:
    tag = interpreter.ask_interpreter(python)[0].tag if python is not None else None
    return System.of((tag.major, tag.minor) if tag is not None else sys.version_info[:2])


def _group_requiring(packages_of_plan: Sequence[Planned]) -> Mapping[str, tuple[str, ...]]:
    """Return, for each name, the packages of the plan that require it."""
    requiring: dict[str, dict[str, None]] = {}
    for planned in packages_of_plan:
        for requirement in filter(None, map(parse_applying, planned.requires or ())):
            requiring.setdefault(canonicalize_name(requirement.name), {})[str(planned)] = None
    return {name: tuple(names) for name, names in requiring.items()}
