"""A training on several ranks with DistributedDataParallel over Tutti.

    torchrun --nproc-per-node 2 ddp.py

Every rank has the whole model and a part of the data; Tutti averages the gradients.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti.torch  # registers the backend


def batch(step, rank):
    """Points of a parabola, other ones for each rank and step."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.rand(64, 1, generator=generator) * 2 - 1
    return x, x * x


def main():
    dist.init_process_group(tutti.torch.NAME)
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    steps = int(os.environ.get("STEPS", "200"))
    for step in range(steps):
        x, y = batch(step, rank)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()  # all-reduces gradients while it computes
        optimizer.step()
        if rank == 0 and (step % 50 == 0 or step == steps - 1):
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
