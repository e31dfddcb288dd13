"""Extensions that are compiled as a package is imported: torch/utils/cpp_extension.py."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer, ImportOutcome, Raised
from tests.unit.python.packages import FakeWorld, reading_of

IMPORT = "import os\nfrom torch.utils.cpp_extension import load, load_inline\n"
CPP = IMPORT + "load('ops', [os.path.join(os.path.dirname(__file__), 'ops.cpp')])\n"
CUDA = IMPORT + "load(name='ops', sources=['ops.cpp', 'ops.cu'])\n"
INLINE = IMPORT + "load_inline('ops', 'int f();', cuda_sources='int f() { return 1; }')\n"
NO_CUDA = "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."
NO_NINJA = "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)"


def outcome(code: str, torch: str, cuda: str | None, tools: Collection[str] | None) -> ImportOutcome:
    around = Surroundings() if tools is None else Surroundings(has_tool=lambda name: name in tools)
    world = FakeWorld(torch_version=torch, cuda=cuda)
    return reading_of({"pkg/__init__.py": code, "pkg/ops.cpp": "", "pkg/ops.cu": ""}, world, around).imports[0]


@pytest.mark.parametrize(
    ("code", "torch", "cuda", "tools", "raised"),
    [  # what torch 2.13.0+cpu raises with such a PATH, and others by their source
        (CPP, "2.13.0+cpu", None, (), NO_NINJA),
        (CPP, "2.7.1+cpu", None, (), "RuntimeError: Ninja is required to load C++ extensions"),
        (CPP, "2.13.0+cpu", None, ("ninja",), "RuntimeError: Error building extension 'ops'?"),
        (CPP, "2.13.0+cpu", None, ("ninja", "c++"), None),
        (CUDA, "2.13.0+cpu", None, ("ninja", "c++", "CUDA"), NO_CUDA),
        (CUDA, "2.13.0+cpu", None, None, NO_CUDA),
        (INLINE, "2.13.0+cpu", None, ("ninja",), NO_CUDA),
        (CUDA, "2.13.0+cu130", "13.0", ("ninja", "c++"), NO_CUDA),
        (CUDA, "2.13.0+cu130", "13.0", ("ninja", "c++", "CUDA"), None),
        (CUDA.replace("])", "], with_cuda=False)"), "2.13.0+cpu", None, ("ninja", "c++"), None),
    ],
)
def test_what_compiling_raises_on_this_machine(
    code: str, torch: str, cuda: str | None, tools: Collection[str] | None, raised: str | None
) -> None:
    error = outcome(code, torch, cuda, tools).raised
    assert not isinstance(error, Answer)
    said = f"{error.exception}: {error.message}" if isinstance(error, Raised) else None
    assert said == raised


@pytest.mark.parametrize(
    ("code", "torch", "cuda", "tools", "needs"),
    [
        (CPP, "2.13.0+cpu", None, None, ["ops, which the import compiles, finds ninja, a C++ compiler"]),
        (CPP, "2.13.0+cpu", None, ("ninja", "c++"), []),
        (f"{IMPORT}try:\n    load('ops', ['ops.cpp'])\nexcept Exception:\n    pass\n", "2.13.0+cpu", None, None, []),
        (
            CUDA,
            "2.13.0+cu130",
            "13.0",
            None,
            ["ops, which the import compiles, finds ninja, a C++ compiler, the compiler of CUDA"],
        ),
    ],
)
def test_what_compiling_needs_on_another_machine(
    code: str, torch: str, cuda: str | None, tools: Collection[str] | None, needs: list[str]
) -> None:
    found = outcome(code, torch, cuda, tools)
    assert found.raised is None
    assert [need.why for need in found.needs] == needs
