"""Ask the user's indexes for the wheels of a package, newest first, and for their metadata, as pip asks.

pip says what its settings are; unearth reads the pages of the indexes (PEP 503, PEP 691); packaging knows which tags
fit which system. The metadata come from the index if it has them (PEP 658), otherwise from the wheel, read in place.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import os
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

import httpx2
import msgspec.structs
from msgspec import Struct
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from unearth import Link, Package, PackageFinder
from unearth.evaluator import TargetPython

from abiscan import regular
from abiscan.errors import InputError, UnreachableError
from abiscan.index import index_page
from abiscan.index.hashes import sound_hash
from abiscan.index.pip_configuration import read_configuration
from abiscan.index.remote import RemoteFile, delete_oldest_files
from abiscan.index.system import System
from abiscan.index.web import Web, page_of
from abiscan.inputs import observed_fs
from abiscan.inputs.files import Wheel
from abiscan.inputs.index_options import FROM_SETTINGS, IndexOptions
from abiscan.inputs.packages import RemoteWheel
from abiscan.inputs.requirement import Metadata, metadata_of, parse_applying, required_by
from abiscan.inputs.spreading import find_metadata
from abiscan.inputs.variants import METADATA as VARIANT_METADATA
from abiscan.inputs.variants import (
    VariantList,
    WheelVariant,
    read_variants,
    variant_label,
    variant_of_wheel,
    without_label,
)

if TYPE_CHECKING:
    from unearth.evaluator import Evaluator
    from unearth.fetchers import Fetcher

_VARIANTS_SUFFIX: Final = "-variants.json"
_LARGEST_METADATA: Final = 8 << 20
_LARGEST_SOURCE: Final = 256 << 20
_MOST_READ: Final = 2_000
"""The most versions whose metadata one command reads."""

_LONGEST_SPECIFIER: Final = 1_000


class Settings(Struct, frozen=True, kw_only=True):
    """What pip is configured to do about indexes.

    :ivar index_urls: the indexes, the main one first
    :ivar find_links: folders and pages that list wheels
    :ivar trusted_hosts: the hosts that may be asked without valid certificates
    :ivar constraints: files that restrict versions
    :ivar certificates: a file or a folder of certificates, None for the default
    :ivar proxy: the address of a proxy, None if there is none
    """

    index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    certificates: str | None = None
    proxy: str | None = None


def settings_of_pip(python: str | None, options: IndexOptions = FROM_SETTINGS) -> Settings:
    """Read the settings of an interpreter's pip, the defaults if it has none, as options change them.

    ``no-index`` leaves out all of them, as for pip.
    """
    configured = read_configuration(python)
    no_index = options.no_index or configured.get("no-index", "").lower() in ("1", "true", "yes", "on")
    default = configured.get("index-url") or PackageFinder().sources[0]["url"]
    urls = [options.index_url or default, *configured.get("extra-index-url", "").split(), *options.extra_index_urls]
    links = [*configured.get("find-links", "").split(), *options.find_links]
    return Settings(
        index_urls=() if no_index else tuple(dict.fromkeys(urls)),
        find_links=tuple(link for link in links if "://" in link or Path(link).exists()),
        trusted_hosts=tuple(configured.get("trusted-host", "").split()),
        constraints=tuple(file for file in configured.get("constraint", "").split() if file != os.devnull),
        certificates=configured.get("cert"),
        proxy=configured.get("proxy"),
    )


class Candidate(Struct, frozen=True, kw_only=True):
    """A version of a package on an index.

    :ivar name: the name of the package
    :ivar version: the version
    :ivar wheel: the name of the file that pip would choose, empty if it would choose none
    :ivar unfit: why pip would choose none, empty if it would
    :ivar variant: what the wheel says about its variant; None for an ordinary wheel, which released installers choose
    """

    name: str
    version: Version
    wheel: str = ""
    unfit: str = ""
    variant: WheelVariant | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Index:
    """The user's indexes.

    :param folder: of the cache
    """

    def __init__(self, settings: Settings, system: System, folder: Path, *, offline: bool = False) -> None:
        self.settings = settings
        self.system = system
        self._folder = folder
        self.web = Web(
            folder,
            index_urls=settings.index_urls,
            trusted_hosts=settings.trusted_hosts,
            verify=settings.certificates,
            proxy=settings.proxy,
            offline=offline,
        )
        self._finder = self._finder_of(only_binary=[":all:"])
        self._metadata: dict[Candidate, tuple[str, ...]] = {}
        self._requirements: dict[Candidate, tuple[Requirement, ...]] = {}
        self._links: dict[Candidate, Link] = {}
        self._files: dict[Candidate, IO[bytes]] = {}
        delete_oldest_files(folder)

    def _finder_of(self, *, only_binary: Sequence[str]) -> _Finder:
        """Make a finder of packages: of all files, or of wheels only."""
        return _Finder(
            cast("Fetcher", _Pages(self.web)),  # its responses are those of httpx2, as those of unearth's own client
            index_urls=self.settings.index_urls,
            find_links=self.settings.find_links,
            target_python=TargetPython(py_ver=self.system.python, platforms=list(self.system.platforms)),
            ignore_compatibility=True,  # to be able to say why a version does not fit
            only_binary=only_binary,
        )

    def close(self) -> None:
        """Close the connections, and the files of the cache."""
        self.web.close()
        for file in self._files.values():
            file.close()
        delete_oldest_files(self._folder)

    @property
    def bytes_read(self) -> int:
        """What was received so far."""
        return self.web.bytes_read

    def candidates(self, requirement: Requirement, *, variants: bool = False) -> tuple[Candidate, ...]:
        """List the versions of a package that a requirement allows, newest first.

        Pre-releases are listed only if they are asked for.

        :param variants: whether variant wheels are listed, too, after the ordinary wheel of the same version
        :raises InputError: the index cannot be read, or does not have the package
        """
        name, specifier = canonicalize_name(requirement.name), requirement.specifier
        # PEP 592: a yanked version is only installed if its exact number is required.
        exact = any(clause.operator in ("==", "===") for clause in specifier)
        links: dict[Version, list[Link]] = {}
        for package in (*_packages_on_index(self._finder, name, allow_yanked=exact), *self._finder.variants.wheels):
            if package.version is not None:
                links.setdefault(Version(package.version), []).append(package.link)
        if not links:
            if _packages_on_index(self._finder_of(only_binary=()), name, allow_yanked=True):
                problem = "has no wheel on the index, only source code, in which nothing is compiled yet"
                fix = f"build a wheel for your torch: pip wheel --no-deps --no-build-isolation {name}"
                raise InputError(name, problem, fix)
            if not self.settings.index_urls:
                raise InputError(
                    name, "no wheel of it is linked, and no index is asked", "check the name and --find-links"
                )
            raise InputError(name, "is not on the index", "check the name and the index settings")
        admitted = [version for version in links if specifier.contains(version, prereleases=True)]
        # PEP 440: pre-releases are left out, unless they are all there is.
        if not specifier.prereleases and any(not version.is_prerelease for version in admitted):
            admitted = [version for version in admitted if not version.is_prerelease]
        if not admitted:
            newest = max(links)
            raise InputError(str(requirement), "no version on the index satisfies it", f"the newest there is {newest}")
        return tuple(
            candidate
            for version in sorted(admitted, reverse=True)
            for candidate in self._choose_wheels(name, version, links[version], variants=variants)
        )

    def versions(self, name: str) -> frozenset[Version]:
        """Return the versions that the indexes have of a package, for any system, as wheels or as source code.

        :raises UnreachableError: an index cannot be read
        """
        offered = _packages_on_index(self._finder_of(only_binary=()), canonicalize_name(name), allow_yanked=True)
        return frozenset(Version(package.version) for package in offered if package.version is not None)

    def source_versions(self, name: str) -> frozenset[Version]:
        """Return the versions that the indexes have only as source code, without a wheel for any system.

        :raises UnreachableError: an index cannot be read
        """
        wheels = _packages_on_index(self._finder, canonicalize_name(name), allow_yanked=True)
        return self.versions(name) - {Version(package.version) for package in wheels if package.version is not None}

    def download_source(self, name: str, version: Version, folder: Path) -> Path | None:
        """Download the source distribution of a version into a folder; None if the indexes have none.

        pip cannot: to know what one requires, it runs its build.

        :raises InputError: it cannot be read, or is not the file that the index describes
        """
        offered = _packages_on_index(self._finder_of(only_binary=()), canonicalize_name(name), allow_yanked=True)
        links = [package.link for package in offered if package.version and Version(package.version) == version]
        link = next((link for link in links if not link.is_wheel and _is_sound(link)), None)
        if link is None:
            return None
        if link.is_file:
            return _path_of(link)
        page = self.web.get(link.url_without_fragment, largest=_LARGEST_SOURCE)
        stated = sound_hash((link.hash_option or {}).get("sha256", [None])[0])
        if page.is_error or (stated and hashlib.sha256(page.content).hexdigest() != stated):
            problem = f"the server answers {page.status_code}" if page.is_error else "its hash differs from the index's"
            raise InputError(link.filename, f"could not be downloaded: {problem}", "run it again")
        path = folder / Path(link.filename).name
        path.write_bytes(page.content)
        return path

    def _choose_wheels(
        self, name: str, version: Version, links: Sequence[Link], *, variants: bool
    ) -> Iterator[Candidate]:
        """Choose the wheel of a version that pip would choose, and that of each variant."""
        by_label: dict[str, list[Link]] = {}
        for link in links:
            by_label.setdefault(variant_label(link.filename), []).append(link)
        plain = self._choose_wheel(name, version, by_label.pop("", ()))
        chosen = {label: self._choose_wheel(name, version, of_label) for label, of_label in by_label.items()}
        chosen = {label: candidate for label, candidate in chosen.items() if not candidate.unfit}
        if variants and chosen:
            # PEP 825 puts the ordinary wheel last ("Variant ordering"), but released installers choose nothing else.
            if not plain.unfit:
                yield plain
            yield from self._describe_variants(chosen)
        elif plain.unfit and chosen:
            unfit = f"has only wheels of variants for {self.system}: {', '.join(sorted(chosen))}"
            yield msgspec.structs.replace(plain, unfit=unfit)
        else:
            yield plain

    def _describe_variants(self, chosen: Mapping[str, Candidate]) -> list[Candidate]:
        """Look up the properties of variants, for the whole version or in each wheel; the preferred variant first."""
        first = next(iter(chosen.values()))
        listed = self._listed_variants(f"{first.name.replace('-', '_')}-{first.version}-variants.json")
        described = {}
        for label, candidate in chosen.items():
            variant = listed.variants.get(label) or self._variant_of_wheel(label, candidate)
            described[variant] = msgspec.structs.replace(candidate, variant=variant)
            self._links[described[variant]] = self._links[candidate]
        return [described[variant] for variant in sorted(described, key=listed.sort_key)]

    def _listed_variants(self, name: str) -> VariantList:
        """Read what the index states about the variants of a version, which may be nothing (PEP 825)."""
        link = self._finder.variants.descriptions.get(name)
        if link is None or not _is_sound(link):
            return VariantList()
        try:
            if link.is_file:
                with _open_file(_path_of(link)) as file:
                    observed_fs.stat_file(_path_of(link))
                    return read_variants(file.read(_LARGEST_METADATA).decode("utf-8"))
            page = self.web.get(link.normalized, largest=_LARGEST_METADATA)
            return VariantList() if page.is_error else read_variants(page.content.decode("utf-8"))
        except ValueError:  # the wheels state it, too
            return VariantList()

    def _variant_of_wheel(self, label: str, candidate: Candidate) -> WheelVariant:
        """Read the properties of a variant in its wheel."""
        wheel = Wheel(Path(candidate.wheel), self._open_once(candidate))
        name = next(filter(VARIANT_METADATA.fullmatch, wheel.list_members()), None)
        text = wheel.read_content(name, _LARGEST_METADATA).decode("utf-8", "replace") if name else None
        return variant_of_wheel(label, text) or WheelVariant(label=label)

    def _choose_wheel(self, name: str, version: Version, links: Iterable[Link]) -> Candidate:
        """Choose the wheel of a version that pip would choose."""
        fitting: list[tuple[int, Link]] = []
        unfit = f"has no wheel for {self.system}"
        for link in links:
            try:
                priorities = [
                    self.system.tags[tag]
                    for tag in parse_wheel_filename(without_label(link.filename))[3]
                    if tag in self.system.tags
                ]
            except (InvalidWheelFilename, InvalidVersion):
                continue
            if not priorities:
                continue
            # If no wheel fits, the version is reported with what is wrong with the last one.
            if not _is_sound(link):
                unfit = "is described wrongly by the index"
                continue
            if not self._admits_python(link.requires_python):
                unfit = f"requires Python {link.requires_python}"
                continue
            fitting.append((min(priorities), link))
        if not fitting:
            return Candidate(name=name, version=version, unfit=unfit)
        link = min(fitting, key=lambda pair: pair[0])[1]
        candidate = Candidate(name=name, version=version, wheel=link.filename)
        self._links[candidate] = link
        return candidate

    def _admits_python(self, requires: str | None) -> bool:
        """Tell whether a wheel's Requires-Python allows the Python of this system."""
        try:
            return SpecifierSet(requires or "").contains(".".join(map(str, self.system.python)), prereleases=True)
        except InvalidSpecifier:
            return True  # as pip decides

    def requirements(self, candidate: Candidate) -> tuple[Requirement, ...]:
        """Return what a version requires on this system, without extras.

        :raises InputError: its metadata cannot be read
        """
        if candidate not in self._requirements:
            applicable = (parse_applying(line, self.system.environment) for line in self._read_requirements(candidate))
            self._requirements[candidate] = tuple(filter(None, applicable))
        return self._requirements[candidate]

    def metadata(self, candidate: Candidate) -> Metadata:
        """Return what a version requires of torch.

        :raises InputError: its metadata cannot be read
        """
        return metadata_of(self._read_requirements(candidate), str(candidate.version), candidate.wheel)

    def wheel(self, candidate: Candidate) -> RemoteWheel:
        """Return the wheel of a version, to be read in place."""
        return RemoteWheel(path=Path(candidate.wheel), stream=functools.partial(self._open_once, candidate))

    def linked_wheel(self, address: str) -> RemoteWheel:
        """Return the wheel at an address, to be read in place; the address may end in ``#sha256=…``."""
        link = Link(address)
        candidate = Candidate(name=link.filename, version=Version("0"), wheel=link.filename)
        self._links[candidate] = link
        return self.wheel(candidate)

    def origin(self, candidate: Candidate) -> tuple[str, str | None]:
        """Return the address of the wheel of a version, and its SHA-256 if the index states it."""
        link = self._links[candidate]
        return link.url_without_fragment, sound_hash((link.hash_option or {}).get("sha256", [None])[0])

    def size(self, candidate: Candidate) -> int:
        """Return the size of the wheel of a version, in bytes."""
        stream = self._open_once(candidate)
        return stream.seek(0, io.SEEK_END)

    def _read_requirements(self, candidate: Candidate) -> tuple[str, ...]:
        """Read the Requires-Dist lines of a version, once: from the index if it has them, else from the wheel."""
        if candidate not in self._metadata:
            if len(self._metadata) >= _MOST_READ:
                problem = f"more than {_MOST_READ:,} versions would have to be looked at"
                raise InputError(candidate.name, problem, f"narrow it down, as in '{candidate.name}>=VERSION'")
            content = self._metadata_of_index(candidate) or self._metadata_of_wheel(candidate)
            self._metadata[candidate] = required_by(content.decode("utf-8", "replace"), f"{candidate.wheel}.metadata")
        return self._metadata[candidate]

    def _metadata_of_index(self, candidate: Candidate) -> bytes | None:
        """Download the METADATA file that the index has next to the wheel (PEP 658); return None if it has none."""
        link = self._links[candidate]
        if link.dist_info_link is None:
            return None
        page = self.web.get(link.dist_info_link.normalized, largest=_LARGEST_METADATA)
        if page.is_error:
            return None
        # PEP 658 lets the index state the hash of the file; without one, the server is trusted as for everything else.
        stated = link.dist_info_metadata.get("sha256") if isinstance(link.dist_info_metadata, dict) else None
        if stated and hashlib.sha256(page.content).hexdigest() != stated:
            problem = "is not the file that the index describes: its hash differs"
            raise InputError(f"{candidate.wheel}.metadata", problem, "run it again; otherwise the server is at fault")
        return page.content

    def _metadata_of_wheel(self, candidate: Candidate) -> bytes:
        """Read the METADATA file inside the wheel."""
        wheel = Wheel(Path(candidate.wheel), self._open_once(candidate))
        name = find_metadata(wheel.list_members())
        if name is None:
            raise InputError(candidate.wheel, "has no metadata", "the wheel is damaged")
        return wheel.read_content(name, _LARGEST_METADATA)

    def _open_once(self, candidate: Candidate) -> IO[bytes]:
        """Open the wheel of a version, once; record what its bytes depend on."""
        link, (url, sha256) = self._links[candidate], self.origin(candidate)
        if link.is_file:
            observed_fs.stat_file(_path_of(link))
        elif sha256 is None:
            observed_fs.look_once()  # another day, there may be another file
        if candidate not in self._files:
            if link.is_file:
                self._files[candidate] = _open_file(_path_of(link))
            else:
                remote = RemoteFile(self.web, url, sha256, self._folder)
                self._files[candidate] = cast("IO[bytes]", remote)  # a raw file is one that zipfile can read
        return self._files[candidate]


class _Finder(PackageFinder):
    """Also finds files that unearth does not know: variant wheels, and the descriptions of variants.

    :ivar variants: those of the package that was looked up last
    """

    variants: _Variants

    def build_evaluator(self, package_name: str, allow_yanked: bool = False) -> Evaluator:  # noqa: FBT001, FBT002
        """Make the object that decides whether a link is a file of the package."""
        self.variants = _Variants(super().build_evaluator(package_name, allow_yanked))
        return cast("Evaluator", self.variants)


class _Variants:
    """Decides whether a link is a file of a package, and keeps those that are about variants.

    :ivar wheels: the wheels of variants
    :ivar descriptions: the files that describe all variants of a version, by name
    """

    def __init__(self, plain: Evaluator) -> None:
        self._plain = plain
        self.wheels: list[Package] = []
        self.descriptions: dict[str, Link] = {}

    def evaluate_link(self, link: Link) -> Package | None:
        """Return the package that a link is a file of; None for any other link, and for what is about variants."""
        name = link.filename
        if name.endswith(_VARIANTS_SUFFIX):
            self.descriptions[name] = link
        elif variant_label(name):
            # Without the label, the name is one of PEP 427, which unearth can parse.
            url = f"file:///{urllib.parse.quote(without_label(name))}"
            package = self._plain.evaluate_link(dataclasses.replace(link, url=url))
            if package:
                self.wheels.append(dataclasses.replace(package, link=link))
        else:
            return self._plain.evaluate_link(link)
        return None


class _Pages:
    """Gets pages of indexes for unearth, within the limits of ``index_page``."""

    def __init__(self, web: Web) -> None:
        self.iter_secure_origins, self.head, self.get_stream = web.iter_secure_origins, web.head, web.get_stream
        self._web = web

    def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Get a page, converted to JSON if it is HTML."""
        page = self._web.get(url, headers=headers)
        kind = page.headers.get("Content-Type", "")
        if page.is_error or not kind.lower().startswith(index_page.KINDS):
            return page
        content = index_page.bound_page(str(page.url), kind, page.content)
        return page_of(page.status_code, str(page.url), index_page.JSON, content)


def _is_sound(link: Link) -> bool:
    """Tell whether an index describes a file with the types of PEP 691, and as no file of this machine.

    unearth does not verify that.
    """
    # A page from a server must not make this machine open one of its own files.
    requires, hashes = link.requires_python, link.hashes
    return (
        isinstance(requires, str | None)
        and len(requires or "") <= _LONGEST_SPECIFIER
        and (hashes is None or (isinstance(hashes, dict) and all(isinstance(value, str) for value in hashes.values())))
        and (link.comes_from is None or link.comes_from.startswith("file:") or not link.is_file)
    )


def _path_of(link: Link) -> Path:
    """Return the path of a link to a file."""
    try:
        return link.file_path
    except ValueError as error:
        raise _unreadable_error(link.url, error) from error


def _open_file(path: Path) -> IO[bytes]:
    """Open a file that the user's settings name."""
    try:
        return regular.open_regular(path)
    except (OSError, ValueError) as error:
        raise _unreadable_error(str(path), error) from error


def _unreadable_error(name: str, error: Exception) -> InputError:
    """Make the error for a file that cannot be read."""
    return InputError(name, f"cannot be read: {error}", "check the index settings")


def _packages_on_index(finder: PackageFinder, name: str, *, allow_yanked: bool) -> Sequence[Package]:
    """List what an index has of a package.

    :raises UnreachableError: its page cannot be read
    """
    try:
        return finder.find_all_packages(name, allow_yanked=allow_yanked)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:  # unearth validates no page
        problem = f"the index has a page for it that cannot be read: {type(error).__name__}: {error}"
        raise UnreachableError(name, problem, "check the index settings") from error
