"""A call by name through the stable ABI was compiled for a schema that this torch has changed.

**What it finds.** Calls of `torch_call_dispatcher` and `aoti_torch_call_dispatcher` for an operator that has more
arguments in this torch than in the torch whose headers the extension was compiled with, or arguments of other types in
the same places. The extension records the version of those headers: in the call itself, or with its kernels.

**Why it fails.** It loads. The extension puts the arguments into an array and passes its address; torch reads as many
values from it as the operator's schema has *in this torch*. It reads past the end of the array and takes what is there
for a tensor, or takes one value for another. The process usually dies with a segmentation fault or a bus error. The
stable ABI promises nothing about the operators that are called this way.

**Fix.** Install a build of the extension made for this torch, or a torch in which the operator is as it was. If you
build the extension, call the operator with all arguments that this torch has, or use a C function of the stable ABI.

**Limits.** A name that is not a constant is not known. If the extension does not record what it was compiled with, and
only some of the possible releases have a schema that harms, the finding is a `note`. An argument that was removed from
the end does no harm.

**Example.** `calls aten::_validate_sparse_coo_tensor_args as it was in torch 2.7.0: torch reads 5 arguments from an
array of 4`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Operator
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.stable import call_mismatch
from abiscan.errors import InputError
from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.inputs.version import MinorVersion, TorchVersion
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.registering import Registering
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.registrations import Lookup, version_of
from abiscan.rules.advice import other_build
from abiscan.torches import embedded, embedded_operators


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for each operator that is called in a way that harms."""
    load, registering = linkage.load, linkage.load.registering
    if registering is None or registering.operators is None:
        return
    # Once for each operator: a second place with the same call adds nothing.
    for lookup in {lookup.operator: lookup for lookup in registering.own.lookups if lookup.is_stable_call}.values():
        now = _parse_schema(registering.operators.operators.get(lookup.operator), registering.release)
        releases = _compiled_with(lookup, registering, load.facts.machine)
        if now is None or not releases:
            continue
        mismatches = {
            release: _find_mismatch(lookup.operator, release, load.facts.machine, now) for release in releases
        }
        harmful = {release: mismatch for release, mismatch in mismatches.items() if mismatch}
        if not harmful:
            continue
        # The oldest harmful release stands for all. Certain only if every possible origin is harmful.
        release, mismatch = next(iter(harmful.items()))
        certain = len(harmful) == len(mismatches)
        calls = "calls" if certain else "may call"
        yield Finding(
            rule=RULE.name,
            effect=Effect.CORRUPTS if certain else Effect.NOTE,
            message=f"{load.name} {calls} {lookup.operator} as it was in torch {release}: {mismatch}",
            evidence=(
                Evidence(
                    subject=lookup.operator,
                    readable=str(_schema_of(lookup.operator, release, load.facts.machine)),
                    object=load.name,
                    instead=str(now),
                ),
            ),
            fix=other_build(linkage),
            confidence=Confidence.CERTAIN if certain else Confidence.POSSIBLE,
        )


def _compiled_with(lookup: Lookup, registering: Registering, machine: Machine) -> list[TorchVersion]:
    """Return the releases whose headers a call may have been compiled with, oldest first: recorded, or else
    inferred.
    """
    kernels = (kernel.abi_version for kernel in registering.own.kernels)
    recorded = version_of(lookup.abi_version or next(filter(None, kernels), 0))
    if recorded is None:
        return list(registering.built_for)
    version, releases = TorchVersion(recorded), embedded.versions(machine)
    same = [release for release in releases if release.minor_version == version.minor_version]
    # The headers record major and minor version; of a patch release that is not embedded, the newest of the series has
    # the same schemas.
    return [version] if version in same else same[-1:]


def _find_mismatch(name: str, release: TorchVersion, machine: Machine, now: FunctionSchema) -> str | None:
    built_for = _schema_of(name, release, machine)
    return call_mismatch(built_for, now) if built_for else None


def _schema_of(name: str, release: TorchVersion, machine: Machine) -> FunctionSchema | None:
    try:
        result = embedded_operators.operators(str(release), machine, [name])
    except InputError:
        return None
    return _parse_schema(result.operators.get(name), release.minor_version)


def _parse_schema(operator: Operator | None, release: MinorVersion) -> FunctionSchema | None:
    if operator is None or operator.schema is None:
        return None
    try:
        return FunctionSchema.parse(operator.schema, release=release)
    except SchemaError:
        return None


RULE = rule("stable-call-mismatch", __doc__, find_problems, [TorchData.OPERATORS])
