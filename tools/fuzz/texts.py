"""What users and their tools write: baselines, ``pyproject.toml``, operator lists, saved models, schemas."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import zipfile
from pathlib import Path
from random import Random
from typing import Any, Final

from abiscan.dispatch.schema import parse_name_or_schema
from abiscan.dispatch.schema_lexer import SchemaError
from tools.fuzz.model import SAMPLES, TORCH, Case, damaged

_FAILING: Final = str(SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so")
_BACKEND: Final = str(SAMPLES / "registrations" / "backend.so")
_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1e308,
    "",
    "x",
    "\ud800",
    "\0",
    [],
    {},
    [[]],
    {"": {}},
    10**400,
    "2.13.0",
    "undefined-symbol",
)


@functools.cache
def _report() -> str:
    import abiscan

    return abiscan.check(_FAILING, "2.13.0").to_json()


def value(random: Random, depth: int = 0) -> Any:
    """Some JSON."""
    if depth > 4 or random.random() < 0.6:
        return random.choice(_VALUES)
    if random.random() < 0.5:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {str(random.choice(_VALUES[5:9])): value(random, depth + 1) for _ in range(random.randrange(4))}


def changed(node: Any, random: Random) -> Any:
    """A JSON document with something else in one place."""
    if random.random() < 0.2 or not node or not isinstance(node, dict | list):
        return value(random)
    if isinstance(node, dict):
        key = random.choice(list(node))
        if random.random() < 0.1:
            return {other: node[other] for other in node if other != key}
        return {**node, key: changed(node[key], random)}
    index = random.randrange(len(node))
    return [*node[:index], changed(node[index], random), *node[index + 1 :]]


def _json(node: Any, random: Random) -> bytes:
    text = json.dumps(node).encode()
    if random.random() < 0.3:
        return damaged(text, random)
    if random.random() < 0.02:
        return random.choice(
            (b"[" * 100_000, b'{"a":' * 50_000, b"1" * 100_000, text + text, text.decode().encode("utf-16"), b"")
        )
    return text


def baseline(random: Random, folder: Path) -> Case:
    """A damaged baseline."""
    file = folder / "baseline.json"
    file.write_bytes(_json(changed(json.loads(_report()), random), random))
    return Case(words=["check", _FAILING, *TORCH, "--baseline", str(file)])


_TOML: Final = """[project]
name = "x"
[tool.abiscan]
suppress = [
  {rule = "undefined-symbol", target = "*", reason = "because", until = 2027-01-31},
  {rule = "missing-library", target = "[", reason = "because", until = 2026-01-31},
]
"""
_TOML_VALUES: Final = ("1", "''", "[]", "{}", "2027-01-31", "2027-01-31T00:00:00Z", "0001-01-01", "9999-12-31",
    "nan", '"*"' * 2, '"[!"', "'''", "x",
                       '"\\ud800"', '"' + "*" * 500 + 'z"', "1" * 10_000, "[" * 5000, "{a=" * 2000, "0o9", "true",
                       "23:59:60")  # fmt: skip


def configuration(random: Random, folder: Path) -> Case:
    """A damaged ``pyproject.toml`` in the current folder."""
    text = _TOML
    for _ in range(random.randint(1, 3)):
        words = text.split(" ")
        words[random.randrange(len(words))] = random.choice(_TOML_VALUES)
        text = " ".join(words)
    data = damaged(text.encode(), random) if random.random() < 0.3 else text.encode()
    (folder / "pyproject.toml").write_bytes(data)
    os.chdir(folder)
    return Case(words=["check", _FAILING, *TORCH])


_GRAPH: Final[Any] = {
    "graph_module": {
        "graph": {"nodes": [{"target": "torch.ops.aten.add.Tensor", "inputs": []}, {"target": "torch.ops.x.y.default"}]}
    },
    "schema_version": {"major": 8, "minor": 1},
}
_SCRIPT: Final = (
    b"def forward(self, x):\n  a = torch.add(x, x)\n  b = ops.torchvision.nms(a, 'ops.x.y(')\n  return int(b)\n"
)
_LIST: Final = b"aten::add.Tensor\naten::mul.Tensor # comment\ntorch.ops.aten.sub.default\n"


def workload(random: Random, folder: Path) -> Case:
    """A damaged model."""
    file = folder / "model.pt2"
    form = random.randrange(3)
    if form == 0:
        file.write_bytes(damaged(_LIST, random))
    else:
        with zipfile.ZipFile(file, "w", random.choice((0, 8))) as archive:
            if form == 1:
                archive.writestr(
                    "model/code/__torch__.py", damaged(_SCRIPT, random) if random.random() < 0.7 else _SCRIPT * 10_000
                )
            else:
                name = random.choice(("model/models/model.json", "serialized_exported_program.json", "models/m.json"))
                archive.writestr(name, _json(changed(_GRAPH, random), random))
            archive.writestr("model/data.pkl", b"cos\nsystem\n(S'touch /tmp/abiscan-pickle'\ntR.")
        if random.random() < 0.5:
            file.write_bytes(damaged(file.read_bytes(), random, 3))
    return Case(words=["coverage", _BACKEND, *TORCH, "--backend", "PrivateUse1", "--workload", str(file)])


_SCHEMAS: Final = (
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "x::y(Tensor(a!)[] self, int[2]? size=[1, 2], Dict(str, Tensor) d, str s='a\\'b') -> (Tensor(a!), Tensor[])",
    "f(__torch__.torch.classes.x.Y self, float f=1.5e-3, Future(Tensor)? g=None, Device d=cpu) -> ...",
    "f(Union[int, Tensor?] x, complex c=1j, bool b=True, SymInt[] s=0, (Tensor, int) p) -> Tensor(a -> *)",
)
_TOKENS: Final = ("(", ")", "[", "]", "?", "!", "*", "->", "...", ",", "=", "'",
    '"', "\\", "Tensor", "int", "a|b", "::", ".", "9" * 30, "1e999", "-", "\0", "é",
                  "Dict(", "Union[", "Tuple(", "$", "#", "None", "inf", "nan", "0x", "\n", "\u00b2")  # fmt: skip


def schema(random: Random, folder: Path) -> Case:
    """A schema, parsed, compared with another one and printed."""
    del folder
    texts = [_schema(random) for _ in range(2)]
    return Case(call=functools.partial(_parse, texts, random.choice(((1, 4), (1, 8), (2, 5), (2, 13)))))


def _schema(random: Random) -> str:
    text = random.choice(_SCHEMAS)
    for _ in range(random.randint(0, 5)):
        at = random.randrange(len(text) + 1)
        token = random.choice(_TOKENS) * random.choice((1, 1, 1, 1, 3, 300, 20_000 if random.random() < 0.05 else 1))
        text = text[:at] + token + text[at + random.choice((0, 0, 1, 5)) :]
    return text


def _parse(texts: list[str], version: tuple[int, int]) -> None:
    for text in texts:
        for strict in (False, True):
            with contextlib.suppress(SchemaError):
                str(parse_name_or_schema(text, release=version, strict=strict))
