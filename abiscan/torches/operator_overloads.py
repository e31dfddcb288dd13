"""The overloads of operators, release by release, as calls in Python code see them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.dispatch import torchscript
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.inputs.version import TorchVersion
from abiscan.python.language.refusals import ParameterList, PassedArguments
from abiscan.python.torch_api.operator_calls import ATEN, Overload, refusal_of
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD, OVERLOADS_SINCE
from abiscan.regex import regex
from abiscan.torches import embedded, embedded_operators
from abiscan.torches.embedded_operators import EmbeddedOperators

_MACHINE = Machine.X86_64
_OF_PYTHON: Final = frozenset(
    {"input", "other", "out", "axis", "axes", "keepdims", "x", "x1", "x2", "names", "as_tuple"}
    | {"dtype", "layout", "device", "pin_memory", "requires_grad", "generator", "memory_format"}
)
"""The keywords of functions that schemas do not have, or name otherwise (torch/csrc/utils/python_arg_parser.cpp)."""
_WORD: Final = regex(r"\w+(?=[,=)])")
"""What may be the name of an argument in the text of a schema."""


class ReleaseOperators(Struct, frozen=True):
    """The operators of an embedded release: see ``OperatorsOfTorch``."""

    release: str

    def has(self, name: str) -> bool | None:
        """Whether it has an operator, or an overload; None if that is not known."""
        version = TorchVersion(self.release)
        if "." in name and version.minor_version < OVERLOADS_SINCE:
            return False
        if EmbeddedOperators(self.release, _MACHINE).has(name):
            return True
        # In other namespaces, Python code may define it: of torch, or of another package.
        return None if not name.startswith(ATEN) or torchscript.may_have(name, version) else False

    def lacks(self, name: str) -> bool:
        """Whether it is certain that there is no such operator, or overload."""
        return self.has(name) is False

    def was_there(self, name: str) -> bool:
        """Whether some release has an operator, or an overload."""
        return name.removesuffix(DEFAULT_OVERLOAD) in (
            _all_names() if name.endswith(DEFAULT_OVERLOAD) else _with_bases()
        )

    def overloads(self, name: str) -> Sequence[Overload]:
        """Return all overloads of an operator, or the one that is named; none if there may be others."""
        if torchscript.may_have(name, TorchVersion(self.release)):
            return ()
        names = {name.removesuffix(DEFAULT_OVERLOAD)}
        if "." not in name:
            names |= {other for other in _all_names() if other.startswith(f"{name}.")}
        return parse_overloads(embedded_operators.schemas(self.release, _MACHINE, names))

    def others_take(self, name: str, call: PassedArguments) -> bool:
        """Whether some release takes a call."""
        releases = reversed(embedded.versions(_MACHINE))
        return any(ReleaseOperators(str(release)).takes(name, call) for release in releases)

    def takes(self, name: str, call: PassedArguments) -> bool | None:
        """Whether it takes a call; None if that is not known."""
        overloads = self.overloads(name) if self.has(name) else ()
        return refusal_of(overloads, call) is None if overloads else (False if self.lacks(name) else None)

    def gone_keywords(self, name: str) -> frozenset[str]:
        """Return the keywords that the function of an operator takes in another release, and not in this."""
        return _gone_keywords(self.release, name)

    def is_overloaded(self, name: str) -> bool:
        """Whether the function of an operator has several lists of parameters; those with outputs are no others."""
        return (
            sum(not any(argument.is_out for argument in schema.arguments) for schema in _schemas(self.release, name))
            > 1
        )

    def lost_list(self, name: str, keyword: str) -> bool:
        """Whether an operator takes a list for a keyword in another release, and one number in this."""
        if self.takes_list(name, keyword) is not False:
            return False
        releases = (ReleaseOperators(str(release)) for release in reversed(embedded.versions(_MACHINE)))
        return any(release.takes_list(name, keyword) for release in releases)

    def takes_list(self, name: str, keyword: str) -> bool | None:
        """Whether an operator takes a list for a keyword; None if it has no such keyword."""
        schemas = _schemas(self.release, name)
        arguments = [item for schema in schemas for item in schema.arguments if item.name == keyword]
        return any("[" in str(item.type) for item in arguments) if arguments else None

    def keywords(self, name: str) -> frozenset[str]:
        """Return the keywords of all overloads of an operator."""
        return _keywords_of(_schemas(self.release, name))


def parse_overloads(schemas: Iterable[str | None]) -> tuple[Overload, ...]:
    """Return the overloads with some schemas; none if one cannot be read, or takes any number of arguments."""
    overloads: list[Overload] = []
    for text in schemas:
        try:
            schema = FunctionSchema.parse(text or "")
        except SchemaError:
            return ()
        if schema.is_vararg:
            return ()
        parameters = ParameterList(
            positional=tuple(argument.name for argument in schema.arguments if not argument.kwarg_only),
            only_positional=0,
            keyword_only=tuple(argument.name for argument in schema.arguments if argument.kwarg_only),
            required=frozenset(argument.name for argument in schema.arguments if not argument.has_default),
            has_star=False,
            has_keywords=False,
        )
        overloads.append(Overload(name=str(schema.name), parameters=parameters))
    return tuple(overloads)


def by_operator(definitions: Iterable[tuple[str, str | None]]) -> dict[str, tuple[Overload, ...]]:
    """Return the overloads of operators that are not of torch, by names without them, if all are known.

    :param definitions: names with overloads, and their schemas
    """
    schemas: dict[str, list[str | None]] = {}
    for name, schema in definitions:
        if not name.startswith(ATEN):
            schemas.setdefault(name.partition(".")[0], []).append(schema)
    return {name: overloads for name, texts in schemas.items() if (overloads := parse_overloads(texts))}


@functools.lru_cache(maxsize=4096)
def _schemas(release: str, name: str) -> tuple[FunctionSchema, ...]:
    """Return the schemas of all overloads of an operator."""
    return tuple(_parse(_texts(release, name)))


def _parse(texts: Iterable[str]) -> Iterator[FunctionSchema]:
    """Yield the schemas that can be read."""
    for text in texts:
        with suppress(SchemaError):
            yield FunctionSchema.parse(text)


def _keywords_of(schemas: Iterable[FunctionSchema]) -> frozenset[str]:
    return frozenset(argument.name for schema in schemas for argument in schema.arguments)


@functools.lru_cache(maxsize=4096)
def _gone_keywords(release: str, name: str) -> frozenset[str]:
    own = _texts(release, name)
    if not own:
        return frozenset()
    others = embedded_operators.table().schemas(_overloads_of()[name]).difference(own)
    # To parse a schema takes much longer than to look for words in its text.
    known = _OF_PYTHON.union(word for text in own for word in _WORD.findall(text))
    unusual = [text for text in others if not known.issuperset(_WORD.findall(text))]
    gone = _keywords_of(_parse(unusual)) - _OF_PYTHON
    return gone - _keywords_of(_schemas(release, name)) if gone else gone


@functools.lru_cache(maxsize=4096)
def _texts(release: str, name: str) -> tuple[str, ...]:
    names = _overloads_of().get(name, ())
    schemas = embedded_operators.schemas(release, _MACHINE, names) if names else ()
    return tuple(schema or "" for schema in schemas)


@functools.cache
def _overloads_of() -> dict[str, list[str]]:
    """Return the names of all overloads of each operator."""
    by_base: dict[str, list[str]] = {}
    for name in _all_names():
        by_base.setdefault(name.partition(".")[0], []).append(name)
    return by_base


@functools.cache
def _all_names() -> frozenset[str]:
    return embedded_operators.table().all_names


@functools.cache
def _with_bases() -> frozenset[str]:
    return _all_names() | {name.partition(".")[0] for name in _all_names()}
