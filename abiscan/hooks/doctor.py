"""Checks everything in an environment that was compiled for torch against the installed torch."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from abiscan.binary.ownership import is_torch_library
from abiscan.errors import InputError
from abiscan.extension.examined import examine
from abiscan.findings import Effect
from abiscan.gpu.devices import Hardware
from abiscan.hooks.judgement import Judgement, fitting, judge, worst_finding
from abiscan.inputs import interpreter, packages, system
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.inputs.sources import uses_torch
from abiscan.inputs.version import number_of
from abiscan.pipelines.hardware import native_hardware
from abiscan.results.doctor import Ailment, Diagnosis, Trouble
from abiscan.results.verdict import Verdict
from abiscan.torches.from_libs import build_of
from abiscan.torches.torch import TorchChoice, TorchOf

# auditwheel renames the libraries that it puts into a wheel: libc10-5de87c2d.so.
_COPY: Final = re.compile(r"(?P<stem>lib\w+)(?:-[0-9a-f]{8})?(?P<end>\.so)")
_CPU_INDEX: Final = "https://download.pytorch.org/whl/cpu"


def diagnose(python: str | None, session: Session) -> Diagnosis:
    """Check every extension of torch in an environment, installed or built on the fly.

    :param python: the interpreter of the environment, None for the running one
    :raises InputError: it has no torch, or cannot be run
    """
    search_path = interpreter.search_path(python)
    files = session.files()
    choice = TorchOf(python)
    torch = choice.open(files, session)
    hardware = native_hardware()
    ailments: list[Ailment] = []
    healthy: list[str] = []
    for distribution in packages.installed(search_path):
        if distribution.name == "torch":
            continue
        copies = [path for path in distribution.objects if _is_libtorch(path)]
        if copies:
            ailments.append(_second_copy(distribution, copies))
        elif uses_torch(distribution, files):
            session.progress(str(distribution))
            problem = _ailment(distribution, choice, torch.build, session) or _gpu_ailment(
                distribution, hardware, session
            )
            ailments += [problem] if problem else []
            healthy += [] if problem else [str(distribution)]
    ailments += _on_search_path(torch.package)
    tag = torch.interpreter.tag if torch.interpreter else None
    accelerator = build_of(torch.package, files).accelerator
    for build in _built_on_the_fly(str(tag).replace(".", "") if tag else "", accelerator):
        session.progress(str(build))
        problem = _stale(build, choice, session)
        ailments += [problem] if problem else []
        healthy += [] if problem else [str(build)]
    return Diagnosis(
        torch=torch.build,
        python=str(torch.interpreter.executable) if torch.interpreter else None,
        ailments=tuple(sorted(ailments, key=lambda ailment: ailment.severity, reverse=True)),
        healthy=tuple(healthy),
    )


def _ailment(distribution: Distribution, choice: TorchChoice, torch: str | None, session: Session) -> Ailment | None:
    try:
        judgement = judge(distribution, choice, session)
    except InputError as error:
        return _unknown(str(distribution), error.problem)
    if judgement is None:
        return None
    if judgement.is_broken:
        trouble, commands = _way_out(distribution, judgement, torch, session)
        return _broken(str(distribution), trouble, judgement, commands)
    return _unknown(str(distribution), judgement.error) if judgement.is_unknown else None


def _gpu_ailment(distribution: Distribution, hardware: Hardware, session: Session) -> Ailment | None:
    """A package none of whose kernels run on a GPU of this machine; a part of them may be for other GPUs."""
    if not hardware.gpus:
        return None
    codes = [extension.gpu for extension in examine(distribution, session).extensions]
    for gpu in hardware.gpus:
        files = [code.on(gpu, hardware.driver).file for code in codes if code and code.is_for_maker_of(gpu)]
        if files and not any(choice.fit.runs for choice in files):
            return Ailment(
                subject=str(distribution),
                trouble=Trouble.NO_GPU_CODE,
                effect=Effect.CALL_FAILS,
                message=f"it has no code that {gpu} runs",
                extensions=(),
                commands=(f"abiscan pip install --upgrade {distribution.name}",),
            )
    return None


def _broken(subject: str, trouble: Trouble, judgement: Judgement, commands: Sequence[str]) -> Ailment:
    finding = worst_finding(judgement.results[0])
    return Ailment(
        subject=subject,
        trouble=trouble,
        effect=finding.effect if finding else Effect.LOAD_FAILS,
        message=judgement.error,
        extensions=tuple(result.path for result in judgement.broken),
        commands=tuple(commands),
    )


def _unknown(subject: str, message: str) -> Ailment:
    return Ailment(subject=subject, trouble=Trouble.UNKNOWN, effect=None, message=message, extensions=(), commands=())


def _way_out(
    distribution: Distribution, judgement: Judgement, torch: str | None, session: Session
) -> tuple[Trouble, Sequence[str]]:
    """What is wrong, and the commands that fix it, the most reliable first."""
    if distribution.source:
        return Trouble.BROKEN, [f"pip install --no-build-isolation -e {shlex.quote(distribution.source)}"]
    findings = (finding for result in judgement.broken for finding in result.findings)
    rules = {finding.rule for finding in findings if finding.effect is not Effect.NOTE}
    if rules == {"python-abi-mismatch"}:
        return Trouble.BROKEN, [f"pip install --force-reinstall --no-deps {distribution}"]
    number = number_of(torch) if torch else None
    cpu = "missing-library" in rules and torch is not None and torch.endswith("+cpu")
    commands: list[str] = []
    if cpu and rules == {"missing-library"}:  # nothing else is wrong with it
        commands.append(f"abiscan pip install --force-reinstall --no-deps --index-url {_CPU_INDEX} {distribution}")
    # pip takes 2.8.0+cpu for 2.8.0, so it would not replace it.
    fits = (number_of(build) for build in fitting(distribution, session))
    commands += [f"pip install {'--force-reinstall ' if fit == number else ''}torch=={fit}" for fit in islice(fits, 1)]
    commands.append(f"abiscan pip install --upgrade {distribution.name}")
    return Trouble.CPU_TORCH if cpu else Trouble.BROKEN, commands


def _is_libtorch(path: str) -> bool:
    match = _COPY.fullmatch(posixpath.basename(path))
    return match is not None and match["stem"] != "libshm" and is_torch_library(match["stem"] + match["end"])


def _second_copy(distribution: Distribution, copies: Sequence[str]) -> Ailment:
    names = ", ".join(sorted({posixpath.basename(path) for path in copies}))
    return Ailment(
        subject=str(distribution),
        trouble=Trouble.SECOND_LIBTORCH,
        effect=Effect.CORRUPTS,
        message=f"bundles its own copy of torch's libraries ({names}), so a process may have two dispatchers",
        extensions=tuple(copies),
        commands=(f"pip uninstall {distribution.name}",),
    )


def _on_search_path(package: str) -> Iterator[Ailment]:
    """A problem for each folder of ``LD_LIBRARY_PATH`` that has libraries of another torch."""
    own_folder = os.path.realpath(posixpath.join(package, "lib"))
    folders = system.environment_folders()
    for folder in folders:
        try:
            copies = sorted(name for name in os.listdir(folder) if _is_libtorch(name))  # noqa: PTH208 - names alone
        except OSError:
            continue
        if copies and os.path.realpath(folder) != own_folder:
            rest = ":".join(other for other in folders if other != folder)
            yield Ailment(
                subject=f"LD_LIBRARY_PATH={folder}",
                trouble=Trouble.SECOND_LIBTORCH,
                effect=Effect.CORRUPTS,
                message=f"contains libraries of another torch, which the loader finds first: {', '.join(copies)}",
                extensions=(),
                commands=(f"export LD_LIBRARY_PATH={shlex.quote(rest)}" if rest else "unset LD_LIBRARY_PATH",),
            )


def _built_on_the_fly(python: str, accelerator: str) -> Iterator[Path]:
    """The folders of ``torch.utils.cpp_extension.load`` that this torch would use (``_get_build_directory`` there)."""
    chosen = os.environ.get("TORCH_EXTENSIONS_DIR")
    if chosen:
        root = Path(chosen)
    else:
        # As torch does; Path.home() would raise an error for a user who has no home.
        cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
        root = cache / "torch_extensions" / f"py{python}_{accelerator}"
    for folder in sorted(root.glob("*/")):
        if any(folder.glob("*.so")):
            yield folder


def _stale(build: Path, choice: TorchChoice, session: Session) -> Ailment | None:
    try:
        judgement = judge(build, choice, session)
    except InputError as error:
        return _unknown(str(build), error.problem)
    if judgement is None:
        return None
    # torch rebuilds the extension if its sources change, but not if torch itself does.
    if judgement.broken:
        return _broken(str(build), Trouble.STALE_BUILD, judgement, [f"rm -r {shlex.quote(str(build))}"])
    unread = [result for result in judgement.results if result.verdict is Verdict.UNKNOWN]
    return _unknown(str(build), judgement.error) if unread else None
