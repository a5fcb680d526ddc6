"""Forks ranks from this process, which has imported PyTorch once for all, and watches over them.

A rank that takes too long prints the stacks of its threads, and is then killed by its id, and the others with it.
"""

import contextlib
import faulthandler
import multiprocessing.connection
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

# How long a rank may take to end after its last case, and to print its stacks.
EXIT_SECONDS = 30
_STACK_SECONDS = 2


@contextlib.contextmanager
def shared_folder():
    """A folder for the ranks, which the process that made it removes, and no rank that ends."""
    path, owner = tempfile.mkdtemp(prefix="tutti-torch-"), os.getpid()
    try:
        yield path
    finally:
        if os.getpid() == owner:
            shutil.rmtree(path)


class Rank:
    """A forked process, its pipe, and how it ended."""

    def __init__(self, number, process, pipe):
        self.number, self.process, self.pipe = number, process, pipe
        self.status = None

    def poll(self):
        """Whether it has ended."""
        if self.status is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def how(self):
        if self.status is None:
            return "has not ended"
        if self.status < 0:
            return f"was ended by {signal.Signals(-self.status).name}"
        return f"exited with status {self.status}"


def fork(count, body):
    """Starts `count` ranks: body(number, pipe) in each, then an orderly end of the interpreter."""
    sys.stdout.flush()
    ranks = []
    for number in range(count):
        ours, its = multiprocessing.connection.Pipe()
        process = os.fork()
        if process == 0:
            ours.close()
            for rank in ranks:
                rank.pipe.close()
            _be_rank(number, its, body)
        its.close()
        ranks.append(Rank(number, process, ours))
    return ranks


def _be_rank(number, pipe, body):
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    try:
        body(number, pipe)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # As a program of one's own ends: with what is registered to run at exit.
    sys.exit(0)


def receive(ranks, seconds):
    """One message of each rank, or None for one that ended without; the ranks that are silent after `seconds`."""
    until = time.monotonic() + seconds
    messages, waiting = {}, {rank.pipe: rank for rank in ranks}
    while waiting and time.monotonic() < until:
        for pipe in multiprocessing.connection.wait(list(waiting), timeout=until - time.monotonic()):
            rank = waiting.pop(pipe)
            try:
                messages[rank.number] = pipe.recv()
            except (EOFError, ConnectionResetError):
                messages[rank.number] = None
    return messages, list(waiting.values())


def wait_for_end(ranks, seconds=EXIT_SECONDS):
    """The ranks that have not ended after `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not all([rank.poll() for rank in ranks]):
        time.sleep(0.01)
    return [rank for rank in ranks if not rank.poll()]


def kill(ranks, why):
    """Ends what is left of them; those that are alive print their stacks before."""
    alive = [rank for rank in ranks if not rank.poll()]
    for rank in alive:
        print(f"rank {rank.number} ({rank.process}) {why}: its stacks", file=sys.stderr, flush=True)
        os.kill(rank.process, signal.SIGUSR1)
        time.sleep(_STACK_SECONDS)
    for rank in alive:
        os.kill(rank.process, signal.SIGKILL)
    wait_for_end(alive)
