"""``importlib.metadata.entry_points``: what packages offer others to find.

Those of the package itself are known, and those of others where it is known what is installed. Elsewhere, no other
package is there first: plugins are distributions that the package does not require.
"""

from __future__ import annotations

from typing import Final

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs
from abiscan.python.interpreter.operations import describe_value, take_item, unknown_result
from abiscan.python.interpreter.values import NotKnown, Why, is_concrete, thrown
from abiscan.python.package.model import Answer

_NAME: Final = "importlib.metadata.entry_points"
_TEXTS: Final = frozenset({"name", "value", "group", "module", "attr"})


class EntryPoint(Modelled):
    """One of the package."""

    __slots__ = ("group", "name", "value")

    def __init__(self, name: str, value: str, group: str) -> None:
        self.name, self.value, self.group = name, value, group

    @property
    def texts(self) -> dict[str, str]:
        """Its attributes."""
        module, _, attribute = self.value.partition("[")[0].rstrip().partition(":")
        return {
            "name": self.name, "value": self.value, "group": self.group,
            "module": module.strip(), "attr": attribute.strip(),
        }  # fmt: skip

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what it says of itself, or what loads it."""
        if name == "load" and self.texts["module"]:
            return Native("EntryPoint.load", lambda machine, _args, _kwargs: _load(machine, self.texts))
        return self.texts.get(name) or super().get_attribute(machine, name)


class EntryPoints(tuple[EntryPoint, ...]):
    """All of a group. See Lib/importlib/metadata/__init__.py."""

    __slots__ = ()
    is_plain = True

    @property
    def names(self) -> set[str]:
        """Their names."""
        return {point.name for point in self}

    @property
    def groups(self) -> set[str]:
        """Their groups."""
        return {point.group for point in self}

    @property
    def select(self) -> Native:
        """What selects those that have some attributes."""
        return Native("EntryPoints.select", lambda _machine, _args, kwargs: self.matching(kwargs))

    def item_at(self, machine: PythonMachine, index: object) -> object:
        """Return the one of a name; before Python 3.12, which took that away, the one at a number as well.

        :raises Thrown: KeyError, as in Python
        """
        if isinstance(index, int) and machine.before(3, 12):
            return take_item(self, index)
        if not is_concrete(index) or (isinstance(index, int) and not machine.since(3, 12)):
            return unknown_result(f"{_NAME}()[{describe_value(index)}]", index)
        named = next((point for point in self if point.name == index), None)
        if named is None:
            raise thrown(KeyError, index)
        return named

    def matching(self, wanted: Kwargs) -> object:
        """Return those that have these attributes."""
        if not all(name in _TEXTS and isinstance(wanted[name], str) for name in wanted):
            return NotKnown("EntryPoints.select()", Why.ENVIRONMENT)
        return EntryPoints(point for point in self if wanted.items() <= point.texts.items())


class AllEntryPoints(Modelled):
    """Those of all groups: nothing is known of them but what selects those of one."""

    __slots__ = ()

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what selects some of them."""
        known = name == "select"
        return Native(f"{_NAME}().select", model_entry_points) if known else NotKnown(f"{_NAME}().{name}")

    def display_name(self) -> str:
        """Return the call."""
        return f"{_NAME}()"


def _load(machine: PythonMachine, texts: dict[str, str]) -> object:
    found = machine.import_module(texts["module"])
    for part in filter(None, texts["attr"].split(".")):
        found = machine.get_attribute(found, part)
    return found


def model_entry_points(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Return the entry points of a group; without one, they are not known."""
    if not args and not kwargs and not machine.before(3, 10):
        return AllEntryPoints()
    unknown = NotKnown(f"{_NAME}()", Why.ENVIRONMENT)
    group = kwargs.get("group")
    if args or not isinstance(group, str) or machine.before(3, 10):
        return unknown
    own = machine.files.entry_points(group)
    others = machine.library.surroundings.have_entry_points(group, own or ())
    if others is Answer.UNKNOWN:
        about = NotKnown(f"{_NAME}(group={group!r})", Why.ENVIRONMENT)
        text = f"no other package has entry points of {group}"
        spot = machine.frames[-1].line, -1
        others = not machine.decide(text, Why.ENVIRONMENT, spot, default=True, about=about)
    if others or own is None:
        return unknown
    return EntryPoints(EntryPoint(name, value, group) for name, value in own).matching(kwargs)
