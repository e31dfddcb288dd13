"""``abiscan pip``."""

from __future__ import annotations

import click

from abiscan.cli.common import errors_reported, install_checked
from abiscan.cli.options import python_option

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}


@click.command(context_settings=CONTEXT)
@python_option("The Python to install for, or its environment. Default: the active environment.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="install ARGUMENTS...")
def pip(*, python: str | None, words: tuple[str, ...]) -> None:
    """Run pip install, unless it would break an extension of torch.

    abiscan asks pip what it would install. It checks every wheel with compiled extensions against the torch that will
    then be installed, and the extensions that are already installed if torch changes. If something
    would not work then, nothing is installed, and it prints a command that works, if there is one. Otherwise pip runs
    as usual. What does not work already is no reason to refuse.

    All arguments go to pip, except --force, which installs anyway after printing the problems. Commands other than
    install go to pip unchanged.

    \b
    Examples:
      abiscan pip install torchaudio==2.8.0
      abiscan pip install -r requirements.txt -c constraints.txt
      abiscan pip install --dry-run --upgrade torch
      abiscan pip install --force torchvision==0.20.1
      abiscan pip --python ~/venv/bin/python install torchvision

    \b
    Exit codes:
      those of pip, and
      1  something does not work with torch: nothing was installed
    """
    from abiscan.hooks.pip import Pip
    from abiscan.inputs import packages
    from abiscan.inputs.environment import environment

    with errors_reported():
        chosen = environment(python)
    installer = Pip(chosen.python, named=python)
    install_checked(installer, lambda: packages.pip(chosen.python), lambda _: chosen, words)
