// The conformance suite over two transports that are joined into one endpoint.

#include "tests/transports/conformance.h"
#include "tests/transports/joined/fabrics.h"

namespace tutti::tests {

INSTANTIATE_TEST_SUITE_P(Joined, TransportTest, ::testing::Values(joinedThreads), fabricName);

}  // namespace tutti::tests
