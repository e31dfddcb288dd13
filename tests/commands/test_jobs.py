"""``--jobs``: the number of processes changes nothing but the time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.elf_builder import uses
from tests.fakes import extension, wheel

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")]

SAMPLES = Path(__file__).parents[2] / "sample_binaries"
RUN = """
import os, resource, signal, sys
from abiscan.inputs import isolation
from abiscan.extension import examined
from abiscan.pipelines import matrix
examined._WORTH_SPLITTING = 0
isolation.CPU_SECONDS = 5
check, this = matrix.check_on_all, os.getpid()
def hostile(torch_set, source, *rest, **options):
    if "hostile" in source.name:
        {act}
    return check(torch_set, source, *rest, **options)
matrix.check_on_all = hostile
{before}
from abiscan.cli import main
main(prog_name="abiscan")
"""


def run(
    folder: Path, *words: str, act: str = "pass", before: str = "", cache: Path | None = None
) -> tuple[int, str, str]:
    command = [sys.executable, "-c", RUN.format(act=act, before=before), *words]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache or os.devnull)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr


def package(folder: Path, name: str, members: dict[str, bytes]) -> str:
    """The file name of a wheel whose package has these members."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
    code = b"from . import _C\n"
    members = {f"{name}/{path}": data for path, data in {"__init__.py": code, **members}.items()}
    path = folder / f"{name}-1.0-cp311-cp311-linux_x86_64.whl"
    return wheel(path, {**members, f"{name}-1.0.dist-info/METADATA": metadata}).name


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    """A folder with wheels and files, one of which needs another, one is damaged, and one uses no torch."""
    for name, sample in (("one", "registrations/backend.so"), ("two", "coverage/backend.so")):
        package(tmp_path, name, {"_C.so": (SAMPLES / sample).read_bytes()})
    package(tmp_path, "three", {"_C.so": extension(needed=("_C.so",)).build()})
    extension(undefined=uses("_ZN2at4goneEv")).write(tmp_path / "gone.so")
    (tmp_path / "damaged.whl").write_bytes(b"PK")
    return tmp_path


COMMANDS = (
    ("matrix", "--torch", "2.6.0", "--torch", "2.13.0", "--gpus"),
    ("check", "--torch", "2.13.0"),
)


@pytest.mark.parametrize(
    "words", [COMMANDS[0], pytest.param(COMMANDS[1], marks=pytest.mark.long)], ids=lambda words: words[0]
)
def test_the_output_is_the_same_bytes(targets: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    names = sorted(path.name for path in targets.iterdir())
    every = [*words, *names, "absent.so", "--format", "json"]
    cache = tmp_path / "cache"
    alone = run(targets, *every, "--jobs", "1")
    assert alone[0] in (1, 3)
    assert json.loads(alone[1])
    assert "damaged.whl: " in alone[2]
    assert run(targets, *every, "--jobs", "2") == alone
    assert run(targets, *every, "--jobs", "8", cache=cache) == alone
    assert run(targets, *every, "--jobs", "1", cache=cache) == alone


def test_the_extensions_of_one_target(tmp_path: Path) -> None:
    samples = ("registrations/backend.so", "coverage/backend.so", "loads/loads.so")
    many = package(tmp_path, "many", {f"_{at}.so": (SAMPLES / name).read_bytes() for at, name in enumerate(samples)})
    for words in (("ops",), ("check", "--torch", "2.13.0")):
        alone = run(tmp_path, *words, many, "--format", "json", "--jobs", "1")
        assert "many/_0.so" in alone[1]
        assert run(tmp_path, *words, many, "--format", "json", "--jobs", "3") == alone


SHARED = "matrix._WORTH_SHARING = 0\n"
TORCHES = [word for torch in ("1.8.0", "2.0.0", "2.6.0", "2.12.1") for word in ("--torch", torch)]


def test_the_torches_of_one_target(targets: Path) -> None:
    for name in ("one-1.0-cp311-cp311-linux_x86_64.whl", "gone.so"):
        alone = run(targets, "matrix", name, *TORCHES, "--format", "json", "--jobs", "1")
        assert all(list(row["releases"]) == TORCHES[1::2] for row in json.loads(alone[1])["results"])
        words = ("matrix", name, *TORCHES, "--format", "json", "--jobs", "2")
        assert run(targets, *words, before=SHARED) == alone


def test_little_work_is_not_shared(targets: Path) -> None:
    words = ("matrix", "gone.so", *TORCHES, "--format", "json", "--jobs", "2")
    alone = run(targets, *words[:-1], "1")
    unable = "from abiscan.inputs import branches\nbranches._Branch = None\n"
    assert run(targets, *words, before=unable) == alone
    assert run(targets, *words, before=SHARED + unable)[0] == 3


def test_a_process_that_dies_on_one_of_several_torches(tmp_path: Path) -> None:
    extension().write(tmp_path / "a.so")
    before = SHARED + "check_one = matrix.TorchSet.check\ndef dying(self, source, name, *rest, **options):\n"
    before += "    if name == '2.6.0': os.kill(os.getpid(), signal.SIGSEGV)\n"
    before += "    return check_one(self, source, name, *rest, **options)\nmatrix.TorchSet.check = dying"
    code, output, errors = run(tmp_path, "matrix", "a.so", *TORCHES, "--jobs", "2", before=before)
    assert (code, output) == (3, "")
    assert errors.startswith("abiscan: a.so: reading it was stopped: the process died of SIGSEGV")


@pytest.mark.parametrize(
    ("act", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the process died of SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the system killed the process"),
        ("[0 for _ in iter(int, 1)]", "it takes more than 1 s of processor time"),
        ("raise MemoryError", "it needs more memory than is available"),
    ],
)
def test_what_kills_a_process_costs_one_result(tmp_path: Path, act: str, why: str) -> None:
    for name in ("a.so", "hostile.so", "z.so"):
        extension().write(tmp_path / name)
    words = ("matrix", "a.so", "hostile.so", "z.so", "--torch", "2.13.0", "--format", "json", "--jobs", "2")
    code, output, errors = run(tmp_path, *words, act=act, before="isolation.CPU_SECONDS = 1")
    assert (code, errors.count("\n")) == (3, 1)
    assert errors.startswith("abiscan: hostile.so: ")
    assert why in errors
    document = json.loads(output)
    assert [row["path"] for row in document["results"]] == ["a.so", "z.so"]
    assert [(one["target"], one["stopped"]) for one in document["unchecked"]] == [("hostile.so", True)]
