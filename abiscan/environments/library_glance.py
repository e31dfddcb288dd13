"""A look at libraries that have nothing to do with torch: does anything keep them from being loaded?

What they need is there by its name, and the numpy that is installed is one that they were compiled for. Whatever leaves
a doubt is for the reading of ``check``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from abiscan.binary.elf import SharedObject
from abiscan.environments.model import WholeEnvironment, sources_of
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.packages import Distribution
from abiscan.python.language.scan import Outline, is_in_comment
from abiscan.python.package.installed import Surroundings, is_module_in
from abiscan.python.package.model import Answer
from abiscan.regex import regex
from abiscan.verdict.numpy_abi import find_module_error

_LOADING: Final = (b"CDLL", b"cdll", b"dlopen", b"PyDLL", b"LoadLibrary", b"load_library", b"LibraryLoader")
"""What Python code loads libraries by that are no modules."""
_TRIED: Final = frozenset({b"try", b"except"})


class LibraryGlance:
    """What a look tells of the libraries in an environment.

    :param surroundings: those of its packages
    """

    def __init__(self, environment: WholeEnvironment, surroundings: Surroundings, files: Files) -> None:
        self._surroundings = surroundings
        self._files = files
        libraries = (path for item in environment.distributions for path in item.objects)
        self._names = frozenset(map(posixpath.basename, libraries))
        numpy = environment.find("numpy")
        self._numpy = (numpy.site,) if numpy is not None else ()
        self._answers: dict[Distribution, bool] = {}

    def settles(self, distribution: Distribution) -> bool:
        """Whether nothing keeps any library of a distribution from being loaded."""
        if distribution not in self._answers:
            self._answers[distribution] = not distribution.images and self._settles(distribution)
        return self._answers[distribution]

    def _settles(self, distribution: Distribution) -> bool:
        # One after the other: the facts of all libraries together are large.
        found = ((path, self._files.object_at(path, remember=False)) for path in distribution.objects)
        failing = {path: facts for path, facts in found if not self._loads(path, facts)}
        if None in failing.values():
            return False
        modules = [path for path, facts in failing.items() if facts and facts.python_modules]
        plugins = [path for path in failing if path not in modules]
        names = {posixpath.basename(path).partition(".")[0] for path in modules}
        if modules and not _does_without(distribution, names):
            return False
        if not plugins:
            return True
        # A plugin, as those of Qt in opencv, is loaded when it is needed: not if code names it, or loads libraries by
        # their paths.
        if any(self._is_needed(path, distribution) for path in plugins):
            return False
        words = (*_LOADING, *(posixpath.basename(path).partition(".")[0].encode() for path in plugins))
        return not any(word in text for text in sources_of(distribution) for word in words)

    def _is_needed(self, path: str, distribution: Distribution) -> bool:
        """Whether a library is needed by another one."""
        others = (self._files.object_at(other, remember=False) for other in distribution.objects)
        return any(other is not None and posixpath.basename(path) in other.needed for other in others)

    def _loads(self, path: str, facts: SharedObject | None) -> bool:
        if facts is None or (facts.python_modules and self._is_for_another_python(path)):
            return False
        if not all(name in self._names or self._surroundings.system_has(name) is True for name in facts.needed):
            return False
        try:
            return find_module_error(path, self._files, self._numpy) is None
        except InputError:
            return False

    def _is_for_another_python(self, path: str) -> bool:
        """Whether an import skips a module whose name says that it is for another Python, and finds no other one."""
        folder, name = posixpath.split(path)
        python, tag = self._surroundings.python, PythonTag.of_file(name)
        if tag is None or isinstance(python, Answer) or (tag.major, tag.minor) == python:
            return False
        return not is_module_in(Path(folder), name.partition(".")[0], python)


def _does_without(distribution: Distribution, modules: Collection[str]) -> bool:
    """Whether all that code of a distribution does with some extension modules is to try them inside of functions, as
    numba does with the one for TBB: nothing depends on them.
    """
    words = regex(rb"\b(?:%b)\b" % "|".join(map(re.escape, modules)).encode())
    tried = set[str]()
    for outline in map(Outline, sources_of(distribution, tests=False)):
        for match in words.finditer(outline.data):
            if is_in_comment(outline.data, match.start()):
                continue
            around = {keyword for keyword, _ in outline.around(match.start())}
            if b"def" not in around or around.isdisjoint(_TRIED):
                return False
            tried.add(match[0].decode())
    return tried >= {*modules}
