"""Calls of torch that register, in the words of ``torch/library.h``, and what a release does about them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from msgspec.structs import replace

from abiscan.dispatch.dispatcher import replay_events
from abiscan.dispatch.keys import DispatchKeys, keys_of_minor
from abiscan.dispatch.outcomes import Replay
from abiscan.dispatch.state import State
from abiscan.inputs.version import MinorVersion
from abiscan.registrations import (
    ALIAS_ANALYSIS,
    CustomClass,
    Library,
    LibraryKind,
    Phase,
    RegisteredFallback,
    RegisteredKernel,
    RegisteredOperator,
    Registration,
    Registry,
)

_PHASE = Phase.STATIC_INIT
_orders = itertools.count()


def replay(state: State, events: Iterable[Registration], release: MinorVersion) -> Replay:
    """What a release does about the calls."""
    return replay_events(state, events, DispatchKeys(minor=release, names=keys_of_minor(release).names))


def open_library(
    *, kind: LibraryKind, namespace: str | None, dispatch_key: str | None, file: str, line: int, stable: bool = False
) -> Library:
    """``TORCH_LIBRARY`` and the like."""
    key = dispatch_key
    order = next(_orders)
    return Library(
        kind=kind, namespace=namespace, dispatch_key=key, file=file, line=line, phase=_PHASE, order=order, stable=stable
    )


def cpp_function(
    *,
    dispatch_key: str | None = None,
    signature: str | None = None,
    inferred: str | None = None,
    debug: str | None = None,
) -> RegisteredKernel:
    """A function, which the calls below pass to torch."""
    return RegisteredKernel(
        operator="",
        dispatch_key=dispatch_key,
        signature=signature,
        inferred_schema=inferred,
        debug=debug,
        boxed=signature is None,
        phase=_PHASE,
        order=next(_orders),
        library=None,
    )


def define_operator(
    *, block: Library, text: str, kernel: RegisteredKernel | None = None, alias_analysis: str | None = None
) -> RegisteredOperator:
    """``m.def(text)``, or ``m.def(text, kernel)``."""
    return replace(
        register_operator(text=_in(block, text), kernels=(kernel,) if kernel else (), alias_analysis=alias_analysis),
        library=block,
    )


def implement_operator(*, block: Library, name: str, kernel: RegisteredKernel) -> RegisteredKernel:
    """``m.impl(name, kernel)``."""
    return replace(kernel, operator=_in(block, name), library=block, order=next(_orders))


def fall_back(*, block: Library | None, kernel: RegisteredKernel) -> RegisteredFallback:
    """``m.fallback(kernel)``; without blocks, ``registerBackendFallbackKernel``."""
    key, debug = kernel.dispatch_key, kernel.debug
    return RegisteredFallback(dispatch_key=key, debug=debug, phase=_PHASE, order=next(_orders), library=block)


def register_operator(
    *, text: str, kernels: tuple[RegisteredKernel, ...], alias_analysis: str | None = None
) -> RegisteredOperator:
    """``RegisterOperators().op(text, kernels)``."""
    return RegisteredOperator(
        name=text.partition("(")[0],
        schema=text if "(" in text else None,
        inferred="(" not in text,
        alias_analysis=None if alias_analysis is None else ALIAS_ANALYSIS.index(alias_analysis),
        phase=_PHASE,
        order=next(_orders),
        library=None,
        kernels=kernels,
    )


def register_class(name: str) -> CustomClass:
    """``torch::class_``."""
    return CustomClass(name=name, methods=(), phase=_PHASE, order=next(_orders))


def name_backend(name: str) -> Registry:
    """``c10::register_privateuse1_backend``."""
    return enter_registry("privateuse1-backend", name)


def enter_registry(registry: str, key: int | str | None = None, priority: int | None = None) -> Registry:
    """An entry in one of torch's other registries."""
    return Registry(what=registry, key=key, priority=priority, phase=_PHASE, order=next(_orders))


def _in(block: Library, text: str) -> str:
    """A text as it is recorded: in the namespace of its block, whether or not it has one already."""
    return text if block.namespace is None else f"{block.namespace}::{text}"
