"""Checks the extensions of one target after the other on one torch: files → linkage → findings."""

from __future__ import annotations

import functools
import logging
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_torch_library
from abiscan.binary.registration_api import registers_anything
from abiscan.cpu.needs import CpuAtLoad, CpuNeeds
from abiscan.cpu.processors import Cpu, native_cpu
from abiscan.cpu.torches import torch_needs
from abiscan.extension.drift import find_drifts
from abiscan.extension.examined import ExaminedExtension, ExaminedTarget, is_own_code
from abiscan.findings import Effect, Finding, Rule
from abiscan.gaps import Gap
from abiscan.gpu.devices import Hardware
from abiscan.gpu.drivers import driver_for_cuda
from abiscan.inputs import observed_fs, system
from abiscan.inputs.files import Files
from abiscan.inputs.kinds import TargetKind
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.session import Progress
from abiscan.inputs.sources import needs_torch
from abiscan.inputs.wheel_tag import family_and_number, version_of
from abiscan.linkage.first_error import first_error
from abiscan.linkage.illegal_instruction import IllegalInstruction, illegal_instructions
from abiscan.linkage.layout_drift import LayoutDrift, predict_crash
from abiscan.linkage.linkage import ExtensionLoad, HardwareFit, Linkage
from abiscan.linkage.model import Absence, LoadError, Module, Process, Resolution
from abiscan.linkage.promises import Declaration
from abiscan.linkage.registering import Registering
from abiscan.linkage.resolve import Resolver, library_error, relocation_order, resolve_load, with_startup_failure
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.results.causes import in_the_order_met
from abiscan.results.check import Result
from abiscan.results.needs import VersionNeeds
from abiscan.results.verdict import How, PredictedError, Verdict
from abiscan.torches.architectures import architectures, has_code_for
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch import LinuxTorch, Torch
from abiscan.verdict.gaps import gaps_of, unread_result
from abiscan.verdict.neighbours import OtherPackages
from abiscan.verdict.promises import promised_cpu, promises_of
from abiscan.verdict.systems import system_of

if TYPE_CHECKING:
    from abiscan.extension.replay import Replayer
    from abiscan.linkage.host import Host


_log = logging.getLogger("abiscan.verdict")
_rules_log = logging.getLogger("abiscan.rules")

_TORCH_CUDA: Final = "libtorch_cuda.so"


class Setting(Struct, frozen=True, kw_only=True):
    """What the checks of all extensions of a target that are built for one machine share.

    :ivar libraries: those of torch
    :ivar siblings: those of the target
    :ivar loader: finds libraries as ``ld.so`` does, those of other packages as well
    :ivar process: the process after ``import torch``
    """

    torch: LinuxTorch
    release: TorchRelease
    libraries: Libraries
    siblings: Libraries
    loader: Loader
    process: Process


class Checker:
    """Checks extensions on one torch.

    :param files: the files that the targets and the torch were read from
    :param resolver: may be shared by the checks on several torches over the same files
    :param neighbours: the libraries of other packages
    :param progress: called before each extension
    :param hardware: the GPUs that extensions are also checked on
    """

    def __init__(
        self,
        torch: Torch,
        files: Files,
        resolver: Resolver,
        neighbours: OtherPackages,
        progress: Progress,
        hardware: Hardware | None = None,
    ) -> None:
        self.torch = torch
        self._hardware = hardware or Hardware()
        self._progress = progress
        self.files = files
        self.resolver = resolver
        self._neighbours = neighbours
        self._replayer: Replayer | None = None
        self._to_keep: Sequence[tuple[ExaminedExtension, Linkage]] = ()
        self._settings_of: tuple[ExaminedTarget, dict[Machine, Setting]] | None = None
        self._first: dict[tuple[int, int], tuple[object, Linkage]] = {}

    def check(
        self,
        target: ExaminedTarget,
        rules: Sequence[Rule],
        *,
        extensions: Sequence[ExaminedExtension] | None = None,
        keep: bool = False,
        with_suggestions: bool = True,
        declarations: Mapping[str, Declaration] | None = None,
        python: Mapping[str, str] | None = None,
    ) -> tuple[Result, ...]:
        """Return the results for the libraries of a target: each extension is linked, and the rules check that.

        :param extensions: the extensions to check; all of the target for None
        :param keep: whether ``keep_loaded`` comes next
        :param with_suggestions: whether findings say what the torch has in place of what it lacks; finding that
            takes longer than the verdict, which does not depend on it
        :param declarations: what the metadata declare, by the path of the extension, if that is checked as well
        :param python: the operators that the package's Python code defines, and the line that does
        """
        of_images = system_of(target.target).check_images(target.target, self.torch, rules)
        if of_images is not None:
            return of_images
        linkages = []
        for examined, setting in self._extension_settings(
            target, target.extensions if extensions is None else extensions
        ):
            linkage = self.link(examined, setting, with_suggestions=with_suggestions)
            # The cached part of a load does not depend on the questions about it.
            load = replace(linkage.load, with_suggestions=with_suggestions, defined_in_python=python or {})
            promises = replace(linkage.promises, declaration=(declarations or {}).get(examined.path))
            linkages.append((examined, replace(linkage, load=load, promises=promises)))
        findings = [_apply_rules(linkage, rules) for _, linkage in linkages]
        # Files that could not be read were noted on the way: each extension may have needed them.
        opened = {module.path for _, linkage in linkages for module in _unread_modules(linkage)}
        unread = [
            Gap(stage="elf", reason=str(error), decides=error.subject in opened) for error in self.files.take_unread()
        ]
        self._to_keep = linkages if keep else ()
        return (
            *(
                replace(
                    _make_result(examined, linkage, own_findings, (*gaps_of(linkage, rules), *unread)),
                    before_torch=self._before_torch(examined, linkage),
                )
                for (examined, linkage), own_findings in zip(linkages, findings, strict=True)
            ),
            *(
                unread_result(target.target, self.torch, path, error, stage="elf")
                for path, error in target.target.unreadable
            ),
        )

    def _extension_settings(
        self, target: ExaminedTarget, extensions: Sequence[ExaminedExtension]
    ) -> Iterator[tuple[ExaminedExtension, Setting]]:
        """Yield each extension with its setting, one for each machine."""
        for machine in dict.fromkeys(extension.facts.machine for extension in extensions):
            setting = self.setting(target, machine)
            yield from ((extension, setting) for extension in extensions if extension.facts.machine is machine)

    def setting(self, target: ExaminedTarget, machine: Machine) -> Setting:
        """Return the setting of the extensions of a target for one machine; those of the last target are kept.

        :raises InputError: the torch does not exist for that machine
        """
        if self._settings_of is None or self._settings_of[0] is not target:
            self._settings_of = target, {}
            self._first.clear()
        settings = self._settings_of[1]
        if machine not in settings:
            settings[machine] = self._make_setting(target, machine)
        return settings[machine]

    @property
    def _is_here(self) -> bool:
        """Whether what this machine has counts: it says nothing about another system."""
        return self.torch.here and self._hardware.system is None

    def _make_setting(self, target: ExaminedTarget, machine: Machine) -> Setting:
        torch, siblings = self.torch.for_linux(), target.target.siblings
        release = torch.release_for(machine, allow_similar_build=True)
        here = self._is_here
        search = SearchPath(
            environment=system.environment_folders() if here else (),
            siblings=siblings,
            has_code=target.target.kind is not TargetKind.LIBRARY,
            torch=release.own_libraries,
            system=self._hardware.system.folders if self._hardware.system else (),
            native=here,
            host=_this_host(release.machine) if here else None,
            own_cuda=target.target.metadata.brings_cuda if target.target.metadata else frozenset(),
        )
        # ``alone`` knows no other packages. It maps torch, and tells which of their libraries would load.
        alone = Loader(self.files, search, release.machine)
        executable = torch.interpreter.executable if torch.interpreter else None
        # A program has no interpreter, and torch is not imported before it: only its libraries can be found.
        if target.target.kind is TargetKind.PROGRAM:
            process = alone.for_program((*release.global_libraries, *release.local_libraries))
        else:
            # Nothing of the target is in the process yet: what torch needs of the system is the system's.
            process = alone.without_siblings().start_process(
                (observed_fs.resolve_links(executable),) if executable else (),
                global_libraries=release.global_libraries,
                libraries=release.local_libraries,
                preloaded=release.preloaded,
            )

        @functools.cache
        def other(name: str) -> str | None:
            # A package has a library for each of several torches, and loads the one for the torch that is there.
            others = (path for path in self._neighbours.find(name) if path not in target.target.libraries)
            return next((path for path in others if self._loads(path, release, alone, process)), None)

        @functools.cache
        def with_python(name: str) -> str | None:
            from abiscan.verdict.with_python import module_with

            module = module_with(name, torch.interpreter, release.machine) if here else None
            loaded = alone.without_siblings().enter(process, module, visible=False).names if module else {}
            return loaded[name].path if name in loaded and loaded[name].facts else None

        others = replace(search, others=other, with_python=with_python)
        return Setting(
            torch=torch,
            release=release,
            libraries=Libraries(release.own_libraries, self.files),
            siblings=Libraries(siblings, self.files),
            loader=Loader(self.files, others, release.machine),
            process=replace(
                process,
                cpus=tuple(cpu for cpu in self._cpus if cpu.machine is release.machine),
                system=self._hardware.system,
            ),
        )

    def _loads(self, path: str, release: TorchRelease, loader: Loader, process: Process) -> bool:
        """Whether a library of another package loads by itself; what it needs of further packages is assumed."""
        facts = self.files.object_at(path)
        return (
            facts is not None
            and facts.machine is release.machine
            and resolve_load(process, loader.open(process, path), self.resolver).error is None
        )

    def link(
        self, examined: ExaminedExtension, setting: Setting, *, with_suggestions: bool, replayer: Replayer | None = None
    ) -> Linkage:
        """Return what happens to one extension: it is mapped and bound, then registered, then its layouts are compared.

        :param replayer: has what is registered before; by default, what earlier targets registered
        """
        if replayer is None:
            replayer = self._replayer
        # Only in a process without registrations of others is the outcome the same whenever it is asked for: each
        # extension is checked by itself, and the package that loads it first asks again.
        first = replayer is None or not replayer.has_any
        key = id(examined), id(setting.process)
        _, linkage = self._first.get(key, (None, None)) if first else (None, None)
        if linkage is None or (
            linkage.load.with_suggestions is not with_suggestions and linkage.load.fails_before_registering
        ):
            # Only what is said of it may be another thing, not how it ends.
            known = linkage.load.resolution if linkage else None
            linkage = self._link(examined, setting, replayer, known, with_suggestions=with_suggestions)
            if first:
                self._first[key] = (examined, setting.process), linkage  # keeping both keeps their ids unique
        return linkage

    def _link(
        self,
        examined: ExaminedExtension,
        setting: Setting,
        replayer: Replayer | None,
        known: Resolution | None,
        *,
        with_suggestions: bool,
    ) -> Linkage:
        release, interpreter, name = setting.release, self.torch.interpreter, examined.path
        target = examined.target.name
        self._progress(f"{target if target.endswith(name) else f'{target}: {name}'} on {release}")
        _log.debug("checks %s of %s on %s", name, target, release)
        # In the order of a load: mapping and binding, then the static initialisers with their registrations. Layouts
        # are compared only if it gets that far.
        resolution = known or self._resolve(examined, setting)
        # If the load fails before the registrations, how torch would react to them matters for explanations only.
        replayed = resolution if resolution is None or with_suggestions or resolution.error is None else None
        registering = self._replay(examined, replayed, release, replayer) if replayed else None
        drifting: tuple[LayoutDrift, ...] = ()
        if resolution is not None and resolution.error is None:
            layouts = setting.torch.layouts(release)
            drifting = find_drifts(examined, self.files, resolution, registering, layouts)
        crashes = predict_crash(drifting, release.version)
        promised = promised_cpu(examined)
        hardware = self._hardware_fit(examined, release, self._cpu_needs(examined, resolution, registering, promised))
        illegal = next(iter(hardware.illegal), None)
        return Linkage(
            load=ExtensionLoad(
                name=examined.name,
                facts=examined.facts,
                release=release,
                interpreter=interpreter,
                torch_libraries=setting.libraries,
                resolution=resolution,
                error=first_error(name, examined.facts, resolution, interpreter, registering, crashes, illegal),
                siblings=setting.siblings,
                here=self._is_here,
                registering=registering,
                with_suggestions=with_suggestions,
                drifts=drifting,
                built_for=registering.built_for if registering else examined.owner.origins[examined.path].releases,
                found_only_next_to_file=() if examined.target.package else _found_only_next_to_file(examined, setting),
            ),
            hardware=hardware,
            promises=promises_of(examined, promised),
        )

    @functools.cached_property
    def _cpus(self) -> tuple[Cpu, ...]:
        """The processors that loads are compared with: this one, if the user names none and the torch is here."""
        native = native_cpu() if self.torch.here and not self._hardware.cpus else None
        return self._hardware.cpus or ((native,) if native else ())

    def gpus_with(self, cuda: str) -> tuple[tuple[int, int], ...]:
        """Return the compute capabilities of the GPUs of NVIDIA that a torch for that CUDA finds on its machine.

        Empty if their driver is too old for it: that is said on its own.
        """
        driver, first = self._hardware.driver, driver_for_cuda(cuda)
        if driver is not None and first is not None and driver < first:
            return ()
        return tuple(divmod(gpu.capability, 10) for gpu in self._hardware.gpus if gpu.gfx is None)

    @property
    def cpu(self) -> Cpu | None:
        """The processor that everything runs on; None if there are several, or none is known."""
        return self._cpus[0] if len(self._cpus) == 1 else None

    def _cpu_needs(
        self,
        examined: ExaminedExtension,
        resolution: Resolution | None,
        registering: Registering | None,
        promised: Cpu | None,
    ) -> CpuNeeds | None:
        """Return what a load needs of the processor.

        Unless the user, or the variant of the wheel, names processors, only what was emulated anyway counts: what
        registers something.
        """
        # Finding what all files of a load need takes long, so it is only done if a processor was named.
        named = self._hardware.cpus or promised
        if resolution is None or not (named or registering):
            return None
        machine = examined.facts.machine
        if not named:
            registered = {**registering.bundled, examined.name: registering.own} if registering else {}
            files = {name: CpuAtLoad(uses=item.cpu) for name, item in registered.items()}
            return CpuNeeds(machine=machine, files=files)
        files = self._cpu_of_files(examined.owner, machine, resolution)
        return CpuNeeds(machine=machine, files=files, operators=examined.operator_needs if registering else {})

    def illegal(
        self, owner: ExaminedTarget, machine: Machine, resolution: Resolution, *, imported: bool
    ) -> IllegalInstruction | None:
        """Return where the load of a library without torch is ended by an instruction that a named processor lacks.

        :param owner: the target that it is from
        :param imported: whether Python imports it
        """
        if not self._hardware.cpus or resolution.error is not None:
            return None
        needs = CpuNeeds(machine=machine, files=self._cpu_of_files(owner, machine, resolution))
        ends = illegal_instructions(needs, self._hardware.cpus)
        # Code that only ``PyInit_*`` executes does not run if the library is not imported.
        return next((end for end in ends if imported or not end.in_module), None)

    def _cpu_of_files(self, owner: ExaminedTarget, machine: Machine, resolution: Resolution) -> dict[str, CpuAtLoad]:
        """Return what each file of a load needs of the processor, but for torch and the system."""
        ignored = (self.torch.package, *system.library_folders(machine))
        files = {}
        for module in relocation_order(resolution.closure):
            source = self.files.find_source(module.path)
            if module.facts is None or source is None or posixpath.dirname(module.path).startswith(ignored):
                continue
            identity = (module.path, source.identify_version())
            files[module.name] = owner.cpu_of_library(identity, source, module.facts)
        return files

    def _hardware_fit(self, examined: ExaminedExtension, release: TorchRelease, cpu: CpuNeeds | None) -> HardwareFit:
        """Return which code of an extension the hardware runs, and whether it runs torch's own."""
        hardware, cpus = self._hardware, self._cpus
        fit = HardwareFit(cpu=cpu, cpus=cpus, torch_cpu=_torch_needs(examined.facts.machine, release) if cpus else ())
        code = examined.gpu if hardware.gpus else None
        if code is None:
            return fit
        # What could not be read may be code for that GPU.
        gpus = [gpu for gpu in hardware.gpus if code.is_for_maker_of(gpu) and not code.code.gaps]
        # An extension whose code runs is of no use where torch's own does not.
        own = architectures(release, self.files) if gpus else None
        asked = any(gpu.gfx is None for gpu in gpus) and _TORCH_CUDA in release.own_libraries
        unknown = (f"the GPUs that {release} itself has code for are not known",) if asked and not own else ()
        of_cuda = [gpu for gpu in gpus if gpu.gfx is None]
        return replace(
            fit,
            gpus=tuple(code.on(gpu, hardware.driver) for gpu in gpus),
            gpu_gaps=(*code.gaps, *unknown),
            torch_runs={gpu: has_code_for(gpu, own, release.build) for gpu in of_cuda} if own else {},
        )

    def _resolve(self, examined: ExaminedExtension, setting: Setting) -> Resolution | None:
        """Return what ``ld.so`` does; None if the extension is built for a different machine than the torch."""
        if examined.facts.machine is not setting.release.machine:
            return None
        opened = setting.loader.open(setting.process, examined.extension.location)
        resolution = resolve_load(setting.process, opened, self.resolver)
        if resolution.call_error is not None:
            return with_startup_failure(resolution, examined.called_at_start)
        if resolution.error is not None and self.torch.here and examined.target.kind is TargetKind.LIBRARY:
            # It fails in any case, and on this machine it does not get as far as what is assumed to be there.
            alone = setting.loader.without_siblings().open(setting.process, examined.extension.location)
            if alone.missing and alone.missing[0].absence is Absence.EXTERNAL:
                return replace(resolution, error=library_error(alone.missing[0]))
        return resolution

    def _before_torch(self, examined: ExaminedExtension, linkage: Linkage) -> str | None:
        """Return what the import of an extension module raises in a process without torch; None if it succeeds there.

        Modules in a package are imported by its code, which imports torch, or by others that do.
        """
        load, location = linkage.load, examined.extension.location
        at_top = examined.target.kind is TargetKind.LIBRARY or posixpath.dirname(location) == examined.target.root
        if not at_top or not load.facts.python_modules or load.error is not None or load.resolution is None:
            return None
        return self.lacking_torch(location, load.release.machine)

    def lacking_torch(self, location: str, machine: Machine) -> str | None:
        """Return what loading a library says in a process without torch; None if it finds those of torch."""
        here = self._is_here
        environment = system.environment_folders() if here else ()
        search = SearchPath(environment=environment, native=here, host=_this_host(machine) if here else None)
        closure = Loader(self.files, search, machine).open(Process(has_python=False), location)
        missing = (library for library in closure.missing if is_torch_library(library.name))
        return next((str(library.message) for library in missing), None)

    def _replay(
        self, examined: ExaminedExtension, resolution: Resolution, release: TorchRelease, replayer: Replayer | None
    ) -> Registering | None:
        """Return how torch reacts to the registrations of an extension and its libraries; None if there are none."""
        loaded = (module.facts for module in resolution.closure.new)
        if any(registers_anything(facts.imports) for facts in loaded if facts is not None):
            return (replayer or self.replayer()).replay(examined, resolution, release)
        # Code that registers nothing matters where it ends the process.
        if not any(is_own_code(examined.target, module) for module in resolution.closure.new):
            return None
        registering = (replayer or self.replayer()).replay(examined, resolution, release)
        registered = (registering.own, *registering.bundled.values())
        return registering if any(registrations.may_end_load for registrations in registered) else None

    def replayer(self, *, together: bool = False) -> Replayer:
        """Return a replayer for this torch into which nothing is loaded yet."""
        return self._empty_replayer.copy(together=together)

    @functools.cached_property
    def _empty_replayer(self) -> Replayer:
        # The model of the dispatcher takes longer to import than many checks take.
        from abiscan.extension.replay import Replayer

        return Replayer(torch=self.torch.for_linux(), files=self.files)

    def keep_loaded(self) -> None:
        """Keep the extensions that were checked last and load in the process, for the extensions of the next target."""
        for examined, linkage in self._to_keep:
            if (load := linkage.load).resolution and load.registering and load.error is None:
                self._replayer = self._replayer or self.replayer()
                self._replayer.keep(examined, load.resolution, load.registering)
        self._to_keep = ()


def _this_host(machine: Machine) -> Host:
    # Against a release number, nothing of this machine counts.
    from abiscan.linkage.host import Host

    return Host(machine)


def _unread_modules(linkage: Linkage) -> Iterator[Module]:
    """Yield the objects of a load that could not be read: it may end at them."""
    modules = linkage.load.resolution.closure.new if linkage.load.resolution else ()
    return (module for module in modules if module.is_unread)


def _apply_rules(linkage: Linkage, rules: Sequence[Rule]) -> list[Finding]:
    """Return what the rules find, in their order."""
    findings: list[Finding] = []
    is_traced = _rules_log.isEnabledFor(logging.DEBUG)
    for rule in rules:
        own = list(rule.check(linkage))
        findings += own
        if not is_traced:
            continue
        _rules_log.debug("%s on %s: %s: %d findings", linkage.load.name, linkage.load.release, rule.name, len(own))
        for finding in own:
            _rules_log.debug("%s: %s: %s", rule.name, finding.effect.value, finding.message)
    return findings


def _found_only_next_to_file(examined: ExaminedExtension, setting: Setting) -> tuple[str, ...]:
    """Return the libraries next to a file that it needs, and that no search path leads to."""
    if examined.facts.machine is not setting.release.machine:
        return ()
    # The same load once more, without the help that a package gives by loading its libraries before.
    closure = setting.loader.without_siblings().open(setting.process, examined.extension.location)
    names = (library.name for library in closure.missing if library.absence is Absence.EXTERNAL)
    return tuple(dict.fromkeys(name for name in names if name in setting.siblings))


def _torch_needs(machine: Machine, release: TorchRelease) -> tuple[str, ...]:
    version = release.torch_version
    return torch_needs(machine, version.minor_version if version else None)


def _make_result(
    examined: ExaminedExtension, linkage: Linkage, findings: Sequence[Finding], gaps: tuple[Gap, ...]
) -> Result:
    load, error, resolution = linkage.load, linkage.load.error, linkage.load.resolution
    verdict = _make_verdict(error, findings, gaps)
    for gap in gaps:
        _log.debug("%s on %s: gap: %s", examined.path, load.release, gap)
    notice = f": {error.message}" if error else ""
    _log.debug("%s on %s: %s%s", examined.path, load.release, verdict.value, notice)
    missing = resolution.closure.missing if resolution else ()
    result = Result(
        target=examined.target.name,
        kind=examined.target.kind,
        path=examined.path,
        sha256=examined.extension.source.hash_content(),
        torch=load.release.version,
        torch_build=load.release.build,
        machine=examined.facts.machine.value,
        verdict=verdict,
        predicted_error=_predicted(error) if error else None,
        undefined_symbols=tuple(dict.fromkeys(str(symbol.reference) for symbol in load.undefined)),
        external=tuple(dict.fromkeys(library.name for library in missing if library.absence is Absence.EXTERNAL)),
        torch_cuda=load.torch_cuda,
        findings=in_the_order_met(findings, str(_predicted(error)) if error else ""),
        gaps=gaps,
        uses_torch=_uses_torch(examined, resolution),
        call_error=_predicted(resolution.call_error) if resolution and resolution.call_error else None,
        cpu=linkage.hardware.cpu,
        needs=_needs_of_system(load),
        here=load.here,
    )
    if load.release.judged_as is None:
        return result
    from abiscan.verdict.unlisted_build import limited  # few torches are checked as another build

    return limited(result, load)


def _needs_of_system(load: ExtensionLoad) -> VersionNeeds:
    """Return the newest symbol versions that an extension and what it loads of its package need of the system."""
    loaded = load.resolution.closure.new if load.resolution else ()
    brought = (module.facts for module in loaded if module.facts and module.name in load.siblings)
    newest: dict[str, str] = {}
    # Many libraries need the same few versions.
    for name in {need.name for facts in (load.facts, *brought) for need in facts.version_needs if not need.weak}:
        if versioned := family_and_number(name):
            family, number = versioned
            newest[family] = max(newest.get(family, "0"), number, key=version_of)
    return VersionNeeds(glibc=newest.get("GLIBC"), glibcxx=newest.get("GLIBCXX"), cxxabi=newest.get("CXXABI"))


def _uses_torch(examined: ExaminedExtension, resolution: Resolution | None) -> bool:
    """Whether an extension uses torch, itself or through what it brings along; yes if something is missing."""
    if resolution is None or any(library.absence is Absence.EXTERNAL for library in resolution.closure.missing):
        return True
    loaded = (module.facts for module in resolution.closure.new)
    return examined.facts.refusal is not None or any(
        needs_torch(facts) for facts in (examined.facts, *loaded) if facts is not None
    )


def _make_verdict(error: LoadError | None, findings: Sequence[Finding], gaps: Sequence[Gap]) -> Verdict:
    # From the worst to the best: what is certain to fail is no longer in doubt.
    if error:
        return Verdict.FAILS
    if any(finding.effect is Effect.CORRUPTS for finding in findings):
        return Verdict.CORRUPTS
    return Verdict.UNKNOWN if any(gap.decides for gap in gaps) else Verdict.LOADS


def _predicted(error: LoadError) -> PredictedError:
    how = How.ABORTS if error.aborts else How.RAISES
    return PredictedError(how=how, object=error.object, message=error.message, exact=error.exact, signal=error.signal)
