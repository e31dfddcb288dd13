"""Functions gone through for what they use of the processor: natively as by capstone."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

import pytest

from abiscan import native
from abiscan.binary.elf import ElfFile, Machine
from abiscan.cpu.instructions import features_of
from abiscan.cpu.needs import CpuReach
from abiscan.emulation import cpu_reach
from abiscan.emulation.arch import ARCHITECTURES, code_x86_64
from abiscan.emulation.call_sites import Functions
from abiscan.emulation.loader import Image

ARCHIVE: Final = Path(__file__).parents[2] / "data" / "cpu" / "operators.zip"
LONGEST: Final = 15

pytestmark = pytest.mark.skipif(not native.is_available(), reason="needs the native processor")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reach")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder / "operators.so"


def first_uses(code: bytes, places: list[int]) -> dict[str, int]:
    """Where each feature is used first."""
    found: dict[str, int] = {}
    for at in places:
        for feature in features_of(Machine.X86_64, code[at : at + LONGEST]):
            found.setdefault(feature, at)
    return found


def test_functions_are_swept_as_capstone_reads_them(library: Path) -> None:
    image = Image(ElfFile.open(library), ARCHITECTURES[Machine.X86_64], lambda _: 0, lambda _: 0, lambda at: at)
    functions = Functions(image)
    asking = named = of_capstone = 0
    for start in functions.starts:
        code = functions.code_of(start)
        extensions, questions, calls, data, end = cpu_reach._sweep_of(Machine.X86_64)(code, start)
        expected = code_x86_64.sweep(code, start)
        assert (first_uses(code, extensions), questions, calls, data, end) == (
            first_uses(code, expected[0]),
            *expected[1:],
        )
        named += len(extensions)
        of_capstone += len(expected[0])
        asking += len(questions)
    assert named > 0 < of_capstone
    assert asking >= 2


@pytest.mark.parametrize(
    ("code", "length"),
    [  # as assemblers make them
        ("c4e37d06c121", 6),  # vperm2f128 ymm0, ymm0, ymm1, 0x21
        ("62f37d4825c1ff", 7),  # vpternlogd zmm0, zmm0, zmm1, 0xff
        ("62f1fe486f4001", 7),  # vmovdqu64 zmm0, [rax+0x40]
        ("c5f877", 3),  # vzeroupper
        ("8fe97801c8", 5),  # blcfill eax, eax (XOP map 9)
        ("48b80807060504030201", 10),  # movabs rax, 0x102030405060708
        ("66b80100", 4),  # mov ax, 1
        ("f6c101", 3),  # test cl, 1
        ("f7d0", 2),  # not eax
        ("660f3a0fc105", 6),  # palignr xmm0, xmm1, 5
        ("d9e8", 2),  # fld1
        ("48ff2500100000", 7),  # jmp [rip+0x1000]
    ],
)
def test_instructions_of_every_form_are_measured(code: str, length: int) -> None:
    *_, end = cpu_reach._sweep_of(Machine.X86_64)(bytes.fromhex(code) + b"\x06", 0)  # which begins no instruction
    assert end == length


def test_nothing_is_known_of_aarch64(library: Path) -> None:
    file = ElfFile.open(library)
    assert cpu_reach.reached_features([file], Machine.AARCH64, [[0]]) == [None]
    assert cpu_reach.features_in(file, Machine.AARCH64) is None


def test_a_function_that_is_none_reaches_nothing(library: Path) -> None:
    (reach,) = cpu_reach.reached_features([ElfFile.open(library)], Machine.X86_64, [[3]])
    assert reach is not None
    assert (reach.uses, reach.behind) == ((), ())


@pytest.mark.parametrize("most", [0, 1])
def test_where_more_functions_may_ask_than_are_read_no_need_is_certain(
    library: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    file = ElfFile.open(library)
    image = Image(file, ARCHITECTURES[Machine.X86_64], lambda _: 0, lambda _: 0, lambda at: at)
    roots = [[start] for start in Functions(image).starts]
    monkeypatch.setattr(cpu_reach, "_MOST_ASKING", most)
    reached = cpu_reach.reached_features([file], Machine.X86_64, roots)
    assert reached == [CpuReach(uses=(), behind=(), is_whole=False)] * len(roots)
