"""Random numbers of CUDA generators, drawn on the CPU.

A CUDA generator is a seed and an offset. The CPU's generator is seeded by both, and the offset goes on, so that
manual_seed(), get_rng_state() and set_rng_state() of PyTorch do what they say, and equal states draw equal numbers.
"""

import contextlib

import torch

# By how much the offset of a generator goes on at each call; PyTorch wants multiples of 4.
_STEP = 4
_LARGEST_SEED = 2**63


def _generator_of(device, leaves):
    for leaf in leaves:
        if isinstance(leaf, torch.Generator):
            return leaf if leaf.device.type == "cuda" else None
    return torch.cuda.default_generators[device.index]


@contextlib.contextmanager
def seeded_as(device, leaves, random):
    """Within it, the CPU's generator, also the default one, draws what the call's CUDA generator is to draw."""
    if not random:
        yield None
        return
    generator = _generator_of(device, leaves)
    if generator is None:
        yield next(leaf for leaf in leaves if isinstance(leaf, torch.Generator))
        return
    offset = generator.get_offset()
    with torch.random.fork_rng(devices=[]):
        seed = (generator.initial_seed() * 6364136223846793005 + offset) % _LARGEST_SEED
        yield torch.default_generator.manual_seed(seed)
    generator.set_offset(offset + _STEP)
