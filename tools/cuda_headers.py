"""The headers of CUDA that a torch was compiled with: its wheel pins their version, so the same come each time."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.wheels import download

_RUNTIME: Final = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?")
_TOOLKIT: Final = "cuda-toolkit"
# From CUDA 13 on, what the headers of the runtime include is in a package of its own.
_COMPILER_HEADERS: Final = "nvidia-cuda-crt"
_BEFORE: Final = "nvidia-cuda-runtime-cu11==11.7.99"
"""The oldest that is on the package index, for the releases whose wheels require none."""

_HEADER: Final = "cuda_runtime_api.h"


def cuda_headers(wheel: Path, folder: Path) -> Path | None:
    """Download the headers of a torch's CUDA into ``folder``; None for a build without CUDA.

    :raises SystemExit: they are not there
    """
    with zipfile.ZipFile(wheel) as archive:
        if not any(name.endswith(("/libtorch_cuda.so", "/libtorch_cuda_cu.so")) for name in archive.namelist()):
            return None
        required = dict(_pins(_metadata(archive)))
    folder.mkdir(parents=True, exist_ok=True)
    runtime = next((pin for name, pin in required.items() if _RUNTIME.fullmatch(name)), None)
    if runtime is None and _TOOLKIT in required:
        with zipfile.ZipFile(_fetched(required[_TOOLKIT], folder)) as archive:
            required = dict(_pins(_metadata(archive)))
        runtime = next(pin for name, pin in required.items() if _RUNTIME.fullmatch(name))
    compiler = required.get(_COMPILER_HEADERS)
    for part in filter(None, (runtime or _BEFORE, compiler)):
        with zipfile.ZipFile(_fetched(part, folder)) as archive:
            archive.extractall(folder)
    return next(folder.rglob(_HEADER)).parent


def _fetched(requirement: str, folder: Path) -> Path:
    wheel = download(requirement, folder)
    if wheel is None:
        raise SystemExit(f"there is no wheel of {requirement}, whose headers are needed for the layouts of c10/cuda")
    print(f"  headers of CUDA: {wheel.name}", flush=True)
    return wheel


def _metadata(archive: zipfile.ZipFile) -> bytes:
    name = next(name for name in archive.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA"))
    return archive.read(name)


def _pins(metadata: bytes) -> Iterator[tuple[str, str]]:
    """The requirements of an exact version, by name."""
    for text in message_from_bytes(metadata).get_all("Requires-Dist", ()):
        required = Requirement(text)
        name, specifier = canonicalize_name(required.name), str(required.specifier)
        if specifier.startswith("==") and "," not in specifier:
            yield name, f"{name}{specifier}"
