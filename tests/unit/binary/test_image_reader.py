"""Images of Windows and macOS, as linkers write them: what is read, and what is rejected."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

import pytest

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem, ImportedName, LibraryImage, NeededImage
from abiscan.binary.image_reader import read_images
from abiscan.binary.msvc import undecorate
from abiscan.errors import InputError
from tests.image_samples import LACKED, WARN, image


def only(name: str) -> LibraryImage:
    (found,) = read_images(image(name), name).values()
    return found


def test_names_are_imported_from_a_library() -> None:
    found = only("missing_symbol.pyd")
    assert (found.system, found.machine, found.name) == (ImageSystem.WINDOWS, Machine.X86_64, "missing_symbol.pyd")
    assert found.needed == (
        NeededImage(name="c10.dll", optional=False),
        NeededImage(name="torch_cpu.dll", optional=False),
    )
    assert found.imports == (
        ImportedName(name=WARN["Windows"], library="c10.dll"),
        ImportedName(name=LACKED["Windows"], library="torch_cpu.dll"),
    )
    assert found.exports == {"abiscan_sample", "#1"}


def test_an_import_by_ordinal() -> None:
    assert only("by_ordinal.pyd").imports == (ImportedName(name="#5", library="c10.dll"),)


def test_an_ordinal_is_exported_beside_its_name() -> None:
    assert {"#5", WARN["Windows"]} == only("torch/c10.dll").exports


def test_what_is_delay_loaded_is_not_needed_for_the_load() -> None:
    found = only("delayed.pyd")
    assert found.needed == (NeededImage(name="torch_cuda.dll", optional=True),)
    assert found.imports == ()


def test_two_level_names() -> None:
    found = only("missing_symbol.so")
    assert (found.system, found.machine, found.name) == (ImageSystem.MACOS, Machine.AARCH64, "@rpath/missing_symbol.so")
    of_torch = [one for one in found.imports if one.library != "/usr/lib/libSystem.B.dylib"]
    assert of_torch == [
        ImportedName(name=WARN["macOS"], library="@rpath/libc10.dylib"),
        ImportedName(name=LACKED["macOS"], library="@rpath/libtorch_cpu.dylib"),
    ]
    assert "_abiscan_sample" in found.exports
    assert (found.rpaths, found.minimum_os) == (("@loader_path/../torch/lib",), "11.0")


def test_a_flat_lookup_names_no_library() -> None:
    assert ImportedName(name=LACKED["macOS"], library=None) in only("flat.so").imports


def test_weak_imports_and_libraries_may_be_absent() -> None:
    found = only("weak.so")
    assert NeededImage(name="@rpath/libtorch_cuda.dylib", optional=True) in found.needed
    assert LACKED["macOS"] not in {one.name for one in found.imports}


def test_a_universal_file_has_a_part_for_each_machine() -> None:
    found = read_images(image("universal.so"), "universal.so")
    assert set(found) == {Machine.X86_64, Machine.AARCH64}
    for part in found.values():
        assert WARN["macOS"] in {one.name for one in part.imports}


def test_exports_only() -> None:
    for name, system in (("torch/c10.dll", "Windows"), ("torch/libc10.dylib", "macOS")):
        (found,) = read_images(image(name), name, exports_only=True).values()
        assert WARN[system] in found.exports


SAMPLES = ["loads.pyd", "delayed.pyd", "missing_symbol.so", "weak.so", "universal.so"]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_truncated_file_is_rejected(name: str) -> None:
    data = image(name)
    end = len(data.rstrip(b"\0"))
    for size in (*range(4, 1600, 8), *range(1600, end, 500)):
        with pytest.raises(InputError, match=r"x: is (damaged|truncated|not for)"):
            read_images(data[: min(size, end)], "x")


def test_an_import_whose_name_is_no_text_is_not_overlooked() -> None:
    data = image("loads.pyd").replace(b"?warn@c10", b"?w\xff\xfen@c10")
    with pytest.raises(InputError, match="not all of its imports can be read"):
        read_images(data, "x")


def universal(parts: int, offset: int, size: int) -> bytes:
    head = struct.pack(">II", 0xCAFEBABE, parts) + struct.pack(">IIIII", 0x0100_000C, 0, offset, size, 14)
    data = image("loads.so")
    return head.ljust(0x4000, b"\0") + data


@pytest.mark.parametrize(
    ("parts", "offset", "size"),
    [
        (1, 0x4000, 0xFFFF_FFFF),
        (1, 0xFFFF_F000, 0x1000),
        (1, 0, 0x4000),
        (2, 0x4000, 0x1000),
        (0xFFFF_FFFF, 0x4000, 0x1000),
        (0, 0, 0),
    ],
)
def test_lies_in_the_header_of_a_universal_file_are_errors(parts: int, offset: int, size: int) -> None:
    with pytest.raises(InputError):
        read_images(universal(parts, offset, size), "x")


def test_the_true_header_is_none() -> None:
    assert set(read_images(universal(1, 0x4000, len(image("loads.so"))), "x")) == {Machine.AARCH64}


def test_other_machines_are_rejected() -> None:
    data = bytearray(image("loads.pyd"))
    at = struct.unpack_from("<I", data, 0x3C)[0] + 4
    struct.pack_into("<H", data, at, 0x14C)  # i386
    with pytest.raises(InputError, match=r"not for x86_64 or aarch64|is damaged"):
        read_images(bytes(data), "x")


def test_an_import_table_that_points_nowhere_is_damage() -> None:
    data = bytearray(image("loads.pyd"))
    header = struct.unpack_from("<I", data, 0x3C)[0] + 24
    struct.pack_into("<I", data, header + 112 + 8, 0x7FFF_0000)  # data directory 1: the import table
    with pytest.raises(InputError, match="its tables of imports and exports cannot be read"):
        read_images(bytes(data), "x")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("?get_num_threads@at@@YAHXZ", "int __cdecl at::get_num_threads(void)"),
        ("abiscan_sample", None),
        ("?", None),
        ("?@@@@@@@@", None),
    ],
)
def test_names_of_microsofts_compiler(name: str, expected: str | None) -> None:
    assert undecorate(name) == expected


def hostile(data: bytes, end: int) -> Iterator[tuple[int, bytes]]:
    """The file with each word of its beginning that is not zero replaced by some that lie, one at a time."""
    for at in range(0, end, 4):
        if data[at : at + 4] != bytes(4):
            for value in (0, 7, at, 0xFFFF_FFFF):
                yield at, data[:at] + struct.pack("<I", value) + data[at + 4 :]


# Where Windows sees no imports either: the number of tables, and the place of the table of imports.
SEEN_BY_NOBODY = {"loads.pyd": {0xFC, 0x108}}


@pytest.mark.parametrize(("name", "end"), [("loads.pyd", 0xA00), ("missing_symbol.so", 0x680), ("universal.so", 0x30)])
def test_lies_in_headers_and_tables_lose_no_import(name: str, end: int) -> None:
    """Load commands and tables with other sizes and places, loops among them, are errors or change no number."""

    def imports(data: bytes) -> int:
        names = (one.name for part in read_images(data, "x").values() for one in part.imports)
        return sum(name != "dyld_stub_binder" for name in names)  # no other file has that one

    whole = imports(image(name))
    for at, data in hostile(image(name), end):
        with contextlib.suppress(InputError):
            assert imports(data) >= whole or at in SEEN_BY_NOBODY.get(name, ()), hex(at)


def test_bindings_that_end_early_are_damage() -> None:
    """lief ends at the first opcode that it does not know, and the symbols are still listed."""
    data = bytearray(image("missing_symbol.so"))
    name = LACKED["macOS"].encode()
    at = data.index(b"\x40" + name) if b"\x40" + name in data else data.index(name) - 1
    data[at] = 0xF0  # no opcode
    with pytest.raises(InputError, match="not all of its imports can be read"):
        read_images(bytes(data), "x")


def test_load_commands_that_are_left_out_are_damage() -> None:
    data = bytearray(image("missing_symbol.so"))
    (count,) = struct.unpack_from("<I", data, 16)
    struct.pack_into("<I", data, 16, count - 1)
    with pytest.raises(InputError, match="not all of its load commands can be read"):
        read_images(bytes(data), "x")
