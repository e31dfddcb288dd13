"""The verdict on a package as text, and the other views of a terminal: each line for what it is about."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import msgspec.structs
import pytest
from rich.console import Console

from abiscan.extension.counterparts import Counterpart, Means
from abiscan.extension.stability import Stability, Tie
from abiscan.findings import Effect, Evidence, Finding
from abiscan.inputs.version import TorchVersion
from abiscan.python.package.model import Channel, HowLoaded, Skipped
from abiscan.report import survey_markdown, survey_text, tally
from abiscan.report.fixes import fix_lines, shared_fixes
from abiscan.report.package_text import format_headline, list_lines
from abiscan.report.stable_text import render_stability
from abiscan.results.check import Report, Result, Suppressed
from abiscan.results.package import (
    ConditionKind,
    ImportFailure,
    ModuleResult,
    PackageResult,
    PackageVerdict,
    UsedLibrary,
    VerdictCondition,
)
from abiscan.results.stable import StableReport, StableRow
from abiscan.results.survey import SurveySummary
from abiscan.results.unchecked import Unchecked
from abiscan.results.verdict import How, Verdict
from tests.unit.report.reports import failure, finding, result
from tests.unit.report.test_survey_views import entry

WORKS, WITHOUT, FAILS, UNKNOWN = (
    PackageVerdict.WORKS, PackageVerdict.WORKS_WITHOUT, PackageVerdict.IMPORT_FAILS, PackageVerdict.UNKNOWN,
)  # fmt: skip


def package(verdict: PackageVerdict = WORKS, **fields: Any) -> PackageResult:
    base: dict[str, Any] = {
        "target": "pkg.whl", "name": "pkg", "version": "1.0", "torch": "2.9.1", "torch_build": "2.9.1+cpu",
        "module": "pkg", "verdict": verdict, "libraries": (library(),),
    }  # fmt: skip
    return PackageResult(**{**base, **fields})


def library(path: str = "pkg/_C.so", **fields: Any) -> UsedLibrary:
    base: dict[str, Any] = {
        "path": path, "loaded_at": "pkg/__init__.py:3", "how": HowLoaded.IMPORT, "used": True,
        "verdict": Verdict.LOADS, "file": path,
    }  # fmt: skip
    return UsedLibrary(**{**base, **fields})


def error(**fields: Any) -> ImportFailure:
    base: dict[str, Any] = {
        "how": How.RAISES, "exception": "ImportError", "message": "it is so", "file": "pkg/__init__.py", "line": 3,
        "cause": None,
    }  # fmt: skip
    return ImportFailure(**{**base, **fields})


def lines(shown: PackageResult, *results: Result, verbosity: int = 0) -> list[str]:
    report = Report(results=results, packages=(shown,))
    return [line.plain for line in list_lines(report, shown, verbosity)]


def behind(shown: PackageResult, **options: int) -> list[str]:
    """What is behind the verdict: the lines after the headline that begin with a label."""
    return [line.removeprefix("  = ") for line in lines(shown, **options)[1:]]


def test_a_headline() -> None:
    plain = format_headline(package()).plain
    assert plain.startswith("pkg 1.0 on torch 2.9.1+cpu: works")
    other = package(other_builds={"2.9.1+cu128": FAILS, "2.9.1+cu130": WORKS})
    assert format_headline(other).plain.startswith(
        "pkg 1.0 on torch 2.9.1+cpu (import fails on torch 2.9.1+cu128, works on torch 2.9.1+cu130): works"
    )
    assert lines(package(), verbosity=-1) == [plain]


MANGLED = "undefined symbol: _ZN2at4goneEv"


@pytest.mark.parametrize(
    ("cause", "libraries", "line"),
    [
        (None, (), None),
        ("it is so", (), None),  # which the error says already
        (MANGLED, (), "cause: undefined symbol: at::gone()"),
        (
            MANGLED,
            (library(error=MANGLED),),
            "cause: pkg/_C.so: undefined symbol: at::gone() (loaded at pkg/__init__.py:3)",
        ),
        (MANGLED, (library(error=MANGLED, loaded_at=None),), "cause: pkg/_C.so: undefined symbol: at::gone()"),
        (MANGLED, (library(error=MANGLED, used=False),), "cause: undefined symbol: at::gone()"),
        ("pkg/_C.so: no", (library(error="pkg/_C.so: no"),), "cause: pkg/_C.so: no (loaded at pkg/__init__.py:3)"),
    ],
)
def test_the_cause_of_an_error(cause: str | None, libraries: tuple[UsedLibrary, ...], line: str | None) -> None:
    shown = package(FAILS, error=error(cause=cause), libraries=libraries)
    assert [one for one in behind(shown) if one.startswith("cause")] == ([line] if line else [])


def test_whose_fault_an_error_is() -> None:
    other = package(FAILS, error=error(of_package="vision"), built_for=("2.7.0", "2.8.0"))
    assert behind(other)[:2] == [
        "raised by importing vision: check that package, too",
        "built for torch 2.7.0-2.8.0",
    ]
    name = error(exception="ImportError", message="cannot import name 'a' from 'vision' (x.py)", of_package="vision")
    lacks = "vision does not have it in the version that is there; another one may"
    assert behind(package(FAILS, error=name)) == [lacks]
    of_torch = error(exception="ImportError", message="cannot import name 'a' from 'torch' (x.py)", of_package="vision")
    assert behind(package(FAILS, error=of_torch)) == ["raised by importing vision: check that package, too"]
    unsaid = error(exception="AttributeError", message=None, of_package="vision")
    assert behind(package(FAILS, error=unsaid)) == [lacks]
    assert behind(package(FAILS, error=error(), built_for=("2.8.0",)))[0] == "built for torch 2.8.0"
    assert behind(package(FAILS, error=error(), built_for=("2.8.0", "2.9.1"))) == [], "it was built for this one"
    assert behind(package(built_for=("2.8.0",))) == [], "it works"
    absent = error(exception="ModuleNotFoundError", message="No module named 'absent'")
    assert behind(package(FAILS, error=absent, built_for=("2.8.0",))) == [], "no torch makes a difference"


def missing(number: int, **fields: Any) -> UsedLibrary:
    told = {"told": Channel.WARNING, "told_text": "no fast  kernels", "error": MANGLED, "how": HowLoaded.GUARDED}
    return library(f"pkg/_{number}.so", verdict=Verdict.FAILS, **{**told, **fields})


def test_what_a_package_goes_on_without() -> None:
    (line, told) = behind(package(WITHOUT, libraries=(missing(0),)))
    assert line == "without pkg/_0.so (pkg/__init__.py:3): undefined symbol: at::gone()"
    assert told == "it warns: no fast kernels"
    several = package(WITHOUT, libraries=tuple(missing(number) for number in range(5)))
    assert [one.split()[1] for one in behind(several)[:3]] == ["pkg/_0.so", "pkg/_1.so", "pkg/_2.so"]
    assert behind(several)[3:] == ["    … 2 more (use -v to show them)", "it warns: no fast kernels"]
    assert len([one for one in behind(several, verbosity=1) if one.startswith("without ")]) == 5
    assert "without pkg/_0.so (pkg/__init__.py:3): undefined symbol: _ZN2at4goneEv" in behind(several, verbosity=1)
    other = package(WITHOUT, libraries=(missing(0, told=Channel.LOG), missing(1, told=Channel.PRINT, error=None)))
    assert behind(other)[1:] == [
        "without pkg/_1.so (pkg/__init__.py:3)",
        "it logs: no fast kernels",
        "it prints: no fast kernels",
    ]
    skipped = package(WITHOUT, libraries=(missing(0, skipped=Skipped.GUARD, loaded_at=None, told_text=None),))
    assert behind(skipped) == ["without pkg/_0.so: the package does not load it on this torch"]
    assert behind(package(FAILS, error=error(), libraries=(missing(0),))) == [], "the import fails anyway"


def test_operators_that_are_missing() -> None:
    names = tuple(f"pkg::f{number}" for number in range(5))
    shown = package(
        WITHOUT, libraries=(missing(0, told_text=None, operators=names), missing(1, told_text=None, operators=names))
    )
    assert behind(shown)[-1] == "missing: pkg::f0, pkg::f1, pkg::f2, and 2 more"
    assert f"missing: {', '.join(names)}" in behind(shown, verbosity=1)


def test_a_library_that_fails_by_itself_alone() -> None:
    fails = library(verdict=Verdict.FAILS)
    assert behind(package(libraries=(fails,))) == [
        "pkg/_C.so fails by itself, and loads as the package loads it (pkg/__init__.py:3)"
    ]
    needed = msgspec.structs.replace(fails, how=HowLoaded.NEEDED, loaded_at=None)
    assert behind(package(libraries=(needed,))) == [
        "pkg/_C.so fails by itself, and loads within a library that needs it"
    ]


def test_conditions_and_modules() -> None:
    conditions = tuple(
        VerdictCondition(kind=ConditionKind.GPU, name=f"{met}", why=f"why {met}", met=met)
        for met in (True, False, None)
    )
    assert behind(package(conditions=conditions)) == ["condition: why False", "condition: why None"]
    same, other = error(), error(message=MANGLED, file=None)
    modules = tuple(ModuleResult(name=f"pkg.{name}", verdict=FAILS, error=one)
                    for name, one in (("a", same), *((letter, other) for letter in "bcdefg")))  # fmt: skip
    shown = package(FAILS, error=same, modules=modules)
    assert behind(shown) == [
        "import pkg.b, pkg.c, pkg.d, pkg.e, and 2 more fail: ImportError: undefined symbol: at::gone()"
    ]
    assert "import pkg.b, pkg.c, pkg.d, pkg.e, pkg.f, pkg.g fail: ImportError: " + MANGLED in behind(shown, verbosity=1)
    alone = package(FAILS, error=same, modules=modules[:2])
    assert behind(alone) == ["import pkg.b fails: ImportError: undefined symbol: at::gone()"]


def test_why_a_verdict_is_unknown() -> None:
    gaps, undecided = tuple(f"gap {number}" for number in range(5)), tuple(f"x == {number}" for number in range(5))
    assert behind(package(UNKNOWN, gaps=gaps, undecided=undecided)) == [
        *(f"unknown: gap {number}" for number in range(3)), *(f"unknown: whether x == {number}" for number in range(3)),
    ]  # fmt: skip
    assert behind(package(gaps=gaps, undecided=undecided)) == [], "a gap does not change what is known"
    shown = behind(package(UNKNOWN, gaps=gaps, undecided=undecided), verbosity=1)
    assert [line for line in shown if line.startswith(("condition", "gap"))] == [
        *(f"condition: x == {number}" for number in range(5)), *(f"gap[python]: gap {number}" for number in range(5)),
    ]  # fmt: skip


def caused(number: int = 0, effect: Effect = Effect.LOAD_FAILS, **fields: Any) -> Finding:
    base = {"rule": f"rule-{number}", "message": f"message {number}", "fix": f"fix {number}", "proofs": 3}
    return finding(effect, **{**base, **fields})


def test_what_a_package_says_itself() -> None:
    shown = lines(package(), result(findings=(caused(rule="refused-by-package", says="OSError: no"),)))
    assert "  = the package says: OSError: no" in shown


def test_a_finding_of_a_package() -> None:
    (_, *shown) = lines(package(FAILS, error=error()), failure(findings=(caused(says="torch: so\nand more"),)))
    assert shown == [
        "error[rule-0]: message 0",
        "    f0()", "      found: f0(int)", "    f1()", "      found: f1(int)",
        "    … 1 more (use -v to show them)",
        "  = torch says: torch: so",
        "  = fix: fix 0",
        "  = help: abiscan explain rule-0",
    ]  # fmt: skip
    (_, *shown) = lines(package(FAILS, error=error()), failure(findings=(caused(says="a\nb"),)), verbosity=1)
    assert shown[1:4] == ["    f0()", "      _Z0", "      found: f0(int)"]
    assert not any("more (use -v" in line for line in shown)
    harmless = lines(package(), result(findings=(caused(effect=Effect.OVERRIDES), caused(1, Effect.NOTE))))
    assert [line for line in harmless if "[" in line] == ["warning[rule-0]: message 0", "note[rule-1]: message 1"]
    assert "  = fix: fix 1" not in harmless, "a note asks for nothing"


def test_no_more_findings_than_a_screen_has_room_for() -> None:
    many = failure(findings=tuple(caused(number) for number in range(8)))
    shown = lines(package(FAILS, error=error()), many)
    assert [line for line in shown if line.startswith("error[")] == [f"error[rule-{n}]: message {n}" for n in range(4)]
    assert shown[-1] == "… 4 more findings (use -v to show them)"
    assert len([line for line in lines(package(FAILS), many, verbosity=1) if line.startswith("error[")]) == 8
    # Whole findings are left out, never half of one; the first is always there.
    long = failure(findings=tuple(caused(number, says="x" * 159, message="m " * 900) for number in range(3)))
    huge = lines(package(FAILS, error=error()), long)
    assert (sum(line.startswith("error[") for line in huge), huge[-1]) == (3, "  = help: abiscan explain rule-2")
    tall = tuple(missing(number, told_text=f"text {number} {'y' * 150}") for number in range(30))
    crowded = lines(package(WITHOUT, libraries=(library(), *tall)), failure(findings=(caused(), caused(1))))
    assert [line for line in crowded if "[rule" in line] == ["warning[rule-0]: message 0"]
    assert crowded[-1] == "… 1 more finding (use -v to show them)"
    notes = failure(findings=(caused(), caused(1, Effect.NOTE)))
    assert not any("rule-1" in line for line in lines(package(FAILS, error=error()), notes)), "of a failure, no notes"


def test_files_with_the_same_finding_and_one_fix_for_several() -> None:
    paths = [f"pkg/_{number}.so" for number in range(6)]
    results = [failure(path=path, findings=(caused(),)) for path in paths]
    shown = lines(package(FAILS, error=error(), libraries=tuple(map(library, paths))), *results)
    assert "  = 6 files: pkg/_0.so, pkg/_1.so, pkg/_2.so, pkg/_3.so, and 2 more" in shown
    alike = failure(findings=tuple(caused(number, fix="mend it") for number in range(2)))
    shown = lines(package(FAILS, error=error()), alike)
    assert [line for line in shown if "fix" in line] == ["fix: mend it"]
    assert list(shared_fixes([caused(), caused(1), caused()])) == ["fix 0"]
    assert [line.plain for line in fix_lines({"a": (), "b": ("one", "two")})] == ["fix: a", "fix for one, two: b"]


def test_what_else_is_said_of_files() -> None:
    suppressed = (Suppressed(finding=caused(), reason="known"),)
    shown = lines(package(unread="half of it"), result(suppressed=suppressed, before_torch="libtorch.so: no"))
    assert shown[1:] == ["suppressed[rule-0]: message 0", "  = reason: known", "  = gap: half of it"]
    unused = package(libraries=(library(used=False),))
    assert lines(unused, result(suppressed=suppressed))[1:] == []
    verbose = lines(unused, result(suppressed=suppressed, before_torch="libtorch.so: no"), verbosity=1)
    assert "  = pkg/_C.so before import torch: ImportError: libtorch.so: no" in verbose
    assert "  pkg/_C.so: loads; import, pkg/__init__.py:3" in verbose
    unchecked = package(libraries=(library(verdict=None, loaded_at=None, convention="by its name"),))
    assert "  pkg/_C.so: not checked; import (by its name)" in lines(unchecked, verbosity=1)


def test_long_names_are_cut_only_where_nobody_asked_for_all() -> None:
    long = failure(findings=(caused(message="m" * 161),))
    assert f"error[rule-0]: {'m' * 159}…" in lines(package(FAILS, error=error()), long)
    assert f"error[rule-0]: {'m' * 161}" in lines(package(FAILS, error=error()), long, verbosity=1)
    fits = failure(findings=(caused(message="m" * 160),))
    assert f"error[rule-0]: {'m' * 160}" in lines(package(FAILS, error=error()), fits)


def test_the_table_of_several_answers() -> None:
    report = Report(
        results=(),
        packages=(
            package(FAILS, name="b", error=error()), package(name="aaa"), package(UNKNOWN, name="c"),
            package(FAILS, name="d" * 50, error=error(message="x" * 200)),
        ),
        unchecked=(Unchecked(target="text", problem="is no wheel", fix="", readable=True),
                   Unchecked(target="lost", problem="is truncated", fix="", readable=False)),
    )  # fmt: skip
    first, *rows = [line.plain for line in tally.list_lines(report)]
    assert first == "6 answers: 1 works, 2 import fails, 1 unknown, 1 nothing to check, 1 not checked"
    assert [row.split()[0] for row in rows] == ["✓", "✗", "✗", "?", "·", "!"], "the best first"
    assert rows[1].split(maxsplit=5)[:5] == ["✗", "b", "1.0", "on", "torch"]
    width = len("d" * 50 + " 1.0 on torch 2.9.1+cpu")
    assert rows[2].endswith("…")
    assert len(rows[2]) == 4 + width + 2 + 40, "at least 40 characters of the reason"
    assert not any(row.endswith(" ") for row in rows)


def survey(*entries: Any) -> SurveySummary:
    return SurveySummary.of(entries)


MANY = survey(
    *(entry(f"p{number:02}", "2.9.1", "fails", "1", exit_code=1, says=f"error {number:02}", rules=("a-rule",))
      for number in range(30)),
    entry("good", "2.9.1", "works", "1"),
)  # fmt: skip


def test_a_survey_on_a_terminal() -> None:
    stream = io.StringIO()
    survey_text.render_summary(MANY, Console(file=stream, width=200))
    shown = stream.getvalue().splitlines()
    assert shown[:4] == [
        "31 targets on 1 torch: 31 answers",
        "  ✓      1  works",
        "            good 1 on torch 2.9.1",
        "  ✗     30  fails",
    ]
    assert shown[4] == "            p00 1 on torch 2.9.1: error 00"
    assert shown[14:17] == [
        "            and 20 more",
        "commonest causes:",
        "       1  a-rule: error 00 (/wheels/p00-1.whl)",
    ]
    assert shown[-1] == "  and 20 more causes"
    assert len(shown) == 27


def test_a_target_of_a_survey_on_several_torches() -> None:
    releases = ("2.7.0", "2.8.0", "2.9.1", "folder")
    says = {"2.7.0": "one", "2.8.0": "two", "folder": "one"}
    summary = survey(*(entry("p", torch, "fails", "1", exit_code=1, says=says[torch]) for torch in says),
                     entry("p", "2.9.1", "works", "1", says="a warning"))  # fmt: skip
    assert set(summary.torches) == set(releases)
    stream = io.StringIO()
    survey_text.render_summary(summary, Console(file=stream, width=200))
    shown = stream.getvalue().splitlines()
    assert shown[0] == "1 target on 4 torches: 4 answers"
    assert "            p 1 on torch folder-2.8.0: one, and 1 other error" in shown
    assert "            p 1 on torch 2.9.1" in shown, "what works has no error"
    assert shown[-2:] == ["       2  one (/wheels/p-1.whl)", "       1  two (/wheels/p-1.whl)"]


def test_a_survey_as_markdown_has_the_commonest_causes() -> None:
    text = survey_markdown.render_markdown(MANY).splitlines()
    assert text[0] == "1 works, 30 fails"
    assert text[1:4] == ["", "| answers | rule | what users see | for example |", "|---:|---|---|---|"]
    assert text[4] == "| 1 | a-rule | `error 00` | `/wheels/p00-1.whl` |"
    assert (text[28], text[29:32]) == (
        "| 1 | a-rule | `error 24` | `/wheels/p24-1.whl` |",
        ["", "| target | 2.9.1 |", "|---|:-:|"],
    )
    assert len(text) == 32 + 31 + 2, "25 causes, and every target"
    plain = survey_markdown.render_markdown(survey(entry("good", "2.9.1", "works", "1"))).splitlines()
    assert plain[:4] == ["1 works", "", "| target | 2.9.1 |", "|---|:-:|"], "no table of causes without one"


def stability(state: Tie = Tie.STABLE, **fields: Any) -> Stability:
    base: dict[str, Any] = {
        "state": state, "minimum": None, "rebuilt": None, "deciding": (), "functions": (), "looked_up": (),
        "removed": (), "deprecated": (), "target_at_least": None, "target_below": None, "promised_until": None,
        "unused": (), "cuda": None, "cuda_releases": (), "counterparts": (),
    }  # fmt: skip
    return Stability(**{**base, **fields})


def ties(*rows: tuple[str, Stability], verbose: bool = False, compiled_with: str | None = None) -> list[str]:
    of_rows = tuple(
        StableRow(target="p.whl", path=path, stability=one, compiled_with=compiled_with) for path, one in rows
    )
    stream = io.StringIO()
    console = Console(file=stream, width=300, highlight=False)
    render_stability(StableReport(rows=of_rows, unchecked=()), console, verbose=verbose)
    return [line.strip() for line in stream.getvalue().splitlines()]


V = TorchVersion
FLAG = "-DTORCH_TARGET_VERSION=0x02{}000000000000"  # torch/headeronly/version.h


def test_an_extension_of_the_stable_abi() -> None:
    assert ties(("a.so", stability())) == ["p.whl", "a.so: stable, uses nothing of torch"]
    assert ties(("a.so", stability(removed=("f", "g")))) == ["p.whl", "a.so: stable, but torch has removed f, g"]
    new = stability(minimum=V("2.10.0"), rebuilt=V("2.9.0"), deciding=("f", "g", "h", "i"), looked_up=("l",),
                    deprecated=("a", "b", "c", "d"), unused=("libc10.so",), cuda="13",
                    cuda_releases=(V("2.9.0"), V("2.9.1"), V("2.10.0")), target_at_least=V("2.9.0"),
                    promised_until=(dt.date(2027, 1, 1), dt.date(2028, 2, 2)))  # fmt: skip
    nothing_newer = "it would use nothing newer than torch"
    assert ties(("a.so", new), compiled_with="2.10.0") == [
        "p.whl",
        "a.so: stable, torch 2.10 or newer",
        "new in torch 2.10: f, g, h, and 1 more",
        "compiled with the headers of torch 2.10.0; target version: 2.9 or newer, at most that",
        f"the target version decides this: compiled with {FLAG.format('09')}, {nothing_newer} 2.9",
        "looks up at run time, and works without: l",
        "torch promises to keep functions for two years: the oldest until 2027-01-01, the newest until 2028-02-02",
        "deprecated: a, b, c, d",
        "needs CUDA 13: torch 2.9.0-2.10.0",
        "uses nothing of libc10.so: link with -Wl,--as-needed",
    ]
    below = msgspec.structs.replace(new, target_below=V("2.10.0"), target_at_least=None, rebuilt=V("2.10.0"))
    shown = ties(("a.so", below), verbose=True, compiled_with="2.10.0")
    assert shown[2:4] == [
        "new in torch 2.10: f, g, h, i",
        "compiled with the headers of torch 2.10.0; target version: below 2.10",
    ]
    assert not any("decides this" in line for line in shown), "the same code needs the same release"
    none = stability(cuda="9", cuda_releases=())
    assert "needs CUDA 9: no known torch" in ties(("a.so", none))


def counterpart(
    symbol: str,
    means: Means | None,
    what: str | None,
    since: str | None = None,
    headers: str | None = None,
    group: str = "operators",
) -> Counterpart:
    return Counterpart(symbol=symbol, group=group, means=means, what=what, since=V(since) if since else None,
                       headers=V(headers) if headers else None)  # fmt: skip


def test_the_work_of_a_port() -> None:
    parts = (
        counterpart("_ZN2at3addEv", Means.OPERATOR, "aten::add", "2.10.0"),
        counterpart("_ZN2at3mulEv", Means.OPERATOR, "aten::mul", "2.9.0", "2.11.0"),
        counterpart("_ZN2at4goneEv", Means.NOTHING, None, group="others"),
        counterpart("_ZN2at3oddEv", None, None, group="unsorted"),
    )
    tied = stability(Tie.TIED, counterparts=parts)
    assert ties(("a.so", tied)) == [
        "p.whl",
        "a.so: tied, uses 4 symbols of C++ from torch",
        "50 %  operators: 2 symbols, operator: aten::add, aten::mul (torch 2.10, headers of 2.11)",
        "25 %  others: 1 symbol, nothing in the stable ABI",
        "25 %  unsorted: 1 symbol of no known kind",
        "a port would run on torch 2.10 or newer, if it can do without what has no counterpart",
        "4 symbols, 2 with a counterpart (50 %), 1 without a counterpart (25 %), 1 not classified (25 %)",
        f"compile it with {FLAG.format('0a')} and torch 2.11 or newer, whose headers have all of these",
    ]
    verbose = ties(("a.so", tied), verbose=True)
    assert "at::add() → aten::add" in verbose
    assert "at::gone()" in verbose
    mixed = stability(Tie.MIXED, counterparts=parts[:2], functions=("f",), minimum=V("2.9.0"))
    shown = ties(("a.so", mixed))
    assert shown[1:3] == ["a.so: mixed, uses 2 symbols of C++ from torch, and 1 function of the stable ABI",
                          "tied by at::add(), at::mul()"]  # fmt: skip
    assert not any("without what" in line for line in shown)
    assert not any(line.startswith("tied by") for line in ties(("a.so", mixed), verbose=True))


def test_extensions_of_which_the_same_is_said_share_a_paragraph() -> None:
    rows = [(f"{name}.so", stability()) for name in "abcd"]
    shown = ties(*rows)
    assert shown[:2] == ["p.whl", "a.so, b.so, and 2 more: stable, uses nothing of torch"]
    assert shown[2].startswith("in all: ")
    assert ties(*rows, verbose=True)[1] == "a.so, b.so, c.so, d.so: stable, uses nothing of torch"
    two = ties(("a.so", stability(minimum=V("2.10.0"), rebuilt=V("2.9.0"))), ("b.so", stability(minimum=V("2.9.0"))))
    assert two[-1] == "compiled with -DTORCH_TARGET_VERSION=0x0209000000000000: torch 2.9 or newer"


def test_evidence_that_is_its_own_translation() -> None:
    evidence = (Evidence(subject="libfoo.so", readable="libfoo.so"),)
    shown = lines(package(FAILS, error=error()), failure(findings=(caused(evidence=evidence),)), verbosity=1)
    assert [line for line in shown if "libfoo" in line] == ["    libfoo.so"]
