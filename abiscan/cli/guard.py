"""``abiscan guard``."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from abiscan.cli.common import errors_reported, output_to


@click.command()
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write the guard to this file, or into this folder. Default: print it.",
)
def guard(*, write: Path | None) -> None:
    """The import-time guard: one file to vendor, which tells users in one line that torch does not fit.

    Put it into the package, call it first thing in its __init__.py, and stamp each wheel:

    \b
      from . import _abiscan_guard
      _abiscan_guard.check()

    \b
    Examples:
      abiscan guard --write src/pkg/
      abiscan stamp dist/*.whl
      ABISCAN_GUARD=details python -c 'import pkg'
    """
    from abiscan.hooks import guard as source
    from abiscan.hooks.stamp import GUARD

    path = write / GUARD if write and write.is_dir() else write
    with errors_reported(), output_to(path) as stream:
        stream.write(inspect.getsource(source))
