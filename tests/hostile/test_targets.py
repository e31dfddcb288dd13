"""Hostile targets: 89 files and 33 initialisers, each of which costs one result and reaches nothing."""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.commands.processes import Finished, run
from tests.elf_builder import Undefined, exports, uses
from tests.fakes import extension

pytestmark = [pytest.mark.hostile, pytest.mark.slow]

TORCH: Final = ("--torch", "2.13.0")
SECRET: Final = "a-secret-of-the-environment"
EDGES: Final = (0, 1, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
# Elf64_Ehdr (gABI, chapter 4): offset and size of the fields that lead somewhere.
HEADER: Final = {"type": (16, 2), "machine": (18, 2), "phoff": (32, 8), "shoff": (40, 8), "phentsize": (54, 2),
    "phnum": (56, 2), "shentsize": (58, 2), "shnum": (60, 2), "shstrndx": (62, 2)}  # fmt: skip
DYNAMIC: Final = (1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 20, 23, 25, 26, 27, 28, 29)  # DT_NEEDED to DT_RUNPATH
INJECTION: Final = "<script>alert(1)</script>"


def _headers(sound: bytes) -> Iterator[tuple[str, bytes]]:
    for name, (offset, size) in HEADER.items():
        for edge in (EDGES[1], EDGES[-1]):
            data = bytearray(sound)
            data[offset : offset + size] = (edge & (1 << 8 * size) - 1).to_bytes(size, "little")
            yield f"header-{name}-{edge:x}.so", bytes(data)


def _dynamic(sound: bytes) -> Iterator[tuple[str, bytes]]:
    """Entries of the dynamic section in the place of the first ones: every table is said to be somewhere else."""
    count, offset = struct.unpack_from("<H", sound, 56)[0], struct.unpack_from("<Q", sound, 32)[0]
    segments = [struct.unpack_from("<IIQ", sound, offset + 56 * number) for number in range(count)]
    start = next(at for kind, _, at in segments if kind == 2)
    for number, tag in enumerate(DYNAMIC):
        data = bytearray(sound)
        struct.pack_into("<QQ", data, start + 16, tag, EDGES[number % len(EDGES)])
        yield f"dynamic-{tag}.so", bytes(data)


def _cut(sound: bytes) -> Iterator[tuple[str, bytes]]:
    for size in (0, 1, 2, 4, 8, 16, 32, 48, 63, 64, 65, 72, 100, 120, 200, len(sound) // 2, len(sound) - 1):
        yield f"cut-{size}.so", sound[:size]
    yield "repeated.so", sound * 3
    yield "zeros.so", sound[:64] + bytes(1 << 20)
    yield "ones.so", sound[:64] + b"\xff" * (1 << 20)


def _names() -> Iterator[tuple[str, bytes]]:
    for number, name in enumerate((INJECTION, "../../etc/passwd", "%s%n", "\x1b[2J", "$(touch x)", "é" * 999, "'\"`")):
        symbols = uses(f"_ZN5torch{name}", f"_ZN2at{name}Ev")
        yield f"name-{number}.so", extension(undefined=symbols, defined=exports(name), soname=name).build()
    yield "needed.so", extension(needed=("libtorch.so", "/etc/passwd", "../../x.so", INJECTION)).build()
    yield "rpath.so", extension(rpath="/proc/self/cwd:/:..:$ORIGIN/../../..:" + "a/" * 999).build()
    yield "runpath.so", extension(runpath="$LIB:$PLATFORM:${ORIGIN}:$HOME").build()
    yield (
        "versions.so",
        extension(undefined=(Undefined(name="_ZN5torch1xEv", version=("libx.so", "V" * 9999)),)).build(),
    )
    yield "deep.so", extension(undefined=uses("_ZN5torch" + "I" * 9999 + "E" * 9999)).build()
    yield f"{INJECTION.replace('/', '_')}.so", extension(undefined=uses("_ZN5torch1xEv")).build()


def _wheel(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def _wheels(sound: bytes) -> Iterator[tuple[str, bytes]]:
    names = ("../../../escaped.so", "/tmp/escaped.so", "..\\escaped.so", "C:\\escaped.so", "x//y.so", "x/../../y.so",
        "a/" * 400 + "x.so", "\x1b[2J.so", f"{INJECTION}.so", "x.so/", "torch/lib/libtorch_cpu.so")  # fmt: skip
    contents = [_wheel((name, sound)) for name in names]
    contents.append(_wheel(("x/_C.so", b"\x7fELF\2\1\1" + bytes(60 << 20))))  # a bomb
    contents.append(_wheel(("x/_C.so", sound))[:-30])
    contents.append(_wheel(("x/_C.so", sound)).replace(b"PK\1\2", b"PK\1\3"))
    contents.append(_wheel(("x/__init__.py", b"(" * 100_000), ("x/_C.so", sound)))
    contents.append(_wheel(("x/__init__.py", b"while True: pass\n"), ("x/_C.so", sound)))
    contents.append(_wheel(("x/__init__.py", b"import os; os.system('touch escaped')\n"), ("x/_C.so", sound)))
    metadata = b"Requires-Dist: torch @ file:///etc/passwd\nRequires-Dist: torch==" + b"9" * 20_000 + b"\n"
    contents.append(_wheel(("x-1.0.dist-info/METADATA", metadata), ("x/_C.so", sound)))
    for number, data in enumerate(contents):
        yield f"w{number}-1.0-py3-none-any.whl", data


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files."""
    folder = tmp_path_factory.mktemp("files")
    sound = extension(undefined=uses("_ZN5torch1xEv"), defined=exports("f")).build()
    for kind in (_headers(sound), _dynamic(sound), _cut(sound), _names(), _wheels(sound)):
        for name, data in kind:
            (folder / name).write_bytes(data)
    (folder / "not-in-a-library.py").write_text("raise SystemExit", encoding="utf-8")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def ran(folder: Path, cache: Path, *words: str) -> Finished:
    return run(*words, cwd=folder, env={"XDG_CACHE_HOME": str(cache), "TOKEN": SECRET}, seconds=1_200)


def test_89_hostile_files(files: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in files.iterdir() if path.suffix in (".so", ".whl"))
    before = content(files)
    assert len(names) == 89, len(names)
    done = ran(files, tmp_path / "cache", "check", *names, *TORCH, "--format", "json")
    assert done.code in (1, 2, 3)
    assert "internal error" not in done.err
    assert "Traceback" not in done.err
    assert SECRET not in done.out + done.err
    document = json.loads(done.out)
    known = {result["target"] for key in ("results", "packages", "unchecked") for result in document.get(key, ())}
    assert set(names) - known - {name for name in names if f"abiscan: {name}" in done.err} == set()
    assert content(files) == before, "nothing is written beside a target"
    assert not list(tmp_path.rglob("escaped*"))
    assert not Path("/tmp/escaped.so").exists()


def test_no_tag_of_theirs_is_one_in_html(files: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in files.iterdir() if "name-" in path.name or "script" in path.name)
    done = ran(files, tmp_path / "cache", "matrix", *names, *TORCH, "--format", "html")
    assert done.code in (0, 1, 3), done.err
    assert INJECTION not in done.out
    assert "&lt;script&gt;" in done.out


INITIALISERS: Final = {
    "endless": "for (;;) counter++;",
    "recursion": 'extern void again(void) __asm__("initialise"); again();',
    "stack": "volatile char big[1 << 26]; big[0] = 1; counter = big[0];",
    "memory": "for (;;) memset(malloc(1 << 24), 1, 1 << 24);",
    "null": "*(volatile int *)0 = 1;",
    "wild": "*(volatile int *)0xdeadbeef000 = 1;",
    "jump": "((void (*)(void))0x10)();",
    "division": "counter = 1 / counter;",
    "illegal": "__builtin_trap();",
    "breakpoint": '__asm__ volatile("int3");',
    "halt": '__asm__ volatile("hlt");',
    "port": '__asm__ volatile("outb %al, $0x80");',
    "own code": "mprotect((void *)((unsigned long)&counter & ~4095ul), 4096, 7);",
    "exit": "_exit(0);",
    "end": "exit(7);",
    "abort": "abort();",
    "kill": "kill(getppid(), 9); kill(getpid(), 9);",
    "raise": "raise(9);",
    "fork": "for (;;) fork();",
    "syscall exit": '__asm__ volatile("syscall" : : "a"(231), "D"(0));',
    "syscall open": '__asm__ volatile("syscall" : : "a"(2), "D"(CANARY), "S"(0101), "d"(0644));',
    "syscall kill": '__asm__ volatile("syscall" : : "a"(62), "D"(-1), "S"(0));',
    "file": 'FILE *f = fopen(CANARY, "w"); if (f) { fputs("x", f); fclose(f); }',
    "open": 'int f = open(CANARY, O_CREAT | O_WRONLY, 0644); if (f >= 0) write(f, "x", 1);',
    "rename": 'rename(CANARY ".there", CANARY);',
    "remove": 'unlink(CANARY ".there"); rmdir(".");',
    "folder": "mkdir(CANARY, 0755);",
    "link": 'symlink("/etc/passwd", CANARY);',
    "shell": 'system("touch " CANARY);',
    "program": 'execl("/usr/bin/touch", "touch", CANARY, (char *)0);',
    "pipe": 'FILE *p = popen("touch " CANARY, "r"); if (p) pclose(p);',
    "library": 'dlopen("/tmp/other.so", RTLD_NOW);',
    "socket": "int s = socket(AF_INET, SOCK_STREAM, 0); connect(s, (struct sockaddr *)&counter, 16);",
}
SOURCE: Final = """
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
extern void of_torch(void) __asm__("_ZN5torch7missingEv");
void (*reference)(void) = of_torch;
volatile int counter;
__attribute__((constructor)) void initialise(void) { %s }
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_33_hostile_initialisers(tmp_path: Path) -> None:
    """They run in the emulator alone: for the real processor, each would be the end of something."""
    assert len(INITIALISERS) == 33
    folder, canary = tmp_path / "files", tmp_path / "canary"
    folder.mkdir()
    (tmp_path / "canary.there").write_text("stays", encoding="utf-8")
    for name, code in INITIALISERS.items():
        options = ["-shared", "-fPIC", "-O0", "-w", f'-DCANARY="{canary}"', "-x", "c", "-"]
        command = ["gcc", *options, "-o", str(folder / f"initialiser-{name.replace(' ', '-')}.so")]
        subprocess.run(command, input=SOURCE % code, text=True, check=True)
    names = sorted(path.name for path in folder.iterdir())
    before = content(folder)
    done = ran(folder, tmp_path / "cache", "check", *names, *TORCH, "--format", "json")
    assert done.code in (1, 3)
    assert "internal error" not in done.err
    assert done.out, done.err
    document = json.loads(done.out)
    known = {result["target"] for key in ("results", "unchecked") for result in document.get(key, ())}
    assert known == set(names)
    assert not canary.exists()
    assert (tmp_path / "canary.there").read_text("utf-8") == "stays"
    assert content(folder) == before
