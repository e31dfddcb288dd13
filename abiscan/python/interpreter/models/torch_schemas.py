"""The annotations of a function, as ``torch.library`` looks at them to infer the schema of an operator."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Final

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.models.namespace import Kwargs
from abiscan.python.interpreter.models.torch_module import lacks
from abiscan.python.interpreter.values import NotKnown, PythonFunction, TextWithHoles, Thrown, is_concrete
from abiscan.python.package.model import World
from abiscan.python.torch_api.inferred_schemas import (
    UNCLEAR,
    Dtype,
    Flaw,
    Unclear,
    UnknownType,
    evaluate,
    find_flaw,
    texts_in,
    type_named,
)
from abiscan.python.torch_api.torch_texts import release_of
from abiscan.regex import regex

_DTYPE: Final = regex(
    r"torch\.(?:b?float|u?int|complex|qu?int)\d+(?:_\w+)?|torch\.(?:bool|float|double|half|int|long|short)"
)
_TYPES: Final = "The valid types are: "
_WITH_BAR: Final = (3, 14)
"""The Python that writes ``int | None`` for ``Optional[int]``."""


def check_annotations(machine: PythonMachine, function: object, kwargs: Kwargs) -> None:
    """Raise what torch raises if it cannot infer a schema from the annotations of a function.

    :param kwargs: of the call that asks for it
    """
    # Tags may ask for more, and what is wrapped shows the parameters of something else.
    if not isinstance(function, PythonFunction) or function.attributes or kwargs.get("tags"):
        return
    if isinstance(function.node, ast.Lambda):
        return
    signature = _signature_of(machine, function, function.node)
    named = _names_in_annotations(machine, function, signature)
    mutates = _mutated(kwargs.get("mutates_args", ()))

    def look_up(node: ast.expr) -> object:
        type_ = named[ast.unparse(node)]
        if type_ is UnknownType:
            raise UnknownType
        return type_

    def ask(world: World) -> Flaw | None:
        release = release_of(world.torch_version)
        return find_flaw(signature, mutates, release, look_up) if release else None

    answer = machine.world.tells(f"whether it infers the schema of {function.name} at {machine.place()}", ask)
    if isinstance(answer, Flaw):
        raise lacks(answer.raises, _text_of(machine, answer.text))


def _mutated(value: object) -> str | tuple[str, ...] | None:
    """Return the names of the parameters that a function mutates; None if they are not known."""
    if isinstance(value, str):
        return value
    names = tuple(value) if isinstance(value, (list, tuple, dict, set, frozenset)) else None
    return names if names is not None and all(isinstance(name, str) for name in names) else None


def _text_of(machine: PythonMachine, text: str) -> object:
    """Return the text of an error, as far as it is known."""
    with_bar = sys.version_info >= _WITH_BAR or not machine.before(*_WITH_BAR)
    parts = (text.partition(_TYPES)[0] + _TYPES, "") if with_bar and _TYPES in text else tuple(text.split(UNCLEAR))
    return TextWithHoles("the types of a schema", parts=parts) if len(parts) > 1 else text


def _signature_of(
    machine: PythonMachine, function: PythonFunction, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> inspect.Signature:
    """Return the signature of a function, with annotations and defaults as ``find_flaw`` takes them."""
    postponed = machine.library.postpones_annotations(function.scope.module.file)

    def annotated(annotation: ast.expr | None) -> object:
        if annotation is None:
            return inspect.Parameter.empty
        if postponed:
            return ast.unparse(annotation)
        try:
            return evaluate(annotation, lambda part: _look_up(machine, function, part))
        except UnknownType:
            return UnknownType

    parameter, arguments = inspect.Parameter, node.args
    kinds = [
        *((argument, parameter.POSITIONAL_ONLY) for argument in arguments.posonlyargs),
        *((argument, parameter.POSITIONAL_OR_KEYWORD) for argument in arguments.args),
        *((argument, parameter.VAR_POSITIONAL) for argument in (arguments.vararg,) if argument),
        *((argument, parameter.KEYWORD_ONLY) for argument in arguments.kwonlyargs),
        *((argument, parameter.VAR_KEYWORD) for argument in (arguments.kwarg,) if argument),
    ]
    parameters = [
        parameter(
            argument.arg, kind, annotation=annotated(argument.annotation), default=_default(function, argument.arg)
        )
        for argument, kind in kinds
    ]
    return inspect.Signature(parameters, return_annotation=annotated(node.returns))


def _default(function: PythonFunction, name: str) -> object:
    if name not in function.defaults:
        return inspect.Parameter.empty
    value = function.defaults[name]
    if isinstance(value, NotKnown):
        return Dtype(value.name) if _DTYPE.fullmatch(value.name) else Unclear()
    return value if is_concrete(value) else Unclear()


def _names_in_annotations(
    machine: PythonMachine, function: PythonFunction, signature: inspect.Signature
) -> dict[str, object]:
    """Return what the names stand for that are in annotations which are texts."""
    annotations = [parameter.annotation for parameter in signature.parameters.values()]
    named: dict[str, object] = {}
    for text in (text for annotation in (*annotations, signature.return_annotation) for text in texts_in(annotation)):
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Name, ast.Attribute)):
                try:
                    named[ast.unparse(node)] = _look_up(machine, function, node)
                except UnknownType:
                    named[ast.unparse(node)] = UnknownType
    return named


def _look_up(machine: PythonMachine, function: PythonFunction, node: ast.expr) -> object:
    """Return the type that a name stands for where a function is defined."""
    frame = machine.frames[-1]
    line = frame.line
    try:
        value = machine.evaluate(node, function.scope)
    except Thrown:
        raise UnknownType from None
    finally:
        frame.line = line
    if value is None or isinstance(value, (str, type)):
        return value
    return type_named(value.name if isinstance(value, NotKnown) else "")
