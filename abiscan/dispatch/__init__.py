"""The dispatcher of torch, modelled: keys and schemas."""
