"""A new kind of data on torch: a reader, and what fills it, as CONTRIBUTING says; in a copy of the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import abiscan
from abiscan.dispatch.operators import Operator, Operators
from tools import data_files
from tools.data_files import MARKS_OF_BUILDS, Build, put_marks

READER: Final = """
from abiscan.torches.marks import MarkTable

def tagged(tag, build):
    table = MarkTable.of("tagged")
    return sorted(table.marks_in(tag, table.numbers[build]))
"""


def build_of(version: str, tags: dict[str, str]) -> Build:
    """A build whose operators have tags, read as a wheel would be."""
    operators = Operators(
        operators={name: Operator(name, None, (tag,), None, None) for name, tag in tags.items()},
        kernels=(),
        fallbacks=(),
        namespaces={},
        classes=frozenset(),
        keys={},
        aliases={},
        gaps=(),
    )
    return Build(
        description={"build": version, "machine": "x86_64"},
        identities={},
        exports={},
        operators=operators,
        marks={kind: make(Path("torch"), operators) for kind, make in MARKS_OF_BUILDS.items()},
    )


def test_a_kind_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        data_files.MARKS_OF_BUILDS,
        "tagged",
        lambda _, operators: {(tag, one.name) for one in operators.operators.values() for tag in one.tags},
    )
    installed = Path(shutil.copytree(Path(abiscan.__file__).parent, tmp_path / "abiscan"))
    (installed / "torches/embedded_tagged.py").write_text(READER)
    data = installed / "torches/data"
    put_marks(data, [build_of("9.8.0", {"aten::add": "core", "aten::cat": "core"})])
    put_marks(data, [build_of("9.9.0", {"aten::add": "core", "aten::cat": "view"})])
    code = (
        "from abiscan.torches.embedded_tagged import tagged\n"
        "print(tagged('core', '9.8.0 x86_64'), tagged('core', '9.9.0 x86_64'), tagged('view', '9.9.0 x86_64'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "['aten::add', 'aten::cat'] ['aten::add'] ['aten::cat']\n", done.stderr
    assert sorted(path.name for path in (data / "tagged").iterdir()) == ["0.blocks", "1.blocks"]
