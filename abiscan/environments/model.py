"""One environment: a Python, and the distributions that it finds, installed already or once a plan is carried out."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from abiscan.errors import InputError
from abiscan.inputs import interpreter, observed_fs, packages
from abiscan.inputs.files import Files, Wheel
from abiscan.inputs.image_files import IMAGE_NAME
from abiscan.inputs.packages import Distribution, FetchedWheel
from abiscan.inputs.requirement import parse_applying
from abiscan.inputs.sources import may_need_torch, requires_torch
from abiscan.python.language.scan import imports_of
from abiscan.regex import regex
from abiscan.torches.torch import TorchOf
from abiscan.verdict.systems import own_system

_CODE: Final = regex(r"\.(?:py|so|pyd)$")
_INFO: Final = (".dist-info", ".egg-info")
_DEFERS: Final = regex(rb"^(?:def __getattr__\(|[ \t]*sys\.modules\[__name__\] = _LazyModule)", re.MULTILINE)
_DEPTH: Final = 2
_MOST_SOURCES: Final = 5_000


class Unmet(Struct, frozen=True, kw_only=True):
    """A requirement that nothing in an environment meets.

    :ivar requirement: as the metadata have it, without its marker
    :ivar name: what is required, canonically
    :ivar there: the version that is installed, None if there is none
    """

    subject: str
    requirement: str
    name: str
    there: str | None

    def __str__(self) -> str:
        # In the words of ``pip check`` (pip's src/pip/_internal/commands/check.py).
        if self.there is None:
            return f"{self.subject} requires {self.name}, which is not installed."
        return f"{self.subject} has requirement {self.requirement}, but you have {self.name} {self.there}."


class WholeEnvironment(Struct, frozen=True, kw_only=True, dict=True):
    """A Python, and the distributions that it finds.

    :ivar python: its executable, None for the running one
    :ivar distributions: the first of each name on its search path, which shadows the others
    :ivar over: the folder of what a plan would install, which lies over the rest; None for what is installed
    """

    python: str | None
    distributions: tuple[Distribution, ...]
    over: str | None = None

    @classmethod
    def installed(cls, python: str | None) -> WholeEnvironment:
        """Return what is installed.

        :raises InputError: the Python cannot be run
        """
        return cls(python=python, distributions=tuple(packages.list_installed(interpreter.search_path(python))))

    def planned(self, folder: str, removed: Collection[str]) -> WholeEnvironment:
        """Return what it becomes: what was unpacked into a folder covers it.

        :param removed: the canonical names of what goes
        """
        coming = tuple(packages.list_installed([folder]))
        gone = {*removed, *(canonicalize_name(item.name) for item in coming)}
        stay = (item for item in self.distributions if canonicalize_name(item.name) not in gone)
        planned = WholeEnvironment(python=self.python, distributions=(*coming, *stay), over=folder)
        planned._requirements.update(self._requirements)
        planned._uses.update(self._uses)
        return planned

    @property
    def choice(self) -> TorchOf:
        """Its torch."""
        return TorchOf(self.python, over=self.over)

    @functools.cached_property
    def _by_name(self) -> dict[str, Distribution]:
        return {canonicalize_name(item.name): item for item in reversed(self.distributions)}

    def find(self, name: str) -> Distribution | None:
        """Return the distribution of a name, in any spelling."""
        return self._by_name.get(canonicalize_name(name))

    @functools.cached_property
    def _markers(self) -> dict[str, str]:
        """What markers are evaluated in, where it is not that of the Python that runs this."""
        if self.python is None:
            return {}
        try:
            asked = interpreter.ask_interpreter(self.python)[0]
        except InputError:
            return {}
        full = (asked.full_version or "").partition(" ")[0]
        return {"python_version": asked.tag.version, **({"python_full_version": full} if full else {})}

    @functools.cached_property
    def _requirements(self) -> dict[Distribution, tuple[Requirement, ...]]:
        """What ``requirements`` has answered: to parse them takes longer than anything else about metadata."""
        return {}

    def requirements(self, distribution: Distribution) -> tuple[Requirement, ...]:
        """Return what a distribution requires here, without extras."""
        if distribution not in self._requirements:
            parsed = (parse_applying(line, self._markers) for line in distribution.requires)
            self._requirements[distribution] = tuple(filter(None, parsed))
        return self._requirements[distribution]

    def required_names(self, distribution: Distribution) -> set[str]:
        """Return the canonical names of what a distribution requires here."""
        return {canonicalize_name(requirement.name) for requirement in self.requirements(distribution)}

    def unmet(self, distribution: Distribution) -> tuple[Unmet, ...]:
        """Return the requirements of a distribution that are not met: what ``pip check`` complains of."""
        there = ((item, self.find(item.name)) for item in self.requirements(distribution))
        return tuple(
            _unmet(
                distribution, requirement, found.name if found else requirement.name, found.version if found else None
            )
            for requirement, found in there
            if not is_met(requirement, found.version if found else None)
        )

    def lost(self, versions: Mapping[str, str | None]) -> tuple[Unmet, ...]:
        """Return the requirements of what stays that are met now, and no longer once other versions are there.

        :param versions: what is installed or removed (None), by canonical name
        """
        return tuple(
            _unmet(distribution, requirement, name, versions[name])
            for distribution in self.distributions
            if canonicalize_name(distribution.name) not in versions
            for requirement in self.requirements(distribution)
            if (name := canonicalize_name(requirement.name)) in versions
            and (there := self.find(name)) is not None
            and is_met(requirement, there.version)
            and not is_met(requirement, versions[name])
        )

    def uses_torch(self, distribution: Distribution, files: Files) -> bool:
        """Whether a distribution has to do with torch: it requires it, with or without an extra, has an extension of
        it, or imports it at once.
        """
        if distribution not in self._uses:
            self._uses[distribution] = (
                any(map(requires_torch, distribution.requires))
                or own_system().uses_torch(distribution, files)
                or any(map(_imports_torch_at_once, _top_level_sources(distribution)))
            )
        return self._uses[distribution]

    @functools.cached_property
    def _uses(self) -> dict[Distribution, bool]:
        """What ``uses_torch`` has answered."""
        return {}

    def may_need_torch(self, distribution: Distribution) -> bool:
        """Whether a distribution requires torch, with or without an extra, or has a library, which may be for it."""
        required = any(map(requires_torch, distribution.requires))
        return required or any(map(packages.is_library, packages.files_of(distribution)))

    def providers(self, module: str) -> Sequence[Distribution]:
        """Return the distributions that have a top-level module."""
        return [item for item in self.distributions if module in modules_of(item)]


def _unmet(distribution: Distribution, requirement: Requirement, name: str, there: str | None) -> Unmet:
    return Unmet(
        subject=f"{distribution.name} {distribution.version}",
        requirement=_without_marker(requirement),
        name=name,
        there=there,
    )


def is_met(requirement: Requirement, version: str | None) -> bool:
    """Whether a version meets a requirement; one that cannot be read does."""
    try:
        # As in pip (check.py, check_package_set): a pre-release counts like any other version.
        return version is not None and requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return True


def wheel_uses_torch(wheel: FetchedWheel) -> bool:
    """Whether a wheel has an extension of torch, or code that imports it at once.

    :raises InputError: it cannot be read
    """
    archive = Wheel(wheel.path)
    names = list(archive.list_members())
    # Of libraries for other systems than Linux, the name is enough.
    if any(IMAGE_NAME.search(name) for name in names):
        return True
    if any(packages.SHARED_OBJECT.search(name) and may_need_torch(archive.find_member(name)) for name in names):
        return True
    sources = (name for name in names if name.endswith(".py") and name.count("/") <= _DEPTH)
    texts = map(archive.read_content, itertools.islice(sources, _MOST_SOURCES))
    return any(map(_imports_torch_at_once, texts))


def _imports_torch_at_once(source: bytes) -> bool:
    """Whether no condition and no handler is around an import of torch: code that does without it has it elsewhere."""
    return any(not line.nested for line in imports_of(source, "torch"))


def defers_imports(distribution: Distribution) -> bool:
    """Whether a distribution has a module that imports others when one of their names is asked for (PEP 562)."""
    return any(_DEFERS.search(source) for source in _top_level_sources(distribution, depth=1))


def mentions_import(distribution: Distribution, module: str) -> bool:
    """Whether code of a distribution imports a module, wherever it does."""
    return any(True for source in sources_of(distribution) for _ in imports_of(source, module))


def imports_at_once(distribution: Distribution, module: str) -> bool:
    """Whether code of a distribution takes names from a module, or imports a module in it, under no condition and with
    no handler.
    """
    return any(
        not line.nested and (line.names or line.module != module)
        for source in _top_level_sources(distribution)
        for line in imports_of(source, module)
    )


def sources_of(distribution: Distribution, *, tests: bool = True) -> Iterator[bytes]:
    """Yield all code of a distribution.

    :param tests: whether the code of its tests belongs to that
    """
    return _top_level_sources(distribution, depth=100, tests=tests)


def _top_level_sources(distribution: Distribution, depth: int = _DEPTH, *, tests: bool = True) -> Iterator[bytes]:
    """Yield the code of the modules of a distribution, and of the packages directly in them: what is further down is
    hardly what it is about, as the adapters for torch that some packages bring along.
    """
    root = distribution.source or distribution.site
    paths = (path for path in packages.files_of(distribution) if path.endswith(".py") and path.count("/") <= depth)
    paths = (path for path in paths if tests or "/tests/" not in path)
    for path in itertools.islice(paths, _MOST_SOURCES):
        with contextlib.suppress(OSError):  # a listed file may be deleted
            yield observed_fs.read_file(posixpath.join(root, path))


def code_of(distribution: Distribution) -> Iterator[str]:
    """Yield the code that a distribution has installed, by the paths in the folder that it is installed in."""
    files = packages.files_of(distribution, installed=True)
    return (path for path in files if _CODE.search(path) and not path.startswith(".."))


def is_gone(distribution: Distribution) -> bool:
    """Whether a distribution is listed as installed, and none of its code is there."""
    if distribution.source is not None:
        return False
    files = [posixpath.join(distribution.site, path) for path in code_of(distribution)]
    return bool(files) and not any(map(observed_fs.is_file, files))


def modules_of(distribution: Distribution) -> tuple[str, ...]:
    """Return the top-level modules of a distribution, as its files tell; an editable one is not looked into."""
    names: dict[str, None] = {}
    for path in packages.files_of(distribution, installed=distribution.source is not None):
        top, slash, _ = path.partition("/")
        if not slash:
            top = top.partition(".")[0] if path.endswith((".py", ".so", ".pyd")) else ""
        if top.isidentifier() and top != "__pycache__":
            names[top] = None
    if not names and distribution.source is not None:
        return (canonicalize_name(distribution.name).replace("-", "_"),)
    return tuple(names)


def origin_of(distribution: Distribution) -> str:
    """Return where a distribution came from: ``index``, ``direct``, ``editable``, ``conda`` or ``unknown``."""
    if distribution.source is not None:
        return "editable"
    if distribution.origin is not None:
        return "direct"
    # Recording installed projects (packaging specifications): INSTALLER names the tool.
    prefix = f"{canonicalize_name(distribution.name).replace('-', '_')}-{distribution.version}"
    for name in observed_fs.list_names(distribution.site):
        stem = next((name.removesuffix(end) for end in _INFO if name.endswith(end)), None)
        if stem is not None and canonicalize_name(stem) == canonicalize_name(prefix):
            path = Path(posixpath.join(distribution.site, name, "INSTALLER"))
            installer = (
                observed_fs.read_file(path).decode("utf-8", "replace").strip() if observed_fs.is_file(path) else ""
            )
            return (
                "conda"
                if installer == "conda"
                else "index"
                if installer in ("pip", "uv", "poetry", "pdm")
                else "unknown"
            )
    return "unknown"


def _without_marker(requirement: Requirement) -> str:
    bare = copy.copy(requirement)  # the one that was parsed is kept
    bare.marker = None
    return str(bare)
