from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abiscan.binary.elf import SymbolVersion
from abiscan.findings import Effect, Evidence, Finding
from abiscan.inputs import result_codec
from abiscan.inputs.version import TorchVersion

PROOF = Evidence(subject="_ZN2at4add", readable="at::add", instead='"quoted"\n')
FINDING = Finding(rule="r", effect=Effect.ABORTS, message="ü", evidence=(PROOF, PROOF), fix="")


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        True,
        1.5,
        "text",
        (),
        [],
        {},
        frozenset(),
        set(),
        (1, (2, [3, None])),
        {"a": 1, ("b", 2): {3: "c"}},
        frozenset({("x", 1), ("y", 2)}),
        SymbolVersion("libc.so.6", "GLIBC_2.2.5", weak=False),
        TorchVersion("2.13.0+cu130"),
        Path("folder/x.whl"),
        {Effect.NOTE: FINDING},
        FINDING,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back(value: object) -> None:
    back = result_codec.decode_result(result_codec.encode_result(value))
    assert back == value
    assert type(back) is type(value)


def test_what_occurs_twice_is_written_once() -> None:
    one, other = result_codec.decode_result(result_codec.encode_result(FINDING)).evidence
    assert one is other


def test_the_order_of_a_dict_is_kept() -> None:
    assert list(result_codec.decode_result(result_codec.encode_result({"b": 1, "a": 2}))) == ["b", "a"]


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", lambda: None, result_codec, (1, {"a": object()})],
    ids=["object", "bytes", "function", "module", "inside"],
)
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be kept"):
        result_codec.encode_result(value)


def hostile(*kind: str, values: tuple[Any, ...] = ()) -> str:
    return json.dumps([[kind], [[0, *values]], [0]])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "[[], [], [0]]",
        hostile("os", "system", values=("true",)),
        hostile("subprocess", "Popen", "args", values=("true",)),
        hostile("abiscan.__main__", "main"),
        hostile("abiscan.inputs.packages", "subprocess"),
        hostile("abiscan.inputs.packages", "fetch", values=("a", "b", "c")),
        hostile("abiscan.inputs.files", "Path", values=("x",)),
        hostile("abiscan.inputs.files", "DiskFile", "path", values=("x",)),
        hostile("abiscan.findings", "Evidence", "subject", values=("x",)),
        hostile("abiscan.findings", "Effect", values=("mro",)),
        hostile("abiscan.findings", "Evidence.__init__", values=("x",)),
        hostile("abiscanner", "X"),
        hostile("eval", values=("1",)),
    ],
)
def test_what_dumps_did_not_write_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError, ImportError)):
        result_codec.decode_result(text)
