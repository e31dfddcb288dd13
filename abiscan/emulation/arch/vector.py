"""Instructions of x86-64 that icicle does not implement, executed in Python: those for vectors, and BMI and its like.

icicle knows most SSE encodings and a few of the VEX ones. Initialisers of objects built with ``-mavx2`` or
``-march=...`` mostly move and clear memory with the others. capstone decodes them; what they do is taken from the
descriptions in the Intel SDM, volume 2. What is not done here is reported by its text.

icicle executes the few VEX instructions that it accepts incorrectly: its registers end at 128 bits, and it silently
drops the rest. So these instructions are found when code is mapped (``vex.suspects``), and executed here as well;
icicle holds the low 128 bits of the first sixteen registers, and this module the rest of the 32 registers of 512 bits,
and the masks. A VEX-encoded or EVEX-encoded result clears the bits above it; without these prefixes they stay.
"""

from __future__ import annotations

import itertools
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Final

import capstone  # type: ignore[import-untyped]
from capstone import x86

from abiscan.emulation.arch import general, newer_vectors
from abiscan.emulation.arch.lanes import (
    XMM_BYTES,
    Bytes,
    Operation,
    UnsupportedError,
    biased,
    by_half,
    lanes_of,
    lanewise,
    pack,
)
from abiscan.emulation.arch.memory import Memory
from abiscan.emulation.processor import Processor
from abiscan.regex import regex

_YMM_BYTES, _ZMM_BYTES = 32, 64
_ENOUGH: Final = 64  # a shift by as many bits, or more, leaves nothing of any lane
_WITH_LOW_HALF: Final = 16  # registers whose low 128 bits icicle knows

_LOW, _HIGH = slice(8), slice(8, 16)  # of 128 bits


def _shift(width: int, function: Callable[[int, int], int]) -> Operation:
    def apply(sources: Bytes, immediate: int) -> bytes:
        count = immediate if len(sources) == 1 else int.from_bytes(sources[1][:8], "little")
        return pack([function(lane, min(count, _ENOUGH)) for lane in lanes_of(sources[0], width)], width)

    return apply


def _unpack(width: int, *, high: bool) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        half = _HIGH if high else _LOW
        pairs = zip(lanes_of(sources[0][half], width), lanes_of(sources[1][half], width), strict=True)
        return pack([lane for pair in pairs for lane in pair], width)

    return by_half(apply)


def _shuffle_dwords(sources: Bytes, immediate: int) -> bytes:
    lanes = lanes_of(sources[0], 4)
    return pack([lanes[immediate >> 2 * at & 3] for at in range(4)], 4)


def _shuffle_floats(sources: Bytes, immediate: int) -> bytes:
    first, second = (lanes_of(source, 4) for source in sources)
    return pack([lanes[immediate >> 2 * at & 3] for at, lanes in enumerate((first, first, second, second))], 4)


def _shuffle_bytes(sources: Bytes, _: int) -> bytes:
    return bytes(0 if index & 0x80 else sources[0][index & 0xF] for index in sources[1])


def _align_right(sources: Bytes, immediate: int) -> bytes:
    return ((sources[1] + sources[0])[immediate:] + bytes(_YMM_BYTES))[:XMM_BYTES]


def _permute_halves(sources: Bytes, immediate: int) -> bytes:
    halves = [half for source in sources for half in (source[:XMM_BYTES], source[XMM_BYTES:])]
    nibbles = (immediate & 0xF, immediate >> 4)
    return b"".join(bytes(XMM_BYTES) if nibble & 8 else halves[nibble & 3] for nibble in nibbles)


def _permute_quads(sources: Bytes, immediate: int) -> bytes:
    """Arrange quads by a number, in each 256 bits; or by the lanes of the first source."""
    if len(sources) == 2:
        return _permute(8)(sources, immediate)
    lanes = lanes_of(sources[0], 8)
    return pack([lanes[at & ~3 | immediate >> 2 * (at & 3) & 3] for at in range(len(lanes))], 8)


def _permute(width: int) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        lanes = lanes_of(sources[1], width)
        return pack([lanes[index % len(lanes)] for index in lanes_of(sources[0], width)], width)

    return apply


def _shuffle_parts(sources: Bytes, immediate: int) -> bytes:
    """Combine parts of 128 bits: the lower half comes from the first source, the upper half from the second."""
    first, second = ([source[at : at + XMM_BYTES] for at in range(0, len(source), XMM_BYTES)] for source in sources)
    bits = len(first) // 2
    sides = [first] * bits + [second] * bits
    return b"".join(side[(immediate >> bits * at) % len(side)] for at, side in enumerate(sides))


def _align_lanes(width: int) -> Operation:
    def apply(sources: Bytes, immediate: int) -> bytes:
        high, low = (lanes_of(source, width) for source in sources)
        from_ = immediate % len(low)
        return pack((low + high)[from_ : from_ + len(low)], width)

    return apply


def _ternary(sources: Bytes, immediate: int) -> bytes:
    """Look each position up: the bits of the three sources are the number of a bit of ``immediate``."""
    first, second, third = (int.from_bytes(source, "little") for source in sources)
    (size,) = {len(source) for source in sources}
    all_ones, result = (1 << 8 * size) - 1, 0
    for number in filter(lambda number: immediate >> number & 1, range(8)):
        a, b, c = (value if number & bit else ~value & all_ones for value, bit in ((first, 4), (second, 2), (third, 1)))
        result |= a & b & c
    return result.to_bytes(size, "little")


def _blend_dwords(sources: Bytes, immediate: int) -> bytes:
    lanes = zip(lanes_of(sources[0], 4), lanes_of(sources[1], 4), strict=True)
    return pack([b if immediate >> at & 1 else a for at, (a, b) in enumerate(lanes)], 4)


def _insert_part(size: int) -> Operation:
    def apply(sources: Bytes, immediate: int) -> bytes:
        at = immediate % (len(sources[0]) // size) * size
        return sources[0][:at] + sources[1][:size] + sources[0][at + size :]

    return apply


def _extract_part(size: int) -> Operation:
    def apply(sources: Bytes, immediate: int) -> bytes:
        at = immediate % (len(sources[0]) // size) * size
        return sources[0][at : at + size]

    return apply


def _scalar(code: str, function: Callable[[float, float], float]) -> Operation:
    width = struct.calcsize(code)

    def apply(sources: Bytes, _: int) -> bytes:
        first, second = (struct.unpack_from(code, source)[0] for source in sources)
        return struct.pack(code, function(first, second)) + sources[0][width:]

    return apply


def _packed(code: str, function: Callable[[float, float], float]) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        first, second = (itertools.chain.from_iterable(struct.iter_unpack(code, source)) for source in sources)
        return b"".join(struct.pack(code, function(a, b)) for a, b in zip(first, second, strict=True))

    return apply


def _from_integer(code: str) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        value = float(int.from_bytes(sources[1], "little", signed=True))
        return struct.pack(code, value) + sources[0][struct.calcsize(code) :]

    return apply


def _first(sources: Bytes, _: int) -> bytes:
    return sources[0]


def _move_high(sources: Bytes, _: int) -> bytes:
    low, high = sources
    return low[_LOW] + high[_LOW]


def _move_low(sources: Bytes, _: int) -> bytes:
    high, low = sources
    return low[_LOW] + high[_HIGH]


def _high_to_low(sources: Bytes, _: int) -> bytes:
    high, low = sources
    return low[_HIGH] + high[_HIGH]


def _equal(a: int, b: int) -> int:
    return -1 if a == b else 0


def _greater(width: int) -> Callable[[int, int], int]:
    return lambda a, b: -1 if biased(a, width) > biased(b, width) else 0


def _divide(a: float, b: float) -> float:
    if b == 0:
        raise UnsupportedError("division by zero")
    return a / b


_WIDTHS: Final = (("b", 1), ("w", 2), ("d", 4), ("q", 8))
_MOVES: Final = (
    *("vlddqu", "vmovdqu", "vmovdqa", "vmovups", "vmovupd", "vmovaps", "vmovapd", "vmovntdq", "vmovntps", "vmovntpd"),
    *("vmovntdqa", "vmovdqu8", "vmovdqu16", "vmovdqu32", "vmovdqu64", "vmovdqa32", "vmovdqa64"),
)
_PARTS: Final = {"128": 16, "32x4": 16, "64x2": 16, "32x8": 32, "64x4": 32}

# What each instruction computes from its source operands (the destination left out) and its immediate.
_OPERATIONS: Final[dict[str, Operation]] = {
    **dict.fromkeys(("vpxor", "vpxord", "vpxorq", "vxorps", "vxorpd"), lanewise(8, operator.xor)),
    **dict.fromkeys(("vpand", "vpandd", "vpandq", "vandps", "vandpd"), lanewise(8, operator.and_)),
    **dict.fromkeys(("vpor", "vpord", "vporq", "vorps", "vorpd"), lanewise(8, operator.or_)),
    **dict.fromkeys(("vpandn", "vpandnd", "vpandnq", "vandnps", "vandnpd"), lanewise(8, lambda a, b: ~a & b)),
    **dict.fromkeys(("vpternlogd", "vpternlogq"), _ternary),
    **{f"vpadd{letter}": lanewise(width, operator.add) for letter, width in _WIDTHS},
    **{f"vpsub{letter}": lanewise(width, operator.sub) for letter, width in _WIDTHS},
    **{f"vpcmpeq{letter}": lanewise(width, _equal) for letter, width in _WIDTHS},
    **{f"vpcmpgt{letter}": lanewise(width, _greater(width)) for letter, width in _WIDTHS},
    **{f"vpminu{letter}": lanewise(width, min) for letter, width in _WIDTHS},
    **{f"vpmaxu{letter}": lanewise(width, max) for letter, width in _WIDTHS},
    **{f"vpsll{letter}": _shift(width, operator.lshift) for letter, width in _WIDTHS[1:]},
    **{f"vpsrl{letter}": _shift(width, operator.rshift) for letter, width in _WIDTHS[1:]},
    "vpmulld": lanewise(4, operator.mul),
    "vpmuludq": lanewise(8, lambda a, b: (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF)),
    "vpslldq": by_half(lambda sources, count: (bytes(min(count, 16)) + sources[0])[:16]),
    "vpsrldq": by_half(lambda sources, count: (sources[0][min(count, 16) :] + bytes(16))[:16]),
    "vpunpcklbw": _unpack(1, high=False),
    "vpunpcklwd": _unpack(2, high=False),
    "vpunpckhbw": _unpack(1, high=True),
    "vpunpckhwd": _unpack(2, high=True),
    **dict.fromkeys(("vpunpckldq", "vunpcklps"), _unpack(4, high=False)),
    **dict.fromkeys(("vpunpckhdq", "vunpckhps"), _unpack(4, high=True)),
    **dict.fromkeys(("vpunpcklqdq", "vunpcklpd"), _unpack(8, high=False)),
    **dict.fromkeys(("vpunpckhqdq", "vunpckhpd"), _unpack(8, high=True)),
    "vpshufd": by_half(_shuffle_dwords),
    "vshufps": by_half(_shuffle_floats),
    "vpshufb": by_half(_shuffle_bytes),
    "vpalignr": by_half(_align_right),
    **dict.fromkeys(("vpermq", "vpermpd"), _permute_quads),
    **dict.fromkeys(("vperm2i128", "vperm2f128"), _permute_halves),
    **dict.fromkeys(("vpblendd", "vblendps"), _blend_dwords),
    **{f"vinsert{kind}{part}": _insert_part(size) for kind in "if" for part, size in _PARTS.items()},
    **{f"vextract{kind}{part}": _extract_part(size) for kind in "if" for part, size in _PARTS.items()},
    **dict.fromkeys(("vshufi32x4", "vshufi64x2", "vshuff32x4", "vshuff64x2"), _shuffle_parts),
    **dict.fromkeys(("vpermd", "vpermps"), _permute(4)),
    "valignd": _align_lanes(4),
    "valignq": _align_lanes(8),
    **{f"vpinsr{letter}": _insert_part(width) for letter, width in _WIDTHS},
    **{f"vpextr{letter}": _extract_part(width) for letter, width in _WIDTHS},
    **dict.fromkeys(_MOVES, _first),
    "vmovq": lambda sources, _: sources[0][:8],
    "vmovd": lambda sources, _: sources[0][:4],
    **dict.fromkeys(("vmovlhps", "vmovhps", "vmovhpd"), _move_high),
    **dict.fromkeys(("vmovlps", "vmovlpd"), _move_low),
    "vmovhlps": _high_to_low,
    "vextractps": _extract_part(4),
    **newer_vectors.OPERATIONS,
    **newer_vectors.UNARY_OPERATIONS,
    **newer_vectors.FMA,
    "vmovddup": by_half(lambda sources, _: sources[0][:8] * 2),
    "vcvtsi2ss": _from_integer("<f"),
    "vcvtsi2sd": _from_integer("<d"),
    "vcvtss2sd": lambda sources, _: struct.pack("<d", *struct.unpack_from("<f", sources[1])) + sources[0][8:],
    "vcvtsd2ss": lambda sources, _: struct.pack("<f", *struct.unpack_from("<d", sources[1])) + sources[0][4:],
    "vcvttss2si": lambda sources, _: int(*struct.unpack_from("<f", sources[0])).to_bytes(8, "little", signed=True),
    "vcvttsd2si": lambda sources, _: int(*struct.unpack_from("<d", sources[0])).to_bytes(8, "little", signed=True),
    **{
        f"v{name}{suffix}": make(code, function)
        for name, function in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul), ("div", _divide))
        for suffix, make, code in (
            ("ss", _scalar, "<f"),
            ("sd", _scalar, "<d"),
            ("ps", _packed, "<f"),
            ("pd", _packed, "<d"),
        )
    },
}

_BROADCASTS: Final = {
    "vbroadcastss": 4,
    "vbroadcastsd": 8,
    **{f"vbroadcast{kind}{part}": size for kind in "if" for part, size in (*_PARTS.items(), ("32x2", 8))},
    **{f"vpbroadcast{letter}": width for letter, width in _WIDTHS},
}
_CLEARS: Final = ("vzeroupper", "vzeroall")
_SCALAR_MOVES: Final = {"vmovss": 4, "vmovsd": 8}
_SIGNS: Final = {"vmovmskps": 4, "vmovmskpd": 8, "vpmovmskb": 1}  # the sign bits of the lanes, which are so wide
_HALVES: Final = {"vmovlps": _LOW, "vmovlpd": _LOW, "vmovhps": _HIGH, "vmovhpd": _HIGH}  # what goes to memory
_ACCUMULATES: Final = frozenset({"vpternlogd", "vpternlogq", *newer_vectors.FMA})  # the destination is a source, too
_EXTENDS: Final = regex(r"vpmov([sz])x(b[wdq]|w[dq]|dq)")
# Instructions without VEX that do not read their target.
_UNARY_OPERATIONS: Final = frozenset(
    {*newer_vectors.UNARY_OPERATIONS, *newer_vectors.CONVERSIONS, *_MOVES, "vextractps", "vmovddup"}
)
_BY_FIRST_REGISTER: Final = ("vpblendvb", "vblendvps", "vblendvpd")  # without VEX
_CRC32: Final = "crc32"
_MULX: Final = "mulx"
# Comparisons of lanes into a mask: what is compared, whether without a sign, the letter of the width.
_MASK_COMPARE: Final = regex(r"vpcmp(eq|gt|lt|le|neq|nlt|nle)(u?)([bwdq])")
_COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "lt": operator.lt,
    "le": operator.le,
    "neq": operator.ne,
    "nlt": operator.ge,
    "nle": operator.gt,
}
_MASK_TEST: Final = regex(r"vptest(n?)m([bwdq])")
_MASK_OPERATION: Final = regex(r"k(mov|or|and|xor|xnor|not|ortest)([bwdq])")
_MASK_COMBINATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "or": operator.or_,
    "and": operator.and_,
    "xor": operator.xor,
    "xnor": lambda a, b: ~(a ^ b),
}
_LANE_BYTES: Final = dict(_WIDTHS)
_SCALAR_ENDINGS: Final = ("ss", "sd")
# How wide the lanes are that a mask stands for, by the end of the name.
_LANES_BY_ENDING: Final = {**_LANE_BYTES, "ps": 4, "ss": 4, "pd": 8, "sd": 8}
# Of the two widths in the name of an unpacking instruction, the first one.
_MASKED_LANES: Final = regex(
    r"(?:(?P<bits>8|16|32|64)(?:x\d)?|(?P<ending>ps|pd|ss|sd|[bwdq])(?:(?<=vpunpck[hl].)d?[wdq])?)$"
)
_MASKED: Final = regex(r"\{k[1-7]\}")
_BROADCAST_OPERAND: Final = regex(r"\{1to(\d+)\}")
_COMPARES: Final = {"vcomiss": "<f", "vucomiss": "<f", "vcomisd": "<d", "vucomisd": "<d"}


class VectorUnit:
    """Executes one instruction at a time against the registers and memory of an emulator."""

    def __init__(self) -> None:
        self._decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._decoder.detail = True

    def execute(self, vm: Processor, memory: Memory, code: bytes) -> str | None:
        """Execute the first instruction of ``code``, and step over it.

        :returns: None, or the text of an instruction that is not done here
        Whatever ``memory`` raises passes through; nothing has changed then.
        """
        # All sources are read before anything is written: where memory is missing, the instruction can be executed
        # again.
        instruction = next(self._decoder.disasm(code, vm.pc, 1), None)
        if instruction is None:
            return f"undecodable bytes {code.hex()}"
        try:
            self._perform(vm, memory, instruction)
        except (UnsupportedError, OverflowError, ValueError, struct.error):
            return f"{instruction.mnemonic} {instruction.op_str}"
        vm.pc = instruction.address + instruction.size
        return None

    def text_of(self, vm: Processor, code: bytes) -> str:
        """Return the text of the first instruction of ``code``."""
        instruction = next(self._decoder.disasm(code, vm.pc, 1), None)
        return f"{instruction.mnemonic} {instruction.op_str}" if instruction else f"undecodable bytes {code.hex()}"

    def _perform(self, vm: Processor, memory: Memory, instruction: capstone.CsInsn) -> None:
        name = instruction.mnemonic
        if name in general.OPERATIONS:
            self._compute(vm, memory, instruction)
        elif name in (_CRC32, _MULX):
            self._compute_more(vm, memory, instruction)
        elif not name.startswith(("v", "k")):
            self._perform_without_vex(vm, memory, instruction)
        elif name in _CLEARS:
            self._clear(vm, memory, low_halves=name == "vzeroall")
        elif name.startswith("k"):
            self._operate_on_masks(vm, memory, instruction)
        elif _MASKED.search(instruction.op_str):
            self._perform_masked(vm, memory, instruction)
        else:
            self._perform_unmasked(vm, memory, instruction)

    @staticmethod
    def _clear(vm: Processor, memory: Memory, *, low_halves: bool) -> None:
        # Registers 16 to 31, which only AVX-512 has, stay as they are (SDM 2C, VZEROALL and VZEROUPPER).
        for number in range(_WITH_LOW_HALF):
            memory.vectors[number] = bytes(_ZMM_BYTES)
            for half in "ab" if low_halves else "":
                vm.reg_write(f"XMM{number}_Q{half}", 0)

    def _perform_unmasked(self, vm: Processor, memory: Memory, instruction: capstone.CsInsn) -> None:
        """Move, compute or compare all lanes: the result is flags, a mask, or the value of the target."""
        name, (operands, immediate) = instruction.mnemonic, _operands(instruction)
        target, *remainder = operands
        if name == "vptest":
            self._test(vm, *(self._read(vm, memory, instruction, operand) for operand in operands))
        elif name in _COMPARES:
            self._compare(vm, _COMPARES[name], *(self._read(vm, memory, instruction, operand) for operand in operands))
        elif name in _SCALAR_MOVES:
            self._move_scalar(vm, memory, instruction, _SCALAR_MOVES[name], operands)
        else:
            read = operands if name in _ACCUMULATES else remainder
            sources = [self._read(vm, memory, instruction, operand) for operand in read]
            if _is_mask(target):
                memory.masks[target.reg - x86.X86_REG_K0] = _compared(name, *sources)
            else:
                self._write(vm, memory, instruction, target, _value(name, target, sources, immediate))

    def _perform_without_vex(self, vm: Processor, memory: Memory, instruction: capstone.CsInsn) -> None:
        """Perform what it does with VEX, but that the target is the first source, and keeps what is above 128 bits."""
        name, (operands, immediate) = f"v{instruction.mnemonic}", _operands(instruction)
        names = [instruction.reg_name(operand.reg) for operand in operands if operand.type == x86.X86_OP_REG]
        # Those on registers of MMX share names with those of SSE, and do not always do the same.
        if not operands or any(register.startswith("mm") for register in names):
            raise UnsupportedError(name)
        target = operands[0]
        read = operands[1:] if name in _UNARY_OPERATIONS or _EXTENDS.fullmatch(name) else operands
        sources = [self._read(vm, memory, instruction, operand) for operand in read]
        if name in _BY_FIRST_REGISTER:
            sources.append(_vector(vm, memory, 0)[:XMM_BYTES])
        value = _value(name, target, sources, immediate)
        register = instruction.reg_name(target.reg) if target.type == x86.X86_OP_REG else ""
        if register.startswith("xmm"):
            value = value.ljust(XMM_BYTES, b"\0") + memory.vectors[int(register[3:])][XMM_BYTES:]
        self._write(vm, memory, instruction, target, value)

    def _compute(self, vm: Processor, memory: Memory, instruction: capstone.CsInsn) -> None:
        """Execute an instruction on general registers."""
        target, *remainder = instruction.operands
        sources = [
            operand.imm & 0xFF
            if operand.type == x86.X86_OP_IMM
            else int.from_bytes(self._read(vm, memory, instruction, operand), "little")
            for operand in remainder
        ]
        (result,), flags = general.OPERATIONS[instruction.mnemonic](sources, 8 * target.size)
        self._write(vm, memory, instruction, target, result.to_bytes(target.size, "little"))
        for flag, value in flags.items():
            vm.reg_write(flag, int(value))

    def _compute_more(self, vm: Processor, memory: Memory, instruction: capstone.CsInsn) -> None:
        """Execute ``crc32``, and ``mulx``, which has two targets."""
        target, *_, source = instruction.operands
        content = self._read(vm, memory, instruction, source)
        if instruction.mnemonic == _CRC32:
            result = general.crc32(vm.reg_read(_wide_name(instruction, target)) & 0xFFFF_FFFF, content)
            self._write(vm, memory, instruction, target, result.to_bytes(8, "little"))
            return
        bits = 8 * target.size
        product = (vm.reg_read("RDX") & (1 << bits) - 1) * int.from_bytes(content, "little")
        for operand, value in ((instruction.operands[1], product), (target, product >> bits)):
            self._write(vm, memory, instruction, operand, (value & (1 << bits) - 1).to_bytes(8, "little"))

    def _perform_masked(self, vm: Processor, memory: Memory, instruction: capstone.CsInsn) -> None:
        """Move, compute or compare only the lanes whose bits in the mask are set; the others stay, or are cleared."""
        name, ((target, by, *remainder), immediate) = instruction.mnemonic, _operands(instruction)
        width, mask = _masked_lane(name), memory.masks[by.reg - x86.X86_REG_K0]
        lanes = [bool(mask >> at & 1) for at in range(_ZMM_BYTES // width)]
        if name.endswith(_SCALAR_ENDINGS) and name not in _BROADCASTS:
            lanes[1:] = [True] * len(lanes[1:])  # the mask is about the number, not about what is above it
        if name in _MOVES:
            sources = [self._read_lanes(vm, memory, instruction, remainder[0], lanes)]
        else:
            read = [target, *remainder] if name in _ACCUMULATES else remainder
            sources = [self._read(vm, memory, instruction, operand) for operand in read]
        if _is_mask(target):
            memory.masks[target.reg - x86.X86_REG_K0] = _compared(name, *sources) & mask
            return
        if name in _BROADCASTS:
            value = sources[0][: _BROADCASTS[name]] * (target.size // _BROADCASTS[name])
        elif name in _OPERATIONS:
            value = _OPERATIONS[name](sources, immediate)
        else:
            raise UnsupportedError(name)
        if target.type == x86.X86_OP_MEM:
            # Lanes that are masked out are not touched: the memory there need not be mapped.
            address = _address(vm, instruction, target)
            for at in range(target.size // width):
                if lanes[at]:
                    memory.write(address + at * width, value[at * width : at * width + width])
            return
        zero = any(operand.avx_zero_opmask for operand in instruction.operands)
        old = bytes(target.size) if zero else self._read(vm, memory, instruction, target)
        merged = (value if lanes[at // width] else old for at in range(0, target.size, width))
        parts = (operand[at : at + width] for at, operand in zip(range(0, target.size, width), merged, strict=True))
        self._write(vm, memory, instruction, target, b"".join(parts))

    def _read_lanes(
        self, vm: Processor, memory: Memory, instruction: capstone.CsInsn, operand: x86.X86Op, lanes: Sequence[bool]
    ) -> bytes:
        """Return a source of which only some lanes are read: the others may be in unmapped memory."""
        if operand.type != x86.X86_OP_MEM:
            return self._read(vm, memory, instruction, operand)
        width, address = _ZMM_BYTES // len(lanes), _address(vm, instruction, operand)
        return b"".join(
            memory.read(address + at * width, width) if lanes[at] else bytes(width)
            for at in range(operand.size // width)
        )

    def _operate_on_masks(self, vm: Processor, memory: Memory, instruction: capstone.CsInsn) -> None:
        match, operands = _MASK_OPERATION.fullmatch(instruction.mnemonic), list(instruction.operands)
        if match is None:
            raise UnsupportedError(instruction.mnemonic)
        all_ones = (1 << 8 * _LANE_BYTES[match[2]]) - 1
        target, *remainder = operands
        values = [
            int.from_bytes(self._read(vm, memory, instruction, operand), "little") & all_ones for operand in remainder
        ]
        if match[1] == "ortest":
            either = values[0] | memory.masks[target.reg - x86.X86_REG_K0] & all_ones
            _set_flags(vm, zero=not either, carry=either == all_ones, parity=False)
            return
        if match[1] in ("mov", "not"):
            value = values[0] if match[1] == "mov" else ~values[0]
        else:
            value = _MASK_COMBINATIONS[match[1]](*values)
        # Bits of a mask above the width of the instruction are cleared.
        value &= all_ones
        if _is_mask(target):
            memory.masks[target.reg - x86.X86_REG_K0] = value
        else:
            self._write(vm, memory, instruction, target, value.to_bytes(target.size, "little"))

    def _move_scalar(
        self, vm: Processor, memory: Memory, instruction: capstone.CsInsn, width: int, operands: list[x86.X86Op]
    ) -> None:
        """Load (the rest is cleared), store, or merge the low lane of the third operand into the second."""
        sources = [self._read(vm, memory, instruction, operand) for operand in operands[1:]]
        value = sources[-1][:width]
        self._write(
            vm, memory, instruction, operands[0], value if len(sources) == 1 else value + sources[0][width:XMM_BYTES]
        )

    def _test(self, vm: Processor, first: bytes, second: bytes) -> None:
        a, b = int.from_bytes(first, "little"), int.from_bytes(second, "little")
        _set_flags(vm, zero=not a & b, carry=not ~a & b, parity=False)

    def _compare(self, vm: Processor, code: str, first: bytes, second: bytes) -> None:
        a, b = struct.unpack_from(code, first)[0], struct.unpack_from(code, second)[0]
        # Where one of them is no number, all three flags are set (SDM 2A, COMISS).
        unordered = a != a or b != b
        _set_flags(vm, zero=unordered or a == b, carry=unordered or a < b, parity=unordered)

    def _read(self, vm: Processor, memory: Memory, instruction: capstone.CsInsn, operand: x86.X86Op) -> bytes:
        if operand.type == x86.X86_OP_MEM:
            broadcast = _BROADCAST_OPERAND.search(instruction.op_str)
            value: bytes = memory.read(_address(vm, instruction, operand), operand.size)
            return value * int(broadcast[1]) if broadcast else value
        if _is_mask(operand):
            mask: int = memory.masks[operand.reg - x86.X86_REG_K0]
            return mask.to_bytes(8, "little")
        name = instruction.reg_name(operand.reg)
        if name.startswith(("xmm", "ymm", "zmm")):
            return _vector(vm, memory, int(name[3:]))[: {"x": XMM_BYTES, "y": _YMM_BYTES, "z": _ZMM_BYTES}[name[0]]]
        return bytes(int(vm.reg_read(name.upper())).to_bytes(operand.size, "little"))

    def _write(
        self, vm: Processor, memory: Memory, instruction: capstone.CsInsn, operand: x86.X86Op, value: bytes
    ) -> None:
        if operand.type == x86.X86_OP_MEM:
            memory.write(_address(vm, instruction, operand), value[: operand.size])
            return
        name = instruction.reg_name(operand.reg)
        if name.startswith(("xmm", "ymm", "zmm")):
            number, value = int(name[3:]), value.ljust(_ZMM_BYTES, b"\0")
            if number < _WITH_LOW_HALF:
                vm.reg_write(f"XMM{number}_Qa", int.from_bytes(value[:8], "little"))
                vm.reg_write(f"XMM{number}_Qb", int.from_bytes(value[8:16], "little"))
            memory.vectors[number] = value
        else:  # a write of 32 bits clears the upper half of a general register
            number = int.from_bytes(value[: operand.size], "little")
            vm.reg_write(_wide_name(instruction, operand), number)


_WIDE: Final = {
    **{f"e{letters}": f"R{letters.upper()}" for letters in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")},
    **{f"r{number}d": f"R{number}" for number in range(8, 16)},
}


def _vector(vm: Processor, memory: Memory, number: int) -> bytes:
    """Return all 512 bits of a vector register."""
    whole = memory.vectors[number]
    if number < _WITH_LOW_HALF:
        low = b"".join(int(vm.reg_read(f"XMM{number}_Q{half}")).to_bytes(8, "little") for half in "ab")
        whole = low + whole[XMM_BYTES:]
    return whole


def _wide_name(instruction: capstone.CsInsn, operand: x86.X86Op) -> str:
    """Return the register that is written as a whole with an operand of 32 bits."""
    name: str = instruction.reg_name(operand.reg)
    return _WIDE.get(name, name.upper())


def _operands(instruction: capstone.CsInsn) -> tuple[list[x86.X86Op], int]:
    """Return the operands, and the immediate that is the last one of some instructions."""
    operands = list(instruction.operands)
    has_immediate = operands and operands[-1].type == x86.X86_OP_IMM
    return operands, operands.pop().imm & 0xFF if has_immediate else 0


def _is_mask(operand: x86.X86Op) -> bool:
    return bool(operand.type == x86.X86_OP_REG and x86.X86_REG_K0 <= operand.reg <= x86.X86_REG_K7)


def _masked_lane(name: str) -> int:
    """Return the number of bytes that one bit of a mask stands for, from the end of the name."""
    match = _MASKED_LANES.search(name)
    if match is None:
        raise UnsupportedError(name)
    return int(match["bits"]) // 8 if match["bits"] else _LANES_BY_ENDING[match["ending"]]


def _value(name: str, target: x86.X86Op, sources: Sequence[bytes], immediate: int) -> bytes:
    """Compute the value that an instruction writes to its target."""
    if name in _SIGNS:
        width = _SIGNS[name]
        signs = (lane >> (8 * width - 1) for lane in lanes_of(sources[0], width))
        return sum(sign << at for at, sign in enumerate(signs)).to_bytes(target.size, "little")
    if name in _BROADCASTS:
        element = sources[0][: _BROADCASTS[name]]
        return element * int(target.size // len(element))
    if name in _HALVES and target.type == x86.X86_OP_MEM:
        return sources[0][_HALVES[name]]
    if name in newer_vectors.CONVERSIONS:
        if name == "vcvtps2ph" and immediate & 7 not in (0, 4):
            raise UnsupportedError("a way of rounding")
        return newer_vectors.converted(sources, target.size, *newer_vectors.CONVERSIONS[name])
    if extends := _EXTENDS.fullmatch(name):
        return newer_vectors.extended(sources[0], target.size, extends[2], signed=extends[1] == "s")
    if name not in _OPERATIONS:
        raise UnsupportedError(name)
    return _OPERATIONS[name](sources, immediate)


def _compared(name: str, first: bytes, second: bytes) -> int:
    """Return the mask of the lanes for which a comparison holds."""
    if test := _MASK_TEST.fullmatch(name):
        width, requested = _LANE_BYTES[test[2]], not test[1]
        pairs = zip(lanes_of(first, width), lanes_of(second, width), strict=True)
        return sum(1 << at for at, (a, b) in enumerate(pairs) if bool(a & b) is requested)
    match = _MASK_COMPARE.fullmatch(name)
    if match is None:
        raise UnsupportedError(name)
    width, holds = _LANE_BYTES[match[3]], _COMPARISONS[match[1]]
    lanes = zip(lanes_of(first, width), lanes_of(second, width), strict=True)
    if not match[2]:
        lanes = ((biased(a, width), biased(b, width)) for a, b in lanes)  # type: ignore[assignment]
    return sum(1 << at for at, (a, b) in enumerate(lanes) if holds(a, b))


_SHORT_STORE_OF_QUAD: Final = ("vmovq", 0x62, 0x7E, 1)  # EVEX prefix, opcode, size of the displacement


def _address(vm: Processor, instruction: capstone.CsInsn, operand: x86.X86Op) -> int:
    memory = operand.mem
    address = int(memory.disp)
    if (instruction.mnemonic, *instruction.bytes[:5:4], instruction.disp_size) == _SHORT_STORE_OF_QUAD:
        address //= 2  # capstone takes a displacement of one byte for a number of 16 bytes, not of eight
    if memory.base == x86.X86_REG_RIP:
        address += instruction.address + instruction.size
    elif memory.base:
        address += vm.reg_read(instruction.reg_name(memory.base).upper())
    if memory.index:
        address += vm.reg_read(instruction.reg_name(memory.index).upper()) * memory.scale
    if memory.segment in (x86.X86_REG_FS, x86.X86_REG_GS):
        address += vm.reg_read(instruction.reg_name(memory.segment).upper() + "_OFFSET")
    return address & 0xFFFFFFFFFFFFFFFF


def _set_flags(vm: Processor, *, zero: bool, carry: bool, parity: bool) -> None:
    for name, value in (("ZF", zero), ("CF", carry), ("PF", parity), ("OF", False), ("SF", False), ("AF", False)):
        vm.reg_write(name, int(value))
