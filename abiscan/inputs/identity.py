"""What identifies a library, so that something found out about it can be kept between runs."""

from __future__ import annotations

import hashlib
from typing import Final

from abiscan.inputs.files import ElfSource
from abiscan.regex import regex

_HEAD: Final = 4096
_BUILD_ID_NOTE: Final = regex(rb"\x04\0\0\0[\x08-\x20]\0\0\0\x03\0\0\0GNU\0")


def identity_of(source: ElfSource) -> str:
    """Return a text that identifies a library: its build id, or else the fingerprint of the file.

    The header is included with the build id to detect a library that was rewritten after linking (``patchelf``), which
    also moves the note out of the first page.
    """
    head = source.read_head(_HEAD)
    identity = str(source.size) if _BUILD_ID_NOTE.search(head) else source.identify_version()
    return hashlib.sha256(head + identity.encode()).hexdigest()
