// The conformance suite over whatever UCX's variables say, with a process for each rank. A guest
// runs it, over one RDMA transport at a time; elsewhere UCX would use shared memory.

#include "tests/transports/conformance.h"
#include "tests/transports/ucx/fabrics.h"

namespace tutti::tests {

INSTANTIATE_TEST_SUITE_P(Rdma, TransportTest, ::testing::Values(ucxEverythingProcesses),
                         fabricName);

}  // namespace tutti::tests
