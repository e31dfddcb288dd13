"""A torch, read from its files: a package folder, its ``lib``, one ``libtorch_cpu.so``, or a wheel."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final

from abiscan.errors import InputError
from abiscan.files import Files, Wheel
from abiscan.interpreter import PythonTag
from abiscan.releases.model import TorchRelease

WHEEL_MOUNT: Final = "/site-packages"
"""Where the members of a torch wheel are taken to be installed."""

_VERSION: Final = re.compile(r"^__version__\s*(?::\s*str\s*)?=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
_SHARED_OBJECT: Final = re.compile(r"\.so(\.[0-9]+)*$")
_FIX: Final = (
    "give the folder that contains torch/lib, e.g. --torch \"$(python -c 'import torch; print(torch.__path__[0])')\""
)


def from_path(path: Path, files: Files) -> TorchRelease:
    """The torch at ``path``.

    :param files: gets the wheel mounted, if it is one
    :raises InputError: there is no torch there
    """
    if path.is_dir():
        package = path.parent if path.name == "lib" and not (path / "lib").is_dir() else path
        return _from_package(str(package.absolute()), files, named=str(path))
    if path.suffix == ".whl":
        wheel = Wheel(path)
        files.mount(wheel, WHEEL_MOUNT)
        return _from_package(posixpath.join(WHEEL_MOUNT, "torch"), files, named=str(path))
    if path.is_file():
        if not _SHARED_OBJECT.search(path.name) or not path.name.startswith(("libtorch", "libc10")):
            raise InputError(str(path), "is not a torch", _FIX)
        # One library stands for its folder: the extension needs its neighbours too.
        return _from_package(
            str(path.absolute().parent.parent), files, named=str(path), folder=str(path.absolute().parent)
        )
    raise InputError(str(path), "does not exist", _FIX)


def _from_package(package: str, files: Files, *, named: str, folder: str | None = None) -> TorchRelease:
    folder = folder or posixpath.join(package, "lib")
    libraries = [path for path in files.list(folder) if _SHARED_OBJECT.search(path)]
    by_name = {posixpath.basename(path): path for path in libraries}
    core = by_name.get("libtorch_cpu.so") or by_name.get("libtorch.so")
    if core is None:
        raise InputError(named, "holds no torch: neither libtorch_cpu.so nor libtorch.so in its lib folder", _FIX)
    source = files.source(core)
    assert source is not None
    facts = files.object_at(core) or source.open().facts()  # the second reading raises what the first swallowed
    modules = [
        path for path in files.list(package) if posixpath.basename(path).startswith("_C.") and path.endswith(".so")
    ]
    module = (
        modules[:1]
        or [by_name[name] for name in ("libtorch_python.so", "libtorch.so") if name in by_name][:1]
        or [core]
    )
    dependencies = [by_name[name] for name in ("libtorch_global_deps.so",) if name in by_name]
    # Up to 1.4 there is no libtorch_global_deps.so: torch made everything global (torch/__init__.py of those releases).
    return TorchRelease(
        build=_build(package, files),
        package=package,
        machine=facts.machine,
        python=PythonTag.of_file(posixpath.basename(modules[0])) if modules else None,
        libraries=tuple(libraries),
        global_libraries=tuple(dependencies or module),
        local_libraries=tuple(module if dependencies else ()),
    )


def _build(package: str, files: Files) -> str | None:
    source = files.source(posixpath.join(package, "version.py"))
    if source is None:
        return None
    match = _VERSION.search(source.head(1 << 16).decode("utf-8", "replace"))
    return match.group(1) if match else None
