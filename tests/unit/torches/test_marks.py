"""Keys of a file of marks: each is found among those that begin alike, and none that the file does not have."""

from __future__ import annotations

from tests.tables import mark_table


def test_keys_that_begin_alike_are_told_apart() -> None:
    """A key is a part of others, and stands before and after them."""
    keys = {"torch.nn": {"Linear": 1}, "torch": {"nn": 3, "ops": 2}, "torch.nn.init": {"zeros_": 2}, "a": {"b": 1}}
    table = mark_table(["1", "2"], keys)
    assert {key: dict(table.marks_of(key)) for key in keys} == keys
    for absent in ("", "tor", "torch.", "torch.n", "torch.nn.", "torch.nn.init.x", "zzz", "nn", "Linear"):
        assert table.lines(absent) == [], absent


def test_columns_of_a_mark() -> None:
    """Marks of one set of columns share a line."""
    table = mark_table(["1", "2"], {"torch": {"nn": 3, "ops": 2, "fft": 3}, "torch._C": {"ops": 1}})
    assert [table.columns_with("torch", mark) for mark in ("nn", "ops", "fft", "nope")] == [3, 2, 3, 0]
    assert [key for key, _ in table.items()] == ["torch", "torch._C"]
