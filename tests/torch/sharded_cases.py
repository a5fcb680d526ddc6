"""fully_shard(), tensor parallelism, pipelines and distributed checkpoints, compared with the same over Gloo."""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module,
)  # fmt: skip

from cases import OVER_NCCL, Cases, check_equal, here
from models import batch, blocks, loss_of, parameters_of

CASES = Cases()
# As of data_parallel_cases.py.
TOLERANCE = 1e-5


def mesh_of(device, *shape, names=None):
    return init_device_mesh(device.type, shape or (dist.get_world_size(),), mesh_dim_names=names)


def shard(model, mesh, **options):
    for block in model:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def train(device, model, steps=3, rank=None):
    # Some parameters of tensor parallelism are plain tensors, which one call for all would mix with the others.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    losses = []
    for step in range(steps):
        loss = loss_of(model(batch(step, rank).to(device)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, parameters_of(model)


@CASES.compared([True, False], tolerance=1e-4)
def fsdp(device, reshard):
    return train(device, shard(blocks().to(device), mesh_of(device), reshard_after_forward=reshard))


@CASES.compared(tolerance=1e-4, ranks=(4,))
def hybrid_fsdp(device):
    return train(device, shard(blocks().to(device), mesh_of(device, 2, 2, names=("replicate", "shard"))))


@CASES.compared(tolerance=2e-2)
def fsdp_mixed_precision(device):
    """Computes in bfloat16, whose unit is 2^-8."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return train(device, shard(blocks().to(device), mesh_of(device), mp_policy=policy), steps=1)


@CASES.compared(tolerance=1e-4)
def fsdp_accumulates_gradients(device):
    model = shard(blocks().to(device), mesh_of(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for part in range(3):
        model.set_requires_gradient_sync(part == 2)
        loss_of(model(batch(part).to(device))).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return norm, parameters_of(model)


@CASES.compared(tolerance=1e-4)
def fsdp_prefetches(device):
    model = shard(blocks(4).to(device), mesh_of(device))
    layers = list(model)
    for one, following in zip(layers, layers[1:]):
        one.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([one])
    return train(device, model)


@CASES.checked(backends=OVER_NCCL)
def fsdp_offloads_to_host():
    device = here()
    offloaded = shard(blocks(), mesh_of(device), offload_policy=CPUOffloadPolicy())
    kept = shard(blocks().to(device), mesh_of(device))
    check_equal(train(device, offloaded)[0], train(device, kept)[0], 1e-4)
    for one, other in zip(offloaded.parameters(), kept.parameters()):
        check_equal(one.detach().to_local(), other.detach().to_local(), 1e-4)


@CASES.checked()
def fsdp_is_ddp():
    """The weights are those of a training of one process with the batches of all ranks."""
    device, size = here(), dist.get_world_size()
    sharded, plain = shard(blocks().to(device), mesh_of(device)), blocks()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (sharded, plain)]
    for step in range(3):
        loss_of(sharded(batch(step).to(device))).backward()
        loss_of(plain(torch.cat([batch(step, rank) for rank in range(size)]))).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    check_equal(parameters_of(sharded), parameters_of(plain), TOLERANCE)


def tensor_parallel(model, mesh):
    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


@CASES.compared(tolerance=1e-4)
def tensor_parallelism(device):
    return train(device, tensor_parallel(blocks().to(device), mesh_of(device)), rank=0)


@CASES.compared(tolerance=1e-4)
def sequence_parallelism(device):
    model = blocks().to(device)
    for block in model:
        plan = {
            "norm": SequenceParallel(sequence_dim=0),
            "up": ColwiseParallel(input_layouts=Shard(0)),
            "down": RowwiseParallel(output_layouts=Shard(0), use_local_output=False),
        }
        parallelize_module(block, mesh_of(device), plan)
    rows = batch(0, rank=0, rows=8).to(device)
    share = rows.chunk(dist.get_world_size())[dist.get_rank()]
    output = model(DTensor.from_local(share, mesh_of(device), [Shard(0)]))
    loss_of(output.full_tensor()).backward()
    return output, [parameter.grad for parameter in model.parameters()]


@CASES.compared(tolerance=1e-4, ranks=(4,))
def tensor_parallelism_with_fsdp(device):
    mesh = mesh_of(device, 2, 2, names=("data", "tensor"))
    model = tensor_parallel(blocks().to(device), mesh["tensor"])
    return train(device, shard(model, mesh["data"]), rank=dist.get_rank() // 2)


@CASES.compared()
def distributed_tensors(device):
    """Each way from one placement to another; whole numbers, so that sums are exact."""
    mesh, size = mesh_of(device), dist.get_world_size()
    whole = torch.arange(7.0 * size * 4).view(7, size * 4).to(device)
    parts = [distribute_tensor(whole, mesh, [placement]) for placement in (Shard(0), Shard(1), Replicate())]
    partial = DTensor.from_local(whole + dist.get_rank(), mesh, [Partial()])
    results = [part.redistribute(mesh, [to]).to_local() for part in parts for to in (Shard(0), Shard(1), Replicate())]
    results += [partial.redistribute(mesh, [to]).to_local() for to in (Shard(0), Shard(1), Replicate())]
    product = parts[0] @ distribute_tensor(whole.t().contiguous(), mesh, [Replicate()])
    return results, product.full_tensor(), partial.sum().full_tensor()


@CASES.checked(backends=OVER_NCCL)  # PyTorch draws DTensors on GPUs only
def random_distributed_tensors():
    """A random DTensor has other values on each rank, and is the same tensor everywhere."""
    torch.manual_seed(5)
    rows, mesh = 4 * dist.get_world_size(), mesh_of(here())
    random = torch.distributed.tensor.rand(rows, 3, device_mesh=mesh, placements=[Shard(0)])
    whole = random.full_tensor()
    everyone = [torch.zeros_like(whole) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, whole)
    assert all(torch.equal(whole, of) for of in everyone)
    assert whole.unique().numel() == whole.numel(), "some values are drawn twice"


def pipeline(device, schedule, stages_of_each=1):
    size, rank = dist.get_world_size(), dist.get_rank()
    layers = blocks(size * stages_of_each)
    mine = range(rank, size * stages_of_each, size)
    modules = [layers[index].to(device) for index in mine]
    stages = [PipelineStage(module, index, len(layers), device) for module, index in zip(modules, mine)]
    loss = lambda output, target: (output - target).square().mean()
    runner = schedule(stages if stages_of_each > 1 else stages[0], n_microbatches=4, loss_fn=loss)
    rows, target, losses = batch(0, rank=0, rows=8).to(device), batch(1, rank=0, rows=8).to(device), []
    last = rank == size - 1
    inputs, targets = (rows,) if rank == 0 else (), {"target": target, "losses": losses} if last else {}
    runner.step(*inputs, **targets)
    gradients = [parameter.grad for module in modules for parameter in module.parameters()]
    return losses, gradients


@CASES.compared([ScheduleGPipe, Schedule1F1B], tolerance=TOLERANCE)
def pipelines(device, schedule):
    return pipeline(device, schedule)


@CASES.compared(tolerance=TOLERANCE)
def interleaved_pipeline(device):
    return pipeline(device, ScheduleInterleaved1F1B, stages_of_each=2)


def shared_folder(name):
    folder = [os.path.join(os.environ["CASE_FOLDER"], name)]
    dist.broadcast_object_list(folder, src=0, device=torch.device("cpu"))
    return folder[0]


@CASES.checked([False, True])
def checkpoint_of_fsdp(asynchronous):
    """Saved by all ranks, loaded into another model by pairs of ranks, and by each rank alone."""
    device, size = here(), dist.get_world_size()
    folder = shared_folder(f"checkpoint-{asynchronous}")
    model = shard(blocks().to(device), mesh_of(device))
    train(device, model)
    if asynchronous:
        checkpoint.async_save(model.state_dict(), checkpoint_id=folder).result()
    else:
        checkpoint.save(model.state_dict(), checkpoint_id=folder)
    dist.barrier()
    other = shard(blocks(seed=8).to(device), mesh_of(device, size // 2, 2, names=("replicate", "shard")))
    state = other.state_dict()
    checkpoint.load(state, checkpoint_id=folder)
    other.load_state_dict(state)
    check_equal(parameters_of(other), parameters_of(model))
    alone = blocks(seed=9)
    state = alone.state_dict()
    checkpoint.load(state, checkpoint_id=folder, no_dist=True)
    alone.load_state_dict(state)
    check_equal(parameters_of(alone), parameters_of(model))
