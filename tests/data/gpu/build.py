"""Build the samples with code for GPUs, and record what ``cuobjdump`` lists in them.

    pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-cuobjdump
    python tests/data/gpu/build.py FOLDER_OF_THE_TOOLKIT        # site-packages/nvidia/cu13

Each sample has three kernels, each in a container of its own, and the operators of ``operators.cpp``: ``add``,
``scale`` and ``fill`` launch one kernel, ``either`` launches one of two, ``nothing`` none. In ``split/``, the operators
and the kernels are in libraries of their own, with a third between them. To build them takes no GPU and no torch.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
KERNELS: Final = ("add", "scale", "fill")


def code(*targets: str) -> list[str]:
    """What makes nvcc compile for some targets: ``sm_90a``, ``compute_80``."""
    virtual = (target.replace("sm_", "compute_") for target in targets)
    return [f"-gencode=arch={of},code={target}" for of, target in zip(virtual, targets, strict=True)]


def for_all(*options: str) -> dict[str, list[str]]:
    """The same options for each kernel."""
    return {kernel: list(options) for kernel in KERNELS}


PLAIN: Final = "--compress-mode=none"
SAMPLES: Final[dict[str, dict[str, list[str]]]] = {
    "mixed": {
        "add": [PLAIN, *code("sm_80", "compute_80")],
        "scale": [PLAIN, *code("sm_90a")],
        "fill": [PLAIN, *code("sm_120f")],
    },
    "ptx": for_all(PLAIN, *code("compute_75")),
    "zstd": for_all("--compress-mode=size", *code("sm_80", "sm_120")),
    "lz4": for_all("--compress-mode=speed", *code("sm_80", "compute_80")),
    "group": for_all("--concat", *code("sm_80", "sm_90a", "sm_100f", "compute_120")),
    "relocatable": for_all(PLAIN, "-rdc=true", *code("sm_80")),
    "split": for_all(PLAIN, *code("sm_90a")),
}


def build(name: str, options: dict[str, list[str]], toolkit: Path, scratch: Path) -> Path:
    """Build one sample."""
    nvcc = [str(toolkit / "bin" / "nvcc"), "-std=c++17", "-Xcompiler=-fPIC", "-cudart=shared"]
    objects = []
    for kernel in KERNELS:
        objects.append(str(scratch / f"{kernel}.o"))
        command = [*nvcc, *options[kernel], "-c", f"{kernel}.cu", "-o", objects[-1]]
        subprocess.run(command, cwd=HERE, check=True)
    if name == "relocatable":
        linked = str(scratch / "linked.o")
        command = [*nvcc, "-dlink", PLAIN, *code("sm_80"), *objects, "-o", linked]
        subprocess.run([*command, f"-L{toolkit / 'lib'}", "-lcudadevrt"], cwd=HERE, check=True)
        objects.append(linked)
    sample = HERE / f"{name}.so"
    link = ["g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-s", "-Wl,--build-id=none", "-Wl,-z,noseparate-code"]
    if name == "split":
        sample = HERE / name / "operators.so"
        objects = ["-Wl,--no-as-needed", str(kernels_in_a_library(link, objects, toolkit, sample.parent))]
    # Enough of torch to be linked with.
    torch = scratch / "libtorch_cpu.so"
    names = ("init_def", "init_impl", "def", "impl")
    (scratch / "torch.c").write_text("".join(f"int aoti_torch_library_{name};\n" for name in names), "utf-8")
    command = ["gcc", "-shared", f"-Wl,-soname,{torch.name}", "-o", str(torch), "torch.c"]
    subprocess.run(command, cwd=scratch, check=True)
    libraries = [f"-L{toolkit / 'lib'}", "-lcudadevrt", "-l:libcudart.so.13", str(torch)]
    subprocess.run([*link, "-o", str(sample), *objects, "operators.cpp", *libraries], cwd=HERE, check=True)
    return sample


def kernels_in_a_library(link: list[str], objects: list[str], toolkit: Path, folder: Path) -> Path:
    """Link a library with the kernels, and one that needs it and is empty, which is returned."""
    folder.mkdir(exist_ok=True)
    kernels, between = folder / "libkernels.so", folder / "libbetween.so"
    runtime = [f"-L{toolkit / 'lib'}", "-l:libcudart.so.13"]
    subprocess.run([*link, f"-Wl,-soname,{kernels.name}", "-o", str(kernels), *objects, *runtime], check=True)
    command = [*link, f"-Wl,-soname,{between.name}", "-Wl,--no-as-needed", "-o", str(between), str(kernels)]
    subprocess.run(command, check=True)
    return between


def listed(sample: Path, toolkit: Path) -> dict[str, list[str]]:
    """The architectures of machine code and PTX in a sample, in order."""
    found = {}
    for kind in ("elf", "ptx"):
        command = [str(toolkit / "bin" / "cuobjdump"), "-all", f"--list-{kind}", str(sample)]
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        found[kind] = re.findall(r"^(?:ELF|PTX) file.*\.(sm_[0-9]+[af]?)\.", output, re.MULTILINE)
    return found


def main() -> int:
    """Build all."""
    toolkit = Path(sys.argv[1]).resolve()
    record = {}
    for name, options in SAMPLES.items():
        with tempfile.TemporaryDirectory() as scratch:
            sample = build(name, options, toolkit, Path(scratch))
        if sample.parent == HERE:
            record[sample.name] = listed(sample, toolkit)
    (HERE / "cuobjdump.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
