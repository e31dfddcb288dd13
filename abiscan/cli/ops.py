"""``abiscan ops``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from abiscan.binary.elf import Machine
from abiscan.cli.common import cache_folder, errors_reported, output_to, sources
from abiscan.inputs.store import Store


@click.command()
@click.argument("target", required=False)
@click.option(
    "--torch",
    multiple=True,
    metavar="SPEC",
    help="Show what this torch registers: a release number, its folder or a wheel. With TARGET and --api-version: "
    "the releases to compare (repeatable; '>=2.4,<2.7' means several). Default: all.",
)
@click.option("--api-version", is_flag=True, help="Show fingerprints of schema and dispatch, to compare releases.")
@click.option(
    "--machine",
    type=click.Choice([machine.value for machine in Machine]),
    default=Machine.X86_64.value,
    show_default=True,
    help="The machine for which to take a release number.",
)
@click.option("--live", is_flag=True, help="Import torch, and show all that it registers, including from Python.")
@click.option("--python", metavar="EXE", help="With --live: the Python that imports torch. Default: this one.")
@click.option(
    "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Output format."
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the report to FILE."
)
@click.option("-v", "--verbose", is_flag=True, help="Also show source lines, C++ signatures and inferred schemas.")
def ops(
    *,
    target: str | None,
    torch: tuple[str, ...],
    api_version: bool,
    machine: str,
    live: bool,
    python: str | None,
    form: str,
    output: Path | None,
    verbose: bool,
) -> None:
    """List what an extension, or torch itself, registers.

    Lists libraries, operators, kernels, fallbacks, classes, entries in other registries and operator lookups. TARGET
    is a shared object, a wheel, a folder, NAME==VERSION or an installed package. Its initialisers run in an emulator,
    never on this machine. Anything that could not be read is listed as a gap.

    \b
    Examples:
      abiscan ops _C.so
      abiscan ops torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl --format json
      abiscan ops --torch 2.6.0
      abiscan ops --torch ~/venv/lib/python3.11/site-packages/torch
      abiscan ops --live --python ~/venv/bin/python

    \b
    Does it need a rebuild for a new release? Not if every operator that it uses has the same version there:
      abiscan ops _C.so --api-version --torch '>=2.5,<2.7'
      abiscan ops --torch 2.6.0 --api-version
    """
    if python and not live:
        raise click.UsageError("--python requires --live")
    if target is not None and api_version and not live:
        _history(target, torch, form, output, verbose=verbose)
    elif (target is not None) + len(torch) + live != 1:
        raise click.UsageError("pass exactly one of TARGET, --torch SPEC and --live")
    elif target is not None:
        _of_target(target, form, output, verbose=verbose)
    else:
        _of_torch(torch[0] if torch else None, Machine(machine), python, form, output, api_version=api_version)


# The pipelines and views are imported when they are called: see cli.check.


def _of_target(word: str, form: str, output: Path | None, *, verbose: bool) -> None:
    from abiscan.inputs.interpreter import of_environment
    from abiscan.pipelines.operators import extension_operators

    with errors_reported(), sources([word], of_environment()) as (source,):
        found = extension_operators(source, Store(cache_folder()))
    with output_to(output) as stream:
        if form == "json":
            stream.write(found.to_json())
        else:
            from abiscan.report import ops_text

            color = False if os.environ.get("NO_COLOR") else None  # https://no-color.org
            click.echo(ops_text.render(found, click.style, verbose=verbose), file=stream, nl=False, color=color)


def _history(word: str, torches: tuple[str, ...], form: str, output: Path | None, *, verbose: bool) -> None:
    from rich.console import Console

    from abiscan.inputs.interpreter import of_environment
    from abiscan.pipelines.operators import api_history
    from abiscan.report import api_history_text

    with errors_reported(), sources([word], of_environment()) as (source,):
        found = api_history(source, torches, Store(cache_folder()))
    with output_to(output) as stream:
        if form == "json":
            stream.write(found.to_json())
        else:
            api_history_text.render(found, Console(file=stream, highlight=False), verbose=verbose)


def _of_torch(
    spec: str | None, machine: Machine, python: str | None, form: str, output: Path | None, *, api_version: bool
) -> None:
    from abiscan.pipelines.operators import api_versions, live_operators, torch_operators
    from abiscan.report import torch_ops_text

    with errors_reported():
        found = torch_operators(spec, machine, Store(cache_folder())) if spec else live_operators(python)
    with output_to(output) as stream:
        if api_version:
            versions = api_versions(found)
            if form == "json":
                stream.write(versions.to_json())
            else:
                torch_ops_text.render_versions(versions, stream)
        elif form == "json":
            stream.write(found.to_json())
        else:
            torch_ops_text.render(found, stream)
