"""The pipeline behind ``abiscan coverage``: what a backend cannot run on a torch after its extension is loaded."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from abiscan.dispatch.adapters import table_of
from abiscan.dispatch.coverage import core_operators, cover, key_in
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.operators import Operators
from abiscan.dispatch.table import DispatchTable
from abiscan.emulation.model import Registrations
from abiscan.errors import InputError
from abiscan.extension.backend import meant_backend, newest_core, registry
from abiscan.extension.examined import examine
from abiscan.extension.inventory import Inventory
from abiscan.inputs.packages import FetchedWheel
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.inputs.version import TorchVersion
from abiscan.inputs.workload import read_workload
from abiscan.results.coverage import BackendReport
from abiscan.torches import embedded
from abiscan.torches.torch import TorchChoice

_PRIVATE_USE: Final = "PrivateUse1"
_RENAMES: Final = re.compile(r"rename_privateuse1_backend\(\s*['\"](\w{1,50})['\"]\s*\)")
_MAX_MODULE: Final = 1 << 20


def backend_report(
    source: Source,
    choice: TorchChoice,
    session: Session,
    *,
    backend: str | None = None,
    workload: Path | None = None,
) -> BackendReport:
    """What the backend of a target cannot run on a torch.

    :param backend: a dispatch key, or what the backend calls itself; None for the one that most kernels are for
    :param workload: limits the answer to the operators in this file
    :raises InputError: something cannot be read; there is no such backend
    """
    names = read_workload(workload) if workload else None
    torch = choice.open(session.files(), session)
    examined = examine(source, session)
    inventories = [each.inventory for each in examined.extensions]
    release = torch.release_for(examined.extensions[0].facts.machine)
    operators = torch.operators_of(release)
    version = release.torch_version or embedded.versions()[-1]
    registered = [each.registrations for each in inventories]
    table = table_of(version.minor_version, operators, registered)
    own_name = _own_name(source, registered)
    found = meant_backend(registered, _built_for(inventories))
    key = _key(examined.target.name, table, backend, own_name, found)
    core = core_operators(operators) or newest_core(release.machine)
    backend_name = own_name if key == _PRIVATE_USE else None
    return BackendReport(
        target=examined.target.name,
        paths=tuple(each.path for each in inventories),
        torch=release.version,
        release=str(release),
        built_for=_built_for(inventories),
        backend=key,
        backend_name=backend_name,
        kernels=sum(kernel.key == key for kernel in table.operators.kernels[len(operators.kernels) :]),
        has_fallback=any(each.key == key for each in table.operators.fallbacks[len(operators.fallbacks) :]),
        workload=str(workload) if workload else None,
        coverage=cover(table, key, core, names, backend_name=backend_name),
        notes=tuple(_notes(registered, key, found, operators, str(release))),
        gaps=tuple(_gaps(inventories, operators)),
    )


def _key(
    target: str,
    table: DispatchTable,
    wanted: str | None,
    own_name: str | None,
    found: tuple[str, DispatchKeys] | None,
) -> str:
    if wanted is None:
        if found is None:
            raise InputError(target, "registers no kernels for a backend", "name one with --backend KEY")
        wanted = found[0]
    elif own_name is not None and wanted.lower() == own_name.lower():
        wanted = _PRIVATE_USE
    key = key_in(table.keys, wanted)
    if key is None:
        raise InputError(wanted, "is not a dispatch key of this torch", f"it has: {', '.join(table.keys)}")
    return key


def _built_for(inventories: Sequence[Inventory]) -> tuple[TorchVersion, ...]:
    """The releases that every extension of the target can have been built for."""
    common = set.intersection(*(set(each.built_for) for each in inventories)) if inventories else set()
    return tuple(sorted(common))


def _own_name(source: Source, registered: Iterable[Registrations]) -> str | None:
    """What the target has PrivateUse1 called: in its code, or in the ``__init__.py`` of a package."""
    names = {str(key) for key in registry(registered, "privateuse1-backend") if key is not None}
    names |= {match[1] for text in _modules(source) for match in _RENAMES.finditer(text)}
    return names.pop() if len(names) == 1 else None


def _modules(source: Source) -> Iterator[str]:
    """The Python code of the packages in a target, as far as it is in a file of its own or a wheel."""
    path = source.path if isinstance(source, FetchedWheel) else source
    if not isinstance(path, Path):
        return
    if path.is_dir():
        for file in sorted(path.rglob("__init__.py")):
            if file.stat().st_size <= _MAX_MODULE:
                yield file.read_text("utf-8", "replace")
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for member in wheel.infolist():
                if member.filename.endswith("__init__.py") and member.file_size <= _MAX_MODULE:
                    with wheel.open(member) as stream:
                        yield stream.read(_MAX_MODULE).decode("utf-8", "replace")


def _notes(
    registered: Iterable[Registrations],
    key: str,
    found: tuple[str, DispatchKeys] | None,
    operators: Operators,
    release: str,
) -> Iterator[str]:
    if found is None:
        return
    meant, reading = found
    major, minor = reading.minor
    numbers = {number for number, name in reading.names.items() if name == meant}
    used = {kernel.dispatch_key for each in registered for kernel in each.kernels}
    for number in sorted(numbers & {each for each in used if isinstance(each, int)}):
        here = operators.keys.get(number, f"Unknown({number})")
        if key_in([here], meant) is None:
            yield (
                f"its kernels are for dispatch key {number}, which torch {major}.{minor} calls {meant} and {release} "
                f"{here}: there, none of them is for {key}"
            )


def _gaps(inventories: Sequence[Inventory], operators: Operators) -> Iterator[str]:
    for each in inventories:
        yield from (f"{each.path}: {gap.reason}" for gap in each.gaps if gap.stage != "keys")
    yield from (f"torch: {gap}" for gap in operators.gaps)
