"""What the model of the dispatcher is given: events out of an emulated extension, a state out of torch's own dumps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from abiscan.dispatch.dispatcher import (
    Block,
    BlockKind,
    Define,
    Event,
    FallBack,
    Implement,
    Kernel,
    OpenBlock,
    OperatorEntry,
    RegisterClass,
    RegisterOperator,
    State,
    StoredKernel,
)
from abiscan.dispatch.keys import DispatchKeys
from abiscan.emulation import model

_BLOCK_KINDS: Final = {
    model.LibraryKind.DEF: BlockKind.DEF,
    model.LibraryKind.IMPL: BlockKind.IMPL,
    model.LibraryKind.FRAGMENT: BlockKind.FRAGMENT,
}
_NO_KEYS: Final = ("Undefined", "CatchAll")
_NO_FILE: Final = "?"


def events_of(registrations: model.Registrations, keys: DispatchKeys, phase: model.Phase) -> Iterator[Event]:
    """What an extension registers in one phase, in the order of its blocks.

    A block is known by its source line, so what two blocks of one line register is told apart by their namespaces.
    Inside a block definitions come before kernels, and those before fallbacks; ``RegisterOperators`` and classes come
    before all blocks. torch's judgement depends on neither, unless there is more than one thing wrong.

    :param keys: those of the release that judges: it reads the number in the code with its own table
    """
    operators = [each for each in registrations.operators if each.phase is phase and not each.jit_only]
    kernels = [each for each in registrations.kernels if each.phase is phase]
    for custom_class in registrations.classes:
        if custom_class.phase is phase:
            yield RegisterClass(name=custom_class.name)
    yield from _without_block(operators, kernels, keys)
    for library in registrations.libraries:
        if library.phase is phase:
            block = Block(
                kind=_BLOCK_KINDS[library.kind],
                namespace=library.namespace,
                dispatch_key=_key(library.dispatch_key, keys),
                file=library.file or _NO_FILE,
                line=library.line or 0,
            )
            yield OpenBlock(block=block)
            yield from _in_block(block, _Members(registrations, library), keys)


class _Members:
    """What is registered in one library."""

    def __init__(self, registrations: model.Registrations, library: model.Library) -> None:
        twins = [
            other
            for other in registrations.libraries
            if (other.file, other.line, other.phase) == (library.file, library.line, library.phase)
        ]

        def own(member: model.Operator | model.Kernel | model.Fallback, namespace: str | None) -> bool:
            if (member.file, member.line, member.phase) != (library.file, library.line, library.phase):
                return False
            if member.file is None:
                return False
            fitting = [twin for twin in twins if twin.namespace == namespace] or twins
            return fitting[0] is library

        self.operators = [each for each in registrations.operators if own(each, _namespace(each.name))]
        self.kernels = [each for each in registrations.kernels if own(each, _namespace(each.operator))]
        self.fallbacks = [each for each in registrations.fallbacks if own(each, None)]


def _in_block(block: Block, members: _Members, keys: DispatchKeys) -> Iterator[Event]:
    kernels = list(members.kernels)
    for operator in members.operators:
        name = _relative(operator.name, block)
        if operator.schema is not None and not operator.inferred:
            _, _, arguments = operator.schema.partition("(")
            yield Define(block=block, text=f"{name}({arguments}")
        else:
            own = next((kernel for kernel in kernels if kernel.operator == operator.name), None)
            if own is not None:
                kernels.remove(own)
            yield Define(block=block, text=name, kernel=None if own is None else _kernel(own, keys, block))
    for kernel in kernels:
        yield Implement(block=block, name=_relative(kernel.operator, block), kernel=_kernel(kernel, keys, block))
    for fallback in members.fallbacks:
        key = _key(fallback.dispatch_key, keys)
        yield FallBack(block=block, kernel=Kernel(dispatch_key=None if key == block.dispatch_key else key))


def _without_block(
    operators: Iterable[model.Operator], kernels: Iterable[model.Kernel], keys: DispatchKeys
) -> Iterator[Event]:
    """``RegisterOperators``: the kernels of one operator, in the order of its definitions."""
    remaining = [kernel for kernel in kernels if kernel.file is None]
    definitions = [operator for operator in operators if operator.file is None]
    for index, operator in enumerate(definitions):
        defined_again = any(other.name == operator.name for other in definitions[index + 1 :])
        own = [kernel for kernel in remaining if kernel.operator == operator.name]
        own = own[:1] if defined_again else own
        for kernel in own:
            remaining.remove(kernel)
        text = operator.name if operator.inferred or operator.schema is None else operator.schema
        yield RegisterOperator(text=text, kernels=tuple(_kernel(kernel, keys, None) for kernel in own))


def _kernel(kernel: model.Kernel, keys: DispatchKeys, block: Block | None) -> Kernel:
    key = _key(kernel.dispatch_key, keys)
    return Kernel(
        dispatch_key=None if block is not None and key == block.dispatch_key else key,
        signature=kernel.signature,
        inferred=kernel.inferred_schema,
    )


def _key(key: int | str | None, keys: DispatchKeys) -> str | None:
    name = keys.name(key) if isinstance(key, int) else key
    return None if name in _NO_KEYS else name


def _namespace(name: str) -> str | None:
    namespace, separator, _ = name.partition("::")
    return namespace if separator else None


def _relative(name: str, block: Block) -> str:
    """The name as the source most likely has it: without the namespace of its own block."""
    return name.removeprefix(f"{block.namespace}::")


_KERNEL: Final = re.compile(
    r"(?P<key>\w+?)(?:\[alias\])?(?: \(inactive\))?: (?P<debug>.*) :: (?P<inferred>.*?) \[ (?:boxed |unboxed )*\]"
)


def state_of_dumps(
    dumps: Mapping[str, str],
    *,
    libraries: Mapping[str, str] | None = None,
    fallbacks: Mapping[str, str] | None = None,
    classes: frozenset[str] | None = None,
) -> State:
    """A state from what ``torch._C._dispatch_dump`` (1.7 and newer) says of each operator, C++ types left out."""
    operators = {name.removesuffix("."): _entry_of_dump(dump) for name, dump in dumps.items()}
    # What import torch replaces itself, out of sight: 2.15 does, and so never warns afterwards.
    warned = any(
        len(kernels) > 1 and key not in ("Meta", "MTIA")
        for entry in operators.values()
        for key, kernels in entry.kernels.items()
    )
    return State(
        operators=operators,
        warned=warned,
        libraries=libraries or {},
        fallbacks=fallbacks or {},
        classes=classes,
    )


def _entry_of_dump(dump: str) -> OperatorEntry:
    schema: str | None = None
    debug = ""
    kernels: dict[str | None, tuple[StoredKernel, ...]] = {}
    for line in dump.splitlines():
        head, _, rest = line.partition(": ")
        if head == "schema":
            schema = None if rest == "(none)" else rest
        elif head == "debug":
            debug = rest
        elif matched := _KERNEL.fullmatch(line):
            key = None if matched["key"] == "catchall" else matched["key"]
            inferred = None if matched["inferred"] == "(none)" else matched["inferred"]
            kernels[key] = (*kernels.get(key, ()), StoredKernel(debug=matched["debug"], inferred=inferred))
    return OperatorEntry(schema=schema, debug=debug, kernels=kernels, signatures_known=False)


_FALLBACK: Final = re.compile(r"(?P<key>\w+): (?:fallthrough )?(?P<debug>.*) \[backend fallback\]")


def fallbacks_of_table(table: str) -> dict[str, str]:
    """Where the fallbacks were registered, out of ``torch._C._dispatch_dump_table`` of an operator without kernels."""
    found = (_FALLBACK.fullmatch(line) for line in table.splitlines())
    return {matched["key"]: matched["debug"] for matched in found if matched}
