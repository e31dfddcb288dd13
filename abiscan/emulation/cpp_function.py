"""Reads kernels from the objects that contain them: ``torch::CppFunction`` and ``KernelRegistrationConfig``.

Both hold an optional dispatch key, a ``KernelFunction`` (functor, boxed function, unboxed functions), an optional
``CppSignature`` (from 1.6 on) and a ``unique_ptr`` to the inferred schema, in this order. Sources: ``torch/library.h``,
``ATen/core/boxing/KernelFunction.h``, ``ATen/core/op_registration/op_registration.h``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from abiscan.emulation.emulator import HEAP
from abiscan.emulation.process import EmulatedProcess
from abiscan.emulation.schema_objects import Schema
from abiscan.emulation.strings import EMPTY_REP, REP_SIZE
from abiscan.emulation.torch_state import TorchState

CPP_FUNCTION_WORDS: Final = 9  # up to the schema, where it comes last
_OLD_CONFIG_WORDS: Final = 10  # a KernelFunction of 64 bytes, up to 1.5: std::function, shared_ptr, then the functions
_OLD_BOXED_AT: Final = 7
_FALLTHROUGH: Final = "fallthrough_kernel"
_UNBOXED_WORDS: Final = 2  # the unboxed function, and from 1.13 on that for symbolic sizes
_FUNCTOR_WORDS: Final = 4  # a vtable, a reference count, the function that a kernel made at run time calls


_STRING_WORDS: Final = range(7, 12)
"""The words of a ``CppFunction`` at which its last member, the string ``debug_``, begins in some release."""

_WORDS_WITH_STRING: Final = 14  # of the last one of these, the pointer, the length and the first characters


class Function(NamedTuple):
    """A kernel.

    :ivar addresses: where its code begins, in the file's own space
    :ivar unboxed: its functor and the function that takes that, then a set of dispatch keys, then the arguments as they
        are in C++, as addresses of the emulated process; None if it has none
    """

    key: int | None
    signature: str | None
    schema: Schema | None
    boxed: bool
    fallthrough: bool
    addresses: tuple[int, ...] = ()
    unboxed: tuple[int, int] | None = None


def read_optional_key(value: int, *, flag_first: bool, wide: bool | None = None) -> int | None:
    """Return an ``optional<DispatchKey>`` from its bytes as a number; None for no key, and for the key 0,
    ``Undefined``.

    ``std::optional`` keeps the value before the flag; the key has 16 bits. ``c10::optional``, before 2.1, keeps
    the flag before the value, and the key has 8 bits up to 1.11: then the byte after the flag is the key, else padding.

    :param wide: whether a key has 16 bits; None if that is not known; padding is then assumed to be zero
    """
    if not flag_first:
        return value & 0xFFFF if value >> 16 & 1 and value & 0xFFFF else None
    if not value & 1:
        return None
    narrow = 0 if wide else value >> 8 & 0xFF
    return narrow or (value >> 16 & 0xFFFF if wide is not False else 0) or None


def boxed_index(state: TorchState, words: Sequence[int]) -> int:
    """Return the word of a ``KernelFunction`` with the boxed function: after the functor, up to 1.8 a
    ``shared_ptr``.
    """
    return 1 if state.process.is_code(words[1]) or state.process.name_at(words[1]) is not None else 2


def read_function(state: TorchState, address: int, size: int, *, flag_first: bool) -> Function:
    """Return the kernel in the object of ``size`` words at ``address``; ``flag_first`` for optionals of ``c10``."""
    machine, process = state.process.machine, state.process
    if size == CPP_FUNCTION_WORDS and address not in state.doubled:
        words = machine.words(address, _WORDS_WITH_STRING)
        state.recorder.debug_at.update(_empty_strings(process, words, address))
        words = words[:size]
    else:
        words = machine.words(address, size)
    boxed_at = _OLD_BOXED_AT if size == _OLD_CONFIG_WORDS else 1 + boxed_index(state, words[1:])
    signature, schema = None, None
    behind = words[boxed_at + 1 :]
    flags = words[boxed_at:] if flag_first else (*behind[1:], 0)
    for at, (word, flag) in enumerate(zip(behind, flags, strict=False), boxed_at + 1):
        # An optional<CppSignature>, which may be empty: then it holds old contents of the stack.
        if signature is None and flag & 0xFF == 1:
            signature = _function_type(state, word)
        if schema is None and word in HEAP:
            schema = state.schemas.marked(word)
        if schema is not None and signature is not None:
            state.schema_at.setdefault(size, at)
    # Members that are not set hold old contents of the stack. Once a complete kernel has shown where the schema is, no
    # other word is taken for one.
    known_at = state.schema_at.get(size)
    if known_at is not None and schema is not None and state.schemas.marked(words[known_at]) is not schema:
        signature, schema = None, None
    if boxed_at == _OLD_BOXED_AT and machine.is_heap(words[-1]):
        schema = state.schemas.read_inlined(words[-1])
    fallthrough = _FALLTHROUGH in (state.process.name_at(words[boxed_at]) or "")
    typed = signature is not None or any(process.is_code(word) for word in behind[:_UNBOXED_WORDS])
    unboxed, *_ = behind
    return Function(
        key=read_optional_key(words[0], flag_first=flag_first, wide=state.wide_keys),
        signature=signature,
        schema=schema,
        boxed=not typed and not fallthrough,
        fallthrough=fallthrough,
        addresses=tuple(_code(state, (*words[1 : boxed_at + 1], *behind[:_UNBOXED_WORDS]))),
        unboxed=(words[1], unboxed) if process.is_code(unboxed) else None,
    )


def _code(state: TorchState, words: Sequence[int]) -> Iterator[int]:
    """Yield where the code of a ``KernelFunction`` begins, and that of a function that its functor was made from."""
    process, machine = state.process, state.process.machine
    functor = machine.words(words[0], _FUNCTOR_WORDS) if words and machine.is_heap(words[0]) else ()
    yield from dict.fromkeys(word - process.image.base for word in (*words, *functor) if process.image.is_code(word))


def _empty_strings(process: EmulatedProcess, words: Sequence[int], address: int) -> Iterator[int]:
    """Yield the offset of an empty string: a pointer to the one that all of the old kind share, or one of the new kind,
    a pointer to the characters inside, the length, then a NUL.
    """
    for at in _STRING_WORDS:
        new = words[at] == address + 8 * (at + 2) and not words[at + 1] and not words[at + 2] & 0xFF
        if new or process.name_at(words[at] - REP_SIZE) == EMPTY_REP:
            yield 8 * at
            return  # the next words are in its buffer, or after the object


def _function_type(state: TorchState, address: int) -> str | None:
    """Return the function type whose ``type_info`` lies at ``address`` (Itanium C++ ABI 5.1.5.3: ``F ... E``, or
    noexcept).
    """
    name = state.type_info_name(address)
    return name if name is not None and name.startswith(("F", "DoF")) else None
