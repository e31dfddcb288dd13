"""In which order findings stand, and what is said where several files share one."""

from __future__ import annotations

from msgspec.structs import replace

from abiscan.findings import Effect, Evidence, Finding
from abiscan.python.package.model import Channel, HowLoaded
from abiscan.results.causes import group_causes, in_the_order_met
from abiscan.results.check import Report
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict, UsedLibrary
from abiscan.results.verdict import How, Verdict
from tests.unit.report.reports import failure


def about(rule: str, *subjects: str, effect: Effect = Effect.LOAD_FAILS) -> Finding:
    evidence = tuple(Evidence(subject=subject) for subject in subjects)
    return Finding(rule=rule, effect=effect, message=f"{len(subjects)} things", evidence=evidence, fix="mend it")


def library(path: str, **changes: object) -> UsedLibrary:
    plain = UsedLibrary(path=path, file=path, loaded_at=None, how=HowLoaded.IMPORT, used=True, verdict=Verdict.FAILS)
    return replace(plain, **changes)


def package(error: ImportFailure | None, *libraries: UsedLibrary) -> PackageResult:
    return PackageResult(
        target="pkg.whl",
        name="pkg",
        version="1.0",
        torch="2.9.1",
        torch_build="2.9.1+cpu",
        module="pkg",
        verdict=PackageVerdict.IMPORT_FAILS,
        error=error,
        libraries=libraries,
    )


def raised(message: str | None, exception: str | None = "OSError") -> ImportFailure:
    return ImportFailure(how=How.RAISES, exception=exception, message=message, file="p.py", line=3, cause=None)


CUDA, GONE = about("cuda-runtime-mismatch", "libcudart.so.13"), about("undefined-symbol", "_Za", "_Zb")


def test_what_the_loader_says_comes_first() -> None:
    assert in_the_order_met([CUDA, GONE], "_C.so: undefined symbol: _Zb") == (GONE, CUDA)
    assert in_the_order_met([GONE, CUDA], "libcudart.so.13: cannot open shared object file") == (CUDA, GONE)
    assert in_the_order_met([CUDA, GONE], "") == (CUDA, GONE)


def test_the_cause_of_the_import_error_comes_first_with_what_is_met_first() -> None:
    more = about("undefined-symbol", "_Zc", "_Za", "_Zb")
    results = (
        failure(path="pkg/a.so", torch_build="2.9.1+cpu", findings=(CUDA, GONE)),
        failure(path="pkg/b.so", torch_build="2.9.1+cpu", findings=(CUDA, more)),
    )
    imported = package(raised("pkg/a.so: undefined symbol: _Zb"), library("pkg/a.so"), library("pkg/b.so"))
    first, second = group_causes(Report(results=results, packages=(imported,)), imported)
    assert [cause.finding.rule for cause in (first, second)] == ["undefined-symbol", "cuda-runtime-mismatch"]
    assert [evidence.subject for evidence in first.finding.evidence] == ["_Zb", "_Zc", "_Za"]
    assert first.finding.message == "3 things", "that of the file with the most"
    assert first.files == ("pkg/a.so", "pkg/b.so")


def test_what_users_are_told_of_several_libraries() -> None:
    lost = (
        library("a.so", told=Channel.WARNING),
        library("b.so", told=Channel.NOTHING),
        library("c.so", told=Channel.NOTHING),
    )
    without = replace(package(None, *lost), verdict=PackageVerdict.WORKS_WITHOUT)
    assert without.summary == "works without a.so, b.so, and 1 more (1 with a warning, 2 silently)"
    assert replace(without, libraries=lost[1:]).summary == "works without b.so, c.so (silently)"


def test_a_text_that_is_not_known() -> None:
    assert str(raised(None)) == "OSError, with a text that is not known (p.py:3)"
    assert str(raised(None, None)) == "the process ends, with a text that is not known (p.py:3)"


def test_a_condition_is_not_shown_bare() -> None:
    unknown = replace(package(None), verdict=PackageVerdict.UNKNOWN, undecided=("not os.path.exists(path) (p.py:5)",))
    assert unknown.summary == "unknown - it depends on whether not os.path.exists(path) (p.py:5)"
