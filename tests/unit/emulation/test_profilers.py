"""Factories of profilers for PrivateUse1 (``REGISTER_PRIVATEUSE1_PROFILER``, from torch 2.12 on)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from tests import live_torch
from tests.oracle.test_samples import TORCH

# What torch/csrc/profiler/standalone/privateuse1_profiler.h declares, without Kineto's headers, which few have.
SOURCE = """
#include <functional>
#include <memory>
namespace libkineto { class IActivityProfiler { public: virtual ~IActivityProfiler() = default; }; }
namespace torch::profiler::impl {
struct PrivateUse1ProfilerRegistry {
  static PrivateUse1ProfilerRegistry& instance();
  void registerFactory(std::function<std::unique_ptr<libkineto::IActivityProfiler>()> factory);
};
}
struct Register {
  Register() {
    torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
        []() -> std::unique_ptr<libkineto::IActivityProfiler> { return nullptr; });
  }
};
static Register first, second;
"""
LOAD = """
import ctypes, sys, torch
ctypes.CDLL(f"{torch.__path__[0]}/lib/libtorch_cpu.so", ctypes.RTLD_GLOBAL)
ctypes.CDLL(sys.argv[1])
"""
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


def _build(folder: Path) -> Path:
    (folder / "profilers.cpp").write_text(SOURCE)
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "profilers.cpp", "-o", "profilers.so"]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "profilers.so"


@pytest.mark.slow
def test_each_is_an_entry(tmp_path: Path) -> None:
    file = ElfFile.open(_build(tmp_path))
    found = recover(file, file.facts())
    assert [(entry.what, entry.key) for entry in found.registries] == [("privateuse1-activity-profiler", None)] * 2
    assert found.gaps == ()


@pytest.mark.slow
@pytest.mark.skipif(live_torch.version() != TORCH, reason=f"needs torch {TORCH}")
def test_torch_replaces_the_first_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOAD, str(_build(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("PrivateUse1 profiler factory already registered, overwriting") == 1
