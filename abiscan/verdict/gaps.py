"""What could not be checked, so that reports say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from abiscan.binary.ownership import is_python_symbol
from abiscan.errors import InputError
from abiscan.findings import Rule
from abiscan.gaps import Gap
from abiscan.inputs.sources import Target
from abiscan.inputs.version import number_of
from abiscan.linkage.linkage import HardwareFit, Linkage
from abiscan.linkage.model import Absence
from abiscan.linkage.registering import Registering
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.results.check import Result
from abiscan.results.verdict import Verdict
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch import Torch
from abiscan.words import listed, plural

_STAGES: Final = {TorchData.LAYOUTS: "layouts", TorchData.OPERATORS: "dispatch", TorchData.ENTRIES: "dispatch"}


def gaps_of(linkage: Linkage, rules: Sequence[Rule]) -> Iterator[Gap]:
    """Yield what could not be checked for one extension on one torch.

    :param rules: the rules that were checked
    """
    load = linkage.load
    if load.resolution is None:
        return
    # Data that are lacking are a gap only for the rules that need them, if any of those was asked for.
    for lack in load.lacks:
        if silent := tuple(rule.name for rule in rules if lack.data in rule.needs):
            yield Gap(stage=_STAGES[lack.data], reason=lack.reason, rules=silent, decides=lack.decides)
    if load.registering:
        yield from _registration_gaps(load.registering, load.release)
    for drift in load.drifts:
        if drift.doubts:
            releases = f"torch {drift.candidates[0]}-{drift.candidates[-1]}"
            reason = f"{drift.name} may be built for {releases}; not all of them lay out {', '.join(drift.doubts)} like"
            yield Gap(stage="layouts", reason=f"{reason} {load.release}")
    yield from (Gap(stage="gpu", reason=reason) for reason in linkage.hardware.gpu_gaps)
    yield from _cpu_gaps(linkage.hardware)
    yield from _variant_gaps(linkage)
    # A symbol that nothing defines here may belong to the Python, or to a library, that is not on this machine.
    interpreter, unchecked = load.interpreter, load.resolution.unchecked
    if interpreter and interpreter.executable is None and any(is_python_symbol(symbol.name) for symbol in unchecked):
        python = f"Python {interpreter.tag}"
        yield Gap(stage="linkage", reason=f"{python} is not on this machine: its C API symbols were not checked")
    assumed = [library for library in load.resolution.closure.missing if library.absence is Absence.SYSTEM]
    if assumed:
        names = ", ".join(dict.fromkeys(library.name for library in assumed))
        yield Gap(stage="linkage", reason=f"different target system: {names} not checked", expected=True)
    of_torch = [
        library.name
        for library in load.resolution.closure.missing
        if library.absence is Absence.WITH_TORCH and library.name in load.siblings
    ]
    if of_torch:
        names = ", ".join(dict.fromkeys(of_torch))
        reason = f"{load.release} has loaded {names} before, in place of what comes along: not checked"
        yield Gap(stage="linkage", reason=reason, expected=not load.here)
    if load.found_only_next_to_file and load.here:
        names = ", ".join(load.found_only_next_to_file)
        yield Gap(stage="linkage", reason=f"no search path leads to {names}: assumed to be loaded before")
    external = [library.name for library in load.resolution.closure.missing if library.absence is Absence.EXTERNAL]
    if external:
        names, count = ", ".join(dict.fromkeys(external)), len(unchecked)
        yield Gap(
            stage="linkage",
            reason=f"not available: {names}; {plural(count, 'unresolved symbol')} not checked",
            expected=not load.here,
        )


def _cpu_gaps(hardware: HardwareFit) -> Iterator[Gap]:
    for cpu in hardware.cpus if hardware.cpu else ():
        for place in hardware.cpu.unread(cpu) if hardware.cpu else ():
            yield Gap(stage="cpu", reason=f"may execute instructions that {cpu.name} lacks: {place}", decides=True)
    unread = (
        [name for name, reach in (hardware.cpu.operators or {}).items() if not reach.is_whole] if hardware.cpu else []
    )
    if unread and any(not cpu.is_complete for cpu in hardware.cpus):
        reason = f"not all code that {listed(unread)} can reach could be read: it may need more processor features"
        yield Gap(stage="cpu", reason=reason)


def _variant_gaps(linkage: Linkage) -> Iterator[Gap]:
    if linkage.promises.variant is None:
        return
    cpu, unknown = linkage.promises.variant.cpu, linkage.promises.variant.unknown
    for place in linkage.hardware.cpu.unread(cpu) if linkage.hardware.cpu and cpu else ():
        yield Gap(stage="variant", reason=f"may need more than its wheel says, {cpu.name}: {place}" if cpu else place)
    if unknown:
        yield Gap(stage="variant", reason=f"unknown variant properties: {listed(map(str, unknown))}: not checked")


def _registration_gaps(registering: Registering, release: TorchRelease) -> Iterator[Gap]:
    registered = (registering.own, *registering.bundled.values())
    for gap in (*(gap for registrations in registered for gap in registrations.gaps), *registering.doubts):
        location = f" (in {gap.symbol})" if gap.symbol else ""
        yield Gap(stage=gap.stage, reason=gap.reason + location, decides=gap.decides)
    if any(reaction.may_fail and reaction.in_load and not reaction.fails for reaction in registering.reactions):
        reason = f"{release} may reject a registration that depends on a value that cannot be predicted"
        yield Gap(stage="emulation", reason=reason, decides=True)
    if registering.assumed_classes:
        classes = "class" if len(registering.assumed_classes) == 1 else "classes"
        names = ", ".join(registering.assumed_classes)
        reason = f"custom {classes} {names}: registered by nothing that could be read, assumed to exist"
        yield Gap(stage="dispatch", reason=reason)
    if registering.operators is None and any(len(r.in_order) > len(r.ends) for r in registered):
        reason = f"the operators of {release} are not available: only conflicts within the extension are found"
        yield Gap(stage="dispatch", reason=reason)


def unread_result(target: Target, torch: Torch, path: str, error: InputError, *, stage: str) -> Result:
    """Return the result for a file of a target that cannot be read.

    :param stage: of the gap that says why
    """
    return Result(
        target=target.name,
        kind=target.kind,
        path=path,
        sha256=None,
        torch=number_of(torch.build) if torch.build else None,
        torch_build=torch.build,
        verdict=Verdict.UNKNOWN,
        predicted_error=None,
        undefined_symbols=(),
        external=(),
        findings=(),
        gaps=(Gap(stage=stage, reason=f"{error.problem} ({error.fix})" if error.fix else error.problem),),
    )
