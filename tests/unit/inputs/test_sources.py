from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from abiscan.binary.elf import SharedObject
from abiscan.errors import InputError, NotElfError
from abiscan.inputs import sources
from abiscan.inputs.files import Files
from abiscan.inputs.kinds import TargetKind
from abiscan.inputs.sources import Target, needs_torch, read_target
from tests.elf_builder import DF_1_PIE, ET_EXEC, Elf, exports, uses
from tests.fakes import extension, torch_package, wheel
from tests.image_samples import image

PLAIN = Elf(soname="libplain.so", needed=("libc.so.6",))
METADATA = b"Name: pkg\nRequires-Dist: numpy\nRequires-Dist: torchvision\nRequires-Dist: torch (==2.5.1)\n"


def read(path: Path, torch: str = "/site/torch") -> Target:
    return read_target(path, Files(), "/site", torch)


def paths(target: Target) -> list[str]:
    return [member.path for member in target.extensions]


def test_a_single_file(tmp_path: Path) -> None:
    path = extension().write(tmp_path / "_C.so")
    PLAIN.write(tmp_path / "libplain.so.1")
    (tmp_path / "_C.py").write_text("", encoding="utf-8")
    target = read(path)
    assert (target.name, target.root, paths(target)) == (str(path), str(tmp_path), ["_C.so"])
    assert target.siblings == {"_C.so": str(path), "libplain.so.1": str(tmp_path / "libplain.so.1")}
    assert target.extensions[0].location == str(path)
    assert target.extensions[0].source.hash_content() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_single_file_is_taken_even_if_it_uses_no_torch(tmp_path: Path) -> None:
    assert paths(read(PLAIN.write(tmp_path / "libplain.so"))) == ["libplain.so"]


@pytest.mark.parametrize("program", [Elf(type=ET_EXEC), Elf(flags_1=DF_1_PIE)], ids=["fixed", "position-independent"])
def test_a_program(program: Elf, tmp_path: Path) -> None:
    assert read(program.write(tmp_path / "tool")).kind is TargetKind.PROGRAM


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.so: does not exist"):
        read(tmp_path / "absent.so")


def test_a_file_that_is_not_elf(tmp_path: Path) -> None:
    (tmp_path / "_C.so").write_bytes(b"")
    with pytest.raises(NotElfError, match="an empty file"):
        read(tmp_path / "_C.so")


def test_a_folder(tmp_path: Path) -> None:
    extension().write(tmp_path / "pkg" / "_C.so")
    Elf(needed=("libvendor.so.1",)).write(tmp_path / "pkg" / "user.so")
    Elf(soname="libvendor.so.1", undefined=uses("_ZN2at3addEv")).write(tmp_path / "pkg.libs" / "libvendor-1a2b.so")
    PLAIN.write(tmp_path / "pkg" / "plain.so")
    target = read(tmp_path)
    assert sorted(paths(target)) == ["pkg.libs/libvendor-1a2b.so", "pkg/_C.so", "pkg/user.so"]
    assert target.siblings["libvendor.so.1"] == str(tmp_path / "pkg.libs" / "libvendor-1a2b.so")
    assert target.siblings["plain.so"] == str(tmp_path / "pkg" / "plain.so")


@pytest.mark.parametrize(
    "user",
    [
        Elf(needed=("libc10.so",)),
        Elf(undefined=uses("_ZN3c104warnEv")),
        Elf(undefined=uses("aoti_torch_empty_strided")),
        Elf(undefined=uses("THPVariableClass")),
    ],
)
def test_what_uses_torch(user: Elf, tmp_path: Path) -> None:
    user.write(tmp_path / "x.so")
    PLAIN.write(tmp_path / "plain.so")
    assert paths(read(tmp_path)) == ["x.so"]


def test_each_library_is_asked_once_whether_it_uses_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SharedObject] = []

    def ask(facts: SharedObject) -> bool:
        asked.append(facts)
        return needs_torch(facts)

    monkeypatch.setattr(sources, "needs_torch", ask)
    for number in range(5):
        Elf(soname=f"lib{number}.so").write(tmp_path / f"lib{number}.so")
    with pytest.raises(InputError):
        read(tmp_path)
    assert len(asked) == 5


def test_a_file_with_several_names_is_read_once(tmp_path: Path) -> None:
    extension().write(tmp_path / "libx.so.1.0")
    (tmp_path / "libx.so").symlink_to("libx.so.1.0")
    (tmp_path / "libx.so.1").hardlink_to(tmp_path / "libx.so.1.0")
    (tmp_path / "dangling.so").symlink_to("nothing")
    (tmp_path / "folder.so").mkdir()
    assert paths(read(tmp_path)) == ["libx.so"]


def test_a_loop_of_folders_ends(tmp_path: Path) -> None:
    extension().write(tmp_path / "a" / "x.so")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert paths(read(tmp_path)) == ["a/x.so"]


def test_torch_itself_is_no_target(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    extension().write(tmp_path / "pkg" / "_C.so")
    extension().write(tmp_path / "torch_more" / "_C.so")
    target = read(tmp_path, str(package))
    assert sorted(paths(target)) == ["pkg/_C.so", "torch_more/_C.so"]


def test_a_file_called_like_a_library_that_is_none_is_passed_over(tmp_path: Path) -> None:
    extension().write(tmp_path / "_C.so")
    (tmp_path / "libscript.so").write_text("INPUT(libc.so.6)", encoding="utf-8")
    target = read(tmp_path)
    assert (paths(target), target.unreadable) == (["_C.so"], ())


def test_a_damaged_member_is_kept_as_unreadable(tmp_path: Path) -> None:
    extension().write(tmp_path / "_C.so")
    (tmp_path / "cut.so").write_bytes(extension().build()[:200])
    target = read(tmp_path)
    assert paths(target) == ["_C.so"]
    assert [(path, error.subject) for path, error in target.unreadable] == [("cut.so", str(tmp_path / "cut.so"))]


def test_a_folder_with_nothing_but_damage_is_a_target(tmp_path: Path) -> None:
    (tmp_path / "cut.so").write_bytes(extension().build()[:200])
    assert len(read(tmp_path).unreadable) == 1


def test_a_folder_without_elf(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="contains no shared object"):
        read(tmp_path)


def test_nothing_uses_torch(tmp_path: Path) -> None:
    PLAIN.write(tmp_path / "a.so")
    Elf(defined=exports("f")).write(tmp_path / "b.so")
    with pytest.raises(InputError, match="nothing in it uses torch"):
        read(tmp_path)


def test_a_wheel(tmp_path: Path) -> None:
    path = wheel(
        tmp_path / "pkg-1.0-py3-none-any.whl",
        {
            "pkg/_C.so": extension(needed=("libv.so", "libc10.so")).build(),
            "pkg-1.0.data/platlib/pkg/_D.so": extension().build(),
            "pkg.libs/libv-1.so.2": Elf(soname="libv.so").build(),
            "pkg-1.0.dist-info/METADATA": METADATA,
        },
    )
    target = read(path)
    located = {member.path: member.location for member in target.extensions}
    assert located == {"pkg/_C.so": "/site/pkg/_C.so", "pkg-1.0.data/platlib/pkg/_D.so": "/site/pkg/_D.so"}
    assert target.siblings["libv.so"] == target.siblings["libv-1.so.2"] == "/site/pkg.libs/libv-1.so.2"
    assert target.root == "/site"
    assert target.metadata is not None
    assert str(target.metadata.requires_torch) == "torch==2.5.1"


def test_a_wheel_without_metadata_says_nothing(tmp_path: Path) -> None:
    metadata = read(wheel(tmp_path / "x.whl", {"_C.so": extension().build()})).metadata
    assert metadata is not None
    assert metadata.requires_torch is None


def test_only_wheels_have_metadata(tmp_path: Path) -> None:
    assert read(extension().write(tmp_path / "_C.so")).metadata is None
    assert read(tmp_path).metadata is None


def test_where_assertions_stand(tmp_path: Path) -> None:
    texts = (
        b'a() INTERNAL ASSERT FAILED at "/x/include/c10/a.h":17, please report a bug to PyTorch. ',
        b' INTERNAL ASSERT FAILED at "/x/b.h":, nothing',
        b'"c" INTERNAL ASSERT FAILED at "b.h":9, please',
    )
    (found,) = read(extension(texts=texts).write(tmp_path / "_C.so")).extensions
    assert found.assertions == {("/x/include/c10/a.h", 17), ("b.h", 9)}


def test_a_member_of_a_wheel_that_cannot_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    good, bad = extension().build(), extension(soname="libbad.so").build()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("good.so", good)
        archive.writestr("bad.so", bad)
    path.write_bytes(path.read_bytes().replace(b"libbad.so", b"LIBBAD.so"))
    target = read(path)
    assert paths(target) == ["good.so"]
    assert [(name, error.subject) for name, error in target.unreadable] == [("bad.so", f"{path}!bad.so")]


@pytest.mark.parametrize(
    ("member", "content", "uses_torch"),
    [
        ("_C.so", PLAIN.build(), False),
        ("_C.so", extension().build(), True),
        ("_C.so", b"\x7fELF", False),
        ("_C.pyd", image("loads.pyd"), True),
    ],
)
def test_what_is_compiled_in_a_package(member: str, content: bytes, uses_torch: bool, tmp_path: Path) -> None:
    members = {f"pkg/{member}": content, "pkg-1.dist-info/METADATA": METADATA}
    target = read(wheel(tmp_path / "pkg-1-py3-none-any.whl", members))
    assert target.package is not None
    assert (target.is_python, target.uses_torch) == (False, uses_torch)
