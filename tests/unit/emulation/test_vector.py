"""Every vector instruction that is done in Python, against the processor of the machine that runs the tests."""

from __future__ import annotations

import ctypes
import platform
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.loader import BASE
from abiscan.emulation.process import EmulatedProcess

# Operands: ymm1, ymm2 (and their low halves) hold the inputs, ymm3 the result; (%rdi), (%rsi) are the inputs in memory,
# 64(%rdx) is memory for results, rax a result that is not a vector, rcx an input that is none.
INSTRUCTIONS = [
    *(
        f"{name} %ymm1, %ymm2, %ymm3"
        for name in ["vpxor", "vxorps", "vxorpd", "vpand", "vandps", "vpor", "vorps", "vpandn", "vandnpd"]
    ),
    *(f"{name} %xmm1, %xmm2, %xmm3" for name in ["vpxor", "vxorps", "vpand", "vpor", "vpandn"]),
    *(f"{name}{letter} %ymm1, %ymm2, %ymm3" for name in ("vpadd", "vpsub", "vpcmpeq", "vpcmpgt") for letter in "bwdq"),
    *(f"{name}{letter} %xmm1, %xmm2, %xmm3" for name in ("vpadd", "vpcmpeq") for letter in "bwdq"),
    *(f"{name}{letter} %ymm1, %ymm2, %ymm3" for name in ("vpminu", "vpmaxu") for letter in "bwd"),
    *(f"{name} $5, %ymm1, %ymm3" for name in ("vpsllw", "vpslld", "vpsllq", "vpsrlw", "vpsrld", "vpsrlq")),
    *(f"{name} $5, %ymm1, %ymm3" for name in ("vpslldq", "vpsrldq")),
    "vpsrlq $77, %ymm1, %ymm3",
    "vpmulld %ymm1, %ymm2, %ymm3",
    "vpmuludq %ymm1, %ymm2, %ymm3",
    *(f"vpunpck{part} %ymm1, %ymm2, %ymm3" for part in ["lbw", "lwd", "ldq", "lqdq", "hbw", "hwd", "hdq", "hqdq"]),
    *(f"vunpck{part} %ymm1, %ymm2, %ymm3" for part in ["lps", "lpd", "hps", "hpd"]),
    "vpunpcklqdq %xmm1, %xmm2, %xmm3",
    "vpshufd $0x1b, %ymm1, %ymm3",
    "vpshufd $0x4e, %xmm1, %xmm3",
    "vshufps $0x9c, %ymm1, %ymm2, %ymm3",
    "vpshufb %ymm1, %ymm2, %ymm3",
    "vpalignr $5, %ymm1, %ymm2, %ymm3",
    "vpalignr $21, %ymm1, %ymm2, %ymm3",
    "vpermq $0x1b, %ymm1, %ymm3",
    "vpermpd $0x4e, %ymm1, %ymm3",
    "vperm2i128 $0x21, %ymm1, %ymm2, %ymm3",
    "vperm2f128 $0x83, %ymm1, %ymm2, %ymm3",
    "vpblendd $0xa5, %ymm1, %ymm2, %ymm3",
    "vblendps $0x0f, %ymm1, %ymm2, %ymm3",
    "vinserti128 $1, %xmm1, %ymm2, %ymm3",
    "vinsertf128 $0, %xmm1, %ymm2, %ymm3",
    "vinsertf128 $1, (%rdi), %ymm2, %ymm3",
    "vextracti128 $1, %ymm1, %xmm3",
    "vextractf128 $0, %ymm1, %xmm3",
    "vextracti128 $1, %ymm1, 64(%rdx)",
    "vpinsrb $9, %ecx, %xmm1, %xmm3",
    "vpinsrw $5, %ecx, %xmm1, %xmm3",
    "vpinsrd $2, %ecx, %xmm1, %xmm3",
    "vpinsrq $1, %rcx, %xmm1, %xmm3",
    "vpinsrq $0, (%rsi), %xmm1, %xmm3",
    "vpextrb $9, %xmm1, %eax",
    "vpextrw $5, %xmm1, %eax",
    "vpextrd $2, %xmm1, %eax",
    "vpextrq $1, %xmm1, %rax",
    "vpextrq $1, %xmm1, 64(%rdx)",
    *(f"{name} (%rdi), %ymm3" for name in ["vmovdqu", "vmovdqa", "vmovups", "vmovupd", "vmovaps", "vlddqu"]),
    *(f"{name} (%rdi), %xmm3" for name in ["vmovdqu", "vmovdqa", "vmovups", "vmovaps"]),
    *(
        f"{name} %ymm1, 64(%rdx)"
        for name in ["vmovdqu", "vmovdqa", "vmovups", "vmovupd", "vmovaps", "vmovntdq", "vmovntps"]
    ),
    *(f"{name} %xmm1, 64(%rdx)" for name in ["vmovdqu", "vmovdqa", "vmovups", "vmovq", "vmovd", "vmovss", "vmovsd"]),
    "vmovdqa %xmm1, %xmm3",
    "vmovdqa %ymm1, %ymm3",
    "vmovq %xmm1, %xmm3",
    "vmovq %xmm1, %rax",
    "vmovd %xmm1, %eax",
    "vmovq %rcx, %xmm3",
    "vmovd %ecx, %xmm3",
    "vmovq (%rdi), %xmm3",
    "vmovd (%rdi), %xmm3",
    "vmovss (%rdi), %xmm3",
    "vmovsd (%rdi), %xmm3",
    "vmovss %xmm1, %xmm2, %xmm3",
    "vmovsd %xmm1, %xmm2, %xmm3",
    "vmovhps (%rdi), %xmm2, %xmm3",
    "vmovlps (%rdi), %xmm2, %xmm3",
    "vmovhpd (%rdi), %xmm2, %xmm3",
    "vmovlpd (%rdi), %xmm2, %xmm3",
    *(f"{name} %xmm1, 64(%rdx)" for name in ("vmovhps", "vmovhpd", "vmovlps", "vmovlpd")),
    "vmovlhps %xmm1, %xmm2, %xmm3",
    "vmovhlps %xmm1, %xmm2, %xmm3",
    "vmovddup %ymm1, %ymm3",
    *(f"vpbroadcast{letter} %xmm1, %ymm3" for letter in "bwdq"),
    *(f"vpbroadcast{letter} (%rdi), %xmm3" for letter in "bwdq"),
    "vbroadcastss %xmm1, %ymm3",
    "vbroadcastss (%rdi), %xmm3",
    "vbroadcastsd %xmm1, %ymm3",
    "vbroadcasti128 (%rdi), %ymm3",
    "vbroadcastf128 (%rdi), %ymm3",
    "vpmovmskb %ymm1, %eax",
    "vpmovmskb %xmm1, %eax",
    "vmovmskps %ymm1, %eax",
    "vmovmskpd %xmm1, %eax",
    "vptest %ymm1, %ymm2; setz %al; setc %ah",
    "vptest %ymm3, %ymm2; setz %al; setc %ah",
]
FLOATS = [
    *(f"v{name}{kind} %xmm1, %xmm2, %xmm3" for name in ("add", "sub", "mul", "div") for kind in ("ss", "sd")),
    *(f"v{name}{kind} %ymm1, %ymm2, %ymm3" for name in ("add", "sub", "mul", "div") for kind in ("ps", "pd")),
    *(f"{name} %xmm1, %xmm2; setz %al; setc %ah" for name in ("vcomiss", "vucomiss", "vcomisd", "vucomisd")),
    "vucomisd %xmm1, %xmm1; setz %al; setc %ah",
    "vcvtsi2sd %ecx, %xmm1, %xmm3",
    "vcvtsi2sd %rcx, %xmm1, %xmm3",
    "vcvtsi2ss %ecx, %xmm1, %xmm3",
    "vcvtss2sd %xmm1, %xmm2, %xmm3",
    "vcvtsd2ss %xmm1, %xmm2, %xmm3",
    "vcvttss2si %xmm1, %eax",
    "vcvttsd2si %xmm1, %rax",
]
# The same of AVX-512, whose result is zmm3; k1 and k2 are masks, k3 is a result.
EVEX = [
    *(f"{name} %zmm1, %zmm2, %zmm3" for name in ("vpxord", "vpxorq", "vpandd", "vporq", "vpandnq", "vxorps", "vandpd")),
    "vpxord %ymm17, %ymm18, %ymm3",
    "vmovdqa64 %zmm1, %zmm20; vmovdqa64 %zmm20, %zmm3",
    "vpxord %xmm16, %xmm16, %xmm16; vmovdqa64 %zmm16, %zmm3",
    "vmovdqu %xmm1, %xmm3",  # a VEX-encoded result clears all above it
    "vmovdqa %ymm1, %ymm3",
    "vzeroupper; vmovdqa64 %zmm1, %zmm3",
    *(f"vmovdqu{bits} (%rdi), %zmm3" for bits in (8, 16, 32, 64)),
    *(f"vmovdqu{bits} (%rdi), %zmm3{{%k1}}" for bits in (8, 16, 32, 64)),
    *(f"vmovdqu{bits} (%rdi), %ymm3{{%k2}}{{z}}" for bits in (8, 16, 32, 64)),
    *(f"vmovdqu{bits} %zmm1, 64(%rdx){{%k1}}" for bits in (8, 16, 32, 64)),
    *(f"{name} %zmm1, 64(%rdx)" for name in ("vmovups", "vmovapd", "vmovdqa32", "vmovdqa64", "vmovntdq", "vmovdqu64")),
    "vmovdqu64 %xmm17, 64(%rdx)",
    "vmovups (%rdi), %zmm3{%k1}{z}",
    "vmovapd %zmm1, %zmm3{%k2}",
    *(
        f"v{name}{kind} $3, %{part}1, %zmm2, %zmm3"
        for name, kind, part in (("inserti", "32x4", "xmm"), ("insertf", "64x2", "xmm"))
    ),
    "vinserti64x4 $1, %ymm1, %zmm2, %zmm3",
    "vinsertf32x8 $0, (%rdi), %zmm2, %zmm3",
    "vinserti64x2 $1, %xmm1, %ymm2, %ymm3",
    "vextracti32x4 $3, %zmm1, %xmm3",
    "vextractf64x4 $1, %zmm1, %ymm3",
    "vextracti64x2 $2, %zmm1, 64(%rdx)",
    *(f"vpbroadcast{letter} %ecx, %zmm3" for letter in "bwd"),
    "vpbroadcastq %rcx, %zmm3",
    "vpbroadcastq %rcx, %xmm3",
    "vpbroadcastd %ecx, %ymm3{%k1}",
    *(f"vpbroadcast{letter} %xmm1, %zmm3" for letter in "bwdq"),
    "vpbroadcastq (%rdi), %zmm3{%k1}{z}",
    "vbroadcastss %xmm1, %zmm3",
    *(f"vbroadcast{part} (%rdi), %zmm3" for part in ("i32x4", "f64x2", "i32x8", "f64x4", "sd")),
    *(f"vpadd{letter} %zmm1, %zmm2, %zmm3" for letter in "bwdq"),
    "vpaddd %zmm1, %zmm2, %zmm3{%k1}",
    "vpsubq %zmm1, %zmm2, %zmm3{%k2}{z}",
    "vpaddd (%rdi){1to16}, %zmm2, %zmm3",
    "vpandq (%rdi){1to4}, %ymm2, %ymm3",
    "vpsllq $5, %zmm1, %zmm3",
    "vpminuq %zmm1, %zmm2, %zmm3",
    "vpunpcklqdq %zmm1, %zmm2, %zmm3",
    "vpunpckhdq %zmm1, %zmm2, %zmm3",
    "vpshufd $0x1b, %zmm1, %zmm3",
    "vpshufb %zmm1, %zmm2, %zmm3",
    "vpalignr $5, %zmm1, %zmm2, %zmm3",
    "vpermq $0x1b, %zmm1, %zmm3",
    "vpermq %zmm1, %zmm2, %zmm3",
    "vpermd %zmm1, %zmm2, %zmm3",
    "vshufi32x4 $0x9c, %zmm1, %zmm2, %zmm3",
    "vshufi64x2 $0x2, %ymm1, %ymm2, %ymm3",
    "valignq $3, %zmm1, %zmm2, %zmm3",
    "valignd $5, %ymm1, %ymm2, %ymm3",
    *(f"vpternlogd ${number}, %zmm1, %zmm2, %zmm3" for number in (0xFF, 0x96, 0xCA)),
    "vpternlogq $0x2d, (%rdi), %ymm2, %ymm3{%k1}",
    "vpinsrq $1, %rcx, %xmm17, %xmm3",
    "vmovq %rcx, %xmm18; vpinsrd $2, %ecx, %xmm18, %xmm3",
    "vmovdqa64 %zmm1, %zmm19; vpextrq $1, %xmm19, %rax",
    "vmovdqa64 %zmm1, %zmm19; vmovq %xmm19, 64(%rdx)",
    "vmovdqa64 %zmm1, %zmm19; vmovq %xmm19, 72(%rdx)",
    "vmovdqa64 %zmm1, %zmm19; vmovq %xmm19, 65(%rdx)",
    "vmovdqa64 %zmm1, %zmm19; vmovd %xmm19, 64(%rdx)",
    "vmovdqa64 %zmm1, %zmm19; vmovhps %xmm19, 64(%rdx)",
    "vmovdqa64 %zmm1, %zmm19; vpunpcklqdq %xmm19, %xmm2, %xmm3",
    *(f"vpcmpeq{letter} %zmm1, %zmm2, %k3; kmovq %k3, %rax" for letter in "bwdq"),
    *(f"vpcmpgt{letter} %ymm1, %ymm2, %k3; kmovq %k3, %rax" for letter in "bwdq"),
    *(f"vpcmpu{letter} ${number}, %zmm1, %zmm2, %k3; kmovq %k3, %rax" for letter in "bq" for number in (1, 2, 4, 5, 6)),
    "vpcmpd $5, %zmm1, %zmm2, %k3{%k1}; kmovq %k3, %rax",
    "vptestmd %zmm1, %zmm2, %k3; kmovq %k3, %rax",
    "vptestnmb %zmm1, %zmm1, %k3{%k2}; kmovq %k3, %rax",
    *(f"kmov{letter} %k1, %eax" for letter in "bwd"),
    "kmovd %ecx, %k3; kmovq %k3, %rax",
    "kmovq %k2, 64(%rdx)",
    "kmovw (%rdi), %k3; kmovd %k3, %eax",
    *(f"k{name}{letter} %k1, %k2, %k3; kmovq %k3, %rax" for name in ("or", "and", "xor", "xnor") for letter in "wq"),
    "knotd %k1, %k3; kmovq %k3, %rax",
    "kortestd %k1, %k2; setz %al; setc %ah",
    "kxnorw %k3, %k3, %k3; kortestw %k3, %k3; setz %al; setc %ah",
]
_SIZE = 192


def _has(*features: str) -> bool:
    information = Path("/proc/cpuinfo")
    known = information.read_text().split() if platform.machine() == "x86_64" and information.is_file() else []
    return set(features) <= set(known)


pytestmark = pytest.mark.skipif(
    not (_has("avx2") and shutil.which("gcc")), reason="needs a processor with AVX2, and gcc"
)
needs_avx512 = pytest.mark.skipif(
    not _has("avx512f", "avx512bw", "avx512dq", "avx512vl"), reason="needs a processor with AVX-512"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vector")
    text = []
    for number, instruction in enumerate(INSTRUCTIONS + FLOATS):
        text.append(
            f".globl case_{number}\n.type case_{number}, @function\ncase_{number}:\n"
            "vmovups (%rdi), %ymm1\nvmovups (%rsi), %ymm2\nvmovups 32(%rsi), %ymm3\n"
            "xor %eax, %eax\nmov $-123456789, %rcx\n"
            f"{instruction}\n"
            "vmovups %ymm3, (%rdx)\nmov %rax, 32(%rdx)\nvzeroupper\nret\n"
        )
    for number, instruction in enumerate(EVEX, len(INSTRUCTIONS + FLOATS)):
        text.append(
            f".globl case_{number}\n.type case_{number}, @function\ncase_{number}:\n"
            "vmovups (%rdi), %zmm1\nvmovups (%rsi), %zmm2\nvmovups 32(%rsi), %zmm3\n"
            "vmovups 8(%rdi), %zmm17\nvmovups 8(%rsi), %zmm18\nkmovq (%rdi), %k1\nkmovq (%rsi), %k2\n"
            "xor %eax, %eax\nmov $-123456789, %rcx\n"
            f"{instruction}\n"
            "vmovups %zmm3, 128(%rdx)\nmov %rax, 32(%rdx)\nvzeroupper\nret\n"
        )
    (folder / "cases.s").write_text("".join(text))
    subprocess.run(["gcc", "-shared", "-nostdlib", "cases.s", "-o", "cases.so"], check=True, cwd=folder)
    return folder / "cases.so"


@pytest.fixture(scope="module")
def process(library: Path) -> EmulatedProcess:
    return EmulatedProcess(ElfFile.open(library), Machine.X86_64, lambda _: None, lambda *_: None)


def _real(library: Path, number: int, first: bytes, second: bytes) -> bytes:
    room = [ctypes.create_string_buffer(_SIZE + 64) for _ in range(3)]
    addresses = [ctypes.addressof(buffer) + 63 & ~63 for buffer in room]
    for address, content in zip(addresses, (first, second, bytes(_SIZE)), strict=True):
        ctypes.memmove(address, content, len(content))
    ctypes.CDLL(str(library))[f"case_{number}"](*map(ctypes.c_void_p, addresses))
    return ctypes.string_at(addresses[2], _SIZE)


def _emulated(process: EmulatedProcess, number: int, first: bytes, second: bytes) -> bytes:
    addresses = [process.allocate(_SIZE, 64) for _ in range(3)]
    for address, content in zip(addresses, (first, second, bytes(_SIZE)), strict=True):
        process.machine.write(address, content)
    start = process.image.definition_of(f"case_{number}")
    assert start is not None
    process.machine.start(BASE + start, tuple(addresses), 1000)
    return process.machine.read(addresses[2], _SIZE)


@pytest.mark.parametrize(("number", "instruction"), list(enumerate(INSTRUCTIONS)), ids=INSTRUCTIONS)
def test_does_what_the_processor_does(library: Path, process: EmulatedProcess, number: int, instruction: str) -> None:
    source = random.Random(instruction)
    for _ in range(3):
        first, second = source.randbytes(96), source.randbytes(96)
        first = first[:8] + second[:8] + first[16:]  # some lanes are equal
        assert _emulated(process, number, first, second) == _real(library, number, first, second)


@pytest.mark.parametrize(("number", "instruction"), list(enumerate(FLOATS, len(INSTRUCTIONS))), ids=FLOATS)
def test_computes_what_the_processor_computes(
    library: Path, process: EmulatedProcess, number: int, instruction: str
) -> None:
    kind = "d" if "sd" in instruction.split(maxsplit=1)[0] or "pd" in instruction.split(maxsplit=1)[0] else "f"
    count = 64 // ctypes.sizeof(ctypes.c_double if kind == "d" else ctypes.c_float)
    scalar = ctypes.c_double if kind == "d" else ctypes.c_float
    first = bytes((scalar * count)(*(1.5 * index + 0.25 for index in range(count)))).ljust(96, b"\0")
    second = bytes((scalar * count)(*(7.0 - index for index in range(count)))).ljust(96, b"\0")
    if "2ss" in instruction or "2sd" in instruction or "tt" in instruction:
        wide = "sd2" in instruction
        first = bytes((ctypes.c_double * 4)(-3.75, 2, 3, 4) if wide else (ctypes.c_float * 8)(-3.75, 2, 3)).ljust(
            96, b"\0"
        )
    assert _emulated(process, number, first, second) == _real(library, number, first, second)


@needs_avx512
@pytest.mark.parametrize(("number", "instruction"), list(enumerate(EVEX, len(INSTRUCTIONS + FLOATS))), ids=EVEX)
def test_does_what_a_processor_with_avx_512_does(
    library: Path, process: EmulatedProcess, number: int, instruction: str
) -> None:
    source = random.Random(instruction)
    for _ in range(3):
        first, second = source.randbytes(128), source.randbytes(128)
        first = first[:8] + second[:8] + first[16:48] + second[48:]
        assert _emulated(process, number, first, second) == _real(library, number, first, second)
