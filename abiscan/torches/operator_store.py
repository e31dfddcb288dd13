"""The operators of a torch, cached on disk between runs: reading them from the libraries takes seconds.

One file per torch: texts that occur often are stored once, and kernels as columns of numbers, which makes a few hundred
kilobytes, read in about ten milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from abiscan.cache.computed import KeptKind, get_or_compute
from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place, RegistryEntry, Rewording
from abiscan.inputs.files import Files
from abiscan.inputs.identity import identity_of
from abiscan.inputs.session import Session
from abiscan.torches import embedded_operators
from abiscan.torches.from_libs import identify_libraries, operator_libraries, read_operators
from abiscan.torches.model import TorchRelease

# The columns of texts, which are stored as numbers: see the types.
_OPERATOR_TEXTS: Final = (0, 1, 3)
_KERNEL_TEXTS: Final = (0, 1, 2, 3, 5)
_FALLBACK_TEXTS: Final = (0, 2)


def operators_of(
    release: TorchRelease,
    files: Files,
    session: Session,
    names: Collection[str] | None = None,
) -> Operators:
    """Return the operators of a torch, from the cache of an earlier run, or cached for the next one.

    The operators of an embedded build come from the embedded data, others are read from the libraries.

    :param names: the operators that are needed; others may be left out. Looking up a few in the embedded data is faster
    :raises InputError: a library cannot be read
    """
    build = identify_libraries(release, files)
    # Looking a few operators up in the embedded data is faster than reading the cache.
    if names is not None and (embedded := embedded_operators.find_build(build, release.machine)):
        return embedded_operators.operators(embedded, release.machine, names)

    def read_libraries() -> Operators:
        if names is None and (embedded := embedded_operators.find_build(build, release.machine)):
            return embedded_operators.operators(embedded, release.machine, None)
        session.progress(f"reading the operators of {release} from its libraries (only once)")
        return read_operators(release, files)

    # The version is part of the key, since it decides how dispatch keys are called.
    sources = [source for path in operator_libraries(release) if (source := files.find_source(path)) is not None]
    identity = " ".join((release.version or "", *map(identity_of, sources)))
    return get_or_compute(session.folder, KIND, identity, read_libraries)


def pack(operators: Operators) -> bytes:
    """Return the bytes of a file."""
    # Each text once, by its number: the names of operators, files and keys repeat thousands of times.
    texts: dict[str | None, int] = {None: 0}

    def make_columns(rows: Iterable[Sequence[Any]], text_columns: Collection[int]) -> list[list[Any]]:
        return [
            [texts.setdefault(value, len(texts)) for value in column] if number in text_columns else list(column)
            for number, column in enumerate(zip(*rows, strict=True))
        ]

    content = {
        "operators": make_columns(operators.operators.values(), _OPERATOR_TEXTS),
        "kernels": make_columns(operators.kernels, _KERNEL_TEXTS),
        "fallbacks": make_columns(operators.fallbacks, _FALLBACK_TEXTS),
        "namespaces": operators.namespaces,
        "classes": sorted(operators.classes),
        "keys": list(operators.keys.items()),
        "aliases": {alias: sorted(members) for alias, members in operators.aliases.items()},
        "gaps": operators.gaps,
        "entries": operators.entries,
        "build": operators.build,
        "assertions": operators.assertions,
        "unworded": sorted(operators.unworded),
        "reworded": operators.reworded,
        "assumed": sorted(operators.assumed),
        "texts": list(texts),
    }
    return json.dumps(content, separators=(",", ":")).encode()


def unpack(contents: bytes) -> Operators:
    """Return the inverse of ``pack``.

    :raises ValueError: (or another built-in error) the bytes are not such a file
    """
    content = json.loads(contents)
    texts: list[Any] = content["texts"]

    def read_rows(name: str, text_columns: Collection[int]) -> Iterator[tuple[Any, ...]]:
        columns = (
            map(texts.__getitem__, column) if number in text_columns else column
            for number, column in enumerate(content[name])
        )
        return zip(*columns, strict=True)

    operators = (Operator(*row)._replace(tags=tuple(row[2])) for row in read_rows("operators", _OPERATOR_TEXTS))
    return Operators(
        operators={operator.name: operator for operator in operators},
        kernels=tuple(map(Kernel._make, read_rows("kernels", _KERNEL_TEXTS))),
        fallbacks=tuple(map(Fallback._make, read_rows("fallbacks", _FALLBACK_TEXTS))),
        namespaces={name: Place(*place) for name, place in content["namespaces"].items()},
        classes=frozenset(content["classes"]),
        keys=dict(content["keys"]),
        aliases={alias: frozenset(members) for alias, members in content["aliases"].items()},
        gaps=tuple(content["gaps"]),
        entries=None if content["entries"] is None else tuple(map(RegistryEntry._make, content["entries"])),
        build=content.get("build"),
        assertions=content["assertions"],
        unworded=frozenset(content["unworded"]),
        reworded={id_: tuple(map(Rewording._make, parts)) for id_, parts in content["reworded"].items()},
        assumed=frozenset(content["assumed"]),
    )


KIND: Final = KeptKind(suffix=".operators", version=9, encode=pack, decode=unpack)
"""How they are cached."""
