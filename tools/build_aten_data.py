"""Make ``abiscan/emulation/data/aten.txt``: the names of the operators that have a struct in ``at::_ops``.

The struct of ``aten::add_.Tensor`` is ``at::_ops::add__Tensor``: the full name, with an underscore for the point. So
the names are needed to tell where a struct's name has the point, if anywhere. They are read from ``ATen/ops/*_ops.h``
(up to 1.10 ``ATen/Operators.h``) of every release given, as a wheel or as an archive of its headers; give all of them
for both machines from 1.10 on, for patch releases and machines differ in some.

    python -m tools.build_aten_data ARCHIVE...
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from abiscan.emulation import aten

OUTPUT: Final = Path(aten.__file__).with_name("data") / "aten.txt"
_HEADERS: Final = ("_ops.h", "/ATen/Operators.h")
_STRUCT: Final = re.compile(r"struct TORCH_API (\w+) \{\n  using schema = .*?\n\};", re.DOTALL)
# STATIC_CONSTEXPR_STR_INL_EXCEPT_WIN_CUDA(name, "aten::add"), later static constexpr const char* name = "aten::add";
_TEXT: Final = re.compile(r'\b(name|overload_name)(?:, | = )"([^"]*)"')


def headers(archive: Path) -> Iterator[str]:
    """The texts of the headers in an archive that define the structs."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in filter(lambda name: name.endswith(_HEADERS), wheel.namelist()):
                yield wheel.read(name).decode("utf-8")
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.name.endswith(_HEADERS) else None
                if file is not None:
                    yield file.read().decode("utf-8")


def operators(header: str) -> Iterator[str]:
    """The full names of the operators whose structs a header defines."""
    for match in _STRUCT.finditer(header):
        texts = dict(_TEXT.findall(match[0]))
        name = texts["name"] + ("." if texts["overload_name"] else "") + texts["overload_name"]
        assert aten.struct_of(name) == match[1], f"at::_ops::{match[1]} is {name}"
        yield name


def main() -> int:
    """Write the file."""
    names: set[str] = set()
    for archive in map(Path, sys.argv[1:]):
        found = {name for header in headers(archive) for name in operators(header)}
        assert found, f"{archive}: no struct of an operator in its headers"
        names |= found
    OUTPUT.write_text("".join(f"{name}\n" for name in sorted(names)), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
