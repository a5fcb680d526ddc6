"""Times the backend `tutti` of torch.distributed and Gloo in turns, on ranks of one host: compare.py --ranks 2

Each block times one backend and then the other, in an order that changes from block to block, so that both see the same
machine. Of each block the ratio of the two times counts: above 1, Tutti is faster. The table has the median of the
ratios, and an interval that holds it with 95 % confidence. With fewer than 6 blocks no interval holds it with that:
it is that of the least and the greatest ratio then, and the title names its confidence. --json FILE writes all of it
("-": standard output).
"""

import argparse
import json
import math
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

import training

MIB = 1 << 20
SIZES = [8, 1 << 10, 32 << 10, MIB, 16 * MIB, 256 * MIB]
BACKENDS = ("tutti", "gloo")


def calls(size, ranks, group):
    """Of each collective a call of `size` bytes: of the tensor that is the same on all ranks, or is cut into shares."""
    count = max(1, size // 4)
    share = max(1, count // ranks)
    whole, part = torch.ones(share * ranks), torch.ones(share)
    same, other = torch.ones(count), torch.empty(share * ranks)
    return {
        "all_reduce": lambda: dist.all_reduce(same, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "broadcast": lambda: dist.broadcast(same, 0, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
        "barrier": lambda: dist.barrier(group=group),
    }


def time_of(call, repeats, group):
    """Seconds of one call, on the slowest rank."""
    call()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    own = torch.tensor([(time.perf_counter() - begin) / repeats], dtype=torch.float64)
    dist.all_reduce(own, dist.ReduceOp.MAX, group=group)
    return own.item()


def repeats_for(call, group, seconds):
    """As many as take that long, the same on all ranks."""
    call()
    return max(1, min(2000, math.ceil(seconds / max(time_of(call, 1, group), 1e-6))))


def in_turns(measures, blocks):
    """Of each backend one number per block."""
    results = {backend: [] for backend in BACKENDS}
    for block in range(blocks):
        for backend in BACKENDS if block % 2 == 0 else reversed(BACKENDS):
            results[backend].append(measures[backend]())
    return results


def confidence(blocks):
    """Of the interval, in percent: of fewer than 6 ratios even the least and the greatest hold the median with less."""
    return min(95.0, 100 * (1 - 2 * 0.5**blocks))


def summary(ratios):
    """The median, and the interval of it with confidence() by order statistics."""
    ordered, count = sorted(ratios), len(ratios)
    chance, below = 0.5**count, 0
    total = chance
    while total <= 0.025 and below < count // 2:
        below += 1
        chance *= (count - below + 1) / below
        total += chance
    low = max(0, below - 1)
    return statistics.median(ordered), ordered[low], ordered[count - 1 - low]


def compare(name, size, measures, blocks):
    times = in_turns(measures, blocks)
    ratio, low, high = summary([gloo / tutti for tutti, gloo in zip(times["tutti"], times["gloo"])])
    return {
        "collective": name, "bytes": size, "ratio": ratio, "low": low, "high": high, "blocks": blocks, "confidence": confidence(blocks),
        "tutti_us": statistics.median(times["tutti"]) * 1e6, "gloo_us": statistics.median(times["gloo"]) * 1e6,
    }  # fmt: skip


def collectives(arguments, groups):
    for name in arguments.collectives:
        for size in [0] if name == "barrier" else arguments.sizes:
            measures = {}
            for backend, group in groups.items():
                call = calls(max(size, 4), arguments.ranks, group)[name]
                repeats = repeats_for(call, groups["gloo"], arguments.seconds)
                measures[backend] = lambda call=call, repeats=repeats: time_of(call, repeats, groups["gloo"])
            yield compare(name, size, measures, arguments.blocks)


def trainings(arguments, groups):
    """Tokens per second of DDP: as times of a step, so that above 1 is faster here too."""
    measures = {backend: training.steps(group, groups["gloo"]) for backend, group in groups.items()}
    yield compare("ddp step", training.parameter_bytes(), measures, arguments.blocks) | {
        "tokens_per_step": training.TOKENS * arguments.ranks
    }


def show(row):
    size = f"{row['bytes']:>12}" if row["bytes"] else " " * 12
    line = f"{row['collective']:15} {size} {row['tutti_us']:12.1f} {row['gloo_us']:12.1f}"
    print(f"{line} {row['ratio']:8.2f} {row['low']:6.2f} to {row['high']:.2f}", flush=True)


def rank_main(rank, arguments, port, results):
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, arguments.ranks, is_master=rank == 0, wait_for_workers=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=arguments.ranks)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    rows = []
    if rank == 0 and arguments.json != "-":
        print(f"{'':15} {'bytes':>12} {'tutti us':>12} {'gloo us':>12} {'ratio':>8} {confidence(arguments.blocks):.3g} % interval", flush=True)
    for source in (collectives, trainings):
        for row in source(arguments, groups):
            rows.append(row)
            if rank == 0 and arguments.json != "-":
                show(row)
    if rank == 0:
        results.send(rows)
    dist.barrier()
    dist.destroy_process_group()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=11, help="pairs of measurements of each row (default 11)")
    parser.add_argument("--seconds", type=float, default=0.05, help="of one measurement (default 0.05)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="BYTES")
    names = list(calls(8, 1, None))
    parser.add_argument("--collectives", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    import tutti.torch  # before the ranks are forked: it is compiled once

    port_holder = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)
    port = port_holder.port
    del port_holder
    results, to_results = multiprocessing.get_context("fork").Pipe(duplex=False)
    ranks = multiprocessing.start_processes(
        rank_main, (arguments, port, to_results), nprocs=arguments.ranks, start_method="fork", join=False
    )
    rows = []
    while not ranks.join(timeout=0.1):  # raises if a rank dies
        if not rows and results.poll():
            rows = results.recv()
    rows = rows or results.recv()
    if arguments.json:
        text = json.dumps({"ranks": arguments.ranks, "torch": torch.__version__, "cores": os.cpu_count(), "rows": rows}, indent=1)
        if arguments.json == "-":
            print(text)
        else:
            with open(arguments.json, "w") as file:
                file.write(text + "\n")
    del tutti


if __name__ == "__main__":
    sys.exit(main())
