"""Compare the recorded syntax of newer Pythons with the Pythons of this machine.

    python -m tools.record_syntax

``tests/data/newer_syntax.jsonl`` has sources, each with a digest of its tree in Python 3.14.2 and with what Python 3.7
to 3.13 say of it. Each Python that is found parses all of them; what it says otherwise is printed, and the exit code is
1. To record more, add a line with the source alone: what the Pythons say is then filled in, and the digest by a Python
that accepts it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Final

RECORD: Final = Path(__file__).resolve().parent.parent / "tests" / "data" / "newer_syntax.jsonl"
_PROGRAM: Final = """
import ast, json, sys, warnings
warnings.simplefilter("ignore")
said = []
for source in json.load(sys.stdin):
    try:
        ast.parse(source)
        said.append(None)
    except SyntaxError as error:
        said.append("%s: %s (__init__.py, line %s)" % (type(error).__name__, error.msg, error.lineno))
print(json.dumps(said))
"""


def digest(tree: ast.AST) -> str:
    """Return a digest of a tree with its places, but for those inside of f-strings, which old Pythons do not know."""
    return hashlib.sha256(repr(_describe(tree)).encode()).hexdigest()[:16]


def _describe(value: Any) -> Any:
    if isinstance(value, list):  # Python 3.12.1 puts empty texts into f-strings
        return [_describe(item) for item in value if getattr(item, "value", None) != ""]
    if not isinstance(value, ast.AST):
        return repr(value)
    kind = type(value).__name__
    added = {"type_params"} if kind.endswith("Def") else {"default_value"} if kind in _PARAMETERS else set()
    names = sorted({*value._fields, *added} - {"kind", "type_comment"})
    unset: dict[str, object] = {"type_params": []}
    places = () if kind in _INSIDE_TEXTS else tuple(getattr(value, name, None) for name in _PLACES)
    fields = {name: getattr(value, name, unset.get(name)) for name in names}
    if kind == "Interpolation":  # Python 3.14.10 keeps the spaces around its text, 3.14.2 does not
        fields["str"] = str(fields["str"]).strip()
    return [kind, places, [(name, _describe(field)) for name, field in fields.items()]]


_PARAMETERS: Final = frozenset({"TypeVar", "TypeVarTuple", "ParamSpec"})
_INSIDE_TEXTS: Final = frozenset({"Constant", "FormattedValue", "JoinedStr"})
_PLACES: Final = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def main() -> int:
    """Compare, and fill in what is not recorded."""
    from tools.pythons import interpreter

    rows = [json.loads(line) for line in RECORD.read_text("utf-8").splitlines()]
    differences = 0
    for minor in range(7, 15):
        python = interpreter(f"3.{minor}")
        if python is None:
            print(f"3.{minor}: not found")
            continue
        sources = json.dumps([row["source"] for row in rows])
        answer = subprocess.run([python, "-c", _PROGRAM], input=sources, capture_output=True, text=True, check=True)
        for row, said in zip(rows, json.loads(answer.stdout), strict=True):
            recorded = row.setdefault("said", {})
            if "tree" not in row and said is not None:
                recorded[f"3.{minor}"] = said
            elif recorded.get(f"3.{minor}") != said:
                differences += 1
                print(f"3.{minor}: {row['source']!r}: {said}, recorded: {recorded.get(f'3.{minor}')}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in rows:
            if "tree" not in row:
                row["tree"] = digest(ast.parse(row["source"]))
    RECORD.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
