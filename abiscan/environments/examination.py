"""What becomes of an environment: one row for each distribution that has to do with torch, by the path of ``check``."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.cache.result_cache import answer
from abiscan.environments.judgement import Fitness, Judgement, judge_package
from abiscan.environments.model import Environment, Unmet
from abiscan.errors import InputError
from abiscan.inputs import branches, observed_fs
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.inputs.system import count_processors
from abiscan.results.package import PackageVerdict
from abiscan.verdict.hardware import cpu_question

if TYPE_CHECKING:
    from abiscan.inputs.files import Files

_REMOVED: Final = "its libraries were removed meanwhile"


class Row(Struct, frozen=True, kw_only=True):
    """What becomes of one distribution.

    :ivar judgement: None if it could not be checked, or has nothing that can be
    :ivar problem: why it could not be checked
    :ivar unmet: the requirements that are not met
    :ivar cause: the distribution that it fails for, which fails itself; None if nothing or itself
    """

    distribution: Distribution
    judgement: Judgement | None
    problem: str | None = None
    unmet: tuple[Unmet, ...] = ()
    cause: str | None = None

    @property
    def name(self) -> str:
        """The canonical name of its distribution."""
        return canonicalize_name(self.distribution.name)

    @property
    def fitness(self) -> Fitness:
        """Whether it works."""
        return self.judgement.fitness if self.judgement else Fitness.UNKNOWN

    @property
    def works_in_part(self) -> bool:
        """Whether it works, without something that it has."""
        package = self.judgement.package if self.judgement else None
        return package is not None and package.verdict is PackageVerdict.WORKS_WITHOUT

    @property
    def missing(self) -> tuple[Unmet, ...]:
        """The requirements that nothing installed goes by the name of."""
        return tuple(item for item in self.unmet if item.there is None)


def list_users(environment: Environment, files: Files) -> list[Distribution]:
    """Return the distributions that have to do with torch, torch itself left out."""
    users = []
    for distribution in environment.distributions:
        if canonicalize_name(distribution.name) == "torch":
            continue
        try:
            with turn_of(str(distribution)):
                uses = environment.uses_torch(distribution, files)
        except InputError:  # examining it says why
            uses = True
        users += [distribution] if uses else []
    return users


def examine(environment: Environment, distributions: Sequence[Distribution], session: Session) -> Iterator[Row]:
    """Yield what becomes of each distribution in an environment; one that cannot be checked costs no other.

    :param distributions: those of ``list_users``, or some of them
    """
    jobs = max(session.jobs, count_processors())
    judge = functools.partial(_judge, environment, session=session)
    rows = []
    for number, (distribution, take) in enumerate(
        branches.share_in_order(distributions, judge, str, jobs, first_here=True), 1
    ):
        session.progress(f"checking {distribution} ({number} of {len(distributions)} packages)")
        unmet = environment.unmet(distribution)
        try:
            with turn_of(str(distribution)):
                judgement = take()
        except InputError as error:  # such as that another pip is at work, and removes it
            observed_fs.look_once()
            problem = error.problem if error.subject == str(distribution) else f"{error.subject}: {error.problem}"
            rows.append(Row(distribution=distribution, judgement=None, problem=problem, unmet=unmet))
            continue
        if judgement is not None:
            rows.append(Row(distribution=distribution, judgement=judgement, unmet=unmet))
        elif not all(map(observed_fs.is_file, distribution.objects)):
            rows.append(Row(distribution=distribution, judgement=None, problem=_REMOVED, unmet=unmet))
    yield from _with_causes(rows, environment)


def _judge(environment: Environment, distribution: Distribution, *, session: Session) -> Judgement | None:
    """Return the verdict on a distribution: that of an earlier run, if nothing has changed that it depends on."""
    # Everything that the verdict depends on and that is not looked at on the way belongs to the question.
    own = distribution.name, distribution.version, distribution.site, distribution.objects, distribution.source
    question = ["installed", *own, environment.python, environment.over, cpu_question(session.cpus)]
    find = functools.partial(judge_package, distribution, environment.choice, session)
    return answer(session.folder, question, find, ())


def _with_causes(rows: Sequence[Row], environment: Environment) -> Iterator[Row]:
    """Yield rows, those that fail for another row with its name."""
    failing = {row.name for row in rows if row.fitness is Fitness.FAILS}
    providers: dict[str, Collection[str]] = {}
    direct: dict[str, str] = {}
    for row in rows:
        package = row.judgement.package if row.judgement else None
        error = package.error if package else None
        module = error.of_package if error else None
        if module is None:
            continue
        if module not in providers:
            providers[module] = [canonicalize_name(item.name) for item in environment.providers(module)]
        cause = next((name for name in providers[module] if name in failing and name != row.name), None)
        if cause is not None:
            direct[row.name] = cause
    for row in rows:
        yield _replace_cause(row, _find_root(row.name, direct))


def _find_root(name: str, direct: Mapping[str, str]) -> str | None:
    """Return what a distribution fails for in the end; None if it fails for itself."""
    seen = {name}
    while name in direct and direct[name] not in seen:
        name = direct[name]
        seen.add(name)
    return name if len(seen) > 1 else None


def _replace_cause(row: Row, cause: str | None) -> Row:
    from msgspec.structs import replace

    return replace(row, cause=cause) if cause else row
