"""What the rules on registrations share: which reactions of torch are theirs, what follows, and how to word it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from abiscan.binary.mangling import Signature
from abiscan.dispatch.registries import entry_key
from abiscan.dispatch.schema import Argument, Difference, FunctionSchema, SchemaError
from abiscan.findings import Effect, Evidence, Finding
from abiscan.inputs.version import MinorVersion
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.registering import Reaction
from abiscan.registrations import (
    Library,
    RegisteredKernel,
    RegisteredOperator,
    Registration,
    Registry,
)
from abiscan.rules.advice import other_build
from abiscan.rules.symptom import describe_symptom
from abiscan.words import listed

# The messages that compare two schemas.
_SCHEMA_CHECKS = ("D1", "D2", "D3", "D4", "D5", "K2", "R7", "R8")


def list_refusals(load: ExtensionLoad, checks: Collection[str]) -> Iterator[Reaction]:
    """Yield the registrations that torch rejects with one of these messages.

    :param checks: the ids of the messages
    """
    for reaction in load.registering.reactions if load.registering else ():
        message = reaction.outcome.message
        # Later refusals are reported with the first one, and not as findings of their own: they may go away with it.
        if reaction.fails and not reaction.after_failure and message is not None and message.id in checks:
            yield reaction


def refusal_finding(
    rule: str, linkage: Linkage, reaction: Reaction, cause: str, evidence: Collection[Evidence], fix: str | None = None
) -> Finding:
    """Return the finding for a registration that torch rejects with an exception.

    :param cause: what is wrong, in one clause
    """
    load = linkage.load
    message, behind = reaction.outcome.message, _later_rejections(load, reaction)
    subjects = listed(later.outcome.subject for later in behind)
    later_conflicts = f"{subjects} too" if len(behind) == 1 else f"{len(behind)} more: {subjects}"
    and_then = f"; once that is fixed, torch rejects {later_conflicts}" if behind else ""
    return Finding(
        rule=rule,
        effect=effect_of(reaction),
        message=f"{cause}; {describe_consequence(reaction)}{and_then}",
        evidence=(*evidence, *(_evidence_behind(load, later) for later in behind)),
        # Most refusals are between an extension and a torch that it was not built for.
        fix=fix or other_build(linkage),
        says=message.text.strip("\n") or None if message else None,
        symptom=describe_symptom(load) if effect_of(reaction) is Effect.LOAD_FAILS else None,
    )


def _later_rejections(load: ExtensionLoad, reaction: Reaction) -> list[Reaction]:
    """Return what torch would reject once ``reaction``, the first thing that it rejects, is fixed."""
    registering = load.registering
    # Only the failure that ends the load hides others; one in a call ends that call.
    if registering is None or reaction is not registering.failure:
        return []
    return [later for later in registering.reactions if later.after_failure]


def _evidence_behind(load: ExtensionLoad, reaction: Reaction) -> Evidence:
    message = reaction.outcome.message
    assert message is not None
    if message.id in _SCHEMA_CHECKS:
        return compare_schemas(load, reaction)[1]
    if message.id == "K1":
        return compare_types(reaction)
    return Evidence(subject=reaction.outcome.subject, readable=message.text.strip("\n"), object=reaction.object)


def effect_of(reaction: Reaction) -> Effect:
    """Return the effect of torch's exception, which depends on when it is thrown."""
    # An exception in a static initialiser passes through ``dlopen``, which cannot unwind: std::terminate. While the
    # module is imported, pybind11 catches it, and raises ImportError.
    if not reaction.in_load:
        return Effect.CALL_FAILS
    return Effect.ABORTS if reaction.aborts else Effect.LOAD_FAILS


def describe_consequence(reaction: Reaction) -> str:
    """Return the effect of torch's exception in words."""
    doing = "loading it" if reaction.is_static else "importing it"
    if reaction.exits:
        return f"{doing if reaction.in_load else 'the call that registers it'} ends the process (exit code 1)"
    if reaction.crashes:
        return f"{doing if reaction.in_load else 'the call that registers it'} crashes the process (SIGSEGV, exit 139)"
    if not reaction.in_load:
        return "the call that registers it raises RuntimeError"
    return f"{doing} " + ("aborts the process (SIGABRT, exit 134)" if reaction.aborts else "raises ImportError")


def other_side(load: ExtensionLoad, reaction: Reaction) -> str:
    """Return what has already registered the subject of the reaction."""
    if reaction.conflicts_with:
        return reaction.conflicts_with
    operators = load.registering.operators if load.registering else None
    subject, event = reaction.outcome.subject, reaction.outcome.event
    # Other registries are not part of the dispatcher, so their entries are looked up by registry and key.
    if isinstance(event, Registry) and not event.names_backend:
        torch_entries = ((entry.registry, entry.key) for entry in (operators and operators.entries) or ())
        is_of_torch = (event.what, entry_key(event.what, event.key)) in torch_entries
        return str(load.release) if is_of_torch else f"{reaction.object} itself"
    if operators and (
        subject in operators.operators
        or subject in operators.namespaces
        or subject in operators.classes
        or any(subject == fallback.key for fallback in operators.fallbacks)
        or any(subject == kernel.operator for kernel in operators.kernels)
    ):
        return str(load.release)
    return f"{reaction.object} itself"


def list_places(reaction: Reaction) -> tuple[Evidence, ...]:
    """Return the source line of the registration in the extension, if it is known."""
    place = place_of(reaction.outcome.event)
    return (Evidence(subject=place, readable=f"registered at {place}", object=reaction.object),) if place else ()


def place_of(event: Registration) -> str | None:
    """Return the source line of a registration in the extension: ``ops.cpp:12``."""
    library = event if isinstance(event, Library) else getattr(event, "library", None)
    return library.place if library else None


def name_both(first: str, second: str) -> str:
    """Return the names of two libraries in a sentence: two packages may each have one of the same name."""
    return f"the two {second}" if first == second else f"{first} and {second}"


def key_of(load: ExtensionLoad, event: Registration) -> str | None:
    """Return the dispatch key for which a kernel is registered, as the target names it."""
    kernel = event.kernels[0] if isinstance(event, RegisteredOperator) and event.kernels else event
    if load.registering is None or not isinstance(kernel, RegisteredKernel) or kernel.library is None:
        return None
    name_of = load.registering.keys.registered_name
    return name_of(kernel.dispatch_key) or name_of(kernel.library.dispatch_key)


def compare_schemas(load: ExtensionLoad, reaction: Reaction) -> tuple[str, Evidence]:
    """Return two schemas compared: the first difference in words, and both schemas, « » around what only one of them
    has.
    """
    new, old = reaction.outcome.new or "", reaction.outcome.old or ""
    difference, instead = "the schemas are identical", old
    assert load.registering is not None
    try:
        new_schema, old_schema = FunctionSchema.parse(new), FunctionSchema.parse(old)
    except SchemaError:
        difference = "the schemas differ"
    else:
        first = new_schema.first_difference(old_schema)
        if first is not None:
            difference = _in_words(first, reaction.object, other_side(load, reaction))
            instead = mark_differences(old_schema, new_schema, load.registering.release)
    return difference, Evidence(subject=reaction.outcome.subject, readable=new, object=reaction.object, instead=instead)


def _in_words(difference: Difference, object_name: str, second: str) -> str:
    if not (difference.first and difference.second):
        owner, text = (object_name, difference.first) if difference.first else (second, difference.second)
        return f"only the schema in {owner} has {difference.place}: {text}"
    change = f"{difference.place} has a different {difference.what}"
    return f"{change}: {difference.first} in {object_name}, {difference.second} in {second}"


def mark_differences(schema: FunctionSchema, second: FunctionSchema, release: MinorVersion) -> str:
    """Return a schema as a release prints it, with « » around arguments and returns that ``second`` does not have
    there.
    """
    import difflib

    def mark_side(mine: Collection[Argument], theirs: Collection[Argument]) -> list[str]:
        texts, their_texts = ([argument.printed_by(release) for argument in arguments] for arguments in (mine, theirs))
        # As sequences of whole arguments, not of characters: an argument that was added marks itself alone.
        matcher = difflib.SequenceMatcher(a=their_texts, b=texts, autojunk=False)
        kept_indexes = {
            index for block in matcher.get_matching_blocks() for index in range(block.b, block.b + block.size)
        }
        return [text if index in kept_indexes else f"«{text}»" for index, text in enumerate(texts)]

    arguments = mark_side(schema.arguments, second.arguments)
    first = next((index for index, argument in enumerate(schema.arguments) if argument.kwarg_only), None)
    if first is not None:
        # Only after the comparison: "*" is no argument, and stands wherever the first keyword-only one does.
        arguments.insert(first, "*")
    returns = ", ".join(mark_side(schema.returns, second.returns))
    return f"{schema.name}({', '.join(arguments)}) -> {returns if len(schema.returns) == 1 else f'({returns})'}"


def compare_types(reaction: Reaction) -> Evidence:
    """Return two C++ types compared, with « » around what differs."""
    new, old = reaction.outcome.new or "", reaction.outcome.old or ""
    instead = Signature.of(old).mark_against(Signature.of(new)) if old != "?" else None
    return Evidence(subject=reaction.outcome.subject, readable=new, object=reaction.object, instead=instead)
