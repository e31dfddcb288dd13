"""Compute the dispatch table: which kernel torch calls for an operator and a dispatch key.

``aten/src/ATen/core/dispatch/OperatorEntry.cpp`` computes it from the registrations (``computeDispatchTableEntry``),
and so does this module, for every release. The last registration for a key wins; otherwise, order does not matter.

How releases differ: up to 1.6, there are only kernels for a key, fallbacks for a key, and the catch-all kernel. 1.7
added keys that stand for several others (``Autograd``, ``Math``), 1.8 made the catch-all one of those and added
``DefaultBackend``; in 1.9, they got their present names. 1.13 and 2.0 added the remaining alias keys.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from abiscan.dispatch.keys import keys_of_minor, unnamed_number
from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators
from abiscan.inputs.version import MinorVersion

UNDEFINED: Final = "Undefined"
AUTOGRAD_OTHER: Final = "AutogradOther"
AUTOGRAD: Final = "Autograd"
NESTED: Final = "CompositeImplicitAutogradNestedTensor"
BATCHED: Final = "FuncTorchBatchedDecomposition"
NON_FUNCTIONAL: Final = "CompositeExplicitAutogradNonFunctional"
EXPLICIT: Final = ("CompositeExplicitAutograd", "DefaultBackend")
IMPLICIT: Final = ("CompositeImplicitAutograd", "Math")
"""The alias keys. The second names are those in 1.7 and 1.8."""

UNNAMED: Final = "UNKNOWN_TENSOR_TYPE_ID"
"""What torch up to 1.11 prints for a key without a name."""

_ALIASES: Final = (1, 7)
_NO_CATCH_ALL: Final = (1, 8)
_SPLIT: Final = (1, 12)  # from here on, a key is a functionality with a backend

# getBackendKeySetFromAutograd (c10/core/DispatchKeySet.cpp) has a case for each key AutogradX but for these.
_AUTOGRAD_WITHOUT_BACKEND: Final = frozenset({"AutogradHIP", "AutogradVE", "AutogradMTIA"})
_AUTOGRAD_XPU_WITH_BACKEND: Final = (1, 10)

# From 1.12 on: the functionalities that every backend has, and the prefix before the backend's name in their keys.
_PER_BACKEND: Final = {
    "Dense": "",
    "Quantized": "Quantized",
    "Sparse": "Sparse",
    "SparseCsr": "SparseCsr",
    "NestedTensor": "NestedTensor",
    "AutogradFunctionality": "Autograd",
}
_FIRST_BACKEND: Final = "CPU"


class EntrySource(enum.Enum):
    """The source of a table entry, in the words that torch prints in brackets."""

    KERNEL = "kernel"
    DEFAULT_BACKEND = "default backend kernel"
    NESTED = "nested kernel"
    MATH = "math kernel"
    AMBIGUOUS = "ambiguous autogradother"
    AUTOGRAD = "autograd kernel"
    BATCHED = "batched kernel"
    FALLBACK = "backend fallback"
    CATCH_ALL = "catch all"
    MISSING = "missing"


class TableEntry(NamedTuple):
    """One entry.

    :ivar source: why it is there
    :ivar registration: what is called; None if calling it raises, since it is missing or ambiguous
    """

    source: EntrySource
    registration: Kernel | Fallback | None

    @property
    def is_fallthrough(self) -> bool:
        """Whether torch skips the key and uses the next key of the tensor."""
        return self.registration is not None and self.registration.fallthrough


_RAISING: Final = (EntrySource.MISSING, EntrySource.AMBIGUOUS)
_Choice: TypeAlias = tuple[EntrySource, str | None]
"""The source of an entry, and the key that its kernel is registered for: None is the catch-all, or there is none."""


class DispatchTable(Struct, frozen=True, dict=True):
    """The dispatch table of a torch.

    :ivar release: the release whose rules apply
    :ivar operators: what is registered
    """

    release: MinorVersion
    operators: Operators

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys that have entries, in the order in which torch prints them: ``Undefined`` first."""
        return runtime_keys(self.names, self.operators.aliases)

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The dispatch keys by number, including those for which this torch itself has no name."""
        if self.release < _SPLIT:
            return {**keys_of_minor(self.release).names, **self.operators.keys}
        return {**_keys_of_backends(self.operators.keys), **self.operators.keys}

    @cached_property
    def aliases(self) -> Mapping[str, frozenset[str]]:
        """The runtime keys that each alias key includes."""
        unnamed = [name for name in self.names.values() if name not in self._printable]
        return {
            alias: members.union(name for name in unnamed if _first_of_functionality(name) in members)
            for alias, members in self.operators.aliases.items()
        }

    def printed_key(self, key: str) -> str:
        """Return a key as this torch prints it."""
        return key if key in self._printable else UNNAMED

    @cached_property
    def kernels(self) -> Mapping[str, Mapping[str | None, Kernel]]:
        """The kernel that is called for each operator and key; None is the catch-all."""
        kernels: dict[str, dict[str | None, Kernel]] = {}
        named: dict[str | None, str | None] = {None: None}
        for kernel in self.operators.kernels:
            key = kernel.key
            if key is not None and key not in named:
                named[key] = self._name_of(key)
            kernels.setdefault(kernel.operator, {})[named[key]] = kernel
        return kernels

    @cached_property
    def fallbacks(self) -> Mapping[str, Fallback]:
        """The fallback of each key that has one; a fallback for an alias applies to all keys that it includes."""
        fallbacks: dict[str, Fallback] = {}
        for fallback in self.operators.fallbacks:
            if fallback.key is not None:
                name = self._name_of(fallback.key)
                for key in self.aliases.get(name, (name,)):
                    fallbacks[key] = fallback
        return fallbacks

    def sources(self, operator: str) -> Mapping[str, EntrySource]:
        """Return the sources of all entries of an operator, by key, in torch's order."""
        registered = frozenset(self.kernels.get(operator, ()))
        if registered not in self._sources:
            self._sources[registered] = {key: self._choose(registered, key)[0] for key in self.keys}
        return self._sources[registered]

    @cached_property
    def _sources(self) -> dict[frozenset[str | None], Mapping[str, EntrySource]]:
        return {}

    def entry(self, operator: str, key: str) -> TableEntry:
        """Return the entry that torch uses for an operator and a runtime key."""
        source, registered = self._choice(operator, key)
        if source is EntrySource.FALLBACK:
            return TableEntry(source, self.fallbacks[key])
        return TableEntry(source, None if source in _RAISING else self.kernels[operator][registered])

    def source(self, operator: str, key: str) -> EntrySource:
        """Return the source of the entry for an operator and a runtime key."""
        return self._choice(operator, key)[0]

    def _choice(self, operator: str, key: str) -> _Choice:
        # It depends on nothing but the keys that an operator has kernels for, which are the same for most operators.
        question = frozenset(self.kernels.get(operator, ())), key
        if question not in self._choices:
            self._choices[question] = self._choose(*question)
        return self._choices[question]

    @cached_property
    def _choices(self) -> dict[tuple[frozenset[str | None], str], _Choice]:
        return {}

    def with_more(
        self, operators: Iterable[Operator], kernels: Iterable[Kernel], fallbacks: Iterable[Fallback]
    ) -> DispatchTable:
        """Return the table after further registrations."""
        extended = replace(
            self.operators,
            operators={**{operator.name: operator for operator in operators}, **self.operators.operators},
            kernels=(*self.operators.kernels, *kernels),
            fallbacks=(*self.operators.fallbacks, *fallbacks),
        )
        return DispatchTable(self.release, extended)

    def backends_of(self, autograd_key: str) -> frozenset[str]:
        """Return the backends whose kernels an autograd key runs before (``getBackendKeySetFromAutograd``)."""
        return self._backends.get(autograd_key, frozenset())

    def _choose(self, registered: frozenset[str | None], key: str) -> _Choice:
        """Choose the kernel for a key, of those registered for some (``computeDispatchTableEntryWithDebug``)."""
        # In torch's order: a kernel for the key itself, kernels for alias keys, a fallback for the key, the catch-all
        # (up to 1.7).
        if key in registered:
            return EntrySource.KERNEL, key
        if self.release >= _ALIASES and (choice := self._choose_alias(registered, key)) is not None:
            return choice
        if key in self.fallbacks:
            return EntrySource.FALLBACK, key
        return EntrySource.CATCH_ALL if None in registered else EntrySource.MISSING, None

    def _choose_alias(self, registered: frozenset[str | None], key: str) -> _Choice | None:
        """Choose the alias kernel that serves a key; return None if there is none."""
        # First the composite kernels that do not concern autograd: they serve backends, and Undefined.
        for alias in (NON_FUNCTIONAL, self._explicit):
            if alias in registered and self._serves(alias, key):
                return EntrySource.DEFAULT_BACKEND, alias
        if NESTED in registered and self._includes(NESTED, key):
            return EntrySource.NESTED, NESTED
        # The implicit kernel serves an autograd key only if no kernel of its backend, and no explicit one, would be
        # bypassed: then autograd has to come before that kernel.
        has_backend = self._explicit in registered or not self.backends_of(key).isdisjoint(registered)
        if self._implicit in registered and self._serves(self._implicit, key):
            if key == AUTOGRAD_OTHER and not self._autograd_other.isdisjoint(registered):
                return EntrySource.AMBIGUOUS, None
            if not has_backend:
                return EntrySource.MATH, self._implicit
        if AUTOGRAD in registered and self._includes(AUTOGRAD, key):
            return EntrySource.AUTOGRAD, AUTOGRAD
        # Up to 1.7, where the catch-all is not an alias, an autograd key prefers it to a fallback.
        if None in registered and self._includes(AUTOGRAD, key) and not has_backend:
            return EntrySource.CATCH_ALL, None
        if BATCHED in registered and self._includes(BATCHED, key):
            return EntrySource.BATCHED, BATCHED
        return None

    def _name_of(self, key: str) -> str:
        """Return the name of a key that was read as a number because torch itself has no name for it."""
        number = unnamed_number(key)
        return key if number is None else self.names.get(number, key)

    def _includes(self, alias: str, key: str) -> bool:
        """Tell whether an alias stands for a key, among others."""
        return key in self.aliases.get(alias, ())

    def _serves(self, alias: str, key: str) -> bool:
        """Tell whether a composite kernel serves a key: from 1.8 on, also ``Undefined``, which is in no set of keys."""
        return self._includes(alias, key) or (key == UNDEFINED and self.release >= _NO_CATCH_ALL)

    @cached_property
    def _explicit(self) -> str:
        return _spelling(EXPLICIT, self.aliases)

    @cached_property
    def _implicit(self) -> str:
        return _spelling(IMPLICIT, self.aliases)

    @cached_property
    def backend_keys(self) -> frozenset[str]:
        """The keys of backends, in all layouts; empty up to 1.6, which does not distinguish them."""
        aliases = self.aliases
        return aliases.get(self._implicit, frozenset()) - aliases.get(AUTOGRAD, frozenset())

    @cached_property
    def _autograd_other(self) -> frozenset[str]:
        """The backends without an autograd key of their own (``autogradother_backends``)."""
        backends = self.backend_keys
        nested = {key for key in backends if key.startswith("NestedTensor")}
        return frozenset(key for key in backends - nested if AUTOGRAD + key not in self._named)

    @cached_property
    def _printable(self) -> frozenset[str]:
        return frozenset(self.operators.keys.values())

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(self.names.values())

    @cached_property
    def _backends(self) -> Mapping[str, frozenset[str]]:
        backends = {AUTOGRAD_OTHER: self._autograd_other}
        for key in self.aliases.get(AUTOGRAD, ()):
            if key in _AUTOGRAD_WITHOUT_BACKEND or key == AUTOGRAD_OTHER:
                continue
            if key == "AutogradXPU" and self.release < _AUTOGRAD_XPU_WITH_BACKEND:
                continue
            backend = key.removeprefix(AUTOGRAD)
            # AutogradNestedTensor runs before the kernels for nested tensors of every backend.
            nested = (name for name in self._named if name.startswith("NestedTensor"))
            backends[key] = frozenset(nested if backend == "NestedTensor" else (backend,))
        return backends


def no_key_of(operators: Operators) -> str | None:
    """Return the key of a kernel that is registered without one: up to 1.7 None, the catch-all."""
    aliases = operators.aliases
    return _spelling(IMPLICIT, aliases) if _spelling(EXPLICIT, aliases) in aliases else None


def runtime_keys(keys: Mapping[int, str], aliases: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the keys that have entries in the dispatch table, in torch's order: ``Undefined`` first.

    Up to 1.11, that is the order of their numbers. From 1.12 on, a key is a functionality with a backend, and the
    functionalities follow each other, each with all of its backends.

    :param keys: names by number
    """
    return tuple(key for _, key in sorted(_rank_keys(keys, aliases)))


def _keys_of_backends(keys: Mapping[int, str]) -> dict[int, str]:
    """Number the keys of all backends in all functionalities: not all of them have a name in 1.12."""
    numbers = {name: number for number, name in keys.items()}
    if _FIRST_BACKEND not in numbers:  # nothing is known of the keys of a damaged torch
        return {}
    backends: list[str] = []
    while (name := keys.get(numbers[_FIRST_BACKEND] + len(backends))) is not None and not name.endswith("Unknown"):
        backends.append(name)
    return {
        numbers[prefix + _FIRST_BACKEND] + place: prefix + backend
        for functionality, prefix in _PER_BACKEND.items()
        if functionality in numbers and prefix + _FIRST_BACKEND in numbers
        for place, backend in enumerate(backends)
    }


def _first_of_functionality(key: str) -> str:
    """Return the key of the same functionality for the first backend: the same aliases include it."""
    prefixes = [prefix for prefix in _PER_BACKEND.values() if prefix and key.startswith(prefix)]
    return max(prefixes, key=len) + _FIRST_BACKEND if prefixes else key


def _rank_keys(keys: Mapping[int, str], aliases: Mapping[str, frozenset[str]]) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield each key with its rank in torch's order."""
    # A key of a functionality and a backend ranks by the functionality, then by its own number. The functionality
    # itself has no entry.
    numbers = {name: number for number, name in keys.items()}
    blocks = {  # the number of a functionality's first backend -> the functionality's own
        numbers[prefix + _FIRST_BACKEND]: numbers[functionality]
        for functionality, prefix in _PER_BACKEND.items()
        if functionality in numbers and prefix + _FIRST_BACKEND in numbers and "Dense" in numbers
    }
    for number, name in keys.items():
        if name in aliases or name.endswith("Unknown"):
            continue
        if before := [block for block in blocks if block <= number]:
            yield (blocks[max(before)], number), name
        elif not (blocks and name in _PER_BACKEND):
            yield (number, number), name


def _spelling(names: tuple[str, ...], keys: Iterable[str]) -> str:
    """Return the name that a release has of several; empty if it has none of them."""
    return next((name for name in names if name in keys), "")
