"""What the processes that tests start have to do with a mutant: they run it, or write down which lines they run.

Python runs the line of a ``.pth`` file when it starts, whatever its environment and options are. A process is one of a
test if the tests of the mutant run in one of its ancestors.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import sysconfig
import tempfile
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Final

import coverage

from tools.mutate.mutants import ROOT, Mutant

_INCLUDED: Final = str(ROOT / "abiscan" / "*")
_PTH: Final = "import os; start = {start!r}; os.path.exists(start) and exec(open(start).read(), {{}})\n"
_START: Final = """
import os

def parent(pid):
    with open(f"/proc/{pid}/stat", errors="replace") as stream:
        return int(stream.read().rpartition(")")[2].split()[1])

def begin():
    pid = os.getpid()
    while pid > 1:
        pid = parent(pid)
        if os.path.exists(f"{folder}/recorded.{pid}"):
            try:
                return record()
            except FileNotFoundError:  # the current folder, which coverage asks for, is gone
                return
        if os.path.exists(f"{folder}/changed.{pid}"):
            return change(f"{folder}/changed.{pid}")

def record():
    import atexit, coverage, fcntl, json
    # It is open before the process gives up writing to files, and every process adds a line to it. Its number is none
    # of those of standard streams, which may be closed.
    opened = os.open(f"{folder}/lines", os.O_WRONLY | os.O_APPEND)
    lines = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(opened)
    cover = coverage.Coverage(data_file=None, config_file=False, include=[included], messages=False)
    cover.set_option("run:disable_warnings", ["no-data-collected", "module-not-imported", "already-imported"])
    cover.start()
    end = os._exit

    def save():
        cover.stop()
        data = cover.get_data()
        written = json.dumps({file: data.lines(file) for file in data.measured_files()})
        os.write(lines, written.encode() + b"\\n")

    def save_and_end(code):
        save()
        end(code)

    atexit.register(save)
    os._exit = save_and_end

def change(path):
    import marshal
    from _frozen_importlib_external import SourceFileLoader
    with open(path, "rb") as stream:
        texts = marshal.load(stream)
    original = SourceFileLoader.get_code
    def get_code(self, fullname):
        file = self.path
        return compile(texts[file], file, "exec") if file in texts else original(self, fullname)
    SourceFileLoader.get_code = get_code

begin()
"""


class Processes:
    """The processes that begin while tests run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "start.py").write_text(f"folder, included = {str(folder)!r}, {_INCLUDED!r}\n{_START}", "utf-8")
        self._lines = folder / "lines"
        self._lines.touch()

    def record(self) -> None:
        """Have those that this process starts write down which lines they run."""
        (self._folder / f"recorded.{os.getpid()}").touch()

    def lines(self) -> dict[str, int]:
        """The lines that they have run since the last time, by file, as bit sets."""
        result: dict[str, int] = defaultdict(int)
        for written in self._lines.read_text("utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # of a process that may not write more
                for file, lines in json.loads(written).items():
                    result[Path(file).relative_to(ROOT).as_posix()] |= bits(lines)
        os.truncate(self._lines, 0)
        return result

    @contextlib.contextmanager
    def changed(self, mutants: Iterable[Mutant]) -> Iterator[None]:
        """Have those that this process starts in the meantime import changed modules."""
        path = self._changed({str(ROOT / one.path): one.text for one in mutants})
        yield
        path.unlink()

    def _changed(self, texts: dict[str, str]) -> Path:
        path = self._folder / f"changed.{os.getpid()}"
        path.write_bytes(marshal.dumps(texts))
        return path

    def change(self, one: Mutant) -> None:
        """Have this process, and those that it starts, import a changed module."""
        file = str(ROOT / one.path)
        self._changed({file: one.text})
        original = SourceFileLoader.get_code

        def get_code(self: SourceFileLoader, fullname: str) -> types.CodeType | None:
            return compile(one.text, file, "exec") if self.path == file else original(self, fullname)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


@contextlib.contextmanager
def processes() -> Iterator[Processes]:
    """Watch the processes that this Python starts from now on."""
    with tempfile.TemporaryDirectory() as folder:
        pth = Path(sysconfig.get_path("purelib"), f"mutate_{os.getpid()}.pth")
        pth.write_text(_PTH.format(start=f"{folder}/start.py"), "utf-8")
        try:
            yield Processes(Path(folder))
        finally:
            pth.unlink()


def in_process() -> coverage.Coverage:
    """What records the lines that this process runs."""
    cover = coverage.Coverage(data_file=None, config_file=False, include=[_INCLUDED], messages=False)
    cover.set_option("run:disable_warnings", ["no-data-collected"])
    return cover


def lines_of(data: coverage.CoverageData) -> dict[str, int]:
    """The lines that were run, by file, as bit sets."""
    inside = [file for file in data.measured_files() if Path(file).is_relative_to(ROOT)]
    return {Path(file).relative_to(ROOT).as_posix(): bits(data.lines(file) or ()) for file in inside}


def bits(lines: Iterable[int]) -> int:
    """A bit set of numbers."""
    return sum(1 << line for line in set(lines))
