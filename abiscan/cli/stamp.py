"""``abiscan stamp``."""

from __future__ import annotations

from pathlib import Path

import click

from abiscan.cli.common import errors_reported, working
from abiscan.cli.options import python_option, refuse_both, torch_option
from abiscan.inputs.environment import with_torch
from abiscan.inputs.session import Session


@click.command()
@click.argument("wheel", type=click.Path(path_type=Path))
@torch_option("The torch it was built for. Default: the torch of the current environment.")
@python_option("Use the torch of this Python.")
def stamp(*, wheel: Path, torch: str | None, python: str | None) -> None:
    """Record in a wheel what it needs from torch.

    The guard in the wheel checks it at import. Symbols, dispatch key numbers and operator schemas go into a small file
    next to the guard, which the wheel must contain (abiscan guard --write). The wheel must load on the torch that it
    was built for. It is replaced atomically; the same wheel and torch give the same bytes.

    \b
    Examples:
      abiscan stamp dist/pkg-1.0-cp311-cp311-linux_x86_64.whl
      abiscan stamp dist/pkg-1.0-cp311-cp311-linux_x86_64.whl --torch 2.9.1
    """
    from abiscan.hooks.stamp import stamp as write
    from abiscan.torches.torch import TorchOf, torch_choice

    refuse_both("--torch", torch, "--python", python)
    choice = torch_choice(torch) if torch else TorchOf(with_torch(python).python)
    with errors_reported(), working("stamping") as progress:
        new_stamp = write(wheel, choice, Session.of_user(progress))
    contents = f"{new_stamp.symbols} symbols, {new_stamp.keys} dispatch keys, {new_stamp.operators} operators"
    click.echo(f"{wheel}: {', '.join(new_stamp.members)}: {contents} of torch {new_stamp.built_for}")
