"""Save small models with the torch that runs this, one file for each kind: what ``tools.record_models`` loads.

    python tools/make_models.py OUTPUT [--compiled]
    PYTHONPATH=torches/2.7.1 LD_LIBRARY_PATH=stubs/2.7.1 python tools/make_models.py OUTPUT

The files are named after what is in them. Where torchvision or torchaudio cannot be imported, their operators are
defined as they define them, since TorchScript saves calls of these alike. ``--compiled`` adds the package of
AOTInductor, which takes a C++ compiler and a minute. The seed is fixed, so the same torch makes the same bytes, but for
compiled code.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

BOX_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    (
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor"
    ),
)
SOUND_OPERATORS = ("_lfilter(Tensor waveform, Tensor a_coeffs, Tensor b_coeffs) -> Tensor",)
_LIBRARIES: list[Any] = []
_JIT: Any = torch.jit  # not annotated in torch
_LIBRARY: Any = torch.library
Saver = Callable[[str], object]


class Small(nn.Module):
    """A layer and two functions."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run it."""
        return torch.relu(self.linear(x)).softmax(-1)


class Several(nn.Module):
    """Operators with several overloads, control flow, lists, strings and a division."""

    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:
        """Run it."""
        parts = [x]
        for number in range(count):
            parts.append(torch.div(x, number + 1, rounding_mode="floor").add(x, alpha=2))  # noqa: PERF401 - TorchScript compiles it
        text = f"torch.nothing({len(parts)})"
        if len(text) > 1000:
            raise ValueError(text)
        return torch.cat(parts, dim=0).sum(dim=[0], keepdim=True)


class Custom(nn.Module):
    """An operator that Python code registers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run it."""
        return torch.ops.abiscan_models.twice(x) + 1


class Boxes(nn.Module):
    """The operators of torchvision that detectors need."""

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """Run it."""
        kept = torch.ops.torchvision.nms(boxes, scores, 0.5)
        rois, aligned = torch.cat([torch.zeros([len(kept), 1]), boxes[kept]], dim=1), False
        return torch.ops.torchvision.roi_align(image, rois, 1.0, 2, 2, 2, aligned)


class Sound(nn.Module):
    """An operator of torchaudio."""

    def forward(self, waves: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
        """Run it."""
        return torch.ops.torchaudio._lfilter(waves, coefficients, coefficients)


def savers(*, compiled: bool) -> dict[str, Saver]:
    """How each file is saved, by its name."""
    torch.manual_seed(0)
    small, x = Small().eval(), torch.ones(2, 4)
    files: dict[str, Saver] = {
        "script.pt": lambda path: _JIT.script(small).save(path),
        "trace.pt": lambda path: _JIT.trace(small, x).save(path),
        "several.pt": lambda path: _JIT.script(Several()).save(path),
        "mobile.ptl": lambda path: _JIT.script(small)._save_for_lite_interpreter(path),
        "state.pt": lambda path: torch.save(small.state_dict(), path),
        "module.pt": lambda path: torch.save(nn.Sequential(nn.Linear(4, 3)), path),
        "legacy.pt": lambda path: torch.save(small.state_dict(), path, _use_new_zipfile_serialization=False),
        "export.pt2": lambda path: torch.export.save(_exported(small, (x,)), path),
    }
    if hasattr(torch.library, "custom_op"):
        schema = "(Tensor x) -> Tensor"
        twice = torch.library.custom_op("abiscan_models::twice", lambda x: x * 2, mutates_args=(), schema=schema)
        twice.register_fake(torch.empty_like)
        files["custom.pt2"] = lambda path: torch.export.save(_exported(Custom(), (x,)), path)
        files["custom.pt"] = lambda path: _JIT.trace(Custom(), x).save(path)
    if _has("torchvision") or _defined("torchvision", BOX_OPERATORS):
        boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.9], [1.0, 1.0, 3.0, 3.0]])
        arguments = boxes, torch.tensor([0.9, 0.8, 0.7]), torch.ones(1, 1, 8, 8)
        files["boxes.pt"] = lambda path: _JIT.script(Boxes()).save(path)
        if _has("torchvision"):
            files["boxes.pt2"] = lambda path: torch.export.save(_exported(Boxes(), arguments), path)
    if _has("torchaudio") or _defined("torchaudio", SOUND_OPERATORS):
        files["sound.pt"] = lambda path: _JIT.script(Sound()).save(path)
    if compiled:
        inductor = importlib.import_module("torch._inductor")
        exported = _exported(small, (x,))
        files["aoti.pt2"] = lambda path: strip(Path(inductor.aoti_compile_and_package(exported, package_path=path)))
    return files


def _defined(namespace: str, operators: Sequence[str]) -> bool:
    """Define operators as their package does, without kernels: code that calls them is saved alike."""
    library = _LIBRARY.Library(namespace, "FRAGMENT")
    for operator in operators:
        library.define(operator)
    _LIBRARIES.append(library)
    return True


def _exported(module: nn.Module, arguments: tuple[Any, ...]) -> Any:
    """An exported program that does not tell where its sources lie."""
    program = torch.export.export(module, arguments)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def strip(package: Path) -> None:
    """Take out of a package what is for debuggers, five sixths of its library, and the commands that compiled it."""
    with zipfile.ZipFile(package) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in [name for name in members if name.endswith(".so")]:
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "model.so")
            library.write_bytes(members[name])
            subprocess.run([shutil.which("strip") or "strip", library], check=True)
            members[name] = library.read_bytes()
    for name in [name for name in members if name.endswith(".cpp")]:
        lines = members[name].splitlines(keepends=True)
        members[name] = b"".join(line for line in lines if not line.startswith(b"// "))
    with zipfile.ZipFile(package, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def _has(package: str) -> bool:
    try:
        importlib.import_module(package)
    except (ImportError, RuntimeError, OSError):
        return False
    return True


def main() -> int:
    """Save what this torch can save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the folder for the files")
    parser.add_argument("--compiled", action="store_true", help="also a package of AOTInductor")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, save in savers(compiled=arguments.compiled).items():
        try:
            save(str(arguments.output / name))
        except Exception as error:  # noqa: BLE001, PERF203 - what an older torch cannot save is left out, and named
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    print(f"torch {torch.__version__}: {sorted(path.name for path in arguments.output.iterdir())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
