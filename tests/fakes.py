"""A torch that has everything but torch in it, and wheels around whatever a test puts into them."""

from __future__ import annotations

import base64
import bz2
import hashlib
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from abiscan.binary.loadable import MAGIC
from tests.elf_builder import EM_X86_64, Elf, exports

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SAMPLES: Final = Path(__file__).resolve().parent.parent / "sample_binaries"

ERROR_CONSTRUCTOR: Final = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
"""``c10::Error::Error(c10::SourceLocation, std::__cxx11::string)``: what tells which string a torch uses."""

_NUM_THREADS: Final = "_ZN2at15get_num_threadsEv"
PYBIND11_INTERNALS: Final = b"__pybind11_internals_v11_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1__"


def torch_libraries(machine: int = EM_X86_64) -> dict[str, Elf]:
    """The libraries of a CPU build of torch, each with a few exports."""
    return {
        "libtorch_global_deps.so": Elf(machine=machine, soname="libtorch_global_deps.so"),
        "libc10.so": Elf(machine=machine, soname="libc10.so", defined=exports(ERROR_CONSTRUCTOR)),
        "libtorch_cpu.so": Elf(
            machine=machine,
            soname="libtorch_cpu.so",
            needed=("libc10.so",),
            runpath="$ORIGIN",
            defined=exports(_NUM_THREADS, "_ZN2at4_ops5zeros4callEl"),
        ),
        "libtorch.so": Elf(machine=machine, soname="libtorch.so", needed=("libtorch_cpu.so",), runpath="$ORIGIN"),
        "libtorch_python.so": Elf(
            machine=machine,
            soname="libtorch_python.so",
            needed=("libtorch.so", "libtorch_cpu.so", "libc10.so"),
            runpath="$ORIGIN",
            texts=(PYBIND11_INTERNALS,),
            defined=exports("_Z16THPVariable_WrapRKN2at10TensorBaseE"),
        ),
    }


def torch_package(
    site: Path, *, build: str | None = "9.9.0+cpu", module: str = "_C.cpython-311-x86_64-linux-gnu.so"
) -> Path:
    """A torch package of ``torch_libraries`` in the folder ``site``; its path."""
    package = site / "torch"
    for name, library in torch_libraries().items():
        library.write(package / "lib" / name)
    Elf(needed=("libtorch_python.so",), runpath="$ORIGIN/lib", defined=exports("PyInit__C")).write(package / module)
    if build is not None:
        (package / "version.py").write_text(f"__version__ = '{build}'\ndebug = False\n", encoding="utf-8")
    return package


def python_of(site: Path, folder: Path) -> str:
    """A Python whose packages are those of the folder ``site``; the path of its executable, in ``folder``."""
    for package in site.glob("torch"):
        (package / "__init__.py").touch()
    executable = folder / "python"
    run = "del sys.argv[0]; exec(open(sys.argv[0]).read())"
    code = f"import sys; sys.path.insert(1, {str(site)!r}); {run}"
    executable.write_text(f'#!/bin/sh\nexec {sys.executable} -S -c "{code}" "$@"\n', encoding="utf-8")
    executable.chmod(0o755)
    return str(executable)


def extension(**changes: object) -> Elf:
    """An extension of torch that loads, unless ``changes`` see to it that it does not."""
    fields: dict[str, object] = {"needed": ("libtorch_cpu.so", "libc10.so"), **changes}
    return Elf(**fields)  # type: ignore[arg-type]


def wheel(path: Path, members: Mapping[str, bytes]) -> Path:
    """A wheel with these members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def variant_wheel(
    folder: Path,
    label: str,
    properties: Mapping[str, Mapping[str, list[str]]],
    members: Mapping[str, bytes],
    *,
    name: str = "pkg",
    requires: str = "torch",
) -> Path:
    """A wheel of a variant, as PEP 825 has it: with a label in its name, and properties in ``variant.json``."""
    document = {
        "$schema": "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json",
        "default-priorities": {"namespace": list(properties) or ["x86_64"]},
        "variants": {label: properties},
    }
    info = f"{name}-1.0.dist-info"
    return wheel(
        folder / f"{name}-1.0-cp311-cp311-manylinux_2_28_x86_64-{label}.whl",
        {
            **members,
            f"{info}/METADATA": f"Name: {name}\nVersion: 1.0\nRequires-Dist: {requires}\n".encode(),
            f"{info}/variant.json": json.dumps(document).encode(),
            f"{info}/RECORD": b"",
        },
    )


def conda_package(
    path: Path,
    members: Mapping[str, bytes],
    *,
    index: Mapping[str, object] | None = None,
    links: Mapping[str, str] | None = None,
) -> Path:
    """Write a conda package in the format of its suffix, with these members and symbolic links."""
    described = {"info/index.json": json.dumps(index or {"name": "pkg", "version": "1.0"}).encode()}
    if path.suffix != ".conda":
        path.write_bytes(bz2.compress(_tar({**described, **members}, links or {})))
        return path
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
        archive.writestr(f"pkg-{path.stem}.tar.zst", zstd.compress(_tar(members, links or {})))
        archive.writestr(f"info-{path.stem}.tar.zst", zstd.compress(_tar(described, {})))
    return path


def _tar(members: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    return buffer.getvalue()


def install(
    site: Path,
    name: str,
    objects: Mapping[str, Elf],
    *,
    version: str = "1.0",
    requires: str = "torch==2.5.1",
    files: Mapping[str, str] | None = None,
) -> Path:
    """Install a package of these shared objects and text files into a folder; the path of its metadata."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    for path, elf in objects.items():
        elf.write(site / path)
    for path, text in (files or {}).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    paths = (
        f'"{path}"' if "," in path else path
        for path in (*objects, *(files or {}), f"{info.name}/METADATA", f"{info.name}/RECORD")
    )
    lines = [f"{path},sha256=x,1" for path in paths]
    (info / "RECORD").write_text("\n".join(lines), encoding="utf-8")
    metadata = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{f'Requires-Dist: {requires}' if requires else ''}\n"
    )
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    return info


def package_wheel(
    folder: Path,
    name: str,
    objects: Mapping[str, Elf],
    *,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    tag: str = "py3-none-linux_x86_64",
) -> Path:
    """A whole wheel of these shared objects and text files, for x86_64 Linux by default, as pip would take it."""
    info = f"{name}-{version}.dist-info"
    members = {path: elf.build() for path, elf in objects.items()}
    members |= {path: text.encode() for path, text in (files or {}).items()}
    fields = {"Metadata-Version": "2.1", "Name": name, "Version": version, **(metadata or {})}
    members[f"{info}/METADATA"] = "".join(f"{field}: {value}\n" for field, value in fields.items()).encode()
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    lines = []
    for path, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    members[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    return wheel(folder / f"{name}-{version}-{tag}.whl", members)


def site_of(environment: Path) -> Path:
    """The folder for packages of a virtual environment."""
    return environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def elf_samples() -> list[Path]:
    """The samples that are ELF files; those for macOS may be named like them."""
    return sorted(path for path in SAMPLES.rglob("*.so") if path.read_bytes()[:4] == MAGIC)
