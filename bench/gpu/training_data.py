"""What both trainings of train_speed.py begin with: a Hugging Face folder of random weights, a text, and the
order in which train_gpt takes windows of it. Needs nothing but Python."""

import array
import json
import math
import os
import random

PERIOD = 1_048_573  # weights repeat after so many, a prime: no two rows of a matrix are alike
SEED = 1


def gpt2(layers=12, width=768, heads=12, vocabulary=50257, context=1024):
    """The config of GPT-2 124M, or of a smaller one."""
    return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": vocabulary,
            "n_positions": context, "n_layer": layers, "n_embd": width, "n_head": heads,
            "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}


def llama(layers, width=4096, heads=32, kv_heads=8, inner=14336, vocabulary=128256, context=2048):
    """Of Llama 3 8B with so many layers."""
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": vocabulary,
            "max_position_embeddings": context, "num_hidden_layers": layers, "hidden_size": width,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "intermediate_size": inner,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False}


def tensors(config):
    """(name, shape, standard deviation) of each, in Hugging Face's names; of 1 and 0 "one" and "zero"."""
    if config["model_type"] == "gpt2":
        n, layers = config["n_embd"], config["n_layer"]
        yield "transformer.wte.weight", (config["vocab_size"], n), 0.02
        yield "transformer.wpe.weight", (config["n_positions"], n), 0.02
        maps = {"attn.c_attn": (n, 3 * n), "attn.c_proj": (n, n), "mlp.c_fc": (n, 4 * n), "mlp.c_proj": (4 * n, n)}
        for i in range(layers):
            block = f"transformer.h.{i}."
            for norm in ("ln_1", "ln_2"):
                yield f"{block}{norm}.weight", (n,), "one"
                yield f"{block}{norm}.bias", (n,), "zero"
            for name, shape in maps.items():
                yield f"{block}{name}.weight", shape, 0.02
                yield f"{block}{name}.bias", (shape[1],), "zero"
        yield "transformer.ln_f.weight", (n,), "one"
        yield "transformer.ln_f.bias", (n,), "zero"
        return
    n, inner = config["hidden_size"], config["intermediate_size"]
    kv = n // config["num_attention_heads"] * config["num_key_value_heads"]
    maps = {"self_attn.q_proj": (n, n), "self_attn.k_proj": (kv, n), "self_attn.v_proj": (kv, n),
            "self_attn.o_proj": (n, n), "mlp.gate_proj": (inner, n), "mlp.up_proj": (inner, n),
            "mlp.down_proj": (n, inner)}
    yield "model.embed_tokens.weight", (config["vocab_size"], n), 0.02
    for i in range(config["num_hidden_layers"]):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{i}.{norm}.weight", (n,), "one"
        for name, shape in maps.items():
            yield f"model.layers.{i}.{name}.weight", shape, 0.02
    yield "model.norm.weight", (n,), "one"
    yield "lm_head.weight", (config["vocab_size"], n), 0.02


def parameter_count(config):
    return sum(math.prod(shape) for _, shape, _ in tensors(config))


def stored(numbers, bits):
    """As float32, or rounded to bfloat16."""
    wide = array.array("f", numbers)
    if bits == 32:
        return wide.tobytes()
    words = array.array("I", wide.tobytes())
    return array.array("H", ((word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words)).tobytes()


def write_folder(folder, config, bits):
    """config.json and model.safetensors."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    size = bits // 8
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, _ in tensors(config):
        begin, end = end, end + size * math.prod(shape)
        header[name] = {"dtype": {16: "BF16", 32: "F32"}[bits], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    source = random.Random(SEED)
    largest = max(math.prod(shape) for _, shape, _ in tensors(config))
    numbers = [source.gauss(0, 0.02) for _ in range(min(PERIOD, largest))]
    period, at = stored(numbers, bits), 0
    constants = {"one": stored([1.0], bits), "zero": stored([0.0], bits)}
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape, deviation in tensors(config):
            left = size * math.prod(shape)
            if deviation in constants:
                file.write(constants[deviation] * math.prod(shape))
                continue
            while left > 0:
                part = period[at : at + left]
                file.write(part)
                left -= len(part)
                at = (at + len(part)) % len(period)


def write_text(path, count):
    """So many bytes of invented words, frequent ones and rare ones."""
    source = random.Random(SEED)
    words = ["".join(source.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(source.randint(2, 9)))
             for _ in range(2000)]
    weights = [1 / (i + 1) for i in range(len(words))]
    text = ""
    while len(text) < count:
        text += " ".join(source.choices(words, weights, k=1000)) + "\n"
    with open(path, "w") as file:
        file.write(text[:count])


# What follows is parallel/tensor/random.cc and parallel/data/loader.cc.

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def philox(counter, key):
    """One block of Philox-4x32-10."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & M32, p0 >> 32 ^ c[3] ^ k1, p0 & M32]
        k0, k1 = k0 + 0x9E3779B9 & M32, k1 + 0xBB67AE85 & M32
    return c


def stream_of(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & M64
    return value


def bits_of(seed, name, index):
    stream = stream_of(name)
    high, low, *_ = philox((index & M32, index >> 32, stream & M32, stream >> 32), (seed & M32, seed >> 32))
    return high << 32 | low


def permuted(seed, name, size, index):
    half = 1
    while 1 << 2 * half < size:
        half += 1
    mask, position = (1 << half) - 1, index
    while True:
        left, right = position >> half, position & mask
        for turn in range(4):
            left, right = right, left ^ bits_of(seed, name, turn << 56 | right) & mask
        position = left << half | right
        if position < size:
            return position


def window_start(tokens, context, number, seed=SEED):
    """Where sample `number` begins, of a text of so many bytes whose last twentieth is not learned."""
    size = tokens - tokens // 20
    windows = max(1, (size - context) // context)
    epoch = number // windows
    offset = bits_of(seed, "offset", epoch) * min(context, size - windows * context) >> 64
    return permuted(seed, f"epoch {epoch}", windows, number % windows) * context + offset
