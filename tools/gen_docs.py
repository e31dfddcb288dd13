"""Write the schemas of the JSON documents, and the generated parts of the documentation: rules, help texts, the API.

python -m tools.gen_docs           rewrites the schemas, and each part between its markers, in the pages of docs/
python -m tools.gen_docs --check   changes nothing; exits with 1 if a page is out of date

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``; the rest of the page is
written by hand.
"""

from __future__ import annotations

import argparse
import ast
import enum
import inspect
import json
import re
import string
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click.testing
from msgspec import Struct

import abiscan
from abiscan.cli import main as program
from abiscan.diagnosis.causes import CAUSES
from abiscan.findings import Documented
from abiscan.python.importing.explore import MOST_RUNS, MOST_TURN_RUNS
from abiscan.python.interpreter import calls, patterns, special
from abiscan.python.interpreter.compiling import QUESTIONS, STATEMENTS, VALUES
from abiscan.python.interpreter.iteration import MOST_ITEMS
from abiscan.python.interpreter.machine import Limits
from abiscan.python.interpreter.models import recipes
from abiscan.python.language import late_bodies
from abiscan.python.language.grammar import LARGEST_SOURCE
from abiscan.python.package import acting
from abiscan.rules import EVERY_RULE
from tools.calls_out import HARMLESS, PARTLY_UNKNOWN, SOURCES
from tools.schemas import schema_files

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = ROOT / "docs"
PACKAGE: Final = ROOT / "abiscan"
HELP_WIDTH: Final = 88
"""Characters in a line of a code block before the site needs a scroll bar."""
LONGEST_TEXT: Final = 160
"""Characters of an error that are shown: enough for a search to find it."""


def commands() -> list[str]:
    """The names of all commands."""
    return program.list_commands(click.Context(program))


def rule_table() -> str:
    """The rules as a Markdown table, and as the contents of the chapter."""
    rows = [f"| [`{rule.name}`]({rule.name}.md) | {rule.summary} |\n" for rule in EVERY_RULE]
    pages = [f"{rule.name}\n" for rule in EVERY_RULE]
    table = ["| rule | what it means |\n", "|---|---|\n", *rows]
    return "".join([*table, "\n```{toctree}\n:hidden:\n\n", *pages, "```\n"])


def rule_page(rule: Documented) -> str:
    """The documentation of a rule, with links to the pages of the rules that it names."""
    text = rule.documentation
    for other in EVERY_RULE:
        if other is not rule:
            text = re.sub(rf"(?<!`)`{other.name}`(?!`)", f"[`{other.name}`]({other.name}.md)", text)
    return f"# {rule.name}\n\n{text}\n"


def help_text(command: str) -> str:
    """What ``abiscan COMMAND --help`` prints."""
    words = [command, "--help"]
    result = click.testing.CliRunner().invoke(program, words, prog_name="abiscan", terminal_width=HELP_WIDTH)
    return f"```text\n{result.output}```\n"


def rooms(container: str) -> list[list[str]]:
    """The layers of a package from the top, as import-linter keeps them; each is one room or several."""
    config = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == [container])
    return [re.split(r"\s*[|:]\s*", layer) for layer in layers]


def purpose(container: str, room: str) -> str:
    """The first sentence of the docstring of a room."""
    folder = ROOT.joinpath(*container.split("."), room)
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    sentence = re.split(r"(?<=[.;?])\s", " ".join(docstring.split()), maxsplit=1)[0]
    return sentence.replace("``", "").rstrip(";.")


def picture(container: str = "abiscan") -> str:
    """The rooms of a package from the top of the house to the bottom, each with what it is for."""
    layers = rooms(container)
    width = max(len(room) for layer in layers for room in layer)
    lines = [f"┌─{'─' * width}─┐"]
    for number, layer in enumerate(layers):
        if number:
            lines.append(f"├─{'─' * width}─┤")
        for room in layer:
            first, *rest = textwrap.wrap(purpose(container, room), HELP_WIDTH - width - 6)
            lines.append(f"│ {room:{width}} │  {first}")
            lines += [f"│ {'':{width}} │  {line}" for line in rest]
    lines.append(f"└─{'─' * width}─┘")
    return "".join(["```text\n", *(f"{line}\n" for line in lines), "```\n"])


def function(name: str) -> str:
    """A function of the public API: its signature and its documentation, from the source of ``abiscan/api.py``."""
    source = PACKAGE.joinpath("api.py").read_text("utf-8")
    node = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name)
    lines = source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]
    text, *fields = re.split(r"^:", ast.get_docstring(node) or "", flags=re.MULTILINE)
    signature = "\n".join(lines).removesuffix(":")
    rows = []
    for field in fields:
        heading, _, meaning = field.partition(": ")
        kind, _, subject = heading.partition(" ")
        rows.append(f"- {'raises ' if kind == 'raises' else ''}`{subject}`: {' '.join(meaning.split())}\n")
    paragraphs = [f"```python\n{signature}\n```\n", f"{text.strip()}\n", "".join(rows)]
    return markdown("\n".join(filter(None, paragraphs)))


def markdown(text: str) -> str:
    """Code in Markdown, not in reStructuredText."""
    return re.sub(r"(?<!`)``(?!`)", "`", text)


def public_types() -> str:
    """The types of the public API, each with what it is, its fields and its methods."""
    rows = []
    for name in abiscan.__all__:
        value = getattr(abiscan, name)
        if not inspect.isclass(value):
            continue
        summary = re.split(r"\n\n", inspect.getdoc(value) or "")[0]
        members = [f"`{member}`" for member in members_of(value)]
        rows.append(f"| `{name}` | {markdown(' '.join(summary.split()))} | {', '.join(members)} |\n")
    return "".join(["| type | what it is | has |\n", "|---|---|---|\n", *rows])


def members_of(value: type) -> Iterator[str]:
    """The public fields, methods and values of a class, in the order of its source."""
    if issubclass(value, enum.Enum):
        yield from value.__members__
    if issubclass(value, Struct):
        yield from value.__struct_fields__
    own = [base for base in value.__mro__ if base.__module__.startswith("abiscan.")]
    for name, member in {name: member for base in own for name, member in vars(base).items()}.items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, classmethod)):
            yield f"{name}()"
        elif not name.startswith("_") and isinstance(member, property):
            yield name


def reading() -> str:
    """What the reading of Python code follows, from the tables that it works by."""
    forms = {
        "statements": [*STATEMENTS],
        "expressions": [*VALUES, *QUESTIONS],
        "patterns of `match`": [*patterns.PATTERNS],
    }
    names = {
        what: {kind.__name__ for kind in kinds if kind.__module__ != late_bodies.__name__}
        for what, kinds in forms.items()
    }
    names["statements"] |= {"TryStar", "TypeAlias"}  # those of a later Python than the one that writes this
    names["expressions"] |= {"TemplateStr"}
    rows = [f"| {what} | {_code(kinds)} |\n" for what, kinds in names.items()]
    rows.append(f"| special methods | {_code(special.METHODS)} |\n")
    rows += [
        f"| what {does} | {_code(functions)} |\n"
        for does, functions in (
            ("loads a library", acting.LOADERS),
            ("ends the process", acting.ENDS),
            ("runs data", acting.RUNNERS),
        )
    ]
    rows += [f"| `{module}` | {_code(recipes.followed_names(module))} |\n" for module in recipes.NAMES]
    rows.append(
        f"| what keeps the functions that it is given | {_code(calls.KEEPERS)}; {_code(calls.KEEPING)}; "
        f"what begins with `{calls.REGISTERING}`, outside of the standard library |\n"
    )
    limits = Limits()
    rows.append(
        f"| limits | {limits.steps:,} steps of one import, {limits.depth} calls inside each other, "
        f"{MOST_ITEMS:,} items of an iterator, {LARGEST_SOURCE:,} bytes of a source, {MOST_RUNS} ways of an "
        f"import, and {MOST_TURN_RUNS} that tell the turns of loops apart where all of them fail |\n"
    )
    return "".join(["| what | followed |\n", "|---|---|\n", *rows])


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names)))


def common_errors() -> str:
    """The causes of errors, each with the texts that ``abiscan explain`` knows it by."""
    pages = {rule.name for rule in EVERY_RULE}
    lines = []
    for cause in (cause for cause in CAUSES if cause.texts):
        lines += [f"## {cause.name}", "", cause.summary, "", "```text"]
        lines += [_shown(text) for text in cause.texts]
        lines += ["```", "", f"What to do: {cause.fix}."]
        lines += [f"More: [{cause.name}](rules/{cause.name}.md)."] if cause.name in pages else []
        lines.append("")
    return "\n".join(lines)


def _shown(template: str) -> str:
    """A text as it is pasted, in one line, with an ellipsis for what differs from one to the next."""
    parts = string.Formatter().parse(" ".join(template.split()))
    text = "".join(literal + ("…" if field is not None else "") for literal, field, _, _ in parts)
    return text if len(text) <= LONGEST_TEXT else f"{text[: text.rfind(' ', 0, LONGEST_TEXT)]} …"


def calls_out() -> str:
    """What is known of the functions that the emulated code calls."""
    lines = ["| kind | what | source, or why |", "|---|---|---|"]
    lines += [f"| modelled | doubles of `{name}` | {source} |" for name, source in sorted(SOURCES.items())]
    lines += [f"| harmless | `{name}` | {why} |" for name, why in sorted(HARMLESS.items())]
    lines += [f"| unknown | `{name}` | {what} |" for name, what in sorted(PARTLY_UNKNOWN.items())]
    lines += ["| unknown | every other function | its answer is followed |"]
    return "\n".join(lines) + "\n"


def json_documents() -> str:
    """The fields of every JSON document, from the schemas."""
    lines = []
    for file, text in sorted(schema_files().items()):
        whole = json.loads(text)
        rows, page = _fields(whole, whole.get("$defs", {}), ""), f"../abiscan/results/schema/{file.name}"
        lines += [f"## {file.stem.removesuffix('-v1')}", "", f"{whole['title']}: [schema]({page}).", ""]
        lines += ["| field | values | |", "|---|---|---|", *dict.fromkeys(rows), ""]
    return "\n".join(lines)


def _fields(part: dict[str, Any], named: dict[str, Any], path: str) -> Iterator[str]:
    """A row of a table for each field below a part of a schema."""
    part = _resolved(part, named)
    for name, field in part.get("properties", {}).items():
        inner, place = _resolved(field, named), f"{path}.{name}".lstrip(".")
        if name != "tool" and place != "version":
            yield f"| `{place}` | {_values(inner, named)} | {inner.get('description', '')} |"
            yield from _fields(inner, named, place)
    for key, ending in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(part.get(key), dict):
            yield from _fields(part[key], named, path + ending)
    for choice in (*part.get("oneOf", ()), *part.get("anyOf", ())):
        yield from _fields(choice, named, path)


def _values(part: dict[str, Any], named: dict[str, Any]) -> str:
    """The values that a field may have: those named, or their types."""
    if constants := part.get("enum") or ([part["const"]] if "const" in part else []):
        return ", ".join(f"`{json.dumps(value)}`" for value in constants)
    kinds = part.get("type", [_values(_resolved(choice, named), named) for choice in part.get("anyOf", ())])
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _resolved(part: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema, with that which it refers to by name."""
    return {**named[part["$ref"].rpartition("/")[2]], **part} if "$ref" in part else part


def parts() -> Iterator[tuple[Path, str, str]]:
    """Every generated part: its page, its name, its text."""
    yield DOCS / "rules/index.md", "rules", rule_table()
    for rule in EVERY_RULE:
        yield DOCS / f"rules/{rule.name}.md", "rule", rule_page(rule)
    for command in commands():
        yield DOCS / f"commands/{command}.md", "help", help_text(command)
    for name in abiscan.__all__:
        if inspect.isfunction(getattr(abiscan, name)):
            yield DOCS / "api.md", name, function(name)
    yield DOCS / "common-errors.md", "causes", common_errors()
    yield DOCS / "api.md", "types", public_types()
    yield DOCS / "json.md", "fields", json_documents()
    yield DOCS / "design.md", "rooms", picture()
    yield DOCS / "design.md", "python", picture("abiscan.python")
    yield DOCS / "limitations.md", "python", reading()
    yield DOCS / "emulation.md", "calls", calls_out()


def replaced(text: str, name: str, fresh: str) -> str:
    """A page with one of its generated parts rewritten; a page without the part gets it at the top."""
    begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->\n"
    before, found, rest = text.partition(begin)
    if not found:
        return f"{begin}{fresh}{end}{text}"
    return f"{before}{begin}{fresh}{end}{rest.partition(end)[2]}"


def stale() -> dict[Path, str]:
    """The pages that are out of date, with the text that each should have."""
    pages = schema_files()
    for page, name, fresh in parts():
        text = pages.get(page) or (page.read_text("utf-8") if page.is_file() else "")
        pages[page] = replaced(text, name, fresh)
    return {page: text for page, text in pages.items() if not page.is_file() or page.read_text("utf-8") != text}


def left_over() -> list[Path]:
    """Pages of rules and commands that no longer exist."""
    known = {page for page, _, _ in parts()} | {DOCS / "commands/index.md"}
    return sorted({*DOCS.glob("rules/*.md"), *DOCS.glob("commands/*.md")} - known)


def main() -> int:
    """Rewrite the pages, or only compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is out of date")
    check = parser.parse_args().check
    pages, unknown = stale(), left_over()
    for page in unknown:
        print(f"{page.relative_to(ROOT)} is about nothing that exists: delete it")
    for page, text in pages.items():
        if check:
            print(f"{page.relative_to(ROOT)} is out of date: run `make gen`")
        else:
            page.write_text(text, "utf-8")
    return int(bool(unknown) or (check and bool(pages)))


if __name__ == "__main__":
    sys.exit(main())
