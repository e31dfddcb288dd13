"""The wheels of a release, from the index that has them: what ``make release VERSION=… INDEX=…`` downloads."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from abiscan.binary.elf import Machine
from tests.fakes import wheel
from tests.index_server import serving
from tools.release import packages, use_index

METADATA = b"Metadata-Version: 2.1\nName: torch\nVersion: 2.99.0+cpu\n"


@pytest.mark.slow
def test_a_build_that_only_another_index_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    (tmp_path / "empty").mkdir()
    with serving(tmp_path / "index") as index, serving(tmp_path / "empty") as empty:
        monkeypatch.setenv("PIP_INDEX_URL", empty.url)
        for machine in Machine:
            wheel(
                tmp_path / "index" / f"torch-2.99.0+cpu-cp311-cp311-manylinux_2_28_{machine.value}.whl",
                {
                    "torch/version.py": b"__version__ = '2.99.0+cpu'\n",
                    "torch-2.99.0+cpu.dist-info/METADATA": METADATA,
                    "torch-2.99.0+cpu.dist-info/WHEEL": b"Wheel-Version: 1.0\n",
                    "torch-2.99.0+cpu.dist-info/RECORD": b"",
                },
            )
        assert list(packages(["2.99.0+cpu"], None, tmp_path)) == []
        use_index(index.url)
        found = [
            (machine, (package / "version.py").read_text("utf-8"), cuda)
            for package, machine, cuda in packages(["2.99.0+cpu"], None, tmp_path)
        ]
    version = "__version__ = '2.99.0+cpu'\n"
    assert found == [(Machine.AARCH64, version, None), (Machine.X86_64, version, None)]
    assert {unquote(path).rpartition("/")[2] for path, _ in index.asked if path.endswith(".whl")} == {
        path.name for path in (tmp_path / "index").glob("*.whl")
    }
