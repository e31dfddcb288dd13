"""The schema language held against a living torch, in a process of its own."""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.dispatch.schema import FunctionSchema, SchemaError
from tests import live_torch

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")

DATA: Final = Path(__file__).parents[1] / "data"

# Answers one JSON question on standard input. Assertions of torch lose the file and line they stand in.
TORCH: Final = r"""
import json, re, sys
import torch

parse = torch._C.parse_schema

def judged(text, allow_typevars=True):
    try:
        return [str(parse(text, allow_typevars)), None]
    except (RuntimeError, ValueError, IndexError) as error:
        return [None, re.sub(r'^.* ASSERT FAILED at ".*":\d+, please report a bug to PyTorch\. ', '', str(error))]

def holds(question):
    try:
        return question()
    except IndexError:  # vector::_M_range_check, where an output has no counterpart
        return False

def compared(first, second):
    first, second = parse(first), parse(second)
    return [
        first == second,
        holds(lambda: first.is_backward_compatible_with(second)),
        holds(lambda: first.check_forward_compatible_with(second)[0]),
    ]

question = json.load(sys.stdin)
json.dump({
    "version": torch.__version__,
    "schemas": [str(schema) for schema in torch._C._jit_get_all_schemas()],
    "judged": [judged(text) for text in question.get("judged", [])],
    "without_typevars": [judged(text, False) for text in question.get("without_typevars", [])],
    "compared": [compared(*pair) for pair in question.get("compared", [])],
}, sys.stdout)
"""


def ask(**question: object) -> dict[str, Any]:
    done = live_torch.run(TORCH, input=json.dumps(question))
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def schemas() -> list[str]:
    """Every schema of torch."""
    found: list[str] = ask()["schemas"]
    assert len(found) > 4_000
    return found


def verdict(text: str, *, allow_typevars: bool = True) -> list[str | None]:
    try:
        return [str(FunctionSchema.parse(text, strict=True, allow_typevars=allow_typevars)), None]
    except SchemaError as error:
        return [None, str(error)]


def disagreements(texts: list[str]) -> Iterator[tuple[str, list[str | None], list[str | None]]]:
    for text, theirs in zip(texts, ask(judged=texts)["judged"], strict=True):
        ours = verdict(text)
        if "Unknown custom class type" in (theirs[1] or ""):  # nothing has registered it in that process
            continue
        if ours != theirs:
            yield text, ours, theirs


def test_all_schemas_of_torch(schemas: list[str]) -> None:
    assert list(disagreements(schemas)) == []
    parsed = [FunctionSchema.parse(text) for text in schemas]
    again = [str(schema) for schema in parsed]
    assert [FunctionSchema.parse(text) for text in again] == parsed


def test_all_recorded_schemas() -> None:
    lines = gzip.decompress((DATA / "schemas.txt.gz").read_bytes()).decode().splitlines()
    texts = [line.split("\t")[1] for line in lines]
    assert len(texts) > 6_000
    assert list(disagreements(texts)) == []


def test_the_recorded_verdicts() -> None:
    record = json.loads((DATA / "schema_verdicts.json").read_text(encoding="utf-8"))
    answer = ask(judged=[text for text, _, _ in record["verdicts"]])
    if answer["version"].split("+")[0] != record["torch"].split("+")[0]:
        pytest.skip(f"needs torch {record['torch']}")
    assert answer["judged"] == [list(verdict) for _, *verdict in record["verdicts"]]


def sample(schemas: list[str], count: int) -> list[str]:
    """Some schemas, the same each time, and all that are rich in rare things."""
    rare = [text for text in schemas if re.search(r'"|\.\.\.|Dict|Future|\(\(|\|', text)]
    return random.Random(0).sample(sorted(schemas), count) + rare[:40]


def broken(text: str) -> Iterator[str]:
    """The text without each of its tokens, with each one twice, and cut off before it."""
    tokens = list(re.finditer(r"\w+|->|\.\.\.|::|\S", text))
    for token in tokens:
        yield text[: token.start()] + text[token.end() :]
        yield text[: token.end()] + " " + text[token.start() :]
        yield text[: token.start()]
    for wrong in ("$", "?", "[", "=", "(a!)", "in", "1.5", "\n", "'", "*", "...", "None", ": :", "\\"):
        for token in tokens[:: max(1, len(tokens) // 7)]:
            yield text[: token.start()] + wrong + text[token.start() :]


def test_broken_schemas_are_refused_in_the_words_of_torch(schemas: list[str]) -> None:
    texts = list(dict.fromkeys(wrong for text in sample(schemas, 60) for wrong in broken(text)))
    assert len(texts) > 5_000
    found = list(disagreements(texts))
    assert found == []


def test_type_variables_can_be_forbidden(schemas: list[str]) -> None:
    texts = [text for text in schemas if re.search(r"\bt\d?\b", text)]
    texts += [text.replace("aten::", "ours::").replace("prim::", "ours::") for text in texts]
    answers = ask(without_typevars=texts)["without_typevars"]
    assert any(refused for _, refused in answers)
    assert [verdict(text, allow_typevars=False) for text in texts] == answers


# A pattern and what the first match becomes: the edits by which schemas really change from one release to the next,
# and some that change nothing.
EDITS: Final = (
    (r"\(Tensor ", "(Tensor? "),
    (r"Tensor\? ", "Tensor "),
    (r"\(Tensor (\w+)", r"(Tensor renamed_\1"),
    (r"\(Tensor ", "(Any "),
    (r"Tensor\(a!\)", "Tensor(b!)"),
    (r"Tensor\(a!\)", "Tensor"),
    (r"\(a!?\)", "(a|c)"),
    (r"\(a\)", "(a -> *)"),
    (r"\bint\b", "SymInt"),
    (r"\bSymInt\b", "int"),
    (r"\bint\b", "Scalar"),
    (r"\bfloat\b", "Scalar"),
    (r"\bScalar\b", "float"),
    (r"\bint\?", "int"),
    (r"\bint\b", "int?"),
    (r"\bScalarType\b", "int"),
    (r"\bbool\b", "int"),
    (r"\bstr\b", "Any"),
    (r"\[\d+\]", "[]"),
    (r"\[\]", "[2]"),
    (r"\[\d+\]", "[7]"),
    (r"=False", "=True"),
    (r"=False", "=0"),
    (r"=(\d+)\b(?!\.)", r"=\1."),
    (r"=None", ""),
    (r"=[^,)]+\)", ")"),
    (r", \*, ", ", "),
    (r", (?!\*)", ", *, "),
    (r"(\w)\) -> ", r"\1, bool added=False) -> "),
    (r"(\w)\) -> ", r"\1, bool added) -> "),
    (r"(\w)\) -> ", r"\1, int[2] added=0) -> "),
    (r"(\w)\) -> ", r"\1, *, Tensor(z!) added) -> "),
    (r", \*, ", ", bool added=False, *, "),
    (r", Tensor\((\w)!\) ", r", bool added=False, Tensor(\1!) "),
    (r", [^,]+\) -> ", ") -> "),
    (r"\(([^,()]+), ([^,()]+)([,)])", r"(\2, \1\3"),
    (r"-> Tensor$", "-> Tensor?"),
    (r"-> Tensor$", "-> Any"),
    (r"-> Tensor\?$", "-> Tensor"),
    (r"-> Tensor$", "-> (Tensor, Tensor)"),
    (r"-> Tensor$", "-> Tensor result"),
    (r"-> \(Tensor, ", "-> (Tensor first, "),
    (r"-> int$", "-> Scalar"),
    (r"-> Scalar$", "-> int"),
    (r"-> .*$", "-> ()"),
    (r"-> .*$", "-> ..."),
    (r"::(\w+)", r"::other_\1"),
    (r"^([^(.]+)\(", r"\1.overload("),
    (r"\(\.\.\.\)", "()"),
    (r", ", ","),
    (r"\(\w+, \w+\)", "(Any, Any)"),
    (r"Dict\(\w+, \w+\)", "Dict(str, Any)"),
    (r"Future\(\w+\)", "Future(Any)"),
    (r"__torch__[.\w]+", "AnyClassType"),
    (r"(\w+)\[\]", r"\1?[]"),
    (r"Tensor\b", "Union(Tensor, int)"),
)


def edited(text: str) -> Iterator[str]:
    yield text
    for pattern, replacement in EDITS:
        changed = re.sub(pattern, replacement, text, count=1)
        if changed != text:
            yield changed
    for (pattern, replacement), (then, instead) in zip(EDITS, EDITS[13:] + EDITS[:13], strict=True):
        changed = re.sub(then, instead, re.sub(pattern, replacement, text, count=1), count=1)
        if changed != text:
            yield changed


def test_equality_and_compatibility_are_those_of_torch(schemas: list[str]) -> None:
    groups = [list(dict.fromkeys(edited(text))) for text in sample(schemas, 200)]
    readable = [text for group in groups for text in group]
    accepted = {
        text for text, (kept, _) in zip(readable, ask(judged=readable)["judged"], strict=True) if kept is not None
    }
    pairs = []
    for first, *others in groups:
        for other in others:
            if {first, other} <= accepted:
                pairs += [(first, other), (other, first)]
    assert len(pairs) > 5_000
    answers = ask(compared=pairs)["compared"]
    for column in zip(*answers, strict=True):
        assert len(set(column)) == 2  # neither answer is the only one
    wrong = []
    for (one, two), theirs in zip(pairs, answers, strict=True):
        mine, its = FunctionSchema.parse(one, strict=True), FunctionSchema.parse(two, strict=True)
        ours = [
            mine == its,
            mine.is_backward_compatible_with(its),
            mine.is_forward_compatible_with(its),
        ]
        assert (mine.first_difference(its) is None) == (mine == its)
        if ours != theirs:
            wrong.append((one, two, ours, theirs))
    assert wrong == []


# Pairs of types that are equal, or one inside of the other, or neither though one might think so.
TYPES: Final = (
    ("t", "u"),
    ("t[]", "u[]"),
    ("t?", "u?"),
    ("Dict(int,t)", "Dict(int,u)"),
    ("(t,u)", "(u,t)"),
    ("t", "int"),
    ("Future(t)", "Future(u)"),
    ("Union(int,float,complex)", "Scalar"),
    ("Union(int,float,complex)?", "Scalar?"),
    ("Scalar??", "Scalar?"),
    ("Union(Tensor,None)", "Tensor?"),
    ("Union(str,int)", "Union(int,str)"),
    ("Any", "t"),
    ("Any?", "Any"),
    ("Any", "Any?"),
    ("Any", "Tensor?"),
    ("Tensor?", "None"),
    ("Scalar", "Union(int,float)"),
    ("Scalar", "Union(int,float,complex)"),
    ("Union(int,float,complex)", "Scalar"),
    ("Scalar?", "Union(int,None)"),
    ("Union(int,str,None)", "int?"),
    ("Union(int,str)", "int?"),
    ("Scalar?", "int"),
    ("Scalar", "int?"),
    ("Scalar[]", "int[]"),
    ("Any[]", "int[]"),
    ("(Scalar,Any)", "(int,str)"),
    ("Future(Any)", "Future(int)"),
    ("RRef(Any)", "RRef(int)"),
    ("Await(Any)", "Await(int)"),
    ("Dict(str,Any)", "Dict(str,int)"),
    ("AnyClassType", "__torch__.torch.classes.c10d.ProcessGroup"),
    ("Any", "__torch__.torch.classes.c10d.ProcessGroup"),
    ("AnyClassType", "AnyEnumType"),
    ("Union(Tensor, Scalar)", "int"),
    ("Union(Tensor, Scalar)", "Scalar"),
    ("Union(Tensor, Scalar)", "bool"),
    ("Union(Tensor, Scalar, None)", "Tensor?"),
    ("Union(Tensor, Scalar, None)", "Scalar?"),
    ("Tensor?[]", "Tensor[]"),
    ("int", "bool"),
    ("float", "int"),
    ("Union(Any[],str)", "int[]"),
    ("Union(int?[],str)", "int[]"),
    ("Any", "Union(int,str)"),
    ("Any", "Union(int,None,str)"),
    ("Any?", "Union(int,None,str)"),
    ("Union(int,None,str)", "None"),
    ("Storage", "int"),
    ("t", "Any"),
    ("Scalar", "SymInt"),
    ("SymInt", "Scalar"),
    ("bool", "SymBool"),
    ("Tensor(a)", "Tensor(a)"),
    ("Tensor!", "Tensor!"),
    ("int[2]", "int[2]?"),
    ("t?", "None"),
    ("(int, int)?", "(int, int)"),
    ("()", "()"),
    ("()", "(int)"),
)


def test_types_are_compared_as_torch_does() -> None:
    pairs = [
        (form.format(one), form.format(two))
        for pair in TYPES
        for one, two in (pair, pair[::-1])
        for form in ("a::b({} x) -> ()", "a::b() -> ({})")
    ]
    for (one, two), theirs in zip(pairs, ask(compared=pairs)["compared"], strict=True):
        first, second = FunctionSchema.parse(one, strict=True), FunctionSchema.parse(two, strict=True)
        ours = [first == second, first.is_backward_compatible_with(second), first.is_forward_compatible_with(second)]
        assert ours == theirs, (one, two)
