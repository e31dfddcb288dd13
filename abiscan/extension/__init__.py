"""The examination of one extension: what it was built for, what it registers, and how a given torch reacts."""
