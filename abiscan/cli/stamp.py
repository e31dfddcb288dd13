"""``abiscan stamp``."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import click

from abiscan.cli.common import errors_reported, show_progress
from abiscan.cli.options import python_option, refuse_both, torch_option
from abiscan.cli.process import clean_notice
from abiscan.errors import AbiscanError, raise_together
from abiscan.inputs import destination
from abiscan.inputs.environment import use_environment
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.packages import require_existing
from abiscan.inputs.session import Progress, Session

if TYPE_CHECKING:
    from abiscan.hooks.stamp import Stamp
    from abiscan.torches.torch import TorchChoice


@click.command()
@click.argument("wheels", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="WHEEL...")
@torch_option("The torch they were built for. Default: the torch of the current environment.")
@python_option("Use the torch of this Python.")
@click.option("--variant", is_flag=True, help="Print the variant properties that are true of each; write nothing.")
def stamp(*, wheels: tuple[Path, ...], torch: str | None, python: str | None, variant: bool) -> None:
    """Record in each wheel what it needs from torch.

    The guard in the wheel checks it at import. Symbols, dispatch key numbers and operator schemas go into a small file
    next to the guard, which the wheel must contain (abiscan guard --write). The wheel must load on the torch that it
    was built for. It is replaced atomically; the same wheel and torch give the same bytes. A wheel that cannot be
    stamped does not stop the others; the exit code is then 2.

    With --variant, wheels are only read: the properties of PEP 825 are printed that their libraries need.

    \b
    Examples:
      abiscan stamp dist/*.whl
      abiscan stamp dist/pkg-1.0-cp311-cp311-linux_x86_64.whl --torch 2.9.1
      abiscan stamp --variant dist/*.whl
    """
    from abiscan.hooks.stamp import stamp_wheel as write
    from abiscan.torches.torch import TorchOf, torch_choice

    refuse_both("--torch", torch, "--python", python)
    refuse_both("--variant", variant, "--torch", torch)
    refuse_both("--variant", variant, "--python", python)

    @functools.cache
    def choose_torch() -> TorchChoice:
        return torch_choice(torch) if torch else TorchOf(use_environment(python).python)

    lines, problems = list[str](), list[AbiscanError]()
    with errors_reported():
        with show_progress("stamping") as progress:
            # All of them before the first is read: after that, no further right can be claimed.
            for wheel in wheels if not variant else ():
                destination.claim_right(wheel)
            for wheel in wheels:
                session = Session.of_user(_prefix_progress(wheel, progress))
                try:
                    with turn_of(str(wheel)):
                        if variant:
                            lines += _property_lines(wheel, session)
                        else:
                            made = write(require_existing(wheel), choose_torch(), session)
                            lines.append(f"{wheel}: {_format_contents(made)}")
                except AbiscanError as error:
                    problems.append(error)
        for line in lines:
            click.echo(clean_notice(line))
        raise_together(problems)


def _prefix_progress(wheel: Path, progress: Progress) -> Progress:
    return lambda step: progress(f"{wheel.name}: {step}")


def _property_lines(wheel: Path, session: Session) -> list[str]:
    """Return the properties of a wheel, a line each, and what could not be found out."""
    from abiscan.hooks.true_properties import true_properties

    true = true_properties(require_existing(wheel), session)
    return [f"{wheel}:", *(f"  {stated}" for stated in true.properties), *(f"  not known: {gap}" for gap in true.gaps)]


def _format_contents(stamp: Stamp) -> str:
    counts = f"{stamp.symbols} symbols, {stamp.keys} dispatch keys, {stamp.operators} operators"
    return f"{', '.join(stamp.members)}: {counts} of torch {stamp.built_for}"
