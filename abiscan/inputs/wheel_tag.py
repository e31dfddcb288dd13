"""What the tags in the file name of a wheel promise: symbols of Python, and symbol versions of the system.

``data/limited_api.txt`` and ``data/manylinux.txt`` are made by ``tools/build_tag_promises.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from abiscan.regex import regex

Version: TypeAlias = tuple[int, ...]
_DATA: Final = Path(__file__).with_name("data")

_ABI3: Final = regex(r"-cp3(?P<minor>[0-9]+)(?:\.cp3[0-9]+)*-abi3-[^-]+\.whl$")
_MANYLINUX: Final = regex(r"manylinux(?:_(?P<major>[0-9]+)_(?P<minor>[0-9]+)|(?P<old>1|2010|2014))_")
_OLD_NAMES: Final = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
_GLIBC: Final = "GLIBC"
# As short as real ones: names come from files, and int() refuses thousands of digits.
_VERSION: Final = regex(r"(?P<family>[A-Z]+)_(?P<number>[0-9]{1,5}(?:\.[0-9]{1,5}){0,5})")
# Versions without a number, and since when they exist.
_SINCE: Final = {"GLIBC_ABI_DT_RELR": "GLIBC_2.36", "CXXABI_TM_1": "CXXABI_1.3.7", "CXXABI_FLOAT128": "CXXABI_1.3.9"}
_MOST_NAMES: Final = 1024
"""How many symbol versions are remembered: libraries need the same few, and each release of torch asks for them."""
_OLDEST_PYTHON: Final = (3, 2)  # of the limited API


def platform_tag(wheel: str) -> str:
    """Return the tag that names the systems of a wheel: ``manylinux_2_28_x86_64``."""
    return wheel.removesuffix(".whl").rpartition("-")[2]


def is_for_any_system(wheel: str) -> bool:
    """Whether a wheel is for every system, by its tags."""
    return wheel.endswith("-any.whl")


def abi3_python(wheel: str) -> Version | None:
    """Return the oldest Python that a wheel with the tag ``abi3`` is for; None if it has no such tag."""
    match = _ABI3.search(wheel)
    return max((3, int(match["minor"])), _OLDEST_PYTHON) if match else None


def manylinux_version(wheel: str) -> Version | None:
    """Return the oldest glibc that a wheel is tagged for; None if it has no manylinux tag."""
    # A compressed tag set (``manylinux_2_17_x86_64.manylinux2014_x86_64``) promises the oldest of its platforms.
    platforms = platform_tag(wheel)
    numbers = [
        _OLD_NAMES[match["old"]] if match["old"] else (int(match["major"]), int(match["minor"]))
        for match in _MANYLINUX.finditer(platforms)
    ]
    return min(numbers, default=None)


@functools.lru_cache(_MOST_NAMES)
def lowest_manylinux(version: str, machine: str) -> Version | None:
    """Return the oldest glibc of a manylinux tag whose systems all have a symbol version, such as ``GLIBCXX_3.4.21``.

    :return: None if no tag has it, or if it is of a library of which the tags say nothing
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return None
    if match["family"] == _GLIBC:
        return version_of(match["number"])
    return _lowest_policies().get((machine, version))


@functools.lru_cache(_MOST_NAMES)
def family_and_number(version: str) -> tuple[str, str] | None:
    """Return what a symbol version belongs to, and its number: ``GLIBC``, ``2.34``; None if it has none."""
    match = _VERSION.fullmatch(_SINCE.get(version, version))
    return (match["family"], match["number"]) if match else None


def newest_of_manylinux(glibc: Version) -> dict[str, str]:
    """Return the newest symbol version of each family that all systems with a glibc have, by the manylinux tags."""
    newest: dict[str, str] = {}
    for (machine, name), since in _lowest_policies().items():
        match = _VERSION.fullmatch(name)
        if machine == "x86_64" and match and since <= glibc:
            family, number = match["family"], match["number"]
            newest[family] = max(newest.get(family, "0"), number, key=version_of)
    return newest


@functools.lru_cache(_MOST_NAMES)
def has_rules_for(version: str) -> bool:
    """Whether the manylinux tags say anything about the library of a symbol version."""
    match = _VERSION.fullmatch(version)
    return match is not None and match["family"] in _version_families()


def limited_api() -> Mapping[str, Version]:
    """Return the symbols of Python's stable ABI, with the Python since which they belong to it."""
    return _limited_api()


@functools.lru_cache(_MOST_NAMES)
def version_of(text: str) -> Version:
    """Return ``(3, 10)`` for ``3.10``."""
    return tuple(int(number) for number in text.split(".") if number)


@functools.cache
def _limited_api() -> dict[str, Version]:
    lines = (line.split() for line in _read_data("limited_api.txt").splitlines())
    return {name: version_of(version) for version, name in lines}


@functools.cache
def _lowest_policies() -> dict[tuple[str, str], Version]:
    policies: dict[tuple[str, str], Version] = {}
    for line in _read_data("manylinux.txt").splitlines():
        machine, number, family, *versions = line.split()
        # The file goes from old tags to new ones, so the first one that has a symbol version is the lowest.
        for version in versions:
            policies.setdefault((machine, f"{family}_{version}"), version_of(number))
    return policies


@functools.cache
def _version_families() -> frozenset[str]:
    return frozenset(name.partition("_")[0] for _, name in _lowest_policies())


def _read_data(name: str) -> str:
    return (_DATA / name).read_text("utf-8")
