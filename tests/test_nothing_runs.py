"""Nothing of a target is executed, imported, unpickled, or mapped as code, by any command, whatever the target is.

Python's audit events say what is imported, executed and loaded; the list of mappings at the end says what is mapped as
code; strace, where there is one, says so for every moment and for all processes. The emulator does map memory as code:
its own translation of the target, in no file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from abiscan.hooks.stamp import GUARD
from tests.fakes import SAMPLES, extension, install, python_of, torch_package, wheel

pytestmark = pytest.mark.hostile

GPU = Path(__file__).parent / "data" / "gpu" / "lz4.so"

WATCHED = """
import atexit, json, sys
folder, events = sys.argv.pop(1), []
def hook(event, arguments):
    if event == "pickle.find_class" or event in ("exec", "import", "ctypes.dlopen", "os.exec", "os.posix_spawn"):
        text = repr(arguments[0].co_filename if event == "exec" else arguments)
        if folder in text or event == "pickle.find_class":
            events.append((event, text))
sys.addaudithook(hook)
def report():
    with open("/proc/self/maps") as maps:
        mapped = [line for line in maps if folder in line and "x" in line.split()[1]]
    print("WATCHED" + json.dumps([events, mapped]), file=sys.stderr)
atexit.register(report)
from abiscan.cli import main
main(prog_name="abiscan")
"""

ITSELF = "sys.addaudithook"  # the program above, among whose words is the folder

HOSTILE = """
import os
import torch
open(__file__ + ".ran", "w").close()
torch.ops.load_library(os.path.join(os.path.dirname(__file__), "_C.so"))
"""
PICKLE = b"cos\nsystem\n(S'touch ran'\ntR."


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One target of each kind in a folder. Whatever runs one leaves a file behind, or is seen."""
    folder = tmp_path_factory.mktemp("targets")
    for name, file in (("loads.so", "loads/loads.so"), ("backend.so", "registrations/backend.so")):
        shutil.copyfile(SAMPLES / file, folder / name)
    shutil.copyfile(SAMPLES / "registrations" / "stable_aarch64.so", folder / "arm.so")
    shutil.copyfile(GPU, folder / "gpu.so")
    for shared_object in folder.glob("*.so"):
        shared_object.chmod(0o755)
    package = folder / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text(HOSTILE)
    shutil.copyfile(SAMPLES / "loads" / "loads.so", package / "_C.so")
    large = bytes(70 << 20)  # a member of this size is unpacked into a file
    members = {
        "pkg/__init__.py": HOSTILE.encode(),
        f"pkg/{GUARD}": b"raise SystemExit('ran')",
        "pkg/_C.so": (SAMPLES / "loads" / "loads.so").read_bytes(),
        "pkg/large.so": (SAMPLES / "loads" / "loads.so").read_bytes() + large,
        "pkg-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n",
        "pkg-1.0.dist-info/RECORD": b"pkg-1.0.dist-info/RECORD,,\n",
    }
    wheel(folder / "pkg-1.0-cp311-cp311-linux_x86_64.whl", members)
    for name, code in (("model.pt2", "models/model.json"), ("script.pt", "model/code/m.py")):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(code, "{}" if code.endswith("json") else "torch.add(x)\nimport os; os.system('touch ran')")
            archive.writestr("model/data.pkl", PICKLE)
    site = folder / "site"
    torch_package(site)
    install(site, "installed", {"installed/_C.so": extension()}, requires="")
    (site / "installed" / "__init__.py").write_text(HOSTILE)
    return folder


T = ("--torch", "2.13.0")
WHEEL = "pkg-1.0-cp311-cp311-linux_x86_64.whl"
COMMANDS = [
    *(("check", target, *T) for target in ("loads.so", "backend.so", "arm.so", "gpu.so", "pkg", WHEEL)),
    *(("ops", target) for target in ("loads.so", "backend.so", "arm.so", "gpu.so", "pkg", WHEEL)),
    ("ops", "backend.so", "--api-version", *T),
    ("check", "gpu.so", *T, "--gpu", "sm_90"),
    ("check", WHEEL, "--torch", "site/torch"),
    ("matrix", WHEEL, *T, "--gpus"),
    ("coverage", "backend.so", *T, "--workload", "model.pt2"),
    ("coverage", "backend.so", *T, "--workload", "script.pt"),
    ("coverage", WHEEL, *T, "--backend", "PrivateUse1"),
    ("diff", "2.9.1", "2.13.0", "--used-by", "backend.so"),
    ("diff", "2.13.0", "site/torch"),
    ("stable", "pkg", WHEEL, "arm.so"),
    ("stamp", WHEEL, *T),
    ("check", "installed", "--python", "PYTHON"),
    ("doctor", "--python", "PYTHON"),
]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nothing_runs(words: tuple[str, ...], targets: Path, tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    shutil.copytree(targets, folder)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "python").mkdir()
    python = python_of(folder / "site", tmp_path / "python")
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    trace = tmp_path / "trace"
    strace = shutil.which("strace") or ""
    # With a filter in the kernel, the process only stops at what is traced.
    watch = [strace, "-f", "--seccomp-bpf", "-y", "-o", str(trace), "-e", "trace=execve,execveat,mmap,mprotect"]
    command = [
        *(watch if strace else ()),
        sys.executable,
        "-c",
        WATCHED,
        str(folder),
        *(python if word == "PYTHON" else word for word in words),
    ]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    seen = [line.removeprefix("WATCHED") for line in done.stderr.splitlines() if line.startswith("WATCHED")]
    assert [json.loads(line) for line in seen] == [[[], []]], (
        "what the process that read the target imported and mapped"
    )
    assert list(folder.rglob("*ran")) == []
    if strace:
        calls = trace.read_text("utf-8", "replace").splitlines()
        assert any("PROT_EXEC" in call and "libc.so" in call for call in calls), "strace sees what is mapped as code"
        inside = re.compile(rf"<{re.escape(str(tmp_path))}/(hostile|tmp)/|\"{re.escape(str(folder))}/")
        executing = [call for call in calls if "PROT_EXEC" in call or "exec" in call.partition("(")[0]]
        assert [call for call in executing if inside.search(call) and ITSELF not in call] == []


def test_the_watch_sees_what_runs(tmp_path: Path) -> None:
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / "ran.py").write_text("x = 1")
    code = WATCHED.replace(
        "from abiscan.cli import main", f"sys.path.insert(0, {str(tmp_path / 'hostile')!r}); import ran"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.replace('main(prog_name="abiscan")', ""), str(tmp_path / "hostile")],
        capture_output=True,
        text=True,
        check=True,
    )
    events, _ = json.loads(done.stderr.removeprefix("WATCHED"))
    assert "exec" in {event for event, _ in events}
