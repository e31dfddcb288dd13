"""The classes of a torch that is not embedded, laid out by clang from the headers that come with it.

That takes as long as compiling an extension, so the result is cached between runs, in a file per torch.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from abiscan.cache.computed import KeptKind, get_or_compute
from abiscan.inputs import observed_fs
from abiscan.inputs.files import DiskFile, Files
from abiscan.inputs.session import Session
from abiscan.torches import clang
from abiscan.torches.clang import NEEDED, Clang, ClangError, Include
from abiscan.torches.layouts import Layout, VTable, as_layout
from abiscan.torches.model import TorchRelease
from abiscan.torches.unlisted_torch_headers import INCLUDE, OwnHeaders

_LARGEST: Final = 1 << 28  # bytes of all headers; those of 2.15.0 have 40 MB
_INCLUDED: Final = (*NEEDED, "torch/script.h", "torch/custom_class.h")
"""What extensions include."""

_FRONT_END: Final = "torch/csrc/api/include/"
_HOW: Final = "pip install 'abiscan[layouts]' reads them from its headers"


class OwnLayouts(Struct, frozen=True, kw_only=True, eq=False):
    """The layouts and virtual functions of some classes, by name.

    :ivar gap: why there are none
    """

    records: Mapping[str, Layout] = field(default_factory=dict)
    vtables: Mapping[str, VTable] = field(default_factory=dict)
    gap: str | None = None

    def layout(self, name: str) -> Layout | None:
        """Return the memory layout of a class."""
        return self.records.get(name)

    def vtable(self, name: str) -> VTable | None:
        """Return the virtual functions of a class."""
        return self.vtables.get(name)


def lay_out(
    release: TorchRelease,
    headers: OwnHeaders,
    classes: Collection[str],
    extra_header: str | None,
    *,
    cxx11: bool,
    files: Files,
    session: Session,
) -> OwnLayouts:
    """Return some classes of an installed torch, laid out by clang, or taken from the cache of an earlier run.

    :param classes: which of those that every extension includes
    :param extra_header: a header to include besides
    :param cxx11: which ``std::string`` it was built with
    """
    observed_fs.look_once()  # a compiler reads what it likes
    compiler = clang.find_clang()
    if compiler is None:
        return OwnLayouts(gap=_HOW)

    def lay_out_classes() -> OwnLayouts:
        session.progress(f"laying out the classes of {release} with {compiler.name} (only once)")
        included = (*_INCLUDED, extra_header) if extra_header else _INCLUDED
        return _as_layouts(*_compile_classes(release, included, classes, compiler, cxx11=cxx11, files=files))

    try:
        return get_or_compute(
            session.folder, _KIND, f"{headers.identity} {compiler.name} {extra_header}", lay_out_classes
        )
    except ClangError as error:
        return OwnLayouts(gap=f"{compiler.name} does not compile its headers: {error}")


def _compile_classes(
    release: TorchRelease,
    headers: Sequence[str],
    classes: Collection[str],
    compiler: Clang,
    *,
    cxx11: bool,
    files: Files,
) -> clang.ClangOutput:
    with contextlib.ExitStack() as stack:
        # An installed torch has its headers on disk already.
        folder = _on_disk(release, files)
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="abiscan-")))
            _unpack_headers(release, files, folder)
        try:
            include = Include(folder=folder, machine=release.machine, cxx11=cxx11)
            needed = include.headers(name.removeprefix(_FRONT_END) for name in headers)
        except OSError as error:
            raise ClangError(f"they cannot be read: {error.strerror or error}") from error
        return compiler.classes(include, needed, classes)


def _on_disk(release: TorchRelease, files: Files) -> Path | None:
    """Return the folder of the headers of a torch; None if they are in a wheel."""
    source = files.find_source(posixpath.join(release.package, INCLUDE, "ATen/ATen.h"))  # which every release has
    return Path(release.package, INCLUDE) if isinstance(source, DiskFile) else None


def _unpack_headers(release: TorchRelease, files: Files, folder: Path) -> None:
    inside = posixpath.join(release.package, INCLUDE)
    size = 0
    for path in files.list_below(inside):
        source = files.find_source(path)
        if source is None:
            continue
        # Headers in a wheel are written to disk for the compiler: a hostile wheel must not fill it.
        size += source.size
        if size > _LARGEST:
            raise ClangError("they are too large")
        copy = folder / posixpath.relpath(path, inside)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_head(source.size))


def _as_layouts(records: Mapping[str, Sequence[Any]], vtables: Mapping[str, Sequence[str]]) -> OwnLayouts:
    return OwnLayouts(
        records={name: as_layout(name, row) for name, row in records.items()},
        vtables={name: VTable(name, tuple(slots)) for name, slots in vtables.items()},
    )


def _encode_layouts(layouts: OwnLayouts) -> bytes:
    records = {name: layout[1:] for name, layout in layouts.records.items()}
    return json.dumps(
        {"records": records, "vtables": {name: subject.slots for name, subject in layouts.vtables.items()}}
    ).encode()


_KIND: Final = KeptKind(
    suffix=".layouts", version=2, encode=_encode_layouts, decode=lambda content: _as_layouts(**json.loads(content))
)
