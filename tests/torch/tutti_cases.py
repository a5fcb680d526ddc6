"""What the backend `tutti` does besides: tags, any source, views, futures, sparse tensors, mixed groups."""

import datetime
import os

import torch
import torch.distributed as dist

import rendezvous
from cases import Cases, check_equal, synchronize
from collectives_cases import COUNT, INTEGERS, numbers, of_all
from groups_cases import open_world

CASES = Cases()
ONLY = ("tutti",)


@CASES.checked(backends=ONLY)
def name():
    assert dist.get_backend() == "tutti"
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "tutti"


@CASES.checked([dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR], backends=ONLY)
def all_reduce_bits(op):
    plain = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}[str(op).rpartition(".")[2]]
    for dtype in [*INTEGERS, torch.int16, torch.bool]:
        values = [of.bool() if dtype == torch.bool else of for of in of_all(dtype)]
        tensor = values[dist.get_rank()].clone()
        expected = values[0]
        for other in values[1:]:
            expected = plain(expected, other)
        dist.all_reduce(tensor, op)
        check_equal(tensor, expected)


@CASES.checked(backends=ONLY)
def views():
    """What is not in one piece, in each direction; the elements between stay as they are."""
    size, rank = dist.get_world_size(), dist.get_rank()
    wide = torch.zeros(6, 8)
    wide[:, ::2] = rank + 1
    dist.all_reduce(wide[:, ::2])
    check_equal(wide[:, ::2], torch.full((6, 4), size * (size + 1) / 2))
    check_equal(wide[:, 1::2], torch.zeros(6, 4))
    tensor = numbers(torch.float32, 12).view(3, 4).t()
    outputs = [torch.zeros(3, 4).t() for _ in range(size)]
    dist.all_gather(outputs, tensor)
    check_equal(outputs, [of.view(3, 4).t() for of in of_all(torch.float32, 12)])
    whole = torch.zeros(size, COUNT)
    dist.all_gather(list(whole.unbind()), numbers(torch.float32))  # one behind the other: no copy
    check_equal(whole, torch.stack(of_all(torch.float32)))
    dist.broadcast(wide.t(), 0)
    if rank == 0:
        dist.send(wide.t(), 1)
    elif rank == 1:
        taken = torch.zeros(6, 8).t()
        dist.recv(taken, 0)
        check_equal(taken, wide.t())


@CASES.checked(backends=ONLY)
def inference_mode():
    """What is copied back on another thread, while other calls are queued; outside the mode, too."""
    size, rank = dist.get_world_size(), dist.get_rank()
    with torch.inference_mode():
        inside = [torch.zeros(COUNT) for _ in range(size)]
        turned, taken = torch.full((4, 5), rank + 1.0), torch.zeros(4, 5)
        sparse = torch.sparse_coo_tensor([[rank]], [1.0], (size,))
        late = [torch.zeros(COUNT) for _ in range(size)]
        works = [dist.all_reduce(torch.ones(1 << 16), async_op=True) for _ in range(5)]
        works.append(dist.all_gather(inside, numbers(torch.float32), async_op=True))
        works.append(dist.all_reduce(turned.t(), async_op=True))
        works.append(dist.all_reduce(sparse, async_op=True))
        if rank == 0:
            works.append(dist.isend(torch.ones(20), 1))
        elif rank == 1:
            works.append(dist.irecv(taken.t(), 0))
        for work in works:
            work.wait()
    dist.all_gather(late, numbers(torch.float32), async_op=True).wait()
    check_equal(inside, of_all(torch.float32))
    check_equal(late, of_all(torch.float32))
    check_equal(turned, torch.full((4, 5), size * (size + 1) / 2))
    check_equal(sparse.to_dense(), torch.ones(size))
    check_equal(taken, torch.full((4, 5), float(rank == 1)))


def pieces(tensor):
    return list(tensor.split(4))


# What is written into `out` from `given`: in place on one rank at most.
OVERLAPS = {
    "all_gather": lambda out, given: dist.all_gather(pieces(out), given[:4]),
    "all_gather_between": lambda out, given: dist.all_gather(pieces(out), given[1:5]),
    "all_gather_into_tensor": lambda out, given: dist.all_gather_into_tensor(out, given[:4]),
    "reduce_scatter": lambda out, given: dist.reduce_scatter(out[:4], pieces(given)),
    "reduce_scatter_tensor": lambda out, given: dist.reduce_scatter_tensor(out[:4], given),
    "gather": lambda out, given: dist.gather(given[:4], pieces(out) if dist.get_rank() == 1 else None, dst=1),
    "scatter": lambda out, given: dist.scatter(out[:4], pieces(given) if dist.get_rank() == 1 else None, src=1),
    "all_to_all": lambda out, given: dist.all_to_all(pieces(out), pieces(given)),
    "all_to_all_turned": lambda out, given: dist.all_to_all(pieces(out), pieces(given)[::-1]),
    "all_to_all_single": lambda out, given: dist.all_to_all_single(out, given),
    "all_to_all_splits": lambda out, given: dist.all_to_all_single(out, given, *[[4] * dist.get_world_size()] * 2),
}


@CASES.checked(list(OVERLAPS), backends=ONLY)
def overlapping_tensors(call):
    """As if the input were a copy of that memory."""
    expected = numbers(torch.float32, 4 * dist.get_world_size())
    actual = expected.clone()
    OVERLAPS[call](expected, expected.clone())
    OVERLAPS[call](actual, actual)
    check_equal(actual, expected)


@CASES.checked(backends=ONLY)
def elements_in_one_place():
    """They cannot be written: such an output is refused before the call. They can be read."""
    size, rank = dist.get_world_size(), dist.get_rank()
    shared, plain = torch.full((1,), rank + 1.0).expand(4), torch.zeros(4)
    wrong = {
        "all_reduce": lambda: dist.all_reduce(shared),
        "broadcast": lambda: dist.broadcast(shared, (rank + 1) % size),
        "reduce": lambda: dist.reduce(shared, rank),
        "all_gather": lambda: dist.all_gather([shared] * size, plain),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(shared, torch.zeros(4 // size)),
        "reduce_scatter": lambda: dist.reduce_scatter(shared, [plain] * size),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(shared, torch.zeros(4 * size)),
        "gather": lambda: dist.gather(plain, [shared] * size, dst=rank),
        "scatter": lambda: dist.scatter(shared, [plain] * size, src=rank),
        "all_to_all": lambda: dist.all_to_all([shared] * size, [plain] * size),
        "all_to_all_single": lambda: dist.all_to_all_single(shared, plain),
        "recv": lambda: dist.recv(shared, (rank + 1) % size),
    }
    for name, call in wrong.items():
        try:
            call()
        except ValueError as error:
            assert f"tutti {name}: elements of an output tensor share memory" in str(error), error
        else:
            raise AssertionError(f"no error of {name}")
    gathered = torch.zeros(size, 4)
    dist.all_gather_into_tensor(gathered, shared)
    check_equal(gathered, torch.arange(1.0, size + 1).unsqueeze(1).expand(size, 4))


@CASES.checked(backends=ONLY)
def bits_of_views():
    """Views whose values in memory have another sign. PyTorch resolves those of most calls before."""
    size, rank = dist.get_world_size(), dist.get_rank()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    memory = torch.full((2,), -1.0 - rank)
    backend.allreduce([torch._neg_view(memory)], dist.AllreduceOptions()).wait()
    check_equal(memory, torch.full((2,), -size * (size + 1) / 2))
    outputs = list(torch.zeros(size, 2).unbind())
    dist.all_gather([torch._neg_view(of) for of in outputs], torch.full((2,), rank + 1.0))
    check_equal(outputs, [torch.full((2,), -1.0 - of) for of in range(size)])
    pairs = torch.full((2,), complex(1, rank))
    backend.allreduce([pairs.conj()], dist.AllreduceOptions()).wait()
    check_equal(pairs, torch.full((2,), complex(size, size * (size - 1) / 2)))


@CASES.checked(backends=ONLY)
def tags_in_any_order():
    """Short and long messages, received in another order than they are sent."""
    counts = [3, 1 << 18, 50, 1 << 16]
    if dist.get_rank() == 0:
        works = [dist.isend(numbers(torch.float32, count), 1, tag=tag) for tag, count in enumerate(counts)]
        for work in works:
            work.wait()
    elif dist.get_rank() == 1:
        taken = [torch.zeros(count) for count in counts]
        for tag in (3, 1, 0, 2):
            assert dist.recv(taken[tag], 0, tag=tag) == 0
        check_equal(taken, [numbers(torch.float32, count, 0) for count in counts])


@CASES.checked(backends=ONLY)
def from_any_rank():
    size, rank = dist.get_world_size(), dist.get_rank()
    for root in range(size):
        if rank != root:
            dist.send(torch.full((100,), float(rank)), root, tag=root)
            continue
        sources = set()
        for _ in range(size - 1):
            taken = torch.zeros(100)
            source = dist.recv(taken, tag=root)
            check_equal(taken, torch.full((100,), float(source)))
            sources.add(source)
        assert sources == set(range(size)) - {root}, sources


@CASES.checked(backends=ONLY)
def messages_beside_collectives():
    """Messages have an order of their own: collectives between them do not hold them back."""
    rank = dist.get_rank()
    tensor, total = numbers(torch.float32), torch.ones(1 << 16)
    if rank == 1:
        taken = torch.zeros(COUNT)
        receiving = dist.irecv(taken, 0)
        dist.all_reduce(total)
        receiving.wait()
        check_equal(taken, numbers(torch.float32, rank=0))
    else:
        reducing = dist.all_reduce(total, async_op=True)
        if rank == 0:
            dist.send(tensor, 1)
        reducing.wait()
    check_equal(total, torch.full((1 << 16,), float(dist.get_world_size())))


@CASES.checked(backends=ONLY)
def message_of_another_size():
    if dist.get_rank() == 0:
        dist.send(torch.zeros(5), 1)
        dist.send(torch.ones(1000), 1)
        dist.send(torch.ones(7), 1)
    elif dist.get_rank() == 1:
        for count in (4, 999):
            try:
                dist.recv(torch.zeros(count), 0)
            except RuntimeError as error:
                assert f"{4 * count} bytes" in str(error) and "rank 0 sent" in str(error), error
            else:
                raise AssertionError("no error")
        taken = torch.zeros(7)
        dist.recv(taken, 0)
        check_equal(taken, torch.ones(7))


@CASES.checked(backends=ONLY)
def futures():
    size = dist.get_world_size()
    tensor = numbers(torch.float32)
    work = dist.all_reduce(tensor, async_op=True)
    # What follows may issue and await calls of the same group.
    def follow(done):
        again = done.value()[0].clone()
        dist.all_reduce(again)
        return again

    again = work.get_future().then(follow).wait()
    assert work.is_completed() and work.is_success()
    check_equal([work.result()[0], again], [sum(of_all(torch.float32)), sum(of_all(torch.float32)) * size])


@CASES.checked(backends=ONLY)
def many_at_once():
    """Of some the work is waited for, of the others it is dropped."""
    tensors = [torch.full((1 + 997 * index,), float(index)) for index in range(40)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    del works[::2]
    for work in reversed(works):
        work.wait()
    dist.barrier()
    size = dist.get_world_size()
    check_equal(tensors, [torch.full((1 + 997 * index,), float(index * size)) for index in range(40)])


@CASES.compared(backends=ONLY)
def sparse_all_reduce(device):
    indices = torch.tensor([[dist.get_rank(), 5], [1, 2]])
    tensor = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0]), (8, 4))
    dist.all_reduce(tensor)
    return tensor.to_dense()


@CASES.checked(backends=ONLY)
def wrong_arguments():
    tensor = torch.zeros(4)
    pieces = [torch.zeros(4)] * (dist.get_world_size() + 1)
    wrong = {
        "invalid root rank": lambda: dist.group.WORLD.broadcast(tensor, 99).wait(),
        "the output list must be": lambda: dist.all_gather(pieces, tensor),
        "must have": lambda: dist.all_gather_into_tensor(torch.zeros(3), tensor),
    }
    for text, call in wrong.items():
        try:
            call()
        except (ValueError, RuntimeError) as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no error that says: {text}")
    dist.all_reduce(tensor)  # none of these was made


@CASES.checked(backends=ONLY)
def monitored_barrier():
    for _ in range(3):
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=20), wait_all_ranks=True)


@CASES.checked(alone=True, backends=ONLY)
def beside_another_backend():
    """cpu:tutti with a device of another backend, of which this machine has none: the group is made all the same."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = rendezvous.store(os.environ["CASE_FOLDER"], rank, size)
    dist.init_process_group("cpu:tutti,cuda:gloo", store=store, rank=rank, world_size=size)
    tensor = numbers(torch.float32)
    dist.all_reduce(tensor)
    check_equal(tensor, sum(of_all(torch.float32)))
    assert dist.group.WORLD._get_backend(torch.device("cuda")).name() == "gloo"
    dist.destroy_process_group()


@CASES.checked(alone=True, backends=ONLY)
def subgroup_messages():
    """Ranks of messages are those of the group."""
    open_world()
    size, rank = dist.get_world_size(), dist.get_rank()
    ranks = list(reversed(range(size)))
    group = dist.new_group(ranks, use_local_synchronization=False)
    if rank == size - 1:
        dist.send(torch.arange(4.0), 0, group=group)
    elif rank == 0:
        taken = torch.zeros(4)
        dist.recv(taken, size - 1, group=group)
        check_equal(taken, torch.arange(4.0))
    synchronize()
    dist.barrier()
    dist.destroy_process_group()
