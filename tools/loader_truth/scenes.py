"""Crafted scenes: several files in a folder, how ``x.so`` comes to the others, and what their initialisers do."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

_DEP: Final = "int dep(void) { return 1; }"
_X: Final = "int dep(void); int x(void) { return dep(); }"
_SIBLINGS: Final = {
    "libgcc_s.so.1": ("_Unwind_Resume", "GCC_3.0"),
    "libm.so.6": ("sin", "GLIBC_2.2.5"),
    "libz.so.1": ("deflate", "ZLIB_1.2"),
    "libgomp.so.1": ("GOMP_barrier", "GOMP_1.0"),
    "libstdc++.so.6": ("_ZSt9terminatev", "GLIBCXX_3.4"),
    "libdl.so.2": ("dlopen", "GLIBC_2.2.5"),
    "librt.so.1": ("clock_gettime", "GLIBC_2.2.5"),
    "libbz2.so.1.0": ("BZ2_bzlibVersion", "BZ"),
    "liblzma.so.5": ("lzma_code", "XZ_5.0"),
    "libuuid.so.1": ("uuid_generate", "UUID_1.0"),
}
_SEARCHED: Final = (
    *("${ORIGIN}/l", "$ORIGIN/l///", "$ORIGIN//l", "$ORIGIN/./l", "$ORIGIN/l/../l", "$ORIGIN/gone:$ORIGIN/l"),
    *("$ORIGIN/$LIB:$ORIGIN/l", "$FOO/l:$ORIGIN/l", ":$ORIGIN/l", "$ORIGIN/l:", "$ORIGIN/x.so:$ORIGIN/l"),
)
_SUBFOLDERS: Final = (
    *("glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v5"),
    *("tls", "haswell", "x86_64", "haswell/x86_64", "tls/haswell", "avx512_1", "sse2", "glibc-hwcaps"),
)
# Where a header is changed, in which form, to what, and how many bytes of the file are left.
_WRONG: Final = (
    *((4, "B", 1, None), (4, "B", 2, 30), (4, "B", 2, 70), (4, "B", 2, 4000), (5, "B", 2, None), (7, "B", 9, None)),
    *((16, "H", 1, None), (18, "H", 183, None), (20, "I", 2, None), (32, "Q", 1 << 30, None), (54, "H", 32, None)),
    (56, "H", 0, None),
)
_INSTRUCTIONS: Final = (
    *("hlt", "ud2", "int3", "cli", "int $4", "inb $0x60, %al", ".byte 6", ".byte 0xf1", "mov %cr0, %rax", "nop"),
    *("movl $1, 0", "xor %eax, %eax; jmp *%rax", "xor %ecx, %ecx; div %ecx", "lock; nop", "mov $231, %eax; syscall"),
)
_STATEMENTS: Final = (
    *("abort();", "_exit(3);", "exit(0);", "kill(getpid(), 9);", "raise(15);", "syscall(231, 3);", "err(1, 0);"),
    *("*(volatile char *)0x800000000000000 = 1;", "deep(1);", "__stack_chk_fail();", "free(malloc(9));", "deep(0);"),
    *('if (getenv("ABISCAN_GONE")) abort();', "if (count < 1 || !words[0]) abort();", "throw 1;", "try_throw();"),
)
_BEFORE: Final = """
extern "C" { void abort(); void exit(int); void _exit(int); int kill(int, int); int getpid(); int raise(int);
long syscall(long, ...); void err(int, const char *, ...); void *malloc(unsigned long); void free(void *);
char *getenv(const char *); void __stack_chk_fail(); }
int deep(int more) { volatile char frame[1000]; frame[0] = more; return more ? deep(frame[0]) + frame[0] : 0; }
static void try_throw() { try { throw 1; } catch (int) { } }
"""
_CHOOSERS: Final = ("return (void *)one;", "__builtin_trap();", "getpid(); return (void *)one;", "return 0;")
_ARRAYS: Final = (".init_array", ".init_array.00100", ".ctors", ".fini_array")

Scene = Callable[[Path, random.Random], str]


def _compile(place: Path, name: str, source: str, *options: str, language: str = "c") -> None:
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-x", language, "-", "-x", "none", "-shared", "-fPIC", "-O1", "-w", "-o", str(place / name)]
    subprocess.run([*command, *options], input=source, text=True, check=True, capture_output=True)


def _pair(place: Path, path: str, source: str = _DEP, *, where: str = "l", tags: str = "enable") -> None:
    """Compile a library in a folder, and one that finds it by a search path."""
    library = f"{where}/libdep.so"
    _compile(place, library, source, "-nostdlib", "-Wl,-soname,libdep.so")
    options = f"-Wl,-rpath,{path}", f"-Wl,--{tags}-new-dtags"
    _compile(place, "x.so", _X, "-nostdlib", str(place / library), *options)


def _sibling(place: Path, rng: random.Random) -> str:
    library = rng.choice(list(_SIBLINGS))
    name, version = _SIBLINGS[library]
    kind = rng.choice(("new", "same", "newer version", "unused"))
    symbol = "fresh" if kind == "new" else name
    script = place / "v.map"
    script.write_text(f"{version}{'.99' if kind != 'same' else ''} {{ global: {symbol}; local: *; }};")
    version_script = f"-Wl,--version-script={script}"
    _compile(
        place, library, f"int {symbol}(void) {{ return 1; }}", "-nostdlib", f"-Wl,-soname,{library}", version_script
    )
    used = "" if kind == "unused" else f"int {symbol}(void); int x(void) {{ return {symbol}(); }}"
    needs = ["-Wl,--no-as-needed", str(place / library)] if kind != "unused" else []
    _compile(place, "x.so", used, "-nostdlib", *needs, "-Wl,-rpath,$ORIGIN")
    script.unlink()
    return f"{library}: {kind}"


def _search(place: Path, rng: random.Random) -> str:
    path, tags = rng.choice(_SEARCHED), rng.choice(("enable", "disable"))
    _pair(place, path, tags=tags)
    return f"{path} ({tags}-new-dtags)"


def _subfolder(place: Path, rng: random.Random) -> str:
    folder, good = rng.choice(_SUBFOLDERS), rng.choice((True, False))
    _pair(place, "$ORIGIN/l")
    _compile(place, f"l/{folder}/libdep.so", _DEP if good else "int other;", "-nostdlib", "-Wl,-soname,libdep.so")
    return f"{folder}: {'defines' if good else 'lacks'} the symbol"


def _wrong_file(place: Path, rng: random.Random) -> str:
    _pair(place, "$ORIGIN/m:$ORIGIN/l")
    target = place / "m" / "libdep.so"
    kind = rng.choice((*_WRONG, "text", "empty", "folder", "dangling link"))
    if kind == "folder":
        target.mkdir(parents=True)
        return kind
    target.parent.mkdir()
    if kind == "dangling link":
        target.symlink_to("gone.so")
    elif isinstance(kind, tuple):
        offset, form, value, size = kind
        content = bytearray((place / "l" / "libdep.so").read_bytes())
        struct.pack_into("<" + form, content, offset, value)
        target.write_bytes(content[:size])
    else:
        target.write_text("text " * 50 if kind == "text" else "")
    return f"the first libdep.so: {kind}"


def _filter(place: Path, rng: random.Random) -> str:
    option, has, filtee = rng.choice(("-F", "-f")), rng.choice((True, False)), rng.choice(("good", "bad", "undefined"))
    own = ("-nostdlib", "-Wl,-soname,libstub.so", f"-Wl,{option},libreal.so", "-Wl,-rpath,$ORIGIN")
    _compile(place, "libstub.so", _DEP if has else "int nothing;", *own)
    if filtee == "bad":
        (place / "libreal.so").write_text("text " * 50)
    else:
        source = _DEP if filtee == "good" else "int gone(void); int dep(void) { return gone(); }"
        _compile(place, "libreal.so", source, "-nostdlib", "-Wl,-soname,libreal.so")
    options = "-Wl,-rpath,$ORIGIN", "-Wl,--unresolved-symbols=ignore-all"
    _compile(place, "x.so", _X, "-nostdlib", str(place / "libstub.so"), *options)
    return f"{option}: {filtee} filtee, {'defines' if has else 'lacks'} the symbol itself"


def _chain(place: Path, rng: random.Random) -> str:
    first, second = rng.choice(("enable", "disable")), rng.choice(("enable", "disable"))
    where = rng.choice(("l", "k"))
    _compile(place, f"{where}/libdep.so", _DEP, "-nostdlib", "-Wl,-soname,libdep.so")
    own = "-Wl,-rpath,$ORIGIN/../k", f"-Wl,--{second}-new-dtags"
    middle = "int dep(void); int mid(void) { return dep(); }"
    _compile(place, "l/libmid.so", middle, "-nostdlib", "-Wl,-soname,libmid.so", str(place / where / "libdep.so"), *own)
    options = "-Wl,-rpath,$ORIGIN/l", f"-Wl,--{first}-new-dtags", "-Wl,--allow-shlib-undefined"
    source = "int mid(void); int x(void) { return mid(); }"
    _compile(place, "x.so", source, "-nostdlib", str(place / "l" / "libmid.so"), *options)
    return f"x.so {first}, libmid.so {second}, libdep.so in {where}"


def _start(place: Path, rng: random.Random) -> str:
    """An initialiser, of ``x.so`` or of what it needs, in one of the arrays, or a function that chooses another."""
    kind = rng.choice(("instruction", "statement", "statement", "array", "chooser"))
    begin, section = "static void begin(int count, char **words)", rng.choice(_ARRAYS)
    if kind == "chooser":
        body, use = rng.choice(_CHOOSERS), rng.choice(("int c() { return chosen(); }", "int (*c)() = chosen;", ""))
        hidden = rng.choice(("", ', visibility("hidden")'))
        chosen = f'int chosen() __attribute__((ifunc("choose"){hidden}));'
        code = f'static int one() {{ return 1; }} extern "C" void *choose() {{ {body} }} {chosen} {use}'
    elif kind == "array":
        body = rng.choice(("0", "-1"))
        code = f'__attribute__((section("{section}"), used)) static void *entry = (void *){body};'
    else:
        body = rng.choice(_STATEMENTS) if kind == "statement" else f'__asm__ volatile("{rng.choice(_INSTRUCTIONS)}");'
        code = f'{begin} {{ {body} }} __attribute__((section("{section}"), used)) static auto entry = begin;'
    if rng.random() < 0.3:
        _compile(place, "libdep.so", f'{_BEFORE}{code} extern "C" {_DEP}', "-Wl,-soname,libdep.so", language="c++")
        _compile(place, "x.so", _X, str(place / "libdep.so"), "-Wl,-rpath,$ORIGIN")
    else:
        _compile(place, "x.so", _BEFORE + code, "-lstdc++", language="c++")
    return code


SCENES: Final[dict[str, Scene]] = {
    "sibling": _sibling,
    "search": _search,
    "subfolder": _subfolder,
    "wrong-file": _wrong_file,
    "filter": _filter,
    "chain": _chain,
    "start": _start,
}


def make_scene(kind: str, place: Path, rng: random.Random) -> str:
    """Make the files of a scene, and say what they are."""
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)
    return SCENES[kind](place, rng)
