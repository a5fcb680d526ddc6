"""PyTorch's side of train_speed.py: GPT-2 or a Llama from a Hugging Face folder, trained as train_gpt trains it.

    torch_training.py --folder F --text T --context N --batch N --steps N --like OURS.json --json THEIRS.json
                      [--on-cpu] [--no-compile]

Weights and AdamWUpdate's state are float32; forward and backward run in bfloat16 by autocast, compiled by
torch.compile, with scaled_dot_product_attention and fused AdamWUpdate. Windows of the text are those that
train_gpt takes, learning rates those in the file of its metrics. --on-cpu computes in float32 on the host,
to try out this script. Each line of the result has a step's loss, gradient norm and seconds.
"""

import argparse
import json
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import training_data


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        batch, context, width = x.shape
        qkv = self.attn["c_attn"](self.ln_1(x)).view(batch, context, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](y.transpose(1, 2).reshape(batch, context, width))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["n_embd"]
        self.wte, self.wpe = nn.Embedding(c["vocab_size"], width), nn.Embedding(c["n_positions"], width)
        self.h = nn.ModuleList(Gpt2Block(width, c["n_head"]) for _ in range(c["n_layer"]))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)

    @staticmethod
    def state_of(tensors):
        """Maps are stored as [in, out] there."""
        return {name.removeprefix("transformer."): x.t() if "c_" in name and x.dim() == 2 else x
                for name, x in tensors.items()}


def turned(x, cosine, sine):
    half = x.shape[-1] // 2
    return x * cosine + torch.cat((-x[..., half:], x[..., :half]), -1) * sine


class LlamaBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        n, inner = c["hidden_size"], c["intermediate_size"]
        self.width = n // c["num_attention_heads"]
        kv = self.width * c["num_key_value_heads"]
        self.input_layernorm = nn.RMSNorm(n, eps=c["rms_norm_eps"])
        self.post_attention_layernorm = nn.RMSNorm(n, eps=c["rms_norm_eps"])
        sizes = {"q_proj": (n, n), "k_proj": (n, kv), "v_proj": (n, kv), "o_proj": (n, n)}
        self.self_attn = nn.ModuleDict({name: nn.Linear(*size, bias=False) for name, size in sizes.items()})
        sizes = {"gate_proj": (n, inner), "up_proj": (n, inner), "down_proj": (inner, n)}
        self.mlp = nn.ModuleDict({name: nn.Linear(*size, bias=False) for name, size in sizes.items()})

    def forward(self, x, cosine, sine):
        batch, context, _ = x.shape
        y = self.input_layernorm(x)
        q, k, v = (self.self_attn[name](y).view(batch, context, -1, self.width).transpose(1, 2)
                   for name in ("q_proj", "k_proj", "v_proj"))
        q, k = turned(q, cosine, sine).to(v.dtype), turned(k, cosine, sine).to(v.dtype)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.self_attn["o_proj"](y.transpose(1, 2).reshape(batch, context, -1))
        y = self.post_attention_layernorm(x)
        return x + self.mlp["down_proj"](F.silu(self.mlp["gate_proj"](y)) * self.mlp["up_proj"](y))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        n = c["hidden_size"]
        self.embed_tokens = nn.Embedding(c["vocab_size"], n)
        self.layers = nn.ModuleList(LlamaBlock(c) for _ in range(c["num_hidden_layers"]))
        self.norm, self.lm_head = nn.RMSNorm(n, eps=c["rms_norm_eps"]), nn.Linear(n, c["vocab_size"], bias=False)
        width = n // c["num_attention_heads"]
        waves = c["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.outer(torch.arange(c["max_position_embeddings"], dtype=torch.float64), waves).repeat(1, 2)
        self.register_buffer("cosine", angles.cos().float(), persistent=False)
        self.register_buffer("sine", angles.sin().float(), persistent=False)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        cosine, sine = self.cosine[: ids.shape[1]], self.sine[: ids.shape[1]]
        for block in self.layers:
            x = block(x, cosine, sine)
        return self.lm_head(self.norm(x))

    @staticmethod
    def state_of(tensors):
        return {name.removeprefix("model."): x for name, x in tensors.items()}


def read_folder(folder):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    path, tensors = os.path.join(folder, "model.safetensors"), {}
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    data = torch.from_file(path, size=os.path.getsize(path), dtype=torch.uint8)[8 + size :]
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            dtype = {"F32": torch.float32, "BF16": torch.bfloat16}[entry["dtype"]]
            tensors[name] = data[begin:end].view(dtype).view(entry["shape"])
    return config, tensors


def batches(o):
    """Inputs and labels of each step."""
    with open(o.text, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    for step in range(o.steps):
        starts = [training_data.window_start(len(text), o.context, step * o.batch + i) for i in range(o.batch)]
        windows = torch.stack([text[start : start + o.context + 1] for start in starts]).long()
        yield windows[:, :-1], windows[:, 1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("folder", "text", "like", "json"):
        parser.add_argument("--" + flag, required=True)
    for flag in ("context", "batch", "steps"):
        parser.add_argument("--" + flag, type=int, required=True)
    parser.add_argument("--on-cpu", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    o = parser.parse_args()
    device = "cpu" if o.on_cpu else "cuda"
    torch.set_float32_matmul_precision("high")
    config, tensors = read_folder(o.folder)
    kind = Gpt2 if config["model_type"] == "gpt2" else Llama
    with torch.device(device):
        model = kind(config)
    model.load_state_dict(kind.state_of(tensors))
    del tensors
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95), eps=1e-8, fused=True)

    def loss_of(ids, labels):
        logits = model(ids)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.reshape(-1))

    run = loss_of if o.no_compile else torch.compile(loss_of)
    with open(o.like) as file:
        rates = [json.loads(line)["learning_rate"] for line in file]
    last = time.perf_counter()
    with open(o.json, "w") as out:
        for step, (ids, labels) in enumerate(batches(o)):
            for group in optimizer.param_groups:
                group["lr"] = rates[step]
            with torch.autocast(device, torch.bfloat16, enabled=not o.on_cpu):
                loss = run(ids.to(device), labels.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()
            values = {"step": step + 1, "loss": loss.item(), "grad_norm": norm.item()}
            if not all(map(math.isfinite, values.values())):
                raise SystemExit(f"torch_training.py: error: not finite: {values}")
            if not o.on_cpu:
                torch.cuda.synchronize()
            now = time.perf_counter()
            out.write(json.dumps({**values, "step_seconds": now - last}) + "\n")
            last = now


if __name__ == "__main__":
    main()
