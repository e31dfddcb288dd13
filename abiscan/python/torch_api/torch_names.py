"""The Python names of a torch: whether a module or a class has one, for certain or perhaps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct, field

from abiscan.python.language.module_names import ModuleNames
from abiscan.python.language.refusals import ParameterList, parse_parameters
from abiscan.python.torch_api.compiled_names import ADDED_SINCE, COMPUTED
from abiscan.python.torch_api.operator_calls import OperatorsOfTorch
from abiscan.python.torch_api.torch_classes import CLASSES
from abiscan.regex import regex

CLASS: Final = "class "
"""What the names of classes begin with where those of modules are kept, too."""
COMPANIONS: Final = ("numpy", "torchaudio", "torchtext", "torchvision", "triton")
"""The packages other than torch whose names are known by version."""
CORE: Final = "torch._C"
FUNCTIONS: Final = "torch._C._VariableFunctions"
OPEN: Final = "?"
"""The mark of a module that may have any name."""
_MOST_IMPORTS: Final = 6
"""From how many modules to the next the import of a function is followed."""
_MANGLED: Final = regex(r"_[A-Za-z]\w*?__")
"""The names of private attributes of classes: ``_Owner__name``."""


_LISTING_PRIVATE: Final = regex(
    r"torch\.onnx\._internal\.torchscript_exporter\.(symbolic_helper|symbolic_opset20|utils)"
    r"|torch\._inductor\.runtime\.triton_compat"
)
"""The modules that stars import from and whose ``__all__`` lists names with an underscore."""
_FUNCTIONAL: Final = "torch.functional"
TYPING_NAMES: Final = frozenset({"Any", "Callable", "Dict", "List", "Optional", "Set", "Tuple", "Union"})
"""What modules of torch import from ``typing``, and nothing compiled is called."""
DEVICE_MODULES: Final = frozenset({"xpu", "mps", "mtia", "hpu", "npu", "mlu", "musa", "cpu"})
"""The modules of torch for devices, which other packages may bring where torch has none."""
_WITH_TYPES: Final = frozenset(
    f"torch{device}{layout}"
    for device in ("", ".cuda", *(f".{name}" for name in DEVICE_MODULES))
    for layout in ("", ".sparse", ".quantized")
)
"""The modules that compiled code gives types of tensors and elements (``backend_to_string`` of
torch/csrc/utils/tensor_types.cpp).
"""


class NameSource(Protocol):
    """What is known of one torch."""

    def module(self, name: str) -> ModuleNames | None:
        """Return what is known of the names of a module, or of a class; None if there is no source of it."""
        ...

    def is_module(self, name: str) -> bool:
        """Whether a module is a file, or a folder."""
        ...

    def is_package(self, name: str) -> bool:
        """Whether a module has a folder."""
        ...

    def is_unloaded(self, name: str) -> bool:
        """Whether nothing that ``import torch`` imports may import a module, not even a function there."""
        ...

    def in_unloaded(self, uses: frozenset[str]) -> Mapping[str, str]:
        """Return those of some dotted names that are such a module or in one, each with that module."""
        ...

    def mentions(self, owner: str, name: str) -> bool:
        """Whether a quick look at a module is enough to tell that it may have a name."""
        ...

    def doubtful(self, uses: frozenset[str]) -> Sequence[str]:
        """Return the dotted names (``torch.nn.Nope``) of which a quick look does not tell that they may be there."""
        ...

    def is_patched(self, name: str) -> bool:
        """Whether code of torch sets an attribute of that name on what it imports."""
        ...

    def is_compiled(self, name: str) -> bool:
        """Whether compiled code may give something that name: it is a text there, or declared in a stub."""
        ...

    def is_removed(self, name: str) -> bool:
        """Whether an earlier release has a compiled function of that name, and this one does not list it any more."""
        ...


class Companions(Protocol):
    """What is known of the packages that torch and its users come with: Triton, torchvision, torchaudio, torchtext and
    numpy."""

    def matching(self, package: str, specifier: str) -> Sequence[TorchNames]:
        """Return the names of the versions of a package that a requirement allows (``>=2``), as far as recorded."""
        ...

    def versions(self, package: str) -> Sequence[str]:
        """Return the versions of a package that are recorded, the oldest first."""
        ...

    def required(self, package: str, machine: str) -> str | None:
        """Return which version of a package goes with this torch on a machine, as ``==3.2.0``."""
        ...


class UsesOfTorch(Protocol):
    """What the sources of a package show of how they use torch."""

    @property
    def all_torch_uses(self) -> frozenset[str]:
        """The names below ``torch`` that any source mentions."""
        ...

    def uses_any_at_import(self, path: str, names: tuple[str, ...]) -> bool:
        """Whether a source uses one of some names as it is imported, itself or by the functions that it calls."""
        ...

    def may_import(self, name: str) -> bool:
        """Whether a source may import a module of torch."""
        ...

    def torch_calls(self, path: str) -> tuple[tuple[str, frozenset[str]], ...]:
        """Return the functions that a source may call with keywords, outside of functions."""
        ...


class Callee(Struct, frozen=True, kw_only=True):
    """A function or a class whose parameters are known.

    :ivar module: the module that defines it
    :ivar name: its name there; for a class, that of its ``__init__``
    :ivar parameters: as ``module_names.signature_text`` writes them, without the object of a method
    """

    module: str
    name: str
    parameters: str

    @property
    def signature(self) -> ParameterList:
        """The parameters, each by itself."""
        return parse_parameters(self.parameters)


class TorchNames(Struct):
    """The names of one torch, or of another package. Each answer may be None, for not known; no is only what is
    certain.

    :ivar top: the name of the package
    :ivar signatures_of: returns the parameters that a function of a module has in any release
    :ivar release: the number of the release, if it is an embedded one
    :ivar attributes_elsewhere: returns what a class has in Python in other releases alone
    :ivar companions: returns what is known of packages that come with this torch
    :ivar operators: returns what is known of its operators
    :ivar was_there: whether some release certainly has a dotted name
    :ivar was_compiled: whether compiled code of some release seems to have given a class, or ``torch``, a name
    :ivar is_written: whether a dotted name is that of a module in Python of some release, and of nothing compiled
    """

    source: NameSource
    was_there: Callable[[str], bool]
    was_compiled: Callable[[str], bool]
    is_written: Callable[[str], bool]
    signatures_of: Callable[[str, str], frozenset[str]]
    top: str = "torch"
    release: str | None = None
    attributes_elsewhere: Callable[[str], Collection[str]] | None = None
    companions: Callable[[], Companions] | None = None
    operators: Callable[[], OperatorsOfTorch] | None = None
    _known: dict[tuple[str, str], bool | None] = field(default_factory=dict)
    _lacks: dict[tuple[str, str], bool] = field(default_factory=dict)
    _lacking: dict[frozenset[str], tuple[str, ...]] = field(default_factory=dict)
    _removed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _asked: tuple[UsesOfTorch, tuple[str, ...]] | None = None
    """The package that was asked about last, and what it may lack."""

    def has_module(self, name: str) -> bool | None:
        """Whether a module is there. One that is may still raise as it is imported."""
        if self.source.is_module(name):
            return True
        # A no needs that neither a file, nor code of torch, nor compiled code can make a module of this name.
        parent, _, last = name.rpartition(".")
        if is_core(name) or not parent or self.has_module(parent) is None:
            return None
        # An object may be one, such as torch.ops; what is compiled puts nothing below torch into sys.modules.
        if self.has(parent, last) is not False and not self._is_only_compiled(parent, last):
            return None
        parent_names = self.source.module(parent)
        # Those that torch itself makes without a file are for devices of other packages.
        if parent_names is None or (parent_names.makes_modules and parent != "torch"):
            return None
        return None if self.source.is_patched(last) else False

    def has(self, owner: str, name: str) -> bool | None:
        """Whether a module has a name once it is imported, or a class an attribute."""
        key = owner, name
        if key not in self._known:
            self._known[key] = None  # for those that take their names from each other
            self._known[key] = self._source_has(f"{CLASS}{owner}" if owner in CLASSES else owner, name)
        return self._known[key]

    def lacks(self, owner: str, name: str) -> bool:
        """Whether it is certain that a module, or a class, has no such name."""
        key = owner, name
        if key not in self._lacks:
            self._lacks[key] = not self.source.mentions(owner, name) and self.has(owner, name) is False
        return self._lacks[key]

    def is_package(self, name: str) -> bool:
        """Whether a module is one that has others in it."""
        return self.source.is_package(name)

    def is_unloaded(self, name: str) -> bool:
        """Whether a module is certainly no attribute of the one around it before other code than torch's imports it."""
        owner, _, last = name.rpartition(".")
        if not self.source.is_unloaded(name) or self.source.is_patched(last):
            return False
        around = self.source.module(owner)
        if around is None or around.is_open or last in around.there | around.possible:
            return False
        if last.startswith(around.prefixes):
            return False
        # Nothing compiled has the name of a module in Python.
        is_written = self.is_written(name)
        stars = (star for star in around.stars if not (is_written and is_core(star)))
        return all(self._of_star(star, last) is False for star in stars)

    def may_import(self, owner: str, name: str) -> bool:
        """Whether a module binds a name on some of its ways that is a module in it: most likely by importing that."""
        names = self.source.module(owner)
        return names is not None and name in names.possible and self.source.is_module(f"{owner}.{name}")

    def lacking(self, uses: frozenset[str]) -> tuple[str, ...]:
        """Return those of some dotted names (``torch.nn.Nope``) that are certainly not there."""
        if uses not in self._lacking:
            doubtful = self.source.doubtful(uses)
            self._lacking[uses] = tuple(sorted(use for use in doubtful if self.first_lacking(use) is not None))
        return self._lacking[uses]

    def first_lacking(self, name: str) -> str | None:
        """Return a dotted name up to the first part that is certainly not there; None if all parts may be there."""
        top, *parts = name.split(".")
        owner = top
        for part in parts:
            if owner != top and not self.source.is_module(owner) and not is_core(owner) and owner not in CLASSES:
                return None
            if self.lacks(owner, part):
                return f"{owner}.{part}"
            owner = f"{owner}.{part}"
        return None

    def removed_from(self, cls: str) -> tuple[str, ...]:
        """Return the attributes that a class certainly lacks, and has in another release."""
        if cls not in self._removed:
            names = self.attributes_elsewhere(cls) if self.attributes_elsewhere is not None else ()
            self._removed[cls] = tuple(name for name in names if self.lacks(cls, name))
        return self._removed[cls]

    def refuses(self, function: str, keywords: frozenset[str]) -> bool:
        """Whether a function or a class, by its dotted name, does not take one of some keywords."""
        callee = self.callee(function)
        if callee is None or callee.signature.has_keywords:
            return False
        return not keywords <= {*callee.signature.positional, *callee.signature.keywords}

    def misses(self, code: UsesOfTorch, file: str) -> bool:
        """Whether a source seems to use, as it is imported, a name that may not be there, or a keyword."""
        return code.uses_any_at_import(file, self.missing(code)) or any(
            self.refuses(function, keywords) for function, keywords in code.torch_calls(file)
        )

    def missing(self, code: UsesOfTorch) -> tuple[str, ...]:
        """Return the names that sources mention and that may not be there."""
        if self._asked is None or self._asked[0] is not code:  # for each of its files
            uses = code.all_torch_uses
            unloaded = self.source.in_unloaded(uses).items()
            absent = (use for use, module in unloaded if not code.may_import(module))
            self._asked = code, (*self.lacking(uses), *absent)
        return self._asked[1]

    def is_config(self, module: str) -> bool:
        """Whether the names of a module are options."""
        names = self.source.module(module)
        return names is not None and names.is_config

    def callee(self, name: str) -> Callee | None:
        """Return what is called by a dotted name, a function or a class; None if its parameters are not known."""
        module, _, last = name.rpartition(".")
        for _ in range(_MOST_IMPORTS):
            of_module = self.source.module(module)
            if of_module is None:
                return None
            for own in (last, f"{last}.__init__"):
                if own in of_module.signatures:
                    return Callee(module=module, name=own, parameters=of_module.signatures[own])
            origin = of_module.imported.get(last) or self._star_with(of_module, last)
            if origin is None:
                return None
            module, _, last = origin.rpartition(".")
        return None

    def _star_with(self, names: ModuleNames, name: str) -> str | None:
        """Return the full name of what a module has by a star alone."""
        if names.is_open or name in names.there | names.possible:
            return None
        stars = [star for star in sorted(names.stars) if self._of_star(star, name) is not False]
        # torch/__init__.py imports its functions after those that are compiled, "so we can overwrite from Python side".
        written = [star for star in stars if not is_core(star)]
        if len(written) == 1 and self.has(written[0], name) is True:
            stars = written
        return f"{stars[0]}.{name}" if len(stars) == 1 else None

    def _source_has(self, owner: str, name: str) -> bool | None:
        owner_names = self.source.module(owner)
        if owner_names is not None and name in owner_names.there:
            return True
        # Names with underscores on both sides are Python's own.
        if name.startswith("__") and name.endswith("__"):
            return None
        if _may_be_computed(owner, name) and not self.is_written(f"{owner}.{name}"):
            return None
        if owner.startswith(CLASS) and _MANGLED.match(name):
            return None
        if is_core(owner):
            is_gone = owner in {CORE, FUNCTIONS} and self.source.is_removed(name)
            return None if self.source.is_patched(name) or (self.source.is_compiled(name) and not is_gone) else False
        if (
            owner_names is None
            or owner_names.is_open
            or name in owner_names.possible
            or self.source.is_module(f"{owner}.{name}")
        ):
            return None
        if name.startswith(owner_names.prefixes):
            return None
        # Beside its options, such a module has methods, which no release has as an option.
        if owner_names.is_config and not self.was_there(f"{owner}.{name}"):
            return None
        # What the body does not bind, a star may bring; nothing compiled has the name of a module in Python.
        is_written = self.is_written(f"{owner}.{name}")
        stars = [star for star in owner_names.stars if not (is_written and is_core(star))]
        if owner.startswith(CLASS) and any(map(is_core, stars)) and self.source.is_compiled(name):
            return None  # a method may stay where the function has gone: ``absolute_``
        answers = {self._of_star(star, name) for star in stars}
        if True in answers:
            return True
        return None if None in answers or self.source.is_patched(name) else False

    def _is_only_compiled(self, module: str, name: str) -> bool:
        """Whether no Python code binds a name of a module: if it has it, then from ``torch._C``."""
        names = self.source.module(module)
        if names is None or names.is_open or name in names.there | names.possible or name.startswith(names.prefixes):
            return False
        return all(is_core(star) or self._of_star(star, name) is False for star in names.stars)

    def _of_star(self, star: str, name: str) -> bool | None:
        if star.partition(".")[0] != self.top:
            return None
        if not may_bring(star, name):
            return False
        answer = self.has(star, name)
        # What a star brings of other modules may be limited by __all__.
        return None if answer and (name.startswith("_") or not is_core(star)) else answer


def lacking_part(names: TorchNames, use: str) -> str | None:
    """Return a name up to its first part that is certainly missing, be it a module or not; None if there is none."""
    name = names.first_lacking(use)
    if name is not None and name.rpartition(".")[0] in CLASSES:
        return name
    may_be_module = name is not None and not is_core(name) and names.has_module(name) is not False
    return None if may_be_module else name


def list_prefixes(name: str) -> Iterator[str]:
    """Return a dotted name up to each of its parts, the whole last."""
    return itertools.accumulate(name.split("."), "{}.{}".format)


def _may_be_computed(owner: str, name: str) -> bool:
    """Whether a name may be one that compiled code puts together for a module, or a class."""
    return COMPUTED.fullmatch(name) is not None and (owner in _WITH_TYPES or is_core(owner) or owner.startswith(CLASS))


def is_core(module: str) -> bool:
    """Whether a module is compiled: ``torch._C``, or one in it."""
    return module == CORE or module.startswith(f"{CORE}.")


def may_bring(star: str, name: str) -> bool:
    """Whether a star may bring a name of a module: one with an underscore only if ``__all__`` lists it."""
    if star == _FUNCTIONAL and (name in TYPING_NAMES or name in ADDED_SINCE):  # its __all__ lists functions
        return False
    return not name.startswith("_") or is_core(star) or _LISTING_PRIVATE.fullmatch(star) is not None


def marks_of(names: ModuleNames) -> set[str]:
    """Return what is known of a module as texts, for a table of many releases."""
    # A mark for each fact, so that releases share what they have in common: ``name``, ``name?``, ``*module``,
    # ``name(…``, ``name@module.name`` for what is imported from elsewhere, ``!name``, and one character for each flag.
    marks = {".", *names.there, *(f"{name}?" for name in names.possible), *(f"*{star}" for star in names.stars)}
    marks |= {f"{name}({text}" for name, text in names.signatures.items()} | {f"!{name}" for name in names.deprecated}
    marks |= {f"{name}@{origin}" for name, origin in names.imported.items()}
    flags = {OPEN: names.is_open, "+": names.makes_modules, "/": names.is_package, "=": names.is_config}
    return marks | {mark for mark, is_set in flags.items() if is_set}


def of_marks(marks: frozenset[str]) -> ModuleNames | None:
    """Return what texts of ``marks_of`` say; None if there are none."""
    if not marks:
        return None
    names = ModuleNames(
        is_open=OPEN in marks, makes_modules="+" in marks, is_package="/" in marks, is_config="=" in marks
    )
    for mark in marks - {".", OPEN, "+", "/", "="}:
        name, parenthesis, parameters = mark.partition("(")
        if parenthesis:
            names.signatures[name] = parameters
        elif "@" in mark:
            name, _, names.imported[name] = mark.partition("@")
        elif mark[0] == "*":
            names.stars.add(mark[1:])
        elif mark[0] == "!":
            names.deprecated.add(mark[1:])
        elif mark[-1] == "?":
            names.possible.add(mark[:-1])
        else:
            names.there.add(mark)
    return names
