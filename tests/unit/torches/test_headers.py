"""Where the assertions of a header are, and which releases have one in a line."""

from __future__ import annotations

import pytest

from abiscan.binary.elf import SourceLine
from abiscan.torches import headers
from abiscan.torches.headers import assertion_lines
from tests.tables import name_table


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("int f();\nTORCH_INTERNAL_ASSERT(a);\n", [2]),
        ("  AT_ASSERT(a);\n  AT_ASSERTM(b, c);\n", [1, 2]),
        ("TORCH_INTERNAL_ASSERT_DEBUG_ONLY(a)\n", [1]),
        ("TORCH_CHECK(a);\nMY_AT_ASSERT(a);\n", []),
        ("TORCH_INTERNAL_ASSERT(\n    a(),\n    b);\n", [1, 3]),  # begins in 1; the parenthesis that ends it is in 3
        ("\nTORCH_INTERNAL_ASSERT(f(g(1),\n 2),\n 3); h(\n);", [2, 4]),
        ('TORCH_INTERNAL_ASSERT(a, ")", "\\")",\n "(");\n', [1, 2]),  # those in texts do not count
        ("#define MINE(x) AT_ASSERT(x)\n  // AT_ASSERT(x)\n", []),
        ("AT_ASSERT(a", [1]),
        ("#define MINE(x) AT_ASSERT(x)\nAT_ASSERT(a);\n", [2]),
        ("AT_ASSERT(a);\n// AT_ASSERT(b);\nAT_ASSERT(c);\n", [1, 3]),
        (" // AT_ASSERT(b);\n", []),
        ("#define AT_ASSERT(x)", []),
    ],
)
def test_the_lines_of_assertions(text: str, lines: list[int]) -> None:
    """GCC takes the line where a macro ends for ``__LINE__``, clang that where it begins."""
    assert list(assertion_lines(text)) == lines


def test_each_path_that_a_place_may_mean_is_tried() -> None:
    place = SourceLine("/home/me/torch/include/c10/core/X.h", 7)
    assert list(headers.lines_of(place)) == ["torch/include/c10/core/X.h:7", "c10/core/X.h:7"]


def test_the_releases_with_an_assertion_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    table = name_table(
        {"c10/core/X.h:7": 0b101, "c10/core/X.h:8": 0b010, "c10/core/Y.h:7": 0b111}, ["2.0.0", "2.1.0", "2.2.0"]
    )
    monkeypatch.setattr(headers, "_make_table", lambda: table)
    headers._versions_of_columns.cache_clear()
    try:
        found = {
            (name, line): headers.releases_asserting(SourceLine(f"/me/torch/include/c10/core/{name}.h", line))
            for name, line in (("X", 7), ("X", 8), ("Y", 7), ("Y", 8))
        }
    finally:
        headers._versions_of_columns.cache_clear()
    assert {
        place: (text[0], sorted(map(str, text[1]))) if text is not None else None for place, text in found.items()
    } == {
        ("X", 7): ("c10/core/X.h:7", ["2.0.0", "2.2.0"]),
        ("X", 8): ("c10/core/X.h:8", ["2.1.0"]),
        ("Y", 7): ("c10/core/Y.h:7", ["2.0.0", "2.1.0", "2.2.0"]),
        ("Y", 8): None,
    }
