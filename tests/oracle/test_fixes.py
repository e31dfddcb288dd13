"""What a fix tells authors to do is done: the library is built, linked or loaded so, and the real torch loads it.

``test_advice.py`` has the fixes that name a command; ``test_programs.py`` and ``test_coverage.py`` those for programs
and for backends. What needs another machine (a GPU, an older processor or system, an aarch64 build) is not tried.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import abiscan
from abiscan.findings import Finding
from abiscan.inputs import interpreter
from tests import live_torch
from tests.elf_builder import Elf
from tests.fakes import SAMPLES, package_wheel
from tests.oracle.test_samples import TORCH

pytestmark = [
    pytest.mark.skipif(live_torch.build() != f"{TORCH}+cpu", reason=f"needs torch {TORCH}+cpu"),
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
]

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
LOAD = "import ctypes, sys, torch\nfor path in sys.argv[1:]: ctypes.CDLL(path)\n"
IMPORT = "import sys, torch\nsys.path.insert(0, sys.argv[1])\n"
OF_C10 = "int _ZN3c104warnERKNS_7WarningE(void *); int use(void) { return 0; }\n"


def torch_folder() -> Path:
    folder = interpreter.installed_torch()
    assert folder is not None
    return folder


def compile_library(path: Path, source: str | Path, *options: str) -> Path:
    """Compile C from a text, or C++ from a file, into a library that needs ``libc10.so``."""
    compiler = ["gcc", "-x", "c", "-", "-x", "none"] if isinstance(source, str) else ["g++", "-std=c++20", str(source)]
    linked = ["-Wl,--no-as-needed", f"-L{torch_folder() / 'lib'}", "-lc10", f"-L{path.parent}"]
    text = source if isinstance(source, str) else None
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", path, *linked, *options], input=text, text=True, check=True)
    return path


def headers(*of_torch: str) -> list[str]:
    folders = [torch_folder() / "include", *(torch_folder() / "include" / name for name in of_torch)]
    return [f"-I{folder}" for folder in (*folders, Path(sysconfig.get_path("include")))]


def findings_on(path: Path | Sequence[Path], name: str = "", torch: str | Path | None = None) -> list[Finding]:
    results = abiscan.check(path, torch or torch_folder()).results
    return [finding for result in results if name in result.path for finding in result.findings]


def fix_for(path: Path | Sequence[Path], rule: str, name: str = "", torch: str | Path | None = None) -> str:
    (finding,) = (finding for finding in findings_on(path, name, torch) if finding.rule == rule)
    assert finding.fix is not None
    return finding.fix


def is_loaded(*paths: Path, env: Mapping[str, str] | None = None) -> bool:
    return live_torch.run(LOAD, *paths, env={**os.environ, **env} if env else None).returncode == 0


def test_a_library_next_to_the_extension_gets_a_search_path_or_is_loaded_first(tmp_path: Path) -> None:
    part = compile_library(tmp_path / "libpart.so", "int part(void) { return 1; }", "-Wl,-soname,libpart.so")
    user = compile_library(tmp_path / "libuser.so", OF_C10, "-lpart")
    fix = fix_for(user, "missing-library")
    option, _, second = fix.removeprefix("link it with ").partition(", or ")
    assert second == "load the library first"
    assert not is_loaded(user)
    assert is_loaded(part, user)
    relinked = compile_library(tmp_path / "librelinked.so", OF_C10, "-lpart", *shlex.split(option))
    assert is_loaded(relinked)
    assert findings_on(relinked) == []


def test_a_library_that_is_nowhere_is_found_in_each_way_that_the_fix_names(tmp_path: Path) -> None:
    sample = SAMPLES / "missing_sibling" / "missing_sibling.so"
    fix = fix_for(sample, "missing-library")
    assert fix == "install the package that provides it, put it on RPATH or LD_LIBRARY_PATH, or load it first"
    assert not is_loaded(sample)
    provided = tmp_path / "provided" / "libabiscan_absent.so.1"
    name = f"-Wl,-soname,{provided.name}"
    compile_library(provided, "int abiscan_absent(void) { return 1; }", name)
    assert is_loaded(provided, sample)
    found = subprocess.run(
        [sys.executable, "-c", LOAD, sample],
        env={**os.environ, "LD_LIBRARY_PATH": str(provided.parent)},
        capture_output=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    by_path = (f"-L{provided.parent}", f"-l:{provided.name}")
    assert not is_loaded(compile_library(tmp_path / "without.so", OF_C10, *by_path))
    on_rpath = compile_library(tmp_path / "with.so", OF_C10, *by_path, f"-Wl,-rpath,{provided.parent}")
    assert is_loaded(on_rpath)
    assert findings_on(on_rpath) == []


def test_a_rebuild_with_the_string_of_torch_loads(tmp_path: Path) -> None:
    sample = SAMPLES / "cxx11_abi" / "cxx11_abi.so"
    option = re.search(r"_GLIBCXX_USE_CXX11_ABI=\d", fix_for(sample, "cxx11-abi-mismatch"))
    assert option
    assert not is_loaded(sample)
    assert is_loaded(compile_library(tmp_path / "rebuilt.so", sample.with_suffix(".cpp"), f"-D{option[0]}", *headers()))


@pytest.mark.long
def test_a_build_for_the_python_that_the_fix_names_is_imported(tmp_path: Path) -> None:
    sample = SAMPLES / "python_abi" / "python_abi.so"
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert fix_for(sample, "python-abi-mismatch").endswith(f"(tag {tag})")
    assert live_torch.run(IMPORT + "import python_abi", sample.parent).returncode != 0
    torch_cpu = "-ltorch_cpu"
    rebuilt = compile_library(tmp_path / f"python_abi{SUFFIX}", sample.with_suffix(".cpp"), *headers(), torch_cpu)
    assert live_torch.run(IMPORT + "import python_abi", tmp_path, check=True).returncode == 0
    assert findings_on(rebuilt) == []


@pytest.mark.long
@pytest.mark.slow
def test_a_build_with_the_pybind11_of_torch_knows_its_types(tmp_path: Path) -> None:
    sample = SAMPLES / "pybind11_internals" / "pybind11_internals.so"
    folder = re.search(r"torch/(include/\S+)", fix_for(sample, "pybind11-internals-mismatch"))
    assert folder
    assert (torch_folder() / folder[1] / "pybind11.h").is_file()
    call = "import pybind11_internals as m\nschema = torch._C.parse_schema('f(Tensor x) -> Tensor')\n"
    call += "assert m.schema_name(schema) == 'f'\n"
    assert live_torch.run(IMPORT + call, sample.parent).returncode != 0
    rebuilt = compile_library(
        tmp_path / f"pybind11_internals{SUFFIX}", sample.with_suffix(".cpp"), *headers(), "-ltorch_cpu"
    )
    assert live_torch.run(IMPORT + call, tmp_path, check=True).returncode == 0
    assert findings_on(rebuilt) == []


LIMITED = """
#include <Python.h>
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "limited", NULL, -1, NULL}};
PyMODINIT_FUNC PyInit_limited(void) {{
  PyObject *text = PyUnicode_FromString("text");
  if (!text || !{use}) return NULL;
  return PyModule_Create(&module);
}}
"""


def test_the_compiler_finds_what_is_not_in_the_stable_abi(tmp_path: Path) -> None:
    outside = LIMITED.format(use="PyUnicode_AsUTF8(text)")
    inside = LIMITED.format(use="PyUnicode_AsUTF8AndSize(text, NULL)")
    tagged = compile_library(tmp_path / "limited.abi3.so", outside, *headers(), "-w")
    macro = re.search(r"\bPy_LIMITED_API\b", fix_for(tagged, "abi3-violation"))
    assert macro
    option = (f"-D{macro[0]}=0x030B0000", "-Werror=implicit-function-declaration")
    with pytest.raises(subprocess.CalledProcessError):
        compile_library(tmp_path / "refused.so", outside, *headers(), *option)
    rebuilt = compile_library(tmp_path / "limited.abi3.so", inside, *headers(), *option)
    assert findings_on(rebuilt) == []
    assert live_torch.run(IMPORT + "import limited", tmp_path, check=True).returncode == 0


TABLE = "int value; int *table[] = {&value, &value, &value};\n"


def test_packed_relocations_are_linked_as_the_fix_says(tmp_path: Path) -> None:
    # As lld links with --pack-dyn-relocs=relr: without the version by which glibc knows them.
    needs = (("libc.so.6", "GLIBC_2.2.5", False),)
    packed = Elf(needed=("libc.so.6", "libc10.so"), relr=(), version_needs=needs).write(tmp_path / "packed.so")
    assert not is_loaded(packed)
    option = re.search(r"-Wl,\S*relocs", fix_for(packed, "symbol-version-not-found"))
    assert option
    for flags in ([option[0]], []):
        linked = compile_library(tmp_path / f"linked{len(flags)}.so", TABLE, *flags)
        assert is_loaded(linked)
        assert findings_on(linked) == []


def test_only_one_of_two_libraries_with_one_namespace_is_loaded(tmp_path: Path) -> None:
    first, second = (Path(shutil.copy(SAMPLES / "loads" / "loads.so", tmp_path / name)) for name in ("a.so", "b.so"))
    assert fix_for([first, second], "duplicate-library", "b.so") == "load only one of a.so and b.so"
    assert not is_loaded(first, second)
    assert is_loaded(first)
    assert is_loaded(second)


def test_a_schema_with_a_type_that_crosses_can_be_called() -> None:
    sample = SAMPLES / "stable" / "scalar_argument.so"
    fix = fix_for(sample, "stable-type-unsupported")
    assert fix.startswith("use types that cross in the schema (float or Tensor for Scalar)")
    call = "import sys, torch\ntorch.ops.load_library(sys.argv[1])\n"
    call += "torch.ops.abiscan_scalar_argument.{}(torch.ones(2), 2.0)\n"
    assert live_torch.run(call.format("scale"), sample).returncode != 0
    assert live_torch.run(call.format("same"), sample).returncode == 0


def test_the_releases_that_a_fix_names_have_the_name(tmp_path: Path) -> None:
    """``torch.serialization.safe_globals`` is there since 2.5."""
    files = {
        "pkg/__init__.py": "import torch\ndef load():\n    return torch.serialization.safe_globals\n",
        "pkg-1.0.dist-info/METADATA": "Name: pkg\nVersion: 1.0\nRequires-Dist: torch\n",
    }
    wheel = package_wheel(tmp_path, "pkg", {}, files=files)
    (package,) = abiscan.check(wheel, "2.4.1").packages
    (fix,) = (finding.fix for finding in package.findings if finding.rule == "missing-torch-name")
    named = re.search(r"use torch ([\d.]+)-([\d.]+), which has it", fix or "")
    assert named, fix
    first, last = (tuple(map(int, release.split("."))) for release in named.groups())
    assert first <= tuple(map(int, TORCH.split("."))) <= last
    assert live_torch.run("import torch\ntorch.serialization.safe_globals").returncode == 0


@pytest.mark.parametrize(
    ("sample", "required", "admits"),
    [("undefined_symbol_signature", f"torch=={TORCH}", False), ("loads", "torch==2.12.1", True)],
)
def test_the_requirement_that_a_fix_declares_admits_a_torch_on_which_it_loads(
    sample: str, required: str, admits: bool, tmp_path: Path
) -> None:
    wheel = tmp_path / "pkg-1.0-py3-none-linux_x86_64.whl"
    load = "import torch\nfrom pathlib import Path\ntorch.ops.load_library(str(Path(__file__).parent / '_C.so'))\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(SAMPLES / sample / f"{sample}.so", "pkg/_C.so")
        archive.writestr("pkg/__init__.py", load)
        archive.writestr("pkg-1.0.dist-info/METADATA", f"Name: pkg\nVersion: 1.0\nRequires-Dist: {required}\n")
        archive.extractall(tmp_path)
    # The package as a whole has the finding.
    findings = [finding for package in abiscan.check(wheel, "declared").packages for finding in package.own_findings]
    fixes = [finding.fix or "" for finding in findings if finding.rule == "declared-requirement-wrong"]
    (declared,) = {requirement for fix in fixes for requirement in re.findall(r"declare (torch\S+): ", fix)}
    assert Requirement(declared).specifier.contains(TORCH) is admits
    assert (live_torch.run(IMPORT + "import pkg", tmp_path).returncode == 0) is admits


def test_a_pickle_of_classes_is_read_as_the_fix_says(tmp_path: Path) -> None:
    model = tmp_path / "state.pt"
    live_torch.run(
        "import datetime, sys, torch\ntorch.save({'a': datetime.timedelta(1)}, sys.argv[1])", model, check=True
    )
    (found,) = abiscan.check(model, torch_folder()).packages
    (fix,) = (finding.fix for finding in found.findings if finding.rule == "model-pickles-classes")
    option = re.search(r"weights_only=\w+", fix or "")
    assert option, fix
    load = "import sys, torch\ntorch.load(sys.argv[1]{})\n"
    assert live_torch.run(load.format(""), model).returncode != 0
    assert live_torch.run(load.format(f", {option[0]}"), model).returncode == 0


def test_a_model_works_once_its_operators_are_loaded_before(tmp_path: Path) -> None:
    library, model = SAMPLES / "loads" / "loads.so", tmp_path / "model.pt"
    save = "import sys, torch\ntorch.ops.load_library(sys.argv[1])\n"
    save += "def f(x: torch.Tensor):\n    return torch.ops.abiscan_loads.double_it(x)\n"
    save += "torch.jit.trace(f, torch.ones(2)).save(sys.argv[2])\n"
    live_torch.run(save, library, model, check=True)
    (found,) = abiscan.check(model, torch_folder()).packages
    (fix,) = (finding.fix for finding in found.findings if finding.rule == "model-operator-missing")
    assert (fix or "").startswith("import the package that defines it first"), fix
    load = "import sys, torch\nfor path in sys.argv[2:]: torch.ops.load_library(path)\ntorch.jit.load(sys.argv[1])\n"
    assert live_torch.run(load, model).returncode != 0
    assert live_torch.run(load, model, library).returncode == 0
