"""The result of ``abiscan coverage``: what a backend cannot run. Its JSON Schema is ``schema/coverage-v1.json``."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from abiscan.dispatch.coverage import Coverage, MissingKernel
from abiscan.findings import Effect
from abiscan.gpu.devices import Gpu
from abiscan.inputs.version import TorchVersion
from abiscan.results.document import Document, give_shape

give_shape("operator message exact essential core general reached_from")(MissingKernel)


@give_shape(
    "target paths torch built_for load_error backend backend_name kernels fallback=has_fallback workload"
    " served=coverage.served missing=coverage.missing ambiguous=coverage.ambiguous unknown=coverage.unknown"
    " without_code notes gaps",
    without_code=lambda report: {gpu.target: operators for gpu, operators in report.without_code.items()},
    gaps=lambda report: [{"stage": "emulation", "reason": gap} for gap in report.gaps],
)
class BackendReport(Document, frozen=True, kw_only=True):
    """What one backend can do on one torch.

    :ivar paths: the extensions of the target, all of which are loaded
    :ivar built_for: the releases that they may have been built for, oldest first
    :ivar kernels: the number of kernels that they register for the backend
    :ivar has_fallback: whether a fallback of theirs serves all other operators
    :ivar notes: the dispatch keys that have moved, in words
    :ivar gaps: what could not be read
    :ivar without_code: for each GPU that was asked for, the operators of the target none of whose kernels run on it,
        the most used first
    :ivar load_error: how the target fails to load, None if it loads
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
