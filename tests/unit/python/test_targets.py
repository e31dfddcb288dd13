"""Checks of the version of torch or CUDA, and of what operators return."""

from __future__ import annotations

import pytest

from abiscan.python.package.model import Answer, ImportOutcome, NoResult, Raised
from tests.unit.python.packages import FakeWorld, reading_of

WORLD = FakeWorld(
    torch_version="2.15.0+cu132",
    cuda="13.2",
    operators=frozenset({"p::cuda", "p::unread", "p::with_kernel"}),
    results={"p::cuda": 13000, "p::unread": NoResult(reason="it cannot be run"), "p::with_kernel": 1},
)
CHECK = """\
import torch
def check():
    version = torch.ops.p.cuda()
    if version is not None and torch.version.cuda is not None:
        built = f"{str(version)[:-3]}.{str(version)[-2]}"
        if built != torch.version.cuda:
            raise RuntimeError(f"{built} is not {torch.version.cuda}")
check()
"""
NOT_FOLLOWED = "import unicodedata\n"  # a module of C: what its functions return is not known here


def outcome(code: str, world: FakeWorld = WORLD) -> ImportOutcome:
    return reading_of({"p/__init__.py": code, "p/a.so": ""}, world).imports[0]


@pytest.mark.parametrize(("result", "message"), [(13000, "13.0 is not 13.2"), (13020, None), (None, None)])
def test_an_operator_returns_what_the_world_says(result: int | None, message: str | None) -> None:
    world = FakeWorld(cuda="13.2", operators=WORLD.operators, results={"p::cuda": result})
    found = outcome(CHECK, world)
    assert found.raised is None if message is None else isinstance(found.raised, Raised)
    assert (found.raised.message if isinstance(found.raised, Raised) else None) == message
    assert found.conditions == ()


def test_what_python_registers_decides_instead() -> None:
    code = (
        "import torch\n@torch.library.impl('p::with_kernel', 'CompositeExplicitAutograd')\ndef two():\n    return 2\n"
        "if torch.ops.p.with_kernel() != 2:\n    raise ImportError\n"
    )
    found = outcome(code)
    assert found.raised is Answer.UNKNOWN
    assert [one.text for one in found.conditions] == ["torch.ops.p.with_kernel() != 2"]


@pytest.mark.parametrize(
    ("code", "condition"),
    {
        "an operator that cannot be run": (
            "import torch\nif torch.ops.p.unread() < 3:\n    raise ImportError('no')\n",
            "torch.ops.p.unread() < 3",
        ),
        "an operator with arguments": (
            "import torch\nif not torch.ops.p.cuda('x'):\n    raise ImportError('no')\n",
            "not torch.ops.p.cuda('x')",
        ),
        "something made of it": (
            "import torch\nversion = unicodedata.digit(torch.ops.p.unread())\nif version > 1:\n    raise ImportError\n",
            "version > 1",
        ),
        "the version of torch": (
            "import torch\nif unicodedata.digit(torch.__version__.encode()) == 1:\n    raise ImportError\n",
            "unicodedata.digit(torch.__version__.encode()) == 1",
        ),
        "a name for the version of CUDA": (
            (
                "def check():\n    from torch.version import cuda as version\n    text = version or ''\n"
                "    if unicodedata.digit(text) == 1:\n        raise ImportError\ncheck()\n"
            ),
            "unicodedata.digit(text) == 1",
        ),
        "the version that the metadata have": (
            "from unicodedata import version\nif version('torch') == 1:\n    raise ImportError\n",
            "version('torch') == 1",
        ),
        "an assertion": ("import torch\nassert torch.ops.p.unread() > 2, 'old'\n", "torch.ops.p.unread() > 2"),
        "a way around the exception": (
            (
                "import torch\ndef check():\n    if torch.ops.p.unread() == 3:\n        return\n    raise ImportError\n"
                "check()\n"
            ),
            "torch.ops.p.unread() == 3",
        ),
        "a function that raises": (
            "import torch\ndef refuse():\n    raise ImportError\nif torch.ops.p.unread() == 3:\n    refuse()\n",
            "torch.ops.p.unread() == 3",
        ),
        "one of two operands": (
            "import torch\nif unicodedata.digit(b'') and torch.ops.p.unread() == 3:\n    raise ImportError\n",
            "unicodedata.digit(b'') and torch.ops.p.unread() == 3",
        ),
    }.values(),
)
def test_a_check_of_the_target_that_is_not_known_does_not_pass(code: str, condition: str) -> None:
    found = outcome(NOT_FOLLOWED + code)
    assert found.raised is Answer.UNKNOWN
    assert [one.text for one in found.conditions] == [condition]


@pytest.mark.parametrize(
    "code",
    [
        "import torch\nprint(torch.__version__)\nif unicodedata.digit(b'x') == 1:\n    raise ImportError\n",
        "import torch\nif torch.__version__ >= '2.0' and unicodedata.digit(b'x') == 1:\n    raise ImportError\n",
        (
            "def other():\n    import torch\n    x = torch.__version__\n"
            "x = b'x'\nif unicodedata.digit(x) == 1:\n    raise ImportError\n"
        ),
    ],
)
def test_any_other_check_of_what_is_not_followed_passes(code: str) -> None:
    found = outcome(NOT_FOLLOWED + code)
    assert found.raised is None
    assert found.conditions == ()


@pytest.mark.parametrize(
    ("check", "shown"),
    [
        (
            "< 3:\n    raise ImportError('no\\nmore')",
            "torch.ops.p.unread() < 3 (p/__init__.py:2); if so, ImportError: no",
        ),
        ("< 3:\n    pass\nelse:\n    raise OSError", "torch.ops.p.unread() < 3 (p/__init__.py:2); if not, OSError"),
    ],
)
def test_a_check_that_is_not_known_says_what_it_leads_to(check: str, shown: str) -> None:
    assert [str(condition) for condition in outcome(f"import torch\nif torch.ops.p.unread() {check}\n").conditions] == [
        shown
    ]


@pytest.mark.parametrize(("doubts", "usual"), [(1, (1, 2)), (2, (2, 3)), (3, (3, 4))])
def test_what_most_ways_end_in(doubts: int, usual: tuple[int, int] | None) -> None:
    """One way has all checks pass, and each of the others has one of them fail."""
    checks = (f"if torch.ops.p.unread() < {number}:\n    raise ImportError('no')\n" for number in range(doubts))
    found = outcome(f"import torch\n{''.join(checks)}")
    assert found.raised is Answer.UNKNOWN
    end = found.usual_end
    assert (end and (end.ways, end.of)) == usual
    assert end is None or (end.raised.exception, end.raised.message) == ("ImportError", "no")


@pytest.mark.parametrize(
    "claim",
    [
        "add is torch.ops.aten.add and add.Tensor is torch.ops.aten.add.Tensor",
        "add.Tensor is not add.Scalar and add.Tensor != add.Scalar and add.default is not add",
        "found[torch.ops.aten.add.Tensor] == 'tensor' and found[torch.ops.aten.add] == 'all' and len(found) == 2",
        "torch.ops.aten.add.Scalar not in found and torch.ops.aten.sub not in found",
    ],
)
def test_an_operator_is_one_object(claim: str) -> None:
    # As torch 2.13.0 has it.
    code = f"""\
import torch
add = torch.ops.aten.add
found = {{torch.ops.aten.add.Tensor: "tensor", torch.ops.aten.add: "all"}}
if {claim}:
    raise ImportError("it holds")
"""
    names = ("add", "add.Tensor", "add.Scalar", "sub")
    world = FakeWorld(operators=frozenset(f"aten::{name}" for name in names))
    (outcome,) = reading_of({"p/__init__.py": code}, world).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == "it holds"
    assert outcome.conditions == ()
