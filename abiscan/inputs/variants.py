"""Read what a variant wheel says of itself: the label in its file name, and the properties in its ``variant.json``.

The format is that of PEP 825, draft of 10 August 2026. Files of the earlier drafts (PEP 817) have the same
``variants``; what else they have is not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct
from packaging.version import Version

from abiscan.regex import regex

METADATA: Final = regex(r"[^/]+\.dist-info/variant\.json")
NULL: Final = "null"
"""The label of the variant without properties."""

# "Variant wheel": the Python tag does not start with a digit, which is how a build tag does.
_LABELLED: Final = regex(r"([^-]+-[^-]+(?:-[0-9][^-]*)?-[^-0-9][^-]*-[^-]+-[^-]+)-([0-9a-z_.]+)\.whl")
_NAME: Final = regex(r"[a-z0-9_]+")
_VALUE: Final = regex(r"[a-z0-9_.]+")
_RELEASE: Final = regex(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,2}")
_VERSION: Final = regex(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_NUMBER: Final = regex(r"[0-9]{1,9}")
_LAST: Final = 1 << 30
_ABI: Final = "abi_dependency"
_TORCH: Final = "torch"
_MOST_PROPERTIES: Final = 1_000


class VariantProperty(NamedTuple):
    """A property: ``x86_64 :: level :: v3``."""

    namespace: str
    feature: str
    value: str

    def __str__(self) -> str:
        return " :: ".join(self)


class VersionProperty(NamedTuple):
    """A property whose value is a version."""

    version: tuple[int, int]
    stated: VariantProperty


class WheelVariant(Struct, frozen=True, kw_only=True):
    """What a wheel says of the systems that it is for, besides its tags.

    :ivar label: in its file name, empty if that is not known
    :ivar properties: a system needs one value of each feature
    :ivar problems: where it does not follow the format, one sentence each
    """

    label: str
    properties: tuple[VariantProperty, ...] = ()
    problems: tuple[str, ...] = ()

    def list_values(self, namespace: str, feature: str) -> tuple[VariantProperty, ...]:
        """Return the properties with the values of a feature, one of which a system needs."""
        return tuple(stated for stated in self.properties if stated[:2] == (namespace, feature))

    @property
    def torch(self) -> tuple[VariantProperty, ...]:
        """The releases of torch that it is for; empty if it does not say."""
        return self.list_values(_ABI, _TORCH)

    def admits_torch(self, version: Version) -> bool:
        """Tell whether it is for a release of torch: each value stands for ``=={value}.*`` (PEP 817)."""
        if not self.torch:
            return True
        from packaging.specifiers import SpecifierSet  # few wheels are variants, and it takes long to import

        return any(
            SpecifierSet(f"=={stated.value}.*").contains(version.public, prereleases=True)
            for stated in self.torch
            if _RELEASE.fullmatch(stated.value)
        )

    def __str__(self) -> str:
        return f"{self.label} ({', '.join(map(str, self.properties)) or 'no properties'})"


class VariantList(Struct, frozen=True, kw_only=True):
    """Variants, as ``variant.json`` has one of them and an index all of a version.

    :ivar variants: by label
    :ivar namespaces: those of their properties, the most important first
    """

    variants: dict[str, WheelVariant] = {}
    namespaces: tuple[str, ...] = ()

    def sort_key(self, variant: WheelVariant) -> list[tuple[int, str, tuple[int, ...]]]:
        """Sort the preferred variant first ("Variant ordering").

        The order of features and values is that of their providers, which is not asked: names, and greater versions
        before lower ones.
        """
        # Of several values of one feature, the best one counts, as the system would choose it.
        best: dict[tuple[int, str], tuple[int, ...]] = {}
        for stated in variant.properties:
            is_listed = stated.namespace in self.namespaces
            number = self.namespaces.index(stated.namespace) if is_listed else len(self.namespaces)
            rank = tuple(-int(part) for part in _NUMBER.findall(stated.value)[:4])
            feature = number, f"{stated.namespace} {stated.feature}"
            best[feature] = min(rank, best.get(feature, rank))
        # If one list begins with the other, the longer one comes first; equal ones are sorted by label.
        return [*((*feature, rank) for feature, rank in sorted(best.items())), (_LAST, variant.label, ())]


def torch_property(release: str) -> VariantProperty:
    """Return the property of a wheel that is for a release of torch, or for all of a minor version: ``2.9``."""
    return VariantProperty(_ABI, _TORCH, release)


def variant_label(wheel: str) -> str:
    """Return the variant label in the file name of a wheel; an empty text if it has none."""
    match = _LABELLED.fullmatch(wheel)
    return match[2] if match else ""


def without_label(wheel: str) -> str:
    """Return the file name of a wheel as it was without a variant label: that is where its tags are."""
    match = _LABELLED.fullmatch(wheel)
    return f"{match[1]}.whl" if match else wheel


def read_variants(text: str) -> VariantList:
    """Read ``variant.json``, or the file that an index has for all variants of a version.

    :raises ValueError: it is no such file
    """
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("it has too many levels") from error
    variants = document.get("variants") if isinstance(document, dict) else None
    if isinstance(variants, dict):
        priorities = document.get("default-priorities")
        order = priorities.get("namespace") if isinstance(priorities, dict) else None
        return VariantList(
            variants={label: _make_variant(label, namespaces) for label, namespaces in variants.items()},
            namespaces=tuple(name for name in order if isinstance(name, str)) if isinstance(order, list) else (),
        )
    raise ValueError('it has no "variants"')


def variant_of_wheel(label: str, text: str | None) -> WheelVariant | None:
    """Return what a wheel says of its variant; None if it is of none.

    :param label: in its file name; empty if that has none, or is not known
    :param text: its ``variant.json``, None if it has none
    """
    if text is None:
        problem = f"the file name has the variant label {label}, and there is no variant.json"
        return WheelVariant(label=label, problems=(problem,)) if label else None
    try:
        variants = read_variants(text).variants
    except ValueError as error:
        return WheelVariant(label=label, problems=(f"variant.json cannot be read: {error}",))
    if len(variants) != 1 or (label and label not in variants):
        stated = ", ".join(map(repr, sorted(variants)[:3])) or "none"
        expected = f"{label!r}, the label in the file name" if label else "exactly one"
        problem = f"variant.json has the variants {stated}, not {expected}"
        chosen = variants.get(label, WheelVariant(label=label))
        return WheelVariant(label=label, properties=chosen.properties, problems=(problem, *chosen.problems))
    (variant,) = variants.values()
    return variant


def _make_variant(label: str, namespaces: Any) -> WheelVariant:
    """Read the properties of one variant; what does not follow the format is told, and left out."""
    properties, problems = list[VariantProperty](), list[str]()
    for namespace, feature, values in _features_in(namespaces):
        whole = _NAME.fullmatch(namespace) and _NAME.fullmatch(feature) and isinstance(values, list) and values
        sound = whole and all(isinstance(value, str) and _VALUE.fullmatch(value) for value in values)
        if not sound or len(properties) + len(values) > _MOST_PROPERTIES:
            problems.append(f"variant.json has no list of values for {namespace[:50]} :: {feature[:50]}")
            continue
        properties += (VariantProperty(namespace, feature, value) for value in values)
    if not isinstance(namespaces, dict):
        problems.append(f"variant.json has no properties for {label[:50]}")
    if label == NULL and properties:
        problems.append("the variant null has properties: the label is for one without")
    problems += (
        f"{stated} is not a release of torch of up to three numbers"
        for stated in properties
        if stated[:2] == (_ABI, _TORCH) and not _RELEASE.fullmatch(stated.value)
    )
    return WheelVariant(label=label, properties=tuple(properties), problems=tuple(problems[:10]))


def _features_in(namespaces: Any) -> Iterator[tuple[str, str, Any]]:
    for namespace, features in namespaces.items() if isinstance(namespaces, Mapping) else ():
        if isinstance(features, Mapping):
            yield from ((namespace, feature, values) for feature, values in features.items())
        else:
            yield namespace, "", None


def lowest_first(stated: Sequence[VariantProperty]) -> list[VersionProperty]:
    """Return the properties whose value is a version, ``12.8`` or ``13``, the lowest first."""
    matches = ((item, _VERSION.fullmatch(item.value)) for item in stated)
    return sorted(VersionProperty((int(match[1]), int(match[2] or 0)), item) for item, match in matches if match)
