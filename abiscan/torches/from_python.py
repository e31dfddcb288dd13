"""The operators of a running torch, listed by an interpreter that has it, in a separate process.

This also shows what is missing in the libraries: decompositions, Meta kernels and everything else that is registered in
Python code when torch is imported. It imports torch, which nothing else in abiscan does.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Final

from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators
from abiscan.errors import InputError
from abiscan.inputs import programs
from abiscan.regex import regex

_SECONDS: Final = 600

# torch._C._dispatch_* exist since 1.8, _dispatch_is_alias_key since 2.1 (torch/csrc/utils/python_dispatch.cpp).
_ASK: Final = """
import json, sys, torch
C = torch._C
# Not DispatchKey.__members__: some keys are missing there, and some are there under two names.
named = {C._dispatch_key_name(C.DispatchKey(number)): number for number in range(256)}
keys = {
    name: C.DispatchKey(number) for name, number in named.items()
    if name == "Undefined" and not number or "Undefined" not in name and not name.upper().startswith("UNKNOWN")
}
keys["Undefined"] = C.DispatchKey(0)
aliases = [name for name in keys if C._dispatch_is_alias_key(keys[name])]
names = C._dispatch_get_all_op_names()
tags = {}
for name in names:
    base, _, overload = name.partition(".")
    found = C._get_operation_overload(base, overload) if C._dispatch_has_kernel(name) else None
    tags[name] = sorted(str(tag).rpartition(".")[2] for tag in found[2]) if found else []
# A fallback says where it was registered in the table of an operator that has no kernel of its own for its key.
fallbacks, wanted = {}, {
    name for name in keys.keys() - {"Undefined", "AutogradFunctionality", *aliases}
    if C._dispatch_has_backend_fallback(keys[name])
}
for name in names:
    if not wanted - fallbacks.keys():
        break
    for line in C._dispatch_dump_table(name).splitlines():
        if line.endswith(" [backend fallback]"):
            fallbacks[line.partition(":")[0]] = line
json.dump({
    "dumps": {name: C._dispatch_dump(name) for name in names},
    "tags": tags,
    "keys": {name: int(key) for name, key in keys.items()},
    "aliases": {
        alias: [
            name for name, key in keys.items()
            if name not in aliases and C._dispatch_is_included_in_alias(key, keys[alias])
        ] for alias in aliases
    },
    "fallbacks": fallbacks,
}, sys.stdout)
"""

# "CPU: registered at FILE:LINE :: SCHEMA [ boxed unboxed ]" (OperatorEntry::dumpState, KernelFunction::dumpState)
_KERNEL: Final = regex(
    r"(?P<key>\w+)(\[alias\])?( \(inactive\))?: (?P<fallthrough>fallthrough )?"
    r"registered (?:at (?P<file>.*?):(?P<line>\d+)|by RegisterOperators) :: (?P<schema>.*?) \[ (?P<flags>.*) \]"
)
# "BackendSelect: fallthrough registered at FILE:LINE [backend fallback]" (OperatorEntry::dumpComputedTable)
_FALLBACK: Final = regex(r"\w+: (?P<fallthrough>fallthrough )?registered at (?P<file>.*):(?P<line>\d+) \[.*\]")
_DEFINITION: Final = regex(r"debug: registered at (?P<file>.*):(?P<line>\d+)")


def read_operators(executable: str) -> Operators:
    """Return the operators of an interpreter's torch, which is imported for that.

    Kernels have no C++ signature, since torch does not report it.

    :raises InputError: the interpreter cannot be run, or its torch does not answer
    """
    try:
        answer = json.loads(programs.ask_python(executable, _ASK, seconds=_SECONDS))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        fix = "use a Python with torch 2.1 or newer, which has torch._C._dispatch_dump"
        raise InputError(executable, "could not list the operators of its torch", fix) from error
    return _make_operators(answer)


def _make_operators(answer: Mapping[str, Any]) -> Operators:
    dumps: dict[str, str] = answer["dumps"]
    return Operators(
        operators={operator.name: operator for operator in _dumped_operators(dumps, answer["tags"])},
        kernels=tuple(_dumped_kernels(dumps)),
        fallbacks=tuple(_make_fallback(key, line) for key, line in answer["fallbacks"].items()),
        namespaces={},
        classes=frozenset(),
        keys={number: name for name, number in answer["keys"].items()},
        aliases={alias: frozenset(members) for alias, members in answer["aliases"].items()},
        gaps=(),
    )


def _dumped_operators(dumps: Mapping[str, str], tags: Mapping[str, list[str]]) -> Iterator[Operator]:
    for name, dump in dumps.items():
        schema = re.search("^schema: (.*)$", dump, re.MULTILINE)
        if schema is not None and schema[1] != "(none)":
            place = re.search(f"^{_DEFINITION.pattern}$", dump, re.MULTILINE)
            yield Operator(
                name=name,
                schema=schema[1],
                tags=tuple(tags[name]),
                file=place["file"] if place else None,
                line=int(place["line"]) if place else None,
            )


def _make_fallback(key: str, line: str) -> Fallback:
    match = _FALLBACK.fullmatch(line)
    return Fallback(
        key=key,
        fallthrough=match is not None and match["fallthrough"] is not None,
        file=match["file"] if match else None,
        line=int(match["line"]) if match else None,
    )


def _dumped_kernels(dumps: Mapping[str, str]) -> Iterator[Kernel]:
    """Yield the kernels, oldest first as everywhere; a dump lists the newest kernel of a key first."""
    for name, dump in dumps.items():
        for match in filter(None, map(_KERNEL.fullmatch, reversed(dump.splitlines()))):
            yield Kernel(
                operator=name,
                key=match["key"],
                signature=None,
                schema=None if match["schema"] == "(none)" else match["schema"],
                fallthrough=match["fallthrough"] is not None or "fallthrough" in match["flags"],
                file=match["file"],
                line=int(match["line"]) if match["line"] else None,
            )
