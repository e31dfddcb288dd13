"""Extensions that are generated at random, and some that are written to provoke, against a real torch.

Compiling takes half a minute for each compiler and level, and seconds for each extension, so it is asked for:

    ABISCAN_EXTENSIONS=FOLDER pytest tests/oracle/test_generated_extensions.py -s

FOLDER keeps the objects. ``ABISCAN_SEED`` is the seed of the 200 extensions, else one is chosen and printed.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from abiscan.emulation.shared_ids import NUMBERS
from tests import live_torch
from tools import generate_extensions

TORCH = "2.13.0"
FOLDER = os.environ.get("ABISCAN_EXTENSIONS")
WRITTEN = Path(__file__).with_name("initialisers")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(live_torch.version() != TORCH, reason=f"needs torch {TORCH} in this interpreter"),
]
needs_folder = pytest.mark.skipif(not FOLDER, reason="needs ABISCAN_EXTENSIONS")


@needs_folder
def test_no_difference_is_silent_and_no_verdict_wrong() -> None:
    seed = os.environ.get("ABISCAN_SEED") or str(random.SystemRandom().randrange(1 << 30))
    print(f"ABISCAN_SEED={seed}")
    assert generate_extensions.main(["--count", "200", "--seed", seed, "--cache", str(FOLDER)]) == 0


@needs_folder
def test_what_is_written_to_provoke() -> None:
    assert generate_extensions.main(["--sources", str(WRITTEN), "--cache", str(FOLDER)]) == 0


def test_the_numbers_of_facets_are_those_in_a_process_with_torch() -> None:
    program = (
        "import ctypes, torch\n"
        "library = ctypes.CDLL('libstdc++.so.6')\n"
        f"for name in {sorted(NUMBERS)!r}:\n"
        "    print(name, ctypes.c_uint64.in_dll(library, name).value)\n"
    )
    lines = live_torch.run(program).stdout.splitlines()
    assert {name: int(number) for name, number in map(str.split, lines)} == NUMBERS
