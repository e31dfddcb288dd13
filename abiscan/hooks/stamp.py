"""What a wheel relies on in torch, written into the wheel for the guard to check at import (``guard.py``)."""

from __future__ import annotations

import base64
import csv
import functools
import hashlib
import io
import json
import posixpath
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

import abiscan
from abiscan.environments.judgement import Fitness, judge_package
from abiscan.errors import InputError
from abiscan.extension.examined import examine
from abiscan.findings import Effect
from abiscan.hooks import guard
from abiscan.inputs import destination
from abiscan.inputs.files import Wheel
from abiscan.inputs.session import Session
from abiscan.regex import regex
from abiscan.rules import layout_drift, vtable_drift
from abiscan.torches.torch import TorchChoice
from abiscan.verdict.systems import system_of

GUARD: Final = "_abiscan_guard.py"
_NAME: Final = regex(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-[^-]+)?-[^-]+-[^-]+-[^-]+\.whl")
_SIGNATURES: Final = ("/RECORD.jws", "/RECORD.p7s")


class Stamp(Struct, frozen=True, kw_only=True):
    """A stamp that was written: the members of the wheel that contain it, and how much it covers."""

    members: tuple[str, ...]
    fingerprint: str
    built_for: str
    symbols: int
    keys: int
    operators: int


def stamp_wheel(path: Path, choice: TorchChoice, session: Session) -> Stamp:
    """Record in a wheel what it needs from torch, replacing an earlier stamp. Same wheel, same torch, same bytes.

    :param choice: the torch that it was built for, and with whose schemas it was compiled
    :raises InputError: it is not a wheel that contains the guard, or does not load on that torch
    """
    members = _list_places(path)
    session.progress("checking that it loads")
    judgement = judge_package(path, choice, session)
    torch = choice.open(session.files(), session)
    if judgement is None or not judgement.results:
        raise InputError(
            str(path), "has no extension of torch, so there is nothing to guard", "pass the wheel of an extension"
        )
    if torch.build is None or judgement.fitness is not Fitness.WORKS:
        problem = f"does not load on torch {torch.build}: {judgement.error}"
        raise InputError(str(path), problem, "name the torch that it was built for with --torch")
    session.progress("collecting what it relies on")
    examined = examine(path, session)
    find_layouts = functools.partial(_list_drifts, path, session)
    relied = system_of(examined.target).relied_on(examined, torch, find_layouts)
    document = _make_document(path, relied)
    # Sorted, without a date: the same wheel and torch give the same bytes, so a build stays reproducible.
    text = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    _rewrite_wheel(path, dict.fromkeys(members, text))
    return Stamp(
        members=members,
        fingerprint=document["fingerprint"],
        built_for=document["built_for"],
        symbols=len({name for extension in document["extensions"] for name in extension["symbols"]}),
        keys=len(document["keys"]),
        operators=len(document["operators"]),
    )


def _list_places(path: Path) -> tuple[str, ...]:
    """Return where the stamp goes: next to each copy of the guard."""
    wheel = Wheel(path)
    # A signature is over RECORD (binary distribution format, "Signed wheel files"), which stamping changes.
    if any(name.endswith(_SIGNATURES) for name in wheel.list_members()):
        raise InputError(str(path), "is signed, and stamping would invalidate the signature", "sign it after stamping")
    places = [posixpath.dirname(name) for name in wheel.list_members() if posixpath.basename(name) == GUARD]
    if not places:
        fix = f"first run abiscan guard --write PACKAGE/{GUARD}, and call its check() in PACKAGE/__init__.py"
        raise InputError(str(path), "has no guard that would read a stamp", fix)
    return tuple(posixpath.join(place, guard.STAMP) for place in places)


def _make_document(path: Path, relied: Mapping[str, Any]) -> dict[str, Any]:
    name = _NAME.fullmatch(path.name)
    return {
        "version": 1,
        "tool": f"abiscan {abiscan.__version__}",
        "package": name["name"] if name else path.stem,
        "package_version": name["version"] if name else "",
        "fingerprint": hashlib.sha256(json.dumps(relied, sort_keys=True).encode()).hexdigest(),
        **relied,
    }


def _list_drifts(path: Path, session: Session) -> dict[str, dict[str, str]]:
    """Return, by extension and release, which class it cannot share with that torch, though every symbol is defined.

    A running torch cannot report the layout of its classes, so the embedded releases are used.
    """
    session.progress("looking for releases with different class layouts")
    judged = abiscan.matrix(path, rules=(layout_drift.RULE, vtable_drift.RULE), explained=False, session=session)
    return {
        row.path: {
            release: finding.message
            for release, result in row.results.items()
            for finding in result.findings
            if finding.effect.severity >= Effect.CORRUPTS.severity
        }
        for row in judged.rows
    }


def _rewrite_wheel(path: Path, additions: Mapping[str, bytes]) -> None:
    """Add members to a wheel and to its RECORD; the file is replaced atomically."""
    with (
        destination.write_whole(path) as stream,
        zipfile.ZipFile(path) as old,  # closed before it is replaced, as Windows wants it
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        _copy_members(old, new, additions)


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
