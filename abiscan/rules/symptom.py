"""What users see if they never see the load error: packages such as torchvision catch it, and fail later."""

from __future__ import annotations

from abiscan.inputs.version import MinorVersion
from abiscan.linkage.linkage import ExtensionLoad
from abiscan.python.torch_api.torch_texts import NO_OPERATOR, NO_OPERATOR_FOR_META, says, wording_of

_SHOWN = 8


def describe_symptom(load: ExtensionLoad) -> str | None:
    """Return the later error if the load error is ignored; None for an extension that defines no operators."""
    registering = load.registering
    if registering is None:
        return None
    defined = [
        operator.name
        for registrations in (registering.own, *registering.bundled.values())
        for operator in registrations.operators
        # What a later call registers is missing only if that call is made, and operators for TorchScript alone have no
        # attribute in torch.ops.
        if operator.phase.value != "on-call" and not operator.jit_only
        # Damaged code registers names without a namespace, too: torch.ops cannot be asked for them.
        if "::" in operator.name
    ]
    present = registering.operators.operators if registering.operators else {}
    names = list(dict.fromkeys(name.partition(".")[0] for name in defined if name not in present))
    if not names:
        return None
    # torch names the first operator that is missing; code rarely uses operators that begin with an underscore.
    public = [name for name in names if "::_" not in name] or names
    more = f"; the same for {len(public) - _SHOWN} more" if len(public) > _SHOWN else ""
    return (
        f"code that ignores the load error fails with {_first_use_errors(public[:_SHOWN], registering.release)}{more}"
    )


def _first_use_errors(names: list[str], release: MinorVersion) -> str:
    """Return the message of torch when code uses an operator that is not defined; any of ``names`` may be used
    first.
    """
    operators = [dict(zip(("namespace", "name"), name.split("::", 1), strict=True)) for name in names]
    wording = wording_of(NO_OPERATOR, release)
    if wording is None or wording.raises is RuntimeError:
        return "RuntimeError: " + " | ".join(str(says(NO_OPERATOR, release, **operator)) for operator in operators)
    attribute = f"AttributeError: {says(NO_OPERATOR, release, **operators[0])}"
    fakes = [text for operator in operators if (text := says(NO_OPERATOR_FOR_META, release, **operator))]
    return f"RuntimeError: {' | '.join(fakes)}, or {attribute}" if fakes else attribute
