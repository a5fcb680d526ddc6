"""DistributedDataParallel: losses and weights after some steps, compared with the same training over Gloo."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from cases import OVER_NCCL, Cases, check_equal, here, synchronize
from models import WIDTH, batch, blocks, loss_of, parameters_of

CASES = Cases()
STEPS = 3
# Gradients are sums of four in another order, of float32 with some units of 2^-24, through three steps.
TOLERANCE = 1e-5


def wrapped(device, model=None, **options):
    model = (model or blocks()).to(device)
    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, **options)


def train(device, ddp, optimizer=None, steps=STEPS):
    optimizer = optimizer or torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        loss = loss_of(ddp(batch(step).to(device)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, parameters_of(ddp)


@CASES.compared(tolerance=TOLERANCE)
def ddp(device):
    return train(device, wrapped(device))


@CASES.compared(tolerance=TOLERANCE)
def ddp_of_small_buckets(device):
    return train(device, wrapped(device, bucket_cap_mb=0.001))


@CASES.compared(["adamw", "adamw-foreach", "adamw-fused"], tolerance=1e-4)
def ddp_optimizers(device, kind):
    """Adam divides by roots of small numbers: differences of the gradients grow."""
    model = wrapped(device)
    options = {kind.removeprefix("adamw-"): True} if kind != "adamw" else {"foreach": False}
    return train(device, model, torch.optim.AdamW(model.parameters(), lr=1e-2, **options))


@CASES.compared(tolerance=TOLERANCE)
def ddp_gradients_as_bucket_views(device):
    return train(device, wrapped(device, gradient_as_bucket_view=True))


@CASES.compared(tolerance=TOLERANCE)
def ddp_static_graph(device):
    return train(device, wrapped(device, static_graph=True))


@CASES.compared([1, 3], tolerance=TOLERANCE)
def ddp_no_sync(device, accumulated):
    """Gradients of some batches without communication, then of one with it."""
    model = wrapped(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        with model.no_sync():
            for part in range(accumulated):
                loss_of(model(batch(10 * step + part).to(device))).backward()
        loss_of(model(batch(10 * step + 9).to(device))).backward()
        optimizer.step()
        optimizer.zero_grad()
    return parameters_of(model)


class Branches(nn.Module):
    """Of its two branches a rank uses the one that the batch asks for."""

    def __init__(self):
        super().__init__()
        self.branches = blocks(2)

    def forward(self, x):
        return self.branches[0](x) if dist.get_rank() == 0 else self.branches[1](x)


@CASES.compared(tolerance=TOLERANCE)
def ddp_unused_parameters(device):
    return train(device, wrapped(device, Branches(), find_unused_parameters=True))


@CASES.compared(["fp16", "bf16"], tolerance=2e-2)
def ddp_compressed(device, kind):
    """Gradients travel with 8 or 11 bits: the tolerance is some units of 2^-9 of weights below 1."""
    model = wrapped(device)
    hooks = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
    model.register_comm_hook(dist.group.WORLD, hooks[kind])
    return train(device, model)


@CASES.compared(tolerance=TOLERANCE)
def ddp_hook_allreduce(device):
    model = wrapped(device)
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    return train(device, model)


@CASES.checked()
def ddp_hook_power_sgd():
    """Of full rank it approximates nothing: the weights are those without it, but for orthogonalized matrices."""
    device = here()
    plain, model = wrapped(device), wrapped(device)
    state = PowerSGDState(None, WIDTH, start_powerSGD_iter=2, min_compression_rate=0.1, random_seed=3)
    model.register_comm_hook(state, powerSGD_hook)
    check_equal(train(device, model, steps=5), train(device, plain, steps=5), 1e-3)
    assert state.iter > 2


@CASES.compared(tolerance=TOLERANCE)
def ddp_uneven_batches(device):
    """join(): a rank has more batches than the others."""
    model = wrapped(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        for step in range(2 + dist.get_rank()):
            loss_of(model(batch(step).to(device))).backward()
            optimizer.step()
            optimizer.zero_grad()
    return parameters_of(model)


@CASES.compared(tolerance=TOLERANCE)
def ddp_of_a_subgroup(device):
    size = dist.get_world_size()
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    groups = [dist.new_group(ranks) for ranks in halves]
    mine = 0 if dist.get_rank() < size // 2 else 1
    result = train(device, wrapped(device, process_group=groups[mine]))
    if device.type == "cuda":
        synchronize()
    dist.destroy_process_group(groups[mine])
    return result


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        first, last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        self.layers = nn.Sequential(first, nn.BatchNorm1d(WIDTH), nn.ReLU(), last)

    def forward(self, x):
        return self.layers(x)


@CASES.compared(tolerance=TOLERANCE)
def ddp_buffers(device):
    """Running statistics are those of rank 0."""
    model = wrapped(device, Normalized())
    train(device, model)
    return parameters_of(model), [buffer.clone() for buffer in model.buffers()]


@CASES.checked(backends=OVER_NCCL)
def sync_batch_norm():
    """Statistics and gradients of all ranks' batches are those of one process with all of them."""
    device, size = here(), dist.get_world_size()
    model = nn.SyncBatchNorm.convert_sync_batchnorm(Normalized()).to(device)
    whole = Normalized()
    for step in range(2):
        loss_of(model(batch(step).to(device))).backward()
        loss_of(whole(torch.cat([batch(step, rank) for rank in range(size)]))).backward()
    for one, other in zip(model.parameters(), whole.parameters()):
        grad = one.grad.clone()
        dist.all_reduce(grad, dist.ReduceOp.AVG)
        torch.testing.assert_close(grad.cpu(), other.grad, rtol=TOLERANCE, atol=TOLERANCE)
    for one, other in zip(model.buffers(), whole.buffers()):
        torch.testing.assert_close(one.cpu(), other, rtol=TOLERANCE, atol=TOLERANCE)


@CASES.compared(tolerance=TOLERANCE)
def zero_redundancy_optimizer(device):
    model = wrapped(device)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    return train(device, model, optimizer)


@CASES.checked(backends=OVER_NCCL)
def mixed_precision_scaler():
    """torch.autocast with a GradScaler: the weights of all ranks are equal, and close to those without."""
    device = here()
    model, plain = wrapped(device), wrapped(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(STEPS):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = loss_of(model(batch(step).to(device)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    train(device, plain, torch.optim.SGD(plain.parameters(), lr=0.1))
    for one, other in zip(parameters_of(model), parameters_of(plain)):
        everyone = [torch.zeros_like(one) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, one)
        assert all(torch.equal(one, of) for of in everyone)
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
