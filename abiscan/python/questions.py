"""What a reading asks of its target, with the answers: a target that answers alike needs no reading of its own.

The reading of a package depends on its target by nothing else than these answers, so that they decide it: each answer
leads to the next question, and the last one to the reading. The tree that the questions make is walked by asking a new
target; only where no reading got the answer that it gives, the package is read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import NamedTuple

from msgspec import Struct, field

from abiscan.python.model import Answer, LoadedBy, NoResult, Raised, Reading, World, in_words

_log = logging.getLogger("abiscan.python")

Ask = Callable[[World], object]
"""Gets an answer from a target."""


class _Question(Struct, frozen=True, kw_only=True):
    """A question to one of the worlds of a reading, by their order, and its wording."""

    world: int
    text: Hashable


class _Fork(Struct, kw_only=True):
    """A question, and what follows from each answer that was given to it."""

    question: _Question
    ask: Ask
    ways: dict[Hashable, _Fork | Reading] = field(default_factory=dict)


class Answered:
    """The readings of a package by the answers that targets gave."""

    def __init__(self) -> None:
        self._first: _Fork | Reading | None = None

    def reading(self, fresh: Callable[[], World]) -> Reading | None:
        """The reading for a target, None if no other one answers like it.

        :param fresh: gives a world of the target in which nothing is loaded yet
        """
        worlds: dict[int, World] = {}
        one = self._first
        while isinstance(one, _Fork):
            number = one.question.world
            if number not in worlds:
                worlds[number] = fresh()
            given = _answer(one.ask, worlds[number])
            _log.debug("asks the target: %s", _Told(one.question.text, given))
            one = one.ways.get(_key(given))
        _log.debug("reads the package %s", "anew" if one is None else "as for another target that answers alike")
        return one

    def keep(self, questions: Questions, reading: Reading) -> None:
        """Remember a reading by what it asked."""
        way: dict[Hashable, _Fork | Reading] = {} if self._first is None else {None: self._first}
        first, answer = way, None
        for question, ask, given in questions.asked:
            fork = way.setdefault(answer, _Fork(question=question, ask=ask))
            if not isinstance(fork, _Fork) or fork.question != question:
                return  # a reading that ran out of time is not decided by the answers alone
            way, answer = fork.ways, _key(given)
        way.setdefault(answer, reading)
        self._first = first[None]


class _Told(NamedTuple):
    """A question and its answer, for the trace: made into words only if somebody reads them."""

    question: Hashable
    answer: object

    def __str__(self) -> str:
        words = self.question if isinstance(self.question, tuple) else (self.question,)
        asked = " ".join(str(word.value if isinstance(word, LoadedBy) else word) for word in words)
        answer = in_words(self.answer) if isinstance(self.answer, Raised | Answer) else self.answer
        if len(words) == 2 and isinstance(words[1], LoadedBy):
            return f"load {asked}: {'it loads' if answer is None else answer}"
        return f"{asked}? {answer}"


def _answer(ask: Ask, world: World) -> object:
    try:
        return ask(world)
    except Exception as error:  # noqa: BLE001 - whatever computing with another version may raise is an answer
        return type(error), repr(error)


def _key(answer: object) -> Hashable:
    """An answer for a comparison that tells ``True`` from ``1``, and version 2.9 from 2.9.0."""
    return type(answer), repr(answer)


class Questions:
    """What one reading asks, in order.

    :param fresh: gives a world of the target in which nothing is loaded yet
    """

    def __init__(self, fresh: Callable[[], World]) -> None:
        self._fresh = fresh
        self._worlds = 0
        self.asked: list[tuple[_Question, Ask, object]] = []
        self.of_aten: dict[str, bool | Answer] = {}

    def world(self) -> AskedWorld:
        """A world in which nothing is loaded yet."""
        self._worlds += 1
        return AskedWorld(self, self._fresh(), self._worlds)


class AskedWorld:
    """A world whose answers are noted."""

    def __init__(self, questions: Questions, world: World, number: int) -> None:
        self._questions, self._world, self._number = questions, world, number
        self.of_aten = questions.of_aten
        """The operators of torch that were asked for, and whether they are there: the same in every world."""
        self._since_load: dict[Hashable, object] = {}

    @property
    def torch_version(self) -> str | Answer:
        """``torch.__version__``. Who wants to compare it alone asks by ``tells``, for targets to answer alike."""
        return self._ask("torch_version", lambda world: world.torch_version)  # type: ignore[return-value]

    @property
    def cuda(self) -> str | Answer | None:
        """``torch.version.cuda``."""
        return self._ask("cuda", lambda world: world.cuda)  # type: ignore[return-value]

    @property
    def python(self) -> tuple[int, int] | Answer:
        """The version of the interpreter."""
        return self._ask("python", lambda world: world.python)  # type: ignore[return-value]

    @property
    def machine(self) -> str:
        """``platform.machine()``."""
        return self._ask("machine", lambda world: world.machine)  # type: ignore[return-value]

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """Load a library; see ``World.load``."""
        self._since_load.clear()
        return self._ask((path, loader), lambda world: world.load(path, loader))  # type: ignore[return-value]

    def operator(self, name: str) -> bool | Answer:
        """Ask for an operator; see ``World.operator``."""
        return self._ask(name, lambda world: world.operator(name))  # type: ignore[return-value]

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """Call an operator; see ``World.call``."""
        return self._ask((operator,), lambda world: world.call(operator))  # type: ignore[return-value]

    def tells(self, text: str, ask: Ask) -> object:
        """What follows from the versions of the target; ``text`` says what that is, ``ask`` has no effect."""
        return self._ask(("tells", text), ask)

    def foresee(self, ask: Ask) -> object:
        """What ``tells`` would answer, without asking."""
        return ask(self._world)

    @property
    def asker(self) -> tuple[Questions, World, int]:
        """What another world needs to ask the same target."""
        return self._questions, self._world, self._number

    def _ask(self, text: Hashable, ask: Ask) -> object:
        if text not in self._since_load:
            given = self._since_load[text] = ask(self._world)
            self._questions.asked.append((_Question(world=self._number, text=text), ask, given))
            _log.debug("asks the target: %s", _Told(text, given))
        return self._since_load[text]
