"""What torch's own Python code says, and since when it has names.

See torch/_ops.py, torch/library.py and torch/_custom_ops.py. ``dispatch/messages`` has what torch's libraries say.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from packaging.version import InvalidVersion, Version

from abiscan.inputs.version import MinorVersion

DEFAULT_OVERLOAD: Final = ".default"
"""What code adds to an operator for its overload without a name: ``torch.ops.aten.relu.default``."""


class Wording(NamedTuple):
    """What torch raises from one release on, up to the next wording of the same id."""

    id: str
    first: MinorVersion
    raises: type[Exception]
    text: str


NOT_LOADED: Final = "not loaded"
"""What ``torch.ops.load_library`` raises, with the error of the loader as its cause."""

NO_OPERATOR: Final = "no operator"
"""What looking an operator up raises: up to 1.11 in TorchScript's registry, then as an attribute."""

NO_OVERLOAD: Final = "no overload"
"""What looking up an overload of an operator raises."""

NO_OPERATOR_FOR_META: Final = "no operator for meta"
"""What registering a kernel for Meta raises, or a fake kernel."""

NO_BACKEND: Final = "no backend"
"""What ``import torch`` raises at its end, where a package fails that names itself as a backend."""

NO_NINJA: Final = "no ninja"
"""What compiling an extension raises without the program that it is compiled by."""

NO_CUDA_HOME: Final = "no CUDA_HOME"
"""What compiling code for CUDA raises where there is no compiler of CUDA."""

OVERLOADS_SINCE: Final[MinorVersion] = (1, 12)
"""The release since which an operator has overloads in Python; before, it is a function alone."""

WORDINGS: Final = (
    Wording(NOT_LOADED, (2, 9), OSError, "Could not load this library: {path}"),
    Wording(NO_OPERATOR, (1, 3), RuntimeError, "No such operator {namespace}::{name}"),
    Wording(NO_OPERATOR, (1, 12), AttributeError, "'_OpNamespace' object has no attribute '{name}'"),
    Wording(NO_OPERATOR, (1, 13), AttributeError, "'_OpNamespace' '{namespace}' object has no attribute '{name}'"),
    Wording(NO_OVERLOAD, (1, 3), AttributeError, "'builtin_function_or_method' object has no attribute '{name}'"),
    Wording(NO_OVERLOAD, (1, 12), AttributeError, "The underlying op of '{packet}' has no overload name '{name}'"),
    Wording(NO_OPERATOR_FOR_META, (2, 0), RuntimeError, "operator {namespace}::{name} does not exist"),
    Wording(
        NO_BACKEND,
        (2, 5),
        RuntimeError,
        "Failed to load the backend extension: {name}. You can disable extension auto-loading with "
        "TORCH_DEVICE_BACKEND_AUTOLOAD=0.",
    ),
    Wording(
        "defined twice",
        (1, 8),
        RuntimeError,
        "Tried to register an operator ({schema}) with the same name and overload name multiple times.",
    ),
    Wording(NO_NINJA, (1, 0), RuntimeError, "Ninja is required to load C++ extensions"),
    Wording(NO_NINJA, (2, 8), RuntimeError, "Ninja is required to load C++ extensions (pip install ninja to get it)"),
    Wording(
        NO_CUDA_HOME,
        (1, 0),
        OSError,
        "CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
    ),
    Wording("kind", (1, 11), ValueError, "Unsupported kind: {kind}"),
    Wording(
        "no operator for custom_ops",
        (2, 1),
        ValueError,
        "Could not find the operator {operator}. Please make sure you have already registered the operator and (if "
        "registered from C++) loaded it via torch.ops.load_library.",
    ),
)

LISTED_IN_VAIN: Final[dict[tuple[str, MinorVersion], str]] = {
    ("torch.utils.data", (1, 7)): "BatchSamplerDistributedSamplerDataset",
}
"""What ``__all__`` of a module lists first that the module does not have, in a release: commas are missing there."""
LIBRARY_SINCE: Final[dict[str, MinorVersion]] = {
    "custom_op": (2, 4), "register_fake": (2, 4), "register_kernel": (2, 4), "register_autograd": (2, 4),
    "triton_op": (2, 6), "wrap_triton": (2, 6), "register_torch_dispatch": (2, 5), "register_vmap": (2, 5),
}  # fmt: skip
"""The release of torch that a name of ``torch.library`` came with."""
NAMES_SINCE: Final[MinorVersion] = (2, 2)
"""The release whose ``torch.library.define`` and ``impl`` take an operator by its name, not a library only."""


def wording_of(id_: str, release: MinorVersion | None = None) -> Wording | None:
    """Return the wording of a release; None if it says nothing of the kind.

    :param release: None for the newest
    """
    wordings = [wording for wording in WORDINGS if wording.id == id_ and (not release or wording.first <= release)]
    return wordings[-1] if wordings else None


def says(id_: str, release: MinorVersion | None = None, /, **values: object) -> str | None:
    """Return what a release says; None if it says nothing of the kind.

    :param release: None for the newest
    """
    wording = wording_of(id_, release)
    return wording.text.format(**values) if wording else None


def release_of(version: object) -> MinorVersion | None:
    """Return the release of a version of torch as its Python code tells it; None if that is unknown."""
    try:
        number = Version(version) if isinstance(version, str) else None
    except InvalidVersion:
        return None
    return (number.major, number.minor) if number else None
