"""The types that a schema can contain, as torch does: ``aten/src/ATen/core/{jit_type.h, union_type.cpp}``."""

from __future__ import annotations

import enum
import functools
from typing import Final

from msgspec import Struct

from abiscan.dispatch.keys import newest_minor
from abiscan.inputs.version import MinorVersion

NEWEST: Final[MinorVersion] = newest_minor()
# Since then: ScalarType, which was int; -> Tensor, which was -> (Tensor); int[2] x=1.
PRINTS_AS_WRITTEN: Final = (1, 13)

# The releases that changed how a type is printed: jit_type.h in one wheel per release, 1.4 to 2.9.
_STORAGE_IS_A_TYPE: Final = (1, 8)  # Storage, which was int
_NONE_IS_NONETYPE: Final = (1, 9)


class TypeKind(enum.Enum):
    """The kinds of type in a schema, in the order of torch's own enumeration, by which unions are sorted.

    The value is the word for it in a schema.
    """

    ANY = "Any"
    ANY_ENUM = "AnyEnumType"
    TENSOR = "Tensor"
    STORAGE = "Storage"
    TUPLE = "Tuple"
    LIST = "List"
    DICT = "Dict"
    NUMBER = "Scalar"
    FLOAT = "float"
    COMPLEX = "complex"
    FUTURE = "Future"
    AWAIT = "Await"
    RREF = "RRef"
    INT = "int"
    NONE = "NoneType"
    STRING = "str"
    GENERATOR = "Generator"
    QUANTIZER = "Quantizer"
    BOOL = "bool"
    OPTIONAL = "Optional"
    VAR = "Var"
    DEVICE = "Device"
    STREAM = "Stream"
    CLASS = "Class"
    PY_OBJECT = "PyObject"
    CAPSULE = "Capsule"
    QSCHEME = "QScheme"
    SCALAR_TYPE = "ScalarType"
    LAYOUT = "Layout"
    MEMORY_FORMAT = "MemoryFormat"
    ANY_CLASS = "AnyClassType"
    SYM_INT = "SymInt"
    SYM_BOOL = "SymBool"
    UNION = "Union"


_PLAIN_INTEGERS: Final = (TypeKind.SYM_INT, TypeKind.SCALAR_TYPE, TypeKind.LAYOUT, TypeKind.MEMORY_FORMAT)


class Type(Struct, frozen=True, kw_only=True):
    """A type, as a tree.

    :ivar kind: its kind
    :ivar name: that of a type variable (``t``) or of a class (``__torch__.torch.classes.ns.Name``)
    :ivar contained: the element of a list, key and value of a dict, the members of a union
    """

    kind: TypeKind
    name: str = ""
    contained: tuple[Type, ...] = ()

    @property
    def element(self) -> Type:
        """The element type of a list, an optional or a future."""
        return self.contained[0]

    @property
    def depth(self) -> int:
        """The nesting depth of the type, including itself."""
        return 1 + max((type_.depth for type_ in self.contained), default=0)

    @property
    def fake(self) -> Type:
        """The type that kernels see: ``SymInt``, ``ScalarType``, ``Layout`` and ``MemoryFormat`` are ``int``."""
        if self.kind in _PLAIN_INTEGERS:
            return INT
        return self._with(tuple(type_.fake for type_ in self.contained)) if self.contained else self

    @property
    def compared(self) -> Type:
        """The type for comparisons: fake, with equal type variables, and with ``Scalar`` for all numbers."""
        if self.kind is TypeKind.VAR:
            return _ANY_VAR
        if self.kind is TypeKind.UNION and self.contained == _NUMBERS:
            return ATOMS[TypeKind.NUMBER]
        return self._with(tuple(type_.compared for type_ in self.contained)) if self.contained else self.fake

    def _with(self, contained: tuple[Type, ...]) -> Type:
        """Return the same type with other types inside."""
        return self if contained == self.contained else Type(kind=self.kind, name=self.name, contained=contained)

    def is_subtype_of(self, supertype: Type) -> bool:
        """Whether a value of this type is accepted as ``supertype`` (``isSubtypeOfExt``).

        Both types must be ``compared`` types.
        """
        # A union is a subtype if each member is. An optional is a union with None, but torch compares it by its
        # element, so the order of these cases matters.
        if self.kind is TypeKind.UNION:
            return all(
                any(own_type.is_subtype_of(other_type) for other_type in supertype.alternatives())
                for own_type in self.contained
            )
        if self.kind is TypeKind.OPTIONAL:
            if supertype.kind is TypeKind.OPTIONAL:
                return self.element.is_subtype_of(supertype.element)
            if supertype.kind is TypeKind.UNION:
                return NONE in supertype.contained and self.element.is_subtype_of(supertype)
        if self == supertype or supertype.kind is TypeKind.ANY:
            return True
        if supertype.kind is TypeKind.OPTIONAL:
            return self.kind is TypeKind.NONE or self.is_subtype_of(supertype.element)
        if supertype.kind is TypeKind.UNION:
            holds_numbers = set(supertype.contained) >= set(_NUMBERS)
            return any(self.is_subtype_of(other_type) for other_type in supertype.contained) or (
                self.kind is TypeKind.NUMBER and holds_numbers
            )
        if supertype.kind is TypeKind.NUMBER:
            return self.kind in (TypeKind.INT, TypeKind.FLOAT, TypeKind.COMPLEX)
        if supertype.kind is TypeKind.ANY_CLASS:
            return self.kind is TypeKind.CLASS
        if self.kind is supertype.kind and self.kind in (TypeKind.TUPLE, TypeKind.FUTURE, TypeKind.AWAIT):
            return len(self.contained) == len(supertype.contained) and all(
                own_type.is_subtype_of(other_type)
                for own_type, other_type in zip(self.contained, supertype.contained, strict=True)
            )
        return False

    def alternatives(self) -> tuple[Type, ...]:
        """Return all types that a value can have."""
        match self.kind:
            case TypeKind.UNION:
                return self.contained
            case TypeKind.OPTIONAL:
                return (*self.element.alternatives(), NONE)
            case TypeKind.NUMBER:
                return (INT, FLOAT, COMPLEX)
        return (self,)

    def printed_by(self, release: MinorVersion) -> str:
        """Print the type as a release of torch does."""
        match self.kind:
            case TypeKind.LIST:
                return f"{self.element.printed_by(release)}[]"
            case TypeKind.OPTIONAL:
                return f"{self.element.printed_by(release)}?"
            case TypeKind.TUPLE:
                return f"({', '.join([type_.printed_by(release) for type_ in self.contained])})"
            case TypeKind.UNION:
                return _print_union(self.contained, release)
            case TypeKind.VAR | TypeKind.CLASS:
                return self.name
            case TypeKind.NONE:
                return "NoneType" if release >= _NONE_IS_NONETYPE else "None"
            case TypeKind.STORAGE:
                return "Storage" if release >= _STORAGE_IS_A_TYPE else "int"
        if self.contained:
            return f"{self.kind.value}({', '.join([type_.printed_by(release) for type_ in self.contained])})"
        return str(self.kind.value)

    def __str__(self) -> str:
        return self.printed_by(NEWEST)


def _print_union(members: tuple[Type, ...], release: MinorVersion) -> str:
    """Print a union as ``UnionType::unionStr`` does."""
    # Like UnionType::unionStr: numbers are printed as Scalar, at the end, and leave a comma if they came first.
    has_number = set(members) >= set(_NUMBERS)
    parts = []
    for index, type_ in enumerate(members):
        if not (has_number and type_ in _NUMBERS):
            parts.append((", " if index else "") + type_.printed_by(release))
    if has_number:
        parts.append((", " if any(part.startswith(", ") for part in parts) else "") + "Scalar")
    return f"Union({''.join(parts)})"


ATOMS: Final = {
    kind: Type(kind=kind)
    for kind in TypeKind
    if kind
    not in (
        TypeKind.TUPLE,
        TypeKind.LIST,
        TypeKind.DICT,
        TypeKind.FUTURE,
        TypeKind.AWAIT,
        TypeKind.RREF,
        TypeKind.OPTIONAL,
        TypeKind.VAR,
        TypeKind.CLASS,
        TypeKind.UNION,
    )
}
INT, FLOAT, COMPLEX, NONE = (ATOMS[kind] for kind in (TypeKind.INT, TypeKind.FLOAT, TypeKind.COMPLEX, TypeKind.NONE))
_ANY_VAR: Final = Type(kind=TypeKind.VAR)
TENSOR: Final = ATOMS[TypeKind.TENSOR]
_NUMBERS: Final = (FLOAT, COMPLEX, INT)


@functools.lru_cache(maxsize=4096)
def list_of(element: Type) -> Type:
    """Make the type of a list."""
    return Type(kind=TypeKind.LIST, contained=(element,))


@functools.lru_cache(maxsize=4096)
def make_optional(element: Type) -> Type:
    """Make the optional type of a type other than None."""
    # OptionalType is a union with None, and unions are flat: ``Tensor??`` is ``Tensor?``.
    if element.kind is TypeKind.OPTIONAL:
        if element.element.kind is not TypeKind.NUMBER:
            return element
        return Type(kind=TypeKind.OPTIONAL, contained=(Type(kind=TypeKind.UNION, contained=_NUMBERS),))
    if element.kind is TypeKind.UNION:
        if element.contained == _NUMBERS:
            return make_optional(ATOMS[TypeKind.NUMBER])
        if NONE in element.contained:
            without_none = tuple(type_ for type_ in element.contained if type_ != NONE)
            return make_optional(Type(kind=TypeKind.UNION, contained=without_none))
    return Type(kind=TypeKind.OPTIONAL, contained=(element,))


def build_union(members: tuple[Type, ...]) -> Type:
    """Build a union as torch does: flat, without members that another member covers, sorted.

    It may turn out to be an optional, and something else if no more than one member is left.
    """
    # Invariant: no member of ``uncovered`` covers another one.
    uncovered: list[Type] = []
    for type_ in (single for member in members for single in member.alternatives()):
        if not any(_covers(member_kept, type_) for member_kept in uncovered):
            uncovered = [member_kept for member_kept in uncovered if not _covers(type_, member_kept)]
            uncovered.append(type_)
    uncovered.sort(key=lambda type_: (_ORDER[type_.kind], str(type_)))
    if len(uncovered) == 1:
        return uncovered[0]
    members_but_none = tuple(type_ for type_ in uncovered if type_ != NONE)
    if len(members_but_none) < len(uncovered):
        if len(members_but_none) == 1:
            return make_optional(members_but_none[0])
        if members_but_none == _NUMBERS:
            return make_optional(ATOMS[TypeKind.NUMBER])
    return Type(kind=TypeKind.UNION, contained=tuple(uncovered))


def _covers(wide: Type, narrow: Type) -> bool:
    """Tell whether every value of one type is also a value of another."""
    # None remains a separate member next to Any, see filterDuplicateSubtypes in union_type.cpp.
    wide, narrow = wide.compared, narrow.compared
    return wide == narrow or (NONE not in (wide, narrow) and narrow.is_subtype_of(wide))


_ORDER: Final = {kind: index for index, kind in enumerate(TypeKind)}
