"""``sys.meta_path``: Python's own finders, and those that the code adds."""

from __future__ import annotations

from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Modelled, Native
from abiscan.python.models.namespace import Args, Kwargs, Model
from abiscan.python.values import Bound, Instance, NotKnown, PythonFunction


class MetaPath(Modelled):
    """``sys.meta_path``."""

    def __init__(self) -> None:
        self.finders: list[object] = [BuiltinImporter, FrozenImporter, PathFinder]

    def get_attribute(self, _machine: PythonMachine, name: str) -> object:
        """Return its methods."""
        methods: dict[str, Model] = {
            "__iter__": lambda _machine, _args, _kwargs: self.finders,
            "append": self._model_append,
            "insert": self._model_insert,
            "remove": self._model_remove,
        }
        return Native(f"sys.meta_path.{name}", methods[name]) if name in methods else NotKnown(f"sys.meta_path.{name}")

    def _model_append(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        # It is asked for what no other finder has, and its loader has nothing to load unless it says so.
        for finder in args[:1]:
            self.finders.append(finder)
            find_spec = _find_spec_of(finder)
            if find_spec is not None:
                machine.note_possible_call(NotKnown("sys.meta_path.append"), find_spec)
        return None

    def _model_insert(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        place, *added = args
        self.finders[:0] = added[:1]
        find_spec = _find_spec_of(added[0]) if added else None
        if find_spec is None or place != 0 or machine.is_speculative:
            machine.note_possible_uses(NotKnown("sys.meta_path.insert"), added)
        else:
            machine.outward += 1
            machine.finders.insert(0, find_spec)
        return None

    def _model_remove(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        machine.outward += 1
        if not machine.is_speculative:
            self.finders = [finder for finder in self.finders if finder not in args]
            machine.finders = [find_spec for find_spec in machine.finders if find_spec.receiver not in args]
        return None


def _find_spec_of(finder: object) -> Bound | None:
    method = finder.cls.find("find_spec") if isinstance(finder, Instance) else None
    return Bound(method, finder) if isinstance(method, PythonFunction) else None


def is_found(machine: PythonMachine, module: str, parent: object) -> bool:
    """Whether a finder of the code may have a module, which Python's own are then not asked for.

    :param parent: the package that it is in, None for a module at the top
    """
    # What a finder imports itself is there before: it would be asked for it without end.
    if machine.is_finding:
        return False
    machine.is_finding = True
    place = None if parent is None else NotKnown(f"{module.rpartition('.')[0]}.__path__")
    try:
        for find_spec in tuple(machine.finders):
            machine.outward += 1
            if machine.call(find_spec, [module, place, None], {}) is not None:
                machine.gap(f"what a finder in sys.meta_path makes of {module} is not known")
                machine.trace.may_end_earlier = True
                return True
    finally:
        machine.is_finding = False
    return False
