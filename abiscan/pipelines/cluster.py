"""The workers of a dask cluster, the extra ``abiscan[cluster]``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TYPE_CHECKING, Final

import abiscan
from abiscan.errors import AbiscanError, InputError
from abiscan.pipelines.survey import Surveyed, SurveyTask, SurveyTorches, check_task

if TYPE_CHECKING:
    from distributed import Client

_AHEAD: Final = 2
"""Tasks for each worker: one in work, and one that waits, so that no worker waits for us."""

_TIMEOUT: Final = "10s"


@contextlib.contextmanager
def cluster_workers(address: str, torches: SurveyTorches, names: tuple[str, ...]) -> Iterator[ClusterWorkers]:
    """Provide the workers that a scheduler has now. They need the same version of abiscan, but not the same files.

    :param address: of the scheduler: ``tcp://HOST:PORT``, or the path of the JSON file that it wrote
    :param torches: those that they have to find
    :param names: what these are called here
    :raises InputError: dask.distributed is not installed; there is no scheduler; a worker is of no use
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        fix = "pip install 'abiscan[cluster]'"
        raise InputError(address, "a cluster needs dask.distributed, which is not installed", fix) from error
    try:
        if address.endswith(".json"):  # dask itself would wait for this file, and for good
            address = json.loads(Path(address).read_text("utf-8"))["address"]
        # ``set_as_default`` would change what dask means by "the client" in the process of a caller of the API.
        client = Client(address, timeout=_TIMEOUT, set_as_default=False)
    except (MemoryError, OverflowError) as error:  # dask takes the first bytes for how many follow
        raise InputError(address, "is no scheduler: another server answers", "start one: dask scheduler") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(address, f"there is no scheduler: {error}", "start one: dask scheduler") from error
    with client:
        _require_able(client, address, torches, names)
        # Not pure: dask would give the answer of an earlier task with the same arguments.
        executor = client.get_executor(pure=False)
        yield ClusterWorkers(executor, _AHEAD * len(client.nthreads()), (KilledWorker,))


class ClusterWorkers:
    """The workers of a scheduler, each with one task in work and one that waits."""

    reads_here: Final = False

    def __init__(self, executor: Executor, slots: int, lost: tuple[type[BaseException], ...]) -> None:
        self._executor, self.slots, self.lost = executor, slots, lost

    def submit_task(self, task: SurveyTask, slot: int) -> Future[Surveyed]:  # noqa: ARG002 - dask has a queue of its own
        """Begin to work on a task."""
        return self._executor.submit(check_task, task)

    def renew_slot(self, slot: int) -> None:
        """Do nothing: dask starts a worker again itself."""


def _require_able(client: Client, address: str, torches: SurveyTorches, names: tuple[str, ...]) -> None:
    """Reject workers that could not work, or would not give the answers of this machine."""
    start = f"dask worker {address} --nthreads 1"
    if not client.nthreads():
        raise InputError(address, "the scheduler has no workers", f"start one: {start}")
    # A task sets limits and forks, both of which concern the process and not a thread.
    for worker, threads in client.nthreads().items():
        if threads > 1:
            raise InputError(worker, f"the worker has {threads} threads", f"start it with one: {start}")
    for worker, (version, result) in client.run(_worker_abilities, torches).items():
        if version != abiscan.__version__:
            fix = f"there, type pip install abiscan=={abiscan.__version__}"
            raise InputError(worker, f"the worker has abiscan {version}, not {abiscan.__version__}", fix)
        if result != names:
            raise InputError(worker, f"the worker has another torch: {result}", "name a release with --torch")


def _worker_abilities(torches: SurveyTorches) -> tuple[str, tuple[str, ...] | str]:
    """Return the version of abiscan, and the names of the torches or why there are none; runs on each worker."""
    try:
        return abiscan.__version__, torches.list_names()
    except AbiscanError as error:
        return abiscan.__version__, str(error)
