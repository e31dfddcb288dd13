"""The names of all embedded releases, against what the release notes of torch say of some."""

from __future__ import annotations

import itertools

import pytest

from abiscan.python.torch_api.torch_names import CLASS, TorchNames
from abiscan.torches import embedded, embedded_names
from abiscan.torches.companion_names import CompanionsOf
from tests.tables import mark_table
from tools import blocks

RELEASES = [str(version) for version in embedded.versions()]


def test_every_release_has_names() -> None:
    assert list(embedded_names.releases()) == RELEASES
    for release in RELEASES:
        names = embedded_names.names(release)
        assert names
        assert names.has_module("torch.nn.functional")
        assert names.has("torch.nn.functional", "relu")
        assert names.lacks("torch", "nope_that_never_was")
        assert names.lacks("torch._C", "_nope_that_never_was")
        assert not names.lacks("torch", "randn")


@pytest.mark.parametrize(
    ("module", "name", "first"),
    [
        ("torch.amp", "custom_bwd", "2.4.0"),
        ("torch.library", "custom_op", "2.4.0"),
        ("torch.nn.parameter", "Buffer", "2.5.0"),
        ("torch", "compile", "2.0.0"),
        ("torch", "uint16", "2.3.0"),
        ("torch", "float8_e4m3fn", "2.1.0"),
        ("torch", "float8_e8m0fnu", "2.7.0"),
    ],
)
def test_a_name_came_with_a_release(module: str, name: str, first: str) -> None:
    since = embedded.versions()[RELEASES.index(first)]
    for version in embedded.versions():
        names = embedded_names.names(str(version))
        assert names
        if version >= since:
            assert not names.lacks(module, name), version
        elif version >= embedded.versions()[RELEASES.index("2.0.0")]:
            assert names.lacks(module, name), version


@pytest.mark.parametrize(
    ("name", "last"), [("compile", "1.13.1"), ("vmap", "1.13.1"), ("inf", "1.9.1"), ("get_default_device", "2.2.2")]
)
def test_a_library_has_the_name_of_a_function_in_python_before_there_is_one(name: str, last: str) -> None:
    # torch/__init__.py of these releases neither defines nor imports it, nor does torch/_C/*.pyi declare it.
    names = embedded_names.names(last)
    assert names
    assert names.source.is_compiled(name)
    assert names.lacks("torch", name)


def test_compiled_code_gives_names_to_its_classes_and_to_torch() -> None:
    """torch/csrc/autograd/python_variable.cpp has the methods of tensors; no class of C++ is in torch.nn."""
    assert embedded_names.was_compiled("torch.Tensor._make_subclass")
    assert embedded_names.was_compiled("torch.is_sparse_csr")
    assert not embedded_names.was_compiled("torch.nn._make_subclass")


@pytest.mark.parametrize("name", ["rfft", "irfft", "ifft"])
def test_a_compiled_function_went_although_others_end_in_its_name(name: str) -> None:
    # The notes on 1.8.0: "The old torch.fft functions were removed"; torch._C._fft.fft_rfft and the like stay.
    for release in RELEASES:
        names = embedded_names.names(release)
        assert names
        assert names.lacks("torch", name) is (RELEASES.index(release) >= RELEASES.index("1.8.0")), release
        assert not names.lacks("torch._C._fft", name)


@pytest.mark.parametrize(
    ("module", "last"),
    [
        ("torch._six", "1.13.1"),
        ("torch.onnx._globals", "2.8.0"),
        # to torchao: a running torch 2.8.0 has it, 2.13.0 does not
        ("torch.ao.quantization.pt2e", "2.10.0"),
        ("torch.ao.quantization.quantize_pt2e", "2.10.0"),
        # to torch.distributed.tensor, in 2.5; the module itself stays
        ("torch.distributed._tensor.ops", "2.4.1"),
    ],
)
def test_a_module_went_after_a_release(module: str, last: str) -> None:
    for release in RELEASES:
        names = embedded_names.names(release)
        assert names
        if RELEASES.index(release) > RELEASES.index(last):
            assert names.has_module(module) is False, release
        elif release.startswith(last[:3]):
            assert names.has_module(module) is True, release


def test_a_private_module_may_stay_where_its_public_one_came() -> None:
    for release in RELEASES[RELEASES.index("2.5.0") :]:
        names = embedded_names.names(release)
        assert names
        assert names.has_module("torch.distributed.tensor") is True, release
        assert names.has_module("torch.distributed._tensor") is True, release
        assert names.has_module("torch.distributed._tensor.device_mesh") is not False, release


def test_the_parameters_of_a_function_are_those_of_its_release() -> None:
    # inspect.signature says so in torch 2.5.1, 2.8.0 and 2.13.0.
    with_reason = [
        "reason=" in (_parameters(names, "torch._dynamo.disable") or "")
        for release in ("2.5.1", "2.8.0", "2.13.0")
        if (names := embedded_names.names(release))
    ]
    assert with_reason == [False, True, True]
    names = embedded_names.names("2.13.0")
    assert names
    assert _parameters(names, "torch.amp.custom_fwd") == "fwd=,*,device_type,cast_inputs="
    assert (_parameters(names, "torch.compile") or "").startswith("model=,*,fullgraph=,dynamic=,backend=,mode=")


def test_packing_and_reading_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "TEXT", 20)
    keys = {f"m{number}": {".": 7, "a": 3, f"n{number}": 4} for number in range(40)}
    table = mark_table(["1", "2", "3"], keys)

    assert dict(table.items()) == keys
    assert set(table.marks_in("m7", 2)) == {".", "n7"}
    assert set(table.marks_in("m7", 0)) == {".", "a"}
    assert set(table.marks_in("nothing", 0)) == set()


def test_compiled_code_may_give_the_end_of_a_text_as_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    both, first = 0b11, 0b01
    entries = {
        **{entry: dict.fromkeys(texts, first) for entry, texts in embedded_names.by_ending(["_first", "q"]).items()},
        **{entry: dict.fromkeys(texts, both) for entry, texts in embedded_names.by_ending(["in_both"]).items()},
    }
    made = mark_table(["1", "2"], {**entries, "torch._C": {".": both}})
    monkeypatch.setattr(embedded_names, "table", lambda: made)
    embedded_names.names.cache_clear()
    names = {release: embedded_names.names(release) for release in ("1", "2")}
    embedded_names.names.cache_clear()
    answers = {
        (release, name): of_release.lacks("torch._C", name)
        for release, of_release in names.items()
        if of_release
        for name in ("_first", "rst", "t", "q", "in_both", "both", "h", "both_", "_firs", "zz")
    }
    assert {key for key, is_absent in answers.items() if not is_absent} == {
        *(("1", name) for name in ("_first", "rst", "t", "q", "in_both", "both", "h")),
        *(("2", name) for name in ("in_both", "both", "h")),
    }


def test_what_is_asked_for_one_mark_is_what_all_of_them_say() -> None:
    releases = ["1.0", "2.0", "3.0"]
    table = mark_table(releases, {"a": {"relu": 0b011, "gelu": 0b110, ".": 0b011}, "b": {"x": 0b100}})
    for number, release in enumerate(releases):
        marks = set(table.marks_in("a", number))
        assert table.numbers[release] == number
        assert [table.columns_with("a", mark) >> number & 1 for mark in ("relu", "gelu", "lu")] == [
            *("relu" in marks, "gelu" in marks, False)
        ]
        assert [table.columns_with_ending("a", text) >> number & 1 for text in ("lu", "elu", "relu", "l")] == [
            *("relu" in marks or "gelu" in marks, "relu" in marks or "gelu" in marks, "relu" in marks, False)
        ]
        for module in ("a", "b", "c"):
            assert table.columns_with(module) >> number & 1 == bool(set(table.marks_in(module, number)))


def test_no_release_that_lacks_a_name_is_said_to_mention_it() -> None:
    table = embedded_names.table()
    entries = [(entry, [mark for mark in marks if mark.isidentifier()]) for entry, marks in table.items()]
    chosen = [(entry.removeprefix(CLASS), names) for entry, names in entries if entry[0] != "="][::29]
    some_names = sorted({name for _, names in chosen for name in names})[::37]
    # Names of others, and those of their own.
    pairs = list(itertools.product([owner for owner, _ in chosen], some_names))
    pairs += [(owner, name) for owner, names in chosen for name in names[::9]]
    pairs += [("torch", name) for name in ("float32", "uint16", "nn", "_C", "Tensor", "nope", "compile", "xpu")]
    mentioned = 0
    for release in ("1.4.0", "1.13.1", "2.13.0"):
        of_release = embedded_names.names(release)
        assert of_release
        for owner, name in pairs:
            if of_release.source.mentions(owner, name):
                mentioned += 1
                assert of_release.has(owner, name) is not False, (release, owner, name)
    assert mentioned > 100


def test_only_what_may_be_missing_somewhere_is_looked_at_closely() -> None:
    everywhere = {"torch.nn.Linear", "torch.float32", "torch.Tensor.add", "torch.nn.Linear.forward"}
    uses = frozenset({*everywhere, "torch.uint16", "torch.nope", "torch.nn.Nope"})
    doubtful = {
        release: set(of_release.source.doubtful(uses))
        for release in ("1.4.0", "2.13.0")
        if (of_release := embedded_names.names(release))
    }
    assert doubtful["2.13.0"] == {"torch.nope", "torch.nn.Nope"}
    assert doubtful["1.4.0"] == {"torch.nope", "torch.nn.Nope", "torch.uint16"}


def _parameters(names: TorchNames, function: str) -> str | None:
    callee = names.callee(function)
    return callee.parameters if callee else None


@pytest.mark.parametrize(
    ("torch", "package", "machine", "version"),
    [
        # Requires-Dist of torch; the table of versions in the README of torchvision.
        ("2.9.1", "triton", "x86_64", "==3.5.1"),
        ("2.9.1", "triton", "aarch64", None),
        ("2.8.0", "triton", "x86_64", "==3.4.0"),
        ("1.13.1", "triton", "x86_64", None),
        ("2.9.1", "torchvision", "aarch64", "==0.24.1"),
        ("2.9.1", "numpy", "x86_64", None),
        (None, "torchvision", "x86_64", None),
    ],
)
def test_versions_that_go_with_a_torch(torch: str | None, package: str, machine: str, version: str | None) -> None:
    assert CompanionsOf(torch).required(package, machine) == version
