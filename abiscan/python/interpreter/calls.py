"""Calls: of functions and classes of the package, and of everything else that can be called."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import PurePath
from typing import Final
from zlib import crc32

from msgspec import Struct

from abiscan.python.interpreter import attributes, loading, special
from abiscan.python.interpreter.builtin_methods import HostMethod, construct_built_in
from abiscan.python.interpreter.classes import ClassMaking
from abiscan.python.interpreter.compiling import Code, body_of, value_of
from abiscan.python.interpreter.contexts import Manager
from abiscan.python.interpreter.filesystem import note_handed_over
from abiscan.python.interpreter.iteration import Body, Coroutine, GeneratorObject
from abiscan.python.interpreter.kept_calls import call_once, may_be_long, may_keep
from abiscan.python.interpreter.machine import Frame, PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.operations import describe_value
from abiscan.python.interpreter.signals import Returned, Signal
from abiscan.python.interpreter.values import (
    MORE_ITEMS,
    VIEWS,
    WAITING,
    Bound,
    Class,
    FunctionNode,
    Instance,
    MoreItems,
    NotKnown,
    PythonFunction,
    PythonModule,
    Scope,
    TargetExpression,
    Thrown,
    Why,
    Wrapped,
    class_of,
    note_added,
    thrown,
)
from abiscan.python.language.grammar import FAILURES, find_newer, parse, words_of, words_of_newer
from abiscan.python.language.refusals import missing_arguments, too_many_arguments
from abiscan.python.language.suggestions import closest_name
from abiscan.python.language.targets import bound_in_body, yields
from abiscan.python.package import standard
from abiscan.python.package.model import Answer, NoResult

_CHANGING = frozenset({"random", "secrets", "time", "uuid"})
"""The modules whose functions give something else each time."""


class Super(Modelled):
    """``super()`` inside a method: what comes after a class among the ancestors of an object."""

    __slots__ = ("owner", "receiver")

    def __init__(self, owner: Class, receiver: object) -> None:
        self.owner, self.receiver = owner, receiver

    def _find_ancestry(self) -> tuple[list[object], Class | None]:
        """Return the ancestors to look through, and the class that attributes are then taken from."""
        # In the order of supercheck (Objects/typeobject.c): a receiver that is itself a class below the owner, as in a
        # class method or in ``__new__``, then an object of such a class.
        receiver = self.receiver
        if isinstance(receiver, Class) and self.owner in receiver.ancestry():
            return receiver.ancestry(), receiver
        cls = class_of(receiver)
        return (cls or self.owner).ancestry(), cls

    def get_attribute(self, machine: object, name: str) -> object:
        """Return an attribute of the next class that has it."""
        ancestry, cls = self._find_ancestry()
        after = ancestry[ancestry.index(self.owner) + 1 :] if self.owner in ancestry else []
        receiver = None if cls is self.receiver else self.receiver
        # The search goes on after the owner in the ancestry of the receiver, not of the owner (super_getattro in
        # Objects/typeobject.c). A base outside of the package may have the name: the search ends there without an
        # answer.
        for base in after:
            if isinstance(base, Class) and name in base.names:
                return machine.bound(base.names[name], receiver, cls)  # type: ignore[attr-defined]
            if not isinstance(base, (Class, type)):
                return NotKnown(f"super().{name}")
        # ``object`` has none, unlike most names that start so; code asks for it to pass on what it does not know
        # itself.
        if name == "__getattr__":
            raise thrown(AttributeError, "'super' object has no attribute '__getattr__'")
        # A built-in base comes after all classes of the package. What initialises or sets is modelled, since it gets
        # objects of the package.
        inner = self.receiver.inner if isinstance(self.receiver, Instance) else None
        if inner is not None and name not in {"__init__", "__new__", "__setattr__", "__getattribute__", "__delattr__"}:
            return HostMethod(inner, name)
        method = attributes.default_method(name, self.receiver)
        return NotKnown(f"super().{name}") if method is None else method

    def put(self, machine: PythonMachine, name: str, value: object) -> None:
        """Execute ``super().name = value``: nothing of it is remembered."""


class Calls(ClassMaking):
    """Calls values."""

    def call(self, function: object, args: list[object], kwargs: dict[str, object]) -> object:
        """Call a value."""
        value = self.call_unsettled(function, args, kwargs)
        return self.settle(value) if type(value) is TargetExpression else value

    def call_unsettled(self, function: object, args: list[object], kwargs: dict[str, object]) -> object:
        """Call a value; what it gives may be a question to the target."""
        kind = type(function)
        if kind is PythonFunction:
            return self.call_function(function, args, kwargs)  # type: ignore[arg-type]
        if kind is Native:
            return function.function(self, args, kwargs)  # type: ignore[attr-defined]
        if kind is Bound:
            return self.call_unsettled(function.function, [function.receiver, *args], kwargs)  # type: ignore[attr-defined]
        if kind in WAITING:
            return self.call_unsettled(self.settle(function), args, kwargs)
        if isinstance(function, Modelled):
            return function.call(self, args, kwargs)
        if isinstance(function, NotKnown):
            return self._call_unknown(function, args, kwargs)
        if isinstance(function, Wrapped):
            return self._call_wrapped(function, args, kwargs)
        # Looked up on the type, never on the object; so that of a metaclass goes before making an object, which is only
        # what ``type.__call__`` does (slot_tp_call and type_call in Objects/typeobject.c).
        method = special.special_method(self, function, "__call__")
        if method is not None:
            return self.call(method, args, kwargs)
        if isinstance(function, Class):
            return self.instantiate(function, args, kwargs)
        if isinstance(function, type):
            return construct_built_in(self, function, args, kwargs)
        if isinstance(function, (str, int, float, list, tuple, dict, set, type(None), PythonModule, Instance)):
            raise thrown(TypeError, f"'{special.type_name(function)}' object is not callable")
        return NotKnown(f"{describe_value(function)}()")

    def _call_unknown(self, function: NotKnown, args: list[object], kwargs: dict[str, object]) -> object:
        self.outward += 1
        self.note_possible_uses(function, [*args, *kwargs.values()])
        if not only_keeps(function.name):
            self._hand_over([*args, *kwargs.values()])
        # A function of an extension module that is loaded: what it returns may be known from its machine code.
        module, _, name = function.name.rpartition(".")
        if module in self.extensions and not args and not kwargs:
            result = self.call_operator(f"{self.extensions[module]}:{name}")
            if not isinstance(result, NoResult):
                return result
        # All others are assumed to return the same for the same arguments, so that two conditions on such calls are
        # decided in the same way.
        if function.name.partition(".")[0] in _CHANGING:
            return NotKnown(f"{function.name}()", function.why)
        return function.part("()", *args, *kwargs.values())

    def _hand_over(self, values: Iterable[object]) -> None:
        """Note that code which is not read gets modules, perhaps by ``__name__``, and dicts: it may add any name."""
        for value in values:
            if type(value) is dict:
                note_added(value)
                continue
            module = self.modules.get(value) if isinstance(value, str) else value
            # By the very text of ``__name__``: a distribution, too, may go by the same name.
            if isinstance(module, PythonModule) and (module is value or module.name is value):
                module.open_ = True

    def _call_wrapped(self, function: Wrapped, args: list[object], kwargs: dict[str, object]) -> object:
        if function.kind == "contextmanager" and isinstance(function.function, PythonFunction):
            return Manager(function.function, list(args), kwargs)
        return self.call(function.function, args, kwargs)

    # ---- code that is not read

    def note_possible_uses(self, caller: NotKnown, values: Iterable[object]) -> None:
        """Note that code which is not read gets values, and may call the functions among them."""
        self.outward += 1
        waiting = list(values)
        # A value that occurs twice, or in itself, is used once.
        seen: set[int] = set()
        while waiting:
            value = waiting.pop(0)
            if isinstance(value, (list, tuple, dict, *VIEWS)):
                if id(value) not in seen:
                    seen.add(id(value))
                    waiting[:0] = list(value.values() if isinstance(value, dict) else value)[:20]
            elif isinstance(value, (str, bytes, PurePath)):
                self._note_possible_load(caller, value)
                if not isinstance(value, bytes):
                    note_handed_over(self, value)
            elif isinstance(value, (PythonFunction, Bound)):
                self.note_possible_call(caller, value)
            elif isinstance(value, GeneratorObject):
                self._note_possible_iteration(caller, value)
            elif isinstance(value, Instance):
                for name in _callable_methods(value.cls, hooks=_is_hook(caller.name)):
                    self.note_possible_call(caller, Bound(value.cls.find(name), value))

    def _note_possible_load(self, caller: NotKnown, value: str | bytes | PurePath) -> None:
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        if len(text) > _LONGEST_PATH or not self.files.system.libraries.search(text) or only_handles(caller.name):
            return
        inside = self.files.inside(text)
        if inside:
            self.note_possible_loads(caller.name, [inside])

    def note_possible_loads(self, caller: str, libraries: Iterable[str]) -> None:
        """Note that code which is not read may load libraries, and follow what happens if one does not load."""
        tried = {attempt.path for attempt in self.trace.attempts}
        left = [path for path in libraries if path not in tried]
        if self.is_speculative or not left:
            return
        # By default it loads none of them. What stands for the first of them takes the place of the column.
        spot = (self.place().line, -crc32(left[0].encode()))
        named = left[0] if len(left) == 1 else f"{left[0]} or another of {len(left)} libraries"
        if self.decide(f"{caller} loads {named}", Why.CALLBACK, spot, default=False):
            for path in left:
                loading.load_unseen(self, path)

    def note_possible_call(self, caller: NotKnown, function: object) -> None:
        """Note that code which is not read may call a function of the package, and follow what it does then."""
        self.outward += 1
        inner: object = function
        while isinstance(inner, (Bound, Wrapped)):
            inner = inner.function
        if not isinstance(inner, PythonFunction) or self.is_speculative or only_keeps(caller.name):
            return
        if not self.library.acts(inner.node):
            return
        # By default it is not called; another run follows the call (see ``explore``). The negative line of the function
        # takes the place of the column, which tells two functions that are passed in one line apart.
        line = inner.node.lineno
        text = f"{caller.name} calls {inner.name} ({inner.scope.module.file}:{line})"
        if self.decide(text, Why.CALLBACK, (self.frames[-1].line, -line), default=False):
            count = len(inner.node.args.posonlyargs) + len(inner.node.args.args) - isinstance(function, Bound)
            self.call(function, [NotKnown(f"an argument of {caller.name}", Why.CALLBACK)] * max(count, 0), {})

    def _note_possible_iteration(self, caller: NotKnown, value: GeneratorObject) -> None:
        if self.is_speculative or only_keeps(caller.name) or not self.library.acts(value.node):
            return
        text = f"{caller.name} iterates over {value.name}"
        if self.decide(text, Why.CALLBACK, (self.frames[-1].line, -value.line), default=False):
            self.items(value)

    # ---- functions

    def call_function(self, function: PythonFunction, args: list[object], kwargs: dict[str, object]) -> object:
        """Run a function of the package; a generator, or a coroutine, is not run yet."""
        if function.name == "check":
            from abiscan.python.interpreter import own_guard  # which few packages have

            if own_guard.finds_no_difference(self, function):
                return None
        node = function.node
        form: FunctionForm = node.__dict__.get("compiled_function") or _make_form(node)
        # Taken before the arguments are bound: where they are refused, it must not be left for the next call.
        for_names, self.called_for_names = self.called_for_names is function, None
        positional = form.positional
        if form.is_plain and not kwargs and len(args) == len(positional) and MORE_ITEMS.isdisjoint(map(type, args)):
            names: dict[str, object] = dict(zip(positional, args, strict=True))
        else:
            names = self.bind_arguments(function, args, kwargs)
        scope = Scope(
            names,
            function.scope.module,
            function.scope,
            function=function,
            bound=form.bound,
            prefix=f"{function.qualified}.<locals>.",
        )
        # Nothing of a generator or a coroutine runs yet, but its arguments are bound, and refused, at the call.
        if not form.is_generator and not form.is_coroutine:
            if not form.may_be_long or not may_keep(self, node):
                return self._run_function(function, form, scope, for_names=for_names)
            run = partial(self._run_function, function, form, scope, for_names=for_names)
            return call_once(self, function, scope, run)
        self.trace.called.add(node)
        frame = Frame(
            file=function.scope.module.file,
            line=node.lineno,
            function=function,
            scope=scope,
            suspends=form.is_generator,
        )
        if not form.is_generator:
            return Coroutine(f"{function.name}()", frame, self._at_once(form, scope), node)
        return GeneratorObject(f"{function.name}()", frame, self._suspended(node, scope), node)

    def _at_once(self, form: FunctionForm, scope: Scope) -> Body:
        """Run the body of a coroutine at once: nothing suspends it."""
        yield from ()
        return self.settle(self._result(form.run(self, scope)))

    def _suspended(self, node: FunctionNode, scope: Scope) -> Body:
        """Run the body of a generator."""
        if isinstance(node, ast.Lambda):
            yield from self._lifted([node.body], scope)
            return self.evaluate(node.body, scope)
        return self.settle(self._result((yield from self.flow(node.body, scope))))

    def _result(self, signal: Signal | None) -> object:
        """Return what a function returns whose body has ended so."""
        if signal is None:
            return None
        if isinstance(signal, Returned):
            return signal.value
        raise self.misplaced()

    def _run_function(self, function: PythonFunction, form: FunctionForm, scope: Scope, *, for_names: bool) -> object:
        self.steps += _STEPS_PER_CALL
        if self.steps > self.most_steps:
            self.count_steps(0)
        frames, node = self.frames, function.node
        # A function that may run, and that calls itself under an unknown condition, would never end. Its changes are
        # noted when it runs for the first time.
        if (
            self.is_speculative
            and sum(frame.function is not None and frame.function.node is node for frame in frames) >= _MOST_ROUNDS
        ):
            return NotKnown(f"{function.name}()")
        if len(frames) >= self.limits.depth:
            self._note_possible_recursion(function)
            self.gap(f"{function.name} is called too deeply to be followed")
            return NotKnown(f"{function.name}()")
        self.trace.called.add(node)
        file = function.scope.module.file
        frames.append(Frame(file=file, line=node.lineno, function=function, scope=scope, for_names=for_names))
        try:
            signal = form.run(self, scope)
        except Thrown as error:
            error.failure.at = error.failure.at or self.place()
            raise
        except RecursionError:
            self.gap(f"{function.name} is nested too deeply to be followed")
            return NotKnown(f"{function.name}()")
        finally:
            frames.pop()
        if signal is None:
            return None
        return signal.value if type(signal) is Returned else self._result(signal)

    def _note_possible_recursion(self, function: PythonFunction) -> None:
        """Follow what happens if a function that is called too deep calls itself without end."""
        again = sum(frame.function is not None and frame.function.node is function.node for frame in self.frames)
        text, spot = f"{function.name} calls itself without end", (self.frames[-1].line, -function.node.lineno)
        if again >= _OFTEN and self.decide(text, Why.CALLBACK, spot, default=False):
            raise thrown(RecursionError, NotKnown("maximum recursion depth exceeded"))

    def bind_arguments(
        self, function: PythonFunction, args: list[object], kwargs: dict[str, object]
    ) -> dict[str, object]:
        """Return the parameters by name; raises where Python certainly would."""
        form = form_of(function.node)
        positional = form.positional
        if form.is_plain and len(args) <= len(positional) and not _takes_more(args):
            plain = _bind_plainly(function, form, args, kwargs)
            if plain is not None:
                return plain
        # As initialize_locals (Python/ceval.c): by position first, then by name. Parameters that are positional only
        # leave their names free for ``**kwargs``.
        parameters = function.node.args
        names: dict[str, object] = {}
        # An unknown number of arguments may fill any parameter: those before it have their place, and no call is
        # refused.
        takes_more = _takes_more(args)
        unclear = takes_more or self.is_speculative
        by_name = list(filter(_is_of_names, args)) if takes_more else []
        args = [value for value in args if not _is_of_names(value)] if by_name else args
        known = next((index for index, value in enumerate(args) if isinstance(value, MoreItems)), len(args))
        names.update(zip(positional, args[:known], strict=False))
        may_be_given = form.parameters if by_name else positional if known < len(args) else ()
        leftover = dict(kwargs)
        lacking = []
        for name in form.parameters:
            if name in leftover and name not in form.only_positional:
                if name in names and not unclear:
                    raise thrown(
                        TypeError, f"{self._name_in_errors(function)}() got multiple values for argument '{name}'"
                    )
                names[name] = leftover.pop(name)
            elif name not in names:
                is_known = name in function.defaults and name not in may_be_given
                names[name] = function.defaults[name] if is_known else NotKnown(name)
                if name not in function.defaults and name in form.required:
                    lacking.append(name)
        if not unclear:
            self._refuse_arguments(function, lacking, leftover, len(args), passed=kwargs.keys())
        if parameters.vararg:
            names[parameters.vararg.arg] = tuple(args[min(len(positional), known) :])
        if parameters.kwarg:
            by_keyword: dict[object, object] = dict(leftover.items())
            by_keyword.update(zip(by_name, by_name, strict=True))
            names[parameters.kwarg.arg] = by_keyword
        return names

    def _refuse_arguments(
        self,
        function: PythonFunction,
        lacking: list[str],
        leftover: dict[str, object],
        count: int,
        *,
        passed: AbstractSet[str],
    ) -> None:
        """Raise what Python raises if a function is called with arguments that it does not take.

        :param lacking: the required parameters that got none
        :param leftover: the keywords that are no parameters
        :param count: the number of arguments that were passed by position
        :param passed: all keywords
        """
        parameters = function.node.args
        is_unexpected = bool(leftover) and parameters.kwarg is None
        most = len(parameters.posonlyargs) + len(parameters.args)
        if not (is_unexpected or lacking or (count > most and parameters.vararg is None)):
            return
        # In the order of initialize_locals (Python/ceval.c).
        name = self._name_in_errors(function)
        if is_unexpected:
            by_position = [parameter.arg for parameter in parameters.posonlyargs if parameter.arg in leftover]
            if by_position:
                text = "got some positional-only arguments passed as keyword arguments"
                raise thrown(TypeError, f"{name}() {text}: '{', '.join(by_position)}'")
            by_name = [parameter.arg for parameter in (*parameters.args, *parameters.kwonlyargs)]
            raise thrown(TypeError, self._word_unexpected(name, next(iter(leftover)), by_name))
        keyword_only = {parameter.arg for parameter in parameters.kwonlyargs}
        if count > most and not parameters.vararg:
            words = too_many_arguments(name, most, len(parameters.defaults), count, len(passed & keyword_only))
            raise thrown(TypeError, words)
        if lacking:
            raise thrown(TypeError, missing_arguments(name, lacking, keyword_only))

    def _word_unexpected(self, function: str, keyword: str, parameters: Sequence[str]) -> object:
        """Return what Python says of a keyword that is no parameter; since 3.13, with the parameter that is meant."""
        text = f"{function}() got an unexpected keyword argument '{keyword}'"
        if self.before(3, 13):
            return text
        meant = closest_name(keyword, parameters)
        if meant is None:
            return text
        return f"{text}. Did you mean '{meant}'?" if self.since(3, 13) else NotKnown(text)

    def _name_in_errors(self, function: PythonFunction) -> str:
        """Return how errors about arguments name a function."""
        return function.name if self.before(3, 10) else function.qualified or function.name

    # ---- functions that look at their caller

    def special(self, name: str, args: list[object], scope: Scope) -> object:
        """Call one of the built-in functions that look at their caller."""
        self.outward += 1
        if name == "super":
            return self._make_super(args, scope)
        if name in {"exec", "eval"}:
            return self._execute_text(name, args, scope)
        if name == "dir":
            return self._call_dir(args)
        if name in {"vars", "locals"} and (args or scope.around is not None):
            return self.get_attribute(args[0], "__dict__") if args else NotKnown(f"{name}()")
        # Code that has the dictionary of a module may bind any name in it.
        scope.module.open_ = True
        if name not in {"globals", "vars", "locals"}:
            return NotKnown(f"{name}()")
        for own in attributes.OWN_NAMES:
            if own not in scope.module.names and (own != "__path__" or scope.module.folders):
                scope.module.names[own] = attributes.of_module(self, scope.module, own)
        return scope.module.names

    def _call_dir(self, args: list[object]) -> object:
        """Execute ``dir``."""
        value = args[0] if args else None
        names = attributes.names_in(self, value) if isinstance(value, PythonModule) else None
        if names is not None and "__dir__" not in names:
            return sorted(names)
        listed = value.list_names(self) if isinstance(value, Modelled) else None
        if listed is not None:
            return listed
        method = special.special_method(self, value, "__dir__") if args else None
        return NotKnown("dir()") if method is None else self.call(method, [], {})

    def _execute_text(self, name: str, args: list[object], scope: Scope) -> object:
        """Execute ``exec`` or ``eval`` of a text, here or with a dict of names, as packages read ``version.py``."""
        given = [scope.module.names if item is None else item for item in args[1:3]]
        spaces = [item for item in given if isinstance(item, dict)]
        names = given[-1] if given and isinstance(given[-1], dict) else None
        code = args[0] if args else None
        if isinstance(code, (str, bytes)):
            self.count_steps(len(code))  # a character is parsed in the time of a step
        tree = self._parse_code(code.lstrip() if isinstance(code, (str, bytes)) and name == "eval" else code)
        # The text is not known: it may bind any name, in the dict that it was given and in the module, and load
        # anything.
        if tree is None:
            if names is not None:
                names[NotKnown(f"{name}()")] = NotKnown(f"{name}()")  # it may have any name now
            scope.module.open_ = True
            self.note_possible_loads(f"the text that {name} runs", self.files.libraries)
            return NotKnown(f"{name}()")
        # With a dict of its own, the text runs like the body of a module: there is no scope around it.
        inner, is_open = scope, False
        bound: dict[str, object] = {}
        if given:
            bound = {str(key): value for space in spaces for key, value in space.items() if isinstance(key, str)}
            # Names of a dict that is not known, such as that of a function's locals(), may be any.
            is_open = len(spaces) < len(given)
            inner = Scope(bound, PythonModule("exec", bound, scope.module.file, open_=is_open))
        result: object = None
        # The lines of the text are none of the package's: what it does happens at the line of the call.
        self.frames.append(Frame(file=None, function=self.frames[-1].function))
        try:
            if name == "eval" and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
                result = self.evaluate(tree.body[0].value, inner)
            else:
                self.execute_whole(tree.body, inner)
        finally:
            self.frames.pop()
        if names is not None:
            names.update(bound)
            if inner.module.open_ and not is_open:  # ``from numpy import *``
                names[NotKnown(f"{name}()")] = NotKnown(f"{name}()")
        return result

    def _parse_code(self, code: object) -> ast.Module | None:
        """Return the tree of a text; raises what Python raises for one that is no code of its version."""
        if not isinstance(code, (str, bytes)):
            return None
        source = code.encode("utf-8", "replace") if isinstance(code, str) else code
        python = self.world.python
        try:
            tree = parse(code)
        except SyntaxError as error:
            words = None if isinstance(python, Answer) else words_of(error, source, "<string>", python)
            raise syntax_error(words, type(error)) from None
        except FAILURES:
            return None
        newer = None if isinstance(python, Answer) else find_newer(source, python, lambda: tree)
        if newer is not None and not isinstance(python, Answer):
            raise syntax_error(words_of_newer(newer, "<string>", python))
        return tree

    def _make_super(self, args: list[object], scope: Scope) -> object:
        # Without arguments, super_init (Objects/typeobject.c) takes the class from the cell ``__class__`` and the
        # object from the first argument of the frame. Here the function knows its class. The first parameter is looked
        # for in the scopes around, too, since a comprehension inside of a method has a scope of its own.
        function = self.frames[-1].function
        owner = args[0] if args else function.owner if function is not None else None
        parameters = function.node.args if function is not None else None
        first = next(iter((*parameters.posonlyargs, *parameters.args)), None) if parameters else None
        inner: Scope | None = scope
        while inner is not None and first is not None and first.arg not in inner.names:
            inner = inner.around
        receiver = args[1] if len(args) > 1 else inner.names.get(first.arg) if first and inner else None
        if receiver is None and parameters and parameters.vararg:
            packed = scope.names.get(parameters.vararg.arg)
            receiver = packed[0] if isinstance(packed, tuple) and packed else None
        return Super(owner, receiver) if isinstance(owner, Class) else NotKnown("super()")


def _bind_plainly(
    function: PythonFunction, form: FunctionForm, args: list[object], kwargs: dict[str, object]
) -> dict[str, object] | None:
    """Return the parameters by name; None if some lack a value, or an argument has no parameter of its own."""
    positional = form.positional
    names, by_name, defaults = dict(zip(positional, args, strict=False)), 0, function.defaults
    for name in positional[len(args) :]:
        if name in kwargs:
            names[name] = kwargs[name]
            by_name += 1
        elif name in defaults:
            names[name] = defaults[name]
        else:
            return None
    return names if by_name == len(kwargs) else None


class FunctionForm(Struct, frozen=True, kw_only=True):
    """What a function is, whichever values its parameters have.

    :ivar run: its body
    :ivar bound: the names that its body binds, but for those that it declares elsewhere
    :ivar positional: the parameters that arguments by position go to
    :ivar parameters: all that are named, but for those with a star
    :ivar required: those without a default value
    :ivar is_plain: whether all parameters take arguments by position or by name
    :ivar may_be_long: whether it has a loop, or calls others
    """

    run: Code
    bound: frozenset[str]
    positional: tuple[str, ...]
    parameters: tuple[str, ...]
    only_positional: frozenset[str]
    required: frozenset[str]
    is_plain: bool
    may_be_long: bool
    is_generator: bool
    is_coroutine: bool


def form_of(node: FunctionNode) -> FunctionForm:
    """Return the form of a function, compiled as it is called for the first time."""
    made: FunctionForm | None = node.__dict__.get("compiled_function")
    return made or _make_form(node)


def _make_form(node: FunctionNode) -> FunctionForm:
    args = node.args
    positional = tuple(parameter.arg for parameter in (*args.posonlyargs, *args.args))
    keyword_only = tuple(parameter.arg for parameter in args.kwonlyargs)
    without = [name for name, value in zip(keyword_only, args.kw_defaults, strict=True) if value is None]
    form = node.__dict__["compiled_function"] = FunctionForm(
        run=_body_of_lambda(node) if isinstance(node, ast.Lambda) else body_of(node.body),
        bound=frozenset() if isinstance(node, ast.Lambda) else bound_in_body(node),
        positional=positional,
        parameters=positional + keyword_only,
        only_positional=frozenset(parameter.arg for parameter in args.posonlyargs),
        required=frozenset([*positional[: len(positional) - len(args.defaults)], *without]),
        is_plain=not (keyword_only or args.vararg or args.kwarg or args.posonlyargs),
        may_be_long=may_be_long(node),
        is_generator=yields(node),
        is_coroutine=isinstance(node, ast.AsyncFunctionDef),
    )
    return form


def _body_of_lambda(node: ast.Lambda) -> Code:
    steps, value = value_of(node.body)

    def run(machine: Calls, scope: Scope) -> Returned:
        machine.count_steps(steps)
        return Returned(value(machine, scope))

    return run


def _is_of_names(value: object) -> bool:
    """Whether a value stands for arguments with names that are not known: see ``Expressions.arguments``."""
    return type(value) is MoreItems and value.name.startswith("**")


def _takes_more(args: list[object]) -> bool:
    """Whether there is an unknown number of arguments."""
    return not MORE_ITEMS.isdisjoint(map(type, args))


def syntax_error(words: str | None, cls: type[Exception] = SyntaxError) -> Thrown:
    """Return an error of a source, such as IndentationError, or a SyntaxError whose text is not known."""
    return thrown(SyntaxError, NotKnown("the text of the SyntaxError")) if words is None else thrown(cls, words)


_MOST_ROUNDS: Final = 2
"""How often a function that perhaps runs is in the calls of itself."""
_STEPS_PER_CALL: Final = 8
"""How many steps take as long as binding the arguments of a call."""
_HOOK_MODULES: Final = ("sys.",)
"""What Python itself asks later: a finder in ``sys.meta_path`` at the next import."""
_ADDING_HOOKS: Final = frozenset({"addHandler", "addFilter"})
"""Methods of loggers, which call what they were given at the next message."""


def _is_hook(name: str) -> bool:
    """Whether a function keeps the objects that it gets, and calls methods of theirs later."""
    return name.startswith(_HOOK_MODULES) or name.rpartition(".")[2] in _ADDING_HOOKS


_CLASS_HOOKS: Final = frozenset({"__init__", "__new__", "__init_subclass__", "__set_name__", "__del__"})


def _callable_methods(cls: Class, *, hooks: bool) -> Iterator[str]:
    """Yield the methods of a class of the package that others may call on an object: special ones, and those of
    hooks.
    """
    for ancestor in cls.ancestry():
        for name, value in ancestor.names.items() if isinstance(ancestor, Class) else ():
            special_one = name.startswith("__") and name not in _CLASS_HOOKS
            if (special_one or hooks) and isinstance(value, PythonFunction):
                yield name


KEEPERS: Final = (
    "torch.", "triton", "typing", "abc.", "atexit.", "copyreg.", "signal.", "weakref.", "warnings.", "numba", "pytest",
    "functools.", "inspect.", "super()", "logging", "np.", "numpy", "multiprocessing",
    "ctypes.CFUNCTYPE", "ctypes.PYFUNCTYPE", "ctypes.WINFUNCTYPE",
)  # fmt: skip
"""Code that is not read and keeps the functions that it is given: it calls none while the package is imported."""
KEEPING: Final = frozenset({
    "append", "appendleft", "add", "extend", "insert", "put", "push", "set", "setdefault", "update", "__setitem__",
})  # fmt: skip
"""Methods of containers, which keep what they are given."""
REGISTERING: Final = "register"
"""How the names of functions begin that keep what they are given for later: ``register_new_resolver``."""


_OFTEN: Final = 5
_LONGEST_PATH: Final = 4096
_TAKING_LIBRARIES: Final = frozenset(
    {"ctypes", "_ctypes", "imp", "_imp", "importlib", "multiprocessing", "runpy", "sqlite3"}
)
"""The modules of the standard library with functions that may load what they get the path of."""


def only_handles(name: str) -> bool:
    """Whether code that is not read is known not to load a library whose path it gets: it stores it, or opens it."""
    top = name.partition(".")[0].partition("(")[0]
    is_standard = standard.has_module(top, Answer.UNKNOWN) is not False and top not in _TAKING_LIBRARIES
    return is_standard or top in {"open", "stream", "logger"} or name.rpartition(".")[2] in KEEPING


def only_keeps(name: str) -> bool:
    """Whether code that is not read is known not to call the functions that it is given."""
    if _is_hook(name):
        return False
    top, last = name.partition(".")[0], name.rpartition(".")[2]
    # Of the standard library, some call it in the end: what ``codecs.register`` gets is called by ``codecs.lookup``.
    is_register = last.startswith(REGISTERING) and standard.has_module(top, Answer.UNKNOWN) is False
    return name.startswith(KEEPERS) or last in KEEPING or is_register
