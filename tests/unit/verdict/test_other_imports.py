"""What importing a package that is installed raises: Python itself imports the same."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from abiscan.inputs.package_files import of_module
from abiscan.inputs.session import Session
from abiscan.python.importing.other_code import OtherCode
from abiscan.python.interpreter.imports import PythonInterpreter
from abiscan.python.interpreter.values import PythonModule
from abiscan.python.package.installed import Surroundings, installed_in
from abiscan.python.package.model import Answer, Raised, World
from abiscan.verdict.other_imports import OtherImports
from abiscan.verdict.package_reading import CodeFiles
from tests.unit.python.packages import FakeWorld, reading_of

LAZY = """\
import importlib, os, sys, types

class Lazy(types.ModuleType):
    def __init__(self, name, file, parts):
        super().__init__(name)
        self.parts = {name: part for part, names in parts.items() for name in names}
        self.__file__ = file
        self.__path__ = [os.path.dirname(file)]

    def __getattr__(self, name):
        if name in self.parts:
            return getattr(importlib.import_module("." + self.parts[name], self.__name__), name)
        raise AttributeError(f"module {self.__name__} has no attribute {name}")

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "other.former":
            return importlib.util.spec_from_loader(name, Loader())
        return None

class Loader:
    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pass

import importlib.util
sys.modules[__name__] = Lazy(__name__, globals()["__file__"], {"part": ["Thing"]})
sys.meta_path.append(Finder())
"""
"""As in transformers 5: an object in the place of the module, and a finder for modules that had another name."""
FILLED = {
    "other/__init__.py": "import sys\nfrom enum import Enum\nclass Mode(Enum):\n    NEAREST = 0\n"
    "module = sys.modules[__name__]\nfor member in Mode:\n    setattr(module, member.name, member.value)\n"
}
"""As in PIL.Image: a module that is given the names of an enumeration."""
BREAKS = {
    "missing": {"other/__init__.py": "import absent\n"},
    "below": {"other/__init__.py": "from .part import thing\n", "other/part.py": "from absent.part import thing\n"},
    "a module that is asked for": {"other/__init__.py": "from . import part\n", "other/part.py": "import absent\n"},
    "over lines": {"other/__init__.py": "from absent import (\n    first,\n    second,\n)\n"},
    "through another": {"other/__init__.py": "import further\n", "further.py": "import os, absent\n"},
    "a module of it": {"other/__init__.py": "", "other/part.py": "import other.gone\n"},
    "past a function that nobody calls": {
        "other/__init__.py": "import further\nimport absent\n",
        "further.py": "import sys\ndef never():\n    sys.path.insert(0, '/nowhere')\n",
    },
    "a name": {"other/__init__.py": "from further import gone\n", "further.py": "here = 1\n"},
    "past a module that changes the search": {
        "other/__init__.py": "import further\nimport absent\n",
        "further.py": "import sys\nif len(sys.path) > 100:\n    sys.path.insert(0, '/nowhere')\n",
    },
    "under a condition": {"other/__init__.py": "import sys\nif sys.platform:\n    import absent\n"},
    "in a function that is called": {"other/__init__.py": "def load():\n    import absent\nload()\n"},
    "in other words": {
        "other/__init__.py": "try:\n    import absent\nexcept ImportError as error:\n"
        "    raise ImportError(f'other needs absent: {error}') from error\n"
    },
    "for a name of a lazy module": {
        "other/__init__.py": "import importlib, sys, types\n"
        "class Lazy(types.ModuleType):\n"
        "    def __getattr__(self, name):\n"
        "        if name.startswith('__'):\n"
        "            raise AttributeError(name)\n"
        "        return importlib.import_module('.' + name, self.__name__)\n"
        "lazy = Lazy(__name__)\n"
        "lazy.__path__ = __path__\n"
        "sys.modules[__name__] = lazy\n",
        "other/part.py": "import absent\n",
    },
    "for a module that a lazy one lacks": {"other/__init__.py": LAZY, "other/part.py": "Thing = 1\n"},
    "for a name that a lazy one lacks": {"other/__init__.py": LAZY, "other/part.py": "Thing = 1\n"},
    "for a module, as one of Python's has that name": {
        "other/__init__.py": "import sys\nsys.modules[__name__].x = 1\n"
    },
    "for a name that is looked up in its own": {
        "other/__init__.py": "def __getattr__(name):\n    try:\n        return globals()[name]\n"
        "    except KeyError:\n        raise AttributeError(name)\n"
    },
    "for a name that has moved": {
        "other/__init__.py": "import unicodedata\nif unicodedata.unidata_version < '1.25':\n    raise SystemError\n"
        "def __getattr__(name):\n    from .errors import Moved\n    raise Moved(f'{name} has moved')\n",
        "other/errors.py": "class Moved(ImportError): ...\n",
    },
    "an attribute that a module lacks": {"other/__init__.py": "import further\n", "further.py": "here = 1\n"},
    "an attribute that a lazy module lacks": {"other/__init__.py": LAZY, "other/part.py": "Thing = 1\n"},
    "an attribute that a loop does not set": FILLED,
    "an attribute that has moved": {
        "other/__init__.py": "class Moved(ImportError): ...\n"
        "def __getattr__(name):\n    raise Moved(f'{name} has moved')\n",
    },
    "a module by the name of its spec": {
        "other/__init__.py": "__import__(__spec__.parent + '.part')\n__import__(__spec__.name + '.gone')\n",
        "other/part.py": "",
    },
}
WORKS = {
    "an attribute that a loop sets": FILLED,
    "a name that a star may bring, on another way": {
        "other/__init__.py": "import sys\nif 'OTHER' in __import__('os').environ:\n    from .more import *\n"
        "else:\n    from .part import *\nsys.modules[__name__].x = 1\n",
        "other/part.py": "try:\n    import unicodedata\n    Gone = 1\nexcept ImportError:\n    pass\n",
        "other/more.py": "Gone = 1\n",
    },
    "a name that is not known": {
        "other/__init__.py": "import os, sys\nmodule = sys.modules[__name__]\n"
        "module.__dict__[os.popen('echo Gone').read().strip()] = 1\n"
    },
    "a name of a lazy module": {"other/__init__.py": LAZY, "other/part.py": "Thing = 1\n"},
    "a module that a finder has": {"other/__init__.py": LAZY, "other/part.py": "Thing = 1\n"},
    "a name that a function from elsewhere gives": {
        "other/__init__.py": "from other.hooks import __getattr__\n",
        "other/hooks.py": "def __getattr__(name):\n    if name.lower() == 'gone':\n        return 1\n"
        "    raise AttributeError(name)\n",
    },
    "an attribute of a lazy module": {"other/__init__.py": LAZY, "other/part.py": "Thing = 1\n"},
    "an attribute that the code sets": {"further.py": "here = 1\n"},
    "an attribute that another module sets": {
        "other/__init__.py": "import further\nfurther.gone = 1\n",
        "further.py": "here = 1\n",
    },
    "an attribute that is a module": {"other/__init__.py": "here = 1\n", "other/part.py": ""},
    "a name that the importing code sets": {"other/__init__.py": LAZY, "other/part.py": "Thing = 1\n"},
    "a path that the importing code extends": {"other/__init__.py": "", "other/more/former.py": ""},
    "a module that a further one puts there": {
        "other/__init__.py": "",
        "further.py": "import json, sys\nsys.modules['other.former'] = json\n",
    },
    "a name of a module that a further one takes the place of": {
        "other/__init__.py": "",
        "other/part.py": "import further\n",
        "further.py": "import sys\nthing = 1\nsys.modules['other.part'] = sys.modules[__name__]\n",
    },
    "a module that is made of the code of a further one": {
        "other/__init__.py": "from . import part\nkept = part.backend.thing\n",
        "other/part.py": "import sys, importlib.util as util\nimport further\n"
        "backend = util.module_from_spec(util.spec_from_loader('other.part.backend', loader=None))\n"
        "backend.__dict__['thing'] = 1\n"
        "spec = util.spec_from_file_location('other.part', further.__file__)\n"
        "sys.modules[spec.name] = module = util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\nmodule.backend = backend\n",
        "further.py": "here = 1\n",
    },
    "the other way of a condition": {
        "other/__init__.py": "import unicodedata\nif unicodedata.unidata_version >= '1.25':\n    found = 1\n"
        "else:\n    import absent\n"
    },
    "the other way of two conditions": {
        "other/__init__.py": "import unicodedata\nif unicodedata.unidata_version >= '1.25':\n    found = 1\n"
        "else:\n    import absent\nif unicodedata.unidata_version >= '1.26':\n    found = 1\nelse:\n    import absent\n"
    },
    "a function that changes the search": {
        "other/__init__.py": "import further\nfurther.extend(__file__)\nimport hidden\n",
        "further.py": "import os, sys\ndef extend(file):\n"
        "    sys.path.insert(0, os.path.join(os.path.dirname(file), 'vendor'))\n",
        "other/vendor/hidden.py": "",
    },
    "in a text": {"other/__init__.py": '"""\nimport absent\n"""\n'},
    "under try": {"other/__init__.py": "try:\n    import absent\nexcept ImportError:\n    pass\n"},
    "in a function": {"other/__init__.py": "def f():\n    import absent\n"},
    "what is not known decides": {
        "other/__init__.py": "import os\nif 'OTHER_NEEDS_IT' in os.environ:\n    import absent\n"
    },
    "for a name that nobody takes": {
        "other/__init__.py": "def __getattr__(name):\n    import absent\n    return absent\n"
    },
    "a circle": {"other/__init__.py": "from .part import f\nthing = 1\n", "other/part.py": "import other\nf = 1\n"},
    "made by code": {
        "other/__init__.py": "import sys, types\nsys.modules['absent'] = types.ModuleType('absent')\nimport absent\n"
    },
    "a module with what a loop adds, asked for as a name again": {
        "other/__init__.py": "",
        "other/numbers.py": "import ctypes\ndef parts():\n    found, left = [], ctypes.CDLL(None).getpid()\n"
        "    while left:\n        import other.bits\n        found.append(left & other.bits.ALL)\n        left >>= 8\n"
        "    return tuple(found)\nfirst = parts()\n",
        "other/bits.py": "ALL = 255\n",
        "other/part.py": "from .numbers import first\nnewest = first[0]\n",
    },
    "a module that a further package brings": {
        "other.py": "import os, sys\n"
        "sys.path.extend(((place := os.path.join(os.path.dirname(__file__), 'further', '_vendor')) not in sys.path)"
        " * [place])\nfrom hidden.deep import thing\n",
        "further/__init__.py": "",
        "further/_vendor/hidden/__init__.py": "",
        "further/_vendor/hidden/deep.py": "thing = 1\n",
    },
    "a name of a module that only a finder has": {
        "other.py": "import sys, types, importlib.util\nclass Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        return importlib.util.spec_from_loader(name, self) if name == 'other.moved' else None\n"
        "    def create_module(self, spec):\n        return types.ModuleType(spec.name)\n"
        "    def exec_module(self, module):\n        module.thing = 1\n"
        "__path__ = []\nsys.meta_path.append(Finder())\n",
    },
    "a name in place of a module": {
        "other/__init__.py": "import os\npart = os\nfrom other import part\n",
        "other/part.py": "import absent\n",
    },
}
TORCH = {
    "torch/__init__.py": "",
    "torch/whole.py": "from torch import utils\ntry:\n    import absent\nexcept ImportError:\n    pass\n",
    "torch/utils/__init__.py": "import sys\nfrom torch import whole\nsys.modules['torch.made'] = sys\n",
    "torch/utils/needs.py": "from . import further\nthing = 1\n",
    "torch/utils/further.py": "import torch.whole\nfrom absent.part import thing\n",
}
"""A torch with a module that needs what is not there, as torch.utils.cpp_extension needs setuptools."""
BESIDE = {
    "beside.py": "from torch.utils import needs\n",
    "takes.py": "import torch\nfrom torch.whole import gone\n",
    "takes_module.py": "import torch\nfrom torch.away.part import thing\n",
    "guards.py": "import torch\ntry:\n    from torch.whole import gone\nexcept ImportError:\n    pass\n",
}
"""Packages that use that torch."""
OF_TORCH = {
    "import torch.utils.needs\n": True,
    "from torch.utils.needs import thing\n": True,
    "from torch.utils import needs\n": True,
    "import beside\n": True,
    "import takes\n": True,
    "import takes_module\n": True,
    "import guards\n": False,
    "import torch.whole\n": False,
    "import torch.utils\n": False,
    "from torch import utils, whole\n": False,
    "try:\n    from torch.utils import needs\nexcept ImportError:\n    pass\n": False,
    "def f():\n    import torch.utils.needs\n": False,
}


def really(site: Path, code: str) -> list[str]:
    code = f"try:\n {code}\nexcept (ImportError, AttributeError) as error:\n print(type(error).__name__)\n print(error)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=site, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def imports_in(site: Path, world: World, read: list[str], sound: Collection[str] = ()) -> OtherImports:
    """What imports of the packages in a folder raise; those that are read for it are listed."""

    def code_of(module: str, beside: Surroundings, _world: World) -> OtherCode | None:
        if beside.place_of(module) is None:
            return None
        read.append(module)
        return OtherCode(CodeFiles(of_module(str(site), module)), module, lambda: world, beside)

    def is_sound(module: str, name: str | None) -> bool:
        return name is None and module in sound

    folder = site.with_name(f"{site.name} cache")
    return OtherImports(Session(folder=folder), [], code_of, {}, is_sound=is_sound)


@contextmanager
def around(
    site: Path,
    *,
    is_final: bool = True,
    torch: Path | None = None,
    sound: Collection[str] = (),
    others: OtherImports | None = None,
) -> Iterator[Surroundings]:
    """What is installed in a folder, with what imports of that raise."""
    python = sys.version_info[:2]
    world = FakeWorld(python=python)
    others = others or imports_in(site, world, [], sound)
    surroundings = Surroundings(
        torch_folder=torch,
        installed=installed_in((site,), python),
        folders=(site,),
        python=python,
        is_final=is_final,
        import_error=others.error,
    )
    with others.importing(["pkg"], surroundings, world):
        yield surroundings


@pytest.mark.parametrize("kind", [*BREAKS, *WORKS])
def test_the_import_of_another_package_raises_what_python_raises(tmp_path: Path, kind: str) -> None:
    files = {**BREAKS, **WORKS}[kind]
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    code = {
        "a module of it": "import other.part",
        "for a name of a lazy module": "from other import part",
        "for a module that a lazy one lacks": "import other.gone",
        "for a name that a lazy one lacks": "from other import Gone",
        "for a module, as one of Python's has that name": "import other.json",
        "an attribute that a module lacks": "import other, further; further.gone",
        "an attribute that a lazy module lacks": "import other; other.Gone",
        "an attribute that has moved": "import other; other.Gone",
        "an attribute that a loop sets": "import other; other.NEAREST",
        "an attribute that a loop does not set": "import other; other.ANTIALIAS",
        "a name that a star may bring, on another way": "from other import Gone",
        "a name that is not known": "from other import Gone",
        "an attribute of a lazy module": "import other; other.Thing",
        "an attribute that the code sets": "import further; further.gone = 1; further.gone",
        "an attribute that another module sets": "import other, further; further.gone",
        "an attribute that is a module": "import other, other.part; other.part",
        "for a name that is looked up in its own": "from other import Gone",
        "for a name that has moved": "from other import Gone",
        "a name of a lazy module": "from other import Thing",
        "a module that a finder has": "import other.former",
        "a module with what a loop adds, asked for as a name again": "import other.part; from other import part",
        "a name of a module that only a finder has": "from other.moved import thing",
        "a name that a function from elsewhere gives": "from other import Gone",
        "a name that the importing code sets": "import other as o; o.Gone = 1; from other import Gone",
        "a path that the importing code extends": "import other; other.__path__.append('other/more'); "
        "import other.former",
        "a module that a further one puts there": "import further; import other.former",
        "a name of a module that a further one takes the place of": "from other.part import thing",
    }.get(kind, "import other")
    real = really(tmp_path, code)
    assert bool(real) is (kind in BREAKS)
    code = f"{code}\nimport torch\n"
    with around(tmp_path) as surroundings:
        (outcome,) = reading_of({"pkg/__init__.py": code, "pkg/_C.so": ""}, around=surroundings).imports
    if not real:
        assert outcome.raised is None
        return
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.exception == real[0]
    assert outcome.raised.message == real[1]
    assert outcome.raised.at is not None
    assert (outcome.raised.at.file, outcome.raised.at.line) == ("pkg/__init__.py", 1)


def test_a_name_that_a_lazy_module_lacks_before_it_is_installed(tmp_path: Path) -> None:
    """As of a distribution in a wheel: the file is where it will be."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "__init__.py").write_text(f"{LAZY}from other import Gone\n")
    kind, text = really(tmp_path, "import other")
    (outcome,) = reading_of({"other/__init__.py": f"{LAZY}from other import Gone\n"}).imports
    assert isinstance(outcome.raised, Raised)
    assert (outcome.raised.exception, outcome.raised.message) == (kind, text.replace(f"{tmp_path}/", ""))


@pytest.mark.parametrize("sound", [(), ("other",)])
def test_what_decides_on_a_package_does_not_decide_on_a_name_of_it(tmp_path: Path, sound: tuple[str, ...]) -> None:
    """The package may be known to be sound, and not have been read before its name is taken."""
    (tmp_path / "other").mkdir()
    lazy = "def __getattr__(name):\n    from other.part import Thing\n    return Thing\n"
    asks = "import sys\nif len(sys.argv) > 30:\n    raise RuntimeError\n"
    (tmp_path / "other" / "__init__.py").write_text(asks + lazy)
    (tmp_path / "other" / "part.py").write_text("import absent\n")
    real = really(tmp_path, "from other import Thing")
    code = "from other import Thing\nimport torch\n"
    with around(tmp_path, sound=sound) as surroundings:
        (outcome,) = reading_of({"pkg/__init__.py": code, "pkg/_C.so": ""}, around=surroundings).imports
    assert real == ["ModuleNotFoundError", "No module named 'absent'"]
    assert isinstance(outcome.raised, Raised)
    assert [outcome.raised.exception, outcome.raised.message] == real


def test_what_is_imported_again_registers_it_again(tmp_path: Path) -> None:
    """On the other way of a condition, a module is run once more; a real torch has its operator once, too."""
    asks = "import sys\nif len(sys.argv) > 30:\n    import other.operators\n"
    texts = {
        "other/__init__.py": "def __getattr__(name):\n    from other.part import Thing\n    return Thing\n",
        "other/part.py": f"{asks}import other.operators\nimport absent\n",
        "other/operators.py": "import torch\ntorch.library.define('others::f', '(Tensor x) -> Tensor')\n",
        "real/torch.py": "class library:\n    define = print\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    real = really(tmp_path, "import sys; sys.path.append('real'); from other import Thing")
    code = "from other import Thing\nimport torch\n"
    with around(tmp_path) as surroundings:
        (outcome,) = reading_of({"pkg/__init__.py": code, "pkg/_C.so": ""}, around=surroundings).imports
    assert isinstance(outcome.raised, Raised)
    assert [outcome.raised.exception, outcome.raised.message] == real[1:]


@pytest.mark.parametrize(("first", "reads"), [("", 1), ("import pkg\n", 2)], ids=["apart", "in a circle"])
def test_what_took_long_is_read_once_for_several_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, reads: int
) -> None:
    """It is read again where its import asked for the package that was in the middle of its own."""
    monkeypatch.setattr("abiscan.python.importing.other_code._MANY_STEPS", 0)
    (tmp_path / "other.py").write_text(f"{first}def __getattr__(name):\n    import absent\n")
    (tmp_path / "pkg.py").touch()
    read: list[str] = []
    world = FakeWorld(python=sys.version_info[:2])
    others = imports_in(tmp_path, world, read)
    for name in ("Thing", "Part"):
        with around(tmp_path, others=others):
            raised = others.error("other", name)
        assert isinstance(raised, Raised)
        assert [raised.exception, raised.message] == really(tmp_path, f"from other import {name}")
    assert read == ["other"] * reads


@pytest.mark.parametrize("code", OF_TORCH)
@pytest.mark.parametrize("after", ["", "lookup = torch.ops.load_library\n"])
def test_a_module_of_torch_needs_what_torch_does_not_require(tmp_path: Path, code: str, after: str) -> None:
    for name, text in {**TORCH, **BESIDE}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    (tmp_path / "imports.py").write_text(code)
    real = really(tmp_path, "import imports")
    assert bool(real) is OF_TORCH[code]
    files = {"pkg/__init__.py": code + "import torch\n" + after, "pkg/_C.so": ""}
    with around(tmp_path, torch=tmp_path / "torch") as surroundings:
        (outcome,) = reading_of(files, around=surroundings).imports
    told = [outcome.raised.exception, outcome.raised.message] if isinstance(outcome.raised, Raised) else []
    assert told == real


@pytest.mark.parametrize(("code", "fails"), [("import shared.gone", True), ("import shared.second", False)])
def test_a_part_of_a_namespace_package_is_absent_if_no_folder_has_it(tmp_path: Path, code: str, fails: bool) -> None:
    folders = (tmp_path / "a", tmp_path / "b")
    for folder, part in zip(folders, ("first", "second"), strict=True):
        (folder / "shared").mkdir(parents=True)
        (folder / "shared" / f"{part}.py").write_text("")
    probe = f"import sys\nsys.path += {[str(folder) for folder in folders]}\n"
    probe += f"try:\n {code}\nexcept ImportError as error:\n print(error)"
    done = subprocess.run([sys.executable, "-S", "-c", probe], check=True, capture_output=True, text=True)
    assert bool(done.stdout) is fails
    python = sys.version_info[:2]
    surroundings = Surroundings(installed=installed_in(folders, python), folders=folders, python=python, is_final=True)
    (outcome,) = reading_of(
        {"pkg/__init__.py": f"{code}\nimport torch\n", "pkg/_C.so": ""}, around=surroundings
    ).imports
    assert (outcome.raised.message if isinstance(outcome.raised, Raised) else "") == done.stdout.strip()


def test_what_an_installation_may_change_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import absent\n")
    files = {"pkg/__init__.py": "import other\n", "pkg/_C.so": ""}
    with around(tmp_path, is_final=False) as surroundings:
        (outcome,) = reading_of(files, around=surroundings).imports
    assert outcome.raised is None


def test_code_that_gets_along_without_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import absent\n")
    code = "try:\n    import other\nexcept ImportError:\n    other = None\nif other is not None:\n    raise KeyError\n"
    files = {"pkg/__init__.py": code, "pkg/_C.so": ""}
    with around(tmp_path) as surroundings:
        (outcome,) = reading_of(files, around=surroundings).imports
    assert outcome.raised is None


def test_what_was_found_out_is_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "other.py"
    path.write_text("import absent\n")
    time.sleep(0.03)  # a file that has just changed may change again unseen
    files = {"pkg/__init__.py": "import other\n", "pkg/_C.so": ""}
    asked: list[str] = []
    find = OtherCode.error

    def error(code: OtherCode, module: str, name: str | None) -> Raised | None:
        asked.append(module)
        return find(code, module, name)

    monkeypatch.setattr(OtherCode, "error", error)
    for text, count in (("import absent\n", 1), ("import absent\n", 1), ("absent = 1\n", 2)):
        if text != path.read_text():
            path.write_text(text)
        with around(tmp_path) as surroundings:
            (outcome,) = reading_of(files, around=surroundings).imports
        assert isinstance(outcome.raised, Raised) is text.startswith("import")
        assert asked == ["other"] * count


def test_an_error_that_is_not_certain_is_met_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.py").write_text("there = 1\nraise ValueError\n")
    code = "".join(f"try:\n    from other import {name}\nexcept ValueError:\n    pass\n" for name in ("there", "gone"))
    run: list[object] = []
    follow = PythonInterpreter.run_body

    def run_body(machine: PythonInterpreter, module: PythonModule) -> None:
        run.append(module.name)
        follow(machine, module)

    monkeypatch.setattr(PythonInterpreter, "run_body", run_body)
    with around(tmp_path) as surroundings:
        reading_of({"pkg/__init__.py": f"import torch\n{code}", "pkg/_C.so": ""}, around=surroundings)
    assert run.count("other") == 1


def test_sources_are_kept_for_one_import(tmp_path: Path) -> None:
    """Of dozens of packages they would add up to a gigabyte; the next import reads them again."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "__init__.py").write_text("here = ['a text of this package', 1]\n")
    (other / "part.py").write_text("from other import here\nimport absent\n")
    with around(tmp_path) as surroundings:
        assert surroundings.import_error("other", "here") is Answer.UNKNOWN
        gc.collect()
        constants = (item.value for item in gc.get_objects() if type(item) is ast.Constant)
        assert "a text of this package" not in constants
        raised = surroundings.import_error("other.part", None)
    assert isinstance(raised, Raised)
    assert [raised.exception, raised.message] == really(tmp_path, "import other.part")


def test_what_is_in_the_middle_of_its_import_raises_nothing_to_others(tmp_path: Path) -> None:
    """Python finds it in ``sys.modules``."""
    site = tmp_path / "site"
    for name, text in {
        "pkg": "import other\nimport absent\n",
        "other": "import pkg\n",
        "apart": "import absent\n",
    }.items():
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text(text)
    with around(site) as surroundings:
        assert surroundings.import_error is not None
        assert surroundings.import_error("pkg", None) is None
        assert surroundings.import_error("other", None) is Answer.UNKNOWN
        assert isinstance(surroundings.import_error("apart", None), Raised)
