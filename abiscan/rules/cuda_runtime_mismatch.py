"""The extension was built for another version of CUDA or ROCm than torch.

**What it finds.** Libraries of CUDA or ROCm that the extension, or a library it brings along, needs by one version
(`libcudart.so.12`), where this torch comes with another (`libcudart.so.13`), and nothing else provides the first.

**Why it fails.** The version is part of the name by which `ld.so` searches, and torch's packages bring only the one
that torch needs. The libraries that torch needs are loaded before the extension, so an extension that needs the same
version finds them.

**Fix.** Install a build of the extension for torch's version of CUDA, or a build of torch for the extension's
(`2.11.0+cu126`): the label after `+` names it. PyTorch's package index has builds for several versions of CUDA.

**Limits.** A system can have another CUDA installed; with a release number in place of an installed torch, that is
unknown, and assumed not to be the case. If the load fails for another reason as well, that error is the predicted one.
If the metadata of the extension require packages of NVIDIA (`nvidia-…`), or its RPATH names a folder of CUDA, the
library is assumed to be there, and listed as external. So it is for torch up to 1.13, whose wheels have CUDA's runtime
under names of their own.

**Example.** `libcudart.so.12: cannot open shared object file: No such file or directory`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.ownership import gpu_library
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.model import NO_SUCH_FILE, Absence, MissingLibrary
from abiscan.rules.symptom import describe_symptom

_PLATFORMS = {"cudart": "CUDA", "amdhip64": "ROCm"}


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all libraries of another version."""
    load = linkage.load
    missing = load.resolution.closure.missing if load.resolution else ()
    # A library of which this torch brings no version at all is a case for missing-library.
    mismatched = [library for library in missing if library.absence is Absence.OTHER_VERSION]
    if not mismatched:
        return
    needed = ", ".join(dict.fromkeys(library.name for library in mismatched))
    brought = ", ".join(dict.fromkeys(_of_torch(library) for library in mismatched))
    yield Finding(
        rule=RULE.name,
        effect=Effect.LOAD_FAILS,
        message=(
            f"{load.name} needs {needed}, but {load.release} comes with {brought}: {mismatched[0].name}: {NO_SUCH_FILE}"
        ),
        evidence=tuple(
            Evidence(subject=library.name, object=library.needed_by.name, instead=_of_torch(library))
            for library in mismatched
        ),
        fix=next(filter(None, map(_find_fix, mismatched)), "install a build of the extension made for this torch"),
        symptom=describe_symptom(load),
    )


def _of_torch(library: MissingLibrary) -> str:
    assert library.instead is not None
    return library.instead.name


def _find_fix(library: MissingLibrary) -> str | None:
    """Return the two ways out, if the library tells the version of the whole platform."""
    needed, brought = gpu_library(library.name), gpu_library(_of_torch(library))
    platform = _PLATFORMS.get(needed.stem) if needed else None
    if needed is None or brought is None or platform is None:
        return None
    # By major version, as people call it; if that is the same, the minor version tells the two apart.
    theirs, ours = brought.version.partition(".")[0], needed.version.partition(".")[0]
    if theirs == ours:
        theirs, ours = brought.version, needed.version
    return f"install a build of the extension for {platform} {theirs}, or a build of torch for {platform} {ours}"


RULE = rule("cuda-runtime-mismatch", __doc__, find_problems)
