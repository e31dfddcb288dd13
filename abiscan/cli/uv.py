"""``abiscan uv``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from abiscan.cli.common import FORCE, OWN_OPTIONS, errors_reported, install_checked
from abiscan.cli.options import cpu_option
from abiscan.cli.pip import CONTEXT
from abiscan.cli.process import print_notice
from abiscan.cli.project import gate_project, is_passed, replace_by, split_own

# The commands that install packages elsewhere than in a project.
_UNCHECKED = frozenset({("pip", "sync"), ("tool",)})


@click.command(context_settings=CONTEXT)
@cpu_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND ARGUMENTS...")
def uv(*, cpus: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Run uv, unless it would break an extension of torch.

    uv pip install is checked like pip install by abiscan pip. pip downloads the wheels for that, since uv has no
    command for it.

    Before uv sync, add, remove, lock and run, uv locks a copy of the project, and the new lock is compared with the old
    one, as by abiscan diff. If nothing becomes worse, uv runs as usual. Otherwise the project stays unchanged, byte for
    byte, and the smallest change that works is printed. Before uv tool install, what it would install is checked.

    uv pip sync and other commands of uv tool run unchecked, and a line says so. --force runs uv anyway.

    \b
    Examples:
      abiscan uv pip install torchaudio==2.8.0
      abiscan uv pip install --python .venv -r requirements.txt
      abiscan uv --cpu x86-64-v2 pip install torchvision
      abiscan uv add torchvision
      abiscan uv sync --extra train
      abiscan uv lock --upgrade-package torch

    \b
    Exit codes:
      those of uv, and
      1  something does not work with torch, or torch would change: nothing was installed
      2  usage error, or something that cannot be read: nothing was installed
      3  it is unclear what uv would install: nothing was installed
    """
    from abiscan.hooks.command_line import UV, read_command_line
    from abiscan.hooks.project_tools import UV as UV_PROJECTS
    from abiscan.hooks.uv import Uv
    from abiscan.inputs.environment import PythonEnvironment

    installer = Uv()

    def choose_environment(arguments: Sequence[str]) -> PythonEnvironment:
        return PythonEnvironment(python=installer.find_python(arguments), origin="chosen by uv")

    line = read_command_line([word for word in words if word not in OWN_OPTIONS], UV)
    gate_project(UV_PROJECTS, words, cpus)
    own, command = split_own(words)
    if command[:2] == ["tool", "install"]:
        from abiscan.hooks.uv_tool import check_tool

        with errors_reported():
            if not is_passed(lambda session: check_tool(installer, command[2:], session), cpus) and not own:
                print_notice(f"abiscan: nothing was installed; write {FORCE} before the command to go on anyway")
                sys.exit(1)
            replace_by(UV_PROJECTS, command)
    with errors_reported():
        # The absolute path: a program of that name in the current folder is never started.
        program = [installer.executable]
    # They run unchecked: refusing them would break scripts that have nothing to do with torch.
    if line.command in _UNCHECKED:
        name = " ".join(("uv", *line.command))
        problem = f"{name} is not checked; run abiscan doctor afterwards"
        print_notice(f"abiscan: {problem}")
    install_checked(installer, program, choose_environment, line, words, cpus)
