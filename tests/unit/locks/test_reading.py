"""What locks say, each in the form that its tool writes: which packages, which files, for which environments."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.index.system import System
from abiscan.inputs.kinds import is_lock_name
from abiscan.locks.model import FromWhere, Lock, ProjectPart
from abiscan.locks.platform_names import platform_tag_of, python_of
from abiscan.locks.reading import read_lock

LINUX = System.of((3, 12), "manylinux_2_28_x86_64")
A, B, C = "a" * 64, "b" * 64, "c" * 64

# As uv 0.13 writes it for a project whose extras exclude each other, abridged.
UV = f"""
version = 1
revision = 3
requires-python = ">=3.11"
resolution-markers = ["sys_platform == 'linux'", "sys_platform != 'linux'"]
conflicts = [[{{ package = "project", extra = "cpu" }}, {{ package = "project", extra = "cu130" }}]]

[[package]]
name = "project"
version = "0.1.0"
source = {{ editable = "." }}
dependencies = [
    {{ name = "vision" }},
    {{ name = "colorama", marker = "sys_platform == 'win32'" }},
]
[package.optional-dependencies]
cpu = [{{ name = "torch", version = "2.9.1+cpu", source = {{ registry = "https://cpu.example/simple" }} }}]
cu130 = [{{ name = "torch", version = "2.9.1", source = {{ registry = "https://index.example/simple" }} }}]
[package.dev-dependencies]
dev = [{{ name = "pytest" }}]
lint = [{{ name = "ruff" }}]

[[package]]
name = "vision"
version = "1.0"
source = {{ registry = "https://index.example/simple" }}
dependencies = [
    {{ name = "torch", version = "2.9.1+cpu", marker = "extra == 'extra-7-project-cpu'" }},
    {{ name = "torch", version = "2.9.1", marker = "extra != 'extra-7-project-cpu'" }},
]
wheels = [
    {{ url = "https://files.example/vision-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", hash = "sha256:{A}", size = 1 }},
    {{ url = "https://files.example/vision-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", hash = "sha256:{B}", size = 2 }},
    {{ url = "https://files.example/vision-1.0-cp312-cp312-win_amd64.whl", hash = "sha256:{C}", size = 3 }},
]

[[package]]
name = "torch"
version = "2.9.1+cpu"
source = {{ registry = "https://cpu.example/simple" }}
wheels = [{{ url = "https://cpu.example/torch-2.9.1%2Bcpu-cp312-cp312-linux_x86_64.whl", hash = "sha256:{A}" }}]

[[package]]
name = "torch"
version = "2.9.1"
source = {{ registry = "https://index.example/simple" }}

[[package]]
name = "colorama"
version = "0.4.6"
source = {{ registry = "https://index.example/simple" }}

[[package]]
name = "pytest"
version = "9.0"
source = {{ registry = "https://index.example/simple" }}

[[package]]
name = "ruff"
version = "1.0"
source = {{ registry = "https://index.example/simple" }}
"""
PYLOCK = f"""
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.11"
extras = ["train"]
default-groups = ["dev"]
dependency-groups = ["dev"]

[[packages]]
name = "vision"
version = "1.0"
wheels = [{{ url = "https://files.example/vision-1.0-py3-none-any.whl", hashes = {{ sha256 = "{A}" }} }}]

[[packages]]
name = "metrics"
version = "2.0"
marker = "'train' in extras"
wheels = [{{ url = "https://files.example/metrics-2.0-py3-none-any.whl", hashes = {{ sha256 = "{B}" }} }}]

[[packages]]
name = "pytest"
version = "9.0"
marker = "'dev' in dependency_groups and sys_platform == 'linux'"
wheels = [{{ url = "https://files.example/pytest-9.0-py3-none-any.whl", hashes = {{ sha256 = "{C}" }} }}]
"""
POETRY = f"""
[[package]]
name = "vision"
version = "1.0"
optional = false
python-versions = ">=3.9"
groups = ["main"]
files = [{{file = "vision-1.0-py3-none-any.whl", hash = "sha256:{A}"}}]
[package.dependencies]
torch = "2.9.1"

[[package]]
name = "metrics"
version = "2.0"
optional = true
python-versions = ">=3.9"
groups = ["main"]
markers = "extra == \\"train\\""
files = [{{file = "metrics-2.0-py3-none-any.whl", hash = "sha256:{B}"}}]

[[package]]
name = "pytest"
version = "9.0"
optional = false
python-versions = ">=3.9"
groups = ["dev"]
markers = {{dev = "sys_platform == \\"linux\\""}}
files = [{{file = "pytest-9.0-py3-none-any.whl", hash = "sha256:{C}"}}]

[extras]
train = ["metrics"]

[metadata]
lock-version = "2.1"
python-versions = ">=3.11,<4.0"
content-hash = "{A}"
"""
PDM = f"""
[metadata]
groups = ["default", "dev", "train"]
strategy = ["inherit_metadata"]
lock_version = "4.5.0"

[[package]]
name = "vision"
version = "1.0"
requires_python = ">=3.9"
groups = ["default"]
dependencies = ["torch==2.9.1"]
files = [{{url = "https://files.example/vision-1.0-py3-none-any.whl", hash = "sha256:{A}"}}]

[[package]]
name = "metrics"
version = "2.0"
groups = ["train"]
files = [{{file = "metrics-2.0-py3-none-any.whl", hash = "sha256:{B}"}}]

[[package]]
name = "pytest"
version = "9.0"
groups = ["dev"]
marker = "sys_platform == \\"linux\\""
files = [{{file = "pytest-9.0-py3-none-any.whl", hash = "sha256:{C}"}}]
"""
PIXI = f"""
version: 6
environments:
  default:
    channels: [{{url: https://channel.example/conda-forge/}}]
    packages:
      linux-64:
      - conda: https://channel.example/conda-forge/linux-64/python-3.12.4-h194c7f8_0.conda
      - conda: https://channel.example/conda-forge/linux-64/pytorch-2.9.1-cpu_py312_0.conda
      - pypi: https://files.example/vision-1.0-py3-none-any.whl
packages:
- conda: https://channel.example/conda-forge/linux-64/python-3.12.4-h194c7f8_0.conda
  sha256: {A}
- conda: https://channel.example/conda-forge/linux-64/pytorch-2.9.1-cpu_py312_0.conda
  sha256: {B}
  depends: [python >=3.12, libtorch 2.9.1]
- pypi: https://files.example/vision-1.0-py3-none-any.whl
  name: vision
  version: '1.0'
  sha256: {C}
  requires_dist: [torch==2.9.1, "pytest; extra == 'test'"]
"""
EXPLICIT = f"""# platform: linux-64
@EXPLICIT
https://channel.example/conda-forge/linux-64/python-3.12.4-h194c7f8_0.conda
https://channel.example/conda-forge/linux-64/pytorch-2.9.1-cpu_py312_0.conda#sha256:{B}
"""
PINNED = f"""# written by uv
--index-url https://index.example/simple
torch==2.9.1 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
colorama==0.4.6 ; sys_platform == 'win32'
vision @ https://files.example/vision-1.0-py3-none-any.whl#sha256={C}
-e .
"""


def lock_of(folder: Path, name: str, text: str) -> Lock:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_lock(path)


def names(lock: Lock, system: System = LINUX, **selection: object) -> list[str]:
    return [str(item) for item in lock.select(system, ProjectPart(**selection))]  # type: ignore[arg-type]


def test_the_graph_of_uv(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, "uv.lock", UV)
    assert names(lock) == ["pytest==9.0", "torch==2.9.1", "vision==1.0"]
    assert names(lock, extras=("cpu",), dev=False) == ["torch==2.9.1+cpu", "vision==1.0"]
    assert names(lock, groups=("lint",), dev=False) == ["ruff==1.0", "torch==2.9.1", "vision==1.0"]
    assert "colorama==0.4.6" in names(lock, System.of((3, 12), "win_amd64"))
    (vision,) = (item for item in lock.select(LINUX, ProjectPart()) if item.name == "vision")
    file = vision.choose_file(LINUX)
    assert file is not None
    assert (file.sha256, file.size) == (B, 2)
    assert vision.choose_file(System.of((3, 13), "manylinux_2_28_x86_64")) is None
    assert vision.requires == ("torch",)
    assert lock.admits(LINUX)
    assert not lock.admits(System.of((3, 10), "win_amd64"))


# As uv 0.13 writes it for a workspace whose root requires a member, and that a folder beside it: [tool.uv.sources].
WORKSPACE = """
version = 1
revision = 3
requires-python = ">=3.11"
[manifest]
members = ["member", "root"]
[[package]]
name = "root"
version = "0.1.0"
source = { virtual = "." }
dependencies = [{ name = "member" }]
[[package]]
name = "member"
version = "0.1.0"
source = { editable = "packages/member" }
dependencies = [{ name = "beside" }]
[[package]]
name = "beside"
version = "0.1.0"
source = { directory = "../beside" }
"""


def test_members_of_a_workspace_and_folders_beside_it(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, "uv.lock", WORKSPACE)
    origins = {item.name: item.origin for item in lock.select(LINUX, ProjectPart())}
    assert origins == {"beside": FromWhere.SOURCE_TREE}  # the members are the project itself


def test_the_index_of_poetry_is_that_of_the_source(tmp_path: Path) -> None:
    """``poetry source add``: the type of its packages is legacy; PyPI is not written."""
    source = '[package.source]\ntype = "legacy"\nurl = "https://index.example/simple/"\nreference = "own"\n'
    first = POETRY.index("[[package]]", POETRY.index("[[package]]") + 1)
    own, other = lock_of(tmp_path, "poetry.lock", f"{POETRY[:first]}{source}{POETRY[first:]}").select(
        LINUX, ProjectPart()
    )
    assert {own.index, other.index} == {"https://index.example/simple", None}


@pytest.mark.parametrize(
    ("name", "text", "project", "expected"),
    [
        ("uv.lock", UV, '[tool.uv]\ndefault-groups = ["lint"]\n', ["ruff==1.0", "torch==2.9.1", "vision==1.0"]),
        # poetry install leaves out what is optional; pdm install everything that is no extra.
        ("poetry.lock", POETRY, "[tool.poetry.group.dev]\noptional = true\n", ["vision==1.0"]),
        ("poetry.lock", POETRY, "[tool.poetry.group.dev]\noptional = false\n", ["pytest==9.0", "vision==1.0"]),
        ("pdm.lock", PDM, '[dependency-groups]\ntrain = ["metrics"]\n', ["metrics==2.0", "pytest==9.0", "vision==1.0"]),
    ],
)
def test_default_groups_are_those_of_the_project(
    tmp_path: Path, name: str, text: str, project: str, expected: list[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(project)
    assert names(lock_of(tmp_path, name, text)) == expected


def test_what_an_extra_alone_requires_is_not_required(tmp_path: Path) -> None:
    """As poetry writes dependencies with one constraint, and with several."""
    optional = '{version = "*", optional = true}'
    several = """torch = [
    {version = "2.9.1", markers = "sys_platform == \\"linux\\""},
    {version = "2.9.0", optional = true, markers = "sys_platform == \\"win32\\""},
]
"""
    more = f"numpy = {optional}\nmetrics = [{optional}, {optional}]\n"
    lock = lock_of(tmp_path, "poetry.lock", POETRY.replace('torch = "2.9.1"\n', f"{several}{more}"))
    vision = next(item for item in lock.select(LINUX, ProjectPart()) if item.name == "vision")
    assert vision.requires == ("torch",)


@pytest.mark.parametrize(("name", "text"), [("pylock.toml", PYLOCK), ("poetry.lock", POETRY), ("pdm.lock", PDM)])
def test_lists_with_groups_and_extras(tmp_path: Path, name: str, text: str) -> None:
    lock = lock_of(tmp_path, name, text)
    assert names(lock) == ["pytest==9.0", "vision==1.0"]
    assert names(lock, dev=False) == ["vision==1.0"]
    assert names(lock, extras=("train",), dev=False) == ["metrics==2.0", "vision==1.0"]
    assert names(lock, System.of((3, 12), "win_amd64")) == ["vision==1.0"]
    # Whatever a copy of it is called.
    assert names(lock_of(tmp_path, "copy.lock", text)) == names(lock)
    with pytest.raises(InputError, match="has no extra other"):
        names(lock, extras=("other",))


def test_markers_of_poetry_that_overlap(tmp_path: Path) -> None:
    """As poetry 2.5 locks nvidia-cublas for torch 2.15: the installer takes what the others require."""
    cublas = '[[package]]\nname = "cublas"\nversion = "{}"\noptional = false\ngroups = ["main"]\nfiles = []\n'
    both = cublas.format("13.4.1.3") + cublas.format("13.10.0.20")
    toolkit = 'cublas = {version = "==13.4.1.3.*", optional = true, markers = "extra == \'c\'"}\n'
    requires = 'torch = "2.9.1"\n'
    text = POETRY.replace(requires, f"{requires}{toolkit}{both}")
    assert "cublas==13.4.1.3" in names(lock_of(tmp_path, "poetry.lock", text))
    with pytest.raises(InputError, match=r"has both cublas==13\.4\.1\.3 and cublas==13\.10\.0\.20"):
        names(lock_of(tmp_path, "poetry.lock", text.replace("13.4.1.3.*", "14.*")))


@pytest.mark.parametrize(
    ("demand", "inside", "outside"),
    [
        # The table of caret requirements in poetry's documentation, "Dependency specification".
        *(("^1.2.3", "1.9", "2.0.0"), ("^1.2", "1.9", "2.0.0"), ("^1", "1.9", "2.0.0"), ("^1.2", "1.2", "1.1.9")),
        *(("^0.2.3", "0.2.9", "0.3.0"), ("^0.0.3", "0.0.3", "0.0.4"), ("^0.0", "0.0.9", "0.1.0"), ("^0", "0.9", "1.0")),
        *((">=1.2,<1.5", "1.4", "1.5"), ("1.5", "1.5", "1.4")),
    ],
)
def test_versions_in_the_words_of_poetry(tmp_path: Path, demand: str, inside: str, outside: str) -> None:
    requires = 'torch = "2.9.1"\n'
    entry = '[[package]]\nname = "metrics"\nversion = "{}"\noptional = false\ngroups = ["main"]\nfiles = []\n'
    text = f'{requires}metrics = "{demand}"\n{entry.format(inside)}{entry.format(outside)}'
    extra = POETRY.index('[[package]]\nname = "metrics"')
    without = POETRY[:extra] + POETRY[POETRY.index("[[package]]", extra + 1) :]
    assert f"metrics=={inside}" in names(lock_of(tmp_path, "poetry.lock", without.replace(requires, text)))


def test_conda_and_what_is_beside_it(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, "pixi.lock", PIXI)
    assert names(lock) == ["python==3.12.4", "pytorch==2.9.1", "vision==1.0"]
    vision = next(item for item in lock.select(LINUX, ProjectPart()) if item.name == "vision")
    assert vision.requires == ("torch",)
    assert lock.admits(LINUX)
    assert not lock.admits(System.of((3, 11), "manylinux_2_28_x86_64"))
    assert not lock.admits(System.of((3, 12), "manylinux_2_28_aarch64"))
    lock = lock_of(tmp_path, "explicit.txt", EXPLICIT)
    assert names(lock) == ["python==3.12.4", "pytorch==2.9.1"]
    (_, torch) = lock.select(LINUX, ProjectPart())
    assert torch.choose_file(LINUX) == torch.files[0]
    assert torch.files[0].sha256 == B


def test_pinned_requirements(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("metrics==2.0\n")
    lock = lock_of(tmp_path, "requirements.txt", f"{PINNED}-r more.txt\n")
    metrics, torch, vision = lock.select(LINUX, ProjectPart())
    assert torch.hashes == {A, B}
    assert (torch.version, torch.index) == ("2.9.1", "https://index.example/simple")
    assert (vision.files[0].url, vision.files[0].sha256) == ("https://files.example/vision-1.0-py3-none-any.whl", C)
    assert metrics.index == "https://index.example/simple"
    with pytest.raises(InputError, match=r"requirements\.txt:1: is not pinned: torch>=2"):
        lock_of(tmp_path, "requirements.txt", "torch>=2\n")


WHEEL = "vision-1.0+cpu-py3-none-any.whl"
URL = "https://files.example/vision-1.0%2Bcpu-py3-none-any.whl"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pylock.toml", PYLOCK.replace("https://files.example/vision-1.0-py3-none-any.whl", URL)),
        (
            "pylock.toml",
            PYLOCK.replace(
                'url = "https://files.example/vision-1.0', f'name = "{WHEEL}", url = "https://files.example/1.0', 1
            ),
        ),
        *(
            (
                # Poetry decodes the name of a file (poetry-core, Link.filename), and keeps the address as it was typed.
                "poetry.lock",
                POETRY.replace("vision-1.0-py3-none-any.whl", WHEEL).replace(
                    "[package.dependencies]",
                    f'[package.source]\ntype = "{kind}"\nurl = "{url}"\n[package.dependencies]',
                ),
            )
            for kind, url in (("url", URL), ("file", f"wheels/{WHEEL}"))
        ),
    ],
)
def test_the_name_of_a_file_that_has_an_address(tmp_path: Path, name: str, text: str) -> None:
    text = text.replace('\nversion = "1.0"\n', '\nversion = "1.0+cpu"\n', 1)
    (vision,) = (item for item in lock_of(tmp_path, name, text).select(LINUX, ProjectPart()) if item.name == "vision")
    place = str(tmp_path / "wheels" / WHEEL) if 'url = "wheels/' in text else None
    assert [(file.name, file.sha256, file.path) for file in vision.files] == [(WHEEL, A, place)]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("uv.lock", UV.replace("version = 1\n", "version = 2\n", 1), "is a lock of version 2"),
        ("uv.lock", UV[: len(UV) // 2], "is not valid TOML, or is truncated"),
        ("uv.lock", UV[: UV.index('[[package]]\nname = "pytest"')], "requires pytest, and has no entry for it"),
        ("uv.lock", "version = 1\n" + '[[package]]\nname = "x"\n' * 20_001, "has 20,001 packages, more than 20,000"),
        ("uv.lock", "version = 1\npackage = 3\n", "has no tables in package"),
        ("uv.lock", UV.replace("sys_platform == 'win32'", "sys_platform ==="), "has a marker that cannot be read"),
        ("uv.lock", UV.replace('version = "1.0"', 'version = "one"'), "has an invalid version"),
        ("uv.lock", UV.replace('name = "vision"', "name = 3"), "has an entry without a name"),
        ("poetry.lock", POETRY.replace('"2.1"', '"1.1"'), r"is a lock of version 1\.1"),
        ("pdm.lock", PDM.replace("4.5.0", "3.1"), r"is a lock of version 3\.1"),
        ("pylock.toml", PYLOCK.replace('"1.0"', '"2.0"', 1), "is not a lock of PEP 751"),
        ("pixi.lock", PIXI.replace("version: 6", "version: 9"), "is a lock of version 9"),
        ("pixi.lock", PIXI[: PIXI.rindex("- pypi")], "has no entry for https://files.example"),
        ("pixi.lock", "a: [1", "is not valid YAML, or is truncated"),
        ("poetry.lock", POETRY.replace(A, "0" * 64), "has a SHA-256 that no file has"),
        ("pylock.toml", PYLOCK.replace(A, "f" * 63), "has a SHA-256 that no file has"),
        ("pdm.lock", PDM.replace('["default", "dev", "train"]', "3"), "is not what its tool writes: TypeError"),
        ("some.lock", "a = 1", "is not a lock file of a known kind"),
        ("some.lock", "\x00\xff", "is not valid TOML, or is truncated"),
        ("explicit.txt", "@EXPLICIT\nhttps://channel.example/x\n", "names no conda package"),
    ],
)
def test_what_is_no_lock(tmp_path: Path, name: str, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        names(lock_of(tmp_path, name, text))


def test_packages_that_require_each_other(tmp_path: Path) -> None:
    text = UV.replace(
        'name = "torch"\nversion = "2.9.1"\n',
        'name = "torch"\nversion = "2.9.1"\ndependencies = [{ name = "vision" }]\n',
    )
    assert "torch==2.9.1" in names(lock_of(tmp_path, "uv.lock", text))


def test_names_of_platforms_and_pythons() -> None:
    assert platform_tag_of("linux") == "manylinux_2_28_x86_64"
    assert platform_tag_of("aarch64-manylinux_2_31") == "manylinux_2_31_aarch64"
    assert python_of("3.12.4") == (3, 12)
    with pytest.raises(InputError, match="is not a known platform"):
        platform_tag_of("beos")
    with pytest.raises(InputError, match="is not a version of Python"):
        python_of("2.7")


def test_which_words_name_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.lock").mkdir()
    monkeypatch.chdir(tmp_path)
    assert is_lock_name("uv.lock")
    assert is_lock_name("a/pylock.dev.toml")
    assert is_lock_name("requirements.txt")
    assert not is_lock_name("folder.lock")
    assert not is_lock_name("--x=uv.lock")
    assert not is_lock_name("a.so")
