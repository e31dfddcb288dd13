"""Which files a lock names, and where they are: on a server, next to the lock, or nowhere yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.index.system import System
from abiscan.locks.model import FromWhere, LockedPackage, ProjectPart
from abiscan.locks.reading import read_lock
from tests.unit.locks.test_reading import EXPLICIT, LINUX, PIXI, PYLOCK, A, B, C, lock_of, names

ALL = ProjectPart()


def packages(folder: Path, name: str, text: str, system: System = LINUX) -> dict[str, LockedPackage]:
    return {item.name: item for item in lock_of(folder, name, text).select(system, ALL)}


# The kinds of source of uv 0.13: an index, a folder of wheels (``--find-links``), files, folders and repositories.
UV = f"""
version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "project"
version = "0.1.0"
source = {{ virtual = "." }}
dependencies = [
    {{ name = "near" }}, {{ name = "far" }}, {{ name = "listed" }}, {{ name = "folder" }}, {{ name = "cloned" }},
    {{ name = "built", extra = ["more"] }},
]

[[package]]
name = "near"
version = "1.0"
source = {{ path = "dist/near-1.0-py3-none-any.whl" }}

[[package]]
name = "far"
version = "1.0"
source = {{ url = "https://files.example/far-1.0%2Bcpu-py3-none-any.whl" }}
wheels = [{{ url = "https://files.example/far-1.0%2Bcpu-py3-none-any.whl", hash = "sha256:{A}" }}]

[[package]]
name = "listed"
version = "1.0"
source = {{ registry = "../wheels" }}
wheels = [{{ path = "listed-1.0-py3-none-any.whl", size = 7 }}, {{ url = "file:///srv/listed-1.0-cp39-abi3-any.whl" }}]

[[package]]
name = "folder"
version = "1.0"
source = {{ directory = "folder" }}

[[package]]
name = "cloned"
version = "1.0"
source = {{ git = "https://git.example/cloned?rev=1" }}

[[package]]
name = "built"
version = "1.0"
source = {{ registry = "https://index.example/simple" }}
sdist = {{ url = "https://files.example/built-1.0.tar.gz", hash = "sha256:{B}" }}
[package.optional-dependencies]
more = [{{ name = "extra" }}]
less = [{{ name = "absent" }}]

[[package]]
name = "extra"
version = "1.0"
source = {{ registry = "https://index.example/simple" }}
wheels = [{{ filename = "extra-1.0-py3-none-any.whl", hash = "md5:0" }}]
"""


def test_the_sources_of_uv(tmp_path: Path) -> None:
    locked = packages(tmp_path, "uv.lock", UV)
    assert {name: item.origin for name, item in locked.items()} == {
        "near": FromWhere.DIRECT,
        "far": FromWhere.DIRECT,
        "listed": FromWhere.INDEX,
        "folder": FromWhere.SOURCE_TREE,
        "cloned": FromWhere.SOURCE_TREE,
        "built": FromWhere.INDEX,
        "extra": FromWhere.INDEX,
    }
    assert {name: item.index for name, item in locked.items() if item.index} == dict.fromkeys(
        ("built", "extra"), "https://index.example/simple"
    )
    places = {name: [(file.url, file.path and Path(file.path)) for file in item.files] for name, item in locked.items()}
    assert places == {
        "near": [(None, tmp_path / "dist/near-1.0-py3-none-any.whl")],
        "far": [("https://files.example/far-1.0%2Bcpu-py3-none-any.whl", None)],
        "listed": [
            (None, tmp_path / "../wheels/listed-1.0-py3-none-any.whl"),
            (None, Path("/srv/listed-1.0-cp39-abi3-any.whl")),
        ],
        "extra": [(None, tmp_path / "extra-1.0-py3-none-any.whl")],
        **{name: [] for name in ("folder", "cloned", "built")},
    }
    far, listed, extra = locked["far"].files[0], locked["listed"].files[0], locked["extra"].files[0]
    assert (far.name, far.sha256, far.size) == ("far-1.0+cpu-py3-none-any.whl", A, None)
    assert (listed.name, listed.sha256, listed.size) == ("listed-1.0-py3-none-any.whl", None, 7)
    assert extra.sha256 is None  # a hash of another kind
    assert [(file.name, file.sha256) for file in locked["built"].sources] == [("built-1.0.tar.gz", B)]
    assert (locked["built"].requires, locked["far"].requires) == (("extra",), ())
    assert lock_of(tmp_path, "uv.lock", UV).registries == ("https://index.example/simple", "../wheels")


# As uv writes it for a script, and for a workspace that is no project.
MANIFEST = """
version = 1
revision = 3
requires-python = ">=3.11"
[manifest]
requirements = [{ name = "numpy" }]
[manifest.dependency-groups]
dev = [{ name = "pytest" }]
docs = [{ name = "sphinx" }]
"""
ENTRY = '[[package]]\nname = "{}"\nversion = "{}"\nsource = {{ registry = "https://index.example/simple" }}\n'
FORKS = "resolution-markers = [\"python_full_version {} '3.12'\"]\n"


def test_what_a_script_requires(tmp_path: Path) -> None:
    text = MANIFEST + "".join(ENTRY.format(name, "1.0") for name in ("pytest", "sphinx"))
    text += ENTRY.format("numpy", "1.0") + FORKS.format("<") + ENTRY.format("numpy", "2.0") + FORKS.format(">=")
    lock = lock_of(tmp_path, "uv.lock", text)
    assert lock.groups == ("dev", "docs")
    assert names(lock) == ["numpy==2.0", "pytest==1.0"]
    assert names(lock, System.of((3, 11), "manylinux_2_28_x86_64"), dev=False) == ["numpy==1.0"]
    assert names(lock, groups=("docs",), dev=False) == ["numpy==2.0", "sphinx==1.0"]
    for setting, chosen in (('"all"', ["pytest==1.0", "sphinx==1.0"]), ("[]", []), ('["docs"]', ["sphinx==1.0"])):
        (tmp_path / "pyproject.toml").write_text(f"[tool.uv]\ndefault-groups = {setting}\n")
        assert names(read_lock(lock.path)) == ["numpy==2.0", *chosen]


@pytest.mark.parametrize(
    ("line", "version", "origin", "file", "place"),
    [
        ("vision===1.0 # why", "1.0", FromWhere.INDEX, None, None),
        ("vision[extra]==1.0 --hash=md5:0", "1.0", FromWhere.INDEX, None, None),
        ("./dist/vision-1.0-py3-none-any.whl", "1.0", FromWhere.DIRECT, "vision-1.0-py3-none-any.whl", "dist"),
        (
            "vision @ file:///srv/vision-1.0%2Bcpu-py3-none-any.whl",
            *("1.0+cpu", FromWhere.DIRECT, "vision-1.0+cpu-py3-none-any.whl", "/srv"),
        ),
        ("vision @ https://files.example/vision-1.0.tar.gz", None, FromWhere.SOURCE_TREE, None, None),
        ("vision @ git+https://git.example/vision@main", None, FromWhere.SOURCE_TREE, None, None),
    ],
)
def test_lines_of_requirements(
    tmp_path: Path, line: str, version: str | None, origin: FromWhere, file: str | None, place: str | None
) -> None:
    vision = packages(tmp_path, "requirements.txt", f"torch==2.9.1\n# none\n{line}\n-e .\n--pre\n")["vision"]
    assert (vision.version, vision.origin, [item.name for item in vision.files]) == (
        version,
        origin,
        [file] * bool(file),
    )
    if place:
        assert vision.files[0].path == str(tmp_path / place / vision.files[0].name)


@pytest.mark.parametrize("line", ["vision", "vision>=1.0", "vision==1.*", "vision==1.0,==1.1", "vision @", "x.whl"])
def test_what_is_not_pinned(tmp_path: Path, line: str) -> None:
    with pytest.raises(
        InputError, match=r"requirements\.txt:2: (is not pinned|is not a requirement by name|names no wheel): "
    ):
        lock_of(tmp_path, "requirements.txt", f"torch==2.9.1\n{line}\n")


def test_a_file_of_requirements_is_complete_if_all_have_hashes(tmp_path: Path) -> None:
    pinned = f"torch==2.9.1 --hash=sha256:{A}\n"
    for text, is_complete in ((pinned, True), (f"{pinned}vision==1.0\n", False)):
        lock = lock_of(tmp_path, "requirements.txt", text)
        assert lock.is_complete is is_complete
    with pytest.raises(InputError, match="includes itself"):
        lock_of(tmp_path, "requirements.txt", "torch==1\n-r requirements.txt\n")


def test_environments_that_a_lock_is_not_for(tmp_path: Path) -> None:
    """``environments`` of PEP 751, and the platforms and the Python of a pixi.lock."""
    lock = lock_of(
        tmp_path, "pylock.toml", PYLOCK.replace("extras =", "environments = [\"os_name == 'nt'\"]\nextras =")
    )
    windows, older = System.of((3, 12), "win_amd64"), System.of((3, 11), "manylinux_2_28_x86_64")
    assert (lock.admits(windows), lock.admits(LINUX), lock.admits(System.of((3, 10), "win_amd64"))) == (
        *(True, False, False),
    )
    lock = lock_of(tmp_path, "pixi.lock", PIXI)
    assert (lock.admits(LINUX), lock.admits(windows), lock.admits(older)) == (True, False, False)
    assert names(lock_of(tmp_path, "pixi.lock", PIXI.replace("default:", "train:", 1)), groups=("train",)) == [
        *("python==3.12.4", "pytorch==2.9.1", "vision==1.0"),
    ]


def test_conda_packages_of_this_machine_and_their_hashes(tmp_path: Path) -> None:
    local = "file:///srv/noarch/tool-1.0-py_0.conda"
    text = EXPLICIT.replace("https://channel.example/conda-forge/linux-64/python-3.12.4-h194c7f8_0.conda", local)
    locked = packages(tmp_path, "explicit.txt", text.replace(f"sha256:{B}", "d41d8cd98f00b204e9800998ecf8427e"))
    assert {name: (item.files[0].url, item.files[0].path) for name, item in locked.items()} == {
        "tool": (None, "/srv/noarch/tool-1.0-py_0.conda"),
        "pytorch": ("https://channel.example/conda-forge/linux-64/pytorch-2.9.1-cpu_py312_0.conda", None),
    }
    assert {item.files[0].sha256 for item in locked.values()} == {None}  # conda's own are MD5
    assert {item.origin for item in locked.values()} == {FromWhere.CONDA}


def test_packages_of_an_index_beside_those_of_conda(tmp_path: Path) -> None:
    wheel, archive = "./dist/vision-1.0-py3-none-any.whl", "https://files.example/vision-1.0.tar.gz"
    address = "https://files.example/vision-1.0-py3-none-any.whl"
    locked = packages(tmp_path, "pixi.lock", PIXI)
    assert (locked["vision"].requires, locked["vision"].files[0].sha256) == (("torch",), C)
    assert locked["pytorch"].requires == ("python", "libtorch")
    local = packages(tmp_path, "pixi.lock", PIXI.replace(address, wheel))["vision"].files[0]
    assert (local.url, local.path) == (None, str(tmp_path / "dist/vision-1.0-py3-none-any.whl"))
    source = packages(tmp_path, "pixi.lock", PIXI.replace(address, archive))["vision"]
    assert (source.origin, source.version, source.files, source.requires) == (
        *(FromWhere.SOURCE_TREE, "1.0", (), ("torch",)),
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "does not exist"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"\xef\xbb\xbfversion = 1\nrequires-python = '>=3.11'\n", None),  # Notepad writes such a mark
    ],
)
def test_the_text_of_a_lock(tmp_path: Path, content: bytes | None, problem: str | None) -> None:
    path = tmp_path / "uv.lock"
    if content is not None:
        path.write_bytes(content)
    if problem is None:
        assert read_lock(path).select(LINUX, ALL) == ()
    else:
        with pytest.raises(InputError, match=problem):
            read_lock(path)
