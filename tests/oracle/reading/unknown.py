"""Makes expressions whose operands the machine decides: what the reading claims of them, and what CPython computes."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from abiscan.python.importing.runs import RunCache, Runs
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.sources import PackageFiles
from tests.unit.python.packages import FakeWorld, TextSources

_START: Final = """\
import os, platform, torch
from dataclasses import dataclass
torch.ops.load_library(os.path.join(os.path.dirname(__file__), "good.so"))
@dataclass(frozen=True)
class P:
    x: object
    y: object = 1
class Q:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return isinstance(other, Q) and self.x == other.x
    def __hash__(self):
        return 7
node, pid = platform.node(), os.getpid()
"""
_UNKNOWN: Final = (
    "node", "platform.node()", "node[:0]", "pid", "pid * 0", "pid - os.getpid()", "os.environ.get('HOME')",
    "[c for c in 'ab' if c in node]", "[c for c in 'ab' if len(node) > 999]", "(node, 1)", "(pid, 'x')",
    "next((c for c in 'ab' if len(node) > 999), None)", "frozenset([node])", "P(node)", "Q(pid)", "{node: 1}",
)  # fmt: skip
_KNOWN: Final = (
    "'x'", "''", "0", "1", "True", "None", "[]", "[1]", "(1, 2)", "{}", "{'a': 1}", "('x', 1)", "P(1)", "Q(1)", "2.0",
    "int", "len",
)  # fmt: skip
_FORMS: Final = (
    "{a} or {b}", "{a} and {b}", "{a} or {b} or {c}", "{a} and {b} or {c}", "not {a}", "{a} if {b} else {c}",
    "{a} < {b} < {c}", "{a} == {b} == {c}", "{a} != {b}", "{a} is {b}", "{a} is None", "{a} in [{b}, {c}]",
    "{a} in ({b}, {a})", "{a} in {{{b}: 1, {c}: 2}}", "{{{a}: {b}}}.get({c}, {b})", "{{{a}: {b}}}[{a}]",
    "{{{a}: {b}}}[{c}]", "{{({a}, {b}): 1}}[{a}, {b}]", "{{({a}, {b}): 1}}[{b}, {c}]", "len({{{a}, {b}}})",
    "len({{{a}: 1, {b}: 2}})", "[{a}, {b}].index({c})", "[{a}, {b}].count({a})", "({a}, {b}) == ({c}, {b})",
    "({a}, {b}) in {{({a}, {b}): 1}}", "P({a}) == P({b})", "Q({a}) == Q({b})", "P({a}, {b}) in {{P({a}, {b})}}",
    "bool({a})", "any([{a}, {b}])", "all([{a}, {b}])", "next((x for x in [{a}, {b}] if x), {c})",
    "[x for x in [{a}, {b}] if x]", "len([x for x in [{a}, {b}] if x])", "[str(x) for x in ({a}, {b}) if x]",
    "list(zip([x for x in [{a}] if x], [{b}]))", "[n for n, x in enumerate(x for x in [{a}, {b}] if x)]",
    "list(map(str, (x for x in [{a}] if x)))", "list(filter(None, [{a}, {b}]))", "sum(1 for x in [{a}, {b}] if x)",
    "isinstance({a}, str)", "isinstance({a}, (int, P))", "((y := {a}) or {b}, y)", "[{a} and (y := {b}), y]",
    "str({a} or {b}).upper()", "(lambda a, b: f'{{a}}-{{b!r}}')({a}, {b})", "'%s %r' % ({a}, {b})",
    "'{{}} {{}}'.format({a}, {b})",
    "', '.join([str({a}), str({b})])", "len(str({a}) + 'x') > 0", "max({a}, {b})", "min([{a}, {b}], key=str)",
    "min([x for x in [{a}] if x], default={b})", "sorted([{a}, {b}], key=str)", "getattr({a}, 'upper', {b})",
    "dict([({a}, {b})])", "set([{a}, {b}])", "frozenset([{a}])", "{{**{{'k': {a}}}, 'k': {b}}}['k']",
    "{{{a}: 1}}.pop({b}, {c})", "{{{a}: 1}}.setdefault({b}, {c})", "{a} + {b}", "{a} * 2", "[{a}] + [{b}]",
    "hash({a}) == hash({a})", "type({a}) is type({b})", "callable({a})", "repr({a}) == repr({a})",
)  # fmt: skip


def expressions(seed: int, count: int) -> list[str]:
    """Some expressions, at least one operand of each of which the machine decides."""
    chance = random.Random(seed)

    def operand(depth: int) -> str:
        if depth and chance.random() < 0.25:
            return f"({made(depth - 1)})"
        return chance.choice(_UNKNOWN if chance.random() < 0.5 else _KNOWN)

    def made(depth: int) -> str:
        return chance.choice(_FORMS).format(a=operand(depth), b=operand(depth), c=operand(depth))

    found: list[str] = []
    while len(found) < count:
        expression = made(2)
        if any(word in expression for word in ("node", "pid", "environ")) and _can_stand(expression):
            found.append(expression)
    return found


def _can_stand(expression: str) -> bool:
    """Whether Python takes an expression: ``:=`` must not stand everywhere."""
    try:
        compile(expression, "expression", "eval")
    except SyntaxError:
        return False
    return True


def _program(texts: Sequence[str]) -> str:
    return _START + "".join(
        f"def f():\n    y = 'before'\n    return {text}\n"
        f"try:\n    print({number}, repr(f()))\nexcept Exception as error:\n    print({number}, type(error).__name__)\n"
        for number, text in enumerate(texts)
    )


def computed(texts: Sequence[str]) -> Mapping[int, str]:
    """What CPython prints for expressions."""
    program = _program(texts).replace("import os, platform, torch", "import os, platform").replace("torch.ops", "#")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return by_number(done.stdout.splitlines())


def claimed(texts: Sequence[str]) -> Mapping[int, str]:
    """What the reading is sure that CPython prints for expressions."""
    return claimed_of(_program(texts))


def claimed_of(program: str) -> Mapping[int, str]:
    """What the reading is sure that a program prints."""
    files = PackageFiles(TextSources({"p/__init__.py": program, "p/good.so": ""}))
    python = sys.version_info[:2]
    library = PythonCode(files, ("p",), python, Surroundings())
    run = Runs(library, lambda: FakeWorld(python=python), Limits(), RunCache()).run("p")
    assert run.raised is None, run.raised
    return by_number([said.text for said in run.trace.messages if said.text is not None])


def by_number(lines: Sequence[str]) -> Mapping[int, str]:
    """The lines that a program prints, by the number that each begins with."""
    found = (re.fullmatch(r"(\d+) (.*)", line, re.DOTALL) for line in lines)
    return {int(match[1]): match[2] for match in found if match}
