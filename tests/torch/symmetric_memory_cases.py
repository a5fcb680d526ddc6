"""Symmetric memory as far as it goes: memory that every rank can get at, its peers' buffers, and the sentence where it
ends. What reads and writes peers in PyTorch is kernels, which cannot run on the emulation.
"""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

from cases import Cases, check_equal, here
from collectives_cases import COUNT, numbers, of_all
from groups_cases import open_world

CASES = Cases()


def rendezvous(backend):
    open_world()
    symmetric_memory.set_backend(backend)
    tensor = symmetric_memory.empty(COUNT, device=here())
    tensor.copy_(numbers(torch.float32))
    handle = symmetric_memory.rendezvous(tensor, dist.group.WORLD.group_name)
    torch.cuda.synchronize()
    dist.barrier()
    return tensor, handle


@CASES.checked(["NCCL"], alone=True)
def peers_buffers(backend):
    """Each rank has its own buffer. Those of other processes are not mapped, and PyTorch says so."""
    _, handle = rendezvous(backend)
    size = dist.get_world_size()
    assert (handle.rank, handle.world_size) == (dist.get_rank(), size)
    for of, expected in enumerate(of_all(torch.float32)):
        if of == handle.rank:
            check_equal(handle.get_buffer(of, (COUNT,), torch.float32), expected)
            continue
        try:
            handle.get_buffer(of, (COUNT,), torch.float32)
        except RuntimeError as refusal:
            assert "Cannot get buffer across nodes" in str(refusal), refusal
        else:
            raise AssertionError(f"the buffer of rank {of} is mapped: compare it")
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()


@CASES.checked(["NCCL"], alone=True)
def collectives_of_symmetric_memory(backend):
    """Collectives of the process group on it are those on any memory."""
    tensor, _ = rendezvous(backend)
    dist.all_reduce(tensor)
    check_equal(tensor, sum(of_all(torch.float32)))
    dist.destroy_process_group()
