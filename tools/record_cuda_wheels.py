"""The libraries that distributions of CUDA bring, for ``abiscan/inputs/data/cuda_wheels.txt``.

    python -m tools.record_cuda_wheels

Read in place, on the package index: the list of files in each wheel, and what it requires. A line is for the versions
of one distribution, or of one extra of it, with the same major number: the oldest, the newest, and the libraries in the
newest one and in the distributions of this list that it requires.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from abiscan.binary.ownership import gpu_library
from abiscan.errors import InputError
from abiscan.index.client import Candidate, Index, settings_of_pip
from abiscan.index.system import System
from abiscan.inputs.cuda_wheels import PATH
from abiscan.inputs.requirement import parse_applying, required_by

_PARTS: Final = (
    *("cuda-runtime", "cublas", "cuda-nvrtc", "cuda-cupti", "cudnn", "cufft", "curand", "cusolver", "cusparse"),
    *("nccl", "nvjitlink", "nvtx", "cusparselt", "nvshmem", "nvjpeg", "npp", "cufile", "cuda-nvcc", "nvcomp"),
    *("nvimgcodec", "nvtiff", "nvjpeg2k", "cublasmp", "cusolvermp"),
)
_DISTRIBUTIONS: Final = (
    *(f"nvidia-{part}{suffix}" for part in _PARTS for suffix in ("", "-cu11", "-cu12", "-cu13")),
    *("cuda-toolkit", "nvidia-dali-cuda120", "nvidia-dali-cuda130", "nvidia-cudnn-frontend", "nvidia-cutlass-dsl"),
    *(f"nvidia-cutlass-dsl-libs-{part}" for part in ("base", "core", "cu12", "cu13")),
)
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([\w.-]+)""")
_SYSTEM: Final = System.of((3, 11), "manylinux_2_34_x86_64")


class _Reader:
    def __init__(self, index: Index) -> None:
        self._index = index
        self._wheels: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {}
        self._known: dict[tuple[str, str], frozenset[str]] = {}

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of a distribution, those of its newest versions first."""
        by_major: dict[int, list[Candidate]] = {}
        for candidate in self._candidates(Requirement(name)):
            by_major.setdefault(candidate.version.major, []).append(candidate)
        for newest, *older in by_major.values():
            oldest = older[-1] if older else newest
            for extra in ("", *self._extras(newest)):
                if libraries := self._libraries(newest, extra):
                    full = f"{name}[{extra}]" if extra else name
                    yield " ".join((full, str(oldest.version), str(newest.version), *sorted(libraries)))

    def _candidates(self, requirement: Requirement) -> tuple[Candidate, ...]:
        try:
            return tuple(candidate for candidate in self._index.candidates(requirement) if candidate.wheel)
        except InputError:  # no such distribution
            return ()

    def _read(self, candidate: Candidate) -> tuple[frozenset[str], tuple[str, ...]]:
        """Return the libraries in a wheel, and its requirements."""
        if candidate.wheel not in self._wheels:
            with zipfile.ZipFile(self._index.wheel(candidate).stream()) as archive:
                names = archive.namelist()
                metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
                requirements = required_by(archive.read(metadata).decode(), candidate.wheel)
            libraries = frozenset(filter(gpu_library, (name.rpartition("/")[2] for name in names)))
            self._wheels[candidate.wheel] = libraries, requirements
        return self._wheels[candidate.wheel]

    def _extras(self, candidate: Candidate) -> dict[str, None]:
        return dict.fromkeys(extra for line in self._read(candidate)[1] for extra in _EXTRA.findall(line))

    def _libraries(self, candidate: Candidate, extra: str) -> frozenset[str]:
        """Return the libraries of a version, and of what it requires of this list."""
        key = (candidate.wheel, extra)
        if key not in self._known:
            self._known[key] = frozenset()  # a distribution may require itself, by an extra
            libraries, requirements = self._read(candidate)
            self._known[key] = libraries.union(*(self._required(line, extra) for line in requirements))
        return self._known[key]

    def _required(self, line: str, extra: str) -> frozenset[str]:
        requirement = parse_applying(line, {**_SYSTEM.environment, "extra": extra})
        if requirement is None or canonicalize_name(requirement.name) not in _DISTRIBUTIONS:
            return frozenset()
        newest = self._candidates(requirement)[:1]
        return frozenset().union(*(self._libraries(one, name) for one in newest for name in ("", *requirement.extras)))


def main() -> None:
    """Read, and write the file."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Index(settings_of_pip(sys.executable), _SYSTEM, Path(folder))) as index,
    ):
        reader = _Reader(index)
        lines = [line for name in sorted(_DISTRIBUTIONS) for line in reader.lines(name)]
    PATH.write_text("".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
