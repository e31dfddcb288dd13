"""Which operators a model calls: from a list of names, a TorchScript archive, or an exported program.

Archives are read as data: the code of a TorchScript archive is text, the graph of an exported program is JSON. Pickled
data in them is not read.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.files import UNPACKING
from abiscan.regex import regex

_MAX_MEMBERS: Final = 200_000
_MAX_BYTES: Final = 256 << 20  # read from one file in total
_MAX_NAME: Final = 200

_CODE: Final = regex(r"[^/]+/code/.*\.py")
_GRAPH: Final = regex(r"(?:[^/]+/)?(?:models/[^/]+\.json|serialized_exported_program\.json)")
_FIX: Final = (
    "pass a list of operators (aten::add.Tensor, one per line), or a file from torch.jit.save or torch.export.save"
)

_STRING: Final = regex(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
# How TorchScript prints a call of an operator (torch/csrc/jit/serialization/python_print.cpp).
_CALL: Final = regex(r"(?<![\w.])(?:torch\.(?P<aten>\w+)|ops\.(?P<namespace>\w+)\.(?P<name>\w+))\(")
_CONVERSION: Final = regex(r"(?<![\w.])(?P<type>bool|int|float|complex)\(")
_LISTED: Final = regex(r"(?:torch\.ops\.)?(?P<namespace>\w+)(?:::|\.)(?P<name>\w+)(?:\.(?P<overload>\w+))?", re.ASCII)
_TARGET: Final = regex(r"torch\.ops\.(?P<namespace>\w+)\.(?P<name>\w+)(?:\.(?P<overload>\w+))?", re.ASCII)
_NO_OVERLOAD: Final = "default"
_NO_DISPATCH: Final = "higher_order"


def read_workload(path: Path) -> tuple[str, ...]:
    """Return the operators in a file, sorted. TorchScript code has no overload names: such a name stands for all
    overloads.

    :raises InputError: it has none of the three formats, is damaged, or too large
    """
    try:
        with observed_fs.open_file(path) as stream:
            is_archive = stream.read(4) == b"PK\x03\x04"
            stream.seek(0)
            names = set(_read_archive(path, stream) if is_archive else _read_list(path, stream))
        return tuple(sorted(names))
    except ValueError as error:  # a path with a null character, which no file can have
        raise InputError(repr(str(path)), "is not a path", _FIX) from error
    except UNPACKING as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(str(path), f"cannot be read: {reason}", _FIX) from error


def _read_list(path: Path, stream: IO[bytes]) -> Iterator[str]:
    content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise InputError(str(path), "is too large for a list of operators", _FIX)
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(str(path), "is neither text nor an archive", _FIX) from error
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LISTED.fullmatch(text) if len(text) <= _MAX_NAME else None
        if match is None:
            raise InputError(f"{path}:{number}", f"is not an operator: {text[:_MAX_NAME]!r}", _FIX)
        yield _format_name(match)


def _format_name(match: re.Match[str]) -> str:
    name, overload = f"{match['namespace']}::{match['name']}", match["overload"]
    return f"{name}.{overload}" if overload and overload != _NO_OVERLOAD else name


def _read_archive(path: Path, file: IO[bytes]) -> Iterator[str]:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > _MAX_MEMBERS:
            raise InputError(str(path), f"has {len(members)} members, too many for a model", _FIX)
        code = [member for member in members if _CODE.fullmatch(member.filename)]
        graphs = [member for member in members if _GRAPH.fullmatch(member.filename)]
        if not code and not graphs:
            raise InputError(str(path), "is an archive with neither TorchScript code nor an exported graph", _FIX)
        remaining = _MAX_BYTES
        for member in code or graphs:
            with archive.open(member) as stream:
                content = stream.read(remaining + 1)  # the size in the header may be wrong
            remaining -= len(content)
            if remaining < 0:
                raise InputError(str(path), f"unpacks to more than {_MAX_BYTES >> 20} MiB", _FIX)
            yield from _in_code(content) if code else _in_graph(content, f"{path}!{member.filename}")


def _in_code(content: bytes) -> Iterator[str]:
    # Without its string literals, in which text may look like a call.
    text = _STRING.sub('""', content.decode("utf-8", "replace"))
    for match in _CALL.finditer(text):
        yield f"aten::{match['aten']}" if match["aten"] else f"{match['namespace']}::{match['name']}"
    # ``float(x)`` of a tensor is printed for aten::Float, a scalar conversion that is an operator too.
    for match in _CONVERSION.finditer(text):
        yield f"aten::{match['type'].capitalize()}"


def _in_graph(content: bytes, subject: str) -> Iterator[str]:
    try:
        pending = [json.loads(content)]
    except (ValueError, RecursionError) as error:
        raise InputError(subject, "is not the JSON of an exported program", _FIX) from error
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            pending += node.values()
            target = node.get("target")
            match = _TARGET.fullmatch(target) if isinstance(target, str) else None
            # Higher-order operators (cond, while_loop) take graphs and do not go through the dispatcher by name.
            if match is not None and match["namespace"] != _NO_DISPATCH:
                yield _format_name(match)
