"""A model of ``c10::Dispatcher`` while operators are registered: every check that torch makes, in its order.

``replay`` takes what is registered already and what an extension registers, in the order in which it does, and tells
what torch does about it, up to the first registration that throws, and what it would refuse behind that. Sources, all
in ``aten/src/ATen/core``: ``library.cpp``, ``dispatch/{Dispatcher, OperatorEntry}.cpp``,
``op_registration/{op_registration, infer_schema}.cpp``.

Where the releases differ: 1.4 and 1.5 know ``RegisterOperators`` only, and compare no C++ types. 1.6 brought
``TORCH_LIBRARY`` and these comparisons. Up to 1.7 an operator may be defined again with an equal schema; from 1.8 on
not at all. 1.13 brought SymInt, and with it a second C++ type for each operator. From 2.1 on torch warns only once.

Dispatch keys are names here, as the release names them; None is "no key", which torch up to 1.7 calls the catch-all.
Not modelled: assertions on torch's own bookkeeping, a second interpreter in the process.
"""

from __future__ import annotations

import enum
import functools
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, TypeAlias

from abiscan.dispatch import signature
from abiscan.dispatch.keys import keys_of_minor
from abiscan.dispatch.messages import Message, has_message, message
from abiscan.dispatch.schema import Argument, FunctionSchema, OperatorName, parse_name_or_schema
from abiscan.dispatch.schema_lexer import SchemaError
from abiscan.dispatch.schema_types import Type
from abiscan.inputs.version import MinorVersion

LIBRARIES: Final = (1, 6)  # torch/library.h, and the checks of C++ types
_ONE_DEFINITION: Final = (1, 8)
_NO_CATCH_ALL: Final = (1, 8)
SYMINT: Final = (1, 13)
_SILENT_META: Final = (2, 0)
_SILENT_MTIA: Final = (2, 5)
_WARNS_ONCE: Final = (2, 1)
_REASONS_END: Final = (2, 4)
_MOST_ARGUMENTS: Final = 64  # bits of the set in DispatchKeyExtractor.h

_SYMINT_NOTE: Final = (2, 15)
_BY_VALUE: Final = (
    "\n  SymInt parameters must use the supported C++ signatures: pass SymInt and std::optional<SymInt> by value, and "
    "SymIntArrayRef and OptionalSymIntArrayRef directly (not as const references)."
)
_TYPE_HINT: Final = (2, 4)
_HINT: Final = (
    ". Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; for a full list, please see "
    "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func "
)

# The registries that take one entry for a key, with the check that refuses the next; and those that replace it.
_STORAGE: Final = "storage"
_REFUSALS: Final = {
    "privateuse1-hooks": "E1",
    "privateuse1-generator": "E2",
    _STORAGE: "E3",
    "AcceleratorAllocatorConfig": "E5",
}
_REPLACED: Final = ("device-guard", "allocator", "privateuse1-profiler")
_FROM_SCHEMA: Final = "FROM_SCHEMA"  # what TORCH_LIBRARY takes for a schema that is given,
_CONSERVATIVE: Final = "CONSERVATIVE"  # and for one that is inferred (library.cpp)
_PRIVATE_USE: Final = "PrivateUse1"
_PRIVATE_USE_NAME: Final = "privateuseone"  # as torch calls the device, as long as nobody has named it

BY_REGISTER_OPERATORS: Final = "registered by RegisterOperators"
_NO_DEBUG: Final = "no debug info"
_UNKNOWN: Final = "?"


# What is registered


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSignature:
    """The C++ type that the kernels of an operator must have: that of the first kernel with a type. It is mangled."""

    mangled: str
    dispatch_key: str | None
    debug: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKernel:
    """A kernel: where it was registered, and the schema of its C++ type (``(Tensor _0) -> Tensor _0``), if any."""

    debug: str
    inferred: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEntry:
    """One operator. ``schema`` is None for one that has kernels and no definition, ``debug`` where it was defined.

    ``alias_analysis`` is the kind of it that was given with the definition, if any.
    ``kernels`` by their key, the newest first. ``sym_signature`` is that of kernels with a SymInt, from 1.13 on. Both
    signatures are left out where ``signatures_known`` is false, as in all that torch tells about itself.
    """

    schema: str | None = None
    debug: str = ""
    kernels: Mapping[str | None, tuple[StoredKernel, ...]] = field(default_factory=dict)
    signature: StoredSignature | None = None
    sym_signature: StoredSignature | None = None
    signatures_known: bool = True
    alias_analysis: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is registered: operators by name, without a trailing dot, and where libraries and fallbacks were registered.

    ``classes`` are the custom classes as ``ns.Name``, None where they are not known; ``warned`` tells that torch has
    given its only warning about a replaced kernel; ``backend`` is the name that ``PrivateUse1`` was given, if any.
    ``entries`` are those of torch's other registries, by registry and key, with their priorities, as far as known.
    """

    operators: Mapping[str, OperatorEntry] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    classes: frozenset[str] | None = None
    warned: bool = False
    backend: str | None = None
    entries: Mapping[tuple[str, int | str | None], int] = field(default_factory=dict)


# What is being registered


class BlockKind(enum.Enum):
    """The macros of ``torch/library.h``."""

    DEF = "TORCH_LIBRARY"
    IMPL = "TORCH_LIBRARY_IMPL"
    FRAGMENT = "TORCH_LIBRARY_FRAGMENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of ``torch/library.h``; ``namespace`` is None for the wildcard ``_``."""

    kind: BlockKind
    namespace: str | None
    dispatch_key: str | None
    file: str
    line: int

    @property
    def debug(self) -> str:
        """What torch notes about all that is registered in it."""
        return f"registered at {self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CppFunction:
    """A function that is being registered. ``dispatch_key`` is its own, beside that of its block.

    ``signature`` and ``inferred`` are None for what has no C++ type: boxed functions and fallthroughs. ``debug`` is
    what ``CppFunction::debug`` puts in place of the block's.
    """

    dispatch_key: str | None = None
    signature: str | None = None
    inferred: str | None = None
    debug: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBlock:
    """A block begins."""

    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Define:
    """``m.def(text)``, or ``m.def(text, kernel)``; ``text`` is a schema, or with a kernel maybe a name.

    ``alias_analysis`` is that of ``torch::schema(text, …)``.
    """

    block: Block
    text: str
    kernel: CppFunction | None = None
    alias_analysis: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Implement:
    """``m.impl(name, kernel)``."""

    block: Block
    name: str
    kernel: CppFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class FallBack:
    """``m.fallback(kernel)``; up to 1.5, which have no blocks, ``registerBackendFallbackKernel``."""

    block: Block | None
    kernel: CppFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterOperator:
    """``RegisterOperators().op(text, kernels)``; ``alias_analysis`` is that of its options, if they have any."""

    text: str
    kernels: tuple[CppFunction, ...]
    alias_analysis: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterClass:
    """``torch::class_``; ``name`` is ``ns.Name``."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameBackend:
    """``c10::register_privateuse1_backend``."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enter:
    """An entry in another of torch's registries. ``key`` is the name of the device where it is for one.

    ``priority`` is that in a ``c10::Registry``, or of an allocator; None where there is none.
    """

    registry: str
    key: int | str | None = None
    priority: int | None = None


Event: TypeAlias = OpenBlock | Define | Implement | FallBack | RegisterOperator | RegisterClass | NameBackend | Enter


# What comes of it


class OutcomeKind(enum.Enum):
    """What torch does about a registration that is not simply accepted."""

    RAISES = "raises"
    """It throws ``message``, and nothing after it happens."""

    EXITS = "exits"
    """It prints ``message`` and ends the process by ``exit(1)``, which nobody can catch."""

    OVERRIDES = "overrides"
    """It replaces what is there, and warns with ``message``; None if it does so in silence."""

    SKIPS = "skips"
    """It keeps what is there instead, and prints ``message``."""

    DEAD = "dead"
    """It keeps a kernel for an operator that nobody defines, and says nothing."""


FATAL: Final = (OutcomeKind.RAISES, OutcomeKind.EXITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What comes of one event.

    ``subject`` is the operator, namespace, dispatch key or class concerned. ``new`` and ``old`` are what meets there:
    two schemas (D1, D2, K2, R7, R8), two C++ types (K1), or where the two were registered; None where nothing meets.
    """

    event: Event
    kind: OutcomeKind
    message: Message | None
    subject: str
    new: str | None = None
    old: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """All that is remarkable about a sequence of events, and what is registered after it.

    ``behind`` is what torch would refuse if what it does refuse were left out, in the order of the events.
    """

    outcomes: tuple[Outcome, ...]
    state: State
    behind: tuple[Outcome, ...] = ()

    @property
    def failure(self) -> Outcome | None:
        """The event that throws, or ends the process."""
        return next((outcome for outcome in self.outcomes if outcome.kind in FATAL), None)


def replay(state: State, events: Iterable[Event], release: MinorVersion) -> Replay:
    """What a release of torch, with ``state`` registered, does with ``events``.

    :param release: 1.4 or newer
    """
    run = _Run(state, release)
    left = iter(events)
    for event in left:
        run.register(event)
        if run.failed:
            break
    else:
        run.find_dead()
    outcomes, after = tuple(run.outcomes), run.state()
    return Replay(outcomes=outcomes, state=after, behind=tuple(run.go_on(outcomes[-1], left)) if run.failed else ())


class _ThrownError(Exception):
    """torch throws, or ends the process: all that there is to say of it but the event."""

    def __init__(
        self,
        thrown: Message,
        subject: str,
        new: str | None = None,
        old: str | None = None,
        kind: OutcomeKind = OutcomeKind.RAISES,
    ) -> None:
        super().__init__(thrown.text)
        self.thrown, self.subject, self.new, self.old, self.kind = thrown, subject, new, old, kind


class _Run:
    """A dispatcher at work: the state that was given, with what has changed on top of it."""

    def __init__(self, state: State, release: MinorVersion) -> None:
        self._release = release
        self._operators: ChainMap[str, OperatorEntry] = ChainMap({}, dict(state.operators))
        self._libraries = dict(state.libraries)
        self._fallbacks = dict(state.fallbacks)
        self._classes = state.classes
        self._warned = state.warned
        self._backend = state.backend
        self._entries = dict(state.entries)
        self._implemented: dict[str, Event] = {}  # operator -> the first event that gives it a kernel
        self.outcomes: list[Outcome] = []
        self.failed = False

    def state(self) -> State:
        return State(
            operators=dict(self._operators),
            libraries=dict(self._libraries),
            fallbacks=dict(self._fallbacks),
            classes=self._classes,
            warned=self._warned,
            backend=self._backend,
            entries=dict(self._entries),
        )

    def register(self, event: Event) -> None:
        try:
            match event:
                case OpenBlock():
                    self._open(event.block)
                case Define():
                    self._define(event)
                case Implement():
                    self._implement(event)
                case FallBack():
                    self._fall_back(event)
                case RegisterOperator():
                    self._register_operator(event)
                case RegisterClass():
                    self._register_class(event.name)
                case NameBackend():
                    self._name_backend(event.name)
                case Enter():
                    self._enter(event)
        except _ThrownError as error:
            self.failed = True
            self.outcomes.append(
                Outcome(
                    event=event,
                    kind=error.kind,
                    message=error.thrown,
                    subject=error.subject,
                    new=error.new,
                    old=error.old,
                )
            )

    def go_on(self, refused: Outcome, events: Iterable[Event]) -> Iterator[Outcome]:
        """What else is refused, each thing once: the kernels of an operator that is refused count as part of it.

        Where a block is refused, nothing is said of what is in the blocks of its namespace.
        """
        known = {_thing(refused)}
        for event in events:
            if isinstance(event, Define | Implement | FallBack) and ("OpenBlock", _namespace(event)) in known:
                continue
            self.outcomes.clear()
            self.register(event)
            for outcome in self.outcomes:
                if outcome.kind in FATAL and _thing(outcome) not in known:
                    known.add(_thing(outcome))
                    yield outcome

    def find_dead(self) -> None:
        for name, event in self._implemented.items():
            if self._operators[name].schema is None:
                self.outcomes.append(Outcome(event=event, kind=OutcomeKind.DEAD, message=None, subject=name))

    # What library.cpp checks

    def _open(self, block: Block) -> None:
        if block.kind is BlockKind.IMPL:
            return
        if block.kind is BlockKind.DEF:
            if block.namespace is None:
                self._throw_in(block, "L1b", "_")
            if block.namespace in self._libraries:
                previous = self._libraries[block.namespace]
                self._throw(
                    "N1",
                    block.namespace,
                    new=block.debug,
                    old=previous,
                    namespace=block.namespace,
                    previous=previous,
                    debug=block.debug,
                )
            self._libraries[block.namespace] = block.debug
        if block.namespace is None:
            self._throw_in(block, "L1", "_")
        if block.dispatch_key is not None:
            self._throw_in(block, "L2", block.namespace, place=_UNKNOWN)

    def _define(self, event: Define) -> None:
        block, kernel = event.block, event.kernel
        given = self._parse(event.text, with_typevars=block.namespace in ("aten", "prim"))
        if isinstance(given, OperatorName):
            if kernel is None:
                self._throw_text(given, "Tried to parse a function schema but only the operator name was given")
            if kernel.inferred is None:
                self._throw_in(block, "L5", str(given), operator=given)
            schema, alias = _named(kernel.inferred, given), _CONSERVATIVE
        else:
            schema, alias = given, event.alias_analysis or _FROM_SCHEMA
        if block.kind is BlockKind.IMPL or block.namespace is None:
            self._throw_in(block, "L3", str(schema.name), operator=schema.name)
        namespace = schema.name.namespace
        # In 1.6 even the block's own namespace is one too many.
        if namespace and (namespace != block.namespace or self._release == LIBRARIES):
            equal = int(namespace == block.namespace)  # which 1.6 prints first, by mistake
            self._throw_in(block, "L4", str(schema.name), given=namespace, namespace=block.namespace, equal=equal)
        schema = replace(schema, name=replace(schema.name, namespace=block.namespace))
        self._register_def(schema, block.debug, alias)
        if kernel is not None:
            key = kernel.dispatch_key or block.dispatch_key
            self._register_impl(event, str(schema.name), key, kernel, kernel.debug or block.debug)

    def _implement(self, event: Implement) -> None:
        block, kernel = event.block, event.kernel
        try:
            name = OperatorName.parse(event.name)
        except SchemaError as error:
            raise self._unreadable(event.name, error) from error
        if name.namespace and name.namespace != block.namespace:
            # Of the wildcard block torch prints a namespace that it does not have.
            self._throw_in(
                block,
                "L6",
                str(name),
                operator=event.name,
                given=name.namespace,
                namespace=block.namespace or "std::nullopt",
            )
        if kernel.dispatch_key and block.dispatch_key and kernel.dispatch_key != block.dispatch_key:
            self._throw_in(
                block, "L7", str(name), operator=event.name, given=kernel.dispatch_key, key=block.dispatch_key
            )
        name = replace(name, namespace=block.namespace or name.namespace)
        key = kernel.dispatch_key or block.dispatch_key
        self._register_impl(event, str(name), key, kernel, kernel.debug or block.debug)

    def _fall_back(self, event: FallBack) -> None:
        block = event.block
        key = event.kernel.dispatch_key or (block.dispatch_key if block else None)
        debug = event.kernel.debug or (block.debug if block else "")
        if block is not None:
            if block.kind is not BlockKind.IMPL:
                self._throw_in(block, "L8", block.namespace or "_")
            if key is None:
                self._throw_in(block, "L9", block.namespace or "_", place=_UNKNOWN)
            if block.namespace is not None:
                self._throw_in(block, "L10", key, namespace=block.namespace, key=key)
        for runtime_key in self._runtime_keys(key or _UNKNOWN):
            self._register_fallback(event, runtime_key, debug)

    # What op_registration.cpp checks

    def _register_operator(self, event: RegisterOperator) -> None:
        given = self._parse(event.text, with_typevars=True)
        schema = self._inferred_from(given, event.kernels) if isinstance(given, OperatorName) else given
        name = str(schema.name)
        if self._release < LIBRARIES and not isinstance(given, OperatorName):
            for kernel in event.kernels:
                self._check_against_inferred(schema, kernel)
        self._check_alias_analysis(given, schema, event.alias_analysis)
        keys = [kernel.dispatch_key for kernel in event.kernels]
        twice = next((key for index, key in enumerate(keys) if key in keys[:index]), _UNKNOWN)
        if twice is None:
            self._throw("R4", name, schema=self._print(schema))
        if twice != _UNKNOWN:
            self._throw("R3", name, key=twice, schema=self._print(schema))
        self._register_def(schema, BY_REGISTER_OPERATORS, event.alias_analysis)
        for kernel in event.kernels:
            self._register_impl(event, name, kernel.dispatch_key, kernel, BY_REGISTER_OPERATORS)

    def _inferred_from(self, name: OperatorName, kernels: tuple[CppFunction, ...]) -> FunctionSchema:
        if not kernels:
            self._throw("R5", str(name), name=name)
        inferred = [_named(kernel.inferred, name) for kernel in kernels if kernel.inferred is not None]
        if not inferred:
            self._throw("R6", str(name), name=name)
        if has_message("R7", self._release):
            for other in inferred[1:]:
                reason = self._difference(inferred[0], other)
                if reason is not None:
                    first, second = (self._print(_named_nothing(schema)) for schema in (inferred[0], other))
                    self._throw("R7", str(name), new=second, old=first, first=first, second=second, reason=reason)
        return inferred[0]

    def _check_against_inferred(self, schema: FunctionSchema, kernel: CppFunction) -> None:
        if kernel.inferred is None:
            return
        inferred = _inferred(kernel.inferred)
        reason = self._difference(schema, inferred)
        if reason is not None:
            expected, found = self._print(schema), self._print(inferred)
            self._throw(
                "R8", str(schema.name), new=found, old=expected, expected=expected, inferred=found, reason=reason
            )

    def _check_alias_analysis(
        self, given: OperatorName | FunctionSchema, schema: FunctionSchema, alias: str | None
    ) -> None:
        if isinstance(given, OperatorName) and alias == _FROM_SCHEMA:
            self._throw("R9", str(schema.name), schema=self._print(schema))
        annotated = any(each.alias is not None for each in (*schema.arguments, *schema.returns))
        if annotated and alias != _FROM_SCHEMA and has_message("R10", self._release):
            self._throw("R10", str(schema.name), schema=self._print(schema))

    def _register_class(self, name: str) -> None:
        if self._classes is None:
            return
        if name in self._classes:
            self._throw("C1", name, name=f"__torch__.torch.classes.{name}")
        self._classes |= {name}

    def _name_backend(self, name: str) -> None:
        if self._backend not in (None, name):
            self._throw("C5", name, new=name, old=self._backend, name=self._backend)
        self._backend = name

    # What c10/util/Registry.h checks, and the functions that take one entry, or replace it

    def _enter(self, event: Enter) -> None:
        device = (self._backend or _PRIVATE_USE_NAME).lower()
        subject = str(event.key or _PRIVATE_USE)
        there = self._entries.get((event.registry, event.key))
        refusal = _REFUSALS.get(event.registry)
        if event.registry == _STORAGE and event.key != _PRIVATE_USE:
            refusal, there = "E4", 0
        if there is not None and refusal is not None:
            if has_message(refusal, self._release):
                self._throw(refusal, subject, key=event.key, device=device)
            return
        if there is not None and event.registry not in _REPLACED:
            if event.priority is None:
                return  # some table: what its code does about a second entry is not known
            if event.priority == there:
                raise _ThrownError(message("C4", self._release, key=event.key), subject, kind=OutcomeKind.EXITS)
        if there is None or (event.priority or 0) >= there:
            self._entries[event.registry, event.key] = event.priority or 0
            kind, said = OutcomeKind.OVERRIDES, None
        elif event.registry in _REPLACED:
            kind, said = OutcomeKind.SKIPS, None
        else:
            kind, said = OutcomeKind.SKIPS, message("C4b", self._release, key=event.key)
        if there is not None:
            self.outcomes.append(Outcome(event=event, kind=kind, message=said, subject=subject))

    # What Dispatcher.cpp checks

    def _register_def(self, schema: FunctionSchema, debug: str, alias: str | None) -> None:
        name = str(schema.name)
        entry = self._entry(name)
        if entry.schema is not None:
            old = _parsed(entry.schema)
            if self._release >= _ONE_DEFINITION or schema != old:
                new_text, old_text = self._print(schema), self._print(old)
                self._throw(
                    "D1" if self._release >= _ONE_DEFINITION else "D2",
                    name,
                    new=new_text,
                    old=old_text,
                    debug=debug,
                    previous=entry.debug,
                )
            if alias is not None and entry.alias_analysis is None:
                self._operators[name] = replace(entry, alias_analysis=alias)
            elif alias is not None and alias != entry.alias_analysis:
                self._throw_alias_analysis(schema, debug, alias, entry)
            return
        for kernels in entry.kernels.values():
            for kernel in kernels:
                if kernel.inferred is not None:
                    self._check_schema(schema, debug, None, kernel.inferred, kernel.debug)
        if self._release >= LIBRARIES and len(schema.arguments) > _MOST_ARGUMENTS:
            self._throw("K11", name, count=len(schema.arguments))
        self._operators[name] = replace(entry, schema=str(schema), debug=debug, alias_analysis=alias)

    def _throw_alias_analysis(self, schema: FunctionSchema, debug: str, alias: str, entry: OperatorEntry) -> NoReturn:
        """The schemas are equal, but not how code is to tell what they alias."""
        new, old = self._print(schema), self._print(_parsed(entry.schema or ""))
        check = next(check for check in ("D3", "D4", "D5") if has_message(check, self._release))
        self._throw(
            check,
            str(schema.name),
            new=new,
            old=old,
            name=schema.name,
            old_kind=entry.alias_analysis,
            kind=alias,
            previous=entry.debug,
            debug=debug,
        )

    def _register_impl(self, event: Event, name: str, key: str | None, kernel: CppFunction, debug: str) -> None:
        entry = self._entry(name)
        if self._release >= LIBRARIES:
            entry = self._check_signature(name, entry, key, kernel, debug)
            if entry.schema is not None and kernel.inferred is not None:
                self._check_schema(_parsed(entry.schema), entry.debug, kernel.signature, kernel.inferred, debug)
        slot = self._slot(key)
        there = entry.kernels.get(slot, ())
        if there:
            self._override(event, name, entry, key, there[0], debug)
        stored = StoredKernel(debug=debug, inferred=kernel.inferred)
        self._operators[name] = replace(entry, kernels={**entry.kernels, slot: (stored, *there)})
        self._implemented.setdefault(name, event)

    def _register_fallback(self, event: Event, key: str, debug: str) -> None:
        previous = self._fallbacks.get(key)
        if previous is not None:
            for check in ("F1", "F2"):
                if has_message(check, self._release):
                    self._throw(check, key, new=debug, old=previous, key=key, debug=debug, previous=previous)
            self.outcomes.append(
                Outcome(event=event, kind=OutcomeKind.OVERRIDES, message=None, subject=key, new=debug, old=previous)
            )
        self._fallbacks[key] = debug

    # What OperatorEntry.cpp checks

    def _check_signature(
        self, name: str, entry: OperatorEntry, key: str | None, kernel: CppFunction, debug: str
    ) -> OperatorEntry:
        if kernel.signature is None:
            return entry
        sym = self._release >= SYMINT and signature.takes_symint(kernel.signature)
        stored = entry.sym_signature if sym else entry.signature
        if stored is None and not entry.signatures_known:
            self._guess_signature(name, entry, key, kernel, debug)
            return entry
        if stored is None:
            stored = StoredSignature(mangled=kernel.signature, dispatch_key=key, debug=debug)
            return replace(entry, sym_signature=stored) if sym else replace(entry, signature=stored)
        if stored.mangled != kernel.signature:
            self._throw_signatures(
                name, entry, key, kernel.signature, debug, old=signature.printed(stored.mangled), stored=stored
            )
        return entry

    def _guess_signature(
        self, name: str, entry: OperatorEntry, key: str | None, kernel: CppFunction, debug: str
    ) -> None:
        """Where torch's own C++ types are not known: kernels with different schemas have different types."""
        if kernel.inferred is None or kernel.signature is None:
            return
        mine = _inferred(kernel.inferred)
        for other in (_inferred(its.inferred) for all_ in entry.kernels.values() for its in all_ if its.inferred):
            same_slot = _has_symint(mine) == _has_symint(other) or self._release < SYMINT
            if same_slot and self._difference(other, mine) is not None:
                self._throw_signatures(name, entry, key, kernel.signature, debug, old=_UNKNOWN, stored=None)

    def _throw_signatures(
        self,
        name: str,
        entry: OperatorEntry,
        key: str | None,
        mangled: str,
        debug: str,
        *,
        old: str,
        stored: StoredSignature | None,
    ) -> NoReturn:
        new = signature.printed(mangled)
        self._throw(
            "K1",
            name,
            new=new,
            old=old,
            exact=stored is not None,
            place=_UNKNOWN,
            name=name,
            operator=self._operator_text(name, entry),
            operator_debug=entry.debug if entry.schema is not None else _NO_DEBUG,
            old_key=_key_text(stored.dispatch_key) if stored else _UNKNOWN,
            previous=stored.debug if stored else _UNKNOWN,
            key=_key_text(key),
            debug=debug,
        )

    def _check_schema(
        self, schema: FunctionSchema, schema_debug: str, mangled: str | None, inferred_text: str, debug: str
    ) -> None:
        if self._release < LIBRARIES:
            return
        inferred = _inferred(inferred_text)
        with_symint = signature.takes_symint(mangled) if mangled is not None else _has_symint(inferred)
        expected = schema if with_symint else _without_symint(schema)
        reason = self._difference(expected, inferred)
        if reason is not None:
            if self._release >= _SYMINT_NOTE and not with_symint and _has_symint(inferred):
                reason += _BY_VALUE
            new, old = self._print(inferred), self._print(expected)
            self._throw(
                "K2",
                str(schema.name),
                new=new,
                old=old,
                name=schema.name,
                expected=old,
                expected_debug=schema_debug,
                inferred=new,
                debug=debug,
                reason=reason,
            )

    def _override(
        self, event: Event, name: str, entry: OperatorEntry, key: str | None, there: StoredKernel, debug: str
    ) -> None:
        once = self._release >= _WARNS_ONCE
        silent = (
            (once and self._warned)
            or (key == "Meta" and self._release >= _SILENT_META)
            or (key == "MTIA" and self._release >= _SILENT_MTIA)
        )
        warning = None
        if not silent:
            # torch shows the first kernel that had a C++ type as the previous one, whatever its key.
            first = entry.signature or entry.sym_signature
            known = first is not None or entry.signatures_known or not has_message("L1", self._release)
            previous = first.debug if first else _NO_DEBUG if known else _UNKNOWN
            check = "K3b" if key is None and has_message("K3b", self._release) else "K3"
            warning = message(
                check,
                self._release,
                exact=known or self._release < _ONE_DEFINITION,
                name=name,
                operator=self._operator_text(name, entry),
                operator_debug=entry.debug if entry.schema is not None else _NO_DEBUG,
                key=_key_text(key),
                previous=previous,
                debug=debug,
            )
            self._warned = self._warned or once
        self.outcomes.append(
            Outcome(event=event, kind=OutcomeKind.OVERRIDES, message=warning, subject=name, new=debug, old=there.debug)
        )

    # What the checks share

    def _entry(self, name: str) -> OperatorEntry:
        return self._operators.get(name, OperatorEntry())

    def _slot(self, key: str | None) -> str | None:
        if key is None and self._release >= _NO_CATCH_ALL:
            return "Math" if self._release < (1, 9) else "CompositeImplicitAutograd"
        return key

    def _runtime_keys(self, key: str) -> list[str]:
        """The keys that an alias stands for, in the order in which torch takes them. Only ``Autograd`` is known."""
        if key != "Autograd" or self._release < _ONE_DEFINITION:
            return [key]
        names = keys_of_minor(self._release).names
        functionality = ("Autograd", "AutogradFunctionality")
        return [name for _, name in sorted(names.items()) if name.startswith("Autograd") and name not in functionality]

    def _parse(self, text: str, *, with_typevars: bool) -> OperatorName | FunctionSchema:
        try:
            return _read(text, strict=True, allow_typevars=with_typevars, classes=self._classes)
        except SchemaError as error:
            raise self._unreadable(text, error) from error

    def _unreadable(self, text: str, error: SchemaError) -> _ThrownError:
        problem = str(error).rstrip("\n")  # which older releases end in
        if self._release < _TYPE_HINT:
            problem = problem.replace(_HINT, "")
        return _ThrownError(message("G1", self._release, problem=problem), text)

    def _difference(self, first: FunctionSchema, second: FunctionSchema) -> str | None:
        """``findSchemaDifferences`` of infer_schema.cpp: names, defaults and alias annotations do not count."""
        end = "." if self._release >= _REASONS_END else ""
        mine, its = len(first.arguments), len(second.arguments)
        if mine != its:
            return f"The number of arguments is different. {mine} vs {its}."
        if len(first.returns) != len(second.returns):
            return f"The number of returns is different. {len(first.returns)} vs {len(second.returns)}{end}"
        for what, pairs in (
            ("argument", zip(first.arguments, second.arguments, strict=True)),
            ("return", zip(first.returns, second.returns, strict=True)),
        ):
            for number, (one, other) in enumerate(pairs, 1):
                types = self._compared(one.type), self._compared(other.type)
                if types[0] != types[1]:
                    texts = [type_.printed_by(self._release) for type_ in types]
                    return f"Type mismatch in {what} {number}: {texts[0]} vs {texts[1]}{end}"
        return None

    def _compared(self, type_: Type) -> Type:
        return type_ if self._release >= SYMINT else type_.fake

    def _print(self, schema: FunctionSchema) -> str:
        return schema.printed_by(self._release)

    def _operator_text(self, name: str, entry: OperatorEntry) -> str:
        return name if entry.schema is None else self._print(_parsed(entry.schema))

    def _throw_in(self, block: Block, check: str, subject: str, **values: object) -> NoReturn:
        # 1.6 prints the number of the kind.
        kind = block.kind.value if self._release > LIBRARIES else list(BlockKind).index(block.kind)
        file, line = block.file, block.line
        thrown = message(check, self._release, exact=True, kind=kind, file=file, line=line, **values)
        raise _ThrownError(thrown, subject)

    def _throw_text(self, name: OperatorName, problem: str) -> NoReturn:
        raise _ThrownError(message("G1", self._release, problem=problem), str(name))

    def _throw(
        self,
        check: str,
        subject: str,
        *,
        new: str | None = None,
        old: str | None = None,
        exact: bool = True,
        **values: object,
    ) -> NoReturn:
        thrown = message(check, self._release, exact=exact, new=new, old=old, **values)
        raise _ThrownError(thrown, subject, new, old)


def _thing(outcome: Outcome) -> tuple[str, str]:
    """What an outcome is about: of what kind that is, and what it is called."""
    event = outcome.event
    if isinstance(event, Enter):
        return event.registry, outcome.subject
    if isinstance(event, Define | Implement | RegisterOperator):
        return "operator", outcome.subject
    return type(event).__name__, outcome.subject


def _namespace(event: Define | Implement | FallBack) -> str | None:
    """The namespace of the block that an event is in, as the outcome of opening that would have it."""
    return (event.block.namespace or "_") if event.block else None


def _key_text(key: str | None) -> str:
    return "(catch all)" if key is None else key


# The same schemas are replayed on one release after the other.
_remembered: Final = functools.lru_cache(maxsize=16_384)
_read: Final = _remembered(parse_name_or_schema)


@_remembered
def _parsed(schema: str) -> FunctionSchema:
    return FunctionSchema.parse(schema)


@_remembered
def _inferred(text: str) -> FunctionSchema:
    """The schema that torch makes of a C++ type, which has no name."""
    return _named_nothing(FunctionSchema.parse(f"_{text}"))


def _named_nothing(schema: FunctionSchema) -> FunctionSchema:
    return replace(schema, name=OperatorName(name=""))


def _named(inferred: str, name: OperatorName) -> FunctionSchema:
    return replace(_inferred(inferred), name=name)


_SYMINT_TYPES: Final = frozenset(
    FunctionSchema.parse(f"_({text} _) -> ()").arguments[0].type
    for text in ("SymInt", "SymInt?", "SymInt[]", "SymInt[]?")
)


def _has_symint(schema: FunctionSchema) -> bool:
    return any(argument.type in _SYMINT_TYPES for argument in schema.arguments)


def _without_symint(schema: FunctionSchema) -> FunctionSchema:
    """The schema for a kernel without SymInt (``cloneWithRealTypes`` of function_schema.h). Returns keep theirs."""

    def plain(argument: Argument) -> Argument:
        return replace(argument, type=argument.type.fake) if argument.type in _SYMINT_TYPES else argument

    return replace(schema, arguments=tuple(plain(argument) for argument in schema.arguments))
