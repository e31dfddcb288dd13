"""What the native part finds in code without executing it: the same as capstone reads, and as the search in Python."""

from __future__ import annotations

import random
import re
import struct
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import capstone  # type: ignore[import-untyped]
import pytest

from abiscan import native
from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.arch import ARCHITECTURES, code_aarch64, code_x86_64, data_flow
from abiscan.emulation.call_graph import _links_in_c, _LinksInPython
from abiscan.emulation.call_sites import Functions, code_in, find_displacements
from abiscan.emulation.loader import Image
from abiscan.emulation.named_data import data_of

pytestmark = pytest.mark.skipif(not native.is_compiled(), reason="needs the native processor")

FOLDER = Path(__file__).parents[3] / "sample_binaries" / "registrations"
EM_X86_64 = 62
SAMPLES = [path for path in sorted(FOLDER.glob("*.so")) if path.read_bytes()[18] == EM_X86_64]
ADDRESS = 0x10_0000_1000
PREFIXES = (b"", b"\x66", b"\xf2", b"\xf3", b"\xf0", b"\x64", b"\x2e", b"\x66\x66")
RELATIVE = (0x05, 0x0D, 0x15, 0x1D, 0x25, 0x2D, 0x35, 0x3D)
BRANCH = re.compile("j|call|ret")


def random_instructions(seed: int, count: int) -> Iterator[bytes]:
    """Bytes that are more often instructions than random ones are, half of them with a relative operand."""
    source = random.Random(seed)
    for _ in range(count):
        rex = bytes((0x40 | source.randrange(16),)) if source.random() < 0.5 else b""
        opcode = source.choice((b"", b"\x0f")) + source.randbytes(1)
        operand = bytes((source.choice(RELATIVE),)) if source.random() < 0.5 else b""
        yield (source.choice(PREFIXES) + rex + opcode + operand + source.randbytes(15))[:15]


def test_instructions_are_measured_as_capstone_reads_them() -> None:
    from abiscan.native._core import data, instructions

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    measured = named = 0
    for code in random_instructions(seed=1, count=40_000):
        found, count, length = data(code, ADDRESS, 1)
        if not count:
            continue
        measured += 1
        _, size, mnemonic, operands = next(decoder.disasm_lite(code, ADDRESS, 1))
        assert length == size, code.hex()
        assert instructions(code[:length], ADDRESS) == [(ADDRESS, bool(BRANCH.match(mnemonic)))], code.hex()
        assert instructions(code[: length - 1], ADDRESS) in ([], None), code.hex()
        if "rip" not in operands:
            assert not found, code.hex()
        elif not found or found[0][2] >= 0:
            named += 1
            instruction = data_flow.decode_x86_64(ADDRESS, code)
            assert instruction is not None
            assert tuple(place[1:] for place in found) == instruction.data, code.hex()
    assert measured > 5_000
    assert named > 1_000


def test_what_does_not_exist_is_no_instruction_for_capstone() -> None:
    from abiscan.native._core import instructions

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    nowhere = [code for code in random_instructions(seed=2, count=40_000) if instructions(code, ADDRESS) == []]
    assert len(nowhere) > 500
    for code in nowhere:
        decoded = list(decoder.disasm_lite(code, ADDRESS))
        assert not decoded or sum(decoded[-1][:2]) < ADDRESS + len(code), code.hex()


@pytest.mark.parametrize("code", ["ffff", "ffe8", "1f", "60"])
def test_what_decoding_from_within_an_instruction_meets_is_none(code: str) -> None:
    from abiscan.native._core import instructions

    assert instructions(bytes.fromhex(code) + bytes(15), ADDRESS) == []


@pytest.mark.parametrize(
    ("code", "length"),
    {
        "endbr64": ("f30f1efa", 4),
        "a call of __tls_get_addr": ("666648e800000000", 8),
        "the stack protector": ("64488b042528000000", 9),
        "padding": ("66662e0f1f840000000000", 11),
        "a reference that is given back": ("f00fc107", 4),
        "jump back": ("ebfe", 2),
    }.values(),
)
def test_what_compilers_make_is_measured(code: str, length: int) -> None:
    from abiscan.native._core import data

    assert data(bytes.fromhex(code) + b"\x90", ADDRESS, 1)[1:] == (1, length)


def test_capstone_reads_what_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    # mov [rip+1], eax; vmovdqa [rip+1], ymm0 (70 times); mov [rip+1], eax; no instruction; lea rax, [rip+1]
    store = bytes.fromhex("890501000000")
    code = store + 70 * bytes.fromhex("c5fd7f0501000000") + store + b"\x06" + bytes.fromhex("488d0501000000")
    places = data_of(ARCHITECTURES[Machine.X86_64], ADDRESS, code, 1_000)
    assert places[1] == 74
    assert places[0][0] == (ADDRESS + 6 + 1, 4)
    assert places[0][-1] == (ADDRESS + len(code) + 1, 8)
    assert [data_of(ARCHITECTURES[Machine.X86_64], ADDRESS, code, most)[1] for most in (1, 2, 70, 72)] == [1, 2, 70, 72]
    monkeypatch.setenv("ABISCAN_NATIVE", "0")
    assert data_of(ARCHITECTURES[Machine.X86_64], ADDRESS, code, 1_000) == places


def test_capstone_decodes_no_more_than_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def disassemble(self: capstone.Cs, code: bytes, offset: int, count: int = 0) -> object:
        asked.append(count)
        return original(self, code, offset, count)

    original = capstone.Cs.disasm_lite
    monkeypatch.setattr(capstone.Cs, "disasm_lite", disassemble)
    assert data_of(ARCHITECTURES[Machine.X86_64], ADDRESS, 300 * bytes.fromhex("c5fd7f0501000000"), 100)[1] == 100
    assert asked  # 0 is all of the code, each time
    assert all(0 < count <= 100 for count in asked)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_functions_lead_to_the_same_with_it_and_without(sample: Path) -> None:
    image = Image(ElfFile.open(sample), ARCHITECTURES[Machine.X86_64], lambda _: 0, lambda _: 0, lambda at: at)
    functions = Functions(image)
    native_links = _links_in_c(image, functions.starts)
    assert native_links is not None
    in_python = _LinksInPython(image, code_x86_64, frozenset(functions.starts))
    for content, address in code_in(image):
        assert native_links.add_stubs(bytes(content), address) == in_python.add_stubs(bytes(content), address)
    found = 0
    for start in functions.starts:
        code = functions.code_of(start)
        leads = native_links.of(code, start)
        assert leads == in_python.of(code, start)
        assert list(leads[0]) == list(in_python.of(code, start)[0])  # in which order they are looked at
        found += bool(leads[0])
    assert found or len(functions.starts) < 10


def test_all_forms_of_links_are_found() -> None:
    """Code at random between tables of pointers, stubs and functions."""
    from abiscan.native._core import Links

    source = random.Random(2)
    starts = [0x1000, 0x1400, 0x1500, 0x2000]
    pointers = {0x3000 + 8 * at: source.choice([*starts, 0x3000 + 8 * source.randrange(64), 1]) for at in range(64)}
    imports = {0x4000 + 8 * at: 1 + at for at in range(16)}
    stubs = {0x1600 + 16 * at: source.choice([*pointers, *imports]) for at in range(32)}
    relocations = [(at, 8, target) for at, target in pointers.items()]
    relocations += [(at, symbol << 32 | source.choice((6, 7)), 0) for at, symbol in imports.items()]
    table = b"".join(struct.pack("<QQQ", *relocation) for relocation in relocations)
    links = Links(struct.pack("<4Q", *starts))
    assert links.add_relocations(table, bytes(24 * 17), 8, 1, 6, 7)
    assert not links.add_relocations(struct.pack("<QQQ", 0, 17 << 32 | 1, 0), bytes(24 * 17), 8, 1, 6, 7)
    in_python = _LinksInPython.__new__(_LinksInPython)
    vars(in_python).update(_known=frozenset(starts), _pointers=pointers, _imports=imports)
    vars(in_python).update(_own_stubs={}, _foreign_stubs={}, _code=code_x86_64)
    jumps = b"".join(b"\xff\x25" + struct.pack("<i", slot - stub - 6) + bytes(10) for stub, slot in stubs.items())
    jumps += b"\xff\x25" + struct.pack("<i", 0x5000 - 0x1806) + b"\xff\x25\xff\x25\xff\x25\xff"
    assert links.add_stubs(jumps, 0x1600) == in_python.add_stubs(jumps, 0x1600) == [*chain(*stubs.items())]
    opcodes = [b"\xe8", b"\xe9", b"\x0f\x84", b"\xff\x15", b"\xff\x25", b"\xff\x35", b"\x48\x8b\x05", b"\x4c\x8d\x3d"]
    opcodes += [b"\x0f\x10\x05", b"\x66\x0f\x6f\x0d", b"\xc5\xf8\x28\x05", b"\xc5\xc5\x6f\x15", b"\xeb", b"\xeb\xeb"]
    places = [*starts, *pointers, *imports, *stubs, 0x2FF0, 0x3FF8]
    found = set[int]()
    for _ in range(300):
        code = b""
        while len(code) < 200:
            code += source.choice(opcodes)
            wanted = source.choice(places) - (0x1000 + len(code) + 4)
            code += struct.pack("<i", wanted) if source.random() < 0.9 else source.randbytes(5)
        leads = links.of(code[:200], 0x1000)
        assert leads == in_python.of(code[:200], 0x1000)
        found.update(*leads)
    assert found == {*starts, *imports.values()}


def test_branches_of_aarch64() -> None:
    from abiscan.native._core import branches

    source = random.Random(4)
    operations = (0x1400_0000, 0x9400_0000, 0xD400_0000, 0x5400_0000)  # b, bl, and two that are none
    words = [source.choice(operations) | source.randrange(-40, 40) & 0x3FF_FFFF for _ in range(500)]
    code = struct.pack("<500I", *words) + b"\x01\0\0"
    targets = [ADDRESS - 40, *range(ADDRESS, ADDRESS + 2000, 12)]
    places = branches(code, ADDRESS, array("Q", targets).tobytes())
    assert [code_aarch64.call_at(code, at, ADDRESS) for at in places] == [
        *code_aarch64.calls(memoryview(code), ADDRESS, set(targets))
    ]
    assert len(places) > 50


@pytest.mark.parametrize("bounds", [[0x1000, 0x1200], [0x0FC0, 0x0FD0, 0x1000, 0x1001, 0x1040, 0x1100]])
def test_displacements_between_bounds(bounds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(3)
    code = b"".join(source.choice([b"\xeb", b"\0\0\0", b"\xff\xff\xff", source.randbytes(1)]) for _ in range(2000))
    places = find_displacements(code, 0x0E00, array("Q", bounds))
    assert len(places) > 3
    monkeypatch.setenv("ABISCAN_NATIVE", "0")
    assert find_displacements(code, 0x0E00, array("Q", bounds)) == places


def test_what_only_capstone_can_tell_is_asked() -> None:
    # movhps [rip+1], xmm0, of which capstone says that it reads; xchg [rip+1], eax
    for code in ("0f170501000000", "870501000000"):
        instruction = data_flow.decode_x86_64(ADDRESS, bytes.fromhex(code))
        assert instruction is not None
        assert data_of(ARCHITECTURES[Machine.X86_64], ADDRESS, bytes.fromhex(code), 1) == (list(instruction.data), 1)


def test_texts_are_those_of_the_pattern() -> None:
    from abiscan.native._core import texts

    source, pattern, found = random.Random(3), re.compile(rb"\0([\n\t\x20-\x7e]{12,1000})(?=\0)"), 0
    for _ in range(1_000):
        letters = source.choice(
            (b"a" * 20 + b"\0", b"a b\n\t~\0\x7f", b"a" * 900 + b"\0", b" " * 3_000 + b"\0", bytes(9))
        )
        content = bytes(source.choices(letters, k=source.choice((0, 12, 13, 14, 15, 200, 3_000))))
        expected = [match[1] for match in pattern.finditer(content)]
        assert texts(content, 12, 1000, b"") == expected, content
        found += len(expected)
        some = {text[:8] for text in expected[::2]}
        words = array("Q", sorted(int.from_bytes(text, "little") for text in some)).tobytes()
        assert not some or texts(content, 12, 1000, words) == [text for text in expected if text[:8] in some]
    assert found > 100
    with pytest.raises(ValueError, match="eight"):
        texts(b"", 7, 1000, b"")


def test_whether_a_text_is_in_some_content() -> None:
    source, there = random.Random(4), 0
    for _ in range(2_000):
        letters = source.choice((b"ab", b"abcdefgh._\n", bytes(range(256))))
        content = bytes(source.choices(letters, k=source.choice((0, 3, 4, 30, 600, 5_000))))
        has = native.searcher(content)
        for size in range(9):
            start = source.randrange(len(content) + 1)
            for text in (content[start : start + size], bytes(source.choices(letters, k=size))):
                assert has(text) == (text in content), (content, text)
                there += text in content
    assert 18_000 < there < 30_000
    with pytest.raises(TypeError):
        has("text")  # type: ignore[arg-type]  # that is refused


def test_without_the_native_part_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABISCAN_NATIVE", "0")
    assert [native.searcher(b"one two")(text) for text in (b"two", b"three")] == [True, False]
