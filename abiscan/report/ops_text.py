"""What an extension registers, as text: one line per registration, so that ``grep`` finds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from abiscan.binary.mangling import demangle, demangle_type
from abiscan.extension.built_for import span
from abiscan.extension.gpu import ExtensionGpu
from abiscan.extension.inventory import Inventory
from abiscan.gaps import Gap
from abiscan.registrations import Phase, RegisteredKernel
from abiscan.results.operators import ExtensionOperators, full_schema, key_name
from abiscan.words import clean, plural

# How what a call registers is counted, where that is not its word with an "s".
_LOST: Final = {
    "library": ("library", "libraries"),
    "class": ("class", "classes"),
    "registry": ("registry entry", "registry entries"),
}

Style = Callable[..., str]
"""Wraps a text in the escape sequences for ``bold``, ``dim`` or a colour ``fg``."""


def render_operators(operators: ExtensionOperators, style: Style, *, verbose: bool) -> str:
    """Return the registrations as lines.

    :param verbose: with sources, C++ signatures, inferred schemas, and what is known of each gap
    """
    view = _View(style, verbose=verbose)
    views = (view.list_extension(operators.target, inventory, gpu) for inventory, gpu in operators.with_gpus)
    return "\n\n".join("\n".join(lines) for lines in views) + "\n"


class _View:
    def __init__(self, style: Style, *, verbose: bool) -> None:
        self._style = style
        self._verbose = verbose

    def list_extension(self, target: str, inventory: Inventory, gpu: ExtensionGpu | None) -> Iterator[str]:
        """Yield everything about one extension."""
        yield self._format_heading(target, inventory)
        yield from self._registration_lines(inventory, gpu)
        if gpu is not None:
            yield from self._gpu_lines(gpu)

    def _gpu_lines(self, gpu: ExtensionGpu) -> Iterator[str]:
        word, count = self._style("gpu", fg="cyan"), len(gpu.code.containers)
        targets = ", ".join(gpu.code.targets) or "no code"
        yield f"{word} {plural(count, 'container')} with {plural(len(gpu.kernels), 'kernel')}: {clean(targets)}"
        facts = (
            f"compiled by CUDA {'.'.join(map(str, gpu.code.toolkit))}" if gpu.code.toolkit else None,
            f"needs driver {gpu.driver} or newer" if gpu.driver else None,
        )
        if listing := ", ".join(filter(None, facts)):
            yield f"{word} {listing}"
        yield from (f"{self._style('gap[gpu]', fg='yellow')}: {clean(reason)}" for reason in gpu.gaps)

    def _format_heading(self, target: str, inventory: Inventory) -> str:
        heading = target if target.endswith(inventory.path) else f"{target}: {inventory.path}"
        registered = inventory.registrations
        counts = (
            plural(len(registered.operators), "operator"),
            plural(len(registered.kernels), "kernel"),
            plural(len(registered.fallbacks), "fallback"),
            plural(len(registered.classes), "class", "classes"),
            plural(len(inventory.gaps), "gap"),
        )
        return f"{self._style(clean(heading), bold=True)}: {', '.join(counts)}; built for {span(inventory.built_for)}"

    def _registration_lines(self, inventory: Inventory, gpu: ExtensionGpu | None) -> Iterator[str]:
        registered = inventory.registrations
        for library in registered.libraries:
            key = key_name(library.dispatch_key, inventory.keys)
            yield self._format_line("library", library.phase, f"{library.kind.value} {library.namespace or '_'}", key)
            yield from self._source_line(library.file, library.line)
        for operator in registered.operators:
            tags = ", ".join(inventory.tags.name(number) for number in operator.tags)
            yield self._format_line(
                "operator",
                operator.phase,
                # As the newest release that it may have been built for prints it: defaults are spelled differently
                # before.
                full_schema(operator, inventory.built_for[-1] if inventory.built_for else None) or operator.name,
                f"[{tags}]" if tags else None,
            )
            yield from self._source_line(operator.file, operator.line)
        for kernel in registered.kernels:
            yield from self._kernel_lines(kernel, inventory, gpu)
        for fallback in registered.fallbacks:
            key = key_name(fallback.dispatch_key, inventory.keys) or "(no key)"
            yield self._format_line("fallback", fallback.phase, key, "fallthrough" if fallback.fallthrough else None)
            yield from self._source_line(fallback.file, fallback.line)
        for custom in registered.classes:
            yield self._format_line("class", custom.phase, custom.name, plural(len(custom.methods), "method"))
        for registry in registered.registries:
            yield self._format_line(
                "registry", registry.phase, registry.what, None if registry.key is None else str(registry.key)
            )
        # A lookup in a loop or a template stands in the binary many times.
        for name, count in Counter(lookup.operator for lookup in registered.lookups).items():
            line = f"{self._style('lookup', fg='cyan')} {clean(name)}"
            yield line + self._style(f"  ({count} places)", dim=True) if count > 1 else line
        for gap in inventory.gaps:
            yield self._format_gap(gap)
            if self._verbose:
                yield from map(self._indent_text, _gap_lines(gap))

    def _kernel_lines(self, kernel: RegisteredKernel, inventory: Inventory, gpu: ExtensionGpu | None) -> Iterator[str]:
        key = key_name(kernel.dispatch_key, inventory.keys) or "(no key)"
        kind = "fallthrough" if kernel.fallthrough else "boxed" if kernel.boxed else None
        yield self._format_line("kernel", kernel.phase, f"{kernel.operator} {key}", kind)
        if gpu is not None and (targets := gpu.targets(kernel)) is not None:
            yield self._indent_text(f"has code for {clean(', '.join(targets)) or 'no GPU'}")
        if self._verbose and kernel.signature:
            yield self._indent_text(clean(demangle_type(kernel.signature)))
        if self._verbose and kernel.inferred_schema:
            yield self._indent_text(clean(kernel.inferred_schema))
        yield from self._source_line(kernel.file, kernel.line)

    def _format_line(self, kind: str, phase: Phase, text: str, details: str | None) -> str:
        line = f"{self._style(kind, fg='cyan')} {clean(text)}"
        if details:
            line += f" {clean(details)}"
        # The phase is told where it is unusual: nearly everything is registered by static initialisers.
        if phase is not Phase.STATIC_INIT:
            line += self._style(f"  ({phase.value})", dim=True)
        return line

    def _indent_text(self, text: str) -> str:
        return self._style(f"    {text}", dim=True)

    def _source_line(self, file: str | None, line: int | None) -> Iterator[str]:
        if self._verbose and file:
            yield self._indent_text(f"{clean(file)}:{line}")

    def _format_gap(self, gap: Gap) -> str:
        location = "" if gap.address is None else f" at {gap.address:#x}"
        near = f" near {clean(gap.symbol)}" if gap.symbol else ""
        return f"{self._style(f'gap[{gap.stage}]', fg='yellow')}: {clean(gap.reason)}{location}{near}"


def _gap_lines(gap: Gap) -> Iterator[str]:
    """Yield what is known of a gap besides its reason and place, a line each."""
    if gap.called is not None:
        yield f"called: {clean(demangle(gap.called))}"
    if gap.started is not None:
        yield f"started at: {gap.started:#x}"
    if gap.lost:
        yield f"lost: {', '.join(plural(count, *_LOST.get(subject, (subject,))) for subject, count in gap.lost)}"
