"""The GPUs that a torch itself has code for: what ``torch.cuda.get_arch_list()`` returns.

``data/architectures.txt`` is made by ``tools/release.py``; it has a line for each embedded build with CUDA. The list of
any other torch is a text in its ``libtorch_python.so``.
"""

from __future__ import annotations

import functools
from typing import Final

from abiscan import release_data
from abiscan.binary.elf import Machine
from abiscan.errors import AbiscanError
from abiscan.gpu.compatibility import fits_gpu
from abiscan.gpu.devices import Gpu
from abiscan.gpu.model import CodeKind, Entry
from abiscan.inputs.files import Files
from abiscan.regex import regex
from abiscan.torches.model import TorchRelease
from abiscan.words import ranges

LIST: Final = regex(rb"((?:sm|compute)_[0-9]{2,3}[af]?(?: (?:sm|compute)_[0-9]{2,3}[af]?){0,40})\0")
_CUDA: Final = regex(r"\+cu([0-9]{2})([0-9])$")
_TARGET: Final = regex(r"(sm|compute)_([0-9]+)([af]?)")


def architectures(release: TorchRelease, files: Files) -> tuple[str, ...] | None:
    """Return the targets (``sm_90``, ``compute_90``) that a torch has code for; None if they are not known."""
    embedded = _read_embedded().get((release.build or "", release.machine.value))
    if embedded is not None:
        return embedded
    source = files.find_source(release.own_libraries.get("libtorch_python.so", ""))
    if source is None:
        return None
    try:
        # ``torch.cuda.get_arch_list()`` returns a text that the build puts into the library
        # (torch/csrc/cuda/Module.cpp).
        match = LIST.search(source.open_elf().data)
    except AbiscanError:
        return None
    return tuple(match[1].decode().split()) if match else None


def has_code_for(gpu: Gpu, targets: tuple[str, ...], build: str | None) -> bool:
    """Whether a GPU runs code for one of the targets of a build of torch."""
    # A tag of three digits: the last one is the minor version, ``cu126`` is 12.6.
    version = _CUDA.search(build or "")
    toolkit = (int(version[1]), int(version[2])) if version else None
    kinds = {"sm": CodeKind.CUBIN, "compute": CodeKind.PTX}
    matches = filter(None, map(_TARGET.fullmatch, targets))
    entries = (Entry(kind=kinds[m[1]], architecture=int(m[2]), variant=m[3]) for m in matches)
    return any(fits_gpu(entry, gpu, toolkit) for entry in entries)


def builds_with_code_for(gpu: Gpu, machine: Machine) -> str:
    """Return the embedded builds that have code for a GPU, as ranges among those for a machine."""
    builds = {build: targets for (build, on), targets in _read_embedded().items() if on == machine.value}
    return ranges([build for build, targets in builds.items() if has_code_for(gpu, targets, build)], builds)


@functools.cache
def _read_embedded() -> dict[tuple[str, str], tuple[str, ...]]:
    text = release_data.folder("torches").joinpath("architectures.txt").read_text("utf-8")
    return {(words[0], words[1]): tuple(words[2:]) for words in map(str.split, text.splitlines())}
