"""Whether an extension was built from the very headers of a torch: by the lines of the assertions that it inlines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from abiscan.binary.elf import Machine, SourceLine
from abiscan.extension import drift

OF_RELEASE = "c10/util/intrusive_ptr.h:232"
"""A line with an assertion in torch 2.13.0, and in no other release."""
OF_NONE, OTHER = "c10/util/intrusive_ptr.h:1", "c10/core/Device.h:2"
OLD, NEW = "_ZN3c107warningESs", "_ZN3c107warningENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


@pytest.mark.parametrize(
    ("inlined", "of_torch", "cxx11", "imports", "is_built_for"),
    [
        ((OF_NONE, OTHER), (OF_NONE, OTHER), True, (), True),  # its own headers are those of no release
        ((OF_NONE, OTHER), (OTHER,), True, (), True),
        ((OF_RELEASE,), (OTHER,), True, (NEW,), False),
        ((OF_RELEASE, OTHER), (OTHER,), True, (NEW,), False),  # as many are in those of a release,
        ((OF_RELEASE,), (OF_RELEASE,), True, (NEW,), False),  # whose text is the same
        ((OF_RELEASE,), (OF_RELEASE,), False, (OLD,), True),  # and here it is not: 2.13.0 has the new one
        ((OF_RELEASE,), (OF_RELEASE,), False, (NEW,), False),
        ((OF_RELEASE,), (OF_RELEASE,), False, (), False),
        ((OF_RELEASE,), (), True, (), False),
        ((), (OF_RELEASE,), True, (), False),
    ],
)
def test_of_whose_headers_an_extension_has_more_assertions(
    inlined: tuple[str, ...], of_torch: tuple[str, ...], cxx11: bool, imports: tuple[str, ...], is_built_for: bool
) -> None:
    places = [SourceLine(f"/build/torch/include/{path}", int(line)) for path, line in (it.split(":") for it in inlined)]
    facts = SimpleNamespace(imports=imports, machine=Machine.X86_64)
    examined: Any = SimpleNamespace(extension=SimpleNamespace(assertions=places), facts=facts)
    torch: Any = SimpleNamespace(assertions=frozenset(of_torch), cxx11=cxx11)
    assert drift._is_built_for(examined, torch) is is_built_for
