"""A model of ``ld.so``: what a process maps, in which order, where it looks up symbols, and what it says when it fails.

Pure: it sees files only through the ``Objects`` it is given. Its words and its order are those of glibc
(``elf/dl-load.c``, ``dl-deps.c``, ``dl-version.c``, ``dl-lookup.c``, ``dl-sort-maps.c``).
"""
