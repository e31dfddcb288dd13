"""Make ``abiscan/inputs/data/systems.txt``: the newest symbol versions of each distribution's C and C++ libraries.

python -m tools.build_systems

``SYSTEMS`` has the versions of the packages, copied from the lists that it names. Those of Debian are in its package
index; the libraries in its packages were read as well, and agree. The others are in the lists of packages that
https://github.com/docker-library/repo-info keeps of the official images. For RHEL, whose lists have no versions, those
of its rebuilds count.

Which symbol versions a GCC has is in the manual of libstdc++ (doc/xml/manual/abi.xml) and in libgcc
(libgcc-std.ver.in, and the like for each processor); those of zlib are in zlib.map. The manual does not have GCC 16
yet: libstdc++.so.6.0.35 is described by https://github.com/GuillaumeDua/cpp-toolchain (scripts/checks/README.md).
No row has less than auditwheel's manylinux-policy.json, made from images of distributions, promises for its glibc.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

from abiscan.inputs import target_system

FILE: Final = Path(target_system.__file__).with_name("data") / "systems.txt"
_DEBIAN, _OTHER = "/lib/x86_64-linux-gnu", "/lib64"
_REPO_INFO: Final = "docker-library/repo-info repos/"


class System(NamedTuple):
    """A distribution.

    :ivar folder: where its libraries are
    :ivar gcc: that libstdc++ and libgcc are from, which need not be the default compiler
    :ivar zlib: None where it is zlib-ng
    :ivar source: where the packages are listed, and their versions there
    """

    name: str
    folder: str
    glibc: str
    gcc: str
    zlib: str | None
    source: str


SYSTEMS: Final = (
    System(
        *("debian11", _DEBIAN, "2.31", "10.2", "1.2.11"),
        "Debian bullseye: libc6 2.31-13+deb11u14, libstdc++6 10.2.1-6, zlib1g 1:1.2.11.dfsg-2+deb11u2",
    ),
    System(
        *("debian12", _DEBIAN, "2.36", "12.2", "1.2.13"),
        "Debian bookworm: libc6 2.36-9+deb12u14, libstdc++6 12.2.0-14+deb12u1, zlib1g 1:1.2.13.dfsg-1",
    ),
    System(
        *("debian13", _DEBIAN, "2.41", "14.2", "1.3.1"),
        "Debian trixie: libc6 2.41-12+deb13u5, libstdc++6 14.2.0-19, zlib1g 1:1.3.dfsg+really1.3.1-1+deb13u1",
    ),
    System(
        *("ubuntu20.04", _DEBIAN, "2.31", "10.3", "1.2.11"),
        f"{_REPO_INFO}ubuntu/local/focal-20221130.md: "
        "libc6 2.31-0ubuntu9.9, libstdc++6 10.3.0-1ubuntu1~20.04, zlib1g 1:1.2.11.dfsg-2ubuntu1.5",
    ),
    System(
        *("ubuntu22.04", _DEBIAN, "2.35", "12.3", "1.2.11"),
        f"{_REPO_INFO}ubuntu/local/22.04.md: "
        "libc6 2.35-0ubuntu3.14, libstdc++6 12.3.0-1ubuntu1~22.04.3, zlib1g 1:1.2.11.dfsg-2ubuntu9.2",
    ),
    System(
        *("ubuntu24.04", _DEBIAN, "2.39", "14.2", "1.3"),
        f"{_REPO_INFO}ubuntu/local/24.04.md: "
        "libc6 2.39-0ubuntu8.8, libstdc++6 14.2.0-4ubuntu2~24.04.1, zlib1g 1:1.3.dfsg-3.1ubuntu2.1",
    ),
    System(
        *("ubuntu26.04", _DEBIAN, "2.43", "16.0", "1.3.1"),
        f"{_REPO_INFO}ubuntu/local/resolute-20260724.1.md: "
        "libc6 2.43-2ubuntu2, libstdc++6 16-20260322-1ubuntu1, zlib1g 1:1.3.dfsg+really1.3.1-1ubuntu3",
    ),
    System(
        *("rhel8", _OTHER, "2.28", "8.5", "1.2.11"),
        f"AlmaLinux 8.10, {_REPO_INFO}almalinux/local/8.10-minimal.md: "
        "glibc-2.28-251.el8_10.40, libgcc-8.5.0-28.el8_10.alma.1, zlib-1.2.11-25.el8",
    ),
    System(
        *("rhel9", _OTHER, "2.34", "11.5", "1.2.11"),
        f"AlmaLinux 9.8, {_REPO_INFO}almalinux/local/9-minimal.md: "
        "glibc-2.34-275.el9_8, libstdc++-11.5.0-14.el9.alma.1, zlib-1.2.11-40.el9",
    ),
    System(
        *("rhel10", _OTHER, "2.39", "14.3", None),
        f"Oracle Linux 10.2, {_REPO_INFO}oraclelinux/local/10-slim.md: "
        "glibc-2.39-126.0.1.el10_2, libstdc++-14.3.1-4.4.0.1.el10, zlib-ng-compat-2.2.3-3.el10_1",
    ),
    System(
        *("amazonlinux2", _OTHER, "2.26", "7.3", "1.2.7"),
        f"{_REPO_INFO}amazonlinux/local/2.md: "
        "glibc-2.26-64.amzn2.0.6, libstdc++-7.3.1-18.amzn2, zlib-1.2.7-19.amzn2.0.3",
    ),
    System(
        *("amazonlinux2023", _OTHER, "2.34", "14.2", "1.2.11"),
        f"{_REPO_INFO}amazonlinux/local/2023.md: "
        "glibc-2.34-231.amzn2023.0.5, libstdc++-14.2.1-7.amzn2023.0.2, zlib-1.2.11-33.amzn2023.0.6",
    ),
)
# The first release with each: GLIBCXX, CXXABI.
LIBSTDCXX: Final = (
    ("7.2", "3.4.24", "1.3.11"),
    ("8.1", "3.4.25", "1.3.11"),
    ("9.1", "3.4.26", "1.3.12"),
    ("9.2", "3.4.27", "1.3.12"),
    ("9.3", "3.4.28", "1.3.12"),
    ("11.1", "3.4.29", "1.3.13"),
    ("12.1", "3.4.30", "1.3.13"),
    ("13.1", "3.4.31", "1.3.14"),
    ("13.2", "3.4.32", "1.3.14"),
    ("14.1", "3.4.33", "1.3.15"),
    ("16.0", "3.4.35", "1.3.17"),
)
# GCC_11.0 is only there on aarch64, GCC_12.0.0 only on x86-64: what is not there, nothing needs.
LIBGCC: Final = (("7.1", "7.0.0"), ("11.1", "11.0"), ("12.1", "12.0.0"), ("13.1", "13.0.0"), ("14.1", "14.0.0"))
ZLIB: Final = (("1.2.5.2", "1.2.5.2"), ("1.2.7.1", "1.2.7.1"), ("1.2.9", "1.2.9"), ("1.2.12", "1.2.12"))


def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _newest(table: tuple[tuple[str, ...], ...], version: str) -> tuple[str, ...]:
    return [row for row in table if _number(row[0]) <= _number(version)][-1][1:]


def main() -> int:
    """Write the file."""
    lines = [
        "# made by tools/build_systems.py: name, folder of the libraries, newest symbol versions; above, the source"
    ]
    for system in SYSTEMS:
        glibcxx, cxxabi = _newest(LIBSTDCXX, system.gcc)
        versions = [f"GLIBC_{system.glibc}", f"GLIBCXX_{glibcxx}", f"CXXABI_{cxxabi}"]
        versions.append(f"GCC_{_newest(LIBGCC, system.gcc)[0]}")
        versions += [f"ZLIB_{_newest(ZLIB, system.zlib)[0]}"] if system.zlib else []
        lines += [f"# {system.source}", " ".join((system.name, system.folder, *versions))]
    FILE.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
