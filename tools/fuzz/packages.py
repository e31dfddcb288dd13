"""What says which packages there are: the metadata of those that are installed, and files of requirements."""

from __future__ import annotations

import contextlib
import functools
import json
from pathlib import Path
from random import Random
from typing import Final

from abiscan.environments.model import WholeEnvironment, modules_of, origin_of
from abiscan.errors import AbiscanError
from abiscan.inputs.packages import files_of, find_installed, list_installed
from abiscan.inputs.requirements_file import read_requirements
from abiscan.inputs.variants import variant_of_wheel
from tools.fuzz.model import Case, damaged
from tools.fuzz.texts import changed

_TEXTS: Final = {
    "METADATA": b"Metadata-Version: 2.4\nName: pkg\nVersion: 1.0\nRequires-Dist: torch>=2; extra == 'x'\n\nText\n",
    "RECORD": b'pkg/__init__.py,sha256=ab,1\n"pkg/a,b.so",,\n../../../bin/pkg,sha256=ab,\npkg-1.0.dist-info/RECORD,,\n',
    "WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
    "top_level.txt": b"pkg\n",
    "INSTALLER": b"pip\n",
}
_DOCUMENTS: Final = {
    "direct_url.json": {"url": "file:///nowhere/pkg", "dir_info": {"editable": True}},
    "variant.json": {
        "variants": {"v3": {"x86_64": {"level": ["v3"]}, "abi_dependency": {"torch": ["2.13"]}}},
        "default-priorities": {"namespace": ["x86_64"]},
    },
}
_REQUIREMENTS: Final = (
    b"torch>=2.1,<3 ; python_version >= '3.9' # why\n-c constraints.txt\npkg[x] == 1.0 \\\n  --hash=sha256:ab\n"
    b"--index-url https://x/simple\n-r other.txt\nname @ https://x/name-1.0-py3-none-any.whl\n"
)


def installed(random: Random, folder: Path) -> Case:
    """An environment with a package whose metadata are damaged."""
    info = folder / random.choice(("pkg-1.0.dist-info", "pkg-1.0.dist-info", "pkg.egg-info", "-.dist-info"))
    info.mkdir()
    for name, text in _TEXTS.items():
        if random.random() < 0.9:
            (info / name).write_bytes(damaged(text, random, 6) if random.random() < 0.5 else text)
    for name, document in _DOCUMENTS.items():
        if random.random() < 0.8:
            content = json.dumps(changed(document, random)).encode()
            (info / name).write_bytes(damaged(content, random) if random.random() < 0.3 else content)
    return Case(call=functools.partial(_read_packages, str(folder)))


def _read_packages(site: str) -> None:
    environment = WholeEnvironment(python=None, distributions=tuple(list_installed([site])))
    for distribution in environment.distributions:
        environment.unmet(distribution)
        modules_of(distribution)
        origin_of(distribution)
        list(files_of(distribution))
        str(distribution)
        variant_of_wheel("v3", distribution.variant)
    find_installed("pkg", [site])


def requirements(random: Random, folder: Path) -> Case:
    """A file of requirements that is damaged, and those that it includes."""
    for name in ("requirements.txt", "constraints.txt", "other.txt"):
        if random.random() < 0.8:
            (folder / name).write_bytes(damaged(_REQUIREMENTS, random, 10))
    return Case(call=functools.partial(_read_requirements, folder / "requirements.txt"))


def _read_requirements(file: Path) -> None:
    with contextlib.suppress(AbiscanError):
        read_requirements(file)
