"""Recovers what an object registers with torch by emulating its initialisers. Only this room runs code of a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abiscan.binary.elf import ElfFile, Machine, SharedObject
    from abiscan.cpu.needs import CpuAtLoad
    from abiscan.registrations import NotRun, Registrations, TorchRegistrations

__all__ = [
    "call_function",
    "call_operator",
    "called_at_start",
    "cpu_at_load",
    "prepare",
    "recover",
    "recover_torch",
]


# The emulator is imported when something is emulated: users that only need the model do not wait for it.


def recover(
    file: ElfFile,
    facts: SharedObject,
    argument_tail: int | None = None,
    syntax_error: Callable[[str], str | None] = lambda _: None,
) -> Registrations:
    """Recover everything that an object registers, without running it.

    :param file: the object; its bytes are read on demand
    :param facts: the result of ``file.facts()``
    :param argument_tail: ``sizeof(c10::Argument)`` in the torch that the object was built for, in bytes, less the name
        it begins with; None to tell it from the object, as far as that goes
    :param syntax_error: what every torch says of a text that none reads as a schema, empty where some may read it, None
        for any other: where the code catches that, it goes on
    :returns: the registrations, with a ``Gap`` for everything that could not be read; nothing in the file
        raises
    """
    from abiscan.emulation import recovery

    return recovery.recover(file, facts, argument_tail, syntax_error)


def prepare(machine: Machine) -> None:
    """Do ahead of time what takes as long as recovering from a small object, so that processes forked afterwards need
    not.
    """
    from abiscan.emulation import processors, recovery  # noqa: F401 - imports what recovering needs
    from abiscan.emulation.arch import ARCHITECTURES

    processors.take(ARCHITECTURES[machine].name, 1).close()


def call_operator(
    file: ElfFile,
    facts: SharedObject,
    operator: str,
    schema: str,
    *,
    argument_tail: int | None = None,
    siblings: Sequence[ElfFile] = (),
    abi_version: int | None = None,
) -> int | bool | str | NotRun | None:
    """Return the result of an operator without arguments whose kernel an object registers while it is loaded.

    :param operator: ``ns::name``
    :param schema: ``ns::name() -> int``, as it is registered
    :param argument_tail: as for ``recover``
    :param siblings: the libraries that define functions which the object imports
    :param abi_version: what ``aoti_torch_abi_version()`` returns on the torch in question, None if that is not known
    :returns: the result, or why there is none: nothing in the files raises
    """
    from abiscan.emulation import operator_calls

    return operator_calls.call(file, facts, operator, schema, argument_tail, siblings, abi_version)


def called_at_start(file: ElfFile, facts: SharedObject) -> tuple[str, ...]:
    """Find the imported functions that the static initialisers of an object surely call, in order.

    :param facts: what was read of it
    """
    from abiscan.emulation import recovery

    return recovery.called_at_start(file, facts)


def cpu_at_load(file: ElfFile, facts: SharedObject) -> CpuAtLoad:
    """Find the features of the processor that an object uses while it is loaded, without asking whether it has them.

    The import of its Python modules counts, too. Nothing in the file raises.
    """
    from abiscan.emulation import recovery

    return recovery.cpu_at_load(file, facts)


def call_function(file: ElfFile, facts: SharedObject, name: str) -> int | bool | NotRun | None:
    """Return the result of a function without arguments of a module made with pybind11, by its name.

    :returns: the result, or why there is none: nothing in the file raises
    """
    from abiscan.emulation import operator_calls

    return operator_calls.call_function(file, facts, name)


def recover_torch(files: Mapping[str, ElfFile], machine: Machine) -> TorchRegistrations:
    """Return what torch's libraries register, without running them.

    :param files: the libraries by name, each after its dependencies
    :param machine: the machine that they are built for
    """
    from abiscan.emulation import torch_libraries

    return torch_libraries.recover_torch(files, machine)
