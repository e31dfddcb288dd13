"""The messages of torch when a registration fails, is replaced or has no effect: one template per wording.

The ids group the wordings of one check. Sources: ``aten/src/ATen/core/{library.cpp, custom_class.cpp}``,
``aten/src/ATen/core/dispatch/{Dispatcher, OperatorEntry}.cpp`` (up to 1.5 ``DispatchTable.h`` too) and
``aten/src/ATen/core/op_registration/{op_registration, infer_schema}.cpp``. Texts are those of ``c10::Error``, without
the place in torch's source that it appends: `` (f at file:1)``, ``Exception raised from f at file:1``.
``docs/messages.md`` lists the torch on which each was observed.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from abiscan.inputs.version import MinorVersion


class Message(Struct, frozen=True, kw_only=True):
    """What torch prints.

    :ivar id: the check that prints it
    :ivar text: the text
    :ivar exact: false if a part of it is unknown, such as the place of an assertion
    """

    id: str
    text: str
    exact: bool = True


CODE_OF_EXTENSION: Final = "end"
"""The id of a message that is not torch's but of the code that registers."""

UNKNOWN_KEY: Final = "key"
"""The id of the message for a dispatch key of the stable ABI that torch does not know."""


class Template(Struct, frozen=True, kw_only=True):
    """One wording.

    :ivar id: the check that prints it
    :ivar first: the first release that words it so
    :ivar last: the last one, None for the newest
    :ivar text: the wording, for ``str.format``
    :ivar exact: false if torch prints more than that, or something else at times
    """

    id: str
    first: MinorVersion
    last: MinorVersion | None
    text: str
    exact: bool = True

    def holds_for(self, release: MinorVersion) -> bool:
        """Whether a release uses this wording."""
        return self.first <= release and (self.last is None or release <= self.last)


def word_message(
    id_: str, release: MinorVersion, *, exact: bool = True, place: str | None = None, **values: object
) -> Message:
    """Word a message as a release does.

    :param exact: whether all values are known
    :param place: the file and line of the internal assertion that fails, None if there is none or it is unknown
    :raises LookupError: this release has no such message
    """
    for template in TEMPLATES:
        if template.id == id_ and template.holds_for(release):
            is_known = place is not None or "{place}" not in template.text
            text = template.text.format(place=place or "?", **values)
            return Message(id=id_, text=text, exact=exact and template.exact and is_known)
    raise LookupError(f"{id_} in {release}")


def has_message(id_: str, release: MinorVersion) -> bool:
    """Whether a release makes this check at all."""
    return any(template.id == id_ and template.holds_for(release) for template in TEMPLATES)


def _between(first: MinorVersion, last: MinorVersion | None, id_: str, text: str, *, exact: bool = True) -> Template:
    """Make the template of one wording for a range of releases."""
    return Template(id=id_, first=first, last=last, text=text, exact=exact)


_BLOCK: Final = "(Error occurred while processing {kind} block at {file}:{line})"
_WILDCARD_NAMESPACE: Final = (
    "{kind}: cannot define {kind} with the wildcard namespace _ (every {kind} defines operators for a distinct "
    "namespace!) Did you mean to use TORCH_LIBRARY_IMPL instead?  " + _BLOCK
)
# 1.9 omits the space before it. ``assertions`` has the places.
_ASSERT: Final = "INTERNAL ASSERT FAILED at {place}, please report a bug to PyTorch. "
_DIFFERENT: Final = (
    "Tried to register multiple operators with the same name and the same overload name but different schemas: "
)
_OVERRIDING: Final = (
    "Overriding a previously registered kernel for the same operator and the same dispatch key\n"
    "  operator: {operator}\n"
    "    {operator_debug}\n"
    "  dispatch key: {key}\n"
    "  previous kernel: {previous}\n"
    "       new kernel: {debug}"
)
_NOT_RUN: Final = "Could not run '{name}' with arguments from the '{key}' backend. "
_ONLY: Final = "'{name}' is only available for these backends: {keys}."
_OMITTED: Final = (
    "This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom "
    "build process (if using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
    "https://fburl.com/ptmfixes for possible resolutions. "
)
_NO_TENSORS: Final = (
    "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), but no fallback "
    "function is registered for schema {name}.  This usually means that this function requires a non-empty list of "
    "Tensors"
)
_AVAILABLE: Final = ".  Available functions are {keys}"
_FORGOT: Final = ", or that you (the operator writer) forgot to register a fallback function"

TEMPLATES: Final = (
    # Blocks of torch/library.h, which came with 1.6.
    _between((1, 6), (1, 6), "L1", _WILDCARD_NAMESPACE.replace("!) Did", "!)Did")),
    _between((1, 7), None, "L1", _WILDCARD_NAMESPACE),
    # Up to at least 2.5, torch reads a missing namespace: usually it is read as empty, or the process ends.
    _between((1, 6), (1, 6), "L1b", _WILDCARD_NAMESPACE.replace("!) Did", "!)Did"), exact=False),
    _between((1, 7), (2, 7), "L1b", _WILDCARD_NAMESPACE, exact=False),
    _between((2, 8), None, "L1b", "bad optional access"),
    _between((1, 6), (1, 8), "L2", "!dispatch_key_.has_value() " + _ASSERT + _BLOCK),
    _between((1, 9), (1, 9), "L2", "!dispatch_key_.has_value()" + _ASSERT + _BLOCK),
    _between((1, 10), None, "L2", "!dispatch_key_.has_value() " + _ASSERT + _BLOCK),
    _between(
        (1, 6),
        None,
        "L3",
        'def("{operator}"): Cannot define an operator inside of a {kind} block.  All def()s should be placed in the '
        "(unique) TORCH_LIBRARY block for their namespace.  " + _BLOCK,
    ),
    _between(
        (1, 6),
        (1, 6),
        "L4",
        "{equal}Explicitly provided namespace ({given}) in schema string does not match namespace of enclsing {kind} "
        "block ({namespace}).  Move this definition to the (unique) TORCH_LIBRARY block corresponding to this "
        "namespace (and consider deleting the namespace from your schema string.)  " + _BLOCK,
    ),
    _between(
        (1, 7),
        None,
        "L4",
        "Explicitly provided namespace ({given}) in schema string does not match namespace of enclosing {kind} block "
        "({namespace}).  Move this definition to the (unique) TORCH_LIBRARY block corresponding to this namespace (and "
        "consider deleting the namespace from your schema string.)  " + _BLOCK,
    ),
    _between(
        (1, 6),
        None,
        "L5",
        'def("{operator}"): Full schema string was not specified, and we couldn\'t infer schema either.  Please '
        "explicitly provide a schema string.  " + _BLOCK,
    ),
    _between(
        (1, 6),
        None,
        "L6",
        'impl("{operator}", ...): Explicitly provided namespace ({given}) in operator name does not match namespace of '
        "enclosing {kind} block ({namespace}).  Move this definition to the {kind} block corresponding to this "
        "namespace (and consider deleting the namespace from your schema string.)  " + _BLOCK,
    ),
    _between(
        (1, 6),
        None,
        "L7",
        'impl("{operator}", ...): Explicitly provided dispatch key ({given}) is inconsistent with the dispatch key of '
        "the enclosing {kind} block ({key}).  Please declare a separate {kind} block for this dispatch key and move "
        "your impl() there.  " + _BLOCK,
    ),
    _between(
        (1, 6),
        None,
        "L8",
        "fallback(...): Cannot define an operator inside of a {kind} block.  Did you mean to call this function inside "
        "a TORCH_LIBRARY_IMPL block?  " + _BLOCK,
    ),
    _between((1, 6), (1, 8), "L9", "dispatch_key.has_value() " + _ASSERT + _BLOCK),
    _between((1, 9), (1, 9), "L9", "dispatch_key.has_value()" + _ASSERT + _BLOCK),
    _between((1, 10), None, "L9", "dispatch_key.has_value() " + _ASSERT + _BLOCK),
    _between(
        (1, 6),
        None,
        "L10",
        "fallback(...): Fallback functions which apply to only a single namespace (you specified {namespace}) are not "
        "supported.  If you intended to apply this fallback function globally, please define a separate block:\n\n"
        "    TORCH_LIBRARY_IMPL(_, {key}, m) {{ m.fallback(...); }}\n\n" + _BLOCK,
    ),
    # Libraries and operators.
    _between(
        (1, 6),
        (1, 8),
        "N1",
        "Only a single TORCH_LIBRARY can be used to register the namespace {namespace}; please put all of your "
        "definitions in a single TORCH_LIBRARY block.  If you were trying to specify implementations, consider using "
        "TORCH_LIBRARY_IMPL (which can be duplicated).  Previous registration of TORCH_LIBRARY was {previous}; latest "
        "registration was {debug}",
    ),
    _between(
        (1, 9),
        None,
        "N1",
        "Only a single TORCH_LIBRARY can be used to register the namespace {namespace}; please put all of your "
        "definitions in a single TORCH_LIBRARY block.  If you were trying to specify implementations, consider using "
        "TORCH_LIBRARY_IMPL (which can be duplicated).  If you really intended to define operators for a single "
        "namespace in a distributed way, you can use TORCH_LIBRARY_FRAGMENT to explicitly indicate this.  Previous "
        "registration of TORCH_LIBRARY was {previous}; latest registration was {debug}",
    ),
    _between(
        (1, 8),
        None,
        "D1",
        "Tried to register an operator ({new}) with the same name and overload name multiple times. Each overload's "
        "schema should only be registered with a single call to def(). Duplicate registration: {debug}. Original "
        "registration: {previous}",
    ),
    _between((1, 3), (1, 5), "D2", _DIFFERENT + "{new} vs {old}"),
    _between((1, 6), (1, 7), "D2", _DIFFERENT + "{new} ({debug}) vs {old} ({previous})"),
    _between(
        (1, 3),
        (1, 4),
        "D3",
        "Tried to register multiple operators with the same schema but different options: {new}",
    ),
    _between(
        (1, 5),
        (1, 5),
        "D4",
        "Tried to register multiple operators with the same schema but different alias analysis kind: {new}",
    ),
    _between(
        (1, 6),
        (1, 7),
        "D5",
        "Tried to define the schema for {name} with different alias analysis kinds: {old_kind} ({previous}) vs {kind} "
        "({debug})",
    ),
    _between((1, 6), None, "K11", "The function schema has {count} arguments but this PyTorch build only supports 64"),
    # Fallbacks. In 1.6, a second one silently replaces the first.
    _between(
        (1, 4),
        (1, 5),
        "F2",
        "Tried to register a backend fallback kernel for {key} but there was already one registered.",
    ),
    _between(
        (1, 7),
        None,
        "F1",
        "Tried to register multiple backend fallbacks for the same dispatch key {key}; previous registration "
        "{previous}, new registration {debug}",
    ),
    # Kernels.
    _between(
        (1, 6),
        (1, 7),
        "K1",
        "*cpp_signature == *cpp_signature_ " + _ASSERT + "Tried to register a kernel ({debug}) for operator {name} for "
        "dispatch key {key}, but the C++ function signature {new} mismatched with a previous kernel that had the "
        "signature {old}",
    ),
    _between(
        (1, 8),
        None,
        "K1",
        "\nMismatch in kernel C++ signatures\n"
        "  operator: {operator}\n"
        "    {operator_debug}\n"
        "  kernel 1: {old}\n"
        "    dispatch key: {old_key}\n"
        "    {previous}\n"
        "  kernel 2: {new}\n"
        "    dispatch key: {key}\n"
        "    {debug}\n",
    ),
    _between(
        (1, 6),
        (1, 7),
        "K2",
        'In registration for {name}: expected schema of operator to be "{expected}" ({expected_debug}), but got '
        'inferred schema "{inferred}" ({debug}). {reason}',
    ),
    _between(
        (1, 8),
        None,
        "K2",
        "Inferred operator schema for a C++ kernel function doesn't match the expected function schema.\n"
        "  operator: {name}\n"
        "  expected schema: {expected}\n"
        "    {expected_debug}\n"
        "  inferred schema: {inferred}\n"
        "    {debug}\n"
        "  reason: {reason}",
    ),
    _between(
        (1, 3),
        (1, 5),
        "K3",
        "Registered a kernel for operator {name} with dispatch key {key} that overwrote a previously registered kernel "
        "with the same dispatch key for the same operator.",
    ),
    _between(
        (1, 3),
        (1, 5),
        "K3b",
        "Registered a catch-all kernel for operator {name} that overwrote a previously registered catch-all kernel for "
        "the same operator.",
    ),
    _between(
        (1, 6),
        (1, 7),
        "K3",
        "Registering a kernel ({debug}) for operator {name} for dispatch key {key} that overwrote a previously "
        "registered kernel with the same dispatch key for the same operator.",
    ),
    _between((1, 8), (2, 0), "K3", _OVERRIDING),
    _between(
        (2, 1),
        (2, 4),
        "K3",
        "Warning only once for all operators,  other operators may also be overrided.\n  " + _OVERRIDING,
    ),
    _between(
        (2, 5),
        None,
        "K3",
        "Warning only once for all operators,  other operators may also be overridden.\n  " + _OVERRIDING,
    ),
    # Calls. {table} is the whole row as torch prints it. In 1.4, the keys are in the order of a hash table.
    _between((1, 4), (1, 4), "K6", _NOT_RUN + _ONLY, exact=False),
    _between((1, 5), (1, 6), "K6", _NOT_RUN + _ONLY),
    _between((1, 7), (1, 7), "K6", _NOT_RUN + _ONLY + "\n\n{table}"),
    _between((1, 8), None, "K6", _NOT_RUN + _OMITTED + _ONLY + "\n\n{table}"),
    _between((1, 4), (1, 4), "K7", _NO_TENSORS + _AVAILABLE, exact=False),
    _between((1, 5), (1, 6), "K7", _NO_TENSORS + _AVAILABLE),
    _between((1, 7), (1, 8), "K7", _NO_TENSORS + _AVAILABLE + ".\n\n{table}"),
    _between((1, 9), None, "K7", _NO_TENSORS + _FORGOT + _AVAILABLE + ".\n\n{table}"),
    # Lookups by name; {name} always has its dot. Up to 1.5, an operator that only has kernels is found.
    _between((1, 4), (1, 5), "S1", "bad optional access"),
    _between((1, 6), None, "S1", "Could not find schema for {name}"),
    _between(
        (1, 6),
        None,
        "S2",
        "Could not find schema for {name} but we found an implementation; did you forget to def() the operator?",
    ),
    # RegisterOperators.
    _between(
        (1, 3),
        None,
        "R3",
        "In operator registration: Tried to register multiple kernels with same dispatch key {key} for operator schema "
        "{schema}",
    ),
    _between(
        (1, 3),
        None,
        "R4",
        "In operator registration: Tried to register multiple catch-all kernels for operator schema {schema}",
    ),
    _between(
        (1, 3),
        None,
        "R5",
        "Cannot infer operator schema in registration of operator {name} because there is no kernel specified.",
    ),
    _between(
        (1, 3),
        None,
        "R6",
        "Cannot infer operator schema for this kind of kernel in registration of operator {name}. Please explicitly "
        "specify the operator schema or specify at least one kernel for which we can infer the schema.",
    ),
    _between(
        (1, 3),
        (1, 5),
        "R7",
        "In operator registration: Tried to register kernels for same operator that infer a different function schema: "
        "[{first}] doesn't match [{second}]. {reason}",
    ),
    _between(
        (1, 3),
        (1, 5),
        "R8",
        "In operator registration: Specified function schema [{expected}] doesn't match inferred function schema "
        "[{inferred}]. {reason}",
    ),
    _between(
        (1, 3),
        None,
        "R9",
        "In operator registration: Tried to register operator {schema} with AliasAnalysisKind::FROM_SCHEMA, but the "
        "schema is inferred.",
    ),
    _between(
        (1, 3),
        (1, 4),
        "R10",
        "In operator registration: Tried to register operator {schema} with aliasing information in the schema but "
        "without AliasAnalysisKind::FROM_SCHEMA.",
    ),
    # Schema strings, whose whole messages come from the parser, and classes.
    _between((1, 3), None, "G1", "{problem}"),
    _between(
        (1, 5),
        (1, 5),
        "C1",
        "Expected !customClasses().count(name) to be true, but got false.  (Could this error message be improved?  If "
        "so, please report an enhancement request to PyTorch.)",
    ),
    _between(
        (1, 6),
        None,
        "C1",
        "Custom class with name {name} is already registered. Ensure that registration with torch::class_ is only "
        "called once.",
    ),
    # The name of the PrivateUse1 backend (c10/core/DeviceType.cpp).
    _between(
        (2, 0),
        None,
        "C5",
        "torch.register_privateuse1_backend() has already been set! Current backend: {name}",
    ),
    # Other registries: c10/util/Registry.h, whose code prints and calls exit(1); ATen/detail/PrivateUse1HooksInterface,
    # ATen/core/GeneratorForPrivateuseone, c10/core/{StorageImpl, AllocatorConfig}.
    _between((1, 3), None, "C4", "Key already registered with the same priority: {key}"),
    _between((1, 3), None, "C4b", "Higher priority item already registered, skipping registration of {key}"),
    _between((2, 1), None, "E1", "PrivateUse1HooksInterface only could be registered once."),
    _between((2, 0), None, "E2", "Only can register a generator to the PrivateUse1 dispatch key once!"),
    _between((2, 1), None, "E3", "The StorageImplCreate function pointer for {device} has been registered."),
    _between(
        (2, 1),
        None,
        "E4",
        "It is only allowed to register the storageImpl create method for PrivateUse1. If you have related storageImpl "
        "requirements, please expand the allowlist",
    ),
    _between(
        (2, 9),
        None,
        "E5",
        "Duplicated key '{key}' found in device-specific configuration parser hook registration",
    ),
)
