"""Sources parsed without their functions: what a function takes and does is parsed when it is first asked for.

Few functions of a package are called as it is imported, and most of its text is inside of functions. They are cut out
by their indentation. Whatever is not certain stays: the tree is the one that ``ast.parse`` gives.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from abiscan.python.language.grammar import FAILURES, parse
from abiscan.python.language.nodes import TryStar, child_nodes, walk
from abiscan.python.language.private_names import class_prefix, has_private_names, replace_private_names, written_name
from abiscan.regex import regex

_SHORTEST: Final = 60
"""The bytes of a body that is worth being cut out."""
_SHORT_TEXT: Final = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"' + rb"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
_LONG_TEXT: Final = regex(
    rb'"""[^"\\]*(?:(?:\\(?s:.)|"(?!""))[^"\\]*)*"""' + rb"|'''[^'\\]*(?:(?:\\(?s:.)|'(?!''))[^'\\]*)*'''"
)
_QUOTES: Final = (b'"' * 3, b"'" * 3)
_CODE: Final = regex(rb"[^\"'#]*(?:(?:" + _SHORT_TEXT + rb")[^\"'#]*)*")


def _inside(depth: int) -> bytes:
    """Return what matches the inside of parentheses, which a regular expression cannot count, to some depth."""
    more = rb"|\(" + _inside(depth - 1) + rb"\)" if depth else b""
    return rb"[^()\"'#]*(?:(?:" + _SHORT_TEXT + rb"|#[^\n]*\n" + more + rb")[^()\"'#]*)*"


_RETURNS: Final = rb"(?:[^:\n\"'#]|" + _SHORT_TEXT + rb")*:"
_HEADER: Final = regex(
    # up to the colon that ends it, and a look at the indentation of the next line
    rb"def\b[^\n(]*(\("
    + _inside(3)
    + rb"\)"
    + _RETURNS
    + rb")(?=[ \r]*(?:#[^\n]*)?\n(?:[ \r]*(?:#[^\n]*)?\n)*( +)[^ \r\n#])"
)
_QUIET: Final = regex(
    rb"\([^()=#]*(?:=[ \r\n]*(?:None|True|False|\d[\w.]*|\"[^\"\\\n]*\"|'[^'\\\n]*')[ \r\n]*(?=[,)])[^()=#]*)*\)[^(=]*:"
)
"""Parameters whose defaults are constants and whose annotations call nothing."""
_FIRST_TEXT: Final = regex(rb"(?:[ \r]*(?:#[^\n]*)?\n)* *([rRuUbBfF]{0,2})[\"']")
_END_OF_LINE: Final = regex(rb" *(?:#[^\n]*)?\n")
_ENCODING: Final = regex(rb"[^\n]*\n?[^\n]*coding[:=](?![ \t]*[uU][tT][fF]-?8\b)")
_TAB: Final = regex(rb"\n *\t")
_PYTHON_2: Final = (regex(rb"print +[^\s(=.,]"), regex(rb"except +[\w.]+, *\w+:"))
"""What no Python accepts at the start of a line that the source may be for, most likely in a body."""
_Place: TypeAlias = tuple[int, int, int, int]
"""What was cut out of a source: where it starts and ends, where the body begins, its last line."""
_BLOCKS: Final = ("body", "orelse", "handlers", "finalbody", "cases")


class Unparsed(ast.stmt):
    """Stands for the body of a function that cannot be parsed."""


class LateFunction(ast.FunctionDef):
    """A function whose body, or all but its name, is not parsed yet; a usual one as soon as somebody asks for it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Return what is not there yet."""
        return _parse_late_part(self, ast.FunctionDef, name)


class LateAsyncFunction(ast.AsyncFunctionDef):
    """The same of an ``async def``."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Return what is not there yet."""
        return _parse_late_part(self, ast.AsyncFunctionDef, name)


def has_late_parameters(node: ast.AST) -> bool:
    """Whether the parameters of a function are not parsed yet: no default and no annotation of theirs does anything."""
    return "late" in node.__dict__ and "args" not in node.__dict__


def header_of(node: ast.AST) -> bytes:
    """Return the source of the parameters of a function that are not parsed yet."""
    source, _line, start, _end, body = node.__dict__["late"]
    text: bytes = source[start:body]
    return text


def walk_with(tree: ast.AST, words: re.Pattern[bytes]) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, but for functions that are not parsed yet and have none of some words."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if "late" in node.__dict__ and not _may_have(node, words):
            waiting += node.decorator_list  # type: ignore[attr-defined]
        else:
            yield node
            waiting += child_nodes(node)


def statements_with(tree: ast.AST, words: re.Pattern[bytes]) -> Iterator[ast.AST]:
    """Yield the statements in a tree, with what has blocks of its own in them, but for those of functions that are not
    parsed yet and have none of some words.
    """
    # Most nodes are expressions, which have no statements in them.
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if "late" in node.__dict__ and not _has(node, words):
            continue
        yield node
        kind = type(node)
        blocks = _blocks.get(kind)
        if blocks is None:
            blocks = _blocks[kind] = tuple(name for name in _BLOCKS if name in kind._fields)
        for name in blocks:
            waiting += getattr(node, name)


_blocks: Final[dict[type[ast.AST], tuple[str, ...]]] = {}
"""The fields of a kind of node that have blocks of statements."""


def definitions_in(tree: ast.AST, name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the functions and classes of a name in a tree; few bodies are parsed for it."""
    words = re.compile(rb"\b(?:def|class)[\s\\]+%b\b" % re.escape(name.encode()))
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            yield node
        if "late" not in node.__dict__ or _may_have(node, words):
            waiting += child_nodes(node)


def _has(node: ast.AST, words: re.Pattern[bytes]) -> bool:
    """Whether a function that is not parsed yet has one of some words."""
    source, _line, start, end, _body = node.__dict__["late"]
    return words.search(source, start, end) is not None


def _may_have(node: Any, words: re.Pattern[bytes]) -> bool:
    """Whether such a function has one of some words, or may call something in its parameters."""
    if _has(node, words):
        return True
    # Parameters that are parsed already are not in that part of the source.
    header = () if has_late_parameters(node) else (node.args, *filter(None, [node.returns]))
    return any(isinstance(inner, ast.Call) for part in header for inner in walk(part))


def docstring_of(node: ast.AST) -> str | None:
    """Return the docstring of a function, class or module, as it stands there; few bodies are parsed for it."""
    if "late" in node.__dict__:
        source, _line, _start, _end, body = node.__dict__["late"]
        first = _FIRST_TEXT.match(source, body)
        if first is None:
            return None
        literal = _literal_docstring(source, first[1].lower(), first.end(1))
        if literal is not None:
            return literal
    statements = getattr(node, "body", None)
    statement = statements[0] if isinstance(statements, list) and statements else None
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _literal_docstring(source: bytes, prefix: bytes, start: int) -> str | None:
    """Return a text in triple quotes that is a statement of its own and says literally what its value is."""
    end = _end_of_text(source, start) if source.startswith(_QUOTES, start) else -1
    literal = source[start + 3 : end - 3]
    if end < 0 or not _END_OF_LINE.match(source, end) or b"\r" in literal:
        return None
    return literal.decode() if prefix == b"r" or (prefix in {b"", b"u"} and b"\\" not in literal) else None


def parse_late(source: bytes) -> ast.Module:
    """Return the tree of a source, as ``grammar.parse`` does; what is wrong in a body is not raised."""
    pieces, places = _cut(source)
    if places:
        # What is left is no Python where a body goes on below: with what closes its brackets or its text. And all that
        # was cut out must be the bodies of functions. Otherwise the source is not what it seemed to be.
        try:
            tree = parse(b"".join(pieces))
        except FAILURES:
            return parse(source)
        if _put_off(tree, source, places):
            return tree
    return parse(source)


def _cut(source: bytes) -> tuple[list[bytes], dict[int, _Place]]:
    """Return the pieces of a source without functions, and the places of those by the line that ``pass`` is in."""
    # A line break before the first line, and none in texts.
    code = _without_long_texts(b"\n" + source) if b"def " in source and _is_plain(source) else b""
    pieces: list[bytes] = []
    places: dict[int, _Place] = {}
    line, done = 1, 0
    position = code.find(b"def ")
    while position >= 0:
        following = position + 4
        margin = code.rfind(b"\n", 0, position)
        indent = code[margin + 1 : position].removesuffix(b"async ")
        header = None if indent.strip(b" ") or code[margin - 1 : margin] == b"\\" else _HEADER.match(code, position)
        if header and len(header[2]) > len(indent):
            # All lines that are indented deeper belong to it.
            after = _end_of(len(indent)).search(code, header.end())
            following = after.start() if after else len(code)
            if following - position >= _SHORTEST and not code[position:following].rstrip().endswith(b"\\"):
                is_quiet = b"[" not in code[position : header.start(1)] and _QUIET.fullmatch(header[1]) is not None
                start, end = (header.start(1) if is_quiet else header.end()) - 1, following - 1
                line += source.count(b"\n", done, start)
                count = source.count(b"\n", start, end)
                places[line] = margin + len(indent) if is_quiet else start, end, header.end() - 1, line + count
                pieces += (source[done:start], b"(): pass" if is_quiet else b" pass", b"\n" * count)
                line, done = line + count, end
        position = code.find(b"def ", following)
    pieces.append(source[done:])
    return pieces, places


@functools.cache
def _end_of(indent: int) -> re.Pattern[bytes]:
    """Return what finds the first line that is not indented deeper."""
    return re.compile(rb"\n {0,%d}[^ \r\n#]" % indent)


def _is_plain(source: bytes) -> bool:
    """Whether lines and indentation are what they seem to be: UTF-8, no tabs, no other line breaks."""
    try:
        _ = source.isascii() or source.decode()
    except UnicodeDecodeError:
        return False
    return not (
        b"\0" in source
        or b"\f" in source
        or (b"\r" in source and source.count(b"\r") != source.count(b"\r\n"))
        or (b"\t" in source and _TAB.search(source))
        or ((b"print " in source or b", e:" in source) and any(_begins_line(source, form) for form in _PYTHON_2))
        or _ENCODING.match(source)
    )


def _begins_line(source: bytes, form: re.Pattern[bytes]) -> bool:
    """Whether a form begins a line, after spaces; to search for its first word is many times as fast as for lines."""
    places = (match.start() for match in form.finditer(source))
    return any(not source[line:place].strip(b" ") for place in places if (line := source.rfind(b"\n", 0, place) + 1))


def _without_long_texts(source: bytes) -> bytes:
    """Return a source of the same length with signs in place of texts in triple quotes; empty if it is not certain."""
    parts: list[bytes] = []
    done = 0
    places = {quotes: source.find(quotes) for quotes in _QUOTES}
    while (start := min((place for place in places.values() if place >= 0), default=-1)) >= 0:
        line = max(done, source.rfind(b"\n", 0, start))
        end = _end_of_text(source, start)
        if end < 0 or not _CODE.fullmatch(source, line, start):
            # The quotes stand in a comment, or in another text.
            end = source.find(b"\n", start)
            if b"#" not in source[line:start] or end < 0:
                return b""
            start = end
        parts += (source[done:start], b"_" * (end - start))
        done = end
        places = {quotes: source.find(quotes, done) if 0 <= place < done else place for quotes, place in places.items()}
    return b"".join((*parts, source[done:]))


def _end_of_text(source: bytes, start: int) -> int:
    """Return where a text in triple quotes ends; -1 if it does not."""
    end = source.find(source[start : start + 3], start + 3)
    if source.find(b"\\", start, end) >= 0:  # before the quotes, it may make them a part of the text
        match = _LONG_TEXT.match(source, start)
        return match.end() if match else -1
    return end + 3 if end >= 0 else -1


def _put_off(tree: ast.Module, source: bytes, places: dict[int, _Place]) -> bool:
    """Give the functions of a tree the places of what was cut out; False if some place is that of no function."""
    count = 0
    waiting: list[tuple[Any, str]] = [(tree, "")]
    while waiting:
        node, cls = waiting.pop()
        kind = _LATE.get(type(node))
        if kind is not None and type(node.body[0]) is ast.Pass and node.body[0].lineno in places:
            line = node.body[0].lineno
            start, end, body, node.end_lineno = places[line]
            node.__dict__["late"] = source, line, start, end, body
            del node.body
            if source.startswith((b"def", b"async"), start):
                del node.args
            node.__class__ = kind
            if cls:
                node.__dict__["class_prefix"] = cls
            count += 1
            continue
        if type(node) is ast.ClassDef:
            cls = class_prefix(written_name(node))
        for name in _BLOCKS:
            waiting += [(inner, cls) for inner in getattr(node, name, ()) if type(inner) in _WITH_BLOCKS]
    return count == len(places)


def _parse_late_part(node: Any, kind: type[ast.AST], name: str) -> Any:
    if name not in {"args", "body"}:
        raise AttributeError(name)
    # Many functions are asked for their parameters alone.
    if has_late_parameters(node):
        _parse_header(node)
    if name == "body":
        _parse_body(node, kind)
    return getattr(node, name)


def _parse_header(node: Any) -> None:
    source, line, start, end, body = node.__dict__["late"]
    # The lines before it are empty, so that it has the numbers and columns of its own.
    before = b"\n" * (line - 2) + b"if 1:\n" + b" " * node.col_offset if node.col_offset else b"\n" * (line - 1)
    statements = _parse_quietly(before + source[start:body] + b" pass")
    if statements:
        _replace_private_names(node, statements, source[start:body])
        header = (statements[0].body if node.col_offset else statements)[0]
        node.args, node.returns = header.args, header.returns
    else:
        node.args = ast.arguments(
            posonlyargs=[], args=[], vararg=ast.arg("args"), kwonlyargs=[], kw_defaults=[], kwarg=ast.arg("kwargs"),
            defaults=[],
        )  # fmt: skip
        end = body  # there is no body below what is no Python
    node.__dict__["late"] = source, line + source.count(b"\n", start, body), body, end, body


def _parse_body(node: Any, kind: type[ast.AST]) -> None:
    source, line, start, end, _body = node.__dict__.pop("late")
    node.__class__ = kind
    statements = _parse_quietly(b"\n" * (line - 1) + b"if 1:" + source[start:end])
    if statements:
        _replace_private_names(node, statements, source[start:end])
        node.body = statements[0].body
        node.end_lineno, node.end_col_offset = node.body[-1].end_lineno, node.body[-1].end_col_offset
    else:
        node.body = [Unparsed(lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)]


def _replace_private_names(node: Any, statements: list[Any], source: bytes) -> None:
    """Replace the private names in a part of a method: what is inside of its own classes is done as it is parsed."""
    cls = node.__dict__.get("class_prefix")
    if cls and has_private_names(source):
        replace_private_names(statements, cls)


def _parse_quietly(source: bytes) -> list[Any]:
    """Return the statements of a part of a source; none if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(parse(source).body)
    except FAILURES:
        return []


_LATE: Final = {ast.FunctionDef: LateFunction, ast.AsyncFunctionDef: LateAsyncFunction}
_WITH_BLOCKS: Final = frozenset({
    *_LATE, ast.ClassDef, ast.If, ast.Try, TryStar, ast.ExceptHandler, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor,
    ast.While, ast.Match, ast.match_case,
})  # fmt: skip
