"""Prove that two versions of Python code differ in names, docstrings and comments only.

    python -m tools.renaming A B    # folders or revisions of git; without B, the files as they are now

Both syntax trees are walked in parallel. Docstrings, those of attributes too, count as absent. Local variables may be
renamed if no two of a scope become one, and each use means the same variable as before (alpha-equivalence). What other
modules see (functions, classes, module variables, methods, fields, parameters) may be renamed where it is defined; then
an attribute, a keyword, an import, or in tests a text may change in the same way, and no other. That the right one of
two attributes with the same name was renamed, and that none was forgotten, is for the type checker to tell.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct, field

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = ("abiscan", "benchmarks", "sample_binaries", "tests", "tools")

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class _Scope(Struct):
    """A module, class, function or comprehension in both versions, with the names that it binds.

    :ivar parent: None for a module
    :ivar is_class: then functions inside do not see its names
    :ivar bound: the names of either version
    :ivar imported: those that come from ``from … import``, under the name that they have there
    :ivar renamed: the new name by the old name, for those that were met
    """

    parent: _Scope | None
    is_class: bool
    bound: tuple[set[str], set[str]]
    imported: tuple[set[str], set[str]]
    renamed: dict[str, str] = field(default_factory=dict)

    def home_of(self, name: str, version: int) -> _Scope | None:
        """Return the scope that a name means in a version (0 is the old one), None for a builtin."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.bound[version] and (scope is self or not scope.is_class):
                return scope
            scope = scope.parent
        return None


class Comparison(Struct):
    """The comparison of all modules of two versions.

    :ivar definitions: pairs of old and new name of what other modules see
    :ivar uses: the pairs of attributes, keywords and imports, each with the first place that has it
    :ivar imports: for each ``from … import``, the old names that it lost, the new ones, and its place
    :ivar differences: a line for each difference that is more than a name
    """

    definitions: set[tuple[str, str]] = field(default_factory=set)
    uses: dict[tuple[str, str], str] = field(default_factory=dict)
    imports: list[tuple[set[str], set[str], str]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def compare_modules(self, old: str, new: str, path: str) -> None:
        """Compare the texts of a module, and remember which names it defines and uses."""
        if old == new:
            return
        trees = ast.parse(old), ast.parse(new)
        _Walk(path, self).compare(trees[0], trees[1], _scope_of(*trees, None))

    def conclude(self) -> list[str]:
        """Return all differences, with those uses that changed though no definition did so."""
        for (old, new), place in self.uses.items():
            if old != new and (old, new) not in self.definitions:
                self.differences.append(f"{place}: {old} became {new}, but nothing with that name did")
        for lost, gained, place in self.imports:
            for name in lost:
                if not any((name, new_name) in self.definitions for new_name in gained):
                    self.differences.append(f"{place}: imports {name} no longer, and nothing in its stead")
        return self.differences


class _Walk(Struct):
    path: str
    comparison: Comparison

    def compare(self, old: ast.AST, new: ast.AST, scope: _Scope) -> None:
        if type(old) is not type(new):
            self._differ(old, new, f"{type(old).__name__} became {type(new).__name__}")
            return
        if isinstance(old, ast.ImportFrom) and isinstance(new, ast.ImportFrom):
            self._compare_imports(old, new)
            return
        names = _own_names(old), _own_names(new)
        self._compare_names(old, new, names, scope)
        inner = scope
        if isinstance(old, _Function | _Comprehension | ast.ClassDef):
            inner = _scope_of(old, new, scope)
        for name in old._fields:
            if name in _NAME_FIELDS.get(type(old), ()) or name in {"ctx", "type_comment", "kind"}:
                continue
            # Decorators, defaults, annotations and bases are evaluated outside of what they belong to.
            if inner is not scope and name in {"decorator_list", "returns", "bases", "keywords"}:
                self._compare_values(old, new, name, scope)
            elif (
                scope.parent is not None
                and name in {"defaults", "kw_defaults", "annotation"}
                and isinstance(old, ast.arguments | ast.arg)
            ):
                self._compare_values(old, new, name, scope.parent)
            else:
                self._compare_values(old, new, name, inner)

    def _compare_imports(self, old: ast.ImportFrom, new: ast.ImportFrom) -> None:
        """Compare the names as sets: an import is sorted, so a new name may stand elsewhere in it."""
        names = tuple({alias.name for alias in node.names} for node in (old, new))
        aliases = tuple({alias.asname for alias in node.names} for node in (old, new))
        if old.module != new.module or len(names[0]) != len(names[1]) or aliases[0] != aliases[1]:
            self._differ(old, new, f"{ast.unparse(old)} became {ast.unparse(new)}")
        self.comparison.imports.append((names[0] - names[1], names[1] - names[0], self._place(new)))

    def _compare_values(self, old: ast.AST, new: ast.AST, name: str, scope: _Scope) -> None:
        values = getattr(old, name), getattr(new, name)
        if isinstance(values[0], list) and isinstance(values[1], list):
            lists = _without_docstrings(values[0]), _without_docstrings(values[1])
            if len(lists[0]) != len(lists[1]):
                self._differ(old, new, f"{len(lists[0])} {name} became {len(lists[1])}")
                return
            for first, second in zip(*lists, strict=True):
                self._compare_value(old, new, first, second, scope)
        else:
            self._compare_value(old, new, *values, scope)

    def _compare_value(self, old: ast.AST, new: ast.AST, first: object, second: object, scope: _Scope) -> None:
        if isinstance(first, ast.AST) and isinstance(second, ast.AST):
            self.compare(first, second, scope)
        elif isinstance(first, str) and isinstance(second, str) and first != second and self._may_name(first, second):
            self.comparison.uses.setdefault((first, second), self._place(new))
        elif type(first) is not type(second) or first != second:
            self._differ(old, new, f"{first!r} became {second!r}")

    def _may_name(self, first: str, second: str) -> bool:
        """Tell whether two texts may be names, as a test passes them to ``monkeypatch.setattr``."""
        return self.path.startswith("tests/") and first.isidentifier() and second.isidentifier()

    def _compare_names(self, old: ast.AST, new: ast.AST, names: tuple[list[str], list[str]], scope: _Scope) -> None:
        if len(names[0]) != len(names[1]):
            self._differ(old, new, f"{names[0]} became {names[1]}")
            return
        if isinstance(old, ast.Attribute | ast.keyword | ast.Import | ast.MatchClass):
            for pair in zip(*names, strict=True):
                self.comparison.uses.setdefault(pair, self._place(new))
                if isinstance(old, ast.Attribute) and isinstance(old.ctx, ast.Store):
                    self.comparison.definitions.add(pair)
        if isinstance(old, ast.Attribute | ast.keyword | ast.MatchClass):
            return
        if isinstance(old, ast.Import):
            names = _bound_by_import(old), _bound_by_import(new)
        if isinstance(old, ast.arg | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.comparison.definitions.add((names[0][0], names[1][0]))
        for pair in zip(*names, strict=False):
            self._compare_name(old, new, pair, scope)

    def _compare_name(self, old: ast.AST, new: ast.AST, pair: tuple[str, str], scope: _Scope) -> None:
        homes = scope.home_of(pair[0], 0), scope.home_of(pair[1], 1)
        if homes[0] is not homes[1]:
            self._differ(old, new, f"{pair[0]} and {pair[1]} are variables of different scopes")
            return
        home = homes[0]
        if home is None:
            if pair[0] != pair[1]:
                self._differ(old, new, f"{pair[0]} became {pair[1]}, which is defined nowhere")
            return
        before = home.renamed.setdefault(pair[0], pair[1])
        if before != pair[1]:
            self._differ(old, new, f"{pair[0]} became {before} and {pair[1]}")
        elif list(home.renamed.values()).count(pair[1]) > 1:
            self._differ(old, new, f"two variables became {pair[1]}")
        if pair[0] in home.imported[0] or pair[1] in home.imported[1]:
            self.comparison.uses.setdefault(pair, self._place(new))
        elif home.parent is None or home.is_class:
            self.comparison.definitions.add(pair)

    def _differ(self, old: ast.AST, new: ast.AST, text: str) -> None:
        del old
        self.comparison.differences.append(f"{self._place(new)}: {text}")

    def _place(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


_NAME_FIELDS: Final[dict[type[ast.AST], tuple[str, ...]]] = {
    ast.Name: ("id",),
    ast.arg: ("arg",),
    ast.Attribute: ("attr",),
    ast.keyword: ("arg",),
    ast.FunctionDef: ("name",),
    ast.AsyncFunctionDef: ("name",),
    ast.ClassDef: ("name",),
    ast.Global: ("names",),
    ast.Nonlocal: ("names",),
    ast.ExceptHandler: ("name",),
    ast.MatchAs: ("name",),
    ast.MatchStar: ("name",),
    ast.MatchMapping: ("rest",),
    ast.MatchClass: ("kwd_attrs",),
    ast.Import: ("names",),
}


def _own_names(node: ast.AST) -> list[str]:
    """Return the names that stand in a node itself."""
    names: list[str] = []
    for name in _NAME_FIELDS.get(type(node), ()):
        value = getattr(node, name)
        values = value if isinstance(value, list) else [value]
        names += [element.name if isinstance(element, ast.alias) else element for element in values if element]
    return names


def _bound_by_import(node: ast.AST) -> list[str]:
    assert isinstance(node, ast.Import | ast.ImportFrom)
    return [alias.asname or alias.name.partition(".")[0] for alias in node.names]


def _without_docstrings(values: list[object]) -> list[object]:
    """Drop the strings that stand as statements, and ``pass``, which stands where a docstring may."""
    return [
        value
        for value in values
        if not isinstance(value, ast.Pass)
        and not (
            isinstance(value, ast.Expr) and isinstance(value.value, ast.Constant) and isinstance(value.value.value, str)
        )
    ]


def _scope_of(old: ast.AST, new: ast.AST, parent: _Scope | None) -> _Scope:
    return _Scope(
        parent,
        is_class=isinstance(old, ast.ClassDef),
        bound=(_bindings(old), _bindings(new)),
        imported=(_imports(old), _imports(new)),
    )


def _imports(scope: ast.AST) -> set[str]:
    nodes = (node for node in _inside(scope) if isinstance(node, ast.ImportFrom))
    return {alias.name for node in nodes for alias in node.names if alias.asname in (None, alias.name)}


def _bindings(scope: ast.AST) -> set[str]:
    """Return the names that a scope binds, without those of the scopes inside."""
    names: set[str] = set()
    elsewhere: set[str] = set()
    for node in _inside(scope):
        if isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere |= set(node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= set(_bound_by_import(node))
        elif isinstance(node, ast.Name):
            names |= {node.id} if not isinstance(node.ctx, ast.Load) else set()
        elif isinstance(
            node,
            ast.arg
            | ast.FunctionDef
            | ast.AsyncFunctionDef
            | ast.ClassDef
            | ast.ExceptHandler
            | ast.MatchAs
            | ast.MatchStar
            | ast.MatchMapping,
        ):
            names |= set(_own_names(node))
    return names - elsewhere


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope; of a scope inside, only its head and what it assigns with ``:=``."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _Comprehension):
            waiting += [inner for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)]
        elif not isinstance(node, _Function | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def compare_versions(old: str, new: str | None = None) -> list[str]:
    """Compare the Python files of two versions of the project, each a folder or a revision of git.

    :param new: None for the files as they are now
    :return: a line for each difference that is more than names, docstrings and comments
    """
    texts = _python_files(old), _python_files(new or str(ROOT))
    comparison = Comparison()
    for path in sorted(texts[0].keys() | texts[1].keys()):
        if path not in texts[0] or path not in texts[1]:
            comparison.differences.append(
                f"{path}: only in {'the second' if path in texts[1] else 'the first'} version"
            )
        else:
            comparison.compare_modules(texts[0][path], texts[1][path], path)
    return comparison.conclude()


def _python_files(version: str) -> dict[str, str]:
    folder = Path(version)
    if folder.is_dir():
        paths = [path for name in FOLDERS for path in sorted(folder.joinpath(name).rglob("*.py"))]
        paths = paths or sorted(folder.rglob("*.py"))
        return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths}
    names = _git("ls-tree", "-r", "--name-only", version, "--", *FOLDERS).splitlines()
    wanted = [name for name in names if name.endswith(".py")]
    # One process for all files: git writes each after a line with its size.
    output = _git("cat-file", "--batch", text="".join(f"{version}:{name}\n" for name in wanted)).encode()
    texts: dict[str, str] = {}
    position = 0
    for name in wanted:
        start = output.index(b"\n", position) + 1
        end = start + int(output[position:start].split()[-1])
        texts[name] = output[start:end].decode()
        position = end + 1
    return texts


def _git(*arguments: str, text: str = "") -> str:
    done = subprocess.run(
        ["git", *arguments],  # noqa: S607 (git of the path, as in any shell)
        cwd=ROOT,
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"not a folder, and git says: {done.stderr.decode().strip()}")
    return done.stdout.decode()


if __name__ == "__main__":
    differences = compare_versions(*sys.argv[1:3])
    print("\n".join(differences) or "Only names, docstrings and comments differ.")
    sys.exit(bool(differences))
