"""Record what a torch really does about registrations that conflict, in ``expected.json`` next to the samples.

    python -m tools.record_conflicts [--check] [name ...]

Run it with the Python of each torch in turn: it replaces what is recorded of that torch and keeps the rest. Three
kinds of cases are run, each in a process of its own, for a throw from a static initialiser ends the process:

* ``samples``: every shared library in ``sample_binaries/registration_conflicts`` that was built for this torch is
  loaded (``mini_ipex`` into any torch up to 1.6).
* ``calls``: the functions of ``register_operators``, which use the one interface that 1.4 and 1.5 have, and of
  ``old_checks``, as far as the file that was built for the release has them (up to 1.6).
* ``steps``: registrations made one by one through ``torch._C._dispatch_library``, torch's own test interface, which
  needs no compiler (1.7 and newer).

A CUDA build of torch can be recorded where there is no CUDA: see ``tools/stub_libraries.py``.

Runs on Python 3.7 and newer with the standard library and torch. Folders of this machine are cut from all texts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "sample_binaries" / "registration_conflicts"
EXPECTED = FOLDER / "expected.json"
BUILT_FOR = "2.13.0"

TWO = "f(Tensor x, Tensor y) -> Tensor"
ONE = "f(Tensor x) -> Tensor"
MANY = ", ".join(f"int a{number}" for number in range(65))
# Each step is a method of torch._C._dispatch_library and its arguments; "library" opens one, and the last one opened is
# used. impl_t_t registers a kernel at::Tensor (at::Tensor const&), impl_tt_t one of two tensors.
STEPS: dict[str, list[list[str]]] = {
    "library-twice": [["library", "DEF", "abiscan", ""], ["library", "DEF", "abiscan", ""]],
    "library-of-torch": [["library", "DEF", "aten", ""]],
    "library-of-all": [["library", "DEF", "_", ""]],
    "fragment-of-all": [["library", "FRAGMENT", "_", ""]],
    "def-with-key": [["library", "FRAGMENT", "abiscan", "CPU"]],
    "def-in-impl": [["library", "IMPL", "abiscan", "CPU"], ["def_", ONE]],
    "def-namespace": [["library", "DEF", "abiscan", ""], ["def_", "other::" + ONE]],
    "def-own-namespace": [["library", "DEF", "abiscan", ""], ["def_", "abiscan::" + ONE]],
    "impl-namespace": [["library", "IMPL", "abiscan", "CPU"], ["impl_t_t", "other::f", "", "kernel:1"]],
    "impl-key": [["library", "IMPL", "abiscan", "CPU"], ["impl_t_t", "f", "CUDA", "kernel:1"]],
    "fallback-in-def": [["library", "DEF", "abiscan", ""], ["fallback_fallthrough", "XLA"]],
    "fallback-without-key": [["library", "IMPL", "_", ""], ["fallback_fallthrough", ""]],
    "fallback-of-namespace": [["library", "IMPL", "abiscan", "XLA"], ["fallback_fallthrough", ""]],
    "fallback-twice": [
        ["library", "IMPL", "_", "XLA"],
        ["fallback_fallthrough", ""],
        ["fallback_fallthrough", ""],
    ],
    "def-twice": [["library", "DEF", "abiscan", ""], ["def_", ONE], ["def_", ONE]],
    "def-differently": [["library", "DEF", "abiscan", ""], ["def_", ONE], ["def_", TWO]],
    "def-other-name": [["library", "DEF", "abiscan", ""], ["def_", ONE], ["def_", "f(Tensor y) -> Tensor"]],
    "def-other-alias-analysis": [
        ["library", "DEF", "abiscan", ""],
        ["def_", ONE, "PURE_FUNCTION"],
        ["def_", ONE, "CONSERVATIVE"],
    ],
    "def-other-default": [
        ["library", "DEF", "abiscan", ""],
        ["def_", "f(Tensor x, *, int[2] n=1, ScalarType? t=None, str s='a') -> (Tensor(a))"],
        ["def_", "f(Tensor x, *, int[2] n=[1, 2], ScalarType? t=None, str s='a') -> (Tensor(a))"],
    ],
    "def-of-torch": [["library", "FRAGMENT", "aten", ""], ["def_", "tanh(Tensor self, int n=1) -> Tensor"]],
    "def-too-long": [["library", "DEF", "abiscan", ""], ["def_", f"f({MANY}) -> Tensor"]],
    "signature": [
        ["library", "DEF", "abiscan", ""],
        ["def_", ONE],
        ["impl_t_t", "f", "CPU", "kernel:1"],
        ["impl_tt_t", "f", "CUDA", "kernel:2"],
    ],
    "signature-without-def": [
        ["library", "IMPL", "abiscan", ""],
        ["impl_t_t", "f", "", "kernel:1"],
        ["impl_tt_t", "f", "CUDA", "kernel:2"],
    ],
    "schema-arguments": [
        ["library", "DEF", "abiscan", ""],
        ["def_", TWO],
        ["impl_t_t", "f", "CPU", "kernel:1"],
    ],
    "schema-arguments-kernel-first": [
        ["library", "DEF", "abiscan", ""],
        ["impl_t_t", "f", "CPU", "kernel:1"],
        ["def_", TWO],
    ],
    "schema-returns": [
        ["library", "DEF", "abiscan", ""],
        ["def_", "f(Tensor x) -> (Tensor, Tensor)"],
        ["impl_t_t", "f", "CPU", "kernel:1"],
    ],
    "schema-argument-type": [
        ["library", "DEF", "abiscan", ""],
        ["def_", "f(int[2] x=1) -> Tensor"],
        ["impl_t_t", "f", "CPU", "kernel:1"],
    ],
    "schema-return-type": [
        ["library", "DEF", "abiscan", ""],
        ["def_", "f(Tensor(a!) x) -> Tensor?"],
        ["impl_t_t", "f", "CPU", "kernel:1"],
    ],
    "schema-annotations": [
        ["library", "DEF", "abiscan", ""],
        ["def_", "f(Tensor(a!) x) -> Tensor(a!)"],
        ["impl_t_t", "f", "CPU", "kernel:1"],
    ],
    "override": [
        ["library", "DEF", "abiscan", ""],
        ["def_", ONE],
        ["impl_t_t", "f", "CPU", "kernel:1"],
        ["impl_t_t", "f", "CUDA", "kernel:2"],
        ["impl_t_t", "f", "CUDA", "kernel:3"],
        ["impl_t_t", "f", "CPU", "kernel:4"],
    ],
    "override-catch-all": [
        ["library", "IMPL", "abiscan", ""],
        ["impl_t_t", "f", "", "kernel:1"],
        ["impl_t_t", "f", "", "kernel:2"],
    ],
    "override-meta": [
        ["library", "IMPL", "abiscan", "Meta"],
        ["impl_t_t", "f", "", "kernel:1"],
        ["impl_t_t", "f", "", "kernel:2"],
    ],
    "impl-only": [["library", "IMPL", "abiscan", "CPU"], ["impl_t_t", "f", "", "kernel:1"]],
    "schema-unknown-type": [["library", "DEF", "abiscan", ""], ["def_", "f(Tensor x, Tenzor y) -> Tensor"]],
    "schema-syntax": [["library", "DEF", "abiscan", ""], ["def_", "f(Tensor x, -> Tensor"]],
}

CALLS: dict[str, tuple[str, ...]] = {}
CALLS["register_operators"] = (
    *("same_key", "two_catch_alls", "nothing_to_infer_from", "kernels_disagree", "wrong_arguments", "wrong_return"),
    *("wrong_returns", "other_schema", "equal_schema", "override", "override_catch_all", "unknown_type"),
)
CALLS["old_checks"] = (
    *("other_alias_analysis", "default_alias_analysis", "alias_analysis_given_later", "alias_analysis_of_torch"),
    *("inferred_from_schema", "annotated", "annotated_from_schema", "annotated_conservative", "boxed_without_schema"),
    *(
        "second_fallback",
        "second_class",
        "call_for_another_key",
        "call_without_tensors",
        "look_up",
        "look_up_undefined",
    ),
    *("fragment_of_all", "other_namespace", "own_namespace", "def_in_impl", "kernel_namespace", "kernel_key"),
    *("fallback_in_def", "fallback_of_namespace", "boxed_def", "def_of_all", "def_with_key", "fallback_without_key"),
    *("second_library", "inferred_after_schema", "block_of_another_alias_analysis"),
)
# What the cases meet in torch: these operators, those with a kernel that import torch replaces, and the fallbacks,
# which the table of a new operator shows.
OPERATORS = ("aten::_embedding_bag", "aten::matrix_power", "aten::narrow", "aten::sinh", "aten::tanh")
ABOUT = """
import json, pathlib, sys, torch
about = {"torch": torch.__version__, "folder": str(pathlib.Path(torch.__file__).parent), "dumps": {}, "table": None}
about["steps"] = hasattr(torch._C, "_dispatch_library")
if about["steps"]:
    about["dumps"] = {name: torch._C._dispatch_dump(name) for name in sys.argv[1:]}
    names = getattr(torch._C, "_dispatch_get_all_op_names", list)()
    for name, dump in ((name, torch._C._dispatch_dump(name)) for name in names):
        if any("(inactive)" in line and not line.startswith(("Meta", "MTIA")) for line in dump.splitlines()):
            about["dumps"][name] = dump
    library = torch._C._dispatch_library("DEF", "abiscan", "")
    library.def_("f(Tensor x) -> Tensor")
    about["table"] = torch._C._dispatch_dump_table("abiscan::f")
print(json.dumps(about), flush=True)
"""
CALL = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
module = __import__(sys.argv[2])
print(json.dumps("started"), flush=True)
try:
    getattr(module, sys.argv[3])()
except Exception as error:
    print(json.dumps({"type": type(error).__name__, "text": str(error)}), flush=True)
else:
    print(json.dumps({"type": None}), flush=True)
sys.stderr.write("END OF THE LOAD")
"""
LOAD = """
import importlib.util, json, pathlib, sys, torch
path, then = sys.argv[1:]
print(json.dumps("started"), flush=True)
try:
    if then == "import":
        spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem.partition("-")[0], path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    else:
        torch.ops.load_library(path)
        if then:
            torch.ops.load_library(then)
except Exception as error:
    print(json.dumps({"type": type(error).__name__, "text": str(error)}), flush=True)
else:
    print(json.dumps({"type": None}), flush=True)
sys.stderr.write("END OF THE LOAD")
"""
STEP_BY_STEP = """
import json, sys, torch
print(json.dumps("started"), flush=True)
opened = []
try:
    for name, *arguments in json.loads(sys.argv[1]):
        if name == "library":
            opened.append(torch._C._dispatch_library(*arguments))
        else:
            getattr(opened[-1], name)(*arguments)
except Exception as error:
    print(json.dumps({"type": type(error).__name__, "text": str(error)}), flush=True)
else:
    print(json.dumps({"type": None}), flush=True)
sys.stderr.write("END OF THE LOAD")
"""

# A line of its own, before the frames of the stack; up to 1.5 in parentheses.
PLACES = (
    re.compile(r"\nException raised from (?P<function>\S+) at (?P<file>\S+:\d+) .*", re.DOTALL),
    re.compile(r" \((?P<function>\w+|operator\(\)) at (?P<file>\S+:\d+)\)\n.*", re.DOTALL),
)
WARNING = re.compile(
    r"^(?:\[W[^\]]*\] )?Warning: (?P<text>.*?) \((?:function [^\n]*|\w+ at \S+:\d+)\)$", re.DOTALL | re.MULTILINE
)
SKIPPING = re.compile(r"^Higher priority item already registered.*$", re.MULTILINE)  # c10/util/Registry.h
TERMINATE = re.compile(
    r"terminate called after throwing an instance of '(?P<type>[^']+)'\n  what\(\):  (?P<text>.*)", re.DOTALL
)


def run(code: str, *arguments: str) -> tuple[list[Any], int, str]:
    """Run Python code in a fresh process; return what it reports, how it ended, and what it said besides that."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "TORCH_SHOW_CPP_STACKTRACES": "0"},
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


def split_place(text: str) -> tuple[str, str | None]:
    """The message of a ``c10::Error``, and the place in torch's source that it adds."""
    for pattern in PLACES:
        matched = pattern.search(text)
        if matched is not None:
            return text[: matched.start()], f"{matched.group('function')} at {matched.group('file')}"
    return text, None


def describe(reports: list[Any], returncode: int, errors: str) -> dict[str, Any]:
    """What happened, as it is recorded."""
    # Up to 1.5 torch warns once more when the process ends and takes the kernels back.
    errors = errors.partition("END OF THE LOAD")[0]
    warnings = [matched.group("text") for matched in WARNING.finditer(errors)] + SKIPPING.findall(errors)
    record: dict[str, Any] = {"how": "loads", "type": None, "signal": None, "message": None, "place": None}
    if len(reports) < 2 and returncode > 0:
        record.update(how="exits", message=errors.splitlines()[-1])
    elif len(reports) < 2:
        matched = TERMINATE.search(errors)
        record.update(how="aborts", signal=signal.Signals(-returncode).name)
        if matched is not None:
            text, place = split_place(matched.group("text"))
            if place is None and text.endswith("\n"):
                text = text[:-1]  # which the handler of the C++ runtime adds
            record.update(type=matched.group("type"), message=text, place=place)
    elif reports[1]["type"] is not None:
        text, place = split_place(reports[1]["text"].replace(f"{FOLDER}/", ""))
        record.update(how="raises", type=reports[1]["type"], message=text, place=place)
    record["warnings"] = warnings
    return record


def record_all(names: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run every case that this torch can run; return what is known of the torch, and the cases."""
    (about,), _, _ = run(ABOUT, *OPERATORS)
    version = about["torch"]
    legacy = version.startswith(("1.4", "1.5", "1.6"))
    if legacy:
        paths = sorted(FOLDER.glob("mini_ipex/**/*.so"))
    else:
        paths = sorted(FOLDER.glob("*.so")) if version.startswith(BUILT_FOR) else []
    cases: list[dict[str, Any]] = []
    for path in paths:
        sample = path.relative_to(FOLDER).as_posix()
        if not names or sample in names:
            imported = legacy or sample.startswith("module_init")
            with tempfile.TemporaryDirectory() as scratch:
                then = "import" if imported else shutil.copy(path, scratch) if "twice" in sample else ""
                cases.append({"sample": sample, **describe(*run(LOAD, str(path), then))})
    if legacy:
        for module, functions in CALLS.items():
            built = [folder for folder in sorted((FOLDER / module).glob("built_for_*")) if folder.name[10:] <= version]
            for function in functions:
                if not names or function in names:
                    case = {"call": function, **describe(*run(CALL, str(built[-1]), module, function))}
                    if case["type"] != "AttributeError":  # else that file lacks it
                        cases.append(case)
    for name, steps in STEPS.items() if about["steps"] else ():
        if not names or name in names:
            case = {"steps": name, **describe(*run(STEP_BY_STEP, json.dumps(steps)))}
            if case["type"] != "AttributeError" and not str(case["message"]).startswith("could not parse "):
                cases.append(case)  # else the interface of this torch lacks a method, or a key
    where = {
        "torch": version,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "glibc": platform.libc_ver()[1],
    }
    dumps = {name: dump.replace(about["folder"], "torch") for name, dump in about["dumps"].items()}
    return {"on": where, "dumps": dumps, "table": about["table"]}, cases


def main() -> int:
    """Record, or compare with what is recorded."""
    parser = argparse.ArgumentParser(description="Record what this torch does about conflicting registrations.")
    parser.add_argument("names", nargs="*", metavar="name", help="samples or steps; all of them if none is named")
    parser.add_argument("--check", action="store_true", help="compare with expected.json instead of writing it")
    options = parser.parse_args()
    about, cases = record_all(options.names)
    torch = about["on"]["torch"]
    known = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {"steps": {}, "runs": []}
    before: dict[str, Any] = next((entry for entry in known["runs"] if entry["on"]["torch"] == torch), {"cases": []})

    def name(case: dict[str, Any]) -> str:
        return str(case.get("sample") or case.get("call") or case["steps"])

    if options.check:
        recorded = {name(case): case for case in before["cases"]}
        different = [name(case) for case in cases if recorded.get(name(case)) != case]
        print("\n".join(different), file=sys.stderr)
        return int(bool(different))
    fresh = {name(case) for case in cases}
    there = [case for case in before["cases"] if "sample" not in case or (FOLDER / case["sample"]).exists()]
    kept = [case for case in there if name(case) not in fresh]
    others = [entry for entry in known["runs"] if entry["on"]["torch"] != torch]
    runs = [*others, {**about, "cases": sorted([*kept, *cases], key=name)}]
    runs.sort(key=lambda entry: [int(part) for part in re.findall(r"\d+", entry["on"]["torch"])[:3]])
    text = json.dumps({"steps": STEPS, "runs": runs}, indent=1)
    EXPECTED.write_text(text + "\n", encoding="utf-8")
    for case in cases:
        print(f"{name(case)}: {case['how']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
