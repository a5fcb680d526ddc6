#!/usr/bin/env python3
"""Loss and gradients of small models in float64, written from the models' definitions alone.

The gradient comes from the complex step, dL/dw = Im L(w + i h) / h with h = 1e-150: no backward pass
is derived, and no difference cancels, so it is right to rounding. Every function in the models is
analytic (the maximum that the softmax subtracts is taken of the real part, which changes nothing).

    python3 model_witness.py gpt > gpt_witness.txt          needs NumPy; a minute each
    python3 model_witness.py llama > llama_witness.txt

The file: `loss VALUE`, then for each parameter `NAME COUNT` and its gradient, a value a line.
"""

import sys

import numpy as np

VOCABULARY, CONTEXT, LAYERS, BATCH = 11, 6, 2, 2
STEP = 1e-150


def token_ids():
    return np.array([[(7 * b + 3 * t + t * t) % VOCABULARY for t in range(CONTEXT)] for b in range(BATCH)])


def labels():
    result = np.array([[(5 * b + 4 * t + 1) % VOCABULARY for t in range(CONTEXT)] for b in range(BATCH)])
    result[1, 2] = -1  # does not count
    return result


def softmax(x):
    e = np.exp(x - x.real.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def causal_attention(q, k, v):
    """Of [batch, heads, context, head width] each."""
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    future = np.triu(np.ones((CONTEXT, CONTEXT), dtype=bool), 1)
    out = softmax(np.where(future, -1e9, scores)) @ v
    return out.transpose(0, 2, 1, 3).reshape(BATCH, CONTEXT, -1)


def cross_entropy(logits):
    target = labels()
    counted = target >= 0
    chosen = np.take_along_axis(softmax(logits), np.maximum(target, 0)[..., None], -1)[..., 0]
    return -(np.log(chosen)[counted]).sum() / counted.sum()


class Gpt:
    """GPT-2's: LayerNorm, learned positions, GELU, biases, a tied output map."""

    width, heads = 8, 2

    def shapes(self):
        width = self.width
        shapes = [("tokens", (VOCABULARY, width)), ("positions", (CONTEXT, width))]
        for layer in range(LAYERS):
            block = f"blocks.{layer}."
            shapes += [
                (block + "beforeAttention.weight", (width,)),
                (block + "beforeAttention.bias", (width,)),
                (block + "attention.query.weight", (width, width)),
                (block + "attention.key.weight", (width, width)),
                (block + "attention.value.weight", (width, width)),
                (block + "attention.query.bias", (width,)),
                (block + "attention.key.bias", (width,)),
                (block + "attention.value.bias", (width,)),
                (block + "attention.project.weight", (width, width)),
                (block + "attention.project.bias", (width,)),
                (block + "beforeMlp.weight", (width,)),
                (block + "beforeMlp.bias", (width,)),
                (block + "mlp.up.weight", (4 * width, width)),
                (block + "mlp.up.bias", (4 * width,)),
                (block + "mlp.down.weight", (width, 4 * width)),
                (block + "mlp.down.bias", (width,)),
            ]
        return shapes + [("finalNorm.weight", (width,)), ("finalNorm.bias", (width,))]

    @staticmethod
    def norm(x, w, name):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred / np.sqrt(variance + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    @staticmethod
    def linear(x, w, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def attention(self, x, w, block):
        def heads(name):
            return self.linear(x, w, block + name).reshape(BATCH, CONTEXT, self.heads, -1).transpose(0, 2, 1, 3)

        out = causal_attention(heads("query"), heads("key"), heads("value"))
        return self.linear(out, w, block + "project")

    def mlp(self, x, w, block):
        inner = self.linear(x, w, block + "up")
        active = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        return self.linear(active, w, block + "down")

    def loss(self, w):
        x = w["tokens"][token_ids()] + w["positions"]
        for layer in range(LAYERS):
            b = f"blocks.{layer}."
            x = x + self.attention(self.norm(x, w, b + "beforeAttention"), w, b + "attention.")
            x = x + self.mlp(self.norm(x, w, b + "beforeMlp"), w, b + "mlp.")
        return cross_entropy(self.norm(x, w, "finalNorm") @ w["tokens"].T)


class Llama:
    """Llama's: RMSNorm, rotary positions, grouped queries, SwiGLU, no biases, an output map of its own."""

    width, heads, kv_heads, inner, rope_base = 16, 4, 2, 10, 100.0

    def shapes(self):
        width, head = self.width, self.width // self.heads
        shapes = [("tokens", (VOCABULARY, width))]
        for layer in range(LAYERS):
            block = f"blocks.{layer}."
            shapes += [
                (block + "beforeAttention.weight", (width,)),
                (block + "attention.query.weight", (width, width)),
                (block + "attention.key.weight", (self.kv_heads * head, width)),
                (block + "attention.value.weight", (self.kv_heads * head, width)),
                (block + "attention.project.weight", (width, width)),
                (block + "beforeMlp.weight", (width,)),
                (block + "mlp.gate.weight", (self.inner, width)),
                (block + "mlp.up.weight", (self.inner, width)),
                (block + "mlp.down.weight", (width, self.inner)),
            ]
        return shapes + [("finalNorm.weight", (width,)), ("output", (VOCABULARY, width))]

    @staticmethod
    def norm(x, w, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"]

    def rotary(self, x):
        """[batch, context, heads, head width]: elements i and i + half are a point that is turned."""
        half = x.shape[-1] // 2
        angles = np.outer(np.arange(CONTEXT), self.rope_base ** (-np.arange(half) / half))
        point = x[..., :half] * 1.0, x[..., half:] * 1.0
        cosine, sine = np.cos(angles)[None, :, None, :], np.sin(angles)[None, :, None, :]
        return np.concatenate([point[0] * cosine - point[1] * sine, point[1] * cosine + point[0] * sine], -1)

    def attention(self, x, w, block):
        def heads(name, count):
            return (x @ w[block + name + ".weight"].T).reshape(BATCH, CONTEXT, count, -1)

        q = heads("query", self.heads)
        k, v = heads("key", self.kv_heads), heads("value", self.kv_heads)
        group = self.heads // self.kv_heads
        k, v = np.repeat(self.rotary(k), group, axis=2), np.repeat(v, group, axis=2)
        out = causal_attention(*(t.transpose(0, 2, 1, 3) for t in (self.rotary(q), k, v)))
        return out @ w[block + "project.weight"].T

    def mlp(self, x, w, block):
        gate, up = x @ w[block + "gate.weight"].T, x @ w[block + "up.weight"].T
        return (gate / (1 + np.exp(-gate)) * up) @ w[block + "down.weight"].T

    def loss(self, w):
        x = w["tokens"][token_ids()]
        for layer in range(LAYERS):
            b = f"blocks.{layer}."
            x = x + self.attention(self.norm(x, w, b + "beforeAttention"), w, b + "attention.")
            x = x + self.mlp(self.norm(x, w, b + "beforeMlp"), w, b + "mlp.")
        return cross_entropy(self.norm(x, w, "finalNorm") @ w["output"].T)


def first_value(parameter, element):
    return 0.6 * np.sin(1.0 + 2.3 * parameter + 0.7 * element + 0.001 * element * element)


def main():
    model = {"gpt": Gpt, "llama": Llama}[sys.argv[1]]()
    w = {}
    for p, (name, shape) in enumerate(model.shapes()):
        w[name] = first_value(p, np.arange(np.prod(shape), dtype=np.float64)).reshape(shape)
    print(f"loss {model.loss(w):.17g}")
    for name, values in w.items():
        print(name, values.size)
        for i in range(values.size):
            moved = dict(w)
            moved[name] = values.astype(complex)
            moved[name].flat[i] += 1j * STEP
            print(f"{model.loss(moved).imag / STEP:.17g}")


if __name__ == "__main__":
    main()
