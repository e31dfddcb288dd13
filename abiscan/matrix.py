"""The pipeline behind ``abiscan matrix``: the judgement of ``check`` on many releases, with each target read once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan import scan
from abiscan.built_for import BuiltFor, built_for
from abiscan.elf import Machine
from abiscan.files import Files
from abiscan.findings import Effect, Rule
from abiscan.releases import embedded
from abiscan.releases.store import Store
from abiscan.report.model import Result, Verdict
from abiscan.requirement import Metadata, simplest
from abiscan.sources import Target, read_target
