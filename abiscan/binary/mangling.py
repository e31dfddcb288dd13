"""Demangled C++ names. The only importer of cxxfilt.

Mangled names are those of the Itanium C++ ABI, section 5.1.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from abiscan.binary import by_lief
from abiscan.regex import regex

_LONGEST: Final = 16_384  # characters; a longer name is not a real one but an attack on the demangler
# Each substitution can double the text before it. Of 185,000 names that five releases of torch export, 3 in 1,000 use
# more different ones.
_MOST_SUBSTITUTIONS: Final = 16
_SUBSTITUTION: Final = regex(r"S[0-9A-Z]*_")

_RUNTIME: Final = {"c": "libc.so.6", "stdc++": "libstdc++.so.6"}
"""What cxxfilt looks for, and what it is called where the GNU loader runs."""
_SPELLINGS: Final = (
    (
        regex(r"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> ?>"),
        "std::__cxx11::string",
    ),
    (regex(r"std::basic_string<char, std::char_traits<char>, std::allocator<char> ?>"), "std::string"),
    (regex(r"std::basic_string_view<char, std::char_traits<char> ?>"), "std::string_view"),
    (regex(r"> (?=>)"), ">"),
)

_DEFAULT_ALLOCATOR: Final = regex(r", std::allocator<[^<>]*(?:<[^<>]*>[^<>]*)*>(?=>)")

_OPENING: Final = {")": "(", ">": "<", "]": "[", "}": "{"}
_SOURCE_NAME: Final = regex(r"([0-9]{1,5})")
_NESTED: Final = regex(r"_ZN[rVK]*[RO]?")
# ``<operator-name>``, and what all constructors or all destructors of a class begin with.
_OPERATOR: Final = regex(r"[a-z][A-Za-z]|[CD](?=[I0-9])")


@functools.cache
def _load_demangler() -> Callable[[str], str | None]:
    """Return the function that demangles a name; its result is None for a name that is not mangled.

    cxxfilt uses the C++ runtime of this machine; lief is linked with one.
    """
    try:
        with _found_by_the_loader():
            import cxxfilt

        has_runtime = isinstance(cxxfilt.default_demangler, cxxfilt.Demangler)
    except (ImportError, OSError, AttributeError):  # errors of the search for a library on other systems
        has_runtime = False
    return _by_cxxfilt if has_runtime else by_lief.demangle_by_lief


@contextlib.contextmanager
def _found_by_the_loader() -> Iterator[None]:
    """Let libraries be found by the names that the loader knows them by.

    ``ctypes.util`` runs programs to find one (``ldconfig``, ``gcc``), which takes longer than all else that is done for
    a small wheel; and cxxfilt looks for two as it is imported.
    """
    import ctypes.util

    find = ctypes.util.find_library

    def found(name: str) -> str | None:
        usual = _RUNTIME.get(name)
        try:
            ctypes.CDLL(usual) if usual else None
        except OSError:
            usual = None
        return usual or find(name)

    ctypes.util.find_library = found
    try:
        yield
    finally:
        ctypes.util.find_library = find


def _by_cxxfilt(name: str) -> str | None:
    import cxxfilt

    try:
        text: str = cxxfilt.demangle(name)
    except (cxxfilt.InvalidName, UnicodeError, MemoryError):
        return None
    return text


def demangle_fully(name: str) -> str | None:
    """Return the C++ name of a mangled name as the C++ runtime spells it, None if it is not one."""
    if len(name) > _LONGEST or len(set(_SUBSTITUTION.findall(name))) > _MOST_SUBSTITUTIONS:
        return None
    if name.startswith("_Z"):
        return _load_demangler()(name)
    text = _load_demangler()(f"_ZTS{name}")
    return text.removeprefix("typeinfo name for ") if text and text.startswith("typeinfo name for ") else None


@functools.lru_cache(maxsize=65_536)
def demangle(name: str) -> str:
    """Return the C++ name of a mangled name, in its usual short spelling; ``name`` itself if it is not mangled."""
    if not name.startswith("_Z") or len(name) > _LONGEST or len(set(_SUBSTITUTION.findall(name))) > _MOST_SUBSTITUTIONS:
        return name
    text = _load_demangler()(name)
    if not text or len(text) > _LONGEST:
        return name
    for pattern, short in _SPELLINGS:
        text = pattern.sub(short, text)
    while (shorter := _DEFAULT_ALLOCATOR.sub("", text)) != text:  # from the innermost outwards
        text = shorter
    return text


def demangle_type(name: str) -> str:
    """Return the C++ name of a mangled type: ``at::Tensor (at::Tensor const&)`` for ``FN2at6TensorERKS0_E``."""
    text = demangle(f"_ZTS{name}")  # the demangler takes a type only as "typeinfo name for …"
    return text.removeprefix("typeinfo name for ") if text != f"_ZTS{name}" else name


class Signature(Struct, frozen=True, kw_only=True):
    """A demangled function: ``name(parameters)suffix``.

    :ivar parameters: None for a name that is not a function
    """

    name: str
    parameters: tuple[str, ...] | None = None
    suffix: str = ""

    @classmethod
    def of(cls, demangled: str) -> Signature:
        """Split a demangled name at its parameter list."""
        end = demangled.rfind(")")
        if end < 0:
            return cls(name=demangled)
        # From the end: a template argument or a result may have parentheses of its own, in front of the parameters.
        depth = 0
        for start in range(end, -1, -1):
            depth += (demangled[start] == ")") - (demangled[start] == "(")
            if depth == 0:
                break
        else:
            return cls(name=demangled)
        if start == 0 or demangled[start + 1 : end] == "anonymous namespace":
            return cls(name=demangled)
        return cls(
            name=demangled[:start], parameters=split_parameters(demangled[start + 1 : end]), suffix=demangled[end + 1 :]
        )

    def mark_against(self, reference: Signature) -> str:
        """Return this signature with «» around each parameter that ``reference`` does not have in that position."""
        if self.parameters is None or reference.parameters is None:
            return str(self)
        import difflib

        matcher = difflib.SequenceMatcher(a=reference.parameters, b=self.parameters, autojunk=False)
        kept_indexes = {
            index for block in matcher.get_matching_blocks() for index in range(block.b, block.b + block.size)
        }
        marked = [text if index in kept_indexes else f"«{text}»" for index, text in enumerate(self.parameters)]
        suffix = self.suffix if self.suffix == reference.suffix else f"«{self.suffix}»"
        return f"{self.name}({', '.join(marked)}){suffix}"

    def similarity_to(self, reference: Signature) -> float:
        """Return how similar the parameters are to those of ``reference``, from 0 to 1; both kinds of string count as
        equal.
        """
        import difflib

        own_parameters, other_parameters = (
            [parameter.replace("__cxx11::", "") for parameter in signature.parameters or ()]
            for signature in (self, reference)
        )
        return (
            difflib.SequenceMatcher(a=own_parameters, b=other_parameters, autojunk=False).ratio()
            + (self.suffix == reference.suffix) / 100
        )

    def __str__(self) -> str:
        return self.name if self.parameters is None else f"{self.name}({', '.join(self.parameters)}){self.suffix}"


def split_parameters(parameters: str) -> tuple[str, ...]:
    """Return the parts of a list of parameters, or of template arguments: at the commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(parameters):
        if character in "(<[{":
            depth += 1
        elif character in _OPENING:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(parameters[start:index].strip())
            start = index + 1
    last = parameters[start:].strip()
    return (*parts, last) if last else tuple(parts)


def same_name_prefixes(name: str) -> tuple[str, ...]:
    """Return the prefixes of the mangled names that have the qualified name of ``name`` with different parameters.

    The path of a nested name comes before the parameters, so all overloads have the same prefix, except that constness
    comes before the path. A prefix ends at the first template argument, or behind the code of an operator, so other
    names may have it too. Empty if the name is not a function nested in a namespace.
    """
    nested = _NESTED.match(name)
    if nested is None:
        return ()
    position = nested.end()
    # ``<length><name>`` each (Itanium C++ ABI, 5.1); anything else ends the part that all overloads share.
    while (number := _SOURCE_NAME.match(name, position)) is not None:
        end = number.end() + int(number.group())
        if end > len(name):
            return ()
        position = end
    if position == nested.end():
        return ()
    # Without the code of the operator, ``at::operator<<`` would have the prefix of all that there is in ``at``.
    operator = _OPERATOR.match(name, position)
    path = name[nested.end() : operator.end() if operator else position]
    return f"_ZN{path}", f"_ZNK{path}"


@functools.lru_cache(maxsize=65_536)
def returning_cxx11_string(name: str) -> str | None:
    """Return the name of the function if it returns the C++11 string, which tags the name; None outside a namespace."""
    path = next((prefix for prefix in same_name_prefixes(name) if name.startswith(prefix)), None)
    return f"{path}B5cxx11{name[len(path) :]}" if path else None


@functools.lru_cache(maxsize=65_536)
def uses_cxx11_string(name: str) -> bool | None:
    """Return which ``std::string`` a mangled name contains: True for the C++11 one, False for the old one, None if
    neither.
    """
    if "7__cxx11" in name or "B5cxx11" in name:
        return True
    if "Ss" in name and "std::string" in demangle(name):
        return False
    return None
