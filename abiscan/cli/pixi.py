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

    Of pixi install, add, remove, update, lock, run and shell, pixi locks a copy of the project, and what becomes worse
    by that lock is found out as by abiscan diff. If nothing does, pixi runs as usual. Otherwise the project stays as it
    is, byte for byte, and the smallest change that works is printed, if it is one of packages of an index.

    Commands that install nothing in a project run unchecked. What is not understood is refused. --force before the
    command runs pixi all the same.

    \b
    Examples:
      abiscan pixi install
      abiscan pixi add --pypi torchvision
      abiscan pixi run -e train python train.py

    \b
    Exit codes:
      those of pixi, and
      1  something does not work with torch: the project is as before
      2  usage error, or something that cannot be read: the project is as before
      3  it is unclear what pixi would do: the project is as before
    """
    from abiscan.hooks.project_tools import PIXI

    run_checked(PIXI, words, cpus)
