"""The environments that a lock describes, examined as if they were installed.

Only what uses torch is fetched. The torch is the embedded build that the lock means, so nothing is known of the Python
that will be there but its version, and of other packages only what was looked at.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec.structs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from abiscan.cache.result_cache import answer
from abiscan.environments.examination import ExaminedDistribution, IsSound, examine, list_modules
from abiscan.environments.lock_store import LockedSource, LockStore
from abiscan.environments.model import Unmet, WholeEnvironment
from abiscan.environments.package_check import CheckedPackage, Fitness, check_package, may_fail
from abiscan.environments.torch_gpus import examine_gpus
from abiscan.errors import InputError
from abiscan.findings import Effect, Evidence, Finding
from abiscan.gpu.devices import Hardware
from abiscan.index.system import System
from abiscan.inputs import result_codec
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.packages import Distribution, is_library
from abiscan.inputs.session import Session
from abiscan.inputs.sources import open_archive, requires_torch
from abiscan.inputs.version import TorchVersion
from abiscan.locks.model import FromWhere, Lock, LockedFile, LockedPackage, ProjectPart, understood
from abiscan.python.package.model import Raised
from abiscan.python.package.sources import normalized
from abiscan.regex import regex
from abiscan.results.doctor import DistributionState, Origin, TorchHealth
from abiscan.results.lock import LockedState, LockReport, count_verdicts
from abiscan.results.package import PackageVerdict
from abiscan.torches import embedded
from abiscan.torches.platforms import platform_of
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict.hardware import cpu_question

TORCHES: Final = ("torch", "pytorch")
_MINORS: Final = range(9, 16)
_CUDA_PACKAGES: Final = regex(r"(nvidia|cuda|cupti)(-|$)|pytorch-cuda$|.*-cuda-?")
_NOT_USERS: Final = regex(r"(nvidia|cuda)-|(pytorch-)?triton$|libtorch$|pytorch-(mutex|cuda|cpu|gpu)$")
_KNOWN: Final = regex(
    r"(?!torch(tune)?$)(.*-)?(torch.*|pytorch.*)|apex$|detectron2$|fbgemm-gpu.*|pyg-lib$|k2$|kaolin$|natten$|xformers$"
    r"|flash-attn.*|flashinfer-.*|sgl-kernel$|vllm(-.*)?$|mamba-ssm$|causal-conv1d$|bitsandbytes$|nixl.*|spconv-.*"
)
"""Packages that use torch, some of which do not require it: users are to choose its build themselves."""
_PLATFORM: Final = regex(r"(?P<system>manylinux|musllinux|linux|macosx|win)(?:_\d+_\d+)?_(?P<machine>\w+)")
_NEEDED_BY_TORCH: Final = regex(r"typing-extensions$|nvidia-(?!nvtx|cufile|nvshmem|cusparselt)")
_NAME: Final = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_HARDWARE: Final = frozenset({"no-kernel-image", "ptx-too-new", "cpu-too-old"})
_FIRST_WITH_NUMPY_2: Final = Version("2.3")
_ORIGINS: Final = {FromWhere.INDEX: Origin.INDEX, FromWhere.DIRECT: Origin.DIRECT, FromWhere.CONDA: Origin.CONDA}


class LockedEnvironment(WholeEnvironment, frozen=True, kw_only=True, dict=True):
    """An environment that a lock describes.

    :ivar system: what it is for
    :ivar packages: everything in it, by name
    :ivar build: the build of torch that stands for its own; None if there is none
    :ivar sources: the files of what uses torch, by name
    :ivar keys: what their bytes are told by
    :ivar complete: whether nothing is installed but what is in the lock
    """

    system: System
    packages: Mapping[str, LockedPackage]
    build: str | None
    sources: Mapping[str, LockedSource]
    keys: Mapping[str, str]
    complete: bool

    @functools.cached_property
    def _markers(self) -> dict[str, str]:
        return self.system.environment

    def requirements(self, distribution: Distribution) -> tuple[Requirement, ...]:
        """Return what a distribution requires here; what its extras require, and is there, without a version: code of
        it may import that.
        """
        name = distribution.name
        if name not in self._required:
            of_metadata = super().requirements(distribution)
            names = {canonicalize_name(requirement.name) for requirement in of_metadata}
            others_mentioned = (
                other for other in self.mentioned(distribution) if other in self.packages and other not in names
            )
            of_lock = map(Requirement, self.packages[name].requires or ())
            self._required[name] = (
                *(of_metadata if distribution.requires else of_lock),
                *map(Requirement, others_mentioned),
            )
        return self._required[name]

    def mentioned(self, distribution: Distribution) -> tuple[str, ...]:
        """Return the names of everything that the metadata of a distribution require, for extras as well."""
        names = (_NAME.match(line) for line in distribution.requires or self.packages[distribution.name].requires or ())
        return tuple(dict.fromkeys(canonicalize_name(match[0]) for match in names if match))

    def other_versions(self, distribution: Distribution) -> tuple[tuple[str, str | None], ...]:
        """Return what a distribution mentions, and its versions; None for what will not be there."""
        names = self.mentioned(distribution)
        there = {name: self.packages[name].version for name in names if name in self.packages}
        known = {**(dict.fromkeys(names) if self.complete else {}), **there}
        known["torch"] = self.build  # so that something is known of every distribution
        return tuple(sorted((normalized(name), version) for name, version in known.items()))

    @functools.cached_property
    def _required(self) -> dict[str, tuple[Requirement, ...]]:
        """What was parsed of requirements: they are asked for again and again."""
        return {}

    def unmet(self, distribution: Distribution) -> tuple[Unmet, ...]:
        """Return the requirements in the metadata of a distribution that are not met; what is absent from a lock that
        need not be complete is not among them.
        """
        if not distribution.requires:  # the lock has names alone, whatever their markers
            return ()
        return tuple(item for item in super().unmet(distribution) if self.complete or item.there is not None)

    def providers(self, module: str) -> Sequence[Distribution]:
        """Return the distributions that have a top-level module, among those that use torch."""
        return [item for item in self.distributions if module in self._modules.get(canonicalize_name(item.name), ())]

    @functools.cached_property
    def members(self) -> dict[str, tuple[str, ...]]:
        """The files of what uses torch."""
        archives = {name: open_archive(source) for name, source in self.sources.items()}
        return {name: tuple(archive.list_members()) for name, archive in archives.items() if archive is not None}

    @functools.cached_property
    def _modules(self) -> dict[str, frozenset[str]]:
        return {
            name: frozenset(member.partition("/")[0].partition(".")[0] for member in members)
            for name, members in self.members.items()
        }

    def has_libraries(self, name: str) -> bool:
        """Whether a distribution has a library."""
        return any(map(is_library, self.members.get(name, ())))

    def may_need_torch(self, distribution: Distribution) -> bool:
        """Whether a distribution requires torch, with or without an extra, or has a library, which may be for it."""
        name = canonicalize_name(distribution.name)
        known = name not in self.sources or self.has_libraries(name)
        return known or any(map(requires_torch, distribution.requires))


def name_platform(system: System) -> str:
    """Return what a system is called in reports: ``linux_x86_64``."""
    match = _PLATFORM.fullmatch(system.platforms[0])
    if match is None:
        return system.platforms[0]
    name = "linux" if match["system"] in ("manylinux", "musllinux") else match["system"]
    return f"{name}_{match['machine']}"


def list_systems(
    lock: Lock, pythons: Sequence[tuple[int, int]], platforms: Sequence[str], selection: ProjectPart
) -> tuple[System, ...]:
    """Return the environments of a lock that are asked for: by default this platform, or those that it names, and each
    Python that it and its torch are for.

    :raises InputError: it is for none of them
    """
    with understood(lock.path):
        chosen = tuple(_choose_systems(lock, pythons, platforms, selection))
    if not chosen:
        options = "choose others with --python-version, --python-platform"
        wanted = [
            str(System.of(python, platform)) for platform in platforms or (None,) for python in pythons or (None,)
        ]
        raise InputError(str(lock.path), f"is not for {', '.join(wanted)}", options)
    return chosen


def _choose_systems(
    lock: Lock, pythons: Sequence[tuple[int, int]], platforms: Sequence[str], selection: ProjectPart
) -> Iterator[System]:
    asked: list[str | None] = [*platforms] or [None]
    if not platforms and lock.platforms and not any(lock.admits(System.of((3, minor))) for minor in _MINORS):
        asked = [*lock.platforms]
    for platform in asked:
        if pythons:
            yield from filter(lock.admits, (System.of(python, platform) for python in pythons))
            continue
        systems = [System.of((3, minor), platform) for minor in _MINORS]
        admitted = [system for system in systems if lock.admits(system)]
        if len(admitted) == len(systems):  # it does not say for which Pythons it is
            admitted = [System.of(platform=platform)]
        yield from [item for item in admitted if _has_torch_for(lock, item, selection)] or admitted[:1]


def _has_torch_for(lock: Lock, system: System, selection: ProjectPart) -> bool:
    torch = next((item for item in lock.select(system, selection) if item.name in TORCHES), None)
    return torch is None or not torch.files or torch.choose_file(system) is not None


def check_lock(
    lock: Lock,
    systems: Sequence[System],
    selection: ProjectPart,
    session: Session,
    hardware: Hardware | None = None,
    *,
    versions: Mapping[str, str] = MappingProxyType({}),
) -> LockReport:
    """Examine the environments that a lock describes.

    :param versions: those that packages have instead, from an index
    :raises AbiscanError: the lock contradicts itself, or what it names cannot be had, or is something else
    """
    store = LockStore(session)
    states = [
        examine_locked(make_environment(lock, system, selection, store, session, versions), session, hardware)
        for system in systems
    ]
    return LockReport(lock=str(lock.path), environments=tuple(states))


def make_environment(
    lock: Lock,
    system: System,
    selection: ProjectPart,
    store: LockStore,
    session: Session,
    versions: Mapping[str, str] = MappingProxyType({}),
) -> LockedEnvironment:
    """Make the environment that a lock describes for a system: what uses torch is fetched.

    :param versions: those that packages have instead, from an index
    :raises AbiscanError: as for ``check_lock``
    """
    session.progress(f"reading {lock.path} for {system}")
    with understood(lock.path):
        packages = {package.name: package for package in lock.select(system, selection)}
    for name in packages.keys() & versions.keys():
        packages[name] = LockedPackage(name=name, version=versions[name], index=packages[name].index)
    torch = next((packages[name] for name in TORCHES if name in packages), None)
    below = _below(torch, packages)
    suspects = [item for name, item in packages.items() if name not in below and not _NOT_USERS.match(name)]
    files = store.locate(suspects, system)
    with contextlib.suppress(InputError):  # torch itself is not fetched: only what it requires is of interest
        files |= store.locate([torch] if torch else [], system)
    lines = _requirements_by_package(files, store)
    above = _above(packages)
    users = [item for item in suspects if item.name in above or _uses_torch(item, lines.get(item.name))]
    fetched = {item: file for item in users if (file := files[item]) is not None and torch is not None}
    sources = store.fetch(fetched.values()) if fetched else {}
    return LockedEnvironment(
        python=None,
        distributions=tuple(
            Distribution(
                name=name,
                version=item.version or "unknown",
                site=posixpath.join(embedded.SITE, "locked"),
                objects=(),
                requires=lines.get(name) or (),
                source=None,
            )
            for name, item in packages.items()
        ),
        system=system,
        packages=packages,
        build=find_build(torch, packages, system, complete=lock.is_complete) if torch else None,
        sources={item.name: sources[file] for item, file in fetched.items()},
        keys={item.name: _key_of(file) for item, file in fetched.items()},
        complete=lock.is_complete and not versions,  # what they require is not in it
    )


def _key_of(file: LockedFile) -> str:
    return file.sha256 or file.url or file.path or file.name


def _requirements_by_package(
    files: Mapping[LockedPackage, LockedFile | None], store: LockStore
) -> dict[str, tuple[str, ...] | None]:
    """Return what metadata require, by the names of the packages that have them apart from their files."""
    wheels = {item: file for item, file in files.items() if file is not None and file.name.endswith(".whl")}
    of_file = store.requirements({file: item.requires is None for item, file in wheels.items()})
    return {item.name: of_file[file] for item, file in wheels.items()}


def _uses_torch(package: LockedPackage, lines: Sequence[str] | None) -> bool:
    """Whether a package uses torch, as far as metadata tell, or its name."""
    required = any(name in TORCHES for name in package.requires or ())
    return required or any(map(requires_torch, lines or ())) or _KNOWN.fullmatch(package.name) is not None


def _below(torch: LockedPackage | None, packages: Mapping[str, LockedPackage]) -> frozenset[str]:
    """Return torch and what it requires, directly or not: none of that can use it."""
    names, waiting = {"torch", "pytorch"}, [torch] if torch else []
    while waiting:
        for name in waiting.pop().requires or ():
            if name not in names and name in packages:
                names.add(name)
                waiting.append(packages[name])
    return frozenset(names)


def _above(packages: Mapping[str, LockedPackage]) -> frozenset[str]:
    """Return what requires torch, directly or not: gpytorch requires linear-operator alone, and imports torch."""
    names, level = set[str](), set[str](TORCHES)
    while level:
        names |= level
        level = {
            name for name, item in packages.items() if name not in names and names.intersection(item.requires or ())
        }
    return frozenset(names)


def find_build(torch: LockedPackage, packages: Collection[str], system: System, *, complete: bool) -> str | None:
    """Return the embedded build that a torch in a lock is, or the one that is most like it; None if its release is not
    embedded.

    :param complete: whether nothing is installed but the packages: those of CUDA, if that is what it is for
    """
    version = TorchVersion.parse(torch.version or "")
    if version is None:
        return None
    platform = platform_of(system)
    if version.of_release not in platform.releases():
        return None
    if version.local:
        cuda = version.local.startswith("cu")
    elif complete or (torch.index or "").rstrip("/").endswith("/cpu"):  # the last is an index of PyTorch's own
        cuda = any(_CUDA_PACKAGES.match(name) for name in packages)
    else:  # what pip gets by that name
        return platform.build_of(str(version.of_release)).number
    return (
        platform.find_build(version, cuda=cuda)
        or platform.find_build(version.of_release, cuda=cuda)
        or platform.build_of(str(version.of_release)).number
    )


def examine_locked(environment: LockedEnvironment, session: Session, hardware: Hardware | None = None) -> LockedState:
    """Examine an environment that a lock describes."""
    system = environment.system
    torch = next((environment.packages[name] for name in TORCHES if name in environment.packages), None)
    users = [item for item in environment.distributions if _is_user(item, environment)]
    if torch is None or environment.build is None:
        problem = "torch is not in the lock" if torch is None else f"torch {torch.version} is not known to this abiscan"
        rows = [ExaminedDistribution(distribution=item, checked_package=None, problem=problem) for item in users]
    else:
        check = functools.partial(_check_distribution, environment, session=session, hardware=hardware)
        rows = examine(environment, _in_order_of_work(users, environment), session, check)
        rows = [
            row for row in rows if row.fitness is not Fitness.UNKNOWN or environment.may_need_torch(row.distribution)
        ]
        rows += [
            _unbuilt(item, environment) for item in users if canonicalize_name(item.name) not in environment.sources
        ]
    states = tuple(sorted((_state_of(row, environment) for row in rows), key=lambda state: state.name))
    return LockedState(
        python=f"{system.python[0]}.{system.python[1]}",
        platform=name_platform(system),
        torch=_examine_torch(torch, environment),
        judged_as=environment.build,
        distributions=states,
        process=tuple(_examine_process(environment)),
        hardware=tuple(_examine_hardware(rows, environment, session, hardware)) if hardware else (),
        counts=count_verdicts(states),
    )


def _in_order_of_work(users: Sequence[Distribution], environment: LockedEnvironment) -> list[Distribution]:
    """Return those that there are files of: the largest first, so that no process is left alone with it at the end.

    Before it comes the smallest: what all of them need, such as torch, is read while it is alone.
    """
    sizes = {item: len(environment.members.get(canonicalize_name(item.name), ())) for item in users}
    with_sources = [item for item in users if canonicalize_name(item.name) in environment.sources]
    ordered = sorted(with_sources, key=sizes.__getitem__, reverse=True)
    return [*ordered[-1:], *ordered[:-1]]


def _examine_torch(torch: LockedPackage | None, environment: LockedEnvironment) -> TorchHealth:
    """Return what becomes of torch itself: its first lines and its libraries need some of what it requires."""
    distribution = environment.find(torch.name) if torch else None
    unmet = environment.unmet(distribution) if distribution else ()
    missing = (item for item in unmet if item.there is None)
    needed = next((item for item in missing if _NEEDED_BY_TORCH.match(canonicalize_name(item.name))), None)
    return TorchHealth(
        version=torch.version if torch else None,
        imports=False if needed else None,
        error=str(needed) if needed else None,
        unmet=tuple(map(str, unmet)),
    )


def _is_user(distribution: Distribution, environment: LockedEnvironment) -> bool:
    name = canonicalize_name(distribution.name)
    if name in environment.sources:
        return True
    package = environment.packages[name]
    below = _below(environment.packages.get("torch"), environment.packages)
    return name not in below and not _NOT_USERS.match(name) and _uses_torch(package, distribution.requires)


def _unbuilt(distribution: Distribution, environment: LockedEnvironment) -> ExaminedDistribution:
    package = environment.packages[canonicalize_name(distribution.name)]
    what = (
        "it is source code" if package.origin is FromWhere.SOURCE_TREE else f"it has no wheel for {environment.system}"
    )
    problem = f"{what}, and would be built with the torch that is there then: not checked"
    return ExaminedDistribution(
        distribution=distribution, checked_package=None, problem=problem, unmet=environment.unmet(distribution)
    )


def _check_distribution(
    environment: LockedEnvironment,
    distribution: Distribution,
    *,
    session: Session,
    hardware: Hardware | None,
    errors: Mapping[str, Raised],
    is_sound: IsSound | None,
) -> CheckedPackage | None:
    """Return the verdict on a distribution: that of an earlier run, if its bytes and all else were the same."""
    name = canonicalize_name(distribution.name)
    # Only libraries need those of others; Python code is the same whatever is next to it.
    has_libraries = environment.has_libraries(name)
    neighbours = sorted(
        other for other in environment.sources if other != name and has_libraries and environment.has_libraries(other)
    )
    known = sorted((module, str(error)) for module, error in errors.items())
    planned = environment.other_versions(distribution)
    keys = [environment.keys[other] for other in (name, *neighbours)]
    more = result_codec.encode_result(hardware) if hardware else None, cpu_question(session.cpus)
    question = ["locked", environment.build, list(environment.system.python), *keys, known, list(planned), more]
    assert environment.build is not None
    python = PythonTag(major=environment.system.python[0], minor=environment.system.python[1])
    source, choice = environment.sources[name], ReleaseNumber(environment.build, python)

    def find() -> CheckedPackage | None:
        others = [environment.sources[other] for other in neighbours]
        checked_package = check_package(
            source,
            choice,
            session,
            others,
            import_errors=errors,
            is_sound=is_sound,
            hardware=hardware,
            planned=planned,
        )
        # A package whose import cannot be followed to its end is no news about torch, if it uses nothing that torch
        # lacks.
        unknown = checked_package is not None and checked_package.fitness is Fitness.UNKNOWN
        if unknown and not errors and not has_libraries and not may_fail(source, choice, session):
            return CheckedPackage(results=())
        return checked_package

    # Without its hash, what is at an address may be another file tomorrow.
    return find() if any("://" in key for key in keys) else answer(session.folder, question, find, ())


def _state_of(row: ExaminedDistribution, environment: LockedEnvironment) -> DistributionState:
    package = row.checked_package.package if row.checked_package else None
    error = row.problem or (row.checked_package.error if row.checked_package else None)
    lost = package is not None and package.verdict is PackageVerdict.WORKS_WITHOUT
    origin = environment.packages[row.name].origin
    without = (package.summary,) if package is not None and lost else ()
    modules = list_modules(package) if package else ()
    return row.state(_ORIGINS.get(origin, Origin.UNKNOWN), modules, error, without)


def _examine_hardware(
    rows: Sequence[ExaminedDistribution], environment: LockedEnvironment, session: Session, hardware: Hardware
) -> Iterator[Finding]:
    """Yield what GPUs and processors do not run: of torch itself, then of each distribution."""
    if environment.build is None or environment.system.machine is None:
        return
    files = session.files()
    torch = ReleaseNumber(environment.build).open(files, session).for_linux()
    release = torch.release_for(environment.system.machine, allow_similar_build=True)
    of_torch = list(examine_gpus(release, hardware, files))
    yield from of_torch
    for row in rows:
        results = row.checked_package.results if row.checked_package else ()
        for finding in (finding for result in results for finding in result.findings):
            if finding.rule in _OF_HARDWARE and finding.effect is not Effect.NOTE and finding not in of_torch:
                yield msgspec.structs.replace(finding, message=f"{row.distribution}: {finding.message}")


def _examine_process(environment: LockedEnvironment) -> Iterator[Finding]:
    """Yield what is wrong with torch and numpy together: torch asks for numpy when it needs it, and goes on without."""
    torch, numpy = environment.packages.get("torch"), environment.packages.get("numpy")
    if torch is None or numpy is None or not torch.version or not numpy.version:
        return
    try:
        is_older = Version(torch.version) < _FIRST_WITH_NUMPY_2 and Version(numpy.version).major >= 2
    except InvalidVersion:
        return
    if is_older:
        yield Finding(
            rule="numpy-abi",
            effect=Effect.CALL_FAILS,
            message=f"torch {torch.version} was compiled for another numpy than {numpy}: Tensor.numpy() and"
            " torch.from_numpy() raise RuntimeError: Numpy is not available",
            evidence=(Evidence(subject=str(numpy)),),
            fix="require the numpy that it is for: numpy<2",
        )
