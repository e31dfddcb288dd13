"""What a saved model needs, as text: one line for each thing, so that ``grep`` finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from abiscan.results.model_operators import ModelOperators
from abiscan.words import clean, listed, plural

Style = Callable[..., str]
_CALLS_SHOWN: Final = 1


def render_model(model: ModelOperators, style: Style, *, verbose: bool) -> str:
    """Return the lines.

    :param verbose: with all places of calls, and all Python names of its pickles
    """
    return "".join(f"{line}\n" for line in _model_lines(model, style, verbose=verbose))


def _model_lines(model: ModelOperators, style: Style, *, verbose: bool) -> Iterator[str]:
    saved = f", saved by torch {model.saved_by}" if model.saved_by else ""
    yield style(f"{clean(model.target)}: {model.format.words}{clean(saved)}", bold=True)
    versions = (f"{name} {version}" for name, version in model.versions.items())
    entries = (
        ("versions", list(versions)),
        ("devices", list(model.devices)),
        ("instructions", list(model.instructions)),
        ("packages", list(model.packages)),
        ("libraries", list(model.libraries)),
        ("classes", list(model.classes)),
    )
    for word, values in entries:
        if values:
            yield f"{style(word, fg='cyan')} {clean(listed(values, len(values)))}"
    for operator in model.operators:
        brought = f" ({operator.brought_by})" if operator.brought_by else ""
        shown = operator.calls if verbose else operator.calls[:_CALLS_SHOWN]
        more = (
            f" and {plural(len(operator.calls) - len(shown), 'more call')}" if len(operator.calls) > len(shown) else ""
        )
        places = f"  {', '.join(shown)}{more}" if any(shown) else ""
        yield f"{style('operator', fg='cyan')} {clean(operator.name)}{clean(brought)}{style(clean(places), dim=True)}"
    if verbose:
        yield from (f"{style('global', fg='cyan')} {clean(name)}" for name in model.globals)
    yield from (f"{style('gap', fg='yellow')}: {clean(gap)}" for gap in model.gaps)
