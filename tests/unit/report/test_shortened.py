"""What a view leaves out is counted."""

from __future__ import annotations

import re

from abiscan.extension.built_for import BuiltFor
from abiscan.models.model import ModelFormat
from abiscan.report import matrix_html, model_text
from abiscan.results.matrix import Matrix, Row
from abiscan.results.model_operators import ModelOperators, NeededOperator
from tests.unit.report.reports import failure, finding


def test_evidence_on_the_page_of_a_matrix() -> None:
    for count in (3, 60):
        cells = {"2.9.1": failure(findings=(finding(proofs=count),))}
        row = Row(target="x.so", path="_C.so", built_for=BuiltFor(releases=(), clues=()), declared=None, results=cells)
        page = matrix_html.render_page(Matrix(rows=(row,), releases=("2.9.1",), suggestions={"x.so": None}))
        shown = len(re.findall(r"<li><code>f\d+\(\)</code>", page))
        left_out = [int(number) for number in re.findall(r"… (\d+) more</li>", page)]
        assert shown + sum(left_out) == count
        assert len(left_out) == (shown < count)


def test_places_of_calls_in_a_model() -> None:
    names = ("classes", "globals", "devices", "instructions", "libraries", "gaps")
    empty: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    calls = ("m.py:1", "m.py:2", "m.py:3")
    operators = (NeededOperator(name="aten::add", brought_by=None, calls=calls),)
    model = ModelOperators(
        target="m.pt", format=ModelFormat.EXPORT, saved_by=None, versions={}, operators=operators, **empty
    )
    lines = [
        model_text.render_model(model, lambda text, **_: str(text), verbose=verbose).splitlines()[-1]
        for verbose in (False, True)
    ]
    assert lines == ["operator aten::add  m.py:1 and 2 more calls", "operator aten::add  m.py:1, m.py:2, m.py:3"]
