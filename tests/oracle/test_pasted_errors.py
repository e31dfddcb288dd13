"""``abiscan explain`` of what users paste: errors from public reports, and all that abiscan itself predicts.

``pasted_errors.jsonl`` has one text a line: the report that it is from, the cause, and the names in it; null for an
error that has none of the causes. The folders of the people who reported them are called ``me``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from abiscan.diagnosis.answer import answer
from abiscan.diagnosis.causes import CAUSES
from abiscan.diagnosis.reading import pattern_of, read
from abiscan.dispatch.messages import TEMPLATES
from abiscan.python.torch_api.torch_texts import WORDINGS

HERE = Path(__file__).parent
REPORTS = list(map(json.loads, HERE.joinpath("pasted_errors.jsonl").read_text("utf-8").splitlines()))
MODELLED = ("torchao not installed",)  # texts of the packages themselves, which a model follows


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: str(report["report"]))
def test_an_error_of_a_report_has_the_right_cause(report: dict[str, Any]) -> None:
    found = answer(report["text"])

    assert found.cause == report["cause"]
    assert all(any(name in known for known in found.names) for name in report["names"])
    assert found.recognised is (report["cause"] is not None)


def recorded() -> Iterator[str]:
    """The errors that real loads and imports ended in."""
    for name in ("imports", "packages", "pairs", "pairs_more", "models"):
        with gzip.open(HERE / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                error = record.get("error")
                yield record.get("text") or ""
                yield f"{record.get('object')}: {record['message']}" if record.get("message") else ""
                yield error.get("message") or "" if isinstance(error, dict) else ""


@pytest.mark.slow
def test_every_recorded_error_is_recognised() -> None:
    texts = {text.strip() for text in recorded() if text and not text.strip().startswith(MODELLED)}

    assert len(texts) > 100
    assert [text for text in sorted(texts) if not answer(text).recognised] == []


@pytest.mark.parametrize(
    "text",
    sorted({*(template.text for template in TEMPLATES), *(wording.text for wording in WORDINGS)}),
)
def test_every_message_of_torch_is_recognised(text: str) -> None:
    if text in ("bad optional access", "{problem}", "Unsupported kind: {kind}"):
        assert read(text).match is None
    else:
        assert read(text.replace("{", "").replace("}", "")).match


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: str(cause.name))
def test_no_text_is_known_by_too_little(cause: Any) -> None:
    for text in cause.texts:
        words = pattern_of(text).replace("\\", "")
        assert sum(character.isalpha() for character in words) >= 10, text


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 256x10)",
        "AttributeError: partially initialized module 'torch' has no attribute 'Tensor' (a circular import)",
        "ImportError: cannot import name 'a' from partially initialized module 'torch.b' (a circular import)",
        "AttributeError: 'NoneType' object has no attribute 'shape'",
        "TypeError: forward() got an unexpected keyword argument 'no_such_parameter'",
        "RuntimeError: CUDA error: device-side assert triggered",
        "FileNotFoundError: [Errno 2] No such file or directory: 'model.pt'",
        "I get undefined symbol errors",
        "hello",
    ],
)
def test_other_errors_are_not_recognised(text: str) -> None:
    found = answer(text)

    assert not found.recognised
    assert found.lines[0].startswith("not recognised: ")


def test_a_warning_above_another_error_explains_nothing() -> None:
    numpy = "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.0 as it may crash.\n"
    other = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nKeyError: 1\nRuntimeError: it broke\n'
    )

    assert answer(numpy).cause == "numpy-abi"
    assert not answer(numpy + other).recognised


def test_what_was_logged_before_another_error_explains_nothing() -> None:
    logged = (
        "W tensorflow: Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open "
    )
    logged += "shared object file: No such file or directory\n"
    error = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'

    assert answer(logged).cause == "missing-library"
    assert not answer(f"{logged}{error}RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n").recognised
    known = answer(f"{logged}{error}RuntimeError: operator torchvision::nms does not exist\n")
    assert known.cause == "missing-library"
    chained = f"{error}ImportError: {logged}\nDuring handling of the above exception, another exception occurred:\n\n"
    assert answer(f"{chained}{error}ValueError: it broke\n").cause == "missing-library"


def test_what_the_text_names_is_used() -> None:
    text = "torch: 2.3.0\nflash-attn: 2.5.7\nflash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: "
    lines = answer(f"{text}_ZN3c104cuda9SetDeviceEi").lines

    assert "  the text names torch 2.3.0, which does not have it" in lines
    assert "next: abiscan check flash-attn==2.5.7 --torch 2.3.0" in lines
    assert "      abiscan fit flash-attn --torch 2.3.0" in lines


def test_the_meaning_of_the_marks_is_told_once() -> None:
    # c10::cuda::SetDevice(int) and ::GetDevice(int*) take signed chars since torch 2.3.
    lines = answer("undefined symbol: _ZN3c104cuda9SetDeviceEi\nundefined symbol: _ZN3c104cuda9GetDeviceEPi").lines

    assert sum("c10::cuda::SetDevice(«signed char»)" in line for line in lines) == 1
    assert sum("«…»" in line for line in lines) == 1
    assert not any("«" in line for line in answer("undefined symbol: PyObject_Call").lines)


def test_the_package_is_that_of_the_file_that_fails() -> None:
    lines = answer(next(report["text"] for report in REPORTS if report["report"] == "16lemoing/dot#20")).lines

    assert "next: abiscan check torch3d" in lines


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_ZN3c104cuda9SetDeviceEi", "there in torch 2.1.0-2.2.2"),
        ("__ZN3c104cuda9SetDeviceEi", "there in torch 2.1.0-2.2.2"),
        ("c10::cuda::SetDevice(int)", "there in torch 2.1.0-2.2.2"),
        ("at::_ops::zeros::call", "there in torch 1.13.0-2.1.2"),
        ("aten::_pad_enum", "there in torch 1.12.0-"),
        ("torch.ops.aten._pad_enum", "there in torch 1.12.0-"),
        ("GLIBCXX_3.4.29", "in the libstdc++ of GCC 11.1 and later"),
        ("libc10.so", "a library of torch"),
        ("PyObject_Call", "a function of Python"),
    ],
)
def test_a_name_alone_is_explained(name: str, words: str) -> None:
    assert any(words in line for line in answer(name).lines)


def test_torch_that_does_not_load_itself_is_not_blamed_on_a_package() -> None:
    lines = answer(next(report["text"] for report in REPORTS if report["report"] == "NVIDIA/nccl#1180")).lines

    assert any(line.startswith("fix: it is torch itself that does not load") for line in lines)
    assert "next: abiscan doctor" in lines


def test_a_name_on_macos_is_not_said_to_be_in_no_release() -> None:
    # pytorch/text#1988: at::_ops::empty_memory_format::call is in these releases, but int64_t is mangled as x there.
    symbol = "__ZN2at4_ops19empty_memory_format4callEN3c108ArrayRefIxEENS2_8optionalINS2_10ScalarTypeEEE"
    lines = answer(f"OSError: dlopen(/a/libtorchtext.so, 0x0006): Symbol not found: {symbol}").lines

    assert not any("not in torch" in line for line in lines)
    assert any("on macOS" in line for line in lines)


def test_a_function_of_the_package_itself_is_not_looked_for_in_torch() -> None:
    # fundamentalvision/Deformable-DETR: a build without the sources for CUDA.
    symbol = "_Z27ms_deform_attn_cuda_forwardRKN2at6TensorES2_S2_S2_S2_i"
    found = answer(
        f"ImportError: MultiScaleDeformableAttention.cpython-38-x86_64-linux-gnu.so: undefined symbol: {symbol}"
    )

    assert found.cause == "undefined-symbol"
    assert any(line.startswith("fix: the name is the package's own") for line in found.lines)
