"""The parts of a lock: names, versions, hashes, markers, tables, and which of its entries one environment has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from abiscan.errors import InputError
from abiscan.index.system import System
from abiscan.locks import toml_file
from abiscan.locks.listed import ListedLock, ListEntry
from abiscan.locks.model import (
    FromWhere,
    LockedFile,
    LockedPackage,
    ProjectPart,
    applies,
    applies_in_lock,
    markers_for,
    rank_wheel,
    require_few,
    require_names,
    sound_name,
    sound_version,
    stated_hash,
    understood,
)
from abiscan.locks.platform_names import platform_tag_of, python_of
from abiscan.locks.reading import read_lock
from tests.unit.locks.test_reading import EXPLICIT, LINUX, PDM, PIXI, PYLOCK, UV, A, B, C, lock_of, names

WINDOWS = System.of((3, 12), "win_amd64")
MAC = System.of((3, 12), "macosx_14_0_arm64")
ARM = System.of((3, 12), "manylinux_2_28_aarch64")
ALL = ProjectPart()


def named(name: str, version: str | None = "1.0", **more: Any) -> LockedPackage:
    return LockedPackage(name=name, version=version, **more)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("a-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1.0-cp312-cp312-manylinux_2_17_x86_64.whl"),
        ("a-1.0-cp312-cp312-manylinux_2_17_x86_64.whl", "a-1.0-cp39-abi3-manylinux_2_28_x86_64.whl"),
        ("a-1.0-cp39-abi3-manylinux_2_28_x86_64.whl", "a-1.0-py3-none-any.whl"),
        ("a-1.0-2-py3-none-any.whl", "a-1.0-1-py3-none-any.whl"),  # PEP 427: the build number is a tie-breaker
        ("a-1.0-1-py3-none-any.whl", "a-1.0-py3-none-any.whl"),
        ("a-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1.0-9-py3-none-any.whl"),
    ],
)
def test_of_two_wheels_the_one_that_an_installer_takes(better: str, worse: str) -> None:
    files = [LockedFile(name=name) for name in (worse, better)]
    for order in (files, files[::-1]):
        chosen = named("a", files=tuple(order)).choose_file(LINUX)
        assert chosen is not None
        assert chosen.name == better


@pytest.mark.parametrize(
    "name",
    [
        "a-1.0-cp313-cp313-manylinux_2_28_x86_64.whl",
        "a-1.0-cp312-cp312-manylinux_2_34_x86_64.whl",
        "a-1.0-cp312-cp312-win_amd64.whl",
        "a-1.0-cp312-cp312-manylinux_2_28_x86_64-fast.whl",  # of a variant: no released installer takes one
        "a-1.0.tar.gz",
        "a-one-py3-none-any.whl",
        "a.whl",
    ],
)
def test_what_no_installer_takes(name: str) -> None:
    assert rank_wheel(name, LINUX) is None
    assert named("a", files=(LockedFile(name=name),)).choose_file(LINUX) is None
    conda = named("a", files=(LockedFile(name=name),), origin=FromWhere.CONDA)
    assert conda.choose_file(LINUX) == conda.files[0], "conda has chosen already"
    assert named("a").choose_file(LINUX) is None


def test_what_a_package_is_called() -> None:
    assert (str(named("a")), str(named("a", None))) == ("a==1.0", "a")


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        (f"sha256:{A}", A),
        (A.upper(), A),
        (f"md5:{'a' * 32}", None),
        (f"sha512:{A}{A}", None),
        ("", None),
        (None, None),
        ("sha256:", None),
    ],
)
def test_the_hash_of_a_file(text: object, digest: str | None) -> None:
    assert stated_hash(text, "a.lock") == digest


@pytest.mark.parametrize("text", ["sha256:12", "0" * 64, f"sha256:{'g' * 64}"])
def test_a_hash_that_no_file_has(text: str) -> None:
    with pytest.raises(InputError, match=r"a\.lock: has a SHA-256 that no file has"):
        stated_hash(text, "a.lock")


def test_names_and_versions() -> None:
    assert (sound_name("Some_Name.x", "a"), sound_version("1.0.0-RC1", "a"), sound_version(2, "a")) == (
        *("some-name-x", "1.0.0rc1", "2"),
    )
    assert sound_version(None, "a") is None
    for name in (None, "", 3, ["a"]):
        with pytest.raises(InputError, match=r"a\.lock: has an entry without a name"):
            sound_name(name, "a.lock")
    with pytest.raises(InputError, match=r"has an invalid version: 'one'"):
        sound_version("one", "a.lock")


def test_extras_and_groups_that_there_are() -> None:
    require_names(["A_b", "c"], ["a-B", "C", "d"], "extra", "a.lock")
    require_names([], [], "extra", "a.lock")
    with pytest.raises(InputError, match=r"a\.lock: has no group e \(there are a-B, d\)"):
        require_names(["d", "e"], ["d", "a-B"], "group", "a.lock")
    with pytest.raises(InputError, match=r"has no extra e \(there are none\)"):
        require_names(["e"], [], "extra", "a.lock")
    require_few([None] * 20_000, "a.lock")
    with pytest.raises(InputError, match="has 20,001 packages, more than 20,000"):
        require_few([None] * 20_001, "a.lock")


@pytest.mark.parametrize(
    "error", [TypeError("a"), AttributeError("a"), KeyError("a"), ValueError("a"), RecursionError("a")]
)
def test_a_lock_that_no_tool_writes(error: Exception) -> None:
    with (
        pytest.raises(InputError, match=rf"is not what its tool writes: {type(error).__name__}"),
        understood(Path("a")),
    ):
        raise error
    with pytest.raises(OSError, match="disk"), understood(Path("a")):
        raise OSError("disk")


@pytest.mark.parametrize(
    ("marker", "system", "is_true"),
    [
        (None, LINUX, True),
        ("sys_platform == 'linux'", LINUX, True),
        ("sys_platform == 'linux'", WINDOWS, False),
        ("python_full_version >= '3.12.4'", LINUX, True),  # which patch it will be is not known: the last
        ("python_full_version < '3.13'", LINUX, True),
        ("python_version < '3.12'", LINUX, False),
        ("platform_machine == 'aarch64'", ARM, True),
        ("sys_platform == 'darwin' and platform_machine == 'arm64'", MAC, True),
    ],
)
def test_markers(marker: str | None, system: System, *, is_true: bool) -> None:
    assert applies(marker, markers_for(system), "a.lock") is is_true
    assert applies_in_lock(marker, markers_for(system), "a.lock", (), ()) is is_true


@pytest.mark.parametrize(
    ("marker", "extras", "groups", "is_true"),
    [
        ("'cpu' in extras", ("cpu",), (), True),  # PEP 751
        ("'cpu' in extras", ("gpu",), (), False),
        ("'dev' in dependency_groups", (), ("dev",), True),
        ("'dev' in dependency_groups and 'x' in extras", (), ("dev",), False),
        ("'dev' not in dependency_groups", (), (), True),
        ("extra == 'cpu'", ("gpu", "cpu"), (), True),
        ("extra == 'cpu'", ("gpu",), (), False),
        ("extra == 'cpu'", (), (), False),
        ("extra != 'cpu'", (), (), True),
        ("sys_platform == 'linux' and extra == 'cpu'", ("cpu",), (), True),
    ],
)
def test_markers_with_extras_and_groups(
    marker: str, extras: tuple[str, ...], groups: tuple[str, ...], *, is_true: bool
) -> None:
    assert applies_in_lock(marker, markers_for(LINUX), "a.lock", extras, groups) is is_true


@pytest.mark.parametrize("marker", ["nonsense ==", "extras ==", 3, "x" * 30_000])
def test_markers_that_cannot_be_read(marker: object) -> None:
    with pytest.raises(InputError, match=r"a\.lock: has a marker that cannot be read: "):
        applies(marker, markers_for(LINUX), "a.lock")
    with pytest.raises(InputError, match=r"a\.lock: has a marker that cannot be read: "):
        applies_in_lock(str(marker), markers_for(LINUX), "a.lock", (), ())


def test_tables() -> None:
    assert toml_file.table(None, "a", "x") == {}
    assert toml_file.table({"b": 1}, "a", "x") == {"b": 1}
    assert toml_file.tables(None, "a", "x") == []
    assert toml_file.tables([{"b": 1}], "a", "x") == [{"b": 1}]
    no_table: tuple[object, ...] = ([], 3, "b", False)
    for value in no_table:
        with pytest.raises(InputError, match="has no table in x"):
            toml_file.table(value, "a", "x")
    no_tables: tuple[object, ...] = ({}, 3, "b", [1], [{}, 1], [[]])
    for value in no_tables:
        with pytest.raises(InputError, match="has no tables in x"):
            toml_file.tables(value, "a", "x")


def test_the_text_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.lock"
    monkeypatch.setattr(toml_file, "LARGEST", 4)
    path.write_bytes(b"abcd")
    assert toml_file.read_text(path) == "abcd"
    path.write_bytes(b"abcde")
    with pytest.raises(InputError, match="is larger than 0 MiB, which is too large for a lock"):
        toml_file.read_text(path)
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        toml_file.read_text(tmp_path / "absent")
    monkeypatch.undo()
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(InputError, match="is not valid TOML, or is truncated: "):
        toml_file.read_toml(path)
    assert toml_file.read_project(path) == {}
    (tmp_path / "pyproject.toml").write_text("[tool]\n")
    assert toml_file.read_project(path) == {"tool": {}}


def listed(*entries: ListEntry, **more: Any) -> ListedLock:
    return ListedLock(path=Path("a.lock"), entries=entries, **more)


def test_the_environments_of_a_list() -> None:
    """Each of the three may leave a system out; what is not said leaves out none."""
    assert all(listed().admits(system) for system in (LINUX, WINDOWS, MAC))
    assert [listed(pythons=">=3.12").admits(System.of((3, minor), "win_amd64")) for minor in (11, 12)] == [False, True]
    assert listed(pythons=">=3.12.5").admits(LINUX), "of a minor version, the last patch counts"
    platforms = listed(platforms=("manylinux_2_17_x86_64", "macosx_11_0_arm64"))
    assert [platforms.admits(system) for system in (LINUX, MAC, WINDOWS, ARM)] == [True, True, False, False]
    markers = listed(markers=("sys_platform == 'win32'", "platform_machine == 'aarch64'"))
    assert [markers.admits(system) for system in (LINUX, MAC, WINDOWS, ARM)] == [False, False, True, True]
    with pytest.raises(InputError, match="has invalid versions of Python"):
        listed(pythons="new").admits(LINUX)


def select(lock: ListedLock, **selection: Any) -> list[str]:
    return [item.name for item in lock.select(LINUX, ProjectPart(**selection))]


def test_the_groups_of_a_list() -> None:
    groups = [ListEntry(package=named(name), groups=frozenset({name})) for name in ("main", "dev", "docs", "cpu")]
    lock = listed(*groups, ListEntry(package=named("any")), extras=("cpu",), groups=("dev", "docs"),
                  always=("main",), defaults=("dev",))  # fmt: skip
    assert select(lock) == ["any", "dev", "main"]
    assert select(lock, dev=False) == ["any", "main"]
    assert select(lock, dev=False, groups=("docs",)) == ["any", "docs", "main"]
    assert select(lock, groups=("docs",), extras=("cpu",)) == ["any", "cpu", "dev", "docs", "main"]
    with pytest.raises(InputError, match="has no group cpu"):
        select(lock, groups=("cpu",))


def test_environments_of_their_own_replace_the_default_one() -> None:
    """As those of pixi: ``--environment``."""
    entries = [ListEntry(package=named(name), groups=frozenset({name})) for name in ("default", "cuda")]
    lock = listed(*entries, groups=("default", "cuda"), defaults=("default",), apart=True)
    assert (select(lock), select(lock, groups=("cuda",)), select(lock, dev=False)) == (
        *(["default"], ["cuda"], ["default"]),
    )


def test_what_an_entry_is_for() -> None:
    lock = listed(
        ListEntry(package=named("all")),
        ListEntry(package=named("marked"), marker="sys_platform == 'win32'"),
        ListEntry(package=named("old"), pythons="<3.12"),
        ListEntry(package=named("mac"), platform="macosx_11_0_arm64"),
        ListEntry(package=named("linux"), platform="manylinux_2_17_x86_64"),
    )
    assert select(lock) == ["all", "linux"]
    assert [item.name for item in lock.select(WINDOWS, ALL)] == ["all", "marked"]
    assert [item.name for item in lock.select(System.of((3, 11), "macosx_14_0_arm64"), ALL)] == ["all", "mac", "old"]


def test_indexes_by_how_many_packages_they_have() -> None:
    urls = ("https://a/", "https://b/", None, "https://b/", None, None)
    lock = listed(*(ListEntry(package=named(f"p{number}", index=url)) for number, url in enumerate(urls)))
    assert lock.registries == ("https://b/", "https://a/")


def test_two_versions_for_one_system() -> None:
    one, two = ListEntry(package=named("a", "1.0")), ListEntry(package=named("a", "2.0"))
    assert [str(item) for item in listed(one, one).select(LINUX, ALL)] == ["a==1.0"]
    with pytest.raises(InputError, match=r"has both a==1\.0 and a==2\.0 for Python 3\.12 on manylinux_2_28_x86_64"):
        listed(one, two).select(LINUX, ALL)
    for demand, chosen in ((">=1", "2.0"), ("<2", "1.0"), ("==2.0", "2.0")):
        user = ListEntry(package=named("b"), demands={"a": demand})
        for order in ((one, two, user), (user, two, one)):
            assert str(listed(*order).select(LINUX, ALL)[0]) == f"a=={chosen}"


def test_the_platforms_that_uv_names() -> None:
    """Its reference, ``--python-platform``; and tags of wheels."""
    expected = {
        "x86_64-unknown-linux-gnu": "manylinux_2_28_x86_64",
        "aarch64-manylinux2014": "manylinux_2_17_aarch64",
        "x86_64-manylinux_2_40": "manylinux_2_40_x86_64",
        "macos": "macosx_14_0_arm64",
        "x86_64-apple-darwin": "macosx_14_0_x86_64",
        "windows": "win_amd64",
        "win_arm64": "win_arm64",
        "manylinux_2_31_aarch64": "manylinux_2_31_aarch64",
        "macosx_13_0_x86_64": "macosx_13_0_x86_64",
    }
    assert {name: platform_tag_of(name) for name in expected} == expected
    with pytest.raises(InputError, match=r"window: is not a known platform \(.*windows"):
        platform_tag_of("window")
    assert [python_of(text) for text in ("3.9", "3.14.0")] == [(3, 9), (3, 14)]
    for text in ("3", "3.x", "4.1", "3.12.4.1", "3.123"):
        with pytest.raises(InputError, match="is not a version of Python"):
            python_of(text)


@pytest.mark.parametrize(
    ("setting", "admitted"),
    [
        ("", [LINUX, WINDOWS, MAC]),
        ("supported-markers = [\"sys_platform == 'linux'\", \"sys_platform == 'win32'\"]\n", [LINUX, WINDOWS]),
        ("supported-markers = []\n", [LINUX, WINDOWS, MAC]),
    ],
)
def test_the_environments_of_uv(setting: str, admitted: list[System], tmp_path: Path) -> None:
    """uv's settings, ``tool.uv.environments``."""
    lock = lock_of(tmp_path, "uv.lock", UV.replace("revision = 3\n", f"revision = 3\n{setting}"))
    assert [system for system in (LINUX, WINDOWS, MAC) if lock.admits(system)] == admitted
    assert (lock.tool, lock.platforms, lock.is_complete) == ("uv", (), True)
    assert (lock.extras, lock.groups, lock.defaults) == (("cpu", "cu130"), ("dev", "lint"), ("dev",))
    with pytest.raises(InputError, match="has an invalid requires-python"):
        lock_of(tmp_path, "uv.lock", UV.replace('">=3.11"', '"new"', 1)).admits(LINUX)


def test_extras_of_uv_that_exclude_each_other(tmp_path: Path) -> None:
    """The number in such a marker is the length of the name of the package, which may have hyphens itself."""
    marked = {
        "extra == 'extra-7-project-cpu'": ["cpu"],
        "extra != 'extra-7-project-cpu'": ["", "cu130", "group"],
        "extra == 'group-7-project-lint'": ["group"],
        "extra == 'extra-7-project-cpu' or extra == 'extra-7-project-cu130'": ["cpu", "cu130"],
        "extra == 'project-7-project'": ["", "cpu", "cu130", "group"],
        "extra != 'project-7-project'": [],
        "sys_platform == 'linux' and extra != 'extra-7-project-cu130'": ["", "cpu", "group"],
    }
    asked: dict[str, dict[str, Any]] = {
        "": {},
        "cpu": {"extras": ("cpu",)},
        "cu130": {"extras": ("cu130",)},
        "group": {"groups": ("lint",)},
    }
    for marker, expected in marked.items():
        text = UV.replace("sys_platform == 'win32'", marker, 1)
        lock = lock_of(tmp_path, "uv.lock", text)
        active = [name for name, selection in asked.items() if "colorama==0.4.6" in names(lock, **selection)]
        assert active == expected, marker


# PEP 751: each kind of source.
SOURCES = f"""
lock-version = "1.0"
created-by = "pip"

[[packages]]
name = "far"
version = "1.0"
index = "https://index.example/simple"
requires-python = ">=3.12"
dependencies = [{{ name = "near" }}]
wheels = [{{ name = "far-1.0-py3-none-any.whl", path = "dist/1", size = 7, hashes = {{ sha256 = "{A}" }} }}]
[packages.sdist]
name = "far-1.0.tar.gz"
url = "https://files.example/far"
hashes = {{ sha256 = "{B}" }}

[[packages]]
name = "near"
version = "1.0"
archive = {{ url = "file:///srv/near-1.0%2Bcpu-py3-none-any.whl", hashes = {{ sha256 = "{C}" }} }}

[[packages]]
name = "built"
version = "1.0"
archive = {{ url = "https://files.example/built-1.0.tar.gz", hashes = {{ sha256 = "{C}" }} }}

[[packages]]
name = "cloned"
vcs = {{ type = "git", url = "https://git.example/cloned", commit-id = "{A[:40]}" }}

[[packages]]
name = "folder"
directory = {{ path = "folder" }}
"""


def test_the_sources_of_a_pylock(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, "pylock.toml", SOURCES)
    found = {item.name: item for item in lock.select(LINUX, ALL)}
    assert {name: item.origin for name, item in found.items()} == {
        "far": FromWhere.INDEX,
        "near": FromWhere.DIRECT,
        "built": FromWhere.DIRECT,
        "cloned": FromWhere.SOURCE_TREE,
        "folder": FromWhere.SOURCE_TREE,
    }
    far, near, built = found["far"], found["near"], found["built"]
    assert far.files == (LockedFile(name="far-1.0-py3-none-any.whl", path=str(tmp_path / "dist/1"), sha256=A, size=7),)
    assert far.sources == (LockedFile(name="far-1.0.tar.gz", url="https://files.example/far", sha256=B),)
    assert (far.index, far.requires, near.requires) == ("https://index.example/simple", ("near",), None)
    place = "/srv/near-1.0+cpu-py3-none-any.whl"
    assert (near.files, near.sources) == ((LockedFile(name=place[5:], path=place, sha256=C),), ())
    assert [file.name for file in built.sources] == ["built-1.0.tar.gz"]
    assert (built.files, found["cloned"].version, found["folder"].version) == ((), None, None)
    assert [item.name for item in lock.select(System.of((3, 11), "win_amd64"), ALL)] == [
        "built",
        "cloned",
        "folder",
        "near",
    ]


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("", {}),
        ('git = "https://git.example/vision"', {"origin": FromWhere.SOURCE_TREE}),
        ('path = "./vision"', {"origin": FromWhere.SOURCE_TREE}),
        ('url = "https://other.example/vision-1.0-py3-none-any.whl"', {"origin": FromWhere.DIRECT}),
    ],
)
def test_the_sources_of_pdm(line: str, changes: Mapping[str, object], tmp_path: Path) -> None:
    lock = lock_of(
        tmp_path, "pdm.lock", PDM.replace('requires_python = ">=3.9"', f'requires_python = ">=3.9"\n{line}', 1)
    )
    vision = {item.name: item for item in lock.select(LINUX, ALL)}["vision"]
    assert vision.origin is changes.get("origin", FromWhere.INDEX)
    host = "other" if "other.example" in line else "files"
    assert [file.url for file in vision.files] == [f"https://{host}.example/vision-1.0-py3-none-any.whl"]
    assert (set(vision.hashes), vision.requires, len(vision.sources)) == ({A}, ("torch",), 0)
    assert (lock.tool, lock.extras, lock.defaults) == ("pdm", ("dev", "train"), ("dev",))


def test_the_files_of_pdm(tmp_path: Path) -> None:
    """Addresses are there with ``static_urls`` alone; where there is no wheel, there may be source code."""
    metrics = 'files = [{{file = "{}", hash = "sha256:' + B
    for file, sources in (("metrics-2.0-py3-none-any.whl", []), ("metrics-2.0.tar.gz", ["metrics-2.0.tar.gz"])):
        text = PDM.replace(metrics.format("metrics-2.0-py3-none-any.whl"), metrics.format(file))
        lock = lock_of(tmp_path, "pdm.lock", text)
        found = {item.name: item for item in lock.select(LINUX, ProjectPart(extras=("train",)))}["metrics"]
        assert (len(found.files), [one.name for one in found.sources], set(found.hashes)) == (0, sources, {B})
    (tmp_path / "pyproject.toml").write_text("[tool.pdm.dev-dependencies]\ntrain = []\n")
    assert lock_of(tmp_path, "pdm.lock", PDM).defaults == ("dev", "train")
    for python, there in (('"*"', True), ('">=3.13"', False), ('"<3.13"', True)):
        text = PDM.replace('requires_python = ">=3.9"', f"requires_python = {python}")
        assert ("vision==1.0" in names(lock_of(tmp_path, "pdm.lock", text))) is there


def test_platforms_and_pythons_of_conda(tmp_path: Path) -> None:
    for subfolder, system in (("win-64", WINDOWS), ("osx-arm64", MAC), ("linux-aarch64", ARM)):
        lock = lock_of(tmp_path, "explicit.txt", EXPLICIT.replace("linux-64/", f"{subfolder}/"))
        assert [other for other in (LINUX, WINDOWS, MAC, ARM) if lock.admits(other)] == [system]
        lock = lock_of(tmp_path, "pixi.lock", PIXI.replace("linux-64", subfolder))
        assert [other for other in (LINUX, WINDOWS, MAC, ARM) if lock.admits(other)] == [system]
    for text in (
        EXPLICIT.replace("linux-64/", "noarch/"),
        EXPLICIT.replace("@EXPLICIT\n", "@EXPLICIT\n\n# a comment\n"),
    ):
        assert names(lock_of(tmp_path, "explicit.txt", text)) == ["python==3.12.4", "pytorch==2.9.1"]
    two = PIXI.replace("python-3.12.4-h194c7f8_0", "python-3.11.2-h194c7f8_0", 1)
    with pytest.raises(
        InputError, match=r"has no entry for https://channel\.example/conda-forge/linux-64/python-3\.11"
    ):
        lock_of(tmp_path, "pixi.lock", two)
    for damage in (("packages:\n-", "others:\n-"), ("environments:", "other:")):
        with pytest.raises(InputError, match="has no packages or no environments: it is truncated or edited"):
            lock_of(tmp_path, "pixi.lock", PIXI.replace(*damage))
    with pytest.raises(InputError, match="is not a lock: it has no table"):
        lock_of(tmp_path, "pixi.lock", "[1]")


def test_a_copy_is_told_by_what_only_one_tool_writes(tmp_path: Path) -> None:
    for text, tool in ((UV, "uv"), (PYLOCK, "pip"), (PIXI, "pixi"), (PDM, "pdm")):
        assert lock_of(tmp_path, "copy.lock", text).tool == tool
    assert lock_of(tmp_path, "copy.txt", EXPLICIT).tool == "conda"
    with pytest.raises(InputError, match=r"absent\.lock: does not exist"):
        read_lock(tmp_path / "absent.lock")
    with pytest.raises(InputError, match="is not a lock file of a known kind"):
        lock_of(tmp_path, "copy.lock", "metadata = 3\n")


def test_the_index_that_a_file_of_requirements_names(tmp_path: Path) -> None:
    for line in ("-i https://i.example/s", "--index-url=https://i.example/s", "--index-url https://i.example/s"):
        (tmp_path / "more.txt").write_text("b==2\n--index-url https://other.example/\nc==3\n")
        for include in ("-r more.txt", "-rmore.txt", "--requirement=more.txt", "--requirement more.txt"):
            lock = lock_of(tmp_path, "requirements.txt", f"a==1\n{line}\n{include}\nd===4 ; python_version > '3'\n")
            indexes = {item.name: item.index for item in lock.select(LINUX, ALL)}
            asked = "https://i.example/s"
            assert indexes == {"a": None, "b": asked, "c": "https://other.example/", "d": asked}
