"""Packages that are compiled here and installed beside torch: what ``check NAME --python`` says, and what Python does.

Each was once told wrongly of a released package. Where a package is installed, its surroundings are known: what the
system lacks decides, and is not left to another machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import abiscan
from abiscan.inputs import interpreter
from abiscan.words import first_line
from tests import live_torch
from tests.commands.processes import run
from tests.elf_builder import Elf
from tests.fakes import SAMPLES, conda_package, extension, install
from tests.oracle.test_samples import TORCH

pytestmark = [
    pytest.mark.skipif(live_torch.build() != f"{TORCH}+cpu", reason=f"needs torch {TORCH}+cpu"),
    pytest.mark.skipif(not shutil.which("g++"), reason="needs g++"),
]

NO_VENDOR = "libvendor.so.1: cannot open shared object file: No such file or directory"
IMPORT = """
import json, sys
sys.path.insert(0, sys.argv[1])
try:
    import pkg
    raised = None
except Exception as error:
    raised = [type(error).__name__, str(error).replace(sys.argv[1] + "/", "")]
print(json.dumps(raised))
"""
# As torchcodec: one library after the other, in one of which the process ends if FFmpeg is there.
TRIES = """import torch
from pathlib import Path
try:
    for name in ("libabiscan_provider.so", "abiscan_user.so"):
        torch.ops.load_library(str(Path(__file__).parent / name))
except OSError:
    raise RuntimeError("Could not load. Likely causes:\\n  1. FFmpeg is not installed.\\n  2. Another one.") from None
"""


def really(folder: Path, **env: str) -> Any:
    """What importing ``pkg`` raises; how the process ends if it does."""
    done = live_torch.run(IMPORT, folder) if not env else _of_own_process(folder, env)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.returncode


def _of_own_process(folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", IMPORT, str(folder)]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)


def check(folder: Path, *words: str, **env: str) -> Any:
    """What abiscan says of ``pkg``, which is installed in a folder on the path of the Python of the tests."""
    command = [sys.executable, "-m", "abiscan", *(words or ("check", "pkg")), "--python", sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(folder), **env}
    done = subprocess.run([*command, "--format", "json"], env=environment, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


@pytest.mark.parametrize("is_guarded", [False, True])
def test_a_library_that_the_system_lacks_decides(tmp_path: Path, is_guarded: bool) -> None:
    code = "import torch\nfrom . import _C\n"
    if is_guarded:
        code = "import torch\ntry:\n    from . import _C\nexcept ImportError as error:\n    _C = None\n"
    needing = extension(needed=("libc10.so", "libvendor.so.1"))
    install(tmp_path, "pkg", {"pkg/_C.so": needing}, requires="torch", files={"pkg/__init__.py": code})
    (package,) = check(tmp_path)["packages"]
    if is_guarded:
        assert really(tmp_path) is None
        assert package["verdict"] == "works-without"
    else:
        assert really(tmp_path) == ["ImportError", NO_VENDOR]
        assert [package["error"]["exception"], package["error"]["message"]] == ["ImportError", NO_VENDOR]


def test_the_end_of_the_process_depends_on_what_the_system_has(tmp_path: Path) -> None:
    provider = Elf(soname="libabiscan_provider.so", needed=("libavutil.so.59",))
    objects = {"pkg/libabiscan_provider.so": provider, "pkg/abiscan_user.so": Elf()}
    install(tmp_path, "pkg", objects, requires="torch", files={"pkg/__init__.py": TRIES})
    shutil.copy(SAMPLES / "class_of_another" / "abiscan_user.so", tmp_path / "pkg")
    real = really(tmp_path)
    (package,) = check(tmp_path)["packages"]
    assert real[0] == package["error"]["exception"] == "RuntimeError"
    assert real[1] == package["error"]["message"]
    # The headline goes on with what it announces.
    assert first_line(real[1]).startswith("Could not load. Likely causes: 1. FFmpeg is not installed.")

    Elf(soname="libavutil.so.59").write(tmp_path / "system" / "libavutil.so.59")
    there = {"LD_LIBRARY_PATH": str(tmp_path / "system")}
    assert really(tmp_path, **there) == -6
    (package,) = check(tmp_path, **there)["packages"]
    assert package["error"]["how"] == "aborts"
    assert "Unknown custom class type abiscan_provider.Thing" in package["error"]["message"]


def test_libraries_without_torch_that_lack_another_one(tmp_path: Path) -> None:
    objects = {f"pkg/lib{name}.so": Elf(needed=("libvendor.so.1",)) for name in "ab"}
    install(tmp_path, "pkg", objects, requires="torch", files={"pkg/__init__.py": "import torch\n"})
    assert really(tmp_path) is None
    load = live_torch.run("import ctypes, sys\nctypes.CDLL(sys.argv[1])", tmp_path / "pkg" / "liba.so")
    assert NO_VENDOR in load.stderr
    (package,) = check(tmp_path)["packages"]
    assert (package["verdict"], package["lacking"]) == ("works", ["libvendor.so.1"])


@pytest.mark.long
def test_doctor_lists_what_a_package_works_without(tmp_path: Path) -> None:
    """Its import goes on without the extension, which does not load."""
    code = "import torch\ntry:\n    from . import _C\nexcept ImportError as error:\n    _C = None\n"
    bad = extension(needed=("libc10_cuda.so",))
    install(tmp_path, "pkg", {"pkg/_C.so": bad}, requires="torch", files={"pkg/__init__.py": code})
    assert really(tmp_path) is None
    use = live_torch.run("import sys\nsys.path.insert(0, sys.argv[1])\nimport pkg\npkg._C.f()", tmp_path)
    assert "'NoneType' object has no attribute 'f'" in use.stderr
    document = check(tmp_path, "doctor", "--no-index")
    (found,) = (item for item in document["distributions"] if item["name"] == "pkg")
    assert (found["verdict"], len(found["without"])) == ("works-without", 1)


@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_a_package_of_conda_is_told_as_it_is_imported(tmp_path: Path, suffix: str) -> None:
    load = "import torch\nfrom pathlib import Path\nfor path in sorted(Path(__file__).parent.glob('*.so')):\n"
    load += "    torch.ops.load_library(str(path))\n"
    site = "lib/python3.11/site-packages"
    bad = SAMPLES / "undefined_symbol_not_linked" / "undefined_symbol_not_linked.so"
    for name, sample in (("good", SAMPLES / "loads" / "loads.so"), ("bad", bad)):
        metadata = {f"{site}/pkg-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n"}
        files = {f"{site}/pkg/__init__.py": load.encode(), f"{site}/pkg/_C.so": sample.read_bytes(), **metadata}
        archive = conda_package(tmp_path / f"pkg-1.0-{name}{suffix}", files)
        folder = tmp_path / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        real = really(folder / site)
        (package,) = abiscan.check(archive, interpreter.installed_torch()).packages
        error = package.error
        assert (real and real[0]) == (error and error.exception)
        assert (real is None) is (name == "good")


SOURCE = """
#include <torch/library.h>
int64_t f(int64_t x) { return x; }
at::Tensor same(at::Tensor x) { return x; }
TORCH_LIBRARY(abiscan_reported, m) {
  m.def("g(int x) -> int", &f);
#ifdef TYPEVARS
  m.def(torch::schema("f(t x) -> t"), &same);
#endif
}
"""


# tests/oracle/test_operator_calls.py has one without linkage table, and test_schema.py type variables, too.
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("options", [("-fno-plt", "-O2"), ("-DTYPEVARS",)], ids=["no linkage table", "type variable"])
def test_what_an_extension_registers(tmp_path: Path, options: tuple[str, ...]) -> None:
    """With calls that bypass the linkage table; and a schema with a type variable, which torch refuses."""
    torch = interpreter.installed_torch()
    assert torch is not None
    library = tmp_path / "lib.so"
    found = (f"-I{torch / 'include'}", f"-L{torch / 'lib'}", "-lc10", "-ltorch_cpu")
    command = ["g++", "-std=c++20", "-shared", "-fPIC", "-w", "-x", "c++", "-", "-x", "none", "-o", str(library)]
    subprocess.run([*command, *found, *options], input=SOURCE, text=True, check=True)
    names = "[name for name in torch._C._dispatch_get_all_op_names() if name.startswith('abiscan_reported')]"
    real = live_torch.run(f"import sys, torch\ntorch.ops.load_library(sys.argv[1])\nprint({names})", library)
    (result,) = abiscan.check(library, torch).results
    if "-DTYPEVARS" in options:
        assert real.returncode == -6
        assert result.predicted_error is not None
        assert result.predicted_error.how.value == "aborts"
        assert result.predicted_error.message.splitlines()[0] in real.stderr
    else:
        assert real.stdout.strip() == "['abiscan_reported::g']"
        assert result.verdict.value == "loads"
        (inventory,) = abiscan.operators(library).inventories
        assert inventory.registrations is not None
        assert [operator.name for operator in inventory.registrations.operators] == ["abiscan_reported::g"]


def test_wheels_say_the_same_as_what_is_installed(tmp_path: Path) -> None:
    """A wheel is for any machine: what this one lacks is unknown there, and decides once it is installed."""
    needing = extension(needed=("libc10.so", "libvendor.so.1"))
    code = "import torch\nfrom . import _C\n"
    install(tmp_path / "site", "pkg", {"pkg/_C.so": needing}, requires="torch", files={"pkg/__init__.py": code})
    wheel = tmp_path / "pkg-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in (tmp_path / "site").rglob("*"):
            archive.write(path, path.relative_to(tmp_path / "site"))
    (package,) = abiscan.check(wheel, interpreter.installed_torch()).packages
    assert package.verdict.value == "unknown"
    assert check(tmp_path / "site")["packages"][0]["verdict"] == "import-fails"


BUILT_FOR_OLDER = SAMPLES / "undefined_symbol_signature/undefined_symbol_signature.so"
BUILT_FOR_ANOTHER = "import torch\ntorch.ops.load_library(__file__.replace('__init__.py', 'abiscan_user.so'))\n"


@pytest.mark.parametrize(
    ("code", "fails"),
    {
        "at once": ("import torch\nimport other\n", True),
        "a submodule": ("import torch\nfrom other.sub import name\n", True),
        "guarded against what it is not": (
            "import torch\ntry:\n    import other\nexcept ImportError:\n    pass\n",
            True,
        ),
        "guarded": ("import torch\ntry:\n    import other\nexcept Exception:\n    other = None\n", False),
        "in a function": ("import torch\ndef f():\n    import other\n", False),
        "behind torch": ("import torch\nif torch.cuda.is_available():\n    import other\n", False),
    }.values(),
)
def test_another_package_that_does_not_load_fails_where_it_is_imported(tmp_path: Path, code: str, fails: bool) -> None:
    other = {"other/__init__.py": BUILT_FOR_ANOTHER, "other/sub.py": "name = 1\n"}
    install(tmp_path, "other", {"other/abiscan_user.so": extension()}, requires="torch", files=other)
    shutil.copy(BUILT_FOR_OLDER, tmp_path / "other/abiscan_user.so")
    install(tmp_path, "pkg", {}, requires="torch", files={"pkg/__init__.py": code})

    (package,) = check(tmp_path)["packages"]

    raised = really(tmp_path)
    assert (raised is not None) is fails
    assert package["verdict"] == ("import-fails" if fails else "works")
    if fails:
        assert package["error"]["exception"] == raised[0]
        assert first_line(package["error"]["message"]) == first_line(raised[1])
        assert package["error"]["file"] == "pkg/__init__.py"
        assert package["error"]["of_package"] == "other"


def test_another_package_fails_in_a_module_that_is_otherwise_passed_over(tmp_path: Path) -> None:
    other = {"other/__init__.py": BUILT_FOR_ANOTHER}
    install(tmp_path, "other", {"other/abiscan_user.so": extension()}, requires="torch", files=other)
    shutil.copy(BUILT_FOR_OLDER, tmp_path / "other/abiscan_user.so")
    sub = "try:\n    import other\n    has_other = True\nexcept ImportError:\n    has_other = False\n"
    files = {"pkg/__init__.py": "import torch\nfrom .sub import has_other\n", "pkg/sub.py": sub}
    install(tmp_path, "pkg", {}, requires="torch", files=files)

    (package,) = check(tmp_path)["packages"]

    assert package["verdict"] == "import-fails"
    assert [package["error"][key] for key in ("file", "line")] == ["pkg/sub.py", 2]
    assert package["error"]["exception"] == really(tmp_path)[0]


def test_packages_that_import_each_other_end(tmp_path: Path) -> None:
    for name, other in (("pkg", "other"), ("other", "pkg")):
        code = {f"{name}/__init__.py": f"import torch\nimport {other}\n"}
        install(tmp_path, name, {f"{name}/never.so": extension()}, requires="torch", files=code)
        shutil.copy(BUILT_FOR_OLDER, tmp_path / name / "never.so")
    assert really(tmp_path) is None
    assert [package for package in check(tmp_path)["packages"] if package["verdict"] == "import-fails"] == []


def test_doctor_blames_the_package_that_does_not_load(tmp_path: Path) -> None:
    site = live_torch.linked_environment(tmp_path / "environment")
    other = {"other/__init__.py": BUILT_FOR_ANOTHER}
    install(site, "other", {"other/abiscan_user.so": extension()}, requires="torch", files=other)
    shutil.copy(BUILT_FOR_OLDER, site / "other/abiscan_user.so")
    install(site, "pkg", {}, requires="torch", files={"pkg/__init__.py": "import torch\nimport other\n"})
    words = ("doctor", "--no-index", "--python", str(tmp_path / "environment"), "--format", "json")
    document = json.loads(run(*words).out)
    causes = {
        item["name"]: item.get("cause") for item in document["distributions"] if item["verdict"] == "import-fails"
    }
    assert causes == {"other": None, "pkg": "other"}
