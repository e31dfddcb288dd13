"""Options that calls set by name: ``torch.compile(f, options={"max_autotune": True})``, ``config.patch(debug=1)``.

They are the names of modules such as ``torch._inductor.config``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from abiscan.regex import regex

COMPILE: Final = "torch.compile"
INDUCTOR: Final = "torch._inductor.config"
_PATCH: Final = ".config.patch"
_WORD: Final = regex(rb"[\"']([A-Za-z_][\w-]*)[\"']\s*[:,]|\b([A-Za-z_]\w*)\s*=(?!=)")


def list_words(source: bytes) -> set[str]:
    """Return what may be names of options in a source, going by its text; none if it sets none by name."""
    if b"options" not in source and b".patch(" not in source:
        return set()
    return {(match[1] or match[2]).decode().replace("-", "_") for match in _WORD.finditer(source)}


def options_in(node: ast.Call, called: str) -> Iterator[str]:
    """Yield the dotted names of the options that a call sets.

    :param called: the dotted name of the function
    """
    values = {keyword.arg: keyword.value for keyword in node.keywords}
    if called == COMPILE:
        backend = values.get("backend")
        if backend is None or (isinstance(backend, ast.Constant) and backend.value == "inductor"):
            yield from (f"{INDUCTOR}.{name}" for name in _keys_of(values.get("options")))
    elif called.endswith(_PATCH):
        first = node.args[0] if node.args else None
        names = [name for name in values if name is not None] if first is None else list(_keys_of(first))
        yield from (f"{called.removesuffix('.patch')}.{name}" for name in names)


def _keys_of(node: ast.expr | None) -> Iterator[str]:
    """Yield the names in a dictionary, or the one that is a text; those of options in classes of options left out."""
    for key in node.keys if isinstance(node, ast.Dict) else (node,):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            name = key.value.replace("-", "_")
            if name.isidentifier():
                yield name
