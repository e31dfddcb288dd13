from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import click.testing
import pytest

from abiscan.cli import main
from abiscan.errors import InputError
from abiscan.inputs import programs
from abiscan.inputs.files import Files
from abiscan.inputs.packages import (
    FIX,
    Distribution,
    FetchedWheel,
    explain_unfetched,
    fetch_wheel,
    files_of,
    find_installed,
    list_installed,
    pip_command,
    pip_error,
    require_existing,
    resolve_target,
)
from abiscan.inputs.requirements_file import read_requirements
from abiscan.inputs.sources import read_target, uses_torch
from tests.elf_builder import Elf, uses
from tests.fakes import SAMPLES, extension, install, python_of, torch_package

WHEEL = SAMPLES / "wheels" / "abiscan_sample-1.0-py3-none-linux_x86_64.whl"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    install(folder, "Pkg.Name", {"pkg/_C.so": extension(), "pkg/lib/libside.so.1": Elf(), "pkg/a, b.so": Elf()})
    install(folder, "plain", {"plain.so": Elf()}, version="2")
    return folder


def test_what_is_installed_is_read_from_its_record(site: Path) -> None:
    found = {one.name: one for one in list_installed([str(site)])}
    assert set(found) == {"Pkg.Name", "plain"}
    one = found["Pkg.Name"]
    assert (str(one), one.site, one.requires) == ("Pkg.Name==1.0", str(site), ("torch==2.5.1",))
    assert sorted(one.objects) == [str(site / name) for name in ("pkg/_C.so", "pkg/a, b.so", "pkg/lib/libside.so.1")]


def test_the_first_of_a_name_counts(site: Path, tmp_path: Path) -> None:
    install(tmp_path / "later", "plain", {"plain.so": Elf()}, version="3")
    versions = [one.version for one in list_installed([str(site), str(tmp_path / "later")]) if one.name == "plain"]
    assert versions == ["2"]


@pytest.mark.parametrize("name", ["pkg-name", "Pkg.Name", "pkg_name"])
def test_names_are_found_however_they_are_spelt(name: str, site: Path) -> None:
    found = find_installed(name, [str(site)])
    assert found is not None
    assert found.name == "Pkg.Name"


def test_an_egg_has_its_requirements_in_a_file(tmp_path: Path) -> None:
    """As ``importlib.metadata`` reads it; metadata that have some go first."""
    for name, metadata in (("plain", ""), ("both", "Requires-Dist: own\n")):
        folder = tmp_path / f"{name}.egg-info"
        folder.mkdir()
        folder.joinpath("PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}\n")
        folder.joinpath("requires.txt").write_text("torch>=2\n\n[train]\nnumpy\n")
    found = {item.name: list(item.requires or ()) for item in list_installed([str(tmp_path)])}
    assert found == {"both": ["own"], "plain": ["torch>=2", 'numpy; extra == "train"']}


def test_an_editable_install_is_its_source(tmp_path: Path) -> None:
    extension().write(tmp_path / "source tree" / "src" / "pkg" / "lib" / "_C.so")
    (tmp_path / "source tree" / "src" / "pkg" / "__init__.py").touch()
    for left_out in ("build/lib/pkg/_C.so", "samples/_C.so"):
        extension().write(tmp_path / "source tree" / left_out)
    (tmp_path / "source tree" / "build" / "lib" / "pkg" / "__init__.py").touch()
    info = install(tmp_path / "site", "pkg", {})
    origin = {"url": (tmp_path / "source tree").as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    found = find_installed("pkg", [str(tmp_path / "site")])
    assert found is not None
    assert found.objects == (str(tmp_path / "source tree" / "src" / "pkg" / "lib" / "_C.so"),)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"dir_info": {"editable": true}}', '{"dir_info": 3}'])
def test_damaged_metadata_is_passed_over(text: str, tmp_path: Path) -> None:
    info = install(tmp_path, "pkg", {"_C.so": extension()})
    (info / "direct_url.json").write_text(text, encoding="utf-8")
    found = find_installed("pkg", [str(tmp_path)])
    assert found is not None
    assert found.objects == (str(tmp_path / "_C.so"),)


def test_metadata_in_a_loop_of_links_are_passed_over(site: Path) -> None:
    before = list(map(str, list_installed([str(site)])))
    (site / "loop-1.0.dist-info").symlink_to("loop-1.0.dist-info")
    assert set(map(str, list_installed([str(site)]))) >= set(before) != set()


def test_an_installed_package_is_a_target(site: Path) -> None:
    files = Files()
    found = find_installed("pkg-name", [str(site)])
    assert found is not None
    (site / "pkg" / "a, b.so").unlink()  # listed, and gone
    target = read_target(found, files, str(site), str(site / "torch"))
    assert [one.path for one in target.extensions] == ["pkg/_C.so"]
    assert target.name == "Pkg.Name==1.0"
    assert target.metadata is not None
    assert str(target.metadata.requires_torch) == "torch==2.5.1"
    assert target.siblings["libside.so.1"] == str(site / "pkg/lib/libside.so.1")
    assert [one.name for one in list_installed([str(site)]) if uses_torch(one, files)] == ["Pkg.Name"]


@pytest.mark.parametrize("word", ["./pkg", "pkg.so", "pkg-1.whl", "libpkg.so.1", "a b"])
def test_what_looks_like_a_file_is_one(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="does not exist") as error:
        resolve_target(word, tmp_path, None)
    assert "package of that name" not in str(error.value)
    Path(word).touch()
    assert resolve_target(word, tmp_path, None) == Path(word)


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("dist/pgk.so", "did you mean dist/pkg.so?"),
        ("pytset", "pytset==VERSION downloads it; did you mean pytest?"),
        ("elsewhere/pkg.so", FIX),
        ("zq", "zq==VERSION downloads it"),
    ],
)
def test_what_may_have_been_meant(word: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "pkg.so").touch()
    with pytest.raises(InputError) as error:
        resolve_target(word, tmp_path, None)
    assert error.value.fix == fix


def test_a_folder_comes_before_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(resolve_target("pytest", tmp_path, None), Distribution)
    Path("pytest").mkdir()
    assert resolve_target("pytest", tmp_path, None) == Path("pytest")


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("abiscan-no-such-package", "does not exist, and no package of that name is installed in this environment"),
        ("pytest>=1", "is not a single version .pass pytest==VERSION"),
        ("pytest==1.*", "is not a single version"),
    ],
)
def test_a_word_that_means_nothing(word: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        resolve_target(word, tmp_path, None)


@pytest.fixture
def index(wheel_index: Path) -> None:
    """An index with one wheel, as a user would set it."""
    shutil.copy(WHEEL, wheel_index)


@pytest.mark.slow
@pytest.mark.usefixtures("index")
def test_a_wheel_is_fetched_with_the_settings_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "fetched"
    folder.mkdir()
    found = resolve_target("abiscan-sample==1.0", folder, None)
    assert found == FetchedWheel(path=folder / WHEEL.name)
    assert (folder / WHEEL.name).read_bytes() == WHEEL.read_bytes()
    with pytest.raises(InputError, match="could not download a wheel: No matching distribution found"):
        fetch_wheel("abiscan-sample==2.0", folder, None)


@pytest.mark.usefixtures("index")
def test_a_fetched_wheel_is_called_by_its_name(tmp_path: Path) -> None:
    torch = torch_package(tmp_path / "site")
    words = ["check", "abiscan-sample==1.0", "--torch", str(torch), "-q", "--ignore", "undefined-symbol"]
    result = click.testing.CliRunner().invoke(main, words)
    assert result.stdout.startswith("abiscan-sample 1.0 on torch 9.9.0+cpu: import fails - OSError: ")


def test_the_packages_of_another_python(site: Path, tmp_path: Path) -> None:
    python = python_of(site, tmp_path)
    found = resolve_target("pkg.name", tmp_path, python)
    assert isinstance(found, Distribution)
    assert pip_command(python) == programs.python_command(
        sys.executable, "-m", "pip", "--python", python
    )  # it has none of its own
    with pytest.raises(InputError, match=f"is installed for {python}"):
        resolve_target("pytest", tmp_path, python)


def test_check_takes_an_installed_package(site: Path, tmp_path: Path) -> None:
    torch_package(site)
    install(site, "bad", {"bad/_C.so": extension(undefined=uses("_ZN2at4goneEv"))})
    for name, code in (("bad", 1), ("pkg-name", 0)):
        words = ["check", name, "--python", python_of(site, tmp_path), "-q"]
        result = click.testing.CliRunner().invoke(main, words)
        assert result.exit_code == code, result.output
    assert result.stdout == "Pkg.Name==1.0: pkg/_C.so: loads on torch 9.9.0+cpu\n"


@pytest.mark.parametrize("name", ["pkg", "another-name"])
def test_what_lies_beside_a_package_is_not_imported(name: str, site: Path, tmp_path: Path) -> None:
    torch_package(site)
    project = tmp_path / "project"
    (project / "pkg").mkdir(parents=True)
    project.joinpath("pkg", "__init__.py").write_text("import torch\n", "utf-8")
    project.joinpath("LICENSE").write_text("Do what you want.\n", "utf-8")
    for script in ("setup", "conftest", "train"):
        project.joinpath(f"{script}.py").write_text("import absent\n", "utf-8")
    info = install(site, name, {}, requires="torch")
    origin = {"url": project.as_uri(), "dir_info": {"editable": True}}
    info.joinpath("direct_url.json").write_text(json.dumps(origin), "utf-8")
    result = click.testing.CliRunner().invoke(main, ["check", name, "--python", python_of(site, tmp_path), "-q"])
    assert result.stdout == f"{name} 1.0 on torch 9.9.0+cpu: works: its Python code imports\n"


def test_a_file_without_an_ending_is_no_module(site: Path, tmp_path: Path) -> None:
    torch_package(site)
    files = {"good/__init__.py": "import torch\n", "LICENSE": "Do what you want.\n"}
    install(site, "good", {}, files=files, requires="torch")
    result = click.testing.CliRunner().invoke(main, ["check", "good", "--python", python_of(site, tmp_path), "-q"])
    assert result.stdout == "good 1.0 on torch 9.9.0+cpu: works: its Python code imports\n"


@pytest.mark.parametrize(
    ("stderr", "last"),
    [
        ("", "pip gave no reason"),
        ("WARNING: w\nERROR: first\nERROR: No matching distribution\n[notice] new pip\n", "No matching distribution"),
        ("Traceback\nValueError: x\n", "ValueError: x"),
    ],
)
def test_what_pip_complained_of(stderr: str, last: str) -> None:
    assert pip_error(stderr) == last


def test_a_link_that_leads_nowhere_says_where_it_leads(tmp_path: Path) -> None:
    link = tmp_path / "_C.so"
    link.symlink_to(link)
    with pytest.raises(InputError, match=f"is a symbolic link to {re.escape(str(link))}, which leads nowhere"):
        require_existing(link)


@pytest.mark.parametrize("end", ["x-1.0.tar.gz", "", f"{'x' * 5_000}.zip"])
@pytest.mark.parametrize("start", ["", "x @ "])
def test_an_address_is_refused_without_its_password(start: str, end: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is an address that is not read here") as error:
        resolve_target(f"{start}http://user:secret@index.example/{end}", tmp_path, None)
    assert error.value.subject == f"{start}http://index.example/{end}"


def test_standard_input_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the standard input is not a target"):
        resolve_target("-", tmp_path, None)


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["METADATA", "RECORD", "direct_url.json", "variant.json"])
def test_metadata_that_are_no_utf8_hide_no_package(name: str, site: Path) -> None:
    # An author's name in Latin-1: CPython imports the package all the same.
    info = site / "plain-2.dist-info"
    kept = (info / name).read_bytes() if (info / name).exists() else b"{}"
    (info / name).write_bytes(kept + b"\nAuthor: Ren\xe9\n")
    found = {item.name: (item.version, len(item.objects)) for item in list_installed([str(site)])}
    assert found == {"Pkg.Name": ("1.0", 3), "plain": ("2", 1)}
    assert find_installed("plain", [str(site)]) is not None


@pytest.mark.hostile
@pytest.mark.parametrize("url", ["file:///a%00b", "file:///\\ud800", "file://[", "x"])
def test_an_editable_install_of_no_folder(url: str, site: Path) -> None:
    text = json.dumps({"dir_info": {"editable": True}, "url": "URL"}).replace("URL", url)
    (site / "plain-2.dist-info" / "direct_url.json").write_text(text, encoding="utf-8")
    assert [item.name for item in list_installed([str(site)])] == ["Pkg.Name", "plain"]


def test_a_record_with_more_columns(site: Path) -> None:
    (site / "plain-2.dist-info" / "RECORD").write_text("plain.so,sha256=x,1,more,columns\n\n", encoding="utf-8")
    assert list(files_of(find_installed("plain", [str(site)]) or pytest.fail("not found"))) == ["plain.so"]


@pytest.mark.hostile
def test_requirements_of_a_file_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r a\0b\n", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        read_requirements(tmp_path / "requirements.txt")


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        # pip 26.2 and 26.3, of a server that accepts a connection and says nothing
        ("HTTPConnectionPool(host='127.0.0.1', port=1): Read timed out. (read timeout=1.0)", "did not answer in time"),
        ("127.0.0.1 didn't respond within 1.0 seconds", "did not answer in time"),
        ("HTTPConnectionPool(host='127.0.0.1', port=1): too many 503 error responses", "answers 503"),
        ("403 Client Error: Forbidden for url: http://127.0.0.1:1/simple/x/", "answers 403"),
    ],
)
def test_why_a_page_of_an_index_was_not_read(why: str, reason: str, tmp_path: Path) -> None:
    log = tmp_path / "pip.log"
    line = f"Could not fetch URL http://user:secret@127.0.0.1:1/simple/x/: {why} - skipping\n"
    log.write_text(f"2026-11-29T12:00:00,000 1 location(s) to search\n2026-11-29T12:00:00,100 {line}", encoding="utf-8")
    assert explain_unfetched(log) == f"127.0.0.1:1/simple/x/: the server {reason}"
