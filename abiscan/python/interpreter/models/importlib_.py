"""``importlib``: modules imported, found or described by name, and the package's own resources and metadata."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable
from pathlib import PurePath
from typing import NamedTuple

from abiscan.python.interpreter import loading, special
from abiscan.python.interpreter.builtin_methods import fill_dict
from abiscan.python.interpreter.filesystem import as_text
from abiscan.python.interpreter.machine import Frame, PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models import companions
from abiscan.python.interpreter.models.namespace import (
    Args,
    Kwargs,
    Model,
    Namespace,
    has_version,
    native_functions,
    take_argument,
)
from abiscan.python.interpreter.models.torch_module import has_module
from abiscan.python.interpreter.operations import describe_value
from abiscan.python.interpreter.values import (
    ABSENT,
    Instance,
    NotKnown,
    PythonError,
    PythonModule,
    Scope,
    TargetExpression,
    TextWithHoles,
    Thrown,
    Why,
    thrown,
)
from abiscan.python.language.dynamic_names import absolute_name
from abiscan.python.package.installed import version_in
from abiscan.python.package.model import Answer, LoadedBy
from abiscan.python.package.sources import specifier_of
from abiscan.python.package.torch_imports import comes_with_torch


class Spec(Modelled):
    """A module's spec: where it is, and whether its loader takes the file for Python code."""

    __slots__ = ("folders", "is_library", "is_open", "is_source", "name", "origin")

    def __init__(
        self, name: str, origin: str | None, folders: tuple[str, ...] = (), *, is_source: bool | None = None
    ) -> None:
        self.name, self.origin, self.folders, self.is_open = name, origin, folders, False
        self.is_source = (origin or "").endswith(".py") if is_source is None else is_source
        self.is_library = is_source is False  # whatever the name of the file

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its name and its places."""
        if name == "loader":
            return SpecLoader(self)
        places = list(map(machine.files.system.place, self.folders))
        attributes = {
            "name": self.name,
            "origin": NotKnown("spec.origin") if self.origin is None and self.is_open else self.origin,
            "parent": self.name if self.folders else self.name.rpartition(".")[0],
            "submodule_search_locations": places or None,
        }
        return attributes[name] if name in attributes else NotKnown(f"spec.{name}")

    def put(self, machine: PythonMachine, name: str, value: object) -> None:
        """Set where the submodules are."""
        if name != "submodule_search_locations":
            return
        places = machine.items(value)
        texts = [as_text(special.as_path(machine, place)) for place in places] if isinstance(places, list) else [None]
        insides = [None if text is None else machine.files.inside(text) for text in texts]
        self.folders = tuple(inside for inside in insides if inside is not None)
        # It may be a package whose submodules are where nobody here looks.
        self.is_open = None in insides


class SpecLoader(Modelled):
    """The loader of a spec, and its ``exec_module``."""

    __slots__ = ("spec",)

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods: ``exec_module`` runs the module; that of an extension has run as it was made."""
        methods: dict[str, Model] = {
            "exec_module": lambda machine, args, _kwargs: _execute_module(machine, args[0] if args else None),
            "create_module": lambda machine, _args, _kwargs: _make_module(machine, self.spec),
            "load_module": lambda machine, _args, _kwargs: _execute_module(machine, _make_module(machine, self.spec)),
        }
        return Native(name, methods[name]) if name in methods else NotKnown(f"loader.{name}")


def _import_module(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name, package = take_argument(args, kwargs, 0, "name"), take_argument(args, kwargs, 1, "package")
    if isinstance(name, str) and name.startswith(".") and isinstance(package, str):
        name = absolute_name(package, name)
    if isinstance(name, str) and name.startswith(".") and not package:
        text = f"the 'package' argument is required to perform a relative import for {name!r}"
        raise thrown(TypeError, text)
    if not isinstance(name, str) or name.startswith("."):
        machine.imports_unknown(name)
        return NotKnown(f"import_module({describe_value(name)})")
    return machine.import_module(name)


def _find_spec(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name, package = take_argument(args, kwargs, 0, "name"), take_argument(args, kwargs, 1, "package")
    if isinstance(name, str) and name.startswith(".") and isinstance(package, str):
        name = absolute_name(package, name)
    if not isinstance(name, str):
        return NotKnown(f"find_spec({describe_value(name)})")
    # In this order: what is in ``sys.modules`` has to have a spec, a module of the package has one, torch's names are
    # in its table, and of other packages the environment decides.
    located = machine.library.locate(name)
    if located is None and name in machine.modules:
        _check_spec(machine, name, machine.modules[name])
    if located is not None:
        # The package around it is imported, as importlib.util.find_spec does.
        if "." in name:
            machine.import_module(name.rpartition(".")[0])
        return Spec(name, machine.files.system.place(located.file) if located.file else None, located.folders)
    top = name.partition(".")[0]
    own = machine.library.find(top)
    if own is not None and own.file is not None:
        return None
    if top == "torch" or "." in name:
        there = machine.library.installed_has(name, None)
        if top == "torch" and there is None:
            there = has_module(machine, name)
        if there is None and companions.lacks_module(machine, name):
            return None
        if there is None and top != "torch":
            return NotKnown(f"find_spec({name!r})", Why.ENVIRONMENT)
        return NotKnown(f"find_spec({name!r})") if there is None else Spec(name, None) if there else None
    answer = machine.library.surroundings.installed(top)
    if isinstance(answer, Answer):
        required = (
            top.lower() in machine.library.required
            or machine.world.tells(f"whether it brings {top}", lambda world: comes_with_torch(top, world.torch_version))
            or companions.comes_with_torch(machine, top)
        )
        return Spec(name, None) if required else NotKnown(f"find_spec({name!r})", Why.ENVIRONMENT)
    return Spec(name, None) if answer else None


def _check_spec(machine: PythonMachine, name: str, module: object) -> None:
    """Raise if what the code has put into ``sys.modules`` has no ``__spec__``."""
    if isinstance(module, Instance):
        spec = module.attributes.get("__spec__", module.cls.find("__spec__", ABSENT))
        if spec is None or (spec is ABSENT and not module.cls.is_open()):
            raise thrown(ValueError, f"{name}.__spec__ is {'None' if spec is None else 'not set'}")
    if isinstance(module, NotKnown) and module.name != name:
        machine.gap(f"find_spec({name!r}) asks for the __spec__ of {module.name}")


def _from_location(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name, place = take_argument(args, kwargs, 0, "name"), take_argument(args, kwargs, 1, "location")
    place = special.as_path(machine, place)
    if not isinstance(name, str) or place is None:
        return NotKnown("spec_from_file_location()")
    if not isinstance(place, (str, PurePath)):
        somewhere = Spec(name, None)
        somewhere.is_open = True
        return somewhere
    # A file called __init__ is that of a package, unless the code says where the submodules are:
    # spec_from_file_location and is_package in Lib/importlib/_bootstrap_external.py.
    inside = machine.files.inside(str(place))
    is_package = inside is not None and posixpath.basename(inside).rpartition(".")[0] == "__init__"
    folders = (posixpath.dirname(inside),) if is_package and inside else ()
    loader = kwargs.get("loader")
    is_source = loader.spec.is_source if isinstance(loader, SpecLoader) else None
    spec = Spec(name, str(place), folders, is_source=is_source)
    if kwargs.get("submodule_search_locations") is not None:
        spec.put(machine, "submodule_search_locations", kwargs["submodule_search_locations"])
    return spec


def _from_spec(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return _make_module(machine, args[0]) if args and isinstance(args[0], Spec) else NotKnown("module_from_spec()")


def _make_module(machine: PythonMachine, spec: Spec) -> object:
    """Return the module of a spec; that of an extension is loaded as it is made."""
    # ``create_module`` of an extension loads the library (Lib/importlib/_bootstrap_external.py, ExtensionFileLoader);
    # ``exec_module`` only runs slots of its initialisation.
    if spec.is_library or (not spec.is_source and machine.files.system.libraries.search(spec.origin or "")):
        loading.load_library(machine, spec.origin, LoadedBy.IMPORT)
    inside = machine.files.inside(spec.origin) if spec.origin else None
    if not spec.is_source and not spec.is_open:
        return NotKnown(spec.name)
    if inside is None or inside not in machine.files.members:
        return PythonModule(spec.name, {"__spec__": spec}, None, (), open_=True)
    return PythonModule(spec.name, {"__spec__": spec}, inside, spec.folders, open_=spec.is_open)


def _execute_module(machine: PythonMachine, module: object) -> object:
    """Execute ``exec_module``: run the body of a module, perhaps again; that of an extension ran as it was made."""
    if isinstance(module, PythonModule) and module.file is not None:
        machine.run_body(module)
    return module


def _model_reload(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    return _execute_module(machine, take_argument(args, kwargs, 0, "module"))


def _make_loader(_machine: PythonMachine, args: Args, kwargs: Kwargs, *, is_source: bool) -> object:
    name, path = take_argument(args, kwargs, 0, "fullname"), take_argument(args, kwargs, 1, "path")
    name = kwargs.get("name", name)
    if isinstance(name, str) and isinstance(path, (str, PurePath)):
        return SpecLoader(Spec(name, str(path), is_source=is_source))
    return NotKnown("the loader of a file")


_extension_loader = functools.partial(_make_loader, is_source=False)
_source_loader = functools.partial(_make_loader, is_source=True)


def _make_spec(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name, origin = take_argument(args, kwargs, 0, "name"), kwargs.get("origin")
    is_known = isinstance(name, str) and isinstance(origin, (str, PurePath))
    return Spec(str(name), str(origin)) if is_known else NotKnown("ModuleSpec()")


def _from_loader(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name, loader = take_argument(args, kwargs, 0, "name"), take_argument(args, kwargs, 1, "loader")
    if isinstance(name, str) and loader is None:
        return Spec(name, None, is_source=True)
    return loader.spec if isinstance(loader, SpecLoader) else NotKnown("spec_from_loader()")


def _load_dynamic(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    loader = _extension_loader(machine, args, kwargs)
    if not isinstance(loader, SpecLoader):
        return NotKnown("imp.load_dynamic()")
    # As _load in Lib/importlib/_bootstrap.py: it takes the place of a module that had its name.
    module = machine.modules[loader.spec.name] = _make_module(machine, loader.spec)
    machine.forget_names()
    return module


def _load_source(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    loader = _source_loader(machine, args, kwargs)
    if not isinstance(loader, SpecLoader):
        return NotKnown("imp.load_source()")
    return _execute_module(machine, _make_module(machine, loader.spec))


class FileFinder(Modelled):
    """``importlib.machinery.FileFinder`` on a folder of the package; ``suffixes`` is None for those of the import."""

    __slots__ = ("folder", "suffixes")

    def __init__(self, folder: str, suffixes: list[str] | None) -> None:
        self.folder, self.suffixes = folder, suffixes

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return ``find_spec``."""
        return Native(name, self._model_find) if name == "find_spec" else NotKnown(f"FileFinder.{name}")

    def _model_find(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        name = args[0] if args else None
        inside = machine.files.inside(self.folder)
        if not isinstance(name, str) or inside is None:
            return NotKnown("FileFinder.find_spec()")
        if self.suffixes is not None:
            paths = (posixpath.join(inside, f"{name}{suffix}") for suffix in self.suffixes)
            there = next((path for path in paths if path in machine.files.members), None)
            return None if there is None else Spec(name, machine.files.system.place(there))
        located = machine.library.find(name, [inside])
        if located is None or located.file is None:
            return None
        return Spec(name, machine.files.system.place(located.file), located.folders)


def _model_finder(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if not args or not isinstance(args[0], (str, PurePath)):
        return NotKnown("FileFinder()")
    lists = [item[1] for item in args[1:] if isinstance(item, tuple) and len(item) == 2]
    suffixes = [suffix for item in lists if isinstance(item, (list, tuple)) for suffix in item]
    are_texts = bool(suffixes) and len(lists) == len(args) - 1 and all(isinstance(item, str) for item in suffixes)
    return FileFinder(str(args[0]), suffixes if are_texts else None)


class PathFinder(Modelled):
    """``importlib.machinery.PathFinder``, the class as well as what calling it gives."""

    __slots__ = ()

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return ``find_spec``."""
        return Native(name, self._model_find) if name == "find_spec" else NotKnown(f"PathFinder.{name}")

    def call(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        """Return an instance."""
        return self

    def _model_find(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name, path = take_argument(args, kwargs, 0, "fullname"), take_argument(args, kwargs, 1, "path")
        places = machine.items(machine.search_path if path is None else path)
        if not isinstance(name, str) or isinstance(places, NotKnown):
            return NotKnown("PathFinder.find_spec()")
        for place in places:
            inside = machine.files.inside(str(place)) if isinstance(place, (str, PurePath)) else None
            if inside is None:
                return NotKnown(f"PathFinder.find_spec({name!r})", Why.ENVIRONMENT)
            located = machine.library.find(name, [inside])
            if located is not None and located.file is not None:
                return Spec(name, machine.files.system.place(located.file), located.folders)
        # ``sys.path`` goes on beyond the folders that are known.
        return None if path is not None else NotKnown(f"PathFinder.find_spec({name!r})", Why.ENVIRONMENT)


# ---- resources and metadata


def _model_files(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    anchor = take_argument(args, kwargs, 0, "anchor", take_argument(args, kwargs, 0, "package"))
    if isinstance(anchor, PythonModule):
        anchor = anchor.name
    located = machine.library.locate(anchor) if isinstance(anchor, str) else None
    if located is None or not located.folders:
        return NotKnown(f"importlib.resources.files({describe_value(anchor)})")
    return machine.files.system.path_class(machine.files.system.place(located.folders[0]))


def _file_of_resource(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``pkg_resources.resource_filename``: a path next to the source of a module, whether or not it exists.

    The modules that setuptools writes for the extension modules of an egg call it.
    """
    name, resource = (take_argument(args, kwargs, i, word) for i, word in enumerate(("package_or_requirement", "name")))
    module = machine.modules.get(name) if isinstance(name, str) else None
    if isinstance(module, PythonModule) and module.file is not None and isinstance(resource, str):
        return machine.files.system.place(posixpath.join(posixpath.dirname(module.file), resource))
    return NotKnown(f"pkg_resources.resource_filename({', '.join(map(describe_value, args))})")


def _of_distribution(subject: str) -> Model:
    """Return a function about a distribution by its name; one that is not installed raises ``PackageNotFoundError``."""

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name = take_argument(args, kwargs, 0, "distribution_name")
        if not isinstance(name, str):
            return NotKnown(f"importlib.metadata.{subject}()")
        # The package itself first, then torch, whose version is a question to the target, then what is installed.
        own = version_in(machine.files.folders[""], name)
        if own is not None:
            return own if subject == "version" else NotKnown(f"{subject}({name!r})")
        if name.lower() == "torch" and has_version(machine):
            version = TargetExpression("version('torch')", lambda world: world.torch_version)
            return version if subject == "version" else NotKnown(f"{subject}('torch')", Why.TARGET)
        installed = machine.library.surroundings.version(name)
        from importlib.metadata import PackageNotFoundError  # its import takes as long as that of 50 other modules

        if installed is Answer.UNKNOWN and not machine.library.requires(name):
            # As with modules: what the code does without is not there, what it insists on is.
            installed = installed if machine.is_optional_there(PackageNotFoundError) else None
        if installed is None:
            raise Thrown(PythonError(PackageNotFoundError, (name,), {"name": name}))
        if subject != "version":
            return NotKnown(f"the {subject} of {name}", Why.ELSEWHERE)
        if isinstance(installed, str):
            return installed
        from abiscan.python.interpreter.required_versions import required_version  # few packages ask

        required = required_version(name, specifier_of(machine.files, name, with_extras=True) or "")
        return required or TextWithHoles(f"the version of {name}", Why.ELSEWHERE, truth=True, parts=("", ""))

    return call


class DistributionsOfModules(Modelled):
    """``packages_distributions()``: the distributions of each top-level module, known for those of torch."""

    __slots__ = ()

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what gives the distributions of one module."""
        is_known = name in {"__getitem__", "get"}
        return Native(name, _distributions_of) if is_known else super().get_attribute(machine, name)

    def display_name(self) -> str:
        """Return the call that makes it."""
        return "packages_distributions()"


def _distributions_of(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    name = args[0] if args else None
    of_torch = name in ("torch", "functorch", "torchgen")  # its top_level.txt
    return ["torch"] if of_torch else NotKnown(f"packages_distributions()[{describe_value(name)}]", Why.ELSEWHERE)


def _model_resource(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``importlib.resources.path``: return what its context manager gives."""
    folder, name = _model_files(machine, args[:1], kwargs), take_argument(args, kwargs, 1, "resource")
    is_known = isinstance(folder, PurePath) and isinstance(name, str)
    return folder / name if is_known else NotKnown("importlib.resources.path()")  # type: ignore[operator]


# ---- pkgutil


def _modules_in(machine: PythonMachine, args: Args, kwargs: Kwargs, *, deep: bool) -> object:
    """List modules as ``iter_modules`` does, or as ``walk_packages``, which imports each package on its way."""
    path, prefix = take_argument(args, kwargs, 0, "path"), take_argument(args, kwargs, 1, "prefix", "")
    places = [] if path is None else machine.items(path)
    insides = [machine.files.inside(str(inside)) for inside in places] if isinstance(places, list) else []
    folders = [inside for inside in insides if inside is not None]
    if not folders or len(folders) < len(insides) or not isinstance(prefix, str):
        return NotKnown("pkgutil.iter_modules()")
    results: list[object] = []
    for folder in folders:
        for name in sorted(
            {inside.partition(".")[0] for inside in machine.files.folders.get(folder, ())} - {"__init__"}
        ):
            module = machine.library.find(name, [folder]) if name.isidentifier() else None
            if module is None or module.file is None:
                continue
            results.append(ModuleInfo(NotKnown("finder"), prefix + name, bool(module.folders)))
            if deep and module.folders:
                machine.import_module(prefix + name)
                below = [machine.files.system.place(inside) for inside in module.folders]
                inner = _modules_in(machine, [below, f"{prefix}{name}."], {}, deep=True)
                results.extend(inner if isinstance(inner, list) else ())
    return results


class ModuleInfo(NamedTuple):
    """A module that ``pkgutil`` finds."""

    module_finder: object
    name: str
    ispkg: bool


def _find_loader(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    spec = _find_spec(machine, args, kwargs)
    return SpecLoader(spec) if isinstance(spec, Spec) else spec


def _pkgutil_path(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return args[0] if args else NotKnown("extend_path()")


# ---- runpy


def _run_path(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``runpy.run_path``: run a file of the package under another name."""
    place = as_text(special.as_path(machine, take_argument(args, kwargs, 0, "path_name")))
    inside = None if place is None else machine.files.inside(place)
    if inside is None or inside not in machine.files.members:
        machine.gap(f"a file is run whose path is not known: {describe_value(args[0] if args else None)}")
        return NotKnown("runpy.run_path()")
    return _run_file(machine, inside, args, kwargs, "<run_path>")


def _run_module(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``runpy.run_module``: import the package that a module is in, then run its file under another name."""
    name = take_argument(args, kwargs, 0, "mod_name")
    if not isinstance(name, str):
        machine.gap(f"a module is run whose name is not known: {describe_value(name)}")
        return NotKnown("runpy.run_module()")
    if "." in name:
        machine.import_module(name.rpartition(".")[0])
    located = machine.library.locate(name)
    if located is None or located.file is None or located.extension:
        return NotKnown("runpy.run_module()")
    return _run_file(machine, located.file, args, kwargs, name)


def _run_file(machine: PythonMachine, file: str, args: Args, kwargs: Kwargs, name: str) -> object:
    """Run a file with the names and under the name that ``runpy`` was given; without a name, under this one."""
    given, run_name = take_argument(args, kwargs, 1, "init_globals"), take_argument(args, kwargs, 2, "run_name")
    tree = machine.library.tree(file)
    if tree is None:
        machine.gap(f"{file} {machine.library.problems[file]}")
        return NotKnown("runpy")
    names: dict[object, object] = {}
    is_known = given is None or fill_dict(machine, names, given)
    own = {key: value for key, value in names.items() if isinstance(key, str)}
    own |= {"__name__": str(run_name or name), "__file__": machine.files.system.place(file)}
    module = PythonModule(str(own["__name__"]), own, file, open_=not is_known or not all(map(own.__contains__, names)))
    scope = Scope(module.names, module)
    machine.frames.append(Frame(file=file, line=1, scope=scope))
    try:
        machine.execute_whole(tree.body, scope)
    except Thrown as error:
        error.failure.at = error.failure.at or machine.place()
        raise
    finally:
        machine.frames.pop()
    return module.names


def _make_importlib(_machine: PythonMachine) -> object:
    names = native_functions(
        "importlib", import_module=_import_module, reload=_model_reload, invalidate_caches=lambda _m, _a, _k: None
    )
    return Namespace("importlib", names)


def _make_metadata(_machine: PythonMachine) -> object:
    from importlib.metadata import PackageNotFoundError

    functions = {name: _of_distribution(name) for name in ("version", "distribution", "files", "metadata", "requires")}
    functions["entry_points"] = _entry_points
    functions["packages_distributions"] = lambda _machine, _args, _kwargs: DistributionsOfModules()
    names = native_functions("importlib.metadata", **functions)
    return Namespace("importlib.metadata", {**names, "PackageNotFoundError": PackageNotFoundError})


def _entry_points(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    from abiscan.python.interpreter.models.entry_points import model_entry_points  # few packages have plugins

    return model_entry_points(machine, args, kwargs)


def _make_util(_machine: PythonMachine) -> object:
    return Namespace(
        "importlib.util",
        native_functions(
            "importlib.util",
            find_spec=_find_spec,
            spec_from_file_location=_from_location,
            spec_from_loader=_from_loader,
            module_from_spec=_from_spec,
        ),
    )


def _make_machinery(_machine: PythonMachine) -> object:
    names = native_functions(
        "importlib.machinery",
        FileFinder=_model_finder,
        ExtensionFileLoader=_extension_loader,
        SourceFileLoader=_source_loader,
        ModuleSpec=_make_spec,
    )
    return Namespace(
        "importlib.machinery",
        {**names, "PathFinder": PathFinder()},
        of_target={"EXTENSION_SUFFIXES": _extension_suffixes},
    )


def _extension_suffixes(machine: PythonMachine) -> object:
    python = machine.world.python
    if isinstance(python, Answer):
        return NotKnown("EXTENSION_SUFFIXES")
    return machine.files.system.extension_suffixes(python, machine.world.machine)


def _make_resources(_machine: PythonMachine) -> object:
    names = native_functions(
        "importlib.resources",
        files=_model_files,
        path=_model_resource,
        as_file=lambda _m, args, _k: args[0] if args else None,
    )
    return Namespace("importlib.resources", names)


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "importlib": _make_importlib,
    "importlib.util": _make_util,
    **dict.fromkeys(
        ("importlib.machinery", "importlib._bootstrap_external", "_frozen_importlib_external"), _make_machinery
    ),
    "importlib.metadata": _make_metadata,
    "importlib_metadata": _make_metadata,
    "importlib.resources": _make_resources,
    "pkg_resources": lambda _machine: Namespace(
        "pkg_resources", native_functions("pkg_resources", resource_filename=_file_of_resource)
    ),
    "runpy": lambda _machine: Namespace("runpy", native_functions("runpy", run_path=_run_path, run_module=_run_module)),
    "imp": lambda _machine: Namespace(
        "imp", native_functions("imp", load_dynamic=_load_dynamic, load_source=_load_source)
    ),
    "pkgutil": lambda _machine: Namespace(
        "pkgutil",
        native_functions(
            "pkgutil",
            extend_path=_pkgutil_path,
            iter_modules=functools.partial(_modules_in, deep=False),
            walk_packages=functools.partial(_modules_in, deep=True),
            find_loader=_find_loader,
            get_loader=_find_loader,
        ),
    ),
}
