"""Sources with syntax that is newer than Python 3.10, parsed by any Python that runs.

What is newer is found by its tokens, and rewritten to what 3.10 can parse. ``ast`` parses that, and the nodes of the
newer forms are put in their places: the tree is the one that the newest Python makes, with its positions.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from importlib.util import decode_source
from itertools import accumulate
from typing import Any, Final
from typing import TypeVar as TypeVariable

from abiscan.python.language.nodes import (
    Interpolation,
    ParamSpec,
    TemplateStr,
    TryStar,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
)
from abiscan.python.language.rejections import (
    Newer,
    assigned_in_brackets,
    backslash_in_field,
    expected_parenthesis,
    invalid_syntax,
    not_parenthesised,
    star_error,
    unknown_words,
)
from abiscan.python.language.tokens import Literal, NoTokens, Part, ReplacementField, Token, is_new_text, tokens_of
from abiscan.regex import regex

_Node = TypeVariable("_Node")
_KEYWORDS: Final = frozenset(
    b"and as assert async await break class continue def del elif else except finally for from global if import in is "
    b"lambda nonlocal not or pass raise return try while with yield".split()
)
_PARAMETERS: Final = {b"": TypeVar, b"*": TypeVarTuple, b"**": ParamSpec}
_ESCAPE: Final = regex(r"\{\{|\}\}|\\(?:N\{[^}]*\}|x..|u.{4}|U.{8}|[0-7]{1,3}|(?s:.))")
_ESCAPE_RAW: Final = regex(r"\{\{|\}\}")


def newer_parts(source: bytes) -> tuple[Newer, ...]:
    """Return what is newer than Python 3.10 in a source, in its order; nothing if it is not made of tokens."""
    try:
        return tuple(_Rewriting(_text_of(source)).newer)
    except NoTokens:
        return ()


def parse_newer(source: bytes | str) -> ast.Module | None:
    """Return the tree of a source that has something newer than Python 3.10; None if there is nothing in it.

    :raises SyntaxError: the newest Python rejects it, too
    """
    try:
        rewriting = _Rewriting(_text_of(source) if isinstance(source, bytes) else source.encode("utf-8", "replace"))
    except NoTokens:
        return None
    return rewriting.parse() if rewriting.newer else None


def _text_of(source: bytes) -> bytes:
    try:
        return decode_source(source).encode()
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise NoTokens from error


class _Lines:
    """The lines of a text, by position."""

    def __init__(self, data: bytes) -> None:
        self._starts = [0, *accumulate(len(line) + 1 for line in data.split(b"\n"))]

    def place(self, position: int) -> tuple[int, int]:
        """Return line and column of a position."""
        line = bisect_right(self._starts, position)
        return line, position - self._starts[line - 1]

    def position(self, line: int, column: int) -> int:
        """Return the position of a column of a line."""
        return self._starts[line - 1] + column


class _Rewriting:
    """A source as Python 3.10 can parse it, and what to put back into its tree."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._lines = _Lines(data)
        self._mark = b"_newer"
        while self._mark in data:
            self._mark += b"_"
        self.newer: list[Newer] = []
        self._edits: list[tuple[int, int, bytes]] = []
        self._texts: dict[str, Sequence[Token]] = {}
        # By the places of their nodes: the type parameters, where ``type`` stands, and the handlers with a star.
        self._parameters: dict[tuple[int, int], list[Sequence[Token]]] = {}
        self._aliases: dict[tuple[int, int], tuple[int, int]] = {}
        self._handlers: set[tuple[int, int]] = set()
        self._tokens = list(_significant(tokens_of(data)))
        self._look()

    def _note(
        self, first: tuple[int, int], token: Token, words: Callable[[tuple[int, int]], str | None] = invalid_syntax
    ) -> None:
        self.newer.append(Newer(first=first, line=self._lines.place(token.start)[0], words=words))

    def _replace(self, start: int, end: int, text: bytes) -> None:
        # The lines stay what they are: a backslash joins those that are taken out to the next one.
        self._edits.append((start, end, text + b"\\\n" * self._data.count(b"\n", start, end)))

    # ---- what is newer

    def _look(self) -> None:
        """Go through the tokens, and note what is newer than Python 3.10."""
        tokens = self._tokens
        brackets: list[str] = []
        starred: list[int] = []  # the brackets around each star whose end is still to come
        number, starts, header = 0, True, -1
        while number < len(tokens):
            token = tokens[number]
            sign, before = token.text, tokens[number - 1] if number else None
            if starred and len(brackets) == starred[-1] and sign in {b",", b"]", b")"} and before is not None:
                self._edits.append((before.end, before.end, b")"))
                starred.pop()
            if token.kind == "text":
                number = self._look_at_texts(number)
                starts = False
                continue
            if token.kind == "name":
                after = [item.text for item in tokens[number + 1 : number + 3]]
                if sign in {b"def", b"class"} and len(after) == 2:
                    is_async = sign == b"def" and before is not None and before.text == b"async"
                    if after[1] == b"[":
                        start = before if is_async and before else token
                        number = self._take_parameters(number + 2, start.start, sign)
                    header = number + (1 if after[1] == b"[" else 2) if sign == b"def" else -1
                elif sign == b"type" and starts and len(after) == 2 and after[1] in {b"=", b"["}:
                    number = self._look_at_alias(number)
                elif sign == b"except" and starts:
                    self._look_at_handler(number)
            elif sign in {b"(", b"[", b"{"}:
                brackets.append("def" if number == header else "subscript" if self._subscribes(number) else "")
            elif sign in {b")", b"]", b"}"} and brackets:
                brackets.pop()
            elif sign == b"*" and brackets and self._unpacks(number, brackets[-1]):
                self._note((3, 11), token, star_error if len(brackets) > 1 else invalid_syntax)
                self._edits.append((token.start, token.end, self._mark + b"("))
                starred.append(len(brackets))
            token = tokens[number]
            starts = token.kind == "newline" or token.text == b";" or (token.text == b":" and not brackets)
            number += 1

    def _subscribes(self, number: int) -> bool:
        """Whether a bracket takes items of what stands before it."""
        return self._tokens[number].text == b"[" and self._follows_operand(number)

    def _follows_operand(self, number: int) -> bool:
        """Whether the token before one ends a name, a text or what is in brackets."""
        before = self._tokens[number - 1] if number else None
        if before is None or before.text in _KEYWORDS:
            return False
        if before.text in {b"match", b"case"}:  # at the start of a line, they begin a block
            return number > 1 and self._tokens[number - 2].kind != "newline"
        return before.kind in {"name", "text", "number"} or before.text in {b")", b"]", b"}"}

    def _unpacks(self, number: int, around: str) -> bool:
        """Whether a star stands where only newer Pythons take one: ``a[*b]``, ``def f(*a: *b)``."""
        before = [token.text for token in self._tokens[max(number - 3, 0) : number]]
        if around == "subscript":
            return before[-1] in {b"[", b","}
        return around == "def" and before[-1] == b":" and before[0] == b"*"

    def _take_parameters(self, number: int, start: int, keyword: bytes) -> int:
        """Note the type parameters after a name, and take them out; return the number of the last token."""
        end = self._closing(number)
        tokens = self._tokens[number + 1 : end]
        parts = list(_split(tokens, b","))
        has_default = any(token.text == b"=" for token in tokens)
        words = expected_parenthesis if keyword == b"def" else invalid_syntax
        if keyword == b"type":
            words = assigned_in_brackets if has_default else invalid_syntax
        self._note((3, 13) if has_default else (3, 12), self._tokens[number], words)
        self._parameters[self._lines.place(start)] = parts
        self._replace(self._tokens[number].start, self._tokens[end].end, b" ")
        return end

    def _closing(self, number: int) -> int:
        depth = 0
        for place in range(number, len(self._tokens)):
            sign = self._tokens[place].text if self._tokens[place].kind == "operator" else b""
            depth += (sign in {b"(", b"[", b"{"}) - (sign in {b")", b"]", b"}"})
            if not depth:
                return place
        raise NoTokens

    def _look_at_alias(self, number: int) -> int:
        keyword, name, following = self._tokens[number : number + 3]
        after = number + 2 if following.text == b"=" else self._closing(number + 2) + 1
        is_assigned = after < len(self._tokens) and self._tokens[after].text == b"="
        if name.kind != "name" or name.text in _KEYWORDS or not is_assigned:
            return number
        self._replace(keyword.start, name.start, b"")
        self._aliases[self._lines.place(name.start)] = keyword.start, name.end
        if following.text == b"[":
            return self._take_parameters(number + 2, name.start, keyword.text)
        self._note((3, 12), name)
        return number + 1

    def _look_at_handler(self, number: int) -> None:
        keyword = self._tokens[number]
        end = next((place for place, token in _outside(self._tokens, number) if token.text == b":"), number)
        classes = self._tokens[number + 1 : end]
        if classes and classes[0].text == b"*":
            self._note((3, 11), classes[0])
            self._edits.append((classes[0].start, classes[0].end, b" "))
            self._handlers.add(self._lines.place(keyword.start))
            classes = classes[1:]
        signs = [token.text for _, token in _outside(classes, 0)]
        if b"," in signs and b"as" not in signs and signs[0] != b",":
            self._note((3, 14), classes[0], not_parenthesised)
            self._edits += [(classes[0].start, classes[0].start, b"("), (classes[-1].end, classes[-1].end, b")")]

    def _look_at_texts(self, number: int) -> int:
        """Note texts next to each other, one of which is newer; return the number of the token after them."""
        end = number
        while end < len(self._tokens) and self._tokens[end].kind == "text":
            end += 1
        tokens = self._tokens[number:end]
        template = next((token for token in tokens if b"t" in token.prefix), None)
        new = next((token for token in tokens if is_new_text(token, self._data) or self._has_newer(token)), None)
        if template is not None:
            self._note((3, 14), template)
        elif new is not None:
            is_plain = new.quote not in new.text[len(new.prefix) + 1 : -1] and b"\n" not in new.text
            self._note((3, 12), new, backslash_in_field if is_plain and b"\\" in new.text else unknown_words)
        if template is not None or new is not None:
            name = self._mark + b"%d" % len(self._texts)
            start, last = tokens[0].start, tokens[-1].end
            self._texts[name.decode()] = tokens
            lines = b"\n" * self._data.count(b"\n", start, last)
            # After a name, the parenthesis would begin a call.
            self._edits.append((start, last, b"$" if self._follows_operand(number) else b"(" + name + lines + b")"))
        return end

    def _has_newer(self, token: Token) -> bool:
        """Whether a field of a text has something newer inside that is not about texts."""
        fields = [part for part in token.parts or () if isinstance(part, ReplacementField)]
        codes = (self._data[slice(*field.value)] for field in fields if any(t.text == b"*" for t in field.tokens))
        return any(_Rewriting(b"(" + code + b"\n)").newer for code in codes)

    # ---- the tree

    def parse(self) -> ast.Module:
        """Return the tree; raises SyntaxError if the newest Python has none either."""
        tree = self._parse("exec")
        assert isinstance(tree, ast.Module)
        return tree

    def _parse(self, mode: str) -> ast.AST:
        pieces, old, new = [], 0, 0
        shifts: list[tuple[int, int, int, int]] = []  # where an edit begins and ends, in the new text and in the old
        for start, end, text in sorted(self._edits, key=lambda edit: edit[:2]):
            pieces += [self._data[old:start], text]
            new += start - old
            shifts.append((new, new + len(text), start, end))
            old, new = end, new + len(text)
        text = b"".join((*pieces, self._data[old:]))
        tree: ast.AST = ast.parse(text.decode(), mode=mode)
        self._move(tree, _Lines(text), shifts)
        self._restore(tree)
        if self._parameters or self._aliases or self._handlers:
            raise SyntaxError("invalid syntax")  # they stand where no node of theirs can be
        return tree

    def _move(self, tree: ast.AST, lines: _Lines, shifts: list[tuple[int, int, int, int]]) -> None:
        """Give the nodes the places that they have in the source."""
        begins = [shift[0] for shift in shifts]

        def place(line: int, column: int) -> tuple[int, int]:
            position = lines.position(line, column)
            number = bisect_right(begins, position) - 1
            if number < 0:
                return line, column
            _, new_end, start, end = shifts[number]
            return self._lines.place(start if position < new_end else position - new_end + end)

        for node in _located(tree):
            node.lineno, node.col_offset = place(node.lineno, node.col_offset)
            node.end_lineno, node.end_col_offset = place(node.end_lineno, node.end_col_offset)

    def _restore(self, tree: ast.AST) -> None:
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            for name, value in ast.iter_fields(node):
                if isinstance(value, list):
                    value[:] = [self._restored(item) if isinstance(item, ast.AST) else item for item in value]
                    waiting += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST):
                    restored: ast.AST = self._restored(value)
                    if isinstance(node, ast.Subscript) and isinstance(restored, ast.Starred):
                        restored = ast.copy_location(ast.Tuple([restored], ast.Load()), restored)
                    setattr(node, name, restored)
                    waiting.append(restored)

    def _restored(self, node: ast.AST) -> ast.AST:
        """Return what stands in the source where a node is, with what is inside of it still to be restored."""
        if isinstance(node, ast.Name) and node.id in self._texts:
            if not isinstance(node.ctx, ast.Load):
                raise SyntaxError("cannot assign to this")
            return self._join(self._texts[node.id])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == self._mark.decode():
            if len(node.args) != 1 or node.keywords:
                raise SyntaxError("invalid syntax")
            return _placed(ast.Starred(node.args[0], ast.Load()), _start_of(node), _end_of(node.args[0]))
        place = _start_of(node)
        if isinstance(node, ast.Try):
            places = set(map(_start_of, node.handlers))
            starred = {place in self._handlers for place in places}
            self._handlers -= places
            if len(starred) > 1 or (True in starred and not all(handler.type for handler in node.handlers)):
                raise SyntaxError("invalid syntax")
            fields = node.body, node.handlers, node.orelse, node.finalbody
            return _placed(TryStar(*fields), place, _end_of(node)) if True in starred else node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and place in self._parameters:
            setattr(node, "type_params", self._read_parameters(place))  # noqa: B010 - older ones have no such field
        if isinstance(node, ast.Assign) and place in self._aliases:
            return self._make_alias(node, place)
        return node

    def _make_alias(self, node: ast.Assign, place: tuple[int, int]) -> ast.AST:
        start, end = self._aliases.pop(place)
        first = self._data[self._lines.position(*_start_of(node.value)) :][:1]
        is_bare = isinstance(node.value, (ast.Tuple, ast.Yield, ast.YieldFrom, ast.Starred)) and first != b"("
        if len(node.targets) != 1 or is_bare:
            raise SyntaxError("invalid syntax")
        parameters = self._read_parameters(place) if place in self._parameters else []
        _placed(node.targets[0], place, self._lines.place(end))
        alias: ast.AST = TypeAlias(node.targets[0], parameters, node.value)
        return _placed(alias, self._lines.place(start), _end_of(node))

    def _read_parameters(self, place: tuple[int, int]) -> list[ast.AST]:
        parameters = []
        for tokens in self._parameters.pop(place):
            stars = tokens[0].text if tokens and tokens[0].text in {b"*", b"**"} else b""
            name, *remaining = tokens[1 if stars else 0 :] or (None,)
            bound, default = _bound_and_default(remaining)
            if (
                name is None
                or name.kind != "name"
                or name.text in _KEYWORDS
                or (stars and bound)
                or (default and default[0].text == b"*" and stars != b"*")
            ):
                raise SyntaxError("invalid syntax")
            values = [self._expression_of(part) if part else None for part in (bound, default)]
            start, end = self._lines.place(tokens[0].start), self._lines.place(tokens[-1].end)
            parameter = _placed(_PARAMETERS[stars](name.text.decode()), start, end)
            if not stars:
                parameter.bound = values[0]
            parameter.default_value = values[1]  # which Python 3.12 does not have
            parameters.append(parameter)
        if not parameters:
            raise SyntaxError("invalid syntax")
        return parameters

    def _expression_of(self, tokens: Sequence[Token]) -> ast.expr:
        """Return the bound or default of a type parameter; the default of ``*Ts`` may be unpacked."""
        if tokens[0].text != b"*":
            return self._expression(tokens[0].start, tokens[-1].end)
        inner = self._expression_of(tokens[1:])
        return _placed(ast.Starred(inner, ast.Load()), self._lines.place(tokens[0].start), _end_of(inner))

    def _expression(self, start: int, end: int) -> ast.expr:
        """Return the expression between two positions."""
        code = self._data[start:end]
        if code.endswith(b"\\"):  # nothing that is put after it may join it
            raise SyntaxError("unexpected character after line continuation character")
        tree = _Rewriting(b"(" + code + b"\n)")._parse("eval")
        assert isinstance(tree, ast.Expression)
        if isinstance(tree.body, ast.GeneratorExp) and not tree.body.col_offset:
            raise SyntaxError("invalid syntax")
        line, column = self._lines.place(start)

        def place(inner: int, offset: int) -> tuple[int, int]:
            return line + inner - 1, offset + (column - 1 if inner == 1 else 0)

        for node in _located(tree):
            node.lineno, node.col_offset = place(node.lineno, node.col_offset)
            node.end_lineno, node.end_col_offset = place(node.end_lineno, node.end_col_offset)
        if isinstance(tree.body, ast.Tuple) and tree.body.col_offset == column - 1:  # the parentheses are not its own
            begin, end = start + len(code) - len(code.lstrip()), start + len(code.rstrip())
            _placed(tree.body, self._lines.place(begin), self._lines.place(end))
        return tree.body

    # ---- texts

    def _join(self, tokens: Sequence[Token]) -> ast.expr:
        """Return texts that stand next to each other."""
        is_template = any(b"t" in token.prefix for token in tokens)
        if any(b"b" in token.prefix for token in tokens) or (
            is_template and not all(b"t" in token.prefix for token in tokens)
        ):
            raise SyntaxError("cannot mix these literals")
        values: list[ast.expr] = []
        for token in tokens:
            if token.parts is None:
                text = ast.literal_eval(token.text.decode())
                _append_text(values, text, self._lines.place(token.start), self._lines.place(token.end))
            else:
                self._append_parts(values, token.parts, token, is_template=is_template)
        cls = TemplateStr if is_template else ast.JoinedStr
        start, end = tokens[0].start, tokens[-1].end
        return _placed(cls(values), self._lines.place(start), self._lines.place(end))

    def _append_parts(
        self, values: list[ast.expr], parts: Sequence[Part], token: Token, *, is_template: bool, is_spec: bool = False
    ) -> None:
        for part in parts:
            start, end = self._lines.place(part.start), self._lines.place(part.end)
            if isinstance(part, Literal):
                text = _unescape(self._data[part.start : part.end].decode(), token.prefix, is_spec=is_spec)
                _append_text(values, text, start, end)
                continue
            if part.shown is not None:
                comments = [inner for inner in part.tokens if inner.kind == "comment"]
                begins = [part.shown[0], *(inner.end for inner in comments)]
                ends = [*(inner.start for inner in comments), part.shown[1]]
                shown = b"".join(self._data[slice(*piece)] for piece in zip(begins, ends, strict=True))
                _append_text(values, shown.decode(), self._lines.place(part.shown[0]), self._lines.place(part.shown[1]))
            value = self._expression(*part.value)
            spec = None
            if part.parts is not None:
                inner: list[ast.expr] = []
                self._append_parts(inner, part.parts, token, is_template=False, is_spec=True)
                # In a template, too, the specification is an f-string.
                begin = self._lines.place(part.colon)
                spec = _placed(ast.JoinedStr(inner), begin, self._lines.place(part.end - 1))
            conversion = part.conversion[0] if part.conversion else -1
            if part.shown is not None and not part.conversion and spec is None:
                conversion = ord("r")
            code = self._data[slice(*part.value)].decode().strip()
            fields = (value, code, conversion, spec) if is_template else (value, conversion, spec)
            values.append(_placed((Interpolation if is_template else ast.FormattedValue)(*fields), start, end))


def _significant(tokens: Iterator[Token]) -> Iterator[Token]:
    """Yield tokens without comments, and without the ends of lines in brackets."""
    depth = 0
    for token in tokens:
        if token.kind == "operator":
            depth += (token.text in {b"(", b"[", b"{"}) - (token.text in {b")", b"]", b"}"})
        if token.kind != "comment" and (token.kind != "newline" or depth <= 0):
            yield token


def _outside(tokens: Sequence[Token], start: int) -> Iterator[tuple[int, Token]]:
    """Yield the numbers and tokens of a line from one on, without those in brackets."""
    depth = 0
    for number in range(start, len(tokens)):
        token = tokens[number]
        if token.kind == "newline":
            return
        is_closing = token.text in {b")", b"]", b"}"}
        depth -= is_closing
        if not depth and not is_closing:
            yield number, token
        depth += token.text in {b"(", b"[", b"{"}


def _split(tokens: Sequence[Token], sign: bytes) -> Iterator[Sequence[Token]]:
    """Yield the parts between the signs outside of brackets; nothing after a last one."""
    begin = 0
    for number, token in _outside(tokens, 0):
        if token.text == sign:
            yield tokens[begin:number]
            begin = number + 1
    if begin < len(tokens):
        yield tokens[begin:]


def _bound_and_default(tokens: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    """Return what stands after ``:`` and after ``=``."""
    assigned = next((number for number, token in _outside(tokens, 0) if token.text == b"="), len(tokens))
    bound, default = tokens[:assigned], tokens[assigned + 1 :]
    if (bound and bound[0].text != b":") or len(bound) == 1 or (assigned < len(tokens) and not default):
        raise SyntaxError("invalid syntax")
    return bound[1:], default


def _unescape(text: str, prefix: bytes, *, is_spec: bool) -> str:
    """Return what a part of a text stands for."""

    def value(match: re.Match[str]) -> str:
        if match[0] in {"{{", "}}"}:
            return match[0] if is_spec else match[0][0]
        return str(ast.literal_eval(f'"{match[0]}"'))

    return (_ESCAPE_RAW if b"r" in prefix else _ESCAPE).sub(value, text)


def _append_text(values: list[ast.expr], text: str, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Append a text, to the one before it if there is one."""
    last = values[-1] if values else None
    if isinstance(last, ast.Constant) and isinstance(last.value, str):
        last.value += text
        last.end_lineno, last.end_col_offset = end
    elif text:
        values.append(_placed(ast.Constant(text), start, end))


def _located(tree: ast.AST) -> Iterator[Any]:
    """Yield the nodes that have places."""
    return (node for node in ast.walk(tree) if hasattr(node, "lineno"))


def _start_of(node: Any) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end_of(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset


def _placed(node: _Node, start: tuple[int, int], end: tuple[int, int]) -> _Node:
    located: Any = node
    located.lineno, located.col_offset = start
    located.end_lineno, located.end_col_offset = end
    return node
