"""The pipeline behind ``abiscan coverage``: what a backend cannot run on a torch once its extension is loaded."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from abiscan.dispatch.adapters import table_of
from abiscan.dispatch.coverage import ESSENTIAL, core_operators, key_in, measure_coverage
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.operators import Operators
from abiscan.dispatch.table import DispatchTable
from abiscan.errors import InputError
from abiscan.extension.backend import keys_in_registry, meant_backend, newest_core
from abiscan.extension.examined import ExaminedTarget
from abiscan.extension.inventory import Inventory
from abiscan.gpu.devices import Gpu, Hardware
from abiscan.inputs import observed_fs
from abiscan.inputs.kinds import TargetKind, kind_of
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Missing, Source, open_archive
from abiscan.inputs.version import TorchVersion
from abiscan.inputs.workload import read_workload
from abiscan.regex import regex
from abiscan.registrations import Registrations
from abiscan.results.coverage import BackendReport
from abiscan.results.package import PackageVerdict
from abiscan.torches import embedded
from abiscan.torches.torch import TorchChoice
from abiscan.verdict.torch_set import CheckRequest, TorchSet

_log = logging.getLogger("abiscan.pipelines")

_PRIVATE_USE: Final = "PrivateUse1"
_RENAMES: Final = regex(r"rename_privateuse1_backend\(\s*['\"](\w{1,50})['\"]\s*\)")
_MODULE: Final = "__init__.py"
_MAX_MODULE: Final = 1 << 20


def backend_report(
    source: Source,
    choice: TorchChoice,
    session: Session,
    *,
    backend: str | None = None,
    workload: Path | None = None,
    hardware: Hardware | None = None,
) -> BackendReport:
    """Return what the backend of a target cannot run on a torch.

    :param backend: a dispatch key, or the backend's own name; None for the backend that most kernels are for
    :param workload: limits the report to the operators in this file
    :param hardware: the GPUs that the operators of the target are also checked on
    :raises InputError: something cannot be read; there is no such backend
    """
    names = read_workload(workload) if workload else None
    torch_set = TorchSet(CheckRequest(targets=(source,), torches=(choice,)), session)
    (torch_name,) = torch_set.names
    torch, examined = torch_set.torch(torch_name).for_linux(), torch_set.target(source)
    examined.target.require_readable()
    inventories = [extension.inventory for extension in examined.extensions]
    release = torch.release_for(examined.extensions[0].facts.machine)
    operators = torch.operators(release).look_up()
    # A torch of an unknown version is checked by the rules of the newest: that is what people build themselves.
    version = release.torch_version or embedded.versions()[-1]
    registered = [inventory.registrations for inventory in inventories]
    table = table_of(version.minor_version, operators, registered)
    own_name = _own_name(source, registered)
    main_backend = meant_backend(registered, _built_for(inventories))
    key = _choose_key(examined.target.name, table, backend, own_name, main_backend)
    _log.debug("the backend of %s is %s: asked for %s, registers for %s", source, key, backend, main_backend)
    core = core_operators(operators) or newest_core(release.machine)
    # torch.utils.rename_privateuse1_backend changes how messages name the key, and nothing else.
    backend_name = own_name if key == _PRIVATE_USE else None
    return BackendReport(
        target=examined.target.name,
        load_error=_load_error(torch_set, source, torch_name),
        paths=tuple(inventory.path for inventory in inventories),
        torch=release.version,
        release=str(release),
        built_for=_built_for(inventories),
        backend=key,
        backend_name=backend_name,
        # Those of torch come first in the table, those of the extension after them.
        kernels=sum(kernel.key == key for kernel in table.operators.kernels[len(operators.kernels) :]),
        has_fallback=any(fallback.key == key for fallback in table.operators.fallbacks[len(operators.fallbacks) :]),
        workload=str(workload) if workload else None,
        coverage=measure_coverage(table, key, core, names, backend_name=backend_name),
        notes=tuple(_coverage_notes(registered, key, main_backend, operators, str(release))),
        gaps=(*_coverage_gaps(inventories, operators), *(_gpu_gaps(examined) if hardware and hardware.gpus else ())),
        without_code={gpu: _without_code(examined, gpu, hardware, core, names) for gpu in hardware.gpus}
        if hardware
        else {},
    )


def _load_error(torch_set: TorchSet, source: Source, torch: str) -> str | None:
    """Return how the import of a target fails, or the load of its first library that does not load; None if none."""
    results = torch_set.check(source, torch, with_suggestions=False)
    package = torch_set.package(source, torch, results)
    if package is not None:
        return str(package.error) if package.verdict is PackageVerdict.IMPORT_FAILS and package.error else None
    return next((result.predicted_error.line for result in results if result.predicted_error), None)


def _without_code(
    target: ExaminedTarget, gpu: Gpu, hardware: Hardware, core: Collection[str], names: Collection[str] | None
) -> tuple[str, ...]:
    """Return the operators of a target none of whose kernels run on a GPU, the most used first."""
    codes = (extension.gpu for extension in target.extensions)
    failing = {
        operator
        for code in codes
        if code is not None and code.is_for_maker_of(gpu)
        for operator in code.on(gpu, hardware.driver).failing
        if names is None or operator in names or operator.partition(".")[0] in names
    }
    return tuple(sorted(failing, key=lambda operator: (operator not in ESSENTIAL, operator not in core, operator)))


def _gpu_gaps(target: ExaminedTarget) -> Iterator[str]:
    for extension in target.extensions:
        if extension.gpu is not None:
            yield from (f"{extension.path}: {reason}" for reason in extension.gpu.gaps)


def _choose_key(
    target: str,
    table: DispatchTable,
    requested: str | None,
    own_name: str | None,
    main_backend: tuple[str, DispatchKeys] | None,
) -> str:
    if requested is None:
        if main_backend is None:
            raise InputError(target, "registers no kernels for a backend", "name one with --backend KEY")
        requested = main_backend[0]
    elif own_name is not None and requested.lower() == own_name.lower():
        requested = _PRIVATE_USE
    key = key_in(table.keys, requested)
    if key is None:
        fix = f"it has: {', '.join(table.keys)}" if table.keys else "none could be read in it; pass a released torch"
        raise InputError(requested, "is not a dispatch key of this torch", fix)
    return key


def _built_for(inventories: Sequence[Inventory]) -> tuple[TorchVersion, ...]:
    """Return the releases that every extension of the target may have been built for."""
    common = set.intersection(*(set(inventory.built_for) for inventory in inventories)) if inventories else set()
    return tuple(sorted(common))


def _own_name(source: Source, registered: Iterable[Registrations]) -> str | None:
    """Return the name that the target gives PrivateUse1: in its code, or in the ``__init__.py`` of a package."""
    # Two names would mean that the target has two backends, or chooses at run time.
    names = {str(key) for key in keys_in_registry(registered, "privateuse1-backend") if key is not None}
    names |= {match[1] for text in _package_modules(source) for match in _RENAMES.finditer(text)}
    return names.pop() if len(names) == 1 else None


def _package_modules(source: Source) -> Iterator[str]:
    """Yield the ``__init__.py`` files of the packages in a target that is a folder or an archive."""
    if isinstance(source, Distribution | Missing):
        return
    if isinstance(source, Path) and kind_of(source) is TargetKind.FOLDER:
        for file in sorted(
            Path(place, _MODULE) for place, _, names in observed_fs.walk_folder(source) if _MODULE in names
        ):
            status = observed_fs.stat_file(file)
            if status is not None and observed_fs.is_file(file) and status.st_size <= _MAX_MODULE:
                yield observed_fs.read_file(file).decode("utf-8", "replace")
    elif (archive := open_archive(source)) is not None:
        for name in archive.list_members():
            if name.endswith(_MODULE) and archive.find_member(name).size <= _MAX_MODULE:
                with contextlib.suppress(InputError):  # a module that cannot be read renames nothing
                    yield archive.read_text(name)


def _coverage_notes(
    registered: Iterable[Registrations],
    key: str,
    main_backend: tuple[str, DispatchKeys] | None,
    operators: Operators,
    release: str,
) -> Iterator[str]:
    if main_backend is None:
        return
    built_key, built_keys = main_backend
    major, minor = built_keys.minor
    numbers = {number for number, name in built_keys.names.items() if name == built_key}
    used = {kernel.dispatch_key for registrations in registered for kernel in registrations.kernels}
    # An extension has keys compiled in as numbers, and the running torch decides what a number means.
    for number in sorted(numbers & {used_key for used_key in used if isinstance(used_key, int)}):
        current_name = operators.keys.get(number, f"Unknown({number})")
        if key_in([current_name], built_key) is None:
            yield (
                f"its kernels are for dispatch key {number}, which torch {major}.{minor} calls {built_key} and "
                f"{release} {current_name}: there, none of them is for {key}"
            )


def _coverage_gaps(inventories: Sequence[Inventory], operators: Operators) -> Iterator[str]:
    for inventory in inventories:
        yield from (f"{inventory.path}: {gap.reason}" for gap in inventory.gaps if gap.stage != "keys")
    yield from (f"torch: {gap}" for gap in operators.gaps)
