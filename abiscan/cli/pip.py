"""``abiscan pip``."""

from __future__ import annotations

import click

from abiscan.cli.common import install_checked
from abiscan.cli.options import python_option

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}


@click.command(context_settings=CONTEXT)
@python_option("The Python to install for. Default: that of the active environment.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="install ARGUMENTS...")
def pip(*, python: str | None, words: tuple[str, ...]) -> None:
    """Run pip install, unless it would break an extension of torch.

    abiscan asks pip what it would install. It checks every wheel with compiled extensions against the torch that will
    then be installed, and the extensions that are already installed if torch changes. For each one that does not work,
    it prints one line with a way out, and nothing is installed. Otherwise pip runs as usual.

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
    from abiscan.inputs.interpreter import of_environment

    environment = python or of_environment()
    install_checked(Pip(environment), lambda: packages.pip(environment), words)
