"""Write wheels whose metadata differ: the other members stay as they are, and RECORD has the new ones."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from abiscan.errors import InputError
from abiscan.inputs import destination

_SIGNATURES: Final = ("/RECORD.jws", "/RECORD.p7s")


def refuse_signed(path: Path, members: Iterable[str]) -> None:
    """Reject a wheel that is signed.

    :raises InputError: it is
    """
    # A signature is over RECORD (binary distribution format, "Signed wheel files"), which changes.
    if any(name.endswith(_SIGNATURES) for name in members):
        problem = "is signed, and a change would invalidate the signature"
        raise InputError(str(path), problem, "sign it after that")


def rewrite_wheel(path: Path, result: Path, members: Mapping[str, bytes]) -> None:
    """Write a wheel with members that are new or replaced, and with the RECORD for that.

    :param result: the file that is written, whole or not at all; it may be ``path``
    """
    with (
        destination.write_whole(result) as stream,
        zipfile.ZipFile(path) as old,  # closed before it is replaced, as Windows wants it
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        _copy_members(old, new, members)


def _copy_members(old: zipfile.ZipFile, new: zipfile.ZipFile, additions: Mapping[str, bytes]) -> None:
    record = next(info for info in old.infolist() if re.fullmatch(r"[^/]+\.dist-info/RECORD", info.filename))
    for info in old.infolist():
        # Members are copied as they are inflated; an earlier stamp and RECORD are written anew.
        if info.filename in additions or info is record:
            continue
        with old.open(info) as source, new.open(info, "w") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    for name, content in additions.items():
        new.writestr(_make_info(name, record), content)
    # RECORD is CSV: path, hash in urlsafe base64 without padding, size (packaging specifications).
    rows = [row for row in csv.reader(io.StringIO(old.read(record).decode("utf-8"))) if row and row[0] not in additions]
    added = [[name, f"sha256={_hash_bytes(content)}", str(len(content))] for name, content in additions.items()]
    lines = io.StringIO()
    # The line of RECORD itself stays last.
    csv.writer(lines, lineterminator="\n").writerows([*rows[:-1], *added, *rows[-1:]])
    new.writestr(_make_info(record.filename, record), lines.getvalue().encode())


def _make_info(name: str, like: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return a member with the time and permissions of another one: the file must not depend on the current time."""
    info = zipfile.ZipInfo(name, like.date_time)
    info.external_attr, info.compress_type = like.external_attr, zipfile.ZIP_DEFLATED
    return info


def _hash_bytes(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
