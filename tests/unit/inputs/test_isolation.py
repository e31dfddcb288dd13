"""What is asked of the kernel: the rights that each version of Landlock has, as in include/uapi/linux/landlock.h."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from abiscan.inputs import isolation


class Kernel:
    """One that has a version of Landlock, and notes what is asked of it."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.handled: list[int] = []

    def syscall(self, number: int, attributes: Any, size: ctypes.c_size_t, _flags: ctypes.c_uint32) -> int:
        assert number == 444, "landlock_create_ruleset"
        if attributes is None:
            return self.version
        assert size.value == ctypes.sizeof(attributes)
        self.handled = list(attributes)
        return -1


@pytest.mark.parametrize(
    ("version", "handled"),
    [
        (-1, []),
        (1, [0x1FF2]),  # WRITE_FILE, and from REMOVE_DIR to MAKE_SYM
        (2, [0x3FF2]),  # REFER
        (3, [0x7FF2]),  # TRUNCATE
        (4, [0x7FF2, 3]),  # BIND_TCP, CONNECT_TCP
        (5, [0x7FF2, 3]),
        (6, [0x7FF2, 3, 3]),  # SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL
        (7, [0x7FF2, 3, 3]),
    ],
)
def test_a_kernel_is_asked_for_the_rights_that_it_has(
    version: int, handled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(version)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: kernel)
    assert isolation.confine_process([]) == 0
    assert kernel.handled == handled
