"""Files of requirements, as pip reads them: those for packages from an index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct
from packaging.requirements import Requirement

from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.requirement import unreadable_requirement
from abiscan.regex import regex

_COMMENT: Final = regex(r"(^|\s)#.*$")
_NESTED: Final = regex(r"(?:-r|--requirement|(?P<constraint>-c|--constraint))(?:\s+|\s*=\s*)(?P<file>\S+)")
_HASHES: Final = regex(r"\s+--[a-z-]+[= ].*$")
_PASSWORD: Final = regex(r"^\s*(?:-i|--index-url|--extra-index-url|--pypi-url)[\s=]*\S*(?:@|\$\{)", re.MULTILINE)
_INDEX: Final = regex(
    r"^\s*(?:-i|-f|--(?:[a-z]+-)?index(?:-url)?|--pypi-url|--find-links|--no-binary|--only-binary)(?![a-z-])",
    re.MULTILINE,
)
_FIX: Final = "abiscan fit takes requirements by name: NAME, NAME>=VERSION"


class Line(Struct, frozen=True, kw_only=True):
    """One requirement; a ``constraint`` counts only if something else requires the package."""

    requirement: Requirement
    constraint: bool


def read_requirements(path: Path, *, constraint: bool = False, by_name_only: bool = True) -> tuple[Line, ...]:
    """Return the requirements in a file, and in those that it includes. Options for the installer are left out.

    :param constraint: whether it is a file of constraints
    :param by_name_only: whether it is an error that a requirement names no package of an index: a path, a URL; such
        lines are left out otherwise
    :raises InputError: it cannot be read, or has requirements that name no package of an index
    """
    return tuple(_read_lines(path, (), constraint=constraint, by_name_only=by_name_only))


def _read_lines(path: Path, above: tuple[Path, ...], *, constraint: bool, by_name_only: bool) -> Iterator[Line]:
    # By resolved path: a file may include itself through a link, too.
    try:
        if path.resolve() in above:
            raise InputError(str(path), "includes itself")
        text = observed_fs.read_file(path).decode("utf-8")
    except (OSError, ValueError) as error:  # a name that no file has, or no UTF-8
        raise InputError(str(path), f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    # A backslash at the end of a line continues it, before comments are taken off (pip's documentation, "Requirements
    # File Format"); the number that an error names is then that of the joined line.
    for number, line in enumerate(re.sub(r"\\\r?\n", " ", text).splitlines(), 1):
        content = _COMMENT.sub("", line).strip()
        if nested := _NESTED.fullmatch(content):
            inside = path.parent / nested["file"]
            yield from _read_lines(
                inside,
                (*above, path.resolve()),
                constraint=constraint or bool(nested["constraint"]),
                by_name_only=by_name_only,
            )
        elif content and not content.startswith("--"):
            try:
                requirement = Requirement(_HASHES.sub("", content))
                applies = requirement.marker is None or requirement.marker.evaluate()
            except unreadable_requirement() as error:
                if not by_name_only:
                    continue
                raise InputError(f"{path}:{number}", f"is not a requirement by name: {content}", _FIX) from error
            if applies:
                yield Line(requirement=requirement, constraint=constraint)


def has_password(path: Path) -> bool:
    """Whether a file of requirements, or one that it includes, names an index with credentials."""
    return _has_line(_PASSWORD, path, ())


def names_index(path: Path) -> bool:
    """Whether a file of requirements, or one that it includes, says where packages come from."""
    return _has_line(_INDEX, path, ())


def _has_line(pattern: re.Pattern[str], path: Path, above: tuple[Path, ...]) -> bool:
    """Whether a file, or one that it includes, has a line of a kind.

    :param above: the files that include it
    """
    if path.resolve() in above or not observed_fs.is_file(path):
        return False
    text = observed_fs.read_file(path).decode("utf-8", "replace")
    nested = (
        path.parent / match["file"] for match in map(_NESTED.fullmatch, map(str.strip, text.splitlines())) if match
    )
    below = (*above, path.resolve())
    return pattern.search(text) is not None or any(_has_line(pattern, file, below) for file in nested)
