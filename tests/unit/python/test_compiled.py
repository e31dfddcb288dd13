"""The compiled form of code gives what Python gives, and takes the same steps each time."""

from __future__ import annotations

import pytest

from abiscan.python.importing.runs import RunCache, Runs
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, Raised
from abiscan.python.package.sources import PackageFiles
from abiscan.python.package.systems import LINUX, MACOS, WINDOWS, PythonSystem
from abiscan.python.reading import read_package
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

PROGRAMS = {
    "a loop that looks for a text": "hits = []\nfor number, line in enumerate(['a', '#b', 'c', '#d', 'e']):\n"
    "    if line.startswith('#'):\n        hits.append(number)\nresult = hits, number, line\n",
    "one that passes what has the text": "hits = []\nfor line in ['a', '#b', 'c', '#d']:\n"
    "    if not line.startswith('#'):\n        hits.append(line)\nelse:\n    hits.append('end')\nresult = hits, line\n",
    "one that ends at it": "for line in ['a', 'b.py', 'c']:\n    if line.endswith('.py'):\n        break\n"
    "else:\n    line = None\nresult = line\n",
    "one whose list grows": "hits = []\nlines = ['a', '#b', 'c', '#d', 'e']\nfor n, line in enumerate(lines, 3):\n"
    "    if line.startswith('#'):\n        hits.append((n, line))\n        lines += ['f', '#g'][: 9 - len(lines)]\n"
    "result = hits, n, line, lines\n",
    "one that goes on with what is left": "hits = []\nleft = enumerate(['a', '#b', 'c', '#d'])\n"
    "for n, line in left:\n    if line.startswith('#'):\n        hits.append(next(left))\n        break\n"
    "result = hits, n, line, list(left)\n",
    "one whose list gets another item": "hits = []\nlines = ['a', '#b', 'c', '#d']\ntry:\n    for line in lines:\n"
    "        if line.startswith('#'):\n            hits.append(line)\n            lines[2] = 1\n"
    "except AttributeError as error:\n    hits.append(str(error))\nresult = hits, line\n",
    "a deep copy": "import copy\na = []\nd = {'x': a, 'y': a, 'z': ('q', [1, {2: {3}}]), 's': 't'}\n"
    "e = copy.deepcopy(d)\ne['x'].append(1)\ne['z'][1].append(5)\nresult = d, e\n",
    "one over what is no text": "class A:\n    def startswith(self, text):\n        return text == 'a'\nhits = []\n"
    "for item in ['b', A(), 'ab']:\n    if item.startswith('a'):\n        hits.append(type(item).__name__)\n"
    "result = hits\n",
    "a break in the else of a loop": "seen = []\nfor n in range(3):\n    for m in range(2):\n        seen.append(m)\n"
    "    else:\n        break\nresult = seen, n\n",
    "a continue in the else of a loop": "seen = []\nfor n in range(3):\n    while n < 0:\n        pass\n    else:\n"
    "        continue\n    seen.append(n)\nresult = seen, n\n",
    "a return that drops an exception": "def f():\n    try:\n        raise ValueError\n    finally:\n        return 1\n"
    "result = f()\n",
    "a return that replaces another": "def f():\n    for n in range(3):\n        try:\n            return n\n"
    "        finally:\n            if n < 2:\n                continue\n    return 'end'\nresult = f()\n",
    "the name of a handler that is left": "def f():\n    for n in range(2):\n        try:\n            1 / 0\n"
    "        except ZeroDivisionError as error:\n            continue\n    return 'error' in locals()\n"
    "def g():\n    error = 1\n    try:\n        1 / 0\n    except ZeroDivisionError as error:\n        pass\n"
    "    try:\n        return error\n    except UnboundLocalError:\n        return 'gone'\nresult = g()\n",
    "a jump out of a with": "import contextlib\nlog = []\n@contextlib.contextmanager\ndef around():\n"
    "    log.append('in')\n"
    "    yield\n    log.append('out')\ndef f():\n    for n in range(2):\n        with around():\n"
    "            if n:\n                return n\n            continue\nresult = f(), log\n",
    "a generator with jumps": "def g():\n    for n in range(5):\n        try:\n            if n == 1:\n"
    "                continue\n"
    "            if n == 3:\n                break\n            yield n\n        finally:\n"
    "            yield 'finally'\n"
    "    else:\n        yield 'else'\n    return 7\nparts = []\ndef h():\n    parts.append((yield from g()))\n"
    "result = [*h()], parts\n",
    "names from within and without": "x = 'module'\nclass A:\n    x = 'class'\n    y = [x for _ in range(1)]\n"
    "    z = [n for n in x]\ndef f():\n    global x\n    x = 'changed'\n    def g():\n        return x\n"
    "    return g()\n"
    "result = A.y, A.z, f(), x\n",
    "a tuple of as many names": "a, b = b, a = 1, 2\n[c, (d, *e)] = 'x', 'yzw'\nresult = a, b, c, d, e\n",
    "defaults and keywords": "def f(a, b=2, *c, d=4, **e):\n    return a, b, c, d, e\n"
    "result = f(1), f(1, 3, 5, d=6, x=7), (lambda p, q=[]: (p, q))(1)\n",
    "sums of texts and numbers": "result = 1 + 2, 'a' + 'b', 2 - 3, True + 1, 1 == 1.0, 'a' != 'b', "
    "None == None, 'b' in 'abc', "
    "1 in {1.0: 2}, 'x' not in ['x'], None is None, [] is None\n",
    "a method and a text": "class A:\n    def m(self):\n        pass\n    def n(self):\n        return self.m == 'm'\n"
    "result = A().n(), A().m != None, A().m == A.m\n",
    "methods of objects": "class A:\n    def m(self, a=1, *, b=2):\n        return 'A.m', a, b\n"
    "    @staticmethod\n    def s(x):\n        return x\n"
    "    @classmethod\n    def c(cls, x):\n        return cls.__name__, x\n"
    "    @property\n    def p(self):\n        return lambda x: ('p', x)\n"
    "class B(A):\n    def m(self, a):\n        return super().m(a), 'B.m'\n"
    "class C(A):\n    def __getattribute__(self, name):\n        return lambda *args: (name, args)\n"
    "a, b, c = A(), B(), C()\nfound = [a.m(), a.m(3, b=4), b.m(5), c.m(6), a.s(7), b.c(8), a.p(9)]\n"
    "a.m = lambda *args: args\nfound += [a.m(1), A().m()]\nA.m = lambda self, n: n\n"
    "result = [*found, A().m(2)]\n",
    "what methods of objects refuse": "class A:\n    def m(self, a, b=2):\n        pass\n"
    "    def q(self, a, /, **kwargs):\n        return a, kwargs\ndef told(call):\n"
    "    try:\n        return call()\n    except TypeError as error:\n        return str(error)\n"
    "result = [told(c) for c in (lambda: A().m(), lambda: A().m(1, 2, 3), lambda: A().m(1, a=2), "
    "lambda: A().m(1, c=2), lambda: A().m(a=1, b=2), lambda: A().m(b=1), lambda: A().q(1, a=2))]\n",
    "numbers": "def told(call):\n    try:\n        return call()\n    except (TypeError, ZeroDivisionError) as error:\n"
    "        return type(error).__name__\n"
    "result = [-7 % 3, -7 // 2, 7 % -3, 3 * -4, True * 3, 2 * 'ab', 7.5 % 2, 2 < 3, 'b' <= 'a', 1.5 > 1, "
    "True >= False, "
    "told(lambda: 1 % 0), told(lambda: 1 // 0), told(lambda: None < None), "
    "told(lambda: 1 < 'a'), told(lambda: 1 < None), "
    "float('nan') < float('nan'), (1 << 255) * (1 << 255) > 1]\n",
    "items by numbers": "def told(call):\n"
    "    try:\n        return call()\n    except (TypeError, IndexError) as error:\n"
    "        return str(error)\nxs, t = [1, [2], 3], ('a', 'b')\n"
    "result = [xs[0], xs[-1], xs[True], t[-2], xs[1] is xs[1], told(lambda: xs[3]), told(lambda: xs[-4]), "
    "told(lambda: t[2]), told(lambda: ()[0])]\n",
    "methods of containers": "class D(dict):\n    def get(self, key, default=None):\n        return 'D', key, default\n"
    "d, e = {}, D(a=1)\n"
    "found = [d.setdefault('k', []).append(1), d.get('k'), d.pop('x', 2), e.get('a'), e.setdefault('b', 3)]\n"
    "s = {1}\ns.add('x')\ns.discard(1)\nxs = [3, 1]\nxs.sort()\nxs.extend((5, 6))\nxs.insert(0, 9)\n"
    "add = xs.append\nadd(7)\nresult = found, d, s, xs, xs.index(5), xs.count(9), sorted(e), ' a'.strip().upper()\n",
    "deep calls": "def f(n):\n    if n:\n        return 1 + f(n - 1)\n    return 0\nresult = f(150)\n",
}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # since Python 3.14, of a return in a finally
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_python_gives(name: str) -> None:
    names: dict[str, object] = {}
    exec(PROGRAMS[name], names)
    (outcome,) = reading_of({"p/__init__.py": PROGRAMS[name] + "raise ValueError(result)\n"}).imports
    assert isinstance(outcome.raised, Raised)
    assert (outcome.raised.message, outcome.gaps) == (str(names["result"]), ())


def _steps(code: str) -> int:
    python = PythonCode(PackageFiles(TextSources({"p.py": code})), ["p"], (3, 11), Surroundings())
    runs = [Runs(python, FakeWorld, Limits(), RunCache()) for _ in range(2)]
    for one in runs:
        one.run("p")
    assert runs[0].steps == runs[1].steps
    return runs[0].steps


@pytest.mark.parametrize(
    "code",
    [
        "for n in range({}):\n    n + 1\n",
        "n = 0\nwhile n < {}:\n    n += 1\n",
        "[n for n in range({}) if n]\n",
        "f = lambda n: n + 1\nfor n in range({}):\n    f(n)\n",
        "for text in ['a'] * {}:\n    if text.startswith('b'):\n        pass\n",
    ],
)
def test_the_rounds_of_a_loop_count_and_a_kept_form_counts_as_a_new_one(code: str) -> None:
    few, more, many = (_steps(code.format(rounds)) for rounds in (100, 200, 900))
    assert more - few >= 25  # four rounds of a loop that only looks for something are a step
    assert abs((many - more) - 7 * (more - few)) <= 100  # but for the size of the list


@pytest.mark.parametrize(
    ("use", "takes_one"),
    [
        ("o.d[str(n)] = n", True),
        ("o.d[str(n)]", True),
        ("str(n) in o.d", True),
        ("o.d.setdefault(str(n), 1)", True),
        ("o.d.get('absent')", False),
        ("'absent' in o.d", False),
        ("list(o.d)", False),
    ],
)
def test_what_takes_an_item_of_a_large_container_does_not_go_through_it(use: str, *, takes_one: bool) -> None:
    code = "class O:\n    d = dict.fromkeys(map(str, range({0})))\no = O()\nfor n in range({1}):\n    " + use + "\n"
    few, many = (_steps(code.format(3_000, rounds)) for rounds in (10, 110))
    few_of_less, many_of_less = (_steps(code.format(500, rounds)) for rounds in (10, 110))
    assert (many - few == many_of_less - few_of_less) is takes_one


def test_return_outside_a_function_is_not_valid_python() -> None:
    for code in ("class A:\n    return 1\n", "def f():\n    break\nf()\n"):
        (outcome,) = reading_of({"p/__init__.py": "import torch\n" + code}).imports
        assert outcome.raised is Answer.UNKNOWN
        assert "is not valid Python" in outcome.gaps[0]


def test_the_distribution_of_torch() -> None:
    # As importlib.metadata has it next to torch 2.13.0; that of jinja2 is Jinja2, which no name tells.
    code = (
        "import importlib.metadata as m\nof = m.packages_distributions()\n"
        "if 'jinja2' in of['jinja2']:\n    import absent\nraise ValueError(of['torch'] + of.get('functorch'))\n"
    )
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == "['torch', 'torch']"


def test_the_version_of_what_is_required_is_a_text() -> None:
    code = "import importlib.metadata\nif importlib.metadata.version('other') is None:\n    raise ValueError\n"
    metadata = "Name: p\nRequires-Dist: other\n\n"
    (outcome,) = reading_of({"p/__init__.py": code, "p-1.dist-info/METADATA": metadata}).imports
    assert outcome.raised is None


@pytest.mark.parametrize(("system", "number"), [(LINUX, 256), (MACOS, 8), (WINDOWS, 0)])
def test_rtld_global_is_that_of_the_system(system: PythonSystem, number: int) -> None:
    # dlfcn.h of glibc and of macOS; ``ctypes`` on Windows (Modules/_ctypes/_ctypes.c).
    files = TextSources({"p/__init__.py": "import ctypes\nraise ValueError(ctypes.RTLD_GLOBAL)\n"})
    (outcome,) = read_package(files, ("p",), FakeWorld, system=system).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == str(number)


@pytest.mark.parametrize(
    ("function", "raises"),
    [
        ("if there:\n        return bool(os.environ.get('NO_SUCH'))\n    return False\n", None),
        (
            "if there:\n        return 'a' + 'b'\n    else:\n        x = 'a'\n    x += 'b'\n    return not x\n",
            Answer.UNKNOWN,
        ),
        ("if there:\n        if not there:\n            return 0\n        return ''\n    return 0\n", Answer.UNKNOWN),
        ("if there:\n        return False\n    return 1 / 0\n", Answer.UNKNOWN),
        ("if there:\n        return False\n", Answer.UNKNOWN),
    ],
)
def test_what_a_function_returns_on_both_ways_is_known(function: str, raises: Answer | None) -> None:
    code = "import importlib.util, os\nthere = importlib.util.find_spec('no_such_module')\n"
    code += f"def has():\n    {function}if has():\n    import torch\n    raise ImportError\n"
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert outcome.raised is raises
