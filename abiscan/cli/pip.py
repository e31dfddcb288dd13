"""``abiscan pip``."""

from __future__ import annotations

import click

from abiscan.cli.common import install_checked

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}


@click.command(context_settings=CONTEXT)
@click.option("--python", metavar="EXE", help="The Python to install for. Default: the active environment's.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="install ARGUMENTS...")
def pip(*, python: str | None, words: tuple[str, ...]) -> None:
    """pip install, if what it brings fits the torch that will be there.

    pip is asked what it would install. Every wheel with compiled extensions is checked against the torch that will be
    there afterwards; so are extensions that are installed already, if torch changes. If something does not fit, there
    is one line about it with the way out, and nothing is installed; else pip does what it was told to.

    All arguments are pip's, but for --force, which stands for none of its own: what does not fit is said, and installed
    all the same. Other commands than install go to pip as they are.

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
      1  something does not fit: nothing was installed
    """
    from abiscan.hooks.pip import Pip
    from abiscan.inputs import packages
    from abiscan.inputs.interpreter import of_environment

    environment = python or of_environment()
    install_checked(Pip(environment), lambda: packages.pip(environment), words)
