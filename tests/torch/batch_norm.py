"""Operators of SyncBatchNorm that PyTorch has for CUDA alone, in terms of others."""

import torch


def _per_channel(input):
    """The dimensions that are not the channels', and a shape that broadcasts a value of each channel."""
    dims = [dim for dim in range(input.dim()) if dim != 1]
    return dims, [1, -1] + [1] * (input.dim() - 2)


def _wide(input):
    return input.float() if input.dtype in (torch.half, torch.bfloat16) else input


def stats(input, eps):
    dims, _ = _per_channel(input)
    variance, mean = torch.var_mean(_wide(input), dims, correction=0)
    return mean, torch.rsqrt(variance + eps)


def gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts):
    counts = counts.to(mean.dtype).reshape(-1, 1)
    total = counts.sum()
    variance = invstd.pow(-2) - eps
    all_mean = (mean * counts).sum(0) / total
    all_variance = ((variance + (mean - all_mean) ** 2) * counts).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(momentum * all_mean)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(momentum * all_variance * total / (total - 1))
    return all_mean, torch.rsqrt(all_variance + eps)


def elemt(input, weight, bias, mean, invstd, eps):
    _, shape = _per_channel(input)
    result = (_wide(input) - mean.view(shape)) * invstd.view(shape)
    if weight is not None:
        result = result * weight.view(shape)
    if bias is not None:
        result = result + bias.view(shape)
    return result.to(input.dtype)


def backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g):
    dims, shape = _per_channel(input)
    grad = _wide(grad_out)
    sum_dy = grad.sum(dims)
    sum_dy_xmu = (grad * (_wide(input) - mean.view(shape))).sum(dims)
    grad_weight = (sum_dy_xmu * invstd).to(weight.dtype) if weight is not None and weight_g else None
    grad_bias = sum_dy.to(weight.dtype) if weight is not None and bias_g else None
    return sum_dy, sum_dy_xmu, grad_weight, grad_bias


def backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    _, shape = _per_channel(input)
    total = count.sum()
    factor = invstd if weight is None else invstd * weight
    mean_dy = (sum_dy / total).view(shape)
    slope = (sum_dy_xmu / total * invstd**2).view(shape)
    result = (_wide(grad_out) - mean_dy - (_wide(input) - mean.view(shape)) * slope) * factor.view(shape)
    return result.to(input.dtype)


def operations():
    """They are made of operators that have CUDA kernels of their own by then."""
    return {
        "aten::batch_norm_stats": stats,
        "aten::batch_norm_gather_stats_with_counts": gather_stats_with_counts,
        "aten::batch_norm_elemt": elemt,
        "aten::batch_norm_backward_reduce": backward_reduce,
        "aten::batch_norm_backward_elemt": backward_elemt,
    }
