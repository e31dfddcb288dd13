"""What changed between two torches: symbols, operators, dispatch, numbers of dispatch keys. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.releases.operators import Operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two.

    ``exports`` are the names that each library exports.
    """

    name: str
    exports: Mapping[str, frozenset[str]]
    operators: Operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What an extension touches: the symbols it imports, the operators it registers for or fetches by name."""

    symbols: Collection[str]
    operators: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolChange:
    """What one library exports more and less than before, sorted."""

    library: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """An operator with another schema; ``difference`` is the first one, in words, where it is one that torch minds."""

    operator: str
    old: str
    new: str
    difference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchChange:
    """An operator with kernels for other keys than before, sorted."""

    operator: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """A dispatch key with another number; None where it does not exist."""

    key: str
    old: int | None
    new: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that changed. ``operators_known`` is False where one side has no operators to compare."""

    old: str
    new: str
    symbols: tuple[SymbolChange, ...]
    keys: tuple[KeyChange, ...]
    operators_known: bool
    operators_added: tuple[str, ...]
    operators_removed: tuple[str, ...]
    schemas: tuple[SchemaChange, ...]
    dispatch: tuple[DispatchChange, ...]


def compare(old: Side, new: Side, use: Use | None = None) -> Comparison:
    """Compare two torches.

    :param use: limits symbols and operators to what an extension touches
    """
    before, after = old.operators, new.operators
    names_before = _names(before, use)
    names_after = _names(after, use)
    both = sorted(names_before & names_after)
    known = before is not None and after is not None
    return Comparison(
        old=old.name,
        new=new.name,
        symbols=_symbols(old.exports, new.exports, use),
        keys=_keys(old.keys, new.keys),
        operators_known=known,
        operators_added=tuple(sorted(names_after - names_before)) if known else (),
        operators_removed=tuple(sorted(names_before - names_after)) if known else (),
        schemas=_schemas(before, after, both) if before and after else (),
        dispatch=_dispatch(before, after, both) if before and after else (),
    )


def _names(operators: Operators | None, use: Use | None) -> set[str]:
    names = set(operators.operators) if operators else set()
    return names & set(use.operators) if use else names


def _symbols(
    old: Mapping[str, frozenset[str]], new: Mapping[str, frozenset[str]], use: Use | None
) -> tuple[SymbolChange, ...]:
    changes = []
    for library in sorted({*old, *new}):
        before, after = old.get(library, frozenset()), new.get(library, frozenset())
        if use:
            before, after = before & set(use.symbols), after & set(use.symbols)
        if before != after:
            added, removed = sorted(after - before), sorted(before - after)
            changes.append(SymbolChange(library=library, added=tuple(added), removed=tuple(removed)))
    return tuple(changes)


def _keys(old: Mapping[int, str], new: Mapping[int, str]) -> tuple[KeyChange, ...]:
    before, after = ({name: number for number, name in keys.items()} for keys in (old, new))
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return tuple(KeyChange(key=name, old=before.get(name), new=after.get(name)) for name in changed)


def _schemas(old: Operators, new: Operators, names: list[str]) -> tuple[SchemaChange, ...]:
    changes = []
    for name in names:
        before, after = old.operators[name].schema, new.operators[name].schema
        if before is None or after is None or before == after:
            continue
        try:
            parsed_before, parsed_after = FunctionSchema.parse(before), FunctionSchema.parse(after)
        except SchemaError:
            changes.append(SchemaChange(operator=name, old=before, new=after, difference=None))
            continue
        difference = parsed_before.first_difference(parsed_after)
        if str(parsed_before) != str(parsed_after):
            changes.append(
                SchemaChange(
                    operator=name,
                    old=str(parsed_before),
                    new=str(parsed_after),
                    difference=str(difference) if difference else None,
                )
            )
    return tuple(changes)


def _dispatch(old: Operators, new: Operators, names: list[str]) -> tuple[DispatchChange, ...]:
    before, after = _kernel_keys(old), _kernel_keys(new)
    changes = []
    for name in names:
        was, now = before.get(name, frozenset()), after.get(name, frozenset())
        if was != now:
            change = DispatchChange(operator=name, added=tuple(sorted(now - was)), removed=tuple(sorted(was - now)))
            changes.append(change)
    return tuple(changes)


def _kernel_keys(operators: Operators) -> dict[str, frozenset[str]]:
    keys: dict[str, set[str]] = {}
    for kernel in operators.kernels:
        keys.setdefault(kernel.operator, set()).add(kernel.key or "(catch all)")
    return {name: frozenset(found) for name, found in keys.items()}
