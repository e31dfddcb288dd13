"""Import packages and write down what that did, each in a process of its own: run by a test, with folders as arguments.

Writes a line of JSON with the operators of torch, then one for each package: what was raised, where, what caused it,
which loads were tried, and what the dispatcher has got from Python. The status, if the import ends the process.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.machinery
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch


def _place(folder: str) -> str | None:
    frames = [one for one in traceback.extract_stack() if one.filename.startswith(folder)]
    return f"{frames[-1].filename[len(folder) + 1 :]}:{frames[-1].lineno}" if frames else None


def _watch(folder: str, loads: list[dict[str, object]]) -> None:
    """Note each load of a library of the package."""

    def noted(path: str, how: str, action: Callable[[], object]) -> object:
        load: dict[str, object] = {"path": path.replace(folder + "/", ""), "how": how, "at": _place(folder)}
        if path.startswith(folder):
            loads.append(load)
        try:
            result = action()
        except Exception as error:
            load["error"] = str(error).replace(folder + "/", "")
            raise
        return result

    cdll, create = ctypes.CDLL.__init__, importlib.machinery.ExtensionFileLoader.create_module

    def load_cdll(self: ctypes.CDLL, name: str, *args: object, **kwargs: object) -> None:
        noted(str(name), "ctypes", lambda: cdll(self, name, *args, **kwargs))  # type: ignore[arg-type]

    def load_module(self: importlib.machinery.ExtensionFileLoader, spec: importlib.machinery.ModuleSpec) -> object:
        return noted(self.path, "import", lambda: create(self, spec))

    ctypes.CDLL.__init__ = load_cdll  # type: ignore[method-assign, assignment]
    importlib.machinery.ExtensionFileLoader.create_module = load_module  # type: ignore[method-assign, assignment]


def _operators() -> set[str]:
    return set(torch._C._dispatch_get_all_op_names())


def _imported(folder: str, module: str, before: set[str]) -> dict[str, object]:
    loads: list[dict[str, object]] = []
    _watch(folder, loads)
    sys.path.insert(0, folder)
    chain: list[tuple[str, str]] = []
    at = None
    try:
        __import__(module)
    except BaseException as raised:  # noqa: BLE001 - SystemExit, too
        places = [frame for frame in traceback.extract_tb(raised.__traceback__) if frame.filename.startswith(folder)]
        at = f"{places[-1].filename[len(folder) + 1 :]}:{places[-1].lineno}"
        error: BaseException | None = raised
        while error is not None:
            chain.append((type(error).__name__, str(error).replace(folder + "/", "")))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    new = _operators() - before
    lines = {name: torch._C._dispatch_dump(name).splitlines() for name in new}
    python = {name: sorted(one.partition(" :: ")[0] for one in dump if ".py:" in one) for name, dump in lines.items()}
    return {
        "module": module,
        "chain": chain,
        "at": at,
        "loads": loads,
        "registered": {name: lines for name, lines in python.items() if lines},
        "operators": sorted(new),
    }


def main() -> None:
    """Print the operators of torch, import the module that each folder has, and print a line for each."""
    of_torch = _operators()
    print(json.dumps(sorted(of_torch)), flush=True)
    gc.freeze()  # a child that looks for garbage would copy all of torch
    for folder in sys.argv[1:]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)
            result = _imported(folder, Path(folder).name, of_torch)
            with os.fdopen(writer, "w") as file:
                json.dump(result, file)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            written = file.read()
        status = os.waitpid(child, 0)[1]
        print(written or json.dumps({"module": Path(folder).name, "ended": status}), flush=True)


if __name__ == "__main__":
    main()
