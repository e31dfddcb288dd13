"""The Python code of a package: found by module name, scanned and parsed once for all runs."""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain

from msgspec import Struct, field
from msgspec.structs import replace

from abiscan import native
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.files import LARGEST_TEXT
from abiscan.python.language.dynamic_names import absolute_name, names_listed_by, package_of
from abiscan.python.language.grammar import FAILURES, LARGEST_SOURCE, accepts_tree, find_newer, parse
from abiscan.python.language.late_bodies import has_late_parameters, header_of, parse_late
from abiscan.python.language.nodes import walk
from abiscan.python.language.rejections import Newer
from abiscan.python.language.scan import LOADING, REGISTERING, Has, ImportLine, Outline
from abiscan.python.language.source_parts import SourceParts
from abiscan.python.language.targets import Bindings, bindings_of, bound_names, contains, yields
from abiscan.python.package import standard
from abiscan.python.package.acting import ACTING
from abiscan.python.package.added_names import FINDS_MODULES, may_add_in, may_set_in
from abiscan.python.package.call_records import KeptCalls
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer
from abiscan.python.package.other_names import OtherNames
from abiscan.python.package.sources import (
    PackageFiles,
    is_for_users,
    normalized,
    program_part,
    requirements,
    specifier_of,
)
from abiscan.python.torch_api.compiled_names import may_add, names_module
from abiscan.python.torch_api.operator_calls import FAKES, OPERATORS, list_operators
from abiscan.python.torch_api.torch_names import COMPANIONS
from abiscan.python.torch_api.torch_uses import CallText, torch_uses
from abiscan.regex import regex

LARGEST_ALWAYS_RUN = 4_000
"""The bytes of a source whose body is always run."""
_LARGEST_CHECKED = 16_000
"""The bytes of a source that is run whose functions are all parsed, since one that is no Python ends the import."""
_ACTING = frozenset(name.rpartition(".")[2].encode() for name in ACTING) | {b"exit", b"quit"}
_ROUNDS = 3


_NAMED_OTHERWISE = {
    "pillow": "pil", "pyyaml": "yaml", "scikit_learn": "sklearn", "opencv_python": "cv2", "protobuf": "google",
    "python_dateutil": "dateutil", "beautifulsoup4": "bs4", "pytorch_triton": "triton", "cuda_python": "cuda",
    "opencv_python_headless": "cv2", "opencv_contrib_python": "cv2", "scikit_image": "skimage", "grpcio": "grpc",
    "attrs": "attr", "pyzmq": "zmq", "gitpython": "git", "hydra_core": "hydra", "faiss_cpu": "faiss",
    "umap_learn": "umap", "biopython": "bio", "pytorch_ignite": "ignite", "nvidia_ml_py": "pynvml",
    "python_dotenv": "dotenv", "open_clip_torch": "open_clip", "antlr4_python3_runtime": "antlr4",
}  # fmt: skip
"""Distributions whose module has another name."""


class LocatedModule(Struct, frozen=True, kw_only=True):
    """A module of the package: its file, and its folders if it is a package."""

    file: str | None
    folders: tuple[str, ...] = ()
    extension: bool = False


class Import(Struct, frozen=True, kw_only=True):
    """An import outside of functions, with the full names of the module and of all that it imports."""

    line: int
    module: str
    names: tuple[str, ...]
    targets: tuple[str, ...]
    """The module, and those of the names that are submodules."""


_LOAD = "torch.load"
_WORDS_ONLY = bytes(one if one >= 128 or chr(one).isalnum() or one == ord("_") else 32 for one in range(256))
"""Makes blanks of all but words: so split, a source takes a third of the time of a search for its words."""
_DEFINITION = regex(rb"def[ \t]+(\w*)")  # ten times as fast as with \b before it
_FEW_NAMES = 20
_ASSIGNMENT = regex(rb"[ \t]*(?::[^=\n]*)?=(?!=)")
_BINDING_WORD = regex(rb"(?<![\w.])(?:def|class|as)[ \t]+\Z")
_LONGEST_BINDING_WORD = 40  # with the blanks after it: a line of a hostile source can be as long as the source
_PART_OF_NAME = regex(rb"[\w.]")
_CHANGING = frozenset({
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault", "update",
})  # fmt: skip
"""Methods that change lists, dictionaries and sets."""
_LETTER = regex(rb"\w")
_WORDS = regex("|".join(re.escape(word.decode().strip(".(")) for word in (*LOADING, *REGISTERING)))


class _Words(Struct, frozen=True, kw_only=True):
    """What is written in code.

    :ivar names: the attributes, and the last parts of what is imported
    :ivar called: the bare names of functions that it calls
    :ivar imported: the packages that ``import`` statements name
    """

    names: set[str]
    texts: set[str]
    called: set[bytes]
    imported: set[str]


class Assumptions(Struct):
    """What the reading assumes of the surroundings for a while.

    :ivar has_requirements: whether what the package requires is installed, whatever the environment has
    """

    has_requirements: bool = False


class PythonCode(Struct, dict=True):
    """A package's Python code, for one version of Python.

    :param modules: the names that the package is imported by
    :param python: what is known of it decides which files are extension modules, and nothing else here
    """

    files: PackageFiles
    modules: Sequence[str]
    python: tuple[int, int] | Answer
    surroundings: Surroundings = field(default_factory=Surroundings)
    problems: dict[str, str] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    """The sources that cannot be parsed, and what was raised."""
    assumptions: Assumptions = field(default_factory=Assumptions)
    kept_calls: KeptCalls = field(default_factory=KeptCalls)
    """The calls that only compute: what they give depends on no version of Python."""
    _too_new: dict[tuple[str, tuple[int, int]], Newer | None] = field(default_factory=dict)
    _trees: dict[str, ast.Module | None] = field(default_factory=dict)
    _late: set[str] = field(default_factory=set)
    """The sources whose functions are parsed when they are asked for."""
    _outlines: dict[str, Outline] = field(default_factory=dict)
    _parts: dict[str, SourceParts] = field(default_factory=dict)
    _searchers: dict[str, Has] = field(default_factory=dict)
    asking: dict[ast.AST, bool] = field(default_factory=dict)
    """The calls that were looked at for whether they ask for the version of torch: see ``targets``."""
    texts: dict[ast.AST, str] = field(default_factory=dict)
    """The expressions that were named somewhere, as they are written."""
    _eager: dict[str, bool] = field(default_factory=dict)
    _lost_names: dict[str, frozenset[str]] = field(default_factory=dict)
    _naming_lost: dict[str, bool] = field(default_factory=dict)
    _mattering: dict[ast.AST, bool] = field(default_factory=dict)
    _found: dict[tuple[str, tuple[str, ...]], LocatedModule | None] = field(default_factory=dict)
    _located: dict[str, LocatedModule | None] = field(default_factory=dict)
    _imports: dict[tuple[str, str], tuple[tuple[Import, ...], tuple[Import, ...]]] = field(default_factory=dict)
    _rebinding: dict[tuple[str, str], bool] = field(default_factory=dict)
    _mentions: dict[tuple[str, str], bool] = field(default_factory=dict)
    _listed: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    _reaching: dict[str, frozenset[str] | None] = field(default_factory=dict)
    _acting: dict[bytes, bool] = field(default_factory=dict)
    _acting_by_source: dict[str, frozenset[bytes]] = field(default_factory=dict)
    _leaving: dict[ast.AST, bool] = field(default_factory=dict)
    _changing: dict[ast.AST, bool] = field(default_factory=dict)
    _returning: dict[ast.AST, bool] = field(default_factory=dict)
    _ending: dict[ast.AST, bool] = field(default_factory=dict)
    _generators: dict[ast.AST, bool] = field(default_factory=dict)
    _lines: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _only_indexed: dict[tuple[ast.AST, str], bool] = field(default_factory=dict)
    _bindings: dict[ast.AST, Bindings] = field(default_factory=dict)
    _bound_names: dict[ast.AST, set[str]] = field(default_factory=dict)
    _torch_uses: dict[str, frozenset[str]] = field(default_factory=dict)
    _operator_uses: dict[str, tuple[tuple[str, CallText | None], ...]] = field(default_factory=dict)
    _companion_uses: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    _required_versions: dict[str, str | None] = field(default_factory=dict)
    _torch_calls: dict[str, tuple[tuple[str, frozenset[str]], ...]] = field(default_factory=dict)
    _users: dict[tuple[str, ...], frozenset[bytes]] = field(default_factory=dict)
    _users_of_name: dict[str, frozenset[bytes]] = field(default_factory=dict)
    _used_at_import: dict[tuple[str, str], bool] = field(default_factory=dict)
    _using_any: dict[tuple[str, tuple[str, ...]], bool] = field(default_factory=dict)
    _words_in: dict[ast.AST, _Words] = field(default_factory=dict)
    _naming_extension: dict[str, bool] = field(default_factory=dict)
    _having: dict[bytes, list[str]] = field(default_factory=dict)
    """The sources that have a text: several rules look for the same."""
    _naming_module: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Whether extension modules have the names of modules as texts."""
    _may_set: dict[str, bool] = field(default_factory=dict)
    _may_add: dict[tuple[str, str], bool] = field(default_factory=dict)
    _may_import: dict[str, bool] = field(default_factory=dict)
    _postponing: dict[str, bool] = field(default_factory=dict)

    def on(self, python: tuple[int, int] | Answer) -> PythonCode:
        """Return the same code for another version of Python; what follows from the sources alone is shared."""
        if self.files.extensions(python) == self.files.extensions(self.python):
            twin = replace(self, python=python)
            twin.__dict__.update(self.__dict__)
            return twin
        # Which files are modules depends on the version, and with that what an import leads to.
        return replace(
            self,
            python=python,
            _found={},
            _located={},
            _imports={},
            _rebinding={},
            _reaching={},
            _eager={},
            _mattering={},
        )

    # ---- modules by name

    def find(self, name: str, folders: Iterable[str] | None = None) -> LocatedModule | None:
        """Return the module of that name; ``folders`` are those of the package that it is in."""
        key = name.rpartition(".")[2], ("",) if folders is None else tuple(folders)
        if key not in self._found:
            self._found[key] = self._find_module(*key)
        return self._found[key]

    def _find_module(self, last: str, parents: tuple[str, ...]) -> LocatedModule | None:
        # As FileFinder.find_spec (Lib/importlib/_bootstrap_external.py), folder by folder: a package, an extension
        # module, a source. Folders that only have the name make a namespace package, if nothing else is found in any of
        # them.
        spaces = []
        for folder in parents:
            stem = f"{folder}/{last}" if folder else last
            init = f"{stem}/__init__.py"
            if init in self.files.members:
                return LocatedModule(file=init, folders=(stem,))
            extension = self.files.extension(stem, self.python)
            if extension is not None:
                return LocatedModule(file=extension, extension=True)
            if f"{stem}.py" in self.files.members:
                return LocatedModule(file=f"{stem}.py")
            if stem in self.files.folders:
                spaces.append(stem)
        return LocatedModule(file=None, folders=tuple(spaces)) if spaces else None

    def is_own(self, name: str) -> bool:
        """Whether a module of a full name can only be one of the package, whether or not it exists."""
        top = self.find(name.partition(".")[0])
        return self.locate(name) is not None or (top is not None and top.file is not None)

    def locate(self, name: str) -> LocatedModule | None:
        """Return the module of a full dotted name."""
        if name not in self._located:
            self._located[name] = self._locate_module(name)
        return self._located[name]

    def _locate_module(self, name: str) -> LocatedModule | None:
        located: LocatedModule | None = LocatedModule(file=None, folders=("",))
        for part in name.split("."):
            if located is None or not located.folders:
                return None
            located = self.find(part, located.folders)
        return located

    # ---- sources

    def source(self, path: str) -> bytes:
        """Return the bytes of a source file; of one that is too large, only the first ``LARGEST_TEXT`` are read."""
        return self.files.read(path)

    def before(self, path: str, line: int) -> bytes:
        """Return what a source file has before a line."""
        if path not in self._lines:
            lengths = map(len, self.source(path).splitlines(keepends=True))
            self._lines[path] = (0, *accumulate(lengths))
        places = self._lines[path]
        return self.source(path)[: places[min(line, len(places)) - 1]]

    def tree(self, path: str) -> ast.Module | None:
        """Return the parsed source, None if it cannot be parsed (``problems`` says why)."""
        if path not in self._trees:
            # At the top, and where code loads something, a function that is no Python must not go unnoticed.
            is_whole = path.count("/") <= path.endswith("/__init__.py") or self.outline(path).loads
            self._trees[path] = self._parse_source(path, parse if is_whole else parse_late)
            if not is_whole:
                self._late.add(path)
        return self._trees[path]

    def tree_to_run(self, path: str) -> ast.Module | None:
        """Return the same of a source whose body is run: no function of it may be anything but Python, either."""
        # To check a large source for that would take as long as everything else that is done with it.
        if path not in self._trees or path in self._late:
            if len(self.source(path)) > _LARGEST_CHECKED:
                return self.tree(path)
            self._late.discard(path)
            self._trees[path] = self._parse_source(path)
        return self._trees[path]

    def _parse_source(self, path: str, parser: Callable[[bytes], ast.Module] = parse) -> ast.Module | None:
        source = self.source(path)
        if len(source) > LARGEST_SOURCE:
            self.problems[path] = f"has more than {LARGEST_SOURCE:,} bytes, too many to parse"
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return parser(source)
        except FAILURES as error:
            is_deep = isinstance(error, (RecursionError, MemoryError))
            self.problems[path] = "is nested too deeply to be parsed" if is_deep else "cannot be parsed: SyntaxError"
            self.failures[path] = error
            return None

    def too_new(self, path: str, python: tuple[int, int]) -> Newer | None:
        """Return the first thing in a source file that a Python is too old for."""
        tree = None if path in self._late else self._trees.get(path)
        if tree is not None and accepts_tree(python, tree):
            return None
        key = path, python
        if key not in self._too_new:
            source = self.source(path)[:LARGEST_SOURCE]
            self._too_new[key] = find_newer(source, python, functools.partial(self._parse_source, path))
        return self._too_new[key]

    def outline(self, path: str) -> Outline:
        """Return what a look at a source file shows."""
        if path not in self._outlines:
            self._outlines[path] = Outline(self.source(path), self.searcher(path))
        return self._outlines[path]

    def searcher(self, path: str) -> Has:
        """Return what tells whether a text is in a source file."""
        if path not in self._searchers:
            self._searchers[path] = native.searcher(self.source(path))
        return self._searchers[path]

    def parts(self, path: str) -> SourceParts:
        """Return the text of the parts of a source file."""
        if path not in self._parts:
            self._parts[path] = SourceParts(self.source(path))
        return self._parts[path]

    def forget_sources(self) -> None:
        """Let go of the sources; one that is asked for again is read again."""
        self.files.forget()
        for kept in (self._outlines, self._trees, self._late, self._lines, self._parts, self._searchers):
            kept.clear()
        # What is known of a node keeps the tree that it is in.
        for known in (
            *(self.asking, self.texts, self._mattering, self._leaving, self._ending, self._generators),
            *(self._changing, self._returning),
            *(self._only_indexed, self._bindings, self._bound_names),
        ):
            known.clear()

    # ---- what matters

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The source files that its users may import."""
        return tuple(self.files.importable_sources(self.modules))

    def is_for_users(self, file: str) -> bool:
        """Whether users may import or call what is in a source: by its path, or because a source for users imports it,
        as a package may have all of its code in ``tool/predictor.py``.
        """
        return is_for_users(file) or file in self._imported_programs

    @cached_property
    def _imported_programs(self) -> frozenset[str]:
        """The sources that seem to be programs by their paths, and that those for users import."""
        # A source that imports one names its folder, or is in that folder.
        words = {word for word in map(program_part, self.sources) if word}
        naming = {file for word in words for file in self.sources_with(word.encode())}
        waiting, found = sorted(filter(is_for_users, naming)), set[str]()
        for file in waiting:
            outline, package = self.outline(file), package_of(file)
            for line in (*outline.imports, *outline.imports_in_functions):
                for target in self.resolved(line, package).targets:
                    located = self.locate(target)
                    path = located.file if located is not None and not located.extension else None
                    if path is not None and path not in found and program_part(path):
                        found.add(path)
                        waiting.append(path)
        return frozenset(found)

    def sources_with(self, text: bytes) -> list[str]:
        """Return the sources that have a text."""
        if text not in self._having:
            self._having[text] = [path for path in self.sources if self.searcher(path)(text)]
        return self._having[text]

    @cached_property
    def risky(self) -> frozenset[bytes]:
        """The functions of the package, by bare name, that load or register something when they are called."""
        risky_names = {name for path in self.sources for name in self.outline(path).risky if not name.startswith(b"__")}
        # Each round goes one call further out. By bare names, the calls of a large package lead nearly everywhere, so
        # the rounds are few.
        new = frozenset(risky_names)
        for _ in range(_ROUNDS):  # and those that call them
            new = self._callers_of(new) - risky_names
            if not new:
                break
            risky_names |= new
        return frozenset(risky_names)

    def _callers_of(self, names: frozenset[bytes]) -> frozenset[bytes]:
        """Return the functions that call one of these, by bare names."""
        calling = {path for name in names for path in self._calling.get(name, ())}
        return frozenset(caller for path in calling for caller in self.outline(path).callers(names))

    @cached_property
    def _calling(self) -> dict[bytes, list[str]]:
        """The sources that may call a function, by its bare name."""
        calling: dict[bytes, list[str]] = {}
        for path in self.sources:
            for name in self.outline(path).called:
                calling.setdefault(name, []).append(path)
        return calling

    def is_acting(self, name: bytes) -> bool:
        """Whether a function or method of that bare name has one of the words in it, or calls a risky function."""
        if name not in self._acting:
            defining = self._defining.get(name, ())
            self._acting[name] = name in self.risky or any(name in self._acting_in(path) for path in defining)
        return self._acting[name]

    @cached_property
    def _defining(self) -> dict[bytes, list[str]]:
        """The sources that may define such a function, by its bare name."""
        defining: dict[bytes, list[str]] = {}
        for path in self.sources:
            if not self.outline(path).may_act(self.risky):
                continue
            for name in set(_DEFINITION.findall(self.source(path)[:LARGEST_SOURCE])):
                defining.setdefault(name, []).append(path)
        return defining

    def _acting_in(self, path: str) -> frozenset[bytes]:
        if path not in self._acting_by_source:
            self._acting_by_source[path] = self.outline(path).acting(self.risky)
        return self._acting_by_source[path]

    @cached_property
    def required(self) -> frozenset[str]:
        """The distributions that the metadata requires."""
        return requirements(self.files)

    @cached_property
    def _required_names(self) -> frozenset[str]:
        """The same, and the names of their modules."""
        return self.required.union(_NAMED_OTHERWISE.get(name, name) for name in self.required)

    def requires(self, name: str) -> bool:
        """Whether the metadata requires a distribution, by its name or that of its module."""
        return normalized(name) in self._required_names

    def eager(self, path: str) -> bool:
        """Whether the body of a module is always run: it is small, or it may load or register something."""
        if path not in self._eager:
            self._eager[path] = self._is_eager(path)
        return self._eager[path]

    def _is_eager(self, path: str) -> bool:
        # The cheapest checks first. The bodies of top-level modules and packages are always run: what the package does
        # as a whole is decided there.
        outline, is_unread = self.outline(path), len(self.source(path)) >= LARGEST_TEXT
        if outline.eager or is_unread or (path.endswith("/__init__.py") and path.count("/") == 1) or "/" not in path:
            return True
        if any(line.names and self.lacks(line) for line in outline.imports) or self.loads_saved(path):
            return True
        if len(self.source(path)) <= LARGEST_ALWAYS_RUN or outline.calls(self.risky):
            return True
        return outline.calls(frozenset(name for name in outline.called if name in _ACTING or self.is_acting(name)))

    def lost_names(self, path: str) -> frozenset[str]:
        """Return the names in a source that the standard library lost in some versions."""
        if path not in self._lost_names:  # each run asks again
            names = standard.lost_names(self.source(path)) if self._may_name_lost(path) else frozenset[str]()
            self._lost_names[path] = names
        return self._lost_names[path]

    @cached_property
    def with_lost(self) -> tuple[str, ...]:
        """The sources that seem to ask for what the standard library lost in some versions."""
        return tuple(
            path for path in self.sources if standard.may_import_lost(self.source(path)) or self._may_name_lost(path)
        )

    def _may_name_lost(self, path: str) -> bool:
        if path not in self._naming_lost:
            self._naming_lost[path] = standard.may_name_lost(self.source(path))
        return self._naming_lost[path]

    def listed_names(self, path: str) -> tuple[str, ...] | None:
        """Return what ``__all__`` of a source lists; None if it is not the value of a single statement."""
        if path not in self._listed:
            tree = self.tree(path) if self.source(path).count(b"__all__") == 1 else None
            self._listed[path] = None if tree is None else names_listed_by(tree)
        return self._listed[path]

    def loads_saved(self, path: str) -> bool:
        """Whether a source seems to load something that ``torch.save`` has written as it is imported."""
        return self.files.has_saved and _LOAD in self.torch_uses(path) and self.uses_at_import(path, _LOAD)

    def reached(self, located: LocatedModule) -> frozenset[str] | None:
        """Return the files of the modules that importing a module may import, by whatever way; None if the body of one
        of them may do something that matters.
        """
        if located.extension or located.file is None:
            return None if located.extension else frozenset()
        if located.file not in self._reaching:
            self._reaching[located.file] = self._may_reach(located)
        return self._reaching[located.file]

    def _may_reach(self, located: LocatedModule) -> frozenset[str] | None:
        waiting, seen = [located], set[str]()
        while waiting:
            current = waiting.pop()
            if current.extension:
                return None
            if current.file is None or current.file in seen:
                continue
            seen.add(current.file)
            if self.eager(current.file):
                return None
            waiting.extend(self.imported_by(current.file))
        return frozenset(seen)

    def imports(self, file: str, package: str) -> tuple[tuple[Import, ...], tuple[Import, ...]]:
        """Return the imports of a module outside of functions: plain ones, and those in an ``if``, ``try`` or class.

        :param package: the one that relative imports start from
        """
        key = file, package
        if key not in self._imports:
            lines = self.outline(file).imports
            self._imports[key] = (
                tuple(self.resolved(line, package) for line in lines if not line.nested),
                tuple(self.resolved(line, package) for line in lines if line.nested),
            )
        return self._imports[key]

    def resolved(self, line: ImportLine, package: str) -> Import:
        """Return an import with full names; relative ones start from a package."""
        module = absolute_name(package, line.module)
        located = self.locate(module) if line.names else None
        folders = located.folders if located else ()
        inside = [name for name in line.names if self.find(name, folders)] if folders else []
        targets = (module, *(f"{module}.{name}" for name in inside))
        return Import(line=line.line, module=module, names=line.names, targets=targets)

    def mentions(self, file: str, name: str) -> bool:
        """Whether the text of a module has a name."""
        key = file, name
        if key not in self._mentions:
            self._mentions[key] = self.searcher(file)(name.encode())
        return self._mentions[key]

    def may_rebind(self, file: str, package: str, name: str) -> bool:
        """Whether the body of a module may bind a name to anything but the submodule of that name, by its text.

        :param package: the one that relative imports start from, and whose submodule that is
        """
        key = file, name
        if key not in self._rebinding:
            self._rebinding[key] = False  # while it is asked: star imports may go in a circle
            self._rebinding[key] = self._may_rebind(file, package, name)
        return self._rebinding[key]

    def _may_rebind(self, file: str, package: str, name: str) -> bool:
        if _binds(self.source(file), name.encode()):
            return True
        for line in chain.from_iterable(self.imports(file, package)):
            if name in line.names and line.module != package:
                return True
            located = self.locate(line.module) if "*" in line.names else None
            if located is not None and located.file is not None and not located.extension:
                around = line.module if located.folders else line.module.rpartition(".")[0]
                if self.may_rebind(located.file, around, name):
                    return True
        return False

    def imported_by(self, file: str) -> list[LocatedModule]:
        """Return the modules of the package that the body of one imports."""
        targets = (t for lines in self.imports(file, package_of(file)) for line in lines for t in line.targets)
        return [located for located in map(self.locate, targets) if located is not None]

    @cached_property
    def loading_sources(self) -> tuple[str, ...]:
        """The sources whose import may load a library, going by their text."""
        return tuple(filter(self._may_load, self.sources))

    def _may_load(self, path: str) -> bool:
        outline = self.outline(path)
        if outline.loads or outline.calls(self.risky):
            return True
        if not self.names_extension(path):
            return False
        # At the top, it may be found in a folder that the code puts on ``sys.path``.
        at_top = {line.module.encode() for line in outline.imports}
        return not at_top.isdisjoint(self.files.extension_names) or any(
            module.extension for module in self.imported_by(path)
        )

    @cached_property
    def extensions_in_functions(self) -> tuple[tuple[str, str, int], ...]:
        """The sources whose functions import extension modules, each with the module and the line."""
        return tuple(
            (path, extension, line)
            for path in self.sources
            if self.names_extension(path)
            for extension, line in self._extensions_in_functions(path)
        )

    def _extensions_in_functions(self, file: str) -> Iterator[tuple[str, int]]:
        for line in self.outline(file).imports_in_functions:
            targets = self.resolved(line, package_of(file)).targets
            for located in map(self.locate, targets):
                if located is not None and located.extension and located.file and self.imports_at(file, line.line):
                    yield located.file, line.line

    def names_extension(self, path: str) -> bool:
        """Whether a source has the name of an extension module in it."""
        if path not in self._naming_extension:
            names = self.files.extension_names
            if len(names) <= _FEW_NAMES:
                self._naming_extension[path] = any(map(self.searcher(path), names))
            else:
                self._naming_extension[path] = not names.isdisjoint(self.source(path).translate(_WORDS_ONLY).split())
        return self._naming_extension[path]

    def imports_at(self, file: str, line: int) -> bool:
        """Whether there is an import at a line; a docstring may look like one."""
        tree = self.tree(file)
        return tree is None or any(
            isinstance(node, (ast.Import, ast.ImportFrom)) and node.lineno == line for node in walk(tree)
        )

    def lacks(self, line: ImportLine) -> bool:
        """Whether another package that is installed lacks what an import takes from its Python code."""
        return any(self.installed_has(line.module, name) is False for name in line.names)

    def installed_has(self, module: str, name: str | None) -> bool | None:
        """Whether a module of another package is there and has a name; None if that package's source does not tell."""
        return None if self.find(module.partition(".")[0]) is not None else self.surroundings.has(module, name)

    def installed_lacks(self, module: str, name: str | None, *, by_text: bool) -> bool:
        """Whether a module of another package is certainly not there, or lacks a name: see ``Surroundings.lacks``."""
        if by_text:
            return self.installed_has(module, name) is False
        return self.find(module.partition(".")[0]) is None and self.surroundings.lacks(module, name)

    @cached_property
    def other_names(self) -> OtherNames | None:
        """The names of the packages that its sources import; None if it is not known which of them are there."""
        return OtherNames(self) if self.surroundings.has_others else None

    def torch_uses(self, path: str) -> frozenset[str]:
        """Return the names below ``torch`` that a source mentions."""
        if path not in self._torch_uses:
            self._torch_uses[path] = torch_uses(self.source(path), has=self.searcher(path))
        return self._torch_uses[path]

    def operator_uses(self, path: str) -> tuple[tuple[str, CallText | None], ...]:
        """Return the operators that a source mentions: see ``list_operators``."""
        if path not in self._operator_uses:
            names_any = any(use.startswith(OPERATORS) or use in FAKES for use in self.torch_uses(path))
            self._operator_uses[path] = tuple(dict.fromkeys(list_operators(self.source(path)))) if names_any else ()
        return self._operator_uses[path]

    def companion_uses(self, path: str, package: str) -> frozenset[str]:
        """Return the names below another package that a source mentions."""
        if (path, package) not in self._companion_uses:
            # Most sources import few of those that any of them imports.
            others = None if package in COMPANIONS else self.other_names
            is_used = others is None or package in others.tops_in(path)
            has = self.searcher(path)
            uses = torch_uses(self.source(path), package.encode(), has) if is_used else frozenset[str]()
            self._companion_uses[path, package] = uses
        return self._companion_uses[path, package]

    @cached_property
    def companions(self) -> tuple[str, ...]:
        """The packages next to torch that its sources mention, and that it does not bring along."""
        return tuple(
            package for package in COMPANIONS if self.locate(package) is None and self.sources_with(package.encode())
        )

    def uses_emptied(self, path: str) -> bool:
        """Whether a source seems to use, as it is imported, a name of an installed package that is a mere folder."""
        around = self.surroundings
        tops = {line.module.partition(".")[0] for line in self.outline(path).imports} if around.is_final else set()
        return any(
            around.is_missing_part(".".join(use.split(".")[:2])) and self.uses_at_import(path, use)
            for top in sorted(tops)
            if top and self.find(top) is None and around.is_mere_folder(top)
            for use in self.companion_uses(path, top)
            if "." in use
        )

    def required_version(self, name: str) -> str | None:
        """Return what the metadata require of the version of a distribution, whatever the system; None for nothing."""
        if name not in self._required_versions:
            self._required_versions[name] = specifier_of(self.files, name)
        return self._required_versions[name]

    def uses_at_import(self, path: str, name: str) -> bool:
        """Whether a source uses a dotted name below a package of others outside of functions, going by its text."""
        # Only the last part of the name is looked for, since what stands before it may go by another name.
        key = path, name
        if key not in self._used_at_import:
            outline = self.outline(path)
            imported = (
                name in {line.module, *(f"{line.module}.{taken}" for taken in line.names)} for line in outline.imports
            )
            self._used_at_import[key] = any(imported) or outline.mentions([name.rpartition(".")[2].encode()])
        return self._used_at_import[key]

    def torch_calls(self, path: str) -> tuple[tuple[str, frozenset[str]], ...]:
        """Return what may be calls of functions of torch with keywords that run as a source is imported."""
        if path not in self._torch_calls:
            uses: dict[str, list[str]] = {}
            for use in self.torch_uses(path):
                uses.setdefault(use.rpartition(".")[2], []).append(use)
            self._torch_calls[path] = tuple(
                (use, keywords)
                for name, keywords in (self.outline(path).keyword_calls(frozenset(uses)) if uses else ())
                for use in uses[name]
            )
        return self._torch_calls[path]

    @cached_property
    def all_torch_uses(self) -> frozenset[str]:
        """The names below ``torch`` that any source mentions."""
        return frozenset(self._using_torch)

    @cached_property
    def _using_torch(self) -> dict[str, list[str]]:
        """The sources that mention each name below ``torch``."""
        sources: dict[str, list[str]] = {}
        for path in self.sources:
            for name in self.torch_uses(path):
                sources.setdefault(name, []).append(path)
        return sources

    def files_using(self, name: str) -> Sequence[str]:
        """Return the sources that mention a name below ``torch``."""
        return self._using_torch.get(name, ())

    def uses_any_at_import(self, path: str, names: tuple[str, ...]) -> bool:
        """Whether a source uses one of some names below ``torch`` as it is imported, itself or by what it calls."""
        key = path, names
        if key not in self._using_any:
            own = self.torch_uses(path).intersection(names)
            uses = any(self.uses_at_import(path, name) for name in own)
            self._using_any[key] = uses or (bool(names) and self._calls_user(path, names))
        return self._using_any[key]

    def uses_any(self, node: ast.AST, path: str, names: tuple[str, ...]) -> bool:
        """Whether code of a source may use one of some names below ``torch``, itself or by what it calls.

        Not those that a backend brings which the code imports itself: ``torch.mlu`` of ``torch_mlu``.
        """
        if not names:
            return False
        if node not in self._words_in:
            self._words_in[node] = _words_in(node)
        words = self._words_in[node]
        own = frozenset(
            name
            for name in self.torch_uses(path).intersection(names)
            if "_".join(name.split(".")[:2]) not in words.imported
        )
        return (
            not words.names.isdisjoint(name.rpartition(".")[2] for name in own)
            or not words.texts.isdisjoint(own)
            or not words.called.isdisjoint(self._users_of_any(names))
        )

    def _calls_user(self, path: str, names: tuple[str, ...]) -> bool:
        """Whether a source calls, outside of functions, a function that uses one of some names below ``torch``."""
        users = self._users_of_any(names)
        return bool(users) and self.outline(path).calls(users)

    def _users_of_any(self, names: tuple[str, ...]) -> frozenset[bytes]:
        if names not in self._users:
            self._users[names] = frozenset[bytes]().union(*map(self._users_of, names))
        return self._users[names]

    def _users_of(self, name: str) -> frozenset[bytes]:
        """Return the functions that use a name below ``torch``, and those that call them, by their bare names."""
        if name not in self._users_of_name:
            last = name.rpartition(".")[2].encode()
            users = frozenset(
                user for path in self._using_torch.get(name, ()) for user in self.outline(path).users(last)
            )
            self._users_of_name[name] = users | self._callers_of(users)
        return self._users_of_name[name]

    def may_set(self, name: str) -> bool:
        """Whether code of the package may set an attribute of that name on an object of others."""
        if name not in self._may_set:
            paths = self.sources_with(name.encode())
            self._may_set[name] = any(may_set_in(self.source(path), name) for path in paths)
        return self._may_set[name]

    def may_add(self, module: str, name: str) -> bool:
        """Whether code of the package may give a module of others a name or a submodule that its own files lack."""
        if (module, name) not in self._may_add:
            naming = map(self.source, self.sources_with(module.partition(".")[0].encode()))
            self._may_add[module, name] = (
                self.may_make_module(f"{module}.{name}")
                or self._finds_modules
                or any(may_add_in(source, module, name) for source in naming)
            )
        return self._may_add[module, name]

    @cached_property
    def _finds_modules(self) -> bool:
        """Whether a source changes how modules of others are found."""
        paths = [*self.sources_with(b"meta_path."), *self.sources_with(b"path_hooks.")]
        return any(FINDS_MODULES.search(self.source(path)) for path in paths)

    def may_import(self, name: str) -> bool:
        """Whether code of the package may import a module of others: anywhere, or by its name as a text."""
        if name not in self._may_import:
            word = name.rpartition(".")[2].encode()
            self._may_import[name] = any(self._source_may_import(path, name) for path in self.sources_with(word))
        return self._may_import[name]

    def _source_may_import(self, path: str, name: str) -> bool:
        outline = self.outline(path)
        lines = (*outline.imports, *outline.imports_in_functions)
        if any(f"{taken}.".startswith(f"{name}.") for line in lines for taken in _imported_by(line)):
            return True
        return any(map(self.searcher(path), (f'"{name}'.encode(), f"'{name}".encode())))

    @cached_property
    def allows_globals(self) -> bool:
        """Whether code of the package may tell ``torch.load`` which classes to accept."""
        return bool(self.sources_with(b"safe_globals"))

    def may_make_module(self, name: str) -> bool:
        """Whether code of the package may put a module of that name into ``sys.modules``: its last part is a text."""
        written = re.compile(rb"""["'.]%s["']""" % re.escape(name.rpartition(".")[2].encode()))
        return any(written.search(self.source(path)) for path in self.sources_with(b"sys.modules"))

    def may_be_filled(self, module: str, name: str, extensions: Iterable[str]) -> bool:
        """Whether one of some extension modules may give a module in Python a name.

        Files that are larger than any text are not searched.
        """
        return any(self._may_fill(path, module, name) for path in extensions)

    def _may_fill(self, path: str, module: str, name: str) -> bool:
        if self._naming_module.get((path, module)) is False:  # it is asked for each name that the module lacks
            return False
        try:
            library = self.files.sources.read(path)
        except InputError:
            library = b""
        self._naming_module[path, module] = names_module(library, module)
        return may_add(library, module, name)

    def may_set_computed(self, cls: str) -> bool:
        """Whether code of the package may set attributes of a class of torch by names that it computes."""
        word = cls.rpartition(".")[2].encode()
        sets = re.compile(rb"setattr\(\s*(?:\w+\.)*%b\s*,\s*[^'\"\s]" % re.escape(word))
        return any(sets.search(self.source(path)) for path in self.sources_with(word))

    def torch_mentions(self, owner: str, name: str) -> bool | None:
        """Whether the installed torch's source has a name for something of ``torch``; None if it is not at hand."""
        folder = self.surroundings.torch_folder
        if folder is None:
            return None
        parts = owner.split(".")[1:]
        places = ["__init__.py", "_tensor.py", "_C/__init__.pyi", "_C/_VariableFunctions.pyi"]
        places += ["/".join(parts) + ".py", "/".join(parts) + "/__init__.py"]
        word = re.compile(rb"\b" + re.escape(name.encode()) + rb"\b")
        there = [folder / place for place in places if observed_fs.is_file(folder / place)]
        return any(word.search(observed_fs.read_file(place)) for place in there) or observed_fs.path_exists(
            folder / "/".join([*parts, name])
        )

    def matters(self, node: ast.AST) -> bool:
        """Whether running this code may load, register, raise or import something that does, or return."""
        if node not in self._ending:
            self._ending[node] = contains(node, (ast.Raise, ast.Return))
        return self._ending[node] or self.acts(node)

    def acts(self, node: ast.AST) -> bool:
        """Whether running this code may load or register something, or import a module of the package."""
        if node not in self._mattering:
            self._mattering[node] = any(self._acts_directly(inner) for inner in walk(node))
        return self._mattering[node]

    def bindings(self, body: ast.AST) -> Bindings:
        """Return what a function or a module binds to each name."""
        if body not in self._bindings:
            self._bindings[body] = bindings_of(body)
        return self._bindings[body]

    def bound_names(self, node: ast.stmt | ast.expr) -> set[str]:
        """Return the names that a statement or an expression binds or deletes."""
        if node not in self._bound_names:
            self._bound_names[node] = bound_names(node)
        return self._bound_names[node]

    def returns(self, node: ast.AST) -> bool:
        """Whether it has a ``return``."""
        if node not in self._returning:
            self._returning[node] = contains(node, (ast.Return,))
        return self._returning[node]

    def leaves(self, node: ast.AST) -> bool:
        """Whether it has a ``return``, ``break`` or ``continue``."""
        if node not in self._leaving:
            self._leaving[node] = any(isinstance(inner, (ast.Return, ast.Break, ast.Continue)) for inner in walk(node))
        return self._leaving[node]

    def changes_objects(self, node: ast.AST) -> bool:
        """Whether a statement may itself change an object that stays: which of its ways ran, that shows later."""
        if node not in self._changing:
            self._changing[node] = any(_changes_object(inner) for inner in walk(node))
        return self._changing[node]

    def is_only_indexed(self, function: ast.AST, name: str) -> bool:
        """Whether a function does nothing with one of its names but bind it, and take items of what it stands for."""
        key = function, name
        if key not in self._only_indexed:
            # Such a list cannot be changed, and no other code gets it.
            nodes = list(walk(function))
            taken = [
                subscript.value
                for subscript in nodes
                if isinstance(subscript, ast.Subscript) and isinstance(subscript.ctx, ast.Load)
            ]
            uses = [subscript for subscript in nodes if isinstance(subscript, ast.Name) and subscript.id == name]
            self._only_indexed[key] = all(
                isinstance(subscript.ctx, ast.Store) or subscript in taken for subscript in uses
            )
        return self._only_indexed[key]

    def suspends(self, node: ast.stmt) -> bool:
        """Whether a statement in the body of a generator yields."""
        apart = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if node not in self._generators:
            self._generators[node] = not isinstance(node, apart) and yields(node)
        return self._generators[node]

    def attributes_in_annotations(self, node: ast.AST) -> tuple[ast.expr, ...]:
        """Return what the annotations of a statement take of modules and classes, such as ``torch.SymInt``."""
        inside = [inner for annotation in annotations_of(node) for inner in walk(annotation)]
        attributes = [inner for inner in inside if isinstance(inner, ast.Attribute)]
        parts = {attribute.value for attribute in attributes}
        whole = (attribute for attribute in attributes if attribute not in parts)
        return tuple(sorted(whole, key=lambda attribute: (attribute.lineno, attribute.col_offset)))

    def postpones_annotations(self, file: str | None) -> bool:
        """Whether a module has ``from __future__ import annotations``."""
        if file is None:
            return False
        if file not in self._postponing:
            tree = self.tree(file)
            imports = (statement for statement in tree.body if isinstance(statement, ast.ImportFrom)) if tree else ()
            self._postponing[file] = any(
                statement.module == "__future__" and statement.names[0].name == "annotations" for statement in imports
            )
        return self._postponing[file]

    def _acts_directly(self, node: ast.AST) -> bool:
        # By words: it may be true of what does nothing, and must not be false of what does something.
        if isinstance(node, ast.ImportFrom):
            return node.level > 0 or self.find((node.module or "").split(".")[0]) is not None
        if isinstance(node, ast.Import):
            return any(self.find(alias.name.split(".")[0]) is not None for alias in node.names)
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
        return name is not None and (
            name.encode() in self.risky or name in {"define", "impl"} or bool(_WORDS.fullmatch(name))
        )


def _words_in(node: ast.AST) -> _Words:
    """Return what is written in code."""
    names, texts, called, imported = set[str](), set[str](), set[bytes](), set[str]()
    for inner in walk(node):
        if isinstance(inner, ast.Attribute):
            names.add(inner.attr)
        elif isinstance(inner, ast.alias):
            names.add(inner.name.rpartition(".")[2])
        elif isinstance(inner, ast.Constant):  # ``importlib.import_module("torch.nope")``
            if isinstance(inner.value, str):
                texts.add(inner.value)
        elif isinstance(inner, ast.Call):
            name = getattr(inner.func, "id", None) or getattr(inner.func, "attr", None)
            if name is not None:
                called.add(name.encode())
        elif isinstance(inner, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in inner.names)
    return _Words(names=names, texts=texts, called=called, imported=imported)


def _changes_object(node: ast.AST) -> bool:
    """Whether a part of a statement changes a list, a dictionary, a set, or an attribute."""
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING


def annotations_of(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations of a function, or of a variable."""
    if isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        args = node.args
        for parameter in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg):
            if parameter is not None and parameter.annotation is not None:
                yield parameter.annotation
        if node.returns is not None:
            yield node.returns


def names_in_annotations(node: ast.AST, names: set[str]) -> list[ast.Name]:
    """Return where the annotations of a statement have some names."""
    if has_late_parameters(node):
        header = header_of(node)
        if not any(name.encode() in header for name in names):
            return []
    inside = (inner for annotation in annotations_of(node) for inner in walk(annotation))
    return [inner for inner in inside if isinstance(inner, ast.Name) and inner.id in names]


def acting_annotations(node: ast.AST) -> tuple[ast.expr, ...]:
    """Return the annotations of a statement that may run code of the package, in the order of their evaluation."""
    return tuple(filter(_annotation_acts, annotations_of(node)))


def _binds(source: bytes, name: bytes) -> bool:
    """Whether a source seems to bind a name by something other than an import: what is around each place of it."""
    place = source.find(name)
    while place >= 0:
        after = place + len(name)
        before = source[max(place - _LONGEST_BINDING_WORD, 0) : place]
        if _ASSIGNMENT.match(source, after) and not _PART_OF_NAME.match(before[-1:]):
            return True
        if _BINDING_WORD.search(before) and not _LETTER.match(source, after):
            return True
        place = source.find(name, place + 1)
    return False


def _imported_by(line: ImportLine) -> Iterator[str]:
    """Yield the modules that an import may import."""
    yield line.module
    yield from (f"{line.module}.{name}" for name in line.names)


def _annotation_acts(annotation: ast.expr) -> bool:
    """Whether evaluating an annotation calls something."""
    if isinstance(annotation, (ast.Name, ast.Constant, ast.Attribute)):
        return False
    return any(isinstance(inner, (ast.Call, ast.NamedExpr)) for inner in walk(annotation))
