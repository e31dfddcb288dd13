"""What a GPU runs of an extension, operator by operator, and what variants of wheels promise of that."""

from __future__ import annotations

import pytest

from abiscan.gpu.compatibility import Choice, CodeFit
from abiscan.gpu.devices import Gpu, find_gpu
from abiscan.gpu.drivers import Driver, cuda_of_driver, cuda_of_ptx, driver_for_runtime, driver_of_cuda, knows_ptx
from abiscan.gpu.model import CodeKind, Container, Entry
from abiscan.gpu.outcome import GpuOutcome, best_of, outcome_of
from abiscan.gpu.variants import (
    architecture_property,
    is_translated,
    lacking,
    lower_bound_of,
    promise_of_gpus,
    runs_all,
    stated_gpus,
    unknown_to_gpus,
    unstated_targets,
)
from abiscan.inputs.variants import VariantProperty, WheelVariant
from tests.unit.gpu.test_compatibility import cubin, on, ptx

ON_86 = on(86)


def box(*entries: Entry, relocatable: bool = False) -> Container:
    return Container(address=0, entries=entries, relocatable=relocatable)


RUNS, TRANSLATED, OTHER, ALONE = box(cubin(86)), box(ptx(80)), box(cubin(90)), box(cubin(90, "a"))


def outcome(gpu: Gpu = ON_86, *more: Container, **kernels: tuple[Container, ...]) -> GpuOutcome:
    """The outcome for operators, each of whose kernels is in one container."""
    operators = {name: tuple((one,) for one in boxes) for name, boxes in kernels.items()}
    every = [*dict.fromkeys(one for boxes in kernels.values() for one in boxes), *more]
    return outcome_of(operators, every, None, gpu, None)


def test_each_operator_by_its_kernels() -> None:
    result = outcome(all=(RUNS, TRANSLATED), some=(RUNS, OTHER, OTHER), jit=(TRANSLATED,), none=(OTHER, ALONE))
    assert {name: [choice.fit for choice in choices] for name, choices in result.operators.items()} == {
        "all": [CodeFit.NATIVE, CodeFit.JIT],
        "some": [CodeFit.NATIVE, CodeFit.NONE, CodeFit.NONE],
        "jit": [CodeFit.JIT],
        "none": [CodeFit.NONE, CodeFit.NONE],
    }
    assert list(result.failing) == ["none"]
    assert result.failing["none"].fit is CodeFit.NONE
    assert result.partial == {"some": 2}
    assert {name: choice.fit for name, choice in result.translated.items()} == {"jit": CodeFit.JIT}
    assert result.code["some"] == (RUNS, OTHER), "each container once"
    assert result.file.fit is CodeFit.NATIVE


def test_a_kernel_in_several_containers_is_the_best_of_them() -> None:
    result = outcome_of({"op": ((OTHER, TRANSLATED, RUNS), (OTHER, TRANSLATED))}, [], None, ON_86, None)
    assert [choice.fit for choice in result.operators["op"]] == [CodeFit.NATIVE, CodeFit.JIT]


def test_what_no_gpu_could_run_does_not_count() -> None:
    """Empty containers, and code for the device linker."""
    result = outcome_of({}, [box(), box(cubin(86), relocatable=True), box(relocatable=True), OTHER], None, ON_86, None)
    assert (result.every, [choice.fit for choice in result.containers]) == ((OTHER,), [CodeFit.NONE])
    assert outcome_of({}, [], None, ON_86, None).file.fit is CodeFit.NONE


@pytest.mark.parametrize("fit", [CodeFit.NATIVE, CodeFit.JIT, CodeFit.NONE])
def test_the_file_counts_where_no_operator_is_known(fit: CodeFit) -> None:
    code = {CodeFit.NATIVE: RUNS, CodeFit.JIT: TRANSLATED, CodeFit.NONE: OTHER}
    alone = outcome_of({}, [code[fit], OTHER], None, ON_86, None)
    assert [each for each in CodeFit if alone.file_fits(each)] == [fit]
    assert not any(outcome(op=(code[fit],)).file_fits(each) for each in CodeFit)
    assert not any(outcome_of({}, [], None, ON_86, None).file_fits(each) for each in CodeFit)


def test_the_best_of_several_choices() -> None:
    """The order of ``CodeFit`` is that of what a user prefers: it runs, it is translated, it does not run."""
    fits = list(CodeFit)
    assert [fit.runs for fit in fits] == sorted((fit.runs for fit in fits), reverse=True)
    choices = [Choice(fit=fit) for fit in reversed(fits)]
    assert best_of(choices).fit is CodeFit.NATIVE
    assert best_of(choices[:1]).fit is fits[-1]
    assert best_of([]).fit is CodeFit.NONE


@pytest.mark.parametrize(
    ("kernels", "lack", "runs", "translated"),
    [
        ({"a": (RUNS,), "b": (OTHER,)}, ["b"], False, False),
        ({"a": (RUNS,), "b": (ALONE,)}, [], True, False),  # code for one GPU alone: on others, another is chosen
        ({"a": (RUNS,), "b": (ALONE, OTHER)}, ["b"], False, False),
        ({"a": (ALONE,), "b": (ALONE,)}, ["a", "b"], False, False),  # but something has to run
        ({"a": (TRANSLATED,), "b": (TRANSLATED,)}, [], True, True),
        ({"a": (TRANSLATED,), "b": (RUNS,)}, [], True, False),
        ({"a": (TRANSLATED,), "b": (OTHER,)}, ["b"], False, True),
    ],
)
def test_what_an_extension_lacks_for_a_gpu(
    kernels: dict[str, tuple[Container, ...]], lack: list[str], *, runs: bool, translated: bool
) -> None:
    result = outcome(**kernels)  # type: ignore[arg-type]
    assert list(lacking(result)) == lack
    assert (runs_all(result), is_translated(result)) == (runs, translated)


def test_an_extension_whose_operators_are_not_known() -> None:
    for code, runs, translated in ((RUNS, True, False), (TRANSLATED, True, True), (OTHER, False, False)):
        result = outcome_of({}, [code], None, ON_86, None)
        assert (runs_all(result), is_translated(result)) == (runs, translated)


def variant(**values: str) -> WheelVariant:
    """A variant with properties of the provider for NVIDIA: values separated by blanks."""
    properties = (VariantProperty("nvidia", name, one) for name, text in values.items() for one in text.split())
    return WheelVariant(label="gpu", properties=tuple(properties))


def test_the_gpus_that_a_variant_states() -> None:
    """The values are those of CMake's ``CUDA_ARCHITECTURES``."""
    stated = stated_gpus(variant(sm_arch="90_real 120a_real 80_virtual 100f_real 7_real 90 any"))
    assert [(one.gpu.capability, one.is_real, one.stated.value) for one in stated] == [
        (90, True, "90_real"), (120, True, "120a_real"), (80, False, "80_virtual"), (100, True, "100f_real"),
    ]  # fmt: skip
    assert stated[0].gpu.target == "sm_90"


@pytest.mark.parametrize(
    ("properties", "lower", "upper"),
    [
        ({"cuda_version_lower_bound": "12.8 12.0"}, "12.0", None),
        ({"cuda_version_upper_bound": "13 12.8"}, None, "13"),
        ({"cuda_version_lower_bound": "12.8", "cuda_version_upper_bound": "13 14"}, "12.8", "14"),
        ({"sm_arch": "90_real"}, None, None),
    ],
)
def test_the_most_permissive_of_several_values_decides(
    properties: dict[str, str], lower: str | None, upper: str | None
) -> None:
    """PEP 825: a system needs one of the values."""
    promise = promise_of_gpus(variant(**properties), Driver(550))
    assert promise is not None
    assert (promise.lower.stated.value if promise.lower else None) == lower
    assert (promise.upper.stated.value if promise.upper else None) == upper
    assert (promise.driver, promise.outcomes) == (Driver(550), ())


def test_each_stated_gpu_with_the_oldest_driver() -> None:
    asked: list[tuple[str, Driver | None]] = []

    def run_on(gpu: Gpu, driver: Driver | None) -> GpuOutcome:
        asked.append((gpu.target, driver))
        return outcome(gpu)

    stated = variant(sm_arch="90_real 80_virtual", cuda_version_lower_bound="12.8")
    promise = promise_of_gpus(stated, None, run_on, [cubin(90), cubin(120), ptx(75)])
    assert promise is not None
    assert asked == [("sm_90", Driver(570, 26)), ("sm_80", Driver(570, 26))]  # CUDA 12.8's first
    assert [one.gpu.target for one, _ in promise.outcomes] == ["sm_90", "sm_80"]
    assert promise.unstated == ("sm_120",)
    assert promise_of_gpus(WheelVariant(label="x"), None, run_on) is None
    other = WheelVariant(label="x", properties=(VariantProperty("x86_64", "level", "v3"),))
    assert promise_of_gpus(other, None, run_on) is None


@pytest.mark.parametrize(
    ("stated", "entries", "unstated"),
    [
        ("90_real", [cubin(90), cubin(80)], ("sm_80",)),
        ("80_real", [cubin(86)], ()),  # a GPU 8.6 has the property 80_real as well
        ("86_real", [cubin(80)], ("sm_80",)),
        ("89_real", [cubin(90)], ("sm_90",)),  # another major version
        ("90_real", [cubin(120), cubin(100)], ("sm_100", "sm_120")),
        ("90_real", [ptx(80), Entry(kind=CodeKind.LTO, architecture=80)], ()),
        ("", [cubin(80)], ()),  # nothing is said of GPUs
    ],
)
def test_code_that_no_property_admits_a_gpu_for(stated: str, entries: list[Entry], unstated: tuple[str, ...]) -> None:
    assert unstated_targets(variant(sm_arch=stated), entries) == unstated


def test_properties_that_mean_nothing() -> None:
    stated = variant(sm_arch="90_real sm_90", cuda_version_lower_bound="12.8 new", colour="green")
    stated = WheelVariant(label="x", properties=(*stated.properties, VariantProperty("other", "colour", "red")))
    assert [(one.feature, one.value) for one in unknown_to_gpus(stated)] == [
        ("sm_arch", "sm_90"),
        ("cuda_version_lower_bound", "new"),
        ("colour", "green"),
    ]
    assert str(lower_bound_of((12, 8))) == "nvidia :: cuda_version_lower_bound :: 12.8"


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (cubin(90), "90_real"),
        (ptx(80), "80_virtual"),
        (cubin(90, "a"), "90_real"),  # no newer GPU of major version 9 is known
        (cubin(100, "a"), None),  # 10.3 would be given 100_real as well, and does not run it
        (cubin(100, "f"), "100_real"),
        (Entry(kind=CodeKind.LTO, architecture=90), None),
        (Entry(kind=CodeKind.HIP, gfx="gfx942"), None),
    ],
)
def test_the_property_that_is_true_of_code(entry: Entry, value: str | None) -> None:
    stated = architecture_property(entry)
    assert (stated.value if stated else None) == value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("12.1", "sm_121"),
        ("sm_90", "sm_90"),
        ("SM_90", "sm_90"),
        ("90", "90 (sm_90)"),
        ("RTX 5090", "RTX 5090 (sm_120)"),
        ("gfx942", "gfx942"),
        ("MI300X", "MI300X (gfx942)"),
        ("GeForce RTX 3080 Ti", "GeForce RTX 3080 Ti (sm_86)"),
        ("nvidia  rtx4090", None),
        ("NVIDIA RTX4090", "NVIDIA RTX4090 (sm_89)"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 (sm_90)"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA RTX PRO 6000 Blackwell Server Edition (sm_120)"),
    ],
)
def test_how_a_gpu_is_shown(text: str, shown: str | None) -> None:
    gpu = find_gpu(text)
    assert gpu is not None
    assert str(gpu) == (shown or f"{' '.join(text.split())} (sm_89)")


@pytest.mark.parametrize(
    ("text", "shown"), [("570.26", "570.26"), ("565", "565"), ("535.54.3", "535.54.03"), ("450.36.06", "450.36.06")]
)
def test_how_a_driver_is_shown(text: str, shown: str) -> None:
    assert str(Driver.parse(text)) == shown


@pytest.mark.parametrize(
    ("cuda", "driver"), [((12, 8), "570.26"), ((12, 6), "555.42.02"), ((13, 9), "590.44.01"), ((10, 1), None)]
)
def test_the_driver_of_a_cuda(cuda: tuple[int, int], driver: str | None) -> None:
    """CUDA's release notes, table 3: the oldest that comes with it, or with the one before it that is listed."""
    found = driver_of_cuda(cuda)
    assert (str(found) if found else None) == driver


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("570.26", (12, 8)), ("570.27", (12, 9)), ("400", (10, 2)), ("590.44.01", (13, 1)), ("600", None)],
)
def test_the_cuda_all_of_whose_drivers_are_as_new(driver: str, cuda: tuple[int, int] | None) -> None:
    parsed = Driver.parse(driver)
    assert parsed is not None
    assert cuda_of_driver(parsed) == cuda


def test_what_brought_a_version_of_ptx() -> None:
    assert (cuda_of_ptx((8, 7)), cuda_of_ptx((9, 5)), cuda_of_ptx((6, 4))) == ((12, 8), (13, 5), None)
    newest = Driver(590, 44, 1)  # the first with CUDA 13.1, as CUDA's release notes have it; later ones may know more
    assert [knows_ptx(driver, (9, 2)) for driver in (Driver(590, 44), newest, Driver(591))] == [False, False, None]
    # CUDA, "Minor Version Compatibility", table 2.
    assert [str(driver_for_runtime(major)) for major in (10, 11, 12, 13, 14)] == ["None", "450", "525", "580", "None"]
