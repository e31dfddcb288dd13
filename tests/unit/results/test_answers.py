from __future__ import annotations

import json
import sys
import types

import pytest

from abiscan.findings import Effect
from abiscan.gaps import Gap
from abiscan.python.package.model import HowLoaded
from abiscan.results.answers import answers_of
from abiscan.results.check import Report, Suppressed
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict, UsedLibrary
from abiscan.results.verdict import How, PredictedError, Verdict
from tests.unit.report.reports import failure, finding, result

KNOWN = Suppressed(finding=finding(rule="b-rule"), reason="known")
OF_PACKAGE = failure(findings=(finding(),), suppressed=(KNOWN,))
PACKAGE = PackageResult(
    target="pkg.whl",
    name="pkg",
    version="1.0",
    torch="2.9.1",
    torch_build="2.9.1+cpu",
    module="pkg",
    verdict=PackageVerdict.IMPORT_FAILS,
    error=ImportFailure(how=How.RAISES, exception="ImportError", message="no\nmore", file=None, line=None, cause="why"),
    libraries=(
        UsedLibrary(
            path="pkg/_C.so",
            file="pkg/_C.so",
            loaded_at=None,
            how=HowLoaded.IMPORT,
            used=True,
            verdict=Verdict.FAILS,
        ),
    ),
    gaps=("a loop",),
)
ALONE = failure(target="folder", path="_D.so", torch_build=None, gaps=(Gap(stage="elf", reason="cut"),))


def test_a_package_is_one_entry_and_a_file_that_belongs_to_none_is_another() -> None:
    package, file = answers_of(Report(results=(OF_PACKAGE, ALONE), packages=(PACKAGE,)))
    assert (package.package, package.judged) == (PACKAGE, PACKAGE)
    assert (package.name, package.title, package.torch) == ("pkg 1.0", "pkg 1.0", "torch 2.9.1+cpu")
    assert (package.verdict, package.error, package.cause) == ("import-fails", "ImportError: no", "why")
    assert [(cause.finding, cause.files) for cause in package.causes] == [(finding(), ("pkg/_C.so",))]
    assert list(package.suppressed) == [(OF_PACKAGE, KNOWN)]
    assert package.gaps == [Gap(stage="python", reason="a loop")]
    assert (file.package, file.judged) == (None, ALONE)
    assert (file.name, file.title, file.torch) == ("_D.so", "folder: _D.so", "this torch")
    assert (file.verdict, file.error, file.cause) == ("fails", "_C.so: undefined symbol: f", "")
    assert file.gaps == ALONE.gaps


def test_a_report_has_its_answers_and_documents() -> None:
    report = Report(results=(OF_PACKAGE, ALONE), packages=(PACKAGE,))
    package, file = report.answers
    assert (package.name, package.conditions, package.fix) == ("pkg 1.0", (), finding().fix)
    assert (file.name, file.fix) == ("_D.so", None)
    assert json.loads(Report(results=(ALONE,)).to_sarif())["version"] == "2.1.0"
    assert report.to_junit().startswith("<?xml")
    assert report.to_markdown().startswith("| target | torch | verdict |")


def test_a_report_is_a_table_in_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = failure(target="<b>", path="_D.so", findings=(finding(),))
    report = Report(results=(OF_PACKAGE, hostile), packages=(PACKAGE,))
    page = report._repr_html_()
    row = ("pkg 1.0", "torch 2.9.1+cpu", "import fails", "ImportError: no", "mend it")
    assert f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" in page
    assert "<td>&lt;b&gt;: _D.so</td>" in page
    pandas = types.ModuleType("pandas")
    # Only how it is called: a frame of one row per dictionary, with these columns.
    pandas.DataFrame = lambda rows, columns: [[row[name] for name in columns] for row in rows]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert report.to_frame()[0] == [
        "pkg 1.0",
        "torch 2.9.1+cpu",
        None,
        "import-fails",
        "ImportError: no",
        "why",
        "mend it",
    ]


def test_effects_are_ordered_by_what_they_do() -> None:
    assert sorted({Effect.ABORTS, *Effect}) == list(Effect)
    assert max(Effect.NOTE, Effect.ABORTS) is Effect.ABORTS


def test_an_entry_fails_as_the_report_does() -> None:
    (gone,) = answers_of(Report(results=(failure(findings=(finding(),)),)))
    assert gone.fails()
    (noted,) = answers_of(Report(results=(result(findings=(finding(Effect.NOTE),)),)))
    assert (noted.fails(), noted.fails(Effect.NOTE)) == (False, True)
    (gap,) = answers_of(Report(results=(result(gaps=(Gap(stage="elf", reason="cut"),)),)))
    assert (gap.fails(), gap.fails(strict=True)) == (False, True)
    (package,) = answers_of(Report(results=(OF_PACKAGE,), packages=(PACKAGE,)))
    assert package.fails()


def test_an_error_without_words_is_one() -> None:
    silent = PredictedError(how=How.ABORTS, object=None, message="")
    report = Report(results=(failure(predicted_error=silent), result()))
    assert [entry.error for entry in answers_of(report)] == ["", None]
