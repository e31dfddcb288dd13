"""What a release's loader does with a model: layouts, versions, names and functions."""

from __future__ import annotations

from typing import Any

import pytest

from abiscan.inputs.version import TorchVersion
from abiscan.models.compatibility import find_refusals, missing_functions, own_globals, refused_globals, refused_pickle
from abiscan.models.loaders import Loaders, loaders_of
from abiscan.models.model import ModelFormat, ModelLayout, SavedModel


def loaders(version: str) -> Loaders:
    known = loaders_of(version)
    assert known is not None
    return known


def refused(version: str, **fields: Any) -> tuple[str, str] | None:
    """What the first refusal raises: the exception and the text."""
    first = next(find_refusals(SavedModel(**fields), loaders(version), f"torch {version}"), None)
    return (first.exception, first.message) if first else None


def test_a_release_with_a_build_has_the_loaders_of_the_release() -> None:
    assert loaders_of("2.13.0+cu130") == loaders_of("2.13.0")
    assert loaders_of(None) is None
    assert loaders_of("99.0") is None


# The texts are those of torch/export/__init__.py and torch/_export/__init__.py of the release.
@pytest.mark.parametrize(
    ("version", "schema", "expected"),
    [
        ("2.2.2", (8, 7), ("ValueError", "invalid literal for int() with base 10: b'8.7'")),
        ("2.2.2", (1,), ("RuntimeError", "Serialized version 1 does not match our current schema version 2.")),
        ("2.3.0", (2,), ("AssertionError", "")),
        (
            "2.5.1",
            (8, 7),
            ("RuntimeError", "Serialized version ['8', '7'] does not match our current schema version (7, 3)."),
        ),
        ("2.6.0", (8, 7), None),
        ("2.13.0", (8, 7), None),
        (
            "2.13.0",
            (7, 3),
            ("RuntimeError", "Serialized version ['7', '3'] does not match our current schema version (8, 20)."),
        ),
        ("2.0.1", (8, 7), ("AttributeError", "module 'torch' has no attribute 'export'")),
    ],
)
def test_the_schema_of_a_flat_program(version: str, schema: tuple[int, ...], expected: object) -> None:
    parts = ("exported_program.json", "state_dict.pt", "constants.pt", "example_inputs.pt")
    members = tuple(f"serialized_{part}" for part in parts)
    found = refused(version, format=ModelFormat.EXPORT, layout=ModelLayout.FLAT, schema=schema, members=members)
    assert found == expected


def test_a_part_that_older_releases_did_not_write_is_asked_for() -> None:
    members = ("serialized_exported_program.json", "serialized_state_dict.pt", "serialized_constants.pt")
    fields: dict[str, Any] = {
        "format": ModelFormat.EXPORT,
        "layout": ModelLayout.FLAT,
        "schema": (5, 1),
        "members": members,
    }
    assert refused("2.3.0", **fields) is None
    assert refused("2.4.1", **fields) == ("AssertionError", "")


@pytest.mark.parametrize(("version", "works"), [("2.7.1", False), ("2.8.0", True), ("2.15.0", True)])
def test_the_layout_from_2_8_on(version: str, *, works: bool) -> None:
    found = refused(version, format=ModelFormat.EXPORT, layout=ModelLayout.ROOTED, schema=(8, 20), archive_version="0")
    assert found == (None if works else ("KeyError", "\"There is no item named 'version' in the archive\""))


def test_another_version_of_the_archive() -> None:
    found = refused("2.13.0", format=ModelFormat.EXPORT, layout=ModelLayout.ROOTED, schema=(8, 20), archive_version="1")
    assert found == ("ValueError", "Saved archive version 1 does not match our current archive version 0.")


@pytest.mark.parametrize(
    ("version", "file_version", "works"),
    [("1.4.0", 2, True), ("1.4.0", 3, False), ("1.11.0", 10, False), ("1.12.0", 10, True)],
)
def test_the_version_of_an_archive(version: str, file_version: int, *, works: bool) -> None:
    fields = {"format": ModelFormat.TORCHSCRIPT, "layout": ModelLayout.TORCHSCRIPT, "file_version": file_version}
    found = refused(version, **fields)
    assert (found is None) == works
    if found:
        newest = (loaders(version).file_format or (0, 0))[1]
        assert found[1] == (
            f"Attempted to read a PyTorch file with version {file_version}, but the maximum supported version for "
            f"reading is {newest}. Your PyTorch installation may be too old."
        )


@pytest.mark.parametrize(
    ("format_", "layout", "version", "limit"),
    [
        # caffe2/serialize/inline_container.cc reads what torch.save and torch.jit.save write: version 1 is the oldest.
        (ModelFormat.PICKLE, ModelLayout.ZIP, 99, "maximum"),
        (ModelFormat.PICKLE, ModelLayout.ZIP, 0, "minimum"),
        (ModelFormat.TORCHSCRIPT, ModelLayout.TORCHSCRIPT, 0, "minimum"),
        (ModelFormat.PICKLE, ModelLayout.ZIP, 3, None),
        (ModelFormat.PICKLE, ModelLayout.ZIP, None, None),
        (ModelFormat.EXPORT, ModelLayout.ROOTED, 99, None),
    ],
)
def test_who_reads_the_version_of_an_archive(
    format_: ModelFormat, layout: ModelLayout, version: int | None, limit: str | None
) -> None:
    reason = refused("2.13.0", format=format_, layout=layout, file_version=version)
    text = f"Attempted to read a PyTorch file with version {version}, but the {limit} supported version"
    assert (reason is not None and reason[1].startswith(text)) is (limit is not None)


def test_a_package_of_aotinductor_names_its_members() -> None:
    members = ("m/data/aotinductor/model/a.so", "m/archive_format")
    fields: dict[str, Any] = {"format": ModelFormat.AOTI, "layout": ModelLayout.ROOTED, "members": members}
    said = "No AOTInductor generate cpp file or so file found in zip archive. Loaded the following:\n"
    assert refused("2.7.1", **fields) == ("RuntimeError", f"{said}{' '.join(members)} ")
    assert refused("2.5.1", **fields) == ("RuntimeError", "Unable to find file with suffix .cpp")
    said = "module 'torch._inductor' has no attribute 'aoti_load_package'"
    assert refused("2.4.1", **fields) == ("AttributeError", said)
    assert refused("2.8.0", **fields) is None


def test_the_bytecode_of_a_mobile_model() -> None:
    fields = {"format": ModelFormat.TORCHSCRIPT, "layout": ModelLayout.MOBILE, "file_version": 3}
    assert refused("2.13.0", **fields, bytecode_version=8) is None
    found = refused("2.13.0", **fields, bytecode_version=10)
    assert found is not None
    assert found[1].endswith("The model version must be between 4 and 9 but the model version is 10")


WEIGHTS = ("collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.FloatStorage", "torch.float32")


def test_weights_need_only_names_that_are_allowed() -> None:
    model = SavedModel(format=ModelFormat.PICKLE, layout=ModelLayout.ZIP, globals=WEIGHTS)
    for version in ("2.6.0", "2.9.1", "2.15.0"):
        assert refused_globals(model, loaders(version)) == []
    assert own_globals(model) == []


def test_a_class_is_refused_from_2_6_on() -> None:
    model = SavedModel(
        format=ModelFormat.PICKLE, layout=ModelLayout.ZIP, globals=(*WEIGHTS, "__main__.Net", "os.system")
    )
    assert refused_globals(model, loaders("2.6.0")) == ["__main__.Net", "os.system"]
    assert refused_pickle(model, loaders("2.5.1"), "torch 2.5.1") is None
    found = refused_pickle(model, loaders("2.6.0"), "torch 2.6.0")
    assert found is not None
    assert "GLOBAL __main__.Net was not an allowed global by default" in found.message
    assert own_globals(model) == ["__main__.Net", "os.system"]


def test_functions_that_a_library_lacks() -> None:
    own = set(loaders("2.7.1").symbols)
    assert missing_functions(own, loaders("2.7.1"), TorchVersion("2.7.1")) == ([], [])
    required, optional = missing_functions(own, loaders("2.13.0"), TorchVersion("2.13.0"))
    assert (required, len(optional)) == ([], 7)  # pytorch's own words about such a model: seven warnings
    without = own - {"AOTInductorModelContainerRun"}
    assert missing_functions(without, loaders("2.13.0"), TorchVersion("2.13.0"))[0] == ["AOTInductorModelContainerRun"]
