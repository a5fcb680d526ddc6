#!/usr/bin/env python3
"""Sums a tensor over all ranks with PyTorch's NCCL backend: torchrun --nproc-per-node N, or alone."""

import os

import torch
import torch.distributed as distributed

for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0",
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
    os.environ.setdefault(name, value)
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
distributed.init_process_group("nccl")
rank, count = distributed.get_rank(), distributed.get_world_size()

# Emulated GPUs run no kernels of PyTorch, so the CPU makes the tensor and looks at the sum.
tensor = torch.full((1000,), rank + 1.0).to(device)
distributed.all_reduce(tensor)
total = tensor.cpu()
assert (total == count * (count + 1) / 2).all(), total
print(f"rank {rank} of {count}: {total[0].item():g}", flush=True)
distributed.destroy_process_group()
