"""Small models, their data, and how they are trained, the same on every device."""

import torch
import torch.distributed as dist
from torch import nn

WIDTH = 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


def blocks(count=3, seed=7):
    """The same weights on every rank and device."""
    torch.manual_seed(seed)
    return nn.Sequential(*[Block() for _ in range(count)])


def batch(step, rank=None, rows=6):
    """Of each rank and step other values."""
    rank = dist.get_rank() if rank is None else rank
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(rows, WIDTH, generator=generator)


def loss_of(output):
    return output.square().mean()


def parameters_of(model):
    return [parameter.detach() for parameter in model.parameters()]
