"""The verdict on a package: whether importing it works, and what is missing then. ``abiscan check`` reports it."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from abiscan.findings import Effect, Finding
from abiscan.python.model import HowLoaded, Skipped, Told
from abiscan.regex import regex
from abiscan.results.document import give_shape
from abiscan.results.model import ModelResult
from abiscan.results.verdict import How, Verdict
from abiscan.words import first_line, listed, plural

_LACKS: Final = regex(r"No module named '(\w+)|cannot import name '[^']*' from '(\w+)")


class PackageVerdict(enum.Enum):
    """The outcome of importing a package."""

    WORKS = "works"
    WORKS_WITHOUT = "works-without"
    """It can be imported, without a library that does not load."""
    CORRUPTS = "corrupts"
    """It can be imported, and what it loads may read or write the wrong memory."""
    IMPORT_FAILS = "import-fails"
    UNKNOWN = "unknown"


@give_shape("how exception message file line cause exact? of_package?")
class ImportFailure(Struct, frozen=True, kw_only=True):
    """What users see when the import fails.

    ``exception`` is None if the process ends instead. ``file`` and ``line`` are where the package raises it; ``cause``
    is what is behind it, such as the words of ``ld.so`` about a library. ``exact`` is false if a part of the text is
    unknown; a ``?`` replaces that part. ``of_package`` is the module of another installed package whose import raises
    it, None if it is the package's own.
    """

    how: How
    exception: str | None
    message: str | None
    file: str | None
    line: int | None
    cause: str | None
    exact: bool = True
    of_package: str | None = None

    @property
    def of_module(self) -> str | None:
        """The top-level module that is not there, or lacks a name; None if the import fails for another reason."""
        match = _LACKS.match(self.message or "") if self.exception in ("ImportError", "ModuleNotFoundError") else None
        return (match[1] or match[2]) if match else None

    def __str__(self) -> str:
        end = self.exception or "the process ends"
        said = f"{end}: {first_line(self.message)}" if self.message else f"{end}, with a text that is not known"
        return f"{said} ({self.file}:{self.line})" if self.file else said


@give_shape("path loaded_at how used verdict error told told_text skipped operators convention")
class UsedLibrary(Struct, frozen=True, kw_only=True):
    """A library of the package: where and how it is loaded, and whether it is on this torch.

    ``path`` is that in the package, ``file`` that of its own result, None if it has none.
    ``used`` is None if that depends on something unknown. ``verdict`` is None for a library that has nothing to do with
    torch and is not loaded by itself. ``error`` is what loading it says here, ``told`` how users learn of it if the
    package goes on without it, ``told_text`` in which words (None if unknown), ``operators`` those that are then
    missing. ``skipped`` says why the import does not get to it; ``how`` is then how the torch that it was built for
    loads it. ``convention`` says why it counts, or does not, if the Python code does not say so but its name does.
    """

    path: str
    loaded_at: str | None
    how: HowLoaded
    used: bool | None
    verdict: Verdict | None
    file: str | None = None
    error: str | None = None
    told: Told | None = None
    told_text: str | None = None
    skipped: Skipped | None = None
    operators: tuple[str, ...] = ()
    convention: str | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the package can be imported without it, but not all of it works then."""
        return self.told is not None or (self.how is HowLoaded.ON_DEMAND and self.verdict is Verdict.FAILS)

    @property
    def use(self) -> str:
        """How the package uses it, in words."""
        match self.skipped:
            case Skipped.GUARD:
                return f"{self.how.value} on the torch that it was built for, skipped on this one"
            case Skipped.IMPORT_STOPS:
                return "the import stops before it"
            case None:
                return self.how.value


class ModuleResult(Struct, frozen=True, kw_only=True):
    """The import of a public submodule with libraries of its own, which importing the package does not reach."""

    module: str
    verdict: PackageVerdict
    error: ImportFailure | None


@give_shape(
    "target name version torch torch_build module verdict error built_for libraries modules missing_operators lacking"
    " not_installed conditions gaps *model needs? other_builds? findings=own_findings",
    gaps=lambda package: (*package.gaps, *([package.unread] if package.unread else [])),
)
class PackageResult(Struct, frozen=True, kw_only=True):
    """The result for one package.

    ``module`` is the name it is imported by, None if it cannot be imported by one; ``built_for`` are the releases that
    the libraries it uses were built for, oldest first, empty if that is unknown or differs; ``lacking`` are
    external libraries that it needs and this machine does not have, ``needs`` those that must be there for the import
    to fail as it is said to: without them it goes another way; ``not_installed`` the packages that it requires
    and that may bring them; ``conditions`` could not be decided ahead; ``gaps`` say what could not be followed.
    ``own_findings`` are about the package as a whole, such as its metadata; ``findings`` has those of the libraries
    that it uses, too. ``other_builds`` are the verdicts on other builds of the same release, where a release number was
    asked for and they differ. ``unread`` says what is not read in files for its system. ``model`` is what else is known
    of a saved model, None for a package.
    """

    target: str
    name: str
    version: str | None
    torch: str | None
    torch_build: str | None
    module: str | None
    verdict: PackageVerdict
    error: ImportFailure | None = None
    built_for: tuple[str, ...] = ()
    libraries: tuple[UsedLibrary, ...] = ()
    modules: tuple[ModuleResult, ...] = ()
    lacking: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    not_installed: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    own_findings: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    other_builds: Mapping[str, PackageVerdict] = field(default_factory=dict)
    unread: str | None = None
    model: ModelResult | None = None

    def __str__(self) -> str:
        return f"{self.subject}: {self.summary}"

    @property
    def fails_for_another(self) -> bool:
        """Whether the import fails because a package other than torch is missing: no torch makes a difference."""
        lacking = self.error.of_module if self.error else None
        # A module of the package's own that is missing is a fault of the package or of this torch.
        own = {library.path.partition("/")[0].partition(".")[0] for library in self.libraries}
        return lacking is not None and lacking not in own | {"torch", (self.module or "").partition(".")[0]}

    @property
    def subject(self) -> str:
        """The package and the torch: ``torchvision 0.20.1 on torch 2.13.0``."""
        name = f"{self.name} {self.version}" if self.version else self.name
        return f"{name} on {f'torch {self.torch_build}' if self.torch_build else 'this torch'}"

    @property
    def elsewhere(self) -> str:
        """The verdicts on other builds of the release, where they differ; empty if none does."""
        words = ((build, verdict.value.replace("-", " ")) for build, verdict in self.other_builds.items())
        return ", ".join(f"{word} on torch {build}" for build, word in words)

    @property
    def without(self) -> tuple[UsedLibrary, ...]:
        """The libraries that the package goes on without."""
        return tuple(library for library in self.libraries if library.is_missing)

    @property
    def missing_operators(self) -> tuple[str, ...]:
        """The operators that are missing without them."""
        return tuple(dict.fromkeys(name for library in self.without for name in library.operators))

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        # A model is judged like a package, with its load in the place of the import.
        if self.model and self.verdict is not PackageVerdict.UNKNOWN:
            return self._of_model(self.model)
        match self.verdict:
            case PackageVerdict.WORKS:
                return f"works{self._provided}" if self.libraries else self._works_apart
            case PackageVerdict.WORKS_WITHOUT:
                return f"works without {_list_names(self.without)}{self._told()}{self._provided}"
            case PackageVerdict.CORRUPTS:
                harmful = (
                    item for item in self.libraries if item.used is not False and item.verdict is Verdict.CORRUPTS
                )
                return f"loads, then corrupts memory: {listed(library.path for library in harmful)}"
            case PackageVerdict.IMPORT_FAILS:
                condition = f" where {listed(self.needs)} can be found" if self.needs else ""
                return f"import fails{condition} - {self.error}"
            case PackageVerdict.UNKNOWN:
                return f"unknown - {self._doubt()}"

    def _of_model(self, model: ModelResult) -> str:
        """Return the verdict on a saved model in one line."""
        if self.error:
            return f"{model.fails_at} fails - {self.error}"
        if self.verdict is PackageVerdict.CORRUPTS:
            return "loads, then corrupts memory"
        packages = dict.fromkeys(operator.brought_by for operator in model.operators if operator.brought_by)
        return (
            f"works, once {listed(packages)} {'is' if len(packages) == 1 else 'are'} imported" if packages else "works"
        )

    @property
    def _works_apart(self) -> str:
        """That it works where no library uses torch, and what these need that is not there."""
        text = "works: none of its libraries uses torch"
        return (
            f"{text}, but some need {listed(self.lacking)}, which this machine does not have" if self.lacking else text
        )

    @property
    def _provided(self) -> str:
        """What has to be installed first."""
        if not self.lacking or not self.not_installed:
            return ""
        return f" if {listed(self.lacking)} can be found (not installed here: {listed(self.not_installed)})"

    def _told(self) -> str:
        """Return how users learn what is missing, and how much that is."""
        ways = Counter(_TOLD[library.told] for library in self.without)
        notice = ", ".join(f"{count} {route}" if len(ways) > 1 else route for route, count in ways.items())
        operators = f", {plural(len(self.missing_operators), 'operator')} missing" if self.missing_operators else ""
        return f" ({notice}{operators})"

    def _doubt(self) -> str:
        # From the reason that explains most to the one that explains least.
        if self.lacking:
            return f"it needs {listed(self.lacking)}, which this machine does not have"
        if unread := [library.path for library in self.libraries if library.verdict is Verdict.UNKNOWN]:
            return f"{listed(unread)} cannot be read"
        doubtful = [library.path for library in self.libraries if library.how is HowLoaded.UNKNOWN]
        if doubtful and not self.gaps:
            return f"nothing says how it loads {listed(doubtful)}"
        conditions = (f"nothing says whether {condition}" for condition in self.conditions)
        return next(iter((*self.gaps, *conditions)), "its Python code could not be followed")

    @property
    def effect(self) -> Effect | None:
        """The effect that the verdict has; None if the package works, or if nobody knows."""
        match self.verdict:
            case PackageVerdict.IMPORT_FAILS:
                aborts = self.error is not None and self.error.how is How.ABORTS
                return Effect.ABORTS if aborts else Effect.LOAD_FAILS
            case PackageVerdict.CORRUPTS:
                return Effect.CORRUPTS
            case PackageVerdict.WORKS_WITHOUT:
                return Effect.CALL_FAILS if self.missing_operators else Effect.NOTE
            case _:
                return None


_TOLD = {
    None: "failing when first used",
    Told.WARNING: "with a warning",
    Told.LOG: "with a line in the log",
    Told.PRINT: "with a printed line",
    Told.NOTHING: "silently",
}


def _list_names(libraries: tuple[UsedLibrary, ...]) -> str:
    return listed((library.path for library in libraries), 2)
