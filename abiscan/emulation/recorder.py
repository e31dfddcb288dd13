"""Collects registrations as the doubles of torch's API are called, in the terms of torch's ``library.cpp``.

A name without a namespace takes the library's; a kernel without a dispatch key takes the library's; the key
``Undefined``, number 0, is no key. Sources: ``aten/src/ATen/core/library.cpp``, ``op_registration.cpp``.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from abiscan.emulation.model import (
    CustomClass,
    Library,
    LibraryKind,
    Lookup,
    Phase,
    ProcessEnd,
    RegisteredFallback,
    RegisteredKernel,
    RegisteredOperator,
    Registry,
)
from abiscan.regex import regex

NAMESPACE_SEPARATOR = "::"


_BLANKS: Final = regex(r"\s*([:.])\s*")


def name_as_read(text: str) -> str:
    """The name of an operator as torch reads it: its lexer skips spaces around a name, ``::`` and ``.``.

    Blanks inside a word stay, for torch refuses them (``torch/csrc/jit/frontend/function_schema_parser.cpp``).
    """
    return _BLANKS.sub(r"\1", text.strip())


def operator_name(schema: str) -> str:
    """``ns::name.overload`` at the beginning of a schema's text, without a trailing dot."""
    return name_as_read(schema.partition("(")[0]).removesuffix(".")


class Recorder:
    """The lists of ``Registrations``, growing. ``phase`` is that of the function being emulated."""

    def __init__(self) -> None:
        self.phase = Phase.STATIC_INIT
        self.libraries: list[Library] = []
        self.operators: list[RegisteredOperator] = []
        self._names: set[str] = set()  # of the operators that the dispatcher knows
        self.kernels: list[RegisteredKernel] = []
        self.fallbacks: list[RegisteredFallback] = []
        self.classes: list[CustomClass] = []
        self.registries: list[Registry] = []
        self.lookups: list[Lookup] = []  # by emulated addresses, at first
        self.ends: list[ProcessEnd] = []
        self.debug_at: set[int] = set()
        self.built: set[str] = set()  # operators whose schema was read from the objects that code put together
        self.settle: Callable[[], None] = lambda: None
        """Called before each record, to record entries that inlined code has added before."""
        self.ends_at_torch = False
        """Whether torch has refused something for certain that nothing catches: then no library ends before."""
        self.count = 0
        """The next ``order``."""

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
        self.libraries.append(opened)
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
            file=library.file if library else None,
            line=library.line if library else None,
            phase=self.phase,
            order=self._next(),
            library=library.order if library else None,
        )
        self.operators.append(defined)
        if not jit_only:
            self._names.add(full)
        if built:
            self.built.add(full)
        return defined

    def has_operator(self, name: str) -> bool:
        """Whether an operator with this full name is already defined."""
        return name in self._names

    def opened(self, order: int) -> Library | None:
        """The library with this place among all records, None if it does not live any more."""
        at = bisect.bisect_left(self.libraries, order, key=lambda library: library.order)
        return self.libraries[at] if at < len(self.libraries) and self.libraries[at].order == order else None

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
    ) -> None:
        """Record a kernel for an operator, registered separately or with the ``definition``."""
        self.kernels.append(
            RegisteredKernel(
                operator=_qualified(library, name_as_read(name).removesuffix(".")),
                dispatch_key=key or (library.dispatch_key if library else None),
                signature=signature,
                inferred_schema=inferred,
                boxed=boxed,
                fallthrough=fallthrough,
                abi_version=abi_version,
                file=library.file if library else None,
                line=library.line if library else None,
                phase=self.phase,
                order=self._next() if definition is None else definition.order,
                library=library.order if library else None,
                functions=functions,
                stable=stable,
            )
        )

    def fallback(self, library: Library | None, key: int | str | None, *, fallthrough: bool) -> None:
        """Record a fallback for a dispatch key."""
        self.fallbacks.append(
            RegisteredFallback(
                dispatch_key=key or (library.dispatch_key if library else None),
                fallthrough=fallthrough,
                file=library.file if library else None,
                line=library.line if library else None,
                phase=self.phase,
                order=self._next(),
                library=library.order if library else None,
            )
        )

    def custom_class(self, name: str) -> None:
        """Record a class ``ns.Name``; only once if a called function registers it."""
        if self.phase is Phase.ON_CALL and any(custom_class.name == name for custom_class in self.classes):
            return
        self.classes.append(CustomClass(name=name, methods=(), phase=self.phase, order=self._next()))

    def method(self, class_name: str, method: str) -> None:
        """Add a method to the class that was last registered under this name."""
        if not any(custom_class.name == class_name for custom_class in self.classes):
            self.custom_class(class_name)
        at = max(index for index, custom_class in enumerate(self.classes) if custom_class.name == class_name)
        self.classes[at] = replace(self.classes[at], methods=(*self.classes[at].methods, method))

    def registry(self, what: str, key: int | str | None, priority: int | None = None) -> None:
        """Record an entry in one of torch's other registries; only once if a called function adds it."""
        if self.phase is Phase.ON_CALL and any(
            (registry.what, registry.key, registry.phase) == (what, key, self.phase) for registry in self.registries
        ):
            return
        order = self._next()
        self.registries.append(Registry(what=what, key=key, priority=priority, phase=self.phase, order=order))

    def close(self, library: int) -> None:
        """Record that a library does not live any more, by its order: what it registered is not registered.

        What a called function registers counts as long as it lives.
        """
        if self.phase is Phase.ON_CALL or self.ends_at_torch:
            return
        lists: tuple[list[Any], ...] = (self.operators, self.kernels, self.fallbacks)
        for records in lists:
            records[:] = [record for record in records if record.library != library]
        self.libraries[:] = [each for each in self.libraries if each.order != library]
        self._name_operators()

    def end(self, cause: str, text: str, symbol: str | None) -> None:
        """Record that the process ends."""
        self.ends.append(ProcessEnd(cause=cause, text=text, symbol=symbol, phase=self.phase, order=self._next()))

    def marks(self) -> tuple[int, ...]:
        """How much has been recorded."""
        return tuple(map(len, self._lists()))

    def drop(self, marks: tuple[int, ...]) -> None:
        """Forget what has been recorded since."""
        for records, mark in zip(self._lists(), marks, strict=True):
            del records[mark:]
        self._name_operators()

    def _name_operators(self) -> None:
        self._names = {operator.name for operator in self.operators if not operator.jit_only}

    def since(self, marks: tuple[int, ...]) -> tuple[object, ...]:
        """What has been recorded since, apart from its place among everything else."""
        return tuple(
            replace(record, order=0, **({"library": None} if hasattr(record, "library") else {}))
            for records, mark in zip(self._lists(), marks, strict=True)
            for record in records[mark:]
        )

    def places_since(self, marks: tuple[int, ...]) -> Iterator[str]:
        """Where the source of what has been recorded since is: ``ops.cpp:12``."""
        for records, mark in zip(self._lists(), marks, strict=True):
            yield from (f"{record.file}:{record.line}" for record in records[mark:] if getattr(record, "file", None))

    def _lists(self) -> tuple[list[Any], ...]:
        return self.libraries, self.operators, self.kernels, self.fallbacks, self.classes, self.registries

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
