"""What torch's own Python code says, and since when it has names.

See torch/_ops.py, torch/library.py and torch/_custom_ops.py. ``dispatch/messages`` has what torch's libraries say.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from packaging.version import InvalidVersion, Version

from abiscan.inputs.version import MinorVersion


class Wording(NamedTuple):
    """What torch says from one release on, up to the next wording of the same id."""

    id: str
    first: MinorVersion
    text: str


NOT_LOADED: Final = "not loaded"
"""What ``torch.ops.load_library`` raises, with the error of the loader as its cause."""

NO_OPERATOR: Final = "no operator"
"""What looking an operator up raises: up to 1.11 in TorchScript's registry, then as an attribute."""

NO_OPERATOR_FOR_META: Final = "no operator for meta"
"""What registering a kernel for Meta raises, or a fake kernel."""

WORDINGS: Final = (
    Wording(NOT_LOADED, (2, 9), "Could not load this library: {path}"),
    Wording(NO_OPERATOR, (1, 3), "No such operator {namespace}::{name}"),
    Wording(NO_OPERATOR, (1, 12), "'_OpNamespace' object has no attribute '{name}'"),
    Wording(NO_OPERATOR, (1, 13), "'_OpNamespace' '{namespace}' object has no attribute '{name}'"),
    Wording(NO_OPERATOR_FOR_META, (2, 0), "operator {namespace}::{name} does not exist"),
    Wording(
        "defined twice",
        (1, 8),
        "Tried to register an operator ({schema}) with the same name and overload name multiple times.",
    ),
    Wording("kind", (1, 11), "Unsupported kind: {kind}"),
    Wording(
        "no operator for custom_ops",
        (2, 1),
        "Could not find the operator {operator}. Please make sure you have already registered the operator and (if "
        "registered from C++) loaded it via torch.ops.load_library.",
    ),
)

LIBRARY_SINCE: Final[dict[str, MinorVersion]] = {
    "custom_op": (2, 4), "register_fake": (2, 4), "register_kernel": (2, 4), "register_autograd": (2, 4),
    "triton_op": (2, 6), "wrap_triton": (2, 6), "register_torch_dispatch": (2, 5), "register_vmap": (2, 5),
}  # fmt: skip
"""The release of torch that a name of ``torch.library`` came with."""


def says(id_: str, release: MinorVersion | None = None, **values: object) -> str | None:
    """Return what a release says; None if it says nothing of the kind.

    :param release: None for the newest
    """
    texts = [wording.text for wording in WORDINGS if wording.id == id_ and (not release or wording.first <= release)]
    return texts[-1].format(**values) if texts else None


def release_of(version: object) -> MinorVersion | None:
    """Return the release of a version of torch as its Python code tells it; None if that is unknown."""
    try:
        number = Version(version) if isinstance(version, str) else None
    except InvalidVersion:
        return None
    return (number.major, number.minor) if number else None
