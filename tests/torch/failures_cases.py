"""Ranks that die, stay away or call something else: PyTorch's own error comes within its time, and names ours.

PyTorch has two implementations over NCCL, whose watchdogs end the process in words of their own.
"""

import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

from cases import OVER_NCCL, Cases, check_equal, here
from collectives_cases import COUNT, numbers, of_all
from groups_cases import open_world

CASES = Cases()
OLD, NEW = ("nccl-legacy",), ("nccl", "nccl-lazy")
# How long a rank that stays goes on, at most: the error comes before.
PATIENCE = 40


def start(seconds=60):
    open_world(timeout=datetime.timedelta(seconds=seconds))
    tensor = numbers(torch.float32).to(here())
    dist.all_reduce(tensor)
    check_equal(tensor, sum(of_all(torch.float32)))
    dist.barrier()


def survive(first=dist.all_reduce, count=COUNT):
    """Calls on until PyTorch raises its error, which is printed and ends the rank, or ends the process itself."""
    tensor = numbers(torch.float32, count).to(here())
    until = time.monotonic() + PATIENCE
    try:
        first(tensor)
        while time.monotonic() < until:
            torch.cuda.synchronize()
            time.sleep(0.05)
            dist.all_reduce(tensor)
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(3)
    raise AssertionError(f"no error within {PATIENCE} s")


def _killed():
    start()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    survive()


LOST = "rank 1 (pid "
REMOTE = "remote process exited or there was a network error"


@CASES.checked(backends=OVER_NCCL, alone=True, ranks=(2,), dies=(0, 1), says={0: (LOST,)})
def killed_is_named():
    """Tutti's own line names the rank that died."""
    _killed()


@CASES.checked(backends=OVER_NCCL, alone=True, ranks=(2,), dies=(0, 1), says={0: (REMOTE,)})
def killed_is_an_error_of_pytorch():
    _killed()


@CASES.checked(backends=OVER_NCCL, alone=True, ranks=(4,), dies=(0, 1, 2, 3), says={of: (REMOTE,) for of in (0, 2, 3)})
def killed_of_four():
    _killed()


def _stays_away(seconds):
    start(seconds)
    if dist.get_rank() == 1:
        time.sleep(PATIENCE / 2)
        os._exit(4)
    survive()


@CASES.checked(
    alone=True, ranks=(2,), dies=(0, 1), backends=OLD,
    says={0: ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=",)},
)  # fmt: skip
def timeout_of_pytorch_old():
    _stays_away(seconds=4)


@CASES.checked(
    alone=True, ranks=(2,), dies=(0, 1), backends=NEW, says={0: ("timeout watchdog detected operation timeout",)}
)
def timeout_of_pytorch():
    _stays_away(seconds=4)


@CASES.checked(backends=OVER_NCCL, alone=True, ranks=(2,), dies=(0, 1), says={0: ("rank 1",)})
def timeout_of_tutti():
    """Tutti's deadline is before PyTorch's, and its error names who has not come."""
    os.environ["TUTTI_TIMEOUT_MS"] = "3000"
    _stays_away(seconds=60)


@CASES.checked(backends=OVER_NCCL, alone=True, ranks=(2,), dies=(0, 1), says={0: ("all_reduce", "broadcast")})
def different_collectives():
    """One rank calls all_reduce, the other broadcast: both get an error that names them, and no wrong data."""
    start()
    survive(dist.all_reduce if dist.get_rank() == 0 else lambda tensor: dist.broadcast(tensor, 0))


@CASES.checked(backends=OVER_NCCL, alone=True, ranks=(2,), dies=(0, 1), says={0: ("37", "38"), 1: ("37", "38")})
def different_counts():
    start()
    survive(count=37 + dist.get_rank())


@CASES.checked(backends=OVER_NCCL, alone=True, ranks=(2,))
def monitored_barrier_names_the_missing():
    """It is Gloo's: it goes beside our library in one group."""
    open_world(others="cpu:gloo,")
    tensor = numbers(torch.float32).to(here())
    dist.all_reduce(tensor)
    check_equal(tensor, sum(of_all(torch.float32)))
    group = dist.new_group(backend="gloo")
    dist.monitored_barrier(group, timeout=datetime.timedelta(seconds=20))
    if dist.get_rank() == 0:
        try:
            dist.monitored_barrier(group, timeout=datetime.timedelta(seconds=2))
        except RuntimeError as error:
            assert "Rank 1 failed to pass monitoredBarrier" in str(error), error
        else:
            raise AssertionError("no error")
    else:
        time.sleep(4)
    torch.cuda.synchronize()
    dist.destroy_process_group()
