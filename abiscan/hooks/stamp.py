"""What a wheel relies on in torch, written into the wheel for the guard to check at import (``guard.py``)."""

from __future__ import annotations

import functools
import hashlib
import json
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

import abiscan
from abiscan.environments.package_check import Fitness, check_package
from abiscan.errors import InputError
from abiscan.extension.examined import examine
from abiscan.findings import Effect
from abiscan.hooks import guard
from abiscan.hooks.wheel_file import refuse_signed, rewrite_wheel
from abiscan.inputs.files import Wheel
from abiscan.inputs.session import Session
from abiscan.regex import regex
from abiscan.rules import layout_drift, vtable_drift
from abiscan.torches.torch import TorchChoice
from abiscan.verdict.systems import system_of

GUARD: Final = "_abiscan_guard.py"
_NAME: Final = regex(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-[^-]+)?-[^-]+-[^-]+-[^-]+\.whl")


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
    members = _guard_folders(path)
    session.progress("checking that it loads")
    checked_package = check_package(path, choice, session)
    torch = choice.open(session.files(), session)
    if checked_package is None or not checked_package.results:
        raise InputError(
            str(path), "has no extension of torch, so there is nothing to guard", "pass the wheel of an extension"
        )
    if torch.build is None or checked_package.fitness is not Fitness.WORKS:
        problem = f"does not load on torch {torch.build}: {checked_package.error}"
        raise InputError(str(path), problem, "name the torch that it was built for with --torch")
    session.progress("collecting what it relies on")
    examined = examine(path, session)
    find_layouts = functools.partial(_layout_drifts, path, session)
    relied = system_of(examined.target).relied_on(examined, torch, find_layouts)
    document = _make_document(path, relied)
    # Sorted, without a date: the same wheel and torch give the same bytes, so a build stays reproducible.
    text = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    rewrite_wheel(path, path, dict.fromkeys(members, text))
    return Stamp(
        members=members,
        fingerprint=document["fingerprint"],
        built_for=document["built_for"],
        symbols=len({name for extension in document["extensions"] for name in extension["symbols"]}),
        keys=len(document["keys"]),
        operators=len(document["operators"]),
    )


def _guard_folders(path: Path) -> tuple[str, ...]:
    """Return where the stamp goes: next to each copy of the guard."""
    wheel = Wheel(path)
    refuse_signed(path, wheel.list_members())
    places = [posixpath.dirname(name) for name in wheel.list_members() if posixpath.basename(name) == GUARD]
    if not places:
        fix = f"first run abiscan guard --write PACKAGE/{GUARD}, and call its check() in PACKAGE/__init__.py"
        raise InputError(str(path), "has no guard to read a stamp", fix)
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


def _layout_drifts(path: Path, session: Session) -> dict[str, dict[str, str]]:
    """Return, by extension and release, which class it cannot share with that torch, though every symbol is defined.

    A running torch cannot report the layout of its classes, so the embedded releases are used.
    """
    session.progress("looking for releases with different class layouts")
    matrix = abiscan.matrix(path, rules=(layout_drift.RULE, vtable_drift.RULE), explained=False, session=session)
    return {
        row.path: {
            release: finding.message
            for release, result in row.results.items()
            for finding in result.findings
            if finding.effect.severity >= Effect.CORRUPTS.severity
        }
        for row in matrix.rows
    }
