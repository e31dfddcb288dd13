"""What the package keeps of releases and builds, put into its data files: a column of blocks, or a line of text.

The files hold all there is to know about each release: to replace one, or to add one, the others need not be downloaded
again. The same content gives the same bytes, whether it was read from a wheel or taken from a file.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

import abiscan
from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Operators
from abiscan.torches import layouts
from abiscan.torches.embedded import uses_cxx11_strings
from abiscan.torches.embedded_declarations import UNSURE
from abiscan.torches.layout_changes import layout_change, slots_between
from abiscan.torches.layouts import LAYOUT, VTABLE, ReleaseLayouts
from abiscan.torches.names import NameTable
from tools import operator_packer
from tools.blocks import MARKS, NAMES, Mark, order, read_files

PACKAGE: Final = Path(abiscan.__file__).parent
MARKS_OF_BUILDS: Final[dict[str, Callable[[Path, Operators], Collection[Mark]]]] = {
    "registries": lambda _, operators: {(entry.registry, json.dumps(entry[1:])) for entry in operators.entries or ()},
    "assertions": lambda _, operators: operators.assertions.items(),
}
"""The kinds of data that are kept of each build as marks: how they are made of its package folder and its operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What is kept of one build: its description, the identities of its libraries, their exports, its operators.

    ``marks`` are those of each kind in ``MARKS_OF_BUILDS``, ``architectures`` the GPUs that it has code for: ``sm_90``.
    """

    description: Mapping[str, Any]
    identities: Mapping[str, str]
    exports: Mapping[str, Sequence[str]]
    operators: Operators
    marks: Mapping[str, Collection[Mark]]
    architectures: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Its full version and its machine, as columns are named."""
        return f"{self.description['build']} {self.description['machine']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """What is kept of the headers of one release: lines of assertions, hashes by class, tags, names of operators."""

    assertions: Iterable[str]
    digests: Mapping[str, str]
    tags: Sequence[str]
    operators: Iterable[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLayouts:
    """The rows and the virtual tables of the classes of one release for one machine: see ``layouts.as_layout``."""

    records: Mapping[str, Any]
    vtables: Mapping[str, Any]


def put_exports(folder: Path, builds: Sequence[Build], without: Collection[str] = ()) -> None:
    """Put what libraries export into ``data/exports``: a column for each library of a build.

    :param without: builds to leave out
    """
    table = NameTable(read_files(folder))
    records = {_name_of(record): record for record in table.meta} | {build.name: build.description for build in builds}
    replaced = {*without, *(build.name for build in builds)}
    NAMES.put(
        folder,
        {f"{build.name} {library}": exported for build in builds for library, exported in build.exports.items()},
        [column for column in table.columns if column.rpartition(" ")[0] in replaced],
        lambda columns: [records[build] for build in dict.fromkeys(column.rpartition(" ")[0] for column in columns)],
    )


def _name_of(record: Mapping[str, Any]) -> str:
    return f"{record['build']} {record['machine']}"


def put_operators(folder: Path, builds: Sequence[Build], without: Collection[str] = ()) -> None:
    """Put the operators of builds into ``data/operators``."""
    described = {
        build.name: {**dict(zip(("build", "machine"), build.name.split(), strict=True)), "libraries": build.identities}
        for build in builds
    }
    operator_packer.put(folder, {build.name: (described[build.name], build.operators) for build in builds}, without)


def put_marks(data: Path, builds: Sequence[Build], without: Collection[str] = ()) -> None:
    """Put what is kept of builds as marks into the folder of each kind."""
    for kind in MARKS_OF_BUILDS:
        MARKS.put(data / kind, {build.name: build.marks[kind] for build in builds if build.marks[kind]}, without)


def architectures(text: str, builds: Sequence[Build], without: Collection[str] = ()) -> str:
    """``architectures.txt``, the GPUs that builds have code for, with some builds replaced or added."""
    lines = {" ".join(words[:2]): words[2:] for words in map(str.split, text.splitlines())}
    lines = {name: targets for name, targets in lines.items() if name not in without}
    lines |= {build.name: list(build.architectures) for build in builds if build.architectures}
    return "".join(f"{' '.join((name, *lines[name]))}\n" for name in sorted(lines, key=order))


def put_headers(folder: Path, read: Mapping[str, Headers], without: Collection[str] = ()) -> None:
    """Put the lines of assertions into ``data/headers``."""
    NAMES.put(folder, {release: headers.assertions for release, headers in read.items()}, without)


def put_declarations(folder: Path, read: Mapping[str, Headers], without: Collection[str] = ()) -> None:
    """Put the hashes of declarations into ``data/declarations``; the layouts of all releases are known.

    A class that shares its hash with a release that lays it out differently depends on what the hash does not see.
    """
    texts = {
        release: [f"{name} {digest}" for name, digest in headers.digests.items() if _is_laid_out(name, release)]
        for release, headers in read.items()
    }
    known = NameTable(read_files(folder))
    columns = {column: number for column, number in known.numbers.items() if column not in {*without, *texts}}
    declaring: dict[str, set[str]] = {}
    for release, own in texts.items():
        for text in own:
            declaring.setdefault(text, set()).add(release)
    for text, releases in declaring.items():
        bits = known.columns_with(text) | known.columns_with(f"{UNSURE}{text}")
        releases.update(column for column, number in columns.items() if bits >> number & 1)
    wrong = {
        text
        for text, releases in declaring.items()
        if known.columns_with(f"{UNSURE}{text}") or _differs(text.split()[0], sorted(releases, key=Version))
    }
    content = {
        release: [f"{UNSURE}{text}" if text in wrong else text for text in own] for release, own in texts.items()
    }
    NAMES.put(folder, content, without)


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


def put_layouts(folder: Path, read: Mapping[str, ClassLayouts], without: Collection[str] = ()) -> None:
    """Put the layouts of classes into ``data/layouts``: a column for each release on a machine."""
    content = {
        column: [
            *((name, f"{LAYOUT}{_compact(row)}") for name, row in classes.records.items()),
            *((name, f"{VTABLE}{_compact(slots)}") for name, slots in classes.vtables.items()),
        ]
        for column, classes in read.items()
    }
    MARKS.put(folder, content, without)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def keys(text: str, builds: Sequence[Build], minors: Collection[str] | None = None) -> str:
    """``keys.txt`` with the keys of some builds: a line for each minor version.

    :param minors: the minor versions to keep; all if None
    :raises SystemExit: two builds of a minor version number their keys differently
    """
    lines = {line.split()[0]: line for line in text.splitlines()}
    lines = {minor: line for minor, line in lines.items() if minors is None or minor in minors}
    for build in builds:
        minor = minor_of(build.description["build"])
        known = dict(pair.split(":") for pair in lines.get(minor, minor).split()[1:])
        read = {str(number): name for number, name in build.operators.keys.items()}
        if any(known.get(number, name) != name for number, name in read.items()):
            raise SystemExit(f"torch {build.name} numbers its keys differently from other builds of {minor}")
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
