"""The targets that a user names: a shared object, a wheel, a folder - and the extensions of torch in them."""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from msgspec import Struct, field

from abiscan.binary.elf import SharedObject, SourceLine
from abiscan.binary.image import is_image
from abiscan.binary.loadable import MAGIC
from abiscan.binary.ownership import is_torch_library, is_torch_symbol
from abiscan.errors import InputError, NoExtensionError
from abiscan.inputs import observed_fs, package_files, variants
from abiscan.inputs.files import Archive, DiskFile, ElfSource, Files, Wheel, check_existence
from abiscan.inputs.image_files import ImageFile, read_image_files, users_of_torch
from abiscan.inputs.kinds import TargetKind, is_wheel_name, kind_of, may_be_package
from abiscan.inputs.model_archive import PICKLE_MAGIC, ModelArchive, begins_like_model
from abiscan.inputs.package_files import Package
from abiscan.inputs.packages import (
    FIX,
    SHARED_OBJECT,
    Distribution,
    FetchedSource,
    FetchedWheel,
    RemoteWheel,
    is_library,
)
from abiscan.inputs.spreading import find_metadata, installed_path
from abiscan.inputs.wheel_tag import is_for_any_system
from abiscan.regex import regex
from abiscan.words import plural

if TYPE_CHECKING:
    from abiscan.inputs.conda import CondaPackage
    from abiscan.inputs.requirement import Metadata

_IOS_TAG: Final = regex(r"-ios[^-]*\.whl$")
_IMPORTS_TORCH: Final = regex(
    rb"^[ \t]*(?:from[ \t]+torch\b|import[ \t]+(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*torch\b)"
    rb"|\b(?:import_module|__import__)\(\s*['\"]torch[.'\"]",
    re.MULTILINE,
)
_REQUIRES_TORCH: Final = regex(r"\s*torch\s*([\[(<>=!~;@]|$)", re.IGNORECASE)
_NAMES_TORCH: Final = regex(b"torch|c10", re.IGNORECASE)


class Missing(Struct, frozen=True):
    """A target that there is not; reading it raises the ``error``."""

    name: str
    error: InputError


Source = Path | Distribution | FetchedWheel | FetchedSource | RemoteWheel | Missing
"""What can be read as a target: a path, an installed package, a wheel or source distribution that was downloaded, or a
wheel that is read in place."""


def name_of(source: Source) -> str:
    """Return how messages name a target: as the user did, if possible."""
    if isinstance(source, FetchedWheel | FetchedSource | RemoteWheel):
        return source.path.name
    return source.name if isinstance(source, Missing) else str(source)


class Extension(Struct, frozen=True, kw_only=True):
    """One ELF object of a target that uses torch.

    ``path`` is relative to the target, ``location`` is its path on disk (or its future path, once installed),
    ``source`` has its bytes; ``assertions`` are the source lines of its assertions.
    """

    path: str
    location: str
    facts: SharedObject
    source: ElfSource
    assertions: frozenset[SourceLine]


class Target(Struct, frozen=True, kw_only=True):
    """A target that was read.

    ``kind`` is what it is. ``root`` is the folder that its contents are in; ``siblings`` are its libraries by base name
    and soname; ``libraries`` are those of a package by location, whether they use torch or not; ``unreadable`` has the
    members that cannot be read as ELF objects, by path; ``metadata`` is the metadata of a package, None if the target
    has none; ``package`` has all files of a package, None if the target is not one. A package may be without an
    extension: see ``require_extensions``. ``images`` has the libraries of a target for Windows or macOS, in which
    nothing else counts.
    """

    name: str
    kind: TargetKind
    root: str
    extensions: tuple[Extension, ...]
    siblings: Mapping[str, str]
    unreadable: tuple[tuple[str, InputError], ...]
    metadata: Metadata | None
    package: Package | None = None
    libraries: Mapping[str, Extension] = field(default_factory=dict)
    images: tuple[ImageFile, ...] = ()

    def brings(self, path: str) -> bool:
        """Whether a library is the target's own: one that it has, or that lies next to it."""
        return (
            path in self.libraries or path in self.siblings.values() or any(e.location == path for e in self.extensions)
        )

    def list_linked(self, extension: Extension) -> Iterator[Extension]:
        """Yield the libraries of the package that an extension needs, in the order in which ``ld.so`` searches them."""
        # Breadth first, as ld.so maps and searches them (ld.so(8)).
        seen, waiting = {extension.location}, deque(extension.facts.needed)
        while waiting:
            library = self.libraries.get(self.siblings.get(waiting.popleft(), ""))
            if (
                library is not None
                and library.location not in seen
                and library.facts.machine is extension.facts.machine
            ):
                seen.add(library.location)
                waiting += library.facts.needed
                yield library

    @property
    def uses_torch(self) -> bool:
        """Whether any of its libraries uses torch."""
        return bool(self.extensions or users_of_torch(self.images))

    @property
    def is_python(self) -> bool:
        """Whether it is a package without anything that is compiled."""
        return self.package is not None and not self.libraries and not self.unreadable and not self.images

    @property
    def is_model(self) -> bool:
        """Whether it is a saved model, which need not have a library."""
        return self.kind is TargetKind.MODEL

    def require_extensions(self) -> None:
        """Reject a package that does not use torch.

        :raises NoExtensionError: there is nothing that uses torch, or that could not be read
        """
        if not self.uses_torch and not self.unreadable:
            raise _no_extension(self.name)

    def require_readable(self) -> None:
        """Reject a target without an extension that was read.

        :raises NoExtensionError: there is nothing that uses torch
        :raises InputError: why what there is cannot be read
        """
        self.require_extensions()
        if self.images:
            problem = f"is for {self.images[0].system.value}; what such files register is not read"
            raise InputError(self.name, problem, "pass its build for Linux")
        if not self.extensions:
            raise self.unreadable[0][1]


def read_target(source: Source, files: Files, site: str, torch_package: str, *, any_package: bool = False) -> Target:
    """Read a target.

    :param source: a path, an installed package, what was downloaded
    :param files: a wheel is mounted there
    :param site: the folder into which a wheel would be installed: the one that contains torch
    :param torch_package: torch's own folder, which is skipped inside a target folder
    :param any_package: whether an installed package is read, too, that is Python code alone and does not use torch
    :raises InputError: it does not exist, cannot be read, or is not a package and contains nothing that uses torch
    """
    if isinstance(source, Missing):
        raise source.error
    if isinstance(source, Distribution):
        return _read_distribution(source, files, any_package=any_package)
    if isinstance(source, FetchedWheel):
        return _read_wheel(source.path, files, site, name=name_of(source))
    if isinstance(source, FetchedSource):
        return _read_source(source.path, files, site, name=name_of(source), for_pip=source.requirement)
    if isinstance(source, RemoteWheel):
        return _read_wheel(source.path, files, site, name=name_of(source), stream=source.stream(), spare=source.spare)
    path = source
    kind = kind_of(path) if check_existence(path) else None
    if kind is TargetKind.FOLDER:
        return _read_folder(path, files, torch_package)
    if is_wheel_name(path.name):  # one that is not there, too
        return _read_wheel(path, files, site, name=str(path))
    if not observed_fs.is_file(path):
        raise InputError(str(path), "does not exist", FIX)
    if kind is TargetKind.CONDA:
        return _read_conda(path, files, site)
    if kind is TargetKind.SOURCE:
        return _read_source(path, files, site, name=str(path), for_pip=str(path))
    # By its first bytes, since models have any name: .pt, .pt2, .pth, .bin, none.
    head = DiskFile(path).read_head(len(PICKLE_MAGIC))
    return _read_model(path, files) if begins_like_model(head) else _read_object(path, files)


def open_archive(source: Path | FetchedWheel | FetchedSource | RemoteWheel) -> Archive | None:
    """Open a target that is a package in one file; None if it is something else.

    :raises InputError: it cannot be read
    """
    if isinstance(source, RemoteWheel):
        return Wheel(source.path, source.stream())
    path = source if isinstance(source, Path) else source.path
    match kind_of(path):
        case TargetKind.WHEEL:
            return Wheel(path)
        case TargetKind.CONDA:
            return _conda_package(path)
    return None


def _conda_package(path: Path) -> CondaPackage:
    from abiscan.inputs.conda import CondaPackage  # few targets are

    return CondaPackage(path)


def content_of(source: Source) -> list[Source]:
    """Return what a target stands for: the packages directly in a folder, and the folder if it has any shared
    object.
    """
    if not isinstance(source, Path) or not observed_fs.is_dir(source):
        return [source]
    # The folder itself comes first only if it has libraries outside of the packages in it.
    packages = _packages_in(source)
    return [*packages] if packages and next(_walk_libraries(source), None) is None else [source, *packages]


def _packages_in(folder: Path) -> list[Path]:
    paths = (folder / name for name in observed_fs.list_names(folder))
    return sorted(path for path in paths if may_be_package(path.name) and observed_fs.is_file(path))


def library_paths(source: Source, files: Files, site: str) -> list[str]:
    """Return where the shared objects of a target lie, or would lie once installed.

    :param files: gets a wheel mounted
    :param site: the folder into which a wheel would be installed
    :raises InputError: it cannot be read
    """
    if isinstance(source, Missing):
        raise source.error
    if isinstance(source, Distribution):
        return list(source.objects)
    path = source if isinstance(source, Path) else source.path
    if observed_fs.is_dir(path):
        return [str(path.absolute() / name) for name in _walk_libraries(path)]
    archive = open_archive(source)
    if archive is None:
        return [str(path.absolute())]
    files.mount_archive(archive, site, over=False)  # another version of a package may be what is looked at
    return [archive.installed_path(name, site) for name in archive.list_members() if SHARED_OBJECT.search(name)]


def _read_object(path: Path, files: Files) -> Target:
    location = str(path.absolute())
    if is_image(DiskFile(path).read_head(len(MAGIC))):
        target = _of_images(
            str(path), TargetKind.LIBRARY, posixpath.dirname(location), [(path.name, location, DiskFile(path))]
        )
        if target.unreadable:
            raise target.unreadable[0][1]
        return target
    extension = _make_extension(path.name, location, DiskFile(path))
    files.put_facts(location, extension.facts)
    folder = posixpath.dirname(location)
    siblings = {posixpath.basename(file): file for file in files.list_folder(folder) if SHARED_OBJECT.search(file)}
    return Target(
        name=str(path),
        kind=TargetKind.PROGRAM if extension.facts.executable else TargetKind.LIBRARY,
        root=folder,
        extensions=(extension,),
        siblings=siblings,
        unreadable=(),
        metadata=None,
    )


def _read_model(path: Path, files: Files) -> Target:
    """Read the libraries of a saved model; the rest of it is read where a verdict on it is found."""
    root, extensions, unreadable = str(path.absolute()), list[Extension](), list[tuple[str, InputError]]()
    if DiskFile(path).read_head(len(PICKLE_MAGIC)) != PICKLE_MAGIC:
        archive = ModelArchive(path)
        files.mount_archive(archive, root)
        for name in archive.list_libraries():
            location = posixpath.join(root, name)
            try:
                extensions.append(_make_extension(name, location, archive.find_member(name)))
            except InputError as error:
                unreadable.append((name, error))
                continue
            files.put_facts(location, extensions[-1].facts)
    return Target(
        name=str(path),
        kind=TargetKind.MODEL,
        root=root,
        extensions=tuple(extensions),
        siblings={},
        unreadable=tuple(unreadable),
        metadata=None,
    )


def _read_folder(path: Path, files: Files, torch_package: str) -> Target:
    root = str(path.absolute())
    names = [name for name in _walk_libraries(path) if not posixpath.join(root, name).startswith(torch_package + "/")]
    if not names and (packages := _packages_in(path)):
        raise InputError(str(path), f"contains no shared object, but {plural(len(packages), 'wheel')}", "pass a wheel")
    members = ((name, posixpath.join(root, name), DiskFile(path / name)) for name in names)
    package = package_files.of_folder(path)
    if package is None and not names:
        from abiscan.inputs.source_trees import of_project

        package = of_project(path)
    return _read_members(str(path), TargetKind.FOLDER, root, members, files, metadata=None, package=package)


def _read_source(path: Path, files: Files, site: str, *, name: str, for_pip: str) -> Target:
    """Read the Python code of a source distribution: nothing in it is built, so there is nothing else to check."""
    from abiscan.inputs.source_trees import of_source_archive

    try:
        package = of_source_archive(path, site)
        return _read_members(name, TargetKind.SOURCE, site, (), files, metadata=None, package=package)
    except InputError as error:
        fix = f"build a wheel from it and pass that: pip wheel --no-deps {for_pip}"
        problem = "is an archive of source code, in which nothing is compiled yet"
        raise InputError(name, problem, fix) from error


def _walk_libraries(path: Path) -> Iterator[str]:
    """Yield relative paths of the shared objects below ``path``; a file with several names appears once."""
    seen_files: set[tuple[int, int]] = set()
    for folder, _, names in observed_fs.walk_folder(path):
        # libfoo.so, libfoo.so.1 and libfoo.so.1.2 are often one file: the shortest name is the one that people know.
        for name in sorted(names, key=lambda name: (len(name), name)):
            file = Path(folder, name)
            if not is_library(name) or not observed_fs.is_file(file):
                continue
            status = file.stat()
            if (status.st_dev, status.st_ino) not in seen_files:
                seen_files.add((status.st_dev, status.st_ino))
                yield file.relative_to(path).as_posix()


def uses_torch(distribution: Distribution, files: Files) -> bool:
    """Return whether an installed package has an extension of torch for Linux."""
    # A search for two names in the file's bytes decides for most libraries, and costs less than reading ELF.
    objects = (files.object_at(path) for path in distribution.objects if may_need_torch(files.find_source(path)))
    return any(facts is not None and needs_torch(facts) for facts in objects)


def images_use_torch(distribution: Distribution) -> bool:
    """Return whether an installed package has an extension of torch for Windows or macOS."""
    members = (member for member in _files_of(distribution) if is_image(member[2].read_head(len(MAGIC))))
    images, _ = read_image_files(members)
    return bool(users_of_torch(images))


def requires_torch(line: str) -> bool:
    """Return whether a requirement is one of torch, whatever its marker says: an extra makes use of torch, too."""
    # Metadata older than PEP 440 have versions that cannot be read ("torch>=1.7.*"): the name is enough.
    return _REQUIRES_TORCH.match(line) is not None


def may_need_torch(source: ElfSource | None) -> bool:
    """Return whether a file may be linked with torch; most of an environment's libraries are not."""
    try:
        return source is not None and source.open_elf().may_need_torch()
    except InputError:
        return False


def _files_of(distribution: Distribution) -> Iterator[tuple[str, str, DiskFile]]:
    """Yield the libraries of an installed package: their paths in it and on disk."""
    for path in (*distribution.objects, *distribution.images):
        if observed_fs.is_file(path):  # a listed file may be deleted
            yield posixpath.relpath(path, distribution.site), path, DiskFile(Path(path))


def _read_distribution(distribution: Distribution, files: Files, *, any_package: bool) -> Target:
    from abiscan.inputs.requirement import metadata_of

    variant = variants.variant_of_wheel("", distribution.variant) if distribution.variant else None
    metadata = metadata_of(distribution.requires, distribution.version, variant=variant)
    package = package_files.of_distribution(distribution)
    members = _files_of(distribution)
    return _read_members(
        str(distribution),
        TargetKind.INSTALLED,
        distribution.site,
        members,
        files,
        metadata,
        package,
        any_package=any_package,
    )


def _read_wheel(
    path: Path,
    files: Files,
    site: str,
    *,
    name: str,
    stream: IO[bytes] | None = None,
    spare: Collection[str] = (),
) -> Target:
    if _IOS_TAG.search(variants.without_label(path.name)):
        raise InputError(name, "is for iOS", "abiscan checks extensions for Linux, Windows and macOS")
    # Everything is mounted before anything is checked: a library's neighbours are looked up as if installed.
    wheel = Wheel(path, stream)
    paths = list(wheel.list_members())
    left_out = {path for path in paths if spare and installed_path(path, "") in spare}
    files.mount_archive(wheel, site, without=left_out)
    read = (path for path in paths if is_library(path) and path not in left_out)
    members = ((path, installed_path(path, site), wheel.find_member(path)) for path in read)
    package = package_files.of_archive(wheel, site)
    return _read_members(name, TargetKind.WHEEL, site, members, files, _make_metadata(wheel, paths), package)


def _make_metadata(wheel: Wheel, paths: list[str]) -> Metadata:
    path = find_metadata(paths)
    from abiscan.inputs.requirement import read_metadata

    label, stated = variants.variant_label(wheel.path.name), next(filter(variants.METADATA.fullmatch, paths), None)
    variant = variants.variant_of_wheel(label, wheel.read_text(stated) if stated else None)
    return read_metadata(wheel.read_text(path) if path else "", wheel.path.name, variant)


def _read_conda(path: Path, files: Files, site: str) -> Target:
    from abiscan.inputs.requirement import metadata_of

    archive = _conda_package(path)
    files.mount_archive(archive, site)
    names = filter(is_library, archive.list_members())
    members = ((name, archive.installed_path(name, site), archive.find_member(name)) for name in names)
    # These are what conda's solver uses; the wheel's metadata inside, if there are any, are ignored.
    metadata = metadata_of(archive.requirements, archive.version)
    package = package_files.of_archive(archive, site)
    return _read_members(str(path), TargetKind.CONDA, site, members, files, metadata, package)


def _make_extension(path: str, location: str, source: ElfSource) -> Extension:
    file = source.open_elf()
    return Extension(path=path, location=location, facts=file.facts(), source=source, assertions=file.assertions())


def _read_members(
    name: str,
    kind: TargetKind,
    root: str,
    members: Iterable[tuple[str, str, ElfSource]],
    files: Files,
    metadata: Metadata | None,
    package: Package | None,
    *,
    any_package: bool = False,
) -> Target:
    objects: dict[str, Extension] = {}
    unreadable: list[tuple[str, InputError]] = []
    images: list[tuple[str, str, ElfSource]] = []
    # One damaged member does not hide the others: its error is kept for the report.
    for path, location, source in members:
        try:
            if not (head := source.read_head(len(MAGIC))).startswith(MAGIC):
                # If it is no image either: a linker script or a data file, which a process cannot load.
                if is_image(head):
                    images.append((path, location, source))
                continue
            objects[location] = _make_extension(path, location, source)
        except InputError as error:
            unreadable.append((path, error))
            continue
        files.put_facts(location, objects[location].facts)
    if not objects and images:
        return _of_images(name, kind, root, images, metadata, package)
    # A wheel's tag names one system, and the images of another one in it are never loaded.
    if metadata is None or is_for_any_system(metadata.wheel):  # others are for one system
        unreadable += _for_other_systems(images)
    if not objects and not unreadable and not any_package and (package is None or not _imports_torch(package)):
        if metadata is not None:  # a package may be pure Python: that is fine
            raise _no_extension(name)
        raise InputError(name, "contains no shared object", "pass the .so, the wheel or the folder of an extension")
    # By file name and by soname, since ld.so knows a loaded library by both (elf/dl-load.c); the first one counts.
    siblings: dict[str, str] = {}
    for location, member in objects.items():
        siblings.setdefault(posixpath.basename(location), location)
        if member.facts.soname:
            siblings.setdefault(member.facts.soname, location)
    users = _users_of_torch(objects, siblings)
    extensions = tuple(member for location, member in objects.items() if location in users)
    if not extensions and not unreadable and package is None:
        raise _no_extension(name)
    return Target(
        name=name,
        kind=kind,
        root=root,
        extensions=extensions,
        siblings=siblings,
        unreadable=tuple(unreadable),
        metadata=metadata,
        package=package,
        libraries=objects,
    )


def _imports_torch(package: Package) -> bool:
    """Return whether the Python code of a package imports torch, wherever it does."""
    # The metadata do not tell: torch may be among the extras, or be required in words that cannot be parsed, or not be
    # mentioned at all since users are to choose its build themselves.
    sources = (package.read(path) for path in package.members if path.endswith(".py"))
    return any(b"torch" in source and _IMPORTS_TORCH.search(source) is not None for source in sources)


def _no_extension(name: str) -> NoExtensionError:
    return NoExtensionError(name, "nothing in it uses torch", "pass an extension of torch")


def _for_other_systems(members: Iterable[tuple[str, str, ElfSource]]) -> Iterator[tuple[str, InputError]]:
    """Yield why the images that use torch are not checked, in a target that has ELF objects, too."""
    named = [member for member in members if _NAMES_TORCH.search(member[2].read_head(member[2].size))]
    images, unreadable = read_image_files(named) if named else ((), ())
    yield from unreadable
    for image in users_of_torch(images):
        problem = f"is for {image.system.value}, and not checked together with files for Linux"
        yield image.path, InputError(image.path, problem, "pass it by itself")


def _of_images(
    name: str,
    kind: TargetKind,
    root: str,
    members: Iterable[tuple[str, str, ElfSource]],
    metadata: Metadata | None = None,
    package: Package | None = None,
) -> Target:
    """Return a target for Windows or macOS."""
    images, unreadable = read_image_files(members)
    if not users_of_torch(images) and not unreadable and metadata is None:
        raise _no_extension(name)
    return Target(
        name=name,
        kind=kind,
        root=root,
        extensions=(),
        siblings={},
        unreadable=unreadable,
        metadata=metadata,
        package=package,
        images=images,
    )


def _users_of_torch(objects: Mapping[str, Extension], siblings: Mapping[str, str]) -> set[str]:
    """Return the objects that are linked with torch or reference it, directly or through a sibling."""
    users = {location for location, member in objects.items() if needs_torch(member.facts)}
    # A fixed point, as a library may use torch through a second one that comes later in the list.
    grown = True
    while grown:
        reached = {
            location
            for location, member in objects.items()
            if any(siblings.get(needed) in users for needed in member.facts.needed)
        }
        grown = not reached <= users
        users |= reached
    return users


def needs_torch(facts: SharedObject) -> bool:
    """Whether a shared object is itself linked with torch, or references a symbol of torch."""
    return any(map(is_torch_library, facts.needed)) or any(map(is_torch_symbol, facts.imports))
