"""How packages find and load their libraries, compared with real imports: the libraries are compiled here."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import abiscan
from abiscan.inputs import interpreter
from abiscan.results.package import PackageResult
from tests import live_torch

pytestmark = [
    pytest.mark.skipif(live_torch.version() is None, reason="needs torch"),
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
]

HERE = "import ctypes, os, torch\nfolder = os.path.dirname(__file__)\n"
LOAD = "torch.ops.load_library(os.path.join(folder, 'libuser.so'))\n"
OF_TORCH = "int _ZN2at4goneEv(void); void *PyInit__C(void) { return _ZN2at4goneEv() ? 0 : 0; }"
GONE = "pkg/_C.so: undefined symbol: _ZN2at4goneEv"
CHILD = """
import importlib, json, sys, torch
sys.path.insert(0, sys.argv[1])
chain = []
try:
    importlib.import_module("pkg")
    exec(sys.argv[2])
except Exception as raised:
    error = raised
    while error is not None:
        chain.append([type(error).__name__, str(error).replace(sys.argv[1] + "/", "")])
        error = error.__cause__
print(json.dumps(chain))
"""


@dataclass(frozen=True)
class Importing:
    """A package that is on disk: what importing it raises, the causes after it, and what abiscan says of it."""

    folder: Path

    def really(self, then: str = "") -> list[list[str]]:
        """The exceptions of the import, or of what is called ``then``; none if it works."""
        done = live_torch.run(CHILD, self.folder, then, check=True)
        found: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
        return found

    @property
    def predicted(self) -> PackageResult:
        (package,) = abiscan.check(self.folder / "pkg", interpreter.installed_torch()).packages
        return package


def package(folder: Path, code: str, **libraries: tuple[str, ...]) -> Importing:
    """A package whose libraries are compiled in their order, each with what it is given and with ``libc10.so``."""
    torch = interpreter.installed_torch()
    assert torch is not None
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text(code)
    for name, options in libraries.items():
        file = f"{name}.so"
        linked = ["-Wl,--no-as-needed", f"-L{torch / 'lib'}", "-lc10", "-L."]
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", file, *linked, *options]
        program = OF_TORCH if name == "_C" else f"int of_{name}(void) {{ return 1; }}"
        subprocess.run(command, input=program.encode(), check=True, cwd=folder / "pkg")
    return Importing(folder)


PART = ("-Wl,-soname,libpart.so",)
NEEDS_PART = ("-lpart",)
NOT_FOUND = "libpart.so: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("code", "part", "user", "found"),
    [
        (HERE + LOAD, PART, NEEDS_PART, False),
        (HERE + LOAD, PART, (*NEEDS_PART, "-Wl,-rpath,$ORIGIN"), True),
        (HERE + LOAD, PART, (*NEEDS_PART, "-Wl,-rpath,$ORIGIN,--disable-new-dtags"), True),
        (HERE + LOAD, PART, (*NEEDS_PART, "-Wl,-rpath,$ORIGIN/lib"), False),
        (HERE + "ctypes.CDLL(os.path.join(folder, 'libpart.so'))\n" + LOAD, PART, NEEDS_PART, True),
        (HERE + "ctypes.CDLL(os.path.join(folder, 'libpart.so'))\n" + LOAD, (), NEEDS_PART, False),
        (HERE + "os.environ['LD_LIBRARY_PATH'] = folder\n" + LOAD, PART, NEEDS_PART, False),
        (HERE + "ctypes.CDLL(max(map(str, __import__('pathlib').Path(folder).iterdir())))\n" + LOAD, PART, (), True),
    ],
    ids=["nothing", "runpath", "rpath", "elsewhere", "loaded", "loaded-without-a-name", "too-late", "not-followed"],
)
def test_a_library_of_the_package_is_found_as_the_loader_does(
    tmp_path: Path, code: str, part: tuple[str, ...], user: tuple[str, ...], found: bool
) -> None:
    importing = package(tmp_path, code, libpart=part, libuser=user)
    real, predicted = importing.really(), importing.predicted
    assert bool(real) is not found
    if found:
        assert predicted.verdict.value == "works"
        return
    assert real[-1] == ["OSError", NOT_FOUND]
    assert predicted.error is not None
    assert [predicted.error.exception, predicted.error.message] == real[0]
    if len(real) > 1:
        assert predicted.error.cause == NOT_FOUND


LAZY = {
    "function": ("def use():\n    from . import _C\n    return _C\n", "import pkg; pkg.use()"),
    "method": ("class A:\n    @property\n    def c(self):\n        from pkg import _C\n", "import pkg; pkg.A().c"),
    "wrapped": ("import functools\n@functools.cache\ndef use():\n    import pkg._C\n", "import pkg; pkg.use()"),
    "nested": ("def outer():\n    def use():\n        from ._C import f\n    use()\n", "import pkg; pkg.outer()"),
    "attribute": ("def __getattr__(name):\n    import pkg._C\n", "import pkg; pkg.anything"),
}


@pytest.mark.parametrize("kind", LAZY)
def test_an_extension_that_a_function_imports_is_on_demand(tmp_path: Path, kind: str) -> None:
    code, use = LAZY[kind]
    importing = package(tmp_path, f"import torch\n{code}", _C=())
    assert importing.really() == []
    assert importing.really(use) == [["ImportError", GONE]]
    predicted = importing.predicted
    assert predicted.summary == "works without pkg/_C.so (failing when first used)"


def test_a_function_that_does_without_the_extension_is_told_as_such(tmp_path: Path) -> None:
    code = (
        "import torch\ndef has():\n    try:\n        from . import _C\n    except ImportError:\n        return False\n"
    )
    importing = package(tmp_path, code, _C=())
    assert importing.really("import pkg; assert pkg.has() is False") == []
    assert importing.predicted.verdict.value == "works-without"


def test_a_text_is_no_import(tmp_path: Path) -> None:
    code = 'import torch\ndef use():\n    """Like this:\n\n    from . import _C\n    """\n'
    importing = package(tmp_path, code, _C=())
    assert importing.predicted.libraries[0].how.value == "never"
