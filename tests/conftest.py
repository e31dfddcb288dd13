"""What all tests share.

Golden files hold what a command prints. After a change that is meant to alter it:

    pytest tests/golden --update-golden     # rewrites them; read the difference before committing it
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import itertools
import mmap
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest

from abiscan.dispatch.operators import Operators
from abiscan.inputs import memory
from abiscan.torches.operator_table import OperatorTable
from tests import groups

hypothesis.settings.register_profile("abiscan", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("abiscan")

# What a machine has of its own decides nothing: the whole suite runs far from UTC, in a locale that is not there, with
# a home that no program can make, and without what an environment or a terminal of the user tells programs.
os.environ |= {"TZ": "Pacific/Kiritimati", "LC_ALL": "xx_XX.UTF-8", "HOME": "/dev/null/home", "TERM": "xterm"}
time.tzset()
for _name in ("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
    os.environ.pop(_name, None)
os.environ.pop("PYTHONUNBUFFERED", None)
# A shell that starts the tests in the background has them ignore SIGINT, and so every process that they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Otherwise the hundreds of processes that tests start would compile the package anew, each of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_NUMBERS: Final = itertools.count()
_MUCH: Final = 64 << 20
_KEPT: Final = [0]
"""The memory that the process took when garbage was last looked for."""
SKIPS: Final = Path(__file__).with_name("skips.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--strict-skips", action="store_true", help=f"fail on a skip that {SKIPS.name} does not list")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what is printed now")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first."""
    items.sort(key=lambda item: groups.place_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Any:
    """With ``--dist=loadgroup``, a process that has nothing left to do gets the next group."""
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

    if config.getvalue("dist") != "loadgroup":
        return None

    class Groups(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
        """Forgets the groups that are done: after each message, it looks through all that it knows."""

        def _split_scope(self, nodeid: str) -> str:
            return groups.group_of(nodeid)

        def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
            super().mark_test_complete(node, item_index, duration)
            known, group = self.assigned_work[node], groups.group_of(self.registered_collections[node][item_index])
            if all(known[group].values()):
                del known[group]

    config.option.loadscopereorder = False
    return Groups(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: to look for garbage among it takes a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no collection of garbage looks through it again.

    Between two modules there is one (``give_memory_back``); in between, as little as in the commands themselves.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


def _skipped(config: pytest.Config) -> Counter[str]:
    """Why tests were skipped, and how many for each reason."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", ()) if reporter else ()
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)


def _unlisted(config: pytest.Config) -> list[str]:
    """Reasons to skip that are not on the list."""
    lines = SKIPS.read_text("utf-8").splitlines()
    return sorted(_skipped(config).keys() - {line for line in lines if not line.startswith("#")})


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name in one line what tests need and this machine lacks."""
    missing = (f"{reason.removeprefix('needs ')} ({count})" for reason, count in sorted(_skipped(config).items()))
    if line := "; ".join(missing):
        terminalreporter.write_line(f"Skipped, because this machine lacks: {line}", yellow=True)
    if config.getoption("--strict-skips") and (unlisted := _unlisted(config)):
        terminalreporter.write_line(f"Failed, since {SKIPS.name} does not list: {'; '.join(unlisted)}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``--strict-skips``, a skip that is not on the list fails the run."""
    is_controller = not hasattr(session.config, "workerinput")
    if is_controller and session.config.getoption("--strict-skips") and _unlisted(session.config):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def give_memory_back() -> None:
    """Return what is free to the system: large tables that come and go leave the heap full of holes."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # only glibc can
        ctypes.CDLL(None).malloc_trim(0)


def _resident() -> int:
    """How many bytes of memory this process takes; many where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * mmap.PAGESIZE
    except OSError:
        return sys.maxsize


@pytest.fixture(autouse=True, scope="module")
def little_memory() -> Iterator[None]:
    """Whatever runs in one process, it takes little more memory than the most expensive module.

    To look for garbage takes a quarter of a second: it is done where modules have taken something since the last time.
    """
    yield
    if _resident() - _KEPT[0] > _MUCH:
        give_memory_back()
        _KEPT[0] = _resident()


@pytest.fixture(autouse=True, scope="session")
def little_garbage() -> Iterator[None]:
    """A process of tests is always larger than one in which a command looks for garbage, a quarter of a second long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_MUCH", 8 << 30)
        yield


@pytest.fixture(autouse=True, scope="session")
def unpacked_once() -> Iterator[None]:
    """The operators of an embedded build, which every command unpacks once, are unpacked once in a process of tests."""
    unpack = OperatorTable.operators
    unpack_all = functools.lru_cache(maxsize=8)(unpack)

    def operators(table: OperatorTable, build: int, names: Collection[str] | None = None) -> Operators:
        return unpack_all(table, build) if names is None else unpack(table, build, names)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OperatorTable, "operators", operators)
        yield


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for every test, in subprocesses too; the folder is made when something is kept in it."""
    # Not mktemp, which looks through the folders of all tests before to find a number for the next.
    folder = tmp_path_factory.getbasetemp() / "caches" / str(next(_NUMBERS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def machine_of_other_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine whose pip is configured for other projects: nothing that a test makes could be installed."""
    constraints, configuration = tmp_path / "machine-constraints.txt", tmp_path / "machine-pip.conf"
    constraints.write_text("good<1\nbad<1\nplain<1\ntorch<2\nabiscan-sample<1\n", encoding="utf-8")
    settings = f"constraint = {constraints.as_uri()}\nrequire-hashes = true\ntarget = {tmp_path / 'elsewhere'}\n"
    configuration.write_text(f"[global]\n{settings}", encoding="utf-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.setenv("PIP_CONSTRAINT", constraints.as_uri())
    monkeypatch.setenv("PIP_NO_DEPS", "1")
    return monkeypatch


@pytest.fixture
def wheel_index(tmp_path: Path, machine_of_other_projects: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only one that pip knows: how the machine configures pip does not count."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith("PIP_"):
            machine_of_other_projects.delenv(name)
    machine_of_other_projects.setenv("PIP_CONFIG_FILE", os.devnull)  # instead of those of the machine and of the user
    machine_of_other_projects.setenv("PIP_NO_INDEX", "1")
    machine_of_other_projects.setenv("PIP_FIND_LINKS", folder.as_uri())  # a path would end at a space
    machine_of_other_projects.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    return folder


Golden = Callable[[Path, str], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the golden file at a path, or rewrite the file with ``--update-golden``."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path.name} is missing; pytest --update-golden writes it"
        assert text == path.read_text(encoding="utf-8")

    return compare
