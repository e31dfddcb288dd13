"""Doubles of ``std::string`` in both layouts, and of ``std::wstring``.

What templates inline into an extension runs as it is; only the out-of-line parts need a stand-in. Here a text is a
``str`` with one character for each unit of the string, a byte or a ``wchar_t``. Sources: libstdc++'s
bits/basic_string.h and bits/cow_string.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.doubles.exceptions import throw
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call, Double
from abiscan.emulation.strings import COW, CXX11, EMPTY_REP, REP_SIZE, decoded, encoded, wide_text

CXX_STRINGS: Final = Doubles()

_MOST_RESERVED: Final = 1 << 20  # with the length of a text that is not known
_MOST_UNITS: Final = 1 << 24
_NPOS: Final = 0xFFFF_FFFF_FFFF_FFFF
_CXX11_CLASS: Final = "St7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"
_WIDE_CLASS: Final = _CXX11_CLASS.replace("Ic", "Iw")
_PRESENT: Final = f"(?:{_CXX11_CLASS}|{_WIDE_CLASS})"
_WIDE: Final = 4  # bytes of a wchar_t
_LOCAL_SIZE: Final = 16


def _spellings(member: str, *, const: bool) -> tuple[str, str, str]:
    """Return the mangled names of a member of ``std::string``, given as the old layout spells it, and of
    ``std::wstring``.
    """
    # ``Ss`` is the abbreviation for the old string; the new one is spelled out, and its parts are substitutions in what
    # follows (Itanium C++ ABI, 5.1).
    start = "_ZNK" if const else "_ZN"
    modern = member.replace("RKSaIcE", "RKS3_")
    for qualifier in ("RK", "O", "R"):
        modern = modern.replace(f"{qualifier}Ss", f"{qualifier}S4_")
    return f"{start}Ss{member}", f"{start}{_CXX11_CLASS}{modern}", f"{start}{_WIDE_CLASS}{_widened(modern)}"


def _widened(member: str) -> str:
    """Return the rest of the mangled name of a member with ``wchar_t`` for ``char``, except in the text of an error."""
    name, separator, signature = member.replace("listIc", "listIw").rpartition("E")
    return f"{name}{separator}{signature if '_M_check' in name else signature.replace('c', 'w')}"


def _member(*members: str, const: bool = False) -> Callable[[Double], Double]:
    return CXX_STRINGS.named(*(name for member in members for name in _spellings(member, const=const)))


def _constructor(*signatures: str) -> Callable[[Double], Double]:
    return _member(*(f"C{kind}E{signature}" for kind in "12" for signature in signatures))


# Texts in memory


def _character_width(call: Call) -> int:
    return _WIDE if "basic_stringIw" in call.name else 1


def _is_old(call: Call) -> bool:
    return call.name.startswith(("_ZNSs", "_ZNKSs"))


def _string_argument(call: Call, index: int = 0) -> str:
    """Return the text of a string."""
    return _known_text(call, lambda: _read_string(call, call.argument(index)))


def _read_string(call: Call, address: int) -> str:
    if _character_width(call) == 1:
        return decoded((COW if _is_old(call) else CXX11).read(call.process, address), 1)
    pointer, length = call.machine.words(address, 2)
    if not pointer:
        raise Stop(f"no string at {address:#x}", call.return_address)
    return _characters_at(call, pointer, length)


def _characters_at(call: Call, address: int, count: int) -> str:
    """Return so many units at an address."""
    if count > _MOST_UNITS:
        raise Stop(f"string of {count} bytes", call.return_address)
    return decoded(call.machine.read(address, count * _character_width(call)), _character_width(call)) if count else ""


def _characters_argument(call: Call, start: int, size: int) -> str:
    """Return the text at one argument, with the length in another one."""
    return _known_text(call, lambda: _characters_at(call, call.argument(start), call.argument(size)))


def _c_string_argument(call: Call, index: int) -> str:
    """Return the text up to a zero."""
    address = call.argument(index)
    return decoded(call.machine.text(address), 1) if _character_width(call) == 1 else wide_text(call.machine, address)


def _known_text(call: Call, read: Callable[[], str]) -> str:
    try:
        return read()
    except Stop:
        if call.process.unknown_text is None:
            raise
        return decoded(call.process.unknown_text, 1)


def _character_argument(call: Call, index: int) -> str:
    """Return a character among the arguments."""
    return chr(call.argument(index) & (0xFF if _character_width(call) == 1 else 0xFFFF_FFFF))


def _repeated_argument(call: Call, character: int, count: int) -> str:
    return _character_argument(call, character) * len(call.repeated(character, count))


def _set_string(call: Call, text: str, index: int = 0) -> int:
    _construct_string(call, call.argument(index), text)
    return call.argument(index)


def _construct_string(call: Call, address: int, text: str) -> None:
    content, width = encoded(text, _character_width(call)), _character_width(call)
    if width == 1:
        (COW if _is_old(call) else CXX11).create(call.process, address, content)
    # Short texts lie in the object itself, which the pointer shows: inlined code compares the two.
    elif len(content) + width <= _LOCAL_SIZE:
        call.machine.write(address, struct.pack("<QQ", address + 16, len(text)) + content + bytes(width))
    else:
        pointer = call.process.store(content + bytes(width))
        call.machine.write(address, struct.pack("<QQQ", pointer, len(text), len(text)))


def _check_string_position(call: Call, at: int, text: str, where: str) -> int:
    """Throw ``std::out_of_range`` where a position is behind the end, as ``_M_check`` does."""
    if at > len(text):
        throw(call, "St12out_of_range", f"{where}: __pos (which is {at}) > this->size() (which is {len(text)})")
    return at


# Public members, in the order of bits/basic_string.h: constructors and destructor


@_constructor("v", "RKSaIcE")
def _string_constructor(call: Call) -> None:
    _set_string(call, "")


@_constructor("RKSs", "OSs", "RKSsRKSaIcE", "OSsRKSaIcE")
def _string_copy_constructor(call: Call) -> None:
    text = _string_argument(call, 1)
    if "OS" in call.name:
        _set_string(call, "", 1)
    _set_string(call, text)


@_constructor("RKSsmm", "RKSsm", "RKSsmRKSaIcE", "RKSsmmRKSaIcE")
def _string_constructor_from_substring(call: Call) -> None:
    count = call.argument(3) if "mm" in call.name else _NPOS
    text, at = _string_argument(call, 1), call.argument(2)
    where = "basic_string::basic_string" if "mm" in call.name or not call.name.endswith("m") else "string::string"
    _set_string(call, text[_check_string_position(call, at, text, where) :][:count])


@_constructor("PKcmRKSaIcE")
def _string_constructor_from_characters(call: Call) -> None:
    _set_string(call, _characters_argument(call, 1, 2))


@_constructor("PKcRKSaIcE")
def _string_constructor_from_c_string(call: Call) -> None:
    if not call.argument(1) and call.process.unknown_text is None:
        throw(call, "St11logic_error", "basic_string: construction from null is not valid")
    _set_string(call, _c_string_argument(call, 1))


CXX_STRINGS.named(
    *(f"_ZN{_CXX11_CLASS}C{kind}IS3_EEPKcRKS3_" for kind in "12"),
    *(f"_ZN{_WIDE_CLASS}C{kind}IS3_EEPKwRKS3_" for kind in "12"),
)(_string_constructor_from_c_string)


@_constructor("mcRKSaIcE")
def _string_constructor_repeating(call: Call) -> None:
    _set_string(call, _repeated_argument(call, 2, 1))


@_constructor("St16initializer_listIcERKSaIcE")
def _string_constructor_from_list(call: Call) -> None:
    """Construct a string from an initialiser list. Takes (this, list, allocator); a list is a pointer and a
    length.
    """
    _set_string(call, _characters_argument(call, 1, 2))


@CXX_STRINGS.matching(rf"_ZN{_PRESENT}C[12]I(PK?[cw]|N9__gnu_cxx17__normal_iterator\w+?)vEET_")
def _string_constructor_from_iterators(call: Call) -> None:
    first, end = call.argument(1), call.argument(2)
    _set_string(call, _characters_at(call, first, (end - first) // _character_width(call)))


@CXX_STRINGS.matching(rf"_ZN{_PRESENT}C[12]ENS4_12__sv_wrapperERKS3_", r"_ZNSsC[12]ENSs12__sv_wrapperERKSaIcE")
def _string_constructor_from_view(call: Call) -> None:
    """Construct a string from a view. Takes (this, length, characters, allocator)."""
    _set_string(call, _characters_argument(call, 2, 1))


@_member("D1Ev", "D2Ev", "10_M_disposeEv", "10_M_destroyEm", "13shrink_to_fitEv", "4_Rep10_M_disposeERKSaIcE")
def _string_destructor(_: Call) -> None:
    """Do nothing: memory is never reused, so there is nothing to free."""


# Iterators, capacity and access


def _private(*members: str) -> Callable[[Double], Double]:
    narrow = (f"_ZN{const}{_CXX11_CLASS}{member}" for member in members for const in ("", "K"))
    wide = (f"_ZN{const}{_WIDE_CLASS}{_widened(member)}" for member in members for const in ("", "K"))
    return CXX_STRINGS.named(*narrow, *wide)


@_private("7_M_dataEv", "5beginEv", "6cbeginEv", "5frontEv")
def _string_begin(call: Call) -> int:
    return call.machine.word(call.argument(0))


@_private("3endEv", "4cendEv")
def _string_end(call: Call) -> int:
    begin, size = call.machine.words(call.argument(0), 2)
    return begin + size * _character_width(call)


@_private("6rbeginEv", "7crbeginEv", "4rendEv", "5crendEv")
def _string_rbegin(call: Call) -> None:
    """Return an iterator in memory, which leads to the character before it."""
    result = call.result
    begin, size = call.machine.words(call.argument(0), 2)
    call.machine.set_word(result, begin + (size * _character_width(call) if "begin" in call.name else 0))


@_member("4sizeEv", "6lengthEv", const=True)
def _string_size(call: Call) -> int:
    if not _is_old(call) and call.process.unknown_text is None:
        return call.machine.word(call.argument(0) + 8)  # of one that is not constructed yet, too: zero
    return len(_string_argument(call))


@_member("6resizeEmc", "6resizeEm")
def _string_resize(call: Call) -> None:
    filler = _character_argument(call, 2) if call.name.endswith(("mc", "mw")) else "\0"
    size = len(call.repeated(0, 1))
    _set_string(call, _string_argument(call)[:size].ljust(size, filler))


@_private("8capacityEv")
def _string_capacity(call: Call) -> int:
    is_local = call.machine.word(call.argument(0)) == call.argument(0) + 16
    return _LOCAL_SIZE // _character_width(call) - 1 if is_local else call.machine.word(call.argument(0) + 16)


@_member("7reserveEm")
def _string_reserve(call: Call) -> None:
    """Make room for this many characters: inlined code then writes after the end."""
    text, capacity, width = _string_argument(call), call.argument(1), _character_width(call)
    if capacity > _MOST_RESERVED and call.process.unknown_text is not None:
        return
    if _is_old(call):
        text_at = COW.new_text(call.process, encoded(text, 1), max(capacity, 1))
        call.machine.set_word(call.argument(0), text_at)
    elif capacity > max(_LOCAL_SIZE // width - 1, len(text)):
        buffer = call.process.allocate((capacity + 1) * width)
        call.machine.write(buffer, encoded(text + "\0", width))
        call.machine.write(call.argument(0), struct.pack("<QQQ", buffer, len(text), capacity))


@_member("7reserveEv")
def _string_reserve_nothing(_: Call) -> None:
    """Do nothing: a request that need not be followed."""


@_member("5clearEv")
def _string_clear(call: Call) -> None:
    _set_string(call, "")


@_member("5emptyEv", const=True)
def _string_empty(call: Call) -> int:
    return int(not _string_size(call))


@_private("ixEm", "2atEm")
def _string_at(call: Call) -> int:
    begin, size = call.machine.words(call.argument(0), 2)
    if "2atEm" in call.name and call.argument(1) >= size:
        text = f"basic_string::at: __n (which is {call.argument(1)}) >= this->size() (which is {size})"
        throw(call, "St12out_of_range", text)
    return begin + call.argument(1) * _character_width(call)


@_private("4backEv")
def _string_back(call: Call) -> int:
    begin, size = call.machine.words(call.argument(0), 2)
    return begin + (size - 1) * _character_width(call)


# Modifiers


@_member("6appendERKSs", "pLERKSs")
def _string_append(call: Call) -> int:
    return _set_string(call, _string_argument(call) + _string_argument(call, 1))


@_member("6appendERKSsmm")
def _string_append_substring(call: Call) -> int:
    text = _string_argument(call, 1)
    part = text[_check_string_position(call, call.argument(2), text, "basic_string::append") :][: call.argument(3)]
    return _set_string(call, _string_argument(call) + part)


@_member("6appendEPKcm", "9_M_appendEPKcm", "6appendESt16initializer_listIcE", "pLESt16initializer_listIcE")
def _string_append_characters(call: Call) -> int:
    return _set_string(call, _string_argument(call) + _characters_argument(call, 1, 2))


@_member("6appendEPKc", "pLEPKc")
def _string_append_c_string(call: Call) -> int:
    return _set_string(call, _string_argument(call) + _c_string_argument(call, 1))


@_member("6appendEmc")
def _string_append_repeating(call: Call) -> int:
    return _set_string(call, _string_argument(call) + _repeated_argument(call, 2, 1))


@_member("9push_backEc", "pLEc")
def _string_push_back(call: Call) -> int:
    return _set_string(call, _string_argument(call) + _character_argument(call, 1))


@_member("6assignERKSs", "aSERKSs", "9_M_assignERKSs")
def _string_assign(call: Call) -> int:
    return _set_string(call, _string_argument(call, 1))


@_member("aSEOSs", "6assignEOSs")
def _string_move_assign(call: Call) -> int:
    """Move a text: the other string is empty afterwards, or has the old text where the layout shares texts."""
    this_address, source = call.argument(0), call.argument(1)
    text = _string_argument(call, 1)
    if this_address != source:
        _set_string(call, _string_argument(call) if _is_old(call) else "", 1)
    return _set_string(call, text)


@_member("6assignERKSsmm")
def _string_assign_substring(call: Call) -> int:
    text = _string_argument(call, 1)
    return _set_string(
        call, text[_check_string_position(call, call.argument(2), text, "basic_string::assign") :][: call.argument(3)]
    )


@_member("6assignEPKcm", "6assignESt16initializer_listIcE", "aSESt16initializer_listIcE")
def _string_assign_characters(call: Call) -> int:
    return _set_string(call, _characters_argument(call, 1, 2))


@_member("6assignEPKc", "aSEPKc")
def _string_assign_c_string(call: Call) -> int:
    return _set_string(call, _c_string_argument(call, 1))


@_member("6assignEmc")
def _string_assign_repeating(call: Call) -> int:
    return _set_string(call, _repeated_argument(call, 2, 1))


@_member("aSEc")
def _string_assign_character(call: Call) -> int:
    return _set_string(call, _character_argument(call, 1))


@_member("6insertEmPKc", "6insertEmRKSs", "6insertEmPKcm", "6insertEmRKSsmm")
def _string_insert(call: Call) -> int:
    text, at = _string_argument(call), call.argument(1)
    # The mangled parameters say what is inserted; the order of the checks is that of libstdc++, since it decides the
    # error.
    signature = call.name.rpartition("insertE")[2]
    if signature.endswith(("PKcm", "PKwm")):
        added = _characters_argument(call, 2, 3)
    else:
        added = _c_string_argument(call, 2) if "PK" in signature else _string_argument(call, 2)
        if signature.endswith("mm"):
            added = added[_check_string_position(call, call.argument(3), added, "basic_string::insert") :][
                : call.argument(4)
            ]
    _check_string_position(call, at, text, "basic_string::insert" if _is_old(call) else "basic_string::replace")
    return _set_string(call, text[:at] + added + text[at:])


@_member("6insertEmmc")
def _string_insert_repeating(call: Call) -> int:
    text, at = _string_argument(call), call.argument(1)
    _check_string_position(call, at, text, "basic_string::insert")
    return _set_string(call, text[:at] + _repeated_argument(call, 3, 2) + text[at:])


_ITERATOR: Final = r"N9__gnu_cxx17__normal_iteratorIPK?[cw]S4_EE"


@CXX_STRINGS.matching(rf"_ZN{_PRESENT}6insertE{_ITERATOR}[cw]$")
def _string_insert_at_iterator(call: Call) -> int:
    """Insert a character. Takes (this, iterator, character); the iterator to it."""
    text = _string_argument(call)
    at = (call.argument(1) - call.machine.word(call.argument(0))) // _character_width(call)
    _set_string(call, text[:at] + _character_argument(call, 2) + text[at:])
    return call.machine.word(call.argument(0)) + at * _character_width(call)


@_member("5eraseEmm", "8_M_eraseEmm")
def _string_erase(call: Call) -> int:
    text, at = _string_argument(call), call.argument(1)
    _check_string_position(call, at, text, "basic_string::erase")
    return _set_string(call, text[:at] + text[at:][call.argument(2) :])


@CXX_STRINGS.matching(rf"_ZN{_PRESENT}5eraseE{_ITERATOR}(S\w_)?$")
def _string_erase_at_iterator(call: Call) -> int:
    """Erase a character, or those up to a second iterator. Takes (this, iterator[, iterator]); the iterator behind
    what was erased.
    """
    text, begin = _string_argument(call), call.machine.word(call.argument(0))
    at = (call.argument(1) - begin) // _character_width(call)
    end = at + 1 if call.name.endswith("EE") else (call.argument(2) - begin) // _character_width(call)
    _set_string(call, text[:at] + text[end:])
    return call.machine.word(call.argument(0)) + at * _character_width(call)


@_member("8pop_backEv")
def _string_pop_back(call: Call) -> None:
    _set_string(call, _string_argument(call)[:-1])


@_member(
    *("7replaceEmmPKc", "7replaceEmmPKcm", "10_M_replaceEmmPKcm", "7replaceEmmRKSs", "15_M_replace_safeEmmPKcm"),
    "7replaceEmmRKSsmm",
)
def _string_replace(call: Call) -> int:
    text, at, count = _string_argument(call), call.argument(1), call.argument(2)
    signature = call.name.rpartition("Emm")[2]
    if signature in ("PKcm", "PKwm"):
        added = _characters_argument(call, 3, 4)
    else:
        added = _c_string_argument(call, 3) if signature.startswith("PK") else _string_argument(call, 3)
        if signature.endswith("mm"):
            added = added[_check_string_position(call, call.argument(4), added, "basic_string::replace") :][
                : call.argument(5)
            ]
    _check_string_position(call, at, text, "basic_string::replace")
    return _set_string(call, text[:at] + added + text[at:][count:])


@_member("14_M_replace_auxEmmmc", "7replaceEmmmc")
def _string_replace_aux(call: Call) -> int:
    text, at, count = _string_argument(call), call.argument(1), call.argument(2)
    _check_string_position(call, at, text, "basic_string::replace")
    return _set_string(call, text[:at] + _repeated_argument(call, 4, 3) + text[at:][count:])


@_member("4copyEPcmm", const=True)
def _string_copy(call: Call) -> int:
    """Copy a part of a string out. Takes (this, target, length, position); without a zero behind."""
    text = _string_argument(call)
    part = text[_check_string_position(call, call.argument(3), text, "basic_string::copy") :][: call.argument(2)]
    call.machine.write(call.argument(1), encoded(part, _character_width(call)))
    return len(part)


@_member("4swapERSs")
def _string_swap(call: Call) -> None:
    first, second = _string_argument(call), _string_argument(call, 1)
    _set_string(call, second)
    _set_string(call, first, 1)


# Operations


@_member("5c_strEv", "4dataEv", const=True)
def _string_c_str(call: Call) -> int:
    return call.machine.word(call.argument(0))


@CXX_STRINGS.named(f"_ZN{_CXX11_CLASS}4dataEv", f"_ZN{_WIDE_CLASS}4dataEv")
def _string_data(call: Call) -> int:
    return call.machine.word(call.argument(0))


@CXX_STRINGS.matching(r"_ZNSaIwE(C[12]E(v|RKS_)|D[12]Ev)$")
def _allocator_constructor(_: Call) -> None:
    """Do nothing: an object of an empty class."""


@CXX_STRINGS.matching(rf"_ZNK{_PRESENT}13get_allocatorEv", r"_ZNKSs13get_allocatorEv")
def _string_get_allocator(call: Call) -> None:
    """Return an object of an empty class, in memory."""
    _ = call.result


_FIND: Final = ("EPKcmm", "EPKcm", "ERKSsm", "Ecm")


def _needle_argument(call: Call) -> str:
    """Return the text to find: a string, characters up to a zero or with their number, or one character."""
    signature = call.name.rpartition("E")[2]
    if signature in ("cm", "wm"):
        return _character_argument(call, 1)
    if signature in ("PKcmm", "PKwmm"):
        return _characters_argument(call, 1, 3)
    return _c_string_argument(call, 1) if signature.startswith("PK") else _string_argument(call, 1)


@_member(*(f"{name}{end}" for name in ("4find", "5rfind") for end in _FIND), const=True)
def _string_find(call: Call) -> int:
    text, start, requested = _string_argument(call), call.argument(2), _needle_argument(call)
    # ``pos`` is where the match may begin at the latest, not where it ends.
    if "5rfind" in call.name:
        at = text.rfind(requested, 0, min(start, len(text)) + len(requested))
    else:
        at = text.find(requested, start) if start <= len(text) else -1
    return at if at >= 0 else _NPOS


@_member(
    *(f"{name}{end}" for name in ("13find_first_of", "12find_last_of") for end in _FIND),
    *(f"{name}{end}" for name in ("17find_first_not_of", "16find_last_not_of") for end in _FIND),
    const=True,
)
def _string_find_first_of(call: Call) -> int:
    text, start, requested = _string_argument(call), call.argument(2), _needle_argument(call)
    places = range(min(start, len(text) - 1), -1, -1) if "_last_" in call.name else range(start, len(text))
    return next((at for at in places if (text[at] in requested) != ("_not_" in call.name)), _NPOS)


@_member("6substrEmm", const=True)
def _string_substr(call: Call) -> None:
    result = call.result
    text, at = _string_argument(call), call.argument(1)
    _construct_string(
        call, result, text[_check_string_position(call, at, text, "basic_string::substr") :][: call.argument(2)]
    )


@_member("7compareEPKc", "7compareERKSs", const=True)
def _string_compare(call: Call) -> int:
    second = _c_string_argument(call, 1) if "PK" in call.name.rpartition("compareE")[2] else _string_argument(call, 1)
    text = _string_argument(call)
    return (text > second) - (text < second)


@CXX_STRINGS.matching(rf"_ZNK{_PRESENT}7compareEmm", r"_ZNKSs7compareEmm")
def _string_compare_substring(call: Call) -> int:
    """Compare a part of a string with another text. Takes (this, position, length, another text[, position, length]);
    a string, or characters and their number.
    """
    text, at = _string_argument(call), call.argument(1)
    signature = call.name.rpartition("compareEmm")[2]
    _check_string_position(call, at, text, "basic_string::compare")
    part = text[at:][: call.argument(2)]
    if "PK" in signature:
        second = _characters_argument(call, 3, 4) if signature.endswith("m") else _c_string_argument(call, 3)
    else:
        second = _string_argument(call, 3)
        if signature.endswith("mm"):
            second = second[_check_string_position(call, call.argument(4), second, "basic_string::compare") :][
                : call.argument(5)
            ]
    return (part > second) - (part < second)


# Private members, which unoptimised code calls one by one; a std::string_view is passed as (length, characters)


@_private("7_M_dataEPc", "12_Alloc_hiderC1EPcRKS3_", "12_Alloc_hiderC2EPcRKS3_", "12_Alloc_hiderC1EPcOS3_")
def _string_set_data(call: Call) -> None:
    call.machine.set_word(call.argument(0), call.argument(1))


CXX_STRINGS.named(f"_ZN{_CXX11_CLASS}12_Alloc_hiderC2EPcOS3_", f"_ZN{_WIDE_CLASS}12_Alloc_hiderC2EPwOS3_")(
    _string_set_data
)


@_private("9_M_lengthEm")
def _string_set_length_field(call: Call) -> None:
    call.machine.set_word(call.argument(0) + 8, call.argument(1))


@_private("13_M_local_dataEv", "17_M_use_local_dataEv")
def _string_local_data(call: Call) -> int:
    return call.argument(0) + 16


@_private("11_M_capacityEm")
def _string_set_capacity_field(call: Call) -> None:
    call.machine.set_word(call.argument(0) + 16, call.argument(1))


@_private("13_M_set_lengthEm")
def _string_set_length(call: Call) -> None:
    call.machine.set_word(call.argument(0) + 8, call.argument(1))
    end = call.machine.word(call.argument(0)) + call.argument(1) * _character_width(call)
    call.machine.write(end, bytes(_character_width(call)))


@_private("11_M_is_localEv")
def _string_is_local(call: Call) -> int:
    return int(call.machine.word(call.argument(0)) == call.argument(0) + 16)


@CXX_STRINGS.named(f"_ZN{_CXX11_CLASS}9_M_createERmm", f"_ZN{_WIDE_CLASS}9_M_createERmm")
def _string_create(call: Call) -> int:
    """Return a buffer for at least the capacity in the first argument, twice the old one where that is more."""
    requested, old = call.machine.word(call.argument(1)), call.argument(2)
    capacity = max(requested, 2 * old) if requested > old else requested
    buffer = call.process.allocate((capacity + 1) * _character_width(call))
    call.machine.set_word(call.argument(1), capacity)
    return buffer


@CXX_STRINGS.named(f"_ZN{_CXX11_CLASS}12_M_constructEmc", f"_ZN{_WIDE_CLASS}12_M_constructEmw")
def _string_construct(call: Call) -> None:
    _set_string(call, _repeated_argument(call, 2, 1))


@CXX_STRINGS.matching(
    rf"_ZN{_PRESENT}12?1?[0-9]_M_constructI(PK[cw]|P[cw]|N9__gnu_cxx)", rf"_ZN{_PRESENT}12_M_constructILb"
)
def _string_construct_between(call: Call) -> None:
    first, second = call.argument(1), call.argument(2)
    size = (
        second if "ILb" in call.name else (second - first) // _character_width(call)
    )  # from GCC 15 on: pointer and length
    _set_string(call, _characters_at(call, first, size))


@_private("16_M_get_allocatorEv")
def _string_allocator(call: Call) -> int:
    return call.argument(0)


@_private("8_M_checkEmPKc")
def _string_check(call: Call) -> int:
    """Throw ``std::out_of_range`` for a position behind the end. Takes (this, position, where it is checked)."""
    return _check_string_position(
        call, call.argument(1), _string_argument(call), call.machine.text(call.argument(2)).decode("latin-1")
    )


@_private("8_M_limitEmm")
def _string_limit(call: Call) -> int:
    return min(len(_string_argument(call)) - call.argument(1), call.argument(2))


@_private("7_S_copyEPcPKcm", "7_S_moveEPcPKcm")
def _string_copy_characters(call: Call) -> None:
    if call.argument(2):
        call.machine.write(
            call.argument(0), call.machine.read(call.argument(1), call.argument(2) * _character_width(call))
        )


@_private("9_S_assignEPcmc")
def _string_fill_characters(call: Call) -> None:
    """Fill with copies of a character. Takes (target, number, character)."""
    call.machine.write(call.argument(0), encoded(_repeated_argument(call, 2, 1), _character_width(call)))


@CXX_STRINGS.named(f"_ZN{_CXX11_CLASS}9_M_mutateEmmPKcm", f"_ZN{_WIDE_CLASS}9_M_mutateEmmPKwm")
def _string_mutate(call: Call) -> None:
    text, at, count, added = _string_argument(call), call.argument(1), call.argument(2), call.argument(4)
    middle = _characters_at(call, call.argument(3), added) if call.argument(3) else "\0" * len(call.repeated(0, 4))
    # ``_M_mutate`` leaves the length to its caller, which sets it afterwards (basic_string.tcc).
    length = call.machine.word(call.argument(0) + 8)
    new = text[:at] + middle + text[at + count :]
    buffer = call.process.allocate((2 * len(new) + 32) * _character_width(call))
    call.machine.write(buffer, encoded(new + "\0", _character_width(call)))
    call.machine.write(call.argument(0), struct.pack("<QQQ", buffer, length, 2 * len(new) + 31))


@CXX_STRINGS.matching(rf"_ZN{_PRESENT}17_S_to_string_viewESt17basic_string_view", r"_ZNSs17_S_to_string_viewE")
def _string_to_string_view(call: Call) -> int:
    length, characters = call.argument(0), call.argument(1)
    call.give_second(characters)
    return length


@CXX_STRINGS.matching(rf"_ZN{_PRESENT}12__sv_wrapperC[12]E", r"_ZNSs12__sv_wrapperC[12]E")
def _string_sv_wrapper(call: Call) -> None:
    call.machine.write(call.argument(0), struct.pack("<QQ", call.argument(1), call.argument(2)))


@CXX_STRINGS.matching(rf"_ZNK{_PRESENT}cvSt17basic_string_viewI[cw]S2_EEv", r"_ZNKSscvSt17basic_string_viewIc")
def _string_as_view(call: Call) -> int:
    text = call.argument(0)
    size = len(_string_argument(call))
    call.give_second(call.machine.word(text))
    return size


# The parts of a copy-on-write string, in the order of bits/cow_string.h


@CXX_STRINGS.named("_ZNSs12_S_empty_repEv", "_ZNSs4_Rep12_S_empty_repEv")
def _rep_empty(call: Call) -> int:
    return call.process.bind(EMPTY_REP)


@CXX_STRINGS.named("_ZNSs4_Rep26_M_set_length_and_sharableEm")
def _rep_set_length_and_sharable(call: Call) -> None:
    rep, length = call.argument(0), call.argument(1)
    if rep != call.process.bind(EMPTY_REP):
        call.machine.set_word(rep, length)
        call.machine.write(rep + 16, bytes(4))
        call.machine.write(rep + REP_SIZE + length, b"\0")


@CXX_STRINGS.named("_ZNSs4_Rep10_M_refdataEv", "_ZNSs4_Rep10_M_refcopyEv", "_ZNSs4_Rep7_M_grabERKSaIcES2_")
def _rep_refdata(call: Call) -> int:
    """Return the text behind a rep. Sharing it is as good as copying it: nothing here is ever given back."""
    return call.argument(0) + REP_SIZE


@CXX_STRINGS.named("_ZNSs4_Rep9_S_createEmmRKSaIcE")
def _rep_create(call: Call) -> int:
    capacity = call.argument(0)
    if capacity > call.argument(1):
        capacity = max(capacity, 2 * call.argument(1))
    rep = call.process.allocate(REP_SIZE + capacity + 1)
    call.machine.set_word(rep + 8, capacity)
    return rep


@CXX_STRINGS.named("_ZNSs4_Rep8_M_cloneERKSaIcEm")
def _rep_clone(call: Call) -> int:
    text = call.machine.read(call.argument(0) + REP_SIZE, call.machine.word(call.argument(0)))
    return COW.new_text(call.process, text, len(text) + call.argument(2))


@CXX_STRINGS.named("_ZNSs12_Alloc_hiderC1EPcRKSaIcE", "_ZNSs12_Alloc_hiderC2EPcRKSaIcE")
def _alloc_hider_constructor(call: Call) -> None:
    call.machine.set_word(call.argument(0), call.argument(1))


@CXX_STRINGS.matching(r"_ZNSs13_S_copy_charsEPc", rf"_ZN{_PRESENT}13_S_copy_charsEP[cw]")
def _string_copy_chars(call: Call) -> None:
    first, end = call.argument(1), call.argument(2)
    if end > first:
        call.machine.write(call.argument(0), call.machine.read(first, end - first))


_REFERENCES: Final = -8  # from the text of a copy-on-write string: their number less one, negative if it is not shared


@CXX_STRINGS.named("_ZNSs12_M_leak_hardEv", "_ZNSs7_M_leakEv")
def _cow_string_leak(call: Call) -> None:
    """Make a text of its own, marked as not to be shared: code asks twice, for its beginning and for its end."""
    text = call.machine.word(call.argument(0))
    count = text + _REFERENCES
    # The empty text of all strings is never unshared (cow_string.h, ``_M_leak_hard``).
    if text == call.process.bind(EMPTY_REP) + REP_SIZE or int.from_bytes(call.machine.read(count, 4), "little") >> 31:
        return
    _set_string(call, _string_argument(call))
    call.machine.write(call.machine.word(call.argument(0)) + _REFERENCES, b"\xff" * 4)


@CXX_STRINGS.named("_ZNSs9_M_mutateEmmm")
def _cow_string_mutate(call: Call) -> None:
    text, at, count, added = _string_argument(call), call.argument(1), call.argument(2), len(call.repeated(0, 3))
    _set_string(call, text[:at] + "\0" * added + text[at + count :])


@CXX_STRINGS.matching(r"_ZNSs12_S_constructI")
def _cow_string_construct(call: Call) -> int:
    first, end = call.argument(0), call.argument(1)
    return COW.new_text(call.process, call.machine.read(first, end - first) if end > first else b"")


@CXX_STRINGS.named("_ZNSs12_S_constructEmcRKSaIcE")
def _cow_string_construct_repeating(call: Call) -> int:
    return COW.new_text(call.process, call.repeated(1, 0))
