"""The assertions in torch's headers, release by release.

Code that an extension inlines from a header contains the text of its assertions, which has the source line:
``… INTERNAL ASSERT FAILED at "…/torch/include/c10/core/TensorImpl.h":1733``. Line numbers change with every release, so
a few of them identify the headers that the extension was compiled with. ``data/headers.bin`` is made by
``tools/build_header_data.py``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib import resources
from typing import Final

from abiscan.binary.elf import SourceLine
from abiscan.inputs.version import TorchVersion
from abiscan.torches.names import NameTable

# The path of a header inside ``torch/include`` begins here; the part before it depends on the machine.
_ROOT: Final = re.compile(r"(?<![^/])(?:ATen|c10|caffe2|torch)/")


def releases_asserting(place: SourceLine) -> tuple[str, frozenset[TorchVersion]] | None:
    """A line of one of torch's headers, by its path below ``torch/include``, and the releases with an assertion there.

    :return: None if no release has an assertion there
    """
    for path in _paths(place.file):
        text = f"{path}:{place.line}"
        if columns := _table().columns(text):
            return text, _versions(columns)
    return None


def _paths(file: str) -> Iterator[str]:
    return (file[match.start() :] for match in _ROOT.finditer(file))


@functools.cache
def _versions(columns: int) -> frozenset[TorchVersion]:
    return frozenset(TorchVersion(text) for bit, text in enumerate(_table().meta["releases"]) if columns >> bit & 1)


@functools.cache
def _table() -> NameTable:
    return NameTable(resources.files("abiscan.torches").joinpath("data/headers.bin").read_bytes())
