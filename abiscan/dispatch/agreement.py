"""Whether the two descriptions of a kernel's type agree.

A kernel tells its type twice: as the function type that ``typeid`` names, and as the schema that torch infers. Both
come out of one template, so where they contradict each other, one of the two was misread, and nothing tells which.
Which type of a schema torch makes of a C++ type: the specialisations of ``getTypePtr_`` in ``ATen/core/jit_type.h``. A
C++ type that is not listed here agrees with everything.

A custom class that another library registers has a name that only that library knows. Until then the schema has the C++
type in its place, which torch never sees.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from abiscan.binary.mangling import Signature, demangle_type, split_parameters
from abiscan.dispatch.inference import inferred_schema
from abiscan.dispatch.schema import Argument, SchemaError
from abiscan.dispatch.schema_types import Type, TypeKind
from abiscan.gaps import Gap
from abiscan.regex import regex
from abiscan.registrations import RegisteredKernel, RegisteredOperator, Registration, Registrations

# Types that releases infer differently are listed with all variants.
_VALUES: Final = {
    "at::Tensor": (TypeKind.TENSOR,),
    "at::Dimname": (TypeKind.STRING,),
    "bool": (TypeKind.BOOL,),
    "double": (TypeKind.FLOAT,),
    "long": (TypeKind.INT,),
    "signed char": (TypeKind.INT,),
    "c10::Device": (TypeKind.DEVICE,),
    "c10::IValue": (TypeKind.ANY,),
    "c10::Layout": (TypeKind.LAYOUT, TypeKind.INT),
    "c10::MemoryFormat": (TypeKind.MEMORY_FORMAT, TypeKind.INT),
    "c10::QScheme": (TypeKind.QSCHEME, TypeKind.INT),
    "c10::Scalar": (TypeKind.NUMBER,),
    "c10::ScalarType": (TypeKind.SCALAR_TYPE, TypeKind.INT),
    "c10::Storage": (TypeKind.STORAGE, TypeKind.INT),
    "c10::Stream": (TypeKind.STREAM,),
    "c10::SymBool": (TypeKind.SYM_BOOL, TypeKind.BOOL),
    "c10::SymInt": (TypeKind.SYM_INT,),
    "c10::complex<double>": (TypeKind.COMPLEX,),
    "c10::basic_string_view<char>": (TypeKind.STRING,),
    "std::string": (TypeKind.STRING,),
    "std::__cxx11::string": (TypeKind.STRING,),
    "std::string_view": (TypeKind.STRING,),
}
_OPTIONALS: Final = ("c10::optional", "std::optional")
_LISTS: Final = ("c10::ArrayRef", "c10::IListRef", "c10::List", "std::array", "std::vector")
_OPTIONAL_LIST: Final = "c10::OptionalArrayRef"
_DICTIONARIES: Final = ("c10::Dict", "std::unordered_map")
_TUPLE: Final = "std::tuple"
_GENERATOR: Final = "at::Generator"  # torch makes an optional of it, as of an optional of it


_CLASS_OF_ANOTHER: Final = regex(r"__torch__\.torch\.classes\.(N3c1013intrusive_ptrI\w+)")


def drop_contradictions(registrations: Registrations) -> Registrations:
    """Drop the schemas and types of an object's registrations that cannot be right; each becomes a gap."""
    of_operators: dict[str, None] = {}
    of_kernels: dict[str, None] = {}

    def checked(record: Registration) -> Registration:
        if isinstance(record, RegisteredKernel):
            kernel, reason = _check_kernel(record)
            of_kernels.update({reason: None} if reason else {})
            return kernel
        if not isinstance(record, RegisteredOperator):
            return record
        unnamed = _explain_unnamed_class(record.name, record.schema)
        of_operators.update({unnamed: None} if unnamed else {})
        results = [_check_kernel(kernel) for kernel in record.kernels]
        reasons = [reason for _, reason in results if reason]
        of_kernels.update(dict.fromkeys(reasons))
        # What a call defines has its schema from the kernel, unless it is written out.
        is_unread = unnamed or (record.inferred and reasons)
        schema = None if is_unread else record.schema
        return replace(record, schema=schema, kernels=tuple(kernel for kernel, _ in results))

    in_order = tuple(map(checked, registrations.in_order))
    reasons = {**of_operators, **of_kernels}
    if not reasons:
        return registrations
    gaps = (Gap(stage="dispatch", reason=reason) for reason in reasons)
    return replace(registrations, in_order=in_order, gaps=(*registrations.gaps, *gaps))


def _check_kernel(kernel: RegisteredKernel) -> tuple[RegisteredKernel, str | None]:
    """Drop the types of a kernel that cannot be right, and say why; the reason is None if all are possible."""
    if kernel.inferred_schema is None:
        return kernel, None
    if reason := _explain_unnamed_class(kernel.operator, kernel.inferred_schema):
        return replace(kernel, inferred_schema=None), reason
    try:
        inferred_schema(kernel.inferred_schema)
    except SchemaError:
        reason = f"the schema inferred for {kernel.operator} cannot be parsed: {kernel.inferred_schema}"
        return replace(kernel, inferred_schema=None), reason
    difference = kernel.signature and find_contradiction(kernel.signature, kernel.inferred_schema)
    if not difference:
        return kernel, None
    reason = f"the schema inferred for {kernel.operator} contradicts its C++ type: {difference}"
    return replace(kernel, signature=None, inferred_schema=None), reason


def _explain_unnamed_class(operator: str, schema: str | None) -> str | None:
    """Say why a schema is unknown that names a class of another library; return None for any other schema."""
    match = _CLASS_OF_ANOTHER.search(schema or "")
    if match is None:
        return None
    _, (held, *_) = _split_template(demangle_type(match[1]))
    return f"the schema of {operator} names a class that another library registers: {held}"


@functools.lru_cache(maxsize=16_384)
def find_contradiction(mangled: str, inferred: str) -> str | None:
    """Say what the C++ type of a kernel and the schema that torch infers for it disagree about; None if nothing."""
    function = Signature.of(demangle_type(mangled))
    if function.parameters is None:
        return None
    schema = inferred_schema(inferred)
    return _find_difference("argument", function.parameters, schema.arguments) or _find_difference(
        "return", _split_results(function.name.strip()), schema.returns
    )


def _split_results(cpp: str) -> tuple[str, ...]:
    """Split the result of a C++ function into what it returns: the elements of a tuple, one type, or nothing."""
    name, contained = _split_template(cpp)
    if name == _TUPLE:
        return contained
    return () if cpp == "void" else (cpp,)


def _find_difference(noun: str, cpp: Sequence[str], arguments: Sequence[Argument]) -> str | None:
    """Compare the C++ types with those of a schema, one by one; return the first difference."""
    if len(cpp) != len(arguments):
        return f"the number of {noun}s is {len(cpp)} in C++, {len(arguments)} in the schema"
    for number, (cpp_type, argument) in enumerate(zip(cpp, arguments, strict=True), 1):
        if not _types_agree(cpp_type, argument.type):
            return f"{noun} {number} is {cpp_type} in C++, {argument.type} in the schema"
    return None


def _types_agree(cpp: str, type_: Type) -> bool:
    """Whether torch may have made the type of the C++ type ``cpp``."""
    cpp = cpp.rstrip(" &").removesuffix(" const")
    if cpp in _VALUES:
        return type_.kind in _VALUES[cpp]
    if cpp == _GENERATOR:
        return type_.kind is TypeKind.OPTIONAL and type_.element.kind is TypeKind.GENERATOR
    # A template agrees if its kind does, and what it contains.
    name, contained = _split_template(cpp)
    if name in _OPTIONALS:
        return type_.kind is TypeKind.OPTIONAL and _types_agree(contained[0], _optional_of(contained[0], type_))
    if name in _LISTS:
        return type_.kind is TypeKind.LIST and _types_agree(contained[0], type_.element)
    if name == _OPTIONAL_LIST:
        return (
            type_.kind is TypeKind.OPTIONAL
            and type_.element.kind is TypeKind.LIST
            and _types_agree(contained[0], type_.element.element)
        )
    if name in _DICTIONARIES:
        return type_.kind is TypeKind.DICT and all(map(_types_agree, contained, type_.contained))
    if name == _TUPLE:
        same_length = len(contained) == len(type_.contained)
        return type_.kind is TypeKind.TUPLE and same_length and all(map(_types_agree, contained, type_.contained))
    # A type that is not listed: nothing is known, so nothing contradicts it.
    return True


def _optional_of(cpp: str, type_: Type) -> Type:
    """Return what the optional ``type_`` of the C++ type ``cpp`` holds."""
    return type_ if cpp == _GENERATOR else type_.element


def _split_template(cpp: str) -> tuple[str, tuple[str, ...]]:
    """Split a class template from its arguments; any other type has none."""
    name, opening, arguments = cpp.partition("<")
    return (name, split_parameters(arguments[:-1])) if opening and cpp.endswith(">") else (cpp, ())
