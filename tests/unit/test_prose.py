"""The measures of ``tools.prose``, and the proof of ``tools.renaming`` that only names changed."""

from __future__ import annotations

import textwrap

import pytest

from tools import prose
from tools.renaming import Comparison


def measured(source: str) -> prose.Measures:
    return prose.measure_file(textwrap.dedent(source), "room/module.py")


def test_what_counts() -> None:
    measures = measured(
        '''
        # A comment of its own.
        for found in range(3):  # a comment that is not
            name = found

        def resolve(other: int) -> None:
            """What it resolves."""

        def load_library(path: str) -> None:
            """Load a library."""
        '''
    )
    assert (measures.placeholders.number, measures.placeholders.total) == (2, 4)
    assert (measures.one_word.number, measures.one_word.total) == (1, 2)
    assert (measures.nominal.number, measures.nominal.total) == (1, 2)
    assert (measures.comments.number, measures.comments.total) == (1, 7)
    assert {fault.split(": ")[1] for fault in measures.faults} == {
        *("placeholder found", "placeholder other", "one word resolve", "nominal resolve")
    }


@pytest.mark.parametrize("name", ["known", "_known", "known_value", "known_items", "other_things"])
def test_a_vague_noun_makes_a_placeholder_no_better(name: str) -> None:
    assert measured(f"{name} = 1\n").placeholders.number == 1


@pytest.mark.parametrize("name", ["known_releases", "items", "value", "other_build"])
def test_a_name_with_a_noun_is_no_placeholder(name: str) -> None:
    assert measured(f"{name} = 1\n").placeholders.number == 0


def test_a_property_is_described_like_an_attribute() -> None:
    measures = measured(
        '''
        class Library:
            @property
            def name(self) -> str:
                """The base name."""

            @functools.cached_property
            def size(self) -> int:
                """What it takes, in bytes."""
        '''
    )
    assert measures.nominal.total == measures.one_word.total == 0


@pytest.mark.parametrize(
    ("docstring", "answer"),
    [
        ("Return the name.", True),
        ("Returns the name.", True),
        ("Carries it over.", False),
        ("Tries all names.", True),
        ("The name.", False),
        ("``dlopen`` maps it.", False),
        ("Matches of a pattern.", True),  # a noun or a verb: the benefit of the doubt
    ],
)
def test_a_docstring_opens_with_a_verb(docstring: str, answer: bool) -> None:
    assert prose.opens_with_verb(docstring) is answer


def test_whether_is_the_opening_of_what_answers_yes_or_no() -> None:
    assert measured('def is_known() -> bool:\n    """Whether it is."""').nominal.number == 0
    assert measured('def is_known() -> str:\n    """Whether it is."""').nominal.number == 1


def test_a_room_that_is_done_stays_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "DONE", frozenset({"good", "bad", "gone"}))
    monkeypatch.setattr(prose, "COMMENTED", frozenset({"good"}))
    comment = "# Why.\n"
    rooms = {
        "good": measured(f'{comment}def load_library() -> None:\n    """Load."""'),
        "bad": measured(f'{comment}def load(it: int) -> None:\n    """The load."""'),
        "open": measured('def load(it: int) -> None:\n    """The load."""'),
    }
    faults = prose.exceeded(rooms)
    assert [fault.split(":")[0] for fault in faults] == ["no room is called gone", "bad", "bad", "bad"]


def test_a_room_whose_algorithms_say_why_has_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "DONE", frozenset({"silent"}))
    rooms = {"silent": measured('def load_library() -> None:\n    """Load."""')}
    monkeypatch.setattr(prose, "COMMENTED", frozenset())
    assert prose.exceeded(rooms) == []
    monkeypatch.setattr(prose, "COMMENTED", frozenset({"silent"}))
    assert [fault.split(":")[0] for fault in prose.exceeded(rooms)] == ["rooms with comments"]


def test_a_command_has_the_name_that_users_type() -> None:
    assert measured('@main.command()\ndef check() -> None:\n    """Check."""').one_word.total == 0
    assert measured('@cached\ndef check() -> None:\n    """Check."""').one_word.number == 1


def differences(old: str, new: str, *, user: tuple[str, str] = ("", "")) -> list[str]:
    comparison = Comparison()
    comparison.compare_modules(textwrap.dedent(old), textwrap.dedent(new), "a.py")
    comparison.compare_modules(*user, "b.py")
    return comparison.conclude()


OLD = '''
    """A module."""
    from x import zebra

    class Found:
        """What was found."""
        its: int = 0

        def get(self, one: int) -> int:
            """Its value."""
            return self.its + sum(each + one for each in range(one)) + zebra
'''


def test_names_and_docstrings_may_differ() -> None:
    new = '''
        """The same module."""
        from x import zebra

        class Match:
            size: int = 0
            """A field."""

            def compute_size(self, count: int) -> int:
                # Why.
                return self.size + sum(index + count for index in range(count)) + zebra
    '''
    users = "from a import Found\nFound(its=1).get(one=2)", "from a import Match\nMatch(size=1).compute_size(count=2)"
    assert differences(OLD, new, user=users) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("one: int) -> int:", "one: str) -> int:"),  # another type
        ("self.its + sum", "self.its - sum"),
        ("range(one)", "range(self)"),  # another variable
        ("each + one for each", "one + one for one"),  # two variables become one
        ("+ zebra", "+ giraffe"),  # no such name
        ("self.its", "self.size"),  # no such attribute
        ("its: int = 0", "its: int = 1"),
        ("import zebra", "import lion"),
    ],
)
def test_what_else_differs_is_found(old: str, new: str) -> None:
    assert old in OLD
    assert differences(OLD, OLD) == []
    assert differences(OLD, OLD.replace(old, new)) != []


def test_a_use_may_change_only_as_a_definition_does() -> None:
    assert differences("x.load()", "x.load_library()") != []
    assert differences("def load(): ...", "def load_library(): ...", user=("x.load()", "x.load_library()")) == []


def test_an_import_may_be_sorted_anew() -> None:
    users = "from a import load, zebra\nload(zebra)", "from a import zebra, zip_library\nzip_library(zebra)"
    names = "def load(): ...\nzebra = 1", "def zip_library(): ...\nzebra = 1"
    assert differences(*names, user=users) == []
    swapped = users[0], "from a import zebra, zip_library\nzebra(zip_library)"
    assert differences(*names, user=swapped) != []
