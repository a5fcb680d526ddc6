"""PyTorch over Tutti's libnccl.so.2: collectives, DDP and FSDP2 on GPUs, compared with the CPU.

    torchrun --nproc-per-node R bench/gpu/torch_collectives.py [--on-cpu]

with LD_PRELOAD=.../libnccl.so.2. Rank r is on GPU r modulo their number. Prints a line for each part,
and exits with 1 if one is wrong, and with 2 where there is no GPU. --on-cpu has Gloo do the work, to
try out this script.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--on-cpu", action="store_true", help="by Gloo, to try out this script")
ON_CPU = parser.parse_args().on_cpu
if not ON_CPU and not torch.cuda.is_available():
    print("torch_collectives.py: PyTorch sees no GPU", file=sys.stderr)
    sys.exit(2)
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GPU = torch.device("cpu") if ON_CPU else torch.device("cuda", RANK % torch.cuda.device_count())


def value(rank, count, dtype=torch.float32, to=0):
    """What `rank` gives (to rank `to`): the same on every machine, exact in sums and products of a few."""
    return ((torch.arange(count) + 3 * rank + 5 * to) % 7).to(dtype)


def same(name, got, want, tolerance=0.0):
    error = (got.detach().cpu().double() - want.double()).abs().max().item() if want.numel() else 0.0
    if not error <= tolerance:
        raise AssertionError(f"{name}: off by {error}")


# Up to here every integer is a value of the type.
MOST_EXACT = {torch.uint8: 255, torch.bfloat16: 256, torch.float16: 2048}


def of_one_type(dtype, count):
    every = [value(r, count, dtype) for r in range(SIZE)]
    stacked = torch.stack(every).to(torch.float64)
    mine = every[RANK].to(GPU)
    reductions = {"SUM": stacked.sum(0), "MAX": stacked.amax(0), "MIN": stacked.amin(0), "PRODUCT": stacked.prod(0)}
    if dtype.is_floating_point and not ON_CPU:  # Gloo has no average
        reductions["AVG"] = stacked.mean(0)
    for op, want in reductions.items():
        if want.max() > MOST_EXACT.get(dtype, 1 << 24):
            continue
        x = mine.clone()
        dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
        same(f"all_reduce {op} of {dtype}", x, want, 0.03 if op == "AVG" else 0)
    x = mine.clone()
    dist.broadcast(x, SIZE - 1)
    same("broadcast", x, every[SIZE - 1])
    x = mine.clone()
    dist.reduce(x, 0)
    if RANK == 0:
        same("reduce", x, reductions["SUM"])
    out = torch.empty(SIZE * count, dtype=dtype, device=GPU)
    dist.all_gather_into_tensor(out, mine)
    same("all_gather", out, torch.cat(every))
    # From here on every destination gets something else.
    sent = torch.cat([value(RANK, count, dtype, to) for to in range(SIZE)]).to(GPU)
    got = [value(r, count, dtype, RANK) for r in range(SIZE)]
    out = torch.empty(count, dtype=dtype, device=GPU)
    dist.reduce_scatter_tensor(out, sent)
    same("reduce_scatter", out, torch.stack(got).to(torch.float64).sum(0))
    out = torch.empty(SIZE * count, dtype=dtype, device=GPU)
    dist.all_to_all_single(out, sent)
    same("all_to_all", out, torch.cat(got))


def collectives():
    types = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8)
    for dtype in types:
        for count in (1, 1000, 1 << 20):
            of_one_type(dtype, count)
    dist.barrier(device_ids=None if ON_CPU else [GPU.index])


def uneven():
    """Blocks that differ in size, and lists of tensors."""

    def rows(source, to):
        return 10 * source + 3 * to + 1

    sent = [value(RANK, rows(RANK, to), to=to) for to in range(SIZE)]
    got = [value(r, rows(r, RANK), to=RANK) for r in range(SIZE)]
    out = torch.empty(sum(len(block) for block in got), device=GPU)
    dist.all_to_all_single(out, torch.cat(sent).to(GPU), [len(b) for b in got], [len(b) for b in sent])
    same("all_to_all of uneven blocks", out, torch.cat(got))
    every = [value(r, 500 + r) for r in range(SIZE)]
    if not ON_CPU:  # Gloo wants tensors alike
        outs = [torch.empty(len(one), device=GPU) for one in every]
        dist.all_gather(outs, every[RANK].to(GPU))
        same("all_gather of a list", torch.cat(outs), torch.cat(every))
    alike = [value(r, 500) for r in range(SIZE)]
    outs = [torch.empty(500, device=GPU) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(alike[RANK].to(GPU), outs, dst=0)
    if RANK == 0:
        same("gather", torch.cat(outs), torch.cat(alike))
    out = torch.empty(500, device=GPU)
    dist.scatter(out, [one.to(GPU) for one in alike] if RANK == 0 else None, src=0)
    same("scatter", out, alike[RANK])


def groups():
    """A communicator of some of the ranks beside that of all, and calls that are not waited for at once."""
    members = list(range(0, SIZE, 2))
    some = dist.new_group(members)
    if RANK in members:
        x = value(RANK, 1000).to(GPU)
        dist.all_reduce(x, group=some)
        same("all_reduce of a group", x, torch.stack([value(r, 1000) for r in members]).sum(0))
    xs = [value(RANK, 1000, to=i).to(GPU) for i in range(5)]
    for work in [dist.all_reduce(x, async_op=True) for x in xs]:
        work.wait()
    for i, x in enumerate(xs):
        same("all_reduce under way", x, torch.stack([value(r, 1000, to=i) for r in range(SIZE)]).sum(0))
    if RANK in members:
        dist.barrier(group=some)


def exchanges():
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    out = torch.empty(1000, device=GPU)
    calls = [
        dist.P2POp(dist.isend, value(RANK, 1000).to(GPU), right),
        dist.P2POp(dist.irecv, out, left),
    ]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    same("send and receive", out, value(left, 1000))


def model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))


def batches(steps, rows):
    generator = torch.Generator().manual_seed(11)
    return [torch.randn(rows, 64, generator=generator) for _ in range(steps)]


def train(network, mine, steps=5):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    for batch in batches(steps, 8 * SIZE):
        optimizer.zero_grad()
        part = mine(batch)
        network(part).square().mean().backward()
        optimizer.step()
    return network


def reference():
    return train(model(), lambda batch: batch)


def rows_of_rank(batch):
    return batch[8 * RANK : 8 * (RANK + 1)].to(GPU)


def ddp():
    network = DistributedDataParallel(model().to(GPU), device_ids=None if ON_CPU else [GPU.index])
    train(network, rows_of_rank)
    for got, want in zip(network.module.parameters(), reference().parameters()):
        same("ddp", got, want, 1e-5)


def fsdp():
    from torch.distributed.fsdp import fully_shard

    network = model().to(GPU)
    for layer in network:
        fully_shard(layer)
    fully_shard(network)
    train(network, rows_of_rank)
    for got, want in zip(network.parameters(), reference().parameters()):
        same("fsdp2", got.full_tensor(), want, 1e-5)


def main():
    if ON_CPU:
        dist.init_process_group("gloo")
    else:
        torch.cuda.set_device(GPU)
        dist.init_process_group("nccl", device_id=GPU)
    failed = 0
    for part in (collectives, uneven, groups, exchanges, ddp, fsdp):
        try:
            part()
            said = "ok"
        except Exception as error:  # each part is tried, and every failure is told
            said, failed = f"FAILED: {error}", 1
        if RANK == 0 or said != "ok":
            print(f"torch {part.__name__} rank {RANK} of {SIZE}: {said}", flush=True)
    dist.destroy_process_group()
    return failed


if __name__ == "__main__":
    sys.exit(main())
