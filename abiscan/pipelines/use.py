"""What an extension uses of torch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from abiscan.extension.examined import ExaminedTarget
from abiscan.python.later.later_names import failing_uses
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer
from abiscan.python.package.sources import PackageFiles
from abiscan.python.torch_api.operator_calls import operator_named
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.results.diff import Break
from abiscan.verdict.package_reading import CodeFiles


class Use(Struct, frozen=True, kw_only=True):
    """What an extension uses: the symbols it imports, the operators it registers for or looks up by name.

    ``names`` are the Python names of torch that the code of its package mentions.

    :ivar code: the Python code of its package; None if it has none
    :ivar libraries: the files that use a symbol, or an operator
    """

    symbols: Collection[str]
    operators: Collection[str]
    names: Collection[str] = ()
    code: PythonCode | None = None
    libraries: Mapping[str, Sequence[str]] = {}

    def find_breaks(self, old: TorchNames | None, new: TorchNames | None) -> Iterator[Break]:
        """Yield the uses in Python code that work in one torch and fail in another."""
        if self.code is None or old is None or new is None:
            return
        uses = sorted(failing_uses(self.code, new) - failing_uses(self.code, old))
        for (name, error), group in groupby(uses, attrgetter("name", "error")):
            if operator_named(name) and not error:  # a break of an operator: see ``operators_in_code``
                continue
            places = tuple(f"{use.file}:{use.line}" for use in group)
            yield Break(kind="call" if error else "name", name=name, error=error or None, places=places)

    def operators_in_code(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the operators that Python code names, with an overload if it names one, and the lines that do."""
        for use in sorted(self.names):
            if self.code is None or not use.startswith("torch.ops.") or use.count(".") < 3:
                continue
            _, _, namespace, name, *overload = use.split(".")[:5]
            files = {file: self.code.source(file) for file in self.code.files_using(use)}
            word = re.compile(rb"\b%b\b" % re.escape(use.partition(".ops.")[2].encode()))
            lines = (
                (file, 1 + source.count(b"\n", 0, match.start()))
                for file, source in files.items()
                for match in word.finditer(source)
            )
            suffix = f".{overload[0]}" if overload and overload[0] != "default" else ""
            yield f"{namespace}::{name}{suffix}", tuple(f"{file}:{line}" for file, line in lines)


def use_of(examined: ExaminedTarget) -> Use:
    """Return what the extensions of a target use, together."""
    operators: dict[str, list[str]] = {}
    symbols: dict[str, list[str]] = {}
    for extension in examined.extensions:
        registrations = extension.inventory.registrations
        # Kernels for operators of others, operators of its own, and those that it looks up: these depend on a schema.
        for name in {
            *(kernel.operator for kernel in registrations.kernels),
            *(operator.name for operator in registrations.operators),
            *(lookup.operator for lookup in registrations.lookups),
        }:
            operators.setdefault(name, []).append(extension.path)
        for name in extension.facts.imports:
            symbols.setdefault(name, []).append(extension.path)
    package = examined.target.package
    files = PackageFiles(CodeFiles(package)) if package else None
    code = PythonCode(files, files.top_level(), Answer.UNKNOWN) if files else None
    names = code.all_torch_uses if code else frozenset[str]()
    libraries = symbols | operators
    return Use(symbols=symbols.keys(), operators=operators.keys(), names=names, code=code, libraries=libraries)
