"""What users see if they never see the load error: packages such as torchvision catch it, and fail later."""

from __future__ import annotations

from abiscan.inputs.version import MinorVersion
from abiscan.linkage.linkage import Linkage

_SHOWN = 8
_TELLS_NAMESPACE = (1, 13)
_TURNS_INTO_ATTRIBUTE_ERROR = (1, 12)
_REGISTERS_FAKES = (2, 0)


def symptom(linkage: Linkage) -> str | None:
    """The later error if the load error is ignored; None for an extension that defines no operators."""
    registering = linkage.registering
    if registering is None:
        return None
    defined = [
        operator.name
        for registrations in (registering.own, *registering.bundled.values())
        for operator in registrations.operators
        if operator.phase.value != "on-call" and not operator.jit_only
    ]
    present = registering.operators.operators if registering.operators else {}
    names = list(dict.fromkeys(name.partition(".")[0] for name in defined if name not in present))
    if not names:
        return None
    # torch names the first operator that is missing; code rarely uses operators that begin with an underscore.
    public = [name for name in names if "::_" not in name] or names
    more = f"; the same for {len(public) - _SHOWN} more" if len(public) > _SHOWN else ""
    return f"code that ignores the load error fails with {_errors(public[:_SHOWN], registering.release)}{more}"


def _errors(names: list[str], release: MinorVersion) -> str:
    """The message of torch when code uses an operator that is not defined; any of ``names`` may be used first."""
    namespace, _, short = names[0].partition("::")
    if release < _TURNS_INTO_ATTRIBUTE_ERROR:
        return "RuntimeError: " + " | ".join(f"No such operator {name}" for name in names)
    of = f" '{namespace}'" if release >= _TELLS_NAMESPACE else ""
    attribute = f"AttributeError: '_OpNamespace'{of} object has no attribute '{short}'"
    if release < _REGISTERS_FAKES:
        return attribute
    return "RuntimeError: " + " | ".join(f"operator {name} does not exist" for name in names) + f", or {attribute}"
