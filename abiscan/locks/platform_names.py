"""The platforms that locks are for, in the words of uv (``--python-platform``), as tags of wheels."""

from __future__ import annotations

from typing import Final

from abiscan.errors import InputError
from abiscan.regex import regex
from abiscan.words import did_you_mean

# uv's reference, "uv pip compile --python-platform". macOS 14 is the oldest that torch has wheels for.
_NAMES: Final = {
    "linux": "manylinux_2_28_x86_64",
    "x86_64-unknown-linux-gnu": "manylinux_2_28_x86_64",
    "aarch64-unknown-linux-gnu": "manylinux_2_28_aarch64",
    "x86_64-manylinux2014": "manylinux_2_17_x86_64",
    "aarch64-manylinux2014": "manylinux_2_17_aarch64",
    "macos": "macosx_14_0_arm64",
    "aarch64-apple-darwin": "macosx_14_0_arm64",
    "x86_64-apple-darwin": "macosx_14_0_x86_64",
    "windows": "win_amd64",
    "x86_64-pc-windows-msvc": "win_amd64",
    "linux_x86_64": "manylinux_2_28_x86_64",
    "linux_aarch64": "manylinux_2_28_aarch64",
}
_GLIBC_PLATFORM: Final = regex(r"(?P<machine>x86_64|aarch64)-(?P<tag>manylinux_2_\d{1,2})")
_TAG: Final = regex(r"manylinux_2_\d{1,2}_(x86_64|aarch64)|macosx_\d{1,2}_\d{1,2}_(arm64|x86_64)|win_amd64|win_arm64")
_PYTHON: Final = regex(r"3\.(?P<minor>\d{1,2})(\.\d+)?")


def platform_tag_of(name: str) -> str:
    """Return the tag of a platform.

    :raises InputError: there is no such platform
    """
    if tag := _NAMES.get(name):
        return tag
    if match := _GLIBC_PLATFORM.fullmatch(name):
        return f"{match['tag']}_{match['machine']}"
    if _TAG.fullmatch(name):
        return name
    hint = did_you_mean(name, tuple(_NAMES)) or f"there are {', '.join(_NAMES)}"
    raise InputError(name, "is not a known platform", hint)


def python_of(text: str) -> tuple[int, int]:
    """Return the minor version that a text names: ``3.12``, ``3.12.4``.

    :raises InputError: it names none
    """
    match = _PYTHON.fullmatch(text)
    if match is None:
        raise InputError(text, "is not a version of Python", "pass one such as 3.12")
    return 3, int(match["minor"])
