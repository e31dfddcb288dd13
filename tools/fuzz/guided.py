"""Coverage-guided fuzzing of the pure parsers, with atheris (the dependency group ``fuzz``), until an input escapes.

    python -m tools.fuzz.guided schema -max_total_time=600
    python -m tools.fuzz.guided elf crash-0123456789        # one input again
    python -m tools.fuzz.guided --minimise schema           # into the corpus: the shortest for each line

What follows the parser's name goes to libFuzzer. It starts with the inputs in ``tools/fuzz/corpus/PARSER``, which the
tests run through the parser, too; new ones go into a folder that is named after it. An escape is an exception that is
not of abiscan's errors.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Final

from abiscan.binary.elf import ElfFile
from abiscan.binary.mangling import demangle, returning_cxx11_string, same_name_prefixes
from abiscan.dispatch.schema import parse_name_or_schema
from abiscan.errors import AbiscanError
from abiscan.gpu.reader import read_gpu_code
from abiscan.index import index_page
from abiscan.inputs import result_codec
from abiscan.inputs.files import Wheel
from abiscan.inputs.requirement import read_metadata
from abiscan.inputs.version import TorchVersion
from abiscan.inputs.wheel_tag import abi3_python, manylinux_version
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
    manylinux_version(_text(data))


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
    for name in list(wheel.list_members())[:20]:
        member = wheel.find_member(name)
        member.identify_version()
        if member.size < _LARGEST:
            member.read_head(100)


def _elf(data: bytes) -> None:
    file = ElfFile.from_bytes(data, "x.so")
    file.facts()


def _gpu(data: bytes) -> None:
    read_gpu_code(lambda start, size: data[start : start + size], len(data))


def _workload(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(prefix="abiscan-") as file:
        file.write(data)
        file.flush()
        read_workload(Path(file.name))


def _page(data: bytes) -> None:
    kind = index_page.JSON if data.lstrip().startswith((b"{", b"[")) else "text/html"
    with contextlib.suppress(ValueError):  # it is no page, which the index reports
        index_page.bound_page("https://x/simple/x/", kind, data)


def _answer(data: bytes) -> None:
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, ImportError, RecursionError):
        result_codec.decode_result(_text(data))  # what ``answers`` takes for damage


PARSERS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "schema": _schema,
    "version": _version,
    "metadata": _metadata,
    "name": _name,
    "wheel": _wheel,
    "elf": _elf,
    "gpu": _gpu,
    "workload": _workload,
    "page": _page,
    "answer": _answer,
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


def minimise(parser: str) -> None:
    """Replace the corpus by those of its inputs, and of those found, that reach a line which no shorter one reaches."""
    inputs = {path.read_bytes() for folder in (CORPUS / parser, _found(parser)) for path in folder.glob("*")}
    reached: set[tuple[str, int]] = set()
    shutil.rmtree(CORPUS / parser)
    (CORPUS / parser).mkdir()
    for data in sorted(inputs, key=lambda data: (len(data), data)):
        lines = _lines(parser, data)
        if not lines <= reached:
            reached |= lines
            (CORPUS / parser / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def _lines(parser: str, data: bytes) -> set[tuple[str, int]]:
    """The lines of abiscan that run."""
    lines: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if "abiscan" not in Path(frame.f_code.co_filename).parts:
            return None
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        parse(parser, data)
    finally:
        sys.settrace(None)
    return lines


def _found(parser: str) -> Path:
    return Path(tempfile.gettempdir(), f"abiscan-fuzz-{parser}")


def main() -> None:
    """Fuzz, or run the inputs that are named."""
    parser, *words = sys.argv[1:]
    if parser == "--minimise":
        minimise(*words)
        return
    import atheris

    for function in _functions():
        atheris.instrument_func(function)
    if not any(Path(word).is_file() for word in words):
        shutil.copytree(CORPUS / parser, _found(parser), dirs_exist_ok=True)
        words = [str(_found(parser)), f"-max_len={_LARGEST}", *words]
    atheris.Setup([sys.argv[0], *words], lambda data: parse(parser, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
