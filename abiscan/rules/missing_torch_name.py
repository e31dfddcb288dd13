"""Python code of a package uses a name that this torch does not have.

**What it finds.** Functions of a package, and modules that importing the package does not import, that use a module or
a name in one (`torch.amp.custom_bwd`, `from torch.library import register_fake`) which this torch certainly lacks, and
which some other release has. If the import of the package itself meets one, the verdict is `import-fails`, and this
rule is silent.

**Why it fails.** Python looks names up when the code runs. The package can be imported, and the first call raises
`AttributeError` or `ImportError`.

Names of other packages count where these are there: installed, or named with the package.
Names of numpy, Triton, torchvision, torchaudio and torchtext count, too, where the version is known: the one that is
installed, that every version which the wheel requires stands for (`numpy>=2`), the Triton that this build of torch
requires, or the torchvision, torchaudio and torchtext that require this torch.

What code takes of a module whose name it computes (`getattr(torch, device).set_device`) counts where it shows that the
device may be a CPU, and this torch has the name for CUDA alone. So do names that a loop takes from a collection of
texts (`for name in NAMES: getattr(torch, name)`), as a note.

Operators count by their names below `torch.ops`, with the overload (`torch.ops.aten.add.Tensor`), and as the first
argument of `torch.library.register_fake` and `impl_abstract`: those of torch that this release lacks, and overloads
that the package's own libraries do not define. Options count where they are set (`torch._inductor.config.name = True`,
`config.patch(name=True)`, `torch.compile(f, options={"name": True})`), since torch rejects those that it does not have.

**Fix.** Use a release that has the name, or a version of the package for this torch. In your own package, ask first:
`hasattr(torch.amp, "custom_bwd")`.

**Notes.** A use that nothing guards where it stands may fail although the package asks for the name elsewhere, has it
as a text, or calls the function under some condition: one guard does not show that all uses have one. So may one under
a condition on what users choose (`if self.reduce_on_plateau:`), if nothing in its words, and nothing that the package
binds to them, has to do with a version. Such uses are listed in one note, and change no exit code.

**Limits.** A use does not count if a condition that may depend on the version of torch stands around it, before it or
at its callers, if the package sets the name, in tests, for devices that other packages add, and where it is not
certain what a name stands for. A condition on `torch.__version__` that certainly holds in this release does not count
as one (`Version`, `parse`, tuples, constants and functions of the module). Of objects, those count whose class is
certain: `self` in a class that derives from one of torch's alone, and what `torch.zeros(…)` and the like return; of
classes, only the ones that extensions derive from or patch, such as `torch.Tensor`. So silence proves nothing.

**Example.** `torch.autograd.profiler.format_time is missing in torch 2.13.0: monai uses it in 1 function`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.python.torch_api.operator_calls import operator_named
from abiscan.python.torch_api.torch_classes import CLASSES, missing_attribute
from abiscan.python.torch_api.torch_names import COMPANIONS
from abiscan.python.torch_api.torch_texts import NO_OPERATOR, NO_OPERATOR_FOR_META, NO_OVERLOAD, release_of, says
from abiscan.words import listed, plural, ranges

if TYPE_CHECKING:
    from abiscan.python.later.mentions import LaterUse
    from abiscan.torches.name_history import NameHistory


UNLESS_KEPT: Final = ", unless a condition keeps it from that"
"""What is said of a use where the package shows elsewhere that it knows of other torches."""
_NAMES_SHOWN: Final = 8
_OWN_FIX = "use a version of the package whose Python code matches its libraries: they define the operator differently"


def find_problems(linkage: Linkage) -> Iterator[Finding]:  # noqa: ARG001 - it is about Python code
    """Find nothing in an extension: see ``list_findings``."""
    yield from ()


def list_findings(
    uses: Sequence[LaterUse], history: NameHistory | None, package: str, torch: str, release: str | None
) -> Iterator[Finding]:
    """Yield the finding about one missing name.

    :param uses: those of that name
    :param history: the releases that have it; None of a package whose releases are not recorded
    :param torch: the torch that lacks it, in words; of a name of another package, it does not matter
    :param release: the number of that torch
    """
    top = uses[0].name.partition(".")[0]
    its_torch = " (and the torch that it requires)" if top in {"torchaudio", "torchtext", "torchvision"} else ""
    lacking = _lacking(torch, top, history)
    since, until = history.span if history else (None, None)
    on_cpus = all(use.how == "device" for use in uses)
    where = ", where the device is a CPU" if on_cpus else ""
    yield Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        message=f"{uses[0].name} is missing in {lacking}: {package} uses it in {count_places(uses)}{where}",
        confidence=Confidence.POSSIBLE if on_cpus else Confidence.CERTAIN,
        evidence=tuple(
            Evidence(
                subject=f"{use.file}:{use.line}",
                object=use.function or None,
                since=since,
                until=until,
            )
            for use in uses
        ),
        fix=(
            advise(history, ("has", "have"), f"a version of {package} for {lacking}", its_torch)
            if history
            else f"use a version of {top} that has it, or a version of {package} for {lacking}"
        ),
        says=_error_text(uses[0], release),
    )


def list_doubtful(uses: Sequence[LaterUse], package: str, torch: str, release: str | None) -> Iterator[Finding]:
    """Yield a note about names that a package uses and shows elsewhere to know of: one for all.

    :param torch: the torch that lacks them, in words
    :param release: the number of that torch
    """
    for top, group in groupby(uses, lambda use: use.name.partition(".")[0]):
        of_package = tuple(group)
        names = tuple(dict.fromkeys(use.name for use in of_package))
        verb, them = ("are", "them") if len(names) > 1 else ("is", "it")
        lacking = _lacking(torch, top, None) if top not in COMPANIONS else f"the {top} that goes with {torch}"
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=(
                f"{listed(names, _NAMES_SHOWN)} {verb} missing in {lacking}: {package} uses {them} in "
                f"{count_places(of_package)}{UNLESS_KEPT}"
            ),
            confidence=Confidence.POSSIBLE,
            evidence=tuple(
                Evidence(
                    subject=f"{use.file}:{use.line}",
                    readable=f"{use.file}:{use.line}: {_error_text(use, release)}",
                    object=use.function or None,
                )
                for use in of_package
            ),
            fix=f"call what uses {them} only with a torch that has {them}, or use a version of {package} for {lacking}",
        )


def _lacking(torch: str, top: str, history: NameHistory | None) -> str:
    """Return what lacks a name, in words."""
    if top == "torch":
        return torch
    return f"{top} {ranges(history.lacking, history.releases)}" if history else f"the {top} that is there"


def advise(history: NameHistory, verbs: tuple[str, str], otherwise: str, note: str = "") -> str:
    """Return the fix: releases that have a name, or that may, or what else to do.

    :param verbs: what they do with it, and what they may do
    :param note: what to say of these releases
    """
    has, have = verbs
    top = history.name.partition(".")[0]
    if history.there:
        return f"use {top} {ranges(history.there, history.releases)}, which {has} it{note}, or {otherwise}"
    if operator_named(history.name):
        return _OWN_FIX
    if history.possible:
        return f"use {top} {ranges(history.possible, history.releases)}, which may {have} it{note}, or {otherwise}"
    return f"use {otherwise}"


def count_places(uses: Sequence[LaterUse]) -> str:
    """Return in how many functions some uses are: what fails when it is called. Other code fails as a module."""
    functions = {(use.file, use.function) for use in uses if use.function}
    return plural(len(functions), "function") if functions else plural(len({use.file for use in uses}), "module")


def _error_text(use: LaterUse, release: str | None) -> str | None:
    """Return what Python says of a use; None for an import, whose text has a path in it."""
    owner, _, name = use.name.rpartition(".")
    if operator := operator_named(use.name):
        namespace, _, base = operator.partition(".")[0].partition("::")
        kind = NO_OPERATOR_FOR_META if use.how == "fake" else NO_OVERLOAD if "." in operator else NO_OPERATOR
        last = name if "." in operator else base
        return says(kind, release_of(release), namespace=namespace, name=last, packet=f"{namespace}.{base}")
    if use.how == "object":
        return f"object has no attribute '{name}'"
    if use.how in {"option", "compile"}:
        return f"{use.name} does not exist" if use.how == "option" else f"Unexpected optimization option {name},"
    if use.how == "attribute" and use.name.startswith("numpy."):
        from abiscan.python.torch_api import numpy_texts  # few packages have such a name

        return numpy_texts.missing_name(use.name)
    if use.how == "attribute" and owner in CLASSES:
        return missing_attribute(owner, name)
    if owner.partition(".")[0] not in {"torch", *COMPANIONS}:  # which may say it in their own words
        return None
    if use.how in {"attribute", "device"}:
        return f"module '{owner}' has no attribute '{name}'"
    return f"No module named '{use.name}'" if use.how == "import" else f"cannot import name '{name}' from '{owner}'"


RULE = rule("missing-torch-name", __doc__, find_problems)
