"""Doubles of the calendar of the C and the C++ library, on a machine in UTC and in the classic locale.

C11, 7.27 (``<time.h>``); the layout of ``struct tm`` is that of glibc. The time itself is not known: what comes from it
is followed (``emulation.taint``).
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.regex import regex

CALENDAR: Final = Doubles()

_TM: Final = struct.Struct("<9i4xqQ")
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_CONVERSION: Final = regex(r"%[EO]?(.)", re.DOTALL)
_LONGER: Final = {
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "X": "%H:%M:%S",
    "c": "%a %b %e %H:%M:%S %Y",
    "h": "%b",
    "r": "%I:%M:%S %p",
    "x": "%m/%d/%y",
}
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a number of seconds is meant
_STATIC: Final = "the tm of gmtime and localtime"
_TEXT: Final = "the text of asctime and ctime"


class _Broken(NamedTuple):
    """A ``struct tm``."""

    second: int
    minute: int
    hour: int
    day: int
    month: int
    year: int
    weekday: int
    yearday: int

    @classmethod
    def read(cls, call: Call, address: int) -> _Broken:
        return cls(*_TM.unpack(call.machine.read(address, _TM.size))[:8])

    @classmethod
    def of(cls, call: Call, seconds: int) -> _Broken:
        try:
            when = _EPOCH + dt.timedelta(seconds=seconds)
        except OverflowError as error:
            raise Stop(f"a calendar date {seconds} seconds after 1970", call.return_address) from error
        weekday = (when.weekday() + 1) % 7
        yearday = when.timetuple().tm_yday - 1
        return cls(when.second, when.minute, when.hour, when.day, when.month - 1, when.year - 1900, weekday, yearday)

    def seconds(self) -> int:
        """Count the seconds since 1970, with members outside of their ranges carried over."""
        year, month = self.year + 1900 + self.month // 12, self.month % 12
        days = dt.date(year, month + 1, 1).toordinal() - _EPOCH.toordinal() + self.day - 1
        return ((days * 24 + self.hour) * 60 + self.minute) * 60 + self.second

    def store(self, call: Call, address: int) -> None:
        zone = call.process.store(b"UTC\0")
        call.machine.write(address, _TM.pack(*self, 0, 0, zone))

    def text(self, form: str) -> str:
        """Return what ``strftime`` makes of it."""
        return _CONVERSION.sub(lambda match: self._part(match[1]), form)

    def _part(self, kind: str) -> str:
        if kind in _LONGER:
            return self.text(_LONGER[kind])
        year, hour = self.year + 1900, self.hour
        day, month = _DAYS[self.weekday % 7], _MONTHS[self.month % 12]
        when = functools.partial(dt.date, year, self.month + 1, self.day)
        made: dict[str, Callable[[], str]] = {
            "%": lambda: "%",
            "A": lambda: day,
            "B": lambda: month,
            "C": lambda: f"{year // 100:02}",
            "G": lambda: str(when().isocalendar().year),
            "H": lambda: f"{hour:02}",
            "I": lambda: f"{(hour - 1) % 12 + 1:02}",
            "M": lambda: f"{self.minute:02}",
            "S": lambda: f"{self.second:02}",
            "U": lambda: f"{(self.yearday + 7 - self.weekday) // 7:02}",
            "V": lambda: f"{when().isocalendar().week:02}",
            "W": lambda: f"{(self.yearday + 7 - (self.weekday - 1) % 7) // 7:02}",
            "Y": lambda: str(year),
            "Z": lambda: "UTC",
            "a": lambda: day[:3],
            "b": lambda: month[:3],
            "d": lambda: f"{self.day:02}",
            "e": lambda: f"{self.day:2}",
            "g": lambda: f"{when().isocalendar().year % 100:02}",
            "j": lambda: f"{self.yearday + 1:03}",
            "m": lambda: f"{self.month + 1:02}",
            "n": lambda: "\n",
            "p": lambda: "AM" if hour < 12 else "PM",
            "s": lambda: str(self.seconds()),
            "t": lambda: "\t",
            "u": lambda: str(self.weekday or 7),
            "w": lambda: str(self.weekday),
            "y": lambda: f"{year % 100:02}",
            "z": lambda: "+0000",
        }
        return made[kind]() if kind in made else f"%{kind}"


def _seconds_at(call: Call, address: int) -> int:
    value = call.machine.word(address)
    return value - (1 << 64) if value >> 63 else value


@CALENDAR.named("gmtime", "localtime", "gmtime_r", "localtime_r")
def _double_gmtime(call: Call) -> int:
    """Break seconds down into a ``tm``. Takes (seconds[, result])."""
    broken = _Broken.of(call, _seconds_at(call, call.argument(0)))
    address = call.argument(1) if call.name.endswith("_r") else call.process.bind(_STATIC)
    broken.store(call, address)
    return address


@CALENDAR.named("mktime", "timegm", "timelocal")
def _double_mktime(call: Call) -> int:
    address = call.argument(0)
    seconds = _Broken.read(call, address).seconds()
    _Broken.of(call, seconds).store(call, address)
    return seconds


@CALENDAR.named("strftime", "strftime_l", "__strftime_l")
def _double_strftime(call: Call) -> int:
    """Format a ``tm`` as ``strftime`` does. Takes (text, its size, format, tm); zero where there is no room for
    it.
    """
    form = call.machine.text(call.argument(2)).decode("latin-1")
    text = _Broken.read(call, call.argument(3)).text(form).encode("latin-1")
    if len(text) >= call.argument(1):
        return 0
    call.machine.write(call.argument(0), text + b"\0")
    return len(text)


@CALENDAR.named("asctime", "asctime_r", "ctime", "ctime_r")
def _double_asctime(call: Call) -> int:
    """Return a time as text, as ``asctime`` and ``ctime`` do. Takes (tm or seconds[, text])."""
    passed = call.argument(0)
    is_tm = call.name.startswith("asc")
    broken = _Broken.read(call, passed) if is_tm else _Broken.of(call, _seconds_at(call, passed))
    address = call.argument(1) if call.name.endswith("_r") else call.process.bind(_TEXT)
    call.machine.write(address, broken.text("%a %b %e %H:%M:%S %Y\n").encode() + b"\0")
    return address


@CALENDAR.named("difftime")
def _double_difftime(call: Call) -> None:
    first, second = call.argument(0), call.argument(1)
    call.give_number(float(first - second))


def broken_down(call: Call, address: int, form: str) -> bytes:
    """Return what ``std::put_time`` prints of the ``tm`` at an address."""
    return _Broken.read(call, address).text(form).encode("latin-1")
