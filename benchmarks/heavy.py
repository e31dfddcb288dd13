"""First runs with a goal each, the heavy ones among them: the table "First runs and their goals" of the documentation.

    python -m benchmarks.heavy FOLDER [--torchrec PYTHON] [--rounds N]

Wheels that are not in the folder are fetched into it with pip: 1.5 GB. ``--torchrec`` names the Python of an
environment with torchrec 1.9.2, fbgemm-gpu 1.9.0 and a torch; without it, that row is left out. A first run has data on
the torch in its cache, and nothing on the target. Rounds take turns through all rows, and the least of each counts.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from abiscan.binary.elf import Machine
from benchmarks.run import AGAIN, FIRST, IMPORT, LARGE, READ, WHEEL, Row, Timing, library, measured
from tools.wheels import download

_AUDITWHEEL: Final = "auditwheel show"
_OF_X86_64: Final = "ops of torchvision 0.24.1, x86_64"
_OTHER_MACHINE: Final = "torchvision==0.24.1"
_NPU: Final = "torch_npu==2.5.1"
_SUFFIXES: Final = {Machine.X86_64: "x86_64.whl", Machine.AARCH64: "aarch64.whl"}


class Goal(NamedTuple):
    """A row of the table.

    :ivar before: what it took before the work on these rows, as the table says it
    :ivar must: as a multiple of the peer's processor time; without a peer, in seconds
    :ivar megabytes: how many it may take, None for any number
    """

    row: Row
    before: str = ""
    must: float = 0
    peer: str | None = None
    megabytes: int | None = None

    def line(self, timing: Timing, peers: dict[str, Timing]) -> str:
        """Its line in Markdown; a star is where the goal is missed."""
        now = timing.processor / peers[self.peer].processor if self.peer else timing.processor
        is_missed = now > self.must or timing.megabytes > (self.megabytes or float("inf"))
        goal = f"{self.must:.2f} times `{self.peer}`" if self.peer else f"{self.must:.0f} s"
        goal += f", {self.megabytes} MB" if self.megabytes else ""
        star = " *" if is_missed else ""
        return f"| {self.row.label} | {self.before} | {now:.2f}{star} | {goal} | {timing.megabytes:.0f} |"


def _wheel(folder: Path, requirement: str, machine: Machine = Machine.X86_64) -> str:
    """The wheel of a requirement in the folder, fetched if it is not there."""
    name, _, version = requirement.partition("==")
    known = folder.glob(f"{name.replace('-', '_')}-{version}-*.whl")
    found = next((path for path in known if path.name.endswith(_SUFFIXES[machine])), None)
    found = found or download(requirement, folder, machine=machine)
    if found is None:
        raise SystemExit(f"there is no wheel of {requirement} for {machine.name}")
    return str(found)


def _goals(folder: Path, scratch: Path, torchrec: str | None) -> Iterator[Goal]:
    """The rows of the table, the peers last."""

    def first(label: str, *words: str, state: str = FIRST) -> Row:
        command = (sys.executable, "-m", "abiscan", *words)
        return Row(label=label, state=state, words=command, cache=scratch / "cache")

    vision = _wheel(folder, WHEEL)
    check = ("check", vision, "--torch", "2.13.0")
    large = library(_wheel(folder, LARGE), scratch)
    on_arm, on_x86 = (_wheel(folder, _OTHER_MACHINE, machine) for machine in (Machine.AARCH64, Machine.X86_64))
    npu = {machine: _wheel(folder, _NPU, machine) for machine in (Machine.X86_64, Machine.AARCH64)}
    yield Goal(first("`check --torch 2.13.0` of torchvision 0.28.0", *check), "0.62 to 0.69", 0.45, _AUDITWHEEL)
    again = first("the same again", *check, state=AGAIN)
    yield Goal(again, "0.07 to 0.13", 0.10, IMPORT)
    yield Goal(first("`matrix` of it, all releases", "matrix", vision), "0.98 to 1.05", 0.70, _AUDITWHEEL)
    yield Goal(first("`ops` of it", "ops", vision), "0.27", 0.25, IMPORT)
    yield Goal(first("`ops` of the library of 262 MB", "ops", large), "1.53", 1.2, IMPORT)
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        read = (sys.executable, "-c", READ, str(Path(spec.origin).parent))
        yield Goal(Row(label="operators of torch 2.13.0, from its libraries", words=read), "2.09", 1.5, IMPORT)
    yield Goal(first("`ops` of torchvision 0.24.1, aarch64", "ops", on_arm), "", 2, _OF_X86_64)
    for machine, before in ((Machine.X86_64, "40 s"), (Machine.AARCH64, "")):
        label = f"`check --torch 2.13.0` of torch-npu 2.5.1, {_SUFFIXES[machine].removesuffix('.whl')}"
        yield Goal(first(label, "check", npu[machine], "--torch", "2.13.0"), before, 4)
    xla = _wheel(folder, "torch_xla==2.4.0")
    yield Goal(first("`ops` of torch-xla 2.4.0", "ops", xla), "12 to 24 s, 1,400 MB", 4, megabytes=500)
    if torchrec is not None:
        label = "`check` of torchrec 1.9.2 beside fbgemm-gpu 1.9.0, installed"
        yield Goal(first(label, "check", "torchrec", "--python", torchrec), "5 s, 2,900 MB", 2, megabytes=500)
    for requirement, release in (
        ("sgl_kernel==0.3.9", "2.9.1"),
        ("vllm==0.22.0", "2.11.0"),
        ("lmdeploy==0.9.2", "2.7.1"),
    ):
        label = f"`check --torch {release}` of {requirement.replace('==', ' ').replace('_', '-')}, from a file"
        words = ("check", _wheel(folder, requirement), "--torch", release)
        yield Goal(first(label, *words), "14 to 54 s, with the download", 5)
    yield Goal(first(_OF_X86_64, "ops", on_x86))
    yield Goal(Row(label=_AUDITWHEEL, words=(str(scratch / "peers" / "bin" / "auditwheel"), "show", vision)))
    yield Goal(Row(label=IMPORT, words=(sys.executable, "-c", "import torch")))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--torchrec", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        subprocess.run([sys.executable, "-m", "venv", str(scratch / "peers")], check=True)
        subprocess.run([str(scratch / "peers" / "bin" / "pip"), "install", "--quiet", "auditwheel"], check=True)
        goals = list(_goals(arguments.folder, scratch, arguments.torchrec))
        timings = [timing for _, timing in measured([goal.row for goal in goals], arguments.rounds)]
    peers = {goal.row.label: timing for goal, timing in zip(goals, timings, strict=True) if not goal.must}
    sys.stdout.write("| first run | before | now | must | MB |\n|---|--:|--:|--:|--:|\n")
    for goal, timing in zip(goals, timings, strict=True):
        if goal.must:
            sys.stdout.write(f"{goal.line(timing, peers)}\n")
    units = ", ".join(f"`{label}` {timing.processor:.2f} s" for label, timing in peers.items())
    sys.stdout.write(f"\n* misses its goal. In this run: {units}.\n")


if __name__ == "__main__":
    main()
