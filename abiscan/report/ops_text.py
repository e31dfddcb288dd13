"""What an extension registers, for people: one line each, so that ``grep`` finds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from abiscan.emulation import Gap, Phase
from abiscan.inventory import Inventory
from abiscan.mangling import demangle_type
from abiscan.report.characters import clean
from abiscan.report.ops_model import full_schema, key_name


def render(target: str, inventories: Sequence[Inventory], console: Console, *, verbose: bool) -> None:
    """Print the inventories.

    :param verbose: with sources, C++ signatures and inferred schemas
    """
    for number, inventory in enumerate(inventories):
        if number:
            console.print()
        lines = (_heading(target, inventory), *_lines(inventory, verbose=verbose))
        console.print(Text("\n").join(lines), soft_wrap=True)


def _heading(target: str, inventory: Inventory) -> Text:
    where = target if target.endswith(inventory.path) else f"{target}: {inventory.path}"
    found, built = inventory.registrations, inventory.built_for
    release = "no torch known here" if not built else f"torch {built[0]}" + (f" to {built[-1]}" if built[1:] else "")
    return Text.assemble(
        (clean(where), "bold"),
        f": {len(found.operators)} operators, {len(found.kernels)} kernels, {len(found.fallbacks)} fallbacks, "
        f"{len(found.classes)} classes, {len(inventory.gaps)} gaps; built for {release}",
    )


def _lines(inventory: Inventory, *, verbose: bool) -> Iterator[Text]:
    found = inventory.registrations
    for library in found.libraries:
        key = key_name(library.dispatch_key, inventory.keys)
        yield _line("library", library.phase, f"{library.kind.value} {library.namespace or '_'}", key)
        yield from _source(library.file, library.line, verbose=verbose)
    for operator in found.operators:
        tags = ", ".join(inventory.tags.name(number) for number in operator.tags)
        yield _line(
            "operator",
            operator.phase,
            full_schema(operator, inventory.built_for[-1] if inventory.built_for else None) or operator.name,
            f"[{tags}]" if tags else None,
        )
        yield from _source(operator.file, operator.line, verbose=verbose)
    for kernel in found.kernels:
        key = key_name(kernel.dispatch_key, inventory.keys) or "(no key)"
        how = "fallthrough" if kernel.fallthrough else "boxed" if kernel.boxed else None
        yield _line("kernel", kernel.phase, f"{kernel.operator} {key}", how)
        if verbose and kernel.signature:
            yield Text(f"    {clean(demangle_type(kernel.signature))}", style="dim")
        if verbose and kernel.inferred_schema:
            yield Text(f"    {clean(kernel.inferred_schema)}", style="dim")
        yield from _source(kernel.file, kernel.line, verbose=verbose)
    for fallback in found.fallbacks:
        key = key_name(fallback.dispatch_key, inventory.keys) or "(no key)"
        yield _line("fallback", fallback.phase, key, "fallthrough" if fallback.fallthrough else None)
        yield from _source(fallback.file, fallback.line, verbose=verbose)
    for custom in found.classes:
        yield _line("class", custom.phase, custom.name, f"{len(custom.methods)} methods")
    for registry in found.registries:
        yield _line("registry", registry.phase, f"{registry.what} {registry.key}", None)
    for lookup in found.lookups:
        yield Text.assemble(("lookup", "cyan"), f" {clean(lookup.operator)}")
    for gap in inventory.gaps:
        yield _gap(gap)


def _line(kind: str, phase: Phase, what: str, more: str | None) -> Text:
    line = Text.assemble((kind, "cyan"), f" {clean(what)}")
    if more:
        line.append(f" {clean(more)}")
    if phase is not Phase.STATIC_INIT:
        line.append(f"  ({phase.value})", style="dim")
    return line


def _source(file: str | None, line: int | None, *, verbose: bool) -> Iterator[Text]:
    if verbose and file:
        yield Text(f"    {clean(file)}:{line}", style="dim")


def _gap(gap: Gap) -> Text:
    where = "" if gap.address is None else f" at {gap.address:#x}"
    near = f" near {clean(gap.symbol)}" if gap.symbol else ""
    return Text.assemble((f"gap[{gap.stage}]", "yellow"), f": {clean(gap.reason)}{where}{near}")
