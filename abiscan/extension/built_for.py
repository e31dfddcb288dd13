"""Which torch an extension was built for, inferred from traces of the build.

There are several kinds of clues, each of which leaves some releases: the symbols that it imports (a release without
them cannot have linked it), the line numbers of assertions that it inlined from torch's headers, the metadata of the
wheel, and the numbers of the dispatch keys that it registers for. They are followed one after the other; a clue that
would leave nothing is ignored. The extensions of one package were built together, so each narrows down the others.

What an extension *defines* is not a clue: torch's libraries export an inline function of the headers in some releases
and not in others, while the headers have it in all of them.
"""

from __future__ import annotations

import enum
import functools
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_torch_symbol
from abiscan.dispatch.keys import keys_of
from abiscan.inputs.sources import Extension, Target
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded
from abiscan.torches.headers import releases_asserting
from abiscan.words import plural

if TYPE_CHECKING:
    from abiscan.inputs.requirement import Metadata

# A package may bring a few names of torch's itself, or be built with a header of its own making.
_TOLERANCE: Final = 50


class Kind(enum.Enum):
    """What a clue is taken from."""

    HEADERS = "headers"
    IMPORTS = "imports"
    DISPATCH_KEYS = "dispatch-keys"
    SIBLINGS = "siblings"
    WHEEL_VERSION = "wheel-version"
    REQUIREMENT = "requirement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """One thing that tells releases apart: what was ``seen``, and which releases it leaves, oldest first."""

    kind: Kind
    seen: str
    releases: tuple[TorchVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFor:
    """The releases that an extension can have been built for, oldest first, and why; none if it is unknown."""

    releases: tuple[TorchVersion, ...]
    clues: tuple[Clue, ...]


def built_for(target: Target) -> dict[str, BuiltFor]:
    """For which torch each extension of a target was built, by its path, as far as can be told without running it."""
    nothing = BuiltFor(releases=(), clues=())
    alone = {each.path: _follow(nothing, each.facts.machine, _own_clues(each)) for each in target.extensions}
    return {
        each.path: _follow(
            alone[each.path],
            each.facts.machine,
            (*_sibling_clues(target, each, alone), *_metadata_clues(target.metadata, each.facts.machine)),
        )
        for each in target.extensions
    }


def with_keys(known: BuiltFor, used_keys: Sequence[int], machine: Machine) -> BuiltFor:
    """What is known of an extension, narrowed by the numbers of the dispatch keys that it registers for.

    A release in which it would register a kernel for what is no key there is none that it was built for.
    """
    if not used_keys:
        return known
    fitting = tuple(each for each in embedded.versions(machine) if all(map(keys_of(each).can_register, used_keys)))
    noun = "key" if len(used_keys) == 1 else "keys"
    seen = f"registers for dispatch {noun} {', '.join(map(str, used_keys))}"
    return _follow(known, machine, [Clue(kind=Kind.DISPATCH_KEYS, seen=seen, releases=fitting)])


def _follow(known: BuiltFor, machine: Machine, clues: Iterable[Clue]) -> BuiltFor:
    """What is known, narrowed by each clue that tells something new and contradicts nothing surer."""
    releases, followed = known.releases, list(known.clues)
    every = embedded.versions(machine)
    for clue in clues:
        open_before = releases or every
        left = tuple(version for version in open_before if version in clue.releases)
        if left and len(left) < len(every) and (len(left) < len(open_before) or clue.kind in _ALWAYS_SHOWN):
            releases = left
            followed.append(clue)
    return BuiltFor(releases=releases, clues=tuple(followed))


_ALWAYS_SHOWN: Final = frozenset({Kind.HEADERS, Kind.IMPORTS, Kind.DISPATCH_KEYS})
"""The extension's own bytes are shown where they agree, too: one clue is a hint, two are a proof."""


def _own_clues(extension: Extension) -> Iterator[Clue]:
    machine = extension.facts.machine
    lines = dict(filter(None, map(releases_asserting, sorted(extension.assertions))))
    if found := _agreeing(lines, machine):
        where = plural(len(lines), "assertion")
        yield Clue(
            kind=Kind.HEADERS,
            seen=f"inlines {where} from torch's headers, such as {_rarest(lines, found)}",
            releases=found,
        )
    imports = _imports([extension])
    if found := _agreeing(imports, machine):
        yield Clue(kind=Kind.IMPORTS, seen=_bounds(imports, found, machine), releases=found)


def releases_exporting_imports(extensions: Sequence[Extension]) -> tuple[TorchVersion, ...]:
    """The releases that export what some extensions, all for one machine, import of torch, oldest first."""
    return _agreeing(_imports(extensions), extensions[0].facts.machine)


def _imports(extensions: Sequence[Extension]) -> dict[str, frozenset[TorchVersion]]:
    """The names that extensions import of torch, and the releases that export them."""
    names = {name for each in extensions for name in each.facts.imports if is_torch_symbol(name)}
    return {name: embedded.releases_exporting(name, extensions[0].facts.machine) for name in sorted(names)}


def _agreeing(seen: Mapping[str, frozenset[TorchVersion]], machine: Machine) -> tuple[TorchVersion, ...]:
    """The releases that have the most of what was seen, oldest first; none if all lack too much of it.

    What no release has does not count.
    """
    counted = [releases for releases in seen.values() if releases]
    lacking = {version: sum(version not in releases for releases in counted) for version in embedded.versions(machine)}
    fewest = min(lacking.values(), default=0)
    if not counted or fewest > len(counted) // _TOLERANCE:
        return ()
    return tuple(version for version, number in lacking.items() if number == fewest)


def _rarest(seen: Mapping[str, frozenset[TorchVersion]], among: Sequence[TorchVersion]) -> str:
    """What the fewest releases have, of what one of ``among`` has."""
    fitting = [name for name, releases in seen.items() if not releases.isdisjoint(among)]
    return min(fitting, key=lambda name: (len(seen[name]), name))


def _bounds(imports: Mapping[str, frozenset[TorchVersion]], found: Sequence[TorchVersion], machine: Machine) -> str:
    """Which imported name is the newest, and which the first to go: what bounds the releases in ``found``."""
    every = embedded.versions(machine)
    known = {name: releases for name, releases in imports.items() if not releases.isdisjoint(found)}
    oldest, newest = found[0], found[-1]
    # Names that a package brings itself may be missing in what was found.
    first_of, last_of = functools.cache(min), functools.cache(max)  # many names share the same few sets of releases
    newest_name = max(known, key=lambda name: (first_of(known[name]) <= oldest, first_of(known[name]), name))
    gone_name = min(known, key=lambda name: (last_of(known[name]) < newest, last_of(known[name]), name))
    parts = []
    if (first := first_of(known[newest_name])) > every[0]:
        parts.append(f"{newest_name} (in torch since {first})")
    if (last := last_of(known[gone_name])) < every[-1]:
        parts.append(f"{gone_name} (in torch up to {last})")
    return f"imports {' and '.join(parts)}" if parts else f"imports {plural(len(known), 'symbol')} of torch"


def _sibling_clues(target: Target, extension: Extension, known: Mapping[str, BuiltFor]) -> Iterator[Clue]:
    """What the other extensions of the same package say."""
    for sibling in target.extensions:
        releases = known[sibling.path].releases
        same = sibling.facts.machine is extension.facts.machine and _package(target, sibling) == _package(
            target, extension
        )
        if releases and same and sibling is not extension:
            name = posixpath.basename(sibling.path)
            yield Clue(kind=Kind.SIBLINGS, seen=f"comes with {name}, built for {span(releases)}", releases=releases)


def _package(target: Target, extension: Extension) -> str:
    """What was built together: a wheel as a whole; in a folder, each of its folders."""
    return "" if target.metadata else extension.path.partition("/")[0]


def _metadata_clues(metadata: Metadata | None, machine: Machine) -> Iterator[Clue]:
    if metadata is None:
        return
    every = embedded.versions(machine)
    if named := metadata.torch_in_version:
        fitting = tuple(version for version in every if f"{version}.".startswith(f"{named}."))
        yield Clue(kind=Kind.WHEEL_VERSION, seen=f"the wheel's version names torch {named}", releases=fitting)
    if required := metadata.requires_torch:
        admitted = tuple(filter(required.admits, every))
        yield Clue(kind=Kind.REQUIREMENT, seen=f"its metadata requires {required}", releases=admitted)


def span(releases: Sequence[TorchVersion]) -> str:
    """Releases as text: ``torch 2.5.0-2.5.1``."""
    if not releases:
        return "no known torch"
    return f"torch {releases[0]}" if len(releases) == 1 else f"torch {releases[0]}-{releases[-1]}"
