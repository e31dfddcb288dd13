"""What ``torch.library.infer_schema`` of each release says, as its source does: torch/_library/infer_schema.py."""

from __future__ import annotations

import re
import sys
import typing

import pytest

from abiscan.python.package.model import Raised
from tests.unit.python.packages import FakeWorld, reading_of

IMPORTS = "import torch\nfrom torch import Tensor\nfrom typing import List, Optional, Sequence, Tuple\n"
NO_TYPE = (
    "ValueError: infer_schema(func): Unsupported type annotation Image. It is not a type. Got func with signature "
    "(x: 'Image') -> 'None')"
)
# docs/limitations.md: types are written as the Python that runs abiscan writes them.
OPTIONAL_LIST = str(typing.Optional[list[int]]).replace("int", "torch.Tensor")  # noqa: UP045
POSTPONED = "from __future__ import annotations\n"


def raised(code: str, torch: str) -> str | None:
    world = FakeWorld(torch_version=torch)
    (outcome,) = reading_of({"pkg/__init__.py": code}, world).imports
    if outcome.raised is None:
        return None
    assert isinstance(outcome.raised, Raised)
    return f"{outcome.raised.exception}: {(outcome.raised.message or '').partition(' The valid types')[0]}"


def defined(signature: str, *, first: str = "", mutates: str = "()") -> str:
    decorator = f"@torch.library.custom_op('ns::op', mutates_args={mutates})"
    return f"{first}{IMPORTS}{decorator}\ndef op({signature}) -> None: ...\n"


def unsupported(name: str, type_: str) -> str:
    return f"ValueError: infer_schema(func): Parameter {name} has unsupported type {type_}."


@pytest.mark.parametrize(
    ("code", "torch", "message"),
    [
        (defined("x: Tensor, size: list[int]"), "2.6.0", unsupported("size", "list[int]")),
        (defined("x: Tensor, size: list[int]"), "2.7.0", None),
        (defined("x: Tensor, size: List[int]"), "2.4.0", None),
        (defined("x: Optional[list[Tensor]]"), "2.14.1", unsupported("x", OPTIONAL_LIST)),
        (defined("x: Optional[list[Tensor]]"), "2.15.0", None),
        # Before, every type that is not known was looked at as if it were generic.
        (defined("x: dict"), "2.9.1", "AttributeError: type object 'dict' has no attribute '__origin__'"),
        (defined("x: dict"), "2.10.0", unsupported("x", "<class 'dict'>")),
        (defined("x: Tensor, mode: str = 'a'"), "2.5.0", None),
        (defined("x: Tensor", first=POSTPONED), "2.4.0", unsupported("x", "Tensor")),
        (defined("x: Tensor", first=POSTPONED), "2.5.0", None),
        (defined("x: Tensor | None = None", first=POSTPONED), "2.5.0", None),
        (
            defined("x: Image", first=POSTPONED).replace(IMPORTS, f"{IMPORTS}Image = Tensor\n"),
            "2.6.0",
            NO_TYPE,
        ),
        (defined("x: Image", first=POSTPONED).replace(IMPORTS, f"{IMPORTS}Image = Tensor\n"), "2.7.0", None),
        (defined("x: list['Tensor']"), "2.7.0", None),
        (defined("x: Tensor", mutates="'unknown'"), "2.5.0", None),
        # What is not known is taken to be there.
        (defined("x: Unclear").replace(IMPORTS, f"{IMPORTS}from other import Unclear\n"), "2.13.0", None),
        (f"{IMPORTS}def op(x: set): ...\ntorch.library.infer_schema(op, mutates_args=())\n", "2.3.0", None),
        (
            f"{IMPORTS}def op(x: set): ...\ntorch.library.infer_schema(op, mutates_args=())\n",
            "2.13.0",
            unsupported("x", "<class 'set'>"),
        ),
        (defined("x: set").replace("mutates_args=()", "mutates_args=(), schema='(Tensor x) -> ()'"), "2.13.0", None),
    ],
)
def test_annotations(code: str, torch: str, message: str | None) -> None:
    assert raised(code, torch) == message


@pytest.mark.parametrize(
    ("type_", "accepted"),
    [
        # Which of the forms below torch 2.13.0 takes, asked with ``torch.library.infer_schema``.
        ("Tensor", "1111100"),
        ("int", "1111010"),
        ("float", "1111010"),
        ("bool", "1111010"),
        ("str", "1100000"),
        ("torch.types.Number", "1111000"),
        ("torch.dtype", "1100000"),
        ("torch.device", "1100000"),
    ],
)
def test_the_lists_of_each_type(type_: str, accepted: str) -> None:
    forms = ["{}", "Optional[{}]", "List[{}]", "Sequence[{}]", "List[Optional[{}]]", "Optional[List[{}]]"]
    forms += ["Optional[List[Optional[{}]]]"]
    said = [raised(defined(f"x: {form.format(type_)}"), "2.13.0") for form in forms]
    assert "".join("1" if message is None else "0" for message in said) == accepted
    assert all("has unsupported type" in message for message in said if message is not None)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="it writes other types in another way, so no list is known")
@pytest.mark.parametrize(
    ("torch", "listed"),
    [
        ("2.9.1", ["dtype", "dtype", "device", "device"]),
        # The last two are in the message of torch 2.13.0, too.
        ("2.13.0", ["dtype", "dtype", "device", "device", "GroupName", "GroupName"]),
    ],
)
def test_the_valid_types_are_listed_to_the_end(torch: str, listed: list[str]) -> None:
    (outcome,) = reading_of({"pkg/__init__.py": defined("x: List[str]")}, FakeWorld(torch_version=torch)).imports
    assert isinstance(outcome.raised, Raised)
    _, _, valid = (outcome.raised.message or "").partition("The valid types are: ")
    assert re.findall(r"torch\.(?:\w+\.)*(dtype|device|GroupName)\b", valid) == listed
    assert valid.count("GroupName") == listed.count("GroupName")


def test_the_text_of_a_schema_is_not_known_but_for_its_form() -> None:
    code = (
        f"{IMPORTS}def op(x: Tensor) -> Tuple[Tensor, Tensor]: ...\n"
        "schema = torch.library.infer_schema(op, mutates_args=())\n"
        "torch.library.Library('ns', 'DEF').define('op' + schema)\n"
        "taken, given = schema.split(' -> ')\n"
        "assert given.count('Tensor') == 2\n"  # as IrOpInplaceOverload in vllm 0.22.0
    )
    (outcome,) = reading_of({"pkg/__init__.py": code}, FakeWorld(torch_version="2.11.0")).imports
    assert (outcome.raised, outcome.gaps) == (None, ())
    assert [registration.operator for registration in outcome.registrations] == ["ns::op"]
