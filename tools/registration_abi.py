"""What registration depends on and no dump of layouts shows, for ``data/layouts``: read from the headers of a torch.

A row looks like that of a class:

* an enumeration, ``c10::TypeKind``: its enumerators are members, each at its value
* a function that inlined code calls, ``c10::getCustomClassTypeMap()``: its result, which no mangled name has
* ``c10::optional<…>``: whether an object is passed in registers or in memory, which no size shows

Nothing is linked or run: the compiler writes the answers into the text of its assembler, as ``__PRETTY_FUNCTION__``.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from abiscan.torches.clang import Include
from abiscan.torches.class_dumps import ClassRow
from abiscan.torches.layout_changes import PASSED, RESULT

ENUMERATION: Final = "c10::TypeKind"
FUNCTION: Final = "c10::getCustomClassTypeMap()"
OPTIONALS: Final = tuple(
    f"c10::optional<{name}>"
    for name in (
        *("c10::DispatchKey", "c10::MemoryFormat", "c10::ScalarType", "c10::Layout", "c10::Device"),
        *("bool", "long", "double"),
    )
)
_MOST: Final = 96  # enumerators

_SOURCE: Final = r"""
#include <ATen/ATen.h>
#include <ATen/core/op_registration/op_registration.h>
#if __has_include(<torch/custom_class_detail.h>)  // before, what includes it needs Python
#include <torch/custom_class_detail.h>
#endif
template <class T> struct IsInRegisters {
  // Itanium C++ ABI, 1.1: trivial for the purposes of calls.
  static constexpr bool value = std::is_trivially_destructible<T>::value &&
      (std::is_trivially_copy_constructible<T>::value || !std::is_copy_constructible<T>::value) &&
      (std::is_trivially_move_constructible<T>::value || !std::is_move_constructible<T>::value);
};
template <int number, class T, bool flag> const char* said() { return __PRETTY_FUNCTION__; }
template <c10::TypeKind kind> const char* kind_of() { return __PRETTY_FUNCTION__; }
"""
_OPTIONAL: Final = "auto optional{0} = said<{0}, {1}, IsInRegisters<{1}>::value>;"
_KIND: Final = "auto kind{0} = kind_of<static_cast<c10::TypeKind>({0})>;"
_RESULT: Final = f"auto result = said<-1, decltype({FUNCTION}), false>;"
_SAID: Final = re.compile(r"said\(\) \[number = (-?\d+), T = (.*?), flag = (true|false)\]")
_PROBE: Final = "probe.cc"
_ERROR: Final = re.compile(rf"^{_PROBE}:(\d+):\d+: error:", re.MULTILINE)
_KIND_SAID: Final = re.compile(r"kind_of\(\) \[kind = (?:c10::TypeKind::)?([A-Za-z]\w*)\]")


def read(include: Include, clang: str) -> dict[str, ClassRow]:
    """Return the rows of a torch; those of optionals are to be added to what a compiler says of the class.

    :raises SystemExit: the headers do not compile
    """
    lines = [
        *_SOURCE.splitlines(),
        *(_KIND.format(number) for number in range(_MOST)),
        *(_OPTIONAL.format(number, name) for number, name in enumerate(OPTIONALS)),
        _RESULT,
    ]
    done = _compile(include, clang, lines)
    if done.returncode:
        # The torch does not have what is asked for in these lines.
        bad = {int(line) for line in _ERROR.findall(done.stderr)}
        done = _compile(include, clang, ["" if number in bad else line for number, line in enumerate(lines, 1)])
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(_rows(done.stdout))


def _compile(include: Include, clang: str, lines: Sequence[str]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, _PROBE).write_text("\n".join(lines))
        command = [clang, *include.flags, "-S", "-o", "-", _PROBE]
        return subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)


def _rows(text: str) -> Iterator[tuple[str, ClassRow]]:
    kinds = tuple(dict.fromkeys(_KIND_SAID.findall(text)))
    if kinds:
        enumerators = ((name, number, "enumerator", None) for number, name in enumerate(kinds))
        yield ENUMERATION, ClassRow(4, 4, (), tuple(enumerators))
    for number, name, in_registers in _SAID.findall(text):
        if int(number) < 0:
            yield FUNCTION, ClassRow(8, 8, (), ((RESULT, 0, name, None),))
        elif name.startswith("c10::"):  # since 2.2, it is another name of std::optional
            way = "in registers" if in_registers == "true" else "in memory"
            yield OPTIONALS[int(number)], ClassRow(0, 0, (), ((PASSED, 0, way, None),))


def joined(records: Mapping[str, ClassRow], added: Mapping[str, ClassRow]) -> dict[str, ClassRow]:
    """Return the classes of a torch together with the rows of ``read``."""
    result = dict(records)
    for name, row in added.items():
        if name not in OPTIONALS:
            result[name] = row
        elif name in result:
            known = result[name]
            result[name] = known._replace(fields=(*known.fields, *row.fields))
    return result
