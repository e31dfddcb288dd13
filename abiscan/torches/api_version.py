"""Versions of an operator's interface: short fingerprints of its schema and of how it is dispatched.

If an operator has the same version in two releases, neither its callers nor its other kernels can see a difference. The
first half is for the schema as torch prints it; the second for the dispatch strategy: which keys have kernels (so
whether the operator is composite or has one kernel per backend), and which of them fall through. Source lines are left
out, and so are kernels for CUDA devices: the operator is the same in builds with and without CUDA.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from abiscan.dispatch.operators import Kernel, Operators
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.regex import regex

# The keys of kernels in libtorch_cuda.so. Autograd and Autocast for CUDA are in every build.
_CUDA_KEY: Final = regex(r"(?!Auto)\w*CUDA\w*")
_CUDA: Final = ("CUDA", "CUDATensorId")
# Older names: of these keys in 1.8, and the suffix of all keys in 1.4 (c10/core/DispatchKey.h, TensorTypeId.h).
_RENAMED: Final = {"Math": "CompositeImplicitAutograd", "DefaultBackend": "CompositeExplicitAutograd"}
_OLD_SUFFIX: Final = "TensorId"
_CATCH_ALL: Final = "(catch all)"
# Schemas that torch prints unchanged: most schemas, and parsing them would take longer than everything else.
_TYPE: Final = (
    r"(?:(?:Tensor|SymInt|Scalar|ScalarType|Layout|Device|MemoryFormat|Generator)(?:\([a-z]!?\)|\(a -> \*\))?"
    r"|int|float|bool|str|__torch__\.[\w.]+)(?:\[[0-9]*\])?\??(?:\[\])?"
)
_ARGUMENT: Final = (
    rf"(?:\*|(?:int|SymInt|Scalar)\?? \w+=(?:0|-?[1-9][0-9]{{0,8}})|{_TYPE} \w+(?:=(?:None|True|False|\[\]))?)"
)
_RESULT: Final = rf"{_TYPE}(?: \w+)?"
_AS_PRINTED: Final = regex(
    rf"[\w:]+(?:\.\w+)?\((?:{_ARGUMENT}(?:, {_ARGUMENT})*)?\) -> (?:{_RESULT}|\(\)|\({_RESULT}(?:, {_RESULT})+\))",
    re.ASCII,
)
_DIGITS: Final = 8


class ApiVersion(NamedTuple):
    """The version of one operator: hexadecimal digests of its schema and of its dispatch strategy."""

    schema: str
    dispatch: str

    def __str__(self) -> str:
        return f"{self.schema}-{self.dispatch}"


def api_versions(result: Operators, names: Collection[str] | None = None) -> dict[str, ApiVersion]:
    """Return the versions of the operators of a torch, by name.

    :param names: only these operators; None for all
    """
    kernels = kernels_of(result)
    return {
        name: ApiVersion(
            _hash_text(format_schema(operator.schema) or ""),
            _hash_text("\n".join(dispatch_strategy(kernels.get(name, ())))),
        )
        for name, operator in result.operators.items()
        if names is None or name in names
    }


def combine_versions(versions: Mapping[str, ApiVersion]) -> str:
    """Return one version for several operators together."""
    return _hash_text("\n".join(f"{name} {version}" for name, version in sorted(versions.items())))


def kernels_of(results: Operators) -> Mapping[str, list[Kernel]]:
    """Return the kernels of each operator."""
    kernels: defaultdict[str, list[Kernel]] = defaultdict(list)
    for kernel in results.kernels:
        kernels[kernel.operator].append(kernel)
    return kernels


def has_cuda(result: Operators) -> bool:
    """Whether a torch is a build with CUDA."""
    # c10d's kernels for CUDA are in every build.
    return any(kernel.key in _CUDA and kernel.operator.startswith("aten::") for kernel in result.kernels)


def dispatch_strategy(kernels: Iterable[Kernel], *, with_cuda: bool = False) -> list[str]:
    """Return how an operator with these kernels is dispatched: a word for each key, sorted.

    :param with_cuda: include kernels for CUDA devices, which only some builds have
    """
    fallthroughs = {kernel.key or _CATCH_ALL: kernel.fallthrough for kernel in kernels}
    return sorted(
        _RENAMED.get(key, key.removesuffix(_OLD_SUFFIX)) + (" (fallthrough)" if fallthrough else "")
        for key, fallthrough in fallthroughs.items()
        if with_cuda or not _CUDA_KEY.fullmatch(key)
    )


def format_schema(schema: str | None) -> str | None:
    """Return a schema as torch prints it; the text itself if torch would reject it."""
    if schema is None or _AS_PRINTED.fullmatch(schema):
        return schema
    try:
        return str(FunctionSchema.parse(schema))
    except SchemaError:
        return schema


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
