"""What the bytes of one ELF object say; nothing in here knows of a second object, of a torch, or of a file on disk."""
