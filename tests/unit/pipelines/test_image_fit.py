"""``abiscan fit --platform win_amd64``: wheels for Windows and macOS on an index."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.cli import main
from abiscan.index.system import System
from tests.fakes import wheel
from tests.image_samples import image, package
from tests.index_server import LocalIndex, serving

SYSTEMS = {"win_amd64": "pyd", "macosx_11_0_arm64": "so"}
NAMED = {"2": "loads", "3": "missing_symbol"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalIndex]:
    """``pkg`` 2 loads; 3 lacks a symbol; 4 requires a package on the other system alone, and no torch fits it."""
    folder = tmp_path_factory.mktemp("wheels")
    for platform, suffix in SYSTEMS.items():
        for version, kind in NAMED.items():
            code = f"import torch\ntorch.ops.load_library(__file__.replace('__init__.py', '_C.{suffix}'))\n"
            files = {"pkg/__init__.py": code.encode(), f"pkg/_C.{suffix}": image(f"{kind}.{suffix}")}
            requires = "torch\nRequires-Dist: pkg-extra; sys_platform == 'linux'"
            made = package(folder, files, requires, platform=platform)
            shutil.move(made, folder / made.name.replace("pkg-1", f"pkg-{version}"))
        for torch in ("2.8.0", "2.13.0"):
            name = f"torch-{torch}"
            metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n".encode()
            wheel(folder / f"{name}-cp311-cp311-{platform}.whl", {f"{name}.dist-info/METADATA": metadata})
    with serving(folder) as server:
        yield server


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)


def run(server: LocalIndex, *words: str) -> click.testing.Result:
    given = ["fit", "pkg", "--index-url", server.url, "--python-version", "3.11", "--format", "json", *words]
    return click.testing.CliRunner().invoke(main, given)


def fitting(server: LocalIndex, *words: str) -> dict[str, Any]:
    printed = run(server, *words)
    assert printed.exit_code == 0, printed.output
    answer = json.loads(printed.stdout)
    assert isinstance(answer, dict)
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("platform", SYSTEMS)
@pytest.mark.parametrize("torch", [(), pytest.param(("--torch", "2.13.0"), marks=pytest.mark.long)])
def test_the_newest_that_loads(server: LocalIndex, platform: str, torch: tuple[str, ...]) -> None:
    found = fitting(server, "--platform", platform, *torch)
    (chosen,) = found["packages"]
    assert found["torch"].partition("+")[0] == "2.13.0"  # 2.8.0 is not embedded there
    assert chosen["version"] == "2"
    assert "import fails" in chosen["rejected"][0]["reason"]


@pytest.mark.slow
def test_older_versions_of_macos_count(server: LocalIndex) -> None:
    assert fitting(server, "--platform", "macosx_14_0_arm64", "--torch", "2.13.0")["packages"][0]["version"] == "2"


@pytest.mark.parametrize(("platform", "cuda", "code"), [("win_amd64", "cpu", 0), ("win_amd64", "12.6", 2)])
def test_fit_for_a_build_with_cuda(server: LocalIndex, platform: str, cuda: str, code: int) -> None:
    printed = run(server, "--platform", platform, "--torch", "2.13.0", "--cuda", cuda)
    assert printed.exit_code == code
    assert code == 0 or "torch 2.13.0+cu126: not among the releases that are embedded for Windows" in printed.stderr


def test_a_system_that_no_release_is_embedded_for(server: LocalIndex) -> None:
    printed = run(server, "--platform", "macosx_11_0_x86_64")
    assert printed.exit_code == 2
    assert "no release of torch for macOS on x86_64 is embedded and on the index" in printed.stderr


@pytest.mark.parametrize(
    ("platform", "images", "names"),
    [
        ("win_amd64", (ImageSystem.WINDOWS, Machine.X86_64), ("nt", "win32", "Windows", "AMD64")),
        ("win_arm64", (ImageSystem.WINDOWS, Machine.AARCH64), ("nt", "win32", "Windows", "ARM64")),
        ("macosx_14_0_arm64", (ImageSystem.MACOS, Machine.AARCH64), ("posix", "darwin", "Darwin", "arm64")),
        ("macosx_10_13_x86_64", (ImageSystem.MACOS, Machine.X86_64), ("posix", "darwin", "Darwin", "x86_64")),
        ("manylinux_2_28_aarch64", None, ("posix", "linux", "Linux", "aarch64")),
    ],
)
def test_systems(platform: str, images: tuple[ImageSystem, Machine] | None, names: tuple[str, ...]) -> None:
    system = System.of((3, 11), platform)
    markers = ("os_name", "sys_platform", "platform_system", "platform_machine")
    assert (system.images, tuple(map(system.environment.get, markers))) == (images, names)
    assert system.machine is (None if images else Machine.AARCH64)
