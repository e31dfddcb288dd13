"""``abiscan pip`` and ``uv`` in processes of their own, with the real pip: what is not to be installed is not there."""

from __future__ import annotations

import http.server
import os
import platform
import shutil
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pip as own_pip
import pytest

from tests.commands.processes import ABISCAN, Finished, on_terminal, run
from tests.elf_builder import uses
from tests.fakes import extension, install, package_wheel, site_of, torch_libraries, torch_package
from tests.hostile.servers import Server, page, serving

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="needs x86_64 Linux",
)
GONE = uses("_ZN2at4goneEv")
UNNAMED = "nothing was installed: torch would change, and you did not name it"


@pytest.fixture
def index(wheel_index: Path) -> Path:
    """An index: of a package, one version does not work; another one needs it, and a third one needs another torch."""
    package_wheel(wheel_index, "bad", {"bad/_C.so": extension(undefined=GONE)})
    package_wheel(wheel_index, "bad", {"bad/_C.so": extension()}, version="2.0")
    package_wheel(wheel_index, "needs_bad", {}, metadata={"Requires-Dist": "bad"})
    package_wheel(wheel_index, "newer", {}, metadata={"Requires-Dist": "torch==9.9.1"})
    libraries = {f"torch/lib/{name}": library for name, library in torch_libraries().items()}
    for version in ("9.9.0+cu124", "9.9.1"):
        files = {"torch/version.py": f"__version__ = '{version}'\n"}
        package_wheel(wheel_index, "torch", libraries, version=version, files=files)
    return wheel_index


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with torch 9.9.0+cpu, and without pip."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    torch_package(site_of(folder))
    (site_of(folder) / "torch" / "__init__.py").touch()
    install(site_of(folder), "torch", {}, version="9.9.0+cpu", requires="")
    return folder


def pip(environment: Path, *words: str) -> Finished:
    return run("pip", *words, env={"VIRTUAL_ENV": str(environment)})


def is_there(environment: Path, name: str) -> bool:
    return any(site_of(environment).glob(f"{name}-*.dist-info"))


def test_what_works_is_installed(environment: Path, index: Path) -> None:
    package_wheel(index, "good", {"good/_C.so": extension(undefined=uses("_ZN2at15get_num_threadsEv"))})

    def installed(*words: str) -> tuple[int, set[str]]:
        done = pip(environment, "install", *words)
        return done.code, {path.parent.name for path in site_of(environment).glob("*/_C.so")}

    assert installed("bad==1.0", "good") == (1, set())
    assert installed("good") == (0, {"good"})


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    "words",
    [
        ["-qq", "--log", "log.txt", "install", "--force-rein", "bad==1.0"],
        pytest.param(
            ["--no-cache-dir", "install", "-qqqU", "--report=r.json", "--", "needs_bad", "bad<2"],
            marks=pytest.mark.long,
        ),
    ],
)
def test_options_before_install_and_in_short(
    environment: Path, words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = pip(environment, *words)
    assert done.code == 1
    assert "bad 1.0 will not work with torch 9.9.0+cpu" in done.err
    assert not is_there(environment, "bad")


@pytest.mark.long
@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("form", ["--python {}", "--python={}"])
def test_the_python_may_be_named_after_install(environment: Path, form: str) -> None:
    # An environment with a pip of its own, which refuses the option there.
    site_of(environment).joinpath("pip").symlink_to(Path(own_pip.__file__).parent)
    python = form.format(environment).split()
    done = run("pip", "install", *python, "bad==2.0", "--force", "--no-deps", env={"VIRTUAL_ENV": None})
    assert (done.code, is_there(environment, "bad")) == (0, True), done.err


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_of_two_files_for_one_place_that_of_the_data_folder(environment: Path, index: Path, first: int) -> None:
    """Which one pip installs does not depend on their order in the archive; it is the one that is checked."""
    libraries = [
        ("two/_C.so", extension().build()),
        ("two-1.0.data/platlib/two/_C.so", extension(undefined=GONE).build()),
    ]
    wheel = index / "two-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in (libraries[first], libraries[1 - first]):
            archive.writestr(name, content)
        archive.writestr("two/__init__.py", "from two import _C\n")
        archive.writestr("two-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: two\nVersion: 1.0\n")
        archive.writestr("two-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-linux_x86_64\n")
        archive.writestr("two-1.0.dist-info/RECORD", "")
    done = pip(environment, "install", str(wheel))
    assert done.code == 1
    assert "two 1.0 will not work with torch 9.9.0+cpu" in done.err
    assert pip(environment, "install", "--force", str(wheel)).code == 0
    assert (site_of(environment) / "two/_C.so").read_bytes() == libraries[1][1]


@pytest.mark.usefixtures("index")
def test_torch_does_not_change_unless_somebody_wants_it(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("torch==9.9.1\n", "utf-8")
    change = "abiscan: torch 9.9.0+cpu -> 9.9.1"
    done = pip(environment, "install", "newer", "-c", str(tmp_path / "constraints.txt"), "--no-input")
    assert (done.code, done.out) == (1, "")
    assert f"{change} (required by newer 1.0)\n" in done.err
    assert UNNAMED in done.err
    assert is_there(environment, "torch")
    assert not is_there(environment, "newer")


@pytest.mark.usefixtures("index")
def test_another_build_of_the_same_version_is_another_torch(environment: Path) -> None:
    done = pip(environment, "install", "--force-reinstall", "--dry-run", "torch==9.9.0+cu124")
    assert (done.code, "torch 9.9.0+cpu -> 9.9.0+cu124" in done.err) == (0, True)


@pytest.mark.usefixtures("index")
def test_torch_changes_for_those_who_allow_it(environment: Path) -> None:
    metadata = next(site_of(environment).glob("torch-*.dist-info"))
    (metadata / "RECORD").write_text(f"{metadata.name}/METADATA,,\n{metadata.name}/RECORD,,\n", "utf-8")
    done = pip(environment, "install", "--allow-torch-change", "newer")
    assert done.code == 0, done.err
    assert is_there(environment, "newer")
    assert [path.name for path in site_of(environment).glob("torch-*.dist-info")] == ["torch-9.9.1.dist-info"]


@pytest.mark.usefixtures("index")
def test_on_a_terminal_it_asks(environment: Path) -> None:
    question = "you did not name torch; change it? [y/N]:"
    done = on_terminal("pip", "install", "newer", env={"VIRTUAL_ENV": str(environment)}, typed=[(question, "n\n")])
    assert done.code == 1
    assert "torch 9.9.0+cpu -> 9.9.1" in done.out
    assert "nothing was installed" in done.out
    assert not is_there(environment, "newer")


MORE_PIPES = (
    "install --requirement=<(echo bad) -c <(echo bad==2.0)",
    "install -qr/dev/stdin < <(echo bad==2.0)",
    "install -r /dev/fd/7 7<<< bad==2.0",
    "install -r fifo",
)


@pytest.mark.slow
@pytest.mark.usefixtures("index")
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    "words",
    [
        "install -r <(echo bad==2.0)",
        *(pytest.param(words, marks=pytest.mark.long) for words in ("PIP_CONSTRAINT", *MORE_PIPES)),
    ],
)
def test_requirements_in_a_pipe(environment: Path, tmp_path: Path, words: str) -> None:
    """The index has a version that does not work, too: the content counts in the check and in the install."""
    os.mkfifo(tmp_path / "fifo")
    begin = "echo bad==2.0 > fifo & " if "fifo" in words else ""
    if words == "PIP_CONSTRAINT":
        begin, words = "PIP_CONSTRAINT=<(echo bad==2.0) ", "install bad"
    script = f'{begin}"$@" pip {words}'
    variables = {"VIRTUAL_ENV": str(environment)}
    done = run(command=("bash", "-c", script, "bash", *ABISCAN), cwd=tmp_path, env=variables)
    assert (done.code, (site_of(environment) / "bad-2.0.dist-info").is_dir()) == (0, True), done.err


@pytest.mark.long
@pytest.mark.usefixtures("index")
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_what_does_not_work_in_a_pipe_is_not_installed(environment: Path) -> None:
    script = '"$@" pip install -r <(echo bad==1.0)'
    done = run(command=("bash", "-c", script, "bash", *ABISCAN), env={"VIRTUAL_ENV": str(environment)})
    assert done.code == 1
    assert "bad 1.0 will not work with torch 9.9.0+cpu" in done.err
    assert not is_there(environment, "bad")


def lying_index(server: Server, good: Path, bad: Path, *, honest: int) -> None:
    """Serve a wheel, and later another file in its place; without hashes, and nothing may be kept."""
    asked: list[str] = []

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        asked.extend([handler.path] if handler.command == "GET" else [])
        file = good if len(asked) <= honest else bad
        page(file.read_bytes(), {"Cache-Control": "no-store"})(handler)

    package = good.name.partition("-")[0]
    server.pages[f"/files/{good.name}"] = answer
    server.lists(package, [{"filename": good.name, "url": f"{server.url}/files/{good.name}", "hashes": {}}])


@pytest.mark.parametrize(
    ("words", "there"),
    [
        (["--index-url", "{index}", "twin"], None),
        pytest.param(["--index-url", "{index}", "--", "twin"], None, marks=pytest.mark.long),
        pytest.param(["-r", "{file}"], None, marks=pytest.mark.long),
        pytest.param(["{url}"], "direct_url.json", marks=pytest.mark.long),
        pytest.param(["twin @ {url}"], "direct_url.json", marks=pytest.mark.long),
    ],
)
def test_what_was_checked_is_what_is_installed(
    environment: Path, tmp_path: Path, words: list[str], there: str | None
) -> None:
    good = package_wheel(tmp_path / "good", "twin", {"twin/_C.so": extension()})
    bad = package_wheel(tmp_path / "bad", "twin", {"twin/_C.so": extension(undefined=GONE)})
    variables = {"VIRTUAL_ENV": str(environment), "PIP_NO_INDEX": None, "PIP_FIND_LINKS": None}
    file = tmp_path / "requirements.txt"
    with serving() as server:
        file.write_text(f"--index-url {server.index}\ntwin\n", "utf-8")
        names = {"index": server.index, "file": file, "url": f"{server.url}/files/{good.name}"}
        command = ["pip", "install", "--no-cache-dir", *(word.format(**names) for word in words)]
        if "--index-url" in words:  # pip asks for the file to plan, then abiscan to check it
            lying_index(server, good, bad, honest=2)
            done = run(*command, env=variables)
            assert (done.code, is_there(environment, "twin")) == (1, False)
            assert "DO NOT MATCH THE HASHES" in done.err, done.err
        lying_index(server, good, bad, honest=9)
        done = run(*command, env=variables)
        assert done.code == 0, done.err
    # It looks as if plain pip had installed it.
    (info,) = site_of(environment).glob("twin-*.dist-info")
    assert (info / "REQUESTED").exists()
    assert (info / "INSTALLER").read_text("utf-8") == "pip\n"
    assert [name for name in ("direct_url.json",) if (info / name).exists()] == ([there] if there else [])


UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(UV is None, reason="needs uv")
@pytest.mark.parametrize(
    "words",
    [
        ["--quiet", "pip", "--no-cache", "install", "{wheel}"],
        pytest.param(["pip", "install", "-qq", "--offline", "needs-bad", "bad==1"], marks=pytest.mark.long),
    ],
)
def test_uv(environment: Path, index: Path, words: Sequence[str], tmp_path: Path) -> None:
    wheel = index / "bad-1.0-py3-none-linux_x86_64.whl"
    command = [word.format(wheel=wheel) for word in words]
    variables = {
        "VIRTUAL_ENV": str(environment),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": f"{Path(str(UV)).parent}{os.pathsep}{os.environ['PATH']}",
        "UV_NO_CONFIG": "1",
    }
    done = run("uv", *command, "--no-index", "--find-links", str(index), env=variables)
    assert done.code == 1, done.err
    assert "bad 1.0 will not work with torch 9.9.0+cpu" in done.err
    assert not is_there(environment, "bad")


@pytest.mark.slow
@pytest.mark.skipif(UV is None or shutil.which("bash") is None, reason="needs uv and bash")
@pytest.mark.parametrize(
    "words",
    [
        "-r - < <(echo bad==2.0)",
        pytest.param("-r <(echo bad) -c <(echo bad==2.0)", marks=pytest.mark.long),
        pytest.param("-r <(echo bad==2.0)", marks=pytest.mark.long),
        pytest.param("-r - <<< bad==2.0", marks=pytest.mark.long),
        pytest.param("bad -c - < <(echo bad==2.0)", marks=pytest.mark.long),
        pytest.param("-r - --overrides <(echo bad==2.0) <<< bad==1.0", marks=pytest.mark.long),
    ],
)
def test_uv_with_requirements_in_a_pipe(environment: Path, index: Path, words: str, tmp_path: Path) -> None:
    variables = {
        "VIRTUAL_ENV": str(environment),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": f"{Path(str(UV)).parent}{os.pathsep}{os.environ['PATH']}",
        "UV_NO_CONFIG": "1",
    }
    script = f'"$@" uv pip install --no-index --find-links {index} {words}'
    done = run(command=("bash", "-c", script, "bash", *ABISCAN), env=variables)
    assert (done.code, (site_of(environment) / "bad-2.0.dist-info").is_dir()) == (0, True), done.err


@pytest.mark.long
def test_a_plan_that_says_nothing_stops_it(environment: Path, tmp_path: Path) -> None:
    """A pip and a uv that succeed and say nothing of what they would install."""
    site = site_of(environment)
    (site / "pip").mkdir()
    (site / "pip" / "__main__.py").write_text("import sys; print('installed', sys.argv)\n", "utf-8")
    install(site, "pip", {}, version="99", requires="")
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    python = environment / "bin" / "python"
    uv.write_text(f'#!/bin/sh\ncase "$*" in *find*) echo {python};; *) echo installed;; esac\n', "utf-8")
    uv.chmod(0o755)
    variables = {"VIRTUAL_ENV": str(environment), "PATH": f"{uv.parent}{os.pathsep}{os.environ['PATH']}"}
    for words, program in ((["pip", "install", "x"], "pip"), (["uv", "pip", "install", "x"], "uv")):
        done = run(*words, env=variables)
        assert (done.code, done.out) == (3, "")
        assert f"abiscan: {program}: " in done.err
        assert "use --force to install without a check" in done.err
        forced = run(*words, "--force", env=variables)
        assert (forced.code, forced.out.startswith("installed")) == (0, True)
        assert "it is installed without a check" in forced.err
    done = run("uv", "tree", env=variables)
    assert (done.code, done.out) == (0, "installed\n")
    done = run("pip", "--brand-new", "value", "install", "x", env=variables)
    assert (done.code, done.out) == (2, "")
    assert "--brand-new" in done.err


def uv(environment: Path, *words: str, cwd: Path, env: dict[str, str | None] | None = None) -> Finished:
    variables = {
        "VIRTUAL_ENV": str(environment),
        "UV_CACHE_DIR": str(cwd / "cache"),
        "PATH": f"{Path(str(UV)).parent}{os.pathsep}{os.environ['PATH']}",
        "UV_NO_CONFIG": "1",
        **(env or {}),
    }
    return run("uv", "pip", "install", *words, env=variables, cwd=cwd)


@pytest.mark.long
@pytest.mark.skipif(UV is None, reason="needs uv")
def test_uv_installs_what_was_checked(environment: Path, tmp_path: Path) -> None:
    good = package_wheel(tmp_path / "good", "twin", {"twin/_C.so": extension()})
    bad = package_wheel(tmp_path / "bad", "twin", {"twin/_C.so": extension(undefined=GONE)})
    variables: dict[str, str | None] = {"PIP_NO_INDEX": None, "PIP_FIND_LINKS": None, "PIP_NO_CACHE_DIR": "1"}
    with serving() as server:
        words = ("--no-cache", "--index-url", server.index, "twin")
        # uv asks for the file to plan and to lock, pip to check it, and then uv again.
        lying_index(server, good, bad, honest=3)
        done = uv(environment, *words, cwd=tmp_path, env=variables)
        assert (done.code != 0, is_there(environment, "twin")) == (True, False), done.err
        assert "Hash mismatch" in done.err
        lying_index(server, good, bad, honest=9)
        done = uv(environment, *words, cwd=tmp_path, env=variables)
        assert done.code == 0, done.err
    assert is_there(environment, "twin"), done.err
    assert (site_of(environment) / "twin" / "_C.so").read_bytes() == extension().build()
    assert not list(site_of(environment).glob("twin-*.dist-info/direct_url.json"))


PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "source"
version = "1.0"
[project.optional-dependencies]
x = []
"""
BACKEND = """
import shutil
def get_requires_for_build_wheel(config_settings=None): return []
get_requires_for_build_editable = get_requires_for_build_wheel
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return shutil.copy({wheel!r}, folder).rpartition("/")[2]
build_editable = build_wheel
"""


@pytest.mark.skipif(UV is None, reason="needs uv")
@pytest.mark.parametrize(
    "words",
    [
        ["-e", ".[x]"],
        *(
            pytest.param(words, marks=pytest.mark.long)
            for words in (["{wheel}"], ["source @ {url}"], ["-r", "requirements.txt"], ["-e", "."], ["."])
        ),
    ],
)
def test_uv_of_what_is_built(environment: Path, tmp_path: Path, words: list[str]) -> None:
    metadata = {"Provides-Extra": "x"}
    wheel = package_wheel(tmp_path / "built", "source", {}, metadata=metadata, tag="py3-none-any")
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT, "utf-8")
    (project / "backend.py").write_text(BACKEND.format(wheel=str(wheel)), "utf-8")
    (project / "requirements.txt").write_text("-e .\n", "utf-8")
    named = [word.format(url=project.as_uri(), wheel=wheel) for word in words]
    for _ in range(2):  # the second time, it is there already
        done = uv(environment, "--no-index", *named, cwd=project)
        assert done.code == 0, done.err
        assert is_there(environment, "source")
    assert ("will be built from source" in done.err) == ("{wheel}" not in words and words != ["-r", "requirements.txt"])
