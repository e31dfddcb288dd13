"""What the verdict on a package means for a user who wants to install it."""

from __future__ import annotations

import pytest

from abiscan.findings import Effect, Finding
from abiscan.pipelines.fit import form_opinion
from abiscan.python.package.model import Channel, HowLoaded
from abiscan.results.check import Result
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict, UsedLibrary
from abiscan.results.verdict import How, Verdict


def package(verdict: PackageVerdict, *, library: Verdict, lacking: tuple[str, ...] = ()) -> PackageResult:
    told = Channel.LOG if verdict is PackageVerdict.WORKS_WITHOUT else None
    used = UsedLibrary(
        path="a/_C.so",
        loaded_at=None,
        how=HowLoaded.GUARDED,
        used=True,
        verdict=library,
        file="a/_C.so",
        error="x.so: gone",
        told=told,
    )
    failure = ImportFailure(how=How.RAISES, exception="OSError", message="no", file=None, line=None, cause="why")
    return PackageResult(
        target="a.whl",
        name="a",
        version="1",
        torch="2.13.0",
        torch_build="2.13.0+cpu",
        module="a",
        verdict=verdict,
        error=failure if verdict is PackageVerdict.IMPORT_FAILS else None,
        libraries=(used,),
        lacking=lacking,
    )


def result(*rules: tuple[str, Effect]) -> Result:
    findings = tuple(Finding(rule=rule, effect=effect, message="m", evidence=(), fix="f") for rule, effect in rules)
    return Result(
        target="a.whl",
        path="a/_C.so",
        sha256="0",
        torch="2.13.0",
        torch_build="2.13.0+cpu",
        verdict=Verdict.FAILS,
        predicted_error=None,
        undefined_symbols=(),
        external=(),
        findings=findings,
        gaps=(),
    )


MISSING = ("missing-library", Effect.LOAD_FAILS)


@pytest.mark.parametrize(
    ("rules", "works"),
    [
        ([MISSING], True),
        ([MISSING, ("stable-abi", Effect.NOTE)], True),
        ([MISSING, ("undefined-symbol", Effect.LOAD_FAILS)], False),
        ([("cuda-runtime-mismatch", Effect.LOAD_FAILS)], False),
        ([], False),
    ],
)
def test_without_a_library(rules: list[tuple[str, Effect]], *, works: bool) -> None:
    said = form_opinion(package(PackageVerdict.WORKS_WITHOUT, library=Verdict.FAILS), [result(*rules)])
    assert (said.reason is None, said.note is not None) == (works, works)
    assert works or str(said.reason).endswith("; x.so: gone")


def test_what_is_unknown_counts_unless_something_is_known_to_fail() -> None:
    doubtful = form_opinion(package(PackageVerdict.UNKNOWN, library=Verdict.LOADS), [])
    assert (doubtful.reason, doubtful.proven) == (None, False)
    assert not str(doubtful.note).startswith("unknown"), "the line says that it is not proven"
    assert form_opinion(package(PackageVerdict.UNKNOWN, library=Verdict.FAILS, lacking=("x.so",)), []).reason is None
    assert form_opinion(package(PackageVerdict.UNKNOWN, library=Verdict.FAILS), []).reason is not None


def test_a_failed_import_says_what_is_behind_it() -> None:
    said = form_opinion(package(PackageVerdict.IMPORT_FAILS, library=Verdict.FAILS), [])
    assert said.reason == "import fails - OSError: no; why"


def test_a_wheel_that_is_no_package_is_judged_by_its_files() -> None:
    assert form_opinion(None, [result(MISSING)]).reason == "fails"
    assert form_opinion(None, []).reason is None
