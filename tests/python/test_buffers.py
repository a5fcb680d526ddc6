"""What may be a buffer, what is refused, and how long a buffer is kept."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import sys
import threading
import weakref

import numpy
import pytest
import tutti

from ranks import DEADLINE, on_threads


def alone(body) -> None:
    """One rank is enough to see what is refused."""
    with tutti.Communicator.local(1)[0] as comm:
        body(comm)


def test_buffer_protocol_without_copies() -> None:
    def body(comm: tutti.Communicator) -> None:
        doubles = array.array("d", [1.0, 2.0, 3.0])
        comm.all_reduce(doubles, doubles)
        assert doubles.tolist() == [2.0, 4.0, 6.0]
        floats = bytearray(numpy.full(4, 1.5, "float32").tobytes())
        comm.all_reduce(floats, floats, dtype="float32")
        assert numpy.frombuffer(floats, "float32").tolist() == [3.0] * 4
        with mmap.mmap(-1, 16) as mapped:
            comm.broadcast(memoryview(mapped) if comm.rank else b"0123456789abcdef")
            assert comm.rank == 0 or mapped[:] == b"0123456789abcdef"
        result = comm.all_gather(memoryview(numpy.arange(2)))
        assert isinstance(result, numpy.ndarray) and result.tolist() == [0, 1, 0, 1]

    on_threads(2, body)


def test_arrays_of_ctypes() -> None:
    def body(comm: tutti.Communicator) -> None:
        floats = (ctypes.c_float * 3)(1, 2, 3)
        comm.all_reduce(floats, floats)
        assert list(floats) == [2.0, 4.0, 6.0]
        assert comm.all_gather((ctypes.c_int * 2)(4, 5)).tolist() == [4, 5, 4, 5]
        assert comm.all_reduce(ctypes.create_string_buffer(8), dtype="float32").tolist() == [0, 0]

    on_threads(2, body)


def test_arrays_without_elements() -> None:
    def body(comm: tutti.Communicator) -> None:
        for shape in ((0,), (0, 3), (3, 0), (2, 0, 4)):
            empty = numpy.empty(shape)
            assert comm.all_reduce(empty).shape == shape
            assert comm.all_reduce(empty[::-1]).shape == shape

    on_threads(2, body)


def test_a_type_of_its_own_keeps_the_shape() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")

    def body(comm: tutti.Communicator) -> None:
        for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, numpy.float32):
            x = numpy.ones((2, 3), kind)
            for dtype in (x.dtype, kind, x.dtype.name):
                assert comm.all_reduce(x, dtype=dtype).shape == (2, 3)

    alone(body)


def test_finalizers_of_buffers_may_use_their_stream() -> None:
    first, second = tutti.Communicator.local(2)
    streams = tutti.Stream(), tutti.Stream()

    class Owned(numpy.ndarray):
        pass

    ends = 0

    def at_end() -> None:
        nonlocal ends
        streams[0].query()
        ends += 1

    for turn in range(200):
        x, y = numpy.ones(5).view(Owned), numpy.ones(5)
        weakref.finalize(x, at_end)
        with tutti.group():
            first.all_reduce(x, recv=x, stream=streams[0])
            second.all_reduce(y, recv=y, stream=streams[1])
        del x
        if turn % 7 == 6:
            streams[0].synchronize()
    streams[0].synchronize()
    streams[1].synchronize()
    assert ends == 200


def test_threads_may_look_at_one_stream() -> None:
    for _ in range(30):
        first, second = tutti.Communicator.local(2)
        streams = tutti.Stream(), tutti.Stream()
        with tutti.group():
            first.barrier(stream=streams[0])
            second.barrier(stream=streams[1])
        streams[1].synchronize()
        first.close()
        second.close()
        threads = [threading.Thread(target=streams[0].query) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
            assert not thread.is_alive()


def test_new_arrays_have_the_shape_of_a_buffer() -> None:
    def body(comm: tutti.Communicator) -> None:
        doubles = array.array("d", [1.0, 2.0, 3.0])
        assert comm.all_reduce(doubles).tolist() == [2.0, 4.0, 6.0]
        assert comm.all_gather(doubles).tolist() == [1.0, 2.0, 3.0] * 2
        assert comm.all_reduce(array.array("d")).shape == (0,)
        assert comm.all_reduce(bytearray(8), dtype="float32").tolist() == [0.0, 0.0]

    on_threads(2, body)


def test_float8() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")

    def body(comm: tutti.Communicator) -> None:
        for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
            x = numpy.ones(3, kind)
            assert comm.all_reduce(x).astype("float32").tolist() == [2.0] * 3
            y = comm.all_reduce(x.tobytes(), dtype=kind)
            assert y.dtype == kind and y.astype("float32").tolist() == [2.0] * 3

    on_threads(2, body)


def test_allocate_takes_any_integers() -> None:
    def body(comm: tutti.Communicator) -> None:
        assert comm.allocate(numpy.int64(5)).shape == (5,)
        assert comm.allocate(numpy.array([2, 3]), "int8").shape == (2, 3)
        assert comm.allocate(()).shape == ()
        with pytest.raises(TypeError):
            comm.allocate(2.5)

    alone(body)


def test_raw_bytes_with_a_type() -> None:
    def body(comm: tutti.Communicator) -> None:
        bits = numpy.full(3, 0x3F80, "uint16")  # 1 in bfloat16
        assert comm.all_reduce(bits, dtype="bfloat16").astype("float32").tolist() == [2.0] * 3
        send = numpy.ones(2, "float64").tobytes()
        assert comm.all_reduce(send, dtype=numpy.float64).tolist() == [2.0, 2.0]
        assert comm.all_gather_v(send, counts=[2, 2], dtype="float64").tolist() == [1.0] * 4

    on_threads(2, body)


class OnlyDLPack:
    """An array of another package: nothing of it but DLPack."""

    def __init__(self, of: numpy.ndarray) -> None:
        self.of = of
        self.shape = of.shape

    def __dlpack__(self, **named: object) -> object:
        return self.of.__dlpack__(**named)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.of.__dlpack_device__()


def test_dlpack() -> None:
    def body(comm: tutti.Communicator) -> None:
        x = numpy.arange(6, dtype="int16").reshape(2, 3)
        recv = numpy.empty_like(x)
        comm.all_reduce(OnlyDLPack(x), OnlyDLPack(recv))
        assert (recv == 2 * x).all()
        assert comm.all_reduce(OnlyDLPack(x)).tolist() == (2 * x).tolist()

    on_threads(2, body)


def test_torch() -> None:
    torch = pytest.importorskip("torch")

    def body(comm: tutti.Communicator) -> None:
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.float8_e5m2):
            x = torch.ones(4).to(dtype)
            y = comm.all_reduce(x)
            assert isinstance(y, torch.Tensor) and y.dtype == dtype
            assert y.float().tolist() == [2.0] * 4
            comm.all_reduce(x, x)
            assert x.float().tolist() == [2.0] * 4
        y = comm.all_reduce(torch.ones(2, requires_grad=True))
        assert y.tolist() == [2.0, 2.0] and not y.requires_grad
        with pytest.raises(tutti.InvalidArgument, match="contiguous"):
            comm.all_reduce(torch.ones(4, 4).t())

    on_threads(2, body)


A_LIST = r"send: a builtins.list gives no array .*; pass a NumPy array, as numpy.asarray\(x\)"
REFUSALS = {
    "a list": (lambda c: c.all_reduce([1, 2], numpy.empty(2)), A_LIST),
    "a list alone": (lambda c: c.all_reduce([1, 2]), A_LIST),
    "a list in parts": (lambda c: c.reduce_scatter([1, 2]), A_LIST),
    "a list of some length": (lambda c: c.all_gather_v([1, 2], counts=[2]), A_LIST),
    "a list to write to": (lambda c: c.broadcast([1, 2]),
                           r"buffer: a builtins.list .* as numpy.asarray\(x\)"),
    "a number": (lambda c: c.all_reduce(2.5), r"send: a builtins.float .* as numpy.asarray\(x\)"),
    "nothing": (lambda c: c.all_reduce(None), "send: a builtins.NoneType gives no array"),
    "strided": (lambda c: c.all_reduce(numpy.ones((4, 4))[:, 0], numpy.empty(4)),
                "send: .*not contiguous.*ascontiguousarray"),
    "fortran": (lambda c: c.all_reduce(numpy.asfortranarray(numpy.ones((4, 4))), numpy.empty(16)),
                "send: .*not contiguous"),
    "read-only": (lambda c: c.all_reduce(numpy.ones(2, "uint8"), b"ab"),
                  "recv: .*read-only.*copy"),
    "types differ": (lambda c: c.all_reduce(numpy.ones(2), numpy.ones(2, "float32")),
                     "recv: it holds float32, but send holds float64"),
    "size": (lambda c: c.all_reduce(numpy.ones(2), numpy.ones(3)), "recv: it has 3 elements, not 2"),
    "gather's size": (lambda c: c.all_gather(numpy.ones(2), numpy.ones(1)),
                      "recv: it has 1 element, not 2: the elements of send, times"),
    "complex": (lambda c: c.all_gather(numpy.ones(2, "complex64"), numpy.ones(2, "complex64")),
                "send: Tutti has no type .*view"),
    "text": (lambda c: c.broadcast(numpy.array(["a"])), "buffer: "),
    "swapped bytes": (lambda c: c.broadcast(numpy.ones(2, ">f4")), "buffer: "),
    "other dtype": (lambda c: c.broadcast(numpy.ones(2), dtype="float32"),
                    "buffer: dtype is float32, but the array holds float64"),
    "odd bytes": (lambda c: c.broadcast(bytearray(6), dtype="float32"),
                  "buffer: 6 bytes are no whole number of float32"),
    "no such type": (lambda c: c.broadcast(bytearray(6), dtype="float12"),
                     "dtype: there is no type float12; the types are int8, "),
    "no such op": (lambda c: c.all_reduce(numpy.ones(2), op="mean"),
                   "op: there is no reduction mean; the reductions are sum, "),
    "root": (lambda c: c.broadcast(numpy.ones(2), root=1), "root"),
    "peer": (lambda c: c.send(numpy.ones(2), 7), "peer"),
    "counts": (lambda c: c.all_gather_v(numpy.ones(2), counts=[1, 1]), "2 counts .* for 1 ranks"),
    "blocks": (lambda c: c.all_gather_v(numpy.ones(9), numpy.ones(8), counts=[9]),
               "recv: the block of rank 0 ends at element 0 . 9, but there are 8 elements"),
    "offsets": (lambda c: c.reduce_scatter_v(numpy.ones(9), numpy.ones(2), counts=[2],
                                             offsets=[2**64 - 1]), "send: the block of rank 0"),
    "overlap": (lambda c: c.all_reduce(MEMORY[:4], MEMORY[2:6]), "overlap"),
}
MEMORY = numpy.ones(8)


@pytest.mark.parametrize("case", REFUSALS)
def test_refuses(case: str) -> None:
    call, text = REFUSALS[case]

    def body(comm: tutti.Communicator) -> None:
        with pytest.raises(tutti.InvalidArgument, match=text) as raised:
            call(comm)
        assert raised.value.code == "invalid argument" and raised.value.rank == 0
        assert isinstance(raised.value, ValueError)
        assert comm.all_reduce(numpy.ones(2)).tolist() == [1.0, 1.0]  # it stays usable

    alone(body)


def test_refuses_unequal_parts() -> None:
    def body(comm: tutti.Communicator) -> None:
        with pytest.raises(ValueError, match="send: its first axis of 3 cannot be divided"):
            comm.reduce_scatter(numpy.ones(3))
        with pytest.raises(tutti.InvalidArgument, match="send: 3 elements are no equal blocks"):
            comm.all_to_all(numpy.ones(3))
        if comm.rank == 1:
            with pytest.raises(ValueError, match="recv is missing"):
                comm.scatter(None)

    on_threads(2, body)


def references(x: object) -> int:
    gc.collect()
    return sys.getrefcount(x)


def test_calls_let_go_of_their_buffers() -> None:
    def body(comm: tutti.Communicator) -> None:
        x = numpy.ones(4)
        before = references(x)
        comm.all_reduce(x, x)
        with pytest.raises(tutti.InvalidArgument):
            comm.all_reduce(x, numpy.ones(3))
        assert references(x) == before

    alone(body)


def test_streams_keep_their_buffers() -> None:
    def body(comm: tutti.Communicator) -> None:
        stream = tutti.Stream()
        if comm.rank == 0:
            x = numpy.ones(1000)
            alive = weakref.ref(x)
            result = comm.all_reduce(x, stream=stream)
            del x
            gc.collect()
            assert alive() is not None  # rank 1 has not called yet
            comm_ready.wait(30)
        else:
            comm_ready.set()
            result = comm.all_reduce(numpy.ones(1000), stream=stream)
        stream.synchronize()
        assert (result == 2).all()
        if comm.rank == 0:
            assert stream.query()
            gc.collect()
            assert alive() is None

    import threading
    comm_ready = threading.Event()
    delayed = threading.Event()

    def ordered(comm: tutti.Communicator) -> None:
        if comm.rank == 1:
            assert delayed.wait(30)
        else:
            delayed.set()
        body(comm)

    on_threads(2, ordered)


def test_prepared_calls_keep_their_buffers() -> None:
    def body(comm: tutti.Communicator) -> None:
        x = numpy.full(4, 1.0)
        alive = weakref.ref(x)
        call = comm.prepare("all_reduce", x, x)
        del x
        gc.collect()
        assert alive() is not None
        assert call.start().tolist() == [2.0] * 4
        assert call.start().tolist() == [4.0] * 4
        stream = tutti.Stream()
        call.start(stream=stream)
        result = call.result
        del call
        gc.collect()
        stream.synchronize()
        assert result.tolist() == [8.0] * 4
        del result
        stream.query()
        gc.collect()
        assert alive() is None

    on_threads(2, body)


def test_every_call_can_be_prepared() -> None:
    def body(comm: tutti.Communicator) -> None:
        x = numpy.ones(2)
        calls = [comm.prepare("all_reduce", x), comm.prepare("reduce", x, root=1),
                 comm.prepare("broadcast", x), comm.prepare("all_gather", x),
                 comm.prepare("reduce_scatter", x), comm.prepare("gather", x),
                 comm.prepare("scatter", x, numpy.empty(1)), comm.prepare("all_to_all", x),
                 comm.prepare("scan", x), comm.prepare("barrier"),
                 comm.prepare("all_gather_v", x, counts=[2, 2]),
                 comm.prepare("reduce_scatter_v", x, counts=[1, 1]),
                 comm.prepare("all_to_all_v", x, send_counts=[1, 1], recv_counts=[1, 1])]
        for call in calls + calls:
            call.start()
        assert calls[0].result.tolist() == [2.0, 2.0] and calls[2].result is x
        with pytest.raises(ValueError, match="no call split; the calls are all_reduce, "):
            comm.prepare("split", 0)

    on_threads(2, body)


def test_groups_keep_their_buffers_and_drop_calls() -> None:
    def body(comm: tutti.Communicator) -> None:
        with tutti.group():
            result = comm.all_reduce(numpy.ones(4))  # nobody but the group has the array sent
            gc.collect()
        assert result.tolist() == [2.0] * 4
        if comm.rank == 0:  # alone: it would not end if it were made
            with pytest.raises(KeyError), tutti.group():
                comm.all_reduce(numpy.ones(5))
                raise KeyError
        assert comm.all_reduce(numpy.ones(4)).tolist() == [2.0] * 4
        stream = tutti.Stream()
        with tutti.group():
            later = comm.all_reduce(numpy.ones(4), stream=stream)
        stream.synchronize()
        assert later.tolist() == [2.0] * 4
        with tutti.group(), pytest.raises(tutti.InvalidUsage, match="made in a group"):
            comm.split(0)

    on_threads(2, body)
