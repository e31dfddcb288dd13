"""``abiscan ops``."""

from __future__ import annotations

from pathlib import Path

import click

from abiscan.cli.common import cache_folder, errors_reported, output_to, sources
from abiscan.interpreter import of_environment
from abiscan.releases.store import Store


@click.command()
@click.argument("target", required=False)
@click.option(
    "--torch",
    type=click.Path(path_type=Path),
    metavar="SPEC",
    help="What this torch has itself: its folder, or a wheel.",
)
@click.option("--live", is_flag=True, help="What a running torch has, Python's registrations included: it is imported.")
@click.option("--python", metavar="EXE", help="With --live: the Python whose torch it is. Default: this one.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Form.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there.")
@click.option("-v", "--verbose", is_flag=True, help="Show sources, C++ signatures and inferred schemas, too.")
def ops(
    *,
    target: str | None,
    torch: Path | None,
    live: bool,
    python: str | None,
    form: str,
    output: Path | None,
    verbose: bool,
) -> None:
    """What it registers: libraries, operators, kernels, fallbacks, classes.

    TARGET is a shared object, a wheel, a folder, NAME==VERSION or an installed package. Its initialisers are emulated;
    nothing of it runs on this machine. What could not be seen is listed as a gap.

    \b
    Examples:
      abiscan ops _C.so
      abiscan ops torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl --format json
      abiscan ops --torch ~/venv/lib/python3.11/site-packages/torch
      abiscan ops --live --python ~/venv/bin/python
    """
    if (target is not None) + (torch is not None) + live != 1:
        raise click.UsageError("give one of: a TARGET, --torch SPEC, --live")
    if python and not live:
        raise click.UsageError("--python goes with --live")
    if target is not None:
        _of_target(target, form, output, verbose=verbose)
    else:
        _of_torch(torch, python, form, output)


# The pipelines and views are imported when they are called: see cli.check.


def _of_target(word: str, form: str, output: Path | None, *, verbose: bool) -> None:
    from abiscan.inventory import inventory  # noqa: PLC0415

    with errors_reported(), sources([word], of_environment()) as (source,):
        read, inventories = inventory(source, Store(cache_folder()))
    single = isinstance(source, Path) and source.is_file() and source.suffix != ".whl"
    with output_to(output) as stream:
        if form == "json":
            from abiscan.report import ops_json  # noqa: PLC0415

            stream.write(ops_json.render(read.name, inventories, single=single))
        else:
            from rich.console import Console  # noqa: PLC0415

            from abiscan.report import ops_text  # noqa: PLC0415

            ops_text.render(read.name, inventories, Console(file=stream, highlight=False), verbose=verbose)


def _of_torch(path: Path | None, python: str | None, form: str, output: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415

    from abiscan.report import torch_ops  # noqa: PLC0415
    from abiscan.torches import live_operators, operators  # noqa: PLC0415

    with errors_reported():
        release, found = operators(path, Store(cache_folder())) if path else live_operators(python)
    with output_to(output) as stream:
        if form == "json":
            stream.write(torch_ops.as_json(release, found))
        else:
            torch_ops.print_text(release, found, Console(file=stream, highlight=False))
