"""Pickles, read without unpickling."""

from __future__ import annotations

import collections
import fractions
import pickle
import pickletools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abiscan.errors import InputError
from abiscan.models.opcodes import Called, GlobalName, Pairs, Persistent, read_pickle

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner) | st.tuples(),
    max_leaves=20,
)


def plain(value: Any) -> Any:
    """What was read, with dictionaries instead of pairs."""
    if isinstance(value, Pairs):
        return {plain(key): plain(each) for key, each in value}
    if isinstance(value, list | tuple):
        return type(value)(plain(each) for each in value)
    return value


@given(VALUES, st.integers(2, 5))
def test_plain_values_are_what_the_unpickler_builds(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    read = read_pickle(data, "p")
    assert plain(read.value) == pickle.loads(data)
    assert (read.globals, read.end) == ((), len(data))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_the_globals_are_those_that_the_unpickler_would_import(protocol: int) -> None:
    data = pickle.dumps([fractions.Fraction(1, 3), collections.OrderedDict(a=1)], protocol)
    imported: list[str] = []

    class Recorder(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            imported.append(f"{module}.{name}")
            return super().find_class(module, name)

    import io

    Recorder(io.BytesIO(data)).load()
    names = [
        name.replace("copy_reg", "copyreg").replace("__builtin__", "builtins")
        for name in read_pickle(data, "p").globals
    ]
    assert names == list(dict.fromkeys(imported))


class Kept:
    def __init__(self, key: object) -> None:
        self.key = key


def test_calls_and_states_are_recorded_and_not_made() -> None:
    value = read_pickle(pickle.dumps(Kept("a"), 2), "p").value
    assert isinstance(value, Called)
    assert isinstance(value.arguments, tuple | GlobalName)
    assert value.state == [[("key", "a")]]


def test_a_call_of_the_system_is_only_named() -> None:
    data = b"cos\nsystem\n(S'touch nothing'\ntR."
    read = read_pickle(data, "p")
    assert read.globals == ("os.system",)
    assert isinstance(read.value, Called)
    assert read.value.function == GlobalName("os.system")


def test_a_persistent_id_is_kept() -> None:
    import io

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: object) -> object:
            return ("storage", "cpu", value.key) if isinstance(value, Kept) else None

    stream = io.BytesIO()
    Pickler(stream, 2).dump([Kept("0")])
    read: Any = read_pickle(stream.getvalue(), "p").value
    (value,) = read
    assert isinstance(value, Persistent)
    assert value.description == ("storage", "cpu", "0")


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_pickle_that_ends_early_is_named(cut: int) -> None:
    data = pickletools.optimize(pickle.dumps({"a": [1, 2, (3, "x" * 40)]}, 4))
    with pytest.raises(InputError, match=r"^data\.pkl: is a .*pickle"):
        read_pickle(data[:cut], "data.pkl")


@pytest.mark.parametrize("data", [b".", b"t.", b"R.", b"h\x07.", b"(.", b"\x80\x02\x85.", b"\xff", b"e.", b"Q."])
def test_instructions_without_what_they_need_are_damage(data: bytes) -> None:
    with pytest.raises(InputError, match="pickle"):
        read_pickle(data, "p")


def test_a_bomb_of_instructions_ends() -> None:
    with pytest.raises(InputError, match="more instructions"):
        read_pickle(b"(" * 200_000 + b".", "p")
