"""What is written in C: a processor, and searches in code and in texts: see ``docs/native.md``.

It is compiled when the package is installed, where there is a compiler. Without it, or with ``ABISCAN_NATIVE=0`` in the
environment, icicle and Python do the same.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from collections.abc import Callable
from typing import Final

ARCHITECTURE: Final = "x86_64"
"""Whose code the searches read."""

_PROCESSORS: Final = frozenset((ARCHITECTURE, "aarch64"))
_SWITCH: Final = "ABISCAN_NATIVE"
_COMPILERS: Final = {
    "apk": "apk add gcc musl-dev python3-dev",
    "apt-get": "apt-get install gcc libc6-dev python3-dev",
    "dnf": "dnf install gcc python3-devel",
}
"""What installs a C compiler and the headers of Python, by the program that installs packages of a system."""


@functools.cache
def is_compiled() -> bool:
    """Whether the package has it."""
    return importlib.util.find_spec("abiscan.native._core") is not None


def how_to_compile() -> str:
    """Return what to type for abiscan to be installed with it: there are wheels with it for glibc alone."""
    compiler = next((words for name, words in _COMPILERS.items() if shutil.which(name)), "install a C compiler")
    return f"{compiler}, then pip install --force-reinstall --no-deps --no-binary abiscan abiscan"


def is_available() -> bool:
    """Whether it is to be used."""
    return os.environ.get(_SWITCH) != "0" and is_compiled()


def reads(architecture: str) -> bool:
    """Whether the searches are to be used for the code of an architecture."""
    return architecture == ARCHITECTURE and is_available()


def runs(architecture: str) -> bool:
    """Whether the processor is to be used for the code of an architecture."""
    return architecture in _PROCESSORS and is_available()


def searcher(content: bytes) -> Callable[[bytes], bool]:
    """Return a function that tells whether a text is in some content; it is quick where many texts are asked for."""
    if not is_available():
        return content.__contains__
    from abiscan.native._core import Searched

    return Searched(content).has
