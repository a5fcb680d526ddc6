"""Trainings by train_gpt and by PyTorch, in turns, on one GPU: GPT-2 124M, and of Llama 3 8B as many layers as fit.

    train_speed.py TRAIN_GPT --out FOLDER [--device cuda|emulated|host] [--python PYTHON] [--models gpt2,llama]
                   [--seconds N] [--steps N] [--turns N] [--peak-flops F] [--memory BYTES] [--tiny] [--on-cpu]

Both begin with the same weights (a Hugging Face folder that is made), see the same windows of the same text
in the same order, with the same learning rates, batch and precision: bfloat16, with float32 weights that are
updated. Of PyTorch that is torch_training.py by PYTHON. Printed are for each model tokens a second of the
median step, the first ones of each run left out; MFU, whose formula docs/explanation/training-state.md gives (train_gpt
prints it), of the peak that is given or known for the GPU's name; the ratio of PyTorch's time to ours; and
both loss curves, which FOLDER/loss_MODEL.csv has whole. Where PyTorch is not there, ours alone.

Of the Llama an estimate of how many layers fit is measured first, then more or fewer of them, each in a row of its
own; below the table is how many fit, by both programs, and how many were found not to. That ends after some tries,
and where less of the time is left than the try before took.

The text is of bytes, so ids are below 256. The exit status is 1 where a program fails, a loss does not fall,
or the two curves are apart. --tiny is for trying it out: a model of each kind that the host trains in seconds.
"""

import argparse
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

import training_data

# bfloat16, dense, by the words of nvidia-smi; the first that fits.
PEAKS = [("H100 PCIe", 756e12), ("H100 NVL", 835e12), ("H100", 989.4e12), ("H200", 989.4e12), ("A100", 312e12)]
WARM_UPS = 3  # steps of each run: what is compiled and allocated
# Of a Llama: all layers that there are, the fewest that are tried where memory is short, and how many sizes at most.
WHOLE, LEAST, TRIES = 32, 3, 6

# Of two runs from the same weights the first loss is the same but for what bfloat16 rounds: each logit by a few
# times 2^-9 of numbers of about 1, before the mean over the batch. Later ones are of weights that differ as much
# as Adam makes of gradients' roundings. A gradient that lacks a part shows within some steps.
FIRST_APART, LATER_APART = 0.005, 0.05


class Failed(Exception):
    pass


class NoMemory(Failed):
    """Of the GPU."""


def asked(query):
    """What nvidia-smi says of the first GPU; empty where there is none."""
    try:
        said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        return said.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ""


def peak_of(name):
    return next((peak for words, peak in PEAKS if words in name), 0)


def layers_that_fit(memory):
    """Of Llama 3 8B, with 4096 tokens in a step: 18 bytes a parameter, of weights in two types, gradients and
    moments; a layer's activations and, once, those of logits; and a seventh of the memory for what else there is."""
    whole, one = (training_data.parameter_count(training_data.llama(n)) for n in (2, 1))
    of_layer = 18 * (whole - one) + 1.2e9
    return int((0.86 * memory - 6e9 - 18 * (2 * one - whole)) / of_layer)


def largest(first, most, measure):
    """How many layers of a Llama fit, 0 where none were found to, and the fewest that do not, None where all did that
    were tried. From an estimate: more by an eighth, or fewer by a quarter, until it is between two; then between these.
    measure(layers) says whether they fit, and None where it is to be the last."""
    fits, fails, layers = 0, None, first
    for _ in range(TRIES):
        fit = measure(layers)
        if fit is None:
            break
        if fit:
            fits = layers
        else:
            fails = layers
        if fits == 0:
            layers = layers * 3 // 4
        elif fails is None:
            layers = min(most, fits + max(1, fits // 8))
        else:
            layers = (fits + fails) // 2
        if layers <= fits or layers < LEAST:
            break
    return fits, fails


def layers_of(config):
    return config["n_layer"] if "n_layer" in config else config["num_hidden_layers"]


def models(o):
    """(name, config, bits of its folder, batch, context) of each that is asked for; of a Llama the first to try."""
    for name in o.models.split(","):
        if name == "gpt2" and o.tiny:
            yield name, training_data.gpt2(2, 32, 2, 300, 16), 32, 4, 16
        elif name == "gpt2":
            yield name, training_data.gpt2(), 32, 16, 1024
        elif name == "llama" and o.tiny:
            yield name, training_data.llama(2, 32, 4, 2, 48, 300, 16), 16, 4, 16
        elif name == "llama":
            memory = o.memory or float(asked("memory.total") or 0) * 2**20
            yield name, training_data.llama(min(WHOLE, max(1, layers_that_fit(memory)))), 16, 2, 2048
        else:
            raise Failed(f"--models {name} is neither gpt2 nor llama")


class Model:
    """What both sides of one model read, and how they are called."""

    def __init__(self, o, folder, name, config, bits, batch, context):
        self.o, self.folder, self.name, self.batch, self.context = o, folder, name, batch, context
        self.config = config
        self.weights, self.text = os.path.join(folder, "weights"), os.path.join(folder, "text")
        training_data.write_folder(self.weights, config, bits)
        training_data.write_text(self.text, max(4096, 2 * o.steps * batch * context))
        self.runs = {"ours": [], "theirs": []}

    def metrics(self, side):
        return os.path.join(self.o.out, f"{side}_{self.name}.json")

    def run(self, side, command, seconds):
        """Its metrics; raises Failed with its last words."""
        path = self.metrics(side)
        if os.path.exists(path):
            os.remove(path)
        with open(os.path.join(self.o.out, f"{side}_{self.name}.txt"), "w+") as said:
            try:
                status = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                        timeout=max(1, seconds)).returncode
            except subprocess.TimeoutExpired:
                raise TimeoutError from None
            said.seek(0)
            text = said.read().strip()
            words = text.splitlines() or [""]
        if status != 0:
            kind = NoMemory if "out of memory" in text.lower() or "OutOfMemory" in text else Failed
            raise kind(f"{side}, {self.name}: status {status}: {words[-1][:300]}")
        with open(path) as file:
            self.runs[side].append([json.loads(line) for line in file])

    def ours(self, seconds):
        peak = ["--peak-flops", str(self.o.peak_flops)] if self.o.peak_flops else []
        kind = "float32" if self.o.on_cpu else "bfloat16"
        self.run("ours", [self.o.program, "--device", self.o.device, "--type", kind, "--init-from", self.weights,
                          "--text", self.text, "--context", str(self.context), "--batch", str(self.batch),
                          "--micro-batches", "1", "--steps", str(self.o.steps), "--lr", "0.0003", "--seed",
                          str(training_data.SEED), "--generate", "0", "--json", self.metrics("ours"), *peak], seconds)

    def theirs(self, seconds):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_training.py")
        self.run("theirs", [self.o.python, script, "--folder", self.weights, "--text", self.text, "--context",
                            str(self.context), "--batch", str(self.batch), "--steps", str(self.o.steps), "--like",
                            self.metrics("ours"), "--json", self.metrics("theirs"),
                            *(["--on-cpu", "--no-compile"] if self.o.on_cpu else [])], seconds)

    def step_seconds(self, side):
        times = sorted(line["step_seconds"] for run in self.runs[side] for line in run[WARM_UPS:])
        return times[len(times) // 2] if times else 0

    def flops_per_token(self):
        """As train_gpt counts them."""
        c = self.config
        width = c["n_embd"] if "n_embd" in c else c["hidden_size"]
        return 6 * training_data.parameter_count(c) + 12 * layers_of(c) * width * self.context


def curves_of(model, turn):
    """Ours and PyTorch's, which is empty where that was not measured."""
    return [[line["loss"] for line in runs[turn]] if turn < len(runs) else []
            for runs in (model.runs["ours"], model.runs["theirs"])]


def report(model):
    """The rows of a model, and its curves."""
    tokens, peak = model.batch * model.context, model.o.peak_flops
    parameters = training_data.parameter_count(model.config)
    name = f"{model.name}, {layers_of(model.config)} layers, {parameters / 1e6:.1f} million parameters, " \
           f"batch {model.batch} x {model.context}"
    cells = []
    for side in ("ours", "theirs"):
        seconds = model.step_seconds(side)
        rate = tokens / seconds if seconds else 0
        mfu = f" ({100 * rate * model.flops_per_token() / peak:.1f}% MFU)" if peak and rate else ""
        cells.append(f"{rate:.0f}{mfu}" if rate else "not measured")
    both = model.step_seconds("ours") and model.step_seconds("theirs")
    ratio = f"{model.step_seconds('theirs') / model.step_seconds('ours'):.3f}" if both else ""
    print(f"| {name} | {cells[0]} | {cells[1]} | {ratio} |")
    curves = curves_of(model, 0)
    with open(os.path.join(model.o.out, f"loss_{model.name}.csv"), "w") as file:
        file.write("step,ours,theirs\n")
        for i, (a, b) in enumerate(itertools.zip_longest(*curves)):
            file.write(f"{i + 1},{'' if a is None else f'{a:.6f}'},{'' if b is None else f'{b:.6f}'}\n")
    return curves


def check(model, ours, theirs):
    if not ours or not all(map(math.isfinite, ours)) or not ours[-1] < ours[0]:
        raise Failed(f"{model.name}: our loss does not fall: {ours}")
    if theirs and len(theirs) != len(ours):
        raise Failed(f"{model.name}: {len(ours)} losses of ours, and {len(theirs)} of PyTorch's")
    for step, (a, b) in enumerate(zip(ours, theirs)):
        if not abs(a - b) <= (FIRST_APART if step == 0 else LATER_APART) * b:
            raise Failed(f"{model.name}: at step {step + 1} our loss is {a:.4f}, and PyTorch's {b:.4f}")


def curve_text(losses):
    chosen = sorted({0, len(losses) // 4, len(losses) // 2, len(losses) - 1}) if losses else []
    return ", ".join(f"{i + 1}: {losses[i]:.3f}" for i in chosen)


def has_torch(python):
    try:
        return subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def train(o, model, end, torch_there):
    """Turns of both; whether there was time for all, and what is said of what was left out. Where PyTorch fails, which
    may lack a compiler, ours goes on."""
    why = "" if torch_there else f"{o.python} has no PyTorch"
    try:
        for turn in range(o.turns):
            model.ours(end - time.monotonic())
            if why:
                continue
            try:
                model.theirs(end - time.monotonic())
            except NoMemory:
                raise
            except Failed as error:
                why, model.runs["theirs"] = str(error), []
    except TimeoutError:
        what = f"training {model.name} of {layers_of(model.config)} layers"
        return False, [f"{what}: not measured: no time left in turn {turn + 1} of {o.turns}"]
    return True, [f"training {model.name} against PyTorch: not measured: {why}"] if why else []


class Measurements:
    """Of all models: what is printed below the table, and what fails the program."""

    def __init__(self, o):
        self.o, self.end, self.torch_there = o, time.monotonic() + o.seconds, has_torch(o.python)
        self.curves, self.left, self.failed = {}, {}, []

    def measure(self, name, config, *others):
        """Prints its row. Whether it fits; None where it failed otherwise, or the time is over."""
        folder = tempfile.mkdtemp(prefix="tutti-train-speed-")
        try:
            model = Model(self.o, folder, name, config, *others)
            is_whole, self.left[name] = train(self.o, model, self.end, self.torch_there)
            if model.runs["ours"]:
                ours, theirs = report(model)
                self.curves[name] = [f"loss of {name}, ours: {curve_text(ours)}"]
                self.curves[name] += [f"loss of {name}, PyTorch's: {curve_text(theirs)}"] if theirs else []
                for turn in range(len(model.runs["ours"])):
                    check(model, *curves_of(model, turn))
            return True if is_whole else None
        except NoMemory:
            raise
        except (Failed, OSError) as error:
            self.failed.append(str(error))
            return None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            sys.stdout.flush()

    def measure_largest(self, name, config, *others):
        """Of Llamas with more layers, or with fewer."""
        first, took, why = config["num_hidden_layers"], 0, ""

        def measure(layers):
            nonlocal took, why
            began = time.monotonic()
            if self.end - began < took:
                return None
            try:
                return self.measure(name, {**config, "num_hidden_layers": layers}, *others)
            except NoMemory as error:
                why = str(error)
                return False
            finally:
                took = time.monotonic() - began

        fits, fails = largest(first, first + 1 if self.o.tiny else WHOLE, measure)
        if fits == 0 and fails:
            self.failed.append(why)
        elif fits:
            more = f", and {fails} do not" if fails else ""
            self.left[name] = [f"layers of {name}: {fits} fit{more}", *self.left[name]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--models", default="gpt2,llama")
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--peak-flops", type=float, default=0)
    parser.add_argument("--memory", type=float, default=0)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--on-cpu", action="store_true")
    o = parser.parse_intermixed_args()
    if o.steps <= WARM_UPS:
        parser.error(f"--steps {o.steps}: the first {WARM_UPS} are not timed")
    o.peak_flops = o.peak_flops or peak_of(asked("name"))
    os.makedirs(o.out, exist_ok=True)
    all_of = Measurements(o)
    print("| training | tokens/s | PyTorch's | ratio |\n|---|---|---|---|", flush=True)
    for each in list(models(o)):
        try:
            (all_of.measure_largest if each[0] == "llama" else all_of.measure)(*each)
        except NoMemory as error:
            all_of.failed.append(str(error))
    print("\n" + "\n".join(itertools.chain(*all_of.curves.values(), *all_of.left.values())))
    for why in all_of.failed:
        print(f"train_speed.py: error: {why}", file=sys.stderr)
    return 1 if all_of.failed else 0


if __name__ == "__main__":
    sys.exit(main())
