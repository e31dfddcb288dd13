"""Which process runs which tests, where ``pytest --numprocesses=2 --dist=loadgroup`` starts several.

One process runs all tests of a file, since they share fixtures. What takes long comes first, so that in the end no
process waits long for the other. pytest-xdist distributes by marks instead, but not since pytest 9.2: it appends the
group to ``Item._nodeid``, which pytest no longer reads (https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

from typing import Final

TOGETHER: Final = {
    "tests/oracle/test_ground_truth.py": "corpus",
    "tests/oracle/test_packages.py": "corpus",
    "tests/oracle/test_registrations.py": "corpus",
    "tests/oracle/test_dispatch_table.py": "operators of torch",
    "tests/oracle/test_live.py": "operators of torch",
    "tests/oracle/test_release_tool.py": "operators of torch",
    "tests/oracle/test_torch_release.py": "operators of torch",
    "tests/oracle/test_unlisted_torch.py": "operators of torch",
}
"""Files that share what is expensive, each with the name of its group."""

APART: Final = ("tests/test_fuzz.py::test_nothing_escapes",)
"""Tests of which every case is a group of its own."""

FIRST: Final = ("corpus", "operators of torch", "tests/oracle/", "tests/commands/", "tests/test_", "tests/unit/hooks/")
"""The groups that take longest, and how the names of others begin that take long."""


def group_of(nodeid: str) -> str:
    """The group of a test."""
    if nodeid.startswith(APART):
        return nodeid
    file = nodeid.partition("::")[0]
    return TOGETHER.get(file, file)


def place_of(nodeid: str) -> int:
    """The place in the order of all tests: what takes long comes first, and the tests of a group stay together."""
    group = group_of(nodeid)
    return next((place for place, beginning in enumerate(FIRST) if group.startswith(beginning)), len(FIRST))
