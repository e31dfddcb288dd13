"""What the import of an installed package fails for, where the imports in its own modules tell: nothing of it is run.

Only those count that every import of a module executes: statements of its body, outside of ``if`` and ``try``.

Modules of torch count, too: some need packages that torch does not require, such as setuptools. What ``import torch``
itself imports is there, or there would be no question.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from packaging.version import Version

from abiscan.inputs import observed_fs
from abiscan.python import standard
from abiscan.python.dynamic_names import absolute_name
from abiscan.python.grammar import FAILURES, parse
from abiscan.python.model import Answer
from abiscan.python.torch_names import list_prefixes
from abiscan.regex import regex

_MOST_MODULES: Final = 1_000
_MOST_OF_TORCH: Final = 40
"""The modules of torch that one of them is followed to: most import half of torch, and nothing else."""
_STATEMENT: Final = regex(rb"(?m)^(?:import|from)\b[^\n(#]*(?:\([^)]*\))?")
_FINDS_OTHERS: Final = regex(
    rb"sys\.path\b|sys\.modules\[(?!__name__)[^\]\n]+\]\s*=[^=]|meta_path|path_hooks|addsitedir|__path__"
    rb"|builtins\.__import__"
)
"""What may change which modules are found."""

_Import: TypeAlias = ast.Import | ast.ImportFrom


class Installed(NamedTuple):
    """What is known of the installed modules, see ``Surroundings``."""

    has_top: Callable[[str], bool | Answer]
    has: Callable[[str, str | None], bool | None]
    source: Callable[[str], Path | None]
    python: tuple[int, int] | Answer


class BrokenImport(NamedTuple):
    """An import that raises: the exception, its text, and the module that is not there."""

    exception: type[ImportError]
    text: str
    module: str


class _NotKnown(Exception):  # noqa: N818 - it ends a search, it is no error
    """What modules there are is not known from here on."""


class _Source(NamedTuple):
    """A source file.

    :ivar finds_others: whether its import may change which modules are found
    :ivar movers: its functions that may, and that other modules would have to call
    :ivar imports: what looks like an import outside of blocks, with its position in the text
    """

    text: bytes
    finds_others: bool
    movers: tuple[bytes, ...]
    imports: tuple[tuple[int, _Import], ...]


def find_broken_import(module: str, installed: Installed) -> BrokenImport | None:
    """Return the first import that raises while an installed module is imported; None if none is known to.

    :param module: with its packages, as in ``peft.utils``
    """
    most = _MOST_OF_TORCH if is_of_torch(module) else _MOST_MODULES
    try:
        return next(_Walk(installed, most=most).enter(module), None)
    except _NotKnown:
        return None


def is_of_torch(module: str) -> bool:
    """Whether a module is torch, or one in it."""
    return module.partition(".")[0] == "torch"


_BESIDE_TORCH: Final = {"caffe2": ((1, 4), (1, 12)), "torchgen": ((1, 12), None), "functorch": ((1, 13), None)}
"""The other top-level modules that torch's wheels have: the first release that has them, and the last."""


def comes_with_torch(module: str, version: str | Answer) -> bool:
    """Whether torch's own distribution brings a top-level module, as far as its version tells."""
    if module not in _BESIDE_TORCH or isinstance(version, Answer):
        return False
    first, last = _BESIDE_TORCH[module]
    release = Version(version).release[:2]
    return first <= release and (last is None or release <= last)


class _Walk:
    """One import: the modules that it has come to."""

    def __init__(self, installed: Installed, *, most: int = _MOST_MODULES) -> None:
        self._installed = installed
        self._most = most
        self._seen: set[str] = set()
        self._entered: set[str] = set()  # names in torch, modules or not
        self._running: list[str] = []
        self._movers: set[bytes] = set()

    def enter(self, module: str) -> Iterator[BrokenImport]:
        """Yield what breaks the import of a module and of the packages that it is in."""
        parts = module.split(".")
        if parts[0] == "torch":
            yield from self._enter_torch(module)
            return
        if standard.has_module(parts[0], self._installed.python) is not False:
            return
        if standard.is_of_some(parts[0]) or self._installed.has_top(parts[0]) is Answer.UNKNOWN:
            return  # there are copies of what Python no longer has
        for name in list_prefixes(module):
            if name in self._seen:
                continue
            self._seen.add(name)
            if len(self._seen) > self._most:
                raise _NotKnown
            is_there = self._installed.has_top(name) if name == parts[0] else self._installed.has(name, None)
            if is_there is False:
                yield BrokenImport(ModuleNotFoundError, f"No module named '{name}'", name)
            source = self._installed.source(name)
            if source is None:
                continue
            self._running.append(name)
            yield from self._follow(name, source)
            self._running.pop()

    def _enter_torch(self, module: str) -> Iterator[BrokenImport]:
        """Yield what breaks the import of a module of torch: a package of others, for its own modules are there."""
        if self._running and not is_of_torch(self._running[-1]):
            absent = (name for name in list_prefixes(module) if self._installed.has(name, None) is False)
            if (name := next(absent, None)) is not None:
                yield BrokenImport(ModuleNotFoundError, f"No module named '{name}'", name)
            broken = find_broken_import(module, self._installed)
            if broken is not None:
                yield broken
            return
        if module in self._entered:
            return
        self._entered.add(module)
        _, *below = list_prefixes(module)
        for name in below:
            source = self._installed.source(name)
            if name in self._seen or source is None:
                continue
            self._seen.add(name)
            if len(self._seen) > self._most:
                raise _NotKnown
            self._running.append(name)
            yield from self._follow(name, source)
            self._running.pop()

    def _follow(self, module: str, path: Path) -> Iterator[BrokenImport]:
        source = _read_source(path)
        if not is_of_torch(module):
            texts = [_read_source(outer).text for outer in map(self._installed.source, self._running[:-1]) if outer]
            calls = any(_words(name).search(text) for name in source.movers for text in texts)
            if source.finds_others or calls or any(_words(name).search(source.text) for name in self._movers):
                raise _NotKnown
            self._movers.update(source.movers)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for start, statement in source.imports:
            for broken in self._import(statement, package):
                if _always_runs(source.text, source.text.count(b"\n", 0, start) + 1):
                    yield broken

    def _import(self, statement: _Import, package: str) -> Iterator[BrokenImport]:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield from self.enter(alias.name)
            return
        base = absolute_name(package, "." * statement.level + (statement.module or ""))
        if not base:
            return
        yield from self.enter(base)
        if is_of_torch(base):
            for alias in statement.names:
                yield from self._take_of_torch(base, alias.name)
            return
        source = self._installed.source(base)
        if source is None:
            return
        text = _read_source(source).text
        for alias in statement.names:
            # Where a package binds the name, its module of that name need not be meant.
            if alias.name == "*" or text.count(alias.name.encode()) > (base == self._running[-1]):
                continue
            if self._installed.has(f"{base}.{alias.name}", None):
                yield from self.enter(f"{base}.{alias.name}")
            elif base not in self._running and self._installed.has(base, alias.name) is False:
                words = f"cannot import name '{alias.name}' from '{base}' ({source})"
                yield BrokenImport(ImportError, words, base)

    def _take_of_torch(self, base: str, name: str) -> Iterator[BrokenImport]:
        """Yield what breaks the import of a name of torch: one that it lacks, or a module of it."""
        has, source = self._installed.has, self._installed.source(base)
        is_own = is_of_torch(self._running[-1])
        if not is_own and source and has(base, name) is False and has(f"{base}.{name}", None) is not True:
            yield BrokenImport(ImportError, f"cannot import name '{name}' from '{base}' ({source})", base)
        elif is_own or has(f"{base}.{name}", None) is not False:
            yield from self.enter(f"{base}.{name}")


def _read_source(path: Path) -> _Source:
    status = observed_fs.stat_file(path)
    version = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) if status else ()
    return _parse_version(path, version)


# Most modules of torch lead to the same ones, and so do the packages of an environment.
@functools.lru_cache(maxsize=2048)
def _parse_version(path: Path, _version: tuple[int, ...]) -> _Source:
    text = observed_fs.read_file(path)
    imports = ((match.start(), statement) for match in _STATEMENT.finditer(text) for statement in _imports_in(match[0]))
    finds_others, movers = _search_changes(text) if _FINDS_OTHERS.search(text) else (False, ())
    return _Source(text, finds_others, movers, tuple(imports))


def _search_changes(source: bytes) -> tuple[bool, tuple[bytes, ...]]:
    """Return whether code that the import of a module runs may change which modules are found, and the functions that
    may and that the module itself does not name again.
    """
    try:
        body = parse(source).body
    except FAILURES:
        return True, ()
    lines, movers = source.splitlines(keepends=True), []
    for function in body:
        if not isinstance(function, ast.FunctionDef) or function.decorator_list or function.end_lineno is None:
            continue
        part, name = slice(function.lineno - 1, function.end_lineno), function.name.encode()
        if _FINDS_OTHERS.search(b"".join(lines[part])) and len(_words(name).findall(source)) == 1:
            movers.append(name)
            lines[part] = [b"\n"] * (function.end_lineno - function.lineno + 1)
    return _FINDS_OTHERS.search(b"".join(lines)) is not None, tuple(movers)


def _words(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\b%b\b" % re.escape(name))


def _imports_in(text: bytes) -> Iterator[_Import]:
    """Yield the import that a text is; nothing if it is no whole statement."""
    try:
        body = parse(text).body
    except FAILURES:
        return
    yield from (statement for statement in body if isinstance(statement, ast.Import | ast.ImportFrom))


def _always_runs(source: bytes, line: int) -> bool:
    """Whether the import at a line is a statement of the module's body: it may be in a text."""
    try:
        body = parse(source).body
    except FAILURES:
        return False
    return any(isinstance(statement, ast.Import | ast.ImportFrom) and statement.lineno == line for statement in body)
