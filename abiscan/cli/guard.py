"""``abiscan guard``."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import click

from abiscan.cli.common import errors_reported, output_to


@click.command()
@click.option(
    "--write",
    type=click.Path(),
    metavar="PATH",
    help="Write the guard to this file or folder. Default: print it.",
)
def guard(*, write: str | None) -> None:
    """Write the import-time guard, a file to vendor into a package.

    If the running torch does not match, users get one clear line instead of a crash. Put the guard into the package,
    call it at the top of __init__.py, and stamp each wheel:

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

    # A trailing slash means a folder even if there is none yet: ``Path`` would drop it.
    path = Path(write) if write is not None else None
    if path is not None and (path.is_dir() or str(write).endswith(("/", os.sep))):
        path /= GUARD
    with errors_reported(), output_to(path, "--write") as stream:
        stream.write(inspect.getsource(source))
