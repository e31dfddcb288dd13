"""``abiscan pixi``."""

from __future__ import annotations

import click

from abiscan.cli.options import cpu_option
from abiscan.cli.pip import CONTEXT
from abiscan.cli.project import run_checked


@click.command(context_settings=CONTEXT)
@cpu_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND ARGUMENTS...")
def pixi(*, cpus: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Run pixi, unless it would break an extension of torch.

    Before pixi install, add, remove, update, lock, run and shell, pixi locks a copy of the project, and the new lock is
    compared with the old one, as by abiscan diff. If nothing becomes worse, pixi runs as usual. Otherwise the project
    stays unchanged, byte for byte, and the smallest change that works is printed, if packages of an index are enough.

    Commands that install nothing in a project run unchecked. Commands that are not understood are refused. --force
    before the command runs it anyway.

    \b
    Examples:
      abiscan pixi install
      abiscan pixi add --pypi torchvision
      abiscan pixi run -e train python train.py

    \b
    Exit codes:
      those of pixi, and
      1  something does not work with torch: the project is unchanged
      2  usage error, or something that cannot be read: the project is unchanged
      3  it is unclear what pixi would do: the project is unchanged
    """
    from abiscan.hooks.project_tools import PIXI

    run_checked(PIXI, words, cpus)
