"""The pipeline behind ``abiscan survey``: thousands of targets, each by itself, on one torch or several."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Final, Protocol

import msgspec.structs
from msgspec import Struct

from abiscan.cache.result_cache import answer
from abiscan.errors import InputError, StoppedError
from abiscan.index.named import fetch_target
from abiscan.inputs import observed_fs
from abiscan.inputs.files import DiskFile
from abiscan.inputs.index_options import FROM_SETTINGS
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.packages import FetchedSource, FetchedWheel
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.results.check import Report
from abiscan.results.survey import SurveyResult
from abiscan.results.survey_file import SurveyFile
from abiscan.results.unchecked import Unchecked
from abiscan.rules import RULES
from abiscan.torches.torch import TorchChoice, TorchOf, drop_duplicates, torch_choices
from abiscan.verdict.torch_set import CheckRequest, TorchSet

_ATTEMPTS: Final = 2


class SurveyTorches(Struct, frozen=True, kw_only=True):
    """The torches of a survey as the user named them, none for that of the environment, and the environment."""

    specs: tuple[str, ...]
    python: str | None

    def list_choices(self) -> Sequence[TorchChoice]:
        """Return the torches, each once.

        :raises InputError: there is no such torch
        """
        if not self.specs:
            return [TorchOf(self.python)]
        return drop_duplicates(choice for spec in self.specs for choice in torch_choices(spec))

    def list_names(self) -> tuple[str, ...]:
        """Return how the results name them.

        :raises AbiscanError: one cannot be read
        """
        return TorchSet(CheckRequest(targets=(), torches=tuple(self.list_choices())), Session.of_user()).names


class SurveyTask(Struct, frozen=True, kw_only=True):
    """One target on some of the torches of a survey.

    ``sha256`` is that of a file if it is known, ``content`` its bytes for a worker that cannot read the file.
    """

    target: str
    torches: SurveyTorches
    names: tuple[str, ...]
    sha256: str | None = None
    content: bytes | None = None


class Surveyed(Struct, frozen=True, kw_only=True):
    """The lines of JSON about one target; ``absent`` means that the worker has no such file, so there are none."""

    lines: tuple[str, ...] = ()
    absent: bool = False


class Workers(Protocol):
    """Processes that each check one target at a time."""

    @property
    def slots(self) -> int:
        """The number of tasks to keep in work."""

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """The errors of a task whose process ended."""

    @property
    def reads_here(self) -> bool:
        """Whether they read the files of this machine."""

    def submit_task(self, task: SurveyTask, slot: int) -> Future[Surveyed]:
        """Begin to work on a task, in a slot that has no other."""

    def renew_slot(self, slot: int) -> None:
        """Make a slot usable again, after its process ended."""


def run_survey(
    targets: Sequence[str],
    torches: SurveyTorches,
    names: tuple[str, ...],
    workers: Workers,
    answers: SurveyFile,
    progress: Callable[[int, int], None],
) -> None:
    """Find the answers that are missing from a file of answers, and put all of them in order.

    :param names: those of the torches
    :param progress: is called with the number of targets that are done, and of all
    """
    done = itertools.count(1)

    # Lazily: with a hundred thousand targets, the first answer does not wait for the last hash.
    def list_unanswered() -> Iterator[SurveyTask]:
        for target in targets:
            if task := _remaining_task(SurveyTask(target=target, torches=torches, names=names), answers):
                yield task
            else:
                progress(next(done), len(targets))

    for lines in _answer_tasks(list_unanswered(), workers):
        answers.add_lines(lines)
        progress(next(done), len(targets))
    answers.sort_answers(targets, names)


def _remaining_task(task: SurveyTask, answers: SurveyFile) -> SurveyTask | None:
    """Return what is left of a task: the torches without an answer for the file as it is now; None if nothing is."""
    attributes = {
        name: answers.answered_hash(task.target, name) for name in task.names if answers.has_answer(task.target, name)
    }
    if not attributes:
        return task
    sha256 = _find_sha256(task.target)
    # An answer holds as long as the file has the hash in it. A target without one, such as an installed package, is
    # not asked again.
    left = tuple(name for name in task.names if name not in attributes or sha256 not in (None, attributes[name]))
    return msgspec.structs.replace(task, names=left, sha256=sha256) if left else None


def _answer_tasks(tasks: Iterable[SurveyTask], workers: Workers) -> Iterator[tuple[str, ...]]:
    """Yield the lines about each target, as soon as it is checked.

    A target whose process ends is tried once more, since something else may have ended it; after that, its lines say
    so.
    """
    queued, free = iter(tasks), list(range(workers.slots))
    working: dict[Future[Surveyed], tuple[SurveyTask, int, int]] = {}

    def begin_task(task: SurveyTask, slot: int, attempt: int) -> None:
        working[workers.submit_task(task, slot)] = task, slot, attempt

    while True:
        while free and (task := next(queued, None)):
            begin_task(_address_task(task, workers), free.pop(), 1)
        if not working:
            return
        # In the order of completion: the file of answers is put in order at the very end.
        for future in wait(working, return_when=FIRST_COMPLETED).done:
            task, slot, attempt = working.pop(future)
            try:
                surveyed = future.result()
            except workers.lost:
                workers.renew_slot(slot)
                if attempt < _ATTEMPTS:
                    begin_task(task, slot, attempt + 1)
                    continue
                surveyed = Surveyed(lines=tuple(_lost_lines(task)))
            # Only now are the bytes sent, to a worker without the file: most clusters share a file system.
            if surveyed.absent:
                begin_task(msgspec.structs.replace(task, content=observed_fs.read_file(task.target)), slot, attempt)
                continue
            free.append(slot)
            yield surveyed.lines


def check_task(task: SurveyTask) -> Surveyed:
    """Return the lines about one target, checked in this process."""
    if task.content is None and task.sha256 and _find_sha256(task.target) != task.sha256:
        return Surveyed(absent=True)
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        try:
            with turn_of(task.target):
                source = _make_source(task, Path(folder))
                path = source.path if isinstance(source, FetchedWheel | FetchedSource) else source
                sha256 = task.sha256 or _find_sha256(str(path))
        except InputError as error:
            return Surveyed(lines=tuple(_unchecked_line(task, name, error) for name in task.names))
        session = Session.of_user()

        def find_answers() -> tuple[str, ...]:
            torches = tuple(task.torches.list_choices())
            torch_set = TorchSet(CheckRequest(targets=(source,), torches=torches, rules=tuple(RULES)), session)
            return tuple(_result_line(task, torch_set, source, name, sha256) for name in task.names)

        if not isinstance(source, Path) or task.content is not None:  # in a folder that is gone afterwards
            return Surveyed(lines=find_answers())
        question = ["survey", task.target, list(task.torches.specs), task.torches.python, list(task.names)]
        return Surveyed(lines=answer(session.folder, question, find_answers, [task.target]))


def _address_task(task: SurveyTask, workers: Workers) -> SurveyTask:
    """Return the task as workers need it: on other machines, a file is known by its content."""
    return (
        task if workers.reads_here else msgspec.structs.replace(task, sha256=task.sha256 or _find_sha256(task.target))
    )


def _make_source(task: SurveyTask, folder: Path) -> Source:
    if task.content is None:
        return fetch_target(task.target, folder, task.torches.python, FROM_SETTINGS)
    path = folder / Path(task.target).name
    path.write_bytes(task.content)
    return path


def _find_sha256(path: str) -> str | None:
    """Return that of a file; None if it is no file, or cannot be read."""
    try:
        return DiskFile(Path(path)).hash_content()
    except (InputError, ValueError):
        return None


def _result_line(task: SurveyTask, torch_set: TorchSet, source: Source, name: str, sha256: str | None) -> str:
    try:
        with turn_of(task.target):
            results = torch_set.check(source, name)
            package = torch_set.package(source, name, results)
            if package is None:
                torch_set.target(source, name).target.require_extensions()
    except InputError as error:
        return _unchecked_line(task, name, error, sha256)
    report = Report(
        # The name as the user wrote it, and not the path of a temporary folder on some worker.
        results=tuple(msgspec.structs.replace(result, target=task.target) for result in results),
        packages=(msgspec.structs.replace(package, target=task.target),) if package else (),
    )
    return _render_line(task, name, report, sha256)


def _unchecked_line(task: SurveyTask, name: str, error: InputError, sha256: str | None = None) -> str:
    # The subject may be a file in a temporary folder, under whose name nobody knows the target.
    unchecked = Unchecked.of(error.subject, error)
    report = Report(results=(), unchecked=(msgspec.structs.replace(unchecked, target=task.target),))
    return _render_line(task, name, report, sha256)


def _lost_lines(task: SurveyTask) -> Iterator[str]:
    problem = "the process that read it ended, twice"
    fix = f"run abiscan check {task.target}"
    return (_unchecked_line(task, name, StoppedError(task.target, problem, fix), task.sha256) for name in task.names)


def _render_line(task: SurveyTask, name: str, report: Report, sha256: str | None) -> str:
    return SurveyResult(target=task.target, sha256=sha256, torch=name, report=report).to_line()
