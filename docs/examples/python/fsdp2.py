"""A training whose parameters are sharded over the ranks, with fully_shard() (FSDP2) over Tutti.

    torchrun --nproc-per-node 2 fsdp2.py

Every rank holds a part of each parameter. Tutti gathers a layer before it computes, and reduces and scatters gradients.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import tutti.torch  # registers the backend


def main():
    dist.init_process_group(tutti.torch.NAME)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 16))
    mesh = init_device_mesh("cpu", (size,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    held = sum(parameter.to_local().numel() for parameter in model.parameters())
    print(f"rank {rank} holds {held} of {sum(parameter.numel() for parameter in model.parameters())} numbers", flush=True)

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    steps = int(os.environ.get("STEPS", "100"))
    generator = torch.Generator().manual_seed(rank)
    for step in range(steps):
        x = torch.randn(32, 16, generator=generator)
        loss = nn.functional.mse_loss(model(x), x.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step % 25 == 0 or step == steps - 1):
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
