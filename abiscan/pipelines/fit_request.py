"""What a user asks of ``abiscan fit``: which packages, which torch, which system, which indexes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec.structs
from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement

from abiscan.errors import InputError
from abiscan.index.client import Index, Settings, settings_of_pip
from abiscan.index.own_pages import own_page
from abiscan.index.system import System
from abiscan.inputs import interpreter
from abiscan.inputs.addresses import without_credentials
from abiscan.inputs.files import check_existence
from abiscan.inputs.index_options import FROM_SETTINGS, IndexOptions
from abiscan.inputs.requirements_file import read_requirements
from abiscan.inputs.session import Session
from abiscan.inputs.version import MinorVersion, TorchVersion, number_of
from abiscan.pipelines.fit import fit_packages, torches_of_index
from abiscan.results.fit import FitReport, PublishedElsewhere
from abiscan.torches.platforms import platform_of
from abiscan.torches.torch import ReleaseNumber, TorchChoice, TorchOf, torch_choices

_FOLDER = "wheels"
_MOST_OTHERS: Final = 12
"""The most releases that a search tries after those that were asked for."""


class Request(Struct, frozen=True, kw_only=True):
    """What is asked; see ``abiscan.fit``.

    ``other_torches`` says whether to look for a torch that would do if none of those that were asked for does;
    ``settings`` are used instead of those of pip, if they are not None; ``variants`` says whether wheels of variants
    count, which released installers do not choose.
    """

    packages: tuple[str, ...]
    torch: str | TorchChoice | None
    files: tuple[Path, ...] = ()
    python: str | None = None
    python_version: tuple[int, int] | None = None
    platform: str | None = None
    cuda: str | None = None
    index: IndexOptions = FROM_SETTINGS
    offline: bool = False
    other_torches: bool = False
    settings: Settings | None = None
    variants: bool = True


def answer_request(request: Request, session: Session) -> FitReport:
    """Return the versions that are asked for.

    :raises InputError: an index, a wheel or the torch cannot be read
    """
    lines = [line for file in request.files for line in read_requirements(file)]
    requirements = [
        *map(_make_requirement, request.packages),
        *(line.requirement for line in lines if not line.constraint),
    ]
    settings = request.settings or settings_of_pip(request.python, request.index)
    constraints = [
        *(line.requirement for line in lines if line.constraint),
        *(line.requirement for file in settings.constraints for line in read_requirements(Path(file), constraint=True)),
    ]
    version = request.python_version
    if version is None and request.python is not None:
        tag = interpreter.ask_interpreter(request.python)[0].tag
        version = tag.major, tag.minor
    system = System.of(version, request.platform)
    # The torch that is installed counts only if nothing that was asked for speaks of another machine or build.
    here = request.torch is None and request.cuda is None and request.platform is None and _has_torch(request.python)
    folder = session.folder / _FOLDER
    with contextlib.closing(Index(settings, system, folder, offline=request.offline)) as index:
        choices = [TorchOf(request.python)] if here else _torches_to_try(request, index)
        try:
            result = fit_packages(
                requirements,
                choices,
                index,
                session,
                installed=here,
                constraints=constraints,
                variants=request.variants,
            )
        except InputError as error:
            elsewhere = _builds_elsewhere([error.subject], choices, index, session)
            if not elsewhere:
                raise
            raise InputError(error.subject, error.problem, str(elsewhere[0])) from error
        if not result.packages:
            names = [requirement.name for requirement in requirements]
            result = msgspec.structs.replace(result, elsewhere=_builds_elsewhere(names, choices, index, session))
        if request.other_torches and not result.packages and result.torch is not None:
            alternatives = other_releases(choices, result.torch, index)
            with contextlib.suppress(InputError):  # more than one search reads
                # The same index, so pages and wheels that were read are not read again.
                instead = fit_packages(
                    requirements,
                    alternatives,
                    index,
                    session,
                    installed=False,
                    constraints=constraints,
                    variants=request.variants,
                )
                result = msgspec.structs.replace(result, torch_instead=instead.torch if instead.packages else None)
            result = msgspec.structs.replace(result, bytes_read=index.bytes_read)
    return msgspec.structs.replace(result, options=request.index.words)


def _builds_elsewhere(
    names: Sequence[str], choices: Sequence[TorchChoice], index: Index, session: Session
) -> tuple[PublishedElsewhere, ...]:
    """Return where projects publish their builds, as far as a torch is known that these are for."""
    pages = [(name, page) for name in names if (page := own_page(name))]
    if not pages or not choices:
        return ()
    files = session.files()
    try:
        build = choices[0].open(files, session).build or ""
    except InputError:
        return ()
    if "+" not in build:  # a release number means the build that an index has by default
        build = platform_of(index.system).build_of(build).number
    result = []
    for name, page in pages:
        with contextlib.suppress(InputError):  # the index does not know the package
            newest = max(index.versions(name), default=None)
            command = page.command(name, build, str(newest.public if newest else "VERSION"))
            result.append(PublishedElsewhere(name=name, page=page.page, command=command))
    return tuple(result)


def other_releases(tried: Sequence[TorchChoice], build: str, index: Index) -> Sequence[TorchChoice]:
    """Return the releases that may do where those that were tried do not: the newest patch of some, newest first."""
    try:
        torches = torches_of_index(index)
    except InputError:  # it has no torch
        platform = platform_of(index.system)
        torches = tuple(platform.build_of(str(release)) for release in reversed(platform.releases()))
    numbers = {number_of(choice.number) for choice in tried if isinstance(choice, ReleaseNumber)} | {number_of(build)}
    newest: dict[MinorVersion, TorchChoice] = {}
    for choice in torches:
        if (version := TorchVersion.parse(choice.number)) and version.number not in numbers:
            # The list is sorted newest first, so the first of a minor version is its newest patch.
            newest.setdefault(version.minor_version, choice)
    return [*newest.values()][:_MOST_OTHERS]


def _make_requirement(text: str) -> Requirement:
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        raise InputError(
            repr(without_credentials(text)), "is not a requirement", "pass NAME, or NAME>=VERSION"
        ) from error


def _has_torch(python: str | None) -> bool:
    return (interpreter.installed_torch() if python is None else interpreter.ask_interpreter(python)[1]) is not None


def _torches_to_try(request: Request, index: Index) -> Sequence[TorchChoice]:
    """Return the torches to try, the newest first."""
    if request.torch is None:
        choices: Sequence[TorchChoice] = torches_of_index(index)
    elif not isinstance(request.torch, str):
        return [request.torch]
    else:
        # A specifier yields releases oldest first.
        choices = [*reversed(torch_choices(request.torch))]
        if len(choices) == 1 and ("+" in request.torch or check_existence(Path(request.torch))):
            return choices
    platform = platform_of(index.system)
    if not choices:
        platform.require_releases(index.system.platforms[0])
    numbers = [choice.number for choice in choices if isinstance(choice, ReleaseNumber)]
    return [platform.build_of(number.partition("+")[0], request.cuda) for number in numbers]
