"""torch's registration API: the functions with which an object registers operators, kernels, classes and backends.

Each function is a regular expression for the beginning of its mangled name. This is the only table of them: an object
that imports one is emulated (``registers``), each has a double, and a call that was not executed is a gap. A function
of the same classes and C interfaces that is not listed here, because a newer torch added it, is a gap wherever it is
imported (``unknown``).

Sources: ``torch/library.h``, ``torch/custom_class.h``, ``torch/csrc/stable/c/shim.h``,
``torch/csrc/inductor/aoti_torch/c/shim.h``, ``ATen/core/op_registration/op_registration.h``,
``torch/csrc/jit/runtime/operator.h``, ``c10/core``, ``ATen/detail/PrivateUse1HooksInterface.h``,
``torch/csrc/profiler/standalone/privateuse1_profiler.h``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from abiscan.regex import beginnings, regex

# These open what other functions register in.
OPEN_LIBRARY: Final = r"_ZN5torch7LibraryC[12]ENS0_4KindE"
OPEN_STABLE_LIBRARY: Final = r"aoti_torch_library_init_(def|fragment|impl)$"
OPEN_CLASS: Final = r"_ZN5torch6detail10class_baseC[12]E"

# torch::Library, from 1.6 on.
DEFINE: Final = r"_ZNR5torch7Library4_defEON3c1014FunctionSchemaE"
DEFINE_WITH_KERNEL: Final = r"_ZNR5torch7Library4_defEO(St7variant|N3c106either)"
IMPLEMENT: Final = r"_ZNR5torch7Library5_implEPKcONS_11CppFunctionE"
FALL_BACK: Final = r"_ZNR5torch7Library9_fallbackEONS_11CppFunctionE"

# The stable ABI, from 2.8 on.
STABLE_DEFINE: Final = r"aoti_torch_library_def$"
STABLE_DEFINE_WITH_TAGS: Final = r"torch_library_def_with_tags$"
STABLE_IMPLEMENT: Final = r"(?:aoti_)?torch_library_impl$"

# RegisterOperators of c10, and of TorchScript.
REGISTER_OPERATOR: Final = r"_ZN3c1017RegisterOperators25checkSchemaAndRegisterOp_E"
REGISTER_JIT_OPERATOR: Final = r"_ZN5torch3jit16registerOperatorEO"

# Classes; up to 1.7, no function opens one.
REGISTER_CLASS: Final = r"_ZN5torch19registerCustomClassE"
REGISTER_METHOD: Final = r"_ZN5torch25registerCustomClassMethodE"

# Backends.
REGISTER_DEVICE_GUARD: Final = r"_ZN3c104impl24DeviceGuardImplRegistrarC[12]E"
SET_ALLOCATOR: Final = r"_ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorE$"
SET_ALLOCATOR_WITH_PRIORITY: Final = r"_ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh"
SET_STORAGE: Final = r"_ZN3c1020SetStorageImplCreateENS_10DeviceTypeE"
NAME_BACKEND: Final = r"_ZN3c1028register_privateuse1_backendE"
REGISTER_HOOKS: Final = r"_ZN2at33RegisterPrivateUse1HooksInterfaceE"
REGISTER_GENERATOR: Final = r"_ZN2at18_GeneratorRegisterC[12]E"
REGISTER_PROFILER: Final = r"_ZN5torch8profiler4impl26registerPrivateUse1MethodsE"
REGISTER_ACTIVITY_PROFILER: Final = r"_ZN5torch8profiler4impl27PrivateUse1ProfilerRegistry15registerFactoryE"

# These return a registry, to which inlined code adds entries: a call alone registers nothing.
REGISTRY: Final = r"_ZN\d\w*Registry(?:B5cxx11)?Ev$"
ALLOCATOR_SETTINGS: Final = r"_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig14getMutableKeys"

OPENING: Final = (OPEN_LIBRARY, OPEN_STABLE_LIBRARY, OPEN_CLASS)
REGISTERING: Final = (
    *(DEFINE, DEFINE_WITH_KERNEL, IMPLEMENT, FALL_BACK),
    *(STABLE_DEFINE, STABLE_DEFINE_WITH_TAGS, STABLE_IMPLEMENT),
    *(REGISTER_OPERATOR, REGISTER_JIT_OPERATOR),
    *(REGISTER_DEVICE_GUARD, SET_ALLOCATOR, SET_ALLOCATOR_WITH_PRIORITY, SET_STORAGE, NAME_BACKEND),
    *(REGISTER_HOOKS, REGISTER_GENERATOR, REGISTER_PROFILER, REGISTER_ACTIVITY_PROFILER),
)
# Inlined templates call these in several places, only one of which is executed for each class or method.
INLINED: Final = (REGISTER_CLASS, REGISTER_METHOD)
FILLED: Final = (REGISTRY, ALLOCATOR_SETTINGS)
API: Final = (*OPENING, *REGISTERING, *INLINED, *FILLED)

_REGISTERED_BY: Final = {
    "library": (OPEN_LIBRARY, OPEN_STABLE_LIBRARY),
    "class": (OPEN_CLASS, REGISTER_CLASS),
    "method": (REGISTER_METHOD,),
    "operator": (
        *(DEFINE, DEFINE_WITH_KERNEL, STABLE_DEFINE, STABLE_DEFINE_WITH_TAGS),
        *(REGISTER_OPERATOR, REGISTER_JIT_OPERATOR),
    ),
    "kernel": (IMPLEMENT, STABLE_IMPLEMENT),
    "fallback": (FALL_BACK,),
}

# What has the names of the API, known or not: classes and C interfaces that are there for nothing but registration.
_FAMILY: Final = (
    r"_ZN[VKRO]*5torch7Library",
    r"_ZN3c1017RegisterOperators",
    r"_ZN5torch3jit(?:16register|17Register)Operator",
    r"_ZN[VKRO]*5torch6detail10class_base",
    r"_ZN5torch\d+registerCustomClass",
    r"aoti_torch_library_",
    r"torch_library_",
    r"_ZN3c104impl24DeviceGuardImplRegistrar",
    r"_ZN3c10\d+register_privateuse1",
    r"_ZN2at\d+RegisterPrivateUse1",
    r"_ZN2at18_GeneratorRegister",
    r"_ZN5torch8profiler4impl\d+PrivateUse1ProfilerRegistry",
)
# The part of the API that has other names.
_OTHERS: Final = (SET_ALLOCATOR, SET_ALLOCATOR_WITH_PRIORITY, SET_STORAGE, REGISTER_PROFILER, *FILLED)
# Members of the family that register nothing: they close a library, look something up, or set a schema's defaults.
_WITHOUT_EFFECT: Final = (
    r"_ZN5torch7Library(?:5reset|D[12])E",
    r"_ZNK5torch7Library(?:16_parseNameForLib|8_resolve)E",
    r"_ZN3c1017RegisterOperators(?:[CD][12]|aS)E",
    r"_ZN5torch3jit17RegisterOperatorsD[12]E",
    r"_ZN5torch6detail10class_base(?:16withNewArguments|22withNewArgumentsStatic)E",
    r"torch_library_set_python_module$",
    r"_ZN5torch8profiler4impl27PrivateUse1ProfilerRegistry(?:8instance|12onKinetoInit|18registerWithKineto)E",
)


class _Patterns:
    """Some of the regular expressions: a name is compared with those alone that begin like it.

    To compile them as one takes longer than all that a run compares with them.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._expressions = patterns

    @functools.cached_property
    def _patterns(self) -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
        return tuple((beginnings(pattern), regex(pattern)) for pattern in self._expressions)

    def match(self, name: str) -> bool:
        """Whether a name begins with a match of one of them."""
        return any(name.startswith(start) and pattern.match(name) for start, pattern in self._patterns)


_TRIGGER: Final = regex("|".join((*_FAMILY, *_OTHERS)))
_CALLS: Final = _Patterns((*OPENING, *REGISTERING))
_OPENING: Final = _Patterns(OPENING)
_INLINED: Final = _Patterns(INLINED)
_KNOWN: Final = _Patterns((*API, *_WITHOUT_EFFECT))
_REGISTERED: Final = {what: _Patterns(patterns) for what, patterns in _REGISTERED_BY.items()}


@functools.lru_cache(maxsize=64)
def registers_anything(names: frozenset[str]) -> bool:
    """Whether an object that imports ``names`` registers anything with torch."""
    # Each torch asks for the same few objects.
    return any(map(_TRIGGER.match, names))


# A library calls few functions in thousands of places.
_remembered: Final = functools.lru_cache(maxsize=4096)


@_remembered
def is_registration(name: str) -> bool:
    """Whether a registration may be missed if a call of the function is not executed."""
    return _TRIGGER.match(name) is not None and _CALLS.match(name)


@_remembered
def registered_by(name: str) -> str | None:
    """Return what a call of the function registers, in a word; None if it registers nothing by itself."""
    if _TRIGGER.match(name) is None or not (_CALLS.match(name) or _INLINED.match(name)):
        return None
    return next((subject for subject, patterns in _REGISTERED.items() if patterns.match(name)), "registry")


@_remembered
def opens_registration(name: str) -> bool:
    """Whether the function opens what others register in: a library or a class."""
    return _TRIGGER.match(name) is not None and _OPENING.match(name)


def unknown_names(names: Iterable[str]) -> Iterator[str]:
    """Return the ``names`` that belong to the registration API, but are not known here."""
    return (name for name in names if _TRIGGER.match(name) and not _KNOWN.match(name))
