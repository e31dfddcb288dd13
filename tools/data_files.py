"""The data files of the package, taken apart into releases and builds, and put together again.

Each file has every item once, with the set of the releases or builds that have it, so it holds all there is to know
about each of them: to replace one, or to add one, the others need not be downloaded again. The same content gives the
same bytes, whether it was read from a wheel or taken from a file.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from packaging.version import Version

import abiscan
from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Operators, RegistryEntry
from abiscan.torches import layouts
from abiscan.torches.embedded import uses_cxx11_strings
from abiscan.torches.layout_changes import layout_change, slots_between
from abiscan.torches.layouts import ReleaseLayouts
from abiscan.torches.names import NameTable, pack
from abiscan.torches.operator_table import OperatorTable
from tools import operator_packer

PACKAGE: Final = Path(abiscan.__file__).parent
UNSURE: Final = "?"
"""What a hash of a declaration begins with if releases that share it lay out the class differently: never looked up."""

_T = TypeVar("_T")
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What is kept of one build: its description, the identities of its libraries, their exports, its operators.

    ``architectures`` are the GPUs that it has code for: ``sm_90``.
    """

    description: Mapping[str, Any]
    identities: Mapping[str, str]
    exports: Mapping[str, Sequence[str]]
    operators: Operators
    architectures: Sequence[str] = ()

    @property
    def name(self) -> tuple[str, str]:
        """Its full version and its machine."""
        return self.description["build"], self.description["machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """What is kept of the headers of one release: lines of assertions, hashes by class, tags, names of operators."""

    assertions: Iterable[str]
    digests: Mapping[str, str]
    tags: Sequence[str]
    operators: Iterable[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLayouts:
    """The layouts and virtual tables of the classes of one release for one machine, as ``layouts.pack`` takes them."""

    records: Mapping[str, Any]
    vtables: Mapping[str, Any]


def order(build: tuple[str, str]) -> tuple[Version, str]:
    """Builds are in the order of their versions, then of the names of their machines."""
    return Version(build[0]), build[1]


def moved(
    columns: Mapping[_T, int], old: Sequence[_Key], new: Sequence[_Key], content: Mapping[_Key, Iterable[_T]]
) -> dict[_T, int]:
    """The items of a table, each with the set of its columns, after some columns were replaced, added or removed.

    :param old: the columns, by their numbers
    :param new: the columns afterwards
    :param content: the items of the columns that are new or replaced
    """
    numbers = {key: number for number, key in enumerate(new)}
    kept = [(number, key) for number, key in enumerate(old) if key in numbers and key not in content]
    pairs = [(1 << number, 1 << numbers[key]) for number, key in kept]
    moved_sets = {bits: sum(now for was, now in pairs if bits & was) for bits in set(columns.values())}
    result = {item: moved_sets[bits] for item, bits in columns.items() if moved_sets[bits]}
    for key, items in content.items():
        for item in items:
            result[item] = result.get(item, 0) | 1 << numbers[key]
    return result


def exports(data: bytes, builds: Sequence[Build], without: Iterable[tuple[str, str]] = ()) -> bytes:
    """``exports.bin`` with some builds replaced or added.

    :param without: builds to leave out
    """
    table = NameTable(data)
    columns = {name: bits for bits, names in table.by_columns().items() for name in names}
    old = {_name(record): record for record in table.meta["releases"]}
    new = {**{name: record for name, record in old.items() if name not in set(without)}}
    new |= {build.name: dict(build.description) for build in builds}
    releases = [new[name] for name in sorted(new, key=order)]
    content = {(*build.name, library): names for build in builds for library, names in build.exports.items()}
    result = moved(columns, list(_libraries(old.values())), list(_libraries(releases)), content)
    numbers = {key: number for number, key in enumerate(_libraries(releases))}
    numbered = [
        {
            **record,
            "libraries": {
                library: {**facts, "column": numbers[(*_name(record), library)]}
                for library, facts in sorted(record["libraries"].items())
            },
        }
        for record in releases
    ]
    return pack(result, {"releases": numbered})


def _libraries(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    return ((*_name(record), library) for record in records for library in sorted(record["libraries"]))


def _name(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["build"], record["machine"]


def operators(data: bytes, builds: Sequence[Build], without: Iterable[tuple[str, str]] = ()) -> bytes:
    """``operators.bin`` with some builds replaced or added."""
    table, left_out = OperatorTable(data), set(without)
    every = {
        _name(build): (build, table.operators(number))
        for number, build in enumerate(table.builds)
        if _name(build) not in left_out
    }
    for build in builds:
        full, machine = build.name
        every[build.name] = {"build": full, "machine": machine, "libraries": dict(build.identities)}, build.operators
    return operator_packer.pack([every[name] for name in sorted(every, key=order)])


def registries(data: bytes, builds: Sequence[Build], without: Iterable[tuple[str, str]] = ()) -> bytes:
    """``registries.json.gz`` with some builds replaced or added."""
    known = json.loads(gzip.decompress(data))
    old = [(name.split()[0], name.split()[1]) for name in known["builds"]]
    new = sorted(({*old} - {*without}) | {build.name for build in builds}, key=order)
    columns = {RegistryEntry(*entry): int(bits, 16) for *entry, bits in known["entries"]}
    result = moved(columns, old, new, {build.name: build.operators.entries or () for build in builds})
    rows = ",\n  ".join(sorted(json.dumps([*entry, f"{bits:x}"]) for entry, bits in result.items()))
    names = json.dumps([" ".join(name) for name in new])
    return gzip.compress(f'{{"builds": {names},\n "entries": [\n  {rows}\n]}}\n'.encode(), 9, mtime=0)


def places(data: bytes, builds: Sequence[Build], without: Iterable[tuple[str, str]] = ()) -> bytes:
    """``assertions.json``, the places of torch's own assertions, with some builds replaced or added."""
    left_out = {" ".join(name) for name in without}
    known = {name: of_build for name, of_build in json.loads(data).items() if name not in left_out}
    known |= {" ".join(build.name): dict(build.operators.assertions) for build in builds if build.operators.assertions}
    rows = (f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known, key=_named_order))
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode()


def _named_order(name: str) -> tuple[Version, str]:
    version, machine = name.split()
    return order((version, machine))


def architectures(text: str, builds: Sequence[Build], without: Iterable[tuple[str, str]] = ()) -> str:
    """``architectures.txt``, the GPUs that builds have code for, with some builds replaced or added."""
    left_out = set(without)
    lines = {(words[0], words[1]): words[2:] for words in map(str.split, text.splitlines())}
    lines = {name: targets for name, targets in lines.items() if name not in left_out}
    lines |= {build.name: list(build.architectures) for build in builds if build.architectures}
    return "".join(f"{' '.join((*name, *lines[name]))}\n" for name in sorted(lines, key=order))


def headers(data: bytes, found: Mapping[str, Headers], without: Iterable[str] = ()) -> bytes:
    """``headers.bin`` with some releases replaced or added."""
    return _by_release(data, {release: headers.assertions for release, headers in found.items()}, without)


def declarations(data: bytes, found: Mapping[str, Headers], without: Iterable[str] = ()) -> bytes:
    """``declarations.bin`` with some releases replaced or added; the layouts of all of them are known.

    A class that shares its hash with a release that lays it out differently depends on what the hash does not see.
    """
    texts = {
        release: [f"{name} {digest}" for name, digest in headers.digests.items() if _is_laid_out(name, release)]
        for release, headers in found.items()
    }
    table = NameTable(data)
    columns = {name.lstrip(UNSURE): bits for bits, names in table.by_columns().items() for name in names}
    releases = _releases(table, texts, without)
    merged = moved(columns, table.meta["releases"], releases, texts)
    wrong = {
        text
        for text, bits in merged.items()
        if _differs(text.split()[0], [release for number, release in enumerate(releases) if bits >> number & 1])
    }
    marked = {f"{UNSURE}{text}" if text in wrong else text: bits for text, bits in merged.items()}
    return pack(marked, {"releases": releases})


def _by_release(data: bytes, content: Mapping[str, Iterable[str]], without: Iterable[str]) -> bytes:
    table = NameTable(data)
    columns = {name: bits for bits, names in table.by_columns().items() for name in names}
    releases = _releases(table, content, without)
    return pack(moved(columns, table.meta["releases"], releases, content), {"releases": releases})


def _releases(table: NameTable, added: Iterable[str], without: Iterable[str]) -> list[str]:
    return sorted(({*table.meta["releases"]} - {*without}) | {*added}, key=Version)


def _is_laid_out(name: str, release: str) -> bool:
    return any(layouts.find_layout(name, release, machine) for machine in Machine)


def _differs(name: str, releases: Sequence[str]) -> bool:
    """Whether a class is laid out differently in some releases with the same ``std::string``."""
    for machine, cxx11 in itertools.product(Machine, (False, True)):
        alike = [release for release in releases if uses_cxx11_strings(release, machine) is cxx11]
        for old, new in itertools.pairwise(alike):
            if layout_change(name, old, new, machine) is not None or slots_between(
                name, ReleaseLayouts(old, machine), ReleaseLayouts(new, machine)
            ):
                return True
    return False


def class_layouts(
    data: bytes, found: Mapping[tuple[str, str], ClassLayouts], without: Iterable[tuple[str, str]] = ()
) -> bytes:
    """``layouts.bin`` with some releases replaced or added, each for one machine."""
    old, variants = layouts.unpack(data)
    new = sorted(({*old} - {*without}) | {*found}, key=order)
    sides: list[dict[str, dict[Any, int]]] = []
    for side, read in enumerate(("records", "vtables")):
        columns = {(name, value): bits for name, both in variants.items() for value, bits in both[side].items()}
        content = {
            build: [(name, frozen(value)) for name, value in getattr(classes, read).items()]
            for build, classes in found.items()
        }
        rows: dict[str, dict[Any, int]] = {}
        for (name, value), bits in moved(columns, old, new, content).items():
            rows.setdefault(name, {})[value] = bits
        sides.append(rows)
    records, vtables = sides
    names = {*records, *vtables}
    return layouts.pack(new, {name: (records.get(name, {}), vtables.get(name, {})) for name in names})


def frozen(value: Any) -> Any:
    """A value of JSON that can be the key of a dictionary."""
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def keys(text: str, builds: Sequence[Build], minors: Collection[str] | None = None) -> str:
    """``keys.txt`` with the keys of some builds: a line for each minor version.

    :param minors: the minor versions to keep; all if None
    :raises SystemExit: two builds of a minor version number their keys differently
    """
    lines = {line.split()[0]: line for line in text.splitlines()}
    lines = {minor: line for minor, line in lines.items() if minors is None or minor in minors}
    for build in builds:
        minor = minor_of(build.name[0])
        known = dict(pair.split(":") for pair in lines.get(minor, minor).split()[1:])
        read = {str(number): name for number, name in build.operators.keys.items()}
        if any(known.get(number, name) != name for number, name in read.items()):
            raise SystemExit(f"torch {' '.join(build.name)} numbers its keys differently from other builds of {minor}")
        pairs = sorted({**known, **read}.items(), key=lambda pair: int(pair[0]))
        lines[minor] = " ".join((minor, *(f"{number}:{name}" for number, name in pairs)))
    return "".join(f"{lines[minor]}\n" for minor in sorted(lines, key=Version))


def tags(text: str, found: Mapping[str, Headers], minors: Iterable[str]) -> str:
    """``tags.txt`` with the tags of some releases: a line for each minor version whose tags are new.

    :param minors: all embedded minor versions
    """
    lines = [(words[0], words[1:]) for words in map(str.split, text.splitlines())]
    by_minor: dict[str, Sequence[str]] = {}
    for minor in sorted(minors, key=Version):
        known = [names for since, names in lines if Version(since) <= Version(minor)]
        if known:
            by_minor[minor] = known[-1]
    by_minor |= {minor_of(release): headers.tags for release, headers in found.items() if headers.tags}
    ordered = [(minor, list(by_minor[minor])) for minor in sorted(by_minor, key=Version)]
    changes = [first for first, before in zip(ordered, [("", []), *ordered], strict=False) if first[1] != before[1]]
    return "".join(f"{' '.join((minor, *names))}\n" for minor, names in changes)


def aten(text: str, found: Mapping[str, Headers], kept: Collection[str] | None = None) -> str:
    """``aten.txt`` with the names of operators in some releases.

    :param kept: the operators of the releases that stay; all if None
    """
    known = {name for name in text.splitlines() if kept is None or name in kept}
    names = known | {name for headers in found.values() for name in headers.operators}
    return "".join(f"{name}\n" for name in sorted(names))


def minor_of(version: str) -> str:
    """``2.13`` for ``2.13.0+cpu``."""
    parsed = Version(version)
    return f"{parsed.major}.{parsed.minor}"
