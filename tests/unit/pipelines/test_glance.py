"""What a look at the beginnings of libraries shows, and what it leaves to a full check."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs.packages import RemoteWheel
from abiscan.inputs.session import Session
from abiscan.inputs.store import Store
from abiscan.pipelines.fit import release_build
from abiscan.pipelines.glance import Glance, glance
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
    choice = release_build(torch, Machine.X86_64)
    return glance(wheel, choice, Session(store=Store(tmp_path / "store")), (3, 11), Machine.X86_64)


def test_a_library_that_lacks_a_symbol(tmp_path: Path) -> None:
    found = seen(tmp_path, "load('a.so')", {"a.so": extension(**LACKS)})
    assert found.reason == f"import fails - eye/a.so: undefined symbol: {FROM_2_13}"


@pytest.mark.parametrize(
    ("code", "objects"),
    [
        pytest.param("load('a.so')", {"a.so": extension()}, id="it lacks nothing"),
        pytest.param("try:\n    load('a.so')\nexcept OSError:\n    pass", {"a.so": extension(**LACKS)}, id="guarded"),
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
def test_what_it_leaves_open(tmp_path: Path, code: str, objects: Mapping[str, Elf]) -> None:
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


def test_a_version_that_asks_for_the_version_of_torch(tmp_path: Path) -> None:
    code = "from torch import version\nif torch.__version__.startswith('2.13'):\n    load('a.so')"
    assert seen(tmp_path, code, {"a.so": extension(**LACKS)}).reason is None
