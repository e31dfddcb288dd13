"""``abiscan doctor``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import click

from abiscan.cli.common import console, errors_reported, working, write
from abiscan.cli.options import python_option, quiet_option, report_options
from abiscan.cli.reporting import ReportingCommand
from abiscan.inputs import frozen
from abiscan.inputs.answers import answer
from abiscan.inputs.environment import environment
from abiscan.inputs.session import Session
from abiscan.results.doctor import Diagnosis

_LOG_WIDTH = 200  # wide enough that a table in a log is not wrapped


@click.command(cls=ReportingCommand)
@python_option("The Python of the environment, or its folder. Default: the active environment.")
@report_options("text", "json")
@quiet_option("Print nothing if there are no problems.")
def doctor(*, python: str | None, form: str, output: Path | None, quiet: bool) -> None:
    """Check that everything installed works with the installed torch.

    Checks every installed package with extensions of torch, the extensions that torch compiled on the fly, and extra
    copies of torch's libraries. Prints a table of problems, worst first, and what to type. If packages do not work with
    this torch, that is one command: it installs versions that work together, found on the index and checked.

    \b
    Examples:
      abiscan doctor
      abiscan doctor --python ~/venv/bin/python
      abiscan doctor --format json

    \b
    Exit codes:
      0  no problems
      1  something does not work with torch
      2  usage error, or an environment without torch
      3  something could not be checked
    """
    from abiscan.pipelines.hardware import native_hardware

    with errors_reported(), working("looking for extensions of torch") as progress:
        session, chosen, hardware = Session.of_user(progress), environment(python), native_hardware()

        def find() -> Diagnosis:
            from abiscan.hooks.doctor import diagnose

            return diagnose(chosen, python, session, hardware)

        question = ["doctor", chosen.python, str(chosen), python, frozen.dumps(hardware)]
        diagnosis = answer(session.folder, question, find, ())

    def text(stream: TextIO) -> None:
        from abiscan.report import doctor_text

        if diagnosis.ailments or not quiet:
            page = console(stream)
            if not page.is_terminal:
                page.width = _LOG_WIDTH
            doctor_text.render(diagnosis, page)

    write(diagnosis, form, output, {"text": text})
    sys.exit(diagnosis.exit_code)
