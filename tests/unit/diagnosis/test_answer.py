"""What to do about a symbol that is missing, which depends on the releases that have it.

``at::_ops`` is new in torch 1.10; 2.13 has no ``align_as`` (native_functions.yaml). ``TensorImpl`` is in each release.
"""

from __future__ import annotations

import pytest

from abiscan.diagnosis.answer import answer

ALIGN_AS = "_ZN2at4_ops8align_as4callERKNS_6TensorES4_"
IN_EACH = "_ZTVN3c1010TensorImplE"
IS_THERE = "this release has it, so it is not loaded, or not linked: "
ANOTHER = "install a build of the package made for this torch"


@pytest.mark.parametrize(
    ("symbol", "torch", "fix"),
    [
        (IN_EACH, None, IS_THERE),
        (IN_EACH, "2.6.0", IS_THERE),
        (ALIGN_AS, None, f"{ANOTHER}, or torch 1.10.0-2.12.1, which has it"),
        (ALIGN_AS, "2.6.0", IS_THERE),
        (ALIGN_AS, "2.6.0+cu124", IS_THERE),
        (ALIGN_AS, "2.13.0", f"{ANOTHER}, or torch 1.10.0-2.12.1, which has it"),
        ("_ZN3c1013TensorImplD1Ev", None, f"{ANOTHER}\n"),  # a name that no release has
        ("_ZN4mine3f", None, "the name is the package's own, or of a library that it needs: "),
    ],
)
def test_what_to_do_about_a_symbol(symbol: str, torch: str | None, fix: str) -> None:
    text = f"ImportError: pkg/_C.so: undefined symbol: {symbol}\n" + (f"torch {torch}\n" if torch else "")
    found = answer(text)
    assert found.cause == "undefined-symbol"
    assert f"fix: {fix}" in "".join(f"{line}\n" for line in found.lines)


def test_a_name_as_cpp_writes_it_is_looked_up() -> None:
    found = answer("ImportError: pkg/_C.so: undefined symbol: at::get_num_threads()")
    assert any(line.strip().startswith("there in torch") for line in found.lines)


def test_which_releases_have_a_name_of_torch() -> None:
    """torch._six went with 2.0.0."""
    found = answer("ModuleNotFoundError: No module named 'torch._six'")
    assert found.cause == "missing-torch-name"
    assert [name.partition(";")[0] for name in found.names] == ["torch._six: there in 1.4.0-1.13.1"]
    assert "fix: install a version of the package for this torch, or torch 1.4.0-1.13.1, which has it" in found.lines
