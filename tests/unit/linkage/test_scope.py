"""What a load maps and from where, each against the rule of glibc that says so (elf/dl-load.c, dl-deps.c)."""

from __future__ import annotations

import msgspec.structs
import pytest

from abiscan.binary.elf import Filtee, Machine, SharedObject
from abiscan.inputs.files import OpenedFile
from abiscan.linkage.model import Absence, Closure, Process
from abiscan.linkage.scope import Loader, SearchPath
from tests.world import ObjectsByPath, shared_object

NOTHING = Process(has_python=False)


def loader(objects: dict[str, SharedObject], search: SearchPath | None = None) -> Loader:
    return Loader(ObjectsByPath(objects), search or SearchPath(), Machine.X86_64)


def paths(closure: Closure) -> list[str]:
    return [module.path for module in closure.modules]


def opened(objects: dict[str, SharedObject], search: SearchPath | None = None, path: str = "/x/ext.so") -> Closure:
    return loader(objects, search).open(NOTHING, path)


def obj(*needed: str, **fields: object) -> SharedObject:
    return shared_object(needed=needed, **fields)  # type: ignore[arg-type]


def test_breadth_first() -> None:
    search = SearchPath(system=("/s",))
    objects = {
        "/x/ext.so": obj("a", "b"),
        "/s/a": obj("c", "b"),
        "/s/b": obj("d"),
        "/s/c": obj(),
        "/s/d": obj("a"),
    }
    assert paths(opened(objects, search)) == ["/x/ext.so", "/s/a", "/s/b", "/s/c", "/s/d"]


def test_needed_maps_each_module_to_its_own_entries() -> None:
    objects = {"/x/ext.so": obj("b", "a"), "/s/a": obj("b"), "/s/b": obj()}
    closure = opened(objects, SearchPath(system=("/s",)))
    needed = {module.path: [one.path for one in direct] for module, direct in closure.needed.items()}
    assert needed == {"/x/ext.so": ["/s/b", "/s/a"], "/s/a": ["/s/b"], "/s/b": []}


def test_origin_is_the_folder_of_the_object_that_says_it() -> None:
    objects = {
        "/x/ext.so": obj("a", runpath=("$ORIGIN/lib",)),
        "/x/lib/a": obj("b", runpath=("${ORIGIN}/../more",)),
        "/x/more/b": obj(),
    }
    assert paths(opened(objects)) == ["/x/ext.so", "/x/lib/a", "/x/more/b"]


def test_rpath_counts_for_what_the_needed_libraries_need() -> None:
    objects = {"/x/ext.so": obj("a", rpath=("/r",)), "/r/a": obj("b"), "/r/b": obj()}
    assert paths(opened(objects)) == ["/x/ext.so", "/r/a", "/r/b"]


def test_inherited_rpath_keeps_its_origin() -> None:
    objects = {"/x/ext.so": obj("a", rpath=("$ORIGIN/r",)), "/x/r/a": obj("b"), "/x/r/b": obj()}
    assert paths(opened(objects)) == ["/x/ext.so", "/x/r/a", "/x/r/b"]


def test_runpath_counts_for_its_own_object_only() -> None:
    objects = {"/x/ext.so": obj("a", runpath=("/r",)), "/r/a": obj("b"), "/r/b": obj()}
    closure = opened(objects)
    assert [(missing.name, missing.needed_by.path) for missing in closure.missing] == [("b", "/r/a")]


def test_runpath_switches_inherited_rpath_off() -> None:
    objects = {
        "/x/ext.so": obj("a", rpath=("/r",)),
        "/r/a": obj("b", runpath=("/elsewhere",)),
        "/r/b": obj(),
    }
    assert [missing.name for missing in opened(objects).missing] == ["b"]


def test_rpath_beside_runpath_is_ignored() -> None:
    objects = {"/x/ext.so": obj("a", rpath=("/r",), runpath=("/elsewhere",)), "/r/a": obj()}
    assert [missing.name for missing in opened(objects).missing] == ["a"]


def test_rpath_beside_runpath_is_not_inherited_either() -> None:
    objects = {
        "/x/ext.so": obj("a", rpath=("/r",), runpath=("/n",)),
        "/n/a": obj("b"),
        "/r/b": obj(),
    }
    assert [missing.name for missing in opened(objects).missing] == ["b"]


def test_nearer_rpath_comes_first() -> None:
    objects = {
        "/x/ext.so": obj("a", rpath=("/far",)),
        "/far/a": obj("b", rpath=("/near",)),
        "/far/b": obj(),
        "/near/b": obj(),
    }
    assert paths(opened(objects)) == ["/x/ext.so", "/far/a", "/near/b"]


@pytest.mark.parametrize(
    ("program", "extension", "found"),
    [
        ({"rpath": ("/p",)}, {}, "/p/a"),  # after those of the loaders, the RPATH of the program counts
        ({"rpath": ("/p",)}, {"rpath": ("/r",)}, "/r/a"),
        ({"rpath": ("/p",)}, {"rpath": ("/none",)}, "/p/a"),
        ({"rpath": ("/p",)}, {"runpath": ("/r",)}, "/r/a"),
        ({"rpath": ("/p",)}, {"runpath": ("/none",)}, "/s/a"),  # a RUNPATH switches every RPATH off
        ({"runpath": ("/p",)}, {}, "/s/a"),
        ({"rpath": ("/p",), "runpath": ("/none",)}, {}, "/s/a"),
        ({"rpath": ("$ORIGIN/../p",)}, {}, "/p/a"),  # of the program, not of the extension
        ({}, {}, "/s/a"),
    ],
)
@pytest.mark.parametrize("libraries", [(), ("/m/lib.so",)])
def test_the_rpath_of_the_program(
    program: dict[str, tuple[str, ...]],
    extension: dict[str, tuple[str, ...]],
    found: str,
    libraries: tuple[str, ...],
) -> None:
    """``_dl_map_object``: "If dynamically linked, try the DT_RPATH of the executable itself"; of no other object."""
    objects = {
        "/bin/python": obj(**program),
        "/m/lib.so": obj(rpath=("/m",)),
        "/x/ext.so": obj("a", **extension),
        **dict.fromkeys(("/p/a", "/r/a", "/m/a", "/s/a"), obj()),
    }
    one = loader(objects, SearchPath(system=("/s",)))
    process = one.start_process(("/bin/python",), global_libraries=(), libraries=libraries)
    assert paths(one.open(process, "/x/ext.so")) == ["/x/ext.so", found]


def test_the_rpath_of_the_program_comes_before_the_environment() -> None:
    objects = {"/bin/python": obj(rpath=("/p",)), "/x/ext.so": obj("a"), "/p/a": obj(), "/env/a": obj()}
    one = loader(objects, SearchPath(environment=("/env",)))
    process = one.start_process(("/bin/python",), global_libraries=(), libraries=())
    assert paths(one.open(process, "/x/ext.so")) == ["/x/ext.so", "/p/a"]


def test_without_a_program_the_first_library_is_not_the_program() -> None:
    one = loader({"/torch/_C.so": obj(rpath=("/t",)), "/t/a": obj(), "/x/ext.so": obj("a")})
    process = one.start_process((), global_libraries=(), libraries=("/torch/_C.so",))
    assert [missing.name for missing in one.open(process, "/x/ext.so").missing] == ["a"]


@pytest.mark.parametrize(
    ("name", "asked"), [("libvision.so", True), ("libtorch_cuda.so", False), ("libc10.so", False), ("libm.so.6", False)]
)
def test_only_libraries_that_are_nobody_else_s_are_those_of_other_packages(name: str, asked: bool) -> None:
    """A copy of torch or of the C library in another package is not the one that an extension is loaded with."""
    search = SearchPath(system=("/s",), others=lambda wanted: f"/other/{wanted}")
    objects = {"/x/ext.so": obj(name), f"/other/{name}": obj()}
    assert [one.name for one in opened(objects, search).missing] == ([] if asked else [name])
    assert paths(opened({**objects, f"/s/{name}": obj()}, search))[1] == f"/s/{name}"  # ld.so finds that one itself


def test_order_of_the_search_with_rpath() -> None:
    search = SearchPath(environment=("/env",), siblings={"a": "/sibling/a"}, system=("/s",))
    everywhere = {folder: obj() for folder in ("/r/a", "/env/a", "/sibling/a", "/s/a")}
    objects = {"/x/ext.so": obj("a", rpath=("/r",)), **everywhere}
    found = []
    for folder in everywhere:
        found.append(paths(opened(objects, search))[1])
        del objects[folder]
    assert found == ["/r/a", "/env/a", "/sibling/a", "/s/a"]


def test_environment_comes_before_runpath() -> None:
    objects = {"/x/ext.so": obj("a", runpath=("/r",)), "/env/a": obj(), "/r/a": obj()}
    assert paths(opened(objects, SearchPath(environment=("/env",)))) == ["/x/ext.so", "/env/a"]


def test_folders_of_one_kind_in_their_order() -> None:
    objects = {"/x/ext.so": obj("a", runpath=("/none", "/r1", "/r2")), "/r1/a": obj(), "/r2/a": obj()}
    assert paths(opened(objects)) == ["/x/ext.so", "/r1/a"]


def test_a_file_for_another_machine_is_passed_over() -> None:
    objects = {"/x/ext.so": obj("a", runpath=("/r1", "/r2")), "/r1/a": obj(machine="aarch64"), "/r2/a": obj()}
    assert paths(opened(objects)) == ["/x/ext.so", "/r2/a"]


def test_a_soname_answers_for_a_loaded_module() -> None:
    objects = {
        "/x/ext.so": obj("libfull-1.so", "libshort.so", runpath=("/r",)),
        "/r/libfull-1.so": obj(soname="libshort.so"),
        "/r/libshort.so": obj(),
    }
    assert paths(opened(objects)) == ["/x/ext.so", "/r/libfull-1.so"]


def test_a_module_of_the_process_is_not_searched_for() -> None:
    objects = {
        "/torch/libc10.so": obj(soname="libc10.so"),
        "/x/ext.so": obj("libc10.so", rpath=("/x",)),
        "/x/libc10.so": obj(soname="libc10.so"),
    }
    one = loader(objects)
    process = one.start_process((), global_libraries=(), libraries=("/torch/libc10.so",))
    closure = one.open(process, "/x/ext.so")
    assert paths(closure) == ["/x/ext.so", "/torch/libc10.so"]
    assert [module.path for module in closure.new] == ["/x/ext.so"]


def test_a_name_with_a_slash_is_a_path() -> None:
    objects = {"/x/ext.so": obj("/opt/a", rpath=("/r",)), "/opt/a": obj(), "/r/a": obj()}
    assert paths(opened(objects)) == ["/x/ext.so", "/opt/a"]


def test_an_object_that_needs_itself() -> None:
    objects = {"/x/ext.so": obj("ext.so", soname="ext.so")}
    assert paths(opened(objects)) == ["/x/ext.so"]


def test_what_the_absence_of_a_library_means() -> None:
    objects = {"/x/ext.so": obj("libtorch_cuda.so", "libcudart.so.12", "libc.so.6")}
    here = opened(objects).missing
    assert [(missing.name, missing.absence) for missing in here] == [
        ("libtorch_cuda.so", Absence.TORCH),
        ("libcudart.so.12", Absence.EXTERNAL),
        ("libc.so.6", Absence.EXTERNAL),  # a system that is at hand, and lacks it
    ]
    foreign = opened(objects, SearchPath(native=False)).missing
    assert [missing.absence for missing in foreign] == [Absence.TORCH, Absence.EXTERNAL, Absence.SYSTEM]


def test_what_is_assumed_to_be_there_is_a_module_without_facts() -> None:
    closure = opened({"/x/ext.so": obj("libcudart.so.12", "libtorch_cuda.so")})
    assert [(module.name, module.facts) for module in closure.modules[1:]] == [("libcudart.so.12", None)]


class OneUnread(ObjectsByPath):
    """A world with a file that could not be read."""

    def open_library(self, path: str) -> OpenedFile | None:
        return OpenedFile(identity=path) if path == "/s/unread" else super().open_library(path)


def test_a_file_that_could_not_be_read_is_there_and_not_assumed() -> None:
    """As with a limit on memory: ``ld.so`` maps it, and nothing is known of it."""
    files = OneUnread({"/x/ext.so": obj("unread", "absent.so.1")})
    closure = Loader(files, SearchPath(system=("/s",)), Machine.X86_64).open(NOTHING, "/x/ext.so")
    assert [(module.path, module.is_unread) for module in closure.modules] == [
        ("/x/ext.so", False),
        ("/s/unread", True),
        ("absent.so.1", False),
    ]


def test_an_absent_library_is_missing_for_all_who_need_it() -> None:
    objects = {"/x/ext.so": obj("a", "gone"), "/s/a": obj("gone")}
    missing = opened(objects, SearchPath(system=("/s",))).missing
    assert [(one.name, one.needed_by.path) for one in missing] == [("gone", "/x/ext.so"), ("gone", "/s/a")]


def test_only_global_libraries_join_the_global_scope() -> None:
    objects = {
        "/bin/python": obj("libc.so.6"),
        "/s/libc.so.6": obj(),
        "/torch/deps.so": obj("libgomp.so.1"),
        "/s/libgomp.so.1": obj(),
        "/torch/_C.so": obj("libc10.so", "libgomp.so.1"),
        "/s/libc10.so": obj(),
    }
    process = loader(objects, SearchPath(system=("/s",))).start_process(
        ("/bin/python",), global_libraries=("/torch/deps.so",), libraries=("/torch/_C.so",)
    )
    visible = ["/bin/python", "/s/libc.so.6", "/torch/deps.so", "/s/libgomp.so.1"]
    assert [module.path for module in process.global_scope] == visible
    assert [module.path for module in process.modules] == [*visible, "/torch/_C.so", "/s/libc10.so"]
    assert process.has_python


def test_no_program_no_python() -> None:
    assert not loader({}).start_process((), global_libraries=(), libraries=()).has_python


@pytest.mark.parametrize(("name", "missing"), [("libcudart.so.12", ["libcudart.so.12"]), ("libtorch_cuda.so", [])])
def test_what_torch_needed_and_we_do_not_have_was_there(name: str, missing: list[str]) -> None:
    one = loader({"/torch/_C.so": obj(name), "/x/ext.so": obj(name)})
    process = one.start_process((), global_libraries=(), libraries=("/torch/_C.so",))
    closure = one.open(process, "/x/ext.so")
    # What is not torch's own is as absent as any other library, only assumed.
    assert [one.name for one in closure.missing] == missing
    assert [module.name for module in closure.modules] == ["ext.so", name]


def test_a_library_of_a_distribution_has_a_version_in_its_name() -> None:
    """Debian's torch/lib/libtorch_cpu.so is a link to a file with another name, which ld.so looks for in the system."""
    own = {"libtorch_cpu.so": "/t/lib/libtorch_cpu.so", "libc10.so": "/t/lib/libc10.so"}
    objects = {
        "/x/ext.so": obj("libtorch_cpu.so.1.13", "libc10.so.9"),
        "/t/lib/libtorch_cpu.so": obj(soname="libtorch_cpu.so.1.13"),
        "/t/lib/libc10.so": obj(soname="libc10.so.1.13"),
    }
    closure = opened(objects, SearchPath(torch=own))
    assert paths(closure) == ["/x/ext.so", "/t/lib/libtorch_cpu.so"]
    (missing,) = closure.missing
    assert (missing.name, missing.absence) == ("libc10.so.9", Absence.TORCH)
    # A wheel's has none: what was built for a distribution does not find it.
    wheel = {**objects, "/t/lib/libtorch_cpu.so": obj(soname="libtorch_cpu.so")}
    assert [one.name for one in opened(wheel, SearchPath(torch=own)).missing] == ["libtorch_cpu.so.1.13", "libc10.so.9"]


def test_files_beside_an_extension_come_after_the_system_s_if_no_code_comes_with_them() -> None:
    search = SearchPath(siblings={"a": "/x/a", "libz.so.1": "/x/libz.so.1"}, has_code=False, system=("/s",))
    objects = {"/x/ext.so": obj("a", "libz.so.1"), **dict.fromkeys(("/x/a", "/x/libz.so.1", "/s/a"), obj())}
    assert paths(opened(objects, search)) == ["/x/ext.so", "/s/a", "/x/libz.so.1"]
    foreign = msgspec.structs.replace(search, native=False, system=())
    assert [(one.name, one.absence) for one in opened(objects, foreign).missing] == [("libz.so.1", Absence.SYSTEM)]


def test_what_python_may_have_loaded_is_not_judged_on_another_machine() -> None:
    objects = {"/x/ext.so": obj("libz.so.1", runpath=("/x",)), "/x/libz.so.1": obj(), "/t/torch.so": obj()}
    for native, missing in ((True, []), (False, [("libz.so.1", Absence.SYSTEM)])):
        one = loader(objects, SearchPath(native=native))
        process = one.start_process((), global_libraries=(), libraries=("/t/torch.so",))
        assert [(library.name, library.absence) for library in one.open(process, "/x/ext.so").missing] == missing


def test_filtees_come_before_what_they_are_for() -> None:
    filtees = (Filtee("first", 0, optional=False), Filtee("gone", 0, optional=True), Filtee("last", 1, optional=True))
    objects = {
        "/x/ext.so": obj("a", "b"),
        "/s/a": msgspec.structs.replace(obj("c"), filtees=filtees),
        **dict.fromkeys(("/s/b", "/s/c", "/s/first", "/s/last"), obj()),
    }
    closure = opened(objects, SearchPath(system=("/s",)))
    assert paths(closure) == ["/x/ext.so", "/s/first", "/s/last", "/s/a", "/s/b", "/s/c"]
    assert closure.missing == ()
    assert [one.name for one in opened({**objects, "/s/a": objects["/s/a"]}, SearchPath()).missing] == ["a", "b"]


def test_a_filtee_that_is_not_optional() -> None:
    objects = {"/x/ext.so": msgspec.structs.replace(obj(), filtees=(Filtee("gone", 0, optional=False),))}
    assert [one.name for one in opened(objects).missing] == ["gone"]
