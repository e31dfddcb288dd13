"""The import-time guard of abiscan: does the running torch have what this package was compiled against?

One file without dependencies, to be vendored into a package (``abiscan guard --write PKG/``) and called at the top of
its ``__init__.py``, before anything compiled is loaded::

    from . import _abiscan_guard
    _abiscan_guard.check()

It reads the stamp that ``abiscan stamp WHEEL`` puts next to it, looks up the symbols in the libraries of the running
torch, and asks its dispatcher for the operators and the dispatch key numbers. That takes milliseconds. Users get one
line; ``ABISCAN_GUARD`` set to ``details`` shows everything, ``warn`` turns the error into a warning, ``off`` disables
the guard.

A running torch cannot report the layouts of its classes, so for those the guard relies on the stamp, which covers the
releases known when it was made. The guard ignores what it cannot check: it must not break what works.
"""

# This file supports Python 3.8 and newer, unlike abiscan itself, because it runs wherever the package runs.
from __future__ import annotations

import ctypes
import fnmatch
import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STAMP = "_abiscan_stamp.json"
SWITCH = "ABISCAN_GUARD"


def check(action: str = "raise", only: Iterable[str] = ("*",), stamp: str | None = None) -> None:
    """Tell the user, in one line, if the running torch does not have what this package was compiled for.

    :param action: ``raise`` for an ImportError, ``warn`` for a RuntimeWarning
    :param only: patterns for the paths of the extensions that have to load; by default all of the package
    :param stamp: path of the stamp, by default next to this file
    :raises ImportError: something is missing, unless ``action`` or the environment says otherwise
    """
    switch = os.environ.get(SWITCH, "")
    if switch == "off":
        return
    try:
        # The package's own __init__ is running: torch may be missing, and then its own import says so better.
        import torch

        path = Path(stamp) if stamp else Path(__file__).with_name(STAMP)
        if not path.exists():  # built from source, so not stamped
            return
        expected = json.loads(path.read_text("utf-8"))
        problems = list(_problems(expected, only, torch))
    except Exception as error:  # noqa: BLE001 - the package may still work
        if switch == "details":
            sys.stderr.write(f"abiscan guard: could not check: {error!r}\n")  # noqa: TID251 - of the program that imports
        return
    if problems:
        line = _clean(_format_line(expected, torch.__version__, switch))
        if switch == "details":
            line = "\n  ".join([line, *map(_clean, problems)])
        if action == "warn" or switch == "warn":
            warnings.warn(line, RuntimeWarning, stacklevel=2)
        else:
            raise ImportError(line)


def _clean(text: str) -> str:
    """Return ``text`` without control characters and marks that turn the direction of writing: names come from
    files.
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _format_line(expected: Any, running: str, switch: str) -> str:
    package, built_for = expected["package"], expected["built_for"]
    wanted_torch, running_torch = built_for.partition("+")[0], running.partition("+")[0]
    # "built for 2.8.0, does not work with 2.8.0" would help nobody.
    if wanted_torch == running_torch:  # the same release, but a different build, such as CPU and CUDA
        wanted_torch, running_torch = built_for, running
    second = f"install torch=={wanted_torch}, or a {package} built for torch {running_torch}"
    subject = f"{package} {expected['package_version']} was built for torch {built_for}"
    hint = "" if switch == "details" else f" (set {SWITCH}=details to see why)"
    return f"{subject} and does not work with torch {running}: {second}{hint}"


def _problems(expected: Any, only: Iterable[str], torch: Any) -> Iterator[str]:
    for extension in expected["extensions"]:
        if any(fnmatch.fnmatch(extension["path"], pattern) for pattern in only):
            yield from _unresolved(extension, torch)
            # By release number: all builds of a release have the same layouts, as far as the stamp knows.
            drift = extension.get("layouts", {}).get(torch.__version__.partition("+")[0])
            if drift:
                yield f"{extension['path']}: {drift}"
    for name, number in expected["keys"].items():
        # Keys are compiled into extensions as numbers (c10/core/DispatchKey.h), and a release may renumber them.
        key = _find_key(name, torch)
        if key != number:
            yield f"dispatch key {name}: {'removed' if key is None else f'now {key}'}, was {number}"
    for name, schema in expected["operators"].items():
        current = _schema(name, torch)
        if current is None:
            yield f"operator {name}: removed"
        # As parsed schemas, since spellings of one schema differ between releases.
        elif current != torch._C.parse_schema(schema):
            yield f"operator {name}: now {current}, was {schema}"


def _unresolved(extension: Any, torch: Any) -> Iterator[str]:
    """Yield what the loader would not find. torch has already loaded its libraries, so they are only looked up here."""
    handles = []
    for name in extension["needed"]:
        handle = _loaded(name, torch)
        if handle is not None:
            handles.append(handle)
        elif (Path(torch.__path__[0]) / "lib" / name).exists():
            return  # loaded later, on demand: it may have the other missing symbols
        else:
            yield f"{extension['path']}: {name}: not in this torch"
            return
    for symbol in extension["symbols"]:
        if not any(hasattr(handle, symbol) for handle in handles):
            yield f"{extension['path']}: undefined symbol: {symbol}"


def _loaded(name: str, torch: Any) -> ctypes.CDLL | None:
    """Return a library that is in the process; None if it is not. Nothing is loaded.

    Linux knows it by its name, macOS by its path, and Windows has a function of its own for that.
    """
    of_windows = getattr(ctypes, "WinDLL", None)
    if of_windows is not None:
        kernel = of_windows("kernel32")
        kernel.GetModuleHandleW.argtypes = [ctypes.c_wchar_p]
        kernel.GetModuleHandleW.restype = ctypes.c_void_p
        handle = kernel.GetModuleHandleW(name)
        return ctypes.CDLL(name, handle=handle) if handle else None
    # RTLD_NOLOAD returns a handle only for what is loaded already (dlopen(3)); dyld wants the path for that.
    path = str(Path(torch.__path__[0]) / "lib" / name) if name.endswith(".dylib") else name
    try:
        return ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


def _find_key(name: str, torch: Any) -> int | None:
    try:
        return int(torch._C._dispatch_key_parse(name))
    except RuntimeError:
        return None


def _schema(name: str, torch: Any) -> Any:
    base, _, overload = name.partition(".")
    try:
        return torch._C._get_schema(base, overload)
    except RuntimeError:
        return None
