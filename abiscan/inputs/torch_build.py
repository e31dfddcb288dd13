"""What a torch says of its own build: ``torch/version.py``, which its ``setup.py`` writes. Read, never executed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# __version__ = '2.13.0+cu130', cuda: Optional[str] = '13.0', hip = None
_FIELD: Final = re.compile(r"^(__version__|cuda|hip)\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """A build of torch. ``version`` is the full one, ``cuda`` and ``hip`` those it was built with; None if unsaid."""

    version: str | None = None
    cuda: str | None = None
    hip: str | None = None

    @classmethod
    def parse(cls, text: str) -> TorchBuild:
        """What the text of ``version.py`` says."""
        fields = dict(_FIELD.findall(text))
        return cls(version=fields.get("__version__"), cuda=fields.get("cuda"), hip=fields.get("hip"))

    @property
    def accelerator(self) -> str:
        """``cu130``, ``rocm64`` or ``cpu``, as ``torch.utils.cpp_extension`` names the folder of what it builds."""
        if self.hip is not None:
            return "rocm" + self.hip.replace(".", "")
        return "cpu" if self.cuda is None else "cu" + self.cuda.replace(".", "")
