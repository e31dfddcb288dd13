"""Reports that the tests of the views share."""

from __future__ import annotations

from typing import Any

from abiscan.findings import Effect, Evidence, Finding
from abiscan.results.check import Result
from abiscan.results.verdict import How, PredictedError, Verdict


def result(**changes: Any) -> Result:
    """A result for an extension that loads."""
    fields: dict[str, Any] = {
        "target": "pkg.whl",
        "path": "pkg/_C.so",
        "sha256": "0" * 64,
        "torch": "2.9.1",
        "torch_build": "2.9.1+cpu",
        "verdict": Verdict.LOADS,
        "predicted_error": None,
        "undefined_symbols": (),
        "external": (),
        "findings": (),
        "gaps": (),
    }
    return Result(**{**fields, **changes})


def failure(**changes: Any) -> Result:
    """A result for one that does not."""
    error = PredictedError(how=How.RAISES, object="_C.so", message="undefined symbol: f")
    return result(**{"verdict": Verdict.FAILS, "predicted_error": error, "undefined_symbols": ("f",), **changes})


def finding(effect: Effect = Effect.LOAD_FAILS, *, proofs: int = 1, **changes: Any) -> Finding:
    """A finding with some evidence."""
    evidence = tuple(
        Evidence(subject=f"_Z{number}", readable=f"f{number}()", object="_C.so", instead=f"f{number}(int)")
        for number in range(proofs)
    )
    fields: dict[str, Any] = {"rule": "a-rule", "message": "it is so", "fix": "mend it", "evidence": evidence}
    return Finding(effect=effect, **{**fields, **changes})
