"""Archives of models, made by hand: as torch writes them, and as nobody should."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

CODE: Final = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    return {expression}
"""


def write(path: Path, members: Mapping[str, bytes | str], *, root: str = "m", deflated: bool = False) -> Path:
    """A zip archive whose members are below a folder."""
    how = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(f"{root}/{name}" if root else name, content)
    return path


def script(path: Path, expression: str = "torch.relu(x)", **more: bytes | str) -> Path:
    """A TorchScript archive with one expression."""
    empty = pickle.dumps((), protocol=2)
    members: dict[str, bytes | str] = {"data.pkl": empty, "constants.pkl": empty}
    members["code/__torch__.py"] = CODE.format(expression=expression)
    return write(path, {**members, "version": "3\n", **more})


TENSOR: Final = {
    "dtype": 7,
    "sizes": [{"as_int": 4}],
    "strides": [{"as_int": 1}],
    "storage_offset": {"as_int": 0},
    "layout": 7,
    "requires_grad": False,
    "device": {"type": "cpu", "index": None},
}
"""What an exported program says of a tensor."""


def graph(*targets: str, schema: tuple[int, int] = (8, 8), inputs: tuple[str, ...] = ("self",)) -> str:
    """The JSON of an exported program whose nodes call operators."""
    nodes: list[Any] = [
        {
            "target": target,
            "inputs": [{"name": name, "arg": {"as_tensor": {"name": "x"}}} for name in inputs],
            "outputs": [],
            "metadata": {},
        }
        for target in targets
    ]
    argument = {"as_tensor": {"name": "x"}}
    program: dict[str, Any] = {"nodes": nodes, "inputs": [argument], "outputs": []}
    program |= {"tensor_values": {"x": TENSOR}}
    program |= {"sym_int_values": {}, "sym_bool_values": {}}
    signature: dict[str, Any] = {"input_specs": [{"user_input": {"arg": argument}}], "output_specs": []}
    module = {"graph": program, "signature": signature, "module_call_graph": []}
    version = {"major": schema[0], "minor": schema[1]}
    document = {"graph_module": module, "schema_version": version, "opset_version": {}, "range_constraints": {}}
    return json.dumps(document)


def exported(path: Path, *targets: str, version: str = "0", **more: bytes | str) -> Path:
    """An exported program in the layout from 2.8 on."""
    config = json.dumps({"config": {}})
    members: dict[str, bytes | str] = {"archive_format": "pt2", "archive_version": version, ".data/version": "6\n"}
    members |= {"models/model.json": graph(*targets), "data/sample_inputs/model.pt": b""}
    members |= {f"data/{kind}/model_{kind}_config.json": config for kind in ("weights", "constants")}
    return write(path, {**members, **more})


def flat(path: Path, *targets: str, version: str = "8.7", without: str = "") -> Path:
    """An exported program in the layout up to 2.7."""
    parts = ("serialized_state_dict.pt", "serialized_constants.pt", "serialized_example_inputs.pt")
    members: dict[str, bytes | str] = {"version": version, "serialized_exported_program.json": graph(*targets)}
    members |= {part: b"" for part in parts if part != without}
    return write(path, members, root="")
