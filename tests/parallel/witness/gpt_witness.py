#!/usr/bin/env python3
"""Loss and gradients of a small GPT in float64, written from the model's definition alone.

The gradient comes from the complex step, dL/dw = Im L(w + i h) / h with h = 1e-150: no backward pass
is derived, and no difference cancels, so it is right to rounding. Every function in the model is
analytic (the maximum that the softmax subtracts is taken of the real part, which changes nothing).

    python3 gpt_witness.py > gpt_witness.txt        needs NumPy; a minute

The file: `loss VALUE`, then for each parameter `NAME COUNT` and its gradient, a value a line.
"""

import numpy as np

VOCABULARY, CONTEXT, LAYERS, WIDTH, HEADS, BATCH = 11, 6, 2, 8, 2, 2
STEP = 1e-150


def parameter_shapes():
    shapes = [("tokens", (VOCABULARY, WIDTH)), ("positions", (CONTEXT, WIDTH))]
    for layer in range(LAYERS):
        block = f"blocks.{layer}."
        shapes += [
            (block + "beforeAttention.weight", (WIDTH,)),
            (block + "beforeAttention.bias", (WIDTH,)),
            (block + "attention.qkv.weight", (3 * WIDTH, WIDTH)),
            (block + "attention.qkv.bias", (3 * WIDTH,)),
            (block + "attention.project.weight", (WIDTH, WIDTH)),
            (block + "attention.project.bias", (WIDTH,)),
            (block + "beforeMlp.weight", (WIDTH,)),
            (block + "beforeMlp.bias", (WIDTH,)),
            (block + "mlp.up.weight", (4 * WIDTH, WIDTH)),
            (block + "mlp.up.bias", (4 * WIDTH,)),
            (block + "mlp.down.weight", (WIDTH, 4 * WIDTH)),
            (block + "mlp.down.bias", (WIDTH,)),
        ]
    return shapes + [("finalNorm.weight", (WIDTH,)), ("finalNorm.bias", (WIDTH,))]


def first_value(parameter, element):
    return 0.6 * np.sin(1.0 + 2.3 * parameter + 0.7 * element + 0.001 * element * element)


def make_parameters():
    parameters = {}
    for p, (name, shape) in enumerate(parameter_shapes()):
        i = np.arange(np.prod(shape), dtype=np.float64)
        parameters[name] = first_value(p, i).reshape(shape)
    return parameters


def token_ids():
    return np.array([[(7 * b + 3 * t + t * t) % VOCABULARY for t in range(CONTEXT)] for b in range(BATCH)])


def labels():
    result = np.array([[(5 * b + 4 * t + 1) % VOCABULARY for t in range(CONTEXT)] for b in range(BATCH)])
    result[1, 2] = -1  # does not count
    return result


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * weight + bias


def softmax(x):
    e = np.exp(x - x.real.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def attention(x, w, block):
    qkv = x @ w[block + "qkv.weight"].T + w[block + "qkv.bias"]
    split = qkv.reshape(BATCH, CONTEXT, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
    q, k, v = split[0], split[1], split[2]
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(WIDTH // HEADS)
    future = np.triu(np.ones((CONTEXT, CONTEXT), dtype=bool), 1)
    out = softmax(np.where(future, -1e9, scores)) @ v
    out = out.transpose(0, 2, 1, 3).reshape(BATCH, CONTEXT, WIDTH)
    return out @ w[block + "project.weight"].T + w[block + "project.bias"]


def mlp(x, w, block):
    inner = gelu(x @ w[block + "up.weight"].T + w[block + "up.bias"])
    return inner @ w[block + "down.weight"].T + w[block + "down.bias"]


def loss(w):
    x = w["tokens"][token_ids()] + w["positions"]
    for layer in range(LAYERS):
        b = f"blocks.{layer}."
        x = x + attention(layer_norm(x, w[b + "beforeAttention.weight"], w[b + "beforeAttention.bias"]), w, b + "attention.")
        x = x + mlp(layer_norm(x, w[b + "beforeMlp.weight"], w[b + "beforeMlp.bias"]), w, b + "mlp.")
    logits = layer_norm(x, w["finalNorm.weight"], w["finalNorm.bias"]) @ w["tokens"].T
    target = labels()
    counted = target >= 0
    chosen = np.take_along_axis(softmax(logits), np.maximum(target, 0)[..., None], -1)[..., 0]
    return -(np.log(chosen)[counted]).sum() / counted.sum()


def main():
    w = make_parameters()
    print(f"loss {loss(w):.17g}")
    for name, values in w.items():
        print(name, values.size)
        for i in range(values.size):
            moved = dict(w)
            moved[name] = values.astype(complex)
            moved[name].flat[i] += 1j * STEP
            print(f"{loss(moved).imag / STEP:.17g}")


if __name__ == "__main__":
    main()
