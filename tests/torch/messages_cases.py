"""Messages between two ranks, coalesced calls, functional collectives, streams and graphs."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from cases import OVER_NCCL, Cases, check_equal, here, synchronize
from collectives_cases import COUNT, numbers, of_all

CASES = Cases()


def neighbours():
    rank, size = dist.get_rank(), dist.get_world_size()
    return (rank - 1) % size, (rank + 1) % size


@CASES.compared([torch.uint8, torch.int64, torch.float16, torch.float32, torch.bool, torch.complex64])
def send_and_receive(device, dtype):
    before, after = neighbours()
    tensor, taken = (numbers(torch.int32) % 2).to(dtype).to(device), torch.zeros(COUNT, dtype=dtype, device=device)
    if dist.get_rank() % 2 == 0:
        dist.send(tensor, after)
        dist.recv(taken, before)
    else:
        dist.recv(taken, before)
        dist.send(tensor, after)
    return taken


@CASES.checked()
def send_float8():
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        if dist.get_rank() == 0:
            dist.send(numbers(torch.float32).to(dtype).to(here()), 1)
        elif dist.get_rank() == 1:
            taken = torch.zeros(COUNT, dtype=dtype, device=here())
            dist.recv(taken, 0)
            check_equal(taken.float(), numbers(torch.float32, rank=0))


@CASES.compared()
def several_messages_in_order(device):
    taken = [torch.zeros(COUNT, device=device) for _ in range(6)]
    if dist.get_rank() == 0:
        works = [dist.isend((numbers(torch.float32) + index).to(device), 1) for index in range(6)]
    elif dist.get_rank() == 1:
        works = [dist.irecv(tensor, 0) for tensor in taken]
    else:
        works = []
    for work in works:
        work.wait()
    return taken


@CASES.compared([1, 5])
def ring_in_a_batch(device, count):
    before, after = neighbours()
    given = [(numbers(torch.float32) + index).to(device) for index in range(count)]
    taken = [torch.zeros(COUNT, device=device) for _ in range(count)]
    operations = [dist.P2POp(dist.isend, tensor, after, tag=index) for index, tensor in enumerate(given)]
    operations += [dist.P2POp(dist.irecv, tensor, before, tag=index) for index, tensor in enumerate(taken)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return taken


@CASES.checked()
def batch_with_oneself():
    taken = torch.zeros(COUNT, device=here())
    operations = [
        dist.P2POp(dist.isend, numbers(torch.float32).to(here()), dist.get_rank()),
        dist.P2POp(dist.irecv, taken, dist.get_rank()),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    check_equal(taken, numbers(torch.float32))


@CASES.checked()
def batch_of_a_mesh():
    """Each rank with each other, of sizes that differ by pair."""
    rank, size = dist.get_rank(), dist.get_world_size()
    others = [of for of in range(size) if of != rank]
    taken = {of: torch.zeros(1 + 3 * of + rank, device=here()) for of in others}
    operations = []
    for of in others:
        given = numbers(torch.float32, 1 + 3 * rank + of, 10 * rank + of).to(here())
        operations += [dist.P2POp(dist.isend, given, of), dist.P2POp(dist.irecv, taken[of], of)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for of in others:
        check_equal(taken[of], numbers(torch.float32, 1 + 3 * of + rank, 10 * of + rank))


@CASES.checked()
def objects_by_messages():
    if dist.get_rank() == 0:
        dist.send_object_list([{"a": 1}, "b"], 1, device=here())
    elif dist.get_rank() == 1:
        told = [None, None]
        dist.recv_object_list(told, 0, device=here())
        assert told == [{"a": 1}, "b"], told


@CASES.checked([False, True])
def coalescing_manager(asynchronous):
    tensors = [numbers(torch.float32, 10 + index).to(here()) for index in range(4)]
    with dist._coalescing_manager(device=here(), async_ops=asynchronous) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    if asynchronous:
        manager.wait()
    check_equal(tensors, [sum(of_all(torch.float32, 10 + index)) for index in range(4)])


@CASES.checked()
def coalescing_manager_gathers_and_scatters():
    size = dist.get_world_size()
    inputs = [numbers(torch.float32, 6 + index).to(here()) for index in range(3)]
    outputs = [torch.zeros((6 + index) * size, device=here()) for index in range(3)]
    with dist._coalescing_manager(device=here()):
        for output, tensor in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, tensor)
    check_equal(outputs, [torch.cat(of_all(torch.float32, 6 + index)) for index in range(3)])
    shares = [torch.zeros(6 + index, device=here()) for index in range(3)]
    with dist._coalescing_manager(device=here(), async_ops=True) as manager:
        for share, output in zip(shares, outputs):
            dist.reduce_scatter_tensor(share, output)
    manager.wait()
    check_equal(shares, [numbers(torch.float32, 6 + index) * size for index in range(3)])


@CASES.checked(backends=("nccl-legacy",))
def group_start_and_end():
    """Several kinds of calls as one group of NCCL's."""
    group = dist.group.WORLD._get_backend(here())
    tensor, root = numbers(torch.float32).to(here()), numbers(torch.float32).to(here())
    group._group_start()
    dist.all_reduce(tensor)
    dist.broadcast(root, 0)
    group._group_end()
    check_equal([tensor, root], [sum(of_all(torch.float32)), numbers(torch.float32, rank=0)])


@CASES.checked()
def functional_collectives():
    size, rank, group = dist.get_world_size(), dist.get_rank(), dist.group.WORLD
    tensor = numbers(torch.float32, 4 * size).to(here())
    every = of_all(torch.float32, 4 * size)
    share = slice(4 * rank, 4 * rank + 4)
    check_equal(functional.all_reduce(tensor, "sum", group), sum(every))
    check_equal(functional.all_reduce(tensor * 4, "avg", group), sum(every) * 4 / size)
    check_equal(functional.all_gather_tensor(tensor, 0, group), torch.cat(every))
    check_equal(functional.reduce_scatter_tensor(tensor, "sum", 0, group), sum(every)[share])
    check_equal(functional.broadcast(tensor, 1, group), every[1])
    check_equal(functional.all_to_all_single(tensor, None, None, group), torch.cat([of[share] for of in every]))
    check_equal(functional.all_reduce_coalesced([tensor, tensor * 2], "sum", group), [sum(every), sum(every) * 2])
    check_equal(functional.all_gather_into_tensor_coalesced([tensor, tensor], group), [torch.cat(every)] * 2)
    check_equal(
        functional.reduce_scatter_tensor_coalesced([tensor, tensor * 2], "sum", [0, 0], group),
        [sum(every)[share], sum(every)[share] * 2],
    )


@CASES.checked()
def functional_gradients():
    size, group = dist.get_world_size(), dist.group.WORLD
    tensor = numbers(torch.float32, 4 * size).to(here()).requires_grad_()
    functional.all_gather_tensor_autograd(tensor, 0, group).sum().backward()
    check_equal(tensor.grad, torch.full((4 * size,), float(size)))


@CASES.checked(backends=OVER_NCCL)
def on_streams():
    """Collectives on streams of one's own, ordered by events alone."""
    side = torch.cuda.Stream()
    tensor = numbers(torch.float32, 1 << 16).to(here())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        dist.all_reduce(tensor)
        done = side.record_event()
    torch.cuda.current_stream().wait_event(done)
    check_equal(tensor, sum(of_all(torch.float32, 1 << 16)))


@CASES.checked()
def work_says_when_it_is_done():
    tensor = numbers(torch.float32).to(here())
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    synchronize()
    assert work.is_completed()
    future = dist.all_reduce(tensor, async_op=True).get_future()
    twice = future.then(lambda done: done.value()[0] * 2).wait()
    check_equal(twice, sum(of_all(torch.float32)) * 2 * dist.get_world_size())


@CASES.checked(backends=OVER_NCCL)
def captured_in_a_graph():
    """Replayed with new values in the same memory."""
    tensor, result = torch.zeros(COUNT, device=here()), torch.zeros(COUNT, device=here())
    dist.all_reduce(tensor)  # the communicator is made before
    synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result.copy_(tensor)
        dist.all_reduce(result)
    for factor in (1, 2, 3):
        tensor.copy_(numbers(torch.float32) * factor)
        graph.replay()
        check_equal(result, sum(of_all(torch.float32)) * factor)
    synchronize()
    graph.reset()
