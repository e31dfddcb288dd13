"""``abiscan uv pip``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from abiscan.cli.common import OWN_OPTIONS, errors_reported, install_checked
from abiscan.cli.options import cpu_option
from abiscan.cli.pip import CONTEXT
from abiscan.cli.process import print_notice

# The commands that install packages into the environment of the user, or one of their own.
_UNCHECKED = frozenset({("pip", "sync"), ("add",), ("remove",), ("sync",), ("run",), ("tool",)})


@click.command(context_settings=CONTEXT)
@cpu_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="pip install ARGUMENTS...")
def uv(*, cpus: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Run uv pip install, unless it would break an extension of torch.

    Like abiscan pip, but with uv. pip downloads the wheels for the check, since uv has no command for that. Other
    commands that install packages (uv pip sync, uv add, uv sync, uv run, uv tool) are not checked, and a line says so.

    \b
    Examples:
      abiscan uv pip install torchaudio==2.8.0
      abiscan uv pip install --python .venv -r requirements.txt
      abiscan uv --cpu x86-64-v2 pip install torchvision

    \b
    Exit codes:
      those of uv, and
      1  something does not work with torch, or torch would change: nothing was installed
      2  usage error, or something that cannot be read: nothing was installed
      3  it is unclear what uv would install: nothing was installed
    """
    from abiscan.hooks.command_line import UV, read_command_line
    from abiscan.hooks.uv import Uv
    from abiscan.inputs.environment import PythonEnvironment

    installer = Uv()

    def choose_environment(arguments: Sequence[str]) -> PythonEnvironment:
        return PythonEnvironment(python=installer.find_python(arguments), origin="chosen by uv")

    line = read_command_line([word for word in words if word not in OWN_OPTIONS], UV)
    with errors_reported():
        # The absolute path: a program of that name in the current folder is never started.
        program = [installer.executable]
    # They run all the same: to refuse them would break scripts that abiscan has nothing to say about.
    if line.command in _UNCHECKED or line.command[:1] in _UNCHECKED:
        name = " ".join(("uv", *line.command))
        problem = f"{name} is not checked, only uv pip install is; run abiscan doctor afterwards"
        print_notice(f"abiscan: {problem}")
    install_checked(installer, program, choose_environment, line, words, cpus)
