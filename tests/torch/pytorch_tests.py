"""Runs PyTorch's own distributed tests, those that its wheel ships, over our library: libnccl.so.2 on emulated GPUs, or
the backend `tutti` in the place of Gloo on the CPU.

pytorch_tests.txt, or pytorch_tests_tutti.txt, says of each test whether it passes, and why not. Those that it omits do not run. This program runs
the others, and fails where one does something else than the list says, or is not in it. --only PATTERN runs those whose
names match it; --record FILE writes what becomes of each.
"""

import argparse
import gc
import os
import pathlib
import re
import sys
import time
import unittest

import torch
import torch.distributed
import torch.utils._triton

HERE = pathlib.Path(__file__).parent
SECONDS_OF_A_TEST = 240
DEVICES = int(os.environ.get("TUTTI_EMULATION_DEVICES", "4"))


def prepare(ranks, backend):
    """What PyTorch's files of tests do before they import their cases."""
    os.environ.update(
        BACKEND="gloo" if backend == "tutti" else "nccl", WORLD_SIZE=str(ranks), DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(SECONDS_OF_A_TEST),
        MASTER_ADDR="127.0.0.1", PYTORCH_PRINT_REPRO_ON_FAILURE="0",
    )  # fmt: skip
    if backend == "tutti":
        over_tutti()
        return
    if backend == "nccl-legacy":  # as TORCH_DIST_USE_NCCL2=0 in the environment
        torch.distributed.distributed_c10d._register_builtin_nccl_as_legacy()
    # A process that has asked CUDA for its devices may not fork ranks that use them; this one knows the number.
    torch._C._cuda_getDeviceCount = lambda: DEVICES
    torch.utils._triton.has_triton = lambda **_: False  # it looks at the device; its kernels cannot run


def over_tutti():
    """What asks for Gloo gets Tutti: the tests know no other backend of the CPU."""
    import tutti.torch

    backend = torch.distributed.Backend
    backend._plugins["GLOO"] = backend._plugins[tutti.torch.NAME.upper()]
    # PyTorch asks what it takes for Gloo for the number of its threads.
    backend.backend_type_map["gloo"] = torch.distributed.ProcessGroup.BackendType.CUSTOM


def named_as_gloo(find):
    """Events of the profiler are named after the backend, which the tests take for Gloo."""

    def found(name, *rest, **options):
        events = find(name.replace("gloo:", "tutti:"), *rest, **options)
        for event in events:
            event.name = event.name.replace("tutti:", "gloo:")
        return events

    return found


def make_class(backend):
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    common_distributed.TIMEOUT_OVERRIDE.clear()
    if backend == "tutti":
        distributed_test.get_profiling_event = named_as_gloo(distributed_test.get_profiling_event)

    class TestOverTutti(TestDistBackend, DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            # PyTorch spawns its ranks; they are forked here, so that they need not import PyTorch.
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return TestOverTutti


class Outcomes(unittest.TestResult):
    """What became of one test: `passes`, `skips` or `fails`, and why."""

    def __init__(self):
        super().__init__()
        self.outcome, self.why = "passes", ""

    def addSkip(self, test, reason):
        self.outcome, self.why = "skips", reason

    def _fail(self, test, error):
        self.outcome, self.why = "fails", self._exc_info_to_string(error, test)

    addError = addFailure = _fail


def run(test_class, name):
    outcomes = Outcomes()
    test_class(name).run(outcomes)
    return outcomes.outcome, outcomes.why


def read_list(ranks, backend):
    """Of each test with that many ranks the outcome that is expected."""
    expected = {}
    file = HERE / ("pytorch_tests_tutti.txt" if backend == "tutti" else "pytorch_tests.txt")
    for line in file.read_text().splitlines():
        if line and not line.startswith("#"):
            name, of_ranks, *outcomes, _ = (field.strip() for field in line.split("|"))
            if int(of_ranks) == ranks:
                expected[name] = outcomes[backend == "nccl-legacy"]
    return expected


def names_of_all():
    from torch.testing._internal.distributed.distributed_test import DistributedTest

    return [name for name in dir(DistributedTest._DistTestBase) if name.startswith("test_")]


def in_short(why):
    """The last line with an error's name, and the two after it."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    errors = [index for index, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception|Skip)\b", line)]
    first = errors[-1] if errors else len(lines) - 1
    return " ".join(lines[first : first + 3])[:200].replace("|", "/")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--backend", choices=("nccl", "nccl-legacy", "tutti"), default="nccl")
    parser.add_argument("--only", default="")
    parser.add_argument("--record", metavar="FILE", type=pathlib.Path)
    return parser.parse_args()


def record(test_class, names, file):
    """Writes what becomes of each test, for a new list."""
    with open(file, "w", buffering=1) as lines:
        for name in names:
            outcome, why = run(test_class, name)
            lines.write(f"{name} | {outcome} | {in_short(why)}\n")


def check(test_class, expected, only):
    """The tests that do something else than the list says, and how many did what."""
    wrong, counts = [], {"passes": 0, "skips": 0, "fails": 0, "omitted": 0}
    for name in (name for name in sorted(expected) if re.search(only, name)):
        if expected[name] == "omitted":
            counts["omitted"] += 1
            continue
        start = time.monotonic()
        outcome, why = run(test_class, name)
        counts[outcome] += 1
        print(f"{outcome:6} {name} ({time.monotonic() - start:.2f} s)", flush=True)
        if outcome != expected[name]:
            wrong.append(f"{name} {outcome}; the list says that it {expected[name]}")
            print(why, flush=True)
    return wrong, counts


def unlisted(expected, ranks):
    """With two ranks the list has every test of PyTorch's class."""
    if ranks != 2:
        return []
    names = set(names_of_all())
    return [f"{name} is not in the list" for name in sorted(names - set(expected))] + [
        f"{name} is in the list, and PyTorch has no such test" for name in sorted(set(expected) - names)
    ]


def main():
    arguments = parse_arguments()
    registrations = None
    if arguments.backend != "tutti":
        import cpu_operations

        registrations = cpu_operations.install()
    prepare(arguments.ranks, arguments.backend)
    test_class = make_class(arguments.backend)
    gc.freeze()
    if arguments.record:
        record(test_class, [name for name in names_of_all() if re.search(arguments.only, name)], arguments.record)
        return
    expected = read_list(arguments.ranks, arguments.backend)
    wrong, counts = check(test_class, expected, arguments.only)
    wrong += unlisted(expected, arguments.ranks)
    del registrations
    print(f"{sum(counts.values())} tests of PyTorch with {arguments.ranks} ranks of {arguments.backend}: {counts}")
    for line in wrong:
        print(f"failed: {line}")
    if wrong or not any(counts.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
