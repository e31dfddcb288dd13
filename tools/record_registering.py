"""Record what happens when the samples of ``tests/oracle/registering`` are loaded into a real torch.

    python tools/record_registering.py build    # with the headers of the torch of this Python
    python tools/record_registering.py load     # what is built, into the torch of this Python

``registering.cpp`` registers in one of several ways in each file; ``build`` puts the files for one release into
``registering.tar.xz``. ``load`` loads all of them, each in a process of its own, and replaces in ``loads.json`` what is
recorded of this release: ``loads``, the text of the exception that ends the load, or the name of the signal.

Name another torch with ``PYTHONPATH``. A CUDA build can be used where there is no CUDA: see ``tools/stub_libraries.py``.
Runs on Python 3.8 and newer with the standard library, gcc and torch.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path
from typing import Dict, Tuple

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "oracle" / "registering"
SOURCE = FOLDER / "registering.cpp"
SAMPLES = FOLDER / "registering.tar.xz"
LOADS = FOLDER / "loads.json"

WAYS = ("backend", "operators", "inferred", "custom_class", "old_api")
_MISSING = {(1, 4): {"backend", "operators", "inferred"}, (1, 5): {"backend"}}
_HEADERS = ("ATen/ATen.h", "ATen/core/op_registration/op_registration.h", "torch/custom_class.h", "torch/library.h")
