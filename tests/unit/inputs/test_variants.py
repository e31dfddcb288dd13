"""Labels and properties of variant wheels (PEP 825)."""

from __future__ import annotations

import json

import pytest
from packaging.version import Version

from abiscan.inputs.requirement import metadata_of
from abiscan.inputs.variants import (
    VariantProperty,
    read_variants,
    variant_label,
    variant_of_wheel,
    without_label,
)
from abiscan.inputs.wheel_tag import manylinux_version

# The examples of PEP 825, "Variant label" and "Index-level metadata".
PEP = {
    "default-priorities": {"namespace": ["x86_64", "aarch64", "blas_lapack"]},
    "variants": {
        "null": {},
        "x86_64_v3_openblas": {"blas_lapack": {"library": ["openblas"]}, "x86_64": {"level": ["v3"]}},
        "x86_64_v4_mkl": {"blas_lapack": {"library": ["mkl"]}, "x86_64": {"level": ["v4"]}},
    },
}


@pytest.mark.parametrize(
    ("wheel", "label"),
    [
        ("numpy-2.3.2-cp313-cp313t-musllinux_1_2_x86_64.whl", ""),
        ("numpy-2.3.2-cp313-cp313t-musllinux_1_2_x86_64-x86_64_v3.whl", "x86_64_v3"),
        ("numpy-2.3.2-1-cp313-cp313t-musllinux_1_2_x86_64-x86_64_v3.whl", "x86_64_v3"),
        ("numpy-2.3.2-1-cp313-cp313t-musllinux_1_2_x86_64.whl", ""),
        ("numpy-2.3.2-cp313-cp313t-musllinux_1_2_x86_64-null.whl", "null"),
        ("numpy-2.3.2-cp313-cp313t-musllinux_1_2_x86_64-CUDA.whl", ""),
        ("flash_attn-2.8.0-py3-none-any-cu12_pyt2.9.0.whl", "cu12_pyt2.9.0"),
    ],
)
def test_the_label_in_a_file_name(wheel: str, label: str) -> None:
    assert variant_label(wheel) == label
    assert without_label(wheel) == (wheel.replace(f"-{label}.whl", ".whl") if label else wheel)


def test_tags_are_those_before_the_label() -> None:
    metadata = metadata_of(
        ["torch>=2; python_version < '3.12'"], "1.0", "a-1.0-cp311-cp311-manylinux_2_28_x86_64-v3.whl"
    )
    assert metadata.python == "3.11"
    assert metadata.requires_torch is not None
    assert manylinux_version(metadata.wheel) == (2, 28)


def test_all_variants_of_a_version_the_preferred_first() -> None:
    listed = read_variants(json.dumps(PEP))
    assert listed.variants["x86_64_v4_mkl"].properties == (
        VariantProperty("blas_lapack", "library", "mkl"),
        VariantProperty("x86_64", "level", "v4"),
    )
    ordered = sorted(listed.variants.values(), key=listed.sort_key)
    assert [variant.label for variant in ordered] == ["x86_64_v4_mkl", "x86_64_v3_openblas", "null"]


def test_of_properties_that_begin_alike_more_come_first() -> None:
    variants = {
        "b": {"n": {"f": ["1.10"]}},
        "a": {"n": {"f": ["1.9"], "g": ["1"]}},
        "c": {"n": {"f": ["1.10"], "g": ["1"]}},
    }
    listed = read_variants(json.dumps({"variants": variants}))
    assert [one.label for one in sorted(listed.variants.values(), key=listed.sort_key)] == ["c", "b", "a"]


# PEP 817, "ABI dependency": its table, and its example of two properties.
@pytest.mark.parametrize(
    ("values", "admitted", "excluded"),
    [
        (["2"], ["2.0", "2.9.1", "2.10.0"], ["1.13.1", "3.0"]),
        (["2.9"], ["2.9.0", "2.9.1", "2.9.1+cu128"], ["2.10.0", "2.8.0"]),
        (["2.8.0"], ["2.8.0", "2.8"], ["2.8.1"]),
        (["2.8.0", "2.9.0"], ["2.8.0", "2.9.0"], ["2.9.1"]),
    ],
)
def test_which_torch_is_meant(values: list[str], admitted: list[str], excluded: list[str]) -> None:
    text = json.dumps({"variants": {"v": {"abi_dependency": {"torch": values}}}})
    variant = variant_of_wheel("v", text)
    assert variant is not None
    assert all(variant.admits_torch(Version(version)) for version in admitted)
    assert not any(variant.admits_torch(Version(version)) for version in excluded)


@pytest.mark.parametrize(
    ("label", "text", "problem"),
    [
        ("v", None, "no variant.json"),
        ("v", "{", "cannot be read"),
        ("v", "[" * 100_000, "cannot be read"),
        ("v", "[]", 'it has no "variants"'),
        ("v", '{"variants": {}}', "has the variants none, not 'v'"),
        ("", '{"variants": {"a": {}, "b": {}}}', "not exactly one"),
        ("v", '{"variants": {"v": 3}}', "no properties for v"),
        ("v", '{"variants": {"v": {"n": 3}}}', "no list of values for n"),
        ("v", '{"variants": {"v": {"N": {"f": ["a"]}}}}', "no list of values for N :: f"),
        ("v", '{"variants": {"v": {"n": {"f": [3]}}}}', "no list of values for n :: f"),
        ("v", '{"variants": {"v": {"n": {"f": []}}}}', "no list of values for n :: f"),
        ("null", '{"variants": {"null": {"n": {"f": ["a"]}}}}', "the variant null has properties"),
        ("v", '{"variants": {"v": {"abi_dependency": {"torch": ["2.9.0.1"]}}}}', "is not a release of torch"),
    ],
)
def test_what_does_not_follow_the_format_is_told(label: str, text: str | None, problem: str) -> None:
    variant = variant_of_wheel(label, text)
    assert variant is not None
    assert problem in " ".join(variant.problems)


def test_a_wheel_of_no_variant() -> None:
    assert variant_of_wheel("", None) is None
