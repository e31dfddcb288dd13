"""What a torch says about its own build: ``torch/version.py``, which its ``setup.py`` writes. Read, never executed."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from abiscan.regex import regex

if TYPE_CHECKING:
    from abiscan.inputs.files import Files

# __version__ = '2.13.0+cu130', cuda: Optional[str] = '13.0', hip = None
_FIELD: Final = regex(r"^(__version__|cuda|hip)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)


class TorchBuild(Struct, frozen=True, kw_only=True):
    """A build of torch: its full version, and the versions of CUDA and HIP it was built with; None if not stated."""

    version: str | None = None
    cuda: str | None = None
    hip: str | None = None

    @classmethod
    def parse(cls, text: str) -> TorchBuild:
        """Return the build that the text of ``version.py`` describes."""
        fields = dict(_FIELD.findall(text))
        return cls(version=fields.get("__version__"), cuda=fields.get("cuda"), hip=fields.get("hip"))

    @property
    def accelerator(self) -> str:
        """``cu130``, ``rocm64`` or ``cpu``, as in the names of ``torch.utils.cpp_extension``'s build folders."""
        if self.hip is not None:
            return "rocm" + self.hip.replace(".", "")
        return "cpu" if self.cuda is None else "cu" + self.cuda.replace(".", "")


def build_of(package: str, files: Files) -> TorchBuild:
    """Return what the torch in a package folder says about its build; nothing if it has no ``version.py``."""
    source = files.find_source(posixpath.join(package, "version.py"))
    return TorchBuild() if source is None else TorchBuild.parse(source.read_head(1 << 16).decode("utf-8", "replace"))
