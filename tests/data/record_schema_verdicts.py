#!/usr/bin/env python3
"""Ask the torch of this interpreter about every schema in ``schema_verdicts.json``, and write its answers there.

An entry is ``[text, what torch prints of it, what torch says against it]``, one of the last two null. To add a text,
add it with two nulls and run this. Names of source files and lines of torch are left out of what it says.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch

RECORD = Path(__file__).with_name("schema_verdicts.json")

_ASSERTION = re.compile(r'^.* INTERNAL ASSERT FAILED at ".*":\d+, please report a bug to PyTorch\. ')


def verdict(text: str) -> tuple[str, str | None, str | None]:
    """What torch makes of a text."""
    try:
        return text, str(torch._C.parse_schema(text)), None
    except (RuntimeError, ValueError, IndexError) as error:
        return text, None, _ASSERTION.sub("", str(error))


def main() -> None:
    """Record the verdicts anew."""
    texts = [text for text, _, _ in json.loads(RECORD.read_text(encoding="utf-8"))["verdicts"]]
    lines = ",\n".join(json.dumps(verdict(text)) for text in texts)
    RECORD.write_text(f'{{"torch": "{torch.__version__}", "verdicts": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
