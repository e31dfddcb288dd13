"""What a look at the imports of an environment tells, compared with the imports themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from abiscan.environments.glance import ImportGlance
from abiscan.environments.library_glance import LibraryGlance
from abiscan.environments.model import WholeEnvironment
from abiscan.inputs import packages
from abiscan.inputs.files import Files
from abiscan.python.installed import Surroundings, installed_in
from tests.fakes import install

# Each is a package ``user``, beside a package ``other`` with ``name``, and a ``lazy`` one.
OTHERS = {
    "other/__init__.py": "from .deep import *\nname = 1\n",
    "other/deep.py": "starred = 1\n",
    "lazy/__init__.py": "def __getattr__(name):\n    from . import models\n    return getattr(models, name)\n",
    "lazy/models.py": "class Model: ...\n",
}
WORKS = {
    "names": "from other import name, starred, deep\nimport json, os.path\nfrom lazy import Model\n",
    "modules": "from . import part\nfrom .part import Thing\n",
    "guarded": "try:\n    import absent\nexcept ImportError:\n    absent = None\n",
    "condition": "import importlib.util\nif importlib.util.find_spec('absent'):\n    import absent\n",
    "for checkers": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from absent import X\n\nimport other\n",
    "in functions": "def f():\n    import absent\n    raise RuntimeError\n",
    "handled": "try:\n    raise ImportError\nexcept ImportError:\n    pass\n",
    "text": '"""\nfrom nowhere import {name}\n"""\n',
    "text without braces": '"""\nimport absent\n"""\n',
    "vendored": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), '_vendor'))\nimport brought\n",
    "main": "if __name__ == '__main__':\n    raise SystemExit(1)\n",
}
FAILS = {
    "absent": "import absent\n",
    "absent name": "from other import gone\n",
    "absent name of a lazy one": "from lazy import Gone\n",
    "absent module": "from .gone import Thing\n",
    "deeper": "from .bad import Thing\n",
    "raises": "import sys\nif sys.version_info > (3,):\n    raise RuntimeError('too new')\n",
    "ends": "import sys\nsys.exit('no GPU')\n",
    "loads": "import ctypes\nctypes.CDLL('/not/there.so')\n",
    "loads when called": "import ctypes\ndef load():\n    ctypes.CDLL('/not/there.so')\nload()\n",
    "in a block that runs": "import warnings\nwith warnings.catch_warnings():\n    import absent\n",
    "by a computed name": "import importlib\nimportlib.import_module('abs' + 'ent')\n",
    "no syntax": "print 'of Python 2'\n",
    "a word by now": "def f(x, async=True): ...\n",
    "asserts": "import sys\nassert sys.platform == 'plan9'\n",
}


@pytest.mark.parametrize("code", [*WORKS.values(), *FAILS.values()], ids=[*WORKS, *FAILS])
def test_what_is_settled_works(tmp_path: Path, code: str) -> None:
    parts = {"part.py": "import other\nclass Thing: ...\n", "bad.py": "import absent\nclass Thing: ...\n"}
    parts["_vendor/brought.py"] = ""
    for name, files in (
        ("other", {path: text for path, text in OTHERS.items() if path.startswith("other/")}),
        ("lazy", {path: text for path, text in OTHERS.items() if path.startswith("lazy/")}),
        ("user", {"user/__init__.py": code, **{f"user/{path}": text for path, text in parts.items()}}),
    ):
        install(tmp_path, name, {}, requires="", files=files)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import user"
    done = subprocess.run([sys.executable, "-Ic", program], capture_output=True, check=False)
    assert glance(tmp_path).settles(["user"], (), uses_torch=True) is (done.returncode == 0)


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        ("import other\n", False),
        ("if True:\n    import other\n", False),  # it is there, so that no handler for its absence counts
        ("from lazy import Model\n", False),  # which is in a module that imports it
        ("import lazy\n", True),
        ("from lazy.plain import Thing\n", True),
        ("def f():\n    import other\n", True),
    ],
)
def test_what_comes_to_a_module_that_fails_is_not_settled(tmp_path: Path, code: str, *, settled: bool) -> None:
    lazy = {**OTHERS, "lazy/models.py": "import other\nclass Model: ...\n"}
    lazy["lazy/plain.py"] = "import sys\nclass Thing:\n    name = sys.modules[__name__].__name__\n"
    install(tmp_path, "lazy", {}, requires="", files=lazy)
    install(tmp_path, "user", {}, requires="", files={"user/__init__.py": code})
    assert glance(tmp_path).settles(["user"], {"other"}, uses_torch=True) is settled


def test_a_module_is_sound_if_all_is_that_it_imports(tmp_path: Path) -> None:
    install(tmp_path, "other", {}, requires="", files={**OTHERS, "other/late.py": "import user.absent\n"})
    user = {"user/__init__.py": "import other\n", "user/absent_too.py": "import other.gone\n", "user/part.py": ""}
    install(tmp_path, "user", {}, requires="", files=user)
    looked, nothing = glance(tmp_path), frozenset[str]()
    modules = ["other", "other.deep", "other.late", "user", "user.part", "user.absent_too"]
    sound = ["other", "other.deep", "user", "user.part"]
    for _ in range(2):  # the second time, most of it is known
        assert [name for name in modules if looked.is_sound(name, nothing)] == sound
        assert [name for name in modules if looked.is_sound(name, frozenset({"other"}))] == []


def glance(site: Path) -> ImportGlance:
    folders, python = (site,), sys.version_info[:2]
    surroundings = Surroundings(installed=installed_in(folders, python), folders=folders, python=python, is_final=True)
    users = {item.name: item for item in packages.list_installed([str(site)])}
    environment = WholeEnvironment(python=None, distributions=tuple(users.values()))
    return ImportGlance(surroundings, None, users, LibraryGlance(environment, surroundings, Files()))
