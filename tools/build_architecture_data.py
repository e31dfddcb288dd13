"""Make ``abiscan/torches/data/architectures.txt``: the GPUs that each embedded build of torch has code for.

It is what ``torch.cuda.get_arch_list()`` returns: one text in ``libtorch_python.so``. Of each wheel only the directory
and that member are read, 10 to 30 MB.

    python -m tools.build_architecture_data            # reads what is missing in the file
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.torches import architectures, embedded
from tools.build_release_data import python_of

OUTPUT: Final = Path(architectures.__file__).with_name("data") / "architectures.txt"
MEMBER: Final = re.compile(r"torch/lib/libtorch_python\.so")
TAGS: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux1")
_WINDOW: Final = 1 << 22


class Remote(io.RawIOBase):
    """A file on a server that serves ranges."""

    def __init__(self, url: str) -> None:
        self._url, self._at = url, 0
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:  # noqa: S310
            self._size = int(answer.headers["Content-Length"])

    def seekable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move."""
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fetch a range."""
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        span = {"Range": f"bytes={self._at}-{self._at + count - 1}"}
        with urllib.request.urlopen(urllib.request.Request(self._url, headers=span), timeout=60) as answer:  # noqa: S310
            data = answer.read()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def address_of(version: str, machine: Machine) -> str | None:
    """Where pip would get the wheel of a release from; None if there is none."""
    platforms = [word for tag in TAGS for word in ("--platform", f"{tag}_{machine.value}")]
    command = (
        *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"),
        *("--target", "nowhere", "--only-binary", ":all:", "--python-version", python_of(version), *platforms),
        *("--report", "-", f"torch==={version}"),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return str(json.loads(done.stdout)["install"][0]["download_info"]["url"]) if done.returncode == 0 else None


def architectures_of(url: str) -> str | None:
    """The list in a wheel; None for a build without CUDA."""
    local = url.removeprefix("file://")
    with zipfile.ZipFile(local if local != url else io.BufferedReader(Remote(url), _WINDOW)) as wheel:
        name = next(filter(MEMBER.fullmatch, wheel.namelist()))
        rest = b""
        with wheel.open(name) as stream:
            while chunk := stream.read(_WINDOW):
                if found := architectures.LIST.search(rest + chunk):
                    return found[1].decode()
                rest = chunk[-4096:]
    return None


def main() -> int:
    """Write the file."""
    known = dict.fromkeys(OUTPUT.read_text("utf-8").splitlines()) if OUTPUT.exists() else {}
    lines = list(known)
    done = {tuple(line.split()[:2]) for line in lines}
    for release, machine, build in embedded.builds():
        if (build, machine.value) in done or "libtorch_cuda.so" not in embedded.libraries(build, machine):
            continue
        url = address_of(str(release), machine)
        found = architectures_of(url) if url else None
        print(build, machine.value, found, flush=True)
        if found:
            lines.append(f"{build} {machine.value} {found}")
            OUTPUT.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    order = {(build, machine.value): number for number, (_, machine, build) in enumerate(embedded.builds())}
    lines.sort(key=lambda line: order.get((line.split()[0], line.split()[1]), len(order)))
    OUTPUT.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
