"""The files of a package: where its Python code and its libraries are."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Protocol

from abiscan.python.package.model import Answer
from abiscan.python.package.systems import LINUX, PythonSystem
from abiscan.regex import regex

_TEST = regex(r"(^|/)_?((tests?|conftest)(/|\.py$)|test_|[^/]*_test\.py$)")
_PROGRAM = regex(r"(^|/)_?(testing|benchmarks?|examples?|scripts?|tools?|setup|__main__)(/|\.py$)")
_MOST_PATHS = 20_000
_SAVED = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".tar")
_NAMES_SYSTEM = regex(r"os_name|sys_platform|platform_system")


class PackageSources(Protocol):
    """A package as a wheel, a folder or an installed distribution has it."""

    def members(self) -> Sequence[str]:
        """Return the paths of all its files, relative to the folder that it is installed in."""
        ...

    def read(self, path: str) -> bytes:
        """Return the bytes of one of them."""
        ...

    def needed(self, path: str) -> Sequence[str]:
        """Return the names of the libraries that one of its libraries needs (``DT_NEEDED``)."""
        ...


class PackageFiles:
    """What the package finds when it looks at its own files.

    :param system: the one that it is for
    """

    def __init__(self, sources: PackageSources, system: PythonSystem = LINUX) -> None:
        self.sources = sources
        self.system = system
        self.members = frozenset(posixpath.normpath(path) for path in sources.members())
        self._cache: dict[str, bytes] = {}
        self._needed: dict[str, Sequence[str]] = {}

    @cached_property
    def folders(self) -> dict[str, set[str]]:
        """Each folder, and the names in it."""
        names: dict[str, set[str]] = {"": set()}
        for member in self.members:
            path = member
            # Up to the first folder that is known: those above it are listed already.
            while path:
                head, _, name = path.rpartition("/")
                is_listed = head in names
                names.setdefault(head, set()).add(name)
                path = "" if is_listed else head
        return names

    @cached_property
    def has_saved(self) -> bool:
        """Whether a file may be one that ``torch.save`` has written, by its name."""
        return any(path.endswith(_SAVED) for path in self.members)

    @cached_property
    def libraries(self) -> tuple[str, ...]:
        """The shared libraries, by path."""
        return tuple(sorted(path for path in self.members if self.system.libraries.search(path)))

    def with_needed(self, paths: Iterable[str]) -> list[str]:
        """Return libraries of the package, and all in it that they need, to the end of the chain."""
        needed = dict.fromkeys(paths)
        waiting = [path for path in needed if path in self.members]
        while waiting:
            new = [path for path in self._needed_by(waiting.pop()) if path not in needed]
            needed.update(dict.fromkeys(new))
            waiting += new
        return list(needed)

    def has_all(self, paths: Iterable[str]) -> bool:
        """Whether libraries, and all that they need, are all that the package has."""
        return set(self.with_needed(paths)).issuperset(self.libraries)

    def _needed_by(self, library: str) -> Sequence[str]:
        """Return the libraries of the package that one needs itself."""
        if library not in self._needed:
            names = map(self.system.file_name, self.sources.needed(library))
            self._needed[library] = tuple(dict.fromkeys(path for name in names for path in self._by_name.get(name, ())))
        return self._needed[library]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """The paths of the libraries, by the names of their files."""
        by_name: dict[str, list[str]] = {}
        for path in self.libraries:
            by_name.setdefault(self.system.file_name(path), []).append(path)
        return by_name

    def read(self, path: str) -> bytes:
        """Return the bytes of a member."""
        if path not in self._cache:
            self._cache[path] = self.sources.read(path)
        return self._cache[path]

    def forget(self) -> None:
        """Let go of what was read."""
        self._cache.clear()

    def inside(self, path: str) -> str | None:
        """Return the path inside the package, None if it is elsewhere."""
        return self.system.inside(path)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder; ``path`` is inside the package."""
        return path in self.members or path in self.folders

    def under(self, folder: str, pattern: str) -> list[str]:
        """Return what a glob pattern finds below a folder, relative to it."""
        steps = [step for step in pattern.split("/") if step not in {"", "."}]
        paths = [folder] if steps else []
        # Step by step, all paths at once. ``**`` stands for no folder, too, hence the folder itself.
        for step in steps:
            if step == "**":
                paths = list(dict.fromkeys(below for path in paths for below in self._all_below(path)))
                continue
            paths = [
                posixpath.join(path, name)
                for path in paths
                for name in sorted(self.folders.get(path, ()))
                if fnmatch.fnmatchcase(name, step)
            ]
            if len(paths) > 100_000:
                return []
        return [posixpath.relpath(path, folder or ".") for path in paths]

    def _all_below(self, folder: str) -> Iterable[str]:
        yield folder
        for name in sorted(self.folders.get(folder, ())):
            path = posixpath.join(folder, name)
            if path in self.folders:
                yield from self._all_below(path)

    def extension(self, stem: str, python: tuple[int, int] | Answer) -> str | None:
        """Return the file that Python's import finds for an extension module, by the path without its suffix."""
        candidates = self._by_stem.get(stem, ())
        # In the order of ``importlib.machinery.EXTENSION_SUFFIXES``: the tag of the Python first.
        for suffix in ("tagged", *self.system.suffixes):
            for candidate in candidates:
                remainder = candidate[len(stem) :]
                if (suffix == "tagged" and self.system.accepts_tag(remainder, python)) or remainder == suffix:
                    return candidate
        return None

    def extensions(self, python: tuple[int, int] | Answer) -> tuple[str | None, ...]:
        """Return the file that a Python finds for each extension module that there may be."""
        return tuple(self.extension(stem, python) for stem in self._by_stem)

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        """The libraries, by their paths up to the first dot of the name."""
        paths: dict[str, list[str]] = {}
        for path in self.libraries:
            folder, _, name = path.rpartition("/")
            paths.setdefault(posixpath.join(folder, name.partition(".")[0]), []).append(path)
        return paths

    @cached_property
    def extension_names(self) -> frozenset[bytes]:
        """The names that the libraries may be imported by, without their packages."""
        return frozenset(stem.rpartition("/")[2].encode("utf-8", "surrogatepass") for stem in self._by_stem)

    def entry_points(self, group: str) -> list[tuple[str, str]] | None:
        """Return what the package names for others to find: ``[("npu", "torch_npu:_autoload")]``; None if unread."""
        suffix = ".dist-info/entry_points.txt"
        paths = (path for path in self.members if path.endswith(suffix) and path.count("/") == 1)
        return entry_points_in(map(self.read, paths), group)

    def libraries_of(self, module: str) -> list[str]:
        """Return the shared libraries in a package by name, or the extension module that goes by it."""
        folder = module.replace(".", "/") + "/"
        return [path for path in self.libraries if path.startswith(folder) or self.importable_name(path) == module]

    def importable_sources(self, modules: Iterable[str]) -> list[str]:
        """Return the source files of these modules, and of other top-level packages that hold libraries."""
        own = {name.partition(".")[0] for name in modules}
        own |= {path.partition("/")[0] for path in self.libraries}
        paths = (path for path in self.members if path.endswith(".py"))
        return sorted(path for path in paths if path.partition("/")[0].removesuffix(".py") in own)

    def importable_name(self, path: str) -> str | None:
        """Return the name of the extension module that a library is, if its file name is one; for any Python."""
        folder, _, name = path.rpartition("/")
        stem = self.system.module.sub("", name)
        if stem == name or not stem.isidentifier():
            return None
        return ".".join([*filter(None, folder.split("/")), stem])

    def top_level(self) -> tuple[str, ...]:
        """Return the names that the package is imported by: those that it declares, else those that its files have."""
        return tuple(dict.fromkeys(inner for name in self._top_level() for inner in self._regular_packages(name)))

    def installed_modules(self) -> tuple[str, ...]:
        """Return the names of all modules that stand at the top, whatever is declared."""
        return tuple(dict.fromkeys(inner for name in self._at_the_top() for inner in self._regular_packages(name)))

    def _regular_packages(self, name: str) -> list[str]:
        """Return a package, or those that are in it if others may put packages into it, too (PEP 420)."""
        folder = name.replace(".", "/")
        names = self.folders.get(folder, set())
        modules = {f"__init__{suffix}" for suffix in (".py", *self.system.suffixes)}
        # A folder without an ``__init__`` is a namespace package: importing it runs nothing, so the packages in it are
        # imported.
        if not names or modules & names or any(subpackage.endswith(".py") for subpackage in names):
            return [name]
        inside = [
            f"{name}.{subpackage}"
            for subpackage in sorted(names)
            if f"{folder}/{subpackage}/__init__.py" in self.members
        ]
        return inside or [name]

    def _top_level(self) -> tuple[str, ...]:
        for path in sorted(self.members):
            if path.endswith(".dist-info/top_level.txt"):
                lines = self.read(path).decode("utf-8", "replace").split()
                declared = tuple(line.replace("/", ".") for line in lines if self._is_importable(line))
                if declared:
                    return declared
        # Without a list of them, all that stands at the top counts, but for what installers put there.
        return self._at_the_top()

    def _at_the_top(self) -> tuple[str, ...]:
        names = {
            name.removesuffix(".py") for name in self.folders[""] if not name.endswith((".dist-info", ".data", ".libs"))
        }
        return tuple(sorted(name for name in names if name.isidentifier() and self._is_importable(name)))

    def _is_importable(self, name: str) -> bool:
        return any(
            path == f"{name}.py"
            or (path.startswith(f"{name}/") and path.endswith((".py", *self.system.suffixes)))
            or self.importable_name(path) == name
            for path in self.members
        )


@lru_cache(maxsize=_MOST_PATHS)  # many look at the same sources
def is_for_users(file: str) -> bool:
    """Whether users may import or call what is in a source of a package, by its path: it is no test, nor a program."""
    return not (is_test(file) or program_part(file))


def program_part(file: str) -> str | None:
    """Return the part of a path by which a source seems to be a program, or one for developers; None if it is none."""
    found = _PROGRAM.search(file)
    return found[2] if found else None


def is_test(file: str) -> bool:
    """Whether a source of a package is one of its tests, by its path."""
    return bool(_TEST.search(file))


def normalized(name: str) -> str:
    """Return the name of a distribution, or of its module, as those of both are compared."""
    return re.sub(r"[-_.]+", "_", name).lower()


def entry_points_in(texts: Iterable[bytes], group: str) -> list[tuple[str, str]] | None:
    """Return the entry points of a group in files ``entry_points.txt``, each with its name and value.

    None if Python does not read one of them either: see ``Sectioned`` in Lib/importlib/metadata/__init__.py.
    """
    found: list[tuple[str, str]] = []
    for text in texts:
        section = ""
        lines = map(str.strip, text.decode("utf-8", "replace").splitlines() if group.encode() in text else ())
        for line in lines:
            if not line or line.startswith("#"):
                continue
            name, sign, value = map(str.strip, line.partition("="))
            if line.startswith("[") and line.endswith("]"):
                section = line.strip("[]")
            elif not sign:
                return None
            elif section == group:
                found.append((name, value))
    return found


def requirements(files: PackageFiles) -> frozenset[str]:
    """Return the distributions that the package requires on its system, by normalised name, without those of extras.

    Of the conditions, those count that name a system: the others are about what is not known here.
    """
    names = set()
    for path in files.members:
        if path.endswith(".dist-info/METADATA"):
            for line in files.read(path).decode("utf-8", "replace").splitlines():
                match = re.match(r"Requires-Dist:\s*([A-Za-z0-9._-]+)(.*)", line)
                if match and "extra" not in match[2].partition(";")[2] and _is_for(files.system, line):
                    names.add(normalized(match[1]))
                if not line:
                    break
    return frozenset(names)


def specifier_of(files: PackageFiles, name: str, *, with_extras: bool = False) -> str | None:
    """Return what the package requires of the version of a distribution under all conditions; None for nothing.

    :param with_extras: whether the requirements of extras count, too
    """
    spelled = b"[-_.]+".join(map(re.escape, normalized(name).encode().split(b"_")))
    end = rb"(?:;[ \t]*extra[^\n]*)?$" if with_extras else rb"\r?$"
    required = re.compile(rb"(?mi)^Requires-Dist:[ \t]*%b[ \t]*\(?([<>=~!][^;)\n]*?)\)?[ \t]*%b" % (spelled, end))
    metadata = (files.read(path) for path in files.members if path.endswith(".dist-info/METADATA"))
    specifiers = [match.decode("utf-8", "replace") for text in metadata for match in required.findall(text)]
    return ",".join(specifiers) or None


def names_distribution(files: PackageFiles, name: str) -> bool:
    """Whether the metadata of a package require a distribution, be it for an extra."""
    spelled = b"[-_.]+".join(map(re.escape, normalized(name).encode().split(b"_")))
    required = re.compile(rb"(?mi)^Requires-Dist:[ \t]*%b(?![\w.-])" % spelled)
    return any(required.search(files.read(path)) for path in files.members if path.endswith(".dist-info/METADATA"))


def _is_for(system: PythonSystem, line: str) -> bool:
    marker = line.partition(";")[2]
    if not _NAMES_SYSTEM.search(marker) or "platform_machine" in marker:
        return True
    from abiscan.inputs.requirement import parse_applying  # takes as long to import as checking a small file

    names = {"os_name": system.os_name, "sys_platform": system.sys_platform, "platform_system": system.name}
    return parse_applying(line.partition(":")[2].strip(), names) is not None
