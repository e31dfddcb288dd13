"""Before an install: what will be installed, and whether it will work together.

An installer reports what it would do (``Plan``). From that follows which torch will be installed, and every wheel with
compiled extensions is checked against it before anything is installed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.environments.examination import list_users
from abiscan.environments.judgement import Fitness, Judgement, Problem, judge_package, may_fail
from abiscan.environments.model import WholeEnvironment, wheel_uses_torch
from abiscan.errors import InputError
from abiscan.hooks.neighbours import Neighbourhood, requirements_in
from abiscan.hooks.pins import Pins
from abiscan.hooks.plan import Plan, Planned
from abiscan.inputs import interpreter, packages
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.packages import Distribution, FetchedWheel
from abiscan.inputs.requirement import parse_applying
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source, name_of
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex
from abiscan.torches.platforms import own_platform
from abiscan.torches.torch import ReleaseNumber, TorchAt, TorchChoice, TorchOf

_OF_CUDA: Final = regex(r"(nvidia|cuda)-")
# The metadata say what torch requires; some installers do not show them, and these packages have gigabytes.
_OF_TORCH: Final = regex(r"(nvidia|cuda)-|(pytorch-)?triton$")
# From this version on, the default CUDA wheels require CUDA from other wheels, which identifies them.
_CUDA_BESIDE: Final = TorchVersion("2.0")


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
    ``files`` are the wheels that were looked at, by the packages of the plan.
    """

    torch: str | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    files: Mapping[Planned, Path] = {}


class Inspector:
    """Checks plans for one environment. What it downloads and checks once, it remembers.

    :param folder: where wheels are downloaded to
    :param options: where packages come from, as pip spells it
    """

    def __init__(self, folder: Path, options: Sequence[str], session: Session) -> None:
        self._folder = folder
        self._options = options
        self._session = session
        self._wheels: dict[tuple[str, str | None], FetchedWheel | InputError] = {}
        self._judgements: dict[object, Judgement | InputError | None] = {}
        self._installed: dict[str | None, tuple[Distribution, ...]] = {}
        self.downloaded = 0
        """The bytes that were downloaded so far."""

    def inspect_plan(self, plan: Plan, requested: Collection[str] = ()) -> Inspection:
        """Check a plan.

        Packages that stay installed count if they work now, and torch changes. If they do not work now, that is not the
        fault of the plan, except for those that are ``requested``.

        :param requested: canonical names of packages that must work in the end
        :raises InputError: the torch of the plan cannot be read
        """
        notes = [
            f"{planned} is not checked: it will be built from source" for planned in plan.packages if not planned.wheel
        ]
        suspects = _list_suspects(plan)
        torch = plan.find_planned("torch")
        if torch is None and ("torch" in plan.removed or not _has_torch(plan.python)):
            return _without_torch(suspects, notes)
        # What the name of a wheel says of its contents is only a name, so all of them are downloaded. The installer
        # finds them in the cache of pip afterwards, or would have to download them anyway.
        wheels = self._download_wheels(plan, suspects, notes)
        files = {planned: wheel.path for planned, wheel in wheels.items()}
        wheels = {planned: wheel for planned, wheel in wheels.items() if _may_concern_torch(planned, wheel, notes)}
        around = Neighbourhood(plan, files, Path(tempfile.mkdtemp(dir=self._folder)), self._session)
        if not wheels and torch is None and not requested and not around.is_touched:
            return Inspection(torch=None, problems=(), notes=tuple(notes), files=files)
        choice = self._find_torch(plan, torch)
        if choice is None:
            return _without_torch(suspects, notes)
        if torch is not None and isinstance(choice, TorchAt):
            files[torch] = choice.path
        build = choice.open(self._session.files(), self._session).build
        problems = [
            *self._of_wheels(wheels, choice, notes),
            *self._of_installed(plan, choice, build, requested, around, notes),
        ]
        if isinstance(choice, TorchOf):  # of another torch, it is not known what would be found with it
            broken = {canonicalize_name(problem.name) for problem in problems}
            others = (*around.find_lacking(notes), *around.find_broken(notes))
            problems += [problem for problem in others if canonicalize_name(problem.name) not in broken]
            problems += self._of_requested(wheels, requested, around, notes) if not problems else ()
        return Inspection(torch=build, problems=tuple(problems), notes=tuple(notes), files=files)

    def list_installed(self, python: str | None) -> tuple[Distribution, ...]:
        """Return the installed packages with extensions of torch, and those of Python code that requires it."""
        if python not in self._installed:
            users = list_users(WholeEnvironment.installed(python), self._session.files())
            self._installed[python] = tuple(users)
        return self._installed[python]

    def _find_torch(self, plan: Plan, planned: Planned | None) -> TorchChoice | None:
        """Return the torch that will be installed afterwards."""
        if planned is None:
            return None if "torch" in plan.removed else self.torch_now(plan)
        if build := _embedded_build(plan, planned):
            return ReleaseNumber(build)
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
                notes.append(f"{planned} is not checked: {wheel.problem}")
            else:
                wheels[planned] = wheel
        return wheels

    def _fetch_wheels(self, plan: Plan, wanted: Sequence[Planned]) -> None:
        """See to it that the files of packages are there, or why they cannot be had."""
        # Errors are remembered, too: a solution is searched in several rounds, each of which would try again.
        lacking = [planned for planned in wanted if _key_of(planned) not in self._wheels]
        for planned in lacking:
            if planned.url is not None and planned.url.startswith("file:"):
                self._wheels[_key_of(planned)] = FetchedWheel(path=Path(packages.path_of_url(planned.url)))
        remote = [planned for planned in lacking if _key_of(planned) not in self._wheels]
        if not remote:
            return
        what = str(remote[0]) if len(remote) == 1 else f"{len(remote)} wheels"
        self._session.progress(f"downloading {what}")
        folder = Path(tempfile.mkdtemp(dir=self._folder))  # two indexes may have files of one name
        try:
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

    def _judge_source(
        self, source: Source, choice: TorchChoice, beside: Sequence[FetchedWheel] = ()
    ) -> Judgement | None:
        """Return the verdict on a package, None if it has no extension of torch, unless it is code that fails.

        :raises InputError: it cannot be read
        """
        key = (str(source), choice, *(wheel.path for wheel in beside))
        if key not in self._judgements:
            try:
                with turn_of(name_of(source)):
                    may = may_fail(source, choice, self._session)
                    self._judgements[key] = judge_package(source, choice, self._session, beside) if may else None
            except InputError as error:
                self._judgements[key] = error
        judgement = self._judgements[key]
        if isinstance(judgement, InputError):
            raise judgement
        return judgement

    def _of_wheels(
        self, wheels: Mapping[Planned, FetchedWheel], choice: TorchChoice, notes: list[str]
    ) -> Iterator[Problem]:
        for planned, wheel in wheels.items():
            self._session.progress(f"checking {planned}")
            # They are installed together, so one may need libraries of another.
            beside = [item for item in wheels.values() if item is not wheel]
            try:
                judgement = self._judge_source(wheel, choice, beside)
            except InputError as error:
                notes.append(f"{planned} is not checked: {error.problem}")
                continue
            if judgement is not None and judgement.fitness is Fitness.FAILS:
                yield Problem(name=planned.name, version=planned.version, source=wheel, judgement=judgement)
            elif judgement is not None and judgement.fitness is Fitness.UNKNOWN:
                notes.append(f"{planned} could not be checked completely: {judgement.error}")

    def _of_requested(
        self,
        wheels: Mapping[Planned, FetchedWheel],
        requested: Collection[str],
        around: Neighbourhood,
        notes: list[str],
    ) -> Iterator[Problem]:
        """Yield what is to be mended, would be replaced, and cannot be imported with what is there."""
        for planned, wheel in wheels.items():
            name = canonicalize_name(planned.name)
            judgement = around.judge_requested(name, notes) if name in requested else None
            # It fails now: that nothing is known of it then is no reason to install it.
            if judgement is not None and judgement.fitness is not Fitness.WORKS:
                yield Problem(name=planned.name, version=planned.version, source=wheel, judgement=judgement)

    def _of_installed(
        self,
        plan: Plan,
        choice: TorchChoice,
        build: str | None,
        requested: Collection[str],
        around: Neighbourhood,
        notes: list[str],
    ) -> Iterator[Problem]:
        """Yield packages that stay installed, but would run with a different torch; and those that are to be mended."""
        # If torch stays, so does what works with it.
        changes = plan.find_planned("torch") is not None
        for distribution in self.list_installed(plan.python) if changes or requested else ():
            name = canonicalize_name(distribution.name)
            if plan.find_planned(name) is not None or not (changes or name in requested):
                continue
            self._session.progress(f"checking {distribution}")
            # What is to be mended is looked at as it will be, with everything of the plan installed.
            mended = name in requested and not changes
            try:
                judgement = around.judge_requested(name, notes) if mended else self._judge_source(distribution, choice)
            except InputError as error:
                notes.append(f"the installed {distribution} is not checked: {error.problem}")
                continue
            doubtful = mended and judgement is not None and judgement.fitness is Fitness.UNKNOWN
            if judgement is None or (judgement.fitness is not Fitness.FAILS and not doubtful):
                continue
            problem = Problem(
                name=distribution.name, version=distribution.version, source=distribution, judgement=judgement
            )
            # An installation is to blame only for what it breaks.
            if name in requested or self._works_now(plan, distribution):
                yield problem
            else:
                notes.append(f"{problem} does not work now, and will not work with torch {build}: see abiscan doctor")

    def _works_now(self, plan: Plan, distribution: Distribution) -> bool:
        now = self.torch_now(plan)
        if now is None:
            return False
        try:
            judgement = self._judge_source(distribution, now)
        except InputError:  # nothing says that it was broken before
            return True
        return judgement is None or judgement.fitness is not Fitness.FAILS


def _key_of(planned: Planned) -> tuple[str, str | None]:
    return str(planned), planned.url


def _requirement_of(planned: Planned) -> str:
    return f"{planned.name}=={planned.version}" if planned.url is None else f"{planned.name} @ {planned.url}"


def _misnamed(planned: Planned) -> InputError:
    return InputError(str(planned), "the file that pip downloads has the name of another package")


def _without_torch(suspects: Iterable[Planned], notes: list[str]) -> Inspection:
    without = [planned for planned in suspects if any(map(_names_torch, planned.requires))]
    notes += [f"{planned} is not checked: torch will not be installed" for planned in without]
    return Inspection(torch=None, problems=(), notes=tuple(notes))


def _has_torch(python: str | None) -> bool:
    """Whether an interpreter finds a torch, readable or not.

    :raises InputError: it cannot be run
    """
    package = interpreter.installed_torch() if python is None else interpreter.ask_interpreter(python)[1]
    return package is not None


def _list_suspects(plan: Plan) -> list[Planned]:
    """Return the wheels that may depend on the build of torch: all but torch itself and its dependencies."""
    below = _below_torch(plan)
    return [
        planned
        for planned in plan.packages
        if planned.wheel
        and (name := canonicalize_name(planned.name)) not in below
        and (not _OF_TORCH.match(name) or any(map(_names_torch, planned.requires)))
    ]


def _may_concern_torch(planned: Planned, wheel: FetchedWheel, notes: list[str]) -> bool:
    """Whether a wheel uses torch, or requires it; not if it cannot be read, which is noted."""
    try:
        with turn_of(str(planned)):
            # uv does not say what a package requires.
            return any(map(_names_torch, planned.requires or requirements_in(wheel))) or wheel_uses_torch(wheel)
    except InputError as error:
        notes.append(f"{planned} is not checked: {error.problem}")
        return False


def _below_torch(plan: Plan) -> set[str]:
    """Return torch and its dependencies: none of them can depend on torch."""
    # Over the metadata of the plan: torch, what it requires, and so on.
    names, below = ["torch"], set[str]()
    while names:
        name = names.pop()
        if name not in below:
            below.add(name)
            planned = plan.find_planned(name)
            names += [needed for text in planned.requires if (needed := _needed_package(text))] if planned else []
    return below


def _embedded_build(plan: Plan, torch: Planned) -> str | None:
    """Return the full version of the embedded build of a torch: the package index has one build of each release.

    What that build requires shows whether it is for CUDA; not every installer says it, but all say what comes along.
    """
    version = TorchVersion.parse(torch.version)
    if version is None:
        return None
    required = [name for text in torch.requires if (name := _needed_package(text))]
    along = [canonicalize_name(planned.name) for planned in plan.packages]
    # Before 2.0, the default wheel for Linux is the one with CUDA, whatever its metadata say.
    cuda = version < _CUDA_BESIDE or any(map(_OF_CUDA.match, required or along))
    return own_platform().find_build(version, cuda=cuda)


def _needed_package(text: str) -> str | None:
    """Return the name of the required package; None for a requirement of an extra."""
    requirement = parse_applying(text)
    return canonicalize_name(requirement.name) if requirement else None


def _names_torch(text: str) -> bool:
    return _needed_package(text) == "torch"
