from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.binary.registration_api import is_registration, opens_registration, registers_anything, unknown_names
from abiscan.inputs.files import Files
from abiscan.torches import embedded

LIBRARY = "_ZN5torch7LibraryC1ENS0_4KindESsSt8optionalIN3c1011DispatchKeyEEPKcj"
DEFINE = "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEPNS1_12OperatorNameE"
REGISTRY = "_ZN2at17CUDAHooksRegistryB5cxx11Ev"


@pytest.mark.parametrize(
    "name",
    [
        *(LIBRARY, DEFINE, REGISTRY, "aoti_torch_library_impl", "torch_library_later"),
        "_ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh",
        "_ZN5torch8profiler4impl26registerPrivateUse1MethodsEPNS1_13ProfilerStubsE",
    ],
)
def test_who_imports_one_of_these_registers(name: str) -> None:
    assert registers_anything(frozenset({"memcpy", name}))


@pytest.mark.parametrize("name", ["memcpy", "_ZN3c1010Dispatcher9singletonEv", "_ZN5torch8autogradE", "library_impl"])
def test_who_imports_nothing_of_the_kind_does_not(name: str) -> None:
    assert not registers_anything(frozenset({name}))


@pytest.mark.parametrize(
    ("name", "expected_registration", "expected_opens"),
    [
        (LIBRARY, True, True),
        ("aoti_torch_library_init_fragment", True, True),
        (DEFINE, True, False),
        ("torch_library_impl", True, False),
        (REGISTRY, False, False),
        ("_ZN5torch7LibraryD1Ev", False, False),
    ],
)
def test_what_must_be_executed(name: str, expected_registration: bool, expected_opens: bool) -> None:
    assert (is_registration(name), opens_registration(name)) == (expected_registration, expected_opens)


@pytest.mark.parametrize(
    "name",
    [
        "_ZNR5torch7Library6_aliasEPKcS2_",
        "_ZN3c1017RegisterOperators12registerLazyEv",
        "aoti_torch_library_define_class",
        "torch_library_impl_v2",
        "_ZN5torch6detail10class_base9addMethodEv",
    ],
)
def test_a_function_that_a_newer_torch_might_bring_is_unknown(name: str) -> None:
    assert list(unknown_names(["memcpy", name, DEFINE])) == [name]


# Parts of checkSchemaAndRegisterOp_, which no header calls; and templates that torch instantiates for itself, as every
# extension does.
INNER = (
    "_ZN3c1017RegisterOperators",
    *("_ZNR5torch7Library3defI", "_ZNR5torch7Library4implI", "_ZNR5torch7Library12impl_UNBOXEDI"),
)
NAMES = (
    *("_ZN5torch7Library", "_ZNK5torch7Library", "_ZNR5torch7Library", "_ZN3c1017RegisterOperators"),
    *("_ZN5torch3jit16register", "_ZN5torch6detail10class_base", "_ZN5torch19register", "_ZN5torch25register"),
    *(
        "_ZN3c1028register",
        "_ZN2at33Register",
        "_ZN2at18_Generator",
        "_ZN3c104impl24Device",
        "_ZN3c1012SetAllocator",
        "_ZN3c1020SetStorage",
    ),
    *("aoti_torch_library_", "torch_library_"),
)


@pytest.mark.parametrize("release", ["1.4.0", "1.5.1", "1.6.0", "1.9.1", "1.13.1", "2.2.2", "2.8.0", "2.13.0"])
def test_all_that_a_release_exports_is_known(release: str) -> None:
    files = Files()
    libraries = [files.object_at(path) for path in embedded.release(release, Machine.X86_64, files).libraries]
    symbols = [library.symbols for library in libraries if library is not None]
    exported = {name for each in symbols for beginning in NAMES for name in each.starting_with(beginning)}
    assert sum(map(is_registration, exported)) >= 4
    assert [name for name in exported if is_registration(name) and not registers_anything(frozenset({name}))] == []
    assert [name for name in unknown_names(exported) if not name.startswith(INNER)] == []
