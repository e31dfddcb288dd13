"""What the libraries of a target rely on in the torch that they were built for: what a stamp has for the guard."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping
from typing import Any

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem, LibraryImage
from abiscan.binary.ownership import is_torch_library, is_torch_symbol, without_version
from abiscan.extension.examined import ExaminedTarget
from abiscan.extension.inventory import Inventory, used_keys
from abiscan.inputs.image_files import is_torch_image, users_of_torch
from abiscan.inputs.sources import Extension, Target
from abiscan.torches.torch import LinuxTorch, Torch
from abiscan.verdict.images import machine_of


def relied_on_by_extensions(
    examined: ExaminedTarget, torch: LinuxTorch, find_layouts: Callable[[], Mapping[str, Mapping[str, str]]]
) -> dict[str, Any]:
    """Return what the extensions of a wheel for Linux need from torch.

    :param find_layouts: finds, by extension and release, which class it cannot share with that torch
    """
    target, inventories = examined.target, [extension.inventory for extension in examined.extensions]
    machine = target.extensions[0].facts.machine
    used = {operator for inventory in inventories for operator in _foreign_operators(inventory)}
    # Only operators of that torch: one that is not there now was not there at compile time either.
    schemas = _schemas_of(torch, machine, used) if used else {}
    layouts = find_layouts()
    return {
        "built_for": torch.release_for(machine).build or torch.build,
        "extensions": [
            {**_relied_on(extension, target), "layouts": layouts.get(extension.path, {})}
            for extension in target.extensions
        ],
        "keys": {key: number for inventory in inventories for key, number in _used_keys(inventory)},
        # When the guard runs, the operators of other packages are not registered yet.
        "operators": {operator: schemas[operator] for operator in used if operator in schemas},
    }


def relied_on_by_images(target: Target, torch: Torch) -> dict[str, Any]:
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


def _used_keys(inventory: Inventory) -> list[tuple[str, int]]:
    keys, numbers = inventory.keys, used_keys(inventory.registrations)
    return [(keys.name(number), number) for number in numbers if keys.can_register(number)]


def _foreign_operators(inventory: Inventory) -> set[str]:
    """Return the operators that an extension implements or looks up, but does not define itself."""
    defined = {operator.name for operator in inventory.registrations.operators}
    kernels = {kernel.operator for kernel in inventory.registrations.kernels}
    needed = {lookup.operator for lookup in inventory.registrations.lookups if lookup.throws}
    return (kernels | needed) - defined


def _schemas_of(torch: LinuxTorch, machine: Machine, names: Collection[str]) -> Mapping[str, str]:
    torch_operators = torch.operators(torch.release_for(machine)).look_up(names)
    operators = torch_operators.operators if torch_operators else {}
    schemas = {name: operators[name].schema for name in names if name in operators}
    return {name: schema for name, schema in schemas.items() if schema is not None}
