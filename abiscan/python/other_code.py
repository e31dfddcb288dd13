"""The code of other installed packages that the code of a package imports, read as its own is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from abiscan.python.certainty import is_certain
from abiscan.python.cost import counted_by
from abiscan.python.explore import explore_import
from abiscan.python.imports import PythonInterpreter
from abiscan.python.installed import Surroundings
from abiscan.python.library import PythonCode
from abiscan.python.machine import Exhausted, Limits, ProcessEnded
from abiscan.python.model import Answer, LoadedBy, NoResult, Raised, World
from abiscan.python.questions import AskedWorld
from abiscan.python.runs import Done, Runs, as_raised, deep_calls
from abiscan.python.sources import PackageFiles, PackageSources
from abiscan.python.values import Thrown

_log = logging.getLogger("abiscan.python")
_LIMITS: Final = Limits()


class CompiledCodeLoads:
    """A world in which every library of a package loads: one that has nothing to do with torch.

    What such a library does is not known, so that its names have no values.
    """

    def __init__(self, world: World) -> None:
        self.torch_version, self.cuda, self.cxx11_abi = world.torch_version, world.cuda, world.cxx11_abi
        self.python, self.newest_python = world.python, world.newest_python
        self.machine, self.cpu, self.torch_names = world.machine, world.cpu, world.torch_names

    def load(self, _path: str | None, _loader: LoadedBy) -> None:
        """Load a library; see ``World.load``."""

    def operator(self, _name: str) -> Answer:
        """Tell whether there is an operator; see ``World.operator``."""
        return Answer.UNKNOWN

    def call(self, _operator: str) -> NoResult:
        """Call an operator; see ``World.call``."""
        return NoResult(reason="what is compiled is not read")


class OtherCode:
    """The code of an installed package, which runs in one process for all that others import of it.

    :param fresh: gives a world of it in which nothing is loaded yet
    """

    def __init__(
        self, package: PackageSources, module: str, fresh: Callable[[], World], surroundings: Surroundings
    ) -> None:
        self._library = PythonCode(PackageFiles(package), (module,), fresh().python, surroundings)
        self._fresh = fresh
        self._machine: PythonInterpreter | None = PythonInterpreter(self._library, AskedWorld(fresh()), {}, _LIMITS)

    def error(self, module: str, name: str | None) -> Raised | None:
        """Return what the import of a module raises, or of a name from it; None if that is nothing, or not certain."""
        machine = self._machine
        if machine is None:
            return None
        raised: Raised | None = None
        try:
            with counted_by(machine.count_steps), deep_calls():
                machine.import_name(module, name)
        except Thrown as error:
            raised = machine.world.spelled_out(as_raised(machine, error.failure))
        except ProcessEnded as end:
            raised = end.raised
        except (Exhausted, RecursionError) as end:
            # What it is in the middle of is in no state that anything else could go on from.
            _log.debug("%s: is not followed any further: %s", module, end)
            self._machine = None
        if raised is None or not is_certain(raised, self._library.surroundings, machine.trace):
            return None
        if machine.trace.decisions or machine.trace.gaps:
            outcome = explore_import(Runs(self._library, self._fresh, _LIMITS, Done()), module, name).outcome
            return raised if isinstance(outcome.raised, Raised) else None
        return raised
