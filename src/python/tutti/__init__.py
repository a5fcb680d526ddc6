"""Tutti: collective communication among processes and threads.

A `Communicator` is a fixed group of ranks. Its calls work on NumPy arrays and on anything else on
the host that has the buffer protocol or DLPack, such as PyTorch tensors, without copies::

    import numpy, tutti

    with tutti.Communicator.create() as comm:  # under tutti run, torchrun, srun, mpirun, ...
        total = comm.all_reduce(numpy.arange(4.0))

docs/how-to/python.md shows the rest, docs/reference/python.md has the rules.
"""

from __future__ import annotations

from tutti import _install as _install

_extension = _install.extension_folder()
if _extension is not None:
    # Before the extension of an installed package, which goes with that package's library.
    __path__.insert(0, _extension)

from tutti._communicator import (Communicator, PreparedCall, SuspendedCommunicator, UniqueId,
                                 Window, size_of)
from tutti._errors import (Aborted, CudaError, Error, InternalError, InvalidArgument, InvalidUsage,
                           Mismatch, OutOfMemory, PeerLost, Refused, SystemFailure, Timeout,
                           Unsupported)
from tutti._stream import Group, Stream, group

__version__ = _install.version()

__all__ = [
    "Aborted", "Communicator", "CudaError", "Error", "Group", "InternalError", "InvalidArgument",
    "InvalidUsage", "Mismatch", "OutOfMemory", "PeerLost", "PreparedCall", "Refused", "Stream",
    "SuspendedCommunicator", "SystemFailure", "Timeout", "UniqueId", "Unsupported", "Window",
    "group", "size_of"
]
