"""abiscan: will this compiled PyTorch extension load and work on that torch?"""

__version__ = "0.1.0"
