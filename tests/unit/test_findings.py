from __future__ import annotations

from abiscan.findings import Effect, rule


def test_effects_grow_worse() -> None:
    names = ["note", "overrides", "call-fails", "corrupts", "load-fails", "aborts"]
    assert sorted((effect.value for effect in Effect), key=lambda value: Effect(value).severity) == names
    assert [effect.severity for effect in Effect] == [0, 1, 2, 3, 4, 5]


def test_a_rule_takes_its_summary_from_its_documentation() -> None:
    made = rule("a-rule", "\nWhat it is.\n\nMore.\n", lambda _: iter(()))
    assert (made.name, made.summary, made.documentation) == ("a-rule", "What it is.", "What it is.\n\nMore.")
