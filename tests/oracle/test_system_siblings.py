"""A library of the system beside an extension: which of the two the process has, after ``import torch``.

The extension wants what only one of them has. Each is opened by the ``ld.so`` of this machine, and judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import abiscan
from abiscan.binary.elf import Machine
from abiscan.inputs import interpreter, system
from tests import live_torch
from tests.elf_builder import EM_X86_64, Defined, Elf, Undefined, exports, uses

pytestmark = pytest.mark.skipif(
    system.own_machine() is not Machine.X86_64 or live_torch.version() is None, reason="needs torch on x86-64"
)

_OPEN: Final = """
import ctypes, json, os, sys, torch
for path in json.load(sys.stdin):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            ctypes.CDLL(path)
            told = None
        except OSError as error:
            told = str(error)
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as stream:
        print(stream.read())
    os.waitpid(child, 0)
"""
# What the system's library has: a version, a symbol of it. Torch loads some, Python others, the last ones nobody.
_SYSTEM: Final = {
    "libstdc++.so.6": ("GLIBCXX_3.4", "_ZSt4cout"),
    "libgcc_s.so.1": ("GCC_3.0", "_Unwind_Resume"),
    "libm.so.6": ("GLIBC_2.2.5", "sin"),
    "libdl.so.2": ("GLIBC_2.2.5", "dlsym"),
    "libgomp.so.1": ("GOMP_1.0", "GOMP_parallel_start"),
    "libz.so.1": ("ZLIB_1.2.0", "inflateCopy"),
    "libcrypto.so.3": ("OPENSSL_3.0.0", "EVP_MD_CTX_new"),
    "libcrypt.so.1": ("XCRYPT_2.0", "crypt"),
}


def make_extensions(folder: Path) -> Iterator[Path]:
    """Write extensions that need a newer library than the system's, and such that need the system's."""
    for library, (version, symbol) in _SYSTEM.items():
        for runpath in ("$ORIGIN", "$ORIGIN/libs", None):
            beside = "libs" if runpath == "$ORIGIN/libs" else "."
            cases = {
                "newer": (Defined(name="newer", version="V_99"), Undefined(name="newer", version=(library, "V_99"))),
                "older": (Defined(name="other", version="V_1"), Undefined(name=symbol, version=(library, version))),
                "plain": (exports("newer")[0], uses("newer")[0]),
            }
            for case, (defined, wanted) in cases.items():
                place = folder / f"{library} {case} {runpath is None} {beside}"
                Elf(machine=EM_X86_64, soname=library, defined=(defined,)).write(place / beside / library)
                needed = (library, "libc10.so", "libtorch_cpu.so")
                yield Elf(needed=needed, undefined=(wanted,), runpath=runpath).write(place / "_C.so")


def test_which_library_is_in_the_process(tmp_path: Path) -> None:
    package = interpreter.installed_torch()
    assert package
    paths = list(make_extensions(tmp_path))
    told = live_torch.run(_OPEN, input=json.dumps(list(map(str, paths))), check=True).stdout
    real = [json.loads(line) for line in told.splitlines()]
    words = [line and re.sub(r"^/[^:]*/([^/:]*: )", r"\1", line) for line in real]
    assert 10 < words.count(None) < len(words) - 10
    results = abiscan.check(paths, torch=package, each_file=True).results
    errors = [result.predicted_error for result in results]
    predicted = [error and f"{error.object}: {error.message}" for error in errors]
    assert list(zip(paths, predicted, strict=True)) == list(zip(paths, words, strict=True))
    # Of a release number's system and Python nothing is known: what loads here must not be said to fail there.
    others = abiscan.check(paths, torch=live_torch.version(), each_file=True).results
    loading = [result for result, line in zip(others, words, strict=True) if line is None]
    assert [result.target for result in loading if result.verdict.value != "loads"] == []
