"""What ``import torch`` registers from Python code, for some of the embedded releases.

``data/python.json.gz`` is made by ``tools/record_python.py`` from running torches: each definition and each kernel
once, with the set of releases that have it. A set is a number with one bit for each of ``releases``.
"""

from __future__ import annotations

import functools
import zlib
from importlib import resources
from typing import Any, Final

from msgspec.json import decode

from abiscan.inputs.version import TorchVersion

NAME: Final = "python.json.gz"
_GZIP: Final = 31
"""What zlib takes for the format of gzip."""
DEFINITION: Final = "definition"
"""What an entry is that is no kernel; a kernel's is its dispatch key."""


def definitions(release: TorchVersion | None) -> frozenset[str] | None:
    """Return the operators that Python code of a release defines as torch is imported, with overloads.

    None if that is not recorded.
    """
    name = release.base_version if release else ""
    if name not in data()["releases"]:
        return None
    bit = 1 << data()["releases"].index(name)
    return frozenset(
        name for name, subject, releases in data()["entries"] if subject == DEFINITION and int(releases, 16) & bit
    )


@functools.cache
def namespaces() -> frozenset[str]:
    """Return the namespaces in which Python code of some release defines operators."""
    return frozenset(name.partition("::")[0] for name, subject, _ in data()["entries"] if subject == DEFINITION)


@functools.cache
def data() -> Any:
    """Return the data file, read on first use."""
    packed = resources.files("abiscan.torches").joinpath(f"data/{NAME}").read_bytes()
    return decode(zlib.decompress(packed, wbits=_GZIP))
