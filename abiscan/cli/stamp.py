"""``abiscan stamp``."""

from __future__ import annotations

from pathlib import Path

import click

from abiscan.cli.common import cache_folder, errors_reported, torch_choice, working
from abiscan.inputs.interpreter import of_environment
from abiscan.inputs.store import Store
from abiscan.words import plural


@click.command()
@click.argument("wheel", type=click.Path(path_type=Path))
@click.option(
    "--torch", metavar="SPEC", help="The torch it was built for. Default: the torch of the current environment."
)
@click.option("--python", metavar="EXE", help="Use the torch of this Python.")
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
    from abiscan.pipelines import check as scan

    if torch and python:
        raise click.UsageError("--torch and --python cannot be combined")
    choice = torch_choice(torch) if torch else scan.torch_of(python or of_environment())
    with errors_reported(), working("stamping") as progress:
        written = write(wheel, choice, Store(cache_folder()), progress)
    contents = ", ".join(
        (
            plural(written.symbols, "symbol"),
            plural(written.keys, "dispatch key"),
            plural(written.operators, "operator"),
        )
    )
    click.echo(f"{wheel}: {', '.join(written.members)}: {contents} of torch {written.built_for}")
