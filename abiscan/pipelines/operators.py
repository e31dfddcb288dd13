"""The pipelines behind ``abiscan ops``: what an extension registers, what a torch has, and whether releases differ."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from abiscan.binary.elf import Machine
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.inputs.session import Session

if TYPE_CHECKING:
    from abiscan.dispatch.operators import Operators
    from abiscan.inputs.sources import Source
    from abiscan.results.api_history import ApiHistory
    from abiscan.results.model_operators import ModelOperators
    from abiscan.results.operators import ExtensionOperators
    from abiscan.results.torch_operators import TorchApiVersions, TorchOperators
    from abiscan.torches.torch import TorchChoice

# Imports that only some of these functions need stand there: loading them takes longer than reading the cache.


def extension_operators(source: Source, session: Session, *, cpu: bool = True) -> ExtensionOperators:
    """Return what the extensions of a target register.

    :param cpu: whether to find what the operators may use of the processor
    :raises InputError: it cannot be read, or contains nothing that uses torch
    """
    from abiscan.extension.examined import examine
    from abiscan.results.operators import ExtensionOperators

    examined = examine(source, session)
    # All at once: otherwise the code below would recover them one after the other.
    examined.recover(session.jobs)
    return ExtensionOperators(
        target=examined.target.name,
        inventories=tuple(extension.inventory for extension in examined.extensions),
        gpus=tuple(extension.gpu for extension in examined.extensions),
        cpus=tuple(extension.operator_needs for extension in examined.extensions) if cpu else (),
        single=examined.target.kind.is_single,
    )


def model_operators(source: Source, session: Session) -> ModelOperators:
    """Return what a saved model needs.

    :raises InputError: it is none, or cannot be read
    """
    from abiscan.extension.examined import ExaminedTarget
    from abiscan.inputs import isolation
    from abiscan.inputs.sources import name_of, read_target
    from abiscan.models.namespaces import PACKAGES
    from abiscan.results.model_operators import ModelOperators, NeededOperator
    from abiscan.torches import embedded
    from abiscan.verdict.model import saved_model

    isolation.begin_target(name_of(source))
    target = read_target(source, session.files(), embedded.SITE, f"{embedded.SITE}/torch")
    if not target.is_model:
        raise InputError(target.name, "is not a saved model", "pass a file of torch.jit.save, torch.export.save, …")
    model = saved_model(ExaminedTarget(target))
    calls: dict[str, dict[str, None]] = {}
    for call in model.operators:
        calls.setdefault(call.name, {})[call.at] = None
    versions = {
        "archive": model.file_version,
        "schema": ".".join(map(str, model.schema)) if model.schema else None,
        "bytecode": model.bytecode_version,
        "pt2": model.archive_version,
    }
    return ModelOperators(
        target=target.name,
        format=model.format,
        saved_by=model.saved_by,
        versions={name: str(version) for name, version in versions.items() if version is not None},
        operators=tuple(
            NeededOperator(
                name=name, brought_by=PACKAGES.get(name.partition("::")[0]), calls=tuple(filter(None, places))
            )
            for name, places in sorted(calls.items())
        ),
        classes=model.classes,
        globals=model.globals,
        devices=model.devices,
        instructions=tuple(model.metadata.get("AOTI_CPU_ISA", "").split()),
        libraries=tuple(extension.path for extension in target.extensions),
        gaps=model.gaps,
    )


def torch_operators(choice: TorchChoice, machine: Machine, session: Session) -> TorchOperators:
    """Return the operators of a torch.

    :param machine: which build of a release number
    :raises InputError: there is no such torch
    """
    from abiscan.results.torch_operators import TorchOperators

    torch = choice.open(session.files(), session).for_linux()
    release = torch.release_for(machine)
    return TorchOperators(release=release, operators=torch.operators(release).look_up())


def live_operators(named: str | None) -> TorchOperators:
    """Return the operators of a running torch: that of the interpreter that the user named, or of the environment for
    None.

    :raises InputError: it has no torch, or its torch does not answer
    """
    from abiscan.inputs import interpreter as python
    from abiscan.inputs.environment import use_environment
    from abiscan.results.torch_operators import TorchOperators
    from abiscan.torches import from_libs, from_python

    executable = use_environment(named).python
    package = python.installed_torch() if executable is None else python.ask_interpreter(executable)[1]
    if package is None:
        raise InputError(executable or sys.executable, "has no torch", "name a Python that has one with --python")
    release = from_libs.from_path(package, Files())
    return TorchOperators(release=release, operators=from_python.read_operators(executable or sys.executable))


def api_versions(result: TorchOperators) -> TorchApiVersions:
    """Return the interface version of each operator of a torch."""
    from abiscan.results.torch_operators import TorchApiVersions
    from abiscan.torches.api_version import api_versions as versions_of

    versions = {name: str(version) for name, version in sorted(versions_of(result.operators).items())}
    return TorchApiVersions(release=result.release, versions=versions, gaps=result.operators.gaps)


def api_history(source: Source, specs: Sequence[str], session: Session) -> ApiHistory:
    """Tell whether releases changed anything for an extension.

    :param specs: release numbers, version specifiers, paths of torches; empty for all embedded releases
    :raises InputError: the target or a torch cannot be read
    """
    from abiscan.extension.examined import examine
    from abiscan.pipelines.api_history import compare_releases
    from abiscan.pipelines.use import use_of
    from abiscan.torches import embedded, embedded_operators
    from abiscan.torches.torch import ReleaseNumber, torch_choices

    examined = examine(source, session)
    machine = next((extension.facts.machine for extension in examined.extensions), Machine.X86_64)
    names = use_of(examined).operators
    choices = [choice for spec in specs for choice in torch_choices(spec)]
    torches: dict[str, Operators] = {}
    for choice in choices or [ReleaseNumber(str(version)) for version in embedded.versions(machine)]:
        if isinstance(choice, ReleaseNumber):
            torches[choice.number] = embedded_operators.operators(choice.number, machine, names)
        else:
            torch_ops = torch_operators(choice, machine, session)
            torches[torch_ops.release.build or torch_ops.release.package] = torch_ops.operators
    return compare_releases(examined.target.name, names, torches)
