"""How long abiscan takes compared with its neighbours, as ratios of one run on one machine.

    python -m benchmarks.run [WHEEL] [--large [WHEEL]] [--npu [WHEEL]] [--twelve [FOLDER]] [--environment [PYTHON]]
                             [--keep | --compare]

The wheel (torchvision 0.28.0 for x86_64 and Python 3.11, fetched with pip if none is named) goes through every command,
with the installed torch or release 2.13.0: first as a target that was never seen, with what was read of the torch
kept; then a second time. Beside it, on the same wheel: ``ldd -r``, ``auditwheel show``, ``abi3audit``,
``torch-abi-audit``, ``abidiff`` where it is installed, and ``python -c "import torch"``, which is the unit. The peers
are installed into a folder of their own. The operators of the installed torch are read from its libraries, as those
of a torch that is not embedded are. ``--large`` adds ``abiscan ops`` on a library of 262 MB, or on the largest one of a
wheel that is named; ``--npu`` the same of torch_npu 2.9.0; ``--twelve`` a check of twelve wheels, or of those in a
folder, and says what each of them costs next to a check of one wheel less its imports; ``--environment`` adds a
``doctor`` of an environment with this one's torch, torchvision and 30 packages, or of one whose Python is named,
without the search for a way out.

Rounds take turns through all rows, each in a process of its own, and the least of each counts: other work on the
machine disturbs all rows alike. The ratios are those of processor time, which it disturbs least. ``abiscan fit`` asks
an index on this machine, which has that wheel alone; ``benchmarks.fit`` asks a real one. ``--keep`` writes the table
into ``docs/performance.md``; ``--compare`` fails if a ratio is 20 % worse than in the table there, or if reading
targets in a process of their own takes more than 5 % of a check.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.index_server import serving
from tools.wheels import download

ROUNDS: Final = 5
WHEEL: Final = "torchvision==0.28.0"
LARGE: Final = "intel_extension_for_pytorch==2.8.0"
NPU: Final = "torch_npu==2.9.0"
TWELVE: Final = (
    *(f"torchvision=={number}" for number in ("0.20.1", "0.21.0", "0.22.1", "0.23.0", "0.24.1", "0.25.0", "0.28.0")),
    *(f"torchaudio=={number}" for number in ("2.5.1", "2.6.0", "2.8.0", "2.9.1", "2.11.0")),
)
ENVIRONMENT: Final = (
    *(WHEEL, "attrs", "certifi", "charset-normalizer", "click", "filelock", "fsspec", "idna", "jinja2", "joblib"),
    *("markupsafe", "matplotlib", "mpmath", "networkx", "numpy", "packaging", "pandas", "pillow", "psutil", "pygments"),
    *("python-dateutil", "pytz", "pyyaml", "regex", "requests", "scikit-learn", "scipy", "six", "sympy", "tqdm"),
    "typing-extensions",
)
RELEASE: Final = "2.13.0"
PEERS: Final = ("auditwheel", "abi3audit", "torch-abi-audit")
IMPORT: Final = 'python -c "import torch"'
FIRST, AGAIN = "first run", "again"
PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
WORSE: Final = 1.2
_CHECK: Final = f"check --torch {RELEASE}"
_IMPORTS: Final = "the imports of a check"
_SEVERAL: Final = "several wheels"
MOST_FOR_ISOLATION: Final = 0.05
_BEGIN, _END = "<!-- table -->", "<!-- end: table -->"
_ROW: Final = re.compile(r"^\| `?(?P<label>[^|]*?)`? \| (?P<state>[^|]*?) \|.*\| (?P<ratio>[\d.]+) \|$", re.MULTILINE)
_RESULTS: Final = (".answer", ".content")
_HINDRANCES: Final = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PIP_FIND_LINKS")
_MEASURE: Final = (
    # ru_maxrss of RUSAGE_CHILDREN is the maximum over all children so far: a fresh process waits for each run.
    "import resource, subprocess, sys, time; start = time.perf_counter();"
    "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL);"
    "seconds = time.perf_counter() - start; used = resource.getrusage(resource.RUSAGE_CHILDREN);"
    "print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)"
)


_LISTED: Final = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps([name for name in sys.modules if name != "__main__"]), file=sys.stderr))
from abiscan.__main__ import main
main()
"""
# Without the operators that come inside the package.
READ: Final = """
import sys
from pathlib import Path
from abiscan.inputs.files import Files
from abiscan.torches.from_libs import from_path, read_operators
files = Files()
read_operators(from_path(Path(sys.argv[1]), files), files)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The least wall-clock and processor times of some runs, in seconds, and the highest resident memory, in MB."""

    seconds: float = float("inf")
    processor: float = float("inf")
    megabytes: float = 0

    def and_(self, other: Timing) -> Timing:
        """The same of these runs and others."""
        return Timing(
            seconds=min(self.seconds, other.seconds),
            processor=min(self.processor, other.processor),
            megabytes=max(self.megabytes, other.megabytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table: a command, with its state ``first run`` or ``again``, which is empty for others.

    ``cache`` is the folder of its cache, from which results are deleted before a first run, like the file ``output``.
    """

    label: str
    state: str = ""
    words: tuple[str, ...]
    cache: Path | None = None
    output: Path | None = None

    def measure(self) -> Timing:
        """Run the command once, whatever its exit code."""
        # As it is used: with compiled modules, and with output that is buffered.
        environment = {name: value for name, value in os.environ.items() if name not in _HINDRANCES}
        environment["PIP_CONFIG_FILE"] = os.devnull  # else doctor and fit look where this machine's pip does
        if self.cache is not None:
            environment["XDG_CACHE_HOME"] = str(self.cache)
            if self.state == FIRST:
                self._forget(self.cache)
        done = subprocess.run(
            [sys.executable, "-c", _MEASURE, *self.words], capture_output=True, text=True, check=True, env=environment
        )
        seconds, processor, megabytes = map(float, done.stdout.split())
        return Timing(seconds=seconds, processor=processor, megabytes=megabytes)

    def _forget(self, cache: Path) -> None:
        """Delete what earlier runs found about targets: results, and the parts of wheels on an index."""
        for file in cache.glob("abiscan/*"):
            if file.suffix in _RESULTS:
                file.unlink()
        shutil.rmtree(cache / "abiscan" / "wheels", ignore_errors=True)
        if self.output is not None:
            self.output.unlink(missing_ok=True)


def measure(command: Sequence[str], environment: Mapping[str, str], runs: int = ROUNDS) -> Timing:
    """Run a command several times in an environment of its own."""
    cache = Path(environment["XDG_CACHE_HOME"]) if "XDG_CACHE_HOME" in environment else None
    timing = Timing()
    for _ in range(runs):
        timing = timing.and_(Row(label="", words=tuple(command), cache=cache).measure())
    return timing


def library(wheel: str, folder: Path) -> str:
    """The largest library of the wheel, unpacked."""
    with zipfile.ZipFile(wheel) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".so")]
        return archive.extract(max(members, key=lambda info: info.file_size), folder)


def large(named: str | None, folder: Path) -> str | None:
    """The largest library of a wheel, named or to be fetched; None for None."""
    if named is None:
        return None
    return library(str(download(named, folder)) if named == LARGE else named, folder)


def several(named: str | None, folder: Path) -> tuple[str, ...]:
    """The wheels in a folder that is named, or those to be fetched for an empty name; none for None."""
    if named is None:
        return ()
    found = Path(named).glob("*.whl") if named else (download(requirement, folder) for requirement in TWELVE)
    return tuple(sorted(map(str, found)))


def environment(named: str | None, folder: Path) -> str | None:
    """The Python of an environment that is named, or of one made for an empty name; None for None."""
    return _make_environment(folder / "environment") if named == "" else named


def _make_environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", *ENVIRONMENT], check=True)
    # The torch is that of the environment that runs this, and nothing else of it: it has abiscan itself, and tools.
    (site,) = folder.glob("lib/python*/site-packages")
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    package = Path(torch.origin).parent
    for part in (package, *package.parent.glob("torch-*.dist-info"), package.parent / "torchgen"):
        (site / part.name).symlink_to(part)
    return str(python)


def imports_of(words: Sequence[str], scratch: Path) -> str:
    """A program that imports what a command of abiscan imports, and no garbage is collected."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(scratch / "imports")}
    command = [sys.executable, "-c", _LISTED, "--no-isolation", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    names = json.loads(done.stderr.splitlines()[-1])
    return f"import gc\ngc.disable()\nfor name in {names}:\n    __import__(name)\n"


def rows(
    wheel: str,
    large_library: str | None,
    scratch: Path,
    index: str,
    *,
    npu: str | None = None,
    wheels: Sequence[str] = (),
    python: str | None = None,
) -> Iterator[Row]:
    """The rows of the table, in its order; what is not installed is left out.

    :param index: the address of an index that has the wheel
    :param npu: the wheel of torch_npu
    :param wheels: those that are checked together
    :param python: that of an environment
    """
    cache, own, answers = scratch / "cache", library(wheel, scratch), scratch / "survey.jsonl"
    survey = ("survey", wheel, "--torch", RELEASE, "--jobs", "1", "--output", str(answers))
    fit = ("fit", Path(wheel).name.partition("-")[0], "--torch", RELEASE, "--index-url", index)
    commands: dict[str, tuple[str, ...]] = {
        "abiscan check": ("check", wheel),
        f"abiscan {_CHECK}": ("check", wheel, "--torch", RELEASE),
        f"abiscan --no-isolation {_CHECK}": ("--no-isolation", "check", wheel, "--torch", RELEASE),
        "abiscan matrix, all releases": ("matrix", wheel),
        "abiscan ops": ("ops", wheel),
        f"abiscan coverage --torch {RELEASE} --backend CPU": (
            *("coverage", wheel, "--torch", RELEASE),
            *("--backend", "CPU"),
        ),
        "abiscan diff 2.12.0 2.13.0": ("diff", "2.12.0", "2.13.0"),
        "abiscan doctor": ("doctor", "--python", sys.executable),
        f"abiscan survey --torch {RELEASE}": survey,
        f"abiscan fit --torch {RELEASE}, an index with one wheel": fit,
        **({"abiscan ops, a library of 262 MB": ("ops", large_library)} if large_library else {}),
        **({"abiscan ops, torch_npu 2.9.0": ("ops", npu)} if npu else {}),
        **({"abiscan doctor, an environment": ("doctor", "--python", python, "--no-index")} if python else {}),
        **({f"abiscan {_CHECK}, {_SEVERAL}": ("check", *wheels, "--torch", RELEASE)} if wheels else {}),
    }
    for label, words in commands.items():
        for state in (FIRST, AGAIN):
            command = (sys.executable, "-m", "abiscan", *words)
            yield Row(label=label, state=state, words=command, cache=cache, output=answers if words is survey else None)
    yield Row(label=_IMPORTS, words=(sys.executable, "-c", imports_of(commands[f"abiscan {_CHECK}"], scratch)))
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        torch = str(Path(spec.origin).parent)
        yield Row(label="the operators of torch, from its libraries", words=(sys.executable, "-c", READ, torch))
    peers = scratch / "peers" / "bin"
    others: dict[str, tuple[str, ...]] = {
        "ldd -r, its largest library": ("ldd", "-r", own),
        "auditwheel show": (str(peers / "auditwheel"), "show", wheel),
        "abi3audit": (str(peers / "abi3audit"), wheel),
        "torch-abi-audit": (str(peers / "torch-abi-audit"), wheel),
        "abidiff, its largest library with itself": ("abidiff", own, own),
        IMPORT: (sys.executable, "-c", "import torch"),
    }
    yield from (Row(label=label, words=words) for label, words in others.items() if shutil.which(words[0]))


def measured(found: Sequence[Row], rounds: int = ROUNDS) -> list[tuple[Row, Timing]]:
    """Each row with its timing, measured in turns. What the first turn reads of the torch is kept for the others."""
    timings = [Timing()] * len(found)
    for _ in range(rounds):
        timings = [timing.and_(row.measure()) for row, timing in zip(found, timings, strict=True)]
    return list(zip(found, timings, strict=True))


def table(timings: Sequence[tuple[Row, Timing]]) -> str:
    """The timings in Markdown, with ratios to ``import torch``."""
    unit = next(timing.processor for row, timing in timings if row.label == IMPORT)
    lines = [
        "| command | | seconds | processor seconds | MB | processor time of `import torch` = 1 |",
        "|---|---|--:|--:|--:|--:|",
        *(
            f"| `{row.label}` | {row.state} | {timing.seconds:.2f} | {timing.processor:.2f} | {timing.megabytes:.0f} "
            f"| {timing.processor / unit:.2f} |"
            for row, timing in timings
        ),
    ]
    return "\n".join(lines)


def ratios(text: str) -> dict[tuple[str, str], float]:
    """The ratios in a table, by command and state."""
    return {(row["label"], row["state"].strip()): float(row["ratio"]) for row in _ROW.finditer(text)}


def worse(before: str, now: str) -> list[str]:
    """What is worse in a table than in an earlier one, in words. Half a hundredth is lost in rounding."""
    was, found = ratios(before), ratios(now)
    return [
        f"{' '.join(filter(None, key))}: {found[key]:.2f} times import torch, was {was[key]:.2f}"
        for key in was.keys() & found.keys()
        if found[key] > (was[key] + 0.005) * WORSE + 0.005
    ]


def cost_of_isolation(timings: Sequence[tuple[Row, Timing]]) -> float:
    """The part of the processor time of a first check that reading the target in a process of its own adds."""
    first = {row.label: timing.processor for row, timing in timings if row.state == FIRST}
    return first[f"abiscan {_CHECK}"] / first[f"abiscan --no-isolation {_CHECK}"] - 1


def cost_of_each(timings: Sequence[tuple[Row, Timing]], count: int) -> tuple[float, float]:
    """The processor time of each of several wheels in one check, and of a check of one less its imports."""
    first = {row.label: timing.processor for row, timing in timings if row.state != AGAIN}
    return first[f"abiscan {_CHECK}, {_SEVERAL}"] / count, first[f"abiscan {_CHECK}"] - first[_IMPORTS]


def machine() -> str:
    """The machine in words."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}"
    )


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments: ``wheel``; ``large``, the path of a wheel or ``LARGE``; ``rounds``; ``keep`` and ``compare``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?", type=Path)
    # No type: argparse would apply it to the default as well.
    parser.add_argument(
        "--large", nargs="?", const=LARGE, metavar="WHEEL", help=f"by default {LARGE}, fetched with pip"
    )
    parser.add_argument("--npu", nargs="?", const=NPU, metavar="WHEEL", help=f"by default {NPU}, fetched with pip")
    parser.add_argument(
        "--twelve",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="by default torchvision and torchaudio, fetched with pip",
    )
    parser.add_argument(
        "--environment", nargs="?", const="", metavar="PYTHON", help="by default one that is made, with pip"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--keep", action="store_true", help=f"write the table into {PAGE.name}")
    what.add_argument("--compare", action="store_true", help="fail if a ratio is 20 %% worse than in that table")
    return parser.parse_args(words)


def main() -> int:
    """Measure and print."""
    arguments = parsed()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        wheel = str(arguments.wheel or download(WHEEL, scratch))
        subprocess.run([sys.executable, "-m", "venv", str(scratch / "peers")], check=True)
        subprocess.run([str(scratch / "peers" / "bin" / "pip"), "install", "--quiet", *PEERS], check=True)
        served = scratch / "index"
        served.mkdir()
        shutil.copy(wheel, served)
        with serving(served) as index:
            npu = str(download(NPU, scratch)) if arguments.npu == NPU else arguments.npu
            wheels = several(arguments.twelve, scratch)
            python = environment(arguments.environment, scratch)
            large_library = large(arguments.large, scratch)
            found = list(rows(wheel, large_library, scratch, index.url, npu=npu, wheels=wheels, python=python))
            timings = measured(found, arguments.rounds)
    text, isolation = table(timings), cost_of_isolation(timings)
    sys.stdout.write(f"{text}\nisolation: {isolation:+.1%} of the processor time of a first check\n")
    if wheels:
        each, alone = cost_of_each(timings, len(wheels))
        sys.stdout.write(f"{len(wheels)} wheels: {each:.2f} s each; one less its imports: {alone:.2f} s\n")
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(_BEGIN)
    kept, _, after = rest.partition(_END)
    if arguments.keep:
        PAGE.write_text(f"{before}{_BEGIN}\n{machine()}:\n\n{text}\n{_END}{after}", "utf-8")
    problems = worse(kept, text) if arguments.compare else []
    if arguments.compare and isolation > MOST_FOR_ISOLATION:
        problems.append(f"isolation: {isolation:.1%} of a check, more than {MOST_FOR_ISOLATION:.0%}")
    sys.stdout.writelines(f"worse: {problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
