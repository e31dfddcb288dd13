"""Vector instructions of x86-64 that icicle does not implement, done in Python.

icicle knows the SSE encodings and a few of the VEX ones. Initialisers of objects built with ``-mavx2`` or
``-march=...`` mostly move and clear memory with the others. capstone decodes them; what they do is taken from the
descriptions in the Intel SDM, volume 2. The 512-bit forms and masks of AVX-512 are not done, and are reported by
their text.

The few VEX instructions that icicle does accept it does wrongly: its registers end at 128 bits, and what concerns the
upper halves is dropped without a word. So those are found as code is mapped (``vex.suspects``) and done here as well;
the upper halves of the sixteen registers belong to this module alone. A VEX-encoded result clears the bits above it.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from typing import Final

import capstone  # type: ignore[import-untyped]
from capstone import x86
from icicle import Icicle  # type: ignore[import-untyped]

from abiscan.emulation.arch.memory import Memory

_XMM_BYTES, _YMM_BYTES = 16, 32

Bytes = Sequence[bytes]


class UnsupportedError(Exception):
    """An instruction that this unit does not do."""


def _lanes(value: bytes, width: int) -> list[int]:
    return [int.from_bytes(value[at : at + width], "little") for at in range(0, len(value), width)]


def _pack(lanes: Sequence[int], width: int) -> bytes:
    mask = (1 << 8 * width) - 1
    return b"".join((lane & mask).to_bytes(width, "little") for lane in lanes)


def _signed(value: int, width: int) -> int:
    return value - (1 << 8 * width) if value >> (8 * width - 1) else value


def _lanewise(width: int, function: Callable[[int, int], int]) -> Callable[[Bytes, int], bytes]:
    def apply(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
        first, second = (_lanes(source, width) for source in sources)
        return _pack([function(a, b) for a, b in zip(first, second, strict=True)], width)

    return apply


def _shift(width: int, function: Callable[[int, int], int]) -> Callable[[Bytes, int], bytes]:
    def apply(sources: Bytes, immediate: int) -> bytes:
        count = immediate if len(sources) == 1 else int.from_bytes(sources[1][:8], "little")
        lanes = _lanes(sources[0], width)
        return bytes(len(sources[0])) if count >= 8 * width else _pack([function(a, count) for a in lanes], width)

    return apply


def _by_half(function: Callable[[Bytes, int], bytes]) -> Callable[[Bytes, int], bytes]:
    """Most shuffles of 256 bits work on each half by itself."""

    def apply(sources: Bytes, immediate: int) -> bytes:
        return b"".join(
            function([source[at : at + _XMM_BYTES] for source in sources], immediate)
            for at in range(0, len(sources[0]), _XMM_BYTES)
        )

    return apply


def _unpack(width: int, *, high: bool) -> Callable[[Bytes, int], bytes]:
    def apply(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
        half = slice(8, 16) if high else slice(0, 8)
        pairs = zip(_lanes(sources[0][half], width), _lanes(sources[1][half], width), strict=True)
        return _pack([lane for pair in pairs for lane in pair], width)

    return _by_half(apply)


def _shuffle_dwords(sources: Bytes, immediate: int) -> bytes:
    lanes = _lanes(sources[0], 4)
    return _pack([lanes[immediate >> 2 * at & 3] for at in range(4)], 4)


def _shuffle_floats(sources: Bytes, immediate: int) -> bytes:
    first, second = _lanes(sources[0], 4), _lanes(sources[1], 4)
    chosen = [immediate >> 2 * at & 3 for at in range(4)]
    return _pack([first[chosen[0]], first[chosen[1]], second[chosen[2]], second[chosen[3]]], 4)


def _shuffle_bytes(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
    return bytes(0 if index & 0x80 else sources[0][index & 0xF] for index in sources[1])


def _align_right(sources: Bytes, immediate: int) -> bytes:
    return ((sources[1] + sources[0])[immediate:] + bytes(_YMM_BYTES))[:_XMM_BYTES]


def _permute_halves(sources: Bytes, immediate: int) -> bytes:
    halves = [sources[0][:16], sources[0][16:], sources[1][:16], sources[1][16:]]
    return b"".join(bytes(16) if nibble & 8 else halves[nibble & 3] for nibble in (immediate & 0xF, immediate >> 4))


def _permute_quads(sources: Bytes, immediate: int) -> bytes:
    lanes = _lanes(sources[0], 8)
    return _pack([lanes[immediate >> 2 * at & 3] for at in range(4)], 8)


def _blend_dwords(sources: Bytes, immediate: int) -> bytes:
    lanes = zip(_lanes(sources[0], 4), _lanes(sources[1], 4), strict=True)
    return _pack([b if immediate >> at & 1 else a for at, (a, b) in enumerate(lanes)], 4)


def _insert_half(sources: Bytes, immediate: int) -> bytes:
    low, high = sources[0][:16], sources[0][16:]
    return low + sources[1][:16] if immediate & 1 else sources[1][:16] + high


def _extract_half(sources: Bytes, immediate: int) -> bytes:
    return sources[0][16:] if immediate & 1 else sources[0][:16]


def _insert(width: int) -> Callable[[Bytes, int], bytes]:
    def apply(sources: Bytes, immediate: int) -> bytes:
        at = immediate % (_XMM_BYTES // width) * width
        return sources[0][:at] + sources[1][:width] + sources[0][at + width :]

    return apply


def _extract(width: int) -> Callable[[Bytes, int], bytes]:
    def apply(sources: Bytes, immediate: int) -> bytes:
        at = immediate % (_XMM_BYTES // width) * width
        return sources[0][at : at + width]

    return apply


def _scalar(code: str, function: Callable[[float, float], float]) -> Callable[[Bytes, int], bytes]:
    width = struct.calcsize(code)

    def apply(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
        first, second = (struct.unpack_from(code, source)[0] for source in sources)
        return struct.pack(code, function(first, second)) + sources[0][width:]

    return apply


def _packed(code: str, function: Callable[[float, float], float]) -> Callable[[Bytes, int], bytes]:
    def apply(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
        count = len(sources[0]) // struct.calcsize(code)
        first, second = (struct.unpack(f"<{count}{code[1]}", source) for source in sources)
        return struct.pack(f"<{count}{code[1]}", *map(function, first, second))

    return apply


def _from_integer(code: str) -> Callable[[Bytes, int], bytes]:
    def apply(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
        value = float(int.from_bytes(sources[1], "little", signed=True))
        return struct.pack(code, value) + sources[0][struct.calcsize(code) :]

    return apply


def _first(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
    return sources[0]


def _move_high(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
    return sources[0][:8] + sources[1][:8]


def _move_low(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
    return sources[1][:8] + sources[0][8:]


def _high_to_low(sources: Bytes, immediate: int) -> bytes:  # noqa: ARG001 - the shape of every operation
    return sources[1][8:16] + sources[0][8:]


def _equal(a: int, b: int) -> int:
    return -1 if a == b else 0


def _greater(width: int) -> Callable[[int, int], int]:
    return lambda a, b: -1 if _signed(a, width) > _signed(b, width) else 0


def _divide(a: float, b: float) -> float:
    if b == 0:
        raise UnsupportedError("division by zero")
    return a / b


_WIDTHS: Final = (("b", 1), ("w", 2), ("d", 4), ("q", 8))
_MOVES: Final = frozenset(
    f"vmov{suffix}" for suffix in ("dqu", "dqa", "ups", "upd", "aps", "apd", "ntdq", "ntps", "ntpd")
) | {"vlddqu"}

# What each instruction computes from its source operands (the destination left out) and its immediate.
_OPERATIONS: Final[dict[str, Callable[[Bytes, int], bytes]]] = {
    **dict.fromkeys(("vpxor", "vxorps", "vxorpd"), _lanewise(8, operator.xor)),
    **dict.fromkeys(("vpand", "vandps", "vandpd"), _lanewise(8, operator.and_)),
    **dict.fromkeys(("vpor", "vorps", "vorpd"), _lanewise(8, operator.or_)),
    **dict.fromkeys(("vpandn", "vandnps", "vandnpd"), _lanewise(8, lambda a, b: ~a & b)),
    **{f"vpadd{letter}": _lanewise(width, operator.add) for letter, width in _WIDTHS},
    **{f"vpsub{letter}": _lanewise(width, operator.sub) for letter, width in _WIDTHS},
    **{f"vpcmpeq{letter}": _lanewise(width, _equal) for letter, width in _WIDTHS},
    **{f"vpcmpgt{letter}": _lanewise(width, _greater(width)) for letter, width in _WIDTHS},
    **{f"vpminu{letter}": _lanewise(width, min) for letter, width in _WIDTHS[:3]},
    **{f"vpmaxu{letter}": _lanewise(width, max) for letter, width in _WIDTHS[:3]},
    **{f"vpsll{letter}": _shift(width, operator.lshift) for letter, width in _WIDTHS[1:]},
    **{f"vpsrl{letter}": _shift(width, operator.rshift) for letter, width in _WIDTHS[1:]},
    "vpmulld": _lanewise(4, operator.mul),
    "vpmuludq": _lanewise(8, lambda a, b: (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF)),
    "vpslldq": _by_half(lambda sources, count: (bytes(min(count, 16)) + sources[0])[:16]),
    "vpsrldq": _by_half(lambda sources, count: (sources[0][min(count, 16) :] + bytes(16))[:16]),
    "vpunpcklbw": _unpack(1, high=False),
    "vpunpcklwd": _unpack(2, high=False),
    "vpunpckhbw": _unpack(1, high=True),
    "vpunpckhwd": _unpack(2, high=True),
    **dict.fromkeys(("vpunpckldq", "vunpcklps"), _unpack(4, high=False)),
    **dict.fromkeys(("vpunpckhdq", "vunpckhps"), _unpack(4, high=True)),
    **dict.fromkeys(("vpunpcklqdq", "vunpcklpd"), _unpack(8, high=False)),
    **dict.fromkeys(("vpunpckhqdq", "vunpckhpd"), _unpack(8, high=True)),
    "vpshufd": _by_half(_shuffle_dwords),
    "vshufps": _by_half(_shuffle_floats),
    "vpshufb": _by_half(_shuffle_bytes),
    "vpalignr": _by_half(_align_right),
    **dict.fromkeys(("vpermq", "vpermpd"), _permute_quads),
    **dict.fromkeys(("vperm2i128", "vperm2f128"), _permute_halves),
    **dict.fromkeys(("vpblendd", "vblendps"), _blend_dwords),
    **dict.fromkeys(("vinserti128", "vinsertf128"), _insert_half),
    **dict.fromkeys(("vextracti128", "vextractf128"), _extract_half),
    **{f"vpinsr{letter}": _insert(width) for letter, width in _WIDTHS},
    **{f"vpextr{letter}": _extract(width) for letter, width in _WIDTHS},
    **dict.fromkeys(_MOVES, _first),
    "vmovq": lambda sources, _: sources[0][:8],
    "vmovd": lambda sources, _: sources[0][:4],
    **dict.fromkeys(("vmovlhps", "vmovhps", "vmovhpd"), _move_high),
    **dict.fromkeys(("vmovlps", "vmovlpd"), _move_low),
    "vmovhlps": _high_to_low,
    "vmovddup": _by_half(lambda sources, _: sources[0][:8] * 2),
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
    "vbroadcastf128": 16,
    "vbroadcasti128": 16,
    **{f"vpbroadcast{letter}": width for letter, width in _WIDTHS},
}
_CLEARS: Final = ("vzeroupper", "vzeroall")
_SCALAR_MOVES: Final = {"vmovss": 4, "vmovsd": 8}
_COMPARES: Final = {"vcomiss": "<f", "vucomiss": "<f", "vcomisd": "<d", "vucomisd": "<d"}


class VectorUnit:
    """Executes one instruction at a time against the registers and memory of an emulator."""

    def __init__(self) -> None:
        self._decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._decoder.detail = True

    def execute(self, vm: Icicle, memory: Memory, code: bytes) -> str | None:
        """Do the instruction at the head of ``code``, and step beyond it.

        :returns: None, or the text of an instruction that is not done here
        Whatever ``memory`` raises passes through; nothing has changed then.
        """
        instruction = next(self._decoder.disasm(code, vm.pc, 1), None)
        if instruction is None:
            return f"undecodable bytes {code.hex()}"
        try:
            self._perform(vm, memory, instruction)
        except (UnsupportedError, OverflowError, ValueError):
            return f"{instruction.mnemonic} {instruction.op_str}"
        vm.pc = instruction.address + instruction.size
        return None

    def _perform(self, vm: Icicle, memory: Memory, instruction: capstone.CsInsn) -> None:
        name, operands = instruction.mnemonic, list(instruction.operands)
        if any(operand.avx_zero_opmask or _is_avx512(operand) for operand in operands):
            raise UnsupportedError(name)
        if name in _CLEARS:
            for number in range(16):
                memory.upper_halves[number] = bytes(_XMM_BYTES)
                for half in "ab" if name == "vzeroall" else "":
                    vm.reg_write(f"XMM{number}_Q{half}", 0)
            return
        immediate = operands.pop().imm & 0xFF if operands and operands[-1].type == x86.X86_OP_IMM else 0
        target, *rest = operands
        if name == "vptest":
            self._test(vm, *(self._read(vm, memory, instruction, operand) for operand in operands))
        elif name in _COMPARES:
            self._compare(vm, _COMPARES[name], *(self._read(vm, memory, instruction, operand) for operand in operands))
        elif name == "vmovmskps" or name == "vmovmskpd" or name == "vpmovmskb":
            width = {"vmovmskps": 4, "vmovmskpd": 8, "vpmovmskb": 1}[name]
            lanes = _lanes(self._read(vm, memory, instruction, rest[0]), width)
            bits = sum((lane >> (8 * width - 1)) << at for at, lane in enumerate(lanes))
            self._write(vm, memory, instruction, target, bits.to_bytes(4, "little"))
        elif name in _BROADCASTS:
            element = self._read(vm, memory, instruction, rest[0])[: _BROADCASTS[name]]
            self._write(vm, memory, instruction, target, element * (target.size // len(element)))
        elif name in _SCALAR_MOVES:
            self._move_scalar(vm, memory, instruction, _SCALAR_MOVES[name], operands)
        elif name in ("vmovhps", "vmovhpd", "vmovlps", "vmovlpd") and target.type == x86.X86_OP_MEM:
            value = self._read(vm, memory, instruction, rest[0])
            self._write(vm, memory, instruction, target, value[8:16] if "movh" in name else value[:8])
        elif operation := _OPERATIONS.get(name):
            sources = [self._read(vm, memory, instruction, operand) for operand in rest]
            if name.endswith("128") and name.startswith("vextract"):
                sources[0] = sources[0].ljust(_YMM_BYTES, b"\0")
            self._write(vm, memory, instruction, target, operation(sources, immediate)[: max(target.size, 4)])
        else:
            raise UnsupportedError(name)

    def _move_scalar(
        self, vm: Icicle, memory: Memory, instruction: capstone.CsInsn, width: int, operands: list[x86.X86Op]
    ) -> None:
        """Load (the rest is cleared), store, or merge the low lane of the third operand into the second."""
        sources = [self._read(vm, memory, instruction, operand) for operand in operands[1:]]
        value = sources[-1][:width]
        self._write(
            vm, memory, instruction, operands[0], value if len(sources) == 1 else value + sources[0][width:_XMM_BYTES]
        )

    def _test(self, vm: Icicle, first: bytes, second: bytes) -> None:
        a, b = int.from_bytes(first, "little"), int.from_bytes(second, "little")
        _set_flags(vm, zero=not a & b, carry=not ~a & b, parity=False)

    def _compare(self, vm: Icicle, code: str, first: bytes, second: bytes) -> None:
        a, b = struct.unpack_from(code, first)[0], struct.unpack_from(code, second)[0]
        unordered = a != a or b != b
        _set_flags(vm, zero=unordered or a == b, carry=unordered or a < b, parity=unordered)

    def _read(self, vm: Icicle, memory: Memory, instruction: capstone.CsInsn, operand: x86.X86Op) -> bytes:
        if operand.type == x86.X86_OP_MEM:
            return memory.read(_address(vm, instruction, operand), operand.size)
        name = instruction.reg_name(operand.reg)
        if name.startswith(("xmm", "ymm")):
            number = name[3:]
            low = b"".join(int(vm.reg_read(f"XMM{number}_Q{half}")).to_bytes(8, "little") for half in "ab")
            return low + memory.upper_halves[int(number)] if name.startswith("ymm") else low
        return int(vm.reg_read(name.upper())).to_bytes(operand.size, "little")

    def _write(
        self, vm: Icicle, memory: Memory, instruction: capstone.CsInsn, operand: x86.X86Op, value: bytes
    ) -> None:
        if operand.type == x86.X86_OP_MEM:
            memory.write(_address(vm, instruction, operand), value[: operand.size])
            return
        name = instruction.reg_name(operand.reg)
        if name.startswith(("xmm", "ymm")):
            number, value = name[3:], value.ljust(_YMM_BYTES, b"\0")
            vm.reg_write(f"XMM{number}_Qa", int.from_bytes(value[:8], "little"))
            vm.reg_write(f"XMM{number}_Qb", int.from_bytes(value[8:16], "little"))
            memory.upper_halves[int(number)] = value[_XMM_BYTES:_YMM_BYTES]
        else:  # a write of 32 bits clears the upper half of a general register
            number = int.from_bytes(value[: operand.size], "little")
            vm.reg_write(_WIDE.get(name, name.upper()), number)


_WIDE: Final = {
    **{f"e{letters}": f"R{letters.upper()}" for letters in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")},
    **{f"r{number}d": f"R{number}" for number in range(8, 16)},
}


def _is_avx512(operand: x86.X86Op) -> bool:
    if operand.size > _YMM_BYTES:
        return True
    if operand.type != x86.X86_OP_REG:
        return False
    register = operand.reg
    return bool(
        x86.X86_REG_XMM16 <= register <= x86.X86_REG_XMM31
        or x86.X86_REG_YMM16 <= register <= x86.X86_REG_YMM31
        or x86.X86_REG_K0 <= register <= x86.X86_REG_K7
    )


def _address(vm: Icicle, instruction: capstone.CsInsn, operand: x86.X86Op) -> int:
    memory = operand.mem
    address = int(memory.disp)
    if memory.base == x86.X86_REG_RIP:
        address += instruction.address + instruction.size
    elif memory.base:
        address += vm.reg_read(instruction.reg_name(memory.base).upper())
    if memory.index:
        address += vm.reg_read(instruction.reg_name(memory.index).upper()) * memory.scale
    if memory.segment in (x86.X86_REG_FS, x86.X86_REG_GS):
        address += vm.reg_read(instruction.reg_name(memory.segment).upper() + "_OFFSET")
    return address & 0xFFFFFFFFFFFFFFFF


def _set_flags(vm: Icicle, *, zero: bool, carry: bool, parity: bool) -> None:
    for name, value in (("ZF", zero), ("CF", carry), ("PF", parity), ("OF", False), ("SF", False), ("AF", False)):
        vm.reg_write(name, int(value))
