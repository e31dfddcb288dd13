"""Before an install: what will be installed, and whether it will work together.

An installer reports what it would do (``Plan``). From that follows which torch will be installed, and every wheel with
compiled extensions is checked against it before anything is installed.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec.structs
from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.cache.result_cache import answer, answer_by_content
from abiscan.environments.model import Unmet, WholeEnvironment, wheel_uses_torch
from abiscan.environments.package_check import Problem
from abiscan.errors import InputError
from abiscan.hooks.pins import Pins
from abiscan.hooks.plan import Plan, Planned, WheelFacts
from abiscan.inputs import interpreter, observed_fs, packages, result_codec
from abiscan.inputs.files import Wheel
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.packages import FetchedWheel
from abiscan.inputs.requirement import parse_applying, required_by
from abiscan.inputs.session import Session
from abiscan.inputs.spreading import find_metadata
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex
from abiscan.torches.platforms import own_platform
from abiscan.torches.torch import ReleaseNumber, TorchAt, TorchChoice, TorchOf
from abiscan.verdict.hardware import cpu_question

_CUDA_WHEELS: Final = regex(r"(nvidia|cuda)-")
# The metadata say what torch requires; some installers do not show them, and these packages have gigabytes.
_TORCH_DEPENDENCIES: Final = regex(r"(nvidia|cuda)-|(pytorch-)?triton$")
# From this version on, the default CUDA wheels require CUDA from other wheels, which identifies them.
_CUDA_IN_OTHER_WHEELS: Final = TorchVersion("2.0")


class Installer(Protocol):
    """pip, or a replacement for it."""

    @property
    def downloads_to_plan(self) -> bool:
        """Whether it downloads everything that it would install, only to say what that is."""

    def plan_install(self, arguments: Sequence[str], *, silent: bool = False) -> Plan:
        """Return what ``install`` with these arguments would do.

        :param arguments: in the form of ``CommandLine.arguments``, as everywhere here
        :param silent: hide its error messages from the user
        :raises InstallerError: it fails
        :raises UnclearPlanError: it succeeds, but does not say clearly what it would do
        """

    def list_versions(self, name: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the versions of a package that have a file for this Python, newest first; empty if unknown.

        :param arguments: those of ``install``, which say where packages come from
        """

    def index_options(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments that say where packages come from, as pip spells them."""

    def upgrade_options(self, names: Iterable[str]) -> list[str]:
        """Return the options that make it replace these packages, and others only if they require it."""

    def pin_files(self, words: Sequence[str], arguments: Sequence[str], pins: Pins) -> list[str]:
        """Return the command line with which it installs the files that were checked.

        :param words: its command line as the user typed it
        :param arguments: the same, without the command
        :raises OSError: what it is told cannot be written
        """

    def format_command(self, words: Sequence[str]) -> str:
        """Return the command that runs it through abiscan, ready to type.

        :param words: its own command and arguments: ``install``, …
        """


class InstallerError(Exception):
    """The installer failed, with an exit code.

    :param notice: its error output, if the user has not seen it yet
    """

    def __init__(self, code: int, notice: str = "") -> None:
        super().__init__(notice)
        self.code = code


class Inspection(Struct, frozen=True, kw_only=True):
    """What would become of a plan: its problems, and remarks for the user, one line each.

    ``torch`` is the full version of the torch that will be there, None if there will be none or it is unknown.
    ``files`` is what is remembered of the wheels that were looked at, by the packages of the plan.
    """

    torch: str | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    files: Mapping[Planned, WheelFacts] = {}


class Inspector:
    """Checks plans for one environment. What it downloads and checks once, it remembers.

    :param folder: where wheels are downloaded to
    :param options: where packages come from, as pip spells it
    :param broken: the canonical names of what is known not to work now: no plan is to blame for it
    """

    def __init__(self, folder: Path, options: Sequence[str], session: Session, broken: Collection[str] = ()) -> None:
        self._folder = folder
        self._options = options
        self._session = session
        self._broken = broken
        self._wheels: dict[tuple[str, str | None], FetchedWheel | InputError] = {}
        self._installed: dict[str | None, WholeEnvironment] = {}
        self.downloaded = 0
        """The bytes that were downloaded so far."""

    def inspect_plan(self, plan: Plan, requested: Collection[str] = ()) -> Inspection:
        """Check a plan.

        Packages that stay installed count if they work now, and torch changes. If they do not work now, that is not the
        fault of the plan, except for those that are ``requested``.

        What an earlier run has found holds as long as nothing changes in the environment, if the bytes of all files of
        the plan are known.

        :param requested: canonical names of packages that must work in the end
        :raises InputError: the torch of the plan cannot be read
        """
        find = functools.partial(self._inspect, plan, requested)
        if any(planned.wheel and not (planned.sha256 or planned.local_path) for planned in plan.packages):
            return find()
        question = [
            *("plan", plan.python, result_codec.encode_result(plan.packages), sorted(plan.removed)),
            *(sorted(requested), sorted(self._broken), cpu_question(self._session.cpus), self._session.system),
        ]
        inspection = answer(self._session.folder, question, find, (), passing=self._folder)
        return msgspec.structs.replace(
            inspection, problems=tuple(self._with_source(problem, plan) for problem in inspection.problems)
        )

    def _with_source(self, problem: Problem, plan: Plan) -> Problem:
        """Return a problem with the wheel that is at fault, which an earlier run may have downloaded, and removed."""
        planned = plan.find_planned(canonicalize_name(problem.name))
        if planned is None or not isinstance(problem.source, FetchedWheel):
            return problem
        return msgspec.structs.replace(problem, source=self._make_wheel(plan, planned))

    def _inspect(self, plan: Plan, requested: Collection[str]) -> Inspection:
        """Check a plan, whatever earlier runs have found."""
        # What was kept needs none of that, and its import takes longer than everything else.
        from abiscan.hooks.comparison import PlanComparison
        from abiscan.hooks.planned_environment import PlannedEnvironment

        notes = [
            f"{planned} is not checked: it will be built from source" for planned in plan.packages if not planned.wheel
        ]
        suspects = _wheels_to_check(plan)
        torch = plan.find_planned("torch")
        if torch is None and ("torch" in plan.removed or not _has_torch(plan.python)):
            return _without_torch(suspects, notes)
        # What the name of a wheel says of its contents is only a name, so all of them are downloaded. The installer
        # finds them in the cache of pip afterwards, or would have to download them anyway.
        wheels = self._download_wheels(plan, suspects, notes)
        files = {planned: wheel.path for planned, wheel in wheels.items()}
        wheels = {
            planned: wheel
            for planned, wheel in wheels.items()
            if canonicalize_name(planned.name) in requested or self._may_concern_torch(planned, wheel, notes)
        }
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        planned_environment = PlannedEnvironment(self._before(plan), plan, files, folder, self._session)
        touched = [
            item
            for item in (planned_environment.staying if torch else planned_environment.list_touched(requested))
            if (name := canonicalize_name(item.name)) in requested or name not in self._broken
        ]
        if not wheels and torch is None and not touched:
            return Inspection(torch=None, problems=(), notes=tuple(notes), files=_remember(files))
        choice = self._find_torch(plan, torch)
        if choice is None:
            return _without_torch(suspects, notes)
        if torch is not None and isinstance(choice, TorchAt):
            files[torch] = choice.path
        build = choice.open(self._session.files(), self._session).build
        comparison = PlanComparison(planned_environment, choice, build, wheels, touched, requested, self._session)
        problems = tuple(comparison.list_problems(notes, has_torch=self.torch_now(plan) is not None))
        return Inspection(torch=build, problems=problems, notes=tuple(notes), files=_remember(files))

    def _may_concern_torch(self, planned: Planned, wheel: FetchedWheel, notes: list[str]) -> bool:
        """Whether a wheel uses torch, or requires it; not if it cannot be read, which is noted."""
        try:
            with turn_of(str(planned)):
                # uv does not say what a package requires.
                if any(map(_names_torch, planned.requires or requirements_in(wheel))):
                    return True
                if planned.sha256 is None or planned.local_path is not None:
                    return wheel_uses_torch(wheel)
                # All its libraries are inflated for it, so what was found is kept for other plans.
                find = functools.partial(wheel_uses_torch, wheel)
                return answer_by_content(self._session.folder, planned.sha256, ["uses torch"], find)
        except InputError as error:
            notes.append(f"{planned} is not checked: {error.problem}")
            return False

    def list_lost(self, plan: Plan) -> tuple[Unmet, ...]:
        """Return the requirements of what stays that are met now, and not once a plan is carried out: pip itself only
        warns of them.
        """
        versions: dict[str, str | None] = dict.fromkeys(plan.removed)
        versions |= {canonicalize_name(planned.name): planned.version for planned in plan.packages}
        return self._before(plan).lost(versions)

    def _before(self, plan: Plan) -> WholeEnvironment:
        """Return the environment that a plan is for, as it is."""
        if plan.python not in self._installed:
            self._installed[plan.python] = WholeEnvironment.installed(plan.python)
        return self._installed[plan.python]

    def _find_torch(self, plan: Plan, planned: Planned | None) -> TorchChoice | None:
        """Return the torch that will be installed afterwards."""
        if planned is None:
            return None if "torch" in plan.removed else self.torch_now(plan)
        if build := _embedded_build(plan, planned):
            return ReleaseNumber(build, interpreter.tag_of(plan.python))
        if not planned.wheel:
            return None
        return TorchAt(self._make_wheel(plan, planned).path)

    def torch_now(self, plan: Plan) -> TorchChoice | None:
        """Return the torch that is installed; None if there is none that can be read."""
        choice = TorchOf(plan.python)
        try:
            choice.open(self._session.files(), self._session)
        except InputError:
            return None
        return choice

    def _make_wheel(self, plan: Plan, planned: Planned) -> FetchedWheel:
        """Return the file of a package that would be installed, downloaded unless it is local.

        :raises InputError: it cannot be downloaded
        """
        self._fetch_wheels(plan, [planned])
        wheel = self._wheels[_key_of(planned)]
        if isinstance(wheel, InputError):
            raise wheel
        return wheel

    def _download_wheels(
        self, plan: Plan, suspects: Sequence[Planned], notes: list[str]
    ) -> dict[Planned, FetchedWheel]:
        """Return the files of packages, without those that cannot be downloaded."""
        self._fetch_wheels(plan, suspects)
        wheels: dict[Planned, FetchedWheel] = {}
        for planned in suspects:
            wheel = self._wheels[_key_of(planned)]
            if isinstance(wheel, InputError):
                observed_fs.look_once()  # it may be had tomorrow
                notes.append(f"{planned} is not checked: {wheel.problem}")
            else:
                wheels[planned] = wheel
        return wheels

    def _fetch_wheels(self, plan: Plan, wanted: Sequence[Planned]) -> None:
        """See to it that the files of packages are there, or why they cannot be had."""
        # Errors are remembered, too: a solution is searched in several rounds, each of which would try again.
        lacking = [planned for planned in wanted if _key_of(planned) not in self._wheels]
        for planned in lacking:
            if planned.local_path is not None:
                self._wheels[_key_of(planned)] = FetchedWheel(path=Path(planned.local_path))
        remote = [planned for planned in lacking if _key_of(planned) not in self._wheels]
        if not remote:
            return
        what = str(remote[0]) if len(remote) == 1 else f"{len(remote)} wheels"
        self._session.progress(f"downloading {what}")
        folder = Path(tempfile.mkdtemp(dir=self._folder))  # two indexes may have files of one name
        try:
            with observed_fs.nothing_recorded():  # the hash of a file is known, or what is found is not kept
                paths = packages.fetch_wheels(list(map(_requirement_of, remote)), folder, plan.python, self._options)
        except InputError as error:
            # One run of pip for all, until one fails: it does not say which.
            if len(remote) == 1:
                self._wheels[_key_of(remote[0])] = error
                return
            half = len(remote) // 2
            self._fetch_wheels(plan, remote[:half])
            self._fetch_wheels(plan, remote[half:])
            return
        by_name = {canonicalize_name(path.name.partition("-")[0]): path for path in paths}
        self.downloaded += sum(path.stat().st_size for path in paths)
        for planned in remote:
            path = by_name.get(canonicalize_name(planned.name))
            self._wheels[_key_of(planned)] = FetchedWheel(path=path) if path else _misnamed(planned)


def requirements_in(wheel: FetchedWheel) -> tuple[str, ...]:
    """Return what the metadata in a wheel require.

    :raises InputError: it cannot be read
    """
    archive = Wheel(wheel.path)
    name = find_metadata(archive.list_members())
    return required_by(archive.read_text(name), wheel.path.name) if name is not None else ()


def _remember(files: Mapping[Planned, Path]) -> dict[Planned, WheelFacts]:
    """Return what is remembered of wheels."""
    remembered = {}
    for planned, path in files.items():
        requires = planned.requires
        if requires is None:
            with contextlib.suppress(InputError), turn_of(str(planned)):
                requires = requirements_in(FetchedWheel(path=path))
        # pip has compared the hash in an address that it downloaded from.
        compared = planned.sha256 if planned.local_path is None else None
        sha256 = compared or observed_fs.hash_file(path)
        remembered[planned] = WheelFacts(sha256=sha256, size=path.stat().st_size, requires=requires)
    return remembered


def _key_of(planned: Planned) -> tuple[str, str | None]:
    return str(planned), planned.url


def _requirement_of(planned: Planned) -> str:
    return f"{planned.name}=={planned.version}" if planned.url is None else f"{planned.name} @ {planned.url}"


def _misnamed(planned: Planned) -> InputError:
    return InputError(str(planned), "the file that pip downloads has the name of another package")


def _without_torch(suspects: Iterable[Planned], notes: list[str]) -> Inspection:
    without = [planned for planned in suspects if any(map(_names_torch, planned.requires or ()))]
    notes += [f"{planned} is not checked: torch will not be installed" for planned in without]
    return Inspection(torch=None, problems=(), notes=tuple(notes))


def _has_torch(python: str | None) -> bool:
    """Whether an interpreter finds a torch, readable or not.

    :raises InputError: it cannot be run
    """
    package = interpreter.installed_torch() if python is None else interpreter.ask_interpreter(python)[1]
    return package is not None


def _wheels_to_check(plan: Plan) -> list[Planned]:
    """Return the wheels that may depend on the build of torch, and what they find beside it; none if nothing would be
    installed but torch and its dependencies.
    """
    below = _below_torch(plan)
    if all(canonicalize_name(planned.name) in below for planned in plan.packages):
        return []
    return [
        planned
        for planned in plan.packages
        if planned.wheel
        and (name := canonicalize_name(planned.name)) != "torch"
        and (not _TORCH_DEPENDENCIES.match(name) or any(map(_names_torch, planned.requires or ())))
    ]


def _below_torch(plan: Plan) -> set[str]:
    """Return torch and its dependencies: none of them can depend on torch."""
    # Over the metadata of the plan: torch, what it requires, and so on.
    names, below = ["torch"], set[str]()
    while names:
        name = names.pop()
        if name not in below:
            below.add(name)
            planned = plan.find_planned(name)
            names += [needed for text in planned.requires or () if (needed := _needed_package(text))] if planned else []
    return below


def _embedded_build(plan: Plan, torch: Planned) -> str | None:
    """Return the full version of the embedded build of a torch: the package index has one build of each release.

    What that build requires shows whether it is for CUDA; not every installer says it, but all say what comes along.
    """
    version = TorchVersion.parse(torch.version)
    if version is None:
        return None
    required = [name for text in torch.requires or () if (name := _needed_package(text))]
    along = [canonicalize_name(planned.name) for planned in plan.packages]
    # Before 2.0, the default wheel for Linux is the one with CUDA, whatever its metadata say.
    cuda = version < _CUDA_IN_OTHER_WHEELS or any(map(_CUDA_WHEELS.match, required or along))
    return own_platform().find_build(version, cuda=cuda)


def _needed_package(text: str) -> str | None:
    """Return the name of the required package; None for a requirement of an extra."""
    requirement = parse_applying(text)
    return canonicalize_name(requirement.name) if requirement else None


def _names_torch(text: str) -> bool:
    return _needed_package(text) == "torch"
