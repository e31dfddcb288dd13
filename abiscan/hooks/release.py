"""The pipeline behind ``abiscan release``: wheels before they are published, by their bytes, on every known torch."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec.structs
from packaging.utils import canonicalize_name

from abiscan.errors import InputError
from abiscan.findings import METADATA_RULES, Effect
from abiscan.hooks.stamp import GUARD, stamp_wheel
from abiscan.hooks.wheel_file import refuse_signed, rewrite_wheel
from abiscan.inputs.files import Wheel
from abiscan.inputs.requirement import simplest_requirement
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source, Target
from abiscan.inputs.version import TorchVersion
from abiscan.inputs.wheel_tag import Version, has_rules_for, lowest_manylinux, manylinux_version
from abiscan.pipelines.declared import declared_findings
from abiscan.pipelines.matrix import CheckedTarget, check_on_all
from abiscan.pipelines.stable import list_stabilities
from abiscan.regex import regex
from abiscan.results.matrix import is_loading
from abiscan.results.package import PackageVerdict
from abiscan.results.release import ReleaseProblem, ReleaseReport, ReleaseWheel
from abiscan.results.stable import StableSummary, short_name
from abiscan.results.verdict import Verdict
from abiscan.rules import declared_requirement_wrong, platform_tag_wrong
from abiscan.torches.pythons import runs_in
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict.systems import system_of
from abiscan.verdict.torch_set import CheckRequest, TorchSet
from abiscan.verdict.turns import TargetQueue
from abiscan.words import listed, plural, ranges

if TYPE_CHECKING:
    from abiscan.extension.examined import ExaminedTarget

_TAGS: Final = regex(r"-(?P<python>[^-]+-[^-]+)-(?P<platform>[^-]+)\.whl$")
_TORCH_REQUIREMENT: Final = regex(r"Requires-Dist:\s*torch\s*(?![\w.-])[^;\n]*(?P<marker>;[^\n]*)?", re.IGNORECASE)
_EXTRA: Final = regex(r"\bextra\s*==")
_WHEEL_RULES: Final = frozenset({*METADATA_RULES, platform_tag_wrong.RULE.name})
_LEGACY: Final = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}
"""What older versions of pip call three of the tags."""


def check_release(
    request: CheckRequest, previous: Sequence[Source], session: Session, corrected: Path | None = None
) -> ReleaseReport:
    """Check the wheels of a release, together and each by itself.

    :param previous: the wheels that were published last
    :param corrected: the folder for wheels whose metadata are corrected; None to write none
    :raises AbiscanError: no wheel can be read
    """
    turns = TargetQueue(request.targets)
    counted = turns.counting(session)
    wheels: list[ReleaseWheel] = []
    for source in turns:
        with turns.of(source):
            wheel = _check_wheel(source, TorchSet(msgspec.structs.replace(request, torches=()), counted), session)
            if corrected and (wheel.requires_dist or wheel.tags or wheel.stamp):
                wheel = _write_corrected(wheel, corrected, session)
            wheels.append(wheel)
    earlier = [
        _check_wheel(source, TorchSet(CheckRequest(targets=tuple(previous)), session), session) for source in previous
    ]
    return ReleaseReport(
        wheels=tuple(compare_wheel(wheel, earlier) for wheel in wheels),
        problems=(
            *(problem for of_package in _by_name(wheels).values() for problem in differences_among(of_package)),
            *_missing_platforms(wheels, earlier),
        ),
        against=tuple(wheel.target for wheel in earlier),
        unchecked=turns.unchecked(),
    )


def _check_wheel(source: Source, torch_set: TorchSet, session: Session) -> ReleaseWheel:
    """Return what is known of a wheel, whatever was published before."""
    examined = torch_set.target(source)
    target = examined.target
    match = _TAGS.search(target.metadata.wheel) if target.metadata else None
    if target.metadata is None or match is None:
        raise InputError(target.name, "is not a wheel", "pass the wheels of a release, or the folder that they are in")
    checked_target = check_on_all(torch_set, source, with_suggestions=False, jobs=session.jobs)
    python = target.metadata.python
    builds = {release: build for release, build in checked_target.builds.items() if runs_in(release, python)}
    unknown = [release for release, build in builds.items() if _is_unknown(checked_target, build)]
    working = [release for release, build in builds.items() if checked_target.works_on(build)]
    stability = StableSummary.of(list_stabilities(examined)) if examined.extensions else None
    needed = _needed_glibc(target)
    tagged = manylinux_version(target.metadata.wheel)
    problems = tuple(_wheel_problems(checked_target, builds, torch_set, source, needed))
    wrong = any(
        problem.rule == declared_requirement_wrong.RULE.name and problem.effect is not Effect.NOTE
        for problem in problems
    )
    # What is not known to fail is never excluded.
    admitted = [release for release in builds if release in working or release in unknown]
    built_for = next(iter(examined.extensions), None)
    releases = built_for.origin.releases if built_for else ()
    guarded = any(posixpath.basename(name) == GUARD for name in (target.package.members if target.package else ()))
    return ReleaseWheel(
        target=target.name,
        name=canonicalize_name(target.package.name) if target.package else "",
        version=target.metadata.version or None,
        python=match["python"],
        platform=match["platform"],
        machine=system_of(target).machine(target),
        declared=str(target.metadata.requires_torch) if target.metadata.requires_torch else None,
        works_on=list(map(str, working)),
        unknown_on=list(map(str, unknown)),
        glibc=".".join(map(str, needed)) if needed else None,
        stable_abi=str(stability) if stability else None,
        minimum_torch=short_name(stability.minimum) if stability else None,
        gpus=_gpu_targets(examined),
        operators=sorted(
            {
                operator.name
                for extension in examined.extensions
                for operator in extension.inventory.registrations.operators
            }
        ),
        problems=problems,
        requires_dist=simplest_requirement(admitted, list(checked_target.builds)) if wrong else None,
        tags=f"{match['python']}-{_platform(needed, target)}" if needed and tagged and needed > tagged else None,
        stamp=f"abiscan stamp {Path(target.name).name} --torch {max(releases)}" if guarded and releases else None,
    )


def _is_unknown(checked_target: CheckedTarget, build: str) -> bool:
    if checked_target.package:
        result = checked_target.package.results.get(build)
        return result is not None and result.verdict is PackageVerdict.UNKNOWN
    return any(row.results[build].verdict is Verdict.UNKNOWN for row in checked_target.rows if build in row.results)


def _wheel_problems(
    checked_target: CheckedTarget,
    builds: Mapping[TorchVersion, str],
    torch_set: TorchSet,
    source: Source,
    needed: Version | None,
) -> Iterator[ReleaseProblem]:
    target = torch_set.target(source).target
    assert target.metadata is not None
    promises = declared_findings(checked_target, target.metadata, torch_set.rules)
    # What does not depend on torch is wrong on the newest that it works on, too.
    works = [build for build in builds.values() if checked_target.imports_on(build)]
    newest = [row.results[works[-1]] for row in checked_target.rows if works and works[-1] in row.results]
    findings = (finding for result in newest for finding in result.findings if is_loading(result))
    lasting = (
        item for item in findings if item.rule in _WHEEL_RULES or item.effect.severity >= Effect.CALL_FAILS.severity
    )
    for finding in dict.fromkeys((*promises, *lasting)):
        # pip trusts the tag: on an older system, the load fails.
        effect = Effect.LOAD_FAILS if finding.rule == platform_tag_wrong.RULE.name else finding.effect
        yield ReleaseProblem(rule=finding.rule, effect=effect, message=finding.message, fix=finding.fix)
    if not works and not any(_is_unknown(checked_target, build) for build in builds.values()):
        fix = "build it for a released torch"
        yield ReleaseProblem(rule=None, effect=Effect.LOAD_FAILS, message="works on no known release of torch", fix=fix)
    if "linux_" in target.name and manylinux_version(target.name) is None and target.libraries:
        tag = f", which has a name such as {_platform(needed, target)}" if needed else ""
        yield ReleaseProblem(
            rule=None,
            effect=Effect.NOTE,
            message="its tag is for the system that it was built on; package indexes reject it",
            fix=f"auditwheel repair makes a wheel for others{tag}",
        )


def _needed_glibc(target: Target) -> Version | None:
    """Return the oldest glibc of a manylinux tag whose systems have all symbol versions that the libraries need."""
    libraries = [*{library.location: library for library in (*target.extensions, *target.libraries.values())}.values()]
    lowest = [
        lowest_manylinux(need.name, library.facts.machine.value)
        for library in libraries
        for need in library.facts.version_needs
        if not need.weak and need.file not in target.siblings and has_rules_for(need.name)
    ]
    # A version that no tag has leaves none to suggest.
    return max((version for version in lowest if version), default=None) if None not in lowest else None


def _platform(glibc: Version, target: Target) -> str:
    machine = next(iter((*target.extensions, *target.libraries.values()))).facts.machine.value
    tag = f"manylinux_{glibc[0]}_{glibc[1]}_{machine}"
    return f"{_LEGACY[glibc]}_{machine}.{tag}" if glibc in _LEGACY else tag  # sorted, as in the specification


def _gpu_targets(examined: ExaminedTarget) -> list[str]:
    codes = (extension.gpu.code for extension in examined.extensions if extension.gpu)
    return list(dict.fromkeys(itertools.chain.from_iterable(code.targets for code in codes)))


def _by_name(wheels: Iterable[ReleaseWheel]) -> dict[str, list[ReleaseWheel]]:
    packages: dict[str, list[ReleaseWheel]] = {}
    for wheel in wheels:
        packages.setdefault(wheel.name, []).append(wheel)
    return packages


def _place_of(wheel: ReleaseWheel) -> tuple[str, str, str | None]:
    return wheel.name, wheel.python, wheel.machine


def differences_among(wheels: Sequence[ReleaseWheel]) -> Iterator[ReleaseProblem]:
    """Yield what the wheels of one package do not have in common."""
    places = {(wheel.python, wheel.machine) for wheel in wheels}
    for machine in dict.fromkeys(wheel.machine for wheel in wheels):
        pythons = dict.fromkeys(wheel.python for wheel in wheels)
        if missing := [python for python in pythons if (python, machine) not in places]:
            message = f"for {machine} there is no wheel for {listed(missing)}"
            yield _note(message, "build it, or list the others in the release notes")
    numbers = {wheel.version for wheel in wheels}
    if len(numbers) > 1:
        yield _note(f"the wheels are of {plural(len(numbers), 'version')}", "release one version at a time")
    by_gpus: dict[tuple[str, ...], list[str]] = {}
    for wheel in wheels:
        by_gpus.setdefault(tuple(wheel.gpus), []).append(f"{wheel.python}-{wheel.platform}")
    if len(by_gpus) > 1:
        differences = "; ".join(f"{listed(gpus, 12) or 'none'} in {listed(names)}" for gpus, names in by_gpus.items())
        yield _note(f"the wheels have code for different GPUs: {differences}", "set TORCH_CUDA_ARCH_LIST in all builds")
    requirements = {wheel.requires_dist or wheel.declared for wheel in wheels}
    if len(requirements) > 1:
        differences = "; ".join(str(requirement or "no requirement") for requirement in sorted(requirements, key=str))
        fix = "state one requirement in all of them: resolvers read one wheel of a version, and assume the others agree"
        yield _note(f"the wheels would require different torches: {differences}", fix)


def compare_wheel(wheel: ReleaseWheel, earlier: Iterable[ReleaseWheel]) -> ReleaseWheel:
    """Return a wheel with what is worse than in the one that was published for the same Python and machine."""
    before = next((other for other in earlier if _place_of(other) == _place_of(wheel)), None)
    if before is None:
        return wheel
    problems = [*wheel.problems]
    gone = [release for release in before.works_on if release not in (*wheel.works_on, *wheel.unknown_on)]
    if gone:
        message = f"no longer works on torch {ranges(gone, before.works_on)}, unlike {before.version}"
        problems.append(_note(message, f"keep the requirement on torch in step, or build for torch {gone[0]}"))
    lost = (
        ("code for", [gpu for gpu in before.gpus if gpu not in wheel.gpus], "add them to TORCH_CUDA_ARCH_LIST"),
        (
            "the operators",
            [name for name in before.operators if name not in wheel.operators],
            "keep them, or say so in the release notes: saved models may call them",
        ),
    )
    for what, names, fix in lost:
        if names:
            problems.append(_loss(f"no longer has {what} {listed(names, 8)}, unlike {before.version}", fix))
    if wheel.glibc and before.glibc and _numbers(wheel.glibc) > _numbers(before.glibc):
        message = f"needs glibc {wheel.glibc}; {before.version} needs {before.glibc}"
        problems.append(_loss(message, "build it in the container of the older system"))
    if before.minimum_torch and not wheel.minimum_torch:
        message = f"is tied to releases of torch; {before.version} is not"
        problems.append(_loss(message, f"abiscan stable {wheel.target} shows what ties it"))
    return msgspec.structs.replace(wheel, problems=tuple(problems))


def _missing_platforms(wheels: Iterable[ReleaseWheel], earlier: Iterable[ReleaseWheel]) -> Iterator[ReleaseProblem]:
    names, places = {wheel.name for wheel in wheels}, set(map(_place_of, wheels))
    for before in earlier:
        if before.name in names and _place_of(before) not in places:
            message = (
                f"there is no wheel for {before.python} on {before.machine or 'any machine'}, unlike {before.version}"
            )
            yield _loss(message, "build it: pip would take the older version, or its sources")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _note(message: str, fix: str) -> ReleaseProblem:
    return ReleaseProblem(rule=None, effect=Effect.NOTE, message=message, fix=fix)


def _loss(message: str, fix: str) -> ReleaseProblem:
    return ReleaseProblem(rule=None, effect=Effect.CALL_FAILS, message=message, fix=fix)


def _write_corrected(wheel: ReleaseWheel, folder: Path, session: Session) -> ReleaseWheel:
    """Write a wheel with the metadata that are true of it into a folder.

    :raises InputError: it is signed, or the folder cannot be written to
    """
    path = Path(wheel.target)
    archive = Wheel(path)
    members = list(archive.list_members())
    refuse_signed(path, members)
    info = next(posixpath.dirname(name) for name in members if re.fullmatch(r"[^/]+\.dist-info/RECORD", name))
    name, replaced = path.name, dict[str, bytes]()
    if wheel.requires_dist:
        metadata = f"{info}/METADATA"
        replaced[metadata] = with_requirement(
            archive.read_content(metadata).decode("utf-8"), wheel.requires_dist
        ).encode()
    if wheel.tags:
        name = f"{name.removesuffix(f'{wheel.python}-{wheel.platform}.whl')}{wheel.tags}.whl"
        replaced[f"{info}/WHEEL"] = with_tags(
            archive.read_content(f"{info}/WHEEL").decode("utf-8"), wheel.tags
        ).encode()
    result = folder / name
    rewrite_wheel(path, result, replaced)
    if wheel.stamp:
        stamp_wheel(result, ReleaseNumber(wheel.stamp.rpartition(" ")[2]), session)
    return msgspec.structs.replace(wheel, written=str(result))


def with_requirement(metadata: str, requirement: str) -> str:
    """Return a METADATA file that requires that torch, in the place of what it requires; extras keep theirs."""
    head, separator, description = metadata.partition("\n\n")
    lines, place = list[str](), None
    for line in head.split("\n"):
        match = _TORCH_REQUIREMENT.fullmatch(line.rstrip("\r"))
        if match is None or _EXTRA.search(match["marker"] or ""):
            lines.append(line)
        elif place is None:
            place = len(lines)
    if place is None:
        place = next(number for number, line in enumerate(lines, 1) if line.startswith("Version:"))
    lines.insert(place, f"Requires-Dist: {requirement}")
    return "\n".join(lines) + separator + description


def with_tags(text: str, tags: str) -> str:
    """Return a WHEEL file with these tags: a line for each combination, as the binary distribution format has it."""
    sets = [part.split(".") for part in tags.split("-")]
    head = [line for line in text.splitlines() if line and not line.startswith("Tag:")]
    return "\n".join([*head, *(f"Tag: {'-'.join(tag)}" for tag in itertools.product(*sets))]) + "\n\n"
