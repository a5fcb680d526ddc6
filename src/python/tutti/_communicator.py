"""Communicators: a fixed group of ranks, and the calls among them."""

from __future__ import annotations

import math
import operator
import os
import pickle
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti import _core
from tutti._arrays import divided, dtype_name, empty_like, empty_of, numpy_dtype, scaled
from tutti._errors import Error, InvalidUsage
from tutti._stream import Stream

_PREPARE: Any = ...  # in the place of a stream: the call is prepared


def size_of(dtype: Any) -> int:
    """Bytes of an element of a type, which a string, NumPy or PyTorch names."""
    return _core.size_of(dtype_name(dtype))


@dataclass(frozen=True)
class UniqueId:
    """Names one job. Whoever has it may join, so pass it through private channels only."""

    hex: str = field(repr=False)

    def __post_init__(self) -> None:
        _core.id_check(self.hex)

    @staticmethod
    def create(network: bool = True) -> UniqueId:
        """Makes an id, and listens for its job in this process. With `network`, ranks of other
        hosts can join too. Raises SystemFailure."""
        return UniqueId(_core.id_create(network))

    @staticmethod
    def at(address: str) -> UniqueId:
        """The id of an address, "host:port", which every process derives alike. Rank 0 listens
        there. Ranks of other hosts need the variable TUTTI_JOB_KEY. Raises InvalidArgument."""
        return UniqueId(_core.id_at(address))


class PreparedCall:
    """A call whose arguments are checked and whose plan is chosen once. It keeps its buffers.

    Attributes:
        result: what the call would have returned: its receive buffer, or None.
    """

    def __init__(self, core: _core.PreparedCall, result: Any) -> None:
        self._core = core
        self.result = result

    def start(self, stream: Stream | None = None) -> Any:
        """Makes the call. Returns `result`, which is complete then; with `stream`, later."""
        self._core.start(_how(stream))
        return self.result


class SuspendedCommunicator:
    """A communicator that has given its memory back."""

    def __init__(self, core: _core.SuspendedCommunicator) -> None:
        self._core = core

    def resume(self) -> Communicator:
        """Makes the communicator again. Collective, and once. Raises PeerLost or Timeout."""
        return Communicator(self._core.resume())


class Window:
    """This rank's share of a window: a buffer into which other ranks put data.

    Close it, or leave its with block, when nobody puts into it any more, as after a barrier.
    """

    def __init__(self, core: _core.Window, buffer: Any) -> None:
        self._core = core
        self.buffer = buffer

    def nbytes(self, rank: int) -> int:
        """The size of a rank's buffer, in bytes. Waits until that rank has called window()."""
        return self._core.bytes(rank)

    def close(self) -> None:
        """Gives this rank's buffer back."""
        self._core.close()

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Communicator:
    """A fixed group of ranks. Make one by `create()` or `local()`.

    Buffers are arrays on the host, contiguous in C order: NumPy's, anything with the buffer
    protocol, or with DLPack. Their memory is used as it is. The element type is the array's;
    `dtype` names it for buffers of bytes. Sizes count elements.

    A call returns its receive buffer: `recv` if given, else a new array. Pass the same array as
    `send` and `recv` to work in place. With `stream`, a call returns at once and runs in the
    stream's order.

    `op` is "sum", "prod", "min", "max", "avg", "premulsum" (each rank's input times its `scalar`);
    for integers and bool also "bit_and", "bit_or", "bit_xor", "logical_and", "logical_or" and
    "logical_xor".

    One thread at a time uses a communicator. Any thread may call abort(), async_error() and
    describe(). All ranks make the same calls in the same order.

    Raises:
        InvalidArgument: an argument cannot be right. The call was not made.
        InvalidUsage: the communicator is closed, or this is a forked child, or a handler of
            signals that runs in a wait of the main thread. Such a handler may call abort().
        Mismatch, Timeout, PeerLost, Aborted, OutOfMemory, InternalError: the call failed, here or
            on another rank. Every later call raises the same.
        KeyboardInterrupt: Ctrl-C on the main thread. The communicator is aborted then, and the
            other ranks raise Aborted.
    """

    def __init__(self, core: _core.Communicator) -> None:
        self._core = core

    # ---- Life

    @staticmethod
    def create(*, id: UniqueId | None = None, rank: int | None = None, size: int | None = None,
               setup_timeout: float | None = None, timeout: float | None = None,
               straggler: float | None = None, deterministic: bool | None = None,
               algorithm: str | None = None,
               algorithm_file: str | os.PathLike[str] | None = None, transport: str | None = None,
               encryption: bool | None = None, pre_shared_key: bytes | None = None,
               signals: int | None = None) -> Communicator:
        """Joins a job. Collective over all its ranks.

        Without `id`, `rank` and `size`, the launcher's environment names the job: tutti run,
        torchrun, srun, mpirun and others. Without a launcher the job has one rank.

        Args:
            id: the job, with `rank` from 0 to `size` - 1.
            setup_timeout: of this call, in seconds, up to 1e9; None or 0: TUTTI_SETUP_TIMEOUT_MS,
                else 120.
            timeout: of one operation, likewise; None or 0: TUTTI_TIMEOUT_MS, else 600.
            straggler: after so many seconds a rank that is waited for is reported; None or 0:
                TUTTI_STRAGGLER_MS, else 5.
            deterministic: reductions have the same bits for every transport and algorithm.
            algorithm: forces one, as "ring".
            algorithm_file: path of a plan of yours, for the calls that it is made for.
            transport: forces one: "shm", "tcp", "ucx", "shm+tcp" or "shm+ucx".
            encryption: seals what goes over TCP.
            pre_shared_key: a secret of all ranks, besides the job's key.
            signals: how many signals each rank has for each other, in one-sided calls; else 1.

        Raises:
            Refused, Timeout, InvalidArgument, SystemFailure: nothing is left behind then.
            KeyboardInterrupt: Ctrl-C; the other ranks raise Aborted.
        """
        return Communicator(_core.create(_given(locals())))

    @staticmethod
    def local(size: int, *, timeout: float | None = None, straggler: float | None = None,
              deterministic: bool | None = None, algorithm: str | None = None,
              algorithm_file: str | os.PathLike[str] | None = None,
              transport: str | None = None, signals: int | None = None) -> list[Communicator]:
        """Makes `size` ranks in this process, one for each thread that you run."""
        given = _given(locals())
        return [Communicator(each) for each in _core.create_local(given.pop("size"), given)]

    def split(self, color: int, key: int = 0) -> Communicator | None:
        """Ranks of one color form a new communicator, ordered by (key, rank). Collective. A rank
        of a negative color gets None."""
        made = self._core.split(color, key)
        return None if made is None else Communicator(made)

    def subset(self, ranks: Iterable[int]) -> Communicator:
        """A new communicator of `ranks`, in ascending order. Only they call. Also after a failure;
        raises PeerLost if one of them is dead."""
        return Communicator(self._core.subset(_integers(ranks)))

    def shrink(self) -> Communicator:
        """A new communicator of the survivors, also after a failure. Collective over them. Raises
        Timeout, which names a rank that is alive and does not call."""
        return Communicator(self._core.shrink())

    def grow_id(self, network: bool = True) -> UniqueId:
        """The id by which new ranks join in grow(). One rank calls it, and gives it to them."""
        return UniqueId(self._core.grow_id(network))

    def grow(self, size: int, id: UniqueId | None = None) -> Communicator:
        """A new communicator of these ranks and of new ones, `size` in all. Collective.

        The rank that has called grow_id() passes the `id`. New ranks call create() with it, with
        `size`, and with a rank from this communicator's size on. Raises Mismatch, Refused,
        PeerLost or Timeout; this communicator stays usable then."""
        return Communicator(self._core.grow(size, None if id is None else id.hex))

    def suspend(self) -> SuspendedCommunicator:
        """Gives the memory back until resume(). All ranks do it. This object is closed then.
        Raises InvalidUsage while calls are under way or prepared."""
        return SuspendedCommunicator(self._core.suspend())

    def close(self) -> None:
        """Leaves the communicator, as the end of a with block does. Its windows are closed, and its
        prepared calls cannot be started any more. Calls on streams end first."""
        self._core.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: types.TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Error) and not self._core.closed:
            self._core.abort()  # the other ranks need not wait for this one
        self._core.close()

    # ---- Looking

    @property
    def rank(self) -> int:
        """0 to size - 1."""
        return self._core.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._core.size

    @property
    def hosts(self) -> list[int]:
        """The number of each rank's host, in order of appearance."""
        return self._core.hosts

    @property
    def deterministic(self) -> bool:
        """Whether reductions have the same bits for every transport and algorithm."""
        return self._core.deterministic

    @property
    def memory(self) -> int:
        """Bytes of the host that this communicator has on this rank."""
        return self._core.memory

    def abort(self) -> None:
        """Ends every operation here and on the other ranks, with Aborted. Any thread may call it.
        Afterwards only shrink(), subset() and close() are allowed."""
        self._core.abort()

    def async_error(self) -> Error | None:
        """The failure that made this communicator unusable, or None. Any thread may call it."""
        return self._core.async_error()

    def describe(self) -> str:
        """Several lines about the ranks, the transports and the last calls, for people."""
        return self._core.describe()

    def __repr__(self) -> str:
        return f"<tutti.Communicator rank {self.rank} of {self.size}>"

    def _empty_like(self, send: Any, dtype: str, *, times: int | None = None,
                    parts: int | None = None) -> Any:
        """A new array for a result: of the shape of `send`, `times` as long along the first axis,
        or one of so many equal parts."""
        shape, own = self._core.shape_and_dtype(send)
        if times is not None:
            shape = scaled(shape, times)
        if parts is not None:
            shape = divided(shape, parts, "send")
        return empty_like(send, shape, own, dtype)

    def _empty_of(self, send: Any, count: int, dtype: str) -> Any:
        return empty_of(send, count, self._core.shape_and_dtype(send)[1], dtype)

    # ---- Collectives

    def all_reduce(self, send: Any, recv: Any = None, op: str = "sum", *, scalar: float = 1.0,
                   dtype: Any = None, algorithm: str = "", stream: Stream | None = None) -> Any:
        """The reduction over all ranks, on every rank. `recv` has the size of `send`."""
        name = dtype_name(dtype)
        if recv is None:
            recv = self._empty_like(send, name)
        return self._issue("all_reduce", stream, name, algorithm, send, recv, op, scalar)

    def reduce(self, send: Any, recv: Any = None, op: str = "sum", *, root: int = 0,
               scalar: float = 1.0, dtype: Any = None, algorithm: str = "",
               stream: Stream | None = None) -> Any:
        """The reduction over all ranks, at the root. The others return None, and need no recv."""
        name = dtype_name(dtype)
        if self.rank != root:
            recv = None
        elif recv is None:
            recv = self._empty_like(send, name)
        return self._issue("reduce", stream, name, algorithm, send, recv, op, scalar, root)

    def broadcast(self, buffer: Any, *, root: int = 0, dtype: Any = None, algorithm: str = "",
                  stream: Stream | None = None) -> Any:
        """The root's elements, in the buffer of every rank. Returns `buffer`."""
        name = dtype_name(dtype)
        result = self._issue("broadcast", stream, name, algorithm, buffer, None, root=root)
        if stream is _PREPARE:
            result.result = buffer
            return result
        return buffer

    def all_gather(self, send: Any, recv: Any = None, *, dtype: Any = None, algorithm: str = "",
                   stream: Stream | None = None) -> Any:
        """The arrays of all ranks, one after the other along the first axis, on every rank.

        In place: `send` is this rank's part of `recv`."""
        name = dtype_name(dtype)
        if recv is None:
            recv = self._empty_like(send, name, times=self.size)
        return self._issue("all_gather", stream, name, algorithm, send, recv)

    def reduce_scatter(self, send: Any, recv: Any = None, op: str = "sum", *, scalar: float = 1.0,
                       dtype: Any = None, algorithm: str = "",
                       stream: Stream | None = None) -> Any:
        """This rank's part of the reduction over all ranks. The parts of `send` lie along the
        first axis. In place: `recv` is this rank's part of `send`."""
        name = dtype_name(dtype)
        if recv is None:
            recv = self._empty_like(send, name, parts=self.size)
        return self._issue("reduce_scatter", stream, name, algorithm, send, recv, op, scalar)

    def gather(self, send: Any, recv: Any = None, *, root: int = 0, dtype: Any = None,
               algorithm: str = "", stream: Stream | None = None) -> Any:
        """all_gather() at the root alone. The others return None, and need no recv."""
        name = dtype_name(dtype)
        if self.rank != root:
            recv = None
        elif recv is None:
            recv = self._empty_like(send, name, times=self.size)
        return self._issue("gather", stream, name, algorithm, send, recv, root=root)

    def scatter(self, send: Any = None, recv: Any = None, *, root: int = 0, dtype: Any = None,
                algorithm: str = "", stream: Stream | None = None) -> Any:
        """This rank's part of the root's `send`, along the first axis. Ranks other than the root
        pass `recv`, which says how large it is."""
        name = dtype_name(dtype)
        if recv is None:
            if self.rank != root or send is None:
                raise ValueError("scatter: " + ("send is missing at the root" if self.rank == root
                                                else "recv is missing: only the root knows the "
                                                "size; pass an array for this rank's part"))
            recv = self._empty_like(send, name, parts=self.size)
        return self._issue("scatter", stream, name, algorithm, send, recv, root=root)

    def all_to_all(self, send: Any, recv: Any = None, *, dtype: Any = None, algorithm: str = "",
                   stream: Stream | None = None) -> Any:
        """Part q of `send` goes to rank q; part q of the result is from rank q. The parts are of
        equal size, along the first axis. `recv` has the size of `send`, and may be it."""
        name = dtype_name(dtype)
        if recv is None:
            recv = self._empty_like(send, name)
        return self._issue("all_to_all", stream, name, algorithm, send, recv)

    def scan(self, send: Any, recv: Any = None, op: str = "sum", *, scalar: float = 1.0,
             dtype: Any = None, algorithm: str = "", stream: Stream | None = None) -> Any:
        """The reduction over ranks 0 to this one. Any `op` but "avg"."""
        name = dtype_name(dtype)
        if recv is None:
            recv = self._empty_like(send, name)
        return self._issue("scan", stream, name, algorithm, send, recv, op, scalar)

    def barrier(self, *, stream: Stream | None = None) -> Any:
        """Returns when all ranks have called it."""
        return self._issue("barrier", stream, "", "", None, None)

    # ---- Collectives of blocks that differ in size

    def all_gather_v(self, send: Any, recv: Any = None, *, counts: Sequence[int],
                     offsets: Sequence[int] = (), dtype: Any = None, algorithm: str = "",
                     stream: Stream | None = None) -> Any:
        """As all_gather(), with `counts[q]` elements from rank q. `counts` and `offsets` are the
        same on all ranks. `offsets` say where blocks begin in `recv`; without them they follow
        each other. A new result has one dimension."""
        name, counts, offsets = dtype_name(dtype), _integers(counts), _integers(offsets)
        if recv is None:
            recv = self._empty_of(send, _end(counts, offsets), name)
        core = self._core.all_gather_v(_how(stream), name, algorithm, send, recv, counts, offsets)
        return _result(core, stream, recv)

    def reduce_scatter_v(self, send: Any, recv: Any = None, op: str = "sum", *,
                         counts: Sequence[int], offsets: Sequence[int] = (), scalar: float = 1.0,
                         dtype: Any = None, algorithm: str = "",
                         stream: Stream | None = None) -> Any:
        """As reduce_scatter(), with `counts[q]` elements for rank q, which begin at `offsets[q]`
        of `send`. A new result has one dimension."""
        name, counts, offsets = dtype_name(dtype), _integers(counts), _integers(offsets)
        if recv is None:
            recv = self._empty_of(send, _mine(counts, self.rank), name)
        core = self._core.reduce_scatter_v(_how(stream), name, algorithm, send, recv, counts,
                                           offsets, op, scalar)
        return _result(core, stream, recv)

    def all_to_all_v(self, send: Any, recv: Any = None, *, send_counts: Sequence[int],
                     recv_counts: Sequence[int], send_offsets: Sequence[int] = (),
                     recv_offsets: Sequence[int] = (), dtype: Any = None,
                     stream: Stream | None = None) -> Any:
        """`send_counts[q]` elements go to rank q, and `recv_counts[q]` come from it. Both sides
        must agree. A new result has one dimension. `recv` must not overlap `send`."""
        name = dtype_name(dtype)
        send_counts, send_offsets = _integers(send_counts), _integers(send_offsets)
        recv_counts, recv_offsets = _integers(recv_counts), _integers(recv_offsets)
        if recv is None:
            recv = self._empty_of(send, _end(recv_counts, recv_offsets), name)
        core = self._core.all_to_all_v(_how(stream), name, send, send_counts, send_offsets, recv,
                                       recv_counts, recv_offsets)
        return _result(core, stream, recv)

    # ---- Sends and receives

    def send(self, send: Any, peer: int, *, dtype: Any = None,
             stream: Stream | None = None) -> Any:
        """Sends to rank `peer`, which receives as many elements of this type. Returns when the
        buffer may change, which may be before they have arrived."""
        return _result(self._core.send(_how(stream), dtype_name(dtype), send, peer), stream, None)

    def receive(self, recv: Any, peer: int, *, dtype: Any = None,
                stream: Stream | None = None) -> Any:
        """Receives from rank `peer`. Returns `recv`."""
        core = self._core.receive(_how(stream), dtype_name(dtype), recv, peer)
        return _result(core, stream, recv)

    # ---- Prepared calls

    def prepare(self, call: str, *args: Any, **named: Any) -> PreparedCall:
        """Prepares a call, to be started many times: its name, and its arguments but `stream`.

        As in `comm.prepare("all_reduce", x, recv=x)`. The buffers are kept and used again."""
        if call not in _PREPARABLE:
            raise ValueError(f"prepare: there is no call {call}; the calls are "
                             + ", ".join(_PREPARABLE))
        prepared: PreparedCall = getattr(self, call)(*args, stream=_PREPARE, **named)
        return prepared

    # ---- One-sided calls

    def allocate(self, shape: int | tuple[int, ...], dtype: Any = "float32") -> Any:
        """A NumPy array in memory that the other ranks on this host can address. Calls on such
        arrays move each byte once. It is zeroed. Raises OutOfMemory."""
        name = dtype_name(dtype)
        try:
            shape = (operator.index(shape),)
        except TypeError:
            shape = tuple(operator.index(extent) for extent in shape)
        kind = numpy_dtype(name)
        return self._core.allocate(math.prod(shape) * kind.itemsize).view(kind).reshape(shape)

    def window(self, buffer: Any, *, dtype: Any = None) -> Window:
        """The next window: every rank gives a buffer, into which others put. No rank waits."""
        return Window(self._core.window(buffer, dtype_name(dtype)), buffer)

    def put(self, send: Any, peer: int, window: Window, *, offset: int = 0, signal: int = 0,
            dtype: Any = None, stream: Stream | None = None) -> Any:
        """Writes to the peer's buffer, `offset` bytes from its begin, then counts a signal there.
        Returns when `send` may change."""
        core = self._core.put(_how(stream), dtype_name(dtype), send, peer, window._core, offset,
                              signal)
        return _result(core, stream, None)

    def signal(self, peer: int, signal: int = 0, *, stream: Stream | None = None) -> Any:
        """Counts a signal of this rank at the peer."""
        return _result(self._core.signal(_how(stream), peer, signal), stream, None)

    def wait_signals(self, signals: Iterable[tuple[int, int, int]], *,
                     stream: Stream | None = None) -> Any:
        """Waits for (peer, signal, count): so many signals of each, and takes them. The data of
        their puts are there then."""
        wanted = [(int(peer), int(signal), int(count)) for peer, signal, count in signals]
        return _result(self._core.wait_signals(_how(stream), wanted), stream, None)

    # ---- Objects

    def broadcast_object(self, object: Any, *, root: int = 0) -> Any:
        """The root's object, pickled. Unpickling runs code: use it among ranks that you trust."""
        import numpy
        _require_no_group("broadcast_object")
        data = numpy.frombuffer(pickle.dumps(object) if self.rank == root else b"", numpy.uint8)
        length = self.broadcast(numpy.array([data.size], numpy.int64), root=root)
        if self.rank == root:
            self.broadcast(data, root=root)
            return object
        return pickle.loads(self.broadcast(numpy.empty(int(length[0]), numpy.uint8), root=root))

    def all_gather_object(self, object: Any) -> list[Any]:
        """The objects of all ranks, pickled. Unpickling runs code: use it among ranks that you
        trust."""
        import numpy
        _require_no_group("all_gather_object")
        data = numpy.frombuffer(pickle.dumps(object), numpy.uint8)
        counts = self.all_gather(numpy.array([data.size], numpy.int64)).tolist()
        everything = self.all_gather_v(data, counts=counts)
        ends = numpy.cumsum(counts)
        return [pickle.loads(everything[end - count:end]) for count, end in zip(counts, ends)]

    # ---- Private

    def _issue(self, call: str, stream: Stream | None, dtype: str, algorithm: str, send: Any,
               recv: Any, op: str = "sum", scalar: float = 1.0, root: int = 0) -> Any:
        core = getattr(self._core, call)(_how(stream), dtype, algorithm, send, recv, op, scalar,
                                         root)
        return _result(core, stream, recv)


_PREPARABLE = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather",
               "scatter", "all_to_all", "scan", "barrier", "all_gather_v", "reduce_scatter_v",
               "all_to_all_v", "send", "receive", "put", "signal", "wait_signals")


def _given(options: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if value is not None}
    if "id" in given:
        given["id"] = given["id"].hex
    if "algorithm_file" in given:
        given["algorithm_file"] = os.fspath(given["algorithm_file"])
    return given


def _require_no_group(call: str) -> None:
    if _core.in_group():
        raise InvalidUsage(f"{call}: it makes calls one after another, so it cannot be in a group; "
                           "make it before or after the with block")


def _how(stream: Stream | None) -> Any:
    if stream is None or stream is _PREPARE:
        return stream
    if not isinstance(stream, Stream):
        raise TypeError(f"stream: it is a {type(stream).__name__}; pass a tutti.Stream")
    return stream._core


def _result(core: Any, stream: Stream | None, recv: Any) -> Any:
    return PreparedCall(core, recv) if stream is _PREPARE else recv


def _integers(numbers: Iterable[int]) -> list[int]:
    return [operator.index(number) for number in numbers]


def _end(counts: Sequence[int], offsets: Sequence[int]) -> int:
    if not offsets:
        return sum(counts)
    return max((begin + count for begin, count in zip(offsets, counts)), default=0)


def _mine(counts: Sequence[int], rank: int) -> int:
    return counts[rank] if rank < len(counts) else 0
