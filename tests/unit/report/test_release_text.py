"""The verdict on a release, as text."""

from __future__ import annotations

from typing import Any

import pytest

from abiscan.findings import Effect
from abiscan.report.line import StyledLine
from abiscan.report.release_text import render_release
from abiscan.results.release import ReleaseProblem, ReleaseReport, ReleaseWheel


class Lines:
    """A page that keeps what is printed on it."""

    width = 80
    is_terminal = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def print(self, *objects: Any, soft_wrap: bool | None = None) -> None:
        (line,) = objects
        assert isinstance(line, StyledLine)
        assert soft_wrap or not line.plain, "a line of a report is never broken"
        self.lines.append(line.plain)


def wheel(**fields: Any) -> ReleaseWheel:
    known: dict[str, Any] = {
        "target": "dist/a.whl",
        "name": "a",
        "version": "1.0",
        "python": "cp311-cp311",
        "platform": "manylinux_2_28_x86_64",
        "machine": "x86_64",
        "declared": "torch>=2.8",
        "works_on": ["2.8.0", "2.9.0", "2.9.1"],
        "unknown_on": [],
        "glibc": "2.28",
        "stable_abi": None,
        "minimum_torch": None,
        "gpus": [],
        "operators": [],
        "problems": [],
    }
    return ReleaseWheel(**{**known, **fields})


def problem(effect: Effect, rule: str | None = "a-rule") -> ReleaseProblem:
    return ReleaseProblem(rule=rule, effect=effect, message="it is so", fix="mend it")


def shown(*wheels: ReleaseWheel, fail_on: Effect = Effect.CALL_FAILS, **fields: Any) -> list[str]:
    page = Lines()
    render_release(ReleaseReport(wheels=wheels, **{"problems": (), **fields}), page, fail_on)
    return page.lines


def test_a_wheel_that_is_ready() -> None:
    assert shown(wheel()) == [
        "dist/a.whl",
        "  torch: works on 2.8.0-2.9.1; requires torch>=2.8",
        "  system: needs glibc 2.28; tagged manylinux_2_28_x86_64",
        "",
        "ready: 1 wheel",
    ]


def test_all_that_may_be_known_of_a_wheel() -> None:
    gpus = [f"sm_{number}" for number in range(10)]
    lines = shown(
        wheel(works_on=[], declared=None, unknown_on=["2.9.1"], glibc=None, stable_abi="tied to torch", gpus=gpus),
        wheel(requires_dist="torch>=2.8", tags="cp311-cp311-linux_x86_64", stamp="abiscan stamp", written="b.whl"),
        against=("old.whl", "older.whl"),
    )
    assert lines[1:6] == [
        "  torch: works on no release; requires no torch",
        "  torch: unknown on 2.9.1",
        "  system: needs no particular glibc; tagged manylinux_2_28_x86_64",
        "  stable ABI: tied to torch",
        "  GPUs: sm_0, sm_1, sm_2, sm_3, sm_4, sm_5, sm_6, sm_7, and 2 more",
    ]
    assert lines[10:14] == [
        "write: Requires-Dist: torch>=2.8",
        "write: Tag: cp311-cp311-linux_x86_64",
        "write: abiscan stamp",
        "written: b.whl",
    ]
    assert lines[-1].endswith(": 2 wheels, compared with 2 wheels")


@pytest.mark.parametrize(
    ("effect", "fail_on", "label"),
    [
        (Effect.LOAD_FAILS, Effect.CALL_FAILS, "error"),
        (Effect.CALL_FAILS, Effect.CALL_FAILS, "error"),
        (Effect.CALL_FAILS, Effect.LOAD_FAILS, "warning"),
        (Effect.NOTE, Effect.CALL_FAILS, "warning"),
    ],
)
def test_what_is_as_bad_as_the_limit_is_an_error(effect: Effect, fail_on: Effect, label: str) -> None:
    of_wheel = shown(wheel(problems=[problem(effect)]), fail_on=fail_on)
    assert of_wheel[3:5] == [f"{label}[a-rule]: it is so", "  = fix: mend it"]
    assert of_wheel[-1].startswith("not ready" if label == "error" else "ready")
    of_all = shown(wheel(), problems=(problem(effect, None),), fail_on=fail_on)
    assert of_all[4:6] == [f"{label}: it is so", "  = fix: mend it"]
    assert of_all[-1].startswith("not ready" if label == "error" else "ready")
