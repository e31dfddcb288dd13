"""What is registered in a dispatcher: operators with their kernels, libraries, fallbacks, classes.

Dispatch keys are names here, as the release names them; None is "no key", which torch up to 1.7 calls the catch-all.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class StoredSignature(Struct, frozen=True, kw_only=True):
    """The C++ type that the kernels of an operator must have: that of the first kernel with a type.

    :ivar mangled: the function type
    :ivar dispatch_key: the key of that kernel
    :ivar debug: where it was registered
    """

    mangled: str
    dispatch_key: str | None
    debug: str


class StoredKernel(Struct, frozen=True, kw_only=True):
    """A kernel.

    :ivar debug: where it was registered
    :ivar inferred: the schema of its C++ type (``(Tensor _0) -> Tensor _0``), if any
    """

    debug: str
    inferred: str | None


class OperatorEntry(Struct, frozen=True, kw_only=True):
    """One operator.

    :ivar schema: None for one with kernels but no definition
    :ivar debug: where it was defined
    :ivar kernels: by key, the newest first
    :ivar signature: the C++ type of its kernels
    :ivar sym_signature: that of kernels with a SymInt, from 1.13 on
    :ivar signatures_known: if false, both signatures are missing, as in everything that torch reports about itself
    :ivar alias_analysis: the kind in the definition, if any
    """

    schema: str | None = None
    debug: str = ""
    kernels: Mapping[str | None, tuple[StoredKernel, ...]] = field(default_factory=dict)
    signature: StoredSignature | None = None
    sym_signature: StoredSignature | None = None
    signatures_known: bool = True
    alias_analysis: str | None = None


class State(Struct, frozen=True, kw_only=True):
    """What is registered.

    :ivar operators: by name, without a trailing dot
    :ivar libraries: where the library of each namespace was registered
    :ivar fallbacks: where the fallback of each key was registered
    :ivar classes: the custom classes as ``ns.Name``, None if unknown
    :ivar warned: whether torch has already issued its only warning about a replaced kernel
    :ivar backend: the name that ``PrivateUse1`` was renamed to, if any
    :ivar entries: the priorities of entries in torch's other registries, by registry and key, as far as known
    :ivar assertions: the places of torch's internal assertions by message id, as far as known
    """

    operators: Mapping[str, OperatorEntry] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    classes: frozenset[str] | None = None
    warned: bool = False
    backend: str | None = None
    entries: Mapping[tuple[str, int | str | None], int] = field(default_factory=dict)
    assertions: Mapping[str, str] = field(default_factory=dict)
