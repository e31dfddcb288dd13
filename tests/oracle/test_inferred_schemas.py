"""The schemas that the torch that runs infers from annotations, or what it says of them, against what is predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

import abiscan
from tests import live_torch
from tests.fakes import package_wheel

POSTPONED: Final = "from __future__ import annotations\n"
IMPORTS: Final = """
import collections.abc, typing
import torch
from torch import Tensor
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union
"""
SIGNATURES: Final = [
    *("x: Tensor", "x: torch.Tensor, n: int = 3, *, f: float = 0.5, s: str = 'a', flag: bool = True"),
    *("x: Tensor, size: list[int]", "size: List[int]", "size: Sequence[int]", "size: collections.abc.Sequence[int]"),
    *("x: Optional[Tensor] = None", "x: Tensor | None", "n: int | None = None", "n: None | float"),
    *("x: list[Optional[Tensor]]", "x: Optional[list[Tensor]]", "x: Optional[List[int]]", "x: List[str]"),
    *("x: Tuple[int, int]", "x: tuple[int, ...]", "x: tuple", "x: Tuple[Tensor, int]", "x: Tuple[int]"),
    *(
        "x: dict",
        "x: Dict[str, int]",
        "x: Any",
        "x: object",
        "x: bytes",
        "x: complex",
        "x",
        "x: Tensor, /",
        "*x: Tensor",
    ),
    *("**x: Tensor", "d: torch.device", "d: torch.dtype = torch.float32", "d: Optional[torch.dtype] = None"),
    *(
        "n: Union[int, float, bool]",
        "n: Union[int, float]",
        "n: int = ()",
        "n: int = [1]",
        "x: 'Tensor'",
        "x: 'torch.Tensor'",
    ),
    *(
        "x: List['Tensor']",
        "x: list['Tensor']",
        "s: Optional[str] = None",
        "x: None",
        "n: 'int'",
        "x: typing.Optional['int']",
    ),
]
RETURNS: Final = [
    *("", " -> None", " -> Tensor", " -> list[Tensor]", " -> List[Tensor]", " -> Tuple[Tensor, int]", " -> str"),
    *(" -> tuple[Tensor, ...]", " -> Optional[Tensor]", " -> float", " -> 'Tensor'", " -> dict", " -> Any"),
]
MUTATES: Final = ["()", "('x',)", "('n',)", "('gone',)", "'unknown'", "'x'", "[]", "{}"]
CASES: Final = [
    *((signature, " -> None", "()") for signature in SIGNATURES),
    *(("x: Tensor", returns, "()") for returns in RETURNS),
    *(("x: Tensor, n: int", " -> None", mutates) for mutates in MUTATES),
]

_ASK: Final = """
import json, sys
for number, source in enumerate(json.load(sys.stdin)):
    try:
        exec(compile(source, "case", "exec", dont_inherit=True), {"__name__": f"case{number}"})
        print(json.dumps(None))
    except BaseException as error:
        trace, line = error.__traceback__, None
        while trace:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "case" else line
            trace = trace.tb_next
        print(json.dumps([type(error).__name__, str(error), line]))
"""


def sources() -> list[str]:
    return [
        f"{first}{IMPORTS}\n\n@torch.library.custom_op('cases::op{number}', mutates_args={mutates})\n"
        f"def op({signature}){returns}: ...\n"
        for first in ("", POSTPONED)
        for number, (signature, returns, mutates) in enumerate(CASES, len(first))
    ]


@pytest.mark.slow
def test_what_torch_says_of_annotations(tmp_path: Path) -> None:
    version = live_torch.version()
    assert version is not None
    asked = live_torch.run(_ASK, input=json.dumps(sources()), check=True).stdout.splitlines()
    for source, line in zip(sources(), asked, strict=True):
        wheel = package_wheel(tmp_path, "pkg", {}, files={"pkg/__init__.py": source}, tag="cp311-cp311-linux_x86_64")
        (found,) = abiscan.check(wheel, version).packages
        said = [found.error.exception, found.error.message, found.error.line] if found.error else None
        wheel.unlink()
        assert said == json.loads(line), source
