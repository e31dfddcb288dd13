"""Where torch's internal assertions are in its source, for the embedded builds.

``data/assertions.json`` is made by ``make release``: for each build, the place by message id.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Final

from abiscan.binary.elf import Machine

NAME: Final = "assertions.json"


def assertions(build: str, machine: Machine) -> Mapping[str, str]:
    """Return the places of a build by message id; empty if they are not embedded, or the build has no such assertion.

    :param build: its full version: ``2.13.0+cpu``
    """
    return _read_data().get(f"{build} {machine.value}", {})


@functools.cache
def _read_data() -> dict[str, dict[str, str]]:
    content: dict[str, dict[str, str]] = json.loads(
        resources.files("abiscan.torches").joinpath(f"data/{NAME}").read_text("utf-8")
    )
    return content
