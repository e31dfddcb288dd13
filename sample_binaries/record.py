"""Load every sample binary for real and record what happened.

    python record.py            write expected.json
    python record.py --check    compare with expected.json, write nothing

Each sample is loaded in a fresh process of the running interpreter, after
`import torch`: through the import machinery if the file exports a PyInit_
function, by torch.ops.load_library otherwise. Only the standard library is used
here; the fresh processes need torch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
WHEEL = "wheels/abiscan_sample-1.0-py3-none-linux_x86_64.whl"
WHEEL_MEMBER = "abiscan_sample/_C.so"

# Sample -> the file that is loaded.
FILES = {
    "loads": "loads/loads.so",
    "undefined_symbol_signature": "undefined_symbol_signature/undefined_symbol_signature.so",
    "undefined_symbol_not_linked": "undefined_symbol_not_linked/undefined_symbol_not_linked.so",
    "missing_torch_library": "missing_torch_library/missing_torch_library.so",
    "missing_sibling": "missing_sibling/missing_sibling.so",
    "symbol_version": "symbol_version/symbol_version.so",
    "symbol_with_version": "symbol_with_version/symbol_with_version.so",
    "cxx11_abi": "cxx11_abi/cxx11_abi.so",
    "python_abi": "python_abi/python_abi.so",
    "python_abi_tag": "python_abi_tag/python_abi_tag.cpython-312-x86_64-linux-gnu.so",
    "pybind11_internals": "pybind11_internals/pybind11_internals.so",
    "architecture": "architecture/architecture.so",
    "weak_reference": "weak_reference/weak_reference.so",
    "sibling_rpath": "sibling_rpath/sibling_rpath.so",
    "wheel": WHEEL,
}

# Sample -> an expression evaluated after the load, for what a load alone does
# not show.
CALLS = {
    "loads": "torch.ops.abiscan_loads.double_it(torch.ones(2)).tolist()",
    "pybind11_internals": "module.schema_name(torch._C.parse_schema('abiscan::f(Tensor x) -> Tensor'))",
    "wheel": "torch.ops.abiscan_sample.scale(torch.ones(2)).tolist()",
}

# Runs in the fresh process. A report goes out after the load and, with a call,
# another one after the call, so that a process which dies in the call has
# already told how the load went.
CHILD = """
import json, sys
path, mode, name, call = sys.argv[1:]
import torch

def report(stage, action):
    told = {"stage": stage, "value": None, "error": None, "text": None, "cause": None}
    value = None
    try:
        value = action()
        told["value"] = repr(value)
    except BaseException as error:
        told["error"] = type(error).__name__
        told["text"] = str(error)
        if error.__cause__ is not None:
            told["cause"] = [type(error.__cause__).__name__, str(error.__cause__)]
    print(json.dumps(told), flush=True)
    return value

def load():
    if mode == "load_library":
        return torch.ops.load_library(path)
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_file_location
    loader = ExtensionFileLoader(name, path)
    spec = spec_from_file_location(name, path, loader=loader)
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module

print(json.dumps({"torch": torch.__version__}), flush=True)
module = report("load", load)
if call:
    report("call", lambda: eval(call))
"""


def strip_folders(text: str) -> str:
    """Cut the folders of every absolute path, so no machine's path is recorded."""
    return re.sub(r"(?<![\w.])/(?:[^\s/:()'\"]+/)*(?=[^\s/:()'\"]+)", "", text)


def split_object(text: str) -> tuple[str | None, str]:
    """Split "<path>: <rest>" into the base name and the rest; a text that begins with no path has no object.

    A library that is not found is not a path: "libfoo.so: cannot open ..." stays whole.
    """
    found = re.match(r"(/[^:]*): (.*)", text, re.DOTALL)
    if found is None:
        return None, strip_folders(text)
    return Path(found[1]).name, strip_folders(found[2])


def python_module(data: bytes) -> str | None:
    """Name the module that the file's PyInit_ function makes."""
    found = re.search(rb"\0PyInit_(\w+)\0", data)
    return None if found is None else found[1].decode()


def run_child(path: Path, mode: str, name: str, call: str) -> tuple[list[dict[str, Any]], int]:
    """Load a file in a fresh process; return its reports and its exit status."""
    # The loader's texts are translated and its search path is set by variables of
    # the environment; the record is about the files alone.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON"))}
    environment["LC_ALL"] = "C"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), mode, name, call],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def describe(told: dict[str, Any] | None, returncode: int) -> dict[str, Any]:
    """Turn one report of the fresh process, or its death, into a record."""
    record: dict[str, Any] = {"how": None, "type": None, "object": None, "message": None}
    record |= {"raised_as": None, "signal": None}
    if told is None:
        record["how"] = "aborts"
        if returncode < 0:
            record["signal"] = signal.Signals(-returncode).name
    elif told["error"] is not None:
        kind, text = told["error"], told["text"]
        if told["cause"] is not None:
            # torch.ops.load_library wraps the loader's error in one of its own.
            record["raised_as"] = f"{kind}: {strip_folders(text)}"
            kind, text = told["cause"]
        record["how"] = "raises"
        record["type"] = kind
        record["object"], record["message"] = split_object(text)
    return record


def record_sample(sample: str, scratch: Path) -> tuple[dict[str, Any], str]:
    """Record one sample; return the record and the version of torch."""
    path = HERE / FILES[sample]
    member = None
    if path.suffix == ".whl":
        member = WHEEL_MEMBER
        with zipfile.ZipFile(path) as archive:
            archive.extractall(scratch)
        path = scratch / member
    module = python_module(path.read_bytes())
    mode = "load_library" if module is None else "import"
    call = CALLS.get(sample, "")
    told, returncode = run_child(path, mode, module or "", call)
    if not told:
        raise SystemExit(f"{sample}: the fresh process could not import torch")
    stages = {report["stage"]: report for report in told[1:]}
    loaded = describe(stages.get("load"), returncode)
    verdict = "loads" if loaded["how"] is None else "fails"
    record = {"sample": sample, "file": FILES[sample], "member": member, "mode": mode, "verdict": verdict, **loaded}
    record["call"] = None
    if call and verdict == "loads":
        called = describe(stages.get("call"), returncode)
        first_line = (called["message"] or "").partition("\n")[0]
        record["call"] = {
            "expression": call,
            "how": called["how"],
            "type": called["type"],
            "message": first_line or None,
            "signal": called["signal"],
            "value": stages["call"]["value"] if "call" in stages else None,
        }
    return record, told[0]["torch"]


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """Cut what differs between two builds of one Python: the patch release, date and compiler."""
    message = re.sub(r"(is incompatible: \d+\.\d+)\..*", r"\1", record["message"] or "")
    return {**record, "message": message or None}


def main() -> int:
    """Record all samples, or compare them with what is recorded."""
    parser = argparse.ArgumentParser(description="Record what loading each sample really does.")
    parser.add_argument("--check", action="store_true", help="compare with expected.json instead of writing it")
    options = parser.parse_args()
    samples = []
    torch_version = ""
    for sample in FILES:
        with tempfile.TemporaryDirectory() as scratch:
            record, torch_version = record_sample(sample, Path(scratch))
        samples.append(record)
        print(f"{sample}: {record['verdict']}")
    recorded_on = {
        "torch": torch_version,
        "python": platform.python_version(),
        "platform": sysconfig.get_platform(),
        "glibc": (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc "),
    }
    if not options.check:
        text = json.dumps({"recorded_on": recorded_on, "samples": samples}, indent=2)
        EXPECTED.write_text(text + "\n", encoding="utf-8")
        return 0
    known = json.loads(EXPECTED.read_text(encoding="utf-8"))["samples"]
    expected = {entry["sample"]: comparable(entry) for entry in known}
    different = [entry["sample"] for entry in samples if comparable(entry) != expected.get(entry["sample"])]
    for sample in different:
        print(f"{sample}: not what expected.json says", file=sys.stderr)
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
