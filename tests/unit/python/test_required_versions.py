"""What code asks of the version of a distribution that is required: known where all versions that fit agree."""

from __future__ import annotations

import operator
from itertools import product
from types import SimpleNamespace

import pytest
from packaging import version
from packaging.specifiers import SpecifierSet

from abiscan.python.package.model import Answer, Raised
from tests.unit.python.packages import reading_of

VERSIONS = [".".join(map(str, parts)) for parts in product(range(4), range(24), (0, 1, 2, 9))]
COMPARISONS = [
    (">=0.21,<0.22", "version.parse(metadata.version('some-thing')) >= version.parse('0.21')"),
    (">=0.21,<0.22", "version.parse(metadata.version('some-thing')) < version.parse('0.21.2')"),
    (">=0.21,<0.22", "operator.lt(version.parse(metadata.version('some-thing')), version.parse('0.22'))"),
    (">=0.21,<0.22", "is_at_least(metadata.version('some-thing'), '0.22')"),
    (">=1.4", "{'>=': operator.ge}['>='](version.Version(metadata.version('some_thing')), version.Version('1.4'))"),
    (">=1.4", "version.parse(metadata.version('some-thing')) >= version.parse('2.0')"),
    ("!=1.4.1", "version.parse(metadata.version('Some.Thing')) != version.parse('1.4.1')"),
    ("~=1.4.1", "version.parse(metadata.version('some-thing')) < version.parse('1.5')"),
    ("==2.*", "int(metadata.version('some-thing').split('.')[0]) == 2"),
    ("==2.*", "metadata.version('some-thing') is None"),
    ("==1.4.1", "metadata.version('some-thing') == '1.4.1'"),
    (">=2", "metadata.version('some-thing').startswith('1.')"),
    (">=1.4", "version.parse(unpacked) >= version.parse('1.4')"),
    ("", "version.parse(metadata.version('some-thing')) > version.parse('1.0')"),
]
START = """import operator
from importlib import metadata
from packaging import version
def is_at_least(there, wanted):
    return there is not None and version.parse(there) >= version.parse(wanted)
def find(name):
    return True, metadata.version(name)
is_there, unpacked = find("some-thing")
"""


def really(specifier: str, comparison: str) -> bool | None:
    """What a comparison is for all versions that fit; None if it depends on which one is there."""
    answers = set()
    for text in SpecifierSet(specifier).filter(VERSIONS):
        metadata = SimpleNamespace(version=lambda _name, text=text: text)
        names = {"metadata": metadata, "version": version, "operator": operator}
        names["unpacked"] = text
        names["is_at_least"] = lambda there, wanted: version.parse(there) >= version.parse(wanted)
        answers.add(eval(comparison, names))
    return answers.pop() if len(answers) == 1 else None


@pytest.mark.parametrize(("specifier", "comparison"), COMPARISONS)
def test_what_all_versions_agree_on_is_known(specifier: str, comparison: str) -> None:
    files = {
        "p/__init__.py": f"{START}if not ({comparison}):\n    raise ValueError\n",
        "p-1.dist-info/METADATA": f"Name: p\nRequires-Dist: some-thing{specifier}\nRequires-Dist: packaging\n\n",
    }
    raised = reading_of(files).imports[0].raised
    expected = really(specifier, comparison)
    assert {True: raised is None, False: isinstance(raised, Raised), None: raised is Answer.UNKNOWN}[expected]


def test_what_an_extra_requires_counts_where_it_is_there() -> None:
    code = "if importlib.util.find_spec('some_thing') and version.parse(metadata.version('some-thing')) < WANTED:\n"
    files = {
        "p/__init__.py": f"import importlib.util\n{START}WANTED = version.parse('1.4')\n{code}    raise ValueError\n",
        "p-1.dist-info/METADATA": "Name: p\nRequires-Dist: some-thing>=1.4; extra == 'all'\n\n",
    }
    assert reading_of(files).imports[0].raised is None


FOUND = "def find():\n    return metadata.version('numpy')\nclass A:\n    def find(self):\n        return find()\n"


@pytest.mark.parametrize("version", ["metadata.version('numpy')", "find()", "A().find()"])
@pytest.mark.parametrize(("specifier", "shown"), [("", "?"), (">=1.20", "?"), ("==1.26.4", "1.26.4")])
def test_a_version_that_is_not_known_is_a_hole_in_the_text(version: str, specifier: str, shown: str) -> None:
    start = f"import torch\nfrom importlib import metadata\n{FOUND}"
    files = {
        "p/__init__.py": f'{start}raise ImportError(f"numpy {{{version}}} is too old")\n',
        "p-1.dist-info/METADATA": f"Name: p\nRequires-Dist: numpy{specifier}\n\n",
    }
    raised = reading_of(files).imports[0].raised
    assert isinstance(raised, Raised)
    assert raised.message == f"numpy {shown} is too old"
    path = f"/lib/lib{{{version}}}.so"
    (gap,) = reading_of({**files, "p/__init__.py": f'{start}torch.ops.load_library(f"{path}")\n'}).imports[0].gaps
    assert (path if shown == "?" else "/lib/lib1.26.4.so") in gap
