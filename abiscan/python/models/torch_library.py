"""``torch.library``: what Python registers, and the errors where an operator is missing or there already.

See torch/library.py and torch/_library/custom_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from abiscan.inputs.version import MinorVersion
from abiscan.python.machine import PythonMachine
from abiscan.python.model import Registers, World
from abiscan.python.modelled import Modelled, Native
from abiscan.python.models.namespace import Args, Kwargs, Model, argument, natives
from abiscan.python.models.torch_module import TorchModule, knows_names
from abiscan.python.operations import described
from abiscan.python.operators import OperatorValue, exists, register
from abiscan.python.torch_texts import LIBRARY_SINCE, NO_OPERATOR, NO_OPERATOR_FOR_META, release_of, says
from abiscan.python.values import NotKnown, PythonError, Thrown, Why, thrown

_DEVICES = {
    "cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "hpu": "HPU", "xla": "XLA", "mtia": "MTIA",
    "meta": "Meta", "privateuseone": "PrivateUse1", "npu": "PrivateUse1", "ipu": "IPU", "ve": "VE", "lazy": "Lazy",
    "hip": "HIP", "default": "CompositeExplicitAutograd",
}  # fmt: skip


def missing_kernel_target(name: str) -> Thrown:
    """What the dispatcher says when a kernel for Meta is registered, and the operator is not there."""
    namespace, _, short = name.partition("::")
    return thrown(RuntimeError, says(NO_OPERATOR_FOR_META, namespace=namespace, name=short))


def _name(machine: PythonMachine, value: object, what: str) -> str | None:
    """The operator's name, None if it is not known."""
    if isinstance(value, OperatorValue):
        return value.name
    if isinstance(value, CustomOp):
        return value.name
    if isinstance(value, str):
        return str(value)
    machine.gap(f"{what} for an operator whose name is not known: {described(value)}")
    return None


def _require_attribute(machine: PythonMachine, name: str) -> None:
    """Look an operator up as ``torch.ops.NAMESPACE.NAME`` does."""
    namespace, _, operator = name.partition("::")
    if exists(machine, name.partition(".")[0] if "." in operator else name) is False:
        raise thrown(AttributeError, says(NO_OPERATOR, namespace=namespace, name=operator.partition(".")[0]))


def _fake(machine: PythonMachine, name: str) -> None:
    if exists(machine, name) is False:
        raise missing_kernel_target(name)
    register(machine, Registers.FAKE, name, "Meta")


def _kernel(machine: PythonMachine, name: str, key: str) -> None:
    if key == "Meta":
        _fake(machine, name)
    else:
        register(machine, Registers.KERNEL, name, key or "CompositeImplicitAutograd")


def _define(machine: PythonMachine, name: str, schema: str) -> None:
    if name in machine.defined or machine.world.operator(name) is True:
        raise Thrown(PythonError(RuntimeError, (NotKnown(says("defined twice", schema=schema) or ""),)))
    register(machine, Registers.DEFINITION, name)


def _keys(types: object) -> list[str] | None:
    """The dispatch keys for device types, or for dispatch keys by name."""
    if types is None:
        return ["CompositeExplicitAutograd"]
    several = list(types) if isinstance(types, (list, tuple, set, frozenset)) else [types]
    names = [one for one in several if isinstance(one, str)]
    return [_DEVICES.get(one, one) for one in names] if len(names) == len(several) else None


# ---- Library


class LibraryValue(Modelled, Struct, frozen=True, eq=False):
    """A ``torch.library.Library``."""

    namespace: str
    key: str

    def attribute(self, machine: PythonMachine, name: str) -> object:
        """Its methods."""
        methods: dict[str, Model] = {
            "define": self._define, "impl": self._impl, "_register_fake": self._fake,
            "_impl_with_aoti_compile": self._impl,
        }  # fmt: skip
        if name in methods:
            return Native(f"Library.{name}", methods[name])
        return {"ns": self.namespace, "dispatch_key": self.key}.get(name, NotKnown(f"Library.{name}"))

    def qualified(self, machine: PythonMachine, name: object, what: str) -> str | None:
        """The full name of one of its operators."""
        known = _name(machine, name, what)
        return known if known is None or "::" in known else f"{self.namespace}::{known}"

    def _define(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        schema = argument(args, kwargs, 0, "schema")
        name = self.qualified(machine, schema.partition("(")[0] if isinstance(schema, str) else schema, "a definition")
        if name is None:
            machine.unclear.add(self.namespace)
        else:
            _define(machine, name, f"{self.namespace}::{schema}")
        return name

    def _impl(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = self.qualified(machine, argument(args, kwargs, 0, "op_name"), "a kernel")
        key = argument(args, kwargs, 2, "dispatch_key", "") or self.key
        if name is not None:
            _kernel(machine, name, key if isinstance(key, str) else "")
        return None

    def _fake(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = self.qualified(machine, argument(args, kwargs, 0, "op_name"), "a fake kernel")
        if name is not None:
            _fake(machine, name)
        return None


def _library(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    namespace, kind = argument(args, kwargs, 0, "ns"), argument(args, kwargs, 1, "kind")
    key = argument(args, kwargs, 2, "dispatch_key", "")
    if isinstance(kind, str) and kind not in {"IMPL", "DEF", "FRAGMENT"}:
        raise thrown(ValueError, says("kind", kind=kind))
    if not isinstance(namespace, str):
        machine.gap(f"the namespace of a Library is not known: {described(namespace)}")
        return NotKnown("Library()")
    return LibraryValue(namespace, key if isinstance(key, str) else "")


# ---- custom_op


class CustomOp(Modelled, Struct, frozen=True, eq=False):
    """What ``custom_op`` returns."""

    name: str

    def attribute(self, machine: PythonMachine, name: str) -> object:
        """Its methods, which register more."""
        own = {"register_kernel", "register_fake", "register_autograd", "register_vmap", "register_autocast",
               "register_torch_dispatch", "register_effect"}  # fmt: skip
        if name in own:
            return Native(name, lambda m, args, kwargs: self._register(m, name, args, kwargs))
        return self.name if name in {"_qualname", "__name__"} else NotKnown(f"{self.name}.{name}")

    def _register(self, machine: PythonMachine, method: str, args: Args, kwargs: Kwargs) -> object:
        if method == "register_fake":  # the fake kernel is there since the definition; this one stands behind it
            return _decorate(args[0] if args else None, lambda: None)
        if method == "register_kernel":
            keys = _keys(argument(args, kwargs, 0, "device_types"))
            return _decorate(argument(args, kwargs, 1, "fn"), lambda: _kernels(machine, self.name, keys or []))
        if method == "register_vmap":
            return _decorate(
                args[0] if args else None, lambda: register(machine, Registers.VMAP, self.name, "FuncTorchBatched")
            )
        return _decorate(args[0] if args and not isinstance(args[0], (str, type)) else None, lambda: None)


def _kernels(machine: PythonMachine, name: str, keys: list[str]) -> None:
    for key in keys:
        register(machine, Registers.KERNEL, name, key)


def _decorate(function: object, action: Callable[[], None], result: object = None) -> object:
    """Register now, if there is a function; else give a decorator that registers."""

    def apply(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        action()
        return result or (args[0] if args else None)

    if function is None:
        return Native("decorator", apply)
    action()
    return result or function


def _custom_op(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = argument(args, kwargs, 0, "name")
    mutates = kwargs.get("mutates_args", ())
    keys = _keys(kwargs.get("device_types"))
    if not isinstance(name, str):
        machine.gap(f"custom_op under a name that is not known: {described(name)}")
        return NotKnown("custom_op()")
    made = CustomOp(str(name))
    return _decorate(args[1] if len(args) > 1 else None, lambda: _add(machine, made.name, mutates, keys), made)


def _add(machine: PythonMachine, name: str, mutates: object, keys: list[str] | None) -> None:
    """What ``custom_op`` registers by itself: torch/_library/custom_ops.py, ``CustomOpDef``."""
    _define(machine, name, f"{name}(...)")
    register(machine, Registers.FAKE, name, "Meta")
    register(machine, Registers.AUTOGRAD, name, "Autograd")
    if mutates and not isinstance(mutates, NotKnown):
        register(machine, Registers.KERNEL, name, "ADInplaceOrView")
    _kernels(machine, name, keys or [])


# ---- the functions of torch.library


def _register_fake(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = _name(machine, argument(args, kwargs, 0, "op"), "a fake kernel")
    if isinstance(args[0] if args else None, CustomOp) or name is None:
        return _decorate(argument(args, kwargs, 1, "func"), lambda: None)
    return _decorate(argument(args, kwargs, 1, "func"), lambda: _fake(machine, name))


def _registering(what: Registers, key: Callable[[Args, Kwargs], str | None], place: int) -> Model:
    """A function that looks the operator up before it registers."""

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = _name(machine, argument(args, kwargs, 0, "op"), f"a registration ({what.value})")

        def action() -> None:
            if name is not None:
                _require_attribute(machine, name)
                register(machine, what, name, key(args, kwargs))

        return _decorate(args[place] if len(args) > place else None, action)

    return call


def _autocast_key(args: Args, kwargs: Kwargs) -> str | None:
    device = argument(args, kwargs, 1, "device_type")
    return {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}.get(str(device))


def _register_autograd(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    target = argument(args, kwargs, 0, "op")
    name = _name(machine, target, "autograd")
    if name is not None and not isinstance(target, CustomOp):
        _require_attribute(machine, name)
        register(machine, Registers.AUTOGRAD, name, "Autograd")
    return None


def _register_autocast(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = _name(machine, argument(args, kwargs, 0, "op"), "autocast")
    if name is not None:
        _require_attribute(machine, name)
        register(machine, Registers.AUTOCAST, name, _autocast_key(args, kwargs))
    return None


def _register_kernel(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = _name(machine, argument(args, kwargs, 0, "op"), "a kernel")
    keys = _keys(argument(args, kwargs, 1, "device_types"))
    return _decorate(argument(args, kwargs, 2, "func"), lambda: _all_kernels(machine, name, keys))


def _all_kernels(machine: PythonMachine, name: str | None, keys: list[str] | None) -> None:
    for key in keys or []:
        if name is not None:
            _kernel(machine, name, key)


def _impl(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    first = argument(args, kwargs, 0, "qualname", kwargs.get("lib"))
    if isinstance(first, LibraryValue):
        name = first.qualified(machine, argument(args, kwargs, 1, "name"), "a kernel")
        key = argument(args, kwargs, 2, "dispatch_key", "") or first.key
        keys = [key] if isinstance(key, str) else None
        return _decorate(None, lambda: _all_kernels(machine, name, keys))
    name = _name(machine, first, "a kernel")
    keys = _keys(argument(args, kwargs, 1, "types"))
    return _decorate(argument(args, kwargs, 2, "func"), lambda: _all_kernels(machine, name, keys))


def _define_function(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    first, schema = argument(args, kwargs, 0, "qualname", kwargs.get("lib")), argument(args, kwargs, 1, "schema")
    if isinstance(first, LibraryValue):
        return _decorate(None, lambda: _define_on(machine, first, schema))
    name = _name(machine, first, "a definition")
    if name is not None:
        _define(machine, name, f"{name}{schema if isinstance(schema, str) else ''}")
    return None


def _define_on(machine: PythonMachine, library: LibraryValue, schema: object) -> None:
    machine.call(library.attribute(machine, "define"), [schema], {})


def _infer_schema(_machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    """A schema without the name: what is in the parentheses does not matter here."""
    return "(...) -> ..."


def _old_custom_op(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """``torch._custom_ops.custom_op``: it defines, by a schema or by a function that it decorates, and no more."""
    name = _name(machine, argument(args, kwargs, 0, "qualname"), "a definition")
    how = argument(args, kwargs, 1, "func_or_schema")
    result = _decorate(how, lambda: None if name is None else _define(machine, name, f"{name}(...)"))
    return None if isinstance(how, str) else result


def _old_impl(what: Registers) -> Model:
    """A function of ``torch._custom_ops`` that looks the operator up before it registers a kernel."""

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = _name(machine, argument(args, kwargs, 0, "qualname"), "a kernel")
        keys = _keys(kwargs.get("device_types", ("cpu", "cuda"))) if what is Registers.KERNEL else ["Autograd"]

        def action() -> None:
            if name is not None and exists(machine, name) is False:
                raise thrown(ValueError, says("no operator for custom_ops", operator=name))
            for key in keys or ():
                if name is not None:
                    register(machine, what, name, key)

        return _decorate(kwargs.get("func"), action)

    return call


class TorchLibrary(TorchModule):
    """``torch.library``."""

    __slots__ = ()

    def __init__(self) -> None:
        names = natives(
            "torch.library", Library=_library, custom_op=_custom_op, triton_op=_custom_op, register_fake=_register_fake,
            impl_abstract=_register_fake, register_autograd=_register_autograd, register_autocast=_register_autocast,
            register_kernel=_register_kernel, impl=_impl, define=_define_function,
            register_vmap=_registering(Registers.VMAP, lambda _args, _kwargs: "FuncTorchBatched", 1),
            register_torch_dispatch=_registering(Registers.TORCH_DISPATCH, lambda _args, _kwargs: None, 2),
            _scoped_library=_library, infer_schema=_infer_schema,
        )  # fmt: skip
        super().__init__("torch.library", names)

    def attribute(self, machine: PythonMachine, name: str) -> object:
        """A function of it; one that came with a later release is not there."""
        since = LIBRARY_SINCE.get(name)
        if since is not None and not knows_names(machine):
            there = _is_since(machine, since)
            if there is None:
                return NotKnown(f"torch.library.{name}", Why.ENVIRONMENT)
            if there is False:
                raise thrown(AttributeError, f"module 'torch.library' has no attribute '{name}'")
        return super().attribute(machine, name)


def _is_since(machine: PythonMachine, since: MinorVersion) -> bool | None:
    def ask(world: World) -> bool | None:
        release = release_of(world.torch_version)
        return None if release is None else release >= since

    told = machine.world.tells(f"it is at least {since[0]}.{since[1]}", ask)
    return told if isinstance(told, bool) else None


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "torch.library": lambda _machine: TorchLibrary(),
    "torch._custom_ops": lambda _machine: TorchModule(
        "torch._custom_ops",
        natives(
            "torch._custom_ops",
            custom_op=_old_custom_op,
            impl_abstract=_register_fake,
            impl=_old_impl(Registers.KERNEL),
            impl_backward=_old_impl(Registers.AUTOGRAD),
        ),
    ),
    "torch._library": lambda _machine: TorchModule("torch._library", {}),
    "torch._library.infer_schema": lambda _machine: TorchModule(
        "torch._library.infer_schema", natives("torch._library.infer_schema", infer_schema=_infer_schema)
    ),
}
"""Modules by name."""
