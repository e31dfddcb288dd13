"""Whether ``import torch`` works here: what its Python needs first is there, and its own libraries load.

Everything else takes that for granted. The order is that of ``torch/__init__.py``: its first imports, then the
libraries that it loads for the whole process, then its extension module.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator

from abiscan.environments.model import Unmet, WholeEnvironment
from abiscan.inputs import observed_fs, system
from abiscan.inputs.files import Files
from abiscan.inputs.target_system import LinuxSystem
from abiscan.linkage.host import Host
from abiscan.linkage.model import Process
from abiscan.linkage.resolve import resolve_load
from abiscan.linkage.scope import Loader, SearchPath
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
    absent = {item.name.replace("-", "_") for item in needed_by_torch(environment) if item.there is None}
    if absent:
        yield from (
            f"ModuleNotFoundError: No module named '{name}'" for name in _first_imports(torch) if name in absent
        )
    release, interpreter = torch.release, torch.interpreter
    here = target is None
    search = SearchPath(
        environment=system.environment_folders() if here else (),
        has_code=False,
        native=here,
        host=Host(release.machine) if here else None,
    )
    loader = Loader(files, search, release.machine)
    executable = interpreter.executable if interpreter else None
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


def _first_imports(torch: InstalledTorch) -> Iterator[str]:
    """Yield the top-level modules that ``torch/__init__.py`` imports in any case, in order."""
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
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
