"""Sub-groups, split and shrunk ones, several at once, and how process groups are set up and ended."""

import datetime
import os

import torch
import torch.distributed as dist

import rendezvous
from cases import OVER_NCCL, Cases, check_equal, over_tutti, synchronize
from cases import here as own_device
from collectives_cases import COUNT, numbers

CASES = Cases()


def total(ranks, count=COUNT):
    return sum(numbers(torch.float32, count, rank) for rank in ranks)


def check_sum(group, ranks):
    tensor = numbers(torch.float32).to(own_device())
    dist.all_reduce(tensor, group=group)
    check_equal(tensor, total(ranks))


@CASES.checked()
def new_group():
    size, rank = dist.get_world_size(), dist.get_rank()
    halves = [list(range(0, size, 2)), list(range(1, size, 2))]
    groups = [dist.new_group(ranks) for ranks in halves]
    check_sum(groups[rank % 2], halves[rank % 2])
    check_sum(dist.group.WORLD, range(size))
    dist.destroy_process_group(groups[rank % 2])
    check_sum(dist.group.WORLD, range(size))


@CASES.checked()
def several_groups_at_once():
    """Asynchronous collectives of four groups of the same ranks."""
    size = dist.get_world_size()
    groups = [dist.new_group(list(range(size))) for _ in range(4)]
    tensors = [numbers(torch.float32, 1000 + index).to(own_device()) for index in range(4)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in zip(tensors, groups)]
    for work in works:
        work.wait()
    check_equal(tensors, [total(range(size), 1000 + index) for index in range(4)])
    synchronize()
    for group in groups:
        dist.destroy_process_group(group)


@CASES.checked()
def overlapping_groups():
    size, rank = dist.get_world_size(), dist.get_rank()
    pairs = [[of, (of + 1) % size] for of in range(size)]
    groups = [dist.new_group(sorted(pair)) for pair in pairs]
    for pair, group in zip(pairs, groups):
        if rank in pair:
            check_sum(group, pair)
    synchronize()
    for pair, group in zip(pairs, groups):
        if rank in pair:
            dist.destroy_process_group(group)


@CASES.checked()
def subgroup_of_one():
    group, _ = dist.new_subgroups(group_size=1)
    check_sum(group, [dist.get_rank()])


def open_world(device_id=True, others="", **options):
    """The default group, of the implementation that is tested, and of others for other devices."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if over_tutti():
        store = rendezvous.store(os.environ["CASE_FOLDER"], rank, size)
        dist.init_process_group("tutti", store=store, rank=rank, world_size=size, **options)
        return dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    dist.init_process_group(
        f"{others}cuda:{os.environ['CASE_BACKEND']}", store=rendezvous.store(os.environ["CASE_FOLDER"], rank, size),
        rank=rank, world_size=size, device_id=torch.device("cuda", rank) if device_id else None, **options,
    )  # fmt: skip
    return dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda"))


@CASES.checked(alone=True, backends=OVER_NCCL)
def set_up_at_once():
    """With device_id the communicator is made in init_process_group()."""
    backend = open_world()
    assert backend._comm_ptr() != 0
    check_sum(None, range(dist.get_world_size()))
    dist.destroy_process_group()


@CASES.checked(alone=True)
def new_group_splits():
    """Of a group that is set up at once, new_group() is ncclCommSplit(), which the older implementation counts."""
    backend = open_world()
    size, rank = dist.get_world_size(), dist.get_rank()
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    groups = [dist.new_group(ranks) for ranks in halves]
    mine = 0 if rank < size // 2 else 1
    check_sum(groups[mine], halves[mine])
    if os.environ["CASE_BACKEND"] == "nccl-legacy":
        assert backend.comm_split_count() > 0, "new_group() has made a communicator anew"
    dist.destroy_process_group()


@CASES.checked(alone=True)
def split_group():
    open_world()
    size, rank = dist.get_world_size(), dist.get_rank()
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    mine = 0 if rank < size // 2 else 1
    group = dist.split_group(split_ranks=halves)
    check_sum(group, halves[mine])
    check_sum(None, range(size))
    dist.destroy_process_group()


@CASES.checked(alone=True, backends=OVER_NCCL)
def nonblocking():
    """blocking = 0: calls return at once, and PyTorch asks until they are done."""
    options = dist.ProcessGroupNCCL.Options()
    options.config.blocking = 0
    open_world(pg_options=options)
    size, rank = dist.get_world_size(), dist.get_rank()
    for _ in range(3):
        check_sum(None, range(size))
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    mine = 0 if rank < size // 2 else 1
    groups = [dist.new_group(ranks) for ranks in halves]
    check_sum(groups[mine], halves[mine])
    dist.destroy_process_group()


@CASES.checked(alone=True, backends=OVER_NCCL)
def configured():
    options = dist.ProcessGroupNCCL.Options()
    options.is_high_priority_stream = True
    options.config.min_ctas, options.config.max_ctas, options.config.cga_cluster_size = 1, 4, 2
    open_world(pg_options=options)
    check_sum(None, range(dist.get_world_size()))
    dist.destroy_process_group()


@CASES.checked(alone=True)
def again_after_the_end():
    """init_process_group() and destroy_process_group() three times in one process."""
    folder = os.environ["CASE_FOLDER"]
    for turn in range(3):
        os.environ["CASE_FOLDER"] = f"{folder}/{turn}"
        os.makedirs(os.environ["CASE_FOLDER"], exist_ok=True)
        open_world(device_id=turn != 1)
        check_sum(None, range(dist.get_world_size()))
        dist.destroy_process_group()


@CASES.checked(alone=True)
def not_destroyed():
    """A program that ends without destroy_process_group() ends all the same."""
    open_world()
    check_sum(None, range(dist.get_world_size()))
    synchronize()


@CASES.checked(alone=True)
def aborted():
    """abort() on all ranks; then a new process group."""
    open_world()
    check_sum(None, range(dist.get_world_size()))
    dist.distributed_c10d._abort_process_group()
    os.environ["CASE_FOLDER"] += "/again"
    os.makedirs(os.environ["CASE_FOLDER"], exist_ok=True)
    open_world()
    check_sum(None, range(dist.get_world_size()))
    dist.destroy_process_group()


@CASES.checked(alone=True, ranks=(4,), backends=OVER_NCCL)
def shrunk():
    """shrink_group(): the last rank ends, as PyTorch wants it, and the others go on."""
    open_world()
    check_sum(None, range(4))
    synchronize()
    rank = dist.get_rank()
    if rank == 3:
        return
    dist.shrink_group([3])
    assert dist.get_world_size() == 3
    check_sum(None, range(3))
    dist.destroy_process_group()


@CASES.checked(alone=True)
def timeout_of_the_wait():
    """A wait for what has come in time does not end early."""
    open_world(timeout=datetime.timedelta(seconds=30))
    tensor = numbers(torch.float32).to(own_device())
    dist.all_reduce(tensor, async_op=True).wait(datetime.timedelta(seconds=20))
    check_equal(tensor, total(range(dist.get_world_size())))
    dist.destroy_process_group()
