"""Make ``abiscan/inputs/data/systems.txt``: the newest symbol versions of each distribution's C and C++ libraries.

python -m tools.build_systems

The versions of the packages are those that the distributions publish: packages.debian.org and packages.ubuntu.com
(libc6, libstdc++6, libgcc-s1, zlib1g), the package manifests of Red Hat Enterprise Linux (glibc, libstdc++, zlib), and
the release notes of Amazon Linux. Which symbol versions a GCC has is in its manual
(libstdc++-v3/doc/xml/manual/abi.xml) and in libgcc/libgcc-std.ver.in, those of zlib in zlib.map.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from abiscan.inputs import target_system

FILE: Final = Path(target_system.__file__).with_name("data") / "systems.txt"
_DEBIAN, _OTHER = "/lib/x86_64-linux-gnu", "/lib64"
# Name, folder, glibc, the GCC that its libstdc++ and libgcc are from, zlib (None where it is zlib-ng).
PACKAGES: Final = (
    ("debian11", _DEBIAN, "2.31", "10.2", "1.2.11"),
    ("debian12", _DEBIAN, "2.36", "12.2", "1.2.13"),
    ("debian13", _DEBIAN, "2.41", "14.2", "1.3.1"),
    ("ubuntu20.04", _DEBIAN, "2.31", "10.5", "1.2.11"),
    ("ubuntu22.04", _DEBIAN, "2.35", "12.3", "1.2.11"),
    ("ubuntu24.04", _DEBIAN, "2.39", "14.2", "1.3"),
    ("rhel8", _OTHER, "2.28", "8.5", "1.2.11"),
    ("rhel9", _OTHER, "2.34", "11.5", "1.2.11"),
    ("rhel10", _OTHER, "2.39", "14.2", None),
    ("amazonlinux2", _OTHER, "2.26", "7.3", "1.2.7"),
    ("amazonlinux2023", _OTHER, "2.34", "11.4", "1.2.11"),
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
    ("15.1", "3.4.34", "1.3.16"),
)
LIBGCC: Final = (("7.1", "7.0.0"), ("12.1", "12.0.0"), ("13.1", "13.0.0"), ("14.1", "14.0.0"))
ZLIB: Final = (("1.2.5.2", "1.2.5.2"), ("1.2.9", "1.2.9"), ("1.2.12", "1.2.12"))


def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _newest(table: tuple[tuple[str, ...], ...], version: str) -> tuple[str, ...]:
    return [row for row in table if _number(row[0]) <= _number(version)][-1][1:]


def main() -> int:
    """Write the file."""
    lines = ["# made by tools/build_systems.py: name, folder of the libraries, newest symbol versions"]
    for name, folder, glibc, gcc, zlib in PACKAGES:
        glibcxx, cxxabi = _newest(LIBSTDCXX, gcc)
        versions = [f"GLIBC_{glibc}", f"GLIBCXX_{glibcxx}", f"CXXABI_{cxxabi}", f"GCC_{_newest(LIBGCC, gcc)[0]}"]
        versions += [f"ZLIB_{_newest(ZLIB, zlib)[0]}"] if zlib else []
        lines.append(" ".join((name, folder, *versions)))
    FILE.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
