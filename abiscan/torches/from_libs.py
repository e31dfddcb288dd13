"""A torch, read from its files: a package folder, its ``lib``, one ``libtorch_cpu.so``, or a wheel."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec.structs

from abiscan.binary.elf import ElfFile
from abiscan.binary.ownership import is_torch_library, without_version
from abiscan.dispatch import assertions, tags, wordings
from abiscan.dispatch.keys import keys_of_minor, newest_minor
from abiscan.dispatch.operators import KEYS, TAGS, Operator, Operators, Place, RegistryEntry
from abiscan.dispatch.tags import Tags
from abiscan.dispatch.wordings import Wordings
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.files import Files, Wheel, require_regular
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.kinds import TargetKind, kind_of
from abiscan.inputs.torch_build import build_of
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex
from abiscan.torches.model import TorchRelease
from abiscan.torches.preloaded import list_preloaded

if TYPE_CHECKING:
    from abiscan.registrations import TorchRegistrations

WHEEL_MOUNT: Final = "/site-packages"
"""The folder in which the members of a torch wheel are assumed to be installed."""

_SHARED_OBJECT: Final = regex(r"\.so(\.[0-9]+)*$")
# In the order in which ld.so initialises them.
_LOAD_ORDER: Final = (
    regex(r"libc10\.so"),
    regex(r"libc10_(cuda|hip|xpu)\.so"),
    regex(r"libtorch_cpu\.so"),
    regex(r"libtorch_nvshmem\.so"),
    regex(r"libtorch_(cuda|hip|xpu)(_cpp|_cu)?\.so"),
    regex(r"libtorch\.so"),
    regex(r"libtorch_(cuda|hip|xpu)_linalg\.so"),
    regex(r"libtorch_python\.so"),
)
_CORE: Final = ("libtorch_cpu.so", "libtorch.so")
_WITH_MESSAGES: Final = ("libc10.so", "libtorch_cpu.so", "libtorch.so")
_TORCH_PYTHON: Final = "libtorch_python.so"
_FIX: Final = (
    "pass the folder of the torch package, e.g. --torch \"$(python -c 'import torch; print(torch.__path__[0])')\""
)


def from_path(path: Path, files: Files) -> TorchRelease:
    """Return the torch at ``path``.

    :param files: the torch is mounted there if it is a wheel
    :raises InputError: there is not a torch there
    """
    kind = kind_of(path)
    if kind is TargetKind.FOLDER:
        package = path.parent if path.name == "lib" and not observed_fs.is_dir(path / "lib") else path
        return _from_package(str(package.absolute()), files, named=str(path))
    if kind is TargetKind.WHEEL:
        wheel = Wheel(path)
        files.mount_archive(wheel, WHEEL_MOUNT)
        return _from_package(posixpath.join(WHEEL_MOUNT, "torch"), files, named=str(path))
    if observed_fs.is_file(path):
        if not _SHARED_OBJECT.search(path.name) or not path.name.startswith(("libtorch", "libc10")):
            raise InputError(str(path), "is not a torch library, folder or wheel", _FIX)
        # One library stands for its folder: the extension needs the other libraries in it too.
        return _from_package(
            str(path.absolute().parent.parent), files, named=str(path), folder=str(path.absolute().parent)
        )
    require_regular(path)
    raise InputError(str(path), "does not exist", _FIX)


def operator_libraries(release: TorchRelease) -> tuple[str, ...]:
    """Return the libraries of a torch that take part in registering operators, each after its dependencies."""
    libraries = release.own_libraries
    ranked = ((rank, name) for name in libraries for rank, form in enumerate(_LOAD_ORDER) if form.fullmatch(name))
    return tuple(libraries[name] for _, name in sorted(ranked))


def identify_libraries(release: TorchRelease, files: Files) -> dict[str, str]:
    """Return size and build id, by base name, of the libraries that take part in registering operators.

    For ``libtorch_python.so``, the text is empty: each Python of a release has its own, and they register the same.
    The result is empty if a library cannot be identified.
    """
    # A build id alone is the same in a library that was stripped afterwards, or patched: the size tells those.
    identified = {}
    for path in operator_libraries(release):
        name, source, facts = without_version(posixpath.basename(path)), files.find_source(path), files.object_at(path)
        if source is None or facts is None or facts.build_id is None:
            return {}
        identified[name] = "" if name == _TORCH_PYTHON else f"{source.size} {facts.build_id}"
    return identified


def read_operators(release: TorchRelease, files: Files) -> Operators:
    """Return what a torch registers, read from the code of its libraries. Takes seconds.

    :raises InputError: a library cannot be read
    """
    sources = {
        without_version(posixpath.basename(path)): files.find_source(path) for path in operator_libraries(release)
    }
    libraries = {name: source.open_elf() for name, source in sources.items() if source is not None}
    # The emulator is imported only when needed: that takes longer than reading what an earlier run has stored.
    from abiscan.emulation import recover_torch

    recovered, version, own_tags = (
        recover_torch(libraries, release.machine),
        release.torch_version,
        _find_tags(release, files),
    )
    operators = _name_keys(recovered, version, own_tags or _tags_of_release(version))
    worded = _make_wordings(version, [library for name, library in libraries.items() if name in _WITH_MESSAGES])
    return msgspec.structs.replace(
        operators,
        assertions=read_assertions(release, files),
        unworded=worded.absent,
        reworded=worded.reworded,
        assumed=frozenset(_assumed_data(operators, version, has_tags=own_tags is not None)),
    )


def _assumed_data(operators: Operators, version: TorchVersion | None, *, has_tags: bool) -> Iterator[str]:
    if not operators.keys:
        yield KEYS
    if not has_tags and (version is None or version.minor_version > newest_minor()):
        yield TAGS


def _make_wordings(version: TorchVersion | None, libraries: Collection[ElfFile]) -> Wordings:
    return wordings.compare_messages(libraries, version.minor_version) if version is not None else Wordings()


def read_assertions(release: TorchRelease, files: Files) -> dict[str, str]:
    """Return where the internal assertions of a torch are in its source, by message id.

    :raises InputError: the library that has them cannot be read
    """
    path = release.own_libraries.get(assertions.LIBRARY)
    source = files.find_source(path) if path is not None else None
    return assertions.find_places(source.open_elf()) if source is not None else {}


def _find_tags(release: TorchRelease, files: Files) -> Tags | None:
    """Return the tags in a torch's own headers; None if it has no such header."""
    for header in tags.HEADERS:
        source = files.find_source(posixpath.join(release.package, "include", header))
        result = tags.tags_in(source.read_head(1 << 16).decode("utf-8", "replace")) if source is not None else None
        if result is not None:
            return result
    return None


def _tags_of_release(version: TorchVersion | None) -> Tags:
    return tags.tags_of(version) if version is not None else Tags(names=())


def _name_keys(recovered: TorchRegistrations, version: TorchVersion | None, known_tags: Tags) -> Operators:
    """Return the registrations, with names of dispatch keys and tags instead of numbers."""
    from abiscan.dispatch.adapters import fallbacks_in, kernels_in, operators_in
    from abiscan.dispatch.agreement import drop_contradictions
    from abiscan.dispatch.registries import entry_key
    from abiscan.registrations import LibraryKind

    # Numbers become names here and nowhere else: all that comes behind compares builds, whose numbers differ.
    libraries = {name: drop_contradictions(library) for name, library in recovered.libraries.items()}
    # For keys that are missing in torch's own table of names: QuantizedCUDA in 1.6, AutocastCPU in 1.10.
    unnamed = keys_of_minor(version.minor_version if version else (0, 0))
    names = set(recovered.keys.values())
    # From 1.8 on, a kernel without a key is registered for this alias (OperatorEntry.cpp, registerKernel).
    # In 1.8 it is called Math; where there is no DefaultBackend yet, no key is the catch-all.
    no_key = "CompositeImplicitAutograd" if "CompositeImplicitAutograd" in names else None
    no_key = no_key or ("Math" if "DefaultBackend" in names else None)

    def key_name(number: int | str | None) -> str | None:
        return no_key if number is None else recovered.keys.get(int(number)) or unnamed.name(int(number))

    operators: dict[str, Operator] = {}
    for library in libraries.values():
        for operator in operators_in(library, known_tags.name):
            operators.setdefault(operator.name, operator)
    namespaces: dict[str, Place] = {}
    for library in libraries.values():
        for block in library.libraries:
            if block.kind is LibraryKind.DEF and block.namespace is not None:
                namespaces.setdefault(block.namespace, Place(block.file, block.line))
    return Operators(
        operators=operators,
        kernels=tuple(kernel for library in libraries.values() for kernel in kernels_in(library, key_name)),
        fallbacks=tuple(fallback for library in libraries.values() for fallback in fallbacks_in(library, key_name)),
        namespaces=namespaces,
        classes=frozenset(registered.name for library in libraries.values() for registered in library.classes),
        keys=recovered.keys,
        aliases={
            recovered.keys[a]: frozenset(recovered.keys[k] for k in members) for a, members in recovered.aliases.items()
        },
        gaps=tuple(
            f"{name}: {gap.reason}" + (f" (at {gap.address:#x})" if gap.address is not None else "")
            for name, library in libraries.items()
            for gap in library.gaps
        ),
        entries=tuple(
            RegistryEntry(entry.what, entry_key(entry.what, entry.key), entry.priority)
            for registries in (recovered.registries, *(library.registries for library in libraries.values()))
            for entry in registries
        ),
    )


def _from_package(package: str, files: Files, *, named: str, folder: str | None = None) -> TorchRelease:
    folder = folder or posixpath.join(package, "lib")
    # A wheel has them in ``torch/lib``, a conda environment in its own ``lib``.
    libraries = [path for path in files.list_folder(folder) if _SHARED_OBJECT.search(path)]
    if not any(without_version(posixpath.basename(path)) in _CORE for path in libraries):
        libraries += _libraries_of_conda_prefix(package, files)
    # Reversed, so that of several the first one counts: the name without a version.
    by_name = {without_version(posixpath.basename(path)): path for path in reversed(libraries)}
    core = by_name.get("libtorch_cpu.so") or by_name.get("libtorch.so")
    if core is None:
        raise InputError(named, "contains no torch: its lib folder has neither libtorch_cpu.so nor libtorch.so", _FIX)
    source = files.find_source(core)
    assert source is not None
    facts = (
        files.object_at(core) or source.open_elf().facts()
    )  # the second read raises the error that the first one hid
    modules = [
        path
        for path in files.list_folder(package)
        if posixpath.basename(path).startswith("_C.") and path.endswith(".so")
    ]
    module = (
        modules[:1]
        or [by_name[name] for name in ("libtorch_python.so", "libtorch.so") if name in by_name][:1]
        or [core]
    )
    dependencies = [by_name[name] for name in ("libtorch_global_deps.so",) if name in by_name]
    # Up to 1.4 there is no libtorch_global_deps.so: torch made everything global (torch/__init__.py of those releases).
    return TorchRelease(
        build=build_of(package, files).version,
        package=package,
        machine=facts.machine,
        python=PythonTag.of_file(posixpath.basename(modules[0])) if modules else None,
        libraries=tuple(libraries),
        global_libraries=tuple(dependencies or module),
        local_libraries=tuple(module if dependencies else ()),
        preloaded=tuple(list_preloaded(package, dependencies[0], files) if dependencies else ()),
    )


def _libraries_of_conda_prefix(package: str, files: Files) -> list[str]:
    """List torch's libraries in the ``lib`` folder of a conda environment, among those of other packages.

    The package itself is in ``lib/python3.11/site-packages`` there.
    """
    site, python = posixpath.split(posixpath.dirname(posixpath.dirname(package)))
    if not python.startswith("python") or posixpath.basename(site) != "lib":
        return []
    return [path for path in files.list_folder(site) if is_torch_library(posixpath.basename(path))]
