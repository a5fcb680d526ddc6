"""Every collective, of each type, compared with Gloo's or with plain arithmetic."""

import torch
import torch.distributed as dist

from cases import OVER_NCCL, Cases, check_equal, here, over_tutti

CASES = Cases()

INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OPERATIONS = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
COUNT = 37


def numbers(dtype, count=COUNT, rank=None):
    """Of a rank small whole numbers, so that sums and products of four ranks are exact in each type."""
    generator = torch.Generator().manual_seed(dist.get_rank() if rank is None else rank)
    return torch.randint(1, 4, (count,), generator=generator).to(dtype)


def of_all(dtype, count=COUNT):
    return [numbers(dtype, count, rank) for rank in range(dist.get_world_size())]


@CASES.compared([(dtype, op) for dtype in INTEGERS + FLOATS for op in OPERATIONS])
def all_reduce(device, value):
    dtype, op = value
    tensor = numbers(dtype).to(device)
    dist.all_reduce(tensor, op)
    return tensor


def fractions(dtype=torch.float32, count=1 << 12, rank=None):
    generator = torch.Generator().manual_seed(100 + (dist.get_rank() if rank is None else rank))
    return torch.rand(count, generator=generator, dtype=torch.float64).to(dtype)


def rounding(dtype):
    """Four numbers below 1 are added in another order: three roundings of sums below 4, each of half a unit there."""
    return 3 * 4 * torch.finfo(dtype).eps / 2


@CASES.compared(FLOATS, tolerance=rounding)
def all_reduce_of_fractions(device, dtype):
    tensor = fractions(dtype).to(device)
    dist.all_reduce(tensor)
    return tensor


@CASES.checked(FLOATS)
def all_reduce_average(dtype):
    tensor = (numbers(dtype) * 4).to(here())
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    check_equal(tensor, sum(of_all(dtype)) * 4 / dist.get_world_size())


@CASES.checked([torch.float16, torch.bfloat16, torch.float32, torch.float64])
def all_reduce_scaled(dtype):
    tensor = numbers(dtype).to(here())
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    check_equal(tensor, sum(of_all(dtype)) * 0.5)


@CASES.checked()
def all_reduce_scaled_by_tensor():
    tensor = numbers(torch.float32).to(here())
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(torch.full((1,), 0.25, device=here())))
    check_equal(tensor, sum(of_all(torch.float32)) * 0.25)


@CASES.checked(OPERATIONS)
def all_reduce_bool(op):
    """SUM and MAX are `or`, PRODUCT and MIN are `and`."""
    values = [of % 2 == 0 for of in of_all(torch.int32)]
    tensor = values[dist.get_rank()].to(here())
    dist.all_reduce(tensor, op)
    either = op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX)
    check_equal(tensor, torch.stack(values).any(0) if either else torch.stack(values).all(0))


@CASES.compared([torch.complex64, torch.complex128])
def all_reduce_complex(device, dtype):
    tensor = torch.complex(numbers(torch.float32), numbers(torch.float32, rank=9)).to(dtype).to(device)
    dist.all_reduce(tensor)
    return tensor


@CASES.checked(FLOAT8)
def all_reduce_float8(dtype):
    # Sums of up to 8 are exact with the two bits of float8_e5m2.
    ones_and_twos = [of % 2 + 1 for of in of_all(torch.float32)]
    tensor = ones_and_twos[dist.get_rank()].to(dtype).to(here())
    dist.all_reduce(tensor)
    check_equal(tensor.float(), sum(ones_and_twos))


@CASES.checked(backends=OVER_NCCL)
def all_reduce_refuses_bits():
    tensor = numbers(torch.int32).to(here())
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        try:
            dist.all_reduce(tensor, op)
        except ValueError as error:
            assert "Cannot use" in str(error), error
        else:
            raise AssertionError(f"{op} is not refused")


@CASES.compared()
def all_reduce_async(device):
    tensors = [numbers(torch.float32, 100 + index).to(device) for index in range(5)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    return tensors


@CASES.compared([0, 1, 3, 1 << 20])
def all_reduce_of_size(device, count):
    tensor = numbers(torch.float32, count).to(device)
    dist.all_reduce(tensor)
    return tensor, count


@CASES.compared()
def all_reduce_coalesced(device):
    tensors = [numbers(torch.float32, count).to(device) for count in (1, 17, 1000)]
    dist.all_reduce_coalesced(tensors)
    return tensors


@CASES.compared(INTEGERS + FLOATS + [torch.bool, torch.complex64])
def broadcast(device, dtype):
    tensors = []
    for root in range(dist.get_world_size()):
        tensor = (numbers(torch.int32) % 2).to(dtype).to(device)
        dist.broadcast(tensor, root)
        tensors.append(tensor)
    return tensors


@CASES.checked(FLOAT8)
def broadcast_float8(dtype):
    tensor = numbers(torch.float32).to(dtype).to(here())
    dist.broadcast(tensor, 1)
    check_equal(tensor.float(), numbers(torch.float32, rank=1))


@CASES.compared([(dtype, op) for dtype in (torch.int64, torch.float16, torch.float32) for op in OPERATIONS])
def reduce(device, value):
    dtype, op = value
    root = dist.get_world_size() - 1
    tensor = numbers(dtype).to(device)
    dist.reduce(tensor, root, op)
    # Of the others the contents are unspecified.
    return tensor if dist.get_rank() == root else "nothing"


@CASES.checked()
def reduce_average():
    tensor = (numbers(torch.float32) * 4).to(here())
    dist.reduce(tensor, 0, dist.ReduceOp.AVG)
    if dist.get_rank() == 0:
        check_equal(tensor, sum(of_all(torch.float32)) * 4 / dist.get_world_size())


@CASES.compared(INTEGERS + FLOATS + [torch.bool, torch.complex64])
def all_gather(device, dtype):
    tensor = (numbers(torch.int32) % 2).to(dtype).to(device)
    outputs = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(outputs, tensor)
    return outputs


@CASES.checked(FLOAT8)
def all_gather_float8(dtype):
    tensor = numbers(torch.float32).to(dtype).to(here())
    output = torch.empty(COUNT * dist.get_world_size(), dtype=dtype, device=here())
    dist.all_gather_into_tensor(output, tensor)
    check_equal(output.float(), torch.cat(of_all(torch.float32)))


@CASES.checked()
def all_gather_uneven():
    tensor = numbers(torch.float32, 5 + dist.get_rank()).to(here())
    outputs = [torch.zeros(5 + rank, device=here()) for rank in range(dist.get_world_size())]
    dist.all_gather(outputs, tensor)
    check_equal(outputs, [numbers(torch.float32, 5 + rank, rank) for rank in range(dist.get_world_size())])


@CASES.compared(FLOATS)
def all_gather_into_tensor(device, dtype):
    tensor = numbers(dtype).to(device)
    output = torch.zeros(COUNT * dist.get_world_size(), dtype=dtype, device=device)
    dist.all_gather_into_tensor(output, tensor)
    return output


@CASES.compared()
def all_gather_in_place(device):
    whole = torch.zeros(COUNT * dist.get_world_size(), device=device)
    own = whole.narrow(0, COUNT * dist.get_rank(), COUNT)
    own.copy_(numbers(torch.float32))
    dist.all_gather_into_tensor(whole, own)
    return whole


@CASES.checked()
def all_gather_of_matrices():
    size = dist.get_world_size()
    tensor = numbers(torch.float32, 12).view(3, 4).to(here())
    flat, stacked = torch.zeros(3 * size, 4, device=here()), torch.zeros(size, 3, 4, device=here())
    dist.all_gather_into_tensor(flat, tensor)
    dist.all_gather_into_tensor(stacked, tensor)
    matrices = [of.view(3, 4) for of in of_all(torch.float32, 12)]
    check_equal([flat, stacked], [torch.cat(matrices), torch.stack(matrices)])


@CASES.compared([(dtype, op) for dtype in (torch.int32, torch.float16, torch.float32) for op in OPERATIONS])
def reduce_scatter(device, value):
    dtype, op = value
    inputs = [numbers(dtype, COUNT, 10 * dist.get_rank() + of).to(device) for of in range(dist.get_world_size())]
    output = torch.zeros(COUNT, dtype=dtype, device=device)
    dist.reduce_scatter(output, inputs, op)
    return output


def blocks(dtype):
    """What each rank gives to each: blocks()[giver][taker]."""
    size = dist.get_world_size()
    return [[numbers(dtype, COUNT, 10 * giver + taker) for taker in range(size)] for giver in range(size)]


@CASES.checked(FLOATS)
def reduce_scatter_average(dtype):
    rank, all_blocks = dist.get_rank(), blocks(dtype)
    output = torch.zeros(COUNT, dtype=dtype, device=here())
    dist.reduce_scatter_tensor(output, torch.cat(all_blocks[rank]).to(here()) * 4, dist.ReduceOp.AVG)
    check_equal(output, sum(of[rank] for of in all_blocks) * 4 / dist.get_world_size())


@CASES.checked()
def reduce_scatter_scaled():
    rank, all_blocks = dist.get_rank(), blocks(torch.float32)
    output = torch.zeros(COUNT, device=here())
    dist.reduce_scatter_tensor(output, torch.cat(all_blocks[rank]).to(here()), dist._make_nccl_premul_sum(0.5))
    check_equal(output, sum(of[rank] for of in all_blocks) * 0.5)


@CASES.checked()
def reduce_scatter_uneven():
    size, rank = dist.get_world_size(), dist.get_rank()
    inputs = [numbers(torch.float32, 5 + of, 10 * rank + of).to(here()) for of in range(size)]
    output = torch.zeros(5 + rank, device=here())
    dist.reduce_scatter(output, inputs)
    check_equal(output, sum(numbers(torch.float32, 5 + rank, 10 * of + rank) for of in range(size)))


@CASES.compared()
def gather(device):
    tensor = numbers(torch.float32).to(device)
    outputs = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())] if dist.get_rank() == 1 else None
    dist.gather(tensor, outputs, dst=1)
    return outputs or "nothing"


@CASES.compared([torch.int64, torch.float32, torch.bool])
def scatter(device, dtype):
    inputs = None
    if dist.get_rank() == 0:
        inputs = [(numbers(torch.int32, rank=of) % 2).to(dtype).to(device) for of in range(dist.get_world_size())]
    tensor = torch.zeros(COUNT, dtype=dtype, device=device)
    dist.scatter(tensor, inputs, src=0)
    return tensor


@CASES.compared(FLOATS + [torch.int64, torch.complex64])
def all_to_all_single(device, dtype):
    tensor = numbers(dtype, 3 * dist.get_world_size()).to(device)
    output = torch.zeros_like(tensor)
    dist.all_to_all_single(output, tensor)
    return output


@CASES.compared()
def all_to_all_single_uneven(device):
    size, rank = dist.get_world_size(), dist.get_rank()
    gives, takes = [rank + of for of in range(size)], [of + rank for of in range(size)]
    tensor = numbers(torch.float32, sum(gives)).to(device)
    output = torch.zeros(sum(takes), device=device)
    dist.all_to_all_single(output, tensor, takes, gives)
    return output


@CASES.checked()
def all_to_all_of_lists():
    size, rank = dist.get_world_size(), dist.get_rank()
    inputs = [numbers(torch.float32, 1 + rank + 2 * of, 10 * rank + of).to(here()) for of in range(size)]
    outputs = [torch.zeros(1 + of + 2 * rank, device=here()) for of in range(size)]
    dist.all_to_all(outputs, inputs)
    check_equal(outputs, [numbers(torch.float32, 1 + of + 2 * rank, 10 * of + rank) for of in range(size)])


@CASES.compared()
def barrier(device):
    group = dist.group.WORLD
    group._get_backend(device).barrier().wait()
    dist.barrier(device_ids=None if over_tutti() else [dist.get_rank()])
    return "passed"


@CASES.checked()
def objects():
    size, rank = dist.get_world_size(), dist.get_rank()
    if not over_tutti():
        torch.cuda.set_device(rank)
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    assert gathered == [{"rank": of, "text": "x" * of} for of in range(size)], gathered
    told = [("from", 1), None] if rank == 1 else [None, None]
    dist.broadcast_object_list(told, src=1, device=here())
    assert told == [("from", 1), None], told
    at_root = [None] * size if rank == 0 else None
    dist.gather_object(rank * rank, at_root, dst=0)
    assert rank != 0 or at_root == [of * of for of in range(size)], at_root
    mine = [None]
    dist.scatter_object_list(mine, [f"for {of}" for of in range(size)] if rank == 0 else None, src=0)
    assert mine == [f"for {rank}"], mine
