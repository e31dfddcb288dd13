"""The samples for Windows and macOS, and miniature torches: see ``sample_binaries/images/build.py``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.fakes import SAMPLES, wheel

IMAGES: Final = SAMPLES / "images"
WARN: Final = {"Windows": "?warn@c10@@YAXAEBVWarning@1@@Z", "macOS": "__ZN3c104warnERKNS_7WarningE"}
"""``c10::warn(c10::Warning const&)``, which every release exports, in the names of each system."""

LACKED: Final = {"Windows": "?abiscan_not_in_torch@at@@YAXXZ", "macOS": "__ZN2at20abiscan_not_in_torchEv"}
"""``at::abiscan_not_in_torch()``, which none exports."""

LIBRARIES: Final = {"Windows": "*.dll", "macOS": "*.dylib"}


def image(name: str) -> bytes:
    """The bytes of a sample."""
    return (IMAGES / name).read_bytes()


def torch_folder(site: Path, system: str, version: str = "9.9.0") -> Path:
    """A torch for a system, x86_64, in the folder ``site``."""
    library = site / "torch" / "lib"
    library.mkdir(parents=True)
    for file in (IMAGES / "torch").glob(LIBRARIES[system]):
        shutil.copy(file, library)
    (site / "torch" / "version.py").write_text(f"__version__ = '{version}'\n", "utf-8")
    return site / "torch"


def torch_wheel(folder: Path, system: str, version: str = "9.9.0") -> Path:
    """The wheel of the same torch."""
    members = {f"torch/lib/{file.name}": file.read_bytes() for file in (IMAGES / "torch").glob(LIBRARIES[system])}
    members["torch/version.py"] = f"__version__ = '{version}'\n".encode()
    return wheel(folder / f"torch-{version}-cp311-none-any.whl", members)


def package(
    folder: Path, members: Mapping[str, bytes], requires: str = "torch==2.13.0", *, platform: str = "any"
) -> Path:
    """The wheel of a package."""
    metadata = f"Metadata-Version: 2.1\nName: pkg\nVersion: 1\nRequires-Dist: {requires}\n".encode()
    return wheel(folder / f"pkg-1-cp311-cp311-{platform}.whl", {**members, "pkg-1.dist-info/METADATA": metadata})
