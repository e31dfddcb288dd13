"""Which packages register which namespaces of operators: their distributions, by namespace."""

from __future__ import annotations

from typing import Final

PACKAGES: Final = {
    "torchvision": "torchvision",
    "image": "torchvision",
    "torchaudio": "torchaudio",
    "torchtext": "torchtext",
    "torchao": "torchao",
    "torchcodec_ns": "torchcodec",
    "fbgemm": "fbgemm-gpu",
    "torch_sparse": "torch-sparse",
    "torch_scatter": "torch-scatter",
    "torch_cluster": "torch-cluster",
    "torch_spline_conv": "torch-spline-conv",
    "pyg": "pyg-lib",
    "torch_ipex": "intel-extension-for-pytorch",
    "xformers": "xformers",
    "metatensor": "metatensor-torch",
    "detectron2": "detectron2",
    "tensorrt": "torch-tensorrt",
}
