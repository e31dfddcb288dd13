"""What a target, a path or a server is called steers neither a terminal, nor its reader, nor GitHub's runner."""

from __future__ import annotations

import importlib
import json
import re
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Final
from xml.etree import ElementTree as ET

import click
import pytest

from abiscan.cli import _Commands
from abiscan.hooks import guard
from abiscan.words import clean, clean_lines, without_commands
from tests.commands.processes import Finished, run
from tests.elf_builder import uses
from tests.fakes import extension, install, python_of, torch_package
from tests.hostile.servers import serving, wheel

pytestmark = pytest.mark.hostile

INVISIBLE: Final = "\x1b[31m\x07\x9b\u202a\u202e\u2066\u2069\u2028\u2029\ufeff\u200b\u00ad\u00a0\U000e0041"
COMMANDS: Final = ("::set-output name=ok::1", "a##[command]b", "  ::add-mask::x", "::stop-commands::x", ":::error::x")
NAMES: Final = (
    *COMMANDS,
    "_ZN5torch##[command]x",
    "_ZN5torch::set-output name=ok::1",
    f"torch{INVISIBLE}::x",
    "_ZN5torch1xE\n::error::y",
    "x\r::error::z",
)

# What the runner of GitHub knows (actions/runner, ActionCommandManager): a line that begins with "::" after trimming,
# or that has "##[" anywhere.
REGISTERED: Final = {
    *("set-output", "save-state", "add-path", "set-env", "add-mask", "debug", "warning", "error", "notice", "echo"),
    *("group", "endgroup", "stop-commands", "add-matcher", "remove-matcher", "command"),
}


def obeyed(text: str) -> list[str]:
    """The lines that the runner takes for commands."""
    lines = re.split(r"\r\n|\r|\n", text)
    found = [line for line in lines if (match := re.match(r"\s*::\s*([a-z-]+).*?::", line)) and match[1] in REGISTERED]
    return found + [line for line in lines if "##[" in line]


def steering(text: str) -> set[str]:
    """The characters that are none for a reader."""
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return {char for char in text if unicodedata.category(char) in kinds and char not in "\n\t"}


def formats(command: str) -> list[str]:
    """The formats of a command."""
    its = getattr(importlib.import_module(f"abiscan.cli.{command}"), command)
    types = [option.type for option in its.params if option.name == "form"]
    return [str(name) for kind in types if isinstance(kind, click.Choice) for name in kind.choices]


TORCH: Final = ("--torch", "2.13.0")
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "check": TORCH,
    "matrix": TORCH,
    "ops": (),
    "coverage": (*TORCH, "--backend", "CPU"),
    "stable": (),
    "diff": ("2.12.0", "2.13.0", "--used-by"),
}
WAYS: Final = [(command, form) for command in WORDS for form in formats(command)]


def test_every_format_is_among_them() -> None:
    """Those of ``fit`` and ``doctor`` have tests of their own, ``release`` takes wheels alone; the others read none."""
    known = {command for command in _Commands.NAMES if formats(command)}
    assert known - set(WORDS) == {"doctor", "fit", "release"} | (known & {"releases", "survey"})
    assert set(formats("check")) == {"text", "json", "sarif", "junit", "github", "markdown"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose name and symbols are what a stranger likes."""
    path = tmp_path_factory.mktemp("hostile") / f"::error::{INVISIBLE}##[error]_C.so"
    path.write_bytes(extension(undefined=uses(*NAMES)).build())
    return path


def ran(target: Path, command: str, form: str, **env: str) -> Finished:
    words = WORDS[command]
    arguments = (command, *words, target.name) if words[-1:] == ("--used-by",) else (command, target.name, *words)
    home = {"XDG_CACHE_HOME": str(target.parent / "cache"), "GITHUB_ACTIONS": None, "PYTHONIOENCODING": "utf-8"}
    return run(*arguments, "--format", form, cwd=target.parent, env={**home, **env})


@pytest.mark.parametrize(("command", "form"), WAYS)
def test_no_format_steers_a_terminal_or_the_runner(target: Path, command: str, form: str) -> None:
    done = ran(target, command, form, GITHUB_ACTIONS="true")
    assert done.code in (0, 1, 2, 3)
    assert not steering(done.out)
    assert not steering(done.err)
    assert not obeyed(done.err)
    expected = [line for line in obeyed(done.out) if form == "github" and "title=abiscan " in line.partition("::")[2]]
    assert obeyed(done.out) == expected
    assert "##[" not in done.out
    if form in ("json", "sarif") and done.out:
        json.loads(done.out)
    if form == "junit":
        ET.fromstring(done.out)


def test_what_is_escaped_in_json_is_the_same_text(target: Path) -> None:
    here, there = (json.loads(ran(target, "check", "json", **env).out) for env in ({}, {"GITHUB_ACTIONS": "1"}))
    assert here == there
    assert "_ZN5torch##[command]x" in here["results"][0]["undefined_symbols"]


def test_annotations_obey_nobody_outside_of_github_either(target: Path) -> None:
    """``--format github`` may be printed to a file that a job prints."""
    done = ran(target, "check", "github")
    assert "##[" not in done.out
    assert all("title=abiscan " in line for line in obeyed(done.out))


@pytest.mark.parametrize("words", [("check", "{}"), ("check", "x.so", "--torch", "{}"), ("check", "--{}"), ("{}",)])
@pytest.mark.parametrize("name", [f"nothing{INVISIBLE}.so", "nothing##[error]x.so", "x\n::error::y.so"])
def test_errors_steer_nothing(tmp_path: Path, words: tuple[str, ...], name: str) -> None:
    arguments = [word.format(name) for word in words]
    done = run(*arguments, cwd=tmp_path, env={"GITHUB_ACTIONS": "true", "PYTHONIOENCODING": "utf-8"})
    assert done.code == 2
    assert not steering(done.err + done.out)
    assert not obeyed(done.err + done.out)


def test_a_server_names_what_it_likes(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:9/{INVISIBLE}##[error]/simple"
    done = run("fit", "x", *TORCH, "--index-url", url, cwd=tmp_path, env={"GITHUB_ACTIONS": "true"})
    assert done.code == 2
    assert "127.0.0.1:9" in done.err
    assert not steering(done.err)
    assert not obeyed(done.err)


@pytest.mark.parametrize("form", formats("fit"))
def test_fit_says_what_an_index_has(tmp_path: Path, form: str) -> None:
    """The names of files, their versions, what they require and why they were yanked."""
    name = f"x-1.0+{INVISIBLE}##[error]-py3-none-any.whl"
    with serving() as server:
        sound = server.serves(wheel(tmp_path, "x-1.0-py3-none-any.whl", f"Requires-Dist: torch {INVISIBLE}##[error]\n"))
        odd = {**sound, "filename": name, "requires-python": INVISIBLE}
        server.lists("x", [odd, {**sound, "yanked": f"\n::error::y{INVISIBLE}##[error]"}])
        env = {"GITHUB_ACTIONS": "true", "PYTHONIOENCODING": "utf-8", "XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = run("fit", "x", *TORCH, "--index-url", server.index, "--format", form, cwd=tmp_path, env=env)
    assert "/simple/x/" in server.asked
    assert done.out + done.err
    assert not steering(done.out + done.err)
    assert not obeyed(done.out + done.err)


@pytest.mark.parametrize("form", formats("doctor"))
def test_doctor_says_what_is_installed(tmp_path: Path, form: str) -> None:
    site = tmp_path / "site"
    library = f"x/::error::{INVISIBLE}##[error]_C.so"
    objects = {"x/_C.so": extension(undefined=uses(*NAMES)), library: extension(undefined=uses(*NAMES))}
    info = install(site, "x", objects, files={"x/__init__.py": "from . import _C\n"})
    metadata = f"Name: x{INVISIBLE}##[error]\nVersion: 1.0{INVISIBLE}##[error]\nRequires-Dist: torch\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    torch_package(site)
    python = python_of(site, tmp_path)
    env = {"GITHUB_ACTIONS": "true", "PYTHONIOENCODING": "utf-8", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = run("doctor", "--python", python, "--no-index", "--format", form, cwd=tmp_path, env=env)
    assert "_C.so" in done.out
    assert not steering(done.out + done.err)
    assert not obeyed(done.out + done.err)


def test_the_guard_says_what_a_stamp_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_name: str) -> int:
        raise RuntimeError

    parts = SimpleNamespace(_dispatch_key_parse=unknown)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.13.0", _C=parts))
    monkeypatch.setenv(guard.SWITCH, "details")
    names = {"package": f"x{INVISIBLE}", "package_version": INVISIBLE, "built_for": f"2.5{INVISIBLE}"}
    stamp = tmp_path / "stamp.json"
    stamp.write_text(json.dumps({**names, "extensions": [], "keys": {INVISIBLE: 1}, "operators": {}}), encoding="utf-8")
    with pytest.raises(ImportError, match="dispatch key") as caught:
        guard.check(stamp=str(stamp))
    assert not steering(str(caught.value))


def test_no_character_but_those_that_are_shown() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert steering(clean(everything)) == set()
    assert "\n" not in clean(everything)
    assert clean("naïve 漢字 ✅ c10::Device(int&&)") == "naïve 漢字 ✅ c10::Device(int&&)"
    assert clean("\x1b\u202e\U000e0041") == r"\x1b\u202e\U000e0041"


def test_colours_stay_and_nothing_else() -> None:
    assert clean_lines("\x1b[1;31merror\x1b[0m: \x1b]0;title\x07\x1b[2J\n", styled=True) == (
        "\x1b[1;31merror\x1b[0m: \\x1b]0;title\\x07\\x1b[2J\n"
    )


@pytest.mark.parametrize("line", [*COMMANDS, "###[x]", "##[##[x]", "::::error::", "\t ::error::x", "a\n::error::x"])
def test_no_line_stays_a_command(line: str) -> None:
    assert not obeyed(without_commands(line))


@pytest.mark.parametrize("line", ["at::Tensor x::y", "a: b", "#1 ## [x]", "error[rule]: c10::f(::g)"])
def test_other_lines_stay_what_they_are(line: str) -> None:
    assert without_commands(line) == line
