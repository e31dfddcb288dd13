"""The Python code of packages: what loads and registers, nested, repeated, recursive, or not Python at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Final

from tools.fuzz.model import SAMPLES, TORCH, Case, damaged

_ATOMS: Final = (
    "0", "1", "'x'", "__file__", "os", "torch", "None", "sys.version_info", "b'\\xff'", "9**9**9", "'a'*10**9",
    "-1", "x", "f'{x!r:{y}}'",
    "torch.__version__", "Path(__file__).parent", "[]", "{}", "...", "1e999", "0x" + "f" * 300, "1 << 10**9",
    "lambda: x", "(yield)",
)  # fmt: skip
_CALLS: Final = (
    "torch.ops.load_library({0})", "ctypes.CDLL({0})", "importlib.import_module({0}, {1})", "__import__({0})",
    "os.path.join({0}, {1})",
    "getattr({0}, {1})", "glob.glob({0})", "str.format({0}, {1})", "({0}).replace({1}, {1})",
    "torch.library.Library({0}, 'DEF')",
    "f({0})", "({0}) % ({1})", "({0}) + ({1})", "({0}) * ({1})", "({0})[{1}]", "[{0} for x in {1}]", "not {0}",
    "({0}) if {1} else x",
    "range({0})", "list(range(10**9))", "sorted({0})", "'{{}}'.join({0})", "os.listdir({0})", "exec({0})",
    "open({0}).read()", "int({0})",
    "re.match({0}, {1})", "platform.system()", "sys.platform.startswith({0})", "({0}) ** ({1})",
    "('%' + '9' * 9 + 'd') % {0}",
)  # fmt: skip
_STATEMENTS: Final = (
    "{e}", "x = {e}", "import {m}", "from {m} import *", "from . import {m}", "from .{m} import {m} as x",
    "raise ImportError({e})",
    "if {e}:\n{b}", "while {e}:\n{b}", "for x in {e}:\n{b}", "try:\n{b}\nexcept {e}:\n{b}", "try:\n{b}\nfinally:\n{b}",
    "def f(x=0, *a, **k):\n{b}", "class C({e}):\n{b}", "with {e} as x:\n{b}", "assert {e}", "del x", "global x",
    "return {e}", "f({e})",
    "x += {e}", "x, *y = {e}", "match {e}:\n  case [x, *_]:\n    pass", "lambda: {e}", "sys.exit({e})",
    "def __getattr__(n):\n{b}",
    "@torch.library.custom_op({e}, mutates_args=())\ndef g(x):\n{b}", "async def h():\n{b}", "x: int = {e}",
    "_C = {e}", "x = x + x",
)  # fmt: skip
_MODULES: Final = ("pkg", "_C", "a", "b", "torch", "os", "pkg.a", "..", "x" * 300, "os.path", "a.b.c.d.e")


def expression(random: Random, depth: int = 0) -> str:
    """An expression."""
    if depth > 5 or random.random() < 0.4:
        return random.choice(_ATOMS)
    return random.choice(_CALLS).format(expression(random, depth + 1), expression(random, depth + 1))


def statements(random: Random, depth: int) -> str:
    """A few statements, indented."""
    lines: list[str] = []
    for _ in range(random.randint(1, 4)):
        form = random.choice(_STATEMENTS[:7] if depth > 3 else _STATEMENTS)
        block = statements(random, depth + 1) if "{b}" in form else ""
        text = form.replace("{e}", expression(random)).replace("{m}", random.choice(_MODULES)).replace("{b}", block)
        lines += [" " * (depth if not line.startswith(" ") else 0) + line for line in text.split("\n")]
    return "\n".join(lines)


def module(random: Random) -> str:
    """The text of a module."""
    text = "import os, sys, ctypes, torch\nfrom pathlib import Path\n" + statements(random, 0) + "\n"
    extreme = random.random()
    if extreme < 0.02:
        text += random.choice(("x = " + "(" * 5000 + ")" * 5000, "x = " + "-" * 50_000 + "1",
        "x = " + "1+" * 20_000 + "1",
                               "".join(f"{' ' * i}if x:\n" for i in range(150)), "[" * 10_000, "x" * 1_000_000,
                               "raise " + "f(" * 300 + ")" * 300, "torch.ops." + "a." * 5000 + "a"))  # fmt: skip
    elif extreme < 0.2:
        text = damaged(text.encode(), random, 3).decode("utf-8", "surrogateescape")
    elif extreme < 0.25:
        text = "# coding: " + random.choice(("latin-1", "utf-7", "nonsense", "rot13", "utf-16")) + "\n" + text
    return text


def case(random: Random, folder: Path) -> Case:
    """A package in a folder."""
    package = folder / "pkg"
    package.mkdir()
    for name in ("__init__.py", *random.sample(("a.py", "b.py", "_C.py"), random.randint(0, 3))):
        (package / name).write_bytes(module(random).encode("utf-8", "surrogateescape"))
    shutil.copyfile(SAMPLES / "loads" / "loads.so", package / "_C.so")
    return Case(words=["check", str(package), *TORCH, *random.choice(((), ("-v",), ("--format", "json")))])
