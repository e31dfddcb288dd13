"""Change each room of the package in small ways, and see whether the tests of ``.ci/run`` notice.

    python -m tools.mutate                            # 8 mutants of each room, seed 0, and a table
    python -m tools.mutate --seed 3 --count 20 --room locks --time-limit 600
    python -m tools.mutate --room dispatch --only 17 --tests tests/unit/dispatch
    python -m tools.mutate --seed 3 4 --count 1 --tests tests/unit --together

A mutant is determined by the seed, its room and its number (``mutants.py``).

One process imports all and collects the tests. It first records which test runs which line, in processes that it starts
as well (``processes.py``). That takes as long as the tests, and ``--record`` keeps it for the next time. Then each
mutant is a fork, whose functions get the changed code, and which runs the tests that run the changed line until one
fails: those named after its module first, then those of its room, then the fastest files, and as many as take half a
minute. What they start imports the changed module. Where the line is run while modules are imported, a new process runs
tests of the room, too.

A mutant is killed if a test fails that passes without the change after the same tests, or takes ten times its processor
time, and ten seconds: how busy the machine is does not count. Otherwise it survived, and either a test is missing or
the change makes no difference. With ``--together``, all tests of ``.ci/run`` run once with all changes that survived
those of ``--tests``, and what fails then with each of them (``together.py``). Exits with 1 if fewer than 85 % are
killed.
"""

from __future__ import annotations

import argparse
import functools
import gc
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
from pathlib import Path
from typing import Any, Final, TypeVar

import coverage
import pytest

from tools.mutate.mutants import ROOMS, ROOT, Mutant, mutant
from tools.mutate.processes import Processes, bits, in_process, lines_of, processes
from tools.mutate.record import Record, load
from tools.mutate.together import noticed

ENOUGH: Final = 0.85
_IN_CI: Final = "not long and not hostile"
_SECONDS: Final = 30
_SAVED_EVERY: Final = 60
_STARTS: Final = 0.02  # what a test takes at least in a new process
_SLOWER: Final = 10
_LEAST_SECONDS: Final = 10  # of processor time: a test alone has to read what another one has read before, otherwise
_MEMORY: Final = 6 << 30
_WAIT: Final = 3600  # for a mutant, however busy the machine; one that waits for ever is not counted as killed
_Test = TypeVar("_Test")


class _Killers:
    """A plugin of pytest that runs the tests of each mutant, instead of all tests once."""

    def __init__(self, chosen: argparse.Namespace, imports: coverage.Coverage, started: Processes) -> None:
        self._chosen, self._imports, self._started = chosen, imports, started
        self._failed: str | None = None
        self._sound = set[str]()
        """The tests that pass without a change, at the place at which they failed with one."""
        self._functions: dict[str, list[types.FunctionType]] = defaultdict(list)  # by file
        self.killed: Counter[str] = Counter()  # by room
        self.done: Counter[str] = Counter()
        self.survivors: list[Mutant] = []

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
        record, imported = self._recorded(session.items), lines_of(self._imports.get_data())
        gc.freeze()  # or else a fork that collects garbage would copy all of it
        begin = time.monotonic()
        for seed, number, one in _mutants(self._chosen):
            if time.monotonic() - begin > self._chosen.time_limit:
                break
            is_imported = bool(bits(one.lines) & imported.get(one.path, 0))
            by, tried = self._killer(one, session.items, record, is_imported=is_imported)
            self.done[one.room] += 1
            self.killed[one.room] += by is not None
            print(f"{one.room} {seed} {number} {f'killed by {by}' if by else f'SURVIVED {tried}'}: {one}", flush=True)
            if by is None:
                self.survivors.append(one)
                print(one.diff(), flush=True)
        return True

    def _recorded(self, items: Sequence[pytest.Item]) -> Record:
        record, file = load(self._chosen.record), self._chosen.record
        files: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if item.nodeid not in record.seconds:
                files[item.path].append(item)
        saved = time.monotonic()
        for path, tests in files.items():
            answer = _forked(functools.partial(self._run_recorded, tests)) or {"failed": "takes too long"}
            if why := answer.pop("failed", None):
                print(f"left out, for it fails without any change: {path}: {why}", file=sys.__stderr__, flush=True)
                continue
            for test, (seconds, lines) in answer.items():
                record.add(test, seconds, lines)
            for test in tests:
                if test.nodeid not in answer:
                    print(f"left out, for it fails without any change: {test.nodeid}", file=sys.__stderr__, flush=True)
            if file and time.monotonic() - saved > _SAVED_EVERY:
                record.save(file)
                saved = time.monotonic()
        if file:
            record.save(file)
        return record

    def _run_recorded(self, items: Sequence[pytest.Item]) -> Mapping[str, object]:
        result = {}
        self._started.record()
        for item, following in zip(items, [*items[1:], None], strict=True):
            begin, cover = _seconds(), in_process()
            cover.start()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            cover.stop()
            seconds, lines = _seconds() - begin, lines_of(cover.get_data())
            for path, ran in self._started.lines().items():
                lines[path] = lines.get(path, 0) | ran
            if self._failed is None:
                result[item.nodeid] = seconds, lines
            self._failed = None
        return result

    def _killer(
        self, one: Mutant, items: Sequence[pytest.Item], record: Record, *, is_imported: bool
    ) -> tuple[str | None, str]:
        """The first test that notices a mutant, and how many were tried; None if it survives."""
        names = {item.nodeid for item in items}
        while True:
            tests, covered = self._tests_of(one, items, record)
            there = [test for test in record.of_room(one.room) if test in names] if is_imported else []
            again = list(_affordable(there, [max(record.seconds[test], _STARTS) for test in there]))
            tried = f"{min(len(tests), covered)} of {covered} tests"
            if not tests and not again:
                return None, tried
            by = self._failing(one, tests, record, again)
            places = {item.nodeid: place for place, item in enumerate(tests)}
            if by not in places or by in self._sound:
                return by, tried
            if self._failing(None, tests[: places[by] + 1], record) is None:
                self._sound.add(by)
                return by, tried
            del record.seconds[by]  # it fails without the change, too, where others have not run before it

    def _failing(
        self, one: Mutant | None, tests: Sequence[pytest.Item], record: Record, again: Sequence[str] = ()
    ) -> str | None:
        """The first of some tests that fails."""
        answer = _forked(functools.partial(self._run_tests, one, tests, record.seconds, again))
        return "takes too long" if answer is None else answer["by"]

    @staticmethod
    def _tests_of(one: Mutant, items: Sequence[pytest.Item], record: Record) -> tuple[list[pytest.Item], int]:
        """The tests to run on a mutant, and how many run its line: named after it, of its room, of the fast files."""
        covering = record.of(one) & record.seconds.keys()
        near = [item for item in items if item.nodeid in covering]
        room, of_file = f"tests/unit/{one.room}/", dict[Path, float]()
        for item in near:
            of_file[item.path] = of_file.get(item.path, 0) + record.seconds[item.nodeid]
        stem = Path(one.path).stem  # one of hundreds of cases is named after the rule that it is about

        def rank(item: pytest.Item) -> tuple[bool, bool, float, str]:
            return stem not in item.nodeid, not item.nodeid.startswith(room), of_file[item.path], str(item.path)

        near.sort(key=rank)
        # Of the others in the same files, some may see what the first one has kept.
        others = [item for item in items if item.path in of_file and item.nodeid in record.seconds.keys() - covering]
        tests = [*near, *others]
        return list(_affordable(tests, [record.seconds[item.nodeid] for item in tests])), len(near)

    def _run_tests(
        self, one: Mutant | None, items: Sequence[pytest.Item], seconds: Mapping[str, float], again: Sequence[str]
    ) -> Mapping[str, object]:
        """Run tests in this process; some in a new one, too, if none of them fails."""
        if one is not None:
            _replace(one, self._functions[str(ROOT / one.path)])
            self._started.change(one)
        for item, following in itertools.zip_longest(items, items[1:]):
            most = int(_seconds() + _SLOWER * seconds.get(item.nodeid, 0) + _LEAST_SECONDS)
            resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return {"by": self._failed}
        if again:
            resource.setrlimit(resource.RLIMIT_CPU, (int(_seconds()) + _SECONDS, resource.RLIM_INFINITY))
            command = [sys.executable, "-m", "pytest", "-x", *_options(again)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if done.returncode in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
                lines = done.stdout.splitlines()
                return {"by": next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "import")}
        return {"by": None}


def _affordable(tests: Iterable[_Test], seconds: Iterable[float]) -> Iterator[_Test]:
    """Yield as many tests as there is time for."""
    sums = itertools.accumulate(seconds)
    return (test for test, taken in zip(tests, sums, strict=True) if taken < _SECONDS)


def _seconds() -> float:
    """The processor time of this process and of those that it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


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


def _mutants(chosen: argparse.Namespace) -> Iterator[tuple[int, int, Mutant]]:
    """The mutants to make, with their seeds and their numbers in their rooms."""
    numbers = range(chosen.count) if chosen.only is None else chosen.only
    for room, seed, number in itertools.product(chosen.room or ROOMS, chosen.seed, numbers):
        yield seed, number, mutant(seed, number, room)


def _options(tests: Sequence[str]) -> list[str]:
    """What pytest is told: it would rewrite the package, which is a plugin of it, and mutants would not take effect."""
    return ["-q", "--no-header", "--assert=plain", "-p", "no:cacheprovider", "-m", _IN_CI, *tests]


def _together(killers: _Killers, started: Processes) -> None:
    """Ask all tests about the mutants that survived some of them."""
    by = noticed(killers.survivors, started, _options([]))
    for one in killers.survivors:
        killers.killed[one.room] += one in by
        print(f"{one.room} {f'killed by {by[one]}' if one in by else 'SURVIVED all tests'}: {one}", flush=True)


def main() -> int:
    """Print each mutant, and what killed it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--count", type=int, default=8, help="so many mutants of each room")
    parser.add_argument("--room", choices=ROOMS, action="append", help="only mutants of this room (repeatable)")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these mutants")
    parser.add_argument("--tests", nargs="+", metavar="PATH", default=["tests"], help="what is to notice it")
    parser.add_argument("--together", action="store_true", help="then ask all tests about what survived those")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep there which test runs which line")
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="SECONDS", help="begin none after it")
    parser.add_argument("--list", action="store_true", help="show the mutants, and test none")
    chosen = parser.parse_args()
    if chosen.list:
        for seed, number, one in _mutants(chosen):
            print(seed, number, one)
        return 0
    os.chdir(ROOT)
    begin, imports = time.monotonic(), in_process()
    imports.start()
    with processes() as started:
        killers = _Killers(chosen, imports, started)
        status = pytest.main(_options(chosen.tests), plugins=[killers])
        if chosen.together and killers.survivors:
            _together(killers, started)
    if status or not killers.done:
        return int(status)
    for room, done in sorted(killers.done.items()):
        print(f"| {room} | {done} | {killers.killed[room] / done:.0%} |")
    killed, done, took = killers.killed.total(), killers.done.total(), time.monotonic() - begin
    print(f"seed {' '.join(map(str, chosen.seed))}: {killed} of {done} killed ({killed / done:.1%}) in {took:.0f} s")
    return 0 if killed / done >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
