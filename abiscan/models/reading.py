"""From a model's file to what is known of it."""

from __future__ import annotations

import io
import json
import posixpath
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from abiscan import words
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.files import unreadable_error
from abiscan.inputs.model_archive import PICKLE_MAGIC, ModelArchive
from abiscan.models import exported, schema, torchscript
from abiscan.models.model import ModelFormat, ModelLayout, OperatorCall, SavedModel
from abiscan.models.opcodes import Called, GlobalName, Persistent, Pickle, read_pickle

_FIX: Final = "pass a file of torch.jit.save, torch.export.save, torch.save or aoti_compile_and_package"
_DAMAGED: Final = "save the model again: members that belong to it are missing"
_AOTI: Final = "data/aotinductor/"
_LEGACY_READ: Final = 64 << 20
_MAX_METADATA: Final = 1 << 20
_SIZES: Final = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("CharStorage", "ByteStorage", "BoolStorage", "UntypedStorage"), 1),
    "ComplexDoubleStorage": 16,
}
"""The bytes of an element of each storage; of an untyped one, the number of elements is that of bytes."""


def read_model(path: Path) -> SavedModel:
    """Read a saved model.

    :raises InputError: it is none, is damaged, or incomplete
    """
    try:
        with observed_fs.open_file(path) as stream:
            head = stream.read(len(PICKLE_MAGIC))
            if head == PICKLE_MAGIC:
                return _read_legacy(head + stream.read(_LEGACY_READ), str(path))
    except OSError as error:
        raise unreadable_error(path, error) from error
    return read_archive(ModelArchive(path))


def read_globals(content: bytes, subject: str) -> tuple[str, ...]:
    """Return the Python names in what ``torch.save`` has written.

    :raises InputError: it is nothing of that kind
    """
    if content.startswith(PICKLE_MAGIC):
        return _read_legacy(content, subject).globals
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            pickles = [info for info in archive.infolist() if info.filename.endswith("/data.pkl")]
            if len(pickles) != 1 or pickles[0].file_size > _LEGACY_READ:
                raise InputError(subject, "is not an archive that torch.save writes", _FIX)
            return read_pickle(archive.read(pickles[0]), subject).globals
    except (zipfile.BadZipFile, NotImplementedError, ValueError, zlib.error) as error:
        raise InputError(subject, f"is a damaged archive: {error}", _FIX) from error


def read_archive(archive: ModelArchive) -> SavedModel:
    """Read the archive of a saved model.

    :raises InputError: as for ``read_model``
    """
    # The members decide what it is: the ending of its name says little (``.pt``, ``.pt2``).
    names = tuple(archive.sizes)
    root = _find_root(names)
    inside = {name.removeprefix(root): name for name in names if name.startswith(root)}
    rooted = bool(root)
    # From the most to the least special: a package of AOTInductor has an archive format, a TorchScript archive a
    # pickle.
    if any(name.startswith(_AOTI) for name in inside):
        model = _read_aoti(archive, inside, ModelLayout.ROOTED if rooted else ModelLayout.FLAT)
    elif "archive_format" in inside or "serialized_exported_program.json" in inside:
        model = _read_exported(archive, inside)
    elif any(name.startswith("code/") for name in inside) and "constants.pkl" in inside:
        model = _read_torchscript(archive, inside)
    elif "data.pkl" in inside and "version" in inside:
        model = _read_pickle_archive(archive, inside)
    else:
        raise InputError(str(archive.path), "is a zip archive, and not one of a model that torch saves", _FIX)
    from msgspec.structs import replace

    return replace(model, members=names, root=root.rstrip("/") if rooted else "")


def _find_root(names: Sequence[str]) -> str:
    """Return the folder that all members are below, as PyTorch's archives have one; empty if there is none."""
    # ``torch.save`` and ``torch.jit.save`` name the folder after the file, as it was called then. A flat archive may by
    # chance have one folder only, which is then a part of it.
    first = {name.partition("/")[0] for name in names}
    root = f"{next(iter(first))}/" if len(first) == 1 and all("/" in name for name in names) else ""
    return "" if root in ("data/", "code/") else root


def _read_number(archive: ModelArchive, inside: dict[str, str], *names: str) -> int | None:
    """Return the number in the first of some members that exists."""
    for name in names:
        if name in inside:
            text = archive.read_head(inside[name], 16).decode("ascii", "replace").strip()
            if not text.isdecimal():
                raise InputError(f"{archive.path}!{inside[name]}", f"is not a version: {text!r}", _DAMAGED)
            return int(text)
    return None


def _read_aoti(archive: ModelArchive, inside: dict[str, str], layout: ModelLayout) -> SavedModel:
    # ``data/aotinductor/NAME/`` for each model: a library, or C++ code to make one of, with the nodes of its graph
    # next to it.
    own = [name for name in inside if name.startswith(_AOTI)]
    models = tuple(dict.fromkeys(name.removeprefix(_AOTI).partition("/")[0] for name in own))
    metadata: dict[str, str] = {}
    operators: list[OperatorCall] = []
    gaps: list[str] = []
    for name in own:
        if name.endswith("_metadata.json"):
            metadata = {**_read_metadata(archive, inside[name]), **metadata}
    for model in models:
        files = [name for name in own if name.startswith(f"{_AOTI}{model}/")]
        libraries = [name for name in files if name.endswith(".so")]
        for library in libraries:
            nodes = f"{library.removesuffix('.so')}.json"
            if nodes in inside:
                operators += _external_calls(archive, inside[nodes])
        if not libraries:
            gaps.append(f"{model}: torch compiles its C++ code when it loads it, which is not done here")
    return SavedModel(
        format=ModelFormat.AOTI,
        layout=layout,
        file_version=_read_number(archive, inside, ".data/version"),
        archive_version=_find_text(archive, inside, "archive_version"),
        models=models,
        operators=tuple(operators),
        metadata=metadata,
        devices=tuple(filter(None, [metadata.get("AOTI_DEVICE_KEY")])),
        gaps=tuple(gaps),
    )


def _find_text(archive: ModelArchive, inside: dict[str, str], name: str) -> str | None:
    return archive.read_head(inside[name], 64).decode("utf-8", "replace") if name in inside else None


def _read_metadata(archive: ModelArchive, name: str) -> dict[str, str]:
    document = _read_object(archive, name, archive.read_head(name, _MAX_METADATA))
    return {key: value for key, value in document.items() if isinstance(value, str)}


def _external_calls(archive: ModelArchive, name: str) -> Iterator[OperatorCall]:
    """Yield the operators that the library calls by name: those without a function in the C shim."""
    nodes = _read_object(archive, name, archive.read_content(name) or b"{}").get("nodes")
    for node in nodes if isinstance(nodes, list) else ():
        inner = node.get("node") if isinstance(node, dict) else None
        target = inner.get("target") if isinstance(inner, dict) else None
        if isinstance(target, str):
            operator, _, overload = target.removeprefix("torch.ops.").partition(".")
            # Nodes are named as Python does or as the dispatcher does, depending on the release.
            if "::" not in operator and overload:  # torch.ops.aten.name.overload
                operator, _, overload = f"{operator}::{overload}".partition(".")
            yield OperatorCall(
                operator=operator, overload="" if overload == "default" else overload, positional=None, at=name
            )


def _read_exported(archive: ModelArchive, inside: dict[str, str]) -> SavedModel:
    # Up to 2.7 there is one program in the archive, and its version next to it; from 2.8 on, models have theirs.
    flat = "archive_format" not in inside
    graphs = [name for name in inside if _is_graph(name, flat=flat)]
    if not graphs:
        raise InputError(str(archive.path), "has no graph: models/NAME.json is missing", _DAMAGED)
    read = [exported.read_graph(archive.read_content(inside[name]), f"{archive.path}!{name}", name) for name in graphs]
    models = [posixpath.basename(name).removesuffix(".json") for name in graphs]
    if flat:
        _require_members(archive, inside, ("version",))
        version = exported.schema_version(archive.read_head(inside["version"], 64))
    else:
        version = read[0].schema
        _check_package(archive, inside, models)
        _check_weights(archive, inside, dict(zip(models, read, strict=True)))
    of_higher = dict.fromkeys(name for graph in read for name in graph.higher_order)
    return SavedModel(
        format=ModelFormat.EXPORT,
        layout=ModelLayout.FLAT if flat else ModelLayout.ROOTED,
        file_version=None if flat else _read_number(archive, inside, ".data/version"),
        schema=version,
        archive_version=_find_text(archive, inside, "archive_version"),
        models=tuple(models) if not flat else ("model",),
        operators=tuple(call for graph in read for call in graph.operators),
        classes=tuple(dict.fromkeys(name for graph in read for name in graph.classes)),
        devices=tuple(dict.fromkeys(name for graph in read for name in graph.devices)),
        saved_by=next((graph.torch_version for graph in read if graph.torch_version), None),
        gaps=tuple(f"what {name} does with its functions is not followed" for name in of_higher),
    )


def _is_graph(name: str, *, flat: bool) -> bool:
    if flat:
        return name == "serialized_exported_program.json"
    return name.startswith("models/") and name.endswith(".json") and name.count("/") == 1


def _require_members(archive: ModelArchive, inside: dict[str, str], names: Sequence[str]) -> None:
    for name in names:
        if name not in inside:
            raise InputError(f"{archive.path}!{name}", "is missing", _DAMAGED)


def _check_package(archive: ModelArchive, inside: dict[str, str], models: Sequence[str]) -> None:
    """Look for the members that every release from 2.8 on reads (``torch/export/pt2_archive/_package.py``).

    :raises InputError: one is missing, or is something else
    """
    if archive.read_content(inside["archive_format"]) != b"pt2":
        raise InputError(f"{archive.path}!archive_format", "is not pt2", _DAMAGED)
    if not {".data/version", "version"} & inside.keys():
        _require_members(archive, inside, (".data/version",))
    for model in models:
        _require_members(archive, inside, (f"data/sample_inputs/{model}.pt",))
        _check_saved(archive, inside[f"data/sample_inputs/{model}.pt"])
        for kind in ("weights", "constants"):
            # 2.8 saves all weights as one file; later releases each as its own, and list them.
            if f"data/{kind}/{model}.pt" not in inside:
                _require_members(archive, inside, (f"data/{kind}/{model}_{kind}_config.json",))


def _check_saved(archive: ModelArchive, name: str) -> None:
    """Look whether a member is what ``torch.save`` writes, or empty, which stands for nothing.

    :raises InputError: it is not
    """
    content = archive.read_content(name)
    if content and not content.startswith(PICKLE_MAGIC) and not zipfile.is_zipfile(io.BytesIO(content)):
        raise InputError(f"{archive.path}!{name}", "is not a file of torch.save", _DAMAGED)


def _check_weights(archive: ModelArchive, inside: dict[str, str], models: Mapping[str, exported.Graph]) -> None:
    """Compare the members, and what the models have, with what the configurations of weights and constants list.

    :raises InputError: one is missing
    """
    # The model lists its members itself: without one of them, a load fails only deep inside.
    for name, folder in tuple((name, posixpath.dirname(name)) for name in inside if name.endswith("s_config.json")):
        if folder not in ("data/weights", "data/constants"):
            continue
        subject = f"{archive.path}!{inside[name]}"
        try:
            listed = schema.convert(
                _read_object(archive, inside[name], archive.read_content(inside[name])), schema.PayloadConfig
            ).config
        except schema.ProgramError as error:
            raise InputError(subject, f"is not a list of weights or constants: {error}", _DAMAGED) from error
        for entry in listed.values():
            if f"{folder}/{entry.path_name}" not in inside:
                raise InputError(
                    f"{archive.path}!{folder}/{entry.path_name}", "is missing, and listed by the model", _DAMAGED
                )
        model = models.get(posixpath.basename(name).removesuffix("_weights_config.json"))
        if model is not None and (missing := [weight for weight in model.weights if weight not in listed]):
            raise InputError(subject, f"does not list {words.listed(missing)}, which the model has", _DAMAGED)


def _read_object(archive: ModelArchive, name: str, content: bytes) -> dict[str, Any]:
    """Return the object of JSON that a member is.

    :raises InputError: it is none
    """
    subject = f"{archive.path}!{name}"
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(subject, f"is not JSON: {error}", _DAMAGED) from error
    if not isinstance(document, dict):
        raise InputError(subject, "is JSON, but not an object", _DAMAGED)
    return document


def _read_torchscript(archive: ModelArchive, inside: dict[str, str]) -> SavedModel:
    # One of the two has the version: without it, torch reads no archive (caffe2/serialize/inline_container.cc).
    _require_members(archive, inside, ("data.pkl", *(() if ".data/version" in inside else ("version",))))
    calls: list[OperatorCall] = []
    classes: dict[str, None] = {}
    gaps: list[str] = []
    # Code and pickles name what the model needs: the code its operators and classes, the pickles the classes of its
    # objects.
    for name, member in inside.items():
        if name.startswith("code/") and name.endswith(".py"):
            source = archive.read_content(member).decode("utf-8", "replace")
            of_file, parsed = torchscript.calls_in(source, name)
            calls += of_file
            classes |= dict.fromkeys(torchscript.classes_in(source))
            if not parsed:
                gaps.append(f"{name} does not parse: the arguments of the calls in it are not known")
    pickles = [_make_pickle(archive, inside[name]) for name in ("data.pkl", "constants.pkl")]
    for pickle in pickles:
        _check_storages(archive, inside, pickle)
    names = tuple(dict.fromkeys(name for pickle in pickles for name in pickle.globals))
    for name in names:
        _require_class(archive, inside, name)
    bytecode = None
    # The lite interpreter runs the bytecode alone, and needs the operators that this names.
    if "bytecode.pkl" in inside:
        built = _make_pickle(archive, inside["bytecode.pkl"]).value
        if isinstance(built, tuple) and built and isinstance(built[0], int):
            bytecode = built[0]
        calls += torchscript.mobile_calls(built, "bytecode.pkl")
    return SavedModel(
        format=ModelFormat.TORCHSCRIPT,
        layout=ModelLayout.MOBILE if "bytecode.pkl" in inside else ModelLayout.TORCHSCRIPT,
        file_version=_read_number(archive, inside, ".data/version", "version"),
        bytecode_version=bytecode,
        operators=tuple(calls),
        classes=tuple(classes),
        globals=names,
        devices=_storage_devices(pickles),
        gaps=tuple(gaps),
    )


def _require_class(archive: ModelArchive, inside: dict[str, str], name: str) -> None:
    """Look for the code of a class of which the model has an object: ``__torch__.module.Class``.

    :raises InputError: it is missing
    """
    module, _, last = name.rpartition(".")
    if not name.startswith("__torch__.") or name.startswith("__torch__.torch.classes."):
        return
    member = f"code/{module.replace('.', '/')}.py"
    _require_members(archive, inside, (member,))
    if f"class {last}(" not in archive.read_content(inside[member]).decode("utf-8", "replace"):
        raise InputError(
            f"{archive.path}!{member}", f"has no class {last}, and the model has an object of it", _DAMAGED
        )


def _make_pickle(archive: ModelArchive, name: str) -> Pickle:
    return read_pickle(archive.read_content(name), f"{archive.path}!{name}")


def _storages_in(pickle: Pickle) -> Iterator[tuple[object, ...]]:
    """Yield the descriptions of the storages in a pickle: ``("storage", class, key, device, size)``."""
    # A stack, not recursion: hostile pickles nest deeply. A value may be in several places, or even in itself, by the
    # memo.
    waiting, seen = [pickle.value], set[int]()
    while waiting:
        item = waiting.pop()
        if isinstance(item, Persistent):
            # torch/serialization.py, ``persistent_id``: ("storage", class, key, location, number of elements).
            if isinstance(item.description, tuple) and len(item.description) >= 5 and item.description[0] == "storage":
                yield item.description
        elif isinstance(item, Called | tuple | list) and id(item) not in seen:
            seen.add(id(item))
            waiting += (item.function, item.arguments, item.state) if isinstance(item, Called) else item


def _storage_devices(pickles: Sequence[Pickle]) -> tuple[str, ...]:
    devices = (description[3] for pickle in pickles for description in _storages_in(pickle))
    return tuple(dict.fromkeys(name for name in devices if isinstance(name, str)))


def _check_storages(archive: ModelArchive, inside: dict[str, str], pickle: Pickle) -> None:
    """Compare the members that hold the storages with what the pickle says of them.

    :raises InputError: one is missing, or too short
    """
    for _, kind, key, _, size, *_ in _storages_in(pickle):
        # ``torch.save`` has storages in ``data``, TorchScript those of its attributes there, too, and constants in a
        # folder of their own (torch/csrc/jit/serialization/import.cpp).
        places = (f"data/{key}", f"tensors/{key}", f"constants/{key}", str(key))
        place = next((place for place in places if place in inside), None)
        if place is None:
            raise InputError(f"{archive.path}!data/{key}", "is missing, and the model has a tensor in it", _DAMAGED)
        # A longer member is in order: an untyped storage may be larger than what one tensor sees of it.
        element = _SIZES.get(kind.name.rpartition(".")[2]) if isinstance(kind, GlobalName) else None
        if element and isinstance(size, int) and archive.sizes[inside[place]] < size * element:
            problem = f"has {archive.sizes[inside[place]]} bytes, and the model has {size * element} in it"
            raise InputError(f"{archive.path}!{inside[place]}", problem, _DAMAGED)


def _read_pickle_archive(archive: ModelArchive, inside: dict[str, str]) -> SavedModel:
    pickle = _make_pickle(archive, inside["data.pkl"])
    _check_storages(archive, inside, pickle)
    return SavedModel(
        format=ModelFormat.PICKLE,
        layout=ModelLayout.ZIP,
        file_version=_read_number(archive, inside, ".data/version", "version"),
        globals=pickle.globals,
        devices=_storage_devices([pickle]),
    )


def _read_legacy(content: bytes, subject: str) -> SavedModel:
    """Read the pickles one after the other: a magic number, a version, the system, the object, the storages' keys."""
    # torch/serialization.py, ``_legacy_save``: the storages themselves follow these five pickles, and are not read.
    position, names = 0, dict[str, None]()
    pickles: list[Pickle] = []
    for _ in range(5):
        pickle = read_pickle(content, subject, position)
        position = pickle.end
        names |= dict.fromkeys(pickle.globals)
        pickles.append(pickle)
    return SavedModel(
        format=ModelFormat.PICKLE,
        layout=ModelLayout.LEGACY,
        globals=tuple(names),
        devices=_storage_devices([pickles[3]]),
    )
