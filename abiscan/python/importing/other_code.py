"""The code of other installed packages that the code of a package imports, read as its own is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from abiscan.python.importing.certainty import is_certain
from abiscan.python.importing.runs import as_raised, deep_calls
from abiscan.python.interpreter.cost import counted_by
from abiscan.python.interpreter.imports import PythonInterpreter
from abiscan.python.interpreter.machine import Checkpoint, Decision, Exhausted, Limits, ProcessEnded
from abiscan.python.interpreter.models import meta_path
from abiscan.python.interpreter.questions import AskedWorld
from abiscan.python.interpreter.values import Instance, PythonModule, Stage, Thrown
from abiscan.python.language.dynamic_names import absolute_name, may_bind, star_imports
from abiscan.python.language.grammar import FAILURES
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, LoadedBy, NoResult, Raised, World
from abiscan.python.package.sources import PackageFiles, PackageSources
from abiscan.regex import regex

_log = logging.getLogger("abiscan.python")
_LIMITS: Final = Limits(steps=8_000_000)
_MOST_DECISIONS: Final = 8
_MANY_STEPS: Final = 200_000
_NAMED_FILE: Final = regex(r"(cannot import name '\w+' from (?:partially initialized module )?'([\w.]+)'.*) \(.*\)")


class CompiledCodeLoads:
    """A world in which the libraries of a package load: one that has nothing to do with torch.

    What such a library does is not known, so that its names have no values.

    :param import_error: returns what the import of a library raises all the same
    """

    def __init__(self, world: World, import_error: Callable[[str], Raised | None]) -> None:
        self._import_error = import_error
        self.torch_version, self.cuda, self.cxx11_abi = world.torch_version, world.cuda, world.cxx11_abi
        self.python = world.python
        self.oldest_python, self.newest_python = world.oldest_python, world.newest_python
        self.machine, self.cpu, self.gpus = world.machine, world.cpu, world.gpus
        self.torch_names = world.torch_names

    def load(self, path: str | None, loader: LoadedBy) -> Raised | None:
        """Load a library; see ``World.load``."""
        return self._import_error(path) if path is not None and loader is LoadedBy.IMPORT else None

    def operator(self, _name: str) -> Answer:
        """Tell whether there is an operator; see ``World.operator``."""
        return Answer.UNKNOWN

    def call(self, _operator: str) -> NoResult:
        """Call an operator; see ``World.call``."""
        return NoResult(reason="what is compiled is not read")

    def refused_load(self, _path: str) -> None:
        """Tell what ``torch.load`` refuses; see ``World.refused_load``. Saved files of other packages are not read."""


class OtherCode:
    """The code of an installed package, read as it runs in one process for all that others import of it.

    :param module: the name that it is imported by
    :param fresh: gives a world of it in which nothing is loaded yet
    """

    def __init__(
        self, package: PackageSources, module: str, fresh: Callable[[], World], surroundings: Surroundings
    ) -> None:
        world = fresh()
        self._library = PythonCode(PackageFiles(package), (module,), world.python, surroundings)
        self._machine: PythonInterpreter | None = PythonInterpreter(self._library, AskedWorld(world), {}, _LIMITS)
        self._machine.most_steps_with_large_bodies = _LIMITS.steps

    @property
    def took_long(self) -> bool:
        """Whether reading it again would take long: the first reading was given up, or took many steps."""
        return self._machine is None or self._machine.steps > _MANY_STEPS

    def error(self, module: str, name: str | None) -> Raised | None:
        """Return what the import of a module raises, or of a name from it; None if that is nothing, or not certain."""
        try:
            raised = self._find_error(module, name)
            return None if raised is None else self._placed(raised)
        finally:
            # Dozens of packages may be imported on the way, and their trees would add up to a gigabyte.
            self._library.forget_sources()

    def _placed(self, raised: Raised) -> Raised:
        """Return an error that names the file of a module where that is installed."""
        cause = None if raised.cause is None else self._placed(raised.cause)
        found = _NAMED_FILE.fullmatch(raised.message or "")
        file = self._library.surroundings.source(found[2]) if found else None
        return replace(raised, cause=cause, message=f"{found[1]} ({file})" if found and file else raised.message)

    def _find_error(self, module: str, name: str | None) -> Raised | None:
        if self._machine is None:
            return None
        # What is decided while a package is imported does not count against the import of a module in it, or of a name
        # from it.
        around = module if name is not None else module.rpartition(".")[0]
        if around and around not in self._machine.modules:
            raised = self._find_error(around, None)
            if raised is not None or self._machine is None:
                return raised
        before, decided = self._machine.checkpoint(), set(self._machine.trace.decisions)
        entered = len(self._machine.trace.imported)
        raised = self._import(module, name)
        if raised is None or self._machine is None:
            return None
        trace = self._machine.trace
        is_lacking = self._is_nowhere(module, raised) if name is None else self._lacks(module, name, raised)
        if name is not None and (raised.message or "").startswith(f"cannot import name {name!r} from {module!r}"):
            raised = replace(raised, of_attribute=self._error_of_attribute(module, name))
        is_lacking = is_lacking or self._is_unbound(raised)
        new = [decision for spot, decision in trace.decisions.items() if spot not in decided]
        # A function of a module that was imported says it of the name, and not the import of that module, nor the body
        # of one that it leads to, which may have been entered before.
        is_of_name = name is not None and module in self._machine.modules
        is_refused = is_of_name and not new and trace.unfinished.isdisjoint(trace.imported[entered:])
        if not (is_lacking or is_refused or is_certain(raised, self._library.surroundings, trace)):
            if module.partition(".")[0] not in self._machine.modules and not self._passes(module, before, new):
                self._machine = None  # each import of it would run all of it again, to the same end
            elif module in before.modules:
                self._take_back(before, new)
            return None
        if trace.is_doubtful or trace.may_end_earlier or len(new) > _MOST_DECISIONS:
            self._take_back(before, new)
            return None
        # The decisions made before stay the same. Those made on the way to the error must not affect it, and the other
        # way must not come to the error by a decision of its own.
        for decision in new:
            self._machine.go_back(before, {decision.spot: not decision.condition.taken})
            other = self._import(module, name)
            is_same = other is not None and (other.exception, other.message) == (raised.exception, raised.message)
            if not is_same or trace.decisions.keys() - decided - {one.spot for one in new}:
                raised = None
                break
        self._take_back(before, new)
        return raised

    def _take_back(self, before: Checkpoint, new: Sequence[Decision]) -> None:
        """Forget an import that has failed, with what was decided on its way: another one decides that anew."""
        if new and self._machine is not None:
            self._machine.go_back(before, {})
            for decision in new:
                self._machine.trace.decisions.pop(decision.spot, None)

    def _passes(self, module: str, before: Checkpoint, new: Sequence[Decision]) -> bool:
        """Whether a module is imported if the last condition that is not known is the other way: it may be a check."""
        if not new or self._machine is None:
            return False
        self._machine.go_back(before, {new[-1].spot: not new[-1].condition.taken})
        return self._import(module, None) is None and self._machine is not None

    def _is_unbound(self, raised: Raised) -> bool:
        """Whether an error says that a name is not defined which only a part of its module binds that did not run."""
        if self._machine is None or raised.exception != "NameError" or raised.at is None:
            return False
        names = self._machine.unbound_in.get(raised.at.file, ())
        return any(raised.message == f"name {name!r} is not defined" for name in names)

    def _is_nowhere(self, module: str, raised: Raised) -> bool:
        """Whether an error says that a module is not there, in a package that was imported, and no finder has it."""
        if self._machine is None or not raised.says_that_it_lacks(module, None):
            return False
        around, _, last = module.rpartition(".")
        if self._library.surroundings.has(around, last):
            return False
        value = self._machine.modules.get(around)
        if not isinstance(value, PythonModule):
            return isinstance(value, Instance)
        is_usual = value.file is not None and self._is_not_in(value.file, "__path__")
        return is_usual and not meta_path.may_be_found_last(self._machine, module, value)

    def _lacks(self, module: str, name: str, raised: Raised) -> bool:
        """Whether an error says that a module does not have a name, which is not in its text, either.

        An object in the place of a module has been asked for it.
        """
        value = self._machine.modules.get(module) if self._machine else None
        if not (raised.message or "").startswith(f"cannot import name {name!r} from {module!r}"):
            return False
        if self._library.surroundings.has(module, name):
            return False
        if isinstance(value, Instance):
            located = self._library.locate(module)
            return located is not None and located.file is not None and self._is_not_in(located.file, name)
        if not isinstance(value, PythonModule) or value.file is None or value.stage is not Stage.DONE:
            return False
        return not (self._may_be_bound(value, name) or self._library.may_add(module, name))

    def _may_be_bound(self, module: PythonModule, name: str) -> bool:
        """Whether the text of a module may bind a name, on another way than the one that was followed: its own text, or
        that of one that it takes all names of.
        """
        waiting, seen = [module], set[str]()
        for giving in waiting:
            if giving.file is None or giving.file in seen:
                continue
            seen.add(giving.file)
            text = self._library.source(giving.file)
            if name.encode() in text and may_bind(text, name):
                return True
            package = giving.name if giving.folders else giving.name.rpartition(".")[0]
            try:
                stars = [absolute_name(package, star) for star in star_imports(text)]
            except FAILURES:
                return True
            others = [self._machine.modules.get(star) for star in stars] if self._machine else []
            if not all(isinstance(other, PythonModule) for other in others):
                return True
            waiting += (other for other in others if isinstance(other, PythonModule))
        return False

    def _error_of_attribute(self, module: str, name: str) -> str | None:
        """Return what Python says of an attribute that an imported module lacks; None if that is not known."""
        if self._machine is None:
            return None
        try:
            self._machine.get_attribute(self._machine.modules[module], name)
        except Thrown as error:
            return as_raised(self._machine, error.failure).message
        except (ProcessEnded, Exhausted, RecursionError):
            self._machine = None
        return None

    def _is_not_in(self, file: str, name: str) -> bool:
        return name.encode() not in self._library.source(file)

    def _import(self, module: str, name: str | None) -> Raised | None:
        """Import a module, or a name from it; return what that raises."""
        machine = self._machine
        if machine is None:
            return None
        try:
            with counted_by(machine.count_steps), deep_calls():
                machine.import_name(module, name)
        except Thrown as error:
            return machine.world.spelled_out(as_raised(machine, error.failure))
        except ProcessEnded as end:
            return end.raised
        except (Exhausted, RecursionError) as end:
            # A module in the middle of its body is in no state from which other imports could continue.
            _log.debug("%s: is not followed any further: %s", module, end)
            self._machine = None
        return None
