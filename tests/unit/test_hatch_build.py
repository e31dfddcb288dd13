"""The package is compiled when it is built; where there is no compiler, it says so itself."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from abiscan.binary.elf import ElfFile

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = "from abiscan.__main__ import main; main()"
CODE: Final = "from abiscan.native import _core; print(_core.__name__)"

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux"),
    pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="needs x86_64 or aarch64"),
]


def build_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the package as its source has it: nothing is compiled."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "data")
    shutil.copytree(ROOT / "abiscan", tmp_path / "abiscan", ignore=ignored)
    return tmp_path


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("ABISCAN_NATIVE", raising=False)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("needs gcc")
    monkeypatch.delenv("ABISCAN_NATIVE", raising=False)


def built(folder: Path, version: str, target: str = "wheel") -> dict[str, Any]:
    """What the build adds to a wheel of the package."""
    module = build_module()
    # Optimising takes most of the time, and ``make setup`` has shown that it works.
    vars(module)["OPTIONS"] = tuple(option for option in module.OPTIONS if not option.startswith("-O"))
    vars(module)["FROM_PYPI"] = "no_compiler"  # what a machine has installed from there must not matter
    hook = module.CompileHook(str(folder), {}, None, None, str(folder / "dist"), target)
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize(version, data)
    return data


def run(folder: Path, program: str, *words: str) -> list[str]:
    """What a program prints that imports the package from a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    return done.stdout.splitlines()


def test_links_of_the_readme_lead_to_the_repository_where_its_address_is_known() -> None:
    hook = build_module().ReadmeHook(str(ROOT), {})
    written = (ROOT / "README.md").read_text("utf-8")
    known: dict[str, Any] = {"urls": {"Source": "https://example.org/abiscan/blob/main/"}}
    unknown: dict[str, Any] = {}
    for metadata in (known, unknown):
        hook.update(metadata)
    assert unknown["readme"]["text"] == written
    assert "](https://example.org/abiscan/blob/main/docs/tutorial.md)" in known["readme"]["text"]
    assert "](docs/" not in known["readme"]["text"]
    assert "](#from-a-checkout)" in known["readme"]["text"]


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("folder", ["sample_binaries", "tests/data", ".github", ".ci"])
def test_the_source_distribution_leaves_nothing_out(folder: str) -> None:
    """Extensions for Windows are called as bytecode is."""
    included = {file.relative_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    files = (path.relative_to(ROOT) for path in ROOT.joinpath(folder).rglob("*") if path.is_file())
    assert [str(path) for path in files if str(path) not in included and "__pycache__" not in path.parts] == []


@pytest.mark.slow
def test_the_wheel_has_all_that_the_package_reads() -> None:
    """The sources of the native processor are compiled."""
    included = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    files = (path.relative_to(ROOT) for path in ROOT.joinpath("abiscan").rglob("*") if path.is_file())
    left_out = [path for path in files if str(path) not in included and "__pycache__" not in path.parts]
    assert [str(path) for path in left_out if path.suffix not in (".c", ".h", ".so")] == []
    assert "abiscan/python/interpreter/recipes/abc.txt" in included


@pytest.mark.slow
def test_with_a_compiler_the_wheel_has_the_extension(package: Path) -> None:
    data = built(package, "standard")
    ((module, place),) = data["force_include"].items()
    assert place == "abiscan/native/_core.abi3.so"
    assert data["pure_python"] is False
    assert data["tag"].startswith("cp310-abi3-linux_")
    # Whichever Python's headers it was compiled with: older ones have sizes of type int in the plain function.
    imports = ElfFile.open(Path(module)).facts().imports
    assert [name for name in sorted(imports) if "PyArg_" in name] == ["_PyArg_ParseTuple_SizeT", "_PyArg_Parse_SizeT"]
    assert not (package / place).exists()  # a build leaves the sources alone
    shutil.copy(module, package / place)
    assert run(package, CODE) == ["abiscan.native._core"]
    assert len(run(package, PROGRAM, "--version")) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_an_editable_installation_has_it_among_the_sources(package: Path) -> None:
    assert built(package, "editable")["force_include"] == {}
    assert run(package, CODE) == ["abiscan.native._core"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize(
    ("manager", "compiler"), [("apk", "apk add gcc musl-dev python3-dev"), (None, "install a C compiler")]
)
def test_without_a_compiler_the_package_says_so(
    package: Path, capsys: pytest.CaptureFixture[str], manager: str | None, compiler: str
) -> None:
    """Also what to type: with musl, as in Alpine, no wheel has it."""
    if manager:
        program = package / "bin" / manager
        program.parent.mkdir()
        program.touch(mode=0o755)
    assert built(package, "standard") == {"force_include": {}}
    assert "abiscan is built without its native processor" in capsys.readouterr().err
    version, missing, remedy = run(package, PROGRAM, "--version")
    assert version.startswith("abiscan, version ")
    assert missing.startswith("without its native processor, which needs a C compiler when abiscan is installed")
    assert remedy == f"to have it: {compiler}, then pip install --force-reinstall --no-deps --no-binary abiscan abiscan"


@pytest.mark.slow
@pytest.mark.usefixtures("no_compiler")
def test_a_wheel_that_must_have_it_is_not_built_without(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABISCAN_NATIVE", "1")
    with pytest.raises(RuntimeError, match="cannot be compiled"):
        built(package, "standard")


@pytest.mark.usefixtures("compiler")
def test_nothing_is_compiled_where_nobody_wants_it(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert built(package, "standard", "sdist") == {"force_include": {}}
    monkeypatch.setenv("ABISCAN_NATIVE", "0")
    assert built(package, "standard") == {"force_include": {}}


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_a_source_that_does_not_compile_is_named(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    native = package / "abiscan/native"
    for source in native.glob("*.c"):
        source.unlink()
    (native / "wrong.c").write_text("int f(void) { return nothing; }\n", encoding="utf-8")
    assert built(package, "standard") == {"force_include": {}}
    assert "nothing" in capsys.readouterr().err


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("is_there", [True, False])
def test_a_compiler_is_asked_for_only_where_there_is_none(
    package: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    module = build_module()
    monkeypatch.setattr(module, "is_on_the_index", lambda name: is_there and name == "ziglang")
    hook = module.CompileHook(str(package), {}, None, None, str(package / "dist"), "wheel")
    assert hook.dependencies() == (["ziglang"] if is_there else [])
    fake = package / "bin" / "gcc"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\n", encoding="utf-8")
    fake.chmod(0o755)
    assert hook.dependencies() == []
