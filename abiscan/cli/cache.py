"""``abiscan cache``."""

from __future__ import annotations

import click

from abiscan.cli.common import errors_reported
from abiscan.inputs.session import Session


@click.command()
@click.option("--clear", is_flag=True, help="Delete what is kept.")
def cache(*, clear: bool) -> None:
    """What is kept between runs, and where.

    \b
    Examples:
      abiscan cache
      abiscan cache --clear
    """
    store = Session.of_user().store
    with errors_reported():
        count, size = store.clear() if clear else store.usage()
    what = "1 library" if count == 1 else f"{count} libraries"
    click.echo(f"{'deleted from ' if clear else ''}{store.folder}: {what}, {size / 1e6:.1f} MB")
