"""Options that several commands take, each with the same name, meaning and help."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from abiscan.binary.machines import Machine
from abiscan.inputs.index_options import IndexOptions

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Value = TypeVar("_Value", str | None, tuple[str, ...])
_Option = Callable[[_Command], _Command]


class ReportFile(click.ParamType):  # type: ignore[type-arg]  # not generic in older releases of click
    """The name of a file for a report; whether it can be written is found out by ``ReportingCommand``."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, unless it is spelled like that of a folder: ``Path`` does not keep that."""
        if str(value).endswith(("/", os.sep)) or not str(value):
            self.fail(f"{value or 'nothing'} is not the name of a file; type {value}report", param, ctx)
        return Path(str(value))


def report_options(*formats: str) -> _Option[Any]:
    """Return ``--format`` and ``--output``: parameters ``form`` and ``output``.

    :param formats: the formats of the command, the default first
    """
    form = click.option(
        "--format", "form", type=click.Choice(formats), default=formats[0], show_default=True, help="Output format."
    )

    output = click.option("--output", type=ReportFile(), metavar="FILE", help="Write the report to FILE.")
    return lambda command: form(output(command))


def jobs_option(help_text: str) -> _Option[Any]:
    """Return ``--jobs N``: parameter ``jobs``."""

    def counted(_ctx: click.Context, _param: click.Parameter, jobs: int | None) -> int:
        from abiscan.inputs.system import count_processors

        # Not a default of the option: the import is only needed to run the command, and not for its help.
        return jobs or count_processors()

    return click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        callback=counted,
        help=f"{help_text} Default: one for each processor.",
    )


def more_reports_option(*formats: str) -> _Option[Any]:
    """Return ``--report FORMAT=FILE``, repeatable: parameter ``reports``, pairs of a format and a path."""

    def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, Path]]:
        parts = [value.partition("=") for value in values]
        for form, _, file in parts:
            if form not in formats or not file:
                expected = f"expected FORMAT=FILE, where FORMAT is one of {', '.join(formats)}"
                raise click.BadParameter(expected, ctx, param)
        return [(form, ReportFile().convert(file, param, ctx)) for form, _, file in parts]

    return click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="FORMAT=FILE",
        callback=pairs,
        help="Also write the report in another format to FILE (repeatable).",
    )


def fail_options(help_text: str) -> _Option[Any]:
    """Return ``--fail-on`` and ``--strict``.

    :param help_text: what ``--fail-on`` means to the command
    """
    from abiscan.findings import Effect

    fail_on = click.option(
        "--fail-on",
        type=click.Choice([effect.value for effect in Effect]),
        default=Effect.CORRUPTS.value,
        show_default=True,
        help=help_text,
    )
    flag = click.option(
        "--strict", is_flag=True, help="Also exit with 1 if something could not be checked, and say what."
    )
    return lambda command: fail_on(flag(command))


def gpu_options(command: _Command) -> _Command:
    """Return ``--gpu GPU``, repeatable, and ``--driver VERSION``: parameters ``gpus`` and ``driver``."""
    gpus = click.option(
        "--gpu",
        "gpus",
        multiple=True,
        metavar="GPU",
        help="Also check for this GPU: 12.0, sm_90, gfx942, a name ('RTX 5090'), or native (repeatable).",
    )
    driver = click.option("--driver", metavar="VERSION", help="The version of NVIDIA's driver that the GPUs have.")
    return gpus(driver(command))


def cpu_option(command: _Command) -> _Command:
    """Return ``--cpu CPU``, repeatable: parameter ``cpus``."""
    return click.option(
        "--cpu",
        "cpus",
        multiple=True,
        metavar="CPU",
        help="Also check for this processor: x86-64-v3, a model (haswell, neoverse-n1), or native (repeatable).",
    )(command)


def system_option(command: _Command) -> _Command:
    """Return ``--system SYSTEM``: parameter ``system``."""
    return click.option(
        "--system",
        metavar="SYSTEM",
        help="Check for another system: debian12, ubuntu22.04, rhel9, amazonlinux2023, manylinux_2_28, or the root "
        "folder of an unpacked image.",
    )(command)


def index_options(command: _Command) -> _Command:
    """Return ``--index-url``, ``--extra-index-url``, ``--find-links`` and ``--no-index``, as pip has them:
    ``index``.
    """

    @functools.wraps(command)
    def call(
        *words: Any,
        index_url: str | None,
        extra_index_url: tuple[str, ...],
        find_links: tuple[str, ...],
        no_index: bool,
        **parameters: Any,
    ) -> Any:
        for option, urls in (("--index-url", filter(None, [index_url])), ("--extra-index-url", extra_index_url)):
            for url in urls:
                if "://" not in url and not Path(url).is_dir():
                    raise click.BadParameter(
                        f"{url} is neither a URL nor a folder; pass the URL of an index", param_hint=option
                    )
        for place in find_links:
            if "://" not in place and not Path(place).exists():
                raise click.BadParameter(
                    f"{place} does not exist; pass a folder, a page or a URL", param_hint="--find-links"
                )
        index = IndexOptions(
            index_url=index_url, extra_index_urls=extra_index_url, find_links=find_links, no_index=no_index
        )
        return command(*words, index=index, **parameters)

    options = (
        click.option("-i", "--index-url", metavar="URL", help="The package index. Default: that of pip's settings."),
        click.option("--extra-index-url", multiple=True, metavar="URL", help="Another index (repeatable)."),
        click.option(
            "-f", "--find-links", multiple=True, metavar="PLACE", help="A folder or page of wheels (repeatable)."
        ),
        click.option("--no-index", is_flag=True, help="Use no index, only --find-links."),
    )
    # A decorator that is applied last stands first in the help.
    for option in reversed(options):
        call = option(call)
    return cast("_Command", call)


def torch_option(help_text: str) -> _Option[Any]:
    """Return ``--torch SPEC``, not repeatable."""
    return click.option("--torch", metavar="SPEC", callback=_not_empty, shell_complete=complete_torch, help=help_text)


def torches_option(name: str, help_text: str) -> _Option[Any]:
    """Return ``--torch SPEC``, repeatable.

    :param name: of the parameter
    """
    return click.option(
        "--torch",
        name,
        multiple=True,
        metavar="SPEC",
        callback=_not_empty,
        shell_complete=complete_torch,
        help=help_text,
    )


def complete_torch(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the embedded releases that begin so, the newest first; files, if none does."""
    from click.shell_completion import CompletionItem

    from abiscan.torches import embedded

    # Newest first, since shells show what they get in this order.
    names = [*map(str, reversed(embedded.versions())), "latest"]
    result = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return result or [CompletionItem(incomplete, type="file")]


def python_option(help_text: str) -> _Option[Any]:
    """Return ``--python EXE``, or the folder of an environment."""
    return click.option("--python", metavar="EXE", callback=_not_empty, help=help_text)


def _not_empty(ctx: click.Context, param: click.Parameter, value: _Value) -> _Value:
    """Reject an empty value: it is what "$(python …)" leaves if the command fails, and must not mean the default."""
    if "" in ([value] if isinstance(value, str) else value or ()):
        raise click.BadParameter("it is empty; if it is the output of a command, that command failed", ctx, param)
    return value


def each_file_option(command: _Command) -> _Command:
    """Return ``--each-file``."""
    return click.option("--each-file", is_flag=True, help="Check each file by itself, however its package uses it.")(
        command
    )


def machine_option(command: _Command) -> _Command:
    """Return ``--machine``: which build of a release number."""
    return click.option(
        "--machine",
        type=click.Choice([machine.value for machine in Machine]),
        default=Machine.X86_64.value,
        show_default=True,
        help="The machine of a torch that is named by its release number.",
    )(command)


def verbose_option(help_text: str) -> _Option[Any]:
    """Return ``-v``."""
    return click.option("-v", "--verbose", is_flag=True, help=help_text)


def quiet_option(help_text: str) -> _Option[Any]:
    """Return ``-q``."""
    return click.option("-q", "--quiet", is_flag=True, help=help_text)


def is_default(name: str) -> bool:
    """Whether the user has not passed the option of a parameter."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.DEFAULT


def refuse_both(item: str, one_given: object, second: str, other_given: object) -> None:
    """Reject a combination of two options.

    :raises click.UsageError: both are given
    """
    if one_given and other_given:
        raise click.UsageError(f"{item} and {second} cannot be combined")
