"""``std::string`` and ``optional`` in the memory of one emulated process, as its code lays them out."""

from __future__ import annotations

from msgspec import Struct

from abiscan.emulation.process import EmulatedProcess
from abiscan.emulation.strings import StringAbi


class StandardTypes(Struct, frozen=True, kw_only=True):
    """How the code of a process lays out what every class of torch is made of.

    :ivar flag_first: whether an ``optional`` keeps its flag before the value, as in ``c10::optional``; the flag of
        ``std::optional`` follows the value
    """

    process: EmulatedProcess
    strings: StringAbi
    flag_first: bool

    def text(self, address: int) -> str:
        """Return the ``std::string`` at ``address``."""
        return self.strings.read(self.process, address).decode("utf-8", "backslashreplace")

    def value_offset(self, size: int) -> int:
        """Return where the value is inside an ``optional``, for a value of ``size`` bytes. No alignment exceeds a
        word.
        """
        return min(size, 8) if self.flag_first else 0

    def flag_offset(self, size: int) -> int:
        """Return where the flag is inside an ``optional``, for a value of ``size`` bytes."""
        return 0 if self.flag_first else size

    def optional(self, address: int, size: int) -> int | None:
        """Return where the value of the ``optional`` at ``address`` is, None for an empty one."""
        has_value = self.process.machine.read(address + self.flag_offset(size), 1)[0]
        return address + self.value_offset(size) if has_value else None
