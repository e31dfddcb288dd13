"""Every vector instruction that is done in Python, against the processor of the machine that runs the tests."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.loader import BASE
from abiscan.emulation.process import EmulatedProcess
from tests.processor import needs_avx2, needs_avx512

# Operands: ymm1, ymm2 (and their low halves) hold the inputs, ymm3 the result; (%rdi), (%rsi) are the inputs in memory,
# 64(%rdx) is memory for results, rax a result that is not a vector, rcx an input that is none.
_OVERFLOW = "mov $0x7fffffff, %eax; add $1, %eax"
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
    *(f"{name}{count}, %ymm1, %ymm3" for count in (15, 16, 31, 32, 63, 64, 200) for name in ("vpsllw $", "vpsrld $")),
    *(f"vpsllq ${count}, %ymm1, %ymm3" for count in (63, 64, 77)),
    # The count is in the low 64 bits of a register: here at most 15, and at most 31.
    "vpsrlq $60, %xmm1, %xmm1; vpsllw %xmm1, %ymm2, %ymm3",
    "vpsrlq $59, %xmm1, %xmm1; vpsrld %xmm1, %ymm2, %ymm3",
    "vpsllq %xmm1, %ymm2, %ymm3",
    *(f"{name} ${count}, %ymm1, %ymm3" for count in (0, 15, 16, 17) for name in ("vpslldq", "vpsrldq")),
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
    *(f"vpalignr ${count}, %ymm1, %ymm2, %ymm3" for count in (0, 16, 21, 31, 32, 40)),
    *(f"vshufps ${number}, %ymm1, %ymm2, %ymm3" for number in (0x00, 0x1B, 0xE4, 0xFF)),
    *(f"vpermq ${number}, %ymm1, %ymm3" for number in (0x00, 0x93, 0xE4)),
    "vpermq $0x1b, %ymm1, %ymm3",
    "vpermpd $0x4e, %ymm1, %ymm3",
    *(f"vperm2i128 ${number}, %ymm1, %ymm2, %ymm3" for number in (0x21, 0x02, 0x10, 0x13, 0x08, 0x80, 0x31)),
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
    "vpinsrb $25, %ecx, %xmm1, %xmm3",  # of the number just the bits count that a lane has
    "vpinsrd $7, %ecx, %xmm1, %xmm3",
    "vpextrw $13, %xmm1, %eax",
    "vpextrq $3, %xmm1, %rax",
    "vpextrb $15, %xmm1, 64(%rdx)",
    "vpextrd $3, %xmm1, 64(%rdx)",
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
    "vpxor %ymm3, %ymm3, %ymm3; vptest %ymm3, %ymm2; setz %al; setc %ah",
    "vpcmpeqd %ymm3, %ymm3, %ymm3; vptest %ymm1, %ymm3; setz %al; setc %ah",
    "vpand %xmm1, %xmm2, %xmm3; vptest %xmm3, %xmm2; setz %al; setc %ah",
    "vpandn %xmm1, %xmm2, %xmm3; vptest %xmm3, %xmm2; setz %al; setc %ah",
    # These flags are cleared: they are all set before, by an overflow.
    *(
        f"{_OVERFLOW}; {test}; mov $0, %eax; lahf; seto %al"
        for test in ("vptest %ymm1, %ymm2", "vucomisd %xmm1, %xmm2", "vcomiss %xmm2, %xmm1")
    ),
    # The forms of an address.
    "vmovdqu 8(%rdi), %ymm3",
    "add $16, %rdi; vmovdqu -8(%rdi), %ymm3",
    "mov $3, %ecx; vmovdqu (%rdi,%rcx,8), %ymm3",
    "mov $-3, %rcx; vmovdqu 64(%rdi,%rcx,4), %ymm3",
    "mov $16, %ecx; vmovdqu (%rdi,%rcx), %ymm3",
    "sub %rsi, %rdi; vmovdqu 8(%rdi,%rsi), %ymm3",
    'vmovdqu 1f(%rip), %xmm3; jmp 2f; 1: .ascii "sixteen bytes or"; 2:',
    "vmovq %fs:0, %xmm3; mov %fs:0, %rcx; vmovq %rcx, %xmm4; vpsubq %xmm4, %xmm3, %xmm3",
    # All registers are told apart, and the upper halves of those that are not written stay.
    *(f"vmovdqa %ymm1, %ymm{number}; vpaddd %ymm{number}, %ymm2, %ymm3" for number in (4, 7, 8, 15)),
    "vmovdqa %ymm1, %ymm15; vzeroupper; vmovdqa %ymm15, %ymm3",
    "vmovdqa %ymm1, %ymm15; vzeroall; vpor %ymm2, %ymm15, %ymm3",
    "vmovdqa %ymm1, %ymm4; vzeroall; vmovdqa %ymm4, %ymm3",
    "movdqa %xmm1, %xmm2; vmovdqa %ymm2, %ymm3",  # the SSE form keeps the upper half
    *(
        f"vpextrd $1, %xmm1, %{low}; mov %{wide}, %rax"
        for low, wide in (("r8d", "r8"), ("r11d", "r11"), ("r9d", "r9"), ("r10d", "r10"), ("ecx", "rcx"))
    ),
    *(
        f"push %{wide}; mov $-1, %{wide}; vmovd %xmm1, %{low}; mov %{wide}, %rax; pop %{wide}"
        for low, wide in (
            ("ebx", "rbx"),
            ("ebp", "rbp"),
            ("esi", "rsi"),
            ("edi", "rdi"),
            ("r12d", "r12"),
            ("r15d", "r15"),
        )
    ),
]
FLOATS = [
    *(f"v{name}{kind} %xmm1, %xmm2, %xmm3" for name in ("add", "sub", "mul", "div") for kind in ("ss", "sd")),
    *(f"v{name}{kind} %ymm1, %ymm2, %ymm3" for name in ("add", "sub", "mul", "div") for kind in ("ps", "pd")),
    *(f"{name} %xmm1, %xmm2; setz %al; setc %ah" for name in ("vcomiss", "vucomiss", "vcomisd", "vucomisd")),
    "vucomisd %xmm1, %xmm1; setz %al; setc %ah",
    # Less, equal, and unordered with no number on either side.
    *(
        f"vpcmpeqd %xmm4, %xmm4, %xmm4; {name} {operands}; mov $0, %eax; lahf; seto %al"
        for name in ("vcomiss", "vucomisd")
        for operands in (
            "%xmm2, %xmm1",
            "%xmm1, %xmm1",
            "%xmm4, %xmm1",
            "%xmm1, %xmm4",
            "%xmm4, %xmm4",
            "(%rdi), %xmm2",
        )
    ),
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
    *(
        f"k{first}{letter} %k3, %k3, %k3; kortest{letter} %k3, %k3; setz %al; setc %ah"
        for first in ("xor", "xnor")
        for letter in "bwdq"
    ),
    f"{_OVERFLOW}; kortestq %k1, %k2; mov $0, %eax; lahf; seto %al",
    "kxnorw %k3, %k3, %k3; kortestb %k3, %k1; setz %al; setc %ah",  # of a mask just the bits of the width count
    "kxnorb %k3, %k3, %k3; kortestw %k3, %k3; setz %al; setc %ah",
    "kxnorb %k3, %k3, %k3; kortestb %k1, %k3; setz %al; setc %ah",
    *(f"kmov{letter} %k1, 64(%rdx)" for letter in "bwdq"),
    *(f"kmov{letter} (%rdi), %k3; kmovq %k3, %rax" for letter in "bwdq"),
    *(f"kmov{letter} %ecx, %k3; kmovq %k3, %rax" for letter in "bwd"),
    "kmovq %rcx, %k3; kmovq %k3, %rax",
    *(f"kmov{letter} %k1, %k3; kmovq %k3, %rax" for letter in "bwdq"),
    *(f"kmov{letter} %k1, %ecx; mov %rcx, %rax" for letter in "bwd"),
    *(f"k{name}{letter} %k1, %k2, %k3; kmovq %k3, %rax" for name in ("or", "and", "xor", "xnor") for letter in "bd"),
    *(f"knot{letter} %k1, %k3; kmovq %k3, %rax" for letter in "bwq"),
    "kmovq %k1, %k0; kmovq %k2, %k7; kxorq %k0, %k7, %k3; kmovq %k3, %rax",
    "vpcmpeqd %zmm1, %zmm2, %k0; kmovq %k0, %rax",
    "vpcmpeqd %zmm1, %zmm2, %k7; kmovq %k7, %rax",
    "vpcmpeqd %xmm1, %xmm2, %k3; kmovq %k3, %rax",
    *(f"vpcmp{letter} ${number}, %zmm1, %zmm2, %k3; kmovq %k3, %rax" for letter in "dw" for number in (1, 2, 4, 5, 6)),
    *(f"vptest{kind}m{letter} %zmm1, %zmm2, %k3; kmovq %k3, %rax" for kind in ("", "n") for letter in "bwdq"),
    # Lanes that a mask leaves out are not touched: nothing is at address 0.
    *(f"kxorq %k3, %k3, %k3; vmovdqu{bits} 0, %zmm3{{%k3}}" for bits in (8, 16, 32, 64)),
    "kxorq %k3, %k3, %k3; vmovdqu32 %zmm1, 0{%k3}",
    "kxorq %k3, %k3, %k3; vmovups 0, %ymm3{%k3}{z}",
    "kxorq %k3, %k3, %k3; vmovupd 0, %xmm3{%k3}{z}",
    *(f"vmov{kind} %{part}1, 64(%rdx){{%k1}}" for kind in ("ups", "upd") for part in ("xmm", "ymm", "zmm")),
    *(f"vmov{kind} (%rdi), %{part}3{{%k1}}" for kind in ("aps", "apd") for part in ("xmm", "ymm")),
    *(f"vpadd{letter} %zmm1, %zmm2, %zmm3{{%k1}}" for letter in "bwdq"),
    *(f"v{name} %ymm1, %ymm2, %ymm3{{%k1}}{{z}}" for name in ("xorps", "xorpd", "pandd", "porq")),
    *(f"vpsll{letter} $3, %zmm1, %zmm3{{%k1}}" for letter in "wdq"),
    "vpaddq (%rdi){1to8}, %zmm2, %zmm3{%k1}",
    "vpaddd (%rdi){1to4}, %xmm2, %xmm3{%k2}{z}",
    # What comes of the bytes, words, ... of the sources is masked by them, whatever letter the name ends with.
    *(f"vpunpck{side}{kind} %zmm1, %zmm2, %zmm3{{%k1}}" for side in "lh" for kind in ("bw", "wd", "dq", "qdq")),
    # Above a masked number stays what the first source has there.
    *(
        f"vcvtsi2{kind} %rcx, %xmm1, %xmm1; vcvtsi2{kind} %ecx, %xmm2, %xmm2; v{name}{kind} %xmm1, %xmm2, %xmm3{how}"
        for name, kind, how in (
            *(("add", "ss", "{%k1}"), ("mul", "sd", "{%k1}"), ("sub", "ss", "{%k2}{z}")),
            *(("div", "sd", "{%k2}{z}"), ("add", "sd", "{%k2}"), ("mul", "ss", "{%k1}{z}")),
        )
    ),
    "vunpcklps %ymm1, %ymm2, %ymm3{%k1}",
    "vunpckhpd %ymm1, %ymm2, %ymm3{%k1}",
    "vpmuludq %zmm1, %zmm2, %zmm3{%k1}",
    "vpmulld %zmm1, %zmm2, %zmm3{%k1}",
    "vpshufd $0x1b, %zmm1, %zmm3{%k1}",
    "vpshufb %zmm1, %zmm2, %zmm3{%k1}",
    "vpermq $0x1b, %zmm1, %zmm3{%k1}",
    "vpermd %zmm1, %zmm2, %zmm3{%k1}",
    "valignq $1, %zmm1, %zmm2, %zmm3{%k1}",
    "vshuff64x2 $0x4e, %zmm1, %zmm2, %zmm3{%k1}",
    "vshufi32x4 $0x1b, %zmm1, %zmm2, %zmm3{%k1}",
    "vpbroadcastb %xmm1, %zmm3{%k1}",
    "vpbroadcastw %ecx, %ymm3{%k1}",
    "vbroadcastsd %xmm1, %zmm3{%k1}",
    "vbroadcasti32x4 (%rdi), %zmm3{%k1}",
    "vbroadcastf32x2 %xmm1, %zmm3{%k1}",
    "vinserti32x4 $1, %xmm1, %zmm2, %zmm3{%k1}",
    "vextracti32x4 $2, %zmm1, %xmm3{%k1}{z}",
    "vextractf64x2 $2, %zmm1, 64(%rdx){%k1}",
    "vextracti32x8 $1, %zmm1, 64(%rdx){%k1}",
    "vpternlogd $0x1e, %zmm1, %zmm2, %zmm3{%k1}",
    "vpternlogd $0x80, (%rdi){1to16}, %zmm2, %zmm3",
    *(f"vinserti32x4 ${number}, %xmm1, %zmm2, %zmm3" for number in (0, 1, 2)),
    *(f"vinsertf32x8 ${number}, %ymm1, %zmm2, %zmm3" for number in (0, 1)),
    *(f"vextractf32x4 ${number}, %zmm1, %xmm3" for number in (0, 1, 2)),
    *(f"vshuff32x4 ${number}, %zmm1, %zmm2, %zmm3" for number in (0x1B, 0xE4)),
    *(f"vshuff64x2 ${number}, %ymm1, %ymm2, %ymm3" for number in (0, 1, 3)),
    *(f"valignd ${number}, %zmm1, %zmm2, %zmm3" for number in (0, 1, 15, 16, 19)),
    *(f"vpermpd ${number}, %zmm1, %zmm3" for number in (0x00, 0x93)),
    "vmovdqa64 %zmm1, %zmm17; vzeroupper; vmovdqa64 %zmm17, %zmm3",
    "vmovdqa64 %zmm1, %zmm16; vzeroall; vmovdqa64 %zmm16, %zmm3",
    "vmovdqa64 %zmm1, %zmm15; vzeroupper; vmovdqa64 %zmm15, %zmm3",
    *(f"vmovdqa64 %zmm1, %zmm{number}; vpaddq %zmm{number}, %zmm2, %zmm3" for number in (0, 15, 16, 31)),
]
_TWO = "mov (%rdi), %rcx; mov (%rsi), %r8"
_FLAGS = "mov $0, %eax; seto %al; lahf; and $0xc1ff, %eax"  # the overflow, and of the others sign, zero and carry
NEWER = [
    *(f"{name} %xmm1, %xmm3" for name in ("aesenc", "aesenclast", "aesdec", "aesdeclast", "aesimc")),
    "aeskeygenassist $0x1b, %xmm1, %xmm3",
    "vaesenc %xmm1, %xmm2, %xmm3",
    *(f"pclmulqdq ${number}, %xmm1, %xmm3" for number in (0x00, 0x01, 0x10, 0x11)),
    *(f"pmov{sign}x{widths} %xmm1, %xmm3" for sign in "sz" for widths in ("bw", "bd", "bq", "wd", "wq", "dq")),
    "vpmovsxbq %xmm1, %ymm3",
    "pmovzxbd (%rdi), %xmm3",
    *(f"p{name} %xmm1, %xmm3" for name in ("shufb", "signb", "signw", "signd", "absb", "absw", "absd")),
    *(f"p{name} %xmm1, %xmm3" for name in ("haddw", "haddd", "haddsw", "hsubw", "hsubd", "hsubsw", "maddubsw")),
    *(f"p{name} %xmm1, %xmm3" for name in ("mulhrsw", "muldq", "mulld", "ackusdw", "hminposuw", "sadbw", "avgb")),
    *(f"vp{name} %ymm1, %ymm2, %ymm3" for name in ("haddw", "maddwd", "mulhw", "mulhuw", "mullw", "sadbw", "avgw")),
    *(f"vp{name} %ymm1, %ymm2, %ymm3" for name in ("acksswb", "ackuswb", "ackssdw", "ackusdw")),
    *(f"vp{name}s{letter} %ymm1, %ymm2, %ymm3" for name in ("min", "max") for letter in "bwd"),
    *(f"vp{name}{letters} %ymm1, %ymm2, %ymm3" for name in ("add", "sub") for letters in ("sb", "sw", "usb", "usw")),
    *(f"p{name}{letters} %xmm1, %xmm3" for name in ("add", "sub") for letters in ("sb", "sw", "usb", "usw")),
    *(f"vpsra{letter} $5, %ymm1, %ymm3" for letter in "wd"),
    *(f"vpshuf{half}w $0x1b, %ymm1, %ymm3" for half in "lh"),
    *(f"vshufpd ${number}, %ymm1, %ymm2, %ymm3" for number in (2, 5, 15)),
    "vshufpd $2, 16(%rdi), %xmm2, %xmm3",
    *(f"vpblendw ${number}, %ymm1, %ymm2, %ymm3" for number in (0xA5, 0x0F)),
    "pblendw $0x5a, %xmm1, %xmm3",
    "blendps $5, %xmm1, %xmm3",
    "vblendpd $9, %ymm1, %ymm2, %ymm3",
    *(f"movdqa %xmm2, %xmm0; {name} %xmm0, %xmm1, %xmm3" for name in ("pblendvb", "blendvps", "blendvpd")),
    *(f"v{name} %ymm2, %ymm1, %ymm2, %ymm3" for name in ("pblendvb", "blendvps", "blendvpd")),
    *(f"vp{name}v{letter} %ymm1, %ymm2, %ymm3" for name in ("sll", "srl") for letter in "dq"),
    "vpsrlq $59, %ymm1, %ymm1; vpsravd %ymm1, %ymm2, %ymm3",
    "vpermilps %ymm1, %ymm2, %ymm3",
    "vpermilps $0x1b, %ymm1, %ymm3",
    "vpermilpd %ymm1, %ymm2, %ymm3",
    "vpermilpd $0x6, %ymm1, %ymm3",
    *(f"insertps ${number}, %xmm1, %xmm3" for number in (0x00, 0x95, 0xFF)),
    "insertps $0x90, (%rdi), %xmm3",
    "extractps $2, %xmm1, %eax",
    "extractps $3, %xmm1, 64(%rdx)",
    "movshdup %xmm1, %xmm3; vmovsldup %ymm1, %ymm2; vpaddd %ymm2, %ymm3, %ymm3",
    "lddqu (%rdi), %xmm3",
    "movntdqa 32(%rdi), %xmm3",
    *(f"{_TWO}; {name} %rcx, %r8, %rax" for name in ("andn", "bextr", "bzhi", "pdep", "pext", "shlx", "sarx", "shrx")),
    *(f"{_TWO}; {name} %ecx, %r8d, %eax" for name in ("andn", "bextr", "bzhi", "pdep", "pext", "shlx", "sarx", "shrx")),
    *(f"{_TWO}; {name} %rcx, %rax" for name in ("blsi", "blsr", "blsmsk", "tzcnt", "lzcnt")),
    *(f"{_TWO}; {name} %rcx, %r8, %rax; {_FLAGS}" for name in ("andn", "bzhi")),
    *(f"{_TWO}; {name} %ecx, %eax; {_FLAGS}" for name in ("blsi", "blsr", "blsmsk")),
    *(f"xor %ecx, %ecx; {name} %rcx, %rax; {_FLAGS}" for name in ("blsi", "blsr", "blsmsk")),
    "xor %ecx, %ecx; tzcnt %rcx, %rax; lzcnt %ecx, %ecx; lea (%rax,%rcx), %rax",
    f"{_TWO}; rorx $13, %rcx, %rax; rorx $3, %r8d, %ecx; xor %rcx, %rax",
    f"{_TWO}; mov %rdx, %r9; mov %rcx, %rdx; mulx %r8, %rcx, %rax; mov %r9, %rdx; xor %rcx, %rax",
    *(f"{_TWO}; mov %rcx, %rax; crc32{operand}" for operand in ("b %r8b, %eax", "w %r8w, %eax", "q %r8, %rax")),
    "movbe (%rdi), %rax",
    "movbe (%rdi), %eax",
    "mov $-1, %rax; movbe (%rdi), %ax",
    "movbe %ecx, 64(%rdx)",
]
NEWER_FLOATS = [
    *(f"{name}p{letter} %xmm1, %xmm3" for name in ("hadd", "hsub", "addsub") for letter in "sd"),
    *(f"{name}{kind} %xmm1, %xmm3" for name in ("min", "max", "sqrt") for kind in ("ps", "pd", "ss", "sd")),
    *(f"vround{kind} $1, %ymm1, %ymm3" for kind in ("ps", "pd")),
    *(f"rounds{letter} ${mode}, %xmm1, %xmm3" for letter in "sd" for mode in range(4)),
    "vroundss $2, %xmm1, %xmm2, %xmm3",
    "dpps $0x71, %xmm1, %xmm3",
    "dppd $0x31, %xmm1, %xmm3",
    *(
        f"vf{name}{order}{kind} %ymm1, %ymm2, %ymm3"
        for name in ("madd", "msub", "nmadd", "nmsub", "maddsub", "msubadd")
        for order in ("132", "213", "231")
        for kind in ("ps", "pd")
    ),
    *(f"vf{name}231{kind} %xmm1, %xmm2, %xmm3" for name in ("madd", "nmsub") for kind in ("ss", "sd")),
    "vcvtps2ph $0, %ymm1, %xmm3; vcvtph2ps %xmm3, %ymm3",
    "vcvtps2ph $4, %xmm1, 64(%rdx)",
    "vcvtps2pd %xmm1, %ymm3",
    "vcvtpd2ps %ymm1, %xmm3",
    "vcvttps2dq %ymm1, %ymm3; vcvtdq2ps %ymm3, %ymm2; vaddps %ymm2, %ymm1, %ymm3",
    "vcvtps2dq %ymm1, %ymm3",
    "vcvttps2dq %ymm1, %ymm3; vcvtdq2pd %xmm3, %ymm3",
]
INSTRUCTIONS += NEWER
FLOATS += NEWER_FLOATS
LEGACY = INSTRUCTIONS + FLOATS
_SIZE = 192


pytestmark = [needs_avx2, pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vector")
    text = []
    for number, instruction in enumerate(LEGACY):
        text.append(
            f".globl case_{number}\n.type case_{number}, @function\ncase_{number}:\n"
            "vmovups (%rdi), %ymm1\nvmovups (%rsi), %ymm2\nvmovups 32(%rsi), %ymm3\n"
            "xor %eax, %eax\nmov $-123456789, %rcx\n"
            f"{instruction}\n"
            "vmovups %ymm3, (%rdx)\nmov %rax, 32(%rdx)\nvzeroupper\nret\n"
        )
    for number, instruction in enumerate(EVEX, len(LEGACY)):
        text.append(
            f".globl case_{number}\n.type case_{number}, @function\ncase_{number}:\n"
            "vmovups (%rdi), %zmm1\nvmovups (%rsi), %zmm2\nvmovups 32(%rsi), %zmm3\n"
            "vmovups 8(%rdi), %zmm17\nvmovups 8(%rsi), %zmm18\nkmovq (%rdi), %k1\nkmovq (%rsi), %k2\n"
            "xor %eax, %eax\nmov $-123456789, %rcx\n"
            f"{instruction}\n"
            "vmovups %zmm3, 128(%rdx)\nmov %rax, 32(%rdx)\nvzeroupper\nret\n"
        )
    (folder / "cases.s").write_text("".join(text))
    # Assembly that says nothing of its stack is linked as if it ran code there, which glibc 2.41 refuses to load.
    command = ["gcc", "-shared", "-nostdlib", "-Wl,-z,noexecstack", "cases.s", "-o", "cases.so"]
    subprocess.run(command, check=True, cwd=folder)
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
        first = first[:8] + second[8:16] + first[16:]  # some lanes are equal
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
@pytest.mark.parametrize(("number", "instruction"), list(enumerate(EVEX, len(LEGACY))), ids=EVEX)
def test_does_what_a_processor_with_avx_512_does(
    library: Path, process: EmulatedProcess, number: int, instruction: str
) -> None:
    source = random.Random(instruction)
    for _ in range(3):
        first, second = source.randbytes(128), source.randbytes(128)
        first = first[:8] + second[8:16] + first[16:48] + second[48:]
        assert _emulated(process, number, first, second) == _real(library, number, first, second)
