"""Which schema types cross LibTorch's stable ABI, for ``abiscan/dispatch/data/stable_types.txt``.

``tools.ask_torch`` asks running torches, of which ``lib/libc10.so`` and ``lib/libtorch_cpu.so`` with the libraries that
they need are enough. For each type, a process of its own defines an operator ``(T x) -> T`` with a kernel of the stable
ABI, through C functions alone, and calls it by name. Torch then converts the argument to an IValue and back for the
kernel, and the result likewise, or says that it cannot.
"""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from packaging.version import Version

from tools.data_files import minor_of

FIRST: Final = Version("2.7")
"""The first release with the C functions that are needed to ask."""

TYPES: Final = {
    **{
        name: name
        for name in (
            *("Tensor", "int", "float", "bool", "SymInt", "str", "ScalarType", "Layout", "MemoryFormat", "Device"),
            *("Generator", "Scalar", "complex", "Storage", "Stream", "SymBool", "QScheme", "Any"),
        )
    },
    "List": "Tensor[]",
    "Optional": "Tensor?",
    "Dict": "Dict(str, int)",
    "Tuple": "(int, int)",
}
"""The kinds of type by name, each with a type of a schema."""

_RETURNING: Final = {"Scalar": "item"}
"""Types of results, each with an operator of ``aten`` that returns one for a tensor: arguments may still cross."""

_REFUSED: Final = re.compile(r"Not yet supported conversion from \w+ to \w+ for schema type: .*|unknown type specifier")
_CROSSES: Final = "crosses"
_KERNEL: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)


class _Torch:
    """The C functions of the libraries in ``folder``."""

    def __init__(self, folder: Path) -> None:
        ctypes.CDLL(str(folder / "libc10.so"), ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(folder / "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
        self.abi_version = ctypes.c_uint64(self._number("aoti_torch_abi_version", ctypes.c_uint64))
        self.has_versions = hasattr(self._library, "torch_library_impl")

    def _number(self, name: str, kind: type[ctypes._SimpleCData[int]] = ctypes.c_int32) -> int:
        function = self._library[name]
        function.restype = kind
        return int(function())

    def call(self, name: str, *arguments: object) -> None:
        """Call a function that returns an error code.

        :raises RuntimeError: it failed; why is written to standard error
        """
        if self._library[name](*arguments):
            if hasattr(self._library, "torch_exception_get_what"):  # 2.13 on; before, torch wrote it to standard error
                what = self._library.torch_exception_get_what
                what.restype = ctypes.c_char_p
                print(what().decode(), file=sys.stderr, flush=True)
            raise RuntimeError(name)

    def made_by(self, name: str, *arguments: object) -> int:
        """The handle that a function makes."""
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle.value or 0

    def tensor(self) -> int:
        """A tensor with one element."""
        one = (ctypes.c_int64 * 1)(1)
        dtype, device = self._number("aoti_torch_dtype_float32"), self._number("aoti_torch_device_type_cpu")
        return self.made_by("aoti_torch_empty_strided", ctypes.c_int64(1), one, one, dtype, device, 0)

    def value(self, type_: str) -> int:
        """A value of a type, as it is passed; 0 where torch is expected to refuse it, or where 0 is a value."""
        match type_:
            case "Tensor":
                return self.tensor()
            case "str" if hasattr(self._library, "torch_new_string_handle"):
                return self.made_by("torch_new_string_handle", b"text", ctypes.c_size_t(4))
            case "Tensor[]" if hasattr(self._library, "torch_new_list_reserve_size"):
                return self.made_by("torch_new_list_reserve_size", ctypes.c_size_t(0))
            case "ScalarType":
                return self._number("aoti_torch_dtype_float32")
            case "Layout":
                return self._number("aoti_torch_layout_strided")
            case "MemoryFormat":
                return self._number("aoti_torch_memory_format_contiguous_format")
            case _:
                return 0

    def call_operator(self, namespace: str, name: str, stack: ctypes.Array[ctypes.c_uint64]) -> None:
        """Call an operator by name."""
        operator = f"{namespace}::{name}".encode()
        if self.has_versions:
            self.call("torch_call_dispatcher", operator, b"", stack, self.abi_version)
        else:
            self.call("aoti_torch_call_dispatcher", operator, b"", stack)

    def call_own(self, type_: str) -> None:
        """Define an operator of the type, with a kernel that returns its argument, and call it."""
        library = ctypes.c_void_p(self.made_by("aoti_torch_library_init_def", b"probe", b"probe", ctypes.c_uint32(1)))
        self.call("aoti_torch_library_def", library, f"same({type_} x) -> {type_}".encode())
        implementation = ctypes.c_void_p(
            self.made_by(
                "aoti_torch_library_init_impl", b"probe", b"CompositeExplicitAutograd", b"probe", ctypes.c_uint32(2)
            )
        )
        kernel = _KERNEL(lambda *_: None)  # leaves its argument where the result belongs
        if self.has_versions:
            self.call("torch_library_impl", implementation, b"same", kernel, self.abi_version)
        else:
            self.call("aoti_torch_library_impl", implementation, b"same", kernel)
        self.call_operator("probe", "same", (ctypes.c_uint64 * 1)(self.value(type_)))


def _probe(folder: Path, type_: str) -> None:
    torch = _Torch(folder)
    if type_ in _RETURNING:
        torch.call_operator("aten", _RETURNING[type_], (ctypes.c_uint64 * 1)(torch.tensor()))
    torch.call_own(type_)
    print(_CROSSES, flush=True)


def crossing(package: Path) -> frozenset[str]:
    """The kinds of type that cross in an unpacked torch."""
    return frozenset(kind for kind, type_ in TYPES.items() if _answer(package, type_) == _CROSSES)


def _answer(package: Path, type_: str) -> str:
    """``crosses``, or what torch says.

    :raises SystemExit: it did neither
    """
    command = [sys.executable, "-m", "tools.record_crossing", type_, str(package)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = _REFUSED.search(run.stderr)
    if said:
        return said[0]
    followed_null = type_ == "Generator" and run.returncode == -signal.SIGSEGV  # no C function makes a handle of one
    if followed_null or run.stdout.strip() == _CROSSES:
        return _CROSSES
    raise SystemExit(f"{package}: {type_}: ended with {run.returncode}: {run.stderr.strip()}")


def replaced(text: str, crossings: Mapping[str, Collection[str]], without: Collection[str] = ()) -> str:
    """The data file with some releases added.

    A type crosses since the first of the newest releases that all agree. So only the newest release can be added or
    replaced; what one before it says changes nothing.

    :param without: releases to leave out
    """
    (_, *seen), *rows = map(str.split, text.splitlines())
    since = dict(rows)
    replaceable = {release for release in crossings if Version(release) >= Version(seen[-1])}
    for release in sorted({*without, *replaceable} & {*seen}, key=Version):
        seen.remove(release)
        if minor_of(release) not in map(minor_of, seen):
            since = {kind: "-" if first == minor_of(release) else first for kind, first in since.items()}
    for release in sorted(replaceable, key=Version):
        seen.append(release)
        since = {
            kind: (minor_of(release) if first == "-" else first) if kind in crossings[release] else "-"
            for kind, first in since.items()
        }
    return "".join(f"{line}\n" for line in (f"seen {' '.join(seen)}", *map(" ".join, since.items())))


if __name__ == "__main__":
    _probe(Path(sys.argv[2]) / "lib", sys.argv[1])
