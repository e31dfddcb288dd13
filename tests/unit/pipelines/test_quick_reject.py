"""What a look at the beginnings of libraries shows, and what it leaves to a full check."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs.packages import RemoteWheel
from abiscan.inputs.session import Session
from abiscan.pipelines.quick_reject import Glance, reject_quickly
from abiscan.torches.platforms import LinuxPlatform
from tests.elf_builder import Elf, exports, uses
from tests.fakes import extension, package_wheel

FROM_2_13 = "torch_from_blob"
LACKS = {"undefined": uses(FROM_2_13)}
LOAD = """
import os
import torch
def load(name):
    torch.ops.load_library(os.path.join(os.path.dirname(__file__), name))
"""
OTHERWISE = """
for name in ('a2.so', 'a1.so'):
    try:
        load(name)
        break
    except OSError:
        pass
else:
    raise OSError('none')
"""


def seen(tmp_path: Path, code: str, objects: Mapping[str, Elf], torch: str = "2.9.1") -> Glance:
    libraries = {path if "/" in path else f"eye/{path}": elf for path, elf in objects.items()}
    path = package_wheel(tmp_path, "eye", libraries, files={"eye/__init__.py": LOAD + code})
    wheel = RemoteWheel(path=Path(path.name), stream=lambda: io.BytesIO(path.read_bytes()))
    choice = LinuxPlatform(Machine.X86_64).build_of(torch)
    return reject_quickly(wheel, choice, Session(folder=tmp_path / "store"), (3, 11), Machine.X86_64)


def test_a_library_that_lacks_a_symbol(tmp_path: Path) -> None:
    found = seen(tmp_path, "load('a.so')", {"a.so": extension(**LACKS)})
    assert found.reason == f"import fails - eye/a.so: undefined symbol: {FROM_2_13}"


def test_a_library_that_the_package_goes_on_without(tmp_path: Path) -> None:
    found = seen(tmp_path, "try:\n    load('a.so')\nexcept OSError:\n    pass", {"a.so": extension(**LACKS)})
    assert found.reason == f"works without eye/a.so: undefined symbol: {FROM_2_13}"


GUARD = "if torch.__version__.startswith('2.11.0'):\n    load('a.so')\n    load('b.so')\n"
BOTH = {"a.so": extension(), "b.so": extension()}


def test_libraries_that_the_package_leaves_out_itself(tmp_path: Path) -> None:
    reason = "leaves its libraries out, which it loads with torch 2.11.0 (eye/__init__.py:5)"
    for torch in ("2.9.1", "2.13.0"):
        assert seen(tmp_path, GUARD, BOTH, torch).reason == reason
    assert seen(tmp_path, GUARD, BOTH, "2.11.0").reason is None


def test_a_library_for_another_python_is_not_one_that_is_left_out(tmp_path: Path) -> None:
    other = {**BOTH, "c.cpython-310-x86_64-linux-gnu.so": extension()}
    assert str(seen(tmp_path, GUARD, other).reason).startswith("leaves its libraries out")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(GUARD + "else:\n    load('b.so')", id="it loads one of them here"),
        pytest.param("if torch.__version__.startswith('2.11.0'):\n    load('a.so')", id="one is not loaded there"),
        pytest.param(
            "if torch.__version__.startswith('2.11.0'):\n    import foreign\n    load('a.so')\n    if foreign.more:\n"
            "        load('b.so')",
            id="one is only loaded there under a condition",
        ),
        pytest.param(
            "from .versions import good\nif good(torch.__version__):\n    load('a.so')\n    load('b.so')",
            id="the guard is in another file",
        ),
        pytest.param(
            "if torch.__version__ > '3' and os.environ.get('EYE'):\n    load('a.so')\n    load('b.so')",
            id="it is not loaded on any known torch",
        ),
    ],
)
def test_what_a_guard_leaves_open(tmp_path: Path, code: str) -> None:
    assert seen(tmp_path, code, BOTH).reason is None


def test_a_guarded_package_costs_little(tmp_path: Path) -> None:
    """Only the file that the import begins with is read, and no library."""
    files = {"eye/__init__.py": LOAD + GUARD, "eye/more.py": "words = 1\n" * 100_000}
    path = package_wheel(tmp_path, "eye", {f"eye/{name}": elf for name, elf in BOTH.items()}, files=files)
    read: list[str] = []

    class Recorded(zipfile.ZipFile):
        def open(self, name: zipfile.ZipInfo, *rest: Any, **words: Any) -> IO[bytes]:  # type: ignore[override]
            read.append(name.filename)
            return super().open(name, *rest, **words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zipfile, "ZipFile", Recorded)
        wheel = RemoteWheel(path=Path(path.name), stream=lambda: io.BytesIO(path.read_bytes()))
        choice = LinuxPlatform(Machine.X86_64).build_of("2.9.1")
        found = reject_quickly(wheel, choice, Session(folder=tmp_path / "store"), (3, 11), Machine.X86_64)
    assert found.reason is not None
    assert set(read) == {"eye-1.0.dist-info/METADATA", "eye/__init__.py"}


@pytest.mark.parametrize(
    ("code", "objects"),
    [
        pytest.param("load('a.so')", {"a.so": extension()}, id="it lacks nothing"),
        pytest.param(
            "try:\n    load('b.so')\n    load('a.so')\nexcept OSError:\n    pass",
            {"a.so": extension(**LACKS), "b.so": extension(needed=("libnowhere.so.1",))},
            id="guarded, and not reached if another does not load",
        ),
        pytest.param("def f():\n    load('a.so')", {"a.so": extension(**LACKS)}, id="on demand"),
        pytest.param(
            OTHERWISE,
            {"a2.so": extension(**LACKS), "a1.so": extension()},
            id="another variant loads",
        ),
        pytest.param(
            "try:\n    load('b.so')\nexcept OSError:\n    b = False\nelse:\n    load('a.so')",
            {"a.so": extension(**LACKS), "b.so": extension(needed=("libnowhere.so.1",))},
            id="it is not reached if another does not load",
        ),
        pytest.param(
            "load('a.so')",
            {
                "a.so": extension(undefined=uses(FROM_2_13), needed=("libshim.so", "libtorch_cpu.so")),
                "libshim.so": Elf(soname="libshim.so", defined=exports(FROM_2_13)),
            },
            id="a library of the package defines it",
        ),
        pytest.param("load('a.so')", {"a.so": extension(undefined=uses("_ZdlPvm"))}, id="not a symbol of torch"),
        pytest.param("load('a.so')", {"a.so": extension(undefined=uses("torch_nobody_has"))}, id="of no torch at all"),
        pytest.param("load('a.so')", {"a.so": extension(machine=183, **LACKS)}, id="for another machine"),
    ],
)
def test_versions_that_are_not_rejected_quickly(tmp_path: Path, code: str, objects: Mapping[str, Elf]) -> None:
    assert seen(tmp_path, code, objects).reason is None


def test_a_library_from_elsewhere_defines_nothing_of_torch(tmp_path: Path) -> None:
    """``auditwheel`` puts it there; it is not read, since it may be large."""
    needs = extension(undefined=uses(FROM_2_13), needed=("libjpeg-12.so.8", "libtorch_cpu.so"))
    found = seen(tmp_path, "load('a.so')", {"a.so": needs, "eye.libs/libjpeg-12.so.8": Elf()})
    assert found.reason is not None


def test_variants_of_a_library_that_loads_are_spare(tmp_path: Path) -> None:
    code = (
        "for n in (3, 2, 1):\n    try:\n        load(f'core{n}.so')\n        break\n    except OSError:\n        pass"
    )
    objects = {"core1.so": extension(), "core2.so": extension(), "core3.so": extension(**LACKS), "b1.so": extension()}
    found = seen(tmp_path, code, objects)
    assert found.loaded == {"eye/core3.so", "eye/core2.so"}
    assert found.spare == {"eye/core1.so"}


def test_a_version_that_is_not_reached_does_not_fail(tmp_path: Path) -> None:
    code = "from torch import version\nif torch.__version__.startswith('2.13'):\n    load('a.so')"
    assert str(seen(tmp_path, code, {"a.so": extension(**LACKS)}).reason).startswith("leaves its libraries out")
