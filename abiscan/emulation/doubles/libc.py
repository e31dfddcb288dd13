"""Doubles of the C library and of the C++ runtime support (Itanium C++ ABI, chapter 3)."""

from __future__ import annotations

import functools
import itertools
import math
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

from abiscan.emulation.doubles import Doubles, ctype
from abiscan.emulation.doubles.numbers import parsed
from abiscan.emulation.emulator import SIGABRT, ProcessTermination, Stop
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.emulation.strings import wide_text
from abiscan.regex import regex

_TABLES_AT: Final = 104  # in it, behind 13 pointers
_LOCALE_SIZE: Final = 256  # struct __locale_struct has 232 bytes
LIBC: Final = Doubles()

_MAX_COPY: Final = 1 << 26
_MAX_FORMATTED: Final = 1 << 22  # bytes that ``printf`` makes
_ALL_ONES: Final = 0xFFFF_FFFF_FFFF_FFFF
_PAGE_SIZE: Final = 4096
_ERANGE: Final = 34
_TEXT: Final = ("utf-8", "backslashreplace")
_PROCESSORS: Final = 4
_AT_PAGESZ: Final = 6
_SC_PAGESIZE, _SC_NPROCESSORS_CONF, _SC_NPROCESSORS_ONLN = 30, 83, 84


def _checked_size(call: Call, size: int) -> int:
    if size > _MAX_COPY:
        raise Stop(f"{call.name} of {size} bytes", call.return_address)
    return size


def _signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# <ctype.h>


@LIBC.named(*ctype.FUNCTIONS)
def _double_isalpha(call: Call) -> int:
    return int(ctype.is_of(call.name, _signed(call.argument(0), 32)))


@LIBC.named("tolower", "toupper")
def _double_tolower(call: Call) -> int:
    character = _signed(call.argument(0), 32)
    return ctype.lower(character) if call.name == "tolower" else ctype.upper(character)


# What the macros of <ctype.h> index, with characters of either sign and with EOF: from -128 to 255.
_TABLES: Final = {
    "__ctype_b_loc": ("H", ctype.classes),
    "__ctype_tolower_loc": ("i", ctype.lower),
    "__ctype_toupper_loc": ("i", ctype.upper),
}
_LOWEST: Final = -128


@LIBC.named(*_TABLES)
def _double_ctype_b_loc(call: Call) -> int:
    return _table(call.process, call.name)


def _table(process: EmulatedProcess, name: str) -> int:
    """Return where a table is whose function has this name: the address of a pointer to the entry of zero."""
    if name not in process.character_tables:
        form, entry = _TABLES[name]
        entries = struct.pack(f"<384{form}", *map(entry, range(_LOWEST, 256)))
        zero = process.store(entries) - _LOWEST * struct.calcsize(form)
        process.character_tables[name] = process.store(struct.pack("<Q", zero))
    return process.character_tables[name]


# <errno.h>, <error.h>


@LIBC.named("__errno_location")
def _double_errno_location(call: Call) -> int:
    return call.process.bind("datum errno")


@LIBC.named("error")
def _double_error(call: Call) -> int:
    """Emulate ``error``. Takes (status, number of an error, text, …), and goes on if the status is 0."""
    if call.argument(0) & 0xFFFF_FFFF:
        raise ProcessTermination("the code calls error", call.return_address, "")
    return 0


# <libintl.h>, <locale.h>


@LIBC.named("gettext", "dgettext", "dcgettext")
def _double_gettext(call: Call) -> int:
    """Return the text itself, which follows the domain: there is no catalogue."""
    return call.argument(int(call.name != "gettext"))


@LIBC.named("newlocale", "__newlocale", "duplocale", "__duplocale", "uselocale", "__uselocale")
def _double_newlocale(call: Call) -> int:
    """Return a ``locale_t`` of the classic locale, with the tables of ``<ctype.h>`` (glibc,
    bits/types/__locale_t.h).
    """
    locale = call.process.allocate(_LOCALE_SIZE)
    for number, table in enumerate(_TABLES):
        call.machine.set_word(locale + _TABLES_AT + 8 * number, call.machine.word(_table(call.process, table)))
    return locale


# <pthread.h>, and thread-local storage


@LIBC.named("pthread_once")
def _double_pthread_once(call: Call) -> int:
    control, function = call.argument(0), call.argument(1)
    if call.machine.read(control, 4) == bytes(4):
        call.machine.call(function)
        call.machine.write(control, (2).to_bytes(4, "little"))  # not where the function throws
    return 0


@LIBC.named("__once_proxy")
def _double_once_proxy(call: Call) -> int:
    """Call the function that ``std::call_once`` has left in a thread-local variable, as ``pthread_once`` is to do."""
    # libstdc++ leaves the callable in thread-local variables (``<mutex>``: ``__once_callable``, ``__once_call``).
    call.machine.call(call.machine.word(call.process.imported_thread_variable("_ZSt11__once_call")))
    return 0


@LIBC.named("pthread_key_create", "__pthread_key_create")
def _double_pthread_key_create(call: Call) -> int:
    """Make a key for thread-specific data: another one at each call."""
    call.machine.write(call.argument(0), struct.pack("<I", zlib.crc32(b"%d" % call.return_address)))
    return 0


@LIBC.named("pthread_atfork", "__register_atfork", "__pthread_register_cancel", "__pthread_unregister_cancel")
@LIBC.matching(
    r"pthread_((rwlock|cond|spin|barrier)_(init|destroy)|mutex_destroy)$",
    r"pthread_(?!mutex)(\w*)attr_(init|destroy|set\w+)$",
    r"pthread_mutexattr_(destroy|set(?!type)\w+)$",
)
def _double_pthread_atfork(_: Call) -> int:
    """Do nothing: what an object of POSIX threads contains does not matter where nothing runs at the same time."""
    return 0


@LIBC.named("__tls_get_addr")
def _double_tls_get_addr(call: Call) -> int:
    return call.process.thread_variable(*call.machine.words(call.argument(0), 2))


@LIBC.named("_ZNSt6thread20hardware_concurrencyEv", "get_nprocs", "omp_get_max_threads", "omp_get_num_procs")
def _hardware_concurrency(call: Call) -> int:
    call.answer_is_unknown()
    return _PROCESSORS


# <signal.h>


# What SIGCHLD, SIGCONT, SIGURG and SIGWINCH do by default, and those that stop a process (signal(7)); 0 is no signal.
_WITHOUT_END: Final = frozenset((0, 17, 18, 19, 20, 21, 22, 23, 28))


@LIBC.named("raise", "kill")
def _double_raise(call: Call) -> int:
    number = call.argument(call.name == "kill") & 0xFFFF_FFFF
    # The unknown result of ``getpid`` is 0, which stands for the group of the process.
    if call.name == "kill" and (call.argument(0) or "getppid" in call.process.called):
        call.answer_is_unknown()
        return 0
    handled = {"signal", "sigaction", "bsd_signal", "sysv_signal", "__sysv_signal"}.intersection(call.process.called)
    if number in _WITHOUT_END or handled:
        return 0
    raise ProcessTermination(f"the code calls {call.name}", call.return_address, "", signal=number)


# <stdio.h>. What is printed is lost; how long it is may matter


_CONVERSION: Final = regex(rb"%([-+ #0]*)(\d*|\*)(?:\.(\d*|\*))?(hh|h|ll|l|z|j|t|L)?([diouxXcspeEfFgGaAn%])", re.DOTALL)
_BITS: Final = {b"hh": 8, b"h": 16, None: 32}  # of a number with this length modifier; 64 with any other


class _Arguments(Protocol):
    """The arguments behind a format."""

    def integer(self) -> int:
        """Return the next one, an integer or a pointer."""

    def number(self, *, long: bool) -> float:
        """Return the next one, a ``double`` or ``long double``."""


_X87_SIZE: Final = 10


def _long_double(content: bytes) -> float:
    """Return the value of ten bytes of x87 (an exponent behind 64 digits), or of IEEE 754 binary128."""
    if len(content) == _X87_SIZE:
        digits, exponent = struct.unpack("<QH", content)
        sign = -1.0 if exponent >> 15 else 1.0
        exponent &= 0x7FFF
        return sign * math.ldexp(digits, exponent - 16383 - 63) if exponent != 0x7FFF else sign * math.inf
    number = int.from_bytes(content, "little")
    sign = -1.0 if number >> 127 else 1.0
    exponent, digits = number >> 112 & 0x7FFF, number & ((1 << 112) - 1)
    if not exponent:
        return sign * 0.0
    return sign * math.ldexp(digits + (1 << 112), exponent - 16383 - 112) if exponent != 0x7FFF else sign * math.inf


class Passed:
    """Arguments in registers, then in the stack."""

    def __init__(self, call: Call, first: int) -> None:
        self._call = call
        self._integers = itertools.count(first)
        self._numbers = itertools.count()

    def integer(self) -> int:
        """Return the next one, an integer or a pointer."""
        return self._call.argument(next(self._integers))

    def number(self, *, long: bool) -> float:
        """Return the next one, a number."""
        index = next(self._numbers)
        if long or index >= len(self._call.process.arch.number_registers):
            raise Stop("a floating-point number in the stack is printed", self._call.return_address)
        return self._call.number(index)


class Listed:
    """Arguments of a ``va_list``: those left in registers, then those in the stack."""

    def __init__(self, call: Call, address: int) -> None:
        arch, self._machine = call.process.arch, call.machine
        self._has_x87 = arch.has_x87
        where = arch.variable_arguments(call.machine.words, address)
        self._overflow, self._saved, self._offset, self._end = where[:4]
        self._number_saved, self._number_offset, self._number_end = where[4:]

    def integer(self) -> int:
        """Return the next one, an integer or a pointer."""
        if self._offset < self._end:
            self._offset += 8
            return self._machine.word(self._saved + self._offset - 8)
        self._overflow += 8
        return self._machine.word(self._overflow - 8)

    def number(self, *, long: bool) -> float:
        """Return the next one, a number."""
        if long and self._has_x87:
            # A ``long double`` is in memory, at a multiple of 16 (psABI, 3.5.7: ``va_arg``), whatever registers are
            # left.
            self._overflow = -(-self._overflow // 16) * 16 + 16
            return _long_double(self._machine.read(self._overflow - 16, _X87_SIZE))
        if self._number_offset < self._number_end:
            self._number_offset += 16
            content = self._machine.read(self._number_saved + self._number_offset - 16, 16)
        else:
            self._overflow += 16 if long else 8
            content = self._machine.read(self._overflow - (16 if long else 8), 16 if long else 8)
        return _long_double(content) if long else float(struct.unpack_from("<d", content)[0])


def _printed_text(call: Call, address: int, *, wide: bool) -> bytes:
    """Return what ``%s`` or ``%ls`` prints."""
    if not address:
        return b"(null)"
    return wide_text(call.machine, address).encode("ascii") if wide else call.machine.text(address)


def format_text(call: Call, form: bytes, arguments: _Arguments) -> bytes:
    """Return what ``printf`` makes of its arguments (C11, 7.21.6.1).

    :raises Stop: more than any initialiser needs
    """
    made = 0

    def convert(match: re.Match[bytes]) -> bytes:
        nonlocal made
        text = _converted(call, match, arguments)
        made += len(text)
        _check_formatted(call, made)
        return text

    return _CONVERSION.sub(convert, form)


def _check_formatted(call: Call, size: int) -> None:
    if size > _MAX_FORMATTED:
        raise Stop(f"{call.name} of {size} bytes", call.return_address)


def _converted(call: Call, match: re.Match[bytes], arguments: _Arguments) -> bytes:
    """Return what one conversion of a format comes to."""
    flags, width, precision, length, kind = match.groups()
    if kind == b"%":
        return b"%"
    if width == b"*":
        width = b"%d" % _signed(arguments.integer(), 32)
    if width.startswith(b"-"):
        flags, width = flags + b"-", width[1:]
    if precision == b"*":
        precision = b"%d" % _signed(arguments.integer(), 32)
    # C11, 7.21.6.1: a negative width from an argument is a flag and a width, a negative precision is none.
    if precision is not None and precision.startswith(b"-"):
        precision = None  # as if there were none
    # A precision of texts is a limit, and no length: code passes INT_MAX.
    _check_formatted(call, int(width or b"0") + (0 if kind == b"s" else int(precision or b"0")))
    if kind in b"eEfFgGaA":
        return real_text(arguments.number(long=length == b"L"), flags, width, precision, kind)
    value = arguments.integer()
    if kind == b"n":
        raise Stop("a format that stores how long the text is", call.return_address)
    if kind == b"s":
        text = _printed_text(call, value, wide=length == b"l")
        return _padded(text if precision is None else text[: int(precision or b"0")], flags, width)
    if kind == b"c":
        return _padded(bytes((value & 0xFF,)), flags, width)
    if kind == b"p":
        return _padded(b"%#x" % value if value else b"(nil)", flags, width)
    bits = _BITS.get(length, 64)
    number = _signed(value, bits) if kind in b"di" else value & ((1 << bits) - 1)
    return _number(number, flags, width, precision, kind)


def real_text(value: float, flags: bytes, width: bytes, precision: bytes | None, kind: bytes) -> bytes:
    """Return what ``printf`` makes of a floating-point number: Python's ``%`` is that of C, but for hexadecimal
    digits.
    """
    point = b"" if precision is None else b"." + precision
    if kind in b"aA":
        digits = re.sub(r"\.?0*p", "p", value.hex()).encode()
        return _padded(digits.upper() if kind == b"A" else digits, flags, width)
    # Python pads these with zeros, C with spaces.
    if math.isinf(value) or math.isnan(value):
        flags = flags.replace(b"0", b"")
    return b"%%%b%b%b%b" % (flags, width, point, kind) % value


def _padded(text: bytes, flags: bytes, width: bytes) -> bytes:
    size = int(width or b"0")
    return text.ljust(size) if b"-" in flags else text.rjust(size)


def _number(number: int, flags: bytes, width: bytes, precision: bytes | None, kind: bytes) -> bytes:
    """Return an integer: its sign or prefix, zeroes, its digits."""
    digits = b"%%%b" % (kind if kind in b"xXo" else b"d") % abs(number)
    if precision is not None:
        digits = digits.rjust(int(precision or b"0"), b"0") if number or int(precision or b"0") else b""
    sign = b""
    if kind in b"di":
        sign = b"-" if number < 0 else b"+" if b"+" in flags else b" " if b" " in flags else b""
    elif b"#" in flags and kind in b"xX" and number:
        sign = b"0" + kind
    elif b"#" in flags and kind == b"o" and not digits.startswith(b"0"):
        digits = b"0" + digits
    if b"0" in flags and b"-" not in flags and precision is None:
        digits = digits.rjust(int(width or b"0") - len(sign), b"0")
    return _padded(sign + digits, flags, width)


def formatted(call: Call, form: int) -> bytes:
    """Return the text that argument ``form`` describes, of the arguments behind it."""
    return format_text(call, call.machine.text(call.argument(form)), Passed(call, form + 1))


def _store_bounded(call: Call, target: int, size: int, text: bytes) -> int:
    if target and size:
        call.machine.write(target, text[: size - 1] + b"\0")
    return len(text)


@LIBC.named("fflush")
def _double_fflush(_: Call) -> int:
    """Do nothing: what is printed is lost."""
    return 0


@LIBC.named("snprintf", "sprintf", "__snprintf_chk", "__sprintf_chk")
def _double_snprintf(call: Call) -> int:
    shift = 2 if "chk" in call.name else 0
    bounded = "snp" in call.name
    form_at = 1 + bounded + shift
    text = formatted(call, form_at)
    return _store_bounded(call, call.argument(0), call.argument(1) if bounded else _MAX_COPY, text)


@LIBC.named("vsnprintf", "__vsnprintf_chk")
def _double_vsnprintf(call: Call) -> int:
    shift = 2 if "chk" in call.name else 0
    arguments = Listed(call, call.argument(3 + shift))
    text = format_text(call, call.machine.text(call.argument(2 + shift)), arguments)
    return _store_bounded(call, call.argument(0), call.argument(1), text)


@LIBC.named("asprintf", "__asprintf_chk", "vasprintf", "__vasprintf_chk")
def _double_asprintf(call: Call) -> int:
    """Print into newly allocated memory, as ``asprintf`` does. Takes (where the new text goes[, flag], format,
    arguments).
    """
    at = 1 + ("chk" in call.name)
    arguments = Listed(call, call.argument(at + 1)) if "vas" in call.name else Passed(call, at + 1)
    text = format_text(call, call.machine.text(call.argument(at)), arguments)
    call.machine.set_word(call.argument(0), call.process.store(text + b"\0"))
    return len(text)


@LIBC.named("printf", "__printf_chk", "fprintf", "__fprintf_chk", "dprintf", "__dprintf_chk")
def _double_printf(call: Call) -> int:
    return len(formatted(call, int("fprintf" in call.name or "dprintf" in call.name) + ("chk" in call.name)))


@LIBC.named("vprintf", "__vprintf_chk", "vfprintf", "__vfprintf_chk")
def _double_vprintf(call: Call) -> int:
    at = int("vfprintf" in call.name) + ("chk" in call.name)
    return len(format_text(call, call.machine.text(call.argument(at)), Listed(call, call.argument(at + 1))))


_SCANNED: Final = regex(rb"%(\*?)(\d*)(hh|h|ll|l|L|z|j|t)?([diouxXsceEfFgGaAn%]|\[\^?\]?[^\]]*\])|\s+|.", re.DOTALL)
_SCANNED_NUMBERS: Final = {
    b"d": (rb"[+-]?\d+", 10),
    b"i": (rb"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)", 0),
    b"o": (rb"[+-]?[0-7]+", 8),
    b"u": (rb"[+-]?\d+", 10),
    b"x": (rb"[+-]?(?:0[xX])?[0-9a-fA-F]+", 16),
}


@LIBC.named("sscanf", "__isoc99_sscanf", "__isoc23_sscanf")
def _double_sscanf(call: Call) -> int:
    """Read what ``scanf`` reads (C11, 7.21.6.2)."""
    text, form = call.machine.text(call.argument(0)), call.machine.text(call.argument(1))
    call.decide_by_what_was_read()
    at, count, targets = 0, 0, itertools.count(2)
    for match in _SCANNED.finditer(form):
        kept, width, length, kind = not match[1], match[2], match[3], match[4]
        # Blanks are skipped before every conversion but these three (C11, 7.21.6.2p8).
        if (kind or match[0].isspace()) and (kind not in (b"c", b"n") and not (kind or b"").startswith(b"[")):
            at += len(text[at:]) - len(text[at:].lstrip())
        if kind is None and match[0].isspace():
            continue
        if kind is None or kind == b"%":
            if match[0] == b"%":
                raise Stop("a format of scanf that is not known here", call.return_address)
            expected = kind or match[0]
            if text[at : at + 1] != expected:
                return count if count or at < len(text) else -1
            at += 1
            continue
        if kind == b"n":
            call.machine.write(call.argument(next(targets)), at.to_bytes(4, "little"))
            continue
        remainder = text[at : at + int(width)] if width else text[at:]
        size = _scanned(kind, remainder, width)
        if not size:
            return count if count or at < len(text) else -1
        at += size
        if kept:
            _store_scanned(call, call.argument(next(targets)), remainder[:size], kind, length)
            count += 1
    return count


def _scanned(kind: bytes, remainder: bytes, width: bytes) -> int:
    """Return how many characters a conversion takes."""
    if kind in b"eEfFgGaA":
        return parsed(remainder)[1]
    if kind == b"c":
        size = int(width or b"1")
        return size if len(remainder) >= size else 0
    if kind.startswith(b"["):
        pattern = rb"[^%s]+" % _set_of(kind[2:-1]) if kind.startswith(b"[^") else rb"[%s]+" % _set_of(kind[1:-1])
    else:
        pattern, _ = _SCANNED_NUMBERS.get(kind.lower(), (rb"\S+", 0))
    match = re.match(pattern, remainder, re.DOTALL)
    return match.end() if match else 0


def _set_of(characters: bytes) -> bytes:
    """Return the characters of a set, as a regular expression has them: a range is one in both."""
    return re.sub(rb"[\[\]\\^]", lambda match: b"\\" + match[0], characters)


def _store_scanned(call: Call, target: int, part: bytes, kind: bytes, length: bytes | None) -> None:
    if kind in b"eEfFgGaA":
        if length == b"L":
            raise Stop("a long double that scanf reads", call.return_address)
        call.machine.write(target, call.packed(parsed(part)[0], 64 if length == b"l" else 32))
    elif kind == b"c":
        call.machine.write(target, part)
    elif kind == b"s" or kind.startswith(b"["):
        call.machine.write(target, part + b"\0")
    else:
        size = _BITS.get(length, 64) // 8
        base = _SCANNED_NUMBERS[kind.lower()][1]
        digits = part.lstrip(b"+-")
        if not base:
            base = 16 if digits.lower().startswith(b"0x") else 8 if digits.startswith(b"0") else 10
        value = int(digits, base) * (-1 if part.startswith(b"-") else 1)
        call.machine.write(target, (value & ((1 << 8 * size) - 1)).to_bytes(size, "little"))


@LIBC.named("putchar", "fputc", "putc")
def _double_putchar(call: Call) -> int:
    return call.argument(0) & 0xFF


@LIBC.named("puts", "fputs")
def _double_puts(_: Call) -> int:
    return 1


@LIBC.named("fwrite")
def _double_fwrite(call: Call) -> int:
    """Emulate ``fwrite``. Takes (data, size, number, stream); no other stream than those of the console is open."""
    return call.argument(2)


# <stdlib.h>


_NUMBER: Final = regex(rb"\s*([+-]?)(0[xX])?([0-9A-Za-z]*)")


@LIBC.named("strtol", "strtoll", "strtoul", "strtoull", "__isoc23_strtol", "__isoc23_strtoul", "atoi", "atol", "atoll")
def _double_strtol(call: Call) -> int:
    return parse_integer(call, call.machine.text(call.argument(0)))


def parse_integer(call: Call, text: bytes, width: int = 1) -> int:
    """Return the integer at the beginning of a text; where it ends is stored as (text, end, base) say.

    :param width: of a character in memory
    """
    base = 10 if call.name.startswith("ato") else call.argument(2) & 0xFF
    match = _NUMBER.match(text)
    assert match is not None
    sign, prefix, digits = match.groups()
    # C11, 7.22.1.4: a prefix chooses the base where none is given, and 16 allows one, too.
    if base == 0:
        base = 16 if prefix else 8 if digits.startswith(b"0") else 10
    start = match.start(3)
    if prefix and (base != 16 or not digits or int(digits[:1], 36) >= base):  # then the x ends the number
        digits, start = b"0", match.start(2)
    # The digits end at the first that the base does not have; without any, the end is the beginning of the text.
    count = 0
    while count < len(digits) and int(digits[count : count + 1], 36) < base:
        count += 1
    value = int(digits[:count], base) if count else 0
    if not call.name.startswith("ato") and value >= 1 << (64 if "ul" in call.name else 63):
        call.machine.write(call.process.bind("datum errno"), _ERANGE.to_bytes(4, "little"))
        value = _ALL_ONES if "ul" in call.name else (1 << 63) - (sign != b"-")
    if not call.name.startswith("ato") and call.argument(1):
        call.machine.set_word(call.argument(1), call.argument(0) + (start + count if count else 0) * width)
    return -value if sign == b"-" else value


@LIBC.named(
    "aligned_alloc", "memalign", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t"
)
def _double_aligned_alloc(call: Call) -> int:
    first, second = call.argument(0), call.argument(1)
    size, alignment = (first, second) if call.name.startswith("_Z") else (second, first)
    return call.process.allocate(size, max(alignment, 16))


@LIBC.named("posix_memalign")
def _double_posix_memalign(call: Call) -> int:
    call.machine.set_word(call.argument(0), call.process.allocate(call.argument(2), max(call.argument(1), 16)))
    return 0


@LIBC.named("calloc")
def _double_calloc(call: Call) -> int:
    return call.process.allocate(call.argument(0) * call.argument(1))


@LIBC.named("malloc", "valloc", "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t")
def _double_malloc(call: Call) -> int:
    return call.process.allocate(call.argument(0))


@LIBC.named("realloc")
def _double_realloc(call: Call) -> int:
    old, size = call.argument(0), call.argument(1)
    new = call.process.allocate(size)
    # The old block stays as it is: nobody may look at it any more, and memory is never reused.
    kept = min(call.process.size_of(old), size)
    if kept:
        call.machine.write(new, call.machine.read(old, kept))
    return new


@LIBC.named("malloc_usable_size")
def _double_malloc_usable_size(call: Call) -> int:
    return call.process.size_of(call.argument(0))


_PRINTED: Final = {
    "__stack_chk_fail": "*** stack smashing detected ***: terminated",
    "__chk_fail": "*** buffer overflow detected ***: terminated",
}


@LIBC.named("abort", "__assert_fail", "__stack_chk_fail", "__fortify_fail", "__chk_fail")
def _double_abort(call: Call) -> int:
    text = _PRINTED.get(call.name, "")
    if call.name == "__fortify_fail":
        text = f"*** {call.machine.text(call.argument(0)).decode(*_TEXT)} ***: terminated"
    if call.name == "__assert_fail":  # (condition, file, line, function), as glibc prints them
        condition, file, function = (call.machine.text(call.argument(at)).decode(*_TEXT) for at in (0, 1, 3))
        text = f"{file}:{call.argument(2) & 0xFFFF_FFFF}: {function}: Assertion `{condition}' failed."
    raise ProcessTermination(f"the code calls {call.name}", call.return_address, text, signal=SIGABRT)


@LIBC.named("exit", "_exit", "_Exit", "quick_exit")
@LIBC.matching(r"v?errx?$")
def _double_exit(call: Call) -> int:
    raise ProcessTermination(f"the code calls {call.name}", call.return_address, "")


def _order_of(call: Call, compare: int) -> Callable[[bytes, bytes], int]:
    """Return the order of two elements that a function of the object defines."""
    places: list[int] = []

    def order(first: bytes, second: bytes) -> int:
        if not places:
            places.extend(call.process.allocate(len(first)) for _ in range(2))
        for place, content in zip(places, (first, second), strict=True):
            call.machine.write(place, content)
        return _signed(call.machine.call(compare, *places) & 0xFFFF_FFFF, 32)

    return order


@LIBC.named("bsearch")
def _double_bsearch(call: Call) -> int:
    """Emulate ``bsearch``. Takes (what is looked for, elements, number, size, comparison)."""
    requested, start, count, size, compare = (call.argument(index) for index in range(5))
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        result = _signed(call.machine.call(compare, requested, start + middle * size) & 0xFFFF_FFFF, 32)
        if not result:
            return start + middle * size
        low, high = (middle + 1, high) if result > 0 else (low, middle)
    return 0


@LIBC.named("qsort")
def _double_qsort(call: Call) -> None:
    """Emulate ``qsort``. Takes (elements, number, size, comparison); glibc's is a stable one, as long as there is
    memory.
    """
    start, count, size, compare = (call.argument(index) for index in range(4))
    content = call.machine.read(start, _checked_size(call, count * size)) if count and size else b""
    elements = [content[at : at + size] for at in range(0, len(content), size or 1)]
    key: Callable[[bytes], Any] = functools.cmp_to_key(_order_of(call, compare))
    # Python's sort calls the function of the object, as ``qsort`` does, though in another order: that is unspecified.
    elements.sort(key=key)
    call.machine.write(start, b"".join(elements))


@LIBC.named("abs", "labs", "llabs")
def _double_abs(call: Call) -> int:
    return abs(_signed(call.argument(0), 32 if call.name == "abs" else 64))


@LIBC.named("div", "ldiv", "lldiv")
def _double_div(call: Call) -> int:
    """Return quotient and remainder: of ``int`` in one register, of others in two."""
    bits = 32 if call.name == "div" else 64
    first, second = _signed(call.argument(0), bits), _signed(call.argument(1), bits)
    if not second:
        raise Stop("division by zero", call.return_address)
    quotient = abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)
    remainder = first - quotient * second
    if bits == 32:
        return quotient & 0xFFFF_FFFF | (remainder & 0xFFFF_FFFF) << 32
    call.give_second(remainder & _ALL_ONES)
    return quotient


# <string.h>


@LIBC.named("memcpy", "memmove", "__memcpy_chk", "__memmove_chk")
def _double_memcpy(call: Call) -> int:
    target, source, size = call.argument(0), call.argument(1), _checked_size(call, call.argument(2))
    if size:
        call.machine.write(target, call.machine.read(source, size))
    return target


@LIBC.named("memmem")
def _double_memmem(call: Call) -> int:
    """Emulate ``memmem``. Takes (memory, its size, what is looked for, its size)."""
    start, size, requested = (
        call.argument(0),
        _checked_size(call, call.argument(1)),
        _checked_size(call, call.argument(3)),
    )
    sought = call.machine.read(call.argument(2), requested) if requested else b""
    at = (call.machine.read(start, size) if size else b"").find(sought)
    return start + at if at >= 0 else 0


@LIBC.named("memset", "__memset_chk")
def _double_memset(call: Call) -> int:
    target, size = call.argument(0), _checked_size(call, call.argument(2))
    if size:
        call.machine.write(target, bytes((call.argument(1) & 0xFF,)) * size)
    return target


@LIBC.named("memcmp", "bcmp")
def _double_memcmp(call: Call) -> int:
    size = _checked_size(call, call.argument(2))
    if not size:
        return 0
    first, second = call.machine.read(call.argument(0), size), call.machine.read(call.argument(1), size)
    return (first > second) - (first < second)


@LIBC.named("memchr", "memrchr")
def _double_memchr(call: Call) -> int:
    """Find the first byte of a value, or the last one (memchr(3))."""
    start, size = call.argument(0), _checked_size(call, call.argument(2))
    content, requested = call.machine.read(start, size) if size else b"", call.argument(1) & 0xFF
    at = content.rfind(requested) if call.name == "memrchr" else content.find(requested)
    return start + at if at >= 0 else 0


@LIBC.named("rawmemchr")
def _double_rawmemchr(call: Call) -> int:
    text = call.machine.text(call.argument(0)) + b"\0"
    at = text.find(call.argument(1) & 0xFF)
    if at < 0:
        raise Stop("a character that rawmemchr does not find", call.return_address)
    return call.argument(0) + at


@LIBC.named("strcpy", "stpcpy", "__strcpy_chk", "__stpcpy_chk")
def _double_strcpy(call: Call) -> int:
    text = call.machine.text(call.argument(1))
    call.machine.write(call.argument(0), text + b"\0")
    return call.argument(0) + (len(text) if "stp" in call.name else 0)


@LIBC.named("strncpy", "__strncpy_chk")
def _double_strncpy(call: Call) -> int:
    size = _checked_size(call, call.argument(2))
    call.machine.write(call.argument(0), call.machine.text(call.argument(1))[:size].ljust(size, b"\0"))
    return call.argument(0)


@LIBC.named("strcat", "__strcat_chk", "strncat", "__strncat_chk")
def _double_strcat(call: Call) -> int:
    end, text = call.argument(0) + len(call.machine.text(call.argument(0))), call.machine.text(call.argument(1))
    call.machine.write(end, (text[: call.argument(2)] if "strn" in call.name else text) + b"\0")
    return call.argument(0)


@LIBC.named("strcmp", "strcoll", "strcasecmp", "strncmp", "strncasecmp")
def _double_strcmp(call: Call) -> int:
    first, second = call.machine.text(call.argument(0)), call.machine.text(call.argument(1))
    if "case" in call.name:
        first, second = first.lower(), second.lower()
    if call.name.startswith("strn"):
        first, second = first[: call.argument(2)], second[: call.argument(2)]
    return (first > second) - (first < second)


@LIBC.named("strchr", "strrchr", "index", "rindex", "strchrnul")
def _double_strchr(call: Call) -> int:
    text, requested = call.machine.text(call.argument(0)) + b"\0", call.argument(1) & 0xFF
    at = text.rfind(requested) if call.name in ("strrchr", "rindex") else text.find(requested)
    if at < 0:
        return call.argument(0) + len(text) - 1 if call.name == "strchrnul" else 0
    return call.argument(0) + at


@LIBC.named("strspn", "strcspn")
def _double_strspn(call: Call) -> int:
    text, characters = call.machine.text(call.argument(0)), call.machine.text(call.argument(1))
    inside = call.name == "strspn"
    return next((at for at, code in enumerate(text) if (code in characters) != inside), len(text))


@LIBC.named("strpbrk")
def _double_strpbrk(call: Call) -> int:
    text, characters = call.machine.text(call.argument(0)), call.machine.text(call.argument(1))
    at = next((at for at, code in enumerate(text) if code in characters), None)
    return 0 if at is None else call.argument(0) + at


@LIBC.named("strstr", "strcasestr")
def _double_strstr(call: Call) -> int:
    text, requested = call.machine.text(call.argument(0)), call.machine.text(call.argument(1))
    at = text.lower().find(requested.lower()) if "case" in call.name else text.find(requested)
    return call.argument(0) + at if at >= 0 else 0


_STATE_OF_STRTOK: Final = "where strtok goes on"


@LIBC.named("strtok", "strtok_r", "__strtok_r")
def _double_strtok(call: Call) -> int:
    """Return the next token, as ``strtok`` does. Takes (text or null, separators[, where it goes on])."""
    machine = call.machine
    state = call.process.bind(_STATE_OF_STRTOK) if call.name == "strtok" else call.argument(2)
    start, separators = call.argument(0) or machine.word(state), machine.text(call.argument(1))
    text = machine.text(start) if start else b""
    # C11, 7.24.5.8: separators in front are skipped, the one behind the word is overwritten.
    word = text.lstrip(separators) if separators else text
    if not word:
        machine.set_word(state, 0)
        return 0
    start += len(text) - len(word)
    size = next((at for at, code in enumerate(word) if code in separators), len(word))
    if size < len(word):
        machine.write(start + size, b"\0")
    machine.set_word(state, start + size + 1 if size < len(word) else 0)
    return start


@LIBC.named("strsep")
def _double_strsep(call: Call) -> int:
    """Emulate ``strsep``: cut off the next token, and return it. Takes (where the text is, separators)."""
    machine, holder = call.machine, call.argument(0)
    start = machine.word(holder)
    if not start:
        return 0
    text, separators = machine.text(start), machine.text(call.argument(1))
    size = next((at for at, code in enumerate(text) if code in separators), None)
    if size is not None:
        machine.write(start + size, b"\0")
    machine.set_word(holder, 0 if size is None else start + size + 1)
    return start


@LIBC.named("strdup", "__strdup", "strndup")
def _double_strdup(call: Call) -> int:
    text = call.machine.text(call.argument(0))
    return call.process.store((text[: call.argument(1)] if call.name == "strndup" else text) + b"\0")


@LIBC.named("strlen")
def _double_strlen(call: Call) -> int:
    return len(call.machine.text(call.argument(0)))


@LIBC.named("strnlen")
def _double_strnlen(call: Call) -> int:
    return min(len(call.machine.text(call.argument(0))), call.argument(1))


# <sys/auxv.h>, <sys/mman.h>, <unistd.h>


@LIBC.named("getauxval", "__getauxval")
def _double_getauxval(call: Call) -> int:
    """Return the size of a page; the processor has no optional features."""
    number = call.argument(0)
    if number != _AT_PAGESZ and not call.process.arch.tells_features:
        call.answer_is_unknown()
    return _PAGE_SIZE if number == _AT_PAGESZ else 0


@LIBC.named("mmap", "mmap64")
def _double_mmap(call: Call) -> int:
    """Return memory: before a file is open, nothing else is mapped."""
    return call.process.allocate(call.argument(1), _PAGE_SIZE)


@LIBC.named("getcwd")
def _double_getcwd(call: Call) -> int:
    """Emulate ``getcwd``. Takes (buffer, size); some folder."""
    buffer = call.argument(0) or call.process.allocate(2)
    call.machine.write(buffer, b"/\0")
    call.machine.taint.mark(buffer, 2, call.machine.taint.answer(call.name, call.return_address))
    return buffer


@LIBC.named("getpagesize")
def _double_getpagesize(_: Call) -> int:
    return _PAGE_SIZE


@LIBC.named("sysconf")
def _double_sysconf(call: Call) -> int:
    number = call.argument(0) & 0xFFFF_FFFF
    if number == _SC_PAGESIZE:
        return _PAGE_SIZE
    call.answer_is_unknown()
    return _PROCESSORS if number in (_SC_NPROCESSORS_CONF, _SC_NPROCESSORS_ONLN) else _ALL_ONES


@LIBC.named("syscall")
def _double_syscall(call: Call) -> int:
    if call.argument(0) in call.process.arch.exits:
        raise ProcessTermination("the code makes a system call that ends the process", call.return_address, "")
    call.answer_is_unknown()
    return 0


# libgcc: integers of 128 bits


def _long_integer(call: Call, index: int, *, signed: bool) -> int:
    value = call.argument(index) | call.argument(index + 1) << 64
    return _signed(value, 128) if signed else value


@LIBC.named("__divti3", "__modti3", "__udivti3", "__umodti3")
def _double_divti3(call: Call) -> int:
    signed = not call.name.startswith("__u")
    first, second = _long_integer(call, 0, signed=signed), _long_integer(call, 2, signed=signed)
    if not second:
        raise Stop("division by zero", call.return_address)
    quotient = abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)
    value = quotient if "div" in call.name else first - quotient * second
    call.give_second(value >> 64 & _ALL_ONES)
    return value & _ALL_ONES


# The C++ runtime


@LIBC.named("__cxa_guard_acquire")
def _double_cxa_guard_acquire(call: Call) -> int:
    return int(call.machine.read(call.argument(0), 1) == b"\0")


@LIBC.named("__cxa_guard_abort")
def _double_cxa_guard_abort(_: Call) -> None:
    """Do nothing: the object is not made, and its guard as it was."""


@LIBC.named("__cxa_guard_release")
def _double_cxa_guard_release(call: Call) -> None:
    call.machine.write(call.argument(0), b"\1")
