"""Code that does without a torch which is older than it wants, and what it then lacks.

transformers has ``is_torch_available``, which says no to an old torch, and imports torch where it says yes: a class
that is made of ``nn.Module`` whatever it said fails with a NameError.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from abiscan.inputs.version import TorchVersion
from abiscan.python.language.nodes import walk
from abiscan.regex import regex

_COMPARED: Final = regex(rb"""[<>=]\s*(?:[\w.]+\()?["'(]\Z""")
"""What stands before a version that something is compared with, or that is given a name."""
_REACH: Final = 60
_FOR_CHECKERS: Final = "TYPE_CHECKING"


def may_ask_for_newer(text: bytes, torch: TorchVersion) -> bool:
    """Whether a source has a version that is newer than a torch, and a word of torch."""
    # Licences have the word with a capital letter.
    if b"torch" not in text or b"version" not in text:
        return False
    found = (match for major in (torch.major, torch.major + 1) for match in _versions(major).finditer(text))
    return any(
        _is_newer(match[1].decode().replace(",", ".").replace(" ", ""), torch)
        and _COMPARED.search(text, max(0, match.start() - _REACH), match.start())
        for match in found
    )


@functools.cache
def _versions(major: int) -> re.Pattern[bytes]:
    """Return what begins a text that is a version, or a tuple that may be one; a search for a digit is fast."""
    return re.compile(rb"""(%d(?:(?:\.|, ?)\w+)+)["')]""" % major)


def find_gates(body: Iterable[ast.stmt], torch: TorchVersion) -> frozenset[str]:
    """Return the functions and variables of a module that may say that a torch is too old, directly or not."""
    statements = [node for node in body if isinstance(node, ast.FunctionDef | ast.Assign)]
    newer = {
        name
        for node in statements
        if isinstance(node, ast.Assign) and _is_newer(_text_of(node.value), torch)
        for name in _names_of(node)
    }
    gates = set[str]()
    for node in statements:
        if any(isinstance(part, ast.Compare) and _has_newer(part, newer, torch) for part in walk(node)):
            gates.update(_names_of(node) if "torch" in ast.unparse(node) else ())
    while True:
        more = {name for node in statements if gates & _words_of(node) for name in _names_of(node)}
        if more <= gates:
            return frozenset(gates)
        gates |= more


def find_conditions(body: list[ast.stmt]) -> frozenset[str]:
    """Return the words of the conditions under which a module imports what it then uses in any case."""
    always = list(_run_in_any_case(body))
    bound = {name for node in always for name in _bound_by(node)}
    used = {node.id for node in always if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    words = set[str]()
    for node in always:
        if isinstance(node, ast.If) and _FOR_CHECKERS not in (asking := _words_of(node.test)):
            imported = {
                name for part in node.body if isinstance(part, ast.Import | ast.ImportFrom) for name in _bound_by(part)
            }
            words |= asking if (imported - bound) & used else set()
    return frozenset(words)


def _run_in_any_case(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes outside of functions and of what stands under a condition; of that, what runs otherwise."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _run_in_any_case([node.test, *node.orelse])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            defaults = filter(None, (*arguments.defaults, *arguments.kw_defaults))
            yield from _run_in_any_case([*node.decorator_list, *defaults])
        elif not isinstance(node, ast.Lambda):
            yield from _run_in_any_case(ast.iter_child_nodes(node))


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name


def _names_of(node: ast.stmt) -> Iterator[str]:
    """Yield the name of a function, or those that are assigned."""
    if isinstance(node, ast.FunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _words_of(node: ast.AST) -> set[str]:
    """Return the names that are read in a part of a source, also those of attributes."""
    names = {part.id for part in walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    return names | {part.attr for part in walk(node) if isinstance(part, ast.Attribute)}


def _has_newer(compared: ast.Compare, newer: set[str], torch: TorchVersion) -> bool:
    return any(
        _is_newer(_text_of(part), torch) or (isinstance(part, ast.Name) and part.id in newer) for part in walk(compared)
    )


def _text_of(node: ast.AST) -> str:
    """Return a version as a text: ``"2.6"`` and ``(2, 6)``, with a function around it or not."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Tuple):
        return ".".join(str(part.value) if isinstance(part, ast.Constant) else "" for part in node.elts)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_newer(text: str, torch: TorchVersion) -> bool:
    """Whether a text may be a later version of torch; those of most other things, such as 2026.1, are not."""
    version = TorchVersion.parse(text) if text[:1].isdigit() and "." in text else None
    return version is not None and torch < version and version.major <= torch.major + 1
