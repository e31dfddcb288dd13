"""Makes small programs: nested control flow, classes, generators, exceptions, and functions that call functions.

A program is made from a number, always the same one. What it does is decided by nothing but itself and by whether the
library "bad" loads, so that a reading can follow all of it.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable

_DEEPEST = 3
_ERRORS = ("OSError", "ValueError", "KeyError", "(OSError, KeyError)", "Exception", "LookupError")
_OPERATORS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "@": "matmul",
    "<<": "lshift",
    ">>": "rshift",
    "&": "and",
    "|": "or",
    "^": "xor",
    "**": "pow",
}
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class Maker:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def name(self, stem: str) -> str:
        """A name that is not used yet."""
        self.count += 1
        return f"{stem}{self.count}"

    def chance(self, of: float) -> bool:
        """True now and then."""
        return self.random.random() < of

    def load(self) -> str:
        """A load, as an expression; that of "good" never fails."""
        return f'load("{self.random.choice(("good", "bad", "bad"))}")'

    def value(self) -> str:
        """A small number, or what has the value of one."""
        number = self.random.randint(0, 4)
        forms = ("{0}", "len([0] * {0})", "int('{0}')", "sum([{0}])", "[{0}][0]", "max({0}, 0)", "({0} if True else 9)")
        return self.random.choice(forms).format(number)

    def condition(self) -> str:
        """A condition."""
        sign = self.random.choice(list(_COMPARISONS))
        plain = f"{self.value()} {sign} {self.value()}"
        return self.random.choice(
            (plain, f"not {plain}", f"{plain} and {self.value()}", f"{self.value()} in (1, 2)", f"bool({self.value()})")
        )

    def body(self, depth: int, *, loop: bool = False, function: bool = False) -> str:
        """Some statements."""
        lines = [self.statement(depth, loop=loop, function=function) for _ in range(self.random.randint(1, 2))]
        return "".join(lines)

    def inside(self, depth: int, *, loop: bool = False, function: bool = False) -> str:
        """Some statements, indented."""
        return textwrap.indent(self.body(depth + 1, loop=loop, function=function), "    ")

    def statement(self, depth: int, *, loop: bool, function: bool) -> str:
        """A statement."""
        if depth >= _DEEPEST or self.chance(0.2):
            return self.leaf(loop=loop, function=function)
        nested: tuple[Callable[[int, bool, bool], str], ...] = (
            self.condition_of,
            self.loop_over,
            self.loop_while,
            self.try_,
            self.with_,
            self.match,
        )
        flat: tuple[Callable[[int], str], ...] = (
            self.function,
            self.generator,
            self.decorator,
            self.operator,
            self.descriptor,
            self.metaclass,
            self.closure,
            self.higher_order,
            self.comprehension,
            self.manager_class,
            self.coroutine,
            self.iterator,
            self.inherited,
        )
        if self.chance(0.55):
            return self.random.choice(nested)(depth, loop, function)
        return self.random.choice(flat)(depth)

    def leaf(self, *, loop: bool, function: bool) -> str:
        """A statement without others in it."""
        choices = [f"{self.load()}\n"] * 3
        choices += [
            f"total += {self.value()}\n",
            f"raise {self.random.choice(('ValueError', 'KeyError'))}({self.value()})\n",
        ]
        choices += [f"assert {self.condition()}\n", f"if {self.condition()}: {self.load()}\n", "seen.append(0)\n"]
        choices += ["break\n", "continue\n"] * loop
        choices += [f"return {self.value()}\n"] * function
        line = self.random.choice(choices)
        # In a function, the number of the module would be one of its own.
        return f"seen.append({line[9:-1]})\n" if function and line.startswith("total += ") else line

    # ---- with others in them

    def condition_of(self, depth: int, loop: bool, function: bool) -> str:
        """``if``."""
        text = f"if {self.condition()}:\n{self.inside(depth, loop=loop, function=function)}"
        if self.chance(0.5):
            text += f"elif {self.condition()}:\n{self.inside(depth, loop=loop, function=function)}"
        return text + (f"else:\n{self.inside(depth, loop=loop, function=function)}" if self.chance(0.5) else "")

    def loop_over(self, depth: int, _loop: bool, function: bool) -> str:
        """``for``."""
        name = self.name("n")
        number = self.random.randint(0, 3)
        over = self.random.choice(
            (
                f"range({number})",
                f"[1, 2][:{number}]",
                f"(x * 2 for x in range({number}))",
                f"reversed(range({number}))",
                f"map(str, range({number}))",
                f"zip(range({number}), 'ab')",
                f"enumerate('ab'[:{number}])",
                f"filter(None, range({number}))",
                f"iter([0, 1][:{number}])",
                "{'a': 1, 'b': 2}.items()",
            )
        )
        text = f"for {name} in {over}:\n{self.inside(depth, loop=True, function=function)}"
        return text + (f"else:\n{self.inside(depth, function=function)}" if self.chance(0.3) else "")

    def loop_while(self, depth: int, _loop: bool, function: bool) -> str:
        """``while``."""
        name = self.name("w")
        inner = self.inside(depth, loop=True, function=function)
        return f"{name} = {self.value()}\nwhile {name} > 0:\n    {name} -= 1\n{inner}"

    def try_(self, depth: int, loop: bool, function: bool) -> str:
        """``try``."""
        text = f"try:\n{self.inside(depth, loop=loop, function=function)}"
        handled = self.chance(0.85)
        if handled:
            error = self.random.choice(_ERRORS)
            body = self.inside(depth, loop=loop, function=function)
            text += f"except {error} as e:\n{body}" if self.chance(0.5) else f"except {error}:\n{body}"
            if self.chance(0.2):
                text += "    raise\n" if self.chance(0.5) else "    raise RuntimeError('x') from None\n"
            if self.chance(0.3):
                text += f"else:\n{self.inside(depth, function=function)}"
        if not handled or self.chance(0.3):
            text += f"finally:\n{self.inside(depth)}"
        return text

    def with_(self, depth: int, loop: bool, function: bool) -> str:
        """``with``."""
        inner = self.inside(depth, loop=loop, function=function)
        manager = self.random.choice(
            (
                f"contextlib.suppress({self.random.choice(_ERRORS).strip('()')})",
                "contextlib.nullcontext(1)",
                "around()",
                "quiet()",
                "contextlib.ExitStack()",
                "Manager(True)",
                "Manager(False)",
                "contextlib.closing(Manager(1))",
            )
        )
        return f"with {manager}:\n{inner}"

    def match(self, depth: int, loop: bool, function: bool) -> str:
        """``match``."""
        subject, patterns = self.random.choice(
            (
                (self.value(), ("0", "1 | 2", "int(n)", "_")),
                ("[1, 2, 3]", ("[1]", "[1, *rest]", "[_, _, _]")),
                ("{'a': 1, 'b': 2}", ("{'c': _}", "{'a': 1, **rest}", "{}")),
                ("('x', None)", ("('y', _)", "(str(), None)", "other")),
                ("Manager(1)", ("Manager(kept=2)", "Manager(kept=1)", "object()")),
            )
        )
        text = f"match {subject}:\n"
        for pattern in patterns:
            guard = f" if {self.condition()}" if self.chance(0.3) and pattern not in {"_", "other"} else ""
            case = f"case {pattern}{guard}:\n{self.inside(depth, loop=loop, function=function)}"
            text += textwrap.indent(case, "    ")
        return text

    # ---- definitions, and a use of each

    def function(self, depth: int) -> str:
        """A function, and a call."""
        name = self.name("f")
        body = self.inside(depth, function=True)
        signature, call = self.random.choice(
            (("", ""), ("a, b=2", "1"), ("*args, **kwargs", "1, *[2], c=3"), ("a, /, *, b", "1, b=2"), ("a", ""))
        )
        return f"def {name}({signature}):\n{body}seen.append({name}({call}))\n"

    def closure(self, depth: int) -> str:
        """A function in a function."""
        name = self.name("f")
        body = textwrap.indent(self.inside(depth, function=True), "    ")
        return (
            f"def {name}():\n    count = 0\n    def inner():\n        nonlocal count\n        count += 1\n{body}"
            f"    inner()\n    return inner\n{name}(){'()' if self.chance(0.5) else ''}\n"
        )

    def generator(self, depth: int) -> str:
        """A generator, and how far somebody iterates."""
        name = self.name("g")
        parts = [self.inside(depth, function=True), "    yield 1\n", self.inside(depth), "    yield 2\n"]
        if self.chance(0.4):
            inner = textwrap.indent("".join(parts), "    ")
            parts = [f"    try:\n{inner}", f"    except {self.random.choice(_ERRORS)}:\n        yield 3\n"]
        elif self.chance(0.3):
            inner = textwrap.indent("".join(parts), "    ")
            parts = [f"    for step in range(2):\n{inner}"]
        use = self.random.choice(
            (
                "{}()",
                "list({}())",
                "next({}())",
                "next({}(), 0)",
                "for x in {}():\n    break",
                "sum({}())",
                "a, *b = {}()",
                "print(*{}())",
                "any(x > 1 for x in {}())",
                "list(zip({0}(), {0}()))",
                "it = {}()\nnext(it)\nnext(it)",
                "list(itertools.islice({}(), 1))",
                "[x for x in {}() if x]",
                "it = {}()\nnext(it, 0)\nit.close()",
            )
        )
        return f"def {name}():\n{''.join(parts)}{use.format(name)}\n"

    def decorator(self, depth: int) -> str:
        """A decorator of a function or a class."""
        name, made = self.name("d"), self.name("f")
        body = self.inside(depth, function=True)
        kind = self.random.choice((f"def {made}():\n{body}", f"class {made}:\n    x = 1\n"))
        wrapped = self.random.choice(("value", "lambda *args: value(*args)", "functools.wraps(value)(lambda: value())"))
        call = f"{made}()\n" if self.chance(0.7) else ""
        return f"def {name}(value):\n{self.inside(depth)}    return {wrapped}\n@{name}\n{kind}{call}"

    def operator(self, depth: int) -> str:
        """A class with an operator, and its use."""
        cls = self.name("C")
        sign, method = self.random.choice([*_OPERATORS.items(), *_COMPARISONS.items()])
        name = self.random.choice((method, f"r{method}", f"i{method}")) if sign in _OPERATORS else method
        result = self.random.choice(("NotImplemented", "1", "self"))
        body = textwrap.indent(self.inside(depth), "    ")
        text = f"class {cls}:\n    def __{name}__(self, other):\n{body}        return {result}\n"
        use = self.random.choice(
            (
                f"{cls}() {sign} 1",
                f"1 {sign} {cls}()",
                f"{cls}() {sign} {cls}()",
                f"v = {cls}()\nv {sign}= 2" if sign in _OPERATORS else f"{cls}() {sign} None",
            )
        )
        return f"{text}{use}\n"

    def descriptor(self, depth: int) -> str:
        """A class whose attributes are computed."""
        cls = self.name("C")
        body = textwrap.indent(self.inside(depth, function=True), "    ")
        form, use = self.random.choice(
            (
                ("@property\n    def x(self):", "{}().x"),
                ("@x.setter\n    def x(self, value):", "{}().x = 1"),
                ("def __getattr__(self, name):", "{}().other"),
                ("def __getattr__(self, name):", "hasattr({}(), 'other')"),
                ("def __setattr__(self, name, value):", "{}().x = 1"),
                ("def __delattr__(self, name):", "del {}().x"),
                ("def __getitem__(self, key):", "{}()[1]"),
                ("def __setitem__(self, key, value):", "{}()[1] = 2"),
                ("def __contains__(self, item):", "1 in {}()"),
                ("def __call__(self, *args):", "{}()(1)"),
                ("def __len__(self):", "{}() and 1"),
                ("def __bool__(self):", "1 if {}() else 2"),
                ("def __index__(self):", "[0, 1][{}()]"),
                ("def __str__(self):", "str({}())"),
                ("def __repr__(self):", "f'{{{}()!r}}'"),
                ("def __hash__(self):", "{{{}(): 1}}"),
                ("def __neg__(self):", "-{}()"),
                ("def __iter__(self):", "list({}())"),
                ("def __init__(self, a=1):", "{}(2)"),
                ("def __init__(self):", "{}(2)"),
                ("def __init_subclass__(cls):", "class D({}): pass"),
                ("def __class_getitem__(cls, item):", "{}[int]"),
            )
        )
        before = "    @property\n    def x(self):\n        return 1\n" if form.startswith("@x.") else ""
        return f"class {cls}:\n{before}    {form}\n{body}{use.format(cls)}\n"

    def metaclass(self, depth: int) -> str:
        """A metaclass, a class, and an object."""
        meta, cls = self.name("M"), self.name("C")
        body = textwrap.indent(self.inside(depth), "    ")
        form, result = self.random.choice(
            (
                ("__new__(mcs, name, bases, names)", "return super().__new__(mcs, name, bases, names)"),
                ("__init__(cls, name, bases, names)", "super().__init__(name, bases, names)"),
                ("__call__(cls, *args)", "return super().__call__(*args)"),
            )
        )
        made = f"class {cls}(metaclass={meta}):\n    pass\n{cls}()\n"
        return f"class {meta}(type):\n    def {form}:\n{body}        {result}\n{made}"

    def inherited(self, depth: int) -> str:
        """Classes that derive from each other."""
        base, left, right, last = (self.name("C") for _ in range(4))
        body = textwrap.indent(self.inside(depth), "    ")
        return (
            f"class {base}:\n    def go(self):\n{body}        return 1\n"
            f"class {left}({base}):\n    def go(self):\n        seen.append(1)\n        return super().go()\n"
            f"class {right}({base}):\n    def go(self):\n{textwrap.indent(self.inside(depth, function=True), '    ')}"
            f"class {last}({left}, {right}):\n    pass\n{last}().go()\n"
        )

    def iterator(self, depth: int) -> str:
        """A class whose objects are iterated over."""
        cls = self.name("C")
        body = textwrap.indent(self.inside(depth), "    ")
        use = self.random.choice(
            ("list({}())", "for x in {}():\n    break", "2 in {}()", "a, b = {}()", "max({}())", "{}()")
        )
        return (
            f"class {cls}:\n    n = 0\n    def __iter__(self):\n        return self\n    def __next__(self):\n"
            "        self.n += 1\n        if self.n > 2:\n            raise StopIteration\n"
            f"{body}        return self.n\n"
            f"{use.format(cls)}\n"
        )

    def manager_class(self, depth: int) -> str:
        """A context manager that does something."""
        cls = self.name("C")
        enter, leave = (textwrap.indent(self.inside(depth, function=True), "    ") for _ in range(2))
        return (
            f"class {cls}:\n    def __enter__(self):\n{enter}    def __exit__(self, *error):\n{leave}        return "
            f"{self.random.choice(('True', 'False', 'error[0] is OSError'))}\nwith {cls}():\n{self.inside(depth)}"
        )

    def higher_order(self, depth: int) -> str:
        """A function that somebody else calls."""
        name = self.name("f")
        body = self.inside(depth, function=True)
        use = self.random.choice(
            (
                "functools.reduce(lambda a, b: {0}(b), [1, 2])",
                "functools.partial({0}, 1)()",
                "list(map({0}, [1, 2]))",
                "map({0}, [1, 2])",
                "list(filter({0}, [1, 2]))",
                "sorted([2, 1], key=lambda n: {0}(n) or 0)",
                "max([1, 2], key=lambda n: {0}(n) or 0)",
                "functools.lru_cache(None)({0})(1)",
                "list(itertools.starmap({0}, [(1,)]))",
                "itertools.starmap({0}, [(1,)])",
                "list(itertools.accumulate([1, 2], lambda a, b: {0}(b) or 0))",
                "operator.methodcaller('__call__', 1)({0})",
                "[{0}][0](1)",
                "(lambda g: g(1))({0})",
                "list(itertools.takewhile({0}, [1]))",
                "collections.defaultdict(lambda: {0}(1))['x']",
                "threading.Thread(target={0}, args=(1,))",
                "next(iter(lambda: {0}(1), None), None)",
                "types.SimpleNamespace(f={0}).f(1)",
                "any({0}(n) for n in [1, 2])",
                "all({0}(n) for n in [1, 2])",
                "contextlib.ExitStack().callback({0}, 1)",
                "with contextlib.ExitStack() as stack:\n    stack.callback({0}, 1)",
                "concurrent.futures.ThreadPoolExecutor(1).submit({0}, 1).result()",
                "copy.copy([{0}])[0](1)",
            )
        )
        return f"def {name}(a=0):\n{body}{use.format(name)}\n"

    def comprehension(self, _depth: int) -> str:
        """A comprehension that loads."""
        return self.random.choice(
            (
                "[load(n) for n in ('good', 'bad') if {0}]\n",
                "{{load(n): 1 for n in ('bad',)}}\n",
                "{{load('bad') for _ in range({1})}}\n",
                "(load('bad') for _ in range({1}))\n",
                "list(load('bad') for _ in range({1}))\n",
                "[[load('bad') for _ in range(y)] for y in range({1})]\n",
            )
        ).format(self.condition(), self.random.randint(0, 2))

    def coroutine(self, depth: int) -> str:
        """A coroutine, and whether somebody waits for it."""
        name = self.name("c")
        body = self.inside(depth, function=True)
        use = self.random.choice(("asyncio.run({}())", "{}().close()", "asyncio.run(asyncio.wait_for({}(), 5))"))
        return f"async def {name}():\n{body}{use.format(name)}\n"


_START = """\
import asyncio, collections, concurrent.futures, contextlib, copy, functools, itertools, operator, threading, types
total = 0
seen = []
@contextlib.contextmanager
def around():
    yield 1
@contextlib.contextmanager
def quiet():
    try:
        yield 1
    except OSError:
        seen.append(1)
class Manager:
    def __init__(self, kept):
        self.kept = kept
    def __enter__(self):
        return self
    def __exit__(self, kind, error, trace):
        return self.kept is True and kind is OSError
    def close(self):
        seen.append(2)
"""


def program(seed: int) -> str:
    """The program of a number."""
    maker = Maker(seed)
    parts = [maker.body(0) for _ in range(4)]
    for number, part in enumerate(parts):
        if maker.chance(0.8):  # what the others do shows as well
            parts[number] = f"try:\n{textwrap.indent(part, '    ')}except Exception as error:\n    seen.append(error)\n"
    return _START + "".join(parts)
