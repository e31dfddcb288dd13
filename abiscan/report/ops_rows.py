"""The objects of the JSON of ``abiscan ops``, version 1: of an extension and of torch itself they are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

VERSION: Final = 1


def operator_row(
    *,
    name: str,
    schema: str | None,
    inferred: bool,
    jit_only: bool,
    tags: Sequence[str],
    file: str | None,
    line: int | None,
    phase: str,
) -> dict[str, Any]:
    """An operator; ``schema`` as torch prints it."""
    return {
        "name": name,
        "schema": schema,
        "inferred": inferred,
        "jit_only": jit_only,
        "tags": list(tags),
        "file": file,
        "line": line,
        "phase": phase,
    }


def kernel_row(
    *,
    operator: str,
    key: str | None,
    signature: str | None,
    inferred_schema: str | None,
    boxed: bool,
    fallthrough: bool,
    file: str | None,
    line: int | None,
    phase: str,
) -> dict[str, Any]:
    """A kernel; ``signature`` is its C++ type, mangled."""
    from abiscan.mangling import demangle_type  # noqa: PLC0415 - loads a library of C++, which the text does without

    return {
        "operator": operator,
        "dispatch_key": key,
        "signature": demangle_type(signature) if signature else None,
        "inferred_schema": inferred_schema,
        "boxed": boxed,
        "fallthrough": fallthrough,
        "file": file,
        "line": line,
        "phase": phase,
    }


def fallback_row(
    *, key: str | None, fallthrough: bool, file: str | None, line: int | None, phase: str
) -> dict[str, Any]:
    """A fallback."""
    return {"dispatch_key": key, "fallthrough": fallthrough, "file": file, "line": line, "phase": phase}
