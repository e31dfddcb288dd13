"""Answers that are kept: the result of a command, with what the run that computed it looked at; and what is in a file.

An answer is given again without looking at anything a second time, as long as the question is the same, abiscan is the
same, and everything on the record of that run is still as it was: see ``observed_fs``. A target that was replaced by
a file with the same bytes, as by another download of the same wheel, is still as it was.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from abiscan import release_data
from abiscan.cache import computed
from abiscan.inputs import observed_fs, result_codec, tracing

_Answer = TypeVar("_Answer")

_LARGEST_HASHED: Final = 1 << 30
"""A target beyond this size, as a model with weights may be, counts as another one if it was replaced."""

_READERS: Final = ("capstone-", "icicle_emu-", "lief-", "packaging-")
"""The packages that decide what abiscan reads in a file, by the names of their metadata."""


class _Kept(Struct, frozen=True, kw_only=True):
    """An answer that is kept.

    :ivar seen: what was looked at for it; None if that has changed meanwhile, so that it holds for this run alone
    :ivar targets: the files that may be replaced by others with the same bytes
    :ivar replaced: whether that has happened since it was written
    """

    result: Any
    seen: dict[str, dict[str, observed_fs.Seen]] | None
    targets: Sequence[str]
    replaced: bool = False


def answer(
    folder: Path,
    question: Sequence[object],
    find: Callable[[], _Answer],
    targets: Sequence[str],
    *,
    passing: Path | None = None,
) -> _Answer:
    """Answer a question: with what an earlier run has kept, if it still holds, else with what ``find`` returns.

    :param folder: where answers are kept
    :param question: everything that decides on the answer, except for what is looked at on this machine
    :param targets: what the question is about: files of which may be replaced by others with the same bytes
    :param passing: a folder of this run, all of whose contents follow from the question
    """
    if tracing.is_on():  # a trace shows the decisions, so they have to be made
        return find()

    def find_answer() -> _Kept:
        with observed_fs.record_observations() as record:
            result = find()
        if passing is not None:
            record.leave_out(str(passing))
        # An answer is kept only if nothing that the run looked at has changed in the meantime.
        return _Kept(result=result, seen=record.seen if record.still_holds() else None, targets=targets)

    # The current folder decides what a relative path means, and the rest what is installed.
    identity = json.dumps([_fingerprint_reader(), observed_fs.current_folder(), sys.path, sys.executable, *question])
    kept = computed.get_or_compute(folder, _RUN_ANSWERS, identity, find_answer)
    if kept.replaced:
        computed.keep_value(folder, _RUN_ANSWERS, identity, kept)
    observed_fs.add_observations(kept.seen or {})
    result: _Answer = kept.result
    return result


def answer_by_content(folder: Path, content: str, question: Sequence[object], find: Callable[[], _Answer]) -> _Answer:
    """Answer a question about the bytes of one file, wherever it is.

    The answer is the one kept from an earlier run, or else what ``find`` returns, which depends on nothing else.

    :param folder: where answers are kept
    :param content: what no other bytes have, such as their hash
    :param question: plain values
    """
    if tracing.is_on():
        return find()
    identity = json.dumps([_fingerprint_reader(), content, *question])
    value: _Answer = computed.get_or_compute(folder, _CONTENT_ANSWERS, identity, find)
    return value


class AnswersAboutOne(Generic[_Answer]):
    """The answers to many questions about one thing, kept together: they look at the same files.

    :param folder: where answers are kept
    :param subject: everything that decides on the answers, except for what is looked at on this machine
    """

    def __init__(self, folder: Path, subject: Sequence[object]) -> None:
        self._folder, self._is_kept = folder, not tracing.is_on()
        self._identity = json.dumps([_fingerprint_reader(), observed_fs.current_folder(), sys.path, *subject])
        empty = _Kept(result={}, seen={}, targets=())
        kept = computed.find(folder, _RUN_ANSWERS, self._identity, empty) if self._is_kept else empty
        self._answers: dict[str, _Answer] = dict(kept.result)
        self._lasting: dict[str, _Answer] = dict(kept.result)
        self._seen = dict(kept.seen or {})
        self._records: list[observed_fs.Record] = []

    def answer(self, question: str, find: Callable[[], tuple[_Answer, bool]]) -> _Answer:
        """Answer a question.

        :param find: returns the answer, and whether it holds for other runs, too
        """
        if question not in self._answers:
            with observed_fs.record_observations() as record:
                self._answers[question], lasts = find()
            self._records.append(record)
            self._seen = {sense: {**seen, **self._seen.get(sense, {})} for sense, seen in record.seen.items()}
            if lasts:
                self._lasting[question] = self._answers[question]
        observed_fs.add_observations(self._seen)
        return self._answers[question]

    def forget_passing(self) -> None:
        """Forget the answers that do not hold for other runs."""
        self._answers = dict(self._lasting)

    def keep(self) -> None:
        """Keep the answers that were found."""
        records, self._records = self._records, []
        is_new = self._is_kept and records and all(record.shows_changes for record in records)
        if is_new and observed_fs.is_unchanged(self._seen):  # all at once: they have looked at the same
            kept = _Kept(result=self._lasting, seen=self._seen, targets=())
            computed.keep_value(self._folder, _RUN_ANSWERS, self._identity, kept)


def _encode_kept(kept: _Kept) -> bytes:
    """Return what was seen and the hashes of the targets, on one line, then the answer.

    :raises TypeError: the answer holds for this run alone
    """
    if kept.seen is None:
        raise TypeError("what was looked at has changed")
    paths = [name for name in map(str, map(Path, kept.targets)) if isinstance(kept.seen["file"].get(name), list)]
    hashed = [name for name in paths if observed_fs.is_file(name) and Path(name).stat().st_size <= _LARGEST_HASHED]
    head = json.dumps([kept.seen, {name: observed_fs.hash_file(name) for name in hashed}])
    return f"{head}\n{result_codec.encode_result(kept.result)}".encode()


def _decode_kept(content: bytes) -> _Kept:
    """Return an answer that still holds.

    :raises ValueError: (or another built-in error) it does not, or is damaged
    """
    head, _, text = content.partition(b"\n")
    seen, contents = json.loads(head)
    replaced = _find_replaced(seen, contents)
    seen["file"].update(replaced)
    return _Kept(
        result=result_codec.decode_result(text.decode()), seen=seen, targets=tuple(contents), replaced=bool(replaced)
    )


def _find_replaced(seen: dict[str, dict[str, Any]], contents: Mapping[str, str]) -> dict[str, observed_fs.Seen]:
    """Find the files that were replaced by others with the same bytes; return their present status.

    :raises ValueError: something else has changed
    """
    now = {path: observed_fs.status_of(path) for path in contents}
    replaced = {path: status for path, status in now.items() if path in seen["file"] and seen["file"][path] != status}
    if any(observed_fs.hash_file(path) != contents[path] for path in replaced):
        raise ValueError("a target has changed")
    # Everything else on the record must be as it was, with the files that were replaced taken for the old ones.
    if not observed_fs.is_unchanged({**seen, "file": {**seen["file"], **replaced}}):
        raise ValueError("something else has changed")
    return replaced


@functools.cache
def _fingerprint_reader() -> str:
    """Return a fingerprint of abiscan, its data and its parsers: a change of one of their files changes it."""
    package = Path(__file__).parent.parent
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE")
    user = os.geteuid() if hasattr(os, "geteuid") else None  # another user who shares the folder may see other files
    here = f"{sys.version} {machine} {user} {package}"
    digest = hashlib.sha256(here.encode("utf-8", "surrogateescape"))
    # Sizes and times instead of contents: hashing all data would take longer than most answers.
    walked = (os.walk(folder) for folder in (package, release_data.update_folder()))
    for folder, subfolders, names in itertools.chain.from_iterable(walked):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        for name in sorted(names):
            status = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - hundreds of them
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    for folder in sys.path:
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(folder) if name.lower().startswith(_READERS)]  # noqa: PTH208
            digest.update(f"{sorted(names)}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


_RUN_ANSWERS: Final = computed.KeptKind(suffix=".answer", version=3, encode=_encode_kept, decode=_decode_kept)
_CONTENT_ANSWERS: Final[computed.KeptKind[Any]] = computed.KeptKind(
    suffix=".content",
    version=4,
    encode=lambda value: result_codec.encode_result(value).encode(),
    decode=lambda content: result_codec.decode_result(content.decode()),
)
