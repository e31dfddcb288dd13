"""``abiscan uv pip``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from abiscan.cli.common import install_checked
from abiscan.cli.pip import CONTEXT


@click.command(context_settings=CONTEXT)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="pip install ARGUMENTS...")
def uv(*, words: tuple[str, ...]) -> None:
    """Run uv pip install, unless it would break an extension of torch.

    Like abiscan pip, but with uv. pip downloads the wheels for the check, since uv has no command for that.

    \b
    Examples:
      abiscan uv pip install torchaudio==2.8.0
      abiscan uv pip install --python .venv -r requirements.txt

    \b
    Exit codes:
      those of uv, and
      1  something does not work with torch: nothing was installed
    """
    from abiscan.hooks.uv import Uv
    from abiscan.inputs.environment import PythonEnvironment

    installer = Uv()

    def chosen(arguments: Sequence[str]) -> PythonEnvironment:
        return PythonEnvironment(python=installer.python(arguments), origin="chosen by uv")

    if words[:1] == ("pip",):
        install_checked(installer, lambda: [installer.executable, "pip"], chosen, words[1:])
    else:
        install_checked(installer, lambda: [installer.executable], chosen, words)
