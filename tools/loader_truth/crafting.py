"""Crafted ELF libraries: compiled in a few ways, then patched field by field, all from one seed."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from tools.loader_truth.scenes import SCENES, make_scene

_PHDR: Final = struct.Struct("<IIQQQQQQ")
_SYM: Final = struct.Struct("<IBBHQQ")
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS, PT_STACK, PT_RELRO = 1, 2, 4, 7, 0x6474E551, 0x6474E552
TAGS: Final = {
    "NEEDED": 1, "PLTRELSZ": 2, "HASH": 4, "STRTAB": 5, "SYMTAB": 6, "RELA": 7, "RELASZ": 8, "RELAENT": 9, "STRSZ": 10,
    "SONAME": 14, "SYMBOLIC": 16, "PLTREL": 20, "DEBUG": 21, "TEXTREL": 22, "JMPREL": 23, "BIND_NOW": 24,
    "INIT_ARRAY": 25, "INIT_ARRAYSZ": 27, "PREINIT_ARRAY": 32, "PREINIT_ARRAYSZ": 33,
    "RUNPATH": 29, "FLAGS": 30, "RELRSZ": 35, "RELR": 36, "RELRENT": 37, "GNU_HASH": 0x6FFFFEF5, "VERSYM": 0x6FFFFFF0,
    "RELACOUNT": 0x6FFFFFF9, "FLAGS_1": 0x6FFFFFFB, "VERDEF": 0x6FFFFFFC, "VERDEFNUM": 0x6FFFFFFD,
    "VERNEED": 0x6FFFFFFE, "VERNEEDNUM": 0x6FFFFFFF,
}  # fmt: skip
_DEP: Final = """
int dep_f(void) { return 1; }
int dep_g(void) { return dep_f(); }
int dep_data = 7;
int *dep_pointer = &dep_data;
int dep_weak(void) __attribute__((weak));
int dep_weak(void) { return 3; }
#ifdef TLS
__thread char dep_tls[TLS] __attribute__((tls_model(MODEL)));
char *dep_address(void) { return dep_tls; }
#endif
"""
_X: Final = """
extern int dep_f(void), dep_g(void), dep_weak(void), dep_data;
extern int nowhere(void) __attribute__((weak));
int x_own(void) { return 5; }
int x_data = 9;
int *x_pointers[] = {&x_data, &dep_data};
static int x_local;
int *x_relative[4] = {&x_local, &x_local, &x_local, &x_local};
int x_call(void) { return x_own() + dep_f() + dep_g() + dep_weak() + dep_data + (nowhere ? nowhere() : 0); }
#ifdef TLS
__thread char x_tls[TLS] __attribute__((tls_model(MODEL)));
char *x_address(void) { return x_tls; }
#endif
#ifdef LIBC
#include <stdio.h>
#include <string.h>
void x_print(char *s) { printf("%zu", strlen(s)); }
#endif
"""
_BEGIN: Final = "__attribute__((constructor)) static void begin(void) { %s }"
_CHOOSE: Final = """
static int one(void) { return 1; }
static void *choose(void) { %s return one; }
int chosen(void) __attribute__((ifunc("choose")));
int call_chosen(void) { return chosen(); }
"""
_INITIALISERS: Final = (
    *(_BEGIN % end for end in ("__builtin_trap();", '__asm__("int3");')),
    "int seen; " + _BEGIN % "seen = 7;",
    "void (*volatile nothing)(void); " + _BEGIN % "nothing();",
    "void (*volatile nothing)(void); " + _BEGIN % "if (nothing) nothing();",
    "const int three = 3; " + _BEGIN % "*(volatile int *)&three = 1;",
    "int *volatile null; " + _BEGIN % "*null = 1;",
    "volatile int zero; int result; " + _BEGIN % '__asm__ volatile("idivl %0" : : "m"(zero) : "eax", "edx");',
    "volatile int sum; " + _BEGIN % "for (int i = 0; i < 1000; i++) sum += i;",
    *(_CHOOSE % end for end in ("", "__builtin_trap();", "*(volatile int *)0 = 1;")),
    _CHOOSE.replace("int chosen", '__attribute__((visibility("hidden"))) int chosen') % "__builtin_trap();",
)
_VERSIONS: Final = (
    "V1 { global: dep_f; dep_data; dep_tls; dep_address; }; V2 { global: dep_g; dep_weak; dep_pointer; } V1;"
)


class Case(Struct, kw_only=True):
    """One pair of libraries: ``x.so``, which is opened, and ``libdep.so``, which it needs.

    :ivar steps: how they were made, for people
    """

    name: str
    steps: list[str]


class Image:
    """The bytes of a library, with its fields by name."""

    def __init__(self, content: bytes) -> None:
        self.data = bytearray(content)

    def get(self, form: str, offset: int) -> int:
        """Return one number."""
        return int(struct.unpack_from("<" + form, self.data, offset)[0])

    def put(self, form: str, offset: int, value: int) -> None:
        """Change one number."""
        struct.pack_into("<" + form, self.data, offset, value & (1 << 8 * struct.calcsize("<" + form)) - 1)

    def headers(self, kind: int | None = None) -> list[int]:
        """Return the offsets of the program headers, or of those of a kind."""
        start, count = self.get("Q", 32), self.get("H", 56)
        places = [start + number * _PHDR.size for number in range(count)]
        return [place for place in places if kind is None or self.get("I", place) == kind]

    def offset_of(self, address: int) -> int:
        """Return where an address lies in the file."""
        for place in self.headers(PT_LOAD):
            _, _, offset, start, _, size, _, _ = _PHDR.unpack_from(self.data, place)
            if start <= address < start + size:
                return int(offset + address - start)
        raise LookupError(address)

    def entries(self, tag: str | None = None) -> list[int]:
        """Return the offsets of the entries of the dynamic section, or of those with a tag."""
        (section,) = self.headers(PT_DYNAMIC)[:1]
        place, places = self.get("Q", section + 8), []
        while self.get("Q", place):
            if tag is None or self.get("Q", place) == TAGS[tag]:
                places.append(place)
            place += 16
        return places

    def table(self, tag: str) -> int:
        """Return where a table lies in the file."""
        return self.offset_of(self.get("Q", self.entries(tag)[-1] + 8))

    def value(self, tag: str) -> int:
        """Return the value of an entry, 0 if there is none."""
        places = self.entries(tag)
        return self.get("Q", places[-1] + 8) if places else 0

    def name_at(self, offset: int) -> str:
        """Return a text of the string table."""
        start = self.table("STRTAB") + offset
        return self.data[start : self.data.index(b"\0", start)].decode("latin1")

    def symbols(self) -> list[int]:
        """Return the offsets of the symbols but the first."""
        start, end = self.table("SYMTAB"), self.table("STRTAB")
        return list(range(start + _SYM.size, end - _SYM.size + 1, _SYM.size))

    def symbol(self, *names: str) -> list[int]:
        """Return the offsets of some symbols."""
        return [place for place in self.symbols() if self.name_at(self.get("I", place)) in names]

    def relocations(self) -> list[int]:
        """Return the offsets of all relocations."""
        places: list[int] = []
        for table, size in (("RELA", "RELASZ"), ("JMPREL", "PLTRELSZ")):
            if self.entries(table):
                start = self.table(table)
                places += range(start, start + self.value(size), 24)
        return places

    def needs(self) -> Iterator[tuple[int, int]]:
        """Yield the offsets of the records of version needs, with those of their versions."""
        place = self.table("VERNEED") if self.entries("VERNEED") else 0
        while place:
            version = place + self.get("I", place + 8)
            for _ in range(self.get("H", place + 2)):
                yield place, version
                version += self.get("I", version + 12)
            step = self.get("I", place + 12)
            place = place + step if step else 0

    def definitions(self) -> list[int]:
        """Return the offsets of the records of version definitions."""
        places, place = [], self.table("VERDEF") if self.entries("VERDEF") else 0
        while place:
            places.append(place)
            step = self.get("I", place + 16)
            place = place + step if step else 0
        return places


Mutation = Callable[[Image, random.Random], str]


def _header(image: Image, rng: random.Random) -> str:
    offset, form, values = rng.choice(
        [
            (7, "B", (3, 9, 255, 6, 97)),
            (8, "B", (1, 4, 99)),
            (rng.randrange(9, 16), "B", (1, 255)),
            (6, "B", (0, 2)),
            (20, "I", (0, 2)),
            (16, "H", (1, 2, 4, 0xFE00)),
            (18, "H", (183, 3, 0)),
            (54, "H", (0, 32, 64)),
            (4, "B", (1, 0)),
            (5, "B", (2,)),
            (0, "B", (0,)),
            (48, "I", (1, 0xFFFFFFFF)),
            (24, "Q", (0, 1 << 40)),
            (40, "Q", (0, 1 << 40)),
            (60, "H", (0, 0xFFFF)),
            (52, "H", (0, 1)),
        ]
    )
    value = rng.choice(values)
    image.put(form, offset, value)
    return f"header[{offset}] = {value}"


def _flag(image: Image, rng: random.Random) -> str:
    tag, values = rng.choice(
        [
            ("FLAGS_1", (0x40, 0x800, 0x20, 1, 8, 0x4000, 2, 0x400, 0x80000000, 0x41)),
            ("FLAGS", (2, 4, 8, 16, 1)),
        ]
    )
    value = rng.choice(values)
    return _set_entry(image, rng, tag, value)


def _set_entry(image: Image, rng: random.Random, tag: str, value: int) -> str:
    places = image.entries(tag) or [
        rng.choice(image.entries("DEBUG") + image.entries("RELACOUNT") + image.entries("SYMBOLIC") + _spare(image))
    ]
    image.put("Q", places[0], TAGS[tag])
    image.put("Q", places[0] + 8, value)
    return f"{tag} = {value:#x}"


def _spare(image: Image) -> list[int]:
    """Return the first entry behind the end: linkers leave some; another end must follow it."""
    last = image.entries()[-1] + 16
    return [last] if image.get("Q", last + 16) == 0 else []


def _entry(image: Image, rng: random.Random) -> str:
    tag, values = rng.choice(
        [
            ("PLTREL", (17, 0, 7)),
            ("RELAENT", (23, 0, 48)),
            ("RELACOUNT", (0, 1, 2, 3, 5, 6)),
            ("SYMBOLIC", (0,)),
            ("TEXTREL", (0,)),
            ("BIND_NOW", (0,)),
            ("RELRENT", (4, 8)),
        ]
    )
    return _set_entry(image, rng, tag, rng.choice(values))


def _drop_entry(image: Image, rng: random.Random) -> str:
    tags = {number: tag for tag, number in TAGS.items()}
    place = rng.choice([place for place in image.entries() if image.get("Q", place) in tags.keys() - {TAGS["RUNPATH"]}])
    tag = tags[image.get("Q", place)]
    image.put("Q", place, 0x6FFF4242)
    return f"without {tag}"


def _needed(image: Image, rng: random.Random) -> str:
    places = image.entries("SONAME") + image.entries("NEEDED")
    text = rng.choice(("libc.so.6", "libm.so.6", "gone.so.9", "libdep.so"))
    # Only names that are in the string table already can be had without moving it.
    start = image.table("STRTAB")
    at = bytes(image.data[start : start + image.value("STRSZ")]).find(text.encode() + b"\0")
    if at < 0:
        return f"{text} is not in the string table"
    image.put("Q", places[-1], TAGS["NEEDED"])
    image.put("Q", places[-1] + 8, at)
    return f"NEEDED {text}"


def _segment(image: Image, rng: random.Random) -> str:
    place = rng.choice(image.headers(PT_LOAD))
    field, form, values = rng.choice(
        [
            ("vaddr", 16, (image.get("Q", place + 16) + 8, image.get("Q", place + 16) + 4096)),
            ("offset", 8, (image.get("Q", place + 8) + 8, max(0, image.get("Q", place + 8) - 4096))),
            ("memsz", 40, (1 << 40, 1 << 46, 1 << 62, image.get("Q", place + 40) + 4096)),
            ("filesz", 32, (image.get("Q", place + 32) // 2, image.get("Q", place + 32) + 64)),
            ("align", 48, (0, 1, 8, 1 << 16, 1 << 21, 1 << 46, 3)),
            ("flags", -4, (4, 5, 6, 7, 0)),
        ]
    )
    value = rng.choice(values)
    image.put("I" if form < 0 else "Q", place + abs(form), value)
    return f"PT_LOAD at {place:#x}: {field} = {value:#x}"


def _program_header(image: Image, rng: random.Random) -> str:
    loads, dynamics = image.headers(PT_LOAD), image.headers(PT_DYNAMIC)
    stack, relro = image.headers(PT_STACK), image.headers(PT_RELRO)
    choices = ["no load", "no dynamic", "empty dynamic", "dynamic offset", "stack", "no stack", "phdr", "tls", "twice"]
    kind = rng.choice([*choices, *(["relro"] if relro else []), *(["overlap"] if len(loads) > 1 else [])])
    put = image.put
    if kind == "no load":
        for place in loads:
            put("I", place, 0)
    elif kind == "twice":  # a second dynamic section, which may begin one entry further on
        image.data[stack[0] : stack[0] + 56] = image.data[dynamics[0] : dynamics[0] + 56]
        put("Q", stack[0] + 16, image.get("Q", stack[0] + 16) + 16 * rng.choice((0, 1)))
    elif kind == "tls":
        put("I", stack[0], PT_TLS)
        for field, value in ((16, 64), (32, 0), (40, rng.choice((0, 64, 5000))), (48, rng.choice((0, 1, 16, 4096)))):
            put("Q", stack[0] + field, value)
    elif kind == "phdr":
        put("I", stack[0], 6)
        put("Q", stack[0] + 16, rng.choice((64, 1 << 40)))
    elif kind == "overlap":  # an earlier one ends in zeros, over which a later one lies
        moved = rng.choice(loads[:-1])
        put("Q", moved + 40, image.get("Q", moved + 40) + rng.choice((4096, 8192)))
    else:
        offset = image.get("Q", dynamics[0] + 8) + rng.choice((16, 32, 4096))
        form, place, value = {
            "no dynamic": ("I", dynamics[0], 0),
            "empty dynamic": ("Q", dynamics[0] + 32, 0),
            "dynamic offset": ("Q", dynamics[0] + 8, offset),
            "stack": ("I", stack[0] + 4, rng.choice((7, 6, 0))),
            "no stack": ("I", stack[0], 0x6474E5FF),
            "relro": ("Q", (relro or stack)[0] + rng.choice((16, 40)), rng.choice((0, 1 << 20, 1 << 45, 8, 4096))),
        }[kind]
        put(form, place, value)
    return f"program headers: {kind}"


def _hash(image: Image, rng: random.Random) -> str:
    if not image.entries("GNU_HASH"):
        if not image.entries("HASH"):
            return "no hash table"
        table = image.table("HASH")
        buckets, symbols = image.get("I", table), image.get("I", table + 4)
        at = rng.choice((table + 8 + 4 * rng.randrange(buckets), table + 8 + 4 * (buckets + rng.randrange(symbols))))
        image.put("I", at, rng.choice((0, 1, 2)))
        return "DT_HASH"
    table = image.table("GNU_HASH")
    buckets, first, words = (image.get("I", table + 4 * number) for number in range(3))
    bloom, start = table + 16, table + 16 + 8 * words
    chains = start + 4 * buckets
    kind = rng.choice(("bloom", "bucket", "chain", "no buckets", "words", "shift", "end of chain", "first"))
    if kind == "bloom":
        image.put("Q", bloom + 8 * rng.randrange(words), rng.choice((0, rng.getrandbits(64))))
    elif kind == "bucket":
        image.put("I", start + 4 * rng.randrange(buckets), rng.choice((0, first, first + 1)))
    elif kind == "chain":
        count = (image.table("STRTAB") - image.table("SYMTAB")) // 24 - first
        image.put("I", chains + 4 * rng.randrange(max(1, count)), rng.getrandbits(32) & ~1)
    elif kind == "no buckets":
        image.put("I", table, 0)
    elif kind == "words":
        image.put("I", table + 8, 3)
    elif kind == "shift":
        image.put("I", table + 12, rng.choice((0, 31, 37, 7)))
    elif kind == "end of chain":
        image.put("I", chains, image.get("I", chains) ^ 1)
    else:
        image.put("I", table + 4, first + 1)
    return f"DT_GNU_HASH: {kind}"


def _symbol(image: Image, rng: random.Random) -> str:
    place = rng.choice(image.symbols())
    name = image.name_at(image.get("I", place))
    info, shown = image.get("B", place + 4), ""
    kind = rng.choice(("type", "binding", "visibility", "section", "value"))
    if kind == "type":
        value = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 13) if info & 15 != 10 else (10,))
        image.put("B", place + 4, info & 0xF0 | value)
        shown = f"type {value}"
    elif kind == "binding":
        value = rng.choice((0, 1, 2, 5, 10, 13))
        image.put("B", place + 4, value << 4 | info & 15)
        shown = f"binding {value}"
    elif kind == "visibility":
        value = rng.choice((0, 1, 2, 3))
        image.put("B", place + 5, value)
        shown = f"visibility {value}"
    elif kind == "section":
        value = rng.choice((0, 0xFFF1, 5))
        image.put("H", place + 6, value)
        if value == 0:
            image.put("Q", place + 8, 0)
        shown = f"section {value:#x}"
    else:
        image.put("Q", place + 8, 0)
        shown = "value 0"
    return f"{name}: {shown}"


def _version(image: Image, rng: random.Random) -> str:
    needs, definitions = list(image.needs()), image.definitions()
    choices = ["versym"] if image.entries("VERSYM") else []
    choices += ["vna hash", "vn version", "vna other", "vna flags", "vn file", "vna name"] if needs else []
    choices += ["vd hash", "vd version", "vd flags", "vd index"] if definitions else []
    if not choices:
        return "no versions"
    kind = rng.choice(choices)
    if kind == "versym":
        table = image.table("VERSYM")
        count = (image.table("STRTAB") - image.table("SYMTAB")) // 24
        image.put("H", table + 2 * rng.randrange(1, count), rng.choice((0, 1, 2, 3, 0x8001, 0x8002, 0x8003)))
    elif kind.startswith("vna"):
        _, version = rng.choice(needs)
        offset, form, values = {
            "vna hash": (0, "I", (0, 1, image.get("I", version) ^ 1)),
            "vna other": (6, "H", (image.get("H", version + 6) | 0x8000,)),
            "vna flags": (4, "H", (2, 1)),
            "vna name": (8, "I", (image.get("I", rng.choice(image.symbols())),)),
        }[kind]
        image.put(form, version + offset, rng.choice(values))
    elif kind.startswith("vn "):
        need, _ = rng.choice(needs)
        if kind == "vn version":
            image.put("H", need, rng.choice((0, 2, 7)))
        else:
            image.put("I", need + 4, image.get("I", rng.choice(image.symbols())))
    else:
        definition = rng.choice(definitions)
        offset, form, values = {
            "vd hash": (8, "I", (0, image.get("I", definition + 8) ^ 1)),
            "vd version": (0, "H", (0, 2)),
            "vd flags": (2, "H", (0, 1, 2)),
            "vd index": (4, "H", (1, 2, 3)),
        }[kind]
        image.put(form, definition + offset, rng.choice(values))
    return kind


def _relocation(image: Image, rng: random.Random) -> str:
    place = rng.choice(image.relocations())
    kind = rng.choice(("type", "type", "type", "symbol", "offset"))
    if kind == "type":
        value = rng.choice((0, 0, 1, 3, 6, 8, 11, 16, 17, 24, 33, 39, 0x77, 0x1234, 41))
        image.put("I", place + 8, value)
    elif kind == "symbol":
        value = rng.randrange(len(image.symbols()) + 1)
        image.put("I", place + 12, value)
    else:
        value = rng.choice((0, 0x100, 1 << 40, image.get("Q", place) + 4096))
        image.put("Q", place, value)
    return f"relocation at {place:#x}: {kind} = {value:#x}"


def _property(image: Image, rng: random.Random) -> str:
    for place in image.headers(PT_NOTE):
        offset, size = image.get("Q", place + 8), image.get("Q", place + 32)
        note = image.data[offset : offset + size]
        if note[12:16] == b"GNU\0" and image.get("I", offset + 8) == 5:
            at = note.find(struct.pack("<II", 0xC0008002, 4))
            if at >= 0:
                kind = rng.choice(("needed", "size", "align", "type", "descriptor"))
                value = rng.choice((0, 1, 2, 4, 8, 0x10, 0x8000, 3))
                if kind == "needed":
                    image.put("I", offset + at + 8, value)
                elif kind == "size":
                    image.put("I", offset + at + 4, value)
                elif kind == "align":
                    image.put("Q", place + 48, 4)
                    image.put("I", offset + at + 8, 0x10)
                elif kind == "type":
                    image.put("I", offset + at, rng.choice((0xC0000002, 0xC0010002, 1)))
                else:
                    image.put("I", offset + 4, rng.choice((4, 12, 20)))
                return f"property: {kind} {value}"
    return "no property"


def _relr(image: Image, rng: random.Random) -> str:
    if not image.entries("RELR"):
        return "no DT_RELR"
    kind = rng.choice(("word", "size", "entry size"))
    if kind == "word":
        image.put("Q", image.table("RELR"), rng.choice((0, 3, 1 << 40, 1)))
    elif kind == "size":
        image.put("Q", image.entries("RELRSZ")[0] + 8, 0)
    else:
        image.put("Q", image.entries("RELRENT")[0] + 8, rng.choice((4, 16)))
    return f"DT_RELR: {kind}"


def _initialiser(image: Image, rng: random.Random) -> str:
    if rng.random() < 0.2 and image.entries("INIT_ARRAY"):  # which ld never writes into a library
        image.put("Q", image.entries("INIT_ARRAY")[0], TAGS["PREINIT_ARRAY"])
        image.put("Q", image.entries("INIT_ARRAYSZ")[0], TAGS["PREINIT_ARRAYSZ"])
        return "DT_PREINIT_ARRAY"
    return "nothing"


MUTATIONS: Final[dict[str, Mutation]] = {
    "header": _header,
    "flag": _flag,
    "entry": _entry,
    "drop": _drop_entry,
    "needed": _needed,
    "segment": _segment,
    "phdr": _program_header,
    "hash": _hash,
    "symbol": _symbol,
    "version": _version,
    "reloc": _relocation,
    "property": _property,
    "relr": _relr,
    "initialiser": _initialiser,
    "plain": lambda _image, _rng: "nothing",
}


def craft(seed: int, count: int, folder: Path) -> list[Case]:
    """Make so many cases in folders below ``folder``."""
    cases: list[Case] = []
    kinds = [*MUTATIONS, *SCENES]
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        kind = kinds[number % len(kinds)]
        place = folder / f"{number:04}-{kind}"
        if kind in SCENES:
            cases.append(Case(name=place.name, steps=[make_scene(kind, place, rng)]))
            continue
        place.mkdir(parents=True, exist_ok=True)
        steps = _compile(place, rng, kind)
        library = rng.choice(("x.so", "x.so", "libdep.so"))
        if kind == "initialiser":
            library = "x.so"
        if kind in ("hash", "symbol", "version"):
            library = rng.choice(("x.so", "libdep.so"))
        try:
            image = Image((place / library).read_bytes())
            steps.append(f"{library}: {MUTATIONS[kind](image, rng)}")
            (place / library).write_bytes(image.data)
        except (LookupError, IndexError, ValueError) as error:
            steps.append(f"not patched: {error}")
        cases.append(Case(name=place.name, steps=steps))
    return cases


def _compile(place: Path, rng: random.Random, kind: str) -> list[str]:
    """Compile both libraries in one of many ways, and return the options."""
    hashes = rng.choice(("gnu", "gnu", "sysv", "both"))
    common = ["-O1", "-fPIC", "-shared", "-nostdlib", "-Wl,--build-id=none", "-s", f"-Wl,--hash-style={hashes}"]
    common.append(rng.choice(("-Wl,-z,noseparate-code", "-Wl,-z,separate-code")))
    common.append(rng.choice(("-Wl,-z,relro", "-Wl,-z,norelro")))
    common.append(rng.choice(("-Wl,-z,now", "-Wl,-z,lazy")))
    own: list[str] = []
    if kind == "property":
        common.append("-Wl,-z," + rng.choice(("x86-64-baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4")))
    if kind == "relr":
        own += ["-Wl,-z,pack-relative-relocs", "-DLIBC", "-lc"]
    elif rng.random() < 0.3:
        own += ["-DLIBC", "-lc"]
    if rng.random() < (0.6 if kind == "plain" else 0.15):
        size = rng.choice((8, 100, 1000, 1500, 1600, 1700, 3000, 65536))
        model = rng.choice(("initial-exec", "initial-exec", "global-dynamic"))
        common += [f"-DTLS={size}", f'-DMODEL="{model}"', "-mtls-dialect=" + rng.choice(("gnu", "gnu2"))]
    if rng.random() < 0.1:
        own.append("-Wl,-z," + rng.choice(("execstack", "nodlopen", "nodelete", "nodefaultlib", "initfirst")))
    dep = [*common, "-Wl,-soname,libdep.so"]
    if rng.random() < (0.9 if kind == "version" else 0.3):
        script = place / "v.map"
        script.write_text(_VERSIONS)
        dep.append(f"-Wl,--version-script={script}")
    code = {"dep": "", "x": ""}
    if kind == "initialiser":
        code[rng.choice(("dep", "x", "x"))] = rng.choice(_INITIALISERS)
    _run(["gcc", "-x", "c", "-", *dep, "-o", str(place / "libdep.so")], _DEP + code["dep"])
    _run(["gcc", "-x", "c", "-", *common, "-L", str(place), "-ldep", "-Wl,-rpath,$ORIGIN", *own,
          "-o", str(place / "x.so")], _X + code["x"])  # fmt: skip
    (place / "v.map").unlink(missing_ok=True)
    return [
        " ".join([*common, *own]) + (" versions" if len(dep) > len(common) + 1 else ""),
        *filter(None, code.values()),
    ]


def _run(command: Sequence[str], source: str) -> None:
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
