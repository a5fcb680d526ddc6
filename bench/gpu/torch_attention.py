"""AttentionForward by this library and by PyTorch's scaled_dot_product_attention, in turns, on one GPU.

    torch_attention.py ATTENTION_SPEED [--seconds N] [--turns N] [--on-cpu] [SHAPE ...]

ATTENTION_SPEED is the program of that name, whose comment says what a shape is; it checks our kernels.
Of PyTorch the fastest of its backends is taken, for forward and backward each, on tensors of [batch,
context, heads, width], as models have them; backward gives the gradients of queries, keys and values.
The table has the ratio of medians, above 1 where ours is faster. --on-cpu has PyTorch work on the
host, to try out this script. The exit status is 1 if a kernel of ours is wrong or a program ends.
"""

import argparse
import math
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

TURN_SECONDS = 2e-3


class WorkerEnded(Exception):
    """It has said why: a kernel was wrong, for one."""


class Worker:
    """Our side, which is blocked while PyTorch has its turn."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "--obey", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise WorkerEnded(f"attention_speed ended at {line}, with status {self.process.wait()}")
        return [float(word) for word in answer.split()]


def seconds_of(call, count, on_cpu):
    if on_cpu:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - begin) / count
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / count


class Turns:
    """Calls of one kind of PyTorch's, as many in a turn as take about TURN_SECONDS."""

    def __init__(self, call, on_cpu):
        self.call, self.on_cpu = call, on_cpu
        call()
        once = seconds_of(call, 1, on_cpu)
        self.count = max(1, min(200, int(TURN_SECONDS / max(once, 1e-6))))

    def microseconds(self):
        return 1e6 * seconds_of(self.call, self.count, self.on_cpu)


def calls_of(shape, backend, device):
    """forward and backward by that backend; RuntimeError where it cannot."""
    sizes, kind = shape.split(":")
    batch, heads, width, context = map(int, sizes.split("x"))
    tensors = [torch.randn(batch, context, heads, width, device=device, dtype=torch.bfloat16) for _ in range(4)]
    q, k, v, gradient = (x.transpose(1, 2) for x in tensors)
    for x in (q, k, v):
        x.requires_grad_()

    def forward():
        with sdpa_kernel([backend]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=kind == "causal")

    out = forward()

    def forward_alone():
        with torch.no_grad():
            forward()

    def backward():
        torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)

    return {"forward": forward_alone, "backward": backward}


def fastest(shape, on_cpu):
    """Of forward and backward: the turns of the backend that is fastest, and its name."""
    backends = [SDPBackend.MATH]
    if not on_cpu:
        backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    best, reasons = {}, []
    for backend in backends:
        try:
            for direction, call in calls_of(shape, backend, "cpu" if on_cpu else "cuda").items():
                turns = Turns(call, on_cpu)
                took = min(turns.microseconds() for _ in range(3))
                if direction not in best or took < best[direction][0]:
                    best[direction] = (took, turns, backend.name.lower().replace("_attention", ""))
        except RuntimeError as error:
            reasons.append(f"{backend.name}: {error}")
    if len(best) < 2:
        raise RuntimeError(f"no backend of PyTorch computes {shape}: {'; '.join(reasons)}")
    return best


def median(values):
    return sorted(values)[len(values) // 2]


def measure(worker, shape, turns, on_cpu):
    """The ratio of each direction."""
    operations = dict(zip(("forward", "backward"), worker.ask(shape)))
    ratios = {}
    for direction, (_, theirs, backend) in fastest(shape, on_cpu).items():
        times = [], []
        for _ in range(turns):
            times[0].append(worker.ask(direction)[0])
            times[1].append(theirs.microseconds())
        ours, torchs = map(median, times)
        ratios[direction] = torchs / ours
        rate = operations[direction] / 1e6
        print(f"| {shape} {direction} | {rate / ours:.1f} | {rate / torchs:.1f} ({backend}) | {torchs / ours:.3f} |",
              flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--on-cpu", action="store_true")
    o = parser.parse_intermixed_args()
    shapes = o.shapes or subprocess.run([o.program, "--list", "1"], stdout=subprocess.PIPE, text=True,
                                        check=True).stdout.split()
    end = time.monotonic() + o.seconds
    worker = Worker(o.program)
    print(f"PyTorch {torch.__version__}\n\n| attention | TFLOP/s | PyTorch | ratio |\n|---|---|---|---|")
    ratios, left = {}, []
    for shape in shapes:
        if time.monotonic() >= end:
            left.append(shape)
            continue
        try:
            for direction, ratio in measure(worker, shape, o.turns, o.on_cpu).items():
                ratios[f"{shape} {direction}"] = ratio
        except RuntimeError as error:  # no memory, or no backend
            print(f"attention {shape}: not measured: {str(error).splitlines()[0]}")
        if not o.on_cpu:
            torch.cuda.empty_cache()
    worker.process.stdin.close()
    if ratios:
        worst = min(ratios, key=ratios.get)
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        print(f"\nattention, PyTorch's time over ours: geometric mean {mean:.3f} over {len(ratios)}, "
              f"worst {ratios[worst]:.3f} of {worst}")
    if left:
        print(f"attention from {left[0]} on: not measured: no time left, {len(left)} of {len(shapes)}")
    return worker.process.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WorkerEnded as error:
        sys.exit(f"torch_attention.py: error: {error}")
