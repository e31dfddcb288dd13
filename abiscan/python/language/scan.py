"""A look at a source file without parsing it: can its import do anything that matters here?

Most modules of a package define functions and classes, and import others. Running those would change nothing about
what is loaded, registered or raised, so only the others are parsed: those with one of a few words outside of functions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from importlib.util import decode_source
from itertools import chain, islice

from msgspec import Struct

from abiscan.python.language.tokens import NoTokens, lone_texts
from abiscan.regex import regex

LOADING = (b"load_library", b"CDLL", b"cdll", b"LibraryLoader", b"dlopen", b"PyDLL", b"import_module", b"__import__",
           b"spec_from_file_location", b"exec_module", b"load_module", b"load_dynamic", b"create_dynamic", b"pydll",
           b"ExtensionFileLoader")  # fmt: skip
REGISTERING = (b"torch.library", b"custom_op", b"triton_op", b".register_fake", b"impl_abstract", b".register_kernel",
               b"Library(", b".register_autograd", b"import library", b".define(", b".impl(")  # fmt: skip
_LOADING = frozenset(LOADING)
_INFERRING = (b"custom_op", b"triton_op")
_INFER_SCHEMA = b"infer_schema"
_PARTS = {
    b"ibrar": (b"load_library", b"LibraryLoader", b"torch.library", b"Library(", b"import library"),
    b"DLL": (b"CDLL", b"PyDLL"),
    b"dll": (b"cdll", b"pydll"),
    b"_dynamic": (b"load_dynamic", b"create_dynamic"),
    b"_module": (b"import_module", b"exec_module", b"load_module"),
    b".register_": (b".register_fake", b".register_kernel", b".register_autograd"),
    b"impl": (b"impl_abstract", b".impl("),
}
"""What several of the words have in common: a source without it has none of them, and is not searched for each."""
_WORDS_BY_PART = _PARTS | {
    word: (word,) for word in (*LOADING, *REGISTERING) if not any(word in words for words in _PARTS.values())
}
_OUTSIDE_FUNCTIONS = {
    b"importlib": (b"importlib.metadata", b"importlib import metadata", b"importlib_metadata"),
    b"sys.": (b"sys.exit", b"sys.path"),
    **{word: (word,) for word in (b"torch.ops.", b"os._exit", b"__getattr__")},
}
"""What may matter outside of functions, by what several of the words have in common."""
_MOST_HITS = 60

SPACE = rb"(?:[ \t]|\\\r?\n)+"
"""What may stand between two words of a statement: a backslash continues it in the next line."""
_REST = rb"[^\n#;\\]*(?:\\\r?\n[^\n#;\\]*)*"
FROM = rb"from" + SPACE + rb"(%b)" + SPACE + rb"import(?:" + SPACE + rb")?(\([^)]*\)|" + _REST + rb")"
"""An import from a module: its pattern is put in; then what is taken, in parentheses or as the rest of a line."""

# A pattern that begins with a line break is searched for several times faster than one with ^ in it.
_IMPORT = regex(rb"\n([ \t]*)(?:" + FROM % rb"[.\w]+" + rb"|import" + SPACE + rb"(\w" + _REST + rb"))")


class ImportLine(Struct, frozen=True, kw_only=True):
    """An import: ``from MODULE import NAMES`` or, without names, ``import MODULE``."""

    module: str
    names: tuple[str, ...]
    nested: bool
    """Whether it is inside an ``if``, a ``try``, a class or a function."""
    line: int


_KEYWORD = rb"(?:async[ \t]+)?(?:(def|class)[ \t]+(\w*)|(if|elif|else|try|except|finally|with|for|while)\b)"
_LINE = regex(rb"\n(?:([ \t]+)" + _KEYWORD + rb"|(?![ \t\r\n#)\]}])(?:" + _KEYWORD + rb")?)")

_HEADER = regex(_KEYWORD)
_LEFT = regex(rb"\n[^ \t\r\n#)\]}]")
_BEFORE_STATEMENT = (b"\n", b":", b";")
_NO_CODE = (b"#", b">>>")
"""What lines begin with that are not run: a comment, or an example in a text, since no line of code begins so."""
_LEFT_IN_CLASS = regex(rb"\n {0,4}[^\s#)\]}]")

_WORDS_AND_PARENTHESES = bytes(one if chr(one).isalnum() or chr(one) in "_(" else 32 for one in range(256))
_DECORATOR = regex(rb"@(\w+)")

Has = Callable[[bytes], bool]
"""What tells whether a text is in a source."""
Header = tuple[bytes, bytes]
"""A line that opens a block: its keyword and the name after it. At the left margin, any statement is one."""


class Outline:
    """What a look at a source file shows: its blocks, by indentation, and where the words are.

    :param has: tells whether a text is in it
    """

    def __init__(self, source: bytes, has: Has | None = None) -> None:
        self._source = source
        self._has: Has = source.__contains__ if has is None else has
        self._blocks: dict[int, tuple[list[int], list[tuple[int, int, Header]]]] = {}

    @property
    def data(self) -> bytes:
        """The source; each line has a break before it, the first one too."""
        return _with_break(self._source)

    @cached_property
    def _words(self) -> tuple[bytes, ...]:
        """Which of the words are in it."""
        return tuple(self._present(_WORDS_BY_PART))

    def _present(self, words_by_part: Mapping[bytes, tuple[bytes, ...]]) -> Iterator[bytes]:
        """Yield those of some words that are in it."""
        has = self._has
        return (word for part, words in words_by_part.items() if has(part) for word in words if has(word))

    @cached_property
    def loads(self) -> bool:
        """Whether one of the words for loading a library is in it."""
        return not _LOADING.isdisjoint(self._words)

    @cached_property
    def imports(self) -> tuple[ImportLine, ...]:
        """Its imports outside of functions."""
        return tuple(line for inside, line in self._all_imports if not inside)

    @cached_property
    def imports_in_functions(self) -> tuple[ImportLine, ...]:
        """What may be imports inside of functions: a text may look like one."""
        return tuple(line for inside, line in self._all_imports if inside)

    @cached_property
    def _all_imports(self) -> tuple[tuple[bool, ImportLine], ...]:
        return tuple(
            (line.nested and not self.outside_functions(position), line) for position, line in _import_lines(self.data)
        )

    @cached_property
    def risky(self) -> frozenset[bytes]:
        """Its functions and classes that have one of the words inside."""
        return frozenset(name for _, name in self._with_words if name)

    @cached_property
    def infers_schemas(self) -> bool:
        """Whether code outside of functions may define an operator by the annotations of a function."""
        return any(self.mentions([word]) for word in _INFERRING if word in self._words) or (
            self._has(_INFER_SCHEMA) and self.mentions([_INFER_SCHEMA])
        )

    @cached_property
    def eager(self) -> bool:
        """Whether something outside of its functions may matter."""
        return any(keyword != b"def" for keyword, _ in self._with_words) or any(
            self.outside_functions(position) and not self._is_no_code(position) for position in self._ending()
        )

    @cached_property
    def _with_words(self) -> list[Header]:
        """The outermost block of each of the words; none is around a word at the left margin."""
        return [
            self.outermost(position)
            for word in self._words
            for position in self.positions(word)
            if not self._line_at(position)[1].lstrip().startswith((b"import ", b"from ", *_NO_CODE))
        ]

    def _is_no_code(self, position: int) -> bool:
        return self._line_at(position)[1].lstrip().startswith(_NO_CODE)

    def _ending(self) -> Iterator[int]:
        """Yield where a module may end early, or look an operator up."""
        for word in self._present(_OUTSIDE_FUNCTIONS):
            yield from self.positions(word)
        yield from islice(self._raising_places(), _MOST_HITS)
        position = self.data.find(b"\nassert ")
        if position >= 0:
            yield position + 1

    def _raising_places(self) -> Iterator[int]:
        """Yield the ends of the words that raise."""
        position = self.data.find(b"raise")
        while position >= 0:
            end = position + len(b"raise")
            before = self.data[self.data.rfind(b"\n", 0, position) : position].rstrip(b" \t")
            if before[-1:] in _BEFORE_STATEMENT and not _is_word(self.data[end : end + 1]):
                yield end
            position = self.data.find(b"raise", end)

    def _headers_of_block(self, number: int) -> tuple[list[int], list[tuple[int, int, Header]]]:
        """Return the headers from a statement at the left margin to the next one: their places, and for each of them
        its depth, the number of the one around it, itself.
        """
        if number not in self._blocks:
            start = self._margin[number] - 1 if number >= 0 else 0
            end = self._margin[number + 1] - 1 if number + 1 < len(self._margin) else len(self.data)
            self._blocks[number] = self._headers_between(start, end)
        return self._blocks[number]

    def _headers_between(self, start: int, end: int) -> tuple[list[int], list[tuple[int, int, Header]]]:
        # The stack of open blocks is kept as links: each header has the number of the one around it, the nearest before
        # it that is indented less.
        places: list[int] = []
        headers: list[tuple[int, int, Header]] = []
        for match in _LINE.finditer(self.data, start, end):
            depth = len(match[1]) if match[1] else 0
            around = len(headers) - 1
            while around >= 0 and headers[around][0] >= depth:
                around = headers[around][1]
            headers.append(
                (depth, around, (match[2] or match[4] or match[5] or match[7] or b"", match[3] or match[6] or b""))
            )
            places.append(match.start() + 1)
        return places, headers

    def around(self, position: int) -> list[Header]:
        """Return the blocks around a position, innermost first."""
        start, line = self._line_at(position)
        places, headers = self._headers_of_block(bisect_right(self._margin, start) - 1)
        number = bisect_right(places, start) - 1
        results: list[Header] = []
        depth = len(line) - len(line.lstrip(b" \t"))
        # The line itself opens a block. Only what stands after ``def``, as the body in the same line, is inside of the
        # function.
        if number >= 0 and places[number] == start:
            if headers[number][2][0] == b"def" and position > start + depth:
                results.append(headers[number][2])
            number = headers[number][1]
        # A block before the line that is indented as much, or more, has ended.
        while number >= 0 and headers[number][0] >= depth:
            number = headers[number][1]
        while number >= 0:
            results.append(headers[number][2])
            number = headers[number][1]
        return results

    def outermost(self, position: int) -> Header:
        """Return the last of the blocks around a position; none is around what is at the left margin."""
        number = bisect_right(self._margin, position) - 1
        # In an indented line, the statement at the left margin before it is the outermost block: no other needs to be
        # looked for.
        if number >= 0 and self.data[self.data.rfind(b"\n", 0, position) + 1] in b" \t":
            match = _HEADER.match(self.data, self._margin[number])
            return (match[1] or match[3] or b"", match[2] or b"") if match else (b"", b"")
        around = self.around(position)
        return around[-1] if around else (b"", b"")

    def outside_functions(self, position: int) -> bool:
        """Whether the code at a position runs when the module is imported."""
        return not self._surely_inside(position) and not any(keyword == b"def" for keyword, _ in self.around(position))

    def _surely_inside(self, position: int) -> bool:
        """Return a quick look for a function around a position, at the left margin or in a class there."""
        number = bisect_right(self._margin, position) - 1
        start = self._margin[number] if number >= 0 else 0
        if self.data.startswith(b"def ", start):
            return start < position
        if not self.data.startswith(b"class ", start):
            return False
        # A method, and no line after it that is indented as little as the class body is.
        method = self.data.rfind(b"\n    def ", start, position)
        return method > 0 and not _LEFT_IN_CLASS.search(self.data, method + 1, position + 1)

    @cached_property
    def _margin(self) -> list[int]:
        """Where the statements at the left margin begin."""
        return [match.start() + 1 for match in _LEFT.finditer(self.data)]

    @cached_property
    def called(self) -> frozenset[bytes]:
        """The names before a parenthesis, and those of decorators."""
        # Everything but names and parentheses becomes a space, so that the word before each parenthesis is split off at
        # C's speed.
        data = self.data
        before = data.translate(_WORDS_AND_PARENTHESES).split(b"(")
        names = {part.rpartition(b" ")[2] for part in before}
        names.update(match[1] for match in _DECORATOR.finditer(data) if self._is_first(match.start()))
        return frozenset(names)

    def calls(self, names: frozenset[bytes]) -> bool:
        """Whether one of these functions is called, or decorates something, outside of functions."""
        return any(self.outside_functions(position) for _, position in self._calls_of(names))

    def callers(self, names: frozenset[bytes]) -> set[bytes]:
        """Return the functions, outermost ones, that call one of these."""
        results = set()
        for name, position in self._calls_of(names):
            outermost = self.outermost(position)
            if outermost[0] == b"def" and outermost[1] != name and not outermost[1].startswith(b"__"):
                results.add(outermost[1])
        return results

    def may_act(self, names: frozenset[bytes]) -> bool:
        """Whether any of its functions may have one of the words inside, or call one of these."""
        return bool(self._words) or not self.called.isdisjoint(names)

    def acting(self, names: frozenset[bytes]) -> frozenset[bytes]:
        """Return the functions and methods, at any depth, that have one of the words inside, or call one of these."""
        places = [position for word in self._words for position in self.positions(word)]
        places += [position for _, position in self._calls_of(names)]
        headers = (header for position in places for header in self.around(position))
        return frozenset(name for keyword, name in headers if keyword == b"def")

    def mentions(self, names: Iterable[bytes]) -> bool:
        """Whether one of these is used outside of functions, or in the parameters of one."""
        return any(
            (self.outside_functions(position) or self._in_signature(position))
            and not self._is_import(position)
            and not self._is_in_docstring(position)
            for name in names
            for position in self._whole_words(name)
        )

    def _is_in_docstring(self, position: int) -> bool:
        """Whether a position is in the text that a module, a class or a function begins with."""
        # Few sources have a name in what looks like one: only their tokens tell which quotes begin a text.
        return _is_between(self._like_docstrings, position) and _is_between(self._lone_texts, position)

    @cached_property
    def _like_docstrings(self) -> list[tuple[int, int]]:
        """Where what looks like a docstring with three quotes begins and ends."""
        return [match.span("text") for match in _DOCSTRING.finditer(self.data)]

    @cached_property
    def _lone_texts(self) -> list[tuple[int, int]]:
        """Where the texts begin and end that are statements; none where Python reads other characters than these."""
        source = self.data[1:]
        try:
            return list(lone_texts(self.data)) if decode_source(source).encode() == source else []
        except (NoTokens, SyntaxError, UnicodeError, LookupError):
            return []

    def keyword_calls(self, names: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the calls of some functions with keywords, in decorators and at the left margin: name and keywords."""
        data = self.data
        decorators = (match for match in _DECORATOR_CALL.finditer(data) if self._is_first(match.start()))
        for match in chain(_MARGIN_CALL.finditer(data), decorators):
            name = match[1].rpartition(b".")[2].decode()
            if name not in names:
                continue
            keywords = frozenset(word.decode() for word in _KEYWORDS.findall(self._arguments(match.end())))
            if keywords and self.outside_functions(match.start(1)):
                yield name, keywords

    def _is_first(self, position: int) -> bool:
        """Whether nothing stands before a position in its line."""
        return not self.data[self.data.rfind(b"\n", 0, position) : position].strip()

    def _arguments(self, start: int) -> bytes:
        """Return what stands between a parenthesis and its counterpart, without what is in further brackets."""
        parts, depth, begin = [], 0, start
        for match in _BRACKET.finditer(self.data, start, start + _LONGEST_CALL):
            if match[0] in b"([{":
                parts.append(self.data[begin : match.start()] if not depth else b"")
                depth += 1
            elif not depth:
                return b"".join((*parts, self.data[begin : match.start()]))
            else:
                depth -= 1
            begin = match.end()
        return b""

    def users(self, name: bytes) -> set[bytes]:
        """Return the functions and classes, outermost ones, that use a name when they are called."""
        results = set()
        for position in self._whole_words(name):
            outermost = self.outermost(position)
            inside = next((header[1] for header in self.around(position) if header[0] == b"def"), None)
            # A method is called by its own name, or where its class is made, derived from or called.
            if inside is not None and (outermost[0] == b"def" or inside in _CLASS_HOOKS):
                results.add(outermost[1])
        return results

    def _in_signature(self, position: int) -> bool:
        """Whether a name stands between a ``def`` that runs at import and the colon that its body begins after."""
        start = self.data.rfind(b"def ", 0, position)
        depth = 0
        for match in _BRACKET_OR_COLON.finditer(self.data, max(start, 0), position):
            if match[0] == b":" and not depth:
                return False
            depth += 1 if match[0] in b"([{" else -1 if match[0] in b")]}" else 0
        first = _DEF.match(self.data, self._line_at(max(start, 0))[0], start + 4)
        return first is not None and self.outside_functions(first.start(1))

    def _is_import(self, position: int) -> bool:
        """Whether a name is only imported, listed or defined where it stands."""
        line = self._line_at(position)[1].strip()
        if self.data[position - 4 : position] == b"def ":
            return True
        return line.startswith((b"import ", b"from ", b"__all__", *_NO_CODE)) or not _USED.search(line)

    def _calls_of(self, names: frozenset[bytes]) -> Iterator[tuple[bytes, int]]:
        words = self.called & names
        data = self.data if words else b""
        for word in words:
            for position in self.positions(word):
                before, end = data[max(position - 4, 0) : position], position + len(word)
                after = data[end : end + 1]
                if before[-1:] == b"@":
                    is_call = not _is_word(after) and not data.startswith(_OF_PROPERTY, end)
                else:
                    is_call = after == b"(" and not _is_word(before[-1:]) and before not in _NO_CALL
                if is_call and not self._is_no_code(position):
                    yield word, position

    def positions(self, word: bytes) -> Iterator[int]:
        """Yield where a word is, the first few times."""
        data = self.data
        position = data.find(word)
        for _ in range(_MOST_HITS):
            if position < 0:
                return
            yield position
            position = data.find(word, position + 1)

    def _whole_words(self, name: bytes) -> Iterator[int]:
        """Yield where a name is not a part of a longer one, nor in a comment, the first few times."""
        for position in self.positions(name):
            end = position + len(name)
            if _is_word(self.data[position - 1 : position]) or _is_word(self.data[end : end + 1]):
                continue
            if not is_in_comment(self.data, position):
                yield position

    def _line_at(self, position: int) -> tuple[int, bytes]:
        data = self.data
        start, end = data.rfind(b"\n", 0, position) + 1, data.find(b"\n", position)
        return start, data[start : end if end >= 0 else len(data)]


_DEF = regex(rb"[ \t]*((?:async[ \t]+)?def )")
_OF_PROPERTY = (b".setter", b".getter", b".deleter")
_CLASS_HOOKS = frozenset({b"__init__", b"__new__", b"__post_init__", b"__init_subclass__", b"__call__"})
_MARGIN_CALL = regex(rb"\n(?:\w+[ \t]*=[ \t]*)?([A-Za-z_][\w.]*)\(")
_DECORATOR_CALL = regex(rb"@([A-Za-z_][\w.]*)\(")
_KEYWORDS = regex(rb"(?:^|,)\s*(\w+)\s*=(?!=)")
_BRACKET = regex(rb"[][(){}]")
_LONGEST_CALL = 2000
_BRACKET_OR_COLON = regex(rb"[][(){}:]")
_USED = regex(rb"[^\w\s,'\"]")
_DOCSTRING = regex(
    rb"(?:\A(?:\s|#[^\n]*\n)*|\n[ \t]*(?:(?:(?:async[ \t]+)?def|class)\b|\))[^\n]*:[ \t]*\n\s*)"
    rb"[rRuU]?(?P<text>(?P<quotes>\"\"\"|''')(?s:.*?)(?P=quotes))"
)
_NO_NAMES = regex(rb"#[^\n]*|[()\\]")
_NO_CALL = (b"def ", b"elf.", b"cls.")


@lru_cache(maxsize=2)  # what asks for one source asks many times, and a package may have fifty megabytes of them
def _with_break(source: bytes) -> bytes:
    return b"\n" + source


def _is_between(spans: list[tuple[int, int]], position: int) -> bool:
    number = bisect_right(spans, position, key=lambda span: span[0]) - 1
    return number >= 0 and position < spans[number][1]


def is_in_comment(text: bytes, position: int) -> bool:
    """Whether a position is surely in a comment: a quote before the sign may mean that it is in a text, and several
    behind it that such a text ends there.
    """
    before, sign, after = text[text.rfind(b"\n", 0, position) + 1 : position].partition(b"#")
    return bool(sign) and not any(quote in before or quote * 3 in after for quote in (b'"', b"'"))


def _is_word(character: bytes) -> bool:
    return character.isalnum() or character == b"_"


def _lines_of_imports(content: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the matches of ``_IMPORT``: the word is searched for, since that is several times as fast."""
    position, end = content.find(b"import"), 0
    while position >= 0:
        start = content.rfind(b"\n", end, position)
        match = _IMPORT.match(content, _first_line(content, start, end)) if start >= 0 else None
        if match is None and start >= 0:  # what seems to go on may be a comment
            match = _IMPORT.match(content, start)
        if match:
            yield match
        end = match.end() if match else position
        following = content.find(b"\n", end)  # nothing else in the line begins an import
        position = content.find(b"import", following) if following >= 0 else -1


def _first_line(content: bytes, start: int, least: int) -> int:
    """Return the line break before the first line of a statement that backslashes continue up to a line break."""
    while content.endswith((b"\\", b"\\\r"), max(start - 2, 0), start):
        before = content.rfind(b"\n", least, start)
        if before < 0:
            break
        start = before
    return start


def imports_of(source: bytes, module: str) -> Iterator[ImportLine]:
    """Yield the imports of a module, or of what is in it, wherever they stand in a source."""
    if module.encode() in source:  # to look for it first is many times as fast
        yield from (line for _, line in _import_lines(b"\n" + source) if f"{line.module}.".startswith(f"{module}."))


def _import_lines(content: bytes) -> Iterator[tuple[int, ImportLine]]:
    """Yield where the imports begin, and the imports.

    :param content: a source with a line break before it
    """
    # The lines are counted on from one match to the next.
    line, counted = 1, 0
    for match in _lines_of_imports(content):
        nested, start = bool(match[1]), match.end(1)
        line += content.count(b"\n", counted, match.start())
        counted = match.start()
        if match[2]:
            listed = match[3]
            if not listed.replace(b",", b"").replace(b" ", b"").isalnum():
                listed = _NO_NAMES.sub(b" ", listed)
            names = tuple(name.split()[0].decode("utf-8", "replace") for name in listed.split(b",") if name.strip())
            module = match[2].decode("utf-8", "replace")
            yield start, ImportLine(module=module, names=names, nested=nested, line=line)
        else:
            listed = _NO_NAMES.sub(b" ", match[4]) if b"\\" in match[4] else match[4]
            for name in listed.split(b","):
                if name.strip():
                    module = name.split()[0].decode("utf-8", "replace")
                    yield start, ImportLine(module=module, names=(), nested=nested, line=line)
