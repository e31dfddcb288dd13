"""``abiscan poetry``."""

from __future__ import annotations

import click

from abiscan.cli.options import cpu_option
from abiscan.cli.pip import CONTEXT
from abiscan.cli.project import run_checked


@click.command(context_settings=CONTEXT)
@cpu_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND ARGUMENTS...")
def poetry(*, cpus: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Run poetry, unless it would break an extension of torch.

    Before poetry add, remove, update and lock, poetry locks a copy of the project, and the new lock is compared with
    the old one, as by abiscan diff; before poetry install and sync, the lock is checked as it is. If nothing becomes
    worse, poetry runs as usual. Otherwise the project stays unchanged, byte for byte, and the smallest change that
    works is printed.

    Commands that install nothing in a project run unchecked. Commands that are not understood are refused. --force
    before the command runs it anyway.

    \b
    Examples:
      abiscan poetry install --with train
      abiscan poetry add torchvision
      abiscan poetry update torch

    \b
    Exit codes:
      those of poetry, and
      1  something does not work with torch: the project is unchanged
      2  usage error, or something that cannot be read: the project is unchanged
      3  it is unclear what poetry would do: the project is unchanged
    """
    from abiscan.hooks.project_tools import POETRY

    run_checked(POETRY, words, cpus)
