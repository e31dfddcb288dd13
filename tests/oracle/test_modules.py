"""All modules that a wheel installs, each against its import in a real torch."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

import abiscan
from abiscan.inputs import interpreter
from abiscan.results.package import PackageVerdict
from tests import live_torch
from tests.elf_builder import exports
from tests.fakes import SAMPLES, extension, package_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(live_torch.version() is None, reason="needs torch"),
]

CODE: Final = {
    "pkg/__init__.py": "import torch\nimport pkg_used\n",
    "pkg_used/__init__.py": "from torch import Tensor\n",
    "pkg_name.py": "import torch\nfrom torch import no_such_name\n",
    "pkg_operator.py": "import torch\ntorch.ops.aten.no_such_operator\n",
    "pkg_extra/__init__.py": "import torch, json\n",
    "pkg_space/inner.py": "import torch\nfrom torch.nn import NoSuchModule\n",
    "pkg_guarded.py": "try:\n    from torch import no_such_name\nexcept ImportError:\n    no_such_name = None\n",
    "tests/__init__.py": "from torch import no_such_test\n",
}
_IMPORT: Final = """
import importlib, json, os, sys, torch
for name in sys.argv[1:]:
    if os.fork() == 0:
        try:
            importlib.import_module(name)
            end = None
        except Exception as error:
            end = type(error).__name__, str(error)
        print(json.dumps([name, end]), flush=True)
        os._exit(0)
    os.wait()
"""


def test_every_module_is_imported(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    wheel = package_wheel(tmp_path, "pkg", {}, files=CODE, metadata={"Requires-Dist": "torch"}, tag="py3-none-any")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    torch = interpreter.installed_torch()
    assert torch is not None
    (found,) = abiscan.check(wheel, torch).packages
    names = [module.name for module in found.modules]
    assert names[0] == "pkg"
    assert set(names) == {*(path.partition("/")[0].removesuffix(".py") for path in CODE)} - {"pkg_space"} | {
        "pkg_space.inner"
    }
    done = live_torch.run(_IMPORT, *names, cwd=folder, check=True)
    ends = dict(json.loads(line) for line in done.stdout.splitlines())
    for module in found.modules:
        end = [module.error.exception, module.error.message] if module.error else None
        assert (module.name, end) == (module.name, ends[module.name])
    assert found.verdict is PackageVerdict.IMPORT_FAILS
    assert found.failing_module not in ("", "tests")


def test_a_module_without_its_package(tmp_path: Path) -> None:
    """As the _XLAC of torch-xla: it loads once torch is imported, and not before."""
    module = extension(defined=exports("PyInit_alone")).write(tmp_path / "alone.so")
    torch = interpreter.installed_torch()
    assert torch is not None
    report = abiscan.check(module, torch)
    (found,) = report.results
    assert found.verdict.value == "loads"
    words = [sys.executable, "-c", "import alone"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f"ImportError: {found.before_torch}"
    assert json.loads(report.to_json())["results"][0]["before_torch"] == found.before_torch


def test_an_abort_when_a_part_is_used_first(tmp_path: Path) -> None:
    """As vllm-ascend 0.9.0rc2 on torch 2.7: users see no exception."""
    sample = (SAMPLES / "registration_conflicts" / "initialiser_ends_process-uncaught.so").read_bytes()
    code = "import torch\ndef use():\n    torch.ops.load_library(__file__.replace('__init__.py', '_C.so'))\n"
    wheel = package_wheel(tmp_path, "pkg", {}, files={"pkg/__init__.py": code}, metadata={"Requires-Dist": "torch"})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("pkg/_C.so", sample)
        archive.extractall(tmp_path)
    torch = interpreter.installed_torch()
    assert torch is not None
    report = abiscan.check(wheel, torch)
    (found,) = report.packages
    assert found.summary.startswith("works without pkg/_C.so (ending the process when first used")
    assert report.exit_code() == 1
    words = [sys.executable, "-c", "import pkg; print('imported', flush=True); pkg.use()"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode < 0) == ("imported\n", True)


@pytest.mark.parametrize(
    "first", ["", "import json\n", pytest.param("from . import helper\n", marks=pytest.mark.long), "import torch\n"]
)
def test_a_library_that_is_loaded_before_torch_is_imported(first: str, tmp_path: Path) -> None:
    sample = (SAMPLES / "loads" / "loads.so").read_bytes()
    load = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), '_C.so'))\n"
    files = {"pkg/__init__.py": first + load + "import torch\n", "pkg/helper.py": "from torch import Tensor\n"}
    wheel = package_wheel(tmp_path, "pkg", {}, files=files, metadata={"Requires-Dist": "torch"})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("pkg/_C.so", sample)
        archive.extractall(tmp_path)
    torch = interpreter.installed_torch()
    assert torch is not None
    (found,) = abiscan.check(wheel, torch).packages
    done = subprocess.run(
        [sys.executable, "-c", "import pkg"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if done.returncode:
        assert found.summary == "works, if torch is imported first"
        (condition,) = found.conditions
        assert done.stderr.splitlines()[-1].removeprefix("OSError: ") in condition.why
    else:
        assert (found.summary, found.conditions) == ("works", ())
    after_torch = live_torch.run("import sys\nsys.path.insert(0, sys.argv[1])\nimport pkg", tmp_path)
    assert after_torch.returncode == 0, after_torch.stderr


@pytest.mark.parametrize(
    "code", ["import no_such_package\n", "raise SystemExit\n", "raise ValueError('not installed')\n"]
)
def test_what_another_module_needs_beside_torch(code: str, tmp_path: Path) -> None:
    """As open_clip_train of open_clip_torch, whose packages are those of an extra."""
    files = {"pkg/__init__.py": "import torch\n", "pkg_train/__init__.py": code}
    wheel = package_wheel(tmp_path, "pkg", {}, files=files, metadata={"Requires-Dist": "torch"}, tag="py3-none-any")
    torch = interpreter.installed_torch()
    assert torch is not None
    (found,) = abiscan.check(wheel, torch).packages
    assert found.verdict is PackageVerdict.WORKS
    main, second = found.modules
    assert (main.verdict, second.name) == (PackageVerdict.WORKS, "pkg_train")
    assert second.verdict is not PackageVerdict.WORKS
