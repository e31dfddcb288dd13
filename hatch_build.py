"""What hatchling does beyond building: it compiles the native processor, and makes links of the README absolute.

``abiscan/native`` is compiled with the system's compiler, or with one from PyPI. Where neither compiles it,
the package works without, and ``abiscan --version`` says so. In the environment, ``ABISCAN_NATIVE=0`` leaves it out,
and ``ABISCAN_NATIVE=1`` makes the build fail if it cannot be compiled.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCES = Path("abiscan/native")
MODULE = "_core.abi3.so"
FROM_PYPI = "ziglang"  # a C compiler as a wheel
OPTIONS = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off")
MACHINES = ("x86_64", "aarch64")


class CompileHook(BuildHookInterface[Any]):
    """Hatchling's interface: what to install before the build, and what to do at its beginning."""

    def dependencies(self) -> list[str]:
        """A compiler, if the system has none and one can be had."""
        is_needed = self.target_name == "wheel" and is_wanted() and not list(compilers_of_the_system())
        return [FROM_PYPI] if is_needed and is_on_the_index(FROM_PYPI) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the module, and name the wheel after the platform."""
        if self.target_name != "wheel" or not is_wanted():
            return
        is_editable = version == "editable"
        folder = Path(self.root, SOURCES) if is_editable else Path(tempfile.mkdtemp())
        module = folder / MODULE
        problem = compiled(Path(self.root, SOURCES), module)
        if problem is not None:
            if os.environ.get("ABISCAN_NATIVE") == "1":
                raise RuntimeError(f"abiscan/native cannot be compiled: {problem}")
            self.app.display_warning(f"abiscan is built without its native processor: {problem}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp310-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        if not is_editable:
            build_data["force_include"][str(module)] = str(SOURCES / MODULE)


class ReadmeHook(MetadataHookInterface):
    """Hatchling's interface: the README as an index shows it, next to which no other file lies."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README, with links into the repository if ``[project.urls]`` has the address of its files."""
        text = Path(self.root, "README.md").read_text("utf-8")
        files = metadata.get("urls", {}).get("Source")
        text = with_absolute_links(text, files) if files else text
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, files: str) -> str:
    """Return a page of Markdown whose links to files beside it lead to an address instead."""
    return re.sub(r"\]\((?!https?:|#)", f"]({files.rstrip('/')}/", text)


def is_wanted() -> bool:
    """Whether this Python on this machine can use the module, and the environment does not forbid it."""
    is_limited = platform.python_implementation() == "CPython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    is_known = sys.platform.startswith("linux") and platform.machine() in MACHINES
    return is_limited and is_known and os.environ.get("ABISCAN_NATIVE") != "0"


def compilers_of_the_system() -> Iterator[list[str]]:
    """The commands of the C compilers that are installed, the one that is asked for first."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        words = shlex.split(name)
        if words and shutil.which(words[0]):
            yield words


def is_on_the_index(name: str) -> bool:
    """Whether pip finds a package; True if there is no pip to ask."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # that of an isolated build
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    try:
        if subprocess.run([*pip, "--version"], capture_output=True, env=environment, check=False).returncode != 0:
            return True
        asked = subprocess.run([*pip, "index", "versions", name], capture_output=True, env=environment, check=False)
    except OSError:
        return True
    return asked.returncode == 0


def compiled(sources: Path, module: Path) -> str | None:
    """Compile the module; the reason if no compiler does."""
    headers = sysconfig.get_paths()["include"]
    if not Path(headers, "Python.h").is_file():
        return f"{headers} has no Python.h"
    from_pypi = [[sys.executable, "-m", FROM_PYPI, "cc", "-fno-sanitize=undefined"]]
    problem = "there is no C compiler"
    for compiler in (*compilers_of_the_system(), *from_pypi):
        try:
            failed = error_of([*compiler, *OPTIONS, f"-I{headers}"], sorted(sources.glob("*.c")), module)
        except OSError as error:
            problem = str(error)
            continue
        if failed is None:
            return None
        if "No module named" not in failed:
            problem = f"{compiler[0]}: {failed.strip()[-500:]}"
    return problem


def error_of(command: list[str], sources: list[Path], module: Path) -> str | None:
    """Compile sources, as many at once as there are processors, and link them; what a compiler says if it fails."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], capture_output=True, text=True, check=False)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as threads:
        objects = [str(Path(folder, f"{source.stem}.o")) for source in sources]
        steps = list(threads.map(lambda source, file: run("-c", str(source), "-o", file), sources, objects))
        steps.append(run(*objects, "-o", str(module)))
    return next((step.stderr for step in steps if step.returncode), None)
