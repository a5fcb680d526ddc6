"""Operations on tensors of emulated GPUs, computed on the CPU.

The emulation runs Tutti's kernels, and none of PyTorch's. install() gives PyTorch's dispatcher a CUDA kernel for
every operator that has one: it waits for the current stream, copies the tensors to the CPU, computes there and copies
the results back. So autograd's threads, DTensor and the C++ code of DistributedDataParallel have them too.

PyTorch's own kernels stay where they start nothing on a GPU: allocation, views, copies of contiguous memory.
"""

import warnings

import torch
from torch.utils._pytree import tree_leaves, tree_map

import batch_norm
import softmax
from borrowed_tensors import BorrowedTensors, to_device
from cpu_random import seeded_as

# They allocate, make views, or copy memory by the runtime's calls.
_OWN = {
    "aten::empty.memory_format", "aten::empty_strided", "aten::_efficientzerotensor", "aten::as_strided", "aten::view",
    "aten::_reshape_alias", "aten::unfold", "aten::view_as_real", "aten::view_as_complex",
    "aten::_nested_view_from_buffer", "aten::set_", "aten::set_.source_Storage",
    "aten::set_.source_Storage_storage_offset", "aten::set_.source_Tensor", "aten::is_set_to", "aten::resize_",
    "aten::record_stream", "aten::_local_scalar_dense",
}  # fmt: skip

# They have one kernel for all devices, which starts a kernel of CUDA or calls its libraries.
_OF_ALL_DEVICES = ["aten::convolution", "aten::convolution_backward"]

# Arguments that an operator writes although its schema does not say so.
_WRITTEN = {"running_mean", "running_var"}


def _overload(name):
    name, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")


class _Operation:
    """The CUDA kernel of one operator."""

    def __init__(self, operator):
        self._operator = operator
        self._random = torch.Tag.nondeterministic_seeded in operator.tags
        self._arguments = operator._schema.arguments

    def _written(self, args, kwargs):
        for index, argument in enumerate(self._arguments):
            writes = argument.alias_info is not None and argument.alias_info.is_write
            if writes or argument.name in _WRITTEN:
                value = args[index] if index < len(args) else kwargs.get(argument.name)
                yield from (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))

    def __call__(self, *args, **kwargs):
        leaves = tree_leaves((args, kwargs))
        borrowed = BorrowedTensors([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])
        device = borrowed.device or torch.device(kwargs.get("device") or "cuda")
        if device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        with seeded_as(device, leaves, self._random) as generator:

            def on_host(value):
                if isinstance(value, torch.Tensor):
                    return borrowed.host(value)
                if isinstance(value, torch.device):
                    return torch.device("cpu")
                return generator if isinstance(value, torch.Generator) else value

            with torch._C._AutoDispatchBelowAutograd():
                result = self._operator(*tree_map(on_host, args), **tree_map(on_host, kwargs))
        for tensor in self._written(args, kwargs):
            borrowed.give_back(tensor)

        def on_device(value):
            if not isinstance(value, torch.Tensor):
                return value
            origin = borrowed.origin(value)
            return to_device(value, device) if origin is None else origin

        return tree_map(on_device, result)


def _is_one_piece(tensor):
    return tensor.layout == torch.strided and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


class _Copy:
    """copy_(): by PyTorch's own kernel where that is a copy of memory, otherwise on the CPU."""

    def __init__(self):
        self._own = torch.library.get_kernel("aten::copy_", "CUDA")
        self._on_host = _Operation(torch.ops.aten.copy_.default)

    def __call__(self, keys, target, source, non_blocking=False):
        alike = target.dtype == source.dtype and target.shape == source.shape
        sparse = target.layout != torch.strided or source.layout != torch.strided
        if sparse or (alike and _is_one_piece(target) and _is_one_piece(source)):
            return self._own.call_boxed(keys, target, source, non_blocking)
        return self._on_host(target, source, non_blocking)


def _refusal(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name} has no kernel for the CPU, and runs not on emulated GPUs")

    return refuse


def _kernel(name, operator):
    if torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        return _Operation(operator)
    return _refusal(name)


def _choose_plain_libraries():
    """Convolution, normalization and attention of PyTorch's own operators, not of cuDNN and fused kernels."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)


def install():
    """Registers the operations; returns what holds the registrations, for as long as they are to be there."""
    _choose_plain_libraries()
    library = torch.library.Library("aten", "IMPL", "CUDA")
    special = {**batch_norm.operations(), **softmax.operations(lambda name: _Operation(_overload(name)))}
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    names = [name for name in names if name.startswith("aten::")]
    copy = _Copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(set(names) - _OWN) + _OF_ALL_DEVICES:
            operator = _overload(name)
            library.impl(operator, special.get(name) or _kernel(name, operator))
        library.impl(torch.ops.aten.copy_.default, copy, with_keyset=True)
    return library
