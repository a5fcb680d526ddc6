"""Registers the backend `tutti` of torch.distributed.

    import torch.distributed as dist
    import tutti.torch

    dist.init_process_group("tutti")                  # or "cpu:tutti,cuda:nccl"

It is compiled against the installed PyTorch when it is first imported: see docs/how-to/pytorch-backend.md.
"""

from __future__ import annotations

import ctypes
import datetime

import torch
import torch.distributed as dist

from tutti import _install
from tutti.torch import _build

__all__ = ["NAME"]

NAME = "tutti"


def _load() -> None:
    # The backend finds it by its name then, wherever it lies.
    ctypes.CDLL(_install.library(), mode=ctypes.RTLD_GLOBAL)
    torch.ops.load_library(_build.library())


def _create(store: dist.Store, rank: int, size: int, timeout: datetime.timedelta) -> object:
    # A group takes the Store to C++ and brings the backend back: so nothing of it needs Python's headers.
    carrier = dist.ProcessGroup(store, rank, size)
    torch.ops.tutti.install(carrier.boxed(), int(timeout.total_seconds() * 1000))
    return carrier._get_backend(torch.device("cpu"))


if NAME.upper() not in dist.Backend._plugins:
    _load()
    dist.Backend.register_backend(NAME, _create, devices=["cpu", "cuda"])
