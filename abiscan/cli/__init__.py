"""The command line: parse, call, print, exit. One module per command."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
from typing import Any

import click

import abiscan
from abiscan.inputs.kinds import is_address, is_lock_name
from abiscan.words import did_you_mean


class _Commands(click.Group):
    """The commands, each in the module of its name, imported only when called: none pays for another's imports."""

    NAMES = (
        *("cache", "check", "coverage", "diff", "doctor", "explain", "fit"),
        *("guard", "matrix", "ops", "pdm", "pip", "pixi", "poetry"),
        *("release", "releases", "stable", "stamp", "survey", "uv"),
    )

    READING = frozenset({"check", "coverage", "diff", "matrix", "ops", "release", "stable", "stamp"})
    """The commands that read targets, and need no network once they do; ``doctor`` does that itself, and then asks."""

    READING_ONLINE = frozenset({"fit"})
    """The commands that read targets from a server."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command, as the process that was started for it if this is one."""
        from abiscan.cli import process

        # Called by a test or from a program, the streams and signals of the process are not the command's to change.
        if process.is_own():
            process.begin_command()
        return super().main(*args, **extra)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the arguments; this may print the help."""
        from abiscan.cli.common import errors_reported

        with errors_reported():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command, without a last collection of garbage at its end."""
        # ``gc.freeze`` at the end: the interpreter collects once more as it ends, and would go through all objects.
        atexit.register(gc.freeze)
        from abiscan.cli.common import environment_named, errors_reported
        from abiscan.inputs.observed_fs import current_folder

        # The trace is opened before the process is split: both parts then write into one file.
        with (
            errors_reported(),
            environment_named(),
            _write_trace(ctx.params["trace"]),
        ):  # those of importing a command, too
            if not {"-h", "--help"}.intersection(ctx.args):
                current_folder()  # before anything takes a relative path from there
            # click has split off the name of the command, and has not yet imported the command.
            command = next(iter(ctx._protected_args), "")
            if command not in self.READING | self.READING_ONLINE:
                return self._invoke(ctx)
            from abiscan.cli import process, supervisor

            if ctx.params["no_isolation"] or not supervisor.is_possible():
                with process.scratch_folder():
                    return self._invoke(ctx)
            from abiscan.inputs.isolation import Confinement

            # ``matrix --versions`` reads wheels from an index, as do locks, and a target may be a wheel on a server.
            online = command in self.READING_ONLINE or any(
                word.startswith("--versions") or is_lock_name(word) or is_address(word) for word in ctx.args
            )
            confinement = Confinement.ONLINE if online else Confinement.OFFLINE
            return supervisor.run_isolated(lambda: self._invoke(ctx), confinement)

    def _invoke(self, ctx: click.Context) -> object:
        """Run a command in this process."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            # click suggests what is spelled alike, but an option of other commands is not misspelled.
            owners = [name for name in self.NAMES if error.option_name in _options_of(self.get_command(ctx, name))]
            if not owners:
                raise
            hint = f"no such option: {error.option_name}; the commands that have it: {', '.join(owners)}"
            raise click.NoSuchOption(error.option_name, hint, ctx=error.ctx) from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of the help."""
        return list(self.NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return the command of that name; None if there is none."""
        if cmd_name not in self.NAMES:
            return None
        # Modules are named like their commands, and so are the functions in them.
        command: click.Command = getattr(importlib.import_module(f"abiscan.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names.

        :raises click.UsageError: there is none
        """
        # Before click's own error, which suggests nothing.
        if args and args[0] not in self.NAMES and (hint := did_you_mean(args[0], self.NAMES)):
            ctx.fail(f"there is no command {args[0]}; {hint}")
        return super().resolve_command(ctx, args)


def _options_of(command: click.Command | None) -> list[str]:
    """Return all spellings of the options of a command."""
    params = command.params if command else ()
    return [spelling for param in params for spelling in (*param.opts, *param.secondary_opts)]


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 - a callback
    """Show the version, and whether a part of the package is missing that makes it fast."""
    if not value:
        return
    from abiscan import native

    click.echo(f"abiscan, version {abiscan.__version__}")
    if not native.is_compiled():
        click.echo(
            "without its native processor, which needs a C compiler when abiscan is installed: first runs take longer"
        )
        click.echo(f"to have it: {native.how_to_compile()}")
    elif not native.is_available():
        click.echo("without its native processor, as ABISCAN_NATIVE=0 says: first runs take longer")
    ctx.exit()


def _write_trace(file: str | None) -> contextlib.AbstractContextManager[None]:
    """Write the decisions of the meantime into a file, if there is one."""
    if not file:
        return contextlib.nullcontext()
    from abiscan.inputs import tracing

    return tracing.trace_to(file)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option("--no-isolation", is_flag=True, help="Read targets in this process, without limits: for debuggers.")
@click.option(
    "--trace",
    metavar="FILE",
    envvar="ABISCAN_TRACE",
    help="Write the decisions that lead to a verdict into FILE, or to stderr for -. Also: ABISCAN_TRACE=FILE.",
)
def main(no_isolation: bool, trace: str | None) -> None:  # noqa: FBT001 - for ``_Commands.invoke``
    """Will this compiled PyTorch extension load on that torch?

    abiscan answers from the files of both. It never imports or runs the extension.

    \b
    Examples:
      abiscan check torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl
      abiscan check _C.so --torch 2.9.1
      abiscan check _C.so --torch ~/venv/lib/python3.11/site-packages/torch
      abiscan doctor
      abiscan pip install torchaudio==2.8.0
      abiscan ops _C.so
      abiscan explain undefined-symbol

    \b
    Shell completion, for your shell's configuration file:
      eval "$(_ABISCAN_COMPLETE=bash_source abiscan)"   or zsh_source
      _ABISCAN_COMPLETE=fish_source abiscan | source
    """
