"""Files of models, read: what is known of them, and what is wrong with those that are damaged or hostile."""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.errors import InputError
from abiscan.inputs.model_archive import ModelArchive
from abiscan.models.model import ModelFormat, ModelLayout
from abiscan.models.reading import read_model
from tests.unit.models.archives import CODE, TENSOR, exported, flat, graph, script, write

PAYLOAD: Final = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": TENSOR}
"""A weight in its configuration."""


def test_torchscript_calls_with_arguments(tmp_path: Path) -> None:
    model = read_model(script(tmp_path / "m.pt", 'ops.torchvision.nms(torch.add(x, 1, alpha=2), "torch.no(1)", 0.5)'))
    assert (model.format, model.layout, model.file_version) == (ModelFormat.TORCHSCRIPT, ModelLayout.TORCHSCRIPT, 3)
    calls = {call.name: (call.positional, call.names, call.at) for call in model.operators}
    assert calls == {
        "torchvision::nms": (3, (), "code/__torch__.py:6"),
        "aten::add": (2, ("alpha",), "code/__torch__.py:6"),
    }
    assert model.gaps == ()


def test_torchscript_that_is_no_python_is_searched_for_operators(tmp_path: Path) -> None:
    model = read_model(script(tmp_path / "m.pt", "torch.relu(x) ?? ops.ns.op('torch.sin(x)')"))
    assert {(call.name, call.positional) for call in model.operators} == {("aten::relu", None), ("ns::op", None)}
    assert any("does not parse" in gap for gap in model.gaps)


def test_custom_classes(tmp_path: Path) -> None:
    source = CODE.format(expression='torch.format("__torch__.torch.classes.no.No", x)')
    source = source.replace("x: Tensor", "x: __torch__.torch.classes.torchvision.Video")
    model = read_model(script(tmp_path / "m.pt", **{"code/__torch__.py": source}))
    assert model.classes == ("torchvision.Video",)


def test_an_exported_program_of_each_layout(tmp_path: Path) -> None:
    new = read_model(exported(tmp_path / "new.pt2", "torch.ops.aten.add.Tensor", "torch.ops.ns.op.default"))
    old = read_model(flat(tmp_path / "old.pt2", "torch.ops.aten.add.Tensor"))
    assert (new.format, new.layout, new.schema, new.archive_version) == (
        ModelFormat.EXPORT,
        ModelLayout.ROOTED,
        (8, 8),
        "0",
    )
    assert (old.format, old.layout, old.schema) == (ModelFormat.EXPORT, ModelLayout.FLAT, (8, 7))
    assert [call.name for call in new.operators] == ["aten::add.Tensor", "ns::op"]
    assert (new.operators[0].names, new.operators[0].positional) == (("self",), 0)


def test_a_higher_order_operator_is_a_gap(tmp_path: Path) -> None:
    model = read_model(exported(tmp_path / "m.pt2", "torch.ops.higher_order.cond"))
    assert model.operators == ()
    assert "torch.ops.higher_order.cond" in model.gaps[0]


def storage(size: int, key: str = "0") -> bytes:
    """A pickle with one tensor's storage of floats, as torch writes it."""
    return (
        b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX"
        + struct.pack("<I", len(key)) + key.encode()
        + b"X\x03\x00\x00\x00cpuK" + bytes([size]) + b"tQ."
    )  # fmt: skip


def test_weights_are_compared_with_their_sizes(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.pt", {"data.pkl": storage(4), "data/0": bytes(16), "version": "3\n"})
    assert read_model(whole).devices == ("cpu",)
    short = write(tmp_path / "short.pt", {"data.pkl": storage(5), "data/0": bytes(16), "version": "3\n"})
    with pytest.raises(InputError, match=r"short\.pt!m/data/0: has 16 bytes, and the model has 20 in it"):
        read_model(short)
    without = write(tmp_path / "without.pt", {"data.pkl": storage(4), "version": "3\n"})
    with pytest.raises(InputError, match=r"data/0: is missing"):
        read_model(without)


@pytest.mark.parametrize(
    "description",
    [
        b"X\x06\x00\x00\x00modelsQ.",  # a text
        b"(X\x07\x00\x00\x00storageX\x01\x00\x00\x000tQ.",  # too little is said
        b"(X\x05\x00\x00\x00othercm\nn\nX\x01\x00\x00\x001X\x03\x00\x00\x00cpuK\x04tQ.",  # nothing of torch.save
    ],
)
def test_what_describes_no_storage_needs_no_data(tmp_path: Path, description: bytes) -> None:
    """A pickle may have any object in place of a persistent one; torch.save describes storages alone."""
    file = write(tmp_path / "m.pt", {"data.pkl": b"\x80\x02" + description, "version": "3\n"})
    assert read_model(file).devices == ()


def test_weights_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_member = zipfile.ZipFile.open

    def noted(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *words: Any) -> Any:
        opened.append(info.filename)
        return open_member(archive, info, *words)

    torch_script = write(tmp_path / "m.pt", {"data.pkl": storage(4), "data/0": bytes(16), "version": "3\n"})
    config = json.dumps({"config": {"w": PAYLOAD}})
    weights: dict[str, Any] = {"data/weights/model_weights_config.json": config, "data/weights/weight_0": bytes(16)}
    program = exported(tmp_path / "m.pt2", **weights)
    monkeypatch.setattr(zipfile.ZipFile, "open", noted)
    for model in (torch_script, program):
        read_model(model)
    assert {"m/data.pkl", "m/models/model.json"} < set(opened)
    assert not {"m/data/0", "m/data/weights/weight_0"} & set(opened)


def test_a_weight_that_the_configuration_lists_must_be_there(tmp_path: Path) -> None:
    config = json.dumps({"config": {"w": PAYLOAD}})
    file = exported(tmp_path / "m.pt2", **{"data/weights/model_weights_config.json": config})
    with pytest.raises(InputError, match=r"data/weights/weight_0: is missing"):
        read_model(file)


def test_the_pickle_of_torch_before_1_6(tmp_path: Path) -> None:
    file = tmp_path / "old.pt"
    stream = io.BytesIO()
    for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {"a": 1}, ["0"]):
        pickle.dump(value, stream, protocol=2)
    file.write_bytes(stream.getvalue() + os.urandom(64))
    model = read_model(file)
    assert (model.format, model.layout) == (ModelFormat.PICKLE, ModelLayout.LEGACY)


def _truncated(path: Path) -> None:
    script(path)
    path.write_bytes(path.read_bytes()[:-40])


def _encrypted(path: Path) -> None:
    script(path)
    data = bytearray(path.read_bytes())
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        position = data.find(magic)
        while position >= 0:
            data[position + flags] |= 1
            position = data.find(magic, position + 4)
    path.write_bytes(data)


def _twice(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("m/data.pkl", b"2")


def _link(path: Path) -> None:
    info = zipfile.ZipInfo("m/data.pkl")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "/etc/passwd")


def _huge(path: Path) -> None:
    """A member that claims 100 GB."""
    script(path)
    data = bytearray(path.read_bytes())
    position = data.find(b"PK\x01\x02")
    extra = struct.pack("<HHQQ", 1, 16, 100 << 30, 100 << 30)
    name = struct.unpack_from("<H", data, position + 28)[0]
    struct.pack_into("<II", data, position + 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<H", data, position + 30, len(extra))
    data[position + 46 + name : position + 46 + name] = extra
    end = data.rfind(b"PK\x05\x06")
    struct.pack_into("<I", data, end + 12, struct.unpack_from("<I", data, end + 12)[0] + len(extra))
    path.write_bytes(data)


def _bomb(path: Path) -> None:
    """1 GiB of zeros in 1 MB."""
    write(path, {"models/model.json": bytes(1 << 30), "archive_format": "pt2"}, deflated=True)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (_truncated, "ends early or is damaged"),
    "empty archive": (lambda path: write(path, {}), "not one of a model"),
    "another archive": (lambda path: write(path, {"a.txt": "a"}), "not one of a model"),
    "outside": (lambda path: write(path, {"../../etc/passwd": "a"}), "leads out of the archive"),
    "absolute": (lambda path: write(path, {"etc/passwd": "a"}, root="/"), "leads out of the archive"),
    "encrypted": (_encrypted, "is encrypted"),
    "twice": (_twice, "occurs twice"),
    "link": (_link, "is a symbolic link"),
    "100 GB": (_huge, "claims|is outside"),
    "no version": (lambda path: script(path, version="three"), "is not a version: 'three'"),
    "no pickle": (lambda path: script(path, **{"data.pkl": "not a pickle"}), "is a .*pickle"),
    "no json": (lambda path: exported(path, **{"models/model.json": "{"}), "is not the JSON"),
    "a list": (lambda path: exported(path, **{"models/model.json": "[]"}), "is not the JSON"),
    "deep": (lambda path: exported(path, **{"models/model.json": "[" * 100_000}), "is not the JSON"),
    "no graph": (lambda path: write(path, {"archive_format": "pt2"}), "has no graph"),
    "no schema": (lambda path: write(path, {"serialized_exported_program.json": graph()}, root=""), "is missing"),
}


@pytest.mark.hostile
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_model_is_named_with_what_is_wrong(tmp_path: Path, kind: str) -> None:
    make, said = HOSTILE[kind]
    path = tmp_path / "m.pt2"
    make(path)
    with pytest.raises(InputError, match=said) as raised:
        read_model(path)
    assert raised.value.subject.startswith(str(path))
    assert raised.value.fix


def test_a_package_of_aotinductor(tmp_path: Path) -> None:
    """As ``torch._inductor.aoti_compile_and_package`` writes it for one model with a library, and one with its code.

    The loader of torch takes the metadata as texts, and nodes are named as Python does or as the dispatcher does.
    """
    folder = "data/aotinductor"
    nodes = [{"node": {"target": target}} for target in ("torch.ops.aten.add.Tensor", "vision::nms.default", 3)]
    members: dict[str, bytes | str] = {
        f"{folder}/one/m.so": b"\x7fELF",
        f"{folder}/one/m.json": json.dumps({"nodes": nodes}),
        f"{folder}/one/m_metadata.json": json.dumps(
            {"AOTI_DEVICE_KEY": "cuda", "AOTI_COMPUTE_CAPABILITY": "86", "n": 1}
        ),
        f"{folder}/two/m.cpp": "",
        ".data/version": "6",
        "archive_version": "0",
    }
    model = read_model(write(tmp_path / "m.pt2", members))
    assert (model.models, model.devices) == (("one", "two"), ("cuda",))
    assert model.metadata == {"AOTI_DEVICE_KEY": "cuda", "AOTI_COMPUTE_CAPABILITY": "86"}
    assert [(call.operator, call.overload) for call in model.operators] == [
        ("aten::add", "Tensor"),
        ("vision::nms", ""),
    ]
    assert (model.file_version, model.archive_version) == (6, "0")
    assert model.gaps == ("two: torch compiles its C++ code when it loads it, which is not done here",)


@pytest.mark.hostile
@pytest.mark.slow
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    _bomb(tmp_path / "m.pt2")
    with pytest.raises(InputError, match="claims 1073741824 bytes"):
        read_model(tmp_path / "m.pt2")


@pytest.mark.hostile
@pytest.mark.parametrize("nodes", ["[1", "\\xff", "[]", '{"nodes": 3}', '{"nodes": [1, {"node": 2}]}'])
def test_the_nodes_beside_a_library_may_be_anything(nodes: str, tmp_path: Path) -> None:
    folder = "data/aotinductor/model"
    members: dict[str, bytes | str] = {f"{folder}/m.so": b"\x7fELF", f"{folder}/m.json": nodes, ".data/version": "6"}
    file = write(tmp_path / "m.pt2", members)
    try:
        assert read_model(file).operators == ()
    except InputError as error:
        assert "m.json: is" in str(error)  # noqa: PT017 - it is damaged, or has nothing


@pytest.mark.hostile
def test_a_table_of_sections_at_no_place(tmp_path: Path) -> None:
    library = b"\x7fELF\2\1\1" + b"\xff" * 100
    file = write(tmp_path / "m.pt2", {"data/aotinductor/model/m.so": library, ".data/version": "6"})
    with pytest.raises(InputError):
        ModelArchive(file).open_library("m/data/aotinductor/model/m.so")


@pytest.mark.hostile
def test_a_class_without_code(tmp_path: Path) -> None:
    # torch.jit.load: Unknown type name '__torch__.Small'
    pickled: dict[str, Any] = {"data.pkl": b"\x80\x02c__torch__\nSmall\n."}
    with pytest.raises(InputError, match=r"code/__torch__\.py: has no class Small"):
        read_model(script(tmp_path / "m.pt", **pickled))
