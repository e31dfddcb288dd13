"""What the loaders of each release read: recorded from its sources by ``tools/record_loaders.py``."""

from __future__ import annotations

import functools
import json
from typing import Any, Final

from msgspec import Struct

from abiscan import release_data
from abiscan.inputs.version import TorchVersion

PATH: Final = release_data.folder("models") / "loaders.json"


class Loaders(Struct, frozen=True, kw_only=True):
    """What one release reads.

    :ivar file_format: the oldest and the newest version of PyTorch's archives
    :ivar bytecode: the oldest and the newest version of the bytecode of mobile models
    :ivar schema: its version of exported programs
    :ivar layouts: the layouts of exported programs that ``torch.export.load`` looks for
    :ivar names_layout: whether it has words of its own for an archive of none of them
    :ivar parts: the members of the flat layout that it requires
    :ivar archive_version: that of pt2 archives
    :ivar aoti: the call that loads a package of AOTInductor, None if there is none
    :ivar aoti_layouts: the layouts of packages that it looks for
    :ivar symbols: the functions that it asks a model's library for
    :ivar weights_only: what ``torch.load`` does by default
    :ivar allowed: the Python names that it accepts then
    """

    file_format: tuple[int, int] | None = None
    bytecode: tuple[int, int] | None = None
    schema: tuple[int, ...] | None = None
    layouts: tuple[str, ...] = ()
    names_layout: bool = False
    parts: tuple[str, ...] = ()
    archive_version: str | None = None
    aoti: str | None = None
    aoti_layouts: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    weights_only: bool = False
    allowed: tuple[str, ...] = ()


def loaders_of(version: str | None) -> Loaders | None:
    """Return what a release reads; None if it is not recorded.

    :param version: of the torch, with or without the build; None if it is not known
    """
    if version is None:
        return None
    release = str(TorchVersion(version).of_release)
    return _make_loaders(release) if release in _read_table() else None


@functools.cache
def _make_loaders(release: str) -> Loaders:
    import msgspec

    return msgspec.convert(_read_table()[release], Loaders)


@functools.cache
def _read_table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
    return table
