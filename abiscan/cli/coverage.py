"""``abiscan coverage``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from abiscan.cli.common import cache_folder, errors_reported, output_to, sources, torch_choice, working
from abiscan.findings import Effect
from abiscan.inputs.files import Files
from abiscan.inputs.interpreter import of_environment
from abiscan.inputs.store import Store


@click.command()
@click.argument("target")
@click.option(
    "--torch", metavar="SPEC", help="The torch: a release number, its folder, or a wheel. Default: the current one."
)
@click.option("--python", metavar="EXE", help="Take the torch of this Python instead.")
@click.option("--backend", metavar="KEY", help="The backend's dispatch key or name. Default: the one of most kernels.")
@click.option(
    "--workload",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Only what this model calls: a list of operators, a TorchScript archive, an exported program (.pt2).",
)
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Form.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there.")
@click.option(
    "--fail-on",
    type=click.Choice([effect.value for effect in Effect]),
    default=Effect.CORRUPTS.value,
    show_default=True,
    help="Exit with 1 for an effect as bad: a missing kernel is call-fails.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 also if something could not be read.")
@click.option("-v", "--verbose", is_flag=True, help="Show every operator, with what torch says.")
def coverage(
    *,
    target: str,
    torch: str | None,
    python: str | None,
    backend: str | None,
    workload: Path | None,
    form: str,
    output: Path | None,
    fail_on: str,
    strict: bool,
    verbose: bool,
) -> None:
    """Which operators have no kernel for the extension's backend there?

    Computes the dispatch table that torch will have after loading TARGET: a shared object, a wheel or a folder. Those
    that raise "Could not run 'aten::…' with arguments from the '…' backend" are listed, the most used ones first.

    \b
    Examples:
      abiscan coverage _torch_npu.so --torch ~/venv/lib/python3.11/site-packages/torch
      abiscan coverage torch_npu-2.6.0-cp311-cp311-linux_x86_64.whl --torch 2.8.0 --backend PrivateUse1
      abiscan coverage backend.so --workload model.pt2 --fail-on call-fails
      abiscan coverage backend.so --format json

    \b
    Exit codes:
      0  nothing at or above --fail-on
      1  a missing kernel, with --fail-on call-fails
      2  usage, or an input that cannot be read
      3  could not tell
    """
    if torch and python:
        raise click.UsageError("--torch and --python exclude each other")
    from abiscan.pipelines import check as scan
    from abiscan.pipelines.coverage import backend_report

    environment = python or of_environment()
    with errors_reported(), working("computing") as progress, sources([target], environment) as (source,):
        store = Store(cache_folder())
        chosen = (torch_choice(torch) if torch else scan.torch_of(environment))(Files(store.facts_of))
        report = backend_report(
            source,
            store,
            chosen.release_for,
            lambda release: chosen.operators_for(release, None, store, progress),
            backend=backend,
            workload=workload,
        )
    with output_to(output) as stream:
        if form == "json":
            stream.write(report.to_json())
        else:
            from rich.console import Console

            from abiscan.report import coverage_text

            coverage_text.render(report, Console(file=stream, highlight=False), verbose=verbose)
    sys.exit(report.exit_code(Effect(fail_on), strict=strict))
