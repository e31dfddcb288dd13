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

    :ivar operator: has no overload where the file names none
    :ivar positional: the number of arguments without names, None if it is not known
    :ivar names: the arguments with names
    :ivar at: the place in the file
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

    :ivar file_version: that of PyTorch's archives (``.data/version`` or ``version``)
    :ivar bytecode_version: that of a mobile model
    :ivar schema: the version of the exported program
    :ivar archive_version: that of a pt2 archive
    :ivar members: the names of all members, in the order of the directory
    :ivar root: the folder that they are below, empty for none
    :ivar models: the names of the models in it
    :ivar classes: the custom classes that it needs (``torchvision.Video``)
    :ivar globals: the Python names that its pickles import
    :ivar metadata: that of AOTInductor
    :ivar devices: the devices that it names
    :ivar saved_by: the torch that saved it, if the file says so
    :ivar gaps: what could not be read of it
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
