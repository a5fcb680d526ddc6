// The conformance suite over shared memory, with threads and with processes.

#include "tests/transports/conformance.h"
#include "tests/transports/shm/fabrics.h"

namespace tutti::tests {

INSTANTIATE_TEST_SUITE_P(Shm, TransportTest, ::testing::Values(shmThreads, shmProcesses),
                         fabricName);

}  // namespace tutti::tests
