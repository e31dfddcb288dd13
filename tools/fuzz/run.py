"""Runs cases in a process that is forked for them, and finds out which ones escape.

An escape is a traceback, an internal error, an unknown exit code, a document that is not JSON, a signal, more than the
limit of time or memory, or a file that is left behind.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from abiscan.binary.elf import Machine
from abiscan.cli import main
from abiscan.dispatch.operators import Operators
from abiscan.errors import AbiscanError
from abiscan.torches import embedded_operators
from tools.fuzz import caches, elf, gpu, http, images, models, packages, sources, texts, wheels
from tools.fuzz.model import Case, Maker

KINDS: Final[Mapping[str, tuple[int, Maker]]] = {
    "elf": (26, elf.case),
    "image": (6, images.case),
    "torch": (4, elf.torch_case),
    "wheel": (12, wheels.case),
    "sources": (10, sources.case),
    "gpu": (8, gpu.case),
    "http": (2, http.case),
    "page": (4, caches.page),
    "metadata": (4, caches.metadata),
    "cache": (2, caches.case),
    "parts": (2, caches.parts),
    "conda": (4, wheels.conda),
    "schema": (6, texts.schema),
    "baseline": (5, texts.baseline),
    "configuration": (5, texts.configuration),
    "workload": (4, texts.workload),
    "model": (6, models.case),
    "installed": (4, packages.installed),
    "requirements": (2, packages.requirements),
}
"""What is made, and how often in a hundred."""

CPU_SECONDS: Final = 20
"""The most processor time for a case: ten times what the slowest sample takes."""

_WALL_SECONDS: Final = 300  # for one that waits without end
_MEMORY: Final = 4 << 30
_PER_PROCESS: Final = 400  # cases; what commands keep in memory for their lifetime is then given back
_TORCHES: Final = 4
_EXIT_CODES: Final = {0, 1, 2, 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape:
    """A case that ended otherwise than it should."""

    number: int
    kind: str
    how: str


def keep_torches() -> None:
    """Read the operators of each torch once for all cases: the torches are those of the package, and not hostile."""
    read = embedded_operators.operators
    read_whole = functools.lru_cache(_TORCHES)(read)

    def operators(text: str, machine: Machine, names: Collection[str] | None = None) -> Operators:
        return read_whole(text, machine) if names is None else read(text, machine, names)

    embedded_operators.operators = operators


def made(seed: int, number: int, kind: str | None, folder: Path) -> tuple[str, Case]:
    """A case by its number, its input written into a folder."""
    random = Random(f"{seed} {number}")
    name = random.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    name = kind or name
    return name, KINDS[name][1](random, folder)


def escapes(seed: int, numbers: Iterable[int], kind: str | None, said: Callable[[], None]) -> Iterator[Escape]:
    """The cases that escape.

    :param said: is called after each case
    """
    pending = list(numbers)
    while pending:
        done, escape = _batch(seed, pending[:_PER_PROCESS], kind, said)
        if escape:
            yield from escape
        pending = pending[done:]


def _batch(seed: int, numbers: list[int], kind: str | None, said: Callable[[], None]) -> tuple[int, list[Escape]]:
    """Run cases in one process until it dies; how many were run, and what escaped."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            os.close(reading)
            _work(seed, numbers, kind, Path(folder), writing)
        os.close(writing)
        found: list[Escape] = []
        finished, current = 0, ""
        with os.fdopen(reading, "rb", buffering=0) as stream:
            for line in _lines(stream, child):
                if line.get("begins"):
                    current = line["begins"]
                    continue
                said()
                if line["how"]:
                    found.append(Escape(number=numbers[finished], kind=current, how=line["how"]))
                finished += 1
        if finished < len(numbers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                _, status = os.waitpid(child, 0)
            how = (
                "took no processor time, and no end"
                if not os.WIFSIGNALED(status) or os.WTERMSIG(status) == signal.SIGKILL
                else ""
            )
            name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else str(status)
            how = f"more than {CPU_SECONDS} s of processor time" if name == "SIGPROF" else how or f"killed by {name}"
            found.append(Escape(number=numbers[finished], kind=current, how=how))
            finished += 1
        else:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
        return finished, found


def _lines(stream: io.RawIOBase | Any, child: int) -> Iterator[dict[str, Any]]:
    """What the process says, until it ends, or waits for something that does not come."""
    rest = b""
    while True:
        while not select.select([stream], [], [], _WALL_SECONDS)[0]:
            state = Path(f"/proc/{child}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
            if state != "R":  # one that is ready to run has a limit of its own, however long a busy machine takes
                return
        part = stream.read(1 << 16)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        yield from map(json.loads, lines)


def _work(seed: int, numbers: list[int], kind: str | None, folder: Path, writing: int) -> None:
    """The process: never returns."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        temporary = folder / "tmp"
        temporary.mkdir()
        tempfile.tempdir = str(temporary)
        os.environ |= {"TMPDIR": str(temporary), "XDG_CACHE_HOME": str(folder / "cache")}
        for number in numbers:
            inputs = folder / "in"
            inputs.mkdir()
            os.chdir(inputs)
            name, case = made(seed, number, kind, inputs)
            os.write(writing, json.dumps({"begins": name}).encode() + b"\n")
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            how = _escaped(case, inputs, temporary)
            signal.setitimer(signal.ITIMER_PROF, 0)
            os.write(writing, json.dumps({"how": how}).encode() + b"\n")
            os.chdir(folder)
            shutil.rmtree(inputs)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a mistake of the fuzzer itself; the process must not go on as its parent
        traceback.print_exc()
        os._exit(70)


def _escaped(case: Case, folder: Path, temporary: Path) -> str:
    """Run a case; how it escapes, empty if it does not."""
    before = _content(folder)
    out, err = io.StringIO(), io.StringIO()
    how = ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            if case.call is not None:
                with contextlib.suppress(AbiscanError):
                    case.call()
            else:
                main.main(args=list(case.words), prog_name="abiscan", standalone_mode=True)
        except SystemExit as end:
            how = _judged(case, end.code, out.getvalue(), err.getvalue())
            if how and end.__context__ is not None:  # what the command reported in a line
                how = "".join(traceback.format_exception(end.__context__))
        except BaseException:  # noqa: BLE001 - whatever it is, it escaped
            how = traceback.format_exc()
    if not how and not case.may_write and _content(folder) != before:
        how = f"the folder of the input has changed: {sorted(_content(folder) ^ before)}"
    if not how and (left := sorted(temporary.iterdir())):
        how = f"left behind: {left}"
    return how


def _judged(case: Case, code: object, out: str, err: str) -> str:
    if code not in _EXIT_CODES:
        return f"exit code {code}: {err}"
    if "internal error" in err or "Traceback" in err:
        return err
    if code == 2 and not err:
        return "exit code 2 without a message"
    if code in (0, 1) and "json" in case.words:
        try:
            json.loads(out)
        except ValueError as error:
            return f"not JSON: {error}"
    return ""


def _content(folder: Path) -> set[tuple[str, int]]:
    return {(str(path), path.lstat().st_size) for path in folder.rglob("*")}
