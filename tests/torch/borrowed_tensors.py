"""CPU copies of the CUDA tensors that one operation is called with, and the way back.

Tensors that share memory on the GPU share it here too, so that views and in-place operations behave alike. Of each
storage only the part is copied that the tensors of the call lie in.
"""

import torch

import device_memory

_ALIGNMENT = 16


def _extent(tensor):
    """The first byte of the storage that the tensor has, and the one after its last."""
    first = tensor.storage_offset() * tensor.element_size()
    if tensor.numel() == 0:
        return first, first
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return first, first + (last + 1) * tensor.element_size()


class _Part:
    """The part of one storage that a call needs."""

    def __init__(self, tensor):
        self.device = tensor.device
        self.base = tensor.untyped_storage().data_ptr()
        self.first, self.end = _extent(tensor)
        self.host = None

    def add(self, tensor):
        first, end = _extent(tensor)
        self.first, self.end = min(self.first, first), max(self.end, end)

    def read(self):
        self.first -= self.first % _ALIGNMENT
        self.host = torch.UntypedStorage(self.end - self.first)
        device_memory.read(self.device, self.base + self.first, self.end - self.first, self.host.data_ptr())

    def view(self, tensor):
        offset = (tensor.storage_offset() * tensor.element_size() - self.first) // tensor.element_size()
        view = torch.empty(0, dtype=tensor.dtype)
        if tensor.numel() == 0:
            return view.resize_(tensor.shape)
        view.set_(self.host, offset, tensor.shape, tensor.stride())
        if tensor.is_conj():
            view = view.conj()
        return torch._neg_view(view) if tensor.is_neg() else view


def to_device(tensor, device):
    """A tensor of the device with the values, the shape and, where they leave no gaps, the strides of this one."""
    tensor = tensor.resolve_conj().resolve_neg()
    if not torch.ops.aten.is_non_overlapping_and_dense.default(tensor):
        tensor = tensor.contiguous()
    result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    write(result, tensor)
    return result


def write(target, tensor):
    """Gives `target`, of a device, the memory of `tensor`, of the host, which has its shape and strides."""
    first, end = _extent(tensor)
    device_memory.write(
        target.device, target.data_ptr(), end - first, tensor.untyped_storage().data_ptr() + first
    )


class BorrowedTensors:
    """The CUDA tensors of one call, as tensors of the CPU."""

    def __init__(self, tensors):
        self._parts = {}
        self._pairs = {}
        tensors = [tensor for tensor in tensors if tensor.is_cuda]
        for tensor in tensors:
            key = self._key(tensor)
            if key in self._parts:
                self._parts[key].add(tensor)
            else:
                self._parts[key] = _Part(tensor)
        for part in self._parts.values():
            part.read()
        for tensor in tensors:
            self._pairs[id(tensor)] = (tensor, self._parts[self._key(tensor)].view(tensor))
        self._devices = {id(host): tensor for tensor, host in self._pairs.values()}
        self.device = tensors[0].device if tensors else None

    @staticmethod
    def _key(tensor):
        return tensor.device, tensor.untyped_storage().data_ptr()

    def host(self, tensor):
        """The copy of a tensor of the call."""
        return self._pairs[id(tensor)][1] if id(tensor) in self._pairs else tensor

    def origin(self, host):
        """The tensor of the call that this one is the copy of, or None."""
        return self._devices.get(id(host))

    def give_back(self, tensor):
        """Writes what the operation made of the copy of `tensor`, also if that has another shape now."""
        if not tensor.is_cuda:
            return
        host = self.host(tensor)
        if host.shape != tensor.shape:
            tensor.resize_(host.shape)
            host = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(host)
        elif host.stride() != tensor.stride():
            host = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(host)
        write(tensor, host)
