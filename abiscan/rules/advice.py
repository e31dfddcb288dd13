"""The fix that most rules suggest: another build of the extension, or another torch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from abiscan.inputs.version import TorchVersion
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.regex import regex
from abiscan.torches import embedded
from abiscan.words import ranges

_NAME: Final = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def other_build(linkage: Linkage, kind: str = "") -> str:
    """Return the two ways out of a mismatch.

    The second names the torch that the metadata requires, unless this torch satisfies the requirement already. If the
    extension was, or may have been, built for this very torch, that is said instead.

    :param kind: what kind of torch the extension needs: ``CUDA``; empty if any will do
    """
    load = linkage.load
    torch = f"torch {load.release.version}" if load.release.version else "this torch"
    of_kind = f" (a {kind} build)" if kind else ""
    fit_command = _fit_command(linkage, without_gpu=bool(kind))
    own_build = f"install a build of the extension made for {torch}{f' without {kind}' if kind else ''}{fit_command}"
    required = linkage.promises.requires_torch
    # The metadata are the word of the authors, so they come before what the bytes allow to infer.
    if required_elsewhere(linkage):
        return f"{own_build}, or the torch that its metadata requires: {required}{of_kind}"
    here = load.release.torch_version
    # If this torch is among the releases that it may have been built for, "the torch it was built for" is no way out.
    other_releases = tuple(version for version in load.built_for if here is None or version != here.of_release)
    if len(other_releases) < len(load.built_for):
        if other_releases:
            releases = _name_releases(load, other_releases)
            return f"{own_build}, or a torch that it may have been built for: {releases}{of_kind}"
        second = f"install another version of the extension{fit_command}"
        return f"{second}, or report this to its authors: this happens on the torch that it was built for"
    # pip installs the two without an error: the message says that the metadata are wrong.
    admitted = f" (its metadata allows {torch} too: {required})" if required else ""
    built_for = "the torch it was built for"
    if other_releases:
        which = built_for if len(other_releases) == 1 else "a torch that it may have been built for"
        built_for = f"{which}: {_name_releases(load, other_releases)}"
    return f"{own_build}, or {built_for}{of_kind}{admitted}"


def _name_releases(load: ExtensionLoad, releases: Collection[TorchVersion]) -> str:
    return ranges(list(map(str, releases)), map(str, embedded.versions(load.release.machine)))


def other_kind(linkage: Linkage, kind: str) -> str:
    """Return the two ways out where the release is right, and torch is of the wrong kind.

    :param kind: the kind of torch that the extension needs: ``CUDA``
    """
    fit_command = _fit_command(linkage, without_gpu=True)
    return f"install a {kind} build of torch, or a build of the extension without {kind}{fit_command}"


def _fit_command(linkage: Linkage, *, without_gpu: bool) -> str:
    """Return what to type to find such a build of a package for a release: rules themselves do not use the network.

    By default, ``fit`` looks for what works with the build for CUDA.
    """
    load = linkage.load
    version = load.release.torch_version
    is_embedded = version is not None and version.of_release in embedded.versions(load.release.machine)
    # The name is printed as a part of a command to paste, and comes from a file.
    if version is None or not is_embedded or not _NAME.fullmatch(linkage.promises.package):
        return ""
    is_for_cpus = without_gpu or (load.release.build or "").endswith("+cpu")
    kind = " --cuda cpu" if is_for_cpus else ""
    return f" (abiscan fit {linkage.promises.package} --torch {version.number}{kind} finds the newest)"


def required_elsewhere(linkage: Linkage) -> bool:
    """Whether the metadata require a torch, and exclude this one."""
    required, version = linkage.promises.requires_torch, linkage.load.release.torch_version
    return required is not None and version is not None and not required.admits(version)
