"""What gives its items one after the other: iterators, and the generators and coroutines of the package.

The body of a generator runs as far as somebody iterates over it. It is a generator of this Python, too, which is
suspended where the other one is; what the machine keeps about it (its frame, the handlers around the place that it is
at) leaves the machine with it and comes back.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from abiscan.python.interpreter.machine import Frame, PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.values import MoreItems, NotKnown, PythonError, Thrown, thrown

MOST_ITEMS = 10_000

Body = Generator[object, object, object]


class Lazy(Modelled):
    """An iterator, whose ``source`` computes the items one by one, and raises what Python raises."""

    __slots__ = ("name", "source")

    def __init__(self, name: str, source: Iterator[object]) -> None:
        self.name, self.source = name, source

    def display_name(self) -> str:
        """Return what made it."""
        return self.name

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return ``__next__`` and ``__iter__``."""
        if name == "__next__":
            return Native(name, lambda machine, _args, _kwargs: self.advance(machine))
        if name in {"__iter__", "__aiter__"}:
            return Native(name, lambda _machine, _args, _kwargs: self)
        return NotKnown(f"{self.name}.{name}")

    def advance(self, machine: PythonMachine) -> object:
        """Return the next item; raises StopIteration after the last one."""
        if machine.is_speculative:
            self.source = iter((self._left(),))
            return NotKnown(f"next({self.name})")
        for item in self.source:
            return item
        raise thrown(StopIteration)

    def rest(self, machine: PythonMachine) -> Iterator[object]:
        """Return the items from here on."""
        source = self.source
        if machine.is_speculative:
            self.source = iter((self._left(),))
        return source

    def _left(self) -> MoreItems:
        """Return what stands for the items that are left where some may have been taken, by code that may have run."""
        return MoreItems(f"list({self.name})")

    def close(self, _machine: PythonMachine) -> None:
        """End the iteration: nobody asks for further items."""


class Enumerated(Lazy):
    """``enumerate`` of a list.

    :param source: the items of the list
    """

    __slots__ = ("items", "start")

    def __init__(self, source: Iterator[object], items: list[object], start: int) -> None:
        super().__init__("enumerate()", number_items(source, start))
        self.items, self.start = items, start


def number_items(source: Iterator[object], start: int) -> Iterator[object]:
    """Yield items with their numbers, as ``enumerate`` does."""
    for number, item in enumerate(source, start):
        yield item if isinstance(item, MoreItems) else (number, item)


_NOTHING_KEPT: Final[tuple[list[Any], ...]] = ([], [], [])
_ENDED: Final = object()


class GeneratorObject(Lazy):
    """A generator of the package, or a coroutine, which has no items, only a result.

    :param frame: the one that its body runs in
    :param node: its source
    """

    __slots__ = ("_body", "_frame", "_is_running", "_is_unclear", "_kept", "_started", "node", "result")

    def __init__(self, name: str, frame: Frame, body: Body, node: ast.AST) -> None:
        super().__init__(name, iter(()))
        self.node = node
        self._body, self._frame = body, frame
        self._kept = _NOTHING_KEPT
        self._started = self._is_running = False
        self._is_unclear = False
        """Whether code that may have run has taken items of it."""
        self.result: object = None

    @property
    def line(self) -> int:
        """The line that it is at."""
        return self._frame.line

    @property
    def guards(self) -> list[tuple[object, ...]]:
        """The exceptions that the ``try`` statements around its ``yield`` catch."""
        return self._kept[0]

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return the methods of a generator."""
        methods: dict[str, Callable[[PythonMachine, list[object]], object]] = {
            "send": lambda machine, args: self.send(machine, args[0] if args else None),
            "throw": lambda machine, args: self.throw(machine, _failure_to_throw(machine, args)),
            "close": lambda machine, _args: self.close(machine),
        }
        methods |= {f"a{name}": method for name, method in methods.items()}
        if name in methods:
            return Native(
                name, lambda machine, args, _kwargs: self._unclear_item(machine) or methods[name](machine, args)
            )
        if name in {"__anext__", "__await__"}:
            return super().get_attribute(machine, "__next__" if name == "__anext__" else "__iter__")
        return super().get_attribute(machine, name)

    def advance(self, machine: PythonMachine) -> object:
        """Return what it yields next; raises StopIteration with its result at its end."""
        return self._unclear_item(machine) or self.send(machine, None)

    def _unclear_item(self, machine: PythonMachine) -> NotKnown | None:
        """Return what stands for its next item where that is not known; from then on, no other is."""
        self._is_unclear = self._is_unclear or machine.is_speculative
        return NotKnown(f"next({self.name})") if self._is_unclear else None

    def rest(self, machine: PythonMachine) -> Iterator[object]:
        """Yield the items from here on."""
        if self._is_unclear:
            yield self._left()
            return
        self._is_unclear = machine.is_speculative
        self._started = True
        go_on = functools.partial(self._body.send, None)
        while (item := self._resume(machine, go_on)) is not _ENDED:
            yield item

    def send(self, machine: PythonMachine, value: object) -> object:
        """Run it until its next ``yield``; the one that it is suspended at gives ``value``."""
        if value is not None and not self._started:
            raise thrown(TypeError, "can't send non-None value to a just-started generator")
        self._started = True
        return self._item(self._resume(machine, lambda: self._body.send(value)))

    def throw(self, machine: PythonMachine, failure: PythonError) -> object:
        """Raise an exception at the ``yield`` that it is suspended at."""
        # Without a place to raise it at, the generator is over, and the exception goes to the caller.
        if not self._started:
            self._body.close()
            raise Thrown(failure)
        return self._item(self._resume(machine, lambda: self._body.throw(Thrown(failure))))

    def _item(self, item: object) -> object:
        """Return what it has yielded; raise what Python does at its end."""
        if item is _ENDED:
            raise thrown(StopIteration, *([] if self.result is None else [self.result]))
        return item

    def close(self, machine: PythonMachine) -> None:
        """End it where it is suspended."""
        if not self._started:
            self._body.close()
            return
        # As gen_close (Objects/genobject.c): both of these say that the generator has ended.
        try:
            self.throw(machine, PythonError(GeneratorExit))
        except Thrown as error:
            if error.failure.cls not in (GeneratorExit, StopIteration):
                raise

    def _resume(self, machine: PythonMachine, action: Callable[[], object]) -> object:
        """Let it go on; return what it yields, or the sign of its end."""
        if self._is_running:
            raise thrown(ValueError, "generator already executing")
        if len(machine.frames) >= machine.limits.depth:
            machine.gap(f"{self.name} is called too deeply to be followed")
            return _ENDED
        # While the generator is suspended, the stacks of the machine hold nothing of it. What its body has pushed comes
        # back on top of them before it goes on, and is taken off again when it stops, however it does.
        stacks: tuple[list[Any], ...] = (machine.guards, machine.handling, machine.listeners)
        depths = len(stacks[0]), len(stacks[1]), len(stacks[2])
        if self._kept is not _NOTHING_KEPT:
            for stack, kept in zip(stacks, self._kept, strict=True):
                stack.extend(kept)
        machine.frames.append(self._frame)
        is_speculative, self._is_running = machine.is_speculative, True
        try:
            return action()
        except StopIteration as end:  # of the body
            self.result = end.value
            return _ENDED
        except Thrown as error:
            error.failure.at = error.failure.at or machine.place()
            if error.failure.cls is not StopIteration:
                raise
            # PEP 479: it would be taken for the end of the generator.
            text = "generator raised StopIteration"
            raise Thrown(PythonError(RuntimeError, (text,), cause=error.failure, at=error.failure.at)) from None
        finally:
            machine.frames.pop()
            self._is_running, machine.is_speculative = False, is_speculative
            self._kept = _NOTHING_KEPT
            if (len(stacks[0]), len(stacks[1]), len(stacks[2])) != depths:
                self._kept = tuple(stack[depth:] for stack, depth in zip(stacks, depths, strict=True))
                for stack, depth in zip(stacks, depths, strict=True):
                    del stack[depth:]


class Coroutine(GeneratorObject):
    """A call of an ``async def``: its body runs once it is awaited."""

    __slots__ = ()

    def wait(self, machine: PythonMachine) -> object:
        """Run it to its end; return its result."""
        try:
            self.send(machine, None)
        except Thrown as error:
            if error.failure.cls is not StopIteration:
                raise
            return error.failure.args[0] if error.failure.args else None
        return NotKnown(f"{self.name}()")


def _failure_to_throw(machine: PythonMachine, args: list[object]) -> PythonError:
    """Return the exception that ``throw`` gets: an object, or a class with the argument to make one of."""
    value = args[0] if args else NotKnown("throw()")
    made = value if isinstance(value, PythonError) else machine.call(value, args[1:2], {})
    return made if isinstance(made, PythonError) else PythonError(value)


def take_few(source: Iterator[object]) -> list[object] | None:
    """Return all items, None if there are very many."""
    taken = list(islice(source, MOST_ITEMS + 1))
    return None if len(taken) > MOST_ITEMS else taken


@contextmanager
def push_item(stack: list[object], item: object) -> Iterator[None]:
    """Push an item on a stack of the machine, and pop it at the end.

    Not for GeneratorExit: Python closes a generator that is no longer used, and the items of that one left the machine
    when it was suspended.
    """
    stack.append(item)
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException:
        stack.pop()
        raise
    stack.pop()
