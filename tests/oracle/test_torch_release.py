"""What is read from torch's own libraries, against what torch itself says of its dispatcher.

Live: torch 2.13.0 of the interpreter that runs the tests, in a process of its own. Recorded: ``ABISCAN_GROUND_TRUTH``
is a folder with ``torch/torch-<version>.json.gz`` (``schemas``, ``dumps``; for 1.5.0 ``probe``), ``ABISCAN_TORCHES``
one with ``<version>/torch``, the package as the wheel has it. Only what C++ registers counts: a kernel or operator that
says it was registered in a Python file is none of the libraries'. Schemas are compared as torch 2.13.0 prints them.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Kernel, Operators, RegistryEntry
from abiscan.inputs.files import Files
from abiscan.torches import embedded, embedded_operators
from abiscan.torches.from_libs import from_path, identify_libraries, read_operators
from tests import live_torch
from tests.oracle import dispatcher_digests
from tests.oracle.dispatcher_digests import kernels_in, operators_in

LIVE = "2.13.0"
TRUTH, TORCHES = os.environ.get("ABISCAN_GROUND_TRUTH"), os.environ.get("ABISCAN_TORCHES")

ALIASES = re.compile(r"\w+(\|\w+)+")  # a set, printed in the order of its hashes

ASK = """
import json, sys, torch
C = torch._C
names = [C._dispatch_get_all_op_names(), C.DispatchKey.__members__]
aliases = [a for a in names[1] if C._dispatch_is_alias_key(names[1][a])]
tags = {}
for name in names[0]:
    base, _, overload = name.partition(".")
    if C._dispatch_has_kernel(name):
        found = C._get_operation_overload(base, overload)
        tags[name] = sorted(str(tag).rpartition(".")[2] for tag in found[2]) if found else []
json.dump({
    "dumps": {name: C._dispatch_dump(name) for name in names[0]},
    "keys": {name: int(key) for name, key in names[1].items()},
    "aliases": {
        a: [k for k in names[1] if C._dispatch_is_included_in_alias(names[1][k], names[1][a])] for a in aliases
    },
    "tags": tags,
    "fallbacks": [
        C._dispatch_key_name(C.DispatchKey(number)) for number in range(256)
        if C._dispatch_has_backend_fallback(C.DispatchKey(number))
    ],
}, sys.stdout)
"""
PRINT = """
import json, sys, torch
def printed(text):
    try:
        return str(torch._C.parse_schema(text.replace("Dimname", "str")))  # that is what it was as long as it existed
    except RuntimeError:  # names a class that this torch has not
        return text
json.dump([printed(text) for text in json.load(sys.stdin)], sys.stdout)
"""


def of_torch(code: str, given: object = None) -> Any:
    return json.loads(live_torch.run(code, input=json.dumps(given), check=True).stdout)


needs_torch = pytest.mark.skipif(live_torch.version() != LIVE, reason=f"needs torch {LIVE} in this interpreter")


def read(package: Path) -> Operators:
    files = Files()
    return read_operators(from_path(package, files), files)


def printed(rows: Iterable[tuple[str, str | None, str | None, int | None]]) -> Counter[tuple[object, ...]]:
    """The rows with each schema as torch prints it."""
    listed = list(rows)
    texts = [
        ALIASES.sub(lambda match: "|".join(sorted(match[0].split("|"))), text)
        for text in of_torch(PRINT, [schema for _, schema, _, _ in listed])
    ]
    return Counter((name, text, *rest) for (name, _, *rest), text in zip(listed, texts, strict=True))


def check_dumps(found: Operators, dumps: Mapping[str, str]) -> None:
    expected = Counter(kernels_in(dumps))
    given = Counter((k.operator, k.key, k.file, k.line, k.schema) for k in found.kernels)
    assert expected - given == Counter()
    assert given - expected == Counter()
    assert expected.total() > 15_000
    defined = printed((o.name, o.schema, o.file, o.line) for o in found.operators.values())
    assert defined == printed(operators_in(dumps))
    assert found.gaps == ()


@pytest.fixture(scope="module")
def live() -> Any:
    return of_torch(ASK)


@needs_torch
def test_the_libraries_say_what_the_dispatcher_says(static: Operators, live: Any) -> None:
    check_dumps(static, live["dumps"])


@needs_torch
def test_keys_are_those_of_torch(static: Operators, live: Any) -> None:
    numbers = {name: number for number, name in static.keys.items() if name != "Undefined"}
    # DispatchKey of Python names each key that it has by its own name, and some by an old one as well.
    same = {name: number for name, number in live["keys"].items() if name in numbers}
    assert same == {name: numbers[name] for name in same}
    assert len(same) > 100


@needs_torch
def test_alias_sets_are_those_of_torch(static: Operators, live: Any) -> None:
    assert static.aliases.keys() == live["aliases"].keys()
    for alias, members in live["aliases"].items():
        known = (live["keys"].keys() & set(static.keys.values())) - live["aliases"].keys()
        assert static.aliases[alias] & known == set(members) & known


@needs_torch
def test_tags_are_those_of_torch(static: Operators, live: Any) -> None:
    given = {name: sorted(operator.tags) for name, operator in static.operators.items() if name in live["tags"]}
    assert given == {name: live["tags"][name] for name in given}
    assert len(given) > 3000


@needs_torch
def test_fallbacks_are_those_of_torch(static: Operators, live: Any) -> None:
    """Of a functionality, and of the mark where its keys begin, torch says what it says of its first key."""
    marks = {"AutogradFunctionality", "AutogradUndefined"}
    assert {fallback.key for fallback in static.fallbacks} == set(live["fallbacks"]) - marks


@needs_torch
@pytest.mark.skipif(not TRUTH or not TORCHES, reason="needs ABISCAN_GROUND_TRUTH and ABISCAN_TORCHES")
@pytest.mark.parametrize("version", ["2.5.1", "2.8.0"])
def test_recorded_releases(version: str) -> None:
    assert TRUTH is not None
    assert TORCHES is not None
    truth = json.loads(gzip.decompress((Path(TRUTH) / "torch" / f"torch-{version}.json.gz").read_bytes()))
    check_dumps(read(Path(TORCHES) / version / "torch"), truth["dumps"])


@pytest.fixture(scope="module")
def known() -> Operators:
    """What the package knows of the very build that is installed: one for CPUs has not the kernels of one with CUDA."""
    build = live_torch.build()
    assert build is not None
    if build not in {full for _, machine, full in embedded.builds() if machine is Machine.X86_64}:
        pytest.skip(f"needs an embedded torch {build}")
    return embedded_operators.operators(build, Machine.X86_64)


@needs_torch
def test_the_package_knows_what_the_dispatcher_says(known: Operators, live: Any) -> None:
    check_dumps(known, live["dumps"])


@needs_torch
def test_the_package_knows_what_is_read_from_the_libraries(known: Operators, static: Operators) -> None:
    assert known.operators == static.operators
    assert by_operator(known.kernels) == by_operator(static.kernels)
    assert (known.fallbacks, known.namespaces, known.classes) == (
        static.fallbacks,
        static.namespaces,
        static.classes,
    )
    assert (known.keys, known.aliases, known.gaps) == (static.keys, static.aliases, static.gaps)


@needs_torch
def test_other_registries_have_what_an_extension_cannot_enter_again(static: Operators) -> None:
    # registry_conflict-key_torch.so, -settings_torch.so: their loads are recorded.
    assert static.entries is not None
    assert RegistryEntry("ThreadPoolRegistry", "C10", 2) in static.entries
    assert RegistryEntry("AcceleratorAllocatorConfig", "max_split_size_mb", None) in static.entries
    assert RegistryEntry("device-guard", "CPU", None) in static.entries


def by_operator(kernels: Iterable[Kernel]) -> dict[str, list[Kernel]]:
    found = defaultdict(list)
    for kernel in kernels:
        found[kernel.operator].append(kernel)
    return found


@needs_torch
def test_the_package_recognises_the_build() -> None:
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    files = Files()
    release = from_path(Path(spec.origin).parent, files)
    assert embedded_operators.find_build(identify_libraries(release, files), release.machine) == release.build


@pytest.mark.parametrize("version", ["1.5.0", "2.5.1", "2.8.0", "2.13.0"])
def test_the_package_knows_what_was_recorded(version: str) -> None:
    expected = json.loads(dispatcher_digests.FILE.read_text("utf-8"))[version]
    given = dispatcher_digests.of_operators(embedded_operators.operators(version, Machine.X86_64))
    assert {kind: given[kind] for kind in expected} == expected


@needs_torch
@pytest.mark.skipif(not TRUTH, reason="needs ABISCAN_GROUND_TRUTH")
@pytest.mark.parametrize("version", ["2.5.1", "2.8.0", "2.13.0"])
def test_the_package_knows_what_was_recorded_in_full(version: str) -> None:
    assert TRUTH is not None
    truth = json.loads(gzip.decompress((Path(TRUTH) / "torch" / f"torch-{version}.json.gz").read_bytes()))
    check_dumps(embedded_operators.operators(version, Machine.X86_64), truth["dumps"])


@pytest.mark.skipif(not TRUTH or not TORCHES, reason="needs ABISCAN_GROUND_TRUTH and ABISCAN_TORCHES")
def test_the_probe_of_the_time_before_dumps() -> None:
    """In 1.5 a probe in C++ asked the dispatcher for each operator's keys; CATCH-ALL is the kernel without one."""
    assert TRUTH is not None
    assert TORCHES is not None
    truth = json.loads(gzip.decompress((Path(TRUTH) / "torch" / "torch-1.5.0.json.gz").read_bytes()))
    found = read(Path(TORCHES) / "1.5.0" / "torch")
    given: dict[str, set[str]] = {name: set() for name in found.operators}
    for kernel in found.kernels:
        given[kernel.operator].add(kernel.key or "CATCH-ALL")
    expected = {name: {key.partition(" ")[0] for key in keys} for name, (_, *keys) in truth["probe"].items()}
    assert given == expected
