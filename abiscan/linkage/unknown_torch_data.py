"""What is unknown about a torch, where that matters for an extension."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from abiscan.dispatch import acceptance, assertions, stable
from abiscan.dispatch.keys import newest_minor
from abiscan.dispatch.operators import KEYS, TAGS
from abiscan.dispatch.outcomes import Outcome, OutcomeKind
from abiscan.dispatch.schema import UNKNOWN_TYPE
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.crossing import uncrossable_calls, uncrossable_kernels
from abiscan.registrations import RegisteredFallback
from abiscan.torches import embedded_python
from abiscan.words import first_line, listed, plural

if TYPE_CHECKING:
    from abiscan.dispatch.messages import Message
    from abiscan.dispatch.operators import Operators
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


class Lack(Struct, frozen=True, kw_only=True):
    """Data of a torch that an extension depends on and that are unknown.

    :ivar data: which of its data
    :ivar reason: a sentence that says what is unknown, and why that matters
    :ivar decides: whether the outcome of the load depends on them
    """

    data: TorchData
    reason: str
    decides: bool


def lacks_of(
    torch: str, release: TorchVersion | None, drifts: Sequence[LayoutDrift], registering: Registering | None
) -> Iterator[Lack]:
    """Yield what is unknown about a torch, of all that matters for one extension.

    :param torch: the name of the torch
    :param release: its release, None if that is unknown
    """
    for drift in drifts:
        if drift.unknown:
            shared = f"{drift.name} shares {listed(drift.unknown)} with {torch}"
            unknown = "whose layouts there are unknown" if drift.candidates else "but what it was built for is unknown"
            reason = f"{shared}, {unknown}" + (f" ({drift.why_unknown})" if drift.why_unknown else "")
            yield Lack(data=TorchData.LAYOUTS, reason=reason, decides=bool({*drift.unknown} & {*drift.unknown_at_load}))
        if drift.uncompared:
            reason = (
                f"{drift.name} was compiled with another std::string than the known builds of torch {drift.built_for}: "
                f"the layout that it has of {listed(drift.uncompared)} is unknown"
            )
            yield Lack(
                data=TorchData.LAYOUTS, reason=reason, decides=bool({*drift.uncompared} & {*drift.unknown_at_load})
            )
    operators = registering.operators if registering else None
    if registering is None or operators is None:
        return
    if operators.gaps:
        reason = f"not everything that {torch} registers could be read: {plural(len(operators.gaps), 'gap')}"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=False)
    if possible := _possible_in_python(release, registering):
        reason = f"what Python code of {torch} registers is not recorded: it may define {listed(possible)}"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=False)
    yield from _assumptions(torch, registering, operators)
    message = registering.failure.outcome.message if registering.failure else None
    if message is not None and operators.build is None and assertions.UNPLACED in message.text:
        reason = f"where {torch} checks this is not known: in the predicted error, a ? stands for the file and line"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=False)
    if message is not None and (lack := _doubt_wording(torch, message, operators)):
        yield Lack(data=TorchData.OPERATORS, reason=lack, decides=False)
    if operators.entries is None and registering.filled:
        names = ", ".join(registering.filled)
        reason = f"the entries of {torch} in {names} are not available: conflicts with them are not found"
        yield Lack(data=TorchData.ENTRIES, reason=reason, decides=True)


def _doubt_wording(torch: str, message: Message, operators: Operators) -> str | None:
    """Say what is unknown about the text of the predicted error; return None if nothing is."""
    changes = operators.reworded.get(message.id, ())
    similar = "; ".join(f'"{now.strip()}" instead of "{was.strip()}"' for was, now in changes)
    if message.id in operators.unworded:
        text = f"{torch} does not have the text of the predicted error: it may check something else"
        return f"{text} ({similar or first_line(message.text)})"
    if similar:
        return f"{torch} words the predicted error differently from known releases: its libraries have {similar}"
    return None


def _assumptions(torch: str, registering: Registering, operators: Operators) -> Iterator[Lack]:
    """Yield what is assumed to be as in an older release: the torch is newer than the tables, or does not tell it."""
    older = f"is not known, and was assumed to be as in torch {'.'.join(map(str, newest_minor()))}"
    if KEYS in operators.assumed and any(isinstance(key, int) for key in _keys_used(registering)):
        reason = f"which number stands for which dispatch key in {torch} {older}"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=True)
    if TAGS in operators.assumed and registering.backend is not None:
        reason = f"which operators of {torch} are core {older}"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=False)
    if not acceptance.is_known(registering.release):
        fallbacks, words = _subjects_of_acceptance(registering)
        if fallbacks:
            reason = f"whether {torch} accepts a second fallback for {listed(fallbacks)} {older}"
            yield Lack(data=TorchData.OPERATORS, reason=reason, decides=True)
        if words:
            reason = f"which types {torch} reads in a schema {older}: it may read {listed(words)}"
            yield Lack(data=TorchData.OPERATORS, reason=reason, decides=True)
    if stable.is_known(registering.release):
        return
    if uncrossable := {**uncrossable_kernels(registering), **uncrossable_calls(registering)}:
        types = listed(dict.fromkeys(str(value.type) for value in uncrossable.values()))
        reason = f"which types cross the stable ABI of {torch} {older}: {types} may cross there"
        yield Lack(data=TorchData.OPERATORS, reason=reason, decides=False)


def _keys_used(registering: Registering) -> Iterator[int | str | None]:
    """Yield the dispatch keys of all registrations of the load; a number is a key whose name depends on the release."""
    for registrations in (registering.own, *registering.bundled.values()):
        yield from (kernel.dispatch_key for kernel in registrations.kernels)
        yield from (fallback.dispatch_key for fallback in registrations.fallbacks)
        yield from (block.dispatch_key for block in registrations.libraries)


def _subjects_of_acceptance(registering: Registering) -> tuple[list[str], list[str]]:
    """Collect what another release might decide differently.

    These are the keys of second fallbacks, and the words in rejected schemas that are no type.
    """
    outcomes = [reaction.outcome for reaction in registering.reactions]
    fallbacks = [outcome.subject for outcome in outcomes if _is_second_fallback(outcome)]
    words = [outcome.subject for outcome in outcomes if outcome.problem == UNKNOWN_TYPE]
    return [*dict.fromkeys(fallbacks)], [*dict.fromkeys(words)]


def _is_second_fallback(outcome: Outcome) -> bool:
    """Tell whether a fallback replaces one that is there, or is rejected for it (the messages F1 and F2)."""
    if outcome.kind is OutcomeKind.OVERRIDES:
        return isinstance(outcome.event, RegisteredFallback)
    return outcome.message is not None and outcome.message.id in ("F1", "F2")


def _possible_in_python(release: TorchVersion | None, registering: Registering) -> list[str]:
    """List operators that have kernels, but no definition in any library: Python code of the torch may define them."""
    dead = [reaction.outcome.subject for reaction in registering.reactions if reaction.outcome.kind is OutcomeKind.DEAD]
    if not dead or embedded_python.definitions(release) is not None:
        return []
    return list(dict.fromkeys(name for name in dead if name.partition("::")[0] in embedded_python.namespaces()))
