"""PyTorch's own index of builds: what is known to be on it, even where it cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from packaging.utils import canonicalize_name

from abiscan.environments.package_check import Problem
from abiscan.hooks.pip import Pip
from abiscan.inputs.packages import Distribution
from abiscan.inputs.version import number_of
from abiscan.results.changes import PackageChange
from abiscan.results.doctor import Remedy

_ADDRESS: Final = "https://download.pytorch.org/whl"
_WITH_BUILDS: Final = frozenset({"torchaudio", "torchcodec", "torchtext", "torchvision"})
"""The packages that have a build for CPUs of each version there."""


def name_builds(broken: Sequence[Problem], torch: str, pip: Pip) -> tuple[Remedy, ...]:
    """Return the builds for the kind of torch that is there that PyTorch itself publishes, where no index was read.

    :param broken: what fails for itself
    :param torch: the full version of the torch that is there
    """
    versions = ((problem, version_of_same_kind(problem, torch)) for problem in broken)
    return tuple(name_unread_build(problem, version, pip) for problem, version in versions if version is not None)


def version_of_same_kind(problem: Problem, torch: str) -> str | None:
    """Return the version of a build for the kind of torch that is there, if PyTorch's own index is known to have it.

    Nobody else publishes there, so the package need not be on another index.
    """
    kind = torch.partition("+")[2]
    source = problem.source
    has_build = canonicalize_name(problem.name) in _WITH_BUILDS and kind == "cpu"
    is_from_elsewhere = isinstance(source, Distribution) and (source.origin or source.source)
    fits = problem.checked_package.torch_kind is not None and all(item.name != "torch" for item in problem.unmet)
    return f"{number_of(problem.version)}+{kind}" if has_build and fits and not is_from_elsewhere else None


def options_for(kind: str) -> list[str]:
    """Return what names PyTorch's own index of builds of a kind to pip."""
    return ["--index-url", f"{_ADDRESS}/{kind}"]


def name_unread_build(problem: Problem, version: str, pip: Pip) -> Remedy:
    """Return the installation of a build from an index that was not read."""
    name = canonicalize_name(problem.name)
    pin = f"{name}=={version}"
    return Remedy(
        remedies=(name,),
        command=pip.format_command(["install", "--no-deps", pin, *options_for(version.partition("+")[2])]),
        advice=f"{pin} is on PyTorch's own index, which was not read",
        changes=(PackageChange(name=name, before=problem.version, after=version, requested=True),),
        examined=False,
    )
