"""Change the verdict's core in small ways, and see whether the fast tests notice.

    python -m tools.mutate                            # 200 mutants, seed 0
    python -m tools.mutate --count 20 --seed 3 --time-limit 600
    python -m tools.mutate --only 17 --tests tests/unit/dispatch
    python -m tools.mutate --each 10                  # 10 mutants of each room, and a table

A mutant is determined by the seed and its number: in one function, a comparison, operator, number, condition or jump is
another one. What no test can see is not changed: assertions, ``zip(strict=…)`` and the arguments of decorators.

One process imports all and collects the tests. It first records which test runs which line; then each mutant is a fork
of it, whose functions get the changed code, and which runs the tests that run the changed line, until one fails. Where
the line is run while modules are imported, a new process imports the changed module instead. A mutant is killed if a
test fails, or takes ten times its processor time, and ten seconds: how busy the machine is does not count.
Otherwise it survived, and either a test is missing or the change makes no difference. Exits with 1 if fewer than 95 %
are killed.

With ``--each``, the tests of ``.ci/run`` that run the line in their own process are what is to notice it, those of its
room first, and of them as many as take a minute. Then 85 % are enough. To record all of them takes half an hour:
``--record`` keeps it for the next time. Commands in processes of their own (``tests/commands``, ``tests/test_docs.py``)
are not among them, so that more is noticed than the table says.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
import gc
import hashlib
import itertools
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from random import Random
from typing import Any, Final

import coverage
import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = tuple(sorted(path.parent.name for path in (ROOT / "abiscan").glob("*/__init__.py")))
CORE: Final = ("linkage", "dispatch", "emulation", "rules", "torches")
ENOUGH: Final = 0.95
ENOUGH_OF_EACH: Final = 0.85
_SECONDS_OF_EACH: Final = 60
_TESTS: Final = (
    *(f"tests/unit/{room}" for room in CORE),
    "tests/unit/extension",
    "tests/property",
    "tests/test_cases.py",
)
_TESTS_OF_EACH: Final = ("tests/unit", "tests/property", "tests/golden", "tests/oracle", "tests/test_cases.py")
_SLOWER: Final = 10
_LEAST_SECONDS: Final = 10  # of processor time: a test alone has to read what another one has read before, otherwise
_MEMORY: Final = 6 << 30
_WAIT: Final = 3600  # for a mutant, however busy the machine; one that waits for ever is not counted as killed
_OTHER: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A file with one change, in some lines."""

    path: str
    lines: range
    change: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lines[0]}: {self.change}"

    def diff(self) -> str:
        """What is changed, with the lines around it."""
        before = (ROOT / self.path).read_text("utf-8").splitlines()
        return "\n".join(list(difflib.unified_diff(before, self.text.splitlines(), lineterm="", n=2))[2:])


def mutant(seed: int, number: int, rooms: Sequence[str]) -> Mutant:
    """A mutant by its number; the larger a room, the more of them are its."""
    random = Random(f"{seed} {number}")
    files = sorted(file for room in rooms for file in (ROOT / "abiscan" / room).rglob("*.py"))
    while True:
        file = random.choices(files, [path.stat().st_size for path in files])[0]
        text = file.read_text("utf-8")
        places = list(_places(ast.parse(text)))
        if places:
            return _changed(file.relative_to(ROOT).as_posix(), text, random.choice(places))


def _places(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes in functions that can be another one."""
    unseen = {id(inner) for node in ast.walk(tree) for part in _unseen(node) for inner in ast.walk(part)}
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    inside = {id(node): node for function in functions for part in function.body for node in ast.walk(part)}
    for node in inside.values():  # once, though it may be in a function within another one
        if isinstance(node, ast.expr | ast.stmt) and id(node) not in unseen and _can_be_other(node):
            yield node


def _unseen(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node whose change makes no difference to a program that is right."""
    for name in ("annotation", "returns"):
        if isinstance(annotation := getattr(node, name, None), ast.AST):
            yield annotation
    yield from getattr(node, "decorator_list", ())
    if isinstance(node, ast.Assert):
        yield node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
        yield from node.keywords


def _can_be_other(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _OTHER
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return type(node.op) in _OTHER
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.Constant):
        return type(node.value) in (bool, int)
    return isinstance(node, ast.BoolOp | ast.Break | ast.Continue | ast.IfExp)


def _changed(path: str, text: str, node: ast.expr | ast.stmt) -> Mutant:
    before = ast.get_source_segment(text, node) or ""
    if isinstance(node, ast.Constant):
        value = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1
        after = repr(value)
    else:
        after = f"({ast.unparse(_other(node))})" if isinstance(node, ast.expr) else ast.unparse(_other(node))
    lines = text.encode().split(b"\n")
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(len(line) + 1 for line in lines[: node.lineno - 1]) + node.col_offset
    end = sum(len(line) + 1 for line in lines[: node.end_lineno - 1]) + node.end_col_offset
    data = text.encode()
    new = (data[:start] + after.encode() + data[end:]).decode()
    lines_ = range(node.lineno, node.end_lineno + 1)
    return Mutant(path=path, lines=lines_, change=f"{' '.join(before.split())} -> {after}", text=new)


def _other(node: ast.AST) -> ast.AST:
    """The node as something else."""
    if isinstance(node, ast.Compare):
        node.ops = [_swapped(node.ops[0]), *node.ops[1:]]
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign):
        node.op = _swapped(node.op)
    elif isinstance(node, ast.UnaryOp):
        return node.operand
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    else:
        other: ast.AST = _swapped(node)
        return other
    return node


def _swapped(node: ast.AST) -> Any:
    return _OTHER[type(node)]()


@dataclass(slots=True, kw_only=True)
class Record:
    """The processor time of each test, and the lines of each file that it runs, as a bit set.

    ``imported`` are the lines that are run while modules are imported, without any test.
    """

    package: str
    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, int]] = field(default_factory=dict)
    imported: dict[str, int] = field(default_factory=dict)

    def of(self, one: Mutant) -> set[str]:
        """The tests that run a line of a mutant."""
        wanted = _bits(one.lines)
        return {test for test, lines in self.lines.get(one.path, {}).items() if lines & wanted}


def _bits(lines: Iterable[int]) -> int:
    return functools.reduce(lambda bits, line: bits | 1 << line, lines, 0)


class _Killers:
    """A plugin of pytest that runs the tests of each mutant, instead of all tests once."""

    def __init__(self, chosen: argparse.Namespace, imports: coverage.Coverage) -> None:
        self._chosen, self._imports = chosen, imports
        self._failed: str | None = None
        self._functions: dict[str, list[types.FunctionType]] = defaultdict(list)  # by file
        self.killed: Counter[str] = Counter()  # by room
        self.done: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = self._failed or report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._imports.stop()
        if session.testsfailed:
            raise session.Interrupted("a test module cannot be imported")
        session.config.pluginmanager.unregister(name="terminalreporter")
        import hypothesis  # not before pytest knows which modules it rewrites

        hypothesis.settings.register_profile(
            "mutate", hypothesis.settings.default, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate]
        )
        hypothesis.settings.load_profile("mutate")
        gc.unfreeze()  # tests/conftest.py freezes what is collected, which is then not among the objects
        for found in gc.get_objects():
            if isinstance(found, types.FunctionType):
                self._functions[found.__code__.co_filename].append(found)
        record = self._recorded(session.items)
        gc.freeze()  # or else a fork that collects garbage would copy all of it
        begin = time.monotonic()
        for rooms, number in _cases(self._chosen):
            if time.monotonic() - begin > self._chosen.time_limit:
                break
            one = mutant(self._chosen.seed, number, rooms)
            by = self._killer(one, rooms, number, session.items, record)
            room = one.path.split("/")[1]
            self.done[room] += 1
            self.killed[room] += by is not None
            print(f"{number} {'killed' if by else 'SURVIVED'} {one}{f' by {by}' if by else ''}", flush=True)
            if by is None:
                print(one.diff(), flush=True)
        return True

    def _recorded(self, items: Sequence[pytest.Item]) -> Record:
        package, file = _digest(), self._chosen.record
        record = Record(package=package, imported=_lines(self._imports))
        if file and file.is_file():
            kept = Record(**json.loads(file.read_text("utf-8")))
            record = kept if kept.package == package else record
        files: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if item.nodeid not in record.seconds:
                files[item.path].append(item)
        for path, tests in files.items():
            answer = _forked(functools.partial(self._run_recorded, tests))
            if answer is None or "failed" in answer:
                sys.exit(f"{path}: the tests fail without any change: {answer}")
            for test, (seconds, lines) in answer.items():
                record.seconds[test] = seconds
                for name, bits in lines.items():
                    record.lines.setdefault(name, {})[test] = bits
            if failing := [test.nodeid for test in tests if test.nodeid not in answer]:
                print("left out, for it fails without any change:", *failing, file=sys.__stderr__, flush=True)
        if file:
            file.write_text(json.dumps({name: getattr(record, name) for name in Record.__slots__}), "utf-8")
        return record

    def _run_recorded(self, items: Sequence[pytest.Item]) -> Mapping[str, object]:
        result = {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            begin, cover = _seconds(), _coverage()
            cover.start()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            cover.stop()
            result[item.nodeid] = _seconds() - begin, _lines(cover)
            if self._failed:
                del result[item.nodeid]
                self._failed = None
        return result

    def _killer(
        self, one: Mutant, rooms: Sequence[str], number: int, items: Sequence[pytest.Item], record: Record
    ) -> str | None:
        """The first test that notices a mutant; None if it survives."""
        covering = record.of(one)
        room = f"tests/unit/{one.path.split('/')[1]}/"
        near = [item for item in items if item.nodeid in covering]
        near.sort(key=lambda item: (not item.nodeid.startswith(room), record.seconds[item.nodeid]))
        # Of the others in the same files, some may see what the first one has kept.
        kept, passing = {item.path for item in near}, record.seconds.keys()
        others = [item for item in items if item.path in kept and item.nodeid in passing - covering]
        tests = [*near, *others]
        if self._chosen.each:
            sums = itertools.accumulate(record.seconds[item.nodeid] for item in tests)
            tests = [item for item, seconds in zip(tests, sums, strict=True) if seconds < _SECONDS_OF_EACH]
        if tests:
            answer = _forked(lambda: self._run_mutant(one, tests, record.seconds))
            if answer is None or answer["by"]:
                return "takes too long" if answer is None else str(answer["by"])
        is_near = not self._chosen.each or (ROOT / room).is_dir()  # all tests in a new process would take minutes
        if is_near and _bits(one.lines) & record.imported.get(one.path, 0):
            chosen = [word for name in rooms for word in ("--room", name)]
            where = [room] if self._chosen.each else self._chosen.tests
            command = [sys.executable, "-m", "tools.mutate", "--early", "--seed", str(self._chosen.seed), *chosen]
            command += ["--tests", *where, "--only", str(number)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode:
                return next(
                    (line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "import"
                )
        return None

    def _run_mutant(
        self, one: Mutant, items: Sequence[pytest.Item], seconds: Mapping[str, float]
    ) -> Mapping[str, object]:
        _replace(one, self._functions[str(ROOT / one.path)])
        _import_changed(one)  # what is imported only when it is needed
        for item, following in zip(items, [*items[1:], None], strict=True):
            most = int(_seconds() + _SLOWER * seconds.get(item.nodeid, 0) + _LEAST_SECONDS)
            resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                break
        return {"by": self._failed}


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _coverage() -> coverage.Coverage:
    cover = coverage.Coverage(data_file=None, config_file=False, include=[str(ROOT / "abiscan" / "*")], messages=False)
    cover.set_option("run:disable_warnings", ["no-data-collected"])
    return cover


def _lines(cover: coverage.Coverage) -> dict[str, int]:
    """The lines that were run, by file, as bit sets."""
    data = cover.get_data()
    inside = [file for file in data.measured_files() if Path(file).is_relative_to(ROOT)]
    return {Path(file).relative_to(ROOT).as_posix(): _bits(data.lines(file) or ()) for file in inside}


def _digest() -> str:
    """Of the package: where lines have moved, what was recorded is of no use."""
    digest = hashlib.sha256()
    for file in sorted((ROOT / "abiscan").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _forked(run: Any) -> Any:
    """What a function returns in a process of its own; None if the system ends that for the processor time it takes."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        os.close(reading)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, resource.RLIM_INFINITY))
        try:
            answer = run()
        except BaseException as error:  # noqa: BLE001 - a mutant may raise anything, in hooks of pytest as well
            answer = {"by": f"{type(error).__name__}: {error}", "failed": f"{type(error).__name__}: {error}"}
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            json.dump(answer, stream)
        os._exit(0)
    os.close(writing)
    end, parts = time.monotonic() + _WAIT, []
    while select.select([reading], [], [], max(0, end - time.monotonic()))[0] and (part := os.read(reading, 1 << 20)):
        parts.append(part)
    os.close(reading)
    waits = time.monotonic() >= end
    os.killpg(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if parts:
        return json.loads(b"".join(parts))
    if waits:
        return {"by": None, "failed": "it waits for ever"}
    return None if os.WTERMSIG(status) == signal.SIGXCPU else {"by": f"status {status}", "failed": f"status {status}"}


def _replace(one: Mutant, functions: Sequence[types.FunctionType]) -> None:
    """Give the functions of a module the code that they have in a mutant."""
    file = str(ROOT / one.path)
    before = compile((ROOT / one.path).read_text("utf-8"), file, "exec")
    new = dict(_pairs(before, compile(one.text, file, "exec")))
    for function in functions:
        code = function.__code__
        if other := new.get((code.co_name, code.co_firstlineno, code.co_code)):
            function.__code__ = other


def _pairs(before: types.CodeType, after: types.CodeType) -> Iterator[tuple[tuple[str, int, bytes], types.CodeType]]:
    """Each code inside another, by its name, place and content, and what it becomes."""
    old, new = ([one for one in code.co_consts if isinstance(one, types.CodeType)] for code in (before, after))
    for first, second in zip(old, new, strict=True):
        if first != second:
            yield (first.co_name, first.co_firstlineno, first.co_code), second
        yield from _pairs(first, second)


def _import_changed(one: Mutant) -> None:
    """Have a module be imported as it is in a mutant."""
    file, original = str(ROOT / one.path), SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> types.CodeType | None:
        return compile(one.text, file, "exec") if self.path == file else original(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def _cases(chosen: argparse.Namespace) -> Iterator[tuple[Sequence[str], int]]:
    """The mutants to make: of which rooms, and their numbers."""
    numbers = chosen.only or range(chosen.start, chosen.start + (chosen.each or chosen.count))
    rooms = chosen.room or (ROOMS if chosen.each else CORE)
    for some in [[room] for room in rooms] if chosen.each else [rooms]:
        yield from ((some, number) for number in numbers)


def main() -> int:
    """Print each mutant, and what killed it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--start", type=int, default=0, metavar="NUMBER", help="the first mutant")
    parser.add_argument("--room", choices=ROOMS, action="append", help="only mutants of this room (repeatable)")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these mutants")
    parser.add_argument("--each", type=int, metavar="COUNT", help="so many mutants of each room, and a table")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="what is to notice it")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep there which test runs which line")
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="SECONDS", help="begin none after it")
    parser.add_argument("--list", action="store_true", help="show the mutants, and test none")
    parser.add_argument("--early", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    chosen.tests = chosen.tests or (_TESTS_OF_EACH if chosen.each else _TESTS)
    if chosen.list:
        for rooms, number in _cases(chosen):
            print(number, mutant(chosen.seed, number, rooms))
        return 0
    os.chdir(ROOT)
    options = ["-q", "--no-header", "-p", "no:cacheprovider", *chosen.tests]
    if chosen.each:
        options += ["-m", "not long and not hostile"]
    if chosen.early:
        _import_changed(mutant(chosen.seed, chosen.only[0], chosen.room or CORE))
        return int(pytest.main(["-x", *options]))
    begin, imports = time.monotonic(), _coverage()
    imports.start()
    killers = _Killers(chosen, imports)
    if (status := pytest.main(options, plugins=[killers])) or not killers.done:
        return int(status)
    for room, done in sorted(killers.done.items()) if chosen.each else ():
        print(f"| {room} | {done} | {killers.killed[room] / done:.0%} |")
    killed, done, took = killers.killed.total(), killers.done.total(), time.monotonic() - begin
    print(f"seed {chosen.seed}: {killed} of {done} killed ({killed / done:.1%}) in {took:.0f} s")
    return 0 if killed / done >= (ENOUGH_OF_EACH if chosen.each else ENOUGH) else 1


if __name__ == "__main__":
    sys.exit(main())
