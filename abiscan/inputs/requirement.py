"""Which torch a wheel's metadata require, and which they should require, in terms of release numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec.structs
from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from abiscan.binary.machines import Machine
from abiscan.errors import InputError
from abiscan.inputs.variants import WheelVariant, without_label
from abiscan.inputs.version import number_of
from abiscan.inputs.wheel_tag import platform_tag
from abiscan.regex import regex

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_MOST_REQUIREMENTS: Final = 5_000
_LONGEST_REQUIREMENT: Final = 10_000
_LONGEST_PLAIN: Final = 200
_NO_NUMBER: Final = regex(r"[0-9]{1000}")  # Python takes none of 4,300 digits, and packaging says so anywhere
_NAME: Final = regex(r"\s*([A-Za-z0-9._-]+)")
_CUDA_PACKAGE: Final = regex(r"(?:nvidia|cuda)[-_.]")
_BRINGS_DEVICE: Final = regex(
    r"(?:^|[-_.]|torch)(?:npu|ipex|intel[-_.]extension|habana|xla|directml|musa|mlu|gcu|sdaa|spyre|tpu)(?![a-z])"
)
_CLAUSE: Final = r"\s*(?:[=!<>]=|[<>])\s*[0-9]+(?:\.[0-9]+)*\s*"
_PLAIN: Final = regex(rf"\s*[A-Za-z]+\s*(\()?({_CLAUSE}(?:,{_CLAUSE})*)?(?(1)\))\s*")
"""A requirement without extras, marker and address, in versions that are numbers alone."""
_OF_ENVIRONMENT: Final = regex(r";.*\b(?:python_|platform_|sys_platform|os_name|implementation_)")
"""What is in a marker that another Python or system may decide otherwise."""
_FIELD: Final = regex(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_TORCH_WHEEL: Final = regex(r"/torch-([^-/+%]+)(?:(?:\+|%2B)[^-/]*)?-[^/]*\.whl(?:[#?].*)?$")
_PYTHON_TAG: Final = regex(r"-cp3([0-9]+)-(?!abi3)[^-]+-[^-]+\.whl$")
_MACHINE_TAG: Final = regex(rf"_({'|'.join(name for machine in Machine for name in machine.names)})$")
_LINUX: Final = {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux"}
_SYSTEMS: Final = {
    "win": {"os_name": "nt", "sys_platform": "win32", "platform_system": "Windows"},
    "macosx": {"os_name": "posix", "sys_platform": "darwin", "platform_system": "Darwin"},
}
_LOCAL_TAG: Final = regex(r"(?:torch|pt)[._]?([0-9])\.?([0-9]{1,2})(?:\.?([0-9]))?(?![0-9])")


class Metadata(Struct, frozen=True, kw_only=True):
    """The metadata of a wheel or an installed package.

    ``requires_torch`` is its torch requirement, None if it has none, and ``depends_on_markers`` whether that differs by
    the Python or the system; ``torch_in_version`` the torch that the local tag
    of its own version names (``2.8``); ``python`` the one Python that it is for (``3.11``), None for several, and
    ``pythons`` those that it requires (``>=3.9``), as the metadata have it. ``brings_cuda`` has the libraries of CUDA
    that the packages which it requires bring; ``brings_device`` says whether one of these brings torch a device, and so
    the kernels of its backend. ``version`` is that of the package, empty if unknown; ``wheel`` is the file name of the
    wheel without its variant label, empty if unknown; ``variant`` what it says of its variant, None if it is of none.
    """

    requires_torch: TorchRequirement | None
    torch_in_version: str | None
    python: str | None
    pythons: str = ""
    brings_cuda: frozenset[str] = frozenset()
    brings_device: bool = False
    depends_on_markers: bool = False
    version: str = ""
    wheel: str = ""
    variant: WheelVariant | None = None


class TorchRequirement(Struct, frozen=True, kw_only=True):
    """A torch requirement, without local tags: a release number stands for all of its builds.

    ``text`` is the requirement in the metadata, in today's spelling: ``torch==2.5.1``, or ``torch`` for any version.
    """

    text: str
    specifier: SpecifierSet

    def __str__(self) -> str:
        return self.text

    @property
    def admits_all(self) -> bool:
        """Whether it names torch without a version."""
        return not self.specifier

    def admits(self, version: Version) -> bool:
        """Whether a release satisfies it; a pre-release counts like any other."""
        return self.specifier.contains(version.public, prereleases=True)


class _Stated(Struct, frozen=True):
    """What a line of metadata states of torch."""

    specifier: SpecifierSet
    url: str | None = None


def brings_device(name: str) -> bool:
    """Whether a package, or a module, is one that brings torch a device: torch-npu, habana-torch-plugin, torch_musa.

    It may set any name on torch (``torch.npu``), and has the kernels of its backend.
    """
    return _BRINGS_DEVICE.search(name.lower()) is not None


def unreadable_requirement() -> tuple[type[Exception], ...]:
    """Return what parsing a requirement and evaluating its marker may raise."""
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
    from packaging.requirements import InvalidRequirement

    # The last one for brackets inside brackets, as deep as the file likes.
    return InvalidRequirement, InvalidVersion, UndefinedComparison, UndefinedEnvironmentName, RecursionError


def read_metadata(text: str, wheel_name: str, variant: WheelVariant | None = None) -> Metadata:
    """Return the metadata in a METADATA file and in the name of its wheel.

    Environment markers are evaluated for the system, the Python and the machine in the file name of the wheel, or for
    Linux if it is for any system. Requirements of extras are ignored. Several requirements are combined.
    """
    fields = _header_fields(text)
    requirements = [value for name, value in fields if name.lower() == "requires-dist"]
    version = next((value for name, value in fields if name.lower() == "version"), "")
    pythons = next((value for name, value in fields if name.lower() == "requires-python"), "")
    return msgspec.structs.replace(metadata_of(requirements, version, wheel_name, variant), pythons=pythons)


def required_by(text: str, subject: str) -> tuple[str, ...]:
    """Return the requirements in a METADATA file.

    :param subject: its name
    :raises InputError: there are more than any package has
    """
    lines = tuple(value for name, value in _header_fields(text) if name.lower() == "requires-dist")
    if len(lines) > _MOST_REQUIREMENTS:
        problem = f"has {len(lines):,} requirements, more than {_MOST_REQUIREMENTS:,}"
        raise InputError(subject, problem, "choose another version; the package is damaged or malicious")
    return lines


def parse_applying(line: str, environment: Mapping[str, str] | None = None) -> Requirement | None:
    """Return the requirement in a line of metadata; None if it does not apply in an environment, or cannot be read.

    :param environment: for the marker; by default this one, without extras
    """
    # A hostile line must not cost more than a glance: packaging parses by recursion and by regular expressions.
    if len(line) > _LONGEST_REQUIREMENT or _NO_NUMBER.search(line):
        return None
    from packaging.requirements import Requirement  # takes a hundredth of a check to import

    try:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": "", **(environment or {})}):
            return requirement
    except unreadable_requirement():
        pass
    return None


def metadata_of(
    requirements: Iterable[str], version: str, wheel_name: str = "", variant: WheelVariant | None = None
) -> Metadata:
    """Return the metadata of a package whose requirements and version are known."""
    wheel_name = without_label(wheel_name)
    environment = _environment_of(wheel_name)
    stated: list[_Stated] = []
    brings_cuda: frozenset[str] = frozenset()
    device = marked = False
    for line in requirements:
        match = _NAME.match(line)
        name = match[1].lower() if match else ""
        if name != "torch" and not _CUDA_PACKAGE.match(name) and not brings_device(name):
            continue
        if plain := _PLAIN.fullmatch(line) if name == "torch" and len(line) <= _LONGEST_PLAIN else None:
            stated.append(_Stated(SpecifierSet(plain[2] or "")))
            continue
        marked |= name == "torch" and _OF_ENVIRONMENT.search(line) is not None
        requirement = parse_applying(line, {**environment, "extra": ""})
        if requirement is None:
            continue
        if name == "torch":
            stated.append(_Stated(requirement.specifier, requirement.url))
        else:
            from abiscan.inputs.cuda_wheels import brought_libraries  # few packages require what brings CUDA

            brings_cuda |= brought_libraries(requirement)
            device |= brings_device(name)
    return Metadata(
        requires_torch=_combine_requirements(stated) if stated else None,
        torch_in_version=_torch_in_version(version),
        python=_python_of(wheel_name),
        brings_cuda=brings_cuda,
        brings_device=device,
        depends_on_markers=marked,
        version=version,
        wheel=wheel_name,
        variant=variant,
    )


def _environment_of(wheel_name: str) -> dict[str, str]:
    """Return the environment that environment markers are evaluated in, as far as the name of a wheel specifies it."""
    environment = environment_for(platform_tag(wheel_name))
    if python := _python_of(wheel_name):
        environment |= {"python_version": python, "python_full_version": f"{python}.0"}
    return environment


def environment_for(platform: str) -> dict[str, str]:
    """Return the environment that environment markers are evaluated in, as far as a platform tag specifies it."""
    system = next((values for prefix, values in _SYSTEMS.items() if platform.startswith(prefix)), _LINUX)
    environment = {**system, "implementation_name": "cpython", "platform_python_implementation": "CPython"}
    if machine := _MACHINE_TAG.search(platform):
        environment["platform_machine"] = machine.group(1)
    if machine and system is _SYSTEMS["win"]:
        environment["platform_machine"] = machine.group(1).upper()
    return environment


def _python_of(wheel_name: str) -> str | None:
    """Return the one Python in the name of a wheel (``3.11``); None if the wheel is for several."""
    tag = _PYTHON_TAG.search(wheel_name)
    return f"3.{tag.group(1)}" if tag else None


def _torch_in_version(wheel_version: str) -> str | None:
    """Return the torch that a wheel's own version names in its local tag: ``2.1.2+pt28cu128`` is a build for 2.8.

    :return: a minor version or a release, None if the tag names none
    """
    match = _LOCAL_TAG.search(wheel_version.partition("+")[2])
    if match is None:
        return None
    major, minor, patch = match.groups()
    return f"{major}.{minor}" + (f".{patch}" if patch else "")


def _combine_requirements(requirements: Sequence[_Stated]) -> TorchRequirement:
    specifier = SpecifierSet()
    texts = []
    for requirement in requirements:
        # pip requires all lines at once, so the intersection is what is required.
        specifier &= _without_local_tags(requirement)
        texts.append(str(requirement.specifier) or (f" @ {requirement.url}" if requirement.url else ""))
    text = ",".join(dict.fromkeys(filter(None, texts)))
    return TorchRequirement(text=f"torch{text}", specifier=specifier)


def _without_local_tags(requirement: _Stated) -> SpecifierSet:
    if requirement.url:
        # The file that a direct reference names is the only one that satisfies it.
        wheel = _TORCH_WHEEL.search(requirement.url)
        return _make_specifiers([("==", wheel.group(1))]) if wheel else SpecifierSet()
    pairs = [(specifier.operator, specifier.version) for specifier in requirement.specifier]
    # If one build is excluded, the other builds of the release are still allowed.
    comparable = [(operator, version) for operator, version in pairs if not ("+" in version and operator == "!=")]
    return _make_specifiers([("==" if operator == "===" else operator, number_of(v)) for operator, v in comparable])


def _make_specifiers(pairs: Iterable[tuple[str, str]]) -> SpecifierSet:
    try:
        return SpecifierSet(",".join(str(Specifier(f"{operator}{version}")) for operator, version in pairs))
    except InvalidSpecifier:
        return SpecifierSet()


def _header_fields(text: str) -> list[tuple[str, str]]:
    # The email package does the same, but importing it takes longer than checking a small wheel.
    fields: list[tuple[str, str]] = _FIELD.findall(text.replace("\r\n", "\n").partition("\n\n")[0])
    return fields


def simplest_requirement(requested: Collection[Version], versions: Sequence[Version]) -> str | None:
    """Return the simplest requirement that admits exactly the ``requested`` ones of all ``versions``.

    :param versions: oldest first
    :return: ``torch>=2.5,<2.6``; None if nothing is requested
    """
    inside = [version for version in versions if version in requested]
    if not inside:
        return None
    if len(inside) == 1:
        return f"torch=={inside[0]}"
    # From the oldest to the newest one that works, minus the holes: a whole series as ``!=2.6.*``, others one by one.
    first, last = versions.index(inside[0]), versions.index(inside[-1])
    parts = [f">={_shorten_bound(versions[first], versions[:first])}"]
    if last + 1 < len(versions):
        # An upper bound only if a newer release is known that does not work: of later ones nothing is known.
        parts.append(f"<{_shorten_bound(versions[last + 1], versions[: last + 1])}")
    between = versions[first : last + 1]
    for minor in dict.fromkeys(_format_minor(version) for version in between):
        series = [version for version in between if _format_minor(version) == minor]
        holes = [version for version in series if version not in requested]
        if holes == [version for version in versions if _format_minor(version) == minor]:
            parts.append(f"!={minor}.*")
        else:
            parts += (f"!={version}" for version in holes)
    return f"torch{','.join(parts)}"


def _shorten_bound(bound: Version, older: Sequence[Version]) -> str:
    """Return a bound, without its patch number if no older release has the same minor version."""
    return (
        str(bound) if any(_format_minor(version) == _format_minor(bound) for version in older) else _format_minor(bound)
    )


def _format_minor(version: Version) -> str:
    return f"{version.major}.{version.minor}"
