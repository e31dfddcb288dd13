"""The pipeline behind ``abiscan check``: targets, loaded in turn into one process, on one torch or several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import msgspec.structs
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from abiscan.binary.elf import Machine
from abiscan.findings import Finding
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Target
from abiscan.inputs.version import TorchVersion, number_of
from abiscan.python.interpreter.models.companions import REQUIRED_BY_TORCH
from abiscan.python.package.sources import normalized
from abiscan.results.check import Report, Result
from abiscan.results.package import PackageResult, PackageVerdict
from abiscan.rules import declared_requirement_wrong
from abiscan.torches import embedded
from abiscan.torches.torch import ReleaseNumber, TorchChoice
from abiscan.verdict.hardware import described
from abiscan.verdict.systems import system_of
from abiscan.verdict.torch_set import CheckRequest, TorchSet
from abiscan.verdict.turns import TargetQueue


def check_targets(request: CheckRequest, session: Session) -> Report:
    """Check every extension of the targets, and every package, against each torch, torch by torch.

    :raises AbiscanError: no target, a torch or the interpreter cannot be read
    """
    targets, choices = request.targets, request.torches
    # The report names one build for a release number, but users may have any: the others are checked as well, and shown
    # only where their verdict differs.
    extra = [
        (number, extra_build) for number, choice in enumerate(choices) for extra_build in _other_builds(choice, choices)
    ]
    all_builds = (*choices, *(extra_build for _, extra_build in extra))
    turns, results, packages = TargetQueue(targets, len(choices) or 1), list[Result](), list[PackageResult]()
    counted = turns.counting(session)
    torch_set = TorchSet(msgspec.structs.replace(request, torches=all_builds), counted)
    names = torch_set.names[: len(choices) or None]
    extra_builds: dict[str, list[str]] = {}
    for (number, _), name in zip(extra, torch_set.names[len(names) :], strict=True):
        extra_builds.setdefault(names[number], []).append(name)
    # Torch by torch: the files of the targets are laid over those of one torch, and its tables are read once.
    for torch in names:
        for source in turns:
            with turns.of(source):
                if not torch_set.is_for(source, torch) and any(torch_set.is_for(source, name) for name in names):
                    target = torch_set.target(source, torch).target
                    turns.without_build(source, torch, system_of(target).describe_platform(target))
                    continue
                keep = source != targets[-1]
                of_files = torch_set.check(source, torch, keep=keep)
                conditions = request.with_conditions
                package = torch_set.package(source, torch, of_files, with_findings=True, with_conditions=conditions)
                builds = [name for name in extra_builds.get(torch, ()) if torch_set.is_for(source, name)]
                if package is not None and declared_requirement_wrong.RULE in torch_set.rules:
                    package = _with_requirements(package, torch_set.target(source, torch).target, builds)
                for extra_build in builds:  # nothing but the verdicts is shown
                    of_extra = torch_set.check(source, extra_build, keep=keep, with_suggestions=False)
                    second = torch_set.package(source, extra_build, of_extra, with_conditions=False)
                    package = _compare_package(package, second)
                    of_files = _compare_builds(of_files, of_extra)
                # A file without torch is rejected only now, since a package may consist of Python code alone.
                if package is None:
                    torch_set.target(source, torch).target.require_extensions()
                # What a target has loaded stays in the process for the targets after it, as if they were imported in
                # turn; a target that was given up leaves nothing.
                for name in (torch, *builds) if keep else ():
                    torch_set.keep_loaded(name)
                results += of_files
                packages += [package] if package else []
    return Report(
        results=tuple(results),
        packages=tuple(packages),
        unchecked=turns.unchecked(),
        system=described(request.hardware),
    )


def _with_requirements(package: PackageResult, target: Target, extra_builds: Sequence[str]) -> PackageResult:
    """Return a result that says if the metadata exclude the torch, or those of torch the package.

    Nothing is said if the package cannot be imported anyway.

    :param extra_builds: what the torch may be as well
    """
    if package.torch is None or package.verdict is PackageVerdict.IMPORT_FAILS:
        return package
    found: list[Finding] = []
    # Which Python and system it will be installed in is not known here.
    metadata = target.metadata
    required = metadata.requires_torch if metadata and not metadata.depends_on_markers else None
    if required is not None and not required.admits(TorchVersion(package.torch)):
        found += declared_requirement_wrong.list_excluding(str(required), package.name, f"torch {package.torch}")
    pinned = _required_by_torch(package, system_of(target).machine(target), extra_builds)
    with contextlib.suppress(InvalidVersion):  # of a wheel that was built by hand
        if pinned and package.version and Version(package.version) not in SpecifierSet(pinned, prereleases=True):
            found += declared_requirement_wrong.list_other_version(package.name, package.version, package.torch, pinned)
    return msgspec.structs.replace(package, own_findings=(*package.own_findings, *found)) if found else package


def _required_by_torch(package: PackageResult, machine: str | None, extra_builds: Sequence[str]) -> str | None:
    """Return which version of a package the torch requires itself, in its builds with CUDA for Linux."""
    name = normalized(package.name)  # packaging's own module for it takes 5 ms to import
    has_cuda = any("+cu" in build for build in (package.torch_build or "", *extra_builds))
    if name not in REQUIRED_BY_TORCH or not has_cuda or machine not in {item.value for item in Machine}:
        return None
    from abiscan.torches.companion_names import CompanionsOf  # of three packages alone

    return CompanionsOf(package.torch).required(name, machine)


def _other_builds(choice: TorchChoice, choices: Sequence[TorchChoice]) -> Iterator[TorchChoice]:
    """Yield the embedded builds that a release number could mean as well, if they are not chosen themselves."""
    if isinstance(choice, ReleaseNumber) and choice.number == number_of(choice.number):
        extra = dict.fromkeys(name for machine in Machine for name in embedded.extra_builds(machine))
        # A build that is named itself has results of its own.
        builds = (ReleaseNumber(name) for name in extra if number_of(name) == choice.number)
        yield from (build for build in builds if build not in choices)


def _compare_package(package: PackageResult | None, second: PackageResult | None) -> PackageResult | None:
    if package is None or second is None or second.torch_build is None or second.verdict is package.verdict:
        return package
    return msgspec.structs.replace(package, other_builds={**package.other_builds, second.torch_build: second.verdict})


def _compare_builds(results: Sequence[Result], extra_results: Sequence[Result]) -> tuple[Result, ...]:
    """Return results that say where another build of the release gives another verdict."""
    of_path = {item.path: item for item in extra_results}
    return tuple(
        msgspec.structs.replace(result, other_builds={**result.other_builds, item.torch_build: item.verdict})
        if (item := of_path.get(result.path)) and item.torch_build and item.verdict is not result.verdict
        else result
        for result in results
    )
