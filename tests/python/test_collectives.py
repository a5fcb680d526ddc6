"""Results of every collective, by ranks and types."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest
import tutti

from ranks import on_threads

RANKS = (1, 2, 3, 4)
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
         "float32", "float64", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
COUNT = 12  # of one rank: each of up to 4 parts has the same size


def values(rank: int, dtype: object, count: int = COUNT) -> numpy.ndarray:
    """Small whole numbers, whose sums over four ranks every type holds exactly."""
    return ((numpy.arange(count) + rank) % 3).astype(dtype)


def total(size: int, dtype: object, count: int = COUNT) -> numpy.ndarray:
    return sum(values(r, "int64", count) for r in range(size)).astype(dtype)


def equal(got: numpy.ndarray, expected: numpy.ndarray) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    numpy.testing.assert_array_equal(got.astype("float64"), expected.astype("float64"))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: numpy.dtype(t).name)
@pytest.mark.parametrize("size", RANKS)
def test_every_collective(size: int, dtype: object) -> None:
    everything = numpy.concatenate([values(r, dtype) for r in range(size)])

    def body(comm: tutti.Communicator) -> None:
        rank, mine = comm.rank, values(comm.rank, dtype)
        part = slice(rank * COUNT // size, (rank + 1) * COUNT // size)
        equal(comm.all_reduce(mine), total(size, dtype))
        reduced = comm.reduce(mine, root=size - 1)
        if rank == size - 1:
            equal(reduced, total(size, dtype))
        else:
            assert reduced is None
        equal(comm.broadcast(values(rank, dtype), root=size - 1), values(size - 1, dtype))
        equal(comm.all_gather(mine), everything)
        equal(comm.reduce_scatter(mine), total(size, dtype)[part])
        gathered = comm.gather(mine, root=0)
        if rank == 0:
            equal(gathered, everything)
        else:
            assert gathered is None
        to = None if rank == 0 else numpy.empty(COUNT // size, dtype)
        equal(comm.scatter(mine if rank == 0 else None, to, root=0), values(0, dtype)[part])
        exchanged = [values(r, dtype)[part] for r in range(size)]
        equal(comm.all_to_all(mine), numpy.concatenate(exchanged))
        equal(comm.scan(mine), sum(values(r, "int64") for r in range(rank + 1)).astype(dtype))
        comm.barrier()

    on_threads(size, body)


@pytest.mark.parametrize("size", RANKS)
def test_uneven_blocks(size: int) -> None:
    counts = [r + 1 for r in range(size)]
    offsets = numpy.cumsum([0, *counts[:-1]]) + numpy.arange(size)  # a gap behind each block

    def body(comm: tutti.Communicator) -> None:
        rank = comm.rank
        mine = numpy.full(rank + 1, rank, "float32")
        everything = numpy.repeat(numpy.arange(size), counts).astype("float32")
        equal(comm.all_gather_v(mine, counts=counts), everything)
        recv = numpy.full(offsets[-1] + size, -1, "float32")
        comm.all_gather_v(mine, recv, counts=counts, offsets=offsets)
        for r in range(size):
            assert (recv[offsets[r]:offsets[r] + r + 1] == r).all()
        assert (recv == -1).sum() == size - 1
        part = everything[sum(counts[:rank]):sum(counts[:rank + 1])] * size
        equal(comm.reduce_scatter_v(everything, counts=counts), part)
        send = numpy.repeat(numpy.arange(size), rank + 1).astype("int32") + 10 * rank
        got = comm.all_to_all_v(send, send_counts=[rank + 1] * size, recv_counts=counts)
        equal(got, numpy.repeat(10 * numpy.arange(size) + rank, counts).astype("int32"))

    on_threads(size, body)


REDUCTIONS = {"sum": numpy.add, "prod": numpy.multiply, "min": numpy.minimum,
              "max": numpy.maximum, "bit_and": numpy.bitwise_and, "bit_or": numpy.bitwise_or,
              "bit_xor": numpy.bitwise_xor, "logical_and": numpy.logical_and,
              "logical_or": numpy.logical_or, "logical_xor": numpy.logical_xor}


@pytest.mark.parametrize("op", REDUCTIONS)
def test_every_reduction(op: str) -> None:
    def body(comm: tutti.Communicator) -> None:
        inputs = [values(r, "int32") for r in range(3)]
        expected = REDUCTIONS[op](REDUCTIONS[op](inputs[0], inputs[1]), inputs[2])
        equal(comm.all_reduce(inputs[comm.rank], op=op), expected.astype("int32"))

    on_threads(3, body)


def test_average_and_scalars() -> None:
    def body(comm: tutti.Communicator) -> None:
        x = numpy.full(5, 2.0 * comm.rank)
        equal(comm.all_reduce(x, op="avg"), numpy.full(5, 1.0))
        scaled = comm.all_reduce(numpy.ones(5), op="premulsum", scalar=comm.rank + 1.0)
        equal(scaled, numpy.full(5, 3.0))

    on_threads(2, body)


def test_bool_moves_and_reduces_logically() -> None:
    def body(comm: tutti.Communicator) -> None:
        mine = numpy.array([comm.rank == 0, True, False])
        equal(comm.all_reduce(mine, op="logical_and"), numpy.array([False, True, False]))
        equal(comm.all_reduce(mine, op="max"), numpy.array([True, True, False]))
        equal(comm.all_gather(mine[:1]), numpy.array([True, False]))
        with pytest.raises(tutti.InvalidArgument, match="op: sum is not defined for bool"):
            comm.all_reduce(mine)

    on_threads(2, body)


@pytest.mark.parametrize("count", (0, 1, 1023, 300_001))
def test_sizes(count: int) -> None:
    def body(comm: tutti.Communicator) -> None:
        equal(comm.all_reduce(values(comm.rank, "float32", count)), total(3, "float32", count))

    on_threads(3, body)


def test_shapes_follow_the_first_axis() -> None:
    def body(comm: tutti.Communicator) -> None:
        assert comm.all_reduce(numpy.ones((2, 3))).shape == (2, 3)
        assert comm.all_gather(numpy.ones((2, 3))).shape == (4, 3)
        assert comm.reduce_scatter(numpy.ones((2, 3))).shape == (1, 3)
        assert comm.all_to_all(numpy.ones((2, 3))).shape == (2, 3)
        assert comm.all_gather(numpy.float32(comm.rank)).tolist() == [0.0, 1.0]

    on_threads(2, body)


def test_in_place() -> None:
    def body(comm: tutti.Communicator) -> None:
        x = values(comm.rank, "float64")
        assert comm.all_reduce(x, recv=x) is x
        equal(x, total(2, "float64"))
        everything = numpy.zeros(8)
        part = everything[comm.rank * 4:comm.rank * 4 + 4]
        part[:] = comm.rank + 1
        comm.all_gather(part, everything)
        equal(everything, numpy.repeat([1.0, 2.0], 4))
        comm.reduce_scatter(everything, part)
        equal(part, numpy.full(4, 2.0 * (comm.rank + 1)))
        y = numpy.arange(4) + 10 * comm.rank
        assert comm.all_to_all(y, y) is y
        equal(y, numpy.array([2 * comm.rank, 2 * comm.rank + 1, 10 + 2 * comm.rank,
                              11 + 2 * comm.rank]))

    on_threads(2, body)


def test_sends_and_receives() -> None:
    def body(comm: tutti.Communicator) -> None:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        got = numpy.empty(3)
        with tutti.group():
            comm.send(numpy.full(3, float(comm.rank)), right)
            comm.receive(got, left)
        equal(got, numpy.full(3, float(left)))
        if comm.rank == 0:
            comm.send(b"hello", 1)
        if comm.rank == 1:
            assert bytes(comm.receive(bytearray(5), 0)) == b"hello"

    on_threads(3, body)


def test_one_sided() -> None:
    def body(comm: tutti.Communicator) -> None:
        buffer = comm.allocate((comm.size, 2), "int64")
        assert not buffer.any()
        with comm.window(buffer) as window:
            for peer in range(comm.size):
                comm.put(numpy.array([comm.rank, peer]), peer, window, offset=16 * comm.rank)
            comm.wait_signals([(peer, 0, 1) for peer in range(comm.size)])
            assert buffer.tolist() == [[peer, comm.rank] for peer in range(comm.size)]
            assert window.nbytes(comm.size - 1) == 16 * comm.size
            comm.signal((comm.rank + 1) % comm.size, 1)
            comm.wait_signals([((comm.rank - 1) % comm.size, 1, 1)])
            comm.barrier()
        with pytest.raises(tutti.InvalidUsage, match="window is closed"):
            comm.put(numpy.ones(1), 0, window)

    on_threads(3, body, signals=2)


def test_objects() -> None:
    def body(comm: tutti.Communicator) -> None:
        mine = {"rank": comm.rank, "list": list(range(comm.rank * 100))}
        assert comm.broadcast_object(mine, root=1)["rank"] == 1
        assert [each["rank"] for each in comm.all_gather_object(mine)] == [0, 1, 2]

    on_threads(3, body)


def test_memory_of_the_library_in_collectives() -> None:
    def body(comm: tutti.Communicator) -> None:
        x = comm.allocate(1000, ml_dtypes.bfloat16)
        x[:] = comm.rank + 1
        comm.all_reduce(x, x)
        assert (x.astype("float32") == 3).all()

    on_threads(2, body)


def test_forced_algorithms_and_deterministic_mode() -> None:
    def body(comm: tutti.Communicator) -> None:
        assert comm.deterministic
        for algorithm in ("ring", "one_shot"):
            equal(comm.all_reduce(values(comm.rank, "float32"), algorithm=algorithm),
                  total(2, "float32"))
        with pytest.raises(tutti.InvalidArgument, match="spiral"):
            comm.all_reduce(values(comm.rank, "float32"), algorithm="spiral")

    on_threads(2, body, deterministic=True)


def test_a_plan_of_a_file_is_read() -> None:
    with pytest.raises(tutti.InvalidArgument, match="/none/plan.json is not there"):
        tutti.Communicator.local(2, algorithm_file="/none/plan.json")
