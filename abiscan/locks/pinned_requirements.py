"""A file of requirements as a lock: each of them is one version (``==``) or one file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from abiscan.errors import InputError
from abiscan.inputs.requirement import unreadable_requirement
from abiscan.locks.listed import ListedLock, ListEntry
from abiscan.locks.model import FromWhere, LockedFile, LockedPackage, require_few, stated_hash
from abiscan.locks.toml_file import read_text
from abiscan.regex import regex

_COMMENT: Final = regex(r"(^|\s)#.*$")
_HASH: Final = regex(r"\s--hash[= ]sha256:(?P<digits>\S+)")
_OPTIONS: Final = regex(r"\s--\S+.*$")
_NESTED: Final = regex(r"(?:-r|--requirement)(?:\s+|\s*=\s*|(?=\S))(?P<file>\S+)")
_EDITABLE: Final = ("-e ", "--editable ", "--editable=")
_MAIN_INDEX: Final = regex(r"(?:-i|--index-url)(?:\s+|\s*=\s*)(?P<url>\S+)")
_PIN: Final = "pin it: uv pip compile, or pip-compile, writes a file of exact versions"


def read_pinned(path: Path) -> ListedLock:
    """Read it, with the files that it includes.

    :raises InputError: it cannot be read, or something in it is not pinned
    """
    entries = tuple(_pinned_entries(path, (), None))
    require_few(entries, str(path))
    # With hashes, pip wants one for everything that it installs.
    return ListedLock(path=path, entries=entries, is_complete=all(item.package.hashes for item in entries))


def _pinned_entries(path: Path, above: tuple[Path, ...], index: str | None) -> Iterator[ListEntry]:
    if path.resolve() in above:
        raise InputError(str(path), "includes itself")
    text = re.sub(r"\\\r?\n", " ", read_text(path))
    for number, line in enumerate(text.splitlines(), 1):
        content = _COMMENT.sub("", line).strip()
        if match := _NESTED.fullmatch(content):
            yield from _pinned_entries(path.parent / match["file"], (*above, path.resolve()), index)
        elif match := _MAIN_INDEX.fullmatch(content):
            index = match["url"]
        elif content and not content.startswith(("-", "#")):
            yield _entry_of(content, path, f"{path}:{number}", index)
        elif content.startswith(_EDITABLE):
            continue  # the project itself


def _entry_of(content: str, path: Path, subject: str, index: str | None) -> ListEntry:
    hashes = frozenset(filter(None, (stated_hash(match["digits"], subject) for match in _HASH.finditer(content))))
    words = _OPTIONS.sub("", content).strip()
    if words.partition(";")[0].strip().endswith(".whl") and "@" not in words:
        return ListEntry(package=_of_file(words, path, subject, hashes))
    try:
        requirement = Requirement(words)
    except unreadable_requirement() as error:
        raise InputError(subject, f"is not a requirement by name: {words[:120]}", _PIN) from error
    name, marker = canonicalize_name(requirement.name), str(requirement.marker) if requirement.marker else None
    if requirement.url is not None:
        return ListEntry(package=_of_file(requirement.url, path, subject, hashes, name), marker=marker)
    exact = [clause.version for clause in requirement.specifier if clause.operator in ("==", "===")]
    if len(exact) != 1 or exact[0].endswith(".*"):
        raise InputError(subject, f"is not pinned: {words[:120]}", _PIN)
    package = LockedPackage(name=name, version=exact[0], hashes=hashes, index=index)
    return ListEntry(package=package, marker=marker)


def _of_file(address: str, path: Path, subject: str, hashes: frozenset[str], asked: str | None = None) -> LockedPackage:
    parts = urlsplit(address)
    name = unquote(parts.path).rpartition("/")[2]
    of_address = parts.fragment.removeprefix("sha256=") if parts.fragment.startswith("sha256=") else None
    sha256 = stated_hash(of_address, subject) or next(iter(sorted(hashes)), None)
    if not name.endswith(".whl"):
        return LockedPackage(name=asked or canonicalize_name(name), version=None, origin=FromWhere.SOURCE_TREE)
    try:
        project, version, _, _ = parse_wheel_filename(name)
    except (InvalidWheelFilename, ValueError) as error:
        raise InputError(subject, f"names no wheel: {name}") from error
    is_local = parts.scheme in ("", "file")
    place = str(path.absolute().parent / unquote(parts.path)) if is_local else None
    file = LockedFile(name=name, url=None if is_local else address.partition("#")[0], path=place, sha256=sha256)
    return LockedPackage(name=project, version=str(version), files=(file,), origin=FromWhere.DIRECT)
