#!/usr/bin/env python3
"""Sums a vector over all GPUs with nccl4py."""

import numpy
import nccl.core as nccl
from cuda.core import Device, LegacyPinnedMemoryResource

COUNT = 1000


class Vector:
    """Floats on a GPU, and pinned memory of the host to fill and read them."""

    def __init__(self, device):
        self.stream = device.create_stream()
        self.memory = nccl.mem_alloc(4 * COUNT)
        self.staged = LegacyPinnedMemoryResource().allocate(4 * COUNT)
        self.host = numpy.from_dlpack(self.staged).view(numpy.float32)
        self.__cuda_array_interface__ = {
            "shape": (COUNT,), "typestr": "<f4", "data": (int(self.memory.handle), False),
            "stream": None, "version": 3}

    def fill(self, value):
        self.host[:] = value
        self.staged.copy_to(self.memory, stream=self.stream)

    def read(self):
        self.memory.copy_to(self.staged, stream=self.stream)
        self.stream.sync()
        return self.host


devices = Device.get_all_devices()
count = len(devices)
communicators = nccl.Communicator.init_all(count)
vectors = []
for index, device in enumerate(devices):
    device.set_current()
    vectors.append(Vector(device))
    vectors[index].fill(index + 1)
with nccl.group():
    for communicator, vector in zip(communicators, vectors):
        communicator.allreduce(vector, vector, nccl.SUM, stream=vector.stream)
for index, vector in enumerate(vectors):
    devices[index].set_current()
    assert (vector.read() == count * (count + 1) / 2).all(), vector.host
    print(f"GPU {index} of {count}: {vector.host[0]:g}")
for communicator in communicators:
    communicator.destroy()
