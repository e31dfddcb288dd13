"""The GPUs that each embedded build of torch has code for.

``data/architectures.txt`` is made by ``tools/build_architecture_data.py``; it has what ``torch.cuda.get_arch_list()``
returns, a line for each build with CUDA.
"""

from __future__ import annotations

import functools
from importlib import resources

from abiscan.binary.elf import Machine


def architectures(build: str | None, machine: Machine) -> tuple[str, ...] | None:
    """The targets (``sm_90``, ``compute_90``) of a build, by its full version; None if they are not known."""
    return _all().get((build or "", machine.value))


@functools.cache
def _all() -> dict[tuple[str, str], tuple[str, ...]]:
    text = resources.files("abiscan.torches").joinpath("data/architectures.txt").read_text("utf-8")
    return {(words[0], words[1]): tuple(words[2:]) for words in map(str.split, text.splitlines())}
