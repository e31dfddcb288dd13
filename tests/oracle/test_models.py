"""Saved models, held against what seven releases of torch really did with them.

``models.zip`` has the files that ``tools/make_models.py`` saved with these releases, a folder for each, and
``models.jsonl.gz`` what ``tools/record_models.py`` saw: which call failed on which release, and what it raised; some of
them after a package ``with`` operators had been imported.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import abiscan
from abiscan.results.package import PackageResult
from tests.oracle import corpus
from tests.oracle.corpus import needs_corpus

HERE = Path(__file__).parent
RECORDS = [json.loads(line) for line in gzip.decompress((HERE / "models.jsonl.gz").read_bytes()).splitlines()]
ALONE = [record for record in RECORDS if "with" not in record]
BESIDE = [record for record in RECORDS if "with" in record]
RELEASES = list(dict.fromkeys(record["torch"].partition("+")[0] for record in ALONE))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    with zipfile.ZipFile(HERE / "models.zip") as archive:
        archive.extractall(folder)
    return folder


def predicted(result: PackageResult) -> dict[str, Any] | None:
    """The prediction in the form of the records."""
    assert result.model is not None
    if result.error is None:
        assert result.verdict is abiscan.PackageVerdict.WORKS
        return None
    return {"call": result.model.fails_at, "exception": result.error.exception, "message": result.error.message}


def agree(said: dict[str, Any] | None, real: dict[str, Any] | None) -> bool:
    """Whether a prediction is what happened; a ``?`` stands for what is not predicted of the text."""
    if said is None or real is None:
        return said is real
    beginning = said["message"].partition("?")[0]
    return (said["call"], said["exception"]) == (real["call"], real["exception"]) and (
        real["message"].startswith(beginning) if "?" in said["message"] else said["message"] == real["message"]
    )


def compared(models: Path, release: str) -> Iterator[tuple[str, object, object]]:
    """The models on a release, with the predictions that are wrong."""
    records = {record["model"]: record["error"] for record in ALONE if record["torch"].partition("+")[0] == release}
    report = abiscan.check([models / name for name in records], torch=release)
    results = {Path(result.target).relative_to(models).as_posix(): result for result in report.packages}
    assert results.keys() == records.keys()
    for name, real in records.items():
        said = predicted(results[name])
        if not agree(said, real):
            yield name, said, real


def test_enough_is_recorded() -> None:
    assert len(RELEASES) >= 4
    assert len(ALONE) > 400
    assert sum(record["error"] is None for record in ALONE) > 150
    assert len({record["error"] is None for record in BESIDE}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_models_do_what_is_predicted(models: Path, release: str) -> None:
    assert list(compared(models, release)) == []


@needs_corpus
@pytest.mark.slow
@pytest.mark.parametrize("package", list(dict.fromkeys(record["with"] for record in BESIDE)))
def test_models_with_extensions_do_what_is_predicted(models: Path, package: str) -> None:
    records = [record for record in BESIDE if record["with"] == package]
    (release,) = {record["torch"].partition("+")[0] for record in records}
    report = abiscan.check([*(models / record["model"] for record in records), corpus.wheel(package)], torch=release)
    results = {result.target: result for result in report.packages if result.model}
    wrong = [
        (record["model"], said, record["error"])
        for record in records
        if not agree(said := predicted(results[str(models / record["model"])]), record["error"])
    ]
    assert wrong == []


def test_the_library_of_a_package_is_checked_too(models: Path) -> None:
    model = models / "2.13.0" / "aoti.pt2"  # compiled with -mavx512f
    newer = abiscan.check([model], torch="2.13.0", cpus=["x86-64-v4", "icelake-server"])
    assert [finding.rule for finding in newer.packages[0].own_findings] == []
    report = abiscan.check([model], torch="2.13.0", cpus=["haswell"])
    (package,) = report.packages
    assert [library.verdict for library in package.libraries] == [abiscan.Verdict.LOADS]
    assert [finding.rule for finding in package.own_findings] == ["cpu-too-old"]
    assert package.verdict is abiscan.PackageVerdict.IMPORT_FAILS
    assert str(package).endswith("the first run fails - the process ends: Illegal instruction")
    assert report.exit_code() == 1
