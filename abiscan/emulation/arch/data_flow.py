"""What instructions read and write, as capstone tells it: for ``taint``, which follows values through the code."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import capstone  # type: ignore[import-untyped]

from abiscan.regex import regex

_FLAGS: Final = "flags"
_FLOATS: Final = "x87"  # the stack of the x87, all of it
_READ, _WRITE = 1, 2
_WITHOUT_ACCESS: Final = frozenset({"lea", "nop", "prfm"})
_ZEROING: Final = frozenset({"xor", "sub", "pxor", "xorps", "xorpd", "vpxor", "vxorps", "vxorpd", "sbb"})
_MERGING: Final = ("cmov",)
_LARGEST: Final = 64  # of what one operand of AArch64 moves


class Access(NamedTuple):
    """A part of memory that an instruction reads or writes: registers that are added up, a constant, a size."""

    registers: tuple[tuple[str, int], ...]
    offset: int
    size: int
    reads: bool
    writes: bool


class DataFlow(NamedTuple):
    """What an instruction does to registers and memory.

    A register is in parts where code writes less than the whole of it: ``RAX``, ``RAX.low``, ``RAX.high``.

    :ivar addresses: the parts that make the addresses of memory
    :ivar decides: those on which depends where the code goes on
    :ivar jumps: whether that is read from memory
    :ivar after: the address of the next instruction
    :ivar data: the places, address and size, that are written or whose address is taken relative to the instruction;
        with the size 0 a word that is read, which may be an address
    """

    reads: frozenset[str]
    writes: frozenset[str]
    addresses: frozenset[str]
    decides: frozenset[str]
    accesses: tuple[Access, ...]
    jumps: bool
    is_call: bool
    after: int
    data: tuple[tuple[int, int], ...] = ()


def parts(*registers: str) -> tuple[str, ...]:
    """Return the parts of registers of x86-64."""
    return tuple(part for name in registers for part in (name, f"{name}.low", f"{name}.high"))


_OLD: Final = {"a": "RAX", "b": "RBX", "c": "RCX", "d": "RDX"}
_OTHER: Final = {"si": "RSI", "di": "RDI", "bp": "RBP", "sp": "RSP"}
_NUMBERED: Final = regex(r"r(\d+)([dwb]?)$")
_VECTOR: Final = regex(r"[xyz]mm(\d+)$")


@functools.cache
def _parts_x86_64(name: str) -> tuple[str, ...]:
    """Return the parts of the register that capstone calls by a name; none for one that no answer gets into."""
    if match := _VECTOR.match(name):
        return (f"XMM{match[1]}",)
    if match := _NUMBERED.match(name):
        whole, kind = f"R{match[1]}", match[2]
        return {"b": (f"{whole}.low",), "w": (f"{whole}.low", f"{whole}.high")}.get(kind, parts(whole))
    if name in ("rflags", "eflags"):
        return (_FLAGS,)
    if name.startswith(("st(", "fp", "mm")):
        return (_FLOATS,)
    stem = name[1:] if len(name) == 3 else name  # rax, eax
    if len(name) == 3 and stem in ("ax", "bx", "cx", "dx"):
        return parts(_OLD[stem[0]])
    if len(name) == 3 and stem in _OTHER:
        return parts(_OTHER[stem])
    if name in _OTHER:
        return parts(_OTHER[name])[1:]
    if len(name) == 3 and name.endswith("l") and name[:2] in _OTHER:
        return (f"{_OTHER[name[:2]]}.low",)
    if len(name) == 2 and name[0] in _OLD and name[1] in "xlh":
        whole = _OLD[name[0]]
        return {"x": (f"{whole}.low", f"{whole}.high"), "l": (f"{whole}.low",), "h": (f"{whole}.high",)}[name[1]]
    return ()


def _all(names: Iterable[str]) -> frozenset[str]:
    return frozenset(part for name in names for part in _parts_x86_64(name))


@functools.cache
def _decoder(architecture: str, *, detail: bool = True) -> Any:
    kinds = {
        "x86_64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        "aarch64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }
    decoder = capstone.Cs(*kinds[architecture])
    decoder.detail = detail
    decoder.skipdata = not detail  # bytes that are no instruction do not end the code
    return decoder


def data_of_x86_64(address: int, code: bytes, most: int) -> tuple[list[tuple[int, int]], int, int]:
    """Return the ``data`` of some instructions, how many instructions were read, and of how many bytes.

    Only those that name an address relative to themselves have any, and decoding the others takes ten times as long as
    reading their text.

    :param most: how many instructions to read at most
    """
    content: list[tuple[int, int]] = []
    count = end = 0
    # Without a count, it would decode all of the code before the first instruction is here.
    for at, size, _, operands in _decoder("x86_64", detail=False).disasm_lite(code, address, most):
        count, end = count + 1, at + size - address
        if "rip" in operands:
            instruction = decode_x86_64(at, code[at - address : at - address + size])
            content += instruction.data if instruction is not None else ()
    return content, count, end


def decode_x86_64(address: int, code: bytes) -> DataFlow | None:  # noqa: C901 - one instruction set
    """Return what the first instruction of ``code`` does, which is at ``address``; None if it is none."""
    instruction = next(_decoder("x86_64").disasm(code, address, 1), None)
    if instruction is None:
        return None
    # Without prefixes such as ``rep`` and ``lock``, which capstone puts before the name.
    mnemonic = instruction.mnemonic.rpartition(" ")[2]
    names = instruction.reg_name
    try:
        read, written = instruction.regs_access()
    except capstone.CsError:
        return None
    reads, writes = set(_all(map(names, read))), set(_all(map(names, written)))
    after = address + instruction.size
    accesses: list[Access] = []
    addresses: set[str] = set()
    memory = [operand for operand in instruction.operands if operand.type == capstone.x86.X86_OP_MEM]
    relative = [operand for operand in memory if operand.mem.base and names(operand.mem.base) == "rip"]
    places = tuple(
        (after + operand.mem.disp, operand.size if mnemonic == "lea" or operand.access & _WRITE else 0)
        for operand in relative
        if mnemonic in ("lea", "mov") or operand.access & _WRITE
    )
    for operand in memory if mnemonic not in _WITHOUT_ACCESS else ():
        place, registers, offset = operand.mem, [], operand.mem.disp
        for register, factor in ((place.base, 1), (place.index, place.scale)):
            if register:
                name = names(register)
                if name == "rip":
                    offset += after
                elif name != "riz":
                    registers.append((name.upper(), factor))
                    addresses.update(_parts_x86_64(name))
        if place.segment and names(place.segment) == "fs":
            registers.append(("FS_OFFSET", 1))
        access = operand.access or _READ
        accesses.append(Access(tuple(registers), offset, operand.size, bool(access & _READ), bool(access & _WRITE)))
    content = {
        part
        for operand in instruction.operands
        if operand.type == capstone.x86.X86_OP_REG
        for part in _parts_x86_64(names(operand.reg))
    }
    # Registers that only form an address are not read as values; ``lea`` computes with them, and reads no memory.
    if mnemonic not in _WITHOUT_ACCESS:
        reads -= addresses - content  # an unknown address is a decision by itself
    # The old value may stay (``cmov``), so it is among what the new one comes from.
    if mnemonic.startswith(_MERGING) or "fpu" in map(instruction.group_name, instruction.groups):
        reads |= {part for part in writes if part != _FLAGS}
    if "fpu" in map(instruction.group_name, instruction.groups):
        reads.add(_FLOATS)
        writes.add(_FLOATS)
    operands = [names(operand.reg) for operand in instruction.operands if operand.type == capstone.x86.X86_OP_REG]
    # The result of ``xor eax, eax`` does not depend on what was there: it ends a chain of answers.
    if mnemonic in _ZEROING and len(set(operands[-2:])) == 1 and len(operands) == len(instruction.operands) > 1:
        reads = {_FLAGS} if mnemonic == "sbb" else set()
    groups = {instruction.group_name(group) for group in instruction.groups}
    stack = ("RSP", 1)
    is_call, is_jump = "call" in groups, "jump" in groups
    # capstone does not list the accesses to the stack that are part of an instruction.
    if mnemonic == "push":
        accesses.append(Access((stack,), -8, 8, reads=False, writes=True))
    elif mnemonic == "pop":
        accesses.append(Access((stack,), 0, 8, reads=True, writes=False))
    elif mnemonic == "leave":
        accesses.append(Access((("RBP", 1),), 0, 8, reads=True, writes=False))
        reads -= set(parts("RBP"))
    decides: set[str] = set()
    # The registers that a jump reads decide where it leads; it "writes" the program counter, which is not a value.
    if is_call or is_jump:
        decides = {part for part in reads if not part.startswith("RSP")}
        reads, writes = set(decides), set()
    elif mnemonic == "ret":
        accesses.append(Access((stack,), 0, 8, reads=True, writes=False))
        reads = writes = set()
    # The count decides the number of repetitions, and the pointers are addresses; neither is part of the moved value.
    if instruction.mnemonic.startswith("rep"):
        decides |= set(parts("RCX"))
        addresses |= set(parts("RSI", "RDI")) & (reads | writes)
        reads -= set(parts("RCX", "RSI", "RDI"))
        writes -= set(parts("RSI", "RDI"))
    reads -= set(parts("RSP"))
    writes -= set(parts("RSP"))
    return DataFlow(
        frozenset(reads),
        frozenset(writes),
        frozenset(addresses - set(parts("RSP"))),
        frozenset(decides),
        tuple(accesses),
        is_call or is_jump or mnemonic == "ret",
        is_call,
        after,
        places,
    )


def _part_aarch64(name: str) -> tuple[str, ...]:
    if name in ("sp", "wsp", "xzr", "wzr"):
        return ()
    if name == "nzcv":
        return (_FLAGS,)
    name = {"fp": "x29", "lr": "x30"}.get(name, name)
    if name[0] in "xw" and name[1:].isdigit():
        return (f"x{name[1:]}",)
    if name[0] in "qvdshb" and name[1:].isdigit():
        return (f"q{name[1:]}",)
    return ()


def decode_aarch64(address: int, code: bytes) -> DataFlow | None:
    """Return what the first instruction of ``code`` does, which is at ``address``; None if it is none."""
    instruction = next(_decoder("aarch64").disasm(code, address, 1), None)
    if instruction is None:
        return None
    names, mnemonic = instruction.reg_name, instruction.mnemonic
    read, written = instruction.regs_access()
    reads = {part for item in read for part in _part_aarch64(names(item))}
    writes = {part for item in written for part in _part_aarch64(names(item))}
    groups = {instruction.group_name(group) for group in instruction.groups}
    accesses, addresses = [], set[str]()
    registers = [names(operand.reg) for operand in instruction.operands if operand.type == capstone.arm64.ARM64_OP_REG]
    sizes = {"w": 4, "x": 8, "q": 16, "d": 8, "s": 4, "h": 2, "b": 1}
    # capstone has no size for operands in memory here: the registers have it, two of them for a pair.
    size = sum(sizes.get(name[0], 8) for name in registers) or _LARGEST
    post_indexed = "], #" in instruction.op_str
    for operand in instruction.operands:
        if operand.type != capstone.arm64.ARM64_OP_MEM or mnemonic == "prfm":
            continue
        place = [(names(item), 1) for item in (operand.mem.base, operand.mem.index) if item]
        addresses.update(part for name, _ in place for part in _part_aarch64(name))
        place = [({"fp": "x29", "lr": "x30"}.get(name, name), factor) for name, factor in place]
        if len(place) > 1:
            place[1] = (place[1][0], 1 << operand.shift.value)
        stores = mnemonic.startswith("st")
        accesses.append(Access(tuple(place), 0 if post_indexed else operand.mem.disp, size, not stores, stores))
    content = {part for name in registers for part in _part_aarch64(name)}
    reads -= addresses - content
    decides: set[str] = set()
    is_call = mnemonic in ("bl", "blr")
    if groups & {"jump", "call"}:
        decides, writes = set(reads), set()
    elif mnemonic == "ret":
        reads = writes = set()
    elif mnemonic in ("mov", "movz", "adr", "adrp", "ldr", "ldp"):
        reads -= writes - content
    return DataFlow(
        frozenset(reads),
        frozenset(writes),
        frozenset(addresses),
        frozenset(decides),
        tuple(accesses),
        bool(groups & {"jump", "call"}) or mnemonic == "ret",
        is_call,
        address + 4,
    )
