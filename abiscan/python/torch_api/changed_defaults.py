"""Defaults of torch that changed so that calls fail which left them out: which, since when, and where that is certain;
and what torch passes to objects that it is given.

Only what surely fails counts. Whether ``torch.load`` does depends on the file; it is certain where the code then uses
what was loaded as a module, since nothing that is loaded without pickled code is one, and where it loads what it has
saved as a whole.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence
from typing import Final

from msgspec import Struct

from abiscan.python.language.nodes import walk
from abiscan.python.language.written import write_expression
from abiscan.python.torch_api.torch_uses import CallText


class ChangedDefault(Struct, frozen=True, kw_only=True):
    """One parameter whose default changed.

    :ivar others: the other parameters that decide as well
    :ivar position: how many arguments by position leave all of these out
    :ivar sign: a module of torch and a name in it that exactly the releases with the new default have
    :ivar error: what torch says, up to the first thing that depends on the file
    :ivar handled: words of sources that make such calls work
    :ivar advice: what to do
    :ivar needs: the package that the new default imports, and that torch does not require
    :ivar given: the first parameter, an object whose ``forward`` gets the keyword ``parameter`` since then
    :ivar asked: an attribute that it is asked for before
    """

    function: str
    parameter: str
    others: tuple[str, ...]
    position: int
    sign: tuple[str, str]
    error: str
    handled: tuple[bytes, ...]
    advice: str
    needs: str | None = None
    given: str | None = None
    asked: str | None = None


# https://github.com/pytorch/pytorch/pull/137602, in 2.6.0: torch/serialization.py, load and _default_to_weights_only.
LOAD: Final = ChangedDefault(
    function="torch.load",
    parameter="weights_only",
    others=("pickle_module",),
    position=2,
    sign=("torch.serialization", "_default_to_weights_only"),
    error="Weights only load failed.",
    handled=(b"safe_globals", b"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"),
    advice="pass weights_only=False if you trust the file",
)
# https://github.com/pytorch/pytorch/pull/86724, in 2.0.0, as torch.compile: of complex numbers, few take a spectrum.
STFT: Final = ChangedDefault(
    function="torch.stft",
    parameter="return_complex",
    others=(),
    position=9,
    sign=("torch", "compile"),
    error="stft requires the return_complex parameter be given for real inputs",
    handled=(),
    advice="pass return_complex",
)
# https://github.com/pytorch/pytorch/pull/159646, in 2.9.0: torch/onnx/_internal/exporter imports onnxscript.
EXPORT: Final = ChangedDefault(
    function="torch.onnx.export",
    parameter="dynamo",
    others=(),
    position=3,
    sign=("torch.onnx._internal.torchscript_exporter.utils", "export"),
    error="No module named 'onnxscript'",
    handled=(b"onnxscript", b'"dynamo"', b"'dynamo'", b"dynamo="),
    advice="pass dynamo=False, which torch takes since 2.5, or install onnxscript",
    needs="onnxscript",
)
# torch/nn/modules/transformer.py, in 2.0.0 and in 2.1.0: how the layers are called.
_ENCODER: Final = ChangedDefault(
    function="torch.nn.TransformerEncoder",
    parameter="is_causal",
    others=(),
    position=0,
    sign=("torch", "compile"),
    error="forward() got an unexpected keyword argument 'is_causal'",
    handled=(),
    advice="let the forward of the layer take is_causal, as that of torch.nn.TransformerEncoderLayer does",
    given="encoder_layer",
    asked="self_attn",
)
_DECODER: Final = ChangedDefault(
    function="torch.nn.TransformerDecoder",
    parameter="tgt_is_causal",
    others=(),
    position=0,
    sign=("torch.nn.modules.transformer", "_detect_is_causal_mask"),
    error="forward() got an unexpected keyword argument 'tgt_is_causal'",
    handled=(),
    advice="let the forward of the layer take tgt_is_causal and memory_is_causal",
    given="decoder_layer",
    asked="self_attn",
)
BY_FUNCTION: Final = {changed.function: changed for changed in (LOAD, STFT, EXPORT, _ENCODER, _DECODER)}
REMOVED_IN: Final = "torch._linalg_utils"
"""The module of which ``torch`` has only functions that raise, in place of those that were compiled: ``torch.symeig``
since 2.0, ``eig``, ``lstsq`` and ``matrix_rank`` since 1.13, ``solve`` since 1.12.
"""
REMOVED: Final = "This function was deprecated since version 1.9 and is now removed"
"""What these say first."""
REMOVED_METHOD: Final = "symeig"
"""The one of them that is a method of tensors, too, and of little else: ``eig`` and ``solve`` have many classes."""
_TAKEN_BY_REMOVED: Final = frozenset({"eigenvectors"})
"""The keywords that the method takes, to say so."""
_MODULE_METHODS: Final = frozenset(
    {"children", "eval", "forward", "load_state_dict", "modules", "named_modules", "named_parameters", "parameters"}
    | {"state_dict", "train", "zero_grad"}
)
"""Methods of modules and optimizers that no tensor, number, text or container has."""
_TAKING: Final = frozenset({"copy", "get", "items", "keys", "pop", "values"})
"""Methods of dictionaries that add nothing to them."""


def calls_removed(node: ast.Call) -> bool:
    """Whether a call, of a method by its name, is one that says that the method is gone."""
    named = {keyword.arg for keyword in node.keywords}
    return len(node.args) + len(named) <= len(_TAKEN_BY_REMOVED) and named <= _TAKEN_BY_REMOVED


def may_need_default(call: CallText, changed: ChangedDefault) -> bool:
    """Whether a call leaves a parameter to its default, going by its text."""
    return call.keywords.isdisjoint((changed.parameter, *changed.others))


def leaves_out(node: ast.Call, changed: ChangedDefault, optional: Container[str] = ()) -> bool:
    """Whether a call leaves a parameter to its default.

    :param optional: the dictionaries of keywords that users need not pass: see ``optional_keywords``
    """
    keywords = {
        keyword.arg for keyword in node.keywords if keyword.arg or getattr(keyword.value, "id", None) not in optional
    }
    is_plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
    return is_plain and len(node.args) <= changed.position and not keywords & {None, changed.parameter, *changed.others}


def given_to(node: ast.Call, changed: ChangedDefault) -> ast.expr | None:
    """Return the object that gets the keyword; None if that is not clear."""
    named = [keyword.value for keyword in node.keywords if keyword.arg == changed.given]
    return next(iter([*named, *node.args]), None)


def refuses(cls: ast.ClassDef, changed: ChangedDefault) -> bool:
    """Whether the ``forward`` of a class certainly does not take what it gets."""
    own = [part for part in cls.body if getattr(part, "name", "") == "forward"]
    if len(own) != 1 or not isinstance(own[0], ast.FunctionDef) or own[0].decorator_list:
        return False
    arguments = own[0].args
    has_asked = any(isinstance(part, ast.Attribute) and part.attr == changed.asked for part in walk(cls))
    takes_it = any(part.arg == changed.parameter for part in (*arguments.args, *arguments.kwonlyargs))
    return arguments.kwarg is None and not takes_it and has_asked


def optional_keywords(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[str]:
    """Yield the parameter of a function that has the keywords of its users, ``**kwargs``, if nothing adds to it.

    A package that passes keywords itself has their names as texts.
    """
    if function.args.kwarg is None:
        return
    name, plain, all_uses = function.args.kwarg.arg, 0, 0
    for node in walk(function):
        all_uses += isinstance(node, ast.Name) and node.id == name
        if isinstance(node, ast.keyword):
            plain += node.arg is None and getattr(node.value, "id", None) == name
        elif isinstance(node, ast.Attribute):
            plain += node.attr in _TAKING and getattr(node.value, "id", None) == name
    if plain == all_uses:
        yield name


def kept_as_modules(cls: ast.ClassDef) -> Iterator[ast.Call]:
    """Yield the calls in a class whose results are kept in an attribute that its methods use as a module, or as modules
    one by one.
    """
    used = frozenset(_used_as_modules(cls))
    for node in walk(cls):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        owner = _text_of(node.targets[0])
        if not owner.startswith("self."):
            continue
        if isinstance(node.value, ast.Call) and owner in used:
            yield node.value
        elif isinstance(node.value, ast.ListComp) and isinstance(node.value.elt, ast.Call):
            yield from (node.value.elt,) if any(name in used for name in _elements_of(owner, cls)) else ()


def _elements_of(owner: str, cls: ast.ClassDef) -> Iterator[str]:
    """Yield what loops in a class call the elements of a list."""
    for node in walk(cls):
        if isinstance(node, (ast.For, ast.comprehension)) and _text_of(node.iter) == owner:
            yield _text_of(node.target)


def whole_loads(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the loads of what a source saves as whole objects: in a class that saves nothing else, and where the code
    asks whether what was loaded is a dictionary, and goes on if it is none.
    """
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    saving = {cls.name: list(_whole_saves(cls)) for cls in classes}
    for cls in classes:
        if saving[cls.name] and all(saving[cls.name]):
            yield from (node for node in walk(cls) if isinstance(node, ast.Call) and _is_called(node, "load"))
    if any(any(saves) for saves in saving.values()):
        for function in walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from _loads_of_either(function)


def _whole_saves(cls: ast.ClassDef) -> Iterator[bool]:
    """Yield for each save of a class whether it is of an object, or of a module that the object has, as a whole."""
    used = frozenset(_used_as_modules(cls))
    copies = {"self"} | {
        _text_of(node.targets[0])
        for node in walk(cls)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call)
        if getattr(node.value.func, "attr", getattr(node.value.func, "id", "")) in {"copy", "deepcopy"}
        if [_text_of(argument) for argument in node.value.args[:1]] == ["self"]
    }
    for node in walk(cls):
        if isinstance(node, ast.Call) and _is_called(node, "save") and node.args:
            saved = _text_of(node.args[0])
            yield saved in copies or saved.removesuffix(".module") in used


def _loads_of_either(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    loaded: dict[str, ast.Call] = {}
    for node in walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_called(node.value, "load"):
            loaded.update((_text_of(target), node.value) for target in node.targets)
    for node in walk(function):
        test = node.test if isinstance(node, ast.If) and node.orelse else None
        if not isinstance(test, ast.Call) or len(test.args) != 2:
            continue
        if isinstance(test.func, ast.Name) and test.func.id == "isinstance":
            asked, cls = (_text_of(argument) for argument in test.args)
            if cls == "dict" and asked in loaded:
                yield loaded[asked]


def _is_called(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == name


def _used_as_modules(cls: ast.ClassDef) -> Iterator[str]:
    """Yield the expressions in a class that are used as modules."""
    for node in walk(cls):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MODULE_METHODS:
            yield _text_of(node.func.value)


def used_as_modules(body: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls among some statements whose results are used as modules there."""
    # By the expression that each is bound to: ``model``, ``self.model``.
    bound: dict[str, ast.Call] = {}
    for statement in body:
        for node in walk(statement):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _MODULE_METHODS
            ):
                owner = node.func.value
                while isinstance(owner, ast.Subscript):  # what a file has under a key is as whole
                    owner = owner.value
                if isinstance(owner, ast.Call):
                    yield owner
                elif isinstance(owner, (ast.Name, ast.Attribute)) and (call := bound.get(_text_of(owner))):
                    yield call
        for node in walk(statement):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                bound.pop(_text_of(node), None)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.value, ast.Call):
            bound[_text_of(statement.targets[0])] = statement.value


def _text_of(node: ast.AST) -> str:
    """Return the text of an expression; one that is like no other for what cannot be written."""
    try:
        return write_expression(node)
    except (RecursionError, ValueError):  # long chains, numbers of thousands of digits
        return f"? {id(node)}"
