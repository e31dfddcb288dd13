"""The result of ``abiscan coverage``: what a backend cannot run. Its JSON Schema is ``schema/coverage-v1.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from abiscan.dispatch.coverage import Coverage, MissingKernel
from abiscan.findings import Effect
from abiscan.gpu.devices import Gpu
from abiscan.inputs.version import TorchVersion
from abiscan.results.document import rendered


class BackendReport(Struct, frozen=True, kw_only=True):
    """What one backend can do on one torch.

    ``paths`` are the extensions of the target, all of which are loaded; ``built_for`` has the releases that they may
    have been built for, oldest first. ``kernels`` counts the kernels that they register for the backend,
    ``has_fallback`` says whether a fallback of theirs serves all other operators. ``notes`` are for readers; ``gaps``
    says what could not be read. ``without_code`` has, for each GPU that was asked for, the operators of the target none
    of whose kernels run on it, the most used first. ``load_error`` says how the target fails to load, None if it loads.
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

    def exit_code(self, fail_on: Effect = Effect.CORRUPTS, *, strict: bool = False) -> int:
        """Return the exit code.

        1: it does not load; a kernel is missing and ``fail_on`` is at most as severe; with ``strict``, any gap.
        3: a gap.
        """
        if self.load_error is not None:
            return 1
        fails = bool(self.coverage.missing or self.coverage.ambiguous or any(self.without_code.values()))
        if (fails and fail_on.severity <= Effect.CALL_FAILS.severity) or (self.gaps and strict):
            return 1
        return 3 if self.gaps else 0

    def to_json(self) -> str:
        """The JSON document, version 1."""
        return rendered(
            {
                "target": self.target,
                "paths": list(self.paths),
                "torch": self.torch,
                "built_for": [str(version) for version in self.built_for],
                "load_error": self.load_error,
                "backend": self.backend,
                "backend_name": self.backend_name,
                "kernels": self.kernels,
                "fallback": self.has_fallback,
                "workload": self.workload,
                "served": {source.value: count for source, count in self.coverage.served.items()},
                "missing": [_missing(kernel) for kernel in self.coverage.missing],
                "ambiguous": list(self.coverage.ambiguous),
                "unknown": list(self.coverage.unknown),
                "without_code": {gpu.target: list(operators) for gpu, operators in self.without_code.items()},
                "notes": list(self.notes),
                "gaps": [{"stage": "emulation", "reason": gap} for gap in self.gaps],
            }
        )


def _missing(missing: MissingKernel) -> dict[str, Any]:
    return {
        "operator": missing.operator,
        "message": missing.message,
        "exact": missing.exact,
        "essential": missing.essential,
        "core": missing.core,
        "general": missing.general,
        "reached_from": list(missing.reached_from),
    }
