"""What could not be known of an extension is said with each verdict on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import abiscan
from tests.fakes import SAMPLES

CONFLICTS = SAMPLES / "registration_conflicts"


@pytest.mark.parametrize(
    ("name", "torch", "expected"),
    [
        # Of one file nothing tells torch 1.4 from 1.5, and these number the backends differently: README.md there.
        ("mini_ipex/built_for_1.4.0/mini_ipex.so", "1.4.0", True),
        ("mini_ipex/built_for_1.4.0/mini_ipex.so", "1.5.0", True),
        ("mini_ipex/built_for_1.5.0/mini_ipex.so", "1.4.0", True),
        ("mini_ipex/built_for_1.6.0/mini_ipex.so", "1.6.0", False),
        ("dispatch_key_drift.so", "2.13.0", False),  # built for one release: what it means is certain
    ],
)
def test_releases_that_read_the_numbers_of_keys_differently_are_a_gap(name: str, torch: str, expected: bool) -> None:
    (result,) = abiscan.check(CONFLICTS / name, torch).results
    (inventory,) = abiscan.operators(CONFLICTS / name).inventories
    found = [gap.reason for gap in result.gaps if gap.stage == "keys"]
    assert found == [gap.reason for gap in inventory.gaps if gap.stage == "keys"]
    assert bool(found) == expected


def test_a_file_that_cannot_be_read_is_unknown_on_the_torch_that_was_asked_for(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "loads" / "loads.so", tmp_path)
    (tmp_path / "cut.so").write_bytes(b"\x7fELF\x02\x01")
    loads, unread = abiscan.check(tmp_path, torch="2.13.0").results
    assert (unread.path, unread.verdict.value, loads.verdict.value) == ("cut.so", "unknown", "loads")
    assert (unread.torch, loads.torch) == ("2.13.0", "2.13.0")
    assert [gap.stage for gap in unread.gaps] == ["elf"]
