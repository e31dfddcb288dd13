"""Extensions that do nothing but register, built for each minor release from 1.4 to 1.13 and really loaded into all.

``tools/record_registering.py`` builds them and records the loads.
"""

from __future__ import annotations

import itertools
import json
import tarfile
from pathlib import Path
from typing import Final

import pytest

from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion
from abiscan.pipelines.check import check_targets
from abiscan.results.check import Result
from abiscan.results.verdict import How, Verdict
from abiscan.rules import RULES
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict.torch_set import CheckRequest

FOLDER: Final = Path(__file__).parent / "registering"
LOADS: Final[dict[str, dict[str, str]]] = json.loads((FOLDER / "loads.json").read_text("utf-8"))
RELEASES: Final = sorted({release for loads in LOADS.values() for release in loads}, key=TorchVersion)


OTHERWISE: Final = {
    ("1.5.0/inferred.so", "1.5.0"): "a check of torch 1.5 that is not modelled",
    ("1.5.0/inferred.so", "1.5.1"): "a check of torch 1.5 that is not modelled",
    ("1.12.1/operators.so", "1.11.0"): "undefined behaviour that does no harm in this load",
}
"""What is not predicted as it was recorded, and why."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    with tarfile.open(FOLDER / "samples.tar.xz") as archive:
        archive.extractall(folder)
    return folder


def predict(samples: Path, name: str, releases: list[str]) -> dict[str, Result]:
    choices = tuple(map(ReleaseNumber, releases))
    request = CheckRequest(targets=(samples / name,), torches=choices, rules=tuple(RULES))
    report = check_targets(request, Session(folder=samples / "cache"))
    return dict(zip(releases, report.results, strict=True))


def agrees(result: Result, real: str) -> bool:
    """Whether a prediction is what happened; where it depends on what the file was built for, a gap has to say so."""
    if result.verdict is Verdict.UNKNOWN:
        return bool(result.gaps)
    if result.verdict is Verdict.LOADS:
        return real == "loads" or any(gap.stage == "layouts" for gap in result.gaps)
    error = result.predicted_error
    return error is not None and real != "loads" and (error.how is How.ABORTS) == real.startswith("SIG")


def near(release: str) -> list[str]:
    """The releases of the same minor version and of those beside it; all for 1.6, that of the issue."""
    minors = [minor for minor, _ in itertools.groupby(RELEASES, key=minor_of)]
    position = minors.index(minor_of(release))
    beside = minors[max(position - 1, 0) : position + 2] if release != "1.6.0" else minors
    return [other for other in RELEASES if minor_of(other) in beside]


def minor_of(release: str) -> str:
    return release.rpartition(".")[0]


@pytest.mark.parametrize(
    ("name", "release", "real"),
    [
        ("1.6.0/backend.so", "1.7.1", "loads"),
        ("1.6.0/backend.so", "1.8.1", "SIGSEGV"),
        ("1.6.0/operators.so", "1.7.1", "loads"),
        ("1.6.0/custom_class.so", "1.7.1", "SIGSEGV"),
        ("1.6.0/inferred.so", "1.7.1", "SIGABRT"),
    ],
)
def test_what_is_built_for_1_6(samples: Path, name: str, release: str, real: str) -> None:
    assert LOADS[name][release] == real
    result = predict(samples, name, [release])[release]
    assert (result.verdict is Verdict.LOADS) == (real == "loads")
    assert ("layout-drift" in {finding.rule for finding in result.findings if finding.effect.value == "aborts"}) == (
        real != "loads"
    )


OFTEN: Final = frozenset({"1.4.0", "1.12.1"})
"""What is built for the first release and for the last but one."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [name if name.partition("/")[0] in OFTEN else pytest.param(name, marks=pytest.mark.long) for name in LOADS],
)
def test_every_pair_of_neighbours(name: str, samples: Path) -> None:
    loads = LOADS[name]
    results = predict(samples, name, [other for other in near(name.partition("/")[0]) if other in loads])
    wrong = {other for other, result in results.items() if not agrees(result, loads[other])}
    assert wrong == {other for sample, other in OTHERWISE if sample == name}
