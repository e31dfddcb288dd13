"""2,000 hostile inputs through the commands; ``make fuzz`` makes 100,000."""

from __future__ import annotations

import pytest

from tools.fuzz.guided import CORPUS, PARSERS, parse
from tools.fuzz.run import escapes

pytestmark = pytest.mark.hostile

SEED = 21
COUNT = 2_000
PARTS = 5  # one process each: tools.fuzz.run starts another after 400


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_escapes(part: int) -> None:
    finished: list[None] = []
    found = list(escapes(SEED, range(part, COUNT, PARTS), None, lambda: finished.append(None)))
    assert [f"--seed {SEED} --only {escape.number}: {escape.how}" for escape in found] == []
    assert len(finished) == COUNT // PARTS


@pytest.mark.parametrize("parser", PARSERS)
def test_no_parser_fails_on_its_corpus(parser: str) -> None:
    inputs = sorted((CORPUS / parser).iterdir())
    assert inputs
    for path in inputs:
        parse(parser, path.read_bytes())
        parse(parser, path.read_bytes()[:-1])
