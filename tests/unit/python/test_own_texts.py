"""Texts of files of the package that its code reads: as Python reads them, however long they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.python.package.model import Raised
from tests.unit.python.packages import reading_of

SOURCES = {
    "a character at the place of a former limit": "#" * 99_999 + "é\nx = 1\n",
    "ends of lines": "a = 1\r\nb = 2\rc = 3\n",
    "half a million characters": "# line\n" * 80_000 + "__all__ = ['Last']\n",
}


@pytest.mark.parametrize("read", ["open(FILE, encoding='utf-8').read()", "pathlib.Path(FILE).read_text('utf-8')"])
@pytest.mark.parametrize("name", SOURCES)
def test_the_whole_text_is_there(read: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "text.py"
    path.write_bytes(SOURCES[name].encode())
    expected = path.read_text("utf-8")  # as Python has it
    code = f"import os, pathlib\nFILE = os.path.join(os.path.dirname(__file__), 'text.py')\ntext = {read}\n"
    claim = f"len(text) == {len(expected)} and text[-30:] == {expected[-30:]!r} and text[:9] == {expected[:9]!r}"
    for test, ends in ((f"not ({claim})", None), (claim, "ValueError")):
        files = {"p/__init__.py": f"{code}if {test}:\n    raise ValueError('no')\n", "p/text.py": SOURCES[name]}
        (outcome,) = reading_of(files).imports
        assert not outcome.gaps
        assert getattr(outcome.raised, "exception", None) == ends


@pytest.mark.parametrize(
    ("content", "options", "read"),
    [
        (b"a\r\nb\rc\n", {"newline": ""}, "a\r\nb\rc\n"),
        (b"a\r\nb\rc\n", {}, "a\nb\nc\n"),
        (b"\xe9t\xe9", {"encoding": "latin-1"}, "\xe9t\xe9"),
        (b"\xe9t\xe9", {"errors": "ignore", "encoding": "utf-8"}, "t"),
        (b"\xef\xbb\xbfa", {"encoding": "utf-8-sig"}, "a"),
        (b"\xef\xbb\xbfa", {"encoding": "utf-8"}, "\ufeffa"),
    ],
)
def test_how_a_file_is_opened(content: bytes, options: dict[str, str], read: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with path.open(**options) as file:  # type: ignore[call-overload]
        assert file.read() == read  # as Python has it
    opened = f"open(os.path.join(os.path.dirname(__file__), 'text.txt'), **{options!r})"
    for sign, ends in (("!=", None), ("==", "ValueError")):
        code = f"import os\nif {opened}.read() {sign} {read!r}:\n    raise ValueError('no')\n"
        (outcome,) = reading_of({"p/__init__.py": code, "p/text.txt": content}).imports
        assert getattr(outcome.raised, "exception", None) == ends


@pytest.mark.parametrize("test", ["'x' in text", "'x' not in text"])
def test_a_text_that_is_too_long_is_not_known(test: str) -> None:
    code = f"text = open(__file__.replace('__init__', 'text')).read()\nif {test}:\n    raise ValueError('no')\n"
    (outcome,) = reading_of({"p/__init__.py": code, "p/text.py": "#" * 1_000_001}).imports
    assert not isinstance(outcome.raised, Raised)
