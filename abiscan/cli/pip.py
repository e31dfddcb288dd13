"""``abiscan pip``."""

from __future__ import annotations

import os

import click
import msgspec.structs

from abiscan.cli.common import OWN_OPTIONS, errors_reported, install_checked
from abiscan.cli.options import cpu_option, python_option

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}


@click.command(context_settings=CONTEXT)
@python_option("The Python to install for, or its environment. Default: the active environment.")
@cpu_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="install ARGUMENTS...")
def pip(*, python: str | None, cpus: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Run pip install, unless it would break an extension of torch.

    abiscan asks pip what it would install. It checks every wheel with compiled extensions against the torch that will
    then be installed, the extensions that are already installed if torch changes, and the packages that import what is
    replaced. If something would not work then, nothing is installed, and it prints a command that works, if there is
    one. Otherwise pip runs as usual, and installs the files that were checked. What does not work already is no reason
    to refuse. Nothing is installed either if it is unclear what pip would install.

    If torch itself would change, and no requirement, file of requirements or wheel names torch, abiscan asks on a
    terminal, and refuses elsewhere.

    All arguments go to pip, except --force, which installs anyway after printing the problems, and
    --allow-torch-change, which installs although torch changes. Commands other than install go to pip unchanged.

    \b
    Examples:
      abiscan pip install torchaudio==2.8.0
      abiscan pip install -r requirements.txt -c constraints.txt
      abiscan pip install --dry-run --upgrade torch
      abiscan pip install --force torchvision==0.20.1
      abiscan pip install --allow-torch-change torchvision==0.20.1
      abiscan pip --python ~/venv/bin/python install torchvision
      abiscan pip --cpu x86-64-v2 install torchvision

    \b
    Exit codes:
      those of pip, and
      1  something does not work with torch, or torch would change: nothing was installed
      2  usage error, or something that cannot be read: nothing was installed
      3  it is unclear what pip would install: nothing was installed
    """
    from abiscan.hooks import arguments
    from abiscan.hooks.command_line import PIP, read_command_line
    from abiscan.hooks.pip import Pip
    from abiscan.inputs import packages
    from abiscan.inputs.environment import choose_environment

    line = read_command_line([word for word in words if word not in OWN_OPTIONS], PIP)
    configured = os.environ.pop("PIP_PYTHON", None)  # pip would install for that one, whatever Python runs it
    named = python or next(reversed(arguments.option_values(line.arguments, "--python")), configured)
    # From here on, ``chosen`` is the interpreter, whatever way it was named in. After the command, pip refuses the
    # option.
    if arguments.has_option(line.arguments, "--python"):
        line = msgspec.structs.replace(line, arguments=tuple(arguments.drop_options(line.arguments, "--python")))
        words = (*line.command, *line.arguments, *(word for word in words if word in OWN_OPTIONS))
    with errors_reported():
        chosen = choose_environment(named)
        program = packages.pip_command(chosen.python)
    install_checked(Pip(chosen.python, named=named), program, lambda _: chosen, line, words, cpus)
