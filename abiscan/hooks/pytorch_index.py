"""PyTorch's own index of builds: what is known to be on it, even where it cannot be read."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from abiscan.environments.model import Unmet, WholeEnvironment
from abiscan.environments.package_check import Problem
from abiscan.hooks import arguments
from abiscan.hooks.install import Installer
from abiscan.hooks.pip import Pip
from abiscan.inputs.packages import Distribution
from abiscan.inputs.sources import Source
from abiscan.inputs.version import number_of
from abiscan.results.changes import PackageChange
from abiscan.results.doctor import Remedy
from abiscan.torches.companion_names import CompanionsOf
from abiscan.words import listed

_ADDRESS: Final = "https://download.pytorch.org/whl"
_WITH_BUILDS: Final = frozenset({"torchaudio", "torchcodec", "torchtext", "torchvision"})
"""The packages that have a build for CPUs of each version there."""


def list_wanted(problems: Sequence[Problem], torch: str, *, replacing: bool) -> dict[str, str]:
    """Return what is to be installed for some distributions, by name: what they lack, and the builds of them for the
    torch that is there.

    :param replacing: whether what is there in another version is replaced as well, even if something is missing; torch
        never is
    """
    wanted = dict[str, Requirement]()
    items = [
        item
        for problem in problems
        for item in problem.unmet
        if item.name != "torch" and (replacing or item.there is None or problem.lacks_nothing)
    ]
    going = _list_going(items)
    for item in items:
        if _subject_of(item) not in going:  # its new version requires what it requires
            requirement = Requirement(item.requirement)
            known = wanted.setdefault(canonicalize_name(item.name), requirement)
            known.specifier &= requirement.specifier
            known.extras |= requirement.extras
            known.url = known.url or requirement.url
            # PEP 508 has an address or versions: what is at an address is one version.
            known.specifier = SpecifierSet() if known.url else known.specifier
    builds = {problem.key: version for problem in problems if (version := _version_in_place_of(problem, torch))}
    lacking = {canonicalize_name(item.name) for problem in problems for item in problem.unmet if item.there is None}
    builds |= {
        name: version
        for name in sorted(lacking)
        if (version := _version_for(name, torch)) and _allows(wanted.get(name), version)
    }
    return {name: str(requirement) for name, requirement in wanted.items()} | {
        name: f"{name}=={version}" for name, version in builds.items()
    }


def _list_going(unmet: Sequence[Unmet]) -> set[str]:
    """Return what is there in another version than something requires that stays."""
    asked_for = {canonicalize_name(item.name) for item in unmet if item.there is not None}
    staying = (item for item in unmet if _subject_of(item) not in asked_for)
    return {canonicalize_name(item.name) for item in staying if item.there is not None}


def _subject_of(unmet: Unmet) -> str:
    return canonicalize_name(unmet.subject.partition(" ")[0])


def words_of(wanted: Mapping[str, str]) -> list[str]:
    """Return the arguments of pip that install what ``list_wanted`` has returned."""
    words = list(wanted.values())
    kinds = [_kind_of(word) for word in words if is_on_own_index(word)]
    if len(kinds) == len(words) and len(set(kinds)) == 1:
        return ["--no-deps", *words, *options_for(kinds[0])]
    return [*words, *_options_beside(kinds)]


def is_on_own_index(word: str) -> bool:
    """Whether a requirement is for a build of one kind, which only PyTorch's own index has."""
    name, is_pinned, version = word.partition("==")
    return bool(is_pinned) and name in _WITH_BUILDS and "+" in version


def _allows(requirement: Requirement | None, version: str) -> bool:
    if requirement is None:
        return True
    return requirement.url is None and requirement.specifier.contains(version, prereleases=True)


def name_builds(broken: Sequence[Problem], torch: str, pip: Pip, environment: WholeEnvironment) -> tuple[Remedy, ...]:
    """Return one command for the builds for this torch that PyTorch itself publishes, where no index was read.

    :param broken: what fails for itself
    :param torch: the full version of the torch that is there
    :param environment: what is installed may require a package in other versions: then it is not named
    """
    builds = ((problem, _version_in_place_of(problem, torch)) for problem in broken)
    known = [problem for problem, version in builds if version and _may_be_there(problem.key, version, environment)]
    return (name_unread(known, list_wanted(known, torch, replacing=False), pip),) if known else ()


def _may_be_there(name: str, version: str, environment: WholeEnvironment) -> bool:
    """Whether nothing that is installed requires another version of a distribution."""
    return all(
        _allows(requirement, version)
        for distribution in environment.distributions
        for requirement in environment.requirements(distribution)
        if canonicalize_name(requirement.name) == name
    )


def version_of_same_kind(problem: Problem, torch: str) -> str | None:
    """Return the version of a build for the kind of torch that is there, if PyTorch's own index is known to have it.

    Nobody else publishes there, so the package need not be on another index.
    """
    fits = problem.checked_package.torch_kind is not None and not _requires_other_torch(problem)
    if not fits or _is_from_elsewhere(problem.source) or not _has_build(problem.key, torch):
        return None
    return f"{number_of(problem.version)}+{_kind_of(torch)}"


def _version_in_place_of(problem: Problem, torch: str) -> str | None:
    """Return the same, or that of the version which goes with the torch that is there, if another one is required."""
    if not _requires_other_torch(problem):
        return version_of_same_kind(problem, torch)
    if _is_from_elsewhere(problem.source) or not _has_build(problem.key, torch):
        return None
    return _version_for(problem.key, torch)


def _requires_other_torch(problem: Problem) -> bool:
    return any(item.name == "torch" for item in problem.unmet)


def _is_from_elsewhere(source: Source) -> bool:
    return isinstance(source, Distribution) and bool(source.origin or source.source)


def _version_for(name: str, torch: str) -> str | None:
    """Return the version of a package that goes with a torch, and the build for its kind, if that is known."""
    required = CompanionsOf(number_of(torch)).required(name, platform.machine()) if name in _WITH_BUILDS else None
    version = required.removeprefix("==") if required else None
    return f"{version}+{_kind_of(torch)}" if version and _has_build(name, torch) else version


def _has_build(name: str, torch: str) -> bool:
    return name in _WITH_BUILDS and _kind_of(torch) == "cpu"


def _kind_of(version: str) -> str:
    return version.partition("+")[2]


def options_for(kind: str) -> list[str]:
    """Return what names PyTorch's own index of builds of a kind to pip."""
    return ["--index-url", f"{_ADDRESS}/{kind}"]


def is_read(name: str, torch: str, installer: Installer, words: Sequence[str]) -> bool:
    """Whether PyTorch's own index can be read: files of folders are listed as well, so only a build of its kind shows
    it.

    :param words: arguments that name it
    """
    kind = _kind_of(torch)
    return any(version.endswith(f"+{kind}") for version in installer.list_versions(name, words))


def find_builds(problems: Sequence[Problem], torch: str) -> dict[str, str]:
    """Return the versions of the builds for the kind of torch that is there, by name, if they are all that is wrong."""
    builds = {problem.key: version for problem in problems if (version := version_of_same_kind(problem, torch))}
    return builds if all(not builds.keys().isdisjoint({item.key, item.cause}) for item in problems) else {}


def words_with_builds(words: Sequence[str], builds: Mapping[str, str], urls: Mapping[str, str]) -> list[str]:
    """Return arguments of ``install`` with the builds of ``find_builds``, and the index that has them."""
    return [*arguments.pin_versions(words, builds, urls), *_options_beside(map(_kind_of, builds.values()))]


def _options_beside(kinds: Iterable[str]) -> list[str]:
    """Return what names PyTorch's own indexes of builds of some kinds to pip, beside the index that it has."""
    return [part for kind in dict.fromkeys(kinds) for part in ("--extra-index-url", f"{_ADDRESS}/{kind}")]


def describe_unread(builds: Sequence[str]) -> str:
    """Return what is said of builds, as ``NAME==VERSION``, whose index could not be read."""
    return f"{listed(builds)} {'is' if len(builds) == 1 else 'are'} on PyTorch's own index, which was not read"


def name_unread(problems: Sequence[Problem], wanted: Mapping[str, str], pip: Pip) -> Remedy:
    """Return the installation of builds from an index that was not read, and of what else is wanted with them."""
    before: dict[str, str | None] = {
        canonicalize_name(item.name): item.there for problem in problems for item in problem.unmet
    }
    before |= {problem.key: problem.version for problem in problems}
    builds = [word for word in wanted.values() if is_on_own_index(word)]
    advice = describe_unread(builds)
    pins = {name: version for name, word in wanted.items() if (version := _pinned(word))}
    if open_ := [word for name, word in wanted.items() if name not in pins]:
        advice += f"; which version of {listed(open_)} would be installed is not known"
    return Remedy(
        remedies=tuple(problem.key for problem in problems),
        command=pip.format_command(["install", *words_of(wanted)]),
        advice=advice,
        changes=tuple(
            PackageChange(name=name, before=before.get(name), after=version, requested=True)
            for name, version in pins.items()
        ),
        examined=False,
    )


def _pinned(word: str) -> str | None:
    """Return the one version that a requirement allows; None if there may be several."""
    specifiers = list(Requirement(word).specifier)
    exact = [item.version for item in specifiers if item.operator in ("==", "===") and "*" not in item.version]
    return exact[0] if exact else None
