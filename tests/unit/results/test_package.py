"""What the result for a package says about the reason of a failure."""

from __future__ import annotations

import pytest

from abiscan.findings import Effect
from abiscan.python.package.model import Channel, HowLoaded
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
from abiscan.results.verdict import How, Verdict


@pytest.mark.parametrize(
    ("exception", "message", "is_for_another"),
    [
        ("ModuleNotFoundError", "No module named 'triton'", True),
        ("ModuleNotFoundError", "No module named 'google.protobuf'; 'google' is not a package", True),
        ("ImportError", "cannot import name 'create_repo' from 'transformers.utils.hub' (/x/hub.py)", True),
        ("ImportError", "cannot import name 'gone' from 'torch.library' (/x/torch/library.py)", False),
        ("ModuleNotFoundError", "No module named 'torch._six'", False),
        ("ModuleNotFoundError", "No module named 'pkg._C'", False),
        ("ModuleNotFoundError", "No module named '_core'", False),
        ("ImportError", "libcudart.so.12: cannot open shared object file: No such file or directory", False),
        ("RuntimeError", "No module named 'triton'", False),
        ("ImportError", None, False),
    ],
)
def test_whether_the_import_fails_for_want_of_another_package(
    exception: str, message: str | None, is_for_another: bool
) -> None:
    library = UsedLibrary(
        path="_core.cpython-311-x86_64-linux-gnu.so",
        loaded_at=None,
        how=HowLoaded.IMPORT,
        used=True,
        verdict=Verdict.FAILS,
    )
    package = PackageResult(
        target="pkg",
        name="the-package",
        version="1.0",
        torch="2.13.0",
        torch_build="2.13.0+cpu",
        module="pkg",
        verdict=PackageVerdict.IMPORT_FAILS,
        error=ImportFailure(
            how=How.RAISES, exception=exception, message=message, file="pkg/__init__.py", line=1, cause=None
        ),
        libraries=(library,),
    )
    assert package.fails_for_another is is_for_another


def package(verdict: PackageVerdict, **changes: object) -> PackageResult:
    fields: dict[str, object] = {"name": "pkg", "version": "1.0", "torch": "2.13.0", "torch_build": "2.13.0+cpu"}
    fields |= {"target": "pkg", "module": "pkg", "verdict": verdict, **changes}
    return PackageResult(**fields)  # type: ignore[arg-type]


def library(path: str, **changes: object) -> UsedLibrary:
    fields = {"loaded_at": None, "how": HowLoaded.IMPORT, "used": True, "verdict": Verdict.LOADS, **changes}
    return UsedLibrary(path=path, **fields)  # type: ignore[arg-type]


def condition(kind: ConditionKind, name: str, met: bool | None = None) -> VerdictCondition:
    return VerdictCondition(kind=kind, name=name, why="", met=met)


WORKS, WITHOUT, UNKNOWN = PackageVerdict.WORKS, PackageVerdict.WORKS_WITHOUT, PackageVerdict.UNKNOWN
FAILS, CORRUPTS = PackageVerdict.IMPORT_FAILS, PackageVerdict.CORRUPTS
ERROR = ImportFailure(how=How.RAISES, exception="ImportError", message="no", file="a.py", line=3, cause=None)
ON_DEMAND = {"how": HowLoaded.ON_DEMAND, "used": None, "verdict": Verdict.FAILS}
LOST = ModuleResult(name="pkg.more", verdict=FAILS, error=ERROR)


@pytest.mark.parametrize(
    ("result", "summary"),
    [
        (package(WORKS, libraries=(library("a.so"),)), "works"),
        (package(WORKS, is_python=True), "works: its Python code imports"),
        (package(WORKS), "works: none of its libraries uses torch"),
        (
            package(WORKS, lacking=("libcuda.so.1",)),
            "works: none of its libraries uses torch, but some need libcuda.so.1, which this machine does not have",
        ),
        (
            package(WORKS, is_python=True, conditions=(condition(ConditionKind.LIBRARY, "libcudart.so.13"),)),
            "works: its Python code imports, if libcudart.so.13 is there",
        ),
        (
            package(
                WORKS,
                is_python=True,
                conditions=(
                    *(condition(ConditionKind.LIBRARY, name) for name in ("liba.so.1", "libb.so.1", "MPI", "ROCm")),
                    condition(ConditionKind.REQUIREMENT, "numpy", met=False),
                    condition(ConditionKind.REQUIREMENT, "torch"),
                    condition(ConditionKind.REQUIREMENT, "scipy", met=True),
                ),
            ),
            (
                "works: its Python code imports, if liba.so.1, libb.so.1 are there, and where MPI, ROCm are "
                "installed, and if torch is imported first, and once numpy is there"
            ),
        ),
        (package(WITHOUT, libraries=(library("a.so", **ON_DEMAND),)), "works without a.so (failing when first used)"),
        (
            package(
                WITHOUT,
                libraries=(
                    library("a.so", told=Channel.WARNING, operators=("ns::f", "ns::g")),
                    library("b.so", **ON_DEMAND),
                    library("c.so"),
                ),
            ),
            "works without a.so, b.so (1 with a warning, 1 failing when first used, 2 operators missing)",
        ),
        (
            package(WITHOUT, modules=(LOST,), lost_modules=("pkg.more",)),
            "works without pkg.more, whose import fails - ImportError: no (a.py:3)",
        ),
        (
            package(
                CORRUPTS,
                libraries=(
                    library("a.so", verdict=Verdict.CORRUPTS),
                    library("b.so", verdict=Verdict.CORRUPTS, used=False),
                    library("c.so"),
                ),
            ),
            "loads, then corrupts memory: a.so",
        ),
        (package(FAILS, error=ERROR), "import fails - ImportError: no (a.py:3)"),
        (
            package(FAILS, error=ERROR, needs=("libcuda.so.1",)),
            "import fails where libcuda.so.1 can be found - ImportError: no (a.py:3)",
        ),
        (package(UNKNOWN), "unknown - its Python code could not be followed"),
        (package(UNKNOWN, undecided=("x",)), "unknown - it depends on whether x"),
        (package(UNKNOWN, undecided=("x",), gaps=("cut",)), "unknown - cut"),
        (
            package(UNKNOWN, gaps=("cut",), most_likely=MostLikely(exception="OSError", message="a\nb", ways=1, of=2)),
            "unknown - 1 of 2 ways: OSError: a",
        ),
        (
            package(UNKNOWN, libraries=(library("a.so", how=HowLoaded.UNKNOWN),)),
            "unknown - how it loads a.so is not known",
        ),
        (package(UNKNOWN, libraries=(library("a.so", how=HowLoaded.UNKNOWN),), gaps=("cut",)), "unknown - cut"),
        (
            package(UNKNOWN, libraries=(library("a.so", verdict=Verdict.UNKNOWN),), gaps=("cut",)),
            "unknown - a.so cannot be read",
        ),
        (
            package(
                UNKNOWN, libraries=(library("a.so", verdict=Verdict.UNKNOWN, doubt="torch 9+cpu is not embedded"),)
            ),
            "unknown - a.so: torch 9+cpu is not embedded",
        ),
    ],
)
def test_the_verdict_in_one_line(result: PackageResult, summary: str) -> None:
    assert result.summary == summary


@pytest.mark.parametrize(
    ("result", "effect"),
    [
        (package(WORKS), None),
        (package(UNKNOWN), None),
        (package(CORRUPTS), Effect.CORRUPTS),
        (package(FAILS, error=ERROR), Effect.LOAD_FAILS),
        (
            package(
                FAILS, error=ImportFailure(how=How.ABORTS, exception=None, message="", file=None, line=None, cause=None)
            ),
            Effect.ABORTS,
        ),
        (package(WITHOUT, libraries=(library("a.so", told=Channel.WARNING),)), Effect.NOTE),
        (package(WITHOUT, libraries=(library("a.so", told=Channel.LOG, operators=("ns::f",)),)), Effect.CALL_FAILS),
        (package(WITHOUT, modules=(LOST,), lost_modules=("pkg.more",)), Effect.CALL_FAILS),
        (package(WITHOUT, libraries=(library("a.so", aborts=True, **ON_DEMAND),)), Effect.ABORTS),
        (package(WITHOUT, libraries=(library("a.so", aborts=True, told=Channel.LOG),)), Effect.NOTE),
    ],
)
def test_the_effect_of_a_verdict(result: PackageResult, effect: Effect | None) -> None:
    assert result.effect is effect
