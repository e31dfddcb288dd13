"""The libraries that the import does not get to on this torch, and would on the one that they were built for."""

from __future__ import annotations

import ast
import fnmatch
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from abiscan.python.importing.runs import Run, Runs
from abiscan.python.importing.uses import ALL_LOAD, with_other_torch
from abiscan.python.interpreter.handling import loudest_of
from abiscan.python.interpreter.machine import Attempt
from abiscan.python.language.nodes import walk
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import HowLoaded, LibraryUse, OtherTorch, PythonLine, Raised, Skipped, UserMessage
from abiscan.regex import regex

_MOST_TORCHES = 4
_IMPORT = "import"
_LOADERS = {_IMPORT, "load_library", "CDLL", "LoadLibrary"}
_OPEN = (HowLoaded.NEVER, HowLoaded.ON_DEMAND, HowLoaded.UNKNOWN)
_ASKS = regex(rb"torch\.__version__|torch\.version|torch_version|from torch import|version\(\s*.(?:py)?torch\b")


def asks_for_torch(source: bytes) -> bool:
    """Whether a source may ask for the version or the build of torch."""
    return _ASKS.search(source) is not None


class _Imports(Struct, frozen=True, kw_only=True):
    """The imports of a package's modules where every library loads."""

    runs: tuple[Run, ...]

    @property
    def attempts(self) -> dict[str, Attempt]:
        """What they load, by path."""
        return {attempt.path: attempt for run in reversed(self.runs) for attempt in run.trace.attempts if attempt.path}

    @property
    def messages(self) -> list[UserMessage]:
        """What they tell users."""
        return [notice for run in self.runs for notice in run.trace.messages]

    @property
    def stop(self) -> bool:
        """Whether one of them raises, or could not be followed to its end."""
        return any(run.raised is not None for run in self.runs)

    @property
    def surely_stop(self) -> bool:
        """Whether one of them raises."""
        return any(isinstance(run.raised, Raised) for run in self.runs)

    def asks(self, library: PythonCode) -> bool:
        """Whether what is imported asks for torch's version."""
        files = {file for run in self.runs for file in run.trace.imported}
        return any(asks_for_torch(library.source(file)) for file in files)


def unreached_uses(
    runs: Runs,
    names: Sequence[str],
    uses: Mapping[str, LibraryUse],
    built_for: Callable[[str], Sequence[OtherTorch]],
) -> dict[str, LibraryUse]:
    """Return how the package uses the libraries that its import here does not get to.

    :param built_for: the torches that a library may have been built for
    """
    # In question are the libraries that the import does not load, although nothing says what they are for. The reason
    # can only be a check of the version, or an import that stops.
    left = {path: use for path, use in uses.items() if use.how in _OPEN and use.convention is None}
    if not left:
        return {}
    library = runs.library
    here = _Imports(runs=tuple(map(runs.of(ALL_LOAD).run, names)))
    uses_by_path: dict[str, LibraryUse] = {}
    if here.stop or here.asks(library):
        torches = list(dict.fromkeys(torch for path in left for torch in built_for(path)))[:_MOST_TORCHES]
        # What is installed here goes with the torch of this target, not with another one.
        installed, library.surroundings = library.surroundings, Surroundings()
        for torch in torches:
            there = _Imports(runs=tuple(map(runs.of(with_other_torch(torch)).run, names)))
            # What is loaded with the other torch, and not with this one, even if all libraries load here.
            for path in left.keys() & there.attempts.keys() - here.attempts.keys() - uses_by_path.keys():
                uses_by_path[path] = _use_there(library, path, here, there)
            if uses_by_path.keys() == left.keys():
                break
        if not here.stop:
            unloaded = [path for path, use in left.items() if use.how is HowLoaded.NEVER and path not in uses_by_path]
            uses_by_path.update(_skipped_aloud(library, here, unloaded))
        library.surroundings = installed
    if here.stop:
        skipped = Skipped.IMPORT_STOPS if here.surely_stop else None
        uses_by_path |= {path: _after_the_stop(use, skipped) for path, use in left.items() if path not in uses_by_path}
    return uses_by_path


def _skipped_aloud(library: PythonCode, here: _Imports, paths: Sequence[str]) -> Iterator[tuple[str, LibraryUse]]:
    """Yield how those are used that a condition skips on every torch, if its other branch says so: where a version of
    the package itself decides, no torch leads to the load.
    """
    for notice in here.messages if paths else ():
        tree = library.tree(notice.at.file) if notice.at.file else None
        for branch in _other_branches(tree, notice.at.line) if tree else ():
            words = _words_in(branch)
            at = PythonLine(file=notice.at.file, line=branch[0].lineno)
            for path in paths if words & _LOADERS else ():
                if _is_named(path, words):
                    use = LibraryUse(path=path, how=HowLoaded.IMPORT, at=at, skipped=Skipped.GUARD, message=notice)
                    yield path, use


def _stands_for(library: PythonCode, notice: UserMessage, attempt: Attempt) -> bool:
    """Whether users are told something in the other branch of the condition that the load of a library stands under."""
    tree = library.tree(notice.at.file) if notice.at.file else None
    for branch in _other_branches(tree, notice.at.line) if tree else ():
        lines = range(branch[0].lineno, (branch[-1].end_lineno or 0) + 1)
        if (attempt.at.file == notice.at.file and attempt.at.line in lines) or (
            attempt.path is not None and _is_named(attempt.path, _words_in(branch))
        ):
            return True
    return False


def _is_named(path: str, words: Iterable[str]) -> bool:
    name = posixpath.basename(path)
    return any(fnmatch.fnmatchcase(name, word) or name.partition(".")[0] == word for word in words)


def _words_in(statements: Sequence[ast.stmt]) -> set[str]:
    return {word for statement in statements for part in walk(statement) for word in _words_of(part)}


def _other_branches(tree: ast.Module, line: int) -> Iterator[Sequence[ast.stmt]]:
    """Yield the other branch of each condition that has a line in one."""
    for node in walk(tree):
        if isinstance(node, ast.If) and node.orelse and node.body[0].lineno <= line <= (node.end_lineno or 0):
            yield node.body if line >= node.orelse[0].lineno else node.orelse


def _words_of(node: ast.AST) -> Iterator[str]:
    """Yield what stands for a library, or for what loads one."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (_IMPORT, *(alias.name.rpartition(".")[2] for alias in node.names if alias.name != "*"))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield posixpath.basename(node.value)
    elif isinstance(node, ast.Attribute):
        yield node.attr


def _use_there(library: PythonCode, path: str, here: _Imports, there: _Imports) -> LibraryUse:
    attempt = there.attempts[path]
    # At the same line, another library is loaded here in its place.
    places = {item.at for item in here.attempts.values() if item.path not in there.attempts}
    if attempt.at in places:
        return LibraryUse(path=path, how=HowLoaded.ALTERNATIVE, at=attempt.at)
    how = HowLoaded.GUARDED if attempt.guarded else HowLoaded.IMPORT
    if here.stop:
        return LibraryUse(path=path, how=how, at=attempt.at, skipped=Skipped.IMPORT_STOPS)
    # What the other branch of the condition says is the reason, however quietly it says it.
    notices = list(_only_here(here, there))
    notice = loudest_of([notice for notice in notices if _stands_for(library, notice, attempt)] or notices)
    return LibraryUse(path=path, how=how, at=attempt.at, skipped=Skipped.GUARD, message=notice)


def _only_here(here: _Imports, there: _Imports) -> Iterable[UserMessage]:
    """Return what users are told on this torch alone."""
    common = {notice.at for notice in there.messages}
    return (notice for notice in here.messages if notice.at not in common)


def _after_the_stop(use: LibraryUse, skipped: Skipped | None) -> LibraryUse:
    """Return a use as unknown that would count as never: the code behind the stop was not followed."""
    if use.how is HowLoaded.NEVER and not use.unimportable:
        return replace(use, how=HowLoaded.UNKNOWN, skipped=skipped)
    return use
