"""``abiscan releases``."""

from __future__ import annotations

import click

from abiscan.releases.embedded import versions


@click.command()
def releases() -> None:
    """The torch releases inside the package: those that --torch takes by number.

    \b
    Example:
      abiscan releases
    """
    for version in versions():
        click.echo(version)
