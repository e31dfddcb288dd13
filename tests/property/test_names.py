from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import name_table

NAMES = st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)


@given(st.dictionaries(NAMES, st.integers(min_value=1, max_value=1 << 80)), NAMES)
def test_a_table_answers_as_the_dictionary_it_was_made_of(columns: dict[str, int], other: str) -> None:
    table = name_table(columns)
    assert all(table.columns_with(name) == value for name, value in columns.items())
    assert table.columns_with(other) == columns.get(other, 0)
    assert dict(table.starting_with(other[:1])) == {
        name: value for name, value in columns.items() if name.startswith(other[:1])
    }
