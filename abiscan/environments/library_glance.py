"""A look at libraries that have nothing to do with torch: does anything keep them from being loaded?

What they need is there by its name, and the numpy that is installed is one that they were compiled for. Whatever leaves
a doubt is for the reading of ``check``.
"""

from __future__ import annotations

import posixpath

from abiscan.environments.model import WholeEnvironment
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.inputs.packages import Distribution
from abiscan.python.installed import Surroundings
from abiscan.verdict.numpy_abi import find_module_error


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
            self._answers[distribution] = not distribution.images and all(map(self._loads, distribution.objects))
        return self._answers[distribution]

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
