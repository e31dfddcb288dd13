"""The verdict on a package: whether importing it works, and what is missing then. ``abiscan check`` reports it."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from abiscan.findings import Effect, Finding
from abiscan.python.package.model import Channel, HowLoaded, Skipped
from abiscan.regex import regex
from abiscan.results.document import JsonObject
from abiscan.results.model import ModelResult
from abiscan.results.verdict import How, Verdict, torch_in_words
from abiscan.words import first_line, listed, plural

_LACKS: Final = regex(r"No module named '(\w+)|cannot import name '[^']*' from '(\w+)")


class PackageVerdict(enum.Enum):
    """The outcome of importing a package."""

    WORKS = "works"
    WORKS_WITHOUT = "works-without"
    """It can be imported, without a library that does not load, or a submodule whose import fails."""
    CORRUPTS = "corrupts"
    """It can be imported, and what it loads may read or write the wrong memory."""
    IMPORT_FAILS = "import-fails"
    UNKNOWN = "unknown"


class ImportFailure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What users see when the import fails.

    :ivar exception: the type of the exception; None if the process ends
    :ivar message: its text, without the folders of the machine; None if it is not known
    :ivar file: where the package raises it
    :ivar cause: what is behind it, such as the words of ld.so
    :ivar exact: if false, a ? in the text stands for something unknown
    :ivar of_package: the module of another package whose import raises it
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
        text = f"{end}: {first_line(self.message)}" if self.message else f"{end}, with a text that is not known"
        return f"{text} ({self.file}:{self.line})" if self.file else text


class UsedLibraryJson(JsonObject, frozen=True, kw_only=True, omit_defaults=False):
    """A library of the package: where and how it is loaded, and whether it is on this torch.

    :ivar path: the library, relative to the folder that the package is installed in
    :ivar loaded_at: file and line of the package's Python code
    :ivar used: whether importing the package uses it; None if that depends
    :ivar verdict: None for a library that has nothing to do with torch and is not loaded by itself
    :ivar error: what loading it says, in the package
    :ivar told: how users learn that the package goes on without it; None if it does not
    :ivar told_text: the words that tell them, with ``?`` for the patch release of a Python of which only the minor
        version is known; None if there are none, or unknown ones
    :ivar skipped: why the import does not get to it, where it does on the torch that it was built for: the package
        leaves it out on this torch, or the import fails before
    :ivar operators: the operators that are then missing
    :ivar convention: the naming convention that decides, if the code does not
    """

    path: str
    loaded_at: str | None
    how: HowLoaded
    used: bool | None
    verdict: Verdict | None
    error: str | None = None
    told: Channel | None = None
    told_text: str | None = None
    skipped: Skipped | None = None
    operators: tuple[str, ...] = ()
    convention: str | None = None


class UsedLibrary(UsedLibraryJson, frozen=True, kw_only=True):
    """A library of the package.

    :ivar file: the path of its own result; None if it has none
    :ivar aborts: whether loading it by itself ends the process
    :ivar doubt: why its verdict is unknown
    """

    file: str | None = None
    aborts: bool = False
    doubt: str | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the package can be imported without it, but not all of it works then."""
        return self.told is not None or (self.how is HowLoaded.ON_DEMAND and self.verdict is Verdict.FAILS)

    @property
    def loads_in_package(self) -> bool:
        """Whether it fails by itself, and not in the process of the package, where others are loaded before it."""
        return self.used is True and self.verdict is Verdict.FAILS and not self.is_missing and self.error is None

    @property
    def ends_process(self) -> bool:
        """Whether the process ends once the package loads it, after it was imported."""
        return self.aborts and self.told is None and self.is_missing

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
    """The import of a module that the package installs, or of a public submodule that importing the package does not
    reach: one with libraries of its own, or one whose import fails.

    :ivar name: the name that it is imported by
    """

    name: str
    verdict: PackageVerdict
    error: ImportFailure | None


class ConditionKind(enum.Enum):
    """What has to be there for a package to work, or must not be."""

    LIBRARY = "library"
    REQUIREMENT = "requirement"
    """Another package."""
    BACKEND = "backend"
    """A part of torch that another package brings, such as ``torch.npu``."""
    COMPILER = "compiler"
    NUMPY = "numpy"
    PYTHON = "python"
    """An older Python."""
    GPU = "gpu"
    FILE = "file"
    CONFLICT = "conflict"
    """Another package, which must not be there."""


class VerdictCondition(Struct, frozen=True, kw_only=True):
    """What a verdict depends on.

    :ivar name: of the library, the package or whatever else has to be there
    :ivar why: what needs it, and what is known of where it comes from
    :ivar met: whether it is there; None if that is not known
    """

    kind: ConditionKind
    name: str
    why: str
    met: bool | None = None


class MostLikely(Struct, frozen=True, kw_only=True):
    """The error that most of the ways through an import end in, where it is unknown which of them is taken.

    :ivar message: its text; None if it is not known
    :ivar ways: how many ways end in it
    :ivar of: how many were followed
    """

    exception: str
    message: str | None
    ways: int
    of: int

    def __str__(self) -> str:
        notice = f": {first_line(self.message)}" if self.message else ""
        return f"{self.ways} of {plural(self.of, 'way')}: {self.exception}{notice}"


class PackageResult(Struct, frozen=True, kw_only=True):
    """The result for one package.

    :ivar target: what the user named
    :ivar torch: public version of the torch, None if unknown
    :ivar torch_build: the same with its local version label
    :ivar machine: what its libraries are built for: ``aarch64``, ``Windows on x86_64``; None if it has none, or several
    :ivar apart: what tells it from other builds of its version in the same report; empty if there are none
    :ivar named_system: the system that the user named, None for this one or any
    :ivar module: the name that the package is imported by
    :ivar built_for: the releases of torch that its libraries may have been built for, oldest first; empty if unknown
    :ivar modules: all modules that the target installs, that of the verdict first, and public submodules that importing
        the package does not reach: those with libraries of their own, and those whose import fails
    :ivar lost_modules: of these submodules, those that the package works without
    :ivar lacking: external libraries that this machine does not have
    :ivar not_installed: packages that it requires, that are not installed, and that may bring those libraries
    :ivar conditions: what the verdict depends on, and is not known to be there
    :ivar undecided: conditions in the Python code that could not be decided
    :ivar most_likely: where the verdict is unknown for those, what most ways end in; None if most succeed
    :ivar gaps: what could not be followed in the Python code
    :ivar needs: external libraries that must be there for the import to fail as it is said to: without them it goes
        another way
    :ivar other_builds: the verdicts on other builds of this release, where a release number was asked for and they
        differ
    :ivar own_findings: findings about the package as a whole, such as its metadata
    :ivar findings: these, and those of the libraries that it uses
    :ivar unread: what is not read in files for its system
    :ivar is_python: whether it has no libraries
    :ivar model: what else is known of a saved model
    :ivar unsure: the other packages, by their top-level modules, of which it imports something that does not certainly
        work
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
    lost_modules: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    not_installed: tuple[str, ...] = ()
    conditions: tuple[VerdictCondition, ...] = ()
    undecided: tuple[str, ...] = ()
    most_likely: MostLikely | None = None
    gaps: tuple[str, ...] = ()
    own_findings: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    other_builds: Mapping[str, PackageVerdict] = field(default_factory=dict)
    unread: str | None = None
    is_python: bool = False
    model: ModelResult | None = None
    machine: str | None = None
    named_system: str | None = None
    apart: str = ""
    unsure: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.subject}: {self.summary}"

    @property
    def fails_for_another(self) -> bool:
        """Whether the import fails because a package other than torch is missing: no torch makes a difference."""
        lacking = self.error.of_module if self.error else None
        # A module of the package's own that is missing is a fault of the package or of this torch.
        own = {library.path.partition("/")[0].partition(".")[0] for library in self.libraries}
        own |= {name.partition(".")[0] for name in (self.module or "", *(module.name for module in self.modules))}
        return lacking is not None and lacking not in own | {"torch"}

    @property
    def failing_module(self) -> str:
        """The module whose import fails, if it is not the one that goes by the name of the package; else empty."""
        if self.error is None or self.module is None:
            return ""
        failing = [module.name for module in self.modules if module.error == self.error]
        return failing[0] if failing and self.module not in failing else ""

    @property
    def unmet(self) -> tuple[VerdictCondition, ...]:
        """The conditions that are not met, or not known to be."""
        return tuple(condition for condition in self.conditions if condition.met is not True)

    @property
    def subject(self) -> str:
        """The package and the torch: ``torchvision 0.20.1 on torch 2.13.0``."""
        return f"{self.title} on {self.torch_name}"

    @property
    def title(self) -> str:
        """The package and its version, with what tells this build of it from others in the report."""
        title = f"{self.name} {self.version}" if self.version else self.name
        return f"{title} ({self.apart})" if self.apart else title

    @property
    def torch_name(self) -> str:
        """The torch in words, with the machine and the system where they are not these."""
        return torch_in_words(self.torch_build, self.machine, self.named_system)

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
    def lost(self) -> tuple[ModuleResult, ...]:
        """The public submodules that the package goes on without."""
        return tuple(module for module in self.modules if module.name in self.lost_modules)

    @property
    def missing_operators(self) -> tuple[str, ...]:
        """The operators that are missing without them."""
        return tuple(dict.fromkeys(name for library in self.without for name in library.operators))

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        # A model is checked like a package, with its load in the place of the import.
        if self.model and self.verdict is not PackageVerdict.UNKNOWN:
            return self._of_model(self.model)
        match self.verdict:
            case PackageVerdict.WORKS:
                return f"works{'' if self.libraries else self._apart}{self.condition}"
            case PackageVerdict.WORKS_WITHOUT:
                return f"works without {self._without}{self.condition}"
            case PackageVerdict.CORRUPTS:
                harmful = (
                    item for item in self.libraries if item.used is not False and item.verdict is Verdict.CORRUPTS
                )
                return f"loads, then corrupts memory: {listed(library.path for library in harmful)}"
            case PackageVerdict.IMPORT_FAILS:
                condition = f" where {listed(self.needs)} can be found" if self.needs else ""
                subject = f"import {self.failing_module}" if self.failing_module else "import"
                return f"{subject} fails{condition} - {self.error}"
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
    def _apart(self) -> str:
        """What works where no library uses torch, and what these need that is not there."""
        if self.is_python:
            return ": its Python code imports"
        lacking = f", but some need {listed(self.lacking)}, which this machine does not have" if self.lacking else ""
        return f": none of its libraries uses torch{lacking}"

    @property
    def condition(self) -> str:
        """What the verdict depends on, as the end of its line."""
        if not self.unmet:
            return ""
        unseen = [condition for condition in self.unmet if condition.met is None]
        absent = [condition.name for condition in self.unmet if condition.met is False]
        places = [condition.name for condition in unseen if condition.kind is ConditionKind.LIBRARY]
        files, software = [name for name in places if ".so" in name], [name for name in places if ".so" not in name]
        others = [condition for condition in unseen if condition.kind is not ConditionKind.LIBRARY]
        parts = [
            *([f"if {_are_there(files)}"] if files else []),
            *([f"where {listed(software)} {'is' if len(software) == 1 else 'are'} installed"] if software else []),
            *(f"if {_phrase(condition)}" for condition in others),
            *([f"once {_are_there(absent)}"] if absent else []),
        ]
        return f", {', and '.join(parts)}"

    @property
    def _without(self) -> str:
        """What is missing, and how users learn of it."""
        parts = [f"{_join_names([library.path for library in self.without])}{self._told()}"] if self.without else []
        if self.lost_modules:
            verb = "import fails" if len(self.lost_modules) == 1 else "imports fail"
            parts.append(f"{_join_names(self.lost_modules)}, whose {verb} - {self.lost[0].error}")
        return " and ".join(parts)

    def _told(self) -> str:
        """Return how users learn what is missing, and how much that is."""
        ways = Counter(_ABORTS if library.ends_process else _TOLD[library.told] for library in self.without)
        notice = ", ".join(f"{count} {route}" if len(ways) > 1 else route for route, count in ways.items())
        operators = f", {plural(len(self.missing_operators), 'operator')} missing" if self.missing_operators else ""
        return f" ({notice}{operators})"

    def _doubt(self) -> str:
        # From the reason that explains most to the one that explains least.
        if self.lacking:
            return f"it needs {listed(self.lacking)}, which this machine does not have"
        if unknown := [library for library in self.libraries if library.verdict is Verdict.UNKNOWN]:
            paths = listed([library.path for library in unknown])
            return f"{paths}: {unknown[0].doubt}" if unknown[0].doubt else f"{paths} cannot be read"
        doubtful = [library.path for library in self.libraries if library.how is HowLoaded.UNKNOWN]
        if doubtful and not self.gaps:
            return f"how it loads {listed(doubtful)} is not known"
        if self.most_likely:
            return str(self.most_likely)
        conditions = (f"it depends on whether {condition}" for condition in self.undecided)
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
            case PackageVerdict.WORKS_WITHOUT if any(library.ends_process for library in self.without):
                return Effect.ABORTS
            case PackageVerdict.WORKS_WITHOUT:
                return Effect.CALL_FAILS if self.missing_operators or self.lost_modules else Effect.NOTE
            case _:
                return None


_ABORTS = "ending the process when first used"
_TOLD = {
    None: "failing when first used",
    Channel.WARNING: "with a warning",
    Channel.LOG: "with a line in the log",
    Channel.PRINT: "with a printed line",
    Channel.NOTHING: "silently",
}


def _phrase(condition: VerdictCondition) -> str:
    # Torch itself is there in any case: what is open is when.
    if condition.kind is ConditionKind.REQUIREMENT and condition.name == "torch":
        return "torch is imported first"
    if condition.kind is ConditionKind.FILE:
        return f"it loads only {condition.name}"
    if condition.kind is ConditionKind.CONFLICT:
        return f"{condition.name} is not installed"
    if condition.kind is ConditionKind.PYTHON:
        return f"it runs on {condition.name}"
    return f"{condition.name} is {'installed' if condition.kind is ConditionKind.NUMPY else 'there'}"


def _are_there(names: Sequence[str]) -> str:
    return f"{listed(names, 3)} {'is' if len(names) == 1 else 'are'} there"


def _join_names(names: Sequence[str]) -> str:
    return listed(names, 2)
