"""The same training in PyTorch, a worker of training_speed: a GPT-2-style model (pre-norm blocks, LayerNorm,
GELU in its tanh form, learned positions, tied output map), AdamW with weight decay on matrices, the gradient
clipped to a norm of 1, float32, one thread a rank. A call is one step. Several ranks: DistributedDataParallel
over Gloo. The fastest of PyTorch's own forms are used: scaled_dot_product_attention, fused AdamW, foreach
clipping; --compile adds torch.compile, and --bf16 autocast to bfloat16."""

import argparse
import math
import os
import struct
import time

import torch
import torch.distributed as distributed
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, context, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, context, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(F.gelu(self.up(self.before_mlp(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.context, o.width)
        self.blocks = nn.ModuleList(Block(o.width, o.heads) for _ in range(o.layers))
        self.final_norm = nn.LayerNorm(o.width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.final_norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.reshape(-1))


def read(file, size):
    data = b""
    while len(data) < size:
        more = file.read(size - len(data))
        if not more:
            return None
        data += more
    return data


def main():
    parser = argparse.ArgumentParser()
    for flag, default in (("vocabulary", 256), ("context", 128), ("layers", 4), ("width", 128), ("heads", 4),
                          ("batch", 16), ("ranks", 1)):
        parser.add_argument("--" + flag, type=int, default=default)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("directory")
    o = parser.parse_args()
    rank = int(os.environ.get("TUTTI_RANK", 0))
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if o.ranks > 1:
        distributed.init_process_group("gloo", init_method="file://" + os.path.join(o.directory, "torch"),
                                       rank=rank, world_size=o.ranks)
    gpt = Gpt(o)
    matrices = [p for p in gpt.parameters() if p.dim() > 1]
    vectors = [p for p in gpt.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    model = nn.parallel.DistributedDataParallel(gpt) if o.ranks > 1 else gpt
    if o.compile:
        model = torch.compile(model)
    text = torch.randint(0, 256, (1 << 20,))

    def step():
        starts = torch.randint(0, len(text) - o.context - 1, (o.batch // o.ranks,))
        windows = torch.stack([text[s : s + o.context + 1] for s in starts.tolist()])
        with torch.autocast("cpu", torch.bfloat16, enabled=o.bf16):
            loss = model(windows[:, :-1], windows[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(gpt.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.item(), norm.item()

    command = struct.Struct("QIIIII0Q")  # worker_command of commands.h, with the padding behind it
    with open(f"{o.directory}/command.{rank}", "rb", buffering=0) as commands, \
            open(f"{o.directory}/answer.{rank}", "wb", buffering=0) as answers:
        while (data := read(commands, command.size)) is not None:
            _, iterations, warmups, *_ = command.unpack(data)
            if iterations == 0:
                break
            times = []
            for _ in range(warmups + iterations):
                begin = time.perf_counter_ns()
                values = step()
                end = time.perf_counter_ns()
                times.append(float(end - begin) if all(map(math.isfinite, values)) else math.nan)
            answers.write(struct.pack(f"={iterations}d", *times[warmups:]))
    if o.ranks > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
