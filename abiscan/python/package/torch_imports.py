"""What modules of torch import that torch does not bring, and what else its distribution brings.

Some need packages that torch does not require, such as setuptools. What ``import torch`` itself imports is there, or
there would be no question. Only those imports count that every import of a module executes: the statements of its body,
outside of ``if`` and ``try``.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.inputs import observed_fs
from abiscan.python.language.dynamic_names import absolute_name
from abiscan.python.language.grammar import FAILURES, parse
from abiscan.python.package.model import Answer
from abiscan.python.torch_api.torch_names import list_prefixes
from abiscan.regex import regex

_MOST_MODULES: Final = 40
"""The modules that one of them is followed to: most import half of torch, and nothing else."""
_STATEMENT: Final = regex(rb"(?m)^(?:import|from)\b[^\n(#]*(?:\([^)]*\))?")
_SHIPPED_WITH_TORCH: Final = {"caffe2": ((1, 4), (1, 12)), "torchgen": ((1, 12), None), "functorch": ((1, 13), None)}
"""The other top-level modules that torch's wheels have: the first release that has them, and the last."""


def is_of_torch(module: str) -> bool:
    """Whether a module is torch, or one in it."""
    return module == "torch" or module.startswith("torch.")


def comes_with_torch(module: str, version: str | Answer) -> bool:
    """Whether torch's own distribution brings a top-level module, as far as its version tells."""
    if module not in _SHIPPED_WITH_TORCH or isinstance(version, Answer):
        return False
    first, last = _SHIPPED_WITH_TORCH[module]
    release = Version(version).release[:2]
    return first <= release and (last is None or release <= last)


def find_absent(module: str, source_of: Callable[[str], Path | None], is_absent: Callable[[str], bool]) -> str | None:
    """Return the first top-level module that the import of a module of torch needs and that is absent.

    :param source_of: returns the source of an installed module
    :param is_absent: whether a top-level module is certainly not there
    """
    waiting, seen, sources = [module], {"torch"}, 0
    while waiting:
        for name in list_prefixes(waiting.pop(0)):
            source = None if name in seen else source_of(name)
            seen.add(name)
            if source is None:
                continue
            sources += 1
            if sources > _MOST_MODULES:
                return None
            package = name if source.name == "__init__.py" else name.rpartition(".")[0]
            for line, imported in _imports_of(source):
                full = absolute_name(package, imported)
                if is_of_torch(full):
                    waiting.append(full)
                elif is_absent(top := full.partition(".")[0]) and _always_runs(source, line):
                    return top
    return None


def _imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    """Return what look like the imports of a module outside of blocks: the line, and the module; dots for its own."""
    status = observed_fs.stat_file(path)
    version = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) if status else ()
    return _imports_in(path, version)


# Most modules of torch lead to the same ones.
@functools.lru_cache(maxsize=2048)
def _imports_in(path: Path, _version: tuple[int, ...]) -> tuple[tuple[int, str], ...]:
    text = observed_fs.read_file(path)
    return tuple(
        (text.count(b"\n", 0, match.start()) + 1, module)
        for match in _STATEMENT.finditer(text)
        for statement in _parse_body(match[0])
        for module in _imported_by(statement)
    )


def _parse_body(text: bytes) -> list[ast.stmt]:
    """Return the statements of a text; none if it cannot be parsed."""
    try:
        return parse(text).body
    except FAILURES:
        return []


def _imported_by(statement: ast.stmt) -> Iterator[str]:
    """Yield the modules that a statement imports; the names that it takes from torch are taken for some."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        base = "." * statement.level + (statement.module or "")
        yield base
        if statement.level or is_of_torch(base):
            yield from (f"{base}{'.' if statement.module else ''}{alias.name}" for alias in statement.names)


def _always_runs(path: Path, line: int) -> bool:
    """Whether the import at a line is a statement of the module's body: it may be in a text."""
    body = _parse_body(observed_fs.read_file(path))
    return any(isinstance(statement, ast.Import | ast.ImportFrom) and statement.lineno == line for statement in body)
