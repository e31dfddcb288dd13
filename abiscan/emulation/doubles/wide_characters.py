"""Doubles of ``<wchar.h>`` and ``<wctype.h>``.

In the locales that a process with Python has, a wide character below 128 is the ``char`` of the same code; what becomes
of others there, nobody knows.
"""

from __future__ import annotations

from typing import Final

from abiscan.emulation.doubles import Doubles, ctype
from abiscan.emulation.doubles.libc import Listed, Passed, format_text, parse_integer
from abiscan.emulation.doubles.numbers import parsed
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.emulation.strings import decoded, encoded, wide_text

WIDE_CHARACTERS: Final = Doubles()

_WIDE: Final = 4  # bytes
_MOST: Final = 1 << 24
_ASCII: Final = 128
_EOF: Final = 0xFFFF_FFFF
_ALL_ONES: Final = 0xFFFF_FFFF_FFFF_FFFF


def _check_count(call: Call, count: int) -> int:
    """Return a number of wide characters; more than any program has stop the run."""
    if count > _MOST:
        raise Stop(f"{count} wide characters", call.return_address)
    return count


def _wide_characters_argument(call: Call, index: int, count: int) -> str:
    """Return so many wide characters at an argument."""
    _check_count(call, count)
    return decoded(call.machine.read(call.argument(index), count * _WIDE), _WIDE) if count else ""


def _wide_text_argument(call: Call, index: int) -> str:
    return wide_text(call.machine, call.argument(index))


def _write_wide_text(call: Call, address: int, text: str) -> None:
    if text:
        call.machine.write(address, encoded(text, _WIDE))


# Memory and texts


@WIDE_CHARACTERS.named("wmemcpy", "wmemmove", "__wmemcpy_chk", "__wmemmove_chk")
def _double_wmemcpy(call: Call) -> int:
    """Copy wide characters. Takes (target, source, number); what is copied need not be characters."""
    count = _check_count(call, call.argument(2))
    if count:
        call.machine.write(call.argument(0), call.machine.read(call.argument(1), count * _WIDE))
    return call.argument(0)


@WIDE_CHARACTERS.named("wmemset", "__wmemset_chk")
def _double_wmemset(call: Call) -> int:
    """Fill with a wide character. Takes (target, character, number)."""
    count = _check_count(call, call.argument(2))
    call.machine.write(call.argument(0), (call.argument(1) & 0xFFFF_FFFF).to_bytes(_WIDE, "little") * count)
    return call.argument(0)


@WIDE_CHARACTERS.named("wmemcmp")
def _double_wmemcmp(call: Call) -> int:
    first, second = (_wide_characters_argument(call, index, call.argument(2)) for index in (0, 1))
    return (first > second) - (first < second)


@WIDE_CHARACTERS.named("wmemchr")
def _double_wmemchr(call: Call) -> int:
    at = _wide_characters_argument(call, 0, call.argument(2)).find(chr(call.argument(1) & 0xFFFF_FFFF))
    return call.argument(0) + at * _WIDE if at >= 0 else 0


@WIDE_CHARACTERS.named("wcslen", "wcsnlen")
def _double_wcslen(call: Call) -> int:
    length = len(_wide_text_argument(call, 0))
    return length if call.name == "wcslen" else min(length, call.argument(1))


@WIDE_CHARACTERS.named("wcscmp", "wcscoll", "wcsncmp")
def _double_wcscmp(call: Call) -> int:
    first, second = _wide_text_argument(call, 0), _wide_text_argument(call, 1)
    if call.name == "wcsncmp":
        first, second = first[: call.argument(2)], second[: call.argument(2)]
    return (first > second) - (first < second)


@WIDE_CHARACTERS.named("wcschr", "wcsrchr")
def _double_wcschr(call: Call) -> int:
    text, requested = _wide_text_argument(call, 0) + "\0", chr(call.argument(1) & 0xFFFF_FFFF)
    at = text.rfind(requested) if call.name == "wcsrchr" else text.find(requested)
    return call.argument(0) + at * _WIDE if at >= 0 else 0


@WIDE_CHARACTERS.named("wcsstr")
def _double_wcsstr(call: Call) -> int:
    at = _wide_text_argument(call, 0).find(_wide_text_argument(call, 1))
    return call.argument(0) + at * _WIDE if at >= 0 else 0


@WIDE_CHARACTERS.named("wcscpy", "wcpcpy", "__wcscpy_chk")
def _double_wcscpy(call: Call) -> int:
    text = _wide_text_argument(call, 1)
    _write_wide_text(call, call.argument(0), text + "\0")
    return call.argument(0) + (len(text) * _WIDE if call.name == "wcpcpy" else 0)


@WIDE_CHARACTERS.named("wcsncpy", "__wcsncpy_chk")
def _double_wcsncpy(call: Call) -> int:
    size = min(call.argument(2), _MOST)
    _write_wide_text(call, call.argument(0), _wide_text_argument(call, 1)[:size].ljust(size, "\0"))
    return call.argument(0)


@WIDE_CHARACTERS.named("wcscat", "__wcscat_chk")
def _double_wcscat(call: Call) -> int:
    _write_wide_text(
        call, call.argument(0) + len(_wide_text_argument(call, 0)) * _WIDE, _wide_text_argument(call, 1) + "\0"
    )
    return call.argument(0)


@WIDE_CHARACTERS.named("wcsdup")
def _double_wcsdup(call: Call) -> int:
    return call.process.store(encoded(_wide_text_argument(call, 0) + "\0", _WIDE))


# Characters


@WIDE_CHARACTERS.named("towlower", "towupper")
def _double_towlower(call: Call) -> int:
    code = call.argument(0) & 0xFFFF_FFFF
    if code < _ASCII:
        return ctype.lower(code) if call.name == "towlower" else ctype.upper(code)
    if code != _EOF:
        call.answer_is_unknown()
    return code


@WIDE_CHARACTERS.named(*(name.replace("is", "isw", 1) for name in ctype.FUNCTIONS))
def _double_iswalpha(call: Call) -> int:
    code = call.argument(0) & 0xFFFF_FFFF
    if code >= _ASCII and code != _EOF:
        call.answer_is_unknown()
    return int(ctype.is_of(call.name.replace("isw", "is", 1), code))


@WIDE_CHARACTERS.named("wctob", "btowc")
def _double_wctob(call: Call) -> int:
    code = call.argument(0) & 0xFFFF_FFFF
    if code < _ASCII:
        return code
    if code != _EOF:
        call.answer_is_unknown()
    return _ALL_ONES


# From one kind of characters to the other


@WIDE_CHARACTERS.named("wcstombs", "__wcstombs_chk", "mbstowcs", "__mbstowcs_chk")
def _double_wcstombs(call: Call) -> int:
    """Convert a text of bytes to wide characters, or back. Takes (target or null, text, the most that is written)."""
    target, to_wide = call.argument(0), "mbstowcs" in call.name
    text = decoded(call.machine.text(call.argument(1)), 1) if to_wide else _wide_text_argument(call, 1)
    if not text.isascii():
        raise Stop(f"{call.name} of more than ASCII", call.return_address)
    if target:
        part = f"{text}\0"[: call.argument(2)]
        call.machine.write(target, encoded(part, _WIDE if to_wide else 1))
        return min(len(text), call.argument(2))
    return len(text)


@WIDE_CHARACTERS.named("mbrtowc", "mbtowc")
def _double_mbrtowc(call: Call) -> int:
    """Convert one character to a wide one. Takes (target or null, text or null, its length, ...)."""
    target, text = call.argument(0), call.argument(1)
    if not text:
        return 0
    if not call.argument(2):
        return _ALL_ONES - (call.name == "mbrtowc")
    code = call.machine.byte(text)
    if code >= _ASCII:
        raise Stop(f"{call.name} of more than ASCII", call.return_address)
    if target:
        _write_wide_text(call, target, chr(code))
    return int(code != 0)


@WIDE_CHARACTERS.named("wcrtomb", "wctomb")
def _double_wcrtomb(call: Call) -> int:
    """Convert one wide character to bytes. Takes (target or null, character, ...)."""
    code = call.argument(1) & 0xFFFF_FFFF
    if not call.argument(0):
        return int(call.name == "wcrtomb")
    if code >= _ASCII:
        raise Stop(f"{call.name} of more than ASCII", call.return_address)
    call.machine.write(call.argument(0), bytes((code,)))
    return 1


_UTF8: Final = "_ZNKSt19__codecvt_utf8_baseIwE"
_OK, _PARTIAL = 0, 1  # std::codecvt_base::result


@WIDE_CHARACTERS.matching(
    rf"{_UTF8}(6do_outER11__mbstate_tPKwS4_RS4_PcS6_RS6_|5do_inER11__mbstate_tPKcS4_RS4_PwS6_RS6_)"
)
def _codecvt_do_in(call: Call) -> int:
    """Convert between encodings, as ``std::codecvt`` does. Takes (this, state, text, its end, where it was left,
    target, its end, where that was left).
    """
    begin, end, target, room = (call.argument(index) for index in (2, 3, 5, 6))
    from_wide = "do_out" in call.name
    content = call.machine.read(begin, end - begin) if end > begin else b""
    read = written = 0
    result = _OK
    for unit in decoded(content, _WIDE) if from_wide else content.decode("utf-8"):
        old, new = (unit.encode("utf-8"), encoded(unit, _WIDE))[:: -1 if from_wide else 1]
        if target + written + len(new) > room:
            result = _PARTIAL
            break
        call.machine.write(target + written, new)
        read, written = read + len(old), written + len(new)
    call.machine.set_word(call.argument(4), begin + read)
    call.machine.set_word(call.argument(7), target + written)
    return result


@WIDE_CHARACTERS.named(f"{_UTF8}13do_max_lengthEv")
def _codecvt_do_max_length(_: Call) -> int:
    return 4


# Numbers


def _digits_argument(call: Call) -> bytes:
    """Return the text of a number; what is not ASCII ends it."""
    return _wide_text_argument(call, 0).encode("ascii", "replace")


@WIDE_CHARACTERS.named("wcstol", "wcstoll", "wcstoul", "wcstoull", "__isoc23_wcstol", "__isoc23_wcstoul")
def _double_wcstol(call: Call) -> int:
    return parse_integer(call, _digits_argument(call), _WIDE)


@WIDE_CHARACTERS.named("wcstod", "wcstof")
def _double_wcstod(call: Call) -> None:
    value, size = parsed(_digits_argument(call))
    if call.argument(1):
        call.machine.set_word(call.argument(1), call.argument(0) + size * _WIDE)
    call.give_number(value, 32 if call.name == "wcstof" else 64)


@WIDE_CHARACTERS.named("swprintf", "__swprintf_chk", "vswprintf", "__vswprintf_chk")
def _double_swprintf(call: Call) -> int:
    """Print wide characters, as ``swprintf`` does. Takes (target, room[, flag, room], format, arguments); a text that
    does not fit is an error.
    """
    shift = 2 if "chk" in call.name else 0
    target, room = call.argument(0), call.argument(1)
    form = _wide_text_argument(call, 2 + shift).encode("ascii")
    arguments = Listed(call, call.argument(3 + shift)) if "vsw" in call.name else Passed(call, 3 + shift)
    text = decoded(format_text(call, form, arguments), 1)
    if len(text) >= room:
        return _ALL_ONES
    _write_wide_text(call, target, text + "\0")
    return len(text)
