"""What a case is: a function that every rank runs, and how its results are compared."""

import contextlib
import dataclasses
import functools
import os
from typing import Callable

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

# What a case may take on a busy machine. Most take a tenth of a second.
SECONDS = 60
# The implementations: three of PyTorch over libnccl.so.2, on emulated GPUs, and the backend `tutti`, on the CPU.
OVER_NCCL = ("nccl", "nccl-legacy", "nccl-lazy")
ALL = OVER_NCCL + ("tutti",)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    run: Callable
    ranks: tuple = (2, 4)  # the numbers of ranks that it runs with
    backends: tuple = ALL  # the implementations that it runs with
    alone: bool = False  # in processes of its own, without a process group
    dies: tuple = ()  # ranks that end with another status than 0
    says: dict = dataclasses.field(default_factory=dict)  # of ranks the texts of which they say one; needs alone
    seconds: int = SECONDS


def over_tutti():
    """Whether the backend `tutti` is tested, and no GPU."""
    return os.environ["CASE_BACKEND"] == "tutti"


def here():
    """This rank's emulated GPU; with the backend `tutti` the CPU."""
    return torch.device("cpu") if over_tutti() else torch.device("cuda", dist.get_rank())


def synchronize():
    """Waits for this rank's GPU."""
    if not over_tutti():
        torch.cuda.synchronize()


@contextlib.contextmanager
def over_gloo():
    """With the backend `tutti`, whose tensors are on the CPU too, Gloo has a world of its own."""
    if not over_tutti():
        yield
        return
    groups = dist.distributed_c10d
    world = dist.group.WORLD
    groups._update_default_pg(_gloo_world())
    try:
        yield
    finally:
        groups._update_default_pg(world)


@functools.cache
def _gloo_world():
    return dist.new_group(backend="gloo")


def on_host(result):
    """The tensors of a result, on the CPU, in its order; what is no tensor stays."""

    def plain(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if hasattr(leaf, "full_tensor"):
            leaf = leaf.full_tensor()
        return leaf.detach().cpu().clone()

    return [plain(leaf) for leaf in tree_leaves(result)]


def check_equal(actual, expected, tolerance=0.0):
    """Tensors are equal where `tolerance` is 0; otherwise they differ by so much at most, relative and absolute."""
    actual, expected = on_host(actual), on_host(expected)
    assert len(actual) == len(expected), f"{len(actual)} results, not {len(expected)}"
    assert actual, "a case without a result shows nothing"
    for index, (one, other) in enumerate(zip(actual, expected)):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(
                one, other, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda text: f"result {index}: {text}"
            )
        else:
            assert one == other, f"result {index}: {one!r}, not {other!r}"


class Cases(list):
    """The cases of a module, in order."""

    def _add(self, function, name, run, **options):
        self.append(Case(name=f"{function.__name__}{name}", run=run, **options))

    def compared(self, over=(None,), tolerance=0.0, **options):
        """function(device[, value]) runs on the CPU, over Gloo, and on the GPU, over our library: equal results.

        `over` is what it runs with; `tolerance` may depend on that.
        """

        def add(function):
            for value in over:
                self._add(function, *_compared(function, value, tolerance), **options)
            return function

        return add

    def checked(self, over=(None,), **options):
        """function([value]) checks by itself what comes out."""

        def add(function):
            for value in over:
                arguments = () if value is None else (value,)
                self._add(function, _suffix(value), lambda arguments=arguments: function(*arguments), **options)
            return function

        return add


def _suffix(value):
    if value is None:
        return ""
    text = "-".join(str(part) for part in value) if isinstance(value, tuple) else str(value)
    return f"[{text.replace('torch.', '').replace('RedOpType.', '')}]"


def _compared(function, value, tolerance):
    arguments = () if value is None else (value,)
    bound = tolerance(value) if callable(tolerance) else tolerance

    def run():
        with over_gloo():
            expected = function(torch.device("cpu"), *arguments)
        actual = function(here(), *arguments)
        check_equal(actual, expected, bound)

    return _suffix(value), run
