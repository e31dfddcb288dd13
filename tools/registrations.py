"""What recorded loads added to torch's dispatcher, and how it differs from what abiscan recovers without a load.

``tests/oracle/registrations.json.gz`` says for each recorded load that succeeded which kernels, schemas and custom
classes a real torch had afterwards and not before (``tests/oracle/collect_registrations.py`` makes it).
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from abiscan.binary.elf import Machine
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.extension.inventory import Inventory
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import Phase, Registrations
from abiscan.results.operators import full_schema, key_name

_ROOT: Final = Path(__file__).resolve().parent.parent
RECORD: Final = _ROOT / "tests" / "oracle" / "registrations.json.gz"
SAMPLE_REGISTRATIONS: Final = _ROOT / "sample_binaries" / "registrations" / "loads_aarch64.json.gz"
"""Of the samples for aarch64, which were loaded under emulation."""

Kernel = tuple[str, str, str | None, int | None, str | None]
"""Operator, dispatch key, file, line, inferred schema."""

_ON_LOAD: Final = frozenset({Phase.STATIC_INIT, Phase.MODULE_INIT})
# A line of a dump of the dispatcher: key, [alias], where registered, :: inferred schema [ flags ].
_LINE: Final = re.compile(
    r"(?P<key>\w+)(\[alias\])?( \(inactive\))?: (fallthrough )?registered "
    r"(at (?P<file>.*?):(?P<line>\d+)|by RegisterOperators)( :: (?P<schema>.*?))? \[ .* \]"
)

_METHOD: Final = re.compile(r"(?P<name>\w+)\((__torch__\.torch\.classes\.(?P<class>[\w.]+) )?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one load registered.

    ``libraries`` are the base names of the libraries that it mapped, ``methods`` those of custom classes, as
    ``ns.Name.method``, a static one without its class; None where that was not recorded.
    """

    package: str
    version: str
    path: str
    torch: str
    libraries: frozenset[str]
    kernels: Counter[Kernel]
    schemas: frozenset[tuple[str, str]]
    methods: Counter[str] | None
    machine: Machine = Machine.X86_64

    @property
    def corpus(self) -> str:
        """``package-version``, with the machine if it is not the usual one."""
        name = f"{self.package}-{self.version}"
        return name if self.machine is Machine.X86_64 else f"{name}-{self.machine.value}"


def recorded(record: Path = RECORD) -> list[Load]:
    """The loads of the record, in its order."""
    return [
        Load(
            package=row["package"],
            version=row["version"],
            path=row["path"],
            torch=row["torch"],
            machine=Machine(row.get("machine", Machine.X86_64)),
            libraries=frozenset(row["libraries"]),
            kernels=Counter(tuple(kernel) for kernel in row["kernels"]),
            schemas=frozenset(tuple(schema) for schema in row["schemas"]),
            methods=None if row["methods"] is None else Counter(row["methods"]),
        )
        for row in json.loads(gzip.decompress(record.read_bytes()))
    ]


def differences(load: Load, inventories: Iterable[Inventory]) -> list[str]:
    """What was recovered otherwise than recorded; nothing if they agree.

    :param inventories: those of the extensions in the wheel of the load
    """
    return differences_of(load, [inventory.registrations for inventory in _mapped(load, list(inventories))])


def differences_of(load: Load, found: Sequence[Registrations]) -> list[str]:
    """What was recovered otherwise than recorded, from the objects that the load mapped."""
    release = TorchVersion(load.torch)
    kernels, methods = Counter[Kernel](), Counter[str]()
    defined = set[tuple[str, str | None]]()
    for registrations in found:
        kernels += recovered_kernels(registrations, keys_of(release))
        methods += recovered_methods(registrations)
        defined |= recovered_schemas(registrations, release)
    return [
        *_difference("kernels", load.kernels, kernels),
        *_difference("schemas", Counter(load.schemas), Counter(defined)),
        *(_difference("methods", *_of_known_classes(load.methods, methods)) if load.methods is not None else ()),
    ]


def _mapped(load: Load, inventories: Sequence[Inventory]) -> list[Inventory]:
    """The loaded file and those that it brought along: of several with one name, the one next to it."""
    folder = PurePosixPath(load.path).parent
    found = [inventory for inventory in inventories if inventory.path == load.path]
    for name in load.libraries - {PurePosixPath(load.path).name}:
        named = [inventory for inventory in inventories if PurePosixPath(inventory.path).name == name]
        in_folder = [inventory for inventory in named if PurePosixPath(inventory.path).parent == folder]
        found += (in_folder or named)[:1]
    return found


def _of_known_classes(recorded: Counter[str], recovered: Counter[str]) -> tuple[Counter[str], Counter[str]]:
    """Both, where the record does not tell the class of a method, without that in what was recovered."""
    unmatched = recovered - recorded
    for method in [name for name in recorded.elements() if "." not in name]:
        name = next((name for name in unmatched.elements() if name.endswith(f".{method}")), None)
        if name is not None:
            unmatched -= Counter([name])
            recovered = recovered - Counter([name]) + Counter([method])
    return recorded, recovered


def _difference(what: str, expected: Counter[Any], found: Counter[Any]) -> Iterable[str]:
    for how, rest in (("missed", expected - found), ("invented", found - expected)):
        if rest:
            yield f"{rest.total()} {what} {how}: {sorted(rest.elements(), key=str)[:3]}"


def recovered_kernels(
    found: Registrations, keys: DispatchKeys, phases: Collection[Phase] = _ON_LOAD
) -> Counter[Kernel]:
    """The kernels that an object registers, as a release with these keys shows them."""
    return Counter(
        (
            kernel.operator,
            key_name(kernel.dispatch_key, keys) or "CompositeImplicitAutograd",  # what torch makes of no key
            kernel.file,
            kernel.line,
            kernel.inferred_schema,
        )
        for kernel in found.kernels
        if kernel.phase in phases
    )


def recovered_schemas(
    found: Registrations, release: TorchVersion, phases: Collection[Phase] = _ON_LOAD
) -> set[tuple[str, str | None]]:
    """The operators that an object defines, with their schemas as the release prints them."""
    return {
        (operator.name, full_schema(operator, release))
        for operator in found.operators
        if operator.phase in phases and not operator.jit_only
    }


def recovered_methods(found: Registrations, phases: Collection[Phase] = _ON_LOAD) -> Counter[str]:
    """The methods of the classes that an object registers, as ``ns.Name.method``."""
    return Counter(
        f"{custom_class.name}.{method}"
        for custom_class in found.classes
        if custom_class.phase in phases
        for method in custom_class.methods
    )


def dumped_kernels(load: dict[str, Any]) -> Counter[Kernel]:
    """The kernels that a load added, to new operators and to those that were there before.

    :param load: what ``tools/record_loads.py`` writes about it
    """
    found: Counter[Kernel] = Counter()
    for operator, dump in load["new_op_dumps"].items():
        found.update(kernel for line in dump.splitlines() if (kernel := _parse(operator, line)))
    for operator, change in load["changed_ops"].items():
        # A line that only became inactive, or active again, is in both lists.
        removed = Counter(_parse(operator, line) for line in change["removed"])
        added = Counter(kernel for line in change["added"] if (kernel := _parse(operator, line)))
        for kernel, count in added.items():
            if count > removed[kernel]:
                found[kernel] += count - removed[kernel]
    return found


def dumped_schemas(load: dict[str, Any]) -> set[tuple[str, str]]:
    """The operators that a load defined, with their schemas as torch prints them."""
    return {
        (operator, line.removeprefix("schema: "))
        for operator, dump in load["new_op_dumps"].items()
        for line in dump.splitlines()
        if line.startswith("schema: ") and line != "schema: (none)"
    }


def dumped_methods(load: dict[str, Any]) -> Counter[str] | None:
    """The methods of the custom classes that a load registered, None where that was not recorded.

    A method is ``ns.Name.method``, its first argument being an object of its class; a static one has no such argument.
    """
    if "new_class_schemas" not in load:
        return None
    methods = (_METHOD.match(schema) for schema in load["new_class_schemas"])
    return Counter(".".join(filter(None, method.group("class", "name"))) for method in methods if method)


def _parse(operator: str, line: str) -> Kernel | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    schema = None if match["schema"] in (None, "(none)") else match["schema"]
    return operator, match["key"], match["file"], int(match["line"]) if match["line"] else None, schema
