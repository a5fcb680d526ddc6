"""New arrays for results: of the kind of the array that is sent."""

from __future__ import annotations

import math
import sys
from typing import Any

from tutti import _core


def dtype_name(dtype: Any) -> str:
    """The name of a type that NumPy, ml_dtypes, PyTorch or a string names; empty for None."""
    if dtype is None:
        return ""
    name = dtype.__name__ if isinstance(dtype, type) else str(getattr(dtype, "name", dtype))
    name = name.removeprefix("torch.")
    return "float8_e4m3" if name == "float8_e4m3fn" else name


def numpy_dtype(name: str) -> Any:
    """NumPy's type of that name. The types that NumPy lacks come from ml_dtypes."""
    import numpy
    if name not in ("bfloat16", "float8_e4m3", "float8_e5m2"):
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"an array of {name} needs the package ml_dtypes: pip install ml_dtypes, "
                        "or pass recv") from None
    return numpy.dtype(getattr(ml_dtypes, "float8_e4m3fn" if name == "float8_e4m3" else name))


def empty_like(array: Any, shape: tuple[int, ...], own: str, dtype: str) -> Any:
    """A new array of that shape and of the type of `array`, which is `own`: a PyTorch tensor for a
    tensor, else NumPy's. Bytes with another `dtype` give an array of that type, of one
    dimension."""
    import numpy
    if dtype and dtype != own:
        bytes_ = math.prod(shape) * _core.size_of(own)
        return numpy.empty(bytes_ // _core.size_of(dtype), numpy_dtype(dtype))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return array.new_empty(shape, requires_grad=False)
    if isinstance(array, numpy.ndarray):
        return numpy.empty(shape, array.dtype)
    is_bool = "bool" in str(getattr(array, "dtype", "")) or getattr(array, "format", "") == "?"
    return numpy.empty(shape, bool if is_bool else numpy_dtype(own))


def empty_of(array: Any, count: int, own: str, dtype: str) -> Any:
    """A new array of so many elements of `dtype`, or else of the type of `array`, which is
    `own`."""
    import numpy
    if dtype and dtype != own:
        return numpy.empty(count, numpy_dtype(dtype))
    return empty_like(array, (count,), own, "")


def scaled(shape: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    """That of as many arrays one after the other along the first axis."""
    return (shape[0] * ranks, *shape[1:]) if shape else (ranks,)


def divided(shape: tuple[int, ...], ranks: int, name: str) -> tuple[int, ...]:
    """That of one of so many equal parts along the first axis."""
    if not shape or shape[0] % ranks != 0:
        raise ValueError(f"{name}: its first axis of {shape[0] if shape else 0} cannot be divided "
                         f"among {ranks} ranks; pad the array, or pass recv")
    return (shape[0] // ranks, *shape[1:])
