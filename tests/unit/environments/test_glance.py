"""What a look at the imports of an environment tells, compared with the imports themselves."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from abiscan.environments.glance import ImportGlance
from abiscan.environments.library_glance import LibraryGlance
from abiscan.environments.model import WholeEnvironment
from abiscan.inputs import observed_fs, packages
from abiscan.inputs.files import Files
from abiscan.python.package.installed import Surroundings, installed_in
from abiscan.python.package.systems import LINUX
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.torches import embedded_names
from tests.elf_builder import Elf, exports
from tests.fakes import install

# Each is a package ``user``, beside a package ``other`` with ``name``, and a ``lazy`` one.
OTHERS = {
    "other/__init__.py": "from .deep import *\nname = 1  # gone_too\nmarked = '#', (after := 2)\n",
    "other/deep.py": "from .deepest import *\nstarred = 1\n",
    "other/deepest.py": "deepest = 1\n",
    "lazy/__init__.py": "def __getattr__(name):\n    import lazy.models as models\n    return getattr(models, name)\n",
    "lazy/models.py": "import os\nclass Model: ...\nSize: int = 3\n",
    "space/thing.py": "",
    # As multiprocess copies the methods of its default context.
    "copies/__init__.py": "from . import context\n"
    "globals().update((name, getattr(context._default, name)) for name in dir(context._default) if name[0] != '_')\n",
    "copies/context.py": "class Context:\n    LIMIT = 1\n    def get_pool(self):\n        hidden = 1\n\n"
    "_default = Context()\n",
    "replaceable/__init__.py": "import sys\n"
    "def speed_up():\n    import _json as found\n    sys.modules[__name__] = found\n",
}
WORKS = {
    "names": "from other import name, starred, deep\nimport json, os.path\nfrom lazy import Model\n",
    "a name after the sign of a comment": "from other import after\n",
    "several lines": "from other import (\n    name,\n    starred as s,\n)\n",
    "names of any module": "from other import __file__, __name__\n",
    "what is assigned in a lazy one": "from lazy import Size\n",
    "stars behind stars": "from other import deepest\n",
    "modules": "from . import part\nfrom .part import Thing\n",
    "of itself": "from user import part\nimport user.part\n",
    "a folder without a body": "from space import thing\nimport space.thing\n",
    "guarded": "try:\n    import absent\nexcept ImportError:\n    absent = None\n",
    "guarded with others": "try:\n    from absent.deep import a, b\nexcept (ImportError, OSError):\n    a = b = None\n",
    "condition": "import importlib.util\nif importlib.util.find_spec('absent'):\n    import absent\n",
    "for checkers": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from absent import X\n\nimport other\n",
    "long for checkers": "import typing as t\nif t.TYPE_CHECKING:\n    import absent\n\n    import absent.a\nx = 1\n",
    "in functions": "def f():\n    import absent\n    raise RuntimeError\n",
    "in methods": "class A:\n    def f(self):\n        import absent\n        raise RuntimeError\n",
    "in a class": "class A:\n    import other\n",
    "handled": "try:\n    raise ImportError\nexcept ImportError:\n    pass\n",
    "a mistake of its authors": "import sys\nif len(sys.argv) > 100:\n    raise ValueError('too many')\n",
    "asserts of its own": "name = 1\nassert name == 1\n",
    "text": '"""\nfrom nowhere import {name}\n"""\n',
    "text without braces": '"""\nimport absent\n"""\n',
    "vendored": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), '_vendor'))\nimport brought\n",
    "copied attributes": "from copies import get_pool, LIMIT, context\n",
    "main": "if __name__ == '__main__':\n    raise SystemExit(1)\n",
    "loads when somebody calls": "import ctypes\ndef load():\n    ctypes.CDLL('/not/there.so')\n",
    "by a name in a function": "import importlib\ndef f(name):\n    return importlib.import_module(name)\n",
    "by a name in a lambda": "import importlib\nf = lambda name: importlib.import_module(name)\n",
}
FAILS = {
    "absent": "import absent\n",
    "absent of several": "import json, other, absent\n",
    "absent name": "from other import gone\n",
    "absent name in a comment": "from other import gone_too\n",
    "absent name in a word": "from other import tarred\n",
    "absent name of a lazy one": "from lazy import Gone\n",
    "absent name of what copies attributes": "from copies import get_gone\n",
    "absent name of what might be replaced": "from replaceable import gone\n",
    "absent name that a method has": "from copies import hidden\n",
    "absent module": "from .gone import Thing\n",
    "absent module of a package": "import other.gone\n",
    "absent in a folder without a body": "from space import gone\nimport space.gone\n",
    "beyond the package": "from .. import part\n",
    "deeper": "from .bad import Thing\n",
    "behind what is for checkers": "import typing\nif typing.TYPE_CHECKING:\n    import other\nimport absent\n",
    "raises": "import sys\nif sys.version_info > (3,):\n    raise RuntimeError('too new')\n",
    "raises in a class": "class A:\n    raise RuntimeError('no')\n",
    "raises otherwise": "if __name__ == '__main__':\n    pass\nelse:\n    raise RuntimeError('no')\n",
    "ends": "import sys\nsys.exit('no GPU')\n",
    "ends in a decorator": "import sys\n@sys.exit\ndef f(): ...\n",
    "loads": "import ctypes\nctypes.CDLL('/not/there.so')\n",
    "loads for a default": "import ctypes\ndef f(x=ctypes.CDLL('/not/there.so')): ...\n",
    "loads when called": "import ctypes\ndef load():\n    ctypes.CDLL('/not/there.so')\nload()\n",
    "in a block that runs": "import warnings\nwith warnings.catch_warnings():\n    import absent\n",
    "in a class": "class A:\n    import absent\n",
    "in a block in a class": "import contextlib\nclass A:\n    with contextlib.nullcontext():\n        import absent\n",
    "by a computed name": "import importlib\nimportlib.import_module('abs' + 'ent')\n",
    "no syntax": "print 'of Python 2'\n",
    "a word by now": "def f(x, async=True): ...\n",
    "asserts": "import sys\nassert sys.platform == 'plan9'\n",
}
CODE = {f"{name} {kind}": code for kind, codes in (("works", WORKS), ("fails", FAILS)) for name, code in codes.items()}
PARTS = {
    "user/part.py": "import other\nclass Thing: ...\n",
    "user/bad.py": "import absent\nclass Thing: ...\n",
    "user/_vendor/brought.py": "",
}
# One process for each of them, which begins as Python does: a new one of Python would take a hundred times as long.
IMPORTS = """
import os, sys
for folder in sys.argv[2:]:
    if not os.fork():
        sys.path[:0] = [folder, sys.argv[1]]
        import user
        os._exit(0)
    print(os.wait()[1] == 0, flush=True)  # or else the next one prints it again
"""


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bool]]:
    """The folders with these packages, and whether Python imports ``user`` there."""
    root = tmp_path_factory.mktemp("sites")
    folders = {name: root / str(number) for number, name in enumerate(CODE)}
    for package in ("copies", "other", "lazy", "replaceable", "space"):
        files = {path: text for path, text in OTHERS.items() if path.startswith(f"{package}/")}
        install(root / "others", package, {}, requires="", files=files)
    for name, folder in folders.items():
        install(folder, "user", {}, requires="", files={"user/__init__.py": CODE[name], **PARTS})
    done = subprocess.run([sys.executable, "-Ic", IMPORTS, *map(str, (root / "others", *folders.values()))],
                          capture_output=True, check=True, text=True)  # fmt: skip
    return {name: (folders[name], said == "True") for name, said in zip(CODE, done.stdout.split(), strict=True)}


@pytest.mark.parametrize("name", CODE)
def test_what_is_settled_works(sites: dict[str, tuple[Path, bool]], name: str) -> None:
    folder, works = sites[name]
    assert works is name.endswith("works"), "what Python itself does"
    assert (glance(folder, folder.parent / "others").settle(["user"], (), uses_torch=True) is not None) is works


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
    assert (glance(tmp_path).settle(["user"], {"other"}, uses_torch=True) is not None) is settled


def test_a_module_is_sound_if_all_is_that_it_imports(tmp_path: Path) -> None:
    install(tmp_path, "other", {}, requires="", files={**OTHERS, "other/late.py": "import user.absent\n"})
    user = {"user/__init__.py": "import other\n", "user/absent_too.py": "import other.gone\n", "user/part.py": ""}
    install(tmp_path, "user", {}, requires="", files=user)
    looked, nothing = glance(tmp_path), frozenset[str]()
    modules = ["other", "other.deep", "other.late", "user", "user.part", "user.absent_too"]
    sound = ["other", "other.deep", "user", "user.part"]
    for _ in range(2):  # the second time, most of it is known
        assert [name for name in modules if looked.is_sound(name, None, nothing, uses_torch=False)] == sound
        assert not any(looked.is_sound(name, None, frozenset({"other"}), uses_torch=False) for name in modules)


@pytest.mark.parametrize(
    ("module", "name", "failing", "sound"),
    [
        ("other", "name", (), True),
        ("other", "gone", (), False),
        ("other.gone", "name", (), False),
        ("lazy", "Model", (), True),
        ("lazy", "Gone", (), False),
        ("lazy", "Model", ("more",), False),  # its module imports that
        ("lazy", "plain", ("more",), True),
    ],
)
def test_a_name_is_sound_if_it_is_there(
    tmp_path: Path, module: str, name: str, failing: tuple[str, ...], *, sound: bool
) -> None:
    lazy = {"lazy/models.py": "import more\nclass Model: ...\n", "lazy/plain.py": "", "more.py": ""}
    install(tmp_path, "lazy", {}, requires="", files={**OTHERS, **lazy})
    looked = glance(tmp_path)
    for _ in range(2):
        assert looked.is_sound(module, name, frozenset(failing), uses_torch=False) is sound


@pytest.mark.parametrize(
    "lazy",
    [
        "def __getattr__(name):\n    import lazy.models as models\n    return getattr(models, name)\n",
        # The name is a word of the text, as with the lazy modules of transformers.
        "def __getattr__(name):\n    import lazy.models as models\n    return {'Model': models.Model}[name]\n",
    ],
)
@pytest.mark.parametrize("own", ["lazy", "user"])
def test_what_makes_a_name_when_it_is_asked_for_may_fail(tmp_path: Path, lazy: str, own: str) -> None:
    """With torch 2.13.0, ``from lazy import Model`` raises an ImportError."""
    models = "import torch\nfrom torch import gone_name\nclass Model: ...\n"
    install(tmp_path, "lazy", {}, requires="", files={"lazy/__init__.py": lazy, "lazy/models.py": models})
    install(tmp_path, "user", {}, requires="", files={"user/__init__.py": "import torch\nfrom lazy import Model\n"})
    looked = glance(tmp_path)
    assert looked.settle(["lazy"], (), uses_torch=True) is not None
    if own == "lazy":
        assert not looked.is_sound("lazy", "Model", frozenset(), uses_torch=True)
    else:
        assert looked.settle(["user"], (), uses_torch=True) is None


@pytest.mark.parametrize("installed", [True, False])
def test_a_module_that_a_compiled_one_replaces_has_any_name(tmp_path: Path, *, installed: bool) -> None:
    """As polars chooses a runtime."""
    code = "import sys\ndef use():\n    import runtime.core as found\n    sys.modules[__name__] = found\nuse()\n"
    install(tmp_path, "plr", {}, requires="", files={"plr/__init__.py": "", "plr/chosen.py": code})
    install(tmp_path, "user", {}, requires="", files={"user/__init__.py": "from plr.chosen import whatever\n"})
    if installed:
        install(tmp_path, "runtime", {"runtime/core.so": Elf()}, requires="", files={"runtime/__init__.py": ""})
    assert (glance(tmp_path).settle(["user"], (), uses_torch=True) is not None) is installed


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("libssl-81259c47.so.1.1.1k", True),  # as auditwheel names OpenSSL's in the wheel of opencv-python 5.0.0.93
        ("libavutil-befbbc48.so.60.26.101", True),
        ("_C.so", True),
        ("notes.sol", False),
        ("lib.so.txt", False),
    ],
)
def test_names_of_libraries(name: str, *, is_one: bool) -> None:
    assert packages.is_library(name) is is_one
    assert (LINUX.libraries.search(name) is not None) is is_one


LACKING = {"needed": ("libnot-there.so.1",)}
LACKING_MODULE = {**LACKING, "defined": exports("PyInit_libplugin")}
TRIES = "def load():\n    try:\n        from images.plugins import libplugin\n    except ImportError:\n        pass\n"


@pytest.mark.parametrize(
    ("code", "view", "plugin", "settled"),
    [
        ("", {}, LACKING, True),  # as a plugin of Qt in opencv
        ("", LACKING, {}, False),
        ("", {}, LACKING_MODULE, False),
        ("", {"needed": ("libplugin.so",)}, LACKING, False),
        ("import ctypes\ndef load(path):\n    ctypes.CDLL(path)\n", {}, LACKING, False),
        (TRIES, {}, LACKING_MODULE, True),  # as the module for TBB in numba
        (TRIES + "tools = ['libplugin']\n", {}, LACKING_MODULE, False),
        (TRIES.replace("    try", "    if 1").replace("except ImportError", "else"), {}, LACKING_MODULE, False),
    ],
)
def test_libraries_that_nothing_loads_do_not_count(
    tmp_path: Path, code: str, view: dict[str, Any], plugin: dict[str, Any], *, settled: bool
) -> None:
    libraries = {
        "images/_view.so": Elf(**{"defined": exports("PyInit__view"), **view}),
        "images/plugins/libplugin.so": Elf(**plugin),
    }
    install(tmp_path, "images", libraries, requires="", files={"images/__init__.py": code})
    (images,) = packages.list_installed([str(tmp_path)])
    assert glance_at_libraries(tmp_path).settles(images) is settled


def glance_at_libraries(site: Path) -> LibraryGlance:
    environment = WholeEnvironment(python=None, distributions=tuple(packages.list_installed([str(site)])))
    return LibraryGlance(environment, Surroundings(system_has=lambda _: False), Files())


def glance(*folders: Path, names: TorchNames | None = None) -> ImportGlance:
    python = sys.version_info[:2]
    surroundings = Surroundings(installed=installed_in(folders, python), folders=folders, python=python, is_final=True)
    users = {item.name: item for item in packages.list_installed([*map(str, folders)])}
    environment = WholeEnvironment(python=None, distributions=tuple(users.values()))
    return ImportGlance(surroundings, names, users, LibraryGlance(environment, surroundings, Files()))


@pytest.mark.parametrize(
    ("use", "version", "settled"),
    [
        # asked of numpy 1.26.4 and 2.4.6
        ("X = np.float_", "2.4.6", False),
        ("def f(x: np.float_): ...", "2.4.6", False),
        ("from numpy import float_", "2.4.6", False),
        ("np.float_ = np.float64", "2.4.6", True),
        ("def f(x): return np.float_(x)", "2.4.6", True),
        ("X = np.float_", "1.26.4", True),
        ("X = np.float64", "2.4.6", True),
    ],
)
def test_what_the_installed_numpy_lacks_is_not_settled(use: str, version: str, settled: bool, tmp_path: Path) -> None:
    install(
        tmp_path, "numpy", {}, version=version, requires="", files={"numpy/__init__.py": "def __getattr__(n): ...\n"}
    )
    install(tmp_path, "user", {}, files={"user/__init__.py": f"import numpy as np\n{use}\n"})
    look = glance(tmp_path, names=embedded_names.names("2.13.0"))
    assert (look.settle(["user"], (), uses_torch=True) is not None) is settled


@pytest.mark.parametrize(
    "use",
    [
        "def f(x: torch.nope): ...",
        "def f(*x: torch.nope): ...",
        "def f(**x: torch.nope): ...",
        "def f() -> torch.nope: ...",
        "class A:\n    def f(self, *, x: torch.nope): ...",
        "def f(*, x=torch.nope): ...",
        "def f(x=torch.nope, /): ...",
        "@torch.nope\ndef f(): ...",
        "x: torch.nope = 1",
    ],
)
def test_what_a_definition_evaluates_is_not_settled(use: str, tmp_path: Path) -> None:
    """In Python before 3.14; see the reference on function definitions."""
    look = glance(tmp_path, names=embedded_names.names("2.13.0"))
    install(tmp_path, "user", {}, files={"user/__init__.py": f"import torch\n{use}\n"})
    assert look.settle(["user"], (), uses_torch=True) is None
    (tmp_path / "user" / "__init__.py").write_text(f"import torch\n{use.replace('nope', 'Tensor')}\n", encoding="utf-8")
    assert glance(tmp_path, names=embedded_names.names("2.13.0")).settle(["user"], (), uses_torch=True) is not None


@pytest.mark.parametrize(("later", "longer", "settled"), [(0, "", True), (1, "", False), (0, "#", False)])
def test_syntax_is_that_of_the_python_that_has_compiled_it(
    later: int, longer: str, tmp_path: Path, *, settled: bool
) -> None:
    """Python takes what it has compiled for the source, if time and size are those of the source."""
    source = tmp_path / "user" / "__init__.py"
    install(tmp_path, "user", {}, files={"user/__init__.py": "value = 10\n"})
    compiled = py_compile.compile(str(source), doraise=True)
    assert compiled == importlib.util.cache_from_source(str(source))
    status = source.stat()
    source.write_text("value := 1\n" + longer, "utf-8")  # no syntax of any Python that there is yet
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + later * 10**9))
    done = subprocess.run([sys.executable, "-c", "import user"], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode == 0) is settled
    assert (glance(tmp_path).settle(["user"], (), uses_torch=True) is not None) is settled


def test_a_look_still_holds_once_python_has_compiled_what_was_looked_at(tmp_path: Path) -> None:
    """The first import writes ``__pycache__``: nothing was installed or changed by it."""
    files = {"user/__init__.py": "from . import part\n", "user/part/__init__.py": "value = 1\n"}
    install(tmp_path, "user", {}, files=files)
    with observed_fs.record_observations() as record:
        assert [*observed_fs.walk_folder(tmp_path)]
        assert glance(tmp_path).settle(["user"], (), uses_torch=True) is not None
    subprocess.run([sys.executable, "-c", "import user"], cwd=tmp_path, check=True, env={"PYTHONDONTWRITEBYTECODE": ""})
    assert (tmp_path / "user" / "part" / "__pycache__").is_dir()
    assert observed_fs.is_unchanged(record.seen)
    (tmp_path / "user" / "other.py").touch()
    assert not observed_fs.is_unchanged(record.seen)
