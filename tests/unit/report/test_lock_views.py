"""What is said about a lock, and about an update of it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from abiscan.report.github import render_lock_annotations
from abiscan.report.lock_markdown import render_lock_markdown
from abiscan.report.lock_text import change_sentence, comparison_lines, render_comparison, render_fit, render_lock
from abiscan.results.doctor import DistributionState, Origin, TorchHealth
from abiscan.results.lock import (
    LockComparison,
    LockedState,
    LockFit,
    LockReport,
    OutcomeChange,
    VersionChange,
    count_verdicts,
)
from abiscan.results.package import PackageVerdict

WORKS, FAILS = PackageVerdict.WORKS, PackageVerdict.IMPORT_FAILS
TORCH = VersionChange(name="torch", before="2.8.0", after="2.9.1")
EVERYWHERE = ("Python 3.11 on linux_x86_64", "Python 3.12 on linux_x86_64")


def text_of(render: object, result: object) -> list[str]:
    stream = io.StringIO()
    render(result, Console(file=stream, width=80))  # type: ignore[operator]
    return stream.getvalue().splitlines()


def fit(**changes: object) -> LockFit:
    fields: dict[str, object] = {"torch": "2.9.1", "broken": (), "changes": (), "unknown": (), "command": None}
    return LockFit(lock="uv.lock", **{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (fit(), ["everything works with torch 2.9.1: nothing has to change"]),
        (fit(torch=None), ["everything works without torch: nothing has to change"]),
        (
            fit(unknown=("a 1.0: cut",)),
            ["nothing is known to fail with torch 2.9.1: nothing has to change", "not known: a 1.0: cut"],
        ),
        (fit(broken=("a 1.0 fails",), obstacle="no version fits"), ["a 1.0 fails", "no version fits"]),
        (
            fit(broken=("a 1.0 fails",), changes=(TORCH,), command="uv lock --upgrade-package torch==2.9.1"),
            [
                *("a 1.0 fails", "with torch 2.9.1:", "  torch 2.8.0 -> 2.9.1", ""),
                "uv lock --upgrade-package torch==2.9.1",
            ],
        ),
    ],
)
def test_what_has_to_change(result: LockFit, lines: list[str]) -> None:
    assert text_of(render_fit, result) == lines


def comparison(**changes: object) -> LockComparison:
    fields = dict.fromkeys(("worse", "better", "still", "unknown", "changes"), ())
    return LockComparison(
        old="a",
        new="b",
        **{"torch": None, "environments": EVERYWHERE, **fields, **changes},  # type: ignore[arg-type]
    )


def change(before: PackageVerdict | None, after: PackageVerdict | None, **more: object) -> OutcomeChange:
    fields = {"error": None, "environments": EVERYWHERE, **more}
    return OutcomeChange(name="pkg", version="1.0", before=before, after=after, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (change(WORKS, FAILS), "pkg 1.0 no longer loads"),
        (change(None, FAILS), "pkg 1.0 does not load"),
        (change(WORKS, None), "pkg 1.0 is gone"),
        (change(FAILS, WORKS, environments=EVERYWHERE[:1]), "pkg 1.0 works (Python 3.11 on linux_x86_64)"),
        (change(WORKS, PackageVerdict.CORRUPTS), "pkg 1.0 corrupts memory"),
    ],
)
def test_what_an_update_does(item: OutcomeChange, sentence: str) -> None:
    assert change_sentence(item, comparison()) == sentence
    assert change_sentence(item, comparison(torch=TORCH)) == f"torch 2.8.0 -> 2.9.1: {sentence}"


def test_errors_are_those_that_remain() -> None:
    worse = change(WORKS, FAILS, error="OSError: x\nmore", cause="vision")
    better = change(FAILS, WORKS, error="OSError: y")
    assert list(comparison_lines(comparison(worse=(worse,), better=(better,)))) == [
        "worse: pkg 1.0 no longer loads",
        "  because of vision: OSError: x",
        "better: pkg 1.0 works",
    ]


def test_an_update_that_changes_nothing_says_so() -> None:
    silent = "nothing that uses torch becomes better or worse"
    still = change(FAILS, FAILS, error="OSError")
    assert text_of(render_comparison, comparison(changes=(TORCH,))) == [silent, "  torch 2.8.0 -> 2.9.1"]
    assert silent in text_of(render_comparison, comparison(still=(still,)))
    for name in ("worse", "better", "unknown"):
        assert silent not in text_of(render_comparison, comparison(**{name: (still,)}))


def locked(
    python: str, *distributions: DistributionState, torch: str | None = "2.9.1", **health: object
) -> LockedState:
    return LockedState(
        python=python,
        platform="linux_x86_64",
        torch=TorchHealth(version=torch, **{"imports": True, **health}),  # type: ignore[arg-type]
        judged_as=torch,
        distributions=distributions,
        process=(),
        counts=count_verdicts(distributions),
    )


def distribution(verdict: PackageVerdict, **changes: object) -> DistributionState:
    return DistributionState(
        name="pkg",
        version="1.0",
        origin=Origin.INDEX,
        verdict=verdict,
        modules=(),
        **changes,  # type: ignore[arg-type]
    )


def test_environments_with_the_same_answer_are_shown_once() -> None:
    works, fails = distribution(WORKS), distribution(FAILS, error="OSError: x\nmore", unmet=("pkg requires y",))
    without = distribution(PackageVerdict.WORKS_WITHOUT, without=("a.so", "b.so"))
    states = (
        locked("3.10", works),
        locked("3.11", works),
        locked("3.12", distribution(FAILS, error="OSError: y", cause="vision")),
        locked("3.13", fails, torch=None),
        locked("3.14", without, imports=False, error="OSError: z"),
    )
    assert text_of(render_lock, LockReport(lock="uv.lock", environments=states)) == [
        "Python 3.10 on linux_x86_64, Python 3.11 on linux_x86_64, torch 2.9.1: 1 distribution uses torch: 1 works",
        "  ✓ pkg 1.0",
        "Python 3.12 on linux_x86_64, torch 2.9.1: 1 distribution uses torch: 1 fails",
        "  ✗ pkg 1.0  fails for vision: OSError: y",
        "Python 3.13 on linux_x86_64, no torch: 1 distribution uses torch: 1 fails",
        "  ✗ pkg 1.0  OSError: x",
        "  pkg requires y",
        "Python 3.14 on linux_x86_64, torch 2.9.1: 1 distribution uses torch: 1 without a part",
        "  torch itself cannot be imported: OSError: z",
        "  ◐ pkg 1.0  a.so, b.so",
    ]


def test_a_lock_in_markdown_has_a_row_for_each_distribution_and_environment() -> None:
    fails = distribution(FAILS, error="OSError: x\nmore")
    states = (locked("3.10", distribution(WORKS), fails), locked("3.13", fails, torch=None))
    assert render_lock_markdown(LockReport(lock="uv.lock", environments=states)).splitlines()[2:] == [
        "| Python 3.10 on linux\\_x86\\_64 | 2.9.1 | `pkg==1.0` | works |  |",
        "| Python 3.10 on linux\\_x86\\_64 | 2.9.1 | `pkg==1.0` | import-fails | `OSError: x` |",
        "| Python 3.13 on linux\\_x86\\_64 | - | `pkg==1.0` | import-fails | `OSError: x` |",
    ]


def test_an_update_has_annotations_for_what_is_worse_or_unknown() -> None:
    def change(name: str, after: PackageVerdict) -> OutcomeChange:
        error = f"OSError: {name}\nmore"
        return OutcomeChange(name=name, version="1", before=WORKS, after=after, error=error, environments=EVERYWHERE)

    update = comparison(worse=(change("a", FAILS),), unknown=(change("b", PackageVerdict.UNKNOWN),))
    error, warning = (line for line in render_lock_annotations(update).splitlines() if line.startswith("::"))
    assert error.startswith("::error file=")
    assert warning.startswith("::warning file=")
    for line, name in ((error, "a"), (warning, "b")):
        assert f"title=abiscan {name}::" in line
        assert line.endswith(f"%0AOSError: {name}")


def test_the_worst_environment_decides() -> None:
    works, unknown, fails = (
        locked("3.10", distribution(verdict)) for verdict in (WORKS, PackageVerdict.UNKNOWN, PackageVerdict.CORRUPTS)
    )
    broken = locked("3.10", distribution(WORKS), imports=False)
    for states, code in (((works,), 0), ((works, unknown), 3), ((unknown, fails, works), 1), ((broken,), 1), ((), 0)):
        assert LockReport(lock="uv.lock", environments=states).exit_code == code
