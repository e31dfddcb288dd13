"""The symbols of libstdc++ that came after GCC 5, for ``abiscan/binary/data/libstdcxx.txt``.

    python -m tools.record_libstdcxx /usr/lib/x86_64-linux-gnu/libstdc++.so.6

The newest libstdc++ has all of them, each with its version.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from abiscan.binary.elf import ElfFile
from abiscan.binary.libstdcxx import PATH

_OLD: Final = {"GLIBCXX_3.4": 21, "CXXABI_1.3": 9}
"""The last numbers of GCC 5."""
_VERSION: Final = re.compile(r"(GLIBCXX_3\.4|CXXABI_1\.3)\.(\d+)")


def main() -> None:
    """Read the library, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path, help="the newest libstdc++.so.6")
    lines = []
    symbols = ElfFile.open(parser.parse_args().library).facts().symbols
    for name in symbols.starting_with(""):
        for definition in symbols.find(name):
            match = _VERSION.fullmatch(definition.version or "")
            if match and int(match[2]) > _OLD[match[1]]:
                lines.append(f"{name} {definition.version}\n")
    PATH.write_text("".join(sorted(lines)), "utf-8")


if __name__ == "__main__":
    main()
