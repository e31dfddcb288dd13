"""The targets of one command in turn: one that cannot be checked does not stop the others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import msgspec.structs

from abiscan.errors import InputError, StoppedError, raise_together
from abiscan.inputs import isolation
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source, name_of
from abiscan.results.unchecked import Unchecked
from abiscan.words import ranges


class TargetQueue:
    """The targets of a command, and what is wrong with those that cannot be checked.

    :param rounds: how often each has its turn
    """

    def __init__(self, targets: Sequence[Source], rounds: int = 1) -> None:
        self._targets = targets
        self._all = len(targets) * rounds
        self._begun = 0
        self._errors: dict[Source, InputError] = {}
        self._torches: list[str] = []
        self._without_build: dict[tuple[Source, str], list[str]] = {}

    def __iter__(self) -> Iterator[Source]:
        """Yield the targets that nothing is wrong with so far."""
        for source in self._targets:
            self._begun += 1
            if source not in self._errors:
                # A run that was restarted without a target has noted why; its turn ends before it begins.
                try:
                    isolation.begin_target(name_of(source))
                except StoppedError as error:
                    self._errors[source] = error
                else:
                    yield source

    def counting(self, session: Session) -> Session:
        """Return the session, with the number of the turn in its messages on progress, if there are several turns."""
        show = session.progress

        def progress(activity: str) -> None:
            show(f"{activity} ({self._begun} of {self._all})" if self._begun else activity)

        return msgspec.structs.replace(session, progress=progress) if self._all > 1 else session

    @contextlib.contextmanager
    def of(self, source: Source) -> Iterator[None]:
        """Let an error end the turns of one target, and of no other."""
        try:
            with isolation.turn_of(name_of(source)):
                yield
        except InputError as error:
            self._errors[source] = error

    def without_build(self, source: Source, torch: str, machine: str) -> None:
        """Note that a target is not checked on one torch of several, which does not exist for its machine.

        :param machine: that machine, in words
        """
        self._torches += [torch] if torch not in self._torches else []
        self._without_build.setdefault((source, machine), []).append(torch)

    def unchecked(self) -> tuple[Unchecked, ...]:
        """Return the targets that could not be checked, and those that could not be on some torch.

        :raises AbiscanError: they are all targets, and not all of them are readable
        """
        unchecked = tuple(Unchecked.of(name_of(source), error) for source, error in self._errors.items())
        # If nothing could be checked, the run fails; a target that is readable and has no extensions is no error.
        if len(unchecked) == len(self._targets):
            errors = {
                str(error): error
                for (source, error), item in zip(self._errors.items(), unchecked, strict=True)
                if not item.readable
            }
            raise_together(list(errors.values()))
        return (*unchecked, *self._on_some())

    def _on_some(self) -> Iterator[Unchecked]:
        for (source, machine), torches in self._without_build.items():
            problem = f"there is no build of torch {ranges(torches, self._torches)} for {machine}"
            yield Unchecked(target=name_of(source), problem=problem, fix="", readable=True)
