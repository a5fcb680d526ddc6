"""The exceptions of Tutti: one class for each code of the library's errors."""

from __future__ import annotations

import re
import socket


class Error(RuntimeError):
    """A failure. The text is one complete sentence.

    Attributes:
        code: what went wrong, as "peer lost".
        rank: the rank on which the call failed; None before there is a communicator.
        host: the name of that rank's host.
        peer: the first other rank that the text names, with a number of that communicator; None if
            it names none.
    """

    code = "error"

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message)
        self.rank = rank
        self.host = socket.gethostname()
        named = (int(number) for number in re.findall(r"\brank (\d+)\b", message))
        self.peer = next((number for number in named if number != rank), None)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.args[0], self.rank)


class InvalidArgument(Error, ValueError):
    """An argument of this call cannot be right on any rank. The communicator stays usable."""

    code = "invalid argument"


class InvalidUsage(Error):
    """The call is not allowed now: wrong order, thread, process or state."""

    code = "invalid usage"


class Mismatch(Error):
    """Ranks called different collectives, or with different arguments."""

    code = "mismatch"


class Timeout(Error, TimeoutError):
    """A deadline passed. The text names the rank that was waited for."""

    code = "timeout"


class PeerLost(Error, ConnectionError):
    """Another rank died, or left too early."""

    code = "peer lost"


class Aborted(Error):
    """abort() was called, or Ctrl-C ended a wait, on this rank or another."""

    code = "aborted"


class Refused(Error, ConnectionError):
    """Set-up did not accept the key, the world size or the rank."""

    code = "refused"


class OutOfMemory(Error, MemoryError):
    """An allocation failed. The text says how many bytes, and what for."""

    code = "out of memory"


class SystemFailure(Error):
    """A system call failed. The text has its name and its error."""

    code = "system"


class Unsupported(Error, NotImplementedError):
    """This build or this machine cannot do it."""

    code = "unsupported"


class CudaError(Error):
    """A CUDA call failed."""

    code = "cuda"


class InternalError(Error):
    """A bug in Tutti."""

    code = "internal"


_CLASSES = {each.code: each for each in Error.__subclasses__()}


def error_of(code: str, message: str, rank: int | None) -> Error:
    """The exception for an error of the library. The extension calls it."""
    return _CLASSES[code](message, rank)
