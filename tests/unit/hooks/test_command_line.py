"""How a command line of pip or uv is read, compared with what pip's own parser makes of it."""

from __future__ import annotations

import importlib

import pytest

from abiscan.hooks import arguments
from abiscan.hooks.command_line import PIP, UV, read_command_line
from abiscan.hooks.fitting import named_index


@pytest.mark.parametrize(
    ("line", "command", "rest"),
    [
        ("install a", "install", "a"),
        ("--no-cache-dir install a", "install", "--no-cache-dir a"),
        ("-q install a", "install", "-q a"),
        ("-qq --log f install -- a", "install", "-q -q --log f a"),
        ("--log=install install a", "install", "--log install a"),
        ("install --ups a", "install", "--ups a"),  # --upgrade and --upgrade-strategy begin with --up, none with --ups
        ("install --upgrade-s eager --ignore-inst a", "install", "--upgrade-strategy eager --ignore-installed a"),
        ("install -qr f -Ucg a", "install", "-q -r f -U -c g a"),
        ("install -rf --repo x a", "install", "-r f --report x a"),
        ("install -e . git+https://h/p", "install", "-e . git+https://h/p"),
        ("install -r -", "install", "-r -"),
        ("--version", "", "--version"),
        ("download install", "download", "install"),
    ],
)
def test_pip(line: str, command: str, rest: str) -> None:
    found = read_command_line(line.split(), PIP)
    assert (" ".join(found.command), " ".join(found.arguments), found.doubt) == (command, rest, None)


@pytest.mark.parametrize(
    ("line", "command", "rest"),
    [
        ("--quiet pip install a", "pip install", "--quiet a"),
        ("pip --no-cache install a", "pip install", "--no-cache a"),
        ("--color never pip -n install -p=env a", "pip install", "--color never -n -p env a"),
        ("pip install -penv -nq --find-links=d a", "pip install", "-p env -n -q --find-links d a"),
        ("pip install --config-setting=--x a", "pip install", "--config-setting=--x a"),
        ("pip sync f", "pip sync", "f"),
        ("add pip install", "add", "pip install"),
        ("--directory pip pip install a", "pip install", "--directory pip a"),
    ],
)
def test_uv(line: str, command: str, rest: str) -> None:
    found = read_command_line(line.split(), UV)
    assert (" ".join(found.command), " ".join(found.arguments), found.doubt) == (command, rest, None)


def test_an_unknown_option_before_the_command_is_told() -> None:
    assert read_command_line(["--brand-new", "x", "install", "a"], PIP).doubt == "--brand-new"
    assert read_command_line(["--brand-new=x", "install", "a"], PIP).doubt is None
    assert read_command_line(["install", "--brand-new", "a"], PIP).doubt is None


def test_no_option_takes_a_value_for_one_installer_only() -> None:
    for syntax, other in ((PIP, UV), (UV, PIP)):
        assert not syntax.values & (syntax.flags | other.flags)


def test_the_options_of_the_installed_pip_are_known() -> None:
    create = importlib.import_module("pip._internal.commands").create_command
    for option in create("install").parser.option_list_all:
        for name in (*option._short_opts, *option._long_opts):
            assert name in (PIP.values if option.takes_value() else PIP.flags)


def test_the_value_of_an_option_is_no_option() -> None:
    words = read_command_line(["install", "-r", "--help", "--root", "-q", "a"], PIP).arguments
    assert not arguments.has_option(words, "--help", "-q")
    assert arguments.option_values(words, "--root") == ["-q"]


def test_where_packages_come_from_as_pip_reads_its_options() -> None:
    words = "-i a --index-url b --extra-index-url c -f d --extra-index-url e --find-links f"
    options = named_index(words.split())
    assert (options.index_url, options.no_index) == ("b", False)
    assert (options.extra_index_urls, options.find_links) == (("c", "e"), ("d", "f"))
    assert named_index(["--no-index"]).no_index
    assert named_index([]).index_url is None
