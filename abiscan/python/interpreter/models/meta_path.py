"""``sys.meta_path``: Python's own finders, and those that the code adds."""

from __future__ import annotations

from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Model
from abiscan.python.interpreter.values import Bound, Class, Instance, NotKnown, PythonFunction, Thrown

_OF_PYTHON = (BuiltinImporter, FrozenImporter, PathFinder)


class MetaPath(Modelled):
    """``sys.meta_path``."""

    def __init__(self) -> None:
        self.finders: list[object] = list(_OF_PYTHON)

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods."""
        methods: dict[str, Model] = {
            "__iter__": lambda _machine, _args, _kwargs: self.finders,
            "append": self._model_append,
            "insert": self._model_insert,
            "remove": self._model_remove,
        }
        if name in methods:
            return Native(f"sys.meta_path.{name}", methods[name])
        # What else changes it may take a finder away, which is not asked then.
        machine.finders = []
        return NotKnown(f"sys.meta_path.{name}")

    def _model_append(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        # It is asked for what no other finder has, and its loader has nothing to load unless it says so.
        for finder in args[:1]:
            self.finders.append(finder)
            method = finder.cls.find("find_spec") if isinstance(finder, Instance) else None
            if isinstance(method, PythonFunction):
                machine.note_possible_call(NotKnown("sys.meta_path.append"), Bound(method, finder))
        return None

    def _model_insert(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        place, *added = args
        self.finders[:0] = added[:1]
        if place != 0 or machine.is_speculative or not added or not isinstance(added[0], (Instance, Class)):
            machine.note_possible_uses(NotKnown("sys.meta_path.insert"), added)
        else:
            machine.outward += 1
            machine.finders = [added[0], *machine.finders]
        return None

    def _model_remove(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        machine.outward += 1
        if not machine.is_speculative:
            self.finders = [finder for finder in self.finders if not any(finder is one for one in args)]
            # One that is equal may be another object.
            is_there = any(finder is one for finder in machine.finders for one in args)
            machine.finders = [finder for finder in machine.finders if is_there and finder is not args[0]]
        return None


def is_found(machine: PythonMachine, module: str, parent: object, *, is_own: bool) -> bool:
    """Whether a finder of the code may have a module, which Python's own are then not asked for.

    :param parent: the package that it is in, None for a module at the top
    :param is_own: whether it is a module of the package: another one may have been imported before, and no finder is
        asked for it then
    """
    # What a finder imports itself is there before: it would be asked for it without end.
    if machine.is_finding:
        return False
    machine.is_finding = True
    place = None if parent is None else NotKnown(f"{module.rpartition('.')[0]}.__path__")
    try:
        for finder in tuple(machine.finders):
            machine.outward += 1
            if _finds(machine, finder, module, place, is_own=is_own):
                machine.gap(f"what a finder in sys.meta_path makes of {module} is not known")
                machine.trace.may_end_earlier = True
                return is_own
    finally:
        machine.is_finding = False
    return False


def may_be_found_last(machine: PythonMachine, module: str, parent: object) -> bool:
    """Whether a finder that the code has put after Python's own may have a module that those do not find."""
    if not isinstance(machine.meta_path, MetaPath):
        return False
    place = NotKnown(f"{module.rpartition('.')[0]}.__path__") if parent is not None else None
    last = (finder for finder in machine.meta_path.finders if finder not in _OF_PYTHON)
    return any(_finds(machine, finder, module, place, is_own=False) for finder in last)


def _finds(machine: PythonMachine, finder: object, module: str, place: object, *, is_own: bool) -> bool:
    try:
        find_spec = machine.get_attribute(finder, "find_spec")
        return machine.call(find_spec, [module, place, None], {}) is not None
    except Thrown:
        if is_own:
            raise
        return True
