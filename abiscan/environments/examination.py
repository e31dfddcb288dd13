"""What becomes of an environment: one row for each distribution that has to do with torch, by the path of ``check``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec.structs
from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.cache.result_cache import answer
from abiscan.environments.glance import ImportGlance
from abiscan.environments.library_glance import LibraryGlance
from abiscan.environments.model import (
    Unmet,
    WholeEnvironment,
    defers_imports,
    imports_at_once,
    is_gone,
    mentions_import,
    modules_of,
)
from abiscan.environments.package_check import CheckedPackage, Fitness, check_package, is_python_alone
from abiscan.errors import InputError
from abiscan.inputs import branches, interpreter, observed_fs
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.package_files import of_distribution
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.inputs.sources import uses_torch
from abiscan.inputs.system import count_processors
from abiscan.inputs.version import number_of
from abiscan.python.package.installed import Surroundings, installed_in, is_in
from abiscan.python.package.model import PROCESS_ENDS, Answer, Raised
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.results.doctor import DistributionState, ModuleState, Origin
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict
from abiscan.results.verdict import How
from abiscan.torches import embedded_names
from abiscan.torches.torch import EmbeddedTorch, InstalledTorch, Torch, TorchChoice
from abiscan.verdict.hardware import cpu_question
from abiscan.verdict.numpy_abi import find_module_error
from abiscan.verdict.package_reading import is_apart, surroundings_of

if TYPE_CHECKING:
    from abiscan.inputs.files import Files
    from abiscan.verdict.other_imports import OtherImports

_REMOVED: Final = "its libraries were removed meanwhile"
_ROOM: Final = 350 << 20
"""The memory beyond which a large package is read alone: two of them would take twice as much."""


IsSound: TypeAlias = Callable[[str, str | None], bool]


class CheckDistribution(Protocol):
    """Returns the verdict on a distribution, None if it has nothing to do with torch.

    ``errors`` are what the imports of others raise, by their modules; ``is_sound`` tells of modules of others, and of
    names from them, whether the import certainly works.
    """

    def __call__(
        self, distribution: Distribution, *, errors: Mapping[str, Raised], is_sound: IsSound | None
    ) -> CheckedPackage | None:
        """Check it.

        :raises InputError: it cannot be read
        """


_VERDICTS: Final = {
    Fitness.WORKS: PackageVerdict.WORKS,
    Fitness.FAILS: PackageVerdict.IMPORT_FAILS,
    Fitness.UNKNOWN: PackageVerdict.UNKNOWN,
}


class ExaminedDistribution(Struct, frozen=True, kw_only=True):
    """What becomes of one distribution.

    :ivar checked_package: None if it could not be checked, or has nothing that can be
    :ivar problem: why it could not be checked
    :ivar unmet: the requirements that are not met
    :ivar cause: the distribution that it fails for, which fails itself; None if nothing or itself
    :ivar is_settled: whether a look at its code was enough
    :ivar uses_torch: whether it uses torch, and is not only required by others that do
    """

    distribution: Distribution
    checked_package: CheckedPackage | None
    problem: str | None = None
    unmet: tuple[Unmet, ...] = ()
    cause: str | None = None
    is_settled: bool = False
    uses_torch: bool = True

    @property
    def name(self) -> str:
        """The canonical name of its distribution."""
        return canonicalize_name(self.distribution.name)

    @property
    def fitness(self) -> Fitness:
        """Whether it works."""
        return self.checked_package.fitness if self.checked_package else Fitness.UNKNOWN

    @property
    def verdict(self) -> PackageVerdict:
        """The same as a verdict on the package, in its own words where it has one."""
        package = self.checked_package.package if self.checked_package else None
        return package.verdict if package else _VERDICTS[self.fitness]

    @property
    def error(self) -> ImportFailure | None:
        """What its import ends in."""
        package = self.checked_package.package if self.checked_package else None
        return package.error if package else None

    @property
    def raises(self) -> Raised | None:
        """The same, as others see it that import it."""
        error = self.error
        if error is None:
            return None
        return Raised(
            exception=error.exception or PROCESS_ENDS,
            message=error.message,
            at=None,
            of_other=error.of_package,
            exact=error.exact,
        )

    @property
    def fails_for_another(self) -> bool:
        """Whether its import fails in that of another package."""
        return self.error is not None and self.error.of_package is not None

    @property
    def modules(self) -> frozenset[str]:
        """The modules by whose import it fails or works."""
        package = self.checked_package.package if self.checked_package else None
        return frozenset({package.module} if package and package.module else ())

    @property
    def unsure(self) -> frozenset[str]:
        """The other packages, by their top-level modules, of which it imports what does not certainly work."""
        package = self.checked_package.package if self.checked_package else None
        return package.unsure if package else frozenset()

    @property
    def lost(self) -> Mapping[str, str | None]:
        """The submodules that it goes on without, and the texts that they raise."""
        package = self.checked_package.package if self.checked_package else None
        lost = package.lost if package else ()
        return {module.name: module.error.message if module.error else None for module in lost}

    @property
    def missing(self) -> tuple[Unmet, ...]:
        """The requirements that nothing installed goes by the name of."""
        return tuple(item for item in self.unmet if item.there is None)

    def state(
        self, origin: Origin, modules: Iterable[ModuleState], error: str | None, without: tuple[str, ...]
    ) -> DistributionState:
        """Return what a report says of it.

        :param error: why it does not work, or why that is not known
        :param without: what it works without
        """
        return DistributionState(
            name=self.distribution.name,
            version=self.distribution.version,
            origin=origin,
            verdict=self.verdict,
            modules=tuple(modules),
            error=None if self.fitness is Fitness.WORKS else error,
            without=without,
            missing_requirements=tuple(item.name for item in self.missing),
            unmet=tuple(map(str, self.unmet)),
            cause=self.cause,
            uses_torch=self.uses_torch,
        )


def list_modules(package: PackageResult) -> Iterator[ModuleState]:
    """Yield the modules of a distribution, and what importing each of them comes to: first that of its own name."""
    if package.module is not None and package.module not in {module.name for module in package.modules}:
        error = str(package.error) if package.error else None
        yield ModuleState(name=package.module, verdict=package.verdict, error=error)
    for module in package.modules:
        error = str(module.error) if module.error else None
        yield ModuleState(name=module.name, verdict=module.verdict, error=error)


def list_users(environment: WholeEnvironment, files: Files) -> list[Distribution]:
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


def list_required(environment: WholeEnvironment, users: Sequence[Distribution], files: Files) -> list[Distribution]:
    """Return what distributions require, directly or not, and what does not use torch; what only torch requires is a
    part of torch. What was compiled for another numpy belongs to that: it may require another numpy than they do.
    """
    names = set[str]().union(*(all_required(environment, item, beyond_torch=False) for item in users))
    known = {"torch", *(canonicalize_name(item.name) for item in users)}
    rest = (item for item in environment.distributions if canonicalize_name(item.name) not in known)
    return [
        item for item in rest if canonicalize_name(item.name) in names or is_for_another_numpy(environment, item, files)
    ]


def examine_numpy(environment: WholeEnvironment, torch: Torch, session: Session) -> ExaminedDistribution | None:
    """Examine the numpy that ``import torch`` imports; None if a glance shows that it loads.

    ``torch/storage.py`` does without numpy where it is not installed, but not where it is for another Python.
    """
    numpy = environment.find("numpy")
    if numpy is None or session.system is not None:
        return None
    try:
        with turn_of(str(numpy)):
            libraries = LibraryGlance(environment, _surroundings_in(environment, torch), session.files())
            if libraries.settles(numpy):
                return None
    except InputError:
        return None
    return next(iter(examine(environment, [numpy], session, required=[numpy])), None)


def is_for_another_numpy(environment: WholeEnvironment, distribution: Distribution, files: Files) -> bool:
    """Whether a distribution that requires numpy has modules that were compiled for another one."""
    return "numpy" in environment.required_names(distribution) and has_modules_for_another_numpy(
        environment, distribution, files
    )


def has_modules_for_another_numpy(environment: WholeEnvironment, distribution: Distribution, files: Files) -> bool:
    """Whether a distribution has modules that were compiled for another numpy, whatever it requires."""
    numpy = environment.find("numpy")
    if numpy is None:
        return False
    with contextlib.suppress(InputError), turn_of(str(distribution)):
        return any(find_module_error(path, files, (numpy.site,)) for path in distribution.objects)
    return False


def examine(
    environment: WholeEnvironment,
    distributions: Sequence[Distribution],
    session: Session,
    check: CheckDistribution | None = None,
    *,
    users: Sequence[Distribution] | None = None,
    required: Sequence[Distribution] = (),
    planned_torch: TorchChoice | None = None,
) -> list[ExaminedDistribution]:
    """Return what becomes of each distribution in an environment; one that cannot be checked costs no other.

    :param distributions: those of ``list_users`` and ``list_required``, or some of them
    :param check: checks one that is not installed
    :param users: all of ``list_users``, whose code is followed where others import it; by default ``distributions``
    :param required: all of ``list_required``, which need not be examined to know that they work
    :param planned_torch: the torch that ``check`` is for, if it is not installed and only its release is known
    """
    look, without_torch = None, frozenset(required)
    if check is None or planned_torch is not None:
        look = _Look(environment, users or distributions, required, session, planned_torch)
        own = functools.partial(_check_distribution, environment, required=without_torch, session=session, imports={})
        check = check or own
    rows, read = dict[str, ExaminedDistribution](), set[str]()
    # What others require comes first: they fail with it.
    for items in ([item for item in distributions if item in without_torch], distributions):
        waiting = [item for item in items if look is None or not look.may_settle(item)]
        if waiting:
            break
    # A package whose import of another one fails fails, too, even if its own reading could not follow the other one. So
    # the packages that require a failing one are examined again, until no more fail.
    errors: dict[str, Raised] = {}
    while True:
        is_sound = functools.partial(look.is_sound, errors.keys()) if look is not None else None
        find = functools.partial(check, errors=errors, is_sound=is_sound)
        rows |= {row.name: row for row in _check_all(environment, waiting, find, session, first_here=not errors)}
        read |= {canonicalize_name(item.name) for item in waiting}
        failing = [row for row in rows.values() if row.raises is not None and not row.modules & errors.keys()]
        for row in rows.values():
            errors |= dict.fromkeys(row.modules, row.raises) if row.raises else {}
        broken, waiting = {row.name for row in failing}, []
        still_open = [
            item
            for item in distributions
            if (name := canonicalize_name(item.name)) not in {*read, *rows}
            or (broken and (name not in rows or not rows[name].fails_for_another))
        ]
        if look is not None:
            look.note_lost(name for row in rows.values() for name in row.lost)
        all_broken = {name for name, row in rows.items() if row.fitness is Fitness.FAILS}
        for item in still_open:
            name = canonicalize_name(item.name)
            # What requires something that fails may lose a part of itself, which its own import does not come to.
            is_whole = not all_broken or all_broken.isdisjoint({name, *environment.required_names(item)})
            if look is not None and is_whole and look.settles(item, errors):
                # An extra of it may require torch, and none of its code.
                if item in without_torch or mentions_import(item, "torch"):
                    rows[name] = look.make_row(item)
            # What a look has settled before may import what is now known to fail, required or not; what fails itself
            # may import that first.
            elif name not in read or broken & all_required(environment, item):
                waiting.append(item)
        if not waiting:
            in_order = (rows.get(canonicalize_name(item.name)) for item in distributions)
            named = [
                msgspec.structs.replace(row, uses_torch=row.distribution not in without_torch)
                for row in filter(None, in_order)
            ]
            with_causes = list(_with_causes(named, environment))
            return list(_with_doubts(with_causes, environment))


class _Glimpse(Struct, frozen=True):
    """What a look has told of one distribution.

    :ivar failing: the modules that were known to fail
    :ivar seen: the modules that its import comes to if it certainly works; None if it may fail
    """

    failing: frozenset[str]
    seen: frozenset[str] | None

    def holds_for(self, failing: frozenset[str], *, uses_torch: bool) -> bool:
        """Whether a look tells the same where these modules are known to fail: more of them settle nothing."""
        if not failing >= self.failing:
            return False
        # Of what does not use torch, a name that is made when it is asked for is followed only where something fails.
        alike = uses_torch or bool(failing) == bool(self.failing)
        return self.seen is None or (alike and self.seen.isdisjoint(failing))


class _Look:
    """The distributions whose imports a look at their code may settle: see ``glance``.

    :param users: those that use torch
    :param required: those that do not, and may have libraries
    :param planned_torch: the release of torch that will be there: then libraries are not looked at, since they are not
        unpacked
    """

    def __init__(
        self,
        environment: WholeEnvironment,
        users: Sequence[Distribution],
        required: Sequence[Distribution],
        session: Session,
        planned_torch: TorchChoice | None = None,
    ) -> None:
        self._environment, self._required = environment, frozenset(required)
        files = session.files()
        self._torch = (planned_torch or environment.choice).open(files, session)
        # The libraries of another system are not looked at.
        self._looks_at_libraries = is_own = session.system is None and planned_torch is None
        looked_at = [item for item in users if is_python_alone(item) or (is_own and not uses_torch(item, files))]
        looked_at += required if is_own else ()
        self._modules = {item: _modules_for_users(item) for item in looked_at}
        surroundings = _surroundings_in(environment, self._torch)
        names = _names_of(self._torch)
        self._owners = {top: item for item, modules in self._modules.items() for top in modules if item.source is None}
        self._modules_of = {item: frozenset(modules_of(item)) for item in users}
        self._of_users = frozenset[str]().union(*self._modules_of.values())
        self._libraries = LibraryGlance(environment, surroundings, files)
        is_final = surroundings.is_final
        self._glance = ImportGlance(surroundings, names, self._owners, self._libraries) if is_final else None
        self._users = tuple(users)
        self._glimpses: dict[Distribution, _Glimpse] = {}
        self._lost = frozenset[str]()

    def note_lost(self, modules: Iterable[str]) -> None:
        """Note submodules whose import fails, of packages that go on without them. A reading follows such an import."""
        self._lost |= frozenset(modules)

    def _may_fail(self, failing: frozenset[str], module: str) -> bool:
        """Whether a top-level module uses torch, and its import may fail although nobody has found that out yet."""
        return any(not self.settles(item, failing) for item in self._users if module in self._modules_of[item])

    def may_settle(self, distribution: Distribution) -> bool:
        """Whether a distribution has no libraries for torch, and is installed as an installer does, with all that it
        requires.
        """
        return bool(self._modules.get(distribution)) and self._is_whole(distribution)

    def _is_whole(self, distribution: Distribution) -> bool:
        required = map(self._environment.find, all_required(self._environment, distribution))
        return (
            self._glance is not None
            and distribution.source is None
            and not any(map(self._environment.unmet, (distribution, *filter(None, required))))
        )

    @functools.cached_property
    def _others(self) -> Mapping[str, Distribution]:
        """The distributions that nothing which uses torch requires, by their top-level modules: some code imports them
        where they are installed.
        """
        known = {*self._modules, *self._users}
        others = (item for item in self._environment.distributions if self._looks_at_libraries and item not in known)
        return {top: item for item in others if canonicalize_name(item.name) != "torch" for top in modules_of(item)}

    def settles(self, distribution: Distribution, failing: Collection[str]) -> bool:
        """Whether its import certainly works, although these modules cannot be imported."""
        known, glimpse = self._lost.union(failing), self._glimpses.get(distribution)
        if glimpse is None or not glimpse.holds_for(known, uses_torch=distribution not in self._required):
            self._glimpses[distribution] = _Glimpse(known, self._find_seen(distribution, known))
        return self._glimpses[distribution].seen is not None

    def _find_seen(self, distribution: Distribution, failing: frozenset[str]) -> frozenset[str] | None:
        if self._glance is None or not self.may_settle(distribution):
            return None
        try:
            with turn_of(str(distribution)):
                is_user = distribution not in self._required
                seen = self._glance.settle(self._modules[distribution], failing, uses_torch=is_user)
                return seen if seen is not None and self._libraries.settles(distribution) else None
        except InputError:  # examining it says why
            return None

    def is_sound(self, failing: Collection[str], module: str, name: str | None) -> bool:
        """Whether the import of a module of another distribution, or of a name from it, certainly works."""
        top = module.partition(".")[0]
        owner = self._owners.get(top) or self._others.get(top)
        if self._glance is None or owner is None or not self._is_whole(owner):
            return False
        needed = [owner]
        if owner not in self._modules:  # whose requirements are not examined
            needed += filter(None, map(self._environment.find, all_required(self._environment, owner)))
        try:
            if not all(map(self._libraries.settles, needed)):
                return False
            known = self._lost.union(failing)
            if owner not in self._modules_of:  # what no torch changes
                doubtful = known | {"torch", *self._of_users}
                return self._glance.is_sound(module, name, doubtful, uses_torch=False)
            may_fail = functools.partial(self._may_fail, known)
            return self._glance.is_sound(module, name, known, uses_torch=True, may_fail=may_fail)
        except InputError:
            return False

    def make_row(self, distribution: Distribution) -> ExaminedDistribution:
        """Return the row of a distribution that works."""
        package = PackageResult(
            target=str(distribution),
            name=distribution.name,
            version=distribution.version,
            torch=number_of(self._torch.build) if self._torch.build else None,
            torch_build=self._torch.build,
            module=self._modules[distribution][0],
            verdict=PackageVerdict.WORKS,
            is_python=is_python_alone(distribution),
        )
        checked_package = CheckedPackage(results=(), package=package)
        return ExaminedDistribution(distribution=distribution, checked_package=checked_package, is_settled=True)


def _surroundings_in(environment: WholeEnvironment, torch: Torch) -> Surroundings:
    """Return what is alongside each other in an environment; nothing is known of one that has no torch."""
    distribution = environment.find("torch")
    if distribution is None:
        return Surroundings()
    if not isinstance(torch, EmbeddedTorch):
        return surroundings_of(torch, of_distribution(distribution))
    over = (environment.over,) if environment.over else ()
    folders = tuple(map(Path, (*over, *interpreter.search_path(environment.python))))
    python = (torch.python.major, torch.python.minor) if torch.python else Answer.UNKNOWN
    return Surroundings(
        installed=installed_in(folders, python), folders=folders, python=python, is_final=True, is_here=True
    )


def _names_of(torch: Torch) -> TorchNames | None:
    if isinstance(torch, InstalledTorch):
        return torch.python_names(torch.release)
    return embedded_names.names(number_of(torch.build)) if isinstance(torch, EmbeddedTorch) else None


def _modules_for_users(distribution: Distribution) -> tuple[str, ...]:
    """Return the modules that users import a distribution by, the one that goes by its name first."""
    modules = modules_of(distribution)
    names = [name for name in modules if not is_apart(name)] or modules
    own = canonicalize_name(distribution.name).replace("-", "_")
    return tuple(sorted(names, key=lambda name: name != own))


def count_jobs(session: Session) -> int:
    """Return how many processes may work on an environment."""
    return max(session.jobs, count_processors())


def _check_all(
    environment: WholeEnvironment,
    distributions: Sequence[Distribution],
    find: Callable[[Distribution], CheckedPackage | None],
    session: Session,
    *,
    first_here: bool,
) -> Iterator[ExaminedDistribution]:
    # The others begin with what the first one has read, unless something was read before.
    shared = branches.share_in_order(distributions, find, str, count_jobs(session), first_here=first_here, room=_ROOM)
    for number, (distribution, take) in enumerate(shared, 1):
        session.progress(f"checking {distribution} ({number} of {len(distributions)} packages)")
        unmet = environment.unmet(distribution)
        try:
            with turn_of(str(distribution)):
                checked_package = take()
        except InputError as error:  # such as that another pip is at work, and removes it
            observed_fs.look_once()
            problem = error.problem if error.subject == str(distribution) else f"{error.subject}: {error.problem}"
            yield ExaminedDistribution(distribution=distribution, checked_package=None, problem=problem, unmet=unmet)
            continue
        if checked_package is not None:
            yield ExaminedDistribution(distribution=distribution, checked_package=checked_package, unmet=unmet)
        elif not all(map(observed_fs.is_file, distribution.objects)):
            yield ExaminedDistribution(distribution=distribution, checked_package=None, problem=_REMOVED, unmet=unmet)


def _check_distribution(
    environment: WholeEnvironment,
    distribution: Distribution,
    *,
    session: Session,
    required: Collection[Distribution],
    imports: dict[Hashable, dict[Hashable, OtherImports]],
    errors: Mapping[str, Raised],
    is_sound: IsSound | None,
) -> CheckedPackage | None:
    """Return the verdict on a distribution: that of an earlier run, if nothing has changed that it depends on.

    :param imports: what imports raise, by the errors that are known; distributions share what was read for it
    """
    # Everything that the verdict depends on and that is not looked at on the way belongs to the question.
    if is_gone(distribution):
        return _lacking_code(distribution, environment)
    any_package = distribution in required
    own = distribution.name, distribution.version, distribution.site, distribution.objects, distribution.source
    known = sorted((module, str(error)) for module, error in errors.items())
    if tuple(known) not in imports:  # what others raise may now be another error
        imports.clear()
    question = [
        "installed",
        *own,
        environment.python,
        environment.over,
        cpu_question(session.cpus),
        session.system,
        known,
        any_package,
    ]
    find = functools.partial(
        check_package,
        distribution,
        environment.choice,
        session,
        import_errors=errors,
        is_sound=is_sound,
        any_package=any_package,
        imports=imports.setdefault(tuple(known), {}),
    )
    if environment.over is not None:  # a folder that is gone tomorrow
        return find()
    return answer(session.folder, question, find, ())


def _lacking_code(distribution: Distribution, environment: WholeEnvironment) -> CheckedPackage | None:
    """Return the result for a distribution of which only the metadata are there; None if its modules are elsewhere."""
    modules, folders = _modules_for_users(distribution), interpreter.search_path(environment.python)
    absent = [name for name in modules if not any(is_in(Path(folder), name, Answer.UNKNOWN) for folder in folders)]
    if not absent:
        return None
    error = ImportFailure(
        how=How.RAISES,
        exception="ModuleNotFoundError",
        message=f"No module named '{absent[0]}'",
        file=None,
        line=None,
        cause=None,
    )
    package = PackageResult(
        target=str(distribution),
        name=distribution.name,
        version=distribution.version,
        torch=None,
        torch_build=None,
        module=absent[0],
        verdict=PackageVerdict.IMPORT_FAILS,
        error=error,
    )
    return CheckedPackage(results=(), package=package)


def all_required(environment: WholeEnvironment, distribution: Distribution, *, beyond_torch: bool = True) -> set[str]:
    """Return the canonical names of everything installed that a distribution requires, directly or not.

    :param beyond_torch: whether what torch requires belongs to that
    """
    required, waiting = set[str](), [distribution]
    while waiting:
        for requirement in environment.requirements(waiting.pop()):
            name = canonicalize_name(requirement.name)
            there = environment.find(name)
            if name not in required and there is not None:
                required.add(name)
                waiting += [there] if beyond_torch or name != "torch" else []
    return required


def _with_causes(rows: Sequence[ExaminedDistribution], environment: WholeEnvironment) -> Iterator[ExaminedDistribution]:
    """Yield rows, those that fail for another row with its name."""
    failing = {row.name: row for row in rows if row.fitness is Fitness.FAILS}
    lost = {row.name: row.lost.values() for row in rows}
    direct = {name: cause for name, row in failing.items() if (cause := _find_cause(row, failing, lost, environment))}
    for row in rows:
        cause = _find_root(row.name, direct)
        yield msgspec.structs.replace(row, cause=cause) if cause else row


def _find_cause(
    row: ExaminedDistribution,
    failing: Mapping[str, ExaminedDistribution],
    lost: Mapping[str, Collection[str | None]],
    environment: WholeEnvironment,
) -> str | None:
    """Return the row that one fails for: it imports that, or something which raises the same.

    :param lost: what submodules raise that distributions go on without, by their names
    """
    error = row.error
    if error is None:
        return None
    providers = environment.providers(error.of_package) if error.of_package is not None else ()
    named = next((name for item in providers if (name := canonicalize_name(item.name)) in failing), None)
    if named is not None and named != row.name:
        return named
    # It imports a part of scipy that was compiled for another numpy, as matplotlib was: both say so in the same words.
    if error.message and any(error.message in lost.get(canonicalize_name(item.name), ()) for item in providers):
        return None
    # transformers works, and raises a text of its own where a name of it comes from a module that imports torchvision.
    required = all_required(environment, row.distribution)
    said = {error.message} if error.of_package is None else {error.message, error.cause}
    for other, item in failing.items():
        if other == row.name or item.error is None or item.error.message not in said:
            continue
        if other in required or any(mentions_import(source, module) for source in providers for module in item.modules):
            return other
    return None


def _with_doubts(rows: Sequence[ExaminedDistribution], environment: WholeEnvironment) -> Iterator[ExaminedDistribution]:
    """Yield rows; those are unknown that import parts of a package which imports something that fails for some of them,
    and not only what certainly works: transformers imports torchvision for half of its names, when they are asked for.
    """
    # Packages that fail by themselves come first: they are the reason for the others.
    causes_first = sorted(rows, key=lambda row: row.cause is not None)
    failing = [module for row in causes_first if row.fitness is Fitness.FAILS for module in row.modules]
    may_doubt = [row for row in rows if row.fitness is Fitness.WORKS and not row.is_settled and failing]
    deferring = filter(defers_imports, environment.distributions) if may_doubt else ()
    lazy = {module: item for item in deferring for module in modules_of(item) if module not in failing}

    @functools.cache
    def broken_in(module: str) -> str | None:
        return next((name for name in failing if mentions_import(lazy[module], name)), None)

    for row in rows:
        # All code of a package is only searched if another one takes something from it.
        taken = (
            module
            for module in (lazy if row in may_doubt else ())
            if module in row.unsure and imports_at_once(row.distribution, module) and broken_in(module)
        )
        module = next(taken, None)
        if module is None:
            yield row
            continue
        problem = (
            f"it imports parts of {lazy[module].name}, some of which import {broken_in(module)}, whose import fails"
        )
        yield msgspec.structs.replace(row, checked_package=None, problem=problem)


def _find_root(name: str, direct: Mapping[str, str]) -> str | None:
    """Return what a distribution fails for in the end; None if it fails for itself."""
    seen = {name}
    while name in direct and direct[name] not in seen:
        name = direct[name]
        seen.add(name)
    return name if len(seen) > 1 else None
