"""A look at the imports of Python code, shared by all distributions of an environment: does any of them need following?

Most distributions that use torch are Python code alone, installed with what they require. The import of such a one
works if each name that it takes is there, and if nothing on the way loads, registers or raises something. That shows in
the texts of the modules, each of which is looked at once. Whatever leaves a doubt is for the reading of ``check``.
"""

from __future__ import annotations

import ast
import enum
import posixpath
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec.structs
from msgspec import Struct

from abiscan import regular
from abiscan.environments import torch_gates
from abiscan.environments.library_glance import LibraryGlance
from abiscan.inputs import observed_fs
from abiscan.inputs.packages import Distribution
from abiscan.inputs.version import TorchVersion
from abiscan.python.language.dynamic_names import absolute_name
from abiscan.python.language.grammar import FAILURES, find_newer, parse
from abiscan.python.language.nodes import walk
from abiscan.python.language.scan import ImportLine, Outline, is_in_comment
from abiscan.python.package import standard
from abiscan.python.package.installed import Surroundings, is_in
from abiscan.python.package.model import Answer
from abiscan.python.torch_api.torch_names import TorchNames, list_prefixes
from abiscan.python.torch_api.torch_uses import torch_uses
from abiscan.regex import regex
from abiscan.verdict.package_reading import is_apart

_WORDS: Final = (
    *(b"load_library", b"CDLL", b"cdll", b"dlopen", b"PyDLL", b"load_dynamic", b"LibraryLoader", b"FileLoader"),
    *(b"spec_from_file_location", b"custom_op", b"triton_op", b"Library(", b"impl_abstract", b"register_fake"),
    *(b"register_kernel", b"register_autograd", b".define(", b".impl(", b".ops.", b"sys.exit", b"_exit"),
    *(b"cpp_extension", b"import_module", b"__import__"),
)
"""What loads, registers, compiles or ends, and imports by a name that is computed."""
_RAISING: Final = regex(rb"\n[ \t]*(?:raise|assert)\b")
_ACTING: Final = frozenset({
    "load_library", "CDLL", "cdll", "dlopen", "PyDLL", "pydll", "load_dynamic", "LibraryLoader", "ExtensionFileLoader",
    "SourceFileLoader", "spec_from_file_location", "custom_op", "triton_op", "Library", "impl_abstract",
    "register_fake", "register_kernel", "register_autograd", "define", "impl", "ops", "exit", "_exit", "cpp_extension",
})  # fmt: skip
"""The same as names."""
_IMPORTING: Final = frozenset({"import_module", "__import__"})
"""What functions do for names that somebody asks for, and what counts only outside of them."""
_AUTHORS_ERRORS: Final = frozenset(
    {"AssertionError", "AttributeError", "IndexError", "KeyError", "TypeError", "ValueError"}
)
"""What code raises where its authors have made a mistake."""
_MACHINE_NAMES: Final = frozenset({"torch", "sys", "os", "platform", "version", "Version", "parse", "importlib"})
_MAIN: Final = ("__name__", "TYPE_CHECKING")
"""What the condition of a block has that no import runs."""
_FOR_CHECKERS: Final = regex(rb"\n([ \t]*)if (?:\w+\.)?TYPE_CHECKING\b[^\n]*(?:\n(?:\1[ \t]+[^\n]*|[ \t]*(?=\n)))*")
_MAKING_NAMES: Final = (b"__getattr__", b"globals()", b"sys.modules", b".attach")
_COPIES_ATTRIBUTES: Final = regex(rb"\nglobals\(\)\.update\([^\n]*\bgetattr\((\w+)\.")
_LINE_START: Final = regex(rb"\n[ \t]*")
_ALWAYS_RUN: Final = (b"with", b"class")
_NAME: Final = regex(rb"\w+")
_IN_NAMES: Final = frozenset(bytes([one]) for one in range(256) if chr(one).isalnum() or one == ord("_"))
_ASSIGNED: Final = regex(rb"\n([A-Za-z]\w*)[ \t]*(?::[^=\n]+)?=[^=]")
_OF_EACH_MODULE: Final = frozenset({"__doc__", "__file__", "__name__", "__package__", "__spec__"})
_STARS: Final = 5
"""Through how many modules a name is followed that one takes from another with a star."""


class BodyEffect(enum.Enum):
    """What the body of a module may do, besides defining things and importing others."""

    NONE = enum.auto()
    RAISES = enum.auto()
    ACTS = enum.auto()
    """It loads or registers something, or uses a name that torch lacks."""


class _Doubt(Exception):  # noqa: N818 - it ends a look, it is no error
    """Whether an import works cannot be told by a look."""


class _Module(Struct, frozen=True):
    """The source of a module.

    :ivar package: the one that its relative imports start from
    :ivar imports: those outside of functions, without those for type checkers
    """

    name: str
    path: Path
    package: str
    outline: Outline
    imports: tuple[ImportLine, ...]

    @property
    def text(self) -> bytes:
        """The bytes of its file."""
        return self.outline.data


class ImportGlance:
    """What a look tells of the imports in an environment.

    :param users: the distributions whose code uses torch, and is looked at, by their top-level modules
    :param names: what is known of the names of torch
    :param libraries: what is known of the libraries of these distributions
    """

    def __init__(
        self,
        surroundings: Surroundings,
        names: TorchNames | None,
        users: Mapping[str, Distribution],
        libraries: LibraryGlance,
    ) -> None:
        self._surroundings = surroundings
        self._names = names
        self._users = users
        self._libraries = libraries
        self._modules: dict[str, _Module | None] = {}
        self._effects: dict[str, BodyEffect] = {}
        self._definitions: dict[str, dict[bytes, list[str]]] = {}
        self._sound: dict[tuple[str, frozenset[str]], set[str]] = {}
        self._sound_names: dict[tuple[str, str, frozenset[str]], bool] = {}
        self._there: dict[str, bool | Answer] = {}
        self._replaced: dict[str, bool] = {}
        self._making: dict[str, bool] = {}
        self._copied: dict[str, frozenset[str]] = {}
        self._lacking: dict[str, bool] = {}
        version = surroundings.version("torch")
        self._torch = TorchVersion.parse(version) if isinstance(version, str) else None
        self._gates: dict[str, frozenset[str]] = {}
        self._conditions: dict[str, frozenset[str]] = {}

    def settle(self, modules: Sequence[str], failing: Collection[str], *, uses_torch: bool) -> frozenset[str] | None:
        """Return the modules that the import of some modules comes to, perhaps or certainly, if it certainly works.

        :param failing: the modules whose import fails
        :param uses_torch: whether they use torch; what others do besides importing modules is no more certain to the
            reading, as they were imported before they were published
        """
        walk = _Walk(self, failing, {module.partition(".")[0] for module in modules}, uses_torch=uses_torch)
        return walk.list_seen() if self._ends_well(walk, modules, uses_torch=uses_torch) else None

    def is_sound(
        self,
        module: str,
        name: str | None,
        failing: frozenset[str],
        *,
        uses_torch: bool,
        may_fail: Callable[[str], bool] = lambda _: False,
    ) -> bool:
        """Whether the import of a module, or of a name from it, certainly works.

        :param failing: as for ``settles``
        :param uses_torch: whether its package does
        :param may_fail: whether the import of another top-level module may fail that is not among these; the same
            whenever ``failing`` is
        """
        top = module.partition(".")[0]
        sound = self._sound.setdefault((top, failing), set())
        if module not in sound:
            walk = _Walk(self, failing, {top}, uses_torch=uses_torch, done=sound, may_fail=may_fail)
            if self._ends_well(walk, [module], uses_torch=uses_torch):
                sound |= walk.list_own()
        if name is None or module not in sound:
            return module in sound
        key = module, name, failing
        if key not in self._sound_names:
            walk = _Walk(self, failing, {top}, uses_torch=uses_torch, done=sound, may_fail=may_fail)
            self._sound_names[key] = walk.finds(module, name)
        return self._sound_names[key]

    def _ends_well(self, walk: _Walk, modules: Sequence[str], *, uses_torch: bool) -> bool:
        try:
            for module in modules:
                # A folder shared with others, or none of the files that are listed.
                if self.source_of(module) is None and (uses_torch or self.is_there(module) is not True):
                    return False
                walk.enter(module)
            walk.finish()
        except (_Doubt, RecursionError, OSError):  # a listed file may be deleted, or not ours to read
            return False
        return True

    def is_followed(self, top: str) -> bool:
        """Whether a top-level module is looked into: it is Python code alone; what has libraries is not followed."""
        user = self._users.get(top)
        return user is not None and not user.objects and not user.images

    def has_doubtful_libraries(self, top: str) -> bool:
        """Whether a top-level module has libraries, some of which may not load."""
        user = self._users.get(top)
        return user is not None and not self.is_followed(top) and not self._libraries.settles(user)

    def is_standard(self, top: str) -> bool:
        """Whether Python itself brings a top-level module."""
        return standard.has_module(top, self._surroundings.python) is True

    def source_of(self, module: str) -> _Module | None:
        """Return the source of a module; None if it has none."""
        if module not in self._modules:
            path = self._surroundings.source(module)
            self._modules[module] = None if path is None else _read_module(module, path)
        return self._modules[module]

    def is_there(self, module: str) -> bool | Answer:
        """Whether a module is installed, with or without a source."""
        if module not in self._there:
            self._there[module] = self._find(module)
        return self._there[module]

    def _find(self, module: str) -> bool | Answer:
        around, _, name = module.rpartition(".")
        if not around:
            return self.is_standard(name) or self._surroundings.installed(name)
        folder = self._folder_of(around)
        return folder is not None and is_in(folder, name, self._surroundings.python)

    def is_vendored(self, top: str, asking: _Module) -> bool:
        """Whether the package of a module brings a top-level module along, and puts the folder on the search path."""
        package = asking.name.partition(".")[0]
        return (
            not self.is_standard(top)
            and self.is_there(top) is False
            and self.is_there(f"{package}._vendor.{top}") is True
        )

    def _folder_of(self, package: str) -> Path | None:
        """Return the folder of a package, which may have no body; None if there is none."""
        source = self._surroundings.source(package)
        if source is not None:
            return source.parent if source.name == "__init__.py" else None
        around, _, name = package.rpartition(".")
        inside = self._folder_of(around) if around else self._surroundings.place_of(name)
        return inside / name if inside is not None and observed_fs.is_dir(inside / name) else None

    def effect(self, module: _Module) -> BodyEffect:
        """Return what the body of a module may do."""
        if module.name not in self._effects:
            acts = not self._is_valid(module) or _acts(module.outline) or self.lacks_names(module)
            self._effects[module.name] = BodyEffect.ACTS if acts else _find_raised(module.outline)
        return self._effects[module.name]

    def _is_valid(self, module: _Module) -> bool:
        """Whether the Python of the environment accepts the syntax of a module: it does if it has compiled it."""
        python = self._surroundings.python
        if isinstance(python, Answer):
            return False
        path = module.path
        compiled = path.parent / "__pycache__" / f"{path.stem}.cpython-{python[0]}{python[1]}.pyc"
        status = observed_fs.stat_file(path)
        if status is not None:
            head = observed_fs.read_compiled(compiled, 16)
            # As Lib/importlib/_bootstrap_external.py writes it: after magic number and flags, the time and the size of
            # the source.
            if head[4:] == struct.pack("<III", 0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF):
                return True
        try:
            tree = parse(module.text)
        except FAILURES:
            return False
        return find_newer(module.text, python, lambda: tree) is None

    def lacks_names(self, module: _Module) -> bool:
        """Whether a module uses, as it is imported, a name or a parameter that torch lacks."""
        if module.name not in self._lacking:
            self._lacking[module.name] = self._finds_lacking(module)
        return self._lacking[module.name]

    def _finds_lacking(self, module: _Module) -> bool:
        names, outline = self._names, module.outline
        uses = torch_uses(module.text)
        if names is None:
            return bool(uses)
        of_numpy = self._lacking_in_numpy(module, names)
        if not uses and not of_numpy:
            return False
        imported = {full for line in module.imports for full in (line.module, *_imported_names(line))}
        lacking = of_numpy | {use: names.first_lacking(use) or use for use in names.lacking(uses)}
        lacking |= {
            use: around
            for use, around in names.source.in_unloaded(uses).items()
            if not any(_is_in(item, around) for item in imported)
        }
        parts = {part.rpartition(".")[2] for part in lacking.values()}
        if not imported.isdisjoint(lacking) or _names_any(outline, parts):
            return True
        return any(
            names.refuses(use, keywords)
            for name, keywords in outline.keyword_calls(frozenset(use.rpartition(".")[2] for use in uses))
            for use in uses
            if use.rpartition(".")[2] == name
        )

    def _lacking_in_numpy(self, module: _Module, names: TorchNames) -> dict[str, str]:
        """Return the names that a module mentions and that the installed numpy lacks, with the part that is absent."""
        version = self._surroundings.version("numpy") if b"numpy" in module.text else None
        if not isinstance(version, str) or names.companions is None:
            return {}
        uses = torch_uses(module.text, b"numpy")
        return {
            use: known.first_lacking(use) or use
            for known in names.companions().matching("numpy", f"=={version}")
            for use in known.lacking(uses)
        }

    def note_gates(self, module: _Module) -> None:
        """Note what a module has that may say that torch is too old for it."""
        if self._torch is None or module.name in self._gates:
            return
        asks = torch_gates.may_ask_for_newer(module.text, self._torch)
        self._gates[module.name] = torch_gates.find_gates(_parsed(module.outline), self._torch) if asks else frozenset()

    def may_lack_torch(self, modules: Sequence[_Module]) -> bool:
        """Whether one of some modules uses what it imports only if something says that torch is new enough."""
        gates = frozenset[str]().union(*self._gates.values())
        return bool(gates) and any(gates & self._conditions_of(module) for module in modules)

    def _conditions_of(self, module: _Module) -> frozenset[str]:
        if module.name not in self._conditions:
            self._conditions[module.name] = torch_gates.find_conditions(_parsed(module.outline))
        return self._conditions[module.name]

    def breaks(self, module: str) -> bool:
        """Whether a module of torch needs a package that is not there: what ``import torch`` imports does not."""
        return (self._names is None or self._names.is_unloaded(module)) and self._surroundings.absent_for_torch(
            module
        ) is not None

    def may_have_any_name(self, module: _Module) -> bool:
        """Whether a module puts a compiled one in its place, as ``polars._plr`` does: whichever is installed."""
        if module.name not in self._replaced:
            names = _list_replacing(module.outline) if b"sys.modules[__name__]" in module.text else ()
            self._replaced[module.name] = any(
                self.source_of(name) is None and self.is_there(name) is True for name in names
            )
        return self._replaced[module.name]

    def makes_names(self, module: _Module) -> bool:
        """Whether a module may have names that are no words of its text."""
        if module.name not in self._making:
            self._making[module.name] = any(word in module.text for word in _MAKING_NAMES)
        return self._making[module.name]

    def copies_attribute(self, module: _Module, name: str) -> bool:
        """Whether a module takes a name from an object in a module next to it, as ``multiprocessing`` takes the methods
        of its context.
        """
        if module.name not in self._copied:
            match = _COPIES_ATTRIBUTES.search(module.text)
            other = self.source_of(f"{module.package}.{match[1].decode()}") if match else None
            self._copied[module.name] = frozenset(_names_in_classes(other.outline) if other else ())
        return name in self._copied[module.name]

    def list_definitions(self, package: str) -> Mapping[bytes, list[str]]:
        """Return the modules below a package, by the names of the functions and classes in them: a package that makes
        its names when they are asked for takes them from there.
        """
        if package not in self._definitions:
            modules: dict[bytes, list[str]] = {}
            path = self._surroundings.source(package)
            folder = path.parent if path is not None and path.name == "__init__.py" else None
            entries = observed_fs.list_sources(folder) if folder is not None else ()
            for entry in entries:
                if entry.name.endswith(".py"):
                    inside = posixpath.relpath(entry.path, folder).removesuffix(".py").replace("/", ".")
                    module = f"{package}.{inside}".removesuffix(".__init__")
                    with regular.open_regular(entry.path) as stream:
                        for name in _defined_names(stream.read()):
                            modules.setdefault(name, []).append(module)
            if folder is not None:
                observed_fs.observe_sources(folder)
            self._definitions[package] = modules
        return self._definitions[package]


class _Walk:
    """One import: the modules that it has come to.

    :param own: the top-level modules of the distribution
    :param uses_torch: as for ``ImportGlance.settles``
    :param done: the modules that others have come to, where nothing was in doubt
    :param may_fail: as for ``ImportGlance.is_sound``
    """

    def __init__(
        self,
        glance: ImportGlance,
        failing: Collection[str],
        own: Collection[str],
        *,
        uses_torch: bool,
        done: Collection[str] = (),
        may_fail: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._glance = glance
        self._own = own
        self._may_fail = may_fail
        self._uses_torch = uses_torch
        self._failing = frozenset(failing)
        self._may_be_broken = uses_torch or bool(failing)
        """Whether a module that nothing else imports may fail."""
        self._seen: dict[str, bool] = dict.fromkeys(done, False)
        """What it has come to, and whether only perhaps."""
        self._waiting: list[tuple[str, bool]] = []
        self._with_conditions: list[_Module] = []
        """What certainly runs, and imports something under a condition."""

    def list_own(self) -> set[str]:
        """Return the modules of its own that it has certainly come to."""
        return {name for name, perhaps in self._seen.items() if not perhaps and name.partition(".")[0] in self._own}

    def list_seen(self) -> frozenset[str]:
        """Return the modules that it has come to."""
        return frozenset(self._seen)

    def finish(self) -> None:
        """Look at everything that it has come to.

        :raises _Doubt: the import may fail
        """
        while self._waiting:
            name, is_conditional = self._waiting.pop()
            if not self._look_at(name, is_conditional=is_conditional) and not is_conditional:
                raise _Doubt(name)
        if self._glance.may_lack_torch(self._with_conditions):
            raise _Doubt("torch")

    def finds(self, module: str, name: str) -> bool:
        """Whether a name can certainly be taken from a module."""
        try:
            self._take(module, name, is_conditional=False, asking="")
            self.finish()
        except (_Doubt, RecursionError, OSError):
            return False
        return True

    def enter(self, module: str, *, is_conditional: bool = False) -> None:
        """Look at a module, after the packages that it is in, and at what it imports.

        :param is_conditional: whether it is imported under a condition, or with a handler for its absence
        :raises _Doubt: its import may fail
        """
        for name in list_prefixes(module):
            if self._seen.get(name, True) <= is_conditional and name in self._seen:
                continue
            self._seen[name] = is_conditional  # before it is looked at: modules import each other
            top = name.partition(".")[0]
            if name in self._failing or (name == top and top not in self._own and self._may_fail(top)):
                raise _Doubt(name)
            if top == "torch":
                is_doubtful = self._glance.breaks(name)
            elif top in self._own or self._glance.is_followed(top):
                self._waiting.append((name, is_conditional))
                continue
            else:
                # The names in a folder without a body, or in a compiled module, are not known.
                has_source = name == top or self._glance.source_of(name.rpartition(".")[0]) is not None
                is_doubtful = has_source and self._glance.is_there(name) is not True
                # Its own row says what the package itself raises, but not what its parts do.
                is_doubtful = is_doubtful or (name != top and self._glance.has_doubtful_libraries(top))
            if is_doubtful and not is_conditional:
                raise _Doubt(name)

    def _look_at(self, name: str, *, is_conditional: bool) -> bool:
        """Look at a module and what it imports; return whether it is there and raises nothing."""
        source = self._glance.source_of(name)
        if source is None:
            return self._glance.is_there(name) is True
        # Each of the other packages is examined by itself, but not what only others import of it.
        is_own = name.partition(".")[0] in self._own
        effect = self._glance.effect(source) if self._uses_torch and is_own else BodyEffect.NONE
        if effect is BodyEffect.ACTS or (self._uses_torch and not is_own and self._glance.lacks_names(source)):
            raise _Doubt(name)
        self._glance.note_gates(source)
        if not is_conditional and any(line.nested for line in source.imports):
            self._with_conditions.append(source)
        for line in source.imports:
            self._follow(line, source, is_conditional=is_conditional or line.nested)
        return effect is BodyEffect.NONE

    def _follow(self, line: ImportLine, source: _Module, *, is_conditional: bool) -> None:
        try:
            self._import(line, source, is_conditional=is_conditional)
        except _Doubt:
            if _is_import(line, source.outline):  # and not a line of a text that looks like one
                raise

    def _import(self, line: ImportLine, source: _Module, *, is_conditional: bool) -> None:
        base = absolute_name(source.package, line.module)
        if not base:
            raise _Doubt(line.module)
        top = base.partition(".")[0]
        if self._glance.is_vendored(top, source):
            return
        self.enter(base, is_conditional=is_conditional)
        if top == "torch" or self._glance.is_standard(top):  # which names torch has is asked where they are used
            return
        for name in line.names:
            if name != "*":
                self._take(base, name, is_conditional=is_conditional, asking=source.name)

    def _take(self, base: str, name: str, *, is_conditional: bool, asking: str) -> None:
        """Look at a name that is taken from a module: it is there, or a module of its own."""
        submodule = f"{base}.{name}"
        source = self._glance.source_of(base)
        if source is None:
            return  # compiled, or a folder
        bound = name in _OF_EACH_MODULE or (source.name != asking and _has_word(source.text, name))
        if self._glance.is_there(submodule) is True:
            self.enter(submodule, is_conditional=is_conditional)
            return
        # A name that is made when it is asked for may come from a module that fails, or imports one.
        made = self._is_made(source, name, _STARS) if self._may_be_broken or not bound else False
        if not bound and not made and not is_conditional:
            raise _Doubt(submodule)

    def _is_made(self, source: _Module, name: str, depth: int) -> bool:
        """Whether a module has a name that is no word of its text: it takes it with a star, or makes it when asked."""
        for line in source.imports if depth else ():
            if "*" in line.names:
                base = absolute_name(source.package, line.module)
                other = self._glance.source_of(base)
                # A compiled module may have any name.
                if (self._glance.is_there(base) is True) if other is None else _has_word(other.text, name):
                    return True
                if other is not None and self._is_made(other, name, depth - 1):
                    return True
        if not self._glance.makes_names(source):
            return False
        if self._glance.may_have_any_name(source) or self._glance.copies_attribute(source, name):
            return True
        makers = self._glance.list_definitions(source.name).get(name.encode(), ())
        # Which of them it is does not matter as long as none of them can fail.
        for module in makers if self._may_be_broken else ():
            if not is_apart(module):
                self.enter(module)
        return bool(makers)


def _read_module(name: str, path: Path) -> _Module:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    outline = Outline(observed_fs.read_file(path))
    blocks = [
        range(outline.data.count(b"\n", 0, match.start()) + 1, outline.data.count(b"\n", 0, match.end()) + 1)
        for match in (_FOR_CHECKERS.finditer(outline.data) if b"TYPE_CHECKING" in outline.data else ())
    ]
    # In a text that looks like an import, such as a template, words are not all names.
    lines = (line for line in outline.imports if all(map(str.isidentifier, filter("*".__ne__, line.names))))
    imports = [line for line in lines if not any(line.line in block for block in blocks)]
    if any(line.nested for line in imports):
        starts = [match.end() for match in _LINE_START.finditer(outline.data)]
        imports = [_nest(line, outline, starts) for line in imports]
    return _Module(name, path, package, outline, tuple(imports))


def _nest(line: ImportLine, outline: Outline, starts: Sequence[int]) -> ImportLine:
    """Return an import, not as a nested one if only blocks are around it that run in any case."""
    around = outline.around(starts[line.line - 1]) if line.nested else ()
    nested = any(keyword not in _ALWAYS_RUN for keyword, _ in around)
    return msgspec.structs.replace(line, nested=nested)


def _defined_names(text: bytes) -> Iterator[bytes]:
    """Yield the names of functions and classes, and what is assigned, at the left margin."""
    # To split at a text is many times as fast as a pattern.
    for word in (b"\nclass ", b"\ndef "):
        for part in text.split(word)[1:]:
            match = _NAME.match(part)
            if match is not None:
                yield match[0]
    yield from _ASSIGNED.findall(text)


def _imported_names(line: ImportLine) -> Iterator[str]:
    return (f"{line.module}.{name}" for name in line.names)


def _is_in(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def _acts(outline: Outline) -> bool:
    """Whether code outside of functions loads, registers or ends something, or calls a function that does."""
    if not any(word in outline.data for word in _WORDS):
        return False
    imports = any(_is_named(node, _IMPORTING) for node in _nodes_run_at_import(_parsed(outline)))
    return imports or _names_any(outline, _ACTING)


def _find_raised(outline: Outline) -> BodyEffect:
    # Most of it is in functions, which takes no parsing to see.
    raises = any(outline.outside_functions(match.end()) for match in _RAISING.finditer(outline.data))
    return (
        BodyEffect.RAISES
        if raises and any(map(_may_raise, _nodes_run_at_import(_parsed(outline))))
        else BodyEffect.NONE
    )


def _may_raise(node: ast.AST) -> bool:
    """Whether a statement raises for what is installed, or for the machine, and not for a mistake of its authors."""
    if isinstance(node, ast.Assert):
        return any(isinstance(item, ast.Name) and item.id in _MACHINE_NAMES for item in walk(node))
    if not isinstance(node, ast.Raise):
        return False
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return not (isinstance(raised, ast.Name) and raised.id in _AUTHORS_ERRORS)


def _is_import(line: ImportLine, outline: Outline) -> bool:
    """Whether a line is a statement.

    :raises _Doubt: the module cannot be parsed
    """
    nodes = (node for statement in _parsed(outline) for node in walk(statement))
    return any(isinstance(node, ast.Import | ast.ImportFrom) and node.lineno == line.line + 1 for node in nodes)


def _names_any(outline: Outline, names: Collection[str]) -> bool:
    """Whether code outside of functions has one of some names, or that of a function that has."""
    names = [name for name in names if name.encode() in outline.data]
    if not names:
        return False
    tree = _parsed(outline)
    functions = (
        node
        for statement in tree
        for node in walk(statement)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    callers = {function.name for function in functions if any(_is_named(node, names) for node in walk(function))}
    return any(_is_named(node, {*names, *callers}) for node in _nodes_run_at_import(tree))


def _parsed(outline: Outline) -> list[ast.stmt]:
    """Return the statements of a module.

    :raises _Doubt: it cannot be parsed
    """
    try:
        return parse(outline.data).body
    except FAILURES as error:
        raise _Doubt from error


def _nodes_run_at_import(body: Sequence[ast.AST], *, handled: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes outside of functions, without what is raised where somebody handles it."""
    for node in body:
        if isinstance(node, ast.Raise) and handled:
            continue
        if isinstance(node, ast.If) and any(word in ast.dump(node.test) for word in _MAIN):
            yield from _nodes_run_at_import(node.orelse, handled=handled)
            continue
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            defaults = filter(None, (*arguments.defaults, *arguments.kw_defaults))
            # Annotations may be postponed; a doubt more is no wrong answer.
            all_arguments = (*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs)
            annotated = filter(None, (*all_arguments, arguments.kwarg))
            annotations = filter(None, (node.returns, *(argument.annotation for argument in annotated)))
            yield from _nodes_run_at_import([*node.decorator_list, *defaults, *annotations])
        elif not isinstance(node, ast.Lambda):
            # A raise in a handler only repeats that something is missing, which is checked anyway.
            inside = handled or isinstance(node, ast.Try | ast.ExceptHandler)
            yield from _nodes_run_at_import(list(ast.iter_child_nodes(node)), handled=inside)


def _list_replacing(outline: Outline) -> Iterator[str]:
    """Yield the modules that are imported as what a module puts in its place, as it is imported itself.

    :raises _Doubt: it cannot be parsed
    """
    nodes = list(_nodes_run_at_import(_parsed(outline)))
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name in called]
    nodes += (node for function in functions for node in walk(function))
    values = {
        node.value.id
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Name)
        and any(ast.unparse(target) == "sys.modules[__name__]" for target in node.targets)
    }
    for node in nodes:
        for alias in node.names if isinstance(node, ast.Import) else ():
            if alias.asname in values:
                yield alias.name


def _names_in_classes(outline: Outline) -> Iterator[str]:
    """Yield the names of functions and assignments in the classes of a module.

    :raises _Doubt: it cannot be parsed
    """
    classes = (node for node in _nodes_run_at_import(_parsed(outline)) if isinstance(node, ast.ClassDef))
    for node in (inner for one in classes for inner in _nodes_run_at_import(one.body)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (item.id for item in node.targets if isinstance(item, ast.Name))


def _is_named(node: ast.AST, names: Collection[str]) -> bool:
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return False  # numpy.Inf = numpy.inf uses no name that numpy lacks
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
    return name is not None and name in names


def _has_word(text: bytes, name: str) -> bool:
    """Whether a name is a word of a text, and not of comments alone."""
    word = name.encode()
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        is_part = text[start - 1 : start] in _IN_NAMES or text[end : end + 1] in _IN_NAMES
        if not is_part and not is_in_comment(text, start):
            return True
        start = text.find(word, end)
    return False
