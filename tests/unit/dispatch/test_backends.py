"""Which backend an extension is for, from the keys of its kernels and its device guards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from abiscan.dispatch.coverage import backend_of, base_of, core_operators, device_key, key_in
from abiscan.dispatch.keys import DispatchKeys, keys_of_minor
from abiscan.dispatch.operators import Operator, Operators

OLD = DispatchKeys(minor=(1, 12), names={1: "CPU", 7: "XLA", 9: "Meta"})
NEW = DispatchKeys(minor=(2, 0), names={1: "CPU", 7: "HPU", 9: "XLA"})


@pytest.mark.parametrize(
    ("keys", "readings", "devices", "expected"),
    [
        ([], [NEW], (), None),
        ([None, "Autograd", "AutogradPrivateUse1", "SparseCPU"], [NEW], (), None),
        (["Meta", "XLA", "Meta"], [NEW], (), ("XLA", NEW)),
        ([None, "XLA"], [NEW], (), ("XLA", NEW)),
        (["XLA", "PrivateUse1", "PrivateUse1"], [NEW], (), ("PrivateUse1", NEW)),
        (["PrivateUse1", "PrivateUse1", "XLA"], [NEW], (), ("PrivateUse1", NEW)),
        (["PrivateUse1", "XLA"], [NEW], (), ("XLA", NEW)),  # among equals, the last
        (["PrivateUse1", "PrivateUse1", "XLA"], [NEW], ("XLA",), ("XLA", NEW)),  # it has a device guard
        (["XLA", "PrivateUse1", "PrivateUse1"], [NEW], ("XLA",), ("XLA", NEW)),
        ([7], [OLD], (), ("XLA", OLD)),
        ([7], [OLD, NEW], (), ("HPU", NEW)),
        ([7], [OLD, NEW], ("XLA",), ("XLA", OLD)),
        ([9, 9, 7], [OLD], (), ("XLA", OLD)),
        ([9, 7], [NEW], ("HPU",), ("HPU", NEW)),
    ],
)
def test_the_backend_that_most_kernels_are_for(
    keys: Sequence[int | str | None],
    readings: Sequence[DispatchKeys],
    devices: Sequence[str],
    expected: tuple[str, DispatchKeys] | None,
) -> None:
    assert backend_of(keys, readings, devices) == expected


@pytest.mark.parametrize(
    ("number", "key"),
    [(0, "CPU"), (1, "CUDA"), (8, "MAIA"), (9, "XLA"), (10, "Vulkan"), (11, "Metal"), (20, "PrivateUse1"), (21, None)],
)
def test_the_numbers_of_devices(number: int, key: str | None) -> None:
    """``c10/core/DeviceType.h``."""
    assert device_key(number) == key


def test_a_key_keeps_its_meaning_under_another_name() -> None:
    """``c10/core/DispatchKey.h``: MSNPU became ORT, and that MAIA; up to 1.5, names end in TensorId."""
    assert base_of("CPUTensorId") == base_of("CPU") == "CPU"
    assert key_in(["CPU", "ORT"], "MSNPUTensorId") == "ORT"
    assert key_in(["MAIA", "CPU"], "ORT") == "MAIA"
    assert key_in(["CPUTensorId", "ORT"], "CPU") == "CPUTensorId"
    assert key_in(["CPU", "ORT"], "XLA") is None
    assert key_in(["Lazy"], "LAZY") == "Lazy"


def test_core_operators_have_the_tag() -> None:
    found = {
        name: Operator(name, None, tags, None, None)
        for name, tags in {"aten::a": ("core", "pt2"), "aten::b": ("pt2",), "aten::c": ()}.items()
    }
    operators = Operators(
        operators=found, kernels=(), fallbacks=(), namespaces={}, classes=frozenset(), keys={}, aliases={}, gaps=()
    )
    assert core_operators(operators) == {"aten::a"}


def test_the_number_before_the_first_backend_of_a_functionality() -> None:
    """From 1.12 on, torch names it after the functionality (``c10::toString``); before, numbers had no such meaning."""
    keys = DispatchKeys(minor=(1, 12), names={1: "CPU", 30: "QuantizedCPU", 41: "Sparse"})
    assert keys.name(29) == "QuantizedUndefined"
    assert keys.name(0) == "Unknown(0)"  # nothing stands before the name of the backend
    assert keys.name(40) == "Unknown(40)"
    assert keys.name(30) == "QuantizedCPU"
    assert DispatchKeys(minor=(1, 11), names=keys.names).name(29) == "Unknown(29)"
    assert keys.can_register(30)
    assert not keys.can_register(29)


def test_a_release_without_a_table_has_that_of_the_one_before() -> None:
    assert keys_of_minor((1, 3)) == keys_of_minor((1, 4))
    assert keys_of_minor((99, 0)).minor == max(keys_of_minor((minor, 99)).minor for minor in (1, 2))
    assert keys_of_minor((2, 0)).minor == (2, 0)
