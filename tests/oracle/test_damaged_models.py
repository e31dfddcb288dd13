"""Models that lack what their loader needs, held against what the loader of this torch does with them."""

from __future__ import annotations

import copy
import functools
import io
import json
import operator
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import abiscan
from abiscan.errors import InputError
from tests import live_torch

pytestmark = [pytest.mark.slow, pytest.mark.skipif(live_torch.version() != "2.13.0", reason="needs torch 2.13.0")]

RELEASE: Final = "2.13.0"
PROGRAM: Final = "export/models/model.json"
LOADS: Final = """
import json, sys, torch
def loads(path):
    try:
        (torch.jit.load if path.endswith(".pt") else torch.export.load)(path)
    except Exception:
        return False
    return True
print(json.dumps({path: loads(path) for path in sys.argv[1:]}))
"""
GRAPH: Final = "graph_module graph"
WRONG: Final[tuple[tuple[str, object], ...]] = (
    ("graph_module", 1),
    ("range_constraints", 5),
    ("schema_version", {"major": 8}),
    ("schema_version", 8),
    ("verifiers", 5),
    ("guards_code", []),
    ("range_constraints", {"s0": 5}),
    ("graph_module metadata", 5),
    ("graph_module module_call_graph", [5]),
    ("graph_module module_call_graph 0 signature", {}),
    ("graph_module module_call_graph 0 signature", None),
    (f"{GRAPH} nodes", []),
    (f"{GRAPH} inputs", []),
    (f"{GRAPH} outputs", []),
    (f"{GRAPH} tensor_values", {}),
    (f"{GRAPH} tensor_values x", 5),
    (f"{GRAPH} tensor_values x sizes", ["2"]),
    (f"{GRAPH} tensor_values x device", "cpu"),
    (f"{GRAPH} tensor_values x layout", None),
    (f"{GRAPH} sym_int_values", {"s0": {}}),
    (f"{GRAPH} nodes 0 inputs 0 name", None),
    (f"{GRAPH} nodes 0 inputs 0 arg", {}),
    (f"{GRAPH} nodes 0 inputs 0 arg", {"as_tensor": {"name": "none_such"}}),
    (f"{GRAPH} nodes 0 inputs 0 arg", {"as_tensor": {"name": "x"}, "as_none": True}),
    (f"{GRAPH} nodes 0 inputs 0 arg", {"as_what": 1}),
    (f"{GRAPH} nodes 0 outputs", [{"as_tensor": None}]),
    (f"{GRAPH} nodes 0 metadata", 5),
    (f"{GRAPH} nodes 0 further", 5),
    ("graph_module signature input_specs", []),
    ("graph_module signature input_specs 0", {"parameter": {}}),
    ("graph_module signature input_specs 0 parameter parameter_name", "none_such"),
    ("graph_module signature output_specs 0", {"user_output": {"arg": 5}}),
)
Members = Mapping[str, bytes]


def members_of(name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(Path(__file__).with_name("models.zip")) as models:
        content = models.read(f"{RELEASE}/{name}")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def without(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def programs(document: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Programs that lack a part, or have something else in its place."""
    yield from (("nothing of it", {"a": 1}), ("empty", {}), ("a list", []), ("null", None))
    module = document["graph_module"]
    for name in document:
        yield f"no {name}", without(document, name)
    for name in module:
        yield f"no {name}", {**document, "graph_module": without(module, name)}
    for part in ("graph", "signature"):
        for name in module[part]:
            yield f"{part}: no {name}", {**document, "graph_module": {**module, part: without(module[part], name)}}
    first, *further = module["graph"]["nodes"]
    nodes = {f"node: no {name}": [without(first, name), *further] for name in first if name != "name"}
    for what, value in {**nodes, "nodes: 5": 5, "nodes: null": None, "nodes: numbers": [5]}.items():
        yield what, {**document, "graph_module": {**module, "graph": {**module["graph"], "nodes": value}}}
    for path, wrong in WRONG:
        changed: Any = copy.deepcopy(document)
        *parents, last = (int(name) if name.isdecimal() else name for name in path.split())
        functools.reduce(operator.getitem, parents, changed)[last] = wrong
        yield f"{path}: {str(wrong)[:30]}", changed


def damaged() -> Iterator[tuple[str, Members]]:
    """Models with an ending for their names."""
    program, script = members_of("export.pt2"), members_of("script.pt")
    yield from (("whole.pt2", program), ("whole.pt", script))
    yield from ((f"{number}.pt2", without(program, name)) for number, name in enumerate(program))
    yield from (
        (f"{number}.pt", without(script, name)) for number, name in enumerate(script) if "linear.py" not in name
    )
    for what, document in programs(json.loads(program[PROGRAM])):
        yield f"{what}.pt2", {**program, PROGRAM: json.dumps(document).encode()}
    for name, content in (("archive_format", b"pt"), ("archive_version", b"0\n"), ("models/second.json", b'{"a": 1}')):
        yield f"{name.replace('/', ' ')}.pt2", {**program, f"export/{name}": content}
    for kind in ("weights", "constants"):
        for text in ("", "{}", '{"config": 1}', '{"config": {"a": 1}}', '{"config": {"a": {}}}'):
            name = f"export/data/{kind}/model_{kind}_config.json"
            yield f"{kind} {text}.pt2", {**program, name: text.encode()}
    weights = "export/data/weights/model_weights_config.json"
    listed = json.loads(program[weights])["config"]
    name, *_ = listed
    for what, config in (
        ("not listed", without(listed, name)),
        ("no shape", {**listed, name: {**listed[name], "tensor_meta": None}}),
        ("path", {**listed, name: {**listed[name], "path_name": 5}}),
        ("dtype", {**listed, name: {**listed[name], "tensor_meta": {**listed[name]["tensor_meta"], "dtype": "x"}}}),
    ):
        yield f"weights {what}.pt2", {**program, weights: json.dumps({"config": config}).encode()}
    for what, content in (("garbage", b"\x80garbage"), ("empty", b""), ("text", b"none")):
        yield f"sample inputs {what}.pt2", {**program, "export/data/sample_inputs/model.pt": content}
    yield "no code.pt", {**script, "script/code/__torch__.py": b""}


def works(path: Path) -> bool:
    try:
        return abiscan.check(path, RELEASE).packages[0].verdict is abiscan.PackageVerdict.WORKS
    except InputError:
        return False


def test_what_torch_does_not_load_does_not_work(tmp_path: Path) -> None:
    paths = []
    for name, members in damaged():
        paths.append(tmp_path / name.replace("/", " "))
        with zipfile.ZipFile(paths[-1], "w") as archive:
            for member, content in members.items():
                archive.writestr(zipfile.ZipInfo(member), content)
    done = live_torch.run(LOADS, *paths, check=True)
    real = {Path(path).name: loads for path, loads in json.loads(done.stdout.splitlines()[-1]).items()}
    assert len(real) > 60
    assert {path.name: works(path) for path in paths} == real
