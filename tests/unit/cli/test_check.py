"""``abiscan check``, by its words, its streams and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click.testing
import pytest

from abiscan.cli import main
from tests.elf_builder import EM_AARCH64, Elf, uses
from tests.fakes import SAMPLES, extension, package_wheel, torch_libraries, torch_package, wheel
from tests.schemas import validate

GONE = "_ZN2at4goneEv"
FORMATS = ("text", "json", "sarif", "junit", "github", "markdown")


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    return torch_package(tmp_path / "site")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return extension(runpath="$ORIGIN/../site/torch/lib").write(tmp_path / "build" / "good.so")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return extension(undefined=uses(GONE), runpath="$ORIGIN/../site/torch/lib").write(tmp_path / "bad" / "bad.so")


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    """Needs a library that is nowhere: a note, a gap, and a load that may succeed."""
    return extension(needed=("libtorch_cpu.so", "libvendor.so.1")).write(tmp_path / "noted" / "noted.so")


def run(*words: str | Path) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, ["check", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_loading_extension_exits_with_0(good: Path, torch: Path) -> None:
    result = run(good, "--torch", torch)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{good}: loads on torch 9.9.0+cpu\n"


@pytest.mark.parametrize("number", ["2.13.0", "2.13"])
def test_a_release_with_builds_that_differ_names_them(tmp_path: Path, number: str) -> None:
    needs_cuda = extension(needed=("libtorch_cpu.so", "libc10_cuda.so")).write(tmp_path / "_C.so")
    result = run(needs_cuda, "--torch", number)
    assert f"{needs_cuda}: fails on torch 2.13.0+cpu (loads on torch 2.13.0+cu130) - libc10_cuda.so: " in result.stdout
    assert result.exit_code == 1
    document = json.loads(run(needs_cuda, "--torch", number, "--format", "json").stdout)
    validate(document, "check")
    assert [one["other_builds"] for one in document["results"]] == [{"2.13.0+cu130": "loads"}]


def test_a_build_that_is_named_stands_for_itself(tmp_path: Path) -> None:
    needs_cuda = extension(needed=("libtorch_cpu.so", "libc10_cuda.so")).write(tmp_path / "_C.so")
    for number in ("2.13.0+cpu", "2.13.0+cu130", "2.12.0"):
        document = json.loads(run(needs_cuda, "--torch", number, "--format", "json").stdout)
        assert [one for one in document["results"] if "other_builds" in one] == []


def test_a_package_says_which_build_it_works_on(tmp_path: Path) -> None:
    needs_cuda = extension(needed=("libtorch_cpu.so", "libc10_cuda.so"))
    files = {"pkg/__init__.py": "import torch\ntorch.ops.load_library(__path__[0] + '/_C.so')\n"}
    target = package_wheel(tmp_path, "pkg", {"pkg/_C.so": needs_cuda}, files=files)
    assert "pkg 1.0 on torch 2.13.0+cpu (works on torch 2.13.0+cu130): import fails" in run(
        target, "--torch", "2.13.0"
    ).stdout.replace("\n", " ")


def test_a_failing_extension_exits_with_1(bad: Path, torch: Path) -> None:
    result = run(bad, "--torch", torch)
    assert (result.exit_code, result.stderr) == (1, "")
    verdict, finding, *_ = filter(None, result.stdout.splitlines())
    assert verdict == f"{bad}: fails on torch 9.9.0+cpu - bad.so: undefined symbol: {GONE}"
    assert finding == "error[undefined-symbol]: bad.so uses 1 symbol that torch 9.9.0+cpu does not have"


def test_one_that_fails_among_several_exits_with_1(good: Path, bad: Path, torch: Path) -> None:
    assert run(good, bad, "--torch", torch).exit_code == 1


def test_what_cannot_be_told_exits_with_3(tmp_path: Path, torch: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "cut.so").write_bytes(extension().build()[:200])
    result = run(tmp_path / "pkg", "--torch", torch)
    assert result.exit_code == 3
    assert "gap[elf]: " in result.stdout
    assert "cut.so: unknown on torch 9.9.0+cpu" in result.stdout
    assert run(tmp_path / "pkg", "--torch", torch, "--strict").exit_code == 1


def test_a_member_that_cannot_be_read_does_not_hide_one_that_fails(bad: Path, torch: Path) -> None:
    (bad.parent / "cut.so").write_bytes(bad.read_bytes()[:200])
    result = run(bad.parent, "--torch", torch, "--format", "json")
    assert result.exit_code == 1
    verdicts = {one["path"]: one["verdict"] for one in json.loads(result.stdout)["results"]}
    assert verdicts == {"bad.so": "fails", "cut.so": "unknown"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "an empty file"),
        (b"text\n", "a text file"),
        (b"\xcf\xfa\xed\xfe" + bytes(60), "is not for x86_64 or aarch64"),
        (b"\x7fELF\x01" + bytes(60), "a 32-bit ELF file"),
        (b"\x7fELF\x02\x02" + bytes(60), "a big-endian ELF file"),
        (Elf().build()[:30], "truncated inside the ELF header"),
        (Elf().build()[:-50], "truncated"),
    ],
)
def test_bad_input_is_one_line_and_exits_with_2(data: bytes, problem: str, tmp_path: Path, torch: Path) -> None:
    path = tmp_path / "bad.so"
    path.write_bytes(data)
    result = run(path, "--torch", torch)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"abiscan: {path}: {problem}")
    assert result.stderr.count("\n") == 1


def test_inputs_that_are_nothing_exit_with_2(tmp_path: Path, good: Path, torch: Path) -> None:
    (tmp_path / "empty").mkdir()
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    for words, problem in (
        ((tmp_path / "absent.so", "--torch", torch), "does not exist"),
        ((tmp_path / "empty", "--torch", torch), "contains no shared object"),
        ((broken, "--torch", torch), "not a readable wheel"),
        ((good, "--torch", tmp_path / "empty"), "contains no torch"),
        ((good, "--torch", tmp_path / "absent"), "does not exist"),
        ((good, "--python", tmp_path / "absent"), "cannot be run as a Python"),
    ):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert problem in result.stderr
        assert len(result.stderr.splitlines()) == 1 + ("--python" in words)  # which is named first


def test_each_target_gets_its_own_answer(tmp_path: Path, good: Path, bad: Path, torch: Path) -> None:
    """A wheel without anything compiled, a damaged one and a missing one do not stop the others."""
    pure = wheel(tmp_path / "pure-1-py3-none-any.whl", {"pure/__init__.py": b""})
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    absent = tmp_path / "absent.whl"
    unread = f"abiscan: {absent}: does not exist (did you mean {broken}?)\nabiscan: {broken}: not a readable wheel"
    for targets, code in (
        ((pure,), 0),
        ((pure, good), 0),
        ((good, broken, pure, absent), 2),
        ((absent, broken, good, bad), 1),  # what certainly fails is worse than what cannot be read
    ):
        result = run(*targets, "--torch", torch)
        assert result.exit_code == code
        assert (f"{pure}: nothing to check: nothing in it uses torch\n" in result.stdout) == (pure in targets)
        assert (f"{good}: loads on torch 9.9.0+cpu\n" in result.stdout) == (good in targets)
        assert (f"{absent}: does not exist" in result.stderr) == (absent in targets)
        assert (f"{broken}: not a readable wheel" in result.stderr) == (broken in targets)
        assert result.stderr.count("\n") == (absent in targets) + (broken in targets)
    both = run(absent, broken, "--torch", torch)
    assert (both.exit_code, both.stdout) == (2, "")
    assert both.stderr.startswith(unread)
    document = json.loads(run(pure, broken, good, "--torch", torch, "--format", "json").stdout)
    validate(document, "check")
    assert [one["target"] for one in document["results"]] == [str(good)]
    assert {one["target"]: one["readable"] for one in document["unchecked"]} == {str(pure): True, str(broken): False}


def test_a_wheel_that_does_not_use_torch_is_fine(tmp_path: Path, torch: Path) -> None:
    path = wheel(tmp_path / "plain-1-py3-none-any.whl", {"plain/_C.so": Elf().build()})
    result = run(path, "--torch", torch)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{path}: nothing to check: nothing in it uses torch\n"


def test_a_library_that_has_nothing_to_do_with_torch_is_said_to(tmp_path: Path, torch: Path) -> None:
    plain = Elf(soname="libz.so").write(tmp_path / "plain" / "libz.so")
    result = run(plain, "--torch", torch)
    assert (result.exit_code, result.stdout) == (0, f"{plain}: loads on torch 9.9.0+cpu, but does not use torch\n")
    document = json.loads(run(plain, "--torch", torch, "--format", "json").stdout)
    validate(document, "check")
    assert document["results"][0]["uses_torch"] is False
    # Through a library that it brings along, it does.
    extension(soname="libside.so").write(tmp_path / "user" / "libside.so")
    user = Elf(needed=("libside.so",), runpath="$ORIGIN").write(tmp_path / "user" / "user.so")
    assert run(user, "--torch", torch).stdout == f"{user}: loads on torch 9.9.0+cpu\n"


def test_a_damaged_wheel_does_not_stop_the_search_for_libraries_of_other_targets(tmp_path: Path, torch: Path) -> None:
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    needs = extension(needed=("libtorch_cpu.so", "libother.so")).write(tmp_path / "needs" / "needs.so")
    has = extension(soname="libother.so").write(tmp_path / "has" / "libother.so")
    result = run(broken, needs, has, "--torch", torch)
    assert result.exit_code == 2
    assert f"{needs}: loads on torch 9.9.0+cpu\n" in result.stdout


def test_a_missing_target_is_told_before_a_missing_torch(tmp_path: Path) -> None:
    result = run(tmp_path / "absent.so", "--torch", tmp_path / "nowhere")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path / 'absent.so'}: does not exist" in result.stderr


def test_a_folder_of_wheels_stands_for_the_wheels(tmp_path: Path, torch: Path) -> None:
    members = {"pkg/_C.so": extension().build()}
    paths = [wheel(tmp_path / "dist" / f"pkg-{number}-py3-none-any.whl", members) for number in (1, 2)]
    result = run(tmp_path / "dist", "--torch", torch, "-q")
    assert result.exit_code == 0
    assert result.stdout == "".join(f"{path}: pkg/_C.so: loads on torch 9.9.0+cpu\n" for path in paths)
    extension().write(tmp_path / "dist" / "own.so")
    assert f"{tmp_path / 'dist'}: own.so: loads" in run(tmp_path / "dist", "--torch", torch, "-q").stdout


def test_a_target_that_is_named_twice_is_checked_once(good: Path, torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(good.parent)
    result = run("good.so", "./good.so", good, "--torch", torch)
    assert (result.exit_code, result.stdout) == (0, "good.so: loads on torch 9.9.0+cpu\n")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("pkg-1.tar.gz", "is an archive of source code, in which nothing is compiled yet (build a wheel from it"),
        ("pkg-1.zip", "is an archive of source code"),
        ("pkg-1-cp311-cp311-ios_13_0_arm64_iphoneos.whl", "is for iOS"),
    ],
)
def test_what_cannot_be_checked_is_named(name: str, problem: str, tmp_path: Path, torch: Path) -> None:
    result = run(wheel(tmp_path / name, {"pkg/_C.so": b"\xcf\xfa\xed\xfe"}), "--torch", torch)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tmp_path / name}: {problem}" in result.stderr


def test_extensions_for_macos_are_no_pure_python(tmp_path: Path, torch: Path) -> None:
    extension = (SAMPLES / "images" / "loads.so").read_bytes()
    path = wheel(tmp_path / "pkg-1-py3-none-any.whl", {"pkg/_C.so": extension, "pkg-1.dist-info/METADATA": b""})
    result = run(path, "--torch", torch)
    assert (result.exit_code, "is a torch for Linux, the target is for macOS" in result.stderr) == (2, True)


def test_a_pattern_that_matches_nothing(tmp_path: Path, torch: Path) -> None:
    result = run(tmp_path / "*.whl", "--torch", torch)
    assert (result.exit_code, "*.whl: matches no file" in result.stderr) == (2, True)


def test_a_usage_error_exits_with_2(good: Path, torch: Path) -> None:
    for words, problem in (
        ((), "Missing argument 'TARGET...'"),
        ((good, "--no-such-option"), "No such option"),
        ((good, "--torch", torch, "--python", "python"), "--torch and --python cannot be combined"),
        ((good, "-v", "-q"), "-v and -q cannot be combined"),
        ((good, "--format", "xml"), "'xml' is not one of"),
        ((good, "--fail-on", "everything"), "'everything' is not one of"),
        ((good, "--select", "no-such-rule"), "there is no rule no-such-rule; rules: architecture-mismatch,"),
        ((good, "--ignore", "no-such-rule"), "there is no rule no-such-rule"),
    ):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert problem in result.stderr


def test_select_and_ignore(bad: Path, torch: Path) -> None:
    for words, code in (
        (("--select", "undefined-symbol"), 1),
        (("--select", "missing-library"), 0),
        (("--ignore", "undefined-symbol"), 0),
        (("--ignore", "missing-library"), 1),
        (("--select", "undefined-symbol", "--ignore", "undefined-symbol"), 0),
        (("--select", "missing-library", "--select", "undefined-symbol"), 1),
    ):
        assert run(bad, "--torch", torch, *words).exit_code == code


def test_a_rule_left_out_does_not_change_the_verdict(bad: Path, torch: Path) -> None:
    result = run(bad, "--torch", torch, "--ignore", "undefined-symbol")
    assert result.stdout == f"{bad}: fails on torch 9.9.0+cpu - bad.so: undefined symbol: {GONE}\n"


def test_fail_on_and_strict(noted: Path, bad: Path, torch: Path) -> None:
    assert run(noted, "--torch", torch).exit_code == 0
    assert run(noted, "--torch", torch, "--fail-on", "note").exit_code == 1
    strict = run(noted, "--torch", torch, "--strict")
    assert strict.exit_code == 1
    reason = "linkage: not available: libvendor.so.1; 0 unresolved symbols not checked"
    assert strict.stderr == f"abiscan: --strict: could not be checked: {reason}\n"
    assert run(bad, "--torch", torch, "--fail-on", "load-fails").exit_code == 1
    assert run(bad, "--torch", torch, "--fail-on", "aborts").exit_code == 0


def test_strict_does_not_count_what_a_release_number_leaves_open() -> None:
    """Libraries of the system and of vendors are taken for granted there: it would fail whatever is checked."""
    for sample in ("loads/loads.so", "missing_sibling/missing_sibling.so"):
        result = run(SAMPLES / sample, "--torch", "2.13.0", "--strict")
        assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(run(SAMPLES / "loads" / "loads.so", "--torch", "2.13.0", "--format", "json").stdout)
    assert [gap.get("expected") for gap in document["results"][0]["gaps"]] == [True]


def test_json_on_stdout_is_json_alone(good: Path, bad: Path, noted: Path, torch: Path) -> None:
    result = run(good, bad, noted, "--torch", torch, "--format", "json")
    document = json.loads(result.stdout)
    validate(document, "check")
    assert (result.exit_code, result.stderr) == (1, "")
    assert [one["verdict"] for one in document["results"]] == ["loads", "fails", "loads"]
    assert [one["external"] for one in document["results"]] == [[], [], ["libvendor.so.1"]]
    assert document["results"][1]["undefined_symbols"] == [GONE]
    assert document["results"][0]["torch"] == "9.9.0"


def test_exit_codes_are_the_same_in_every_format(good: Path, bad: Path, noted: Path, torch: Path) -> None:
    for target, code in ((good, 0), (bad, 1), (noted, 0)):
        codes = {run(target, "--torch", torch, "--format", form).exit_code for form in FORMATS}
        assert codes == {code}


def test_a_baseline_fails_what_is_new_alone(bad: Path, torch: Path, tmp_path: Path) -> None:
    report = tmp_path / "known.json"
    run(bad, "--torch", torch, "--format", "json", "--output", report)
    result = run(bad, "--torch", torch, "--baseline", report)
    assert result.exit_code == 0
    assert "suppressed[undefined-symbol]: " in result.stdout
    assert "fails on torch 9.9.0+cpu" in result.stdout
    extension(undefined=uses(GONE, "_ZN2at5gone2Ev"), runpath="$ORIGIN/../site/torch/lib").write(bad)
    assert run(bad, "--torch", torch, "--baseline", report).exit_code == 1


def test_suppressions_count_until_their_day(
    bad: Path, torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bad.parent)
    entry = 'suppress = [{rule = "undefined-symbol", target = "bad.so", reason = "it is optional", until = %s}]'
    for until, code, said in (("9999-01-01", 0, ""), ("2020-01-31", 1, "expired on 2020-01-31 and no longer applies")):
        (tmp_path / "pyproject.toml").write_text(f"[tool.abiscan]\n{entry % until}\n", encoding="utf-8")
        result = run("bad.so", "--torch", torch)
        assert result.exit_code == code
        assert ("= reason: it is optional" in result.stdout) == (code == 0)
        # docs/configuration.md: the last line of the report.
        accepts = "pyproject.toml accepts undefined-symbol in bad.so: the exit code is 0 instead of 1"
        assert (accepts in result.stdout.splitlines()[-1]) == (code == 0)
        assert said in result.stderr
    (tmp_path / "pyproject.toml").write_text(f"[tool.abiscan]\n{entry % '3'}\n", encoding="utf-8")
    assert run("bad.so", "--torch", torch).exit_code == 2


def test_a_project_says_what_is_checked(
    good: Path, bad: Path, torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert good.exists()
    settings = (
        f'[tool.abiscan]\ntargets = ["build/*.so", "bad/bad.so"]\ntorch = ["{torch}", "2.13.0"]\nfail-on = "aborts"\n'
    )
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    result = run("--format", "json")
    checked = [(one["target"], one["torch"]) for one in json.loads(result.stdout)["results"]]
    names = ["../build/good.so", "../bad/bad.so"]
    assert checked == [(name, number) for number in ("9.9.0", "2.13.0") for name in names]
    assert result.exit_code == 0
    assert f"abiscan: targets, torch, fail-on as {tmp_path}/pyproject.toml says" in result.stderr
    assert run("--fail-on", "load-fails").exit_code == 1
    named = run(bad, "--torch", torch, "-q")
    assert (named.stdout.count("\n"), named.stderr) == (1, "")
    assert "Missing argument 'TARGET...'" in run("--no-config").stderr
    (tmp_path / "pyproject.toml").write_text('[tool.abiscan]\ntargets = ["dist/*.whl"]\n', encoding="utf-8")
    assert f"there is no dist/*.whl in {tmp_path} (build it first, or correct the path)" in run().stderr


def test_one_question_has_several_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = '[tool.abiscan]\nsystem = ["debian12", "manylinux_2_17"]\n'
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    lines = run(SAMPLES / "loads" / "loads.so", "--torch", "2.13.0", "-q").stdout.splitlines()
    assert [(" loads on " in line, line.partition("(")[2].partition(")")[0]) for line in lines] == [
        (True, "debian12"),
        (False, "manylinux_2_17"),  # it needs GLIBC_2.32
    ]


def test_output_goes_to_the_file_whole(bad: Path, torch: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = run(bad, "--torch", torch, "--format", "json", "--output", report)
    assert (result.exit_code, result.stdout) == (1, "")
    assert json.loads(report.read_text("utf-8"))["results"][0]["verdict"] == "fails"
    assert [path.name for path in tmp_path.iterdir() if "report" in path.name] == ["report.json"]


def test_output_in_text_has_no_color(bad: Path, torch: Path, tmp_path: Path) -> None:
    run(bad, "--torch", torch, "--output", tmp_path / "report.txt")
    text = (tmp_path / "report.txt").read_text("utf-8")
    assert "error[undefined-symbol]" in text
    assert "\x1b" not in text


def test_output_that_cannot_be_written_exits_with_2(bad: Path, torch: Path, tmp_path: Path) -> None:
    result = run(bad, "--torch", torch, "--output", tmp_path / "absent" / "report.txt")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "report.txt: cannot be written: the folder " in result.stderr
    assert run(bad, "--torch", torch, "--output", tmp_path).exit_code == 2
    assert run(bad, "--torch", torch, "--output", bad / "report.txt").exit_code == 2  # below a file


def test_one_run_writes_several_reports(bad: Path, torch: Path, tmp_path: Path) -> None:
    words = [word for form in FORMATS for word in ("--report", f"{form}={tmp_path / form}")]
    result = run(bad, "--torch", torch, "-q", *words)
    assert result.exit_code == 1
    assert result.stdout == (tmp_path / "text").read_text("utf-8")
    for form in FORMATS[1:]:
        assert (tmp_path / form).read_text("utf-8") == run(bad, "--torch", torch, "--format", form).stdout
    for wrong in ("json", "xml=report", "json="):
        assert "expected FORMAT=FILE" in run(bad, "--torch", torch, "--report", wrong).stderr


def test_verbose_and_quiet(bad: Path, noted: Path, torch: Path) -> None:
    assert run(bad, "--torch", torch, "-q").stdout.count("\n") == 1
    assert "gap[linkage]: not available: libvendor.so.1;" in run(noted, "--torch", torch, "-v").stdout
    assert "gap" not in run(noted, "--torch", torch).stdout


def test_a_library_beside_it_that_cannot_be_read_is_a_gap(tmp_path: Path, torch: Path) -> None:
    path = extension(needed=("libtorch_cpu.so", "libside.so"), runpath="$ORIGIN").write(tmp_path / "x" / "_C.so")
    (path.parent / "libside.so").write_bytes(extension().build()[:260])
    (one,) = json.loads(run(path, "--torch", torch, "--format", "json").stdout)["results"]
    assert (one["external"], one["verdict"]) == ([], "unknown")  # ld.so finds it, and what it does then is not known
    assert [gap["reason"].partition(":")[0] for gap in one["gaps"] if gap["stage"] == "elf"] == [
        str(path.parent / "libside.so")
    ]


def test_a_wrong_file_of_the_right_name_ends_the_search(tmp_path: Path, torch: Path) -> None:
    path = extension(needed=("libtorch_cpu.so", "libside.so"), runpath="$ORIGIN/a:$ORIGIN/b").write(tmp_path / "_C.so")
    extension().write(tmp_path / "b" / "libside.so")
    assert run(path, "--torch", torch).exit_code == 0
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "libside.so").write_bytes(
        b"INPUT(../b/libside.so) /* as long as the header of a library, or longer */"
    )
    (one,) = json.loads(run(path, "--torch", torch, "--format", "json").stdout)["results"]
    assert one["predicted_error"] == {"how": "raises", "object": "libside.so", "message": "invalid ELF header"}
    assert [finding["rule"] for finding in one["findings"]] == ["missing-library"]
    assert f"{tmp_path}/a/libside.so: invalid ELF header" in one["findings"][0]["message"]
    assert one["gaps"] == []


def test_a_file_that_no_search_path_leads_to_is_a_gap(tmp_path: Path, torch: Path) -> None:
    path = extension(needed=("libtorch_cpu.so", "libside.so")).write(tmp_path / "_C.so")
    extension().write(tmp_path / "libside.so")
    (one,) = json.loads(run(path, "--torch", torch, "--format", "json").stdout)["results"]
    assert [gap["reason"] for gap in one["gaps"]] == ["no search path leads to libside.so: assumed to be loaded before"]
    assert run(path, "--torch", torch, "--strict").exit_code == 1


def test_a_file_that_fails_in_any_case_fails_as_it_does_here(tmp_path: Path, torch: Path) -> None:
    path = extension(needed=("libtorch_cpu.so", "libvendor.so.1"), undefined=uses(GONE)).write(tmp_path / "_C.so")
    (one,) = json.loads(run(path, "--torch", torch, "--format", "json").stdout)["results"]
    words = "libvendor.so.1: cannot open shared object file: No such file or directory"
    assert one["predicted_error"] == {"how": "raises", "object": None, "message": words}
    assert one["undefined_symbols"] == [GONE]


def test_a_wheel_in_place(tmp_path: Path, torch: Path) -> None:
    members = {
        "pkg/_C.so": extension(needed=("libside.so", "libtorch_cpu.so"), runpath="$ORIGIN/../pkg.libs").build(),
        "pkg.libs/libside.so": extension(undefined=uses(GONE), runpath="$ORIGIN/../torch/lib").build(),
        "pkg-1.dist-info/METADATA": b"Requires-Dist: torch==2.5.1\n",
    }
    path = wheel(tmp_path / "pkg-1-py3-none-any.whl", members)
    result = run(path, "--torch", torch, "--format", "json")
    results = {one["path"]: one for one in json.loads(result.stdout)["results"]}
    error = {"how": "raises", "object": "libside.so", "message": f"undefined symbol: {GONE}"}
    assert {name: one["predicted_error"] for name, one in results.items()} == dict.fromkeys(
        ("pkg/_C.so", "pkg.libs/libside.so"), error
    )
    assert results["pkg/_C.so"]["target"] == str(path)
    assert "torch==2.5.1" in results["pkg/_C.so"]["findings"][0]["fix"]


def test_aarch64_is_judged_on_any_host(tmp_path: Path) -> None:
    for name, library in torch_libraries(EM_AARCH64).items():
        library.write(tmp_path / "torch" / "lib" / name)
    path = extension(machine=EM_AARCH64, undefined=uses(GONE)).write(tmp_path / "_C.so")
    result = run(path, "--torch", tmp_path / "torch", "--format", "json")
    (one,) = json.loads(result.stdout)["results"]
    assert one["predicted_error"]["message"] == f"undefined symbol: {GONE}"
    assert [finding["rule"] for finding in one["findings"]] == ["undefined-symbol"]


def test_the_torch_of_another_python(good: Path, torch: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    answer = json.dumps(["3.11.9", [".cpython-311-x86_64-linux-gnu.so"], str(torch / "__init__.py"), []])
    python.write_text(f"#!/bin/sh\necho '{answer}'\n", encoding="utf-8")
    python.chmod(0o755)
    assert run(good, "--python", python).stdout == f"{good}: loads on torch 9.9.0+cpu\n"


def test_a_python_without_torch_exits_with_2(good: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh\necho '["3.11.9", [".cpython-311.so"], null, []]'\n""", encoding="utf-8")
    python.chmod(0o755)
    result = run(good, "--python", python)
    named, problem = result.stderr.splitlines()
    assert (result.exit_code, named) == (2, f"abiscan: environment {python} (--python)")
    assert "has no torch" in problem


def test_a_specifier_means_every_release_that_it_admits() -> None:
    sample = Path(__file__).parents[3] / "sample_binaries" / "loads" / "loads.so"
    document = json.loads(run(sample, "--torch", ">=2.12,<2.14", "--format", "json").stdout)
    assert [result["torch"] for result in document["results"]] == ["2.12.0", "2.12.1", "2.13.0"]
    none = run(sample, "--torch", ">=9")
    assert (none.exit_code, none.stdout) == (2, "")
    assert "matches no embedded release" in none.stderr


def test_verbose_says_how_long_it_took_and_what_it_looked_at(bad: Path, torch: Path) -> None:
    size = bad.stat().st_size / 1e6
    for _ in range(2):  # found out, and kept
        said = run(bad, "--torch", torch, "-v").stderr
        found = re.fullmatch(r"abiscan: \d+\.\d s; looked at (\d+) files, (\d+\.\d) MB, mainly /.*\n", said)
        assert found is not None, said
        assert int(found[1]) >= 2
        assert float(found[2]) >= round(size, 1)
    assert run(bad, "--torch", torch).stderr == ""


def test_each_finding_names_its_page(bad: Path, torch: Path) -> None:
    (result,) = json.loads(run(bad, "--torch", torch, "--format", "json").stdout)["results"]
    pages = [finding["page"] for finding in result["findings"]]
    assert pages == ["docs/rules/undefined-symbol.md"]
    assert Path(__file__).resolve().parents[3].joinpath(pages[0]).is_file()


def test_findings_have_the_address_of_their_page_where_the_documentation_has_one(
    bad: Path, torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABISCAN_DOCS", "https://example.org/docs")
    address = "https://example.org/docs/rules/undefined-symbol.md"
    (result,) = json.loads(run(bad, "--torch", torch, "--format", "json").stdout)["results"]
    assert [finding["page"] for finding in result["findings"]] == [address]
    page = (
        click.testing.CliRunner().invoke(main, ["matrix", str(bad), "--torch", str(torch), "--format", "html"]).stdout
    )
    assert f'<a href="{address}">{address}</a>' in page


def test_findings_that_are_less_than_certain_say_so(bad: Path, torch: Path, tmp_path: Path) -> None:
    # A library that is not on this machine, which another package may bring along; and a function that torch lacks.
    vendor = extension(needed=["libtorch_cpu.so", "libabsent_vendor.so.1"]).write(tmp_path / "vendor.so")
    for path, confidence in ((vendor, "possible"), (bad, None)):
        (result,) = json.loads(run(path, "--torch", torch, "--format", "json").stdout)["results"]
        assert [finding.get("confidence") for finding in result["findings"]] == [confidence]


def test_a_link_in_a_circle_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").symlink_to("b")
    Path("b").symlink_to("a")
    assert "abiscan: a: is a symbolic link to b, which leads nowhere" in run("a", "--torch", "2.9.1").stderr


def test_a_torch_that_is_not_inside_for_windows_is_no_fault_of_the_requirement(tmp_path: Path) -> None:
    # torch 2.8.0 has wheels for Windows; of the releases for it, only later ones are embedded.
    members = {
        "pkg/_C.cp312-win_amd64.pyd": (SAMPLES / "images" / "loads.pyd").read_bytes(),
        "pkg-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\nRequires-Dist: torch==2.8.0\n",
        "pkg-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: cp312-cp312-win_amd64\n",
    }
    path = wheel(tmp_path / "pkg-1.0-cp312-cp312-win_amd64.whl", members)

    result = click.testing.CliRunner().invoke(main, ["check", str(path), "--torch", "declared"])

    assert result.exit_code == 2
    assert (
        "requires torch==2.8.0; there is no such release for Windows on x86_64 among the embedded ones" in result.stderr
    )
    assert "name the wheel of that torch for this system: --torch WHEEL" in result.stderr
    assert "correct the requirement" not in result.stderr

    skipped = click.testing.CliRunner().invoke(main, ["check", str(path), "--torch", "declared", "--skip-unsupported"])

    assert skipped.exit_code == 0
    assert "nothing to check: requires torch==2.8.0; there is no such release for Windows" in skipped.output
