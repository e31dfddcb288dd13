"""The operators of a torch, cached on disk between runs: reading them from the libraries takes seconds.

One file per torch: texts that occur often are stored once, and kernels as columns of numbers, which makes a few hundred
kilobytes, read in about ten milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from msgspec import Struct

from abiscan.cache.computed import KeptKind, get_or_compute
from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place, RegistryEntry, Rewording
from abiscan.inputs.files import Files
from abiscan.inputs.identity import identity_of
from abiscan.inputs.session import Session
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD
from abiscan.torches import embedded_operators
from abiscan.torches.embedded_operators import EmbeddedOperators
from abiscan.torches.from_libs import identify_libraries, operator_libraries, read_operators
from abiscan.torches.model import TorchRelease

# The columns of texts, which are stored as numbers: see the types.
_OPERATOR_TEXTS: Final = (0, 1, 3)
_KERNEL_TEXTS: Final = (0, 1, 2, 3, 5)
_FALLBACK_TEXTS: Final = (0, 2)


class OwnOperators(Struct, frozen=True, kw_only=True, dict=True):
    """The operators of a torch with files of its own: embedded if its build is, else read from its libraries.

    :raises InputError: a library cannot be read
    """

    release: TorchRelease
    files: Files
    session: Session

    def look_up(self, names: Collection[str] | None = None) -> Operators:
        """Return the operators that are needed, others may be left out; all for None."""
        # Looking a few operators up in the embedded data is faster than reading the cache.
        return self._all if names is None or self.embedded is None else self.embedded.look_up(names)

    def names(self) -> frozenset[str]:
        """Return the names of all operators, with overloads."""
        return self._names

    def has(self, name: str) -> bool:
        """Whether there is an operator, or an overload of it."""
        if self.embedded is not None:
            return self.embedded.has(name)
        return name.removesuffix(DEFAULT_OVERLOAD) in self._names or any(
            operator.startswith(f"{name}.") for operator in self._names
        )

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the operators."""
        return frozenset(name.partition("::")[0] for name in self._names)

    @cached_property
    def embedded(self) -> EmbeddedOperators | None:
        """Those of the embedded build whose libraries it has; None if they are others."""
        machine, identified = self.release.machine, identify_libraries(self.release, self.files)
        build = embedded_operators.find_build(identified, machine, self.release.build)
        return None if build is None else EmbeddedOperators(build, machine)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names, which are a table of their own in the embedded data."""
        return frozenset(self._all.operators) if self.embedded is None else self.embedded.names()

    @cached_property
    def _all(self) -> Operators:
        """All of them, from the cache of an earlier run, or cached for the next one."""
        # The version is part of the key, since it decides how dispatch keys are called.
        sources = map(self.files.find_source, operator_libraries(self.release))
        identity = " ".join((self.release.version or "", *(identity_of(source) for source in sources if source)))
        return get_or_compute(self.session.folder, KIND, identity, self._read_all)

    def _read_all(self) -> Operators:
        if self.embedded is not None:
            return self.embedded.look_up()
        self.session.progress(f"reading the operators of {self.release} from its libraries (only once)")
        return read_operators(self.release, self.files)


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
