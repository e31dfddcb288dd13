"""Binding, the order of relocation and the order of errors (glibc: dl-lookup.c, dl-sort-maps.c, dl-open.c).

``oracle/test_loader.py`` holds the same order against the real loader.
"""

from __future__ import annotations

import msgspec.structs
import pytest

from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.symbols import Definition
from abiscan.linkage.model import LoadError, Process, Resolution
from abiscan.linkage.resolve import binds_to, relocation_order, resolve_load
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.torches.names import ColumnSymbols
from tests.tables import name_table
from tests.world import ObjectsByPath, reference, shared_object


def obj(*needed: str, **fields: object) -> SharedObject:
    return shared_object(needed=needed, **fields)  # type: ignore[arg-type]


def loaded(objects: dict[str, SharedObject], *, python: bool = True, native: bool = True) -> Resolution:
    """Load ``ext``; every name is a path of its own, found as a sibling."""
    siblings = {name: name for name in objects}
    loader = Loader(ObjectsByPath(objects), SearchPath(siblings=siblings, native=native), Machine.X86_64)
    process = Process(has_python=python)
    return resolve_load(process, loader.open(process, "ext"))


def undefined(resolution: Resolution) -> list[tuple[str, str]]:
    return [(symbol.module.name, str(symbol.reference)) for symbol in resolution.undefined]


def order(needed: dict[str, tuple[str, ...]]) -> list[str]:
    resolution = loaded({name: obj(*names) for name, names in needed.items()})
    return [module.name for module in relocation_order(resolution.closure)]


def define(version: str | None = None, *, hidden: bool = False, number: int = 1) -> Definition:
    return Definition(version, hidden, number, 2, 8)


# One test per branch of check_match.


def test_a_version_matches_itself() -> None:
    wanted, definition = reference("f@V_1:lib"), define("V_1", number=2)
    assert binds_to(wanted, definition, [definition])


def test_a_hidden_version_matches_itself() -> None:
    wanted, definition = reference("f@V_1:lib"), define("V_1", hidden=True, number=2)
    assert binds_to(wanted, definition, [definition])


def test_a_version_matches_no_other() -> None:
    wanted, definition = reference("f@V_1:lib"), define("V_2", number=3)
    assert not binds_to(wanted, definition, [definition])


def test_a_version_matches_a_definition_without() -> None:
    wanted, definition = reference("f@V_1:lib"), define(number=0)
    assert binds_to(wanted, definition, [definition])


def test_a_version_matches_no_hidden_definition_of_the_base_version() -> None:
    wanted, definition = reference("f@V_1:lib"), define(hidden=True)
    assert not binds_to(wanted, definition, [definition])


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("hidden", [False, True])
def test_no_version_matches_the_oldest(number: int, hidden: bool) -> None:
    definition = define("V_1" if number == 2 else None, hidden=hidden, number=number)
    assert binds_to(reference("f"), definition, [definition, define("V_2", number=3)])


def test_no_version_matches_the_only_default_version() -> None:
    definition, old = define("V_3", number=4), define("V_2", hidden=True, number=3)
    assert binds_to(reference("f"), definition, [definition, old])


def test_no_version_matches_the_only_default_version_however_many_old_ones_there_are() -> None:
    """glibc has ``pthread_create``, ``memcpy`` and others more than once: one default, the rest for old files."""
    definition, *old = define("V_3", number=5), *(define(f"V_{n}", hidden=True, number=n + 2) for n in (1, 2))
    assert binds_to(reference("f"), definition, [definition, *old])


def test_no_version_matches_no_hidden_version() -> None:
    definition = define("V_2", hidden=True, number=3)
    assert not binds_to(reference("f"), definition, [definition])


def test_no_version_matches_none_of_two_default_versions() -> None:
    one, other = define("V_2", number=3), define("V_3", number=4)
    assert not binds_to(reference("f"), one, [one, other])


# Resolution.


def test_a_symbol_found_in_what_is_needed_indirectly() -> None:
    assert undefined(loaded({"ext": obj("a", references=["f"]), "a": obj("b"), "b": obj(defines=["f"])})) == []


def test_a_symbol_of_the_object_itself() -> None:
    assert undefined(loaded({"ext": obj(references=["f"], defines=["f"])})) == []


def test_a_symbol_of_the_extension_serves_what_it_needs() -> None:
    assert undefined(loaded({"ext": obj("a", defines=["f"]), "a": obj(references=["f"])})) == []


def test_weak_references_may_stay_undefined() -> None:
    resolution = loaded({"ext": obj("a", references=["weak f", "weak g@V_1:a"]), "a": obj(versions=["V_1"])})
    assert (resolution.undefined, resolution.unchecked, resolution.error) == ((), (), None)


def test_the_message_for_an_undefined_symbol() -> None:
    assert loaded({"ext": obj(references=["f", "g"])}).error == LoadError(object="ext", message="undefined symbol: f")


def test_the_message_for_an_undefined_version_of_a_symbol() -> None:
    resolution = loaded({"ext": obj("a", references=["f@V_1:a"]), "a": obj(versions=["V_1"])})
    assert resolution.error == LoadError(object="ext", message="undefined symbol: f, version V_1")


def test_the_message_for_a_missing_version() -> None:
    resolution = loaded({"ext": obj("a", references=["f@V_2:a"]), "a": obj(defines=["f@@V_1"])})
    assert resolution.error == LoadError(object="a", message="version `V_2' not found (required by ext)")


@pytest.mark.parametrize(
    ("absent", "expected"), [("libmetatensor.so", []), ("libm.so.6", [("ext", "__cxa_call_terminate")])]
)
@pytest.mark.parametrize("native", [True, False])
def test_what_the_cxx_runtime_may_be_linked_into(absent: str, expected: list[tuple[str, str]], native: bool) -> None:
    # A C++ library exports what it has of a libstdc++.a; the C library has no C++ in it, wherever it is.
    objects = {"ext": obj("libstdc++.so.6", absent, references=["__cxa_call_terminate"]), "libstdc++.so.6": obj()}
    assert undefined(loaded(objects, native=native)) == expected


def test_a_library_without_versions_satisfies_every_need() -> None:
    resolution = loaded({"ext": obj("a", references=["f@V_2:a"]), "a": obj(defines=["f"])})
    assert (resolution.missing_versions, resolution.error) == ((), None)


def test_a_library_with_only_a_base_version_satisfies_none() -> None:
    resolution = loaded({"ext": obj("a", needs_versions=["V_2:a"]), "a": obj(versions=[])})
    assert [missing.version.name for missing in resolution.missing_versions] == ["V_2"]


def test_a_weak_need_of_a_version_may_stay_open() -> None:
    resolution = loaded({"ext": obj("a", needs_versions=["weak V_2:a"]), "a": obj(versions=["V_1"])})
    assert resolution.missing_versions == ()


def test_versions_are_asked_of_a_library_by_its_soname() -> None:
    objects = {
        "ext": obj("a", "b", needs_versions=["V_2:a.1"]),
        "a": obj(soname="a.1", versions=["V_1"]),
        "b": obj("a.1"),
    }
    assert [missing.provider.name for missing in loaded(objects).missing_versions] == ["a"]


def test_a_library_is_known_by_the_names_that_it_was_asked_for() -> None:
    # So it is where a tool replaced DT_NEEDED, and left the name in the version needs.
    resolution = loaded({"ext": obj("a", needs_versions=["V_1:a.1"]), "a": obj(soname="a.1", versions=["V_1"])})
    assert resolution.error is not None
    assert resolution.error.aborts
    assert resolution.error.message.endswith("_dl_check_map_versions: Assertion `needed != NULL' failed!")


def test_versions_are_asked_of_what_is_loaded_even_if_it_is_not_needed() -> None:
    objects = {"ext": obj(needs_versions=["V_2:a"]), "a": obj(soname="a", versions=["V_1"])}
    loader = Loader(ObjectsByPath(objects), SearchPath(), Machine.X86_64)
    process = loader.start_process((), global_libraries=(), libraries=("a",))
    resolution = resolve_load(process, loader.open(process, "ext"))  # glibc, find_needed: all objects of the namespace
    assert [missing.provider.name for missing in resolution.missing_versions] == ["a"]


@pytest.mark.parametrize(
    ("glibc", "wanted", "aborts"),
    [("GLIBC_2.40", "a", True), ("GLIBC_2.40", "b", False), ("GLIBC_2.41", "a", False)],
)
def test_a_library_that_has_lost_its_versions(glibc: str, wanted: str, *, aborts: bool) -> None:
    """glibc, ``check_match``: the library whose version is wanted has the symbol, and no versions any more."""
    objects = {
        "ext": obj("a", "b", references=[f"f@V_1:{wanted}"]),
        "a": msgspec.structs.replace(obj(defines=["f"]), is_versioned=False),
        "b": obj(defines=["f@@V_1"]),
        "libc.so.6": obj(versions=[glibc]),
    }
    loader = Loader(ObjectsByPath(objects), SearchPath(siblings={name: name for name in objects}), Machine.X86_64)
    process = loader.start_process((), global_libraries=(), libraries=("libc.so.6",))
    error = resolve_load(process, loader.open(process, "ext")).error
    assert (error is not None) is aborts
    if error:
        assert error.aborts
        assert "check_match: Assertion `version->filename == NULL" in error.message


@pytest.mark.parametrize(
    ("refusal", "is_refused"), [("shared object cannot be dlopen()ed", False), ("ELF file ABI version invalid", True)]
)
def test_what_a_program_starts_with_is_not_opened(refusal: str, *, is_refused: bool) -> None:
    """glibc, ``_dl_map_object_from_fd``: DF_1_NOOPEN counts with __RTLD_DLOPEN alone, the header always."""
    objects = {"ext": obj("a"), "a": obj(refusal=refusal)}
    loader = Loader(ObjectsByPath(objects), SearchPath(siblings={name: name for name in objects}), Machine.X86_64)
    process = loader.for_program(())
    resolution = resolve_load(process, loader.open(process, "ext"))
    assert [error.message for error in resolution.refused] == [refusal] * is_refused
    assert [error.message for error in loaded(objects).refused] == [refusal]


def test_every_version_is_checked_whatever_those_before_it_are() -> None:
    """``_dl_check_map_versions`` goes through all entries, whether the library has versions or not."""
    needs = ["V_1:libcudart.so.12", "V_1:plain", "V_1:a", "V_2:a"]
    resolution = loaded(
        {
            "ext": obj("libcudart.so.12", "plain", "a", needs_versions=needs),
            "plain": obj(),
            "a": obj(versions=["V_1"]),
        }
    )
    assert [missing.version.name for missing in resolution.missing_versions] == ["V_2"]


def test_versions_are_checked_in_the_order_of_the_search() -> None:
    broken = {"needs_versions": ["V_9:c"]}
    resolution = loaded(
        {"ext": obj("a", "b", **broken), "a": obj("c", **broken), "b": obj(**broken), "c": obj(versions=[])}
    )
    assert [missing.module.name for missing in resolution.missing_versions] == ["ext", "a", "b"]


def test_a_missing_library_of_torch_comes_before_all() -> None:
    resolution = loaded(
        {"ext": obj("a", "libtorch_cuda.so", references=["f"], needs_versions=["V_2:a"]), "a": obj(versions=["V_1"])}
    )
    message = "libtorch_cuda.so: cannot open shared object file: No such file or directory"
    assert resolution.error == LoadError(object=None, message=message)
    assert undefined(resolution) == [("ext", "f")]  # everything else is still seen


def test_a_missing_version_comes_before_an_undefined_symbol() -> None:
    resolution = loaded(
        {"ext": obj("a", references=["f"]), "a": obj("b", needs_versions=["V_2:b"]), "b": obj(versions=[])}
    )
    assert resolution.error is not None
    assert resolution.error.object == "b"


def test_a_missing_library_of_others_is_assumed_to_be_there() -> None:
    assert loaded({"ext": obj("libcudart.so.12")}).error is None


def test_symbols_of_dependencies_are_missed_first() -> None:
    resolution = loaded(
        {"ext": obj("a", references=["x"]), "a": obj("b", references=["y"]), "b": obj(references=["z"])}
    )
    assert undefined(resolution) == [("b", "z"), ("a", "y"), ("ext", "x")]


def test_symbols_of_the_libraries_of_a_release_are_looked_up_in_those_that_are_loaded() -> None:
    """The libraries of an embedded release are the columns of one table; here, the first one is not loaded."""
    table = name_table({"cudaOne": 0b001, "cudaTwo": 0b010, "cudaBoth": 0b101, "Py_Three": 0b100})
    names = ["cudaOne", "cudaTwo", "cudaBoth", "Py_Three", "cudaNone"]
    objects = {"ext": obj("two", "three", "libcudart.so.12", references=names), "two": obj(), "three": obj()}
    for column, name in ((1, "two"), (2, "three")):
        objects[name] = msgspec.structs.replace(objects[name], symbols=ColumnSymbols(table=table, column=column))
    resolution = loaded(objects, python=False)
    assert [str(one) for one in resolution.unchecked] == ["cudaOne", "cudaNone"]  # the absent library may have them
    assert undefined(resolution) == []
    present = loaded({**objects, "libcudart.so.12": obj()})
    assert undefined(present) == [("ext", "cudaOne"), ("ext", "cudaNone")]


# What an absent library may define.


def test_a_foreign_symbol_may_be_in_an_absent_library() -> None:
    resolution = loaded({"ext": obj("libcudart.so.12", references=["cudaMalloc"])})
    assert undefined(resolution) == []
    assert list(map(str, resolution.unchecked)) == ["cudaMalloc"]


@pytest.mark.parametrize(
    "name",
    [
        *("_ZN2at15get_num_threadsEv", "PyType_GetDict"),
        # Exported by releases of torch, under names that do not show it.
        *("FLAGS_torch_lazy_metrics_percentiles", "FLAGS_caffe2_log_level", "THFloatBlas_axpy"),
    ],
)
def test_symbols_of_torch_and_of_python_are_in_no_other_library(name: str) -> None:
    assert undefined(loaded({"ext": obj("libcudart.so.12", references=[name])})) == [("ext", name)]


@pytest.mark.parametrize(
    "name", ["FLAGS_torch_xla_unheard_of", "ncclAllReduce", "cudnnCreate", "cblas_sgemm", "sgemm_"]
)
def test_what_torch_has_linked_in_may_come_from_elsewhere(name: str) -> None:
    assert undefined(loaded({"ext": obj("libother.so", references=[name])})) == []


def test_a_version_tells_which_library_is_meant() -> None:
    resolution = loaded(
        {"ext": obj("libcudart.so.12", "a", references=["f@V_1:a", "g@V_2:libcudart.so.12"]), "a": obj()}
    )
    assert undefined(resolution) == [("ext", "f@V_1")]
    assert list(map(str, resolution.unchecked)) == ["g@V_2"]


def test_symbols_of_an_unknown_python_are_not_judged() -> None:
    resolution = loaded({"ext": obj(references=["PyType_GetDict", "f"])}, python=False)
    assert undefined(resolution) == [("ext", "f")]
    assert list(map(str, resolution.unchecked)) == ["PyType_GetDict"]


# Relocation order. Expected: what glibc 2.36 did with such libraries (see oracle/test_loader.py).


def test_a_chain() -> None:
    assert order({"ext": ("a",), "a": ("b",), "b": ()}) == ["b", "a", "ext"]


def test_a_diamond() -> None:
    assert order({"ext": ("a", "b"), "a": ("c",), "b": ("c",), "c": ()}) == ["c", "b", "a", "ext"]


def test_independent_libraries_are_relocated_from_the_last() -> None:
    assert order({"ext": ("a", "b", "c"), "a": (), "b": (), "c": ()}) == ["c", "b", "a", "ext"]


def test_a_cycle() -> None:
    assert order({"ext": ("a",), "a": ("b",), "b": ("a",)}) == ["a", "b", "ext"]


def test_the_extension_comes_last_even_if_others_need_it() -> None:
    assert order({"ext": ("a",), "a": ("ext",)}) == ["a", "ext"]


def test_what_was_there_is_not_relocated_again() -> None:
    objects = {"ext": obj("a"), "a": obj("b"), "b": obj()}
    loader = Loader(ObjectsByPath(objects), SearchPath(siblings={name: name for name in objects}), Machine.X86_64)
    process = loader.start_process((), global_libraries=(), libraries=("a",))
    assert [module.name for module in relocation_order(loader.open(process, "ext"))] == ["ext"]


@pytest.mark.slow
def test_a_chain_as_long_as_a_hostile_file_likes() -> None:
    length = 1_200  # deeper than Python recurses
    needed = {f"n{number}": (f"n{number + 1}",) for number in range(length)}
    assert order({"ext": ("n0",), **needed, f"n{length}": ()})[0] == f"n{length}"
