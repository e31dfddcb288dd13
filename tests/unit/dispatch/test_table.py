"""The dispatch table, against what the releases themselves compute.

``data/dispatch_tables.json.xz`` has, for a release of each era, an operator for every combination of keys that torch
treats differently, with the row that this torch computed of it, and errors that it threw. ``dispatch_probe.cpp`` beside
it was compiled with the headers of each release and run with its libtorch_cpu.so.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, Final

import msgspec.structs
import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.calls import Failure, failure_message, find_failure, lookup_message
from abiscan.dispatch.operators import Fallback, Kernel, Operators
from abiscan.dispatch.table import UNNAMED, DispatchTable, EntrySource, no_key_of, runtime_keys
from abiscan.torches.embedded_operators import operators

DATA: Final = Path(__file__).parents[2] / "data" / "dispatch_tables.json.xz"
RECORDED: Final[dict[str, Any]] = json.loads(lzma.decompress(DATA.read_bytes()))
# Keys for which the release has no name.
NUMBERS: Final = {"1.9.1": "Unknown(37)", "1.10.2": "Unknown(52)"}


def release_of(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def kernel(operator: str, key: str | None, *, fallthrough: bool = False) -> Kernel:
    return Kernel(operator, key, None, None, fallthrough, "f.cpp", 1)


def table_of(version: str, kernels: list[Kernel]) -> DispatchTable:
    """Keys and aliases of the release, fallbacks as recorded: they depend on which libraries are loaded."""
    base = operators(version, Machine.X86_64, ())
    unnamed = NUMBERS.get(version, "")
    fallbacks = tuple(
        Fallback(unnamed if key == UNNAMED else key, through, "f.cpp", 1)
        for key, through in RECORDED[version]["fallbacks"].items()
    )
    return DispatchTable(
        release_of(version),
        Operators(
            operators={},
            kernels=tuple(kernels),
            fallbacks=fallbacks,
            namespaces={},
            classes=frozenset(),
            keys=base.keys,
            aliases=base.aliases,
            gaps=(),
        ),
    )


def key_of(recorded: str, version: str) -> str | None:
    if recorded == "catchall":
        return None
    return NUMBERS[version] if recorded == UNNAMED else recorded


@pytest.mark.parametrize("version", RECORDED)
def test_every_combination_of_keys(version: str) -> None:
    recorded = RECORDED[version]
    kernels = [kernel(name, key_of(key, version)) for name, (keys, _) in recorded["rows"].items() for key in keys]
    table = table_of(version, kernels)
    for name, (_, row) in recorded["rows"].items():
        given = [
            [table.printed_key(key), entry.source.value]
            for key, entry in ((key, table.entry(name, key)) for key in table.keys)
            if entry.source is not EntrySource.MISSING
        ]
        assert given == recorded["distinct"][row], name
    assert len(recorded["rows"]) >= 128


@pytest.mark.parametrize("version", RECORDED)
def test_messages(version: str) -> None:
    recorded = RECORDED[version]
    table = table_of(
        version, [kernel(name, key_of(key, version)) for name, keys in recorded["kernels"].items() for key in keys]
    )
    # Other recorded errors are not the dispatcher's: kernels raised them, or another operator that they call.
    own = [(key, name, text) for key, name, text in recorded["errors"] if key == "-" or "Could not run" in text]
    for key, name, text in own:
        if key == "-":
            message = lookup_message(release_of(version), f"{name}.bar", implemented=False)
            assert message.text == text
        else:
            failed = find_failure(table, name, key)
            assert failed is not None
            assert failure_message(table, failed).text.partition("\n\n")[0] == text
    assert len(own) >= 2


def test_a_catch_all_is_a_key_from_1_8_on() -> None:
    assert no_key_of(operators("1.5.0", Machine.X86_64, ())) is None
    assert no_key_of(operators("1.7.1", Machine.X86_64, ())) is None
    assert no_key_of(operators("1.8.1", Machine.X86_64, ())) == "Math"
    assert no_key_of(operators("2.6.0", Machine.X86_64, ())) == "CompositeImplicitAutograd"


def test_a_fallthrough_leads_to_the_kernel_without_a_key() -> None:
    keys = operators("2.13.0", Machine.X86_64, ("aten::tanh",))
    through = Fallback("PrivateUse1", True, "f.cpp", 1)
    table = DispatchTable((2, 13), keys).with_more((), [kernel("own::f", "CPU")], [through])
    failed = find_failure(table, "own::f", "PrivateUse1")
    assert failed is not None
    assert failed.key == "Undefined"
    assert failure_message(table, failed).text.startswith("There were no tensor arguments to this function")
    assert find_failure(table, "aten::tanh", "PrivateUse1") is None


def test_a_kernel_for_autograd_alone_does_the_work() -> None:
    """torch 2.8 has such operators; the kernels generated for derivatives are none: they hand the call on."""
    table = DispatchTable((2, 8), operators("2.8.0", Machine.X86_64))
    assert find_failure(table, "_c10d_functional_autograd::all_to_all_single", "CPU") is None
    assert find_failure(table, "aten::cudnn_convolution", "CPU") is not None


@pytest.mark.parametrize(
    ("key", "backend", "expected"),
    [
        ("PrivateUse1", "npu", "'npu'"),
        ("AutogradPrivateUse1", "npu", "'Autogradnpu'"),
        ("PrivateUse1", None, "'PrivateUse1'"),
        ("CUDA", "npu", "'CUDA'"),
    ],
)
def test_a_backend_is_called_by_its_own_name(key: str, backend: str | None, expected: str) -> None:
    """``toString`` of c10/core/DispatchKey.cpp puts the name of a renamed backend in the place of PrivateUse1."""
    table = table_of("2.3.1", [kernel("ns::f", "CPU")])
    text = failure_message(table, Failure(operator="ns::f", key=key), backend).text
    assert f"with arguments from the {expected} backend" in text


@pytest.mark.parametrize(
    ("version", "key", "backends"),
    [
        ("1.9.1", "AutogradXPU", set()),
        ("1.10.2", "AutogradXPU", {"XPU"}),
        ("2.13.0", "AutogradXPU", {"XPU"}),
        ("2.13.0", "AutogradHIP", set()),
        ("2.13.0", "AutogradCPU", {"CPU"}),
        ("2.13.0", "CPU", set()),
        ("1.11.0", "AutogradNestedTensor", {"NestedTensor"}),
        ("1.12.1", "AutogradNestedTensor", set()),
    ],
)
def test_the_backends_of_a_key_for_gradients(version: str, key: str, backends: set[str]) -> None:
    """``getBackendKeySetFromAutograd`` (c10/core/DispatchKeySet.cpp), which has no case for some of them."""
    assert DispatchTable(release_of(version), operators(version, Machine.X86_64, ())).backends_of(key) == backends


@pytest.mark.parametrize("version", ["1.13.1", "2.13.0"])
def test_nested_tensors_of_every_backend_have_one_key_for_gradients(version: str) -> None:
    """From 1.13 on, the set has the bits of all backends besides that of NestedTensor."""
    table = DispatchTable(release_of(version), operators(version, Machine.X86_64, ()))
    assert table.backends_of("AutogradNestedTensor") >= {"NestedTensorCPU", "NestedTensorCUDA", "NestedTensorXPU"}
    assert not table.backends_of("AutogradNestedTensor") & table.backends_of("AutogradOther")
    assert table.backends_of("AutogradXPU") == {"XPU"}
    assert {"SparseCPU", "QuantizedCUDA", "FPGA"} <= table.backends_of("AutogradOther")
    assert not {"CPU", "XLA", "VE"} & table.backends_of("AutogradOther")


@pytest.mark.parametrize(
    ("keys", "aliases", "expected"),
    [
        ({2: "Autograd", 0: "Undefined", 1: "CPU", 3: "Later"}, {"Autograd"}, ("Undefined", "CPU", "Later")),
        ({0: "Undefined", 1: "QuantizedUnknown", 2: "CPU"}, set(), ("Undefined", "CPU")),
        ({}, set(), ()),
        # One bit for each functionality, then the backends of each of them, then the aliases.
        (
            {
                0: "Undefined",
                1: "Dense",
                2: "FPGA",
                3: "Sparse",
                4: "BackendSelect",
                10: "CPU",
                11: "CUDA",
                20: "SparseCPU",
                21: "SparseCUDA",
                30: "Autograd",
            },
            {"Autograd"},
            ("Undefined", "CPU", "CUDA", "FPGA", "SparseCPU", "SparseCUDA", "BackendSelect"),
        ),
        ({0: "Undefined", 3: "Sparse", 10: "CPU", 20: "SparseCPU"}, set(), ("Undefined", "Sparse", "CPU", "SparseCPU")),
    ],
)
def test_the_order_of_the_entries(keys: dict[int, str], aliases: set[str], expected: tuple[str, ...]) -> None:
    assert runtime_keys(keys, dict.fromkeys(aliases, frozenset())) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({0: "Undefined", 1: "Dense", 2: "Sparse", 10: "CPU", 11: "CUDA", 20: "SparseCPU"}, "SparseCUDA"),
        ({0: "Undefined", 1: "Dense", 2: "Sparse", 10: "CPU", 11: "CUDA"}, None),
        ({0: "Undefined", 1: "Dense", 10: "CPU", 11: "CUDA", 20: "SparseCPU"}, None),
        ({0: "Undefined", 1: "Dense", 2: "Sparse"}, None),
        ({0: "Undefined", 1: "Dense", 2: "Sparse", 10: "CPU", 11: "Unknown", 12: "CUDA", 20: "SparseCPU"}, None),
    ],
)
def test_keys_that_a_release_has_without_a_name_for_them(keys: dict[int, str], expected: str | None) -> None:
    """1.12 names few of the keys that each functionality has, one for each backend."""
    base = operators("1.12.1", Machine.X86_64, ())
    found = DispatchTable((1, 12), msgspec.structs.replace(base, keys=keys, aliases={})).names
    assert found.get(21) == expected
    assert found.items() >= keys.items()
