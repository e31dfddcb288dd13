"""Doubles of ``<system_error>``: the categories of the C++ library, and what they say.

A category is an object with nothing but virtual functions; an error code is a number and the address of a category
(libstdc++'s ``<system_error>``). Texts of numbers are those of glibc.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.emulation.strings import COW, CXX11
from abiscan.regex import regex

ERROR_CODES: Final = Doubles()

NO_FILE: Final = 2  # ENOENT
_CATEGORY: Final = regex(r"category (\w+)")
_TEXTS: Final = {
    0: "Success",
    1: "Operation not permitted",
    NO_FILE: "No such file or directory",
    5: "Input/output error",
    9: "Bad file descriptor",
    11: "Resource temporarily unavailable",
    12: "Cannot allocate memory",
    13: "Permission denied",
    17: "File exists",
    20: "Not a directory",
    21: "Is a directory",
    22: "Invalid argument",
    28: "No space left on device",
    33: "Numerical argument out of domain",
    34: "Numerical result out of range",
    35: "Resource deadlock avoided",
    38: "Function not implemented",
    95: "Operation not supported",
    110: "Connection timed out",
}
_FUTURE_ERRORS: Final = {
    1: "Future already retrieved",
    2: "Promise already satisfied",
    3: "No associated state",
    4: "Broken promise",
}
_TABLE: Final = "virtual table of the categories"
_MEMBERS: Final = ("destroy", "delete", "name", "old message", "message", "condition", "equivalent", "equivalent code")


def category(process: EmulatedProcess, name: str) -> int:
    """Return the address of a category: ``generic``, ``system``, ``future`` or ``iostream``."""
    table = process.bind(_TABLE)
    functions = (process.bind(f"category's {member}") for member in _MEMBERS)
    process.machine.write(table + 16, struct.pack(f"<{len(_MEMBERS)}Q", *functions))
    address = process.bind(f"category {name}")
    process.machine.set_word(address, table + 16)
    return address


def message(call: Call, number: int, of: str = "generic") -> str:
    """Return what a category says of a number.

    :raises Stop: that is not known here
    """
    number -= number >> 31 << 32
    text = (_FUTURE_ERRORS if of == "future" else _TEXTS).get(number)
    if text is None:
        raise Stop(f"the text of error {number}", call.return_address)
    return text


def set_error(call: Call, at: int) -> None:
    """Fill in a ``std::error_code``: there is no such file."""
    call.machine.write(at, struct.pack("<I", NO_FILE))
    call.machine.set_word(at + 8, category(call.process, "generic"))


@ERROR_CODES.matching(
    r"_ZNSt3_V21[56](generic|system)_categoryEv$", r"_ZSt15future_categoryv$", r"_ZSt17iostream_categoryv$"
)
def _system_category(call: Call) -> int:
    match = re.search(r"(generic|system|future|iostream)_category", call.name)
    assert match is not None
    return category(call.process, match[1])


def _category_name_at(call: Call, address: int) -> str:
    """Return the name of the category at an address."""
    match = _CATEGORY.fullmatch(call.process.name_at(address) or "")
    if match is None:
        raise Stop("a category of errors that is not known", call.return_address)
    return match[1]


@ERROR_CODES.named("category's name")
def _category_name(call: Call) -> int:
    return call.process.store(_category_name_at(call, call.argument(0)).encode() + b"\0")


@ERROR_CODES.named("category's message", "category's old message")
def _category_message(call: Call) -> None:
    result = call.result
    text = message(call, call.argument(1) & 0xFFFF_FFFF, _category_name_at(call, call.argument(0))).encode()
    (COW if "old" in call.name else CXX11).create(call.process, result, text)


@ERROR_CODES.named("category's condition")
def _category_default_error_condition(call: Call) -> int:
    """Return the default condition of an error. Takes (category, number); the number, in the generic category where
    it is one of the system.
    """
    name = _category_name_at(call, call.argument(0))
    call.give_second(category(call.process, "generic" if name == "system" else name))
    return call.argument(1) & 0xFFFF_FFFF


@ERROR_CODES.named("_ZNKSt10error_code23default_error_conditionEv")
def _error_code_default_error_condition(call: Call) -> int:
    number, of = call.machine.words(call.argument(0), 2)
    name = _category_name_at(call, of)
    call.give_second(category(call.process, "generic" if name == "system" else name))
    return number & 0xFFFF_FFFF


@ERROR_CODES.named("category's equivalent")
def _category_equivalent_condition(call: Call) -> int:
    """Compare an error with a condition. Takes (category, number, condition)."""
    number, of = call.machine.words(call.argument(2), 2)
    name = _category_name_at(call, call.argument(0))
    generic = category(call.process, "generic" if name == "system" else name)
    return int(number & 0xFFFF_FFFF == call.argument(1) & 0xFFFF_FFFF and of == generic)


@ERROR_CODES.named("category's equivalent code")
def _category_equivalent_code(call: Call) -> int:
    """Compare an error code with a number. Takes (category, code, number)."""
    number, of = call.machine.words(call.argument(1), 2)
    return int(number & 0xFFFF_FFFF == call.argument(2) & 0xFFFF_FFFF and of == call.argument(0))


@ERROR_CODES.named("category's destroy", "category's delete")
def _category_destructor(_: Call) -> None:
    """Do nothing: categories live as long as the process."""


@ERROR_CODES.named("strerror", "__xpg_strerror_r", "strerror_r")
def _double_strerror(call: Call) -> int:
    """Return the text of an error number, as ``strerror`` does. Takes (number[, buffer, size])."""
    text = message(call, call.argument(0) & 0xFFFF_FFFF).encode() + b"\0"
    if call.name.startswith("__xpg"):
        call.machine.write(call.argument(1), text[: call.argument(2)])
        return 0
    return call.process.store(text)
