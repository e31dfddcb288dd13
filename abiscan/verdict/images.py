"""Check the images of a target, its libraries for Windows or macOS, on one torch: imports against exports."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.binary.mangling import demangle
from abiscan.findings import Effect, Evidence, Finding, Rule
from abiscan.gaps import Gap
from abiscan.inputs.image_files import ImageFile, users_of_torch
from abiscan.inputs.sources import Target
from abiscan.inputs.version import number_of
from abiscan.linkage.image_errors import error_text
from abiscan.linkage.images import ImageLoad, load_image
from abiscan.results.check import Result
from abiscan.results.verdict import How, PredictedError, Verdict
from abiscan.torches.torch import Torch
from abiscan.torches.torch_images import TorchImages
from abiscan.verdict.gaps import unread_result
from abiscan.words import plural

_log = logging.getLogger("abiscan.verdict")

_ANSWERED: Final = frozenset({"missing-library", "undefined-symbol"})
_UNREAD: Final = "registrations, layouts and code for GPUs are not read in files for {}; only imports are checked"


def check_images(target: Target, torch: Torch, rules: Sequence[Rule]) -> tuple[Result, ...]:
    """Return the results for the images of a target that use torch, and for those that cannot be read.

    :raises InputError: the torch does not exist for their system and machine
    """
    chosen = {rule.name for rule in rules}
    results = []
    for file in users_of_torch(target.images):
        machine = machine_of(file, torch)
        images = torch.images(file.system, machine)
        _log.debug("checks %s of %s on %s", file.path, target.name, images)
        results.append(_make_result(target, file, images, load_image(file, images, target.images), chosen))
    unread = (unread_result(target, torch, path, error, stage="image") for path, error in target.unreadable)
    return (*results, *unread)


def exists_for_images(torch: Torch, target: Target) -> bool:
    """Whether a torch exists for the system and a machine of each image that counts."""
    return all(
        any(torch.has_images(file.system, machine) for machine in file.images)
        for file in users_of_torch(target.images) or target.images
    )


def machine_of(file: ImageFile, torch: Torch) -> Machine:
    """Return the machine of a file for which the torch exists; the first of them if it exists for none."""
    # A universal file has code for several machines, of which macOS loads the one that it runs on.
    machines = (machine for machine in file.images if torch.has_images(file.system, machine))
    return next(machines, next(iter(file.images)))


def _make_result(target: Target, file: ImageFile, torch: TorchImages, results: ImageLoad, chosen: set[str]) -> Result:
    findings = [finding for finding in _image_findings(target, file, torch, results) if finding.rule in chosen]
    # A rule that cannot be checked on images is a gap, and not a rule that found nothing.
    unanswered = tuple(sorted(chosen - _ANSWERED))
    gaps = [Gap(stage=file.system.value, reason=_UNREAD.format(file.system.value), rules=unanswered)]
    if results.undecided:
        names = ", ".join(imported.name for imported in results.undecided[:5])
        count = plural(len(results.undecided), "import")
        reason = f"whether {torch} provides {count} is unknown ({names}): by ordinal, or forwarded by another library"
        gaps.append(Gap(stage="imports", reason=reason, rules=("undefined-symbol",)))
    for library in results.libraries:
        _log.debug("does not find %s, needed by %s", library.name, library.needed_by)
    for missing in results.names:
        _log.debug("%s: %s resolves to nothing", missing.needed_by, missing.name)
    for finding in findings:
        _log.debug("%s: %s: %s", finding.rule, finding.effect.value, finding.message)
    _log.debug("%s on %s: %s", file.path, torch, _make_verdict(results).value)
    return Result(
        target=target.name,
        kind=target.kind,
        path=file.path,
        sha256=file.sha256,
        torch=number_of(torch.build) if torch.build else None,
        torch_build=torch.build,
        machine=f"{torch.system.value} on {torch.machine.value}",
        verdict=_make_verdict(results),
        predicted_error=_predicted(file, results) if results.fails else None,
        undefined_symbols=tuple(dict.fromkeys(missing.name for missing in results.names)),
        external=results.external,
        findings=tuple(findings),
        gaps=tuple(gaps),
    )


def _make_verdict(result: ImageLoad) -> Verdict:
    if result.fails:
        return Verdict.FAILS
    return Verdict.UNKNOWN if result.undecided else Verdict.LOADS


def _predicted(file: ImageFile, result: ImageLoad) -> PredictedError:
    # Not to be compared word for word: folders, identifiers of builds, the language of Windows.
    return PredictedError(how=How.RAISES, object=None, message=error_text(file, result), exact=False)


def _image_findings(target: Target, file: ImageFile, torch: TorchImages, result: ImageLoad) -> Iterator[Finding]:
    fix = _fix(target, torch)
    if result.libraries:
        names = ", ".join(dict.fromkeys(library.name for library in result.libraries))
        yield Finding(
            rule="missing-library",
            effect=Effect.LOAD_FAILS,
            message=f"{file.name} needs {names}, which {torch} does not have",
            evidence=tuple(Evidence(subject=item.name, object=item.needed_by) for item in result.libraries),
            fix=fix,
        )
    if result.names:
        count = plural(len({missing.name for missing in result.names}), "symbol")
        yield Finding(
            rule="undefined-symbol",
            effect=Effect.LOAD_FAILS,
            message=f"{file.name} uses {count} that {torch} does not have",
            evidence=tuple(
                Evidence(subject=item.name, readable=readable(item.name, file.system), object=item.needed_by)
                for item in result.names
            ),
            fix=fix,
        )


def readable(name: str, system: ImageSystem) -> str | None:
    """Return the C++ name behind a mangled name; None if it is not one, or cannot be demangled here."""
    if system is ImageSystem.MACOS:
        return demangle(name.removeprefix("_"))  # every name of C gets an underscore there
    from abiscan.binary.msvc import undecorate

    return undecorate(name)


def _fix(target: Target, torch: TorchImages) -> str:
    number = number_of(torch.build) if torch.build else None
    own = f"install a build of the extension made for {f'torch {number}' if number else 'this torch'}"
    required = target.metadata.requires_torch if target.metadata else None
    if required is None or required.admits_all:
        return f"{own}, or the torch it was built for"
    return f"{own}, or the torch that its metadata requires: {required}"
