"""Which releases have a Python name of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from abiscan.errors import InputError
from abiscan.python.language.refusals import PassedArguments, refusal
from abiscan.python.torch_api.changed_defaults import REMOVED_IN, REMOVED_METHOD
from abiscan.python.torch_api.operator_calls import ATEN, LISTED, METHODS, compiled_function, operator_named
from abiscan.python.torch_api.torch_classes import CLASSES
from abiscan.python.torch_api.torch_names import COMPANIONS, FUNCTIONS, TorchNames
from abiscan.torches import embedded_names
from abiscan.words import ranges

if TYPE_CHECKING:
    from abiscan.python.torch_api.changed_defaults import ChangedDefault


class NameHistory(Struct, frozen=True, kw_only=True):
    """The releases that certainly have a name, those that may, and those that certainly do not, oldest first.

    Of a function that is called, those that take the call.
    """

    name: str
    releases: tuple[str, ...]
    there: tuple[str, ...]
    possible: tuple[str, ...]
    lacking: tuple[str, ...]
    deprecated: tuple[str, ...]

    @property
    def span(self) -> tuple[str | None, str | None]:
        """The first and the last release that have it; None for the oldest and the newest of all."""
        since, until = (self.there[0], self.there[-1]) if self.there else (None, None)
        return None if since == self.releases[0] else since, None if until == self.releases[-1] else until

    def __str__(self) -> str:
        parts = {
            "there in": self.there,
            "not known for": self.possible,
            "not in": self.lacking,
            "deprecated in": self.deprecated,
        }
        spans = (f"{words} {ranges(chosen, self.releases)}" for words, chosen in parts.items() if chosen)
        return f"{self.name}: {'; '.join(spans)}"


def history(name: str) -> NameHistory:
    """Return which embedded releases have a name (``torch.amp.custom_bwd``), a module or what is in one.

    Of a name of a package next to torch (``numpy.float_``), which versions of that.

    :raises InputError: it is not the name of something below ``torch``
    """
    if name.partition(".")[0] in COMPANIONS:
        return _history_in_companion(name)
    if operator_named(name):
        return _history_of_operator(name)
    if not name.startswith("torch.") or not all(part.isidentifier() for part in name.split(".")):
        raise InputError(name, "is not a name in torch", "pass one such as torch.amp.custom_bwd")
    releases = embedded_names.releases()
    answers = {
        release: _has_name(attributes, name) for release in releases if (attributes := embedded_names.names(release))
    }
    module, _, last = name.rpartition(".")
    deprecating = embedded_names.table().columns_with(module, f"!{last}")
    return NameHistory(
        name=name,
        releases=releases,
        there=tuple(release for release, there in answers.items() if there is True),
        possible=tuple(release for release, there in answers.items() if there is None),
        lacking=tuple(release for release, there in answers.items() if there is False),
        deprecated=tuple(release for release in releases if deprecating >> embedded_names.table().numbers[release] & 1),
    )


def _history_in_companion(name: str) -> NameHistory:
    from abiscan.torches import companion_names  # few packages use any of them

    package = name.partition(".")[0]
    versions = companion_names.versions(package)
    answers = {version: _has_name(companion_names.names(package, version), name) for version in versions}
    return _history_by(name, answers)


def call_history(name: str, call: PassedArguments) -> NameHistory:
    """Return which embedded releases have a function or class (``torch.compile``) that takes a call."""
    if operator_named(name):
        return _history_of_operator(name, call)
    releases = embedded_names.releases()
    if name == f"{METHODS}{REMOVED_METHOD}":
        return structs.replace(call_history(f"torch.{REMOVED_METHOD}", call), name=name)
    if name.startswith(METHODS):
        from abiscan.torches.operator_overloads import ReleaseOperators  # few packages call any so

        operator = f"{ATEN}{name.removeprefix(METHODS)}"
        return _history_by(name, {of: ReleaseOperators(of).takes_list(operator, LISTED) for of in releases})
    compiled = compiled_function(name)
    if compiled and all((known := embedded_names.names(release)) and not known.callee(name) for release in releases):
        from abiscan.torches.operator_overloads import ReleaseOperators  # few packages call any so

        takes = {
            release: frozenset(call.keywords) <= ReleaseOperators(release).keywords(compiled) for release in releases
        }
        return _history_by(name, takes)
    return _history_by(
        name, {release: _takes(known, name, call) for release in releases if (known := embedded_names.names(release))}
    )


def _history_of_operator(name: str, call: PassedArguments | None = None) -> NameHistory:
    """Return which embedded releases have an operator, or take a call of it."""
    from abiscan.torches.operator_overloads import ReleaseOperators  # few packages name any of them

    operator = operator_named(name) or ""
    releases = map(ReleaseOperators, embedded_names.releases())
    return _history_by(name, {of.release: of.takes(operator, call) if call else of.has(operator) for of in releases})


def _history_by(name: str, answers: Mapping[str, bool | None]) -> NameHistory:
    there, possible, lacking = (
        tuple(release for release, answer in answers.items() if answer is wanted) for wanted in (True, None, False)
    )
    return NameHistory(
        name=name, releases=tuple(answers), there=there, possible=possible, lacking=lacking, deprecated=()
    )


def default_history(changed: ChangedDefault) -> NameHistory:
    """Return which embedded releases still have the default that a function had."""
    by_name = history(".".join(changed.sign))
    return structs.replace(by_name, name=changed.function, there=by_name.lacking, lacking=by_name.there)


def _takes(names: TorchNames, name: str, call: PassedArguments) -> bool | None:
    callee = names.callee(name)
    if callee is None and name.startswith("torch.") and name.count(".") == 1:
        return True if names.has(FUNCTIONS, name.partition(".")[2]) else None
    if callee is not None and callee.module == REMOVED_IN:
        return False
    return None if callee is None else refusal(callee.name, callee.signature, call) is None


def _has_name(names: TorchNames, name: str) -> bool | None:
    if names.source.is_module(name):
        return True
    owner, _, last = name.rpartition(".")
    # That a class is there is not always known; what it has, if it is, may be.
    if owner == "torch" or owner in CLASSES or (around := _has_name(names, owner)):
        return names.has(owner, last)
    return around
