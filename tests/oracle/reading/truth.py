"""What CPython does with small packages beside a stub of torch, and how a reading of them compares.

The module runs as a program, too, in the interpreter that imports the packages: it reads them from its standard input.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PRELUDE: Final = """\
import os, torch
def load(name="bad"):
    torch.ops.load_library(os.path.join(os.path.dirname(__file__), name + ".so"))
"""
_FILE: Final = re.compile(r"^--- (\S+)\n", re.MULTILINE)
OTHERS: Final = {
    "other.py": "import os, torch\ntorch.ops.load_library(os.path.join(os.path.dirname(__file__), 'bad.so'))\n",
    "base.py": "from . import load\nclass Base:\n    def __init_subclass__(cls):\n        load()\n"
    "class Value:\n    def __add__(self, other):\n        load()\n    @property\n    def x(self):\n        load()\n"
    "value = Value()\ndef register(f):\n    load()\n    return f\n",
    "other_names.py": "name = 1\n",
    "uses_hook.py": "from .base import Base\nclass C(Base):\n    pass\n",
    "uses_operator.py": "from .base import value\ntotal = value + 1\n",
    "uses_property.py": "from . import base\nx = base.value.x\n",
    "uses_decorator.py": "from .base import register\n@register\ndef f():\n    pass\n",
    "bad.so": "",
    "good.so": "",
}
"""Further files: the libraries of every package, and the modules of those that name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an import does: the exception by name, None if there is none, and the names of the libraries it loads.

    ``gaps`` are those of a reading, ``unknown`` says that it does not tell whether the import fails, and
    ``conditional`` that the machine decides what is loaded.
    """

    raised: str | None
    loads: tuple[str, ...]
    gaps: tuple[str, ...] = ()
    unknown: bool = False
    conditional: bool = False


def package(code: str) -> dict[str, str]:
    """The files of the package whose code this is; lines ``--- FILE`` begin further ones."""
    code, *further = _FILE.split(code)
    own = dict(zip(further[::2], further[1::2], strict=True))
    lines = code.splitlines(keepends=True)
    first = lines[0] if lines and "__future__" in lines[0] else ""
    wanted = {name for name in OTHERS if name.removesuffix(".py") in code or name.endswith(".so")}
    wanted = {name for name in wanted if name.endswith(".so") or not own}
    if any(name.startswith("uses_") for name in wanted):
        wanted.add("base.py")
    return {"__init__.py": first + PRELUDE + code.removeprefix(first), **{name: OTHERS[name] for name in wanted}, **own}


def as_submodule(code: str) -> str | None:
    """The package whose body is in a submodule, which is passed over where it may be; None if it has more files."""
    uses_others = any(name.removesuffix(".py") in code for name in OTHERS if name.endswith(".py"))
    if "__future__" in code or "\n--- " in code or uses_others:
        return None
    return f"from . import inner\n--- tools.py\n{PRELUDE}--- inner.py\nfrom .tools import load\n{code}"


def imported(codes: Mapping[str, str], *, failing: bool) -> dict[str, Outcome]:
    """What importing each package does in this interpreter's kind of process, where "bad" fails to load or does not."""
    request = json.dumps({"codes": dict(codes), "failing": failing})
    command = [sys.executable, "-W", "ignore", str(Path(__file__))]
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=True)
    return {
        name: Outcome(raised=raised, loads=tuple(loads)) for name, (raised, loads) in json.loads(done.stdout).items()
    }


def verdict(real: Outcome, read: Outcome) -> str:
    """How a reading compares: it agrees, has a gap, is calm though the import fails, or alarms though it works."""
    if read.unknown:
        return "gap"
    if read.raised is not None and real.raised is None:
        return "false alarm"
    if read.gaps:
        return "gap"
    if read.raised is None and real.raised is not None:
        return "false calm"
    same_loads = read.loads == real.loads or read.conditional
    return "agrees" if read.raised == real.raised and same_loads else "differs"


def _import_all(codes: dict[str, str], *, failing: bool) -> Iterator[tuple[str, tuple[str | None, list[str]]]]:
    loads: list[str] = []

    def load_library(path: str) -> None:
        name = Path(path).stem
        loads.append(name)
        if failing and name == "bad":
            raise OSError("Could not load this library: " + Path(path).name)

    torch = types.ModuleType("torch")
    torch.ops = types.SimpleNamespace(load_library=load_library)  # type: ignore[attr-defined]
    sys.modules["torch"] = torch
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for number, (name, code) in enumerate(codes.items()):
            module = f"p{number}"
            for file, content in package(code).items():
                path = Path(folder, module, file)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, "utf-8")
            importlib.invalidate_caches()
            loads.clear()
            raised = None
            before = threading.excepthook
            try:
                importlib.import_module(module)
            except BaseException as error:  # noqa: BLE001 - SystemExit, too
                raised = type(error).__name__
            threading.excepthook = before
            yield name, (raised, list(loads))


def main() -> None:
    """Import the packages of the request, and print what that does."""
    request: dict[str, Any] = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        outcomes = dict(_import_all(request["codes"], failing=request["failing"]))
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
