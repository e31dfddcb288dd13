"""``abiscan uv sync``, ``add``, ``remove``, ``lock``, ``run`` and ``tool install``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from abiscan.cli.common import FORCE, errors_reported, show_progress
from abiscan.cli.process import print_notice
from abiscan.errors import UnclearPlanError
from abiscan.inputs import programs, temporary
from abiscan.inputs.session import Session

if TYPE_CHECKING:
    from abiscan.hooks.uv import Uv


def gate_project(uv: Uv, words: Sequence[str], cpus: tuple[str, ...]) -> None:
    """Check a command of uv that locks a project or installs a tool, and then run it; return for other commands.

    :param words: what the user typed
    :param cpus: the processors that what is installed has to run on, as the user named them
    """
    from abiscan.hooks.uv_project import read_uv_command

    own, command_words = _split_own(words)
    with errors_reported():
        try:
            command = read_uv_command(command_words)
        except UnclearPlanError as error:
            if not own:
                raise
            print_notice(f"abiscan: {error.subject}: {error.problem}; it runs without a check")
            _replace(uv, command_words)
        is_tool = command_words[:2] == ["tool", "install"]
        if command is None and not is_tool:
            return

        def check() -> bool:
            from abiscan.hooks.install import InstallerError
            from abiscan.hooks.project_gate import check_project
            from abiscan.hooks.uv_tool import check_tool

            with show_progress("") as progress:
                try:
                    session = Session.of_user(progress, cpus=cpus)
                    if command is None:
                        outcome = check_tool(uv, command_words[2:], session)
                    else:
                        outcome = check_project(uv, command, session)
                except InstallerError as error:
                    print_notice(str(error), nl=False)
                    sys.exit(error.code)
            for line in (*outcome.notes, *outcome.problems):
                print_notice(f"abiscan: {line}")
            return not outcome.problems

        if not _run_apart(check) and not own:
            before = "" if is_tool else "the project is as before, and "
            print_notice(f"abiscan: {before}nothing was installed; write {FORCE} before the command to go on anyway")
            sys.exit(1)
        _replace(uv, command_words)


def _split_own(words: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether the user insists, and the other words: of those behind ``run`` or ``tool``, all."""
    # uv tool install has an option of that name, too.
    end = next((place for place, word in enumerate(words) if word in ("run", "tool")), len(words))
    before, after = list(words[:end]), list(words[end:])
    return FORCE in before, [word for word in before if word != FORCE] + after


def _run_apart(check: object) -> bool:
    from abiscan.cli import process, supervisor
    from abiscan.inputs.isolation import Confinement

    assert callable(check)
    if supervisor.is_possible() and not click.get_current_context().find_root().params["no_isolation"]:
        # uv runs in it, which writes and connects, so only time and memory are limited.
        return bool(supervisor.result_of(check, Confinement.NONE))
    with process.scratch_folder():
        return bool(check())


def _replace(uv: Uv, words: Sequence[str]) -> None:
    sys.stdout.flush()
    temporary.adopt_orphans(orphans=False)  # it would not know that they are its own
    programs.replace_process([uv.executable, *words])
