"""What a release's loader does with a saved model: its layout, its versions, and the Python names that it asks for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec import Struct

from abiscan.inputs.version import TorchVersion
from abiscan.models.loaders import Loaders
from abiscan.models.model import ModelFormat, ModelLayout, SavedModel
from abiscan.words import listed

LOAD_EXPORTED: Final = "torch.export.load"
LOAD_SCRIPT: Final = "torch.jit.load"
LOAD_MOBILE: Final = "torch.jit.mobile._load_for_lite_interpreter"
LOAD_PICKLE: Final = "torch.load"
LOAD_AOTI: Final = "torch._inductor.aoti_load_package"
LOAD_LIBRARY: Final = "torch._export.aot_load"
RUN: Final = "the first run"

_STORAGES: Final = ("torch.", "torch.storage.")
_TYPES: Final = frozenset(
    (
        *(
            "float16",
            "float32",
            "float64",
            "half",
            "float",
            "double",
            "bfloat16",
            "complex32",
            "complex64",
            "complex128",
        ),
        *("int8", "int16", "int32", "int64", "uint8", "short", "int", "long", "bool", "strided", "sparse_coo"),
        *("qint8", "quint8", "qint32", "quint4x2", "quint2x4"),
    )
)
_PYTHON_2: Final = {
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
}
OPTIONAL_FROM: Final = TorchVersion("2.8")
"""The first release that goes on without functions that a model's library does not have, with a warning."""

_REQUIRED: Final = frozenset(
    f"AOTInductorModelContainer{name}"
    for name in (
        *("CreateWithDevice", "Delete", "GetNumOutputs", "Run", "GetNumConstants", "GetConstantName"),
        *("GetConstantOriginalFQN", "GetConstantDtype", "UpdateConstantBuffer", "UpdateInactiveConstantBuffer"),
        *("RunConstantFolding", "SwapConstantBuffer", "GetCallSpec"),
    )
)
"""The functions without which no release takes a library: those that the first release with packages asks for."""


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a loader does not take a model.

    :ivar rule: the rule that reports it
    :ivar call: what the user calls
    :ivar exception: what it raises
    :ivar message: what that says
    :ivar why: the reason, in abiscan's words
    :ivar fix: what to do
    :ivar exact: whether ``message`` is what torch says, word for word
    :ivar evidence: what in the model shows it
    """

    rule: str
    call: str
    exception: str
    message: str
    why: str
    fix: str
    exact: bool = True
    evidence: tuple[str, ...] = ()


def load_call(model: SavedModel, loaders: Loaders | None) -> str:
    """Return the call that loads a model."""
    if model.layout is ModelLayout.LIBRARY:
        return LOAD_LIBRARY
    if model.layout is ModelLayout.MOBILE:
        return LOAD_MOBILE
    if model.format is ModelFormat.AOTI:
        return (loaders.aoti if loaders else None) or LOAD_AOTI
    return {ModelFormat.EXPORT: LOAD_EXPORTED, ModelFormat.TORCHSCRIPT: LOAD_SCRIPT}.get(model.format, LOAD_PICKLE)


def find_refusals(model: SavedModel, loaders: Loaders, release: str) -> Iterator[Refusal]:
    """Yield why the loader of a release refuses a model, the first reason first.

    :param release: for messages: ``torch 2.7.1``
    """
    yield from _refuse_file_version(model, loaders, release)
    if model.format is ModelFormat.EXPORT:
        yield from _refuse_exported(model, loaders, release)
    elif model.format is ModelFormat.AOTI and model.layout is not ModelLayout.LIBRARY:
        yield from _refuse_aoti(model, loaders, release)
    elif model.layout is ModelLayout.MOBILE:
        yield from _refuse_mobile(model, loaders, release)


def _make_refusal(call: str, exception: str, message: str, why: str, fix: str, *, exact: bool = True) -> Refusal:
    return Refusal(
        rule="model-not-readable", call=call, exception=exception, message=message, why=why, fix=fix, exact=exact
    )


def _refuse_file_version(model: SavedModel, loaders: Loaders, release: str) -> Iterator[Refusal]:
    """Compare the version that PyTorch's archives have (``caffe2/serialize/inline_container.cc``)."""
    # Only what goes through ``PyTorchStreamReader`` is checked; exported programs have versions of their own.
    through_reader = model.format is ModelFormat.TORCHSCRIPT or model.layout is ModelLayout.ZIP
    if not through_reader or model.file_version is None or loaders.file_format is None:
        return
    oldest, newest = loaders.file_format
    text = f"Attempted to read a PyTorch file with version {model.file_version}, but the "
    if model.file_version > newest:
        yield _make_refusal(
            load_call(model, loaders),
            "RuntimeError",
            f"{text}maximum supported version for reading is {newest}. Your PyTorch installation may be too old.",
            f"the archive has version {model.file_version}, {release} reads up to {newest}",
            "use a newer torch, or save the model with an older one",
        )
    elif model.file_version < oldest:
        yield _make_refusal(
            load_call(model, loaders),
            "RuntimeError",
            f"{text}minimum supported version for reading is {oldest}. "
            "Your PyTorch script module file is too old. Please regenerate it",
            f"the archive has version {model.file_version}, {release} reads from {oldest} on",
            "save the model again with a newer torch",
            exact=False,
        )


_SAVE_AGAIN: Final = "save the model with the torch that will load it, or load it with the one that saved it"


def _refuse_exported(model: SavedModel, loaders: Loaders, release: str) -> Iterator[Refusal]:
    """Yield what ``torch.export.load`` raises (``torch/export/__init__.py``; ``torch/_export`` before 2.5)."""
    # In the order in which the loader itself asks: the first refusal is what users see.
    if not loaders.layouts:
        message = "module 'torch' has no attribute 'export'"
        why = f"{release} has no torch.export.load, which is there from 2.1 on"
        yield _make_refusal(LOAD_EXPORTED, "AttributeError", message, why, "use a newer torch")
    elif model.layout is ModelLayout.ROOTED:
        yield from _refuse_rooted(model, loaders, release)
    else:
        yield from _refuse_flat(model, loaders, release)


def _refuse_rooted(model: SavedModel, loaders: Loaders, release: str) -> Iterator[Refusal]:
    if "pt2" not in loaders.layouts:
        yield _make_refusal(
            LOAD_EXPORTED,
            "KeyError",
            "\"There is no item named 'version' in the archive\"",
            f"the archive has the layout that torch writes from 2.8 on, {release} reads the one before",
            _SAVE_AGAIN,
        )
    elif model.archive_version != loaders.archive_version:
        yield _make_refusal(
            LOAD_EXPORTED,
            "ValueError",
            f"Saved archive version {model.archive_version} does not match our current archive version "
            f"{loaders.archive_version}.",
            f"the archive has version {model.archive_version}, {release} reads {loaders.archive_version}",
            _SAVE_AGAIN,
        )
    elif model.schema and loaders.schema and model.schema[0] != loaders.schema[0]:
        yield _schema_refusal(model.schema, loaders.schema, release, "SerializeError", exact=False)


def _refuse_flat(model: SavedModel, loaders: Loaders, release: str) -> Iterator[Refusal]:
    ours, saved = loaders.schema, model.schema
    if ours is None or saved is None:
        return
    # A release whose own version is one number reads the text with ``int()``.
    if len(ours) == 1 and len(saved) > 1:
        text = ".".join(map(str, saved)).encode()
        message = f"invalid literal for int() with base 10: {text!r}"
        why = f"the program has schema version {_format_version(saved)}, {release} reads {_format_version(ours)}"
        yield _make_refusal(LOAD_EXPORTED, "ValueError", message, why, _SAVE_AGAIN)
    # The exact words differ by release; where they are not certain, the message is left empty.
    elif len(ours) != len(saved):
        why = f"the program has schema version {_format_version(saved)}, {release} reads {_format_version(ours)}"
        message = (
            "Version in the saved file has incorrect length, double check if the file is generated by "
            "torch.export.save()"
            if "pt2" in loaders.layouts
            else ""
        )
        yield _make_refusal(LOAD_EXPORTED, "AssertionError", message, why, _SAVE_AGAIN)
    elif ours[0] != saved[0]:
        yield _schema_refusal(saved, ours, release, "RuntimeError", exact=True)
    else:
        # Parts are named without their endings, which have changed (``.json``, ``.pt``).
        members = {name.rpartition(".")[0] for name in model.members}
        missing = [part for part in loaders.parts if part not in members]
        if missing:
            why = f"{release} asks for {listed(missing)} in the archive, which the torch that saved it did not write"
            message = f"{missing[0]} is None" if loaders.archive_version else ""
            yield _make_refusal(LOAD_EXPORTED, "AssertionError", message, why, _SAVE_AGAIN, exact=False)


def _schema_refusal(
    saved: tuple[int, ...], ours: tuple[int, ...], release: str, exception: str, *, exact: bool
) -> Refusal:
    of_file = str(saved[0]) if len(saved) == 1 else str([str(number) for number in saved])
    of_torch = str(ours[0]) if len(ours) == 1 else str(ours)
    return _make_refusal(
        LOAD_EXPORTED,
        exception,
        f"Serialized version {of_file} does not match our current schema version {of_torch}.",
        f"the program has schema version {_format_version(saved)}, {release} reads {_format_version(ours)}",
        _SAVE_AGAIN,
        exact=exact,
    )


def _format_version(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _refuse_aoti(model: SavedModel, loaders: Loaders, release: str) -> Iterator[Refusal]:
    """Yield what ``torch/_inductor/package/package.py`` and ``aoti_package/model_package_loader.cpp`` raise."""
    fix = "compile the model again with the torch that will load it"
    if loaders.aoti is None:
        why = f"{release} reads no packages of AOTInductor, which are there from 2.5 on"
        message = "module 'torch._inductor' has no attribute 'aoti_load_package'"
        yield _make_refusal(LOAD_AOTI, "AttributeError", message, why, fix)
    elif model.layout is ModelLayout.ROOTED and "pt2" not in loaders.aoti_layouts:
        why = f"the archive has the layout that torch writes from 2.8 on, {release} reads the one before"
        takes_libraries = loaders.aoti == LOAD_AOTI
        names = " ".join(model.members)
        message = (
            f"No AOTInductor generate cpp file or so file found in zip archive. Loaded the following:\n{names} "
            if takes_libraries
            else "Unable to find file with suffix .cpp"
        )
        yield _make_refusal(loaders.aoti, "RuntimeError", message, why, fix)
    # The first releases with packages compile the C++ code themselves, as they load it.
    elif loaders.aoti != LOAD_AOTI:
        for suffix in (".cpp", ".o"):
            if not any(name.endswith(suffix) for name in model.members):
                why = f"{release} compiles the C++ code of a model itself, and the package has no file {suffix}"
                yield _make_refusal(loaders.aoti, "RuntimeError", f"Unable to find file with suffix {suffix}", why, fix)


def _refuse_mobile(model: SavedModel, loaders: Loaders, release: str) -> Iterator[Refusal]:
    """Yield what ``torch/csrc/jit/mobile/import.cpp`` raises."""
    if model.bytecode_version is None or loaders.bytecode is None:
        return
    oldest, newest = loaders.bytecode
    if not oldest <= model.bytecode_version <= newest:
        yield _make_refusal(
            LOAD_MOBILE,
            "RuntimeError",
            "Lite Interpreter version number does not match. The model version must be between "
            f"{oldest} and {newest} but the model version is {model.bytecode_version}",
            f"the bytecode has version {model.bytecode_version}, {release} reads {oldest} to {newest}",
            "save the model with the torch that will load it",
            exact=False,
        )


def refused_globals(model: SavedModel, loaders: Loaders) -> list[str]:
    """Return the Python names in a pickle that ``torch.load`` refuses with ``weights_only=True``, in the order of the
    file.
    """
    names = (_of_python_3(name) for name in model.globals)
    return [name for name in dict.fromkeys(names) if not _is_allowed(name, loaders.allowed)]


def own_globals(model: SavedModel) -> list[str]:
    """Return the Python names in a pickle that neither torch nor Python brings."""
    names = (_of_python_3(name) for name in model.globals)
    return [name for name in dict.fromkeys(names) if name.partition(".")[0] not in _BROUGHT]


_BROUGHT: Final = frozenset(("torch", "collections", "builtins", "_codecs", "copyreg"))


def _of_python_3(name: str) -> str:
    module, _, remainder = name.partition(".")
    return f"{_PYTHON_2.get(module, module)}.{remainder}"


def _is_allowed(name: str, allowed: Collection[str]) -> bool:
    if name in allowed:
        return True
    module, _, last = name.rpartition(".")
    # torch/_weights_only_unpickler.py, ``_get_allowed_globals``: storage classes, types and the functions that rebuild
    # tensors; those are listed for each release, classes and types are told by their names.
    is_storage = last.endswith(("Storage", "Tensor")) and f"{module}." in _STORAGES
    return is_storage or (module == "torch" and (last in _TYPES or last.startswith(("per_", "uint", "int", "float"))))


# torch/serialization.py and torch/_weights_only_unpickler.py, the same from 2.6 on.
_UNSAFE: Final = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
    "arbitrary code execution. Do it only if you got the file from a trusted source."
)
_MORE: Final = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
    "https://pytorch.org/docs/stable/generated/torch.load.html."
)
_REFUSED: Final = (
    "Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those steps "
    f"only if you trust the source of the checkpoint\033[0m. \n\t(1) {_UNSAFE}\n\t(2) Alternatively, to load with "
    "`weights_only=True` please check the recommended steps in the following error message.\n\tWeightsUnpickler error: "
    "Unsupported global: GLOBAL {name} was not an allowed global by default. Please use "
    "`torch.serialization.add_safe_globals([{name}])` or the `torch.serialization.safe_globals([{name}])` context "
    f"manager to allowlist this global if you trust this class/function.{_MORE}"
)
_BLOCKED_MODULES: Final = ("sys", "os", "posix", "nt")
_BLOCKED: Final = (
    f"Weights only load failed. {_UNSAFE}\nTrying to load unsupported GLOBAL {{name}} whose module {{module}} is "
    f"blocked.{_MORE}"
)


def refused_pickle(model: SavedModel, loaders: Loaders, release: str) -> Refusal | None:
    """Return why ``torch.load`` refuses a pickle by default; None if it does not."""
    # Only the first one is in torch's message, since it stops there; the others would follow.
    refused = refused_globals(model, loaders) if loaders.weights_only else []
    if not refused:
        return None
    module = refused[0].rpartition(".")[0]
    name = refused[0].removeprefix("builtins.")  # torch's message leaves that out
    return Refusal(
        rule="model-pickles-classes",
        call=LOAD_PICKLE,
        exception="UnpicklingError",
        message=_BLOCKED.format(name=name, module=module) if module in _BLOCKED_MODULES else _REFUSED.format(name=name),
        why=f"{release} loads weights only by default, and the file needs {listed(refused)}",
        fix="if you trust the file: torch.load(..., weights_only=False); better, save a state_dict",
        evidence=tuple(refused),
    )


def missing_functions(exports: Collection[str], loaders: Loaders, version: TorchVersion) -> tuple[list[str], list[str]]:
    """Return the functions that a release asks a model's library for and that it does not have: required ones, and
    others.

    :param exports: the names that the library exports
    """
    # torch/csrc/inductor/aoti_runner/model_container_runner.cpp loads each function by its name.
    absent = [name for name in loaders.symbols if name not in exports]
    required = [name for name in absent if name in _REQUIRED or version < OPTIONAL_FROM]
    return required, [name for name in absent if name not in required]
