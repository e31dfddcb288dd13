"""Processors that one machine leaves to the next."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from abiscan.emulation.arch import Arch
from abiscan.emulation.arch.aarch64 import Aarch64
from abiscan.emulation.arch.x86_64 import X8664
from abiscan.emulation.by_icicle import IcicleProcessor
from abiscan.emulation.emulator import HEAP_BASE, PAGE_SIZE, Emulator
from abiscan.emulation.processor import EXECUTE, READ, AccessError, Stopped

CODE = 0x10_0000
RETURN_RDI = bytes.fromhex("4889f8c3")
RETURN_SEVEN = bytes.fromhex("b807000000c3")


@pytest.fixture(autouse=True)
def _icicle(monkeypatch: pytest.MonkeyPatch) -> None:
    """These are about icicle's processors, also where there is a native one."""
    monkeypatch.setenv("ABISCAN_NATIVE", "0")


def machine_with(code: bytes) -> Emulator:
    machine = Emulator(X8664(), pager=lambda _: False, call_out=lambda _: None)
    machine.map_page(CODE, code.ljust(PAGE_SIZE, b"\0"), writable=False, executable=True)
    return machine


def test_the_next_machine_gets_it_as_new() -> None:
    first = machine_with(RETURN_RDI)
    processor = first.vm.reg_read.__self__  # type: ignore[attr-defined]
    first.watch(CODE)
    first.set_word(HEAP_BASE, 5)
    assert first.start(CODE, (3,), 100) == 3
    first.vm.reg_write("rbx", 9)
    first.close()

    second = machine_with(RETURN_SEVEN)
    assert second.vm.reg_read.__self__ is processor  # type: ignore[attr-defined]
    assert second.vm.reg_read("rbx") == 0
    assert second.vm.icount == 0
    assert second.word(HEAP_BASE) == 0
    assert second.start(CODE, (3,), 100) == 7  # other code at the same place, and a breakpoint on it that means nothing
    assert second.reached == set()
    second.close()


def test_what_was_mapped_is_gone() -> None:
    processor = IcicleProcessor("x86_64", 1)
    processor.mem_map(CODE, PAGE_SIZE, READ | EXECUTE)
    processor.close()
    again = IcicleProcessor("x86_64", 1)
    with pytest.raises(AccessError):
        again.mem_read(CODE, 1)
    again.pc = CODE
    assert again.run() == Stopped.NOT_CODE
    again.close()


def test_two_machines_at_once_have_two() -> None:
    one, other = machine_with(RETURN_SEVEN), machine_with(RETURN_RDI)
    assert one.vm is not other.vm
    assert (one.start(CODE, (), 100), other.start(CODE, (2,), 100)) == (7, 2)


def test_a_closed_machine_has_none() -> None:
    machine = machine_with(RETURN_SEVEN)
    machine.close()
    with pytest.raises(AttributeError):
        machine.start(CODE, (), 100)


def test_each_thread_has_its_own() -> None:
    """icicle ends a process that uses a processor in another thread than that which made it."""
    machine_with(RETURN_SEVEN).close()
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(machine_with(RETURN_SEVEN).start(CODE, (), 100)))
    thread.start()
    thread.join()
    assert found == [7]


@pytest.mark.parametrize("before", [None, "1"])
def test_the_environment_stays(before: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RUST_LIB_BACKTRACE"}
    if before is not None:
        environment["RUST_LIB_BACKTRACE"] = before
    code = (
        "import os; from abiscan.emulation.by_icicle import IcicleProcessor; IcicleProcessor('x86_64', 1);"
        "print(os.environ.get('RUST_LIB_BACKTRACE'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str(before)


@pytest.mark.parametrize(
    ("machine", "code", "above"),
    [(X8664, "4889e0c3", 8), (Aarch64, "e0030091c0035fd6", 0)],  # returns the stack pointer
    ids=["x86_64", "aarch64"],
)
def test_the_stack_is_aligned_where_a_function_starts(machine: type[Arch], code: str, above: int) -> None:
    """SysV psABI, 3.2.2: with the return address, 16 bytes and 8; AAPCS64, 6.4.5.1: 16 bytes."""
    emulator = Emulator(machine(), pager=lambda _: False, call_out=lambda _: None)
    emulator.map_page(CODE, bytes.fromhex(code).ljust(PAGE_SIZE, b"\0"), writable=False, executable=True)
    first = emulator.start(CODE, (), 100)
    assert (first + above) % 16 == 0
    assert emulator.start(CODE, (), 100) == first  # all of it is given back
    emulator.close()
