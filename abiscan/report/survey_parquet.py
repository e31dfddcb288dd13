"""The lines of a survey as a table in Parquet, the extra ``abiscan[parquet]``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

from abiscan.errors import InputError
from abiscan.results.survey import SurveyEntry

_ROWS_AT_ONCE: Final = 1_000


def write_table(entries: Iterable[SurveyEntry], file: IO[bytes], name: str) -> None:
    """Write a row for each entry, in small batches.

    :param name: of the file, for errors
    :raises InputError: pyarrow is not installed
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        fix = "pip install 'abiscan[parquet]'"
        raise InputError(name, "Parquet needs pyarrow, which is not installed", fix) from error
    text = pa.string()
    others = {"exit_code": pa.int8(), "rules": pa.list_(text)}
    # A fixed schema: inferred from the rows, a column that is empty in this survey would have another type.
    schema = pa.schema([(name, others.get(name, text)) for name in SurveyEntry.__struct_fields__])
    with parquet.ParquetWriter(file, schema) as table:
        for rows in _row_chunks(entries):
            values = {name: [getattr(row, name) for row in rows] for name in schema.names}
            table.write_batch(pa.record_batch(values, schema=schema))


def _row_chunks(entries: Iterable[SurveyEntry]) -> Iterator[list[Any]]:
    source = iter(entries)
    while rows := list(itertools.islice(source, _ROWS_AT_ONCE)):
        yield rows
