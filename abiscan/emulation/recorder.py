"""Collects registrations as the doubles of torch's API are called, in the terms of torch's ``library.cpp``.

A name without a namespace takes the library's; a kernel without a dispatch key takes the library's; the key
``Undefined``, number 0, is no key. Sources: ``aten/src/ATen/core/library.cpp``, ``op_registration.cpp``.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from abiscan.regex import regex
from abiscan.registrations import (
    CustomClass,
    Library,
    LibraryKind,
    Lookup,
    Phase,
    ProcessEnd,
    RegisteredFallback,
    RegisteredKernel,
    RegisteredOperator,
    Registration,
    Registrations,
    Registry,
)

NAMESPACE_SEPARATOR = "::"


_BLANKS: Final = regex(r"\s*([:.])\s*")


def name_as_read(text: str) -> str:
    """Return the name of an operator as torch reads it: its lexer skips spaces around a name, ``::`` and ``.``.

    Blanks inside a word stay, for torch refuses them (``torch/csrc/jit/frontend/function_schema_parser.cpp``).
    """
    name = text.strip()
    # Hardly any name has a blank.
    return name if len(name.split()) == 1 else _BLANKS.sub(r"\1", name)


def operator_name(schema: str) -> str:
    """Return ``ns::name.overload`` at the beginning of a schema's text, without a trailing dot."""
    return name_as_read(schema.partition("(")[0]).removesuffix(".")


class Recorder:
    """The registrations so far, in the order of the calls. ``phase`` is that of the function being emulated."""

    def __init__(self) -> None:
        self.phase = Phase.STATIC_INIT
        self.in_order: list[Registration] = []
        # ``in_order`` is sorted by ``order`` at any time: records are appended in order, and only replaced or dropped.
        self._names: set[str] = set()  # of the operators that the dispatcher knows
        self._classes: dict[str, int] = {}  # the order of the last class of each name
        self.lookups: list[Lookup] = []  # by emulated addresses, at first
        self.debug_at: set[int] = set()
        self.built: set[str] = set()  # operators whose schema was read from the objects that code put together
        self.settle: Callable[[], None] = lambda: None
        """Called before each record, to record entries that inlined code has added before."""
        self.ends_at_torch = False
        """Whether torch has refused something for certain that nothing catches: then no library ends before."""
        self.count = 0
        """The next ``order``. What is recorded from now on has this one or a later one."""

    def registered(self, since: int = 0) -> Registrations:
        """Return what has been recorded since ``count`` was ``since``, with a view for each kind."""
        return Registrations(in_order=tuple(self.in_order[self._index_of(since) :]))

    def library(
        self,
        kind: LibraryKind,
        namespace: str | None,
        key: int | str | None,
        file: str | None,
        line: int | None,
        *,
        stable: bool = False,
        quotes: bool = False,
    ) -> Library:
        """Record that a library is opened."""
        opened = Library(
            kind=kind,
            namespace=None if namespace == "_" else namespace,
            dispatch_key=key or None,
            file=file,
            line=line,
            phase=self.phase,
            order=self._next(),
            stable=stable,
            quotes=quotes,
        )
        self.in_order.append(opened)
        return opened

    def define(
        self,
        library: Library | None,
        text: str,
        *,
        inferred: str | None = None,
        tags: tuple[int, ...] = (),
        jit_only: bool = False,
        alias_analysis: int | None = None,
        built: bool = False,
        typevars: bool | None = None,
    ) -> RegisteredOperator:
        """Record a definition: by its whole schema, or by name with the schema inferred from its kernel."""
        name = operator_name(text)
        full = _qualified(library, name)
        has_arguments = "(" in text
        schema = full + text[text.index("(") :] if has_arguments else None
        # A name without parentheses takes the schema of its kernel, as ``Library::def(const char*, F)`` does.
        if not has_arguments and inferred is not None:
            schema = full + inferred
        defined = RegisteredOperator(
            name=full,
            schema=schema,
            inferred=not has_arguments,
            tags=tags,
            jit_only=jit_only,
            alias_analysis=alias_analysis,
            typevars=typevars,
            phase=self.phase,
            order=self._next(),
            library=library,
        )
        self.in_order.append(defined)
        if not jit_only:
            self._names.add(full)
        if built:
            self.built.add(full)
        return defined

    def has_operator(self, name: str) -> bool:
        """Whether an operator with this full name is already defined."""
        return name in self._names

    def opened(self, order: int) -> Library | None:
        """Return the library with this order; None if it is closed."""
        at = self._index_of(order)
        record = self.in_order[at] if at < len(self.in_order) else None
        return record if isinstance(record, Library) and record.order == order else None

    def kernel(
        self,
        library: Library | None,
        name: str,
        key: int | str | None,
        *,
        signature: str | None = None,
        inferred: str | None = None,
        boxed: bool = False,
        fallthrough: bool = False,
        abi_version: int | None = None,
        functions: tuple[int, ...] = (),
        stable: bool = False,
        definition: RegisteredOperator | None = None,
    ) -> RegisteredKernel:
        """Record a kernel for an operator, registered separately or with the ``definition``, the last record."""
        kernel = RegisteredKernel(
            operator=_qualified(library, name_as_read(name).removesuffix(".")),
            # Number 0 is ``Undefined``, which ``CatchAll`` is another name of: no key (c10/core/DispatchKey.h).
            dispatch_key=key or (library.dispatch_key if library else None),
            signature=signature,
            inferred_schema=inferred,
            boxed=boxed,
            fallthrough=fallthrough,
            abi_version=abi_version,
            phase=self.phase,
            # A kernel that comes with a definition is part of that call, and has no place of its own.
            order=self._next() if definition is None else definition.order,
            library=library,
            functions=functions,
            stable=stable,
        )
        if definition is None:
            self.in_order.append(kernel)
        elif isinstance(last := self.in_order[-1], RegisteredOperator):
            self.in_order[-1] = replace(last, kernels=(*last.kernels, kernel))
        return kernel

    def fallback(self, library: Library | None, key: int | str | None, *, fallthrough: bool) -> None:
        """Record a fallback for a dispatch key."""
        self.in_order.append(
            RegisteredFallback(
                dispatch_key=key or (library.dispatch_key if library else None),
                fallthrough=fallthrough,
                phase=self.phase,
                order=self._next(),
                library=library,
            )
        )

    def custom_class(self, name: str) -> None:
        """Record a class ``ns.Name``; only once if a called function registers it."""
        if self.phase is Phase.ON_CALL and name in self._classes:
            return
        order = self._classes[name] = self._next()
        self.in_order.append(CustomClass(name=name, methods=(), phase=self.phase, order=order))

    def method(self, class_name: str, method: str) -> None:
        """Add a method to the class that was last registered under this name."""
        if class_name not in self._classes:
            self.custom_class(class_name)
        at = self._index_of(self._classes[class_name])
        if isinstance(record := self.in_order[at], CustomClass):
            self.in_order[at] = replace(record, methods=(*record.methods, method))

    def registry(self, subject: str, key: int | str | None, priority: int | None = None) -> None:
        """Record an entry in one of torch's other registries; only once if a called function adds it."""
        if self.phase is Phase.ON_CALL and any(
            isinstance(record, Registry) and (record.what, record.key, record.phase) == (subject, key, self.phase)
            for record in self.in_order
        ):
            return
        order = self._next()
        self.in_order.append(Registry(what=subject, key=key, priority=priority, phase=self.phase, order=order))

    def close(self, library: int) -> None:
        """Record that a library is destroyed, by its order: nothing of it stays registered.

        What a called function registers counts as long as it lives.
        """
        # Where torch refuses something for certain, the process ends there, and no library before it does.
        if self.phase is Phase.ON_CALL or self.ends_at_torch:
            return
        self._keep([record for record in self.in_order if library not in (record.order, _library_of(record))])

    def end(self, cause: str, text: str, symbol: str | None, signal: int | None = None) -> None:
        """Record that the process ends."""
        end = ProcessEnd(cause=cause, text=text, symbol=symbol, signal=signal, phase=self.phase, order=self._next())
        self.in_order.append(end)

    def drop(self, count: int) -> None:
        """Forget what has been recorded since ``count`` had this value."""
        self._keep(self.in_order[: self._index_of(count)])

    def since(self, count: int) -> Iterator[Registration]:
        """Yield what has been registered since ``count`` had this value, each kernel behind the definition that it
        comes with.
        """
        for record in self.in_order[self._index_of(count) :]:
            if isinstance(record, RegisteredOperator):
                yield replace(record, kernels=())
                yield from record.kernels
            elif not isinstance(record, ProcessEnd):
                yield record

    def places_since(self, count: int) -> Iterator[str]:
        """Yield the source lines of what has been recorded since ``count`` had this value: ``ops.cpp:12``."""
        for record in self.since(count):
            library = record if isinstance(record, Library) else getattr(record, "library", None)
            if library and library.file:
                yield f"{library.file}:{library.line}"

    def _keep(self, records: list[Registration]) -> None:
        self.in_order = records
        defined = [record for record in records if isinstance(record, RegisteredOperator)]
        self._names = {operator.name for operator in defined if not operator.jit_only}
        self._classes = {record.name: record.order for record in records if isinstance(record, CustomClass)}

    def _index_of(self, order: int) -> int:
        """Return where the records with this order and later ones begin."""
        # Until some are dropped, each is at the place of its order.
        if order < len(self.in_order) and self.in_order[order].order == order:
            return order
        return bisect.bisect_left(self.in_order, order, key=lambda record: record.order)

    def _next(self) -> int:
        self.settle()
        self.count += 1
        return self.count - 1

    def lookup(self, operator: str, function: str, address: int, abi_version: int | None = None) -> None:
        """Record that the call that returns to ``address`` passes an operator name to ``function``."""
        self.lookups.append(Lookup(operator=operator, function=function, address=address, abi_version=abi_version))


def _qualified(library: Library | None, name: str) -> str:
    if NAMESPACE_SEPARATOR in name or library is None or library.namespace is None:
        return name
    return library.namespace + NAMESPACE_SEPARATOR + name


def _library_of(record: Registration) -> int | None:
    """Return the order of the library that something is registered in."""
    library: Library | None = getattr(record, "library", None)
    return library.order if library else None
