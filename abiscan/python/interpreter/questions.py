"""What the code of a package asks of its target, and the answers: what is run for one target counts for others, too.

What a task does - the import of a module, in one of its ways - depends on the target by nothing else than these
answers, so that they decide it: each answer leads to the next question, and the last one to the result. The tree that
the questions make is walked by asking a new target; only where no target before gave the answer that it gives, the task
is done again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from abiscan.cpu.processors import Cpu
from abiscan.python.interpreter.values import NotKnown
from abiscan.python.package.model import Answer, LoadedBy, NoResult, Raised, World, in_words
from abiscan.python.torch_api.torch_names import TorchNames

_log = logging.getLogger("abiscan.python")
_Result = TypeVar("_Result")

_SIGN: Final = "\0"
"""What the sign of a text begins with: no text of an error has it."""

Ask = Callable[[World], object]
"""Gets an answer from a target."""


class _Question(Struct, frozen=True, kw_only=True):
    """A question to the world of a task, and its wording."""

    text: Hashable
    ask: Ask
    lasts: bool
    """Whether the answer stays the same while the package is read, whatever is loaded."""


KeptAnswers = dict[Hashable, tuple[object, Hashable]]
"""The lasting answers of a target by the wording of the question, each with what it is compared by."""


class _Fork(Struct, Generic[_Result], kw_only=True):
    """A question, and what follows from each answer that was given to it."""

    question: _Question
    ways: dict[Hashable, _Fork[_Result] | _Conclusion[_Result]] = field(default_factory=dict)


class _Conclusion(Struct, Generic[_Result], frozen=True, kw_only=True):
    """What a task results in."""

    result: _Result


class Answered(Generic[_Result]):
    """The results of one task by the answers that targets gave."""

    def __init__(self) -> None:
        self._first: _Fork[_Result] | _Conclusion[_Result] | None = None

    def find(self, world: AskedWorld, kept_answers: KeptAnswers) -> _Result | None:
        """Return the result for a target, None if no other one answers like it.

        :param world: the target's, in which nothing is loaded yet
        :param kept_answers: what it has told for other tasks
        """
        # Down the tree: at each fork, the target is asked what the task asked next wherever all answers so far were the
        # same. The end is a result, or an answer that no target has given before.
        fork, is_traced = self._first, _log.isEnabledFor(logging.DEBUG)
        while isinstance(fork, _Fork):
            question = fork.question
            answer = kept_answers.get(question.text) if question.lasts else None
            if answer is None:
                passed = _ask_world(question.ask, world)
                answer = passed, _comparison_key(passed)
                if question.lasts:
                    kept_answers[question.text] = answer
            if is_traced:
                _log.debug("asks the target: %s", _QuestionAndAnswer(question.text, answer[0]))
            fork = fork.ways.get(answer[1])
        return None if fork is None else fork.result

    def keep(self, asked: list[tuple[_Question, object]], result: _Result) -> None:
        """Remember a result by what was asked for it."""
        forks: dict[Hashable, _Fork[_Result] | _Conclusion[_Result]] = (
            {} if self._first is None else {None: self._first}
        )
        first, answer = forks, None
        # What a task asks next follows from the answers before, so a fork has one question, whichever target came by;
        # but what can be computed with the version of one, such as ``int(version[4:])``, may raise for another, which
        # then asks what it raises for. That is not kept.
        for question, passed in asked:
            fork = forks.setdefault(answer, _Fork(question=question))
            if not isinstance(fork, _Fork) or fork.question.text != question.text:
                return
            forks, answer = fork.ways, _comparison_key(passed)
        forks.setdefault(answer, _Conclusion(result=result))
        self._first = first[None]


class _QuestionAndAnswer(NamedTuple):
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


def _ask_world(ask: Ask, world: AskedWorld) -> object:
    try:
        return world.foresee(ask)
    except Exception as error:  # noqa: BLE001 - whatever computing with another version may raise is an answer
        return type(error), repr(error)


def _comparison_key(answer: object) -> Hashable:
    """Return an answer for a comparison that tells ``True`` from ``1``, and version 2.9 from 2.9.0."""
    return type(answer), repr(astuple(answer) if isinstance(answer, NotKnown) else answer)


class _Quoting:
    """A world with a sign for each text of an error: code that does not look at the text need not run again for it.

    The same text has the same sign, so that two are equal wherever the texts are.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.texts: list[str] = []

    @cached_property
    def torch_version(self) -> str | Answer:
        return self._world.torch_version

    @cached_property
    def cuda(self) -> str | Answer | None:
        return self._world.cuda

    @cached_property
    def gpus(self) -> tuple[tuple[int, int], ...]:
        return self._world.gpus

    @cached_property
    def cpu(self) -> Cpu | None:
        return self._world.cpu

    @cached_property
    def cxx11_abi(self) -> bool | Answer:
        return self._world.cxx11_abi

    @cached_property
    def python(self) -> tuple[int, int] | Answer:
        return self._world.python

    @cached_property
    def oldest_python(self) -> tuple[int, int] | None:
        return self._world.oldest_python

    @cached_property
    def newest_python(self) -> tuple[int, int] | None:
        return self._world.newest_python

    @cached_property
    def machine(self) -> str:
        return self._world.machine

    @cached_property
    def torch_names(self) -> TorchNames | None:
        return self._world.torch_names

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        answer = self._world.load(path, loader)
        return self._quote(answer) if isinstance(answer, Raised) else answer

    def operator(self, name: str) -> bool | Answer:
        return self._world.operator(name)

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        return self._world.call(operator)

    def refused_load(self, path: str) -> str | None:
        return self._world.refused_load(path)

    def _quote(self, raised: Raised) -> Raised:
        cause = None if raised.cause is None else self._quote(raised.cause)
        if raised.message is None:
            return replace(raised, cause=cause)
        if raised.message not in self.texts:
            self.texts.append(raised.message)
        return replace(raised, message=sign_of(self.texts.index(raised.message)), cause=cause)


def sign_of(number: int) -> str:
    """Return what stands for a text."""
    return f"{_SIGN}{number}"


def number_of(message: str | None) -> int | None:
    """Return the number of the text that a sign stands for; None if it is a text itself."""
    return int(message[len(_SIGN) :]) if message is not None and message.startswith(_SIGN) else None


class AskedWorld:
    """The world of a task, whose answers are noted.

    :param world: one in which nothing is loaded yet
    """

    def __init__(self, world: World) -> None:
        self._world = _Quoting(world)
        self.asked: list[tuple[_Question, object]] = []
        self.times_asked = 0
        """How often it was asked, also for what it had answered before."""
        self._known: dict[Hashable, object] = {}
        self._since_load: dict[Hashable, object] = {}

    @property
    def torch_version(self) -> str | Answer:
        """``torch.__version__``. Who wants to compare it alone asks by ``tells``, for targets to answer alike."""
        return self._ask_once("torch_version", lambda world: world.torch_version)  # type: ignore[return-value]

    @property
    def cuda(self) -> str | Answer | None:
        """``torch.version.cuda``."""
        return self._ask_once("cuda", lambda world: world.cuda)  # type: ignore[return-value]

    @property
    def gpus(self) -> tuple[tuple[int, int], ...]:
        """The compute capabilities of the GPUs that it uses."""
        return self._ask_once("gpus", lambda world: world.gpus)  # type: ignore[return-value]

    @property
    def python(self) -> tuple[int, int] | Answer:
        """The version of the interpreter."""
        return self._ask_once("python", lambda world: world.python)  # type: ignore[return-value]

    @property
    def cpu(self) -> Cpu | None:
        """The processor, None if it is not known."""
        return self._ask_once("cpu", lambda world: world.cpu)  # type: ignore[return-value]

    @property
    def machine(self) -> str:
        """``platform.machine()``."""
        return self._ask_once("machine", lambda world: world.machine)  # type: ignore[return-value]

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """Load a library; see ``World.load``."""
        # A load may bring operators, and change what they return.
        self._since_load.clear()
        return self._ask_now((path, loader), lambda world: world.load(path, loader))  # type: ignore[return-value]

    def text(self, number: int) -> str:
        """Return the text of an error, which the code looks at."""
        return str(self._ask_once(("text", number), lambda world: world.texts[number]))  # type: ignore[attr-defined]

    def spelled_out(self, raised: Raised) -> Raised:
        """Return an error with its texts in place of the signs."""
        number = number_of(raised.message)
        message = raised.message if number is None else self._world.texts[number]
        return replace(raised, message=message, cause=None if raised.cause is None else self.spelled_out(raised.cause))

    def operator(self, name: str) -> bool | Answer:
        """Ask for an operator; see ``World.operator``. No load changes what torch itself has."""
        answers = self._known if name.startswith("aten::") else self._since_load
        return self._ask_once(name, lambda world: world.operator(name), answers)  # type: ignore[return-value]

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """Call an operator; see ``World.call``."""
        return self._ask_once((operator,), lambda world: world.call(operator), self._since_load)  # type: ignore[return-value]

    def refused_load(self, path: str) -> str | None:
        """Ask for a file of the package; see ``World.refused_load``."""
        answer = self.tells(f"what torch.load says of {path}", lambda world: world.refused_load(path))
        return answer if isinstance(answer, str) else None

    def tells(self, text: str, ask: Ask) -> object:
        """Return what follows from the versions of the target; ``text`` says what that is, ``ask`` has no effect."""
        return self._ask_once(("tells", text), ask, lasts=True)

    def tells_now(self, text: str, ask: Ask) -> object:
        """Return the answer to a question like that of ``tells`` about what may change while the package is read."""
        return self._ask_once(("tells", text), ask)

    def foresee(self, ask: Ask) -> object:
        """Return what ``tells`` would answer, without asking."""
        self.times_asked += 1
        return ask(self._world)

    def _ask_once(
        self, text: Hashable, ask: Ask, answers: dict[Hashable, object] | None = None, *, lasts: bool = False
    ) -> object:
        self.times_asked += 1
        answers = self._known if answers is None else answers
        if text not in answers:
            answers[text] = self._ask_now(text, ask, lasts=lasts)
        return answers[text]

    def _ask_now(self, text: Hashable, ask: Ask, *, lasts: bool = False) -> object:
        self.times_asked += 1
        answer = ask(self._world)
        self.asked.append((_Question(text=text, ask=ask, lasts=lasts), answer))
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("asks the target: %s", _QuestionAndAnswer(text, answer))
        return answer
