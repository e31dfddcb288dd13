"""The pipeline behind ``abiscan check``: targets, loaded in turn into one process, on one torch or several."""

from __future__ import annotations

from collections.abc import Sequence

from abiscan.findings import Rule
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.pipelines.bench import Bench
from abiscan.results.check import Report
from abiscan.torches.torch import TorchChoice


def check(
    targets: Sequence[Source],
    choices: Sequence[TorchChoice],
    rules: Sequence[Rule],
    session: Session,
    *,
    beside: Sequence[Source] = (),
) -> Report:
    """Check every extension in ``targets`` against each of several torches, torch by torch.

    :param beside: what is not checked, but has libraries that the targets may need
    :raises InputError: a target, a torch or the interpreter cannot be read
    """
    bench = Bench(choices, session, (*targets, *beside))
    return Report(
        results=tuple(
            result
            for torch in bench.names
            for number, source in enumerate(targets, 1)
            for result in bench.judge(source, torch, rules, keep=number < len(targets))
        )
    )
