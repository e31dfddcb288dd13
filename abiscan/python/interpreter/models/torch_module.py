"""Modules of torch: what is modelled of them, and which names the torch of the target has beyond that."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from typing import Final

from abiscan.inputs.requirement import brings_device
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled
from abiscan.python.interpreter.models import companions
from abiscan.python.interpreter.values import (
    Listing,
    NotKnown,
    NotNone,
    PossibleItems,
    PythonError,
    PythonFunction,
    PythonModule,
    Scope,
    Thrown,
)
from abiscan.python.package import standard
from abiscan.python.package.model import Answer, World
from abiscan.python.torch_api.torch_classes import CLASSES, missing_attribute
from abiscan.python.torch_api.torch_names import CORE, Callee, is_core
from abiscan.python.torch_api.torch_texts import LISTED_IN_VAIN, NO_BACKEND, release_of, wording_of
from abiscan.regex import regex

_ADDS_TO_TORCH: Final = regex(r"torch|apex|optree|functorch|flash|triton")
"""What is in the names of packages that may add names of their own to torch: none that some release of torch has."""
_ADDS_NOTHING: Final = frozenset({"torchaudio", "torchdata", "torchmetrics", "torchtext", "torchvision"})
"""Packages with such a name whose sources set no name of torch."""
_OPTIM: Final = "torch.optim"
_OF_ANY_PACKAGE: Final = frozenset({
    "__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__",
    "__spec__",
})  # fmt: skip
_WITHOUT_TORCH: Final = frozenset(
    {"PIL", "attr", "attrs", "click", "filelock", "fsspec", "jinja2", "networkx", "numpy", "packaging", "pkg_resources"}
    | {"psutil", "requests", "setuptools", "six", "sympy", "tqdm", "typing_extensions", "yaml"}
)
"""Packages whose import does not import torch."""
_IMPORTING: Final = {("torchvision", "torch.fx"): "torchvision.models.feature_extraction"}
"""Packages, and a module of torch that only some of their versions import: with one of theirs that these have, and no
others. torchvision imports ``torch.fx`` since 0.11.0, in that module and in those that came later.
"""


def lacks(cls: type[BaseException], text: object, /, **attributes: object) -> Thrown:
    """Return an exception that is raised because torch lacks a name, or a parameter."""
    return Thrown(PythonError(cls, (text,), attributes, of_torch=True))


class TorchModule(Modelled):
    """A module of torch.

    :param names: those that are modelled
    :param of_target: those that the target decides, which is asked when one of them is used
    """

    __slots__ = ("_deleted", "_of_target", "_put", "name", "names")

    def __init__(
        self,
        name: str,
        names: Mapping[str, object] | None = None,
        of_target: Mapping[str, Callable[[PythonMachine], object]] | None = None,
    ) -> None:
        self.name, self.names, self._of_target = name, dict(names or {}), of_target or {}
        self._put: set[str] = set()
        self._deleted: set[str] = set()

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what is known of it; raises if the torch of the target certainly lacks it."""
        # A name that is certainly absent raises, even one that is modelled for other releases. Then what is modelled,
        # what the target decides, and submodules.
        if name not in self._put and surely_lacks(machine, self.name, name):
            raise lacks(AttributeError, missing_name(machine, self.name, name))
        if name in self.names:
            return self.names[name]
        if name in self._of_target:
            return self._of_target[name](machine)
        full = f"{self.name}.{name}"
        if full in machine.models:
            return machine.import_module(full)
        if full in CLASSES:
            return TorchClass(full)
        if self.name == _OPTIM and _is_optimizer(machine, full):
            return OptimizerClass(full)
        if full not in machine.modules and not is_module(machine, full):
            return NotKnown(full)
        if name not in self._put and surely_unloaded(machine, full):
            raise lacks(AttributeError, missing_name(machine, self.name, name))
        return machine.modules.setdefault(full, TorchModule(full))

    def has(self, machine: PythonMachine, name: str) -> bool | None:
        """Whether it has a name; None if that is not known."""
        if name in self._deleted:
            return None
        if name in self._put or name in self.names:
            return True
        has = has_name(machine, self.name, name)
        return False if has is None and surely_unloaded(machine, f"{self.name}.{name}") else has

    def list_names(self, machine: PythonMachine) -> object:
        """Return the names that it certainly has, if no others are possible than those of its submodules; else what
        tells of a name whether it is among them.
        """
        if "__dir__" in self._put:
            return None
        names = machine.world.tells(f"the names of {self.name}", lambda world: _all_names(world, self.name))
        if not isinstance(names, tuple):
            return Listing(f"dir({self.name})", has=functools.partial(self._lists, machine))
        return [*sorted({*names, *self.names, *self._put} - self._deleted), PossibleItems(f"dir({self.name})")]

    def _lists(self, machine: PythonMachine, name: str) -> bool | None:
        """Whether ``dir`` lists a name; None if that is not known, as of submodules, which may be imported later."""
        has = self.has(machine, name)
        return None if has and is_module(machine, f"{self.name}.{name}") else has

    def put(self, machine: PythonMachine, name: str, value: object) -> None:
        """Set a name of it; the value counts only for a name that is modelled."""
        if _is_config(machine, self.name) and surely_lacks(machine, self.name, name):
            raise lacks(AttributeError, missing_name(machine, self.name, name))
        self._put.add(name)
        self._deleted.discard(name)
        if name in self.names:
            self.names[name] = value

    def delete(self, name: str) -> None:
        """Delete a name: whether it is there from then on is not known."""
        self._deleted.add(name)

    def display_name(self) -> str:
        """Return its name."""
        return self.name


class TorchClass(NotNone, frozen=True):
    """A class of torch that packages derive from or patch: not known but for the attributes that it lacks."""

    def get_attribute(self, machine: object, name: str) -> object:
        """Return an attribute of the class; raises if that of the target certainly lacks it."""
        assert isinstance(machine, PythonMachine)
        if name == "__name__":
            return self.name.rpartition(".")[2]
        if surely_lacks(machine, self.name, name) and not machine.library.may_set_computed(self.name):
            raise lacks(AttributeError, missing_attribute(self.name, name))
        return self.part(f".{name}")


class OptimizerClass(TorchClass, frozen=True):
    """A class of ``torch.optim`` that derives from ``Optimizer``."""


def _is_optimizer(machine: PythonMachine, name: str) -> bool:
    """Whether a name of ``torch.optim`` is that of a class to optimize parameters: all of them derive from one."""

    def takes_parameters(world: World) -> bool:
        callee = None if world.torch_names is None else world.torch_names.callee(name)
        return (
            callee is not None and callee.name.endswith(".__init__") and callee.signature.positional[:1] == ("params",)
        )

    return machine.world.tells(f"whether {name} is an optimizer", takes_parameters) is True


def _all_names(world: World, module: str) -> tuple[str, ...] | None:
    if world.torch_names is None:
        return None
    names = world.torch_names.source.module(module)
    if names is None or names.is_open or names.possible or names.stars or names.prefixes:
        return None
    # A package may delete the names of its submodules, as ``torch.optim`` does.
    is_module = world.torch_names.source.is_module
    own = sorted(name for name in names.there if not is_module(f"{module}.{name}"))
    return (*own, *_OF_ANY_PACKAGE)


def has_name(machine: PythonMachine, owner: str, name: str) -> bool | None:
    """Whether a module or a class of torch has a name; None if that is not known."""
    answer = machine.world.tells(f"whether it has {owner}.{name}", lambda world: _module_has(world, owner, name))
    return False if surely_lacks(machine, owner, name) else (answer if answer is True else None)


def _module_has(world: World, owner: str, name: str) -> bool | None:
    names = world.torch_names
    return None if names is None else names.has(owner, name)


def surely_lacks(machine: PythonMachine, owner: str, name: str) -> bool:
    """Whether the torch of the target certainly has no such name, and no code that has run may have added it."""
    answer = machine.world.tells(
        f"whether it lacks {owner}.{name}",
        lambda world: world.torch_names is not None and world.torch_names.lacks(owner, name),
    )
    return answer is True and (_is_config(machine, owner) or not _may_be_added(machine, owner, name))


def surely_unloaded(machine: PythonMachine, name: str) -> bool:
    """Whether a module of torch is no attribute of the one around it: no code that has run may have imported it."""
    if name in machine.modules or not _is_unloaded(machine, name):
        return False
    owner, _, last = name.rpartition(".")
    # A package that is not read may import it, and so may another module of torch that ``import torch`` does not.
    foreign = any(
        "." not in module
        and module not in _WITHOUT_TORCH
        and _is_foreign(machine, module)
        and standard.has_module(module, Answer.UNKNOWN) is False
        and not _imports_none_of(machine, module, name)
        for module in machine.modules
    )
    of_torch = any(module.startswith("torch.") and _is_unloaded(machine, module) for module in machine.modules)
    return not (foreign or of_torch or _may_be_added(machine, owner, last) or machine.library.may_import(name))


def _imports_none_of(machine: PythonMachine, package: str, name: str) -> bool:
    """Whether the version of a package that goes with the torch of the target certainly does not import a module of
    torch.
    """
    importing = _IMPORTING.get((package, name))
    return importing is not None and companions.lacks_module(machine, importing)


def _is_unloaded(machine: PythonMachine, name: str) -> bool:
    answer = machine.world.tells(
        f"whether nothing of torch imports {name}",
        lambda world: world.torch_names is not None and world.torch_names.is_unloaded(name),
    )
    return answer is True


def missing_name(machine: PythonMachine, module: str, name: str) -> str:
    """Return what an attribute raises that a module of torch does not have."""
    if _is_config(machine, module):
        return f"{module}.{name} does not exist"
    return f"module '{module}' has no attribute '{name}'"


def _is_config(machine: PythonMachine, module: str) -> bool:
    """Whether the names of a module are options: no code can add one."""
    answer = machine.world.tells(
        f"whether {module} has options",
        lambda world: world.torch_names is not None and world.torch_names.is_config(module),
    )
    return answer is True


def is_module(machine: PythonMachine, name: str) -> bool:
    """Whether something is known to be a module of the torch of the target."""
    answer = machine.world.tells(
        f"whether {name} is a module",
        lambda world: world.torch_names is not None and world.torch_names.source.is_module(name),
    )
    return answer is True


def knows_names(machine: PythonMachine) -> bool:
    """Whether the names of the target's torch are known."""
    return machine.world.tells("whether its names are known", lambda world: world.torch_names is not None) is True


def _may_be_added(machine: PythonMachine, owner: str, name: str) -> bool:
    """Whether other code may have set a name of torch: a package that is not read, or this one, somewhere."""
    return _others_may_add(machine, owner, name) or machine.library.may_set(name)


def _others_may_add(machine: PythonMachine, owner: str, name: str) -> bool:
    """Whether a package that is not read may have set a name of torch: one that is imported, or a backend."""
    foreign = [
        module
        for module in machine.modules
        if "." not in module
        and module not in {"torch", *_ADDS_NOTHING}
        # Nothing is there that is not required, unless the code insists on it.
        and (module not in machine.speculative_imports or machine.library.requires(module))
        and (brings_device(module) or _ADDS_TO_TORCH.search(module))
        and standard.has_module(module, Answer.UNKNOWN) is False
        and _is_foreign(machine, module)
    ]
    if any(map(brings_device, foreign)) or (foreign and not _is_of_torch(machine, owner, name)):
        return True
    return _is_brought(machine, owner, name)


def _is_brought(machine: PythonMachine, owner: str, name: str) -> bool:
    """Whether a package that is required may have set a name of torch: ``import torch`` imports those with a device."""
    required = next(filter(brings_device, sorted(machine.library.required)), None)
    if required is None or not machine.world.tells("it loads backends", loads_backends):
        return False
    around = machine.library.surroundings
    is_absent = around.installed(required) is False
    if (around.is_final and is_absent) or _is_of_torch(machine, owner, name):
        return False
    package = required.replace("_", "-")
    why = f"{package}, which is required, brings {owner}.{name}"
    machine.need("backend", package, why, is_there=False if is_absent else None)
    return True


def loads_backends(world: World) -> bool:
    """Whether ``import torch`` imports the packages that name themselves as backends."""
    release = release_of(world.torch_version)
    return release is not None and wording_of(NO_BACKEND, release) is not None


def _is_of_torch(machine: PythonMachine, owner: str, name: str) -> bool:
    """Whether some release of torch has, or may have, a name: other packages give it names of their own."""
    full = f"{owner}.{name}"
    answer = machine.world.tells(
        f"whether some release has {full}",
        lambda world: (
            world.torch_names is not None
            and (world.torch_names.was_there(full) or world.torch_names.was_compiled(full))
        ),
    )
    return answer is True


def _is_foreign(machine: PythonMachine, module: str) -> bool:
    return isinstance(machine.modules[module], NotKnown)


def import_torch_module(machine: PythonMachine, name: str) -> object:
    """Return a module of torch; raise what Python raises if the target's torch certainly has no such module."""
    absent = absent_module(machine, name)
    if absent is not None:
        raise absent
    return TorchModule(name) if is_module(machine, name) else NotKnown(name)


def surely_binds(machine: PythonMachine, name: str) -> bool:
    """Whether a module surely has a name, by its full name: an object such as ``torch.ops`` may be imported, too."""
    owner, _, last = name.rpartition(".")
    return machine.world.tells(f"whether it has {name}", lambda world: _module_has(world, owner, last)) is True


def has_module(machine: PythonMachine, name: str) -> bool | None:
    """Whether the target's torch has a module; None if that is not known."""
    if is_module(machine, name):
        return True
    return None if absent_module(machine, name) is None else False


def absent_module(machine: PythonMachine, name: str) -> Thrown | None:
    """Return what the import of a module raises that the target's torch certainly does not have; else None."""
    answer = machine.world.tells(
        f"whether it lacks the module {name}",
        lambda world: world.torch_names is not None and world.torch_names.has_module(name) is False,
    )
    around, _, last = name.rpartition(".")
    # An attribute of that name, which code of the package may set on anything, is no module: an import asks
    # ``sys.modules`` and the folder of the module around.
    if answer is not True or _others_may_add(machine, around, last) or machine.library.may_make_module(name):
        return None
    is_package = machine.world.tells(
        f"whether {around} is a package",
        lambda world: world.torch_names is None or world.torch_names.is_package(around),
    )
    hint = "" if is_package else f"; '{around}' is not a package"
    return lacks(ModuleNotFoundError, f"No module named '{name}'{hint}", name=name)


def refuse_arguments(machine: PythonMachine, function: str, args: list[object], kwargs: dict[str, object]) -> None:
    """Raise what a function of torch raises for a keyword that it does not take, or that is missing."""
    module, _, name = function.rpartition(".")
    if not kwargs or module.partition(".")[0] != "torch" or not name.isidentifier():
        return
    callee = machine.world.tells(f"the parameters of {function}", lambda world: _find_callee(world, function))
    if not isinstance(callee, Callee):
        return
    # A method counts its object as an argument.
    itself = ["self"] if "." in callee.name else []
    node = _make_function(",".join([*itself, *filter(None, [callee.parameters])]))
    try:
        scope = Scope({}, PythonModule(module))
        called = PythonFunction(callee.name.rpartition(".")[2], node, scope, {}, qualified=callee.name)
        machine.bind_arguments(called, [*itself, *args], kwargs)
    except Thrown as refused:
        if not _may_be_replaced(machine, module, name):
            raise lacks(TypeError, *refused.failure.args) from None


@functools.lru_cache(maxsize=64)
def _make_function(parameters: str) -> ast.FunctionDef:
    """Return a function with some parameters, as ``module_names.signature_text`` writes them, and no body."""
    written = ", ".join(f"{part}0" if part.endswith("=") else part for part in parameters.split(","))
    node = ast.parse(f"def called({written}): ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def _find_callee(world: World, function: str) -> Callee | None:
    return None if world.torch_names is None else world.torch_names.callee(function)


def _may_be_replaced(machine: PythonMachine, module: str, name: str) -> bool:
    """Whether torch, the package or another one may put something else in the place of a function of torch."""
    answer = machine.world.tells(
        f"whether something sets {name}",
        lambda world: world.torch_names is None or world.torch_names.source.is_patched(name),
    )
    return answer is True or _may_be_added(machine, module, name)


def check_listed(machine: PythonMachine, module: str) -> None:
    """Raise what a star raises if ``__all__`` of a module lists what is not there."""
    name = machine.world.tells(
        f"what {module}.__all__ lists in vain",
        lambda world: LISTED_IN_VAIN.get((module, release_of(world.torch_version) or (0, 0))),
    )
    if isinstance(name, str):
        raise lacks(AttributeError, f"module '{module}' has no attribute '{name}'")


def cannot_import(machine: PythonMachine, module: str, name: str) -> Thrown:
    """Return what ``from MODULE import NAME`` raises for a module of torch that lacks the name."""
    place = _file_of_module(machine, module)
    text: object = f"cannot import name '{name}' from '{module}' ({place})"
    return lacks(ImportError, text if place else NotKnown(f"cannot import name '{name}' from '{module}' (…)"))


def _file_of_module(machine: PythonMachine, module: str) -> str | None:
    """Return the file of a module of torch, as an error names it; None if that is not known."""
    if not is_core(module) and not is_module(machine, module):
        return None  # something else of that name, such as a class: Python says that there is no such module
    around = machine.library.surroundings.torch_folder
    root = str(around.parent) if around else machine.files.system.root
    if is_core(module):
        if module != CORE or machine.files.system.is_windows or isinstance(python := machine.world.python, Answer):
            return None
        return f"{root}/torch/_C.cpython-{python[0]}{python[1]}-{machine.world.machine}-linux-gnu.so"
    path = f"{root}/{module.replace('.', '/')}"
    is_package = machine.world.tells(
        f"whether {module} is a package",
        lambda world: world.torch_names is None or world.torch_names.is_package(module),
    )
    return f"{path}/__init__.py" if is_package else f"{path}.py"
