from __future__ import annotations

import io

import pytest
from rich.console import Console

from abiscan.findings import Effect, Evidence
from abiscan.gaps import Gap
from abiscan.report.text import render_report
from abiscan.results.answers import answers_of
from abiscan.results.check import Report, Result
from abiscan.results.needs import VersionNeeds
from abiscan.results.unchecked import Unchecked
from abiscan.results.verdict import How, PredictedError, Verdict
from tests.unit.report.reports import failure, finding, result


def shown(*results: Result, verbosity: int = 0, color: bool = False) -> str:
    return shown_report(Report(results=results), verbosity=verbosity, color=color)


def shown_report(report: Report, *, verbosity: int = 0, color: bool = False) -> str:
    stream = io.StringIO()
    render_report(report, Console(file=stream, highlight=False, force_terminal=color), verbosity=verbosity)
    return stream.getvalue()


def test_a_finding_and_the_verdict() -> None:
    assert shown(failure(findings=(finding(),))) == (
        "pkg.whl: pkg/_C.so: fails on torch 2.9.1+cpu - _C.so: undefined symbol: f\n"
        "error[a-rule]: it is so\n"
        "    f0()  (_C.so)\n"
        "      _Z0\n"
        "      found: f0(int)\n"
        "  = effect: load-fails\n"
        "  = fix: mend it\n"
        "  = help: abiscan explain a-rule\n"
    )


def test_a_note_is_not_called_an_error() -> None:
    assert shown(result(findings=(finding(Effect.NOTE),))).splitlines()[1] == "note[a-rule]: it is so"


def test_evidence_that_needs_no_translation_stands_alone() -> None:
    evidence = (Evidence(subject="libfoo.so", readable="libfoo.so"), Evidence(subject="libbar.so"))
    lines = shown(result(findings=(finding(evidence=evidence),))).splitlines()
    assert lines[2:4] == ["    libfoo.so", "    libbar.so"]


def test_evidence_is_capped() -> None:
    text = shown(failure(findings=(finding(proofs=15),)))
    assert "    … 12 more (use -v to show them)\n" in text
    assert ("f2()" in text, "f3()" in text) == (True, False)
    everything = shown(failure(findings=(finding(proofs=15),)), verbosity=1)
    assert "f14()" in everything
    assert "more, -v" not in everything


def test_quiet_shows_the_verdicts_alone() -> None:
    text = shown(failure(findings=(finding(),), gaps=(Gap(stage="elf", reason="x"),)), result(), verbosity=-1)
    assert text == (
        "pkg.whl: pkg/_C.so: fails on torch 2.9.1+cpu - _C.so: undefined symbol: f\n"
        "pkg.whl: pkg/_C.so: loads on torch 2.9.1+cpu\n"
    )


def test_results_are_set_apart() -> None:
    assert shown(result(), result()).splitlines()[1] == ""


def test_gaps_show_when_asked_for_or_when_they_are_the_reason() -> None:
    gap = Gap(stage="elf", reason="cut off")
    assert "gap" not in shown(result(gaps=(gap,)))
    assert "gap[elf]: cut off\n" in shown(result(gaps=(gap,)), verbosity=1)
    unknown = shown(result(gaps=(gap,), verdict=Verdict.UNKNOWN))
    assert unknown == "pkg.whl: pkg/_C.so: unknown on torch 2.9.1+cpu\ngap[elf]: cut off\n"


def test_a_file_is_not_named_twice() -> None:
    assert shown(result(target="build/_C.so", path="_C.so")) == "build/_C.so: loads on torch 2.9.1+cpu\n"


def test_an_error_without_an_object() -> None:
    error = PredictedError(how=How.RAISES, object=None, message="libx.so: cannot open")
    assert shown(failure(predicted_error=error)).endswith("fails on torch 2.9.1+cpu - libx.so: cannot open\n")


def test_what_is_assumed_is_said() -> None:
    text = shown(result(external=("liba.so", "libb.so"), torch=None, torch_build=None))
    expected = "loads on this torch if liba.so, libb.so can be found at run time\n"
    assert text.endswith(expected)


def test_long_lines_are_not_broken() -> None:
    symbol = "_Z" + "x" * 500
    assert symbol in shown(failure(findings=(finding(evidence=(Evidence(subject=symbol),)),)))


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
@pytest.mark.parametrize("color", [False, True])
def test_names_in_a_hostile_file_do_not_steer_the_terminal(verbosity: int, color: bool) -> None:
    evil = "\x1b[2J\x07\r\n\x9b31m\x7f\t[bold]"
    hostile = failure(
        target=evil,
        path=evil,
        predicted_error=PredictedError(how=How.RAISES, object=evil, message=evil),
        external=(evil,),
        findings=(
            finding(
                message=evil, fix=evil, evidence=(Evidence(subject=evil, readable="f", object=evil, instead=evil),)
            ),
        ),
        gaps=(Gap(stage="elf", reason=evil),),
    )
    text = shown(hostile, result(target=evil, external=(evil,)), verbosity=verbosity, color=color)
    assert not {"\x1b[2J", "\x07", "\r", "\x9b", "\x7f", "\t"} & {
        text[i : i + n] for i in range(len(text)) for n in (1, 4)
    }
    assert r"\x1b[2J\x07\x0d\x0a\x9b31m\x7f\x09[bold]" in text


def test_color_is_for_terminals() -> None:
    assert "\x1b[" not in shown(failure(findings=(finding(),)))
    assert "\x1b[" in shown(failure(findings=(finding(),)), color=True)


def test_a_fix_that_findings_share_is_said_once_at_the_end() -> None:
    lines = shown(
        failure(findings=(finding(), finding(rule="b-rule"), finding(rule="c-rule", fix="other")))
    ).splitlines()
    assert [line for line in lines if "fix" in line] == ["  = fix: other", "fix for a-rule, b-rule: mend it"]
    assert lines[-1] == "fix for a-rule, b-rule: mend it"
    alone = shown(failure(findings=(finding(), finding(rule="b-rule")))).splitlines()
    assert alone[-1] == "fix: mend it"


def test_several_targets_end_in_a_table_with_counts_the_best_first() -> None:
    unread = Unchecked(target="x.whl", problem="not a readable wheel", fix="", readable=False)
    report = Report(results=(failure(), result(target="good.so", path="good.so")), unchecked=(unread,))
    lines = shown_report(report).splitlines()
    assert lines[-4:] == [
        "3 answers: 1 loads, 1 fails, 1 not checked",
        "  ✓ good.so on torch 2.9.1+cpu             loads",
        "  ✗ pkg.whl: pkg/_C.so on torch 2.9.1+cpu  fails: _C.so: undefined symbol: f",
        "  ! x.whl                                  not a readable wheel",
    ]


def test_names_in_the_table_are_whole_and_have_a_verdict() -> None:
    path = f"{'a' * 60}/{'b' * 60}.so"
    lines = shown_report(Report(results=(failure(target=path, path=path), result()))).splitlines()
    assert lines[-1] == f"  ✗ {path} on torch 2.9.1+cpu  fails: _C.so: undefined symbol: f"


def test_one_target_has_no_table() -> None:
    assert "answer" not in shown(failure())
    assert "answer" not in shown(failure(), result(), verbosity=-1)


@pytest.mark.parametrize(
    ("needs", "line"),
    [
        (
            VersionNeeds(glibc="2.34", glibcxx="3.4.30", cxxabi="1.3.13"),
            "  = needs glibc 2.34, GLIBCXX_3.4.30 (GCC 12)\n",
        ),
        (
            VersionNeeds(glibc="2.14", glibcxx="3.4.21", cxxabi="1.3.15"),
            "  = needs glibc 2.14, CXXABI_1.3.15 (GCC 14)\n",
        ),
        (VersionNeeds(glibc="2.38", glibcxx=None, cxxabi=None), "  = needs glibc 2.38\n"),
        (VersionNeeds(glibc="2.17", glibcxx="3.4.19", cxxabi="1.3.7"), ""),  # what every system for torch has
    ],
)
def test_what_a_file_needs_of_a_system_that_is_not_known(needs: VersionNeeds, line: str) -> None:
    verdict = shown(result())
    assert shown(result(needs=needs)) == verdict + line
    assert shown(result(needs=needs, here=True)) == verdict
    named = Report(results=(result(needs=needs),), system={"name": "debian12", "glibc": "2.36"})
    assert shown_report(named) == verdict


def test_the_fix_of_an_answer_is_that_of_its_finding() -> None:
    broken = finding(fix="install another build")
    report = Report(results=(failure(findings=(broken,)), result()))
    assert [answer.fix for answer in answers_of(report)] == ["install another build", None]
