"""Where the answer of a function that has no double can be: what it returns, and what it writes through pointers.

Such a function returns zero and writes nothing, and ``taint`` follows what becomes of that. Results come in the
registers that the ABI has for them. What else it may have written is what its arguments point to: as many of them as
its mangled name tells of, and all that can be where it tells nothing, each up to the end of what it can be a part of.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final, Protocol

from abiscan.binary.mangling import demangle
from abiscan.emulation.arch import Arch
from abiscan.emulation.emulator import Emulator
from abiscan.emulation.exceptions import Exceptions
from abiscan.emulation.loader import Image
from abiscan.regex import regex

_LARGEST: Final = 256
_STATIC: Final = 64  # of a datum of the object
_HIDDEN: Final = 2  # ``this``, and where a result in memory goes
_NOTHING: Final = regex(r"_ZN\w*D[012]Ev$")
_PARAMETERS: Final = regex(r"\((.*)\)(?: const)?(?: &&?)?$")
_BRACKETS: Final = regex(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]")

# Functions of the C library that write through pointers: the argument, and how many bytes; a text for the argument that
# tells it (POSIX.1-2017, and the layouts of glibc on 64-bit machines).
WRITES: Final[dict[str, dict[int, int | str]]] = {
    "time": {0: 8},
    "gettimeofday": {0: 16, 1: 8},
    "clock_gettime": {1: 16},
    "clock_getres": {1: 16},
    "clock": {},
    "getpid": {},
    "getppid": {},
    "gettid": {},
    "getuid": {},
    "geteuid": {},
    "getgid": {},
    "getegid": {},
    "sched_getcpu": {},
    "getcpu": {0: 4, 1: 4},
    "gethostname": {0: "1"},
    "getdomainname": {0: "1"},
    "getlogin": {},
    "read": {1: "2"},
    "pread": {1: "2"},
    "fread": {0: "1"},
    "fgets": {0: "1"},
    "getrandom": {0: "1"},
    "getentropy": {0: "1"},
    "getrusage": {1: 144},
    "sysinfo": {0: 112},
    "times": {0: 32},
    "ftime": {0: 16},
    "sched_getaffinity": {2: "1"},
    "pthread_getaffinity_np": {2: "1"},
}


class _Process(Protocol):
    """The process that calls: see ``EmulatedProcess``."""

    machine: Emulator
    arch: Arch
    exceptions: Exceptions

    def image_at(self, address: int) -> Image | None:
        """Return the object that an address belongs to."""

    def heap_top(self) -> int:
        """Return where the next allocation will be."""

    def size_of(self, address: int) -> int:
        """Return the size of an allocation."""


class _Call(Protocol):
    """The call of a function: see ``process.Call``."""

    name: str
    return_address: int

    @property
    def process(self) -> _Process:
        """The process that calls."""

    def argument(self, index: int) -> int:
        """Return an integer or pointer argument."""


def written(call: _Call) -> Iterator[tuple[int, int]]:
    """Yield the parts of memory, address and size, that an unknown function may have written."""
    sizes = WRITES.get(call.name)
    if sizes is not None:
        for index, size in sizes.items():
            address = call.argument(index)
            if address:
                yield address, min(call.argument(int(size)) if isinstance(size, str) else size, 1 << 16)
        return
    for index in range(min(_arguments(call.name), len(call.process.arch.arguments))):
        yield from _extent(call, call.argument(index))


@functools.cache
def _arguments(name: str) -> int:
    """Return how many arguments a function has at most."""
    if _NOTHING.match(name):
        return 0
    if not name.startswith("_Z"):
        return 8
    shown = demangle(name)
    match = _PARAMETERS.search(shown)
    if match is None:
        return 8
    inner, before = match[1], None
    while before != inner:
        before, inner = inner, _BRACKETS.sub("", inner)
    return (inner.count(",") + 1 if inner.strip() else 0) + _HIDDEN


def _extent(call: _Call, address: int) -> Iterator[tuple[int, int]]:
    process = call.process
    if process.machine.is_heap(address) and address < process.heap_top():
        yield address, min(_LARGEST, process.heap_top() - address, process.size_of(address) or _LARGEST)
    elif process.machine.is_stack(address):
        yield from process.exceptions.locals_at(call, address, _LARGEST)
    elif (image := process.image_at(address)) is not None and image.is_writable(address):
        yield address, _STATIC
