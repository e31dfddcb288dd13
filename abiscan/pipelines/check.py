"""The pipeline behind ``abiscan check``: targets, loaded in turn into one process, on one torch or several."""

from __future__ import annotations

from collections.abc import Sequence

from abiscan.findings import Rule
from abiscan.gpu.devices import Hardware
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.pipelines.bench import Bench
from abiscan.pipelines.turns import Turns
from abiscan.results.check import Report, Result
from abiscan.results.package import PackageResult
from abiscan.torches.torch import TorchChoice


def check(
    targets: Sequence[Source],
    choices: Sequence[TorchChoice],
    rules: Sequence[Rule],
    session: Session,
    *,
    beside: Sequence[Source] = (),
    each_file: bool = False,
    hardware: Hardware | None = None,
) -> Report:
    """Check every extension in ``targets``, and every package, against each of several torches, torch by torch.

    :param beside: what is not checked, but has libraries that the targets may need
    :param each_file: whether files are checked alone, whatever the package that they belong to does with them
    :param hardware: the GPUs that extensions are also checked on
    :raises AbiscanError: no target, a torch or the interpreter cannot be read
    """
    bench = Bench(choices, session, (*targets, *beside), packages=not each_file, hardware=hardware)
    turns, results, packages = Turns(targets), list[Result](), list[PackageResult]()
    for torch in bench.names:
        for source in turns:
            with turns.of(source):
                if not bench.is_for(source, torch) and any(bench.is_for(source, other) for other in bench.names):
                    turns.without_build(source, torch, bench.target(source, torch).extensions[0].facts.machine)
                    continue
                of_files = bench.judge(source, torch, rules, keep=source != targets[-1])
                package = bench.package(source, torch, of_files)
                if package is None:
                    bench.target(source, torch).target.require_extensions()
                results += of_files
                packages += [package] if package else []
    return Report(results=tuple(results), packages=tuple(packages), unchecked=turns.unchecked())
