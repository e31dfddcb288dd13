"""Small packages that CPython imports and abiscan reads, and what tells whether they agree."""
