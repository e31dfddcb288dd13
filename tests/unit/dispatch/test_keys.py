from __future__ import annotations

import pytest
from packaging.version import Version

from abiscan.dispatch.keys import keys_of


# c10/core/DispatchKey.h of the releases: PrivateUse1 moved with almost each of them.
@pytest.mark.parametrize(
    ("version", "number", "name"),
    [
        ("1.4.0", 1, "CPUTensorId"),
        ("1.6.0", 1, "CPU"),
        ("2.8.0", 50, "CPU"),
        ("2.12.1", 50, "CPU"),
        ("2.13.0", 49, "CPU"),
        ("2.13.0", 50, "CUDA"),
        ("2.13.0", 0, "Undefined"),
    ],
)
def test_names_a_number_as_the_release_does(version: str, number: int, name: str) -> None:
    assert keys_of(Version(version)).name(number) == name


def test_torch_prints_the_new_name_of_a_renamed_key() -> None:
    names = set(keys_of(Version("2.8.0")).names.values())
    assert {"CompositeExplicitAutograd", "AutocastCUDA"} <= names
    assert not names & {"DefaultBackend", "Autocast", "CPUTensorId"}


def test_before_the_renaming_the_old_name_is_the_name() -> None:
    assert "DefaultBackend" in keys_of(Version("1.8.0")).names.values()


def test_a_newer_release_gets_the_newest_keys_known() -> None:
    assert keys_of(Version("9.0")).minor == keys_of(Version("2.15.0")).minor


def test_an_older_release_gets_the_oldest_keys_known() -> None:
    assert keys_of(Version("1.0")).minor == (1, 4)


def test_a_number_without_a_name_says_so() -> None:
    assert keys_of(Version("2.8.0")).name(4_000) == "Unknown(4000)"


def test_the_number_before_the_keys_of_a_functionality_is_named_as_torch_names_it() -> None:
    """Kernels of torchvision 0.22.1 that a real torch 2.8.0 for aarch64 lists so: for QuantizedCPU, in 2.7."""
    assert keys_of(Version("2.7.1")).name(66) == "QuantizedCPU"
    assert keys_of(Version("2.8.0")).name(66) == "QuantizedUndefined"
    assert not keys_of(Version("2.8.0")).can_register(66)
    assert keys_of(Version("2.8.0")).name(49) == "Unknown(49)"  # torch says "Undefined", as of number 0
    assert keys_of(Version("1.6.0")).name(16) == "Unknown(16)"  # before MkldnnCPU: no functionality yet


@pytest.mark.parametrize(("number", "expected"), [(49, True), (0, True), (4_000, False)])
def test_a_kernel_is_registered_for_keys_only(number: int, expected: bool) -> None:
    assert keys_of(Version("2.13.0")).can_register(number) is expected
