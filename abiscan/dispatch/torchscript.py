"""The operators that TorchScript has and the dispatcher has not, release by release: ``torch.ops.aten`` has them, too.

``data/torchscript.txt`` is made by ``tools/record_torchscript.py``. It has the schemas in the texts of libtorch, of
which some are of passes of the compiler: an operator that is not there is certainly not TorchScript's.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final, NamedTuple

from packaging.version import Version

from abiscan import release_data
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD

PATH: Final = release_data.folder("dispatch") / "torchscript.txt"

NAMESPACE: Final = "aten"
"""The namespace whose operators are recorded."""
_UNRECORDED: Final = "prim"
"""The namespace whose operators are not: some have no schema that could be read."""


class _Table(NamedTuple):
    """The file: its releases, each with its bit, and the releases of each operator, as bits.

    :ivar operators: by full names
    :ivar bases: by names without overloads
    :ivar overloaded: the operators that have overloads with names
    """

    bits: Mapping[str, int]
    operators: Mapping[str, int]
    bases: Mapping[str, int]
    overloaded: frozenset[str]


def may_have(name: str, release: Version | None = None) -> bool:
    """Whether TorchScript may have an operator (``aten::len``), or an overload (``aten::len.default``).

    :param release: None for any; one that is not recorded may have what any has
    """
    table = _read_table()
    having = table.operators.get(name.removesuffix(DEFAULT_OVERLOAD), 0) if "." in name else table.bases.get(name, 0)
    may = table.bits.get(release.public, -1) if release else -1
    return name.startswith(f"{_UNRECORDED}::") or bool(having & may)


def has_overloads(operator: str) -> bool:
    """Whether TorchScript of any release has overloads of an operator that have a name."""
    return operator in _read_table().overloaded


def parse(text: str) -> dict[str, list[str]]:
    """Return the releases of each operator in the text of the file, and all of them under an empty name."""
    table = _parse_table(text)
    return {
        "": list(table.bits),
        **{
            name: [release for release, bit in table.bits.items() if bits & bit]
            for name, bits in table.operators.items()
        },
    }


def _parse_table(text: str) -> _Table:
    releases, *lines = text.splitlines()
    operators = {name: int(bits, 16) for name, bits in map(str.split, lines)}
    bases: dict[str, int] = {}
    for name, having in operators.items():
        base = name.partition(".")[0]
        bases[base] = bases.get(base, 0) | having
    return _Table(
        bits={release: 1 << number for number, release in enumerate(releases.split())},
        operators=operators,
        bases=bases,
        overloaded=frozenset(name.partition(".")[0] for name in operators if "." in name),
    )


@functools.cache
def _read_table() -> _Table:
    return _parse_table(PATH.read_text("utf-8"))
