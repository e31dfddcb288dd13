"""Tables of made-up data, as ``tools.blocks`` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from abiscan.dispatch.operators import Operators
from abiscan.torches.blocks import BlockFile
from abiscan.torches.marks import Marks, MarkTable
from abiscan.torches.names import NameTable
from abiscan.torches.operator_table import OperatorTable
from tools import operator_packer
from tools.blocks import file_of, layout_of_marks, layout_of_names


def name_table(names: Mapping[str, int], columns: Sequence[str] = (), meta: Sequence[Any] = ()) -> NameTable:
    """A table of names with their columns, which need no names."""
    width = max((bits.bit_length() for bits in names.values()), default=0)
    return NameTable([BlockFile(file_of(columns or list(map(str, range(width))), layout_of_names(names), meta=meta))])


def mark_table(columns: Sequence[str], keys: Mapping[str, Marks]) -> MarkTable:
    """A table of marks."""
    items = {(key, mark): bits for key, marks in keys.items() for mark, bits in marks.items()}
    return MarkTable([BlockFile(file_of(columns, layout_of_marks(items)))])


def operator_table(*builds: Operators) -> OperatorTable:
    """A table of builds, which are described by their numbers."""
    numbered = {str(number): (number, operators) for number, operators in enumerate(builds)}
    return OperatorTable([BlockFile(operator_packer.pack(numbered))])
