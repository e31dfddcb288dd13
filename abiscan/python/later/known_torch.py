"""What is known of a torch that conditions ask for: what it has, and what its build, the system and Python say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from abiscan.python.later.version_tests import EITHER, KnownTorch
from abiscan.python.package.model import Answer, World
from abiscan.python.package.systems import MACOS, PythonSystem
from abiscan.python.torch_api.torch_names import DEVICE_MODULES, TorchNames, lacking_part

_BACKENDS: Final = {"hip": "rocm", "rocm": "rocm", "xpu": "xpu"}
"""Names of ``torch.version`` that are None but for builds with a local version that begins so."""


def known_torch(names: TorchNames, facts: Mapping[str, object]) -> KnownTorch:
    """Return what is known of a torch."""

    def has(owner: str, name: str) -> bool | None:
        # The names that are known are those of one package.
        if owner.partition(".")[0] != names.top or not name.isidentifier():
            return None
        full = f"{owner}.{name}"
        lacking = lacking_part(names, full)
        if lacking is not None:
            return None if lacking.split(".")[1] in DEVICE_MODULES or len(lacking) < len(full) else False
        # That there is a module which torch may import says nothing of what is in it.
        is_module = not name.startswith("_") and names.may_import(owner, name)
        return True if is_module or names.has(owner, name) else None

    return KnownTorch(release=names.release, has=has, facts=facts)


def facts_of(world: World, system: PythonSystem) -> Mapping[str, object]:
    """Return what the build of a torch, the system and Python say, by full names."""
    facts: dict[str, object] = {
        "os.name": system.os_name,
        "platform.system()": system.name,
        "sys.platform": system.sys_platform,
    }
    if not isinstance(world.python, Answer):
        facts["sys.version_info"] = (*world.python, EITHER)
    is_apple = EITHER if system is MACOS else False
    facts |= {f"torch.{module}.is_available()": is_apple for module in ("mps", "backends.mps")}
    facts["torch.backends.mps.is_built()"] = is_apple
    is_known = not isinstance(world.cuda, Answer) and not isinstance(world.torch_version, Answer)
    local = str(world.torch_version).partition("+")[2] if is_known else ""
    built_for = {name: is_known and not local.startswith(tag) for name, tag in _BACKENDS.items()}
    facts |= {f"torch.version.{name}": None if is_other else EITHER for name, is_other in built_for.items()}
    facts["torch.version.cuda"] = world.cuda if is_known else EITHER
    is_without_gpus = is_known and world.cuda is None and built_for["hip"]
    facts["torch.cuda.is_available()"] = False if is_without_gpus else EITHER
    facts["torch.xpu.is_available()"] = False if built_for["xpu"] else EITHER
    return facts
