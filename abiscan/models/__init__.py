"""Saved models: what is in their files, and which release of torch reads them. Nothing is unpickled or executed."""
