"""Conditions on ``sys.version_info`` where the Python is not known, but the oldest and the newest that it may be."""

from __future__ import annotations

import ast
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from abiscan.inputs.requirement import read_metadata
from abiscan.python.importing import runs
from abiscan.python.interpreter.unknown_python import VersionInfo, as_number
from abiscan.python.language.written import write_expression
from abiscan.python.package.model import Answer, Raised
from abiscan.python.reading import PackageReader
from abiscan.verdict.any_system import possible_pythons
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

if TYPE_CHECKING:
    from abiscan.inputs.sources import Target
    from abiscan.python.interpreter.imports import PythonInterpreter
    from abiscan.python.interpreter.machine import Choices

OLDEST, NEWEST = (3, 10), (3, 14)
CONDITIONS = (
    "version >= (3, 8)",
    "version >= (3, 10)",
    "version >= (3, 11)",
    "version > (3, 14)",
    "version < (3, 15)",
    "(3, 9) < version",
    "(3, 12) < version",
    "version[0] >= 3 and version[1] >= 8",
    "version[0] >= 3 and version[1] >= 12",
    "version[0] == 2",
    "version.major == 3",
    "version.minor >= 10",
    "version.minor > 10",
    "version.minor == 12",
    "version.minor != 9",
    "version[1] in (8, 9)",
    "version[1] in (8, 10)",
    "version[:2] == (3, 9)",
    "version[:2] == (3, 12)",
    "version[:2] <= (3, 14)",
    "version[:2] in ((3, 6), (3, 7))",
    "version[2] >= 4 and version >= (3, 10)",
    "version[1:] > (9, 0)",
    "version == (3, 12)",
    "number >= 0x03080000",
    "number >= 0x030a0000",
    "number < 0x030c00f0",
    "0x030f0000 <= number",
    "number == 0x03090000",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_comparison_is_decided_where_all_pythons_agree(condition: str) -> None:
    code = f"import sys\nversion = sys.version_info\nnumber = sys.hexversion\nif {condition}:\n    raise ValueError\n"
    world = FakeWorld(python=Answer.UNKNOWN, oldest_python=OLDEST, newest_python=NEWEST)
    (outcome,) = reading_of({"p/__init__.py": code}, world).imports
    truths = {
        eval(condition, {"version": VersionInfo(3, minor), "number": as_number(VersionInfo(3, minor))})
        for minor in range(OLDEST[1], NEWEST[1] + 1)
    }
    if outcome.raised is Answer.UNKNOWN:
        assert outcome.conditions
        assert len(truths) == 2, "all Pythons agree"
    else:
        assert truths == {outcome.raised is not None}


@pytest.mark.parametrize(
    ("code", "condition"),
    [
        ("version = '.'.join(str(part) for part in sys.version_info[:3])", "Version(version) >= Version('3.10')"),
        ("version = '.'.join([str(part) for part in sys.version_info[:2]])", "Version(version) >= Version('3.8.1')"),
        ("version = platform.python_version()", "Version(version).release >= (3, 8)"),
        ("major, minor = sys.version_info[:2]", "major == 3 and minor >= 8"),
        ("major, *others = sys.version_info", "major == 3 and others[0] >= 8"),
        ("class Has:\n    version = sys.version_info\n", "Has.version[1] >= 10"),
        ("held = {'version': sys.version_info}", "held['version'].minor >= 10"),
        ("def is_new(version=sys.version_info): return (3, 8) <= version < (3, 15)", "is_new()"),
    ],
)
def test_what_is_made_of_a_version_is_decided_where_all_pythons_agree(code: str, condition: str) -> None:
    code = (
        f"import platform, sys\nfrom packaging.version import Version\n{code}\nif {condition}:\n    raise ValueError\n"
    )
    world = FakeWorld(python=Answer.UNKNOWN, oldest_python=OLDEST, newest_python=NEWEST)
    (outcome,) = reading_of({"p/__init__.py": code}, world).imports
    assert isinstance(outcome.raised, Raised)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("import sys\nif sys.version_info >= (3, 8):\n    pass\n", 1),
        ("import sys\nif sys.version_info >= (3, 12):\n    pass\n", 2),
        ("import sys\nname = f'cp{sys.version_info[1]}'\nif name == 'cp9':\n    import nope\n", 4),
        ("import tomllib\n", 2),
        ("import zoneinfo\n", 1),
    ],
)
def test_pythons_that_answer_alike_share_a_run(code: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    import_once = runs._import_once

    def note(machine: PythonInterpreter, module: str, choices: Choices) -> runs.Run:
        made.append(module)
        return import_once(machine, module, choices)

    monkeypatch.setattr(runs, "_import_once", note)
    reader = PackageReader(TextSources({"p/__init__.py": code}))
    for minor in (10, 11, 12, 13):
        reader.read(lambda minor=minor: FakeWorld(python=(3, minor)))  # type: ignore[misc]
    assert len(made) == count


@pytest.mark.skipif(sys.version_info.releaselevel != "final", reason="the number of a final release is asked for")
def test_the_version_as_a_number_is_that_of_python() -> None:
    assert as_number(VersionInfo(*sys.version_info[:3])) == sys.hexversion


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("sys.hexversion >= 0x030b04f0", True),  # the last patch release counts, as for sys.version_info
        ("sys.hexversion < 0x030c0000", True),
        ("sys.hexversion >= 0x030c0000", False),
        ("platform.python_version_tuple()[:2] == ('3', '11')", True),
        ("int(platform.python_version_tuple()[1]) < 11", False),
    ],
)
def test_a_known_python_is_compared_by_each_of_its_names(condition: str, *, holds: bool) -> None:
    code = f"import sys, platform\nif {condition}:\n    raise ValueError\n"
    (outcome,) = reading_of({"p/__init__.py": code}, FakeWorld(python=(3, 11))).imports
    assert (outcome.raised is not None, outcome.conditions) == (holds, ())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("f'not on {platform.python_version()}'", "not on 3.11.?"),
        ("'not on %d.%d.%d' % sys.version_info[:3]", "not on 3.11.?"),
        ("'.'.join(platform.python_version_tuple())", "3.11.?"),
        ("'not on {}.{}'.format(*sys.version_info[:2])", "not on 3.11"),
        ("'needs 1.3.11.99 or 3.11.990'", "needs 1.3.11.99 or 3.11.990"),
    ],
)
def test_a_message_does_not_name_a_patch_release_that_is_not_known(words: str, message: str) -> None:
    code = f"import sys, platform\nraise ValueError({words})\n"
    (outcome,) = reading_of({"p/__init__.py": code}, FakeWorld(python=(3, 11))).imports
    assert isinstance(outcome.raised, Raised)
    assert (outcome.raised.message, outcome.raised.exact) == (message, "?" not in message)


@pytest.mark.parametrize(
    ("wheel", "required", "release", "expected"),
    [
        ("pkg-1.0-cp39-abi3-manylinux_2_28_x86_64.whl", "", "2.13.0", ((3, 10), (3, 14))),
        ("pkg-1.0-cp312-abi3-manylinux_2_28_x86_64.whl", ">=3.9", "2.13.0", ((3, 12), (3, 14))),
        ("pkg-1.0-py3-none-any.whl", ">=3.11,<3.14", "2.13.0", ((3, 11), (3, 13))),
        ("pkg-1.0-py3-none-any.whl", "", "2.0.0", ((3, 8), (3, 11))),
        ("pkg-1.0-cp39-abi3-manylinux_2_28_x86_64.whl", "", "99.0", ((3, 9), None)),
        ("pkg-1.0-py3-none-any.whl", ">=3.9", None, (None, None)),
    ],
)
def test_the_pythons_are_those_of_tag_metadata_and_torch(
    wheel: str, required: str, release: str | None, expected: tuple[tuple[int, int] | None, tuple[int, int] | None]
) -> None:
    text = f"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\nRequires-Python: {required}\n\n"
    target = cast("Target", SimpleNamespace(metadata=read_metadata(text, wheel)))
    assert possible_pythons(Answer.UNKNOWN, target, release) == expected
    assert possible_pythons((3, 12), target, release) == ((3, 12), (3, 12))


@pytest.mark.parametrize(
    "condition",
    ["sys.hexversion >= 0x030c00f0", "0x030a0000 <= sys.hexversion < 0x030c00f0", "sys.hexversion != 1000.0"],
)
def test_a_condition_shows_the_number_of_a_python_as_it_is_written(condition: str) -> None:
    assert write_expression(ast.parse(condition, mode="eval").body) == condition
