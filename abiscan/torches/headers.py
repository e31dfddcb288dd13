"""The assertions in torch's headers, release by release.

Code that an extension inlines from a header contains the text of its assertions, which has the source line:
``… INTERNAL ASSERT FAILED at "…/torch/include/c10/core/TensorImpl.h":1733``. Line numbers change with every release, so
a few of them identify the headers that the extension was compiled with. ``data/headers`` is made by
``tools/release.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from abiscan.binary.elf import SourceLine
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex
from abiscan.torches.names import NameTable

# The path of a header inside ``torch/include`` begins here; the part before it depends on the machine.
_ROOT: Final = regex(r"(?<![^/])(?:ATen|c10|caffe2|torch)/")
_MACRO: Final = regex(r"\b(?:TORCH_INTERNAL_ASSERT(?:_DEBUG_ONLY)?|AT_ASSERTM?)\s*\(")
_TOKEN: Final = regex(r'"(?:[^"\\\n]|\\.)*"|[()]')


def releases_asserting(place: SourceLine) -> tuple[str, frozenset[TorchVersion]] | None:
    """Return the path of a header below ``torch/include`` with a line, and the releases with an assertion there.

    :return: None if no release has an assertion there
    """
    for text in lines_of(place):
        if columns := _make_table().columns_with(text):
            return text, _versions_of_columns(columns)
    return None


def releases() -> tuple[str, ...]:
    """Return the numbers of all releases in the data, oldest first."""
    return tuple(sorted(_make_table().columns, key=TorchVersion))


def assertion_lines(text: str) -> Iterator[int]:
    """Yield the lines of a header that ``__LINE__`` can be for its assertions: where the macro begins, and where it
    ends.

    Which of the two it is for a macro over several lines depends on the compiler.
    """
    for macro in _MACRO.finditer(text):
        before = text[text.rfind("\n", 0, macro.start()) + 1 : macro.start()]
        if before.lstrip().startswith(("#", "//")):
            continue
        depth, end = 1, macro.end()
        for token in _TOKEN.finditer(text, macro.end()):
            depth += (token.group() == "(") - (token.group() == ")")
            if depth == 0:
                end = token.start()
                break
        first = text.count("\n", 0, macro.start()) + 1
        yield first
        if last := text.count("\n", macro.start(), end):
            yield first + last


def _paths_from_roots(file: str) -> Iterator[str]:
    return (file[match.start() :] for match in _ROOT.finditer(file))


def lines_of(place: SourceLine) -> Iterator[str]:
    """Return what a line of a header may be called, below ``torch/include``: ``c10/core/TensorImpl.h:1733``."""
    return (f"{path}:{place.line}" for path in _paths_from_roots(place.file))


@functools.cache
def _versions_of_columns(columns: int) -> frozenset[TorchVersion]:
    return frozenset(TorchVersion(text) for bit, text in enumerate(_make_table().columns) if columns >> bit & 1)


@functools.cache
def _make_table() -> NameTable:
    return NameTable.of("headers")
