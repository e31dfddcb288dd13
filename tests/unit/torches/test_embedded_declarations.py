"""The hashes of declarations, release by release."""

from __future__ import annotations

import pytest

from abiscan.torches import embedded_declarations
from tests.tables import name_table

COLUMNS = {"c10::A 00ff": 0b0101, "c10::A 11ee": 0b1010, "c10::B 00ff": 0b1000}


def test_the_releases_that_declare_a_class_so(monkeypatch: pytest.MonkeyPatch) -> None:
    table = name_table(COLUMNS, ["1.4.0", "1.5.0", "1.6.0", "1.7.0"])
    monkeypatch.setattr(embedded_declarations, "_make_table", lambda: table)
    assert embedded_declarations.releases() == ("1.4.0", "1.5.0", "1.6.0", "1.7.0")
    assert embedded_declarations.releases_declaring("c10::A", "00ff") == ("1.4.0", "1.6.0")
    assert embedded_declarations.releases_declaring("c10::A", "11ee") == ("1.5.0", "1.7.0")
    assert embedded_declarations.releases_declaring("c10::B", "00ff") == ("1.7.0",)
    assert embedded_declarations.releases_declaring("c10::B", "11ee") == ()
