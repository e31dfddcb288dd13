"""Make ``abiscan/torches/data/declarations.bin``: the hashes of the declarations of torch's classes in each release.

The headers are read from the wheels, which are fetched with pip and deleted: those for aarch64 where there are any, for
they are small. What was read stays in the work folder, one file for each release, so a second run only reads what is
new; the output depends on those files alone, byte for byte. A hash is left out if releases that share it lay out the
class differently, with the same ``std::string``: such a class depends on something that the hash does not see.

    python -m tools.build_declaration_data
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.torches import embedded, embedded_declarations, layouts
from abiscan.torches.layout_changes import layout_change, slot_changes
from abiscan.torches.names import pack
from abiscan.torches.own_headers import OwnHeaders, is_read, read_headers
from tools.build_header_data import INCLUDE
from tools.build_release_data import python_of
from tools.wheels import download

OUTPUT: Final = Path(embedded_declarations.__file__).with_name("data") / "declarations.bin"


def read(wheel: zipfile.ZipFile) -> OwnHeaders:
    """What the headers in a wheel of torch declare."""
    paths = (name.removeprefix(INCLUDE) for name in wheel.namelist() if name.startswith(INCLUDE))
    return read_headers(
        {path: wheel.read(INCLUDE + path).decode("utf-8", "replace") for path in filter(is_read, paths)}
    )


def merge(digests: Mapping[str, Mapping[str, str]]) -> tuple[bytes, list[str]]:
    """The data file, and the classes whose hash says too little.

    :param digests: the hash of each class, by release
    """
    releases = sorted(digests, key=Version)
    columns: dict[tuple[str, str], int] = defaultdict(int)
    for number, release in enumerate(releases):
        for name, digest in digests[release].items():
            if any(layouts.layout(name, release, machine) for machine in Machine):
                columns[name, digest] |= 1 << number
    wrong = {
        (name, digest)
        for (name, digest), bits in columns.items()
        if _differs(name, [release for number, release in enumerate(releases) if bits >> number & 1])
    }
    texts = {f"{name} {digest}": bits for (name, digest), bits in columns.items() if (name, digest) not in wrong}
    return pack(texts, {"releases": releases}), sorted(name for name, _ in wrong)


def _differs(name: str, releases: list[str]) -> bool:
    """Whether a class is laid out differently in some releases with the same string."""
    return any(
        layout_change(name, old, new, machine) is not None or slot_changes(name, old, new, machine)
        for machine in Machine
        for old, new in _alike(releases, machine)
    )


def _alike(releases: list[str], machine: Machine) -> Iterator[tuple[str, str]]:
    """Each release with the next one that was built with the same string."""
    for cxx11 in (False, True):
        same = [release for release in releases if embedded.uses_cxx11_strings(release, machine) is cxx11]
        yield from itertools.pairwise(same)


def fetch(version: str, folder: Path) -> OwnHeaders:
    """What the headers of a release on the package index declare."""
    for machine in (Machine.AARCH64, Machine.X86_64):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            path = download(f"torch=={version}", Path(scratch), python=python_of(version), machine=machine)
            if path is not None:
                with zipfile.ZipFile(path) as wheel:
                    return read(wheel)
    raise SystemExit(f"no wheel of torch {version}")


def main() -> int:
    """Read what is missing, then write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("corpus/declarations"), help="where what was read stays")
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)
    for version in map(str, embedded.versions()):
        path = work / f"{version}.json.xz"
        if not path.exists():
            print(f"reading torch {version}", flush=True)
            path.write_bytes(lzma.compress(json.dumps(dict(fetch(version, work).digests)).encode(), preset=3))
    digests = {
        str(version): json.loads(lzma.decompress((work / f"{version}.json.xz").read_bytes()))
        for version in embedded.versions()
    }
    packed, wrong = merge(digests)
    OUTPUT.write_bytes(packed)
    print(f"{OUTPUT.name}: {len(digests)} releases, {len(packed) / 1e3:.0f} kB, without {', '.join(wrong) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
