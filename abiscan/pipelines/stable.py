"""The pipeline behind ``abiscan stable``: what ties each extension to releases of torch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from abiscan.extension.examined import ExaminedExtension, ExaminedTarget, examine
from abiscan.extension.stability import Stability, Tie, describe_stability, find_looked_up
from abiscan.inputs import packages
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source, uses_torch
from abiscan.results.stable import StableReport, StableRow
from abiscan.verdict.turns import TargetQueue

_log = logging.getLogger("abiscan.pipelines")


def check_stability(targets: Sequence[Source], session: Session) -> StableReport:
    """Check every extension in ``targets``.

    :raises AbiscanError: no target can be read
    """
    rows: list[StableRow] = []
    turns = TargetQueue(targets)
    for source in turns:
        with turns.of(source):
            session.progress(str(source))
            rows += rows_of(examine(source, session))
    return StableReport(rows=tuple(rows), unchecked=turns.unchecked())


def list_installed(search_path: Sequence[str], session: Session) -> list[Distribution]:
    """Return the installed packages that have extensions of torch, except torch."""
    files = session.files()
    return [
        distribution
        for distribution in packages.list_installed(search_path)
        if distribution.name != "torch" and uses_torch(distribution, files)
    ]


def rows_of(target: ExaminedTarget) -> list[StableRow]:
    """Return what ties each extension of a target."""
    return [_make_row(target, extension) for extension in target.extensions]


def list_stabilities(target: ExaminedTarget) -> list[Stability]:
    """Return what ties each extension of a target, without what needs the emulator."""
    return [_make_stability(target, extension) for extension in target.extensions]


def _make_stability(target: ExaminedTarget, extension: ExaminedExtension) -> Stability:
    # A symbol that another extension of the target defines does not tie this one to torch.
    siblings = (item.facts for item in target.extensions if item is not extension)
    result = describe_stability(extension.facts, siblings, find_looked_up(extension.extension.source, extension.facts))
    if _log.isEnabledFor(logging.DEBUG):
        symbols = ", ".join([counterpart.symbol for counterpart in result.counterparts] or result.deciding)
        _log.debug("%s is %s: %s", extension.path, result.state.value, symbols or "takes nothing of torch")
    return result


def _make_row(target: ExaminedTarget, extension: ExaminedExtension) -> StableRow:
    result = _make_stability(target, extension)
    stable_abi = result.state is Tie.STABLE and result.functions
    return StableRow(
        target=target.target.name,
        path=extension.path,
        stability=result,
        # This runs its initialisers in the emulator.
        compiled_with=extension.inventory.registrations.compiled_with if stable_abi else None,
    )
