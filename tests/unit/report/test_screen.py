"""A report on a package fits on a screen, however much is wrong with it."""

from __future__ import annotations

from abiscan.report.line import StyledLine
from abiscan.report.package_text import _on_one_screen


def test_as_much_as_there_is_room_for() -> None:
    line, wrapped = StyledLine("x"), StyledLine("x" * 161)  # one row, three rows
    blocks = [[line] * 20, [wrapped] * 5, [line] * 20]
    assert _on_one_screen(blocks, 3) == blocks[:2]
    assert _on_one_screen(blocks, 11) == blocks[:2]
    assert _on_one_screen(blocks, 12) == blocks[:1]
    # The worst is shown, even if it alone is too long.
    assert _on_one_screen([[line] * 90, [line]], 3) == [[line] * 90]
    assert _on_one_screen([], 3) == []
