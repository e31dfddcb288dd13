"""A torch with headers of its own: which of them are read, how often, and what a compiler is asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.torches import clang, unlisted_torch_headers, unlisted_torch_layouts
from abiscan.torches.clang import ClangError, ClangOutput, Include
from abiscan.torches.class_dumps import ClassRow
from abiscan.torches.from_libs import from_path
from abiscan.torches.layouts import Field
from abiscan.torches.model import TorchRelease
from abiscan.torches.unlisted_torch_headers import headers_of, is_read
from abiscan.torches.unlisted_torch_layouts import OwnLayouts, lay_out
from tests.fakes import torch_package

THING = "namespace c10 {\nstruct Thing {\n  int number;\n};\n}\nTORCH_INTERNAL_ASSERT(\n  x);\n"
HEADERS = {
    "c10/core/Thing.h": THING,
    "c10/core/Thing.cpp": "namespace c10 { struct NotRead { int x; }; }",
    "ATen/Functions.h": "namespace at { struct Generated { int x; }; }",
    "ATen/ATen.h": "#pragma once\n// C++17 or later\n",
    "torch/library.h": "#pragma once\nnamespace torch { class Library { c10::Thing thing_; }; }\n",
    "torch/csrc/api/include/torch/extra.h": "#pragma once\n",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("c10/core/Thing.h", True),
        ("ATen/core/ivalue.hpp", True),
        ("torch/csrc/autograd/function.h", True),
        ("c10/core/Thing.cpp", False),
        ("ATen/Functions.h", False),
        ("ATen/ops/add_ops.h", False),
        ("ATen/native/cpu/Loops.h", False),
        ("ATen/native/DispatchStub.h", True),
        ("pybind11/pybind11.h", False),
        ("torch/csrc/jit/generated/x.h", False),
    ],
)
def test_headers_that_declare_what_is_shared(path: str, expected: bool) -> None:
    assert is_read(path) is expected


class Torch:
    """A torch with headers, read with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.package = torch_package(folder)
        for name, text in HEADERS.items():
            path = self.package / "include" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.said: list[str] = []
        self.session = Session(folder=folder / "store", progress=self.said.append)
        self.files = Files()

    @property
    def release(self) -> TorchRelease:
        return from_path(self.package, self.files)

    def headers(self) -> unlisted_torch_headers.OwnHeaders:
        found = headers_of(self.release, Files(), self.session)
        assert found is not None
        return found


@pytest.fixture
def torch(tmp_path: Path) -> Torch:
    (tmp_path / "store").mkdir()
    return Torch(tmp_path)


def test_headers_are_read_once(torch: Torch) -> None:
    first = torch.headers()
    assert first.declared_in == {"c10::Thing": "c10/core/Thing.h", "torch::Library": "torch/library.h"}
    assert first.digests.keys() == {"c10::Thing", "torch::Library"}
    assert first.assertions == {"c10/core/Thing.h:6", "c10/core/Thing.h:7"}
    assert len(torch.said) == 1
    assert torch.headers() == first
    assert len(torch.said) == 1
    (torch.package / "include/c10/core/Thing.h").write_text(THING.replace("int number", "long number"))
    second = torch.headers()
    assert len(torch.said) == 2
    assert second.identity != first.identity
    assert second.digests["c10::Thing"] != first.digests["c10::Thing"]
    assert second.digests["torch::Library"] != first.digests["torch::Library"]  # which has a Thing in it
    for file in torch.session.folder.glob("*.headers"):
        file.write_bytes(b"damaged")
    assert torch.headers() == second
    assert len(torch.said) == 3


def test_headers_of_another_version_are_read_again(torch: Torch) -> None:
    first = torch.headers()
    found = {first.identity}
    for text in ("__version__ = '9.9.1+cpu'\n", ""):
        (torch.package / "version.py").write_text(text)
        found.add(torch.headers().identity)
    assert len(found) == len(torch.said) == 3


def test_a_torch_without_headers(tmp_path: Path) -> None:
    files = Files()
    assert headers_of(from_path(torch_package(tmp_path), files), files, Session(folder=tmp_path)) is None


class Compiler:
    """Answers what it is told to, and remembers what it was asked."""

    name = "clang++-99"

    def __init__(self, error: str | None = None) -> None:
        self.asked: list[tuple[Path, bool, list[str], list[str]]] = []
        self.error = error

    def classes(self, include: Include, headers: Sequence[str], wanted: Collection[str]) -> ClangOutput:
        self.asked.append((include.folder, include.cxx11, [*headers], sorted(wanted)))
        if self.error:
            raise ClangError(self.error)
        row = ClassRow(4, 4, (), (("number", 0, "int", None),))
        return ClangOutput({"c10::Thing": row}, {"c10::Thing": ("f()",)})


def laid_out(torch: Torch, further: str | None = None) -> OwnLayouts:
    release, files = torch.release, Files()
    return lay_out(release, torch.headers(), {"c10::Thing"}, further, cxx11=True, files=files, session=torch.session)


def test_classes_are_laid_out_once(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler()
    monkeypatch.setattr(clang, "find_clang", lambda: compiler)
    for _ in range(2):
        found = laid_out(torch)
        layout, table = found.layout("c10::Thing"), found.vtable("c10::Thing")
        assert layout is not None
        assert table is not None
        assert (layout.size, layout.align, layout.fields) == (4, 4, (Field("number", 0, "int", None),))
        assert table.slots == ("f()",)
        assert found.gap is None
        assert found.layout("c10::Other") is None
        assert found.vtable("c10::Other") is None
    assert compiler.asked == [(torch.package / "include", True, ["torch/library.h", "ATen/ATen.h"], ["c10::Thing"])]
    laid_out(torch, "torch/csrc/api/include/torch/extra.h")
    assert compiler.asked[1][2] == ["torch/library.h", "ATen/ATen.h", "torch/extra.h"]
    assert len(compiler.asked) == 2


def test_why_there_are_no_layouts(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clang, "find_clang", lambda: None)
    assert laid_out(torch).gap == "pip install 'abiscan[layouts]' reads them from its headers"
    monkeypatch.setattr(clang, "find_clang", lambda: Compiler("too new"))
    assert laid_out(torch).gap == "clang++-99 does not compile its headers: too new"
    monkeypatch.setattr(unlisted_torch_layouts, "_on_disk", lambda *_: None)  # as in a wheel: they are unpacked
    compiler = Compiler()
    monkeypatch.setattr(clang, "find_clang", lambda: compiler)
    (torch.package / "include/A.h").symlink_to("nowhere")  # what cannot be read is left out
    assert laid_out(torch).layout("c10::Thing") is not None
    assert compiler.asked[0][0] != torch.package / "include"
    assert compiler.asked[0][2] == ["torch/library.h", "ATen/ATen.h"]
    (torch.package / "include/A.h").unlink()
    # As large as they are, and one byte less.
    size = sum(path.stat().st_size for path in (torch.package / "include").rglob("*") if path.is_file())
    monkeypatch.setattr(unlisted_torch_layouts, "_LARGEST", size)
    assert laid_out(torch, "torch/csrc/api/include/torch/extra.h").gap is None
    monkeypatch.setattr(unlisted_torch_layouts, "_LARGEST", size - 1)
    assert "they are too large" in (laid_out(torch, "x.h").gap or "")
