"""abiscan: will this compiled PyTorch extension load and work on that torch?

The names below are the public API, described in ``docs/api.md``. Each is imported when it is first used, so that
``import abiscan`` takes milliseconds.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # what type checkers know by this name; the typing module takes longer to import than the rest
if TYPE_CHECKING:
    from abiscan.api import (
        api_history,
        check,
        coverage,
        diff,
        doctor,
        fit,
        matrix,
        model_operators,
        operators,
        release,
        releases,
        stable,
        survey,
        torch_operators,
        version_table,
        works,
    )
    from abiscan.dispatch.coverage import Coverage, MissingKernel
    from abiscan.errors import AbiscanError, InputError
    from abiscan.findings import Confidence, Effect, Evidence, Finding, Rule
    from abiscan.gaps import Gap
    from abiscan.inputs.session import Session
    from abiscan.results.answers import ReportAnswer
    from abiscan.results.api_history import ApiHistory
    from abiscan.results.check import Report, Result, Suppressed
    from abiscan.results.coverage import BackendReport
    from abiscan.results.diff import Comparison
    from abiscan.results.doctor import Ailment, Diagnosis
    from abiscan.results.fit import FitReport, Fitting, PublishedElsewhere, Rejected
    from abiscan.results.matrix import Matrix, PackageRow, Row
    from abiscan.results.model import ModelOperator, ModelResult, OperatorState
    from abiscan.results.model_operators import ModelOperators, NeededOperator
    from abiscan.results.operators import ExtensionOperators
    from abiscan.results.package import (
        ConditionKind,
        ImportFailure,
        ModuleResult,
        MostLikely,
        PackageResult,
        PackageVerdict,
        UsedLibrary,
        VerdictCondition,
    )
    from abiscan.results.release import ReleaseProblem, ReleaseReport, ReleaseWheel
    from abiscan.results.stable import StableReport
    from abiscan.results.survey import SurveyCause, SurveyEntry, SurveySummary
    from abiscan.results.torch_operators import TorchOperators
    from abiscan.results.verdict import How, PredictedError, Verdict
    from abiscan.results.versions import VersionRow, VersionTable
    from abiscan.rules import RULES

__version__ = "1.0.0"
__all__ = [
    "RULES",
    "AbiscanError",
    "Ailment",
    "ApiHistory",
    "BackendReport",
    "Comparison",
    "ConditionKind",
    "Confidence",
    "Coverage",
    "Diagnosis",
    "Effect",
    "Evidence",
    "ExtensionOperators",
    "Finding",
    "FitReport",
    "Fitting",
    "Gap",
    "How",
    "ImportFailure",
    "InputError",
    "Matrix",
    "MissingKernel",
    "ModelOperator",
    "ModelOperators",
    "ModelResult",
    "ModuleResult",
    "MostLikely",
    "NeededOperator",
    "OperatorState",
    "PackageResult",
    "PackageRow",
    "PackageVerdict",
    "PredictedError",
    "PublishedElsewhere",
    "Rejected",
    "ReleaseProblem",
    "ReleaseReport",
    "ReleaseWheel",
    "Report",
    "ReportAnswer",
    "Result",
    "Row",
    "Rule",
    "Session",
    "StableReport",
    "Suppressed",
    "SurveyCause",
    "SurveyEntry",
    "SurveySummary",
    "TorchOperators",
    "UsedLibrary",
    "Verdict",
    "VerdictCondition",
    "VersionRow",
    "VersionTable",
    "api_history",
    "check",
    "coverage",
    "diff",
    "doctor",
    "fit",
    "matrix",
    "model_operators",
    "operators",
    "release",
    "releases",
    "stable",
    "survey",
    "torch_operators",
    "version_table",
    "works",
]

_MODULES = {
    "abiscan.dispatch.coverage": ("Coverage", "MissingKernel"),
    "abiscan.errors": ("AbiscanError", "InputError"),
    "abiscan.findings": ("Confidence", "Effect", "Evidence", "Finding", "Rule"),
    "abiscan.gaps": ("Gap",),
    "abiscan.inputs.session": ("Session",),
    "abiscan.results.answers": ("ReportAnswer",),
    "abiscan.results.api_history": ("ApiHistory",),
    "abiscan.results.check": ("Report", "Result", "Suppressed"),
    "abiscan.results.coverage": ("BackendReport",),
    "abiscan.results.diff": ("Comparison",),
    "abiscan.results.doctor": ("Ailment", "Diagnosis"),
    "abiscan.results.fit": ("FitReport", "Fitting", "PublishedElsewhere", "Rejected"),
    "abiscan.results.matrix": ("Matrix", "PackageRow", "Row"),
    "abiscan.results.model": ("ModelOperator", "ModelResult", "OperatorState"),
    "abiscan.results.model_operators": ("ModelOperators", "NeededOperator"),
    "abiscan.results.operators": ("ExtensionOperators",),
    "abiscan.results.package": (
        "ConditionKind",
        "ImportFailure",
        "ModuleResult",
        "MostLikely",
        "PackageResult",
        "PackageVerdict",
        "UsedLibrary",
        "VerdictCondition",
    ),
    "abiscan.results.torch_operators": ("TorchOperators",),
    "abiscan.results.release": ("ReleaseProblem", "ReleaseReport", "ReleaseWheel"),
    "abiscan.results.stable": ("StableReport",),
    "abiscan.results.survey": ("SurveyCause", "SurveyEntry", "SurveySummary"),
    "abiscan.results.verdict": ("How", "PredictedError", "Verdict"),
    "abiscan.results.versions": ("VersionRow", "VersionTable"),
    "abiscan.rules": ("RULES",),
}
_HOMES = dict.fromkeys(__all__, "abiscan.api") | {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name from the module that has it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
