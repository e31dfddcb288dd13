"""What pip and uv say that they would do: as they really say it, and as a hostile or a newer one might."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from abiscan.errors import UnclearPlanError
from abiscan.hooks import uv as uv_module
from abiscan.hooks.pip import Pip
from abiscan.hooks.uv import Uv

# What uv 0.2.37, 0.4.30 and 0.13.9 print on stderr. The wheel was in the cache of the second only.
OLD = """Resolved 2 packages in 12ms
Would download 2 packages
Would uninstall 1 package
Would install 2 packages
 + old==1.0
 - torch==9.9.0+cpu
 + torch==9.8.0
"""
CACHED = """Using Python 3.11.7 environment at envB
Resolved 1 package in 2ms
Would uninstall 1 package
Would install 1 package
 - good==0.9
 + good==1.0 (from file:///idx/good-1.0-py3-none-linux_x86_64.whl)
"""
NOT_CACHED = """Using Python 3.11.7 environment at: envA
Resolved 1 package in 0.93ms
Would download 1 package
Would install 1 package
 + bad @ file:///idx/bad-1.0-py3-none-linux_x86_64.whl
"""
NOTHING = "Audited 1 package in 2ms\nWould make no changes\n"
REMOVED = "Resolved 1 package in 8ms\nWould uninstall 1 package\n - torch==9.9.0+cpu\n"
SOURCE = "Would install 1 package\n + ed @ git+https://host/ed@0123456789abcdef\n"

Said = Callable[[str, str], None]


@pytest.fixture
def uv_says(monkeypatch: pytest.MonkeyPatch) -> Said:
    """Make uv say something, on stderr and stdout."""

    def say(err: str, out: str) -> None:
        def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            finds = "find" in command
            return subprocess.CompletedProcess(command, 0, "/usr/bin/python3\n" if finds else out, err)

        monkeypatch.setattr(uv_module, "_run_uv", run)
        monkeypatch.setattr("abiscan.inputs.observed_fs.find_program", lambda _: "/usr/bin/uv")

    return say


@pytest.mark.parametrize(
    ("text", "packages", "removed"),
    [
        (OLD, [("old", "1.0", None), ("torch", "9.8.0", None)], set()),
        (CACHED, [("good", "1.0", "file:///idx/good-1.0-py3-none-linux_x86_64.whl")], set()),
        (NOT_CACHED, [("bad", "1.0", "file:///idx/bad-1.0-py3-none-linux_x86_64.whl")], set()),
        (NOTHING, [], set()),
        (REMOVED, [], {"torch"}),
    ],
)
def test_uv(uv_says: Said, text: str, packages: list[tuple[str, str, str | None]], removed: set[str]) -> None:
    uv_says(text, "")
    plan = Uv().plan_install(["x"])
    assert [(planned.name, planned.version, planned.url) for planned in plan.packages] == packages
    assert all(planned.wheel for planned in plan.packages)
    assert plan.removed == removed


def test_what_uv_builds_from_source_is_no_wheel(uv_says: Said) -> None:
    uv_says(SOURCE, "")
    (planned,) = Uv().plan_install(["x"]).packages
    assert not planned.wheel


def document(*changes: tuple[str, str, str]) -> str:
    entries = [{"name": name, "version": version, "action": action} for action, name, version in changes]
    return json.dumps({"schema": {"version": "preview"}, "changes": entries, "dry_run": True})


def test_the_json_of_uv_has_the_version_that_its_text_lacks(uv_says: Said) -> None:
    uv_says(SOURCE, document(("installed", "ed", "0.1")))
    (planned,) = Uv().plan_install(["x"]).packages
    assert (planned.version, planned.url) == ("0.1", "git+https://host/ed@0123456789abcdef")


def test_what_is_built_has_no_version_in_the_json_of_uv(uv_says: Said) -> None:
    # As uv 0.13.9 prints it for `-e proj` where that is installed already.
    text = """Would uninstall 1 package
Would install 1 package
 - proj==1.0 (from file:///src/proj)
 + proj @ file:///src/proj
"""
    changes = [{"name": "proj", "version": "1.0", "action": "uninstalled"}, {"name": "proj", "action": "installed"}]
    uv_says(text, json.dumps({"changes": changes, "dry_run": True}))
    plan = Uv().plan_install(["-e", "proj"])
    assert [(str(planned), planned.wheel) for planned in plan.packages] == [("proj from file:///src/proj", False)]
    assert plan.removed == set()


@pytest.mark.parametrize(
    ("err", "out"),
    [
        ("", ""),  # as with -q
        ("Resolved 1 package in 2ms\n", ""),
        (NOT_CACHED.replace(" @ ", " at "), ""),
        (NOT_CACHED + " ! bad==1.0\n + worse 1.0\n", ""),
        (NOT_CACHED.replace("install 1 package", "install 2 packages"), ""),
        (OLD.replace("Would uninstall 1 package\n", ""), ""),
        (OLD.replace("old==1.0", "old==\x1b[2J1.0"), ""),
        (NOTHING + " + bad==1.0\n", ""),
        (NOT_CACHED, "{"),
        (NOT_CACHED, "[" * 100_000),
        (NOT_CACHED, '{"changes": 1}'),
        (NOT_CACHED, document(("installed", "worse", "1.0"))),
        (NOT_CACHED, document(("installed", "bad", "1.0"), ("installed", "worse", "1.0"))),
        (NOT_CACHED, document(("conjured", "bad", "1.0"))),
        (NOTHING, document(("installed", "bad", "1.0"))),
    ],
)
def test_what_uv_does_not_say_clearly_is_an_error(uv_says: Said, err: str, out: str) -> None:
    uv_says(err, out)
    with pytest.raises(UnclearPlanError, match="--force"):
        Uv().plan_install(["x"])


LOCK = """
lock-version = "1.0"
created-by = "uv"
packages = [
    { name = "old", version = "1.0", wheels = [
        { url = "https://i/old-1.0-py30-none-any.whl", hashes = { sha256 = "OLD" } },
        { url = "https://i/old-1.0-BEST.whl", hashes = { sha256 = "BEST" } },
    ] },
    { name = "torch", version = "9.8.0", wheels = [{ path = "torch-9.8.0-FILE.whl", hashes = { sha256 = "BEST" } }] },
]
"""
HASHES = {"OLD": "1" * 64, "BEST": "b" * 64}


@pytest.mark.parametrize(
    ("words", "best", "addresses"),
    [
        ([], "py3-none-any", [f"https://i/old-1.0-py3-none-any.whl#sha256={HASHES['BEST']}", HASHES["BEST"]]),
        # A wheel that is for uv's Python, and not for the one that is known here: it may be the one that uv takes.
        ([], "cp313-cp313t-any", [None, HASHES["BEST"]]),
        (["-r", "indexes.txt"], "py3-none-any", [None, None]),
    ],
)
def test_which_files_uv_takes_of_an_index(
    uv_says: Said,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    best: str,
    addresses: list[str | None],
) -> None:
    uv_says(OLD, "")
    said, locking = uv_module._run_uv, list[Sequence[str]]()

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if "compile" in command:
            locking.append(command)
            text = LOCK.replace("-BEST", f"-{best}").replace("-FILE", "-py3-none-any")
            for name, digest in HASHES.items():
                text = text.replace(f'"{name}"', f'"{digest}"')
            Path(command[command.index("--output-file") + 1]).write_text(text, "utf-8")
        return said(command)

    monkeypatch.setattr(uv_module, "_run_uv", run)
    monkeypatch.chdir(tmp_path)
    Path("indexes.txt").write_text("old\n--extra-index-url https://i/simple\n", "utf-8")
    plan = Uv().plan_install([*words, "--index-url", "https://i", "-U", "-p", "x", "--prefix", "y", "old"])
    old, torch = (planned.url for planned in plan.packages)
    assert old == addresses[0]
    assert (torch and torch.rpartition("=")[2]) == addresses[1]
    for command in locking:
        assert command[-3:-1] == ["--index-url", "https://i"]
        assert not {"-U", "x", "--prefix", "y", "old"} & set(command)


def test_uv_installs_into_the_environment_that_is_checked(uv_says: Said, tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").touch()
    uv_says(NOTHING + f"Using Python 3.11.7 environment at: {tmp_path}\n", "")
    with pytest.raises(UnclearPlanError, match=f"would install into {tmp_path}"):
        Uv().plan_install(["x"])


def test_who_asks_for_torch(uv_says: Said, tmp_path: Path) -> None:
    uv_says(OLD, "")
    names, constraint, folders = (tmp_path / name for name in ("names.txt", "constraint.txt", "folders.txt"))
    names.write_text("old\nTorch>=2\n", "utf-8")
    constraint.write_text("torch==9.8.0\n", "utf-8")
    folders.write_text("-e .\n./x[y]\ntorch\n", "utf-8")
    asking = [
        ["torch==9.8.0"],
        ["Torch[x]"],
        ["/idx/torch-9.8.0-py3-none-any.whl"],
        ["-r", str(names)],
        ["-r", str(folders)],
        ["old", "-P", "torch"],
        ["old", "--reinstall-package", "torch"],
    ]
    for words in asking:
        assert [planned.requested for planned in Uv().plan_install(words).packages][1]
    for words in (["old"], ["old", "-c", str(constraint)], ["-r", str(tmp_path / "none")]):
        assert not [planned.requested for planned in Uv().plan_install(words).packages][1]


def entry(**changes: object) -> dict[str, object]:
    metadata = {"name": "bad", "version": "1.0", **changes}
    return {"metadata": metadata, "download_info": {"url": "file:///bad-1.0.whl", "archive_info": {}}}


@pytest.mark.parametrize(
    "report",
    [
        None,
        "",
        "no JSON",
        "[" * 100_000,
        "[]",
        "{}",
        '{"version": "1"}',
        '{"version": "2", "install": []}',
        '{"version": "1", "install": [1]}',
        '{"version": "1", "install": 1}',
        json.dumps({"version": "1", "install": [entry(name="bad\x1b[2J")]}),
        json.dumps({"version": "1", "install": [entry(version="1.0\nabiscan: fine")]}),
        json.dumps({"version": "1", "install": [entry(name=None)]}),
        json.dumps({"version": "1", "install": [{**entry(), "download_info": {}}]}),
    ],
)
def test_what_pip_does_not_report_clearly_is_an_error(monkeypatch: pytest.MonkeyPatch, report: str | None) -> None:
    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        if report is not None:
            Path(command[command.index("--report") + 1]).write_text(report, "utf-8")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("abiscan.inputs.programs.run_program", run)
    with pytest.raises(UnclearPlanError, match="--force"):
        Pip(None).plan_install(["bad"])
