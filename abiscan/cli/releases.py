"""``abiscan releases``."""

from __future__ import annotations

import itertools

import click

from abiscan.torches import embedded


@click.command()
def releases() -> None:
    """The torch releases inside the package: those that --torch takes by number.

    A line each: the number, then the builds by their full version, which --torch takes, too. Where there are two for
    one machine, the number alone means the build for CPUs.

    \b
    Example:
      abiscan releases
    """
    builds = embedded.builds()
    for version, same in itertools.groupby(builds, key=lambda build: build[0]):
        by_machine: dict[str, list[str]] = {}
        for _, machine, full in same:
            by_machine.setdefault(machine.value, []).append(full)
        words = (f"{machine} {', '.join(full)}" for machine, full in sorted(by_machine.items(), reverse=True))
        click.echo(f"{version!s:8}{'; '.join(words)}")
    sizes = embedded.sizes()
    kept = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())
    click.echo(f"{len(builds)} builds in {sum(sizes.values()) / 1e6:.1f} MB: {kept}", err=True)
