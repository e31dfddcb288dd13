"""The GPUs of this machine, as the tools of their drivers list them; none is required."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from abiscan.inputs import observed_fs, programs

_SECONDS: Final = 20
_QUERY: Final = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
_DRIVER_FILE: Final = Path("/sys/module/nvidia/version")
_HOST: Final = "gfx000"  # how rocm_agent_enumerator lists the processor


class NativeGpu(NamedTuple):
    """A GPU: its compute capability (``8.9``) or target (``gfx942``), and the version of NVIDIA's driver."""

    name: str
    target: str
    driver: str | None


def native_gpus() -> list[NativeGpu]:
    """Return the GPUs of this machine, without repetition; none if no tool knows any."""
    results = []
    for line in _run_tool(_QUERY):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3:
            results.append(NativeGpu(*fields))
    results += [NativeGpu(line, line, None) for line in _run_tool(("rocm_agent_enumerator",)) if line != _HOST]
    return list(dict.fromkeys(results))


def native_driver() -> str | None:
    """Return the version of NVIDIA's driver on this machine; None if there is none."""
    observed_fs.look_once()
    try:
        return _DRIVER_FILE.read_text("ascii").strip() or None
    except (OSError, UnicodeError):
        return None


def _run_tool(command: Sequence[str]) -> list[str]:
    import subprocess

    observed_fs.look_once()
    try:
        done = programs.run_program(command, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired, UnicodeError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []
