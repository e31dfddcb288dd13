"""What a reading holds on to: neither a second copy of each source, nor a package that was read before."""

from __future__ import annotations

import ast
import gc
import tracemalloc

from abiscan.python.interpreter.values import PythonFunction
from abiscan.python.language.scan import Outline
from abiscan.python.package.library import PythonCode
from abiscan.python.package.sources import PackageFiles
from tests.unit.python.packages import TextSources, reading_of


def test_the_functions_of_a_package_go_when_it_was_read() -> None:
    source = """
import not_there
def goes_when_it_was_read(): pass
not_there.called(not_there.called(goes_when_it_was_read))
"""
    reading_of({"p/__init__.py": source})
    gc.collect()
    kept = [item for item in gc.get_objects() if type(item) is PythonFunction]
    assert "goes_when_it_was_read" not in {item.name for item in kept}


def test_the_trees_of_a_package_go_with_its_sources() -> None:
    code = PythonCode(PackageFiles(TextSources({"p/__init__.py": "goes_with_its_source = 1\n"})), ("p",), (3, 11))
    tree = code.tree("p/__init__.py")
    assert tree is not None
    for known in (code.bindings, code.returns, code.leaves, code.changes_objects):
        known(tree)
    code.forget_sources()
    del tree
    gc.collect()
    # By type: what ``isinstance`` asks an object of torch for its class may warn.
    trees = [item for item in gc.get_objects() if type(item) is ast.Module and len(item.body) == 1]
    assert not [tree for tree in trees if ast.unparse(tree) == "goes_with_its_source = 1"]


def test_outlines_have_no_sources_of_their_own() -> None:
    sources = [b"# %d\n" % number * 5_000 for number in range(30)]
    tracemalloc.start()
    try:
        outlines = [Outline(source) for source in sources]
        assert not any(outline.eager for outline in outlines)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < sum(map(len, sources)) / 2
