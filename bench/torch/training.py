"""The training that compare.py times: a small language model under DistributedDataParallel, on random tokens."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS, VOCABULARY, CONTEXT, ROWS = 256, 4, 4096, 64, 4
TOKENS = CONTEXT * ROWS  # of a rank in a step
STEPS = 3


def model():
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=4 * WIDTH, batch_first=True, dropout=0.0)
    return nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), nn.TransformerEncoder(layer, LAYERS), nn.Linear(WIDTH, VOCABULARY)
    )


def parameter_bytes():
    return sum(parameter.nbytes for parameter in model().parameters())


def steps(group, timing):
    """A function that trains some steps over `group` and returns the seconds of one, on the slowest rank."""
    ddp = DistributedDataParallel(model(), process_group=group)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    tokens = torch.randint(VOCABULARY, (ROWS, CONTEXT + 1))

    def train():
        begin = time.perf_counter()
        for _ in range(STEPS):
            logits = ddp(tokens[:, :-1])
            nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
        own = torch.tensor([(time.perf_counter() - begin) / STEPS], dtype=torch.float64)
        dist.all_reduce(own, dist.ReduceOp.MAX, group=timing)
        return own.item()

    train()
    return train
