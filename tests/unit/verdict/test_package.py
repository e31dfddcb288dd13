"""The verdict on a package: what its Python code does with its libraries, in one process of one torch."""

from __future__ import annotations

import ctypes
import dataclasses
import io
import json
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click.testing
import pytest
from msgspec.structs import replace

import abiscan
from abiscan.cli import main
from abiscan.extension.examined import ExaminedExtension
from abiscan.inputs import build_tools
from abiscan.inputs.interpreter import Interpreter, PythonTag
from abiscan.inputs.package_files import Package, of_folder
from abiscan.python import reading
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer, ImportOutcome, PythonLine, Raised
from abiscan.results.package import PackageResult
from abiscan.verdict import package_reading, world
from tests.elf_builder import Elf, exports, uses
from tests.fakes import SAMPLES, extension, install, package_wheel, python_of, torch_package, wheel
from tests.schemas import validate

GOOD = extension()
LOADING = SAMPLES / "loads" / "loads.so"
"""Defines an operator in the namespace ``abiscan_loads``."""
BAD = extension(undefined=uses("_ZN2at4goneEv"))
GONE = "pkg/_C.so: undefined symbol: _ZN2at4goneEv"
LOAD = "import torch\nfrom pathlib import Path\ntorch.ops.load_library(str(Path(__file__).parent / '_C.so'))\n"
GUARDED = """
import warnings, torch
from pathlib import Path
try:
    torch.ops.load_library(str(Path(__file__).parent / "_C.so"))
except OSError as error:
    warnings.warn(f"no extension: {error}")
"""


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    """A torch 9.9.0 on this machine."""
    return torch_package(tmp_path / "site")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


def result(torch: Path | str, wheels: Path, objects: Mapping[str, Elf], files: Mapping[str, str]) -> PackageResult:
    (found,) = abiscan.check(package_wheel(wheels, "pkg", objects, files=files), torch).packages
    return found


def run(*words: str | Path) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, list(map(str, words)))


def document(*words: str | Path) -> Any:
    found = json.loads(run("check", *words, "--format", "json").stdout)
    validate(found, "check")
    return found


def test_what_loads_works(torch: Path, wheels: Path) -> None:
    found = result(torch, wheels, {"pkg/_C.so": GOOD}, {"pkg/__init__.py": LOAD})
    assert str(found) == "pkg 1.0 on torch 9.9.0+cpu: works"
    (library,) = found.libraries
    assert (library.path, library.loaded_at, library.how.value, library.used) == (
        "pkg/_C.so",
        "pkg/__init__.py:3",
        "import",
        True,
    )


def test_benchmarks_in_the_wheel_are_not_the_package(torch: Path, wheels: Path) -> None:
    benchmark = "import pkg\n" + LOAD.replace("'_C.so'", "'../pkg/_C.so'")
    files = {
        "pkg/__init__.py": "",
        "pkg/ops.py": LOAD,
        "benchmarks/bench.py": benchmark,
        "pkg_extra/__init__.py": LOAD,
        "pkg-1.0.dist-info/top_level.txt": "benchmarks\npkg\npkg_extra\n",
    }
    found = result(torch, wheels, {"pkg/_C.so": BAD, "pkg_extra/_C.so": GOOD}, files)
    assert found.module == "pkg"
    assert [module.name for module in found.modules] == ["pkg", "pkg_extra", "pkg.ops", "benchmarks"]
    # The benchmark would load it by "import", as if the package did.
    assert {library.path: library.how.value for library in found.libraries} == {
        "pkg/_C.so": "on-demand",
        "pkg_extra/_C.so": "import",
    }


def test_benchmarks_are_not_a_package_that_goes_by_another_name(torch: Path, wheels: Path) -> None:
    files = {
        "benches/bench.py": "import nothing_that_is_installed\nimport other\n",
        "other/__init__.py": LOAD,
        "other/core.py": "",
    }
    found = result(torch, wheels, {"other/_C.so": GOOD}, files)
    assert (found.module, found.verdict.value) == ("other", "works")
    assert [module.name for module in found.modules] == ["other", "benches"]


def test_an_extension_that_users_import_is_in_no_line_of_the_package(torch: Path, wheels: Path) -> None:
    files = {"pkg/__init__.py": "import _core\n", "pkg-1.0.dist-info/top_level.txt": "_core\npkg\n"}
    tagged = "_core.cpython-311-x86_64-linux-gnu.so"
    core = extension(undefined=uses("_ZN2at4goneEv"), defined=exports("PyInit__core"))
    found = result(torch, wheels, {tagged: core}, files)
    assert found.error is not None
    assert (found.error.file, found.error.line) == ("pkg/__init__.py", 1)
    main, own = found.modules
    assert (main.name, main.error) == ("pkg", found.error)
    assert own.error is not None
    assert (own.name, own.error.file, own.error.line) == ("_core", None, None)


def test_without_a_folder_of_libraries_every_module_is_imported(torch: Path, wheels: Path) -> None:
    files = {"one/__init__.py": "", "two/__init__.py": "import _C\n"}
    found = result(torch, wheels, {"_C.so": BAD}, files)
    assert found.module == "one"
    assert [(module.name, module.verdict.value) for module in found.modules] == [
        ("one", "works"),
        ("two", "import-fails"),
    ]
    assert found.summary.startswith("import two fails - ImportError: ")


def test_the_error_is_that_of_torch_with_that_of_the_loader_behind_it(torch: Path, wheels: Path) -> None:
    error = result(torch, wheels, {"pkg/_C.so": BAD}, {"pkg/__init__.py": LOAD}).error
    assert error is not None
    assert (error.exception, error.message) == ("OSError", "Could not load this library: pkg/_C.so")
    assert (error.file, error.line, error.cause) == ("pkg/__init__.py", 3, GONE)


def test_before_2_9_the_error_is_that_of_the_loader(wheels: Path) -> None:
    error = result("2.8.0", wheels, {"pkg/_C.so": BAD}, {"pkg/__init__.py": LOAD}).error
    assert error is not None
    assert (error.exception, error.message, error.cause) == ("OSError", GONE, None)


CAUGHT = "found = True\n" + LOAD.replace("torch.ops", "try:\n    torch.ops") + "except OSError:\n    found = False\n"


@pytest.mark.parametrize(
    ("then", "cause"),
    [
        ("if not found:\n    raise RuntimeError('no extension')\n", GONE),
        ("raise RuntimeError('this system is too old')\n", None),
        ("from .ops import nothing\n", None),
    ],
    ids=["follows", "raised-in-any-case", "missing-name"],
)
def test_a_load_that_failed_before_is_the_cause_only_of_what_follows_from_it(
    torch: Path, wheels: Path, then: str, cause: str | None
) -> None:
    files = {"pkg/__init__.py": CAUGHT + then, "pkg/ops.py": ""}
    error = result(torch, wheels, {"pkg/_C.so": BAD}, files).error
    assert error is not None
    assert error.cause == cause


def test_an_import_raises_an_import_error(torch: Path, wheels: Path) -> None:
    code = "import torch\nfrom . import _C\n"
    error = result(torch, wheels, {"pkg/_C.so": BAD}, {"pkg/__init__.py": code}).error
    assert error is not None
    assert (error.exception, error.message, error.line) == ("ImportError", GONE, 2)


def test_a_package_goes_on_without_an_optional_library(torch: Path, wheels: Path) -> None:
    found = result(torch, wheels, {"pkg/_C.so": BAD}, {"pkg/__init__.py": GUARDED})
    assert str(found) == "pkg 1.0 on torch 9.9.0+cpu: works without pkg/_C.so (with a warning)"
    (library,) = found.without
    assert (library.how.value, library.error) == ("guarded", GONE)


def test_the_library_for_this_torch_counts(wheels: Path) -> None:
    code = """
import os, torch
version = ".".join(torch.__version__.split(".")[:2])
folder = os.path.join(os.path.dirname(__file__), "torch-" + version)
if not os.path.exists(folder):
    raise ImportError(f"no build for torch {version}")
torch.ops.load_library(os.path.join(folder, "lib.so"))
"""
    objects = {"pkg/torch-2.8/lib.so": GOOD, "pkg/torch-2.9/lib.so": BAD}
    found = result("2.8.0", wheels, objects, {"pkg/__init__.py": code})
    assert found.verdict.value == "works"
    assert [(library.path, library.used) for library in found.libraries] == [
        ("pkg/torch-2.8/lib.so", True),
        ("pkg/torch-2.9/lib.so", False),
    ]
    absent = result("2.7.0", wheels, objects, {"pkg/__init__.py": code}).error
    assert absent is not None
    assert (absent.exception, absent.message) == ("ImportError", "no build for torch 2.7")


def test_what_is_loaded_first_is_there_for_what_needs_it(torch: Path, wheels: Path) -> None:
    """Without a search path that leads to it."""
    objects = {
        "pkg/lib/libpart.so": extension(soname="libpart.so", defined=exports("of_part")),
        "pkg/_C.so": extension(needed=("libtorch_cpu.so", "libpart.so"), undefined=uses("of_part")),
    }
    code = "import ctypes, torch\nfrom pathlib import Path\nfolder = Path(__file__).parent\n"
    code += "ctypes.CDLL(str(folder / 'lib' / 'libpart.so'))\nfrom . import _C\n"
    found = result(torch, wheels, objects, {"pkg/__init__.py": code})
    assert found.verdict.value == "works"


def test_a_part_that_fails_alone_is_judged_within_what_needs_it(torch: Path, wheels: Path) -> None:
    objects = {
        "pkg/lib/libpart.so": extension(soname="libpart.so", undefined=uses("of_the_other")),
        "pkg/lib/libother.so": extension(soname="libother.so", defined=exports("of_the_other")),
        "pkg/_C.so": extension(needed=("libtorch_cpu.so", "libpart.so", "libother.so"), runpath="$ORIGIN/lib"),
    }
    wheel = package_wheel(wheels, "pkg", objects, files={"pkg/__init__.py": "import torch\nfrom . import _C\n"})
    report = abiscan.check(wheel, torch)
    verdicts = {file.path: file.verdict.value for file in report.results}
    assert verdicts == {"pkg/_C.so": "loads", "pkg/lib/libother.so": "loads", "pkg/lib/libpart.so": "fails"}
    assert [package.verdict.value for package in report.packages] == ["works"]
    assert report.exit_code(abiscan.Effect.CORRUPTS, strict=False) == 0
    reason = "  = pkg/lib/libpart.so fails by itself, and loads within a library that needs it\n"
    assert reason in run("check", wheel, "--torch", torch).stdout


def test_a_library_that_this_machine_lacks_is_unknown(torch: Path, wheels: Path) -> None:
    needy = extension(needed=("libtorch_cpu.so", "libvendor.so.1"))
    wheel = package_wheel(wheels, "pkg", {"pkg/_C.so": needy}, files={"pkg/__init__.py": LOAD})
    done = run("check", "-q", wheel, "--torch", torch)
    assert (done.exit_code, done.stdout) == (
        3,
        "pkg 1.0 on torch 9.9.0+cpu: unknown - it needs libvendor.so.1, which this machine does not have\n",
    )
    # Against a release number, nothing says that it is not there.
    done = run("check", "-q", wheel, "--torch", "2.9.1")
    assert (done.exit_code, done.stdout) == (
        0,
        "pkg 1.0 on torch 2.9.1+cu128: works, if libvendor.so.1 is there\n",
    )
    assert run("check", wheel, "--torch", "2.9.1", "--strict").exit_code == 1
    assert run("check", "--each-file", wheel, "--torch", torch).exit_code == 0


def test_a_library_of_a_package_that_is_yet_to_be_installed_is_not_lacking(torch: Path, wheels: Path) -> None:
    needy = extension(needed=("libtorch_cpu.so", "libvendor.so.1"))
    files = {"pkg/__init__.py": LOAD, "pkg-1.0.dist-info/METADATA": "Name: pkg\nVersion: 1.0\nRequires-Dist: vendor\n"}
    folder = wheels / "unpacked"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    needy.write(folder / "pkg" / "_C.so")
    (found,) = abiscan.check(folder, torch).packages
    assert found.summary == "works, once libvendor.so.1 is there"
    (condition,) = found.conditions
    assert (condition.kind.value, condition.name, condition.met) == ("library", "libvendor.so.1", False)
    assert condition.why == "pkg/_C.so needs libvendor.so.1; vendor, which the package requires, is not installed here"


def test_a_package_that_is_installed_without_what_it_requires_goes_without(torch: Path) -> None:
    files = {"pkg/__init__.py": LOAD, "pkg-1.0.dist-info/METADATA": "Name: pkg\nVersion: 1.0\nRequires-Dist: vendor\n"}
    for name, text in files.items():
        (torch.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (torch.parent / name).write_text(text, encoding="utf-8")
    extension(needed=("libtorch_cpu.so", "libvendor.so.1")).write(torch.parent / "pkg" / "_C.so")
    (found,) = abiscan.check(torch.parent / "pkg", torch).packages
    assert found.summary == "unknown - it needs libvendor.so.1, which this machine does not have"


def test_an_import_that_fails_with_and_without_a_library_fails_here_for_want_of_it(torch: Path, wheels: Path) -> None:
    """As ``ld.so`` says, and not for what comes after it; before it, the code goes on without another one."""
    objects = {
        "pkg/_C.so": extension(needed=("libtorch_cpu.so", "libvendor.so.1")),
        "pkg/_D.so": extension(needed=("libtorch_cpu.so", "libother.so.2")),
    }
    code = "try:\n    from . import _D\nexcept ImportError:\n    pass\nfrom . import _C\nraise ValueError('later')\n"
    error = result(torch, wheels, objects, {"pkg/__init__.py": code}).error
    lacking = "libvendor.so.1: cannot open shared object file: No such file or directory"
    assert str(error) == f"ImportError: {lacking} (pkg/__init__.py:5)"


def test_a_library_at_a_path_that_is_not_known_does_not_make_an_import_fail(torch: Path, wheels: Path) -> None:
    """The import does not load it, a submodule may; what its own file comes to is not what the package comes to."""
    files = {"pkg/__init__.py": "", "pkg/ops.py": "import torch, helper\ntorch.ops.load_library(helper.find('_C'))\n"}
    found = result(torch, wheels, {"pkg/_C.so": BAD}, files)
    assert (found.verdict.value, found.error) == ("works-without", None)
    assert [library.loaded_at for library in found.without] == ["pkg/ops.py:2"]


@pytest.mark.parametrize(("name", "is_listed"), [("testing", True), ("tests", False), ("test_ops", False)])
def test_submodules_with_a_library_are_listed_unless_they_are_tests(
    name: str, is_listed: bool, torch: Path, wheels: Path
) -> None:
    """Users import what helps them to test their own code; the tests of a package, its developers run."""
    files = {"pkg/__init__.py": "", f"pkg/{name}/__init__.py": LOAD.replace("_C", "../_C")}
    found = result(torch, wheels, {"pkg/_C.so": BAD}, files)
    assert found.verdict.value == "works-without"
    assert [module.name for module in found.modules] == ["pkg", *[f"pkg.{name}"] * is_listed]


def test_what_a_submodule_loads_before_it_fails_is_on_demand(torch: Path, wheels: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/ops.py": LOAD + "raise ValueError('later')\n"}
    found = result(torch, wheels, {"pkg/_C.so": BAD}, files)
    assert found.verdict.value == "works-without"
    _, module = found.modules
    assert str(module.error) == "OSError: Could not load this library: pkg/_C.so (pkg/ops.py:3)"


def with_operator(wheels: Path, code: str) -> PackageResult:
    """The verdict on a package with a library that defines an operator, on torch 2.13.0."""
    sample = LOADING.read_bytes()
    wheel = wheels / "pkg-1.0-py3-none-linux_x86_64.whl"
    wheels.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pkg/__init__.py", code)
        archive.writestr("pkg/_C.so", sample)
        archive.writestr("pkg-1.0.dist-info/METADATA", "Name: pkg\nVersion: 1.0\n")
    (found,) = abiscan.check(wheel, "2.13.0").packages
    return found


def test_operators_of_the_package_are_not_there_before_it_loads_them(wheels: Path) -> None:
    """As deepmd-kit asks, which does not load its library a second time."""
    code = "import torch\nif hasattr(torch.ops.abiscan_loads, 'double_it'):\n    raise RuntimeError('there')\n"
    found = with_operator(wheels, code + LOAD)
    assert (found.verdict.value, found.conditions) == ("works", ())


def test_whose_namespace_it_is_the_smallest_library_tells(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    """Real torch has no such operator before a library that defines it is loaded."""
    asked: list[str] = []
    defined_by = world._defined_by

    def noting(examined: ExaminedExtension) -> Iterator[str]:
        asked.append(examined.path)
        return defined_by(examined)

    monkeypatch.setattr(world, "_defined_by", noting)
    code = "import torch\nif hasattr(torch.ops.abiscan_loads, 'double_it'):\n    raise RuntimeError('there')\n"
    sample = LOADING.read_bytes()
    libraries = {"pkg/_C.so": sample + bytes(len(sample)), "pkg/small.so": sample, "pkg/unlike.so": GOOD.build()}
    files = {"pkg/__init__.py": code + LOAD, "pkg-1.0.dist-info/METADATA": "Name: pkg\nVersion: 1.0\n"}
    members = libraries | {path: content.encode() for path, content in files.items()}
    path = wheel(wheels / "pkg-1.0-py3-none-linux_x86_64.whl", members)
    (found,) = abiscan.check(path, "2.13.0").packages
    assert found.verdict.value == "works"
    assert {name.rpartition("/")[2] for name in asked} == {"small.so", "unlike.so"}


def test_an_operator_of_the_package_that_is_called_with_too_much(wheels: Path) -> None:
    """The words are those of torch 2.13.0."""
    found = with_operator(wheels, LOAD + "def twice(x):\n    return torch.ops.abiscan_loads.double_it(x, x)\n")
    (finding,) = found.findings
    assert finding.says == "abiscan_loads::double_it() expected at most 1 argument(s) but received 2 argument(s)."


def test_a_library_that_is_cut_off_fails_as_the_loader_says(torch: Path, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text(LOAD, encoding="utf-8")
    (tmp_path / "pkg" / "_C.so").write_bytes(GOOD.build()[:200])
    with pytest.raises(OSError, match=r"_C\.so: ") as raised:
        ctypes.CDLL(str(tmp_path / "pkg" / "_C.so"))
    words = str(raised.value).removeprefix(f"{tmp_path}/")
    done = run("check", tmp_path / "pkg", "--torch", torch)
    assert done.exit_code == 1
    assert "pkg on torch 9.9.0+cpu: import fails - OSError: Could not load this library: pkg/_C.so" in done.stdout
    assert words in done.stdout


def test_the_first_library_that_is_not_found_is_named(torch: Path, wheels: Path) -> None:
    """An external one too, where it comes before the library of torch that decides."""
    needy = extension(needed=("libvendor.so.1", "libtorch_cuda.so", "libtorch_cpu.so"))
    error = result(torch, wheels, {"pkg/_C.so": needy}, {"pkg/__init__.py": LOAD}).error
    assert error is not None
    assert error.cause == "libvendor.so.1: cannot open shared object file: No such file or directory"


def test_an_initialiser_that_ends_the_process(wheels: Path) -> None:
    """The sample registers a class that no library has."""
    from tests.fakes import SAMPLES

    sample = SAMPLES / "class_of_another"
    folder = wheels / "pkg"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "import torch\nfrom pathlib import Path\nfor name in ('libabiscan_provider.so', '_C.so'):\n"
        "    torch.ops.load_library(str(Path(__file__).parent / name))\n",
        encoding="utf-8",
    )
    Elf(soname="libabiscan_provider.so").write(folder / "libabiscan_provider.so")
    (folder / "_C.so").write_bytes((sample / "abiscan_user.so").read_bytes())
    (found,) = abiscan.check(folder, "2.13.0").packages
    assert found.verdict.value == "import-fails"
    assert found.error is not None
    assert (found.error.how.value, found.error.exception) == ("aborts", None)
    assert "Unknown custom class type abiscan_provider.Thing" in (found.error.message or "")


def test_exit_codes_follow_the_package_unless_each_file_is_asked_for(torch: Path, wheels: Path) -> None:
    objects = {"pkg/_C.so": BAD, "pkg/never.cpython-27-x86_64-linux-gnu.so": BAD}
    wheel = package_wheel(wheels, "pkg", objects, files={"pkg/__init__.py": GUARDED})
    assert run("check", wheel, "--torch", torch).exit_code == 0
    assert run("check", wheel, "--torch", torch, "--each-file").exit_code == 1
    assert run("check", wheel, "--torch", torch, "--fail-on", "note").exit_code == 1
    found = document(wheel, "--torch", torch)
    assert [package["verdict"] for package in found["packages"]] == ["works-without"]
    assert {file["verdict"] for file in found["results"]} == {"fails"}
    assert document(wheel, "--torch", torch, "--each-file")["packages"] == []


def test_what_many_libraries_share_is_said_once(torch: Path, wheels: Path) -> None:
    objects = {f"pkg/_{letter}.so": BAD for letter in "abcdefgh"}
    code = "import torch\n"
    code += "".join(f"try:\n    from . import _{x}\nexcept ImportError:\n    pass\n" for x in "abcdefgh")
    wheel = package_wheel(wheels, "pkg", objects, files={"pkg/__init__.py": code})
    text = run("check", wheel, "--torch", torch).stdout
    assert text.count("[undefined-symbol]") == text.count("at::gone()\n") - 3 == 1
    assert "  = 8 files: pkg/_a.so, pkg/_b.so, pkg/_c.so, pkg/_d.so, and 4 more\n" in text
    assert "_ZN2at4goneEv" not in text
    assert "_ZN2at4goneEv" in run("check", "-v", wheel, "--torch", torch).stdout


def test_a_suppressed_cause_does_not_fail(torch: Path, wheels: Path, tmp_path: Path, monkeypatch: Any) -> None:
    wheel = package_wheel(wheels, "pkg", {"pkg/_C.so": BAD}, files={"pkg/__init__.py": LOAD})
    assert run("check", wheel, "--torch", torch).exit_code == 1
    suppression = '{rule = "undefined-symbol", target = "*_C.so", reason = "known", until = 2999-01-01}'
    (tmp_path / "pyproject.toml").write_text(f"[tool.abiscan]\nsuppress = [{suppression}]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = run("check", wheel, "--torch", torch)
    assert done.exit_code == 0
    assert "import fails" in done.stdout
    assert "suppressed[undefined-symbol]" in done.stdout


def test_a_package_none_of_whose_libraries_uses_torch(torch: Path, wheels: Path) -> None:
    code = "import torch\nfrom . import _C\n"
    wheel = package_wheel(wheels, "pkg", {"pkg/_C.so": Elf()}, files={"pkg/__init__.py": code})
    done = run("check", wheel, "--torch", torch)
    assert (done.exit_code, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith("pkg 1.0 on torch 9.9.0+cpu: works")


def test_libraries_that_lack_another_one_are_said_to_where_none_uses_torch(torch: Path, wheels: Path) -> None:
    objects = {f"pkg/lib{name}.so": Elf(needed=("libvendor.so.1",)) for name in "ab"}
    found = result(torch, wheels, objects, {"pkg/__init__.py": "import torch\n"})
    lacking = "but some need libvendor.so.1, which this machine does not have"
    assert found.summary == f"works: none of its libraries uses torch, {lacking}"


def test_the_end_of_the_process_depends_on_a_library_whose_absence_is_caught(torch: Path, wheels: Path) -> None:
    """As torchcodec tries one version of FFmpeg after the other, each with a library of its own."""
    from tests.fakes import SAMPLES

    (wheels / "pkg").mkdir(parents=True)
    names = ("libabiscan_provider.so", "_C.so")
    code = f"import torch\nfrom pathlib import Path\ntry:\n    for name in {names}:\n"
    code += "        torch.ops.load_library(str(Path(__file__).parent / name))\n"
    code += "    found = True\nexcept OSError:\n    found = False\nif not found:\n    raise RuntimeError('no FFmpeg')\n"
    (wheels / "pkg" / "__init__.py").write_text(code, encoding="utf-8")
    Elf(soname=names[0], needed=("libavutil.so.59",)).write(wheels / "pkg" / names[0])
    (wheels / "pkg" / names[1]).write_bytes((SAMPLES / "class_of_another" / "abiscan_user.so").read_bytes())
    (found,) = abiscan.check(wheels / "pkg", "2.13.0").packages
    assert found.needs == ("libavutil.so.59",)
    assert found.summary.startswith("import fails where libavutil.so.59 can be found - the process ends: ")
    (here,) = abiscan.check(wheels / "pkg", torch).packages
    assert str(here.error) == "RuntimeError: no FFmpeg (pkg/__init__.py:10)"


def test_files_that_no_code_names_are_judged_alone(torch: Path, wheels: Path) -> None:
    """Users load such a file themselves."""
    wheel = package_wheel(wheels, "pkg", {"pkg/_C.so": BAD}, files={"pkg/__init__.py": "version = 1\n"})
    report = abiscan.check(wheel, torch)
    assert report.packages == ()
    assert report.exit_code(abiscan.Effect.CORRUPTS, strict=False) == 1


@pytest.mark.parametrize("form", ["sarif", "junit", "github", "markdown"])
def test_every_view_shows_the_package(form: str, torch: Path, wheels: Path) -> None:
    wheel = package_wheel(wheels, "pkg", {"pkg/_C.so": BAD}, files={"pkg/__init__.py": LOAD})
    done = run("check", wheel, "--torch", torch, "--format", form)
    assert done.exit_code == 1
    assert "Could not load this library: pkg/_C.so" in done.stdout


def test_builds_of_a_release_share_a_column(wheels: Path) -> None:
    needs_cuda = extension(needed=("libtorch_cpu.so", "libtorch_cuda.so"))
    wheel = package_wheel(wheels, "pkg", {"pkg/_C.so": needs_cuda}, files={"pkg/__init__.py": LOAD})
    words = ("matrix", wheel, "--torch", "2.12.0", "--torch", "2.13.0", "--torch", "2.13.0+cu130")
    done = run(*words, "--format", "json")
    found = json.loads(done.stdout)
    validate(found, "matrix")
    (package,) = found["packages"]
    assert {release: cell["verdict"] for release, cell in package["releases"].items()} == {
        "2.12.0": "works",
        "2.13.0": "works",
    }
    assert {build: cell["verdict"] for build, cell in package["releases"]["2.13.0"]["builds"].items()} == {
        "2.13.0+cpu": "import-fails",
        "2.13.0+cu130": "works",
    }
    assert done.exit_code == 0
    text = run(*words).stdout
    assert "✓ CUDA" in text
    assert "works on torch 2.12.0-2.13.0 (torch>=2.12)" in text


@pytest.mark.slow
def test_metadata_are_compared_with_where_the_package_can_be_imported(wheels: Path) -> None:
    """Its libraries for other torches fail, and nothing is wrong with that; a fact about the wheel is said once."""
    versions = ("2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")
    code = (
        "import os, torch\nversion = '.'.join(torch.__version__.split('.')[:2])\n"
        "torch.ops.load_library(os.path.join(os.path.dirname(__file__), 'torch-' + version, 'lib.so'))\n"
    )
    symbol = "_ZN3c1019UndefinedTensorImpl10_singletonE"
    objects = {f"pkg/torch-{version}/lib.so": extension(undefined=uses(symbol)) for version in versions}
    metadata = "Name: pkg\nVersion: 1.0\nRequires-Dist: torch{}\n"
    for requirement, code_of_exit in ((">=2.8", 0), (">=2.7", 1)):
        folder = wheels / requirement
        files = {"pkg/__init__.py": code}
        wheel = package_wheel(folder, "pkg", objects, files=files)
        _replace(wheel, "pkg-1.0.dist-info/METADATA", metadata.format(requirement))
        done = run("check", wheel, "--torch", "declared", "--format", "json")
        (package,) = json.loads(done.stdout)["packages"]
        assert (done.exit_code, package["verdict"]) == (code_of_exit, "works")
        assert len(package["findings"]) == code_of_exit


def _replace(wheel: Path, member: str, text: str) -> None:
    import zipfile

    with zipfile.ZipFile(wheel) as old:
        members = {name: old.read(name) for name in old.namelist()}
    members[member] = text.encode()
    with zipfile.ZipFile(wheel, "w") as new:
        for name, data in members.items():
            new.writestr(name, data)


def test_a_folder_is_a_package_if_it_has_an_init_file(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    assert of_folder(tmp_path / "pkg") is None
    (tmp_path / "pkg" / "__init__.py").touch()
    package = of_folder(tmp_path / "pkg")
    assert package is not None
    assert (package.name, package.root, package.members) == ("pkg", str(tmp_path), ("pkg/__init__.py",))


@pytest.mark.parametrize(("runpath", "is_noted"), [("", True), ("$ORIGIN", False), ("$ORIGIN/lib", True)])
def test_a_single_file_is_taken_to_find_what_lies_next_to_it_with_a_note(
    runpath: str, is_noted: bool, torch: Path, tmp_path: Path
) -> None:
    Elf(soname="libbeside.so").write(tmp_path / "libbeside.so")
    file = extension(needed=("libtorch_cpu.so", "libbeside.so"), runpath=runpath).write(tmp_path / "_C.so")
    (found,) = abiscan.check(file, torch).results
    notes = [one.message for one in found.findings if one.rule == "missing-library"]
    assert found.verdict.value == "loads"
    assert bool(notes) is is_noted
    assert all("_C.so needs libbeside.so, which lies next to it, but no RPATH" in note for note in notes)


@pytest.mark.parametrize(
    ("module", "installed", "certain"),
    [("absent", False, True), ("absent", Answer.UNKNOWN, False), ("absent.part", False, False)],
)
def test_code_alone_fails_for_a_package_only_where_it_is_known_not_to_be_installed(
    module: str, installed: bool | Answer, certain: bool
) -> None:
    raised = Raised(
        exception="ModuleNotFoundError", message=f"No module named '{module}'", at=PythonLine(file="pkg.py", line=1)
    )
    outcome = ImportOutcome(module="pkg", raised=raised, loads=(), registrations=(), conditions=(), gaps=())
    sure = package_reading._sure(outcome, Surroundings(installed=lambda _name: installed))
    assert (sure == outcome, sure.raised is Answer.UNKNOWN) == (certain, not certain)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("os.abort()", "SIGABRT in os.abort() (pkg/__init__.py:5)"),
        ("os._exit(0)", "os._exit(0) (pkg/__init__.py:5)"),
        ("exec('os.kill(os.getpid(), 9)')", "SIGKILL (pkg/__init__.py:5)"),
    ],
)
def test_an_import_that_ends_the_process_fails(code: str, says: str, tmp_path: Path) -> None:
    from tests.fakes import SAMPLES

    (tmp_path / "pkg").mkdir()
    loads = "import os, torch\ntry:\n    torch.ops.load_library(os.path.join(os.path.dirname(__file__), '_C.so'))\n"
    (tmp_path / "pkg" / "__init__.py").write_text(f"{loads}finally:\n    {code}\n", encoding="utf-8")
    (tmp_path / "pkg" / "_C.so").write_bytes((SAMPLES / "loads" / "loads.so").read_bytes())
    (package,) = abiscan.check(tmp_path / "pkg", "2.13.0").packages
    assert package.error is not None
    assert package.error.exception is None
    assert package.summary == f"import fails - the process ends: {says}"


@pytest.mark.parametrize("torch", ["2.5.0", "2.6.0"])
def test_what_torch_once_imported_from_typing(torch: str, wheels: Path) -> None:
    """As in aqlm 1.1.6 (Vahe1994/AQLM#136): TorchScript has the name as a text, and no attribute is called so."""
    files = {"pkg/__init__.py": "import torch\ndef f(x: torch.Any): ...\n"}
    wheel = package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any")
    (found,) = abiscan.check(wheel, torch).packages
    assert found.error
    assert found.error.message == "module 'torch' has no attribute 'Any'"
    assert abiscan.check(wheel, "2.4.0").packages[0].verdict.value == "works"


def test_a_module_of_torch_that_came_later(wheels: Path) -> None:
    files = {"pkg/__init__.py": "import torch\ntorch.library.custom_op\n"}
    wheel = package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any")
    (old,) = abiscan.check(wheel, "1.11.0").packages
    assert old.error
    assert old.error.message == "module 'torch' has no attribute 'library'"


@pytest.mark.parametrize(
    ("operator", "torch", "missing"),
    [
        ("prod.dim_Dimname", "2.12.0", None),
        # An operator is a function of pybind11 there, with whatever overloads.
        ("prod.dim_Dimname", "1.10.2", "'builtin_function_or_method' object has no attribute 'dim_Dimname'"),
        ("prod.default", "1.11.0", "'builtin_function_or_method' object has no attribute 'default'"),
        ("prod.dim_Dimname", "2.13.0", "The underlying op of 'aten.prod' has no overload name 'dim_Dimname'"),
        ("bitwise_and.default", "2.13.0", "The underlying op of 'aten.bitwise_and' has no overload name 'default'"),
        ("add.default", "2.13.0", None),  # of TorchScript alone
        # TorchScript had it before the dispatcher.
        ("is_contiguous.default", "2.6.0", None),
        ("is_contiguous", "2.13.0", None),
        ("sym_is_contiguous", "2.9.0", None),
        ("gone", "1.11.0", "No such operator aten::gone"),
        ("gone", "1.12.1", "'_OpNamespace' object has no attribute 'gone'"),
        ("sym_is_contiguous", "2.6.0", "'_OpNamespace' 'aten' object has no attribute 'sym_is_contiguous'"),
    ],
)
def test_operators_of_torch(wheels: Path, operator: str, torch: str, missing: str | None) -> None:
    files = {"pkg/__init__.py": f"import torch\ntorch.ops.aten.{operator}\n"}
    wheel = package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any")
    (found,) = abiscan.check(wheel, torch).packages
    assert (found.error and found.error.message) == missing


@pytest.mark.parametrize(("required", "warns"), [("torch-npu==2.5.1", False), ("numpy", True)])
def test_the_kernels_of_a_backend_that_is_required(wheels: Path, required: str, *, warns: bool) -> None:
    path = package_wheel(wheels, "pkg", {}, files={"pkg/__init__.py": ""}, metadata={"Requires-Dist": required})
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(Path(__file__).parents[3] / "sample_binaries/coverage/backend.so", "pkg/backend.so")
    (found,) = abiscan.check(path, "2.13.0", each_file=True).results
    assert ("missing-kernel" in {finding.rule for finding in found.findings}) is warns


@pytest.mark.parametrize(
    ("required", "name", "torch", "conditions"),
    [
        ("torch-npu==2.5.1", "npu", "2.5.1", ("torch-npu, which is required, brings torch.npu (pkg/__init__.py:2)",)),
        ("torch_mlu", "mlu", "2.6.0", ("torch-mlu, which is required, brings torch.mlu (pkg/__init__.py:2)",)),
        # ``import torch`` loads no backends before 2.5, and nobody requires what "pynput" seems to bring.
        ("torch-npu==2.1.0", "npu", "2.4.1", None),
        ("pynput", "npu", "2.5.1", None),
        ("torch-npu==2.5.1", "accelerator", "2.5.1", None),
    ],
)
def test_what_a_required_package_sets_on_torch(
    wheels: Path, required: str, name: str, torch: str, conditions: tuple[str, ...] | None
) -> None:
    files = {"pkg/__init__.py": f"import torch\ntorch.{name}\n"}
    wheel = package_wheel(wheels, "pkg", {}, files=files, metadata={"Requires-Dist": required}, tag="py3-none-any")
    (found,) = abiscan.check(wheel, torch).packages
    if conditions is None:
        assert found.error
        assert found.error.message == f"module 'torch' has no attribute '{name}'"
    else:
        assert found.error is None
        assert tuple(condition.why for condition in found.conditions) == conditions


@pytest.mark.parametrize(
    ("required", "code", "needs"),
    [
        # laion_clap 1.1.7 does not require torchvision, and its import raises ModuleNotFoundError without it.
        ("numpy", "import torchvision", "torchvision"),
        ("torchvision>=0.15", "import torchvision", None),
        ("timm", "import torchvision", None),
        ("numpy", "try:\n    import torchvision\nexcept ImportError:\n    pass", None),
        ("numpy", "import triton.language", "triton"),  # builds for the CPU do not bring it
        ("numpy", "import PIL", None),
    ],
)
def test_what_a_package_imports_and_does_not_require(wheels: Path, required: str, code: str, needs: str | None) -> None:
    files, metadata = {"pkg/__init__.py": f"import torch\n{code}\n"}, {"Requires-Dist": required}
    (found,) = abiscan.check(
        package_wheel(wheels, "pkg", {}, files=files, metadata=metadata, tag="py3-none-any"), "2.13.0"
    ).packages
    assert found.verdict.value == "works"
    assert [(item.kind.value, item.name, item.met) for item in found.conditions] == (
        [("requirement", needs, None)] if needs else []
    )


def test_files_that_a_newer_torch_refuses(wheels: Path) -> None:
    """As stanza 1.9.2 loads its models (stanfordnlp/stanza#1429)."""
    files = {"pkg/__init__.py": "import torch\ndef load(path):\n    return Model(torch.load(path)['config'])\n"}
    wheel = package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any")
    old, new = (abiscan.check(wheel, release).packages[0] for release in ("2.5.1", "2.6.0"))
    assert (old.verdict.value, old.conditions, new.verdict.value) == ("works", (), "works")
    (condition,) = new.conditions
    assert (condition.kind.value, condition.name) == ("file", "files of tensors and plain values")
    assert condition.why.startswith("pkg/__init__.py:3 leaves it to torch.load")


def test_modules_that_an_older_torch_saved(wheels: Path) -> None:
    """As histocartography 0.2.1 loads its model (BiomedSciAI/histocartography#33)."""
    files = {"pkg/__init__.py": "import torch\ndef load(path):\n    model = torch.load(path)\n    model.eval()\n"}
    wheel = package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any")
    old, new = (abiscan.check(wheel, release).packages[0] for release in ("1.10.2", "1.11.0"))
    assert (old.verdict.value, old.conditions, new.verdict.value) == ("works", (), "works")
    (condition,) = new.conditions
    assert (condition.kind.value, condition.name) == ("file", "modules that torch>=1.11 saved")
    assert "'Upsample' object has no attribute 'recompute_scale_factor'" in condition.why


def test_a_module_that_new_releases_of_setuptools_lack(wheels: Path) -> None:
    files = {"pkg/__init__.py": "import torch\nfrom . import version\n", "pkg/version.py": "import pkg_resources\n"}
    wheel = package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any")
    (found,) = abiscan.check(wheel, "2.8.0").packages
    (condition,) = found.conditions
    assert (found.verdict.value, condition.kind.value, condition.name) == ("works", "requirement", "setuptools<82")
    assert condition.why.startswith("pkg/version.py:1 imports pkg_resources")


@pytest.mark.parametrize(
    ("code", "torch", "noted"),
    [
        ("import torch\n", "2.4.0", ["declared-requirement-wrong"]),  # verl-project/verl#62
        ("import torch\n", "2.5.1", []),
        ("import torch._six\n", "2.4.0", []),
    ],
)
def test_a_torch_that_the_metadata_exclude(code: str, torch: str, noted: list[str], wheels: Path) -> None:
    wheel = package_wheel(wheels, "pkg", {}, files={"pkg/__init__.py": code}, tag="py3-none-any")
    _replace(wheel, "pkg-1.0.dist-info/METADATA", "Name: pkg\nVersion: 1.0\nRequires-Dist: torch (>=2.5.0)\n")
    (found,) = abiscan.check(wheel, torch).packages
    assert [(finding.rule, finding.effect.value) for finding in found.own_findings] == [
        (rule, "note") for rule in noted
    ]
    assert all("excludes torch 2.4.0: pip does not" in finding.message for finding in found.own_findings)


@pytest.mark.parametrize(
    ("version", "torch", "noted"),
    [
        ("3.3.0", "2.6.0", True),  # unslothai/unsloth#2403; METADATA of torch 2.6.0+cu124: triton==3.2.0
        ("3.2.0", "2.6.0", False),
        ("3.3.0", "2.6.0+cpu", False),  # it does not require any
        ("3.3.0", "2.13.0", True),  # which may be 2.13.0+cu130
        ("3.3.0", "1.13.1", False),
        ("unreleased", "2.6.0", False),
    ],
)
def test_a_version_that_torch_does_not_require(version: str, torch: str, noted: bool, wheels: Path) -> None:
    files = {"triton/__init__.py": "from . import _C"}
    wheel = package_wheel(wheels, "triton", {"triton/_C.so": Elf()}, files=files, version=version)
    (found,) = abiscan.check(wheel, torch).packages
    assert [finding.effect.value for finding in found.own_findings] == ["note"] * noted
    required = "3.2.0" if torch == "2.6.0" else "3.7.1"
    assert all(f"requires triton=={required}: pip" in finding.message for finding in found.own_findings)


def test_what_torch_takes_from_a_module_of_setuptools(wheels: Path) -> None:
    """Of 59.8.0 to 82.0.0, 70.0.0 to 70.3.0 fail at ``from pkg_resources import packaging``, and 82.0.0 does."""
    code = "from torch.utils.cpp_extension import load\n"
    wheel = package_wheel(wheels, "pkg", {}, files={"pkg/__init__.py": code}, tag="py3-none-any")
    (condition,) = abiscan.check(wheel, "1.13.1").packages[0].conditions
    assert condition.name == "setuptools<82,!=70.*"
    assert condition.why.endswith("setuptools 70 has no pkg_resources.packaging, and 82.0.0 no pkg_resources")


@pytest.mark.parametrize(("installed", "met"), [(False, False), (Answer.UNKNOWN, None)])
def test_a_required_package_that_is_looked_for(
    installed: bool | Answer, met: bool | None, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the environment is known, it is known what is not there yet."""
    around = Surroundings(installed=lambda _name: installed)
    monkeypatch.setattr(package_reading, "surroundings_of", lambda *_: around)
    files, metadata = {"pkg/__init__.py": "import torch\ntorch.npu\n"}, {"Requires-Dist": "torch-npu"}
    wheel = package_wheel(wheels, "pkg", {}, files=files, metadata=metadata, tag="py3-none-any")
    (found,) = abiscan.check(wheel, "2.5.1").packages
    assert [condition.met for condition in found.conditions] == [met]


@pytest.mark.parametrize(("compiler", "met"), [("", False), ("g++", None)])
def test_what_is_built_here_takes_a_compiler(
    compiler: str, met: bool | None, torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    source = tmp_path / "source"
    (source / "pkg").mkdir(parents=True)
    (source / "pkg" / "__init__.py").write_text("import torch\n", encoding="utf-8")
    (source / "setup.py").write_text(
        "from torch.utils.cpp_extension import CppExtension\nfrom setuptools import setup\nsetup(name='pkg')\n",
        encoding="utf-8",
    )
    (found,) = abiscan.check(source, torch).packages
    assert [(condition.name, condition.met) for condition in found.conditions] == [("what setup.py builds", met)]


def test_a_second_module_of_a_wheel_counts(torch: Path, wheels: Path) -> None:
    """As in nixl-cu13 1.2.0, whose nixl_ep alone uses torch (ai-dynamo/nixl#1798)."""
    files = {"pkg/__init__.py": "from . import _plain\n", "pkg_ep/__init__.py": "import torch\nfrom . import _C\n"}
    objects = {"pkg/_plain.so": Elf(defined=exports("PyInit__plain")), "pkg_ep/_C.so": BAD}
    wheel = package_wheel(wheels, "pkg", objects, files=files)
    found = document(wheel, "--torch", torch)["packages"][0]
    assert (found["module"], found["verdict"]) == ("pkg", "import-fails")
    assert [(module["name"], module["verdict"]) for module in found["modules"]] == [
        ("pkg", "works"),
        ("pkg_ep", "import-fails"),
    ]
    assert found["error"] == found["modules"][1]["error"]
    done = run("check", "-q", wheel, "--torch", torch)
    assert (done.exit_code, done.stdout.partition(" - ")[0]) == (1, "pkg 1.0 on torch 9.9.0+cpu: import pkg_ep fails")
    assert run("matrix", wheel, "--torch", torch).exit_code == 1


@pytest.mark.parametrize("name", ["tests", "test_pkg", "benchmarks", "conftest", "_private", "build_tools"])
def test_modules_that_are_not_for_users_are_listed(name: str, torch: Path, wheels: Path) -> None:
    files = {"pkg/__init__.py": LOAD, f"{name}.py": "import torch\nfrom torch import no_such_name\n"}
    found = result(torch, wheels, {"pkg/_C.so": GOOD}, files)
    assert found.verdict.value == "works"
    assert [module.name for module in found.modules] == ["pkg", name]


GONE_NAME = "import torch\nfrom torch._six import container_abcs\n"
NO_SIX = "ModuleNotFoundError: No module named 'torch._six' (pkg/{}:2)"


@pytest.mark.parametrize(
    ("files", "lost", "raised_at"),
    [
        ({"layers.py": GONE_NAME}, ["pkg.layers"], "layers.py"),
        # As in e2cnn 0.1.9 (QUVA-Lab/e2cnn#44): of a package that fails, its modules are not named.
        (
            {
                "__init__.py": "try:\n    from pkg import nn\nexcept ImportError:\n    pass\n",
                "nn/__init__.py": "from .layers import *\n",
                "nn/layers.py": GONE_NAME,
            },
            ["pkg.nn"],
            "nn/layers.py",
        ),
        # Users import the module that imports a private one.
        (
            {"_old.py": GONE_NAME, "api.py": "from ._old import container_abcs\n", "other.py": "import torch\n"},
            ["pkg.api"],
            "_old.py",
        ),
        ({"more.py": "from .old import x\n", "old.py": GONE_NAME}, ["pkg.old", "pkg.more"], "old.py"),
        ({"old.py": GONE_NAME, "more.py": "try:\n    from . import old\nexcept ImportError:\n    old = None\n"},
         ["pkg.old"], "old.py"),
        ({"guarded.py": "try:\n    from torch._six import inf\nexcept ImportError:\n    inf = 0\n"}, [], ""),
        ({"functions.py": "def f():\n    from torch._six import inf\n    return inf\n"}, [], ""),
        ({"tests/test_all.py": GONE_NAME, "tests/__init__.py": "", "__main__.py": GONE_NAME}, [], ""),
        # What another package brings to torch, where it was imported.
        ({"device.py": "import torch\ntorch.npu.is_available()\n"}, [], ""),
        # Whoever imports this one has what it needs, or sees that it is missing.
        ({"optional.py": "import no_such_package\nno_such_package.x\n"}, [], ""),
    ],
    ids=[
        "submodule", "package", "private", "importer", "guarded-importer", "guarded", "function", "tests", "device",
        "optional",
    ],
)  # fmt: skip
def test_submodules_that_users_import_next(
    files: Mapping[str, str], lost: list[str], raised_at: str, wheels: Path
) -> None:
    code = {f"pkg/{path}": text for path, text in {"__init__.py": "import torch\n", **files}.items()}
    wheel = package_wheel(wheels, "pkg", {}, files=code, tag="py3-none-any")
    (found,) = document(wheel, "--torch", "2.0.0")["packages"]
    assert found["lost_modules"] == lost
    assert (found["verdict"], found["error"]) == ("works-without" if lost else "works", None)
    (package,) = abiscan.check(wheel, "2.0.0").packages
    assert [str(module.error) for module in package.lost] == [NO_SIX.format(raised_at)] * len(lost)
    assert abiscan.check(wheel, "1.8.1").packages[0].verdict.value == "works"


def test_a_submodule_that_imports_a_function_as_a_module(wheels: Path) -> None:
    """As torchsynth 1.0.0, whose report is torchsynth/torchsynth#368: ``torch.tensor`` was a module up to 1.8.1."""
    code = {"pkg/__init__.py": "import torch\n", "pkg/module.py": "import torch.tensor as tensor\n"}
    wheel = package_wheel(wheels, "pkg", {}, files=code, tag="py3-none-any")
    found = {torch: abiscan.check(wheel, torch).packages[0] for torch in ("1.8.1", "1.9.0")}
    assert {torch: package.lost_modules for torch, package in found.items()} == {"1.8.1": (), "1.9.0": ("pkg.module",)}
    assert "No module named 'torch.tensor'" in found["1.9.0"].summary


@pytest.mark.parametrize(("torch", "verdict"), [("2.0.0", "unknown"), ("1.8.1", "works")])
def test_a_submodule_that_is_not_followed_to_its_end(
    torch: str, verdict: str, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``torch._six`` is in torch up to 1.12, and the loop before it takes more steps than there are."""
    monkeypatch.setattr(reading, "_LIMITS", Limits(steps=2000))
    code = "x = 0\nwhile x < 9999:\n    x += 1\nfrom torch._six import inf\n"
    files = {"pkg/__init__.py": "import torch\n", "pkg/sub.py": code}
    (found,) = abiscan.check(package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any"), torch).packages
    assert (found.verdict.value, found.lost_modules) == (verdict, ())
    said = "import pkg.sub: was not followed to its end: after 2,000 steps, the limit of an import"
    assert found.gaps == ((said,) if verdict == "unknown" else ())


def test_texts_of_a_submodule_are_no_names(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the modules of transformers 4.50.3: what no release has is a mistake in a text, and names in texts are
    links.
    """
    monkeypatch.setattr(reading, "_LIMITS", Limits(steps=2000))
    text = (
        '"""[`torch._six`](https://pytorch.org/docs/nn.html#torch._six.inf), torch.nn.html and torch.nn.Embeddings"""'
    )
    files = {"pkg/__init__.py": "import torch\n", "pkg/sub.py": f"{text}\nx = 0\nwhile x < 9999:\n    x += 1\n"}
    (found,) = abiscan.check(package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any"), "2.0.0").packages
    assert (found.verdict.value, found.gaps) == ("works", ())


@pytest.mark.parametrize(("torch", "lost"), [("2.2.0", ("pkg.images",)), ("2.1.2", ())])
def test_a_submodule_that_uses_what_torchvision_lacks(torch: str, lost: tuple[str, ...], wheels: Path) -> None:
    """As in pytorchvideo 0.1.5: torchvision 0.17 requires torch 2.2."""
    code = "import torchvision.transforms.functional_tensor as F_t\n"
    files = {"pkg/__init__.py": "import torch\n", "pkg/images.py": code}
    (found,) = abiscan.check(package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any"), torch).packages
    assert found.lost_modules == lost


@pytest.mark.parametrize(("torch", "lost"), [("2.6.0", ("pkg.ops",)), ("2.7.0", ())])
def test_an_operator_that_a_submodule_defines(torch: str, lost: tuple[str, ...], wheels: Path) -> None:
    """As in anemoi-models 0.18.0 (ecmwf/anemoi-core#1326): torch knows ``list[int]`` since 2.7."""
    code = (
        "@torch.library.custom_op('pkg::f', mutates_args=())\ndef f(x: torch.Tensor, y: list[int]) -> torch.Tensor: ..."
    )
    files = {"pkg/__init__.py": "", "pkg/ops.py": f"import torch\n{code}\n"}
    (found,) = abiscan.check(package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any"), torch).packages
    assert found.lost_modules == lost


@pytest.mark.parametrize(
    ("arguments", "torch", "fails"),
    [
        ("", "2.5.1", False),
        ("", "2.6.0", True),
        (", weights_only=None", "2.13.0", True),
        (", map_location='cpu', weights_only=False", "2.13.0", False),
    ],
)
def test_what_was_saved_with_other_classes(arguments: str, torch: str, *, fails: bool, wheels: Path) -> None:
    """As in e3nn 0.4.4 (e3nn/e3nn#519), whose constants are in a file of ``torch.save`` with slices in it."""
    code = "import os, torch\nX = torch.load(os.path.join(os.path.dirname(__file__), 'x.pt'){})\n"
    files = {"pkg/__init__.py": "", "pkg/o3.py": code.format(arguments)}
    path = package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any")
    saved = io.BytesIO()
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps(slice(0, 1), 2))
        archive.writestr("x/version", "3\n")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("pkg/x.pt", saved.getvalue())
    (found,) = abiscan.check(path, torch).packages
    assert found.verdict.value == ("works-without" if fails else "works")
    for module in found.lost:
        assert module.error
        assert module.error.exception == "UnpicklingError"
        assert "Unsupported global: GLOBAL slice was not an allowed global by default." in str(module.error.message)


@pytest.mark.parametrize(
    ("loads", "reported"),
    [("import ctypes\nctypes.CDLL(__path__[0] + '/lib/plain.so')\n", True), ("import torch\n", False)],
)
def test_what_a_library_without_torch_needs_of_the_system(loads: str, *, reported: bool, wheels: Path) -> None:
    """As in bitsandbytes 0.45.5 (bitsandbytes-foundation/bitsandbytes#1610)."""
    plain = Elf(needed=("libc.so.6",), version_needs=(("libc.so.6", "GLIBC_2.34", False),))
    tag = "py3-none-manylinux_2_24_x86_64"
    wheel = package_wheel(wheels, "pkg", {"pkg/lib/plain.so": plain}, files={"pkg/__init__.py": loads}, tag=tag)
    (found,) = abiscan.check(wheel, "2.7.0").packages
    messages = ["plain.so needs GLIBC_2.34, but its wheel is tagged for glibc 2.24"]
    assert [finding.message for finding in found.own_findings] == (messages if reported else [])


@pytest.mark.parametrize(("gpu", "runs"), [("sm_75", False), ("sm_80", True)])
def test_what_gpus_a_library_without_torch_has_code_for(gpu: str, wheels: Path, *, runs: bool) -> None:
    """As in lmdeploy 0.9.2 (InternLM/lmdeploy#3806), which finds its library in a folder that it puts on the path."""
    code = "import os, sys, torch\nsys.path.append(os.path.join(os.path.dirname(__file__), 'lib'))\nimport _plain\n"
    wheel = package_wheel(wheels, "pkg", {}, files={"pkg/__init__.py": "import torch\n", "pkg/engine.py": code})
    with zipfile.ZipFile(wheel, "a") as archive:
        data = (Path(__file__).parents[2] / "data/gpu/group.so").read_bytes()
        # The sample without its torch: other names of the same length.
        for name, instead in (
            (b"libtorch_cpu", b"libvendor_ab"),
            (b"torch", b"other"),
            (b"c10", b"abc"),
            (b"2at", b"2ab"),
        ):
            data = data.replace(name, instead)
        archive.writestr("pkg/lib/_plain.so", data)
    (found,) = document(wheel, "--torch", "2.7.1+cu128", "--gpu", gpu)["packages"]
    message = "_plain.so on sm_75: no code that this GPU runs"
    assert [finding["message"] for finding in found["findings"]] == ([] if runs else [message])


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "markdown", "github"])
def test_a_lost_submodule_is_in_every_format(form: str, wheels: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/layers.py": GONE_NAME}
    wheel = package_wheel(wheels, "pkg", {}, files=files, tag="py3-none-any")
    done = run("check", wheel, "--torch", "2.0.0", "--format", form)
    assert done.exit_code == 0
    assert "torch._six" in done.stdout
    assert "pkg.layers" in done.stdout


def test_the_matrix_judges_what_a_check_judges(wheels: Path) -> None:
    """As comfy-kitchen, whose compiled part does not use torch (Comfy-Org/comfy-kitchen#114)."""
    files = {"pkg/__init__.py": "import torch\nfrom . import _plain\nscale = torch.float8_e8m0fnu\n"}
    wheel = package_wheel(wheels, "pkg", {"pkg/_plain.so": Elf(defined=exports("PyInit__plain"))}, files=files)
    releases = ("2.6.0", "2.7.0")
    matrix = abiscan.matrix([wheel], releases)
    checked = [abiscan.check(wheel, torch).packages[0].verdict for torch in releases]
    assert [verdict.value for verdict in checked] == ["import-fails", "works"]
    assert [found.verdict for found in matrix.packages[0].results.values()] == checked


def test_a_matrix_has_the_conditions_of_its_cells(wheels: Path) -> None:
    needy = extension(needed=("libtorch_cpu.so", "libvendor.so.1"))
    code = LOAD.replace("torch.ops", "if torch.__version__ > '2.9':\n    torch.ops")
    wheel = package_wheel(wheels, "pkg", {"pkg/_C.so": needy}, files={"pkg/__init__.py": code})
    text = run("matrix", wheel, "--torch", "2.8.0", "--torch", "2.9.1").stdout
    assert "  * 2.9.1: if libvendor.so.1 is there\n" in text
    assert "  * on a condition  " in text
    document = json.loads(run("matrix", wheel, "--torch", "2.8.0", "--torch", "2.9.1", "--format", "json").stdout)
    cells = document["packages"][0]["releases"]
    assert {release: [item["name"] for item in cell["conditions"]] for release, cell in cells.items()} == {
        "2.8.0": [],
        "2.9.1": ["libvendor.so.1"],
    }


def test_python_code_alone_is_called_so(wheels: Path) -> None:
    wheel = package_wheel(wheels, "pkg", {}, files={"pkg/__init__.py": "import torch\n"}, tag="py3-none-any")
    assert abiscan.check(wheel, "2.13.0").packages[0].summary == "works: its Python code imports"


def test_libraries_of_ffmpeg_are_one_condition(wheels: Path) -> None:
    """As in torchcodec, which tries one build for each version of FFmpeg."""
    needy = extension(needed=("libtorch_cpu.so", "libavutil.so.59", "libavcodec.so.61"))
    guarded = GUARDED.replace("import warnings, torch", "import torch, warnings")
    found = result("2.9.1", wheels, {"pkg/_C.so": needy}, {"pkg/__init__.py": guarded})
    assert found.summary == "works, where FFmpeg is installed"
    (condition,) = found.conditions
    assert condition.why == "pkg/_C.so needs libavutil.so.59 (a failure is caught)"


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "markdown", "github"])
def test_a_condition_is_in_every_format(form: str, wheels: Path) -> None:
    needy = extension(needed=("libtorch_cpu.so", "libvendor.so.1"))
    wheel = package_wheel(wheels, "pkg", {"pkg/_C.so": needy}, files={"pkg/__init__.py": LOAD})
    done = run("check", wheel, "--torch", "2.9.1", "--format", form)
    assert done.exit_code == 0
    assert "libvendor.so.1" in done.stdout.replace("\\", "")


@pytest.mark.parametrize(
    ("found", "beside", "answer"),
    [(True, "ninja", True), (False, "ninja", Answer.UNKNOWN), (False, "other", False), (False, None, False)],
)
def test_a_tool_beside_a_python_may_be_found(
    found: bool, beside: str | None, answer: bool | Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where the environment is active, which puts its folder on the search path."""
    monkeypatch.setattr(build_tools, "has_tool", lambda _: found)
    if beside:
        (tmp_path / beside).touch()
    executable = tmp_path / "python" if beside else None
    assert package_reading._has_tool(executable, "ninja") is answer


@pytest.mark.parametrize(
    ("module", "exception", "cause", "is_lost"),
    [
        # As in torchattacks 3.5.1, whose robustbench imports a torchvision that does not load.
        ("extra", "RuntimeError", None, True),
        ("extra", "ImportError", "ModuleNotFoundError", False),
        ("benchmarks", "RuntimeError", None, False),
    ],
)
def test_a_further_module_that_fails_is_lost(module: str, exception: str, cause: str | None, *, is_lost: bool) -> None:
    before = Raised(exception=cause, message=None, at=None) if cause else None
    raised = Raised(exception=exception, message=None, at=None, cause=before)
    outcome = ImportOutcome(module=module, raised=raised, loads=(), registrations=(), conditions=(), gaps=())
    assert package_reading.is_lost(outcome) is is_lost
    assert not package_reading.is_lost(replace(outcome, raised=Answer.UNKNOWN))


@pytest.mark.parametrize(
    ("name", "needs"),
    [("bindings.abi3.so", ["libcudart.so.12"]), ("_C.abi3.so", []), ("libhelp.so", [])],
)
def test_a_module_for_cuda_that_users_import(wheels: Path, name: str, needs: list[str]) -> None:
    """As fairseq2n 0.2.0 beside a torch for CPUs (facebookresearch/fairseq2#201)."""
    library = dataclasses.replace(GOOD, needed=(*GOOD.needed, "libcudart.so.12"))
    code = f"import torch\ndef f():\n    from . import {name.partition('.')[0]}\n"
    found = result("2.13.0+cpu", wheels, {f"pkg/{name}": library}, {"pkg/__init__.py": code})
    assert found.verdict.value == "works"
    assert [item.name for item in found.conditions if item.kind.value == "library"] == needs


@pytest.mark.parametrize(
    ("installed", "required", "is_known"),
    [
        pytest.param(None, "absent", True, id="in the folder that Python looks in"),
        pytest.param(False, "absent", False, id="to be installed there, with what it requires"),
        pytest.param(False, "there<2", False, id="to be installed there, with another version of what it requires"),
        pytest.param(False, "there>=2", True, id="to be installed there, where all that it requires is"),
        pytest.param(True, "absent", True, id="installed"),
    ],
)
def test_what_is_alongside_an_installed_package_stays(
    installed: bool | None, required: str, is_known: bool, torch: Path, tmp_path: Path
) -> None:
    """One that is to be installed, and requires what is not there, may bring anything, but leaves what it need not
    replace.
    """
    install(torch.parent, "there", {}, version="2.0", files={"there.py": ""})
    install(torch.parent, "bystander", {}, requires="", files={"bystander.py": ""})
    python = python_of(torch.parent, tmp_path)
    where = Interpreter(tag=PythonTag(major=3, minor=11), executable=Path(python))
    metadata = f"Name: pkg\nVersion: 1.0\nRequires-Dist: {required}\n"
    package = Package(
        name="pkg",
        version="1.0",
        root=str(torch.parent),
        members=lambda: ["pkg/__init__.py", "pkg-1.0.dist-info/METADATA"],
        read=lambda _: metadata.encode(),
        installed=installed,
    )
    around = package_reading.surroundings_of(
        cast("Any", SimpleNamespace(package=str(torch), here=True, interpreter=where)), package
    )
    assert around.torch_folder == torch
    assert (around.installed("absent"), around.is_final) == (False if is_known else Answer.UNKNOWN, is_known)
    assert around.is_here is (installed is not False)  # only then is this machine the one that is asked about
    assert (around.installed("bystander"), around.has("bystander", "gone")) == (True, False)
    is_replaced = required == "there<2"
    assert around.installed("there") is (Answer.UNKNOWN if is_replaced else True)
    assert around.has("there", "gone") is (None if is_replaced else False)
    versions = around.version("there"), around.version("bystander"), around.version("absent")
    unknown = Answer.UNKNOWN
    assert versions == (unknown if is_replaced else "2.0", "1.0", None if is_known else unknown)


def test_nothing_is_known_to_be_alongside_a_torch_that_is_not_there(torch: Path, tmp_path: Path) -> None:
    where = Interpreter(tag=PythonTag(major=3, minor=11), executable=Path(python_of(torch.parent, tmp_path)))
    package = of_folder(torch)
    assert package is not None
    for folder, here in ((torch, False), (tmp_path / "absent" / "torch", True)):
        gone = cast("Any", SimpleNamespace(package=str(folder), here=here, interpreter=where))
        around = package_reading.surroundings_of(gone, package)
        assert (around.torch_folder, around.folders) == (None, ())


@pytest.mark.parametrize(
    ("exported", "modules"),
    [("PyInit_hook", {"pkg": "works", "hook": "import-fails"}), ("malloc", {"pkg": "works"})],
)
def test_a_library_at_the_top_is_a_module_if_it_exports_one(
    exported: str, modules: dict[str, str], torch: Path, wheels: Path
) -> None:
    """As the hooks of torch-memory-saver 0.0.10, which are for LD_PRELOAD: its metadata list them among the modules."""
    code = "import os, torch\ndef start(folder):\n    os.environ['LD_PRELOAD'] = os.path.join(folder, 'hook.abi3.so')\n"
    files = {"pkg/__init__.py": code, "pkg-1.0.dist-info/top_level.txt": "pkg\nhook\n"}
    hook = extension(undefined=uses("_ZN2at4goneEv"), defined=exports(exported))
    found = result(torch, wheels, {"hook.abi3.so": hook}, files)
    assert {module.name: module.verdict.value for module in found.modules} == modules
    assert (found.verdict.value == "import-fails") is ("hook" in modules)
