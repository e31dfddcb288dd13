"""What an index offers of a package: folders of links, sources, variants, hashes, and pages that say what is wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from unearth.fetchers import DEFAULT_SECURE_ORIGINS

from abiscan.errors import InputError
from abiscan.index import client, web
from abiscan.index.client import Candidate, Index, Settings
from abiscan.index.system import System
from abiscan.index.web import page_of
from abiscan.inputs import observed_fs
from tests.fakes import variant_wheel, wheel

SYSTEM = System.of((3, 11), "manylinux_2_28_x86_64")
URL = "https://index.example/simple/"
FILES = "https://index.example/files/"
JSON = "application/vnd.pypi.simple.v1+json"


def add(folder: Path, file: str, metadata: str | None = "") -> Path:
    name, version = file.split("-")[:2]
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata or ''}"
    members = {} if metadata is None else {f"{name}-{version}.dist-info/METADATA": text.encode()}
    return wheel(folder / file, members)


_opened: list[Index] = []


class NoClient:
    """Asks no server; to make one that could takes longer than all of a test."""

    def iter_secure_origins(self) -> Iterator[tuple[str, str, str]]:
        yield from DEFAULT_SECURE_ORIGINS

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(web, "PyPIClient", lambda **_: NoClient())
    yield
    while _opened:
        _opened.pop().close()


def of_folder(folder: Path) -> Index:
    """An index of the files in a folder, as ``pip --no-index --find-links`` has it."""
    _opened.append(Index(Settings(find_links=(str(folder),)), SYSTEM, folder / "cache"))
    return _opened[-1]


def of_pages(monkeypatch: pytest.MonkeyPatch, folder: Path, pages: Mapping[str, tuple[int, str, bytes]]) -> Index:
    """An index whose server has these pages: their status, type and content by address; it has no other."""
    index = Index(Settings(index_urls=(URL,)), SYSTEM, folder / "cache")
    _opened.append(index)

    def get(url: str, **_: Any) -> httpx2.Response:
        status, kind, content = pages.get(url, (404, "text/html", b""))
        return page_of(status, url, kind, content)

    monkeypatch.setattr(index.web, "get", get)
    return index


def listing(*files: Mapping[str, object]) -> dict[str, tuple[int, str, bytes]]:
    """The page of the package ``demo`` (PEP 691)."""
    entries = [{"url": f"{FILES}{file['filename']}", "hashes": {}, **file} for file in files]
    document = {"meta": {"api-version": "1.0"}, "name": "demo", "files": entries}
    return {f"{URL}demo/": (200, JSON, json.dumps(document).encode())}


def versions(found: tuple[Candidate, ...]) -> list[str]:
    return [str(candidate.version) for candidate in found]


def test_a_folder_of_links(tmp_path: Path) -> None:
    add(tmp_path, "my_demo-1.0-py3-none-any.whl", "Requires-Dist: torch==2.9.1\n")
    (tmp_path / "my_demo-2.0.tar.gz").write_bytes(b"source")
    index = of_folder(tmp_path)
    (candidate,) = index.candidates(Requirement("My.Demo"))
    assert (candidate.name, str(candidate), candidate.unfit) == ("my-demo", "my-demo 1.0", "")
    assert str(index.metadata(candidate).requires_torch) == "torch==2.9.1"
    assert index.origin(candidate) == ((tmp_path / candidate.wheel).as_uri(), None)
    assert index.size(candidate) == (tmp_path / candidate.wheel).stat().st_size
    assert index.versions("my.demo") == {Version("1.0"), Version("2.0")}
    assert index.source_versions("My_Demo") == {Version("2.0")}
    assert index.download_source("my-demo", Version("2.0"), tmp_path / "other") == tmp_path / "my_demo-2.0.tar.gz"
    assert index.download_source("my-demo", Version("1.0"), tmp_path) is None, "there is only a wheel of it"
    assert index.bytes_read == 0
    with pytest.raises(InputError, match="no wheel of it is linked, and no index is asked"):
        index.candidates(Requirement("other"))


def test_the_address_of_a_wheel(tmp_path: Path) -> None:
    file = add(tmp_path, "demo-1.0-py3-none-any.whl")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    linked = of_folder(tmp_path).linked_wheel(f"{file.as_uri()}#sha256={digest}")
    assert linked.path == Path(file.name)
    with linked.stream() as stream:
        assert stream.read() == file.read_bytes()
    file.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        of_folder(tmp_path).linked_wheel(file.as_uri()).stream()


def test_prereleases_where_there_is_nothing_else(tmp_path: Path) -> None:
    """PEP 440, "Handling of pre-releases"."""
    for version in ("1.0a1", "1.0rc2", "1.0.dev3"):
        add(tmp_path, f"early-{version}-py3-none-any.whl")
        add(tmp_path, f"both-{version}-py3-none-any.whl")
    add(tmp_path, "both-0.9-py3-none-any.whl")
    index = of_folder(tmp_path)
    assert versions(index.candidates(Requirement("early"))) == ["1.0rc2", "1.0a1", "1.0.dev3"]
    assert versions(index.candidates(Requirement("both"))) == ["0.9"]
    assert versions(index.candidates(Requirement("both>0.9"))) == ["1.0rc2", "1.0a1", "1.0.dev3"]
    assert versions(index.candidates(Requirement("both<=1.0a1"))) == ["1.0a1", "1.0.dev3", "0.9"]
    with pytest.raises(InputError, match=r"no version on the index satisfies it \(the newest there is 1\.0rc2\)"):
        index.candidates(Requirement("both>=2"))


def test_which_yanked_versions_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PEP 592: only if it is the one that ``==`` or ``===`` asks for."""
    files = [{"filename": f"demo-{version}-py3-none-any.whl", "yanked": version == "2.0"} for version in ("1.0", "2.0")]
    index = of_pages(monkeypatch, tmp_path, listing(*files))
    asked = {text: versions(index.candidates(Requirement(f"demo{text}"))) for text in ("", ">=1", "==2.0", "===2.0")}
    assert asked == {"": ["1.0"], ">=1": ["1.0"], "==2.0": ["2.0"], "===2.0": ["2.0"]}
    with pytest.raises(InputError, match="no version on the index satisfies it"):
        index.candidates(Requirement("demo>=2"))
    assert index.versions("demo") == {Version("1.0"), Version("2.0")}


@pytest.mark.parametrize(
    ("described", "unfit"),
    [
        ({}, ""),
        ({"requires-python": ">=3.9"}, ""),
        ({"requires-python": ">=3.11"}, ""),
        ({"requires-python": "no specifier"}, ""),  # as pip decides
        ({"requires-python": ">=3.12"}, "requires Python >=3.12"),
        ({"requires-python": "<3.11"}, "requires Python <3.11"),
        ({"requires-python": ">=3.9" + "," * 995}, ""),
        ({"requires-python": ">=3.9" + "," * 996}, "is described wrongly by the index"),
        ({"hashes": {"sha256": 3}}, "is described wrongly by the index"),
        ({"hashes": ["sha256"]}, "is described wrongly by the index"),
        ({"url": "file:///etc/demo-1.0-py3-none-any.whl"}, "is described wrongly by the index"),
    ],
)
def test_a_wheel_as_the_index_describes_it(
    described: Mapping[str, object], unfit: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index = of_pages(monkeypatch, tmp_path, listing({"filename": "demo-1.0-py3-none-any.whl", **described}))
    (candidate,) = index.candidates(Requirement("demo"))
    assert (candidate.unfit, candidate.wheel) == (unfit, "" if unfit else "demo-1.0-py3-none-any.whl")


def test_metadata_on_the_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PEP 658: with a hash or without; where there is no such file, the wheel has them."""
    text, name = (
        b"Name: demo\nVersion: 1.0\nRequires-Dist: torch==2.9.1\nRequires-Dist: numpy\n",
        "demo-1.0-py3-none-any.whl",
    )
    page = {f"{FILES}{name}.metadata": (200, "text/plain", text)}
    read = add(tmp_path, name, "Requires-Dist: torch==2.8.0\n").read_bytes()

    def required(stated: object, pages: Mapping[str, tuple[int, str, bytes]]) -> str:
        index = of_pages(monkeypatch, tmp_path, {**listing({"filename": name, "core-metadata": stated}), **pages})
        (candidate,) = index.candidates(Requirement("demo"))
        index._files[candidate] = (tmp_path / name).open("rb")
        assert [str(one) for one in index.requirements(candidate)][:1] == [
            str(index.metadata(candidate).requires_torch)
        ]
        return str(index.metadata(candidate).requires_torch)

    digest = hashlib.sha256(text).hexdigest()
    assert required(True, page) == required({"sha256": digest}, page) == "torch==2.9.1"
    assert required(False, page) == required(True, {}) == "torch==2.8.0"
    assert read == (tmp_path / name).read_bytes()
    with pytest.raises(InputError, match=r"demo-1\.0-py3-none-any\.whl\.metadata: is not the file .*its hash differs"):
        required({"sha256": "0" * 64}, page)


def test_a_wheel_without_metadata(tmp_path: Path) -> None:
    add(tmp_path, "demo-1.0-py3-none-any.whl", None)
    index = of_folder(tmp_path)
    (candidate,) = index.candidates(Requirement("demo"))
    with pytest.raises(InputError, match="has no metadata"):
        index.metadata(candidate)


def test_the_most_versions_that_are_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(client, "_MOST_READ", 2)
    for version in (1, 2, 3):
        add(tmp_path, f"demo-{version}-py3-none-any.whl")
    index = of_folder(tmp_path)
    found = index.candidates(Requirement("demo"))
    for candidate in (*found[:2], *found[:2]):
        assert index.requirements(candidate) == ()
    with pytest.raises(InputError, match=r"more than 2 versions would have to be looked at .*'demo>=VERSION'"):
        index.metadata(found[2])


def test_what_an_answer_depends_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file on this machine can be looked at again; one on a server only if the index states its hash."""
    file = add(tmp_path, "demo-1.0-py3-none-any.whl")
    with observed_fs.record_observations() as record:
        index = of_folder(tmp_path)
        index.size(index.candidates(Requirement("demo"))[0])
    assert (str(file) in record.seen["file"], record.is_final) == (True, False)
    for hashes, is_final in (({"sha256": "a" * 64}, False), ({}, True), ({"sha256": "0" * 64}, True)):
        index = of_pages(monkeypatch, tmp_path, listing({"filename": file.name, "hashes": hashes}))
        (candidate,) = index.candidates(Requirement("demo"))
        assert index.origin(candidate) == (f"{FILES}{file.name}", None if is_final else "a" * 64)
        with observed_fs.record_observations() as record:
            index.wheel(candidate).stream()
        assert record.is_final is is_final


def test_a_source_distribution_on_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name, digest = "demo-1.0.tar.gz", hashlib.sha256(b"source").hexdigest()
    page = {f"{FILES}{name}": (200, "application/gzip", b"source")}
    for stated in ({}, {"sha256": digest}, {"sha256": digest.upper()}):
        index = of_pages(monkeypatch, tmp_path, {**listing({"filename": name, "hashes": stated}), **page})
        assert index.source_versions("demo") == {Version("1.0")}
        path = index.download_source("demo", Version("1.0"), tmp_path)
        assert (path, (tmp_path / name).read_bytes()) == (tmp_path / name, b"source")
        (tmp_path / name).unlink()
    index = of_pages(monkeypatch, tmp_path, listing({"filename": name}))
    with pytest.raises(InputError, match=r"demo-1\.0\.tar\.gz: could not be downloaded: the server answers 404"):
        index.download_source("demo", Version("1.0"), tmp_path)
    index = of_pages(monkeypatch, tmp_path, listing({"filename": name, "url": "file:///etc/demo-1.0.tar.gz"}))
    assert index.download_source("demo", Version("1.0"), tmp_path) is None, "no file of this machine"


LEVEL = {"level": ["v3"]}


def test_the_wheels_of_variants(tmp_path: Path) -> None:
    """PEP 825: a released installer only takes the ordinary wheel; those of variants have their properties inside."""
    variant_wheel(tmp_path, "fast", {"x86_64": LEVEL}, {}, name="demo")
    variant_wheel(tmp_path, "null", {}, {}, name="demo")
    index = of_folder(tmp_path)
    (plain,) = index.candidates(Requirement("demo"))
    assert plain.unfit == f"has only wheels of variants for {SYSTEM}: fast, null"
    assert (plain.wheel, plain.variant) == ("", None)
    found = index.candidates(Requirement("demo"), variants=True)
    assert sorted(one.variant.label for one in found if one.variant) == ["fast", "null"]
    ordinary = add(tmp_path, "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl").name
    index = of_folder(tmp_path)
    (plain,) = index.candidates(Requirement("demo"))
    assert (plain.wheel, plain.unfit) == (ordinary, "")
    first, *others = index.candidates(Requirement("demo"), variants=True)
    assert (first.wheel, first.variant) == (ordinary, None)
    properties = {one.variant.label: [*map(str, one.variant.properties)] for one in others if one.variant}
    assert properties == {"fast": ["x86_64 :: level :: v3"], "null": []}
    assert all(index.size(one) == (tmp_path / one.wheel).stat().st_size for one in others)


@pytest.mark.parametrize("damaged", ["", "{", "[]"])
def test_what_a_folder_states_of_variants(tmp_path: Path, damaged: str) -> None:
    """It is asked before the wheels are read; where it cannot be read, they state it, too."""
    variant_wheel(tmp_path, "fast", {"x86_64": LEVEL}, {}, name="demo")
    variant_wheel(tmp_path, "slow", {"x86_64": {"level": ["v1"]}}, {}, name="demo")
    variants = {"fast": {"x86_64": {"level": ["v4"]}}, "slow": {"x86_64": {"level": ["v2"]}}}
    document = {"default-priorities": {"namespace": ["x86_64"]}, "variants": variants}
    stated = tmp_path / "demo-1.0-variants.json"
    stated.write_text(damaged or json.dumps(document), "utf-8")
    found = of_folder(tmp_path).candidates(Requirement("demo"), variants=True)
    levels = {one.variant.label: one.variant.properties[0].value for one in found if one.variant}
    assert levels == ({"fast": "v3", "slow": "v1"} if damaged else {"fast": "v4", "slow": "v2"})


def test_a_variant_of_another_system_is_none(tmp_path: Path) -> None:
    fast = variant_wheel(tmp_path, "fast", {"x86_64": LEVEL}, {}, name="demo")
    fast.rename(tmp_path / "demo-1.0-cp312-cp312-win_amd64-fast.whl")
    add(tmp_path, "demo-1.0-py3-none-any.whl")
    for variants in (False, True):
        (found,) = of_folder(tmp_path).candidates(Requirement("demo"), variants=variants)
        assert found.wheel == "demo-1.0-py3-none-any.whl"
