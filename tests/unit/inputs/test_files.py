from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from abiscan.binary.section_headers import HEADER, SECTION, find_gpu_code, read_headers
from abiscan.errors import InputError
from abiscan.inputs import files as files_module
from abiscan.inputs.files import DiskFile, Files, Wheel, read_facts
from tests.elf_builder import Elf
from tests.fakes import wheel


def test_a_file_on_disk(tmp_path: Path) -> None:
    path = Elf(soname="libx.so").write(tmp_path / "x.so")
    source = DiskFile(path)
    data = path.read_bytes()
    assert (source.name, source.size, source.read_head(4)) == (str(path), len(data), b"\x7fELF")
    assert source.hash_content() == source.open_elf().sha256() == hashlib.sha256(data).hexdigest()
    assert source.open_elf().facts().soname == "libx.so"


def test_the_fingerprint_of_a_file_tells_that_it_was_changed(tmp_path: Path) -> None:
    path, other = tmp_path / "x.so", tmp_path / "y.so"
    for one in (path, other):
        one.write_bytes(b"same")
        os.utime(one, ns=(0, 0))
    known = DiskFile(path).identify_version()
    assert DiskFile(path).identify_version() == known != DiskFile(other).identify_version()
    os.utime(path, ns=(0, 1))
    assert DiskFile(path).identify_version() != known


def test_the_fingerprint_of_a_member_is_that_of_its_content(tmp_path: Path) -> None:
    one = Wheel(wheel(tmp_path / "one.whl", {"a.so": b"1234", "b.so": b"1234", "c.so": b"5678"}))
    prints = [one.find_member(name).identify_version() for name in ("a.so", "b.so", "c.so")]
    assert prints[0] == prints[1] != prints[2]


def test_a_large_member_is_read_by_way_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Elf(soname="libx.so", size=5_000).build()
    path = wheel(tmp_path / "x.whl", {"x.so": data, "cut.so": data[:4_000]})
    monkeypatch.setattr(files_module, "_SMALL_MEMBER", 1_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    opened = Wheel(path).find_member("x.so").open_elf()
    assert (opened.sha256(), opened.facts().soname) == (hashlib.sha256(data).hexdigest(), "libx.so")
    with pytest.raises(InputError, match=r"x\.whl!cut\.so: truncated"):
        Wheel(path).find_member("cut.so").open_elf()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_code_for_gpus_of_a_large_member_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that ``ld.so`` reads may begin before it, and go on in it."""
    monkeypatch.setattr(files_module, "_SMALL_MEMBER", 1_000)
    monkeypatch.setattr(files_module, "_INFLATED", {})
    data = bytearray((Path(__file__).parents[2] / "data" / "gpu" / "group.so").read_bytes())
    code, place = find_gpu_code(memoryview(data)), len(data)
    payload = random.Random(1).randbytes(3 << 16)
    data += struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(payload)) + payload
    table, _, count, _ = HEADER.unpack_from(data)
    number = [header.offset for header in read_headers(bytes(data), table, count)].index(code.start)
    struct.pack_into("<QQ", data, table + number * SECTION.size + 24, place, len(data) - place)
    assert find_gpu_code(memoryview(data)) == range(place, len(data))
    member = Wheel(wheel(tmp_path / "x.whl", {"x.so": bytes(data)})).find_member("x.so")
    assert bytes(member.open_elf().data) == data


@pytest.mark.parametrize("small", [1_000, 10_000])
def test_a_member_is_inflated_once_for_all_that_read_it(
    small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Elf(size=5_000).build()
    monkeypatch.setattr(files_module, "_SMALL_MEMBER", small)
    member = Wheel(wheel(tmp_path / "x.whl", {"x.so": data})).find_member("x.so")
    member.open_elf()
    for name in ("read_member", "copy_member"):
        monkeypatch.setattr(Wheel, name, None)
    assert bytes(member.open_elf().data) == data
    assert member.hash_content() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(("free", "copies"), [(1 << 20, 2), (0, 3)])
def test_members_are_kept_while_the_disk_has_as_much_left(
    free: int, copies: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Wheel(wheel(tmp_path / "x.whl", {"x.so": Elf(size=5_000).build(), "y.so": Elf(size=6_000).build()}))
    copied, copy = list[str](), Wheel.copy_member

    def count(archive: Wheel, info: zipfile.ZipInfo, to: IO[bytes]) -> str:
        copied.append(info.filename)
        return copy(archive, info, to)

    monkeypatch.setattr(Wheel, "copy_member", count)
    for name, value in (("_SMALL_MEMBER", 1_000), ("_KEPT_INFLATED", 8_000), ("_INFLATED", {})):
        monkeypatch.setattr(files_module, name, value)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    for name in ("x.so", "y.so", "x.so"):
        archive.find_member(name).open_elf()
    assert len(copied) == copies


def test_zeros_of_a_large_member_take_no_space(tmp_path: Path) -> None:
    """A library of zeros, a gigabyte in size, is a megabyte in its wheel."""
    data = b"\x7fELF" + bytes(20 << 20) + b"end" + bytes(5 << 20)
    archive = Wheel(wheel(tmp_path / "x.whl", {"x.so": data}))
    copied = tmp_path / "copy"
    with copied.open("w+b") as stream:
        digest = archive.copy_member(zipfile.ZipFile(archive.path).getinfo("x.so"), stream)
    assert copied.read_bytes() == data
    assert digest == hashlib.sha256(data).hexdigest()
    assert copied.stat().st_blocks * 512 < 5 << 20


def test_a_member_of_a_wheel(tmp_path: Path) -> None:
    data = Elf(soname="libx.so").build()
    path = wheel(tmp_path / "x.whl", {"pkg/x.so": data, "pkg/notes.txt": "é".encode("latin-1")})
    source = Wheel(path).find_member("pkg/x.so")
    assert (source.name, source.size, source.read_head(4)) == (f"{path}!pkg/x.so", len(data), b"\x7fELF")
    assert source.hash_content() == source.open_elf().sha256() == hashlib.sha256(data).hexdigest()
    assert source.open_elf().facts().soname == "libx.so"
    assert list(Wheel(path).list_members()) == ["pkg/x.so", "pkg/notes.txt"]
    assert Wheel(path).read_text("pkg/notes.txt") == "\ufffd"
    for place in (tmp_path / "x.so", tmp_path / "y.so"):
        Wheel(path).extract_member("pkg/x.so", str(place))
        assert place.read_bytes() == data


def test_a_file_that_vanished(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.so: cannot be read: No such file or directory"):
        DiskFile(tmp_path / "absent.so").read_head(4)


@pytest.mark.parametrize("data", [b"", b"not a zip archive", b"PK\x03\x04 cut off"])
def test_what_is_no_wheel(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.whl: not a readable wheel"):
        Wheel(path)


def test_a_wheel_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.whl: cannot be read: No such file or directory"):
        Wheel(tmp_path / "x.whl")


def test_a_member_with_a_wrong_checksum(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("x.so", b"original")
    path.write_bytes(path.read_bytes().replace(b"original", b"modified", 1))
    with pytest.raises(InputError, match=r"x\.whl!x\.so: cannot be unpacked: Bad CRC-32"):
        Wheel(path).find_member("x.so").open_elf()


def test_a_member_that_cannot_be_inflated(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", {"x.so": Elf().build()})
    data = bytearray(path.read_bytes())
    for at in range(60, 100):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.whl!x\.so: cannot be unpacked: "):
        Wheel(path).find_member("x.so").open_elf()


def test_an_encrypted_member(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", {"x.so": b"data"})
    data = bytearray(path.read_bytes())
    data[6] |= 1  # general purpose flag, bit 0, of the member and of the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.whl!x\.so: cannot be unpacked: .*encrypted"):
        Wheel(path).find_member("x.so").open_elf()


def test_a_member_that_claims_an_absurd_size(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", {"x.so": b"data"})
    archive = Wheel(path)
    member = archive.find_member("x.so")
    member._info.file_size = 5 << 30
    with pytest.raises(InputError, match=r"x\.whl!x\.so: claims to be 5 GiB in size"):
        member.open_elf()


def test_members_of_a_wheel_lie_over_the_disk(tmp_path: Path) -> None:
    site = tmp_path / "site"
    Elf(soname="on disk").write(site / "pkg" / "a.so")
    Elf(soname="below").write(site / "pkg" / "b.so")
    files = Files()
    files.mount_archive(Wheel(wheel(tmp_path / "x.whl", {"pkg/a.so": Elf(soname="in wheel").build()})), str(site))
    assert files.list_folder(f"{site}/pkg/") == [f"{site}/pkg/a.so", f"{site}/pkg/b.so"]
    sonames = [getattr(files.object_at(f"{site}/pkg/../pkg/{name}.so"), "soname", None) for name in "abc"]
    assert sonames == ["in wheel", "below", None]
    assert files.find_source(f"{site}/pkg/c.so") is None


def test_a_layer_covers_what_lies_below_and_can_be_laid_over_it(tmp_path: Path) -> None:
    site = str(tmp_path)
    files = Files()
    layers = [files.add_layer(), files.add_layer()]
    for number, layer in enumerate(layers, 1):
        member = {"pkg/a.so": Elf(soname=f"version {number}").build()}
        layer.mount_archive(Wheel(wheel(tmp_path / f"{number}.whl", member)), site)
    assert files.object_at(f"{site}/pkg/a.so") is None
    for number in (1, 2, 1):
        files.merge_layer(layers[number - 1])
        assert getattr(files.object_at(f"{site}/pkg/a.so"), "soname", None) == f"version {number}"


def test_what_cannot_be_read_is_no_object_and_remembered(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("text", encoding="utf-8")
    files = Files()
    assert files.object_at(str(tmp_path / "text.so")) is None
    assert files.object_at(str(tmp_path / "text.so")) is None
    assert files.object_at(str(tmp_path / "absent.so")) is None
    assert [error.subject for error in files.take_unread()] == [str(tmp_path / "text.so")]
    assert files.take_unread() == ()
    assert files.object_at(str(tmp_path / "text.so")) is None
    assert [error.subject for error in files.take_unread()] == [str(tmp_path / "text.so")]


def test_an_object_is_read_once(tmp_path: Path) -> None:
    path = Elf(soname="libx.so").write(tmp_path / "x.so")
    files = Files()
    first = files.object_at(str(path))
    os.unlink(path)  # noqa: PTH108 - as plain as can be
    assert files.object_at(str(path)) is first is not None


def test_facts_that_were_read_already_are_taken(tmp_path: Path) -> None:
    facts = read_facts(DiskFile(Elf().write(tmp_path / "x.so")))
    files = Files()
    files.put_facts("/nowhere/../there/x.so", facts)
    assert files.object_at("/there/x.so") is facts


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert Files().list_folder(str(tmp_path / "absent")) == []


def test_members_of_a_package_over_or_below_those_of_others(tmp_path: Path) -> None:
    first, second = (
        Wheel(wheel(tmp_path / f"{name}.whl", {"pkg/a.txt": name.encode(), f"pkg/{name}.txt": b"x"}))
        for name in ("one", "two")
    )

    def mounted(*, over: bool, without: tuple[str, ...] = ()) -> dict[str, bytes]:
        files = Files()
        files.mount_archive(first, "/site")
        files.mount_archive(second, "/site", over=over, without=without)
        sources = {name: files.find_source(f"/site/pkg/{name}.txt") for name in ("a", "one", "two")}
        return {name: source.read_head(9) for name, source in sources.items() if source}

    assert mounted(over=True) == {"a": b"two", "one": b"x", "two": b"x"}
    assert mounted(over=False) == {"a": b"one", "one": b"x", "two": b"x"}
    assert mounted(over=True, without=("pkg/a.txt",)) == {"a": b"one", "one": b"x", "two": b"x"}
    assert mounted(over=False, without=("pkg/two.txt",)) == {"a": b"one", "one": b"x"}


def test_what_the_loader_opens_is_not_reported_as_unread(tmp_path: Path) -> None:
    """The load says itself what becomes of it; as a target or a library that is looked at, it would be a gap."""
    (tmp_path / "text.so").write_text("text", encoding="utf-8")
    files = Files()
    opened = files.open_library(str(tmp_path / "text.so"))
    assert opened is not None
    assert opened.refusal == "file too short"  # fewer bytes than an ELF header has (elf/dl-load.c)
    assert files.take_unread() == ()
