"""What becomes of an environment if a plan is carried out: what fails afterwards, and works now."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec.structs
from packaging.utils import canonicalize_name

from abiscan.environments.examination import ExaminedDistribution, IsSound, examine, list_required, list_users
from abiscan.environments.model import WholeEnvironment
from abiscan.environments.package_check import CheckedPackage, Fitness, Problem, check_package, is_python_alone
from abiscan.hooks.plan import Planned
from abiscan.hooks.planned_environment import PlannedEnvironment
from abiscan.inputs.addresses import without_credentials
from abiscan.inputs.packages import Distribution, FetchedWheel
from abiscan.inputs.session import Session
from abiscan.python.package.model import Raised
from abiscan.torches.torch import ReleaseNumber, TorchChoice, TorchOf
from abiscan.words import listed


class PlanComparison:
    """What becomes of an environment, before and after.

    :param choice: the torch that will be there, and its build
    :param wheels: what would be installed and concerns torch
    :param touched: what stays, and may work no longer
    :param requested: canonical names of packages that must work in the end
    """

    def __init__(
        self,
        planned: PlannedEnvironment,
        choice: TorchChoice,
        build: str | None,
        wheels: Mapping[Planned, FetchedWheel],
        touched: Sequence[Distribution],
        requested: Collection[str],
        session: Session,
    ) -> None:
        self._planned = planned
        self._choice = choice
        self._build = build
        self._wheels = {str(canonicalize_name(item.name)): (item, wheel) for item, wheel in wheels.items()}
        self._touched = touched
        self._requested = requested
        self._session = session

    def list_problems(self, notes: list[str], *, has_torch: bool) -> Iterator[Problem]:
        """Yield what fails afterwards: of what stays, only what works now, or is requested.

        :param has_torch: whether there is a torch now
        """
        rows = self._examine_after()
        failing = [row for row in rows if self._is_failing(row)]
        broken_now = self._broken_before(failing) if has_torch else {row.name for row in failing}
        unread = (item for item, _ in self._wheels.values() if self._after.find(item.name) is None)
        notes += [f"{item} is not checked: its metadata cannot be read" for item in unread]
        for row in rows:
            planned, wheel = self._find_wheel(row.name)
            source = wheel or row.distribution
            name = str(planned) if planned else f"the installed {row.distribution.name} {row.distribution.version}"
            other_change = self._reason_other_than_torch(row, is_coming=planned is not None)
            if row.checked_package is None:
                notes.append(f"{name} is not checked: {row.problem}")
            elif row in failing:
                checked_package = self._as_installed(row.checked_package)
                version = row.distribution.version
                problem = Problem(
                    name=row.distribution.name,
                    version=version,
                    source=source,
                    checked_package=checked_package,
                    other_change=other_change,
                    cause=row.cause,
                )
                if planned or row.name in self._requested or row.name not in broken_now:
                    yield problem
                else:
                    cause = other_change or f"torch {self._build}"
                    notes.append(f"{problem} does not work now, and will not work with {cause}: see abiscan doctor")
            elif planned and row.fitness is Fitness.UNKNOWN:
                notes.append(f"{name} could not be checked completely: {row.checked_package.error}")
            elif planned and (missing := self._unmet_requirements(row)):
                notes.append(f"{name} requires {listed(missing)}, which will not be there")

    @property
    def _keeps_torch(self) -> bool:
        return isinstance(self._choice, TorchOf)

    @functools.cached_property
    def _after(self) -> WholeEnvironment:
        """The environment as it would be: with another torch, libraries are read from the wheels."""
        return self._planned.unpack(libraries=self._keeps_torch)

    def _examine_after(self) -> list[ExaminedDistribution]:
        after = self._after
        coming = list(filter(None, map(after.find, self._wheels)))
        if not self._keeps_torch:
            known = self._choice if isinstance(self._choice, ReleaseNumber) else None
            asked = [*coming, *self._touched]
            return examine(after, asked, self._session, self._check_distribution, planned_torch=known)
        return self._examine_within(after, [*coming, *self._touched])

    def _examine_within(
        self, environment: WholeEnvironment, asked: Sequence[Distribution]
    ) -> list[ExaminedDistribution]:
        """Examine some of the distributions of an environment, of which none but those needs to be read."""
        files = self._session.files()
        users = list_users(environment, files)
        required = list_required(environment, users, files)
        # What fails for another numpy may be in neither list: nothing that uses torch need require it.
        required += [item for item in asked if item not in {*users, *required}]
        return examine(environment, asked, self._session, users=users, required=required)

    def _check_distribution(
        self, distribution: Distribution, *, errors: Mapping[str, Raised], is_sound: IsSound | None
    ) -> CheckedPackage | None:
        """Check a distribution with a torch that is not installed yet."""
        _, wheel = self._find_wheel(canonicalize_name(distribution.name))
        if isinstance(self._choice, ReleaseNumber) and (wheel is None or is_python_alone(wheel)):
            # What it imports may do without this torch, and fail for that: transformers says it needs a newer one.
            there = msgspec.structs.replace(self._choice, environment=self._after.choice)
            return check_package(distribution, there, self._session, import_errors=errors, is_sound=is_sound)
        # They are installed together, so one may need libraries of another.
        neighbours = [item for _, item in self._wheels.values() if wheel is not None and item is not wheel]
        return check_package(wheel or distribution, self._choice, self._session, neighbours, import_errors=errors)

    def _find_wheel(self, name: str) -> tuple[Planned, FetchedWheel] | tuple[None, None]:
        return self._wheels.get(name) or (None, None)

    def _is_failing(self, row: ExaminedDistribution) -> bool:
        if row.checked_package is None:
            return False
        # What is requested does not work now: that nothing is known of it then is no reason to install anything.
        doubtful = row.name in self._requested and self._keeps_torch and row.fitness is Fitness.UNKNOWN
        return row.fitness is Fitness.FAILS or doubtful

    def _broken_before(self, failing: Sequence[ExaminedDistribution]) -> set[str]:
        """Return the names of those that stay and do not work now, which no installation is to blame for."""
        asked = [row.distribution for row in failing if row.name not in {*self._wheels, *self._requested}]
        rows = self._examine_within(self._planned.before, asked) if asked else ()
        return {row.name for row in rows if row.fitness is Fitness.FAILS}

    def _unmet_requirements(self, row: ExaminedDistribution) -> list[str]:
        # Which torch there will be is known, and what is built has no version yet.
        known = (item for item in row.unmet if item.name != "torch" and not self._planned.is_built(item.name))
        return [without_credentials(item.requirement) for item in known] if self._keeps_torch else []

    def _reason_other_than_torch(self, row: ExaminedDistribution, *, is_coming: bool) -> str | None:
        """Return what a package fails with, if that is not the torch."""
        if not self._keeps_torch:
            return None
        if is_coming:
            missing = self._unmet_requirements(row) if row.checked_package and not row.checked_package.failing else ()
            return f"what would be installed, without {listed(missing)}" if missing else None
        return listed(map(str, self._planned.changes)) or None if row.name not in self._requested else None

    def _as_installed(self, checked_package: CheckedPackage) -> CheckedPackage:
        """Return a verdict whose error has the paths that files have once they are installed."""
        package = checked_package.package
        if package is None or package.error is None or package.error.message is None:
            return checked_package
        error = msgspec.structs.replace(package.error, message=self._planned.as_installed(package.error.message))
        return msgspec.structs.replace(checked_package, package=msgspec.structs.replace(package, error=error))
