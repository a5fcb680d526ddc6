// The conformance suite over whatever UCX's variables say. A guest runs it, over one RDMA transport
// at a time; elsewhere UCX would use shared memory.

#include "tests/transports/conformance.h"
#include "tests/transports/ucx_fabrics.h"

namespace tutti::tests {

INSTANTIATE_TEST_SUITE_P(Rdma, TransportTest,
                         ::testing::Values(ucxEverything, ucxEverythingProcesses), fabricName);

}  // namespace tutti::tests
