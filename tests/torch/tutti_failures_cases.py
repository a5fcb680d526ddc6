"""Ranks that die, stay away or call something else, over the backend `tutti`: the others get an error that says who."""

import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

from cases import Cases, check_equal
from collectives_cases import numbers, of_all
from groups_cases import open_world

CASES = Cases()
ONLY = ("tutti",)
# The failure model's: a rank that is killed is known within a second. A busy machine takes some more.
KNOWN_SECONDS = 5


def start(seconds=60):
    open_world(timeout=datetime.timedelta(seconds=seconds))
    tensor = numbers(torch.float32)
    dist.all_reduce(tensor)
    check_equal(tensor, sum(of_all(torch.float32)))


def fails(call, *texts, within=KNOWN_SECONDS, kind=dist.DistBackendError):
    begin = time.monotonic()
    try:
        call()
    except kind as error:
        assert all(text in str(error) for text in texts), error
        assert time.monotonic() - begin < within, f"the error came after {time.monotonic() - begin:.1f} s: {error}"
    else:
        raise AssertionError("no error")


def die():
    time.sleep(0.5)  # the others wait by then
    os.kill(os.getpid(), signal.SIGKILL)


CALLS = {
    "all_reduce": lambda: dist.all_reduce(torch.zeros(4)),
    "async": lambda: dist.all_reduce(torch.zeros(1 << 20), async_op=True).wait(),
    "barrier": dist.barrier,
    "recv": lambda: dist.recv(torch.zeros(4), 1),
    "any": lambda: dist.recv(torch.zeros(4)),
    "future": lambda: dist.all_reduce(torch.zeros(4), async_op=True).get_future().wait(),
}


@CASES.checked(list(CALLS), alone=True, ranks=(2,), dies=(1,), backends=ONLY)
def killed(call):
    start()
    dist.barrier()
    if dist.get_rank() == 1:
        die()
    fails(CALLS[call], "rank 1 (pid ", " on host ", kind=RuntimeError)


@CASES.checked(alone=True, ranks=(4,), dies=(1,), backends=ONLY)
def killed_of_four():
    start()
    if dist.get_rank() == 1:
        die()
    fails(CALLS["all_reduce"], "rank 1 (pid ")
    fails(CALLS["barrier"], "rank 1 (pid ")


def wait_later():
    """Another thread runs it by then."""
    work = dist.all_reduce(torch.zeros(4), async_op=True)
    time.sleep(0.5)
    work.wait()


@CASES.checked(["all_reduce", "later"], alone=True, ranks=(2,), backends=ONLY)
def timeout_of_the_group(call):
    start(seconds=2)
    if dist.get_rank() == 0:
        fails({**CALLS, "later": wait_later}[call], "timeout", "rank 1", within=10)
    else:
        time.sleep(4)


@CASES.checked(alone=True, ranks=(2,), backends=ONLY)
def timeout_that_is_set():
    """A longer one and then a shorter one, in the place of that of the group."""
    start(seconds=3)
    if not hasattr(dist, "set_timeout"):  # older versions of PyTorch set it for Gloo and NCCL alone
        return
    tensor, before = torch.ones(4), torch.ones(4)
    work = dist.all_reduce(before, async_op=True)
    dist.set_timeout(datetime.timedelta(seconds=60))
    if dist.get_rank() == 1:
        time.sleep(6)
    dist.all_reduce(tensor)
    work.wait()
    check_equal([before, tensor], [torch.full((4,), 2.0)] * 2)
    dist.set_timeout(datetime.timedelta(seconds=1))
    if dist.get_rank() == 0:
        fails(CALLS["all_reduce"], "timed out", "1000 ms", within=10)
    else:
        time.sleep(4)


@CASES.checked(alone=True, ranks=(2,), backends=ONLY)
def timeout_that_one_rank_sets():
    """A longer one takes all ranks: the error says how many came."""
    start()
    if not hasattr(dist, "set_timeout"):
        return
    group = dist.new_group(ranks=[0, 1], timeout=datetime.timedelta(seconds=2))
    if dist.get_rank() == 0:
        fails(lambda: dist.set_timeout(datetime.timedelta(seconds=3), group), "1 of 2 ranks", within=10)
    else:
        time.sleep(5)


@CASES.checked(alone=True, ranks=(2,), backends=ONLY)
def timeout_of_a_message():
    """It ends the receive alone: the next message comes."""
    start(seconds=2)
    if dist.get_rank() == 0:
        fails(CALLS["recv"], "timed out", "2000 ms", within=10)
        taken = torch.zeros(4)
        dist.recv(taken, 1, tag=2)
        check_equal(taken, torch.ones(4))
    else:
        time.sleep(3)
        dist.send(torch.ones(4), 0, tag=2)
    dist.destroy_process_group()


@CASES.checked(alone=True, ranks=(2,), backends=ONLY)
def timeout_of_a_wait():
    """It ends the wait alone: the operation goes on."""
    start()
    tensor = torch.ones(4)
    if dist.get_rank() == 0:
        work = dist.all_reduce(tensor, async_op=True)
        fails(lambda: work.wait(datetime.timedelta(seconds=1)), "timed out", "1000 ms", within=10)
        work.wait()
    else:
        time.sleep(2)
        dist.all_reduce(tensor)
    check_equal(tensor, torch.full((4,), 2.0))
    dist.destroy_process_group()


@CASES.checked(alone=True, ranks=(2,), backends=ONLY)
def different_collectives():
    start()
    call = CALLS["all_reduce"] if dist.get_rank() == 0 else CALLS["barrier"]
    fails(call, "all_reduce", "barrier")


@CASES.checked(alone=True, ranks=(2,), backends=ONLY)
def different_counts():
    start()
    fails(lambda: dist.all_reduce(torch.zeros(37 + dist.get_rank())), "37", "38")


@CASES.checked(alone=True, ranks=(4,), backends=ONLY)
def monitored_barrier_names_the_missing():
    start()
    rank = dist.get_rank()
    if rank in (1, 3):
        time.sleep(6)
        return
    wait = lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=3), wait_all_ranks=True)
    if rank == 0:
        fails(wait, "Ranks 1, 3 failed to pass monitoredBarrier in 3000 ms", within=10)
    else:
        fails(wait, "Rank 2 successfully reached monitoredBarrier", within=10)
    time.sleep(3)


@CASES.checked(alone=True, ranks=(2,), backends=ONLY)
def aborted_while_it_waits():
    """abort() on one rank ends what the other waits for."""
    start()
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.zeros(4), async_op=True)
        fails(work.wait, "aborted", within=10)
    else:
        time.sleep(1)
        dist.group.WORLD._get_backend(torch.device("cpu")).abort()
        time.sleep(1)


@CASES.checked(alone=True, ranks=(2,), backends=ONLY)
def missing_at_set_up():
    """A rank that never comes: the others say how many came."""
    if int(os.environ["RANK"]) == 1:
        os.environ["WORLD_SIZE"] = "2"
        time.sleep(4)
        return
    fails(lambda: open_world(timeout=datetime.timedelta(seconds=2)), "1 of 2 ranks came", within=20)
