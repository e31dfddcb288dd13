from __future__ import annotations

import pytest
from packaging.version import Version

from abiscan.dispatch.tags import tags_in, tags_of


# ATen/core/enum_tag.h of the releases.
@pytest.mark.parametrize(
    ("version", "number", "name"),
    [
        ("1.13.1", 0, "data_dependent_output"),
        ("2.0.0", 0, "core"),
        ("2.8.0", 1, "cudagraph_unsafe"),
        ("2.6.0", 1, "data_dependent_output"),
        ("2.13.0", 99, "Unknown(99)"),
        ("2.13.0", -1, "Unknown(-1)"),
    ],
)
def test_names_a_number_as_the_release_does(version: str, number: int, name: str) -> None:
    assert tags_of(Version(version)).name(number) == name


def test_before_1_13_there_are_none() -> None:
    assert tags_of(Version("1.12.1")).names == ()


def test_reads_the_header_of_a_torch() -> None:
    lines = ("#pragma once", "namespace at {", "    enum class Tag {", "        // core, of all")
    header = "\n".join([*lines, "        core,", "        pt2,", "    };", "}"])
    found = tags_in(header)
    assert found is not None
    assert found.names == ("core", "pt2")
    assert tags_in("enum class Other { core }") is None
