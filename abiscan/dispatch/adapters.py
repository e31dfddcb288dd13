"""Prepare the inputs of the dispatcher's model: events of an emulated extension, and the state of a torch."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from abiscan.dispatch import operators as torch
from abiscan.dispatch import signature
from abiscan.dispatch.coverage import device_key
from abiscan.dispatch.dispatcher import BY_REGISTER_OPERATORS, LIBRARIES
from abiscan.dispatch.events import (
    Block,
    BlockKind,
    CppFunction,
    Define,
    EndProcess,
    Enter,
    Event,
    FailureText,
    FallBack,
    Implement,
    NameBackend,
    OpenBlock,
    RegisterClass,
    RegisterOperator,
)
from abiscan.dispatch.inference import SYMINT
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.state import OperatorEntry, State, StoredKernel, StoredSignature
from abiscan.dispatch.table import DispatchTable, no_key_of
from abiscan.emulation import model
from abiscan.inputs.version import MinorVersion
from abiscan.regex import regex

_BLOCK_KINDS: Final = {
    model.LibraryKind.DEF: BlockKind.DEF,
    model.LibraryKind.IMPL: BlockKind.IMPL,
    model.LibraryKind.FRAGMENT: BlockKind.FRAGMENT,
}
_NO_KEYS: Final = ("Undefined", "UndefinedTensorId", "CatchAll")
_NO_FILE: Final = "?"
# c10::AliasAnalysisKind (ATen/core/dispatch/OperatorOptions.h), the same in every release.
ALIAS_ANALYSIS: Final = ("INTERNAL_SPECIAL_CASE", "CONSERVATIVE", "FROM_SCHEMA", "PURE_FUNCTION")
# The alias analysis of torch's own operators in 1.4 to 1.6; all others have the default. Later releases ignore it.
_IS_FROM_SCHEMA: Final = regex(r"aten::(?!_copy_from$|quantized_(?:lstm|gru)\.)")
_OF_DEVICES: Final = ("device-guard", "allocator", "storage")
_BACKEND_NAME: Final = "privateuse1-backend"
_NO_KEY_IS: Final = ("Math", "CompositeImplicitAutograd")  # from 1.8 on
_REPLACES_ITSELF: Final = (2, 15)


def events_of(registrations: model.Registrations, keys: DispatchKeys, phase: model.Phase) -> Iterator[Event]:
    """Yield what an extension registers in one phase, in order, as far as it could be read.

    :param keys: the keys of the target release, which reads the numbers in the code with its own table
    """
    return (event for event, _ in ordered_events_of(registrations, keys, phase))


def ordered_events_of(
    registrations: model.Registrations, keys: DispatchKeys, phase: model.Phase
) -> Iterator[tuple[Event, int]]:
    """Yield the events of one phase, each with its place in the order."""
    blocks = {library.order: _convert_block(library, keys) for library in registrations.libraries}
    registered: Iterable[_Registered] = (
        *registrations.libraries,
        *(operator for operator in registrations.operators if not operator.jit_only),
        *registrations.kernels,
        *registrations.fallbacks,
        *registrations.classes,
        *registrations.registries,
        *registrations.ends,
    )
    in_phase = (registration for registration in registered if registration.phase is phase)
    # One call of torch's API may register several things with the same place in the order: a definition with its
    # kernels. ``registered`` lists definitions first and sorting is stable, so the first of a group is what the call
    # defines.
    in_order = sorted(in_phase, key=_order_of)  # definitions before kernels
    for _, (first, *companions) in itertools.groupby(in_order, _order_of):
        kernels = [registration for registration in companions if isinstance(registration, model.RegisteredKernel)]
        if not (isinstance(first, model.RegisteredOperator) and _has_unread_schema(first, kernels)):
            yield _make_event(first, kernels, blocks, keys), first.order


def _has_unread_schema(operator: model.RegisteredOperator, kernels: Iterable[model.RegisteredKernel]) -> bool:
    """Tell whether an operator has a schema that could not be read, so that nothing can be said about it.

    :param kernels: those that come with the definition; torch refuses one without a C++ type, for it has no schema
    """
    if operator.schema is not None:
        return False
    return not operator.inferred or any(not (kernel.boxed or kernel.fallthrough) for kernel in kernels)


_Registered: TypeAlias = (
    model.Library
    | model.RegisteredOperator
    | model.RegisteredKernel
    | model.RegisteredFallback
    | model.CustomClass
    | model.Registry
    | model.ProcessEnd
)


def _order_of(registered: _Registered) -> int:
    """Return the place in the order, as a sort key."""
    return registered.order


def _convert_block(library: model.Library, keys: DispatchKeys) -> Block:
    """Convert a block of ``torch/library.h``, its dispatch key named as the target names it."""
    return Block(
        kind=_BLOCK_KINDS[library.kind],
        namespace=library.namespace,
        dispatch_key=_name_key(library.dispatch_key, keys),
        file=library.file or _NO_FILE,
        line=library.line or 0,
        stable=library.stable,
        quotes=library.quotes,
    )


def _make_event(
    registered: _Registered, kernels: Sequence[model.RegisteredKernel], blocks: Mapping[int, Block], keys: DispatchKeys
) -> Event:
    """Build the event of one call: ``registered``, and for a definition the ``kernels`` passed with it."""
    if isinstance(registered, model.Library):
        return OpenBlock(block=blocks[registered.order])
    if isinstance(registered, model.CustomClass):
        return RegisterClass(name=registered.name)
    if isinstance(registered, model.Registry):
        if registered.what == _BACKEND_NAME:
            return NameBackend(name=str(registered.key))
        return Enter(
            registry=registered.what, key=entry_key(registered.what, registered.key), priority=registered.priority
        )
    if isinstance(registered, model.ProcessEnd):
        return EndProcess(cause=registered.cause, text=registered.text, place=registered.symbol)
    block = None if registered.library is None else blocks[registered.library]
    if isinstance(registered, model.RegisteredFallback):
        key = _name_key(registered.dispatch_key, keys)
        return FallBack(block=block, kernel=CppFunction(dispatch_key=_unless_of_block(key, block)))
    if isinstance(registered, model.RegisteredOperator):
        cpp_functions = tuple(_convert_kernel(kernel, keys, block) for kernel in kernels)
        alias = None if registered.alias_analysis is None else ALIAS_ANALYSIS[registered.alias_analysis]
        text = registered.name if registered.inferred or registered.schema is None else registered.schema
        # RegisterOperators has no blocks: up to 1.5, there is nothing else.
        if block is None:
            return RegisterOperator(text=text, kernels=cpp_functions, alias_analysis=alias)
        kernel = cpp_functions[0] if cpp_functions else None
        failure = _split_failure(registered.failure)
        return Define(
            block=block,
            text=_without_namespace(text, block),
            kernel=kernel,
            alias_analysis=alias,
            typevars=registered.typevars,
            failure=failure,
        )
    kernel = _convert_kernel(registered, keys, block)
    if block is None:
        return RegisterOperator(text=registered.operator, kernels=(kernel,))
    name = _without_namespace(registered.operator, block)
    return Implement(block=block, name=name, kernel=kernel, failure=_split_failure(registered.failure))


def _split_failure(text: str | None) -> FailureText | None:
    """Split what the code throws at the place where it quotes torch's own text."""
    if text is None:
        return None
    before, quotes, after = text.partition(model.TEXT_OF_TORCH)
    return FailureText(before=before, after=after if quotes else None)


def _convert_kernel(kernel: model.RegisteredKernel, keys: DispatchKeys, block: Block | None) -> CppFunction:
    """Convert a kernel of the extension to the function that torch is given."""
    return CppFunction(
        dispatch_key=_unless_of_block(_name_key(kernel.dispatch_key, keys), block),
        signature=kernel.signature,
        inferred=kernel.inferred_schema,
    )


def entry_key(registry: str, key: int | str | None) -> int | str | None:
    """Return the key of an entry in one of torch's other registries; for a device, its name."""
    return device_key(key) or key if registry in _OF_DEVICES and isinstance(key, int) else key


def _name_key(key: int | str | None, keys: DispatchKeys) -> str | None:
    """Name a dispatch key as the target does; return None for what means "no key"."""
    name = keys.name(key) if isinstance(key, int) else key
    return None if name in _NO_KEYS else name


def _unless_of_block(key: str | None, block: Block | None) -> str | None:
    """Drop a key that only repeats the key of its block."""
    return None if block is not None and key == block.dispatch_key else key


def _without_namespace(name: str, block: Block) -> str:
    """Return the name as it is most likely written in the source: without the namespace of its own block."""
    return name.removeprefix(f"{block.namespace}::")


def state_of(operators: torch.Operators, release: MinorVersion, names: Collection[str]) -> State:
    """Build the state of a torch before an extension registers anything.

    :param names: the operators that matter; those that the torch does not have are left out
    """
    kernels: dict[str, list[torch.Kernel]] = {}
    for kernel in operators.kernels:
        if kernel.operator in names:
            kernels.setdefault(kernel.operator, []).append(kernel)
    defined = operators.operators
    # A CUDA build of 2.15 replaces kernels itself, in Python, while it is imported: that uses up its only warning.
    warned = release >= _REPLACES_ITSELF and any(kernel.key == "CUDA" for kernel in operators.kernels)
    return State(
        operators={
            name: _entry_of_torch(name, defined.get(name), kernels.get(name, ()), release)
            for name in names
            if name in defined or name in kernels
        },
        libraries={name: _debug_text(place.file, place.line) for name, place in operators.namespaces.items()},
        fallbacks={
            fallback.key: _debug_text(fallback.file, fallback.line)
            for fallback in operators.fallbacks
            if fallback.key is not None
        },
        classes=operators.classes,
        warned=warned,
        entries={(entry.registry, entry.key): entry.priority or 0 for entry in operators.entries or ()},
        assertions=operators.assertions,
    )


def _entry_of_torch(
    name: str, operator: torch.Operator | None, kernels: Iterable[torch.Kernel], release: MinorVersion
) -> OperatorEntry:
    """Build the entry of one of torch's own operators from what is recorded of it."""
    stored: dict[str | None, tuple[StoredKernel, ...]] = {}
    first: dict[bool, StoredSignature] = {}
    for kernel in kernels:
        debug = _debug_text(kernel.file, kernel.line)
        # Newest first: the last registration for a key is the one that is called.
        stored[kernel.key] = (StoredKernel(debug=debug, inferred=kernel.schema), *stored.get(kernel.key, ()))
        if kernel.signature is not None and release >= LIBRARIES:
            # A kernel that is passed with the definition has no key, and torch prints it so.
            with_definition = operator is not None and (kernel.file, kernel.line) == (operator.file, operator.line)
            key = None if with_definition and kernel.key in _NO_KEY_IS else kernel.key
            sym = release >= SYMINT and signature.takes_symint(kernel.signature)
            first.setdefault(sym, StoredSignature(mangled=kernel.signature, dispatch_key=key, debug=debug))
    return OperatorEntry(
        schema=operator.schema if operator else None,
        debug=_debug_text(operator.file, operator.line) if operator else "",
        kernels=stored,
        signature=first.get(False),
        sym_signature=first.get(True),
        alias_analysis="FROM_SCHEMA" if _IS_FROM_SCHEMA.match(name) else None,
    )


def _debug_text(file: str | None, line: int | None) -> str:
    """Word the place of a registration as torch stores it."""
    return BY_REGISTER_OPERATORS if file is None else f"registered at {file}:{line}"


def table_of(release: MinorVersion, operators: torch.Operators, loaded: Iterable[model.Registrations]) -> DispatchTable:
    """Build the dispatch table of a torch with extensions loaded, including what they register in any phase.

    The torch reads the numbers of dispatch keys in their code with its own table.

    :param operators: the torch's own operators
    """
    keys = DispatchKeys(minor=release, names=operators.keys)
    registrations = tuple(loaded)
    no_key = no_key_of(operators)

    def name_of(key: int | str | None) -> str | None:
        name = _name_key(key, keys)
        return no_key if name is None else name

    # What an extension registers comes after what torch does, and the last kernel for a key is called.
    return DispatchTable(release, operators).with_more(
        (
            torch.Operator(operator.name, operator.schema, (), operator.file, operator.line)
            for extension in registrations
            for operator in extension.operators
            if not operator.jit_only
        ),
        (
            torch.Kernel(
                operator=kernel.operator,
                key=name_of(kernel.dispatch_key),
                signature=kernel.signature,
                schema=kernel.inferred_schema,
                fallthrough=kernel.fallthrough,
                file=kernel.file,
                line=kernel.line,
            )
            for extension in registrations
            for kernel in extension.kernels
        ),
        (
            torch.Fallback(name_of(fallback.dispatch_key), fallback.fallthrough, fallback.file, fallback.line)
            for extension in registrations
            for fallback in extension.fallbacks
        ),
    )
