"""``abiscan ops``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

import click

import abiscan
from abiscan.cli.common import errors_reported, make_console, show_progress, write_result
from abiscan.cli.options import (
    index_options,
    jobs_option,
    machine_option,
    python_option,
    report_options,
    torches_option,
    verbose_option,
)
from abiscan.cli.reporting import ReportingCommand
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.session import Session
from abiscan.results.selection import Selection


@click.command(cls=ReportingCommand)
@click.argument("target", required=False)
@torches_option(
    "torch",
    "Show what this torch registers: a release number, its folder or a wheel. With TARGET and --api-version: "
    "the releases to compare (repeatable; '>=2.4,<2.7' means several). Default: all.",
)
@click.option("--api-version", is_flag=True, help="Show fingerprints of schema and dispatch, to compare releases.")
@machine_option
@click.option("--live", is_flag=True, help="Import torch, and show all that it registers, including from Python.")
@python_option("With --live: the Python that imports torch. Default: this one.")
@click.option(
    "--operator",
    "operators",
    multiple=True,
    metavar="PATTERN",
    help="Only operators with this name, in which * and ? are wildcards (repeatable): nms, 'aten::add*'.",
)
@click.option(
    "--namespace", "namespaces", multiple=True, metavar="NAME", help="Only operators in this namespace (repeatable)."
)
@jobs_option("The number of processes that emulate the extensions.")
@index_options
@report_options("text", "json")
@verbose_option("Also show source lines, C++ signatures, inferred schemas and details of gaps.")
def ops(
    *,
    target: str | None,
    torch: tuple[str, ...],
    api_version: bool,
    machine: str,
    live: bool,
    python: str | None,
    operators: tuple[str, ...],
    namespaces: tuple[str, ...],
    jobs: int,
    index: IndexOptions,
    form: str,
    output: Path | None,
    verbose: bool,
) -> None:
    """List what an extension, or torch itself, registers.

    Lists libraries, operators, kernels, fallbacks, classes, entries in other registries and operator lookups. TARGET
    is a shared object, a wheel, a folder, NAME==VERSION or an installed package. Its initialisers run in an emulator,
    never on this machine. Anything that could not be read is listed as a gap.

    Of a saved model, lists what it needs: the operators that it calls, which packages bring them, custom classes,
    devices, instruction sets. Nothing is unpickled.

    \b
    Examples:
      abiscan ops _C.so
      abiscan ops torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl --format json
      abiscan ops --torch 2.6.0
      abiscan ops --torch 2.6.0 --operator 'aten::add*'
      abiscan ops torch_npu --namespace npu
      abiscan ops model.pt2
      abiscan ops --torch ~/venv/lib/python3.11/site-packages/torch
      abiscan ops --live --python ~/venv/bin/python

    \b
    Does it need a rebuild for a new release? Not if every operator that it uses has the same version there:
      abiscan ops _C.so --api-version --torch '>=2.5,<2.7'
      abiscan ops --torch 2.6.0 --api-version
    """
    if python and not live:
        raise click.UsageError("--python requires --live")
    selection = Selection(patterns=operators, namespaces=namespaces)
    if target is not None and api_version and not live:
        if selection:
            raise click.UsageError("--operator and --namespace cannot be combined with TARGET --api-version")
        _show_history(target, torch, index, form, output, verbose=verbose)
    # Each of these selects something to show, and there is only one report.
    elif (target is not None) + len(torch) + live != 1:
        raise click.UsageError("pass exactly one of TARGET, --torch SPEC and --live")
    elif target is not None:
        if _is_model(target):
            _show_model(target, selection, form, output, verbose=verbose)
        else:
            _show_target(target, selection, index, form, output, jobs=jobs, verbose=verbose)
    else:
        _show_torch(torch[0] if torch else None, machine, python, selection, form, output, api_version=api_version)


def _show_target(
    target: str,
    selection: Selection,
    index: IndexOptions,
    form: str,
    output: Path | None,
    *,
    jobs: int,
    verbose: bool,
) -> None:
    with errors_reported(), show_progress("emulating") as progress:
        session = Session.of_user(progress, jobs=jobs, index=index)
        extension_operators = abiscan.operators(target, cpu=form == "json", session=session).only(selection)

    def write_text(stream: TextIO) -> None:
        from abiscan.report import ops_text

        _print_styled(ops_text.render_operators(extension_operators, click.style, verbose=verbose), stream)

    write_result(extension_operators, form, output, {"text": write_text})


def _print_styled(text: str, stream: TextIO) -> None:
    # https://no-color.org; None lets click decide: colors on a terminal, and none in a file.
    color = False if os.environ.get("NO_COLOR") else None
    click.echo(text, file=stream, nl=False, color=color)


def _is_model(target: str) -> bool:
    """Whether a target is the file of a saved model."""
    from abiscan.inputs import observed_fs
    from abiscan.inputs.files import DiskFile
    from abiscan.inputs.kinds import TargetKind, kind_of
    from abiscan.inputs.model_archive import PICKLE_MAGIC, begins_like_model

    with errors_reported():
        path = Path(target)
        # Only what has no other kind by its name can be a model: see ``kind_of``.
        if not observed_fs.is_file(path) or kind_of(path) is not TargetKind.LIBRARY:
            return False
        return begins_like_model(DiskFile(path).read_head(len(PICKLE_MAGIC)))


def _show_model(target: str, selection: Selection, form: str, output: Path | None, *, verbose: bool) -> None:
    with errors_reported(), show_progress("reading") as progress:
        result = abiscan.model_operators(target, session=Session.of_user(progress)).only(selection)

    def write_text(stream: TextIO) -> None:
        from abiscan.report import model_text

        _print_styled(model_text.render_model(result, click.style, verbose=verbose), stream)

    write_result(result, form, output, {"text": write_text})


def _show_history(
    target: str, torches: tuple[str, ...], index: IndexOptions, form: str, output: Path | None, *, verbose: bool
) -> None:
    with errors_reported(), show_progress("comparing") as progress:
        history = abiscan.api_history(target, torches, session=Session.of_user(progress, index=index))

    def write_text(stream: TextIO) -> None:
        from abiscan.report import api_history_text

        api_history_text.render_history(history, make_console(stream), verbose=verbose)

    write_result(history, form, output, {"text": write_text})


def _show_torch(
    spec: str | None,
    machine: str,
    python: str | None,
    selection: Selection,
    form: str,
    output: Path | None,
    *,
    api_version: bool,
) -> None:
    from abiscan.pipelines.operators import api_versions, live_operators

    with errors_reported(), show_progress("reading") as progress:
        session = Session.of_user(progress)
        torch_operators = (
            abiscan.torch_operators(spec, machine=machine, session=session) if spec else live_operators(python)
        )
    from abiscan.report import torch_ops_text

    if api_version:
        versions = api_versions(torch_operators).only(selection)
        write_result(versions, form, output, {"text": lambda stream: torch_ops_text.render_versions(versions, stream)})
    else:
        result = torch_operators.only(selection)
        write_result(result, form, output, {"text": lambda stream: torch_ops_text.render_torch(result, stream)})
