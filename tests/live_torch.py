"""The torch of the interpreter that runs the tests, known without importing it."""

from __future__ import annotations

import functools
import re

from abiscan.inputs import interpreter


@functools.cache
def build() -> str | None:
    """Its full version, ``2.13.0+cpu``; None without torch.

    From its own file, since the metadata of some wheels have the number alone: from PyPI, torch 2.13.0 is 2.13.0+cu130.
    """
    package = interpreter.installed_torch()
    if package is None:
        return None
    found = re.search(r"^__version__ = '([^']+)'", (package / "version.py").read_text("utf-8"), re.MULTILINE)
    assert found, package
    return found[1]


def version() -> str | None:
    """Its number, ``2.13.0``; None without torch."""
    full = build()
    return full.partition("+")[0] if full else None
