"""Measure how a room of the package speaks: its names, its docstrings and its comments.

python -m tools.prose              prints a table with a row for each room, and what a room that is done does wrong
python -m tools.prose --list ROOM  prints every place of a room that counts against it
python -m tools.prose --check      prints nothing but faults; exits with 1 if a room that is done exceeds a limit
python -m tools.prose --same A B   proves that two versions differ in names, docstrings and comments only; A and B
                                   are folders or revisions of git, and B may be left out: the files as they are now

CONTRIBUTING.md has the reasons for the limits.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from tools import renaming

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "abiscan"

COMMENTED: Final = frozenset(
    {
        *("cache", "cli", "dispatch", "errors", "extension", "gpu", "hooks", "index", "inputs", "linkage", "pipelines"),
        *("regular", "report", "results", "rules", "words"),
    }
)
"""The rooms whose algorithms say why, too: they must have enough comments."""

DONE: Final = COMMENTED | {
    "api",
    "binary",
    "cpu",
    "emulation",
    "models",
    "python",
    "registrations",
    "torches",
    "verdict",
}
"""The rooms that must stay within the limits of names and docstrings."""

MOST_PLACEHOLDERS: Final = 0.01
MOST_ONE_WORD: Final = 0.45
MOST_NOMINAL: Final = 0.20
FEWEST_COMMENTS: Final = 0.03
"""Of the lines of all rooms in ``COMMENTED``: a room of tables needs none, one of algorithms needs more."""

PLACEHOLDERS: Final = {
    "one": "one of what?",
    "ones": "which of them?",
    "each": "each what? the loop says already that it is each",
    "every": "as each",
    "found": "what was found: a path, a symbol, a match",
    "got": "as found",
    "given": "as found; a parameter is always given",
    "known": "what is known: names, sizes, releases",
    "other": "the second of two; what is different about it?",
    "others": "as other",
    "another": "as other",
    "its": "a possessive without a noun",
    "said": "what was said: a message, an answer",
    "it": "a pronoun without a noun",
    "them": "as it",
    "this": "as it",
    "that": "as it",
    "these": "as it",
    "those": "as it",
    "thing": "everything is one",
    "things": "as thing",
    "stuff": "as thing",
    "something": "as thing",
    "anything": "as thing",
    "what": "a question, where a name is the answer",
    "which": "as what",
    "who": "as what",
    "way": "a path, a method, a direction?",
    "so": "a word of grammar",
    "such": "as so",
    "some": "as so",
    "rest": "what remains of what? `arguments`, `suffix`",
    "wanted": "expected, requested, required: by whom?",
    "tmp": "everything in a function is temporary",
    "temp": "as tmp",
    "foo": "means nothing",
    "bar": "means nothing",
    "dummy": "means nothing",
    "data": "everything is data: bytes, a table, a document",
}
"""Names that say nothing about what they hold, each with what to ask instead."""

_VAGUE_NOUN: Final = re.compile(r"_(values?|items?|things?|objects?)$")
"""What a placeholder keeps saying nothing with: ``known_value``, ``other_items``."""

_VERBS: Final = frozenset(
    """
    accept add adjust align allocate allow alternate analyse annotate announce answer append apply arrange ask
    assemble assert assign assume attach attribute avoid await begin belong bind blame bound box break bring build
    cache calculate call cancel capture change check choose clamp classify clean clear close collect combine come
    compare compile complete compose compress compute conclude configure confirm connect construct consume contain
    continue convert copy correspond count cover crash create cut deal decide declare decode decompress decrease
    define delete demangle depend derive describe deserialise detect determine discard dispatch distinguish divide
    do download draw drop emulate encode end enter enumerate escape estimate evaluate examine exclude execute exist
    expand expect explain export extract fail fall fetch fill filter find finish fit flatten fold follow forget
    format free generate get give go group guarantee guess halt handle happen hash have hide hold identify ignore
    import include increase index infer inflate initialise insert install instantiate interpret intersect introduce
    invoke join judge keep kill know label lay leave lend let limit list listen load locate lock log look lower make
    map mark mask match measure meet mention merge model modify move name narrow need normalise note notice number
    offer omit open order outrank overwrite pack pad parse pass patch perform pick place point pop predict prefer
    prepare present preserve prevent print process produce promise propose prove provide pull push put query quote
    raise rank reach read rebuild recognise record recover recurse reduce refer refuse register reject relate
    release rely remember remove rename render repair repeat replace replay report represent request require reset
    resolve respond restore restrict return reverse rewrite round run sample save say scan search see select send
    separate serialise serve set shift shorten show shrink sign simplify simulate skip sort spell split stand start
    state stay stop store strip submit substitute subtract succeed suggest summarise supply suppose switch take tell
    terminate test throw time touch trace track translate traverse treat trim truncate try turn undo unite unmap
    unpack unregister unwrap update use validate verify visit wait walk warn widen win word wrap write yield
    """.split()  # noqa: SIM905 (a list of two hundred lines)
)
"""Verbs that a docstring may open with, in the imperative or the third person. A new one is added here."""

_DOCSTRING_OWNERS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Count(Struct):
    """How often something is so, among how many."""

    number: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        """The number as a part of the total, from 0 to 1."""
        return self.number / self.total if self.total else 0.0

    def add(self, counted: bool) -> None:  # noqa: FBT001 (one question, one answer)
        """Count one more place."""
        self.total += 1
        self.number += counted

    def include(self, count: Count) -> None:
        """Add what was counted elsewhere."""
        self.number += count.number
        self.total += count.total


class Measures(Struct):
    """What was counted in the files of a room.

    :ivar one_word: functions and methods whose name is one word; properties, commands and ``__x__`` are not counted
    :ivar placeholders: names that are assigned, among them parameters, which are in ``PLACEHOLDERS``, alone or before a
        vague noun
    :ivar nominal: docstrings of functions and methods that open with no verb; properties are not counted
    :ivar comments: lines that are a comment and nothing else, among those that are not blank
    :ivar faults: a line of text for each place that counts against the room
    """

    one_word: Count
    placeholders: Count
    nominal: Count
    comments: Count
    faults: list[str]

    @classmethod
    def empty(cls) -> Measures:
        """Return measures of no file."""
        return cls(Count(), Count(), Count(), Count(), [])

    def include(self, measures: Measures) -> None:
        """Add the measures of other files."""
        self.one_word.include(measures.one_word)
        self.placeholders.include(measures.placeholders)
        self.nominal.include(measures.nominal)
        self.comments.include(measures.comments)
        self.faults += measures.faults


def measure_file(source: str, path: str) -> Measures:
    """Measure the text of a module; ``path`` is what its faults are reported for."""
    measures = Measures.empty()
    for line in source.splitlines():
        if line.strip():
            measures.comments.add(line.lstrip().startswith("#"))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCSTRING_OWNERS):
            _measure_function(node, path, measures)
        for line_number, name in _assigned(node):
            question = PLACEHOLDERS.get(_VAGUE_NOUN.sub("", name.strip("_")))
            measures.placeholders.add(question is not None)
            if question is not None:
                measures.faults.append(f"{path}:{line_number}: placeholder {name}: {question}")
    return measures


def _measure_function(node: ast.FunctionDef | ast.AsyncFunctionDef, path: str, measures: Measures) -> None:
    if _is_property(node):
        return  # a property is described like an attribute: with a noun
    is_magic = node.name.startswith("__")
    if not is_magic and not _is_command(node, path):
        one_word = "_" not in node.name.strip("_")
        measures.one_word.add(one_word)
        if one_word:
            measures.faults.append(f"{path}:{node.lineno}: one word {node.name}")
    docstring = ast.get_docstring(node)
    if docstring and not is_magic:
        nominal = not opens_with_verb(docstring) and not (docstring.startswith("Whether ") and _answers_bool(node))
        measures.nominal.add(nominal)
        if nominal:
            measures.faults.append(f"{path}:{node.lineno}: nominal {node.name}: {docstring.splitlines()[0]}")


def opens_with_verb(docstring: str) -> bool:
    """Tell whether the first word is a verb: ``Return``, ``Returns``, ``Try``, ``Tries``."""
    match = re.match(r"[A-Za-z]+", docstring)
    if match is None:
        return False
    word = match[0].lower()
    forms = {word, word.removesuffix("s"), word.removesuffix("es"), re.sub(r"ies$", "y", word)}
    return not forms.isdisjoint(_VERBS)


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list)


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef, path: str) -> bool:
    """Tell whether users type the name of a function: a command, or its counterpart in the API."""
    is_api = path == "abiscan/api.py" and not node.name.startswith("_")
    return is_api or any(".command" in ast.unparse(decorator) for decorator in node.decorator_list)


def _answers_bool(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return node.returns is not None and ast.unparse(node.returns) in {"bool", "bool | None", "TypeGuard[str]"}


def _assigned(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of what a node itself assigns: a variable, a parameter, a capture."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.lineno, node.id
    elif isinstance(node, ast.arg):
        yield node.lineno, node.arg
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.lineno, node.name


def rooms() -> dict[str, list[Path]]:
    """Return the files of each room: a folder of the package, or a module next to the folders."""
    files: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        files.setdefault(room, []).append(path)
    return files


def measure_room(files: list[Path]) -> Measures:
    """Measure all files of a room together."""
    measures = Measures.empty()
    for path in files:
        measures.include(measure_file(path.read_text("utf-8"), path.relative_to(ROOT).as_posix()))
    return measures


def exceeded(measured: dict[str, Measures]) -> list[str]:
    """Return a message for each limit that a room on the list ``DONE`` exceeds."""
    faults = [f"no room is called {room}: correct DONE in tools/prose.py" for room in sorted(DONE - measured.keys())]
    comments = Count()
    for room in sorted(DONE & measured.keys()):
        measures = measured[room]
        if room in COMMENTED:
            comments.include(measures.comments)
        limits = (
            ("placeholder names", measures.placeholders.share, MOST_PLACEHOLDERS),
            ("function names of one word", measures.one_word.share, MOST_ONE_WORD),
            ("docstrings that open with no verb", measures.nominal.share, MOST_NOMINAL),
        )
        faults += [
            f"{room}: {share:.1%} {subject}, the limit is {limit:.0%}; see python -m tools.prose --list {room}"
            for subject, share, limit in limits
            if share > limit
        ]
    if comments.total and comments.share < FEWEST_COMMENTS:
        faults.append(
            f"rooms with comments: {comments.share:.1%} of lines are comments, at least {FEWEST_COMMENTS:.0%} should be"
        )
    return faults


def table(measured: dict[str, Measures]) -> str:
    """Format the measures: a row for each room, those that are done marked, and a row for all of them together."""
    width = max(len(room) for room in measured)
    rows = [f"{'room':{width}}  done  one word  placeholders  nominal  comments"]
    total = Measures.empty()
    for room, measures in measured.items():
        rows.append(_row(room.ljust(width), "✓" if room in DONE else " ", measures))
        total.include(measures)
    rows.append(_row("all".ljust(width), " ", total))
    return "".join(f"{row}\n" for row in rows)


def _row(room: str, mark: str, measures: Measures) -> str:
    return (
        f"{room}  {mark:4}  {measures.one_word.share:8.1%}  {measures.placeholders.share:12.1%}"
        f"  {measures.nominal.share:7.1%}  {measures.comments.share:8.1%}"
    )


def main() -> int:
    """Run the command that the docstring of this module describes; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", metavar="ROOM", dest="room")
    parser.add_argument("--same", nargs="+", metavar=("A", "B"))
    options = parser.parse_args()
    if options.same:
        differences = renaming.compare_versions(*options.same[:2])
        print("\n".join(differences) or "Only names, docstrings and comments differ.")
        return int(bool(differences))
    files = rooms()
    if options.room is not None:
        if options.room not in files:
            parser.error(f"no room is called {options.room}; there are {', '.join(files)}")
        faults = measure_room(files[options.room]).faults
        kinds = Counter(fault.split()[1] for fault in faults)
        print("\n".join([*faults, ", ".join(f"{number} {kind}" for kind, number in kinds.items())]))
        return 0
    measured = {room: measure_room(paths) for room, paths in files.items()}
    if not options.check:
        print(table(measured), end="")
    faults = exceeded(measured)
    print("".join(f"{fault}\n" for fault in faults), end="", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
