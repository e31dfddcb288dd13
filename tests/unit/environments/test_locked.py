"""Locks as environments: what is fetched, what becomes of it, and what an update changes."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from abiscan.environments import locked
from abiscan.environments.lock_comparison import compare_locks, kind_of_change
from abiscan.environments.locked import LockedEnvironment, check_lock, list_systems
from abiscan.errors import AbiscanError, InputError
from abiscan.hooks.lock_fitting import fit_lock
from abiscan.index.client import Settings
from abiscan.index.system import System
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.locks.model import LockedPackage, ProjectPart
from abiscan.locks.reading import read_lock
from abiscan.report.lock_markdown import LARGEST, render_comparison_markdown
from abiscan.results.doctor import DistributionState, Origin
from abiscan.results.lock import LockComparison, LockFit, LockReport, OutcomeChange
from abiscan.results.package import PackageVerdict
from abiscan.verdict.hardware import hardware_of
from tests.elf_builder import uses
from tests.fakes import conda_package, extension, package_wheel, wheel
from tests.index_server import LocalIndex, serving
from tests.schemas import validate
from tests.unit.gpu.samples import FOLDER as SAMPLES

GONE = uses("_ZN2at4goneEv")
LINUX = System.of((3, 12), "manylinux_2_28_x86_64")
ALL = ProjectPart()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalIndex]:
    folder = tmp_path / "files"
    init, import_c = "__init__.py", "from . import _C\n"
    of_torch = {"Requires-Dist": "torch"}
    package_wheel(
        folder,
        "vision",
        {"vision/_C.so": extension(undefined=GONE)},
        files={f"vision/{init}": import_c},
        metadata=of_torch,
    )
    package_wheel(
        folder,
        "vision",
        {"vision/_C.so": extension()},
        files={f"vision/{init}": import_c},
        version="2.0",
        metadata={"Requires-Dist": "torch==2.13.0"},
    )
    package_wheel(
        folder,
        "metrics",
        {},
        files={f"metrics/{init}": "import torch\nimport vision\n"},
        metadata={"Requires-Dist": "vision"},
        tag="py3-none-any",
    )
    # As torchmetrics imports torchvision.
    code = (
        "import importlib.metadata, torch\ntry:\n    importlib.metadata.version('vision')\n"
        "except importlib.metadata.PackageNotFoundError:\n    pass\nelse:\n    import vision\n"
    )
    optional = {"Requires-Dist": "torch\nRequires-Dist: vision; extra == 'image'"}
    package_wheel(folder, "optional", {}, files={f"optional/{init}": code}, metadata=optional, tag="py3-none-any")
    package_wheel(folder, "plain", {}, files={f"plain/{init}": ""}, tag="py3-none-any")
    with serving(folder) as served:
        served.metadata = True
        # Those of this machine's pip take half a second to ask for.
        settings = Settings(index_urls=(served.url,))
        for module in ("environments.lock_store", "hooks.fitting"):
            monkeypatch.setattr(f"abiscan.{module}.settings_of_pip", lambda *_: settings)
        yield served


def uv_lock(folder: Path, index: LocalIndex, *, vision: str = "1.0", torch: str = "2.13.0", sha256: str = "") -> Path:
    """A ``uv.lock`` of a project that requires metrics, which requires vision and torch; and plain."""
    lines = ['version = 1\nrequires-python = ">=3.12,<3.13"\n']
    entries = {
        "project": ("0.1", "editable", ("metrics", "plain")),
        "metrics": ("1.0", "registry", ("vision",)),  # it imports torch without requiring it, as gpytorch does
        "vision": (vision, "registry", ("torch",)),
        "plain": ("1.0", "registry", ()),
        "torch": (torch, "registry", ()),
    }
    for name, (version, source, requires) in entries.items():
        place = "." if source == "editable" else index.url
        edges = ", ".join(f'{{ name = "{item}" }}' for item in requires)
        lines.append(
            f'[[package]]\nname = "{name}"\nversion = "{version}"\n'
            f'source = {{ {source} = "{place}" }}\ndependencies = [{edges}]\n'
        )
        for file in index.folder.glob(f"{name}-{version}-*.whl"):
            digest = sha256 if name == "vision" and sha256 else hashlib.sha256(file.read_bytes()).hexdigest()
            address = f"{index.url.removesuffix('/simple')}/files/{file.name}"
            lines.append(
                f'wheels = [{{ url = "{address}", hash = "sha256:{digest}", size = {file.stat().st_size} }}]\n'
            )
    folder.mkdir(exist_ok=True)
    path = folder / "uv.lock"
    path.write_text("\n".join(lines))
    return path


def check(path: Path, tmp_path: Path, *gpus: str) -> LockReport:
    session = Session(folder=tmp_path / "cache")
    report = check_lock(read_lock(path), [LINUX], ALL, session, hardware_of(gpus, None) if gpus else None)
    validate(json.loads(report.to_json()), "check-lock")
    return report


def compare(old: Path, new: Path, tmp_path: Path) -> LockComparison:
    session = Session(folder=tmp_path / "cache")
    comparison = compare_locks(read_lock(old), read_lock(new), [LINUX], ALL, session)
    validate(json.loads(comparison.to_json()), "diff-lock")
    return comparison


def test_what_uses_torch_is_examined_and_nothing_else_is_fetched(index: LocalIndex, tmp_path: Path) -> None:
    report = check(uv_lock(tmp_path / "project", index), tmp_path)
    (state,) = report.environments
    assert (state.python, state.platform, state.judged_as) == ("3.12", "linux_x86_64", "2.13.0+cpu")
    rows = {item.name: (item.verdict, item.cause) for item in state.distributions}
    assert rows == {"metrics": (PackageVerdict.IMPORT_FAILS, "vision"), "vision": (PackageVerdict.IMPORT_FAILS, None)}
    assert report.exit_code == 1
    assert {name.partition("-")[0] for name in index.wheels_asked()} == {"metrics", "vision"}
    # What was fetched is kept, and what was found out.
    index.asked.clear()
    assert check(tmp_path / "project" / "uv.lock", tmp_path) == report
    assert not index.wheels_asked()


def test_requirements_that_the_lock_does_not_meet(index: LocalIndex, tmp_path: Path) -> None:
    (state,) = check(uv_lock(tmp_path / "project", index, vision="2.0", torch="2.9.1"), tmp_path).environments
    assert [item.verdict for item in state.distributions] == [PackageVerdict.WORKS, PackageVerdict.WORKS]
    (vision,) = (item for item in state.distributions if item.name == "vision")
    # The words of pip check.
    assert vision.unmet == ("vision 2.0 has requirement torch==2.13.0, but you have torch 2.9.1.",)


def test_a_file_that_is_not_what_the_lock_names_is_refused(index: LocalIndex, tmp_path: Path) -> None:
    (large,) = index.folder.glob("vision-1.0-*.whl")
    with zipfile.ZipFile(large, "a") as archive:  # too large to be read as a whole for its members
        archive.writestr("vision/weights", bytes(4 << 20))
    path = uv_lock(tmp_path / "project", index, sha256="1" * 64)
    with pytest.raises(InputError, match=r"vision-1.0-.*is not the file that .* describes: its hash differs"):
        check(path, tmp_path)
    path.write_text(path.read_text().replace("size = ", "size = 1"))
    with pytest.raises(AbiscanError, match=r"bytes on the server, and .* in the lock"):
        check(path, tmp_path)


@pytest.mark.parametrize("fault", ["short", "encoded"])
def test_a_server_that_fails(index: LocalIndex, tmp_path: Path, fault: str) -> None:
    index.fault = fault
    with pytest.raises(AbiscanError, match=r"the server|broke off"):
        check(uv_lock(tmp_path / "project", index), tmp_path)


def test_modules_and_gpus_are_those_of_an_installed_environment(index: LocalIndex, tmp_path: Path) -> None:
    wheel(
        index.folder / "mixed-1.0-py3-none-manylinux_2_28_x86_64.whl",
        {
            "mixed/__init__.py": b"import torch\n",
            "beside/__init__.py": b"import torch\ntorch.gone\n",
            "mixed/_C.so": (SAMPLES / "mixed.so").read_bytes(),
            "mixed-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: mixed\nVersion: 1.0\nRequires-Dist: torch\n",
        },
    )
    path = tmp_path / "requirements.txt"
    path.write_text("torch==2.7.0+cu126\nmixed==1.0\n")
    (state,) = check(path, tmp_path, "RTX 5090").environments
    (mixed,) = state.distributions
    assert [(module.name, module.verdict) for module in mixed.modules] == [
        ("mixed", PackageVerdict.WORKS),
        ("beside", PackageVerdict.IMPORT_FAILS),
    ]
    # torch.cuda.get_arch_list() of that build ends with sm_90.
    assert [finding.message.partition(" (sm_120)")[0] for finding in state.hardware] == [
        "torch 2.7.0+cu126 itself has no code for RTX 5090",
        "mixed==1.0: _C.so on RTX 5090",
    ]
    assert state.exit_code == 1


def test_pins_are_looked_up_on_the_index(index: LocalIndex, tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("torch==2.13.0\nvision==2.0\n")
    (state,) = check(path, tmp_path).environments
    assert [(item.name, item.verdict) for item in state.distributions] == [("vision", PackageVerdict.WORKS)]
    # Nobody says that the file is all that is installed: of torch, pip gets the build with CUDA.
    assert (state.torch.unmet, state.judged_as) == ((), "2.13.0+cu130")
    path.write_text("torch==2.13.0\nvision==1.0\noptional==1.0\n")
    (state,) = check(path, tmp_path).environments
    assert [(item.name, item.cause) for item in state.distributions] == [("optional", "vision"), ("vision", None)]
    # Of what has the hash in the lock, there is only one: it is not asked for again.
    (file,) = index.folder.glob("vision-2.0-*.whl")
    path.write_text(f"vision==2.0 --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n")
    report = check(path, tmp_path)
    index.asked.clear()
    assert (check(path, tmp_path), index.asked) == (report, [])
    path.write_text(f"torch==2.13.0\nvision==2.0 --hash=sha256:{'1' * 64}\n")
    with pytest.raises(InputError, match=r"the index has another vision-2.0-.* than the lock"):
        check(path, tmp_path)


def test_conda_packages_are_read_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "linux-64"
    folder.mkdir()
    site = "lib/python3.12/site-packages/torchvision"
    members = {f"{site}/__init__.py": b"from . import _C\n", f"{site}/_C.so": extension(undefined=GONE).build()}
    conda_package(folder / "torchvision-0.28.0-py312_0.conda", members)
    lines = [
        f"file://{folder}/{name}" for name in ("torchvision-0.28.0-py312_0.conda", "pytorch-2.13.0-cpu_py312_0.conda")
    ]
    path = tmp_path / "explicit.txt"
    path.write_text("\n".join(["@EXPLICIT", *lines]))
    (state,) = check(path, tmp_path).environments
    assert (state.judged_as, state.torch.version) == ("2.13.0+cpu", "2.13.0")
    assert [(item.name, item.verdict) for item in state.distributions] == [("torchvision", PackageVerdict.IMPORT_FAILS)]


def test_what_is_not_known_of_an_environment(index: LocalIndex, tmp_path: Path) -> None:
    newer = check(uv_lock(tmp_path / "project", index, torch="9.9.1"), tmp_path)
    assert newer.exit_code == 3
    assert {item.error for item in newer.environments[0].distributions} == {"torch 9.9.1 is not known to this abiscan"}
    # A change is shown, what was unknown before is not.
    known, unknown = tmp_path / "known", tmp_path / "project" / "uv.lock"
    change = compare(uv_lock(known, index, vision="2.0"), unknown, tmp_path)
    assert [(item.name, item.before, item.after) for item in change.unknown] == [
        ("metrics", PackageVerdict.WORKS, PackageVerdict.UNKNOWN),
        ("vision", PackageVerdict.WORKS, PackageVerdict.UNKNOWN),
    ]
    assert compare(unknown, unknown, tmp_path).unknown == ()
    assert fit(unknown, tmp_path).unknown == (
        "metrics 1.0: torch 9.9.1 is not known to this abiscan",
        "vision 1.0: torch 9.9.1 is not known to this abiscan",
    )
    path = tmp_path / "requirements.txt"
    path.write_text("plain==1.0\n")
    assert check(path, tmp_path).exit_code == 0
    path.write_text("vision==2.0\n")
    assert check(path, tmp_path).exit_code == 3  # its torch is not in the file


def test_what_an_update_makes_worse_and_better(index: LocalIndex, tmp_path: Path) -> None:
    old = uv_lock(tmp_path / "old", index, vision="2.0", torch="2.9.1")
    new = uv_lock(tmp_path / "new", index, vision="1.0")
    worse = compare(old, new, tmp_path)
    assert [(item.name, item.cause) for item in worse.worse] == [("vision", None), ("metrics", "vision")]
    assert all(item.error for item in worse.worse)
    assert list(map(str, worse.changes)) == ["torch 2.9.1 -> 2.13.0", "vision 2.0 -> 1.0"]
    assert worse.exit_code == 1
    assert "❌ torch 2.9.1 -\\> 2.13.0: vision 1.0 no longer loads" in render_comparison_markdown(worse)
    better = compare(new, old, tmp_path)
    assert [item.name for item in better.better] == ["vision", "metrics"]
    assert better.exit_code == 0


def fit(path: Path, tmp_path: Path, torch: str | None = None) -> LockFit:
    result = fit_lock(read_lock(path), [LINUX], ALL, torch, Session(folder=tmp_path / "cache"))
    validate(json.loads(result.to_json()), "fit-lock")
    return result


WORKS, WITHOUT = PackageVerdict.WORKS, PackageVerdict.WORKS_WITHOUT
FAILS, CORRUPTS, UNKNOWN = PackageVerdict.IMPORT_FAILS, PackageVerdict.CORRUPTS, PackageVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        *((WORKS, WORKS, None), (None, WORKS, None), (WORKS, None, None), (WITHOUT, WITHOUT, None)),
        *((WORKS, WITHOUT, "worse"), (WITHOUT, FAILS, "worse"), (None, CORRUPTS, "worse"), (None, WITHOUT, "worse")),
        *((FAILS, WORKS, "better"), (FAILS, WITHOUT, "better"), (WITHOUT, WORKS, "better")),
        # What is gone is neither better nor worse, and of two failures, none is.
        *((FAILS, None, None), (FAILS, FAILS, "still"), (FAILS, CORRUPTS, "still")),
        # Of what was unknown, only a failure says something.
        *((UNKNOWN, WORKS, None), (UNKNOWN, WITHOUT, None), (UNKNOWN, FAILS, "worse"), (UNKNOWN, None, None)),
        *((WORKS, UNKNOWN, "unknown"), (FAILS, UNKNOWN, "unknown"), (None, UNKNOWN, "unknown")),
    ],
)
def test_what_becomes_better_or_worse(
    before: PackageVerdict | None, after: PackageVerdict | None, kind: str | None
) -> None:
    was, now = (
        None
        if verdict is None
        else DistributionState(name="pkg", version="1", origin=Origin.INDEX, verdict=verdict, modules=())
        for verdict in (before, after)
    )
    assert kind_of_change(was, now) == kind


@pytest.mark.slow
def test_the_smallest_change_of_a_lock(index: LocalIndex, tmp_path: Path) -> None:
    other_version = fit(uv_lock(tmp_path / "project", index), tmp_path)
    assert other_version.command == "uv add 'vision==2.0'"
    assert list(map(str, other_version.changes)) == ["vision 1.0 -> 2.0"]
    (broken,) = other_version.broken  # metrics fails for it
    assert broken.startswith("vision 1.0: ImportError: vision/_C.so: undefined symbol: _ZN2at4goneEv")
    # Its metadata say that it is for another torch, and no other version of it works.
    other_torch = fit(uv_lock(tmp_path / "project", index, vision="2.0", torch="2.9.1"), tmp_path)
    assert (other_torch.command, other_torch.torch) == ("uv add 'torch==2.13.0'", "2.13.0")
    path = uv_lock(tmp_path / "project", index, vision="2.0")
    nothing = fit(path, tmp_path)
    assert (nothing.command, nothing.changes, nothing.exit_code) == (None, (), 0)
    none = fit(path, tmp_path, "2.9.1")
    assert (none.command, none.exit_code) == (None, 1)
    assert none.obstacle == "found no versions on the index that work together: looked for vision"
    # torch 2.2.2 was compiled for numpy 1: Tensor.numpy() fails with numpy 2.
    for version in ("1.26.4", "2.0.0"):
        package_wheel(index.folder, "numpy", {}, files={"numpy.py": ""}, version=version, tag="py3-none-any")
    path = tmp_path / "requirements.txt"
    path.write_text("torch==2.2.2\nnumpy==2.0.0\n")
    assert fit(path, tmp_path).command == "pip install 'numpy==1.26.4'"


def test_markdown_fits_into_a_comment() -> None:
    changes = tuple(
        OutcomeChange(
            name=f"package-{number}",
            version="1.0",
            before=None,
            after=PackageVerdict.IMPORT_FAILS,
            error="x" * 500,
            environments=("here",),
        )
        for number in range(1_000)
    )
    comparison = LockComparison(
        old="a", new="b", torch=None, worse=changes, better=(), still=(), unknown=(), changes=(), environments=("here",)
    )
    text = render_comparison_markdown(comparison)
    assert len(text) < LARGEST
    assert "lines more*" in text


def test_the_environments_of_a_lock(index: LocalIndex, tmp_path: Path) -> None:
    lock = read_lock(uv_lock(tmp_path / "project", index))
    assert [system.python for system in list_systems(lock, [], ["win_amd64"], ALL)] == [(3, 12)]
    with pytest.raises(InputError, match=r"is not for Python 3\.11 on win_amd64"):
        list_systems(lock, [(3, 11)], ["win_amd64"], ALL)


def test_the_pythons_that_the_torch_of_a_lock_is_for(index: LocalIndex, tmp_path: Path) -> None:
    path = uv_lock(tmp_path / "project", index)
    tags = ("cp311-cp311-manylinux_2_28_x86_64", "cp313-cp313-manylinux_2_28_x86_64", "cp313-cp313-win_amd64")
    wheels = ", ".join(f'{{ url = "{index.url}/torch-2.13.0-{tag}.whl", hash = "sha256:{"12" * 32}" }}' for tag in tags)
    text = path.read_text().replace(">=3.12,<3.13", ">=3.10")
    path.write_text(f"{text}wheels = [{wheels}]\n")  # torch is the last package

    def pythons(platform: str) -> list[tuple[int, int]]:
        return [system.python for system in list_systems(read_lock(path), [], [platform], ALL)]

    assert pythons("manylinux_2_28_x86_64") == [(3, 11), (3, 13)]
    assert pythons("win_amd64") == [(3, 13)]
    assert pythons("macosx_14_0_arm64") == [(3, 10)]  # one of those that it is for, to say that torch is not


@pytest.mark.parametrize(
    ("requires", "lines", "uses"),
    [
        (("numpy", "torch"), None, True),
        (("numpy",), None, False),
        (("numpy",), ["numpy", "torch>=2"], True),
        (None, ["torchvision-free"], False),
        (None, None, False),
    ],
)
def test_what_uses_torch_is_told_by_what_it_requires(
    requires: tuple[str, ...] | None, lines: list[str] | None, uses: bool
) -> None:
    package = LockedPackage(name="pack", version="1.0", requires=requires)
    assert locked._uses_torch(package, lines) is uses


@pytest.mark.parametrize(
    ("known", "library", "requires", "may"),
    [
        (True, False, ("torch",), True),
        (True, True, (), True),
        (True, False, ("numpy",), False),
        (False, False, (), True),  # whose files nobody has seen
    ],
)
def test_what_may_need_torch(
    known: bool, library: bool, requires: tuple[str, ...], may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"pack": ["pack/_C.so"] if library else ["pack/__init__.py"]}
    monkeypatch.setattr(LockedEnvironment, "members", members)
    sources: dict[str, Any] = members if known else {}
    environment = LockedEnvironment(
        python=None, distributions=(), system=LINUX, packages={}, build=None, sources=sources, keys={}, complete=True
    )
    pack = Distribution(name="Pack", version="1.0", site="", objects=(), requires=requires, source=None)
    assert environment.may_need_torch(pack) is may
