"""Coverage-guided fuzzing of the pure parsers, with atheris (the extra ``abiscan[fuzz]``), until an input escapes.

    python -m tools.fuzz.guided schema -max_total_time=600
    python -m tools.fuzz.guided elf crash-0123456789        # one input again

What follows the parser's name goes to libFuzzer. It starts with the inputs in ``tools/fuzz/corpus/PARSER``, which the
tests run through the parser, too; new ones go into a folder that is named after it. An escape is an exception that is
not of abiscan's errors.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Final

from abiscan.binary.elf import ElfFile
from abiscan.binary.mangling import demangle, returning_cxx11_string, same_name_prefixes
from abiscan.dispatch.schema import parse_name_or_schema
from abiscan.errors import AbiscanError
from abiscan.gpu.reader import gpu_code
from abiscan.inputs.files import Wheel
from abiscan.inputs.requirement import read_metadata
from abiscan.inputs.version import TorchVersion
from abiscan.inputs.wheel_tag import abi3_python, manylinux
from abiscan.inputs.workload import read_workload

CORPUS: Final = Path(__file__).parent / "corpus"
_LARGEST: Final = 1 << 16


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _schema(data: bytes) -> None:
    choice = next(iter(data), 0)
    release = (1, choice % 14) if choice < 0x80 else (2, choice % 16)
    str(parse_name_or_schema(_text(data[1:]), release=release, strict=choice > 0xC0))


def _version(data: bytes) -> None:
    TorchVersion.parse(_text(data))
    abi3_python(_text(data))
    manylinux(_text(data))


def _metadata(data: bytes) -> None:
    name, _, text = _text(data).partition("\n")
    read_metadata(text, name)


def _name(data: bytes) -> None:
    name = _text(data)
    demangle(name)
    same_name_prefixes(name)
    returning_cxx11_string(name)


def _wheel(data: bytes) -> None:
    wheel = Wheel(Path("x-1.0-py3-none-any.whl"), io.BytesIO(data))
    for name in list(wheel.names())[:20]:
        member = wheel.member(name)
        member.fingerprint()
        if member.size < _LARGEST:
            member.head(100)


def _elf(data: bytes) -> None:
    file = ElfFile.from_bytes(data, "x.so")
    file.facts()


def _gpu(data: bytes) -> None:
    gpu_code(lambda start, size: data[start : start + size], len(data))


def _workload(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(prefix="abiscan-") as file:
        file.write(data)
        file.flush()
        read_workload(Path(file.name))


PARSERS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "schema": _schema,
    "version": _version,
    "metadata": _metadata,
    "name": _name,
    "wheel": _wheel,
    "elf": _elf,
    "gpu": _gpu,
    "workload": _workload,
}


def parse(parser: str, data: bytes) -> None:
    """Pass an input to a parser; what it raises is an escape."""
    with contextlib.suppress(AbiscanError):
        PARSERS[parser](data)


def _functions() -> Iterator[FunctionType]:
    """Those of the parsers: of abiscan, and of what it reads archives and requirements with."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in {"abiscan", "packaging", "zipfile"}:
            own = [value for value in vars(module).values() if getattr(value, "__module__", None) == name]
            members = [member for value in own if isinstance(value, type) for member in vars(value).values()]
            yield from (value for value in (*own, *members) if isinstance(value, FunctionType))


def main() -> None:
    """Fuzz, or run the inputs that are named."""
    parser, *words = sys.argv[1:]
    import atheris

    for function in _functions():
        atheris.instrument_func(function)
    if not any(Path(word).is_file() for word in words):
        found = Path(tempfile.gettempdir(), f"abiscan-fuzz-{parser}")
        shutil.copytree(CORPUS / parser, found, dirs_exist_ok=True)
        words = [str(found), f"-max_len={_LARGEST}", *words]
    atheris.Setup([sys.argv[0], *words], lambda data: parse(parser, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
