"""``abiscan doctor``."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from abiscan.cache.result_cache import answer
from abiscan.cli.common import errors_reported, make_table_console, show_progress, write_result
from abiscan.cli.options import cpu_option, index_options, python_option, quiet_option, refuse_both, report_options
from abiscan.cli.reporting import ReportingCommand
from abiscan.inputs import result_codec
from abiscan.inputs.environment import PythonEnvironment, choose_environment
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.isolation import Confinement
from abiscan.inputs.session import Session

if TYPE_CHECKING:
    from abiscan.hooks.doctor import Examination, WayOut

_Result = TypeVar("_Result")


@click.command(cls=ReportingCommand)
@python_option("The Python of the environment, or its folder. Default: the active environment.")
@click.option(
    "--root",
    metavar="DIR",
    help="Check the environment inside an unpacked container image, whose root folder this is. Its files are read, and "
    "nothing in it is run. --python is then a path inside the image.",
)
@cpu_option
@index_options
@report_options("text", "json", "json1", "html", "sarif")
@click.option(
    "--import",
    "proved",
    is_flag=True,
    help="Import each module for real, in a process of its own, and compare. This runs code of the environment.",
)
@quiet_option("Print nothing if there are no problems.")
def doctor(
    *,
    python: str | None,
    root: str | None,
    cpus: tuple[str, ...],
    index: IndexOptions,
    form: str,
    output: Path | None,
    proved: bool,
    quiet: bool,
) -> None:
    """Check that everything installed works with the installed torch.

    Checks torch itself, every distribution that has to do with it, the extensions that torch compiled on the fly, and
    extra copies of torch's libraries. Prints how many work, what does not, cause by cause, and what to type: the
    smallest change that makes it work, found on the index and checked.

    \b
    Examples:
      abiscan doctor
      abiscan doctor --python ~/venv/bin/python
      abiscan doctor --format json
      abiscan doctor --cpu x86-64-v2
      abiscan doctor --import
      abiscan doctor --root ./image

    \b
    Exit codes:
      0  no problems
      1  something does not work with torch
      2  usage error, or an environment without torch
      3  something could not be checked
    """
    from abiscan.verdict.hardware import cpu_question, hardware_of, native_hardware

    refuse_both("--import", proved or None, "--root", root)
    with errors_reported():
        chosen = choose_environment(python) if root is None else _environment_in(root, python)
        hardware = native_hardware() if root is None else hardware_of((), None, (), root)
        processors = cpu_question(cpus)

        def examine_installed() -> Examination:
            from abiscan.hooks.doctor import examine_environment

            with show_progress("looking for extensions of torch") as progress:
                session = Session.of_user(progress, cpus=cpus, system=root)
                own = result_codec.encode_result(hardware), processors
                # Hardware and processors are part of the question: the record of files does not show them.
                question = ["doctor", chosen.python, str(chosen), python, *own]
                examine = functools.partial(examine_environment, chosen, python, session, hardware)
                return answer(session.folder, question, examine, ())

        def search_way_out() -> WayOut:
            from abiscan.hooks.doctor import way_out

            with show_progress("looking for versions that work together") as progress:
                session = Session.of_user(progress, index=index, cpus=cpus)
                return way_out(examination, chosen.python, python, session)

        # Two processes with different rights: the one that reads untrusted files cannot connect to anything, and the
        # one that asks the index gets the results of the first as plain data.
        examination = _run_apart(examine_installed, Confinement.OFFLINE)
        # Asking the index starts the pip of the environment.
        asks = examination.has_to_ask and root is None
        match = _run_apart(search_way_out, Confinement.ONLINE) if asks else None
        from abiscan.hooks.doctor import WayOut, conclude_diagnosis

        diagnosis = conclude_diagnosis(examination, match or WayOut(), chosen.python, python)
        if proved:
            from abiscan.hooks.trials import try_imports

            with show_progress("importing") as progress:
                diagnosis = try_imports(diagnosis, chosen.python, progress)

    def write_text(stream: TextIO) -> None:
        from abiscan.report import doctor_text

        if diagnosis.ailments or diagnosis.exit_code or not quiet:
            doctor_text.render_diagnosis(diagnosis, make_table_console(stream))

    def write_json1(stream: TextIO) -> None:
        stream.write(diagnosis.to_json1())

    def write_html(stream: TextIO) -> None:
        from abiscan.report import doctor_html

        stream.write(doctor_html.render_page(diagnosis))

    def write_sarif(stream: TextIO) -> None:
        from abiscan.report import doctor_sarif

        stream.write(doctor_sarif.render_sarif(diagnosis))

    views = {"text": write_text, "json1": write_json1, "html": write_html, "sarif": write_sarif}
    write_result(diagnosis, form, output, views)
    sys.exit(diagnosis.exit_code)


def _environment_in(root: str, python: str | None) -> PythonEnvironment:
    from abiscan.inputs.interpreter import only_read
    from abiscan.inputs.unpacked_python import find_python

    executable = find_python(root, python)
    only_read(executable, root)
    return PythonEnvironment(python=executable, origin="--root")


def _run_apart(run: Callable[[], _Result], confinement: Confinement) -> _Result:
    from abiscan.cli import supervisor

    if supervisor.is_possible() and not click.get_current_context().find_root().params["no_isolation"]:
        return supervisor.result_of(run, confinement)
    return run()
