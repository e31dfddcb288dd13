"""Symbols that a library beside the extension defines, which nobody loads for it."""

from __future__ import annotations

import msgspec.structs

from abiscan.rules import undefined_symbol
from tests import world

HELPER = "_ZN3pkg6helperEv"
OTHER = "_ZN3pkg5otherEv"


def found(*references: str) -> list[tuple[str, list[str], str]]:
    """What the rule says of an extension whose sibling libops.so defines what it uses, but is not needed by it."""
    extension = {"needed": ["libtorch_cpu.so"], "references": list(references)}
    linkage = world.linkage({"objects": {world.EXTENSION: extension}})
    sibling = world.shared_object(soname="libops.so", defines=[HELPER, OTHER])
    load = msgspec.structs.replace(linkage.load, siblings={"libops.so": sibling})
    findings = undefined_symbol.find_problems(msgspec.structs.replace(linkage, load=load))
    return [(each.message, [one.subject for one in each.evidence], each.fix or "") for each in findings]


def test_a_sibling_that_is_not_needed_is_named() -> None:
    """ld.so searches the libraries that are needed, and those loaded with RTLD_GLOBAL (``ld.so(8)``)."""
    ((message, subjects, fix),) = found(HELPER)
    assert message == "_C.so uses 1 symbol of libops.so, a sibling library that it is not linked with"
    assert subjects == [HELPER]
    assert fix.startswith("link it with libops.so, or load libops.so first with RTLD_GLOBAL")


def test_one_finding_for_all_symbols_of_a_sibling() -> None:
    ((message, subjects, _),) = found(HELPER, OTHER)
    assert message.startswith("_C.so uses 2 symbols of libops.so,")
    assert sorted(subjects) == sorted((HELPER, OTHER))


def test_what_no_sibling_defines_is_another_matter() -> None:
    (sibling, foreign) = found(HELPER, "cublasCreate_v2")
    assert "libops.so" in sibling[0]
    assert foreign[0] == "_C.so uses 1 symbol that no loaded library defines"
    assert foreign[1] == ["cublasCreate_v2"]


def test_a_symbol_of_a_newer_libstdcxx_names_it() -> None:
    """``__cxa_call_terminate@@CXXABI_1.3.15``: the libstdc++ of GCC 13 lacks it, that of GCC 14 has it."""
    ((message, subjects, fix),) = found("__cxa_call_terminate")
    assert message == "_C.so uses 1 symbol that came with the libstdc++ of GCC 14 (CXXABI_1.3.15)"
    assert subjects == ["__cxa_call_terminate"]
    assert fix.startswith("use a libstdc++ that has CXXABI_1.3.15: that of a newer system")
    assert "authors: build it with a GCC before 14" in fix


def test_symbols_of_an_old_libstdcxx_are_of_nobody() -> None:
    ((message, _, _),) = found("__cxa_throw_bad_array_new_length")
    assert message == "_C.so uses 1 symbol that no loaded library defines"
