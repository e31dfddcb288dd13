"""Which functions a target version adds to an extension of the stable ABI, by compiling one source for several."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

import abiscan
from abiscan.extension.stability import Stability, Tie
from abiscan.inputs.version import TorchVersion
from tests import live_torch

SOURCE = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <optional>
using torch::stable::Tensor;
using torch::headeronly::ScalarType;

std::optional<Tensor> like(Tensor x, ScalarType type) {
  if (x.scalar_type() != type) return std::nullopt;
  return torch::stable::empty_like(x);
}
STABLE_TORCH_LIBRARY(abiscan_target, m) { m.def("like(Tensor x, ScalarType type) -> Tensor?"); }
STABLE_TORCH_LIBRARY_IMPL(abiscan_target, CompositeExplicitAutograd, m) { m.impl("like", TORCH_BOX(&like)); }
"""
LOOKS_UP = """
#include <dlfcn.h>
extern int aoti_torch_warn(void);
const char* said(void) {
  const char* (*what)(void) = (const char* (*)(void))dlsym(RTLD_DEFAULT, "torch_exception_get_what");
  return aoti_torch_warn() && what ? what() : "torch_exception_get_what_or_so";
}
"""


def compiled(folder: Path, source: str, *options: str, language: str = "c++") -> Stability:
    output = folder / "_C.so"
    command = ["g++", "-x", language, "-", "-shared", "-fPIC", "-O1", *options, "-o", str(output)]
    subprocess.run(command, input=source, text=True, check=True, timeout=600)
    return abiscan.stable(output).rows[0].stability


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.skipif(live_torch.version() != "2.13.0", reason="needs torch 2.13.0 in this interpreter")
@pytest.mark.parametrize(
    ("target", "minimum"),
    [("2.10", "2.10.0"), pytest.param("2.11", "2.11.0", marks=pytest.mark.long), ("2.13", "2.13.0")],
)
def test_the_same_source_needs_the_torch_that_it_is_compiled_for(tmp_path: Path, target: str, minimum: str) -> None:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    major, minor = map(int, target.split("."))
    found = compiled(
        tmp_path,
        SOURCE,
        "-std=c++20",
        f"-DTORCH_TARGET_VERSION=0x{major:02x}{minor:02x}000000000000",
        f"-I{Path(spec.origin).parent / 'include'}",
    )
    assert found.state is Tie.STABLE
    assert found.minimum == TorchVersion(minimum)
    assert found.rebuilt == TorchVersion("2.9.0")


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_function_that_is_looked_up_at_run_time_is_not_needed(tmp_path: Path) -> None:
    found = compiled(tmp_path, LOOKS_UP, language="c")
    assert found.state is Tie.STABLE
    assert found.looked_up == ("torch_exception_get_what",)
    assert found.minimum == TorchVersion("2.7.0")  # aoti_torch_warn
    assert found.target_below == TorchVersion("2.13.0")
