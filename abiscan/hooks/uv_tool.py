"""What ``uv tool install`` would install: uv resolves it as a file of pinned requirements, which is then examined."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec.structs

from abiscan.environments.locked import check_lock, list_systems
from abiscan.errors import UnclearPlanError
from abiscan.hooks.fitting import named_index
from abiscan.hooks.install import InstallerError
from abiscan.hooks.project_copy import resolving_variables
from abiscan.hooks.project_gate import ProjectCheck
from abiscan.hooks.project_tool import Meaning, options_of, take_options
from abiscan.hooks.project_tools import UV
from abiscan.hooks.uv import Uv
from abiscan.inputs import programs
from abiscan.inputs.session import Session
from abiscan.locks.model import ProjectPart
from abiscan.locks.pinned_requirements import read_pinned
from abiscan.locks.platform_names import python_of
from abiscan.results.doctor import DistributionState
from abiscan.results.package import PackageVerdict
from abiscan.words import first_line

_OPTIONS: Final = {
    **{name: option for name, option in UV.options.items() if option.meaning is Meaning.RESOLVING},
    **options_of({Meaning.CHANGING: "-w= --with=", Meaning.INSTALLING: "--force --reinstall --compile-bytecode"}),
}
_FAILING: Final = (PackageVerdict.IMPORT_FAILS, PackageVerdict.CORRUPTS)
_SHOWS: Final = ("-h", "--help")


def check_tool(uv: Uv, words: Sequence[str], session: Session) -> ProjectCheck:
    """Check what ``uv tool install`` would install.

    :param words: the words after it
    :raises InstallerError: uv itself fails
    :raises UnclearPlanError: it is not clear what uv would do
    :raises AbiscanError: what it would install cannot be read
    """
    if set(_SHOWS) & set(words):
        return ProjectCheck()
    names: list[str] = []
    pairs: list[tuple[str, Meaning, str | None]] = []
    remainder = iter(words)
    for word in remainder:
        if word.startswith("-") and word != "-":
            pairs += take_options("uv", word, remainder, _OPTIONS)
        else:
            names.append(word)
    wanted = [*names, *(value for _, meaning, value in pairs if meaning is Meaning.CHANGING and value)]
    if len(names) != 1 or any("@" in name for name in wanted):
        raise UnclearPlanError("uv", f"what uv tool install {' '.join(words)} would install is not understood")
    chosen = ((option, value) for option, meaning, value in pairs if meaning is Meaning.RESOLVING)
    resolving = [word for pair in chosen for word in pair if word is not None]
    session = msgspec.structs.replace(session, index=named_index(uv.index_options(resolving)))
    session.progress("resolving what would be installed")
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        path = Path(folder, "requirements.txt")
        command = [uv.executable, "pip", "compile", "-", "--no-header", "--no-annotate", "--generate-hashes"]
        done = programs.run_program(
            [*command, "--output-file", str(path), *resolving],
            env=resolving_variables(),
            input="\n".join(wanted),
            capture_output=True,
        )
        if done.returncode:
            raise InstallerError(done.returncode, done.stderr)
        lock = read_pinned(path)
        asked = [value for option, _, value in pairs if option in ("-p", "--python") and value]
        pythons = [python_of(asked[-1])] if asked and asked[-1][:1].isdigit() else []
        report = check_lock(lock, list_systems(lock, pythons, [], ProjectPart()), ProjectPart(), session)
    states = [item for state in report.environments for item in state.distributions]
    problems = [f"{item} would not work: {first_line(item.error or '')}" for item in states if item.verdict in _FAILING]
    notes = [_describe_doubt(item) for item in states if item.verdict is PackageVerdict.UNKNOWN]
    return ProjectCheck(problems=tuple(dict.fromkeys(problems)), notes=tuple(dict.fromkeys(notes)))


def _describe_doubt(item: DistributionState) -> str:
    return f"{item} could not be checked: {first_line(item.error or '')}"
