"""Packages for the tests of the reading of Python code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from abiscan.cpu.processors import Cpu
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer, LoadedBy, NoResult, OtherTorch, Raised, Reading
from abiscan.python.reading import read_package
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD

_LIMITS: Final = Limits()


@dataclass(frozen=True)
class FolderSources:
    """A folder that packages are installed in."""

    folder: Path

    def members(self) -> Sequence[str]:
        """Its files."""
        return [path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()]

    def read(self, path: str) -> bytes:
        """The bytes of one."""
        return (self.folder / path).read_bytes()

    def needed(self, path: str) -> Sequence[str]:
        """None of its own."""
        return [] if path else [""]


@dataclass(frozen=True)
class TextSources:
    """A package as texts; what a library needs stands in its text."""

    files: Mapping[str, str | bytes]

    def members(self) -> Sequence[str]:
        """Its files."""
        return list(self.files)

    def read(self, path: str) -> bytes:
        """The bytes of one."""
        content = self.files[path]
        return content if isinstance(content, bytes) else content.encode()

    def needed(self, path: str) -> Sequence[str]:
        """The names in its text."""
        return self.read(path).decode().split()


def _loads(_path: str) -> str | None:
    return None


@dataclass
class FakeWorld:
    """A world as a test wants it; ``error`` gives the loader's error for a path."""

    torch_version: str | Answer = "2.13.0+cpu"
    cuda: str | Answer | None = None
    cxx11_abi: bool | Answer = True
    python: tuple[int, int] | Answer = (3, 11)
    oldest_python: tuple[int, int] | None = None
    newest_python: tuple[int, int] | None = None
    machine: str = "x86_64"
    torch_names: TorchNames | None = None
    cpu: Cpu | None = None
    gpus: tuple[tuple[int, int], ...] = ()
    error: Callable[[str], str | Answer | None] = _loads
    operators: frozenset[str] = field(default_factory=frozenset)
    results: Mapping[str, int | bool | str | NoResult | None] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """As the test says."""
        answer = Answer.UNKNOWN if path is None else self.error(path)
        if answer is None or isinstance(answer, Answer):
            return answer
        kind = "ImportError" if loader is LoadedBy.IMPORT else "OSError"
        return Raised(exception=kind, message=answer, at=None)

    def operator(self, name: str) -> bool | Answer:
        """Those of the test."""
        return name.removesuffix(DEFAULT_OVERLOAD) in self.operators

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """As the test says."""
        return self.results.get(operator, NoResult(reason="the test has none"))

    def refused_load(self, path: str) -> str | None:
        """Those of the test."""
        return self.refused.get(path)


def reading_of(
    files: Mapping[str, str | bytes],
    world: FakeWorld | None = None,
    around: Surroundings | None = None,
    built_for: tuple[OtherTorch, ...] = (),
    limits: Limits = _LIMITS,
) -> Reading:
    """Read a package."""
    return read_package(
        TextSources(files),
        (),
        lambda: world or FakeWorld(),
        surroundings=around,
        built_for=lambda path: built_for if path.endswith(".so") else (),
        limits=limits,
    )


def check_claim(source: str, claim: str) -> None:
    """Check that a claim about what a source defines holds in Python, and that the reading decides it likewise."""
    code = f"{source}\nif not ({claim}):\n    raise ValueError('no')\n"
    exec(compile(code, "real", "exec", dont_inherit=True), {"__name__": __name__})  # as Python has it
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert (outcome.raised, outcome.gaps) == (None, ())
    # The claim is decided, not passed over.
    (outcome,) = reading_of({"p/__init__.py": code.replace("if not (", "if (")}).imports
    assert outcome.raised is not None
