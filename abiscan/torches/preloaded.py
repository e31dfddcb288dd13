"""Libraries of CUDA that ``import torch`` loads by their paths, from other packages: ``_load_global_deps``.

Torch's own libraries find theirs by RPATH. What is loaded further is in the process by its SONAME when an extension
needs it, although no search path leads to it: libnvrtc.so.12, in torch 2.6 to 2.9.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterator
from typing import Final

from abiscan.inputs.files import Files
from abiscan.inputs.torch_build import build_of
from abiscan.regex import regex

# _preload_cuda_deps("cuda_nvrtc", "libnvrtc.so.*[0-9]"), and the pairs of the list in that function since 2.11.
_LIBRARY: Final = regex(rb'\("(\w+)", "(lib[\w-]+\.so[^"/]*)"\)')
_BEST_EFFORT: Final = b"required=required"
_CUDART: Final = "libcudart.so"


def list_preloaded(package: str, dependencies: str, files: Files) -> Iterator[str]:
    """Yield the paths of the libraries, in the order of the loads.

    :param package: the folder of the torch
    :param dependencies: its ``libtorch_global_deps.so``, which is loaded before
    """
    facts = files.object_at(dependencies)
    source = files.find_source(posixpath.join(package, "__init__.py"))
    # Torch looks for libcudart in /proc/self/maps before it does any of this.
    if source is None or facts is None or not any(name.startswith(_CUDART) for name in facts.needed):
        return
    text, cuda = source.read_head(1 << 20), build_of(package, files).cuda
    site = posixpath.dirname(package)
    for folder, pattern in _LIBRARY.findall(text):
        names = (folder.decode(), f"cu{(cuda or '').partition('.')[0]}")
        folders = [posixpath.join(site, "nvidia", name, "lib") for name in names]
        paths = (path for lib in (*folders, posixpath.join(site, names[0], "lib")) for path in files.list_folder(lib))
        library = next((path for path in paths if fnmatch.fnmatch(posixpath.basename(path), pattern.decode())), None)
        if library is not None:
            yield library
        # The first that is missing ends it with a ValueError, which torch catches; newer releases go on.
        elif _BEST_EFFORT not in text:
            return
