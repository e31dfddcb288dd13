"""The text of a lock as TOML, within the size that locks have."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from abiscan.errors import InputError
from abiscan.inputs import observed_fs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST: Final = 64 << 20
AGAIN: Final = "lock the project again"


def read_text(path: Path) -> str:
    """Return the text of a lock.

    :raises InputError: it cannot be read, or is larger than any lock
    """
    try:
        with observed_fs.open_file(path) as stream:
            content: bytes = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise InputError(str(path), problem) from error
    if len(content) > LARGEST:
        raise InputError(str(path), f"is larger than {LARGEST >> 20} MiB, which is too large for a lock", AGAIN)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(str(path), "is not UTF-8 text", AGAIN) from error


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a lock in TOML has.

    :raises InputError: it cannot be read
    """
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = "too many brackets" if isinstance(error, RecursionError) else str(error)
        raise InputError(str(path), f"is not valid TOML, or is truncated: {reason}", AGAIN) from error


def read_project(lock: Path) -> dict[str, Any]:
    """Return what the ``pyproject.toml`` next to a lock has, which says what locks leave out; nothing without one."""
    path = lock.parent / "pyproject.toml"
    return read_toml(path) if observed_fs.is_file(path) else {}


def read_versioned(path: Path, kind: str, key: str, known: str, fix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a lock in TOML has, and its metadata.

    :param kind: what such a lock is called: the file may have another name
    :param key: that of the version in the metadata
    :param known: the major version that is known: ``2``
    :param fix: how to make one of that version
    :raises InputError: it cannot be read, or is of another version
    """
    contents = read_toml(path)
    metadata = table(contents.get("metadata"), str(path), "metadata")
    version = str(metadata.get(key))
    if not version.startswith(f"{known}."):
        problem = f"is a lock of version {version}, and only version {known} of {kind} is known"
        raise InputError(str(path), problem, fix)
    return contents, metadata


def tables(value: object, subject: str, name: str) -> list[dict[str, Any]]:
    """Return a list of tables, the empty one where there is none.

    :raises InputError: it is something else
    """
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError(subject, f"has no tables in {name}", AGAIN)
    return value


def table(value: object, subject: str, name: str) -> dict[str, Any]:
    """Return a table, the empty one where there is none.

    :raises InputError: it is something else
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(subject, f"has no table in {name}", AGAIN)
    return value
