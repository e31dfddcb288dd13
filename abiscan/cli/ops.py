"""``abiscan ops``."""

from __future__ import annotations

from pathlib import Path

import click

from abiscan.cli.common import cache_folder, errors_reported, output_to
from abiscan.inventory import inventory
from abiscan.releases.store import Store


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Form.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there.")
@click.option("-v", "--verbose", is_flag=True, help="Show sources, C++ signatures and inferred schemas, too.")
def ops(*, target: Path, form: str, output: Path | None, verbose: bool) -> None:
    """What it registers: libraries, operators, kernels, fallbacks, classes.

    TARGET is a shared object, a wheel or a folder. Its initialisers are emulated; nothing of it runs on this machine.
    What could not be seen is listed as a gap.

    \b
    Examples:
      abiscan ops _C.so
      abiscan ops torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl --format json
    """
    with errors_reported():
        read, inventories = inventory(target, Store(cache_folder()))
    with output_to(output) as stream:
        if form == "json":
            from abiscan.report import ops_json  # noqa: PLC0415 - see cli.check

            stream.write(ops_json.render(read.name, inventories, single=target.is_file() and target.suffix != ".whl"))
        else:
            from rich.console import Console  # noqa: PLC0415

            from abiscan.report import ops_text  # noqa: PLC0415

            ops_text.render(read.name, inventories, Console(file=stream, highlight=False), verbose=verbose)
