"""Make ``abiscan/torches/data/stable_abi.txt``: what the headers of torch say about its stable ABI.

    python -m tools.build_stable_data

Reads the headers of a release of each minor version with a stable ABI out of the wheel on the package index, of which
only these parts are received; ``tools.release`` has those of its own release. From the newest release come the C
functions that ``TORCH_TARGET_VERSION`` gates, those that are deprecated, and those that headers take, instead of an
older one, as soon as the target version has them (``target``); from all releases, since when there is a wrapper for an
operator: the release that it runs on, and the one whose headers have it. A minor version is released on the day on
which the first wheel of it was uploaded to the package index.
"""

from __future__ import annotations

import itertools
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from abiscan.binary.elf import Machine
from abiscan.index.client import Index, settings_of_pip
from abiscan.index.system import System
from abiscan.inputs.version import MinorVersion, TorchVersion
from abiscan.torches import embedded, embedded_operators, shims

OUTPUT: Final = Path(shims.__file__).with_name("data") / "stable_abi.txt"
_FIRST: Final[MinorVersion] = (2, 9)  # with torch/csrc/stable/ops.h
_FIRST_FUNCTIONS: Final[MinorVersion] = (2, 2)  # that are exported to this day
_INCLUDE: Final = "torch/include/torch/csrc/"
_C_HEADERS: Final = re.compile(r"stable/c/shim\.h|inductor/aoti_torch/.+\.h")
_CPP_HEADERS: Final = re.compile(r"stable/\w+\.h")
_OPERATORS: Final = "stable/ops.h"
_DEPRECATED: Final = "inductor/aoti_torch/c/shim_deprecated.h"

_GATE: Final = re.compile(r"#\s*if.*TORCH_FEATURE_VERSION >= TORCH_VERSION_(\d+)_(\d+)_0")
_FUNCTION: Final = re.compile(r"\b((?:aoti_torch|torch)_\w+)\s*\(")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LOOKED_UP: Final = re.compile(r"\bTORCH_DYNAMIC_VERSION_CALL_(\d+)_(\d+)_0\(\s*(\w+)")
_TYPE: Final = re.compile(r"\b(?:namespace|class|struct|enum|union|extern)\b[^()]*$")
_WRAPPER: Final = re.compile(r"((?:^//[^\n]*\n)*)^inline [^;{]*?\b(\w+)\([^;{]*?\{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_MINIMUM: Final = re.compile(r"Minimum compatible version: PyTorch (\d+\.\d+)")
_CALLED: Final = re.compile(r'"(aten::\w+)",\s*"(\w*)"')
_CALLED_SHIM: Final = re.compile(r"\baoti_torch_aten_(\w+)\(")

Headers = Mapping[str, str]
"""The texts of headers, by their paths in ``torch/csrc``."""


def gates(text: str) -> Iterator[tuple[str, str]]:
    """The functions of a header that need a target version, with that version."""
    for line, conditions in _lines(text):
        if function := _FUNCTION.search(line):
            version = next((condition.gate for condition in reversed(conditions) if condition.gate), None)
            if version:
                yield function[1], version


def taken_by_themselves(text: str) -> Iterator[tuple[str, str]]:
    """The functions that a header calls only because the target version has them, with that version.

    Those are calls under a condition within a function, or with an alternative: what needs them is there without, too.
    """
    scopes: list[bool] = []  # of the open braces: whether each is of a function
    statement = ""
    for line, conditions in _lines(_COMMENT.sub("", text)):
        within = any(scopes)
        for condition in conditions:
            condition.within_function |= condition.is_new and within
            condition.is_new = False
        version = next(
            (each.gate for each in reversed(conditions) if each.gate and (each.within_function or each.has_else)), None
        )
        if version:
            yield from ((name, version) for name in _FUNCTION.findall(line))
        if line.lstrip().startswith("#") or line.endswith("\\"):
            continue
        for character in line:
            if character == "{":
                scopes.append(within or any(scopes) or not _TYPE.search(statement))
                statement = ""
            elif character == "}":
                if scopes:
                    scopes.pop()
                statement = ""
            else:
                statement = "" if character == ";" else statement + character
        statement += " "
    yield from ((match[3], f"{match[1]}.{match[2]}") for match in _LOOKED_UP.finditer(text))


@dataclass(slots=True, kw_only=True)
class _Condition:
    """An ``#if``: the target version that it asks for, if it does, and whether there is an ``#else``."""

    gate: str | None
    has_else: bool = False
    within_function: bool = False
    is_new: bool = True


def _lines(text: str) -> Iterator[tuple[str, list[_Condition]]]:
    """The lines of code, each with the conditions that it is under."""
    lines = text.splitlines()
    with_else = set(_with_else(lines))
    open_conditions: list[_Condition] = []
    for number, line in enumerate(lines):
        directive = line.lstrip()
        if directive.startswith("#if"):
            gate = _GATE.match(directive)
            version = f"{gate[1]}.{gate[2]}" if gate else None
            open_conditions.append(_Condition(gate=version, has_else=number in with_else))
        elif directive.startswith(("#else", "#elif")) and open_conditions:
            open_conditions[-1].gate = None
        elif directive.startswith("#endif") and open_conditions:
            open_conditions.pop()
        elif not directive.startswith(("//", "*")):
            yield line, open_conditions


def _with_else(lines: Iterable[str]) -> Iterator[int]:
    opened: list[int] = []
    for number, line in enumerate(lines):
        directive = line.lstrip()
        if directive.startswith("#if"):
            opened.append(number)
        elif directive.startswith(("#else", "#elif")) and opened:
            yield opened[-1]
        elif directive.startswith("#endif") and opened:
            opened.pop()


def wrappers(text: str, operators: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """By operator: the function of ``ops.h`` for it, and the release since which it runs, as far as it is stated.

    :param operators: the names of operators, by the names that they have in C
    """
    found: dict[str, tuple[str, str | None]] = {}
    for comment, name, body in _WRAPPER.findall(text):
        minimum = _MINIMUM.search(comment)
        called = [f"{operator}.{overload}".rstrip(".") for operator, overload in _CALLED.findall(body)]
        called += [operators[flat] for flat in _CALLED_SHIM.findall(body) if flat in operators]
        for operator in called:
            found.setdefault(operator, (name, minimum[1] if minimum else None))
    return found


def _operator_names() -> dict[str, str]:
    newest = str(embedded.versions(Machine.X86_64)[-1])
    names = embedded_operators.names(newest, Machine.X86_64)
    return {name.removeprefix("aten::").replace(".", "_"): name for name in names if name.startswith("aten::")}


def read(package: Path) -> Headers:
    """The headers of an unpacked package, all that may matter."""
    root = package / "include/torch/csrc"
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in sorted(root.glob("**/*.h"))}


def _of_index(release: str, index: Index) -> Headers:
    public = [each for each in index.candidates(Requirement(f"torch=={release}")) if each.version.local is None]
    with index.wheel(public[0]).stream() as stream, zipfile.ZipFile(stream) as wheel:
        names = [name for name in wheel.namelist() if name.startswith(_INCLUDE)]
        paths = {name: name.removeprefix(_INCLUDE) for name in names}
        wanted = [name for name, path in paths.items() if _C_HEADERS.fullmatch(path) or _CPP_HEADERS.fullmatch(path)]
        return {paths[name]: wheel.read(name).decode() for name in wanted}


def _released(index: Index) -> dict[str, str]:
    """The days on which the minor versions with C functions were released (PEP 700)."""
    page = index.web.get(
        f"{index.settings.index_urls[0].rstrip('/')}/torch/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
    )
    days: dict[MinorVersion, str] = {}
    for file in page.json()["files"]:
        version = TorchVersion.parse(file["filename"].split("-")[1])
        if file["filename"].endswith(".whl") and version and version.minor_version >= _FIRST_FUNCTIONS:
            day = file["upload-time"][:10]
            days[version.minor_version] = min(day, days.get(version.minor_version, day))
    return {f"{major}.{minor}": days[major, minor] for major, minor in sorted(days)}


def lines(headers: Mapping[str, Headers], released: Mapping[str, str]) -> Iterator[str]:
    """The data file.

    :param headers: by release, oldest first
    """
    newest = list(headers.values())[-1]
    c_headers = [text for path, text in sorted(newest.items()) if _C_HEADERS.fullmatch(path)]
    cpp_headers = [text for path, text in sorted(newest.items()) if _CPP_HEADERS.fullmatch(path)]
    gated = dict(itertools.chain.from_iterable(map(gates, c_headers)))
    implied = set(itertools.chain.from_iterable(map(taken_by_themselves, cpp_headers)))
    operators = _operator_names()
    by_release = {release: wrappers(texts[_OPERATORS], operators) for release, texts in headers.items()}
    yield "# Made by tools/build_stable_data.py from the headers of torch " + ", ".join(headers)
    yield from (f"released {release} {date}" for release, date in released.items())
    yield from (f"gate {name} {version}" for name, version in sorted(gated.items()))
    yield from (f"target {name} {version}" for name, version in sorted(implied) if gated.get(name) == version)
    yield from (f"deprecated {name}" for name in sorted(set(_FUNCTION.findall(newest[_DEPRECATED]))))
    for operator, (name, minimum) in sorted(list(by_release.values())[-1].items()):
        first = next(release for release, found in by_release.items() if operator in found)
        minor = ".".join(first.split(".")[:2])
        yield f"wrapper {operator} {name} {minimum or minor} {minor}"


def write(known: Mapping[str, Headers]) -> None:
    """Write the data file, for the releases that are embedded.

    :param known: headers that need not be received, by release
    """
    newest_of: dict[MinorVersion, str] = {}
    for version in embedded.versions(Machine.X86_64):
        if version.minor_version >= _FIRST:
            newest_of[version.minor_version] = version.number
    with tempfile.TemporaryDirectory() as scratch:
        index = Index(settings_of_pip(None), System.of((3, 11), "manylinux_2_28_x86_64"), Path(scratch))
        headers = {
            release: known[release] if release in known else _of_index(release, index) for release in newest_of.values()
        }
        text = list(lines(headers, _released(index)))
    OUTPUT.write_text("".join(f"{line}\n" for line in text), "utf-8")
    print(f"{OUTPUT.name}: {len(text)} lines from the headers of torch {', '.join(headers)}", flush=True)


if __name__ == "__main__":
    write({})
