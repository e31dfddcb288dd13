"""The data that change with releases of torch: abiscan's own, or newer ones from the distribution ``abiscan-data``.

``abiscan-data`` brings the data of a later abiscan, so that a new release of torch is known without a new abiscan. Its
package ``abiscan_data`` has the folders ``dispatch/data``, ``emulation/data``, ``models/data`` and ``torches/data``.
The version of data is in ``torches/data/version.txt``, in abiscan as well: the first number is the format, the
second one grows with each change. Data of another format than abiscan's own are not read.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final, NamedTuple

ROOMS: Final = ("dispatch", "emulation", "models", "torches")
"""The rooms whose ``data`` change with releases of torch."""
VERSION_FILE: Final = "version.txt"
"""In the data of ``torches``."""
_OWN: Final = Path(__file__).parent


class DataVersion(NamedTuple):
    """The version of data: their format, and how often they changed since it was introduced."""

    format: int
    edition: int

    def __str__(self) -> str:
        """Return it as the version of ``abiscan-data`` is written: ``1.4``."""
        return f"{self.format}.{self.edition}"


@functools.cache
def root() -> Path:
    """Return the folder with the folders of ``ROOMS`` whose data are read.

    ``abiscan_data`` is looked for in the folder that abiscan is installed in and nowhere else: what has that name in
    the working directory must not decide.
    """
    version = installed_version()
    return update_folder() if version and version.format == own_version().format and version > own_version() else _OWN


def folder(room: str) -> Path:
    """Return the folder with the data of a room."""
    return root() / room / "data"


def update_folder() -> Path:
    """Return the folder in which ``abiscan_data`` has to be."""
    return _OWN.with_name("abiscan_data")


def used_version() -> DataVersion:
    """Return the version of the data that are read."""
    return _read_version(root())


def own_version() -> DataVersion:
    """Return the version of the data that came with abiscan.

    :raises OSError: the installation is damaged
    """
    return _read_version(_OWN)


def installed_version() -> DataVersion | None:
    """Return the version of the installed ``abiscan-data``, whether it is used or not; None if there is none."""
    try:
        return _read_version(update_folder())
    except (OSError, ValueError):
        return None


def _read_version(package: Path) -> DataVersion:
    data_format, edition = (package / "torches" / "data" / VERSION_FILE).read_text("ascii").split(".")
    return DataVersion(int(data_format), int(edition))
