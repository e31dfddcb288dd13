"""What is not known about a torch, where that matters for an extension."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded_python
from abiscan.words import first_line, listed, plural

if TYPE_CHECKING:
    from abiscan.linkage.layout_drift import LayoutDrift
    from abiscan.linkage.registering import Registering


class TorchData(enum.Enum):
    """What a rule may need to know about the torch."""

    LAYOUTS = "layouts"
    """The memory layouts and virtual tables of its classes."""

    OPERATORS = "operators"
    """What is in its dispatcher: operators, kernels, fallbacks, custom classes, dispatch keys."""

    ENTRIES = "entries"
    """The entries of its other registries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Data of a torch that an extension depends on and that are unknown.

    ``decides`` means that the load fails or not depending on them.
    """

    data: TorchData
    reason: str
    decides: bool


def lacks_of(
    torch: str, release: TorchVersion | None, drifts: Sequence[LayoutDrift], registering: Registering | None
) -> Iterator[Lack]:
    """What is unknown about a torch, of all that matters for one extension.

    :param torch: the name of the torch
    :param release: its release, None if that is unknown
    """
    for drift in drifts:
        if drift.unknown:
            shared = f"{drift.name} shares {listed(drift.unknown)} with {torch}"
            unknown = "whose layouts there are unknown" if drift.candidates else "but what it was built for is unknown"
            reason = f"{shared}, {unknown}" + (f" ({drift.why_unknown})" if drift.why_unknown else "")
            yield Lack(data=TorchData.LAYOUTS, reason=reason, decides=bool(drift.unknown_at_load))
    operators = registering.operators if registering else None
    if registering is None or operators is None:
        return
    if operators.gaps:
        reason = f"not everything that {torch} registers could be read: {plural(len(operators.gaps), 'gap')}"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=False)
    if perhaps := _perhaps_in_python(release, registering):
        reason = f"what Python code of {torch} registers is not recorded: it may define {listed(perhaps)}"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=False)
    message = registering.failure.outcome.message if registering.failure else None
    if message is not None and message.id in operators.unworded:
        text = first_line(message.text)
        reason = f"{torch} does not have the text of the predicted error: it may check something else ({text})"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=False)
    if operators.entries is None and registering.filled:
        names = ", ".join(registering.filled)
        reason = f"the entries of {torch} in {names} are not available: conflicts with them are not found"
        yield Lack(data=TorchData.ENTRIES, reason=reason, decides=True)


def _perhaps_in_python(release: TorchVersion | None, registering: Registering) -> list[str]:
    """The operators that kernels are for, that no library defines, and that Python code of the torch may define."""
    dead = [one.outcome.subject for one in registering.reactions if one.outcome.kind is OutcomeKind.DEAD]
    if not dead or embedded_python.definitions(release) is not None:
        return []
    return list(dict.fromkeys(name for name in dead if name.partition("::")[0] in embedded_python.namespaces()))
