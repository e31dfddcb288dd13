"""Records an environment: what its metadata say, what ``pip check`` says, and what the import of each module comes to.

    python -m tools.record_environment ~/venv tests/oracle/environments/NAME.json

Each top-level module of a distribution that uses torch is imported in a process of its own. The record is small, and
needs no wheel: ``tests/oracle/test_recorded_environments.py`` compares what is said of the metadata with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from abiscan.environments.examination import list_users
from abiscan.environments.model import WholeEnvironment, modules_of
from abiscan.inputs.environment import choose_environment
from abiscan.inputs.session import Session
from abiscan.verdict.package_reading import is_apart

_SECONDS = 300


def main(named: str, output: str) -> None:
    """Record one environment.

    :param named: its Python, or its folder
    :param output: the file
    """
    chosen = choose_environment(named)
    assert chosen.python is not None
    environment = WholeEnvironment.installed(chosen.python)
    check = _run(chosen.python, "-m", "pip", "check")
    users = list_users(environment, Session.of_user().files())
    record = {
        "python": _run(chosen.python, "-c", "import platform; print(platform.python_version())").stdout.strip(),
        "distributions": [
            {"name": item.name, "version": item.version, "requires": item.requires}
            for item in environment.distributions
        ],
        "pip_check": sorted(check.stdout.splitlines()) if check.returncode else [],
        "imports": [
            _import(chosen.python, item.name, module, str(chosen.prefix))
            for item in users
            for module in modules_of(item)
            if not is_apart(module)
        ],
    }
    Path(output).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _import(python: str, distribution: str, module: str, prefix: str) -> dict[str, Any]:
    done = _run(python, "-c", f"import {module}")
    lines = done.stderr.strip().splitlines()
    error = lines[-1].replace(f"{prefix}/", "") if done.returncode and lines else None
    return {"distribution": distribution, "module": module, "error": error}


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
