"""The entries in torch's other registries, for some of the embedded builds.

``data/registries.json.gz`` is made by ``tools/release.py``: each entry once, with the set of builds that
have it. A set is a number with one bit for each of ``builds``.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, Final

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import RegistryEntry

NAME: Final = "registries.json.gz"


def entries(build: str, machine: Machine) -> tuple[RegistryEntry, ...] | None:
    """Return the entries of a build, None if they are not embedded.

    :param build: its full version: ``2.13.0+cpu``
    """
    name = f"{build} {machine.value}"
    if name not in data()["builds"]:
        return None
    bit = 1 << data()["builds"].index(name)
    return tuple(
        RegistryEntry(registry, key, priority)
        for registry, key, priority, builds in data()["entries"]
        if int(builds, 16) & bit
    )


@functools.cache
def data() -> Any:
    """Return the data file, read on first use."""
    import gzip

    return json.loads(gzip.decompress(resources.files("abiscan.torches").joinpath(f"data/{NAME}").read_bytes()))
