"""``abiscan coverage``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import click

import abiscan
from abiscan.cli.common import errors_reported, explain_strict, make_table_console, show_progress, write_result
from abiscan.cli.options import (
    fail_options,
    gpu_options,
    index_options,
    python_option,
    refuse_both,
    report_options,
    torch_option,
    verbose_option,
)
from abiscan.cli.reporting import ReportingCommand
from abiscan.findings import Effect
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.session import Session


@click.command(cls=ReportingCommand)
@click.argument("target")
@torch_option("The torch: a release number, its folder or a wheel. Default: the torch of the current environment.")
@python_option("Use the torch of this Python.")
@click.option(
    "--backend", metavar="KEY", help="The backend's dispatch key or name. Default: the key with the most kernels."
)
@click.option(
    "--workload",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Only check operators of this model: an operator list, a TorchScript archive, an exported program (.pt2).",
)
@gpu_options
@index_options
@report_options("text", "json")
@fail_options("Exit with 1 for this effect or a worse one; a missing kernel is call-fails.")
@verbose_option("Show every operator, with torch's error message.")
def coverage(
    *,
    target: str,
    torch: str | None,
    python: str | None,
    backend: str | None,
    workload: Path | None,
    gpus: tuple[str, ...],
    driver: str | None,
    index: IndexOptions,
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
      0  it loads, with nothing at or above --fail-on
      1  it does not load, or its dispatch key has moved; a missing kernel, with --fail-on call-fails
      2  usage error, or an input that cannot be read
      3  something could not be read
    """
    refuse_both("--torch", torch, "--python", python)
    with errors_reported(), show_progress("computing") as progress:
        session = Session.of_user(progress, index=index)
        backend_report = abiscan.coverage(
            target,
            torch,
            backend=backend,
            workload=workload,
            python=python,
            gpus=gpus,
            driver=driver,
            session=session,
        )

    def write_text(stream: TextIO) -> None:
        from abiscan.report import coverage_text

        coverage_text.render_coverage(backend_report, make_table_console(stream), verbose=verbose)

    write_result(backend_report, form, output, {"text": write_text})
    # Text and JSON list the gaps as well; here they are printed as the reason for the exit code.
    if strict:
        explain_strict(backend_report.gaps)
    sys.exit(backend_report.exit_code(Effect(fail_on), strict=strict))
