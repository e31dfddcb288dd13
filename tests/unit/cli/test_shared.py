"""What the commands share: options and their values, and how a command ends."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from abiscan.cli import common, main, options
from abiscan.cli.common import errors_reported, explain_strict, install_checked, report_unread
from abiscan.errors import InputError, StoppedError, UnclearPlanError
from abiscan.hooks.command_line import CommandLine
from abiscan.hooks.gate import InstallCheck
from abiscan.hooks.install import InstallerError
from abiscan.hooks.torch_change import TorchChange
from abiscan.inputs import isolation, programs, temporary
from abiscan.inputs.index_options import IndexOptions
from abiscan.results.unchecked import Unchecked


def run(option: Any, *words: str) -> Result:
    """What a command prints that has an option: its parameters."""

    def command(**parameters: Any) -> None:
        click.echo(repr(dict(sorted(parameters.items()))))

    return CliRunner().invoke(click.command()(option(command)), words)


def test_the_file_of_a_report(tmp_path: Path) -> None:
    shown = run(options.report_options("text", "json"), "--output", "a/b", "--format", "json").output
    assert shown == f"{{'form': 'json', 'output': {Path('a/b')!r}}}\n"
    assert "'form': 'text', 'output': None" in run(options.report_options("text", "json")).output
    for name, said in (
        ("a/", "a/ is not the name of a file; type a/report"),
        ("", "nothing is not the name of a file"),
    ):
        refused = run(options.report_options("text"), "--output", name)
        assert (refused.exit_code, said in refused.output) == (2, True)
    shown = run(
        options.more_reports_option("json", "html"), "--report", "json=a", "--report", f"html={tmp_path}/b=c"
    ).output
    assert f"[('json', {Path('a')!r}), ('html', {tmp_path / 'b=c'!r})]" in shown
    for word in ("json", "json=", "text=a", "=a"):
        refused = run(options.more_reports_option("json", "html"), "--report", word)
        assert "expected FORMAT=FILE, where FORMAT is one of json, html" in refused.output
    assert run(options.more_reports_option("json"), "--report", "json=a/").exit_code == 2


def test_options_of_the_index(tmp_path: Path) -> None:
    words = [
        "-i",
        "https://i/",
        "--extra-index-url",
        str(tmp_path),
        "-f",
        str(tmp_path),
        "-f",
        "https://l/",
        "--no-index",
    ]
    index = IndexOptions(index_url="https://i/", extra_index_urls=(str(tmp_path),), find_links=(str(tmp_path), "https://l/"),
                         no_index=True)  # fmt: skip
    assert run(options.index_options, *words).output == f"{ {'index': index}!r}\n"
    assert run(options.index_options).output == f"{ {'index': IndexOptions()}!r}\n"
    neither = "is neither a URL nor a folder"
    for option, said in (
        ("--index-url", neither),
        ("--extra-index-url", neither),
        ("--find-links", "does not exist; pass a"),
    ):
        refused = run(options.index_options, option, str(tmp_path / "absent"))
        assert (refused.exit_code, said in " ".join(refused.output.split())) == (2, True)


def test_other_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abiscan.inputs.system.count_processors", lambda: 7)
    assert [run(options.jobs_option(""), *words).output for words in ([], ["--jobs", "3"])] == [
        "{'jobs': 7}\n",
        "{'jobs': 3}\n",
    ]
    assert run(options.jobs_option(""), "--jobs", "1").output == "{'jobs': 1}\n"
    assert run(options.jobs_option(""), "--jobs", "0").exit_code == 2
    for option, name in ((options.torch_option(""), "--torch"), (options.torches_option("torches", ""), "--torch"),
                         (options.python_option(""), "--python")):  # fmt: skip
        refused = run(option, name, "")
        assert "it is empty; if it is the output of a command, that command failed" in " ".join(refused.output.split())
        assert run(option, name, "x").exit_code == run(option).exit_code == 0
    assert run(options.torches_option("torches", ""), "--torch", "a", "--torch", "").exit_code == 2
    assert "'fail_on': 'corrupts', 'strict': False" in run(options.fail_options("")).output
    assert "'machine': 'x86_64'" in run(options.machine_option).output
    context: Any = None
    names = [item.value for item in options.complete_torch(context, context, "2.1")]
    assert names[0] > names[-1]
    assert all(name.startswith("2.1") for name in names)
    (none,) = options.complete_torch(context, context, "nothing")
    assert (none.value, none.type) == ("nothing", "file")
    options.refuse_both("--a", True, "--b", None)
    with pytest.raises(click.UsageError, match="--a and --b cannot be combined"):
        options.refuse_both("--a", True, "--b", 1)


def ends(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """How a command ends that raises an error: its code, and what it says."""
    with pytest.raises(SystemExit) as ended, errors_reported():
        raise error
    return ended.value.code, capsys.readouterr().err


FILES = "Too many open files (raise the limit on open files: ulimit -n 1024)"
SPACE = "No space left on device (free some space, or name another folder in TMPDIR)"
PROCESSES = "Resource temporarily unavailable (end some processes, or raise the limit on their number: ulimit -u)"
MEMORY = "Cannot allocate memory (free some memory, or raise the limits: ulimit -v unlimited, ulimit -d unlimited)"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("a.so", "is no ELF", "pass another"), 2, "a.so: is no ELF (pass another)"),
        (StoppedError("a.so", "takes too long"), 3, "a.so: takes too long"),
        (OSError(errno.EMFILE, "x"), 2, f"the system: {FILES}"),
        (OSError(errno.EMFILE, "x", "a"), 2, f"a: {FILES}"),
        (OSError(errno.ENOSPC, "x", b"a"), 2, f"a: {SPACE}"),
        (OSError(errno.EAGAIN, "x"), 2, f"the system: {PROCESSES}"),
        (MemoryError(), 2, f"the system: {MEMORY}"),
    ],
)
def test_how_errors_end_a_command(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(error, capsys) == (code, f"abiscan: {said}\n")


def test_a_bug_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (ValueError("why"), OSError(errno.ENOENT, "gone"), KeyError("x")):
        code, said = ends(error, capsys)
        assert (code, said.startswith("abiscan: internal error, please report it: ")) == (3, True)


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_an_output_that_cannot_be_written(
    number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who has seen enough ends the command as a signal would; any other error of stdout is said."""
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    code, said = ends(OSError(number, os.strerror(number)), capsys)
    assert (code, said) == (
        (141, "") if number == errno.EPIPE else (2, "abiscan: stdout: cannot be written: No space left on device\n")
    )


def test_how_click_ends_a_command_is_no_error() -> None:
    for error in (click.exceptions.Exit(5), click.Abort(), click.UsageError("a\x1bb")):
        with pytest.raises(type(error)), errors_reported():
            raise error


def test_what_is_said_beside_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    report_unread([Unchecked(target="a", problem="is truncated", fix="", readable=False),
                   Unchecked(target="b", problem="has nothing", fix="", readable=True)])  # fmt: skip
    explain_strict(["x", "y", "x"])
    explain_strict([])
    assert capsys.readouterr().err.splitlines() == [
        "abiscan: a: is truncated",
        "abiscan: --strict: could not be checked: x, y",
    ]


class Replaced(Exception):  # noqa: N818 - the process goes on as another
    pass


class Installing:
    """An installation whose check has an outcome, or raises; ``words`` are what the installer gets in the end."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, outcome: InstallCheck | Exception, *, terminal: bool = False
    ) -> None:
        self.words: list[str] | None = None

        def check(*_: Any, **__: Any) -> InstallCheck:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        def replace(words: list[str]) -> None:
            self.words = words
            raise Replaced

        monkeypatch.setattr("abiscan.hooks.gate.check_install", check)
        monkeypatch.setattr("abiscan.inputs.environment.refuse_tool_environment", lambda _: None)
        monkeypatch.setattr("abiscan.cli.supervisor.is_possible", lambda: False)
        monkeypatch.setattr(programs, "replace_process", replace)
        monkeypatch.setattr(temporary, "adopt_orphans", lambda **_: None)
        monkeypatch.setattr(isolation, "is_first", lambda: True)
        for stream in ("stdin", "stderr"):
            monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: terminal, raising=False)
        monkeypatch.delenv("PIP_NO_INPUT", raising=False)

    def run(self, *words: str, line: CommandLine | None = None) -> int | str | None:
        """The code that the command ends with; None if the installer takes over, or has done everything."""
        own = tuple(word for word in words[1:] if word not in common.OWN_OPTIONS)
        line = line or CommandLine(command=words[:1], arguments=own)
        context = click.Context(click.Command("x"))
        with context:
            try:
                install_checked(None, ["pip"], lambda _: "here", line, words)  # type: ignore[arg-type,return-value]
            except SystemExit as end:
                return end.code
            except Replaced:
                pass
        return None


CHANGE = TorchChange(before="2.8.0", after="2.9.1", requested=False)
NOTHING = "abiscan: nothing was installed"
ALLOW = "(name torch, or use --allow-torch-change)"
UNCLEAR = UnclearPlanError("pip", "says nothing")
SOUND = InstallCheck(problems=(), notes=("a note",), plan=("a plan",), words=("install", "a==1"))
BREAKS = InstallCheck(problems=("it breaks",), notes=(), words=("install", "a"))
TORCH = InstallCheck(problems=(), notes=(), change=CHANGE, words=("install", "a"))


def test_what_is_sound_is_installed_as_it_was_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installing = Installing(monkeypatch, SOUND)
    assert (installing.run("install", "a"), installing.words) == (None, ["pip", "install", "a==1"])
    assert capsys.readouterr().err.splitlines() == ["abiscan: environment here", "abiscan: a plan", "abiscan: a note"]


@pytest.mark.parametrize(
    ("outcome", "options", "code", "last"),
    [
        (BREAKS, (), 1, f"{NOTHING}; use --force to install anyway"),
        (BREAKS, ("--force",), None, "abiscan: it breaks"),
        (TORCH, (), 1, f"{NOTHING}: torch would change, and you did not name it {ALLOW}"),
        (TORCH, ("--allow-torch-change",), None, "abiscan: torch 2.8.0 -> 2.9.1"),
        (TORCH, ("--force",), None, "abiscan: torch 2.8.0 -> 2.9.1"),
        (TORCH, ("--dry-run",), None, "abiscan: torch 2.8.0 -> 2.9.1"),
        (InstallerError(5, "no such package\n"), (), 5, "no such package"),
        (UNCLEAR, (), 3, "abiscan: pip: says nothing (use --force to install without a check)"),
        (UNCLEAR, ("--force",), None, "abiscan: pip: says nothing; it is installed without a check"),
    ],
)  # fmt: skip
def test_what_stops_an_installation(
    outcome: InstallCheck | Exception, options: tuple[str, ...], code: int | None, last: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    installing = Installing(monkeypatch, outcome)
    assert installing.run("install", "a", *options) == code
    assert capsys.readouterr().err.splitlines()[-1] == last
    assert (installing.words is None) is (code is not None)


@pytest.mark.parametrize(("answer", "options", "code"), [("y", (), None), ("n", (), 1), ("y", ("--no-input",), 1)])
def test_on_a_terminal_torch_is_asked_about(
    answer: str, options: tuple[str, ...], code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    installing = Installing(monkeypatch, TORCH, terminal=True)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: answer == "y")
    assert installing.run("install", "a", *options) == code


def test_what_installs_nothing_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installing = Installing(monkeypatch, BREAKS)
    for words in (("list",), ("install", "--help"), ("install", "-V")):
        assert (installing.run(*words), installing.words) == (None, ["pip", *words])
    doubtful = CommandLine(command=("x",), arguments=("--new", "install"), doubt="--new")
    assert installing.run("--new", "x", "install", line=doubtful) == 2
    assert "abiscan does not know the option --new" in capsys.readouterr().err
    assert installing.run("--new", "x", "install", "--force", line=doubtful) is None
    assert installing.words == ["pip", "--new", "x", "install"]
    harmless = CommandLine(command=("x",), arguments=("--new",), doubt="--new")
    assert installing.run("--new", "x", line=harmless) is None


@pytest.mark.parametrize(("command", "reads"), [(("install",), False), (("pip", "install"), True)])
def test_uv_reads_its_standard_input_where_pip_reads_a_file(
    command: tuple[str, ...], reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = dict[str, bool]()

    def keep(name: str, *, stdin: bool) -> str:
        kept[name] = stdin
        return name

    monkeypatch.setattr(programs, "keep_content", keep)
    line = CommandLine(command=command, arguments=("-r", "-"))
    assert Installing(monkeypatch, SOUND).run(*command, "-r", "-", line=line) is None
    assert kept["-"] is reads  # among files that variables name


def test_a_report_is_written_whole_or_cleaned_for_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with common.output_to(tmp_path / "report") as stream:
        stream.write("a\x1b[8mb\n\u202ec\n")
    assert (tmp_path / "report").read_text("utf-8").splitlines() == ["a\x1b[8mb", "\\u202ec"]
    with contextlib.suppress(ValueError), common.output_to(tmp_path / "report") as stream:
        stream.write("half")
        raise ValueError
    assert (tmp_path / "report").read_text("utf-8").startswith("a")
    monkeypatch.setattr(sys, "stdout", written := io.StringIO())
    with common.output_to(None) as stream:
        stream.write("::warning::x\nrest")
    assert written.getvalue().splitlines() == ["::warning::x", "rest"]


@pytest.mark.parametrize(
    ("line", "unchecked"),
    [
        ("pip sync r.txt", "uv pip sync"),
        ("tool upgrade x", "uv tool"),
        ("pip install x", None),
    ],
)
def test_what_uv_does_without_a_check_is_named(
    line: str, unchecked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abiscan.cli.uv.install_checked", lambda *_: None)
    monkeypatch.setattr("abiscan.hooks.uv.Uv.executable", "/usr/bin/uv")
    done = CliRunner().invoke(main, ["uv", *line.split()])
    expected = f"abiscan: {unchecked} is not checked; run abiscan doctor afterwards\n" if unchecked else ""
    assert (done.exit_code, done.stderr) == (0, expected)
