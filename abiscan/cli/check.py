"""``abiscan check``."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from abiscan.cli.common import cache_folder, errors_reported, output_to, sources, torch_choices, working
from abiscan.findings import Effect, Rule
from abiscan.inputs.interpreter import of_environment
from abiscan.inputs.sources import Source
from abiscan.inputs.store import Store
from abiscan.pipelines import check as scan
from abiscan.results.check import Report
from abiscan.results.suppressions import EMPTY, Suppression, apply, configuration, read_baseline, read_suppressions
from abiscan.rules import RULES

_DECLARED = "declared"
_FORMATS = ("text", "json", "sarif", "junit", "github", "markdown")


def _rules(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[Rule, ...]:
    known = {rule.name: rule for rule in RULES}
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"there is no rule {unknown[0]}; rules: {', '.join(known)}", context, parameter)
    return tuple(known[name] for name in names)


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--torch",
    metavar="SPEC",
    help="The torch to check against: a release number, a version specifier ('>=2.4,<2.7'), a torch folder or its lib, "
    "a libtorch_cpu.so, a wheel; or `declared` for the torch that a wheel's metadata requires, which also checks that "
    "requirement. Default: the torch of the current environment.",
)
@click.option("--python", metavar="EXE", help="Use the torch and the installed packages of this Python.")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="Output format.")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the report to FILE."
)
@click.option(
    "--fail-on",
    type=click.Choice([effect.value for effect in Effect]),
    default=Effect.CORRUPTS.value,
    show_default=True,
    help="Exit with 1 if a finding has this effect or a worse one.",
)
@click.option("--strict", is_flag=True, help="Also exit with 1 if something could not be checked.")
@click.option("--select", multiple=True, metavar="RULE", callback=_rules, help="Run only this rule (repeatable).")
@click.option("--ignore", multiple=True, metavar="RULE", callback=_rules, help="Skip this rule (repeatable).")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A JSON report from an earlier run: findings in it do not fail.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show all evidence, and what could not be checked.")
@click.option("-q", "--quiet", is_flag=True, help="Show only verdicts.")
def check(
    *,
    targets: tuple[str, ...],
    torch: str | None,
    python: str | None,
    form: str,
    output: Path | None,
    fail_on: str,
    strict: bool,
    select: tuple[Rule, ...],
    ignore: tuple[Rule, ...],
    baseline: Path | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Check whether extensions will load and work on a torch.

    TARGET is a shared object, a wheel (read in place), a folder, NAME==VERSION (pip downloads the wheel) or the name
    of an installed package. Every extension of torch in it is checked.

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
      abiscan check build/ --python ~/venv/bin/python --strict
      abiscan check dist/*.whl --torch 2.9.1 --format sarif --output abiscan.sarif
      abiscan check dist/*.whl --torch 2.9.1 --baseline known.json

    Accept known findings with --baseline, or in pyproject.toml, with a reason and an expiry date:

    \b
      [tool.abiscan]
      suppress = [
        {rule = "missing-library", target = "pkg/_cuda.so", reason = "optional", until = 2027-01-31},
      ]

    \b
    Exit codes, the same in every format:
      0  no finding at or above --fail-on
      1  such a finding
      2  usage error, or an input that cannot be read
      3  the verdict is unknown
    """
    if torch and python:
        raise click.UsageError("--torch and --python cannot be combined")
    if verbose and quiet:
        raise click.UsageError("-v and -q cannot be combined")
    environment = python or of_environment()
    rules = [rule for rule in select or RULES if rule not in ignore]
    with errors_reported():
        known = read_baseline(baseline) if baseline else EMPTY
        suppressions = _suppressions()
        with working("checking") as progress, sources(targets, environment) as found:
            report = _judge(found, torch, environment, rules, progress)
        report = apply(report, suppressions, known)
    worst = Effect(fail_on)
    _write(report, form, output, worst, strict=strict, verbosity=int(verbose) - int(quiet))
    sys.exit(report.exit_code(worst, strict=strict))


def _judge(
    targets: Sequence[Source], torch: str | None, python: str | None, rules: Sequence[Rule], progress: scan.Progress
) -> Report:
    store = Store(cache_folder())
    if torch == _DECLARED and not Path(torch).exists():
        from abiscan.pipelines.matrix import check_declared

        return check_declared(targets, rules, store, progress)
    choices = torch_choices(torch) if torch else [scan.torch_of(python)]
    return scan.check_each(targets, choices, rules, store, progress)


def _suppressions() -> tuple[Suppression, ...]:
    """Those in force here and today; expired ones are reported."""
    file = configuration(Path.cwd())
    if file is None:
        return ()
    today = dt.datetime.now().astimezone().date()
    found = read_suppressions(file, [rule.name for rule in RULES])
    for one in found:
        if one.until < today:
            what = f"the suppression of {one.rule} for {one.target} expired on {one.until}"
            click.echo(f"abiscan: {file}: {what} and no longer applies ({one.reason})", err=True)
    return tuple(one for one in found if one.until >= today)


def _write(report: Report, form: str, output: Path | None, fail_on: Effect, *, strict: bool, verbosity: int) -> None:
    # The views are imported when one is chosen: rich alone takes longer to import than a small extension to check.
    with output_to(output) as stream:
        if form == "json":
            stream.write(report.to_json())
        elif form == "sarif":
            from abiscan.report import sarif

            stream.write(sarif.render(report, RULES))
        elif form == "junit":
            from abiscan.report import junit

            stream.write(junit.render(report, fail_on, strict=strict))
        elif form == "github":
            from abiscan.report import github

            stream.write(github.render(report))
        elif form == "markdown":
            from abiscan.report import markdown

            stream.write(markdown.render(report))
        else:
            from rich.console import Console

            from abiscan.report import text

            text.render(report, Console(file=stream, highlight=False), verbosity=verbosity)
