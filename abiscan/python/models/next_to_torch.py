"""Packages that users often have next to torch, so that those that import them forget to require them."""

from __future__ import annotations

from typing import Final

from abiscan.python.machine import PythonMachine

_REQUIRED_BY: Final = {
    "torchaudio": frozenset(
        {
            "asteroid",
            "audiocraft",
            "espnet",
            "pyannote_audio",
            "s3tokenizer",
            "speechbrain",
            "torch_audiomentations",
            "vllm",
            "whisperx",
        }
    ),
    "torchtext": frozenset({"audiocraft"}),
    "torchvision": frozenset(
        {
            "audiocraft",
            "clip_anytorch",
            "easyocr",
            "effdet",
            "facexlib",
            "fastai",
            "gfpgan",
            "lightly",
            "lpips",
            "open_clip_torch",
            "python_doctr",
            "pytorch_fid",
            "realesrgan",
            "segmentation_models_pytorch",
            "timm",
            "torchgeo",
            "ultralytics",
            "unsloth",
            "vllm",
            "whisperx",
        }
    ),
    "triton": frozenset({"liger_kernel", "openai_whisper", "unsloth", "whisperx"}),
}
"""Each of them, and distributions whose metadata required it in November 2026, and that so bring it."""


def need_module(machine: PythonMachine, name: str) -> None:
    """Note that such a package has to be there, where its module is imported and nothing that is known brings it."""
    brought_by = _REQUIRED_BY.get(name)
    if brought_by is not None and brought_by.isdisjoint(machine.library.required):
        machine.need("requirement", name, f"the package imports {name} and does not require it")
