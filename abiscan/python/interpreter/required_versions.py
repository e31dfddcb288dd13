"""The version of a distribution that is required and not known; what all versions agree on that a target may have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from packaging.version import InvalidVersion, Version

from abiscan.python.interpreter.values import NotKnown, TargetExpression, TextWithHoles, Versions, Why
from abiscan.python.package.model import World

_FAR: Final = 999_999
"""The part of a version that no other one comes after."""
_LONGEST: Final = 100
"""The longest text that is taken for a version."""


class _WorldWithVersion:
    """A world in which a distribution has a certain version."""

    def __init__(self, world: World, version: str) -> None:
        self._world, self.version_of_required = world, version

    def __getattr__(self, name: str) -> object:
        return getattr(self._world, name)


class _Required(Versions, frozen=True, kw_only=True):
    """The versions of a distribution that meet a requirement."""

    distribution: str
    specifier: str

    def worlds(self, world: World, bounds: Iterable[object]) -> Iterator[World]:
        """Yield worlds that have them."""
        for version in _sample_versions(self.specifier, bounds):
            yield _WorldWithVersion(world, version)  # type: ignore[misc]


def required_version(distribution: str, specifier: str) -> TargetExpression | None:
    """Return the version of a distribution of which no more is known than what is required; None for no version."""
    versions = list(_sample_versions(specifier, ()))
    if not versions:
        return None
    return TargetExpression(
        f"version({distribution!r})",
        lambda world: getattr(world, "version_of_required", versions[0]),
        versions=_Required(why=Why.ELSEWHERE, distribution=distribution, specifier=specifier),
    )


def agreed(expression: TargetExpression, world: World) -> object:
    """Return what an expression is for all versions that may be there; not known if that depends on which one is."""
    assert expression.versions is not None
    why = expression.versions.why
    first: object = None
    for number, of_world in enumerate(expression.versions.worlds(world, expression.bounds)):
        try:
            value = expression.of(of_world)
        except Exception:  # noqa: BLE001 - whatever computing with a version may raise: others may not
            return NotKnown(expression.name, why)
        if number and (type(value), value) != (type(first), first):
            if value and isinstance(value, str) and isinstance(first, str):
                return TextWithHoles(expression.name, why, truth=True, parts=("", ""))
            return NotKnown(expression.name, why)
        first = value
    return first


def _texts_of(constants: Iterable[object]) -> list[str]:
    """Return constants as versions are written: ``1.4`` for ``(1, 4)``."""
    return sorted(
        ".".join(map(str, constant)) if isinstance(constant, tuple) else str(constant)
        for constant in constants
        if isinstance(constant, (str, tuple, Version, int))
    )


def _sample_versions(specifier: str, bounds: Iterable[object]) -> Iterator[str]:
    """Yield versions that a specifier admits: one for each stretch on which no comparison with these bounds changes."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # few packages ask

    try:
        admitted = SpecifierSet(specifier)
    except InvalidSpecifier:
        return
    texts = [*(item.version.removesuffix(".*") for item in admitted), *_texts_of(bounds), "0"]
    around = {text: None for bound in texts for text in _versions_around(bound)}
    yield from (text for text in around if admitted.contains(text))


def _versions_around(bound: str) -> Iterator[str]:
    """Yield a version, what is just below and above it, and what follows its parts, for ``~=0.21.1`` and ``==1.*``."""
    try:
        version = Version(bound[:_LONGEST])
    except InvalidVersion:
        return
    release = version.release
    if version.epoch:
        return
    yield from (str(version), ".".join(map(str, (*release, 0, 0, 1))), str(_FAR))
    for count in range(1, len(release) + 1):
        *above, last = release[:count]
        yield ".".join(map(str, (*above, last + 1)))
        yield ".".join(map(str, (*above, last + 1, 0, 0, 1)))
        if last:
            yield ".".join(map(str, (*above, last - 1, _FAR)))
