from __future__ import annotations

import contextlib
import io
import json
import zipfile
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs import workload
from abiscan.inputs.workload import read_workload


def archive(path: Path, **members: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in members.items():
            made.writestr(name, text)
    return path


def test_a_list_in_every_spelling(tmp_path: Path) -> None:
    path = tmp_path / "operators.txt"
    path.write_text("# of my model\naten::tanh\n\ntorch.ops.aten.add.Tensor  # sum\naten.mm.default\nvision::nms\n")
    assert read_workload(path) == ("aten::add.Tensor", "aten::mm", "aten::tanh", "vision::nms")


def test_a_list_with_something_else_in_it(tmp_path: Path) -> None:
    path = tmp_path / "operators.txt"
    path.write_text("aten::tanh\nnot an operator\n")
    with pytest.raises(InputError, match=r"operators\.txt:2: is not an operator: 'not an operator'"):
        read_workload(path)


def test_code_of_torchscript(tmp_path: Path) -> None:
    code = 'def forward(self, x):\n  s = "torch.quoted(1)"\n  return ops.vision.nms(torch.add(x, 1), my.torch.no(x))\n'
    path = archive(tmp_path / "model.pt", **{"m/code/__torch__.py": code, "m/data.pkl": "pickled"})
    assert read_workload(path) == ("aten::add", "vision::nms")


@pytest.mark.parametrize("member", ["serialized_exported_program.json", "model/models/model.json"])
def test_graph_of_an_exported_program(tmp_path: Path, member: str) -> None:
    inner = {"as_graph": {"graph": {"nodes": [{"target": "torch.ops.aten.sin.default"}]}}}
    nodes = [{"target": "torch.ops.higher_order.cond", "inputs": [inner]}, {"target": "torch.ops.aten.add.Tensor"}]
    path = archive(tmp_path / "model.pt2", **{member: json.dumps({"graph_module": {"graph": {"nodes": nodes}}})})
    assert read_workload(path) == ("aten::add.Tensor", "aten::sin")


def test_a_file_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "_MAX_BYTES", 1 << 16)
    path = archive(tmp_path / "bomb.pt", **{"m/code/a.py": b"#" * (1 << 20)})
    assert path.stat().st_size < 1 << 14
    with pytest.raises(InputError, match="unpacks to more than"):
        read_workload(path)
    monkeypatch.setattr(workload, "_MAX_BYTES", 1 << 20)
    assert read_workload(path) == ()


def test_damaged_files(tmp_path: Path) -> None:
    whole = archive(tmp_path / "whole.pt", **{"m/code/a.py": "torch.add(x)\n" * 200}).read_bytes()
    path = tmp_path / "damaged.pt"
    for length in range(4, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"damaged\.pt"):
            read_workload(path)
    for at in range(30, 60):  # in the compressed bytes
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with contextlib.suppress(InputError):  # anything else is a bug
            read_workload(path)


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"\x80\x02}q\x00.", b"PK\x03\x04" + b"\0" * 40])
def test_what_is_no_workload(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    if content == b"":
        assert read_workload(path) == ()
    else:
        with pytest.raises(InputError, match="file"):
            read_workload(path)


def test_archives_without_a_graph(tmp_path: Path) -> None:
    path = archive(tmp_path / "weights.pt", **{"weights/data.pkl": b"cos\nsystem\n(S'echo'\ntR."})
    with pytest.raises(InputError, match="neither TorchScript code nor an exported graph"):
        read_workload(path)


def test_deep_json(tmp_path: Path) -> None:
    path = archive(tmp_path / "deep.pt2", **{"m/models/m.json": b"[" * 200_000})
    with pytest.raises(InputError, match="JSON"):
        read_workload(path)


def test_an_encrypted_member(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("m/code/a.py", "torch.add(x)")
    data = bytearray(buffer.getvalue())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path = tmp_path / "secret.pt"
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="encrypted"):
        read_workload(path)
