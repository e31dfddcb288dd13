"""Imports: of the package's own modules, of what is modelled, and of everything else."""

from __future__ import annotations

import ast
import functools
import itertools
import logging
import posixpath
from collections.abc import Iterable
from typing import Final, NoReturn

from msgspec.structs import replace

from abiscan.inputs import observed_fs
from abiscan.python.interpreter import attributes, loading
from abiscan.python.interpreter.calls import Calls, syntax_error
from abiscan.python.interpreter.compiling import STATEMENTS
from abiscan.python.interpreter.filesystem import as_text
from abiscan.python.interpreter.machine import (
    Choices,
    Frame,
    Limits,
    ProcessEnded,
    Unreadable,
)
from abiscan.python.interpreter.modelled import Modelled
from abiscan.python.interpreter.models import MODELS, companions, recipes, torch_module
from abiscan.python.interpreter.models.builtin import BUILTINS
from abiscan.python.interpreter.questions import Ask, AskedWorld
from abiscan.python.interpreter.statements import by_method
from abiscan.python.interpreter.values import (
    ABSENT,
    Deferred,
    Instance,
    NotKnown,
    OpenVersion,
    OptionalModule,
    PythonError,
    PythonModule,
    Scope,
    Stage,
    TargetExpression,
    Thrown,
    Why,
    thrown,
)
from abiscan.python.language.dynamic_names import absolute_name
from abiscan.python.language.grammar import NEWEST, words_of, words_of_newer
from abiscan.python.language.scan import is_in_comment
from abiscan.python.package import standard
from abiscan.python.package.added_names import may_set_in
from abiscan.python.package.library import Import, LocatedModule, PythonCode
from abiscan.python.package.model import PROCESS_ENDS, Answer, Raised, World
from abiscan.python.package.torch_imports import comes_with_torch, is_of_torch
from abiscan.regex import regex

_log = logging.getLogger("abiscan.python")
_SEARCH: Final = regex(
    rb"(?<!\bin )\bsys\.path\b|\bsys\.path\.(?:append|clear|extend|insert|pop|remove|reverse|sort|__)"
    rb"|\bmeta_path\b|\bpath_hooks\b|\baddsitedir\b"
)
"""What may change where modules are looked for; ``in sys.path`` only goes through it."""
_MOST_HITS: Final = 20


class PythonInterpreter(Calls):
    """Runs a package's Python code."""

    def __init__(self, library: PythonCode, world: AskedWorld, choices: Choices, limits: Limits) -> None:
        super().__init__(library, world, choices, limits)
        self.builtins = dict(BUILTINS)
        self.models = MODELS
        self.whole_names: set[str] = set()
        """The modules that are there, and all that they are in."""
        self._called: set[str] = set()
        """The modules of others whose functions have been called."""
        self._using_missing: dict[tuple[str, ast.AST], bool] = {}
        """Whether modules use a name that this torch does not have."""
        self.frames.append(Frame(file=None))

    # ---- modules by name

    def import_module(self, name: str) -> object:
        """Import a module, after the packages that it is in; return it."""
        if name in self.whole_names:
            return self.modules[name]
        if len(self.frames) == 1:
            self.asked_for = name
        # As _find_and_load_unlocked (Lib/importlib/_bootstrap.py): each package before what is in it, and a module
        # becomes a name of its package only once its body has run.
        parent: object = None
        full = ""
        for part in name.split("."):
            full = f"{full}.{part}" if full else part
            if full not in self.modules:
                self.modules[full] = self._load_module(full, parent)
                if self.is_speculative:
                    self.speculative_imports.add(full)
                if isinstance(parent, PythonModule):
                    parent.names[part] = self.modules[full]
                elif isinstance(parent, Instance):
                    parent.attributes[part] = self.modules[full]
            elif not self.is_speculative:
                self.speculative_imports.discard(full)
            parent = self.modules[full]
            # Code forbids an import by ``sys.modules[name] = None``.
            if parent is None:
                self.whole_names.clear()
                text = f"import of {full} halted; None in sys.modules"
                raise Thrown(PythonError(ModuleNotFoundError, (text,), {"name": full}))
        if not self.is_speculative:
            self.whole_names.add(name)
        return parent

    def import_name(self, module: str, name: str | None) -> None:
        """Import a module, or a name from it, as code outside of the package does."""
        value = self.import_module(module)
        if name is not None:
            self._take_name(value, module, name)

    def _load_module(self, full: str, parent: object) -> object:
        if self.finders and self._is_found(full, parent):
            return NotKnown(full)
        # A model stands for a module of torch, of Python or of some other package. The latter must be installed, and
        # one that the package brings itself goes before it.
        top = full.partition(".")[0]
        is_foreign = top != "torch" and full in MODELS and self.brings(top) is False
        # The package may bring a module of that name itself.
        if full in MODELS and not (is_foreign and self.library.locate(top) is not None):
            if is_foreign:
                self._installed_module(top)
            return MODELS[full](self)
        # Below a package of its own, only that one's folders are searched.
        if isinstance(parent, PythonModule):
            located = self.library.find(full, parent.folders)
            if located is None and not self._is_foreign(parent):
                hint = "" if parent.folders else f"; '{parent.name}' is not a package"
                raise Thrown(PythonError(ModuleNotFoundError, (f"No module named '{full}'{hint}",), {"name": full}))
            return NotKnown(full) if located is None else self._load_located(full, located)
        # An object in the place of a package: where it looks for modules is in its ``__path__``.
        if isinstance(parent, Instance):
            return self._load_below(full, parent)
        # Below a package of others, this one may bring modules, too, as parts of a namespace package do.
        if isinstance(parent, (Modelled, NotKnown)):
            own = self.library.locate(full)
            if own is not None:
                return self._load_located(full, own)
            return self._foreign_module(full, parent)
        # At the top, the folders of ``sys.path`` count that are in the package. One that is not known may have any
        # module.
        folders = [self._folder_on_path(place) for place in (*self.search_path, self.files.system.root)]
        located = self.library.find(full, [folder for folder in folders if folder is not None])
        if located is not None:
            return self._load_located(full, located)
        if None in folders:
            return NotKnown(full)
        if any(
            self.files.extension(posixpath.join(folder, full), Answer.UNKNOWN)
            for folder in folders
            if folder is not None
        ):
            raise _absent_module(full)  # the package brings it for another Python
        return self._installed_module(full)

    def _is_found(self, full: str, parent: object) -> bool:
        """Whether a finder that the code has put before Python's own may have a module."""
        from abiscan.python.interpreter.models import meta_path  # few packages have one

        top = full.partition(".")[0]
        is_own = self.library.is_own(top)
        # Python and torch have imported nearly all of theirs by then.
        if not is_own and (top == "torch" or self.brings(top) is not False):
            return False
        return meta_path.is_found(self, full, parent, is_own=is_own)

    def _load_below(self, full: str, parent: Instance) -> object:
        own = self.library.locate(full)
        if own is not None:
            return self._load_located(full, own)
        if self._is_nowhere(full, parent):
            raise _absent_module(full)
        return NotKnown(full)

    def _is_nowhere(self, full: str, parent: Instance) -> bool:
        """Whether no finder has a module in an object that stands in the place of a package of this code."""
        around = full.rpartition(".")[0]
        places = parent.attributes.get("__path__")
        folders = [self._folder_on_path(place) for place in places] if isinstance(places, list) else [None]
        if set(folders) != {around.replace(".", "/")}:
            return False
        from abiscan.python.interpreter.models import meta_path  # few packages have one

        return not meta_path.may_be_found_last(self, full, parent)

    def _folder_on_path(self, place: object) -> str | None:
        """Return the folder of the package that an entry of ``sys.path`` names; None for another, or an unknown one."""
        text = as_text(place)
        folder = None if text is None else self.files.inside(text)
        top = (folder or "").partition("/")[0]
        # In the folder of another package there may be modules: setuptools brings what pkg_resources imports.
        is_of_other = bool(top) and self.library.find(top) is None
        return None if is_of_other and self.library.surroundings.installed(top) is not False else folder

    def _is_foreign(self, package: PythonModule) -> bool:
        """Whether other distributions may have modules in a package of this one, too."""
        # In a namespace package, they may. A package with a body of its own is searched in its own folder, unless that
        # body changes its ``__path__``.
        top = self.library.find(package.name.partition(".")[0])
        is_space = package.file is None or b"__path__" in self.library.source(package.file)
        return is_space and top is not None and top.file is None

    def _load_located(self, full: str, located: LocatedModule) -> object:
        if located.extension and located.file is not None:
            loading.load_extension(self, located.file)
            self.extensions[full] = located.file
            return NotKnown(full)
        module = PythonModule(full, {}, located.file, located.folders)
        if located.file is None:
            # A namespace package may have modules of other distributions, unless it is known that none is installed.
            module.open_ = "." in full or not self.library.surroundings.is_mere_folder(full)
            return module
        # As _load_unlocked (Lib/importlib/_bootstrap.py): it is in ``sys.modules`` before its body runs, for imports
        # that come back to it in a circle, and is taken out if the body raises.
        self.modules[full] = module
        self.trace.imported.append(located.file)
        self.trace.unfinished.add(located.file)
        _log.debug("enters %s, %s", full, located.file)
        try:
            # Of a body that is not run now, only the imports are followed; it is run once one of its names is used.
            if self._matters(located.file) or self._runs_large() or not self._skim_imports(module, located.file):
                self.run_body(module)
        except Thrown:
            self.modules.pop(full, None)
            self.whole_names.clear()
            raise
        self.trace.unfinished.discard(located.file)
        # What the body has put into ``sys.modules`` in its own place is what the import gives (_load_unlocked).
        return self.modules.get(full, module)

    def _matters(self, file: str) -> bool:
        """Whether the body of a module is small, or may do something that matters."""
        return self.library.eager(file) or self._is_too_old(file) or self.misses_names(file)

    def _is_too_old(self, file: str) -> bool:
        """Whether the interpreter cannot parse a source."""
        ask = functools.partial(_is_too_old, self.library, (file,))
        return self.world.tells(f"whether it is too old for {file}", ask) is True

    def _reaches(self, located: LocatedModule) -> bool:
        """Whether importing a module may import, by whatever way, one whose body may do something that matters."""
        files = self.library.reached(located)
        ask = functools.partial(_is_too_old, self.library, files or ())
        return files is None or self.world.tells(f"whether it is too old for what {located.file} imports", ask) is True

    def _runs_large(self) -> bool:
        """Whether a body is run that could be passed over."""
        if not self.most_steps_with_large_bodies or self.steps >= self.large_bodies_until:
            return False
        self.trace.passed_over = True
        self.most_steps = min(self.most_steps, self.most_steps_with_large_bodies)
        return True

    def misses_names(self, file: str) -> bool:
        """Whether a module uses, as it is imported, a name that this torch does not have: its body then matters."""
        if file not in self.missing_in:
            # The names do not matter: if only functions use them, the import is the same without them.
            library = self.library
            self.missing_in[file] = bool(library.all_torch_uses) and bool(
                self.world.tells(
                    f"whether it lacks a name of torch that {file} uses outside of functions",
                    lambda world: world.torch_names is not None and world.torch_names.misses(library, file),
                )
            )
            self.missing_in[file] |= companions.misses(self, file) or library.uses_emptied(file)
            self.missing_in[file] |= library.other_names is not None and library.other_names.misses(file)
            lost = sorted(library.lost_names(file))
            self.missing_in[file] |= any(self.since(*standard.REMOVED_NAMES[name]) for name in lost)
        return self.missing_in[file]

    def uses_missing(self, node: ast.stmt | ast.expr) -> bool:
        """Whether running this code may use a name that this torch does not have."""
        file, library = self.place().file, self.library
        if file is None or not library.all_torch_uses:
            return False
        self.world.times_asked += 1
        answer = self._using_missing.get((file, node))
        if answer is None:
            answer = self._using_missing[file, node] = self._asks_for_missing(node, file)
        return answer

    def _asks_for_missing(self, node: ast.stmt | ast.expr, file: str) -> bool:
        library = self.library
        # The names do not matter here, either: other torches lack other ones.
        where = f"{file}:{node.lineno}:{node.col_offset} to {node.end_lineno}:{node.end_col_offset}"
        return bool(
            self.world.tells(
                f"whether it lacks a name of torch that {where} uses",
                lambda world: (
                    world.torch_names is not None and library.uses_any(node, file, world.torch_names.missing(library))
                ),
            )
        )

    def forget_names(self) -> None:
        """Note that ``sys.modules`` has changed."""
        self.whole_names.clear()

    def run_body(self, module: PythonModule) -> None:
        """Run the body of a module."""
        assert module.file is not None
        # Whether the functions are Python, too, is not asked of a body that is run only to see what it does.
        tree = self.library.tree_to_run(module.file) if self._matters(module.file) else self.library.tree(module.file)
        module.stage = Stage.RUNNING
        scope = Scope(module.names, module)
        self.frames.append(Frame(file=module.file, line=1, scope=scope))
        try:
            if tree is None:
                self._raise_rejection(module.file)
                self._refuse_file(self.library.problems[module.file])
            self._raise_if_too_new(module.file)
            self.execute_whole(tree.body, scope)
        except Thrown as error:
            error.failure.at = error.failure.at or self.place()
            raise
        except RecursionError as error:
            self._refuse_file("is nested too deeply to be followed", error)
        finally:
            self.frames.pop()
        module.stage = Stage.DONE

    def _raise_rejection(self, file: str) -> None:
        """Raise what the target's Python raises for a file that none can parse, if its grammar is known."""
        error = self.library.failures.get(file)
        # A source that is too deeply nested for this Python may not be for another one. Python 3.6 accepts ``async`` as
        # a name.
        if not isinstance(error, (SyntaxError, ValueError)):
            return
        python = self.world.python
        if isinstance(python, Answer) or not (3, 6) < python <= NEWEST:
            return
        source = self.library.source(file)
        if b"\0" in source:  # one error or the other: gh-96670, which is in the last releases of 3.11, too
            raise thrown(
                SyntaxError if python >= (3, 11) else ValueError, "source code string cannot contain null bytes"
            )
        raise syntax_error(words_of(error, source, file, python), type(error))

    def _raise_if_too_new(self, file: str) -> None:
        """Raise what the target's Python raises for a file that only newer ones can parse."""
        if self._is_too_old(file):
            python = self.world.python
            if isinstance(python, Answer) or (newer := self.library.too_new(file, python)) is None:
                raise syntax_error(None)
            raise syntax_error(words_of_newer(newer, file, python))

    def _refuse_file(self, problem: str, error: BaseException | None = None) -> NoReturn:
        """End the run at a file that cannot be followed: what it does is not known."""
        self.gap(problem)
        raise Unreadable(problem) from error

    # ---- modules whose body does nothing that matters

    def _skim_imports(self, module: PythonModule, file: str) -> bool:
        """Follow only the imports of a module; False if that is not enough."""
        lines, nested = self.library.imports(file, self._package_of(module))
        # Whether an import inside of an ``if`` or a ``try`` runs is up to the body.
        if any(map(self._may_matter, nested)):
            return False
        module.stage = Stage.SKIMMED
        frame = Frame(file=file)
        self.frames.append(frame)
        try:
            for line in lines:
                frame.line = line.line
                try:
                    self._skim_line(line)
                except Thrown:
                    # The imports were found by their text: what stands in a docstring raises nothing.
                    if self.library.imports_at(file, line.line):
                        raise
        except Thrown as error:
            error.failure.at = error.failure.at or self.place()
            raise
        finally:
            self.frames.pop()
        module.stage, self.trace.passed_over = Stage.DEFERRED, True
        return True

    def _skim_line(self, line: Import) -> None:
        for target in line.targets:
            self.import_module(target)
        base, of_torch = self.modules.get(line.module), is_of_torch(line.module)
        for name in line.names:
            if isinstance(base, PythonModule) and (
                base.stage is Stage.SKIMMED or self._is_passed_over(f"{line.module}.{name}")
            ):
                self._take_own(base, name)
            elif of_torch:
                self._raise_if_broken(f"{line.module}.{name}")
            elif base is not None and not isinstance(base, PythonModule):
                self._raise_if_broken(line.module, name)

    def _check_defined(self, module: PythonModule, name: str) -> None:
        """Raise if a module that is imported in a circle has not yet come to a name that is taken from it."""
        # The module is at the line of the import that led here: only the text before it can have bound the name.
        file = module.file
        line = next((frame.line for frame in reversed(self.frames) if frame.file == file), None)
        if file is None or line is None:
            return
        before = self.library.before(file, line)
        may_have = name == "*" or name.encode() in before or b"import *" in before or b"globals()" in before
        if not may_have:
            raise Thrown(
                PythonError(ImportError, (f"cannot import name '{name}' from {self._describe_module(module)}",))
            )

    def _package_of(self, module: PythonModule) -> str:
        """Return the package that relative imports of a module start from."""
        return module.name if module.folders else module.name.rpartition(".")[0]

    def _may_matter(self, line: Import) -> bool:
        for target in line.targets:
            located = self.library.locate(target)
            if located is not None and target not in self.modules and self._reaches(located):
                return True
            if located is None and self._error_of_other(target) is not None:
                return True
            if located is None and companions.lacks_module(self, target):
                return True
            if self._is_passed_over(target):
                return True
        return False

    def _is_passed_over(self, module: str) -> bool:
        """Whether a package has an extension module of this name, but only for another Python."""
        parent, _, name = module.rpartition(".")
        package = self.library.locate(parent) if parent and self.library.locate(module) is None else None
        files = (file for folder in package.folders for file in self.files.folders.get(folder, ())) if package else ()
        return any(file.startswith(f"{name}.") and file.endswith((".so", ".pyd")) for file in files)

    def settle(self, value: object) -> object:
        """Return the value itself, where a name of a module that is not run yet stands for it."""
        kind = type(value)
        if kind is not Deferred and kind is not TargetExpression:
            return value
        if isinstance(value, TargetExpression):
            answer = self.world.tells(value.name, value.of if value.versions is None else _agreed_for(value))
            if type(answer) is NotKnown and value.versions is not None:
                return OpenVersion(answer.name, answer.why, expression=value)
            return list(answer) if isinstance(answer, list) else answer
        assert isinstance(value, Deferred)
        self.catch_up(value.module)
        try:
            return attributes.of_module(self, value.module, value.name)
        except Thrown:
            return NotKnown(f"{value.module.name}.{value.name}")

    def catch_up(self, module: PythonModule) -> None:
        """Run the body of a module that was deferred: one of its names is needed."""
        if module.stage is Stage.DEFERRED:
            try:
                self.run_body(module)
            except Thrown as error:
                # The importing code has continued since, so the exception comes too late to end the import.
                self.gap(f"{module.name} raises {error.failure.name()} when it is needed")
                module.stage, module.open_ = Stage.DONE, True

    # ---- functions of torch

    def _call_unknown(self, function: NotKnown, args: list[object], kwargs: dict[str, object]) -> object:
        torch_module.refuse_arguments(self, function.name, args, kwargs)
        self._called.add(function.name.rpartition(".")[0])
        return super()._call_unknown(function, args, kwargs)

    # ---- modules of others

    def _foreign_module(self, full: str, parent: object) -> object:
        """Return a submodule of a module of another package."""
        if is_of_torch(full):
            self._raise_if_broken(full)
        absent = companions.absent_module(self, full)
        if absent is not None:
            raise absent
        # What the table of the target's names leaves open, the files of an installed torch may decide.
        if full.startswith("torch.") and torch_module.knows_names(self):
            module = torch_module.import_torch_module(self, full)
            if isinstance(module, torch_module.TorchModule) or torch_module.surely_binds(self, full):
                return module
            if self.library.installed_has(full, None) is not False:
                return module
        around, _, last = full.rpartition(".")
        is_absent = self.library.installed_has(full, None) is False
        if is_absent and (is_of_torch(full) or not self._may_be_added(around, last)):
            source = self.library.surroundings.source(around)
            hint = f"; '{around}' is not a package" if source and source.name != "__init__.py" else ""
            raise Thrown(PythonError(ModuleNotFoundError, (f"No module named '{full}'{hint}",), {"name": full}))
        if full.startswith("torch."):
            return self.get_attribute(parent, full.rpartition(".")[2])
        if self.library.find(full.partition(".")[0]) is None:
            self._raise_if_broken(full)
        why = parent.why if isinstance(parent, NotKnown) else Why.NOT_FOLLOWED
        return companions.as_module(self, full) or NotKnown(full, why)

    def _installed_module(self, name: str) -> object:
        _log.debug("%s: imports %s, which is not a module of the package", self.place(), name)
        # In this order: what the system lacks, the standard library, what is installed, and what the metadata requires,
        # which an installer brings. Anything else is optional: there if the code insists on it.
        absent = _absent_module(name)
        lacks = self.files.system.lacks
        if name in lacks:
            missing = lacks[name] or name
            raise Thrown(PythonError(ModuleNotFoundError, (f"No module named '{missing}'",), {"name": missing}))
        if self.brings(name) is not False:
            return NotKnown(name)
        answer = self.library.surroundings.installed("setuptools" if name == "distutils" else name)
        if answer is Answer.UNKNOWN and standard.is_of_some(name):
            # torch requires setuptools; of the others, there are copies such as audioop-lts, pyasyncore and legacy-cgi.
            answer = name == "distutils" or any(name in item for item in self.library.required)
        if answer is Answer.UNKNOWN and self.world.tells(
            f"whether it brings {name}", lambda world: comes_with_torch(name, world.torch_version)
        ):
            answer = True
        if answer is Answer.UNKNOWN and companions.comes_with_torch(self, name):
            answer = True
        if answer is not True and self.library.requires(name):
            assumptions = self.library.assumptions
            answer = answer is Answer.UNKNOWN or bool(
                self.world.tells_now("it has what is required", lambda _world: assumptions.has_requirements)
            )
        if answer is False and any(map(self._changes_search, self._called)):
            return NotKnown(name)
        if answer is False or (answer is Answer.UNKNOWN and not self.is_optional_there(ModuleNotFoundError, name)):
            raise absent
        if answer is Answer.UNKNOWN and not self.catches(ModuleNotFoundError):
            companions.need_module(self, name)
        self._raise_if_broken(name)
        if self.with_module == name:
            return OptionalModule(name)
        around = self.library.surroundings
        if answer is True and around.is_final and around.is_mere_folder(name):
            return EmptyPackage(name)
        return companions.as_module(self, name) or NotKnown(name)

    def _changes_search(self, module: str) -> bool:
        """Whether functions of a module of others may change where modules are looked for; those of torch do not."""
        top = module.partition(".")[0]
        if top == "torch" or self.library.find(top) is not None:
            return False
        source = self.library.surroundings.source(module)
        text = observed_fs.read_file(source) if source is not None else b""
        hits = list(itertools.islice(_SEARCH.finditer(text), _MOST_HITS))
        return len(hits) == _MOST_HITS or not all(is_in_comment(text, hit.start()) for hit in hits)

    def _raise_if_broken(self, module: str, taken: str | None = None) -> None:
        """Raise what the import of an installed module raises, or of a name that is taken from it."""
        if is_of_torch(module):
            absent = self.library.surroundings.absent_for_torch(module)
            if absent is not None:
                _log.debug("%s: %s needs %s, which is not there", self.place(), module, absent)
                raise _absent_module(absent)
            return
        raised = self._error_of_other(module, taken)
        if raised is None:
            return
        if raised.exception != PROCESS_ENDS:
            raise self._thrown_by_other(raised, module)
        if not self.is_speculative:
            _log.debug("%s: the import of %s ends the process", self.place(), module)
            of_other = raised.of_other or module.partition(".")[0]
            raise ProcessEnded(replace(raised, at=self.place(), of_other=of_other))

    def _thrown_by_other(self, raised: Raised, module: str) -> Thrown:
        _log.debug("%s: the import of %s raises %s", self.place(), module, raised.exception)
        failure = loading.as_failure(raised)
        failure.of_other = raised.of_other or module.partition(".")[0]
        return Thrown(failure)

    def _error_of_other(self, module: str, taken: str | None = None) -> Raised | None:
        """Return what the import of a module of another installed package raises, as far as that is certain."""
        around, top = self.library.surroundings, module.partition(".")[0]
        is_other = around.has_others and top != "torch" and self.library.find(top) is None
        if not is_other:
            return None
        raised = self.world.tells(
            f"what the import of {module} raises, or of {taken} from it",
            lambda _world: around.import_error(module, taken),
        )
        if not isinstance(raised, Raised):
            return None
        # It is about what the files of the other package have.
        owner, _, last = (module, "", taken) if taken is not None else module.rpartition(".")
        is_lack = bool(owner) and raised.says_that_it_lacks(module, taken)
        return None if is_lack and self._may_be_added(owner, last) else raised

    def _may_be_added(self, module: str, name: str) -> bool:
        """Whether a module of others may get a name or submodule from the package, or from modules imported so far."""
        return self.library.may_add(module, name) or attributes.others_may_add(self, module, name)

    # ---- import statements

    def _run_import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            module = self.import_module(alias.name)
            if alias.asname:
                self.bind(alias.asname, module, scope)
            else:
                top = alias.name.partition(".")[0]
                self.bind(top, self.modules[top], scope)

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        """Execute ``from MODULE import NAMES``."""
        if node.level == 0 and node.module == "__future__":
            return
        package = self._package_of(scope.module)
        name = absolute_name(package, "." * node.level + (node.module or ""))
        if node.level and not package:
            raise thrown(ImportError, "attempted relative import with no known parent package")
        if node.level > len(package.split(".")) or not name:
            raise thrown(ImportError, "attempted relative import beyond top-level package")
        module = self.import_module(name)
        frame, line = self.frames[-1], node.lineno
        for alias in node.names:
            frame.line = line
            if alias.name == "*":
                self._import_all(module, name, scope)
            else:
                self.bind(alias.asname or alias.name, self._take_name(module, name, alias.name), scope)

    def _take_name(self, module: object, full: str, name: str) -> object:
        if isinstance(module, PythonModule):
            return self._take_own(module, name)
        # The import is refused only where the name is certainly absent. What is not known to be there, either, may be a
        # submodule that the package brings.
        if self.has_lost(full, name):
            raise self.lacking_in_python(full, ImportError, f"cannot import name '{name}' from '{full}'")
        of_torch = is_of_torch(full)
        knows_names = of_torch and torch_module.knows_names(self)
        self._raise_if_broken(f"{full}.{name}" if of_torch else full, None if of_torch else name)
        if knows_names and torch_module.surely_lacks(self, full, name):
            raise torch_module.cannot_import(self, full, name)
        absent = companions.cannot_import(self, full, name)
        if absent is not None:
            raise absent
        if f"{full}.{name}" in MODELS or (knows_names and torch_module.surely_unloaded(self, f"{full}.{name}")):
            return self.import_module(f"{full}.{name}")
        if not knows_names and self._surely_lacks(full, name):
            source = self.library.surroundings.source(full) or "unknown location"
            lacking = thrown(ImportError, f"cannot import name '{name}' from '{full}' ({source})")
            lacking.failure.of_other = full.partition(".")[0]
            raise lacking
        if isinstance(module, NotKnown) and (taken := self._take_of_others(full, name)) is not None:
            return taken
        try:
            return self.get_attribute(module, name)
        except Thrown as error:
            if error.failure.cls is not AttributeError:
                raise
            if isinstance(module, Instance) and self.library.locate(f"{full}.{name}") is not None:
                return self.import_module(f"{full}.{name}")
            # An object in the place of a module has the file of that.
            of_file = isinstance(module, Instance) and isinstance(module.attributes.get("__file__"), str)
            location = (self._file_of(full) if of_file else None) or "unknown location"
            raise thrown(ImportError, f"cannot import name '{name}' from '{full}' ({location})") from None

    def _file_of(self, full: str) -> object:
        """Return the file of a module, of the package or of another one; None if it is not known."""
        located = self.library.locate(full)
        return self.library.surroundings.source(full) or (located.file if located is not None else None)

    def _take_of_others(self, full: str, name: str) -> object:
        """Return what a module of others has of a submodule with a recipe, or that submodule; None if it is neither."""
        origin = recipes.origin_of(full, name)
        if origin is not None:
            return self._take_name(self.import_module(origin), origin, name)
        around = self.library.surroundings
        is_other = around.keeps_submodule(full, name) and around.source(f"{full}.{name}") is not None
        is_module = is_other or self.library.locate(f"{full}.{name}") is not None
        return self.import_module(f"{full}.{name}") if is_module else None

    def error_of_attribute(self, module: str, name: str) -> Thrown | None:
        """Return what an attribute of a module of others raises; None if that is nothing, or not certain."""
        if self.library.installed_has(module, name) is True:
            return None
        # An import of the name runs the same functions of the module, which may say in their own words what it lacks.
        lacking: object = f"module '{module}' has no attribute '{name}'"
        is_mentioned = self.library.surroundings.mentions(module, name)
        raised = None if is_mentioned else self._error_of_other(module, name)
        if raised is not None:
            if not raised.says_that_it_lacks(module, name):
                return self._thrown_by_other(raised, module)
            lacking = NotKnown("the text of the error") if raised.of_attribute is None else raised.of_attribute
        elif not self._surely_lacks(module, name):
            return None
        error = thrown(AttributeError, lacking)
        error.failure.of_other = module.partition(".")[0]
        return error

    def _surely_lacks(self, module: str, name: str) -> bool:
        """Whether an installed module of others certainly does not have a name, which no code may have set, either."""
        is_there = self.library.installed_has(module, name)
        return is_there is False and not self._is_made(module) and not self._may_be_added(module, name)

    def _is_made(self, full: str) -> bool:
        """Whether a modelled module is made by code, as ``torch.ops`` is, and has no file."""
        return full in MODELS and self.library.installed_has(full, None) is False

    def _take_own(self, module: PythonModule, name: str) -> object:
        # In the order of import_from (Python/ceval.c): a name that the module has bound, its ``__getattr__``, a
        # submodule, or what the code has put into ``sys.modules`` in place of one. Of a body that has not run yet, the
        # text says whether it may bind the name; that is enough until the value is used.
        names, stage = module.names, module.stage
        if name in names and (stage is Stage.DONE or stage is Stage.RUNNING):
            return names[name]
        waiting = self._take_waiting(module, name)
        if waiting is not ABSENT:
            return waiting
        submodule, hidden = f"{module.name}.{name}", None
        try:
            if name not in module.names and not module.open_ and "__getattr__" in module.names:
                return attributes.of_module(self, module, name)
            if name in module.names or not module.folders:
                return module.names[name] if name in module.names else attributes.of_module(self, module, name)
        except Thrown as error:
            if error.failure.cls is not AttributeError:
                raise
            hidden = error.failure
        if module.folders and self.library.find(name, module.folders) is not None:
            return self.import_module(submodule)
        if self.modules.get(submodule) is not None:
            return self.modules[submodule]
        if attributes.may_have(self, module, name):
            return NotKnown(submodule)
        lacking = thrown(ImportError, f"cannot import name '{name}' from {self._describe_module(module)}")
        # import_from drops the error of ``__getattr__``, and with it the reason.
        lacking.failure.of_torch = hidden is not None and hidden.of_torch
        raise lacking

    def _take_waiting(self, module: PythonModule, name: str) -> object:
        """Take a name from a module whose body is yet to run; ABSENT if it needs not, or does so now."""
        if attributes.hides_binding(self, module, name):
            return Deferred(module, name)
        if name in module.names or module.file is None:
            return ABSENT
        has_submodule = self.library.find(name, module.folders) is not None
        if module.stage is Stage.SKIMMED:
            if has_submodule:
                return self.import_module(f"{module.name}.{name}")
            self._check_defined(module, name)
            return Deferred(module, name)
        if module.stage is Stage.DEFERRED:
            if not has_submodule and self.library.mentions(module.file, name):
                return Deferred(module, name)
            self.catch_up(module)
        return ABSENT

    def _describe_module(self, module: PythonModule) -> str:
        """Return how an ImportError names a module."""
        if module.stage in {Stage.RUNNING, Stage.SKIMMED}:
            circular = "most likely due to a circular import"
            return f"partially initialized module '{module.name}' ({circular}) ({module.file})"
        return f"'{module.name}' ({module.file or 'unknown location'})"

    def _take_listed(self, module: PythonModule, name: str) -> object:
        # import_all_from (Python/ceval.c) asks for an attribute; only submodules are imported before.
        if not module.folders and module.stage is not Stage.SKIMMED:
            return attributes.of_module(self, module, name)
        try:
            return self._take_own(module, name)
        except Thrown as error:
            if error.failure.cls is not ImportError:
                raise
            raise thrown(AttributeError, f"module '{module.name}' has no attribute '{name}'") from None

    def _import_all(self, module: object, full: str, scope: Scope) -> None:
        if not isinstance(module, PythonModule):
            if is_of_torch(full):
                torch_module.check_listed(self, full)
            scope.module.open_ = True
            return
        # What a package lists may be submodules, which are imported.
        is_deferred = module.stage is Stage.DEFERRED and not module.folders
        names_ahead = self.library.listed_names(module.file) if is_deferred and module.file else None
        if names_ahead is not None:
            for name in names_ahead:
                self.bind(name, Deferred(module, name), scope)
            return
        self.catch_up(module)
        listed = module.names.get("__all__")
        # globals()[NAME] = … may have bound a name that is not known.
        public = [name for name in module.names if isinstance(name, str) and not name.startswith("_")]
        names = listed if isinstance(listed, (list, tuple)) else public
        for name in names:
            if isinstance(name, str):
                self.bind(name, self._take_listed(module, name), scope)
        if module.open_ or isinstance(listed, NotKnown) or not all(isinstance(name, str) for name in module.names):
            scope.module.open_ = True


class EmptyPackage(NotKnown, frozen=True):
    """An installed package of others without a body: it has the modules of its folders, and nothing else."""

    def get_attribute(self, machine: object, name: str) -> object:
        """Return a module of it; raises for a name that no folder has, and that no code has set so far."""
        assert isinstance(machine, PythonInterpreter)
        full = f"{self.name}.{name}"
        is_absent = machine.library.surroundings.is_missing_part(full) and not name.startswith("__")
        if full not in machine.modules and is_absent and not _may_have_set(machine, name):
            lacking = thrown(AttributeError, f"module '{self.name}' has no attribute '{name}'")
            lacking.failure.of_other = self.name
            raise lacking
        return self.part(f".{name}")


def _may_have_set(machine: PythonInterpreter, name: str) -> bool:
    """Whether code of the package that has run may have set an attribute of that name on an object of others."""
    if not machine.library.may_set(name):
        return False
    # A body that is running has come to its line: what stands below has not run, nor been defined.
    lines = {frame.file: frame.line for frame in reversed(machine.frames) if frame.file in machine.trace.unfinished}
    ran = (
        machine.library.before(file, lines[file]) if file in lines else machine.library.source(file)
        for file in machine.trace.imported
    )
    return any(may_set_in(source, name) for source in ran)


def _agreed_for(expression: TargetExpression) -> Ask:
    from abiscan.python.interpreter.required_versions import agreed  # few packages ask

    return functools.partial(agreed, expression)


def _is_too_old(library: PythonCode, files: Iterable[str], world: World) -> bool:
    """Whether the Python of a target cannot parse one of some sources."""
    python = world.python
    if isinstance(python, Answer):
        # The files are for a Python that can, if torch has wheels for one.
        if world.newest_python is None or world.newest_python >= NEWEST:
            return False
        python = world.newest_python
    return any(library.too_new(file, python) is not None for file in files)


def _absent_module(name: str) -> Thrown:
    """Return what the import of a module raises that does not exist."""
    return Thrown(PythonError(ModuleNotFoundError, (f"No module named '{name}'",), {"name": name}))


STATEMENTS[ast.Import] = by_method(PythonInterpreter._run_import)
STATEMENTS[ast.ImportFrom] = by_method(PythonInterpreter._import_from)
