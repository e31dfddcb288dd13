from __future__ import annotations

import itertools

import pytest

from abiscan.findings import Effect
from abiscan.gaps import Gap
from abiscan.python.package.model import HowLoaded
from abiscan.results.check import Report, Result
from abiscan.results.package import ConditionKind, PackageResult, PackageVerdict, UsedLibrary, VerdictCondition
from abiscan.results.verdict import Verdict
from tests.unit.report.reports import failure, finding, result

GAP = Gap(stage="elf", reason="unreadable")


def report(*effects: Effect, verdict: Verdict = Verdict.LOADS, gaps: tuple[Gap, ...] = ()) -> Report:
    clean = result()
    return Report(results=(clean, result(findings=tuple(map(finding, effects)), verdict=verdict, gaps=gaps)))


@pytest.mark.parametrize(("effect", "fail_on"), list(itertools.product(Effect, Effect)))
def test_a_finding_counts_from_its_effect_on(effect: Effect, fail_on: Effect) -> None:
    order = ["note", "overrides", "call-fails", "corrupts", "load-fails", "aborts"]
    expected = int(order.index(effect.value) >= order.index(fail_on.value))
    assert report(effect).exit_code(fail_on, strict=False) == expected


def test_without_findings_the_exit_code_is_0() -> None:
    assert Report(results=()).exit_code(Effect.NOTE, strict=True) == 0
    assert report().exit_code(Effect.NOTE, strict=True) == 0


def test_the_worst_finding_counts() -> None:
    assert report(Effect.NOTE, Effect.ABORTS, Effect.NOTE).exit_code(Effect.CORRUPTS, strict=False) == 1


def test_unknown_is_3_unless_something_worse_was_found() -> None:
    assert report(verdict=Verdict.UNKNOWN).exit_code(Effect.CORRUPTS, strict=False) == 3
    assert report(Effect.LOAD_FAILS, verdict=Verdict.UNKNOWN).exit_code(Effect.CORRUPTS, strict=False) == 1


def test_a_gap_counts_with_strict() -> None:
    assert report(gaps=(GAP,)).exit_code(Effect.CORRUPTS, strict=False) == 0
    assert report(gaps=(GAP,)).exit_code(Effect.CORRUPTS, strict=True) == 1
    assert report(gaps=(GAP,), verdict=Verdict.UNKNOWN).exit_code(Effect.CORRUPTS, strict=True) == 1


def test_a_failure_counts_through_its_findings() -> None:
    failed = Report(results=(failure(findings=(finding(),)),))
    assert failed.exit_code(Effect.LOAD_FAILS, strict=False) == 1


BROKEN, NOTED = failure(path="_C.so", findings=(finding(),)), result(path="_C.so", findings=(finding(Effect.NOTE),))
UNMET = VerdictCondition(kind=ConditionKind.LIBRARY, name="libcuda.so.1", why="it needs CUDA", met=None)


@pytest.mark.parametrize(
    ("verdict", "file", "changes", "code", "strict"),
    [
        (PackageVerdict.WORKS, NOTED, {}, 0, 0),
        (PackageVerdict.WORKS, NOTED, {"conditions": (UNMET,)}, 0, 1),
        (PackageVerdict.WORKS, NOTED, {"gaps": ("cut",)}, 0, 1),
        (PackageVerdict.WORKS_WITHOUT, BROKEN, {}, 0, 0),
        (PackageVerdict.UNKNOWN, NOTED, {}, 3, 1),
        (PackageVerdict.IMPORT_FAILS, BROKEN, {}, 1, 1),
        (PackageVerdict.IMPORT_FAILS, NOTED, {}, 1, 1),
        (PackageVerdict.CORRUPTS, NOTED, {}, 1, 1),
        (PackageVerdict.WORKS, NOTED, {"own_findings": (finding(Effect.LOAD_FAILS),)}, 1, 1),
        # All findings about the file are suppressed: the package must not fail in their place.
        (PackageVerdict.IMPORT_FAILS, failure(path="_C.so"), {}, 0, 0),
    ],
)
def test_a_package_counts_for_its_files(
    verdict: PackageVerdict, file: Result, changes: dict[str, object], code: int, strict: int
) -> None:
    library = UsedLibrary(
        path="_C.so", file="_C.so", loaded_at=None, how=HowLoaded.IMPORT, used=True, verdict=file.verdict
    )
    fields: dict[str, object] = {"target": "pkg.whl", "name": "pkg", "version": "1", "module": "pkg"}
    fields |= {"torch": "2.9.1", "torch_build": "2.9.1+cpu", "verdict": verdict, "libraries": (library,), **changes}
    package = PackageResult(**fields)  # type: ignore[arg-type]
    whole = Report(results=(file,), packages=(package,))
    assert (whole.exit_code(), whole.exit_code(strict=True)) == (code, strict)
