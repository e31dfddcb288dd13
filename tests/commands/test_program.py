"""What a command prints, as the program that it is: exit codes, encodings, colours, progress, kept answers."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Final

import pytest

import abiscan
from tests.commands.processes import Finished, on_terminal, run
from tests.elf_builder import uses
from tests.fakes import SAMPLES, extension, torch_package
from tests.image_samples import IMAGES, image

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

TORCH: Final = "2.13.0"
GONE: Final = uses("_ZN2at4goneEv")


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    return torch_package(tmp_path)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return extension(undefined=GONE).write(tmp_path / "bad.so")


def test_exit_codes(bad: Path, torch: Path, tmp_path: Path) -> None:
    good = extension().write(tmp_path / "good.so")
    for target, code in ((good, 0), (bad, 1), (tmp_path / "absent.so", 2)):
        done = run("check", target, "--torch", torch)
        assert done.code == code
        assert "Traceback" not in done.err
        assert "\x1b" not in done.out + done.err


def test_a_terminal_that_is_not_utf8_gets_the_report(tmp_path: Path, torch: Path) -> None:
    symbols = uses(*(f"_ZN2at4gon{letter}Ev" for letter in "abcdef"))
    path = extension(undefined=symbols).write(tmp_path / "bad.so")
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = run("check", path, "--torch", torch, env=ascii_only)
    assert done.code == 1
    assert "\\u2026 3 more (use -v to show them)" in done.out


def test_nothing_of_torch_is_imported(bad: Path, torch: Path) -> None:
    before = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))"
    done = run("check", bad, "--torch", torch, before=before)
    assert (done.code, done.err) == (1, "False\n")


@pytest.mark.parametrize("command", ["check", "matrix"])
def test_what_computes_a_result_is_not_imported_to_print_it_again(bad: Path, tmp_path: Path, command: str) -> None:
    before = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    words, env = (command, bad, "--torch", TORCH), {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first, again = (run(*words, before=before, env=env) for _ in range(2))
    assert (again.code, again.out) == (first.code, first.out)
    computing = {"abiscan.rules", "abiscan.inputs.sources", "abiscan.python.torch_api.torch_names"}
    assert computing <= set(first.err.split())
    assert not computing & set(again.err.split())


@pytest.mark.parametrize(("settings", "colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_color_on_a_terminal_alone(bad: Path, torch: Path, settings: dict[str, str], *, colored: bool) -> None:
    done = on_terminal("check", bad, "--torch", torch, "-q", env=settings, streams=("stdout",))
    assert (done.code, done.err) == (1, "")
    assert "fails" in done.out
    assert ("\x1b[1;31mfails\x1b[0m" in done.out) == colored
    assert ("31m" in done.out) == colored


TAKES_LONG: Final = """
import time
from abiscan.cli import common
common._PATIENCE_SECONDS = {patience}
with common.show_progress("reading [red]files") as progress:
    progress("reading [red]others")
    time.sleep({takes})
print("done")
"""


@pytest.mark.parametrize(("patience", "takes", "shown"), [(0.1, 1.5, True), (30, 0.0, False)])
def test_a_terminal_shows_what_takes_long(patience: float, takes: float, *, shown: bool) -> None:
    code = TAKES_LONG.format(patience=patience, takes=takes)
    done = on_terminal("-c", code, command=(sys.executable,), streams=("stderr",))
    assert (done.code, done.out) == (0, "done\n")
    assert ("reading [red]others" in done.err) == shown
    assert shown or done.err == ""


def test_a_pipe_does_not_show_it() -> None:
    done = run("-c", TAKES_LONG.format(patience=0.0, takes=0.2), command=(sys.executable,))
    assert (done.code, done.out, done.err) == (0, "done\n", "")


FORMATS: Final = [
    *(
        pytest.param(tuple(line.split()), id=line)
        for line in (
            f"check --torch {TORCH} -v",
            f"check --torch {TORCH} --format sarif",
            f"matrix --torch {TORCH} --format html",
            "ops -v",
            f"coverage --torch {TORCH} -v --backend CPU",
        )
    ),
    *(
        pytest.param(tuple(line.split()), id=line, marks=pytest.mark.long)
        for line in (
            f"check --torch {TORCH} --format junit",
            f"check --torch {TORCH} --gpu 9.0 --format markdown",
            f"matrix --torch {TORCH} -v",
        )
    ),
]


@pytest.mark.parametrize("words", FORMATS)
def test_a_kept_answer_prints_the_same(words: tuple[str, ...], cache_home: Path) -> None:
    def printed() -> Finished:
        done = run(*words, SAMPLES / "coverage" / "backend.so")
        return dataclasses.replace(done, err=re.sub(r"\d+\.\d s; looked", "looked", done.err))

    first = printed()
    (kept,) = cache_home.rglob("*.answer")
    before = kept.stat().st_ino
    assert printed() == first
    (kept,) = cache_home.rglob("*.answer")
    assert kept.stat().st_ino == before


def test_check_says_what_the_function_says() -> None:
    sample = SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so"
    report = abiscan.check(sample, TORCH)
    (result,) = report.results
    assert result.verdict is abiscan.Verdict.FAILS
    assert report.exit_code(abiscan.Effect.CORRUPTS, strict=False) == 1
    assert report.to_json() == run("check", sample, "--torch", TORCH, "--format", "json").out


# As lief would: in the middle of a command, in the process that reads targets.
DIES_IN_LIEF: Final = """
import os, signal
from abiscan.binary import image_reader
read = image_reader.read_images
def reading(data, subject, **options):
    if "bad" in subject:
        os.kill(os.getpid(), signal.SIGSEGV)
    return read(data, subject, **options)
image_reader.read_images = reading
"""


def test_a_signal_in_lief_costs_one_target(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pyd"
    bad.write_bytes(image("loads.pyd"))
    targets = (IMAGES / "loads.pyd", bad, IMAGES / "missing_symbol.so")
    done = run("check", *targets, "--torch", TORCH, "--format", "json", before=DIES_IN_LIEF)
    document = json.loads(done.out)
    verdicts = {Path(result["target"]).name: result["verdict"] for result in document["results"]}
    assert verdicts == {"loads.pyd": "loads", "missing_symbol.so": "fails"}
    (stopped,) = document["unchecked"]
    assert (stopped["target"], stopped["stopped"]) == (str(bad), True)
    assert "the process died of SIGSEGV" in stopped["problem"]
    assert done.code == 1  # one of the others fails
    assert "Traceback" not in done.err
