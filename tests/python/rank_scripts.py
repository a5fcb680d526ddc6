"""What ranks of the process tests do: rank_scripts.py NAME. Each prints what the test looks for."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy
import tutti


def collectives(comm: tutti.Communicator) -> None:
    for count in (1, 1000, 300_000):
        result = comm.all_reduce(numpy.full(count, comm.rank + 1.0))
        assert (result == comm.size * (comm.size + 1) / 2).all()
    assert comm.all_gather_object(comm.rank) == list(range(comm.size))
    print(f"right on rank {comm.rank} of {comm.size}")


def killed(comm: tutti.Communicator) -> None:
    """Rank 1 kills itself. The others name it, and go on without it, though `tutti run` then asks
    them to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        comm.barrier()
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.all_reduce(numpy.ones(1000))
    except tutti.PeerLost as lost:
        assert f"rank {lost.peer} (pid " in str(lost) and lost.rank == comm.rank
        smaller = comm.shrink()
        print(f"rank {comm.rank} lost rank {lost.peer}, sum of the rest "
              f"{smaller.all_reduce(numpy.ones(1))[0]:.0f}", flush=True)
        smaller.barrier()


def interrupted(comm: tutti.Communicator) -> None:
    """Rank 0 waits for rank 1, which never calls, until Ctrl-C."""
    stream = tutti.Stream() if sys.argv[2] == "stream" else None
    if comm.rank == 0:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        begin = time.monotonic()
        try:
            if sys.argv[2] == "wait":
                comm.all_reduce(numpy.ones(10))
            if sys.argv[2] == "group":
                with tutti.group():
                    comm.receive(numpy.ones(10), 1)
            if sys.argv[2] == "signals":
                comm.window(numpy.empty(1))
                comm.wait_signals([(1, 0, 1)])
            if stream:
                comm.all_reduce(numpy.ones(10), stream=stream)
                stream.synchronize()
            if sys.argv[2] == "split":
                comm.split(0)
        except KeyboardInterrupt:
            assert time.monotonic() - begin < 20
            print("rank 0: KeyboardInterrupt, then", type(comm.async_error()).__name__, flush=True)
        return
    error = None
    while error is None:  # it does not call
        time.sleep(0.01)
        error = comm.async_error()
    print(f"rank {comm.rank}: {type(error).__name__}", flush=True)


def handled(comm: tutti.Communicator) -> None:
    """A handler that does not raise runs during the wait, and the wait goes on."""
    seen: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    if comm.rank == 0:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
        signal.setitimer(signal.ITIMER_REAL, 0.2)
    else:
        time.sleep(1)
    comm.barrier()
    assert bool(seen) == (comm.rank == 0)
    print(f"rank {comm.rank}: handled {len(seen)}")


def forked(comm: tutti.Communicator) -> None:
    """A child's calls raise, and the parent's go on."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            comm.all_reduce(numpy.ones(1))
        except tutti.InvalidUsage as refused:
            code = 0 if "fork" in str(refused) else 2
        del comm
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print(f"rank {comm.rank}: {comm.all_reduce(numpy.ones(1))[0]:.0f} after a fork")


def left_open(comm: tutti.Communicator) -> None:
    """A process that ends has left; nobody closed anything."""
    comm.barrier()
    globals()["kept"] = (comm, tutti.Stream(), comm.prepare("barrier"))
    print(f"rank {comm.rank}: ends")


def daemon(comm: tutti.Communicator) -> None:
    """A thread that Python does not wait for is in a call when the interpreter ends."""
    def loop() -> None:
        while True:
            comm.all_reduce(numpy.ones(1000))

    threading.Thread(target=loop, daemon=True).start()
    time.sleep(0.2)
    print(f"rank {comm.rank}: ends")


if __name__ == "__main__":
    globals()[sys.argv[1]](tutti.Communicator.create())
