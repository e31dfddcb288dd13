"""The targets of a survey: thousands of names, from folders, from lists, or one by one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.addresses import without_credentials
from abiscan.inputs.files import check_existence
from abiscan.inputs.kinds import may_be_package

STDIN: Final = "-"
"""What users write for a list of targets on stdin."""

_LIST: Final = ".txt"


def target_names(words: Sequence[str]) -> Iterator[str]:
    """Yield the targets that words stand for, in order, each once.

    A folder stands for the wheels in it, at any depth, or for itself if there are none; a ``.txt`` file, or ``-`` for
    stdin, stands for the targets that it lists, one in each line. Empty lines, and those that begin with ``#``, do not
    count.

    :raises InputError: a folder or a list cannot be read
    """
    seen: set[str] = set()
    for word in words:
        for name in _read_list(word) if _is_list(word) else _expand_target(word):
            if name not in seen:
                seen.add(name)
                yield name


def _is_list(word: str) -> bool:
    return word == STDIN or (word.endswith(_LIST) and Path(word).is_file())


def _read_list(word: str) -> Iterator[str]:
    try:
        lines = sys.stdin.read() if word == STDIN else observed_fs.read_file(word).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InputError(
            word, f"the list of targets cannot be read: {problem}", "write one target in each line"
        ) from error
    for line in lines.splitlines():
        name = line.strip()
        if name and not name.startswith("#"):
            yield from _expand_target(name)


def _expand_target(word: str) -> Iterator[str]:
    """Yield the wheels below a folder, by folder and name; for anything else, and for a folder without wheels,
    itself.
    """
    if "://" in word:
        yield without_credentials(word)  # the answers name it, and are kept
        return
    path = Path(word)
    if not (check_existence(path) and path.is_dir()):
        yield word
        return
    result = False
    # os.walk would silently skip a folder that cannot be read, and a survey would miss its wheels.
    for folder, subfolders, names in os.walk(path, onerror=_raise_unreadable):
        subfolders.sort()
        for name in sorted(names):
            if may_be_package(name):
                result = True
                yield os.path.join(folder, name)  # noqa: PTH118 - thousands of times
    if not result:
        yield word


def _raise_unreadable(error: OSError) -> None:
    raise InputError(str(error.filename), f"the folder cannot be read: {error.strerror}") from error
