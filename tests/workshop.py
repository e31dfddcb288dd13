"""The machine on which the commands of the documentation are run: a user's home, a project and an index, all made up.

Packages have the names and versions that the pages name, and what the pages say of them; there is nothing else in them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from abiscan.hooks import guard
from tests.elf_builder import Elf, exports, uses
from tests.fakes import (
    SAMPLES,
    conda_package,
    extension,
    install,
    package_wheel,
    site_of,
    torch_libraries,
    torch_package,
    variant_wheel,
    wheel,
)
from tests.index_server import LocalIndex

ROOT: Final = SAMPLES.parent
COLUMNS: Final = 88
"""Characters in a line of a code block before the site needs a scroll bar."""
NEEDS_CUDA: Final = extension(needed=("libtorch_cpu.so", "libc10.so", "libc10_cuda.so"))
SIZES: Final = {"torchvision": 7_600_000, "torch": 539_100_000, "numpy": 16_900_000}
PRINTED_HOME: Final = "/home/me"


@dataclass(frozen=True)
class Workshop:
    """A machine of a user.

    :ivar folder: everything that belongs to it
    :ivar index_url: the address of its package index
    """

    folder: Path
    index_url: str

    @property
    def home(self) -> Path:
        """The user's home; its environment is ``venv``."""
        return self.folder / "home"

    @property
    def repository(self) -> Path:
        """Where the commands of the README are run."""
        return self.home / "abiscan"

    @property
    def samples(self) -> Path:
        """Where those of the pages are run."""
        return self.repository / SAMPLES.name

    def run(self, line: str, folder: Path) -> tuple[int, str]:
        """Run a command line in a shell; the exit code, and both streams in the order of what was written."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        variables |= {
            "COLUMNS": str(COLUMNS),
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "PATH": os.pathsep.join((str(self.folder / "bin"), os.environ["PATH"])),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_INDEX_URL": self.index_url,
            "UV_CACHE_DIR": str(self.home / "uv"),
            "UV_INDEX_URL": self.index_url,
            "VIRTUAL_ENV": str(self.home / "venv"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
        }
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout.replace(str(self.home), PRINTED_HOME)


def furnish(folder: Path, index: LocalIndex) -> Workshop:
    """Make the machine in an empty folder, and fill the folder of the index."""
    workshop = Workshop(folder, index.url)
    shutil.copytree(SAMPLES, workshop.samples)
    (workshop.repository / "tests").symlink_to(ROOT / "tests")
    _install_programs(folder / "bin")
    _make_environment(workshop.home / "venv")
    _fill_project(workshop.samples)
    shutil.copy(workshop.samples / "_C.so", workshop.repository)
    for project in (workshop.repository, workshop.samples):
        (project / ".venv").symlink_to(workshop.home / "venv")
    shutil.copy(folder / "bin" / "abiscan", workshop.home / "venv" / "bin")
    _fill_index(index)
    return workshop


def _install_programs(folder: Path) -> None:
    """Programs that run what the tests have, under the names that users type."""
    folder.mkdir()
    for name, words in {"abiscan": (sys.executable, "-m", "abiscan"), "uvx": (), "python": (sys.executable,)}.items():
        folder.joinpath(name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
        folder.joinpath(name).chmod(0o755)
    uv = Path(sys.executable).with_name("uv")
    if uv.is_file():
        folder.joinpath("uv").symlink_to(uv)


def _make_environment(folder: Path) -> None:
    """An environment with torch 2.13.0+cpu, and a package that does not work with it."""
    venv.create(folder, with_pip=False)
    site = site_of(folder)
    torch_package(site, build="2.13.0+cpu").joinpath("__init__.py").touch()
    install(site, "torch", {}, version="2.13.0+cpu", requires="")
    gone = extension(undefined=uses("_ZN2at4goneEv"))
    vision = {"torchvision/__init__.py": "from . import _C\n"}
    install(site, "torchvision", {"torchvision/_C.so": gone}, version="0.20.1", files=vision)


def _fill_project(folder: Path) -> None:
    """The files that the pages name."""
    loads = (SAMPLES / "loads" / "loads.so").read_bytes()
    for name in ("_C.so", "_torch_ipex.so", "libfaiss.so", "faiss_ext.so", "build/_C.so"):
        folder.joinpath(name).parent.mkdir(exist_ok=True)
        folder.joinpath(name).write_bytes(loads)
    shutil.copy(SAMPLES / "coverage" / "backend.so", folder)
    shutil.copy(SAMPLES / "models" / "classifier.pt2", folder / "model.pt2")
    shutil.copy(SAMPLES / "models" / "detector.pt", folder)
    _save_release_page(folder)
    (folder / "src" / "pkg").mkdir(parents=True)
    (folder / "src" / "pkg" / "__init__.py").touch()
    code = {
        "pkg/__init__.py": "from . import _abiscan_guard\n_abiscan_guard.check()\nfrom . import _C\n",
        "pkg/_abiscan_guard.py": Path(guard.__file__).read_text("utf-8"),
    }
    python_extension = extension(defined=exports("PyInit__C"))
    package_wheel(
        folder / "dist", "pkg", {"pkg/_C.so": python_extension}, files=code, metadata={"Requires-Dist": "torch>=2.9"}
    )
    guarded = {"pkg/_C.so": python_extension.build(), **{path: text.encode() for path, text in code.items()}}
    variant_wheel(folder / "dist", "x86_64_v2", {"x86_64": {"level": ["v2"]}}, guarded)
    members = {"lib/python3.11/site-packages/torchvision/_C.so": loads}
    conda_package(folder / "torchvision-0.23.0-cpu_py311_0.conda", members)
    images = SAMPLES / "images"
    for name, library in {"win_amd64": "loads.pyd", "macosx_11_0_arm64": "loads.so"}.items():
        members = {
            f"torchvision/_C{Path(library).suffix}": images.joinpath(library).read_bytes(),
            "torchvision-0.25.0.dist-info/METADATA": b"Name: torchvision\nVersion: 0.25.0\nRequires-Dist: torch\n",
            "torchvision-0.25.0.dist-info/RECORD": b"",
        }
        wheel(folder / f"torchvision-0.25.0-cp311-cp311-{name}.whl", members)


def _save_release_page(folder: Path) -> None:
    """A release page with wheels of one version for several torches, Pythons and C++ ABIs, as a browser saves it."""
    works, fails = extension(), extension(undefined=uses("_ZN2at4goneEv"))
    links = []
    for torch, abi, library in (("2.8", "FALSE", fails), ("2.8", "TRUE", works), ("2.9", "TRUE", fails)):
        version = f"2.8.3+cu12torch{torch}cxx11abi{abi}"
        files = {"flash_attn/__init__.py": "from . import _C\n"}
        objects = {"flash_attn/_C.so": library}
        made = package_wheel(folder / "assets", "flash_attn", objects, version=version, files=files)
        for python in ("cp310", "cp311", "cp312"):
            name = f"flash_attn-{version}-{python}-{python}-linux_x86_64.whl"
            shutil.copy(made, made.with_name(name))
            links.append(f'<li><a href="assets/{name}" rel="nofollow"><span>{name}</span></a></li>')
        made.unlink()
    folder.joinpath("releases.html").write_text(f"<html><body><ul>{''.join(links)}</ul></body></html>", "utf-8")


def _fill_index(index: LocalIndex) -> None:
    """The packages that the pages fetch."""
    folder = index.folder
    libraries = {f"torch/lib/{name}": library for name, library in torch_libraries().items()}
    libraries["torch/lib/libc10_cuda.so"] = Elf(soname="libc10_cuda.so")
    newest = {"torch/version.py": "__version__ = '2.15.0+cu132'\n", "torch/__init__.py": ""}
    package_wheel(folder, "torch", libraries, version="2.15.0", files=newest)
    vision = {"torchvision/__init__.py": "from . import _C\n"}
    for version, torch in {"0.20.1": "2.5.1", "0.28.0": "2.13.0", "0.29.2": "2.15.0"}.items():
        metadata = {"Requires-Dist": f"torch=={torch}\nRequires-Dist: numpy"}
        package_wheel(
            folder, "torchvision", {"torchvision/_C.so": NEEDS_CUDA}, version=version, files=vision, metadata=metadata
        )
    package_wheel(folder, "numpy", {}, version="2.4.6")
    for name, versions in {"torchaudio": ("2.8.0", "2.9.0"), "torchcodec": ("0.7.0", "0.8.0")}.items():
        for version in versions:
            objects = {f"{name}/_C.so": extension(defined=exports("PyInit__C"))}
            metadata = {"Requires-Dist": f"torch=={version}"} if name == "torchaudio" else {"Requires-Dist": "torch"}
            files = {f"{name}/__init__.py": "from . import _C\n"}
            package_wheel(folder, name, objects, version=version, files=files, metadata=metadata)
    package_wheel(folder, "pkg", {"pkg/_C.so": extension()})
    index.sizes = SIZES
