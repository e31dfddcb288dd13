"""Keywords that a package keeps in dictionaries or files of settings, and passes on to a class that lost one of them.

Such a dictionary has several keys that are parameters of the class in another release of torch, and no others. What is
passed to which class is not followed, so that each is doubtful.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from abiscan.python.language.nodes import TryStar, child_nodes
from abiscan.python.language.refusals import PassedArguments, parse_parameters, refusal
from abiscan.python.later.mentions import LaterUse, possible_call
from abiscan.python.package.library import PythonCode
from abiscan.python.torch_api.torch_names import Callee, TorchNames
from abiscan.regex import regex

_FEWEST_KEYS: Final = 3
"""How many keys a dictionary must have: fewer may be those of anything."""
_SETTINGS: Final = (".json", ".yaml", ".yml")
_LARGEST_FILE: Final = 200_000
_MAPPING: Final = regex(rb"\{[^{}\n]{1,400}\}")
_KEY: Final = regex(rb"[{,]\s*[\"']?([A-Za-z_]\w*)[\"']?\s*:")
_QUOTED_KEY: Final = regex(rb"[\"'](\w+)[\"']\s*:")
_NEAR: Final = 600
"""How far from each other the keys of a dictionary are looked for, in bytes."""
_Gone: TypeAlias = tuple[Callee, frozenset[str], frozenset[str]]
_DECIDING = (ast.If, ast.IfExp, ast.Try, TryStar, ast.Match)


def kept_keywords(code: PythonCode, names: TorchNames) -> Iterator[LaterUse]:
    """Yield where a package keeps keywords that a class of torch takes in another release alone."""
    gone = dict(_classes_with_gone_keywords(code, names))
    lost_words = frozenset[str]().union(*(lost for _, lost, _ in gone.values()))
    if not lost_words:
        return
    words = sorted(map(re.escape, lost_words))
    # Most sources have such a word, and few have it as a key.
    key = re.compile(rf"[\"'{{, ](?:{'|'.join(words)})[\"']?\s*:(?!=)".encode())
    sources = set(_sources_that_may_keep(code, lost_words, gone))
    for file in code.files.members:
        if file in sources:
            kept: Iterable[tuple[int, frozenset[str]]] = _in_source(code, file)
        elif file.endswith(_SETTINGS):
            text = code.files.read(file)[:_LARGEST_FILE]
            kept = _in_settings(text) if key.search(text) else ()
        else:
            continue
        for line, keys in kept:
            yield from _uses_of(gone, file, line, keys)


def _sources_that_may_keep(code: PythonCode, words: Iterable[str], gone: Mapping[str, _Gone]) -> Iterator[str]:
    """Yield the sources that have enough keys of one class near a keyword that went."""
    for word in words:
        quoted = re.compile(rf"{re.escape(word)}[\"']\s*:".encode())
        ends = (f"{word}'".encode(), f'{word}"'.encode())
        for file in filter(code.is_for_users, {file for end in ends for file in code.sources_with(end)}):
            source = code.source(file)
            if any(_has_keys_near(source, match, gone) for match in quoted.finditer(source)):
                yield file


def _has_keys_near(source: bytes, match: re.Match[bytes], gone: Mapping[str, _Gone]) -> bool:
    near = source[max(0, match.start() - _NEAR) : match.end() + _NEAR]
    keys = {key.decode() for key in _QUOTED_KEY.findall(near)}
    return any(len(keys & taken) >= _FEWEST_KEYS and keys & lost for _, lost, taken in gone.values())


def _classes_with_gone_keywords(code: PythonCode, names: TorchNames) -> Iterator[tuple[str, _Gone]]:
    """Yield the classes that a package mentions: each with the keywords that it lost, and all that it ever took."""
    for use in sorted(code.all_torch_uses):
        callee = names.callee(use) if use.rpartition(".")[2][:1].isupper() else None
        if callee is not None and not callee.signature.has_keywords:
            others = [parse_parameters(text) for text in names.signatures_of(callee.module, callee.name)]
            taken = callee.signature.keywords.union(*(other.keywords for other in others))
            if lost := taken - callee.signature.keywords:
                yield use, (callee, lost, taken)


def _uses_of(gone: Mapping[str, _Gone], file: str, line: int, keys: Collection[str]) -> Iterator[LaterUse]:
    for name, (callee, lost, taken) in gone.items():
        if lost.isdisjoint(keys) or not taken.issuperset(keys):
            continue
        arguments = PassedArguments(keywords=tuple(sorted(keys)), takes_more=True)
        error = refusal(callee.name, callee.signature, arguments)
        if error is not None:
            yield possible_call(name, error, file, line, arguments)


def _in_source(code: PythonCode, file: str) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the dictionaries of a source that no condition decides about."""
    waiting: list[ast.AST] = list(getattr(code.tree(file), "body", ()))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DECIDING):
            continue
        if isinstance(node, ast.Dict):
            keys = [getattr(key, "value", None) for key in node.keys]
            if len(keys) >= _FEWEST_KEYS and all(isinstance(key, str) for key in keys):
                yield node.lineno, frozenset(map(str, keys))
        waiting += child_nodes(node)


def _in_settings(text: bytes) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the dictionaries in one line of a file of settings."""
    for match in _MAPPING.finditer(text):
        keys = frozenset(key.decode() for key in _KEY.findall(match[0]))
        if len(keys) >= _FEWEST_KEYS:
            yield text.count(b"\n", 0, match.start()) + 1, keys
