"""Prepare the inputs of the dispatcher's model: the state of a torch, and its dispatch table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, TypeAlias

from abiscan.dispatch import operators as torch
from abiscan.dispatch import signature
from abiscan.dispatch.dispatcher import BY_REGISTER_OPERATORS, LIBRARIES
from abiscan.dispatch.inference import SYMINT
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.state import OperatorEntry, State, StoredKernel, StoredSignature
from abiscan.dispatch.table import DispatchTable, no_key_of
from abiscan.inputs.version import MinorVersion
from abiscan.regex import regex
from abiscan.registrations import Registrations

# The alias analysis of torch's own operators in 1.4 to 1.6; all others have the default. Later releases ignore it.
_IS_FROM_SCHEMA: Final = regex(r"aten::(?!_copy_from$|quantized_(?:lstm|gru)\.)")
_NO_KEY_IS: Final = ("Math", "CompositeImplicitAutograd")  # from 1.8 on
_REPLACES_ITSELF: Final = (2, 15)


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


NameKey: TypeAlias = Callable[[int | str | None], str | None]
"""Returns the name under which a torch registers for a dispatch key."""


def operators_in(registrations: Registrations, tag_of: Callable[[int], str] | None = None) -> Iterator[torch.Operator]:
    """Yield the operators that a library defines, without those of TorchScript alone.

    :param tag_of: returns the name of a tag; None to leave tags out
    """
    for operator in registrations.operators:
        if not operator.jit_only:
            tags = tuple(map(tag_of, operator.tags)) if tag_of else ()
            yield torch.Operator(operator.name, operator.schema, tags, operator.file, operator.line)


def kernels_in(registrations: Registrations, name_key: NameKey) -> Iterator[torch.Kernel]:
    """Yield the kernels that a library registers."""
    for kernel in registrations.kernels:
        yield torch.Kernel(
            operator=kernel.operator,
            key=name_key(kernel.dispatch_key),
            signature=kernel.signature,
            schema=kernel.inferred_schema,
            fallthrough=kernel.fallthrough,
            file=kernel.file,
            line=kernel.line,
        )


def fallbacks_in(registrations: Registrations, name_key: NameKey) -> Iterator[torch.Fallback]:
    """Yield the fallbacks that a library registers."""
    for fallback in registrations.fallbacks:
        key = name_key(fallback.dispatch_key)
        yield torch.Fallback(key, fallback.fallthrough, fallback.file, fallback.line)


def table_of(release: MinorVersion, operators: torch.Operators, loaded: Iterable[Registrations]) -> DispatchTable:
    """Build the dispatch table of a torch with extensions loaded, including what they register in any phase.

    The torch reads the numbers of dispatch keys in their code with its own table.

    :param operators: the torch's own operators
    """
    keys = DispatchKeys(minor=release, names=operators.keys)
    extensions = tuple(loaded)
    no_key = no_key_of(operators)

    def name_key(key: int | str | None) -> str | None:
        name = keys.registered_name(key)
        return no_key if name is None else name

    # What an extension registers comes after what torch does, and the last kernel for a key is called.
    return DispatchTable(release, operators).with_more(
        (operator for extension in extensions for operator in operators_in(extension)),
        (kernel for extension in extensions for kernel in kernels_in(extension, name_key)),
        (fallback for extension in extensions for fallback in fallbacks_in(extension, name_key)),
    )
