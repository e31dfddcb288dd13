"""The verdict on a saved model: what the loader of one torch says about it, its libraries, and its operators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.dispatch import torchscript
from abiscan.extension.examined import ExaminedTarget
from abiscan.findings import Confidence, Effect, Evidence, Finding
from abiscan.gpu.compatibility import fits_gpu
from abiscan.gpu.devices import Hardware
from abiscan.gpu.model import CodeKind, Entry
from abiscan.inputs import system
from abiscan.models.calls import UPGRADED, fits_schema
from abiscan.models.compatibility import (
    RUN,
    Refusal,
    find_refusals,
    load_call,
    missing_functions,
    own_globals,
    refused_pickle,
)
from abiscan.models.loaders import Loaders, loaders_of
from abiscan.models.model import ModelFormat, ModelLayout, OperatorCall, SavedModel
from abiscan.models.namespaces import PACKAGES
from abiscan.models.reading import read_model
from abiscan.python.package.model import HowLoaded
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD
from abiscan.results.check import Result
from abiscan.results.model import ModelOperator, ModelResult, OperatorState
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict, UsedLibrary
from abiscan.results.verdict import How, Verdict
from abiscan.torches import embedded, embedded_operators
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch import Torch
from abiscan.verdict.any_system import operators_of_any_release
from abiscan.words import listed

_PRIM: Final = "prim"
_NEWEST_ARCHIVE: Final = 10  # in which torch replaces no operator by an older one


class Brought(Struct, frozen=True, kw_only=True):
    """What one package brings.

    :ivar operators: the schemas of operators by name; None for one that Python code defines
    :ivar classes: the names of custom classes
    :ivar error: why it does not load; None if it does
    :ivar gaps: what it may register besides, in words
    """

    package: str
    operators: Mapping[str, str | None]
    classes: frozenset[str]
    error: str | None = None
    gaps: tuple[str, ...] = ()


Providers = Callable[[frozenset[str]], Sequence[Brought]]
"""The packages that may bring operators of some namespaces."""


@functools.lru_cache(maxsize=64)
def _read(path: str, _version: str) -> SavedModel:
    return read_model(Path(path))


def saved_model(target: ExaminedTarget) -> SavedModel:
    """Return the model that a target is.

    :raises InputError: it is none, damaged, or incomplete
    """
    from abiscan.inputs.files import DiskFile

    path = Path(target.target.name)
    if not target.target.is_model:
        return SavedModel(format=ModelFormat.AOTI, layout=ModelLayout.LIBRARY)
    return _read(str(path), DiskFile(path).identify_version())


def model_result(
    target: ExaminedTarget, torch: Torch, results: Sequence[Result], providers: Providers, hardware: Hardware
) -> PackageResult:
    """Return the verdict on a model.

    :param results: those of its libraries
    :raises InputError: it cannot be read
    """
    return _ModelCheck(target, torch, results, providers, hardware).result()


class _ModelCheck:
    """The verdict on a model on a torch."""

    def __init__(
        self,
        target: ExaminedTarget,
        torch: Torch,
        results: Sequence[Result],
        providers: Providers,
        hardware: Hardware,
    ) -> None:
        self._target = target
        self._torch = torch.for_linux()
        self._results = results
        self._providers = providers
        self._hardware = hardware
        self._model = saved_model(target)
        self._release: TorchRelease = self._torch.release_for(
            _make_machine(self._model, target, torch), allow_similar_build=True
        )
        self._read_name = str(self._release)
        self._loaders = loaders_of(self._release.judged_as or self._release.build)
        self._gaps: list[str] = list(self._model.gaps)

    def result(self) -> PackageResult:
        """Return the verdict, with everything that is known."""
        model, loaders = self._model, self._loaders
        call = load_call(model, loaders)
        # In the order of the loader: layouts and versions, operators, classes. The first refusal is what torch says.
        refusals = [*self._loader_refusals()]
        operators = tuple(self._operator_results())
        refusals += [*self._of_operators(operators, call), *self._of_classes(call)]
        failing = [result for result in self._results if result.verdict is Verdict.FAILS]
        error, fails_at = self._find_error(refusals, failing, call)
        processors = list(self._of_processors())
        findings = [*map(self._make_finding, refusals), *processors, *self._of_gpus()]
        if error is None and any(finding.effect is Effect.ABORTS for finding in processors):
            error, fails_at = _ILLEGAL_INSTRUCTION, RUN
        warnings = tuple(self._load_warnings())
        if warnings:
            findings.append(self._of_warnings(warnings))
        verdict = self._make_verdict(error, operators)
        return PackageResult(
            target=self._target.target.name,
            name=Path(self._target.target.name).name,
            version=None,
            torch=self._release.version and str(self._release.version),
            torch_build=self._release.build,
            module=None,
            verdict=verdict,
            error=error,
            built_for=_built_for(self._target),
            libraries=tuple(_make_library(result) for result in self._results),
            gaps=tuple(dict.fromkeys(self._gaps)) if verdict is not PackageVerdict.IMPORT_FAILS else (),
            own_findings=tuple(findings),
            model=ModelResult(
                format=model.format,
                saved_by=model.saved_by,
                fails_at=fails_at,
                operators=operators,
                classes=model.classes,
                devices=model.devices,
                warnings=warnings,
            ),
        )

    def _loader_refusals(self) -> Iterator[Refusal]:
        if self._loaders is None:
            self._gaps.append(f"which layouts and versions {self._read_name} reads is not recorded")
            return
        yield from find_refusals(self._model, self._loaders, self._read_name)
        if self._model.format is ModelFormat.PICKLE:
            refused = refused_pickle(self._model, self._loaders, self._read_name)
            if refused:
                yield refused
            elif own := own_globals(self._model):
                self._gaps.append(f"it needs {listed(own)}, which are in no torch")
        if self._model.format is ModelFormat.AOTI:
            yield from self._of_functions(self._loaders)
            yield from self._of_device()

    def _of_functions(self, loaders: Loaders) -> Iterator[Refusal]:
        """Yield what torch looks up in the libraries of a package (``model_container_runner.cpp``)."""
        for extension, required, _ in self._required_functions(loaders):
            if required:
                yield Refusal(
                    rule="model-lacks-function",
                    call=load_call(self._model, loaders),
                    exception="RuntimeError",
                    message=f"Error in dlsym: ?: undefined symbol: {required[0]}",
                    why=f"{extension} does not have {listed(required)}, for which {self._read_name} asks",
                    fix="compile the model again with the torch that will load it",
                    exact=False,
                    evidence=tuple(required),
                )

    def _required_functions(self, loaders: Loaders) -> Iterator[tuple[str, list[str], list[str]]]:
        version = self._release.torch_version
        if version is None:
            return
        for extension in self._target.extensions:
            exports = {name for name in loaders.symbols if extension.facts.symbols.find(name)}
            yield extension.name, *missing_functions(exports, loaders, version)

    def _of_device(self) -> Iterator[Refusal]:
        device = self._model.metadata.get("AOTI_DEVICE_KEY", "")
        if device in ("cuda", "xpu", "mps") and (self._release.build or "").endswith("+cpu"):
            yield Refusal(
                rule="model-not-readable",
                call=load_call(self._model, self._loaders),
                exception="RuntimeError",
                message=f"Unsupported device found: {device}",
                why=f"the model was compiled for {device}, and {self._read_name} is a build for the CPU",
                fix=f"use a build of torch for {device}, or compile the model for the CPU",
                exact=False,
            )

    def _load_warnings(self) -> Iterator[str]:
        """Yield what torch prints as it loads the model, and goes on."""
        if self._model.format is not ModelFormat.AOTI or self._loaders is None:
            return
        for _, required, optional in self._required_functions(self._loaders):
            if not required:
                yield from (f"could not dlsym {name}" for name in optional)

    def _of_warnings(self, warnings: Sequence[str]) -> Finding:
        names = [warning.rpartition(" ")[2] for warning in warnings]
        return Finding(
            rule="model-lacks-function",
            effect=Effect.NOTE,
            message=f"{self._read_name} looks for functions that the model does not have, but can do without: "
            f"{listed(names)}",
            evidence=tuple(Evidence(subject=name) for name in names),
            fix="no action needed, unless you update the model's constants; else compile it again",
            says=warnings[0],
        )

    # Operators and classes

    def _operator_results(self) -> Iterator[ModelOperator]:
        calls: dict[str, list[OperatorCall]] = {}
        for call in self._model.operators:
            calls.setdefault(call.name, []).append(call)
        yield from (self._make_operator(name, of_name) for name, of_name in calls.items())

    @functools.cached_property
    def _bases(self) -> dict[str, list[str]]:
        """The names of torch's operators with overloads, by those without."""
        bases: dict[str, list[str]] = {}
        for name in self._torch.operators(self._release).names():
            bases.setdefault(name.partition(".")[0], []).append(name)
        return bases

    @functools.cached_property
    def _schemas(self) -> Mapping[str, str | None]:
        """The schemas of torch's operators that the model calls."""
        names = [name for call in self._model.operators for name in self._bases.get(call.operator, ())]
        operators = self._torch.operators(self._release).look_up(names).operators
        return {name: operators[name].schema for name in names if name in operators}

    @functools.cached_property
    def _brought(self) -> Sequence[Brought]:
        """The packages that may bring what torch does not have."""
        namespaces = {call.operator.partition("::")[0] for call in self._model.operators}
        classes = {name.partition(".")[0] for name in self._model.classes}
        # Only namespaces that torch does not have are asked for: looking for packages reads them.
        own = {name.partition("::")[0] for name in self._bases} | {_PRIM}
        return self._providers(frozenset((namespaces | classes) - own))

    def _make_operator(self, name: str, calls: Sequence[OperatorCall]) -> ModelOperator:
        base, at = calls[0].operator, calls[0].at
        result = functools.partial(ModelOperator, name=name, at=at)
        # An operator of torch. TorchScript has overloads that no dispatcher knows.
        if own := self._bases.get(base):
            overloads = own if calls[0].overload is None else [operator for operator in own if operator == name]
            if not overloads:
                script = self._model.format is ModelFormat.TORCHSCRIPT and torchscript.may_have(
                    name if "." in name else f"{name}{DEFAULT_OVERLOAD}", self._release.torch_version
                )
                return result(state=OperatorState.OK if script else OperatorState.MISSING)
            misfits = [
                call
                for call in calls
                if not any(fits_schema(call, self._schemas.get(operator)) for operator in overloads)
            ]
            return result(state=self._of_misfits(base, misfits))
        namespace = base.partition("::")[0]
        if torchscript.may_have(base, self._release.torch_version):
            return result(state=OperatorState.OK)
        # An operator that another package brings: one that does not load brings none.
        for brought in self._brought:
            schemas = [
                brought.operators[operator] for operator in brought.operators if _is_overload(operator, name, calls[0])
            ]
            if schemas:
                if brought.error:
                    return result(state=OperatorState.MISSING, brought_by=brought.package)
                fitting = all(any(fits_schema(call, schema) for schema in schemas) for call in calls)
                state = OperatorState.OK if fitting else OperatorState.CHANGED
                return result(state=state, brought_by=brought.package)
        # Nothing has it. That is certain only if all registrations of the packages could be read, and for ``aten`` only
        # if some release has it in its dispatcher, where it would be seen.
        state = OperatorState.MISSING
        package = PACKAGES.get(namespace)
        doubts = [gap for brought in self._brought for gap in brought.gaps]
        if doubts:
            self._gaps += [f"whether there is {name}: {doubt}" for doubt in doubts]
            state = OperatorState.UNKNOWN
        elif namespace == "aten" and base not in operators_of_any_release():
            self._gaps.append(f"whether there is {name}: no release has it in its dispatcher")
            state = OperatorState.UNKNOWN
        return result(state=state, brought_by=package)

    def _of_misfits(self, base: str, misfits: Sequence[OperatorCall]) -> OperatorState:
        """Return the state of an operator with calls that no overload of this torch takes.

        TorchScript has overloads that no dispatcher knows. So it has changed only if a call fits on another release.
        """
        if not misfits:
            return OperatorState.OK
        # Torch replaces calls of old operators in old archives (torch/csrc/jit/operator_upgraders).
        if base in UPGRADED and (self._model.file_version or 0) < _NEWEST_ARCHIVE:
            return OperatorState.OK
        in_script = self._model.format is ModelFormat.TORCHSCRIPT and torchscript.has_overloads(base)
        if not in_script and any(_fits_elsewhere(base, call, self._release.machine) for call in misfits):
            return OperatorState.CHANGED
        if self._model.format is ModelFormat.TORCHSCRIPT and base.startswith("aten::"):
            return OperatorState.OK
        self._gaps.append(f"whether {base} takes the arguments that the model passes at {misfits[0].at}")
        return OperatorState.UNKNOWN

    def _of_operators(self, operators: Sequence[ModelOperator], call: str) -> Iterator[Refusal]:
        # Torch raises for the first operator that is missing; the others are evidence.
        missing = [operator for operator in operators if operator.state is OperatorState.MISSING]
        changed = [operator for operator in operators if operator.state is OperatorState.CHANGED]
        if missing:
            names = [operator.name for operator in missing]
            exception, message, exact = self._missing_message(missing[0])
            yield Refusal(
                rule="model-operator-missing",
                call=call,
                exception=exception,
                message=message,
                why=f"it calls {listed(names)}, which {self._whom(missing)}",
                fix=self._fix(missing),
                exact=exact,
                evidence=tuple(
                    f"{operator.name} ({operator.at})" if operator.at else operator.name for operator in missing
                ),
            )
        if changed:
            names = [operator.name for operator in changed]
            yield Refusal(
                rule="model-operator-changed",
                call=call,
                exception="RuntimeError",
                message="Arguments for call are not valid.\nThe following variants are available:\n?",
                why=f"it calls {listed(names)} with arguments that {self._read_name} does not take",
                fix="save the model with the torch that will load it",
                exact=False,
                evidence=tuple(f"{operator.name} ({operator.at})" for operator in changed),
            )

    def _whom(self, missing: Sequence[ModelOperator]) -> str:
        passed = [brought.package for brought in self._brought if not brought.error]
        own = all(operator.name.startswith("aten::") for operator in missing)
        return (
            f"{self._read_name} does not have"
            if own or not passed
            else f"neither {self._read_name} nor {listed(passed)} has"
        )

    def _fix(self, missing: Sequence[ModelOperator]) -> str:
        packages = list(dict.fromkeys(item.brought_by for item in missing if item.brought_by))
        broken = {brought.package: brought.error for brought in self._brought if brought.error}
        for package in packages:
            if package in broken:
                return f"install a {package} that loads on {self._read_name}: this one says {broken[package]}"
        if passed := [brought.package for brought in self._brought if brought.package in packages]:
            return f"install a version of {listed(passed)} that has it, or save the model with this one"
        if packages:
            return f"import {listed(packages)} first, and pass it as another target to check both"
        if all(operator.name.startswith("aten::") for operator in missing):
            return "use a torch that has it, or save the model with the torch that will load it"
        return "import the package that defines it first, and pass it as another target to check both"

    def _missing_message(self, operator: ModelOperator) -> tuple[str, str, bool]:
        """Return what torch raises for a missing operator: the exception, its text, and whether that is complete."""
        # Each loader says it in words of its own.
        base, _, overload = operator.name.partition(".")
        if self._model.layout is ModelLayout.MOBILE:
            return "RuntimeError", f"Following ops cannot be found: ['{operator.name}']?", False
        if self._model.format is ModelFormat.TORCHSCRIPT:
            text = f"\nUnknown builtin op: {base}.\n"
            return "RuntimeError", f"{text}Could not find any similar ops to {base}. ?", False
        if self._model.format is ModelFormat.AOTI:
            return "RuntimeError", f"Could not find schema for {base}.{overload}", False
        if self._model.layout is ModelLayout.FLAT:
            target = f"torch.ops.{base.replace('::', '.')}.{overload or 'default'}"
            return "SerializeError", f"Failed deserializing node Node(target='{target}', ?", False
        if self._loaders and self._loaders.names_layout:
            return "RuntimeError", _DESERIALIZING, True
        return "KeyError", "\"There is no item named 'version' in the archive\"", True

    def _of_classes(self, call: str) -> Iterator[Refusal]:
        if not self._model.classes:
            return
        # Custom classes are looked up by name alone: whether their methods fit is not asked.
        own = self._torch.operators(self._release).look_up(()).classes
        passed = {name for brought in self._brought if not brought.error for name in brought.classes}
        missing = [name for name in self._model.classes if name not in own and name not in passed]
        if missing:
            packages = [PACKAGES[name] for name in (item.partition(".")[0] for item in missing) if name in PACKAGES]
            yield Refusal(
                rule="model-operator-missing",
                call=call,
                exception="RuntimeError",
                message=f"\nUnknown type name '__torch__.torch.classes.{missing[0]}':\n?",
                why=f"it needs the custom classes {listed(missing)}, which {self._read_name} does not have",
                fix=f"import {listed(packages) or 'the package that registers them'} first",
                exact=False,
                evidence=tuple(missing),
            )

    # The verdict

    def _find_error(
        self, result: Sequence[Refusal], failing: Sequence[Result], call: str
    ) -> tuple[ImportFailure | None, str | None]:
        """Return the first error, and the call that raises it."""
        # Layouts and pickles are read before the libraries are opened, operators are looked up after.
        layout = [refusal for refusal in result if refusal.rule in ("model-not-readable", "model-pickles-classes")]
        if layout or not failing:
            refusal = next(iter((*layout, *result)), None)
            if refusal is None:
                return None, None
            failure = _make_failure(refusal.exception, refusal.message, refusal.why, exact=refusal.exact)
            return failure, refusal.call
        error = failing[0].predicted_error
        text = str(error) if error else ""
        if error is not None and error.how is How.ABORTS:
            return (
                ImportFailure(how=How.ABORTS, exception=None, message=text, file=None, line=None, cause=None),
                call,
            )
        return _make_failure("RuntimeError", f"Error in dlopen: {text}", text, exact=False), call

    def _make_verdict(self, error: ImportFailure | None, operators: Sequence[ModelOperator]) -> PackageVerdict:
        if error:
            return PackageVerdict.IMPORT_FAILS
        if any(result.verdict is Verdict.CORRUPTS for result in self._results):
            return PackageVerdict.CORRUPTS
        unknown = any(operator.state is OperatorState.UNKNOWN for operator in operators)
        if unknown or self._gaps or any(result.verdict is Verdict.UNKNOWN for result in self._results):
            return PackageVerdict.UNKNOWN
        return PackageVerdict.WORKS

    def _make_finding(self, refusal: Refusal) -> Finding:
        return Finding(
            rule=refusal.rule,
            effect=Effect.LOAD_FAILS,
            message=f"{Path(self._target.target.name).name}: {refusal.why}",
            evidence=tuple(Evidence(subject=subject) for subject in refusal.evidence),
            fix=refusal.fix,
            says=f"{refusal.exception}: {refusal.message.strip()}",
        )

    def _of_processors(self) -> Iterator[Finding]:
        """Yield the processors that lack what the code of a compiled model uses; its first run calls that code."""
        if self._model.format is not ModelFormat.AOTI or not self._hardware.cpus:
            return
        from abiscan.emulation.whole_code import features_in  # few runs ask for it

        for extension in self._target.extensions:
            used = features_in(extension.extension.source.open_elf())
            for cpu in self._hardware.cpus:
                lacking = cpu.lacks(used) if cpu.machine is extension.facts.machine else ()
                if lacking:
                    certain = any(feature in _CERTAIN for feature in lacking)
                    yield Finding(
                        rule="cpu-too-old",
                        effect=Effect.ABORTS if certain else Effect.NOTE,
                        message=f"the code of the model uses {listed(lacking)}; {cpu.name} lacks that",
                        evidence=tuple(
                            Evidence(
                                subject=feature, readable=f"{feature} at {used[feature]:#x}", object=extension.name
                            )
                            for feature in lacking
                        ),
                        fix="compile the model on a processor like the one that will run it",
                        says="Illegal instruction (core dumped)" if certain else None,
                        symptom=f"{RUN} ends the process" if certain else None,
                        confidence=Confidence.CERTAIN if certain else Confidence.POSSIBLE,
                    )

    def _of_gpus(self) -> Iterator[Finding]:
        """Yield the GPUs that do not run the code of a package, which AOTInductor compiles for the GPU at hand."""
        capability = self._model.metadata.get("AOTI_COMPUTE_CAPABILITY", "")
        if not capability.isdecimal() or len(capability) > _DIGITS:
            return
        code = Entry(kind=CodeKind.CUBIN, architecture=int(capability))
        for gpu in self._hardware.gpus:
            if not fits_gpu(code, gpu):
                yield Finding(
                    rule="no-kernel-image",
                    effect=Effect.CALL_FAILS,
                    message=f"the model was compiled for {code.target}, which {gpu} does not run",
                    evidence=(Evidence(subject=code.target),),
                    fix=f"compile the model on a GPU like {gpu}",
                )


_DIGITS: Final = 3
_CERTAIN: Final = ("avx", "avx2", "fma", "avx512f", "sve")
"""The features that a compiler uses in any loop, where others are for particular types."""

_ILLEGAL_INSTRUCTION: Final = ImportFailure(
    how=How.ABORTS, exception=None, message="Illegal instruction", file=None, line=None, cause=None
)
_DESERIALIZING: Final = (
    "We ran into an error when deserializing the saved file. Please check the warnings above for possible errors. "
)


def _make_failure(exception: str, message: str, cause: str | None, *, exact: bool) -> ImportFailure:
    return ImportFailure(
        how=How.RAISES, exception=exception, message=message, file=None, line=None, cause=cause, exact=exact
    )


def _make_machine(model: SavedModel, target: ExaminedTarget, torch: Torch) -> Machine:
    """Return the machine that a model is for; for one without machine code, this one."""
    named = model.metadata.get("AOTI_MACHINE")
    # From the strongest to the weakest evidence; the last always holds.
    candidates = (
        *(extension.facts.machine for extension in target.extensions),
        *(machine for machine in Machine if machine.value == named),
        *(machine for machine in Machine if machine is system.own_machine() and _has_build(torch, machine)),
        Machine.X86_64,
    )
    return candidates[0]


def _has_build(torch: Torch, machine: Machine) -> bool:
    return torch.build is None or embedded.has_build(torch.build, machine)


def _built_for(target: ExaminedTarget) -> tuple[str, ...]:
    result = {extension.path: target.origins[extension.path].releases for extension in target.extensions}
    return tuple(map(str, next(iter(result.values()), ()))) if len(set(result.values())) == 1 else ()


def _make_library(result: Result) -> UsedLibrary:
    return UsedLibrary(
        path=result.path,
        loaded_at=None,
        how=HowLoaded.IMPORT,
        used=True,
        verdict=result.verdict,
        file=result.path,
        error=str(result.predicted_error) if result.predicted_error else None,
    )


def _is_overload(candidate: str, name: str, call: OperatorCall) -> bool:
    return candidate.partition(".")[0] == call.operator if call.overload is None else candidate == name


def _fits_elsewhere(base: str, call: OperatorCall, machine: Machine) -> bool:
    """Whether an operator takes a call on any release."""
    names = [name for name in embedded_operators.table().all_names if name.partition(".")[0] == base]
    for version in reversed(embedded.versions(machine)):
        operators = embedded_operators.operators(str(version), machine, names).operators
        if any(fits_schema(call, operators[name].schema) for name in names if name in operators):
            return True
    return False
