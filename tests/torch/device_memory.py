"""Reads and writes memory of emulated GPUs by cudaMemcpyAsync, on the current stream, and waits for it.

PyTorch's own copies go through the dispatcher, which cpu_operations.py has overridden; these do not.
"""

import ctypes

import torch

_HOST_TO_DEVICE = 1
_DEVICE_TO_HOST = 2
_NOT_CAPTURING = 0


class _Runtime:
    """The functions of the CUDA runtime that this process has loaded, by LD_PRELOAD."""

    def __init__(self):
        library = ctypes.CDLL(None)
        self.copy = library.cudaMemcpyAsync
        self.copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.wait = library.cudaStreamSynchronize
        self.wait.argtypes = [ctypes.c_void_p]
        self.capturing = library.cudaStreamIsCapturing
        self.capturing.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        self.text = library.cudaGetErrorString
        self.text.argtypes = [ctypes.c_int]
        self.text.restype = ctypes.c_char_p

    def check(self, status, call):
        if status != 0:
            raise RuntimeError(f"{call}: {self.text(status).decode()}")


_runtime = _Runtime()


def _transfer(device, to, source, size, kind):
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        state = ctypes.c_int()
        _runtime.check(_runtime.capturing(stream, ctypes.byref(state)), "cudaStreamIsCapturing")
        if state.value != _NOT_CAPTURING:
            raise RuntimeError(
                "an operation that is computed on the CPU cannot be captured in a CUDA graph: capture copies and "
                "collectives alone"
            )
        _runtime.check(_runtime.copy(to, source, size, kind, stream), "cudaMemcpyAsync")
        _runtime.check(_runtime.wait(stream), "cudaStreamSynchronize")


def read(device, pointer, size, into):
    """Copies `size` bytes at the device's `pointer` to the host's `into`, after what the current stream has."""
    if size:
        _transfer(device, into, pointer, size, _DEVICE_TO_HOST)


def write(device, pointer, size, source):
    """Copies `size` bytes of the host's `source` to the device's `pointer`, after what the current stream has."""
    if size:
        _transfer(device, pointer, source, size, _HOST_TO_DEVICE)
