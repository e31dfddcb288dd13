"""Names of torch that functions of a package use when they are called, and that a torch lacks; and calls that its
functions reject.

A note is worth less than a false alarm costs. So a use counts only if it is clear what the name stands for, and if
nothing around it, before it or at its callers may depend on the version of torch. It is doubtful where the package
shows elsewhere that it knows that the name may be missing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from abiscan.python.language.refusals import ParameterList, PassedArguments, parse_parameters
from abiscan.python.language.scan import Has
from abiscan.python.later.guarded_callers import MOST_PARSED, Callers, Guard, size_of
from abiscan.python.later.mentions import (
    ITEMSIZE,
    ITEMSIZE_SINCE,
    OF_OBJECTS,
    TENSOR,
    TENSORS,
    LaterUse,
    Mention,
    Mentions,
    gone_keywords,
    says_it_is_gone,
)
from abiscan.python.later.settled_conditions import SettledConditions
from abiscan.python.package.added_names import may_set_in
from abiscan.python.package.library import PythonCode
from abiscan.python.torch_api.changed_defaults import BY_FUNCTION, REMOVED_METHOD, may_need_default
from abiscan.python.torch_api.operator_calls import (
    ATEN,
    LISTED,
    METHODS,
    KnownOperators,
    Overload,
    as_passed,
    compiled_function,
    methods_with_lists,
    operator_named,
)
from abiscan.python.torch_api.torch_classes import DEFINED_AS
from abiscan.python.torch_api.torch_names import DEVICE_MODULES, FUNCTIONS, TorchNames, lacking_part
from abiscan.python.torch_api.torch_options import COMPILE, INDUCTOR, list_words
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD
from abiscan.python.torch_api.torch_uses import CallText, list_calls
from abiscan.regex import regex

_LOOKS_UP: Final = regex(rb"(?:has|get|set)attr\(\s*(?:torch|F|nn|\w*module\w*)\b")
"""What a source has that looks names up in torch, or in modules."""
_LOOKS_AT_PARAMETERS: Final = regex(
    rb"\b(?:signature|getfullargspec|getargspec)\(\s*([\w.]*)|\b(?:co_varnames|__kwdefaults__)\b"
)
"""What a source has that asks functions for their parameters, and which."""
_ASKS_PARAMETERS: Final = (b"signature(", b"argspec(", b"co_varnames", b"__kwdefaults__")
"""One of which it has then: to look for these takes a small part of the time."""


def later_uses(
    code: PythonCode,
    names: TorchNames,
    companions: Iterable[Sequence[TorchNames]] = (),
    own: Callable[[], Mapping[str, Sequence[Overload]]] = dict,
    imported: Collection[str] = (),
    facts: Mapping[str, object] = {},
) -> tuple[LaterUse, ...]:
    """Return the uses of names that a torch certainly lacks, by functions that may be called there.

    Only those count that some release certainly has; others may be brought by packages, or be misspelt.

    :param companions: for each package other than torch, its versions that may be there; all must lack a name
    :param own: returns the operators that libraries of the package define: see ``KnownOperators``
    :param imported: the sources that importing the package runs there, whatever conditions stand around their imports
    :param facts: see ``KnownTorch``
    """
    # Functions with a name of torch that is a plain word often have one themselves, and many callers: too many must not
    # hide the others.
    settled = SettledConditions(code, names, facts)
    open_uses = _open_mentions(code, names, own, settled)
    open_uses += (mention for versions in companions for mention in _open_mentions_of(code, versions, settled))
    found: dict[LaterUse, Guard] = {}
    for plain in (False, True):
        mentions = [mention for mention in open_uses if _is_plain(mention.use.name.rpartition(".")[2]) is plain]
        if not mentions:
            continue
        callers = Callers(code, mentions, imported, settled)
        for mention in mentions:
            guard = max(callers.guard(mention), Guard.PERHAPS if mention.doubtful else Guard.NONE)
            found[mention.use] = min(guard, found.get(mention.use, guard))
    certain = {use.name for use, guard in found.items() if guard is Guard.NONE}
    return tuple(
        sorted(
            replace(use, doubtful=guard is Guard.PERHAPS)
            for use, guard in found.items()
            if guard is Guard.NONE or (guard is Guard.PERHAPS and use.name not in certain)
        )
    )


def failing_uses(code: PythonCode, names: TorchNames) -> frozenset[LaterUse]:
    """Return the uses that fail in a torch unless a caller prevents it; importing the package may run some."""
    mentions = _open_mentions(code, names, dict, SettledConditions(code, names, {}))
    return frozenset(mention.use for mention in mentions if not mention.doubtful)


def _open_mentions(
    code: PythonCode,
    names: TorchNames,
    own: Callable[[], Mapping[str, Sequence[Overload]]],
    settled: SettledConditions,
) -> list[Mention]:
    """Return the uses of what a torch lacks that nothing guards where they stand."""
    # The cheapest checks first: words in the sources, the tables of names, and only then the syntax trees of the few
    # files that mention a name which is missing.
    missing: dict[str, set[str]] = {}
    lacking = names.lacking(code.all_torch_uses)
    for file in code.sources:
        uses = code.torch_uses(file) if code.is_for_users(file) else frozenset[str]()
        other_uses = (
            (*_options_in(code.source(file), uses), *_attributes_in(code.searcher(file), uses, names)) if uses else ()
        )
        for use in (*(use for use in lacking if use in uses), *other_uses):
            name = lacking_part(names, use)
            if name is not None and name.split(".")[1] not in DEVICE_MODULES:
                missing.setdefault(name, set()).add(file)
    requested = {name: files for name, files in missing.items() if names.was_there(name)}
    if names.has_module(ITEMSIZE_SINCE) is False:
        files = {file for file in code.sources if code.is_for_users(file) and _may_ask_dtypes(code, file)}
        requested |= {ITEMSIZE: files} if files else {}
    called = _doubtful_calls(code, names)
    for method, file in (*_calls_with_lists(code, names), *_calls_of_removed(code, names)):
        called.setdefault(method, set()).add(file)
    operators = _operators_in(code, names, own)
    for file, name, call in _doubtful_operators(code, operators):
        (called if call else requested).setdefault(name, set()).add(file)
    return _unguarded_mentions(code, names, requested, called, operators, settled)


def _options_in(source: bytes, uses: Collection[str]) -> Iterator[str]:
    """Yield what may be options that calls in a source set by their names, going by its text."""
    owners = {use.removesuffix(".patch") for use in uses if use.endswith(".config.patch")}
    owners |= {INDUCTOR} if COMPILE in uses else set()
    words = list_words(source) if owners else ()
    yield from (f"{owner}.{word}" for owner in owners for word in words)


def _attributes_in(has: Has, uses: Collection[str], names: TorchNames) -> Iterator[str]:
    """Yield what objects of classes of torch may be asked for in a source and lack, by the texts that it has."""
    # Most sources mention tensors in annotations alone.
    classes = OF_OBJECTS.intersection(DEFINED_AS.get(use, use) for use in uses) - {TENSOR}
    for cls in classes if TENSORS.isdisjoint(uses) and not has(b"(torch.Tensor)") else classes | {TENSOR}:
        yield from (f"{cls}.{name}" for name in names.removed_from(cls) if has(f".{name}".encode()))


def _may_ask_dtypes(code: PythonCode, file: str) -> bool:
    """Whether a source may ask a dtype of torch how large an element is, and not one of numpy, going by its text."""
    has = code.searcher(file)
    return has(b".itemsize") and has(b"torch") and not has(b"numpy")


def _operators_in(
    code: PythonCode, names: TorchNames, own: Callable[[], Mapping[str, Sequence[Overload]]]
) -> KnownOperators:
    """Return the operators that are known, if any source mentions one."""
    if names.operators is None or not any(code.operator_uses(file) for file in code.sources):
        return KnownOperators()
    return KnownOperators(names.operators(), own())


def _doubtful_operators(code: PythonCode, operators: KnownOperators) -> Iterator[tuple[str, str, bool]]:
    """Yield the operators that are missing, or whose calls may be rejected: the source, and whether it is a call."""
    for file in filter(code.is_for_users, code.sources):
        for use, call in code.operator_uses(file):
            lacking = operators.lacking(use)
            if lacking is not None:
                yield file, lacking, False
            elif call is not None and operators.refusal(use, as_passed(call)):
                yield file, use, True


def _unguarded_mentions(
    code: PythonCode,
    names: TorchNames,
    requested: Mapping[str, Collection[str]],
    called: Mapping[str, Collection[str]],
    operators: KnownOperators,
    settled: SettledConditions,
) -> list[Mention]:
    """Return the mentions that nothing guards of what is missing, and of what is called.

    :param requested: the files that mention each missing name
    :param called: the files that may have each call
    """
    requested, called = _within_limit(code, requested), _within_limit(code, called)
    files = sorted({file for files in (*requested.values(), *called.values()) for file in files})
    mentions = [
        mention
        for file in files
        for mention in Mentions(code, file, names, requested, called, operators, settled).all()
    ]
    # One use that is guarded shows that the authors know that the name may be missing: then no use of it is certain.
    asked = {(mention.use.name, mention.use.error) for mention in mentions if mention.asked}
    open_uses = [mention for mention in mentions if not mention.guarded]
    distinct = {_asked_of(mention.use): mention.use for mention in open_uses}
    asking = functools.cache(lambda: _sources_asking_parameters(code))
    handled = {asked for asked, use in distinct.items() if _is_handled(code, use, asking)}
    return [
        replace(mention, doubtful=mention.doubtful or is_known)
        for mention in open_uses
        for is_handled in [_asked_of(mention.use) in handled]
        for is_known in [is_handled or (mention.use.name, mention.use.error) in asked]
        if not is_handled or _may_be_missed(code, mention.use)
    ]


def _may_be_missed(code: PythonCode, use: LaterUse) -> bool:
    """Whether what shows that a package knows a name says nothing of this use: it is a text, and sets nothing."""
    return use.how in {"attribute", "from", "import"} and not (
        code.may_set(use.name.rpartition(".")[2]) or operator_named(use.name)
    )


def _within_limit(code: PythonCode, wanted: Mapping[str, Collection[str]]) -> Mapping[str, Collection[str]]:
    """Leave out what too many sources mention to parse them all."""
    parsed, kept = set[str](), dict[str, Collection[str]]()
    for name, files in sorted(wanted.items(), key=lambda item: (size_of(code, item[1]), item[0])):
        if size_of(code, parsed.union(files)) <= MOST_PARSED:
            parsed.update(files)
            kept[name] = files
    return kept


def _open_mentions_of(code: PythonCode, versions: Sequence[TorchNames], settled: SettledConditions) -> list[Mention]:
    """Return the uses of names of another package that each of some versions lacks, and that nothing guards there."""
    missing: dict[str, list[str]] = {}
    for file in code.sources if versions else ():
        uses = code.companion_uses(file, versions[0].top) if code.is_for_users(file) else ()
        for use in uses:
            lacking = {lacking_part(names, use) for names in versions}
            name = next(iter(lacking)) if len(lacking) == 1 else None
            if name is not None and versions[0].was_there(name):
                missing.setdefault(name, []).append(file)
    operators = KnownOperators()
    return _unguarded_mentions(code, versions[0], missing, {}, operators, settled) if missing else []


def _doubtful_calls(code: PythonCode, names: TorchNames) -> dict[str, set[str]]:
    """Return what sources may call that takes less in this torch than in another, by its dotted name: the sources."""
    doubtful: dict[str, set[str]] = {}
    for use in sorted(code.all_torch_uses):
        changed, callee = BY_FUNCTION.get(use), names.callee(use)
        default = changed if changed is not None and names.has(*changed.sign) is True else None
        if callee is None:
            gone = gone_keywords(names, use) if _is_compiled(names, use) else frozenset[str]()
            for file in filter(code.is_for_users, code.files_using(use) if default or gone else ()):
                calls = list_calls(code.source(file), use.rpartition(".")[2].encode())
                if default or any(not gone.isdisjoint(call.keywords) for call in calls):
                    doubtful.setdefault(use, set()).add(file)
            continue
        own = callee.signature
        others = [parse_parameters(text) for text in names.signatures_of(callee.module, callee.name)]
        others = [other for other in others if not own.takes_all_of(other)]
        is_removed = says_it_is_gone(use, callee)
        looked_at = bool(others) or is_removed or default is not None
        files = [file for file in code.files_using(use) if code.is_for_users(file)] if looked_at else []
        for file in files:
            calls = list_calls(code.source(file), use.rpartition(".")[2].encode())
            if any(
                is_removed or _may_need(call, own, others) or (default and may_need_default(call, default))
                for call in calls
            ):
                doubtful.setdefault(use, set()).add(file)
    return doubtful


def _calls_with_lists(code: PythonCode, names: TorchNames) -> Iterator[tuple[str, str]]:
    """Yield the methods that sources give several dimensions, and that take one here, each with the source."""
    if names.operators is None:
        return
    operators, lost = names.operators(), dict[str, bool]()
    for file in filter(code.is_for_users, code.sources):
        for method in methods_with_lists(code.source(file)) if code.torch_uses(file) else ():
            if method not in lost:
                definition = f"def {method}(".encode()  # of a class that may be the one that is meant
                is_lost = operators.lost_list(f"{ATEN}{method}", LISTED)
                lost[method] = is_lost and not code.sources_with(definition)
            if lost[method]:
                yield f"{METHODS}{method}", file


def _calls_of_removed(code: PythonCode, names: TorchNames) -> Iterator[tuple[str, str]]:
    """Yield the method that only says that it is gone where sources call it, unless a class of theirs may have it."""
    function, method = f"torch.{REMOVED_METHOD}", REMOVED_METHOD.encode()
    callee = names.callee(function)
    if callee is not None and says_it_is_gone(function, callee):
        own = re.compile(rb"(?m)^[ \t]+def %b\(" % method)
        files = code.sources_with(b".%b(" % method)
        if files and not any(own.search(code.source(file)) for file in code.sources_with(method)):
            calling = (file for file in files if code.is_for_users(file) and code.torch_uses(file))
            yield from ((f"{METHODS}{REMOVED_METHOD}", file) for file in calling)


def _is_compiled(names: TorchNames, use: str) -> bool:
    """Whether a dotted name is certainly that of a function that is compiled, and its operators are known."""
    owner, _, name = use.rpartition(".")
    is_there = names.has(FUNCTIONS if owner == "torch" else owner, name) is True
    return names.operators is not None and compiled_function(use) is not None and is_there


def _may_need(call: CallText, own: ParameterList, others: Sequence[ParameterList]) -> bool:
    """Whether a call takes something that only other signatures have, going by its text."""
    gone = frozenset[str]().union(*(other.keywords for other in others)) - own.keywords
    takes_less = any(other.has_keywords or other.required < own.required for other in others)
    return (
        (call.by_position > len(own.positional) and not own.has_star)
        or (call.by_position + len(call.keywords) < len(own.required) and takes_less)
        or (any(other.has_keywords for other in others) and not call.keywords <= own.keywords)
        or not call.keywords.isdisjoint(gone)
    )


def _asked_of(use: LaterUse) -> tuple[str, str, PassedArguments]:
    """Return what decides whether a package handles a use."""
    return use.name, use.how, use.arguments


def _is_handled(code: PythonCode, use: LaterUse, asking: Callable[[], list[bytes]]) -> bool:
    """Whether a package shows that it knows what a torch lacks, or sets it.

    :param asking: returns the sources that ask functions for their parameters
    """
    name = use.name.rpartition(".")[2]
    if operator := operator_named(use.name):
        return _is_defined(code, operator) or (use.how != "call" and _is_known(code, operator.partition("::")[2]))
    if use.how == "object":  # it may be one of a class of the package
        bound = re.compile(rb"\bdef %b\b|\b%b\s*(?::[^=\n]+)?=[^=]" % (name.encode(), name.encode()))
        is_text = use.name == ITEMSIZE and bool(_sources_quoting(code, name))
        return (
            is_text
            or _is_known(code, name)
            or any(bound.search(code.source(file)) for file in code.sources_with(name.encode()))
        )
    if use.how in {"option", "compile"}:  # to set it does not add it
        texts = [f'"{name}"'.encode(), f"'{name}'".encode()]
        looking = map(code.source, code.sources_with(b"hasattr("))
        return any(text in source for source in looking for text in texts)
    if use.how == "package":
        needed = BY_FUNCTION[use.name].needs or ""
        if code.requires(needed) or code.surroundings.installed(needed) is True:
            return True
    if use.how not in {"call", "method", "default", "omission", "package", "removed"}:
        return _is_known(code, name)
    # What is compiled has no parameters that a function could be asked for: only a keyword may be left out.
    is_asked = use.how == "call" or (use.how == "method" and use.arguments.keywords)
    if not is_asked:
        words: Sequence[bytes] = BY_FUNCTION[use.name].handled if use.name in BY_FUNCTION else ()
        has_word = any(map(code.sources_with, words))
    else:
        quoted = (f"{quote}{word}{quote}".encode() for word in use.arguments.keywords for quote in "\"'")
        words = list(quoted)
        # Texts for readers have names in backticks.
        in_code = re.compile(rb"(?<![`\w])%b\b" % name.encode())
        sources = [source for source in asking() if _looks_at_parameters(source, name.encode())]
        if any(in_code.search(source) for source in sources):
            return True
        has_word = any(word in source for source in sources for word in words)
    is_set = code.may_set(name) and not (use.how == "removed" and _sets_what_lacks(code, name))
    return is_set or has_word


def _sets_what_lacks(code: PythonCode, name: str) -> bool:
    """Whether a package sets a name of torch only if torch has none: ``if not hasattr(torch, "solve"):``."""
    word = re.escape(name.encode())
    lacks = re.compile(rb"\bif not hasattr\(torch, ['\"]%b['\"]\):[^\n]*\n?[ \t]+torch\.%b[ \t]*=[^=]" % (word, word))
    sources = (code.source(file).replace(b"\r\n", b"\n") for file in code.sources)
    return not any(may_set_in(lacks.sub(b"", source), name) for source in sources)


def _sources_asking_parameters(code: PythonCode) -> list[bytes]:
    """Return the sources that may ask functions for their parameters."""
    files = {file for sign in _ASKS_PARAMETERS for file in code.sources_with(sign)}
    return [source for source in map(code.source, files) if _LOOKS_AT_PARAMETERS.search(source)]


def _looks_at_parameters(source: bytes, name: bytes) -> bool:
    """Whether a source asks a function of a name for its parameters, or one that may be it."""
    asked = {match[1] or b"" for match in _LOOKS_AT_PARAMETERS.finditer(source)}
    # What a decorator returns as it was is a function of the package.
    own = {function for function in asked if re.search(rb"(?m)^ +return %b\r?$" % re.escape(function), source)}
    return any(b"." not in function or name in function.split(b".") for function in asked - own)


def _is_known(code: PythonCode, name: str) -> bool:
    """Whether a package sets a name on something, or has it as a text, which ``hasattr`` takes."""
    sources = map(code.source, _sources_quoting(code, name))
    # A plain word may be a text for any reason: it counts where something of torch is looked up by a text.
    return code.may_set(name) or any(not _is_plain(name) or _LOOKS_UP.search(source) for source in sources)


def _sources_quoting(code: PythonCode, name: str) -> list[str]:
    return [*code.sources_with(f'"{name}"'.encode()), *code.sources_with(f"'{name}'".encode())]


def _is_defined(code: PythonCode, operator: str) -> bool:
    """Whether a package may define an operator in Python, by its schema."""
    name = operator.removesuffix(DEFAULT_OVERLOAD).partition("::")[2]
    texts = [f"{before}{name}(".encode() for before in ('"', "'", "::")]
    return any(map(code.sources_with, texts))


def _is_plain(name: str) -> bool:
    return name.isalpha() and name.islower()
