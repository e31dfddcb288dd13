"""Describe what is registered, call by call: the events that a dispatcher sees, in the terms of ``torch/library.h``.

Dispatch keys are names here, as the release names them; None is "no key", which torch up to 1.7 calls the catch-all. An
event is equal only to itself: registering the same thing twice makes two events.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from msgspec import Struct


class BlockKind(enum.Enum):
    """The macros of ``torch/library.h``."""

    DEF = "TORCH_LIBRARY"
    IMPL = "TORCH_LIBRARY_IMPL"
    FRAGMENT = "TORCH_LIBRARY_FRAGMENT"


class Block(Struct, frozen=True, kw_only=True):
    """One block of ``torch/library.h`` or of ``torch/csrc/stable/library.h``.

    :ivar kind: its macro
    :ivar namespace: None for the wildcard ``_``
    :ivar dispatch_key: the key of an IMPL block, None if it has none
    :ivar file: the source file, as the compiler recorded it
    :ivar line: the line in it
    :ivar stable: whether it is one of the stable ABI
    :ivar quotes: whether the stable ABI's own messages quote torch's
    """

    kind: BlockKind
    namespace: str | None
    dispatch_key: str | None
    file: str
    line: int
    stable: bool = False
    quotes: bool = False

    @property
    def debug(self) -> str:
        """The text that torch stores with each registration in it."""
        return f"registered at {self.file}:{self.line}"


class CppFunction(Struct, frozen=True, kw_only=True):
    """A function that is being registered.

    :ivar dispatch_key: its own key, besides that of its block
    :ivar signature: its mangled C++ type; None for boxed functions and fallthroughs
    :ivar inferred: the schema that torch infers from that type; None where the type is
    :ivar debug: the text that ``CppFunction::debug`` sets instead of the block's
    """

    dispatch_key: str | None = None
    signature: str | None = None
    inferred: str | None = None
    debug: str | None = None


class FailureText(Struct, frozen=True, kw_only=True):
    """What the code of the stable ABI says if torch rejects a registration.

    :ivar before: its own words, before torch's
    :ivar after: its own words after torch's; None if it does not quote torch
    """

    before: str
    after: str | None = None

    def quote(self, text: str) -> str:
        """Return the whole text, where torch says ``text``."""
        return self.before if self.after is None else self.before + text + self.after


class OpenBlock(Struct, frozen=True, kw_only=True, eq=False):
    """A block begins."""

    block: Block


class Define(Struct, frozen=True, kw_only=True, eq=False):
    """``m.def(text)``, or ``m.def(text, kernel)``.

    :ivar block: the block that it is in
    :ivar text: a schema, or possibly a name if there is a kernel
    :ivar kernel: the kernel that is passed with the definition, if any
    :ivar alias_analysis: that of ``torch::schema(text, …)``
    :ivar typevars: whether that allows type variables; None for a text, where the overload of ``def`` decides
    :ivar failure: what the code throws if this fails
    """

    block: Block
    text: str
    kernel: CppFunction | None = None
    alias_analysis: str | None = None
    typevars: bool | None = None
    failure: FailureText | None = None


class Implement(Struct, frozen=True, kw_only=True, eq=False):
    """``m.impl(name, kernel)``; ``failure`` is what the code throws if this fails."""

    block: Block
    name: str
    kernel: CppFunction
    failure: FailureText | None = None


class FallBack(Struct, frozen=True, kw_only=True, eq=False):
    """``m.fallback(kernel)``; up to 1.5, without blocks, ``registerBackendFallbackKernel``."""

    block: Block | None
    kernel: CppFunction


class RegisterOperator(Struct, frozen=True, kw_only=True, eq=False):
    """``RegisterOperators().op(text, kernels)``; ``alias_analysis`` is that of its options, if they have any."""

    text: str
    kernels: tuple[CppFunction, ...]
    alias_analysis: str | None = None


class RegisterClass(Struct, frozen=True, kw_only=True, eq=False):
    """``torch::class_``; ``name`` is ``ns.Name``."""

    name: str


class NameBackend(Struct, frozen=True, kw_only=True, eq=False):
    """``c10::register_privateuse1_backend``."""

    name: str


class Enter(Struct, frozen=True, kw_only=True, eq=False):
    """An entry in one of torch's other registries.

    :ivar registry: the registry
    :ivar key: the name of the device if it is for one
    :ivar priority: that in a ``c10::Registry``, or of an allocator; None if there is none
    """

    registry: str
    key: int | str | None = None
    priority: int | None = None


class EndProcess(Struct, frozen=True, kw_only=True, eq=False):
    """The code ends the process by itself.

    :ivar cause: how
    :ivar text: what it says
    :ivar place: the function that does it, None if unknown
    """

    cause: str
    text: str
    place: str | None


Event: TypeAlias = (
    OpenBlock | Define | Implement | FallBack | RegisterOperator | RegisterClass | NameBackend | Enter | EndProcess
)
