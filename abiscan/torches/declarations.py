"""What determines the memory layout of the classes in some C++ headers, as text, and a hash of it for each class.

Nothing is compiled. A class is reduced to what its layout depends on: its bases, its data members, the names and order
of its virtual functions, and the conditions of the preprocessor around them. Whatever these name (other classes,
aliases, enumerations, constants, macros) counts too, unless it is only pointed to. So two torches with the same hash
for a class lay it out alike, on the same machine and with the same ``std::string``; with different hashes, they may
still do so. ``tools/release.py`` checks this against what a compiler says about every release.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from abiscan.regex import regex

# Comments and literals, which may contain braces.
_OPAQUE: Final = regex(
    r'//[^\n]*|/\*.*?\*/|R"(?P<raw>[^\s()\\]{0,16})\(.*?\)(?P=raw)"|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
_DIRECTIVE: Final = regex(r"^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
_CONDITIONS: Final = ("if", "ifdef", "ifndef", "elif", "else", "endif")
_CONDITION: Final = regex(r"@[^@]*@")
_IDLE_CONDITION: Final = regex(r"@if[^@]*@(?:[\s;]|@el[^@]*@)*@endif[^@]*@")
_VALUES: Final = "::{}"
_TOKEN: Final = regex(r"[{};]")
_BRACE: Final = regex(r"[{}]")
_SPACE: Final = regex(r"\s+")
_ACCESS: Final = regex(r"\b(?:public|private|protected)\s*:(?!:)")
_ATTRIBUTE: Final = regex(r"\[\[[^\[\]]*\]\]|\b(?:__attribute__|__declspec)\s*\((?:[^()]|\([^()]*\))*\)")
_TEMPLATE: Final = regex(r"^\s*template\s*<")
_NAMESPACE: Final = regex(r"\bnamespace\b([\w\s:]*)$")
_CLASS: Final = regex(
    r"(?:^|\s)(class|struct|union)\b((?:\s*alignas\s*\([^()]*\)|\s+\w+(?:::\w+)*(?:\([^()]*\))?|\s*<.*>)*?)\s*"
    r"(?::(?!:)(.*))?$"
)
_ENUM: Final = regex(r"\benum\b(?:\s+(?:class|struct)\b)?([\w\s:]*)$")
_ALIAS: Final = regex(r"\busing\s+(\w+)\s*=|\busing\s+(?:typename\s+)?[\w:]*?(\w+)\s*$|\btypedef\b.*?(\w+)\s*$")
_OURS: Final = regex(r"(?:at|c10|c10d|caffe2|torch)::")
_USING: Final = regex(r"using (?!std::)(?:\w+::)*\w+")
_CONSTANT: Final = regex(r"\b(?:constexpr|static\s+const|const\s+static)\b[^(={]*?(\w+)\s*(?:\[[^\]]*\]\s*)?[={]")
_VIRTUAL: Final = regex(r"\bvirtual\b|\boverride\b|\bfinal\b|=\s*0\s*$")
_FUNCTION: Final = regex(r"(\boperator\b[^(]*(?:\(\s*\))?|~?\s*\b\w+)\s*\(")
_MACRO_DEFINITION: Final = regex(r"[ \t]*([A-Z][A-Z0-9_]*_[A-Z0-9_]+)(?:\([^()]*\))?((?:\\\n|[^\n])*)")
_ALL_CAPITALS: Final = regex(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
_MACRO: Final = regex(r"^\s*[A-Z][A-Z0-9_]+\s*\(")
_LEADING_MACRO: Final = regex(r"^(?:[A-Z][A-Z0-9_]+\s*\([^()]*\)\s*)+(?=[\w~])")
_INITIALISER_LIST: Final = regex(r"\)[^()]*:(?!:).*[\w>]\s*$")
_INITIALISER: Final = regex(r"\s*(?:=.*|\{.*\})$")
_BRACED: Final = regex(r"\s*\{.*\}$")
_IN_BRACKETS: Final = regex(r"\[[^\[\]]*\]")
_IN_ANGLES: Final = regex(r"<[^<>]*>")
_HOLDS_POINTER: Final = regex(r"\b(?:intrusive_ptr|unique_ptr|shared_ptr|weak_ptr|weak_intrusive_ptr|function)\s*<")
_POINTER: Final = regex(r"[\w:]+(?:\s+const)?\s*[*&]")
_NAME: Final = regex(r"[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*")
_DIGEST: Final = 5  # bytes


class HeaderDeclaration(NamedTuple):
    """Something that a header declares: its full name, the text that matters, and the names in that text."""

    name: str
    text: str
    names: tuple[str, ...]


class _Scope(Struct):
    """What a brace opened.

    :ivar kind: ``namespace``, ``class``, ``anonymous`` (a class without a name) or ``enum``
    """

    kind: str
    name: str
    head: str = ""
    statements: list[str] = field(default_factory=list)


class Declarations:
    """The declarations in some headers.

    :param texts: the text of each header, by its path
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._by_name: dict[str, list[HeaderDeclaration]] = defaultdict(list)
        self._classes: dict[str, str] = {}
        first: dict[HeaderDeclaration, str] = {}
        for path, text in texts.items():
            for declaration in read_declarations(text):
                first.setdefault(declaration, path)
        for declaration, path in first.items():
            self._by_name[_unqualified_name(declaration.name)].append(declaration)
            if declaration.text.endswith("}"):
                self._classes.setdefault(declaration.name, path)
        self._found = functools.cache(self._find_meanings)

    @property
    def classes(self) -> dict[str, str]:
        """The full names of torch's classes that the headers define, each with the first header that does."""
        return {name: self._classes[name] for name in sorted(self._classes) if _OURS.match(name)}

    def digest(self, class_name: str) -> str | None:
        """Return the hash of everything that determines the layout of a class; None if no header defines it."""
        own = [
            declaration
            for declaration in self._by_name.get(_unqualified_name(class_name), ())
            if declaration.name == class_name
        ]
        if not own:
            return None
        # The closure over everything that the class names by value: a change in any of it may move a member.
        seen, todo = set(own), list(own)
        while todo:
            declaration = todo.pop()
            for name in declaration.names:
                new = [item for item in self._found(name, declaration.name) if item not in seen]
                seen.update(new)
                todo += new
        lines = sorted(f"{entry.name} {entry.text}" for entry in seen if not _USING.fullmatch(entry.text))
        return hashlib.blake2b("\n".join(lines).encode(), digest_size=_DIGEST).hexdigest()

    def _find_meanings(self, name: str, scope: str) -> tuple[HeaderDeclaration, ...]:
        """Return what a name may mean in a scope: the innermost declaration, or everything that ends in it."""
        candidates = self._by_name.get(_unqualified_name(name), ())
        name = name.replace(" ", "")
        # ``Enum::VALUE`` names a value, which stands in the text of the enumeration and has no declaration of its own.
        if not candidates and "::" in name:
            name = name.rpartition("::")[0] + _VALUES  # an enumerator
            candidates = [item for item in self._by_name.get("{}", ()) if f"::{item.name}".endswith(f"::{name}")]
        # As name lookup goes: from the innermost scope outwards. What cannot be told apart counts as a whole, since a
        # hash that is too narrow would call two layouts the same.
        while candidates:
            full = f"{scope}::{name}" if scope else name
            if inner := tuple(declaration for declaration in candidates if declaration.name == full):
                return inner
            if not scope:
                break
            scope = scope.rpartition("::")[0]
        if "::" in name and (same := tuple(item for item in candidates if item.name.endswith(f"::{name}"))):
            return same
        return tuple(item for item in candidates if item.name.rpartition("::")[0] not in self._classes)


def read_declarations(text: str) -> Iterator[HeaderDeclaration]:
    """Yield the classes, aliases, enumerations and constants that a header defines."""
    # What follows counts braces and semicolons, so comments and literals go first.
    text = _OPAQUE.sub(lambda result: '""' if result[0][0] in "R\"'" else " ", text)
    for macro in _DIRECTIVE.finditer(text):
        if macro[1] == "define" and (result := _MACRO_DEFINITION.match(macro[2])):
            body = _collapse_spaces(result[2].replace("\\\n", " "))
            yield HeaderDeclaration(result[1], body, tuple(_ALL_CAPITALS.findall(body)))
    # A layout may depend on a macro that only the compiler knows: its conditions stay in the text, between ``@``, as a
    # part of the statement behind them. Both branches are kept.
    text = _DIRECTIVE.sub(_kept_condition, text)
    # One pass with a stack of scopes. ``head`` is all that stands since the last statement, in front of the next ``;``,
    # ``{`` or ``}``; a class that ends leaves its name there, for the member that may be declared with it.
    scopes = [_Scope("namespace", "")]
    head, position = "", 0
    while token := _TOKEN.search(text, position):
        head += text[position : token.start()]
        position = token.end()
        scope = scopes[-1]
        if token[0] == ";":
            yield from _read_statement(scope, head)
            head = ""
        elif token[0] == "{":
            # The body of a function and an initialiser open no scope: they are skipped as a whole. The former ends its
            # statement, the latter is part of one.
            if opened := _open_scope(head, scope):
                scopes.append(opened)
                head = ""
            else:
                end = _find_closing_brace(text, position)
                if _ends_at_body(head):
                    yield from _read_statement(scope, head)
                    head = ""
                else:
                    head += text[token.start() : end] if "constexpr" in head or "=" not in head else "{}"
                position = end
        else:
            # More closing braces than opening ones: both branches of a condition may close the same one.
            closed = scopes.pop() if len(scopes) > 1 else scope
            if closed.kind == "class":
                statements = " ; ".join(closed.statements)
                # Conditions around nothing that counts are dropped, from the innermost outwards.
                while "@" in statements and (fewer := _IDLE_CONDITION.sub("", statements)) != statements:
                    statements = fewer
                yield HeaderDeclaration(closed.name, f"{closed.head} {{ {statements} }}", _names_in_layout(closed))
            elif closed.kind == "enum":
                yield HeaderDeclaration(closed.name, closed.head, ())
                yield HeaderDeclaration(
                    closed.name + _VALUES, _collapse_spaces(head), tuple(_names_in_enumerators(head))
                )
            head = {
                "class": f" @member@ {closed.name} ",
                "anonymous": f"{closed.head} {{ {' ; '.join(closed.statements)} }}",
            }.get(closed.kind, "")


def _kept_condition(match: re.Match[str]) -> str:
    """Return a directive of the preprocessor: its conditions are kept as part of the next statement."""
    return f" @{match[1]}{_collapse_spaces(match[2])}@ " if match[1] in _CONDITIONS else " "


def _open_scope(head: str, scope: _Scope) -> _Scope | None:
    """Return the scope that a brace after ``head`` opens; None for the body of a function and for an initialiser."""
    plain = _collapse_spaces(_CONDITION.sub(" ", _ATTRIBUTE.sub(" ", _ACCESS.sub(" ", head))))
    bare = _without_template(plain)
    if match := _NAMESPACE.search(bare):
        return _Scope("namespace", _qualify_name(scope, _collapse_spaces(match[1]).replace(" ", "")))
    if bare in ('extern ""', "extern"):
        return _Scope("namespace", scope.name)
    if match := _ENUM.search(bare):
        name = re.sub(r"(?<!:):(?!:).*", "", match[1]).split()
        return _Scope("enum", _qualify_name(scope, name[-1] if name else ""), plain)
    if match := _CLASS.search(bare):
        plain = plain[: len(plain) - len(bare)] + match[0]
        words = re.sub(r"<.*>|alignas\s*\([^()]*\)|\w+\([^()]*\)", " ", match[2]).split()
        words = [word for word in words if word != "final"]
        if words:
            return _Scope("class", _qualify_name(scope, words[-1]), plain)
        return _Scope("anonymous", scope.name, plain)
    return None


def _read_statement(scope: _Scope, text: str) -> Iterator[HeaderDeclaration]:
    """Add a statement to the class that it belongs to; an alias or a constant is a declaration of its own."""
    text = _collapse_spaces(_ATTRIBUTE.sub(" ", _ACCESS.sub(" ", text)))
    bare = _CONDITION.sub(" ", text).strip()
    if bare.startswith("@member@"):
        bare = bare.removeprefix("@member@")
    conditions = "".join(_CONDITION.findall(text.replace("@member@", "")))
    declared = _without_template(bare)
    # An alias or a constant is in no object, but its own text decides about whatever names it; functions do not count.
    kept = ""
    if declared.startswith(("friend ", "static_assert", "extern ", "template ")):
        pass
    elif match := _ALIAS.search(declared):
        name = next(filter(None, match.groups()))
        yield HeaderDeclaration(
            _qualify_name(scope, name),
            declared,
            tuple(_NAME.findall(_laid_out(declared.partition("=")[2] or declared))),
        )
    elif match := _CONSTANT.search(declared):
        yield HeaderDeclaration(_qualify_name(scope, match[1]), declared, tuple(_NAME.findall(declared)))
    elif scope.kind == "namespace" or declared.startswith("static ") or declared == scope.name:
        pass
    else:
        kept = _reduce_member(declared)
    if scope.kind != "namespace" and (kept or conditions):
        scope.statements.append(f"{conditions} {kept}".strip())


def _reduce_member(declared: str) -> str:
    """Return what matters of a member: all of a variable, the name of a virtual function."""
    declared = _LEADING_MACRO.sub("", declared)
    # A function is told by parentheses outside of brackets: ``std::function<void()> f;`` is a variable.
    outside = _IN_BRACKETS.sub("[]", _BRACED.sub("", declared))
    while "<" in outside and (less := _IN_ANGLES.sub(" ", outside)) != outside:
        outside = less
    function = _FUNCTION.search(outside)
    initialiser = outside.find("=")
    if function is None or _MACRO.match(outside) or "(*" in outside or 0 <= initialiser < function.start():
        return declared if declared.startswith(("struct {", "union {")) else _INITIALISER.sub("", declared)
    if _VIRTUAL.search(outside):
        return f"virtual {_collapse_spaces(function[1])}"
    return ""


def _ends_at_body(head: str) -> bool:
    """Whether a brace after ``head`` is the body of a function, which ends the statement."""
    bare = _without_template(_collapse_spaces(_ATTRIBUTE.sub(" ", _CONDITION.sub(" ", _ACCESS.sub(" ", head)))))
    if "operator" not in bare and "=" in bare and not re.search(r"\([^()]*=", bare):
        return False
    return "(" in bare and not _INITIALISER_LIST.search(bare)


def _names_in_layout(scope: _Scope) -> tuple[str, ...]:
    """Return the names in a class that its layout depends on."""
    bases = scope.head.partition(":")[2] if ":" in scope.head.replace("::", "") else ""
    texts = [bases, *(_type_of(statement) for statement in scope.statements if "virtual " not in statement)]
    return tuple(dict.fromkeys(name for text in texts for name in _NAME.findall(_laid_out(text))))


def _names_in_enumerators(values: str) -> Iterator[str]:
    """Yield the names that the values of an enumeration depend on: macros, and what other values are computed from."""
    for value in values.split(","):
        yield from _NAME.findall(value.partition("=")[2])
    yield from _ALL_CAPITALS.findall(values)


def _type_of(member: str) -> str:
    """Return the declaration of a variable without the name of the variable."""
    return member if "{" in member else re.sub(r"(\w+)(\s*(?:\[[^\]]*\])*\s*(?::\s*\w+)?)$", r" \2", member)


def _laid_out(text: str) -> str:
    """Return a declaration without the types that are only pointed to."""
    text = _CONDITION.sub(" ", text)
    while match := _HOLDS_POINTER.search(text):
        end = _find_closing_angle(text, match.end())
        text = text[: match.end() - 1] + " " + text[end:]
    return _POINTER.sub(" ", text)


def _without_template(text: str) -> str:
    """Return a declaration without its ``template <…>``."""
    while match := _TEMPLATE.match(text):
        text = text[_find_closing_angle(text, match.end()) :]
    return text.strip()


def _find_closing_angle(text: str, start: int) -> int:
    depth = 1
    for position in range(start, len(text)):
        depth += (text[position] == "<") - (text[position] == ">")
        if depth == 0:
            return position + 1
    return len(text)


def _find_closing_brace(text: str, start: int) -> int:
    """Return the end of a block whose brace was opened before ``start``."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return len(text)


def _qualify_name(scope: _Scope, name: str) -> str:
    return f"{scope.name}::{name}" if scope.name and name else scope.name or name


def _unqualified_name(name: str) -> str:
    return _collapse_spaces(name).replace(" ", "").rpartition("::")[2]


def _collapse_spaces(text: str) -> str:
    return _SPACE.sub(" ", text).strip()
