"""The command line: parse, call, print, exit. One module per command."""

from __future__ import annotations

import click

import abiscan
from abiscan.cli.cache import cache
from abiscan.cli.check import check
from abiscan.cli.explain import explain
from abiscan.cli.ops import ops
from abiscan.cli.releases import releases


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(abiscan.__version__, prog_name="abiscan")
def main() -> None:
    """Will this compiled PyTorch extension load on that torch?

    Answered from the bytes of both; nothing is imported, nothing of the extension runs.

    \b
    Examples:
      abiscan check torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl
      abiscan check _C.so --torch 2.9.1
      abiscan check _C.so --torch ~/venv/lib/python3.11/site-packages/torch
      abiscan ops _C.so
      abiscan explain undefined-symbol
    """


main.add_command(check)
main.add_command(ops)
main.add_command(explain)
main.add_command(releases)
main.add_command(cache)
