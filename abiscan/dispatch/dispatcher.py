"""A model of ``c10::Dispatcher`` while operators are registered: every check that torch makes, in its order.

``replay`` takes what is already registered and what an extension registers, in order. It returns how torch reacts, up
to the first registration that throws, and what torch would reject after that. Sources, all in ``aten/src/ATen/core``:
``library.cpp``, ``dispatch/{Dispatcher, OperatorEntry}.cpp``, ``op_registration/{op_registration, infer_schema}.cpp``.

How releases differ: 1.4 and 1.5 only have ``RegisterOperators``, and compare no C++ types. 1.6 added ``TORCH_LIBRARY``
and these comparisons. Up to 1.7, an operator may be defined again with an equal schema; from 1.8 on, not at all. 1.13
added SymInt, and with it a second C++ type for each operator. From 2.1 on, torch warns only once.

Not modelled: assertions on torch's own bookkeeping, a second interpreter in the process.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from msgspec.structs import replace

from abiscan.dispatch import signature
from abiscan.dispatch.acceptance import acceptance_of
from abiscan.dispatch.inference import (
    SYMINT,
    find_schema_difference,
    has_symint,
    inferred_for,
    inferred_schema,
    parse_accepted,
    read_definition,
    without_name,
    without_symint,
)
from abiscan.dispatch.keys import DispatchKeys, keys_of_minor, newest_minor
from abiscan.dispatch.messages import CODE_OF_EXTENSION, UNKNOWN_KEY, Message, has_message, word_message
from abiscan.dispatch.outcomes import FATAL, Outcome, OutcomeKind, RefusalError, Replay
from abiscan.dispatch.registries import RegistryEntries
from abiscan.dispatch.schema import TYPE_ADVICE, FunctionSchema, OperatorName
from abiscan.dispatch.schema_lexer import SchemaError
from abiscan.dispatch.state import OperatorEntry, State, StoredKernel, StoredSignature
from abiscan.registrations import (
    ALIAS_ANALYSIS,
    CustomClass,
    Library,
    LibraryKind,
    ProcessEnd,
    RegisteredFallback,
    RegisteredKernel,
    RegisteredOperator,
    Registration,
    Registry,
)

LIBRARIES: Final = (1, 6)  # torch/library.h, and the checks of C++ types
_CALLS_OF_C: Final = {
    RegisteredOperator: "aoti_torch_library_def(lib_, schema)",
    RegisteredKernel: "torch_library_impl(…)",
}
_ONE_DEFINITION: Final = (1, 8)
_NO_CATCH_ALL: Final = (1, 8)
_SILENT_META: Final = (2, 0)
_SILENT_MTIA: Final = (2, 5)
_WARNS_ONCE: Final = (2, 1)
_MOST_ARGUMENTS: Final = 64  # bits of the set in DispatchKeyExtractor.h

_SYMINT_NOTE: Final = (2, 15)
_BY_VALUE: Final = (
    "\n  SymInt parameters must use the supported C++ signatures: pass SymInt and std::optional<SymInt> by value, and "
    "SymIntArrayRef and OptionalSymIntArrayRef directly (not as const references)."
)
_TYPE_ADVICE: Final = (2, 4)
_NO_TYPEVARS: Final = (2, 4)  # parseSchema(text, allow_typevars), and no more parseSchema(text)

_FROM_SCHEMA: Final = "FROM_SCHEMA"  # what TORCH_LIBRARY takes for a schema that is given,
_CONSERVATIVE: Final = "CONSERVATIVE"  # and for one that is inferred (library.cpp)
BY_REGISTER_OPERATORS: Final = "registered by RegisterOperators"
_NO_DEBUG: Final = "no debug info"
_UNKNOWN: Final = "?"


def replay_events(state: State, events: Iterable[Registration], keys: DispatchKeys) -> Replay:
    """Replay how a release of torch, with ``state`` registered, reacts to ``events``.

    :param keys: those of the release, 1.4 or newer, which reads the numbers in the code with its own table
    """
    run = _Run(state, keys)
    remaining = iter(events)
    for event in remaining:
        run.register(event)
        if run.failed:
            break
    else:
        run.find_dead()
    outcomes, after = tuple(run.outcomes), run.snapshot()
    return Replay(
        outcomes=outcomes,
        state=after,
        after_failure=tuple(run.replay_rest(outcomes[-1], remaining)) if run.failed else (),
    )


class _Run:
    """A run of the dispatcher: the initial state and the changes since then."""

    def __init__(self, state: State, keys: DispatchKeys) -> None:
        self._name_key = keys.registered_name
        self._release = release = keys.minor
        self._operators: ChainMap[str, OperatorEntry] = ChainMap({}, dict(state.operators))
        self._libraries = dict(state.libraries)
        self._fallbacks = dict(state.fallbacks)
        self._classes = state.classes
        self._warned = state.warned
        self._registries = RegistryEntries(state, release)
        self._assertions = state.assertions
        self._implemented: dict[str, Registration] = {}  # operator -> the first event that gives it a kernel
        self.outcomes: list[Outcome] = []
        self.failed = False
        self._unopened: dict[
            Library, RefusalError
        ] = {}  # of the stable ABI, which does not look whether a block opened

    def snapshot(self) -> State:
        """Return the present state, as a value of its own."""
        return State(
            operators=dict(self._operators),
            libraries=dict(self._libraries),
            fallbacks=dict(self._fallbacks),
            classes=self._classes,
            warned=self._warned,
            backend=self._registries.backend,
            entries=dict(self._registries.entries),
            assertions=self._assertions,
        )

    def register(self, event: Registration) -> None:
        """Register one event; note torch's exception, if it throws."""
        try:
            self._apply_event(event)
        except RefusalError as error:
            # The stable ABI does not look whether a block opened: what is registered in it fails later.
            if isinstance(event, Library) and event.stable:
                self._unopened[event] = error
                return
            self.failed = True
            self.outcomes.append(error.outcome_of(event))

    def _apply_event(self, event: Registration) -> None:  # noqa: C901 - one case for each kind of event
        """Do what torch does, and what the code of the stable ABI makes of it.

        :raises RefusalError: the load ends there
        """
        block = event.library if isinstance(event, RegisteredOperator | RegisteredKernel) else None
        if block is not None and block in self._unopened:
            raise self._unopened[block].without_text()
        try:
            match event:
                case Library():
                    self._open_block(event)
                case RegisteredOperator(library=Library() as library):
                    self._define_operator(event, library)
                case RegisteredKernel(library=Library() as library):
                    self._implement_operator(event, library)
                # RegisterOperators has no blocks: up to 1.5, there is nothing else.
                case RegisteredOperator():
                    self._register_operator(event, event.text, event.kernels, event.alias_analysis)
                case RegisteredKernel():
                    self._register_operator(event, event.text, (event,), None)
                case RegisteredFallback():
                    self._fall_back(event)
                case CustomClass():
                    self._register_class(event.name)
                case Registry(names_backend=True):
                    self._registries.name_backend(str(event.key))
                case Registry():
                    self.outcomes.extend(self._registries.enter(event))
                case ProcessEnd():
                    self._end_process(event)
        # The stable ABI catches torch's exception at its C boundary, and its headers throw one of their own.
        except RefusalError as error:
            if block is None or not block.stable:
                raise
            failure = event.failure if isinstance(event, RegisteredOperator | RegisteredKernel) else None
            raise error.said_by(_CALLS_OF_C[type(event)], failure, quotes=block.quotes) from None

    @staticmethod
    def _end_process(event: ProcessEnd) -> None:
        """End the process, as the code does by itself."""
        raise RefusalError(Message(id=CODE_OF_EXTENSION, text=event.text), event.symbol or event.cause)

    def replay_rest(self, refused: Outcome, events: Iterable[Registration]) -> Iterator[Outcome]:
        """Yield what else torch rejects, each subject once: the kernels of a rejected operator count as part of it.

        If a block is rejected, the contents of the blocks of its namespace are skipped.
        """
        # Invariant: no event after the failure really happens. Each is replayed as if what was rejected before had been
        # left out, so a subject that was rejected is not reported twice.
        reported = {_subject_key(refused)}
        for event in events:
            block: Library | None = getattr(event, "library", None)
            if block and (Library.__name__, block.namespace or "_") in reported:
                continue
            self.outcomes.clear()
            self.register(event)
            for outcome in self.outcomes:
                if outcome.kind in FATAL and _subject_key(outcome) not in reported:
                    reported.add(_subject_key(outcome))
                    yield outcome

    def find_dead(self) -> None:
        """Note the kernels of operators that nobody defines."""
        for name, event in self._implemented.items():
            if self._operators[name].schema is None:
                self.outcomes.append(Outcome(event=event, kind=OutcomeKind.DEAD, message=None, subject=name))

    # What library.cpp checks

    def _open_block(self, block: Library) -> None:
        """Open a block (the constructor of ``Library``, and ``Dispatcher::registerLibrary``)."""
        key = self._name_key(block.dispatch_key)
        if block.stable and key is not None:
            self._check_key(block, key)
        # Only TORCH_LIBRARY claims its namespace; fragments share it, and IMPL blocks need none.
        if block.kind is LibraryKind.IMPL:
            return
        if block.kind is LibraryKind.DEF:
            if block.namespace is None:
                self._throw_in(block, "L1b", "_")
            if block.namespace in self._libraries:
                previous = self._libraries[block.namespace]
                self._throw_message(
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
        if key is not None:
            self._throw_in(block, "L2", block.namespace)

    def _check_key(self, block: Library, key: str) -> None:
        """Check a key of the stable ABI, which is a text that torch parses (``c10::parseDispatchKey``)."""
        keys = keys_of_minor(self._release)
        if key not in keys.names.values() and self._release <= newest_minor():
            thrown = Message(id=UNKNOWN_KEY, text=f"could not parse dispatch key: {key}")
            raise RefusalError(thrown, block.namespace or "_", new=key)

    def _define_operator(self, event: RegisteredOperator, block: Library) -> None:
        """Define an operator (``Library::_def``), with the kernel that is passed along, if any."""
        kernel = event.kernels[0] if event.kernels else None
        # The overload of def() that takes a kernel leaves parseSchemaOrName its default.
        allowed = kernel is not None if event.typevars is None else event.typevars
        declaration = self._parse_text(event.text, with_typevars=allowed or self._release < _NO_TYPEVARS)
        if isinstance(declaration, OperatorName):
            if kernel is None:
                self._throw_text(declaration, "Tried to parse a function schema but only the operator name was given")
            if kernel.inferred_schema is None:
                self._throw_in(block, "L5", str(declaration), operator=declaration)
            schema, alias = inferred_for(kernel.inferred_schema, declaration), _CONSERVATIVE
        else:
            schema, alias = declaration, _alias_named(event.alias_analysis) or _FROM_SCHEMA
        if block.kind is LibraryKind.IMPL or block.namespace is None:
            self._throw_in(block, "L3", str(schema.name), operator=schema.name)
        # A definition may repeat the namespace of its block, but name no different one.
        namespace = schema.name.namespace
        # 1.6 does not even accept the block's own namespace.
        if namespace and (namespace != block.namespace or self._release == LIBRARIES):
            equal = int(namespace == block.namespace)  # which 1.6 prints first, by mistake
            self._throw_in(block, "L4", str(schema.name), given=namespace, namespace=block.namespace, equal=equal)
        schema = replace(schema, name=replace(schema.name, namespace=block.namespace))
        self._register_definition(schema, block.debug, alias)
        if kernel is not None:
            key = self._name_key(kernel.dispatch_key) or self._name_key(block.dispatch_key)
            self._register_kernel(event, str(schema.name), key, kernel, kernel.debug or block.debug)

    def _implement_operator(self, kernel: RegisteredKernel, block: Library) -> None:
        """Register a kernel for an operator (``Library::_impl``), which need not be defined yet."""
        text = kernel.text
        try:
            name = OperatorName.parse(text)
        except SchemaError as error:
            raise self._parse_error(text, error) from error
        if name.namespace and name.namespace != block.namespace:
            # For the wildcard block, torch prints a namespace that does not exist.
            self._throw_in(
                block,
                "L6",
                str(name),
                operator=text,
                given=name.namespace,
                namespace=block.namespace or "std::nullopt",
            )
        own_key, block_key = map(self._name_key, (kernel.dispatch_key, block.dispatch_key))
        if own_key and block_key and own_key != block_key:
            self._throw_in(block, "L7", str(name), operator=text, given=own_key, key=block_key)
        # A wildcard block takes the namespace from the name; any other block adds its own.
        name = replace(name, namespace=block.namespace or name.namespace)
        self._register_kernel(kernel, str(name), own_key or block_key, kernel, kernel.debug or block.debug)

    def _fall_back(self, event: RegisteredFallback) -> None:
        """Register a kernel for all operators of a key (``Library::_fallback``)."""
        block = event.library
        key = self._name_key(event.dispatch_key) or (self._name_key(block.dispatch_key) if block else None)
        debug = event.debug or (block.debug if block else "")
        if block is not None:
            if block.kind is not LibraryKind.IMPL:
                self._throw_in(block, "L8", block.namespace or "_")
            if key is None:
                self._throw_in(block, "L9", block.namespace or "_")
            if block.namespace is not None:
                self._throw_in(block, "L10", key, namespace=block.namespace, key=key)
        # An alias is registered for each key that it stands for, in order, so the first conflict throws.
        for runtime_key in self._runtime_keys(key or _UNKNOWN):
            self._register_fallback(event, runtime_key, debug)

    # What op_registration.cpp checks

    def _register_operator(
        self, event: Registration, text: str, kernels: tuple[RegisteredKernel, ...], alias_analysis: int | None
    ) -> None:
        """Register an operator by ``RegisterOperators`` (``checkSchemaAndRegisterOp_``): all checks come first."""
        alias = _alias_named(alias_analysis)
        declaration = self._parse_text(text, with_typevars=True)
        schema = self._infer_schema(declaration, kernels) if isinstance(declaration, OperatorName) else declaration
        name = str(schema.name)
        if self._release < LIBRARIES and not isinstance(declaration, OperatorName):
            for kernel in kernels:
                self._check_against_inferred(schema, kernel)
        self._check_alias_analysis(declaration, schema, alias)
        # Two kernels of one call must not have the same key (checkNoDuplicateKernels_).
        keys = [self._name_key(kernel.dispatch_key) for kernel in kernels]
        repeated_key = next((key for index, key in enumerate(keys) if key in keys[:index]), _UNKNOWN)
        if repeated_key is None:
            self._throw_message("R4", name, schema=self._print_schema(schema))
        if repeated_key != _UNKNOWN:
            self._throw_message("R3", name, key=repeated_key, schema=self._print_schema(schema))
        self._register_definition(schema, BY_REGISTER_OPERATORS, alias)
        for key, kernel in zip(keys, kernels, strict=True):
            self._register_kernel(event, name, key, kernel, BY_REGISTER_OPERATORS)

    def _infer_schema(self, name: OperatorName, kernels: tuple[RegisteredKernel, ...]) -> FunctionSchema:
        """Infer the schema of an operator that is registered by name; all of its kernels must agree up to 1.5."""
        if not kernels:
            self._throw_message("R5", str(name), name=name)
        inferred = [
            inferred_for(kernel.inferred_schema, name) for kernel in kernels if kernel.inferred_schema is not None
        ]
        if not inferred:
            self._throw_message("R6", str(name), name=name)
        schema, *other_schemas = inferred
        if has_message("R7", self._release):
            for other_schema in other_schemas:
                reason = find_schema_difference(schema, other_schema, self._release)
                if reason is not None:
                    first, second = (
                        self._print_schema(without_name(inferred_one)) for inferred_one in (schema, other_schema)
                    )
                    self._throw_message(
                        "R7", str(name), new=second, old=first, first=first, second=second, reason=reason
                    )
        return schema

    def _check_against_inferred(self, schema: FunctionSchema, kernel: RegisteredKernel) -> None:
        """Compare a written schema with the one that torch infers from a kernel's type (up to 1.5)."""
        if kernel.inferred_schema is None:
            return
        inferred = inferred_schema(kernel.inferred_schema)
        reason = find_schema_difference(schema, inferred, self._release)
        if reason is not None:
            expected, inferred_text = self._print_schema(schema), self._print_schema(inferred)
            self._throw_message(
                "R8",
                str(schema.name),
                new=inferred_text,
                old=expected,
                expected=expected,
                inferred=inferred_text,
                reason=reason,
            )

    def _check_alias_analysis(
        self, declaration: OperatorName | FunctionSchema, schema: FunctionSchema, alias: str | None
    ) -> None:
        """Check that the alias analysis fits the way in which the schema is given."""
        if isinstance(declaration, OperatorName) and alias == _FROM_SCHEMA:
            self._throw_message("R9", str(schema.name), schema=self._print_schema(schema))
        annotated = any(argument.alias is not None for argument in (*schema.arguments, *schema.returns))
        if annotated and alias != _FROM_SCHEMA and has_message("R10", self._release):
            self._throw_message("R10", str(schema.name), schema=self._print_schema(schema))

    def _register_class(self, name: str) -> None:
        """Register a custom class (``registerCustomClass``); one whose existing classes are unknown is accepted."""
        if self._classes is None:
            return
        if name in self._classes:
            self._throw_message("C1", name, name=f"__torch__.torch.classes.{name}")
        self._classes |= {name}

    # What Dispatcher.cpp checks

    def _register_definition(self, schema: FunctionSchema, debug: str, alias: str | None) -> None:
        """Store a schema (``Dispatcher::registerDef``)."""
        name = str(schema.name)
        entry = self._entry_for(name)
        if entry.schema is not None:
            old = parse_accepted(entry.schema)
            # Up to 1.7, an equal definition is accepted, unless both state an alias analysis, and different ones.
            if self._release >= _ONE_DEFINITION or schema != old:
                new_text, old_text = self._print_schema(schema), self._print_schema(old)
                self._throw_message(
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
        # Kernels may come before the definition: OperatorEntry::registerSchema checks them now.
        for kernels in entry.kernels.values():
            for kernel in kernels:
                if kernel.inferred is not None:
                    self._check_schema(schema, debug, None, kernel.inferred, kernel.debug)
        if self._release >= LIBRARIES and len(schema.arguments) > _MOST_ARGUMENTS:
            self._throw_message("K11", name, count=len(schema.arguments))
        self._operators[name] = replace(entry, schema=str(schema), debug=debug, alias_analysis=alias)

    def _throw_alias_analysis(self, schema: FunctionSchema, debug: str, alias: str, entry: OperatorEntry) -> NoReturn:
        """Reject a definition with an equal schema but a different alias analysis kind."""
        new, old = self._print_schema(schema), self._print_schema(parse_accepted(entry.schema or ""))
        check = next(check for check in ("D3", "D4", "D5") if has_message(check, self._release))
        self._throw_message(
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

    def _register_kernel(
        self, event: Registration, name: str, key: str | None, kernel: RegisteredKernel, debug: str
    ) -> None:
        """Store a kernel (``OperatorEntry::registerKernel``), once its C++ type and its schema are checked."""
        entry = self._entry_for(name)
        if self._release >= LIBRARIES:
            entry = self._check_signature(name, entry, key, kernel, debug)
            if entry.schema is not None and kernel.inferred_schema is not None:
                self._check_schema(
                    parse_accepted(entry.schema), entry.debug, kernel.signature, kernel.inferred_schema, debug
                )
        slot = self._slot_of(key)
        existing = entry.kernels.get(slot, ())
        if existing:
            self._replace_kernel(event, name, entry, key, existing[0], debug)
        # Newest first, as in the list of AnnotatedKernels: the front is called, the others come back if it goes.
        stored = StoredKernel(debug=debug, inferred=kernel.inferred_schema)
        self._operators[name] = replace(entry, kernels={**entry.kernels, slot: (stored, *existing)})
        self._implemented.setdefault(name, event)

    def _register_fallback(self, event: Registration, key: str, debug: str) -> None:
        """Store a fallback for one runtime key (``Dispatcher::registerFallback``)."""
        previous = self._fallbacks.get(key)
        if previous is not None:
            for check in ("F1", "F2"):
                if has_message(check, self._release) and key not in acceptance_of(self._release).repeatable_fallbacks:
                    self._throw_message(check, key, new=debug, old=previous, key=key, debug=debug, previous=previous)
            self.outcomes.append(
                Outcome(event=event, kind=OutcomeKind.OVERRIDES, message=None, subject=key, new=debug, old=previous)
            )
        self._fallbacks[key] = debug

    # What OperatorEntry.cpp checks

    def _check_signature(
        self, name: str, entry: OperatorEntry, key: str | None, kernel: RegisteredKernel, debug: str
    ) -> OperatorEntry:
        """Compare the C++ type of a kernel with that of the operator's first; the first one is remembered."""
        if kernel.signature is None:
            return entry
        # Kernels with SymInt and those without are remembered apart (sym_cpp_signature_).
        sym = self._release >= SYMINT and signature.takes_symint(kernel.signature)
        stored = entry.sym_signature if sym else entry.signature
        # Of torch's own kernels, a running torch does not tell the C++ types.
        if stored is None and not entry.signatures_known:
            self._guess_signature(name, entry, key, kernel, debug)
            return entry
        if stored is None:
            stored = StoredSignature(mangled=kernel.signature, dispatch_key=key, debug=debug)
            return replace(entry, sym_signature=stored) if sym else replace(entry, signature=stored)
        if stored.mangled != kernel.signature:
            self._throw_signatures(
                name, entry, key, kernel.signature, debug, old=signature.printed_type(stored.mangled), stored=stored
            )
        return entry

    def _guess_signature(
        self, name: str, entry: OperatorEntry, key: str | None, kernel: RegisteredKernel, debug: str
    ) -> None:
        """Compare schemas where torch's own C++ types are unknown: if they differ, so do the types."""
        if kernel.inferred_schema is None or kernel.signature is None:
            return
        new_schema = inferred_schema(kernel.inferred_schema)
        for existing_schema in (
            inferred_schema(stored.inferred)
            for stored_kernels in entry.kernels.values()
            for stored in stored_kernels
            if stored.inferred
        ):
            same_slot = has_symint(new_schema) == has_symint(existing_schema) or self._release < SYMINT
            if same_slot and find_schema_difference(existing_schema, new_schema, self._release) is not None:
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
        """Throw the error for two kernels of different C++ types."""
        new = signature.printed_type(mangled)
        self._throw_message(
            "K1",
            name,
            new=new,
            old=old,
            exact=stored is not None,
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
        """Compare the schema that torch infers from a kernel's type with the operator's own."""
        if self._release < LIBRARIES:
            return
        inferred = inferred_schema(inferred_text)
        with_symint = signature.takes_symint(mangled) if mangled is not None else has_symint(inferred)
        # A kernel without SymInt is compared with the schema in which each SymInt is an int.
        expected = schema if with_symint else without_symint(schema)
        reason = find_schema_difference(expected, inferred, self._release)
        if reason is not None:
            if self._release >= _SYMINT_NOTE and not with_symint and has_symint(inferred):
                reason += _BY_VALUE
            new, old = self._print_schema(inferred), self._print_schema(expected)
            self._throw_message(
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

    def _replace_kernel(
        self, event: Registration, name: str, entry: OperatorEntry, key: str | None, replaced: StoredKernel, debug: str
    ) -> None:
        """Note that a kernel replaces another one, with torch's warning, unless torch has already printed one."""
        once = self._release >= _WARNS_ONCE
        # Since these releases, torch does not warn of replaced kernels for Meta and MTIA.
        silent = (
            (once and self._warned)
            or (key == "Meta" and self._release >= _SILENT_META)
            or (key == "MTIA" and self._release >= _SILENT_MTIA)
        )
        warning = None
        if not silent:
            # torch shows the first kernel that had a C++ type as the previous one, whatever its key.
            first = entry.signature or entry.sym_signature
            is_known = first is not None or entry.signatures_known
            previous = first.debug if first else _NO_DEBUG if is_known else _UNKNOWN
            check = "K3b" if key is None and has_message("K3b", self._release) else "K3"
            warning = word_message(
                check,
                self._release,
                exact=is_known or self._release < _ONE_DEFINITION,
                name=name,
                operator=self._operator_text(name, entry),
                operator_debug=entry.debug if entry.schema is not None else _NO_DEBUG,
                key=_key_text(key),
                previous=previous,
                debug=debug,
            )
            self._warned = self._warned or once
        self.outcomes.append(
            Outcome(
                event=event, kind=OutcomeKind.OVERRIDES, message=warning, subject=name, new=debug, old=replaced.debug
            )
        )

    # What the checks share

    def _entry_for(self, name: str) -> OperatorEntry:
        """Return the entry of an operator; an empty one if nothing was registered for it."""
        return self._operators.get(name, OperatorEntry())

    def _slot_of(self, key: str | None) -> str | None:
        """Return the key under which a kernel is stored: from 1.8 on, "no key" is an alias key."""
        if key is None and self._release >= _NO_CATCH_ALL:
            return "Math" if self._release < (1, 9) else "CompositeImplicitAutograd"
        return key

    def _runtime_keys(self, key: str) -> list[str]:
        """Return the keys that an alias stands for, in torch's order. Only ``Autograd`` is known."""
        if key != "Autograd" or self._release < _ONE_DEFINITION:
            return [key]
        names = keys_of_minor(self._release).names
        functionality = ("Autograd", "AutogradFunctionality")
        return [name for _, name in sorted(names.items()) if name.startswith("Autograd") and name not in functionality]

    def _parse_text(self, text: str, *, with_typevars: bool) -> OperatorName | FunctionSchema:
        """Parse a schema or a name, as strictly as this release."""
        try:
            return read_definition(
                text, strict=True, release=self._release, allow_typevars=with_typevars, classes=self._classes
            )
        except SchemaError as error:
            raise self._parse_error(text, error) from error

    def _parse_error(self, text: str, error: SchemaError) -> RefusalError:
        """Build the error for a text that torch cannot parse."""
        text_of_torch = str(error).rstrip("\n")  # older releases end in it, and it only shows if it is quoted
        ending = str(error)[len(text_of_torch) :]
        if self._release < _TYPE_ADVICE:
            text_of_torch = text_of_torch.replace(TYPE_ADVICE, "")
        return RefusalError(
            word_message("G1", self._release, problem=text_of_torch), text, problem=error.problem, ending=ending
        )

    def _print_schema(self, schema: FunctionSchema) -> str:
        """Print a schema as this release does."""
        return schema.printed_by(self._release)

    def _operator_text(self, name: str, entry: OperatorEntry) -> str:
        """Return what a message calls an operator: its schema, or its name if it has none."""
        return name if entry.schema is None else self._print_schema(parse_accepted(entry.schema))

    def _throw_in(self, block: Library, check: str, subject: str, **values: object) -> NoReturn:
        """Throw an error that names the block in which it happens."""
        # 1.6 prints the number of the kind.
        kind = block.kind.macro if self._release > LIBRARIES else list(LibraryKind).index(block.kind)
        file, _, line = block.place.rpartition(":")
        place = self._assertions.get(check)
        thrown = word_message(check, self._release, exact=True, place=place, kind=kind, file=file, line=line, **values)
        raise RefusalError(thrown, subject)

    def _throw_text(self, name: OperatorName, problem: str) -> NoReturn:
        """Throw the error for a text that is a name, but no schema."""
        raise RefusalError(word_message("G1", self._release, problem=problem), str(name), problem=problem)

    def _throw_message(
        self,
        check: str,
        subject: str,
        *,
        new: str | None = None,
        old: str | None = None,
        exact: bool = True,
        **values: object,
    ) -> NoReturn:
        """Throw an error in the words of this release."""
        place = self._assertions.get(check)
        thrown = word_message(check, self._release, exact=exact, place=place, new=new, old=old, **values)
        raise RefusalError(thrown, subject, new, old)


def _subject_key(outcome: Outcome) -> tuple[str, str]:
    """Return the subject of an outcome: its kind and its name."""
    event = outcome.event
    if isinstance(event, Registry):
        return event.what, outcome.subject
    if isinstance(event, RegisteredOperator | RegisteredKernel):
        return "operator", outcome.subject
    return type(event).__name__, outcome.subject


def _alias_named(number: int | None) -> str | None:
    """Return the name of a kind of alias analysis."""
    return None if number is None else ALIAS_ANALYSIS[number]


def _key_text(key: str | None) -> str:
    """Word a key as messages do."""
    return "(catch all)" if key is None else key
