"""torch's other registries: those of backends, and every ``c10::Registry``, as they are filled.

Sources: ``c10/util/Registry.h``, ``c10/core/{DeviceType, StorageImpl, AllocatorConfig}.cpp``,
``ATen/detail/PrivateUse1HooksInterface.cpp``, ``ATen/core/GeneratorForPrivateuseone.cpp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.dispatch.events import Enter
from abiscan.dispatch.messages import Message, has_message, message
from abiscan.dispatch.outcomes import Outcome, OutcomeKind, RefusalError
from abiscan.dispatch.state import State
from abiscan.inputs.version import MinorVersion

# The registries that take one entry for a key, with the check that refuses the next; and those that replace it.
_STORAGE: Final = "storage"
_REFUSALS: Final = {
    "privateuse1-hooks": "E1",
    "privateuse1-generator": "E2",
    _STORAGE: "E3",
    "AcceleratorAllocatorConfig": "E5",
}
_REPLACED: Final = ("device-guard", "allocator", "privateuse1-profiler")
_PRIVATE_USE: Final = "PrivateUse1"
_PRIVATE_USE_NAME: Final = "privateuseone"  # as torch calls the device, as long as nobody has named it


class RegistryEntries:
    """The entries of one process, and the name of the backend of one's own."""

    def __init__(self, state: State, release: MinorVersion) -> None:
        self.backend = state.backend
        self.entries = dict(state.entries)
        self._release = release

    def name_backend(self, name: str) -> None:
        """``c10::register_privateuse1_backend``.

        :raises RefusalError: it has another name already
        """
        if self.backend not in (None, name):
            refusal = message("C5", self._release, new=name, old=self.backend, name=self.backend)
            raise RefusalError(refusal, name, name, self.backend)
        self.backend = name

    def enter(self, event: Enter) -> Iterator[Outcome]:
        """What comes of an entry where there is one already.

        :raises RefusalError: torch refuses it
        """
        subject = str(event.key or _PRIVATE_USE)
        there = self.entries.get((event.registry, event.key))
        refusal = _REFUSALS.get(event.registry)
        if event.registry == _STORAGE and event.key != _PRIVATE_USE:
            refusal, there = "E4", 0
        if there is None:
            self.entries[event.registry, event.key] = event.priority or 0
        elif refusal is not None:
            self._refuse(refusal, event, subject)
        else:
            yield from self._meet(event, subject, there)

    def _refuse(self, check: str, event: Enter, subject: str) -> None:
        """A second entry, in a release that checks for it."""
        if has_message(check, self._release):
            device = (self.backend or _PRIVATE_USE_NAME).lower()
            raise RefusalError(message(check, self._release, key=event.key, device=device), subject)

    def _meet(self, event: Enter, subject: str, there: int) -> Iterator[Outcome]:
        """A second entry where the one of the higher priority counts; two of one priority end the process."""
        replaced = event.registry in _REPLACED
        if not replaced and event.priority is None:
            return  # some table: what its code does about a second entry is not known
        if not replaced and event.priority == there:
            raise RefusalError(message("C4", self._release, key=event.key), subject, kind=OutcomeKind.EXITS)
        said: Message | None = None
        if (event.priority or 0) >= there:
            self.entries[event.registry, event.key] = event.priority or 0
            kind = OutcomeKind.OVERRIDES
        else:
            kind = OutcomeKind.SKIPS
            said = None if replaced else message("C4b", self._release, key=event.key)
        yield Outcome(event=event, kind=kind, message=said, subject=subject)
