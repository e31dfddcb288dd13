"""Commands of a project's tool: checked before it changes anything."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from abiscan.cli.common import FORCE, errors_reported, show_progress
from abiscan.cli.process import print_notice
from abiscan.errors import UnclearPlanError
from abiscan.inputs import programs, temporary
from abiscan.inputs.session import Session

if TYPE_CHECKING:
    from abiscan.hooks.project_gate import ProjectCheck
    from abiscan.hooks.project_tool import ProjectCommand, ProjectTool

_WITH_OPTIONS_OF_THEIR_OWN = ("run", "tool", "shell")
"""Commands behind which every word is theirs: uv tool install has an option --force, too."""


def run_checked(tool: ProjectTool, words: Sequence[str], cpus: tuple[str, ...]) -> NoReturn:
    """Run a tool that does nothing but lock projects and install from their locks: see ``gate_project``."""
    gate_project(tool, words, cpus)
    replace_by(tool, split_own(words)[1])


def gate_project(tool: ProjectTool, words: Sequence[str], cpus: tuple[str, ...]) -> None:
    """Check a command that locks a project, and then run it; return for other commands.

    :param words: what the user typed
    :param cpus: the processors that what is installed has to run on, as the user named them
    """
    from abiscan.hooks.project_tool import read_command

    own, command_words = split_own(words)
    with errors_reported():
        try:
            command = read_command(tool, command_words)
            if command is None:
                return
            passed = is_passed(functools.partial(_check, tool, command), cpus)
        except UnclearPlanError as error:
            if not own:
                raise
            print_notice(f"abiscan: {error.subject}: {error.problem}; it runs without a check")
            passed = True
        if not passed and not own:
            print_notice(
                f"abiscan: the project is unchanged, and nothing was installed; write {FORCE} before the command to go"
                " on anyway"
            )
            sys.exit(1)
        replace_by(tool, command_words)


def _check(tool: ProjectTool, command: ProjectCommand, session: Session) -> ProjectCheck:
    from abiscan.hooks.project_gate import check_project

    return check_project(tool, command, session)


def split_own(words: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether the user insists, and the other words."""
    end = next((place for place, word in enumerate(words) if word in _WITH_OPTIONS_OF_THEIR_OWN), len(words))
    before, after = list(words[:end]), list(words[end:])
    return FORCE in before, [word for word in before if word != FORCE] + after


def is_passed(check: Callable[[Session], ProjectCheck], cpus: tuple[str, ...]) -> bool:
    """Run a check in a process of its own, and print what it finds; return whether nothing speaks against it."""
    from abiscan.cli import process, supervisor
    from abiscan.inputs.isolation import Confinement

    def run() -> bool:
        from abiscan.hooks.install import InstallerError

        with show_progress("") as progress:
            try:
                outcome = check(Session.of_user(progress, cpus=cpus))
            except InstallerError as error:
                print_notice(str(error), nl=False)
                sys.exit(error.code)
        for line in (*outcome.notes, *outcome.problems):
            print_notice(f"abiscan: {line}")
        return not outcome.problems

    if supervisor.is_possible() and not click.get_current_context().find_root().params["no_isolation"]:
        # The tool runs in it, which writes and connects, so only time and memory are limited.
        return bool(supervisor.result_of(run, Confinement.NONE))
    with process.scratch_folder():
        return run()


def replace_by(tool: ProjectTool, words: Sequence[str]) -> NoReturn:
    """Let the tool take the place of this process."""
    sys.stdout.flush()
    temporary.adopt_orphans(orphans=False)  # it would not know that they are its own
    programs.replace_process([tool.executable, *words])
