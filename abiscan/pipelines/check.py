"""The pipeline behind ``abiscan check``: targets, loaded in turn into one process, on one torch or several."""

from __future__ import annotations

from collections.abc import Sequence

from abiscan.findings import Rule
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.pipelines.bench import Bench
from abiscan.pipelines.turns import Turns
from abiscan.results.check import Report, Result
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
    :raises AbiscanError: no target, a torch or the interpreter cannot be read
    """
    bench = Bench(choices, session, (*targets, *beside))
    turns, results = Turns(targets), list[Result]()
    for torch in bench.names:
        for source in turns:
            with turns.of(source):
                results += bench.judge(source, torch, rules, keep=source != targets[-1])
    return Report(results=tuple(results), unchecked=turns.unchecked())
