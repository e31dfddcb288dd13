"""What concerns every process of an environment, and is no fault of one distribution."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from abiscan.environments.model import WholeEnvironment
from abiscan.findings import Effect, Evidence, Finding
from abiscan.inputs import observed_fs, packages
from abiscan.inputs.files import Files
from abiscan.inputs.packages import Distribution
from abiscan.regex import regex
from abiscan.torches.torch import InstalledTorch, Torch
from abiscan.verdict.numpy_abi import find_numpy_error
from abiscan.words import listed

_CODE: Final = regex(r"\.(?:py|so|pyd)$")
_OPENMP: Final = regex(r"lib(?P<kind>iomp5|omp)(?:-[0-9a-f]+)?\.so")
"""The runtimes of Intel and LLVM, which are one, and end a process that has two of it: ``OMP: Error #15``."""
_LEFT_BY_PIP: Final = "~"


def examine_process(environment: WholeEnvironment, torch: Torch, files_read: Files) -> Iterator[Finding]:
    """Yield what distributions do to each other and to torch, and what earlier installations have left."""
    yield from _list_numpy(environment, torch, files_read)
    files = {item: frozenset(_list_code(item)) for item in environment.distributions if item.source is None}
    gone = [item for item, paths in files.items() if paths and not any(_is_there(item, path) for path in paths)]
    for item in gone:
        yield Finding(
            rule="leftover",
            effect=Effect.NOTE,
            message=f"{item} is listed as installed, but none of its code is there",
            evidence=(Evidence(subject=item.site),),
            fix=f"install it again: pip install --force-reinstall --no-deps {item}",
        )
    yield from _list_shared({item: paths for item, paths in files.items() if item not in gone})
    yield from _list_damaged(environment)
    yield from _list_runtimes(environment)


def _list_numpy(environment: WholeEnvironment, torch: Torch, files: Files) -> Iterator[Finding]:
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
            says=error.cause,
            fix="install the numpy that it is for: pip install 'numpy<2'",
        )


def _list_code(distribution: Distribution) -> Iterator[str]:
    return (path for path in packages.files_of(distribution) if _CODE.search(path) and not path.startswith(".."))


def _is_there(distribution: Distribution, path: str) -> bool:
    return observed_fs.is_file(posixpath.join(distribution.site, path))


def _list_shared(files: dict[Distribution, frozenset[str]]) -> Iterator[Finding]:
    """Yield the pairs of distributions that have installed the same files: those of the last one are there."""
    owners: dict[tuple[str, str], Distribution] = {}
    shared: dict[tuple[Distribution, Distribution], list[str]] = {}
    for item, paths in files.items():
        for path in sorted(paths):
            owner = owners.setdefault((item.site, path), item)
            if owner is not item:
                shared.setdefault((owner, item), []).append(path)
    for (first, second), same in shared.items():
        yield Finding(
            rule="shared-files",
            effect=Effect.NOTE,
            message=f"{first} and {second} have installed the same files: {listed(same)}; the last one's are there",
            evidence=tuple(Evidence(subject=path) for path in same[:10]),
            fix=f"uninstall both, then install one of them: pip uninstall {first.name} {second.name}",
        )


def _list_damaged(environment: WholeEnvironment) -> Iterator[Finding]:
    """Yield the folders that an interrupted pip has renamed, and not removed."""
    for site in dict.fromkeys(item.site for item in environment.distributions):
        names = [name for name in observed_fs.list_names(site) if name.startswith(_LEFT_BY_PIP)]
        if names:
            yield Finding(
                rule="leftover",
                effect=Effect.NOTE,
                message=f"an installation that was interrupted has left {listed(sorted(names))} in {site}",
                evidence=tuple(Evidence(subject=name) for name in sorted(names)[:10]),
                fix="remove what begins with ~ there",
            )


def _list_runtimes(environment: WholeEnvironment) -> Iterator[Finding]:
    """Yield that several distributions bring an OpenMP runtime of which a process may have only one."""
    brought: dict[str, str] = {}
    for item in environment.distributions:
        for path in item.objects:
            if _OPENMP.match(posixpath.basename(path)):
                brought.setdefault(str(item), posixpath.basename(path))
    if len(brought) > 1:
        bringing = listed(f"{library} of {name}" for name, library in brought.items())
        yield Finding(
            rule="openmp-runtimes",
            effect=Effect.NOTE,
            message=f"there are several OpenMP runtimes: {bringing}; a process that loads two ends with OMP: Error #15",
            evidence=tuple(Evidence(subject=library, object=name) for name, library in brought.items()),
            fix="install packages that use the same one; with KMP_DUPLICATE_LIB_OK=TRUE, results may be wrong",
        )
