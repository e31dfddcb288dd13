"""``configparser``, on files of the package."""

from __future__ import annotations

from collections.abc import Callable

from abiscan.python.interpreter.filesystem import as_text, read_text
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.builtin import OpenFile
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Model, Namespace, take_argument
from abiscan.python.interpreter.operations import attempt_operation
from abiscan.python.interpreter.values import NotKnown, Why, is_concrete, thrown

_METHODS = frozenset({
    "get", "getint", "getfloat", "getboolean", "items", "sections", "options", "has_section", "has_option",
})  # fmt: skip


class Parser(Modelled):
    """A ``ConfigParser``; its values are not interpolated."""

    __slots__ = ("is_known", "parsed")

    def __init__(self) -> None:
        import configparser  # few packages use it

        self.parsed = configparser.RawConfigParser()
        self.is_known = True

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what reads into it, and what tells its values."""
        reading: dict[str, Model] = {
            "read": self._model_read,
            "read_file": self._read_file,
            "read_string": self._read_string,
        }
        if name in reading:
            return Native(name, reading[name])
        if name in _METHODS:
            return Native(name, lambda _machine, args, kwargs: self._ask_parser(name, args, kwargs))
        if name == "__getitem__":
            return Native(name, lambda _machine, args, _kwargs: self._section_of(args))
        return NotKnown(f"ConfigParser.{name}")

    def _take_text(self, text: object) -> None:
        import configparser

        if not isinstance(text, str):
            self.is_known = False
            return
        try:
            self.parsed.read_string(text)
        except configparser.Error:
            self.is_known = False

    def _model_read(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        filenames = take_argument(args, kwargs, 0, "filenames")
        paths = filenames if isinstance(filenames, list) else [filenames]
        for path in paths:
            inside = machine.files.inside(as_text(path) or "")
            if as_text(path) is None or inside is None:
                self.is_known = False
            elif inside in machine.files.members:
                self._take_text(read_text(machine, path))
        return NotKnown("ConfigParser.read()", Why.ENVIRONMENT)

    def _read_file(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        file = take_argument(args, kwargs, 0, "f")
        self._take_text(file.read(machine) if isinstance(file, OpenFile) else None)
        return None

    def _read_string(self, _machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        self._take_text(take_argument(args, kwargs, 0, "string"))
        return None

    def _ask_parser(self, name: str, args: Args, kwargs: Kwargs) -> object:
        import configparser

        if not self.is_known or not is_concrete(args) or not is_concrete(kwargs):
            return NotKnown(f"ConfigParser.{name}()", Why.ENVIRONMENT)
        try:
            member = attempt_operation(f"ConfigParser.{name}()", getattr(self.parsed, name), *args, **kwargs)
        except configparser.Error as error:
            raise thrown(type(error), *error.args) from None
        # Without arguments, ``items`` gives proxies of sections, which hold on to the real parser.
        return NotKnown("ConfigParser.items()") if name == "items" and not args else member

    def _section_of(self, args: Args) -> object:
        if not self.is_known or not args or not isinstance(args[0], str):
            return NotKnown("ConfigParser[…]", Why.ENVIRONMENT)
        return attempt_operation("ConfigParser[…]", lambda name: dict(self.parsed[name]), args[0])


def _make_configparser(_machine: PythonMachine) -> object:
    make = Native(
        "configparser.ConfigParser", lambda _m, args, kwargs: NotKnown("ConfigParser()") if args or kwargs else Parser()
    )
    return Namespace("configparser", {"ConfigParser": make, "RawConfigParser": make})


MODELS: dict[str, Callable[[PythonMachine], object]] = {"configparser": _make_configparser}
"""Modules by name."""
