"""``abiscan stamp``."""

from __future__ import annotations

from pathlib import Path

import click

from abiscan.cli.common import cache_folder, errors_reported, torch_choice, working
from abiscan.inputs.interpreter import of_environment
from abiscan.inputs.store import Store


@click.command()
@click.argument("wheel", type=click.Path(path_type=Path))
@click.option("--torch", metavar="SPEC", help="The torch it was built for. Default: that of the environment.")
@click.option("--python", metavar="EXE", help="Take the torch of this Python instead.")
def stamp(*, wheel: Path, torch: str | None, python: str | None) -> None:
    """Write into a wheel what it relies on in torch, for its guard to check at import.

    Symbols, numbers of dispatch keys and schemas of operators go into a small file beside the guard in the wheel,
    which has to be there (abiscan guard --write). The wheel must load on the torch that it was built for. It is
    replaced whole or not at all; the same wheel and torch give the same bytes.

    \b
    Examples:
      abiscan stamp dist/pkg-1.0-cp311-cp311-linux_x86_64.whl
      abiscan stamp dist/pkg-1.0-cp311-cp311-linux_x86_64.whl --torch 2.9.1
    """
    from abiscan.hooks.stamp import stamp as write
    from abiscan.pipelines import check as scan

    if torch and python:
        raise click.UsageError("--torch and --python exclude each other")
    choice = torch_choice(torch) if torch else scan.torch_of(python or of_environment())
    with errors_reported(), working("stamping") as progress:
        written = write(wheel, choice, Store(cache_folder()), progress)
    contents = f"{written.symbols} symbols, {written.keys} dispatch keys, {written.operators} operators"
    click.echo(f"{wheel}: {', '.join(written.members)}: {contents} of torch {written.built_for}")
