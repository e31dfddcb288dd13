"""The packages that bring operators to a model: the other targets, and those that are installed beside the torch."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from abiscan.errors import InputError
from abiscan.extension.examined import ExaminedTarget
from abiscan.findings import Rule
from abiscan.inputs import packages
from abiscan.inputs.kinds import TargetKind
from abiscan.inputs.sources import Source, name_of
from abiscan.models.namespaces import PACKAGES
from abiscan.results.check import Result
from abiscan.results.verdict import Verdict
from abiscan.torches.torch import Torch
from abiscan.verdict.model import Brought


class Targets(Protocol):
    """The other targets on several torches: ``TorchSet`` has them."""

    def target(self, source: Source, name: str | None = None) -> ExaminedTarget:
        """Return a target, placed next to a torch."""

    def judge(self, source: Source, name: str, *, rules: Sequence[Rule]) -> tuple[Result, ...]:
        """Return the results for its extensions."""

    def definitions(self, source: Source, name: str) -> Mapping[str, str]:
        """Return the operators that its Python code defines."""


class ModelProviders:
    """What the packages beside a model bring on one torch.

    :param sources: the other targets
    :param name: of the torch
    """

    def __init__(self, bench: Targets, sources: Sequence[Source], name: str, torch: Torch) -> None:
        self._bench = bench
        self._sources = sources
        self._name = name
        self._torch = torch

    def __call__(self, namespaces: frozenset[str]) -> Sequence[Brought]:
        """Return the packages that may bring operators of some namespaces: the given ones, then those installed."""
        given = [brought for source in self._sources if (brought := self._find_brought(source)) is not None]
        have = {operator.partition("::")[0] for brought in given for operator in brought.operators}
        absent = {PACKAGES[namespace] for namespace in namespaces - have if namespace in PACKAGES}
        return [*given, *(filter(None, map(self._find_brought, self._installed(absent))))]

    def _installed(self, names: set[str]) -> Iterator[Source]:
        """Yield the packages of some names that are installed beside the torch."""
        if self._torch.here:
            site = posixpath.dirname(self._torch.package)
            member = (packages.find_installed(name, [site]) for name in sorted(names))
            yield from (distribution for distribution in member if distribution is not None)

    def _find_brought(self, source: Source) -> Brought | None:
        """Return what a package brings; None for another model, and for what cannot be read: its own turn says so."""
        try:
            target = self._bench.target(source, self._name)
            if target.target.kind is TargetKind.MODEL:
                return None
            results = self._bench.judge(source, self._name, rules=())
            defined = self._bench.definitions(source, self._name)
        except InputError:
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
