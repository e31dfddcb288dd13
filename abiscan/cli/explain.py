"""``abiscan explain``."""

from __future__ import annotations

import io
import sys
from typing import Final

import click

from abiscan.cli.common import errors_reported
from abiscan.cli.rule_name import RULE_OR_ERROR
from abiscan.findings import Documented

_UNKNOWN: Final = 3
"""The exit code for an error that is not recognised."""


@click.command()
@click.argument("what", type=RULE_OR_ERROR, required=False)
def explain(what: Documented | str | None) -> None:
    """Explain an error: paste it, or pipe it in. Also what a rule finds, why it fails and how to fix it.

    For a symbol, a C++ name, an operator or a Python name of torch, say which releases have it. Without an argument
    and without input, list all rules.

    \b
    Examples:
      abiscan explain "ImportError: _C.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"
      python train.py 2>&1 | abiscan explain
      abiscan explain cxx11-abi-mismatch
      abiscan explain torch.amp.custom_bwd
      abiscan explain aten::_pad_enum
    """
    if isinstance(what, Documented):
        click.echo(f"{what.name}\n\n{what.documentation}")
        return
    with errors_reported():
        text = what if what not in (None, "-") else _read_input(wanted=what == "-")
        if not text or not text.strip():
            _print_rules()
        else:
            _explain_text(text)


def _print_rules() -> None:
    from abiscan.rules import EVERY_RULE

    width = max(len(known_rule.name) for known_rule in EVERY_RULE)
    for known_rule in EVERY_RULE:
        click.echo(f"{known_rule.name:{width}}  {known_rule.summary}")


def _read_input(*, wanted: bool) -> str:
    """Return what is piped in; an empty text for a terminal, unless ``-`` asks for it."""
    stream = sys.stdin
    if stream is None or (stream.isatty() and not wanted):
        return ""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors="replace")
    return stream.read()


def _explain_text(text: str) -> None:
    from abiscan.words import clean

    if text.startswith("torch.") and not text.startswith("torch.ops.") and ":" not in text:
        from abiscan.diagnosis.names import of_torch_name
        from abiscan.torches.name_history import history

        known = of_torch_name(text)
        lines: tuple[str, ...] = known.lines if known else (str(history(text)),)
        recognised = True
    else:
        from abiscan.diagnosis.answer import answer

        explanation = answer(text)
        lines, recognised = explanation.lines, explanation.recognised
    for line in lines:
        click.echo(clean(line))
    if not recognised:
        sys.exit(_UNKNOWN)
