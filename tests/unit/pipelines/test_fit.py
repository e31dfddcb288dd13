"""Versions that work together, found on an index of small wheels, for four releases of torch.

What a wheel works with follows from the symbol that its library needs: releases that export it are read off the
embedded tables, by a set of the test's own.
"""

from __future__ import annotations

import gc
import io
import itertools
import json
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click.testing
import pytest
from packaging.requirements import Requirement
from rich.console import Console

import abiscan
from abiscan.binary.elf import Machine
from abiscan.cli import main
from abiscan.index.client import Index, Settings
from abiscan.index.system import System
from abiscan.inputs.packages import RemoteWheel
from abiscan.inputs.session import Session
from abiscan.pipelines.fit import Opinion, _Attempt, fit_packages, torches_of_index
from abiscan.report import fit_text
from abiscan.results.fit import FitReport, Fitting
from abiscan.torches.platforms import LinuxPlatform
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel
from tests.index_server import LocalIndex, serving
from tests.schemas import validate

pytestmark = pytest.mark.slow

TORCHES = ("2.13.0", "2.9.1", "2.8.0", "2.7.1")
# One symbol each that some of the releases export: nm -D of their libtorch_cpu.so.
FROM_2_13 = "torch_from_blob"
FROM_2_8 = "aoti_torch_cpu_pad"
UNTIL_2_9 = "_ZNK2at7Dimname5unifyES0_"
ALWAYS = "_ZN2at6Tensor3cpuEv"
WORKS: dict[str | None, set[str]] = {
    FROM_2_13: {"2.13.0"},
    FROM_2_8: {"2.8.0", "2.9.1", "2.13.0"},
    UNTIL_2_9: {"2.7.1", "2.8.0", "2.9.1"},
    None: set(TORCHES),
}
PACKAGES: list[tuple[str, str, str | None, str | None]] = [
    ("eye", "1.0", UNTIL_2_9, None),
    ("eye", "1.1", None, "torch==2.8.0"),
    ("eye", "2.0", FROM_2_8, None),
    ("eye", "3.0", FROM_2_13, "torch>=2.7"),
    ("ear", "1.0", None, "eye<2"),
    ("ear", "2.0", FROM_2_8, "eye>=2"),
    ("ear", "3.0", FROM_2_13, "eye==1.1"),
    ("nose", "1.0", UNTIL_2_9, "ear<2"),
    ("nose", "2.0", None, "ear!=1.0"),
]
SYSTEM = System.of((3, 11), "linux_x86_64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for name, version, symbol, requires in PACKAGES:
        library = extension(undefined=uses(*filter(None, [symbol])))
        load = f"torch.ops.load_library(os.path.join(os.path.dirname(__file__), '{name}.so'))"
        code = f"import os\nimport torch\n{load}\n"
        metadata = {"Requires-Dist": requires} if requires else {}
        files = {f"{name}/__init__.py": code}
        package_wheel(folder, name, {f"{name}/{name}.so": library}, version=version, files=files, metadata=metadata)
    for version in (*TORCHES, "2.99.0"):
        package_wheel(folder, "torch", {}, version=version, files={"torch/version.py": ""})
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[LocalIndex]:
    with serving(folder) as server:
        server.metadata = True
        yield server


def found(
    server: LocalIndex,
    cache: Path,
    names: Sequence[str],
    torches: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> FitReport:
    index = Index(Settings(index_urls=(server.url,)), SYSTEM, cache / "wheels")
    choices = [LinuxPlatform(Machine.X86_64).build_of(torch, "cpu" if torch == "2.13.0" else None) for torch in torches]
    requirements = [Requirement(name) for name in names]
    session = Session(folder=cache, progress=progress)
    return fit_packages(requirements, choices or torches_of_index(index), index, session, installed=False)


def versions(found: FitReport) -> dict[str, str]:
    return {package.name: package.version for package in found.packages}


def expected(names: Sequence[str], torch: str) -> dict[str, str] | None:
    """By trying every combination."""
    choices = [[row for row in reversed(PACKAGES) if row[0] == name] for name in names]
    for combination in itertools.product(*choices):
        chosen = {"torch": torch, **{row[0]: row[1] for row in combination}}
        required = [Requirement(row[3]) for row in combination if row[3]]
        admitted = all(chosen[one.name] in one.specifier for one in required if one.name in chosen)
        if admitted and all(torch in WORKS[row[2]] for row in combination):
            return {name: chosen[name] for name in names}
    return None


def test_the_symbols_are_where_the_test_says() -> None:
    from abiscan.torches import embedded

    for symbol, torches in WORKS.items():
        for torch in TORCHES if symbol else ():
            exported = embedded.exports(str(LinuxPlatform(Machine.X86_64).build_of(torch).number), Machine.X86_64)
            libraries = [names for library, names in exported.items() if "torch_cpu" in library or "c10.so" in library]
            assert any(symbol in names for names in libraries) is (torch in torches), (symbol, torch)


GROUPS = [names for size in (1, 2, 3) for names in itertools.permutations(("eye", "ear", "nose"), size)]


@pytest.mark.parametrize(
    "torch", ["2.13.0", "2.8.0", *(pytest.param(torch, marks=pytest.mark.long) for torch in ("2.9.1", "2.7.1"))]
)
def test_it_is_what_trying_every_combination_finds(server: LocalIndex, tmp_path: Path, torch: str) -> None:
    for names in GROUPS:
        fitting = found(server, tmp_path, names, [torch])
        assert (versions(fitting) or None) == expected(names, torch), names
        assert (fitting.obstacle is None) is bool(fitting.packages)


def test_without_a_torch_the_newest_on_which_all_have_a_version(server: LocalIndex, tmp_path: Path) -> None:
    for names in GROUPS:
        fitting = found(server, tmp_path, names)
        torch = next(torch for torch in TORCHES if expected(names, torch))
        assert (fitting.torch or "").partition("+")[0] == torch
        assert versions(fitting) == expected(names, torch)
        assert (fitting.command or "").startswith(f"pip install torch=={torch} ")


def test_why_the_newer_ones_do_not_fit(server: LocalIndex, tmp_path: Path) -> None:
    (eye,) = found(server, tmp_path, ["eye"], ["2.9.1"]).packages
    (rejected,) = eye.rejected
    assert (eye.version, rejected.version) == ("2.0", "3.0")
    assert f"undefined symbol: {FROM_2_13}" in rejected.reason
    (eye,) = found(server, tmp_path, ["eye<2"], ["2.7.1"]).packages
    assert [(one.version, one.reason) for one in eye.rejected] == [("1.1", "requires torch==2.8.0")]


def test_what_the_metadata_exclude_is_not_fetched(server: LocalIndex, tmp_path: Path) -> None:
    found(server, tmp_path, ["eye<2"], ["2.7.1"])
    assert server.wheels_asked() == {"eye-1.0-py3-none-linux_x86_64.whl"}


def test_wheels_are_counted_as_they_are_read(server: LocalIndex, tmp_path: Path) -> None:
    lines: list[str] = []
    found(server, tmp_path, ["eye", "nose"], ["2.7.1"], lines.append)
    # The newest first: eye 3.0 and 2.0 do not work, and the metadata exclude 1.1, so 1.0 is read.
    assert [line.partition(",")[0] for line in lines if " of at most " in line] == [
        f"reading {wheel} for torch 2.7.1+cu126 ({number} of at most 6"
        for number, wheel in enumerate(("eye 3.0", "eye 2.0", "eye 1.0", "nose 2.0"), 1)
    ]


def test_why_no_version_fits(server: LocalIndex, tmp_path: Path) -> None:
    fitting = found(server, tmp_path, ["eye>=3"], ["2.7.1"])
    assert fitting.exit_code == 1
    assert str(fitting.obstacle).startswith("no version of eye works with torch 2.7.1+cu126: 3.0: import fails")
    (server.folder / "eye-4.0.tar.gz").touch()
    fitting = found(server, tmp_path, ["eye>=3"], ["2.7.1"])
    assert str(fitting.obstacle).endswith(
        "; 1 other version is source code, to be built for that torch, the newest 4.0: "
        "abiscan check eye==4.0 checks its Python code"
    )
    fitting = found(server, tmp_path, ["eye>=2", "ear<2"], ["2.13.0"])
    assert fitting.obstacle == (
        "no versions of eye and ear that work with torch 2.13.0+cpu go together: ear 1.0 requires eye<2"
    )
    assert "no torch is torch<2" in str(found(server, tmp_path, ["eye", "torch<2"]).obstacle)


def test_a_requirement_on_torch_counts(server: LocalIndex, tmp_path: Path) -> None:
    fitting = found(server, tmp_path, ["eye", "torch<2.9"])
    assert (fitting.torch, versions(fitting)) == ("2.8.0+cu128", {"eye": "2.0"})


def run(server: LocalIndex, *words: str) -> click.testing.Result:
    given = ["fit", *words, "--index-url", server.url, "--python-version", "3.11", "--platform", "linux_x86_64"]
    return click.testing.CliRunner().invoke(main, given)


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("own_cache")
def test_builds_that_are_published_elsewhere(server: LocalIndex, tmp_path: Path) -> None:
    """The addresses are those of the projects' own instructions, such as README.md of torch-scatter."""
    releases = "https://github.com/Dao-AILab/flash-attention/releases"
    pyg = "https://data.pyg.org/whl"
    for name, links in (
        ("flash-attn", f"{releases}/expanded_assets/v2.8.3"),
        ("torch-scatter", f"{pyg}/torch-2.8.0+cu128.html"),
    ):
        (tmp_path / f"{name}-2.8.3.tar.gz").touch()
        with serving(tmp_path) as index:  # source code alone
            printed = run(index, name, "--torch", "2.8.0")
        assert printed.exit_code == 2
        assert f"{name}: has no wheel on the index" in printed.stderr
        assert f"type: abiscan fit {name} --torch 2.8.0+cu128 --find-links {links})" in printed.stderr
    package_wheel(tmp_path, "natten", {}, version="0.1", metadata={"Requires-Dist": "torch<2"})
    with serving(tmp_path) as index:  # wheels, and none of them fits
        printed = run(index, "natten", "--torch", "2.8.0+cpu")
        document = json.loads(run(index, "natten", "--torch", "2.8.0+cpu", "--format", "json").stdout)
    assert "  abiscan fit natten --torch 2.8.0+cpu --find-links https://whl.natten.org\n" in printed.stdout
    validate(document, "fit")
    assert [place["page"] for place in document["elsewhere"]] == ["https://natten.org/install"]
    assert "published" not in run(server, "eye>=3", "--torch", "2.7.1").output


@pytest.mark.usefixtures("own_cache")
def test_a_wheel_at_an_address(server: LocalIndex) -> None:
    file = server.folder / "eye-3.0-py3-none-linux_x86_64.whl"
    address = f"{server.url.removesuffix('simple')}files/{file.name}"
    there, here = (abiscan.check(target, "2.13.0") for target in (address, file))
    assert [str(package) for package in there.packages] == [str(package) for package in here.packages]
    assert there.packages[0].target == file.name
    assert all(asked for path, asked in server.asked if path.endswith(file.name)), "by ranges"
    assert abiscan.matrix(address, "2.9.1").packages[0].target == file.name


@pytest.mark.usefixtures("own_cache")
def test_the_command(server: LocalIndex) -> None:
    printed = run(server, "eye", "ear", "--torch", "2.9.1", "-v")
    assert printed.exit_code == 0, printed.output
    command = f"pip install --index-url {server.url} torch==2.9.1 eye==2.0 ear==2.0"
    assert printed.stdout.splitlines()[-1] == command
    assert "undefined symbol: torch_from_blob" in " ".join(printed.stdout.split())
    document = json.loads(run(server, "eye", "--torch", "2.9.1", "--format", "json").stdout)
    validate(document, "fit")
    assert (document["torch"], document["packages"][0]["version"]) == ("2.9.1+cu128", "2.0")
    assert document["packages"][0]["rejected"][0]["version"] == "3.0"


@pytest.mark.usefixtures("own_cache")
def test_nothing_fits(server: LocalIndex) -> None:
    printed = run(server, "eye>=3", "--torch", "2.7.1")
    assert printed.exit_code == 1
    assert printed.stdout.startswith("no version of eye works with torch 2.7.1+cu126")
    # The only one that exports what eye 3.0 needs.
    assert "torch 2.13.0+cu130 would work: use --torch 2.13.0\n" in printed.stdout
    assert "would work: use" not in run(server, "eye>=3", "nose<2", "--torch", "2.7.1").stdout
    printed = run(server, "eye>=3", "--torch", "2.7.1", "--format", "json")
    document = json.loads(printed.stdout)
    assert document["torch_instead"] == "2.13.0+cu130"
    assert (printed.exit_code, document["packages"], document["command"]) == (1, [], None)
    validate(document, "fit")


@pytest.mark.parametrize("command", ["fit eye", "check eye==1.0", "matrix eye --versions all", "doctor"])
def test_links_that_are_not_there(command: str, tmp_path: Path) -> None:
    words = [*command.split(), "--no-index", "--find-links", str(tmp_path / "absent")]
    printed = click.testing.CliRunner().invoke(main, words)
    assert printed.exit_code == 2
    assert f"Invalid value for --find-links: {tmp_path / 'absent'} does not exist" in printed.stderr


def test_a_platform_that_is_none() -> None:
    printed = click.testing.CliRunner().invoke(main, ["fit", "eye", "--platform", "foo"])
    assert printed.exit_code == 2
    assert "'foo' is not the tag of a platform, such as manylinux_2_28_x86_64" in printed.stderr


@pytest.mark.usefixtures("own_cache")
def test_pins_from_a_file(server: LocalIndex, tmp_path: Path) -> None:
    asked, pins = tmp_path / "requirements.txt", tmp_path / "pins.txt"
    asked.write_text("torch<2.10\neye\near\n", encoding="utf-8")
    words = ("-r", str(asked), "--format", "requirements", "--output", str(pins))
    assert run(server, *words).exit_code == 0
    text = pins.read_text("utf-8")
    assert text == "# with torch 2.9.1+cu128\ntorch==2.9.1\neye==2.0\near==2.0\n"
    asked.write_text("torch<2.8\neye>=3\n", encoding="utf-8")
    assert run(server, *words).exit_code == 1
    assert pins.read_text("utf-8") == text, "a file is not replaced by nothing"


@pytest.mark.usefixtures("own_cache")
def test_offline_it_answers_the_same(server: LocalIndex) -> None:
    words = ("eye", "--torch", "2.9.1", "--format", "json")
    online = json.loads(run(server, *words).stdout)
    asked = len(server.asked)
    offline = json.loads(run(server, *words, "--offline").stdout)
    assert (offline.pop("bytes_read"), len(server.asked)) == (0, asked)
    assert online.pop("bytes_read") > 0
    assert offline == online


def test_what_was_judged_is_not_read_again(folder: Path, tmp_path: Path) -> None:
    wheels, cache = Path(shutil.copytree(folder, tmp_path / "folder")), tmp_path / "cache"
    with serving(wheels) as server:
        server.metadata = True
        first = found(server, cache, ["eye"], ["2.13.0"])
        assert versions(first) == {"eye": "3.0"}
        shutil.rmtree(cache / "wheels")
        server.asked.clear()
        again = found(server, cache, ["eye"], ["2.13.0"])
        assert (again.packages, server.wheels_asked()) == (first.packages, set())
        # Another torch, and another file of the same name.
        assert versions(found(server, cache, ["eye"], ["2.8.0"])) == {"eye": "2.0"}
        library = extension(undefined=uses(UNTIL_2_9))
        code = "import os\nimport torch\ntorch.ops.load_library(os.path.join(os.path.dirname(__file__), 'eye.so'))\n"
        package_wheel(wheels, "eye", {"eye/eye.so": library}, version="3.0", files={"eye/__init__.py": code})
        assert versions(found(server, cache, ["eye"], ["2.13.0"])) == {"eye": "2.0"}


def test_a_wheel_whose_hash_is_not_stated_is_read_each_time(folder: Path, tmp_path: Path) -> None:
    with serving(folder) as server:
        server.hashes = False
        for _ in range(2):
            server.asked.clear()
            assert versions(found(server, tmp_path, ["eye"], ["2.13.0"])) == {"eye": "3.0"}
            assert server.wheels_asked() == {"eye-3.0-py3-none-linux_x86_64.whl"}
            shutil.rmtree(tmp_path / "wheels")


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a package, or a file of requirements with -r"),
        (("eye", "--cuda", "9.9", "--torch", "2.9.1"), "2.9.1+cu99: is not a known build"),
        (("!", "--torch", "2.9.1"), "is not a requirement"),
        (("https://user:secret@host/a", "--torch", "2.9.1"), "'https://host/a': is not a requirement"),
        (("unknown", "--torch", "2.9.1"), "unknown: is not on the index"),
        (("eye", "--torch", "2.9.1", "--offline"), "run it without --offline"),
    ],
)
def test_wrong_usage_exits_with_2(server: LocalIndex, words: Sequence[str], said: str) -> None:
    printed = run(server, *words)
    assert (printed.exit_code, said in printed.stderr) == (2, True), printed.output


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("option", ["--index-url", "--extra-index-url"])
def test_an_index_that_is_no_url_is_named(option: str) -> None:
    printed = click.testing.CliRunner().invoke(main, ["fit", "eye", "--torch", "2.9.1", option, "no-url"])
    assert printed.exit_code == 2
    assert f"Invalid value for {option}: no-url is neither a URL nor a folder" in printed.stderr


@pytest.mark.usefixtures("own_cache")
def test_links_without_the_package_are_to_blame_if_no_index_is_asked(tmp_path: Path) -> None:
    words = ["fit", "eye", "--torch", "2.9.1", "--no-index", "--find-links", str(tmp_path)]
    printed = click.testing.CliRunner().invoke(main, words)
    assert printed.exit_code == 2
    assert "eye: no wheel of it is linked, and no index is asked (check the name and --find-links)" in printed.stderr


def test_it_is_a_function(server: LocalIndex, tmp_path: Path) -> None:
    answer = abiscan.fit(
        "eye",
        "2.9.1",
        index_url=server.url,
        python_version=(3, 11),
        platform="linux_x86_64",
        session=Session(folder=tmp_path),
    )
    assert answer.pins == ("torch==2.9.1", "eye==2.0")


def test_what_is_not_proven_is_said() -> None:
    doubtful = Fitting(name="odd", version="1.1", note="its code was not followed to its end", proven=False)
    answer = FitReport(torch="2.9.1+cu128", installed=False, packages=[doubtful])
    printed = io.StringIO()
    fit_text.render_fit(answer, Console(file=printed, width=200), verbose=False)
    assert "odd==1.1  not proven: its code was not followed to its end; the newest\n" in printed.getvalue()
    assert json.loads(answer.to_json())["packages"][0]["proven"] is False


@pytest.mark.parametrize("files", [{"pure/__init__.py": ""}, {"pure/data.so": "INPUT(libc.so.6)"}])
def test_a_wheel_without_compiled_code_works(tmp_path: Path, files: Mapping[str, str]) -> None:
    code = "import os\nimport torch\ntorch.ops.load_library(os.path.join(os.path.dirname(__file__), '_C.so'))\n"
    library = extension(undefined=uses(FROM_2_13))
    loading = {"pure/__init__.py": code}
    package_wheel(tmp_path / "wheels", "pure", {"pure/_C.so": library}, version="2.0", files=loading)
    package_wheel(tmp_path / "wheels", "pure", {}, version="1.0", files=files)
    package_wheel(tmp_path / "wheels", "pure", {"pure/_C.so": extension()}, version="0.9")
    with serving(tmp_path / "wheels") as server:
        assert versions(found(server, tmp_path, ["pure"], ["2.8.0"])) == {"pure": "1.0"}


def test_python_code_that_cannot_be_imported_does_not_work(tmp_path: Path) -> None:
    for version, name in {"2.0": "nope", "1.0": "compile"}.items():
        files = {"plain/__init__.py": f"from torch import {name}\n"}
        required = {"Requires-Dist": "torch"}
        package_wheel(
            tmp_path / "wheels", "plain", {}, version=version, files=files, metadata=required, tag="py3-none-any"
        )
    with serving(tmp_path / "wheels") as server:
        report = found(server, tmp_path, ["plain"], ["2.8.0"])
        assert versions(report) == {"plain": "1.0"}
        (rejected,) = report.packages[0].rejected
        assert "cannot import name 'nope' from 'torch'" in rejected.reason


def test_what_was_read_of_a_version_is_given_back_before_the_next(
    server: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that refer to each other, which only the collector finds, and never does by itself."""

    class Tree:
        def __init__(self) -> None:
            self.itself = self

    read, trees = _Attempt._opinion_of, weakref.WeakSet[Tree]()
    most = 0

    def reading(self: _Attempt, wheel: RemoteWheel) -> Opinion:
        nonlocal most
        trees.add(Tree())
        most = max(most, len(trees))
        return read(self, wheel)

    monkeypatch.setattr(_Attempt, "_opinion_of", reading)
    monkeypatch.setattr("abiscan.inputs.memory._MUCH", 0)
    gc.disable()
    try:
        assert versions(found(server, tmp_path, ["eye"], ["2.8.0"])) == {"eye": "2.0"}
    finally:
        gc.enable()
    assert most == 1


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("form", ["folder", "page on disk", "page on a server"])
def test_wheels_of_a_folder_or_a_page_without_an_index(tmp_path: Path, form: str) -> None:
    """Builds of one version for several torches differ in their local version, as on a page of releases."""
    wheels = tmp_path / "wheels"
    for local, symbol in (("torch2.9", UNTIL_2_9), ("torch2.13", FROM_2_13)):
        objects = {"nail/_C.so": extension(undefined=uses(symbol))}
        code = {"nail/__init__.py": "import torch\ntorch.ops.load_library(__path__[0] + '/_C.so')\n"}
        package_wheel(wheels, "nail", objects, version=f"1.0+{local}", files=code)
    names = [path.name for path in wheels.iterdir()]
    page = wheels / "releases.html"
    page.write_text("".join(f'<a href="{name}">{name}</a>\n' for name in names), encoding="utf-8")
    with serving(wheels) as server:
        server.html = True
        place = {"folder": str(wheels), "page on disk": str(page)}.get(form, f"{server.url.rstrip('/')}/nail/")
        words = ["fit", "nail", "--torch", "2.9.1", "--platform", "linux_x86_64", "--no-index", "-f", place]
        result = click.testing.CliRunner().invoke(main, [*words, "--format", "json"])
    document = json.loads(result.stdout)
    assert [package["version"] for package in document["packages"]] == ["1.0+torch2.9"], result.output
    assert f"--no-index --find-links {place} " in document["command"]


@pytest.mark.parametrize(
    ("system", "version"), [(None, "2.0"), ("debian12", "2.0"), ("debian11", "1.0"), ("manylinux_2_28", "1.0")]
)
def test_the_newest_for_the_glibc_of_a_system(tmp_path: Path, system: str | None, version: str) -> None:
    code = "import os\nimport torch\ntorch.ops.load_library(os.path.join(os.path.dirname(__file__), 'mouth.so'))\n"
    for number, glibc in (("1.0", "GLIBC_2.28"), ("2.0", "GLIBC_2.36")):
        library = extension(needed=("libc10.so", "libc.so.6"), version_needs=(("libc.so.6", glibc, False),))
        files = {"mouth/__init__.py": code}
        package_wheel(tmp_path / "wheels", "mouth", {"mouth/mouth.so": library}, version=number, files=files)
    with serving(tmp_path / "wheels") as server:
        index = Index(Settings(index_urls=(server.url,)), SYSTEM, tmp_path / "cache")
        choices = [LinuxPlatform(Machine.X86_64).build_of("2.9.1")]
        session = Session(folder=tmp_path / "kept", system=system)
        report = fit_packages([Requirement("mouth")], choices, index, session, installed=False)
    assert versions(report) == {"mouth": version}
