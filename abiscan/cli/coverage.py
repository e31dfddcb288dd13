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
    "--torch", metavar="SPEC", help="The torch: a release number, its folder or a wheel. Default: the current one."
)
@click.option("--python", metavar="EXE", help="Use the torch of this Python.")
@click.option(
    "--backend", metavar="KEY", help="The backend's dispatch key or name. Default: the key with the most kernels."
)
@click.option(
    "--workload",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Only check operators of this model: an operator list, a TorchScript archive, an exported program (.pt2).",
)
@click.option(
    "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Output format."
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the report to FILE."
)
@click.option(
    "--fail-on",
    type=click.Choice([effect.value for effect in Effect]),
    default=Effect.CORRUPTS.value,
    show_default=True,
    help="Exit with 1 for this effect or a worse one; a missing kernel is call-fails.",
)
@click.option("--strict", is_flag=True, help="Also exit with 1 if something could not be read.")
@click.option("-v", "--verbose", is_flag=True, help="Show every operator, with torch's error message.")
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
    """List the operators without a kernel for the extension's backend.

    Computes the dispatch table of torch after loading TARGET (a shared object, a wheel or a folder), and lists the
    operators that raise "Could not run 'aten::…' with arguments from the '…' backend", the most used first.

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
      2  usage error, or an input that cannot be read
      3  something could not be read
    """
    if torch and python:
        raise click.UsageError("--torch and --python cannot be combined")
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
