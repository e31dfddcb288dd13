"""What changed between two torch builds, as text: one line per change, so that ``grep`` finds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from abiscan.binary.mangling import demangle
from abiscan.binary.ownership import is_torch_symbol
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.results.diff import Comparison, KeyChange, SchemaChange
from abiscan.torches.layout_changes import LayoutChange
from abiscan.torches.name_changes import NameChanges
from abiscan.words import clean, listed, plural


def render_comparison(comparison: Comparison, console: Console, *, verbose: bool, of_extension: bool = False) -> None:
    """Print the comparison.

    :param verbose: list every symbol, instead of only counting them
    :param of_extension: whether it is limited to what an extension uses: then, what its author must do comes last
    """
    for line in _comparison_lines(comparison, verbose=verbose):
        console.print(line, soft_wrap=True)
    for line in (*_break_lines(comparison), *_action_lines(comparison)) if of_extension else ():
        console.print(line, soft_wrap=True)


def _comparison_lines(comparison: Comparison, *, verbose: bool) -> Iterator[Text]:
    yield Text(f"{comparison.old} → {comparison.new}", style="bold")
    yield Text(f"  {_format_summary(comparison)}")
    for symbols in comparison.symbols:
        counts = f"{len(symbols.removed)} removed, {len(symbols.added)} added"
        yield Text.assemble(("symbols", "cyan"), f" {clean(symbols.library)}: {counts}")
        if verbose:
            yield from (Text(f"  - {clean(demangle(name))}", style="red") for name in symbols.removed)
            yield from (Text(f"  + {clean(demangle(name))}", style="green") for name in symbols.added)
    # One key more or less gives another number to hundreds: only it is news.
    renumbered = [key for key in comparison.keys if key.old is not None and key.new is not None]
    for key in comparison.keys if verbose else [key for key in comparison.keys if key not in renumbered]:
        yield Text.assemble(("dispatch key", "cyan"), f" {clean(_format_renumbering(key))}")
    if renumbered and not verbose:
        renumberings = clean(listed(map(_format_renumbering, renumbered)))
        yield Text.assemble(("dispatch keys", "cyan"), f" with another number: {renumberings} (use -v to show all)")
    # The one number that answers whether a rebuild is needed; what follows says why it differs.
    api = "unchanged" if comparison.old_api == comparison.new_api else f"{comparison.old_api} → {comparison.new_api}"
    yield Text.assemble(("operator API version", "cyan"), f": {api}")
    if not comparison.cuda_compared:
        yield Text("CUDA kernels: not compared, because only one of the two is a CUDA build", style="yellow")
    for name in comparison.operators_removed:
        yield Text.assemble(("operator", "cyan"), (f" - {clean(name)}", "red"))
    for name in comparison.operators_added:
        yield Text.assemble(("operator", "cyan"), (f" + {clean(name)}", "green"))
    for schema in comparison.schemas:
        yield Text.assemble(("schema", "cyan"), f" {clean(schema.operator)}: {clean(schema.difference or 'changed')}")
        yield Text(f"  - {clean(schema.old)}", style="red")
        yield Text(f"  + {clean(schema.new)}", style="green")
    # A release that adds a key changes hundreds of operators in one way: they are one line.
    for change, operators in _group_dispatch(comparison).items():
        if verbose:
            yield from (Text.assemble(("dispatch", "cyan"), f" {clean(name)}: {clean(change)}") for name in operators)
        else:
            more = "" if len(operators) == 1 else f" ({plural(len(operators), 'operator')}; use -v to show all)"
            yield Text.assemble(("dispatch", "cyan"), f" {clean(change)}: {clean(listed(operators))}{more}")
    yield from _name_lines(comparison, verbose=verbose)
    yield from (Text.assemble(("gap", "yellow"), f" {clean(gap)}") for gap in comparison.gaps)
    for layout, folded in _fold_layouts(comparison.layouts, verbose=verbose):
        differences = layout.differences if verbose else layout.differences[:1]
        hidden = len(layout.differences) - len(differences)
        more = f" (and {hidden} more)" if hidden else ""
        more += (
            f" (also in {plural(folded, 'class', 'classes')} with such a member; use -v to show all)" if folded else ""
        )
        yield Text.assemble(("layout", "cyan"), f" {clean(layout.name)}: {clean('; '.join(differences))}{more}")


def _name_lines(comparison: Comparison, *, verbose: bool) -> Iterator[Text]:
    """Yield the Python names; those that came are only counted in the summary."""
    names = comparison.names
    if names is None:
        return
    for name in names.removed:
        yield Text.assemble(("name", "cyan"), (f" - {name}", "red"))
    # Names that came break nothing, and a release brings hundreds.
    for name in names.added if verbose else ():
        yield Text.assemble(("name", "cyan"), (f" + {name}", "green"))
    for change in names.signatures:
        yield Text.assemble(("parameters", "cyan"), f" {change.name}")
        yield Text(f"  - ({change.old})", style="red")
        yield Text(f"  + ({change.new})", style="green")


def _format_renumbering(key: KeyChange) -> str:
    was, now = ("none" if number is None else str(number) for number in (key.old, key.new))
    return f"{key.key}: {was} → {now}"


def _format_summary(comparison: Comparison) -> str:
    """Return how much has changed, in one line."""
    names = comparison.names or NameChanges()
    counts = (
        (sum(len(symbols.removed) for symbols in comparison.symbols), "symbol removed", "symbols removed"),
        (len(comparison.operators_removed), "operator removed", "operators removed"),
        (len(comparison.operators_added), "operator added", "operators added"),
        (len(comparison.schemas), "schema changed", "schemas changed"),
        (len(comparison.dispatch), "operator with other kernels", "operators with other kernels"),
        (len(comparison.layouts), "class with another layout", "classes with another layout"),
        (len(names.removed), "Python name removed", "Python names removed"),
        (len(names.added), "Python name added", "Python names added"),
        (len(names.signatures), "function with other parameters", "functions with other parameters"),
    )
    return ", ".join(plural(count, noun, many) for count, noun, many in counts if count) or "nothing changed"


def _group_dispatch(comparison: Comparison) -> Mapping[str, Sequence[str]]:
    """Return the operators by the change of their kernels: many share one."""
    groups: dict[str, list[str]] = {}
    for dispatch in comparison.dispatch:
        change = " ".join([*(f"-{key}" for key in dispatch.removed), *(f"+{key}" for key in dispatch.added)])
        groups.setdefault(change, []).append(dispatch.operator)
    return groups


def _break_lines(comparison: Comparison) -> Iterator[Text]:
    """Yield what breaks, each with the places that use it."""
    for broken in comparison.breaks:
        name = demangle(broken.name) if broken.kind == "symbol" else broken.name
        error = f": {broken.error}" if broken.error else ""
        yield Text.assemble((f"breaks, by {broken.kind}", "red"), f" {clean(name + error)}")
        yield from (Text(f"  {clean(place)}") for place in broken.places)


def _action_lines(comparison: Comparison) -> Iterator[Text]:
    """Yield what changed, grouped by what the author of an extension must do about it."""
    # From the most work to the least: code to change, code to compile again, tests to run.
    called = [change.operator for change in comparison.schemas if not _still_callable(change)]
    removed = [name for symbols in comparison.symbols for name in symbols.removed if is_torch_symbol(name)]
    compiled = [
        *map(demangle, removed),
        *(layout.name for layout in comparison.layouts),
        *(change.operator for change in comparison.schemas if _still_callable(change)),
    ]
    gone = comparison.names.removed if comparison.names else ()
    # Of symbols, the code is compiled again.
    broken = [one.name for one in comparison.breaks if one.kind != "symbol"]
    checked = [f"{change.operator}: dispatch" for change in comparison.dispatch]
    for action, names in (
        ("change the code that calls", [*comparison.operators_removed, *called, *gone, *broken]),
        ("recompile, because of", compiled),
        ("test again, nothing to compile", checked),
    ):
        if names:
            yield Text.assemble((action, "bold"), f": {clean(listed(dict.fromkeys(names)))}")
    if not (comparison.operators_removed or gone or broken or called or compiled or checked):
        yield Text("nothing to do", style="green")


def _still_callable(change: SchemaChange) -> bool:
    """Whether code that calls the operator needs no change to compile for the new schema."""
    try:
        return FunctionSchema.parse(change.new).is_backward_compatible_with(FunctionSchema.parse(change.old))
    except SchemaError:
        return False


def _fold_layouts(layouts: Sequence[LayoutChange], *, verbose: bool) -> Iterator[tuple[LayoutChange, int]]:
    """Yield the changes, and how many others each stands for: those in which nothing but a member of its class
    changed.
    """
    groups: dict[str, list[LayoutChange]] = {}
    for layout in layouts:
        # A class that changed because a member or base did is told under that one: it is the cause of all the others.
        groups.setdefault(layout.name if verbose else layout.inherited_from or layout.name, []).append(layout)
    for name, group in sorted(groups.items()):
        yield next((layout for layout in group if layout.name == name), group[0]), len(group) - 1
