"""Modules that only some versions of Python bring: "Removed" and "New Modules" in "What's New in Python 3.X"."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from abiscan.python.package import standard
from abiscan.python.package.installed import Surroundings, installed_in
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, Raised
from abiscan.python.package.sources import PackageFiles
from tests.unit.python.packages import FakeWorld, TextSources, reading_of


def error_of(code: str, python: tuple[int, int] | Answer, around: Surroundings | None = None) -> str | None:
    outcome = next(
        one
        for one in reading_of({"p/__init__.py": code + "\n"}, FakeWorld(python=python), around).imports
        if one.module == "p"
    )
    assert outcome.raised is None or isinstance(outcome.raised, Raised)
    return str(outcome.raised.message) if outcome.raised else None


@pytest.mark.parametrize(
    ("module", "last", "first_without"),
    [("binhex", 10, 11), ("imp", 11, 12), ("asyncore", 11, 12), ("cgi", 12, 13), ("lib2to3", 12, 13), ("uu", 12, 13)],
)
def test_a_module_that_was_removed(module: str, last: int, first_without: int) -> None:
    assert error_of(f"import {module}", (3, last)) is None
    assert error_of(f"import {module}", (3, first_without)) == f"No module named '{module}'"
    assert error_of(f"import {module}", Answer.UNKNOWN) is None


def test_a_module_that_came_later() -> None:
    assert error_of("import tomllib", (3, 10)) == "No module named 'tomllib'"
    assert error_of("import tomllib", (3, 11)) is None
    assert error_of("try:\n    import tomllib\nexcept ImportError:\n    tomllib = None", (3, 10)) is None


def test_setuptools_brings_distutils_back(tmp_path: Path) -> None:
    # Seen with Python 3.12.1, with setuptools 81.0.0 and without. torch requires setuptools from 2.4 on.
    assert error_of("from distutils.version import LooseVersion", (3, 12)) is None

    def around() -> Surroundings:
        return Surroundings(installed=installed_in((tmp_path,)), folders=(tmp_path,), python=(3, 12))

    assert error_of("import distutils.version", (3, 12), around()) == "No module named 'distutils'"
    (tmp_path / "setuptools").mkdir()
    (tmp_path / "setuptools" / "__init__.py").touch()
    assert error_of("import distutils.version", (3, 12), around()) is None


def test_a_copy_that_the_package_requires() -> None:
    metadata = "Metadata-Version: 2.1\nName: p\nVersion: 1\nRequires-Dist: audioop-lts\n"
    files = {"p/__init__.py": "import audioop\n", "p-1.dist-info/METADATA": metadata}
    (outcome,) = reading_of(files, FakeWorld(python=(3, 13))).imports
    assert outcome.raised is None


def test_this_python_has_what_the_table_says() -> None:
    python = sys.version_info[:2]
    listed = standard.REMOVED | standard.FIRST
    assert {name for name in listed if standard.has_module(name, python)} == listed.keys() & sys.stdlib_module_names


@pytest.mark.parametrize(
    ("code", "last", "message"),
    [
        ("from collections import Mapping", 9, "cannot import name 'Mapping' from 'collections'"),
        ("import collections\nclass A(collections.Set): pass", 9, "module 'collections' has no attribute 'Set'"),
        ("import inspect as i\ni.getargspec(print)", 10, "module 'inspect' has no attribute 'getargspec'"),
        ("import asyncio\n@asyncio.coroutine\ndef f(): ...", 10, "module 'asyncio' has no attribute 'coroutine'"),
        ("from pkgutil import ImpImporter", 11, "cannot import name 'ImpImporter' from 'pkgutil'"),
    ],
)
def test_a_name_that_was_removed(code: str, last: int, message: str) -> None:
    assert error_of(code, (3, last)) is None
    assert error_of(code, (3, last + 1)) == message
    assert error_of(code, Answer.UNKNOWN) is None
    assert error_of(f"{code}\nimport torch\n" + "def f(): ...\n" * 200, (3, last + 1)) == message


@pytest.mark.parametrize(
    "code",
    [
        "from collections.abc import Mapping",
        "import collections, collections.abc\ncollections.Mapping = collections.abc.Mapping\ncollections.Mapping",
        "try:\n    from collections import Mapping\nexcept ImportError:\n    from collections.abc import Mapping",
        "import sys\nif sys.version_info < (3, 10):\n    from collections import Mapping",
        "import collections\nx = getattr(collections, 'Mapping', None)",
        "def f():\n    from collections import Mapping",
    ],
)
def test_a_name_that_is_not_needed(code: str) -> None:
    assert error_of(code, (3, 13)) is None


def test_each_source_is_asked_once_for_such_names(monkeypatch: pytest.MonkeyPatch) -> None:
    # torchmetrics is imported fourteen times to find out that it works; that was half of its time.
    looked: list[bytes] = []

    def look(source: bytes) -> bool:
        looked.append(source)
        return False

    monkeypatch.setattr(standard, "may_name_lost", look)
    later = "import torch\nimport collections\n" + "def f(): ...\n" * 400
    reading = reading_of({"p/__init__.py": "import p.later\n", "p/later.py": later}, FakeWorld(python=(3, 11)))
    assert reading.imports
    code = PythonCode(PackageFiles(TextSources({"p.py": later})), ["p"], (3, 11))
    code.lost_names("p.py")
    code.on((3, 12)).lost_names("p.py")
    assert code.with_lost == ()
    assert looked == [later.encode()] * 2


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from collections import OrderedDict, Mapping", {"collections.Mapping"}),
        ("from  collections import (\n    OrderedDict,\n    Mapping,\n)", {"collections.Mapping"}),
        ("from collections import OrderedDict, \\\n    Mapping", {"collections.Mapping"}),
        ("from collections \\\r\n import \\\r\n  Set\r\n", {"collections.Set"}),
        ("import os, \\\n  inspect\nx = inspect.getargspec", {"inspect.getargspec"}),
        ("import importlib.abc\nimportlib.abc.Finder", {"importlib.abc.Finder"}),
        ("import inspect\nx = 0 if inspect.getargspec else 1", {"inspect.getargspec"}),
        ("from typing.io import TextIO", {"typing.io"}),  # hydra-core, in an else
        ("from collections import OrderedDict", set()),
        ("from pack.collections import Mapping\nself.collections.Set, collections.Settings", set()),
    ],
)
def test_the_names_in_a_source(code: str, names: set[str]) -> None:
    assert standard.lost_names(code.encode()) == names
    assert standard.may_name_lost(code.encode()) or not names


def test_a_method_of_texts_is_no_name_of_a_module() -> None:
    # Such sources are parsed, with all that they bind.
    assert not standard.may_name_lost(b"import math\nprint('{}'.format(math.pi), torch.dist)")
    assert not standard.may_name_lost(b"from typing import (\n    Callable,\n    Mapping,\n)\n")
    assert standard.may_name_lost(b"from collections import (\n    deque,\n    Mapping,\n)\n")
    assert not standard.may_name_lost(b"from typing import Any\nx = 'https://a.github.io'\n")
    assert standard.may_name_lost(b"import math, locale as l\nprint(l.format('%d', 1))")
    assert standard.may_name_lost(b"import importlib.abc as a\na.Finder")
    assert standard.may_name_lost(b"import math, \\\n  locale \\\n  as l\nprint(l.format('%d', 1))")
    assert not standard.may_name_lost(b"import math\n'locale as'\nprint('{}'.format(math.pi))")


def test_a_name_counts_only_where_it_may_be_taken_of_its_module() -> None:
    assert not standard.may_name_lost(b"import re, collections\nself.template = object.Mapping\n")
    assert standard.may_name_lost(b"import re\nre .template('a')\n")
    assert standard.may_name_lost(b"import importlib\nimportlib.util.set_loader\n")
    assert standard.may_name_lost(b"import collections as c\nclass M(c.Mapping): pass\n")


def test_a_name_that_the_python_of_an_environment_lacks(tmp_path: Path) -> None:
    around = Surroundings(installed=installed_in((tmp_path,)), folders=(tmp_path,), is_final=True, python=(3, 11))
    reading = reading_of({"p/__init__.py": "from collections import Mapping\n"}, FakeWorld(python=(3, 11)), around)
    (raised,) = (outcome.raised for outcome in reading.imports)
    assert isinstance(raised, Raised)
    assert raised.of_other == "collections"


def test_this_python_has_the_names_that_the_table_says() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, below in standard.REMOVED_NAMES.items():
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute) is (sys.version_info[:2] < below), name


def test_python_has_what_it_starts_with() -> None:
    program = "import sys; print(*(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-IS", "-c", program], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert "__main__" in names
    assert all(standard.has_module(name, sys.version_info[:2]) for name in names)


@pytest.mark.parametrize("full", standard.REMOVED_NAMES)
def test_each_lost_name_is_seen(full: str) -> None:
    """As an attribute of the module that had it, under a name of its own; other names that begin alike are none."""
    module, _, name = full.rpartition(".")
    assert standard.may_name_lost(f"import {module} as m\nm.{name}\n".encode())
    assert standard.lost_names(f"import {module}\n{full}\n".encode()) == {full}
    assert not standard.may_name_lost(f"import {module} as m\nm.{name}x\n".encode())
    assert not standard.may_name_lost(f"import other as m\nm.{name}\n".encode())
