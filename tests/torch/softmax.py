"""Softmax of half numbers with results of float, as autocast asks for it: PyTorch has that for CUDA alone."""


def _forward(operation):
    def kernel(input, dim, half_to_float):
        return operation(input.float() if half_to_float else input, dim, False)

    return kernel


def _backward(operation):
    def kernel(grad_output, output, dim, input_dtype):
        return operation(grad_output, output, dim, grad_output.dtype).to(input_dtype)

    return kernel


def operations(on_host):
    """on_host(name) is the operator of that name, computed on the CPU."""
    return {
        "aten::_softmax": _forward(on_host("aten::_softmax")),
        "aten::_log_softmax": _forward(on_host("aten::_log_softmax")),
        "aten::_softmax_backward_data": _backward(on_host("aten::_softmax_backward_data")),
        "aten::_log_softmax_backward_data": _backward(on_host("aten::_log_softmax_backward_data")),
    }
