"""Streams of the host, and groups of calls."""

from __future__ import annotations

import types

from tutti import _core


class Stream:
    """An ordered queue of calls, which a thread of the library runs.

    A call with `stream=` returns at once. Its buffers are kept until it has ended; change and read
    them only after `synchronize()`. If the last reference goes, it waits for all calls.
    """

    def __init__(self) -> None:
        self._core = _core.Stream()

    def synchronize(self) -> None:
        """Returns when all earlier calls have ended, also those behind a failed one. Raises the
        first failure among them.

        Ctrl-C aborts the communicators of these calls, and raises KeyboardInterrupt.
        """
        self._core.synchronize()

    def query(self) -> bool:
        """True if nothing is queued or running. Raises as synchronize() does."""
        return self._core.query()


class Group:
    """Collects the calls of this thread in a with block, and starts them together at its end.

    So a rank can send to and receive from several ranks at once. Buffers hold their results after
    the outermost block; with streams, after these. If an exception leaves the block, the calls are
    dropped, as if they had never been made. Groups nest.
    """

    def __init__(self) -> None:
        self._core = _core.Group()

    def __enter__(self) -> Group:
        self._core.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: types.TracebackType | None) -> None:
        self._core.exit(value)


def group() -> Group:
    """A group, for `with tutti.group():`."""
    return Group()
