"""Registrations as text: what a case says that an extension registers, and what its torch has.

    {"registers": [{"library": "TORCH_LIBRARY_IMPL", "namespace": "aten", "key": "CPU"},
                   {"impl": "tanh", "signature": "FN2at6TensorERKS0_E", "inferred": "(Tensor _0) -> Tensor _0"}]}

Everything belongs to the last library before it; ``{"op": …}`` and classes need none. ``phase`` holds from where it
stands on. Keys are names, or the numbers of a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from abiscan.dispatch.adapters import table_of
from abiscan.dispatch.keys import keys_of
from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place, RegistryEntry
from abiscan.emulation.recorder import Recorder
from abiscan.extension.replay import Registrant, find_reactions
from abiscan.gaps import Gap
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.registering import Backend, Registering
from abiscan.registrations import ALIAS_ANALYSIS, Library, LibraryKind, Phase, Registrations

FIND_OR_THROW: Final = "c10::Dispatcher::findSchemaOrThrow"
KINDS: Final = {kind.macro: kind for kind in LibraryKind}


def registrations(  # noqa: C901 - one kind of step after the other
    steps: Iterable[Mapping[str, Any]], gaps: Iterable[str] = ()
) -> Registrations:
    """What the steps register, one per call of torch."""
    recorder = Recorder()
    library: Library | None = None
    for line, step in enumerate(steps, 1):
        recorder.phase = Phase(step.get("phase", recorder.phase.value))
        key, mangled, inferred = (step.get(name) for name in ("key", "signature", "inferred"))
        alias = ALIAS_ANALYSIS.index(step["alias"]) if "alias" in step else None
        if "library" in step:
            kind = KINDS[step["library"]]
            library = recorder.library(kind, step["namespace"], step.get("key"), "ops.cpp", line)
        elif "def" in step:
            definition = recorder.define(library, step["def"], inferred=inferred, alias_analysis=alias)
            if mangled:
                recorder.kernel(
                    library, definition.name, key, signature=mangled, inferred=inferred, definition=definition
                )
        elif "impl" in step:
            version = step.get("abi_version")
            recorder.kernel(
                library,
                step["impl"],
                key,
                signature=mangled,
                inferred=inferred,
                boxed="abi_version" in step,
                stable="abi_version" in step,
                abi_version=int(version, 16) if version else None,
            )
        elif "fallback" in step:
            recorder.fallback(library, step["fallback"], fallthrough=False)
        elif "backend" in step:
            recorder.registry("privateuse1-backend", step["backend"])
        elif "enter" in step:
            recorder.registry(step["enter"], key, step.get("priority"))
        elif "lookup" in step:
            version = step.get("abi_version")
            recorder.lookup(
                step["lookup"], step.get("function", FIND_OR_THROW), 16, int(version, 16) if version else None
            )
        elif "class" in step:
            recorder.custom_class(step["class"])
        elif "ends" in step:
            recorder.end(step["ends"], step["text"], step.get("symbol"))
        else:
            definition = recorder.define(None, step["op"], alias_analysis=alias)
            for each in step["kernels"]:
                recorder.kernel(
                    None, definition.name, each.get("key"), definition=definition, inferred=each["inferred"]
                )
    unread = tuple(Gap(stage="emulation", reason=reason, address=16, symbol="f") for reason in gaps)
    return replace(recorder.registered(), lookups=tuple(recorder.lookups), gaps=unread)


def operators(has: Mapping[str, Any], version: TorchVersion) -> Operators:
    """What a torch has: schemas by name, ``kernels`` as ``[operator, key, signature, inferred]``, and so on."""
    return Operators(
        operators={name: Operator(name, schema, (), "torch.cpp", 1) for name, schema in has.get("schemas", {}).items()},
        kernels=tuple(
            Kernel(operator, key, signature, inferred, False, "kernels.cpp", 2)
            for operator, key, signature, inferred in has.get("kernels", ())
        ),
        fallbacks=tuple(Fallback(key, False, "fallbacks.cpp", 3) for key in has.get("fallbacks", ())),
        namespaces={name: Place("torch.cpp", 1) for name in has.get("namespaces", ())},
        classes=frozenset(has.get("classes", ())),
        keys=keys_of(version).names,
        aliases={alias: frozenset(members) for alias, members in has.get("aliases", {}).items()},
        gaps=(),
        entries=tuple(RegistryEntry(*entry) for entry in has["entries"]) if "entries" in has else None,
    )


def registering(case: Mapping[str, Any], name: str, version: TorchVersion) -> Registering | None:
    """What the torch of a case does about the registrations in it; ``before`` are those of other objects, by name."""
    if "registers" not in case:
        return None
    own = registrations(case["registers"], case.get("unread", ()))
    before = [
        Registrant(
            name=other, identity=other, registrations=registrations(steps), phases=(Phase.STATIC_INIT,), catches=False
        )
        for other, steps in case.get("before", {}).items()
    ]
    me = Registrant(name=name, identity=name, registrations=own, phases=tuple(Phase), catches=case.get("catches", True))
    has = operators(case["has"], version) if "has" in case else None
    built_for = tuple(map(TorchVersion, case.get("built_for", ())))
    return Registering(
        own=own,
        built_for=built_for,
        keys_built_for=keys_of(built_for[-1] if built_for else version),
        keys=keys_of(version),
        operators=has,
        reactions=tuple(find_reactions(before, [me], has, replace(keys_of(version), minor=version.minor_version))),
        backend=_backend(case.get("backend"), own, has, version),
    )


def _backend(
    given: Mapping[str, Any] | None, own: Registrations, has: Operators | None, version: TorchVersion
) -> Backend | None:
    """``{"key": …, "core": […], "before": {"version": …, "has": …, "key": …}}``: what the extension was built for."""
    if given is None or has is None:
        return None
    old = given.get("before")
    before, old_version = None, None
    if old is not None:
        old_version = TorchVersion(old["version"])
        before = table_of(old_version.minor_version, operators(old["has"], old_version), [own])
    return Backend(
        key=given["key"],
        table=table_of(version.minor_version, has, [own]),
        before=before,
        before_key=old["key"] if old else given["key"],
        before_version=old_version,
        core=frozenset(given.get("core", ())),
    )
