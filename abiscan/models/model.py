"""What is known of a saved model from its file."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

CREATES_MODEL: Final = "AOTInductorModelContainerCreateWithDevice"
"""The function that every library of AOTInductor exports: torch makes the model with it."""


class ModelFormat(enum.Enum):
    """How a model was saved."""

    AOTI = "aoti"
    EXPORT = "export"
    TORCHSCRIPT = "torchscript"
    PICKLE = "pickle"

    @property
    def words(self) -> str:
        """For messages."""
        return _WORDS[self]


_WORDS = {
    ModelFormat.AOTI: "an AOTInductor package",
    ModelFormat.EXPORT: "an exported program",
    ModelFormat.TORCHSCRIPT: "a TorchScript archive",
    ModelFormat.PICKLE: "a file of torch.save",
}


class ModelLayout(enum.Enum):
    """How the members of an archive are arranged."""

    FLAT = "flat"
    """``serialized_exported_program.json`` and ``version``, or ``data/aotinductor``: up to 2.7."""

    ROOTED = "pt2"
    """Below a folder, with ``archive_format`` and ``archive_version``: from 2.8 on."""

    TORCHSCRIPT = "torchscript"
    MOBILE = "mobile"
    """With the bytecode of the lite interpreter, besides TorchScript's code."""

    ZIP = "zip"
    """A file of ``torch.save`` from 1.6 on."""

    LEGACY = "legacy"
    """A file of ``torch.save`` up to 1.5: pickles one after the other."""

    LIBRARY = "library"
    """The library of an AOTInductor model alone."""


class OperatorCall(Struct, frozen=True, kw_only=True):
    """A call of an operator.

    ``operator`` has no overload where the file names none. ``positional`` is the number of arguments without names,
    None if it is not known; ``names`` are those with names. ``at`` is the place in the file.
    """

    operator: str
    overload: str | None
    positional: int | None
    names: tuple[str, ...] = ()
    at: str = ""

    @property
    def name(self) -> str:
        """The operator, with the overload if that is known and has a name."""
        return f"{self.operator}.{self.overload}" if self.overload else self.operator


class SavedModel(Struct, frozen=True, kw_only=True):
    """A model's file, read.

    ``file_version`` is that of PyTorch's archives (``.data/version`` or ``version``), ``schema`` that of the exported
    program, ``archive_version`` that of a pt2 archive. ``members`` are the names of all members, in the order of the
    directory; ``root`` is the folder that they are below, empty for none. ``models`` are the names of the models in it.
    ``classes`` are the custom classes that it needs (``torchvision.Video``), ``globals`` the Python names that its
    pickles import. ``metadata`` is that of AOTInductor, ``devices`` the devices that it names. ``gaps`` say what could
    not be read of it.
    """

    format: ModelFormat
    layout: ModelLayout
    file_version: int | None = None
    bytecode_version: int | None = None
    schema: tuple[int, ...] | None = None
    archive_version: str | None = None
    members: tuple[str, ...] = ()
    root: str = ""
    models: tuple[str, ...] = ()
    operators: tuple[OperatorCall, ...] = ()
    classes: tuple[str, ...] = ()
    globals: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    saved_by: str | None = None
    gaps: tuple[str, ...] = ()
