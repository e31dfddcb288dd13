"""Which code runs where: the rules of the CUDA programming guide, and torch's own table."""

from __future__ import annotations

import pytest

from abiscan.gpu.compatibility import CodeFit, choose_code, fits_gpu
from abiscan.gpu.devices import Gpu, find_gpu
from abiscan.gpu.drivers import Driver, driver_for_ptx, knows_ptx
from abiscan.gpu.model import CodeKind, Compression, Container, Entry

CAPABILITIES = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)


def on(capability: int) -> Gpu:
    return Gpu(name=str(capability), capability=capability)


def cubin(architecture: int, variant: str = "", compression: Compression = Compression.NONE) -> Entry:
    return Entry(kind=CodeKind.CUBIN, architecture=architecture, variant=variant, compression=compression)


def ptx(architecture: int, variant: str = "", isa: tuple[int, int] = (8, 7)) -> Entry:
    return Entry(kind=CodeKind.PTX, architecture=architecture, variant=variant, ptx_isa=isa)


@pytest.mark.slow
def test_machine_code_is_judged_as_torch_judges_its_own() -> None:
    cuda = pytest.importorskip("torch.cuda")
    table = cuda.DEVICE_REQUIREMENT
    assert len(table) >= 20
    wrong = {
        (code, device): device in devices
        for code, devices in table.items()
        for device in CAPABILITIES
        if fits_gpu(cubin(code), on(device), (12, 9)) is not (device in devices)
    }
    assert wrong == {}


def test_from_cuda_13_2_on_jetson_runs_code_for_other_boards() -> None:
    assert not fits_gpu(cubin(80), on(87), (13, 1))
    assert fits_gpu(cubin(80), on(87), (13, 2))
    assert fits_gpu(cubin(80), on(87), None)  # it may be
    assert not fits_gpu(cubin(87), on(86), (13, 2))


@pytest.mark.parametrize(
    ("entry", "runs_on"),
    [
        (cubin(90, "a"), {90}),
        (cubin(120, "a"), {120}),
        (cubin(100, "f"), {100, 103}),
        (cubin(120, "f"), {120, 121}),
        (ptx(90), {90, 100, 103, 110, 120, 121}),
        (ptx(90, "a"), {90}),
        (ptx(100, "f"), {100, 103}),
        (Entry(kind=CodeKind.LTO, architecture=80), set()),
        (Entry(kind=CodeKind.HIP, gfx="gfx942"), set()),
    ],
)
def test_variants_and_ptx(entry: Entry, runs_on: set[int]) -> None:
    assert {capability for capability in CAPABILITIES if fits_gpu(entry, on(capability))} == runs_on


@pytest.mark.parametrize(
    ("code", "device", "runs"),
    [
        ("gfx90a", "gfx90a", True),
        ("gfx90a:sramecc+:xnack-", "gfx90a", True),
        ("gfx90a:xnack-", "gfx90a:xnack+", False),
        ("gfx1100", "gfx1101", False),
        ("gfx11-generic", "gfx1101", True),
        ("gfx9-4-generic", "gfx90a", False),
        ("amdgcnspirv", "gfx1201", True),
    ],
)
def test_code_for_gpus_of_amd(code: str, device: str, *, runs: bool) -> None:
    target = find_gpu(device)
    assert target is not None
    assert fits_gpu(Entry(kind=CodeKind.HIP, gfx=code), target) is runs


def chosen(entries: list[Entry], capability: int, driver: str | None = None) -> tuple[CodeFit, str | None]:
    found = Driver.parse(driver) if driver else None
    choice = choose_code([Container(address=0, entries=tuple(entries))], on(capability), found)
    return choice.fit, choice.entry.target if choice.entry else None


@pytest.mark.parametrize(
    ("entries", "driver", "expected"),
    [
        ([ptx(80), cubin(80), cubin(86)], None, (CodeFit.NATIVE, "sm_86")),
        ([cubin(90, "a"), cubin(80)], None, (CodeFit.NATIVE, "sm_80")),
        ([ptx(80), ptx(75)], None, (CodeFit.JIT, "compute_80")),
        ([ptx(80)], "565.10", (CodeFit.PTX_TOO_NEW, "compute_80")),
        ([ptx(80), cubin(80)], "565.10", (CodeFit.NATIVE, "sm_80")),
        ([cubin(80, "", Compression.ZSTD), ptx(80)], "535.54.03", (CodeFit.COMPRESSION_TOO_NEW, "sm_80")),
        ([cubin(90)], None, (CodeFit.NONE, None)),
    ],
)
def test_what_the_runtime_chooses_for_8_6(
    entries: list[Entry], driver: str | None, expected: tuple[CodeFit, str | None]
) -> None:
    assert chosen(entries, 86, driver) == expected


def test_of_several_containers_the_best() -> None:
    containers = [Container(address=0, entries=(cubin(90),)), Container(address=8, entries=(ptx(80),))]
    assert choose_code(containers, on(86)).fit is CodeFit.JIT
    linked_later = Container(address=0, entries=(cubin(86),), relocatable=True)
    assert choose_code([linked_later], on(86)).fit is CodeFit.NONE


@pytest.mark.parametrize(
    ("driver", "version", "known"),
    [
        ("570.26", (8, 7), True),
        ("570.25", (8, 7), False),
        ("565.57.01", (8, 6), True),
        ("580.65.06", (9, 0), True),
        ("580.65.06", (9, 2), False),
        ("600.10", (9, 2), None),  # which driver is the first is not known
        ("400", (6, 4), True),
    ],
)
def test_drivers_and_ptx(driver: str, version: tuple[int, int], *, known: bool | None) -> None:
    parsed = Driver.parse(driver)
    assert parsed is not None
    assert knows_ptx(parsed, version) is known


def test_versions_of_drivers() -> None:
    assert str(Driver.parse("535.54.03")) == "535.54.03"
    assert str(driver_for_ptx((8, 7))) == "570.26"
    assert all(Driver.parse(text) is None for text in ("", "570.x", "1.2.3.4", "-5", "999999"))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("12.1", "sm_121"),
        ("sm_90a", "sm_90"),
        ("120", "sm_120"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm_89"),
        ("NVIDIA A100-SXM4-80GB", "sm_80"),
        ("RTX 5090", "sm_120"),
        ("gb10", "sm_121"),
        ("GFX90A:xnack-", "gfx90a:xnack-"),
        ("AMD Instinct MI300X", "gfx942"),
        ("GTX 9999", None),
        ("", None),
        ("1" * 400, None),
    ],
)
def test_names_of_gpus(text: str, target: str | None) -> None:
    known = find_gpu(text)
    assert (known.target if known else None) == target
