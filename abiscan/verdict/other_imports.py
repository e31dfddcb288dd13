"""What imports of other installed packages raise: each package is read once for all targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from abiscan.cache.result_cache import AnswersAboutOne
from abiscan.inputs import observed_fs
from abiscan.inputs.session import Session
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer, Raised, World

if TYPE_CHECKING:
    from abiscan.python.importing.other_code import OtherCode
    from abiscan.verdict.given import GivenNeighbours


class OtherImports:
    """What imports of the packages of one environment raise, as far as it is certain; for one package after the other.

    :param subject: everything that decides on it, except for what is looked at on this machine
    :param read: returns the code of the package that a top-level module is, next to a package with these surroundings
        and in a world like that one's; None if there is none to read
    :param known: what imports are known to raise, by their top-level modules
    :param neighbours: the packages that are to be installed there
    :param is_sound: tells of a module, or of a name from it, whether the import certainly works, without reading it
    :ivar unsure: the top-level modules of which the package imports something that does not certainly work
    """

    def __init__(
        self,
        session: Session,
        subject: Sequence[object],
        read: Callable[[str, Surroundings, World], OtherCode | None],
        known: Mapping[str, Raised],
        neighbours: GivenNeighbours | None = None,
        is_sound: Callable[[str, str | None], bool] | None = None,
    ) -> None:
        self._session, self._subject, self._read, self._known = session, subject, read, known
        self._neighbours = neighbours
        self._is_sound = is_sound
        self._codes: dict[tuple[str, frozenset[str]], OtherCode | None] = {}
        self._answers: dict[tuple[str, frozenset[str]], AnswersAboutOne[Raised | Answer | None]] = {}
        self._in_circles: set[tuple[str, frozenset[str]]] = set()
        self._importing: list[str] = []
        self._own = 0
        self.unsure = set[str]()
        self._around: tuple[Surroundings, World] | None = None
        self._circles = 0

    def read_by(self, read: Callable[[str, Surroundings, World], OtherCode | None]) -> OtherImports:
        """Return the same, which reads further code by another function."""
        self._read = read
        return self

    def error(self, module: str, name: str | None) -> Raised | Answer | None:
        """Return what the import of a module raises, or of a name from it; None if it certainly works, and unknown if
        nothing is known to fail.
        """
        top = module.partition(".")[0]
        if top in self._known:
            return self._known[top]
        # A package that others import in a circle is in the middle of its import: what it raises is raised there.
        if top in self._importing:
            self._circles += 1
            return None
        key = top, self._changing
        if key not in self._answers:
            subject = ["imports of", top, *sorted(self._changing), *self._subject]
            self._answers[key] = AnswersAboutOne(self._session.folder, subject)
        raised = self._answers[key].answer(f"{module} {name or ''}", lambda: self._find(top, module, name))
        # What importing a package alone comes to is told of the package itself.
        if raised is Answer.UNKNOWN and (name or module != top) and len(self._importing) == self._own:
            self.unsure.add(top)
        return raised

    @property
    def _changing(self) -> frozenset[str]:
        """What installing the package may bring or replace, next to which others are read: see ``Surroundings``."""
        return self._around[0].changing if self._around else frozenset()

    def around(self, surroundings: Surroundings) -> Surroundings:
        """Return the surroundings of a package, with what imports of others raise there."""
        if self._neighbours is None:
            return replace(surroundings, import_error=self.error)
        return self._neighbours.around(surroundings, self.error)

    @contextmanager
    def importing(self, modules: Iterable[str], surroundings: Surroundings, world: World) -> Iterator[None]:
        """Take modules to be in the middle of their import; then keep what was found out about others."""
        self._importing, self._around = [module.partition(".")[0] for module in modules], (surroundings, world)
        self._own, self.unsure = len(self._importing), set()
        yield
        for answers in self._answers.values():
            answers.keep()
        # What took long is not read again for the next package, unless it was read in a circle of imports.
        self._codes = {
            key: code
            for key, code in self._codes.items()
            if code is not None and code.took_long and key not in self._in_circles
        }
        self._answers = {key: answers for key, answers in self._answers.items() if key in self._codes}
        for answers in self._answers.values():
            answers.forget_passing()

    def _find(self, top: str, module: str, name: str | None) -> tuple[Raised | Answer | None, bool]:
        """Return what an import raises, and whether that is so wherever it is imported."""
        circles = self._circles
        # What another reading has looked at in the same surroundings is not looked at again, but decides here, too.
        for folder in self._around[0].folders if self._around else ():
            observed_fs.list_names(folder)
            observed_fs.observe_packages(str(folder))
        if self._is_sound is not None and self._is_sound(module, name):
            return None, True
        self._importing.append(top)
        key = top, self._changing
        try:
            if key not in self._codes:
                self._codes[key] = self._read(top, *self._around) if self._around else None
            code = self._codes[key]
            raised = (code.error(module, name) if code is not None else None) or Answer.UNKNOWN
        finally:
            self._importing.pop()
        if self._circles != circles:
            self._in_circles.add(key)
        return raised, self._circles == circles
