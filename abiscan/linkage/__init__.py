"""A pure model of loading one extension into the process of one torch: ``ld.so``, then ``import``, class by class.

It reads files only through ``Objects``. The model of the loader follows glibc
(``elf/dl-load.c``, ``dl-deps.c``, ``dl-version.c``, ``dl-lookup.c``, ``dl-sort-maps.c``).
"""
