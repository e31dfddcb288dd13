"""The verdict on packages for Windows and macOS: their Python code, followed as it runs there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click.testing
import pytest

from abiscan.binary.elf import Machine
from abiscan.cli import main
from abiscan.dispatch import torchscript
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded_operators
from tests.fakes import SAMPLES
from tests.image_samples import image, package
from tests.schemas import validate

PLATFORMS: Final = {"Windows": "win_amd64", "macOS": "macosx_11_0_arm64"}
MODULES: Final = {"Windows": "pyd", "macOS": "so"}
LOAD: Final = "import os, torch\ntorch.ops.load_library(os.path.join(os.path.dirname(__file__), '_C.{}'))\n"
FAKE: Final = "torch.library.register_fake('pkg::nms')(lambda boxes: boxes)\n"
GUARDED: Final = """
import os, torch, warnings
try:
    torch.ops.load_library(os.path.join(os.path.dirname(__file__), "_C.{}"))
except OSError:
    warnings.warn("no extension")
"""

NOT_FOUND: Final = (
    "Could not find module '?\\_C.pyd' (or one of its dependencies). Try using the full path with constructor syntax."
)
SYMBOL_NOT_FOUND: Final = (
    "dlopen(?/_C.so, 0x0002): Symbol not found: __ZN2at20abiscan_not_in_torchEv\n"
    "  Referenced from: ?/_C.so\n  Expected in: ?/libtorch_cpu.dylib"
)
LIBRARY_NOT_LOADED: Final = (
    "dlopen(?/_C.so, 0x0002): Library not loaded: @rpath/libtorch_cuda.dylib\n  Referenced from: ?/_C.so"
)

systems = pytest.mark.parametrize("system", PLATFORMS)


def run(*words: str | Path) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


def checked(folder: Path, system: str, files: Mapping[str, str | bytes], *, exit_code: int) -> dict[str, Any]:
    """The package in the document of ``check``."""
    members = {name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
    wheel = package(folder, members, platform=PLATFORMS[system])
    printed = run("check", wheel, "--torch", "2.13.0", "--format", "json")
    document = json.loads(printed.stdout)
    validate(document, "check")
    assert printed.exit_code == exit_code, document["packages"]
    (found,) = document["packages"]
    assert isinstance(found, dict)
    return found


def of(system: str, kind: str, code: str, *, texts: bytes = b"") -> dict[str, str | bytes]:
    """A package with one library of a kind, in whose file there are further ``texts``."""
    suffix = MODULES[system]
    return {"pkg/__init__.py": code.format(suffix), f"pkg/_C.{suffix}": image(f"{kind}.{suffix}") + texts}


@systems
@pytest.mark.parametrize("code", [LOAD, "import torch\nfrom . import _C\n", LOAD + FAKE])
def test_what_loads_works_and_the_gap_is_printed(tmp_path: Path, system: str, code: str) -> None:
    found = checked(tmp_path, system, of(system, "loads", code), exit_code=0)
    assert found["verdict"] == "works"
    assert f"are not read in files for {system}" in found["gaps"][-1]
    (library,) = found["libraries"]
    assert (library["used"], library["how"], library["loaded_at"]) == (True, "import", "pkg/__init__.py:2")
    printed = run("check", next(tmp_path.glob("*.whl")), "--torch", "2.13.0")
    assert f"are not read in files for {system}" in printed.stdout


@pytest.mark.parametrize(
    ("system", "kind", "code", "exception", "message", "cause"),
    [
        ("Windows", "missing_symbol", "import torch\nfrom . import _C\n", "ImportError",
         "DLL load failed while importing _C: The specified procedure could not be found.", None),
        ("Windows", "needs_cuda", "import torch\nimport pkg._C\n", "ImportError",
         "DLL load failed while importing _C: The specified module could not be found.", None),
        ("Windows", "missing_symbol", LOAD, "OSError", "Could not load this library: pkg\\_C.pyd",
         "[WinError 127] The specified procedure could not be found"),
        ("Windows", "needs_cuda", LOAD.replace("torch.ops.load_library", "__import__('ctypes').CDLL"),
         "FileNotFoundError", NOT_FOUND, None),
        # Modules/_ctypes: OSError with the text of FormatMessage. Only a missing file has an exception of its own.
        ("Windows", "missing_symbol", LOAD.replace("torch.ops.load_library", "__import__('ctypes').CDLL"),
         "OSError", "[WinError 127] The specified procedure could not be found", None),
        ("macOS", "needs_cuda", LOAD.replace("torch.ops.load_library", "__import__('ctypes').CDLL"),
         "OSError", LIBRARY_NOT_LOADED, None),
        ("macOS", "missing_symbol", "import torch\nfrom . import _C\n", "ImportError",
         SYMBOL_NOT_FOUND, None),
        ("macOS", "needs_cuda", LOAD, "OSError", "Could not load this library: pkg/_C.so",
         LIBRARY_NOT_LOADED),
    ],
)  # fmt: skip
def test_the_exception_of_the_system(
    tmp_path: Path, system: str, kind: str, code: str, exception: str, message: str, cause: str | None
) -> None:
    found = checked(tmp_path, system, of(system, kind, code), exit_code=1)
    error = found["error"]
    assert found["verdict"] == "import-fails"
    assert (error["exception"], error["message"], error["cause"]) == (exception, message, cause)
    # What torch itself says is known; what the system says is in the user's language, and has folders.
    assert ("exact" not in error) is message.startswith("Could not load this library")
    assert (error["file"], error["line"]) == ("pkg/__init__.py", 2)


@systems
def test_a_guarded_library_is_done_without(tmp_path: Path, system: str) -> None:
    found = checked(tmp_path, system, of(system, "missing_symbol", GUARDED), exit_code=0)
    assert found["verdict"] == "works-without"
    assert found["libraries"][0]["told_text"] == "no extension"


@systems
@pytest.mark.parametrize(
    ("texts", "verdict", "exit_code"),
    [
        (b"\0pkg\0", "import-fails", 1),
        (b"\0pkg::nms(Tensor boxes) -> Tensor\0", "import-fails", 1),
        (b"", "unknown", 3),
    ],
)
def test_operators_of_a_library_that_fails_are_missing_if_it_names_them(
    tmp_path: Path, system: str, texts: bytes, verdict: str, exit_code: int
) -> None:
    files = of(system, "missing_symbol", GUARDED + FAKE, texts=texts)
    found = checked(tmp_path, system, files, exit_code=exit_code)
    assert found["verdict"] == verdict
    if verdict == "import-fails":
        assert found["error"]["message"] == "operator pkg::nms does not exist"
    else:
        assert any("define the operators of pkg" in condition for condition in found["undecided"])


@systems
def test_another_library_that_loads_may_define_them(tmp_path: Path, system: str) -> None:
    suffix = MODULES[system]
    code = GUARDED.format(suffix) + LOAD.replace("_C", "ok").format(suffix) + FAKE
    files = {
        **of(system, "missing_symbol", code, texts=b"\0pkg\0"),
        f"pkg/ok.{suffix}": image(f"loads.{suffix}") + b"\0pkg\0",
    }
    assert checked(tmp_path, system, files, exit_code=0)["verdict"] == "works-without"


@systems
def test_operators_of_torch_are_those_of_linux(tmp_path: Path, system: str) -> None:
    of_release = embedded_operators.names("2.13.0", Machine.X86_64)
    there = of(system, "loads", LOAD + "torch.library.register_fake('aten::tanh')(lambda x: x)\n")
    assert checked(tmp_path, system, there, exit_code=0)["verdict"] == "works"
    known = {name.partition(".")[0] for name in of_release}
    ever = {name.partition(".")[0] for name in embedded_operators.table().all_names if name.startswith("aten::")}
    gone = min(name for name in ever - known if not torchscript.may_have(name, TorchVersion("2.13.0")))
    missing = of(system, "loads", LOAD + f"torch.library.register_fake('{gone}')(lambda x: x)\n")
    error = checked(tmp_path, system, missing, exit_code=1)["error"]
    assert error["message"] == f"operator {gone} does not exist"


@systems
def test_a_damaged_library_is_unknown(tmp_path: Path, system: str) -> None:
    suffix = MODULES[system]
    files: dict[str, str | bytes] = {
        "pkg/__init__.py": LOAD.format(suffix),
        f"pkg/_C.{suffix}": image(f"loads.{suffix}")[:900],
    }
    assert checked(tmp_path, system, files, exit_code=3)["verdict"] == "unknown"


TOLD: Final = """
import ctypes, os, platform, sys, torch
from pathlib import Path
import importlib.machinery
raise RuntimeError(repr((
    sys.platform, os.name, platform.system(), platform.machine(), os.sep, os.pathsep, os.linesep,
    __file__.split(os.sep)[-2], Path(__file__).parts[-1], str(Path(__file__).parent / "x")[-6:], os.path.join("a", "b"),
    importlib.machinery.EXTENSION_SUFFIXES, torch.version.cuda,
    hasattr(os, "add_dll_directory"), hasattr(os, "sched_getaffinity"), hasattr(os, "RTLD_GLOBAL"),
    hasattr(ctypes, "windll"),
)))
"""


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ("Windows", ("win32", "nt", "Windows", "AMD64", "\\", ";", "\r\n", "pkg", "__init__.py", "\\pkg\\x", "a\\b",
                     [".cp311-win_amd64.pyd", ".pyd"], None, True, False, False, True)),
        ("macOS", ("darwin", "posix", "Darwin", "arm64", "/", ":", "\n", "pkg", "__init__.py", "/pkg/x", "a/b",
                   [".cpython-311-darwin.so", ".abi3.so", ".so"], None, False, False, True, False)),
    ],
)  # fmt: skip
def test_what_the_code_is_told(tmp_path: Path, system: str, told: tuple[object, ...]) -> None:
    found = checked(tmp_path, system, of(system, "loads", TOLD.replace("{", "{{").replace("}", "}}")), exit_code=1)
    assert found["error"]["message"] == repr(told)


@pytest.mark.parametrize("call", ["os.fork()", "os.uname()", "sys.getdlopenflags()"])
def test_functions_that_windows_does_not_have(tmp_path: Path, call: str) -> None:
    code = f"import os, sys, torch\n{call}\n"
    error = checked(tmp_path, "Windows", of("Windows", "loads", code), exit_code=1)["error"]
    module, _, function = call.removesuffix("()").partition(".")
    assert error["message"] == f"module '{module}' has no attribute '{function}'"
    assert checked(tmp_path, "macOS", of("macOS", "loads", code + LOAD), exit_code=0)["verdict"] == "works"


@pytest.mark.parametrize(
    ("system", "module", "missing"),
    [
        ("Windows", "fcntl", "fcntl"),
        ("Windows", "pty", "termios"),
        ("macOS", "msvcrt", "msvcrt"),
        ("macOS", "fcntl", None),
    ],
)
def test_modules_that_a_system_does_not_have(tmp_path: Path, system: str, module: str, missing: str | None) -> None:
    files = of(system, "loads", f"import {module}\n" + LOAD)
    found = checked(tmp_path, system, files, exit_code=1 if missing else 0)
    assert (found["error"] or {}).get("message") == (f"No module named '{missing}'" if missing else None)


def test_windows_finds_a_library_by_its_name_in_folders_that_it_was_told(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"pkg/lib/ops.dll": image("loads.pyd")}
    told = "import ctypes, os, torch\nos.add_dll_directory(os.path.join(os.path.dirname(__file__), 'lib'))\n"
    load = "ctypes.WinDLL('ops')\n"
    found = checked(tmp_path, "Windows", {**files, "pkg/__init__.py": told + load}, exit_code=0)
    assert (found["verdict"], found["libraries"][0]["loaded_at"]) == ("works", "pkg/__init__.py:3")
    untold = checked(tmp_path, "Windows", {**files, "pkg/__init__.py": "import ctypes, torch\n" + load}, exit_code=1)
    assert untold["error"]["exception"] == "FileNotFoundError"


def test_a_folder_of_libraries_that_is_not_there(tmp_path: Path) -> None:
    code = "import os, torch\nos.add_dll_directory(os.path.join(os.path.dirname(__file__), 'lib'))\n"
    found = checked(tmp_path, "Windows", of("Windows", "loads", code), exit_code=1)
    assert found["error"]["message"].startswith("[WinError 2]")


@pytest.mark.parametrize(("kind", "verdict"), [("loads", "works"), ("missing_symbol", "import-fails")])
def test_functions_of_windows_return_nothing_for_what_they_cannot_load(tmp_path: Path, kind: str, verdict: str) -> None:
    code = """
import ctypes, os, torch
kernel32 = ctypes.WinDLL("kernel32.dll", use_last_error=True)
flags = hasattr(kernel32, "AddDllDirectory")
kernel32.SetErrorMode(0x0001)
handle = kernel32.LoadLibraryExW(os.path.join(os.path.dirname(__file__), "_C.pyd"), None, 0x00001100)
if flags and handle is None:
    raise RuntimeError("the library is not loaded")
"""
    found = checked(tmp_path, "Windows", of("Windows", kind, code), exit_code=int(verdict != "works"))
    assert found["verdict"] == verdict


def test_code_that_looks_at_the_header_of_a_library(tmp_path: Path) -> None:
    code = """
import os, struct, torch
path = os.path.join(os.path.dirname(__file__), "_C.pyd")
with open(path, "rb") as stream:
    if stream.read(2).decode(encoding="utf-8") != "MZ":
        raise ImportError("is not a DLL")
    stream.seek(60)
    stream.seek(struct.unpack("<L", stream.read(4))[0] + 4)
    if struct.unpack("<H", stream.read(2))[0] != 34404:
        raise ImportError("is for another machine")
torch.ops.load_library(path)
"""
    assert checked(tmp_path, "Windows", of("Windows", "loads", code), exit_code=0)["verdict"] == "works"
    other = of("Windows", "loads", code.replace("34404", "332"))
    assert checked(tmp_path, "Windows", other, exit_code=1)["error"]["message"] == "is for another machine"


def test_a_finder_for_further_suffixes(tmp_path: Path) -> None:
    code = """
import importlib.machinery, os, torch
details = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES + [".dylib"])
finder = importlib.machinery.FileFinder(os.path.dirname(__file__), details)
torch.ops.load_library(finder.find_spec("libops").origin)
if finder.find_spec("libother") is not None:
    raise ImportError("there is none")
"""
    files: dict[str, str | bytes] = {"pkg/__init__.py": code, "pkg/libops.dylib": image("loads.so")}
    found = checked(tmp_path, "macOS", files, exit_code=0)
    assert found["libraries"][0]["path"] == "pkg/libops.dylib"


@pytest.mark.parametrize(("suffix", "code"), [(".cp311-win_amd64.pyd", 0), (".cp312-win_amd64.pyd", 1), (".pyd", 0)])
def test_a_module_is_for_the_python_in_its_name(tmp_path: Path, suffix: str, code: int) -> None:
    files: dict[str, str | bytes] = {
        "pkg/__init__.py": "import torch\nfrom . import _C\n",
        f"pkg/_C{suffix}": image("loads.pyd"),
    }
    checked(tmp_path, "Windows", files, exit_code=code)


@pytest.mark.parametrize(("system", "code"), [("Windows", 0), ("macOS", 1)])
def test_what_is_required_on_one_system_is_not_there_on_others(tmp_path: Path, system: str, code: int) -> None:
    source = LOAD + "try:\n    import helper\nexcept ImportError:\n    helper = None\n"
    source += "if helper is None:\n    raise RuntimeError('no helper')\n"
    files = of(system, "loads", source)
    members = {name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
    requires = "torch==2.13.0\nRequires-Dist: helper; sys_platform == 'win32'"
    wheel = package(tmp_path, members, requires, platform=PLATFORMS[system])
    assert run("check", wheel, "--torch", "2.13.0").exit_code == code


@systems
def test_matrix(tmp_path: Path, system: str) -> None:
    suffix = MODULES[system]
    files = {"pkg/__init__.py": LOAD.format(suffix).encode(), f"pkg/_C.{suffix}": image(f"missing_symbol.{suffix}")}
    wheel = package(tmp_path, files, platform=PLATFORMS[system])
    printed = run("matrix", wheel, "--torch", ">=2.12", "--format", "json")
    document = json.loads(printed.stdout)
    validate(document, "matrix")
    (row,) = document["packages"]
    assert {release["verdict"] for release in row["releases"].values()} == {"import-fails"}


def test_a_torch_that_does_not_exist_there_is_left_out(tmp_path: Path) -> None:
    wheel = package(tmp_path, of_bytes("loads"), platform="win_amd64")
    printed = run("check", wheel, "--torch", ">=2.8,<2.9.1")
    assert printed.exit_code == 0, printed.output
    assert "no build of torch 2.8.0 for Windows on x86_64 among the embedded ones" in " ".join(printed.output.split())
    # What comes after it is checked.
    other = SAMPLES / "wheels" / "abiscan_sample-1.0-py3-none-linux_x86_64.whl"
    printed = run("check", wheel, other, "--torch", ">=2.8,<2.9.1", "--format", "json")
    of_other = [item["torch"] for item in json.loads(printed.stdout)["packages"] if item["target"] == str(other)]
    assert of_other == ["2.8.0", "2.9.0"]


def of_bytes(kind: str) -> dict[str, bytes]:
    files = of("Windows", kind, LOAD)
    return {name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
