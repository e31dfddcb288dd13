"""The operators of a running torch: asked of it, in a process of its own, by an interpreter that has it.

What the libraries alone do not show is here too: decompositions, Meta kernels and whatever else Python code registers
when torch is imported. It takes an import of torch, which nothing else in abiscan does.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Final

from abiscan.errors import InputError
from abiscan.releases.operators import Fallback, Kernel, Operator, Operators

_SECONDS: Final = 600

# torch._C._dispatch_* exist since 1.8, in this form since 2.0 (torch/csrc/utils/python_dispatch.cpp).
_ASK: Final = """
import json, sys, torch
C = torch._C
# Python's enumeration lacks some of the keys; the numbers where those of a functionality begin are those of no backend.
keys = {C._dispatch_key_name(C.DispatchKey(number)): C.DispatchKey(number) for number in range(255, -1, -1)}
keys = {name: key for name, key in keys.items() if not name.startswith("Unknown")}
keys = {name: key for name, key in keys.items() if name == "Undefined" or not name.endswith("Undefined")}
names = C._dispatch_get_all_op_names()
tags = {}
for name in names:
    base, _, overload = name.partition(".")
    found = C._get_operation_overload(base, overload) if C._dispatch_has_kernel(name) else None
    tags[name] = sorted(str(tag).rpartition(".")[2] for tag in found[2]) if found else []
json.dump({
    "dumps": {name: C._dispatch_dump(name) for name in names},
    "tags": tags,
    "keys": {name: int(key) for name, key in keys.items()},
    "aliases": {
        alias: [name for name, key in keys.items() if C._dispatch_is_included_in_alias(key, keys[alias])]
        for alias in keys if C._dispatch_is_alias_key(keys[alias])
    },
    "fallbacks": [name for name, key in keys.items() if C._dispatch_has_backend_fallback(key)],
}, sys.stdout)
"""

# "CPU: registered at FILE:LINE :: SCHEMA [ boxed unboxed ]" (OperatorEntry::dumpState, KernelFunction::dumpState)
_KERNEL: Final = re.compile(
    r"(?P<key>\w+)(\[alias\])?( \(inactive\))?: (?P<fallthrough>fallthrough )?"
    r"registered (?:at (?P<file>.*?):(?P<line>\d+)|by RegisterOperators) :: (?P<schema>.*?) \[ (?P<flags>.*) \]"
)
_FUNCTIONALITY: Final = "AutogradFunctionality"  # no key to register for; torch answers for its first backend
_DEFINITION: Final = re.compile(r"debug: registered at (?P<file>.*):(?P<line>\d+)")


def read_operators(executable: str) -> Operators:
    """The operators of the torch of an interpreter. Takes an import of torch.

    Kernels carry no C++ signature: torch does not tell it.

    :raises InputError: the interpreter cannot be run, or its torch does not answer
    """
    try:
        done = subprocess.run(  # noqa: S603 - the user names the interpreter to ask
            [executable, "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        fix = "give a Python with torch 2.0 or newer; it is asked for torch._C._dispatch_dump"
        raise InputError(executable, "does not say what its torch has", fix) from error
    return _operators(answer)


def _operators(answer: Mapping[str, Any]) -> Operators:
    dumps: dict[str, str] = answer["dumps"]
    aliases: dict[str, list[str]] = answer["aliases"]
    numbers: dict[int, str] = {}
    for name, number in answer["keys"].items():
        numbers.setdefault(number, name)
    return Operators(
        operators={operator.name: operator for operator in _definitions(dumps, answer["tags"])},
        kernels=tuple(_kernels(dumps)),
        fallbacks=tuple(
            Fallback(key=key, fallthrough=False, file=None, line=None)
            for key in answer["fallbacks"]
            if key != _FUNCTIONALITY
        ),
        namespaces={},
        classes=frozenset(),
        keys=numbers,
        # Of an alias torch says that every alias includes it: in a set of keys it has no bit.
        aliases={alias: frozenset(members) - aliases.keys() for alias, members in aliases.items()},
        gaps=(),
    )


def _definitions(dumps: Mapping[str, str], tags: Mapping[str, list[str]]) -> Iterator[Operator]:
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


def _kernels(dumps: Mapping[str, str]) -> Iterator[Kernel]:
    for name, dump in dumps.items():
        for match in filter(None, map(_KERNEL.fullmatch, dump.splitlines())):
            yield Kernel(
                operator=name,
                key=match["key"],
                signature=None,
                schema=None if match["schema"] == "(none)" else match["schema"],
                fallthrough=match["fallthrough"] is not None or "fallthrough" in match["flags"],
                file=match["file"],
                line=int(match["line"]) if match["line"] else None,
            )
