"""Commands that change projects and tools: what is checked, what is refused, and what is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from abiscan.cli import main
from abiscan.errors import UnclearPlanError
from abiscan.hooks import project_gate, uv_tool
from abiscan.hooks.install import InstallerError
from abiscan.hooks.project_gate import ProjectCheck
from abiscan.inputs import programs

FINE: Final = ProjectCheck(problems=(), notes=("1 package was checked",))
BROKEN: Final = ProjectCheck(problems=("pkg 1.0 does not work",), notes=())


class Tools:
    """Programs that are started in the place of abiscan, and what the check of a command comes to."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.started: list[list[str]] = []
        self.checked = 0
        self._patch = patch
        for name in ("pdm", "poetry", "uv"):
            (folder / name).touch(mode=0o755)
        patch.setenv("PATH", str(folder))

        def replace(words: list[str]) -> None:
            self.started.append([Path(words[0]).name, *words[1:]])
            raise SystemExit(0)

        patch.setattr(programs, "replace_process", replace)

    def run(self, line: str, outcome: ProjectCheck | Exception) -> Result:
        def check(*_: Any) -> ProjectCheck:
            self.checked += 1
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        self._patch.setattr(project_gate, "check_project", check)
        self._patch.setattr(uv_tool, "check_tool", check)
        return CliRunner().invoke(main, ["--no-isolation", *line.split()])


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    return Tools(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("pdm --force list --tree", ["pdm", "list", "--tree"]),
        ("poetry show torch", ["poetry", "show", "torch"]),
        ("pdm --force run tool --force", ["pdm", "run", "tool", "--force"]),  # the last word is the tool's
    ],
)
def test_a_command_that_installs_nothing_is_passed_on(line: str, program: list[str], tools: Tools) -> None:
    result = tools.run(line, BROKEN)
    assert (result.exit_code, tools.checked, tools.started) == (0, 0, [program])


@pytest.mark.parametrize("line", ["pdm add pkg", "poetry add pkg", "uv add pkg", "uv tool install pkg"])
def test_what_works_is_run_as_it_was_typed(line: str, tools: Tools) -> None:
    result = tools.run(line, FINE)
    assert (result.exit_code, tools.checked, tools.started) == (0, 1, [line.split()])
    assert result.stderr == "abiscan: 1 package was checked\n"


@pytest.mark.parametrize(
    ("line", "unchanged"),
    [
        ("pdm add pkg", "the project is unchanged, and nothing was installed"),
        ("uv tool install pkg", "nothing was installed"),
    ],
)
def test_what_does_not_work_is_refused_unless_the_user_insists(line: str, unchanged: str, tools: Tools) -> None:
    refused = tools.run(line, BROKEN)
    assert (refused.exit_code, tools.started) == (1, [])
    assert refused.stderr.splitlines() == [
        "abiscan: pkg 1.0 does not work",
        f"abiscan: {unchanged}; write --force before the command to go on anyway",
    ]
    program, *words = line.split()
    forced = tools.run(" ".join([program, "--force", *words]), BROKEN)
    assert (forced.exit_code, tools.started) == (0, [line.split()])
    assert forced.stderr == "abiscan: pkg 1.0 does not work\n"


def test_what_is_unclear_is_refused_unless_the_user_insists(tools: Tools) -> None:
    unclear = UnclearPlanError("pdm add", "what it would do is unclear", "type it otherwise")
    refused = tools.run("pdm add pkg", unclear)
    assert (refused.exit_code, tools.started) == (3, [])
    forced = tools.run("pdm --force add pkg", unclear)
    assert (forced.exit_code, tools.started) == (0, [["pdm", "add", "pkg"]])
    assert forced.stderr == "abiscan: pdm add: what it would do is unclear; it runs without a check\n"


def test_what_the_tool_itself_refuses_has_its_words_and_its_exit_code(tools: Tools) -> None:
    result = tools.run("pdm add pkg", InstallerError(4, "No matching version\n"))
    assert (result.exit_code, tools.started) == (4, [])
    assert result.stderr == "No matching version\n"
