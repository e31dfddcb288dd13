"""What the loaders of each release read, for ``abiscan/models/data/loaders.json``: from the sources in its wheel.

    python -m tools.record_loaders 2.14.1 2.15.0     # some members of each wheel, read in place on the package index
    python -m tools.record_loaders --all             # every embedded release

Nothing is run. ``file_format`` and ``bytecode`` are the oldest and the newest version of PyTorch's archives and of the
lite interpreter's bytecode (``caffe2/serialize/versions.h``). ``schema`` is the version of exported programs
(``torch/_export/serde/schema.py``); ``layouts`` are those that ``torch.export.load`` looks for, ``parts`` the members
of the flat one that it requires. ``archive_version`` is that of a pt2 archive, ``aoti`` the call that loads a package
of AOTInductor, and ``symbols`` are the functions that a model's library is asked for
(``model_container_runner.h``). ``weights_only`` is what ``torch.load`` does by default, ``allowed`` the Python names
that it accepts then, without those of types, storages and tensors.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.version import Version

from abiscan.index.client import Index, settings_of_pip
from abiscan.index.system import System
from abiscan.inputs.files import Wheel
from abiscan.models.loaders import PATH
from abiscan.torches import embedded
from tools.wheels import python_of

_PLATFORM: Final = "manylinux_2_28_x86_64"
_VERSIONS: Final = "torch/include/caffe2/serialize/versions.h"
_STREAM: Final = "torch/include/caffe2/serialize/inline_container.h"
_RUNNER: Final = "torch/include/torch/csrc/inductor/aoti_runner/model_container_runner.h"
_CONSTANTS: Final = "torch/include/torch/csrc/export/pt2_archive_constants.h"
_EXPORT: Final = "torch/export/__init__.py"
_OLD_EXPORT: Final = "torch/_export/__init__.py"
_SCHEMA: Final = "torch/_export/serde/schema.py"
_PACKAGE: Final = "torch/_inductor/package/package.py"
_INDUCTOR: Final = "torch/_inductor/__init__.py"
_SERIALIZATION: Final = "torch/serialization.py"
_UNPICKLER: Final = "torch/_weights_only_unpickler.py"
MEMBERS: Final = (
    *(_VERSIONS, _STREAM, _RUNNER, _CONSTANTS, _EXPORT, _OLD_EXPORT, _SCHEMA, _PACKAGE, _INDUCTOR, _SERIALIZATION),
    _UNPICKLER,
)
_NUMBER: Final = r"\s*=\s*(0x[0-9A-Fa-f]+|\d+)L?"
_PART: Final = re.compile(r'"(serialized_\w+)\.(?:pt|json)"')


def read(files: Mapping[str, str]) -> dict[str, Any]:
    """What the sources of a release say.

    :param files: those of ``MEMBERS`` that it has
    """
    versions = files.get(_VERSIONS, "") + files.get(_STREAM, "")
    export = _function("load", files.get(_EXPORT, "")) or ""
    if "zipfile" not in export:
        export = _function("load", files.get(_OLD_EXPORT, "")) or export
    unpickler = files.get(_UNPICKLER, "")
    found: dict[str, Any] = {
        "file_format": _range(versions, "SupportedFileFormatVersion"),
        "bytecode": _range(versions, "SupportedBytecodeVersion"),
        "schema": _schema(files.get(_SCHEMA, "")) if export else None,
        "layouts": [name for name, mark in (("pt2", "load_pt2"), ("flat", "zipf.read(")) if mark in export],
        "names_layout": '"version" not in zipf.namelist()' in export,
        "parts": sorted(set(_PART.findall(export))),
        "archive_version": _first(r'ARCHIVE_VERSION_VALUE, "(\w+)"', files.get(_CONSTANTS, "")),
        "aoti": _aoti_call(files),
        "aoti_layouts": ["pt2", "flat"] if "load_pt2" in files.get(_PACKAGE, "") else ["flat"],
        "symbols": sorted(set(re.findall(r"&(AOTInductor\w+)", files.get(_RUNNER, "")))),
        "weights_only": "_default_to_weights_only" in files.get(_SERIALIZATION, ""),
        "allowed": _allowed(unpickler),
    }
    return {key: value for key, value in found.items() if value}


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None


def _range(text: str, name: str) -> list[int] | None:
    numbers = [_first(f"k{end}{name}{_NUMBER}", text) for end in ("Min", "Max")]
    return [int(number, 0) for number in numbers if number] if all(numbers) else None


def _function(name: str, source: str) -> str | None:
    """The source of a function at the top level of a module."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_source_segment(source, node)
    return None


def _schema(source: str) -> list[int] | None:
    found = _first(r"SCHEMA_VERSION\s*=\s*(\(?[\d, ]+\)?)", source)
    value = ast.literal_eval(found.strip()) if found else None
    return list(value) if isinstance(value, tuple) else [value] if value is not None else None


def _aoti_call(files: Mapping[str, str]) -> str | None:
    if _function("aoti_load_package", files.get(_INDUCTOR, "")):
        return "torch._inductor.aoti_load_package"
    return "torch._inductor.package.load_package" if _function("load_package", files.get(_PACKAGE, "")) else None


def _allowed(source: str) -> list[str]:
    """The names in the dictionary of allowed globals, and the functions that rebuild tensors."""
    own = _function("_get_allowed_globals", source) or ""
    names = set(re.findall(r'"([\w.]+)":', own)) | set(re.findall(r'rc\["([\w.]+)"\]', own))
    rebuilding = _function("_tensor_rebuild_functions", source) or own
    return sorted(names | {f"torch._utils.{name}" for name in re.findall(r"torch\._utils\.(\w+)", rebuilding)})


def read_remote(version: str) -> dict[str, Any]:
    """What the wheel of a release on the package index says."""
    major, minor = python_of(version).split(".")
    system = System.of((int(major), int(minor)), _PLATFORM)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Index(settings_of_pip(sys.executable), system, Path(folder))) as index,
    ):
        candidate = index.candidates(Requirement(f"torch==={version}"))[0]
        wheel = Wheel(Path(candidate.wheel), index.wheel(candidate).stream())
        present = set(wheel.list_members())
        names = [name for name in MEMBERS if name in present]
        wheel.announce_reads(names)
        return read({name: wheel.read_text(name) for name in names})


def read_folder(package: Path) -> dict[str, Any]:
    """What an unpacked torch says."""
    paths = {name: package.parent / name for name in MEMBERS}
    return read({name: path.read_text("utf-8") for name, path in paths.items() if path.is_file()})


def rewritten(table: Mapping[str, Any], added: Mapping[str, Any], gone: Collection[str] = ()) -> str:
    """Return the text of the data file: one line for each release, in order.

    :param gone: the releases that are left out
    """
    full = {version: read for version, read in {**table, **added}.items() if version not in gone}
    lines = [f" {json.dumps(version)}: {json.dumps(full[version])}" for version in sorted(full, key=Version)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Read, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    parser.add_argument("--all", action="store_true", help="every embedded release")
    arguments = parser.parse_args()
    versions = list(map(str, embedded.versions())) if arguments.all else arguments.versions
    table = json.loads(PATH.read_text("utf-8")) if PATH.exists() else {}
    for version in versions:
        PATH.write_text(rewritten(table, {version: read_remote(version)}), "utf-8")
        table = json.loads(PATH.read_text("utf-8"))
        print(f"torch {version}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
