"""What the tests of the Python package stand on: ranks as threads, and as processes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tutti
from tutti import _install

HERE = pathlib.Path(__file__).parent
DEADLINE = 60  # seconds, for what never takes so long


def on_threads(size: int, body: Callable[[tutti.Communicator], Any], **options: Any) -> list[Any]:
    """Runs `body` on each rank of a local communicator, and returns what it returns, by rank.

    Raises the first exception. The ranks that wait for a failed one are aborted.
    """
    communicators = tutti.Communicator.local(size, timeout=DEADLINE, **options)
    results: list[Any] = [None] * size
    failures: list[BaseException] = []

    def run(comm: tutti.Communicator) -> None:
        try:
            with comm:
                results[comm.rank] = body(comm)
        except BaseException as failure:  # for the test's thread
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(comm,), daemon=True) for comm in communicators]
    del communicators
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive(), "a rank hangs"
    if failures:
        raise failures[0]
    return results


def environment() -> dict[str, str]:
    """For processes: this process's package, and deadlines that tests can wait for."""
    package = pathlib.Path(tutti.__file__).parent.parent
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(HERE)]),
            "TUTTI_SETUP_TIMEOUT_MS": "40000", "TUTTI_TIMEOUT_MS": "40000",
            "OPENBLAS_NUM_THREADS": "1"}


def program(script: str, *arguments: str, ranks: int) -> list[str]:
    """The command of a job of `ranks` processes, each of which runs a script beside the tests."""
    return [_install.command(), "run", "-n", str(ranks), "--", sys.executable, str(HERE / script),
            *arguments]


def on_processes(script: str, *arguments: str, ranks: int) -> subprocess.CompletedProcess[str]:
    """Runs the job to its end."""
    return subprocess.run(program(script, *arguments, ranks=ranks), env=environment(), text=True,
                          capture_output=True, timeout=DEADLINE, check=False)


def split_evenly(count: int, parts: int) -> Sequence[int]:
    """Block sizes that differ, and sum up to `count`."""
    return [(count + part) // parts for part in range(parts)]
