"""Doubles of the C++ runtime's exceptions, and of the exception classes of the C++ library.

Sources: Itanium C++ ABI, "Exception Handling", level II; libstdc++'s ``<stdexcept>``, ``functexcept.cc`` and
``eh_ptr.cc``. A class of the library is its virtual pointer, then for those with a text a pointer to its characters
(``__cow_string``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NoReturn

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.doubles.error_codes import category, message
from abiscan.emulation.doubles.libc import formatted
from abiscan.emulation.emulator import SIGABRT, ProcessTermination, Stop
from abiscan.emulation.exceptions import HEADER_SIZE, UNWIND_HEADER, Unwinding
from abiscan.emulation.process import Call
from abiscan.emulation.strings import COW, CXX11, StringAbi, abi_in
from abiscan.emulation.type_information import BASES
from abiscan.regex import regex

EXCEPTIONS: Final = Doubles()

_TEXT_AT: Final = 8
_BEHIND_TEXT: Final = 16
_SIZE: Final = 64  # more than any of these classes takes
_TEXTS: Final = {
    "St9exception": "std::exception",
    "St9bad_alloc": "std::bad_alloc",
    "St20bad_array_new_length": "std::bad_array_new_length",
    "St8bad_cast": "std::bad_cast",
    "St10bad_typeid": "std::bad_typeid",
    "St13bad_exception": "std::bad_exception",
    "St17bad_function_call": "bad_function_call",
    "St12bad_weak_ptr": "bad_weak_ptr",
    "St12bad_any_cast": "bad any_cast",
    "St19bad_optional_access": "bad optional access",
    "St18bad_variant_access": "bad variant access",
}
"""What the classes without a text of their own say."""

_WITH_CODE: Final = {"future_error": "future", "system_error": "generic"}  # thrown with a number
_HELPER: Final = regex(r"_ZSt\d+__throw_(\w+?)(_fmtPKcz|PKc|v|i|NSt.*)$")
_WORDS: Final = {
    **{name.lstrip("St0123456789"): name for name in (*BASES, *_TEXTS) if name.startswith("St")},
    "ios_failure": "NSt8ios_base7failureB5cxx11E",
}


def _nested(type_name: str) -> str:
    """Return the name of a class as the names of its members have it: without what encloses a nested name."""
    return type_name[1:-1] if type_name.startswith("N") else type_name


def throw(call: Call, type_name: str, text: str, behind: bytes = b"") -> NoReturn:
    """Throw an object of a class of the C++ library.

    :param behind: the members of the class that follow the text
    """
    exceptions = call.process.exceptions
    thrown = exceptions.new(_SIZE)
    _construct_exception(call, thrown, type_name, text.encode())
    call.machine.write(thrown + _BEHIND_TEXT, behind)
    exceptions.throw(call, exceptions.begin(thrown, call.process.bind("_ZTI" + type_name), 0))
    raise AssertionError


def _construct_exception(call: Call, at: int, type_name: str, text: bytes) -> None:
    call.machine.set_word(at, call.process.bind("_ZTV" + type_name) + 16)
    if type_name not in _TEXTS:
        call.machine.set_word(at + _TEXT_AT, COW.new_text(call.process, text))


# Throwing and catching


@EXCEPTIONS.named("__cxa_allocate_exception")
def _double_cxa_allocate_exception(call: Call) -> int:
    return call.process.exceptions.new(call.argument(0))


@EXCEPTIONS.named("__cxa_free_exception", "_Unwind_DeleteException")
def _double_cxa_free_exception(_: Call) -> None:
    """Do nothing: memory is never reused."""


@EXCEPTIONS.named("__cxa_init_primary_exception")
def _double_cxa_init_primary_exception(call: Call) -> int:
    """Initialise the header of an exception, and return it. Takes (object, type, destructor); the start of the
    header, which has a count of references before what begins it.
    """
    exceptions = call.process.exceptions
    exceptions.begin(call.argument(0), call.argument(1), call.argument(2))
    exceptions.kept.add(call.argument(0) - UNWIND_HEADER)
    return call.argument(0) - 128


@EXCEPTIONS.named("__cxa_throw")
def _double_cxa_throw(call: Call) -> None:
    exceptions = call.process.exceptions
    exceptions.throw(call, exceptions.begin(call.argument(0), call.argument(1), call.argument(2)))


@EXCEPTIONS.named("_Unwind_RaiseException")
def _double_unwind_raise_exception(call: Call) -> None:
    """Throw what a C++ runtime in the object itself throws, which has filled in the header."""
    call.process.exceptions.throw(call, call.argument(0))


@EXCEPTIONS.named("_Unwind_Resume", "_Unwind_Resume_or_Rethrow")
def _double_unwind_resume(call: Call) -> None:
    exceptions = call.process.exceptions
    if call.name == "_Unwind_Resume":
        raise Unwinding(call.argument(0))
    exceptions.throw(call, call.argument(0))


@EXCEPTIONS.named("__cxa_rethrow")
def _double_cxa_rethrow(call: Call) -> None:
    call.process.exceptions.rethrow(call)


@EXCEPTIONS.named("__cxa_begin_catch")
def _double_cxa_begin_catch(call: Call) -> int:
    return call.process.exceptions.begin_catch(call.argument(0))


@EXCEPTIONS.named("__cxa_end_catch")
def _double_cxa_end_catch(call: Call) -> None:
    exceptions = call.process.exceptions
    # A destructor may be inlined code of the object, and register or throw; those of imported classes only free memory.
    done = exceptions.end_catch()
    if done is not None and call.process.image_at(destructor := exceptions.destructor_of(done)) is not None:
        call.machine.call(destructor, exceptions.object_of(done))


@EXCEPTIONS.named("__cxa_get_exception_ptr")
def _double_cxa_get_exception_ptr(call: Call) -> int:
    return call.process.exceptions.adjusted(call.argument(0))


@EXCEPTIONS.named("__cxa_current_exception_type")
def _double_cxa_current_exception_type(call: Call) -> int:
    exceptions = call.process.exceptions
    return exceptions.type_of(exceptions.caught[-1]) if exceptions.caught else 0


@EXCEPTIONS.named("_ZSt18uncaught_exceptionv", "_ZSt19uncaught_exceptionsv")
def _uncaught_exceptions(call: Call) -> int:
    return call.process.exceptions.in_flight


@EXCEPTIONS.named("_ZSt9terminatev", "__cxa_call_terminate", "__cxa_call_unexpected", "_ZSt10unexpectedv")
def _terminate(call: Call) -> None:
    exceptions = call.process.exceptions
    # Landing pads pass the exception on which they end the process: no handler has begun (libsupc++, eh_call.cc).
    passed = call.argument(0) if call.name.startswith("__cxa_call_") else 0
    raise exceptions.end_of(call.return_address, passed or (exceptions.caught[-1] if exceptions.caught else None))


@EXCEPTIONS.named("__cxa_pure_virtual", "__cxa_deleted_virtual")
def _double_cxa_pure_virtual(call: Call) -> None:
    text = "pure virtual method called\nterminate called without an active exception"
    raise ProcessTermination(f"the code calls {call.name}", call.return_address, text, signal=SIGABRT)


@EXCEPTIONS.named("__cxa_bad_cast", "__cxa_bad_typeid", "__cxa_throw_bad_array_new_length")
def _double_cxa_bad_cast(call: Call) -> None:
    # libsupc++ has a function for each, so that code need not know the layout of the class.
    word = call.name.removeprefix("__cxa_").removeprefix("throw_")
    throw(call, _WORDS[word], "")


@EXCEPTIONS.matching(_HELPER.pattern)
def _throw_helper(call: Call) -> None:
    match = _HELPER.match(call.name)
    assert match is not None
    word, kind = match.groups()
    if word not in _WORDS:
        raise Stop(f"the code throws through {call.name}", call.return_address)
    text, behind = "", b""
    if word in _WITH_CODE:
        number, of = call.argument(0) & 0xFFFF_FFFF, _WITH_CODE[word]
        text = ("std::future_error: " if of == "future" else "") + message(call, number, of)
        behind = struct.pack("<QQ", number, category(call.process, of))
    elif kind.startswith("NSt15regex_constants"):
        text, behind = "regex_error", struct.pack("<i", call.argument(0) & 0x7FFF_FFFF)
    if kind.endswith("fmtPKcz"):
        text = formatted(call, 0).decode("utf-8", "backslashreplace")
    elif kind == "PKc":
        text = call.machine.text(call.argument(0)).decode("utf-8", "backslashreplace")
    throw(call, _WORDS[word], text, behind)


@EXCEPTIONS.matching(r"_ZNSt11regex_errorC[12]ENSt15regex_constants10error_typeE")
def _regex_error_constructor(call: Call) -> None:
    _construct_exception(call, call.argument(0), "St11regex_error", b"regex_error")
    call.machine.write(call.argument(0) + _BEHIND_TEXT, struct.pack("<i", call.argument(1) & 0x7FFF_FFFF))


@EXCEPTIONS.named("__dynamic_cast")
def _double_dynamic_cast(call: Call) -> int:
    """Emulate ``__dynamic_cast``. Takes (address, static type, wanted type, hint)."""
    cast = call.process.types.cast(*map(call.argument, range(3)))
    if cast is None:  # the class is not in the file: as if it were the wanted one
        call.answer_is_unknown()
        return call.argument(0)
    return cast


@EXCEPTIONS.named("_ZNKSt9type_infoeqERKS_")
def _type_info_equal(call: Call) -> int:
    return int(call.process.types.is_same(call.argument(0), call.argument(1)))


# std::exception_ptr: a pointer to the object that was thrown

_POINTER: Final = "NSt15__exception_ptr13exception_ptr"


@EXCEPTIONS.named("_ZSt17current_exceptionv")
def _current_exception(call: Call) -> None:
    exceptions = call.process.exceptions
    exception = exceptions.caught[-1] if exceptions.caught else None
    exceptions.kept.update(() if exception is None else (exception,))
    call.machine.set_word(call.result, 0 if exception is None else exceptions.object_of(exception))


@EXCEPTIONS.named(f"_ZSt17rethrow_exception{_POINTER}E")
def _rethrow_exception(call: Call) -> None:
    call.process.exceptions.throw(call, call.machine.word(call.argument(0)) - UNWIND_HEADER)


@EXCEPTIONS.matching(rf"_Z{_POINTER}C[12](ERKS0_|EOS0_|EPv)$", rf"_Z{_POINTER}aSE(RK|O)S0_$")
def _exception_ptr_copy(call: Call) -> int:
    source = call.argument(1)
    call.machine.set_word(call.argument(0), source if call.name.endswith("EPv") else call.machine.word(source))
    if "OS0_" in call.name:
        call.machine.set_word(source, 0)
    return call.argument(0)


@EXCEPTIONS.matching(rf"_Z{_POINTER}C[12]Ev$")
def _exception_ptr_constructor(call: Call) -> None:
    call.machine.set_word(call.argument(0), 0)


@EXCEPTIONS.named(f"_Z{_POINTER}4swapERS0_")
def _exception_ptr_swap(call: Call) -> None:
    first, second = call.argument(0), call.argument(1)
    contents = call.machine.word(first), call.machine.word(second)
    call.machine.set_word(first, contents[1])
    call.machine.set_word(second, contents[0])


@EXCEPTIONS.matching(rf"_Z{_POINTER}(D[12]Ev|9_M_addrefEv|10_M_releaseEv)$")
def _exception_ptr_reference_count(_: Call) -> None:
    """Do nothing: memory is never reused."""


@EXCEPTIONS.matching(rf"_ZNK{_POINTER[1:]}20__cxa_exception_typeEv")
def _exception_ptr_type(call: Call) -> int:
    return call.process.exceptions.type_of(call.machine.word(call.argument(0)) - UNWIND_HEADER)


@EXCEPTIONS.matching(r"_ZSteqRKNSt15__exception_ptr13exception_ptrES2_$")
def _exception_ptr_equal(call: Call) -> int:
    return int(call.machine.word(call.argument(0)) == call.machine.word(call.argument(1)))


# The classes


def _class_double(type_name: str) -> Callable[[Call], int | None]:
    nested = _nested(type_name)

    def construct(call: Call) -> None:
        source = call.argument(1)
        if call.name.endswith("PKc"):
            text = call.machine.text(source)
        elif "__cxx11" in call.name:
            text = CXX11.read(call.process, source)
        elif call.name.endswith("ERKSs"):
            text = COW.read(call.process, source)
        else:  # of another one
            text = b"" if type_name in _TEXTS else call.machine.text(call.machine.word(source + _TEXT_AT))
        _construct_exception(call, call.argument(0), type_name, text)

    def assign(call: Call) -> int:
        call.machine.write(call.argument(0), call.machine.read(call.argument(1), 2 * 8))
        return call.argument(0)

    def say(call: Call) -> int:
        if type_name in _TEXTS:
            return call.process.store(_TEXTS[type_name].encode() + b"\0")
        return call.machine.word(call.argument(0) + _TEXT_AT)

    def destroy(_: Call) -> None:
        """Do nothing: memory is never reused."""

    strings = ("RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "RKSs", "PKc", "RKS_", "OS_")
    EXCEPTIONS.named(*(f"_ZN{nested}C{kind}E{passed}" for kind in "12" for passed in strings))(construct)
    EXCEPTIONS.named(f"_ZN{nested}aSERKS_", f"_ZN{nested}aSEOS_")(assign)
    EXCEPTIONS.named(f"_ZNK{nested}4whatEv")(say)
    EXCEPTIONS.named(*(f"_ZN{nested}D{kind}Ev" for kind in "012"))(destroy)
    return say


for _name in (*BASES, "St9exception"):
    if "St" in _name[:3]:
        _class_double(_name)


@EXCEPTIONS.matching(r"_ZNSt12system_errorC[12]ESt10error_code")
def _system_error_constructor(call: Call) -> None:
    """Construct a ``std::system_error``. Takes (code, category[, text]); the text is followed by what the category
    says.
    """
    text = b""
    if "__cxx11" in call.name:
        text = CXX11.read(call.process, call.argument(3))
    elif call.name.endswith("PKc"):
        text = call.machine.text(call.argument(3))
    number = call.argument(1) & 0xFFFF_FFFF
    notice = message(call, number).encode()
    _construct_exception(call, call.argument(0), "St12system_error", b": ".join(filter(None, (text, notice))))
    call.machine.write(call.argument(0) + 16, struct.pack("<QQ", number, call.argument(2)))


# torch's own (c10/util/Exception.h): virtual pointer, message, context, backtrace, and among the last members the
# message without a backtrace

_MESSAGE_AT: Final = 8
_ERROR_SIZE: Final = 128
_BEHIND_PLAIN_MESSAGE: Final = 8  # the pointer to whoever throws
_TORCH_ERROR: Final = "N3c105ErrorE"


def _string_layout_of_torch(call: Call) -> StringAbi:
    """Return the layout of the strings of torch."""
    return abi_in(call.name) or (CXX11 if call.process.image.mentions(b"__cxx11") else COW)


def throw_torch_error(call: Call, text: str, type_name: str = _TORCH_ERROR, *, is_exact: bool = True) -> NoReturn:
    """Throw a ``c10::Error``.

    :param is_exact: whether the text is what torch says; else nobody knows it
    """
    exceptions = call.process.exceptions
    thrown = exceptions.new(_ERROR_SIZE)
    _create_torch_error(
        call, thrown, text.encode("utf-8", "surrogateescape"), _ERROR_SIZE, type_name, is_exact=is_exact
    )
    exceptions.throw(call, exceptions.begin(thrown, call.process.bind("_ZTI" + type_name), 0))
    raise AssertionError


def _create_torch_error(call: Call, at: int, text: bytes, size: int, type_name: str, *, is_exact: bool = True) -> None:
    strings, taint = _string_layout_of_torch(call), call.machine.taint
    call.machine.set_word(at, call.process.bind("_ZTV" + type_name) + 16)
    read = taint.read
    if not is_exact:
        call.answer_is_unknown()
    for place in (_MESSAGE_AT, size - _BEHIND_PLAIN_MESSAGE - strings.size):
        strings.create(call.process, at + place, text)
    taint.read = read


@EXCEPTIONS.matching(r"_ZN3c106detail\d+torch(CheckFail|InternalAssertFail)E")
def _torch_check_fail(call: Call) -> None:
    """Throw what ``TORCH_CHECK`` throws. Takes (function, file, line[, condition], message); texts, or for the
    message a string, or nothing.
    """
    internal = "Internal" in call.name
    # The overloads differ in their mangled parameters: a text or a ``std::string`` behind the line
    # (c10/util/Exception.h).
    texts = [call.machine.text(call.argument(3))] if internal or call.name.endswith("jS2_") else []
    if internal and call.name.endswith("S2_S2_"):
        texts.append(call.machine.text(call.argument(4)))
    elif abi_in(call.name) is not None:
        texts.append(_string_layout_of_torch(call).read(call.process, call.argument(3 + internal)))
    throw_torch_error(call, b"".join(texts).decode("utf-8", "surrogateescape"))


_CONSTRUCTOR: Final = regex(r"_ZN3c10(\d+\w+?)C(?:I[12]NS_5ErrorEE|[12]E)NS_14SourceLocationE")


@EXCEPTIONS.matching(_CONSTRUCTOR.pattern)
def _torch_error_constructor(call: Call) -> None:
    """Construct a ``c10::Error``. Takes (this, location, message), the two last by their addresses; of a class that
    inherits it, too.
    """
    match = _CONSTRUCTOR.match(call.name)
    assert match is not None
    this_address = call.argument(0)
    passed = call.argument(1) if call.machine.is_stack(call.argument(1)) else call.argument(2)
    text = _string_layout_of_torch(call).read(call.process, passed)
    size = max(call.process.size_of(this_address - HEADER_SIZE) - HEADER_SIZE, 96)
    _create_torch_error(call, this_address, text, size, f"N3c10{match[1]}E")


@EXCEPTIONS.matching(r"_ZNK3c10\d+\w+?(4what|22what_without_backtrace)Ev$")
def _torch_error_what(call: Call) -> int:
    """Return the message; ``what()`` of a ``c10::Error`` goes on with the functions that had been called, which
    differ.
    """
    text = _string_layout_of_torch(call).read(call.process, call.argument(0) + _MESSAGE_AT)
    place = call.process.store(text + b"\0")
    if "4what" in call.name:
        taint = call.machine.taint
        taint.mark(place + len(text), 1, taint.answer(call.name, call.return_address))
    return place


@EXCEPTIONS.matching(r"_ZN3c10\d+\w*ErrorD[012]Ev")
def _torch_error_destructor(_: Call) -> None:
    """Do nothing: memory is never reused."""
