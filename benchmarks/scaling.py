"""How the cost of a first run grows with a target: exponents of processor time and memory.

    python -m benchmarks.scaling [--rounds N]

Targets are made of 1, 4, 16 and 64 times as many operators of a library, libraries, modules of Python, releases to
check on (46 at most) and packages of an environment. What does not grow is left out: the exponent is that of what the
largest target takes more than the smallest, next to what the second largest does, so that a straight line has 1.

Libraries are compiled with the installed torch, a C++ compiler and its headers.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from abiscan.torches.embedded import versions
from benchmarks.run import FIRST, ROUNDS, Row, Timing, measured

TIMES: Final = (1, 4, 16, 64)
MOST: Final = 1.1
_NAMESPACE: Final = b"scale_0000"  # libraries differ in it alone
_OPERATORS: Final = 16
_REQUIRED: Final = (
    *("torch", "torchgen", "filelock", "typing_extensions", "setuptools", "sympy", "mpmath", "networkx", "jinja2"),
    *("markupsafe", "fsspec"),
)
_SOURCE: Final = """
#include <torch/library.h>
TORCH_LIBRARY(%s, m) {
%s
}
"""
_MODULE: Final = """
import torch
from torch import nn


class Layer{number}(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.relu(x) + {number}


LAYER = torch.device("cpu")
"""


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The exponent of what the largest size costs more than the smallest, by what the second largest does."""
    (first, *_, second, last), (base, *_, before, most) = sizes, costs
    if before <= base or most <= base:
        return 0
    return math.log((most - base) / (before - base)) / math.log((last - first) / (second - first))


def _compile(operators: int, folder: Path) -> bytes:
    """A library that defines operators."""
    import torch  # for its headers

    include = Path(torch.__file__).parent / "include"
    definitions = "\n".join(f'm.def("operator_{number}(Tensor x, int n) -> Tensor");' for number in range(operators))
    source, library = folder / "scale.cpp", folder / "scale.so"
    source.write_text(_SOURCE % (_NAMESPACE.decode(), definitions), "utf-8")
    options = ("-std=c++20", "-O1", "-shared", "-fPIC", f"-I{include}", f"-I{include}/torch/csrc/api/include")
    linked = (f"-L{include.parent / 'lib'}", "-ltorch_cpu", "-lc10")
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    assert compiler is not None, "a C++ compiler is needed"
    subprocess.run([compiler, *options, str(source), "-o", str(library), *linked], check=True)
    return library.read_bytes()


def _package(folder: Path, name: str, libraries: Sequence[bytes] = (), modules: int = 0) -> Path:
    """A package that loads libraries, and imports modules."""
    package = folder / name
    package.mkdir(parents=True)
    lines = [
        *("import os", "import torch"),
        *(f"torch.ops.load_library(os.path.dirname(__file__) + '/library_{n}.so')" for n in range(len(libraries))),
        *(f"from {name} import module_{number}" for number in range(modules)),
    ]
    (package / "__init__.py").write_text("\n".join((*lines, "")), "utf-8")
    for number in range(modules):
        (package / f"module_{number}.py").write_text(_MODULE.format(number=number), "utf-8")
    for number, content in enumerate(libraries):
        (package / f"library_{number}.so").write_bytes(content)
    return package


def _install(site: Path, name: str, library: bytes) -> None:
    _package(site, name, [library])
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: torch\n")
    (metadata / "RECORD").write_text(f"{name}/__init__.py,,\n{name}/library_0.so,,\n{metadata.name}/METADATA,,\n")


def _environment(folder: Path, libraries: Sequence[bytes]) -> str:
    """The Python of an environment with this one's torch and what that requires, and a package for each library."""
    import torch

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    own = Path(torch.__file__).parents[1]
    for name in _REQUIRED:
        for part in (*own.glob(f"{name}.py"), *own.glob(name), *own.glob(f"{name}-*.dist-info")):
            (site / part.name).symlink_to(part)
    for number, library in enumerate(libraries):
        _install(site, f"package_{number}", library)
    return str(folder / "bin" / "python")


def _targets(folder: Path) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """What grows, how large it is, and the words of the command."""
    library = _compile(_OPERATORS, folder)
    several = [library.replace(_NAMESPACE, b"scale_%04d" % number) for number in range(max(TIMES))]
    for times in TIMES:
        path = folder / f"operators_{times}.so"
        path.write_bytes(library if times == 1 else _compile(_OPERATORS * times, folder))
        yield "operators", times, ("ops", str(path))
    for times in TIMES:
        package = _package(folder / f"libraries_{times}", "scaled", several[:times])
        yield "libraries", times, ("check", str(package), "--torch", "2.13.0")
    for times in TIMES:
        package = _package(folder / f"modules_{times}", "scaled", [library], modules=32 * times)
        yield "modules", times, ("check", str(package), "--torch", "2.13.0")
    for count in (min(times, len(versions())) for times in TIMES):
        options = (word for release in versions()[-count:] for word in ("--torch", str(release)))
        yield "releases", count, ("matrix", str(folder / "operators_1.so"), "--jobs", "1", *options)
    for times in TIMES:
        python = _environment(folder / f"environment_{times}", several[:times])
        yield "packages of an environment", times, ("doctor", "--python", python, "--no-index")


class Growth(NamedTuple):
    """How the cost grows with one part of a target.

    :ivar sizes: how many of it each target has
    :ivar timings: what each target takes
    """

    what: str
    sizes: Sequence[int]
    timings: Sequence[Timing]

    @property
    def of_time(self) -> float:
        """The exponent of processor time."""
        return exponent(self.sizes, [timing.processor for timing in self.timings])

    @property
    def of_memory(self) -> float:
        """The exponent of resident memory."""
        return exponent(self.sizes, [timing.megabytes for timing in self.timings])

    @property
    def line(self) -> str:
        """The row of the table."""
        seconds = " ".join(f"{timing.processor:.2f}" for timing in self.timings)
        megabytes = " ".join(f"{timing.megabytes:.0f}" for timing in self.timings)
        sizes = ", ".join(map(str, self.sizes))
        return f"| {self.what}: {sizes} | {seconds} | {self.of_time:.2f} | {megabytes} | {self.of_memory:.2f} |"


def main() -> int:
    """Measure and print; 1 if an exponent of time is above ``MOST``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = list(_targets(folder))
        program, cache = (sys.executable, "-m", "abiscan"), folder / "cache"
        rows = [Row(label=what, state=FIRST, words=(*program, *words), cache=cache) for what, _, words in targets]
        timings = [timing for _, timing in measured(rows, rounds)]
    growths = []
    for what in dict.fromkeys(what for what, _, _ in targets):
        own = [(size, timing) for (other, size, _), timing in zip(targets, timings, strict=True) if other == what]
        growths.append(Growth(what, *zip(*own, strict=True)))
    sys.stdout.write("| times | processor seconds | exponent | MB | exponent |\n|---|--:|--:|--:|--:|\n")
    sys.stdout.writelines(f"{growth.line}\n" for growth in growths)
    steep = [growth.what for growth in growths if growth.of_time > MOST]
    sys.stdout.writelines(f"grows faster than what it looks at: {what}\n" for what in steep)
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
