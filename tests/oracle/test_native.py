"""The native processor against the processor of this machine, and against icicle.

Instructions are made at random, each with random registers, flags and memory. ``ABISCAN_INSTRUCTIONS=10`` makes ten
times as many as the tests do.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from abiscan import native
from abiscan.binary.elf import ElfFile
from abiscan.emulation.arch.x86_64 import X8664
from abiscan.emulation.by_icicle import IcicleProcessor
from abiscan.emulation.processor import EXECUTE, READ, WRITE, Processor, Stopped
from abiscan.errors import AbiscanError

pytestmark = pytest.mark.skipif(not native.is_compiled(), reason="needs the native processor")

TIMES: Final = int(os.environ.get("ABISCAN_INSTRUCTIONS", "1"))
SOURCES: Final = Path(native.__file__).parent
HARNESS: Final = Path(__file__).parent / "native"
CODE, DATA, PAGE, DATA_SIZE = 0x10_0000, 0x20_0000, 0x1000, 0x2000
GENERAL: Final = (*X8664.registers, "RSP")
FLAGS: Final = ("CF", "PF", "AF", "ZF", "SF", "OF")
ARITHMETIC: Final = ("SF", "ZF", "AF", "PF")


@pytest.fixture(scope="module")
def compile_harness(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile one of the programs in ``native`` that execute random instructions on the core."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("core")
    options = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-ffp-contract=off")
    sources = sorted(str(file) for file in SOURCES.glob("*.c") if file.name != "module.c")
    subprocess.run(["gcc", *options, "-c", *sources], check=True, cwd=folder)

    def compiled(name: str) -> Path:
        objects = sorted(str(file) for file in folder.glob("*.o"))
        subprocess.run(["gcc", *options, str(HARNESS / f"{name}.c"), *objects, "-o", name], check=True, cwd=folder)
        return folder / name

    return compiled


def test_what_a_processor_of_aarch64_did(compile_harness: Callable[[str], Path]) -> None:
    """Whatever the core executes of random instructions leaves behind what they left behind in QEMU.

    ``make native-arm64`` runs more of them there, and records this. On AArch64, they run on this machine, too.
    """
    done = subprocess.run([compile_harness("arm64"), "1", "20000"], capture_output=True, text=True, check=False)
    assert done.stdout == (HARNESS / "arm64.txt").read_text("utf-8")
    assert done.returncode == 0


def test_what_the_processor_does(compile_harness: Callable[[str], Path]) -> None:
    """Whatever the core executes of random instructions, the processor of this machine does in the same way."""
    if platform.machine() != "x86_64":
        pytest.skip("needs an x86-64 processor")
    has_avx = "avx2" in Path("/proc/cpuinfo").read_text("utf-8").split()
    done = subprocess.run(
        [compile_harness("forms"), "1", str(100_000 * TIMES), str(int(has_avx))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    assert done.returncode == 0
    executed, _, _, forms, _ = done.stderr.split()
    assert int(executed) > 5_000 * TIMES
    assert int(forms) > (350 if has_avx else 250)


class State(NamedTuple):
    """What an instruction leaves behind, or where it stopped."""

    stopped: int
    executed: int
    rest: dict[str, int | bytes]


class Start(NamedTuple):
    """What an instruction finds."""

    code: bytes
    registers: dict[str, int]
    vectors: list[bytes]
    memory: bytes


class Memory:
    """The memory of a processor, for the instructions that are executed in Python."""

    helpers = 0
    floats: Any = None

    def __init__(self, vm: Processor) -> None:
        self.vectors, self.masks = vm.vectors, vm.masks
        self.read, self.write = vm.mem_read, vm.mem_write

    def unknown_answer(self, name: str, address: int, registers: Sequence[str]) -> int:  # noqa: ARG002 - as the protocol has it
        return 0


def random_value(random: Random) -> int:
    special = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
    return random.choice(
        (random.choice(special), random.getrandbits(64), random.getrandbits(32), random.getrandbits(8))
    )


def random_code(random: Random, opcode: int, opcode_map: int, *, vex: bool) -> bytes:
    """An instruction whose operands are registers, or memory near what ``rsi`` and ``rdi`` point to."""
    reg = random.getrandbits(3) << 3
    modrm = random.choice((0xC0 | reg | random.getrandbits(3), 0x46 | reg, 0x47 | reg))
    is_register = modrm >= 0xC0
    tail = bytes([opcode, modrm]) + (b"" if is_register else random.randbytes(1)) + random.randbytes(8)
    if vex:
        base = random.getrandbits(1) if is_register else 1
        first = random.getrandbits(1) << 7 | 0x40 | base << 5 | opcode_map
        second = random.getrandbits(1) << 7 | random.choice((15, random.getrandbits(4))) << 3 | random.getrandbits(3)
        return bytes([0xC4, first, second]) + tail
    prefix = random.choice((b"", b"", b"", b"\x66", b"\xf3", b"\xf2"))
    rex = random.choice((b"", b"", b"\x48", b"\x44", b"\x4c", b"\x40", b"\x41" if is_register else b""))
    return prefix + rex + (b"", b"\x0f", b"\x0f\x38", b"\x0f\x3a")[opcode_map] + tail


def random_start(random: Random, code: bytes) -> Start:
    registers = {name: random_value(random) for name in GENERAL}
    registers |= {"RSI": DATA + 0x800 + random.randrange(64), "RDI": DATA + 0x900 + random.randrange(64)}
    registers |= {"RSP": DATA + 0x1800, "RCX": random.choice((registers["RCX"], random.randrange(40)))}
    registers |= {name: random.getrandbits(1) for name in FLAGS}
    vectors = [random.choice((random.randbytes(32), real(random) * 4)) + bytes(32) for _ in range(16)]
    return Start(
        code,
        registers,
        vectors,
        b"".join(random.choice((random.randbytes(8), real(random))) for _ in range(DATA_SIZE // 8)),
    )


def real(random: Random) -> bytes:
    """A floating-point number, or two small ones."""
    import struct

    number = random.uniform(-1e5, 1e5)
    return random.choice((struct.pack("<d", number), struct.pack("<2f", number, -number)))


def prepare(vm: Processor, start: Start) -> None:
    vm.mem_map(CODE, PAGE, READ | EXECUTE)
    vm.mem_write(CODE, start.code.ljust(PAGE, b"\x90"))
    for page in range(DATA, DATA + DATA_SIZE, PAGE):
        vm.mem_map(page, PAGE, READ | WRITE)
    vm.mem_write(DATA, start.memory)
    for number, value in enumerate(start.vectors):
        vm.reg_write(f"XMM{number}_Qa", int.from_bytes(value[:8], "little"))
        vm.reg_write(f"XMM{number}_Qb", int.from_bytes(value[8:16], "little"))
        vm.vectors[number] = value
    for name, number in start.registers.items():
        vm.reg_write(name, number)
    vm.reg_write("DF", 0)
    vm.pc = CODE
    vm.icount_limit = vm.icount + 100


def finish(vm: Processor, stopped: int, before: int) -> State:
    rest: dict[str, int | bytes] = {"pc": vm.pc}
    if not stopped:
        rest |= {name: vm.reg_read(name) for name in (*GENERAL, *FLAGS)}
        for number in range(16):
            low = b"".join(vm.reg_read(f"XMM{number}_Q{half}").to_bytes(8, "little") for half in "ab")
            rest[f"vector {number}"] = low + vm.vectors[number][16:]
        rest["memory"] = vm.mem_read(DATA, DATA_SIZE)
    return State(stopped, vm.icount - before, rest)


def natively(start: Start) -> State:
    """The instruction on the core alone, without what helps it."""
    from abiscan.emulation.by_native import NativeProcessor
    from abiscan.native._core import Core

    vm = NativeProcessor("x86_64", 100)
    prepare(vm, start)
    before = vm.icount
    return finish(vm, Core.step(vm), before)


def otherwise(vm: IcicleProcessor, start: Start) -> State:
    """The instruction on icicle, or in Python where that is what the emulator does with it."""
    vm.forget_code()
    prepare(vm, start)
    before, arch = vm.icount, X8664()
    if start.code.startswith(b"\xc4"):
        return finish(vm, Stopped.UNKNOWN if arch.step_over(vm, Memory(vm), start.code) else 0, before)
    return finish(vm, vm.step(), before)


def undefined(code: bytes) -> tuple[str, ...]:
    """The flags that an instruction leaves undefined, and AF, which icicle does not have (Intel SDM 2)."""
    opcode = code.lstrip(b"\x66\xf2\xf3")
    opcode = opcode[1:] if 0x40 <= opcode[0] < 0x50 else opcode
    first, second = opcode[:2]
    if first == 0x0F and second in (0xA3, 0xAB, 0xB3, 0xBB, 0xBA, 0xBC, 0xBD):
        return ("OF", "SF", "AF", "PF", *(("CF",) if second >= 0xBC else ()))
    if first == 0x0F and second in (0xA4, 0xA5, 0xAC, 0xAD):
        return ("AF", "OF")
    if 0x10 <= first < 0x20 or (first in (0x80, 0x81, 0x83) and second >> 4 & 3 == 1):
        return ("AF", "CF")  # of adc and sbb with the largest number, icicle has it wrong
    if first in (0x69, 0x6B) or (first == 0x0F and second == 0xAF):
        return ARITHMETIC
    if first in (0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3):
        return ("AF", "OF")
    if first in (0xF6, 0xF7) and second >> 3 & 7 >= 4:
        return ARITHMETIC if second >> 3 & 7 < 6 else FLAGS
    return ("AF",)


# Where icicle is wrong, as the other test shows: it does not clear the upper half of a register that ``xchg`` or
# ``lodsd`` sets, and does so in ``nop``; extends 16 bits to 32; stores the wrong half with ``pextrq``; shifts vectors
# by large numbers as if they were small ones; converts to 32 bits where there are 64; compares four floats wrongly.
WRONG: Final = {
    *((0, 0x87), (0, 0x90), (0, 0xAD), (1, 0xB7), (1, 0xBF), (1, 0x2C), (1, 0xC2), (3, 0x16)),
    *((1, opcode) for opcode in (0xD1, 0xD2, 0xD3, 0xE1, 0xE2, 0xF1, 0xF2, 0xF3)),
}
# It leaves a part of the work done where it stops.
HALF_DONE: Final = {(0, 0xC9)}


def forms() -> Iterator[tuple[int, int, bool]]:
    prefixes = (0x0F, 0xC4, 0xC5, *range(0x40, 0x50), 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26)
    for opcode_map in range(4):
        escapes = ((*prefixes,), (0x38, 0x3A), (), ())[opcode_map]
        for opcode in range(256):
            if opcode not in escapes and (opcode_map, opcode) not in WRONG | HALF_DONE:
                yield opcode_map, opcode, False
            if opcode_map:
                yield opcode_map, opcode, True


@pytest.mark.long
def test_what_icicle_does() -> None:
    """It knows whatever the core knows, counts as the core counts, and does the same."""
    random, icicle, known = Random(1), IcicleProcessor("x86_64", 100), 0
    try:
        for opcode_map, opcode, vex in forms():
            for _ in range(2 * TIMES):
                start = random_start(random, random_code(random, opcode, opcode_map, vex=vex))
                ours = natively(start)
                if ours.stopped == Stopped.UNKNOWN:
                    continue
                known += 1
                theirs = otherwise(icicle, start)
                ignored = undefined(start.code)
                kept = [
                    {name: value for name, value in one.rest.items() if name not in ignored} for one in (ours, theirs)
                ]
                assert kept[0] == kept[1], start.code.hex()
                assert ours[:2] == theirs[:2], start.code.hex()
    finally:
        icicle.close()
    assert known > 300 * TIMES


SAMPLES: Final = sorted((Path(__file__).parents[2] / "sample_binaries").glob("**/*.so"))


@pytest.mark.long  # `make icicle` compares most of them with what is recorded
def test_the_same_is_found_with_it_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations, look-ups, gaps and their places, of all samples."""
    from abiscan.emulation import recover

    compared = 0
    for path in SAMPLES:
        found = []
        for value in ("1", "0"):
            monkeypatch.setenv("ABISCAN_NATIVE", value)
            try:
                file = ElfFile.open(path)
                facts = file.facts()
            except AbiscanError:
                break
            found.append(recover(file, facts, None))
        else:
            compared += 1
            assert found[0] == found[1], path
    assert compared > 20
