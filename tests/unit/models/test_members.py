"""Each member of a model's archive by itself, each opcode of a pickle, and what each release makes of them."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from abiscan.errors import InputError
from abiscan.inputs.version import TorchVersion
from abiscan.models import reading
from abiscan.models.compatibility import find_refusals, load_call, missing_functions, refused_globals, refused_pickle
from abiscan.models.exported import _convert_program, schema_version
from abiscan.models.model import ModelFormat, ModelLayout, SavedModel
from abiscan.models.opcodes import Called, GlobalName, Pairs, Persistent, read_pickle
from abiscan.models.reading import read_globals, read_model
from abiscan.models.schema import VERSION
from abiscan.models.torchscript import calls_in, classes_in
from tests.unit.models.archives import TENSOR, exported, flat, graph, script, write
from tests.unit.models.test_compatibility import WEIGHTS, loaders, refused

AOTI = "data/aotinductor"
LEGACY: tuple[object, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
"""How a file of torch before 1.6 begins: a magic number, a version, the system."""


def package(path: Path, members: Mapping[str, bytes | str]) -> SavedModel:
    return read_model(write(path / "m.pt2", {f"{AOTI}/{name}": content for name, content in members.items()}))


def test_metadata_of_a_package_are_its_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch reads them into a map of strings; of several models, the first that has a key counts."""
    library = {"one/m.so": b"\x7fELF"}
    texts = {"AOTI_DEVICE_KEY": "cuda", "number": 1, "list": ["a"], "none": None, "flag": True, "": "empty"}
    model = package(tmp_path, {**library, "one/m_metadata.json": json.dumps(texts)})
    assert model.metadata == {"AOTI_DEVICE_KEY": "cuda", "": "empty"}
    assert model.devices == ("cuda",)
    two = {"one/a_metadata.json": '{"AOTI_DEVICE_KEY": "cpu", "a": "1"}', "two/b_metadata.json": '{"a": "2", "b": "3"}'}
    model = package(tmp_path, {**library, **two})
    assert (model.metadata, model.devices) == ({"AOTI_DEVICE_KEY": "cpu", "a": "1", "b": "3"}, ("cpu",))
    assert package(tmp_path, library).devices == ()
    for content, said in (("[]", "is JSON, but not an object"), ("{", "is not JSON"), ("\xff", "is not JSON")):
        with pytest.raises(InputError, match=rf"m\.pt2!m/data/aotinductor/one/m_metadata\.json: {said}"):
            package(tmp_path, {**library, "one/m_metadata.json": content})
    monkeypatch.setattr(reading, "_MAX_METADATA", 10)
    with pytest.raises(InputError, match="is not JSON"):  # what is too large is cut
        package(tmp_path, {**library, "one/m_metadata.json": '{"a": "12345678"}'})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("torch.ops.aten.add.Tensor", ("aten::add", "Tensor")),
        ("torch.ops.aten.relu.default", ("aten::relu", "")),
        ("aten::add.Tensor", ("aten::add", "Tensor")),
        ("vision::nms", ("vision::nms", "")),
        ("torch.ops.vision.nms", ("vision::nms", "")),
    ],
)
def test_how_nodes_name_operators(target: str, expected: tuple[str, str], tmp_path: Path) -> None:
    nodes = json.dumps({"nodes": [{"node": {"target": target}}, {"node": {}}, {"other": 1}, 3]})
    model = package(tmp_path, {"m/a.so": b"\x7fELF", "m/a.json": nodes})
    (call,) = model.operators
    assert (call.operator, call.overload, call.at) == (*expected, f"m/{AOTI}/m/a.json")
    assert package(tmp_path, {"m/a.cpp": "", "m/a.json": nodes}).operators == (), "next to a library alone"


@pytest.mark.parametrize(
    ("members", "root", "kind", "layout"),
    [
        ({f"{AOTI}/model/a.so": b""}, "m", ModelFormat.AOTI, ModelLayout.ROOTED),
        ({f"{AOTI}/model/a.so": b""}, "", ModelFormat.AOTI, ModelLayout.FLAT),
        ({f"{AOTI}/model/a.so": b"", "archive_format": "pt2"}, "m", ModelFormat.AOTI, ModelLayout.ROOTED),
        ({"data.pkl": pickle.dumps(1, 2), "version": "3"}, "m", ModelFormat.PICKLE, ModelLayout.ZIP),
        (
            {"data.pkl": pickle.dumps(1, 2), "version": "3", ".data/version": "4"},
            "m",
            ModelFormat.PICKLE,
            ModelLayout.ZIP,
        ),
    ],
)
def test_what_an_archive_is(
    members: Mapping[str, bytes | str], root: str, kind: ModelFormat, layout: ModelLayout, tmp_path: Path
) -> None:
    model = read_model(write(tmp_path / "m.pt", members, root=root))
    assert (model.format, model.layout, model.root) == (kind, layout, root)
    assert model.members == tuple(f"{root}/{name}" if root else name for name in members)
    stated = members.get(".data/version", members.get("version"))
    assert model.file_version == (int(str(stated)) if stated else None)


@pytest.mark.parametrize("without", ["data.pkl", "version"])
def test_an_archive_without_a_part(without: str, tmp_path: Path) -> None:
    whole = zipfile.ZipFile(script(tmp_path / "whole.pt"))
    members = {name.removeprefix("m/"): whole.read(name) for name in whole.namelist()}
    whole.close()
    del members[without]
    with pytest.raises(InputError, match=r"is a zip archive, and not one of a model|is missing"):
        read_model(write(tmp_path / "m.pt", members))


def test_globals_of_a_file_of_torch_save() -> None:
    def archive(members: Mapping[str, bytes]) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as written:
            for name, content in members.items():
                written.writestr(name, content)
        return stream.getvalue()

    data = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n."
    assert read_globals(archive({"m/data.pkl": data, "m/version": b"3"}), "m.pt") == (
        "torch._utils._rebuild_tensor_v2",
    )
    for members in ({"data.pkl": data}, {"a/data.pkl": data, "b/data.pkl": data}, {}):
        with pytest.raises(InputError, match=r"m\.pt: is not an archive that torch.save writes"):
            read_globals(archive(members), "m.pt")
    with pytest.raises(InputError, match=r"m\.pt: is a damaged archive"):
        read_globals(b"no archive", "m.pt")
    legacy = b"".join(pickle.dumps(value, 2) for value in LEGACY) + data + pickle.dumps([], 2)
    assert read_globals(legacy, "m.pt") == ("torch._utils._rebuild_tensor_v2",)


def stored(kind: str, size: int, *, device: str = "cpu") -> bytes:
    """A pickle with one storage, as torch's ``persistent_id`` describes it."""
    return (
        b"\x80\x02(X\x07\x00\x00\x00storagec" + "\n".join(kind.rsplit(".", 1)).encode() + b"\nX\x01\x00\x00\x000"
        + b"X" + len(device).to_bytes(4, "little") + device.encode() + b"K" + bytes([size]) + b"tQ."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "bytes_of_one"),
    [
        # torch/storage.py, the classes and their types; of an untyped storage, the number of elements is that of bytes.
        ("torch.DoubleStorage", 8), ("torch.LongStorage", 8), ("torch.ComplexFloatStorage", 8),
        ("torch.FloatStorage", 4),
        ("torch.IntStorage", 4), ("torch.HalfStorage", 2), ("torch.BFloat16Storage", 2), ("torch.ShortStorage", 2),
        ("torch.CharStorage", 1), ("torch.ByteStorage", 1), ("torch.BoolStorage", 1),
        ("torch.ComplexDoubleStorage", 16),
        ("torch.storage.UntypedStorage", 1),
    ],
)  # fmt: skip
def test_the_size_of_a_storage(kind: str, bytes_of_one: int, tmp_path: Path) -> None:
    for size, fits in ((3 * bytes_of_one - 1, False), (3 * bytes_of_one, True), (3 * bytes_of_one + 1, True)):
        for place in ("data/0", "tensors/0", "constants/0", "0"):
            file = write(
                tmp_path / "m.pt", {"data.pkl": stored(kind, 3, device="cuda:1"), place: bytes(size), "version": "3"}
            )
            if fits:
                assert read_model(file).devices == ("cuda:1",)
            else:
                with pytest.raises(InputError, match=f"has {size} bytes, and the model has {3 * bytes_of_one} in it"):
                    read_model(file)
    unknown = write(tmp_path / "m.pt", {"data.pkl": stored("torch.NewStorage", 3), "data/0": b"", "version": "3"})
    assert read_model(unknown).devices == ("cpu",), "how large an element is, is not known"


def test_objects_whose_classes_have_code(tmp_path: Path) -> None:
    named = b"\x80\x02c__torch__.a\nNet\n."
    code = "class Net(Module):\n  pass\n"
    more: dict[str, Any] = {"code/__torch__/a.py": code, "data.pkl": named}
    assert read_model(script(tmp_path / "m.pt", **more)).globals == ("__torch__.a.Net",)
    with pytest.raises(InputError, match=r"code/__torch__/a\.py: has no class Net"):
        read_model(script(tmp_path / "m.pt", **{**more, "code/__torch__/a.py": code.replace("Net", "Net2")}))
    with pytest.raises(InputError, match=r"code/__torch__/b\.py: is missing"):
        read_model(script(tmp_path / "m.pt", **{**more, "data.pkl": named.replace(b"__.a", b"__.b")}))
    custom = named.replace(b"__torch__.a\nNet", b"__torch__.torch.classes.vision\nVideo")
    more = {"data.pkl": custom}
    assert read_model(script(tmp_path / "m.pt", **more)).globals == ("__torch__.torch.classes.vision.Video",)


def test_a_mobile_model(tmp_path: Path) -> None:
    operators = ("operators", (("aten::relu", ""), ("aten::add", "Tensor", 3)))
    bytecode = pickle.dumps((8, ("__torch__.M.forward", (operators,))), 2)
    more: dict[str, Any] = {"bytecode.pkl": bytecode}
    model = read_model(script(tmp_path / "m.ptl", **more))
    assert (model.layout, model.bytecode_version) == (ModelLayout.MOBILE, 8)
    assert {(call.operator, call.overload, call.at) for call in model.operators if call.at == "bytecode.pkl"} == {
        ("aten::relu", "", "bytecode.pkl"), ("aten::add", "Tensor", "bytecode.pkl"),
    }  # fmt: skip
    for other in ([8], (), ("8",), "8"):
        more = {"bytecode.pkl": pickle.dumps(other, 2)}
        assert read_model(script(tmp_path / "m.ptl", **more)).bytecode_version is None


CONFIG = "data/weights/model_weights_config.json"
SHAPELESS = '{"config": {"w": {"path_name": "w", "is_param": true, "use_pickle": false, "tensor_meta": null}}}'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"archive_format": "pt3"}, r"archive_format: is not pt2"),
        ({"data/sample_inputs/model.pt": b"nothing of torch.save"}, r"model\.pt: is not a file of torch\.save"),
        ({CONFIG: "[]"}, "is JSON, but not an object"),
        ({CONFIG: "{}"}, "is not a list of weights or constants"),
        ({CONFIG: SHAPELESS}, "is not a list of weights or constants: .*says nothing of the shape"),
        ({"models/model.json": graph().replace('"nodes"', '"other"')}, "is not an exported program: .* has no nodes"),
    ],
)  # fmt: skip
def test_a_damaged_program(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_model(exported(tmp_path / "m.pt2", **more))


@pytest.mark.parametrize(
    "without", ["data/sample_inputs/model.pt", CONFIG, "data/constants/model_constants_config.json"]
)
def test_a_program_without_a_member(without: str, tmp_path: Path) -> None:
    whole = zipfile.ZipFile(exported(tmp_path / "whole.pt2"))
    members = {name.removeprefix("m/"): whole.read(name) for name in whole.namelist()}
    whole.close()
    del members[without]
    with pytest.raises(InputError, match=rf"{without}: is missing"):
        read_model(write(tmp_path / "m.pt2", members))
    if without != "data/sample_inputs/model.pt":  # 2.8 saved all weights as one file
        members[
            without.removesuffix(".json").replace("_weights_config", "").replace("_constants_config", "") + ".pt"
        ] = b""
        assert read_model(write(tmp_path / "m.pt2", members)).format is ModelFormat.EXPORT


def test_weights_that_the_model_has(tmp_path: Path) -> None:
    """Parameters, and the buffers that are saved: ``persistent``."""
    document = json.loads(graph(inputs=()))
    module = document["graph_module"]
    names = ("p", "b", "n")
    module["graph"]["inputs"] = [{"as_tensor": {"name": name}} for name in names]
    module["graph"]["tensor_values"] = dict.fromkeys(names, TENSOR)
    module["signature"]["input_specs"] = [
        {"parameter": {"arg": {"name": "p"}, "parameter_name": "weight"}},
        {"buffer": {"arg": {"name": "b"}, "buffer_name": "mean", "persistent": True}},
        {"buffer": {"arg": {"name": "n"}, "buffer_name": "cache", "persistent": False}},
    ]
    payload = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": TENSOR}
    more: dict[str, Any] = {"models/model.json": json.dumps(document), "data/weights/weight_0": b""}
    config = json.dumps({"config": {"weight": payload, "mean": payload}})
    assert read_model(exported(tmp_path / "m.pt2", **more, **{CONFIG: config})).schema == (8, 8)
    config = json.dumps({"config": {"mean": payload}})
    with pytest.raises(InputError, match="does not list weight, which the model has"):
        read_model(exported(tmp_path / "m.pt2", **more, **{CONFIG: config}))


@pytest.mark.parametrize(
    ("text", "version"),
    [(b"8.7", (8, 7)), (b"2\n", (2,)), (b"8.x", None), (b"", None), (b"1234567890.1", None), (b"8.7.1", (8, 7, 1))],
)
def test_the_version_of_a_flat_program(text: bytes, version: tuple[int, ...] | None, tmp_path: Path) -> None:
    assert schema_version(text) == version
    if version and len(version) == 2:
        assert read_model(flat(tmp_path / "m.pt2", version=text.decode())).schema == version


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, 255, 256, 65_535, 65_536, -1, 1 << 31, 1 << 70, -(1 << 2100), 1.5, "", "text",
        "ä€" * 200,
        b"", b"bytes" * 100, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1], [1, 2], {},
        {"a": 1}, {"a": 1, "b": [2]},
        [[]] * 3,
    ],
    ids=repr,
)  # fmt: skip
def test_every_way_to_write_a_value(value: object, protocol: int) -> None:
    """What ``pickle`` writes in each protocol, as its unpickler builds it."""

    def plain(item: Any) -> Any:
        if isinstance(item, Pairs):
            return {plain(key): plain(one) for key, one in item}
        return type(item)(map(plain, item)) if isinstance(item, list | tuple) else item

    data = b"before" + pickle.dumps(value, protocol) + b"behind"
    read = read_pickle(data, "p", 6)
    if isinstance(value, bytes) and protocol < 3:  # protocols without bytes call a codec
        assert isinstance(read.value, Called)
    else:
        assert plain(read.value) == value
    assert read.end == len(data) - len(b"behind")


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (b"(lp0\nI1\naI2\na.", [1, 2]),  # APPEND
        (b"(I1\nI2\nl.", [1, 2]),
        (b"(dS'a'\nI1\ns.", [("a", 1)]),  # SETITEM
        (b"(S'a'\nI1\nS'b'\nI2\nd.", [("a", 1), ("b", 2)]),
        (b"}(S'a'\nI1\nS'b'\nI2\nu.", [("a", 1), ("b", 2)]),
        (b"](I1\nI2\ne.", [1, 2]),
        (b"I1\nI2\n0.", 1),  # POP
        (b"I1\n(I2\nI3\n1.", 1),  # POP_MARK
        (b"I1\n2\x86.", (1, 1)),  # DUP
        (b"(I1\nI2\nI3\nt.", (1, 2, 3)),
        (b"I1\nI2\n\x86.", (1, 2)),
        (b"I1\nq\x05I2\nh\x05\x86.", (2, 1)),
        (b"I1\nr\x05\0\0\0I2\nj\x05\0\0\0\x86.", (2, 1)),
        (b"I7\np9\n0g9\n.", 7),
        (b"\x80\x04I1\n\x94I2\n\x940h\0.", 1),  # MEMOIZE: in order
        (b"\x80\x04\x8f(I1\nI2\n\x90.", [1, 2]),  # a set
        (b"\x80\x04(I1\nI2\n\x91.", (1, 2)),  # a frozen set
        (b"\x80\x05\x96\x02\0\0\0\0\0\0\0ab.", bytearray(b"ab")),
        (b"\x80\x05\x97.", b""),
    ],
)
def test_instructions_by_themselves(code: bytes, value: object) -> None:
    """The effects that ``pickletools`` documents."""
    assert read_pickle(code, "p").value == value


@pytest.mark.parametrize(
    ("code", "function", "arguments", "state"),
    [
        (b"cos\nsystem\n(I1\ntR.", "os.system", (1,), []),
        (b"(cos\nsystem\nI1\no.", "os.system", (1,), []),  # OBJ
        (b"\x80\x02cm\nC\n)\x81I1\nb.", "m.C", (), [1]),  # NEWOBJ, BUILD
        (b"\x80\x04cm\nC\nI1\n\x85}\x92.", "m.C", ((1,), []), []),  # NEWOBJ_EX
        (b"\x80\x04X\x01\0\0\0mX\x01\0\0\0C\x93)R.", "m.C", (), []),  # STACK_GLOBAL
        (b"cm\nC\n)RI1\na.", "m.C", (), [[1]]),
        (b"cm\nC\n)R(I1\nI2\ne.", "m.C", (), [[1, 2]]),
        (b"cm\nC\n)RS'a'\nI1\ns.", "m.C", (), [[("a", 1)]]),
        (b"cm\nC\n)R(S'a'\nI1\nu.", "m.C", (), [[("a", 1)]]),
    ],
)
def test_calls_are_recorded(code: bytes, function: str, arguments: object, state: list[object]) -> None:
    read = read_pickle(code, "p")
    assert isinstance(read.value, Called)
    assert (read.value.function, read.value.arguments, read.value.state) == (GlobalName(function), arguments, state)
    assert read.globals == (function,)


def test_what_else_a_pickle_imports_and_stores() -> None:
    assert read_pickle(b"\x80\x02\x82\x05.", "p").globals == ("copyreg extension 5",)
    for code in (b"Pkey\n.", b"S'key'\nQ."):
        value = read_pickle(code, "p").value
        assert isinstance(value, Persistent)
        assert value.description == "key"


@pytest.mark.parametrize(
    "code", [b"I1\n\x86.", b"I1\nI2\n\x87.", b"I1\nt.", b"(I1\n(.", b"h\x01.", b"I1\n0.", b"}(I1\nu."]
)
def test_pickles_that_are_damaged(code: bytes) -> None:
    with pytest.raises(InputError, match=r"p: is a damaged pickle"):
        read_pickle(code, "p")


@pytest.mark.parametrize(
    ("expression", "calls"),
    [
        ("torch.add(x, y, alpha=2)", [("aten::add", 2, ("alpha",))]),
        ("ops.vision.nms(*x, **y)", [("vision::nms", None, ())]),
        ("torch.f(torch.g(x))", [("aten::f", 1, ()), ("aten::g", 1, ())]),
        ("x.torch.f(x)", []),
        ("x.ops.a.f(x)", []),
        ("ops.f(x)", []),
        ("torch.nn.f(x)", []),
        ("f(x)", []),
    ],
)
def test_calls_in_torchscript(expression: str, calls: list[tuple[str, int | None, tuple[str, ...]]]) -> None:
    found, parsed = calls_in(f"\nx = {expression}\n", "code/a.py")
    assert (parsed, [(one.operator, one.positional, one.names) for one in found]) == (True, calls)
    assert {one.at for one in found} <= {"code/a.py:2"}
    searched, parsed = calls_in(f"x = {expression} ??\ny = 'torch.no(x)'\n", "code/a.py")
    assert (parsed, [one.operator for one in searched]) == (False, [name for name, *_ in calls])
    assert all(one.positional is None and one.at == "code/a.py" for one in searched)


def test_classes_in_torchscript() -> None:
    source = "def f(x: __torch__.torch.classes.a.B, y: str='__torch__.torch.classes.c.D') -> __torch__.E:\n"
    assert list(classes_in(source)) == ["a.B"]


@pytest.mark.parametrize(
    ("format_", "layout", "call"),
    [
        (ModelFormat.EXPORT, ModelLayout.ROOTED, "torch.export.load"),
        (ModelFormat.TORCHSCRIPT, ModelLayout.TORCHSCRIPT, "torch.jit.load"),
        (ModelFormat.TORCHSCRIPT, ModelLayout.MOBILE, "torch.jit.mobile._load_for_lite_interpreter"),
        (ModelFormat.PICKLE, ModelLayout.ZIP, "torch.load"),
        (ModelFormat.AOTI, ModelLayout.ROOTED, "torch._inductor.aoti_load_package"),
        (ModelFormat.AOTI, ModelLayout.LIBRARY, "torch._export.aot_load"),
    ],
)
def test_what_the_user_calls(format_: ModelFormat, layout: ModelLayout, call: str) -> None:
    model = SavedModel(format=format_, layout=layout)
    assert {load_call(model, known) for known in (loaders("2.13.0"), None)} == {call}


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        # torch/_weights_only_unpickler.py, _get_allowed_globals
        ("torch.FloatStorage", True), ("torch.storage.UntypedStorage", True), ("torch.Tensor", True),
        ("torch.int8", True),
        ("torch.uint4", True), ("torch.per_channel_affine", True), ("torch.float8_e4m3fn", True),
        ("torch.nn.Linear", False), ("mytorch.FloatStorage", False), ("torch.nn.FloatStorage", False),
        ("torch.load", False),
        ("__builtin__.set", True), ("builtins.eval", False),
    ],
)  # fmt: skip
def test_names_that_a_load_of_weights_allows(name: str, allowed: bool) -> None:
    model = SavedModel(format=ModelFormat.PICKLE, layout=ModelLayout.ZIP, globals=(name, *WEIGHTS))
    said = name.replace("__builtin__", "builtins")
    assert refused_globals(model, loaders("2.13.0")) == ([] if allowed else [said])


def test_modules_that_torch_blocks() -> None:
    model = SavedModel(format=ModelFormat.PICKLE, layout=ModelLayout.ZIP, globals=("os.system", "builtins.eval"))
    found = refused_pickle(model, loaders("2.13.0"), "torch 2.13.0")
    assert found is not None
    assert "Trying to load unsupported GLOBAL os.system whose module os is blocked." in found.message
    assert found.evidence == ("os.system", "builtins.eval")
    model = SavedModel(format=ModelFormat.PICKLE, layout=ModelLayout.ZIP, globals=("builtins.eval",))
    found = refused_pickle(model, loaders("2.13.0"), "torch 2.13.0")
    assert found is not None
    assert "GLOBAL eval was not an allowed global by default" in found.message


def test_versions_of_programs_of_both_layouts() -> None:
    rooted = {"format": ModelFormat.EXPORT, "layout": ModelLayout.ROOTED, "archive_version": "0"}
    assert refused("2.13.0", **rooted, schema=(8, 99)) is None
    assert refused("2.13.0", **rooted, schema=None) is None
    raised = refused("2.13.0", **rooted, schema=(9, 0))
    assert raised is not None
    assert raised[0] == "SerializeError"
    flat_one: dict[str, Any] = {"format": ModelFormat.EXPORT, "layout": ModelLayout.FLAT}
    assert refused("2.13.0", **flat_one, schema=None) is None
    wrong_length = refused("2.13.0", **flat_one, schema=(8,))
    assert wrong_length is not None
    assert wrong_length[1].startswith("Version in the saved file has incorrect length")


def test_packages_that_a_release_compiles_itself() -> None:
    """2.5 compiles the C++ code in a package, and takes no library."""
    fields: dict[str, Any] = {"format": ModelFormat.AOTI, "layout": ModelLayout.FLAT}
    members = ("data/aotinductor/model/a.cpp", "data/aotinductor/model/a.o")
    assert refused("2.5.1", **fields, members=members) is None
    for kept, missing in ((members[:1], ".o"), (members[1:], ".cpp")):
        assert refused("2.5.1", **fields, members=kept) == (
            "RuntimeError",
            f"Unable to find file with suffix {missing}",
        )
        assert refused("2.7.1", **fields, members=kept) is None
    library = SavedModel(format=ModelFormat.AOTI, layout=ModelLayout.LIBRARY)
    assert list(find_refusals(library, loaders("2.4.1"), "torch 2.4.1")) == []


@pytest.mark.parametrize(("bytecode", "works"), [(3, False), (4, True), (9, True), (10, False), (None, True)])
def test_the_range_of_bytecode(bytecode: int | None, *, works: bool) -> None:
    """torch/csrc/jit/mobile/import.cpp: from 4 to 9, both included."""
    fields = {"format": ModelFormat.TORCHSCRIPT, "layout": ModelLayout.MOBILE, "file_version": 3}
    assert (refused("2.13.0", **fields, bytecode_version=bytecode) is None) is works


def test_functions_that_are_optional_by_now() -> None:
    """From 2.8 on, torch warns of those that the first release with packages did not ask for."""
    name, known = "AOTInductorModelContainerExtractConstantsMap", loaders("2.8.0")
    without = set(known.symbols) - {name}
    assert missing_functions(without, known, TorchVersion("2.8.0")) == ([], [name])
    assert missing_functions(without, known, TorchVersion("2.7.1")) == ([name], [])


@pytest.mark.parametrize(
    ("version", "is_read"),
    [(VERSION, True), ((VERSION[0], 0), True), ((VERSION[0], VERSION[1] + 1), False), ((VERSION[0] + 1, 0), False)],
)
def test_a_program_is_read_whose_version_is_no_newer(version: tuple[int, int], *, is_read: bool) -> None:
    """As torch does: of the same major version, and of no later minor one (torch/_export/serde/serialize.py)."""
    program = json.loads(graph("torch.ops.aten.relu.default", schema=version))
    assert (_convert_program(program) is not None) is is_read
