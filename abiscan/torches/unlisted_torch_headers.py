"""What the headers that come with a torch declare: for a torch that is not embedded.

Reading them takes seconds, so the result is cached between runs, in a file per torch.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec.structs
from msgspec import Struct

from abiscan.cache.computed import KeptKind, get_or_compute
from abiscan.inputs import observed_fs
from abiscan.inputs.files import Files
from abiscan.inputs.identity import identity_of
from abiscan.inputs.session import Session
from abiscan.regex import regex
from abiscan.torches.declarations import Declarations
from abiscan.torches.from_libs import operator_libraries
from abiscan.torches.headers import assertion_lines
from abiscan.torches.model import TorchRelease

INCLUDE: Final = "include"
"""The folder of the headers in the package."""

_SHARED: Final = regex(
    r"c10/.*|ATen/[^/]*|ATen/(?:core|detail|quantized|cuda)/.*|ATen/native/DispatchStub\.h|caffe2/.*|torch/[^/]*"
    r"|torch/headeronly/.*|torch/csrc/[^/]*|torch/csrc/(?:autograd|jit|profiler|utils|distributed)/.*"
    r"|torch/csrc/api/include/torch/[^/]*"
)
"""Where the classes are declared that extensions share with torch."""

_GENERATED: Final = regex(
    r"Functions\.h|RegistrationDeclarations|VmapGenerated|Operators|MetaFunctions|Ops\.h|_generated|/generated/"
)
"""Large headers that declare functions, one for each operator."""

_ROOTS: Final = ("ATen", "c10", "caffe2", "torch")
"""The folders in it: those of a distribution are links to its own folder for headers."""

_SUFFIXES: Final = (".h", ".hpp")
_LARGEST: Final = 1 << 24  # bytes


class OwnHeaders(Struct, frozen=True, kw_only=True):
    """What is read from a torch's headers.

    :ivar digests: the hash of each class's declaration
    :ivar declared_in: the header that defines each class
    :ivar assertions: the lines of assertions (``c10/core/A.h:12``)
    :ivar identity: tells these headers from others
    """

    digests: Mapping[str, str]
    declared_in: Mapping[str, str]
    assertions: frozenset[str]
    identity: str = ""


def is_read(path: str) -> bool:
    """Whether a header declares what extensions share with torch.

    :param path: its path below ``torch/include``
    """
    return bool(path.endswith(_SUFFIXES) and _SHARED.fullmatch(path) and not _GENERATED.search(path))


def read_headers(headers: Mapping[str, str]) -> OwnHeaders:
    """Return what headers declare.

    :param headers: the text of each, by its path below ``torch/include``
    """
    declarations = Declarations({path: text for path, text in headers.items() if is_read(path)})
    classes = declarations.classes
    digests = ((name, declarations.digest(name)) for name in classes)
    return OwnHeaders(
        digests={name: digest for name, digest in digests if digest is not None},
        declared_in=classes,
        assertions=frozenset(f"{path}:{line}" for path, text in headers.items() for line in assertion_lines(text)),
    )


def headers_of(release: TorchRelease, files: Files, session: Session) -> OwnHeaders | None:
    """Return what the headers of an installed torch declare, from the cache of an earlier run; None if it has no
    headers.
    """
    # The versions of all headers are part of the key, though only some are read: to list them takes no reading.
    folder = posixpath.join(release.package, INCLUDE)
    paths = _header_paths(folder, files)
    if not paths:
        return None
    libraries = [source for path in operator_libraries(release) if (source := files.find_source(path)) is not None]
    # The cache must not outlive an edit of a header, or another build of the same version.
    identity = " ".join((release.build or "", *map(identity_of, libraries), *_file_versions(paths, files)))
    identity = hashlib.sha256(identity.encode()).hexdigest()[:40]

    def read_texts() -> OwnHeaders:
        session.progress(f"reading the headers of {release} (only once)")
        texts = {}
        for path in paths:
            name = posixpath.relpath(path, folder)
            source = files.find_source(path) if is_read(name) else None
            if source is not None:
                texts[name] = source.read_head(_LARGEST).decode("utf-8", "replace")
        return read_headers(texts)

    return msgspec.structs.replace(get_or_compute(session.folder, _KIND, identity, read_texts), identity=identity)


def _header_paths(folder: str, files: Files) -> list[str]:
    """Return the headers in a folder, and in the folders that are linked there."""
    paths = list(files.list_below(folder))
    for name in _ROOTS:
        root = posixpath.join(folder, name)
        if not any(path.startswith(f"{root}/") for path in paths):
            paths += files.list_below(root)
    return paths


def _file_versions(paths: Iterable[str], files: Files) -> Iterable[str]:
    """Yield a text for each header that changes with it, without reading it: an edit may leave the size as it was."""
    for path in paths:
        status = observed_fs.stat_file(path)
        if status is not None:  # thousands of files: nothing else is asked of each
            yield f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ino}"
        elif source := files.find_source(path):  # in a wheel
            yield f"{path} {source.identify_version()}"


def _encode_headers(headers: OwnHeaders) -> bytes:
    content = {
        "digests": headers.digests,
        "declared_in": headers.declared_in,
        "assertions": sorted(headers.assertions),
    }
    return json.dumps(content).encode()


def _decode_headers(contents: bytes) -> OwnHeaders:
    content = json.loads(contents)
    return OwnHeaders(
        digests=dict(content["digests"]),
        declared_in=dict(content["declared_in"]),
        assertions=frozenset(content["assertions"]),
    )


_KIND: Final = KeptKind(suffix=".headers", version=3, encode=_encode_headers, decode=_decode_headers)
