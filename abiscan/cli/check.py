"""``abiscan check``."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, TextIO

import click
import msgspec.structs

import abiscan
from abiscan.cli.common import errors_reported, explain_strict, make_page, report_unread, show_progress, write_result
from abiscan.cli.lock import LockOptions, base_option, check_lock_files, find_locks, lock_options
from abiscan.cli.options import (
    cpu_option,
    each_file_option,
    fail_options,
    gpu_options,
    index_options,
    is_default,
    jobs_option,
    more_reports_option,
    python_option,
    quiet_option,
    refuse_both,
    report_options,
    system_option,
    torch_option,
    verbose_option,
)
from abiscan.cli.process import print_notice
from abiscan.cli.reporting import ReportingCommand
from abiscan.cli.rule_name import RULE_NAME
from abiscan.findings import Effect, Rule
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.observed_fs import Record, record_observations
from abiscan.inputs.session import Session
from abiscan.results.check import Report, joined
from abiscan.results.configuration import Configuration, find_configuration, read_configuration
from abiscan.results.suppressions import EMPTY, Suppression, apply_suppressions, read_baseline, verdicts_changed
from abiscan.words import plural

_FILES_NAMED: Final = 3
_NO_TARGETS: Final = 'Name one, or put it into pyproject.toml: [tool.abiscan] targets = ["dist/*.whl"]'
_FORMATS: Final = ("text", "json", "sarif", "junit", "github", "markdown")


@click.command(cls=ReportingCommand)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@torch_option(
    "The torch to check against: a release number, latest, a version specifier ('>=2.4,<2.7'), a torch folder or its "
    "lib, a libtorch_cpu.so, a wheel; or `declared` for the torch that a wheel's metadata requires, which also checks "
    "that requirement. Default: the torch of the current environment."
)
@python_option("Use the torch and the installed packages of this Python.")
@index_options
@report_options(*_FORMATS)
@more_reports_option(*_FORMATS)
@fail_options("Exit with 1 if a finding has this effect or a worse one.")
@click.option("--select", multiple=True, metavar="RULE", type=RULE_NAME, help="Run only this rule (repeatable).")
@click.option("--ignore", multiple=True, metavar="RULE", type=RULE_NAME, help="Skip this rule (repeatable).")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A JSON report from an earlier run, whose findings are accepted.",
)
@click.option("--no-config", is_flag=True, help="Ignore pyproject.toml, both its settings and its suppressions.")
@gpu_options
@cpu_option
@system_option
@each_file_option
@click.option(
    "--skip-unsupported",
    is_flag=True,
    help="With --torch declared: skip wheels for Windows and macOS that require a torch which is not embedded.",
)
@lock_options
@base_option
@jobs_option("The number of processes that emulate the extensions of a target.")
@verbose_option("Show all evidence, and what could not be checked.")
@quiet_option("Show only verdicts.")
def check(
    *,
    targets: tuple[str, ...],
    torch: str | None,
    python: str | None,
    index: IndexOptions,
    form: str,
    output: Path | None,
    reports: list[tuple[str, Path]],
    fail_on: str,
    strict: bool,
    select: tuple[Rule, ...],
    ignore: tuple[Rule, ...],
    baseline: Path | None,
    no_config: bool,
    gpus: tuple[str, ...],
    driver: str | None,
    cpus: tuple[str, ...],
    system: str | None,
    each_file: bool,
    skip_unsupported: bool,
    lock_choice: LockOptions,
    base: str | None,
    jobs: int,
    verbose: bool,
    quiet: bool,
) -> None:
    """Check whether extensions will load and work on a torch.

    TARGET is a shared object, a program, a wheel (read in place), a conda package, a folder, NAME==VERSION (pip
    downloads the wheel), the name of an installed package, a saved model, or a lock: uv.lock, pylock.toml, poetry.lock,
    pdm.lock, pixi.lock, an explicit file of conda, or a file of pinned requirements. Every extension of torch in it is
    checked. The verdict on a package is the outcome of importing it: its Python code is read, never run, to find out
    which extensions it loads, and what it does without them. The verdict on a model is that of loading it, with the
    other targets imported before. Of a lock, the environment for each Python is checked: its torch, and what uses it.

    \b
    Examples:
      abiscan check _C.so
      abiscan check _C.so --torch 2.9.1
      abiscan check _C.so --torch '>=2.4,<2.7'
      abiscan check torchvision
      abiscan check torchaudio==2.8.0 --torch 2.13.0
      abiscan check torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl --torch ~/torch-2.6.0/torch
      abiscan check dist/*.whl --torch torch-2.9.1-cp311-cp311-manylinux_2_28_x86_64.whl --format json
      abiscan check dist/*.whl --torch declared
      abiscan check model.pt2 torchvision==0.28.0 --torch 2.13.0
      abiscan check build/ --python ~/venv/bin/python --strict
      abiscan check dist/*.whl --torch 2.9.1 --format sarif --output abiscan.sarif
      abiscan check dist/*.whl --torch 2.9.1 --report junit=abiscan.xml --report markdown=abiscan.md
      abiscan check dist/*.whl --torch 2.9.1 --baseline known.json
      abiscan check dist/*.whl --torch 2.9.1 --gpu 8.0 --gpu 9.0 --gpu 12.0 --fail-on call-fails
      abiscan check dist/*.whl --torch 2.9.1 --cpu x86-64-v2 --cpu haswell
      abiscan check uv.lock --extra train --python-version 3.12
      abiscan check uv.lock --base origin/main

    In a project, `abiscan check` alone does what its pyproject.toml says; options replace its settings. Known findings
    are accepted there, with a reason and an expiry date, or with --baseline:

    \b
      [tool.abiscan]
      targets = ["dist/*.whl"]
      torch = ["declared", ">=2.9"]
      fail-on = "call-fails"
      suppress = [
        {rule = "missing-library", target = "pkg/_cuda.so", reason = "optional", until = 2027-01-31},
      ]

    \b
    Exit codes, the same in every format:
      0  no finding at or above --fail-on
      1  at least one finding at or above --fail-on
      2  usage error, or an input that cannot be read
      3  the verdict is unknown
    """
    refuse_both("--torch", torch, "--python", python)
    refuse_both("-v", verbose, "-q", quiet)
    lock_choice = msgspec.structs.replace(lock_choice, base=base)
    if locks := find_locks(targets, lock_choice):
        check_lock_files(
            locks,
            lock_choice,
            index=index,
            form=form,
            output=output,
            reports=reports,
            jobs=jobs,
            hardware=(gpus, driver, cpus, system),
            strict=strict,
            # A lock has its own torch, and its entries are packages.
            meaningless={
                "--torch": torch,
                "--python": python,
                "--each-file": each_file,
                "--skip-unsupported": skip_unsupported,
                "--baseline": baseline,
                "--select": select,
                "--ignore": ignore,
            },
        )
    rules = _rules_to_run(select, ignore)
    begin = time.monotonic()
    with errors_reported(), record_observations() if verbose else contextlib.nullcontext() as record:
        known_findings = read_baseline(baseline) if baseline else EMPTY
        settings = _settle(
            Configuration() if no_config else _find_settings(targets),
            quiet=quiet,
            targets=targets,
            torches=(torch,) if torch else (),
            gpus=gpus,
            cpus=cpus,
            systems=(system,) if system else (),
            fail_on=None if is_default("fail_on") else Effect(fail_on),
        )
        worst, file = settings.fail_on or Effect(fail_on), settings.file
        targets = targets or tuple(settings.list_targets())
        if not targets:
            raise click.UsageError(f"Missing argument 'TARGET...'. {_NO_TARGETS}")
        with show_progress("checking") as progress:
            session = Session.of_user(progress, jobs=jobs, index=index)
            report = joined(
                [
                    abiscan.check(
                        targets,
                        # The torch of a Python that is named replaces those of the file.
                        None if python else settings.torches or None,
                        python=python,
                        rules=rules,
                        each_file=each_file,
                        skip_unsupported=skip_unsupported,
                        gpus=settings.gpus,
                        driver=driver,
                        cpus=settings.cpus,
                        system=named_system,
                        session=session,
                    )
                    for named_system in settings.systems or (None,)
                ]
            )
        report = settings.leave_out(report)
        # Applied twice, with and without the file: a suppression that changes the exit code is said on stderr, since a
        # file in the folder is easily forgotten.
        plain = apply_suppressions(report, (), known_findings)
        report = apply_suppressions(report, _valid_suppressions(settings), known_findings)
    accepted = verdicts_changed(report, file) if file else ""
    if accepted:
        accepted += _with_code(report.exit_code(worst, strict=strict), plain.exit_code(worst, strict=strict))

    views = _writers(report, worst, verbosity=int(verbose) - int(quiet), strict=strict, accepted=accepted)
    # All formats are views of one report: nothing is checked again for a second one.
    for report_form, file in ((form, output), *reports):
        write_result(report, report_form, file, views)
    # After the report, so that on a terminal the errors are what one sees last.
    report_unread(report.unchecked)
    if record is not None:
        print_notice(f"abiscan: {_format_effort(record, time.monotonic() - begin)}")
    if accepted and form != "text":
        print_notice(f"abiscan: {accepted}")
    if strict:
        explain_strict(
            [
                *(gap for package in report.packages for gap in package.gaps),
                *(condition.why for package in report.packages for condition in package.unmet),
                *(str(gap) for result in report.results for gap in result.unexpected_gaps),
            ]
        )
    sys.exit(report.exit_code(worst, strict=strict))


def _writers(
    report: Report, worst: Effect, *, verbosity: int, strict: bool, accepted: str
) -> dict[str, Callable[[TextIO], None]]:
    """Return what writes a report, by the name of the format."""

    def write_text(stream: TextIO) -> None:
        from abiscan.report import text

        text.render_report(report, make_page(stream), verbosity=verbosity, accepted=accepted)

    def write_sarif(stream: TextIO) -> None:
        from abiscan.report import sarif
        from abiscan.rules import EVERY_RULE

        stream.write(sarif.render_sarif(report, EVERY_RULE))

    def write_junit(stream: TextIO) -> None:
        from abiscan.report import junit

        stream.write(junit.render_junit(report, worst, strict=strict))

    def write_github(stream: TextIO) -> None:
        from abiscan.report import github

        stream.write(github.render_annotations(report))

    def write_markdown(stream: TextIO) -> None:
        from abiscan.report import markdown

        stream.write(markdown.render_markdown(report))

    return {
        "text": write_text,
        "sarif": write_sarif,
        "junit": write_junit,
        "github": write_github,
        "markdown": write_markdown,
    }


def _with_code(code: int, plain: int) -> str:
    """Return what a configuration changes about the exit code, and how to do without it."""
    change = f": the exit code is {code} instead of {plain}" if code != plain else ""
    return f"{change} (--no-config ignores the file)"


def _format_effort(record: Record, seconds: float) -> str:
    """Return how long a run took, and what it looked at; the same if the answer was kept, since that is
    compared then.
    """
    sizes = {Path(name).resolve(): size for name, size in record.sizes.items()}
    # Sorted by name within a size, so the line is the same each time.
    largest = sorted(sizes, key=lambda path: (-sizes[path], path))[:_FILES_NAMED]
    names = f", mainly {', '.join(map(str, largest))}" if sizes else ""
    return f"{seconds:.1f} s; looked at {plural(len(sizes), 'file')}, {sum(sizes.values()) / 1e6:.1f} MB{names}"


def _rules_to_run(select: Sequence[Rule], ignore: Collection[Rule]) -> Sequence[Rule] | None:
    """Return the rules to run; None for all, which need not be imported to find a result that was kept."""
    if not select and not ignore:
        return None
    from abiscan.rules import SELECTABLE

    return [rule for rule in select or SELECTABLE if rule not in ignore]


def _find_settings(targets: Sequence[str]) -> Configuration:
    """Return the settings of the project that the current folder is in."""
    file, passed_over = find_configuration(Path.cwd(), targets)
    if passed_over is not None:
        print_notice(f"abiscan: {passed_over}: ignored: it is inside a checked target")
    if file is None:
        return Configuration()
    from abiscan.rules import EVERY_RULE

    return read_configuration(file, [rule.name for rule in EVERY_RULE])


def _settle(of_file: Configuration, *, quiet: bool, **named: Sequence[str] | Effect | None) -> Configuration:
    """Return the settings of a run, and say which of them are those of the file: one in the folder is easily
    forgotten.
    """
    settings = of_file.replaced(**named)
    if (names := of_file.names_left_in(settings)) and not quiet:
        print_notice(f"abiscan: {', '.join(names)} as {of_file.file} says (--no-config ignores the file)")
    return settings


def _valid_suppressions(settings: Configuration) -> tuple[Suppression, ...]:
    """Return the suppressions that apply today; expired ones are reported."""
    # In the time zone of the user: a date in the file has none.
    today = dt.datetime.now().astimezone().date()
    for suppression in settings.suppressions:
        if suppression.until < today:
            expired = f"the suppression of {suppression.rule} for {suppression.target} expired on {suppression.until}"
            reason = f"and no longer applies ({suppression.reason})"
            print_notice(f"abiscan: {suppression.source}: {expired} {reason}")
    return tuple(suppression for suppression in settings.suppressions if suppression.until >= today)
