"""``abiscan pip`` and ``abiscan uv``: with the real pip, an index that is a folder, and environments made up."""

from __future__ import annotations

import dataclasses
import io
import os
import platform
import re
import socket
import subprocess
import sys
import tarfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest

from abiscan.cli import main
from abiscan.environments import examination
from abiscan.environments.package_check import CheckedPackage, check_package
from abiscan.hooks.arguments import index_options
from abiscan.hooks.command_line import PIP, read_command_line
from abiscan.inputs import programs
from abiscan.inputs.sources import Source
from tests.elf_builder import exports, uses
from tests.fakes import extension, install, package_wheel, site_of, torch_libraries

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("warm_pip"),
    pytest.mark.skipif((platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="needs x86_64 Linux"),
]
GONE = uses("_ZN2at4goneEv")
THREADS = uses("_ZN2at15get_num_threadsEv")


@pytest.fixture(autouse=True)
def index(wheel_index: Path) -> Path:
    """The index with three packages."""
    package_wheel(wheel_index, "good", {"good/_C.so": extension(undefined=THREADS)})
    package_wheel(wheel_index, "bad", {"bad/_C.so": extension(undefined=GONE)})
    package_wheel(wheel_index, "plain", {"plain.so": extension(needed=("libc.so.6",))})
    return wheel_index


@pytest.fixture(autouse=True)
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that abiscan became."""
    commands: list[list[str]] = []

    def execvp(_: str, words: list[str]) -> None:
        commands.append(words)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execvp", execvp)
    return commands


PLAN = re.compile(r"^abiscan: (would change |  [-+] ).*\n", re.MULTILINE)


def test_the_whole_plan_is_shown(python: str, index: Path) -> None:
    size = package_wheel(index, "needs", {}, metadata={"Requires-Dist": "good"}, version="2.0").stat().st_size
    install(site_of(Path(python).parent.parent), "needs", {}, version="1.0", requires="")
    words = ["pip", "--python", python, "install", "--upgrade", "needs"]
    lines = click.testing.CliRunner().invoke(main, words).stderr.splitlines()
    assert re.fullmatch(r"abiscan: would change 2 packages, \d\.\d kB:", lines[1])
    assert lines[2] == "abiscan:   - needs 1.0"
    assert re.fullmatch(rf"abiscan:   \+ needs 2\.0 +{size / 1e3:.1f} kB  asked for", lines[3])
    assert re.fullmatch(r"abiscan:   \+ good 1\.0 +\d\.\d kB  required by needs 2\.0", lines[4])
    assert "would change" not in click.testing.CliRunner().invoke(main, [*words, "-q"]).stderr


def run(python: str, *words: str, code: int = 0) -> str:
    result = click.testing.CliRunner().invoke(main, ["pip", "--python", python, *words])
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    first, _, rest = PLAN.sub("", result.stderr).partition("\n")
    if words[0] != "install" or "--help" in words:
        return result.stderr
    assert first == f"abiscan: environment {Path(python).parent.parent} (--python)"
    return rest


@pytest.mark.parametrize(
    ("words", "ends_with", "subject"),
    [
        (["absent"], "ERROR: No matching distribution found for absent", "absent"),
        (["good==1.0", "good==2.0"], "ERROR: ResolutionImpossible: ", "good"),
    ],
)
def test_an_index_that_cannot_be_read_is_named(
    words: list[str],
    ends_with: str,
    subject: str,
    python: str,
    handed_over: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/simple"
        said = run(python, "install", *words, "--index-url", url, code=1)
    *_, problem, unread = said.splitlines()
    assert problem.startswith(ends_with)
    assert unread == f"abiscan: an index cannot be read: {url}/{subject}/: connection refused; nothing was planned"
    assert handed_over == []


def test_what_fits_goes_to_pip_with_the_files_that_were_checked(python: str, handed_over: list[list[str]]) -> None:
    words = ["install", "good", "plain", "--no-deps", "--quiet"]
    assert run(python, *words) == ""
    pip = programs.python_command(sys.executable, "-m", "pip", "--python", python)
    ((*begin, constraint, versions, requirement, _),) = handed_over
    assert (begin, constraint, requirement) == ([*pip, *words], "--constraint", "--requirement")
    assert Path(versions).read_text("utf-8") == "good==1.0\nplain==1.0\n"


def test_a_plan_is_made_once(python: str, handed_over: list[list[str]]) -> None:
    """What pip prints of a plan is printed, and pip does not plan again; only it writes the report that users want."""
    words = ["pip", "--python", python, "install", "good", "plain", "--no-deps", "--dry-run"]
    result = click.testing.CliRunner().invoke(main, words)
    assert result.exit_code == 0
    assert result.stdout.endswith("\nWould install good-1.0 plain-1.0\n")
    assert handed_over == []
    click.testing.CliRunner().invoke(main, [*words, "--report", "-"])
    assert handed_over[0][-2:] == ["--report", "-"]


def test_what_does_not_fit_is_refused_in_one_line(python: str, handed_over: list[list[str]]) -> None:
    lines = run(python, "install", "good", "bad==1.0", code=1).splitlines()
    assert lines == [
        "abiscan: bad 1.0 will not work with torch 9.9.0+cpu: _C.so: undefined symbol: _ZN2at4goneEv",
        "abiscan: found no versions on the index that work together: looked for bad, and for other releases of torch",
        "abiscan: nothing was installed; use --force to install anyway",
    ]
    assert handed_over == []


def test_force_says_it_and_installs(python: str, handed_over: list[list[str]]) -> None:
    assert "bad 1.0 will not work" in run(python, "install", "--force", "bad")
    assert handed_over[0][-2:] == ["install", "bad"]


def test_requirements_and_constraints_are_honoured(python: str, index: Path, tmp_path: Path) -> None:
    package_wheel(index, "bad", {"bad/_C.so": extension()}, version="2.0")
    requirements, constraints = tmp_path / "requirements.txt", tmp_path / "constraints.txt"
    requirements.write_text("bad\n", encoding="utf-8")
    constraints.write_text("bad<2\n", encoding="utf-8")
    assert run(python, "install", "-r", str(requirements)) == ""
    error = run(python, "install", "-r", str(requirements), "-c", str(constraints), code=1)
    assert "bad 1.0 will not work" in error


def test_other_commands_and_help_go_to_pip(python: str, handed_over: list[list[str]]) -> None:
    for words in (["list"], ["install", "--help"], ["freeze", "--all"]):
        run(python, *words)
    assert [command[6:] for command in handed_over] == [["list"], ["install", "--help"], ["freeze", "--all"]]


def test_what_pip_refuses_has_its_exit_code(python: str, handed_over: list[list[str]]) -> None:
    run(python, "install", "no-such-package", code=1)
    run(python, "install", "--no-such-option", code=2)
    assert handed_over == []


def torch_wheel(folder: Path, *, with_threads: bool = True) -> Path:
    """torch 9.9.1: a release that is not embedded, so that its wheel must be read."""
    libraries = torch_libraries()
    if not with_threads:
        libraries["libtorch_cpu.so"] = dataclasses.replace(libraries["libtorch_cpu.so"], defined=exports("f"))
    objects = {f"torch/lib/{name}": library for name, library in libraries.items()}
    return package_wheel(
        folder, "torch", objects, version="9.9.1", files={"torch/version.py": "__version__ = '9.9.1'\n"}
    )


def test_the_torch_of_afterwards_counts(python: str, index: Path) -> None:
    torch_wheel(index, with_threads=False)
    assert run(python, "install", "good") == ""
    error = run(python, "install", "good", "torch==9.9.1", code=1)
    assert "good 1.0 will not work with torch 9.9.1: _C.so: undefined symbol: _ZN2at15get_num_threadsEv" in error


def test_what_is_installed_must_fit_a_new_torch(python: str, index: Path, environment: Path) -> None:
    install(site_of(environment), "there", {"there/_C.so": extension(undefined=THREADS)}, requires="")
    torch_wheel(index)
    assert run(python, "install", "torch==9.9.1") == "abiscan: torch 9.9.0+cpu -> 9.9.1\n"
    torch_wheel(index, with_threads=False)
    error = run(python, "install", "torch==9.9.1", code=1)
    assert "the installed there 1.0 will not work with torch 9.9.1: _C.so: undefined symbol" in error
    # A version of it that fits, in the same go, is all it takes.
    package_wheel(index, "there", {"there/_C.so": extension()}, version="2.0")
    assert run(python, "install", "torch==9.9.1", "there==2.0") == "abiscan: torch 9.9.0+cpu -> 9.9.1\n"


def test_versions_that_keep_torch_are_named_where_it_would_change(python: str, index: Path) -> None:
    torch_wheel(index)
    for number, torch in (("1.0", "9.9.0"), ("2.0", "9.9.1")):
        package_wheel(index, "vision", {}, metadata={"Requires-Dist": f"torch=={torch}"}, version=number)
    package_wheel(index, "models", {}, metadata={"Requires-Dist": "vision"}, tag="py3-none-any")
    keeping = f"abiscan: to keep torch 9.9.0+cpu: abiscan pip --python {python} install models==1.0 vision==1.0\n"
    assert keeping in run(python, "install", "models", code=1)
    file = next(index.rglob("models-1.0-*.whl"))
    keeping = f"abiscan: to keep torch 9.9.0+cpu: abiscan pip --python {python} install {file} vision==1.0\n"
    assert keeping in run(python, "install", str(file), code=1)
    assert "to keep" not in run(python, "install", "models", "--allow-torch-change")
    assert "to keep" not in run(python, "install", "vision==2.0", code=1)


def test_python_code_that_cannot_be_imported_is_refused(python: str, index: Path) -> None:
    for name, code in {"fails": "import torch\ntorch.nope\n", "works": "import torch\n"}.items():
        files = {f"{name}/__init__.py": code}
        package_wheel(index, name, {}, files=files, metadata={"Requires-Dist": "torch"}, tag="py3-none-any")
    assert run(python, "install", "works") == ""
    error = run(python, "install", "works", "fails", code=1)
    assert "abiscan: fails 1.0 will not work with torch 9.9.0+cpu: AttributeError: module 'torch' has no" in error


def test_code_that_reads_its_data_as_it_is_imported(python: str, index: Path) -> None:
    code = "import os, torch\npath = os.path.join(os.path.dirname(__file__), 'version.info')\n"
    code += "with open(path, encoding='utf-8') as stream:\n    __version__ = stream.readlines()[0].strip()\n"
    files = {"reads/__init__.py": code, "reads/version.info": "1.0\n"}
    package_wheel(index, "reads", {"reads/_C.so": extension(undefined=THREADS)}, files=files)
    assert run(python, "install", "reads") == ""


def bypassing(index: Path) -> None:
    """Packages with a library that fails, in wheels whose names say that there is none."""
    package_wheel(index, "hidden", {"hidden/_C.so": extension(undefined=GONE)}, tag="py3-none-any")
    package_wheel(index, "outer", {}, metadata={"Requires-Dist": "hidden"}, tag="py3-none-any")
    required = {"Requires-Dist": "torch", "Provides-Extra": "t"}
    package_wheel(
        index, "declared", {"declared/_C.so": extension(undefined=GONE)}, metadata=required, tag="py3-none-any"
    )
    optional = {"Requires-Dist": 'hidden; extra == "t"', "Provides-Extra": "t"}
    package_wheel(index, "extra", {}, metadata=optional, tag="py3-none-any")
    package_wheel(index, "pure", {}, files={"pure/__init__.py": ""}, tag="py3-none-any")


@pytest.mark.parametrize(
    "target", ["hidden", *(pytest.param(name, marks=pytest.mark.long) for name in ("outer", "declared", "extra[t]"))]
)
def test_the_contents_of_a_wheel_decide_and_not_its_name(
    python: str, index: Path, target: str, handed_over: list[list[str]]
) -> None:
    bypassing(index)
    error = run(python, "install", target, "pure", code=1)
    name = {"outer": "hidden", "extra[t]": "hidden"}.get(target, target)
    assert handed_over == []
    assert f"{name} 1.0 will not work with torch 9.9.0+cpu: " in error
    assert run(python, "install", "pure", "extra") == ""
    assert len(handed_over) == 1


def test_installed_python_code_counts_where_torch_changes(python: str, index: Path) -> None:
    site = site_of(Path(python).parent.parent)
    install(site, "there", {}, requires="torch", files={"there/__init__.py": "from torch._six import inf\n"})
    package_wheel(index, "torch", {}, version="2.13.0")
    six = site / "torch/_six.py"
    six.write_text("inf = 1\n", encoding="utf-8")
    try:
        error = run(python, "install", "torch==2.13.0", code=1)
    finally:
        six.unlink()
    assert "the installed there 1.0 will not work with torch 2.13.0+cpu: ModuleNotFoundError: No module" in error


@pytest.mark.parametrize("is_there", [True, False])
def test_what_does_without_the_torch_that_comes(python: str, index: Path, tmp_path: Path, *, is_there: bool) -> None:
    """It asks for a newer one, and has no names of torch without it: what takes something from it fails.

    :param is_there: whether both are installed already, and do not come with that torch
    """
    site = site_of(Path(python).parent.parent)
    package_wheel(index, "torch", {}, version="2.13.0")
    asks = "from importlib.metadata import version\ndef is_there():\n    return version('torch') >= '2.14.0'\n"
    layers = "from gate import is_there\nif is_there():\n    from torch import nn\nclass Layer(nn.Module): ...\n"
    rests = "import torch\nfrom gate.layers import Layer\n"
    packages = {
        "gate": ("torch", {"gate/__init__.py": asks, "gate/layers.py": layers}),
        "rests": ("gate", {"rests/__init__.py": rests}),
    }
    for name, (requires, files) in packages.items():
        install(tmp_path, name, {}, files=files)
        if is_there:
            install(site, name, {}, requires=requires, files=files)
        else:
            package_wheel(index, name, {}, files=files, metadata={"Requires-Dist": requires}, tag="py3-none-any")
    path = [str(site), str(tmp_path)]
    program = f"import sys\nsys.path[:0] = {path}\nimport gate\ngate.version = lambda _: '2.13.0'\nimport rests\n"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    nn = site / "torch/nn.py"
    nn.write_text("class Module: ...\n", encoding="utf-8")
    try:
        error = run(python, "install", "torch==2.13.0", *([] if is_there else ["rests"]), code=1)
    finally:
        nn.unlink()
    assert f"rests 1.0 will not work with torch 2.13.0+cpu: {said.splitlines()[-1]} (" in error
    assert "gate 1.0 will" not in error


def test_a_torch_that_comes_runs_in_the_python_that_it_is_installed_for(python: str, index: Path) -> None:
    code = "import sys\nimport torch\nif sys.version_info >= (3, 8):\n    from torch._six import inf\n"
    code += "else:\n    import no_such_module\n"
    package_wheel(index, "torch", {}, version="2.13.0")
    files = {"asks/__init__.py": code.replace("(3, 8)", f"{sys.version_info[:2]}")}
    package_wheel(index, "asks", {}, files=files, metadata={"Requires-Dist": "torch"}, tag="py3-none-any")
    error = run(python, "install", "torch==2.13.0", "asks", code=1)
    assert "asks 1.0 will not work with torch 2.13.0+cpu: ModuleNotFoundError: No module named 'torch._six'" in error


def test_a_source_distribution_is_said_to_be_unchecked(python: str, index: Path, tmp_path: Path) -> None:
    backend = f"""
import shutil
def get_requires_for_build_wheel(config_settings=None): return []
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return shutil.copy({str(package_wheel(tmp_path / "built", "source", {}))!r}, folder).rpartition("/")[2]
"""
    members = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": backend,
        "PKG-INFO": "Metadata-Version: 2.1\nName: source\nVersion: 1.0\n",
    }
    with tarfile.open(index / "source-1.0.tar.gz", "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(f"source-1.0/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    assert run(python, "install", "source") == "abiscan: source 1.0 is not checked: it will be built from source\n"


def test_without_torch_there_is_nothing_to_check(tmp_path: Path, handed_over: list[list[str]]) -> None:
    venv.create(tmp_path / "empty", with_pip=False)
    assert run(str(tmp_path / "empty" / "bin" / "python"), "install", "bad") == ""
    assert len(handed_over) == 1


@pytest.mark.usefixtures("python")
def test_index_options_are_told_from_others() -> None:
    words = ["-U", "--index-url", "u", "--extra-index-url=v", "-f", "w", "-ix", "-r", "f.txt", "--no-index", "pkg"]
    expected = ["--index-url", "u", "--extra-index-url", "v", "-f", "w", "-i", "x", "--no-index"]
    assert index_options(read_command_line(words, PIP).arguments) == expected


# What uv 0.9 prints on stderr.
DRY_RUN = """Using Python 3.11.7 environment at: environment
Resolved 2 packages in 71ms
Would download 1 package
Would uninstall 1 package
Would install 2 packages
 - bad==0.9
 + bad==1.0
 + good==1.0 (from file://{wheel})
"""


def test_uv_says_what_it_would_do(
    python: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handed_over: list[list[str]]
) -> None:
    said = tmp_path / "said"
    said.write_text(DRY_RUN.format(wheel=index / "good-1.0-py3-none-linux_x86_64.whl"), encoding="utf-8")
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    script = f'#!/bin/sh\ncase "$1" in python) echo {python};; *) cat {said} >&2; test "$4" != fail;; esac\n'
    uv.write_text(script.replace('"$4"', '"$8"'), encoding="utf-8")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(uv.parent), prepend=":")
    runner = click.testing.CliRunner()
    result = runner.invoke(main, ["uv", "pip", "install", "bad", "good"])
    assert result.exit_code == 1
    assert "bad 1.0 will not work with torch 9.9.0+cpu: _C.so: undefined symbol: _ZN2at4goneEv" in result.stderr
    assert "good" not in result.stderr
    result = runner.invoke(main, ["uv", "pip", "install", "bad", "good", "--force"])
    assert handed_over == [[str(uv), "pip", "install", "bad", "good"]]
    result = runner.invoke(main, ["uv", "pip", "install", "fail"])
    first = f"abiscan: environment {Path(python).parent.parent} (chosen by uv)\n"
    assert (result.exit_code, result.stderr) == (1, first + said.read_text("utf-8"))


def test_without_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = click.testing.CliRunner().invoke(main, ["uv", "pip", "install", "good"])
    assert result.exit_code == 2
    assert result.stderr.startswith("abiscan: uv: is not installed")


def test_a_bug_costs_the_check_of_one_package(
    python: str, handed_over: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "check_package", failing_for("good"))
    lines = run(python, "install", "good", "plain").splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("abiscan: good 1.0 is not checked: internal error, please report it: KeyError: 'a bug'")
    assert len(handed_over) == 1


def test_a_bug_hides_no_problem_of_another_package(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "check_package", failing_for("good"))
    error = run(python, "install", "good", "bad", code=1)
    assert "bad 1.0 will not work with torch 9.9.0+cpu" in error
    assert "good 1.0 is not checked: internal error" in error


def failing_for(name: str) -> Callable[..., CheckedPackage | None]:
    """The judgement of packages, with a bug that one of them meets."""

    def judge(source: Source, *words: Any, **named: Any) -> CheckedPackage | None:
        if f"{name}-1.0" in str(source) or f"{name}==" in str(source):
            raise KeyError("a bug")
        return check_package(source, *words, **named)

    return judge
