"""The result of ``abiscan doctor``: the state of an environment. Its JSON Schema is ``schema/doctor-v2.json``."""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final

from msgspec import Struct, field
from packaging.utils import canonicalize_name

from abiscan.findings import Effect, Finding
from abiscan.regex import regex
from abiscan.results.changes import PackageChange
from abiscan.results.document import Document, json_text
from abiscan.results.fields import Text
from abiscan.results.package import PackageVerdict
from abiscan.words import listed, plural


class ProblemKind(enum.Enum):
    """The kind of a problem."""

    BROKEN = "broken"
    CPU_TORCH = "cpu-torch"
    SECOND_LIBTORCH = "second-libtorch"
    NO_GPU_CODE = "no-gpu-code"
    STALE_BUILD = "stale-build"
    TORCH_ITSELF = "torch-itself"
    UNKNOWN = "unknown"


MEANINGS: Final = {
    ProblemKind.BROKEN: "A package does not work with this torch.",
    ProblemKind.CPU_TORCH: "A package was built for a torch with a GPU, and this one has none.",
    ProblemKind.SECOND_LIBTORCH: "There is another copy of torch's libraries, which a process may also load.",
    ProblemKind.NO_GPU_CODE: "A package has no code that a GPU of this machine runs.",
    ProblemKind.STALE_BUILD: "Something that torch compiled on the fly was compiled for another torch.",
    ProblemKind.TORCH_ITSELF: "torch itself cannot be imported, or lacks something.",
    ProblemKind.UNKNOWN: "It could not be checked.",
}
"""What each kind is, in a sentence."""


class Ailment(Struct, frozen=True, kw_only=True):
    """One problem.

    :ivar subject: NAME==VERSION, a folder, or a setting
    :ivar effect: None if unknown
    :ivar cause: what lies behind the message, None if unknown: was built for torch 2.5.1
    :ivar message: what the loader says, or what is wrong
    :ivar commands: alternative fixes, the most reliable first
    :ivar stays: why no version of it from an index is proposed, where one may be a stranger's
    :ivar because_of: the distribution that it fails for, and that fails itself
    """

    subject: str
    trouble: ProblemKind
    effect: Effect | None
    cause: str | None = None
    message: Text
    extensions: tuple[str, ...]
    commands: tuple[str, ...]
    stays: str | None = None
    because_of: str | None = None

    @property
    def name(self) -> str:
        """The canonical name of the distribution that it is about."""
        return canonicalize_name(self.subject.partition("==")[0])

    @property
    def severity(self) -> int:
        """The severity of its effect, for sorting; -1 if unknown."""
        return self.effect.severity if self.effect else -1


class ModuleState(Struct, frozen=True, kw_only=True):
    """A module of a distribution, and what importing it comes to.

    :ivar error: what is raised
    :ivar imported: what really became of it with ``--import``; None if it was not tried
    """

    name: str
    verdict: PackageVerdict
    error: Text | None = None
    imported: ImportTrial | None = None

    @property
    def differs(self) -> bool:
        """Whether its import came to something else than was predicted."""
        if self.imported is None or self.imported.works is None or self.verdict is PackageVerdict.UNKNOWN:
            return False
        return self.imported.works is (self.verdict is PackageVerdict.IMPORT_FAILS)


class ImportTrial(Struct, frozen=True, kw_only=True):
    """What really became of an import.

    :ivar works: None if it did not end in time
    :ivar error: what was raised, or the signal that ended the process
    """

    works: bool | None
    error: Text | None = None


class DistributionState(Struct, frozen=True, kw_only=True):
    """An installed distribution that has to do with torch.

    :ivar uses_torch: false for one that only others require that do
    :ivar verdict: works, works-without, corrupts, import-fails, unknown
    :ivar error: what users see when they import it, or why nothing is known; None if it works
    :ivar without: what it works without, and why
    :ivar missing_requirements: what it requires that is not installed
    :ivar unmet: these, and those that are there in another version, in the words of pip check
    :ivar cause: the distribution that it fails for, and that fails itself
    """

    name: str
    version: str
    origin: Origin
    verdict: PackageVerdict
    modules: tuple[ModuleState, ...]
    error: Text | None = None
    without: tuple[str, ...] = ()
    missing_requirements: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    cause: str | None = None
    uses_torch: bool = True

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def failing_modules(self) -> tuple[str, ...]:
        """The modules whose import fails with its error, if that of another one works or fails with another error."""
        failing = tuple(module.name for module in self._failing if self.error is None or self._fails_alike(module))
        return failing if any(module.name not in failing for module in self._tried) else ()

    @property
    def lacking(self) -> tuple[str, ...]:
        """What it works without: ``without``, and modules whose import fails although its own works; of what fails
        itself, the modules that fail with another error.
        """
        if self.error is not None:
            others = (module for module in self._failing if not self._fails_alike(module))
            return (*self.without, *(f"fails also for {module.name}: {module.error}" for module in others))
        errors = {module.name: module.error for module in self.modules}
        failing = self.failing_modules
        if self.verdict is PackageVerdict.WORKS_WITHOUT:  # ``without`` has the submodules that are lost
            failing = tuple(name for name in failing if "." not in name)
        reason = f": {errors[failing[0]]}" if failing and errors[failing[0]] else ""
        return (*self.without, *((f"works but for {listed(failing)}{reason}",) if failing else ()))

    @property
    def _failing(self) -> tuple[ModuleState, ...]:
        return tuple(module for module in self.modules if module.verdict is PackageVerdict.IMPORT_FAILS)

    @property
    def _tried(self) -> tuple[ModuleState, ...]:
        """The modules that work or fail."""
        return tuple(
            module for module in self.modules if module.verdict in {PackageVerdict.WORKS, PackageVerdict.IMPORT_FAILS}
        )

    def _fails_alike(self, module: ModuleState) -> bool:
        """Whether a module fails with the error of the distribution, wherever its code raises it."""
        return module.error is None or _without_place(module.error) == _without_place(self.error or "")


def _without_place(error: str) -> str:
    """Return an error without the file and the line that stand behind it in parentheses."""
    return _PLACE.sub("", error)


_PLACE: Final = regex(r" \([^()]+:\d+\)\Z")


class Origin(enum.Enum):
    """Where a distribution came from."""

    INDEX = "index"
    DIRECT = "direct"
    """A path or an address."""

    EDITABLE = "editable"
    CONDA = "conda"
    UNKNOWN = "unknown"


class EnvironmentState(Struct, frozen=True, kw_only=True):
    """A Python environment.

    :ivar python: its full version
    :ivar executable: None for a Python that only its version is known of
    :ivar root: its folder, None if it is not a virtual environment or one of conda
    :ivar others: how many distributions were not examined, since they do not use torch and nothing that does requires
        them
    """

    python: str | None
    executable: str | None
    root: str | None
    others: int = 0

    def describe_others(self) -> str | None:
        """Return a sentence about what was not examined; None if there is nothing."""
        verb = "does not use torch and was" if self.others == 1 else "do not use torch and were"
        return f"{plural(self.others, 'other distribution')} {verb} not examined" if self.others else None


class TorchHealth(Struct, frozen=True, kw_only=True):
    """The torch of an environment.

    :ivar version: with its local version label
    :ivar imports: whether ``import torch`` works; None if unknown
    :ivar error: what it raises
    :ivar unmet: its requirements that are not met, in the words of pip check
    """

    version: str | None
    imports: bool | None
    error: Text | None = None
    unmet: tuple[str, ...] = ()


class Counts(Struct, frozen=True, kw_only=True):
    """How many distributions have to do with torch, and what becomes of them.

    :ivar without_part: those that work without something
    :ivar required: those that do not use torch, and are required by others that do
    """

    looked_at: int
    work: int
    fail: int
    without_part: int
    unknown: int
    required: int = 0

    def __str__(self) -> str:
        if not self.looked_at:
            return "no distribution uses torch"
        verbs = (
            (self.work, "works", "work"),
            (self.fail, "fails", "fail"),
            (self.without_part, "without a part", "without a part"),
            (self.unknown, "unknown", "unknown"),
        )
        parts = [f"{count} {one if count == 1 else many}" for count, one, many in verbs if count]
        users = self.looked_at - self.required
        what = f"{plural(users, 'distribution')} {'uses' if users == 1 else 'use'} torch"
        if self.required:
            what = f"{what} and {'requires' if users == 1 else 'require'} {plural(self.required, 'other')}"
        return f"{what}: {', '.join(parts)}"


class Remedy(Struct, frozen=True, kw_only=True):
    """A command after which something works that does not.

    :ivar remedies: the names of the distributions that work then
    :ivar advice: what it installs, and why, if that is known
    :ivar bytes: what would be fetched, None if unknown
    :ivar examined: whether the environment was examined as it is after it
    """

    remedies: tuple[str, ...] = field(name="for")
    command: str
    advice: str | None = None
    changes: tuple[PackageChange, ...] = ()
    bytes: int | None = None
    examined: bool = True


class DiagnosisJson(Struct, frozen=True, kw_only=True):
    """The state of an environment.

    :ivar chosen: the environment, and why it was chosen
    :ivar torch: its torch
    :ivar distributions: those that have to do with torch
    :ivar process: what concerns every process of the environment
    :ivar way_out: what to type, a command for each cause; the smallest change first
    :ivar ailments: what is wrong, the worst first
    :ivar unreachable: the index that cannot be read, and why, if that is why no way out was looked for
    """

    chosen: str
    environment: EnvironmentState
    torch: TorchHealth
    distributions: tuple[DistributionState, ...]
    process: tuple[Finding, ...]
    counts: Counts
    way_out: tuple[Remedy, ...]
    ailments: tuple[Ailment, ...]
    unreachable: str | None


class DiagnosisJson1(Struct, frozen=True, kw_only=True):
    """The state of an environment, as version 1 had it.

    :ivar environment: its folder or interpreter, and why it was chosen
    :ivar torch: version of the torch with its local version label, None if unknown
    :ivar python: path of its interpreter
    :ivar ailments: worst first
    :ivar solution: the command after which the packages work together, None if none was found or needed
    :ivar advice: what that command installs, and why, if it is known: install torchaudio==2.11.0: the newest that works
        with the torch 2.13.0 you have
    :ivar changes: what that command changes, package by package
    :ivar unreachable: the index that cannot be read, and why, if that is why no solution was looked for
    :ivar healthy: the packages without a problem
    :ivar incomplete: what some of these work without, and why: torchopt==0.7.2 works without torchopt/_C.so (silently):
        …
    """

    environment: str
    torch: str | None
    python: str | None
    ailments: tuple[Ailment, ...]
    solution: str | None = None
    advice: str | None = None
    changes: tuple[PackageChange, ...] = ()
    unreachable: str | None = None
    healthy: tuple[str, ...]
    incomplete: tuple[str, ...] = ()


class Diagnosis(Document, frozen=True, kw_only=True):
    """The state of an environment.

    :ivar chosen: its folder or interpreter, and why it was chosen
    :ivar ailments: worst first
    :ivar unreachable: the index that cannot be read, and why, if that is why no way out was looked for
    :ivar process: what concerns every process of the environment
    """

    chosen: str
    environment: EnvironmentState
    torch: TorchHealth
    distributions: tuple[DistributionState, ...] = ()
    process: tuple[Finding, ...] = ()
    ailments: tuple[Ailment, ...] = ()
    way_out: tuple[Remedy, ...] = ()
    unreachable: str | None = None

    def _contents(self) -> DiagnosisJson:
        return DiagnosisJson(**{name: getattr(self, name) for name in DiagnosisJson.__struct_fields__})

    def to_json(self) -> str:
        """Return the JSON document, version 2, as a text that ends in a newline."""
        return json_text(self._contents(), indent=1, version=2)

    def to_json1(self) -> str:
        """Return the JSON document as version 1 had it, for one more release."""
        first = self.way_out[0] if self.way_out else None
        document = DiagnosisJson1(
            environment=self.chosen,
            torch=self.torch.version,
            python=self.environment.executable,
            ailments=self.ailments,
            solution=first.command if first else None,
            advice=first.advice if first else None,
            changes=first.changes if first else (),
            unreachable=self.unreachable,
            healthy=self.healthy,
            incomplete=tuple(f"{item} {lost}" for item in self.distributions for lost in item.without),
        )
        return json_text(document, indent=1)

    @property
    def healthy(self) -> tuple[str, ...]:
        """The distributions without a problem."""
        subjects = {ailment.subject for ailment in self.ailments}
        return tuple(str(item) for item in self.distributions if item.verdict in _FINE and str(item) not in subjects)

    @property
    def counts(self) -> Counts:
        """How many distributions were looked at, and what becomes of them."""
        verdicts = Counter(item.verdict for item in self.distributions)
        return Counts(
            looked_at=len(self.distributions),
            work=verdicts[PackageVerdict.WORKS],
            fail=verdicts[PackageVerdict.IMPORT_FAILS] + verdicts[PackageVerdict.CORRUPTS],
            without_part=verdicts[PackageVerdict.WORKS_WITHOUT],
            unknown=verdicts[PackageVerdict.UNKNOWN],
            required=sum(not item.uses_torch for item in self.distributions),
        )

    @property
    def exit_code(self) -> int:
        """0: no problems; 1: a problem; 3: something could not be checked, but no problem was found."""
        # Only what could not be checked has no effect.
        modules = [module for item in self.distributions for module in item.modules]
        failed = any(module.imported is not None and module.imported.works is False for module in modules)
        harmful = any(finding.effect is not Effect.NOTE for finding in self.process)
        if failed or harmful or self.torch.imports is False or any(ailment.effect for ailment in self.ailments):
            return 1
        return 3 if self.ailments else 0


_FINE: Final = (PackageVerdict.WORKS, PackageVerdict.WORKS_WITHOUT)
