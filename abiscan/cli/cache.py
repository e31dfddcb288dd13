"""``abiscan cache``."""

from __future__ import annotations

import click

from abiscan.cli.common import errors_reported
from abiscan.inputs.session import Session
from abiscan.words import plural


@click.command()
@click.option("--clear", is_flag=True, help="Delete everything in the cache.")
def cache(*, clear: bool) -> None:
    """Show or clear the cache of large libraries and torch operators.

    \b
    Examples:
      abiscan cache
      abiscan cache --clear
    """
    store = Session.of_user().store
    with errors_reported():
        count, size = store.clear() if clear else store.usage()
    libraries = plural(count, "library", "libraries")
    click.echo(f"{'deleted from ' if clear else ''}{store.folder}: {libraries}, {size / 1e6:.1f} MB")
