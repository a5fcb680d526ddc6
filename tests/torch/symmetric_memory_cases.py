"""Symmetric memory as far as it goes: memory that every rank can get at, and its peers' buffers. What PyTorch computes
there is kernels, which cannot run on the emulation.
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
    """Each rank reads the buffers of all, and writes to that of the next one."""
    tensor, handle = rendezvous(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (handle.rank, handle.world_size) == (rank, size)
    for of, expected in enumerate(of_all(torch.float32)):
        check_equal(handle.get_buffer(of, (COUNT,), torch.float32), expected)
    torch.cuda.synchronize()
    dist.barrier()
    handle.get_buffer((rank + 1) % size, (COUNT,), torch.float32).fill_(rank)
    torch.cuda.synchronize()
    dist.barrier()
    check_equal(tensor, torch.full((COUNT,), float((rank - 1) % size)))
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
