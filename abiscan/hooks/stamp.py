"""What a wheel relies on in torch, written into the wheel for the guard to check at import (``guard.py``)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import posixpath
import re
import shutil
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

import abiscan
from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem, LibraryImage
from abiscan.binary.ownership import is_torch_library, is_torch_symbol, without_version
from abiscan.errors import InputError
from abiscan.extension.examined import ExaminedTarget, examine
from abiscan.extension.inventory import Inventory
from abiscan.findings import Effect
from abiscan.hooks import guard
from abiscan.hooks.judgement import Fitness, judge_package
from abiscan.inputs import destination
from abiscan.inputs.files import Wheel
from abiscan.inputs.image_files import is_torch_image, users_of_torch
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Extension, Target
from abiscan.regex import regex
from abiscan.rules import layout_drift, vtable_drift
from abiscan.torches.torch import LinuxTorch, Torch, TorchChoice
from abiscan.verdict.images import machine_of

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
    if judgement is None:
        raise InputError(
            str(path), "has no extension of torch, so there is nothing to guard", "pass the wheel of an extension"
        )
    if torch.build is None or judgement.fitness is not Fitness.WORKS:
        problem = f"does not load on torch {torch.build}: {judgement.error}"
        raise InputError(str(path), problem, "name the torch that it was built for with --torch")
    session.progress("collecting what it relies on")
    examined = examine(path, session)
    relied = (
        _relied_on_images(examined.target, torch)
        if examined.target.images
        else _relied_on_extensions(path, examined, torch.for_linux(), session)
    )
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


def _relied_on_extensions(path: Path, examined: ExaminedTarget, torch: LinuxTorch, session: Session) -> dict[str, Any]:
    """Return what the extensions of a wheel for Linux need from torch."""
    target, inventories = examined.target, [extension.inventory for extension in examined.extensions]
    machine = target.extensions[0].facts.machine
    used = {operator for inventory in inventories for operator in _foreign_operators(inventory)}
    # Only operators of that torch: one that is not there now was not there at compile time either.
    schemas = _list_schemas(torch, machine, used) if used else {}
    session.progress("looking for releases with different class layouts")
    drifts = _list_drifts(path, session)
    return {
        "built_for": torch.release_for(machine).build or torch.build,
        "extensions": [
            {**_relied_on(extension, target), "layouts": drifts.get(extension.path, {})}
            for extension in target.extensions
        ],
        "keys": {key: number for inventory in inventories for key, number in _list_keys(inventory)},
        # When the guard runs, the operators of other packages are not registered yet.
        "operators": {operator: schemas[operator] for operator in used if operator in schemas},
    }


def _relied_on_images(target: Target, torch: Torch) -> dict[str, Any]:
    """Return what the libraries of a wheel for Windows or macOS need from torch: what else they rely on is not read."""
    users = users_of_torch(target.images)
    machine = machine_of(users[0], torch)
    extensions = [
        {"path": file.path, "needed": needed, "symbols": symbols, "layouts": {}}
        for file in users
        if machine in file.images
        for needed, symbols in [_names_of(file.images[machine])]
    ]
    build = torch.images(users[0].system, machine).build
    return {"built_for": build, "extensions": extensions, "keys": {}, "operators": {}}


def _names_of(image: LibraryImage) -> tuple[list[str], list[str]]:
    """Return the libraries of torch that an image needs for the load, and the names that it takes from them.

    They are those that ``dlsym`` and ``GetProcAddress`` look up: without the underscore that macOS puts before each.
    """
    needed = [
        posixpath.basename(library.name)
        for library in image.needed
        if is_torch_image(library.name) and not library.optional
    ]
    names = {
        imported.name
        for imported in image.imports
        if imported.library is not None and is_torch_image(imported.library) and not imported.name.startswith("#")
    }
    if image.system is ImageSystem.MACOS:
        names = {name.removeprefix("_") for name in names}
    return needed, sorted(names)


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


def _relied_on(extension: Extension, target: Target) -> dict[str, Any]:
    """Return the torch libraries that an extension is linked with, and the symbols that it must find there.

    The guard looks for them in ``torch/lib``, where a distribution's, with versions in their names, are not.
    """
    needed = [name for name in extension.facts.needed if is_torch_library(name) and without_version(name) == name]
    names = {
        reference.name
        for reference in extension.facts.references
        if not reference.weak and is_torch_symbol(reference.name)
    }
    # What another library of the wheel exports need not be in torch, whoever else has it.
    defined = {name for name in names if any(member.facts.symbols.find(name) for member in target.extensions)}
    # If it reaches torch only through a library of its package, the guard has no torch library to look in.
    return {"path": extension.path, "needed": needed, "symbols": sorted(names - defined) if needed else []}


def _list_keys(inventory: Inventory) -> list[tuple[str, int]]:
    numbers = {
        registration.dispatch_key
        for registered in (
            inventory.registrations.libraries,
            inventory.registrations.kernels,
            inventory.registrations.fallbacks,
        )
        for registration in registered
        if isinstance(registration.dispatch_key, int)
    }
    return [(inventory.keys.name(number), number) for number in sorted(numbers) if inventory.keys.can_register(number)]


def _foreign_operators(inventory: Inventory) -> set[str]:
    """Return the operators that an extension implements or looks up, but does not define itself."""
    defined = {operator.name for operator in inventory.registrations.operators}
    kernels = {kernel.operator for kernel in inventory.registrations.kernels}
    needed = {lookup.operator for lookup in inventory.registrations.lookups if lookup.throws}
    return (kernels | needed) - defined


def _list_schemas(torch: LinuxTorch, machine: Machine, names: Collection[str]) -> Mapping[str, str]:
    torch_operators = torch.operators_of(torch.release_for(machine), names)
    operators = torch_operators.operators if torch_operators else {}
    schemas = {name: operators[name].schema for name in names if name in operators}
    return {name: schema for name, schema in schemas.items() if schema is not None}


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
