"""Makes functions that change a container as often as the machine says: what the reading claims of it afterwards."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tests.oracle.reading.unknown import by_number

_CONTAINERS: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "['a', 'b', 'c']": (
        ("c.pop()", "c.pop(0)", "c.remove('a')", "c.clear()", "c.reverse()", "c.sort(reverse=True)", "c.insert(0, 'd')",
         "c[0] = 'd'", "c[-1:] = []", "del c[0]", "del c[:]", "c.append('d')", "c.extend('de')", "c += 'd'",
         "c.__setitem__(0, 'd')", "c.__delitem__(0)", "c.__iadd__('de')"),
        ("c[0]", "c[-1]", "c.index('b')", "c.count('a')", "c == ['a', 'b', 'c']", "['x', *c][0]", "(c + ['x'])[-1]",
         "(['x'] + c)[-1]", "'x' in c + ['x']", "c.pop()", "bool(c + ['x'])"),
    ),
    "{'a': 1, 'b': 2}": (
        ("c.pop('a', None)", "c.popitem()", "c.clear()", "del c['a']", "c['a'] = 3", "c['d'] = 4", "c.update(a=5)",
         "c.setdefault('d', 6)", "c.__setitem__('d', 7)", "c.__delitem__('a')", "c.__ior__({'d': 8})"),
        ("c['a']", "c.get('a')", "c.get('d', 0)", "list(c.values())", "len(c.items())", "bool(c.keys())", "c == {}",
         "c.pop('a', 0)", "c.setdefault('a', 9)", "{**c, 'x': 1}['x']", "'a' in c.keys()", "len(dict(c))"),
    ),
    "{'a', 'b'}": (
        ("c.pop()", "c.discard('a')", "c.remove('a')", "c.clear()", "c.difference_update({'a'})",
         "c.intersection_update({'a'})", "c.symmetric_difference_update({'a', 'd'})", "c.add('d')", "c.update('de')",
         "c.__ior__({'d'})"),
        ("c == {'a', 'b'}", "c <= {'a', 'b'}", "len(c | {'x'})"),
    ),
    "iter(['a', 'b', 'c'])": (
        ("next(c)", "next(c, None)", "c.__next__()", "list(c)", "'b' in c"),
        ("next(c)", "next(c, 'd')", "c.__next__()", "list(zip(c, 'xyz'))"),
    ),
    "(n for n in ['a', 'b', 'c'])": (("next(c)", "c.send(None)", "c.close()", "list(c)"), ("next(c)", "next(c, 'd')")),
    "type('O', (), {'x': 1})()": (
        ("c.y = 2", "setattr(c, 'y', 3)", "c.__dict__['y'] = 4", "c.__dict__.update(y=5)", "c.x = 6", "del c.x"),
        ("hasattr(c, 'y')", "getattr(c, 'y', 0)", "c.y", "c.x", "hasattr(c, 'x')"),
    ),
}  # fmt: skip
_OF_ALL: Final = (
    "bool(c)", "len(c)", "not c", "'a' in c", "'z' in c", "'d' in c", "len(list(c))", "any(c)", "'yes' if c else 'no'",
    "len(tuple(c))", "len(set(c))", "'a' in list(c)", "bool(tuple(c))",
)  # fmt: skip
_WAYS: Final = (
    "    for _ in range(ROUNDS):\n        {change}\n",
    "    for _ in range(ROUNDS):\n        try:\n            {change}\n        except LookupError:\n            pass\n",
    "    left = ROUNDS\n    while left:\n        left -= 1\n        {change}\n",
    "    def g():\n        if ROUNDS:\n            {change}\n            return 1\n        return 2\n    g()\n",
    "    for _ in range(ROUNDS):\n        if not c:\n            break\n        {change}\n",
    "    n = 0\n    while c and n < ROUNDS:\n        n += 1\n        {change}\n",
    "    for n in range(ROUNDS):\n        while c and n < 4:\n            n += 1\n            {change}\n",
)


def functions(seed: int, count: int) -> list[str]:
    """Some bodies of functions of one argument."""
    chance = random.Random(seed)
    made = []
    for container, (changes, questions) in itertools.islice(itertools.cycle(_CONTAINERS.items()), count):
        way = chance.choice(_WAYS).format(change=chance.choice(changes))
        made.append(f"    c = {container}\n{way}    return {chance.choice([*questions, *_OF_ALL])}\n")
    return made


def program(bodies: Sequence[str], rounds: str = "os.getpid()") -> str:
    """Print what each function returns, or the error that it raises.

    :param rounds: how often they change their container: by default, the machine says it
    """
    return f"import os\nROUNDS = {rounds}\n" + "".join(
        f"def f():\n{body}try:\n    print({number}, repr(f()))\nexcept Exception as error:\n"
        f"    print({number}, type(error).__name__)\n"
        for number, body in enumerate(bodies)
    )


def computed(bodies: Sequence[str], rounds: int) -> Mapping[int, str]:
    """What CPython prints for functions, on a machine that says so."""
    command = [sys.executable, "-c", program(bodies, str(rounds))]
    return by_number(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
