"""Which torch an extension was built for, inferred from traces of the build.

There are several kinds of clues, each consistent with some releases: the symbols that it imports (it cannot have been
linked with a release that lacks them), the line numbers of assertions that it inlined from torch's headers, the
metadata of the wheel, and the numbers of the dispatch keys that it registers for. The clues are applied in turn; one
that would leave no release is ignored. The extensions of one package were built together, so each narrows down the
others.

The symbols that an extension *defines* are not a clue: torch's libraries export an inline function of the headers in
some releases and not in others, although the headers define it in all of them.
"""

from __future__ import annotations

import enum
import functools
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_torch_symbol
from abiscan.dispatch.keys import keys_of
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded
from abiscan.torches.headers import releases_asserting
from abiscan.words import plural

if TYPE_CHECKING:
    from abiscan.inputs.requirement import Metadata
    from abiscan.inputs.sources import Extension, Target

# A package may define a few of torch's names itself, or be built with a modified header.
_TOLERANCE: Final = 50


class Kind(enum.Enum):
    """What a clue is taken from."""

    HEADERS = "headers"
    IMPORTS = "imports"
    DISPATCH_KEYS = "dispatch-keys"
    SIBLINGS = "siblings"
    WHEEL_VERSION = "wheel-version"
    REQUIREMENT = "requirement"


class Clue(Struct, frozen=True, kw_only=True):
    """One clue.

    :ivar kind: what it is taken from
    :ivar seen: what was seen, in words
    :ivar releases: the releases that are consistent with it, oldest first
    """

    kind: Kind
    seen: str
    releases: tuple[TorchVersion, ...]


class BuiltFor(Struct, frozen=True, kw_only=True):
    """The releases that an extension may have been built for, and why.

    :ivar releases: oldest first; empty if unknown
    :ivar clues: those that narrowed them down
    """

    releases: tuple[TorchVersion, ...]
    clues: tuple[Clue, ...]


def infer_built_for(target: Target) -> dict[str, BuiltFor]:
    """Infer the torch that each extension of a target was built for, by path, as far as it shows without emulation."""
    nothing = BuiltFor(releases=(), clues=())
    # In two steps: first each extension by itself, then with what the others of the package have shown. So no extension
    # is narrowed by a guess that came from itself.
    alone = {
        extension.path: _follow_clues(nothing, extension.facts.machine, _own_clues(extension))
        for extension in target.extensions
    }
    return {
        extension.path: _follow_clues(
            alone[extension.path],
            extension.facts.machine,
            (*_sibling_clues(target, extension, alone), *_metadata_clues(target.metadata, extension.facts.machine)),
        )
        for extension in target.extensions
    }


def with_keys(origin: BuiltFor, used_keys: Sequence[int], machine: Machine) -> BuiltFor:
    """Narrow what an extension was built for by the numbers of the dispatch keys that it registers for.

    A release in which one of these numbers is not a dispatch key is ruled out.
    """
    if not used_keys:
        return origin
    # A number that is no key in a release would have been a compile error there.
    fitting = tuple(
        version for version in embedded.versions(machine) if all(map(keys_of(version).can_register, used_keys))
    )
    noun = "key" if len(used_keys) == 1 else "keys"
    seen = f"registers for dispatch {noun} {', '.join(map(str, used_keys))}"
    return _follow_clues(origin, machine, [Clue(kind=Kind.DISPATCH_KEYS, seen=seen, releases=fitting)])


def _follow_clues(origin: BuiltFor, machine: Machine, clues: Iterable[Clue]) -> BuiltFor:
    """Narrow the releases by each clue that adds information and does not contradict a stronger one."""
    releases, followed = origin.releases, list(origin.clues)
    all_releases = embedded.versions(machine)
    # Invariant: ``releases`` is consistent with every clue in ``followed``; empty means that there was none yet. The
    # clues come strongest first.
    for clue in clues:
        open_before = releases or all_releases
        narrowed = tuple(version for version in open_before if version in clue.releases)
        if (
            narrowed
            and len(narrowed) < len(all_releases)
            and (len(narrowed) < len(open_before) or clue.kind in _ALWAYS_SHOWN)
        ):
            releases = narrowed
            followed.append(clue)
    return BuiltFor(releases=releases, clues=tuple(followed))


_ALWAYS_SHOWN: Final = frozenset({Kind.HEADERS, Kind.IMPORTS, Kind.DISPATCH_KEYS})
"""Clues from the extension's own bytes are shown even if they only confirm others: two are more convincing than one."""


def _own_clues(extension: Extension) -> Iterator[Clue]:
    """Yield the clues in the extension's own bytes."""
    machine = extension.facts.machine
    lines = dict(filter(None, map(releases_asserting, sorted(extension.assertions))))
    if agreeing := _best_releases(lines, machine):
        assertions = plural(len(lines), "assertion")
        yield Clue(
            kind=Kind.HEADERS,
            seen=f"inlines {assertions} from torch's headers, such as {_rarest_trace(lines, agreeing)}",
            releases=agreeing,
        )
    imports = _releases_by_import([extension])
    if agreeing := _best_releases(imports, machine):
        yield Clue(kind=Kind.IMPORTS, seen=_describe_bounds(imports, agreeing, machine), releases=agreeing)


def releases_exporting_imports(extensions: Sequence[Extension]) -> tuple[TorchVersion, ...]:
    """Return the releases that export all torch symbols that some extensions for one machine import, oldest first."""
    return _best_releases(_releases_by_import(extensions), extensions[0].facts.machine)


def _releases_by_import(extensions: Sequence[Extension]) -> dict[str, frozenset[TorchVersion]]:
    """Map the torch symbols that extensions import to the releases that export them."""
    names = {name for extension in extensions for name in extension.facts.imports if is_torch_symbol(name)}
    return {name: embedded.releases_exporting(name, extensions[0].facts.machine) for name in sorted(names)}


def _best_releases(traces: Mapping[str, frozenset[TorchVersion]], machine: Machine) -> tuple[TorchVersion, ...]:
    """Return the releases that have the most traces, oldest first; empty if every release lacks too many.

    Traces that no release has do not count.
    """
    # What no release has is the package's own, or from a torch that is not embedded.
    counted = [releases for releases in traces.values() if releases]
    alike = Counter(counted).items()  # many traces share the same few sets of releases
    lacking = {
        version: sum(number for releases, number in alike if version not in releases)
        for version in embedded.versions(machine)
    }
    # A few traces may be missing everywhere: a package may define names of torch itself.
    fewest = min(lacking.values(), default=0)
    if not counted or fewest > len(counted) // _TOLERANCE:
        return ()
    return tuple(version for version, number in lacking.items() if number == fewest)


def _rarest_trace(traces: Mapping[str, frozenset[TorchVersion]], among: Sequence[TorchVersion]) -> str:
    """Return the trace that the fewest releases have, of those that one of ``among`` has."""
    fitting = [name for name, releases in traces.items() if not releases.isdisjoint(among)]
    return min(fitting, key=lambda name: (len(traces[name]), name))


def _describe_bounds(
    imports: Mapping[str, frozenset[TorchVersion]], agreeing: Sequence[TorchVersion], machine: Machine
) -> str:
    """Name the newest import, and the one that was removed first: they bound the releases in ``agreeing``."""
    all_releases = embedded.versions(machine)
    exported = {name: releases for name, releases in imports.items() if not releases.isdisjoint(agreeing)}
    # The two names that a reader can check: one that older releases lack, and one that newer releases have lost.
    oldest, newest = agreeing[0], agreeing[-1]
    # Names that a package defines itself may be missing in these releases.
    first_of, last_of = functools.cache(min), functools.cache(max)  # many names share the same few sets of releases
    newest_name = max(exported, key=lambda name: (first_of(exported[name]) <= oldest, first_of(exported[name]), name))
    gone_name = min(exported, key=lambda name: (last_of(exported[name]) < newest, last_of(exported[name]), name))
    parts = []
    if (first := first_of(exported[newest_name])) > all_releases[0]:
        parts.append(f"{newest_name} (in torch since {first})")
    if (last := last_of(exported[gone_name])) < all_releases[-1]:
        parts.append(f"{gone_name} (in torch up to {last})")
    return f"imports {' and '.join(parts)}" if parts else f"imports {plural(len(exported), 'symbol')} of torch"


def _sibling_clues(target: Target, extension: Extension, origins: Mapping[str, BuiltFor]) -> Iterator[Clue]:
    """Yield clues from the other extensions of the same package."""
    for sibling in target.extensions:
        releases = origins[sibling.path].releases
        same = sibling.facts.machine is extension.facts.machine and _package_name(target, sibling) == _package_name(
            target, extension
        )
        if releases and same and sibling is not extension:
            name = posixpath.basename(sibling.path)
            yield Clue(kind=Kind.SIBLINGS, seen=f"comes with {name}, built for {span(releases)}", releases=releases)


def _package_name(target: Target, extension: Extension) -> str:
    """Return the unit that was built together: a whole wheel; in a folder, each subfolder."""
    return "" if target.metadata else extension.path.partition("/")[0]


def _metadata_clues(metadata: Metadata | None, machine: Machine) -> Iterator[Clue]:
    if metadata is None:
        return
    all_releases = embedded.versions(machine)
    if torch_number := metadata.torch_in_version:
        fitting = tuple(version for version in all_releases if f"{version}.".startswith(f"{torch_number}."))
        yield Clue(kind=Kind.WHEEL_VERSION, seen=f"the wheel's version names torch {torch_number}", releases=fitting)
    if required := metadata.requires_torch:
        admitted = tuple(filter(required.admits, all_releases))
        yield Clue(kind=Kind.REQUIREMENT, seen=f"its metadata requires {required}", releases=admitted)


def span(releases: Sequence[TorchVersion]) -> str:
    """Releases as text: ``torch 2.5.0-2.5.1``."""
    if not releases:
        return "no known torch"
    return f"torch {releases[0]}" if len(releases) == 1 else f"torch {releases[0]}-{releases[-1]}"
