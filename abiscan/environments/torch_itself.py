"""Whether ``import torch`` works here: what its Python needs first is there, and its own libraries load.

Everything else takes that for granted. The order is that of ``torch/__init__.py``: its first imports, then the
libraries that it loads for the whole process, then its extension module.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator
from pathlib import Path

from abiscan.environments.model import Unmet, WholeEnvironment
from abiscan.inputs import interpreter, observed_fs, system
from abiscan.inputs.files import Files
from abiscan.inputs.target_system import LinuxSystem
from abiscan.linkage.host import Host
from abiscan.linkage.model import Process
from abiscan.linkage.resolve import resolve_load
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.python.package.installed import Surroundings, installed_in
from abiscan.results.doctor import TorchHealth
from abiscan.torches.torch import InstalledTorch, Torch


def examine_torch(
    torch: Torch, environment: WholeEnvironment, files: Files, target: LinuxSystem | None = None
) -> TorchHealth:
    """Return whether a torch can be imported in its environment, and what it raises otherwise.

    :param target: the system that the environment is for, None for this one
    """
    if not isinstance(torch, InstalledTorch) or not torch.here:
        return TorchHealth(version=torch.build, imports=None)
    error = next(_import_errors(torch, environment, files, target), None)
    return TorchHealth(version=torch.build, imports=error is None, error=error, unmet=_describe_unmet(environment))


def needed_by_torch(environment: WholeEnvironment) -> tuple[Unmet, ...]:
    """Return the requirements of torch that are not met."""
    distribution = environment.find("torch")
    return environment.unmet(distribution) if distribution is not None else ()


def _describe_unmet(environment: WholeEnvironment) -> tuple[str, ...]:
    return tuple(map(str, needed_by_torch(environment)))


def _import_errors(
    torch: InstalledTorch, environment: WholeEnvironment, files: Files, target: LinuxSystem | None
) -> Iterator[str]:
    """Yield what an import of torch ends in, the first error first."""
    yield from _missing_imports(torch, environment)
    release, python = torch.release, torch.interpreter
    here = target is None
    search = SearchPath(
        environment=system.environment_folders() if here else (),
        has_code=False,
        native=here,
        host=Host(release.machine) if here else None,
    )
    loader = Loader(files, search, release.machine)
    executable = python.executable if python else None
    process = Process(has_python=executable is not None, system=target)
    if executable is not None:
        process = loader.enter(process, observed_fs.resolve_links(executable), visible=True)
    for exception, paths, visible in (
        ("OSError", release.global_libraries, True),
        ("ImportError", release.local_libraries, False),
    ):
        for path in paths:
            closure = loader.open(process, path)
            resolution = resolve_load(process, closure)
            # ld.so stops at the first missing library, before it looks up symbols.
            missing = [library for library in closure.missing if here or library.stops]
            if missing:
                yield f"{exception}: {missing[0].message}"
            elif resolution.error is not None:
                error = resolution.error
                module = next(
                    (item.path for item in closure.modules if posixpath.basename(item.path) == error.object), None
                )
                yield f"{exception}: {f'{module or error.object}: ' if error.object else ''}{error.message}"
            process = loader.enter(process, path, visible=visible)


def _missing_imports(torch: InstalledTorch, environment: WholeEnvironment) -> Iterator[str]:
    """Yield what the first imports of ``torch/__init__.py`` raise: a module is not there, or too old to have a name."""
    unmet = {item.name.replace("-", "_"): item.there for item in needed_by_torch(environment)}
    if not unmet:
        return
    folders = tuple(map(Path, interpreter.search_path(environment.python)))
    surroundings = Surroundings(installed=installed_in(folders), folders=folders, is_final=True)
    for module, names in _first_imports(torch):
        top = module.partition(".")[0]
        if top in unmet and unmet[top] is None:
            yield f"ModuleNotFoundError: No module named '{top}'"
        elif top in unmet and (source := surroundings.source(module)) is not None:
            lost = (name for name in names if surroundings.has(module, name) is False)
            yield from (f"ImportError: cannot import name '{name}' from '{module}' ({source})" for name in lost)


def _first_imports(torch: InstalledTorch) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the modules that ``torch/__init__.py`` always imports, and the names that it takes of each, in order."""
    path = posixpath.join(torch.package, "__init__.py")
    if not observed_fs.is_file(path):
        return
    try:
        body = ast.parse(observed_fs.read_file(path)).body
    except (SyntaxError, ValueError, RecursionError):  # of a newer Python, or damaged
        return
    for statement in body:
        match statement:
            case ast.Import(names=names):
                yield from ((alias.name, ()) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module, tuple(alias.name for alias in names)
