"""The recorded loads of released wheels, by ``tools/ground_truth.py``.

Those of the wheels in ``tests/data/wheels`` need no download. For all others, set ``ABISCAN_CORPUS`` to a folder for
the wheels, which are downloaded into it.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec.structs
import pytest
from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.extension.built_for import infer_built_for
from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.inputs.sources import read_target
from abiscan.pipelines.matrix import make_matrix
from abiscan.results.check import Result
from abiscan.results.verdict import How, PredictedError, Verdict
from abiscan.rules import RULES
from abiscan.torches.embedded import SITE
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict.torch_set import CheckRequest
from tests import live_torch
from tests.elf_builder import Elf, exports, uses
from tests.fakes import extension, wheel
from tests.oracle import corpus
from tests.oracle.corpus import needs_corpus, shared_work  # noqa: F401
from tests.oracle.test_samples import TORCH
from tests.unit.report.reports import failure, result
from tools import ground_truth

RECORDED: Final = f"{TORCH}+cpu"
SMALL_WHEELS: Final = Path(__file__).parents[1] / "data" / "wheels"
SMALL: Final = ("tensordict-0.6.2", "torch-c-dlpack-ext-0.1.5", "torchaudio-2.9.1-aarch64")
LARGE: Final = tuple(f"intel-extension-for-pytorch-{version}" for version in ("2.6.0", "2.7.0", "2.8.0"))
"""Releases whose libraries take half of the time of all wheels; ``test_registrations.py`` has the last one, too."""
either_size = pytest.mark.parametrize("is_large", [False, pytest.param(True, marks=pytest.mark.long)])


def test_every_recorded_load_of_a_small_wheel_is_predicted_without_downloads(tmp_path: Path) -> None:
    folder = shutil.copytree(SMALL_WHEELS, tmp_path / "wheels")
    pairs = [pair for pair in ground_truth.recorded() if pair.corpus in SMALL]
    assert {pair.torch for pair in pairs} == {"2.6.0", "2.8.0", "2.9.1", "2.13.0", "2.14.1"}
    assert len(pairs) == 4 * (1 + 12) + 3 * 2
    assert ground_truth.disagreeing(pairs, folder, embedded=True) == {}


def test_wheels_are_fetched_together_but_for_versions_of_one_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = list[set[str]]()
    monkeypatch.setattr(ground_truth, "download_together", lambda names, _folder, _machine: runs.append(set(names)))
    (tmp_path / "b-1-py3-none-any.whl").touch()
    ground_truth.fetch(((name, version, Machine.X86_64) for name in "abc" for version in "12"), tmp_path)
    assert runs == [{"a==2", "b==2", "c==2"}, {"a==1", "c==1"}]


@needs_corpus
@either_size
@pytest.mark.skipif(live_torch.build() != RECORDED, reason=f"needs torch {RECORDED}; here is {live_torch.build()}")
def test_every_recorded_load_is_predicted(is_large: bool) -> None:
    pairs = [pair for pair in recorded_of(is_large) if pair.torch == TORCH]
    assert len(pairs) > (5 if is_large else 50)
    wrong = {
        f"{pair.corpus} {pair.path}": found
        for pair, predicted in corpus.predictions(pairs)
        if (found := ground_truth.differences(pair, predicted))
    }
    assert wrong == {}


def recorded_of(is_large: bool) -> list[ground_truth.Pair]:
    return [pair for pair in ground_truth.recorded() if (pair.corpus in LARGE) is is_large]


@needs_corpus
@pytest.mark.long  # those of the small wheels are above
def test_every_recorded_load_is_predicted_from_the_release_number_alone() -> None:
    pairs = ground_truth.recorded()
    shipped = shipped_by(pairs)
    wrong = {
        f"{pair.corpus} {pair.path} on torch {pair.torch}": found
        for pair, predicted in corpus.predictions(pairs, embedded=True)
        if (found := ground_truth.differences(pair, predicted, embedded=True, shipped=shipped[pair.corpus]))
    }
    assert wrong == {}


def shipped_by(pairs: Sequence[ground_truth.Pair]) -> dict[str, frozenset[str]]:
    targets = ground_truth.targets_of(pairs, corpus.folder())
    return {name: ground_truth.shipped_in(target) for name, target in targets.items()}


def in_matrix(pairs: Sequence[ground_truth.Pair], folder: Path, torches: Sequence[str]) -> dict[str, list[str]]:
    """What the matrix of the wheels of these pairs has otherwise than the record."""
    targets = ground_truth.targets_of(pairs, folder)
    request = CheckRequest(
        targets=tuple(targets.values()),
        torches=tuple(map(ReleaseNumber, torches)),
        rules=tuple(RULES),
        each_file=True,  # as was recorded
    )
    found = make_matrix(request, Session(folder=folder / "cache"), with_suggestions=False)
    rows = {(row.target, row.path): row for row in found.rows}
    shipped = {name: ground_truth.shipped_in(target) for name, target in targets.items()}
    compared = {
        f"{pair.corpus} {pair.path} on torch {pair.torch}": ground_truth.differences(
            pair,
            rows[str(targets[pair.corpus]), pair.path].results[pair.torch],
            embedded=True,
            shipped=shipped[pair.corpus],
        )
        for pair in pairs
    }
    return {name: differences for name, differences in compared.items() if differences}


@needs_corpus
@pytest.mark.long
def test_the_matrix_of_each_wheel_has_every_recorded_verdict_and_error() -> None:
    pairs = ground_truth.recorded()
    assert in_matrix(pairs, corpus.folder(), sorted({pair.torch for pair in pairs})) == {}


def test_the_matrix_of_all_releases_has_the_recorded_ones(tmp_path: Path) -> None:
    folder = shutil.copytree(SMALL_WHEELS, tmp_path / "wheels")
    pairs = [pair for pair in ground_truth.recorded() if pair.corpus in SMALL]
    assert in_matrix(pairs, folder, ()) == {}


# What each release of a package was built for, as its authors say: its requirement, and the notes of its release.
BUILT_FOR: Final = {
    "torchvision-0.20.1": "2.5.1",
    "torchvision-0.21.0": "2.6.0",
    "torchvision-0.23.0": "2.8.0",
    "torchvision-0.24.1": "2.9.1",
    "torchvision-0.28.0": "2.13.0",
    "torchaudio-2.5.1": "2.5.1",
    "torchaudio-2.6.0": "2.6.0",
    "torchaudio-2.8.0": "2.8.0",
    "torchaudio-2.9.1": "2.9.1",
    "intel-extension-for-pytorch-2.6.0": "2.6.0",
    "intel-extension-for-pytorch-2.7.0": "2.7.0",
    "intel-extension-for-pytorch-2.8.0": "2.8.0",
}


@needs_corpus
@pytest.mark.parametrize("metadata", [True, False], ids=["with metadata", "without"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LARGE else name for name in BUILT_FOR]
)
def test_the_release_that_a_wheel_was_built_for(name: str, metadata: bool) -> None:
    target = read_target(corpus.wheel(name), Files(), SITE, f"{SITE}/torch")
    assert target.metadata is not None
    if not metadata:
        nothing = msgspec.structs.replace(target.metadata, requires_torch=None, torch_in_version=None)
        target = msgspec.structs.replace(target, metadata=nothing)
    pinned = metadata and target.metadata is not None and target.metadata.requires_torch is not None
    meant = Version(BUILT_FOR[name])
    for path, found in infer_built_for(target).items():
        assert meant in found.releases, path
        # What the bytes alone leave open are patch releases, between which no header and no export changed.
        assert {each.release[:2] for each in found.releases} == {meant.release[:2]}, path
        if pinned:
            assert found.releases == (meant,), path


def test_the_record_has_both_verdicts_and_all_releases() -> None:
    pairs = ground_truth.recorded()
    assert len(pairs) == 325 + 240 + 120
    assert {pair.torch for pair in pairs} == {"2.5.1", "2.6.0", "2.8.0", "2.9.1", "2.13.0", "2.14.1"}
    assert {pair.verdict for pair in pairs} >= {"loads", "fails"}
    assert all((pair.verdict == "fails") == bool(pair.message or pair.signal) for pair in pairs)
    assert {pair.signal for pair in pairs} == {None, "SIGSEGV", "SIGABRT"}
    on = {machine: [pair for pair in pairs if pair.machine is machine] for machine in Machine}
    assert [sum(pair.signal is not None for pair in on[machine]) for machine in Machine] == [3, 5]
    assert all((pair.sha256 is None) == (pair.undefined is None) == pair.alone for pair in pairs)
    assert all(pair.alone == (pair.machine is Machine.AARCH64) for pair in pairs)
    others = {library.partition("/")[0] for pair in pairs for library in pair.other_wheels}
    assert others == {"metatensor_core-0.1.20", "metatensor_core-0.2.6"}


def test_libraries_of_other_wheels_lie_next_to_the_wheel(tmp_path: Path) -> None:
    """As on the recorded search path: what they export is there, and so not undefined."""
    needing = extension(needed=("libtorch_cpu.so", "libother.so"), undefined=uses("from_other")).build()
    other = Elf(soname="libother.so", defined=exports("from_other")).build()
    wheel(tmp_path / "pkg-1.0-py3-none-any.whl", {"pkg/_C.so": needing})
    wheel(tmp_path / "other_core-2.0-py3-none-any.whl", {"other/lib/libother.so": other})
    alone = recorded(path="pkg/_C.so", other_wheels=())
    together = recorded(path="pkg/_C.so", other_wheels=("other_core-2.0/other/lib/libother.so",))
    external = [
        result.external
        for pair in (alone, together)
        for _, result in ground_truth.predict([pair], tmp_path, embedded=True)
    ]
    assert external == [("libother.so",), ()]


def recorded(**changes: Any) -> Any:
    fields: dict[str, Any] = {
        "package": "pkg",
        "version": "1.0",
        "path": "pkg/_C.so",
        "machine": Machine.X86_64,
        "sha256": "0" * 64,
        "torch": "2.9.1",
        "verdict": "fails",
        "object": "_C.so",
        "message": "undefined symbol: f",
        "signal": None,
        "undefined": frozenset({"f"}),
    }
    return ground_truth.Pair(**{**fields, **changes})


def test_no_difference() -> None:
    assert ground_truth.differences(recorded(), failure()) == []
    loads = recorded(verdict="loads", object=None, message=None, undefined=frozenset())
    assert ground_truth.differences(loads, result()) == []


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (failure(verdict=Verdict.LOADS), "predicted ('loads', "),
        (result(undefined_symbols=("f",)), "predicted ('loads', None, None), recorded ('fails', '_C.so', "),
        (
            failure(predicted_error=PredictedError(how=How.RAISES, object="_C.so", message="undefined symbol: g")),
            "predicted ('fails', '_C.so', 'undefined symbol: g')",
        ),
        (
            failure(predicted_error=PredictedError(how=How.RAISES, object="libx.so", message="undefined symbol: f")),
            "predicted ('fails', 'libx.so', 'undefined symbol: f')",
        ),
        (failure(undefined_symbols=()), "1 undefined symbols missed: ['f']"),
        (failure(undefined_symbols=("f", "g")), "1 undefined symbols invented: ['g']"),
        (failure(sha256="1" * 64), "the file is not the one that was recorded"),
    ],
)
def test_a_difference_is_told(changed: Result, difference: str) -> None:
    (found,) = ground_truth.differences(recorded(), changed)
    assert found.startswith(difference)


def test_a_death_by_a_signal_is_an_abort_with_any_words() -> None:
    died = recorded(object=None, message=None, signal="SIGSEGV", undefined=frozenset())
    aborts = PredictedError(how=How.ABORTS, object=None, message="a class changed", exact=False)
    assert ground_truth.differences(died, failure(predicted_error=aborts, undefined_symbols=())) == []
    (found,) = ground_truth.differences(died, result())
    assert found.endswith("recorded SIGSEGV")


def test_an_absent_library_says_nothing_about_torch() -> None:
    absent = "libx.so.1: cannot open shared object file: No such file or directory"
    alone = recorded(object=None, message=absent, alone=True, undefined=None, sha256=None)
    (found,) = ground_truth.differences(alone, result())
    assert found == "libx.so.1 was absent, which is not said of it"
    assert ground_truth.differences(alone, result(), shipped={"libx.so.1"}) == []
    assert ground_truth.differences(alone, result(external=("libx.so.1",))) == []
    of_torch = dataclasses.replace(alone, message=absent.replace("libx.so.1", "libtorch_cuda.so"))
    (found,) = ground_truth.differences(of_torch, result(external=("libtorch_cuda.so",)))
    assert found.startswith("predicted ('loads', None, None)")


def test_a_symbol_that_an_older_system_lacks_says_nothing_about_torch() -> None:
    symbol = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE15_M_replace_coldEPcmPKcmm"
    alone = recorded(message=f"undefined symbol: {symbol}", alone=True, undefined=None, sha256=None)
    assert ground_truth.differences(alone, failure()) == []
    of_torch = dataclasses.replace(alone, message="undefined symbol: _ZN2at3addEv")
    assert len(ground_truth.differences(of_torch, failure())) == 1


def test_several_differences_are_told_apart() -> None:
    wrong = msgspec.structs.replace(result(), undefined_symbols=("g",))
    assert len(ground_truth.differences(recorded(), wrong)) == 3
