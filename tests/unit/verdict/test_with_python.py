"""Which module of a Python has loaded a library, compared with the modules of the running one."""

from __future__ import annotations

import importlib
import platform
import sys

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs.interpreter import running_interpreter
from abiscan.verdict.with_python import module_with

pytestmark = pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="needs x86_64 Linux")


@pytest.mark.parametrize(
    ("library", "name"),
    [("libffi.so.8", "_ctypes"), ("libssl.so.3", "_ssl"), ("liblzma.so.5", "_lzma"), ("libother.so.1", None)],
)
def test_the_module_is_that_of_the_python(library: str, name: str | None) -> None:
    real = getattr(importlib.import_module(name), "__file__", None) if name else None  # None: part of the interpreter
    assert module_with(library, running_interpreter(), Machine.X86_64) == real
    assert module_with(library, None, Machine.X86_64) is None
