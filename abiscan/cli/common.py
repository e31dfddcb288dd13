"""What the commands share: errors, progress, output."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TextIO, TypeAlias, cast

import click

from abiscan.cli.process import clean_notice, is_on_github, print_notice
from abiscan.errors import AbiscanError, InputError, UnclearPlanError
from abiscan.inputs import destination, isolation, programs, temporary, tracing
from abiscan.words import clean, clean_lines, listed, without_commands

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from abiscan.hooks.command_line import CommandLine
    from abiscan.hooks.install import Installer
    from abiscan.inputs.environment import PythonEnvironment
    from abiscan.report.line import Page
    from abiscan.results.unchecked import Unchecked

_PATIENCE_SECONDS: Final = 1.0
FORCE: Final = "--force"
ALLOW_TORCH_CHANGE: Final = "--allow-torch-change"
OWN_OPTIONS: Final = (FORCE, ALLOW_TORCH_CHANGE)
"""The options of ``abiscan pip`` and ``uv`` that may stand anywhere, and are not passed on."""

_STREAM_ERRORS: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN)
"""What writing to an open stream fails with."""

_NO_SPACE: Final = "free some space, or name another folder in TMPDIR"
_SYSTEM_LIMITS: Final = {
    errno.EMFILE: "raise the limit on open files: ulimit -n 1024",
    errno.ENFILE: "end programs that have many files open",
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EROFS: "name another folder in TMPDIR",
    errno.EFBIG: "raise the limit on the size of files: ulimit -f unlimited",
    errno.ENOMEM: "free some memory, or raise the limits: ulimit -v unlimited, ulimit -d unlimited",
    errno.EAGAIN: "end some processes, or raise the limit on their number: ulimit -u",
}
"""What the system has no more of, or does not give to this process, and what the user can do."""

_SIGPIPE_STATUS: Final = 141  # as shells have it of a program that the signal ends

_WORKFLOW_COMMANDS: Final = "github"
_IN_JSON: Final = {"#": "\\u0023", ":": "\\u003a"}
_IN_MARKUP: Final = {"#": "&#35;", ":": "&#58;"}
_UNLIMITED: Final = 1_000_000
_ESCAPES: Final = {"json": _IN_JSON, "sarif": _IN_JSON, "junit": _IN_MARKUP, "html": _IN_MARKUP}

View: TypeAlias = Callable[[TextIO], None]
"""Writes a result in one format. Imports what it needs: importing rich takes longer than checking a small extension."""


class HasJson(Protocol):
    """A result of a command."""

    def to_json(self) -> str:
        """Return the JSON document, version 1."""


@contextlib.contextmanager
def errors_reported() -> Iterator[None]:
    """Report an error as one line on stderr, and exit with its code."""
    try:
        yield
    except AbiscanError as error:
        # Each line gets the prefix, so that it can be found in a log among those of other programs.
        for line in str(error).splitlines():  # one for each of several targets
            print_notice(f"abiscan: {line}")
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.message = clean_notice(error.message)  # type: ignore[misc]
        raise  # click says what is wrong
    # They are how click ends a command, and no errors.
    except (click.exceptions.Exit, click.Abort):
        raise
    except OSError as error:
        # An error about a file has its name; without one, it is a stream that was open already.
        # That no process can be started is EAGAIN, too, but not an error of a buffer.
        is_stream = error.errno != errno.EAGAIN or hasattr(error, "characters_written")
        if error.filename is None and error.errno in _STREAM_ERRORS and is_stream:
            _end_unwritten(error)
        if error.errno in _SYSTEM_LIMITS:
            _end_of_system(error.filename, error.errno)
        _end_of_bug(error)
    except MemoryError:
        _end_of_system(None, errno.ENOMEM)
    except Exception as error:  # noqa: BLE001 - a bug of ours must not look like a finding (exit code 1)
        _end_of_bug(error)


def _end_unwritten(error: OSError) -> NoReturn:
    """End after an error of writing to stdout. Nothing is said about a reader who has seen enough."""
    # Python flushes stdout once more as it ends, which would fail again, with an exit code of its own (120).
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is left to write as the interpreter ends
    if error.errno == errno.EPIPE:
        sys.exit(_SIGPIPE_STATUS)
    print_notice(f"abiscan: stdout: cannot be written: {error.strerror}")
    sys.exit(2)


def _end_of_system(file: object, number: int) -> NoReturn:
    """End since the system does not give what every run needs."""
    subject = os.fsdecode(file) if isinstance(file, str | bytes) else "the system"
    print_notice(f"abiscan: {subject}: {os.strerror(number)} ({_SYSTEM_LIMITS[number]})")
    sys.exit(2)


def _end_of_bug(error: Exception) -> NoReturn:
    from abiscan.inputs.installation import describe_fault

    print_notice(f"abiscan: {describe_fault(error)}")
    sys.exit(3)


@contextlib.contextmanager
def environment_named() -> Iterator[None]:
    """Name the Python environment on stderr, once, as soon as an answer depends on it; not with ``--quiet``."""
    from abiscan.inputs.environment import heard_by

    lines: set[str] = set()

    def report_environment(environment: PythonEnvironment) -> None:
        line = f"abiscan: environment {environment}"
        # Several torches may come from one environment; and a process that begins again must not repeat what was said.
        if line not in lines and isolation.is_first() and not click.get_current_context().params.get("quiet"):
            lines.add(line)
            print_notice(line)

    with heard_by(report_environment):
        yield


def report_unread(unchecked: Iterable[Unchecked]) -> None:
    """Say on stderr, whatever the format of the report, which targets cannot be read."""
    for target in unchecked:
        if not target.readable:
            print_notice(f"abiscan: {target}")


def explain_strict(gaps: Iterable[str]) -> None:
    """Say on stderr what ``--strict`` counts as failures: not every format shows gaps."""
    if different := dict.fromkeys(gaps):
        print_notice(f"abiscan: --strict: could not be checked: {listed(different)}")


@contextlib.contextmanager
def show_progress(activity: str) -> Iterator[Callable[[str], None]]:
    """Show progress on a terminal, once the work has taken a second.

    :return: a function to call with a description of the current step
    """
    if not sys.stderr.isatty() or tracing.trace_destination() == tracing.STDERR:
        yield lambda _: None
        return
    lock, current, process = threading.Lock(), [activity], os.getpid()
    statuses: list[Status] = []

    def show() -> None:
        from rich.console import Console
        from rich.text import Text

        with lock:
            # The work may have ended between the timer's firing and here; then nothing would stop the display.
            if not timer.finished.is_set():
                statuses.append(Console(stderr=True).status(Text(clean(current[0]))))
                statuses[0].start()

    def progress(activity: str) -> None:
        # A branch is forked with the lock in its current state: if another thread held it, it would stay locked.
        if os.getpid() != process:  # a forked branch, whose copy of the lock no thread would release
            return
        with lock:
            current[0] = activity
            for status in statuses:
                from rich.text import Text

                status.update(Text(clean(activity)))

    # rich takes longer to import than most checks take, so it is imported only once there is something to wait for.
    timer = threading.Timer(_PATIENCE_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield progress
    finally:
        with lock:
            timer.cancel()  # sets timer.finished
            for status in statuses:
                status.stop()


@contextlib.contextmanager
def output_to(path: Path | None, option: str = "--output", form: str = "text") -> Iterator[TextIO]:
    """Provide the stream to write a report to: stdout for None, or what becomes ``path`` (see ``destination.written``).

    :param option: the option that names the file
    :param form: the format, which says how a character is escaped
    """
    # All targets were read: what follows is the report alone, with a limit of its own.
    isolation.finish_targets()
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 still gets the report
        report = _Clean(sys.stdout, form if is_on_github() and form != _WORKFLOW_COMMANDS else None)
        yield cast("TextIO", report)
        report.finish()
        # A full disk or a closed pipe shows only when the buffer is written.
        sys.stdout.flush()  # errors belong here, not to the end of the interpreter
        return
    with blame_option(option), destination.write_whole(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace")
        cleaned = _Clean(text, None)
        yield cast("TextIO", cleaned)
        cleaned.finish()
        # The stream belongs to ``written``, which still needs it: without this, the wrapper would close it.
        text.detach()


class _Clean:
    """A stream for a report: whatever a view writes, nothing steers a terminal, nor GitHub's runner.

    :param form: the format of what the runner reads; None if no runner does, or if the lines are commands for it
    """

    def __init__(self, stream: TextIO, form: str | None) -> None:
        self._stream = stream
        self._form = form
        self._begun = ""

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the lines that are complete."""
        if self._form is None:
            self._stream.write(clean_lines(text, styled=True))
        else:
            # The runner obeys whole lines, so a line is checked once it is complete, however a view splits it.
            lines, end, self._begun = (self._begun + text).rpartition("\n")
            self._stream.write(self._clean_lines(lines + end))
        return len(text)

    def finish(self) -> None:
        """Write the last line, if nothing ended it."""
        self._stream.write(self._clean_lines(self._begun))
        self._begun = ""

    def _clean_lines(self, lines: str) -> str:
        cleaned = clean_lines(lines, styled=True)
        return without_commands(cleaned, *filter(None, [_ESCAPES.get(self._form or "")]))


@contextlib.contextmanager
def blame_option(option: str) -> Iterator[None]:
    """Report what is wrong with the file that an option names as wrong usage of the option."""
    try:
        yield
    except InputError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def write_result(result: HasJson, form: str, output: Path | None, views: Mapping[str, View]) -> None:
    """Write a result to ``output``, or to stdout.

    :param form: ``json``, or the name of one of ``views``
    """
    with errors_reported(), output_to(output, form=form) as stream:
        if form == "json":
            stream.write(result.to_json())
        else:
            views[form](stream)


def make_console(stream: TextIO) -> Console:
    """Return the console that human-readable views print to."""
    from rich.console import Console
    from rich.text import Text

    from abiscan.report.line import StyledLine, wrapped

    class OutputConsole(Console):
        def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
            # On a terminal, lines are broken between words. A command is no_wrap: it stays one line, to be copied.
            # Not is_terminal, which a variable can make true of a pipe.
            if soft_wrap and not options.get("no_wrap") and stream.isatty() and len(objects) == 1:
                (line,) = objects
                text = line.__rich__() if isinstance(line, StyledLine) else line
                objects = (wrapped(text, self.width) if isinstance(text, Text) else text,)
            super().print(*objects, soft_wrap=soft_wrap, **options)

        def on_broken_pipe(self) -> None:
            # ``errors_reported`` ends such a run as shells expect it.
            raise  # noqa: PLE0704 - what it handles; rich would exit with 1, which means a finding

    return OutputConsole(file=stream, highlight=False)


def make_table_console(stream: TextIO) -> Console:
    """Return a console for views with tables of names, which are wrapped on a terminal only."""
    console = make_console(stream)
    # rich assumes 80 columns where there is no terminal, and would cut names and commands that are searched or copied.
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console


def make_page(stream: TextIO) -> Page:
    """Return what lines of a view are printed to, for views of lines and ``StyledTable`` alone."""
    from abiscan.report.line import PlainPage, is_plain

    return PlainPage(stream, make_console) if is_plain(stream) else make_console(stream)


def install_checked(
    installer: Installer,
    program: Sequence[str],
    environment_for: Callable[[Sequence[str]], PythonEnvironment],
    line: CommandLine,
    words: Sequence[str],
    cpus: tuple[str, ...] = (),
) -> None:
    """Run an installer in place of this process, after a check if it will install something; not if only a plan was
    asked for.

    :param program: the command that ``words`` are passed to
    :param environment_for: returns the environment that it installs into with some arguments of ``install``
    :param line: what ``words`` say
    :param words: what the user typed
    :param cpus: the processors that what is installed has to run on, as the user named them
    """
    import msgspec.structs

    from abiscan.hooks import arguments

    if cpus:
        from abiscan.verdict.hardware import cpu_question

        with errors_reported():
            # It may read /proc/cpuinfo or ask the system, and a name that is wrong is reported before anything is
            # planned.
            cpu_question(cpus)  # this processor can be read only before the check is confined
    # They may stand anywhere, like the installer's own options.
    own = [word for word in words if word in OWN_OPTIONS]
    command = tuple(word for word in words if word not in OWN_OPTIONS)
    if line.command[-1:] == ("install",) and not arguments.has_option(
        line.arguments, "-h", "--help", "-V", "--version"
    ):
        with errors_reported():
            # Before the check, which asks the installer several times: a pipe, such as <(…), can be read once.
            is_uv = line.command != ("install",)
            again = tuple(arguments.keep_contents(line.arguments, stdin=is_uv))
        if again != line.arguments:
            line = msgspec.structs.replace(line, arguments=again)
            command = (*line.command, *again)

        def check() -> tuple[str, ...] | None:
            return _check_install(installer, environment_for(line.arguments), command, line.arguments, own, cpus)

        with errors_reported():
            from abiscan.cli import process, supervisor
            from abiscan.inputs.isolation import Confinement

            if supervisor.is_possible() and not click.get_current_context().find_root().params["no_isolation"]:
                # The check runs the installer itself, which writes and connects, so only time and memory are limited.
                checked = supervisor.result_of(check, Confinement.NONE)
            else:
                # The folder is gone before the installer takes the place of this process: nobody would remove it later.
                with process.scratch_folder():
                    checked = check()
        if checked is None:
            return
        command = checked
    # Refuse, rather than let an installation through unchecked because an option is newer than this version of abiscan.
    elif line.doubt is not None and "install" in line.arguments and FORCE not in own:
        problem = f"abiscan does not know the option {line.doubt}, so it does not know which command this is"
        print_notice(f"abiscan: {problem} (write it after install, or use {FORCE} to run it without a check)")
        sys.exit(2)
    sys.stdout.flush()
    temporary.adopt_orphans(orphans=False)  # it would not know that they are its own
    programs.replace_process([*program, *command])


def _check_install(
    installer: Installer,
    environment: PythonEnvironment,
    words: tuple[str, ...],
    arguments: Sequence[str],
    own: Collection[str],
    cpus: tuple[str, ...],
) -> tuple[str, ...] | None:
    """Say what an install would break; end the process if it would, unless the user insists.

    Returns the command line with which the installer installs what was checked; None if only a plan was asked for,
    which is printed.

    :param words: the command line as the user typed it
    :param own: the options for abiscan itself
    :param cpus: as for ``install_checked``
    """
    from abiscan.hooks.arguments import has_option
    from abiscan.hooks.gate import check_install
    from abiscan.hooks.install import InstallerError
    from abiscan.inputs.environment import refuse_tool_environment
    from abiscan.inputs.session import Session

    may_change = not {FORCE, ALLOW_TORCH_CHANGE}.isdisjoint(own)
    with errors_reported():
        print_notice(f"abiscan: environment {environment}")
        refuse_tool_environment(environment)
        with show_progress("") as progress:
            try:
                outcome = check_install(
                    installer,
                    words,
                    arguments,
                    Session.of_user(progress, cpus=cpus),
                    torch_may_change=may_change or has_option(arguments, "--dry-run"),
                )
            except InstallerError as error:
                print_notice(str(error), nl=False)
                sys.exit(error.code)
            except UnclearPlanError as error:
                if FORCE not in own:
                    raise
                print_notice(f"abiscan: {error.subject}: {error.problem}; it is installed without a check")
                return words
        for line in (*filter(None, [outcome.change]), *outcome.plan, *outcome.notes, *outcome.problems):
            print_notice(f"abiscan: {line}")
        # Problems first: there is no point in asking about a change of torch that would not work.
        if outcome.problems and FORCE not in own:
            print_notice(f"abiscan: nothing was installed; use {FORCE} to install anyway")
            sys.exit(1)
        if outcome.change is not None and not outcome.change.requested and not may_change:
            if outcome.without_change is not None:
                print_notice(f"abiscan: {outcome.without_change}")
            _confirm_torch_change(arguments)
        if outcome.output is not None:
            for text, is_error in zip(outcome.output, (False, True), strict=True):
                click.echo(text, nl=False, err=is_error)
            return None
        return outcome.words


def _confirm_torch_change(arguments: Sequence[str]) -> None:
    """Ask whether a torch may change that the user did not name; end the process if it may not, or nobody is there."""
    from abiscan.hooks.arguments import has_option

    if has_option(arguments, "--dry-run"):
        return
    # Both ways of pip to say that nobody answers.
    silent = has_option(arguments, "--no-input") or bool(os.environ.get("PIP_NO_INPUT"))
    if not silent and sys.stdin.isatty() and sys.stderr.isatty():
        if click.confirm("abiscan: you did not name torch; change it?", err=True):
            return
        print_notice("abiscan: nothing was installed")
    else:
        fix = f"name torch, or use {ALLOW_TORCH_CHANGE}"
        print_notice(f"abiscan: nothing was installed: torch would change, and you did not name it ({fix})")
    sys.exit(1)
