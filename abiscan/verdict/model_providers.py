"""The packages that bring operators to a model: the other targets, and those that are installed alongside the torch."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from abiscan.errors import InputError
from abiscan.extension.examined import ExaminedTarget
from abiscan.inputs import packages
from abiscan.inputs.kinds import TargetKind
from abiscan.inputs.sources import Source, name_of
from abiscan.models.namespaces import PACKAGES
from abiscan.results.check import Result
from abiscan.results.verdict import Verdict
from abiscan.torches.torch import Torch
from abiscan.verdict.model import Brought

Examine: TypeAlias = Callable[[Source], tuple[ExaminedTarget, Sequence[Result], Iterable[str]]]
"""Returns a target, the results for its extensions, and the operators that its Python code defines."""


def list_brought(
    sources: Sequence[Source], torch: Torch, examine: Examine, namespaces: frozenset[str]
) -> Sequence[Brought]:
    """Return the packages that may bring operators of some namespaces: the other targets, then those installed.

    :param sources: the other targets
    """
    given = [brought for source in sources if (brought := _find_brought(source, examine)) is not None]
    have = {operator.partition("::")[0] for brought in given for operator in brought.operators}
    absent = {PACKAGES[namespace] for namespace in namespaces - have if namespace in PACKAGES}
    installed = (_find_brought(source, examine) for source in _installed_packages(absent, torch))
    return [*given, *(brought for brought in installed if brought is not None)]


def _installed_packages(names: set[str], torch: Torch) -> Iterator[Source]:
    """Yield the packages of some names that are installed alongside the torch."""
    if torch.here:
        site = posixpath.dirname(torch.package)
        member = (packages.find_installed(name, [site]) for name in sorted(names))
        yield from (distribution for distribution in member if distribution is not None)


def _find_brought(source: Source, examine: Examine) -> Brought | None:
    """Return what a package brings; None for another model, and for what cannot be read: its own turn says so."""
    try:
        target, results, defined = examine(source)
    except InputError:
        return None
    if target.target.kind is TargetKind.MODEL:
        return None
    # A library that fails to load registers nothing, so what it leaves open is no doubt.
    loads = {result.path for result in results if result.verdict is not Verdict.FAILS}
    operators: dict[str, str | None] = dict.fromkeys(defined)
    classes: set[str] = set()
    gaps: list[str] = []
    for extension in target.extensions:
        registrations = extension.inventory.registrations
        operators |= {operator.name: operator.schema for operator in registrations.operators}
        classes |= {entry.name for entry in registrations.classes}
        gaps += [str(gap) for gap in registrations.gaps] if extension.path in loads else []
    failing = [result for result in results if result.verdict is Verdict.FAILS]
    return Brought(
        package=target.target.package.name if target.target.package else posixpath.basename(name_of(source)),
        operators=operators,
        classes=frozenset(classes),
        error=str(failing[0].predicted_error) if failing and not loads else None,
        gaps=tuple(gaps) if not operators else (),
    )
