"""What the commands share: errors, the cache folder, output."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

import click
import platformdirs

from abiscan.errors import AbiscanError

if TYPE_CHECKING:
    from rich.status import Status

    from abiscan.hooks.install import Installer
    from abiscan.inputs.sources import Source
    from abiscan.pipelines.check import TorchChoice

_PATIENCE_SECONDS: Final = 1.0


def cache_folder() -> Path:
    """Where facts of large libraries are kept between runs."""
    return Path(platformdirs.user_cache_dir("abiscan", appauthor=False))


def torch_choice(spec: str) -> TorchChoice:
    """What ``--torch SPEC`` means where one torch is meant: a path if there is one, else a release number."""
    from abiscan.pipelines import check as scan
    from abiscan.releases.embedded import is_version

    path = Path(spec)
    return scan.torch_numbered(spec) if is_version(spec) and not path.exists() else scan.torch_at(path)


def torch_choices(spec: str) -> list[TorchChoice]:
    """What ``--torch SPEC`` means where several may be: all releases that a version specifier admits."""
    from abiscan.pipelines import check as scan
    from abiscan.releases.embedded import admitted, is_version

    if not Path(spec).exists() and not is_version(spec) and (versions := admitted(spec)):
        return [scan.torch_numbered(str(version)) for version in versions]
    return [torch_choice(spec)]


@contextlib.contextmanager
def errors_reported() -> Iterator[None]:
    """Turn an error that a user can fix into one line on stderr and its exit code."""
    try:
        yield
    except AbiscanError as error:
        click.echo(f"abiscan: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 - a bug of ours must not look like a finding (exit code 1)
        click.echo(f"abiscan: internal error, please report it: {type(error).__name__}: {error}", err=True)
        sys.exit(3)


@contextlib.contextmanager
def sources(words: Sequence[str], python: str | None) -> Iterator[list[Source]]:
    """The sources that the words for targets name; downloaded wheels are deleted at the end.

    :param python: whose packages are meant, None for those of the running interpreter
    :raises InputError: a word means nothing
    """
    from abiscan.inputs.packages import named

    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        yield [named(word, Path(folder), python) for word in words]


@contextlib.contextmanager
def working(at: str) -> Iterator[Callable[[str], None]]:
    """Show progress on a terminal, once the work has taken a second.

    :return: is called with what is being done
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    lock, now = threading.Lock(), [at]
    shown: list[Status] = []

    def show() -> None:
        from rich.console import Console
        from rich.text import Text

        with lock:
            if not timer.finished.is_set():
                shown.append(Console(stderr=True).status(Text(now[0])))
                shown[0].start()

    def progress(what: str) -> None:
        with lock:
            now[0] = what
            for status in shown:
                from rich.text import Text

                status.update(Text(what))

    timer = threading.Timer(_PATIENCE_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield progress
    finally:
        with lock:
            timer.cancel()  # sets timer.finished
            for status in shown:
                status.stop()


@contextlib.contextmanager
def output_to(path: Path | None) -> Iterator[TextIO]:
    """The stream to write a report to: ``path`` whole or not at all, stdout for None."""
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 still gets the report
        yield sys.stdout
        return
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            yield stream
        part.replace(path)
    except OSError as error:
        raise click.BadParameter(
            f"{path}: cannot be written: {error.strerror or error}", param_hint="--output"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def install_checked(installer: Installer, command: Callable[[], list[str]], words: Sequence[str]) -> NoReturn:
    """Hand over to an installer, after a check if it will install something.

    :param command: makes the command to which ``words`` are given
    """
    from abiscan.hooks.install import InstallerError, Outcome, check
    from abiscan.inputs.store import Store

    given = [word for word in words if word != "--force"]
    outcome = Outcome(problems=(), notes=())
    with errors_reported():
        if given[:1] == ["install"] and not {"-h", "--help"} & set(given):
            with working("") as progress:
                try:
                    outcome = check(installer, given[1:], Store(cache_folder()), progress)
                except InstallerError as error:
                    click.echo(str(error), nl=False, err=True)
                    sys.exit(error.code)
        for line in (*outcome.notes, *outcome.problems):
            click.echo(f"abiscan: {line}", err=True)
        if outcome.problems and "--force" not in words:
            click.echo("abiscan: nothing was installed; use --force to install anyway", err=True)
            sys.exit(1)
        program = [*command(), *given]
    sys.stdout.flush()
    os.execvp(program[0], program)  # noqa: S606 - its exit code, its terminal, its signals
