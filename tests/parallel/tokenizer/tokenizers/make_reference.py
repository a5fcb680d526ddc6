#!/usr/bin/env python3
"""Small tokenizers, and the ids that Hugging Face's library `tokenizers` gives texts.

    python3 make_reference.py .          writes gpt2.json, llama3.json, qwen2.json and texts.json

The tokenizers are trained on the lines below, so that their merges cross into other scripts; they have
the pre-tokenization, the added tokens and the two ways of writing merges that the models have whose
names they bear. texts.json: for each text its ids under each tokenizer, as
`encode(text, add_special_tokens=False)` gives them. Made with tokenizers 0.23.3.
"""

import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't care that the fox is quick.",
    "All ranks see the same bits: the sum of the gradients is the gradient of the sum.",
    "We've said that they'll come; I'm sure he'd say it's theirs, and you're right that WE'LL see.",
    "def function(x):\n    if x > 10:\n        return x * 100\n    return 1000\n",
    "In 1969, 12345 people and 678 others paid $3.14 for it -- 100% of 2026!",
    "Der Fuß drückt, die Straße ist naß; größere Äpfel überall.",
    "Où est l'élève? Là-bas, à côté du café.",
    "Привет, мир! Это простой текст на русском языке.",
    "你好，世界。这是一个简单的句子。",
    "こんにちは世界。これは簡単な文です。",
    "नमस्ते दुनिया। यह एक सरल वाक्य है।",
    "😀😀 👍🏽 👨‍👩‍👧‍👦 🇩🇪🇫🇷 ❤️",
]

HARD = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\n ", "\r\n", "\r\n\r\n  x", "\t", "\t\tx", " \t \n x",
    "a", " a", "  a", "a ", "a  ", "a  b", "a   b", "a\nb", "a\n\nb", "a \n b", "a.\n\nb", "!!\n\n", " !!\n",
    "'s", "it's", "IT'S", "It'S we'LL they'Re I'M he'D've", "'tis 'twas ''s ''", "don't can't won't 'x 'sx", "l'été",
    "'\u017f \u0130's \u212a", "word" * 40, "a" * 300, " " * 300, "\n" * 300, "ab" * 200 + "!",
    "1", "12", "123", "1234", "1234567890", "x1y22z333", "\u0661\u0662\u0663\u0664", "\u00bd\u00b2\u2167\u2460", "3.14e-10",
    "\u00e9 e\u0301 \u1e9b\u0323", "o\u0308\u0304\u0323\u0301", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f44d\U0001f3fd!", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f \u2764",
    "\U00020000\U0002a6d6", "\U0010ffff\U0010fffd", "\ue000\uf8ff", "\ufeffx", "\ufffd",
    "\u00a0x\u00a0\u00a0y", "\u1680\u2000\u2003x", "\u180e\u180ex", "\u2028\u2029x", "\u202f\u205f\u3000x \u3000", "\u200b\u200bx", "\u0085\u0085x", "\x0b\x0cx",
    "\x00", "a\x00b", "\x01\x02\x1b[31m\x7f", "\x1c\x1d\x1e\x1f x", "\u0080\u009f",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|endoftext|", "<|endoftext |>",
    "<|a|><|a|>b<|a|", "x<|wide token|>y", "\u2192\u2192 arrows \u2192", "<tool>a</tool>",
    "\u0120the \u010a \u0122", "#include <vector>\nint main() { return 0; }\n", "http://example.org/a?b=c&d=%20#e", "-----\n=====\n*****", "A_B__C", "\\n\\t",
]

PIECES = ["the", " the", "'s", "'LL", " ", "  ", "\n", "\r\n", "\t", "1", "23", "4567", ".", "!?", "\u00e9", "e\u0301", "\u4f60\u597d", "\U0001f600", "\u200d", "\ufe0f", "\u3000", "\u00a0", "\u2028", "\u0085", "\u180e", "\u0661", "\u2460", "\u043f\u0440\u0438", "\u0948", "_", "-", "\x00", "<|endoftext|>", "<|a|>", "<|", "|>", "Q", "zx"]


def trained(pre_tokenizer, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(CORPUS * 2, trainer)
    return tokenizer


def gpt2():
    tokenizer = trained(pre_tokenizers.ByteLevel(add_prefix_space=False), 430)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=True, special=True)])
    tokenizer.add_tokens([AddedToken("<|a|>", normalized=False), AddedToken("<|a|><", normalized=False)])
    tokenizer.add_tokens([AddedToken("<|wide token|>", normalized=True), AddedToken("\u2192", normalized=True)])
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


def with_whole_words(tokenizer):
    """Its model takes whole words as they are, also those that no merge makes."""
    content = json.loads(tokenizer.to_str())
    model = content["model"]
    model["ignore_merges"] = True
    for word in ["xyzzy", " plugh", "\u00c4pfel"]:
        (spelled, _), = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(word)
        model["vocab"][spelled] = len(model["vocab"])
    return Tokenizer.from_str(json.dumps(content))


def llama3():
    tokenizer = with_whole_words(trained(split(LLAMA3), 400))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|endoftext|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B", special_tokens=[("<|begin_of_text|>", begin)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def qwen2():
    tokenizer = trained(split(QWEN2), 330)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def save(folder, name, tokenizer):
    content = json.loads(tokenizer.to_str())
    if name == "gpt2":  # as GPT-2's own file has it
        model = content["model"]
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
        del model["type"], model["byte_fallback"], model["ignore_merges"]
    text = json.dumps(content, ensure_ascii=False, indent=0)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return Tokenizer.from_str(text)


def texts():
    chance = random.Random(7)
    mixed = ["".join(chance.choice(PIECES) for _ in range(chance.randint(2, 14))) for _ in range(150)]
    return CORPUS + HARD + ["xyzzy plugh xyzzys plughs", " nothing happens xyzzy"] + mixed


def main():
    folder = pathlib.Path(sys.argv[1])
    tokenizers = {name: save(folder, name, make()) for name, make in (("gpt2", gpt2), ("llama3", llama3), ("qwen2", qwen2))}
    rows = []
    for text in texts():
        row = {"text": text}
        for name, tokenizer in tokenizers.items():
            row[name] = tokenizer.encode(text, add_special_tokens=False).ids
        rows.append(row)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (folder / "texts.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
