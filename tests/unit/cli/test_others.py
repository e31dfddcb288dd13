"""``abiscan explain``, ``abiscan cache`` and what all commands share."""

from __future__ import annotations

from pathlib import Path

import click.testing
import pytest

import abiscan
from abiscan.cli import main
from abiscan.findings import Rule
from abiscan.hooks import lock_fitting
from abiscan.inputs.session import Session
from abiscan.results.lock import LockFit
from abiscan.rules import EVERY_RULE
from tests.fakes import package_wheel


def run(*words: str) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_version() -> None:
    first, *rest = run("--version").stdout.splitlines()
    assert first == f"abiscan, version {abiscan.__version__}"
    assert all(line.startswith(("without its native processor", "to have it: ")) for line in rest)


@pytest.mark.parametrize(
    "words", [("-h",), ("--help",), ("check", "--help"), ("explain", "--help"), ("cache", "--help")]
)
def test_help_has_examples(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Examples:" in result.stdout


def test_an_unknown_command_exits_with_2() -> None:
    assert run("chekc").exit_code == 2


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("chekc", "_C.so"), "there is no command chekc; did you mean check?"),
        (("explain", "undefind-symbol"), "there is no rule undefind-symbol; did you mean undefined-symbol?"),
        (("check", "_C.so", "--select", "layout"), "there is no rule layout; did you mean layout-drift?"),
        (("check", "_C.so", "--ignore", "zz"), "there is no rule zz; rules: "),
    ],
)
def test_a_misspelt_word_is_answered_with_the_right_one(words: tuple[str, ...], meant: str) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert meant in result.stderr


LOCK = """
version = 1
requires-python = ">=3.11"
[[package]]
name = "root"
version = "0.1.0"
source = { virtual = "." }
dependencies = [{ name = "plain" }]
[[package]]
name = "plain"
version = "1.0"
source = { registry = "." }
wheels = [{ path = "plain-1.0-py3-none-linux_x86_64.whl" }]
"""


def test_fit_of_a_lock_takes_a_release_or_none(tmp_path: Path) -> None:
    lock = tmp_path / "uv.lock"
    lock.write_text(LOCK)
    assert package_wheel(tmp_path, "plain", {}, version="1.0").name in LOCK
    words = ("fit", str(lock), "--python-version", "3.12", "--no-index")
    assert run(*words).stdout == "everything works without torch: nothing has to change\n"
    assert "  torch (absent) -> 2.9.1\n" in run(*words, "--torch", "2.9.1").stdout
    other = run(*words, "--torch", str(tmp_path))
    assert (other.exit_code, f"{tmp_path}: is no release of torch" in other.stderr) == (2, True)


def test_what_stands_in_the_way_of_a_lock_leaves_its_pins_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, pins = tmp_path / "uv.lock", tmp_path / "pins.txt"
    lock.write_text(LOCK)
    pins.write_text("plain==0.9\n")
    obstacle = "no versions of plain work together"
    nothing = LockFit(lock="", torch="2.9.1", broken=(), changes=(), unknown=(), command=None, obstacle=obstacle)
    monkeypatch.setattr(lock_fitting, "fit_lock", lambda *_: nothing)
    text = run("fit", str(lock))
    assert (text.exit_code, text.stdout, text.stderr) == (1, f"{obstacle}\n", "")
    refused = run("fit", str(lock), "--format", "requirements", "--output", str(pins))
    assert (refused.exit_code, refused.stdout, refused.stderr) == (1, "", f"abiscan: {obstacle}\n")
    assert pins.read_text() == "plain==0.9\n"


def test_fit_changes_one_lock_at_a_time(tmp_path: Path) -> None:
    locks = [tmp_path / name / "uv.lock" for name in ("a", "b")]
    for lock in locks:
        lock.parent.mkdir()
        lock.write_text(LOCK)
    result = run("fit", *map(str, locks), "--no-index")
    assert (result.exit_code, "only one lock at a time" in result.stderr) == (2, True)


@pytest.mark.parametrize("words", [("--cpu", "none-such"), ("--system", "none-such")])
def test_fit_looks_for_nothing_on_a_processor_or_a_system_that_is_not_known(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abiscan, "fit", lambda *_args, **_kwargs: pytest.fail("the index is read"))
    result = run("fit", "plain", "--torch", "2.9.1", "--no-index", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "none-such" in result.stderr


def test_fit_of_a_file_of_requirements(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("plain\n")
    found = run("fit", "-r", str(tmp_path / "list.txt"), "--torch", "2.9.1", "--no-index")
    assert "name a package" not in found.stderr
    assert "plain" in found.stdout + found.stderr
    nothing = run("fit", "--torch", "2.9.1", "--no-index")
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert "name a package, or a file of requirements with -r" in nothing.stderr


def test_an_option_of_other_commands_is_not_misspelt() -> None:
    result = run("release", "dist", "--torch", "2.9.1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no such option: --torch; the commands that have it: check, coverage, fit, matrix, " in result.stderr
    assert "--strict" not in result.stderr
    assert "--jobs" in run("release", "dist", "--jbos", "2").stderr


@pytest.mark.parametrize("command", ["check", "matrix", "coverage", "doctor", "ops", "pip", "stamp"])
@pytest.mark.parametrize("option", ["--torch", "--python"])
def test_an_empty_option_is_not_the_default(command: str, option: str) -> None:
    """As "$(python …)" leaves it if the command in it fails."""
    if option in run(command, "--help").stdout:
        result = run(command, option, "", "_C.so")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"'{option}': it is empty" in result.stderr


def test_the_guard_goes_where_it_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "absent" / "guard.py", f"{tmp_path}/absent/"):
        result = run("guard", "--write", str(path))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Invalid value for --write: " in result.stderr
        assert "cannot be written: the folder " in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert run("guard", "--write", f"{tmp_path}/").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["_abiscan_guard.py"]
    assert run("guard", "--write", str(tmp_path / "own_name.py")).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_abiscan_guard.py", "own_name.py"]


def test_a_current_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    # A relative path would mean nothing; help has none.
    assert (run("guard").exit_code, run("guard").stdout) == (2, "")
    assert run("guard", "--help").exit_code == 0
    assert run("guard", "-h").exit_code == 0


def test_explain_lists_all_rules() -> None:
    lines = run("explain").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [rule.name for rule in EVERY_RULE]
    assert all(line.endswith(rule.summary) for line, rule in zip(lines, EVERY_RULE, strict=True))


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.name)
def test_explain_shows_the_documentation(rule: Rule) -> None:
    assert run("explain", rule.name).stdout == f"{rule.name}\n\n{rule.documentation}\n"


def test_explain_of_no_rule_exits_with_2() -> None:
    result = run("explain", "no-such-rule")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no rule no-such-rule; rules: architecture-mismatch," in result.stderr


def test_the_cache_is_where_the_system_says(cache_home: Path) -> None:
    assert Session.of_user().folder == cache_home / "abiscan"


def test_an_empty_cache() -> None:
    assert run("cache").stdout == f"{Session.of_user().folder}: 0 files, 0.0 MB (limit 1000 MB)\n"


def test_a_cache_is_shown_and_cleared() -> None:
    Session.of_user().folder.mkdir(parents=True)
    (Session.of_user().folder / "a.headers").write_bytes(bytes(1_500_000))
    assert run("cache").stdout == f"{Session.of_user().folder}: 1 file, 1.5 MB (limit 1000 MB)\n"
    assert run("cache", "--clear").stdout == f"deleted from {Session.of_user().folder}: 1 file, 1.5 MB\n"
    assert run("cache").stdout == f"{Session.of_user().folder}: 0 files, 0.0 MB (limit 1000 MB)\n"


def test_a_cache_is_limited() -> None:
    (Session.of_user().folder).mkdir(parents=True)
    (Session.of_user().folder / "x.headers").write_bytes(b"x" * 1_500_000)
    assert run("cache", "--limit", "1M").stdout.endswith(": 0 files, 0.0 MB (limit 1 MB)\n")
    assert run("cache").stdout.endswith("(limit 1 MB)\n")


@pytest.mark.parametrize("size", ["much", "-1", "1T", "1.5G", ""])
def test_what_is_no_size_exits_with_2(size: str) -> None:
    result = run("cache", f"--limit={size}")
    assert result.exit_code == 2
    assert "is not a size such as 500M or 2G" in result.stderr


def test_a_cache_that_cannot_be_cleared_exits_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(self: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self), missing_ok)

    Session.of_user().folder.mkdir(parents=True)
    (Session.of_user().folder / "a.headers").write_bytes(b"")
    monkeypatch.setattr(Path, "unlink", busy)
    result = run("cache", "--clear")
    assert (result.exit_code, result.stderr) == (
        2,
        f"abiscan: {Session.of_user().folder}: cannot be cleared: Permission denied\n",
    )


def test_releases_lists_the_builds_of_each() -> None:
    result = run("releases")
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert len(lines) == 46
    assert lines["1.4.0"].split(maxsplit=1)[1] == "x86_64 1.4.0"
    assert lines["2.13.0"].split(maxsplit=1)[1] == "x86_64 2.13.0+cpu, 2.13.0+cu130; aarch64 2.13.0+cu130"
    assert result.stderr.startswith("86 builds in ")


def test_the_version_says_what_makes_first_runs_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABISCAN_NATIVE", "0")
    assert run("--version").stdout.splitlines()[1].startswith("without its native processor")
