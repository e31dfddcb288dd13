"""A look at libraries that have nothing to do with torch: does anything keep them from being loaded?

What they need is there by its name, and the numpy that is installed is one that they were compiled for. Whatever leaves
a doubt is for the reading of ``check``.
"""

from __future__ import annotations

import posixpath
from typing import Final

from abiscan.environments.model import WholeEnvironment, sources_of
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.inputs.packages import Distribution
from abiscan.python.installed import Surroundings
from abiscan.verdict.numpy_abi import find_module_error

_LOADING: Final = (b"CDLL", b"cdll", b"dlopen", b"PyDLL", b"LoadLibrary", b"load_library", b"LibraryLoader")
"""What Python code loads libraries by that are no modules."""


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
        failing = [path for path in distribution.objects if not self._loads(path)]
        if not failing:
            return True
        # A plugin, as those of Qt in opencv, is loaded when it is needed: not if code names it, or loads libraries by
        # their paths.
        if any(self._is_reached(path, distribution) for path in failing):
            return False
        words = (*_LOADING, *(posixpath.basename(path).partition(".")[0].encode() for path in failing))
        return not any(word in text for text in sources_of(distribution) for word in words)

    def _is_reached(self, path: str, distribution: Distribution) -> bool:
        """Whether a library is a module, may be one, or is needed by another one."""
        facts = self._files.object_at(path, remember=False)
        if facts is None or facts.python_modules:
            return True
        others = (self._files.object_at(other, remember=False) for other in distribution.objects)
        return any(other is not None and posixpath.basename(path) in other.needed for other in others)

    def _loads(self, path: str) -> bool:
        facts = self._files.object_at(path, remember=False)
        if facts is None:
            return False
        if not all(name in self._names or self._surroundings.system_has(name) is True for name in facts.needed):
            return False
        try:
            return find_module_error(path, self._files, self._numpy) is None
        except InputError:
            return False
