"""What lief does to a run where it fails: the file that it was reading has no verdict, and all others have theirs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary import image_reader
from abiscan.binary.image_reader import read_images
from abiscan.errors import InputError
from tests.image_samples import IMAGES, image, package

# As lief would: in the middle of a command, in the process that reads targets.
KILLED: Final = """
import os, signal, sys
from abiscan.binary import image_reader
from abiscan.cli import main
read = image_reader.read_images
def reading(data, subject, **options):
    if "bad" in subject:
        os.kill(os.getpid(), signal.Signals[sys.argv[1]])
    return read(data, subject, **options)
image_reader.read_images = reading
main(sys.argv[2:])
"""


@pytest.mark.parametrize("name", ["SIGSEGV"])
def test_a_signal_costs_one_target(tmp_path: Path, name: str) -> None:
    bad = tmp_path / "bad.pyd"
    bad.write_bytes(image("loads.pyd"))
    targets = [IMAGES / "loads.pyd", bad, IMAGES / "missing_symbol.so"]
    words = ["check", *map(str, targets), "--torch", "2.13.0", "--format", "json"]
    command = [sys.executable, "-c", KILLED, name, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    verdicts = {Path(result["target"]).name: result["verdict"] for result in document["results"]}
    assert verdicts == {"loads.pyd": "loads", "missing_symbol.so": "fails"}
    (stopped,) = document["unchecked"]
    assert (stopped["target"], stopped["stopped"]) == (str(bad), True)
    assert f"the process died of {name}" in stopped["problem"]
    assert done.returncode == 1  # one of the others fails
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [IndexError, KeyError, OverflowError, SystemError, AttributeError, RuntimeError])
@pytest.mark.parametrize("part", ["_portable_executable", "_universal"])
def test_an_exception_costs_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], part: str
) -> None:
    def raising(*_args: object, **_options: object) -> object:
        raise error("of lief")

    monkeypatch.setattr(image_reader, part, raising)
    name, data = ("_C.pyd", "loads.pyd") if part == "_portable_executable" else ("_C.so", "loads.so")
    with pytest.raises(InputError, match="x: is damaged"):
        read_images(image(data), "x")
    from abiscan import check

    found = check(package(tmp_path, {f"pkg/{name}": image(data)}), "2.13.0")
    assert [result.verdict.value for result in found.results] == ["unknown"]
