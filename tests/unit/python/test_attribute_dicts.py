"""Dicts with attributes, and attributes that code may have deleted."""

from __future__ import annotations

import pytest

from abiscan.python.package.model import Answer
from tests.unit.python.packages import check_claim, reading_of

SOURCE = """
class D(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self
class L(list):
    def __init__(self, *args):
        super().__init__(*args)
"""


@pytest.mark.parametrize(
    "claim", ["D(a=1)['a'] == 1", "len(D({'b': 2}, a=1)) == 2", "len(D()) == 0", "L('ab') == ['a', 'b']"]
)
def test_a_class_of_its_own_is_filled_by_keywords_too(claim: str) -> None:
    check_claim(SOURCE, claim)


def test_an_attribute_may_be_gone_after_a_loop_that_may_run() -> None:
    code = "import os\nclass C: pass\nm = C()\nm.a = 1\nfor _ in range(os.getpid()):\n    if hasattr(m, 'a'): del m.a\n"
    (outcome,) = reading_of({"p/__init__.py": f"{code}if hasattr(m, 'a'): raise ImportError('still there')\n"}).imports
    assert outcome.raised in {None, Answer.UNKNOWN}
