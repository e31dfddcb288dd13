"""What fails in a load, and what fails first: the second half of ``dlopen(RTLD_NOW)``.

Thousands of recorded failures confirm the order: the first library that cannot be found ends the search; then symbol
versions are checked, object by object in search order; then objects are relocated, dependencies before dependents, and
in one object the first unresolved relocation is the one named.
"""

from __future__ import annotations

import functools
import itertools
import logging
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from abiscan.binary.elf import Reference, SharedObject, SymbolVersion
from abiscan.binary.loadable import CRASH, NOT_OPENABLE, LoaderRefusal, failed_assertion
from abiscan.binary.ownership import (
    is_cxx_library,
    is_cxx_symbol,
    is_like_torch_symbol,
    is_python_symbol,
    is_system_library,
    is_torch_symbol,
)
from abiscan.binary.symbols import Definition
from abiscan.cpu.processors import isa_levels
from abiscan.linkage.model import (
    Absence,
    Closure,
    LoadError,
    MissingLibrary,
    MissingVersion,
    Module,
    Process,
    ResizedCopy,
    Resolution,
    UndefinedSymbol,
)
from abiscan.torches import embedded
from abiscan.torches.names import ColumnSymbols, NameTable

if TYPE_CHECKING:
    from abiscan.inputs.target_system import LinuxSystem

PACKED: Final = "DT_RELR without GLIBC_ABI_DT_RELR dependency"
_PACKING: Final = "GLIBC_ABI_DT_RELR"
_log = logging.getLogger("abiscan.linkage")

_UNDEFINED: Final = "undefined symbol: "
_LIBPYTHON: Final = "libpython"
_WITH_ISA_LEVELS: Final = "GLIBC_2.33"  # from which on glibc compares the levels of x86-64
_WITHOUT_EXECUTABLE_STACKS: Final = "GLIBC_2.41"  # from which on ``dlopen`` makes no stack executable
_WITHOUT_LOST_ASSERTION: Final = "GLIBC_2.41"  # in which a replaced library may have no versions: tried, as 2.36 was
_BASELINE: Final = 1
_ISA_LEVELS: Final = 0xF  # all that exist: baseline, v2, v3, v4
ISA_LEVEL: Final = "CPU ISA level is lower than required"
STATIC_TLS: Final = "cannot allocate memory in static TLS block"
EXECUTABLE_STACK: Final = "cannot enable executable stack as shared object requires: Invalid argument"


def resolve_load(process: Process, closure: Closure, resolver: Resolver | None = None) -> Resolution:
    """Check one load to the end: versions, symbols, copies of data, and the error that comes first.

    :param process: the process before the load
    :param closure: what ``Loader.open`` mapped in addition
    :param resolver: remembers earlier loads
    """
    resolver = resolver or Resolver()
    # The scope of a lookup (glibc, _dl_lookup_symbol_x): the global one first, then that of the load itself,
    # breadth-first. Who defines a symbol twice does not matter here, only whether somebody does.
    scope = tuple(dict.fromkeys((*process.global_scope, *closure.modules)))
    version_errors = list(_check_versions(process, closure))
    versions = tuple(missing for _, missing in version_errors if missing is not None)
    undefined: list[UndefinedSymbol] = []
    unchecked: list[Reference] = []
    # The symbols of a refused file do not matter, and the file that will replace it is not known.
    refused = {module for module in closure.new if _refuse_mapping(process, closure, module)}
    absent = frozenset(module.name for module in scope if module.facts is None or module in refused)
    has_python = process.has_python
    if process.for_program:  # it has the Python that it is linked with, and no other
        has_python = not any(name.startswith(_LIBPYTHON) for name in absent)
    for module in relocation_order(closure):
        if module in refused:
            continue
        nowhere, elsewhere = resolver.split_unresolved(module, scope, absent, has_python=has_python)
        # A program binds calls lazily (RTLD_LAZY), so a function that is missing shows when it is called.
        lazy = _bound_lazily(module) if process.for_program else frozenset()
        undefined += (
            UndefinedSymbol(module=module, reference=reference, lazy=reference in lazy) for reference in nowhere
        )
        unchecked += elsewhere
    ends = tuple(_relocation_errors(process, closure, scope, [symbol for symbol in undefined if not symbol.lazy]))
    error = _first_error(process, closure, [error for error, _ in version_errors], ends)
    first_call = next((symbol for symbol in undefined if symbol.lazy), None) if error is None else None
    call_error = _symbol_error(first_call) if first_call else None
    if process.for_program:
        program = closure.modules[0]
        error, call_error = (_error_of_program(program, own) if own else None for own in (error, call_error))
    resolution = Resolution(
        closure=closure,
        missing_versions=versions,
        undefined=tuple(undefined),
        unchecked=tuple(unchecked),
        error=error,
        call_error=call_error,
        resized=tuple(_find_resized(closure)) if process.for_program else (),
        refused=tuple(_refusals(process, closure, version_errors, ends)),
    )
    if _log.isEnabledFor(logging.DEBUG):
        for decision in _describe_decisions(process, scope, resolution):
            _log.debug(decision)
    return resolution


def with_startup_failure(resolution: Resolution, called: Iterable[str]) -> Resolution:
    """Return the resolution of a program whose initialisers call functions: the first that is undefined ends it.

    :param called: the functions, in order
    """
    program = resolution.closure.modules[0]
    lazy = {
        symbol.reference.name: symbol for symbol in resolution.undefined if symbol.lazy and symbol.module is program
    }
    first = next((lazy[name] for name in called if name in lazy), None)
    if first is None:
        return resolution
    bound = (replace(symbol, lazy=False) if symbol is first else symbol for symbol in resolution.undefined)
    error = _error_of_program(program, _symbol_error(first))
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s: an initialiser calls %s, which is undefined", program.name, first.reference.name)
    return replace(resolution, undefined=tuple(bound), error=error, call_error=None)


def _describe_decisions(process: Process, scope: Sequence[Module], resolution: Resolution) -> Iterator[str]:
    """Describe what the loader does in a load, step by step, for a trace."""
    closure = resolution.closure
    for module in process.modules:
        yield f"already loaded: {module.path}{'' if module.facts else ', which is assumed to exist'}"
    for module in closure.new:
        by = f", needed by {module.loader.name}" if module.loader else ""
        yield f"maps {module.path}{by}{'' if module.facts else ', which is assumed to exist'}"
    for library in closure.missing:
        meaning = "the load stops here" if library.stops else f"assumed to exist ({library.absence.value})"
        yield f"does not find {library.name}, needed by {library.needed_by.name}: {meaning}"
    for version in resolution.missing_versions:
        yield f"{version.module.name}: {version_message(version)}"
    nowhere = {(symbol.module, symbol.reference) for symbol in resolution.undefined}
    for module in relocation_order(closure):
        for reference in module.facts.references if module.facts else ():
            providers = (
                candidate
                for candidate in scope
                if candidate.facts and _binds(reference, candidate.facts.symbols.find(reference.name))
            )
            if provider := next(providers, None):
                place = provider.name
            elif (module, reference) in nowhere:
                place = "nothing: undefined"
            else:
                place = "nothing that is known: weak" if reference.weak else "a library that is assumed to exist"
            yield f"{module.name}: {reference.name} resolves to {place}"
    yield f"the load fails: {resolution.error.message}" if resolution.error else "the load succeeds"
    if resolution.call_error:
        yield f"a call fails: {resolution.call_error.message}"


def _bound_lazily(module: Module) -> frozenset[Reference]:
    """Return the references of a module that are looked up when they are first called."""
    if module.facts is None or module.facts.eager is None:
        return frozenset()
    return frozenset(module.facts.references[module.facts.eager :])


def _find_resized(closure: Closure) -> Iterator[ResizedCopy]:
    """Yield the copies of data that are too small (glibc, R_X86_64_COPY in ``elf_machine_rela``)."""
    program, *libraries = closure.modules
    copies = program.facts.copies if program.facts else {}
    for name, size in copies.items():
        for library in libraries:
            definitions = library.facts.symbols.find(name) if library.facts else ()
            if definitions:
                provided = max(definition.size for definition in definitions)
                if provided > size:
                    yield ResizedCopy(module=program, provider=library, name=name, size=size, provided=provided)
                # The first definition in search order is the one that is copied; later ones are never looked at.
                break


def _error_of_program(program: Module, error: LoadError) -> LoadError:
    """Format an error of ``ld.so`` as a program prints it that ends with it.

    The source is ``fatal_error`` in glibc's ``dl-catch.c``.
    """
    name = f"./{program.name}"
    if error.object is None:
        message = f"{name}: error while loading shared libraries: {error.message}"
    else:
        place = name if error.object == program.name else error.object
        occasion = "symbol lookup error: " if error.message.startswith(_UNDEFINED) else ""
        message = f"{name}: {occasion}{place}: {error.message.replace(program.path, name)}"
    return LoadError(object=None, message=message, aborts=True)


@functools.lru_cache(8)  # each check of a load asks for it several times
def relocation_order(closure: Closure) -> tuple[Module, ...]:
    """Return the new modules as ``ld.so`` relocates them: dependencies first.

    glibc 2.35 and later: depth-first from the last module of the breadth-first list, reverse postorder, with the root
    moved to the front; then relocated from the back (``dl-sort-maps.c``, ``_dl_sort_maps_dfs``).
    """
    # Invariant: a module is in ``finished`` once all that it needs and that was not visited before is there.
    finished: dict[Module, None] = {}
    visited: set[Module] = set()
    needed = {**closure.needed, closure.modules[0]: ()}  # unknown to ld.so until the order is determined (dl-deps.c)
    for start in reversed(closure.modules):
        # Iterative, since a hostile file can make a closure arbitrarily deep.
        stack = [(start, iter(needed.get(start, ())))] if start not in visited else []
        visited.add(start)
        while stack:
            module, dependencies = stack[-1]
            for dependency in dependencies:
                if dependency not in visited:
                    visited.add(dependency)
                    stack.append((dependency, iter(needed.get(dependency, ()))))
                    break
            else:
                finished[module] = None
                stack.pop()
    # glibc relocates the list from the back, so the root, which _dl_map_object_deps keeps at the front, comes last.
    root = closure.modules[0]
    new = set(closure.new)
    order = [module for module in finished if module in new and module is not root]
    return (*order, root) if root in new else tuple(order)


def binds_to(reference: Reference, definition: Definition, rivals: Iterable[Definition]) -> bool:
    """Whether ``definition`` satisfies ``reference`` (glibc, ``check_match`` in ``dl-lookup.c``).

    :param rivals: all definitions of that name in the same object
    """
    if reference.version is not None:
        # A reference with a version takes a definition without one, unless it is hidden (VERSYM_HIDDEN).
        if definition.version is None:
            return not definition.hidden and not reference.version.hidden
        return definition.version == reference.version.key
    # A reference without a version takes the base version: 0 is local, 1 global, 2 the first that the library defines.
    # Of later ones, it takes the default, if that is the only candidate.
    if definition.version_index < 3:
        return True
    return not definition.hidden and sum(not rival.hidden for rival in rivals) == 1


_Groups = dict[tuple[int, ...], list[tuple[int, Reference]]]
"""References with their positions, by the columns of each table of names that define them."""


class _Elsewhere(Struct, frozen=True, kw_only=True):
    """What libraries that were not found, and are assumed to exist, may define for an object.

    :ivar files: those of them that the object needs versions of symbols from
    :ivar has_any: whether there are any
    :ivar has_cxx: whether one may be, or contain, the C++ runtime
    :ivar has_python: whether the interpreter is in the scope
    """

    files: frozenset[str]
    has_any: bool
    has_cxx: bool
    has_python: bool

    @classmethod
    def of(cls, facts: SharedObject, absent: frozenset[str], *, has_python: bool) -> _Elsewhere:
        """Return what a set of absent libraries may define for an object."""
        return cls(
            files=absent.intersection(version.file for version in facts.version_needs),
            has_any=bool(absent),
            # The runtime itself, a library with a copy of it, or linked-in instances of its templates.
            has_cxx=any(is_cxx_library(name) or not is_system_library(name) for name in absent),
            has_python=has_python,
        )

    def may_have(self, reference: Reference) -> bool:
        """Whether one of the absent libraries may define a symbol."""
        if reference.version is not None:
            return reference.version.file in self.files
        if is_python_symbol(reference.name):
            return not self.has_python
        if is_cxx_symbol(reference.name):
            return self.has_cxx
        if not self.has_any or is_torch_symbol(reference.name):
            return False
        return not (is_like_torch_symbol(reference.name) and embedded.any_exports(reference.name))


class Resolver:
    """Resolves loads, and remembers which references objects cannot resolve among the other objects of a load.

    In checks on many torches, only the torch changes. Resolving asks only whether any object in the scope defines a
    name, so their order does not matter: the objects that do not change come first.
    """

    def __init__(self) -> None:
        self._left: dict[tuple[int, ...], tuple[list[SharedObject], list[Reference]]] = {}
        self._references: dict[int, tuple[SharedObject, Sequence[Reference]]] = {}
        self._split: dict[tuple[int, _Elsewhere, tuple[NameTable, ...]], tuple[_Groups, _Groups]] = {}

    def split_unresolved(
        self, module: Module, scope: Iterable[Module], absent: frozenset[str], *, has_python: bool
    ) -> tuple[list[Reference], list[Reference]]:
        """Split the strong references of a module that nothing in the scope satisfies into undefined and possible ones.

        :param absent: the libraries that were not found, and are assumed to exist
        :param has_python: whether the interpreter is in the scope
        :returns: the undefined references, and those that one of the absent libraries may define
        """
        if module.facts is None:
            return [], []
        # Libraries of embedded releases share one table of names with a column of bits for each build: one lookup
        # answers for all libraries of a torch. The others are asked one by one.
        columns: dict[NameTable, int] = {}
        single: list[SharedObject] = []
        for facts in (provider.facts for provider in scope):
            if facts and isinstance(facts.symbols, ColumnSymbols):
                columns[facts.symbols.table] = columns.get(facts.symbols.table, 0) | 1 << facts.symbols.column
            elif facts:
                single.append(facts)
        candidates = self._unsatisfied_references(module.facts, single)
        # The list is kept in ``_left`` as long as this object lives, so that its id stays its own.
        possible = _Elsewhere.of(module.facts, absent, has_python=has_python)
        key = id(candidates), possible, tuple(columns)
        if key not in self._split:
            # References that the same builds satisfy are in one group: each further build asks for groups.
            parts: tuple[_Groups, _Groups] = ({}, {})
            for number, reference in enumerate(candidates):
                part = parts[possible.may_have(reference)]
                part.setdefault(tuple(table.columns_with(reference.name) for table in columns), []).append(
                    (number, reference)
                )
            self._split[key] = parts
        nowhere, elsewhere = self._split[key]
        masks = tuple(columns.values())
        return _outside(nowhere, masks), _outside(elsewhere, masks)

    def _unsatisfied_references(self, facts: SharedObject, providers: list[SharedObject]) -> list[Reference]:
        """Return the strong references of an object that it does not satisfy itself, and none of the providers does."""
        objects = [facts, *providers]
        key = tuple(map(id, objects))
        if key not in self._left:
            if id(facts) not in self._references:
                self._references[id(facts)] = facts, _references_of(facts)
            unsatisfied = [reference for reference in self._references[id(facts)][1] if not reference.weak]
            for provider in providers:
                own = facts.copies if provider is facts else ()  # the original is in a library
                find = provider.symbols.find
                unsatisfied = [
                    reference
                    for reference in unsatisfied
                    if reference.name in own
                    or not ((definitions := find(reference.name)) and _binds(reference, definitions))
                ]
            self._left[key] = objects, unsatisfied  # keeping the objects keeps their ids unique
        return self._left[key][1]


def _outside(groups: _Groups, masks: tuple[int, ...]) -> list[Reference]:
    """Return the references, in order, that none of some columns defines.

    Such tables have no versions: their definitions satisfy a reference to any version (see ``binds_to``).
    """
    left = (
        numbered
        for columns, numbered in groups.items()
        if not any(column & mask for column, mask in zip(columns, masks, strict=True))
    )
    return [reference for _, reference in sorted(itertools.chain.from_iterable(left))]


def _references_of(facts: SharedObject) -> Sequence[Reference]:
    """Return what relocating an object looks up in others: also what it defines, and does not find in itself."""
    lost = list(facts.symbols.find_lost())
    references = list(facts.references)
    for symbol in reversed(lost):
        version = SymbolVersion("", symbol.version) if symbol.version else None
        references.insert(symbol.place, Reference(symbol.name, version, symbol.weak))
    return references if lost else facts.references


def _binds(reference: Reference, definitions: Sequence[Definition]) -> bool:
    """Tell whether a reference binds to one of the definitions of its name in an object."""
    return any(binds_to(reference, definition, definitions) for definition in definitions)


def _check_versions(process: Process, closure: Closure) -> Iterator[tuple[LoadError, MissingVersion | None]]:
    """Yield the errors about symbol versions that the new modules need, in the order of ``ld.so``.

    The source is glibc's elf/dl-version.c, ``_dl_check_map_versions``. A version that a library lacks comes with its
    error.
    """
    # A need names its library by SONAME (vn_file of Elf64_Verneed, LSB Core, "Symbol Versioning"), which need not be
    # the name of a file.
    by_name = {**process.names}
    for module in closure.modules:
        by_name[module.name] = module
        if module.facts and module.facts.soname:
            by_name[module.facts.soname] = module
    requested = {name for module in closure.modules if module.facts for name in module.facts.needed}
    old = frozenset(process.modules)
    # What a library that was not found would load is not known, nor what an unknown interpreter has loaded.
    has_all = not any(module.facts is None for module in closure.modules)
    for module in closure.new:
        facts = module.facts
        if facts is None:
            continue
        if facts.needs_record is not None:
            message = f"unsupported version {facts.needs_record} of Verneed record"
            yield LoadError(object=module.name, message=message), None
        for version in facts.version_needs:
            provider = by_name.get(version.file)
            if process.system and (provider is None or provider.facts is None):
                yield from _check_system(process.system, module, version)
            # glibc knows a library by the names that it was asked for, not by all that it has.
            if provider is not None and (provider in old or version.file in requested):
                yield from _check_version(module, provider, version)
            elif has_all and (process.has_python or process.for_program or not is_system_library(version.file)):
                yield _NOT_LOADED, None
        if not facts.is_versioned and (facts.version_needs or facts.version_definitions is not None):
            yield _as_error(module, CRASH), None
        if is_packing_refused(facts):
            yield LoadError(object=module.name, message=PACKED), None


def _check_system(
    system: LinuxSystem, module: Module, version: SymbolVersion
) -> Iterator[tuple[LoadError, MissingVersion | None]]:
    """Yield the error about one version that a library of a system lacks."""
    if not version.weak and system.lacks(version.file, version.name):
        provider = Module(path=system.path_of(version.file), facts=None)
        missing = MissingVersion(module=module, provider=provider, version=version)
        yield LoadError(object=provider.name, message=version_message(missing)), missing


def _check_version(
    module: Module, provider: Module, version: SymbolVersion
) -> Iterator[tuple[LoadError, MissingVersion | None]]:
    """Yield the error about one version that a module needs of a library, if there is one."""
    definitions = provider.facts.version_definitions if provider.facts else None
    # A library that defines no versions at all satisfies every reference (ld.so only warns).
    if provider.facts is None or definitions is None or version.key in definitions:
        return
    if provider.facts.definitions_record is not None:
        message = f"unsupported version {provider.facts.definitions_record} of Verdef record"
        yield LoadError(object=provider.name, message=message), None
    elif not version.weak:
        missing = MissingVersion(module=module, provider=provider, version=version)
        yield LoadError(object=provider.name, message=version_message(missing)), missing


def _as_error(module: Module, refusal: LoaderRefusal) -> LoadError:
    """Return the error of a load that ends at a module."""
    return LoadError(
        object=None if refusal.aborts else module.name,
        message=refusal.message,
        aborts=refusal.aborts,
        exact=refusal.exact,
        signal=refusal.signal,
    )


_NOT_LOADED: Final = LoadError(
    object=None,
    message=failed_assertion("dl-version.c", "_dl_check_map_versions", "needed != NULL").message,
    aborts=True,
    exact=False,
)


def _first_error(
    process: Process, closure: Closure, versions: Sequence[LoadError], ends: Sequence[LoadError]
) -> LoadError | None:
    """Choose the error at which ``ld.so`` stops, in the order of its work: libraries, versions, relocations.

    :param versions: the errors about versions
    :param ends: those at which relocating ends
    """
    errors = itertools.chain(_mapping_errors(process, closure), versions, _lacking_isa(process, closure), ends)
    if error := next(errors, None):
        return error
    for missing in closure.missing:
        # Last, since the others come in any case, and this one only if the system has no further CUDA.
        if missing.absence is Absence.OTHER_VERSION:
            return library_error(missing)
    return None


def library_error(missing: MissingLibrary) -> LoadError:
    """Word the error for a library that cannot be loaded: named after the file at which the search ends, if any."""
    if missing.path is None or not missing.path.startswith("/"):
        return LoadError(object=None, message=missing.message)
    return LoadError(object=missing.path.rpartition("/")[2], message=missing.words)


def _mapping_errors(process: Process, closure: Closure) -> Iterator[LoadError]:
    """Yield the errors of libraries that are missing or refused, in the order of the search for them."""
    stopping = {(library.needed_by.path, library.name): library for library in closure.missing if library.stops}
    refused = {module: refusal for module in closure.new if (refusal := _refuse_mapping(process, closure, module))}
    if root := refused.get(closure.modules[0]):
        yield _as_error(closure.modules[0], root)
    # The search goes breadth-first, and what it finds is mapped at once.
    for module in closure.modules if refused else ():
        for name in module.facts.needed if module.facts else ():
            if missing := stopping.pop((module.path, name), None):
                yield library_error(missing)
            for library in closure.needed.get(module, ()):
                if library in refused and name in _names_of(library):
                    yield _as_error(library, refused[library])
    yield from map(library_error, stopping.values())


def _names_of(module: Module) -> tuple[str | None, ...]:
    return module.path, module.name, module.facts.soname if module.facts else None


def _refuse_mapping(process: Process, closure: Closure, module: Module) -> LoaderRefusal | None:
    """Return how ``ld.so`` gives up when it maps a module; None if it maps it."""
    facts = module.facts
    if facts is None or (process.for_program and module is closure.modules[0]):
        return None
    # What a program starts with is not opened, and its stack is made as its libraries need it.
    if process.for_program:
        return None if facts.refusal and facts.refusal.message == NOT_OPENABLE else facts.refusal
    if facts.refusal is None and facts.executable_stack and _has_glibc(process, _WITHOUT_EXECUTABLE_STACKS):
        return LoaderRefusal(message=EXECUTABLE_STACK)
    return facts.refusal


def _has_glibc(process: Process, version: str) -> bool:
    """Whether the C library of a process is known, and has a version."""
    if process.system:
        return not process.system.lacks("libc.so.6", version)
    libc = process.names.get("libc.so.6")
    return bool(libc and libc.facts and version in (libc.facts.version_definitions or ()))


def _lacking_isa(process: Process, closure: Closure) -> Iterator[LoadError]:
    """Yield the errors of modules that require levels of x86-64 which the processor lacks.

    glibc checks them from 2.33 on, dependencies first (sysdeps/x86/dl-prop.h, ``dl_isa_level_check``).
    """
    libc = process.names.get("libc.so.6")
    is_known = process.system or (libc and libc.facts and libc.facts.version_definitions)
    if is_known and not _has_glibc(process, _WITH_ISA_LEVELS):
        return
    if not any(module.facts and module.facts.isa_needed & ~_BASELINE for module in closure.new):
        return
    levels = functools.reduce(operator.and_, map(isa_levels, process.cpus), _ISA_LEVELS)
    for module in relocation_order(closure):
        if module.facts and module.facts.isa_needed & ~levels:
            yield LoadError(object=module.name, message=ISA_LEVEL)


def _relocation_errors(
    process: Process, closure: Closure, scope: Sequence[Module], undefined: Sequence[UndefinedSymbol]
) -> Iterator[LoadError]:
    """Yield the errors at which relocating the modules ends, in the order of ``ld.so``."""
    static_block = None
    for module in relocation_order(closure):
        facts = module.facts
        if facts is None:
            continue
        own = [symbol for symbol in undefined if symbol.module is module]
        # After a place of the same number comes a reference; everything else is before it.
        ends = [(_place_of(own[0].reference, facts) + 0.5, _symbol_error(own[0]))] if own else []
        if facts.static_tls and not process.for_program:  # for what it starts with, a program has as much as it needs
            from abiscan.linkage.static_tls import StaticBlock  # few libraries need it

            static_block = static_block or StaticBlock.of_process(process)
            for place, reference in facts.static_tls:
                if own and reference and reference.name == own[0].reference.name:
                    continue
                owner = _defines(reference, module, scope)
                if not static_block.make_room(owner):
                    error = LoadError(object=owner.name, message=STATIC_TLS)
                    ends.append((place, error))
        if facts.stop is not None:
            ends.append((facts.stop[0], _as_error(module, facts.stop[1])))
        if not _has_glibc(process, _WITHOUT_LOST_ASSERTION):
            ends += ((place + 0.5, error) for place, error in _lost_assertions(module, scope))
        yield from (error for _, error in sorted(ends, key=operator.itemgetter(0)))


def _defines(reference: Reference | None, module: Module, scope: Sequence[Module]) -> Module:
    """Return the module whose definition a reference of a module binds to; the module itself for none."""
    if reference is None:
        return module
    providers = (m for m in scope if m.facts and _binds(reference, m.facts.symbols.find(reference.name)))
    return next(providers, module)


def _lost_assertions(module: Module, scope: Sequence[Module]) -> Iterator[tuple[int, LoadError]]:
    """Yield the first reference whose version a library is to have, that has the symbol and no versions at all.

    glibc, ``check_match`` in elf/dl-lookup.c, takes that for a library which was replaced by another one, and ends.
    """
    facts = module.facts
    files = {need.file for need in facts.version_needs} if facts else set()
    bare = [m for m in scope if m.facts and not m.facts.is_versioned and files.intersection(_names_of(m))]
    for place, reference in enumerate(facts.references if facts and bare else ()):
        for provider in scope:
            definitions = provider.facts.symbols.find(reference.name) if provider.facts else ()
            if definitions and provider in bare and reference.version and reference.version.file in _names_of(provider):
                yield place, _REPLACED
                return
            if _binds(reference, definitions):
                break


_REPLACED: Final = LoadError(
    object=None,
    message=failed_assertion(
        "dl-lookup.c",
        "check_match",
        "version->filename == NULL || ! _dl_name_match_p (version->filename, map)",
    ).message,
    aborts=True,
    exact=False,
)


def _place_of(reference: Reference, facts: SharedObject) -> int:
    """Return how many references of an object are looked up before one."""
    if reference in facts.references:
        return facts.references.index(reference)
    return next(symbol.place for symbol in facts.symbols.find_lost() if symbol.name == reference.name)


def _refusals(
    process: Process,
    closure: Closure,
    versions: Sequence[tuple[LoadError, MissingVersion | None]],
    ends: Sequence[LoadError],
) -> Iterator[LoadError]:
    """Yield the errors that no missing library, version or symbol is to blame for."""
    for module in closure.new:
        if refusal := _refuse_mapping(process, closure, module):
            yield _as_error(module, refusal)
    yield from (error for error, missing in versions if missing is None and error.message != PACKED)
    yield from _lacking_isa(process, closure)
    yield from (error for error in ends if not error.message.startswith(_UNDEFINED))


def _symbol_error(symbol: UndefinedSymbol) -> LoadError:
    """Word the error for an undefined symbol, named after the object that needs it."""
    return LoadError(object=symbol.module.name, message=symbol_message(symbol.reference))


def refused_packing(closure: Closure) -> Iterator[Module]:
    """Yield the objects with packed relocations that do not require the version of a glibc that reads them."""
    return (module for module in closure.new if module.facts and is_packing_refused(module.facts))


def is_packing_refused(facts: SharedObject) -> bool:
    """Whether an object has packed relocations, and does not require the version of a glibc that reads them.

    glibc from 2.36 on rejects those that need libc and have version needs (``elf/dl-version.c``,
    ``_dl_check_map_versions``); older ones do not read the relocations at all.
    """
    needs_libc = facts.has_relr and facts.version_needs and any(name.startswith("libc.so.") for name in facts.needed)
    return bool(needs_libc) and all(need.key != _PACKING for need in facts.version_needs)


def version_message(missing: MissingVersion) -> str:
    """Word the message of ``ld.so`` for a missing version, after the path of the library that lacks it."""
    return f"version `{missing.version.name}' not found (required by {missing.module.called})"


def symbol_message(reference: Reference) -> str:
    """Word the message of ``ld.so`` for an undefined symbol, after the path of the object that needs it."""
    version = f", version {reference.version.name}" if reference.version else ""
    return f"{_UNDEFINED}{reference.name}{version}"
