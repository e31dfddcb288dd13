"""Worlds of facts as text: objects by path, a torch, a Python. Nothing in them is a file.

A case in ``cases/`` says what differs from ``BASE``, the world of a CPU build of torch on an ordinary Linux:

    {"extension": "/site/pkg/_C.so",
     "objects": {"/site/pkg/_C.so": {"needed": ["libc10.so"], "references": ["_ZN3c106DeviceEv"]}}}

``defines`` lists ``name``, ``name@@VERSION`` or ``name@VERSION`` (hidden); ``references`` lists ``name`` or
``name@VERSION:file``, with ``weak`` before it where it is. An object of null is taken out of the world. What is left
out is empty. ``built_for`` are the releases that the extension can have been built for, ``classes`` those whose type
information it has: each a name, its base (both mangled) and the number of its virtual functions. ``gpu`` has the GPUs
and the driver to check for, and the code for GPUs, by operator; ``cpu`` the processors, and what each file uses;
``static_tls`` is the size of the thread-local variables that an object must have in the static block, ``refusal`` the
words with which ``ld.so`` refuses its file. ``variant`` has what the wheel says of its variant, the first driver that
runs it, and the features that its code has.
"""

from __future__ import annotations

import copy
import itertools
import json
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from abiscan.binary.elf import Machine, Reference, SharedObject, SymbolVersion, ThreadVariables
from abiscan.binary.loadable import LoaderRefusal
from abiscan.binary.ownership import is_torch_library
from abiscan.binary.symbols import Definition, SymbolTable
from abiscan.binary.typeinfo import BaseTable, CxxClass, Slot
from abiscan.cpu.needs import CpuAtLoad, CpuNeeds, CpuReach, CpuUse
from abiscan.cpu.processors import Cpu, cpu
from abiscan.cpu.variants import admitted_cpu, unknown_to_cpus
from abiscan.gpu.devices import find_gpu
from abiscan.gpu.drivers import Driver
from abiscan.gpu.model import CodeKind, Compression, Container, Entry
from abiscan.gpu.outcome import outcome_of
from abiscan.gpu.variants import promise_of_gpus, unknown_to_gpus
from abiscan.inputs.files import OpenedFile
from abiscan.inputs.interpreter import Interpreter, PythonTag
from abiscan.inputs.requirement import metadata_of
from abiscan.inputs.variants import variant_of_wheel
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.first_error import first_error
from abiscan.linkage.illegal_instruction import illegal_instructions
from abiscan.linkage.layout_drift import collect_shared, compare_layouts, predict_crash
from abiscan.linkage.linkage import ExtensionLoad, HardwareFit, Linkage
from abiscan.linkage.promises import Declaration, Promise, Promises, ReleaseOutcome
from abiscan.linkage.resolve import resolve_load
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch_layouts import of_release
from tests.registrations import registering

NEW_STRING: Final = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

EXTENSION: Final = "/site/pkg/_C.so"
BASE: Final[dict[str, Any]] = {
    "torch": {
        "build": "2.9.1+cpu",
        "package": "/site/torch",
        "python": "3.11",
        "global": ["/site/torch/lib/libtorch_global_deps.so"],
        "local": ["/site/torch/_C.cpython-311-x86_64-linux-gnu.so"],
    },
    "python": {"tag": "3.11", "program": "/usr/bin/python3.11", "full_version": "3.11.9 (main) [GCC 12.2.0]"},
    "search": {"system": ["/lib"]},
    "objects": {
        "/usr/bin/python3.11": {
            "executable": True,
            "needed": ["libc.so.6"],
            "defines": ["PyModule_Create2", "Py_GetVersion", "_Py_NoneStruct"],
        },
        "/lib/libc.so.6": {"soname": "libc.so.6", "defines": ["malloc@@GLIBC_2.2.5"], "versions": ["GLIBC_2.34"]},
        "/lib/libstdc++.so.6": {
            "soname": "libstdc++.so.6",
            "needed": ["libc.so.6"],
            "defines": ["_Znwm@@GLIBCXX_3.4"],
            "versions": ["GLIBCXX_3.4.9", "GLIBCXX_3.4.30", "CXXABI_1.3.13"],
        },
        "/site/torch/lib/libtorch_global_deps.so": {"soname": "libtorch_global_deps.so", "needed": ["libc.so.6"]},
        "/site/torch/lib/libc10.so": {
            "soname": "libc10.so",
            "needed": ["libstdc++.so.6"],
            "defines": [
                "_ZN3c105ErrorC2ERKS0_",  # the copy constructor tells nothing about strings
                f"_ZN3c105ErrorC2ENS_14SourceLocationE{NEW_STRING}",
                "_ZN3c104warnEv",
            ],
        },
        "/site/torch/lib/libtorch_cpu.so": {
            "soname": "libtorch_cpu.so",
            "needed": ["libc10.so"],
            "runpath": ["$ORIGIN"],
            "defines": ["_ZN2at15get_num_threadsEv", "_ZN2at4fillERNS_6TensorEd", "_ZN2at4nameB5cxx11Ev"],
        },
        "/site/torch/lib/libtorch_python.so": {
            "soname": "libtorch_python.so",
            "needed": ["libtorch_cpu.so"],
            "runpath": ["$ORIGIN"],
            "defines": ["_Z16THPVariable_WrapRKN2at10TensorBaseE"],
            "pybind11_internals": "__pybind11_internals_v11_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1__",
        },
        "/site/torch/_C.cpython-311-x86_64-linux-gnu.so": {
            "needed": ["libtorch_python.so"],
            "runpath": ["$ORIGIN/lib"],
            "defines": ["PyInit__C"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class ObjectsByPath:
    """What ``Loader`` sees: the objects of a world, and nothing else."""

    objects: Mapping[str, SharedObject]

    def open_library(self, path: str) -> OpenedFile | None:
        """The object at ``path``."""
        return OpenedFile(identity=path, facts=self.objects[path]) if path in self.objects else None

    def find_folder(self, folder: str, _subfolders: tuple[str, ...] = ()) -> tuple[str, tuple[str, ...]]:
        """Every folder is there, and none is a link."""
        return posixpath.normpath(folder), ()


def shared_object(
    *,
    machine: str = "x86_64",
    executable: bool = False,
    soname: str | None = None,
    needed: Iterable[str] = (),
    rpath: Iterable[str] = (),
    runpath: Iterable[str] = (),
    defines: Iterable[str] = (),
    references: Iterable[str] = (),
    versions: Iterable[str] | None = None,
    needs_versions: Iterable[str] = (),
    pybind11_internals: str | None = None,
    pybind11_python: Iterable[str] = (),
    eager: int | None = None,
    copies: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    refusal: str | None = None,
    isa_needed: int = 0,
    static_tls: int = 0,
    executable_stack: bool = False,
) -> SharedObject:
    """The facts of an object, from text."""
    definitions: dict[str, tuple[Definition, ...]] = {}
    numbers: dict[str, int] = {}
    for text in defines:
        name, _, version = text.partition("@")
        hidden, version = bool(version) and not version.startswith("@"), version.lstrip("@")
        number = numbers.setdefault(version, 2 + len(numbers)) if version else 1
        definition = Definition(version or None, hidden, number, 2, (sizes or {}).get(name, 8))
        definitions[name] = (*definitions.get(name, ()), definition)
    found = tuple(map(reference, references))
    all_versions = {*numbers, *(versions or ())}
    needs = [one.version for one in found if one.version] + [_version(text) for text in needs_versions]
    return SharedObject(
        machine=Machine(machine),
        executable=executable,
        soname=soname,
        needed=tuple(needed),
        rpath=tuple(rpath),
        runpath=tuple(runpath),
        build_id=None,
        version_needs=tuple(dict.fromkeys(needs)),
        version_definitions=frozenset(all_versions) if all_versions or versions is not None else None,
        symbols=SymbolTable(definitions),
        references=found,
        imports=frozenset(one.name for one in found),
        pybind11_internals=pybind11_internals,
        pybind11_python=tuple(pybind11_python),
        eager=eager,
        copies=copies or {},
        refusal=LoaderRefusal(message=refusal) if refusal else None,
        isa_needed=isa_needed,
        thread_variables=ThreadVariables(size=static_tls, alignment=16, lead=0) if static_tls else None,
        static_tls=((len(found), None),) if static_tls else (),
        executable_stack=executable_stack,
    )


def reference(text: str) -> Reference:
    """A reference from ``[weak ]name[@VERSION:file]``."""
    rest = text.removeprefix("weak ")
    name, _, version = rest.partition("@")
    return Reference(name, _version(version) if version else None, rest != text)


def _version(text: str) -> SymbolVersion:
    rest = text.removeprefix("weak ")
    version, _, file = rest.partition(":")
    return SymbolVersion(file, version, rest != text)


def tag(text: str) -> PythonTag:
    """``3.11``, or ``3.13t``."""
    version = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    major, minor = version.split(".")
    return PythonTag(major=int(major), minor=int(minor), flags=text.removeprefix(version))


def linkage(case: Mapping[str, Any]) -> Linkage:
    """The load that a case describes, judged as ``scan`` does it."""
    world = _merged(case)
    objects = {path: shared_object(**fields) for path, fields in world["objects"].items()}
    torch, python, path = world["torch"], world["python"], world["extension"]
    lib = posixpath.join(torch["package"], "lib")
    release = TorchRelease(
        build=torch["build"],
        package=torch["package"],
        machine=Machine(torch.get("machine", "x86_64")),
        python=tag(torch["python"]),
        libraries=tuple(sorted(object_path for object_path in objects if posixpath.dirname(object_path) == lib)),
        global_libraries=tuple(torch["global"]),
        local_libraries=tuple(torch["local"]),
    )
    program = python["program"] if python else None
    interpreter = (
        Interpreter(
            tag=tag(python["tag"]),
            executable=Path(program) if program else None,
            full_version=python.get("full_version"),
        )
        if python
        else None
    )
    loader = Loader(ObjectsByPath(objects), SearchPath(**world["search"]), release.machine)
    facts = objects[path]
    resolution = None
    if facts.machine is release.machine:
        if facts.executable:
            process = loader.for_program((*release.global_libraries, *release.local_libraries))
        else:
            process = loader.start_process(
                (program,) if program else (),
                global_libraries=release.global_libraries,
                libraries=release.local_libraries,
            )
        resolution = resolve_load(process, loader.open(process, path))
    libraries = {posixpath.basename(path): objects[path] for path in release.libraries}
    replayed = registering(case, posixpath.basename(path), TorchVersion(str(release.version)))
    classes = tuple(
        CxxClass(name, (base,), slots, (BaseTable(base, slots),))
        for name, base, count in case.get("classes", ())
        for slots in [tuple(Slot(symbol=None, own=True) for _ in range(count))]
    )
    origin = tuple(map(TorchVersion, case.get("built_for", ())))
    sharing = collect_shared(posixpath.basename(path), facts, classes, replayed.own if replayed else None, origin)
    drift = (
        compare_layouts(sharing, of_release(str(release.version), facts.machine))
        if resolution and not resolution.error
        else None
    )
    drifts = (drift,) if drift else ()
    needs, cpus = _cpu(case.get("cpu"))
    illegal = next(iter(illegal_instructions(needs, cpus)), None)
    return Linkage(
        load=ExtensionLoad(
            name=posixpath.basename(path),
            facts=facts,
            release=release,
            interpreter=interpreter,
            torch_libraries={name: facts for name, facts in libraries.items() if is_torch_library(name)},
            resolution=resolution,
            error=first_error(
                path, facts, resolution, interpreter, replayed, predict_crash(drifts, release.version), illegal
            ),
            defined_in_python=case.get("defined_in_python", {}),
            registering=replayed,
            drifts=drifts,
            built_for=origin,
        ),
        hardware=HardwareFit(cpu=needs, cpus=cpus, **_gpu(case.get("gpu", {}))),
        promises=Promises(
            package=case.get("package", ""),
            package_version=case.get("package_version", ""),
            wheel=case.get("wheel", ""),
            requires_torch=(
                metadata_of([case["requires_torch"]], "").requires_torch if "requires_torch" in case else None
            ),
            declaration=_declaration(case.get("declaration")),
            variant=_promise(case),
        ),
    )


def _cpu(fields: Mapping[str, Any] | None) -> tuple[CpuNeeds | None, tuple[Cpu, ...]]:
    """Processors by name, and the features that each file uses at load: ``avx2``, or ``avx2 in module``; operators."""
    if fields is None:
        return None, ()
    files = {name: CpuAtLoad(uses=tuple(map(_use, uses))) for name, uses in fields["files"].items()}
    cpus = tuple(known for name in fields["on"] if (known := cpu(name)) is not None)
    operators = {
        name: CpuReach(uses=tuple(map(_use, uses)), behind=(), is_whole=True)
        for name, uses in fields.get("operators", {}).items()
    }
    return CpuNeeds(machine=Machine.X86_64, files=files, operators=operators), cpus


def _use(text: str) -> CpuUse:
    feature, _, place = text.partition(" ")
    in_module = place == "in module"
    return CpuUse(feature=feature, address=0x1010, symbol=None, initialiser=0x1000, source=None, in_module=in_module)


def _gpu(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Code for GPUs: containers by operator, each a list of targets as ``sm_90a zstd`` or ``compute_80 8.7``."""
    gpus = tuple(known for name in fields.get("on", ()) if (known := find_gpu(name)) is not None)
    driver = Driver.parse(fields["driver"]) if "driver" in fields else None
    own = fields.get("torch", {})
    operators, containers = _containers(fields)
    return {
        "gpus": tuple(outcome_of(operators, containers, (12, 8), each, driver) for each in gpus),
        "torch_runs": {each: own[each.name] for each in gpus if each.name in own},
    }


def _containers(
    fields: Mapping[str, Any],
) -> tuple[dict[str, tuple[tuple[Container, ...], ...]], tuple[Container, ...]]:
    """The containers of each operator, and all of them."""
    numbers = itertools.count(0x1000, 16)
    operators: dict[str, tuple[tuple[Container, ...], ...]] = {
        operator: tuple((Container(address=next(numbers), entries=tuple(map(_entry, kernel))),) for kernel in kernels)
        for operator, kernels in fields.get("operators", {}).items()
    }
    others = (Container(address=next(numbers), entries=tuple(map(_entry, each))) for each in fields.get("others", ()))
    return operators, (
        *(container for kernels in operators.values() for kernel in kernels for container in kernel),
        *others,
    )


def _promise(case: Mapping[str, Any]) -> Promise | None:
    """What the wheel says: ``label``, ``properties`` as in ``variant.json``, or the whole of that as ``text``."""
    if "variant" not in case:
        return None
    fields = case["variant"]
    label = fields.get("label", "v")
    text = fields.get("text", json.dumps({"variants": {label: fields.get("properties", {})}}))
    variant = variant_of_wheel(label, text)
    assert variant is not None
    operators, containers = _containers(case.get("gpu", {}))
    return Promise(
        variant=variant,
        cpu=admitted_cpu(variant, Machine.X86_64),
        code=frozenset(fields["code"]) if "code" in fields else None,
        gpu=promise_of_gpus(
            variant,
            Driver.parse(fields["driver"]) if "driver" in fields else None,
            (lambda gpu, driver: outcome_of(operators, containers, (12, 8), gpu, driver)) if containers else None,
            [entry for container in containers for entry in container.entries],
        ),
        unknown=(*unknown_to_cpus(variant), *unknown_to_gpus(variant)),
    )


def _entry(text: str) -> Entry:
    name, *more = text.split()
    if name.startswith("gfx"):
        return Entry(kind=CodeKind.HIP, gfx=name)
    kind, _, number = name.partition("_")
    version = next((word for word in more if "." in word), None)
    return Entry(
        kind=CodeKind.PTX if kind == "compute" else CodeKind.CUBIN,
        architecture=int(number.rstrip("af")),
        variant=number[len(number.rstrip("af")) :],
        ptx_isa=(int(version.partition(".")[0]), int(version.partition(".")[2])) if version else None,
        compression=Compression.ZSTD if "zstd" in more else Compression.NONE,
    )


def _declaration(fields: Mapping[str, Any] | None) -> Declaration | None:
    if fields is None:
        return None
    names = ("release", "admitted", "error", "wheel_works")
    outcomes = tuple(ReleaseOutcome(**dict(zip(names, each, strict=True))) for each in fields["outcomes"])
    return Declaration(**{**fields, "outcomes": outcomes})


def _merged(case: Mapping[str, Any]) -> dict[str, Any]:
    world = copy.deepcopy(BASE)
    world["torch"] |= case.get("torch", {})
    world["search"] |= case.get("search", {})
    python = case.get("python", {})
    world["python"] = None if python is None else world["python"] | python
    for path, fields in case.get("objects", {}).items():
        if fields is None:
            del world["objects"][path]
        else:
            world["objects"][path] = fields
    world["extension"] = case.get("extension", EXTENSION)
    world["objects"].setdefault(world["extension"], {"needed": ["libtorch_cpu.so"], "defines": ["PyInit__C"]})
    return world
