"""What is known about the C functions of the stable ABI: the headers of torch 2.13 have the same, as cited."""

from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded, shims


@pytest.mark.parametrize(
    ("name", "since"),
    [
        # torch/csrc/stable/c/shim.h, in #if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_…_0
        ("torch_call_dispatcher", "2.10.0"),
        ("torch_dtype_float8_e8m0fnu", "2.11.0"),
        ("torch_library_set_python_module", "2.13.0"),
        ("aoti_torch_call_dispatcher", None),  # torch/csrc/inductor/aoti_torch/c/shim.h, in no condition
    ],
)
def test_the_target_version_that_declares_a_function(name: str, since: str | None) -> None:
    assert shims.gate_version(name) == (TorchVersion(since) if since else None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # ops.h of 2.13: from a target of 2.10 on, it is called in place of aoti_torch_call_dispatcher.
        ("torch_call_dispatcher", True),
        ("aoti_torch_call_dispatcher", False),
        # library.h of 2.13 calls it in Library::set_python_module alone, which no lower target has.
        ("torch_library_set_python_module", False),
    ],
)
def test_functions_that_headers_take_by_themselves(name: str, expected: bool) -> None:
    assert shims.taken_by_headers(name) is expected


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("aoti_torch_zero_", True),
        ("torch_call_dispatcher", True),
        ("_Z21torch_call_dispatcherv", False),
        ("my_torch_call_dispatcher", False),
    ],
)
def test_the_names_of_the_c_functions(symbol: str, expected: bool) -> None:
    assert shims.is_shim(symbol) is expected


def exporting(monkeypatch: pytest.MonkeyPatch, **releases: bool) -> None:
    """Let a function be exported by some releases: ``v2_9=True``."""
    exported = {TorchVersion(f"{name[1:].replace('_', '.')}.0"): has for name, has in releases.items()}
    monkeypatch.setattr(embedded, "exported_by_release", lambda *_: exported)


@pytest.mark.parametrize(
    ("releases", "since"),
    [
        ({"v2_8": False, "v2_9": True, "v2_10": True}, "2.9.0"),
        # What an extension may rely on starts with the release that brought it back.
        ({"v2_7": True, "v2_8": False, "v2_9": True}, "2.9.0"),
        ({"v2_7": True, "v2_8": True, "v2_9": False}, None),
        ({"v2_7": False, "v2_8": False}, None),
    ],
)
def test_since_when_a_function_is_exported_without_a_break(
    monkeypatch: pytest.MonkeyPatch, releases: dict[str, bool], since: str | None
) -> None:
    exporting(monkeypatch, **releases)
    assert shims.exported_since("torch_x", Machine.X86_64) == (TorchVersion(since) if since else None)


@pytest.mark.parametrize(
    ("operator", "name", "since", "headers"),
    [
        # torch/csrc/stable/ops.h: amax is there since 2.9; the operators for bits call a function that is there since
        # 2.10, and have a wrapper in the headers since 2.14.
        ("aten::amax", "amax", "2.9.0", "2.9.0"),
        ("aten::bitwise_or.Tensor", "bitwise_or", "2.10.0", "2.14.0"),
    ],
)
def test_the_wrapper_for_an_operator(operator: str, name: str, since: str, headers: str) -> None:
    found = shims.find_wrapper(operator)
    assert found is not None
    assert (found.name, found.since, found.headers) == (name, TorchVersion(since), TorchVersion(headers))
    assert shims.find_wrapper("aten::no_such_operator") is None
