"""What others run: the action, the pre-commit hook, shell completion."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.elf_builder import uses
from tests.fakes import extension, torch_package

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def abiscan(tmp_path: Path) -> Path:
    script = tmp_path / "abiscan"
    log = f'echo "$*" >>{tmp_path}/calls'
    script.write_text(f'#!/bin/sh\n{log}\nexec {sys.executable} -m abiscan "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


def action(abiscan: Path, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONPATH": str(ROOT), **settings}  # bash warns of unknown locales
    command = [str(ROOT / ".ci" / "action"), str(abiscan)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_action_checks_every_torch_and_keeps_the_worst_code(abiscan: Path, tmp_path: Path) -> None:
    torch_package(tmp_path / "old")
    (tmp_path / "new").mkdir()
    torch_package(tmp_path / "new" / "site", build="9.9.1+cpu")
    extension(undefined=uses("_ZN2at15get_num_threadsEv")).write(tmp_path / "build" / "good.so")
    extension(undefined=uses("_ZN2at4goneEv")).write(tmp_path / "build" / "bad.so")
    summary = tmp_path / "summary.md"
    both = "old/torch new/site/torch"
    settings = {"GITHUB_STEP_SUMMARY": str(summary), "SARIF": "reports"}
    good = action(abiscan, tmp_path, TARGETS="build/g*.so", TORCH=both, GITHUB_STEP_SUMMARY=str(summary))
    assert (good.returncode, good.stderr) == (0, "")
    assert [line.rpartition(" ")[2] for line in good.stdout.splitlines()] == ["9.9.0+cpu", "9.9.1+cpu"]
    bad = action(abiscan, tmp_path, TARGETS="build/*.so", TORCH="old/torch", **settings)
    assert bad.returncode == 1
    assert "::error file=build/bad.so,title=abiscan undefined-symbol::bad.so: " in bad.stdout
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["abiscan-old_torch.sarif"]
    assert summary.read_text("utf-8").count("| `build/good.so` |") == 3
    assert len((tmp_path / "calls").read_text("utf-8").splitlines()) == 3  # one for each torch, whatever is written
    for targets, code in (("build/bad.so absent.so", 1), ("absent.so", 2), ("build/good.so absent.so", 2)):
        assert action(abiscan, tmp_path, TARGETS=targets, TORCH=both).returncode == code


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_rules_in_reports_of_the_action_have_the_address_of_its_repository(abiscan: Path, tmp_path: Path) -> None:
    torch_package(tmp_path)
    extension(undefined=uses("_ZN2at4goneEv")).write(tmp_path / "bad.so")
    settings = {"TARGETS": "bad.so", "TORCH": "torch", "SARIF": "reports", "SERVER": "https://example.org"}

    def address(**more: str) -> str | None:
        action(abiscan, tmp_path, **settings, **more)
        log = json.loads((tmp_path / "reports" / "abiscan-torch.sarif").read_text("utf-8"))
        rules = {rule["id"]: rule for rule in log["runs"][0]["tool"]["driver"]["rules"]}
        return str(rules["undefined-symbol"]["helpUri"]) if "helpUri" in rules["undefined-symbol"] else None

    page = "https://example.org/me/abiscan/blob/v1/docs/rules/undefined-symbol.md"
    assert address(REPOSITORY="me/abiscan", REF="v1") == page
    assert address(REPOSITORY="", REF="") is None  # an action of a folder


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_reports_of_the_action_have_names_that_every_system_takes(abiscan: Path, tmp_path: Path) -> None:
    extension(undefined=uses("_ZN2at15get_num_threadsEv")).write(tmp_path / "good.so")
    for name in (">=2.99", "==2.6.x"):
        (tmp_path / name).touch()  # a pattern that is not expanded
    done = action(abiscan, tmp_path, TARGETS="good.so", TORCH=">=2.12,<2.13\n==2.6.*", SARIF="reports", ARGS="-v")
    assert done.returncode == 0
    names = sorted(path.name for path in (tmp_path / "reports").iterdir())
    assert names == ["abiscan-_2.12_2.13.sarif", "abiscan-_2.6._.sarif"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("torch", ["", " ", "\n \n"])
def test_the_action_without_a_torch_exits_with_2(abiscan: Path, tmp_path: Path, torch: str) -> None:
    done = action(abiscan, tmp_path, TARGETS="good.so", TORCH=torch)
    assert done.returncode == 2
    assert "the input torch is empty" in done.stderr
    assert not (tmp_path / "calls").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("torch", [">=2.12, <2.13", ">= 2.12 ,<2.13", ">=2.12,\n<2.13\n"])
def test_the_action_takes_a_specifier_with_blanks_as_one(abiscan: Path, tmp_path: Path, torch: str) -> None:
    extension(undefined=uses("_ZN2at15get_num_threadsEv")).write(tmp_path / "good.so")
    done = action(abiscan, tmp_path, TARGETS="good.so", TORCH=torch)
    assert done.returncode == 0
    (call,) = (tmp_path / "calls").read_text("utf-8").splitlines()
    assert "--torch >=2.12,<2.13 " in call


def test_the_action_names_its_inputs_right() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    declared = set(re.findall(r"^  (\w+):\n    description:", text, re.MULTILINE))
    used = set(re.findall(r"\$\{\{ inputs\.(\w+) \}\}", text))
    assert declared == used
    # Inputs reach the shell as variables: written into a script they could be commands.
    assert all("inputs." not in line for line in text.splitlines() if not re.match(r"        [A-Z]+: ", line))


def test_the_job_that_publishes_builds_as_the_page_says() -> None:
    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text("utf-8")
    page = (ROOT / "docs" / "releasing.md").read_text("utf-8")
    commands = re.findall(r"(?:ABISCAN_NATIVE=0 )?release/bin/(?!python -m pip).*", text)
    assert len(commands) == 7
    assert [command for command in commands if command not in page] == []
    # Whatever builds is without the right to publish.
    assert re.findall(r"^  (\w+):$|id-token: (\w+)", text.partition("jobs:")[2], re.MULTILINE) == [
        *(("wheels", ""), ("others", ""), ("publish", ""), ("", "write")),
    ]


def test_the_pre_commit_hook_takes_extensions_and_wheels() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    match = re.search(r"files: (.+)", text)
    assert match
    taken = (
        "a/_C.so",
        "a/libop.so.1",
        "a/libop.so.1.2",
        "a/_C.cp312-win_amd64.pyd",
        "pkg-1-py3-none-any.whl",
        "a.conda",
    )
    assert all(re.search(match[1], name) for name in taken)
    assert not any(re.search(match[1], name) for name in ("a.py", "a.so.txt", "a.sol", "libop.so.1.md"))
    # Files that are split among processes would each be judged without the others.
    assert "  require_serial: true\n" in text
    assert "entry: abiscan check\n" in text


@pytest.mark.skipif(shutil.which("bash") is None or shutil.which("git") is None, reason="needs bash and git")
def test_the_action_compares_locks_with_the_base_branch(abiscan: Path, tmp_path: Path) -> None:
    lock, summary = tmp_path / "requirements.txt", tmp_path / "summary.md"
    lock.write_text("torch==2.9.1\n", encoding="utf-8")
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q", "-b", "base"), ("add", "."), (*identity, "commit", "-qm", "x")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    lock.write_text("torch==2.13.0\n", encoding="utf-8")
    settings = {"GITHUB_STEP_SUMMARY": str(summary), "PIP_NO_INDEX": "1"}
    done = action(abiscan, tmp_path, LOCK="requirements.txt", BASE="base", **settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert "| torch | 2.9.1 | 2.13.0 |" in summary.read_text("utf-8")
    absent = action(abiscan, tmp_path, LOCK="requirements.txt", BASE="absent", **settings)
    assert absent.returncode == 2
    assert "absent: is not a commit in the repository" in absent.stderr


def test_the_hook_takes_locks() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8").partition("- id: abiscan-lock\n  name")[2]
    match = re.search(r"files: (.+)", text)
    assert match
    taken = ("uv.lock", "a/poetry.lock", "pylock.toml", "pylock.dev.toml", "b/pixi.lock", "pdm.lock")
    assert all(re.search(match[1], name) for name in taken)
    assert not any(re.search(match[1], name) for name in ("Cargo.lock", "pyproject.toml", "xuv.lock"))
    assert "entry: abiscan check\n  args: [--base, HEAD]\n" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell: str) -> None:
    code = "from abiscan.cli import main; main(prog_name='abiscan')"

    def complete(**settings: str) -> str:
        environment = {**os.environ, **settings}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.stdout

    if shell != "bash":  # whose version click asks for
        assert "abiscan" in complete(_ABISCAN_COMPLETE=f"{shell}_source")
    words = {"COMP_WORDS": "abiscan do", "COMP_CWORD": "1" if shell != "fish" else "do"}
    assert "doctor" in complete(_ABISCAN_COMPLETE=f"{shell}_complete", **words)
    if shell != "fish":  # which passes the word under the cursor differently
        words = {"COMP_WORDS": "abiscan check --torch 2.1", "COMP_CWORD": "3"}
        assert "2.13.0" in complete(_ABISCAN_COMPLETE=f"{shell}_complete", **words)
        words = {"COMP_WORDS": "abiscan check --select unde", "COMP_CWORD": "3"}
        assert "undefined-symbol" in complete(_ABISCAN_COMPLETE=f"{shell}_complete", **words)
    words = {"COMP_WORDS": "abiscan explain unde", "COMP_CWORD": "2" if shell != "fish" else "unde"}
    assert "undefined-symbol" in complete(_ABISCAN_COMPLETE=f"{shell}_complete", **words)
    words = {"COMP_WORDS": "abiscan check --fo", "COMP_CWORD": "2" if shell != "fish" else "--fo"}
    assert "--format" in complete(_ABISCAN_COMPLETE=f"{shell}_complete", **words)
