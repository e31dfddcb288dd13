"""The pipeline behind ``abiscan check --torch declared``: what a wheel requires, compared with what it loads on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec.structs

from abiscan.errors import InputError, NoExtensionError
from abiscan.findings import Finding, Rule
from abiscan.inputs.requirement import Metadata
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.promises import Declaration, ReleaseOutcome
from abiscan.pipelines.matrix import CheckedTarget, check_on_all
from abiscan.results.check import Report, Result
from abiscan.results.matrix import describe_problem
from abiscan.results.package import PackageResult
from abiscan.rules import declared_requirement_wrong
from abiscan.torches.pythons import runs_in
from abiscan.verdict.hardware import described
from abiscan.verdict.systems import system_of
from abiscan.verdict.torch_set import CheckRequest, TorchSet
from abiscan.verdict.turns import TargetQueue


def check_declared(request: CheckRequest, session: Session) -> Report:
    """Check wheels on the torch that their metadata requires, and the metadata against all embedded releases.

    That torch is the newest embedded release that the requirement admits, which is the one that pip installs.

    A target that cannot be read, has no metadata, or admits no embedded release, is not checked.

    :raises AbiscanError: there is no other target
    """
    turns, results, packages = TargetQueue(request.targets), list[Result](), list[PackageResult]()
    for source in turns:
        with turns.of(source):
            of_files, package = _check_declared(source, request, TorchSet(request, session))
            results += of_files
            packages += [package] if package else []
    return Report(
        results=tuple(results),
        packages=tuple(packages),
        unchecked=turns.unchecked(),
        system=described(request.hardware),
    )


def _check_declared(
    source: Source, request: CheckRequest, torch_set: TorchSet
) -> tuple[tuple[Result, ...], PackageResult | None]:
    target = torch_set.target(source).target
    if target.metadata is None:
        raise InputError(target.name, "has no metadata that could declare a torch", "pass a wheel, or name the torch")
    checked_target = check_on_all(torch_set, source, with_suggestions=False)
    builds = checked_target.builds
    admitted = {release for release in builds if _admits_release(target.metadata, release)}
    if not admitted:
        required = target.metadata.requires_torch or "any torch"
        if target.images:
            # Of the releases for these systems, only the newest are inside.
            platform = system_of(target).describe_platform(target)
            problem = f"requires {required}; there is no such release for {platform}"
            if request.skip_unsupported:
                raise NoExtensionError(target.name, problem, "")
            raise InputError(target.name, problem, "name the wheel of that torch for this system: --torch WHEEL")
        problem = f"requires {required}, but no embedded release for its Python and machine satisfies that"
        raise InputError(target.name, problem, "correct the requirement, or name the torch")
    # pip takes the newest version that all requirements admit, and nothing else is required here.
    torch = builds[max(admitted)]
    # Files without a package are checked one by one, each with the declaration of the whole.
    if checked_target.package is None:
        declarations = _declarations_by_extension(target.metadata, checked_target, admitted)
        return torch_set.check(source, torch, declarations=declarations), None
    results = torch_set.check(source, torch)
    package = torch_set.package(source, torch, results, with_findings=True) or checked_target.package.results[torch]
    findings = declared_findings(checked_target, target.metadata, torch_set.rules)
    return results, msgspec.structs.replace(package, own_findings=(*findings, *package.own_findings))


def declared_findings(checked_target: CheckedTarget, metadata: Metadata, rules: Sequence[Rule]) -> Iterator[Finding]:
    """Yield what is wrong with the requirement of a package that was checked on all releases."""
    if checked_target.package and declared_requirement_wrong.RULE in rules:
        admitted = {release for release in checked_target.builds if _admits_release(metadata, release)}
        declaration = _make_declaration(metadata, checked_target, admitted)
        yield from declared_requirement_wrong.list_findings(declaration, checked_target.package.name)


def _admits_release(metadata: Metadata, release: TorchVersion) -> bool:
    """Whether pip may install a release together with the wheel: the requirement and the wheel's Python allow it."""
    required = metadata.requires_torch
    return (required is None or required.admits(release)) and runs_in(release, metadata.python)


def _make_declaration(metadata: Metadata, checked_target: CheckedTarget, admitted: set[TorchVersion]) -> Declaration:
    """Return what the metadata declare, compared with where the package works."""
    assert checked_target.package is not None
    results = checked_target.package.results
    return Declaration(
        requirement=str(metadata.requires_torch) if metadata.requires_torch else None,
        outcomes=tuple(
            ReleaseOutcome(
                release=str(release),
                admitted=release in admitted,
                error=None
                if checked_target.imports_on(name) or results[name].effect is None
                else results[name].summary,
                wheel_works=checked_target.works_on(name),
            )
            for release, name in checked_target.builds.items()
            if name in results and runs_in(release, metadata.python)
        ),
        suggestion=checked_target.suggestion,
    )


def _declarations_by_extension(
    metadata: Metadata, checked_target: CheckedTarget, admitted: set[TorchVersion]
) -> dict[str, Declaration]:
    """Return the same for each extension of a target that is no package."""
    return {
        row.path: Declaration(
            requirement=str(metadata.requires_torch) if metadata.requires_torch else None,
            outcomes=tuple(
                ReleaseOutcome(
                    release=str(release),
                    admitted=release in admitted,
                    error=describe_problem(row.results[name]),
                    wheel_works=checked_target.works_on(name),
                )
                for release, name in checked_target.builds.items()
                if name in row.results and runs_in(release, metadata.python)
            ),
            suggestion=checked_target.suggestion,
        )
        for row in checked_target.rows
    }
