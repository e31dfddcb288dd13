"""``abiscan cache``."""

from __future__ import annotations

import re

import click

from abiscan.cache import cache_folder
from abiscan.cli.common import errors_reported
from abiscan.inputs.session import Session
from abiscan.regex import regex
from abiscan.words import plural

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_SIZE = regex(r"(\d{1,9})([KMG]?)B?", re.IGNORECASE)


class _Size(click.ParamType):  # type: ignore[type-arg]  # not generic in older releases of click
    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes in ``500M``."""
        match = _SIZE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value} is not a size such as 500M or 2G", param, ctx)
        return int(match[1]) * _UNITS[match[2].upper()]


@click.command()
@click.option("--clear", is_flag=True, help="Delete everything in the cache.")
@click.option(
    "--limit", type=_Size(), metavar="SIZE", help="Keep at most this much from now on: 500M, 2G. Default: 1G."
)
def cache(*, clear: bool, limit: int | None) -> None:
    """Show, clear or limit the cache.

    It holds results, pages of package indexes, and the operators of torches. What was used least recently is deleted
    first.

    \b
    Examples:
      abiscan cache
      abiscan cache --limit 200M
      abiscan cache --clear
    """
    folder = Session.of_user().folder
    with errors_reported():
        if limit is not None:
            cache_folder.set_limit(folder, limit)
        count, size = cache_folder.measure_usage(folder)
        if clear:
            cache_folder.delete_all(folder)
    # Read again: it is the one that counts from now on, whether or not it was just set.
    most = cache_folder.read_limit(folder)
    click.echo(
        f"{'deleted from ' if clear else ''}{folder}: {plural(count, 'file')}, {size / 1e6:.1f} MB"
        f"{'' if clear else f' (limit {most / 1e6:.0f} MB)'}"
    )
