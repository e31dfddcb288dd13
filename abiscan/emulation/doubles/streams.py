"""Doubles of the streams of the C++ library: texts that are put together and taken apart in memory.

The state of a stream is where the code that templates inline looks for it: ``std::ios_base`` (precision, width, flags,
state, behind its virtual pointer) and the areas of the buffer, whose text is the whole of what was put. No file can be
opened, and what goes to ``std::cout`` is lost. Layouts: libstdc++'s ``<ios>``, ``<streambuf>``, ``<sstream>`` and
``<fstream>``.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.doubles.calendar import broken_down
from abiscan.emulation.doubles.error_codes import category
from abiscan.emulation.doubles.exceptions import throw
from abiscan.emulation.doubles.libc import real_text
from abiscan.emulation.doubles.libstdcxx import classic_ctype
from abiscan.emulation.doubles.numbers import parsed
from abiscan.emulation.emulator import Stop
from abiscan.emulation.environment import may_exist
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.emulation.stream_layouts import StreamLayout, layout_of
from abiscan.emulation.strings import COW, CXX11, StringAbi
from abiscan.regex import regex

STREAMS: Final = Doubles()

_TRAITS: Final = "IcSt11char_traitsIcE"
_STRING_STREAM: Final = r"St(7__cxx11)?1[789]basic_([io]?stringstream)IcSt11char_traitsIcESaIcEE"
_GET_AREA, _PUT_AREA = 8, 32  # in a buffer: three pointers each
# std::ios_base, then std::basic_ios.
_PRECISION, _WIDTH, _FLAGS, _THROWS, _STATE, _FILL, _BUFFER = 8, 16, 24, 28, 32, 224, 232  # then std::ctype
_BAD, _EOF, _FAIL = 1, 2, 4
_MODE, _STRING = 64, 72  # in a std::stringbuf, behind its areas and a locale
_APPENDS, _AT_END, _IN, _OUT = 1, 2, 8, 16  # std::ios_base::openmode
_BOOLALPHA, _DEC, _FIXED, _HEX, _INTERNAL, _LEFT, _OCT = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x40
_SCIENTIFIC, _SHOWBASE, _SHOWPOINT, _SHOWPOS, _SKIPWS, _UPPERCASE = 0x100, 0x200, 0x400, 0x800, 0x1000, 0x4000
_STRING_BUFFERS: Final = {
    True: "_ZTVNSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEEE",
    False: "_ZTVSt15basic_stringbufIcSt11char_traitsIcESaIcEE",
}
_FILE_BUFFER: Final = "_ZTVSt13basic_filebufIcSt11char_traitsIcEE"
_CONSOLE_BUFFER: Final = "_ZTVN9__gnu_cxx18stdio_sync_filebufIcSt11char_traitsIcEEE"
_XSPUTN, _OVERFLOW = 12 * 8, 13 * 8  # in the virtual table of a buffer
_BLANKS: Final = b" \t\n\v\f\r"
_STREAM_ERROR: Final = 1  # std::io_errc::stream
_NO_CHARACTER: Final = 0xFFFF_FFFF
_NOWHERE: Final = 0xFFFF_FFFF_FFFF_FFFF


def _make_layout(name: str) -> StreamLayout:
    layout = layout_of(name)
    assert layout is not None
    return layout


# Construction


def _start_stream(call: Call, stream: int, layout: StreamLayout, *, state: int = 0) -> None:
    ios = stream + layout.ios
    # ``std::basic_ios::init`` ([basic.ios.cons]): precision 6, ``skipws`` and ``dec``, a blank to fill with.
    head = struct.pack("<QQIIII", 6, 0, _SKIPWS | _DEC, 0, state, 0)
    call.machine.write(ios + _PRECISION, head)
    call.machine.write(ios + _FILL, b" \1")
    call.machine.write(ios + _BUFFER, struct.pack("<QQ", stream + layout.buffer, classic_ctype(call.process)))
    buffer = _FILE_BUFFER if "fstream" in call.name else _STRING_BUFFERS["__cxx11" in call.name]
    call.machine.set_word(stream + layout.buffer, call.process.bind(buffer) + 16)
    call.machine.write(stream + layout.buffer + _GET_AREA, bytes(48))


def _set_virtual_pointers(call: Call, stream: int, layout: StreamLayout) -> None:
    """Set the virtual pointers of a stream."""
    class_name = call.name[len("_ZN") : call.name.rindex("EC")] + "E"
    table = call.process.bind(f"_ZTVN{class_name}E" if "__cxx11" in class_name else f"_ZTV{class_name}")
    # Each base with virtual functions has a pointer of its own into the table of the class: five words for each part,
    # with its three offsets in front (Itanium C++ ABI, 2.5.2).
    parts = list(dict.fromkeys((0, layout.output or 0)))
    for number, part in enumerate((*parts, layout.ios)):
        call.machine.set_word(stream + part, table + 40 * number + 24)


@STREAMS.matching(rf"_ZN{_STRING_STREAM}C[12]E")
def _stringstream_constructor(call: Call) -> None:
    """Construct a string stream. Takes (this[, text][, mode])."""
    this_address, layout = call.argument(0), _make_layout(call.name)
    abi = CXX11 if "__cxx11" in call.name else COW
    passed = re.search(r"C[12]E(RKNS_12basic_string|RKSs|RKNSt7__cxx11|.*KNS_12basic|ONS_12|OSs)", call.name)
    text = abi.read(call.process, call.argument(1)) if passed else b""
    _set_virtual_pointers(call, this_address, layout)
    _start_stream(call, this_address, layout)
    at_end = text and call.argument(2) & _AT_END
    mode = call.argument(2 if passed else 1) & 0xFF if "Ios_Openmode" in call.name else 0
    own_mode = _IN if "_istringstream" in call.name else _OUT if "_ostringstream" in call.name else 0
    buffer = this_address + layout.buffer
    call.machine.set_word(buffer + _MODE, mode | own_mode or _IN | _OUT)
    abi.create(call.process, buffer + _STRING, text)
    _set_text(call, this_address + layout.buffer, text, len(text) if at_end else 0, reads=layout.output != 0)


@STREAMS.matching(rf"_ZN{_STRING_STREAM}D[012]E", r"_ZNSt1[34]basic_[io]?fstreamIcSt11char_traitsIcEED[012]E")
def _stream_destructor(_: Call) -> None:
    """Do nothing: memory is never reused."""


@STREAMS.matching(r"_ZNSt1[34]basic_[io]?fstreamIcSt11char_traitsIcEEC[12]E")
def _fstream_constructor(call: Call) -> None:
    """Construct a file stream. Takes (this[, path, mode]); no file exists, and none can be made, where the system has
    no folder.
    """
    this_address, layout = call.argument(0), _make_layout(call.name)
    _set_virtual_pointers(call, this_address, layout)
    is_closed = call.name.endswith("Ev")
    _start_stream(call, this_address, layout, state=0 if is_closed else _FAIL)
    if not is_closed:
        _leave_unknown(call, this_address + layout.ios)


def _opened_path(call: Call) -> bytes:
    """Return the path that a stream is opened for."""
    if "PKc" in call.name:
        return call.machine.text(call.argument(1))
    return (CXX11 if "__cxx11" in call.name else COW).read(call.process, call.argument(1))


def _leave_unknown(call: Call, ios: int) -> None:
    """Leave open whether a file was opened, if it may be there."""
    if may_exist(_opened_path(call)):
        taint = call.machine.taint
        taint.mark(ios + _STATE, 4, taint.answer(call.name, call.return_address))


@STREAMS.matching(r"_ZNSt1[34]basic_[io]?fstreamIcSt11char_traitsIcEE4openE")
def _fstream_open(call: Call) -> None:
    """Open a file. Takes (this, path, mode)."""
    ios = _ios_of(call, call.argument(0))
    call.machine.write(ios + _STATE, struct.pack("<I", _FAIL))
    _leave_unknown(call, ios)


@STREAMS.matching(
    r"_ZNSt13basic_filebufIcSt11char_traitsIcEE(C[12]Ev|D[012]Ev|4openE)",
    r"_ZNK?St12__basic_fileIcE(D[12]Ev|7is_openEv)",
)
def _filebuf_open(call: Call) -> int:
    """Return a buffer of a file that is never open, for code that has the constructors of streams inlined."""
    if "4open" in call.name and may_exist(_opened_path(call)):
        call.answer_is_unknown()
    if "C1E" in call.name or "C2E" in call.name:
        call.machine.write(call.argument(0), struct.pack("<7Q", call.process.bind(_FILE_BUFFER) + 16, *bytes(6)))
    return 0


@STREAMS.matching(r"_ZNK?St1[34]basic_(?:[io]?fstream|filebuf)IcSt11char_traitsIcEE7is_openEv")
def _fstream_is_open(call: Call) -> int:
    """Return no, as no file is open; a stream that may have been opened has failed, or has not."""
    if "fstream" in call.name:
        call.machine.read(_ios_of(call, call.argument(0)) + _STATE, 4)
    return 0


@STREAMS.matching(r"_ZNSt1[34]basic_(?:[io]?fstream|filebuf)IcSt11char_traitsIcEE5closeEv")
def _fstream_close(_: Call) -> int:
    return 0


@STREAMS.matching(rf"_ZNSt9basic_ios{_TRAITS}E4initE")
def _ios_init(call: Call) -> None:
    """Attach a buffer, a part of an inlined constructor: (``std::basic_ios``, buffer)."""
    ios, buffer = call.argument(0), call.argument(1)
    call.machine.write(ios + _PRECISION, struct.pack("<QQIIII", 6, 0, _SKIPWS | _DEC, 0, 0, 0))
    call.machine.write(ios + _FILL, b" \1")
    call.machine.write(ios + _BUFFER, struct.pack("<QQ", buffer, classic_ctype(call.process)))


_CONSOLES: Final = {
    "_ZSt4cout": ("_ZTVSo", 8),
    "_ZSt4cerr": ("_ZTVSo", 8),
    "_ZSt4clog": ("_ZTVSo", 8),
    "_ZSt3cin": ("_ZTVSi", 16),
}


def fill_console(process: EmulatedProcess, name: str, slot: int) -> None:
    """Make a datum one of the streams of the console, as far as inlined code looks into it."""
    if name not in _CONSOLES:
        return
    table, ios = _CONSOLES[name]
    process.machine.set_word(slot, process.bind(table) + 24)
    process.machine.write(slot + ios + _PRECISION, struct.pack("<QQIIII", 6, 0, _SKIPWS | _DEC, 0, 0, 0))
    process.machine.write(slot + ios + _FILL, b" \1")
    buffer = process.store(struct.pack("<7Q", process.bind(_CONSOLE_BUFFER) + 16, *bytes(6)))
    process.machine.write(slot + ios + _BUFFER, struct.pack("<QQ", buffer, classic_ctype(process)))


@STREAMS.matching(r"_ZNSo6sentryC[12]ERSo", r"_ZNSi6sentryC[12]ERSib")
def _sentry_constructor(call: Call) -> None:
    """Construct the sentry of a stream. Takes (this, stream[, whether blanks are left]); a flag, and for output the
    stream.
    """
    this_address, stream = call.argument(0), call.argument(1)
    good = bytes((call.machine.read(_ios_of(call, stream) + _STATE, 4) == bytes(4),))
    if call.name.startswith("_ZNSo"):
        call.machine.write(this_address, good.ljust(8, b"\0") + stream.to_bytes(8, "little"))
    else:
        call.machine.write(this_address, good)


@STREAMS.matching(r"_ZNS(?:o|i)C[12]EPSt15basic_streambufIcSt11char_traitsIcEE")
def _stream_constructor_around_buffer(call: Call) -> None:
    """Construct a stream around a buffer. Takes (this, buffer); a stream of a buffer that is elsewhere."""
    this_address, buffer, (table, ios) = call.argument(0), call.argument(1), _CONSOLES[_PLAIN[call.name[3:5]]]
    words = call.process.bind(table) + 24
    call.machine.set_word(this_address, words)
    call.machine.set_word(this_address + ios, words + 40)
    call.machine.write(this_address + ios + _PRECISION, struct.pack("<QQIIII", 6, 0, _SKIPWS | _DEC, 0, 0, 0))
    call.machine.write(this_address + ios + _FILL, b" \1")
    call.machine.write(this_address + ios + _BUFFER, struct.pack("<QQ", buffer, classic_ctype(call.process)))


@STREAMS.matching(rf"_ZNKSt9basic_ios{_TRAITS}E4fillEv")
def _ios_fill(call: Call) -> int:
    return call.machine.byte(call.argument(0) + _FILL)


@STREAMS.matching(rf"_ZNKSt9basic_ios{_TRAITS}E5rdbufEv")
def _ios_rdbuf(call: Call) -> int:
    return call.machine.word(call.argument(0) + _BUFFER)


@STREAMS.matching(rf"_ZNK{_STRING_STREAM}5rdbufEv", r"_ZNKSt1[34]basic_[io]?fstreamIcSt11char_traitsIcEE5rdbufEv")
def _stream_rdbuf(call: Call) -> int:
    return call.argument(0) + _make_layout(call.name).buffer


@STREAMS.matching(rf"_ZNSt9basic_ios{_TRAITS}E5rdbufEPSt15basic_streambuf")
def _ios_set_rdbuf(call: Call) -> int:
    """Replace the buffer of a stream. Takes (``std::basic_ios``, buffer); the buffer that it had; nothing has failed
    with the new one yet.
    """
    ios, buffer = call.argument(0), call.argument(1)
    old = call.machine.word(ios + _BUFFER)
    call.machine.set_word(ios + _BUFFER, buffer)
    call.machine.write(ios + _STATE, struct.pack("<I", 0 if buffer else _BAD))
    return old


@STREAMS.matching(r"_ZNKS(?:o|i)6sentrycvbEv")
def _sentry_bool(call: Call) -> int:
    return call.machine.byte(call.argument(0))


@STREAMS.matching(r"_ZNS(?:o|i)6sentryD[12]Ev")
def _sentry_destructor(_: Call) -> None:
    """Do nothing: nothing is kept back that would have to be written."""


# What std::put_time is made of

_PLAIN: Final = {"So": "_ZSt4cout", "Si": "_ZSt3cin"}
_TIME_PUT: Final = r"St8time_putIcSt19ostreambuf_iteratorIcSt11char_traitsIcEEE"


@STREAMS.matching(rf"_ZSt9use_facetI{_TIME_PUT}", rf"_ZSt16__try_use_facetIK?{_TIME_PUT}")
def _use_facet_time_put(call: Call) -> int:
    """Return a facet that only has virtual functions."""
    return call.process.store(
        struct.pack("<Q", call.process.bind("_ZTVSt8time_putIcSt19ostreambuf_iteratorIcSt11char_traitsIcEEE") + 16)
    )


@STREAMS.matching(rf"_ZNK{_TIME_PUT}3putES3_RSt8ios_basecPK2tmPKcSB_")
def _time_put_put(call: Call) -> int:
    """Write a time, as ``std::time_put`` does. Takes (this, an iterator in two registers, stream, filler, tm, format,
    its end); an iterator as it was.
    """
    buffer, begin, end = call.argument(1), call.argument(6), call.argument(7)
    form = call.machine.read(begin, end - begin).decode("latin-1") if end > begin else ""
    text = broken_down(call, call.argument(5), form)
    if buffer:
        _append_to(call, buffer, text)
    call.give_second(call.argument(2))
    return buffer


# Where the text is


def _ios_of(call: Call, stream: int) -> int:
    """Return the ``std::basic_ios`` of a part of a stream: the virtual pointer leads to the distance."""
    machine = call.machine
    return (stream + machine.word(machine.word(stream) - 24)) & 0xFFFF_FFFF_FFFF_FFFF


def _buffer_at(call: Call, stream: int) -> int:
    return call.machine.word(_ios_of(call, stream) + _BUFFER)


def _is_console(call: Call, stream: int) -> bool:
    """Whether what goes there is lost: a stream of the console that writes to no other buffer."""
    if call.process.name_at(stream) is None:
        return False
    if not call.machine.word(stream):  # one of those for wide characters
        return True
    return call.machine.word(_buffer_at(call, stream)) == call.process.bind(_CONSOLE_BUFFER) + 16


def _set_text(call: Call, buffer: int, text: bytes, position: int, *, reads: bool) -> None:
    """Let a buffer have a text, which is written on at a position."""
    begin = call.process.store(text + b"\0")
    if reads:
        call.machine.write(buffer + _GET_AREA, struct.pack("<3Q", begin, begin, begin + len(text)))
    call.machine.write(buffer + _PUT_AREA, struct.pack("<3Q", begin, begin + position, begin + len(text)))


def _buffer_content(call: Call, buffer: int) -> tuple[bytes, int]:
    """Return the text of a buffer, and where it is written on."""
    begin, position, _ = call.machine.words(buffer + _PUT_AREA, 3)
    get, _, end = call.machine.words(buffer + _GET_AREA, 3)
    end = max(position, end if get else 0)
    begin = begin or get
    return (call.machine.read(begin, end - begin) if begin and end > begin else b""), max(position - begin, 0)


def _written_text(call: Call, buffer: int) -> bytes:
    return _buffer_content(call, buffer)[0]


def _put_padded(call: Call, text: bytes) -> int:
    """Append a text, padded to the width of the stream."""
    stream = call.argument(0)
    # Whether the console fails is not known, and nothing that is written to it is read: it is always good.
    if _is_console(call, stream):
        return stream
    ios = _ios_of(call, stream)
    if _has_failed(call, ios):
        return stream
    width = call.machine.word(ios + _WIDTH)
    if width:
        fill, flags = call.machine.read(ios + _FILL, 1), _format_flags(call, ios)
        # C++17, [ostream.formatted.reqmts]: padded to the width, which is then zero again.
        missing = fill * max(min(width, 1 << 16) - len(text), 0)
        sign = len(text) - len(text.lstrip(b"+-")) if flags & _INTERNAL else 0
        if flags & _INTERNAL and flags & _HEX and text[:2].lower() == b"0x":
            sign = 2
        text = text + missing if flags & _LEFT else text[:sign] + missing + text[sign:]
        call.machine.set_word(ios + _WIDTH, 0)
    _append_to_buffer(call, stream, text)
    return stream


def _has_failed(call: Call, ios: int) -> bool:
    """Whether nothing is written any more."""
    return call.machine.read(ios + _STATE, 4) != bytes(4)


def _append_to_buffer(call: Call, stream: int, text: bytes) -> None:
    if _has_failed(call, _ios_of(call, stream)):
        return
    _append_to(call, _buffer_at(call, stream), text)


def _append_to(call: Call, buffer: int, text: bytes) -> None:
    # A buffer of the object's own class is called as the stream would call it, to do with the text what it likes.
    table = call.machine.word(buffer)
    if call.process.image_at(table) is not None:  # of a class of the object
        call.machine.call(call.machine.word(table + _XSPUTN), buffer, call.process.store(text), len(text))
        return
    # Texts are replaced as a whole: the areas lead to a new copy, in which positions are as they were.
    old, at = _buffer_content(call, buffer)
    content = old[:at] + text + old[at + len(text) :]
    begin, position, _ = call.machine.words(buffer + _GET_AREA, 3)
    _set_text(call, buffer, content, at + len(text), reads=False)
    if begin:
        new = call.machine.word(buffer + _PUT_AREA)
        call.machine.write(buffer + _GET_AREA, struct.pack("<3Q", new, new + position - begin, new + len(content)))


@STREAMS.named("_ZNSt15basic_streambufIcSt11char_traitsIcEE6xsputnEPKcl")
def _streambuf_xsputn(call: Call) -> int:
    """Write characters into a buffer. Takes (buffer, characters, their number); what the class of the object does
    with each.
    """
    buffer, size = call.argument(0), call.argument(2)
    overflow = call.machine.word(call.machine.word(buffer) + _OVERFLOW)
    for character in call.machine.read(call.argument(1), size) if size else b"":
        call.machine.call(overflow, buffer, character)
    return size


@STREAMS.matching(r"_ZNSt15basic_streambufIcSt11char_traitsIcEEC[12]Ev")
def _streambuf_constructor(call: Call) -> None:
    """Construct the base of a class of the object, which sets the virtual pointer."""
    call.machine.write(call.argument(0) + _GET_AREA, bytes(48))


@STREAMS.matching(
    r"_ZNSt15basic_streambufIcSt11char_traitsIcEE(4syncEv|5imbueERK|9showmanycEv|7seekoffE|7seekposE|6setbufE|D[012]E)"
)
def _streambuf_sync(_: Call) -> int:
    return 0


# What a buffer does for its stream, which unoptimised code calls: in its areas, then by its virtual functions

_STREAM_BUFFER: Final = "_ZNSt15basic_streambufIcSt11char_traitsIcEE"
_XSGETN, _UNDERFLOW, _UFLOW = 8 * 8, 9 * 8, 10 * 8


def _call_virtual(call: Call, place: int, *arguments: int) -> int:
    buffer = call.argument(0)
    return call.machine.call(call.machine.word(call.machine.word(buffer) + place), buffer, *arguments)


@STREAMS.named(f"{_STREAM_BUFFER}5sputcEc")
def _streambuf_sputc(call: Call) -> int:
    buffer, code = call.argument(0), call.argument(1) & 0xFF
    at, end = call.machine.words(buffer + _PUT_AREA + 8, 2)
    if at >= end:
        return _call_virtual(call, _OVERFLOW, code)
    call.machine.write(at, bytes((code,)))
    call.machine.set_word(buffer + _PUT_AREA + 8, at + 1)
    return code


@STREAMS.named(f"{_STREAM_BUFFER}5sputnEPKcl")
def _streambuf_sputn(call: Call) -> int:
    return _call_virtual(call, _XSPUTN, call.argument(1), call.argument(2))


@STREAMS.named(f"{_STREAM_BUFFER}5sgetnEPcl")
def _streambuf_sgetn(call: Call) -> int:
    return _call_virtual(call, _XSGETN, call.argument(1), call.argument(2))


@STREAMS.named(f"{_STREAM_BUFFER}5sgetcEv", f"{_STREAM_BUFFER}6sbumpcEv", f"{_STREAM_BUFFER}6snextcEv")
def _streambuf_sgetc(call: Call) -> int:
    """Return the character here; ``sbumpc`` goes on behind it, ``snextc`` goes on first."""
    buffer, machine = call.argument(0), call.machine

    def take(*, goes_on: bool) -> int:
        at, end = machine.words(buffer + _GET_AREA + 8, 2)
        if at >= end:
            return machine.call(machine.word(machine.word(buffer) + (_UFLOW if goes_on else _UNDERFLOW)), buffer)
        machine.set_word(buffer + _GET_AREA + 8, at + goes_on)
        return machine.byte(at)

    if "6snextc" not in call.name:
        return take(goes_on="6sbumpc" in call.name)
    skipped = take(goes_on=True) & 0xFFFF_FFFF
    return take(goes_on=False) if skipped != _NO_CHARACTER else -1


# The virtual functions of a std::stringbuf, which inlined code calls where its areas have an end


@STREAMS.named("stringbuf overflow")
def _stringbuf_overflow(call: Call) -> int:
    """Emulate ``overflow`` of a string buffer. Takes (buffer, character or EOF)."""
    code = call.argument(1) & 0xFFFF_FFFF
    if code == _NO_CHARACTER:
        return 0
    _append_to(call, call.argument(0), bytes((code & 0xFF,)))
    return code & 0xFF


@STREAMS.named("stringbuf xsputn")
def _stringbuf_xsputn(call: Call) -> int:
    """Emulate ``xsputn``. Takes (buffer, characters, their number)."""
    if call.argument(2):
        _append_to(call, call.argument(0), call.machine.read(call.argument(1), call.argument(2)))
    return call.argument(2)


@STREAMS.named("stringbuf underflow", "stringbuf uflow")
def _stringbuf_underflow(call: Call) -> int:
    """Return the next character, which may have been written since, or EOF; ``uflow`` takes it."""
    buffer = call.argument(0)
    begin, at, _ = call.machine.words(buffer + _GET_AREA, 3)
    # What was written since then is readable now: ``str`` and reading share one text (sstream.tcc).
    end = call.machine.word(buffer + _PUT_AREA + 8)
    if not begin or at >= end:
        return -1
    call.machine.set_word(buffer + _GET_AREA + 16, end)
    if "uflow" in call.name:
        call.machine.set_word(buffer + _GET_AREA + 8, at + 1)
    return call.machine.byte(at)


@STREAMS.named("stringbuf xsgetn")
def _stringbuf_xsgetn(call: Call) -> int:
    """Emulate ``xsgetn``. Takes (buffer, target, number)."""
    begin, at, end = call.machine.words(call.argument(0) + _GET_AREA, 3)
    end = max(end, call.machine.word(call.argument(0) + _PUT_AREA + 8)) if begin else at
    size = min(call.argument(2), end - at)
    if size:
        call.machine.write(call.argument(1), call.machine.read(at, size))
        call.machine.set_word(call.argument(0) + _GET_AREA + 8, at + size)
    return size


@STREAMS.named("stringbuf sync", "stringbuf imbue", "stringbuf showmanyc", "stringbuf destroy", "stringbuf delete")
def _stringbuf_sync(_: Call) -> int:
    """Do nothing: a text needs no writing, and memory is never reused."""
    return 0


@STREAMS.matching(r"stringbuf (setbuf|seekoff|seekpos|pbackfail)$")
def _stringbuf_seekoff(call: Call) -> None:
    raise Stop("the code moves in a buffer", call.return_address)


def _format_flags(call: Call, ios: int) -> int:
    return int.from_bytes(call.machine.read(ios + _FLAGS, 4), "little")


# Writing


@STREAMS.matching(rf"_ZSt16__ostream_insert{_TRAITS}E")
def _ostream_insert(call: Call) -> int:
    return _put_padded(call, call.machine.read(call.argument(1), call.argument(2)) if call.argument(2) else b"")


@STREAMS.matching(r"_ZNSo5writeEPKcl")
def _ostream_write(call: Call) -> int:
    text = call.machine.read(call.argument(1), call.argument(2)) if call.argument(2) else b""
    if not _is_console(call, call.argument(0)):
        _append_to_buffer(call, call.argument(0), text)
    return call.argument(0)


@STREAMS.named("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc")
def _ostream_put_c_string(call: Call) -> int:
    return _put_padded(call, call.machine.text(call.argument(1)))


@STREAMS.matching(r"_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_[ach]$")
def _ostream_put_character(call: Call) -> int:
    return _put_padded(call, bytes((call.argument(1) & 0xFF,)))


@STREAMS.matching(r"_ZNSo3putEc")
def _ostream_put(call: Call) -> int:
    if not _is_console(call, call.argument(0)):
        _append_to_buffer(call, call.argument(0), bytes((call.argument(1) & 0xFF,)))
    return call.argument(0)


@STREAMS.matching(r"_ZStlsIcSt11char_traitsIcESaIcEERSt13basic_ostreamIT_T0_ES7_RK")
def _ostream_put_string(call: Call) -> int:
    abi = COW if "RKSbI" in call.name else CXX11
    return _put_padded(call, abi.read(call.process, call.argument(1)))


@STREAMS.matching(r"_ZSt4endlIc", r"_ZSt5flushIc", r"_ZNSo5flushEv", r"_ZSt4endsIc")
def _ostream_endl(call: Call) -> int:
    if "5flush" not in call.name and not _is_console(call, call.argument(0)):
        _append_to_buffer(call, call.argument(0), b"\n" if "4endlI" in call.name else b"\0")
    return call.argument(0)


@STREAMS.matching(r"_ZNSolsE[ijlmxysthb]$", r"_ZNSo9_M_insertI[lmxyb]EERSoT_$")
def _ostream_put_integer(call: Call) -> int:
    stream = call.argument(0)
    kind = call.name[-1] if call.name.startswith("_ZNSols") else call.name[call.name.index("_M_insertI") + 10]
    bits = {"i": 32, "j": 32, "s": 16, "t": 16, "h": 8, "b": 8}.get(kind, 64)
    value = call.argument(1) & ((1 << bits) - 1)
    flags = _DEC if _is_console(call, stream) else _format_flags(call, _ios_of(call, stream))
    if kind == "b" and flags & _BOOLALPHA:
        return _put_padded(call, b"true" if value else b"false")
    # As unsigned in these bases, of the width that the type has (C++17, [facet.num.put.virtuals]).
    if flags & (_HEX | _OCT):
        text = b"%x" % value if flags & _HEX else b"%o" % value
        if flags & _SHOWBASE and value:
            text = (b"0x" if flags & _HEX else b"0") + text
        return _put_padded(call, text.upper() if flags & _UPPERCASE else text)
    if kind in "ilxs" and value >> (bits - 1):
        value -= 1 << bits
    sign = b"+" if flags & _SHOWPOS and kind in "ilxs" and value >= 0 else b""
    return _put_padded(call, sign + b"%d" % value)


@STREAMS.matching(r"_ZNSolsE[df]$", r"_ZNSo9_M_insertIdEERSoT_$")
def _ostream_put_double(call: Call) -> int:
    stream = call.argument(0)
    value = call.number(0, 32 if call.name.endswith("Ef") else 64)
    flags, precision = _DEC, 6
    if not _is_console(call, stream):
        ios = _ios_of(call, stream)
        flags, precision = _format_flags(call, ios), call.machine.word(ios + _PRECISION)
    kind = {_FIXED: b"f", _SCIENTIFIC: b"e", _FIXED | _SCIENTIFIC: b"a"}.get(flags & (_FIXED | _SCIENTIFIC), b"g")
    marks = (b"+" if flags & _SHOWPOS else b"") + (b"#" if flags & _SHOWPOINT else b"")
    kind = kind.upper() if flags & _UPPERCASE else kind
    return _put_padded(
        call, real_text(value, marks, b"", None if kind in b"aA" else b"%d" % min(precision, 1 << 10), kind)
    )


@STREAMS.matching(r"_ZNSolsEe$", r"_ZNSo9_M_insertIeEERSoT_$", r"_ZNSo9_M_insertIPKvEERSoT_$", r"_ZNSolsEPKv$")
def _ostream_put_long_double(call: Call) -> int:
    """Put what is another text on another machine: an address, or a number in the stack."""
    if "PKv" not in call.name or call.argument(1):
        call.answer_is_unknown()
    return _put_padded(call, b"0")


_SETTERS: Final = {"St13_Setprecision": _PRECISION, "St5_Setw": _WIDTH}


@STREAMS.matching(r"_ZSt(ls|rs)IcSt11char_traitsIcEERSt13basic_[io]streamIT_T0_ES6_St(13_Setprecision|5_Setw)$")
def _stream_setprecision(call: Call) -> int:
    """Set what ``std::setprecision`` and ``std::setw`` are given, in a register."""
    at = next(at for name, at in _SETTERS.items() if call.name.endswith(name))
    if not _is_console(call, call.argument(0)):
        call.machine.set_word(_ios_of(call, call.argument(0)) + at, call.argument(1) & 0xFFFF_FFFF)
    return call.argument(0)


@STREAMS.matching(r"_ZStlsIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_St8_SetfillIS3_E$")
def _stream_setfill(call: Call) -> int:
    if not _is_console(call, call.argument(0)):
        call.machine.write(_ios_of(call, call.argument(0)) + _FILL, bytes((call.argument(1) & 0xFF,)))
    return call.argument(0)


@STREAMS.named("_ZNSolsEPFRSoS_E", "_ZNSirsEPFRSiS_E")
def _stream_apply_manipulator(call: Call) -> int:
    """Call a manipulator of the stream."""
    return call.machine.call(call.argument(1), call.argument(0))


@STREAMS.named(
    *("_ZNSolsEPFRSt8ios_baseS0_E", "_ZNSirsEPFRSt8ios_baseS0_E"),
    *(f"_ZN{kind}EPFRSt9basic_iosIcSt11char_traitsIcEES3_E" for kind in ("Sols", "Sirs")),
)
def _stream_apply_ios_manipulator(call: Call) -> int:
    """Call a manipulator of what all streams have."""
    stream = call.argument(0)
    if not _is_console(call, stream):
        call.machine.call(call.argument(1), _ios_of(call, stream))
    return stream


@STREAMS.matching(r"_ZNSt8ios_base15sync_with_stdioEb", rf"_ZNSt9basic_ios{_TRAITS}E3tieE")
def _ios_tie(_: Call) -> int:
    return 0


@STREAMS.matching(
    r"(?:_ZNKSt|_ZNKRSt|_ZNOSt)(7__cxx11)?1[5789]basic_([io]?stringstream|stringbuf)IcSt11char_traitsIcESaIcEE3strEv"
)
def _stringstream_str(call: Call) -> None:
    result = call.result
    this_address = call.argument(0)
    buffer = this_address if "basic_stringbuf" in call.name else this_address + _make_layout(call.name).buffer
    _string_abi(call).create(call.process, result, _written_text(call, buffer))


@STREAMS.matching(r"_ZNSt(7__cxx11)?1[5789]basic_([io]?stringstream|stringbuf)IcSt11char_traitsIcESaIcEE3strE(RK|O)")
def _stringstream_set_str(call: Call) -> None:
    this_address = call.argument(0)
    is_buffer = "basic_stringbuf" in call.name
    layout = None if is_buffer else _make_layout(call.name)
    buffer = this_address if layout is None else this_address + layout.buffer
    text = _string_abi(call).read(call.process, call.argument(1))
    _set_text(call, buffer, text, 0, reads=layout is None or layout.output != 0)


@STREAMS.matching(r"_ZNSt(7__cxx11)?15basic_stringbufIcSt11char_traitsIcESaIcEE7_M_syncEPcmm")
def _stringbuf_m_sync(call: Call) -> None:
    """Set the areas of a string buffer as its mode says (bits/sstream.tcc). Takes (this, characters, read position,
    write position).
    """
    _set_areas(call, *map(call.argument, range(4)))


@STREAMS.matching(r"_ZNSt(7__cxx11)?15basic_stringbufIcSt11char_traitsIcESaIcEE17_M_stringbuf_initESt13_Ios_Openmode")
def _stringbuf_init(call: Call) -> None:
    """Construct a string buffer. Takes (this, mode); with the text in the buffer's own string."""
    buffer, mode = call.argument(0), call.argument(1) & 0xFFFF_FFFF
    call.machine.write(buffer + _MODE, struct.pack("<I", mode))
    text = _string_abi(call).read(call.process, buffer + _STRING)
    _set_areas(call, buffer, call.machine.word(buffer + _STRING), 0, len(text) if mode & (_AT_END | _APPENDS) else 0)


def _set_areas(call: Call, buffer: int, begin: int, read: int, written: int) -> None:
    mode = call.machine.word(buffer + _MODE) & 0xFFFF_FFFF
    end = begin + len(_string_abi(call).read(call.process, buffer + _STRING))
    if mode & _IN:
        call.machine.write(buffer + _GET_AREA, struct.pack("<3Q", begin, begin + read, end))
    if mode & _OUT:
        call.machine.write(buffer + _PUT_AREA, struct.pack("<3Q", begin, begin + written, end))
        if not mode & _IN:
            call.machine.write(buffer + _GET_AREA, struct.pack("<3Q", end, end, end))


def _string_abi(call: Call) -> StringAbi:
    return CXX11 if "__cxx11" in call.name else COW


# State


@STREAMS.matching(rf"_ZNKSt9basic_ios{_TRAITS}E(cvbEv|ntEv|cvPvEv|4goodEv|4failEv|3badEv|3eofEv|7rdstateEv)")
def _ios_rdstate(call: Call) -> int:
    state = int.from_bytes(call.machine.read(call.argument(0) + _STATE, 4), "little")
    kind = call.name[call.name.index("E", call.name.index("char_traits") + 11) + 2 :]
    if kind.startswith("7rd"):
        return state
    if kind.startswith("4good"):
        return int(not state)
    if kind.startswith("3eof"):
        return int(bool(state & _EOF))
    if kind.startswith("3bad"):
        return int(bool(state & _BAD))
    failed = bool(state & (_FAIL | _BAD))
    return int(failed if kind.startswith(("nt", "4fail")) else not failed)


@STREAMS.matching(rf"_ZNSt9basic_ios{_TRAITS}E(5clearE|8setstateE)St12_Ios_Iostate")
def _ios_setstate(call: Call) -> None:
    old = 0 if "5clearE" in call.name else int.from_bytes(call.machine.read(call.argument(0) + _STATE, 4), "little")
    _set_stream_state(call, call.argument(0), old | call.argument(1) & 0xFF)


def _set_stream_state(call: Call, ios: int, state: int) -> None:
    """Set the state of a stream, which throws ``std::ios_base::failure`` if the code has asked for that."""
    call.machine.write(ios + _STATE, struct.pack("<I", state))
    if state & int.from_bytes(call.machine.read(ios + _THROWS, 4), "little"):
        code = struct.pack("<QQ", _STREAM_ERROR, category(call.process, "iostream"))
        throw(call, "NSt8ios_base7failureB5cxx11E", "basic_ios::clear: iostream error", code)


@STREAMS.matching(rf"_ZNSt9basic_ios{_TRAITS}E10exceptionsESt12_Ios_Iostate")
def _ios_exceptions(call: Call) -> None:
    ios = call.argument(0)
    call.machine.write(ios + _THROWS, struct.pack("<I", call.argument(1) & 0xFF))
    _set_stream_state(call, ios, int.from_bytes(call.machine.read(ios + _STATE, 4), "little"))


# Reading


class _Input:
    """What is left of the text of an input stream."""

    def __init__(self, call: Call, stream: int, *, counts: bool = False) -> None:
        """``counts`` where ``gcount`` tells later what was read."""
        self._call, self._ios = call, _ios_of(call, stream)
        if _is_console(call, stream):
            raise Stop("the code reads from a stream", call.return_address)
        self._buffer = call.machine.word(self._ios + _BUFFER)
        table = call.machine.word(self._buffer)
        if call.process.image_at(table) is not None:
            raise Stop("the code reads from a buffer of its own", call.return_address)
        self._begin, self._at, end = call.machine.words(self._buffer + _GET_AREA, 3)
        written = call.machine.word(self._buffer + _PUT_AREA + 8)
        end = max(end, written) if self._begin and written >= self._begin else end
        self.text = call.machine.read(self._at, end - self._at) if end > self._at else b""
        self.state = int.from_bytes(call.machine.read(self._ios + _STATE, 4), "little")
        call.decide_by_what_was_read()
        self._count = stream + 8 if counts else 0
        if self._count:
            call.machine.set_word(self._count, 0)

    @property
    def position(self) -> int:
        """How far the text is read."""
        return self._at - self._begin

    def skip_blanks(self) -> bytes:
        """Return the text behind blanks, if the stream skips them."""
        if _format_flags(self._call, self._ios) & _SKIPWS:
            self.take(len(self.text) - len(self.text.lstrip(_BLANKS)))
        return self.text

    def take(self, size: int) -> bytes:
        """Read so many bytes."""
        taken, self.text = self.text[:size], self.text[size:]
        self._move(self._at + size)
        if self._count:
            self._call.machine.set_word(self._count, self._call.machine.word(self._count) + size)
        return taken

    def go_to(self, position: int) -> bool:
        """Go on reading at a position, if there is one."""
        if not 0 <= position <= self.position + len(self.text):
            return False
        self._move(self._begin + position)
        return True

    def _move(self, address: int) -> None:
        self._at = address
        self._call.machine.set_word(self._buffer + _GET_AREA + 8, address)

    def width(self) -> int:
        """Return how many characters to read at most, and forget it; 0 for any number."""
        width = self._call.machine.word(self._ios + _WIDTH)
        self._call.machine.set_word(self._ios + _WIDTH, 0)
        return width

    def base(self) -> int:
        """Return the base of the integers that are read; 0 where each tells its own."""
        flags = _format_flags(self._call, self._ios) & (_HEX | _OCT | _DEC)
        return {_HEX: 16, _OCT: 8, 0: 0}.get(flags, 10)

    def clear_end(self) -> None:
        """Forget that the end was reached."""
        self.state &= ~_EOF
        self.become(0)

    def become(self, state: int) -> None:
        """Set bits of the state, and throw if the code has asked for that."""
        self.state |= state
        _set_stream_state(self._call, self._ios, self.state)


@STREAMS.matching(
    r"_ZStrsIcSt11char_traitsIcESaIcEERSt13basic_istreamIT_T0_ES7_R(NSt7__cxx1112basic_stringI|SbI)",
    r"_ZStrsIcSt11char_traitsIcEERSt13basic_istreamIT_T0_ES6_PS3_$",
)
def _istream_get_string(call: Call) -> int:
    """Read a word. Takes (stream, string), or characters, which end with a zero."""
    reader = _Input(call, call.argument(0))
    if reader.state:
        reader.become(_FAIL)
        return call.argument(0)
    text = reader.skip_blanks()
    size = next((at for at, code in enumerate(text) if code in _BLANKS), len(text))
    width, to_string = reader.width(), not call.name.endswith("_PS3_")
    if width:
        size = min(size, width if to_string else width - 1)
    word = reader.take(size)
    if not to_string:
        call.machine.write(call.argument(1), word + b"\0")
    elif size:
        (CXX11 if "__cxx11" in call.name else COW).create(call.process, call.argument(1), word)
    is_cut = width and size == (width if to_string else width - 1)
    reader.become((0 if size else _FAIL) | (_EOF if not reader.text and not is_cut else 0))
    return call.argument(0)


@STREAMS.matching(r"_ZSt2wsIcSt11char_traitsIcEERSt13basic_istream")
def _istream_ws(call: Call) -> int:
    reader = _Input(call, call.argument(0))
    if not reader.state:
        reader.take(len(reader.text) - len(reader.text.lstrip(_BLANKS)))
        reader.become(_EOF if not reader.text else 0)
    return call.argument(0)


@STREAMS.matching(r"_ZSt7getlineIcSt11char_traitsIcESaIcEERSt13basic_istream")
def _istream_getline_string(call: Call) -> int:
    abi, reader = CXX11 if "__cxx11" in call.name else COW, _Input(call, call.argument(0))
    if reader.state:
        reader.become(_FAIL)
        return call.argument(0)
    end = bytes((call.argument(2) & 0xFF,)) if call.name.endswith("ES4_") or "ES5_" in call.name[-6:] else b"\n"
    if call.name.endswith("E"):
        end = b"\n"
    head, separator, _ = reader.text.partition(end)
    abi.create(call.process, call.argument(1), head)
    reader.take(len(head) + len(separator))
    reader.become(0 if separator else _EOF if head else _EOF | _FAIL)
    return call.argument(0)


@STREAMS.matching(r"_ZNSi(7getlineEPcl|3getEPcl)c?$")
def _istream_getline(call: Call) -> int:
    """Read a line. Takes (stream, target, room[, delimiter]); ``getline`` takes the delimiter, too, ``get`` leaves
    it.
    """
    reader, target, room = _Input(call, call.argument(0), counts=True), call.argument(1), call.argument(2)
    end = bytes((call.argument(3) & 0xFF,)) if call.name.endswith("c") else b"\n"
    if reader.state or room <= 0:
        reader.become(_FAIL)
        return call.argument(0)
    head, separator, _ = reader.text.partition(end)
    part = reader.take(min(len(head), room - 1))
    call.machine.write(target, part + b"\0")
    state = _FAIL if not part and not separator else 0
    if part == head and separator:
        reader.take(int("7getline" in call.name))
    elif part == head:
        state |= _EOF
    elif "7getline" in call.name:
        state |= _FAIL
    reader.become(state)
    return call.argument(0)


_INTEGERS: Final = {"i": 4, "j": 4, "l": 8, "m": 8, "x": 8, "y": 8, "s": 2, "t": 2, "b": 1}
_IN_BASE: Final = {
    0: regex(rb"[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)"),
    8: regex(rb"[+-]?[0-7]+"),
    10: regex(rb"[+-]?\d+"),
    16: regex(rb"[+-]?(?:0[xX])?[0-9a-fA-F]+"),
}


@STREAMS.matching(r"_ZNSirsER[ijlmxystb]$", r"_ZNSi10_M_extractI[ijlmxystb]EERSiRT_$")
def _istream_get_integer(call: Call) -> int:
    reader = _Input(call, call.argument(0))
    kind = call.name[-1] if call.name.startswith("_ZNSirs") else call.name[call.name.index("extractI") + 8]
    size = _INTEGERS[kind]
    if reader.state:
        reader.become(_FAIL)
        return call.argument(0)
    text = reader.skip_blanks()
    if not text:
        reader.become(_FAIL | _EOF)
        return call.argument(0)
    if kind == "b" and _format_flags(call, _ios_of(call, call.argument(0))) & _BOOLALPHA:
        word = next((word for word in (b"true", b"false") if text.startswith(word)), None)
        if word is None:
            raise Stop("the code reads a truth value", call.return_address)
        reader.take(len(word))
        call.machine.write(call.argument(1), bytes((word == b"true",)))
        reader.become(0)
        return call.argument(0)
    base = reader.base()
    match = _IN_BASE[base].match(text)
    value = _value(match[0], base) if match else 0
    reader.take(match.end() if match else 0)
    low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if kind in "ilxs" else (0, (1 << 8 * size) - 1)
    if kind in "jmyt" and -high <= value < 0:
        value += high + 1
    if kind == "b":
        high = 1
    # libstdc++, num_get::_M_extract_int: what has no sign becomes the largest value, below zero as well.
    fits = value if low <= value <= high else low if value < low < 0 else high
    call.machine.write(call.argument(1), (fits & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
    reader.become((0 if match and fits == value else _FAIL) | (_EOF if not reader.text else 0))
    return call.argument(0)


def _value(digits: bytes, base: int) -> int:
    """Return the number of some digits; ``base`` 0 as in C."""
    plain = digits.lstrip(b"+-").lower()
    if not base:
        base = 16 if plain.startswith(b"0x") else 8 if plain.startswith(b"0") else 10
    return int(plain, base) * (-1 if digits.startswith(b"-") else 1)


@STREAMS.matching(r"_ZNSirsER[df]$", r"_ZNSi10_M_extractI[df]EERSiRT_$")
def _istream_get_double(call: Call) -> int:
    reader = _Input(call, call.argument(0))
    kind = call.name[-1] if call.name.startswith("_ZNSirs") else call.name[call.name.index("extractI") + 8]
    if reader.state:
        reader.become(_FAIL)
        return call.argument(0)
    text = reader.skip_blanks()
    if not text:
        reader.become(_FAIL | _EOF)
        return call.argument(0)
    value, size = parsed(text)
    reader.take(size)
    call.machine.write(call.argument(1), call.packed(value, 64 if kind == "d" else 32))
    reader.become((0 if size else _FAIL) | (_EOF if not reader.text else 0))
    return call.argument(0)


@STREAMS.matching(
    r"_ZStrsIcSt11char_traitsIcEERSt13basic_istreamIT_T0_ES6_RS3_$",
    r"_ZStrsISt11char_traitsIcEERSt13basic_istreamIcT_ES5_R[ah]$",
    r"_ZNSi3getERc$",
)
def _istream_get_character(call: Call) -> int:
    is_plain = call.name.startswith("_ZNSi3get")
    reader = _Input(call, call.argument(0), counts=is_plain)
    text = b"" if reader.state else reader.text if is_plain else reader.skip_blanks()
    if text:
        call.machine.write(call.argument(1), reader.take(1))
    else:
        reader.become(_FAIL | (_EOF if not reader.state else 0))
    return call.argument(0)


@STREAMS.matching(r"_ZNSi3getEv", r"_ZNSi4peekEv")
def _istream_get(call: Call) -> int:
    reader = _Input(call, call.argument(0), counts=True)
    if reader.state or not reader.text:
        reader.become((_EOF if not reader.state else 0) | (_FAIL if "get" in call.name or reader.state else 0))
        return -1
    code = reader.text[0]
    if "get" in call.name:
        reader.take(1)
    return code


@STREAMS.matching(r"_ZNSi4readEPcl$", r"_ZNSi8readsomeEPcl$")
def _istream_read(call: Call) -> int:
    """Read bytes. Takes (stream, target, number)."""
    reader, size = _Input(call, call.argument(0), counts=True), call.argument(2)
    if reader.state:
        reader.become(_FAIL)
        return 0 if "8readsome" in call.name else call.argument(0)
    text = reader.take(min(size, len(reader.text)))
    if text:
        call.machine.write(call.argument(1), text)
    if "8readsome" in call.name:
        return len(text)
    reader.become(_FAIL | _EOF if len(text) < size else 0)
    return call.argument(0)


@STREAMS.matching(r"_ZNSi6ignoreE(v|l|li)$")
def _istream_ignore(call: Call) -> int:
    """Skip characters. Takes (stream[, number[, delimiter]])."""
    reader = _Input(call, call.argument(0), counts=True)
    if reader.state:
        reader.become(_FAIL)
        return call.argument(0)
    most = 1 if call.name.endswith("v") else call.argument(1)
    end = reader.text.find(call.argument(2) & 0xFF) if call.name.endswith("li") else -1
    size = end + 1 if 0 <= end < most else min(most, len(reader.text))
    reader.take(size)
    reader.become(_EOF if size < most and not 0 <= end < most else 0)
    return call.argument(0)


@STREAMS.matching(r"_ZNSi5ungetEv$", r"_ZNSi7putbackEc$")
def _istream_putback(call: Call) -> int:
    reader = _Input(call, call.argument(0), counts=True)
    reader.clear_end()
    if reader.state:
        reader.become(_FAIL)
    elif not reader.go_to(reader.position - 1):
        reader.become(_BAD)
    elif "putback" in call.name:
        at = call.machine.word(_buffer_at(call, call.argument(0)) + _GET_AREA + 8)
        call.machine.write(at, bytes((call.argument(1) & 0xFF,)))
    return call.argument(0)


@STREAMS.matching(r"_ZNKSi6gcountEv$")
def _istream_gcount(call: Call) -> int:
    return call.machine.word(call.argument(0) + 8)


# Positions: std::streampos is an offset, and a state of conversions, which stays zero


@STREAMS.matching(r"_ZNSi5tellgEv$", r"_ZNSo5tellpEv$")
def _stream_tell(call: Call) -> int:
    stream = call.argument(0)
    call.give_second(0)
    if "5tellg" in call.name:
        reader = _Input(call, stream)
        return _NOWHERE if reader.state & (_FAIL | _BAD) else reader.position
    if _is_console(call, stream):
        raise Stop("the code asks for the position in a stream", call.return_address)
    if call.machine.read(_ios_of(call, stream) + _STATE, 1)[0] & (_FAIL | _BAD):
        return _NOWHERE
    return _buffer_content(call, _buffer_at(call, stream))[1]


@STREAMS.matching(r"_ZNSi5seekgE", r"_ZNSo5seekpE")
def _stream_seek(call: Call) -> int:
    """Set the position of a stream. Takes (stream, position), or an offset and what it counts from: the beginning,
    where it is, or the end.
    """
    stream, offset = call.argument(0), call.argument(1)
    offset -= offset >> 63 << 64
    from_where = call.argument(2) & 0xFFFF_FFFF if call.name.endswith("Seekdir") else 0
    if "5seekg" in call.name:
        reader = _Input(call, stream)
        reader.clear_end()
        start = (0, reader.position, reader.position + len(reader.text))[from_where]
        if reader.state or not reader.go_to(start + offset):
            reader.become(_FAIL)
        return stream
    if _is_console(call, stream):
        raise Stop("the code sets the position in a stream", call.return_address)
    buffer = _buffer_at(call, stream)
    text, at = _buffer_content(call, buffer)
    position = (0, at, len(text))[from_where] + offset
    if not 0 <= position <= len(text):
        raise Stop("the code sets a position that a stream does not have", call.return_address)
    begin, _, end = call.machine.words(buffer + _PUT_AREA, 3)
    get, read, _ = call.machine.words(buffer + _GET_AREA, 3)
    if not get:  # keeps the end of the text, behind what is written next
        call.machine.write(buffer + _GET_AREA, struct.pack("<3Q", begin, begin, begin + len(text)))
    else:
        call.machine.write(buffer + _GET_AREA, struct.pack("<3Q", get, read, get + len(text)))
    call.machine.write(buffer + _PUT_AREA, struct.pack("<3Q", begin, begin + position, end))
    return stream


@STREAMS.matching(r"_ZNSi(10_M_extractI|rsE|3getE|4readE|7getlineE|6ignoreE)", r"_ZSt(rsI|7getlineI)")
def _istream_extract_other(call: Call) -> None:
    raise Stop("the code reads from a stream", call.return_address)
