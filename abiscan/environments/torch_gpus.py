"""Whether torch itself runs on GPUs.

That decides for whole environments: what compiles its kernels at run time (Triton, NVRTC) has none in its files, and
still starts them through torch.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Effect, Evidence, Finding
from abiscan.gpu.devices import Hardware
from abiscan.gpu.drivers import driver_for_cuda
from abiscan.inputs.files import Files
from abiscan.inputs.torch_build import build_of
from abiscan.rules import no_kernel_image
from abiscan.torches.architectures import architectures, has_code_for
from abiscan.torches.model import TorchRelease


def examine_gpus(release: TorchRelease, hardware: Hardware, files: Files) -> Iterator[Finding]:
    """Yield the GPUs of NVIDIA that a torch has no code for, and that their driver is too old for it."""
    gpus = [gpu for gpu in hardware.gpus if gpu.gfx is None]
    targets = (architectures(release, files) if gpus else None) or ()
    for gpu in gpus if targets else ():
        if not has_code_for(gpu, targets, release.build):
            yield no_kernel_image.of_torch(release, gpu)
    cuda = build_of(release.package, files).cuda if hardware.driver is not None else None
    first = driver_for_cuda(cuda) if cuda else None
    if cuda and hardware.driver is not None and first is not None and hardware.driver < first:
        yield Finding(
            rule="driver-too-old",
            effect=Effect.CALL_FAILS,
            message=f"{release} is for CUDA {cuda}, which needs NVIDIA's driver {first} or newer, and this is"
            f" {hardware.driver}: torch.cuda.is_available() is False, and what needs a GPU raises",
            evidence=(Evidence(subject=str(release), instead=f"driver {hardware.driver}"),),
            # ``device_count_impl`` in c10/cuda/CUDAFunctions.cpp.
            says="The NVIDIA driver on your system is too old",
            fix=f"update the driver, or install a build of torch for a CUDA older than {cuda.partition('.')[0]}",
        )
