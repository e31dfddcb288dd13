"""The names of dispatch keys: what a number means in the machine code of an extension.

An extension contains the numbers of the torch whose headers it was compiled with, and they change every few releases.
``data/keys.txt`` has the keys of each minor version as that torch names them (``c10::toString``); it is made by
``tools/release.py`` from the libraries of the releases.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from packaging.version import Version

from abiscan import release_data
from abiscan.inputs.version import MinorVersion, TorchVersion
from abiscan.regex import regex

_UNNAMED: Final = "Unknown"
_UNNAMED_KEY: Final = regex(rf"{_UNNAMED}\((\d+)\)")
_NO_BACKEND: Final = "Undefined"
_NO_KEYS: Final = ("Undefined", "UndefinedTensorId", "CatchAll")
_FIRST_BACKEND: Final = "CPU"
_FUNCTIONALITIES: Final = (1, 12)  # since when keys are numbered by functionality, then by backend


class DispatchKeys(Struct, frozen=True, kw_only=True):
    """The keys of one minor version.

    :ivar minor: the minor version
    :ivar names: the names by number
    """

    minor: MinorVersion
    names: Mapping[int, str]

    def name(self, number: int) -> str:
        """Return the name of a key; ``Unknown(<number>)`` for a number that this torch does not have.

        The number before the first backend of a functionality is no key, but torch names it: ``QuantizedUndefined``.
        """
        if (name := self.names.get(number)) is not None:
            return name
        # From 1.12 on, the keys of a functionality are consecutive, one for each backend: the number before the first
        # one stands for no backend (c10/core/DispatchKey.h).
        functionality, first, _ = self.names.get(number + 1, "").partition(_FIRST_BACKEND)
        has_backends = bool(functionality and first) and self.minor >= _FUNCTIONALITIES
        return functionality + _NO_BACKEND if has_backends else f"{_UNNAMED}({number})"

    def registered_name(self, key: int | str | None) -> str | None:
        """Return the name of a key that something is registered for; None for what means "no key"."""
        name = self.name(key) if isinstance(key, int) else key
        return None if name in _NO_KEYS else name

    def can_register(self, number: int) -> bool:
        """Whether a kernel can be registered for a number, that is, whether it is a key."""
        return number in self.names


def unnamed_number(name: str) -> int | None:
    """Return the number in the result of ``DispatchKeys.name`` for a key without a name; None for a real name."""
    match = _UNNAMED_KEY.fullmatch(name)
    return int(match[1]) if match else None


def keys_of(version: Version) -> DispatchKeys:
    """Return the keys of a release: those of its minor version, or of the nearest older known one.

    :param version: 1.4 or newer; an older one gets the keys of 1.4
    """
    return keys_of_minor((version.major, version.minor))


def keys_of_minor(version: MinorVersion) -> DispatchKeys:
    """Return the keys of a minor version, or of the nearest older known one."""
    minors = _keys_by_minor_version()
    return _read_keys(max((minor for minor in minors if minor <= version), default=min(minors)))


def newest_minor() -> MinorVersion:
    """Return the newest minor version whose keys are known."""
    return max(_keys_by_minor_version())


@functools.cache
def _read_keys(minor: MinorVersion) -> DispatchKeys:
    pairs = (word.split(":") for word in _keys_by_minor_version()[minor])
    return DispatchKeys(minor=minor, names={int(number): name for number, name in pairs})


@functools.cache
def _keys_by_minor_version() -> dict[MinorVersion, list[str]]:
    """Read the keys of each minor version, oldest first, as they are written."""
    text = release_data.folder("dispatch").joinpath("keys.txt").read_text("utf-8")
    lines = (line.split() for line in text.splitlines())
    return {TorchVersion(minor).minor_version: words for minor, *words in lines}
