"""What the bytes of one ELF object mean. Nothing here knows about a second object, a torch, or the file system."""
