"""What is installed alongside the package, as the files show; nothing of it is imported."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from msgspec import Struct

from abiscan.inputs import observed_fs
from abiscan.python.language.dynamic_names import (
    absolute_name,
    may_bind,
    may_give_words,
    may_have_others,
    may_replace,
    names_listed_by,
    star_imports,
)
from abiscan.python.language.grammar import FAILURES, parse
from abiscan.python.language.scan import FROM
from abiscan.python.package import standard
from abiscan.python.package.added_names import may_add_in
from abiscan.python.package.model import Answer, Raised
from abiscan.python.package.sources import entry_points_in, normalized
from abiscan.python.package.systems import LINUX, WINDOWS
from abiscan.python.package.torch_imports import find_absent
from abiscan.python.torch_api.compiled_names import may_add, may_name, names_module
from abiscan.regex import regex

_MODULES_UNSEEN: Final = regex(rb"sys\.modules|__path__|meta_path|path_hooks")
"""What may make submodules without files."""
_MODULES_MADE: Final = regex(rb"sys\.modules\[[^\]\n]+\]\s*=[^=]|meta_path|path_hooks")
"""What does make them, in a package of torch."""


_LARGEST_MODULE: Final = 50_000_000

_OF_EVERY_MODULE: Final = frozenset(
    {*dir(ModuleType), *vars(ModuleType("")), "__file__", "__cached__", "__builtins__", "__warningregistry__"}
)
"""What no source binds, and every module that is made from a file has, or gets in use."""


def _not_known(_name: str) -> Answer:
    return Answer.UNKNOWN


def _no_error(_module: str, _name: str | None) -> None:
    """Know of no import that fails."""


_REPLACES_ITSELF: Final = regex(rb"\bsys\.modules\[__name__\] *=[^=]")
_DISTRIBUTIONS: Final = {"PIL": "pillow"}
"""The distributions of modules with another name that have the same version."""
_SETS_COMPUTED: Final = regex(rb"\bsetattr\(\s*(?!(?:self|cls)\b|sys\.modules\[__name__\])([^,\n]+),\s*[A-Za-z_]")
_FROM_NEXT: Final = regex(FROM % rb"\.\w+")
"""What is taken from a module in the same folder."""
_ITSELF: Final = regex(rb"(?m)^[ \t]*(\w+) *= *sys\.modules\[__name__\]")
_SETS_FOR_CALLERS: Final = regex(rb"sys\.modules\[[\w.]+\.__module__\]|\b_getframe\(\w*\)\.f_globals")
_DONE_AT_IMPORT: Final = regex(rb"(?m)^(?:[ \t]*@([\w.]+)|(?:    )?([\w.]+)\()")
_DEFINED: Final = regex(rb"(?m)^[ \t]*(?:def|class)\s+(\w+)")
_SETS: Final = regex(rb"(?m)^\s*\w+(?:\.\w+)+ *=[^=]")
_IMPORTS: Final = regex(rb"(?m)^[ \t]*(?:import ([\w.]+)|from (\.*[\w.]*) import([ \w,]*))")
_STEPS_TO_OLD_NAMES: Final = 3
_WORD: Final = regex(rb"\w+")
_OWN: Final = regex(rb"(?m)^from \. import (\w+)")
"""A module that a package imports of its own."""


def _package_at(module: str, source: Path) -> str:
    """Return the package that relative imports of an installed module start from."""
    return module if source.name == "__init__.py" else module.rpartition(".")[0]


def _may_set_on_others(text: bytes) -> bool:
    """Whether a source sets attributes by names that it computes, on something else than its own module."""
    itself = set(_ITSELF.findall(text))
    return any(match[1].strip() not in itself for match in _SETS_COMPUTED.finditer(text))


def _sets_for_callers(text: bytes, caller: bytes) -> bool:
    """Whether a source sets names in the module that calls it, and that module decorates with something of it, or calls
    that in its body or in that of a class.
    """
    if _SETS_FOR_CALLERS.search(text) is None:
        return False
    called = {word for found in _DONE_AT_IMPORT.finditer(caller) for word in (found[1] or found[2]).split(b".")}
    return not called.isdisjoint(_DEFINED.findall(text))


class Surroundings(Struct, frozen=True, kw_only=True, dict=True):
    """What is installed alongside the package.

    :ivar torch_folder: the folder of the installed torch (``…/torch``); None where there is only a release number
    :ivar installed: answers whether a top-level module is there, by its name
    :ivar folders: where Python looks for other modules; empty if those are not what the package will find
    :ivar python: the version of the interpreter
    :ivar system_has: answers whether the system has a library that is loaded by its name alone
    :ivar packages_have: answers whether a package that is installed has a library of that name
    :ivar has_tool: answers whether torch finds a tool that it compiles with: see ``inputs/build_tools``
    :ivar import_error: returns what the import of a module of another installed package raises, or of a name from it;
        None if it certainly works, and unknown if nothing is known to fail
    :ivar is_final: whether installing the package changes nothing of this
    :ivar is_here: whether the package is installed, so that this machine is the one that is asked about
    :ivar changing: the distributions and top-level modules that installing the package may bring or replace, if it
        leaves everything else as it is
    :ivar planned: versions of distributions that are to be installed with it, by their normalized names; None for
        one that will not be there
    """

    torch_folder: Path | None = None
    installed: Callable[[str], bool | Answer] = _not_known
    folders: tuple[Path, ...] = ()
    python: tuple[int, int] | Answer = Answer.UNKNOWN
    system_has: Callable[[str], bool | Answer] = _not_known
    packages_have: Callable[[str], bool | Answer] = _not_known
    has_tool: Callable[[str], bool | Answer] = _not_known
    import_error: Callable[[str, str | None], Raised | Answer | None] = _no_error
    is_final: bool = False
    is_here: bool = False
    changing: frozenset[str] = frozenset()
    planned: tuple[tuple[str, str | None], ...] = ()

    @property
    def has_others(self) -> bool:
        """Whether anything is known of the packages that are, or will be, installed alongside."""
        return bool(self.is_final or self.changing or self.planned)

    @functools.cached_property
    def _known(self) -> dict[tuple[str, str | None], bool | None]:
        """What ``has`` has answered."""
        return {}

    def has(self, module: str, name: str | None) -> bool | None:
        """Whether an installed module is there and has a name; None if its source is not at hand, or says nothing."""
        key = module, name
        if key not in self._known:
            self._known[key] = self._source_has(module, name)
        return self._known[key]

    def lacks(self, module: str, name: str | None) -> bool:
        """Whether an installed module is certainly not there, or lacks a name: by its text or, where that is silent,
        by what its import raises.
        """
        there = self.has(module, name)
        if there is not None:
            return not there
        # To follow a package of this kind (transformers) takes as long as all that a check does.
        if _REPLACES_ITSELF.search(self._text_of(module.partition(".")[0])):
            return False
        raised = self.import_error(module, name)
        return isinstance(raised, Raised) and raised.says_that_it_lacks(module, name)

    def absent_for_torch(self, module: str) -> str | None:
        """Return the module that a module of torch imports and that is not installed; None if none is known to be.

        ``torch.utils.cpp_extension`` needs setuptools, which torch does not require.
        """
        if not self.is_final or not self.folders:
            return None
        if module not in self._absent:
            self._absent[module] = find_absent(module, self.source, self._is_absent)
        return self._absent[module]

    def _is_absent(self, top: str) -> bool:
        """Whether a top-level module is certainly not there."""
        if standard.has_module(top, self.python) is not False or standard.is_of_some(top):
            return False
        return self.installed(top) is False

    @functools.cached_property
    def _absent(self) -> dict[str, str | None]:
        """What ``absent_for_torch`` has answered."""
        return {}

    def version(self, distribution: str) -> str | Answer | None:
        """Return the version of a distribution, None if it is not installed."""
        if distribution not in self._versions:
            self._versions[distribution] = self._find_version(distribution)
        return self._versions[distribution]

    @functools.cached_property
    def _versions(self) -> dict[str, str | Answer | None]:
        """What ``version`` has answered."""
        return {}

    def _find_version(self, distribution: str) -> str | Answer | None:
        for name, version in self.planned:
            if name == normalized(distribution):
                return version
        if not self.folders or any(observed_fs.is_file(folder) for folder in self.folders):
            return Answer.UNKNOWN
        if normalized(distribution) in self.changing:
            return Answer.UNKNOWN
        result = (version_in(observed_fs.list_names(folder), distribution) for folder in self.folders)
        absent = Answer.UNKNOWN if self.changing else None
        return next((version for version in result if version is not None), absent)

    def have_entry_points(self, group: str, own: Collection[tuple[str, str]]) -> bool | Answer:
        """Answer whether anything else that is installed has entry points of a group.

        :param own: those of the package
        """
        if not self.is_final or not self.folders or any(observed_fs.is_file(folder) for folder in self.folders):
            return Answer.UNKNOWN
        found = entry_points_in(self._entry_points, group)
        return found is None or not set(found).issubset(own)

    @functools.cached_property
    def _entry_points(self) -> list[bytes]:
        """The files ``entry_points.txt`` of all that is installed."""
        paths = (
            folder / name / "entry_points.txt"
            for folder in self.folders
            for name in observed_fs.list_names(folder)
            if name.endswith((".dist-info", ".egg-info"))
        )
        return [observed_fs.read_file(path) for path in paths if observed_fs.is_file(path)]

    def module_version(self, module: str) -> str | None:
        """Return ``__version__`` of an installed module: the version of the distribution of its name, where its source
        has the same, or the extension module that its source takes it from; None if that is not so.
        """
        if module not in self._module_versions:
            self._module_versions[module] = self._find_module_version(module)
        return self._module_versions[module]

    @functools.cached_property
    def _module_versions(self) -> dict[str, str | None]:
        """What ``module_version`` has answered."""
        return {}

    def _find_module_version(self, module: str) -> str | None:
        version, source = self.version(_DISTRIBUTIONS.get(module, module)), self.source(module)
        if not isinstance(version, str) or source is None:
            return version if isinstance(version, str) and module in _DISTRIBUTIONS else None
        files = [source]
        if source.name == "__init__.py":
            names = sorted(observed_fs.list_names(source.parent))
            files += [source.parent / name for name in names if "version" in name and name.endswith(".py")]
        quoted = (f'"{version}"'.encode(), f"'{version}'".encode())
        texts = map(observed_fs.read_file, filter(observed_fs.is_file, files))
        if any(text in content for content in texts for text in quoted):
            return version
        compiled = self._extension_with_version(source)
        return version if compiled is not None and version.encode() in (_read_extension(compiled) or b"") else None

    def _extension_with_version(self, source: Path) -> Path | None:
        """Return the extension module next to a source that it takes ``__version__`` from; None if there is none."""
        taken = (match for match in _FROM_NEXT.finditer(observed_fs.read_file(source)) if b"__version__" in match[2])
        names = (match[1].removeprefix(b".").decode() for match in taken)
        return next(filter(None, (self._extension_at(source.parent / name) for name in names)), None)

    def lacks_library(self, name: str) -> bool:
        """Whether nothing of what is installed has a library that the loader does not find: so nobody loads it."""
        return self.is_here and self.packages_have(name) is False

    @functools.cached_property
    def lacks_nvidia_driver(self) -> bool:
        """Whether no GPU of NVIDIA can be used here: the runtime of CUDA loads the driver's library by its name."""
        return self.is_here and self.system_has("libcuda.so.1") is False

    def source(self, module: str) -> Path | None:
        """Return the source file of an installed module; None if there is none."""
        if module not in self._sources:
            base = self._path_of_module(module)
            paths = () if base is None else (base / "__init__.py", base.with_name(base.name + ".py"))
            self._sources[module] = next(filter(observed_fs.is_file, paths), None)
        return self._sources[module]

    @functools.cached_property
    def _sources(self) -> dict[str, Path | None]:
        """What ``source`` has answered: those who follow the imports of a package ask for the same modules again."""
        return {}

    def place_of(self, top: str) -> Path | None:
        """Return the folder that a top-level module of another package is in; None if there is none."""
        base = self._path_of_module(top)
        return None if base is None else base.parent

    def is_mere_folder(self, package: str) -> bool:
        """Whether a top-level package is known to be a mere folder of modules in whatever is installed."""
        if package not in self._mere_folders:
            self._mere_folders[package] = self._has_no_body(package)
        return self._mere_folders[package]

    @functools.cached_property
    def _mere_folders(self) -> dict[str, bool]:
        """What ``is_mere_folder`` has answered."""
        return {}

    def _has_no_body(self, package: str) -> bool:
        if not self.folders or self.changing or any(observed_fs.is_file(folder) for folder in self.folders):
            return False
        return not any(
            observed_fs.is_file(folder / package / "__init__.py") or is_module_in(folder, package, self.python)
            for folder in self.folders
        )

    def is_missing_part(self, module: str) -> bool:
        """Whether a module would be part of a top-level package without a source, and no folder has that part."""
        package, _, part = module.partition(".")
        if not part.isidentifier() or package == "torch" or not self.is_mere_folder(package):
            return False
        # A package that is installed in place may have the part elsewhere.
        names = {name for folder in self.folders for name in observed_fs.list_names(folder)}
        in_place = any(name.startswith("__editable__") for name in names)
        return not in_place and not any(is_in(folder / package, part, self.python) for folder in self.folders)

    def _path_of_module(self, module: str) -> Path | None:
        """Return the path of a module without its suffix, as its top-level package tells it."""
        top, *below = parts = module.split(".")
        if not all(map(str.isidentifier, parts)):  # code can ask for modules by any text
            return None
        if top == "torch":
            return self.torch_folder.joinpath(*below) if self.torch_folder else None
        if standard.has_module(top, self.python) is not False or top in self.changing:
            return None
        if top not in self._tops:
            self._tops[top] = next((folder / top for folder in self.folders if is_in(folder, top, self.python)), None)
        # The first folder that has the top-level package decides, even if it lacks the module: Python looks no further.
        base = self._tops[top]
        return base.joinpath(*below) if base else None

    @functools.cached_property
    def _tops(self) -> dict[str, Path | None]:
        """The paths of the top-level packages that were asked for, without their suffixes."""
        return {}

    def _source_has(self, module: str, name: str | None) -> bool | None:
        # The answer is no only if every file that could provide the name was looked at, and none of them may.
        # Everything less is None.
        base = self._path_of_module(module)
        if base is None or module.startswith("torch._C"):
            return None
        source = self.source(module)
        if source is None:
            there = observed_fs.is_dir(base) or is_in(base.parent, base.name, self.python)
            around = module.rpartition(".")[0]
            if "." in around and self.has(around, None) is False:
                return False
            if self.is_missing_part(module):
                return False
            if name is not None and name.isidentifier() and self._is_compiled_without(base, name):
                return None if self._is_set_around(module, name) else False
            return None if there or not self._has_only_files(module) else False
        if name is None or name == "*" or name in _OF_EVERY_MODULE:
            return True
        if name == "__path__" and source.name == "__init__.py":
            return True
        if name == "__all__" and b"__all__" not in observed_fs.read_file(source):
            return None  # decorators of others add to it: sympy.utilities.decorator.public
        if module == "torch":
            return None  # much of it is compiled
        # The cheapest checks first: the word in the text, a submodule of that name, what may bind names that are not in
        # the text, and last the modules that all names are taken from.
        text = observed_fs.read_file(source)
        named = re.search(rb"\b" + re.escape(name.encode()) + rb"\b", text) is not None
        if named and may_bind(text, name):
            return True
        if (
            not name.isidentifier()
            or observed_fs.is_dir(base / name)
            or (observed_fs.is_dir(base) and is_in(base, name, self.python))
        ):
            return True
        return self._text_has(module, name, source, named=named)

    def mentions(self, module: str, name: str) -> bool:
        """Whether the source of an installed module has a name as a word: what fills it later often lists it."""
        if module not in self._words_of:
            self._words_of[module] = frozenset(_WORD.findall(self._text_of(module)))
        return name.encode() in self._words_of[module]

    @functools.cached_property
    def _words_of(self) -> dict[str, Collection[bytes]]:
        """The words of the sources that ``mentions`` was asked about."""
        return {}

    def keeps_submodule(self, package: str, name: str) -> bool:
        """Whether a name of an installed package can only be its submodule of that name: no function, no class."""
        source = self.source(package)
        if source is None or source.name != "__init__.py" or package.partition(".")[0] == "torch":
            return False
        stars = self._stars_of(package, source)
        setting = re.compile(rb"\.%b\s*=[^=]" % re.escape(name.encode()))
        is_open = stars is None or len(stars) > 0 or any(map(setting.search, self._imported_first(package)))
        return not is_open and not may_replace(observed_fs.read_file(source), name)

    def _text_has(self, module: str, name: str, source: Path, *, named: bool) -> bool | None:
        """Whether a module has a name that no statement of its source binds, and no submodule has.

        :param named: whether the name is a word of the source
        """
        text = observed_fs.read_file(source)
        # Python takes an extension module before a source of the same name.
        base = source.with_suffix("")
        if source.name != "__init__.py" and self._extension_at(base) is not None:
            is_lacking = self._is_compiled_without(base, name) and not self._is_set_around(module, name)
            return False if is_lacking else None
        stars = self._stars_of(module, source)
        if stars is None:
            return True if named else None
        if named and may_give_words(text):
            return True
        # Those that are compiled are asked last, and most names are found before.
        in_python = sorted(stars, key=lambda star: (self.source(star) is None, star))
        is_lacking = all(star != module and self._lacks_for_others(star, name) for star in in_python)
        is_set = not is_lacking or self._is_set_around(module, name) or self._is_set_by_libraries(module, name)
        return None if is_set or self._is_set_by_imported(module, name) else False

    def _is_set_by_imported(self, module: str, name: str) -> bool:
        """Whether another package that a module imports may give it a name, or put another module in its place."""
        own = module.partition(".")[0]
        tops = {imported.partition(".")[0] for imported in self._imports_of(module)} - {own}
        return any(may_add_in(self._text_of(top), module, name) for top in sorted(tops))

    def _is_set_around(self, module: str, name: str) -> bool:
        """Whether a package that a module is in may set an attribute of that name, or what it imports first does:
        ``utils.config = config``, or ``setattr`` in a source with that word.
        """
        word = name.encode()
        around, setting = module.rpartition(".")[0], re.compile(rb"\.%b\s*=[^=]" % re.escape(word))
        whole = re.compile(rb"\b%b\b" % re.escape(word))
        if self._is_given_by_others(module):
            return True
        while around:
            texts = [text for text in self._imported_first(around) if word in text]
            if any((whole if b"setattr(" in text else setting).search(text) for text in texts):
                return True
            around = around.rpartition(".")[0]
        return False

    def _is_set_by_libraries(self, module: str, name: str) -> bool:
        """Whether an extension module of its package may give a module a name. Very large files are not searched: those
        of torch are no modules.
        """
        if module not in self._naming:
            base = self._path_of_module(module.partition(".")[0])
            folders = observed_fs.walk_folder(base) if base is not None and observed_fs.is_dir(base) else ()
            files = (Path(folder, file) for folder, _, files in folders for file in files)
            libraries = (path for path in files if _is_extension(path.name[path.name.find(".") :], self.python))
            self._naming[module] = [path for path in libraries if names_module(_read_extension(path) or b"", module)]
        return any(may_add(_read_extension(path) or b"", module, name) for path in self._naming[module])

    @functools.cached_property
    def _naming(self) -> dict[str, Sequence[Path]]:
        """For each module that was asked for, the extension modules that have its name as a text."""
        return {}

    def _is_given_by_others(self, module: str) -> bool:
        """Whether a package around a module sets attributes by names that it computes, or something that the module
        imports of its own sets them in the module that calls it: a decorator in matplotlib does.
        """
        if module not in self._given_by_others:
            parents = [module[: dot.start()] for dot in re.finditer(r"\.", module)]
            others = [other for other in self._imports_of_own(module) if other != module]
            own = self._text_of(module)
            last = re.escape(module.rpartition(".")[2].encode())
            computed = re.compile(rb"\bsetattr\([^,\n]*\b%b,\s*[A-Za-z_]" % last)
            self._given_by_others[module] = (
                any(_may_set_on_others(self._text_of(parent)) for parent in parents)
                or any(_sets_for_callers(self._text_of(other), own) for other in others)
                or any(computed.search(text) for parent in parents for text in self._imported_first(parent))
            )
        return self._given_by_others[module]

    def _text_of(self, module: str) -> bytes:
        source = self.source(module)
        return b"" if source is None else observed_fs.read_file(source)

    @functools.cached_property
    def _given_by_others(self) -> dict[str, bool]:
        """What ``_is_given_by_others`` has answered."""
        return {}

    def _imported_first(self, package: str) -> Collection[bytes]:
        """Return the sources that set attributes, among that of a package and those that it imports of its own: a few
        steps are enough for what packages keep for old names.
        """
        if package not in self._first_sources:
            seen, new = set[str](), {package}
            for _step in range(_STEPS_TO_OLD_NAMES):
                seen |= new
                new = {name for module in new for name in self._imports_of_own(module)} - seen
            texts = map(self._text_of, sorted(seen))
            self._first_sources[package] = [text for text in texts if b"setattr(" in text or _SETS.search(text)]
        return self._first_sources[package]

    @functools.cached_property
    def _first_sources(self) -> dict[str, Collection[bytes]]:
        """What ``_imported_first`` has answered."""
        return {}

    def _imports_of_own(self, module: str) -> Iterator[str]:
        own = module.partition(".")[0]
        return (imported for imported in self._imports_of(module) if imported.partition(".")[0] == own)

    def _imports_of(self, module: str) -> Iterator[str]:
        """Return what an installed module imports: modules, and names of modules, which may be modules themselves."""
        source = self.source(module)
        if source is None:
            return
        package = _package_at(module, source)
        for found in _IMPORTS.finditer(observed_fs.read_file(source)):
            start = absolute_name(package, (found[1] or found[2]).decode())
            yield start
            yield from (f"{start}.{name.decode()}" for name in re.findall(rb"\w+", found[3] or b""))

    def _lacks_for_others(self, module: str, name: str) -> bool:
        """Whether a star certainly brings no such name of a module: it lacks it, or does not list it."""
        listed = self._listed_by(module)
        if listed is not None:
            return name not in listed
        return self.has(module, name) is False

    def _listed_by(self, module: str) -> Collection[str] | None:
        """Return what the only statement with ``__all__`` in a source lists; None if there is none, or several."""
        if module not in self._listed:
            text = self._text_of(module)
            try:
                self._listed[module] = names_listed_by(parse(text)) if text.count(b"__all__") == 1 else None
            except FAILURES:
                self._listed[module] = None
        return self._listed[module]

    @functools.cached_property
    def _listed(self) -> dict[str, Collection[str] | None]:
        """What ``_listed_by`` has answered: dozens of stars are asked for each name."""
        return {}

    def _stars_of(self, module: str, source: Path) -> Collection[str] | None:
        """Return the modules that a module takes all names from; None if it may have any name.

        What a star brings may come from further stars.
        """
        if module not in self._stars:
            text, package = observed_fs.read_file(source), _package_at(module, source)
            may_have_any = may_have_others(text) or any(
                self._finds_modules(f"{module}.{own[1].decode()}") for own in _OWN.finditer(text)
            )
            try:
                stars = None if may_have_any else {absolute_name(package, star) for star in star_imports(text)}
            except FAILURES:
                stars = None
            self._stars[module] = stars
        return self._stars[module]

    @functools.cached_property
    def _stars(self) -> dict[str, Collection[str] | None]:
        """What ``_stars_of`` has answered."""
        return {}

    def _is_compiled_without(self, base: Path, name: str) -> bool:
        """Whether a module is an extension module that certainly does not have a name.

        :param base: its path without the suffix
        """
        library = None if observed_fs.is_dir(base) else self._extension_at(base)
        if library is None or name in _OF_EVERY_MODULE:
            return False
        content = _read_extension(library)
        return content is not None and not may_name(content, name.encode())

    def _extension_at(self, base: Path) -> Path | None:
        """Return the extension module of a path without its suffix; None if there is none."""
        names = sorted(alias for alias in observed_fs.list_names(base.parent) if alias.startswith(f"{base.name}."))
        found = (alias for alias in names if _is_extension(alias.removeprefix(base.name), self.python))
        return next((base.parent / alias for alias in found), None)

    def _finds_modules(self, module: str) -> bool:
        """Whether a module changes how others are found: it may put another one in the place of its own package."""
        return b"meta_path" in self._text_of(module)

    def _has_only_files(self, module: str) -> bool:
        """Whether the packages that a module is in have no submodules but those that are files."""
        parents = module.split(".")[:-1]
        of_torch = parents[0] == "torch"
        around = [self.source(".".join(parents[:count])) for count in range(1 + of_torch, len(parents) + 1)]
        if of_torch:  # a package without a source has no body that makes any
            return not any(path is not None and _MODULES_MADE.search(observed_fs.read_file(path)) for path in around)
        return all(path is not None and not _MODULES_UNSEEN.search(observed_fs.read_file(path)) for path in around)


def planned_in(versions: Iterable[tuple[str, str | None]]) -> Callable[[str], bool | Answer]:
    """Return a function that answers whether a top-level module will be there: one that its distribution is named
    after.
    """
    there = {name for name, version in versions if version is not None}

    def answer(name: str) -> bool | Answer:
        return True if normalized(name) in there else Answer.UNKNOWN

    return answer


def version_in(names: Iterable[str], distribution: str) -> str | None:
    """Return the version of a distribution, by the names in the folder that it is installed in."""
    # PEP 503: names are compared without case, and with runs of ``-``, ``_`` and ``.`` as one character.
    wanted = normalized(distribution)
    for name in names:
        stem, _, kind = name.rpartition(".")
        project, _, version = stem.partition("-")
        if kind in {"dist-info", "egg-info"} and normalized(project) == wanted:
            return version.partition("-")[0]
    return None


def list_stems(folder: Path) -> frozenset[str]:
    """Return the names in a folder up to their first dots: Python finds no module there with another name."""
    return frozenset(name.partition(".")[0] for name in observed_fs.list_names(folder))


def is_in(folder: Path, name: str, python: tuple[int, int] | Answer) -> bool:
    """Whether Python finds a module or a package of that name in a folder."""
    return observed_fs.is_dir(folder / name) or is_module_in(folder, name, python)


def is_module_in(folder: Path, name: str, python: tuple[int, int] | Answer) -> bool:
    """Whether Python finds a module of that name in a folder, and no package."""
    if observed_fs.is_file(folder / f"{name}.py"):
        return True
    files = (alias.removeprefix(name) for alias in observed_fs.list_names(folder) if alias.startswith(f"{name}."))
    # What is compiled is a module without its source, too: SourcelessFileLoader in importlib/_bootstrap_external.py.
    return any(suffix == ".pyc" or _is_extension(suffix, python) for suffix in files)


def _is_extension(suffix: str, python: tuple[int, int] | Answer) -> bool:
    """Whether a Python imports extension modules whose names end in this, on the system that it runs on."""
    return any(suffix in system.suffixes or system.accepts_tag(suffix, python) for system in (LINUX, WINDOWS))


def _read_extension(path: Path) -> bytes | None:
    """Return the bytes of an extension module; None if it cannot be read, or is too large to be searched."""
    status = observed_fs.stat_file(path)
    if status is None or status.st_size > _LARGEST_MODULE:
        return None
    try:
        return observed_fs.read_file(path)
    except OSError:
        return None


def installed_in(
    folders: tuple[Path, ...], python: tuple[int, int] | Answer = Answer.UNKNOWN
) -> Callable[[str], bool | Answer]:
    """Return a function that answers whether a top-level module is installed for a version of Python."""
    stems_in = functools.cache(list_stems)  # folders of hundreds of packages, for dozens of modules

    def answer(name: str) -> bool | Answer:
        if not name.isidentifier():
            return Answer.UNKNOWN
        if any(name in stems_in(folder) and is_in(folder, name, python) for folder in folders):
            return True
        if any(observed_fs.is_file(folder) for folder in folders):  # an archive
            return Answer.UNKNOWN
        # A package that is installed in place may be found by code of its own.
        finders = (
            folder / alias
            for folder in folders
            for alias in observed_fs.list_names(folder)
            if alias.startswith("__editable__")
        )
        return (
            Answer.UNKNOWN
            if any(name.encode() in observed_fs.read_file(path) for path in finders if observed_fs.is_file(path))
            else False
        )

    return answer
