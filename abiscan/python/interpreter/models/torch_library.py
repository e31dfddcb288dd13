"""``torch.library``: what Python registers, and the errors where an operator is missing or there already.

See torch/library.py and torch/_library/custom_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from abiscan.inputs.version import MinorVersion
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Model, native_functions, take_argument
from abiscan.python.interpreter.models.torch_module import (
    TorchModule,
    knows_names,
    lacks,
    refuse_arguments,
    surely_lacks,
)
from abiscan.python.interpreter.operations import describe_value
from abiscan.python.interpreter.operators import OperatorValue, error_of_target, note_registration, operator_exists
from abiscan.python.interpreter.values import NotKnown, PythonError, TextWithHoles, Thrown, Why, thrown, torch_error
from abiscan.python.package.model import Registers, World
from abiscan.python.torch_api.torch_texts import (
    LIBRARY_SINCE,
    NAMES_SINCE,
    NO_OPERATOR,
    NO_OPERATOR_FOR_META,
    release_of,
    says,
)

_DEVICES = {
    "cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "hpu": "HPU", "xla": "XLA", "mtia": "MTIA",
    "meta": "Meta", "privateuseone": "PrivateUse1", "npu": "PrivateUse1", "ipu": "IPU", "ve": "VE", "lazy": "Lazy",
    "hip": "HIP", "default": "CompositeExplicitAutograd",
}  # fmt: skip


def missing_kernel_target(name: str) -> Thrown:
    """Return what the dispatcher says when a kernel for Meta is registered, and the operator is not there."""
    namespace, _, short = name.partition("::")
    return Thrown(torch_error(NO_OPERATOR_FOR_META, namespace=namespace, name=short))


def _operator_name(machine: PythonMachine, value: object, role: str) -> str | None:
    """Return the operator's name, None if it is not known."""
    if isinstance(value, OperatorValue):
        return value.name
    if isinstance(value, CustomOp):
        return value.name
    if isinstance(value, str):
        return str(value)
    machine.gap(f"{role} for an operator whose name is not known: {describe_value(value)}")
    return None


def _require_attribute(machine: PythonMachine, name: str) -> None:
    """Look an operator up as ``torch.ops.NAMESPACE.NAME`` does."""
    # The packet is looked up without the overload: _OpNamespace.__getattr__ in torch/_ops.py.
    namespace, _, operator = name.partition("::")
    if operator_exists(machine, name.partition(".")[0] if "." in operator else name) is False:
        raise Thrown(error_of_target(machine, NO_OPERATOR, namespace=namespace, name=operator.partition(".")[0]))


def _make_fake(machine: PythonMachine, name: str) -> None:
    if operator_exists(machine, name) is False:
        raise missing_kernel_target(name)
    note_registration(machine, Registers.FAKE, name, "Meta")


def _make_kernel(machine: PythonMachine, name: str, key: str) -> None:
    if key == "Meta":
        _make_fake(machine, name)
    else:
        note_registration(machine, Registers.KERNEL, name, key or "CompositeImplicitAutograd")


def _register_definition(machine: PythonMachine, name: str, schema: str) -> None:
    if name in machine.defined or machine.world.operator(name) is True:
        raise Thrown(PythonError(RuntimeError, (NotKnown(says("defined twice", schema=schema) or ""),)))
    note_registration(machine, Registers.DEFINITION, name)


def _dispatch_keys(types: object) -> list[str] | None:
    """Return the dispatch keys for device types, or for dispatch keys by name."""
    # Without device types, a kernel is for every device.
    if types is None:
        return ["CompositeExplicitAutograd"]
    several = list(types) if isinstance(types, (list, tuple, set, frozenset)) else [types]
    names = [name for name in several if isinstance(name, str)]
    return [_DEVICES.get(name, name) for name in names] if len(names) == len(several) else None


# ---- Library


class LibraryValue(Modelled, Struct, frozen=True, eq=False):
    """A ``torch.library.Library``."""

    namespace: str
    key: str

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods; raises if those of the target's torch certainly have no such name."""
        if surely_lacks(machine, "torch.library.Library", name):
            raise lacks(AttributeError, f"'Library' object has no attribute '{name}'")
        methods: dict[str, Model] = {
            "define": self._model_define, "impl": self._model_impl, "_register_fake": self._model_fake,
            "_impl_with_aoti_compile": self._model_impl,
        }  # fmt: skip
        if name in methods:
            return Native(f"Library.{name}", methods[name])
        return {"ns": self.namespace, "dispatch_key": self.key}.get(name, NotKnown(f"Library.{name}"))

    def qualify_name(self, machine: PythonMachine, name: object, role: str) -> str | None:
        """Return the full name of one of its operators."""
        name_given = _operator_name(machine, name, role)
        return name_given if name_given is None or "::" in name_given else f"{self.namespace}::{name_given}"

    def _model_define(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        schema = take_argument(args, kwargs, 0, "schema")
        # Of a schema with holes, the name is known if the parenthesis behind it stands before the first one.
        text = schema.shown() if isinstance(schema, TextWithHoles) and "(" in schema.parts[0] else schema
        name = self.qualify_name(machine, text.partition("(")[0] if isinstance(text, str) else text, "a definition")
        if name is None:
            machine.unclear.add(self.namespace)
        else:
            _register_definition(machine, name, f"{self.namespace}::{text}")
        return name

    def _model_impl(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = self.qualify_name(machine, take_argument(args, kwargs, 0, "op_name"), "a kernel")
        key = take_argument(args, kwargs, 2, "dispatch_key", "") or self.key
        if name is not None:
            _make_kernel(machine, name, key if isinstance(key, str) else "")
        return None

    def _model_fake(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = self.qualify_name(machine, take_argument(args, kwargs, 0, "op_name"), "a fake kernel")
        if name is not None:
            _make_fake(machine, name)
        return None


def _model_library(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    namespace, kind = take_argument(args, kwargs, 0, "ns"), take_argument(args, kwargs, 1, "kind")
    key = take_argument(args, kwargs, 2, "dispatch_key", "")
    if isinstance(kind, str) and kind not in {"IMPL", "DEF", "FRAGMENT"}:
        raise Thrown(torch_error("kind", kind=kind))
    if not isinstance(namespace, str):
        machine.gap(f"the namespace of a Library is not known: {describe_value(namespace)}")
        return NotKnown("Library()")
    return LibraryValue(namespace, key if isinstance(key, str) else "")


# ---- custom_op


class CustomOp(Modelled, Struct, frozen=True, eq=False):
    """What ``custom_op`` returns."""

    name: str

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods, which register more."""
        own = {"register_kernel", "register_fake", "register_autograd", "register_vmap", "register_autocast",
               "register_torch_dispatch", "register_effect"}  # fmt: skip
        if name in own:
            return Native(name, lambda m, args, kwargs: self._model_register(m, name, args, kwargs))
        return self.name if name in {"_qualname", "__name__"} else NotKnown(f"{self.name}.{name}")

    def _model_register(self, machine: PythonMachine, method: str, args: Args, kwargs: Kwargs) -> object:
        if method == "register_fake":  # the fake kernel is there since the definition; this one stands behind it
            return _register_or_decorate(args[0] if args else None, lambda: None)
        if method == "register_kernel":
            keys = _dispatch_keys(take_argument(args, kwargs, 0, "device_types"))
            return _register_or_decorate(
                take_argument(args, kwargs, 1, "fn"), lambda: _register_kernels(machine, self.name, keys or [])
            )
        if method == "register_vmap":
            return _register_or_decorate(
                args[0] if args else None,
                lambda: note_registration(machine, Registers.VMAP, self.name, "FuncTorchBatched"),
            )
        return _register_or_decorate(args[0] if args and not isinstance(args[0], (str, type)) else None, lambda: None)


def _register_kernels(machine: PythonMachine, name: str, keys: list[str]) -> None:
    for key in keys:
        note_registration(machine, Registers.KERNEL, name, key)


def _register_or_decorate(function: object, action: Callable[[], None], result: object = None) -> object:
    """Register now if there is a function; else return a decorator that registers."""

    def apply(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        action()
        return result or (args[0] if args else None)

    if function is None:
        return Native("decorator", apply)
    action()
    return result or function


def _custom_op(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = take_argument(args, kwargs, 0, "name")
    mutates = kwargs.get("mutates_args", ())
    keys = _dispatch_keys(kwargs.get("device_types"))
    if not isinstance(name, str):
        machine.gap(f"custom_op under a name that is not known: {describe_value(name)}")
        return NotKnown("custom_op()")
    made = CustomOp(str(name))

    def define(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        if kwargs.get("schema") is None:
            _check_annotations(machine, args[0] if args else None, kwargs)
        _add_custom_op(machine, made.name, mutates, keys)
        return made

    return define(machine, args[1:], {}) if len(args) > 1 and args[1] is not None else Native("decorator", define)


def _check_annotations(machine: PythonMachine, function: object, kwargs: Kwargs) -> None:
    from abiscan.python.interpreter.models.torch_schemas import check_annotations  # needs what few packages need

    check_annotations(machine, function, kwargs)


def _add_custom_op(machine: PythonMachine, name: str, mutates: object, keys: list[str] | None) -> None:
    """Register what ``custom_op`` does by itself: torch/_library/custom_ops.py, ``CustomOpDef``."""
    # In the order of _register_to_dispatcher; kernels for devices follow.
    _register_definition(machine, name, f"{name}(...)")
    note_registration(machine, Registers.FAKE, name, "Meta")
    note_registration(machine, Registers.AUTOGRAD, name, "Autograd")
    if mutates and not isinstance(mutates, NotKnown):
        note_registration(machine, Registers.KERNEL, name, "ADInplaceOrView")
    _register_kernels(machine, name, keys or [])


# ---- the functions of torch.library


def _register_fake(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = _operator_name(machine, take_argument(args, kwargs, 0, "op"), "a fake kernel")
    if isinstance(args[0] if args else None, CustomOp) or name is None:
        return _register_or_decorate(take_argument(args, kwargs, 1, "func"), lambda: None)
    return _register_or_decorate(take_argument(args, kwargs, 1, "func"), lambda: _make_fake(machine, name))


def _make_registering(kind: Registers, key: Callable[[Args, Kwargs], str | None], place: int) -> Model:
    """Return a function that looks the operator up before it registers."""

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = _operator_name(machine, take_argument(args, kwargs, 0, "op"), f"a registration ({kind.value})")

        def action() -> None:
            if name is not None:
                _require_attribute(machine, name)
                note_registration(machine, kind, name, key(args, kwargs))

        return _register_or_decorate(args[place] if len(args) > place else None, action)

    return call


def _autocast_key(args: Args, kwargs: Kwargs) -> str | None:
    device = take_argument(args, kwargs, 1, "device_type")
    return {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}.get(str(device))


def _register_autograd(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    target = take_argument(args, kwargs, 0, "op")
    name = _operator_name(machine, target, "autograd")
    if name is not None and not isinstance(target, CustomOp):
        _require_attribute(machine, name)
        note_registration(machine, Registers.AUTOGRAD, name, "Autograd")
    return None


def _register_autocast(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = _operator_name(machine, take_argument(args, kwargs, 0, "op"), "autocast")
    if name is not None:
        _require_attribute(machine, name)
        note_registration(machine, Registers.AUTOCAST, name, _autocast_key(args, kwargs))
    return None


def _register_kernel(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = _operator_name(machine, take_argument(args, kwargs, 0, "op"), "a kernel")
    keys = _dispatch_keys(take_argument(args, kwargs, 1, "device_types"))
    return _register_or_decorate(take_argument(args, kwargs, 2, "func"), lambda: _all_kernels(machine, name, keys))


def _all_kernels(machine: PythonMachine, name: str | None, keys: list[str] | None) -> None:
    for key in keys or []:
        if name is not None:
            _make_kernel(machine, name, key)


def _model_impl(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    # ``impl(qualname, types, func)`` of today, or ``impl(library, name, dispatch_key)`` of old.
    first = take_argument(args, kwargs, 0, "qualname", kwargs.get("lib"))
    if isinstance(first, LibraryValue):
        name = first.qualify_name(machine, take_argument(args, kwargs, 1, "name"), "a kernel")
        key = take_argument(args, kwargs, 2, "dispatch_key", "") or first.key
        keys = [key] if isinstance(key, str) else None
        return _register_or_decorate(None, lambda: _all_kernels(machine, name, keys))
    if isinstance(first, str) and _is_since(machine, NAMES_SINCE) is False:
        return _decorator_of_text("impl")
    name = _operator_name(machine, first, "a kernel")
    function = take_argument(args, kwargs, 2, "func")
    if isinstance(function, str):  # the dispatch key of the old form, on a library that is not known
        return _register_or_decorate(None, lambda: None)
    keys = _dispatch_keys(take_argument(args, kwargs, 1, "types"))
    return _register_or_decorate(function, lambda: _all_kernels(machine, name, keys))


def _define_function(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    first, schema = (
        take_argument(args, kwargs, 0, "qualname", kwargs.get("lib")),
        take_argument(args, kwargs, 1, "schema"),
    )
    if isinstance(first, LibraryValue):
        return _register_or_decorate(None, lambda: _define_on(machine, first, schema))
    if isinstance(first, str) and _is_since(machine, NAMES_SINCE) is False:
        return _decorator_of_text("define")
    name = _operator_name(machine, first, "a definition")
    if name is not None:
        _register_definition(machine, name, f"{name}{schema if isinstance(schema, str) else ''}")
    # ``define(library, schema)`` decorates a function; with a name, nothing uses the result.
    return None if isinstance(first, str) else _register_or_decorate(None, lambda: None)


def _decorator_of_text(method: str) -> Native:
    """Return the decorator of a release that takes a library and got a name: it registers nothing until it decorates,
    and then calls a method of the name.
    """

    def decorate(_machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
        raise lacks(AttributeError, f"'str' object has no attribute '{method}'")

    return Native("decorator", decorate)


def _define_on(machine: PythonMachine, library: LibraryValue, schema: object) -> None:
    machine.call(library.get_attribute(machine, "define"), [schema], {})


def _infer_schema(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``infer_schema``, for what it raises: the parameters in a schema do not matter here."""
    function, *mutates = args or [None]
    _check_annotations(machine, function, {"mutates_args": mutates[0], **kwargs} if mutates else kwargs)
    return TextWithHoles("infer_schema()", truth=True, parts=("(", ") -> ", ""))


def _old_custom_op(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``torch._custom_ops.custom_op``: define an operator, by a schema or by a decorated function; no more."""
    name = _operator_name(machine, take_argument(args, kwargs, 0, "qualname"), "a definition")
    how = take_argument(args, kwargs, 1, "func_or_schema")
    result = _register_or_decorate(
        how, lambda: None if name is None else _register_definition(machine, name, f"{name}(...)")
    )
    return None if isinstance(how, str) else result


def _old_impl(kind: Registers) -> Model:
    """Return a function of ``torch._custom_ops`` that looks the operator up before it registers a kernel."""

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = _operator_name(machine, take_argument(args, kwargs, 0, "qualname"), "a kernel")
        keys = _dispatch_keys(kwargs.get("device_types", ("cpu", "cuda"))) if kind is Registers.KERNEL else ["Autograd"]

        def action() -> None:
            if name is not None and operator_exists(machine, name) is False:
                raise Thrown(torch_error("no operator for custom_ops", operator=name))
            for key in keys or ():
                if name is not None:
                    note_registration(machine, kind, name, key)

        return _register_or_decorate(kwargs.get("func"), action)

    return call


def _check_first(value: object) -> object:
    """Return a function that refuses keywords as the torch of the target does, before it does what it does."""
    if not isinstance(value, Native):
        return value

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        refuse_arguments(machine, value.name, args, kwargs)
        return value.function(machine, args, kwargs)

    return Native(value.name, call)


class TorchLibrary(TorchModule):
    """``torch.library``."""

    __slots__ = ()

    def __init__(self) -> None:
        names = native_functions(
            "torch.library", Library=_model_library, custom_op=_custom_op, triton_op=_custom_op,
            register_fake=_register_fake,
            impl_abstract=_register_fake, register_autograd=_register_autograd, register_autocast=_register_autocast,
            register_kernel=_register_kernel, impl=_model_impl, define=_define_function,
            register_vmap=_make_registering(Registers.VMAP, lambda _args, _kwargs: "FuncTorchBatched", 1),
            register_torch_dispatch=_make_registering(Registers.TORCH_DISPATCH, lambda _args, _kwargs: None, 2),
            _scoped_library=_model_library, infer_schema=_infer_schema,
        )  # fmt: skip
        super().__init__("torch.library", {name: _check_first(value) for name, value in names.items()})

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return a function of it; one that came with a later release is not there."""
        # The table of names of the target's torch is better than a release number, where there is one.
        since = LIBRARY_SINCE.get(name)
        if since is not None and not knows_names(machine):
            there = _is_since(machine, since)
            if there is None:
                return NotKnown(f"torch.library.{name}", Why.ENVIRONMENT)
            if there is False:
                raise thrown(AttributeError, f"module 'torch.library' has no attribute '{name}'")
        return super().get_attribute(machine, name)


def _is_since(machine: PythonMachine, since: MinorVersion) -> bool | None:
    def ask(world: World) -> bool | None:
        release = release_of(world.torch_version)
        return None if release is None else release >= since

    answer = machine.world.tells(f"it is at least {since[0]}.{since[1]}", ask)
    return answer if isinstance(answer, bool) else None


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "torch.library": lambda _machine: TorchLibrary(),
    "torch._custom_ops": lambda _machine: TorchModule(
        "torch._custom_ops",
        native_functions(
            "torch._custom_ops",
            custom_op=_old_custom_op,
            impl_abstract=_register_fake,
            impl=_old_impl(Registers.KERNEL),
            impl_backward=_old_impl(Registers.AUTOGRAD),
        ),
    ),
    "torch._custom_op.impl": lambda _machine: TorchModule(
        "torch._custom_op.impl", native_functions("torch._custom_op.impl", infer_schema=_infer_schema)
    ),
    "torch._library": lambda _machine: TorchModule("torch._library", {}),
    "torch._library.infer_schema": lambda _machine: TorchModule(
        "torch._library.infer_schema", native_functions("torch._library.infer_schema", infer_schema=_infer_schema)
    ),
}
"""Modules by name."""
