"""The smallest change of the packages in a lock after which what uses torch works.

The versions are found as ``abiscan fit`` finds them, on the indexes that the lock names, or else on those of pip's
settings. What only the tool of the project knows, the other packages that its resolver would move then, it says itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec.structs
from msgspec import Struct
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from abiscan.environments.locked import TORCHES, check_lock, find_build
from abiscan.errors import InputError, UnreachableError
from abiscan.findings import Effect
from abiscan.hooks.fitting import FOLDER, settings_of
from abiscan.hooks.project_tools import TOOLS
from abiscan.index.client import Index
from abiscan.index.system import System
from abiscan.inputs.session import Session
from abiscan.inputs.version import number_of
from abiscan.locks.model import FromWhere, Lock, LockedPackage, ProjectPart
from abiscan.pipelines.fit import fit_packages
from abiscan.pipelines.fit_request import other_releases
from abiscan.results.lock import LockFit, LockReport, VersionChange
from abiscan.results.package import PackageVerdict
from abiscan.torches.torch import ReleaseNumber, TorchChoice
from abiscan.words import first_line, listed

_FAILING: Final = (PackageVerdict.IMPORT_FAILS, PackageVerdict.CORRUPTS)


class Proposal(Struct, frozen=True, kw_only=True):
    """Versions that packages of a lock may have instead.

    :ivar of_index: whether they are those of an index, and not of a channel of conda
    """

    versions: Mapping[str, str]
    of_index: bool = True

    @property
    def pins(self) -> tuple[str, ...]:
        """The versions as requirements."""
        return tuple(f"{name}=={version}" for name, version in self.versions.items())


def fit_lock(lock: Lock, systems: Sequence[System], part: ProjectPart, torch: str | None, session: Session) -> LockFit:
    """Return the smallest change of a lock after which what uses torch works in each of its environments.

    :param torch: the release that it is to work with; None for that of the lock, or another one if it takes that
    :raises AbiscanError: the lock contradicts itself, or what it names cannot be had
    """
    asked = {"torch": torch} if torch is not None else {}
    report = check_lock(lock, systems, part, session, versions=asked)
    broken = _broken_packages(report)
    names = [name for name, cause in broken.items() if cause is not None]
    if not broken:
        return _make_fit(lock, systems[0], part, asked, broken, report)
    for proposal in list_proposals(names, lock, systems[0], part, (), session, asked=torch):
        versions = {**asked, **proposal.versions}
        session.progress(f"trying {' '.join(proposal.pins)}")
        with contextlib.suppress(InputError):  # the index has no file of it for one of the systems
            after = check_lock(lock, systems, part, session, versions=versions)
            if not _broken_packages(after):
                return _make_fit(lock, systems[0], part, versions, broken, after)
    obstacle = f"found no versions on the index that work together: looked for {listed(names)}"
    return msgspec.structs.replace(_make_fit(lock, systems[0], part, {}, broken, report), obstacle=obstacle)


def _broken_packages(report: LockReport) -> dict[str, str | None]:
    """Return what does not work, and why; None for what fails for another one of them."""
    broken: dict[str, str | None] = {}
    for state in report.environments:
        if state.torch.error is not None:
            broken["torch"] = f"torch itself cannot be imported: {state.torch.error}"
        for finding in state.process:  # torch and numpy together
            if finding.effect is not Effect.NOTE:
                broken["numpy"] = finding.message
        for item in state.distributions:
            unmet = next((line for line in item.unmet if "which is not installed" not in line), None)
            if item.verdict in _FAILING or unmet is not None:
                why = first_line(item.error or unmet or item.verdict.value)
                broken.setdefault(item.name, None if item.cause is not None else f"{item.name} {item.version}: {why}")
    return broken


def _unknown_packages(report: LockReport) -> Iterator[str]:
    for state in report.environments:
        for item in state.distributions:
            if item.verdict is PackageVerdict.UNKNOWN:
                yield f"{item.name} {item.version}: {first_line(item.error or '')}"


def _make_fit(
    lock: Lock,
    system: System,
    part: ProjectPart,
    versions: Mapping[str, str],
    broken: Mapping[str, str | None],
    report: LockReport,
) -> LockFit:
    packages = {item.name: item for item in lock.select(system, part)}
    there = {name: item.version for name, item in packages.items()}
    changes = [VersionChange(name=name, before=there.get(name), after=version) for name, version in versions.items()]
    changed = tuple(change for change in changes if change.before != change.after)
    pins = tuple(f"{change.name}=={change.after}" for change in changed)
    tool = TOOLS.get(lock.tool)
    command = (
        tool.format_addition(pins, of_index=True) if tool else " ".join(("pip install", *(f"'{pin}'" for pin in pins)))
    )
    return LockFit(
        lock=str(lock.path),
        torch=versions.get("torch") or next((there[name] for name in TORCHES if name in there), None),
        broken=tuple(filter(None, broken.values())),
        changes=changed,
        unknown=tuple(dict.fromkeys(_unknown_packages(report))),
        command=command if changed else None,
    )


def list_proposals(
    names: Sequence[str],
    lock: Lock,
    system: System,
    part: ProjectPart,
    options: Sequence[str],
    session: Session,
    *,
    before: Lock | None = None,
    asked: str | None = None,
) -> Iterator[Proposal]:
    """Yield changes that may be enough, the smallest first: other versions of what does not work, then another torch,
    then both.

    :param names: what does not work, and not for another package
    :param options: where packages come from, as pip spells it, besides what the lock says
    :param before: the lock whose torch is the first to try
    :param asked: the only release of torch that may be
    :raises UnreachableError: an index cannot be read
    """
    locked = {item.name: item for item in lock.select(system, part)}
    torch = locked.get("torch")
    if torch is not None and asked is not None:
        torch = msgspec.structs.replace(torch, version=asked)
    build = find_build(torch, locked, system, complete=lock.is_complete) if torch else None
    of_index = {name for name, item in locked.items() if item.origin is FromWhere.INDEX}
    # What comes from elsewhere is not what an index has by that name.
    if torch is None or build is None or not names or not of_index.issuperset(names):
        yield from _torch_before(before, locked, system)
        return
    session.progress(f"looking for versions of {listed(names)} that work with torch {build}")
    settings = settings_of(None, [*_index_options(lock), *options])
    with contextlib.closing(Index(settings, system, session.folder / FOLDER)) as index:
        # A numpy that is broken is too new for the torch: see ``_examine_process`` of locked environments.
        wanted = ["numpy<2" if name == "numpy" else name for name in names]
        if chosen := _find_versions(wanted, [ReleaseNumber(build)], index, session):
            yield Proposal(versions=chosen[1])
        yield from _torch_before(before, locked, system)
        if asked is not None:
            return
        # What works stays: only a torch counts that all of it works with, too.
        users = [name for name in of_index if "torch" in (locked[name].requires or ()) and name not in names]
        kept = [str(locked[name]) for name in sorted(users)]
        others = other_releases([], build, index)
        for lines in ([str(locked[name]) for name in names], names):
            if chosen := _find_versions([*lines, *kept], others, index, session):
                changed = {name: version for name, version in chosen[1].items() if name in lines}
                yield Proposal(versions={"torch": chosen[0], **changed})


def _find_versions(
    lines: Sequence[str], choices: Sequence[TorchChoice], index: Index, session: Session
) -> tuple[str, dict[str, str]] | None:
    """Return the first possible of several torches, and the newest versions that satisfy some lines and work with it;
    None if there are none.

    :raises UnreachableError: an index cannot be read
    """
    requirements = list(map(Requirement, lines))
    try:
        fit = fit_packages(requirements, choices, index, session, installed=True, variants=False)
    # It is an InputError as well, but one about the index, and not about what it lacks.
    except UnreachableError:
        raise
    except InputError:  # an index does not have one of them
        return None
    versions: dict[str, str] = {canonicalize_name(item.name): item.version for item in fit.packages}
    return (number_of(fit.torch), versions) if versions and fit.torch else None


def _torch_before(before: Lock | None, locked: Mapping[str, LockedPackage], system: System) -> Iterator[Proposal]:
    """Yield the torch of the lock before, if it was another one."""
    there = {item.name: item for item in before.select(system, ProjectPart())} if before is not None else {}
    for name in TORCHES:
        if name in there and name in locked and there[name].version not in (None, locked[name].version):
            version = str(there[name].version)
            yield Proposal(versions={name: version}, of_index=there[name].origin is not FromWhere.CONDA)


def _index_options(lock: Lock) -> Iterator[str]:
    """Yield where the packages of a lock come from, as pip spells it: indexes, and folders of wheels."""
    urls = [place for place in lock.registries if "://" in place]
    for option, url in zip(("--index-url", *["--extra-index-url"] * len(urls)), urls, strict=False):
        yield from (option, url)
    if lock.registries and not urls:
        yield "--no-index"
    for place in lock.registries:
        if place not in urls:
            yield from ("--find-links", str(lock.path.parent / place))
