"""The proof, for those who ask for it: each module is imported for real, and compared with what was predicted.

This executes code of the environment, with all rights of the user. Nothing else does.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

import msgspec.structs

from abiscan.inputs import programs
from abiscan.inputs.session import Progress
from abiscan.results.doctor import Diagnosis, DistributionState, ImportTrial, ModuleState

SECONDS: Final = 120
"""How long an import may take."""

_IMPORT: Final = "import importlib, sys; importlib.import_module(sys.argv[1])"


def try_imports(diagnosis: Diagnosis, python: str | None, progress: Progress) -> Diagnosis:
    """Import each module of a diagnosis, in a process of its own with a limit of time; return what became of it.

    :param python: the interpreter of the environment, None for the running one
    """
    states = [_try_modules(state, python or sys.executable, progress) for state in diagnosis.distributions]
    return msgspec.structs.replace(diagnosis, distributions=tuple(states))


def _try_modules(state: DistributionState, python: str, progress: Progress) -> DistributionState:
    modules = []
    for module in state.modules:
        progress(f"importing {module.name}")
        modules.append(msgspec.structs.replace(module, imported=_try_import(module, python)))
    return msgspec.structs.replace(state, modules=tuple(modules))


def _try_import(module: ModuleState, python: str) -> ImportTrial:
    command = programs.python_command(python, "-c", _IMPORT, module.name)
    try:
        # Without a terminal, what asks a question gets no answer and goes on.
        done = programs.run_program(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return ImportTrial(works=None, error=f"did not finish within {SECONDS} s")
    except OSError as error:
        return ImportTrial(works=None, error=f"cannot be started: {error.strerror}")
    if not done.returncode:
        return ImportTrial(works=True)
    if done.returncode < 0:
        return ImportTrial(works=False, error=f"the process died of {signal.Signals(-done.returncode).name}")
    lines = done.stderr.strip().splitlines()
    return ImportTrial(works=False, error=lines[-1] if lines else f"it ended with code {done.returncode}")
