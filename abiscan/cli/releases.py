"""``abiscan releases``."""

from __future__ import annotations

import itertools

import click

from abiscan.cli.process import print_notice
from abiscan.torches import embedded


@click.command()
def releases() -> None:
    """List the embedded torch releases, which --torch takes by number.

    Each line has a release number and the full versions of its builds; --torch takes both. If a machine has two builds
    of a release, the number alone means the CPU build.

    \b
    Example:
      abiscan releases
    """
    builds = embedded.builds()
    # The builds come sorted by release.
    for version, same in itertools.groupby(builds, key=lambda build: build[0]):
        by_machine: dict[str, list[str]] = {}
        for _, machine, full in same:
            by_machine.setdefault(machine.value, []).append(full)
        words = (f"{machine} {', '.join(full)}" for machine, full in sorted(by_machine.items(), reverse=True))
        click.echo(f"{version!s:8}{'; '.join(words)}")
    sizes = embedded.data_sizes()
    contents = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())
    print_notice(f"{len(builds)} builds in {sum(sizes.values()) / 1e6:.1f} MB: {contents}")
