"""What is said of a module's names, compared with what Python binds when it runs the module."""

from __future__ import annotations

import sys
import types

import pytest

from abiscan.python.language.module_names import ModuleNames, class_attributes, names_of, signature_text

BODIES = [
    "a = 1\n(b, [c, *d]) = 1, [2, 3]\ne: int = 4\nf: int\ng += 1\n".replace("g += 1\n", ""),
    "import os.path, sys as system\nfrom json import loads, dumps as write\n",
    "if len('x'):\n    both = only = 1\nelse:\n    both = 2\n",
    "if not len('x'):\n    raise OSError\nelse:\n    there = 1\n",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    never = 1\nelse:\n    there = 2\n",
    "try:\n    import nothing_of_that_name\n    a = 1\nexcept ImportError as error:\n    b = a = 2\n",
    "try:\n    a = 1\nexcept OSError:\n    raise\nelse:\n    b = 2\nfinally:\n    c = 3\n",
    "for number in range(2):\n    inside = number\nwhile False:\n    never = 1\nelse:\n    after = 1\n",
    "with open('/dev/null') as stream:\n    inside = 1\n",
    "from contextlib import suppress\nwith suppress(KeyError):\n    before = 1\n    {}[1]\n    after = 2\n",
    "gone = 1\ndel gone\nkept = 2\n",
    "def later():\n    global made\n    made = 1\n\n\nlater()\n",
    "globals()['named'] = 1\nfor letter in 'ab':\n    globals()[f'prefix_{letter}'] = 2\n",
    "for letter in 'ab':\n    globals()[letter] = 2\n",
    "globals().update(a=1)\n",
    "exec('a = 1')\n",
    "pairs = {key: found for key in 'ab' if (found := key)}\nif (walrus := 1):\n    pass\n",
    "match [1, 2]:\n    case [first, *rest]:\n        inside = 1\n    case {'a': value}:\n        pass\n",
    "import sys\nsys.modules[__name__].named = 1\n",
    "import sys\nme = sys.modules[__name__]\nsetattr(me, 'na' + 'me', 1)\n",
]


@pytest.mark.parametrize("source", BODIES)
def test_every_name_that_python_binds_is_there_or_perhaps(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_up")
    monkeypatch.setitem(sys.modules, "made_up", module)
    exec(compile(source, "made_up.py", "exec"), module.__dict__)
    bound = {name for name in module.__dict__ if not name.startswith("__")}
    names = names_of(source.encode(), "made_up", is_package=False)

    assert {name for name in names.there if not name.startswith("__")} <= bound
    assert names.is_open or all(_may_have(names, name) for name in bound)


def _may_have(names: ModuleNames, name: str) -> bool:
    patterns = [text[:-1] for text in names.possible if text.endswith("*")]
    return name in names.there | names.possible or any(map(name.startswith, patterns))


def test_only_what_is_computed_is_open() -> None:
    open_ = {source for source in BODIES if names_of(source.encode(), "made_up", is_package=False).is_open}

    assert len(open_) == 4
    assert all("globals()" in source or "exec" in source or "setattr" in source for source in open_)


def test_names_that_are_for_type_checkers_are_not_there() -> None:
    names = names_of(b"if TYPE_CHECKING:\n    from x import y\n", "torch.z", is_package=False)

    assert not names.there | names.possible


def test_imports_tell_stars_and_what_is_loaded() -> None:
    source = b"from .near import *\nfrom . import side\nimport torch.far\nif x:\n    import torch.perhaps\n"
    names = names_of(source, "torch.package", is_package=True)

    assert names.stars == {"torch.package.near"}
    assert {"torch.package.near", "torch.package.side", "torch.far"} <= names.loads
    assert "torch.perhaps" not in names.loads


def test_a_hook_that_knows_its_names_leaves_the_module_closed() -> None:
    source = "names = ['lazy']\ndef __getattr__(name):\n    {}raise AttributeError(name)\n"
    closed = names_of(source.format("").encode(), "torch.x", is_package=True)
    passing = names_of(source.format("getattr(other, name)\n    ").encode(), "torch.x", is_package=True)

    assert (closed.is_open, "lazy" in closed.possible) == (False, True)
    assert passing.is_open


def test_a_module_that_puts_another_in_its_place_has_no_certain_names() -> None:
    names = names_of(b"import sys\nx = 1\nsys.modules[__name__] = Other()\n", "torch.x", is_package=False)

    assert names.is_open
    assert not names.there


def test_what_is_set_on_others_is_known_by_name() -> None:
    source = b"import torch\ntorch.nn.made = 1\nsetattr(torch, 'too', 1)\ntorch._C.__dict__['three'] = 1\nself.no = 1\n"

    assert names_of(source, "torch.x", is_package=False).patched == {"made", "too", "three"}


def test_signatures_are_those_that_inspect_gives() -> None:
    import inspect

    sources = ["a, b=1, /, c=2, *, d, e=3, **f", "*args, k", "x, /", ""]
    for parameters in sources:
        namespace: dict[str, types.FunctionType] = {}
        exec(f"def f({parameters}): ...", namespace)
        expected = []
        kinds = [parameter.kind for parameter in inspect.signature(namespace["f"]).parameters.values()]
        for number, parameter in enumerate(inspect.signature(namespace["f"]).parameters.values()):
            star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
            before = {parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY} & set(kinds[:number])
            if parameter.kind is parameter.KEYWORD_ONLY and not before:
                expected.append("*")
            expected.append(star + parameter.name + ("=" if parameter.default is not parameter.empty else ""))
            after = kinds[number + 1] if number + 1 < len(kinds) else None
            if parameter.kind is parameter.POSITIONAL_ONLY and after is not parameter.POSITIONAL_ONLY:
                expected.append("/")
        names = names_of(f"def f({parameters}): ...".encode(), "torch.x", is_package=False)
        assert names.signatures == {"f": ",".join(expected)}


def test_a_function_that_is_wrapped_or_bound_again_has_no_signature() -> None:
    source = b"@wrapped\ndef f(a): ...\ndef g(a): ...\ng = other(g)\n@deprecated('no')\ndef h(a): ...\n"
    names = names_of(source, "torch.x", is_package=False)

    assert names.signatures == {"h": "a"}
    assert names.deprecated == {"h"}


def test_what_only_type_checkers_see_is_no_definition() -> None:
    """As ``torch.functional`` defines ``meshgrid``, ``norm`` and ``tensordot``."""
    source = (
        b"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    def f(a, b=None): ...\n"
        b"else:\n    def f(*a): ...\nif len('x'):\n    def g(): ...\nelse:\n    def g(a): ...\n"
    )
    names = names_of(source, "torch.x", is_package=False)

    assert names.signatures == {"f": "*a"}


def test_overloads_are_no_definitions_and_imports_lead_to_the_function() -> None:
    source = (
        b"from .functions import f, g as h\nfrom .y import *\nfrom torch.x import twice\ntwice = 1\n"
        b"@overload\ndef k(a: int): ...\n@typing.overload\ndef k(a: str): ...\ndef k(a, b=1): ...\n"
        b"def f2(): ...\nfrom .functions import f2\n"
    )
    names = names_of(source, "torch.pack", is_package=True)

    assert names.imported == {"f": "torch.pack.functions.f", "h": "torch.pack.functions.g"}
    assert names.signatures == {"k": "a,b="}


def test_a_module_of_options_is_not_open() -> None:
    source = b"import sys\nx = 1\ninstall_config_module(sys.modules[__name__])\n"
    names = names_of(source, "torch.x", is_package=False)

    assert (names.is_config, names.is_open, names.there) == (True, False, {"sys", "x"})
    assert names_of(source.replace(b"install_config", b"other"), "torch.x", is_package=False).is_open


@pytest.mark.parametrize(
    ("made", "makes_modules", "perhaps"),
    [
        ('sys.modules[f"torch.x.{name}"] = y', False, {"one", "two"}),
        ('sys.modules["torch.x.three"] = y', False, {"one", "two", "three"}),
        ('sys.modules["torch.z.three"] = y', True, set()),
        ("sys.modules[name] = y", True, set()),
        ('sys.modules["torch.x.three"] = y\nsys.modules[name] = y', True, {"one", "two", "three"}),
    ],
)
def test_submodules_that_are_made_by_texts_are_those_in_the_source(
    made: str, makes_modules: bool, perhaps: set[str]
) -> None:
    source = f"import sys\nfor name in ['one', 'two']:\n    ...\n{made}\n".encode()
    names = names_of(source, "torch.x", is_package=True)

    assert names.makes_modules is makes_modules
    assert perhaps <= names.possible
    assert "four" not in names.possible


def test_a_class_has_what_its_body_binds_and_what_its_methods_set() -> None:
    import ast

    tree = ast.parse("class A(B, torch.C):\n    x = 1\n    def m(self):\n        self.y = 2\n")

    attributes = class_attributes(tree, "A")

    assert attributes is not None
    assert (attributes.there, attributes.possible) == ({"x", "m"}, {"y"})
    assert (attributes.bases, attributes.is_open) == (["B", "torch.C"], False)
    assert class_attributes(tree, "Z") is None
    assert signature_text(ast.parse("def f(a, b=1): ...").body[0].args) == "a,b="  # type: ignore[attr-defined]
