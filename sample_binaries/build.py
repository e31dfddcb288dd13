"""Build the sample binaries against the torch of the running interpreter.

    python build.py [name ...]

Only the standard library is used, and torch is found without importing it. The
compiler is $CXX or g++. Building twice with one compiler and one torch gives the
same bytes: no path of the building machine enters a file.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLD_PYBIND11 = "2.11.1"
WHEEL_NAME = "abiscan_sample-1.0-py3-none-linux_x86_64.whl"
VENDORED = "libvendored-1234abcd.so.1"
WHEEL_INIT = '''"""A package with one operator, torch.ops.abiscan_sample.scale."""

from pathlib import Path

import torch

torch.ops.load_library(str(Path(__file__).with_name("_C.so")))
'''

# Torch 2.13 has headers that need C++20. The symbol table goes (-s): the loader
# reads the dynamic one only, and the files stay small.
COMMON_FLAGS = (
    "-std=c++20",
    "-O1",
    "-g0",
    "-fPIC",
    "-fvisibility-inlines-hidden",
    "-shared",
    "-s",
    "-Wl,--build-id=sha1",
    # Some distributions drop libraries that no symbol is taken from; the samples
    # are about what a file says it needs, so each library named here is kept.
    "-Wl,--no-as-needed",
)


class BuildError(Exception):
    """A sample cannot be built here; the text says what is missing."""


@dataclass(frozen=True)
class Kit:
    """What the samples are built with."""

    torch: Path
    scratch: Path
    cxx: list[str]
    aarch64_cxx: list[str]
    python312: str
    old_pybind11: str

    def torch_include(self) -> list[str]:
        """Flags that find torch's headers."""
        include = self.torch / "include"
        return [f"-I{include}", f"-I{include / 'torch/csrc/api/include'}"]

    def torch_link(self, *names: str) -> list[str]:
        """Flags that link the named libraries of torch."""
        return [f"-L{self.torch / 'lib'}", *(f"-l{name}" for name in names)]

    def compile(
        self,
        folder: Path,
        source: str,
        output: Path,
        flags: Sequence[str],
        *,
        cxx: Sequence[str] = (),
        hide: Sequence[tuple[Path, str]] = (),
    ) -> None:
        """Compile and link one source file into one shared library.

        The compiler runs inside the source's folder, so it sees a relative name;
        the folders of headers, which are absolute, are mapped to short names,
        because macros such as TORCH_CHECK store the name of their file.
        """
        prefixes = [(self.torch, "torch"), (self.scratch, "scratch"), *hide]
        output.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.scratch / "linked.so"
        run(
            [
                *(cxx or self.cxx),
                *COMMON_FLAGS,
                f"-frandom-seed={source}",
                *(f"-ffile-prefix-map={path}={name}" for path, name in prefixes),
                source,
                "-o",
                str(fresh),
                *flags,
            ],
            folder,
        )
        shutil.copyfile(fresh, output)
        fresh.unlink()

    def sample(
        self,
        name: str,
        flags: Sequence[str],
        *,
        output: str = "",
        source: str = "",
        cxx: Sequence[str] = (),
        hide: Sequence[tuple[Path, str]] = (),
    ) -> None:
        """Build <name>/<name>.cpp, or another source, into the sample's folder."""
        folder = HERE / name
        target = folder / (output or f"{name}.so")
        source = source or f"{name}.cpp"
        self.compile(folder, source, target, flags, cxx=cxx, hide=hide)

    def stub(
        self,
        soname: str,
        code: str = "",
        *,
        versions: str = "",
        cxx: Sequence[str] = (),
    ) -> str:
        """Link a stand-in for a library and return its path.

        A sample linked with the stand-in needs the library by its real name,
        without that library being on the building machine.
        """
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        (folder / "stub.cpp").write_text(code, encoding="utf-8")
        flags = ["-nostdlib", f"-Wl,-soname,{soname}"]
        if versions:
            (folder / "versions.map").write_text(versions, encoding="utf-8")
            flags.append("-Wl,--version-script=versions.map")
        self.compile(folder, "stub.cpp", folder / soname, flags, cxx=cxx)
        return str(folder / soname)


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command inside a folder and return its output."""
    # The compiler's temporary files and messages are the same in every locale.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise BuildError(f"{command[0]}: not found") from error
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def build_loads(kit: Kit) -> None:
    """Build against torch's own headers and libraries."""
    flags = [*kit.torch_include(), *kit.torch_link("torch_cpu", "c10")]
    kit.sample("loads", flags)


def build_undefined_symbol_signature(kit: Kit) -> None:
    """Build with declarations of an older torch."""
    kit.sample("undefined_symbol_signature", kit.torch_link("torch_cpu", "c10"))


def build_undefined_symbol_not_linked(kit: Kit) -> None:
    """Build without naming the library that has the symbol."""
    # libtorch_python is left out on purpose.
    kit.sample("undefined_symbol_not_linked", kit.torch_link("torch_cpu", "c10"))


def build_missing_torch_library(kit: Kit) -> None:
    """Build as if for a CUDA torch."""
    stubs = [kit.stub("libtorch_cuda.so"), kit.stub("libc10_cuda.so")]
    flags = [*stubs, *kit.torch_link("torch_cpu", "c10")]
    kit.sample("missing_torch_library", flags)


def build_missing_sibling(kit: Kit) -> None:
    """Build against a library that is thrown away afterwards."""
    absent = kit.stub("libabiscan_absent.so.1", 'extern "C" int abiscan_absent() { return 0; }\n')
    kit.sample("missing_sibling", [absent, *kit.torch_link("torch_cpu", "c10")])


def build_symbol_version(kit: Kit) -> None:
    """Build against a C++ library with a version that does not exist."""
    symbol = "abiscan_from_a_newer_libstdcxx"
    newer = kit.stub(
        "libstdc++.so.6",
        f'extern "C" int {symbol}() {{ return 0; }}\n',
        versions=f"GLIBCXX_3.4.99 {{ global: {symbol}; local: *; }};\n",
    )
    # Without -nostdlib the real libstdc++ would be linked next to the stand-in.
    flags = ["-nostdlib", newer, *kit.torch_link("torch_cpu", "c10")]
    kit.sample("symbol_version", flags)


def build_symbol_with_version(kit: Kit) -> None:
    """Build against a C library with a symbol that does not exist."""
    symbol = "abiscan_not_in_libc"
    libc = kit.stub(
        "libc.so.6",
        f'extern "C" int {symbol}() {{ return 0; }}\n',
        versions=f"GLIBC_2.2.5 {{ global: {symbol}; local: *; }};\n",
    )
    flags = ["-nostdlib", libc, *kit.torch_link("torch_cpu", "c10")]
    kit.sample("symbol_with_version", flags)


def build_cxx11_abi(kit: Kit) -> None:
    """Build with the old C++ string ABI."""
    flags = ["-D_GLIBCXX_USE_CXX11_ABI=0", *kit.torch_include()]
    kit.sample("cxx11_abi", [*flags, *kit.torch_link("torch_cpu", "c10")])


def python312_include(kit: Kit) -> Path:
    """Ask Python 3.12 for the folder of its headers."""
    if not kit.python312:
        raise BuildError("no Python 3.12: give --python312 or set $PYTHON312")
    code = "import sys, sysconfig;print(*sys.version_info[:2], sysconfig.get_paths()['include'])"
    answer = run([kit.python312, "-c", code], HERE).strip()
    version, _, include = answer.rpartition(" ")
    if version != "3 12":
        raise BuildError(f"{kit.python312} is not Python 3.12")
    return Path(include)


def build_python_abi(kit: Kit) -> None:
    """Build a pybind11 module for Python 3.12."""
    include = python312_include(kit)
    flags = ["-fvisibility=hidden", f"-I{include}", *kit.torch_include()]
    kit.sample(
        "python_abi",
        [*flags, *kit.torch_link("torch_cpu", "c10")],
        hide=[(include, "python3.12")],
    )


def build_python_abi_tag(kit: Kit) -> None:
    """Build a plain C-API module for Python 3.12, with its tag in the name."""
    include = python312_include(kit)
    kit.sample(
        "python_abi_tag",
        [f"-I{include}", *kit.torch_link("torch_cpu", "c10")],
        output="python_abi_tag.cpython-312-x86_64-linux-gnu.so",
        hide=[(include, "python3.12")],
    )


def old_pybind11_include(kit: Kit) -> Path:
    """Return the headers of the old pybind11, downloaded if none were given."""
    if kit.old_pybind11:
        return Path(kit.old_pybind11).resolve()
    folder = kit.scratch / "old_pybind11"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    run([*pip, "--dest", str(folder), f"pybind11=={OLD_PYBIND11}"], HERE)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder / "pybind11/include"


def build_pybind11_internals(kit: Kit) -> None:
    """Build a module with a pybind11 older than torch's."""
    old = old_pybind11_include(kit)
    python = Path(sysconfig.get_paths()["include"])
    # The old headers come first, because torch has a pybind11 of its own among
    # its headers.
    includes = [f"-I{old}", *kit.torch_include(), f"-I{python}"]
    kit.sample(
        "pybind11_internals",
        [
            "-fvisibility=hidden",
            *includes,
            *kit.torch_link("torch_python", "torch_cpu", "c10"),
        ],
        hide=[(old, "pybind11"), (python, "python")],
    )


def build_architecture(kit: Kit) -> None:
    """Build for another machine."""
    code = "namespace at { int get_num_threads() { return 1; } }\n"
    stub = kit.stub("libtorch_cpu.so", code, cxx=kit.aarch64_cxx)
    kit.sample("architecture", [stub], cxx=kit.aarch64_cxx)


def build_weak_reference(kit: Kit) -> None:
    """Build with a weak reference to nothing."""
    kit.sample("weak_reference", kit.torch_link("torch_cpu", "c10"))


def build_sibling_rpath(kit: Kit) -> None:
    """Build a library and the sibling that it finds by RUNPATH."""
    torch = kit.torch_link("torch_cpu", "c10")
    kit.sample(
        "sibling_rpath",
        ["-Wl,-soname,libsibling.so", *torch],
        source="sibling.cpp",
        output="lib/libsibling.so",
    )
    runpath = ["-Wl,--enable-new-dtags,-rpath,$ORIGIN/lib"]
    kit.sample("sibling_rpath", ["-Llib", "-lsibling", *runpath, *torch])


def build_wheel(kit: Kit) -> None:
    """Build the sample wheel."""
    source = HERE / "wheels/abiscan_sample"
    built = Path(tempfile.mkdtemp(dir=kit.scratch))
    vendored = built / VENDORED
    extension = built / "_C.so"
    kit.compile(source, "vendored.cpp", vendored, [f"-Wl,-soname,{VENDORED}"])
    kit.compile(
        source,
        "_C.cpp",
        extension,
        [
            *kit.torch_include(),
            str(vendored),
            *kit.torch_link("torch_cpu", "c10"),
            "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../abiscan_sample.libs",
        ],
    )
    info = "abiscan_sample-1.0.dist-info"
    metadata = (
        "Metadata-Version: 2.1\n"
        "Name: abiscan-sample\n"
        "Version: 1.0\n"
        "Summary: A sample wheel for abiscan with one torch operator\n"
        "Requires-Dist: torch\n"
    )
    wheel = "Wheel-Version: 1.0\nGenerator: abiscan-samples (1.0)\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
    members: dict[str, bytes] = {
        "abiscan_sample/__init__.py": WHEEL_INIT.encode(),
        "abiscan_sample/_C.so": extension.read_bytes(),
        f"abiscan_sample.libs/{VENDORED}": vendored.read_bytes(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": wheel.encode(),
    }
    record = "".join(f"{name},sha256={urlsafe_sha256(data)},{len(data)}\n" for name, data in members.items())
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(HERE / "wheels" / WHEEL_NAME, "w") as archive:
        for name, data in members.items():
            # A fixed date and no compression: the bytes do not depend on the
            # clock, on file modes or on the version of zlib.
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            executable = ".so" in Path(name).name
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, data)


def urlsafe_sha256(data: bytes) -> str:
    """Digest data the way a wheel's RECORD writes it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return digest.rstrip(b"=").decode()


SAMPLES: dict[str, Callable[[Kit], None]] = {
    "loads": build_loads,
    "undefined_symbol_signature": build_undefined_symbol_signature,
    "undefined_symbol_not_linked": build_undefined_symbol_not_linked,
    "missing_torch_library": build_missing_torch_library,
    "missing_sibling": build_missing_sibling,
    "symbol_version": build_symbol_version,
    "symbol_with_version": build_symbol_with_version,
    "cxx11_abi": build_cxx11_abi,
    "python_abi": build_python_abi,
    "python_abi_tag": build_python_abi_tag,
    "pybind11_internals": build_pybind11_internals,
    "architecture": build_architecture,
    "weak_reference": build_weak_reference,
    "sibling_rpath": build_sibling_rpath,
    "wheel": build_wheel,
}


def build_one(name: str, kit: Kit) -> bool:
    """Build one sample; say why if that is not possible here."""
    try:
        SAMPLES[name](kit)
    except BuildError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return False
    print(f"{name}: built")
    return True


def torch_folder() -> Path:
    """Find the running interpreter's torch without importing it."""
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError("the running interpreter has no torch")
    return Path(spec.submodule_search_locations[0]).resolve()


def main() -> int:
    """Build the samples named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description="Build the sample binaries.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(SAMPLES))
    parser.add_argument(
        "--python312",
        default=os.environ.get("PYTHON312") or shutil.which("python3.12") or "",
        help="a Python 3.12 with headers ($PYTHON312, or python3.12 on PATH)",
    )
    parser.add_argument(
        "--old-pybind11",
        default="",
        metavar="FOLDER",
        help=f"the headers of pybind11 {OLD_PYBIND11} (default: pip downloads them)",
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(SAMPLES))
    if unknown:
        parser.error(f"no such sample: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            torch = torch_folder()
        except BuildError as error:
            print(f"build.py: {error}", file=sys.stderr)
            return 1
        kit = Kit(
            torch=torch,
            scratch=Path(scratch).resolve(),
            cxx=shlex.split(os.environ.get("CXX") or "g++"),
            aarch64_cxx=shlex.split(os.environ.get("AARCH64_CXX") or "aarch64-linux-gnu-g++"),
            python312=options.python312,
            old_pybind11=options.old_pybind11,
        )
        # Every sample is tried, also after one that cannot be built here.
        built = [build_one(name, kit) for name in options.names or SAMPLES]
    return int(not all(built))


if __name__ == "__main__":
    sys.exit(main())
