"""What the bytes of one ELF object say. Nothing here knows about a second object, a torch, or the file system."""
