"""What concerns every process of an environment, and is no fault of one distribution."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name, canonicalize_version

from abiscan.environments.model import WholeEnvironment, code_of, is_gone, modules_of
from abiscan.findings import Effect, Evidence, Finding
from abiscan.inputs import observed_fs, packages
from abiscan.inputs.files import Files
from abiscan.inputs.packages import Distribution
from abiscan.python.package.installed import is_in
from abiscan.python.package.model import Answer
from abiscan.regex import regex
from abiscan.torches.torch import InstalledTorch, Torch
from abiscan.verdict.numpy_abi import find_numpy_error
from abiscan.verdict.package_reading import is_apart
from abiscan.words import listed

_OPENMP: Final = regex(r"lib(?P<kind>iomp5|omp)(?:-[0-9a-f]+)?\.so")
"""The runtimes of Intel and LLVM, which are one, and end a process that has two of it: ``OMP: Error #15``."""
_BESIDE_CODE: Final = regex(r"(?:tests?|docs?|examples?|benchmarks?)/")
_LEFT_BY_PIP: Final = "~"
_METADATA: Final = regex(r"(?P<name>[^-~]+)-(?P<version>[^-]+)(?:-py[0-9.]+)?\.(?:dist|egg)-info")
_EVERYWHERE: Final = frozenset({"pip", "setuptools", "wheel"})
"""What each environment has of its own."""
_LOADS_TORCH: Final = regex(rb"(?m)^import[ \t][^\n]*\btorch\b")
_TORCH_AND_DEPENDENCIES: Final = frozenset({
    "torch", "torchgen", "functorch", "numpy", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock",
    "fsspec", "typing_extensions", "setuptools", "triton",
})  # fmt: skip
"""The modules of torch, and of what it requires."""
_BODY: Final = regex(r"\w+/__init__\.py")
_AT_START: Final = frozenset({
    "__future__", "_collections_abc", "abc", "codecs", "encodings", "genericpath", "io", "ntpath", "os", "posixpath",
    "site", "stat", "runpy", "importlib", "_sitebuiltins", "zipimport", "this", "antigravity", "idlelib", "turtledemo",
    "lib2to3", "tkinter", "test",
})  # fmt: skip
"""What Python has imported before it looks there, and what hardly anything imports."""
_NAMES_OF_CONDA: Final = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch"}


def examine_process(environment: WholeEnvironment, torch: Torch, files_read: Files) -> Iterator[Finding]:
    """Yield what distributions do to each other and to torch, and what earlier installations have left."""
    yield from _numpy_mismatch(environment, torch, files_read)
    files = {item: frozenset(code_of(item)) for item in environment.distributions if item.source is None}
    gone = [item for item in files if is_gone(item)]
    for item in gone:
        yield Finding(
            rule="leftover",
            effect=Effect.NOTE,
            message=f"{item} is listed as installed, but none of its code is there",
            evidence=(Evidence(subject=item.site),),
            fix=f"install it again: pip install --force-reinstall --no-deps {item}",
        )
    left = {item: paths for item, paths in files.items() if item not in gone}
    for item, paths in left.items():
        yield from _missing_bodies(item, paths)
        yield from _damaged_libraries(item, files_read)
    yield from _shared_files(left)
    yield from _interrupted_uninstalls(environment)
    yield from _installed_twice(environment)
    yield from _openmp_runtimes(environment)
    yield from _shadowing_modules(environment)
    yield from _path_files_importing_torch(environment)
    yield from _mixed_conda_and_pip(environment)


def _numpy_mismatch(environment: WholeEnvironment, torch: Torch, files: Files) -> Iterator[Finding]:
    """Yield that torch itself was compiled for another numpy: it asks for it when it needs it, and goes on without."""
    library = torch.release.own_libraries.get("libtorch_python.so") if isinstance(torch, InstalledTorch) else None
    source = files.find_source(library) if library else None
    numpy = environment.find("numpy")
    error = find_numpy_error(source.open_elf(), (numpy.site,)) if source is not None and numpy is not None else None
    if error is not None:
        yield Finding(
            rule="numpy-abi",
            effect=Effect.CALL_FAILS,
            message=f"torch {torch.build} was compiled for another numpy than {numpy}: Tensor.numpy() and"
            " torch.from_numpy() raise RuntimeError: Numpy is not available",
            evidence=(Evidence(subject=str(numpy)),),
            says=error.cause.message if error.cause else None,
            fix="install the numpy that it is for: pip install 'numpy<2'",
        )


def _is_there(distribution: Distribution, path: str) -> bool:
    return observed_fs.is_file(posixpath.join(distribution.site, path))


def _missing_bodies(distribution: Distribution, paths: frozenset[str]) -> Iterator[Finding]:
    """Yield that packages of a distribution have lost what runs as they are imported: another one had the same files,
    and was uninstalled.
    """
    missing = [path for path in sorted(paths) if _BODY.fullmatch(path) and not _is_there(distribution, path)]
    if missing:
        message = (
            f"{distribution} is listed as installed, but {listed(missing)} is not there: its import gives an empty"
            " package, or fails"
        )
        yield _to_install_again(distribution, message, missing)


def _damaged_libraries(distribution: Distribution, files: Files) -> Iterator[Finding]:
    """Yield the libraries that are shorter than when they were installed, and cannot be read: what ``strip`` has made
    shorter can be.
    """
    damaged = [
        path
        for path, size in packages.library_sizes(distribution)
        if (status := observed_fs.stat_file(posixpath.join(distribution.site, path))) is not None
        and status.st_size < size
        and files.object_at(posixpath.join(distribution.site, path), remember=False) is None
    ]
    if damaged:
        message = f"{distribution} is damaged: a part is missing of {listed(damaged)}"
        yield _to_install_again(distribution, message, damaged)


def _to_install_again(distribution: Distribution, message: str, paths: Sequence[str]) -> Finding:
    """Return that files of a distribution are missing or damaged."""
    return Finding(
        rule="leftover",
        effect=Effect.NOTE,
        message=message,
        evidence=tuple(Evidence(subject=path) for path in paths[:10]),
        fix=f"install it again: pip install --force-reinstall --no-deps {distribution}",
    )


def _shared_files(files: dict[Distribution, frozenset[str]]) -> Iterator[Finding]:
    """Yield the pairs of distributions that have installed the same files: those of the last one are there. Tests and
    documentation that were installed by mistake break nothing.
    """
    owners: dict[tuple[str, str], Distribution] = {}
    shared: dict[tuple[Distribution, Distribution], list[str]] = {}
    for item, paths in files.items():
        for path in sorted(path for path in paths if not _BESIDE_CODE.match(path)):
            owner = owners.setdefault((item.site, path), item)
            if owner is not item and _is_there(item, path):
                shared.setdefault((owner, item), []).append(path)
    for (first, second), same in shared.items():
        yield Finding(
            rule="shared-files",
            effect=Effect.NOTE,
            message=f"{first} and {second} have installed the same files: {listed(same)}; the last one's remain",
            evidence=tuple(Evidence(subject=path) for path in same[:10]),
            fix=f"uninstall both, then install one of them: pip uninstall {first.name} {second.name}",
        )


def _interrupted_uninstalls(environment: WholeEnvironment) -> Iterator[Finding]:
    """Yield the folders that an interrupted pip has renamed, and not removed."""
    for site in dict.fromkeys(item.site for item in environment.distributions):
        names = [name for name in observed_fs.list_names(site) if name.startswith(_LEFT_BY_PIP)]
        if names:
            yield Finding(
                rule="leftover",
                effect=Effect.NOTE,
                message=f"an interrupted installation has left {listed(sorted(names))} in {site}",
                evidence=tuple(Evidence(subject=name) for name in sorted(names)[:10]),
                fix="delete the folders whose names begin with ~ there",
            )


def _installed_twice(environment: WholeEnvironment) -> Iterator[Finding]:
    """Yield the distributions of which there are several versions: in one folder, where an installer has not removed
    what another one had installed, or in two folders of the search path, such as that of a base Python, that of
    ``pip install --target``, and those of ``PYTHONPATH``.
    """
    shadowed: dict[tuple[str, str], list[str]] = {}
    for site in dict.fromkeys(item.site for item in environment.distributions):
        versions: dict[str, list[tuple[str, str]]] = {}
        for name in sorted(observed_fs.list_names(site)):
            match = _METADATA.fullmatch(name)
            if match is not None:
                versions.setdefault(canonicalize_name(match["name"]), []).append((match["version"], name))
        for key, found in versions.items():
            first = environment.find(key)
            if first is None or key in _EVERYWHERE:
                continue
            others = [
                (version, name)
                for text, name in found
                if not _is_same_version(text, first.version)
                and not _is_same_version(
                    version := packages.version_at(posixpath.join(site, name)) or text, first.version
                )
            ]
            if others and first.site != site:
                new = (f"{key} {first.version} shadows {version}" for version, _ in others)
                shadowed.setdefault((first.site, site), []).extend(new)
            # The metadata of a single one may write its version in another way than the name of their folder.
            if others and first.site == site and len(found) > 1:
                yield Finding(
                    rule="leftover",
                    effect=Effect.NOTE,
                    message=f"{site} has metadata of {key} {first.version} and of {listed(item for item, _ in others)}:"
                    f" pip and Python take {first.version} for the one that is installed, and files of others may be"
                    " left",
                    evidence=tuple(Evidence(subject=posixpath.join(site, name)) for _, name in others[:10]),
                    fix=f"delete all of this metadata and the modules of {key}, then run pip install {key}",
                )
    for (folder, site), shadows in shadowed.items():
        yield Finding(
            rule="shadowed-distribution",
            effect=Effect.NOTE,
            message=f"{folder} comes before {site} on the search path: {listed(shadows)}; what is installed in {site}"
            " may need the versions there",
            evidence=tuple(Evidence(subject=item) for item in shadows[:10]),
            fix="install what needs other versions into an environment of its own",
        )


def _is_same_version(one: str, other: str) -> bool:
    return canonicalize_version(one) == canonicalize_version(other)


def _openmp_runtimes(environment: WholeEnvironment) -> Iterator[Finding]:
    """Yield that distributions bring OpenMP runtimes of which a process may have only one, or that get in each other's
    way.
    """
    brought: dict[str, str] = {}
    of_torch = environment.find("torch")
    for item in (*filter(None, (of_torch,)), *environment.distributions):  # what others import is there first
        for path in item.objects:
            if _OPENMP.match(posixpath.basename(path)):
                brought.setdefault(str(item), posixpath.basename(path))
    evidence = tuple(Evidence(subject=library, object=name) for name, library in brought.items())
    bringing = listed(f"{library} of {name}" for name, library in brought.items())
    gnu = next((path for path in of_torch.objects if "libgomp" in path), None) if of_torch else None
    if len(brought) > 1:
        first, second = map(_plain_name, list(brought.values())[:2])
        yield Finding(
            rule="openmp-runtimes",
            effect=Effect.NOTE,
            message=f"there are several OpenMP runtimes: {bringing}; a process that loads two ends with OMP: Error #15",
            evidence=evidence,
            says=f"OMP: Error #15: Initializing {second}, but found {first} already initialized.",
            fix="install packages that use the same one; with KMP_DUPLICATE_LIB_OK=TRUE, results may be wrong",
        )
    elif brought and gnu is not None:
        yield Finding(
            rule="openmp-runtimes",
            effect=Effect.NOTE,
            message=f"torch uses {posixpath.basename(gnu)}, and there is {bringing}: in a process that loads both, each"
            " has threads of its own, which may be slow",
            evidence=evidence,
            fix="no action needed unless it is slow; then set OMP_NUM_THREADS",
        )


def _plain_name(library: str) -> str:
    """Return the name that an OpenMP runtime has for itself, without what auditwheel adds."""
    match = _OPENMP.match(library)
    return f"lib{match['kind']}.so" if match else library


def _shadowing_modules(environment: WholeEnvironment) -> Iterator[Finding]:
    """Yield what the current folder has in the place of installed modules, and of Python's own: ``python -m`` and
    ``python -c`` find it first, and so do scripts in it.
    """
    folder = observed_fs.current_folder()
    if any(item.site == folder or item.source == folder for item in environment.distributions):
        return
    sites = [Path(site) for site in dict.fromkeys(item.site for item in environment.distributions)]
    # Python finds what is built in, and has imported what starts it, before it looks there.
    standard = sys.stdlib_module_names - {*sys.builtin_module_names, *_AT_START}
    installed = {
        module: item
        for item in reversed(environment.distributions)
        if item.source is None
        for module in modules_of(item)
        if not is_apart(module)
    }
    # Each name is asked for: whatever else comes and goes in the folder, such as this report, changes nothing.
    for module in sorted(standard | _TORCH_AND_DEPENDENCIES | installed.keys()):
        name = _find_module(folder, module)
        if name is None:
            continue
        if module in standard:
            shadowed = f"Python's own module {module}"
        elif module in _TORCH_AND_DEPENDENCIES and any(is_in(site, module, Answer.UNKNOWN) for site in sites):
            shadowed = f"the module {module}, which torch imports," if module != "torch" else "torch"
        elif module in installed:
            shadowed = f"the module {module} of {installed[module]}"
        else:
            continue
        path = posixpath.join(folder, name)
        yield Finding(
            rule="shadowed-module",
            effect=Effect.NOTE,
            message=f"{name} in the current folder shadows {shadowed} for python -m, python -c and scripts in this"
            " folder",
            evidence=(Evidence(subject=path),),
            fix=f"rename {name}, or start Python in another folder",
        )


def _find_module(folder: str, module: str) -> str | None:
    """Return the name that a module has in a folder; None if it is not there. A package comes first, as in Python."""
    if observed_fs.is_file(posixpath.join(folder, module, "__init__.py")):
        return module
    return f"{module}.py" if observed_fs.is_file(posixpath.join(folder, f"{module}.py")) else None


def _path_files_importing_torch(environment: WholeEnvironment) -> Iterator[Finding]:
    """Yield the path files that import torch whenever Python starts (module ``site``: lines that begin with import)."""
    for site in dict.fromkeys(item.site for item in environment.distributions):
        for name in observed_fs.list_names(site):
            path = posixpath.join(site, name)
            if not name.endswith(".pth") or not observed_fs.is_file(path):
                continue
            if _LOADS_TORCH.search(observed_fs.read_file(path)):
                yield Finding(
                    rule="path-file",
                    effect=Effect.NOTE,
                    message=f"{name} imports torch whenever this Python starts, whatever it runs",
                    evidence=(Evidence(subject=path),),
                    fix=f"remove {path}, or uninstall what brings it",
                )


def _mixed_conda_and_pip(environment: WholeEnvironment) -> Iterator[Finding]:
    """Yield what conda has installed in one version, and pip in another over it: conda may replace it again."""
    for site in dict.fromkeys(item.site for item in environment.distributions):
        records = Path(site).parent.parent.parent / "conda-meta"
        for name in observed_fs.list_names(records):
            # NAME-VERSION-BUILD.json (conda's documentation, "Package naming conventions").
            package, _, rest = name.removesuffix(".json").rpartition("-")[0].rpartition("-")
            there = environment.find(_NAMES_OF_CONDA.get(package, package)) if package else None
            if there is not None and name.endswith(".json") and there.version.partition("+")[0] != rest:
                yield Finding(
                    rule="mixed-installers",
                    effect=Effect.NOTE,
                    message=f"conda has installed {package} {rest}, and there is {there}: another installer has"
                    " replaced it, and the next conda command may mix the files of both",
                    evidence=(Evidence(subject=str(records / name)),),
                    fix=f"install {there.name} with only one of them",
                )
