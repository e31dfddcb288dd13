"""Imports from other packages that are installed: decided by their files, and compared with Python itself."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest

from abiscan.python.package.installed import Surroundings, installed_in
from abiscan.python.package.model import Answer, Raised
from abiscan.python.reading import read_package
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

USES = """\
import other.part as part
try:
    from os import fspath as path
except ImportError as error:
    raise
def call(client, unused=None):
    'It asks for removed.'
    local = client.removed()
    return removed(local)
class Kind:
    inner = 1
"""
BINDS = """\
import sys
if sys.version_info > (3,):
    first = 1
else:
    second = 2
for third in (1,):
    pass
with open(__file__) as fourth:
    (fifth := 5)
def f():
    global sixth
    sixth = 6
f()
import os.path as seventh, os.path
[eighth, *ninth], tenth = [1, 2], 3
match (1, 2):
    case (eleventh, *twelfth):
        pass
"""
WORDS = """\
TABLE = {'made': 'part'}
def __getattr__(name):
    if name in TABLE:
        return 1
    if name == 'old' and TABLE:
        return 2
    raise AttributeError(f'{__name__} has no {name}')
"""
COMPUTED = WORDS.replace("{'made': 'part'}", "{f'{x}_{x}': x for x in ('x',)}")
CHANGED = WORDS.replace("def ", "TABLE.update(vars(__import__('os')))\ndef ")
STARTS = WORDS.replace("name in TABLE", "name.startswith('m')")
FALLS_BACK = WORDS.replace("    raise AttributeError(", "    return getattr(__import__('os'), name)\n    (")
ATTACHED = """\
import importlib
def _attach(package, submodules, attributes):
    modules = {name: module for module, names in attributes.items() for name in names}
    def __getattr__(name):
        if name in submodules:
            return importlib.import_module(f'{package}.{name}')
        elif module := modules.get(name):
            return getattr(importlib.import_module(f'{package}.{module}'), name)
        else:
            raise AttributeError(name)
    return __getattr__, None
_NAMES = {'part': ['something']}
__getattr__, __dir__ = _attach('other', submodules=['part'], attributes=_NAMES)
"""
KIND = """\
import sys, types
class Kind(types.ModuleType):
    def __getattribute__(self, name):
        if name == 'made':
            return 1
        return super().__getattribute__(name)
sys.modules[__name__].__class__ = Kind
"""
WIDE = KIND.replace("__getattribute__", "__getattr__").replace("super().__getattr__(name)", "2")
CALLER = """\
import sys
def export(function):
    setattr(sys.modules[function.__module__], function.__name__[::-1], 1)
    return function
"""
REEXPORTS = """\
import more
def _export(module):
    for name in module.__all__:
        globals()[name] = getattr(module, name)
_export(more)
"""
OTHERS = {
    "other/words.py": WORDS,
    "other/computed.py": COMPUTED,
    "other/changed.py": CHANGED,
    "other/starts.py": STARTS,
    "other/falls_back.py": FALLS_BACK,
    "other/attached.py": ATTACHED,
    "other/attached_others.py": ATTACHED.replace("{'part': ['something']}", "__import__('other.tables').tables.NAMES"),
    "other/tables.py": "NAMES = {'part': ['something']}\n",
    "other/kind.py": KIND,
    "other/wide.py": WIDE,
    "other/hidden.py": "__all__ = ['shown']\nshown = hides = 1\n",
    "other/lists.py": "from .hidden import *\n",
    "other/copies.py": "from . import hidden\nfor n in hidden.__all__:\n    vars()[n] = getattr(hidden, n)\n",
    "other/updated.py": "NAMES = ['made']\nNAMES.append('more')\nglobals().update({n: 1 for n in NAMES})\n",
    "other/updates.py": "globals().update({n + 'er': 1 for n in ['mak']})\n",
    "other/reads.py": "here = globals().get('here') or vars(object)\nif 'x' in globals():\n    globals()['x']\n",
    "other/documented.py": '"""There was absent once."""\nhere = 1\n',
    "other/__init__.py": "from .part import something\nfrom . import hidden\nhidden.added = 1\n",
    "other/part.py": "something = 1\n",
    "kept/__init__.py": "from .first import one\nfrom .second import second\nfrom . import third, fourth\n",
    "kept/fourth.py": "here = 1\n",
    "kept/first.py": "import kept.old\none = 1\n",
    "kept/old.py": "from . import third\nfor name in ('former', 'older'):\n    setattr(third, name, 1)\n",
    "kept/second.py": "def second(): pass\nsecond.more = 1\n",
    "kept/third.py": "here = 1\n",
    "given/__init__.py": "from . import part\nfor n in dir(part):\n    setattr(part, n + 'er', 1)\n",
    "given/part.py": "mak = 1\n",
    "given/caller.py": CALLER,
    "given/called.py": "from .caller import export\n@export\ndef here(): pass\n",
    "itself/__init__.py": "import sys\nm = sys.modules[__name__]\nfor n in ('a', 'b'):\n    setattr(m, n, 1)\n",
    "itself/part.py": "from .caller import export\nhere = 1\ndef f(): export(f)\n",
    "itself/caller.py": CALLER,
    "exported.py": REEXPORTS,
    "more.py": "__all__ = ['made']\nmade = 1\n",
    "other/lazy.py": "def __getattr__(name):\n    return 1\n",
    "other/sets.py": "import sys\ndef add():\n    setattr(sys.modules[__name__], 'absent', 1)\nadd()\n",
    "other/uses.py": USES,
    "other/binds.py": BINDS,
    "other/may_set.py": "import sys\ndef add(name):\n    globals()[name] = 1\n",
    "other/stars.py": "from .part import *\nfrom other.may_set import *\n",
    "other/starred.py": "from os.path import *\n",
    "single.py": "here = 1\n",
    "space/inner/__init__.py": "",
    "some_thing-1.5.dist-info/METADATA": "Name: some-thing\nVersion: 1.5\n",
    "older.cpython-38-x86_64-linux-gnu.so": "",
    "moves/__init__.py": "import sys, types\nsys.modules['moves.made'] = types.ModuleType('moves.made')\n",
}
CODES = [
    "import absent",
    "import single.part",
    "import other.absent",
    "from other import absent",
    "from other import part, something",
    "from other.part import absent",
    "from other.lazy import absent",
    *(
        f"from other.uses import {name}"
        for name in ("removed", "local", "unused", "client", "fspath", "error", "inner")
    ),
    "from other.uses import part, path, call, Kind",
    "from other.binds import first, third, fourth, fifth, sixth, seventh, os, eighth, ninth, tenth, eleventh, twelfth",
    "from other.starred import join",
    *(
        f"from other.{module} import {name}"
        for module, names in {
            "words": ("made", "old", "absent"),
            "computed": ("x_x", "old"),
            "changed": ("path", "made"),
            "starts": ("maker", "made"),
            "falls_back": ("path",),
            "attached": ("something", "part", "absent"),
            "attached_others": ("something", "part"),
            "kind": ("made", "Kind", "absent"),
            "wide": ("made", "absent"),
            "lists": ("shown", "hides", "absent"),
            "hidden": ("added", "absent"),
            "copies": ("shown", "hides", "hidden"),
            "updated": ("made", "more", "absent"),
            "updates": ("maker",),
            "reads": ("here", "absent"),
            "documented": ("here", "absent"),
        }.items()
        for name in names
    ),
    "from other.sets import absent",
    "from other.may_set import absent",
    "from other.stars import something",
    "from other.stars import absent",
    *(
        f"from {module} import {name}"
        for module in ("single", "other", "math")
        for name in ("__name__", "__doc__", "__spec__", "__loader__", "__package__", "__dict__", "__class__")
    ),
    *(
        f"from {module} import {name}"
        for module in ("single", "other")
        for name in ("__file__", "__builtins__", "__path__", "__version__")
    ),
    "from kept.third import former, older",
    "from given.part import maker",
    "from given.called import ereh",
    "from itself.part import here",
    "from itself.part import absent",
    "from exported import made",
    "from kept.fourth import absent",
    "import kept.first\nkept.first.absent",
    "import kept.second\nkept.second.more",
    "from kept import third\nthird.here, third.former",
    "from kept import fourth\nfourth.here",
    "from kept import fourth\nfourth.absent",
    "from kept import second\nsecond.more",
    "from single import here",
    "from single import absent",
    "import space.inner",
    "import older",
    "import of_its_own",
    "import importlib.metadata\nimportlib.metadata.version('absent-one')",
    "import importlib.metadata\ntry:\n    importlib.metadata.files('x')\nexcept ImportError:\n    raise OSError(1)",
    "import importlib.metadata as m\nif m.version('some.thing') != '1':\n    raise OSError(m.version('some_thing'))",
    "import moves.made",
    "import other.absent.below",
    "try:\n    import absent\nexcept ImportError:\n    pass",
    "try:\n    from other import absent\nexcept ImportError as e:\n    raise RuntimeError(str(e)) from e",
    (
        "import sys, importlib.util as util, other\nspec = util.spec_from_file_location(__name__, other.__file__)\n"
        "sys.modules[spec.name] = module = util.module_from_spec(spec)\nmodule.kept = 1\nsys.modules[__name__].kept"
    ),
    '"""Text.\n\nimport ``absent`` is no import here,\nimport absent\nneither.\n"""',
]

REAL = """
import sys
sys.path.insert(0, sys.argv[1])
try:
    import p
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in OTHERS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("in_submodule", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_as_python_imports(code: str, in_submodule: bool, folder: Path) -> None:
    files = {"p/__init__.py": code + "\n"}
    if in_submodule:
        files = {"p/__init__.py": "from . import below\n", "p/below.py": code + "\n"}
    files["of_its_own.cpython-38-x86_64-linux-gnu.so"] = ""
    python = (sys.version_info.major, sys.version_info.minor)
    around = Surroundings(installed=installed_in((folder,), python), folders=(folder,), python=python)
    outcome = next(one for one in reading_of(files, FakeWorld(python=python), around).imports if one.module == "p")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    real = subprocess.run([sys.executable, "-I", "-c", REAL, str(folder)], capture_output=True, text=True, check=True)
    raised = outcome.raised
    assert raised is None or isinstance(raised, Raised)
    assert (f"{raised.exception}: {raised.message}" if raised else "") == real.stdout.strip()


@pytest.mark.parametrize(
    ("content", "name", "has"),
    [
        (b"\0gives\0", "gives", None),
        (b"\0gives\0", "absent", False),
        # Cython 3.2 keeps its texts compressed, and one after another.
        (b"\0decompress\0" + zlib.compress(b"takesgives") + b"\0", "gives", None),
        (b"\0decompress\0" + zlib.compress(b"takesgives") + b"\0", "absent", False),
        (b"\0decompress\0", "absent", None),
        (b"\0__getattr__\0", "absent", None),
        (b"\0PyInit_compiled\0libcommon.so\0libc.so.6\0", "absent", None),
        (b"\0libstdc++.so.6\0libopenblas-r0-f650aae0.3.3.so\0libpython3.11.so.1.0\0", "absent", False),
        (b"\0c6ab3__mypyc.init_module\0", "absent", None),
        (b"\0decompress\0" + zlib.compress(b"__getattr__"), "absent", None),
        (b"\0from-import-* object has no __dict__ and no __all__\0", "absent", None),
    ],
)
@pytest.mark.parametrize("module", ["compiled", "starred", "both"])
def test_a_compiled_module_has_names_that_are_texts_in_it(
    content: bytes, name: str, has: bool | None, module: str, tmp_path: Path
) -> None:
    for extension in ("compiled", "both"):  # Python takes it before a source
        (tmp_path / f"{extension}.cpython-311-x86_64-linux-gnu.so").write_bytes(content)
    (tmp_path / "both.py").write_text("here = 1\n", encoding="utf-8")
    (tmp_path / "starred.py").write_text("from compiled import *\n", encoding="utf-8")
    around = Surroundings(folders=(tmp_path,), python=(3, 11))
    assert around.has(module, name) is has


def test_a_hook_that_is_nested_too_deeply_may_give_any_name(tmp_path: Path) -> None:
    branches = "".join(f"    elif name == 'n{number}': return 1\n" for number in range(3000))
    text = f"def __getattr__(name):\n    if name == 'a': return 1\n{branches}    else: raise AttributeError\n"
    (tmp_path / "deep.py").write_text(text, encoding="utf-8")
    assert Surroundings(folders=(tmp_path,), python=(3, 11)).has("deep", "absent") is None


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        # As pandas/_libs/src/parser/pd_parser.c does: PyObject_SetAttrString(pandas, "_added", …)
        (b"\0pandas\0PyObject_SetAttrString\0pandas._added\0", None),
        (b"\0pandas\0_added\0", None),
        (b"\0pandas\0_added_later\0", False),
        (b"\0_added\0", False),
    ],
)
def test_an_extension_module_may_add_names_to_its_package(tmp_path: Path, content: bytes, answer: bool | None) -> None:
    (tmp_path / "pandas/_libs").mkdir(parents=True)
    (tmp_path / "pandas/__init__.py").write_text("from pandas._libs import parser\n", encoding="utf-8")
    (tmp_path / "pandas/_libs/parser.cpython-311-x86_64-linux-gnu.so").write_bytes(content)
    around = Surroundings(installed=installed_in((tmp_path,), (3, 11)), folders=(tmp_path,), python=(3, 11))
    assert around.has("pandas", "_added") is answer


def test_an_extension_module_that_cannot_be_read_adds_no_name(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "other/gone.so").symlink_to("nowhere.so")
    (tmp_path / "other/circle.so").symlink_to("circle.so")
    os.mkfifo(tmp_path / "other/pipe.so")
    with (tmp_path / "other/sparse.so").open("wb") as stream:
        stream.truncate(1 << 40)
    assert Surroundings(folders=(tmp_path,), python=(3, 11)).has("other", "absent") is False
    assert Surroundings(folders=(tmp_path,), python=(3, 11)).has("other.pipe", "absent") is None


def test_no_name_of_a_real_compiled_module_is_said_to_be_absent() -> None:
    site = Path(msgspec.__file__).parent.parent
    around = Surroundings(folders=(site,), python=(sys.version_info.major, sys.version_info.minor))
    assert {around.has("msgspec._core", name) for name in dir(msgspec._core)} == {None}
    assert around.has("msgspec._core", "no_such_name") is False


@pytest.mark.parametrize("other", [None, "space/other.py", "space/__init__.py", "space.py"])
@pytest.mark.parametrize("use", ["space.__version__", "from space import name"])
def test_a_folder_that_packages_share_has_nothing_but_modules(use: str, other: str | None, tmp_path: Path) -> None:
    """Without what another package that it requires would bring."""
    if other:
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_text("__version__ = '1'\n", encoding="utf-8")
    files = {"space/p/__init__.py": f"import space\n{use}\nraise OSError('the end')\n"}
    around = Surroundings(installed=installed_in((tmp_path,)), folders=(tmp_path,))
    (outcome,) = read_package(TextSources(files), ("space.p",), FakeWorld, surroundings=around).imports
    (tmp_path / "space" / "p").mkdir(parents=True)
    (tmp_path / "space" / "p" / "__init__.py").write_text(files["space/p/__init__.py"], encoding="utf-8")
    code = "import sys; sys.path.insert(0, sys.argv[1])\ntry:\n    import space.p\nexcept Exception as e:\n"
    code += "    print(f'{type(e).__name__}: {e}')"
    real = subprocess.run([sys.executable, "-I", "-c", code, tmp_path], capture_output=True, text=True, check=True)
    raised = outcome.raised
    if other in (None, "space/other.py"):
        assert isinstance(raised, Raised) or raised is None
        assert (f"{raised.exception}: {raised.message}" if raised else "") == real.stdout.strip()
    else:  # another package's code decides
        assert raised is None or isinstance(raised, Answer | Raised)


@pytest.mark.parametrize(
    ("name", "is_there"),
    [("single.py", True), ("other", True), ("not_installed", False), ("_skbuild", False), ("setup.py", False)],
)
def test_what_is_beside_a_package(name: str, is_there: bool, folder: Path) -> None:
    place = f"os.path.join(os.path.dirname(os.path.dirname(__file__)), {name!r})"
    files = {"p/__init__.py": f"import os\nif not os.path.exists({place}):\n    raise OSError('absent')\n"}
    around = Surroundings(installed=installed_in((folder,)), folders=(folder,))
    (outcome,) = reading_of(files, around=around).imports
    assert isinstance(outcome.raised, Answer if is_there else Raised)
    # Beside a wheel there may be other packages, but not what only its developers have.
    (outcome,) = reading_of(files).imports
    assert isinstance(outcome.raised, Raised if name in ("_skbuild", "setup.py") else Answer)


def test_an_extension_for_another_python_is_not_there_in_a_wheel_either() -> None:
    files = {"p/__init__.py": "import _p\n", "_p.cpython-38-x86_64-linux-gnu.so": ""}
    outcome = next(one for one in reading_of(files).imports if one.module == "p")
    assert isinstance(outcome.raised, Raised)
    assert str(outcome.raised.message) == "No module named '_p'"
    outcome = next(one for one in reading_of(files, FakeWorld(python=(3, 8))).imports if one.module == "p")
    assert outcome.raised is None


def test_what_is_found_by_code_of_its_own_is_not_known(folder: Path) -> None:
    (folder / "__editable___inplace_1_0_finder.py").write_text(
        "MAPPING = {'inplace': '/src/inplace'}", encoding="utf-8"
    )
    answer = installed_in((folder,))
    assert [answer(name) for name in ("single", "inplace", "absent")] == [True, Answer.UNKNOWN, False]


@pytest.mark.parametrize("name", ["**", "/etc", "../other", "a\x00b", "", "torch./etc", "torch.**"])
def test_a_text_that_is_no_name_asks_for_nothing(name: str, folder: Path) -> None:
    around = Surroundings(torch_folder=folder / "other", installed=installed_in((folder,)), folders=(folder,))
    assert around.has(name, None) is None
    assert around.has("other.part", name) in {True, None}
    code = f"import importlib\nimportlib.import_module({name!r})\n"
    (outcome,) = reading_of({"p/__init__.py": code}, around=around).imports
    assert outcome.raised is None or isinstance(outcome.raised, Raised)


def test_nothing_is_known_of_a_release_by_its_number() -> None:
    around = Surroundings()
    assert around.has("torch.library", "no_such_name") is None
    assert around.installed("absent") is Answer.UNKNOWN


LOADS_WHAT_IS_AROUND = """\
import ctypes, site
from pathlib import Path
import torch
def load(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        pass
    for folder in [*([site.getusersitepackages()] if site.ENABLE_USER_SITE else []), *site.getsitepackages()]:
        try:
            return ctypes.CDLL(str(Path(folder).parent.parent / name))
        except OSError:
            pass
    return None
if load('libbeside.so.1') is None:
    raise OSError('no libbeside')
from . import _C
"""


@pytest.mark.parametrize("system", [True, False])
@pytest.mark.parametrize("beside", [True, False])
def test_a_library_is_looked_for_in_the_system_and_where_packages_put_theirs(
    tmp_path: Path, system: bool, beside: bool
) -> None:
    site = tmp_path / "lib/python3.11/site-packages"
    (site / "torch").mkdir(parents=True)
    if beside:
        (tmp_path / "lib/libbeside.so.1").write_bytes(b"")
    around = Surroundings(torch_folder=site / "torch", folders=(site,), system_has=lambda _name: system)
    files = {"pkg/__init__.py": LOADS_WHAT_IS_AROUND, "pkg/_C.abi3.so": ""}
    (outcome,) = reading_of(files, around=around).imports
    assert (outcome.gaps, outcome.conditions) == ((), ())
    if system or beside:
        assert outcome.raised is None
        assert [one.path for one in outcome.loads if one.raised is None] == ["pkg/_C.abi3.so"]
    else:
        assert isinstance(outcome.raised, Raised)
        assert (outcome.raised.exception, outcome.raised.message) == ("OSError", "no libbeside")


def test_a_module_of_a_package_that_another_lacks(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/__init__.py").write_bytes(b"")
    (tmp_path / "torch").mkdir()
    around = Surroundings(torch_folder=tmp_path / "torch", folders=(tmp_path,), installed=installed_in((tmp_path,)))
    files = {
        "pkg/__init__.py": "import torch\nfrom . import part\nfrom . import _C\n",
        "pkg/part.py": "if True:\n    from other.absent.part import name\n",
        "pkg/_C.abi3.so": "",
    }
    (outcome,) = reading_of(files, around=around).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == "No module named 'other.absent'"


def test_what_is_required_is_taken_to_bring_its_library_where_nothing_is_known() -> None:
    (outcome,) = reading_of({"pkg/__init__.py": LOADS_WHAT_IS_AROUND, "pkg/_C.abi3.so": ""}).imports
    assert (outcome.raised, outcome.gaps) == (None, ())


NEEDS_GPU = "import torch\nif not torch.cuda.is_available():\n    raise RuntimeError(torch.cuda.device_count())\n"


@pytest.mark.parametrize(
    ("cuda", "has_driver", "is_here", "raised"),
    [
        ("12.8", False, True, True),
        (None, True, True, True),
        ("12.8", True, True, False),
        ("12.8", Answer.UNKNOWN, True, False),
        ("12.8", False, False, False),
        (Answer.UNKNOWN, False, True, False),  # perhaps a build for other GPUs
    ],
)
def test_without_a_driver_cuda_has_no_gpu(
    cuda: str | Answer | None, has_driver: bool | Answer, is_here: bool, raised: bool
) -> None:
    around = Surroundings(is_here=is_here, system_has=lambda name: has_driver if name == "libcuda.so.1" else True)
    files = {"pkg/__init__.py": NEEDS_GPU + "from . import _C\n", "pkg/_C.abi3.so": ""}
    (outcome,) = reading_of(files, FakeWorld(cuda=cuda), around).imports
    if raised:
        assert isinstance(outcome.raised, Raised)
        assert (outcome.raised.exception, outcome.raised.message) == ("RuntimeError", "0")
    else:
        assert outcome.raised is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("cuda", "gpus", "raised"),
    [
        ("12.1", ((9, 0),), "9.0 9"),
        ("12.1", ((7, 5), (7, 5)), "7.5 7"),
        ("12.1", ((7, 0),), None),
        ("12.1", ((9, 0), (7, 0)), Answer.UNKNOWN),
        ("12.1", (), Answer.UNKNOWN),
        (None, ((9, 0),), None),
        (Answer.UNKNOWN, ((9, 0),), Answer.UNKNOWN),
    ],
)
def test_a_gpu_that_is_named_tells_its_compute_capability(
    cuda: str | Answer | None, gpus: tuple[tuple[int, int], ...], raised: str | Answer | None
) -> None:
    """As in torch/cuda/__init__.py: a build for CPUs finds no GPU, whichever there is."""
    code = (
        "import torch\nif torch.cuda.is_available() and torch.cuda.get_device_capability(0) >= (7, 5):\n"
        "    major, minor = torch.cuda.get_device_capability()\n"
        "    raise ImportError(f'{major}.{minor} {torch.cuda.get_device_properties(0).major}')\n"
    )
    (outcome,) = reading_of({"pkg/__init__.py": code}, FakeWorld(cuda=cuda, gpus=gpus)).imports
    message = outcome.raised.message if isinstance(outcome.raised, Raised) else outcome.raised
    assert message == raised


@pytest.mark.parametrize(("cuda", "message"), [("12.8", "True"), (None, "False"), (Answer.UNKNOWN, None)])
@pytest.mark.parametrize("name", ["torch._C._has_cuda", "torch.cuda.has_magma"])
def test_a_build_tells_whether_it_has_cuda(name: str, cuda: str | Answer | None, message: str | None) -> None:
    code = f"import torch.cuda\nraise ImportError('True' if {name} else 'False')\n"
    (outcome,) = reading_of({"pkg/__init__.py": code}, FakeWorld(cuda=cuda)).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == message


@pytest.mark.parametrize("is_here", [True, False])
@pytest.mark.parametrize("value", ["", "/opt/vendor/lib"])
def test_the_search_path_of_libraries_is_that_of_this_machine_where_it_is_asked_about(
    is_here: bool, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", value)
    code = "import os, torch\nfor path in os.environ.get('LD_LIBRARY_PATH', '').split(':'):\n"
    code += "    if path:\n        raise RuntimeError(path)\nfrom . import _C\n"
    files = {"pkg/__init__.py": code, "pkg/_C.abi3.so": ""}
    (outcome,) = reading_of(files, around=Surroundings(is_here=is_here)).imports
    if not is_here:
        assert outcome.raised is Answer.UNKNOWN or outcome.conditions or outcome.gaps
    elif value:
        assert isinstance(outcome.raised, Raised)
        assert outcome.raised.message == value
    else:
        assert (outcome.raised, outcome.conditions) == (None, ())


@pytest.mark.parametrize(
    ("other", "body", "may_change"),
    [
        ("torch", "sys.path.append('a')", False),
        ("setting", "sys.path.append('a')", True),
        ("setting", "x = '#'; sys.path.append('a')", True),
        ("setting", "for path in sys.path: pass", False),
        ("setting", "'What is in sys.path.'", False),
        ("setting", "for add in sys.path.append, : add('a')", True),
        ("setting", "pass  # something weird with sys.path", False),
        ("setting", "x = '''\n    # '''; sys.path.append('a')", True),
        ("setting", f"pass  # {'sys.path ' * 30}\n    sys.path.append('a')", True),
    ],
)
def test_functions_of_others_may_change_the_search_path_but_not_those_of_torch(
    other: str, body: str, *, may_change: bool, tmp_path: Path
) -> None:
    (tmp_path / other).mkdir()
    (tmp_path / other / "__init__.py").write_text(f"import sys\ndef zeros(size):\n    {body}\n", "utf-8")
    around = Surroundings(
        installed=installed_in((tmp_path,)), folders=(tmp_path,), is_final=True, torch_folder=tmp_path / "torch"
    )
    files = {"p/__init__.py": f"import {other}\n{other}.zeros(1)\nimport not_installed\n"}
    (outcome,) = reading_of(files, around=around).imports
    assert isinstance(outcome.raised, Raised) is not may_change


@pytest.mark.parametrize(
    "use", ["import other\nversion = other.__version__\n", "from other import __version__ as version\n"]
)
@pytest.mark.parametrize(
    ("module", "release", "expected"),
    [
        ("__version__ = '2.4.6'\n", "2.4.6", "OSError: 2 is too new"),
        ("from .version import version as __version__\n", "2.4.6", "OSError: 2 is too new"),
        ("__version__ = '1.9'\n", "1.9", "KeyError: 'the end'"),
        # What ``__version__`` is then, the name of the distribution does not tell, and a check of it may well succeed.
        ("import os\n__version__ = os.environ['X']\n", "9.9", "KeyError: 'the end'"),
        # As pydantic_core, which Rust compiles its version into.
        ("from ._core import (\n    Thing,\n    __version__,\n)\n", "3.1.0", "OSError: 2 is too new"),
        ("from ._core import __version__\n", "9.9", "KeyError: 'the end'"),
        ("from ._core import Thing\n__version__ = Thing.version\n", "3.1.0", "KeyError: 'the end'"),
    ],
)
def test_the_version_of_an_installed_module(use: str, module: str, release: str, expected: str, tmp_path: Path) -> None:
    for name, text in {"__init__.py": module, "version.py": "version = '2.4.6'\n"}.items():
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / name).write_text(text, encoding="utf-8")
    (tmp_path / "other" / "_core.abi3.so").write_bytes(b"unknown type3.1.0-alphaa-betab__version__\0")
    (tmp_path / f"other-{release}.dist-info").mkdir()
    code = f"{use}if int(version.split('.')[0]) >= 2:\n    raise OSError('2 is too new')\nraise KeyError('the end')\n"
    around = Surroundings(installed=installed_in((tmp_path,)), folders=(tmp_path,))
    (outcome,) = read_package(TextSources({"p.py": code}), ("p",), FakeWorld, surroundings=around).imports
    assert isinstance(outcome.raised, Raised)
    assert f"{outcome.raised.exception}: {outcome.raised.message}" == expected


@pytest.mark.parametrize("size", [0, 5000])
@pytest.mark.parametrize(
    "code",
    [
        "x = other.lost",
        "def f(flags=other.lost): pass",
        "def f(): other.lost",
        "x = getattr(other, 'lost', None)",
        "import other.part\nx = other.part.lost",
        "import other.part\nx = other.gone, other.lost",
        "other.lost = 1\nx = other.lost",
        "x = other.lost\nother.lost = 1",
        "x = other.__path__, other.__name__",
        "import other as o\nx = o.lost",
    ],
)
def test_a_package_that_has_lost_its_body_has_no_names_but_its_modules(code: str, size: int, tmp_path: Path) -> None:
    (tmp_path / "other" / "part").mkdir(parents=True)
    (tmp_path / "other" / "part" / "__init__.py").write_text("lost = 1\n", "utf-8")
    files = {"p/__init__.py": "from . import big\n", "p/big.py": f"import other\n{code}\n# {'x' * size}\n"}
    (tmp_path / "own" / "p").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "own" / name).write_text(text, "utf-8")
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(tmp_path / 'own')!r}]\ntry:\n    import p\n"
    program += "except Exception as error: print(type(error).__name__, error, sep=': ')"
    real = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    around = Surroundings(installed=installed_in((tmp_path,)), folders=(tmp_path,), is_final=True)
    (outcome,) = reading_of(files, around=around).imports
    raised = outcome.raised
    assert (f"{raised.exception}: {raised.message}" if isinstance(raised, Raised) else "") == real
    (tmp_path / "other" / "__init__.py").write_text("import os\nglobals().update(os.environ)\n", "utf-8")
    around = Surroundings(installed=installed_in((tmp_path,)), folders=(tmp_path,), is_final=True)
    assert not isinstance(reading_of(files, around=around).imports[0].raised, Raised)
