"""``doctor`` in a process of its own, which reads where nothing can be reached, and then asks an index."""

from __future__ import annotations

import platform
import socket
import sys
import venv
from pathlib import Path

import pytest

from abiscan.inputs.isolation import landlock_version
from tests.commands.processes import Finished, run
from tests.elf_builder import Elf, uses
from tests.fakes import extension, install, package_wheel, site_of, torch_package
from tests.index_server import serving

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="needs x86_64 Linux",
)
GONE = uses("_ZN2at4goneEv")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with torch 9.9.0+cpu, a package that does not work with it, and no pip."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False)
    site = site_of(folder)
    torch_package(site)
    (site / "torch" / "__init__.py").touch()
    install(site, "torch", {}, version="9.9.0+cpu", requires="")
    install(site, "bad", {"bad/_C.so": extension(undefined=GONE)}, requires="")
    return folder


def doctor(environment: Path, index_url: str, cache: Path) -> Finished:
    variables = {
        "PIP_INDEX_URL": index_url,
        "PIP_NO_INDEX": None,
        "PIP_FIND_LINKS": None,
        "PIP_RETRIES": "0",
        "XDG_CACHE_HOME": str(cache),
        "VIRTUAL_ENV": str(environment),
    }
    return run("doctor", env=variables)


@pytest.mark.skipif(sys.platform == "linux" and landlock_version() < 4, reason="needs Landlock with TCP (Linux 6.7)")
@pytest.mark.usefixtures("wheel_index")
def test_it_reaches_the_index_and_says_the_same_each_time(environment: Path, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for version, library in (("1.0", extension(undefined=GONE)), ("2.0", extension()), ("3.0", extension())):
        metadata = {"Requires-Dist": "torch>=10"} if version == "3.0" else {}
        package_wheel(wheels, "bad", {"bad/_C.so": library}, version=version, metadata=metadata)
    with serving(wheels) as server:
        first = doctor(environment, server.url, tmp_path / "cache")
        assert any(path.startswith("/simple/bad") for path, _ in server.asked)
        assert doctor(environment, server.url, tmp_path / "cache") == first
    assert first.code == 1
    assert "install bad==2.0: the newest that works with the torch 9.9.0 you have" in first.out
    assert "abiscan pip install bad==2.0" in first.out


@pytest.mark.skipif(sys.platform == "linux" and landlock_version() < 4, reason="needs Landlock with TCP (Linux 6.7)")
@pytest.mark.usefixtures("wheel_index")
def test_a_stranger_of_the_same_name_is_not_proposed(environment: Path, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    package_wheel(wheels, "bad", {"bad/_C.so": extension()}, version="9.0")
    reason = "no index has bad 1.0, so what one has by that name may be another package"
    with serving(wheels) as server:
        done = doctor(environment, server.url, tmp_path / "cache")
    assert done.code == 1
    assert f"did not look for other versions of bad==1.0: {reason}" in done.out
    assert "install bad" not in done.out
    assert "found nothing" not in done.out


@pytest.mark.usefixtures("wheel_index")
def test_an_index_that_cannot_be_reached_is_not_one_without_versions(environment: Path, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        done = doctor(environment, f"http://127.0.0.1:{nobody.getsockname()[1]}/simple", tmp_path / "cache")
    assert done.code == 1
    assert "did not look for versions that work, since an index cannot be read: http://127.0.0.1" in done.out
    assert "found nothing" not in done.out


@pytest.mark.parametrize("system", ["glibc", "musl"])
def test_nothing_of_an_image_is_started(tmp_path: Path, system: str) -> None:
    root = tmp_path / "image"
    local = root / "usr" / "local"
    site = local / "lib" / "python3.11" / "site-packages"
    torch_package(site)
    (site / "torch" / "__init__.py").touch()
    (site.parent / "os.py").touch()
    install(site, "torch", {}, version="9.9.0+cpu", requires="")
    install(site, "bad", {"bad/_C.so": extension(undefined=GONE)}, requires="")
    (local / "bin").mkdir()
    python = local / "bin" / "python3.11"
    python.write_bytes(Path(sys.executable).resolve().read_bytes())  # which nobody can start: it has no such right
    (local / "bin" / "python3").symlink_to("/usr/local/bin/python3.11")
    versions = {"glibc": ("libc.so.6", ("GLIBC_2.31",)), "musl": ("ld-musl-x86_64.so.1", ())}
    name, defined = versions[system]
    Elf(soname=name, version_definitions=defined).write(root / "lib" / name)
    done = run("doctor", "--root", str(root), env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    if system == "musl":
        assert (done.code, "has musl instead of glibc" in done.err) == (2, True)
        return
    assert done.code == 1
    assert "bad" in done.out
    assert "_ZN2at4goneEv" in done.out
    assert "(--root), torch 9.9.0+cpu" in done.out
