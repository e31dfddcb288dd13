"""A model of torch's other registries: those for backends, and every ``c10::Registry``.

Sources: ``c10/util/Registry.h``, ``c10/core/{DeviceType, StorageImpl, AllocatorConfig}.cpp``,
``ATen/detail/PrivateUse1HooksInterface.cpp``, ``ATen/core/GeneratorForPrivateuseone.cpp``,
``torch/csrc/profiler/standalone/privateuse1_profiler.cpp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.dispatch.coverage import device_key
from abiscan.dispatch.messages import Message, has_message, word_message
from abiscan.dispatch.outcomes import Outcome, OutcomeKind, RefusalError
from abiscan.dispatch.state import State
from abiscan.inputs.version import MinorVersion
from abiscan.registrations import Registry

# The registries that accept one entry per key, with the check that rejects a second; and those that replace it.
_STORAGE: Final = "storage"
_REFUSALS: Final = {
    "privateuse1-hooks": "E1",
    "privateuse1-generator": "E2",
    _STORAGE: "E3",
    "AcceleratorAllocatorConfig": "E5",
}
_REPLACED: Final = ("device-guard", "allocator", "privateuse1-profiler", "privateuse1-activity-profiler")
_DEVICE_REGISTRIES: Final = ("device-guard", "allocator", _STORAGE)
_PRIVATE_USE: Final = "PrivateUse1"
_PRIVATE_USE_NAME: Final = "privateuseone"  # torch's name for the device until it is renamed


def entry_key(registry: str, key: int | str | None) -> int | str | None:
    """Return the key of an entry in one of torch's other registries; for a device, its name."""
    return device_key(key) or key if registry in _DEVICE_REGISTRIES and isinstance(key, int) else key


class RegistryEntries:
    """The entries of one process, and the name of the PrivateUse1 backend."""

    def __init__(self, state: State, release: MinorVersion) -> None:
        self.backend = state.backend
        self.entries = dict(state.entries)
        self._release = release

    def name_backend(self, name: str) -> None:
        """Rename the PrivateUse1 backend (``c10::register_privateuse1_backend``).

        :raises RefusalError: it already has a different name
        """
        if self.backend not in (None, name):
            refusal = word_message("C5", self._release, new=name, old=self.backend, name=self.backend)
            raise RefusalError(refusal, name, name, self.backend)
        self.backend = name

    def enter(self, event: Registry) -> Iterator[Outcome]:
        """Add an entry; yield the outcome if there already is one.

        :raises RefusalError: torch rejects it
        """
        key = entry_key(event.what, event.key)
        subject = str(key or _PRIVATE_USE)
        if event.what == _STORAGE and key != _PRIVATE_USE:
            self._refuse("E4", key, subject)
            return
        existing = self.entries.get((event.what, key))
        refusal = _REFUSALS.get(event.what)
        if existing is None:
            self.entries[event.what, key] = event.priority or 0
        elif refusal is not None:
            self._refuse(refusal, key, subject)
        else:
            yield from self._add_second(event, subject, existing)

    def _refuse(self, check: str, key: int | str | None, subject: str) -> None:
        """Reject an entry, in a release that checks for it."""
        if has_message(check, self._release):
            device = (self.backend or _PRIVATE_USE_NAME).lower()
            raise RefusalError(word_message(check, self._release, key=key, device=device), subject)

    def _add_second(self, event: Registry, subject: str, existing: int) -> Iterator[Outcome]:
        """Add a second entry: the higher priority wins, and two with the same priority end the process."""
        replaced, key = event.what in _REPLACED, entry_key(event.what, event.key)
        if not replaced and event.priority is None:
            return  # some other table: how its code handles a second entry is unknown
        # c10/util/Registry.h: a higher priority replaces the entry, a lower one is skipped, and two equal ones print a
        # message and call exit(1).
        if not replaced and event.priority == existing:
            raise RefusalError(word_message("C4", self._release, key=key), subject, kind=OutcomeKind.EXITS)
        warning: Message | None = None
        if (event.priority or 0) >= existing:
            self.entries[event.what, key] = event.priority or 0
            kind = OutcomeKind.OVERRIDES
        else:
            kind = OutcomeKind.SKIPS
            warning = None if replaced else word_message("C4b", self._release, key=key)
        yield Outcome(event=event, kind=kind, message=warning, subject=subject)
