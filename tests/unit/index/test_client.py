"""The wheels on an index: which, in which order, with which metadata, and what was asked for that."""

from __future__ import annotations

import itertools
import os
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from unearth import Link

from abiscan.binary.machines import Machine
from abiscan.errors import InputError
from abiscan.index.client import Index, Settings, settings_of_pip
from abiscan.index.system import System
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.requirements_file import read_requirements
from tests.fakes import wheel
from tests.index_server import LocalIndex, serving

SYSTEM = System.of((3, 11), "manylinux_2_28_x86_64")


def add(folder: Path, file: str, requires: str = "") -> None:
    name, version = file.split("-")[:2]
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    wheel(folder / file, {f"{name}-{version}.dist-info/METADATA": metadata.encode()})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalIndex]:
    add(tmp_path, "demo-1.0-cp311-cp311-manylinux1_x86_64.whl")
    add(tmp_path, "demo-1.9-cp311-cp311-manylinux_2_28_x86_64.whl", "torch==2.9.1")
    add(tmp_path, "demo-1.9-cp39-abi3-manylinux_2_17_x86_64.whl")
    add(tmp_path, "demo-1.10-cp39-abi3-manylinux_2_17_x86_64.whl", "torch>=2.9; python_version<'3.11'")
    add(tmp_path, "demo-1.11-cp312-cp312-manylinux_2_28_x86_64.whl")
    add(tmp_path, "demo-1.12-py3-none-any.whl")
    add(tmp_path, "demo-1.13-cp311-cp311-manylinux_2_28_aarch64.whl")
    add(tmp_path, "demo-2.0rc1-py3-none-any.whl")
    with serving(tmp_path) as server:
        server.requires_python["demo-1.12-py3-none-any.whl"] = ">=3.12"
        yield server


def opened(server: LocalIndex, *, offline: bool = False, system: System = SYSTEM, url: str = "") -> Index:
    return Index(Settings(index_urls=(url or server.url,)), system, server.folder / "cache", offline=offline)


@pytest.mark.parametrize("html", [False, True])
def test_candidates_are_newest_first_with_what_is_against_them(server: LocalIndex, *, html: bool) -> None:
    server.html = html
    server.requires_python = {} if html else server.requires_python
    found = opened(server).candidates(Requirement("demo"))
    assert [str(candidate.version) for candidate in found] == ["1.13", "1.12", "1.11", "1.10", "1.9", "1.0"]
    why = {str(candidate.version): candidate.unfit for candidate in found if candidate.unfit}
    system = "Python 3.11 on manylinux_2_28_x86_64"
    expected = {"1.13": f"has no wheel for {system}", "1.11": f"has no wheel for {system}"}
    assert why == (expected if html else {**expected, "1.12": "requires Python >=3.12"})


def test_of_several_wheels_the_one_that_pip_prefers(server: LocalIndex) -> None:
    (candidate,) = opened(server).candidates(Requirement("demo==1.9"))
    assert candidate.wheel == "demo-1.9-cp311-cp311-manylinux_2_28_x86_64.whl"


def test_wheels_that_do_not_fit_are_passed_over(server: LocalIndex) -> None:
    # In the order of the page: one for another system, one for a newer Python, one that fits.
    for tags in ("cp311-cp311-macosx_11_0_arm64", "cp39-abi3-manylinux_2_17_x86_64", "py3-none-any"):
        add(server.folder, f"later-1.0-{tags}.whl")
    server.requires_python["later-1.0-cp39-abi3-manylinux_2_17_x86_64.whl"] = ">=3.12"
    (candidate,) = opened(server).candidates(Requirement("later"))
    assert (candidate.wheel, candidate.unfit) == ("later-1.0-py3-none-any.whl", "")
    (server.folder / candidate.wheel).unlink()
    (candidate,) = opened(server).candidates(Requirement("later"))
    assert candidate.unfit == "requires Python >=3.12"


@pytest.mark.parametrize(
    ("python", "tag", "markers"),
    [
        # PEP 508, "Environment Markers".
        ((3, 12), "manylinux_2_28_x86_64", ("linux", "Linux", "posix", "x86_64", "3.12", "3.12.0")),
        ((3, 9), "manylinux_2_28_aarch64", ("linux", "Linux", "posix", "aarch64", "3.9", "3.9.0")),
        ((3, 12), "win_amd64", ("win32", "Windows", "nt", "AMD64", "3.12", "3.12.0")),
        ((3, 12), "macosx_11_0_arm64", ("darwin", "Darwin", "posix", "arm64", "3.12", "3.12.0")),
    ],
)
def test_the_markers_of_a_system(python: tuple[int, int], tag: str, markers: tuple[str, ...]) -> None:
    names = ("sys_platform", "platform_system", "os_name", "platform_machine", "python_version", "python_full_version")
    environment = System.of(python, tag).environment
    assert tuple(environment[name] for name in names) == markers


def test_another_system(server: LocalIndex) -> None:
    system = System.of((3, 11), "manylinux_2_28_aarch64")
    assert system.machine is Machine.AARCH64
    fitting = [one for one in opened(server, system=system).candidates(Requirement("demo")) if not one.unfit]
    assert [str(candidate.version) for candidate in fitting] == ["1.13"]


def test_prereleases_and_yanked_versions_only_if_they_are_asked_for(server: LocalIndex) -> None:
    assert [str(one.version) for one in opened(server).candidates(Requirement("demo>=2.0rc1"))] == ["2.0rc1"]
    server.yanked.add("demo-1.10-cp39-abi3-manylinux_2_17_x86_64.whl")
    assert "1.10" not in [str(one.version) for one in opened(server).candidates(Requirement("demo"))]
    assert [str(one.version) for one in opened(server).candidates(Requirement("demo==1.10"))] == ["1.10"]


@pytest.mark.parametrize("of_index", [False, True])
def test_metadata(server: LocalIndex, *, of_index: bool) -> None:
    """Those of the index are enough (PEP 658); without, those in the wheel are read."""
    server.metadata = of_index
    index = opened(server)
    by_version = {str(one.version): one for one in index.candidates(Requirement("demo"))}
    assert str(index.metadata(by_version["1.9"]).requires_torch) == "torch==2.9.1"
    assert index.requirements(by_version["1.10"]) == (), "it is for another Python"
    assert bool(server.wheels_asked()) is not of_index


def test_credentials_in_the_url(server: LocalIndex) -> None:
    server.password = "secret"
    with pytest.raises(InputError, match="401: the index wants credentials"):
        opened(server).candidates(Requirement("demo"))
    index = opened(server, url=server.url.replace("http://", "http://user:secret@"))
    candidate = index.candidates(Requirement("demo==1.9"))[0]
    assert str(index.metadata(candidate).requires_torch) == "torch==2.9.1"


def test_what_is_not_there(server: LocalIndex) -> None:
    with pytest.raises(InputError, match="other: is not on the index"):
        opened(server).candidates(Requirement("other"))
    (server.folder / "onlysource-1.0.tar.gz").touch()
    with pytest.raises(InputError, match="onlysource: has no wheel on the index, only source code"):
        opened(server).candidates(Requirement("onlysource"))
    with pytest.raises(InputError, match="no version on the index satisfies it"):
        opened(server).candidates(Requirement("demo>=3"))


def test_a_source_distribution(server: LocalIndex, tmp_path: Path) -> None:
    (server.folder / "onlysource-1.0.tar.gz").write_bytes(b"source")
    index, version = opened(server), Version("1.0")
    assert index.source_versions("onlysource") == {version}
    assert index.source_versions("demo") == frozenset()
    assert index.download_source("onlysource", Version("2.0"), tmp_path) is None
    path = index.download_source("OnlySource", version, tmp_path)
    assert path is not None
    assert (path.name, path.read_bytes()) == ("onlysource-1.0.tar.gz", b"source")
    server.wrong_hash = True
    with pytest.raises(InputError, match="its hash differs"):
        opened(server).download_source("onlysource", version, tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b"null", b'"words"', b"{}", b'{"files": 3}', b'{"files": [7]}', b'{"files": [{"filename": 1}]}', b"{"),
        *(b"[" * 100_000, b'{"files": [{"filename": "demo-1.0-py3-none-any.whl", "url": 5, "hashes": {}}]}'),
    ],
)
def test_a_page_that_is_none(server: LocalIndex, body: bytes) -> None:
    server.body = body
    with pytest.raises(
        InputError, match=r"demo: (the index has a page for it that cannot be read|is not on the index)"
    ):
        opened(server).candidates(Requirement("demo"))


def test_a_page_without_end(server: LocalIndex) -> None:
    server.body = bytes(33 << 20)
    with pytest.raises(InputError, match="is larger than 32 MiB, which no page of an index needs"):
        opened(server).candidates(Requirement("demo"))
    assert not list((server.folder / "cache").glob("*.page"))


def test_offline(server: LocalIndex) -> None:
    with pytest.raises(InputError, match="run it without --offline"):
        opened(server, offline=True).candidates(Requirement("demo"))
    online = opened(server).candidates(Requirement("demo"))
    asked = len(server.asked)
    assert opened(server, offline=True).candidates(Requirement("demo")) == online
    assert len(server.asked) == asked


def test_a_file_of_constraints_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way to have none, since pip reads ``/dev/null``, too."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_CONSTRAINT", f"{os.devnull} c.txt")
    assert settings_of_pip(sys.executable).constraints == ("c.txt",)


def test_settings_of_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What pip itself says they are: a file, and the environment above it."""
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://a.example/simple\nextra-index-url =\n  https://b.example/s\n  https://c.example/s\n"
        "trusted-host = b.example\n[install]\nconstraint = c.txt\n[download]\nindex-url = https://not.example/\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PIP_TRUSTED_HOST"):
        monkeypatch.delenv(name, raising=False)
    settings = settings_of_pip(sys.executable)
    assert settings.index_urls[:1] == ("https://a.example/simple",)
    assert set(settings.index_urls[1:]) >= {"https://b.example/s", "https://c.example/s"}
    assert (settings.trusted_hosts, settings.constraints) == (("b.example",), ("c.txt",))
    monkeypatch.setenv("PIP_INDEX_URL", "https://e.example/simple")
    assert settings_of_pip(sys.executable).index_urls[0] == "https://e.example/simple"
    asked = IndexOptions(
        index_url="https://u.example/",
        extra_index_urls=("https://x.example/",),
        find_links=(str(tmp_path), "https://l.example/links.html"),
    )
    settings = settings_of_pip(sys.executable, asked)
    assert (settings.index_urls[0], settings.index_urls[-1]) == ("https://u.example/", "https://x.example/")
    assert settings.find_links == (str(tmp_path), "https://l.example/links.html")


@pytest.mark.parametrize("by", ["option", "setting"])
def test_without_an_index_there_is_none(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``pip install --no-index`` ignores further indexes, too: pip's documentation."""
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://e.example/simple")
    if by == "setting":
        monkeypatch.setenv("PIP_NO_INDEX", "1")
    asked = IndexOptions(no_index=by == "option", extra_index_urls=("https://x.example/",))
    assert settings_of_pip(sys.executable, asked).index_urls == ()


def test_settings_of_an_environment_without_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its packages are installed by the pip that is here, whose settings are those of the user, too."""
    venv.create(tmp_path / "env", symlinks=True)
    without_pip = str(tmp_path / "env" / "bin" / "python")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "https://e.example/simple")
    assert settings_of_pip(without_pip).index_urls[:1] == ("https://e.example/simple",)


def test_files_of_requirements(tmp_path: Path) -> None:
    main, other, limits = tmp_path / "main.txt", tmp_path / "other.txt", tmp_path / "limits.txt"
    main.write_text(
        "--index-url https://a.example/\n# words\nvllm>=0.6  # more words\n-r other.txt\n-c limits.txt\n", "utf-8"
    )
    other.write_text("xformers==1.0 \\\n  --hash=sha256:00\nnothing; sys_platform == 'win32'\n", "utf-8")
    limits.write_text("torch<2.9\n", "utf-8")
    lines = [(str(line.requirement), line.constraint) for line in read_requirements(main)]
    assert lines == [("vllm>=0.6", False), ("xformers==1.0", False), ("torch<2.9", True)]
    other.write_text("./folder\n", "utf-8")
    with pytest.raises(InputError, match=r"other\.txt:1: is not a requirement by name"):
        read_requirements(main)
    other.write_text("-r main.txt\n", "utf-8")
    with pytest.raises(InputError, match="includes itself"):
        read_requirements(main)


FITS = [("a-1-cp311-cp311-manylinux_2_17_x86_64.whl", None), ("a-1-py3-none-any.whl", ">=3.8")]
DOES_NOT_FIT = [
    ("no wheel.whl", None),
    ("a-1-cp39-cp39-manylinux_2_17_x86_64.whl", None),
    ("a-1-cp311-abi3-manylinux_2_17_x86_64.whl", ">=3.12"),
    ("a-1-cp311-none-any.whl", 311),
]


@pytest.mark.parametrize("files", [*itertools.permutations(DOES_NOT_FIT), DOES_NOT_FIT[:1]])
def test_no_wheel_hides_another_one(files: Sequence[tuple[str, Any]], tmp_path: Path) -> None:
    """Whatever the order in which a page lists them, the wheel for the most special of the tags is taken."""
    index = Index(Settings(), SYSTEM, tmp_path)
    for fitting in itertools.permutations(FITS):
        for listed in ([*files, *fitting], [*fitting, *files], [fitting[0], *files, fitting[1]]):
            links = [Link(f"https://host/{name}", requires_python=requires) for name, requires in listed]
            assert index._choose_wheel("a", Version("1"), links).wheel == FITS[0][0]
    links = [Link(f"https://host/{name}", requires_python=requires) for name, requires in files]
    found = index._choose_wheel("a", Version("1"), links)
    assert not found.wheel
    assert found.unfit
