"""The loader model for images: what is missing, where, and what the system says."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem, ImportedName, LibraryImage, NeededImage
from abiscan.inputs.files import DiskFile
from abiscan.inputs.image_files import ImageFile, is_torch_image, users_of_torch
from abiscan.linkage.image_errors import error_text
from abiscan.linkage.images import ImageLoad, LibraryNotFound, NameNotFound, load_image
from abiscan.torches.torch_images import TorchImages

ARM = Machine.AARCH64


def torch(system: ImageSystem, *, ordinals: bool = False, **libraries: set[str]) -> TorchImages:
    suffix = "{}.dll" if system is ImageSystem.WINDOWS else "lib{}.dylib"
    exports = {suffix.format(name): names.__contains__ for name, names in libraries.items()}
    return TorchImages(build="9.9", system=system, machine=ARM, exports=exports, ordinals=ordinals)


def file(
    path: str,
    system: ImageSystem,
    *,
    needed: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    imports: tuple[tuple[str, str | None], ...] = (),
    exports: tuple[str, ...] = (),
    reexports: tuple[str, ...] = (),
    rpaths: tuple[str, ...] = (),
) -> ImageFile:
    part = LibraryImage(
        system=system,
        machine=ARM,
        name=path,
        needed=(
            *(NeededImage(name=name, optional=False) for name in needed),
            *(NeededImage(name=name, optional=True) for name in optional),
        ),
        imports=tuple(ImportedName(name=name, library=library) for name, library in imports),
        exports=frozenset(exports),
        reexports=reexports,
        rpaths=rpaths,
    )
    return ImageFile(path=path, location=path, source=DiskFile(Path(path)), sha256="", images={ARM: part})


WINDOWS = torch(ImageSystem.WINDOWS, c10={"?a"}, torch_cpu={"?b"})
MACOS = torch(ImageSystem.MACOS, c10={"__ZN3c101aEv"}, torch_cpu={"__ZN2at1bEv"})


def of(one: ImageFile, *others: ImageFile, on: TorchImages) -> ImageLoad:
    return load_image(one, on, [one, *others])


def test_all_is_there() -> None:
    extension = file(
        "p/_C.pyd",
        ImageSystem.WINDOWS,
        needed=("C10.DLL", "KERNEL32.dll", "python311.dll"),
        imports=(("?a", "C10.DLL"),),
    )
    assert of(extension, on=WINDOWS) == ImageLoad(libraries=(), names=(), external=(), undecided=())


def test_a_name_counts_in_its_library_alone() -> None:
    extension = file("_C.pyd", ImageSystem.WINDOWS, needed=("c10.dll",), imports=(("?b", "c10.dll"),))
    assert of(extension, on=WINDOWS).names == (NameNotFound(name="?b", library="c10.dll", needed_by="_C.pyd"),)


def test_names_of_macos_are_case_sensitive() -> None:
    extension = file("_C.so", ImageSystem.MACOS, needed=("@rpath/libC10.dylib",))
    assert of(extension, on=MACOS).libraries == (LibraryNotFound(name="@rpath/libC10.dylib", needed_by="_C.so"),)


def test_names_of_an_absent_library_are_no_news() -> None:
    extension = file("_C.pyd", ImageSystem.WINDOWS, needed=("torch_cuda.dll",), imports=(("?x", "torch_cuda.dll"),))
    found = of(extension, on=WINDOWS)
    assert (found.libraries, found.names) == ((LibraryNotFound(name="torch_cuda.dll", needed_by="_C.pyd"),), ())


def test_optional_libraries_may_be_absent() -> None:
    assert not of(file("_C.pyd", ImageSystem.WINDOWS, optional=("torch_cuda.dll",)), on=WINDOWS).fails


def test_another_library_may_be_on_the_system() -> None:
    found = of(file("_C.pyd", ImageSystem.WINDOWS, needed=("avcodec-61.dll",)), on=WINDOWS)
    assert (found.fails, found.external) == (False, ("avcodec-61.dll",))


@pytest.mark.parametrize("before", ["c10.dll", "KERNEL32.dll", "avcodec-61.dll", "b.dll"])
def test_each_needed_library_counts_wherever_it_is_named(before: str) -> None:
    """An entry of the import directory says nothing about those after it ("PE Format", the import directory table)."""
    extension = file("_C.pyd", ImageSystem.WINDOWS, needed=(before, "torch_cuda.dll"))
    found = of(extension, file("b.dll", ImageSystem.WINDOWS), on=WINDOWS)
    assert found.libraries == (LibraryNotFound(name="torch_cuda.dll", needed_by="_C.pyd"),)


def test_an_optional_library_that_is_absent_does_not_end_the_search() -> None:
    """LC_LOAD_WEAK_DYLIB may stand before LC_LOAD_DYLIB: load commands have no order by kind."""
    extension = file("_C.so", ImageSystem.MACOS, optional=("@rpath/libtorch_cuda.dylib", "@rpath/libx.dylib"))
    assert of(extension, file("libx.dylib", ImageSystem.MACOS), on=MACOS).along == ("libx.dylib",)


@pytest.mark.parametrize(
    ("system", "library", "name", "needed"),
    [
        (ImageSystem.WINDOWS, "avcodec-61.dll", "avcodec_version", "avcodec-61.dll"),
        (ImageSystem.WINDOWS, "KERNEL32.dll", "CreateFileW", "KERNEL32.dll"),
        (ImageSystem.MACOS, "/usr/lib/libc++.1.dylib", "__ZdlPv", "/usr/lib/libc++.1.dylib"),
        (ImageSystem.MACOS, "/opt/homebrew/lib/libz.dylib", "_inflate", "/opt/homebrew/lib/libz.dylib"),
    ],
)
def test_what_a_library_of_the_system_exports_is_taken_for_granted(
    system: ImageSystem, library: str, name: str, needed: str
) -> None:
    extension = file("_C.so", system, needed=(needed,), imports=((name, library),))
    found = of(extension, on=WINDOWS if system is ImageSystem.WINDOWS else MACOS)
    assert (found.names, found.undecided) == ((), ())


def test_a_library_of_the_target_is_told_by_its_base_name() -> None:
    one = file("p/_C.so", ImageSystem.MACOS, needed=("@rpath/libx.dylib",), imports=(("_f", "@rpath/libx.dylib"),))
    there = file("p/libx.dylib", ImageSystem.MACOS, exports=("_g",))
    assert of(one, there, on=MACOS).names == (NameNotFound(name="_f", library="libx.dylib", needed_by="_C.so"),)


def test_siblings_are_loaded_too_and_loops_end() -> None:
    first = file("p/_C.pyd", ImageSystem.WINDOWS, needed=("b.dll",), imports=(("f", "b.dll"), ("g", "b.dll")))
    second = file(
        "p/b.dll", ImageSystem.WINDOWS, needed=("_C.pyd", "c10.dll"), imports=(("?z", "c10.dll"),), exports=("f",)
    )
    assert of(first, second, on=WINDOWS).names == (
        NameNotFound(name="g", library="b.dll", needed_by="_C.pyd"),
        NameNotFound(name="?z", library="c10.dll", needed_by="b.dll"),
    )


def test_loader_path_is_the_folder_of_the_image() -> None:
    one = file("p/_C.so", ImageSystem.MACOS, needed=("@loader_path/lib/libx.dylib",))
    there = file("p/lib/libx.dylib", ImageSystem.MACOS)
    elsewhere = file("q/libx.dylib", ImageSystem.MACOS)
    assert not of(one, there, on=MACOS).fails
    assert of(one, elsewhere, on=MACOS).libraries == (
        LibraryNotFound(name="@loader_path/lib/libx.dylib", needed_by="_C.so"),
    )


@pytest.mark.parametrize(
    ("rpaths", "along"),
    [
        (("@loader_path",), ("p/libx.dylib",)),
        (("@loader_path/",), ("p/libx.dylib",)),
        (("@loader_path/lib",), ("p/lib/libx.dylib",)),
        (("@loader_path/../q/",), ("q/libx.dylib",)),
        (("@loader_path/nowhere", "@loader_path/../q", "@loader_path/lib"), ("q/libx.dylib",)),  # the first that has it
    ],
)
def test_each_rpath_stands_for_the_beginning_of_a_name(rpaths: tuple[str, ...], along: tuple[str, ...]) -> None:
    """``dyld(1)``: @rpath/ is replaced by each path of the list in turn, and @loader_path by the image's folder."""
    one = file("p/_C.so", ImageSystem.MACOS, needed=("@rpath/libx.dylib",), rpaths=rpaths)
    siblings = [file(f"{folder}/libx.dylib", ImageSystem.MACOS) for folder in ("p", "p/lib", "q")]
    assert of(one, *siblings, on=MACOS).along == along


@pytest.mark.parametrize(("name", "found"), [("__ZN2at1bEv", True), ("__ZN2at1cEv", False), ("_PyLong_AsLong", True)])
def test_a_flat_lookup_of_torchs_names_ends_in_torch_or_nowhere(name: str, found: bool) -> None:
    result = of(file("_C.so", ImageSystem.MACOS, needed=("@rpath/libc10.dylib",), imports=((name, None),)), on=MACOS)
    assert result.names == (() if found else (NameNotFound(name=name, library=None, needed_by="_C.so"),))


def test_a_flat_lookup_may_end_in_the_target() -> None:
    one = file("_C.so", ImageSystem.MACOS, imports=(("__ZN2at1cEv", None),))
    assert not of(one, file("x.dylib", ImageSystem.MACOS, exports=("__ZN2at1cEv",)), on=MACOS).fails


def test_ordinals_of_an_embedded_torch_are_unknown() -> None:
    extension = file("_C.pyd", ImageSystem.WINDOWS, needed=("c10.dll",), imports=(("#5", "c10.dll"),))
    assert of(extension, on=WINDOWS).undecided == (ImportedName(name="#5", library="c10.dll"),)
    assert not of(extension, on=torch(ImageSystem.WINDOWS, ordinals=True, c10={"#5"})).undecided
    assert of(extension, on=torch(ImageSystem.WINDOWS, ordinals=True, c10={"#4"})).fails


def test_what_a_sibling_passes_on_is_unknown() -> None:
    one = file("_C.so", ImageSystem.MACOS, needed=("@rpath/libx.dylib",), imports=(("_f", "@rpath/libx.dylib"),))
    passing = file("libx.dylib", ImageSystem.MACOS, reexports=("/usr/lib/libz.dylib",))
    assert of(one, passing, on=MACOS).undecided == (ImportedName(name="_f", library="@rpath/libx.dylib"),)
    assert of(one, file("libx.dylib", ImageSystem.MACOS, exports=("_f",)), on=MACOS).undecided == ()


def test_users_of_torch() -> None:
    direct = file("p/b.dll", ImageSystem.WINDOWS, needed=("c10.dll",))
    through = file("p/_C.pyd", ImageSystem.WINDOWS, needed=("B.dll",))
    neither = file("p/zlib.dll", ImageSystem.WINDOWS, needed=("kernel32.dll",))
    assert {one.path for one in users_of_torch([neither, through, direct])} == {"p/b.dll", "p/_C.pyd"}


@pytest.mark.parametrize("system", ImageSystem)
def test_variants_of_a_package_are_kept_apart(system: ImageSystem) -> None:
    suffix = "dll" if system is ImageSystem.WINDOWS else "dylib"
    torchs = "c10.dll" if system is ImageSystem.WINDOWS else "@rpath/libc10.dylib"
    needed = f"x.{suffix}" if system is ImageSystem.WINDOWS else f"@rpath/x.{suffix}"
    files = [
        file(f"p/{variant}/{name}", system, needed=(needs, torchs), imports=imports, exports=exports)
        for variant, exports in (("old", ()), ("new", ("f",)))
        for name, needs, imports, exports in (
            (f"y.{suffix}", needed, (("f", needed),), ()),
            (f"x.{suffix}", torchs, (), exports),
        )
    ]
    on = WINDOWS if system is ImageSystem.WINDOWS else MACOS
    assert len(users_of_torch(files)) == 4
    assert [one.path for one in files if load_image(one, on, files).fails] == [f"p/old/y.{suffix}"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch_cpu.dll", True),
        ("@rpath/libtorch_python.dylib", True),
        ("C10.DLL", True),
        ("torchaudio.dll", False),
        ("libtorchcodec_core4.dylib", False),
        ("c10.so", False),
    ],
)
def test_libraries_of_torch(name: str, expected: bool) -> None:
    assert is_torch_image(name) is expected


def lack(path: str, system: ImageSystem, *, library: bool = False, flat: bool = False) -> str:
    libraries = (LibraryNotFound(name="@rpath/libtorch_cuda.dylib", needed_by="b"),) if library else ()
    names = (NameNotFound(name="__ZN2at1cEv", library=None if flat else "libtorch_cpu.dylib", needed_by="b"),)
    found = ImageLoad(libraries=libraries, names=names, external=(), undecided=())
    return error_text(file(path, system), found)


def test_texts_of_windows() -> None:
    module = "DLL load failed while importing _C: The specified {} could not be found."
    assert lack("p/_C.cp311-win_amd64.pyd", ImageSystem.WINDOWS) == module.format("procedure")
    assert lack("p/_C.pyd", ImageSystem.WINDOWS, library=True) == module.format("module")
    assert lack("p/ops.dll", ImageSystem.WINDOWS) == "[WinError 127] The specified procedure could not be found"
    assert "Could not find module '?\\ops.dll' (or one of its dependencies)" in lack(
        "p/ops.dll", ImageSystem.WINDOWS, library=True
    )


def test_texts_of_macos() -> None:
    assert lack("p/_C.so", ImageSystem.MACOS).splitlines() == [
        "dlopen(?/_C.so, 0x0002): Symbol not found: __ZN2at1cEv",
        "  Referenced from: ?/b",
        "  Expected in: ?/libtorch_cpu.dylib",
    ]
    assert "Library not loaded: @rpath/libtorch_cuda.dylib" in lack("p/_C.so", ImageSystem.MACOS, library=True)
    assert "symbol not found in flat namespace '__ZN2at1cEv'" in lack("p/_C.so", ImageSystem.MACOS, flat=True)
