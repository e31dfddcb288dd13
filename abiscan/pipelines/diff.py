"""The pipeline behind ``abiscan diff``: what changed between two torches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Operators
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.extension.examined import examine
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.linkage.shared_types import find_touches
from abiscan.pipelines.use import Use, use_of
from abiscan.results.diff import Break, Comparison, DispatchChange, KeyChange, SchemaChange, SymbolChange
from abiscan.torches import embedded, embedded_names
from abiscan.torches.api_version import api_versions, combine_versions, dispatch_strategy, has_cuda, kernels_of
from abiscan.torches.layout_changes import LayoutChange, layout_changes
from abiscan.torches.layouts import is_known
from abiscan.torches.name_changes import name_changes
from abiscan.torches.torch import ReleaseNumber, TorchChoice


class Side(Struct, frozen=True, kw_only=True):
    """One of the two torches.

    ``exports`` has the names that each library exports; ``release`` is the number of the release that has its class
    layouts on ``machine``, None if they are unknown. ``version`` is the number of the torch itself.
    """

    name: str
    exports: Mapping[str, AbstractSet[str]]
    operators: Operators
    release: str | None = None
    version: str | None = None
    machine: Machine = Machine.X86_64


def compare_torches(
    old: TorchChoice, new: TorchChoice, machine: Machine, used_by: Source | None, session: Session
) -> Comparison:
    """Return what changed from one torch to another.

    The number of a release that has builds with and without CUDA means the one that is like the other torch.

    :param machine: which build of a release number
    :param used_by: an extension or a package; limits the comparison to what it uses
    :raises InputError: a torch or the extension cannot be read
    """
    before, after = (_make_side(choice, machine, session) for choice in (old, new))
    # One after the other: if both are numbers, the second is compared with what the first has become.
    before = _choose_alike(old, before, after, session)
    after = _choose_alike(new, after, before, session)
    return compare_sides(before, after, use_of(examine(used_by, session, python=True)) if used_by else None)


def _make_side(choice: TorchChoice, machine: Machine, session: Session) -> Side:
    torch = choice.open(session.files(), session).for_linux()
    release = torch.release_for(machine)
    return Side(
        name=str(release),
        exports=torch.exports(release),
        operators=torch.operators(release).look_up(),
        release=torch.layouts(release).release,
        version=release.version,
        machine=release.machine,
    )


def _choose_alike(choice: TorchChoice, side: Side, second: Side, session: Session) -> Side:
    """Return the build with CUDA if the other side has it, else the one without; the side itself if there is no such
    build.

    The other side is not compared with itself: a number and a build of the same release mean two different builds.
    """

    def is_same_kind(candidate: Side) -> bool:
        return has_cuda(candidate.operators) == has_cuda(second.operators)

    if is_same_kind(side) or not isinstance(choice, ReleaseNumber):
        return side
    own = embedded.build(choice.number, side.machine)
    extra_builds = (build for build in embedded.builds_named(choice.number, side.machine) if build != own)
    sides = (_make_side(ReleaseNumber(build), side.machine, session) for build in extra_builds)
    return next(
        (alternative for alternative in sides if is_same_kind(alternative) and alternative.name != second.name), side
    )


def compare_sides(old: Side, new: Side, use: Use | None = None) -> Comparison:
    """Compare two torches.

    :param use: limits symbols and operators to those that an extension uses
    """
    before, after = old.operators, new.operators
    was, now = (api_versions(operators, use.operators if use else None) for operators in (before, after))
    # An operator that only one side has is added or removed, and has no schema to compare.
    both = sorted(was.keys() & now.keys())
    cuda = has_cuda(before) == has_cuda(after)
    return Comparison(
        old=old.name,
        new=new.name,
        old_api=combine_versions(was),
        new_api=combine_versions(now),
        symbols=_changed_symbols(old.exports, new.exports, use),
        keys=_changed_keys(before.keys, after.keys),
        operators_added=tuple(sorted(now.keys() - was.keys())),
        operators_removed=tuple(sorted(was.keys() - now.keys())),
        schemas=_changed_schemas(before, after, [name for name in both if was[name].schema != now[name].schema]),
        dispatch=_changed_dispatch(before, after, both, with_cuda=cuda),
        cuda_compared=cuda,
        gaps=(
            *(f"{old.name}: {gap}" for gap in before.gaps),
            *(f"{new.name}: {gap}" for gap in after.gaps),
            *(f"{side.name}: class layouts are unknown" for side in (old, new) if not _has_layouts(side)),
            *(f"{side.name}: Python names are not compared" for side in (old, new) if not _has_names(side)),
        ),
        names=name_changes(old.version, new.version, use.names if use else None)
        if old.version and new.version
        else None,
        layouts=_changed_layouts(old, new, use),
        breaks=tuple(_breaks_of_package(old, new, use)) if use else (),
    )


def _breaks_of_package(old: Side, new: Side, use: Use) -> Iterator[Break]:
    """Yield what of a package breaks, by what is missing."""
    yield from use.find_breaks(*(embedded_names.names(side.version or "") for side in (old, new)))
    gone = old.operators.operators.keys() - new.operators.operators.keys()
    # A name without its overload stands for any of them.
    left = {name.partition(".")[0] for name in new.operators.operators}
    removed_bases = {name.partition(".")[0] for name in gone} - left
    for name, places in use.operators_in_code():
        if name in (gone if "." in name else removed_bases) or name.partition(".")[0] in removed_bases:
            yield Break(kind="operator", name=name, places=places)
    for name in sorted(gone.intersection(use.operators)):
        yield Break(kind="operator", name=name, places=tuple(use.libraries.get(name, ())))
    had, have = (frozenset[str]().union(*side.exports.values()) for side in (old, new))
    for name in sorted((had - have).intersection(use.symbols)):
        yield Break(kind="symbol", name=name, places=tuple(use.libraries.get(name, ())))


def _has_names(side: Side) -> bool:
    return side.version in embedded_names.table().numbers


def _has_layouts(side: Side) -> bool:
    return side.release is not None and is_known(side.release, side.machine)


def _changed_layouts(old: Side, new: Side, use: Use | None) -> tuple[LayoutChange, ...]:
    if old.release is None or new.release is None:
        return ()
    changes = layout_changes(old.release, new.release, old.machine)
    shared = {touch.type for touch in find_touches(use.symbols, (), ())} if use else changes.keys()
    return tuple(change for name, change in changes.items() if name in shared)


def _changed_symbols(
    old: Mapping[str, AbstractSet[str]], new: Mapping[str, AbstractSet[str]], use: Use | None
) -> tuple[SymbolChange, ...]:
    changes = []
    # By library, since a symbol that moves to another library is a change for what is linked with the first one.
    for library in sorted({*old, *new}):
        before, after = old.get(library, frozenset()), new.get(library, frozenset())
        if use:
            before, after = before & set(use.symbols), after & set(use.symbols)
        added, removed = sorted(after - before), sorted(before - after)
        if added or removed:
            changes.append(SymbolChange(library=library, added=tuple(added), removed=tuple(removed)))
    return tuple(changes)


def _changed_keys(old: Mapping[int, str], new: Mapping[int, str]) -> tuple[KeyChange, ...]:
    before, after = ({name: number for number, name in keys.items()} for keys in (old, new))
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return tuple(KeyChange(key=name, old=before.get(name), new=after.get(name)) for name in changed)


def _changed_schemas(old: Operators, new: Operators, names: Iterable[str]) -> tuple[SchemaChange, ...]:
    changes = []
    for name in names:
        before, after = old.operators[name].schema, new.operators[name].schema
        if before is None or after is None:
            continue
        difference = None
        with contextlib.suppress(SchemaError):
            # In the spelling of abiscan's own parser: torch prints one schema differently from release to release.
            parsed_before, parsed_after = FunctionSchema.parse(before), FunctionSchema.parse(after)
            difference = parsed_before.first_difference(parsed_after)
            before, after = str(parsed_before), str(parsed_after)
        description = str(difference) if difference else None
        changes.append(SchemaChange(operator=name, old=before, new=after, difference=description))
    return tuple(changes)


def _changed_dispatch(
    old: Operators, new: Operators, names: Iterable[str], *, with_cuda: bool
) -> tuple[DispatchChange, ...]:
    before, after = kernels_of(old), kernels_of(new)
    changes = []
    for name in names:
        # The set of keys decides which kernel a call gets; the order in which kernels were registered does not.
        was, now = (set(dispatch_strategy(kernels.get(name, ()), with_cuda=with_cuda)) for kernels in (before, after))
        if was != now:
            change = DispatchChange(operator=name, added=tuple(sorted(now - was)), removed=tuple(sorted(was - now)))
            changes.append(change)
    return tuple(changes)
