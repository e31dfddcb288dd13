"""Generate extensions at random, load each into the real torch of this Python, and compare with what abiscan says.

    python -m tools.generate_extensions --count 200 --seed 1 --cache FOLDER
    python -m tools.generate_extensions --each --cache FOLDER           # every piece by itself, at -O0 and at -O2
    python -m tools.generate_extensions --sources tests/oracle/initialisers --cache FOLDER      # written ones

A source is a few pieces of ``generated_pieces.txt``, put into initialisers of several kinds; a build of it takes one
of the installed compilers and random options. Objects are kept in FOLDER by the hash of what they were built from, and
so are the precompiled headers, 400 MB each. Each object is loaded in a process of its own, forked from one that has
imported torch. What is compared:

* the inventory: the operators that the load added to the dispatcher, and those that ``recover`` finds. ``equal``, or
  ``differs, with a gap``, or ``silent``: differs without a gap.
* the verdict: whether the load succeeded, and whether ``check`` says so; ``unknown`` is never wrong.

Prints a line of JSON for each build, then a summary. Exit status 1 if a difference is silent or a verdict is wrong.
Needs a compiler, Linux and torch.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import functools
import hashlib
import importlib.util
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_NAMESPACE: Final = "gen::"
_HEADERS: Final = """
    torch/library.h torch/custom_class.h ATen/ATen.h algorithm any atomic charconv chrono cmath complex
    condition_variable cstdio cstdlib cstring ctime cxxabi.h deque dlfcn.h filesystem fstream functional future
    iomanip iostream list locale map memory mutex numeric optional queue random regex set sstream stdexcept string
    sys/stat.h sys/utsname.h thread typeinfo unistd.h unordered_map unordered_set variant vector
"""
_COMPILERS: Final = tuple(compiler for compiler in ("g++", "clang++") if shutil.which(compiler))
_LEVELS: Final = ("-O0", "-O1", "-O2", "-O3")
_STANDARDS: Final = {"-O0": "-std=c++17", "-O1": "-std=c++20", "-O2": "-std=c++17", "-O3": "-std=c++20"}
_LINK: Final = ((), (), ("-fuse-ld=lld",), ("-static-libstdc++",), ("-Wl,-z,now",), ("-fuse-ld=gold",))
_MORE: Final = (
    (),
    (),
    (),
    ("-fno-plt",),
    ("-ffunction-sections", "-Wl,--gc-sections"),
    ("-fno-semantic-interposition",),
)
_LTO: Final = {"g++": ("-flto",), "clang++": ("-flto", "-fuse-ld=lld")}
_LTO_OF_TEN: Final = 1
_WAYS: Final = (  # that written sources are built in
    ("g++", ("-O0",)),
    ("g++", ("-O2",)),
    ("g++", ("-O1", "-static-libstdc++")),
    ("clang++", ("-O2",)),
)
_END_OF_TEN: Final = 1  # builds of ten whose last piece ends the process
_SECONDS: Final = 300

# Forks a child for each line of its input, "shared object<TAB>result": torch is imported once.
_SERVER: Final = """
import json, os, signal, sys, torch
before = {str(schema) for schema in torch._C._jit_get_all_schemas()}
print("ready", flush=True)
for line in sys.stdin:
    path, output = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if not child:
        signal.alarm(60)
        log = os.open(output + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1), os.dup2(log, 2)
        try:
            torch.ops.load_library(path)
            result = {"loads": True, "text": ""}
        except BaseException as error:
            result = {"loads": False, "text": str(error.__cause__ or error)}
        names = {str(schema) for schema in torch._C._jit_get_all_schemas()} - before
        with open(output, "w") as file:
            json.dump({**result, "schemas": sorted(names)}, file)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(status, flush=True)
"""


_ENDS, _WRAPPERS = "ends", "wrappers"


@functools.cache
def pieces() -> dict[str, list[str]]:
    """The pieces of C++ that sources are made of, by kind."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("generated_pieces.txt").read_text("utf-8").splitlines():
        if line.startswith("[") and line.strip("[]").isalpha():
            kind = line.strip("[]")
            found[kind] = []
        elif line and not line.startswith("//"):
            found[kind].append(line)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One source and how it is built."""

    name: str
    source: str
    compiler: str
    options: tuple[str, ...]

    @property
    def key(self) -> str:
        """What tells its object from all others."""
        return hashlib.sha256(repr((self.source, self.compiler, self.options)).encode()).hexdigest()[:20]


def sources(seed: int, count: int) -> Iterator[Build]:
    """Random builds, the same for the same seed."""
    kinds = sorted(set(pieces()) - {_ENDS, _WRAPPERS})
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        chosen = [chance.choice(pieces()[chance.choice(kinds)]) for _ in range(chance.randint(1, 4))]
        if chance.randint(1, 10) <= _END_OF_TEN:
            chosen.append(chance.choice(pieces()[_ENDS]))
        text = "\n".join(_placed(chance.choice(pieces()[_WRAPPERS]), piece, at) for at, piece in enumerate(chosen))
        compiler = chance.choice(_COMPILERS)
        options = (chance.choice(_LEVELS), *chance.choice(_LINK), *chance.choice(_MORE))
        if chance.randint(1, 10) <= _LTO_OF_TEN:
            options = (options[0], *_LTO[compiler])
        yield Build(name=f"{seed}-{number}", source=text, compiler=compiler, options=options)


def each_piece(only: str | None) -> Iterator[Build]:
    """Every piece by itself, at two levels."""
    wrapper, *_ = pieces()[_WRAPPERS]
    for kind in sorted(set(pieces()) - {_WRAPPERS}):
        for number, piece in enumerate(pieces()[kind]):
            name = f"{kind}{number}"
            for level in ("-O0", "-O2") if only in (None, name, kind) else ():
                source = _placed(wrapper, piece, 0)
                yield Build(name=f"{name} {level}", source=source, compiler="g++", options=(level,))


def written(folder: Path, only: str) -> Iterator[Build]:
    """Every source of a folder whose name has a text in it, built in four ways."""
    for path in sorted(folder.glob("*.cpp")):
        for compiler, options in _WAYS if only in path.stem else ():
            name = f"{path.stem} {compiler} {' '.join(options)}"
            yield Build(name=name, source=path.read_text("utf-8"), compiler=compiler, options=options)


def _placed(wrapper: str, piece: str, number: int) -> str:
    return wrapper.replace("$BODY", piece).replace("$N", str(number))


def _includes() -> list[str]:
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.submodule_search_locations
    package = Path(found.submodule_search_locations[0])
    return [f"-isystem{package}/include", f"-isystem{package}/include/torch/csrc/api/include"]


def compile_build(build: Build, cache: Path) -> Path:
    """The object of a build, made if it is not in the cache."""
    target = cache / f"{build.key}.so"
    if target.exists():
        return target
    level = build.options[0]
    folder = cache / f"headers-{build.compiler}{level}"
    header = folder / "all.h"
    options = [_STANDARDS[level], "-fPIC", "-w", level, "-DNDEBUG", *_includes()]
    precompiled = folder / ("all.h.gch" if build.compiler == "g++" else "all.h.pch")
    if not precompiled.exists():
        folder.mkdir(parents=True, exist_ok=True)
        header.write_text("".join(f"#include <{name}>\n" for name in _HEADERS.split()))
        part = precompiled.with_suffix(f".{os.getpid()}")
        subprocess.run([build.compiler, *options, "-x", "c++-header", str(header), "-o", str(part)], check=True)
        part.rename(precompiled)
    source = cache / f"{build.key}.cpp"
    source.write_text(build.source + "\n")
    use = ["-include", str(header)] if build.compiler == "g++" else ["-include-pch", str(precompiled)]
    torch_lib = Path(_includes()[0].removeprefix("-isystem")).parent / "lib"
    libraries = [f"-L{torch_lib}", "-ltorch_cpu", "-lc10", "-lpthread", "-ldl"]
    part = target.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [build.compiler, *options, *build.options[1:], *use, "-shared", str(source), "-o", str(part), *libraries],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{build.name} does not compile:\n{done.stderr}\n{build.source}")
    part.rename(target)
    return target


class Torch:
    """The real torch, to load objects into."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _SERVER]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def load(self, path: Path) -> dict[str, Any]:
        """What happens when ``path`` is loaded: ``loads``, ``text``, ``signal``, ``schemas``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "result"
            self._process.stdin.write(f"{path}\t{output}\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            log = Path(f"{output}.log").read_text(errors="replace")
            if output.exists() and not os.WIFSIGNALED(status):
                return {**json.loads(output.read_text()), "signal": None, "log": log}
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return {
            "loads": False,
            "text": log,
            "schemas": None,
            "signal": signal.Signals(number).name if number else "exit",
        }

    def close(self) -> None:
        """End its process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def inventory(path: Path) -> dict[str, Any]:
    """What abiscan recovers: ``schemas`` as torch prints them, ``gaps``."""
    from abiscan.binary.elf import ElfFile
    from abiscan.dispatch.schema import find_syntax_error
    from abiscan.emulation import recover
    from abiscan.registrations import Phase

    file = ElfFile.open(path)
    found = recover(file, file.facts(), None, find_syntax_error)
    return {
        "schemas": sorted(
            {
                _printed(operator.schema or operator.name)
                for operator in found.operators
                if operator.phase is not Phase.ON_CALL
            }
        ),
        "gaps": [f"{gap.reason} ({gap.symbol})" for gap in found.gaps if gap.stage == "emulation"],
    }


def _printed(text: str) -> str:
    """A schema as torch prints it; the text itself if it is none."""
    from abiscan.dispatch.schema import FunctionSchema
    from abiscan.errors import AbiscanError

    try:
        return str(FunctionSchema.parse(text))
    except (AbiscanError, ValueError):
        return text


def verdict(path: Path) -> dict[str, Any]:
    """What ``check`` says."""
    from abiscan import check

    (result,) = json.loads(check(str(path)).to_json())["results"]
    return {"verdict": result["verdict"], "message": result["predicted_error"]}


def compare(build: Build, path: Path, real: dict[str, Any]) -> dict[str, Any]:
    """One build: what really happened and what abiscan says."""
    found, checked = inventory(path), verdict(path)
    recovered, registered = set(found["schemas"]), set(real["schemas"] or ())
    kind = "dies"
    if real["schemas"] is not None:
        kind = "equal" if recovered == registered else "differs" if found["gaps"] else "silent"
        kind += ", with a gap" if found["gaps"] else ""
    return {
        "name": build.name,
        "built": f"{build.compiler} {' '.join(build.options)}",
        "key": build.key,
        "kind": kind,
        "verdict": checked["verdict"],
        "wrong": checked["verdict"] != "unknown" and (checked["verdict"] == "loads") != real["loads"],
        "loads": real["loads"],
        "signal": real["signal"],
        "text": real["text"][:300],
        "message": checked["message"],
        "gaps": found["gaps"],
        "missed": sorted(registered - recovered),
        "invented": sorted(recovered - registered) if real["schemas"] is not None else [],
    }


def _examined(build: Build, path: Path, real: dict[str, Any]) -> dict[str, Any]:
    try:
        return compare(build, path, real)
    except Exception as error:  # noqa: BLE001 - whatever abiscan raises is a find
        return {
            "name": build.name,
            "kind": "raises",
            "wrong": True,
            "message": repr(error),
            "gaps": [],
            "key": build.key,
            "built": "",
            "missed": [],
            "invented": [],
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate, build, load, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many builds")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument("--each", nargs="?", const="", help="every piece by itself instead, or those of one kind")
    parser.add_argument("--sources", type=Path, help="the sources of a folder instead")
    parser.add_argument("--only", default="", help="those with this in their names")
    parser.add_argument("--cache", type=Path, required=True, help="a folder for objects and precompiled headers")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    given.cache.mkdir(parents=True, exist_ok=True)
    if given.sources is not None:
        builds = list(written(given.sources, given.only))
    elif given.each is not None:
        builds = list(each_piece(given.each or None))
    else:
        builds = list(sources(given.seed, given.count))
    kinds: collections.Counter[str] = collections.Counter()
    wrong = 0
    torch = Torch()
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        left = iter(builds)

        def start(count: int) -> list[tuple[Build, concurrent.futures.Future[Path]]]:
            """Compile the next builds: a few are ahead of those that are examined."""
            return [(build, pool.submit(compile_build, build, given.cache)) for build in itertools.islice(left, count)]

        made = collections.deque(start(given.jobs + 1))
        results = collections.deque[concurrent.futures.Future[dict[str, Any]]]()

        def report(*, everything: bool) -> None:
            nonlocal wrong
            while results and (everything or results[0].done()):
                line = results.popleft().result()
                kinds[line["kind"]] += 1
                wrong += line["wrong"]
                print(json.dumps(line), flush=True)

        while made:
            build, future = made.popleft()
            made.extend(start(1))
            try:
                path = future.result()
            except RuntimeError as error:
                print(error, file=sys.stderr)
                continue
            results.append(pool.submit(_examined, build, path, torch.load(path)))
            report(everything=False)
        report(everything=True)
    torch.close()
    print(json.dumps({"builds": sum(kinds.values()), **kinds, "wrong verdicts": wrong}))
    return int(bool(kinds["silent"] or kinds["raises"] or wrong))


if __name__ == "__main__":
    raise SystemExit(main())
