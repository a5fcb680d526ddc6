"""Where the ranks of a case meet: a store of rank 0, whose port the others read in a file of the case's folder."""

import os
import time

import torch.distributed as dist

_SECONDS = 30


def _write_port(path, port):
    with open(f"{path}.new", "w") as file:
        file.write(str(port))
    os.rename(f"{path}.new", path)


def _read_port(path):
    until = time.monotonic() + _SECONDS
    while not os.path.exists(path):
        if time.monotonic() > until:
            raise TimeoutError(f"rank 0 has not written its port to {path} within {_SECONDS} s")
        time.sleep(0.01)
    with open(path) as file:
        return int(file.read())


def store(folder, rank, size):
    path = os.path.join(folder, "port")
    if rank == 0:
        server = dist.TCPStore("127.0.0.1", 0, size, is_master=True, wait_for_workers=False)
        _write_port(path, server.port)
        return server
    return dist.TCPStore("127.0.0.1", _read_port(path), size, is_master=False)
