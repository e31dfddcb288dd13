"""What is registered in a dispatcher: operators with their kernels, libraries, fallbacks, classes.

Dispatch keys are names here, as the release names them; None is "no key", which torch up to 1.7 calls the catch-all.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class StoredSignature(Struct, frozen=True, kw_only=True):
    """The C++ type that the kernels of an operator must have: that of the first kernel with a type. It is mangled."""

    mangled: str
    dispatch_key: str | None
    debug: str


class StoredKernel(Struct, frozen=True, kw_only=True):
    """A kernel: where it was registered, and the schema of its C++ type (``(Tensor _0) -> Tensor _0``), if any."""

    debug: str
    inferred: str | None


class OperatorEntry(Struct, frozen=True, kw_only=True):
    """One operator. ``schema`` is None for one with kernels but no definition, ``debug`` says where it was defined.

    ``alias_analysis`` is the kind in the definition, if any. ``kernels`` are by key, the newest first.
    ``sym_signature`` is that of kernels with a SymInt, from 1.13 on. Both signatures are missing if
    ``signatures_known`` is false, as in everything that torch reports about itself.
    """

    schema: str | None = None
    debug: str = ""
    kernels: Mapping[str | None, tuple[StoredKernel, ...]] = field(default_factory=dict)
    signature: StoredSignature | None = None
    sym_signature: StoredSignature | None = None
    signatures_known: bool = True
    alias_analysis: str | None = None


class State(Struct, frozen=True, kw_only=True):
    """What is registered: operators by name, without a trailing dot, and where libraries and fallbacks were registered.

    ``classes`` are the custom classes as ``ns.Name``, None if unknown; ``warned`` means that torch has already issued
    its only warning about a replaced kernel; ``backend`` is the name that ``PrivateUse1`` was renamed to, if any.
    ``entries`` are those of torch's other registries, by registry and key, with their priorities, as far as known;
    ``assertions`` are the places of torch's internal assertions by message id, as far as known.
    """

    operators: Mapping[str, OperatorEntry] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    classes: frozenset[str] | None = None
    warned: bool = False
    backend: str | None = None
    entries: Mapping[tuple[str, int | str | None], int] = field(default_factory=dict)
    assertions: Mapping[str, str] = field(default_factory=dict)
