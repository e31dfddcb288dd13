"""``abiscan releases``."""

from __future__ import annotations

import itertools
from typing import NoReturn

import click

from abiscan import release_data
from abiscan.cli.common import errors_reported
from abiscan.cli.process import print_notice
from abiscan.torches import embedded


@click.command()
@click.option("--update", is_flag=True, help="Install the newest abiscan-data for this abiscan, with pip.")
def releases(*, update: bool) -> None:
    """List the embedded torch releases, which --torch takes by number.

    Each line has a release number and the full versions of its builds; --torch takes both. If a machine has two builds
    of a release, the number alone means the CPU build.

    Releases that came out after this abiscan are in the package abiscan-data. --update installs it, and nothing else
    does.

    \b
    Examples:
      abiscan releases
      abiscan releases --update

    \b
    Exit codes:
      0  printed
      2  usage error, or there is no pip
      With --update: that of pip
    """
    if update:
        _install_data()
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
    data = f"data {release_data.used_version()}"
    print_notice(f"{len(builds)} builds in {sum(sizes.values()) / 1e6:.1f} MB ({data}): {contents}")
    installed, own = release_data.installed_version(), release_data.own_version()
    if installed and installed.format != own.format:
        print_notice(f"abiscan-data {installed} is not used: this abiscan reads {_requirement()} (update abiscan)")


def _install_data() -> NoReturn:
    from abiscan.inputs import packages, programs

    with errors_reported():
        pip = packages.pip_command(None)
    programs.replace_process([*pip, "install", "--upgrade", _requirement()])


def _requirement() -> str:
    """Return the versions of ``abiscan-data`` that are of the format of this abiscan."""
    data_format = release_data.own_version().format
    return f"abiscan-data>={data_format},<{data_format + 1}"
