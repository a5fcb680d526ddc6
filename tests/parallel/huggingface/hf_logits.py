#!/usr/bin/env python3
"""Models of Hugging Face's library `transformers` against ours.

    python3 hf_logits.py make .                 writes small random models as folders here, each with its
                                                logits (logits.txt); made with transformers 5.23.0
    python3 hf_logits.py compare FOLDER FILE    runs the model of any folder on the ids below, in float32,
                                                and fails unless its logits are those of the file

logits.txt: for each of the ids, in float32, one logit for each token of the vocabulary, a row a line.
"""

import pathlib
import sys

import torch
import transformers

IDS = [[(7 * t + t * t + 3) % 29 for t in range(12)]]
# Of float32's rounding in sums of these lengths; the logits are of the order of 1.
BOUND = 2e-5


def gpt2():
    config = transformers.GPT2Config(vocab_size=29, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None)
    return transformers.GPT2LMHeadModel(config)


def llama(vocab_size=29, **more):
    config = transformers.LlamaConfig(
        vocab_size=vocab_size, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-6, bos_token_id=None, eos_token_id=None, **more)
    return transformers.LlamaForCausalLM(config)


def mixtral():
    config = transformers.MixtralConfig(
        vocab_size=29, hidden_size=16, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=32, num_local_experts=4, num_experts_per_tok=2, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        bos_token_id=None, eos_token_id=None)
    return transformers.MixtralForCausalLM(config)


# A folder's name, its model, and what save_pretrained() is told.
MODELS = {
    "gpt2": (gpt2, torch.float32, {}),
    "llama": (llama, torch.float32, {"max_shard_size": 9000}),
    "llama-tied": (lambda: llama(tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 500.0}), torch.bfloat16, {}),
    "llama-half": (lambda: llama(tie_word_embeddings=True), torch.float16, {}),
    "llama-bytes": (lambda: llama(vocab_size=256, tie_word_embeddings=True), torch.bfloat16, {}),
    "mixtral": (mixtral, torch.float32, {}),
}


def logits_of(model):
    with torch.no_grad():
        return model.to(torch.float32).eval()(torch.tensor(IDS)).logits[0]


def make(folder):
    for number, (name, (build, dtype, how)) in enumerate(MODELS.items()):
        torch.manual_seed(number)
        model = build()
        for parameter in model.parameters():  # values that matter everywhere: biases too
            torch.nn.init.normal_(parameter, mean=0.1, std=0.3)
        model = model.to(dtype)
        model.save_pretrained(folder / name, **how)
        (folder / name / "generation_config.json").unlink(missing_ok=True)
        if name == "llama-bytes":  # to be trained on
            continue
        rows = [" ".join(f"{value:.9g}" for value in row) for row in logits_of(model).tolist()]
        (folder / name / "logits.txt").write_text("\n".join(rows) + "\n")


def compare(folder, file):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    theirs = logits_of(model)
    ours = torch.tensor([[float(value) for value in line.split()] for line in pathlib.Path(file).read_text().splitlines()])
    if ours.shape != theirs.shape:
        sys.exit(f"ours are {tuple(ours.shape)}, theirs {tuple(theirs.shape)}")
    difference = (ours - theirs).abs().max().item()
    print(f"{type(model).__name__}: the largest difference is {difference:.3g}, the largest logit {theirs.abs().max().item():.3g}")
    if not difference <= BOUND * max(1.0, theirs.abs().max().item()):
        sys.exit(f"that is more than {BOUND} of it")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(pathlib.Path(sys.argv[2]))
    else:
        compare(sys.argv[2], sys.argv[3])
