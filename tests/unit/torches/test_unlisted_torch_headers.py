"""What the headers of a torch declare is cached, as long as no header is changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.torches import unlisted_torch_headers
from abiscan.torches.from_libs import from_path
from abiscan.torches.unlisted_torch_headers import OwnHeaders
from tests.fakes import torch_libraries, torch_package

DECLARED = "namespace c10 { struct Pair { long first; int second; }; }\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = torch_package(tmp_path)
    header = package / "include/c10/Pair.h"
    header.parent.mkdir(parents=True)
    header.write_text(DECLARED, "utf-8")
    return package


def headers_of(package: Path, store: Path) -> OwnHeaders:
    files = Files()
    found = unlisted_torch_headers.headers_of(from_path(package, files), files, Session(folder=store))
    assert found is not None
    return found


def test_an_edit_that_keeps_the_size_is_noticed(package: Path, tmp_path: Path) -> None:
    before = headers_of(package, tmp_path / "store")
    header = package / "include/c10/Pair.h"
    edited = DECLARED.replace("long first", "void*first")
    assert len(edited) == len(DECLARED)
    written = header.stat().st_mtime_ns
    header.write_text(edited, "utf-8")
    os.utime(header, ns=(written + 1, written + 1))
    after = headers_of(package, tmp_path / "store")
    assert before.digests.keys() == after.digests.keys() == {"c10::Pair"}
    assert before.digests != after.digests
    assert before.identity != after.identity  # what clang lays out is kept under it


def test_what_is_read_is_kept(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = headers_of(package, tmp_path / "store")
    monkeypatch.setattr(unlisted_torch_headers, "read_headers", lambda _: pytest.fail("the headers are read again"))
    assert headers_of(package, tmp_path / "store") == before


def test_folders_of_headers_may_be_links(package: Path, tmp_path: Path) -> None:
    """Those of Debian's torch lead to /usr/include; one of them, TH, leads nowhere."""
    expected = headers_of(package, tmp_path / "store").digests
    assert expected
    linked = tmp_path / "usr/include"
    linked.mkdir(parents=True)
    (package / "include/c10").rename(linked / "c10")
    (package / "include/c10").symlink_to(linked / "c10")
    (package / "include/TH").symlink_to(linked / "TH")
    assert headers_of(package, tmp_path / "store").digests == expected


def test_another_library_is_another_torch(package: Path, tmp_path: Path) -> None:
    """What the headers mean depends on the build: its library tells it from others with the same headers."""
    before = headers_of(package, tmp_path / "store")
    library = package / "lib/libtorch_cpu.so"
    torch_libraries()["libc10.so"].write(library)
    after = headers_of(package, tmp_path / "store")
    assert before.digests == after.digests
    assert before.identity != after.identity


def test_a_header_that_is_no_utf_8_is_read(package: Path, tmp_path: Path) -> None:
    (package / "include/c10/Latin.h").write_bytes(b"// \xe9t\xe9\nnamespace c10 { struct Ete { int x; }; }\n")
    assert headers_of(package, tmp_path / "store").declared_in == {
        "c10::Ete": "c10/Latin.h",
        "c10::Pair": "c10/Pair.h",
    }


def test_a_header_that_declares_nothing_shared_has_assertions_of_no_interest(package: Path, tmp_path: Path) -> None:
    """pybind11's are not torch's: their places are in no message of torch."""
    header = package / "include/pybind11/pybind11.h"
    header.parent.mkdir()
    header.write_text("TORCH_INTERNAL_ASSERT(x);\nnamespace c10 { struct No { int x; }; }\n", "utf-8")
    (package / "include/c10/Check.h").write_text("\nTORCH_INTERNAL_ASSERT(x);\n", "utf-8")
    found = headers_of(package, tmp_path / "store")
    assert found.assertions == {"c10/Check.h:2"}
    assert found.digests.keys() == {"c10::Pair"}
