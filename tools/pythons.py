"""Run the tests that need no torch on every supported Python of this machine, each in a virtual environment of its own.

    python -m tools.pythons            # all that are found: on PATH, and among the versions of pyenv
    python -m tools.pythons 3.10       # one

The environments stay in ``.pythons/``. Exits with 1 if a test fails, or if a Python that was named is not found.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TESTS: Final = ("tests/unit", "tests/property", "tests/golden", "tests/test_cases.py", "tests/test_hostile_input.py")


def supported() -> list[str]:
    """The Pythons that the metadata of the package name."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return re.findall(r"Programming Language :: Python :: (3\.[0-9]+)", text)


def interpreter(version: str) -> Path | None:
    """A Python of a version that starts: one of pyenv by its real path, since its stand-in on PATH may refuse."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [*sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}")), shutil.which(f"python{version}")]
    return next((Path(path) for path in candidates if path and _starts(path)), None)


def _starts(python: Path | str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def passes(version: str, python: Path) -> bool:
    """Install the package and run the tests."""
    folder = ROOT / ".pythons" / version
    ours = folder / "bin" / "python"
    commands: list[list[str | Path]] = [
        [python, "-m", "venv", folder],
        [ours, "-m", "pip", "install", "--quiet", "pip>=25.1"],
        [ours, "-m", "pip", "install", "--quiet", "--editable", ROOT, "--group", "test"],
        [ours, "-m", "pytest", "-q", "--numprocesses=2", "--dist=loadgroup", *TESTS],
    ]
    return all(subprocess.run(command, cwd=ROOT, check=False).returncode == 0 for command in commands)


def main() -> int:
    """Print what came of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="*", help="3.10, 3.11, … (default: all that are found)")
    named = parser.parse_args().version
    outcomes: dict[str, str] = {}
    for version in named or supported():
        python = interpreter(version)
        if python is None:
            outcomes[version] = "not found"
        else:
            print(f"Python {version}: {python}", flush=True)
            outcomes[version] = "passed" if passes(version, python) else "failed"
    for version, outcome in outcomes.items():
        print(f"Python {version}: {outcome}")
    bad = {"failed", "not found"} if named else {"failed"}
    return 1 if bad & set(outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
