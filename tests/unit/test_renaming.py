"""The proof of ``tools.renaming`` that only names, docstrings and comments changed."""

from __future__ import annotations

import textwrap

import pytest

from tools.renaming import Comparison


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
