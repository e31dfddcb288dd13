"""The patterns of ``match``: whether a value fits one, and what that binds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from abiscan.python.interpreter import special
from abiscan.python.interpreter.binding import Binding
from abiscan.python.interpreter.iteration import MOST_ITEMS
from abiscan.python.interpreter.operations import compare_values
from abiscan.python.interpreter.values import ABSENT, Instance, NotKnown, Scope, Thrown, known_length

_ITSELF: Final = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""The types whose pattern takes the value itself: ``int(number)``."""


def match_pattern(machine: Binding, pattern: ast.pattern, subject: object, scope: Scope) -> bool | None:
    """Whether a value fits a pattern, None if that is not known; binds its names."""
    method = PATTERNS.get(type(pattern))
    return None if method is None else method(machine, pattern, subject, scope)


def _all_match(answers: Iterable[bool | None]) -> bool | None:
    unknown = False
    for answer in answers:
        if answer is False:
            return False
        unknown = unknown or answer is None
    return None if unknown else True


def _match_value(machine: Binding, pattern: ast.MatchValue, subject: object, scope: Scope) -> bool | None:
    return special.truth_of(
        machine, special.compare_values(machine, ast.Eq(), subject, machine.evaluate(pattern.value, scope))
    )


def _match_singleton(machine: Binding, pattern: ast.MatchSingleton, subject: object, _scope: Scope) -> bool | None:
    return special.truth_of(machine, compare_values(ast.Is(), subject, pattern.value))


def _match_as(machine: Binding, pattern: ast.MatchAs, subject: object, scope: Scope) -> bool | None:
    fits = True if pattern.pattern is None else match_pattern(machine, pattern.pattern, subject, scope)
    # The name is bound in doubt, too: the run that decides for this case needs it.
    if fits is not False and pattern.name:
        machine.bind(pattern.name, subject, scope)
    return fits


def _match_or(machine: Binding, pattern: ast.MatchOr, subject: object, scope: Scope) -> bool | None:
    unknown = False
    for alternative in pattern.patterns:
        fits = match_pattern(machine, alternative, subject, scope)
        if fits:
            return True
        unknown = unknown or fits is None
    return None if unknown else False


def _match_sequence(machine: Binding, pattern: ast.MatchSequence, subject: object, scope: Scope) -> bool | None:
    # Texts and bytes are no sequences here (language reference, 8.6.4.8).
    subject = special.plain_value(subject)
    if isinstance(subject, NotKnown) or (isinstance(subject, Instance) and subject.cls.is_open()):
        return None
    if not isinstance(subject, (list, tuple, range)):
        return False
    if bool(subject[MOST_ITEMS:]) if isinstance(subject, range) else known_length(subject) is None:
        return None
    values = list(subject)
    star = next((index for index, part in enumerate(pattern.patterns) if isinstance(part, ast.MatchStar)), None)
    if star is None:
        return len(values) == len(pattern.patterns) and _match_items(machine, pattern.patterns, values, scope)
    after = len(pattern.patterns) - star - 1
    if len(values) < star + after:
        return False
    name = getattr(pattern.patterns[star], "name", None)
    middle = values[star : len(values) - after]
    if name:
        machine.bind(name, middle, scope)
    fixed = [*pattern.patterns[:star], *pattern.patterns[star + 1 :]]
    return _match_items(machine, fixed, [*values[:star], *values[len(values) - after :]], scope)


def _match_items(machine: Binding, patterns: Sequence[ast.pattern], values: list[object], scope: Scope) -> bool | None:
    return _all_match(
        match_pattern(machine, pattern, value, scope) for pattern, value in zip(patterns, values, strict=True)
    )


def _match_mapping(machine: Binding, pattern: ast.MatchMapping, subject: object, scope: Scope) -> bool | None:
    subject = special.plain_value(subject)
    if not isinstance(subject, dict):
        return None if isinstance(subject, NotKnown) or special.is_own(subject) else False
    keys = [machine.evaluate(item, scope) for item in pattern.keys]
    stored = [special.find_key(machine, subject, key) for key in keys]
    there = _all_match(False if key is ABSENT else None if isinstance(key, NotKnown) else True for key in stored)
    if not there:
        return there
    if pattern.rest:
        machine.bind(pattern.rest, {key: value for key, value in subject.items() if key not in stored}, scope)
    return _match_items(machine, pattern.patterns, [subject[key] for key in stored], scope)


def _match_class(machine: Binding, pattern: ast.MatchClass, subject: object, scope: Scope) -> bool | None:
    cls = machine.evaluate(pattern.cls, scope)
    fits = special.truth_of(machine, machine.call(machine.builtins["isinstance"], [subject, cls], {}))
    if not fits:
        return fits
    names = list(pattern.kwd_attrs)
    patterns = [*pattern.patterns, *pattern.kwd_patterns]
    if pattern.patterns and cls in _ITSELF:
        return _match_items(machine, pattern.patterns, [subject], scope)
    if pattern.patterns:
        listed = machine.items(machine.get_attribute(cls, "__match_args__"))
        if isinstance(listed, NotKnown) or len(listed) < len(pattern.patterns):
            return None
        names = [*map(str, listed[: len(pattern.patterns)]), *names]
    try:
        values = [machine.get_attribute(subject, name) for name in names]
    # An attribute that is not there means that the pattern does not match (8.6.4.10).
    except Thrown as error:
        if AttributeError not in error.failure.ancestry():
            raise
        return False
    return _match_items(machine, patterns, values, scope)


PATTERNS: Final[dict[type[ast.AST], Callable[[Binding, Any, object, Scope], bool | None]]] = {
    ast.MatchValue: _match_value,
    ast.MatchSingleton: _match_singleton,
    ast.MatchSequence: _match_sequence,
    ast.MatchMapping: _match_mapping,
    ast.MatchClass: _match_class,
    ast.MatchAs: _match_as,
    ast.MatchOr: _match_or,
}
"""What decides about each kind of pattern; ``MatchStar`` is a part of a sequence. Of any other, nothing is known."""
