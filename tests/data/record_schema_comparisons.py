"""Record how torch compares schemas, for ``tests/unit/dispatch/test_comparisons.py``.

    python -m tests.data.record_schema_comparisons

These are some of the pairs of ``tests/oracle/test_schema.py``, which asks all of them of the torch that is installed;
some are for the tests that need no torch.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Final

from tests.oracle.test_schema import TYPES, ask, edited, sample

FILE: Final = Path(__file__).with_name("schema_comparisons.json.gz")
COUNT: Final = 1500


def main() -> None:
    groups = [list(dict.fromkeys(edited(text))) for text in sample(ask()["schemas"], 120)]
    texts = [text for group in groups for text in group]
    judged = ask(judged=texts)
    refused = {text for text, (kept, _) in zip(texts, judged["judged"], strict=True) if kept is None}
    near = [pair for first, *others in groups for other in others for pair in ((first, other), (other, first))]
    pairs = random.Random(0).sample([pair for pair in near if refused.isdisjoint(pair)], COUNT)
    for pair in TYPES:
        for one, two in (pair, pair[::-1]):
            pairs += [(form.format(one), form.format(two)) for form in ("a::b({} x) -> ()", "a::b() -> ({})")]
    answers = ask(compared=pairs)["compared"]
    content = {
        "torch": judged["version"],
        "pairs": [[*pair, *map(int, answer)] for pair, answer in zip(pairs, answers, strict=True)],
    }
    FILE.write_bytes(gzip.compress(json.dumps(content).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
