"""The result of ``abiscan coverage``: what a backend cannot run. Its JSON Schema is ``schema/coverage-v1.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import field

from abiscan.dispatch.coverage import Coverage
from abiscan.dispatch.table import EntrySource
from abiscan.findings import Effect
from abiscan.gpu.devices import Gpu
from abiscan.inputs.version import TorchVersion
from abiscan.results.check_document import GapJson
from abiscan.results.document import Document, JsonObject
from abiscan.results.fields import Count, Several


class MissingKernelJson(JsonObject, frozen=True, kw_only=True):
    """An operator that raises."""

    operator: str
    message: str
    exact: bool
    essential: bool
    core: bool
    general: bool
    reached_from: Sequence[str]


class BackendReportJson(JsonObject, frozen=True, kw_only=True):
    """The document of ``abiscan coverage``."""

    target: str
    paths: Sequence[str]
    torch: str | None
    built_for: Sequence[TorchVersion]
    load_error: str | None
    backend: str
    backend_name: str | None
    kernels: Count
    fallback: bool
    workload: str | None
    served: Mapping[EntrySource, Several]
    missing: Sequence[MissingKernelJson]
    ambiguous: Sequence[str]
    unknown: Sequence[str]
    without_code: Mapping[str, Sequence[str]]
    notes: Sequence[str]
    gaps: Sequence[GapJson]


class BackendReport(Document, frozen=True, kw_only=True):
    """What one backend can do on one torch.

    :ivar paths: the extensions, all of them loaded, relative to the target
    :ivar torch: the release
    :ivar built_for: releases the extensions may have been built for, oldest first
    :ivar load_error: how importing the target, or loading its first library, fails; None if it loads
    :ivar backend: the dispatch key as this torch names it
    :ivar backend_name: the name that the extension gives PrivateUse1
    :ivar kernels: number of kernels that the extensions register for the backend
    :ivar fallback: whether they register a fallback for the backend
    :ivar workload: the file that limits the operators
    :ivar served: number of operators that run, by where their kernel comes from, in torch's words
    :ivar missing: operators that raise, the most used first
    :ivar ambiguous: operators with a composite kernel and a kernel of a backend without an autograd key: they raise
        under autograd
    :ivar unknown: operators of the workload that this torch's dispatcher does not have
    :ivar without_code: by GPU (sm_90, gfx942), with --gpu: operators none of whose kernels run on it, the most used
        first
    :ivar has_fallback: whether they register a fallback for the backend
    :ivar notes: the dispatch keys that have moved, in words
    :ivar gaps: what could not be read
    """

    target: str
    paths: tuple[str, ...]
    torch: str | None
    release: str
    built_for: tuple[TorchVersion, ...]
    backend: str
    backend_name: str | None
    kernels: int
    has_fallback: bool
    workload: str | None
    coverage: Coverage
    notes: tuple[str, ...]
    gaps: tuple[str, ...]
    without_code: Mapping[Gpu, tuple[str, ...]] = field(default_factory=dict)
    load_error: str | None = None

    def _contents(self) -> BackendReportJson:
        coverage = self.coverage
        return BackendReportJson.of(
            self,
            fallback=self.has_fallback,
            served=coverage.served,
            missing=[MissingKernelJson.of(kernel) for kernel in coverage.missing],
            ambiguous=coverage.ambiguous,
            unknown=coverage.unknown,
            without_code={gpu.target: operators for gpu, operators in self.without_code.items()},
            gaps=[GapJson(stage="emulation", reason=gap) for gap in self.gaps],
        )

    @property
    def is_moved(self) -> bool:
        """Whether the number of the dispatch key of all its kernels means another key in this torch."""
        return bool(self.notes) and not self.kernels

    def exit_code(self, fail_on: Effect = Effect.CORRUPTS, *, strict: bool = False) -> int:
        """Return the exit code.

        1: it does not load; its dispatch key has moved; a kernel is missing and ``fail_on`` is at most as severe; with
        ``strict``, any gap.
        3: a gap.
        """
        # Nothing can be called on a backend that does not load or is not there, whatever ``fail_on`` says.
        if self.load_error is not None or self.is_moved:
            return 1
        fails = bool(self.coverage.missing or self.coverage.ambiguous or any(self.without_code.values()))
        if (fails and fail_on.severity <= Effect.CALL_FAILS.severity) or (self.gaps and strict):
            return 1
        return 3 if self.gaps else 0
