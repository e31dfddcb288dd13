"""What the reading of a package's Python code is asked, and what it answers.

Paths are those inside the package: relative to the folder that it is installed in, with ``/``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct, field

from abiscan.cpu.processors import Cpu
from abiscan.words import first_line

if TYPE_CHECKING:
    from abiscan.python.torch_api.torch_names import TorchNames


class PythonLine(Struct, frozen=True, order=True, kw_only=True):
    """A line of a package's source; without a file, the user's own import of a module."""

    file: str | None
    line: int
    module: str | None = None

    def __str__(self) -> str:
        return f"import {self.module}" if self.file is None else f"{self.file}:{self.line}"


class PythonNeed(Struct, frozen=True, kw_only=True):
    """That a package needs an older Python than some that may run it.

    :ivar below: the first that it fails on
    :ivar why: where it does, and what is raised
    :ivar is_refused: whether every Python that it may be is one of those
    """

    below: tuple[int, int]
    why: str
    is_refused: bool


class LoadedBy(enum.Enum):
    """What loads a library."""

    IMPORT = "import"
    """The import of an extension module."""
    LOAD_LIBRARY = "torch.ops.load_library"
    LOAD_CLASSES = "torch.classes.load_library"
    CTYPES = "ctypes.CDLL"
    CTYPES_GLOBAL = "ctypes.CDLL(…, RTLD_GLOBAL)"
    """Or with a mode that is not known."""


PROCESS_ENDS: Final = "(the process ends)"
"""The ``exception`` of a load that ends the process: no handler of the package is reached."""


class Raised(Struct, frozen=True, kw_only=True):
    """An exception.

    :ivar exception: its type, by name
    :ivar message: its text, in which the package's folder is the empty path; None if it could not be followed
    :ivar exact: whether all of the text is known; if not, ``?`` stands for the rest
    :ivar at: the innermost line of the package that it passed through
    :ivar cause: the exception that it was raised from, or while handling
    :ivar lacking: the library that this machine lacks, to which it is due; None if no other machine differs
    :ivar of_torch: whether it is raised because torch lacks a name, or a parameter
    :ivar of_other: the module of another package whose import raises it; None if it is the package's own
    :ivar of_attribute: what a module says that lacks a name which is taken as an attribute, and not imported
    """

    exception: str
    message: str | None
    at: PythonLine | None
    cause: Raised | None = None
    lacking: str | None = None
    of_torch: bool = False
    of_other: str | None = None
    of_attribute: str | None = None
    exact: bool = True

    def says_that_it_lacks(self, module: str, name: str | None) -> bool:
        """Whether it says that a module is not there, or does not have a name."""
        lacking = f"No module named {module!r}" if name is None else f"cannot import name {name!r} from {module!r}"
        return (self.message or "").startswith(lacking)


class Answer(enum.Enum):
    """What the world answers where it cannot say yes or no."""

    UNKNOWN = "unknown"
    """Nothing speaks against it."""
    EITHER = "either"
    """Both may well be: both ways are followed."""


def in_words(end: Raised | Answer | None) -> str:
    """Return how an import or a load ends, for the trace."""
    if isinstance(end, Raised):
        return f"{end.exception}: {end.message} ({end.at})"
    return "it succeeds" if end is None else end.value


class NoResult(Struct, frozen=True, kw_only=True):
    """Why the result of a call is not known."""

    reason: str


class World(Protocol):
    """What the code finds when it runs: the interpreter, torch, and how libraries load there.

    Each answer may be unknown.
    """

    @property
    def torch_version(self) -> str | Answer:
        """``torch.__version__``, with its local tag."""
        ...

    @property
    def cuda(self) -> str | Answer | None:
        """``torch.version.cuda``, None for a CPU build."""
        ...

    @property
    def gpus(self) -> tuple[tuple[int, int], ...]:
        """The compute capabilities of the GPUs of NVIDIA that it uses, such as ``(9, 0)``; empty if none is known."""
        ...

    @property
    def cxx11_abi(self) -> bool | Answer:
        """``torch.compiled_with_cxx11_abi()``."""
        ...

    @property
    def python(self) -> tuple[int, int] | Answer:
        """The version of the interpreter, such as ``(3, 11)``."""
        ...

    @property
    def oldest_python(self) -> tuple[int, int] | None:
        """The oldest interpreter that it may be, None if nothing tells."""
        ...

    @property
    def newest_python(self) -> tuple[int, int] | None:
        """The newest interpreter that it may be, None if nothing tells."""
        ...

    @property
    def machine(self) -> str:
        """``platform.machine()``."""
        ...

    @property
    def cpu(self) -> Cpu | None:
        """The processor, None if it is not known."""
        ...

    @property
    def torch_names(self) -> TorchNames | None:
        """The Python names of torch, None if they are not known."""
        ...

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """Load a library of the package: None if it loads, else what the load raises.

        Libraries that have been loaded stay in the process for the next ones. Without a path, it is not known what is
        loaded: from then on, any library of the package may be in the process.
        """
        ...

    def operator(self, name: str) -> bool | Answer:
        """Tell whether torch or a library loaded so far defines an operator, ``torchvision::nms``; unknown counts as
        yes.
        """
        ...

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """Return what an operator that a library loaded so far defines returns, called without arguments.

        ``path/_C.so:name`` is a function of an extension module.
        """
        ...

    def refused_load(self, path: str) -> str | None:
        """Return what ``torch.load`` says of a file of the package by default, which loads weights only; None if it
        loads it, or if that is not known.
        """
        ...


class Channel(enum.Enum):
    """How users learn of a failure that the package survives."""

    WARNING = "warning"
    LOG = "log"
    PRINT = "print"
    NOTHING = "nothing"


class UserMessage(Struct, frozen=True, kw_only=True):
    """What the code tells users.

    :ivar text: the words; None if those could not be followed
    """

    how: Channel
    at: PythonLine
    text: str | None = None


class Load(Struct, frozen=True, kw_only=True):
    """One library that the code loaded, or tried to.

    :ivar path: None if it could not be followed
    :ivar raised: what the load raised; None if it succeeded
    :ivar guarded: whether the package catches what a load raises there
    :ivar told: how users learn of a failure that the package catches; None if there is none, or it is not caught
    :ivar told_text: in which words they do; None if those are not known
    :ivar before_torch: whether nothing in the package has imported torch before
    """

    path: str | None
    loader: LoadedBy
    at: PythonLine
    raised: Raised | Answer | None
    guarded: bool = False
    told: Channel | None = None
    told_text: str | None = None
    before_torch: bool = False


class Registers(enum.Enum):
    """What Python registers."""

    DEFINITION = "definition"
    KERNEL = "kernel"
    FAKE = "fake"
    AUTOGRAD = "autograd"
    AUTOCAST = "autocast"
    VMAP = "vmap"
    TORCH_DISPATCH = "torch_dispatch"


class PythonRegistration(Struct, frozen=True, kw_only=True):
    """What Python registers with the dispatcher for one operator.

    :ivar key: the dispatch key of a kernel
    :ivar is_conditional: whether it depends on a condition that is not known
    """

    what: Registers
    operator: str
    key: str | None
    at: PythonLine
    is_conditional: bool = False


class Condition(Struct, frozen=True, kw_only=True):
    """A condition that could not be decided, and that matters.

    :ivar text: the condition, as the code has it
    :ivar taken: whether it was assumed to be true
    :ivar error: what the import ends in for one of its values, if it is known to succeed or to end otherwise for the
        other one; None if nothing is known of that
    :ivar fails_if: for which value
    """

    text: str
    at: PythonLine
    taken: bool
    error: Raised | None = None
    fails_if: bool = True

    def __str__(self) -> str:
        shown = f"{self.text} ({self.at})"
        if self.error is None:
            return shown
        notice = f": {first_line(self.error.message)}" if self.error.message else ""
        return f"{shown}; if {'so' if self.fails_if else 'not'}, {self.error.exception}{notice}"


class Need(Struct, frozen=True, kw_only=True):
    """Something that is assumed to be there, and that the outcome of an import depends on.

    :ivar kind: ``backend``, ``compiler`` or ``requirement``
    :ivar name: what is needed: ``torch-npu``
    :ivar why: what it is needed for, as a sentence
    :ivar is_there: whether it is; None if that is not known
    """

    kind: str
    name: str
    why: str
    at: PythonLine
    is_there: bool | None = None


class UsualEnd(Struct, frozen=True, kw_only=True):
    """The error that most of the ways through an import end in, where they end differently.

    :ivar ways: how many of them do
    :ivar of: how many were followed
    """

    raised: Raised
    ways: int
    of: int


class ImportOutcome(Struct, frozen=True, kw_only=True):
    """What ``import MODULE`` does.

    :ivar raised: what the import raises; None if it succeeds, unknown if the ways past the undecided conditions end
        differently, or something could not be followed
    :ivar loads: the libraries that it loads on the most likely way
    :ivar conditions: those that could not be decided, and that matter
    :ivar gaps: what could not be followed, in words
    :ivar needs: what it holds on
    :ivar regardless: whether it raises the same where every library loads: then no failed load is the reason
    :ivar imported: the files of the modules that it imports on every way, to their ends
    :ivar usual_end: what most ways end in, if not all of them end alike, and most do not succeed
    """

    module: str
    raised: Raised | Answer | None
    loads: tuple[Load, ...] = ()
    registrations: tuple[PythonRegistration, ...] = ()
    conditions: tuple[Condition, ...] = ()
    gaps: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    regardless: bool = False
    imported: frozenset[str] = frozenset()
    usual_end: UsualEnd | None = None


class HowLoaded(enum.Enum):
    """How a package loads one of its libraries."""

    IMPORT = "import"
    """Always, as the package is imported; a failure ends the import."""
    GUARDED = "guarded"
    """As the package is imported; a failure is caught."""
    CONDITIONAL = "conditional"
    """Under a condition that is not known ahead, such as that a GPU is present."""
    ON_DEMAND = "on-demand"
    """When a function is called, or a submodule imported."""
    ALTERNATIVE = "alternative"
    """Another of several builds is chosen on this target."""
    NEVER = "never"
    """No Python code of this target can load it."""
    NEEDED = "needed"
    """It is not loaded by Python, but needed by another library of the package."""
    UNKNOWN = "unknown"


class Skipped(enum.Enum):
    """Why the import does not get to a library, although it does on the torch that the library was built for."""

    GUARD = "guard"
    """The package does without it on this torch, by a condition on the version or the build of torch."""
    IMPORT_STOPS = "import-stops"
    """The import fails before."""


class OtherTorch(Struct, frozen=True, kw_only=True):
    """A torch that a library may have been built for: ``torch.__version__`` and ``torch.version.cuda``."""

    version: str
    cuda: str | None


class LibraryUse(Struct, frozen=True, kw_only=True):
    """How the package uses one of its libraries on this target.

    :ivar how: how it is loaded; if the import does not get to it here, how it is on the torch that it was built for
    :ivar at: the line that loads it, of the same import
    :ivar convention: the reason, in words, if the Python code tells nothing and a naming convention decides
    :ivar skipped: why the import does not get to it here
    :ivar message: how users learn that it is skipped
    :ivar unimportable: whether no Python of the target accepts it
    """

    path: str
    how: HowLoaded
    at: PythonLine | None
    convention: str | None = None
    skipped: Skipped | None = None
    message: UserMessage | None = None
    unimportable: bool = False


class Reading(Struct, frozen=True, kw_only=True):
    """What the Python code of a package does on one target.

    :ivar imports: the outcome of the import of the package, then of each public submodule with a library of its own
    :ivar uses: every library of the package, by path
    :ivar other_outcomes: the outcomes of the imports of the other modules that the package installs
    """

    imports: tuple[ImportOutcome, ...]
    uses: Mapping[str, LibraryUse] = field(default_factory=dict)
    other_outcomes: tuple[ImportOutcome, ...] = ()
