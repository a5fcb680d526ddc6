// The conformance suite over UCX: TCP between threads and between processes, and whatever else UCX
// finds on this machine.

#include "tests/transports/conformance.h"
#include "tests/transports/ucx/fabrics.h"

namespace tutti::tests {

INSTANTIATE_TEST_SUITE_P(Ucx, TransportTest,
                         ::testing::Values(ucxThreads, ucxEverything, ucxProcesses), fabricName);

}  // namespace tutti::tests
