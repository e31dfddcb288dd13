"""What ``tools/record_loads.py`` records of a load, against what was recorded of the same load before, elsewhere."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from tests import live_torch
from tests.fakes import wheel
from tests.oracle import test_ground_truth
from tools import ground_truth, record_loads
from tools.registrations import dumped_kernels, dumped_schemas

SAMPLES: Final = Path(__file__).parents[2] / "sample_binaries"
DLPACK: Final = "torch_c_dlpack_ext/libtorch_c_dlpack_addon_torch{}.so"
pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")]
needs_recorded_torch = pytest.mark.skipif(
    live_torch.build() != test_ground_truth.RECORDED, reason=f"needs torch {test_ground_truth.RECORDED}"
)


def known(package: str, path: str) -> dict[str, Any]:
    with gzip.open(ground_truth.RECORDS[1], "rt", encoding="utf-8") as stream:
        rows = (json.loads(line) for line in stream)
        return next(
            row
            for row in rows
            if (row["package"], row["path"], row["build"]) == (package, path, test_ground_truth.RECORDED)
        )


def unpacked(name: str, folder: Path) -> record_loads.Unpacked:
    (found,) = test_ground_truth.SMALL_WHEELS.glob(f"{name}-*.whl")
    return record_loads.unpack(found, folder)


@needs_recorded_torch
@pytest.mark.parametrize(
    "path", [DLPACK.format("24-cpu"), pytest.param(DLPACK.format("29-cuda"), marks=pytest.mark.long)]
)
def test_a_load_that_fails_is_recorded_as_it_was_before(path: str, tmp_path: Path) -> None:
    row, registrations = record_loads.record(
        unpacked("torch_c_dlpack_ext", tmp_path), tmp_path / path, record_loads._installed()
    )
    assert row == known("torch-c-dlpack-ext", path)
    assert registrations is None


@needs_recorded_torch
def test_a_load_that_succeeds_is_recorded_as_it_was_before(tmp_path: Path) -> None:
    row, registrations = record_loads.record(
        unpacked("tensordict", tmp_path), tmp_path / "tensordict/_C.so", record_loads._installed()
    )
    assert registrations is not None
    assert (registrations["new_ops"], registrations["changed_ops"]) == ([], {})
    assert "_C.so" in registrations["new_libs"]
    expected = known("tensordict", "tensordict/_C.so")
    # That record also lists what the wheel requires of packages whose names begin with "torch".
    assert row["requires"] == expected["requires"][:1]
    for either in (row, expected):
        del either["requires"], either["registrations"]
    assert row == expected


@needs_recorded_torch
def test_the_difference_to_the_dispatcher_is_recorded(tmp_path: Path) -> None:
    """The sample defines one operator with one kernel: see its source."""
    library = (SAMPLES / "loads" / "loads.so").read_bytes()
    members = {"pkg/_C.so": library, "pkg-1.0.dist-info/METADATA": b"Requires-Dist: torch>=2.0\n\ntorch"}
    whole = record_loads.unpack(wheel(tmp_path / "pkg-1.0-py3-none-any.whl", members), tmp_path / "pkg")
    row, registrations = record_loads.record(whole, whole.folder / "pkg/_C.so", record_loads._installed())
    assert registrations is not None
    assert (row["verdict"], row["requires"], row["undefined"]) == ("loads", ["torch>=2.0"], {})
    assert registrations["new_ops"] == ["abiscan_loads::double_it"]
    assert dumped_schemas(registrations) == {
        ("abiscan_loads::double_it", registrations["new_schemas"]["abiscan_loads::double_it"])
    }
    assert len(dumped_kernels(registrations)) == 1


@needs_recorded_torch
def test_a_process_that_dies_is_recorded_with_its_signal(tmp_path: Path) -> None:
    library = (SAMPLES / "layout_drift" / "crossing.so").read_bytes()
    members = {"pkg/_C.so": library, "pkg-1.0.dist-info/METADATA": b"Name: pkg\n"}
    whole = record_loads.unpack(wheel(tmp_path / "pkg-1.0-py3-none-any.whl", members), tmp_path / "pkg")
    row, registrations = record_loads.record(whole, whole.folder / "pkg/_C.so", record_loads._installed())
    assert (row["verdict"], row["how"], registrations) == ("fails", "aborts", None)
    assert row["signal"] in {"SIGABRT", "SIGSEGV"}
    assert str(tmp_path) not in json.dumps(row)


@needs_recorded_torch
@pytest.mark.long
def test_libraries_of_wheels_beside_it_are_on_the_search_path(tmp_path: Path) -> None:
    sibling = SAMPLES / "sibling_rpath"
    members = {"pkg-1.0.dist-info/METADATA": b"Name: pkg\n"}
    library = (SAMPLES / "missing_sibling" / "missing_sibling.so").read_bytes()
    stand_in = next(sibling.rglob("libsibling.so")).read_bytes()
    alone = wheel(tmp_path / "pkg-1.0-py3-none-any.whl", {**members, "pkg/_C.so": library})
    other = wheel(
        tmp_path / "other-2.0-py3-none-any.whl",
        {"other-2.0.dist-info/METADATA": b"Name: other\n", "other/libabiscan_absent.so.1": stand_in},
    )
    rows = [row for row, _ in record_loads.record_all([alone], [], [record_loads._installed()])]
    rows += [row for row, _ in record_loads.record_all([alone], [other], [record_loads._installed()])]
    absent = "libabiscan_absent.so.1: cannot open shared object file: No such file or directory"
    assert rows[0]["message"] == absent
    assert rows[0]["not_found"] == ["libabiscan_absent.so.1"]
    assert rows[1].get("message") != absent
    assert rows[1]["other_wheels"] == ["other-2.0/other/libabiscan_absent.so.1"]
    assert "libabiscan_absent.so.1" not in rows[1]["not_found"]


@needs_recorded_torch
def test_a_folder_without_torch_is_an_error_and_not_another_torch(tmp_path: Path) -> None:
    elsewhere = record_loads.Torch(package=tmp_path / "torch", stubs=None)
    with pytest.raises(SystemExit, match="is not a torch package"):
        record_loads.record(unpacked("tensordict", tmp_path), tmp_path / "tensordict/_C.so", elsewhere)
