// The runtime's tests with NVIDIA's runtime and a GPU, as one source for nvcc: what passes here and
// with the stand-in shows that the two behave alike. Usage: runtime_test_on_gpu [GoogleTest's
// flags].

#include "tests/emulation/tests/runtime_context_test.cc"
#include "tests/emulation/tests/runtime_device_test.cc"
#include "tests/emulation/tests/runtime_driver_stream_test.cc"
#include "tests/emulation/tests/runtime_driver_test.cc"
#include "tests/emulation/tests/runtime_graph_launch_test.cc"
#include "tests/emulation/tests/runtime_graph_test.cc"
#include "tests/emulation/tests/runtime_ipc_test.cc"
#include "tests/emulation/tests/runtime_kernel_handle_test.cc"
#include "tests/emulation/tests/runtime_memory_test.cc"
#include "tests/emulation/tests/runtime_stream_test.cc"
