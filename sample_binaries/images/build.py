"""Build the samples for Windows and macOS, on any system: ``pip install ziglang``, then ``python build.py``.

Zig compiles and links for both. The libraries of torch that the linker sees are stand-ins with three functions each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HERE = Path(__file__).resolve().parent

# ``has`` is c10::warn(), ``lacks`` a function that torch never had, ``cuda`` a function of its CUDA library.
DECORATED: Final = {
    "windows": {
        "has": "?warn@c10@@YAXAEBVWarning@1@@Z",
        "lacks": "?abiscan_not_in_torch@at@@YAXXZ",
        "cuda": "?abiscan_of_cuda@at@@YAXXZ",
    },
    "macos": {
        "has": "__ZN3c104warnERKNS_7WarningE",
        "lacks": "__ZN2at20abiscan_not_in_torchEv",
        "cuda": "__ZN2at15abiscan_of_cudaEv",
    },
}
TARGETS: Final = {"x86_64": "x86_64-macos.11.0", "arm64": "aarch64-macos.11.0"}
EXTENSION: Final = "int abiscan_sample(void) {{ {calls} return 0; }}"


class Zig:
    """The compiler, and the folder that it works in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder / "cache"), "ZIG_LOCAL_CACHE_DIR": str(folder / "cache")}
        self._environment = {**os.environ, **caches}

    def run(self, *words: str) -> None:
        """Run it."""
        command = [sys.executable, "-m", "ziglang", *words]
        subprocess.run(command, check=True, cwd=self.folder, env=self._environment)

    def source(self, name: str, system: str, calls: Sequence[str], *, weak: bool = False, defines: bool = False) -> str:
        """The name of a C file that calls functions of torch, or defines them."""
        attribute = "__attribute__((weak_import)) " if weak else ""
        lines = [f'{attribute}void {call}(void) __asm__("{DECORATED[system][call]}");' for call in calls]
        if defines:
            lines += [f"void {call}(void) {{}}" for call in calls]
        else:
            guard = "if ({0}) " if weak else ""
            body = " ".join(f"{guard.format(call)}{call}();" for call in calls)
            exported = "__declspec(dllexport) " if system == "windows" else ""
            lines.append(exported + EXTENSION.format(calls=body))
        (self.folder / name).write_text("\n".join(lines), "utf-8")
        return name

    def dll(
        self, out: str, calls: Sequence[str], *libraries: str, ordinal: bool = False, delayed: bool = False
    ) -> None:
        """Link a DLL that takes each function from the library at the same place."""
        stubs = []
        for call, library in zip(calls, libraries, strict=True):
            name = DECORATED["windows"][call]
            entry = f'"{name}" @5 NONAME' if ordinal else f'"{name}"'
            stub = f"{library}.lib"
            (self.folder / f"{library}.def").write_text(f"LIBRARY {library}.dll\nEXPORTS\n{entry}\n", "utf-8")
            self.run("dlltool", "-m", "i386:x86-64", "-d", f"{library}.def", "-l", stub)
            stubs.append(stub)
        source = self.source("dll.c", "windows", calls)
        if delayed:
            with (self.folder / source).open("a", encoding="utf-8") as file:
                file.write("\nvoid *__delayLoadHelper2(void *which, void *where) { return 0; }\n")
        self.run("cc", "-target", "x86_64-windows-gnu", "-O1", "-c", "-o", "dll.obj", source)
        late = [f"-delayload:{library}.dll" for library in libraries] if delayed else []
        flags = ("-dll", "-noentry", "-nodefaultlib", "-Brepro", "-noimplib", f"-out:{HERE / out}")
        self.run("lld-link", *flags, *late, "dll.obj", *stubs)

    def dylib(self, out: Path, machine: str, source: str, *flags: str) -> None:
        """Link a library for macOS."""
        flags = (f"-Wl,-install_name,@rpath/{out.name}", *flags)  # without it, the path of this folder
        self.run("cc", "-target", TARGETS[machine], "-shared", "-s", "-O1", "-o", str(out), source, "-L.", *flags)


def windows(zig: Zig) -> None:
    """Samples for Windows, and a torch that they load on."""
    (HERE / "torch").mkdir(exist_ok=True)
    for library, call in (("c10", "has"), ("torch_cpu", "cuda")):
        source = zig.source(f"{library}.c", "windows", [call], defines=True)
        zig.run("cc", "-target", "x86_64-windows-gnu", "-O1", "-c", "-o", f"{library}.obj", source)
        export = f"-export:{DECORATED['windows'][call]},@5"
        flags = ("-dll", "-noentry", "-nodefaultlib", "-Brepro", "-noimplib")
        zig.run("lld-link", *flags, export, f"-out:{HERE / 'torch' / library}.dll", f"{library}.obj")
    zig.dll("loads.pyd", ["has"], "c10")
    zig.dll("missing_symbol.pyd", ["has", "lacks"], "c10", "torch_cpu")
    zig.dll("needs_cuda.pyd", ["cuda"], "torch_cuda")
    zig.dll("by_ordinal.pyd", ["has"], "c10", ordinal=True)
    zig.dll("delayed.pyd", ["cuda"], "torch_cuda", delayed=True)


def macos(zig: Zig) -> None:
    """Samples for macOS. Stand-ins come first, for both machines."""
    rpath = "-Wl,-rpath,@loader_path/../torch/lib"
    for machine in TARGETS:
        for library, call in (("c10", "has"), ("torch_cpu", "lacks"), ("torch_cuda", "cuda")):
            source = zig.source(f"{library}.c", "macos", [call], defines=True)
            zig.dylib(zig.folder / f"lib{library}.dylib", machine, source)
            if machine == "x86_64" and library != "torch_cuda":  # the torch, for the smaller of the two formats
                shutil.copyfile(zig.folder / f"lib{library}.dylib", HERE / "torch" / f"lib{library}.dylib")
        loads = zig.source("loads.c", "macos", ["has"])
        zig.dylib(zig.folder / f"universal.{machine}", machine, loads, rpath, "-lc10")
        if machine == "x86_64":
            continue
        zig.dylib(HERE / "loads.so", machine, loads, rpath, "-lc10")
        missing = zig.source("missing.c", "macos", ["has", "lacks"])
        zig.dylib(HERE / "missing_symbol.so", machine, missing, rpath, "-lc10", "-ltorch_cpu")
        cuda = zig.source("cuda.c", "macos", ["cuda"])
        zig.dylib(HERE / "needs_cuda.so", machine, cuda, rpath, "-ltorch_cuda")
        weak = zig.source("weak.c", "macos", ["lacks"], weak=True)
        zig.dylib(HERE / "weak.so", machine, weak, rpath, "-Wl,-weak-ltorch_cuda", "-ltorch_cpu")
        zig.dylib(HERE / "flat.so", machine, missing, rpath, "-lc10", "-Wl,-undefined,dynamic_lookup")
    universal(HERE / "universal.so", [(zig.folder / f"universal.{machine}").read_bytes() for machine in TARGETS])


def universal(out: Path, parts: Sequence[bytes]) -> None:
    """Join libraries for x86_64 and arm64, as ``lipo -create`` does: mach-o/fat.h."""
    head = bytearray((0xCAFEBABE).to_bytes(4, "big") + len(parts).to_bytes(4, "big"))
    body = bytearray()
    for part in parts:
        offset = 0x4000 + len(body)
        kind = (int.from_bytes(part[at : at + 4], "little") for at in (4, 8))
        head += b"".join(number.to_bytes(4, "big") for number in (*kind, offset, len(part), 14))
        body += part + bytes(-len(part) % 0x4000)
    out.write_bytes(bytes(head).ljust(0x4000, b"\0") + body)


def main() -> None:
    """Build all."""
    with tempfile.TemporaryDirectory() as folder:
        zig = Zig(Path(folder))
        windows(zig)
        macos(zig)


if __name__ == "__main__":
    main()
