"""What pip is asked about its settings, and which system wheels are looked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging import tags

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.index.client import settings_of_pip
from abiscan.index.pip_configuration import configuration_read_once
from abiscan.index.system import System
from abiscan.inputs import packages, programs

# The index of a pip that nothing configures, in its own words.
PYPI = f"{importlib.import_module('pip._internal.models.index').PyPI.simple_url}/"


def say(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Have ``pip config list`` print some lines."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command == ["pip", "config", "list"]
        return subprocess.CompletedProcess(command, 0, "".join(f"{line}\n" for line in lines), "")

    monkeypatch.setattr(packages, "pip_command", lambda _: ["pip"])
    monkeypatch.setattr(programs, "run_program", run)


def test_the_environment_overrides_the_command_and_that_all_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's documentation, "Precedence / Override order"; ``pip config list`` sorts its lines by their names."""
    names = [":env:.index-url", "global.index-url", "install.index-url"]
    for count, expected in ((1, "global"), (2, "install"), (3, ":env:")):
        section = ("global", "install", ":env:")[:count]
        lines = [f"{name}='https://{name.rpartition('.')[0]}/'" for name in names if name.startswith(section)]
        say(monkeypatch, *lines)
        assert settings_of_pip(sys.executable).index_urls == (f"https://{expected}/",)
    say(monkeypatch, "download.index-url='https://download/'", "global.index-url=not quoted", "a line without a value")
    assert settings_of_pip(sys.executable).index_urls[0].startswith(PYPI.rstrip("/")), "none of these is a setting"


def test_each_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    links, absent = tmp_path / "links", tmp_path / "absent"
    links.mkdir()
    say(
        monkeypatch,
        "global.cert='/etc/ca.pem'",
        f"global.find-links='\\n{links}\\n{absent}\\nhttps://l.example/?a=b'",
        "global.proxy='http://proxy.example:3128'",
        "global.trusted-host='a.example b.example'",
    )
    settings = settings_of_pip(sys.executable)
    assert (settings.certificates, settings.proxy) == ("/etc/ca.pem", "http://proxy.example:3128")
    assert settings.trusted_hosts == ("a.example", "b.example")
    assert settings.find_links == (str(links), "https://l.example/?a=b"), "pip only warns of a folder that is not there"
    say(monkeypatch)
    settings = settings_of_pip(sys.executable)
    assert (settings.certificates, settings.proxy, settings.trusted_hosts, settings.find_links) == (None, None, (), ())


@pytest.mark.parametrize(
    ("value", "asks"), [("1", False), ("true", False), ("YES", False), ("on", False), ("0", True), ("false", True)]
)
def test_what_pip_takes_for_true(value: str, monkeypatch: pytest.MonkeyPatch, *, asks: bool) -> None:
    """``strtobool`` of distutils, which pip has in ``utils/misc.py``."""
    say(monkeypatch, f"global.no-index='{value}'", "global.extra-index-url='https://e.example/'")
    assert bool(settings_of_pip(sys.executable).index_urls) is asks


@pytest.mark.parametrize(
    "error", [OSError(), subprocess.TimeoutExpired("pip", 1), subprocess.CalledProcessError(1, "")]
)
def test_a_pip_that_does_not_answer(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(programs, "run_program", run)
    assert len(settings_of_pip(sys.executable).index_urls) == 1


# PEP 600: manylinux1, 2010 and 2014 are other names of manylinux_2_5, 2_12 and 2_17; what runs on an older glibc runs
# on a newer one. PEP 425 has linux_x86_64, of no stated age.
GLIBC_2_18 = """
manylinux_2_18 manylinux_2_17 manylinux2014 manylinux_2_16 manylinux_2_15 manylinux_2_14 manylinux_2_13 manylinux_2_12
manylinux2010 manylinux_2_11 manylinux_2_10 manylinux_2_9 manylinux_2_8 manylinux_2_7 manylinux_2_6 manylinux_2_5
manylinux1 linux
"""


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("manylinux_2_18_x86_64", tuple(f"{tag}_x86_64" for tag in GLIBC_2_18.split())),
        ("win_amd64", ("win_amd64",)),
        ("musllinux_1_2_x86_64", ("musllinux_1_2_x86_64",)),
        ("macosx_12_0_arm64", tuple(tags.mac_platforms((12, 0), "arm64"))),
        ("macosx_10_13_x86_64", tuple(tags.mac_platforms((10, 13), "x86_64"))),
    ],
)
def test_the_systems_whose_wheels_a_system_takes(platform: str, expected: tuple[str, ...]) -> None:
    assert System.of((3, 12), platform).platforms == expected


def test_the_system_of_the_user() -> None:
    system = System.of()
    assert (system.python, system.platforms) == (sys.version_info[:2], tuple(tags.platform_tags()))
    assert System.of((3, 9)).platforms == system.platforms


@pytest.mark.parametrize(
    ("platform", "machine", "images"),
    [
        ("manylinux_2_28_x86_64", Machine.X86_64, None),
        ("manylinux_2_28_aarch64", Machine.AARCH64, None),
        ("manylinux_2_28_ppc64le", None, None),
        ("win_amd64", None, (ImageSystem.WINDOWS, Machine.X86_64)),
        ("win_arm64", None, (ImageSystem.WINDOWS, Machine.AARCH64)),
        ("macosx_11_0_arm64", None, (ImageSystem.MACOS, Machine.AARCH64)),
        ("macosx_10_13_x86_64", None, (ImageSystem.MACOS, Machine.X86_64)),
    ],
)
def test_the_machine_of_a_system(
    platform: str, machine: Machine | None, images: tuple[ImageSystem, Machine] | None
) -> None:
    system = System(python=(3, 12), platforms=(platform,))
    assert (system.machine, system.images) == (machine, images)


def test_how_well_tags_fit() -> None:
    """The order is that of PEP 425 as packaging has it: what is more specific first."""
    ranks: Mapping[tags.Tag, int] = System.of((3, 11), "manylinux_2_17_x86_64").tags
    ordered = [
        "cp311-cp311-manylinux_2_17_x86_64",
        "cp311-cp311-manylinux2014_x86_64",
        "cp311-cp311-linux_x86_64",
        "cp311-abi3-manylinux_2_17_x86_64",
        "cp39-abi3-manylinux_2_17_x86_64",
        "py3-none-manylinux_2_17_x86_64",
        "py3-none-any",
    ]
    places = [ranks[next(iter(tags.parse_tag(tag)))] for tag in ordered]
    assert places == sorted(places)
    assert next(iter(tags.parse_tag("cp312-abi3-manylinux_2_17_x86_64"))) not in ranks
    assert min(ranks.values()) == 0


def test_one_command_asks_a_pip_once(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, "global.index-url='https://first/'")
    with configuration_read_once():
        assert settings_of_pip(sys.executable).index_urls == ("https://first/",)
        say(monkeypatch, "global.index-url='https://second/'")
        assert settings_of_pip(sys.executable).index_urls == ("https://first/",)
        assert settings_of_pip(None).index_urls == ("https://second/",)  # another pip
    assert settings_of_pip(sys.executable).index_urls == ("https://second/",)
